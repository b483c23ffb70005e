//! Strict JSON over raw bytes: one scan that validates a document, then cheap walks over what was validated.
//!
//! Owns the grammar (RFC 8259, exactly what `serde_json` accepts, minus lone surrogates and excessive depth) and the
//! comparison of strings after unescaping. It never builds a tree, never recurses (a bit stack bounds the depth), never
//! allocates and never changes a byte: all it gives are spans.
//!
//! The walks ([`members`], [`elements`], [`member`]) are meant for spans of a document that [`scan`] accepted. Given
//! anything else they end early; they neither panic nor loop.

use core::cmp::Ordering;
use core::fmt;

use crate::span::Span;

mod scanner;
#[cfg(test)]
mod tests;

pub(crate) use scanner::{Failed, Scanner, Step, ends, first, is_space, stops};

/// How many arrays and objects may be open at once.
pub const MAX_DEPTH: usize = 1024;

/// What is wrong with a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// There is nothing but white space.
    Empty,
    /// It starts with a byte-order mark, which JSON on the wire must not have (RFC 8259, section 8.1).
    ByteOrderMark,
    /// It ends inside of a value.
    UnexpectedEnd,
    /// A value must start here.
    ExpectedValue,
    /// A quoted member name must start here.
    ExpectedKey,
    /// A colon must follow the member name.
    ExpectedColon,
    /// A comma or the end of the array or object must follow.
    ExpectedCommaOrEnd,
    /// Something follows the document.
    TrailingBytes,
    /// A number is malformed.
    InvalidNumber,
    /// A control character stands unescaped in a string.
    ControlCharacter,
    /// An escape sequence does not exist or is cut short.
    InvalidEscape,
    /// A `\u` escape is one half of a surrogate pair without the other: it stands for no character.
    LoneSurrogate,
    /// The bytes are not UTF-8.
    InvalidUtf8,
    /// More than [`MAX_DEPTH`] arrays and objects are open at once.
    TooDeep,
    /// Longer than a [`Span`] can say (4 GiB).
    TooLong,
}

impl fmt::Display for JsonErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "no JSON value",
            Self::ByteOrderMark => "a byte-order mark before the JSON text",
            Self::UnexpectedEnd => "the JSON text ends too early",
            Self::ExpectedValue => "expected a JSON value",
            Self::ExpectedKey => "expected a quoted member name",
            Self::ExpectedColon => "expected a colon after the member name",
            Self::ExpectedCommaOrEnd => "expected a comma or the end of the array or object",
            Self::TrailingBytes => "something follows the JSON value",
            Self::InvalidNumber => "malformed number",
            Self::ControlCharacter => "unescaped control character in a string",
            Self::InvalidEscape => "invalid escape sequence in a string",
            Self::LoneSurrogate => {
                "a lone surrogate in a \\u escape of a string (some text was cut inside of a character)"
            }
            Self::InvalidUtf8 => "invalid UTF-8",
            Self::TooDeep => "nested too deeply",
            Self::TooLong => "too long",
        })
    }
}

/// A document that is not JSON: what is wrong, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct JsonError {
    /// What is wrong.
    pub kind: JsonErrorKind,
    /// Byte position of the fault.
    pub offset: u32,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind, self.offset)
    }
}

impl core::error::Error for JsonError {}

/// Validates a whole document and gives the span of its value, without the white space around it.
///
/// # Errors
/// Whatever is not one JSON value in UTF-8, see [`JsonErrorKind`].
pub fn scan(bytes: &[u8]) -> Result<Span, JsonError> {
    let mut scanner = Scanner::new(bytes);
    scanner.document().map_err(|Failed| scanner.error())
}

/// A member of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// The name, with its quotes.
    pub key: Span,
    /// The value.
    pub value: Span,
}

/// Iterator over the members of an object, see [`members`].
#[derive(Clone, Debug)]
pub struct Members<'a> {
    walk: Walk<'a>,
}

/// The members of `object` in the order in which they stand there; none if it is not an object.
#[must_use]
pub fn members(bytes: &[u8], object: Span) -> Members<'_> {
    Members { walk: Walk::new(bytes, object, b'{') }
}

impl Iterator for Members<'_> {
    type Item = Member;

    fn next(&mut self) -> Option<Member> {
        let (key, value) = self.walk.advance(Scanner::first_member, Scanner::next_member)?;
        Some(Member { key, value })
    }
}

impl core::iter::FusedIterator for Members<'_> {}

/// The value of the first member of `object` that is called `name` (compared after unescaping).
#[must_use]
pub fn member(bytes: &[u8], object: Span, name: &str) -> Option<Span> {
    members(bytes, object).find(|member| str_eq(member.key.of(bytes), name)).map(|member| member.value)
}

