//! What a shell may offer after the words of a command line.
//!
//! Owns the hidden command that the scripts of `drowse completions` call at each Tab, and the forms in which each shell
//! takes candidates. Everything comes from the grammar, from records and from snapshots: nothing is started, nothing
//! counts as use, and what cannot be read is passed over in silence.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use drowse_runtime::caller::Sessions;
use drowse_runtime::home::SessionName;

mod candidates;
mod files;
mod known;
mod line;
mod shell;

pub(crate) use shell::Shell;

use candidates::Line;

/// The hidden command: `drowse complete-words <shell> …`; what follows depends on the shell (see [`Shell`]).
pub(crate) const COMMAND: &str = "complete-words";

/// Where PowerShell leaves its line: as an argument it would be taken apart on the way.
const LINE: &str = "DROWSE_COMPLETE_LINE";

/// Something that the word at the cursor may become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The whole word, unquoted.
    pub(crate) value: String,
    /// A few words about it.
    pub(crate) about: String,
    /// The word goes on after it: no blank follows.
    pub(crate) goes_on: bool,
}

/// Answers on stdout. Never fails: a shell that is typed into is no place for errors.
pub(crate) fn answer(words: &[OsString]) -> ExitCode {
    if let Some(text) = answered(words) {
        let _ = io::stdout().write_all(text.as_bytes());
    }
    ExitCode::SUCCESS
}

fn answered(words: &[OsString]) -> Option<String> {
    // The command, the shell, and what it gave.
    let (shell, given) = words.get(1..)?.split_first()?;
    let shell = Shell::named(shell.to_str()?)?;
    let given: Vec<String> = given.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let typed = shell.read(&given, || std::env::var(LINE).ok())?;
    let sessions = Sessions::open().ok();
    let line = Line { before: &typed.before, current: &typed.current, sessions: sessions.as_ref() };
    Some(shell.write(&typed, &line.candidates()))
}

/// What may stand at the end of a line of `drowse shell`, which is about `session`: where the word at its end begins, and
/// for each candidate what is shown and what takes that word's place.
pub(crate) fn of_line(line: &str, session: Option<&SessionName>) -> (usize, Vec<(String, String)>) {
    let typed = line::split(&format!("drowse {line}"), line::Syntax::Posix);
    let sessions = Sessions::open().ok();
    let candidates = |before: &[String]| {
        Line { before, current: &typed.current, sessions: sessions.as_ref() }.candidates()
    };
    let named = typed.before.iter().any(|word| word.starts_with('@'));
    let mut found = match session.filter(|_| !named) {
        Some(session) => {
            let about: Vec<_> =
                [session.to_string()].into_iter().chain(typed.before.iter().cloned()).collect();
            candidates(&about)
        }
        None => Vec::new(),
    };
    if found.is_empty() || typed.before.is_empty() {
        let more = candidates(&typed.before);
        let new: Vec<_> =
            more.into_iter().filter(|one| found.iter().all(|known| known.value != one.value)).collect();
        found.extend(new);
    }
    let start = line.len().saturating_sub(typed.raw.len());
    let shown = |one: Candidate| {
        let rest = if one.goes_on { "" } else { " " };
        let replacement = shell::backslashed(&one.value) + rest;
        (one.value, replacement)
    };
    (start, found.into_iter().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_shell_completes_verbs_of_its_session_and_others() {
        let session = SessionName::new("@nobody-has-this").unwrap();
        let values = |line: &str, session| {
            let (start, found) = of_line(line, session);
            (start, found.into_iter().map(|(_, replacement)| replacement).collect::<Vec<_>>())
        };
        assert_eq!(values("tools-l", Some(&session)), (0, vec!["tools-list ".to_owned()]));
        assert_eq!(values("conn", Some(&session)), (0, vec!["connect ".to_owned()]));
        assert_eq!(values("tools-list --fu", Some(&session)), (11, vec!["--full ".to_owned()]));
        assert_eq!(values("nonsense ", None).0, 9);
    }
}
