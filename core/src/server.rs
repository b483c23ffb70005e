//! One registered server: link, lifecycle and negotiation behind a few verbs.
//!
//! The adapter's loop:
//!
//! 1. hand in what happened: [`submit`](Server::submit), [`handle_frame`](Server::handle_frame) and the other
//!    `handle_*`, each with the time;
//! 2. drain [`poll_action`](Server::poll_action) and do what it says, handing acknowledgements back in;
//! 3. sleep until [`poll_timeout`](Server::poll_timeout), or until something happens;
//! 4. [`handle_timeout`](Server::handle_timeout); repeat.
//!
//! Each input is seen by the link first, then by the negotiation, then by the lifecycle, so that a lost link is known
//! before the lifecycle decides. What the adapter reports of the server is in `reports`, and what it is to do next in
//! `actions`.

use crate::crash::CrashLog;
use crate::era::{Era, Pin, Revision};
use crate::keepalive::Keepalive;
use crate::lifecycle::{self, Lifecycle, Lost, PublicState, Unavailable};
use crate::link::{Allowance, Cause, Key, Link, OWN_INDEX, Slot};
use crate::logging::Level;
use crate::negotiate::{Limits, Negotiation, NegotiationError, Question};
use crate::relay::{self, Relay};
use crate::snapshot::{self, Gathering};
use crate::tally::Tally;
use crate::time::{Duration, Instant, Reason, Timetable};

mod actions;
mod counting;
mod dev;
mod exchange;
mod gathering;
mod kept;
mod listening;
mod reports;

pub use self::exchange::{Action, Ignored, Operation, Outcome, Refusal};
pub use self::kept::Kept;

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod http_tests;

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod listening_tests;

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod gathering_tests;

/// How long the older of two streams of announcements is read on, where each has a connection of its own.
const OVERLAP: Duration = Duration::from_millis(500);

/// How many requests somebody may have under way for each that there is still room for.
const SHARE: usize = 4;

/// How a server is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// What the configuration says about the revision.
    pub pin: Pin,
    /// The era of the last run; checked, and asked again if it no longer holds.
    pub remembered: Option<Era>,
    /// The limits of a start.
    pub limits: Limits,
    /// How long the server is kept, and how it is ended.
    pub lifecycle: lifecycle::Config,
    /// How the server is reached.
    pub transport: Transport,
    /// Ask a server that was silent for this long whether it is still there; `None` or zero: never.
    pub keepalive: Option<Duration>,
    /// The same for a server behind a URL that keeps a session, which it may forget.
    pub session_keepalive: Option<Duration>,
    /// What a request may take unless it says otherwise.
    pub allowance: Allowance,
    /// When the server is asked what it offers, to be saved for the time when it sleeps; `None`: never. A modern server
    /// that is a process is also asked to say when that changes ([`relay::Step::Listen`], though nobody listens).
    pub snapshot: Option<snapshot::Limits>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            pin: Pin::None,
            remembered: None,
            limits: Limits::default(),
            lifecycle: lifecycle::Config::default(),
            transport: Transport::Stream,
            keepalive: None,
            session_keepalive: None,
            allowance: Allowance { quiet: Duration::from_secs(300), total: Duration::from_secs(3600) },
            snapshot: None,
        }
    }
}

/// How a server is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Transport {
    /// A byte stream each way, to a process of ours.
    #[default]
    Stream,
    /// HTTP: each request is an exchange of its own, see [`crate::http`]. The "tree" of such a server is the exchanges
    /// that are under way: its input is closed by ending the session, and it is killed by breaking them off.
    Http,
}

/// Why the last start failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum StartError {
    /// The record could not be written.
    NotPersisted,
    /// There is no such program, or the like; the adapter knows.
    NotSpawned,
    /// It started, but could not be negotiated with.
    Negotiation(NegotiationError),
}

