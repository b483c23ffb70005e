//! Text from elsewhere, made safe to show on a terminal.
//!
//! Owns the escaping of control characters, shortening, and the small measures (sizes, times) of human output. Never
//! touches what goes into a pipe or a file: there, bytes pass as the server sent them.

use std::fmt::{self, Display, Write};
use std::time::Duration;

use crate::layout;

/// Shows text with every control character spelled out, so that a server cannot steer the terminal.
///
/// Newlines and tabs stay. A carriage return stays only before a newline; alone it would overwrite the line.
#[derive(Debug)]
pub(crate) struct Sanitized<'a>(pub(crate) &'a str);

impl Display for Sanitized<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((at, found)) = rest.char_indices().find(|&(_, c)| is_steering(c)) {
            let (plain, tail) = rest.split_at(at);
            f.write_str(plain)?;
            rest = &tail[found.len_utf8()..];
            match found {
                '\r' if rest.starts_with('\n') => {}
                '\r' => f.write_str("\\r")?,
                c if u32::from(c) < 0x80 => write!(f, "\\x{:02x}", u32::from(c))?,
                c => write!(f, "\\u{{{:x}}}", u32::from(c))?,
            }
        }
        f.write_str(rest)
    }
}

/// C0 and C1 controls, and the characters that reorder what is around them.
pub(crate) fn is_steering(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}

/// The same for a JSON document: escapes that change nothing of its meaning.
///
/// Valid JSON has no raw C0 control inside a string, so only DEL, C1 and reordering characters are left to escape.
pub(crate) fn sanitize_json(document: &str) -> String {
    let mut safe = String::with_capacity(document.len());
    for c in document.chars() {
        if is_steering(c) && c != '\r' {
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Text on one line: runs of white space become one space, controls are escaped, the end is cut at `limit` columns.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        let _ = write!(line, "{}", Sanitized(word));
    }
    layout::cut(&line, limit)
}

/// A word as it could be typed into a shell.
pub(crate) fn shell_quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A size for people.
pub(crate) fn size(bytes: usize) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// An amount of memory for people, in one unit wherever memory is shown.
pub(crate) fn memory_size(bytes: f64) -> String {
    let mebibytes = bytes / f64::from(1 << 20);
    if mebibytes < 10_000.0 {
        format!("{mebibytes:.1} MiB")
    } else {
        format!("{:.1} GiB", mebibytes / 1024.0)
    }
}

/// A duration for people, at a precision that means something.
pub(crate) fn duration(span: Duration) -> String {
    let micros = span.as_micros();
    match micros {
        0..=999 => format!("{micros} µs"),
        1_000..=9_999 => format!("{:.1} ms", micros as f64 / 1e3),
        10_000..=999_999 => format!("{} ms", micros / 1_000),
        1_000_000..=59_999_999 if span.subsec_micros() == 0 => format!("{} s", span.as_secs()),
        1_000_000..=59_999_999 => format!("{:.1} s", micros as f64 / 1e6),
        _ => {
            let seconds = span.as_secs();
            match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
                (0, minutes, 0) => format!("{minutes} min"),
                (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
                (hours, 0, _) => format!("{hours} h"),
                (hours, minutes, _) => format!("{hours} h {minutes} min"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_spelled_out_and_lines_stay() {
        let shown = Sanitized("a\u{1b}[31mb\nc\td\r\ne\rf\u{9b}g\u{202e}h").to_string();
        assert_eq!(shown, "a\\x1b[31mb\nc\td\ne\\rf\\u{9b}g\\u{202e}h");
        assert_eq!(Sanitized("žluťoučký 🐎").to_string(), "žluťoučký 🐎");
    }

    #[test]
    fn escaping_json_keeps_its_value() {
        let document = "{\"a\":\"x\u{9b}\u{7f}\u{202e}y\"}";
        let safe = sanitize_json(document);
        assert!(safe.chars().all(|c| !is_steering(c)), "{safe:?}");
        let before: serde_json::Value = serde_json::from_str(document).unwrap();
        let after: serde_json::Value = serde_json::from_str(&safe).unwrap();
        assert_eq!(before, after);
    }

    #[test]
    fn one_line_folds_and_cuts_by_columns() {
        assert_eq!(one_line("  a\n b\t\u{7}c ", 40), "a b \\x07c");
        assert_eq!(one_line("äöüäöü", 6), "äöüäöü");
        assert_eq!(one_line("äöüäöüx", 6), "äöüäö…");
        assert_eq!(one_line("漢字漢字", 6), "漢字…");
    }

    #[test]
    fn measures() {
        assert_eq!(size(999), "999 B");
        assert_eq!(size(12_345), "12.3 KB");
        assert_eq!(size(5_000_000), "5.0 MB");
        assert_eq!(memory_size(977_900.0), "0.9 MiB");
        assert_eq!(memory_size(f64::from(1 << 20) * 20_480.0), "20.0 GiB");
        assert_eq!(duration(Duration::from_micros(640)), "640 µs");
        assert_eq!(duration(Duration::from_micros(2_340)), "2.3 ms");
        assert_eq!(duration(Duration::from_millis(41)), "41 ms");
        assert_eq!(duration(Duration::from_millis(2_140)), "2.1 s");
        assert_eq!(duration(Duration::from_secs(2)), "2 s");
        assert_eq!(duration(Duration::from_secs(600)), "10 min");
        assert_eq!(duration(Duration::from_secs(3_660)), "1 h 1 min");
    }
}
