//! A client's connection to drowse: the hello, what each line is, and how far the connection was read.
//!
//! Speaks both eras whatever the server's; each connection has the one that its client opens with. `initialize` makes it
//! a legacy one, any other request with the fields of 2026-07-28 a modern one. It decides what a line asks for; the
//! adapter carries it to [`crate::server::Server`], rewritten by [`crate::splice`], or answers it with the texts given
//! here. What a server wants of a legacy client goes to that as a request of drowse's: [`asking`] counts those, and
//! [`round`] reads what a modern server wants.

use crate::activity::{Asker, Counts, Rule, Starts};
use crate::capabilities::ClientCapabilities;
use crate::envelope::{self, Message};
use crate::era::{Era, Revision};
use crate::json;
use crate::link::Allowance;
use crate::logging::Level;
use crate::method::Method;
use crate::relay::Filter;
use crate::server::Operation;
use crate::span::Span;
use crate::splice::RequestParts;

pub mod answer;
pub mod asking;
pub mod http;
mod legacy;
mod modern;
pub mod place;
pub mod round;
pub mod visits;

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod properties;
#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod tests;

pub use self::legacy::initialization;
pub use self::modern::discovery;

/// The version of the hello that drowse speaks.
pub const HELLO_VERSION: u64 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Greeting,
    Open { verbatim: bool, opened: Opened },
    Closed,
}

/// How a client opened its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Opened {
    /// It has not said it yet.
    NotYet,
    Modern,
    Legacy {
        revision: Revision,
        /// What it last set.
        level: Option<Level>,
        /// It said that it has read the answer to `initialize`.
        initialized: bool,
    },
}

/// One connection.
#[derive(Clone, Copy, Debug)]
pub struct Front {
    asker: Asker,
    state: State,
    /// Requests that were read: what GOAWAY says.
    read: u64,
}

impl Default for Front {
    fn default() -> Self {
        Self::new()
    }
}

/// What a line of a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Inbound {
    /// The hello, with a version that is spoken here: say so.
    Hello {
        /// The principal, a JSON string; absent: the connection itself.
        principal: Option<Span>,
    },
    /// The first line is no hello, or names no version that is spoken here: say so, and close.
    Refused,
    /// A program that wants to take the bridge's place, whatever the versions of both: leave, and close.
    Leave,
    /// A request for the server: submit it.
    Operation {
        /// What to submit.
        operation: Operation,
        /// Where its parts are.
        parts: RequestParts,
        /// The client's own progress token, if it wants progress.
        token: Option<Span>,
    },
    /// A list that is answered from what was saved while the server sleeps: nobody starts it for that. While it
    /// [is up](crate::lifecycle::Lifecycle::is_up), submit it.
    List {
        /// What to submit.
        operation: Operation,
        /// Where its parts are.
        parts: RequestParts,
        /// The client's own progress token, if it wants progress.
        token: Option<Span>,
    },
    /// `subscriptions/listen`: attach a listener.
    Listen {
        /// The request's id, which names the subscription from now on.
        id: Span,
        /// What it wants to hear.
        filter: Filter,
        /// The server is started for it, and kept awake.
        starts: bool,
    },
    /// `server/discover`: answered by drowse, see [`discovery`].
    Discover {
        /// The request's id.
        id: Span,
    },
    /// `drowse/status`
    Status {
        /// The request's id.
        id: Span,
    },
    /// `drowse/snapshot`
    Snapshot {
        /// The request's id.
        id: Span,
    },
    /// `drowse/close`
    Close {
        /// The request's id.
        id: Span,
    },
    /// `drowse/sync`, or `drowse/unsync`: the adapter keeps files equal to resources.
    Sync {
        /// The request's id.
        id: Span,
        /// Its parameters.
        params: Option<Span>,
        /// Or no more.
        on: bool,
    },
    /// `drowse/set`: the adapter reads it, and the server is kept otherwise from now on.
    Set {
        /// The request's id.
        id: Span,
        /// Its parameters.
        params: Option<Span>,
    },
    /// The client no longer wants the answer to that request.
    Cancel {
        /// The id of the request, raw.
        request: Span,
        /// Why, a JSON string, if it says that.
        reason: Option<Span>,
    },
    /// `initialize` of a legacy client: answered by drowse, see [`initialization`].
    Initialize {
        /// The request's id.
        id: Span,
        /// The revision that is spoken from now on.
        revision: Revision,
        /// Its `clientInfo`, an object.
        info: Option<Span>,
        /// What it can be asked for.
        capabilities: ClientCapabilities,
    },
    /// A legacy client has read that answer: it may be told of changed lists.
    Initialized,
    /// `ping` of a legacy client: answered by drowse, with an empty result.
    Ping {
        /// The request's id.
        id: Span,
    },
    /// `logging/setLevel` of a legacy client: answered with an empty result. [`Front::level`] is the new one.
    SetLevel {
        /// The request's id.
        id: Span,
    },
    /// `resources/subscribe`, or `resources/unsubscribe`, of a legacy client: attach a listener, or take it away.
    Subscribe {
        /// The request's id.
        id: Span,
        /// The resource, a JSON string.
        uri: Span,
        /// Or no more.
        on: bool,
    },
    /// A legacy client's answer to a request of drowse's.
    Answer {
        /// The id of that request.
        id: Span,
        /// What it says: the result, or the error.
        answer: Result<Span, Span>,
    },
    /// A legacy client tells how far it is with something that it is asked.
    Progress {
        /// The token that came with the question, raw.
        token: Span,
    },
    /// A batch of a legacy client: hand in each item, by [`Front::handle_item`], and answer them as one.
    Batch {
        /// The items, see [`envelope::batch`].
        items: Span,
    },
    /// Nothing to be done.
    Ignore,
    /// Answer with an error.
    Reject {
        /// The id to answer, if one was read.
        id: Option<Span>,
        /// What is wrong.
        rejection: Rejection,
    },
}

