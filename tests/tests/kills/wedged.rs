//! Bridges that are stopped instead: they live, hold their locks, and answer nothing.

use drowse_tests::harness::at_once;
use drowse_tests::race::outcome::Outcome;
use drowse_tests::race::world::{Session, Setup, World};
use rustix::process::Signal;

use crate::aftermath;

/// Limits so short that a wedged bridge is found out soon.
const SHORT: Setup<'static> =
    Setup { server: &["--grandchild-setsid"], idle_secs: 0, connect_ms: Some(1500), grace_ms: Some(100) };

fn live(session: &Session<'_>) -> drowse_tests::race::processes::Seen {
    assert_eq!(session.command_call("before", ""), Outcome::Answered);
    session.bridge().expect("a bridge")
}

/// C4: what says no hello and makes no progress for the connect limit and the graces is ended, whole, and replaced.
#[test]
fn a_live_bridge() {
    let world = World::new();
    let session = world.session("s", &SHORT);
    let bridge = live(&session);
    let mut lost = session.command_begins_slow(60_000, "lost", "");
    session.runs("lost");
    bridge.signal(Signal::STOP);
    assert_eq!(session.command_call("found", ""), Outcome::Answered, "{}", session.log());
    assert!(!bridge.is_alive(), "two bridges");
    assert!(lost.has_ended(), "its caller still waits for a bridge that is gone");
    let failed = lost.outcome().failure();
    assert_eq!((failed.kind.as_str(), failed.ran.as_deref()), ("bridge-lost", Some("unknown")));
    aftermath(&session);
}

/// Many find it at once.
#[test]
fn a_live_bridge_and_many_callers() {
    let world = World::new();
    let session = world.session("s", &SHORT);
    let bridge = live(&session);
    bridge.signal(Signal::STOP);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let session = &session;
            scope.spawn(move || {
                let tag = format!("call-{number}");
                let outcome =
                    if number % 2 == 0 { session.command_call(&tag, "") } else { session.call(&tag) };
                assert_eq!(outcome, Outcome::Answered, "{}", session.log());
            });
        }
    });
    assert!(!bridge.is_alive());
    assert_eq!(session.audit().lives.len(), 2);
    aftermath(&session);
}

/// A caller whose bridge stops in its call, with nobody else there who would find that out.
#[test]
fn a_bridge_in_a_call_that_nobody_else_wants() {
    let world = World::new();
    let session = world.session("s", &SHORT);
    let bridge = live(&session);
    let lost = session.command_begins_slow(600_000, "lost", "");
    session.runs("lost");
    bridge.signal(Signal::STOP);
    let failed = lost.outcome().failure();
    assert_eq!((failed.kind.as_str(), failed.ran.as_deref()), ("bridge-lost", Some("unknown")), "{failed:?}");
    // It may have been stopped by somebody who wants it to go on: only who needs another ends it.
    assert!(bridge.is_alive());
    aftermath(&session);
}

/// A call may take as long as its server likes, as long as the bridge is there.
#[test]
fn a_bridge_in_a_call_that_was_stopped_for_a_moment() {
    let world = World::new();
    let session = world.session("s", &Setup { connect_ms: None, ..SHORT });
    let bridge = live(&session);
    let slow = session.command_begins_slow(9_000, "slow", "");
    session.runs("slow");
    bridge.signal(Signal::STOP);
    // Not a wait for something: the caller is to look after the bridge while it is stopped.
    std::thread::sleep(std::time::Duration::from_secs(7));
    bridge.signal(Signal::CONT);
    assert_eq!(slow.outcome(), Outcome::Answered, "{}", session.log());
    assert_eq!(session.audit().executions("slow"), 1);
    aftermath(&session);
}

/// One that goes on before its limit is over is not touched.
#[test]
fn a_bridge_that_was_stopped_for_a_moment() {
    let world = World::new();
    let session = world.session("s", &Setup { connect_ms: None, ..SHORT });
    let bridge = live(&session);
    bridge.signal(Signal::STOP);
    let late = session.command_begins("late", "");
    // By then it waits in earnest.
    session.is_being_started();
    bridge.signal(Signal::CONT);
    assert_eq!(late.outcome(), Outcome::Answered);
    assert_eq!(session.bridge(), Some(bridge), "it was replaced");
    assert_eq!(session.audit().lives.len(), 1);
    aftermath(&session);
}

#[test]
fn closing_and_restarting_a_stopped_bridge() {
    at_once([("close", "close"), ("restart", "restart")], |command| {
        let world = World::new();
        let session = world.session("s", &SHORT);
        let bridge = live(&session);
        bridge.signal(Signal::STOP);
        let ended = world.runs(&[command, &session.at(), "--json"]);
        assert!(ended.status.success(), "{ended}");
        assert!(!bridge.is_alive());
        if command == "close" {
            assert!(session.is_unlocked());
            world.is_left_empty();
        } else {
            aftermath(&session);
        }
    });
}

/// C3: a bridge that is stopped while it starts has L as well, whether its starter waits for it or is gone.
#[cfg(debug_assertions)]
#[test]
fn a_bridge_that_starts() {
    let cases = ["B1", "B2", "B3", "B4", "B5"].into_iter().flat_map(|step| {
        ["waits", "is killed"].map(|starter| (format!("{step}, the starter {starter}"), (step, starter)))
    });
    at_once(cases, |(step, starter)| {
        let world = World::new();
        let session = world.session("s", &SHORT);
        let faults = format!("{step}:stop{}", if starter == "waits" { "" } else { ",C6-noted" });
        let starts = session.command_begins("starts", &faults);
        session.has_logged(&format!("fault at {step}"));
        assert_eq!(session.command_call("found", ""), Outcome::Answered, "{}", session.log());
        match starts.outcome() {
            Outcome::Killed if starter == "is killed" => {}
            // Its bridge was ended by itself or by the other one, before anything ran.
            Outcome::Answered if starter == "waits" => assert_eq!(session.audit().executions("starts"), 1),
            other => {
                let failed = other.failure();
                assert!(failed.never_ran() && failed.kind == "start-failed", "{failed:?}");
                assert_eq!((starter, session.audit().executions("starts")), ("waits", 0));
            }
        }
        aftermath(&session);
    });
}

/// A bridge that is stopped on its way out has B, with or without a socket.
#[cfg(debug_assertions)]
#[test]
fn a_bridge_that_goes() {
    let cases = ["D1", "D3", "D3-unlinked"].map(|step| (step, step));
    at_once(cases, |step| {
        let world = World::new();
        let session = world.session("s", &Setup { idle_secs: 1, ..SHORT });
        assert_eq!(session.command_call("before", &format!("{step}:stop")), Outcome::Answered);
        session.has_logged(&format!("fault at {step}"));
        assert_eq!(session.command_call("found", ""), Outcome::Answered, "{}", session.log());
        aftermath(&session);
    });
}
