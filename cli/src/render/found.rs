//! What a search found, for people and as JSON.

use std::fmt::Write as _;
use std::ops::Range;

use drowse_runtime::snapshot::{Hit, Kind, Pattern, Place, member};
use serde_json::json;

use super::age::ago;
use crate::output::{Style, paint};
use crate::text::{Sanitized, one_line};

/// The narrowest that a text is cut to.
const MIN_WIDTH: usize = 16;
/// What stands before the second line of a result.
const INDENT: &str = "    ";

/// One result.
#[derive(Debug)]
pub(crate) struct Found {
    /// `@name`.
    pub(crate) session: String,
    /// The word of its state.
    pub(crate) status: &'static str,
    /// When that was written down, in milliseconds since 1970, where it is not what the server says now.
    pub(crate) cached_at: Option<u64>,
    pub(crate) hit: Hit,
}

/// A line for each result, and one below it that shows why it is one.
pub(crate) fn list(found: &[Found], pattern: &Pattern, now: u64, columns: usize) -> String {
    let names = found.iter().map(|one| one.session.chars().count()).max().unwrap_or(0);
    let kinds = found.iter().map(|one| word(one.hit.kind).len()).max().unwrap_or(0);
    let mut text = String::new();
    for one in found {
        let head = format!("{:<names$}  ", one.session);
        let kind = format!("{:<kinds$}", word(one.hit.kind));
        let badge =
            one.cached_at.map(|at| format!("  ({}, {} old)", one.status, ago(now.saturating_sub(at))));
        let badge = badge.unwrap_or_default();
        let taken = head.chars().count() + kinds + 2 + badge.chars().count();
        let (name, shown) = name(&one.hit);
        let name = name.map(|name| marked(&name, pattern, columns.saturating_sub(taken), Some(Style::Bold)));
        let line = match name {
            Some(name) => format!("{head}{}  {name}", paint(Style::Cyan, &kind)),
            None => format!("{head}{}", paint(Style::Cyan, kind.trim_end())),
        };
        let _ = writeln!(text, "{line}{}", paint(Style::Dim, &badge));
        if let Some((label, why)) = why(&one.hit, &shown) {
            let label = label.map(|label| format!("{}: ", one_line(&label, columns / 2))).unwrap_or_default();
            let room = columns.saturating_sub(INDENT.len() + label.chars().count());
            let _ =
                writeln!(text, "{INDENT}{}{}", paint(Style::Dim, &label), marked(&why, pattern, room, None));
        }
    }
    text
}

/// The results as one array.
pub(crate) fn to_json(found: &[Found]) -> String {
    let mut array = String::from("[");
    for (index, one) in found.iter().enumerate() {
        array.push_str(if index == 0 { "" } else { "," });
        let kind = one.hit.kind.as_str();
        let mut matched: Vec<String> = one.hit.matched.iter().map(|(place, _)| place.to_string()).collect();
        matched.dedup();
        let mut extra = json!({});
        if let Some(at) = one.cached_at {
            extra["cachedAt"] = at.into();
        }
        extra["matched"] = matched.into();
        let _ = write!(
            array,
            r#"{{"session":"{}","status":"{}","kind":"{kind}","{kind}":{},"_drowse":{extra}}}"#,
            one.session,
            one.status,
            one.hit.object.get(),
        );
    }
    array.push(']');
    array
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::ResourceTemplate => "template",
        kind => kind.as_str(),
    }
}

/// What a result is called, and where it has that.
fn name(hit: &Hit) -> (Option<String>, Place) {
    let (key, place) = match hit.kind {
        Kind::Instructions => return (None, Place::Instructions),
        Kind::Resource => ("uri", Place::Uri),
        Kind::ResourceTemplate => ("uriTemplate", Place::Uri),
        Kind::Tool | Kind::Prompt => ("name", Place::Name),
    };
    (Some(member(&hit.object, key).unwrap_or_else(|| "(no name)".to_owned())), place)
}

/// The text that shows why it is a result; where the name does already, what it is.
fn why(hit: &Hit, shown: &Place) -> Option<(Option<String>, String)> {
    if hit.kind == Kind::Instructions {
        return hit.matched.first().map(|(_, text)| (None, text.clone()));
    }
    if hit.matched.iter().all(|(place, _)| place != shown) {
        let (place, text) = hit.matched.first()?;
        return Some((Some(place.to_string()), text.clone()));
    }
    let said = ["description", "title"].iter().find_map(|key| member(&hit.object, key))?;
    let first = said.trim().lines().next()?.to_owned();
    (!first.is_empty()).then_some((None, first))
}

