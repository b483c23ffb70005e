//! Rewrites a message on its way through, as a list of pieces: spans of the frame it came in, spans of the frame that
//! asked for it, and small literals. One vectored write sends it; no payload is copied.

use heapless::Vec;

use crate::envelope::{Known, Message, Values};
use crate::era::{Era, Revision};
use crate::json;
use crate::logging::Level;
use crate::message::{self, Writer};
use crate::method::Method;
use crate::span::Span;

mod interaction;
mod legacy;
#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod legacy_tests;
mod refusal;

pub use self::interaction::{NoAnswer, Shown, answer_question, input_required, refused};
pub use self::legacy::{LegacyClient, answer_legacy};
pub use self::refusal::{
    Visit, accepts_all, is_failure, may_require_input, missing_capability, unvisited, visit_first,
};

/// The most pieces that a message is cut into.
pub const MAX_PIECES: usize = 24;

/// A part of an outgoing message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of the frame that is rewritten.
    Frame(Span),
    /// Bytes of the other frame: of the request, when its answer is rewritten.
    Other(Span),
    /// Bytes that never change.
    Fixed(&'static [u8]),
    /// A number in decimal.
    Number(u64),
}

/// An outgoing message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces(Vec<Piece, MAX_PIECES>);

/// The message would need more than [`MAX_PIECES`] pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TooManyPieces;

impl core::fmt::Display for TooManyPieces {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the message's _meta is cut into too many pieces")
    }
}

impl core::error::Error for TooManyPieces {}

impl Pieces {
    /// The pieces in order.
    pub fn iter(&self) -> impl Iterator<Item = &Piece> {
        self.0.iter()
    }

    /// The message's length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0
            .iter()
            .map(|piece| match piece {
                Piece::Frame(span) | Piece::Other(span) => span.len(),
                Piece::Fixed(bytes) => bytes.len(),
                Piece::Number(value) => message::decimal(*value, &mut [0; 20]).len(),
            })
            .sum()
    }

    /// Whether the message is empty, which only the default is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the message into one buffer, for callers without a vectored write.
    ///
    /// # Errors
    /// If the buffer is too small.
    pub fn write<'b>(
        &self,
        frame: &[u8],
        other: &[u8],
        buffer: &'b mut [u8],
    ) -> Result<&'b [u8], message::Overflow> {
        let mut w = Writer::new(buffer);
        for piece in self.iter() {
            match piece {
                Piece::Frame(span) => w.raw(span.of(frame)),
                Piece::Other(span) => w.raw(span.of(other)),
                Piece::Fixed(bytes) => w.raw(bytes),
                Piece::Number(value) => w.number(*value),
            }
        }
        w.finish()
    }

    fn push(&mut self, piece: Piece) -> Result<(), TooManyPieces> {
        match piece {
            Piece::Frame(span) | Piece::Other(span) if span.is_empty() => Ok(()),
            piece => self.0.push(piece).map_err(|_| TooManyPieces),
        }
    }
}

/// Collects replacements, in any order, and cuts the frame around them.
struct Cut<'f> {
    frame: &'f [u8],
    /// What is replaced, and from where to where in `by` what stands there instead is. One list for all of them: a list
    /// each is much to move about.
    edits: Vec<(Span, usize, usize), 6>,
    by: Pieces,
}

impl<'f> Cut<'f> {
    const fn new(frame: &'f [u8]) -> Self {
        Self { frame, edits: Vec::new(), by: Pieces(Vec::new()) }
    }

    fn replace(&mut self, span: Span, by: &[Piece]) -> Result<(), TooManyPieces> {
        let start = self.by.0.len();
        by.iter().try_for_each(|piece| self.by.push(piece.clone()))?;
        self.edits.push((span, start, self.by.0.len())).map_err(|_| TooManyPieces)
    }

    /// Takes members out of an object, each with one of the commas beside it. What is put at its beginning comes before.
    fn remove(&mut self, object: Span, goes: impl Fn(Span) -> bool) -> Result<(), TooManyPieces> {
        let mut members = json::members(self.frame, object).peekable();
        let (mut before, mut any_left) = (None, false);
        while let Some(member) = members.next() {
            let end = member.value.end();
            if !goes(member.key) {
                any_left = true;
            } else if let Some(before) = before.filter(|_| any_left) {
                self.replace(Span::new(before, end), &[])?;
            } else {
                let next = members.peek().map_or(end, |next| next.key.start());
                self.replace(Span::new(member.key.start(), next), &[])?;
            }
            before = Some(end);
        }
        Ok(())
    }

