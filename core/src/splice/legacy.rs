//! Messages of clients of the legacy era: what a modern server is told with each of their requests, and what its answers
//! lose.

use super::{Cut, Piece, Pieces, TooManyPieces, push_member};
use crate::capabilities::ClientCapabilities;
use crate::envelope::Message;
use crate::era::{Era, Revision};
use crate::json;
use crate::method::Method;
use crate::span::Span;

/// What a client said of itself in its `initialize`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LegacyClient {
    /// Its `clientInfo`, a span of the other frame; empty if it said nothing.
    pub info: Span,
    /// What it can be asked for.
    pub capabilities: ClientCapabilities,
}

impl LegacyClient {
    /// The members of `_meta` that a modern server has to find in each request.
    pub(super) fn push_meta(&self, out: &mut Pieces) -> Result<(), TooManyPieces> {
        out.push(Piece::Fixed(
            br#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"#,
        ))?;
        let ClientCapabilities { form, url, sampling, sampling_tools, roots, tasks: _ } = self.capabilities;
        let elicitation: &[u8] = match (form, url) {
            (true, true) => br#""elicitation":{"form":{},"url":{}}"#,
            (true, false) => br#""elicitation":{"form":{}}"#,
            (false, true) => br#""elicitation":{"url":{}}"#,
            (false, false) => b"",
        };
        // With the comma that stands before it, if anything does: a message has few pieces to spare.
        let sampling: &[u8] = match (sampling, sampling_tools) {
            (true, true) => br#","sampling":{"tools":{}}"#,
            (true, false) => br#","sampling":{}"#,
            (false, _) => b"",
        };
        let roots: &[u8] = if roots { br#","roots":{}"# } else { b"" };
        let mut any = false;
        for (text, comma) in [(elicitation, 0), (sampling, 1), (roots, 1)] {
            if !text.is_empty() {
                let start = if any { 0 } else { comma };
                out.push(Piece::Fixed(text.get(start..).unwrap_or_default()))?;
                any = true;
            }
        }
        out.push(Piece::Fixed(b"}"))?;
        if !self.info.is_empty() {
            out.push(Piece::Fixed(br#","io.modelcontextprotocol/clientInfo":"#))?;
            out.push(Piece::Other(self.info))?;
        }
        Ok(())
    }
}

/// Rewrites a server's answer for the legacy client that asked: its own id (a span of the *request's* frame), and without
/// what is of the modern era alone.
///
/// # Errors
/// Never for a result whose members are named once; the type is that of all rewriting.
pub fn answer_legacy(
    frame: &[u8],
    message: &Message,
    caller_id: Span,
    method: Method,
    server: Revision,
) -> Result<Pieces, TooManyPieces> {
    let mut cut = Cut::new(frame);
    let modern = server.era() == Era::Modern;
    match *message {
        Message::Response { id, result, .. } => {
            cut.replace(id, &[Piece::Other(caller_id)])?;
            if modern && let Some(by) = without_modern(frame, result, method)? {
                cut.replace(result, &by.0)?;
            }
        }
        Message::Error { id, error } => {
            if let Some(id) = id {
                cut.replace(id, &[Piece::Other(caller_id)])?;
            }
            // Not found is -32002 up to 2025-11-25 and invalid parameters since (server/resources).
            if modern
                && method == Method::ResourcesRead
                && let Some(code) = json::member(frame, error, "code")
                && json::as_i64(code.of(frame)) == Some(-32602)
            {
                cut.replace(code, &[Piece::Fixed(b"-32002")])?;
            }
        }
        _ => {}
    }
    cut.pieces()
}

/// The result without the members that say how it may be used; `None`: it has none of them.
fn without_modern(frame: &[u8], result: Span, method: Method) -> Result<Option<Pieces>, TooManyPieces> {
    let mut out = Pieces::default();
    out.push(Piece::Fixed(b"{"))?;
    let mut any = false;
    let mut found = false;
    // Members next to each other that are kept go as one span, with what stands between them.
    let mut run: Option<Span> = None;
    for member in json::members(frame, result) {
        let key = member.key.of(frame);
        let drop = json::str_eq(key, "resultType")
            || method.is_cacheable() && (json::str_eq(key, "ttlMs") || json::str_eq(key, "cacheScope"));
        found |= drop;
        if !drop {
            let start = run.map_or(member.key.start(), Span::start);
            run = Some(Span::new(start, member.value.end()));
        } else if let Some(span) = run.take() {
            push_member(&mut out, span, &mut any)?;
        }
    }
    if let Some(span) = run {
        push_member(&mut out, span, &mut any)?;
    }
    out.push(Piece::Fixed(b"}"))?;
    Ok(found.then_some(out))
}
