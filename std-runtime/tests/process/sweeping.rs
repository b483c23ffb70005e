//! After the bridge was killed: what dies with it, and what the marker finds of the rest.

use std::io::{BufRead, BufReader, ErrorKind};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use drowse_runtime::process::{GENERATION_VARIABLE, ProcessIdentity, launch, marked, new_marker, sweep};

use crate::alone::{NOBODY, again, alone, children, reap_any, runs, script, until};

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// A shell that carries this marker and writes its number, and maybe more, before it waits.
fn carrier(variable: &str, value: &str, text: &str) -> (Child, u32) {
    let mut child = Command::new("sh");
    child.args(["-c", &format!("echo $$; {text}; while :; do sleep 1000; done")]);
    let mut child = child.env(variable, value).stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().parse().unwrap())
}

#[test]
fn only_what_carries_the_marker_is_swept() {
    let marker = new_marker();
    let others = [
        carrier(GENERATION_VARIABLE, &new_marker(), ":"),
        carrier(GENERATION_VARIABLE, &marker[..31], ":"),
        carrier(GENERATION_VARIABLE, &format!("{marker}0"), ":"),
        carrier("ANOTHER_VARIABLE", &format!("{GENERATION_VARIABLE}={marker}"), ":"),
        carrier("XDROWSE_GENERATION", &marker, ":"),
    ];
    assert_eq!(marked(&marker).unwrap(), NOBODY);
    assert_eq!(sweep(&marker, deadline()).unwrap().ended, 0);

    let (mut one, _) = carrier(GENERATION_VARIABLE, &marker, "trap '' TERM");
    let (mut two, _) = carrier(GENERATION_VARIABLE, &marker, "kill -STOP $$");
    let found = marked(&marker).unwrap();
    assert!(found.contains(&one.id()) && found.contains(&two.id()));
    assert!(sweep(&marker, deadline()).unwrap().ended >= 2);
    // They are zombies until we wait for them, and count as gone.
    assert_eq!(marked(&marker).unwrap(), NOBODY);
    assert_eq!(sweep(&marker, deadline()).unwrap().ended, 0);
    for child in [&mut one, &mut two] {
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(9));
    }
    for (mut child, pid) in others {
        assert!(runs(pid));
        sweep_shell(&mut child);
    }
}

/// Ends a shell and the sleep it waits for.
fn sweep_shell(child: &mut Child) {
    let pids: Vec<u32> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|pid| crate::alone::stat(*pid, 4) == Some(child.id().to_string()))
        .collect();
    child.kill().unwrap();
    child.wait().unwrap();
    for pid in pids {
        ProcessIdentity::of(pid).and_then(|left| left.end(Duration::from_secs(20))).unwrap();
    }
}

#[test]
fn what_is_below_a_marked_process_is_swept_too() {
    let marker = new_marker();
    let (mut child, _) = carrier(GENERATION_VARIABLE, &marker, "env -i setsid sleep 1000 & echo $!");
    // setsid forks only if it leads a group, which it does not here: so it became the sleep.
    let below = {
        let until = deadline();
        loop {
            let found = std::fs::read_dir("/proc")
                .unwrap()
                .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok())
                .find(|pid| {
                    crate::alone::stat(*pid, 4) == Some(child.id().to_string())
                        && std::fs::read(format!("/proc/{pid}/cmdline"))
                            .is_ok_and(|line| line == b"sleep\x001000\0")
                        && !marked(&marker).unwrap().contains(pid)
                });
            if let Some(pid) = found {
                break ProcessIdentity::of(pid).unwrap();
            }
            assert!(Instant::now() < until);
        }
    };
    assert!(sweep(&marker, deadline()).unwrap().ended >= 2);
    child.wait().unwrap();
    assert!(!below.is_alive());
}

