//! One process killed at one step.

use drowse_runtime::record::State;
use drowse_tests::harness::at_once;
use drowse_tests::race::outcome::Outcome;
use drowse_tests::race::world::{Session, Setup, World};

use crate::aftermath;

/// A server that leaves a process behind which nothing but its marker gives away, and that takes its time to go.
pub(crate) const SERVER: Setup<'static> = Setup {
    server: &["--grandchild-setsid", "--exit-delay", "1200"],
    idle_secs: 1,
    connect_ms: None,
    grace_ms: None,
};

/// What a session is before the step is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// Never started.
    Dormant,
    /// Its bridge went to sleep.
    Asleep,
    /// Awake.
    Live,
    /// Its bridge was killed: socket, record and a process of the server are left over.
    Dead,
}

impl Before {
    pub(crate) fn set_up(self, session: &Session<'_>) {
        if self == Self::Dormant {
            return;
        }
        assert_eq!(session.command_call("before", ""), Outcome::Answered);
        match self {
            Self::Asleep => session.bridge_ends(),
            Self::Dead => {
                let bridge = session.bridge().expect("a bridge");
                bridge.signal(rustix::process::Signal::KILL);
                session.bridge_ends();
                assert!(!session.servers().is_empty(), "nothing is left over");
            }
            Self::Dormant | Self::Live => {}
        }
    }
}

fn one_caller_killed(step: &str, before: Before) {
    let world = World::new();
    let session = world.session("s", &SERVER);
    before.set_up(&session);
    let outcome = session.command_call("killed", step);
    assert_eq!(outcome, Outcome::Killed, "it did not come to {step}\n{}", session.log());
    let ran = session.audit().executions("killed");
    // Only an operation that was sent can have run.
    assert!(ran == 0 || step == "C2-sent", "{ran}");
    aftermath(&session);
}

#[test]
fn a_caller_killed_at_any_step() {
    use Before::{Asleep, Dead, Dormant, Live};
    let cases = [
        ("C1", vec![Live]),
        ("C2", vec![Live, Dormant]),
        ("C2-sent", vec![Live, Asleep]),
        ("C3", vec![Dormant, Dead]),
        ("C5", vec![Dormant, Asleep, Dead]),
        ("C5-swept", vec![Dead]),
        ("C6", vec![Dormant, Asleep, Dead]),
    ];
    let cases = cases.into_iter().flat_map(|(step, befores)| {
        befores.into_iter().map(move |before| (format!("{step} {before:?}"), (step, before)))
    });
    at_once(cases, |(step, before)| one_caller_killed(step, before));
}

/// C4: a bridge that has no socket any more is stopped just before its exit.
#[test]
fn a_caller_killed_while_it_waits_for_the_last_bridge() {
    let world = World::new();
    let session = world.session("s", &SERVER);
    assert_eq!(session.command_call("before", "D3-unlinked:stop"), Outcome::Answered);
    session.has_logged("fault at D3-unlinked");
    assert_eq!(session.command_call("killed", "C4"), Outcome::Killed);
    let bridge = session.bridge().expect("the stopped bridge");
    bridge.signal(rustix::process::Signal::CONT);
    aftermath(&session);
}

/// The caller starts another one, as nothing ran.
#[test]
fn a_bridge_killed_at_any_step_of_its_start() {
    use Before::{Asleep, Dead, Dormant};
    let cases = ["B1", "B2", "B3", "B4", "B5", "B5-said"].into_iter().flat_map(|step| {
        [Dormant, Asleep, Dead].map(|before| (format!("{step} {before:?}"), (step, before)))
    });
    at_once(cases, |(step, before)| {
        let world = World::new();
        let session = world.session("s", &SERVER);
        before.set_up(&session);
        assert_eq!(session.command_call("goes on", step), Outcome::Answered, "{}", session.log());
        assert_eq!(session.log().matches(&format!("fault at {step}\n")).count(), 1, "{}", session.log());
        assert_eq!(session.audit().executions("goes on"), 1);
        aftermath(&session);
    });
}

