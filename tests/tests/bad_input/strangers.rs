//! Sockets, locks and numbers of processes that belong to somebody else by now, and bridges of another release.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use drowse_runtime::home::SessionName;
use drowse_runtime::lock::Lock;
use drowse_runtime::process::ProcessIdentity;
use drowse_runtime::record::{self, State, StateRecord};
use drowse_tests::harness::{Home, Session, at_once, belonging_to};
use serde_json::json;

use super::bystander::{Bystander, failure};
use super::confined::Confined;

/// Limits that let a test come to what happens when they are over.
fn brief() -> serde_json::Value {
    json!({"connectTimeoutSecs": 1, "stopGraceSecs": 1})
}

fn name() -> SessionName {
    SessionName::new("s").unwrap()
}

/// A program that has nothing to do with drowse.
#[derive(Debug)]
struct Stranger(Child);

impl Stranger {
    fn new() -> Self {
        Self(Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap())
    }

    /// One that holds a lock of ours.
    fn holding(lock: &Path) -> Self {
        let lock = Lock::try_acquire(lock).unwrap().expect("nobody has it");
        let mut command = Command::new("sleep");
        command.arg("600").stdin(Stdio::null());
        lock.hand_down(&mut command);
        Self(command.spawn().unwrap())
    }

    fn identity(&self) -> ProcessIdentity {
        ProcessIdentity::of(self.0.id()).unwrap()
    }

    #[track_caller]
    fn lives(&mut self) {
        assert_eq!(self.0.try_wait().unwrap(), None, "a stranger was ended");
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A session that was never started, and whose record says that this process was its bridge, and its server too.
fn said_to_be<'h>(home: &'h Home, bridge: &ProcessIdentity) -> Session<'h> {
    let session = home.connect_entry("@s", &["--lazy"], brief(), &[]);
    let state = StateRecord {
        state: State::Live,
        generation: 7,
        marker: "0123456789abcdef0123456789abcdef".to_owned(),
        bridge: Some(bridge.clone()),
        server_pid: Some(bridge.pid),
        ended: false,
        ..StateRecord::dormant()
    };
    record::write_state(home.files(), &name(), &state).unwrap();
    session
}

#[test]
fn a_pid_that_is_another_programs_by_now() {
    at_once(["ping", "restart", "close", "clean"].map(|verb| (verb, verb)), |verb| {
        let home = Home::new();
        let mut stranger = Stranger::new();
        let now = stranger.identity();
        // The number, and all else it is known by; each alone must not be enough.
        let before = ProcessIdentity { started: now.started.saturating_sub(5), ..now.clone() };
        let elsewhere = ProcessIdentity { pid_ns: now.pid_ns + 1, ..now.clone() };
        let another_boot = ProcessIdentity { boot_id: "another".to_owned(), ..now };
        for recorded in [before, elsewhere, another_boot] {
            let session = said_to_be(&home, &recorded);
            let listed = session.listed();
            assert!(listed.get("pid").is_none() && listed["status"] != "live", "{listed}");
            match verb {
                "clean" => drop(home.run(["clean", "all", "--json"]).ok()),
                verb => drop(session.run([verb]).ok()),
            }
            stranger.lives();
            home.run(["clean", "all"]).ok();
            stranger.lives();
        }
    });
}

#[test]
fn a_stale_socket() {
    let home = Home::new();
    let session = home.connect("@s", &[], &[]);
    session.kill_bridge();
    let socket = home.files().socket_file(&name());
    assert!(socket.exists(), "a killed bridge leaves its socket");
    session.run(["ping"]).ok();
    session.kill_bridge();
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "this is no socket").unwrap();
    session.run(["ping"]).ok();
    assert_eq!(session.starts(), 3);
}

#[test]
fn a_socket_that_is_another_programs() {
    let home = Home::new();
    let session = home.connect_entry("@s", &[], brief(), &[]);
    session.kill_bridge();
    let socket = home.files().socket_file(&name());
    for answer in ["HTTP/1.1 400 Bad Request\r\n\r\n", "{}\n", "\n", ""] {
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = BufReader::new(stream.try_clone().unwrap()).read_line(&mut String::new());
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        session.run(["ping"]).ok();
        session.kill_bridge();
    }
    // One that takes connections and says nothing.
    fs::remove_file(&socket).unwrap();
    let _silent = UnixListener::bind(&socket).unwrap();
    session.run(["ping"]).ok();
}

#[test]
fn a_lock_that_is_another_programs() {
    at_once(["start", "bridge"].map(|which| (which, which)), |which| {
        let home = Home::new();
        let other = Bystander::of(&home);
        let session = home.connect_entry("@s", &["--lazy"], brief(), &[]);
        let lock = home.files().root().join(format!("locks/s.{which}"));
        let mut stranger = Stranger::holding(&lock);
        let says = [&*lock.display().to_string(), "end it", "then try again"];
        let run = session.run(["ping"]);
        let document = failure(&run, 3, "storage", &says);
        assert_eq!(document["ran"], "no");
        assert!(run.took < Duration::from_secs(30), "{:?}", run.took);
        // A listing looks at no lock.
        assert_eq!(session.listed()["status"], "dormant");
        stranger.lives();
        other.noticed_nothing();
        drop(stranger);
        session.run(["ping"]).ok();
        assert_eq!(session.starts(), 1);
    });
}

