//! The headers in which a modern client repeats what the body says (basic/transports/streamable-http, Server Validation).

use super::{Header, Headers, Post, Refusal, Version, single};
use crate::envelope::{Known, Message};
use crate::era::{Era, Revision};
use crate::http::headers::{self, says};
use crate::json;
use crate::message::{META_CLIENT_CAPABILITIES, META_PROTOCOL_VERSION, Writer};
use crate::method::Method;
use crate::span::Span;
use crate::splice::RequestParts;

/// The longest name of an `Mcp-Param-*` header that is looked for.
const LONGEST_NAME: usize = 256;

/// The name of the tool that a request calls, a JSON string.
#[must_use]
pub fn tool(frame: &[u8], message: &Message) -> Option<Span> {
    let parts = RequestParts::of(message)?;
    let method = Method::from_json(parts.method.of(frame));
    (method == Method::ToolsCall).then(|| headers::name(method, frame, &parts)).flatten()
}

/// Whether the headers of a modern message say what its body says. `tool` is the tool that it calls as the list of tools
/// has it, if that is known.
///
/// Of a notification nothing is asked: the revision defines none over HTTP, but clients send some.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(
    post: &Post<'_>,
    headers: &(impl Headers + ?Sized),
    frame: &[u8],
    message: &Message,
    tool: Option<&[u8]>,
) -> Result<(), Refusal> {
    let Some(parts) = RequestParts::of(message) else {
        return match message {
            Message::Notification { .. } => Ok(()),
            Message::Batch { .. } => Err(Refusal::Batch),
            _ => Err(Refusal::Response),
        };
    };
    let says_version = parts.value(Known::ProtocolVersion);
    match (post.version, says_version) {
        (Version::Absent, _) => return Err(Refusal::Missing(Header::ProtocolVersion)),
        (_, None) => {}
        (Version::Known(revision), Some(body)) => {
            if !json::str_eq(body.of(frame), revision.name()) {
                return Err(Refusal::Mismatch(Header::ProtocolVersion));
            }
        }
        (Version::Unknown(value), Some(body)) => {
            if !(json::is_string(body.of(frame)) && json::text(body.of(frame)).eq(value.iter().copied())) {
                return Err(Refusal::Mismatch(Header::ProtocolVersion));
            }
        }
    }
    let method = Method::from_json(parts.method.of(frame));
    if method == Method::Initialize {
        return Err(Refusal::UnknownMethod);
    }
    let Some(version) = says_version else { return Err(Refusal::MissingMeta(META_PROTOCOL_VERSION)) };
    if Revision::from_json(version.of(frame)).is_none_or(|revision| revision.era() != Era::Modern) {
        return Err(Refusal::UnsupportedVersion(version));
    }
    match parts.value(Known::ClientCapabilities) {
        None => return Err(Refusal::MissingMeta(META_CLIENT_CAPABILITIES)),
        Some(value) if !json::is_object(value.of(frame)) => {
            return Err(Refusal::InvalidMeta(META_CLIENT_CAPABILITIES));
        }
        Some(_) => {}
    }
    repeats(headers, Header::Method, frame, Some(parts.method), true)?;
    if let Some(params) = parts.params {
        let name = headers::name(method, frame, &parts);
        // For tasks it comes from an extension, which not everybody has read.
        repeats(headers, Header::Name, frame, name, method != Method::Tasks)?;
        if let Some(tool) = tool
            && method == Method::ToolsCall
        {
            arguments(headers, frame, params, tool)?;
        }
    }
    Ok(())
}

/// Whether a header says what the body says: `value`, if it says anything.
fn repeats(
    headers: &(impl Headers + ?Sized),
    header: Header,
    frame: &[u8],
    value: Option<Span>,
    needed: bool,
) -> Result<(), Refusal> {
    match (single(headers, header)?, value) {
        (Some(given), Some(value)) if says(given, value.of(frame)) => Ok(()),
        (Some(_), Some(_)) => Err(Refusal::Mismatch(header)),
        (None, Some(_)) if needed => Err(Refusal::Missing(header)),
        _ => Ok(()),
    }
}

/// Whether what is marked in the schema of a tool stands in the headers of its call.
fn arguments(
    headers: &(impl Headers + ?Sized),
    frame: &[u8],
    params: Span,
    tool: &[u8],
) -> Result<(), Refusal> {
    let arguments = json::member(frame, params, "arguments").filter(|span| json::is_object(span.of(frame)));
    for annotation in headers::annotations(tool, Span::new(0, tool.len())) {
        let mut buffer = [0; LONGEST_NAME];
        let mut w = Writer::new(&mut buffer);
        annotation.write_name(tool, &mut w);
        // Servers take no such long names, so nobody can send them.
        let Some(name) = w.finish().ok().and_then(|name| core::str::from_utf8(name).ok()) else { continue };
        let mut lower = [0; LONGEST_NAME];
        let Some(lower) = lower.get_mut(..name.len()) else { continue };
        lower.copy_from_slice(name.as_bytes());
        lower.make_ascii_lowercase();
        let Ok(name) = core::str::from_utf8(lower) else { continue };
        let mut values = headers.all(name).map(<[u8]>::trim_ascii);
        let (given, more) = (values.next(), values.next());
        let value = arguments.and_then(|arguments| annotation.argument(tool, frame, arguments));
        match (given, value) {
            _ if more.is_some() => return Err(Refusal::Repeated(Header::Param)),
            (None, None) => {}
            (Some(given), Some(value)) if says(given, value.of(frame)) => {}
            // What no header can carry is not expected in one.
            (None, Some(value)) if !headers::is_fit(value.of(frame)) => {}
            (None, Some(_)) => return Err(Refusal::Missing(Header::Param)),
            (Some(_), _) => return Err(Refusal::Mismatch(Header::Param)),
        }
    }
    Ok(())
}