/// The machine of one registered server. `S` is the storage of its requests, `R` that of what clients listen to.
#[derive(Clone, Debug)]
pub struct Server<S, R = [relay::Slot; 0]> {
    config: Config,
    lifecycle: Lifecycle,
    link: Link<S>,
    relay: Relay<R>,
    /// What it offers.
    gathering: Gathering,
    /// The idle deadline is deferred for those who listen.
    deferred: bool,
    /// It is to retire as soon as everybody who listens was told.
    retiring: bool,
    negotiation: Option<Negotiation>,
    revision: Option<Revision>,
    remembered: Option<Era>,
    /// The era of the client for whom something is handed in next, and of the one who wanted the server when it was not up.
    asker: Option<Era>,
    wanted_by: Option<Era>,
    /// The next number for a message of our own: even ones ask `server/discover`, odd ones anything else.
    own: u64,
    keepalive: Keepalive,
    start_error: Option<StartError>,
    /// When the start that is under way, or was last, has to be over: with its second attempt, if it needs one.
    connect_by: Option<Instant>,
    /// When a tree that was killed has to be gone; whoever waits for the next server then waits no longer.
    gone_by: Option<Instant>,
    /// The server's input takes more: requests that it does not take stay queued.
    writable: bool,
    /// It is going to be replaced: nothing more is sent to it.
    holds: bool,
    /// How much of the server's log is wanted, and whether the one that runs has still to be told.
    level: Option<Level>,
    untold_level: bool,
    /// The server declares that it has a log: one that does not is told nothing of it (2025-11-25,
    /// server/utilities/logging, Capabilities).
    logs: bool,
    /// Over HTTP: what is known of the link of this generation.
    http: Http,
    tally: Tally,
    now: Instant,
}

/// What belongs to one generation of a server behind a URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Http {
    /// The server gave a session.
    session: bool,
    /// All its messages come on one stream, as in 2024-11-05.
    old: bool,
    /// The stream on which it says what belongs to no request was asked for.
    listening: bool,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Server<S> {
    /// A server that does not run, and to which nobody can listen. `generation` and `crashes` are those of its record.
    #[must_use]
    pub fn new(config: Config, slots: S, generation: u64, crashes: CrashLog) -> Self {
        Self::listening(config, slots, [], generation, crashes)
    }
}

impl<S, R> Server<S, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    R: AsRef<[relay::Slot]> + AsMut<[relay::Slot]>,
{
    /// A server that does not run, with room for what clients listen to. `generation` and `crashes` are those of its
    /// record.
    #[must_use]
    pub fn listening(config: Config, slots: S, heard: R, generation: u64, crashes: CrashLog) -> Self {
        let overlap = match config.transport {
            Transport::Stream => Duration::ZERO,
            Transport::Http => OVERLAP,
        };
        Self {
            relay: Relay::new(heard, config.allowance.quiet, overlap),
            gathering: Gathering::new(config.snapshot),
            deferred: false,
            retiring: false,
            config,
            lifecycle: Lifecycle::new(config.lifecycle, generation, crashes),
            link: Link::new(slots),
            negotiation: None,
            revision: None,
            remembered: config.remembered,
            asker: None,
            wanted_by: None,
            own: 0,
            keepalive: Keepalive::new(config.keepalive),
            start_error: None,
            connect_by: None,
            gone_by: None,
            writable: true,
            holds: false,
            level: None,
            untold_level: false,
            logs: false,
            http: Http::default(),
            tally: Tally::new(),
            now: Instant::ZERO,
        }
    }

    /// The last run, of which only its record is known, ended so, and nobody has been told.
    #[must_use]
    pub const fn after_loss(mut self, lost: Lost) -> Self {
        self.lifecycle.was_lost(lost);
        self
    }

    /// What a user is told.
    #[must_use]
    pub const fn state(&self) -> PublicState {
        self.lifecycle.public_state()
    }

    /// Its lifecycle, to look at.
    #[must_use]
    pub const fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// The revision it speaks, while it is ready.
    #[must_use]
    pub const fn revision(&self) -> Option<Revision> {
        self.revision
    }

    /// The revision that is agreed on, though the server may not be ready yet.
    #[must_use]
    pub fn negotiated(&self) -> Option<Revision> {
        self.revision.or_else(|| self.negotiation.as_ref().and_then(Negotiation::agreed))
    }

    /// The era to remember for its next start.
    #[must_use]
    pub const fn remembered(&self) -> Option<Era> {
        self.remembered
    }

    /// Why the last start failed.
    #[must_use]
    pub const fn start_error(&self) -> Option<StartError> {
        self.start_error
    }

    /// Whether the end of the process tree is awaited.
    #[must_use]
    pub const fn is_stopping(&self) -> bool {
        self.lifecycle.is_stopping()
    }

    /// Whether a request is under way.
    #[must_use]
    pub fn is_live(&self, key: Key) -> bool {
        self.link.is_live(key)
    }

    /// The key of the request under way in the slot of that index.
    #[must_use]
    pub fn key_at(&self, index: usize) -> Option<Key> {
        self.link.key_at(index)
    }

