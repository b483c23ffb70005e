//! Clients that come over HTTP: what a request is, or why it is refused (basic/transports/streamable-http of 2026-07-28,
//! and basic/transports of 2025-03-26 to 2025-11-25).
//!
//! Nothing here reads or writes a socket. An adapter hands in what it knows of a request, in this order:
//!
//! 1. its headers, to the [`Gate`]: whether its sender may come in at all;
//! 2. its headers again, to [`Post::read`] or [`Get::read`]: what it wants of the endpoint;
//! 3. of a POST the body, to [`Post::route`]: which era it is of, and where it goes;
//! 4. of a modern one all together, to [`mirror::check`]: whether headers and body say the same.
//!
//! What is refused is a [`Refusal`], with its status and a message of JSON-RPC for the body. [`sessions`] are those of
//! the legacy era, and [`events`] what a client may ask for again that lost a stream. [`bodies`], [`answers`] and [`turns`]
//! bound what clients may take that send much, take nothing, or do nothing; [`pages`] is what browsers are told.

pub mod answers;
pub mod bodies;
pub mod events;
pub mod gate;
pub mod media;
pub mod mirror;
pub mod pages;
pub mod refusal;
pub mod sessions;
pub mod turns;

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod properties;
#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod tests;

pub use self::gate::Gate;
pub use self::refusal::{Header, Limit, Refusal};

use super::legacy;
use crate::envelope::{self, Known, Message};
use crate::era::{Era, Revision};
use crate::json;
use crate::method::Method;
use crate::span::Span;
use crate::splice::RequestParts;
use crate::time::Duration;

/// The revision of a request that names none (2025-11-25, basic/transports, Protocol Version Header).
pub const UNNAMED: Revision = Revision::V2025_03_26;

/// The headers of a request.
pub trait Headers {
    /// The values of all headers of that name, which is in lower case.
    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]>;
}

impl Headers for [(&str, &[u8])] {
    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

/// The value of a header that comes once at most, without the blanks around it.
fn single(headers: &(impl Headers + ?Sized), header: Header) -> Result<Option<&[u8]>, Refusal> {
    let mut values = headers.all(header.name());
    match (values.next(), values.next()) {
        (first, None) => Ok(first.map(<[u8]>::trim_ascii)),
        _ => Err(Refusal::Repeated(header)),
    }
}

/// How much of everything there may be, and how long it may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// The longest body, in bytes.
    pub body: usize,
    /// What all bodies hold together, in bytes.
    pub bodies: usize,
    /// Sessions of legacy clients at once.
    pub sessions: usize,
    /// Streams and requests of one session at once.
    pub streams: usize,
    /// What may wait for a client that does not read its stream, in bytes.
    pub unread: usize,
    /// What all long messages take together that clients have yet to take, in bytes.
    pub answers: usize,
    /// What is kept of a session's streams for clients that lost one, in bytes.
    pub events: usize,
    /// A session that nobody uses ends after that.
    pub idle: Duration,
    /// The head of a request has to be there within that. A connection that waits for the next one is over then, too.
    pub head: Duration,
    /// The body of a request has to be there within that.
    pub body_time: Duration,
    /// A connection whose client takes nothing for that long is over.
    pub stalled: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            body: 64 << 20,
            bodies: 256 << 20,
            sessions: 256,
            streams: 64,
            unread: 8 << 20,
            answers: 256 << 20,
            events: 1 << 20,
            idle: Duration::from_secs(30 * 60),
            head: Duration::from_secs(30),
            body_time: Duration::from_secs(60),
            stalled: Duration::from_secs(30),
        }
    }
}

/// When an answer becomes a stream, and what happens on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pace {
    /// An answer that is there by then goes as one JSON object, with a status of its own.
    pub patience: Duration,
    /// The same for legacy clients. What takes longer goes on a stream that can be resumed.
    pub legacy_patience: Duration,
    /// A stream on which nothing goes has a comment that often.
    pub keep_alive: Duration,
    /// A resumable stream is closed after that, and its client comes again for the rest; `None`: never.
    pub hold: Option<Duration>,
    /// When a client that lost a stream is to come again, as the stream says.
    pub retry: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(10),
            legacy_patience: Duration::from_millis(50),
            keep_alive: Duration::from_secs(15),
            hold: None,
            retry: Duration::from_secs(1),
        }
    }
}

/// What a client can read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Accepts {
    /// One JSON object, and a stream.
    Both,
    /// The same, with the stream named first: in a session, where a stream can be resumed, it gets one.
    StreamFirst,
    /// One JSON object: what comes before the answer cannot be told.
    Json,
    /// A stream only.
    Stream,
}

/// What `MCP-Protocol-Version` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version<'h> {
    /// There is none.
    Absent,
    /// A revision that is spoken here.
    Known(Revision),
    /// Something else.
    Unknown(&'h [u8]),
}

impl<'h> Version<'h> {
    fn read(headers: &'h (impl Headers + ?Sized)) -> Result<Self, Refusal> {
        Ok(match single(headers, Header::ProtocolVersion)? {
            None => Self::Absent,
            Some(value) => core::str::from_utf8(value)
                .ok()
                .and_then(Revision::from_name)
                .map_or(Self::Unknown(value), Self::Known),
        })
    }

    /// Whether it names a revision of the modern era.
    #[must_use]
    pub fn is_modern(self) -> bool {
        matches!(self, Self::Known(revision) if revision.era() == Era::Modern)
    }

    /// Whether it is a legacy revision, or none. A session's client may leave it out.
    const fn fits_legacy(self) -> bool {
        match self {
            Self::Absent => true,
            Self::Known(revision) => matches!(revision.era(), Era::Legacy),
            Self::Unknown(_) => false,
        }
    }
}

