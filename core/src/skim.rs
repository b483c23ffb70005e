//! Reads the little that can be known of a message that is not kept: its id, and whether it is an answer.
//!
//! Owns the incremental scanner behind [`Frame::Oversize`](crate::framing::Frame::Oversize),
//! [`Event::Oversize`](crate::sse::Event::Oversize) and the id in an
//! [`EnvelopeError`](crate::envelope::EnvelopeError). Bytes may come in any pieces. It follows strings and nesting and
//! looks at the names at the top of the message; it does not validate what lies deeper, and keeps no more than the id.

use memchr::memchr2;

use crate::envelope::is_id;
use crate::json::{ends, first, is_space, str_eq};
use crate::span::Span;

/// The longest id that is kept, in bytes as written.
pub(crate) const MAX_ID: usize = 256;

/// Room for `"method"` and `"result"` with each character written as a `\u` escape.
const MAX_KEY: usize = 2 + 6 * 6;

/// See the module.
pub(crate) struct Skim {
    phase: Phase,
    /// Open arrays and objects.
    depth: u64,
    /// Bytes read.
    length: u64,
    /// The last of them.
    last: u8,
    key: Kept<MAX_KEY>,
    /// The member whose value is being read is the id.
    taking: bool,
    id: Kept<MAX_ID>,
    id_at: u64,
    ids: u8,
    method: bool,
    /// A result or an error.
    outcome: bool,
    blank: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Before the message.
    Start,
    /// A name or the end of the message must follow.
    Key,
    /// In a name.
    InKey,
    /// In a name, after a backslash.
    KeyEscape,
    /// A colon must follow.
    Colon,
    /// A value at the top must follow.
    Value,
    /// In a number or word at the top.
    Scalar,
    /// A comma or the end of the message must follow.
    AfterValue,
    /// In an array or object below the top.
    Nested,
    /// In a string that is a value at the top, or anything below the top.
    InString,
    /// There, after a backslash.
    StringEscape,
    /// After the message.
    End,
    /// Not a message, or so malformed at the top that nothing after this can be trusted.
    Lost,
}

impl Skim {
    pub(crate) const fn new() -> Self {
        Self {
            phase: Phase::Start,
            depth: 0,
            length: 0,
            last: 0,
            key: Kept::new(),
            taking: false,
            id: Kept::new(),
            id_at: 0,
            ids: 0,
            method: false,
            outcome: false,
            blank: true,
        }
    }

