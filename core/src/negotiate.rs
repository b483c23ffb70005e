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
//! - the probe refused with -32020, -32021 or -32022 means modern; refused with anything else, `initialize` decides.
//!
//! A server that was legacy the last time is asked with `initialize` first; that too is checked, and hedged the other
//! way round.

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
    /// An unanswered first question is joined by the other one after this time.
    pub hedge: Duration,
    /// After an `InitializeResult` a `DiscoverResult` still wins for this long.
    pub verdict: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(60),
            hedge: Duration::from_secs(2),
            verdict: Duration::from_millis(500),
        }
    }
}

/// Why a server could not be negotiated with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// `initialize` was answered; the probe may still be.
    Verdict {
        until: Instant,
        revision: Revision,
    },
    /// Legacy, and `notifications/initialized` is still to be sent.
    Confirming(Revision),
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
    /// Each era's offer was corrected once already.
    corrected: bool,
    last_refusal: i64,
    /// The first question was `initialize` and nothing else was to be tried: a server that died on the probe.
    straight: bool,
}

impl Negotiation {
    /// Starts with the process. `remembered` is the era of the last time, `straight` asks for `initialize` alone
    /// because the server died on the probe a moment ago.
    #[must_use]
    pub fn new(now: Instant, pin: Pin, remembered: Option<Era>, straight: bool, limits: Limits) -> Self {
        let legacy_first = pin.era().or(remembered) == Some(Era::Legacy) || straight;
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
            hedge_at: (pin.era().is_none() && !straight).then(|| now.after(limits.hedge)),
            known_modern: false,
            corrected: false,
            last_refusal: 0,
            straight,
        }
    }

    /// The revision, once it is settled and everything is said.
    #[must_use]
    pub const fn revision(&self) -> Option<Revision> {
        match self.state {
            State::Done(revision) => Some(revision),
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

    /// The next message to send, with the wire id that `id` makes for the question. Call until `None`.
    #[must_use]
    pub fn poll_send(&mut self, id: impl Fn(Question) -> u64) -> Option<Own> {
        match self.state {
            State::Confirming(revision) => {
                self.state = State::Done(revision);
                Some(Own::Initialized)
            }
            State::Asking | State::Verdict { .. } => {
                if self.discover == Ask::Queued {
                    self.discover = Ask::Asked;
                    Some(Own::Discover { id: id(Question::Discover), revision: self.modern_offer })
                } else if self.initialize == Ask::Queued {
                    self.initialize = Ask::Asked;
                    Some(Own::Initialize { id: id(Question::Initialize), revision: self.legacy_offer })
                } else {
                    None
                }
            }
            State::Done(_) | State::Failed(_) => None,
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
            // The answer to a first probe is as good as that to a second one, which may not even be sent yet.
            (Question::Discover, Message::Response { result, .. })
                if matches!(self.discover, Ask::Asked | Ask::Queued)
                    && matches!(self.state, State::Asking | State::Verdict { .. }) =>
            {
                self.discovered(frame, result)
            }
            (Question::Discover, Message::Error { error, .. })
                if self.discover == Ask::Asked
                    && matches!(self.state, State::Asking | State::Verdict { .. }) =>
            {
                self.discover_refused(frame, error);
                Heard::Consumed
            }
            (Question::Initialize, Message::Response { result, .. })
                if self.initialize == Ask::Asked && self.state == State::Asking =>
            {
                self.initialized(now, frame, result)
            }
            (Question::Initialize, Message::Error { error, .. })
                if self.initialize == Ask::Asked && self.state == State::Asking =>
            {
                self.initialize_refused(frame, error);
                Heard::Consumed
            }
            _ => Heard::Other,
        }
    }

    /// The server ended, or closed its output.
    pub const fn handle_end(&mut self) {
        if !matches!(self.state, State::Done(_) | State::Failed(_)) {
            self.state = State::Failed(NegotiationError::Ended);
        }
    }

    /// Time has passed; early and late calls do no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let State::Verdict { until, revision } = self.state
            && now >= until
        {
            self.state = State::Confirming(revision);
        }
        if matches!(self.state, State::Asking) {
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
        let Some(versions) = json::member(frame, result, "supportedVersions") else {
            // A legacy server that answers anything with an empty result: no description, no modern server.
            self.refuse(Question::Discover, 0);
            return Heard::Consumed;
        };
        if let Some(revision) = self.best(frame, versions, Era::Modern) {
            self.state = State::Done(revision);
            return Heard::Handshake(result);
        }
        if self.pin.era() != Some(Era::Modern) && self.best(frame, versions, Era::Legacy).is_some() {
            self.refuse(Question::Discover, 0);
        } else {
            self.state = State::Failed(NegotiationError::NoCommonVersion);
        }
        Heard::Consumed
    }

    fn discover_refused(&mut self, frame: &[u8], error: Span) {
        let (code, supported) = refusal(frame, error);
        match code {
            // Modern errors prove a modern server: never fall back on them.
            -32022 => match supported {
                Some(versions) => {
                    if let Some(revision) = self.best(frame, versions, Era::Modern) {
                        self.correct_modern(revision);
                    } else if self.pin.era() != Some(Era::Modern)
                        && self.best(frame, versions, Era::Legacy).is_some()
                    {
                        self.refuse(Question::Discover, code);
                    } else {
                        self.state = State::Failed(NegotiationError::NoCommonVersion);
                    }
                }
                None => self.state = State::Failed(NegotiationError::NoCommonVersion),
            },
            -32020 | -32021 => self.state = State::Done(self.modern_offer),
            _ if self.known_modern => self.state = State::Done(self.modern_offer),
            _ => self.refuse(Question::Discover, code),
        }
    }

    fn initialized(&mut self, now: Instant, frame: &[u8], result: Span) -> Heard {
        let version = json::member(frame, result, "protocolVersion");
        let revision = version.and_then(|span| Revision::from_json(span.of(frame)));
        match revision {
            Some(revision) if revision.era() == Era::Legacy && self.pin.allows(revision) => {
                self.state = if self.discover == Ask::Asked {
                    State::Verdict { until: now.after(self.limits.verdict), revision }
                } else {
                    State::Confirming(revision)
                };
                Heard::Handshake(result)
            }
            _ => {
                self.state = State::Failed(NegotiationError::NoCommonVersion);
                Heard::Consumed
            }
        }
    }

    fn initialize_refused(&mut self, frame: &[u8], error: Span) {
        let (code, supported) = refusal(frame, error);
        let modern = supported.and_then(|versions| self.best(frame, versions, Era::Modern));
        let legacy = supported.and_then(|versions| self.best(frame, versions, Era::Legacy));
        if let Some(revision) = modern {
            if self.pin.era() == Some(Era::Legacy) {
                self.state = State::Failed(NegotiationError::NoCommonVersion);
                return;
            }
            self.initialize = Ask::Refused;
            self.last_refusal = code;
            self.known_modern = true;
            self.modern_offer = revision;
            // The probe may have been lost while the server started, so it is put again.
            match self.discover {
                Ask::Refused => self.state = State::Done(revision),
                Ask::Idle | Ask::Queued | Ask::Asked => self.discover = Ask::Queued,
            }
        } else if let Some(revision) = legacy
            && !self.corrected
            && revision != self.legacy_offer
        {
            self.corrected = true;
            self.legacy_offer = revision;
            self.initialize = Ask::Queued;
        } else if code == -32022 && supported.is_some() {
            self.state = State::Failed(NegotiationError::NoCommonVersion);
        } else {
            self.refuse(Question::Initialize, code);
        }
    }

    /// The server is modern but wants the revision named otherwise: say it once more.
    fn correct_modern(&mut self, revision: Revision) {
        self.known_modern = true;
        if self.corrected {
            self.state = State::Failed(NegotiationError::NoCommonVersion);
        } else {
            self.corrected = true;
            self.modern_offer = revision;
            self.discover = Ask::Queued;
        }
    }

    fn refuse(&mut self, question: Question, code: i64) {
        self.last_refusal = code;
        match question {
            Question::Discover => self.discover = Ask::Refused,
            Question::Initialize => self.initialize = Ask::Refused,
        }
        if let State::Verdict { revision, .. } = self.state {
            self.state = State::Confirming(revision);
            return;
        }
        if self.pin.era().is_none() && !self.straight {
            self.ask_other();
        }
        if self.discover != Ask::Asked
            && self.discover != Ask::Queued
            && self.initialize != Ask::Asked
            && self.initialize != Ask::Queued
        {
            self.state = State::Failed(NegotiationError::Refused(self.last_refusal));
        }
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