/// A bridge that is killed whenever it is started.
#[test]
fn all_bridges_killed_at_a_step_of_their_start() {
    let cases = ["B1", "B3", "B4", "B5", "B5-said"].map(|step| (step, step));
    at_once(cases, |step| {
        let world = World::new();
        let session = world.session("s", &SERVER);
        let failed = session.command_call("lost", &format!("always {step}")).failure();
        assert!(session.log().matches(&format!("fault at {step}\n")).count() > 1, "{}", session.log());
        assert!(failed.never_ran() && failed.kind == "start-failed" && failed.exit == 2, "{failed:?}");
        assert_eq!(session.audit().executions("lost"), 0);
        aftermath(&session);
    });
}

/// D1 and D3: nobody wants anything of it.
#[test]
fn a_bridge_killed_at_any_step_of_its_end() {
    let cases = ["D1", "D3", "D3-unlinked"].map(|step| (step, step));
    at_once(cases, |step| {
        let world = World::new();
        let session = world.session("s", &SERVER);
        assert_eq!(session.command_call("before", step), Outcome::Answered);
        session.bridge_ends();
        assert!(session.log().contains(&format!("fault at {step}")), "{}", session.log());
        let state = session.state().expect("a state");
        assert_eq!((state.state, state.ended), (State::Idle, step != "D1"), "a sleep, not a crash");
        assert!(state.crashes.is_empty(), "{state:?}");
        aftermath(&session);
    });
}

/// D2: the call that came during the drain is lost with the bridge, and says so.
#[test]
fn a_bridge_killed_when_a_call_comes_during_the_drain() {
    let world = World::new();
    let session = world.session("s", &SERVER);
    assert_eq!(session.command_call("before", "D2"), Outcome::Answered);
    session.is_told_to_go();
    let failed = session.command_call("lost", "").failure();
    assert!(session.log().contains("fault at D2"), "{failed:?}\n{}", session.log());
    assert_eq!((failed.kind.as_str(), failed.exit), ("bridge-lost", 3), "{failed:?}");
    assert_eq!(session.audit().executions("lost"), 0);
    aftermath(&session);
}

/// The second generation of one bridge: B3 and on, with the caller waiting since the drain.
#[test]
fn a_bridge_killed_when_it_starts_the_next_server() {
    let cases = ["B3#2", "B4#2"].map(|step| (step, step));
    at_once(cases, |step| {
        let world = World::new();
        let session = world.session("s", &SERVER);
        assert_eq!(session.command_call("before", step), Outcome::Answered);
        session.is_told_to_go();
        let failed = session.command_call("lost", "").failure();
        assert!(session.log().contains("fault at B"), "{failed:?}\n{}", session.log());
        assert_eq!((failed.kind.as_str(), failed.exit), ("bridge-lost", 3), "{failed:?}");
        assert_eq!(session.audit().executions("lost"), 0);
        aftermath(&session);
    });
}

/// A server killed while it starts, lives, works, or goes.
#[test]
fn a_server_killed_at_any_time() {
    let cases = ["starting", "live", "working", "going"].map(|when| (when, when));
    at_once(cases, |when| {
        let world = World::new();
        let slow_start = Setup { server: &["--grandchild-setsid", "--start-delay", "1500"], ..SERVER };
        let session = world.session("s", if when == "starting" { &slow_start } else { &SERVER });
        let running = match when {
            "starting" => Some(session.command_begins("killed", "")),
            "working" => Some(session.command_begins_slow(20_000, "killed", "")),
            _ => {
                assert_eq!(session.command_call("before", ""), Outcome::Answered);
                None
            }
        };
        let server = session.has_a_server(0);
        match when {
            "working" => session.runs("killed"),
            "going" => session.is_told_to_go(),
            _ => {}
        }
        server.signal(rustix::process::Signal::KILL);
        let outcome = running.map(|running| running.outcome());
        let ran = session.audit().executions("killed");
        match when {
            // It may have died of the probe, so it was started once more.
            "starting" => assert_eq!(outcome, Some(Outcome::Answered), "{}", session.log()),
            "working" => {
                let failed = outcome.expect("a call").failure();
                assert_eq!((failed.kind.as_str(), failed.exit), ("server-lost", 2), "{failed:?}");
                assert_eq!((failed.ran.as_deref(), ran), (Some("unknown"), 1), "{failed:?}");
            }
            // Nobody was told: a call that comes before the bridge notices would be given to the server that is dead.
            _ => session.bridge_ends(),
        }
        aftermath(&session);
    });
}