/// What is wrong with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Rejection {
    /// Not a message; the code is -32700 or -32600.
    Malformed(envelope::EnvelopeError),
    /// A batch: revision 2026-07-28 has none.
    Batch,
    /// `_meta` lacks a field that every request must have.
    MissingMeta(&'static str),
    /// A field of `_meta` is not the object that it must be.
    InvalidMeta(&'static str),
    /// The request is of a revision that is not served here; the span is what it asked for, raw.
    UnsupportedVersion(Span),
    /// There is no such method here.
    UnknownMethod,
    /// The filter of a subscription is none.
    InvalidFilter,
    /// It names tasks, and the client does not declare their extension.
    UndeclaredTasks,
    /// `initialize` came before, or anything else did.
    Opened,
    /// There is no such log level.
    InvalidLevel,
    /// `params.uri` is no string.
    InvalidUri,
}

impl Rejection {
    /// The JSON-RPC error code (basic/index, Error Codes).
    #[must_use]
    pub const fn code(&self) -> i32 {
        match self {
            Self::Malformed(error) => error.code(),
            Self::Batch | Self::Opened => -32600,
            Self::MissingMeta(_)
            | Self::InvalidMeta(_)
            | Self::InvalidFilter
            | Self::InvalidLevel
            | Self::InvalidUri => -32602,
            Self::UnsupportedVersion(_) => -32022,
            Self::UndeclaredTasks => -32021,
            Self::UnknownMethod => -32601,
        }
    }
}

impl core::fmt::Display for Rejection {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "not a valid message: {error}"),
            Self::Batch => {
                f.write_str("batches are not part of this revision of the protocol: send one message a line")
            }
            Self::MissingMeta(name) => {
                write!(f, "params._meta[\"{name}\"] is missing, and every request must have it")
            }
            Self::InvalidMeta(name) => write!(f, "params._meta[\"{name}\"] must be an object"),
            Self::UnsupportedVersion(_) => f.write_str("unsupported protocol version: send 2026-07-28"),
            Self::UnknownMethod => f.write_str("there is no such method here"),
            Self::InvalidFilter => f.write_str(
                "params.notifications must be an object of booleans, and resourceSubscriptions and taskIds arrays of strings",
            ),
            Self::UndeclaredTasks => f.write_str(
                "who wants to hear of tasks has to declare the extension io.modelcontextprotocol/tasks",
            ),
            Self::Opened => f.write_str("initialize is the first request of a connection, and comes once"),
            Self::InvalidLevel => f.write_str("params.level must be a log level, from debug to emergency"),
            Self::InvalidUri => f.write_str("params.uri must be a string"),
        }
    }
}

impl Front {
    /// A connection to the session itself, which begins with a hello.
    #[must_use]
    pub const fn new() -> Self {
        Self { asker: Asker::Command, state: State::Greeting, read: 0 }
    }

    /// A connection of a client of that kind, which begins with MCP.
    #[must_use]
    pub const fn of(asker: Asker) -> Self {
        let state = State::Open { verbatim: false, opened: Opened::NotYet };
        Self { asker, state, read: 0 }
    }

