//! One HTTP exchange with a server: a POST, the GET stream of a legacy session, or its DELETE.
//!
//! The adapter's loop, for each exchange on its own:
//!
//! 1. make an [`Exchange`], send the request;
//! 2. hand in what comes back: [`handle_head`](Exchange::handle_head), [`handle_event`](Exchange::handle_event),
//!    [`handle_body`](Exchange::handle_body), [`handle_end`](Exchange::handle_end), or
//!    [`handle_failure`](Exchange::handle_failure) where nothing comes;
//! 3. do what [`Next`] says, until it is [`Next::Over`]; a [`Verdict`] goes to
//!    [`crate::server::Server::handle_verdict`].
//!
//! Sources: basic/transports/streamable-http of revision 2026-07-28; basic/transports of 2025-11-25 (sessions,
//! resumption) and of 2024-11-05 (HTTP with SSE).

use crate::envelope::{self, Message};
use crate::era::Era;
use crate::json;
use crate::link::Ran;
use crate::method::Method;
use crate::negotiate::Question;
use crate::span::Span;
use crate::time::{Duration, Instant};

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;

/// How long a stream that ended is left alone before it is taken up again, unless the server says otherwise.
const RETRY: Duration = Duration::from_secs(1);
/// The shortest such pause: a server that ends its streams at once and wishes for none is not asked without end.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// The longest such pause, whatever the server says and however often it failed.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// How often in a row the resumption of a request's stream may bring nothing.
const FRUITLESS: u8 = 6;
/// How often a request that only reads is put again because the server said "later".
const AGAIN: u8 = 3;
/// The longest `Retry-After` that is waited for.
const AGAIN_MAX: Duration = Duration::from_secs(30);
/// How much of a body is looked at to see why a request was refused.
pub const INSPECT: usize = 64 << 10;

/// What an exchange carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Carried {
    /// A question of the negotiation.
    Question(Question),
    /// Any other request; a keepalive counts as [`Method::ServerPing`].
    Request(Method),
    /// A notification, or the answer to a request of the server.
    Message,
    /// The GET stream on which a legacy server says what belongs to no request.
    Listening,
    /// The stream of the transport of 2024-11-05, on which everything arrives.
    OldStream,
    /// The end of a session.
    Goodbye,
}

/// The link that an exchange belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Link {
    /// The era, once it is negotiated.
    pub era: Option<Era>,
    /// The request names a session that the server gave.
    pub session: bool,
    /// The transport is that of 2024-11-05: answers arrive on its one stream.
    pub old: bool,
}

/// The type of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Content {
    /// `application/json`, or one of its kind.
    Json,
    /// `text/event-stream`
    Events,
    /// None was named.
    Unnamed,
    /// Another one.
    Other,
}

impl Content {
    /// The type that a `Content-Type` header names.
    #[must_use]
    pub fn of(header: Option<&[u8]>) -> Self {
        let Some(header) = header else { return Self::Unnamed };
        let end = header.iter().position(|byte| *byte == b';').unwrap_or(header.len());
        let name = header.get(..end).unwrap_or_default().trim_ascii();
        let is_json = name.len() > 5
            && name.get(name.len().saturating_sub(5)..).is_some_and(|end| end.eq_ignore_ascii_case(b"+json"));
        if name.is_empty() {
            Self::Unnamed
        } else if name.eq_ignore_ascii_case(b"application/json") || is_json {
            Self::Json
        } else if name.eq_ignore_ascii_case(b"text/event-stream") {
            Self::Events
        } else {
            Self::Other
        }
    }
}

/// The beginning of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// The type of its body.
    pub content: Content,
    /// The body is compressed, though nobody asked for that.
    pub encoded: bool,
    /// `Retry-After`, if it gives seconds.
    pub retry_after: Option<Duration>,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Next {
    /// Read the whole body and hand it in as one message; then [`Exchange::handle_end`].
    Message,
    /// Read the body as events: each goes to [`Exchange::handle_event`], its data is a message; at the end of the body
    /// [`Exchange::handle_end`].
    Events,
    /// Read at most [`INSPECT`] bytes of the body, and hand them to [`Exchange::handle_body`].
    Inspect,
    /// Send the same request again at that time.
    Again {
        /// When.
        at: Instant,
    },
    /// Ask for the rest of the stream at that time: a GET, with `Last-Event-ID` if there was one.
    Resume {
        /// When.
        at: Instant,
    },
    /// The body holds an error that answers the request, as a span of it: hand it in as a frame under the request's own
    /// id, see [`error_answer`]. Then it is over, with [`Verdict::Done`].
    Answer {
        /// The error object.
        error: Span,
    },
    /// It is over.
    Over(Verdict),
}

