//! Connections of the legacy era, revisions 2024-11-05 to 2025-11-25: `initialize` says for the whole connection what a
//! modern request says each time.

use heapless::Vec;

use super::{Inbound, Rejection, cancelled, object};
use crate::activity::{self, Asker};
use crate::capabilities::ClientCapabilities;
use crate::envelope::{self, Known, Message};
use crate::era::{Era, Revision};
use crate::json;
use crate::logging::Level;
use crate::method::Method;
use crate::notification::Notification;
use crate::server::Operation;
use crate::span::Span;
use crate::splice::RequestParts;

/// Whether a receiver of that revision has to accept batches (2025-03-26, basic/index, Batching).
pub(super) const fn has_batches(revision: Revision) -> bool {
    matches!(revision, Revision::V2024_11_05 | Revision::V2025_03_26)
}

/// What the first messages of a connection ask for, if they are of this era.
pub(super) fn open(frame: &[u8], message: &Message) -> Option<Inbound> {
    let parts = RequestParts::of(message)?;
    let id = parts.id;
    if parts.value(Known::ProtocolVersion).is_some() {
        return None;
    }
    match Method::from_json(parts.method.of(frame)) {
        Method::Initialize => {
            let found = |name| parts.params.and_then(|params| json::member(frame, params, name));
            let asked = found("protocolVersion").and_then(|version| Revision::from_json(version.of(frame)));
            // Whoever knows none of these versions is told of one, and goes on or leaves (basic/lifecycle, Version
            // Negotiation).
            let revision =
                asked.filter(|revision| revision.era() == Era::Legacy).unwrap_or(Revision::LATEST_LEGACY);
            let capabilities =
                found("capabilities").map(|span| ClientCapabilities::read(frame, span)).unwrap_or_default();
            // Tasks are not the same in the two eras, so they are none of a call's questions here.
            let capabilities = ClientCapabilities { tasks: false, ..capabilities };
            let info = found("clientInfo").filter(|info| json::is_object(info.of(frame)));
            Some(Inbound::Initialize { id, revision, info, capabilities })
        }
        // Allowed before (2025-11-25, basic/lifecycle, Initialization).
        Method::Ping => Some(Inbound::Ping { id }),
        _ => None,
    }
}

pub(super) fn read(
    frame: &[u8],
    message: &Message,
    asker: Asker,
    level: &mut Option<Level>,
    initialized: &mut bool,
) -> Inbound {
    match *message {
        Message::Request { id, .. } => match RequestParts::of(message) {
            Some(parts) => request(frame, parts, asker, level),
            None => Inbound::Reject { id: Some(id), rejection: Rejection::UnknownMethod },
        },
        Message::Notification { method, params, .. } => {
            let param = |name| params.and_then(|params| json::member(frame, params, name));
            match Notification::from_json(method.of(frame)) {
                Notification::Cancelled => cancelled(frame, params).unwrap_or(Inbound::Ignore),
                Notification::Initialized if !*initialized => {
                    *initialized = true;
                    Inbound::Initialized
                }
                Notification::Progress => match param("progressToken") {
                    // A token is what an id is.
                    Some(token) if envelope::is_id(token.of(frame)) => Inbound::Progress { token },
                    _ => Inbound::Ignore,
                },
                // The roots of a shared server are those of its session, so a client's changes are no news to it; and
                // no server gives tasks to drowse.
                _ => Inbound::Ignore,
            }
        }
        Message::Response { id, result, .. } => Inbound::Answer { id, answer: Ok(result) },
        Message::Error { id: Some(id), error } => Inbound::Answer { id, answer: Err(error) },
        Message::Error { id: None, .. } => Inbound::Ignore,
        Message::Batch { .. } => Inbound::Reject { id: None, rejection: Rejection::Batch },
    }
}

