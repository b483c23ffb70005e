//! Finds out, on the byte stream of the server itself, which era it speaks.
//!
//! The probe `server/discover` goes first (specification 2026-07-28, basic/transports/stdio, Backward Compatibility).
//! A slow start cannot be told from a silent legacy server, so the question is hedged: when the probe is unanswered
//! after [`Limits::hedge`], `initialize` is sent as well, and whichever era answers decides:
//!
//! - a `DiscoverResult` means modern, whatever else came;
//! - an `InitializeResult` means legacy, once the probe is refused or [`Limits::verdict`] has passed without a
//!   `DiscoverResult`;
//! - `initialize` refused with -32022 and a modern version means modern: the probe was lost while the server started;
//! - `initialize` refused otherwise proves at least that the server is up, so the probe is put once more and given
//!   [`Limits::hedge`];
//! - the probe refused with -32020, -32021 or -32022 means modern; refused with anything else, `initialize` decides.
//!
//! A refusal counts for the question that it answers, not for one put later: servers do answer twice.
//!
//! A server that was legacy the last time is asked with `initialize` first, and so is one of which nothing is known and
//! which a legacy client wants; that too is checked, and hedged the other way round. What such a server answers first
//! decides at once: one of both eras speaks the era of the first question that it takes.

use core::fmt;

use crate::envelope::Message;
use crate::era::{Era, Pin, Revision};
use crate::json;
use crate::message::Own;
use crate::span::Span;
use crate::time::{Duration, Instant, Reason, Timetable};

/// How long to wait for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// From the start of the process to a negotiated server.
    pub connect: Duration,
    /// An unanswered first question is joined by the other one after this time; `None`: it never is. Over HTTP silence
    /// means nothing.
    pub hedge: Option<Duration>,
    /// After an `InitializeResult` a `DiscoverResult` still wins for this long.
    pub verdict: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(60),
            hedge: Some(Duration::from_secs(2)),
            verdict: Duration::from_millis(500),
        }
    }
}

/// Why a server could not be negotiated with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum NegotiationError {
    /// It did not become ready within the connect limit.
    TimedOut,
    /// It refused both questions; the code is that of the last refusal.
    Refused(i64),
    /// It speaks no revision that drowse speaks, or none that the configuration allows.
    NoCommonVersion,
    /// It ended, or closed its output, before it was ready.
    Ended,
    /// What it answered is not a valid message, or is longer than the limit.
    InvalidAnswer,
    /// It answered with this status of HTTP.
    Http(u16),
    /// There is no connection to it.
    Unreachable,
    /// The connection broke before it answered.
    Broken,
}

impl fmt::Display for NegotiationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("the server did not answer the handshake in time"),
            Self::Refused(code) => write!(f, "the server refused the handshake (error {code})"),
            Self::NoCommonVersion => {
                f.write_str("the server speaks no protocol revision that is allowed here")
            }
            Self::Ended => f.write_str("the server ended before it answered the handshake"),
            Self::InvalidAnswer => f.write_str("the server's answer to the handshake is not a valid message"),
            Self::Http(status) => write!(f, "the server answered the handshake with HTTP status {status}"),
            Self::Unreachable => f.write_str("the server cannot be reached"),
            Self::Broken => f.write_str("the connection broke before the server answered the handshake"),
        }
    }
}

impl core::error::Error for NegotiationError {}

/// Where one of the two questions stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ask {
    /// Not wanted so far.
    Idle,
    /// To be sent.
    Queued,
    /// Sent and unanswered.
    Asked,
    /// Answered with an error.
    Refused,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Asking,
    /// `initialize` was answered, one way or the other; the probe may still be.
    Verdict {
        until: Instant,
        outcome: Result<Revision, NegotiationError>,
    },
    /// Legacy, and `notifications/initialized` is still to be sent.
    Confirming(Revision),
    /// It was sent, and over HTTP nothing else is until it was taken.
    Confirmed(Revision),
    /// The server takes no POST where it is: it may speak the transport of 2024-11-05. `initialize` was refused with
    /// this status.
    OldTransport {
        told: bool,
        status: u16,
    },
    Done(Revision),
    Failed(NegotiationError),
}

