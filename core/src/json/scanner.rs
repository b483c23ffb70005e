//! The grammar: steps over one value, string, number or member at a time, and says where it ends.
//!
//! Positions go in and come out; the caller decides what to do with what lies between. Nothing here recurses: open
//! arrays and objects are bits in [`Nest`].

use memchr::memchr2;

use super::{JsonError, JsonErrorKind, MAX_DEPTH};
use crate::span::Span;

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
const QUOTES: u64 = u64::from_le_bytes([b'"'; 8]);
const BACKSLASHES: u64 = u64::from_le_bytes([b'\\'; 8]);
const SPACES: u64 = u64::from_le_bytes([b' '; 8]);

/// Steps through a document and validates what it passes over, UTF-8 included.
#[derive(Clone, Debug)]
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    nest: Nest,
    error: JsonError,
}

/// The scan came to an end before its time: [`Scanner::error`] says why. It is kept there because that leaves a step
/// small enough to be answered in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed;

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
        let error = JsonError { kind: JsonErrorKind::Empty, offset: 0 };
        Self { bytes, nest: Nest::new(), error }
    }

    /// Why the last step failed.
    pub(crate) const fn error(&self) -> JsonError {
        self.error
    }

    #[cold]
    fn fail<T>(&mut self, kind: JsonErrorKind, at: usize) -> Result<T, Failed> {
        self.error = JsonError { kind, offset: u32::try_from(at).unwrap_or(u32::MAX) };
        Err(Failed)
    }

    /// A whole document.
    pub(crate) fn document(&mut self) -> Result<Span, Failed> {
        let start = self.open_document()?;
        let end = self.value(start)?;
        self.close_document(end)?;
        Ok(Span::new(start, end))
    }

    /// Where the value of the document starts.
    pub(crate) fn open_document(&mut self) -> Result<usize, Failed> {
        if self.bytes.len() > u32::MAX as usize {
            return self.fail(JsonErrorKind::TooLong, u32::MAX as usize);
        }
        let start = self.space(0);
        match self.bytes.get(start) {
            None => self.fail(JsonErrorKind::Empty, start),
            Some(0x80..) if starts_with_mark(self.bytes) => self.fail(JsonErrorKind::ByteOrderMark, 0),
            Some(_) => Ok(start),
        }
    }

    /// Checks that nothing follows the value that ended at `end`.
    pub(crate) fn close_document(&mut self, end: usize) -> Result<(), Failed> {
        let after = self.space(end);
        if after < self.bytes.len() {
            return self.fail(JsonErrorKind::TrailingBytes, after);
        }
        Ok(())
    }

    /// Notes that an object is open around what is scanned next, for callers that walk it member by member.
    pub(crate) fn enter_object(&mut self, at: usize) -> Result<(), Failed> {
        if self.nest.push(true) { Ok(()) } else { self.fail(JsonErrorKind::TooDeep, at) }
    }

    /// Undoes [`Scanner::enter_object`].
    pub(crate) fn leave_object(&mut self) {
        self.nest.pop();
    }

    /// The first member of an object; `at` is after its brace.
    #[inline]
    pub(crate) fn first_member(&mut self, at: usize) -> Result<Step, Failed> {
        let at = self.space(at);
        match self.bytes.get(at) {
            Some(b'}') => Ok(Step::End(at + 1)),
            _ => self.item(at),
        }
    }

    /// The member after the one whose value ended at `at`.
    #[inline]
    pub(crate) fn next_member(&mut self, at: usize) -> Result<Step, Failed> {
        let at = self.space(at);
        match self.bytes.get(at) {
            Some(b',') => {
                let at = self.space(at + 1);
                self.item(at)
            }
            Some(b'}') => Ok(Step::End(at + 1)),
            other => self.fail(expected(other, JsonErrorKind::ExpectedCommaOrEnd), at),
        }
    }

    /// The first element of an array; `at` is after its bracket.
    pub(crate) fn first_element(&mut self, at: usize) -> Result<Step, Failed> {
        let at = self.space(at);
        match self.bytes.get(at) {
            Some(b']') => Ok(Step::End(at + 1)),
            _ => Ok(Step::Item { key: Span::default(), value: at }),
        }
    }

    /// The element after the one that ended at `at`.
    pub(crate) fn next_element(&mut self, at: usize) -> Result<Step, Failed> {
        let at = self.space(at);
        match self.bytes.get(at) {
            Some(b',') => Ok(Step::Item { key: Span::default(), value: self.space(at + 1) }),
            Some(b']') => Ok(Step::End(at + 1)),
            other => self.fail(expected(other, JsonErrorKind::ExpectedCommaOrEnd), at),
        }
    }

    #[inline]
    fn item(&mut self, at: usize) -> Result<Step, Failed> {
        let key_end = self.key(at)?;
        let value = self.colon(key_end)?;
        Ok(Step::Item { key: Span::new(at, key_end), value })
    }

    /// The end of the value that starts at `at`, whatever is nested in it.
    pub(crate) fn value(&mut self, at: usize) -> Result<usize, Failed> {
        let outside = self.nest.depth;
        let mut at = at;
        'value: loop {
            match self.bytes.get(at) {
                Some(b'"') => at = self.string(at)?,
                Some(b'{') => {
                    if !self.nest.push(true) {
                        return self.fail(JsonErrorKind::TooDeep, at);
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
                        return self.fail(JsonErrorKind::TooDeep, at);
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
                other => return self.fail(expected(other, JsonErrorKind::ExpectedValue), at),
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
                    other => return self.fail(expected(other, JsonErrorKind::ExpectedCommaOrEnd), at),
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
    fn key(&mut self, at: usize) -> Result<usize, Failed> {
        match self.bytes.get(at) {
            Some(b'"') => self.string(at),
            other => self.fail(expected(other, JsonErrorKind::ExpectedKey), at),
        }
    }

    /// Where the value after the colon starts.
    #[inline]
    fn colon(&mut self, at: usize) -> Result<usize, Failed> {
        let at = self.space(at);
        match self.bytes.get(at) {
            Some(b':') => Ok(self.space(at + 1)),
            other => self.fail(expected(other, JsonErrorKind::ExpectedColon), at),
        }
    }

    /// The end of the string whose quote is at `at`.
    #[inline]
    fn string(&mut self, at: usize) -> Result<usize, Failed> {
        let at = at + 1;
        // Most names, and many values, end within the first word.
        if let Some(word) = self.word(at) {
            let end = at + first(stops(word));
            if self.bytes.get(end) == Some(&b'"') {
                return Ok(end + 1);
            }
        }
        self.string_rest(at)
    }

    /// The end of the string of which the next character is at `at`.
    fn string_rest(&mut self, mut at: usize) -> Result<usize, Failed> {
        let mut quiet = 0;
        'words: while let Some(word) = self.word(at) {
            let mut stops = stops(word);
            if stops == 0 {
                at += 8;
                quiet += 1;
                if quiet == SHORT {
                    quiet = 0;
                    at += plain_run(self.bytes.get(at..).unwrap_or_default());
                }
                continue;
            }
            quiet = 0;
            // All stops of the word in turn: where the next word is does not depend on what they are, so the processor
            // can look ahead.
            while stops != 0 {
                let place = first(stops);
                let stop = at + place;
                match self.bytes.get(stop) {
                    Some(b'"') => return Ok(stop + 1),
                    Some(b'\\') if self.bytes.get(stop + 1).is_some_and(|&byte| is_escape(byte)) => {
                        if place == 7 {
                            at += 9;
                            continue 'words;
                        }
                        stops &= u64::MAX << (8 * place) << 16;
                    }
                    Some(b'\\') => {
                        at = self.escape(stop)?;
                        continue 'words;
                    }
                    Some(0x80..) => {
                        at = self.characters(stop)?;
                        continue 'words;
                    }
                    Some(0..0x20) => return self.fail(JsonErrorKind::ControlCharacter, stop),
                    // Only a borrow.
                    _ => stops &= stops - 1,
                }
            }
            at += 8;
        }
        loop {
            match self.bytes.get(at) {
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') => at = self.escape(at)?,
                Some(0x80..) => at = self.characters(at)?,
                Some(0..0x20) => return self.fail(JsonErrorKind::ControlCharacter, at),
                Some(_) => at += 1,
                None => return self.fail(JsonErrorKind::UnexpectedEnd, at),
            }
        }
    }

    #[inline]
    fn word(&self, at: usize) -> Option<u64> {
        self.bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    /// The end of the characters past ASCII that start at `at`.
    fn characters(&mut self, mut at: usize) -> Result<usize, Failed> {
        let mut rest = self.bytes.get(at..).unwrap_or_default();
        loop {
            // The well-formed sequences of RFC 3629, section 4.
            let length = match *rest {
                [0xc2..=0xdf, 0x80..=0xbf, ..] => 2,
                [0xe0, 0xa0..=0xbf, 0x80..=0xbf, ..]
                | [0xe1..=0xec | 0xee | 0xef, 0x80..=0xbf, 0x80..=0xbf, ..]
                | [0xed, 0x80..=0x9f, 0x80..=0xbf, ..] => 3,
                [0xf0, 0x90..=0xbf, 0x80..=0xbf, 0x80..=0xbf, ..]
                | [0xf1..=0xf3, 0x80..=0xbf, 0x80..=0xbf, 0x80..=0xbf, ..]
                | [0xf4, 0x80..=0x8f, 0x80..=0xbf, 0x80..=0xbf, ..] => 4,
                [0x80..=0xff, ..] => return self.fail(JsonErrorKind::InvalidUtf8, at),
                _ => return Ok(at),
            };
            at += length;
            rest = rest.get(length..).unwrap_or_default();
        }
    }

    /// The end of the escape whose backslash is at `at`.
    fn escape(&mut self, at: usize) -> Result<usize, Failed> {
        match self.bytes.get(at + 1) {
            Some(&byte) if is_escape(byte) => Ok(at + 2),
            Some(b'u') => self.unicode_escape(at),
            other => self.fail(expected(other, JsonErrorKind::InvalidEscape), at),
        }
    }

    fn unicode_escape(&mut self, at: usize) -> Result<usize, Failed> {
        let escape = self.bytes.get(at + 1..).unwrap_or_default();
        if let Some((_, length)) = escaped_char(escape) {
            return Ok(at + 1 + length);
        }
        match escape.get(1..).and_then(hex) {
            Some(_) => self.fail(JsonErrorKind::LoneSurrogate, at),
            None if escape.len() < 5 && escape.iter().skip(1).all(u8::is_ascii_hexdigit) => {
                self.fail(JsonErrorKind::UnexpectedEnd, self.bytes.len())
            }
            None => self.fail(JsonErrorKind::InvalidEscape, at),
        }
    }

    #[inline]
    fn number(&mut self, at: usize) -> Result<usize, Failed> {
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
    fn digits(&mut self, at: usize) -> Result<usize, Failed> {
        let mut end = at;
        while let Some(b'0'..=b'9') = self.bytes.get(end) {
            end += 1;
        }
        if end > at {
            Ok(end)
        } else {
            self.fail(expected(self.bytes.get(at), JsonErrorKind::InvalidNumber), at)
        }
    }

    #[inline]
    fn literal<const N: usize>(&mut self, at: usize, text: &[u8; N]) -> Result<usize, Failed> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        if rest.first_chunk() == Some(text) {
            return Ok(at + N);
        }
        if text.starts_with(rest) {
            self.fail(JsonErrorKind::UnexpectedEnd, self.bytes.len())
        } else {
            self.fail(JsonErrorKind::ExpectedValue, at)
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
            if !(0xdc00..0xe000).contains(&second) {
                return None;
            }
            // Two low ones come out past the last character.
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

/// How many words are looked at one by one before a string counts as long.
const SHORT: usize = 4;

/// How far a long string is searched at a time: bounds what is searched again behind a byte past ASCII.
const WINDOW: usize = 512;

/// Length of what stands for itself at the start of `rest`.
fn plain_run(rest: &[u8]) -> usize {
    let mut length = 0;
    for window in rest.chunks(WINDOW) {
        let end = memchr2(b'"', b'\\', window).unwrap_or(window.len());
        let run = window.get(..end).unwrap_or(window);
        // Without a way out of the loop, this is done in vectors.
        let odd = |bytes: &[u8]| bytes.iter().fold(false, |odd, &byte| odd | is_odd(byte));
        if odd(run) {
            return length + run.iter().take_while(|&&byte| !is_odd(byte)).count();
        }
        length += run.len();
        if run.len() < window.len() {
            break;
        }
    }
    length
}

/// Control characters, and bytes past ASCII: those are negative.
#[inline]
const fn is_odd(byte: u8) -> bool {
    byte.cast_signed() < 0x20
}

/// The escapes of one character.
#[inline]
const fn is_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')
}

/// Which byte of the word the lowest bit is in; 8 if there is none.
#[inline]
pub(crate) const fn first(bits: u64) -> usize {
    (bits.trailing_zeros() / 8) as usize
}

/// The high bit of each quote and backslash. Exact up to the first one; a borrow may set bits above it.
#[inline]
pub(crate) const fn ends(word: u64) -> u64 {
    (zeros(word ^ QUOTES) | zeros(word ^ BACKSLASHES)) & !word
}

/// The high bit of each byte of a string that does not just stand for itself: quotes, backslashes, control characters,
/// bytes past ASCII. As exact as [`ends`].
#[inline]
pub(crate) const fn stops(word: u64) -> u64 {
    zeros(word ^ QUOTES) | zeros(word ^ BACKSLASHES) | word.wrapping_sub(SPACES) & HIGHS | word & HIGHS
}

/// The high bit of each byte that is zero, and of some past ASCII. As exact as [`ends`].
#[inline]
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & HIGHS
}

/// Marks of UTF-8 and, to give the right hint, of UTF-16.
fn starts_with_mark(bytes: &[u8]) -> bool {
    let marks: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];
    marks.iter().any(|mark| bytes.starts_with(mark))
}

fn expected(found: Option<&u8>, kind: JsonErrorKind) -> JsonErrorKind {
    if found.is_some() { kind } else { JsonErrorKind::UnexpectedEnd }
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
