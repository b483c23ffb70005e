//! The public states and how each is left, the order of effects, and when nothing may happen.

#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::*;

pub(super) const IDLE: u64 = 600;

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn idle() -> Config {
    Config { idle: Some(secs(IDLE)), ..Config::default() }
}

fn restarting() -> Config {
    Config { auto_restart: true, ..idle() }
}

/// A lifecycle with its clock, and what it wanted done.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) machine: Lifecycle,
    now: Instant,
    effects: Vec<String>,
    /// Records are written as soon as they are given out.
    writes: bool,
}

impl Run {
    pub(super) fn new(config: Config) -> Self {
        let machine = Lifecycle::new(config, 0, CrashLog::new());
        Self { machine, now: Instant::from_millis(1_000_000), effects: Vec::new(), writes: true }
    }

    /// Live since now, without an operation.
    pub(super) fn live(config: Config) -> Self {
        let mut run = Self::new(config);
        run.act(|machine, now| machine.wake(now));
        run.act(|machine, now| machine.handle_ready(now));
        run.is("live");
        run.said();
        run
    }

    /// Live, and an operation was answered: it works.
    pub(super) fn served(config: Config) -> Self {
        let mut run = Self::live(config);
        run.call();
        run.said();
        run
    }

    pub(super) fn act(&mut self, input: impl FnOnce(&mut Lifecycle, Instant)) {
        input(&mut self.machine, self.now);
        self.drain();
    }

    pub(super) fn drain(&mut self) {
        for _ in 0..20 {
            let Some(effect) = self.machine.poll_effect() else { return };
            self.effects.push(match effect {
                Effect::Persist(Record { state, generation, ended }) => {
                    if self.writes {
                        self.machine.handle_persisted(self.now);
                    }
                    format!("persist {} {generation}{}", state.name(), if ended { " ended" } else { "" })
                }
                Effect::Spawn { generation } => format!("spawn {generation}"),
                Effect::CloseInput => "close-input".to_string(),
                Effect::Terminate => "terminate".to_string(),
                Effect::Kill => "kill".to_string(),
                Effect::Retire => "retire".to_string(),
            });
        }
        panic!("poll_effect never ends: {:?}", self.effects);
    }

    pub(super) fn said(&mut self) -> Vec<String> {
        core::mem::take(&mut self.effects)
    }

    /// An operation, answered at once.
    pub(super) fn call(&mut self) {
        self.act(|machine, now| machine.begin(now));
        self.act(|machine, now| machine.end(now, true));
    }

    pub(super) fn passes(&mut self, duration: Duration) {
        self.now = self.now.after(duration);
        self.act(|machine, now| machine.handle_timeout(now));
    }

    pub(super) fn is(&self, state: &str) {
        assert_eq!(self.machine.public_state().name(), state);
    }

    pub(super) fn awaits(&self) -> Option<(u64, Reason)> {
        let mut table = Timetable::new();
        self.machine.timetable(&mut table);
        table.next().map(|(at, reason)| (at.since(self.now).as_millis() as u64, reason))
    }

    /// Ends the stop that is going on.
    pub(super) fn gone(&mut self) {
        self.act(|machine, now| machine.handle_tree_gone(now, false));
    }

    pub(super) fn crash(&mut self) {
        self.act(|machine, now| machine.handle_exited(now, Exit::Signal(11)));
        self.gone();
    }

    pub(super) fn unavailable(&self) -> Option<Unavailable> {
        self.machine.unavailable(self.now)
    }
}

// The table of public states.

#[test]
fn dormant_leaves_by_an_operation_or_enable() {
    for operation in [true, false] {
        let mut run = Run::new(idle());
        run.is("dormant");
        assert_eq!(run.awaits(), None);
        run.passes(secs(1_000_000));
        run.is("dormant");
        assert!(run.said().is_empty(), "nothing is written of a server that never started");
        if operation {
            run.act(|machine, now| machine.begin(now));
        } else {
            run.act(|machine, now| machine.show(now, true));
        }
        run.is("connecting");
        assert_eq!(run.said(), ["persist connecting 1", "spawn 1"]);
    }
}

#[test]
fn connecting_leaves_to_live() {
    let mut run = Run::new(idle());
    run.act(|machine, now| machine.begin(now));
    run.said();
    run.act(|machine, now| machine.handle_ready(now));
    run.is("live");
    assert_eq!(run.said(), ["persist live 1"]);
}

#[test]
fn connecting_leaves_to_crashed() {
    let mut run = Run::new(idle());
    run.act(|machine, now| machine.wake(now));
    run.said();
    run.act(|machine, now| machine.handle_start_failed(now, false));
    run.is("crashed");
    assert_eq!(run.said(), ["persist crashed 1", "kill"]);
    run.gone();
    run.is("crashed");
    assert_eq!(run.said(), ["persist crashed 1 ended", "retire"]);
}

#[test]
fn connecting_leaves_to_crashed_when_there_is_no_process() {
    let mut run = Run::new(idle());
    run.act(|machine, now| machine.wake(now));
    run.said();
    run.act(|machine, now| machine.handle_spawn_failed(now));
    run.is("crashed");
    assert_eq!(run.said(), ["persist crashed 1 ended", "retire"]);
    assert_eq!(run.machine.crashes().times(), [run.now]);
}

#[test]
fn connecting_leaves_to_unauthorized() {
    let mut run = Run::new(idle());
    run.act(|machine, now| machine.wake(now));
    run.act(|machine, _| machine.handle_unauthorized());
    run.is("unauthorized");
    run.gone();
    run.is("unauthorized");
    assert_eq!(run.unavailable(), Some(Unavailable::ShuttingDown), "it is retired");
    let mut run = Run::new(Config { resident: true, ..idle() });
    run.act(|machine, now| machine.wake(now));
    run.act(|machine, _| machine.handle_unauthorized());
    run.gone();
    assert_eq!(run.unavailable(), Some(Unavailable::Unauthorized));
    run.act(|machine, now| machine.wake(now));
    run.is("unauthorized");
}