/// The same, unless a member called `or` comes before it, the value of which is not looked at.
pub(crate) fn member_unless(bytes: &[u8], object: Span, name: &str, or: &str) -> Option<Span> {
    let mut walk = Walk::new(bytes, object, b'{');
    loop {
        let (key, start) = walk.open(Scanner::first_member, Scanner::next_member)?;
        if str_eq(key.of(bytes), or) {
            return None;
        }
        let value = walk.close(start)?;
        if str_eq(key.of(bytes), name) {
            return Some(value);
        }
    }
}

/// Iterator over the elements of an array, see [`elements`].
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    walk: Walk<'a>,
}

/// The elements of `array` in order; none if it is not an array.
#[must_use]
pub fn elements(bytes: &[u8], array: Span) -> Elements<'_> {
    Elements { walk: Walk::new(bytes, array, b'[') }
}

impl Iterator for Elements<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        let (_, value) = self.walk.advance(Scanner::first_element, Scanner::next_element)?;
        Some(value)
    }
}

impl core::iter::FusedIterator for Elements<'_> {}

type Advance<'a> = fn(&mut Scanner<'a>, usize) -> Result<Step, Failed>;

/// Where a walk over an array or object stands.
#[derive(Clone, Debug)]
struct Walk<'a> {
    scanner: Scanner<'a>,
    at: usize,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    First,
    Next,
    Done,
}

/// The elements of `array` that come after `last`, which is one of them.
#[must_use]
pub fn elements_after(bytes: &[u8], array: Span, last: Span) -> Elements<'_> {
    let mut walk = Walk::new(bytes, array, b'[');
    if !matches!(walk.stage, Stage::Done) {
        (walk.at, walk.stage) = (last.end(), Stage::Next);
    }
    Elements { walk }
}

impl<'a> Walk<'a> {
    fn new(bytes: &'a [u8], container: Span, opening: u8) -> Self {
        // Cut at the end of the container: a walk never leaves the span that it was given.
        let inside = bytes.get(..container.end()).unwrap_or_default();
        let opened = inside.get(container.start()) == Some(&opening);
        Self {
            scanner: Scanner::new(inside),
            at: container.start().saturating_add(1),
            stage: if opened { Stage::First } else { Stage::Done },
        }
    }

    fn advance(&mut self, first: Advance<'a>, next: Advance<'a>) -> Option<(Span, Span)> {
        let (key, start) = self.open(first, next)?;
        Some((key, self.close(start)?))
    }

    /// The key of what comes next, and where its value starts.
    fn open(&mut self, first: Advance<'a>, next: Advance<'a>) -> Option<(Span, usize)> {
        let step = match self.stage {
            Stage::First => first(&mut self.scanner, self.at),
            Stage::Next => next(&mut self.scanner, self.at),
            Stage::Done => return None,
        };
        self.stage = Stage::Done;
        match step {
            Ok(Step::Item { key, value }) => Some((key, value)),
            _ => None,
        }
    }

    /// The value that starts there.
    fn close(&mut self, start: usize) -> Option<Span> {
        let end = self.scanner.value(start).ok()?;
        self.stage = Stage::Next;
        self.at = end;
        Some(Span::new(start, end))
    }
}

/// Whether `raw`, a JSON string with its quotes, stands for `text`. False for anything that is not a string.
#[must_use]
pub fn str_eq(raw: &[u8], text: &str) -> bool {
    let Some(inner) = between_quotes(raw) else { return false };
    // What is escaped is longer than what it stands for, and hardly anything is.
    match inner.len().cmp(&text.len()) {
        Ordering::Less => return false,
        Ordering::Equal => return inner == text.as_bytes() && are_plain(inner),
        // Where they first differ an escape begins, or they are not the same.
        Ordering::Greater if inner.get(alike(inner, text.as_bytes())) != Some(&b'\\') => return false,
        Ordering::Greater => {}
    }
    let mut rest = text.as_bytes();
    let mut units = Units { inner };
    loop {
        let mut encoded = [0; 4];
        let unit = match units.next_unit() {
            Next::End => return rest.is_empty(),
            Next::Invalid => return false,
            Next::Byte(byte) => {
                encoded = [byte, 0, 0, 0];
                encoded.get(..1).unwrap_or_default()
            }
            Next::Char(char) => char.encode_utf8(&mut encoded).as_bytes(),
        };
        match rest.strip_prefix(unit) {
            Some(after) => rest = after,
            None => return false,
        }
    }
}

/// Unescapes `raw`, a JSON string with its quotes, into `out`. `None` if it is not a string or does not fit.
#[must_use]
pub fn unescape<'b>(raw: &[u8], out: &'b mut [u8]) -> Option<&'b str> {
    let mut units = Units { inner: between_quotes(raw)? };
    let mut length = 0usize;
    loop {
        match units.next_unit() {
            Next::End => break,
            Next::Invalid => return None,
            Next::Byte(byte) => {
                *out.get_mut(length)? = byte;
                length += 1;
            }
            Next::Char(char) => {
                let mut encoded = [0; 4];
                for &byte in char.encode_utf8(&mut encoded).as_bytes() {
                    *out.get_mut(length)? = byte;
                    length += 1;
                }
            }
        }
    }
    core::str::from_utf8(out.get(..length)?).ok()
}

