//! Where words go: results to stdout, notices, hints and failures to stderr.
//!
//! Owns the two streams of the process: colour, escaping for terminals, cutting, and a reader that went away. Never
//! decides what to say.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;

use serde_json::json;

use crate::args::Globals;
use crate::error::{Exit, Failure};
use crate::layout;
use crate::text::{Sanitized, sanitize_json};

/// How this process speaks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// JSON documents instead of text.
    pub(crate) json: bool,
    pub(crate) verbose: bool,
    pub(crate) max_chars: Option<usize>,
}

/// The few colours in use. The default is no colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Bold,
    Dim,
    Green,
    Yellow,
    Red,
    Cyan,
}

impl Output {
    /// As the command line says.
    pub(crate) fn new(globals: &Globals) -> Self {
        Self { json: globals.json, verbose: globals.verbose, max_chars: globals.max_chars }
    }

    /// Prints a result that was written for people, escaped if it goes to a terminal.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        let cut = self.cut(text);
        let ends = cut.is_empty() || cut.ends_with('\n');
        if is_terminal() { print(&Sanitized(cut).to_string(), ends) } else { print(cut, ends) }
    }

    /// Prints text that is laid out and coloured by drowse, fitted to the terminal: everything foreign in it was escaped
    /// when it was put in.
    pub(crate) fn layout(&self, text: &str) -> Result<(), Failure> {
        let fitted;
        let text = match columns() {
            Some(columns) => {
                fitted = layout::fit(text, columns);
                &fitted
            }
            None => text,
        };
        let cut = if self.max_chars.is_some() { self.cut(text) } else { text };
        print(cut, cut.is_empty() || cut.ends_with('\n'))
    }

    /// Prints our own text as it is: a script, or a page for another program.
    pub(crate) fn verbatim(&self, text: &str) -> Result<(), Failure> {
        print(text, text.ends_with('\n'))
    }

    /// Prints one JSON document, whole (a cut one would be none), byte for byte as it is (on a terminal: with controls as JSON escapes).
    pub(crate) fn document(&self, json: &str) -> Result<(), Failure> {
        if is_terminal() { print(&sanitize_json(json), false) } else { print(json, false) }
    }

    /// Something worth knowing that is not the result.
    pub(crate) fn notice(&self, text: impl Display) {
        if !self.json {
            let _ = writeln!(io::stderr(), "{}", Sanitized(&text.to_string()));
        }
    }

    /// The same where a program has to know it as well. With `--json` it is a document of its own, on one line; `kind` is
    /// a stable word for it. What failed has `error` in its document, and no `notice`.
    pub(crate) fn remark(&self, kind: &str, text: impl Display) {
        if self.json {
            let document = json!({"notice": text.to_string(), "kind": kind}).to_string();
            let _ = writeln!(io::stderr(), "{}", sanitize_json(&document));
        } else {
            self.notice(text);
        }
    }

    /// Something that may be wrong, and is not the command's failure.
    pub(crate) fn warning(&self, kind: &str, text: impl Display) {
        if self.json { self.remark(kind, text) } else { self.notice(format_args!("warning: {text}")) }
    }

    /// Something worth knowing for who wants to know all, with `--verbose`.
    pub(crate) fn detail(&self, text: impl Display) {
        if self.verbose {
            let _ = writeln!(io::stderr(), "drowse: {}", Sanitized(&text.to_string()));
        }
    }

    /// Says why the command failed, once, on stderr.
    pub(crate) fn failure(&self, failure: &Failure) {
        // Valid JSON may still hold what steers a terminal (C1, reordering).
        let text = match self.json {
            true if is_told_to_a_terminal() => sanitize_json(&failure.to_json()),
            true => failure.to_json(),
            false => failure.to_text(),
        };
        let _ = writeln!(io::stderr(), "{text}");
    }

    fn cut<'a>(&self, text: &'a str) -> &'a str {
        let Some((at, _)) = self.max_chars.and_then(|limit| text.char_indices().nth(limit)) else {
            return text;
        };
        let _ = writeln!(io::stderr(), "(cut after {} characters)", self.max_chars.unwrap_or_default());
        &text[..at]
    }
}

