//! The lifecycle of one registered server: asleep, starting, live, stopping, and why.
//!
//! Owns the public state, the count of what keeps the server awake, the idle deadline, the order of a start and of a
//! stop, and the back-off after crashes. It never sees a message: [`crate::server::Server`] tells it when operations
//! begin and end.
//!
//! ```text
//!            operation                 negotiated
//!  dormant ─────────────▶ connecting ─────────────▶ live ◀──────▶ disconnected
//!     idle ─────────────▶     │                      │  silent / heard
//!  crashed ─────────────▶     │ failed               │ idle deadline · exit · close
//!  expired ─────────────▶     ▼                      ▼
//!     ▲                    stopping ◀────────────────┘
//!     └── tree gone ──────────┘   (an operation that came meanwhile: connecting again)
//! ```
//!
//! A start is `Persist`, then `Spawn`, then negotiation; an idle stop is `Persist`, then `CloseInput`, `Terminate`,
//! `Kill` with their delays, then the tree is gone. Each step waits for the acknowledgement of the one before, so a
//! kill between any two leaves a record that the next starter can trust.

use crate::crash::CrashLog;
use crate::time::{Duration, Instant, Reason, Timetable};

mod exchange;
pub mod table;

pub use self::exchange::{Effect, Exit, Lost, PublicState, Record, Unavailable};

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;

#[cfg(test)]
mod listening_tests;

/// How a server is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// How long a server is kept after the last operation; `None` or zero: for ever.
    pub idle: Option<Duration>,
    /// How long a server has to end after its input was closed.
    pub input_grace: Duration,
    /// How long it has after it was told to terminate.
    pub terminate_grace: Duration,
    /// Crashed and expired servers are started again in the background.
    pub auto_restart: bool,
    /// An expired session is not replaced by a fresh one: only a restart helps.
    pub fail_on_expiry: bool,
    /// The machine outlives its server's sleep, until it is closed; otherwise it asks to be retired.
    pub resident: bool,
    /// A server that is being written: each of its crashes counts, also where it had served before, and a start that failed
    /// is not tried again at once.
    pub in_the_making: bool,
    /// Clients find the server at an address that the machine's adapter holds: once it was ready, the machine outlives its
    /// sleep and its end as well. A first start that fails still asks to be retired.
    pub listens: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            idle: None,
            input_grace: Duration::from_secs(2),
            terminate_grace: Duration::from_secs(2),
            auto_restart: false,
            fail_on_expiry: false,
            resident: false,
            in_the_making: false,
            listens: false,
        }
    }
}

/// What ended within this time before a suspension became known may have ended after it.
const SETTLED: Duration = Duration::from_secs(1);

/// Where a server is when it does not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    Idle,
    Crashed,
    Unauthorized,
    Expired,
    Closed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Start {
    /// The record of the new generation is being written.
    Persist,
    /// To be spawned.
    Spawn,
    /// Being spawned, or negotiated with.
    Negotiate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    /// The record that it stops on purpose is being written.
    Persist,
    /// Its input is closed.
    Input { until: Instant, told: bool },
    /// It was told to terminate.
    Terminate { until: Instant, told: bool },
    /// It was killed.
    Kill { told: bool },
}

/// What follows once the tree is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    Rest(Rest),
    /// It ended by itself; whether that was a crash depends on its exit, and on whether it was needed.
    Lost {
        /// It was not needed, and would have been ended for that sooner or later.
        quiet: bool,
        exit: Option<Exit>,
    },
    /// It died on the first question: once more, straight into the other one.
    Again {
        background: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Dormant,
    Starting { step: Start, background: bool },
    Live,
    Silent,
    Stopping { step: Stop, then: Then },
    Resting(Rest),
}

/// The lifecycle machine.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    config: Config,
    state: State,
    generation: u64,
    ended: bool,
    /// The generation answered an operation: it works.
    served: bool,
    straight: bool,
    shown: bool,
    in_flight: u32,
    deferrals: u32,
    /// When the last operation or deferral ended, or the server became ready.
    quiet_since: Instant,
    crashes: CrashLog,
    /// Changes of the record: made, given out, and acknowledged.
    made: u32,
    given: u32,
    saved: u32,
    retired: bool,
    /// Its place is wanted by another: no new operation is accepted, and it sleeps as soon as none is in flight.
    leaving: bool,
    /// Somebody wanted the server awake while it was being ended: it is started again.
    wanted: bool,
    /// What a server kept was lost unasked, and nobody has been told.
    lost: Option<Lost>,
    /// It was ready once.
    proven: bool,
}