/// The bytes of what `raw`, a JSON string with its quotes, stands for. They end early where it is no JSON string.
pub fn text(raw: &[u8]) -> Text<'_> {
    Text {
        units: Units { inner: between_quotes(raw).unwrap_or_default() },
        encoded: [0; 4],
        at: 0,
        length: 0,
    }
}

/// Whether two JSON strings stand for the same text.
pub(crate) fn same_text(one: &[u8], other: &[u8]) -> bool {
    one == other || text(one).eq(text(other))
}

/// Iterator over the bytes of a text, see [`text`].
#[derive(Clone, Debug)]
pub struct Text<'a> {
    units: Units<'a>,
    /// The character of an escape: what is left of it is `at..length`.
    encoded: [u8; 4],
    at: usize,
    length: usize,
}

impl Iterator for Text<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if self.at == self.length {
            match self.units.next_unit() {
                Next::End | Next::Invalid => return None,
                Next::Byte(byte) => return Some(byte),
                Next::Char(char) => {
                    self.at = 0;
                    self.length = char.encode_utf8(&mut self.encoded).len();
                }
            }
        }
        let byte = self.encoded.get(self.at).copied();
        self.at += 1;
        byte
    }
}

/// The number `raw` if it is an integer, written without fraction and exponent, that fits.
#[must_use]
pub fn as_u64(raw: &[u8]) -> Option<u64> {
    // No leading zero: that is not a JSON number.
    if raw == b"0" {
        return Some(0);
    }
    if !matches!(raw.first(), Some(b'1'..=b'9')) {
        return None;
    }
    raw.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The number `raw` if it is an integer, written without fraction and exponent, that fits. `-0` is none: it stands for
/// a number that no integer is.
#[must_use]
pub fn as_i64(raw: &[u8]) -> Option<i64> {
    match raw.strip_prefix(b"-") {
        Some(b"0") => None,
        Some(digits) => 0i64.checked_sub_unsigned(as_u64(digits)?),
        None => i64::try_from(as_u64(raw)?).ok(),
    }
}

/// Whether the value `raw` is an object.
#[must_use]
pub fn is_object(raw: &[u8]) -> bool {
    raw.first() == Some(&b'{')
}

/// Whether the value `raw` is an array.
#[must_use]
pub fn is_array(raw: &[u8]) -> bool {
    raw.first() == Some(&b'[')
}

/// Whether the value `raw` is a string.
#[must_use]
pub fn is_string(raw: &[u8]) -> bool {
    raw.first() == Some(&b'"')
}

/// Whether `raw` is written as an integer of any size: digits without leading zeros, fraction or exponent.
#[must_use]
pub fn is_integer(raw: &[u8]) -> bool {
    match raw.strip_prefix(b"-").unwrap_or(raw) {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Whether a byte of a string stands for itself.
const fn is_plain(byte: u8) -> bool {
    byte >= b' ' && byte != b'"' && byte != b'\\'
}

/// Whether all of them do.
fn are_plain(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let plain = |bytes: &[u8]| bytes.iter().all(|&byte| is_plain(byte));
    words.iter().all(|word| stops(u64::from_le_bytes(*word)) == 0 || plain(word)) && plain(rest)
}

/// How many bytes both begin with, up to a backslash. Names often differ in their ends only.
fn alike(one: &[u8], other: &[u8]) -> usize {
    let words = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    let words = words.take_while(|(one, other)| one == other && ends(u64::from_le_bytes(**one)) == 0);
    let start = words.count().saturating_mul(8);
    let rest = |bytes| <[u8]>::get(bytes, start..).unwrap_or_default().iter();
    let bytes = rest(one).zip(rest(other)).take_while(|(one, other)| one == other && **one != b'\\');
    start.saturating_add(bytes.count())
}

fn between_quotes(raw: &[u8]) -> Option<&[u8]> {
    raw.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// Reads the inside of a string one byte or one escape at a time.
#[derive(Clone, Debug)]
struct Units<'a> {
    inner: &'a [u8],
}

enum Next {
    End,
    Invalid,
    Byte(u8),
    Char(char),
}

impl Units<'_> {
    fn next_unit(&mut self) -> Next {
        match *self.inner {
            [] => Next::End,
            [b'\\', ref escape @ ..] => {
                let Some((char, length)) = scanner::escaped_char(escape) else { return Next::Invalid };
                self.inner = escape.get(length..).unwrap_or_default();
                Next::Char(char)
            }
            // An unescaped quote would mean that the string had ended before.
            [b'"' | 0..0x20, ..] => Next::Invalid,
            [byte, ref rest @ ..] => {
                self.inner = rest;
                Next::Byte(byte)
            }
        }
    }
}
