//! Why a request over HTTP is refused: for people, and as what a client is told.

use core::fmt::{self, Write};

use crate::envelope::EnvelopeError;
use crate::era::Era;
use crate::json;
use crate::message::Writer;
use crate::span::Span;

/// A header that is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Header {
    /// `Host`
    Host,
    /// `Origin`
    Origin,
    /// `Authorization`
    Authorization,
    /// `Content-Type`
    ContentType,
    /// `Content-Encoding`
    ContentEncoding,
    /// `Transfer-Encoding`
    TransferEncoding,
    /// `Accept`
    Accept,
    /// `Access-Control-Request-Method`
    RequestMethod,
    /// `Access-Control-Request-Headers`
    RequestHeaders,
    /// `MCP-Protocol-Version`
    ProtocolVersion,
    /// `Mcp-Session-Id`
    Session,
    /// `Last-Event-ID`
    LastEventId,
    /// `Mcp-Method`
    Method,
    /// `Mcp-Name`
    Name,
    /// `Mcp-Param-*`
    Param,
}

impl Header {
    /// Its name in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Origin => "origin",
            Self::Authorization => "authorization",
            Self::ContentType => "content-type",
            Self::ContentEncoding => "content-encoding",
            Self::TransferEncoding => "transfer-encoding",
            Self::Accept => "accept",
            Self::RequestMethod => "access-control-request-method",
            Self::RequestHeaders => "access-control-request-headers",
            Self::ProtocolVersion => "mcp-protocol-version",
            Self::Session => "mcp-session-id",
            Self::LastEventId => "last-event-id",
            Self::Method => "mcp-method",
            Self::Name => "mcp-name",
            Self::Param => "mcp-param-*",
        }
    }

    /// Whether a modern client repeats in it what the body says.
    const fn is_mirror(self) -> bool {
        matches!(self, Self::ProtocolVersion | Self::Method | Self::Name | Self::Param)
    }
}

