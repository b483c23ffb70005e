//! Questions: what is asked, who can be asked, and which call a question belongs to.

use super::{Principal, Question};
use crate::capabilities::ClientCapabilities;
use crate::json;
use crate::link::Key;
use crate::message;
use crate::method::Method;
use crate::span::Span;
use crate::splice::NoAnswer;
use crate::time::{Duration, Instant};

/// What a question asks of a caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Kind {
    /// `elicitation/create` for a form.
    Form,
    /// `elicitation/create` for a visit to an address.
    Url,
    /// `sampling/createMessage`
    Sampling,
    /// `sampling/createMessage` with tools.
    SamplingWithTools,
}

impl Kind {
    /// What a request of a server asks; `None` if it is nothing that a caller can be asked.
    #[must_use]
    pub fn of(frame: &[u8], method: Span, params: Option<Span>) -> Option<Self> {
        let params = params?;
        let method = method.of(frame);
        if json::str_eq(method, "elicitation/create") {
            match json::member(frame, params, "mode").map(|mode| mode.of(frame)) {
                None => Some(Self::Form),
                Some(mode) if json::str_eq(mode, "form") => Some(Self::Form),
                Some(mode) if json::str_eq(mode, "url") => Some(Self::Url),
                Some(_) => None,
            }
        } else if json::str_eq(method, "sampling/createMessage") {
            let tools =
                ["tools", "toolChoice"].iter().any(|name| json::member(frame, params, name).is_some());
            Some(if tools { Self::SamplingWithTools } else { Self::Sampling })
        } else {
            None
        }
    }

    /// What a client has to declare to be asked, a capabilities object.
    #[must_use]
    pub const fn requires(self) -> &'static [u8] {
        match self {
            Self::Form => br#"{"elicitation":{"form":{}}}"#,
            Self::Url => br#"{"elicitation":{"url":{}}}"#,
            Self::Sampling => br#"{"sampling":{}}"#,
            Self::SamplingWithTools => br#"{"sampling":{"tools":{}}}"#,
        }
    }

    /// Whether a client with these capabilities can be asked.
    #[must_use]
    pub const fn is_covered(self, by: ClientCapabilities) -> bool {
        match self {
            Self::Form => by.form,
            Self::Url => by.url,
            Self::Sampling => by.sampling,
            Self::SamplingWithTools => by.sampling && by.sampling_tools,
        }
    }
}

/// Why a question is put to nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Unasked {
    /// No request is with the server during which it may ask.
    NoCall,
    /// It cannot be told whose call it belongs to.
    Ambiguous,
    /// The same, but all others wait for answers of clients that are away: [`Unsettled`](super::Unsettled).
    Unsettled {
        /// The one whose call it would be without them.
        principal: Principal,
        /// How long they all have been away.
        away: Duration,
    },
    /// The caller has not declared that it can be asked for that. The call, if there is only one that it can be.
    Undeclared(Option<Key>),
    /// As many calls are held as there are slots.
    TooMany,
    /// As many calls of that principal are held as may be.
    TooManyOfOne,
    /// As many questions of that call are open as may be, or it was asked for too many rounds.
    TooManyOfCall,
}

impl Unasked {
    /// What the server is told.
    #[must_use]
    pub const fn answer(self) -> NoAnswer {
        match self {
            Self::Undeclared(_) => NoAnswer::Declined,
            _ => NoAnswer::Cancelled,
        }
    }
}

impl core::fmt::Display for Unasked {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NoCall => "no request was under way during which it may ask",
            Self::Ambiguous | Self::Unsettled { .. } => "it cannot be told whose request it belongs to",
            Self::Undeclared(_) => "whoever waits for the request cannot be asked for that",
            Self::TooMany => "too many requests wait for answers",
            Self::TooManyOfOne => "too many requests of the same client wait for answers",
            Self::TooManyOfCall => {
                "too many questions of the request are open, or there were too many rounds"
            }
        })
    }
}

/// A request that is with the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Candidate {
    /// Its key at the link.
    pub key: Key,
    /// Its place in the order in which requests were sent.
    pub order: u64,
    /// Whose it is.
    pub principal: Principal,
    /// Its method.
    pub method: Method,
    /// What its caller declared with it.
    pub capabilities: ClientCapabilities,
    /// A question of it is open, and for so long its client has not been there to hear of anything.
    pub away: Option<Duration>,
}

impl Candidate {
    /// Whether its result may be `input_required` (basic/patterns/mrtr, Supported Requests). Of a task it is that of
    /// `tasks/result`, of which only `origin` tells.
    fn may_ask(&self, origin: Option<Key>) -> bool {
        matches!(self.method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead)
            || self.method == Method::Tasks && origin == Some(self.key)
    }

    const fn may_leak(&self) -> bool {
        may_leak(self.method)
    }
}

