//! A client's connection to drowse: the hello, what each line is, and how far the connection was read.
//!
//! Speaks modern MCP (2026-07-28) whatever the server's era. It decides what a line asks for; the adapter carries it
//! to [`crate::server::Server`] or answers it with the texts given here.

use heapless::Vec;

use crate::activity::{self, Asker, Starts};
use crate::envelope::{self, Message};
use crate::era::{Era, Revision};
use crate::json;
use crate::link::Allowance;
use crate::message;
use crate::method::Method;
use crate::relay::Filter;
use crate::server::Operation;
use crate::span::Span;
use crate::splice::RequestParts;
use crate::time::Duration;

/// The version of the hello that drowse speaks.
pub const HELLO_VERSION: u64 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Greeting,
    Open { verbatim: bool },
    Closed,
}

/// One connection.
#[derive(Clone, Copy, Debug)]
pub struct Front {
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
    /// The request is of a revision that is not served here; the span is what it asked for, raw.
    UnsupportedVersion(Span),
    /// There is no such method here.
    UnknownMethod,
    /// The filter of a subscription is none.
    InvalidFilter,
}

impl Rejection {
    /// The JSON-RPC error code (basic/index, Error Codes).
    #[must_use]
    pub const fn code(&self) -> i32 {
        match self {
            Self::Malformed(error) => error.code(),
            Self::Batch => -32600,
            Self::MissingMeta(_) | Self::InvalidFilter => -32602,
            Self::UnsupportedVersion(_) => -32022,
            Self::UnknownMethod => -32601,
        }
    }
}

impl core::fmt::Display for Rejection {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "not a valid message: {error}"),
            Self::Batch => {
                f.write_str("batches are not part of revision 2026-07-28: send one message a line")
            }
            Self::MissingMeta(name) => {
                write!(f, "params._meta[\"{name}\"] is missing, and every request must have it")
            }
            Self::UnsupportedVersion(_) => f.write_str("unsupported protocol version: send 2026-07-28"),
            Self::UnknownMethod => f.write_str("there is no such method here"),
            Self::InvalidFilter => f.write_str(
                "params.notifications must be an object of booleans, and resourceSubscriptions an array of strings",
            ),
        }
    }
}

impl Front {
    /// A connection that was just accepted.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: State::Greeting, read: 0 }
    }

    /// How many requests were read on it.
    #[must_use]
    pub const fn read_count(&self) -> u64 {
        self.read
    }

    /// Whether the hello was exchanged, so that a goodbye will be understood.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Whether results go to the client exactly as the server sent them.
    #[must_use]
    pub const fn is_verbatim(&self) -> bool {
        matches!(self.state, State::Open { verbatim: true })
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
        match self.state {
            State::Greeting => self.greet(frame),
            State::Open { .. } => {
                let inbound = read(frame, default);
                let counts = matches!(
                    inbound,
                    Inbound::Operation { .. }
                        | Inbound::Listen { .. }
                        | Inbound::Discover { .. }
                        | Inbound::Status { .. }
                        | Inbound::Snapshot { .. }
                        | Inbound::Close { .. }
                        | Inbound::Sync { .. }
                        | Inbound::Set { .. }
                        | Inbound::Reject { .. }
                );
                self.read = self.read.saturating_add(u64::from(counts));
                inbound
            }
            State::Closed => Inbound::Ignore,
        }
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
        self.state = State::Open { verbatim };
        let principal =
            json::member(frame, hello, "principal").filter(|span| json::is_string(span.of(frame)));
        Inbound::Hello { principal }
    }
}

fn object(frame: &[u8], parent: Span, name: &str) -> Option<Span> {
    json::member(frame, parent, name).filter(|span| json::is_object(span.of(frame)))
}

fn read(frame: &[u8], default: Allowance) -> Inbound {
    let message = match envelope::read(frame) {
        Ok(message) => message,
        Err(error) if error.is_response && error.id.is_some() => return Inbound::Ignore,
        Err(error) => return Inbound::Reject { id: error.id, rejection: Rejection::Malformed(error) },
    };
    match message {
        Message::Request { id, .. } => match RequestParts::of(&message) {
            Some(parts) => request(frame, parts, default),
            None => Inbound::Reject { id: Some(id), rejection: Rejection::UnknownMethod },
        },
        Message::Notification { method, params, .. } => {
            if json::str_eq(method.of(frame), "notifications/cancelled")
                && let Some(request) = params.and_then(|params| json::member(frame, params, "requestId"))
                && envelope::is_id(request.of(frame))
            {
                Inbound::Cancel { request }
            } else {
                Inbound::Ignore
            }
        }
        // A client never sends responses (basic/transports/stdio, Sending Messages).
        Message::Response { .. } | Message::Error { .. } => Inbound::Ignore,
        Message::Batch { .. } => Inbound::Reject { id: None, rejection: Rejection::Batch },
    }
}