/// The line of a text that has the first match, as much of it as fits, with the matches in it marked.
fn marked(text: &str, pattern: &Pattern, width: usize, style: Option<Style>) -> String {
    let width = width.max(MIN_WIDTH);
    let first = pattern.find_in(text).next().unwrap_or(0..0);
    let start = text[..first.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[first.start..].find('\n').map_or(text.len(), |at| first.start + at);
    // Without the white space around it, unless that is what was found.
    let line = &text[start..end];
    let (before, after) = (line.len() - line.trim_start().len(), line.len() - line.trim_end().len());
    let (start, end) = ((start + before).min(first.start), (end - after).max(first.start));
    let window = window(text, start..end, first.start, width);
    let mut out = String::from(if window.start > start { "…" } else { "" });
    let mut at = window.start;
    let plain = |out: &mut String, part: Range<usize>| {
        let part = flat(&text[part]);
        out.push_str(&style.map_or_else(|| part.clone(), |style| paint(style, &part)));
    };
    for found in pattern.find_in(text).skip_while(|found| found.end <= window.start) {
        if found.start >= window.end {
            break;
        }
        let found = found.start.max(window.start)..found.end.min(window.end);
        plain(&mut out, at..found.start);
        out.push_str(&paint(Style::Red, &flat(&text[found.clone()])));
        at = found.end;
    }
    plain(&mut out, at..window.end);
    if window.end < end {
        out.push('…');
    }
    out
}

/// As much of a line as fits, with its match in it.
fn window(text: &str, line: Range<usize>, found: usize, width: usize) -> Range<usize> {
    let fits = |from: usize, room: usize| {
        text[from..line.end].char_indices().nth(room).map_or(line.end, |(at, _)| from + at)
    };
    if fits(line.start, width) == line.end {
        return line;
    }
    // What stands before a match says more of it the nearer it is.
    let before = text[line.start..found].char_indices().rev().take(width / 3).last();
    let room = width.saturating_sub(2);
    match before {
        Some((at, _)) if text[line.start..found].chars().count() > room / 2 => {
            let start = line.start + at;
            start..fits(start, room)
        }
        _ => line.start..fits(line.start, room),
    }
}

/// Text on one line, as long as it is.
fn flat(text: &str) -> String {
    let flat: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    Sanitized(&flat).to_string()
}

#[cfg(test)]
mod tests {
    use drowse_runtime::snapshot::{PatternKind, hit};
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::new(text, PatternKind::default()).unwrap()
    }

    fn found(session: &str, kind: Kind, object: &Value, text: &str, cached_at: Option<u64>) -> Found {
        let object = RawValue::from_string(object.to_string()).unwrap();
        let status = if cached_at.is_some() { "idle" } else { "live" };
        let hit = hit(kind, &object, &pattern(text)).unwrap();
        Found { session: session.to_owned(), status, cached_at, hit }
    }

    #[test]
    fn columns_badges_and_reasons() {
        let tool = json!({"name": "read_file", "description": "\nReads it.\nAll of it."});
        let argued = json!({"name": "other", "inputSchema": {"properties": {"the_file": {}}}});
        let resource = json!({"uri": "file:///x", "name": "x"});
        let text = list(
            &[
                found("@long-name", Kind::Tool, &tool, "file", Some(1_000)),
                found("@s", Kind::Tool, &argued, "file", None),
                found("@s", Kind::Resource, &resource, "file", None),
                found("@s", Kind::Tool, &json!({"name": 7, "title": "file"}), "file", None),
            ],
            &pattern("file"),
            1_000 + 3 * 3_600_000,
            100,
        );
        assert_eq!(
            text,
            "@long-name  tool      read_file  (idle, 3 h old)\n    Reads it.\n\
             @s          tool      other\n    argument the_file: the_file\n\
             @s          resource  file:///x\n\
             @s          tool      (no name)\n    title: file\n"
        );
    }

    #[test]
    fn json_is_the_object_as_it_came_and_what_is_known_of_it() {
        let tool = json!({"name": "a", "n": 1.5});
        let found = [found("@s", Kind::Tool, &tool, "a", Some(7)), found("@t", Kind::Tool, &tool, "a", None)];
        let expected = json!([
            {"session": "@s", "status": "idle", "kind": "tool", "tool": tool,
                "_drowse": {"cachedAt": 7, "matched": ["name"]}},
            {"session": "@t", "status": "live", "kind": "tool", "tool": tool, "_drowse": {"matched": ["name"]}},
        ]);
        assert_eq!(serde_json::from_str::<Value>(&to_json(&found)).unwrap(), expected);
        assert_eq!(to_json(&[]), "[]");
    }

    #[test]
    fn lines_fit_and_show_the_match() {
        let shown = |text: &str, wanted: &str, width| marked(text, &pattern(wanted), width, None);
        assert_eq!(shown("one\n  two needle three\nfour", "needle", 80), "two needle three");
        assert_eq!(shown("a\nb", "nothing", 80), "a");
        assert_eq!(shown("a\nb c", "a\nb", 80), "a");
        let long = format!("{}needle{}", "x".repeat(300), "y".repeat(300));
        let cut = shown(&long, "needle", 40);
        assert!(cut.starts_with("…x") && cut.contains("xneedley") && cut.ends_with("y…"), "{cut}");
        assert!(cut.chars().count() <= 40, "{cut}");
        let cut = shown(&long, "needle", 0);
        assert!(cut.contains("needle") && cut.chars().count() <= MIN_WIDTH, "{cut}");
        let cut = shown(&format!("näédle{}", "ü".repeat(99)), "NÄÉDLE", 20);
        assert!(cut.starts_with("näédleü") && cut.ends_with("ü…") && cut.chars().count() <= 20, "{cut}");
        assert_eq!(shown("\u{1b}[2Jneedle\u{7}\t\u{202e}.", "needle", 80), r"\x1b[2Jneedle\x07 \u{202e}.");
        for (text, wanted) in [("   ", " "), ("", ""), ("\n\n", "\n"), ("  x  ", "x  "), ("a  \nb", "  \nb")]
        {
            for width in [0, 20] {
                let _ = shown(text, wanted, width);
            }
        }
    }

    #[test]
    fn hostile_names_stay_on_their_line() {
        let tool = json!({"name": "evil\u{1b}]0;x\u{7}\n@other  tool  fake", "description": "d\r\u{9b}"});
        let text = list(&[found("@s", Kind::Tool, &tool, "evil", None)], &pattern("evil"), 0, 200);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(!text.contains(['\u{1b}', '\u{7}', '\r', '\u{9b}']), "{text:?}");
    }
}