fn request(frame: &[u8], parts: RequestParts, asker: Asker, level: &mut Option<Level>) -> Inbound {
    let id = parts.id;
    let reject = |rejection| Inbound::Reject { id: Some(id), rejection };
    let param = |name| parts.params.and_then(|params| json::member(frame, params, name));
    let method = Method::from_json(parts.method.of(frame));
    match method {
        Method::Initialize => reject(Rejection::Opened),
        Method::Ping => Inbound::Ping { id },
        Method::SetLevel => match param("level").and_then(|level| Level::from_json(level.of(frame))) {
            Some(wanted) => {
                *level = Some(wanted);
                Inbound::SetLevel { id }
            }
            None => reject(Rejection::InvalidLevel),
        },
        Method::Subscribe | Method::Unsubscribe => {
            match param("uri").filter(|uri| json::is_string(uri.of(frame))) {
                Some(uri) => Inbound::Subscribe { id, uri, on: method == Method::Subscribe },
                None => reject(Rejection::InvalidUri),
            }
        }
        Method::Discover | Method::Listen | Method::Other => reject(Rejection::UnknownMethod),
        _ if method.is_drowses() => reject(Rejection::UnknownMethod),
        _ => {
            let token = parts.value(Known::ProgressToken);
            let rule = activity::rule(method, asker, false);
            super::for_server(rule, Operation { method, allowance: None }, parts, token)
                .unwrap_or_else(|| reject(Rejection::UnknownMethod))
        }
    }
}

/// Capabilities of a server that mean the same in both eras.
pub(super) const SHARED: [(&str, &[u8]); 6] = [
    ("tools", br#""tools":"#),
    ("resources", br#""resources":"#),
    ("prompts", br#""prompts":"#),
    ("completions", br#""completions":"#),
    ("logging", br#""logging":"#),
    ("experimental", br#""experimental":"#),
];
/// All that the front can carry whatever the client's era, without its end: what is shown of a server that never ran.
pub(super) const EVERYTHING: &[u8] = br#"{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{}"#;
/// The rest for clients of the revision that has tasks (2025-11-25, basic/utilities/tasks, Server Capabilities).
const TASKS: &[u8] = br#","tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}"#;

/// Slices for [`shared`].
pub(super) const SHARED_SLICES: usize = 3 * SHARED.len() + 1;
/// Slices for what is put below.
const SLICES: usize = 5 + SHARED_SLICES + 5;

/// The result of `initialize`, as slices to be written one after the other, from what the server said of itself when it
/// was negotiated (`handshake`, its result), or from nothing if it never ran. `ours` is the `serverInfo` of drowse, an
/// object, for servers that say nothing of theirs.
///
/// Capabilities are those that can be had in this era: all that a legacy server has, and what a modern one has of them.
#[must_use]
pub fn initialization<'a>(
    handshake: Option<&'a [u8]>,
    revision: Revision,
    ours: &'a [u8],
) -> Vec<&'a [u8], SLICES> {
    let mut out: Vec<&'a [u8], SLICES> = Vec::new();
    let mut put = |bytes| {
        // As many slices as are put below fit.
        let _ = out.push(bytes);
    };
    let described = handshake.and_then(|bytes| json::scan(bytes).ok().map(|span| (bytes, span)));
    let found = |name: &str| {
        described.and_then(|(bytes, span)| json::member(bytes, span, name).map(|value| value.of(bytes)))
    };
    put(br#"{"protocolVersion":""#.as_slice());
    put(revision.name().as_bytes());
    put(br#"","capabilities":"#);
    match (described, found("protocolVersion").is_some()) {
        (None, _) => {
            put(EVERYTHING);
            put(if revision == Revision::V2025_11_25 { TASKS } else { b"}" });
        }
        (Some(_), true) => put(found("capabilities").unwrap_or(b"{}")),
        (Some((bytes, span)), false) => shared(bytes, span, &mut put),
    }
    let info = found("serverInfo").or_else(|| {
        let (bytes, span) = described?;
        let meta = object(bytes, span, "_meta")?;
        json::member(bytes, meta, "io.modelcontextprotocol/serverInfo").map(|value| value.of(bytes))
    });
    put(br#","serverInfo":"#);
    put(info.filter(|info| json::is_object(info)).unwrap_or(ours));
    if let Some(instructions) = found("instructions").filter(|text| json::is_string(text)) {
        put(br#","instructions":"#);
        put(instructions);
    }
    put(b"}");
    out
}

/// What a server described in `described` has of the capabilities that mean the same in both eras.
pub(super) fn shared<'a>(bytes: &'a [u8], described: Span, put: &mut impl FnMut(&'a [u8])) {
    let capabilities = object(bytes, described, "capabilities");
    let shared = SHARED.into_iter().filter_map(|(name, key)| {
        capabilities.and_then(|all| object(bytes, all, name)).map(|value| (key, value.of(bytes)))
    });
    let mut separator: &[u8] = b"{";
    for (key, value) in shared {
        put(separator);
        put(key);
        put(value);
        separator = b",";
    }
    put(if separator == b"{" { b"{}" } else { b"}" });
}