#[test]
fn live_leaves_to_suspended_and_back_with_the_same_process() {
    let mut run = Run::live(idle());
    run.passes(secs(100));
    run.act(|machine, now| machine.show(now, false));
    run.is("suspended");
    assert_eq!(run.said(), ["persist suspended 1"]);
    assert_eq!(run.awaits(), Some((500_000, Reason::Idle)), "disable is no activity");
    run.act(|machine, now| machine.show(now, true));
    run.is("live");
    assert_eq!(run.said(), ["persist live 1"]);
    assert_eq!(run.awaits(), Some((600_000, Reason::Idle)), "enable is");
}

#[test]
fn suspended_leaves_to_idle() {
    let mut run = Run::live(idle());
    run.act(|machine, now| machine.show(now, false));
    run.said();
    run.passes(secs(IDLE));
    run.is("idle");
    assert_eq!(run.said(), ["persist idle 1", "close-input"]);
    run.gone();
    run.is("idle");
}

#[test]
fn live_leaves_to_idle() {
    let mut run = Run::served(idle());
    assert_eq!(run.awaits(), Some((600_000, Reason::Idle)));
    run.passes(secs(IDLE));
    run.is("idle");
    assert_eq!(run.said(), ["persist idle 1", "close-input"]);
    run.act(|machine, now| machine.handle_exited(now, Exit::Status(0)));
    run.is("idle");
    run.said();
    run.gone();
    run.is("idle");
    assert_eq!(run.said(), ["persist idle 1 ended", "retire"]);
    assert_eq!(run.awaits(), None);
}

#[test]
fn idle_leaves_by_an_operation_or_enable_always_fresh() {
    for operation in [true, false] {
        let mut run = Run::served(Config { resident: true, ..idle() });
        run.passes(secs(IDLE));
        run.gone();
        run.said();
        run.passes(secs(1_000_000));
        run.is("idle");
        assert!(run.said().is_empty(), "nothing in the background wakes it");
        if operation {
            run.act(|machine, now| machine.begin(now));
        } else {
            run.act(|machine, now| machine.wake(now));
        }
        run.is("connecting");
        assert_eq!(run.said(), ["persist connecting 2", "spawn 2"]);
    }
}

#[test]
fn live_leaves_to_disconnected_and_back() {
    let mut run = Run::live(idle());
    run.passes(secs(60));
    run.act(|machine, _| machine.handle_silent());
    run.is("disconnected");
    assert_eq!(run.said(), ["persist disconnected 1"]);
    run.act(|machine, _| machine.handle_heard());
    run.is("live");
    assert_eq!(run.said(), ["persist live 1"]);
    assert_eq!(run.awaits(), Some((540_000, Reason::Idle)), "that it lives is no activity");
}

#[test]
fn disconnected_leaves_to_idle() {
    let mut run = Run::live(idle());
    run.passes(secs(60));
    run.act(|machine, _| machine.handle_silent());
    run.said();
    assert_eq!(run.awaits(), Some((540_000, Reason::Idle)), "an unreachable server is pure waste");
    run.passes(secs(540));
    run.is("idle");
    assert_eq!(run.said(), ["persist idle 1", "close-input"]);
}

#[test]
fn disconnected_leaves_to_crashed() {
    let mut run = Run::live(idle());
    run.act(|machine, _| machine.handle_silent());
    run.crash();
    run.is("crashed");
}

#[test]
fn live_leaves_to_crashed_and_an_operation_starts_it_again() {
    let mut run = Run::served(Config { resident: true, ..idle() });
    run.crash();
    run.is("crashed");
    assert_eq!(
        run.said(),
        ["persist crashed 1", "terminate", "persist crashed 1 ended"],
        "whoever was left behind is ended"
    );
    run.passes(secs(1_000));
    run.is("crashed");
    run.act(|machine, now| machine.begin(now));
    run.is("connecting");
    assert_eq!(run.said(), ["persist connecting 2", "spawn 2"]);
}

#[test]
fn crashed_leaves_to_reconnecting_with_auto_restart() {
    let mut run = Run::served(restarting());
    run.crash();
    run.is("crashed");
    run.said();
    let (wait, reason) = run.awaits().unwrap();
    assert_eq!((wait, reason), (0, Reason::Backoff));
    run.passes(secs(0));
    run.is("reconnecting");
    assert_eq!(run.said(), ["persist reconnecting 2", "spawn 2"]);
}

#[test]
fn reconnecting_leaves_to_live() {
    let mut run = Run::served(restarting());
    run.passes(secs(100));
    run.crash();
    run.passes(secs(0));
    run.is("reconnecting");
    run.act(|machine, now| machine.handle_ready(now));
    run.is("live");
    assert_eq!(
        run.awaits(),
        Some((500_000, Reason::Idle)),
        "what drowse does for itself is no activity: the period still counts from the last operation"
    );
}

#[test]
fn a_server_that_crashes_and_restarts_for_ever_still_goes_idle() {
    let mut run = Run::served(restarting());
    let last = run.now;
    for _ in 0..100 {
        run.passes(secs(50));
        match run.machine.public_state() {
            PublicState::Live => run.crash(),
            PublicState::Reconnecting => run.act(|machine, now| machine.handle_ready(now)),
            PublicState::Crashed => {}
            PublicState::Idle => break,
            other => panic!("{other:?}"),
        }
    }
    run.is("idle");
    assert_eq!(run.now, last.after(secs(IDLE)));
}

#[test]
fn reconnecting_leaves_to_crashed() {
    let mut run = Run::served(restarting());
    run.crash();
    run.passes(secs(0));
    run.act(|machine, now| machine.handle_start_failed(now, false));
    run.is("crashed");
    run.gone();
    run.is("crashed");
    assert_eq!(run.awaits(), Some((0, Reason::Backoff)));
}

#[test]
fn reconnecting_leaves_to_idle_at_each_step() {
    for step in 0..3 {
        let mut run = Run::served(restarting());
        run.writes = step > 0;
        run.passes(secs(IDLE - 1));
        run.crash();
        run.passes(secs(0));
        if step == 2 {
            run.act(|machine, now| machine.handle_spawn_failed(now));
            run.is("crashed");
            run.act(|machine, now| machine.handle_timeout(now));
            run.is("reconnecting");
        }
        run.said();
        run.passes(secs(1));
        run.is("idle");
        run.writes = true;
        run.act(|machine, now| machine.handle_persisted(now));
        if step == 0 {
            assert_eq!(run.said(), ["persist idle 2 ended", "retire"], "it was not even spawned");
        } else {
            let generation = 1 + step;
            assert_eq!(run.said(), [format!("persist idle {generation}"), "kill".to_string()]);
            run.gone();
            assert_eq!(run.said(), [format!("persist idle {generation} ended"), "retire".to_string()]);
        }
        run.is("idle");
    }
}

