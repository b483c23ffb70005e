//! The link to one running server: which requests are where on their way, and when each has to be over.
//!
//! Owns the request slots, the wire ids made from them, the time-outs of single requests, and the rule that nothing
//! runs twice. A request is *queued* (no byte of it given to the kernel), *sent*, or done. Payloads stay outside: a
//! slot holds instants and flags, and a [`Key`] names it for the caller's own storage beside it.
//!
//! Every key that [`Link::submit`] gave out is taken back exactly once: by an answer, by a failure, or by
//! [`Link::poll_local`].

use crate::method::Method;
use crate::time::{Duration, Instant, Reason, Timetable};

mod slots;

pub use self::slots::Slot;
use self::slots::{Slots, Which};

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;

/// The index that no slot has: wire ids with it belong to drowse's own messages.
pub const OWN_INDEX: u16 = u16::MAX;

/// What the wire id of a request that was issued anew has more than that of its [`Key`].
pub const REISSUED: u64 = 1 << 48;

/// Names a request: the index of its slot, and which of the slot's requests it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Key {
    index: u16,
    generation: u32,
}

impl Key {
    /// Index of the slot: where the caller keeps the payload.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// The id on the wire: an integer below 2^48, so every JSON reader keeps it exactly. A request that is issued anew
    /// has one of its own, [`REISSUED`] more: a server that heard both must not take them for one.
    #[must_use]
    pub const fn wire(self) -> u64 {
        (self.generation as u64) << 16 | self.index as u64
    }

    /// The key that such a wire id names, whether or not it is in use.
    #[must_use]
    pub const fn from_wire(wire: u64) -> Option<Self> {
        let index = (wire & 0xffff) as u16;
        let generation = wire >> 16;
        if index == OWN_INDEX || generation > u32::MAX as u64 {
            return None;
        }
        Some(Self { index, generation: generation as u32 })
    }
}

/// Whether a failed request may have run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Ran {
    /// It did not: it is safe to try again.
    No,
    /// Nobody can tell.
    Unknown,
}

impl Ran {
    /// The word for it in errors.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}

/// Why a request failed without an answer of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Cause {
    /// Its time was up.
    TimedOut,
    /// The caller cancelled it, or went away.
    Cancelled,
    /// The server ended, or closed its output.
    ServerLost,
    /// The server could not be started.
    StartFailed,
    /// The server keeps crashing.
    BackingOff,
    /// The server is being closed.
    ShuttingDown,
    /// The server refused the credentials.
    Unauthorized,
    /// The server ended the session.
    Expired,
    /// The answer is longer than the limit.
    TooLarge,
    /// The answer is not a valid message.
    InvalidAnswer,
    /// What has to be written down before a start could not be.
    NotPersisted,
    /// The last server was killed and is still there, so that no other may be started.
    Unkillable,
    /// There is no connection to the server.
    Unreachable,
    /// The connection broke before the answer came.
    ConnectionLost,
    /// The server answered with a status of HTTP that is no answer.
    Refused,
    /// The server was restarted on purpose.
    Restarted,
    /// The server is still being started, and the request does not wait any longer.
    NotReady,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 17] = [
        Self::TimedOut,
        Self::Cancelled,
        Self::ServerLost,
        Self::StartFailed,
        Self::BackingOff,
        Self::ShuttingDown,
        Self::Unauthorized,
        Self::Expired,
        Self::TooLarge,
        Self::InvalidAnswer,
        Self::NotPersisted,
        Self::Unkillable,
        Self::Unreachable,
        Self::ConnectionLost,
        Self::Refused,
        Self::Restarted,
        Self::NotReady,
    ];

    /// The stable word for it (`kind`) in errors.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::TimedOut => "timeout",
            Self::Cancelled => "cancelled",
            Self::ServerLost => "server-lost",
            Self::StartFailed => "start-failed",
            Self::BackingOff => "backing-off",
            Self::ShuttingDown => "shutting-down",
            Self::Unauthorized => "unauthorized",
            Self::Expired => "expired",
            Self::TooLarge => "too-large",
            Self::InvalidAnswer => "invalid-answer",
            Self::NotPersisted => "not-persisted",
            Self::Unkillable => "unkillable",
            Self::Unreachable | Self::ConnectionLost => "network",
            Self::Refused => "http",
            Self::Restarted => "restarted",
            Self::NotReady => "not-ready",
        }
    }
}

/// A request that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Failure {
    /// Why.
    pub cause: Cause,
    /// Whether it may have run.
    pub ran: Ran,
}

