//! What a shell may offer after the words of a command line.
//!
//! Owns the hidden command that the scripts of `drowse completions` call at each Tab, and the forms in which each shell
//! takes candidates. Everything comes from the grammar, from records and from snapshots: nothing is started, nothing
//! counts as use, and what cannot be read is passed over in silence.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use drowse_runtime::caller::Sessions;

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