fn request(frame: &[u8], parts: RequestParts, default: Allowance) -> Inbound {
    let id = parts.id;
    let reject = |rejection| Inbound::Reject { id: Some(id), rejection };
    let Some(version) = parts.meta(frame, message::META_PROTOCOL_VERSION) else {
        return reject(Rejection::MissingMeta(message::META_PROTOCOL_VERSION));
    };
    if Revision::from_json(version.of(frame)).is_none_or(|revision| revision.era() != Era::Modern) {
        return reject(Rejection::UnsupportedVersion(version));
    }
    if parts.meta(frame, message::META_CLIENT_CAPABILITIES).is_none() {
        return reject(Rejection::MissingMeta(message::META_CLIENT_CAPABILITIES));
    }
    let method = Method::from_json(parts.method.of(frame));
    match method {
        Method::Discover => Inbound::Discover { id },
        Method::Status => Inbound::Status { id },
        Method::Snapshot => Inbound::Snapshot { id },
        Method::Close => Inbound::Close { id },
        Method::Set => Inbound::Set { id, params: parts.params },
        Method::Sync | Method::Unsync => {
            Inbound::Sync { id, params: parts.params, on: method == Method::Sync }
        }
        Method::Listen => match Filter::read(frame, parts.params) {
            Some(filter) => {
                let names = filter.uris(frame).next().is_some();
                let starts = activity::rule(method, Asker::Command, names).starts == Starts::Yes;
                Inbound::Listen { id, filter, starts }
            }
            None => reject(Rejection::InvalidFilter),
        },
        // What the table says starts a server is what is carried to it.
        _ if activity::rule(method, Asker::Command, false).starts == Starts::Yes && is_carried(method) => {
            let allowance = parts
                .meta(frame, message::META_TIMEOUT)
                .and_then(|span| json::as_u64(span.of(frame)))
                .filter(|millis| *millis > 0)
                .map(|millis| {
                    // Its own time-out may be longer than the usual maximum: the caller knows what it asks for.
                    let quiet = Duration::from_millis(millis);
                    Allowance { quiet, total: default.total.max(quiet) }
                });
            let token = parts.meta(frame, message::META_PROGRESS_TOKEN);
            Inbound::Operation { operation: Operation { method, allowance }, parts, token }
        }
        _ => reject(Rejection::UnknownMethod),
    }
}

/// Whether this front carries the method: those of the legacy era are not among them.
const fn is_carried(method: Method) -> bool {
    !matches!(method, Method::Subscribe | Method::Unsubscribe | Method::Listen)
}