    fn pieces(self) -> Result<Pieces, TooManyPieces> {
        let mut out = Pieces::default();
        let mut at = 0;
        // In the order of the frame; those at one place in the order in which they were asked for. A handful of edits
        // needs no sort, and the standard one could panic.
        let placed = || self.edits.iter().enumerate().map(|(index, edit)| ((edit.0.start(), index), edit));
        let mut next = placed().min_by_key(|(place, _)| *place);
        while let Some((place, (span, first, end))) = next {
            out.push(Piece::Frame(Span::new(at, span.start())))?;
            for piece in self.by.0.get(*first..*end).unwrap_or_default() {
                out.push(piece.clone())?;
            }
            at = span.end();
            next = placed().filter(|(other, _)| *other > place).min_by_key(|(place, _)| *place);
        }
        out.push(Piece::Frame(Span::new(at, self.frame.len())))?;
        Ok(out)
    }
}

fn pieces<const N: usize>(list: [Piece; N]) -> Result<Pieces, TooManyPieces> {
    let mut out = Pieces::default();
    for piece in list {
        out.push(piece)?;
    }
    Ok(out)
}

/// What the front has to know of a modern request before it is carried on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RequestParts {
    /// The caller's id.
    pub id: Span,
    /// The method, as a string.
    pub method: Span,
    /// The parameters, an object.
    pub params: Option<Span>,
    /// `params._meta`, an object.
    pub meta: Option<Span>,
    /// What is known of both.
    pub known: Values,
}

impl RequestParts {
    /// The parts of a request; of anything else none.
    #[must_use]
    pub const fn of(message: &Message) -> Option<Self> {
        match *message {
            Message::Request { id, method, params, meta, known } => {
                Some(Self { id, method, params, meta, known })
            }
            _ => None,
        }
    }

    /// The value of a member that is known.
    #[must_use]
    pub fn value(&self, member: Known) -> Option<Span> {
        self.known.get(member)
    }
}

/// How a client's request is rewritten for the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rewrite<'c> {
    /// Its id there, one of ours.
    pub wire: u64,
    /// Its id is its progress token, too.
    pub progress: bool,
    /// What the server speaks.
    pub revision: Revision,
    /// How much of its log a modern server is asked for. Without, what the request says itself goes on.
    pub level: Option<Level>,
    /// Whose request it is.
    pub from: Origin<'c>,
}

/// Whose request is rewritten, and with that which of its parameters are for the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin<'c> {
    /// Of a client that speaks to its server in the server's own way: all go on.
    Verbatim,
    /// Of a modern client that knows no other tasks than those of its era: a legacy server is not told that a call may
    /// become one.
    Modern,
    /// Of such a client for a legacy server, again, after what that wanted first: without the answers to it, as it has
    /// been told in its own way.
    AfterVisits,
    /// Of a legacy client: a modern server is told with it what the client said in its `initialize`, and not that a call
    /// may become a task of the client's era.
    Legacy(&'c LegacyClient),
}

impl<'c> Rewrite<'c> {
    /// Who is spoken of in `_meta`.
    fn client(&self) -> Option<&'c LegacyClient> {
        match self.from {
            Origin::Legacy(client) if self.revision.era() == Era::Modern => Some(client),
            _ => None,
        }
    }

    fn without(&self) -> Without {
        match (self.from, self.revision.era()) {
            (Origin::AfterVisits, _) => TASK_AND_ANSWERS,
            (Origin::Modern, Era::Legacy) | (Origin::Legacy(_), Era::Modern) => TASK,
            _ => NOTHING,
        }
    }
}

/// Members of the parameters that do not go on.
type Without = &'static [&'static str];
const NOTHING: Without = &[];
/// By `task` a client of 2025-11-25 says that the call is to become one. A receiver that has no such tasks ignores it
/// (2025-11-25, basic/utilities/tasks, Task Support and Handling; the extension, Backward Compatibility).
const TASK: Without = &["task"];
const TASK_AND_ANSWERS: Without = &["task", "inputResponses"];