/// The message that belongs to the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// The server's description of itself: a `DiscoverResult` or an `InitializeResult`, as a span of the frame.
    Handshake(Span),
    /// Part of the handshake, without content for others.
    Consumed,
    /// Nothing of the handshake's.
    Other,
}

/// Finds out a server's era and revision. One per backend generation.
#[derive(Clone, Copy, Debug)]
pub struct Negotiation {
    pin: Pin,
    limits: Limits,
    state: State,
    discover: Ask,
    initialize: Ask,
    modern_offer: Revision,
    legacy_offer: Revision,
    connect_by: Instant,
    hedge_at: Option<Instant>,
    /// The server proved to be modern without describing itself; nothing but a `DiscoverResult` is waited for.
    known_modern: bool,
    /// The revision that the question offers was corrected already, which is done once.
    discover_corrected: bool,
    initialize_corrected: bool,
    /// Wire ids of the first and the latest probe, and of the latest `initialize`.
    discover_ids: Option<(u64, u64)>,
    initialize_id: Option<u64>,
    /// Nothing but the first question is to be tried: the server died on the other one.
    straight: bool,
    /// `initialize` was the first question.
    legacy_first: bool,
    /// It ended before it was known what it speaks.
    ended: bool,
    /// The server is one behind a URL.
    http: bool,
    old_tried: bool,
}

impl Negotiation {
    /// Starts with the process. `likely` is the era of the last time, or that of whoever wants the server: its question
    /// comes first. `straight` asks that alone because the server died on the other one a moment ago; without an era, that
    /// was the probe.
    #[must_use]
    pub fn new(now: Instant, pin: Pin, likely: Option<Era>, straight: bool, limits: Limits) -> Self {
        let straight = straight && pin.era() != Some(Era::Modern);
        let unsaid = if straight { Era::Legacy } else { Era::Modern };
        let legacy_first = pin.era().or(likely).unwrap_or(unsaid) == Era::Legacy;
        Self {
            pin,
            limits,
            state: State::Asking,
            discover: if legacy_first { Ask::Idle } else { Ask::Queued },
            initialize: if legacy_first { Ask::Queued } else { Ask::Idle },
            modern_offer: pin.offer(Era::Modern),
            legacy_offer: pin.offer(Era::Legacy),
            connect_by: now.after(limits.connect),
            // A pinned era has no second question, a straight start must not ask it.
            hedge_at: limits.hedge.filter(|_| pin.era().is_none() && !straight).map(|hedge| now.after(hedge)),
            known_modern: false,
            discover_corrected: false,
            initialize_corrected: false,
            discover_ids: None,
            initialize_id: None,
            straight,
            legacy_first,
            ended: false,
            http: false,
            old_tried: false,
        }
    }

    /// The same over HTTP: what was sent is waited for, and a refusal may mean another transport.
    #[must_use]
    pub const fn over_http(self) -> Self {
        Self { http: true, ..self }
    }

    /// Has to be over by `at`: the limit is that of the start as a whole, not of each attempt.
    #[must_use]
    pub fn no_later_than(mut self, at: Instant) -> Self {
        self.connect_by = self.connect_by.min(at);
        self
    }

    /// When it has to be over.
    #[must_use]
    pub const fn connect_by(&self) -> Instant {
        self.connect_by
    }

    /// The revision, once it is settled and everything is said.
    #[must_use]
    pub const fn revision(&self) -> Option<Revision> {
        match self.state {
            State::Done(revision) => Some(revision),
            _ => None,
        }
    }

    /// The revision, as soon as it is settled.
    #[must_use]
    pub const fn agreed(&self) -> Option<Revision> {
        match self.state {
            State::Confirming(revision) | State::Confirmed(revision) | State::Done(revision) => {
                Some(revision)
            }
            _ => None,
        }
    }