#[test]
fn crashed_leaves_to_idle_at_the_deadline_when_it_would_be_restarted() {
    let mut run = Run::live(restarting());
    for _ in 0..5 {
        run.crash();
        let (wait, reason) = run.awaits().unwrap();
        assert_eq!(reason, Reason::Backoff);
        if wait >= 30_000 {
            break;
        }
        run.passes(Duration::from_millis(wait));
        run.act(|machine, now| machine.handle_ready(now));
    }
    run.is("crashed");
    run.act(|machine, _| machine.set_idle(Some(secs(10))));
    assert_eq!(run.awaits().unwrap().1, Reason::Idle);
    run.said();
    run.passes(secs(10));
    run.is("idle");
    assert_eq!(run.awaits(), None, "auto-restart never resurrects an idle session");
    assert_eq!(run.said().last().unwrap(), "retire");
}

#[test]
fn an_operation_makes_a_background_start_its_own() {
    let mut run = Run::served(restarting());
    run.crash();
    run.passes(secs(0));
    run.is("reconnecting");
    run.said();
    run.act(|machine, now| machine.begin(now));
    run.is("connecting");
    assert_eq!(run.said(), ["persist connecting 2"], "the same start goes on");
    run.passes(secs(10_000));
    run.is("connecting");
    run.act(|machine, now| machine.handle_ready(now));
    run.is("live");
}

#[test]
fn live_leaves_to_unauthorized() {
    for silent in [false, true] {
        let mut run = Run::live(Config { resident: true, auto_restart: true, ..idle() });
        if silent {
            run.act(|machine, _| machine.handle_silent());
        }
        run.said();
        run.act(|machine, _| machine.handle_unauthorized());
        run.is("unauthorized");
        assert_eq!(run.said(), ["persist unauthorized 1", "close-input"]);
        run.gone();
        run.is("unauthorized");
        assert_eq!(run.awaits(), None, "no restart mends that");
        assert_eq!(run.unavailable(), Some(Unavailable::Unauthorized));
    }
}

#[test]
fn live_leaves_to_expired_and_the_next_operation_is_fresh() {
    let mut run = Run::live(Config { resident: true, idle: None, ..Config::default() });
    run.act(|machine, _| machine.handle_expired());
    run.is("expired");
    assert_eq!(run.said(), ["persist expired 1", "close-input"]);
    run.gone();
    run.is("expired");
    run.said();
    run.act(|machine, now| machine.begin(now));
    run.is("connecting");
    assert_eq!(run.said(), ["persist connecting 2", "spawn 2"]);
}

#[test]
fn expired_may_be_final() {
    let mut run = Run::live(Config { resident: true, fail_on_expiry: true, ..Config::default() });
    run.act(|machine, _| machine.handle_expired());
    run.gone();
    assert_eq!(run.unavailable(), Some(Unavailable::Expired));
    run.act(|machine, now| machine.wake(now));
    run.is("expired");
}

#[test]
fn expired_leaves_to_reconnecting_with_auto_restart() {
    let mut run = Run::live(Config { auto_restart: true, ..Config::default() });
    run.act(|machine, _| machine.handle_expired());
    run.gone();
    run.is("expired");
    run.passes(secs(0));
    run.is("reconnecting");
}

#[test]
fn expired_with_something_in_flight_is_expired() {
    let mut run = Run::live(idle());
    run.act(|machine, now| machine.begin(now));
    run.act(|machine, _| machine.handle_expired());
    run.is("expired");
}

#[test]
fn expired_with_an_idle_period_and_nothing_in_flight_is_idle() {
    let mut run = Run::live(restarting());
    run.act(|machine, _| machine.handle_expired());
    run.is("idle");
    run.gone();
    run.is("idle");
    assert_eq!(run.awaits(), None, "auto-restart never resurrects an idle session");
}

/// What somebody is told, now that a fresh server is ready.
fn told(run: &mut Run) -> [Option<Lost>; 2] {
    assert_eq!(run.machine.poll_renewed(), None, "not before it is ready");
    run.act(|machine, now| machine.handle_ready(now));
    run.is("live");
    [run.machine.poll_renewed(), run.machine.poll_renewed()]
}

#[test]
fn who_uses_a_fresh_server_is_told_once_of_what_was_lost() {
    for background in [false, true] {
        let config = || Config { resident: true, auto_restart: background, ..Config::default() };
        for expired in [false, true] {
            let mut run = Run::served(config());
            if expired {
                run.act(|machine, _| machine.handle_expired());
                run.gone();
            } else {
                run.crash();
            }
            let lost = if expired { Lost::Expired } else { Lost::Ended };
            assert_eq!(run.machine.lost(), Some(lost), "for who reads the record");
            match background {
                true => run.passes(secs(0)),
                false => run.act(|machine, now| machine.begin(now)),
            }
            assert_eq!(told(&mut run), [Some(lost), None]);
            assert_eq!(run.machine.lost(), None);
        }
    }
    // A machine that knows of it from the record alone.
    for lost in [Lost::Expired, Lost::Ended] {
        let mut run = Run::new(idle());
        run.machine.was_lost(lost);
        run.act(|machine, now| machine.begin(now));
        assert_eq!(told(&mut run), [Some(lost), None]);
    }
}

#[test]
fn what_sleep_ends_or_never_began_was_not_lost() {
    let resident = |auto_restart| Config { resident: true, auto_restart, ..idle() };
    // Asleep.
    let mut run = Run::served(resident(false));
    run.passes(secs(IDLE));
    run.gone();
    run.act(|machine, now| machine.begin(now));
    assert_eq!(told(&mut run), [None; 2]);
    // It left by itself, and was not needed; it would have slept meanwhile.
    for exit in [Exit::Status(0), Exit::Signal(11)] {
        let mut run = Run::served(resident(true));
        run.act(|machine, now| machine.handle_exited(now, exit));
        run.gone();
        if exit != Exit::Status(0) {
            run.passes(secs(IDLE));
        }
        run.is("idle");
        run.act(|machine, now| machine.begin(now));
        assert_eq!(told(&mut run), [None; 2], "{exit:?}");
    }
    // It never answered.
    let mut run = Run::new(resident(false));
    run.act(|machine, now| machine.wake(now));
    run.act(|machine, now| machine.handle_start_failed(now, false));
    run.gone();
    run.is("crashed");
    run.passes(secs(1_000));
    run.act(|machine, now| machine.begin(now));
    assert_eq!(told(&mut run), [None; 2]);
}