impl Lifecycle {
    /// A server that does not run. `generation` is that of the last run, 0 if there was none.
    #[must_use]
    pub const fn new(config: Config, generation: u64, crashes: CrashLog) -> Self {
        Self {
            config,
            state: State::Dormant,
            generation,
            ended: true,
            served: false,
            straight: false,
            shown: true,
            in_flight: 0,
            deferrals: 0,
            quiet_since: Instant::ZERO,
            crashes,
            made: 0,
            given: 0,
            saved: 0,
            leaving: false,
            retired: false,
            wanted: false,
            lost: None,
            proven: false,
        }
    }

    /// What a user is told.
    #[must_use]
    pub const fn public_state(&self) -> PublicState {
        match self.state {
            State::Dormant => PublicState::Dormant,
            State::Starting { background, .. } | State::Stopping { then: Then::Again { background }, .. } => {
                if background {
                    PublicState::Reconnecting
                } else {
                    PublicState::Connecting
                }
            }
            State::Live if self.shown => PublicState::Live,
            State::Live => PublicState::Suspended,
            // How it ended is not known so far: it may have gone to sleep by itself, which is no crash.
            State::Silent | State::Stopping { then: Then::Lost { quiet: true, exit: None }, .. } => {
                PublicState::Disconnected
            }
            State::Stopping { then: Then::Lost { quiet, exit }, .. } => public_rest(outcome(quiet, exit)),
            State::Stopping { then: Then::Rest(rest), .. } | State::Resting(rest) => public_rest(rest),
        }
    }

