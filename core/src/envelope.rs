//! Reads the JSON-RPC envelope of one frame: what kind of message it is, and where its parts are.
//!
//! One pass over the frame validates it as JSON and finds the id, the method, params or result, and the `_meta` inside
//! of those. What is in the parts is not looked at, and nothing is copied: ids go on byte for byte.
//!
//! Two readers that disagree about a message are how requests get smuggled past a gateway. So names are compared after
//! unescaping, a part that stands there twice makes the message invalid, and a message is exactly one of request,
//! notification, response and error.

use core::fmt;

use crate::json::{self, Elements, Failed, JsonError, JsonErrorKind, Scanner, Step};
use crate::skim::Skim;
use crate::span::Span;

mod known;
#[cfg(test)]
mod tests;

pub use self::known::{Known, Values};

/// A message, as spans of its frame. The spans of strings (ids, methods) include the quotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Message {
    /// A request.
    Request {
        /// A string or an integer.
        id: Span,
        /// A string.
        method: Span,
        /// An object.
        params: Option<Span>,
        /// `params._meta`, an object.
        meta: Option<Span>,
        /// What is known of both.
        known: Values,
    },
    /// A notification.
    Notification {
        /// A string.
        method: Span,
        /// An object.
        params: Option<Span>,
        /// `params._meta`, an object.
        meta: Option<Span>,
    },
    /// The result of a request.
    Response {
        /// A string or an integer.
        id: Span,
        /// An object.
        result: Span,
        /// `result._meta`, an object.
        meta: Option<Span>,
        /// `result.isError` is `true`: it is the failure of a tool.
        is_error: bool,
        /// `result.resultType`. Of a name that is repeated the last one counts, here as in [`Values`].
        kind: Option<Span>,
    },
    /// The failure of a request.
    Error {
        /// A string or an integer; absent (or null) if the peer could not say which request failed.
        id: Option<Span>,
        /// An object.
        error: Span,
    },
    /// Several messages in an array, as revisions up to 2025-03-26 allow.
    Batch {
        /// The array; see [`batch`]. It is JSON and not empty, but its items have not been read as messages.
        items: Span,
    },
}

/// The members that make an envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Part {
    /// `jsonrpc`
    Version,
    /// `id`
    Id,
    /// `method`
    Method,
    /// `params`
    Params,
    /// `result`
    Result,
    /// `error`
    Error,
    /// `_meta`, in params or in the result
    Meta,
}

impl Part {
    /// The name of the member on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Version => "jsonrpc",
            Self::Id => "id",
            Self::Method => "method",
            Self::Params => "params",
            Self::Result => "result",
            Self::Error => "error",
            Self::Meta => "_meta",
        }
    }

    const fn rule(self) -> &'static str {
        match self {
            Self::Version => "must be \"2.0\"",
            Self::Id => "must be a string or an integer",
            Self::Method => "must be a string",
            Self::Params | Self::Result | Self::Error | Self::Meta => "must be an object",
        }
    }
}

/// What is wrong with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum EnvelopeErrorKind {
    /// The frame is not JSON.
    Json(JsonErrorKind),
    /// The frame is JSON, but neither an object nor an array.
    NotAMessage,
    /// The frame is an empty array.
    EmptyBatch,
    /// A member stands there twice.
    Repeated(Part),
    /// A member has the wrong type or value.
    Invalid(Part),
    /// A member is missing.
    Missing(Part),
    /// A member does not go with the others: a method with a result, a result with an error, params without a method.
    Misplaced(Part),
    /// None of method, result and error is there.
    NoKind,
}

impl fmt::Display for EnvelopeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(kind) => kind.fmt(f),
            Self::NotAMessage => f.write_str("a message must be an object"),
            Self::EmptyBatch => f.write_str("a batch must not be empty"),
            Self::Repeated(part) => write!(f, "\"{}\" is repeated", part.name()),
            Self::Invalid(part) => write!(f, "\"{}\" {}", part.name(), part.rule()),
            Self::Missing(part) => write!(f, "\"{}\" is missing", part.name()),
            Self::Misplaced(part) => write!(f, "\"{}\" does not go with the other members", part.name()),
            Self::NoKind => f.write_str("none of \"method\", \"result\" and \"error\" is there"),
        }
    }
}