// A server that ends by itself.

#[test]
fn exit_status_zero_with_nothing_in_flight_is_idle() {
    for closed_first in [false, true] {
        let mut run = Run::served(restarting());
        if closed_first {
            run.act(|machine, now| machine.handle_lost(now));
        }
        run.act(|machine, now| machine.handle_exited(now, Exit::Status(0)));
        run.is("idle");
        run.gone();
        run.is("idle");
        assert_eq!(run.machine.crashes().times(), []);
        assert_eq!(run.awaits(), None, "auto-restart never resurrects an idle session");
        assert_eq!(run.said().last().unwrap(), "retire");
    }
}

#[test]
fn what_else_ends_is_a_crash() {
    let with_idle = idle();
    let explicit_zero = Config { idle: Some(Duration::ZERO), ..Config::default() };
    for (config, busy, deferred, exit) in [
        (with_idle, true, false, Exit::Status(0)),
        (with_idle, false, true, Exit::Status(0)),
        (with_idle, false, false, Exit::Status(1)),
        (with_idle, false, false, Exit::Signal(9)),
        (Config::default(), false, false, Exit::Status(0)),
        (explicit_zero, false, false, Exit::Status(0)),
    ] {
        let mut run = Run::served(Config { resident: true, ..config });
        if busy {
            run.act(|machine, now| machine.begin(now));
        }
        if deferred {
            run.act(|machine, _| machine.defer());
        }
        run.act(|machine, now| machine.handle_exited(now, exit));
        run.gone();
        run.is("crashed");
    }
}

#[test]
fn a_server_that_closes_its_output_and_stays_is_ended() {
    let mut run = Run::served(idle());
    run.act(|machine, now| machine.handle_lost(now));
    // How it ends is not known yet, and nobody needs it.
    run.is("disconnected");
    assert_eq!(run.said(), ["persist disconnected 1", "close-input"]);
    run.passes(secs(2));
    assert_eq!(run.said(), ["terminate"]);
    run.passes(secs(2));
    assert_eq!(run.said(), ["kill"]);
    run.act(|machine, now| machine.handle_exited(now, Exit::Signal(9)));
    run.gone();
    run.is("crashed");
}

#[test]
fn a_status_that_comes_late_decides_and_was_never_called_a_crash() {
    let mut run = Run::served(idle());
    run.act(|machine, now| machine.handle_lost(now));
    run.passes(secs(2));
    assert_eq!(run.said(), ["persist disconnected 1", "close-input", "terminate"], "it may be a sleep");
    run.act(|machine, now| machine.handle_exited(now, Exit::Status(0)));
    run.is("idle");
    assert_eq!(run.said(), ["persist idle 1"]);
    run.act(|machine, now| machine.handle_exited(now, Exit::Signal(9)));
    run.act(|machine, _| machine.set_idle(None));
    run.is("idle");
    assert!(run.said().is_empty(), "it ends once");
}

// The order of effects.

#[test]
fn spawn_waits_for_its_record() {
    let mut run = Run::new(idle());
    run.writes = false;
    run.act(|machine, now| machine.begin(now));
    assert_eq!(run.said(), ["persist connecting 1"]);
    run.passes(secs(100));
    assert!(run.said().is_empty());
    run.act(|machine, now| machine.handle_persisted(now));
    assert_eq!(run.said(), ["spawn 1"]);
    run.act(|machine, now| machine.handle_persisted(now));
    assert!(run.said().is_empty(), "a repeated acknowledgement spawns nothing");
}

#[test]
fn an_acknowledgement_of_an_older_record_does_not_spawn() {
    let mut run = Run::served(Config { resident: true, ..idle() });
    run.writes = false;
    run.crash();
    assert_eq!(run.said(), ["persist crashed 1"]);
    run.act(|machine, now| machine.begin(now));
    run.act(|machine, now| machine.handle_persisted(now));
    assert_eq!(run.said(), ["persist connecting 2"], "only now the new record is written");
    run.act(|machine, now| machine.handle_persisted(now));
    assert_eq!(run.said(), ["spawn 2"]);
}

#[test]
fn an_idle_stop_waits_for_its_record() {
    let mut run = Run::served(idle());
    run.writes = false;
    run.passes(secs(IDLE));
    assert_eq!(run.said(), ["persist idle 1"]);
    run.passes(secs(100));
    assert!(run.said().is_empty(), "the input stays open, and nothing escalates");
    run.act(|machine, now| machine.handle_persisted(now));
    assert_eq!(run.said(), ["close-input"]);
    assert_eq!(run.awaits(), Some((2_000, Reason::InputClosed)));
}

#[test]
fn a_record_is_given_out_one_at_a_time() {
    let mut run = Run::live(idle());
    run.writes = false;
    run.act(|machine, _| machine.handle_silent());
    run.act(|machine, _| machine.handle_heard());
    run.act(|machine, _| machine.handle_silent());
    assert_eq!(run.said(), ["persist disconnected 1"]);
    run.act(|machine, now| machine.handle_persisted(now));
    assert_eq!(run.said(), ["persist disconnected 1"], "the last word, not each");
    run.act(|machine, now| machine.handle_persisted(now));
    assert!(run.said().is_empty());
}

#[test]
fn retire_waits_until_the_tree_is_gone_and_that_is_written() {
    let mut run = Run::served(idle());
    run.passes(secs(IDLE));
    assert_eq!(run.said(), ["persist idle 1", "close-input"]);
    run.passes(secs(2));
    run.passes(secs(2));
    assert_eq!(run.said(), ["terminate", "kill"]);
    run.writes = false;
    run.gone();
    assert_eq!(run.said(), ["persist idle 1 ended"]);
    run.act(|machine, now| machine.handle_persisted(now));
    assert_eq!(run.said(), ["retire"]);
    run.act(|machine, now| machine.handle_persisted(now));
    run.passes(secs(1));
    assert!(run.said().is_empty(), "once");
    assert_eq!(run.unavailable(), Some(Unavailable::ShuttingDown));
    run.act(|machine, now| machine.wake(now));
    assert!(run.said().is_empty(), "it does not come back from that");
}

