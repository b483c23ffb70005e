//! Two processes killed: together, or one while the other is held at a step.

use drowse_tests::harness::at_once;
use drowse_tests::race::outcome::Outcome;
use drowse_tests::race::world::{Session, Setup, World};
use rustix::process::Signal;

use crate::aftermath;
use crate::steps::{Before, SERVER};

/// The starter dies right after the spawn, its bridge at a step of its start: the bridge holds L in between.
#[test]
fn a_starter_and_then_its_bridge() {
    let cases = ["B1", "B2", "B3", "B4", "B5"].into_iter().flat_map(|step| {
        [Before::Dormant, Before::Dead].map(|before| (format!("{step} {before:?}"), (step, before)))
    });
    at_once(cases, |(step, before)| {
        let world = World::new();
        let session = world.session("s", &SERVER);
        before.set_up(&session);
        let outcome = session.command_call("killed", &format!("C6,{step}"));
        assert_eq!(outcome, Outcome::Killed, "{}", session.log());
        session.has_logged(&format!("fault at {step}"));
        assert_eq!(session.audit().executions("killed"), 0);
        aftermath(&session);
    });
}

/// The bridge dies at a step of its start while its starter is stopped and holds L; then the starter dies. Somebody
/// waits for L all the while.
#[test]
fn a_bridge_and_then_its_stopped_starter() {
    let cases = ["B1", "B2", "B3", "B4", "B5"].map(|step| (step, step));
    at_once(cases, |step| {
        let world = World::new();
        let session = world.session("s", &SERVER);
        let mut starter = session.command_begins("killed", &format!("C6:stop,{step}"));
        session.has_logged(&format!("fault at {step}"));
        let waiting = session.command_begins("waiting", "");
        starter.kill();
        assert_eq!(starter.outcome(), Outcome::Killed);
        assert_eq!(waiting.outcome(), Outcome::Answered, "{}", session.log());
        aftermath(&session);
    });
}

/// A bridge and its server, with the bridge held at a step.
#[test]
fn a_server_and_then_its_bridge() {
    let cases = ["B4", "B5", "D1", "D2", "D3"].map(|step| (step, step));
    at_once(cases, |step| {
        let world = World::new();
        let session = world.session("s", &SERVER);
        let first = session.command_begins("first", &format!("{step}:stop"));
        let server = session.has_a_server(0);
        let second = if step == "D2" {
            session.is_told_to_go();
            Some(session.command_begins("second", ""))
        } else {
            None
        };
        session.has_logged(&format!("fault at {step}"));
        server.signal(Signal::KILL);
        kill_bridge(&session);
        let outcome = first.outcome();
        // At a start nothing had run yet, so that it went on with another bridge.
        assert_eq!(outcome, Outcome::Answered, "{}", session.log());
        if let Some(second) = second {
            let failed = second.outcome().failure();
            assert_eq!((failed.kind.as_str(), failed.ran.as_deref()), ("bridge-lost", Some("unknown")));
        }
        assert_eq!(session.audit().executions("second"), 0);
        aftermath(&session);
    });
}

/// Everybody who takes part in a call that runs, two at a time.
#[test]
fn any_two_during_a_call() {
    let pairs = [("bridge", "server"), ("server", "bridge"), ("caller", "bridge"), ("caller", "server")];
    at_once(pairs.map(|pair| (format!("{pair:?}"), pair)), |(one, other)| {
        let world = World::new();
        let session = world.session("s", &SERVER);
        let mut running = session.command_begins_slow(20_000, "killed", "");
        session.runs("killed");
        let (server, bridge) = (session.has_a_server(0), session.bridge().expect("a bridge"));
        for who in [one, other] {
            match who {
                "caller" => running.kill(),
                "bridge" => bridge.signal(Signal::KILL),
                _ => server.signal(Signal::KILL),
            }
        }
        let outcome = running.outcome();
        if one == "caller" {
            assert_eq!(outcome, Outcome::Killed);
            // Nobody was told: a call that comes before the bridge notices would be given to the server that is dead.
            session.bridge_ends();
        } else {
            let failed = outcome.failure();
            assert_eq!(failed.ran.as_deref(), Some("unknown"), "{failed:?}");
            assert!([2, 3].contains(&failed.exit), "{failed:?}");
        }
        assert_eq!(session.audit().executions("killed"), 1);
        aftermath(&session);
    });
}

/// A caller that dies takes its operation with it: the bridge cancels it, and the server falls asleep in time.
#[test]
fn an_operation_ends_with_its_caller() {
    let world = World::new();
    let session = world.session("s", &Setup { idle_secs: 1, ..Setup::default() });
    let mut running = session.command_begins_slow(60_000, "killed", "");
    session.runs("killed");
    running.kill();
    assert_eq!(running.outcome(), Outcome::Killed);
    let entries = session.journal.wait(drowse_tests::harness::LIMIT, |entries| {
        entries.iter().any(|entry| entry.is("cancelled", "tag", "killed"))
    });
    assert!(entries.is_ok(), "{entries:?}");
    session.bridge_ends();
    aftermath(&session);
}

/// Two starters, one after the other, each killed at the worst moment.
#[test]
fn two_starters_in_a_row() {
    let steps = ["C3", "C5-swept", "C6"];
    let cases = steps.into_iter().flat_map(|one| steps.map(|other| (format!("{one} {other}"), (one, other))));
    at_once(cases, |(one, other)| {
        let world = World::new();
        let session = world.session("s", &SERVER);
        Before::Dead.set_up(&session);
        let (first, second) = (session.command_begins("one", one), session.command_begins("two", other));
        // One of them may find that the other one's bridge is there already.
        let outcomes = [("one", first.outcome()), ("two", second.outcome())];
        assert!(outcomes.iter().any(|(_, outcome)| *outcome == Outcome::Killed), "{outcomes:?}");
        let audit = session.audit();
        for (tag, outcome) in outcomes {
            assert_eq!(outcome.check(audit.executions(tag)), Ok(()), "{tag}");
        }
        aftermath(&session);
    });
}

fn kill_bridge(session: &Session<'_>) {
    // Held before it wrote its state, it is known by its mark only.
    let bridges = session.world.bridges();
    assert_eq!(bridges.len(), 1, "{bridges:?}");
    for bridge in bridges {
        bridge.signal(Signal::KILL);
        assert!(bridge.ends_within(drowse_tests::harness::LIMIT));
    }
}
