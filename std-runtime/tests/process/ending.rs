//! Ending: whatever a server does to stay, its tree is gone after `kill` and `gone`.

use std::process::{Command, Stdio};
use std::time::Duration;

use drowse_runtime::process::{Tree, marked};
use tokio::io::{AsyncWriteExt, BufReader};

use crate::alone::{NOBODY, alone, children, line, rest, runs, script, soon, start, stat, until};

/// The numbers that a server writes, one a line.
async fn pids(tree: &mut Tree, count: usize) -> Vec<u32> {
    let mut output = BufReader::new(&mut tree.stdout);
    let mut pids = Vec::new();
    while pids.len() < count {
        pids.push(line(&mut output).await.parse().unwrap());
    }
    pids
}

/// Kills the tree, and sees that these processes of it do not run, and that nobody holds its output.
async fn end(mut tree: Tree, pids: &[u32]) {
    tree.control.kill();
    soon("gone", tree.control.gone()).await;
    assert!(tree.control.is_gone());
    for pid in pids {
        assert!(!runs(*pid), "{pid} was left behind");
    }
    rest(&mut tree.stdout).await;
    rest(&mut tree.stderr).await;
}

alone! {
    async fn it_may_ignore_the_end_of_input_and_every_signal() {
        let mut tree = start(&script("trap '' TERM HUP INT QUIT; exec 0<&-; echo $$; while :; do sleep 1000; done"));
        let seen = pids(&mut tree, 1).await;
        assert_eq!(seen, [tree.control.pid()]);
        tree.control.terminate();
        let (stdout, stderr) = (tree.stdout, tree.stderr);
        drop(tree.stdin);
        // The sleep has the default for TERM, and is started again: so the signal did arrive.
        assert!(!tree.control.is_gone());
        assert!(runs(tree.control.pid()));
        tree.control.kill();
        soon("gone", tree.control.gone()).await;
        assert!(!runs(seen[0]));
        drop((stdout, stderr));
    }

    async fn term_reaches_every_process_of_the_tree_exactly_once() {
        let text = r#"
            count() { count=0; trap 'count=$((count + 1)); echo "$1 $count"' TERM; echo "$1 ready"; while :; do sleep 0.01; done; }
            case "$1" in
                '') setsid sh -c "$0" "$0" session & sh -c "$0" "$0" group & (sh -c "$0" "$0" orphan &) ; count leader ;;
                *) count "$1" ;;
            esac"#;
        let mut wanted = script(text);
        // The script hands itself on to its children.
        wanted.args.push(text.to_owned());
        let mut tree = start(&wanted);
        let control = tree.control.clone();
        let mut output = BufReader::new(&mut tree.stdout);
        for _ in 0..4 {
            assert!(line(&mut output).await.ends_with("ready"));
        }
        control.terminate();
        let mut heard = Vec::new();
        for _ in 0..4 {
            heard.push(line(&mut output).await);
        }
        heard.sort_unstable();
        assert_eq!(heard, ["group 1", "leader 1", "orphan 1", "session 1"]);
        end(tree, &[]).await;
    }

    async fn grandchildren_in_other_sessions_are_ended() {
        let mut tree = start(&script(
            "setsid sh -c 'echo $$; sleep 1000 & echo $!; wait' & setsid sh -c 'setsid sleep 1000 & echo $!; wait' & wait",
        ));
        let seen = pids(&mut tree, 3).await;
        assert!(seen.iter().all(|pid| runs(*pid)));
        let mut survivors = tree.control.survivors();
        survivors.sort_unstable();
        assert!(seen.iter().all(|pid| survivors.contains(pid)), "{survivors:?} {seen:?}");
        end(tree, &seen).await;
    }

    async fn a_leader_may_leave_a_grandchild_with_its_output() {
        let mut tree = start(&script("(echo $$; exec sleep 1000) & echo $!; exit 3"));
        pids(&mut tree, 2).await;
        assert_eq!(soon("exit", tree.control.exited()).await.code(), Some(3));
        let leader = tree.control.pid();
        let left = tree.control.survivors();
        assert_eq!(left.len(), 1);
        assert!(!tree.control.is_gone());
        assert_eq!(stat(leader, 3).as_deref(), Some("Z"), "kept, so that its group is still its own");
        end(tree, &left).await;
        assert_eq!(stat(leader, 3), None, "reaped");
    }

    async fn a_tree_that_ends_by_itself_is_gone_with_its_last_process() {
        let mut tree = start(&script("exec 3<&0; (read line; exit 0) <&3 & exit 0"));
        assert!(soon("exit", tree.control.exited()).await.success());
        assert!(!tree.control.is_gone());
        tree.stdin.write_all(b"\n").await.unwrap();
        soon("gone", tree.control.gone()).await;
        assert_eq!(children(), NOBODY);
    }

    async fn daemons_without_environment_are_ended() {
        // Forked twice, own session, no environment, no output, other directory: nothing but descent is left.
        let mut tree = start(&script(
            "(setsid env -i sh -c 'cd /tmp; echo $$; exec sleep 1000 >/dev/null 2>&1' &); (env -i setsid sh -c 'echo $$; exec sleep 1001' &); sleep 1000",
        ));
        let seen = pids(&mut tree, 2).await;
        let us = std::process::id().to_string();
        until("handed to us", || seen.iter().all(|pid| stat(*pid, 4).as_ref() == Some(&us))).await;
        end(tree, &seen).await;
    }

    async fn daemons_of_a_leader_that_is_gone_are_ended() {
        let mut tree = start(&script("(setsid env -i sh -c 'echo $$; exec sleep 1000' &); exit 0"));
        let seen = pids(&mut tree, 1).await;
        soon("exit", tree.control.exited()).await;
        assert_eq!(tree.control.survivors(), seen);
        tree.control.terminate();
        soon("gone by TERM", tree.control.gone()).await;
        assert!(!runs(seen[0]));
    }

    async fn stopped_processes_are_ended() {
        let mut tree = start(&script("sleep 1000 & kill -STOP $!; echo $!; kill -STOP $$"));
        let seen = pids(&mut tree, 1).await;
        let leader = tree.control.pid();
        until("stopped", || stat(leader, 3).as_deref() == Some("T")).await;
        end(tree, &seen).await;
    }

    async fn orphans_are_reaped_while_the_server_runs() {
        let mut tree = start(&script("for n in 1 2 3; do (setsid sh -c 'echo $$' &); done; read line"));
        let seen = pids(&mut tree, 3).await;
        until("reaped", || seen.iter().all(|pid| stat(*pid, 3).is_none())).await;
        assert_eq!(children(), [tree.control.pid()]);
        assert!(!tree.control.is_gone());
        tree.stdin.write_all(b"\n").await.unwrap();
        soon("gone", tree.control.gone()).await;
    }

    async fn two_trees_do_not_touch_each_other() {
        let text = "(setsid sh -c 'echo $$; exec sleep 1000' &); read line; exit 5";
        let mut one = start(&script(text));
        let mut other = start(&script(text));
        let of_one = pids(&mut one, 1).await;
        let of_other = pids(&mut other, 1).await;
        end(one, &of_one).await;
        assert!(runs(of_other[0]));
        // Once the shell between the two has left.
        until("settled", || other.control.survivors().len() == 2).await;
        other.stdin.write_all(b"\n").await.unwrap();
        assert_eq!(soon("exit", other.control.exited()).await.code(), Some(5));
        assert!(!other.control.is_gone());
        end(other, &of_other).await;
    }

    async fn an_orphan_of_unknown_origin_goes_with_the_last_tree() {
        let mut one = start(&script("(setsid env -i sh -c 'echo $$; exec sleep 1000' &); read line"));
        let daemon = pids(&mut one, 1).await;
        let other = start(&script("read line"));
        one.control.kill();
        soon("gone", one.control.gone()).await;
        assert!(runs(daemon[0]), "it could be the other's");
        end(other, &daemon).await;
    }

    async fn dropping_the_last_control_ends_the_tree() {
        let wanted = script("(setsid sh -c 'echo $$; exec sleep 1000' &); sleep 1000");
        let mut tree = start(&wanted);
        let seen = pids(&mut tree, 1).await;
        let second = tree.control.clone();
        drop(tree);
        assert!(runs(seen[0]));
        drop(second);
        until("gone", || children().is_empty()).await;
        assert_eq!(marked(&wanted.marker).unwrap(), NOBODY);
    }

    async fn everybody_who_waits_is_told() {
        let tree = start(&script("sleep 1000"));
        let control = &tree.control;
        let waiting = async {
            let a = async { control.exited().await.code() };
            let b = async { control.exited().await.code() };
            tokio::join!(a, b, control.gone(), control.gone())
        };
        let (result, ()) = tokio::join!(waiting, async { control.kill() });
        assert_eq!((result.0, result.1), (None, None));
        control.kill();
        control.terminate();
        control.gone().await;
    }

    async fn an_idle_tree_wakes_nobody() {
        let mut tree = start(&script("echo; while read line; do :; done"));
        line(&mut BufReader::new(&mut tree.stdout)).await;
        // Everything that start-up still had to tell has been told once nothing is ready any more.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let switches = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap();
            line.split_once('\t').unwrap().1.parse::<u64>().unwrap()
        };
        let before = switches();
        // The time is what is measured here: one sleep is one wake-up, of this test's own making.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(switches() - before <= 2, "woken {} times", switches() - before);
        drop(tree.stdin);
        soon("gone", tree.control.gone()).await;
    }
}