/// Rewrites a client's request for the server: our wire id, our progress token, and in `_meta` what the server's era
/// knows.
///
/// A legacy server gets no per-request protocol fields: a dual-era one would take them for a modern request.
///
/// # Errors
/// If `_meta` mixes known and unknown keys so much that the message falls into too many pieces.
pub fn request(frame: &[u8], parts: &RequestParts, how: &Rewrite<'_>) -> Result<Pieces, TooManyPieces> {
    let without = how.without();
    let mut cut = Cut::new(frame);
    cut.replace(parts.id, &[Piece::Number(how.wire)])?;
    let is_call = json::str_eq(parts.method.of(frame), Method::ToolsCall.name());
    let goes = |key: Span| {
        without.iter().any(|name| (*name != "task" || is_call) && json::str_eq(key.of(frame), name))
    };
    let removes = is_call && !without.is_empty() && parts.value(Known::Task).is_some() || without.len() > 1;
    if parts.meta.is_some() || how.progress || how.client().is_some() {
        let mut by = Pieces::default();
        let meta = |by: &mut Pieces| push_meta(by, frame, parts, how);
        match (parts.meta, parts.params) {
            (Some(span), _) => {
                meta(&mut by)?;
                cut.replace(span, &by.0)?;
            }
            (None, Some(params)) => {
                by.push(Piece::Fixed(br#""_meta":"#))?;
                meta(&mut by)?;
                let left = |member: json::Member| !(removes && goes(member.key));
                if json::members(frame, params).any(left) {
                    by.push(Piece::Fixed(b","))?;
                }
                cut.replace(Span::new(params.start() + 1, params.start() + 1), &by.0)?;
            }
            (None, None) => {
                // The envelope was read, so its last byte apart from white space closes the message.
                let close = frame.iter().rposition(|byte| *byte == b'}').unwrap_or(frame.len());
                by.push(Piece::Fixed(br#","params":{"_meta":"#))?;
                meta(&mut by)?;
                by.push(Piece::Fixed(b"}"))?;
                cut.replace(Span::new(close, close), &by.0)?;
            }
        }
    }
    if let Some(params) = parts.params
        && removes
    {
        cut.remove(params, goes)?;
    }
    cut.pieces()
}

/// The `_meta` that goes on: a progress token of ours, and the members that are for the server, in their order.
fn push_meta(
    out: &mut Pieces,
    frame: &[u8],
    parts: &RequestParts,
    how: &Rewrite<'_>,
) -> Result<(), TooManyPieces> {
    let (era, client) = (how.revision.era(), how.client());
    out.push(Piece::Fixed(b"{"))?;
    let mut any = false;
    if how.progress {
        out.push(Piece::Fixed(br#""progressToken":"#))?;
        out.push(Piece::Number(how.wire))?;
        any = true;
    }
    let level = how.level.filter(|_| era == Era::Modern);
    if let Some(level) = level {
        if any {
            out.push(Piece::Fixed(b","))?;
        }
        out.push(Piece::Fixed(level.meta()))?;
        any = true;
    }
    if let Some(client) = client {
        if any {
            out.push(Piece::Fixed(b","))?;
        }
        client.push_meta(out)?;
        any = true;
    }
    let goes = |member: Known| match member {
        Known::ProgressToken | Known::Timeout | Known::Forget => true,
        Known::LogLevel if level.is_some() => true,
        _ => era == Era::Legacy || client.is_some(),
    };
    // Members next to each other that are kept go as one span, with what stands between them: mostly all of them.
    let mut run: Option<Span> = None;
    if Known::OF_META.into_iter().any(|member| goes(member) && parts.value(member).is_some()) {
        for member in parts.meta.into_iter().flat_map(|meta| json::members(frame, meta)) {
            if !Known::of_meta(member.key.of(frame)).is_some_and(goes) {
                let start = run.map_or(member.key.start(), Span::start);
                run = Some(Span::new(start, member.value.end()));
            } else if let Some(span) = run.take() {
                push_member(out, span, &mut any)?;
            }
        }
    } else if let Some(meta) = parts.meta {
        run = Some(inside(frame, meta)).filter(|inside| !inside.is_empty());
    }
    if let Some(span) = run {
        push_member(out, span, &mut any)?;
    }
    out.push(Piece::Fixed(b"}"))
}

/// What stands between the braces of an object, without the white space around it.
fn inside(frame: &[u8], object: Span) -> Span {
    let inside = Span::new(object.start() + 1, object.end().saturating_sub(1));
    let from = inside.of(frame).trim_ascii_start();
    let start = inside.end().saturating_sub(from.len());
    Span::new(start, start.saturating_add(from.trim_ascii_end().len()))
}

fn push_member(out: &mut Pieces, span: Span, any: &mut bool) -> Result<(), TooManyPieces> {
    if *any {
        out.push(Piece::Fixed(b","))?;
    }
    *any = true;
    out.push(Piece::Frame(span))
}

/// Rewrites a server's answer for the modern client that asked: its own id (a span of the *request's* frame), and,
/// unless it takes answers verbatim, what a modern client may count on and the server did not say.
///
/// # Errors
/// Never for an answer; the type is that of all rewriting.
pub fn answer(
    frame: &[u8],
    message: &Message,
    caller_id: Span,
    method: Method,
    server: Revision,
    verbatim: bool,
) -> Result<Pieces, TooManyPieces> {
    let mut cut = Cut::new(frame);
    let legacy = server.era() == Era::Legacy;
    match *message {
        Message::Response { id, result, kind, .. } => {
            cut.replace(id, &[Piece::Other(caller_id)])?;
            let has = |name| json::member(frame, result, name).is_some();
            // A modern server that says what kind of result it is says the rest as well; one that does not is read as
            // a legacy one (basic/index, Results).
            let said = kind.is_some();
            if !verbatim && (legacy || !said) {
                let at = Span::new(result.start() + 1, result.start() + 1);
                let mut by = Pieces::default();
                if !said {
                    by.push(Piece::Fixed(br#""resultType":"complete""#))?;
                }
                if method.is_cacheable() {
                    for (name, member) in [
                        ("ttlMs", br#""ttlMs":0"#.as_slice()),
                        ("cacheScope", br#""cacheScope":"private""#.as_slice()),
                    ] {
                        if !has(name) {
                            if !by.is_empty() {
                                by.push(Piece::Fixed(b","))?;
                            }
                            by.push(Piece::Fixed(member))?;
                        }
                    }
                }
                if !by.is_empty() {
                    if json::members(frame, result).next().is_some() {
                        by.push(Piece::Fixed(b","))?;
                    }
                    cut.replace(at, &by.0)?;
                }
            }
        }
        Message::Error { id, error } => {
            if let Some(id) = id {
                cut.replace(id, &[Piece::Other(caller_id)])?;
            }
            // Not found was -32002 up to 2025-11-25 and is invalid parameters since (server/resources), which must not
            // say so any more, whatever was asked for.
            if legacy
                && !verbatim
                && let Some((code, by)) = refusal::modern_code(frame, error)
            {
                cut.replace(code, &[Piece::Fixed(by)])?;
            }
        }
        _ => {}
    }
    cut.pieces()
}

/// Rewrites a progress notification for the client that asked: its own token, a span of the request's frame.
///
/// # Errors
/// Never for a progress notification; the type is that of all rewriting.
pub fn progress(frame: &[u8], token: Span, caller_token: Span) -> Result<Pieces, TooManyPieces> {
    let mut cut = Cut::new(frame);
    cut.replace(token, &[Piece::Other(caller_token)])?;
    cut.pieces()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope;
    use serde_json::{Value, json};

    fn request_of(text: &str, progress: bool, revision: Revision) -> Value {
        let frame = text.as_bytes();
        let parts = RequestParts::of(&envelope::read(frame).unwrap()).unwrap();
        let how = Rewrite { wire: 77, progress, revision, level: None, from: Origin::Verbatim };
        let out = request(frame, &parts, &how).unwrap();
        let mut buffer = [0; 1024];
        let bytes = out.write(frame, b"", &mut buffer).unwrap();
        assert_eq!(bytes.len(), out.len());
        envelope::read(bytes).unwrap();
        serde_json::from_slice(bytes).unwrap()
    }

    const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

    #[test]
    fn a_modern_server_hears_all_but_our_own_keys() {
        let text = std::format!(
            r#"{{"jsonrpc":"2.0","params":{{"name":"x","_meta":{{{META},"progressToken":"p","dev.drowse/timeoutMs":5,"k":[1, 2]}}}},"method":"tools/call","id":"a"}}"#
        );
        let value = request_of(&text, true, Revision::V2026_07_28);
        assert_eq!(
            value,
            json!({"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"x","_meta":{
                "progressToken":77,"io.modelcontextprotocol/protocolVersion":"2026-07-28",
                "io.modelcontextprotocol/clientCapabilities":{},"k":[1,2]}}})
        );
    }

    #[test]
    fn a_legacy_server_hears_no_protocol_fields() {
        let text = std::format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":{{"a":1,{META},"b":2,"progressToken":9,"c":3}},"name":"x"}}}}"#
        );
        let value = request_of(&text, false, Revision::V2025_11_25);
        assert_eq!(value["params"], json!({"name":"x","_meta":{"a":1,"b":2,"c":3}}));
        assert_eq!(value["id"], 77);
    }

    #[test]
    fn a_progress_token_finds_a_place() {
        for (text, params) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"m"}  "#, json!({"_meta":{"progressToken":77}})),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{}}"#, json!({"_meta":{"progressToken":77}})),
            (
                r#"{"jsonrpc":"2.0","id":1,"params":{ "a":{}},"method":"m"}"#,
                json!({"_meta":{"progressToken":77},"a":{}}),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"params":{"_meta":{}},"method":"m"}"#,
                json!({"_meta":{"progressToken":77}}),
            ),
        ] {
            let value = request_of(text, true, Revision::V2025_11_25);
            assert_eq!(value["params"], params, "{text}");
            assert_eq!(value["method"], "m");
        }
    }

    #[test]
    fn a_modern_server_is_asked_for_the_level_that_is_wanted() {
        let own = r#""io.modelcontextprotocol/logLevel":"loud","#;
        for (said, level, wanted) in [
            ("", None, None),
            ("", Some(Level::Info), Some("info")),
            (own, None, Some("loud")),
            (own, Some(Level::Alert), Some("alert")),
        ] {
            for (revision, progress) in
                [(Revision::V2026_07_28, false), (Revision::V2026_07_28, true), (Revision::V2025_11_25, true)]
            {
                let text = std::format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"_meta":{{"a":1,{said}{META}}}}}}}"#
                );
                let frame = text.as_bytes();
                let parts = RequestParts::of(&envelope::read(frame).unwrap()).unwrap();
                let how = Rewrite { wire: 77, progress, revision, level, from: Origin::Verbatim };
                let out = request(frame, &parts, &how).unwrap();
                let mut buffer = [0; 512];
                let bytes = out.write(frame, b"", &mut buffer).unwrap();
                let meta = serde_json::from_slice::<Value>(bytes).unwrap()["params"]["_meta"].take();
                let wanted = wanted.filter(|_| revision.era() == Era::Modern);
                assert_eq!(meta["io.modelcontextprotocol/logLevel"].as_str(), wanted, "{text}");
                assert_eq!((&meta["a"], meta.get("progressToken").is_some()), (&json!(1), progress));
            }
        }
    }

    fn answer_of(text: &str, method: Method, server: Revision, verbatim: bool) -> Value {
        let frame = text.as_bytes();
        let asked = br#"{"id":"caller\u0041"}"#;
        let out = answer(
            frame,
            &envelope::read(frame).unwrap(),
            Span::new(6, asked.len() - 1),
            method,
            server,
            verbatim,
        )
        .unwrap();
        serde_json::from_slice(out.write(frame, asked, &mut [0; 512]).unwrap()).unwrap()
    }

    #[test]
    fn answers_carry_the_callers_id_and_what_a_legacy_server_left_out() {
        let bare = r#"{"result":{},"jsonrpc":"2.0","id":77}"#;
        assert_eq!(
            answer_of(bare, Method::ToolsCall, Revision::V2025_11_25, false),
            json!({"jsonrpc":"2.0","id":"callerA","result":{"resultType":"complete"}})
        );
        assert_eq!(answer_of(bare, Method::ToolsCall, Revision::V2025_11_25, true)["result"], json!({}));
        // A modern one that forgot it, too; one that did not is left alone, whatever else it says.
        assert_eq!(answer_of(bare, Method::ToolsCall, Revision::V2026_07_28, true)["result"], json!({}));
        assert_eq!(
            answer_of(bare, Method::ToolsList, Revision::V2026_07_28, false)["result"],
            json!({"resultType":"complete","ttlMs":0,"cacheScope":"private"})
        );
        let asks = r#"{"result":{"resultType":"input_required","inputRequests":{}},"jsonrpc":"2.0","id":77}"#;
        assert_eq!(
            answer_of(asks, Method::ResourcesRead, Revision::V2026_07_28, false)["result"],
            json!({"resultType":"input_required","inputRequests":{}})
        );
        let list = r#"{"result":{"tools":[],"ttlMs":7},"jsonrpc":"2.0","id":77}"#;
        assert_eq!(
            answer_of(list, Method::ToolsList, Revision::V2024_11_05, false)["result"],
            json!({"resultType":"complete","cacheScope":"private","tools":[],"ttlMs":7})
        );
    }

    #[test]
    fn not_found_is_said_in_the_clients_era() {
        let gone = r#"{"jsonrpc":"2.0","id":77,"error":{"code":-32002,"message":"gone"}}"#;
        let code = |method, verbatim| {
            answer_of(gone, method, Revision::V2025_11_25, verbatim)["error"]["code"].as_i64().unwrap()
        };
        assert_eq!(code(Method::ResourcesRead, false), -32602);
        assert_eq!(code(Method::ResourcesRead, true), -32002);
        assert_eq!(code(Method::ToolsCall, false), -32602);
    }
}