#[test]
fn retire_waits_for_operations() {
    let mut run = Run::served(idle());
    run.act(|machine, now| machine.begin(now));
    run.crash();
    assert_eq!(run.said(), ["persist crashed 1", "terminate", "persist crashed 1 ended"]);
    run.act(|machine, now| machine.end(now, false));
    assert_eq!(run.said(), ["retire"]);
}

#[test]
fn a_record_that_cannot_be_written_ends_a_start() {
    let mut run = Run::new(idle());
    run.writes = false;
    run.act(|machine, now| machine.wake(now));
    run.said();
    let mut gave_up = false;
    run.act(|machine, now| gave_up = machine.handle_persist_failed(now));
    assert!(gave_up);
    run.is("crashed");
    assert_eq!(run.said(), ["persist crashed 1 ended"]);
    run.act(|machine, now| gave_up = machine.handle_persist_failed(now));
    assert!(!gave_up);
    assert_eq!(run.said(), ["retire"], "and no second try of the record");
}

#[test]
fn a_failure_to_write_an_older_record_does_not_end_a_start() {
    let mut run = Run::served(Config { resident: true, ..idle() });
    run.writes = false;
    run.crash();
    run.act(|machine, now| machine.begin(now));
    run.said();
    let mut gave_up = true;
    run.act(|machine, now| gave_up = machine.handle_persist_failed(now));
    assert!(!gave_up, "its own record was not tried yet");
    assert_eq!(run.said(), ["persist connecting 2"]);
    run.act(|machine, now| machine.handle_persisted(now));
    assert_eq!(run.said(), ["spawn 2"]);
}

#[test]
fn a_record_that_cannot_be_written_does_not_hold_up_a_stop() {
    let mut run = Run::served(idle());
    run.writes = false;
    run.passes(secs(IDLE));
    run.said();
    run.act(|machine, now| assert!(!machine.handle_persist_failed(now)));
    assert_eq!(run.said(), ["close-input"]);
}

#[test]
fn background_starts_whose_record_cannot_be_written_back_off() {
    let mut run = Run::served(Config { auto_restart: true, ..Config::default() });
    run.writes = false;
    run.crash();
    let mut starts = 0;
    for _ in 0..1_000 {
        let Some((wait, reason)) = run.awaits() else { break };
        assert_eq!(reason, Reason::Backoff);
        if wait > 1_000 {
            break;
        }
        run.passes(Duration::from_millis(wait));
        for _ in 0..3 {
            run.act(|machine, now| {
                machine.handle_persist_failed(now);
            });
        }
        starts += 1;
    }
    assert!(starts <= 6, "a full disk is no reason to spin: {starts} starts at once");
}

// The escalation of a stop.

#[test]
fn a_stop_escalates_after_two_seconds_each() {
    let mut run = Run::served(idle());
    run.passes(secs(IDLE));
    assert_eq!(run.said(), ["persist idle 1", "close-input"]);
    assert_eq!(run.awaits(), Some((2_000, Reason::InputClosed)));
    run.passes(Duration::from_micros(1_999_999));
    assert!(run.said().is_empty());
    run.passes(Duration::from_micros(1));
    assert_eq!(run.said(), ["terminate"]);
    assert_eq!(run.awaits(), Some((2_000, Reason::Terminated)));
    run.passes(Duration::from_micros(1_999_999));
    assert!(run.said().is_empty());
    run.passes(Duration::from_micros(1));
    assert_eq!(run.said(), ["kill"]);
    assert_eq!(run.awaits(), None);
    run.passes(secs(100));
    assert!(run.said().is_empty(), "once");
    run.is("idle");
}

#[test]
fn the_graces_are_configurable_down_to_nothing() {
    let grace = Duration::ZERO;
    let mut run = Run::served(Config { input_grace: secs(7), terminate_grace: grace, ..idle() });
    run.passes(secs(IDLE));
    assert_eq!(run.awaits(), Some((7_000, Reason::InputClosed)));
    run.said();
    run.passes(secs(7));
    run.passes(secs(0));
    assert_eq!(run.said(), ["terminate", "kill"]);
}

#[test]
fn a_late_timeout_still_gives_the_full_grace() {
    let mut run = Run::served(idle());
    run.passes(secs(IDLE + 3_600));
    assert_eq!(run.said(), ["persist idle 1", "close-input"]);
    assert_eq!(run.awaits(), Some((2_000, Reason::InputClosed)));
    run.passes(secs(3_600));
    assert_eq!(run.said(), ["terminate"]);
    assert_eq!(run.awaits(), Some((2_000, Reason::Terminated)));
}

#[test]
fn what_a_leader_leaves_behind_is_terminated_at_once() {
    let mut run = Run::served(idle());
    run.passes(secs(IDLE));
    run.said();
    run.act(|machine, now| machine.handle_exited(now, Exit::Status(0)));
    assert_eq!(run.said(), ["terminate"], "it has no use for the input");
    run.passes(secs(2));
    assert_eq!(run.said(), ["kill"]);
}

// An operation during the drain.

#[test]
fn an_operation_during_the_drain_gets_the_next_generation() {
    for writes in [true, false] {
        let mut run = Run::served(idle());
        run.writes = writes;
        run.passes(secs(IDLE));
        run.act(|machine, now| machine.begin(now));
        run.is("idle");
        run.writes = true;
        run.act(|machine, now| machine.handle_persisted(now));
        run.said();
        run.act(|machine, now| machine.handle_tree_gone(now, true));
        run.is("connecting");
        assert_eq!(run.said(), ["persist connecting 2", "spawn 2"]);
        run.act(|machine, now| machine.handle_ready(now));
        run.act(|machine, now| machine.end(now, true));
        assert_eq!(run.awaits(), Some((600_000, Reason::Idle)));
    }
}

