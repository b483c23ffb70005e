//! What is searched for, and a test of raw JSON that tells quickly where it cannot be.
//!
//! The test is sound: where it says no, no string of the JSON holds a match. It looks for text that every match has,
//! spelled as JSON spells it without need, and for escapes that could spell it otherwise.

use std::ops::Range;

use memchr::memmem;
use regex::bytes;
use regex::{Regex, RegexBuilder};
use regex_syntax::hir::Hir;
use regex_syntax::hir::literal::{ExtractKind, Extractor, Seq};

/// More alternatives than this are not worth looking for.
const MAX_LITERALS: usize = 64;

/// How a pattern is meant. The default is a text as it stands, in whatever case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PatternKind {
    /// It is a regular expression.
    pub regex: bool,
    /// `A` is not `a`.
    pub case_sensitive: bool,
}

/// A pattern that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is not a regular expression.
    #[error("`{pattern}` is not a regular expression: {what}")]
    Syntax {
        /// As it was given.
        pattern: String,
        /// What is wrong with it.
        what: String,
    },
    /// To look for it would take too much memory.
    #[error("the pattern is too large")]
    TooLarge,
}

/// Something to look for in texts. Takes time linear in the length of a text, whatever the pattern.
#[derive(Debug)]
pub struct Pattern {
    regex: Regex,
    raw: Option<Raw>,
    /// The expression itself, for raw lines, where no text tells where it cannot match.
    lines: Option<bytes::Regex>,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If it is no regular expression and should be one.
    pub fn new(pattern: &str, kind: PatternKind) -> Result<Self, PatternError> {
        let expression = if kind.regex { pattern.to_owned() } else { regex::escape(pattern) };
        let regex = RegexBuilder::new(&expression)
            .case_insensitive(!kind.case_sensitive)
            // Descriptions have many lines: `^` and `$` mean the ends of one.
            .multi_line(true)
            .crlf(true)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => PatternError::TooLarge,
                error => PatternError::Syntax { pattern: pattern.to_owned(), what: reason(&error) },
            })?;
        let raw = if kind.regex { Raw::of_regex(&expression, kind) } else { Raw::of_text(pattern, kind) };
        let lines = if raw.is_none() { of_lines(&expression, kind) } else { None };
        Ok(Self { regex, raw, lines })
    }

    /// Whether a line of raw JSON may have it in one of its strings. `scratch` is room for the line without its escapes.
    pub(super) fn may_be_in(&self, line: &[u8], scratch: &mut Vec<u8>) -> bool {
        let Some(lines) = &self.lines else { return true };
        if memchr::memchr(b'\\', line).is_none() {
            return lines.is_match(line);
        }
        !unescape(line, scratch) || lines.is_match(scratch)
    }

    /// Whether a text has it.
    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Where a text has it. Places of no length are left out.
    pub fn find_in<'t>(&self, text: &'t str) -> impl Iterator<Item = Range<usize>> + use<'_, 't> {
        self.regex.find_iter(text).map(|found| found.range()).filter(|range| !range.is_empty())
    }

    /// Where a raw document may have it.
    pub(super) fn candidates<'p, 'b>(&'p self, bytes: &'b [u8]) -> Candidates<'p, 'b> {
        let mut candidates = Candidates { raw: self.raw.as_ref(), bytes, plain: None, hidden: None };
        if let Some(raw) = candidates.raw {
            candidates.plain = raw.plain_from(bytes, 0);
            candidates.hidden = raw.hidden_from(bytes, 0);
        }
        candidates
    }
}

/// The parts of an expression, as the engine that looks for it understands it.
fn parsed(expression: &str, kind: PatternKind) -> Option<Hir> {
    regex_syntax::ParserBuilder::new()
        .case_insensitive(!kind.case_sensitive)
        .multi_line(true)
        .crlf(true)
        .build()
        .parse(expression)
        .ok()
}

/// An expression for raw lines. What it matches within a string it matches within the line, too, unless it says what has to
/// be around it; and one that matches nothing at all is everywhere.
fn of_lines(expression: &str, kind: PatternKind) -> Option<bytes::Regex> {
    let hir = parsed(expression, kind)?;
    let about = hir.properties();
    if !about.look_set().is_empty() || about.minimum_len().is_none_or(|least| least == 0) {
        return None;
    }
    bytes::RegexBuilder::new(expression)
        .case_insensitive(!kind.case_sensitive)
        .multi_line(true)
        .crlf(true)
        .build()
        .ok()
}

