//! What goes into the machine of held calls, and what comes out of it.

use heapless::Vec;

use super::question::Kind;
use super::{INPUT_RESPONSES, MAX_PATIENCE, MAX_QUESTIONS, REQUEST_STATE};
use crate::json;
use crate::link::{self, Failure};
use crate::method::Method;
use crate::span::Span;
use crate::time::Duration;

/// Whose call it is: a number that the adapter gives each principal, never the same to two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Principal(pub u64);

/// Limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// How long the answers of a round are awaited; [`MAX_PATIENCE`] at most.
    pub patience: Duration,
    /// How many calls of one principal are held at once.
    pub per_principal: usize,
    /// How many calls that are over are kept for an identical retry.
    pub kept: usize,
    /// How long a call that was cancelled may still put questions, see [`Held::attribute`](super::Held::attribute).
    pub linger: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { patience: MAX_PATIENCE, per_principal: 16, kept: 8, linger: Duration::from_secs(10) }
    }
}

/// Names a held call: the index of its slot, and which of the slot's calls it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct HeldKey {
    pub(super) index: u16,
    pub(super) generation: u32,
}

impl HeldKey {
    /// Index of the slot: where the adapter keeps the payloads.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// A question of the server, in the place that it has in its call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Question {
    /// The call.
    pub held: HeldKey,
    /// Its place among the call's open questions, below [`MAX_QUESTIONS`].
    pub place: u8,
    /// Counts the call's questions: what makes its key in `inputRequests`.
    pub number: u16,
    /// What is asked.
    pub kind: Kind,
}

/// A question that is to be held.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// The call it belongs to, as [`Held::attribute`](super::Held::attribute) says.
    pub call: link::Key,
    /// Whose call that is.
    pub principal: Principal,
    /// What is asked.
    pub kind: Kind,
    /// The call's method.
    pub method: Method,
    /// The frame of the caller's request.
    pub frame: &'a [u8],
    /// Its parameters.
    pub params: Option<Span>,
    /// 16 bytes from a random source that nobody can predict. Used for the first question of a call.
    pub random: [u8; 16],
}

/// A question that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Asked {
    /// It.
    pub question: Question,
    /// The caller waits: answer its request now with the questions that [`Held::shown`](super::Held::shown) gives. From here on nobody
    /// waits for the call. Otherwise the question is shown at the next retry.
    pub now: bool,
}

/// A request that carries a `requestState`.
#[derive(Clone, Copy, Debug)]
pub struct Retry<'a> {
    /// Whose request it is.
    pub principal: Principal,
    /// Its method.
    pub method: Method,
    /// Its frame.
    pub frame: &'a [u8],
    /// Its parameters.
    pub params: Span,
}

/// What a request carries of an interaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Carries {
    /// Its `requestState`: it is a [`Retry`].
    pub state: Option<Span>,
    /// Its `inputResponses`.
    pub responses: Option<Span>,
}

impl Carries {
    /// Reads a request of that method; those of other methods carry nothing (basic/patterns/mrtr, Supported Requests).
    #[must_use]
    pub fn of(frame: &[u8], method: Method, params: Option<Span>) -> Self {
        let mut carries = Self::default();
        let params = params.filter(|_| {
            // What a task waits for comes with the request for its result.
            crate::splice::may_require_input(method) || method == Method::Tasks
        });
        for member in params.into_iter().flat_map(|params| json::members(frame, params)) {
            let key = member.key.of(frame);
            if json::str_eq(key, REQUEST_STATE) {
                carries.state = carries.state.or(Some(member.value));
            } else if json::str_eq(key, INPUT_RESPONSES) {
                carries.responses = carries.responses.or(Some(member.value));
            }
        }
        carries
    }
}

impl Retry<'_> {
    /// Where the `requestState` of a request stands, if it has one.
    #[must_use]
    pub fn state_of(frame: &[u8], params: Option<Span>) -> Option<Span> {
        params.and_then(|params| json::member(frame, params, REQUEST_STATE))
    }
}

/// A retry found its call.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Resumed {
    /// The call.
    pub held: HeldKey,
    /// The answers to pass on to the server ([`splice::answer_question`](crate::splice::answer_question)), each a span
    /// of the retry's frame. These questions are over.
    pub answers: Vec<(Question, Span), MAX_QUESTIONS>,
    /// What becomes of the retry.
    pub then: Then,
}

/// What becomes of a retry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Then {
    /// It waits for the call.
    Wait {
        /// The call at the link; its clock starts anew.
        call: link::Key,
        /// An earlier, identical retry still waits: it fails as superseded, and this one takes its place.
        instead: bool,
    },
    /// Answer it now with the questions that [`Held::shown`](super::Held::shown) gives.
    Ask,
    /// Answer it with the answer that was kept for the call.
    Answer {
        /// The call stops counting as in flight.
        ends: bool,
    },
    /// The call has failed.
    Fail(Failure),
}

/// Why a retry found no call. The call that it is about is not issued again, and may have run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Lost {
    /// The state was not made here, or for another principal, method or parameters: which of them, nobody is told.
    NotYours,
    /// Its time is over.
    Expired,
    /// It is of another run of the server.
    OtherGeneration,
    /// The call is over: it was cancelled, or its answer was not kept.
    Ended,
    /// The call is further on: a later round was answered already.
    Stale,
    /// Its round was answered already, and differently. The call goes on.
    Answered,
}

impl Lost {
    /// The stable word for it (`kind`) in errors.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Answered => "interaction-answered",
            _ => "interaction-lost",
        }
    }
}

impl core::fmt::Display for Lost {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NotYours => "interaction lost: the requestState is not one that this request was given",
            Self::Expired => "interaction lost: the answer came too late and the call was cancelled",
            Self::OtherGeneration => "interaction lost: the server was restarted",
            Self::Ended => "interaction lost: the call is over and its answer gone",
            Self::Stale => "interaction lost: the call has moved on",
            Self::Answered => "the questions were answered already, in another way",
        })
    }
}

impl core::error::Error for Lost {}

/// Whom the end of a held call concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Fate {
    /// Somebody waits: deliver it. Keep a copy for an identical retry, or [`forget`](super::Held::forget) the call.
    Deliver(HeldKey),
    /// Nobody waits: keep it for the retry. Until then the call counts as in flight (the answer of one does; see
    /// [`Then::Answer`] and [`Output::Forget`]).
    Keep(HeldKey),
}

/// What the adapter has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Output {
    /// The question is over without an answer: forget its frame.
    Withdraw {
        /// It.
        question: Question,
        /// The server waits for it and is to be told ([`splice::refused`](crate::splice::refused)).
        tell: bool,
    },
    /// Nobody can come for the call any more: cancel it at the link. Its failure concerns nobody.
    Cancel {
        /// The call.
        call: link::Key,
    },
    /// Forget what was kept for the call. Takes the key back.
    Forget {
        /// The call.
        held: HeldKey,
        /// It stops counting as in flight: its answer was never fetched.
        ends: bool,
    },
}