/// How long a request may take once it can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Allowance {
    /// Without an answer or progress.
    pub quiet: Duration,
    /// In all, whatever the progress.
    pub total: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Queued,
    /// Given to the adapter, which has not yet said that the kernel took a byte.
    Writing,
    Sent,
    Failing {
        failure: Failure,
        /// The server is to be told that the request is cancelled.
        notify: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request {
    method: Method,
    stage: Stage,
    allowance: Allowance,
    /// When it has to be over; unset while the server is not ready, for its start has a limit of its own.
    deadline: Option<Instant>,
    latest: Option<Instant>,
    /// It was issued anew once already, so it may have run before.
    reissued: bool,
    /// A session that was gone sent it back once already.
    sent_back: bool,
    /// Its caller was told what the server asks, so it must not be issued anew: the answers belong to this one.
    held: bool,
    /// Its place in the order of arrival.
    order: u64,
    arrived: Instant,
    /// Drowse asks for itself.
    own: bool,
    /// Whoever asks says that it may run twice.
    repeatable: bool,
}

/// What is known of a request that was taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Released {
    /// When it was accepted.
    pub(crate) arrived: Instant,
    /// It waited for its caller, too.
    pub(crate) held: bool,
    /// Drowse asked for itself.
    pub(crate) own: bool,
}

impl Request {
    const fn wire(&self, key: Key) -> u64 {
        key.wire() | if self.reissued { REISSUED } else { 0 }
    }

    const fn may_be_put_again(&self) -> bool {
        (self.repeatable || self.method.only_reads()) && !self.reissued && !self.held
    }

    /// What is to be said of it when it fails while it is queued.
    const fn ran_while_queued(&self) -> Ran {
        if self.reissued { Ran::Unknown } else { Ran::No }
    }
}

/// Every slot is in use: try again when an answer has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Full;

/// The requests of one server.
#[derive(Clone, Debug)]
pub struct Link<S> {
    slots: Slots<S>,
    arrivals: u64,
    /// The server is ready, so clocks run.
    ready: bool,
    /// No deadline is earlier; exact after a timeout was handled.
    next_deadline: Option<Instant>,
    /// The request that was taken back last.
    released: Option<Released>,
    /// How long a request waits for a server that is not ready; unset: as long as that takes.
    patience: Option<Duration>,
    /// There are requests that wait, and it is not said how long.
    unbounded: bool,
    /// Why what was sent fails when the link is lost.
    lost_as: Cause,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Link<S> {
    /// Takes the storage; at most 65,535 slots of it are used.
    #[must_use]
    pub fn new(slots: S) -> Self {
        Self {
            slots: Slots::new(slots),
            arrivals: 0,
            ready: false,
            next_deadline: None,
            released: None,
            patience: None,
            unbounded: false,
            lost_as: Cause::ServerLost,
        }
    }

    /// How many requests are under way.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.slots.used()
    }

    /// How many more may be under way.
    #[must_use]
    pub fn room(&self) -> usize {
        self.slots.count().saturating_sub(self.slots.used())
    }

    /// Whether requests wait that were never sent.
    #[must_use]
    pub const fn has_queued(&self) -> bool {
        !self.slots.is_empty(Which::Queued)
    }

    /// Whether `key` is under way.
    #[must_use]
    pub fn is_live(&self, key: Key) -> bool {
        self.slots.get(key).is_some()
    }

    /// The key of the request in the slot of that index.
    #[must_use]
    pub fn key_at(&self, index: usize) -> Option<Key> {
        self.slots.at(u16::try_from(index).ok()?).map(|(key, _)| key)
    }

    /// Accepts a request, or changes nothing.
    ///
    /// # Errors
    /// If every slot is in use.
    pub fn submit(&mut self, now: Instant, method: Method, allowance: Allowance) -> Result<Key, Full> {
        let ready = self.ready;
        let limit = match ready {
            true => Some(allowance.quiet.min(allowance.total)),
            false => self.patience,
        };
        let request = Request {
            method,
            stage: Stage::Queued,
            allowance,
            deadline: limit.map(|limit| now.after(limit)),
            latest: ready.then(|| now.after(allowance.total)),
            reissued: false,
            sent_back: false,
            held: false,
            order: self.arrivals,
            arrived: now,
            own: false,
            repeatable: false,
        };
        let key = self.slots.insert(request).ok_or(Full)?;
        self.arrivals = self.arrivals.wrapping_add(1);
        self.slots.push_back(Which::Queued, key);
        self.await_deadline(request.deadline);
        Ok(key)
    }

    /// Drowse asks this for itself: it is nobody's operation.
    pub(crate) fn mark_own(&mut self, key: Key) {
        if let Some(request) = self.slots.get_mut(key) {
            request.own = true;
        }
    }

