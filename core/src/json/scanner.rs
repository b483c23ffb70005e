//! The grammar: steps over one value, string, number or member at a time, and says where it ends.
//!
//! Positions go in and come out; the caller decides what to do with what lies between. Nothing here recurses: open
//! arrays and objects are bits in [`Nest`].

use super::{JsonError, JsonErrorKind, MAX_DEPTH};
use crate::span::Span;

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);

/// Validates as it goes, except for UTF-8: it only notes whether there was a byte past ASCII, so that a single
/// pass at the end ([`Scanner::close_document`]) can be skipped for most messages.
#[derive(Clone, Debug)]
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    /// Or of all words seen in strings.
    seen: u64,
    nest: Nest,
}

/// What the next step in an array or object came to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A value starts at `value`; in an object `key` is its name with the quotes, in an array it is empty.
    Item { key: Span, value: usize },
    /// The array or object ended before this position.
    End(usize),
}

impl<'a> Scanner<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, seen: 0, nest: Nest::new() }
    }

    /// Where the value of the document starts.
    pub(crate) fn open_document(&self) -> Result<usize, JsonError> {
        if self.bytes.len() > u32::MAX as usize {
            return fail(JsonErrorKind::TooLong, u32::MAX as usize);
        }
        let start = self.space(0);
        match self.bytes.get(start) {
            None => fail(JsonErrorKind::Empty, start),
            Some(0x80..) if starts_with_mark(self.bytes) => fail(JsonErrorKind::ByteOrderMark, 0),
            Some(_) => Ok(start),
        }
    }

    /// Checks that nothing follows the value that ended at `end`, and that all was UTF-8.
    pub(crate) fn close_document(&self, end: usize) -> Result<(), JsonError> {
        let after = self.space(end);
        if after < self.bytes.len() {
            return fail(JsonErrorKind::TrailingBytes, after);
        }
        if self.seen & HIGHS != 0
            && let Err(error) = core::str::from_utf8(self.bytes)
        {
            return fail(JsonErrorKind::InvalidUtf8, error.valid_up_to());
        }
        Ok(())
    }

    /// Notes that an object is open around what is scanned next, for callers that walk it member by member.
    pub(crate) fn enter_object(&mut self, at: usize) -> Result<(), JsonError> {
        if self.nest.push(true) { Ok(()) } else { fail(JsonErrorKind::TooDeep, at) }
    }

    /// Undoes [`Scanner::enter_object`].
    pub(crate) fn leave_object(&mut self) {
        self.nest.pop();
    }

    /// The first member of an object; `at` is after its brace.
    #[inline]
    pub(crate) fn first_member(&mut self, at: usize) -> Result<Step, JsonError> {
        let at = self.space(at);
        match self.bytes.get(at) {
            Some(b'}') => Ok(Step::End(at + 1)),
            _ => self.item(at),
        }
    }

    /// The member after the one whose value ended at `at`.
    #[inline]
    pub(crate) fn next_member(&mut self, at: usize) -> Result<Step, JsonError> {
        let at = self.space(at);
        match self.bytes.get(at) {
            Some(b',') => {
                let at = self.space(at + 1);
                self.item(at)
            }
            Some(b'}') => Ok(Step::End(at + 1)),
            other => fail(expected(other, JsonErrorKind::ExpectedCommaOrEnd), at),
        }
    }

    /// The first element of an array; `at` is after its bracket.
    pub(crate) fn first_element(&mut self, at: usize) -> Result<Step, JsonError> {
        let at = self.space(at);
        match self.bytes.get(at) {
            Some(b']') => Ok(Step::End(at + 1)),
            _ => Ok(Step::Item { key: Span::default(), value: at }),
        }
    }

    /// The element after the one that ended at `at`.
    pub(crate) fn next_element(&mut self, at: usize) -> Result<Step, JsonError> {
        let at = self.space(at);
        match self.bytes.get(at) {
            Some(b',') => Ok(Step::Item { key: Span::default(), value: self.space(at + 1) }),
            Some(b']') => Ok(Step::End(at + 1)),
            other => fail(expected(other, JsonErrorKind::ExpectedCommaOrEnd), at),
        }
    }

    #[inline]
    fn item(&mut self, at: usize) -> Result<Step, JsonError> {
        let key_end = self.key(at)?;
        let value = self.colon(key_end)?;
        Ok(Step::Item { key: Span::new(at, key_end), value })
    }

    /// The end of the value that starts at `at`, whatever is nested in it.
    pub(crate) fn value(&mut self, at: usize) -> Result<usize, JsonError> {
        let outside = self.nest.depth;
        let mut at = at;
        'value: loop {
            match self.bytes.get(at) {
                Some(b'"') => at = self.string(at)?,
                Some(b'{') => {
                    if !self.nest.push(true) {
                        return fail(JsonErrorKind::TooDeep, at);
                    }
                    at = self.space(at + 1);
                    if self.bytes.get(at) == Some(&b'}') {
                        self.nest.pop();
                        at += 1;
                    } else {
                        at = self.key(at)?;
                        at = self.colon(at)?;
                        continue 'value;
                    }
                }
                Some(b'[') => {
                    if !self.nest.push(false) {
                        return fail(JsonErrorKind::TooDeep, at);
                    }
                    at = self.space(at + 1);
                    if self.bytes.get(at) == Some(&b']') {
                        self.nest.pop();
                        at += 1;
                    } else {
                        continue 'value;
                    }
                }
                Some(b'-' | b'0'..=b'9') => at = self.number(at)?,
                Some(b't') => at = self.literal(at, b"true")?,
                Some(b'f') => at = self.literal(at, b"false")?,
                Some(b'n') => at = self.literal(at, b"null")?,
                other => return fail(expected(other, JsonErrorKind::ExpectedValue), at),
            }
            // A value ended at `at`; so may the arrays and objects around it.
            loop {
                if self.nest.depth == outside {
                    return Ok(at);
                }
                at = self.space(at);
                match self.bytes.get(at) {
                    Some(b',') => {
                        at = self.space(at + 1);
                        if self.nest.in_object() {
                            at = self.key(at)?;
                            at = self.colon(at)?;
                        }
                        continue 'value;
                    }
                    Some(b'}') if self.nest.in_object() => {}
                    Some(b']') if !self.nest.in_object() => {}
                    other => return fail(expected(other, JsonErrorKind::ExpectedCommaOrEnd), at),
                }
                self.nest.pop();
                at += 1;
            }
        }
    }

    /// The position of the first byte at or after `at` that is not white space.
    #[inline]
    pub(crate) fn space(&self, mut at: usize) -> usize {
        while let Some(&byte) = self.bytes.get(at) {
            if byte > b' ' || !is_space(byte) {
                break;
            }
            at += 1;
        }
        at
    }

    #[inline]
    fn key(&mut self, at: usize) -> Result<usize, JsonError> {
        match self.bytes.get(at) {
            Some(b'"') => self.string(at),
            other => fail(expected(other, JsonErrorKind::ExpectedKey), at),
        }
    }

    /// Where the value after the colon starts.
    #[inline]
    fn colon(&self, at: usize) -> Result<usize, JsonError> {
        let at = self.space(at);
        match self.bytes.get(at) {
            Some(b':') => Ok(self.space(at + 1)),
            other => fail(expected(other, JsonErrorKind::ExpectedColon), at),
        }
    }

    /// The end of the string whose quote is at `at`.
    #[inline]
    fn string(&mut self, at: usize) -> Result<usize, JsonError> {
        let mut at = at + 1;
        loop {
            at = self.plain(at);
            match self.bytes.get(at) {
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') => at = self.escape(at)?,
                Some(_) => return fail(JsonErrorKind::ControlCharacter, at),
                None => return fail(JsonErrorKind::UnexpectedEnd, at),
            }
        }
    }

    /// Skips what stands for itself in a string: up to a quote, backslash, control character, or the end.
    #[inline]
    fn plain(&mut self, mut at: usize) -> usize {
        let mut rest = self.bytes.get(at..).unwrap_or_default();
        while let Some((word, after)) = rest.split_first_chunk::<8>() {
            let word = u64::from_le_bytes(*word);
            self.seen |= word;
            let stops = stops(word);
            if stops != 0 {
                return at + (stops.trailing_zeros() / 8) as usize;
            }
            at += 8;
            rest = after;
        }
        for &byte in rest {
            self.seen |= u64::from(byte);
            if byte < b' ' || byte == b'"' || byte == b'\\' {
                break;
            }
            at += 1;
        }
        at
    }

    /// The end of the escape whose backslash is at `at`.
    #[inline]
    fn escape(&self, at: usize) -> Result<usize, JsonError> {
        match self.bytes.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
            Some(b'u') => self.unicode_escape(at),
            other => fail(expected(other, JsonErrorKind::InvalidEscape), at),
        }
    }

    fn unicode_escape(&self, at: usize) -> Result<usize, JsonError> {
        let escape = self.bytes.get(at + 1..).unwrap_or_default();
        if let Some((_, length)) = escaped_char(escape) {
            return Ok(at + 1 + length);
        }
        match escape.get(1..).and_then(hex) {
            Some(_) => fail(JsonErrorKind::LoneSurrogate, at),
            None if escape.len() < 5 && escape.iter().skip(1).all(u8::is_ascii_hexdigit) => {
                fail(JsonErrorKind::UnexpectedEnd, self.bytes.len())
            }
            None => fail(JsonErrorKind::InvalidEscape, at),
        }
    }

    #[inline]
    fn number(&self, at: usize) -> Result<usize, JsonError> {
        let mut at = if self.bytes.get(at) == Some(&b'-') { at + 1 } else { at };
        if self.bytes.get(at) == Some(&b'0') {
            at += 1;
        } else {
            at = self.digits(at)?;
        }
        if self.bytes.get(at) == Some(&b'.') {
            at = self.digits(at + 1)?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(at) {
            at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(at) {
                at += 1;
            }
            at = self.digits(at)?;
        }
        Ok(at)
    }

    /// At least one digit.
    #[inline]
    fn digits(&self, at: usize) -> Result<usize, JsonError> {
        let mut end = at;
        while let Some(b'0'..=b'9') = self.bytes.get(end) {
            end += 1;
        }
        if end > at { Ok(end) } else { fail(expected(self.bytes.get(at), JsonErrorKind::InvalidNumber), at) }
    }

    #[inline]
    fn literal<const N: usize>(&self, at: usize, text: &[u8; N]) -> Result<usize, JsonError> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        if rest.first_chunk() == Some(text) {
            return Ok(at + N);
        }
        if text.starts_with(rest) {
            fail(JsonErrorKind::UnexpectedEnd, self.bytes.len())
        } else {
            fail(JsonErrorKind::ExpectedValue, at)
        }
    }
}