/// The era of whoever sent a request, as far as its headers tell.
#[must_use]
pub fn era(headers: &(impl Headers + ?Sized)) -> Era {
    let is_modern = Version::read(headers).is_ok_and(Version::is_modern);
    if is_modern { Era::Modern } else { Era::Legacy }
}

/// The headers of a POST.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Post<'h> {
    /// What its client can read.
    pub accepts: Accepts,
    /// The session that it names.
    pub session: Option<&'h [u8]>,
    /// The revision that it names.
    pub version: Version<'h>,
}

/// Where a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route<'h> {
    /// It is of the modern era, and stands for itself.
    Modern,
    /// It is the `initialize` of a legacy client: a session begins.
    Begin,
    /// It belongs to that session.
    Session(&'h [u8]),
}

impl<'h> Post<'h> {
    /// Reads the headers of a POST.
    ///
    /// # Errors
    /// If its body is not JSON, or its client reads none of the two kinds of answers.
    pub fn read(headers: &'h (impl Headers + ?Sized)) -> Result<Self, Refusal> {
        media::check(headers)?;
        let accepts = Accepts::read(headers).ok_or(Refusal::NotAcceptable)?;
        Ok(Self { accepts, session: single(headers, Header::Session)?, version: Version::read(headers)? })
    }

    /// Where the message in its body goes.
    ///
    /// # Errors
    /// If it is of no revision or era that can be told, or comes without the session that it needs.
    pub fn route(&self, frame: &[u8], message: &Message) -> Result<Route<'h>, Refusal> {
        let parts = RequestParts::of(message);
        let says = parts.and_then(|parts| parts.value(Known::ProtocolVersion));
        if let (None, Version::Unknown(_)) = (says, self.version) {
            // Nothing tells of which era it is.
            return Err(Refusal::Version);
        }
        if says.is_some() || !self.version.fits_legacy() {
            return match message {
                Message::Request { .. } | Message::Notification { .. } => Ok(Route::Modern),
                Message::Batch { .. } => Err(Refusal::Batch),
                Message::Response { .. } | Message::Error { .. } => Err(Refusal::Response),
            };
        }
        let begins =
            parts.is_some_and(|parts| Method::from_json(parts.method.of(frame)) == Method::Initialize);
        match self.session {
            Some(session) => Ok(Route::Session(session)),
            None if begins => Ok(Route::Begin),
            None => Err(Refusal::NoSession),
        }
    }
}

/// The headers of a GET, or of a DELETE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Get<'h> {
    /// The session that it names.
    pub session: &'h [u8],
    /// The event after which its stream goes on.
    pub last: Option<&'h [u8]>,
}

impl<'h> Get<'h> {
    /// Reads the headers of a GET, or of a DELETE if it `ends` the session.
    ///
    /// # Errors
    /// If there is no such thing in the era of the request, or it does not say of which session.
    pub fn read(headers: &'h (impl Headers + ?Sized), ends: bool) -> Result<Self, Refusal> {
        let session = single(headers, Header::Session)?;
        match Version::read(headers)? {
            Version::Absent if session.is_none() => return Err(Refusal::Method),
            Version::Absent => {}
            Version::Known(revision) if revision.era() == Era::Modern => return Err(Refusal::Method),
            Version::Known(_) => {}
            Version::Unknown(_) => return Err(Refusal::Version),
        }
        if !ends && matches!(Accepts::read(headers), Some(Accepts::Json) | None) {
            return Err(Refusal::NotAcceptable);
        }
        let last = single(headers, Header::LastEventId)?.filter(|last| !last.is_empty());
        Ok(Self { session: session.ok_or(Refusal::NoSession)?, last })
    }
}

/// The status of an answer to a modern request, a message, that goes as one JSON object.
#[must_use]
pub fn status(answer: &[u8]) -> u16 {
    // Results are long and errors short: a result is not read, only found.
    let start = answer.len().saturating_sub(answer.trim_ascii_start().len());
    let Some(error) = json::member_unless(answer, Span::new(start, answer.len()), "error", "result") else {
        return 200;
    };
    match json::member(answer, error, "code").and_then(|code| json::as_i64(code.of(answer))) {
        Some(-32601) => 404,
        Some(-32022..=-32020 | -32700 | -32600) => 400,
        _ => 200,
    }
}

/// Whether a session of that revision takes such a message.
///
/// # Errors
/// If it is a batch, and the revision has none: an answer to it would name none of its requests.
pub fn fits(revision: Option<Revision>, message: &Message) -> Result<(), Refusal> {
    match message {
        Message::Batch { .. } if !revision.is_some_and(legacy::has_batches) => Err(Refusal::Batch),
        _ => Ok(()),
    }
}

/// The ids of the requests in a body: those that get answers.
pub fn requests<'f>(frame: &'f [u8], message: &Message) -> impl Iterator<Item = Span> + use<'f> {
    let (one, items) = match *message {
        Message::Request { id, .. } => (Some(id), None),
        Message::Batch { items } => (None, Some(items)),
        _ => (None, None),
    };
    let of_batch =
        items.into_iter().flat_map(move |items| envelope::batch(frame, items)).filter_map(move |item| {
            match envelope::read(item.of(frame)) {
                Ok(Message::Request { id, .. }) => {
                    let start = item.start().saturating_add(id.start());
                    Some(Span::new(start, start.saturating_add(id.len())))
                }
                _ => None,
            }
        });
    one.into_iter().chain(of_batch)
}