#[test]
fn a_wake_during_the_drain_is_not_lost() {
    for enable in [false, true] {
        let mut run = Run::served(Config { resident: enable, ..idle() });
        run.passes(secs(IDLE));
        run.act(|machine, now| if enable { machine.show(now, true) } else { machine.wake(now) });
        run.said();
        run.gone();
        run.is("connecting");
        assert_eq!(run.said(), ["persist connecting 2", "spawn 2"]);
        run.act(|machine, now| machine.handle_ready(now));
        run.said();
        run.passes(secs(IDLE));
        run.gone();
        run.is("idle");
        assert!(!run.said().contains(&"spawn 3".to_string()), "once");
    }
}

#[test]
fn an_operation_that_was_cancelled_during_the_drain_starts_nothing() {
    let mut run = Run::served(idle());
    run.passes(secs(IDLE));
    run.act(|machine, now| machine.begin(now));
    run.act(|machine, now| machine.end(now, false));
    run.said();
    run.gone();
    run.is("idle");
    assert_eq!(run.said(), ["persist idle 1 ended", "retire"]);
}

#[test]
fn a_wake_during_the_drain_of_a_closed_server_is_refused() {
    let mut run = Run::live(idle());
    run.act(|machine, _| machine.close());
    run.act(|machine, now| machine.wake(now));
    run.gone();
    run.is("closed");
    let mut run = Run::live(idle());
    run.passes(secs(IDLE));
    run.act(|machine, now| machine.wake(now));
    run.act(|machine, _| machine.close());
    run.gone();
    run.is("closed");
}

// Close.

#[test]
fn close_in_every_state() {
    type Setup = fn() -> Run;
    let setups: [(&str, Setup, &[&str]); 12] = [
        ("dormant", || Run::new(idle()), &["persist closed 0 ended", "retire"]),
        (
            "before the record",
            || {
                let mut run = Run::new(idle());
                run.writes = false;
                run.act(|machine, now| machine.wake(now));
                run.writes = true;
                run.said();
                run.machine.handle_persist_failed(run.now);
                run
            },
            &["persist closed 1 ended", "retire"],
        ),
        (
            "negotiating",
            || {
                let mut run = Run::new(idle());
                run.act(|machine, now| machine.wake(now));
                run
            },
            &["persist closed 1", "kill"],
        ),
        ("live", || Run::live(idle()), &["persist closed 1", "close-input"]),
        (
            "suspended",
            || {
                let mut run = Run::live(idle());
                run.act(|machine, now| machine.show(now, false));
                run
            },
            &["persist closed 1", "close-input"],
        ),
        (
            "disconnected",
            || {
                let mut run = Run::live(idle());
                run.act(|machine, _| machine.handle_silent());
                run
            },
            &["persist closed 1", "close-input"],
        ),
        (
            "reconnecting",
            || {
                let mut run = Run::served(restarting());
                run.crash();
                run.passes(secs(0));
                run
            },
            &["persist closed 2", "kill"],
        ),
        (
            "draining",
            || {
                let mut run = Run::live(idle());
                run.passes(secs(IDLE));
                run
            },
            &["persist closed 1"],
        ),
        (
            "being killed",
            || {
                let mut run = Run::new(idle());
                run.act(|machine, now| machine.wake(now));
                run.act(|machine, now| machine.handle_start_failed(now, false));
                run
            },
            &["persist closed 1"],
        ),
        (
            "dead on the probe",
            || {
                let mut run = Run::new(idle());
                run.act(|machine, now| machine.wake(now));
                run.act(|machine, now| machine.handle_start_failed(now, true));
                run
            },
            &["persist closed 1"],
        ),
        (
            "idle",
            || {
                let mut run = Run::live(Config { resident: true, ..idle() });
                run.passes(secs(IDLE));
                run.gone();
                run.machine.config.resident = false;
                run
            },
            &["persist closed 1 ended", "retire"],
        ),
        (
            "crashed",
            || {
                let mut run = Run::live(restarting());
                run.crash();
                run
            },
            &["persist closed 1 ended", "retire"],
        ),
    ];
    for (name, setup, wanted) in setups {
        let mut run = setup();
        run.said();
        run.act(|machine, _| machine.close());
        run.is("closed");
        assert_eq!(run.said(), wanted, "{name}");
        assert_eq!(run.unavailable(), Some(Unavailable::ShuttingDown), "{name}");
        run.gone();
        run.is("closed");
        run.passes(secs(1_000_000));
        run.is("closed");
        let mut again = run.clone();
        again.said();
        again.act(|machine, _| machine.close());
        assert!(!again.said().iter().any(|said| said.starts_with("spawn")), "{name}");
    }
}

#[test]
fn close_before_the_record_of_a_start_is_written() {
    let mut run = Run::new(idle());
    run.writes = false;
    run.act(|machine, now| machine.begin(now));
    run.act(|machine, _| machine.close());
    assert_eq!(run.said(), ["persist connecting 1"]);
    run.act(|machine, now| machine.handle_persisted(now));
    assert_eq!(run.said(), ["persist closed 1 ended"], "nothing is spawned");
}

#[test]
fn close_while_a_process_is_being_spawned_that_cannot_be() {
    let mut run = Run::new(idle());
    run.act(|machine, now| machine.wake(now));
    run.said();
    run.act(|machine, _| machine.close());
    run.act(|machine, now| machine.handle_spawn_failed(now));
    run.is("closed");
    assert_eq!(run.said(), ["persist closed 1", "kill", "persist closed 1 ended", "retire"]);
}

// Crashes.

#[test]
fn crashes_back_off_and_the_breaker_opens_at_five_in_thirty_seconds() {
    let mut run = Run::new(Config { resident: true, ..idle() });
    let mut waits = Vec::new();
    for _ in 0..5 {
        if let Some(Unavailable::BackingOff(at)) = run.unavailable() {
            waits.push(at.since(run.now).as_millis());
            run.act(|machine, now| machine.wake(now));
            run.is("crashed");
            run.now = at;
        }
        run.act(|machine, now| machine.wake(now));
        run.is("connecting");
        run.act(|machine, now| machine.handle_ready(now));
        run.crash();
    }
    assert_eq!(waits, [250, 500, 1_000]);
    let Some(Unavailable::BackingOff(at)) = run.unavailable() else { panic!("the breaker is open") };
    assert_eq!(at.since(run.now), secs(30));
    run.now = at;
    assert_eq!(run.unavailable(), None);
}