    /// Why it failed, if it did.
    #[must_use]
    pub const fn failure(&self) -> Option<NegotiationError> {
        match self.state {
            State::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Whether a server that ends now may have died on the probe, so that it deserves a start straight into
    /// `initialize`.
    #[must_use]
    pub fn may_have_died_on_probe(&self) -> bool {
        matches!(self.state, State::Asking | State::Failed(NegotiationError::Ended))
            && !self.straight
            && self.pin.era() != Some(Era::Modern)
            && !self.known_modern
            && matches!(self.discover, Ask::Asked | Ask::Refused)
    }

    /// The same the other way round: it ended over an `initialize` that came first, whether it refused that before or
    /// not, and has not said what it knows of the probe.
    #[must_use]
    pub fn may_have_died_on_initialize(&self) -> bool {
        self.ended
            && !self.straight
            && self.pin.era().is_none()
            && self.legacy_first
            && matches!(self.initialize, Ask::Asked | Ask::Refused)
            && self.discover != Ask::Refused
    }

    /// The next message to send, with the wire id that `id` makes for the question. Call until `None`.
    #[must_use]
    pub fn poll_send(&mut self, id: impl Fn(Question) -> u64) -> Option<Own> {
        match self.state {
            State::Confirming(revision) => {
                self.state = if self.http { State::Confirmed(revision) } else { State::Done(revision) };
                Some(Own::Initialized)
            }
            State::Asking | State::Verdict { .. } => {
                if self.discover == Ask::Queued {
                    let id = id(Question::Discover);
                    self.discover = Ask::Asked;
                    self.discover_ids = Some((self.discover_ids.map_or(id, |(first, _)| first), id));
                    Some(Own::Discover { id, revision: self.modern_offer })
                } else if self.initialize == Ask::Queued {
                    let id = id(Question::Initialize);
                    self.initialize = Ask::Asked;
                    self.initialize_id = Some(id);
                    Some(Own::Initialize { id, revision: self.legacy_offer })
                } else {
                    None
                }
            }
            State::Confirmed(_) | State::OldTransport { .. } | State::Done(_) | State::Failed(_) => None,
        }
    }

    /// An answer to `question` arrived.
    pub fn handle_answer(
        &mut self,
        now: Instant,
        question: Question,
        frame: &[u8],
        message: &Message,
    ) -> Heard {
        match (question, *message) {
            // A description is as good in answer to the first probe as to a second one, sent or not.
            (Question::Discover, Message::Response { id, result, .. })
                if matches!(self.discover, Ask::Asked | Ask::Queued)
                    && self.is_open()
                    && self.was_probe(frame, id) =>
            {
                self.discovered(frame, result)
            }
            (Question::Discover, Message::Error { id: Some(id), error })
                if self.discover_waits(json::as_u64(id.of(frame))) =>
            {
                self.discover_refused(frame, error);
                Heard::Consumed
            }
            (Question::Initialize, Message::Response { id, result, .. })
                if self.initialize_waits(json::as_u64(id.of(frame))) =>
            {
                self.initialized(now, frame, result)
            }
            (Question::Initialize, Message::Error { id: Some(id), error })
                if self.initialize_waits(json::as_u64(id.of(frame))) =>
            {
                self.initialize_refused(now, frame, error);
                Heard::Consumed
            }
            _ => Heard::Other,
        }
    }

    /// An answer to `question` arrived that is no message: as good as a refusal, and better than silence.
    pub fn handle_invalid_answer(&mut self, now: Instant, question: Question, wire: u64) {
        match question {
            Question::Discover if self.discover_waits(Some(wire)) => {
                self.discover_failed(NegotiationError::InvalidAnswer);
            }
            Question::Initialize if self.initialize_waits(Some(wire)) => {
                self.initialize_failed(now, NegotiationError::InvalidAnswer);
            }
            _ => {}
        }
    }

    const fn is_open(&self) -> bool {
        matches!(self.state, State::Asking | State::Verdict { .. })
    }

    /// Nobody knows yet what the server would answer to the probe, and it may be asked.
    fn has_probe_left(&self) -> bool {
        self.discover == Ask::Idle && self.pin.era().is_none() && !self.straight
    }

    fn was_probe(&self, frame: &[u8], id: Span) -> bool {
        let asked = self.discover_ids.map(|(first, latest)| first..=latest);
        json::as_u64(id.of(frame)).is_some_and(|id| asked.is_some_and(|asked| asked.contains(&id)))
    }

    /// Whether an error with that id answers the latest probe.
    fn discover_waits(&self, wire: Option<u64>) -> bool {
        self.discover == Ask::Asked
            && self.is_open()
            && wire.is_some()
            && wire == self.discover_ids.map(|(_, latest)| latest)
    }

    fn initialize_waits(&self, wire: Option<u64>) -> bool {
        self.initialize == Ask::Asked
            && self.state == State::Asking
            && wire.is_some()
            && wire == self.initialize_id
    }

    /// Over HTTP: `notifications/initialized` was taken.
    pub const fn handle_confirmed(&mut self) {
        if let State::Confirmed(revision) = self.state {
            self.state = State::Done(revision);
        }
    }

    /// Over HTTP: a question was answered with a status that is no answer.
    pub fn handle_status(&mut self, now: Instant, question: Question, wire: u64, status: u16) {
        let error = NegotiationError::Http(status);
        let more = question == Question::Initialize && self.has_probe_left();
        match (question, status) {
            (_, 500..=599) if self.is_open() && !more => self.state = State::Failed(error),
            (Question::Discover, _) if self.discover_waits(Some(wire)) => self.discover_failed(error),
            (Question::Initialize, 400 | 404 | 405)
                if self.initialize_waits(Some(wire)) && !self.old_tried =>
            {
                self.initialize = Ask::Refused;
                self.old_tried = true;
                self.state = State::OldTransport { told: false, status };
            }
            (Question::Initialize, _) if self.initialize_waits(Some(wire)) => {
                self.initialize_failed(now, error);
            }
            _ => {}
        }
    }

    /// Over HTTP: the connection broke before that question was answered. There are servers that answer an unknown
    /// method so.
    pub fn handle_broken(&mut self, now: Instant, question: Question, wire: u64) {
        match question {
            Question::Discover if self.discover_waits(Some(wire)) => {
                self.discover_failed(NegotiationError::Broken);
            }
            Question::Initialize if self.initialize_waits(Some(wire)) && self.has_probe_left() => {
                self.initialize_failed(now, NegotiationError::Broken);
            }
            Question::Initialize if self.initialize_waits(Some(wire)) => {
                self.state = State::Failed(NegotiationError::Broken);
            }
            _ => {}
        }
    }

    /// Whether the answer to the question of that wire id is waited for.
    #[must_use]
    pub fn awaits(&self, question: Question, wire: u64) -> bool {
        match question {
            Question::Discover => self.discover_waits(Some(wire)),
            Question::Initialize => self.initialize_waits(Some(wire)),
        }
    }

    /// Over HTTP: there is no connection.
    pub const fn handle_unreachable(&mut self, error: NegotiationError) {
        if !matches!(self.state, State::Done(_) | State::Failed(_)) {
            self.state = State::Failed(error);
        }
    }

    /// Whether the stream of the transport of 2024-11-05 is to be opened; said once.
    #[must_use]
    pub const fn poll_old_stream(&mut self) -> bool {
        if let State::OldTransport { told: told @ false, .. } = &mut self.state {
            *told = true;
            return true;
        }
        false
    }

    /// That stream named the endpoint to post to.
    pub fn handle_endpoint(&mut self) {
        if matches!(self.state, State::OldTransport { told: true, .. }) {
            self.state = State::Asking;
            self.discover = Ask::Refused;
            self.initialize = Ask::Queued;
        }
    }

    /// There is no such stream: what `initialize` was refused with stands, unless the probe was not put yet.
    pub fn handle_no_endpoint(&mut self, now: Instant) {
        if let State::OldTransport { status, .. } = self.state {
            self.initialize_failed(now, NegotiationError::Http(status));
        }
    }

    /// The server ended, or closed its output.
    pub const fn handle_end(&mut self) {
        self.ended |= self.is_open();
        self.state = match self.state {
            State::Done(_) | State::Failed(_) => return,
            // It said why before it went.
            State::Verdict { outcome: Err(error), .. } => State::Failed(error),
            _ => State::Failed(NegotiationError::Ended),
        };
    }

    /// Time has passed; early and late calls do no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let State::Verdict { until, outcome } = self.state
            && now >= until
        {
            self.conclude(outcome);
        }
        let waits = matches!(self.state, State::Asking | State::Confirmed(_) | State::OldTransport { .. });
        if waits {
            if now >= self.connect_by {
                self.state = State::Failed(NegotiationError::TimedOut);
            } else if self.hedge_at.is_some_and(|at| now >= at) {
                self.hedge_at = None;
                if !self.known_modern {
                    self.ask_other();
                }
            }
        }
    }

    /// Adds what is awaited.
    pub fn timetable(&self, table: &mut Timetable) {
        match self.state {
            State::Asking => {
                table.set(Reason::Connect, self.connect_by);
                if let Some(at) = self.hedge_at {
                    table.set(Reason::Hedge, at);
                }
            }
            State::Verdict { until, .. } => table.set(Reason::Verdict, until),
            State::Confirmed(_) | State::OldTransport { .. } => table.set(Reason::Connect, self.connect_by),
            State::Confirming(_) | State::Done(_) | State::Failed(_) => {}
        }
    }

    fn ask_other(&mut self) {
        if self.discover == Ask::Idle {
            self.discover = Ask::Queued;
        }
        if self.initialize == Ask::Idle {
            self.initialize = Ask::Queued;
        }
    }

    fn discovered(&mut self, frame: &[u8], result: Span) -> Heard {
        let versions = json::member(frame, result, "supportedVersions");
        let Some(versions) = versions.filter(|span| json::is_array(span.of(frame))) else {
            // A legacy server that answers anything with an empty result: no description, no modern server.
            self.discover_failed(NegotiationError::NoCommonVersion);
            return Heard::Consumed;
        };
        if let Some(revision) = self.best(frame, versions, Era::Modern) {
            self.state = State::Done(revision);
            return Heard::Handshake(result);
        }
        if self.best(frame, versions, Era::Legacy).is_some() {
            self.discover_failed(NegotiationError::NoCommonVersion);
        } else {
            self.give_up();
        }
        Heard::Consumed
    }

    fn discover_refused(&mut self, frame: &[u8], error: Span) {
        let (code, supported) = refusal(frame, error);
        let best = |era| supported.and_then(|versions| self.best(frame, versions, era));
        match (code, best(Era::Modern), best(Era::Legacy)) {
            // Modern errors prove a modern server: never fall back on them.
            (-32022, Some(revision), _) => self.correct_modern(revision),
            (-32022, None, Some(_)) => self.discover_failed(NegotiationError::NoCommonVersion),
            (-32022, None, None) => self.give_up(),
            (-32020 | -32021, ..) => self.go_modern(),
            _ if self.known_modern => self.go_modern(),
            _ => self.discover_failed(NegotiationError::Refused(code)),
        }
    }

    /// The server is modern, though it does not describe itself. Where it accepted `initialize`, that counts for more.
    const fn go_modern(&mut self) {
        self.state = match self.state {
            State::Verdict { outcome: Ok(revision), .. } => State::Confirming(revision),
            _ => State::Done(self.modern_offer),
        };
    }

    fn initialized(&mut self, now: Instant, frame: &[u8], result: Span) -> Heard {
        let version = json::member(frame, result, "protocolVersion");
        let revision = version
            .and_then(|span| Revision::from_json(span.of(frame)))
            .filter(|revision| revision.era() == Era::Legacy && self.pin.allows(*revision));
        let Some(revision) = revision else {
            self.initialize_failed(now, NegotiationError::NoCommonVersion);
            return Heard::Consumed;
        };
        self.state = if matches!(self.discover, Ask::Asked | Ask::Queued) && !self.legacy_first {
            State::Verdict { until: now.after(self.limits.verdict), outcome: Ok(revision) }
        } else {
            State::Confirming(revision)
        };
        Heard::Handshake(result)
    }

    fn initialize_refused(&mut self, now: Instant, frame: &[u8], error: Span) {
        let (code, supported) = refusal(frame, error);
        let best = |era| supported.and_then(|versions| self.best(frame, versions, era));
        match (best(Era::Modern), best(Era::Legacy)) {
            (Some(revision), _) => {
                self.initialize = Ask::Refused;
                self.known_modern = true;
                self.modern_offer = revision;
                // The probe may have been lost while the server started, so it is put again.
                match self.discover {
                    Ask::Refused => self.state = State::Done(revision),
                    Ask::Idle | Ask::Queued | Ask::Asked => self.discover = Ask::Queued,
                }
            }
            (None, Some(revision)) if !self.initialize_corrected && revision != self.legacy_offer => {
                self.initialize_corrected = true;
                self.legacy_offer = revision;
                self.initialize = Ask::Queued;
            }
            _ if code == -32022 => self.initialize_failed(now, NegotiationError::NoCommonVersion),
            _ => self.initialize_failed(now, NegotiationError::Refused(code)),
        }
    }

    /// The server is modern but wants the revision named otherwise: say it once more.
    fn correct_modern(&mut self, revision: Revision) {
        self.known_modern = true;
        if self.discover_corrected {
            self.give_up();
        } else {
            self.discover_corrected = true;
            self.modern_offer = revision;
            self.discover = Ask::Queued;
        }
    }

    /// The probe says nothing for a modern server: `initialize` decides.
    fn discover_failed(&mut self, error: NegotiationError) {
        self.discover = Ask::Refused;
        if let State::Verdict { outcome, .. } = self.state {
            self.conclude(outcome);
            return;
        }
        if self.initialize == Ask::Idle && self.pin.era().is_none() {
            self.initialize = Ask::Queued;
        }
        if !matches!(self.initialize, Ask::Queued | Ask::Asked) {
            self.state = State::Failed(error);
        }
    }

    /// `initialize` leads nowhere. The server is up, so that it can answer a probe now, if it ever will.
    fn initialize_failed(&mut self, now: Instant, error: NegotiationError) {
        self.initialize = Ask::Refused;
        if self.discover == Ask::Refused || self.pin.era().is_some() || self.straight {
            self.state = State::Failed(error);
        } else {
            self.discover = Ask::Queued;
            let until =
                self.limits.hedge.map_or(self.connect_by, |hedge| now.after(hedge)).min(self.connect_by);
            self.state = State::Verdict { until, outcome: Err(error) };
        }
    }

    /// The server speaks nothing that is spoken here, unless it accepted `initialize` before.
    fn give_up(&mut self) {
        match self.state {
            State::Verdict { outcome: Ok(revision), .. } => self.conclude(Ok(revision)),
            _ => self.state = State::Failed(NegotiationError::NoCommonVersion),
        }
    }

    const fn conclude(&mut self, outcome: Result<Revision, NegotiationError>) {
        self.state = match outcome {
            Ok(revision) => State::Confirming(revision),
            Err(error) => State::Failed(error),
        };
    }

    /// The newest revision of `era` in a JSON array of versions that the pin allows.
    fn best(&self, frame: &[u8], versions: Span, era: Era) -> Option<Revision> {
        if !json::is_array(versions.of(frame)) {
            return None;
        }
        json::elements(frame, versions)
            .filter_map(|item| Revision::from_json(item.of(frame)))
            .filter(|revision| revision.era() == era && self.pin.allows(*revision))
            .max()
    }
}

/// One of the two questions of a negotiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Question {
    /// `server/discover`
    Discover,
    /// `initialize`
    Initialize,
}

/// The code of an error, and `data.supported` if it is there.
fn refusal(frame: &[u8], error: Span) -> (i64, Option<Span>) {
    let code = json::member(frame, error, "code").and_then(|span| json::as_i64(span.of(frame))).unwrap_or(0);
    let supported = json::member(frame, error, "data")
        .filter(|data| json::is_object(data.of(frame)))
        .and_then(|data| json::member(frame, data, "supported"));
    (code, supported)
}

#[cfg(test)]
#[path = "negotiate_tests.rs"]
mod tests;