#[test]
fn a_lock_file_with_something_in_it() {
    let home = Home::new();
    let session = home.connect("@s", &["--lazy"], &[]);
    for which in ["start", "bridge"] {
        fs::write(home.files().root().join(format!("locks/s.{which}")), "1\n\0garbage").unwrap();
    }
    session.run(["ping"]).ok();
    session.kill_bridge();
    session.run(["ping"]).ok();
    assert_eq!(session.starts(), 2);
}

/// A bridge that shares no version with us: it refuses every hello. It holds lock B, and its record names it.
struct OtherRelease {
    process: Arc<Mutex<Stranger>>,
}

impl OtherRelease {
    fn of(home: &Home, knows_how_to_leave: bool) -> Self {
        let process = Stranger::holding(&home.files().root().join("locks/s.bridge"));
        let mut state =
            record::read_state(home.files(), &name()).unwrap().unwrap_or_else(StateRecord::dormant);
        state.bridge = Some(process.identity());
        state.state = State::Live;
        record::write_state(home.files(), &name(), &state).unwrap();
        let socket = home.files().socket_file(&name());
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        let refused = json!({"versions": [7], "reason": "this bridge is drowse 9.0.0"});
        let refused = json!({"drowse": {"refused": refused}}).to_string();
        let process = Arc::new(Mutex::new(process));
        let shared = Arc::clone(&process);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut line = String::new();
                let _ = BufReader::new(stream.try_clone().unwrap()).read_line(&mut line);
                if line.contains("\"leave\"") && knows_how_to_leave {
                    shared.lock().unwrap().0.kill().unwrap();
                    return;
                }
                let _ = writeln!(stream, "{refused}");
            }
        });
        Self { process }
    }

    fn has_ended(&self) {
        assert!(self.process.lock().unwrap().0.wait().is_ok());
    }
}

#[test]
fn a_bridge_of_another_release() {
    let home = Home::new();
    let other = Bystander::of(&home);
    let session = home.connect_entry("@s", &["--lazy"], brief(), &[]);
    // It is busy, or does not know how to make room for another: it is left alone until the user says otherwise.
    for verb in ["restart", "close"] {
        let old = OtherRelease::of(&home, false);
        let says = ["another drowse version", "drowse 9.0.0", "drowse restart @s"];
        let document = failure(&session.call("tag", &["tag=a"]), 2, "unsupported", &says);
        assert_eq!(document["ran"], "no");
        assert_eq!(session.listed()["status"], "live");
        old.process.lock().unwrap().lives();
        session.run([verb]).ok();
        old.has_ended();
        if verb == "restart" {
            session.call("tag", &["tag=b"]).ok();
            session.kill_bridge();
        }
    }
    // One that leaves when it is asked to is replaced without a word.
    let session = home.connect_entry("@s", &["--lazy"], brief(), &[]);
    let old = OtherRelease::of(&home, true);
    session.call("tag", &["tag=c"]).ok();
    old.has_ended();
    assert_eq!(["a", "b", "c"].map(|tag| session.executions(tag)), [0, 1, 1]);
    other.noticed_nothing();
}

/// The bridge among the processes of a home.
fn bridge_of(home: &Home) -> rustix::process::Pid {
    let is_bridge = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == b"bridge-serve")
    };
    let pids: Vec<u32> = belonging_to(home.path()).into_iter().filter(is_bridge).collect();
    let [pid] = pids[..] else { panic!("{pids:?}") };
    rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

#[test]
fn a_home_shared_with_another_container() {
    use rustix::process::{Signal, kill_process};
    let home = Home::new();
    let Some(container) = Confined::processes() else { return };
    let session = home.session("@s");
    let target = home.write_entry("@s", brief(), &[]);
    container.run(&home, ["connect", &target, "@s", "--json"]).ok();
    // Out here it is a session like any other: it is listed, and used by whoever shares the files.
    assert_eq!(session.listed()["status"], "live");
    session.call("tag", &["tag=out"]).ok();
    container.run(&home, ["@s", "tools-call", "tag", "tag=in", "--json"]).ok();
    assert_eq!((session.starts(), session.executions("out"), session.executions("in")), (1, 1, 1));
    // Its bridge does not answer. Its number means nothing out here, so nobody is signalled.
    let bridge = bridge_of(&home);
    kill_process(bridge, Signal::STOP).unwrap();
    for verb in ["ping", "restart", "close"] {
        let run = session.run([verb]);
        let document = failure(&run, 3, "storage", &["another container", "there"]);
        assert_eq!(document["ran"], "no");
    }
    let stat = fs::read_to_string(format!("/proc/{}/stat", bridge.as_raw_nonzero())).unwrap();
    assert!(stat.contains(") T "), "it was signalled: {stat}");
    kill_process(bridge, Signal::CONT).unwrap();
    session.run(["ping"]).ok();
    assert_eq!(session.starts(), 1);
    // The container goes, and all its processes with it: the next use starts a fresh server out here.
    drop(container);
    session.call("tag", &["tag=after"]).ok();
    assert_eq!((session.starts(), session.executions("after")), (2, 1));
}