    /// A connection of a client of that kind, of which it is known that it is of the modern era.
    #[must_use]
    pub const fn modern(asker: Asker) -> Self {
        let state = State::Open { verbatim: false, opened: Opened::Modern };
        Self { asker, state, read: 0 }
    }

    /// How many requests were read on it.
    #[must_use]
    pub const fn read_count(&self) -> u64 {
        self.read
    }

    /// Whether it is begun, with a hello where one is due, and not over.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Whether its client knows drowse's own notifications: that of a goodbye, for instance.
    #[must_use]
    pub const fn knows_drowse(&self) -> bool {
        self.is_open() && matches!(self.asker, Asker::Command) && !self.is_legacy()
    }

    /// Whether results go to the client exactly as the server sent them.
    #[must_use]
    pub const fn is_verbatim(&self) -> bool {
        matches!(self.state, State::Open { verbatim: true, opened: Opened::Modern | Opened::NotYet })
    }

    /// Whether its client opened it in the legacy era.
    #[must_use]
    pub const fn is_legacy(&self) -> bool {
        self.legacy().is_some()
    }

    /// The revision that a legacy client speaks.
    #[must_use]
    pub const fn legacy(&self) -> Option<Revision> {
        match self.state {
            State::Open { opened: Opened::Legacy { revision, .. }, .. } => Some(revision),
            _ => None,
        }
    }

    /// Whether a legacy client said that it is ready.
    #[must_use]
    pub const fn is_initialized(&self) -> bool {
        matches!(self.state, State::Open { opened: Opened::Legacy { initialized: true, .. }, .. })
    }

    /// Whether the server is kept awake for as long as this connection is there: its client has a session, and is on a front
    /// whose clients come and go otherwise (see [`Asker::defers`]).
    #[must_use]
    pub const fn defers(&self) -> bool {
        self.asker.defers() && self.is_legacy()
    }

    /// Whether its client is a stranger to the session: one who is not to see more of its surroundings than the protocol
    /// shows.
    #[must_use]
    pub const fn is_outside(&self) -> bool {
        matches!(self.asker, Asker::ProxyPort)
    }

    /// The log level that a legacy client has set.
    #[must_use]
    pub const fn level(&self) -> Option<Level> {
        match self.state {
            State::Open { opened: Opened::Legacy { level, .. }, .. } => level,
            _ => None,
        }
    }

    /// Whether a log message that belongs to no request of its own is for a legacy client. One that has set no level
    /// leaves it to the server (2025-11-25, server/utilities/logging).
    #[must_use]
    pub fn hears(&self, of: Level) -> bool {
        self.is_legacy() && self.level().is_none_or(|level| of >= level)
    }

    /// The era that its client speaks.
    #[must_use]
    pub const fn era(&self) -> Era {
        if self.is_legacy() { Era::Legacy } else { Era::Modern }
    }

    /// Whether a request of its client means something to a server of that era. Tasks are not the same in the two, and
    /// drowse's own commands know those of either.
    #[must_use]
    pub fn reaches(&self, method: Method, server: Era) -> bool {
        method != Method::Tasks || self.era() == server || self.knows_drowse()
    }

    /// Whether a request that its client cancelled is answered all the same: nobody else expects that
    /// (basic/patterns/cancellation).
    #[must_use]
    pub const fn answers_cancelled(&self) -> bool {
        self.knows_drowse()
    }

    /// Goodbye was said: whatever comes now is not read.
    pub const fn close(&mut self) {
        self.state = State::Closed;
    }

    /// Takes back that a request was read: it waits for room, and comes again.
    pub const fn unread(&mut self) {
        self.read = self.read.saturating_sub(1);
    }

    /// Reads a line. `default` is what a request may take that says nothing of it.
    pub fn handle_frame(&mut self, frame: &[u8], default: Allowance) -> Inbound {
        if self.state == State::Greeting {
            return self.greet(frame);
        }
        self.handle(frame, default, true)
    }

    /// The same for a line that was read before as `message`, of a connection without a hello.
    pub fn handle_message(&mut self, frame: &[u8], message: &Message, default: Allowance) -> Inbound {
        self.handle_read(frame, Ok(*message), default, true)
    }

    /// Reads an item of a batch.
    pub fn handle_item(&mut self, item: &[u8], default: Allowance) -> Inbound {
        self.handle(item, default, false)
    }