/// Of what there is too much.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Limit {
    /// The body is longer than that, in bytes.
    Body(usize),
    /// As many bytes of bodies are held as may be.
    Bodies(usize),
    /// As many sessions as there may be are open.
    Sessions(usize),
    /// The session has as many streams and requests as it may have.
    Streams(usize),
    /// The body did not come in time.
    BodyTime,
}

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Refusal {
    /// `Host` names none of the hosts that this is, or is missing.
    Host,
    /// `Origin` names a site whose pages may not come in.
    Origin,
    /// There is no token, or a wrong one.
    Unauthorized,
    /// There is no such method of HTTP here, or not for this era.
    Method,
    /// The body is no JSON.
    ContentType,
    /// The body is JSON of another charset than UTF-8.
    Charset,
    /// The body is packed.
    ContentEncoding,
    /// The body is packed, or otherwise encoded, on its way.
    TransferEncoding,
    /// The client reads neither JSON nor a stream.
    NotAcceptable,
    /// A header comes twice that may come once.
    Repeated(Header),
    /// There is too much of something.
    Limit(Limit),
    /// The body is no message; the code is -32700 or -32600.
    Malformed(EnvelopeError),
    /// The body broke off: it is shorter than its head says, or its chunks are none.
    Incomplete,
    /// The body is a batch, and the revision has none.
    Batch,
    /// The body is an answer, and clients of the revision do not send any.
    Response,
    /// No session is named, and one is needed.
    NoSession,
    /// There is no such session, or it is over.
    UnknownSession,
    /// `MCP-Protocol-Version` names no revision that is spoken here.
    Version,
    /// A header is missing that must be there.
    Missing(Header),
    /// A header does not say what the body says.
    Mismatch(Header),
    /// `_meta` lacks a field that every request must have.
    MissingMeta(&'static str),
    /// A field of `_meta` is not the object that it must be.
    InvalidMeta(&'static str),
    /// The request is of a revision that is not served here; the span is what it asked for, raw.
    UnsupportedVersion(Span),
    /// There is no such method of MCP in this era.
    UnknownMethod,
    /// A request with this id is under way in the session.
    IdInUse,
    /// The stream of `Last-Event-ID` is not known any more, or what came after it is not.
    UnknownEvent,
    /// Everything ends: nothing is accepted any more.
    Closing,
}

impl Refusal {
    /// The status of the response.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::Host | Self::Origin => 403,
            Self::Unauthorized => 401,
            Self::Method => 405,
            Self::ContentType | Self::Charset | Self::ContentEncoding => 415,
            Self::TransferEncoding => 501,
            Self::NotAcceptable => 406,
            Self::Limit(Limit::Body(_)) => 413,
            Self::Limit(Limit::BodyTime) => 408,
            Self::Limit(Limit::Sessions(_) | Limit::Bodies(_)) | Self::Closing => 503,
            Self::Limit(Limit::Streams(_)) => 429,
            Self::UnknownSession | Self::UnknownMethod => 404,
            Self::Repeated(_)
            | Self::Malformed(_)
            | Self::Incomplete
            | Self::Batch
            | Self::Response
            | Self::NoSession
            | Self::Version
            | Self::Missing(_)
            | Self::Mismatch(_)
            | Self::MissingMeta(_)
            | Self::InvalidMeta(_)
            | Self::UnsupportedVersion(_)
            | Self::IdInUse
            | Self::UnknownEvent => 400,
        }
    }

    /// The code of the error in its body.
    #[must_use]
    pub const fn code(&self) -> i32 {
        match self {
            Self::Malformed(error) => error.code(),
            Self::Repeated(header) if header.is_mirror() => -32020,
            Self::Missing(_) | Self::Mismatch(_) => -32020,
            Self::MissingMeta(_) | Self::InvalidMeta(_) => -32602,
            Self::UnsupportedVersion(_) => -32022,
            Self::UnknownMethod => -32601,
            Self::Batch | Self::Response | Self::IdInUse => -32600,
            _ => -32000,
        }
    }

    /// In how many seconds the same may be tried again, if that helps.
    #[must_use]
    pub const fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Limit(Limit::Sessions(_)) => Some(30),
            Self::Limit(Limit::Streams(_) | Limit::Bodies(_)) => Some(1),
            _ => None,
        }
    }

    /// Writes the error of JSON-RPC that is the response's body. `id` is that of the request, raw, and `frame` its body; who
    /// reads it is a client of that `era`.
    pub fn write(&self, w: &mut Writer<'_>, id: Option<&[u8]>, frame: &[u8], era: Era) {
        w.raw(br#"{"jsonrpc":"2.0","#);
        // An id that could not be read is left out (2026-07-28, schema, JSONRPCErrorResponse); before, it was null.
        if id.is_some() || era == Era::Legacy {
            w.raw(br#""id":"#);
            w.raw(id.unwrap_or(b"null"));
            w.raw(b",");
        }
        w.raw(br#""error":{"code":"#);
        w.signed(i64::from(self.code()));
        w.raw(br#","message":"#);
        let mut text: heapless::String<256> = heapless::String::new();
        // What does not fit is left out.
        let _ = write!(text, "{self}");
        w.string(&text);
        if let Self::UnsupportedVersion(requested) = self {
            let requested = requested.of(frame);
            w.raw(br#","data":{"supported":["2026-07-28"],"requested":"#);
            w.raw(if json::is_string(requested) { requested } else { b"null" });
            w.raw(b"}");
        }
        w.raw(b"}}");
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => {
                f.write_str("the Host header names no host that is served here: allow it by its name")
            }
            Self::Origin => f.write_str("pages of that Origin may not come in: allow it by its name"),
            Self::Unauthorized => {
                f.write_str("a valid bearer token is needed: send Authorization: Bearer TOKEN")
            }
            Self::Method => f.write_str(
                "this endpoint takes POST; GET and DELETE only with the Mcp-Session-Id of a session",
            ),
            Self::ContentType => {
                f.write_str("the body must be application/json, and Content-Type must say so")
            }
            Self::Charset => f.write_str("JSON is UTF-8: send the body in it, and no other charset"),
            Self::ContentEncoding => {
                f.write_str("the body is packed: send it as it is, without Content-Encoding")
            }
            Self::TransferEncoding => {
                f.write_str("the body is encoded on its way: send it as it is, or in chunks")
            }
            Self::NotAcceptable => f.write_str(
                "Accept must name application/json and text/event-stream, or for a GET the latter",
            ),
            Self::Repeated(header) => write!(f, "the header {} must come once", header.name()),
            Self::Limit(Limit::Body(bytes)) => {
                write!(f, "the body is longer than the limit of {bytes} bytes: send less")
            }
            Self::Limit(Limit::Bodies(bytes)) => {
                write!(f, "the bodies of all requests take {bytes} bytes, the limit: try again later")
            }
            Self::Limit(Limit::BodyTime) => f.write_str("the body did not come in time"),
            Self::Limit(Limit::Sessions(count)) => {
                write!(f, "all {count} sessions are in use: end some, or try again later")
            }
            Self::Limit(Limit::Streams(count)) => {
                write!(f, "the session has {count} streams and requests under way: end some first")
            }
            Self::Malformed(error) if error.code() == -32700 => {
                write!(f, "the body is not valid JSON: {error}")
            }
            Self::Malformed(error) => write!(f, "the body is no message of JSON-RPC 2.0: {error}"),
            Self::Incomplete => f.write_str("the body is not complete: send all that its head says"),
            Self::Batch => f.write_str(
                "batches are not part of this revision of the protocol: send one message a request",
            ),
            Self::Response => {
                f.write_str("clients of this revision send requests and notifications, and no responses")
            }
            Self::NoSession => f.write_str("an Mcp-Session-Id is needed: send initialize first"),
            Self::UnknownSession => {
                f.write_str("there is no such session, or it has ended: send initialize again")
            }
            Self::Version => f.write_str(
                "MCP-Protocol-Version names no revision that is spoken here: send 2026-07-28, or in a session 2025-11-25, \
                 2025-06-18 or 2025-03-26",
            ),
            Self::Missing(header) => write!(f, "header mismatch: the header {} is missing", header.name()),
            Self::Mismatch(header) => {
                write!(f, "header mismatch: the header {} does not say what the body says", header.name())
            }
            Self::MissingMeta(name) => {
                write!(f, "params._meta[\"{name}\"] is missing, and every request must have it")
            }
            Self::InvalidMeta(name) => write!(f, "params._meta[\"{name}\"] must be an object"),
            Self::UnsupportedVersion(_) => f.write_str("unsupported protocol version: send 2026-07-28"),
            Self::UnknownMethod => f.write_str("there is no such method here"),
            Self::IdInUse => {
                f.write_str("a request with this id is under way in this session: take another one")
            }
            Self::UnknownEvent => f.write_str("what came after that Last-Event-ID is not known any more"),
            Self::Closing => f.write_str("drowse is about to end, and takes no more requests"),
        }
    }
}

impl core::error::Error for Refusal {}