#[test]
fn a_server_that_answered_is_started_again_at_once() {
    let mut run = Run::served(Config { resident: true, ..idle() });
    for _ in 0..20 {
        run.crash();
        run.is("crashed");
        assert_eq!(run.unavailable(), None);
        run.act(|machine, now| machine.begin(now));
        run.act(|machine, now| machine.handle_ready(now));
        run.act(|machine, now| machine.end(now, true));
    }
}

#[test]
fn an_answer_forgives_earlier_crashes() {
    let mut run = Run::live(Config { resident: true, ..idle() });
    for _ in 0..3 {
        run.crash();
        run.now = run.now.after(secs(1));
        run.act(|machine, now| machine.wake(now));
        run.act(|machine, now| machine.handle_ready(now));
    }
    assert_eq!(run.machine.crashes().times().len(), 3);
    run.call();
    // It is ended on purpose, and the next start fails: that is the first crash of a new row.
    run.act(|machine, _| machine.handle_expired());
    run.gone();
    run.act(|machine, now| machine.wake(now));
    run.act(|machine, now| machine.handle_start_failed(now, false));
    run.gone();
    assert_eq!(run.unavailable(), None);
}

#[test]
fn waiting_operations_fail_when_the_server_backs_off() {
    let mut run = Run::live(Config { resident: true, ..idle() });
    for round in 0..2 {
        run.act(|machine, now| machine.begin(now));
        run.act(|machine, now| machine.handle_exited(now, Exit::Status(1)));
        run.act(|machine, now| machine.handle_tree_gone(now, true));
        if round == 0 {
            run.is("connecting");
            run.act(|machine, now| machine.handle_ready(now));
        }
    }
    run.is("crashed");
    assert!(matches!(run.unavailable(), Some(Unavailable::BackingOff(_))));
}

#[test]
fn the_crashes_of_the_record_count() {
    let now = Instant::from_millis(1_000_000);
    let crashes = CrashLog::from_times([now, now, now, now, now]);
    let machine = Lifecycle::new(idle(), 7, crashes);
    assert_eq!(machine.unavailable(now), Some(Unavailable::BackingOff(now.after(secs(30)))));
    assert_eq!(machine.unavailable(now.after(secs(30))), None);
    assert_eq!(machine.generation(), 7);
}

#[test]
fn crashes_of_a_future_that_a_clock_took_back_do_not_count() {
    let recorded = Instant::from_millis(100_000_000);
    let crashes = CrashLog::from_times([recorded; 5]);
    let mut run = Run::new(Config { auto_restart: true, ..idle() });
    run.machine = Lifecycle::new(idle(), 7, crashes);
    assert_eq!(run.unavailable(), None, "a day of waiting because a clock was set back helps nobody");
    run.act(|machine, now| machine.wake(now));
    run.is("connecting");
    run.act(|machine, now| machine.handle_start_failed(now, false));
    run.gone();
    assert_eq!(run.machine.crashes().times(), [run.now]);
}

#[test]
fn a_server_that_died_on_the_probe_is_started_once_more() {
    let mut run = Run::new(idle());
    run.act(|machine, now| machine.wake(now));
    run.said();
    run.act(|machine, now| machine.handle_start_failed(now, true));
    run.is("connecting");
    assert_eq!(run.said(), ["persist connecting 1", "kill"]);
    run.gone();
    run.is("connecting");
    assert!(run.machine.is_straight());
    assert_eq!(run.said(), ["persist connecting 2", "spawn 2"]);
    assert_eq!(run.machine.crashes().times(), [], "that was no crash");
    run.act(|machine, now| machine.handle_start_failed(now, true));
    run.gone();
    run.is("crashed");
    assert_eq!(run.machine.crashes().times().len(), 1, "once");
    assert!(!run.machine.is_straight());
}

#[test]
fn a_background_start_that_died_on_the_probe_stays_one() {
    let mut run = Run::served(restarting());
    run.crash();
    run.passes(secs(0));
    run.act(|machine, now| machine.handle_start_failed(now, true));
    run.is("reconnecting");
    let mut taken = run.clone();
    run.gone();
    run.is("reconnecting");
    assert_eq!(run.awaits(), Some((600_000, Reason::Idle)));
    // Unless an operation comes meanwhile.
    taken.act(|machine, now| machine.begin(now));
    taken.is("connecting");
    taken.act(|machine, now| machine.handle_tree_gone(now, true));
    taken.is("connecting");
    assert_eq!(taken.awaits(), None);
}

// The idle deadline.

#[test]
fn no_idle_period_means_never() {
    for period in [None, Some(Duration::ZERO)] {
        let mut run = Run::served(Config { idle: period, ..Config::default() });
        assert_eq!(run.awaits(), None);
        run.passes(secs(1_000_000_000));
        run.is("live");
    }
}

#[test]
fn a_start_that_nobody_waits_for_any_more_goes_on() {
    let mut run = Run::new(idle());
    run.act(|machine, now| machine.begin(now));
    run.act(|machine, now| machine.end(now, false));
    assert_eq!(run.awaits(), None, "its limit is the negotiation's");
    run.passes(secs(30));
    run.act(|machine, now| machine.handle_ready(now));
    assert_eq!(run.awaits(), Some((600_000, Reason::Idle)), "a full period from ready");
}

#[test]
fn nothing_in_flight_may_be_forgotten_or_counted_twice() {
    let mut run = Run::live(idle());
    for _ in 0..3 {
        run.act(|machine, now| machine.begin(now));
    }
    for left in [2, 1] {
        run.passes(secs(1_000));
        run.act(|machine, now| machine.end(now, true));
        assert_eq!(run.machine.in_flight(), left);
        assert_eq!(run.awaits(), None);
    }
    run.passes(secs(1_000));
    run.act(|machine, now| machine.end(now, true));
    assert_eq!(run.awaits(), Some((600_000, Reason::Idle)));
    run.act(|machine, now| machine.end(now, true));
    assert_eq!(run.machine.in_flight(), 0);
}

#[test]
fn deferrals_hold_the_deadline_and_end_with_a_full_period() {
    let mut run = Run::live(idle());
    run.act(|machine, _| machine.defer());
    run.act(|machine, _| machine.defer());
    run.passes(secs(10_000));
    run.is("live");
    assert_eq!(run.awaits(), None);
    run.act(|machine, now| machine.undefer(now));
    assert_eq!(run.awaits(), None);
    run.passes(secs(10_000));
    run.act(|machine, now| machine.undefer(now));
    assert_eq!(run.awaits(), Some((600_000, Reason::Idle)));
}

