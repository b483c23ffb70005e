//! Text measured in the columns of a terminal, and fitted to them.
//!
//! Owns widths: wide characters take two columns, combining ones none, and the colours of [`paint`](crate::output) none.
//! Never escapes anything: what comes here is safe to show.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Fewer columns than this are left to the terminal: with indents there would be no room for words.
const NARROWEST: usize = 12;

/// How many columns a line takes.
pub(crate) fn width(line: &str) -> usize {
    if !line.contains('\u{1b}') {
        return line.width();
    }
    let mut columns = 0;
    let mut rest = line;
    while let Some((plain, tail)) = rest.split_once('\u{1b}') {
        columns += plain.width();
        rest = tail.split_once('m').map_or("", |(_, after)| after);
    }
    columns + rest.width()
}

/// The line with blanks up to so many columns.
pub(crate) fn pad(line: &str, columns: usize) -> String {
    format!("{line}{:1$}", "", columns.saturating_sub(width(line)))
}

/// As much of a line without colours as fits.
pub(crate) fn head(line: &str, columns: usize) -> &str {
    let mut left = columns;
    for (at, c) in line.char_indices() {
        match left.checked_sub(c.width().unwrap_or(0)) {
            Some(rest) => left = rest,
            None => return line.get(..at).unwrap_or(line),
        }
    }
    line
}

/// A line without colours, its end replaced by an ellipsis where it does not fit.
pub(crate) fn cut(line: &str, columns: usize) -> String {
    let whole = head(line, columns);
    if whole.len() == line.len() {
        return line.to_owned();
    }
    let kept = head(line, columns.saturating_sub(1));
    format!("{kept}…")
}

/// Text whose lines fit the columns: broken between words, and indented by two more where they go on.
///
/// No word is broken, so that addresses and names can be copied; nor is a line that shows what to type (`↳`).
pub(crate) fn fit(text: &str, columns: usize) -> String {
    if columns < NARROWEST {
        return text.to_owned();
    }
    let mut fitted = String::with_capacity(text.len() + text.len() / 16);
    for line in text.split_inclusive('\n') {
        if line.len() <= columns || line.contains('↳') || width(line.trim_end()) <= columns {
            fitted.push_str(line);
        } else {
            wrap(&mut fitted, line, columns);
        }
    }
    fitted
}

fn wrap(fitted: &mut String, line: &str, columns: usize) {
    let words = line.trim_end();
    let indent = words.len() - words.trim_start_matches(' ').len();
    let hanging = (indent + 2).min(columns / 2);
    let mut at = 0;
    // A word with the blanks before it.
    let mut rest = words;
    let mut first = true;
    while !rest.is_empty() {
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        let end = rest.get(blanks..).and_then(|word| word.find(' ')).map_or(rest.len(), |end| blanks + end);
        let (piece, tail) = rest.split_at(end);
        let word = piece.trim_start_matches(' ');
        let takes = width(piece);
        if first || at + takes <= columns {
            fitted.push_str(piece);
            at += takes;
        } else {
            fitted.push('\n');
            fitted.extend(std::iter::repeat_n(' ', hanging));
            fitted.push_str(word);
            at = hanging + width(word);
        }
        first = false;
        rest = tail;
    }
    if line.ends_with('\n') {
        fitted.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_combining_and_coloured_text_is_measured_as_it_is_shown() {
        for (text, columns) in [
            ("", 0),
            ("abc", 3),
            ("漢字", 4),
            ("e\u{301}", 1),
            ("🐎", 2),
            ("\u{1b}[1mab\u{1b}[0m 漢", 5),
            ("\u{1b}[", 0),
        ] {
            assert_eq!(width(text), columns, "{text:?}");
        }
        assert_eq!(pad("漢", 4), "漢  ");
        assert_eq!(pad("\u{1b}[1ma\u{1b}[0m", 3), "\u{1b}[1ma\u{1b}[0m  ");
        assert_eq!(pad("abc", 2), "abc");
    }

    #[test]
    fn cuts_are_between_characters_and_fit() {
        assert_eq!((head("abc", 3), head("abcd", 3), head("漢", 1)), ("abc", "abc", ""));
        assert_eq!(head("a漢字", 4), "a漢");
        assert_eq!(
            (cut("abcd", 4), cut("abcde", 4), cut("漢字", 3)),
            ("abcd".into(), "abc…".into(), "漢…".into())
        );
        assert_eq!(cut("e\u{301}e\u{301}", 2), "e\u{301}e\u{301}");
        assert_eq!(cut("abc", 0), "…");
    }

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(fit("  one two three\nfour\n", 14), "  one two\n    three\nfour\n");
        assert_eq!(fit("aaaaaaaaaaaaaaaaaaaaaaaa b", 12), "aaaaaaaaaaaaaaaaaaaaaaaa\n  b");
        assert_eq!(fit("  ↳ drowse @s tools-list\n", 12), "  ↳ drowse @s tools-list\n");
        assert_eq!(fit("漢字 漢字 漢字", 12), "漢字 漢字\n  漢字");
    }

    /// Every width: nothing is lost, and a line is too long only where one word is.
    #[test]
    fn every_width() {
        let text = "● @files  \u{1b}[32mlive\u{1b}[0m   npx -y @modelcontextprotocol/server-filesystem 漢字 🐎🐎 e\u{301}e\u{301}  x\n\
                    \n      deep indent with words in it that go on for a while, until the end\nplain\n";
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for columns in 0..=200 {
            let fitted = fit(text, columns);
            assert_eq!(words(&fitted), words(text), "{columns}");
            if columns >= NARROWEST {
                for line in fitted.lines().filter(|line| width(line) > columns) {
                    assert_eq!(words(line).len(), 1, "{columns}: {line:?}");
                }
            }
        }
    }
}