/// A frame that is not a message: what is wrong, where, and whom to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct EnvelopeError {
    /// What is wrong.
    pub kind: EnvelopeErrorKind,
    /// Byte position of the fault; where something is missing, the end of the message.
    pub offset: u32,
    /// The id, if a valid and unambiguous one could be read.
    pub id: Option<Span>,
    /// No method was seen: it is a faulty answer, and `id` is that of a request of ours, so it must not be answered.
    pub is_response: bool,
}

impl EnvelopeError {
    /// The JSON-RPC error code to answer with.
    #[must_use]
    pub const fn code(&self) -> i32 {
        match self.kind {
            EnvelopeErrorKind::Json(_) => -32700,
            _ => -32600,
        }
    }
}

impl fmt::Display for EnvelopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind, self.offset)
    }
}

impl core::error::Error for EnvelopeError {}

/// Reads a frame.
///
/// # Errors
/// Whatever is not exactly one valid message or a batch, see [`EnvelopeErrorKind`].
pub fn read(frame: &[u8]) -> Result<Message, EnvelopeError> {
    let mut reader = Reader { frame, scanner: Scanner::new(frame), parts: Parts::default() };
    match reader.message() {
        Ok(Ok(message)) => Ok(message),
        Ok(Err(fault)) => Err(reader.blame(fault)),
        Err(Failed) => Err(malformed(frame, reader.scanner.error())),
    }
}

/// The items of a batch, each to be read on its own with [`read`].
#[must_use]
pub fn batch(frame: &[u8], items: Span) -> Elements<'_> {
    json::elements(frame, items)
}

/// The items of a batch that come after `last`, which is one of them: who reads a batch piece by piece reads it once.
#[must_use]
pub fn batch_after(frame: &[u8], items: Span, last: Span) -> Elements<'_> {
    json::elements_after(frame, items, last)
}

/// Whether `raw` may be the id of a request: a valid JSON string or an integer of any size.
#[must_use]
pub fn is_id(raw: &[u8]) -> bool {
    json::is_integer(raw) || json::is_string(raw) && json::scan(raw).is_ok_and(|span| span.len() == raw.len())
}

/// A broken rule, and where.
#[derive(Clone, Copy)]
struct Fault {
    kind: EnvelopeErrorKind,
    at: usize,
}

/// What was found so far. An empty span is an absent member: no value is empty.
#[derive(Default)]
struct Parts {
    version: Span,
    id: Span,
    method: Span,
    params: Span,
    result: Span,
    error: Span,
    meta: Span,
    /// `isError` of the result.
    is_error: Span,
    /// `resultType` of the result.
    kind: Span,
    /// Members of params, and of their `_meta`.
    known: Values,
    /// The id stands there twice: neither may be used.
    ambiguous_id: bool,
    /// The first broken rule. Scanning goes on, since malformed JSON outweighs it and the id may come later.
    fault: Option<Fault>,
}

impl Parts {
    #[cold]
    fn fail(&mut self, kind: EnvelopeErrorKind, at: usize) {
        if self.fault.is_none() {
            self.fault = Some(Fault { kind, at });
        }
    }
}

struct Reader<'a> {
    frame: &'a [u8],
    scanner: Scanner<'a>,
    parts: Parts,
}

