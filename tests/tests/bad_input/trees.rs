//! Servers that do not end, and those that leave others behind.

use drowse_runtime::record::State;
use drowse_tests::harness::{Home, Session, at_once, in_both_eras};
use serde_json::json;

use super::bystander::{Bystander, failure, is_not_there};

/// One second for each step of an end, so that a test need not wait for two.
fn brief() -> serde_json::Value {
    json!({"stopGraceSecs": 1})
}

/// That no process of its journal runs, this very moment.
#[track_caller]
fn nobody_is_left(session: &Session<'_>) {
    let entries = session.journal.entries().unwrap();
    let pids = entries.iter().filter(|entry| entry.event == "start").map(|entry| entry.pid);
    let left: Vec<u32> = pids.filter(|pid| is_running(*pid)).collect();
    assert_eq!(left, [] as [u32; 0]);
}

fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

#[test]
fn eof_and_term_are_ignored() {
    let home = Home::new();
    let other = Bystander::of(&home);
    let flags = ["--ignore-eof", "--ignore-term"];
    at_once(["close", "restart", "idle"].map(|way| (way, way)), |way| {
        let idle = if way == "idle" { "1" } else { "0" };
        let session = home.connect_entry(&format!("@{way}"), &["--idle-timeout", idle], brief(), &flags);
        match way {
            "close" => {
                session.run(["close"]).ok();
                nobody_is_left(&session);
            }
            "restart" => {
                session.run(["restart"]).ok();
                assert_eq!(session.starts(), 2);
            }
            _ => {
                session.wait_until_asleep();
                nobody_is_left(&session);
            }
        }
        let signalled = session.journal.entries().unwrap().iter().any(|entry| entry.event == "signal");
        assert!(signalled, "TERM comes before KILL");
    });
    other.noticed_nothing();
}

#[test]
fn it_ignores_everything_and_does_not_answer_either() {
    let home = Home::new();
    let entry = json!({"stopGraceSecs": 1, "connectTimeoutSecs": 1});
    let (session, run) =
        home.try_connect_entry("@s", &[], entry, &["--ignore-eof", "--ignore-term", "--silent"]);
    failure(&run, 3, "timeout", &["handshake within 1 s"]);
    nobody_is_left(&session);
    is_not_there(&session);
}

#[test]
fn it_forks_and_exits() {
    in_both_eras(|era| {
        let home = Home::new();
        let other = Bystander::of(&home);
        let (session, run) = home.try_connect_entry("@s", &[], brief(), &["--era", era, "--fork-and-exit"]);
        // Whoever serves in its place is none of its session, whether it got as far as an answer or not.
        if run.code == 0 {
            session.wait_until(|state| state.state == State::Crashed && state.ended);
            nobody_is_left(&session);
        } else {
            let document =
                failure(&run, 2, "start-failed", &["@s cannot be started: the server ended", "foreground"]);
            assert_eq!(document["ran"], "no");
            nobody_is_left(&session);
            is_not_there(&session);
        }
        other.noticed_nothing();
    });
}

#[test]
fn grandchildren_in_other_sessions() {
    let home = Home::new();
    let other = Bystander::of(&home);
    at_once(["close", "idle", "crash", "kill"].map(|way| (way, way)), |way| {
        let idle = if way == "idle" { "1" } else { "0" };
        let session = home.connect_entry(
            &format!("@{way}"),
            &["--idle-timeout", idle],
            brief(),
            &["--grandchild-setsid"],
        );
        match way {
            "close" => drop(session.run(["close"]).ok()),
            "idle" => drop(session.wait_until_asleep()),
            "crash" => {
                failure(&session.call("crash", &[]), 2, "server-lost", &[]);
                session.wait_until(|state| state.state == State::Crashed && state.ended);
            }
            // The next one that comes ends what the dead bridge left, before it starts another.
            _ => {
                session.kill_bridge();
                session.run(["close"]).ok();
            }
        }
        let starts = session.journal.entries().unwrap();
        assert_eq!(starts.iter().filter(|entry| entry.is("start", "role", "sleeper")).count(), 1);
        nobody_is_left(&session);
    });
    other.noticed_nothing();
}

#[test]
fn a_grandchild_of_a_server_that_does_not_start() {
    let home = Home::new();
    let flags = ["--grandchild-setsid", "--crash-in-handshake", "100"];
    let (session, run) = home.try_connect_entry("@s", &[], brief(), &flags);
    failure(&run, 2, "start-failed", &["ended before it answered"]);
    nobody_is_left(&session);
    is_not_there(&session);
}
