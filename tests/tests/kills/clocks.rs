//! A clock that was set: records whose times are of the future, of 1970, or of the end of time.

use std::time::{Duration, Instant};

use drowse_runtime::record::{self, State, StateRecord};
use drowse_tests::harness::at_once;
use drowse_tests::race::outcome::Outcome;
use drowse_tests::race::world::{Session, Setup, World};

use crate::aftermath;

const SETUP: Setup<'static> = Setup { server: &[], idle_secs: 1, connect_ms: None, grace_ms: None };

/// Times that a clock may have had when a record was written, in milliseconds since 1970.
fn times() -> [(&'static str, u64); 6] {
    let now = record::now_ms();
    let hour = 3_600_000;
    [
        ("1970", 0),
        ("an hour ago", now - hour),
        ("in an hour", now + hour),
        ("in ten years", now + 87_600 * hour),
        ("the end of time", u64::MAX),
        ("the end of signed time", i64::MAX.unsigned_abs()),
    ]
}

fn rewrite(session: &Session<'_>, change: impl FnOnce(&mut StateRecord)) {
    let mut state = session.state().expect("a state");
    change(&mut state);
    record::write_state(&session.world.home(), &session.name, &state).expect("write the state");
}

/// That it can be shown, and used at once.
#[track_caller]
fn is_usable(session: &Session<'_>) {
    for words in [&[][..], &["--json"]] {
        let listed = session.world.runs(words);
        assert!(listed.status.success(), "{listed}");
        assert!(!listed.err.contains("panicked"), "{listed}");
    }
    let begun = Instant::now();
    assert_eq!(session.command_call("used", ""), Outcome::Answered, "{}", session.log());
    assert!(begun.elapsed() < Duration::from_secs(15), "it waited for {:?}", begun.elapsed());
    assert_eq!(session.audit().executions("used"), 1);
}

#[test]
fn a_sleep_that_began_at_another_time() {
    at_once(times(), |time| {
        let world = World::new();
        let session = world.session("s", &SETUP);
        assert_eq!(session.command_call("before", ""), Outcome::Answered);
        session.bridge_ends();
        rewrite(&session, |state| state.since = time);
        is_usable(&session);
        aftermath(&session);
    });
}

/// Five crashes open the breaker for half a minute, but only if they have just been.
#[test]
fn crashes_of_another_time() {
    at_once(times(), |time| {
        let world = World::new();
        let session = world.session("s", &SETUP);
        assert_eq!(session.command_call("before", ""), Outcome::Answered);
        session.bridge_ends();
        rewrite(&session, |state| {
            state.state = State::Crashed;
            state.crashes = vec![time; 5];
            state.retry_at = Some(time.saturating_add(30_000));
            state.since = time;
        });
        is_usable(&session);
        aftermath(&session);
    });
}

/// A bridge counts in its own time: what stands in its record is not read back.
#[test]
fn a_record_that_changes_under_a_bridge() {
    at_once(times(), |time| {
        let world = World::new();
        let session = world.session("s", &SETUP);
        assert_eq!(session.command_call("before", ""), Outcome::Answered);
        rewrite(&session, |state| {
            state.since = time;
            state.retry_at = Some(time);
        });
        session.bridge_ends();
        let state = session.state().expect("a state");
        assert_eq!((state.state, state.ended, state.retry_at), (State::Idle, true, None), "{state:?}");
        is_usable(&session);
        aftermath(&session);
    });
}
