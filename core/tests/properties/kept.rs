//! The idle deadline while the period is changed at any time: always the end of the last operation and the period that
//! holds now.

use drowse_core::crash::CrashLog;
use drowse_core::lifecycle::{Config, Effect, Lifecycle, PublicState};
use drowse_core::time::{Duration, Instant};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    End,
    Defer,
    Undefer,
    Set(Option<u64>),
    /// Seconds go by, with the timer where it is due.
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Begin),
        4 => Just(Step::End),
        1 => Just(Step::Defer),
        2 => Just(Step::Undefer),
        3 => proptest::option::of(0..30u64).prop_map(Step::Set),
        4 => (0..40u64).prop_map(Step::Pass),
    ]
}

/// A lifecycle whose records are written and whose server starts and ends at once.
struct Run {
    machine: Lifecycle,
    now: Instant,
    period: Option<Duration>,
    flying: u32,
    deferring: u32,
    /// When the last operation or deferral ended, or the server was ready.
    quiet_since: Instant,
    sleeps: u32,
}

impl Run {
    fn drain(&mut self) {
        while let Some(effect) = self.machine.poll_effect() {
            match effect {
                Effect::Persist(_) => self.machine.handle_persisted(self.now),
                Effect::Spawn { .. } => {
                    self.machine.handle_ready(self.now);
                    self.quiet_since = self.now;
                }
                Effect::CloseInput => {
                    self.sleeps += 1;
                    self.machine.handle_tree_gone(self.now, false);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn wanted(&self) -> Option<Instant> {
        let quiet = self.flying == 0 && self.deferring == 0;
        let period = self.period.filter(|period| !period.is_zero() && quiet)?;
        Some(self.quiet_since.after(period))
    }

    fn check(&self, step: Step) {
        let deadline = self.machine.idle_deadline();
        match self.machine.public_state() {
            PublicState::Live => assert_eq!(deadline, self.wanted(), "{step:?}"),
            PublicState::Idle => assert_eq!(deadline, None, "{step:?}"),
            other => panic!("{other:?} after {step:?}"),
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Begin => {
                self.flying += 1;
                self.machine.begin(self.now);
                self.quiet_since = self.now;
            }
            Step::End if self.flying > 0 => {
                self.flying -= 1;
                self.machine.end(self.now, true);
                self.quiet_since = self.now;
            }
            // Only a server that runs has what defers.
            Step::Defer if self.machine.is_ready() => {
                self.deferring += 1;
                self.machine.defer();
            }
            Step::Undefer if self.deferring > 0 => {
                self.deferring -= 1;
                self.machine.undefer(self.now);
                if self.deferring == 0 {
                    self.quiet_since = self.now;
                }
            }
            Step::Set(period) => {
                self.period = period.map(Duration::from_secs);
                self.machine.set_idle(self.period);
            }
            Step::Pass(seconds) => {
                let until = self.now.after(Duration::from_secs(seconds));
                let due = self.machine.idle_deadline().filter(|at| *at <= until);
                // A period that was over when it was set ends it now, not in the past.
                self.now = due.map_or(until, |at| at.max(self.now));
                let sleeps = self.sleeps;
                self.machine.handle_timeout(self.now);
                self.drain();
                assert_eq!(self.sleeps - sleeps, u32::from(due.is_some()), "{step:?}");
                self.now = until.max(self.now);
            }
            Step::End | Step::Defer | Step::Undefer => {}
        }
        self.drain();
        self.check(step);
    }
}

proptest! {
    #![proptest_config(super::at_least(2_000))]

    #[test]
    fn the_deadline_is_the_last_end_and_the_period_of_now(
        first in proptest::option::of(0..30u64),
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let period = first.map(Duration::from_secs);
        let config = Config { idle: period, resident: true, ..Config::default() };
        let now = Instant::from_millis(1_000_000);
        let machine = Lifecycle::new(config, 0, CrashLog::new());
        let mut run =
            Run { machine, now, period, flying: 0, deferring: 0, quiet_since: now, sleeps: 0 };
        run.take(Step::Begin);
        for step in steps {
            run.take(step);
        }
    }
}