/// The result of `server/discover`, as slices to be written one after the other, from what the server said of itself
/// when it was negotiated (`handshake`, its result), or from nothing if it never ran.
///
/// Capabilities are those of the server.
#[must_use]
pub fn discovery(handshake: Option<&[u8]>) -> Vec<&[u8], 12> {
    let mut out: Vec<&[u8], 12> = Vec::new();
    let mut put = |bytes| {
        // Twelve slices are the most that are put below.
        let _ = out.push(bytes);
    };
    put(br#"{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private""#);
    let described = handshake.and_then(|bytes| json::scan(bytes).ok().map(|span| (bytes, span)));
    let found = |name: &str| {
        described.and_then(|(bytes, span)| json::member(bytes, span, name).map(|value| value.of(bytes)))
    };
    put(br#","capabilities":"#);
    put(found("capabilities").unwrap_or(br#"{"tools":{},"resources":{},"prompts":{},"completions":{}}"#));
    if let Some(instructions) = found("instructions") {
        put(br#","instructions":"#);
        put(instructions);
    }
    let info = found("serverInfo").or_else(|| {
        let (bytes, span) = described?;
        let meta = object(bytes, span, "_meta")?;
        json::member(bytes, meta, "io.modelcontextprotocol/serverInfo").map(|value| value.of(bytes))
    });
    if let Some(info) = info {
        put(br#","_meta":{"io.modelcontextprotocol/serverInfo":"#);
        put(info);
        put(b"}");
    }
    put(b"}");
    out
}

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod tests {
    use super::*;
    use std::format;
    use std::string::String;

    const DEFAULT: Allowance =
        Allowance { quiet: Duration::from_secs(300), total: Duration::from_secs(3600) };
    const HELLO: &[u8] =
        br#"{"drowse":{"hello":{"versions":[1],"principal":"cli","client":"0.1.0","verbatim":true}}}"#;

    fn open() -> Front {
        let mut front = Front::new();
        assert!(matches!(front.handle_frame(HELLO, DEFAULT), Inbound::Hello { principal: Some(_) }));
        front
    }

    fn modern(method: &str, more: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}{more}}}}}}}"#
        )
    }

    #[test]
    fn the_first_line_is_a_hello_of_a_version_that_is_spoken() {
        for line in [
            modern("tools/list", "").as_str(),
            "",
            "[]",
            r#"{"drowse":1}"#,
            r#"{"drowse":{"hello":{"versions":[2,"1"]}}}"#,
            r#"{"drowse":{"hello":{"versions":1}}}"#,
        ] {
            let mut front = Front::new();
            assert_eq!(front.handle_frame(line.as_bytes(), DEFAULT), Inbound::Refused, "{line}");
            assert_eq!(front.handle_frame(HELLO, DEFAULT), Inbound::Ignore);
            assert!(!front.is_open());
        }
        assert!(open().is_verbatim());
    }

    #[test]
    fn leave_needs_no_common_version() {
        let mut front = Front::new();
        assert_eq!(front.handle_frame(br#"{"drowse":{"leave":{}}}"#, DEFAULT), Inbound::Leave);
        assert!(!front.is_open());
    }

    #[test]
    fn operations_say_what_they_may_take() {
        let mut front = open();
        let line = modern("tools/call", r#","dev.drowse/timeoutMs":1500,"progressToken":0"#);
        let Inbound::Operation { operation, token, .. } = front.handle_frame(line.as_bytes(), DEFAULT) else {
            panic!()
        };
        assert_eq!(operation.method, Method::ToolsCall);
        assert_eq!(operation.allowance.unwrap().quiet, Duration::from_millis(1500));
        assert_eq!(operation.allowance.unwrap().total, DEFAULT.total);
        assert_eq!(token.unwrap().of(line.as_bytes()), b"0");
        assert_eq!(front.read_count(), 1);
        front.unread();
        assert_eq!(front.read_count(), 0);
    }

    #[test]
    fn who_listens_says_to_what() {
        let mut front = open();
        let with = |filter: &str| {
            modern("subscriptions/listen", "").replace(r#""params":{"#, &format!(r#""params":{{{filter}"#))
        };
        let line = with(r#""notifications":{"resourceSubscriptions":["a"]},"#);
        let Inbound::Listen { filter, starts: true, .. } = front.handle_frame(line.as_bytes(), DEFAULT)
        else {
            panic!()
        };
        assert_eq!(filter.uris(line.as_bytes()).next(), Some(&b"\"a\""[..]));
        let line = with(r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":[]},"#);
        let inbound = front.handle_frame(line.as_bytes(), DEFAULT);
        assert!(matches!(inbound, Inbound::Listen { starts: false, .. }), "{inbound:?}");
        for bad in ["", r#""notifications":{"resourceSubscriptions":[1]},"#] {
            let inbound = front.handle_frame(with(bad).as_bytes(), DEFAULT);
            let Inbound::Reject { rejection, .. } = inbound else { panic!("{inbound:?}") };
            assert_eq!(rejection.code(), -32602);
        }
        assert_eq!(front.read_count(), 4);
    }

    #[test]
    fn every_request_must_say_its_revision_and_capabilities() {
        let mut front = open();
        let mut rejected = |line: &str| match front.handle_frame(line.as_bytes(), DEFAULT) {
            Inbound::Reject { rejection, .. } => rejection.code(),
            other => panic!("{other:?}"),
        };
        assert_eq!(rejected(r#"{"jsonrpc":"2.0","id":0,"method":"tools/list"}"#), -32602);
        assert_eq!(
            rejected(
                r#"{"jsonrpc":"2.0","id":0,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#
            ),
            -32602
        );
        assert_eq!(rejected(&modern("tools/list", "").replace("2026-07-28", "2025-11-25")), -32022);
        assert_eq!(rejected(&modern("initialize", "")), -32601);
        assert_eq!(rejected(&modern("no/such", "")), -32601);
        assert_eq!(rejected("nonsense"), -32700);
        assert_eq!(rejected(r#"[{"jsonrpc":"2.0","method":"x"}]"#), -32600);
    }

    #[test]
    fn notifications_and_answers_are_not_counted() {
        let mut front = open();
        let cancel = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#;
        match front.handle_frame(cancel, DEFAULT) {
            Inbound::Cancel { request } => assert_eq!(request.of(cancel), br#""a""#),
            other => panic!("{other:?}"),
        }
        for line in [
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/other"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        ] {
            assert_eq!(front.handle_frame(line.as_bytes(), DEFAULT), Inbound::Ignore);
        }
        assert_eq!(front.read_count(), 0);
    }

    #[test]
    fn discovery_is_a_result_with_and_without_a_handshake() {
        for (handshake, name) in [
            (None, None),
            (
                Some(
                    r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"old"},"instructions":"i"}"#,
                ),
                Some("old"),
            ),
            (
                Some(
                    r#"{"supportedVersions":["2026-07-28"],"capabilities":{},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new"}}}"#,
                ),
                Some("new"),
            ),
        ] {
            let bytes = discovery(handshake.map(str::as_bytes)).concat();
            let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(value["resultType"], "complete");
            assert!(value["capabilities"].is_object());
            assert_eq!(
                value["_meta"]["io.modelcontextprotocol/serverInfo"]["name"].as_str(),
                name,
                "{handshake:?}"
            );
        }
    }
}