    /// A request may run twice.
    pub(crate) fn mark_repeatable(&mut self, key: Key) {
        if let Some(request) = self.slots.get_mut(key) {
            request.repeatable = true;
        }
    }

    /// How long requests wait for a server that is not ready.
    pub(crate) const fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience = patience;
    }

    /// What was sent and is lost next is lost for that reason.
    pub(crate) const fn set_lost_as(&mut self, cause: Cause) {
        self.lost_as = cause;
    }

    /// Whether the server has something to answer.
    pub(crate) fn is_busy(&mut self) -> bool {
        self.slots.iter_mut().any(|request| matches!(request.stage, Stage::Writing | Stage::Sent))
    }

    /// From now on those wait that were left without a limit when the server was lost.
    pub(crate) fn bound_waiting(&mut self, now: Instant) {
        if !core::mem::take(&mut self.unbounded) || self.ready {
            return;
        }
        let Some(deadline) = self.patience.map(|patience| now.after(patience)) else { return };
        for request in self.slots.iter_mut() {
            if request.stage == Stage::Queued && request.deadline.is_none() {
                request.deadline = Some(deadline);
            }
        }
        self.await_deadline(Some(deadline));
    }

    /// What is known of the request that was taken back last; once.
    pub(crate) const fn take_released(&mut self) -> Option<Released> {
        self.released.take()
    }

    /// The server is ready: what waited may be sent, and its clocks start.
    pub fn handle_ready(&mut self, now: Instant) {
        self.ready = true;
        self.lost_as = Cause::ServerLost;
        let mut earliest: Option<Instant> = None;
        for request in self.slots.iter_mut().filter(|request| request.stage == Stage::Queued) {
            let deadline = now.after(request.allowance.quiet.min(request.allowance.total));
            request.deadline = Some(deadline);
            request.latest = Some(now.after(request.allowance.total));
            earliest = Some(earliest.map_or(deadline, |at| at.min(deadline)));
        }
        self.await_deadline(earliest);
    }

    /// The server is being ended, while answers may still come: what is queued waits for the next one, and the time that
    /// this takes is not its own.
    pub fn handle_stopping(&mut self) {
        if !core::mem::take(&mut self.ready) {
            return;
        }
        let mut next = self.slots.first(Which::Queued);
        while let Some((key, _)) = next {
            self.stop_clock(key);
            next = self.slots.after(key);
        }
    }

    /// The next request to send, with its wire id, in the order of arrival. It is *queued* until [`handle_sent`](Self::handle_sent).
    #[must_use]
    pub fn poll_send(&mut self) -> Option<(Key, u64, Method)> {
        if !self.ready {
            return None;
        }
        let (key, _) = self.slots.first(Which::Queued)?;
        let request = self.slots.get_mut(key)?;
        request.stage = Stage::Writing;
        let (method, wire) = (request.method, request.wire(key));
        self.slots.unlink(Which::Queued, key);
        Some((key, wire, method))
    }

    /// A request that drowse answers itself once the server is ready: takes the key back.
    pub fn poll_local(&mut self, key: Key) {
        self.release(key);
    }

    /// The kernel took the first byte of the request: from here on it may run.
    pub fn handle_sent(&mut self, key: Key) {
        if let Some(request) = self.slots.get_mut(key)
            && request.stage == Stage::Writing
        {
            request.stage = Stage::Sent;
        }
    }

    /// An answer with that wire id arrived. Takes the key back; `None` if nothing waits for it (it is late, it is a
    /// repetition, or the server made it up).
    #[must_use]
    pub fn handle_answer(&mut self, wire: u64) -> Option<(Key, Method)> {
        let (key, request) = self.find(wire)?;
        self.release(key);
        Some((key, request.method))
    }

    /// An answer with that wire id arrived that cannot be passed on.
    pub fn handle_bad_answer(&mut self, wire: u64, cause: Cause) {
        if let Some((key, _)) = self.find(wire) {
            self.fail(key, Failure { cause, ran: Ran::Unknown }, false);
        }
    }

    /// Progress with that token arrived: the request's time starts anew, up to its maximum.
    #[must_use]
    pub fn handle_progress(&mut self, now: Instant, wire: u64) -> Option<Key> {
        let (key, _) = self.find(wire)?;
        let request = self.slots.get_mut(key)?;
        if request.deadline.is_none() {
            return Some(key);
        }
        let latest = request.latest.unwrap_or_else(|| now.after(request.allowance.total));
        request.deadline = Some(now.after(request.allowance.quiet).min(latest));
        Some(key)
    }

    /// The request waits for its caller, not for the server: its time stands still.
    pub fn hold(&mut self, key: Key) {
        self.stop_clock(key);
        if let Some(request) = self.slots.get_mut(key) {
            request.held = true;
        }
    }

    /// The caller did its part: the request's time starts anew.
    pub fn release_held(&mut self, now: Instant, key: Key) {
        let ready = self.ready;
        let Some(request) = self.slots.get_mut(key) else { return };
        if !ready || matches!(request.stage, Stage::Failing { .. }) {
            return;
        }
        let deadline = now.after(request.allowance.quiet.min(request.allowance.total));
        request.deadline = Some(deadline);
        request.latest = Some(now.after(request.allowance.total));
        self.await_deadline(Some(deadline));
    }

    /// The caller does not want the answer any more. The key comes back as a failure.
    pub fn cancel(&mut self, key: Key) {
        self.end_early(key, Cause::Cancelled);
    }

    /// The link is lost. What was only queued stays queued for the next generation, what only reads is queued once
    /// more, and what may have run fails.
    pub fn handle_lost(&mut self) {
        self.ready = false;
        self.next_deadline = None;
        for index in 0..self.slots.count() {
            let Some((key, request)) = self.slots.at(index as u16) else { continue };
            match request.stage {
                Stage::Sent if request.may_be_put_again() => {
                    if let Some(request) = self.slots.get_mut(key) {
                        request.reissued = true;
                    }
                    self.requeue(key);
                }
                Stage::Sent => {
                    self.fail(key, Failure { cause: self.lost_as, ran: Ran::Unknown }, false);
                }
                Stage::Writing => self.requeue(key),
                Stage::Queued => self.stop_clock(key),
                Stage::Failing { failure, .. } => {
                    // There is nobody left to tell.
                    if let Some(request) = self.slots.get_mut(key) {
                        request.stage = Stage::Failing { failure, notify: false };
                    }
                }
            }
        }
    }

    /// The server refused this one request, or the connection that carried it is gone.
    pub fn handle_refused(&mut self, wire: u64, cause: Cause, ran: Ran) {
        if let Some((key, request)) = self.find(wire) {
            // The first time it may have run.
            let ran = if request.reissued { Ran::Unknown } else { ran };
            self.fail(key, Failure { cause, ran }, false);
        }
    }

    /// The connection that carried this one request broke, so that it may have run: what only reads is put once more.
    pub fn handle_broken(&mut self, wire: u64) {
        let Some((key, request)) = self.find(wire) else { return };
        if request.may_be_put_again() {
            if let Some(request) = self.slots.get_mut(key) {
                request.reissued = true;
            }
            self.requeue(key);
        } else {
            self.fail(key, Failure { cause: Cause::ConnectionLost, ran: Ran::Unknown }, false);
        }
    }

    /// The server's session was gone before it looked at this one request. It waits for the next session; if that was
    /// so before, it does not.
    pub fn handle_sent_back(&mut self, wire: u64) {
        let Some((key, request)) = self.find(wire) else { return };
        if request.sent_back {
            let ran = request.ran_while_queued();
            self.fail(key, Failure { cause: Cause::Expired, ran }, false);
        } else {
            if let Some(request) = self.slots.get_mut(key) {
                request.sent_back = true;
            }
            self.requeue(key);
        }
    }

    /// Whether an answer to the request of that wire id is waited for.
    #[must_use]
    pub fn awaits(&self, wire: u64) -> bool {
        self.find(wire).is_some()
    }

    /// The request that the server has under that wire id.
    fn find(&self, wire: u64) -> Option<(Key, Request)> {
        let key = Key::from_wire(wire & !REISSUED)?;
        let request = self.slots.get(key)?;
        let with_server = matches!(request.stage, Stage::Writing | Stage::Sent);
        (with_server && request.wire(key) == wire).then_some((key, request))
    }

    /// Fails whatever was never sent.
    pub fn fail_queued(&mut self, cause: Cause) {
        while let Some((key, request)) = self.slots.first(Which::Queued) {
            self.fail(key, Failure { cause, ran: request.ran_while_queued() }, false);
        }
    }

    /// Fails everything: the server is ended on purpose.
    pub fn fail_all(&mut self, cause: Cause) {
        self.fail_queued(cause);
        for index in 0..self.slots.count() {
            if let Some((key, request)) = self.slots.at(index as u16)
                && matches!(request.stage, Stage::Writing | Stage::Sent)
            {
                self.fail(key, Failure { cause, ran: Ran::Unknown }, false);
            }
        }
    }

    /// The wire id of a request whose cancellation the server is to be told, and whether it timed out.
    #[must_use]
    pub fn poll_cancelled(&mut self) -> Option<(u64, bool)> {
        if !self.ready {
            return None;
        }
        let mut next = self.slots.first(Which::Failing);
        while let Some((key, _)) = next {
            if let Some(Request { stage: Stage::Failing { failure, notify: notify @ true }, .. }) =
                self.slots.get_mut(key)
            {
                *notify = false;
                let timed_out = failure.cause == Cause::TimedOut;
                let wire = self.slots.get(key).map_or(key.wire(), |request| request.wire(key));
                return Some((wire, timed_out));
            }
            next = self.slots.after(key);
        }
        None
    }

    /// The next failed request. Takes the key back.
    #[must_use]
    pub fn poll_failure(&mut self) -> Option<(Key, Failure)> {
        let (key, request) = self.slots.first(Which::Failing)?;
        let Stage::Failing { failure, notify } = request.stage else { return None };
        if notify && self.ready {
            return None;
        }
        self.release(key);
        Some((key, failure))
    }

    /// Time has passed; early, late and repeated calls do no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_deadline.is_none_or(|at| now < at) {
            return;
        }
        let mut earliest: Option<Instant> = None;
        for index in 0..self.slots.count() {
            let Some((key, request)) = self.slots.at(index as u16) else { continue };
            let Some(deadline) = request.deadline else { continue };
            if matches!(request.stage, Stage::Failing { .. }) {
                continue;
            }
            if now >= deadline {
                let waits = !self.ready && request.stage == Stage::Queued;
                self.end_early(key, if waits { Cause::NotReady } else { Cause::TimedOut });
            } else {
                earliest = Some(earliest.map_or(deadline, |at| at.min(deadline)));
            }
        }
        self.next_deadline = earliest;
    }

    /// Adds what is awaited. The entry may be earlier than the earliest deadline (progress moves those, answers take
    /// them away), never later.
    pub fn timetable(&self, table: &mut Timetable) {
        if let Some(at) = self.next_deadline {
            table.set(Reason::Request, at);
        }
    }

    fn end_early(&mut self, key: Key, cause: Cause) {
        let Some(request) = self.slots.get(key) else { return };
        match request.stage {
            Stage::Queued => self.fail(key, Failure { cause, ran: request.ran_while_queued() }, false),
            Stage::Writing | Stage::Sent => self.fail(key, Failure { cause, ran: Ran::Unknown }, true),
            Stage::Failing { .. } => {}
        }
    }

    /// Puts a request back among those that wait, where its arrival puts it.
    fn requeue(&mut self, key: Key) {
        let Some(request) = self.slots.get_mut(key) else { return };
        request.stage = Stage::Queued;
        let order = request.order;
        // While the server is ready its time goes on: it was sent back, not forgotten.
        if !self.ready {
            self.stop_clock(key);
        }
        let mut next = self.slots.first(Which::Queued);
        while let Some((found, request)) = next
            && request.order < order
        {
            next = self.slots.after(found);
        }
        self.slots.insert_before(Which::Queued, next.map(|(next, _)| next), key);
    }

    fn stop_clock(&mut self, key: Key) {
        self.unbounded = true;
        if let Some(request) = self.slots.get_mut(key) {
            request.deadline = None;
            request.latest = None;
        }
    }

    fn fail(&mut self, key: Key, failure: Failure, notify: bool) {
        let Some(request) = self.slots.get_mut(key) else { return };
        let was = request.stage;
        request.stage = Stage::Failing { failure, notify };
        request.deadline = None;
        match was {
            Stage::Queued => self.slots.unlink(Which::Queued, key),
            Stage::Failing { .. } => self.slots.unlink(Which::Failing, key),
            Stage::Writing | Stage::Sent => {}
        }
        self.slots.push_back(Which::Failing, key);
    }

    fn release(&mut self, key: Key) {
        let Some(request) = self.slots.get(key) else { return };
        match request.stage {
            Stage::Queued => self.slots.unlink(Which::Queued, key),
            Stage::Failing { .. } => self.slots.unlink(Which::Failing, key),
            Stage::Writing | Stage::Sent => {}
        }
        let Request { arrived, held, own, .. } = request;
        self.released = Some(Released { arrived, held, own });
        self.slots.remove(key);
        if self.slots.used() == 0 {
            self.next_deadline = None;
        }
    }

    fn await_deadline(&mut self, at: Option<Instant>) {
        if let Some(at) = at {
            self.next_deadline = Some(self.next_deadline.map_or(at, |was| was.min(at)));
        }
    }
}
