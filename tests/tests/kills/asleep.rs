//! Every step of an idle stop, with a kill, a signal, a call or a command there: it is a sleep, never a crash.

use std::time::Duration;

use drowse_runtime::record::State;
use drowse_tests::harness::at_once;
use drowse_tests::race::outcome::Outcome;
use drowse_tests::race::processes::Seen;
use drowse_tests::race::world::{Session, Setup, World};
use rustix::process::Signal;
use serde_json::Value;

use crate::aftermath;

/// A server that goes only when it is killed, so that a stop takes each of its steps.
const STUBBORN: Setup<'static> = Setup {
    server: &["--grandchild-setsid", "--ignore-eof", "--ignore-term"],
    idle_secs: 1,
    connect_ms: None,
    grace_ms: Some(300),
};

/// In the order in which a bridge takes them.
const STEPS: [&str; 7] = ["D1", "D1-input", "D1-term", "D1-kill", "D1-gone", "D3", "D3-unlinked"];

/// Those at which its server still lives.
const DRAINING: [&str; 3] = ["D1", "D1-input", "D1-term"];

fn cases<const N: usize>(steps: [&'static str; N]) -> [(&'static str, &'static str); N] {
    steps.map(|step| (step, step))
}

/// What a user sees of it.
#[track_caller]
fn is_shown_asleep(session: &Session<'_>) {
    let listed = session.world.runs(&["--json"]);
    let document: Value = serde_json::from_str(&listed.out).expect("a list");
    let sessions = document["sessions"].as_array().expect("sessions");
    let entry = sessions.iter().find(|entry| entry["name"] == session.at().as_str());
    let entry = entry.unwrap_or_else(|| panic!("it is not in {document}"));
    assert_eq!(entry["status"], "idle", "{entry}\n{}", session.log());
    let state = session.state().expect("a state");
    assert!(state.crashes.is_empty() && state.retry_at.is_none() && state.message.is_none(), "{state:?}");
}

/// A session whose bridge stands still at a step of its way to sleep.
#[track_caller]
fn stopped_at(session: &Session<'_>, step: &str) -> Seen {
    assert_eq!(session.command_call("before", &format!("{step}:stop")), Outcome::Answered);
    session.has_logged(&format!("fault at {step}\n"));
    session.bridge().expect("a bridge")
}

#[test]
fn a_bridge_killed_at_each_step() {
    at_once(cases(STEPS), |step| {
        let world = World::new();
        let session = world.session("s", &STUBBORN);
        assert_eq!(session.command_call("before", step), Outcome::Answered);
        session.bridge_ends();
        assert!(session.log().contains(&format!("fault at {step}\n")), "{}", session.log());
        is_shown_asleep(&session);
        aftermath(&session);
    });
}

/// Whoever calls meanwhile was not heard so far, goes on to the next bridge, and runs once.
#[test]
fn a_bridge_killed_at_each_step_with_a_call_at_its_door() {
    at_once(cases(STEPS), |step| {
        let world = World::new();
        let session = world.session("s", &STUBBORN);
        let bridge = stopped_at(&session, step);
        let call = session.command_begins("waits", "");
        session.is_being_started();
        is_shown_asleep(&session);
        bridge.signal(Signal::KILL);
        assert_eq!(call.outcome(), Outcome::Answered, "{}", session.log());
        assert_eq!(session.audit().executions("waits"), 1);
        aftermath(&session);
    });
}

#[test]
fn a_server_killed_at_each_step() {
    at_once(cases(DRAINING), |step| {
        let world = World::new();
        let session = world.session("s", &STUBBORN);
        let bridge = stopped_at(&session, step);
        for server in session.servers() {
            server.signal(Signal::KILL);
        }
        bridge.signal(Signal::CONT);
        session.bridge_ends();
        is_shown_asleep(&session);
        assert!(session.state().is_some_and(|state| state.ended), "{:?}", session.state());
        aftermath(&session);
    });
}

/// The server and its bridge, in either order.
#[test]
fn a_server_and_its_bridge_killed_at_each_step() {
    at_once(cases(DRAINING), |step| {
        let world = World::new();
        let session = world.session("s", &STUBBORN);
        let bridge = stopped_at(&session, step);
        let servers = session.servers();
        let (first, second) =
            if step == "D1-input" { (vec![bridge], servers) } else { (servers, vec![bridge]) };
        first.iter().chain(&second).for_each(|one| one.signal(Signal::KILL));
        session.bridge_ends();
        is_shown_asleep(&session);
        aftermath(&session);
    });
}

/// One that is told to go while it goes, and once more.
#[test]
fn a_bridge_told_to_terminate_at_each_step() {
    at_once(cases(STEPS), |step| {
        let world = World::new();
        let session = world.session("s", &STUBBORN);
        let bridge = stopped_at(&session, step);
        let call = session.command_begins("waits", "");
        session.is_being_started();
        bridge.signal(Signal::TERM);
        bridge.signal(Signal::INT);
        bridge.signal(Signal::CONT);
        bridge.signal(Signal::TERM);
        assert_eq!(call.outcome(), Outcome::Answered, "{}", session.log());
        assert_eq!(session.audit().executions("waits"), 1);
        assert!(session.state().is_some_and(|state| state.crashes.is_empty()));
        aftermath(&session);
    });
}

#[test]
fn commands_at_each_step() {
    let cases = STEPS.into_iter().flat_map(|step| {
        ["close", "restart"].map(|command| (format!("{command} at {step}"), (step, command)))
    });
    at_once(cases, |(step, command)| {
        let world = World::new();
        let session = world.session("s", &STUBBORN);
        let bridge = stopped_at(&session, step);
        let words = [command, &session.at(), "--json"];
        let child = world.command(&words, "").spawn().expect("run drowse");
        session.is_being_started();
        bridge.signal(Signal::CONT);
        let output = child.wait_with_output().expect("its end");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command} at {step}: {text}\n{}", session.log());
        if command == "close" {
            assert!(!world.home().session(&session.name).exists(), "close leaves files");
            world.is_left_empty();
        } else {
            assert_eq!(session.state().map(|state| state.state), Some(State::Live));
            aftermath(&session);
        }
    });
}

/// A bridge that stands still beyond its deadline: who calls when it goes on is served, by whichever server, once.
#[test]
fn a_bridge_that_sleeps_through_its_deadline() {
    let cases = [("nobody", 0), ("one", 1), ("many", 6)];
    at_once(cases, |callers| {
        let world = World::new();
        let session = world.session("s", &STUBBORN);
        assert_eq!(session.command_call("before", ""), Outcome::Answered);
        let bridge = session.bridge().expect("a bridge");
        bridge.signal(Signal::STOP);
        // Not a wait for something: the deadline is to pass while nobody can act on it.
        std::thread::sleep(Duration::from_millis(1500));
        let calls: Vec<_> =
            (0..callers).map(|number| session.command_begins(&format!("call-{number}"), "")).collect();
        if callers > 0 {
            session.is_being_started();
        }
        bridge.signal(Signal::CONT);
        for (number, call) in calls.into_iter().enumerate() {
            assert_eq!(call.outcome(), Outcome::Answered, "{}", session.log());
            assert_eq!(session.audit().executions(&format!("call-{number}")), 1);
        }
        session.bridge_ends();
        is_shown_asleep(&session);
        aftermath(&session);
    });
}