/// White space as JSON knows it.
#[inline]
pub(crate) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The character that an escape stands for, and its length; `escape` starts after the backslash.
pub(super) fn escaped_char(escape: &[u8]) -> Option<(char, usize)> {
    let (&kind, rest) = escape.split_first()?;
    let char = match kind {
        b'"' | b'\\' | b'/' => char::from(kind),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let first = hex(rest)?;
            if let Some(char) = char::from_u32(first) {
                return Some((char, 5));
            }
            // A high surrogate (D800 to DBFF) counts only with a low one (DC00 to DFFF) right behind it.
            let second = hex(rest.get(4..)?.strip_prefix(b"\\u")?)?;
            if first >= 0xdc00 || !(0xdc00..0xe000).contains(&second) {
                return None;
            }
            let char = char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))?;
            return Some((char, 11));
        }
        _ => return None,
    };
    Some((char, 1))
}

/// The value of the first four bytes as hexadecimal digits.
fn hex(digits: &[u8]) -> Option<u32> {
    digits
        .first_chunk::<4>()?
        .iter()
        .try_fold(0, |value, &digit| Some(value * 16 + char::from(digit).to_digit(16)?))
}

/// The high bit of each byte that cannot stand for itself in a string. Exact up to the first such byte; a borrow may
/// set bits above it.
#[inline]
const fn stops(word: u64) -> u64 {
    const QUOTES: u64 = u64::from_le_bytes([b'"'; 8]);
    const BACKSLASHES: u64 = u64::from_le_bytes([b'\\'; 8]);
    const SPACES: u64 = u64::from_le_bytes([b' '; 8]);
    let quote = (word ^ QUOTES).wrapping_sub(ONES);
    let backslash = (word ^ BACKSLASHES).wrapping_sub(ONES);
    let control = word.wrapping_sub(SPACES);
    (quote | backslash | control) & !word & HIGHS
}