/// Wraps text in a colour, if stdout shows colours.
pub(crate) fn paint(style: Style, text: &str) -> String {
    if !colours() || text.is_empty() {
        return text.to_owned();
    }
    let code = match style {
        Style::Bold => "1",
        Style::Dim => "2",
        Style::Green => "32",
        Style::Yellow => "33",
        Style::Red => "31",
        Style::Cyan => "36",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// The failure that is none: the reader of our output went away (`drowse … | head -1`).
pub(crate) fn is_broken_pipe(failure: &Failure) -> bool {
    failure.kind == BROKEN_PIPE
}

const BROKEN_PIPE: &str = "broken-pipe";

fn is_terminal() -> bool {
    static TERMINAL: OnceLock<bool> = OnceLock::new();
    *TERMINAL.get_or_init(|| io::stdout().is_terminal())
}

/// Whether stderr, where notices and questions go, is a terminal.
pub(crate) fn is_told_to_a_terminal() -> bool {
    static TERMINAL: OnceLock<bool> = OnceLock::new();
    *TERMINAL.get_or_init(|| io::stderr().is_terminal())
}

/// The columns of the terminal that stdout is; nothing is fitted for a pipe or a file.
pub(crate) fn columns() -> Option<usize> {
    static COLUMNS: OnceLock<Option<usize>> = OnceLock::new();
    *COLUMNS.get_or_init(|| {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|_| is_terminal())?;
        let said = || std::env::var("COLUMNS").ok()?.parse().ok();
        Some(usize::from(size.ws_col)).filter(|&columns| columns > 0).or_else(said)
    })
}

/// The same, and what is usual where there is no terminal, or none that says how wide it is.
pub(crate) fn usual_columns() -> usize {
    columns().unwrap_or(100)
}

fn colours() -> bool {
    static COLOURS: OnceLock<bool> = OnceLock::new();
    *COLOURS.get_or_init(|| shows_colours(is_terminal(), |name| std::env::var_os(name)))
}

/// `NO_COLOR` decides over `CLICOLOR_FORCE`, and that over `CLICOLOR=0` and over where the output goes.
fn shows_colours(terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is = |name: &str, value: &str| variable(name).is_some_and(|set| set == value);
    let is_set = |name: &str| variable(name).is_some_and(|set| !set.is_empty());
    if is_set("NO_COLOR") {
        return false;
    }
    if is_set("CLICOLOR_FORCE") && !is("CLICOLOR_FORCE", "0") {
        return true;
    }
    terminal && !is("CLICOLOR", "0") && !is("TERM", "dumb")
}

fn print(text: &str, ends_with_newline: bool) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| {
        if !ends_with_newline {
            stdout.write_all(b"\n")?;
        }
        stdout.flush()
    });
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::new(Exit::Usage, BROKEN_PIPE, "the reader of stdout went away"),
        _ => Failure::new(Exit::Usage, "output", format!("cannot write to stdout: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_and_for_who_wants_them() {
        for (terminal, set, shown) in [
            (true, &[][..], true),
            (false, &[], false),
            (true, &[("NO_COLOR", "1")], false),
            (true, &[("NO_COLOR", "")], true),
            (true, &[("TERM", "dumb")], false),
            (true, &[("TERM", "xterm")], true),
            (true, &[("CLICOLOR", "0")], false),
            (true, &[("CLICOLOR", "1")], true),
            (false, &[("CLICOLOR", "1")], false),
            (false, &[("CLICOLOR_FORCE", "1")], true),
            (false, &[("CLICOLOR_FORCE", "0")], false),
            (true, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        ] {
            let variable =
                |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
            assert_eq!(shows_colours(terminal, variable), shown, "{terminal} {set:?}");
        }
    }
}