/// Whether a question could come from such a request: not from what carries nothing of its caller to the server.
pub(super) const fn may_leak(method: Method) -> bool {
    !matches!(
        method,
        Method::ToolsList
            | Method::ResourcesList
            | Method::TemplatesList
            | Method::PromptsList
            | Method::Ping
            | Method::ServerPing
            | Method::Discover
            | Method::Info
    )
}

/// Whose requests are under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum There {
    Nobodys,
    /// Of one principal. `may_ask`: one of them may ask.
    Of {
        principal: Principal,
        may_ask: bool,
    },
    Several,
}

/// Looks for the call of a question.
pub(super) struct Attribution {
    kind: Kind,
    origin: Option<Key>,
    principal: Option<Principal>,
    several: bool,
    /// Of those whose clients are there.
    there: There,
    /// The shortest time that a client has been away.
    away: Duration,
    may_ask: bool,
    /// There is one without an open question whose caller cannot be asked: it is more likely the one that asks than
    /// another that waits for an answer already.
    unable: bool,
    /// The only one that may ask.
    only: Option<Key>,
    /// The best so far, by whether a question of it is open, and by age.
    best: Option<((bool, u64), Key)>,
}

impl Attribution {
    pub(super) const fn new(kind: Kind, origin: Option<Key>) -> Self {
        Self {
            kind,
            origin,
            principal: None,
            several: false,
            there: There::Nobodys,
            away: Duration::MAX,
            may_ask: false,
            unable: false,
            only: None,
            best: None,
        }
    }

    pub(super) fn consider(&mut self, request: Candidate, busy: bool) {
        if self.origin.is_some_and(|origin| origin != request.key) || !request.may_leak() {
            return;
        }
        self.several |= self.principal.is_some_and(|principal| principal != request.principal);
        self.principal = Some(request.principal);
        let may_ask = request.may_ask(self.origin);
        match (request.away, self.there) {
            (Some(away), _) => self.away = self.away.min(away),
            (None, There::Nobodys) => self.there = There::Of { principal: request.principal, may_ask },
            (None, There::Of { principal, may_ask: before }) if principal == request.principal => {
                self.there = There::Of { principal, may_ask: before || may_ask };
            }
            (None, _) => self.there = There::Several,
        }
        if !may_ask {
            return;
        }
        self.only = (!self.may_ask).then_some(request.key);
        self.may_ask = true;
        let rank = (busy, request.order);
        let able = self.kind.is_covered(request.capabilities);
        self.unable |= !able && !busy;
        if able && self.best.is_none_or(|(best, _)| rank < best) {
            self.best = Some((rank, request.key));
        }
    }

    /// `others`: whether requests of others than that principal may still be under way.
    pub(super) fn result(self, others: impl FnOnce(Principal) -> bool) -> Result<Key, Unasked> {
        let principal = self.principal.filter(|_| self.may_ask).ok_or(Unasked::NoCall)?;
        if self.several {
            return Err(match self.there {
                There::Of { principal, may_ask: true } if !others(principal) => {
                    Unasked::Unsettled { principal, away: self.away }
                }
                _ => Unasked::Ambiguous,
            });
        }
        if others(principal) {
            return Err(Unasked::Ambiguous);
        }
        let unable = self.unable;
        self.best
            .filter(|((busy, _), _)| !(*busy && unable))
            .map(|(_, key)| key)
            .ok_or(Unasked::Undeclared(self.only))
    }
}

/// Whose requests were cancelled lately: the server was told, and may not have heard yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lingering {
    last: Option<(Principal, Instant)>,
    /// Until then there are requests of several.
    several: Option<Instant>,
}

impl Lingering {
    pub(super) fn add(&mut self, now: Instant, until: Instant, principal: Principal) {
        if let Some((other, at)) = self.last
            && other != principal
            && now < at
        {
            self.several = self.several.max(Some(at));
        }
        self.last = Some((principal, until));
    }

    pub(super) fn others(&self, now: Instant, than: Principal) -> bool {
        self.several.is_some_and(|until| now < until)
            || self.last.is_some_and(|(principal, until)| principal != than && now < until)
    }
}

/// The key of a question in `inputRequests`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name {
    digits: [u8; 20],
    start: u8,
}

impl Name {
    /// Its text, without quotes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let text = self.digits.get(usize::from(self.start)..).unwrap_or_default();
        core::str::from_utf8(text).unwrap_or_default()
    }
}

impl Question {
    /// Its key in `inputRequests`: unique within the call, over all its rounds.
    #[must_use]
    pub fn name(&self) -> Name {
        let mut text = [0; 20];
        let length = message::decimal(u64::from(self.number), &mut text).len();
        let start = text.len().saturating_sub(length + 1);
        if let Some(first) = text.get_mut(start) {
            *first = b'q';
        }
        Name { digits: text, start: start as u8 }
    }
}