    /// The time of the last input.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Accepts an operation, and wakes the server for it; or changes nothing.
    ///
    /// # Errors
    /// If every slot is in use, or the server cannot be used now.
    pub fn submit(&mut self, now: Instant, operation: Operation) -> Result<Key, Refusal> {
        let asker = self.asker.take();
        if let Some(why) = self.lifecycle.unavailable(now) {
            return Err(Refusal::Unavailable(why));
        }
        if self.gone_by.is_some_and(|at| now >= at) {
            return Err(Refusal::Unavailable(Unavailable::Unkillable));
        }
        let allowance = operation.allowance.unwrap_or(self.config.allowance);
        let is_first = !self.link.has_queued();
        let key = self.link.submit(now, operation.method, allowance).map_err(|_| Refusal::Full)?;
        self.now = now;
        if is_first {
            self.note_asker(asker);
        }
        self.lifecycle.begin(now);
        Ok(key)
    }

    /// What is handed in next, accepted or not, is for a client of that era; what is handed in without that is drowse's
    /// own. As long as nothing is known of the server's era, a start asks first what the client who caused it would like to
    /// hear: a server of both eras is then one of the client's. Starts of drowse's own go on for whoever caused the one
    /// before.
    pub const fn ask_for(&mut self, era: Era) {
        self.asker = Some(era);
    }

    fn note_asker(&mut self, asker: Option<Era>) {
        if !self.lifecycle.is_up() {
            self.wanted_by = asker.or(self.wanted_by);
        }
    }

    /// Whether somebody may have one more request under way, who has as many as `theirs` says. Nobody gets more than four
    /// times as many as there is still room for, so that whoever else comes finds some, however much one client asks for
    /// at once. `theirs` is called only where it matters.
    #[must_use]
    pub fn has_room_for(&self, theirs: impl FnOnce() -> usize) -> bool {
        let share = self.link.room().saturating_mul(SHARE);
        // Nobody has more than all.
        share > self.link.used() || share > theirs()
    }

    /// The caller does not want the answer any more. The key comes back as a failure.
    pub fn cancel(&mut self, now: Instant, key: Key) {
        self.now = now;
        self.link.cancel(key);
    }

    /// A call is held: its caller was told what the server asks, and has all the time that it has for that. The call
    /// stays in flight.
    pub fn hold(&mut self, now: Instant, key: Key) {
        self.now = now;
        self.link.hold(key);
    }

    /// Its caller waits for a held call again: the call's time starts anew.
    pub fn release(&mut self, now: Instant, key: Key) {
        self.now = now;
        self.link.release_held(now, key);
    }

    /// Somebody wants the server awake, without an operation.
    pub fn wake(&mut self, now: Instant) {
        self.now = now;
        let asker = self.asker.take();
        self.note_asker(asker);
        self.lifecycle.wake(now);
    }

    /// Something begins to defer the idle deadline.
    pub fn defer(&mut self) {
        self.lifecycle.defer();
    }

    /// Something that deferred the idle deadline has ended.
    pub fn undefer(&mut self, now: Instant) {
        self.now = now;
        self.lifecycle.undefer(now);
    }

    /// The machine was suspended for that long, while the clock stood still: only the idle period went on. A request has
    /// the time that it had, as its server was suspended too.
    pub fn handle_suspended(&mut self, now: Instant, length: Duration) {
        self.now = now;
        self.lifecycle.handle_suspended(now, length);
    }

    /// No view shows the server any more, or one does again.
    pub fn show(&mut self, now: Instant, shown: bool) {
        self.now = now;
        self.lifecycle.show(now, shown);
    }

    /// How much of the server's log is wanted: each legacy server is told when it is ready. The one that runs is not; to a
    /// modern one it is said with each request.
    pub const fn set_level(&mut self, level: Option<Level>) {
        self.level = level;
    }

    /// What [`set_level`](Self::set_level) was given.
    #[must_use]
    pub const fn level(&self) -> Option<Level> {
        self.level
    }

    /// Changes the idle period.
    pub fn set_idle(&mut self, idle: Option<Duration>) {
        self.lifecycle.set_idle(idle);
    }

    /// Another program is to take over: what is in flight is finished, nothing new is accepted, then the server sleeps.
    pub fn leave(&mut self, now: Instant) {
        self.now = now;
        self.lifecycle.leave(now);
    }

    /// Ends the server for good: its tree is ended, what is under way fails.
    pub fn close(&mut self, now: Instant) {
        self.now = now;
        self.link.fail_all(Cause::ShuttingDown);
        self.lifecycle.close();
        self.settle();
    }