    fn handle(&mut self, frame: &[u8], default: Allowance, whole: bool) -> Inbound {
        if !self.is_open() {
            return Inbound::Ignore;
        }
        self.handle_read(frame, envelope::read(frame), default, whole)
    }

    fn handle_read(
        &mut self,
        frame: &[u8],
        read: Result<Message, envelope::EnvelopeError>,
        default: Allowance,
        whole: bool,
    ) -> Inbound {
        let State::Open { opened, .. } = &mut self.state else { return Inbound::Ignore };
        let inbound = match read {
            Ok(message) => opened.read(frame, &message, self.asker, default, whole),
            Err(error) if error.is_response && error.id.is_some() => Inbound::Ignore,
            Err(error) => Inbound::Reject { id: error.id, rejection: Rejection::Malformed(error) },
        };
        let counts = !matches!(
            inbound,
            Inbound::Cancel { .. }
                | Inbound::Ignore
                | Inbound::Initialized
                | Inbound::Answer { .. }
                | Inbound::Progress { .. }
                | Inbound::Batch { .. }
        );
        self.read = self.read.saturating_add(u64::from(counts));
        inbound
    }

    fn greet(&mut self, frame: &[u8]) -> Inbound {
        let drowse = json::scan(frame)
            .ok()
            .filter(|line| json::is_object(line.of(frame)))
            .and_then(|line| object(frame, line, "drowse"));
        if drowse.is_some_and(|drowse| object(frame, drowse, "leave").is_some()) {
            self.state = State::Closed;
            return Inbound::Leave;
        }
        let Some(hello) = drowse.and_then(|drowse| object(frame, drowse, "hello")) else {
            self.state = State::Closed;
            return Inbound::Refused;
        };
        let spoken = json::member(frame, hello, "versions").is_some_and(|versions| {
            json::is_array(versions.of(frame))
                && json::elements(frame, versions)
                    .any(|version| json::as_u64(version.of(frame)) == Some(HELLO_VERSION))
        });
        if !spoken {
            self.state = State::Closed;
            return Inbound::Refused;
        }
        let verbatim = json::member(frame, hello, "verbatim").is_some_and(|span| span.of(frame) == b"true");
        self.state = State::Open { verbatim, opened: Opened::NotYet };
        let principal =
            json::member(frame, hello, "principal").filter(|span| json::is_string(span.of(frame)));
        Inbound::Hello { principal }
    }
}

fn object(frame: &[u8], parent: Span, name: &str) -> Option<Span> {
    json::member(frame, parent, name).filter(|span| json::is_object(span.of(frame)))
}

impl Opened {
    fn read(
        &mut self,
        frame: &[u8],
        message: &Message,
        asker: Asker,
        default: Allowance,
        whole: bool,
    ) -> Inbound {
        match self {
            Self::Legacy { revision, level, initialized } => match *message {
                Message::Batch { items } if whole && legacy::has_batches(*revision) => {
                    Inbound::Batch { items }
                }
                _ => legacy::read(frame, message, asker, level, initialized),
            },
            Self::Modern => modern::read(frame, message, asker, default),
            Self::NotYet => {
                if let Some(opening) = legacy::open(frame, message) {
                    if let Inbound::Initialize { revision, .. } = opening {
                        *self = Self::Legacy { revision, level: None, initialized: false };
                    }
                    return opening;
                }
                let inbound = modern::read(frame, message, asker, default);
                let is_request = matches!(message, Message::Request { .. });
                // Who only asks which versions there are may still choose the other era.
                if is_request && !matches!(inbound, Inbound::Reject { .. } | Inbound::Discover { .. }) {
                    *self = Self::Modern;
                }
                inbound
            }
        }
    }
}

/// A request that may go to the server: at once, or only if it is up.
fn for_server(
    rule: &Rule,
    operation: Operation,
    parts: RequestParts,
    token: Option<Span>,
) -> Option<Inbound> {
    match (rule.starts, rule.counts) {
        (Starts::Yes, _) => Some(Inbound::Operation { operation, parts, token }),
        (_, Counts::IfPassedOn) => Some(Inbound::List { operation, parts, token }),
        _ => None,
    }
}

/// What a notification cancels.
fn cancelled(frame: &[u8], params: Option<Span>) -> Option<Inbound> {
    let member = |name| json::member(frame, params?, name);
    let request = member("requestId").filter(|request| envelope::is_id(request.of(frame)))?;
    let reason = member("reason").filter(|reason| json::is_string(reason.of(frame)));
    Some(Inbound::Cancel { request, reason })
}