#[test]
fn deferrals_and_operations_both_have_to_end() {
    let mut run = Run::live(idle());
    run.act(|machine, _| machine.defer());
    run.act(|machine, now| machine.begin(now));
    run.passes(secs(50));
    run.act(|machine, now| machine.undefer(now));
    assert_eq!(run.awaits(), None);
    run.passes(secs(50));
    run.act(|machine, now| machine.end(now, true));
    assert_eq!(run.awaits(), Some((600_000, Reason::Idle)));
    let mut run = Run::live(idle());
    run.act(|machine, _| machine.defer());
    run.call();
    assert_eq!(run.awaits(), None);
}

#[test]
fn an_unbalanced_end_of_a_deferral_is_harmless() {
    let mut run = Run::live(idle());
    run.passes(secs(100));
    run.act(|machine, now| machine.undefer(now));
    assert_eq!(run.awaits(), Some((500_000, Reason::Idle)), "nothing ended, so no period starts");
    run.act(|machine, _| machine.defer());
    assert_eq!(run.awaits(), None);
}

#[test]
fn the_idle_period_goes_on_while_the_machine_is_suspended() {
    let hours = secs(8 * 3600);
    let mut run = Run::served(idle());
    run.passes(secs(100));
    run.act(|machine, now| machine.handle_suspended(now, secs(200)));
    assert_eq!(run.awaits(), Some((300_000, Reason::Idle)));
    run.act(|machine, now| machine.handle_suspended(now, hours));
    assert_eq!(run.awaits(), Some((0, Reason::Idle)), "over, and not yet acted on");
    // Who was first after that still counts.
    let mut woken = run.clone();
    woken.call();
    assert_eq!(woken.awaits(), Some((IDLE * 1000, Reason::Idle)));
    woken.act(|machine, now| machine.handle_suspended(now, hours));
    assert_eq!(woken.awaits(), Some((IDLE * 1000, Reason::Idle)), "it is told late");
    run.passes(secs(0));
    run.is("idle");
    // What is in flight or deferred has no deadline, and gets a full period when it ends.
    for deferred in [false, true] {
        let mut run = Run::served(idle());
        run.act(|machine, now| if deferred { machine.defer() } else { machine.begin(now) });
        run.passes(secs(100));
        run.act(|machine, now| machine.handle_suspended(now, hours));
        assert_eq!(run.awaits(), None);
        run.act(|machine, now| if deferred { machine.undefer(now) } else { machine.end(now, true) });
        assert_eq!(run.awaits(), Some((IDLE * 1000, Reason::Idle)));
    }
    // A stop has the time that it is given.
    let mut run = Run::served(idle());
    run.passes(secs(IDLE));
    run.act(|machine, now| machine.handle_suspended(now, hours));
    assert_eq!(run.awaits(), Some((2000, Reason::InputClosed)));
}

#[test]
fn a_new_period_counts_from_the_last_operation() {
    let mut run = Run::served(idle());
    run.passes(secs(100));
    run.act(|machine, _| machine.set_idle(Some(secs(150))));
    assert_eq!(run.awaits(), Some((50_000, Reason::Idle)));
    run.act(|machine, _| machine.set_idle(Some(secs(50))));
    run.passes(secs(0));
    run.is("idle");
    let mut run = Run::served(idle());
    run.act(|machine, _| machine.set_idle(Some(Duration::ZERO)));
    assert_eq!(run.awaits(), None);
}

#[test]
fn inputs_out_of_place_change_nothing() {
    let setups = [
        Run::new(idle()),
        Run::live(idle()),
        {
            let mut run = Run::live(Config { resident: true, ..idle() });
            run.passes(secs(IDLE));
            run.gone();
            run
        },
        {
            let mut run = Run::live(idle());
            run.passes(secs(IDLE));
            run
        },
    ];
    type Input = fn(&mut Lifecycle, Instant);
    let inputs: [(&str, Input, &[usize]); 9] = [
        ("ready", |machine, now| machine.handle_ready(now), &[0, 1, 2, 3]),
        ("start failed", |machine, now| machine.handle_start_failed(now, true), &[0, 1, 2, 3]),
        ("lost", |machine, now| machine.handle_lost(now), &[0, 2, 3]),
        ("silent", |machine, _| machine.handle_silent(), &[0, 2, 3]),
        ("heard", |machine, _| machine.handle_heard(), &[0, 1, 2, 3]),
        ("expired", |machine, _| machine.handle_expired(), &[0, 2, 3]),
        ("unauthorized", |machine, _| machine.handle_unauthorized(), &[0, 2, 3]),
        ("gone", |machine, now| machine.handle_tree_gone(now, true), &[0, 1, 2]),
        ("persisted", |machine, now| machine.handle_persisted(now), &[0, 1, 2, 3]),
    ];
    for (name, input, places) in inputs {
        for place in places {
            let mut run = setups[*place].clone();
            run.said();
            let before = (run.machine.public_state(), run.awaits());
            run.act(input);
            assert!(run.said().is_empty(), "{name} in setup {place}");
            assert_eq!((run.machine.public_state(), run.awaits()), before, "{name} in setup {place}");
        }
    }
}

#[test]
fn leaving_finishes_what_is_in_flight_and_takes_nothing_new() {
    let mut run = Run::live(Config { idle: None, ..idle() });
    run.act(|machine, now| machine.begin(now));
    run.act(|machine, now| machine.leave(now));
    assert_eq!(run.awaits(), None, "an operation is in flight");
    run.act(|machine, now| assert_eq!(machine.unavailable(now), Some(Unavailable::ShuttingDown)));
    run.passes(secs(1000));
    run.is("live");
    run.act(|machine, now| machine.end(now, true));
    assert_eq!(run.awaits().map(|(_, reason)| reason), Some(Reason::Idle));
    run.passes(secs(0));
    run.is("idle");
    run.gone();
    run.is("idle");
}

#[test]
fn leaving_is_heeded_in_every_state() {
    for mut run in [Run::new(idle()), Run::live(idle()), Run::served(Config { auto_restart: true, ..idle() })]
    {
        run.act(|machine, now| machine.leave(now));
        run.passes(secs(0));
        run.is("idle");
    }
}