/// Marks of UTF-8 and, to give the right hint, of UTF-16.
fn starts_with_mark(bytes: &[u8]) -> bool {
    let marks: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];
    marks.iter().any(|mark| bytes.starts_with(mark))
}

fn expected(found: Option<&u8>, kind: JsonErrorKind) -> JsonErrorKind {
    if found.is_some() { kind } else { JsonErrorKind::UnexpectedEnd }
}

#[cold]
fn fail<T>(kind: JsonErrorKind, at: usize) -> Result<T, JsonError> {
    Err(JsonError { kind, offset: u32::try_from(at).unwrap_or(u32::MAX) })
}

/// Which of the open arrays and objects are objects: one bit for each, the innermost in the lowest bit of `top`.
#[derive(Clone, Debug)]
struct Nest {
    depth: usize,
    top: u64,
    /// Full words of 64 levels below `top`.
    below: [u64; MAX_DEPTH / 64],
}

impl Nest {
    const fn new() -> Self {
        Self { depth: 0, top: 0, below: [0; MAX_DEPTH / 64] }
    }

    const fn in_object(&self) -> bool {
        self.top & 1 != 0
    }

    /// False if there is no room for another one.
    #[inline]
    fn push(&mut self, object: bool) -> bool {
        if self.depth.is_multiple_of(64) {
            let Some(word) = self.below.get_mut(self.depth / 64) else { return false };
            *word = self.top;
        }
        self.top = self.top << 1 | u64::from(object);
        self.depth += 1;
        true
    }

    #[inline]
    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.top >>= 1;
        if self.depth.is_multiple_of(64) {
            self.top = self.below.get(self.depth / 64).copied().unwrap_or_default();
        }
    }
}