impl Reader<'_> {
    fn message(&mut self) -> Result<Result<Message, Fault>, Failed> {
        let start = self.scanner.open_document()?;
        if self.frame.get(start) != Some(&b'{') {
            return self.no_object(start);
        }
        self.scanner.enter_object(start)?;
        let mut step = self.scanner.first_member(start + 1)?;
        let end = loop {
            match step {
                Step::Item { key, value } => {
                    let value_end = self.member(key, value)?;
                    step = self.scanner.next_member(value_end)?;
                }
                Step::End(end) => break end,
            }
        };
        self.scanner.close_document(end)?;
        Ok(match self.parts.fault {
            Some(fault) => Err(fault),
            None => self.assemble(end),
        })
    }

    #[cold]
    fn no_object(&mut self, start: usize) -> Result<Result<Message, Fault>, Failed> {
        let items = self.scanner.document()?;
        Ok(if !json::is_array(items.of(self.frame)) {
            Err(Fault { kind: EnvelopeErrorKind::NotAMessage, at: start })
        } else if batch(self.frame, items).next().is_none() {
            Err(Fault { kind: EnvelopeErrorKind::EmptyBatch, at: start })
        } else {
            Ok(Message::Batch { items })
        })
    }

    /// Reads the member of the message whose value starts at `value`, and says where that ends.
    #[inline]
    fn member(&mut self, key: Span, value: usize) -> Result<usize, Failed> {
        let Some(part) = part(key.of(self.frame)) else { return self.scanner.value(value) };
        let opens = self.frame.get(value);
        let end = match part {
            Part::Params if opens == Some(&b'{') => self.params(value)?,
            Part::Result if opens == Some(&b'{') => self.result(value)?,
            _ => self.scanner.value(value)?,
        };
        let span = Span::new(value, end);
        let raw = span.of(self.frame);
        let parts = &mut self.parts;
        let (slot, valid) = match part {
            Part::Version => (&mut parts.version, raw == b"\"2.0\"" || json::str_eq(raw, "2.0")),
            // A null id is right in an error only; that is judged at the end.
            Part::Id => (&mut parts.id, json::is_string(raw) || json::is_integer(raw) || raw == b"null"),
            Part::Method => (&mut parts.method, json::is_string(raw)),
            Part::Params => (&mut parts.params, json::is_object(raw)),
            Part::Result => (&mut parts.result, json::is_object(raw)),
            Part::Error => (&mut parts.error, json::is_object(raw)),
            Part::Meta => return Ok(end),
        };
        if !slot.is_empty() {
            parts.ambiguous_id |= part == Part::Id;
            parts.fail(EnvelopeErrorKind::Repeated(part), key.start());
        } else {
            *slot = span;
            if !valid {
                parts.fail(EnvelopeErrorKind::Invalid(part), value);
            }
        }
        Ok(end)
    }

    /// Walks params, whose brace is at `at`, for the sake of `_meta` and of what is known.
    #[inline]
    fn params(&mut self, at: usize) -> Result<usize, Failed> {
        self.each(at, |reader, key, value| {
            let name = key.of(reader.frame);
            if is_name(name, Part::Meta.name()) {
                let end = match reader.frame.get(value) {
                    Some(b'{') => reader.each(value, |reader, key, value| {
                        let end = reader.scanner.value(value)?;
                        if let Some(known) = Known::of_meta(key.of(reader.frame)) {
                            reader.parts.known.set(known, Span::new(value, end));
                        }
                        Ok(end)
                    })?,
                    _ => reader.scanner.value(value)?,
                };
                reader.found_meta(key, Span::new(value, end));
                return Ok(end);
            }
            let end = reader.scanner.value(value)?;
            if let Some(known) = Known::of_params(name) {
                reader.parts.known.set(known, Span::new(value, end));
            }
            Ok(end)
        })
    }

    /// Walks the result, whose brace is at `at`, for the sake of `_meta`, `isError` and `resultType`.
    #[inline]
    fn result(&mut self, at: usize) -> Result<usize, Failed> {
        self.each(at, |reader, key, value| {
            let end = reader.scanner.value(value)?;
            let name = key.of(reader.frame);
            if is_name(name, Part::Meta.name()) {
                reader.found_meta(key, Span::new(value, end));
            } else if is_name(name, "isError") {
                reader.parts.is_error = Span::new(value, end);
            } else if is_name(name, "resultType") {
                reader.parts.kind = Span::new(value, end);
            }
            Ok(end)
        })
    }

    /// Walks the object whose brace is at `at`. `member` is given names and where their values start, and says where those
    /// end.
    #[inline]
    fn each(
        &mut self,
        at: usize,
        mut member: impl FnMut(&mut Self, Span, usize) -> Result<usize, Failed>,
    ) -> Result<usize, Failed> {
        self.scanner.enter_object(at)?;
        let mut step = self.scanner.first_member(at + 1)?;
        loop {
            match step {
                Step::Item { key, value } => {
                    let end = member(self, key, value)?;
                    step = self.scanner.next_member(end)?;
                }
                Step::End(end) => {
                    self.scanner.leave_object();
                    return Ok(end);
                }
            }
        }
    }

    fn found_meta(&mut self, key: Span, value: Span) {
        // A message with both params and a result is invalid anyway, so one slot is enough.
        if !self.parts.meta.is_empty() {
            self.parts.fail(EnvelopeErrorKind::Repeated(Part::Meta), key.start());
        } else {
            self.parts.meta = value;
            if !json::is_object(value.of(self.frame)) {
                self.parts.fail(EnvelopeErrorKind::Invalid(Part::Meta), value.start());
            }
        }
    }

    /// What the parts, each valid by itself, are together.
    #[inline]
    fn assemble(&self, end: usize) -> Result<Message, Fault> {
        let Parts { version, id, method, params, result, error, meta, is_error, kind, known, .. } =
            self.parts;
        if version.is_empty() {
            return missing(Part::Version, end);
        }
        let meta = present(meta);
        if !method.is_empty() {
            if !result.is_empty() {
                return misplaced(Part::Result, result);
            }
            if !error.is_empty() {
                return misplaced(Part::Error, error);
            }
            let params = present(params);
            return match present(id) {
                None => Ok(Message::Notification { method, params, meta }),
                Some(id) if self.is_null(id) => null_id(id),
                Some(id) => Ok(Message::Request { id, method, params, meta, known }),
            };
        }
        if !params.is_empty() {
            return misplaced(Part::Params, params);
        }
        match (present(result), present(error)) {
            (Some(_), Some(error)) => misplaced(Part::Error, error),
            (Some(result), None) => match present(id) {
                None => missing(Part::Id, end),
                Some(id) if self.is_null(id) => null_id(id),
                Some(id) => {
                    let is_error = is_error.of(self.frame) == b"true";
                    Ok(Message::Response { id, result, meta, is_error, kind: present(kind) })
                }
            },
            (None, Some(error)) => {
                Ok(Message::Error { id: present(id).filter(|&id| !self.is_null(id)), error })
            }
            (None, None) => Err(Fault { kind: EnvelopeErrorKind::NoKind, at: end }),
        }
    }

    fn is_null(&self, span: Span) -> bool {
        span.of(self.frame) == b"null"
    }

    #[cold]
    fn blame(&self, Fault { kind, at }: Fault) -> EnvelopeError {
        let Parts { id, method, ambiguous_id, .. } = self.parts;
        let usable = !ambiguous_id && is_id(id.of(self.frame));
        EnvelopeError {
            kind,
            offset: Span::new(at, at).start() as u32,
            id: usable.then_some(id),
            is_response: method.is_empty(),
        }
    }
}