/// Puts a line of JSON into `plain` with its escapes resolved, so that each of its strings is in it as the text that it is.
/// False: there is one that this does not know.
fn unescape(line: &[u8], plain: &mut Vec<u8>) -> bool {
    plain.clear();
    let mut rest = line;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        plain.extend_from_slice(&rest[..at]);
        let Some(&escape) = rest.get(at + 1) else { return false };
        let mut length = 2;
        match escape {
            b'"' | b'\\' | b'/' => plain.push(escape),
            b'n' => plain.push(b'\n'),
            b't' => plain.push(b'\t'),
            b'r' => plain.push(b'\r'),
            b'b' => plain.push(8),
            b'f' => plain.push(12),
            b'u' => {
                let unit = |from: usize| {
                    let digits = std::str::from_utf8(rest.get(from..from + 4)?).ok()?;
                    u16::from_str_radix(digits, 16).ok()
                };
                let Some(first) = unit(at + 2) else { return false };
                let second = (rest.get(at + 6..at + 8) == Some(b"\\u")).then(|| unit(at + 8)).flatten();
                let units = [first, second.unwrap_or(0)];
                let Some(Ok(c)) = char::decode_utf16(units).next() else { return false };
                plain.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                length = 6 * c.len_utf16();
            }
            _ => return false,
        }
        rest = rest.get(at + length..).unwrap_or_default();
    }
    plain.extend_from_slice(rest);
    true
}

/// What is wrong with an expression, in one line.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// The places of a raw document where a match may be, in order.
#[derive(Debug)]
pub(super) struct Candidates<'p, 'b> {
    raw: Option<&'p Raw>,
    bytes: &'b [u8],
    plain: Option<usize>,
    hidden: Option<usize>,
}

impl Candidates<'_, '_> {
    /// Whether there is none.
    pub(super) fn are_none(&self) -> bool {
        self.raw.is_some() && self.plain.is_none() && self.hidden.is_none()
    }

    /// Whether there is one in a line. Lines are asked for in their order.
    pub(super) fn touch(&mut self, line: &Range<usize>) -> bool {
        let Some(raw) = self.raw else { return true };
        if self.plain.is_some_and(|at| at < line.start) {
            self.plain = raw.plain_from(self.bytes, line.start);
        }
        if self.hidden.is_some_and(|at| at < line.start) {
            self.hidden = raw.hidden_from(self.bytes, line.start);
        }
        self.plain.is_some_and(|at| at < line.end) || self.hidden.is_some_and(|at| at < line.end)
    }
}

/// How matches look in raw JSON.
#[derive(Debug)]
struct Raw {
    /// What every match has, spelled without a `\u` that need not be.
    needle: bytes::Regex,
    /// The characters of what every match has: an escape of one of them may be a part of it.
    ascii: [bool; 128],
    /// Whether an escape of any other may be.
    beyond: bool,
    escapes: memmem::Finder<'static>,
    slashes: memmem::Finder<'static>,
}

impl Raw {
    /// Of a text as it stands.
    fn of_text(text: &str, kind: PatternKind) -> Option<Self> {
        let mut spelled = String::with_capacity(text.len());
        for c in text.chars() {
            match u8::try_from(c).ok().and_then(short_escape) {
                Some(escape) => spelled.push_str(escape),
                None => spelled.push(c),
            }
        }
        let needle = bytes::RegexBuilder::new(&regex::escape(&spelled))
            .case_insensitive(!kind.case_sensitive)
            .build()
            .ok()?;
        let mut raw = Self::new(needle);
        for c in text.chars() {
            raw.may_hide(c, kind);
        }
        Some(raw)
    }

    /// Of an expression: the texts with which all its matches begin or end, if there are such.
    fn of_regex(expression: &str, kind: PatternKind) -> Option<Self> {
        let hir = parsed(expression, kind)?;
        let literals = |kind: ExtractKind| -> Option<Vec<Vec<u8>>> {
            let seq: Seq = Extractor::new().kind(kind).extract(&hir);
            let literals: Vec<Vec<u8>> =
                seq.literals()?.iter().map(|literal| literal.as_bytes().to_vec()).collect();
            // An expression that matches nothing has none at all, and is nowhere.
            (literals.len() <= MAX_LITERALS && literals.iter().all(|literal| !literal.is_empty()))
                .then_some(literals)
        };
        let shortest = |literals: &Vec<Vec<u8>>| literals.iter().map(Vec::len).min().unwrap_or(0);
        let ends = [literals(ExtractKind::Prefix), literals(ExtractKind::Suffix)];
        let literals = ends.into_iter().flatten().max_by_key(shortest)?;
        if literals.is_empty() {
            return None;
        }
        // By bytes: one may begin or end within a character.
        let spelled: Vec<String> = literals.iter().map(|literal| spelled(literal)).collect();
        let needle = bytes::Regex::new(&format!("(?-u:{})", spelled.join("|"))).ok()?;
        let mut raw = Self::new(needle);
        for &byte in literals.iter().flatten() {
            match raw.ascii.get_mut(usize::from(byte)) {
                Some(may) => *may = true,
                None => raw.beyond = true,
            }
        }
        Some(raw)
    }