    /// Takes the next bytes of the message.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        self.last = bytes.last().copied().unwrap_or(self.last);
        while let Some((&byte, after)) = rest.split_first() {
            let run = match self.phase {
                Phase::Lost => rest.len(),
                Phase::InString => string_run(rest),
                Phase::Nested => self.nested_run(rest),
                _ => 0,
            };
            if run == 0 {
                self.step(byte);
                self.length += 1;
                rest = after;
            } else {
                let (skipped, after) = rest.split_at_checked(run).unwrap_or((rest, &[]));
                if self.taking {
                    self.id.extend(skipped);
                }
                self.length += run as u64;
                rest = after;
            }
        }
    }

    /// Number of bytes read.
    pub(crate) const fn length(&self) -> u64 {
        self.length
    }

    /// Number of bytes read, without a `\r` at the end: that belongs to the end of the line.
    pub(crate) fn line_length(&self) -> u64 {
        self.length - u64::from(self.last == b'\r')
    }

    /// Nothing but white space was read.
    pub(crate) const fn is_blank(&self) -> bool {
        self.blank
    }

    /// A method was seen at the top.
    pub(crate) const fn has_method(&self) -> bool {
        self.method
    }

    /// The id, if there is exactly one, it is valid, and it is clear whose it is: in a message that breaks off or is
    /// malformed at the top, a method might have followed, so there the kind must have been seen as well.
    pub(crate) fn id(&self) -> Option<&[u8]> {
        let clear = self.phase == Phase::End || self.method || self.outcome;
        let id = self.id.bytes()?;
        (clear && self.ids == 1 && !self.taking && is_id(id)).then_some(id)
    }

    /// Where that id stands.
    pub(crate) fn id_span(&self) -> Option<Span> {
        let start = usize::try_from(self.id_at).ok()?;
        self.id().map(|id| Span::new(start, start.saturating_add(id.len())))
    }

    fn step(&mut self, byte: u8) {
        self.blank &= is_space(byte);
        self.phase = match self.phase {
            Phase::InKey | Phase::KeyEscape => {
                self.key.push(byte);
                match (self.phase, byte) {
                    (Phase::InKey, b'"') => Phase::Colon,
                    (Phase::InKey, b'\\') => Phase::KeyEscape,
                    _ => Phase::InKey,
                }
            }
            Phase::InString | Phase::StringEscape => {
                if self.taking {
                    self.id.push(byte);
                }
                match (self.phase, byte) {
                    (Phase::InString, b'"') if self.depth > 1 => Phase::Nested,
                    (Phase::InString, b'"') => self.after_value(),
                    (Phase::InString, b'\\') => Phase::StringEscape,
                    _ => Phase::InString,
                }
            }
            Phase::Nested => self.nested(byte),
            Phase::Scalar => match byte {
                b',' | b'}' => {
                    self.after_value();
                    self.at_top(Phase::AfterValue, byte)
                }
                _ if is_space(byte) => self.after_value(),
                b'"' | b':' | b'{' | b'[' | b']' => Phase::Lost,
                _ => {
                    if self.taking {
                        self.id.push(byte);
                    }
                    Phase::Scalar
                }
            },
            phase if is_space(byte) => phase,
            phase => self.at_top(phase, byte),
        };
    }

    /// A byte between the names and values at the top.
    fn at_top(&mut self, phase: Phase, byte: u8) -> Phase {
        match (phase, byte) {
            (Phase::Start, b'{') => {
                self.depth = 1;
                Phase::Key
            }
            (Phase::Key, b'"') => {
                self.key = Kept::new();
                self.key.push(byte);
                Phase::InKey
            }
            (Phase::Colon, b':') => {
                self.named();
                Phase::Value
            }
            (Phase::Value, b'{' | b'[') => {
                self.depth = 2;
                // Not an id: what was taken stays empty, which no id is.
                self.taking = false;
                Phase::Nested
            }
            (Phase::Value, b',' | b'}' | b']' | b':') => Phase::Lost,
            (Phase::Value, _) => {
                if self.taking {
                    self.id_at = self.length;
                    self.id.push(byte);
                }
                if byte == b'"' { Phase::InString } else { Phase::Scalar }
            }
            (Phase::AfterValue, b',') => Phase::Key,
            (Phase::Key | Phase::AfterValue, b'}') => {
                self.depth = 0;
                Phase::End
            }
            _ => Phase::Lost,
        }
    }

    /// Steps through what is nested, up to a string that is not all there or the end of the member at the top. Says how
    /// far it got.
    fn nested_run(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            at += match byte {
                b'"' => {
                    let inside = bytes.get(at + 1..).unwrap_or_default();
                    let run = string_run(inside);
                    if inside.get(run) != Some(&b'"') {
                        return at;
                    }
                    run + 2
                }
                b'{' | b'[' => {
                    self.depth += 1;
                    1
                }
                b'}' | b']' if self.depth == 2 => return at,
                b'}' | b']' => {
                    self.depth -= 1;
                    1
                }
                _ => 1,
            };
        }
        at
    }

    /// The byte at which [`Skim::nested_run`] stopped.
    fn nested(&mut self, byte: u8) -> Phase {
        if byte == b'"' {
            return Phase::InString;
        }
        self.depth = 1;
        self.after_value()
    }

    fn after_value(&mut self) -> Phase {
        self.taking = false;
        Phase::AfterValue
    }

    /// The name of a member is complete.
    fn named(&mut self) {
        let Some(key) = self.key.bytes() else { return };
        if str_eq(key, "id") {
            self.ids = self.ids.saturating_add(1);
            self.id = Kept::new();
            self.taking = true;
        } else if str_eq(key, "method") {
            self.method = true;
        } else if str_eq(key, "result") || str_eq(key, "error") {
            self.outcome = true;
        }
    }
}

/// Length of what is left of a string: up to its quote, to a backslash of which the next byte is not there yet, or to the
/// end.
fn string_run(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(rest) = bytes.get(at..) {
        // Most strings, and pieces between escapes, are too short to be worth the call.
        at += match rest.first_chunk().map(|word| ends(u64::from_le_bytes(*word))) {
            None | Some(0) => memchr2(b'"', b'\\', rest).unwrap_or(rest.len()),
            Some(ends) => first(ends),
        };
        if bytes.get(at) != Some(&b'\\') || at + 1 == bytes.len() {
            return at;
        }
        at += 2;
    }
    bytes.len()
}

/// The first bytes of something, and whether that was all of it.
#[derive(Clone, Copy)]
pub(crate) struct Kept<const N: usize> {
    bytes: [u8; N],
    length: usize,
    whole: bool,
}

impl<const N: usize> Kept<N> {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; N], length: 0, whole: true }
    }

    pub(crate) const fn clear(&mut self) {
        self.length = 0;
        self.whole = true;
    }

    fn push(&mut self, byte: u8) {
        self.extend(&[byte]);
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            let Some(slot) = self.bytes.get_mut(self.length) else {
                self.whole = false;
                return;
            };
            *slot = byte;
            self.length += 1;
        }
    }

    /// What was kept, be it all or not.
    pub(crate) fn kept(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// All of it, or `None` if it was too long.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        if self.whole { self.bytes.get(..self.length) } else { None }
    }
}