/// What can still be said about a frame that is not JSON, so that the peer who waits for it can be told at once.
#[cold]
fn malformed(frame: &[u8], JsonError { kind, offset }: JsonError) -> EnvelopeError {
    let mut skim = Skim::new();
    skim.feed(frame);
    EnvelopeError {
        kind: EnvelopeErrorKind::Json(kind),
        offset,
        id: skim.id_span(),
        is_response: !skim.has_method(),
    }
}

fn part(key: &[u8]) -> Option<Part> {
    const PARTS: [Part; 6] = [Part::Version, Part::Id, Part::Method, Part::Params, Part::Result, Part::Error];
    named(key, PARTS, Part::name)
}

/// Which of `all` has the name `key`, which stands there with its quotes.
#[inline]
fn named<T: Copy, const N: usize>(key: &[u8], all: [T; N], name: impl Fn(T) -> &'static str) -> Option<T> {
    let plain = key.get(1..key.len().saturating_sub(1)).unwrap_or_default();
    let found = all.into_iter().find(|one| plain == name(*one).as_bytes());
    // What is escaped is longer than what it stands for, and hardly anything is.
    found.or_else(|| {
        let escaped = plain.contains(&b'\\');
        escaped.then(|| all.into_iter().find(|one| json::str_eq(key, name(*one)))).flatten()
    })
}

fn is_name(key: &[u8], name: &'static str) -> bool {
    named(key, [()], |()| name).is_some()
}

fn present(span: Span) -> Option<Span> {
    if span.is_empty() { None } else { Some(span) }
}

#[cold]
fn missing(part: Part, at: usize) -> Result<Message, Fault> {
    Err(Fault { kind: EnvelopeErrorKind::Missing(part), at })
}

#[cold]
fn misplaced(part: Part, span: Span) -> Result<Message, Fault> {
    Err(Fault { kind: EnvelopeErrorKind::Misplaced(part), at: span.start() })
}

#[cold]
fn null_id(id: Span) -> Result<Message, Fault> {
    Err(Fault { kind: EnvelopeErrorKind::Invalid(Part::Id), at: id.start() })
}
