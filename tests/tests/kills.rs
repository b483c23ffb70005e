//! `kill -9` of bridges, servers, callers and pairs of them, at every named step of the wake protocol and at random
//! moments; and processes that are stopped instead.
//!
//! After each: the next call works, what was in flight failed and said how, nothing ran twice, nothing is left.

#![cfg(target_os = "linux")]

#[cfg(debug_assertions)]
#[path = "kills/asleep.rs"]
mod asleep;
#[path = "kills/clocks.rs"]
mod clocks;
#[cfg(debug_assertions)]
#[path = "kills/pairs.rs"]
mod pairs;
#[cfg(debug_assertions)]
#[path = "kills/steps.rs"]
mod steps;
#[path = "kills/storm.rs"]
mod storm;
#[path = "kills/wedged.rs"]
mod wedged;

use drowse_runtime::record::State;
use drowse_tests::race::outcome::Outcome;
use drowse_tests::race::processes::Role;
use drowse_tests::race::world::Session;

/// What holds after whatever happened to a session: the next call works, on one server of a new or the same generation
/// whose record is right, and nothing of earlier ones is left; nor is anything when it is closed.
#[track_caller]
fn aftermath(session: &Session<'_>) {
    let outcome = session.command_call("after", "");
    assert_eq!(outcome, Outcome::Answered, "the next call\n{}", session.log());
    let state = session.state().expect("a state");
    // It may be on its way to sleep again already, but not before anything else was written.
    assert!(matches!(state.state, State::Live | State::Idle), "{state:?}");
    for server in session.servers() {
        let Role::Server { generation, .. } = &server.role else { panic!("{server:?}") };
        assert_eq!(generation, &state.marker, "{server:?} is left over\n{}", session.log());
    }
    let audit = session.audit();
    assert_eq!(audit.overlap(), None);
    for (tag, runs) in &audit.runs {
        assert_eq!(runs.len(), 1, "{tag} ran more than once");
    }
    session.close();
    session.world.is_left_empty();
}