#[test]
fn the_sweeper_itself_is_spared() {
    const INNER: &str = "process::sweeping::a_marked_sweeper";
    let marker = new_marker();
    let output = again(INNER).env(GENERATION_VARIABLE, &marker).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_marked_sweeper() {
    // By itself, with nothing to sweep, this is still a test: an empty marker is refused.
    let marker = std::env::var(GENERATION_VARIABLE).unwrap_or_default();
    if marker.is_empty() {
        assert_eq!(sweep(&marker, deadline()).unwrap_err().kind(), ErrorKind::InvalidInput);
        return;
    }
    let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
    assert_eq!(marked(&marker).unwrap(), [child.id()]);
    assert_eq!(sweep(&marker, deadline()).unwrap().ended, 1);
    child.wait().unwrap();
}

#[test]
fn a_killed_bridge_takes_the_leader_with_it_and_the_marker_finds_the_rest() {
    const INNER: &str = "process::sweeping::a_bridge_to_be_killed";
    let mut bridge = again(INNER).stdout(Stdio::piped()).env("DROWSE_TEST_BRIDGE", "1").spawn().unwrap();
    let mut output = BufReader::new(bridge.stdout.take().unwrap());
    let mut told = |name: &str| {
        let mut line = String::new();
        // libtest has things to say, too, and does not end its line.
        while !line.contains(name) {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "{name} was not told");
        }
        line.rsplit_once('=').unwrap().1.trim().to_owned()
    };
    let marker = told("marker=");
    let leader = ProcessIdentity::of(told("leader=").parse().unwrap()).unwrap();
    let child = ProcessIdentity::of(told("child=").parse().unwrap()).unwrap();
    let daemon = ProcessIdentity::of(told("daemon=").parse().unwrap()).unwrap();
    for one in [&leader, &child, &daemon] {
        assert!(one.is_alive());
    }
    bridge.kill().unwrap();
    bridge.wait().unwrap();
    let until = deadline();
    while leader.is_alive() {
        assert!(
            Instant::now() < until,
            "the leader ignores its input and TERM: only the kernel can have ended it"
        );
        std::thread::yield_now();
    }
    assert!(child.is_alive() && daemon.is_alive());
    let left = marked(&marker).unwrap();
    assert!(left.contains(&child.pid) && left.contains(&daemon.pid));
    // A shell on its way out can be among those left, and gone before it is swept: how many there are is not asked.
    assert!(sweep(&marker, deadline()).unwrap().ended >= 2);
    assert!(!child.is_alive() && !daemon.is_alive());
    assert_eq!(marked(&marker).unwrap(), NOBODY);
}

#[test]
fn a_bridge_to_be_killed() {
    if std::env::var_os("DROWSE_TEST_BRIDGE").is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let wanted = script(
            "trap '' TERM; sleep 1000 & echo child=$!; (setsid sh -c 'echo daemon=$$; exec sleep 1000' &); while :; do sleep 1000; done",
        );
        let mut tree = launch(&wanted).unwrap();
        println!("\nmarker={}\nleader={}", wanted.marker, tree.control.pid());
        tokio::io::copy(&mut tree.stdout, &mut tokio_stdout()).await.unwrap();
    });
}

/// Standard output, for tokio, without its `io-std`.
fn tokio_stdout() -> tokio::net::unix::pipe::Sender {
    tokio::net::unix::pipe::Sender::from_owned_fd(rustix::io::dup(std::io::stdout()).unwrap()).unwrap()
}

alone! {
    async fn sweeping_catches_those_that_fork_meanwhile() {
        let marker = new_marker();
        let text = "storm() { for n in $(seq 300); do setsid sleep 1000 & done; exec sleep 1000; }; storm & storm & storm & storm & wait";
        let mut child = Command::new("sh").args(["-c", text]).env(GENERATION_VARIABLE, &marker).spawn().unwrap();
        until("raging", || marked(&marker).unwrap().len() > 20).await;
        assert!(sweep(&marker, deadline()).unwrap().ended > 20);
        assert_eq!(marked(&marker).unwrap(), NOBODY);
        child.wait().unwrap();
        until("reaped", || {
            while reap_any() {}
            children().is_empty()
        })
        .await;
    }

    async fn sweeping_catches_those_that_move_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hopper");
        std::fs::write(&path, "sleep 0.05; setsid sh \"$0\" & exit 0\n").unwrap();
        let marker = new_marker();
        let mut child = Command::new("sh").arg(&path).env(GENERATION_VARIABLE, &marker).spawn().unwrap();
        child.wait().unwrap();
        until("hopping", || !marked(&marker).unwrap().is_empty()).await;
        // One sweep may come in the moment between two hops. Whether the last of them is over, our children tell.
        until("swept", || {
            sweep(&marker, deadline()).unwrap();
            while reap_any() {}
            children().is_empty()
        })
        .await;
        assert!(path.exists(), "it did not just run out of its script");
    }
}