/// What came of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Verdict {
    /// It did what it was for: the answer came, or the message was taken.
    Done,
    /// The server knows the session no more.
    Expired {
        /// Whether this request may have run.
        ran: Ran,
    },
    /// The server refused the credentials; nothing ran.
    Unauthorized,
    /// No connection: nothing ran.
    Unreachable,
    /// The connection broke before the answer came: the request may have run.
    Broken,
    /// A status that is no answer.
    Refused {
        /// The status.
        status: u16,
        /// Whether the request may have run.
        ran: Ran,
    },
    /// What came is no answer: another type of content, a message of another request, nothing.
    Invalid,
    /// There is no such stream at this server.
    NoStream,
}

/// The machine of one exchange.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    carried: Carried,
    link: Link,
    /// An event had an id, so that the stream can be taken up where it broke.
    resumable: bool,
    /// The request itself was taken: what follows is only the rest of its stream.
    resuming: bool,
    /// The stream that belongs to no request was there.
    opened: bool,
    retry: Option<Duration>,
    fruitless: u8,
    again: u8,
    status: u16,
}

impl Exchange {
    /// An exchange whose request is about to be sent.
    #[must_use]
    pub const fn new(carried: Carried, link: Link) -> Self {
        Self {
            carried,
            link,
            resumable: false,
            resuming: false,
            opened: false,
            retry: None,
            fruitless: 0,
            again: 0,
            status: 0,
        }
    }

    /// What it carries.
    #[must_use]
    pub const fn carried(&self) -> Carried {
        self.carried
    }

    /// A response began.
    pub fn handle_head(&mut self, now: Instant, head: &Head) -> Next {
        self.status = head.status;
        if self.carried == Carried::Goodbye {
            // 405 means that sessions end by themselves there.
            return Next::Over(Verdict::Done);
        }
        match head.status {
            200..=299 => self.handle_success(head),
            // Of what is being taken up the server has run what it has run.
            401 | 403 if !self.resuming || self.is_stream() => Next::Over(Verdict::Unauthorized),
            429 | 503 if self.may_ask_again(head) => {
                self.again += 1;
                Next::Again { at: now.after(head.retry_after.unwrap_or(RETRY)) }
            }
            status if self.is_stream() => match status {
                // One that was never there says nothing of the session: many servers have no GET at all.
                404 if self.link.session && self.opened => Next::Over(Verdict::Expired { ran: Ran::Unknown }),
                400 if self.link.session && self.opened && !head.encoded => Next::Inspect,
                429 | 500..=599 => self.take_up(now, Verdict::NoStream),
                _ if self.carried == Carried::OldStream => self.refused(),
                // The session may be gone: whoever asks next will be told.
                _ => Next::Over(Verdict::NoStream),
            },
            // The stream cannot be taken up; what was asked may have run.
            404 if self.resuming && self.link.session => Next::Over(Verdict::Expired { ran: Ran::Unknown }),
            429 | 500..=599 if self.resuming => self.take_up(now, Verdict::Broken),
            _ if self.resuming => Next::Over(Verdict::Broken),
            400..=599 if !head.encoded => Next::Inspect,
            _ => self.refused(),
        }
    }

    fn handle_success(&mut self, head: &Head) -> Next {
        match self.carried {
            Carried::Message | Carried::Goodbye => Next::Over(Verdict::Done),
            Carried::Listening | Carried::OldStream => match head.content {
                Content::Events if !head.encoded => {
                    self.opened = true;
                    Next::Events
                }
                _ => Next::Over(Verdict::NoStream),
            },
            // The answer comes on the stream.
            Carried::Question(_) | Carried::Request(_) if self.link.old && !self.resuming => {
                Next::Over(Verdict::Done)
            }
            Carried::Question(_) | Carried::Request(_) => match head.content {
                _ if head.encoded => Next::Over(Verdict::Invalid),
                Content::Events => {
                    // It can be asked: polling is what such servers want.
                    self.fruitless = 0;
                    Next::Events
                }
                Content::Json | Content::Unnamed if !self.resuming => Next::Message,
                _ => Next::Over(Verdict::Invalid),
            },
        }
    }

    /// An event arrived. `id`: it had one that can be sent back. `retry`: the pause it asks for.
    pub const fn handle_event(&mut self, id: bool, retry: Option<Duration>) {
        self.resumable |= id;
        if retry.is_some() {
            self.retry = retry;
        }
        self.fruitless = 0;
    }

    /// The body has ended, or the connection broke in the middle of it. `answered`: nothing waits for an answer to this
    /// request any more.
    pub fn handle_end(&mut self, now: Instant, answered: bool) -> Next {
        match self.carried {
            Carried::Question(_) | Carried::Request(_) if answered => Next::Over(Verdict::Done),
            Carried::Question(_) | Carried::Request(_)
                if self.resumable && self.link.era != Some(Era::Modern) =>
            {
                self.resuming = true;
                self.take_up(now, Verdict::Broken)
            }
            Carried::Question(_) | Carried::Request(_) => Next::Over(Verdict::Broken),
            Carried::Listening => {
                self.resuming = true;
                self.take_up(now, Verdict::NoStream)
            }
            // Everything that was asked there is lost with it.
            Carried::OldStream => Next::Over(Verdict::Expired { ran: Ran::Unknown }),
            Carried::Message | Carried::Goodbye => Next::Over(Verdict::Done),
        }
    }