    fn new(needle: bytes::Regex) -> Self {
        Self {
            needle,
            ascii: [false; 128],
            beyond: false,
            escapes: memmem::Finder::new(b"\\u").into_owned(),
            slashes: memmem::Finder::new(b"\\/").into_owned(),
        }
    }

    fn may_hide(&mut self, c: char, kind: PatternKind) {
        let Some(ascii) = u8::try_from(c).ok().filter(u8::is_ascii) else {
            self.beyond = true;
            if !kind.case_sensitive {
                // Two letters beyond ASCII are the other case of one within it: ſ and the sign of Kelvin.
                for letter in *b"kKsS" {
                    self.ascii[usize::from(letter)] = true;
                }
            }
            return;
        };
        self.ascii[usize::from(ascii)] = true;
        if !kind.case_sensitive {
            self.ascii[usize::from(ascii.to_ascii_lowercase())] = true;
            self.ascii[usize::from(ascii.to_ascii_uppercase())] = true;
            self.beyond |= matches!(ascii, b'k' | b'K' | b's' | b'S');
        }
    }

    fn plain_from(&self, bytes: &[u8], from: usize) -> Option<usize> {
        self.needle.find_at(bytes, from).map(|found| found.start())
    }

    /// Where an escape may spell a part of a match.
    fn hidden_from(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let rest = bytes.get(from..)?;
        let unicode = self.escapes.find_iter(rest).find(|&at| {
            let digits = rest.get(at + 2..at + 6).and_then(|digits| std::str::from_utf8(digits).ok());
            match digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()) {
                Some(unit) => self.ascii.get(usize::from(unit)).copied().unwrap_or(self.beyond),
                // No escape after all, or one that is none: who parses it will see.
                None => true,
            }
        });
        let slash = if self.ascii[usize::from(b'/')] {
            self.slashes.find(&rest[..unicode.unwrap_or(rest.len())])
        } else {
            None
        };
        Some(from + slash.or(unicode)?)
    }
}

/// How JSON spells a character that cannot stand for itself, without `\u`.
fn short_escape(byte: u8) -> Option<&'static str> {
    Some(match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        b'\n' => "\\n",
        b'\r' => "\\r",
        b'\t' => "\\t",
        0x08 => "\\b",
        0x0c => "\\f",
        _ => return None,
    })
}

/// An expression for these bytes, as JSON spells them.
fn spelled(literal: &[u8]) -> String {
    let mut expression = String::with_capacity(literal.len() * 4);
    for byte in literal {
        let short = short_escape(*byte).map(str::as_bytes);
        for byte in short.unwrap_or(std::slice::from_ref(byte)) {
            expression.push_str(&format!("\\x{byte:02x}"));
        }
    }
    expression
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_its_escapes_holds_the_texts_of_its_strings() {
        let mut plain = Vec::new();
        for text in [
            r#""a\n\t\r\b\f\/\\\"b""#,
            r#""\u00e9\u0041 \ud83d\udc0e""#,
            r#""\u0041\u0042""#,
            r#""plain""#,
            r#""""#,
        ] {
            let wanted: String = serde_json::from_str(text).unwrap();
            assert!(unescape(text.as_bytes(), &mut plain), "{text}");
            assert_eq!(plain, format!("\"{wanted}\"").as_bytes(), "{text}");
        }
        for text in [r"\x", r"\u12", r"\ud83d", r"\ud83dx", r"\udc0e", "\\", r"\u{41}"] {
            assert!(!unescape(text.as_bytes(), &mut plain), "{text}: who parses it decides");
        }
    }

    #[test]
    fn expressions_that_say_what_is_around_them_are_not_tried_on_whole_lines() {
        let lines = |text| of_lines(text, PatternKind { regex: true, case_sensitive: false }).is_some();
        for text in [r"\d{7}", "[ab]+", "(?:x|[yz])w?"] {
            assert!(lines(text), "{text}");
        }
        for text in ["^[ab]", "[ab]$", r"\b[ab]", r"[ab]\B", "a*", "(?:)"] {
            assert!(!lines(text), "{text}");
        }
    }
}
