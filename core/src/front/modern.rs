//! Connections of the modern era: each request says everything.

use heapless::Vec;

use super::{Inbound, Rejection, cancelled, legacy, object};
use crate::activity::{self, Asker, Starts};
use crate::capabilities::ClientCapabilities;
use crate::envelope::{Known, Message};
use crate::era::{Era, Revision};
use crate::json;
use crate::link::Allowance;
use crate::message;
use crate::method::Method;
use crate::notification::Notification;
use crate::relay::Filter;
use crate::server::Operation;
use crate::splice::RequestParts;
use crate::time::Duration;

pub(super) fn read(frame: &[u8], message: &Message, asker: Asker, default: Allowance) -> Inbound {
    match *message {
        Message::Request { id, .. } => match RequestParts::of(message) {
            Some(parts) => request(frame, parts, asker, default),
            None => Inbound::Reject { id: Some(id), rejection: Rejection::UnknownMethod },
        },
        Message::Notification { method, params, .. } => {
            let cancels = Notification::from_json(method.of(frame)) == Notification::Cancelled;
            cancels.then(|| cancelled(frame, params)).flatten().unwrap_or(Inbound::Ignore)
        }
        // A client never sends responses (basic/transports/stdio, Sending Messages).
        Message::Response { .. } | Message::Error { .. } => Inbound::Ignore,
        Message::Batch { .. } => Inbound::Reject { id: None, rejection: Rejection::Batch },
    }
}

fn request(frame: &[u8], parts: RequestParts, asker: Asker, default: Allowance) -> Inbound {
    let id = parts.id;
    let reject = |rejection| Inbound::Reject { id: Some(id), rejection };
    let method = Method::from_json(parts.method.of(frame));
    if method == Method::Initialize
        && let Some(version) = parts.params.and_then(|params| json::member(frame, params, "protocolVersion"))
    {
        // Its client learns which versions there are (basic/versioning).
        return reject(Rejection::UnsupportedVersion(version));
    }
    let Some(version) = parts.value(Known::ProtocolVersion) else {
        return reject(Rejection::MissingMeta(message::META_PROTOCOL_VERSION));
    };
    if Revision::from_json(version.of(frame)).is_none_or(|revision| revision.era() != Era::Modern) {
        return reject(Rejection::UnsupportedVersion(version));
    }
    match parts.value(Known::ClientCapabilities) {
        None => return reject(Rejection::MissingMeta(message::META_CLIENT_CAPABILITIES)),
        Some(value) if !json::is_object(value.of(frame)) => {
            return reject(Rejection::InvalidMeta(message::META_CLIENT_CAPABILITIES));
        }
        Some(_) => {}
    }
    let rule = |uris| activity::rule(method, asker, uris);
    match method {
        // What is drowse's own is for those who know of it.
        _ if method.is_drowses() && asker != Asker::Command => reject(Rejection::UnknownMethod),
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
                let tasks = filter.tasks(frame).next().is_some();
                if tasks && !ClientCapabilities::of_request(frame, &parts).tasks {
                    return reject(Rejection::UndeclaredTasks);
                }
                let names = tasks || filter.uris(frame).next().is_some();
                let starts = rule(names).starts == Starts::Yes;
                Inbound::Listen { id, filter, starts }
            }
            None => reject(Rejection::InvalidFilter),
        },
        // What the table says starts a server is what is carried to it.
        _ if is_carried(method) => {
            let allowance = parts
                .value(Known::Timeout)
                .and_then(|span| json::as_u64(span.of(frame)))
                .filter(|millis| *millis > 0)
                .map(|millis| {
                    // Its own time-out may be longer than the usual maximum: the caller knows what it asks for.
                    let quiet = Duration::from_millis(millis);
                    Allowance { quiet, total: default.total.max(quiet) }
                });
            let token = parts.value(Known::ProgressToken);
            super::for_server(rule(false), Operation { method, allowance }, parts, token)
                .unwrap_or_else(|| reject(Rejection::UnknownMethod))
        }
        _ => reject(Rejection::UnknownMethod),
    }
}

/// Whether this front carries the method: those of the legacy era are not among them.
const fn is_carried(method: Method) -> bool {
    !matches!(method, Method::Subscribe | Method::Unsubscribe | Method::Listen)
}

/// Slices for what is put below.
const SLICES: usize = 2 + legacy::SHARED_SLICES + 6;

/// The result of `server/discover`, as slices to be written one after the other, from what the server said of itself
/// when it was negotiated (`handshake`, its result), or from nothing if it never ran.
///
/// Capabilities are those that can be had in this era: all that a modern server has, and what a legacy one has of them.
#[must_use]
pub fn discovery(handshake: Option<&[u8]>) -> Vec<&[u8], SLICES> {
    let mut out: Vec<&[u8], SLICES> = Vec::new();
    let mut put = |bytes| {
        // As many slices as are put below fit.
        let _ = out.push(bytes);
    };
    put(br#"{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private""#);
    let described = handshake.and_then(|bytes| json::scan(bytes).ok().map(|span| (bytes, span)));
    let found = |name: &str| {
        described.and_then(|(bytes, span)| json::member(bytes, span, name).map(|value| value.of(bytes)))
    };
    put(br#","capabilities":"#);
    match (described, found("protocolVersion").is_some()) {
        (None, _) => {
            put(legacy::EVERYTHING);
            put(br#","extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
        }
        (Some((bytes, span)), true) => legacy::shared(bytes, span, &mut put),
        (Some(_), false) => put(found("capabilities").unwrap_or(b"{}")),
    }
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