    /// The whole body was handed in as a message. `answered`: it was the answer.
    pub const fn handle_message_end(&mut self, answered: bool) -> Next {
        Next::Over(if answered { Verdict::Done } else { Verdict::Invalid })
    }

    /// There is no response. `connected`: a connection was there, so that the request may have been written.
    pub fn handle_failure(&mut self, now: Instant, connected: bool) -> Next {
        match self.carried {
            Carried::Goodbye | Carried::Message => Next::Over(Verdict::Done),
            Carried::Listening => {
                self.resuming = true;
                self.take_up(now, Verdict::NoStream)
            }
            Carried::Question(_) | Carried::Request(_) if self.resuming => self.take_up(now, Verdict::Broken),
            _ if connected => Next::Over(Verdict::Broken),
            _ => Next::Over(Verdict::Unreachable),
        }
    }

    /// The beginning of the body of a refusal.
    pub fn handle_body(&mut self, body: &[u8]) -> Next {
        let status = self.status;
        let error = match envelope::read(body) {
            Ok(Message::Error { error, .. }) => Some(error),
            _ => None,
        };
        let code = error
            .and_then(|error| json::member(body, error, "code"))
            .and_then(|code| json::as_i64(code.of(body)));
        let legacy = self.link.era == Some(Era::Legacy);
        if legacy
            && self.link.session
            && match status {
                404 => code != Some(-32601),
                400 => !matches!(code, Some(-32700 | -32603..=-32601)) && says_session_is_gone(body),
                _ => false,
            }
        {
            return Next::Over(Verdict::Expired { ran: Ran::No });
        }
        match (self.carried, error) {
            (Carried::Question(_) | Carried::Request(_), Some(error)) => Next::Answer { error },
            (Carried::Message | Carried::Goodbye, _) => Next::Over(Verdict::Done),
            (Carried::Listening, _) => Next::Over(Verdict::NoStream),
            _ => self.refused(),
        }
    }

    const fn is_stream(&self) -> bool {
        matches!(self.carried, Carried::Listening | Carried::OldStream)
    }

    /// The server said "later", and asking twice does no harm.
    const fn may_ask_again(&self, head: &Head) -> bool {
        let reads = match self.carried {
            Carried::Question(_) => true,
            Carried::Request(method) => method.only_reads(),
            _ => false,
        };
        let soon = match head.retry_after {
            Some(pause) => pause.as_secs() <= AGAIN_MAX.as_secs(),
            None => false,
        };
        reads && !self.resuming && soon && self.again < AGAIN
    }

    const fn refused(&self) -> Next {
        let ran = match (self.carried, self.status) {
            // The method of HTTP was not taken, so the body was not either.
            (_, 405) => Ran::No,
            // Where else the question may be put is not followed; here it was not read.
            (_, 300..=399) => Ran::No,
            _ => Ran::Unknown,
        };
        Next::Over(Verdict::Refused { status: self.status, ran })
    }

    /// Takes a stream up again after a pause, unless that has been tried in vain too often.
    fn take_up(&mut self, now: Instant, otherwise: Verdict) -> Next {
        if self.fruitless >= FRUITLESS && self.carried != Carried::Listening {
            return Next::Over(otherwise);
        }
        // A pause that the server asked for is kept as it is, if it is one; ours grow.
        let base = self.retry.unwrap_or(RETRY).max(RETRY_MIN);
        let pause = match self.retry {
            Some(_) if self.fruitless == 0 => base,
            _ => base.saturating_mul(1 << self.fruitless.min(6)),
        };
        self.fruitless = self.fruitless.saturating_add(1).min(FRUITLESS);
        Next::Resume { at: now.after(pause.min(RETRY_MAX)) }
    }
}

/// Whether the text of a refusal names the session as what is missing. Servers say it in many words.
fn says_session_is_gone(body: &[u8]) -> bool {
    let has = |word: &[u8]| body.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word));
    has(b"session") || has(b"not initialized")
}

/// Writes the answer to a request that the server refused with an error under another id, or under none.
///
/// # Errors
/// If the buffer is too small: the error's length and 48 bytes are enough.
pub fn error_answer<'b>(
    wire: u64,
    error: &[u8],
    buffer: &'b mut [u8],
) -> Result<&'b [u8], crate::message::Overflow> {
    let mut w = crate::message::Writer::new(buffer);
    w.raw(br#"{"jsonrpc":"2.0","id":"#);
    w.number(wire);
    w.raw(br#","error":"#);
    w.raw(error);
    w.raw(b"}");
    w.finish()
}

/// Whether a redirection may be followed: to the same scheme, host and port. Credentials never go anywhere else.
///
/// Only what keeps method and body (307, 308) is followed at all.
#[must_use]
pub fn may_follow(status: u16, same_origin: bool) -> bool {
    matches!(status, 307 | 308) && same_origin
}
