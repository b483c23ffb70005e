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
//! before the lifecycle decides.

use crate::crash::CrashLog;
use crate::envelope::{self, Message};
use crate::era::{Era, Pin, Revision};
use crate::http::exchange::{Carried, Verdict};
use crate::json;
use crate::keepalive::Keepalive;
use crate::lifecycle::{self, Effect, Exit, Lifecycle, PublicState, Unavailable};
use crate::link::{Allowance, Cause, Key, Link, OWN_INDEX, Ran, Slot};
use crate::logging::{self, Level};
use crate::message::Own;
use crate::method::Method;
use crate::negotiate::{Heard, Limits, Negotiation, NegotiationError, Question};
use crate::relay::{self, Relay};
use crate::snapshot::{self, Gathering};
use crate::span::Span;
use crate::splice::RequestParts;
use crate::tally::{Ending, Tally};
use crate::time::{Duration, Instant, Reason, Timetable};

mod counting;
mod dev;
mod exchange;
mod gathering;
mod kept;
mod listening;

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

/// How long a tree has to be gone after it was killed, before those who wait are told that it is not.
const KILL_GRACE: Duration = Duration::from_secs(10);
/// How long the older of two streams of announcements is read on, where each has a connection of its own.
const OVERLAP: Duration = Duration::from_millis(500);

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

    /// The last run, of which only its record is known, was ended by the server.
    #[must_use]
    pub const fn after_expiry(mut self) -> Self {
        self.lifecycle.was_expired();
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
        if let Some(why) = self.lifecycle.unavailable(now) {
            return Err(Refusal::Unavailable(why));
        }
        if self.gone_by.is_some_and(|at| now >= at) {
            return Err(Refusal::Unavailable(Unavailable::Unkillable));
        }
        let allowance = operation.allowance.unwrap_or(self.config.allowance);
        let key = self.link.submit(now, operation.method, allowance).map_err(|_| Refusal::Full)?;
        self.now = now;
        self.lifecycle.begin(now);
        Ok(key)
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

    /// The record was written.
    pub fn handle_persisted(&mut self, now: Instant) {
        self.now = now;
        self.lifecycle.handle_persisted(now);
    }

    /// The record could not be written.
    pub fn handle_persist_failed(&mut self, now: Instant) {
        self.now = now;
        if self.lifecycle.handle_persist_failed(now) {
            self.start_error = Some(StartError::NotPersisted);
            self.link.fail_queued(Cause::NotPersisted);
        }
    }

    /// The process runs.
    pub fn handle_spawned(&mut self, now: Instant) {
        self.now = now;
        if self.lifecycle.is_negotiating() && self.negotiation.is_none() {
            let Config { pin, limits, .. } = self.config;
            self.start_error = None;
            self.writable = true;
            let straight = self.lifecycle.is_straight();
            self.http = Http::default();
            let mut negotiation = Negotiation::new(now, pin, self.remembered, straight, limits);
            if self.is_http() {
                negotiation = negotiation.over_http();
            }
            if let Some(at) = self.connect_by.filter(|_| straight) {
                negotiation = negotiation.no_later_than(at);
            }
            self.connect_by = Some(negotiation.connect_by());
            self.negotiation = Some(negotiation);
        }
    }

    /// The process could not be started.
    pub fn handle_spawn_failed(&mut self, now: Instant) {
        self.now = now;
        self.negotiation = None;
        self.gone_by = None;
        self.start_error = Some(StartError::NotSpawned);
        self.link.fail_queued(Cause::StartFailed);
        self.lifecycle.handle_spawn_failed(now);
    }

    /// The server's input is full, or takes more again. What it does not take stays queued, and so never ran.
    pub const fn set_writable(&mut self, writable: bool) {
        self.writable = writable;
    }

    /// The kernel took the first byte of a request.
    pub fn handle_sent(&mut self, key: Key) {
        self.link.handle_sent(key);
    }

    /// The server wrote a line.
    pub fn handle_frame(&mut self, now: Instant, frame: &[u8]) -> Outcome {
        self.now = now;
        if self.negotiation.is_none() && !self.lifecycle.is_ready() {
            // Answers that were on their way when the stop began still count.
            if !self.lifecycle.is_stopping() {
                return Outcome::Ignored(Ignored::Stale);
            }
        }
        let message = match envelope::read(frame) {
            Ok(message) => message,
            Err(error) => {
                if let (Some(id), true) = (error.id, error.is_response)
                    && let Some(wire) = json::as_u64(id.of(frame))
                {
                    self.handle_bad_answer(wire, Cause::InvalidAnswer);
                }
                return Outcome::Ignored(Ignored::Malformed(error));
            }
        };
        self.heard();
        match message {
            Message::Response { id, .. } | Message::Error { id: Some(id), .. } => {
                self.handle_answer(frame, id, message)
            }
            Message::Error { id: None, .. } => Outcome::Ignored(Ignored::Unasked),
            Message::Request { id, method, params, meta } => {
                if self.revision.is_some_and(|revision| revision.era() == Era::Modern) {
                    Outcome::Ignored(Ignored::Forbidden)
                } else if Method::from_json(method.of(frame)) == Method::Ping {
                    Outcome::Pong { id }
                } else {
                    Outcome::Asked(RequestParts { id, method, params, meta })
                }
            }
            Message::Notification { method, params, .. } => {
                if json::str_eq(method.of(frame), "notifications/progress")
                    && let Some(token) =
                        params.and_then(|params| json::member(frame, params, "progressToken"))
                    && let Some(wire) = json::as_u64(token.of(frame))
                    && let Some(key) = self.link.handle_progress(now, wire)
                {
                    return Outcome::Progress { key, token };
                }
                self.handle_announcement(frame, method, params).unwrap_or(Outcome::Notification { method })
            }
            Message::Batch { items } => Outcome::Batch(items),
        }
    }

    /// The server wrote a line beyond the limit; `id` is its raw id, if one was found.
    pub fn handle_oversize(&mut self, now: Instant, id: Option<&[u8]>, is_response: bool) {
        self.now = now;
        self.heard();
        if let Some(wire) = id.filter(|_| is_response).and_then(json::as_u64) {
            self.handle_bad_answer(wire, Cause::TooLarge);
        }
    }

    /// The server closed its output, or its input is broken.
    pub fn handle_lost(&mut self, now: Instant) {
        self.now = now;
        self.lose();
        self.lifecycle.handle_lost(now);
        self.settle();
    }

    /// The server's process ended; others of its tree may live on.
    pub fn handle_exited(&mut self, now: Instant, exit: Exit) {
        self.now = now;
        self.lose();
        self.lifecycle.handle_exited(now, exit);
        self.settle();
    }

    /// No process of the server's tree is left.
    pub fn handle_tree_gone(&mut self, now: Instant) {
        self.now = now;
        self.gone_by = None;
        self.lose();
        self.settle();
        if !self.lifecycle.is_stopping() {
            // It went without a word.
            self.lifecycle.handle_lost(now);
        }
        let waiting = self.link.has_queued();
        self.lifecycle.handle_tree_gone(now, waiting);
        if self.link.has_queued()
            && let Some(why) = self.lifecycle.unavailable(now)
        {
            self.link.fail_queued(match why {
                Unavailable::BackingOff(_) => Cause::BackingOff,
                Unavailable::ShuttingDown => Cause::ShuttingDown,
                Unavailable::Unauthorized => Cause::Unauthorized,
                Unavailable::Expired => Cause::Expired,
                Unavailable::Unkillable => Cause::Unkillable,
            });
        }
    }

    /// The server said that the session is gone.
    pub fn handle_expired(&mut self, now: Instant) {
        self.now = now;
        self.lose();
        self.lifecycle.handle_expired();
        self.settle();
    }

    /// The server refused the credentials, which proves that nothing ran.
    pub fn handle_unauthorized(&mut self, now: Instant) {
        self.now = now;
        self.refuse_queued();
        self.lose();
        self.negotiation = None;
        self.lifecycle.handle_unauthorized();
    }

    /// Over HTTP: the answer to `initialize` came with a session. To be told before that answer.
    pub const fn handle_session(&mut self, now: Instant) {
        self.now = now;
        self.http.session = true;
    }

    /// Over HTTP: the stream of the transport of 2024-11-05 named the endpoint to post to.
    pub fn handle_endpoint(&mut self, now: Instant) {
        self.now = now;
        if let Some(negotiation) = &mut self.negotiation {
            self.http.old = true;
            negotiation.handle_endpoint();
        }
    }

    /// Over HTTP: what came of an exchange. `wire` is the id of the request that it carried, if it did.
    ///
    /// A session that is gone and credentials that are refused end the generation; other exchanges that are under way
    /// have verdicts of their own, so they are waited for.
    pub fn handle_verdict(&mut self, now: Instant, carried: Carried, wire: u64, verdict: Verdict) {
        self.now = now;
        let wire = match carried {
            Carried::Question(_) | Carried::Request(_) => wire,
            _ => u64::from(OWN_INDEX),
        };
        if self.is_gathered_quietly(carried, wire, verdict) {
            return self.settle();
        }
        match verdict {
            Verdict::Done => {
                self.heard();
                if carried == Carried::Message
                    && let Some(negotiation) = &mut self.negotiation
                {
                    negotiation.handle_confirmed();
                }
            }
            // Whatever was asked would have been answered there.
            Verdict::Expired { .. } if carried == Carried::OldStream => self.handle_expired(now),
            Verdict::Expired { ran } => {
                if carried == Carried::Message
                    && let Some(negotiation) = &mut self.negotiation
                {
                    // What is sent next finds it gone as well, and is sent back.
                    negotiation.handle_confirmed();
                }
                match ran {
                    Ran::No => self.link.handle_sent_back(wire),
                    Ran::Unknown => self.link.handle_refused(wire, Cause::Expired, ran),
                }
                self.lifecycle.handle_expired();
            }
            Verdict::Unauthorized => {
                self.link.handle_refused(wire, Cause::Unauthorized, Ran::No);
                self.refuse_queued();
                self.negotiation = None;
                self.lifecycle.handle_unauthorized();
            }
            Verdict::Unreachable => {
                self.link.handle_refused(wire, Cause::Unreachable, Ran::No);
                if let Some(negotiation) = &mut self.negotiation {
                    negotiation.handle_unreachable(NegotiationError::Unreachable);
                }
                self.lifecycle.handle_silent();
            }
            Verdict::Broken => {
                self.link.handle_broken(wire);
                if let Some(negotiation) = &mut self.negotiation {
                    match carried {
                        Carried::Question(question) => negotiation.handle_broken(question, wire),
                        Carried::OldStream => negotiation.handle_no_endpoint(),
                        _ => {}
                    }
                }
            }
            Verdict::Refused { status, ran } => {
                self.heard();
                self.link.handle_refused(wire, Cause::Refused, ran);
                if let Some(negotiation) = &mut self.negotiation {
                    match carried {
                        Carried::Question(question) => {
                            negotiation.handle_status(now, question, wire, status);
                        }
                        Carried::OldStream => negotiation.handle_no_endpoint(),
                        _ => {}
                    }
                }
            }
            Verdict::Invalid => self.handle_bad_answer(wire, Cause::InvalidAnswer),
            Verdict::NoStream => {
                if let (Some(negotiation), Carried::OldStream) = (&mut self.negotiation, carried) {
                    negotiation.handle_no_endpoint();
                }
            }
        }
        if verdict != Verdict::Done {
            self.relay.handle_broken(now, wire);
        }
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

    /// The next thing to do. Call until `None` after every input.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.settle();
        if let Some(own) = self.poll_negotiation() {
            return Some(Action::SendOwn(own));
        }
        if self.negotiation.as_mut().is_some_and(Negotiation::poll_old_stream) {
            return Some(Action::OpenOldStream);
        }
        // What is going to be ended is told before its input is closed.
        if let Some(wire) = self.relay.poll_cancelled() {
            return Some(self.cancel_relayed(wire));
        }
        if let Some(action) = self.poll_abandoned() {
            return Some(action);
        }
        while let Some((id, timed_out)) = self.link.poll_cancelled() {
            // A modern server takes the end of the exchange for that (basic/transports/streamable-http, Cancellation), and
            // where a session is over nobody can be told.
            let untold = self.revision.is_some_and(|revision| revision.era() == Era::Modern)
                || self.lifecycle.is_stopping();
            if !(self.is_http() && untold) {
                return Some(Action::SendOwn(Own::Cancelled { id, timed_out }));
            }
        }
        let effect = if self.retiring { Some(Effect::Retire) } else { self.lifecycle.poll_effect() };
        if let Some(effect) = effect {
            return Some(match effect {
                Effect::Persist(record) => Action::Persist(record),
                Effect::Spawn { generation } => Action::Spawn { generation },
                Effect::CloseInput => Action::CloseInput,
                Effect::Terminate => Action::Terminate,
                Effect::Kill => {
                    self.gone_by = Some(self.now.after(KILL_GRACE));
                    Action::Kill
                }
                Effect::Retire => {
                    self.relay.finish();
                    let told = self.poll_relay(false);
                    self.retiring = told.is_some();
                    told.unwrap_or(Action::Retire)
                }
            });
        }
        if self.lifecycle.poll_renewed() {
            return Some(Action::Renewed);
        }
        // Only now: whoever hears of a failure and looks at the record finds what it came from.
        if let Some((key, failure)) = self.link.poll_failure() {
            self.lifecycle.end(self.now, false);
            self.count(counting::of_failure(failure));
            if let Some(listener) = self.relay.handle_failure(key) {
                let why = relay::End::Failed(failure);
                return Some(Action::Relay(relay::Step::End { listener, why }));
            }
            return Some(Action::Fail { key, failure });
        }
        let ready = self.revision.filter(|_| self.lifecycle.is_ready());
        if let Some(action) = self.poll_relay(ready.is_some() && self.writable) {
            return Some(action);
        }
        let revision = ready?;
        if core::mem::take(&mut self.untold_level)
            && self.logs
            && let Some(level) = self.level
        {
            let id = own_id(self.own, Question::Initialize);
            self.own = self.own.wrapping_add(1);
            return Some(Action::SendOwn(Own::SetLevel { id, level }));
        }
        if self.http.session && !self.http.listening && !self.http.old {
            self.http.listening = true;
            return Some(Action::Listen);
        }
        while self.writable
            && !self.holds
            && let Some((key, wire, method)) = self.link.poll_send()
        {
            if method == Method::Listen && self.relay.handle_turn(key) {
                // From here on it is no operation: it is kept until its client ends it.
                self.link.poll_local(key);
                self.defer_for_listeners();
                self.lifecycle.end(self.now, false);
                self.count_unasked();
                match self.poll_relay(self.writable) {
                    Some(action) => return Some(action),
                    None => continue,
                }
            }
            return Some(match method {
                Method::Info => {
                    self.link.poll_local(key);
                    // The server was not asked, so this proves nothing of it.
                    self.lifecycle.end(self.now, false);
                    self.count_unasked();
                    Action::AnswerInfo { key }
                }
                // It is said with the requests that follow.
                Method::SetLevel if revision.era() == Era::Modern => {
                    self.link.poll_local(key);
                    self.lifecycle.end(self.now, false);
                    self.count_unasked();
                    Action::AnswerLevel { key }
                }
                // The question "does the server answer" is put in the server's own era.
                Method::ServerPing => {
                    self.link.handle_sent(key);
                    Action::SendOwn(alive_question(wire, revision))
                }
                method => Action::Send { key, wire, method, revision },
            });
        }
        if self.keepalive.poll_question(self.now) {
            let id = own_id(self.own, Question::Initialize);
            self.own = self.own.wrapping_add(1);
            return Some(Action::SendOwn(alive_question(id, revision)));
        }
        self.poll_gathering()
    }

    fn poll_negotiation(&mut self) -> Option<Own> {
        let negotiation = self.negotiation.as_mut()?;
        let own = self.own;
        let message = negotiation.poll_send(|question| own_id(own, question));
        if message.is_some() {
            self.own = self.own.wrapping_add(1);
        }
        self.settle();
        message
    }

    fn handle_answer(&mut self, frame: &[u8], id: Span, message: Message) -> Outcome {
        let Some(wire) = json::as_u64(id.of(frame)) else { return Outcome::Ignored(Ignored::Unasked) };
        if wire & 0xffff == u64::from(OWN_INDEX) {
            return self.handle_own_answer(frame, wire, &message);
        }
        // In this order: a key that was taken back has to be given out.
        let answered = self.revision.and_then(|revision| Some((revision, self.link.handle_answer(wire)?)));
        let Some((revision, (key, method))) = answered else { return Outcome::Ignored(Ignored::Unasked) };
        self.lifecycle.end(self.now, true);
        self.count(counting::of_answer(method, &message));
        Outcome::Deliver { key, method, message, revision }
    }

    fn handle_own_answer(&mut self, frame: &[u8], wire: u64, message: &Message) -> Outcome {
        let Some(negotiation) = &mut self.negotiation else {
            if self.gathering.awaits(wire) {
                let page = self.gathering.handle_answer(self.now, wire, frame, message);
                return page.map_or(Outcome::Ignored(Ignored::Internal), Outcome::Listed);
            }
            return self.handle_relayed(frame, wire, message);
        };
        let heard = negotiation.handle_answer(self.now, question_of(wire), frame, message);
        if let Heard::Handshake(span) = heard {
            self.gathering.handle_offers(snapshot::Listings::offered(frame, span));
            self.logs = logging::is_declared(frame, span);
        }
        self.settle();
        match heard {
            Heard::Handshake(span) => {
                self.relay.handle_offers(relay::Offers::read(frame, span));
                Outcome::Handshake(span)
            }
            Heard::Consumed | Heard::Other => Outcome::Ignored(Ignored::Internal),
        }
    }

    fn handle_bad_answer(&mut self, wire: u64, cause: Cause) {
        if wire & 0xffff != u64::from(OWN_INDEX) {
            self.link.handle_bad_answer(wire, cause);
        } else if let Some(negotiation) = &mut self.negotiation {
            negotiation.handle_invalid_answer(self.now, question_of(wire), wire);
            self.settle();
        } else {
            self.gathering.handle_failed(self.now, wire);
            self.relay.handle_broken(self.now, wire);
        }
    }

    fn heard(&mut self) {
        if self.lifecycle.is_ready() {
            // Whatever was asked, the server lives; the answer to a question that is still open is not waited for.
            self.keepalive.heard(self.now);
            self.lifecycle.handle_heard();
        }
    }

    /// The credentials are refused: what was not sent fails. During a stop it waits for the next server, which has a
    /// word of its own to say about them.
    fn refuse_queued(&mut self) {
        if !self.lifecycle.is_stopping() {
            self.link.fail_queued(Cause::Unauthorized);
        }
    }

    fn lose(&mut self) {
        self.link.handle_lost();
        self.relay.handle_lost();
        self.gathering.handle_lost();
        self.revision = None;
        if let Some(negotiation) = &mut self.negotiation {
            negotiation.handle_end();
        }
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
                let again = error == NegotiationError::Ended
                    && negotiation.may_have_died_on_probe()
                    && !self.lifecycle.is_straight();
                self.negotiation = None;
                self.start_error = Some(StartError::Negotiation(error));
                if self.lifecycle.is_negotiating() {
                    if again {
                        // The verdict is remembered, so that the next start does not probe it to death either.
                        self.remembered = Some(Era::Legacy);
                    } else {
                        self.remembered = None;
                        self.link.fail_queued(Cause::StartFailed);
                    }
                    self.lifecycle.handle_start_failed(self.now, again);
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

fn alive_question(id: u64, revision: Revision) -> Own {
    match revision.era() {
        Era::Legacy => Own::Ping { id },
        Era::Modern => Own::Discover { id, revision },
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