    /// Number of the current or last generation.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the server is ready for operations.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        matches!(self.state, State::Live | State::Silent)
    }

    /// Whether the process is up but not negotiated.
    #[must_use]
    pub const fn is_negotiating(&self) -> bool {
        matches!(self.state, State::Starting { step: Start::Negotiate, .. })
    }

    /// Whether it is on its way to be ready, or will be: a start that was put once more counts.
    #[must_use]
    pub const fn is_starting(&self) -> bool {
        matches!(self.state, State::Starting { .. } | State::Stopping { then: Then::Again { .. }, .. })
    }

    /// Whether the process is being ended; only then the end of its tree is of interest.
    #[must_use]
    pub const fn is_stopping(&self) -> bool {
        matches!(self.state, State::Stopping { .. })
    }

    /// Whether the next start puts one question alone, as the server died on the other one.
    #[must_use]
    pub const fn is_straight(&self) -> bool {
        self.straight
    }

    /// Whether what needs no server of its own is passed to it all the same: it runs, or is being started for others.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        matches!(self.state, State::Starting { .. } | State::Live | State::Silent)
    }

    /// Operations in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The recent crashes.
    #[must_use]
    pub const fn crashes(&self) -> &CrashLog {
        &self.crashes
    }

    /// How a server is kept.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// When the last operation or deferral ended, or the server became ready.
    #[must_use]
    pub const fn quiet_since(&self) -> Instant {
        self.quiet_since
    }

    /// Changes the idle period; it counts from the end of the last operation.
    pub const fn set_idle(&mut self, idle: Option<Duration>) {
        self.config.idle = idle;
    }

    /// Changes how the server is kept. Each step that is still to come goes by it: a stop that is under way keeps the grace
    /// that its step began with.
    pub const fn set_config(&mut self, config: Config) {
        self.config = config;
    }

    /// Nobody wants the server so far, but clients find it: whatever becomes of its first start, the adapter stays.
    pub const fn stand_by(&mut self) {
        self.proven = true;
    }

    /// Changes whether the adapter holds an address at which clients find the server.
    pub fn set_listens(&mut self, listens: bool) {
        self.config.listens = listens;
        if !listens && !self.config.resident && self.state == State::Dormant {
            // It was there for that only.
            self.rest(Rest::Idle);
        }
    }

    /// Why an operation would not be accepted now.
    #[must_use]
    pub fn unavailable(&self, now: Instant) -> Option<Unavailable> {
        if self.retired || self.leaving {
            return Some(Unavailable::ShuttingDown);
        }
        match self.state {
            State::Resting(Rest::Closed) | State::Stopping { then: Then::Rest(Rest::Closed), .. } => {
                Some(Unavailable::ShuttingDown)
            }
            State::Resting(Rest::Unauthorized) => Some(Unavailable::Unauthorized),
            State::Resting(Rest::Expired) if self.config.fail_on_expiry => Some(Unavailable::Expired),
            State::Resting(Rest::Crashed) | State::Dormant if !self.crashes.admits(now) => {
                self.crashes.retry_at().map(Unavailable::BackingOff)
            }
            _ => None,
        }
    }

    /// When the server falls asleep, unless something happens.
    #[must_use]
    pub fn idle_deadline(&self) -> Option<Instant> {
        if self.leaving && self.in_flight == 0 {
            let stays = matches!(self.state, State::Dormant | State::Stopping { .. } | State::Resting(_));
            return (!stays).then_some(self.quiet_since);
        }
        let idle = self.config.idle.filter(|idle| !idle.is_zero())?;
        let eligible = match self.state {
            State::Live | State::Silent => true,
            State::Starting { background, .. } => background,
            State::Resting(Rest::Crashed | Rest::Expired) => self.config.auto_restart,
            _ => false,
        };
        (eligible && self.is_quiet()).then(|| self.quiet_since.after(idle))
    }

    /// Another program is to take over: whatever is in flight is finished, nothing new is accepted, and the server is
    /// let go as if its idle period were over.
    pub fn leave(&mut self, now: Instant) {
        self.leaving = true;
        if self.in_flight == 0 {
            self.quiet_since = now;
        }
        if self.state == State::Dormant {
            self.rest(Rest::Idle);
        }
    }

    /// An operation arrived. Wakes a sleeping server.
    ///
    /// Ask [`unavailable`](Self::unavailable) first: a start that may not happen is not begun here either.
    pub fn begin(&mut self, now: Instant) {
        self.in_flight = self.in_flight.saturating_add(1);
        // Nothing more need be remembered during a stop: if it is cancelled before the end of it, nothing is wanted.
        self.rouse(now);
    }

    /// An operation ended, however. `served`: the server answered it.
    pub fn end(&mut self, now: Instant, served: bool) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if served {
            self.served = true;
            if !self.config.in_the_making {
                self.crashes.clear();
            }
        }
        if self.in_flight == 0 {
            self.quiet_since = now;
        }
    }

    /// Something defers the deadline like an operation in flight: a live resource subscription, a pending task.
    pub const fn defer(&mut self) {
        self.deferrals = self.deferrals.saturating_add(1);
    }

    /// A deferral ended.
    pub const fn undefer(&mut self, now: Instant) {
        if self.deferrals == 1 {
            self.quiet_since = now;
        }
        self.deferrals = self.deferrals.saturating_sub(1);
    }

    /// Somebody wants the server awake (`connect`, `restart`, `enable`): like an operation that ends when it is ready.
    pub fn wake(&mut self, now: Instant) {
        self.rouse(now);
        self.wanted = self.is_stopping();
    }

    /// Somebody wants a fresh server whatever there was: the one that runs is ended, and earlier crashes count no more.
    pub fn restart(&mut self, now: Instant) {
        self.forgive();
        if self.unavailable(now).is_some_and(|why| why == Unavailable::ShuttingDown) {
            return;
        }
        let then = Then::Rest(Rest::Idle);
        match self.state {
            State::Dormant | State::Resting(_) => self.start(false),
            State::Starting { step: Start::Persist, .. } => {}
            State::Starting { .. } => {
                self.state = State::Stopping { step: Stop::Kill { told: false }, then };
                self.change();
            }
            State::Live | State::Silent => self.stop(then),
            State::Stopping { .. } => {}
        }
        self.wanted = self.is_stopping();
    }

    /// Earlier crashes say nothing of what would be started now.
    pub fn forgive(&mut self) {
        self.crashes.clear();
    }

    /// The machine was suspended for that long, and the clock stood still. Nobody used the server meanwhile, so that its
    /// idle period went on; whatever else is timed was suspended as well.
    pub fn handle_suspended(&mut self, now: Instant, length: Duration) {
        if now.since(self.quiet_since) >= SETTLED {
            self.quiet_since = self.quiet_since.before(length);
        }
    }

    /// No view shows the server any more, or one does again.
    pub fn show(&mut self, now: Instant, shown: bool) {
        if self.shown != shown {
            self.shown = shown;
            if self.state == State::Live {
                self.change();
            }
        }
        if shown {
            self.wake(now);
        }
    }

    /// The record that was given out is written.
    pub fn handle_persisted(&mut self, now: Instant) {
        self.saved = self.given;
        self.persisted(now);
    }

    /// The record could not be written. A start does not go on without it; a stop does, since the next starter finds
    /// what a stale record names. Returns whether a start was given up.
    pub fn handle_persist_failed(&mut self, now: Instant) -> bool {
        self.saved = self.given;
        if let State::Starting { step: Start::Persist, background } = self.state
            && self.saved == self.made
        {
            if background {
                // Else it would be tried again at once, and again.
                self.crashes.record(now);
            }
            self.rest(Rest::Crashed);
            return true;
        }
        self.persisted(now);
        false
    }

    /// The process could not be started.
    pub fn handle_spawn_failed(&mut self, now: Instant) {
        match self.state {
            State::Starting { .. } => {
                self.start_failed(now);
                self.rest(Rest::Crashed);
            }
            // Closed before the answer came: there is nothing to stop.
            State::Stopping { .. } => self.handle_tree_gone(now, false),
            _ => {}
        }
    }

    /// How the last run ended, of which only its record is known, and nobody has been told.
    pub const fn was_lost(&mut self, lost: Lost) {
        self.lost = Some(lost);
    }

    /// How what a server kept was lost, unless somebody was told, or it would have slept meanwhile.
    #[must_use]
    pub const fn lost(&self) -> Option<Lost> {
        self.lost
    }

    /// Whether a fresh server took the place of one that ended unasked; said once, as soon as that is ready.
    #[must_use]
    pub const fn poll_renewed(&mut self) -> Option<Lost> {
        if self.is_ready() { self.lost.take() } else { None }
    }

    /// The server is negotiated.
    pub fn handle_ready(&mut self, now: Instant) {
        if let State::Starting { step: Start::Negotiate, background } = self.state {
            self.state = State::Live;
            self.straight = false;
            self.proven = true;
            // What drowse starts for itself is no activity.
            if !background {
                self.quiet_since = now;
            }
            self.change();
        }
    }

    /// The server could not be negotiated with. `again`: it may have died on the question.
    pub fn handle_start_failed(&mut self, now: Instant, again: bool) {
        if let State::Starting { step: Start::Negotiate, background } = self.state {
            let again = again && !self.straight;
            if !again {
                self.start_failed(now);
            }
            let then = if again { Then::Again { background } } else { Then::Rest(Rest::Crashed) };
            self.state = State::Stopping { step: Stop::Kill { told: false }, then };
            self.change();
        }
    }

    /// The server closed its output, or its link broke.
    pub fn handle_lost(&mut self, now: Instant) {
        if self.is_ready() {
            let then = Then::Lost { quiet: self.may_leave(), exit: None };
            let until = now.after(self.config.input_grace);
            self.state = State::Stopping { step: Stop::Input { until, told: false }, then };
            self.lost = Some(Lost::Ended);
            self.change();
        }
    }

    /// The server process itself ended; others of its tree may live on.
    pub fn handle_exited(&mut self, now: Instant, exit: Exit) {
        self.handle_lost(now);
        let before = self.public_state();
        if let State::Stopping { step, then } = &mut self.state {
            if let Then::Lost { exit: known, .. } = then {
                known.get_or_insert(exit);
            }
            // Whoever was left behind has no use for the input.
            if let Stop::Persist | Stop::Input { .. } = step {
                let until = now.after(self.config.terminate_grace);
                *step = Stop::Terminate { until, told: false };
            }
        }
        if self.public_state() != before {
            self.change();
        }
    }

    /// The server does not answer the keepalive.
    pub fn handle_silent(&mut self) {
        if self.state == State::Live {
            self.state = State::Silent;
            self.change();
        }
    }

    /// The server was heard again.
    pub fn handle_heard(&mut self) {
        if self.state == State::Silent {
            self.state = State::Live;
            self.change();
        }
    }

    /// The server said that the session is gone.
    pub fn handle_expired(&mut self) {
        if self.is_ready() {
            let rest = if self.may_leave() { Rest::Idle } else { Rest::Expired };
            self.lost = (rest == Rest::Expired).then_some(Lost::Expired);
            self.stop(Then::Rest(rest));
        }
    }

    /// The server refused the credentials.
    pub fn handle_unauthorized(&mut self) {
        match self.state {
            State::Live | State::Silent => self.stop(Then::Rest(Rest::Unauthorized)),
            State::Starting { step: Start::Negotiate, .. } => {
                self.state = State::Stopping {
                    step: Stop::Kill { told: false },
                    then: Then::Rest(Rest::Unauthorized),
                };
                self.change();
            }
            _ => {}
        }
    }

    /// No process of the tree is left. `waiting`: operations wait that were never sent.
    pub fn handle_tree_gone(&mut self, now: Instant, waiting: bool) {
        let State::Stopping { then, .. } = self.state else { return };
        let rest = match then {
            Then::Again { background } => {
                self.straight = true;
                self.start(background);
                return;
            }
            Then::Rest(rest) => rest,
            Then::Lost { quiet, exit } => outcome(quiet, exit),
        };
        let counts = !self.served || self.config.in_the_making;
        if matches!(then, Then::Lost { .. }) && rest == Rest::Crashed && counts {
            self.crashes.record(now);
        }
        let wanted = waiting || self.wanted;
        self.rest(rest);
        if wanted && self.unavailable(now).is_none() {
            self.start(false);
        }
    }

    /// The server is not wanted any more.
    pub fn close(&mut self) {
        match self.state {
            State::Dormant | State::Resting(_) | State::Starting { step: Start::Persist, .. } => {
                self.rest(Rest::Closed);
            }
            State::Starting { .. } => {
                let then = Then::Rest(Rest::Closed);
                self.state = State::Stopping { step: Stop::Kill { told: false }, then };
                self.change();
            }
            State::Live | State::Silent => self.stop(Then::Rest(Rest::Closed)),
            State::Stopping { step, .. } => {
                self.state = State::Stopping { step, then: Then::Rest(Rest::Closed) };
                self.change();
            }
        }
    }

    /// Time has passed; early, late and repeated calls do no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let State::Stopping { step, .. } = &mut self.state {
            match *step {
                Stop::Input { until, .. } if now >= until => {
                    let until = now.after(self.config.terminate_grace);
                    *step = Stop::Terminate { until, told: false };
                }
                Stop::Terminate { until, .. } if now >= until => *step = Stop::Kill { told: false },
                _ => {}
            }
            return;
        }
        if self.idle_deadline().is_some_and(|at| now >= at) {
            match self.state {
                State::Live | State::Silent => self.stop(Then::Rest(Rest::Idle)),
                State::Starting { step: Start::Persist, .. } | State::Resting(_) => self.rest(Rest::Idle),
                State::Starting { .. } => {
                    let then = Then::Rest(Rest::Idle);
                    self.state = State::Stopping { step: Stop::Kill { told: false }, then };
                    self.change();
                }
                State::Dormant | State::Stopping { .. } => {}
            }
        } else if self.restart_at().is_some_and(|at| now >= at) {
            self.start(true);
        }
    }

    /// Adds what is awaited.
    pub fn timetable(&self, table: &mut Timetable) {
        if let State::Stopping { step, .. } = self.state {
            match step {
                Stop::Input { until, .. } => table.set(Reason::InputClosed, until),
                Stop::Terminate { until, .. } => table.set(Reason::Terminated, until),
                Stop::Persist | Stop::Kill { .. } => {}
            }
        }
        if let Some(at) = self.idle_deadline() {
            table.set(Reason::Idle, at);
        }
        if let Some(at) = self.restart_at() {
            table.set(Reason::Backoff, at);
        }
    }

    /// The next effect, in an order that matters. Call until `None` after every input.
    #[must_use]
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if self.made != self.given && self.given == self.saved {
            self.given = self.made;
            return Some(Effect::Persist(self.record()));
        }
        // Nothing is ended before it is written down why: who is killed in between leaves no crash.
        if self.given != self.saved {
            return None;
        }
        let stays = (self.config.resident || self.config.listens && self.proven) && !self.leaving;
        match &mut self.state {
            State::Starting { step: step @ Start::Spawn, .. } => {
                *step = Start::Negotiate;
                Some(Effect::Spawn { generation: self.generation })
            }
            State::Stopping { step: Stop::Input { told: told @ false, .. }, .. } => {
                *told = true;
                Some(Effect::CloseInput)
            }
            State::Stopping { step: Stop::Terminate { told: told @ false, .. }, .. } => {
                *told = true;
                Some(Effect::Terminate)
            }
            State::Stopping { step: Stop::Kill { told: told @ false }, .. } => {
                *told = true;
                Some(Effect::Kill)
            }
            State::Resting(rest)
                if self.in_flight == 0
                    && !self.retired
                    && (!stays || *rest == Rest::Closed)
                    && self.saved == self.made
                    && !(self.config.auto_restart
                        && !self.leaving
                        && matches!(rest, Rest::Crashed | Rest::Expired)) =>
            {
                self.retired = true;
                Some(Effect::Retire)
            }
            _ => None,
        }
    }

    /// What is written down.
    #[must_use]
    pub const fn record(&self) -> Record {
        Record { state: self.public_state(), generation: self.generation, ended: self.ended }
    }

    /// Starts what sleeps; a start in the background becomes one that somebody waits for.
    fn rouse(&mut self, now: Instant) {
        self.quiet_since = now;
        if self.unavailable(now).is_some() {
            return;
        }
        match &mut self.state {
            State::Dormant | State::Resting(_) => self.start(false),
            State::Starting { background: background @ true, .. }
            | State::Stopping { then: Then::Again { background: background @ true }, .. } => {
                *background = false;
                self.change();
            }
            _ => {}
        }
    }

    fn start_failed(&mut self, now: Instant) {
        if self.config.in_the_making {
            self.crashes.record_failed_start(now);
        } else {
            self.crashes.record(now);
        }
    }

    const fn is_quiet(&self) -> bool {
        self.in_flight == 0 && self.deferrals == 0
    }

    fn change(&mut self) {
        self.made = self.made.wrapping_add(1);
    }

    fn start(&mut self, background: bool) {
        self.generation = self.generation.saturating_add(1);
        self.ended = false;
        self.served = false;
        self.wanted = false;
        self.state = State::Starting { step: Start::Persist, background };
        self.change();
    }

    fn stop(&mut self, then: Then) {
        self.state = State::Stopping { step: Stop::Persist, then };
        self.change();
    }

    fn rest(&mut self, rest: Rest) {
        self.state = State::Resting(rest);
        if rest == Rest::Idle {
            // What a server keeps ends with its sleep anyhow.
            self.lost = None;
        }
        self.ended = true;
        self.straight = false;
        self.wanted = false;
        self.change();
    }

    /// A step that waited for its record goes on.
    fn persisted(&mut self, now: Instant) {
        if self.saved != self.made {
            return;
        }
        match &mut self.state {
            State::Starting { step: step @ Start::Persist, .. } => *step = Start::Spawn,
            State::Stopping { step: step @ Stop::Persist, .. } => {
                *step = Stop::Input { until: now.after(self.config.input_grace), told: false };
            }
            _ => {}
        }
    }

    /// When a background start is due.
    fn restart_at(&self) -> Option<Instant> {
        let waits = matches!(self.state, State::Resting(Rest::Crashed | Rest::Expired));
        (waits && self.config.auto_restart).then(|| self.crashes.retry_at().unwrap_or(Instant::ZERO))
    }

    /// Whether a server that ends now only beats our timer to the same end.
    fn may_leave(&self) -> bool {
        self.is_quiet() && self.config.idle.is_some_and(|idle| !idle.is_zero())
    }
}

/// What a server is that ended by itself.
const fn outcome(quiet: bool, exit: Option<Exit>) -> Rest {
    if quiet && matches!(exit, Some(Exit::Status(0))) { Rest::Idle } else { Rest::Crashed }
}

const fn public_rest(rest: Rest) -> PublicState {
    match rest {
        Rest::Idle => PublicState::Idle,
        Rest::Crashed => PublicState::Crashed,
        Rest::Unauthorized => PublicState::Unauthorized,
        Rest::Expired => PublicState::Expired,
        Rest::Closed => PublicState::Closed,
    }
}