    /// Whether an answer with that wire id is waited for, be it to a caller's request or to a question of drowse's own.
    #[must_use]
    pub fn awaits(&self, wire: u64) -> bool {
        if wire & 0xffff == u64::from(OWN_INDEX) {
            self.negotiation.as_ref().is_some_and(|negotiation| negotiation.awaits(question_of(wire), wire))
                || self.keepalive.is_asked()
                || self.relay.awaits(wire)
                || self.gathering.awaits(wire)
        } else {
            self.link.awaits(wire)
        }
    }

    /// Time has passed; early, late and repeated calls do no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.link.handle_timeout(now);
        if let Some(negotiation) = &mut self.negotiation {
            negotiation.handle_timeout(now);
        }
        if self.lifecycle.is_ready() && self.keepalive.handle_timeout(now) {
            self.lifecycle.handle_silent();
        }
        self.relay.handle_timeout(now);
        self.gathering.note_busy(now, self.lifecycle.in_flight() > 0);
        self.lifecycle.handle_timeout(now);
        if self.gone_by.is_some_and(|at| now >= at) {
            self.link.fail_queued(Cause::Unkillable);
        }
        self.settle();
    }

    /// What is awaited, by reason.
    #[must_use]
    pub fn timetable(&self) -> Timetable {
        let mut table = Timetable::new();
        self.link.timetable(&mut table);
        if let Some(negotiation) = &self.negotiation {
            negotiation.timetable(&mut table);
        }
        if self.lifecycle.is_ready() {
            self.keepalive.timetable(&mut table);
        }
        if let Some(at) = self.gone_by.filter(|_| self.link.has_queued()) {
            table.set(Reason::Killed, at);
        }
        self.relay.timetable(&mut table);
        self.gathering.timetable(&mut table);
        self.lifecycle.timetable(&mut table);
        table
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), and why. It may change with every input and action.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        self.timetable().next()
    }

    /// Carries what the negotiation found out to the lifecycle and the link, and what the lifecycle decided to them.
    fn settle(&mut self) {
        if let Some(negotiation) = &self.negotiation {
            if let Some(revision) = negotiation.revision() {
                self.negotiation = None;
                if self.lifecycle.is_negotiating() {
                    self.revision = Some(revision);
                    self.remembered = Some(revision.era());
                    self.keepalive = Keepalive::new(if self.http.session {
                        self.config.session_keepalive
                    } else {
                        self.config.keepalive
                    });
                    self.keepalive.heard(self.now);
                    self.untold_level = revision.era() == Era::Legacy;
                    self.lifecycle.handle_ready(self.now);
                    self.link.handle_ready(self.now);
                    self.relay.handle_ready(revision.era());
                    if self.hears_of_changes() {
                        self.relay.want_lists(false);
                    }
                    self.gathering.handle_ready(self.now);
                }
            } else if let Some(error) = negotiation.failure() {
                // One that was legacy the last time did not die of `initialize`.
                let other = if self.remembered.is_none() && negotiation.may_have_died_on_initialize() {
                    Some(Era::Modern)
                } else if error == NegotiationError::Ended && negotiation.may_have_died_on_probe() {
                    Some(Era::Legacy)
                } else {
                    None
                };
                let again = other.filter(|_| !self.lifecycle.is_straight());
                self.negotiation = None;
                self.start_error = Some(StartError::Negotiation(error));
                if self.lifecycle.is_negotiating() {
                    // The verdict is remembered, so that the next start does not ask it to death either.
                    self.remembered = again;
                    if again.is_none() {
                        self.link.fail_queued(Cause::StartFailed);
                    }
                    self.lifecycle.handle_start_failed(self.now, again.is_some());
                }
            }
        }
        if self.lifecycle.is_stopping() {
            self.negotiation = None;
            self.relay.handle_leaving();
            self.gathering.handle_leaving();
            // Over HTTP every exchange that is under way has an end of its own.
            if self.is_http() {
                self.link.handle_stopping();
            } else if self.revision.is_some() {
                self.revision = None;
                self.link.handle_lost();
            }
        }
        self.link.bound_waiting(self.now);
        self.defer_for_listeners();
        self.tally.see(self.now, self.lifecycle.public_state());
    }

    const fn is_http(&self) -> bool {
        matches!(self.config.transport, Transport::Http)
    }
}

/// The question that one of our own messages put, by its wire id.
const fn question_of(wire: u64) -> Question {
    if (wire >> 16) & 1 == 0 { Question::Discover } else { Question::Initialize }
}

/// Wire ids of our own messages lie outside those of callers' requests, and say which question they put.
const fn own_id(number: u64, question: Question) -> u64 {
    let parity = match question {
        Question::Discover => 0,
        Question::Initialize => 1,
    };
    (number << 1 | parity) << 16 | OWN_INDEX as u64
}