/// Without being a subreaper: what lost its parent is known by its marker.
#[test]
fn without_a_subreaper_the_marker_finds_orphans() {
    let output =
        crate::alone::again("process::ending::no_subreaper").env("DROWSE_TEST_NO_SUBREAPER", "1").output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn no_subreaper() {
    if std::env::var_os("DROWSE_TEST_NO_SUBREAPER").is_none() {
        return;
    }
    crate::alone::within_runtime(async || {
        // A child of another making is left alone.
        let mut foreign =
            Command::new("sleep").arg("1000").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut tree = start(&script(
            "(setsid sh -c 'echo $$; (setsid sh -c \"echo \\$\\$; exec sleep 1000\"&) ; exec sleep 1000' &); exit 0",
        ));
        let seen = pids(&mut tree, 2).await;
        soon("exit", tree.control.exited()).await;
        assert!(!tree.control.is_gone());
        until("settled", || tree.control.survivors().len() == 2).await;
        end(tree, &seen).await;

        // And one that is not told to end is noticed when it does.
        let mut tree = start(&script("exec 3<&0; (setsid sh -c 'echo $$; read line' <&3 &); exit 0"));
        let seen = pids(&mut tree, 1).await;
        soon("exit", tree.control.exited()).await;
        assert!(!tree.control.is_gone());
        tree.stdin.write_all(b"\n").await.unwrap();
        soon("gone", tree.control.gone()).await;
        assert!(!runs(seen[0]));

        assert!(foreign.try_wait().unwrap().is_none());
        foreign.kill().unwrap();
        foreign.wait().unwrap();
    });
}
