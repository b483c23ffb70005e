//! `shell`: commands one after the other.
//!
//! Owns the lines: reading, history, and which session they are about. Each command is a process of its own, just as if
//! it had been typed into a shell: nothing that one does to its process can harm the next.

use std::borrow::Cow;
use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use drowse_runtime::home::SessionName;
use rustyline::completion::{Completer, Pair};
use rustyline::config::Configurer as _;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{FileHistory, History as _};
use rustyline::validate::Validator;
use rustyline::{Behavior, CompletionType, Config, Editor, Helper};
use signal_hook::consts::SIGINT;

use super::{Context, Status};
use crate::completion;
use crate::error::{Exit, Failure};
use crate::grammar::{self, Session};
use crate::target::command_line;

/// How many lines are remembered.
const HISTORY: usize = 1000;

/// Reads lines until their end, and carries each out.
pub(super) fn shell(context: &Context, session: Option<SessionName>) -> Result<Status, Failure> {
    let program = program()?;
    let mut shell = Shell { flags: flags(context), program, session, piped: !io::stdin().is_terminal() };
    // Whatever is running is interrupted, not the shell. Programs that are started have the default again.
    let _ = signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)));
    if shell.piped { shell.script() } else { shell.dialogue(context) }
}

/// This very program, also if its file was replaced meanwhile.
fn program() -> Result<PathBuf, Failure> {
    let running = Path::new("/proc/self/exe");
    if running.exists() {
        // As a link it would mean whoever opens it: the child itself, before it is replaced. That is the same file.
        return Ok(running.to_owned());
    }
    env::current_exe()
        .map_err(|error| Failure::new(Exit::Usage, "storage", format!("cannot find drowse itself: {error}")))
}

/// The flags of the shell are those of each line.
fn flags(context: &Context) -> Vec<(&'static str, Option<String>)> {
    let mut flags = Vec::new();
    if context.output.json {
        flags.push(("--json", None));
    }
    if context.output.verbose {
        flags.push(("--verbose", None));
    }
    if let Some(timeout) = context.timeout {
        flags.push(("--timeout", Some(timeout.as_secs().to_string())));
    }
    if let Some(chars) = context.output.max_chars {
        flags.push(("--max-chars", Some(chars.to_string())));
    }
    flags
}

struct Shell {
    program: PathBuf,
    flags: Vec<(&'static str, Option<String>)>,
    session: Option<SessionName>,
    /// Lines come from a file or a pipe: commands do not read it.
    piped: bool,
}

/// Completes the words of a line.
struct Words {
    session: Option<SessionName>,
}

/// What a line is.
#[derive(Debug, PartialEq)]
enum Line {
    Nothing,
    Exit,
    Use(Option<SessionName>),
    Run(Vec<String>),
}

impl Shell {
    fn script(&mut self) -> Result<Status, Failure> {
        for line in io::stdin().lock().lines() {
            let line = line.map_err(|error| {
                Failure::new(Exit::Usage, "usage", format!("cannot read standard input: {error}"))
            })?;
            match self.carry_out(&line)? {
                Some(status) if status.success() => {}
                Some(status) => return Ok(Status::Bad(exit(status))),
                None => break,
            }
        }
        Ok(Status::Done)
    }

    fn dialogue(&mut self, context: &Context) -> Result<Status, Failure> {
        let refused = |error: ReadlineError| {
            Failure::new(Exit::Usage, "terminal", format!("cannot use this terminal: {error}"))
        };
        // The terminal itself: standard output is for what commands print.
        let config = Config::builder()
            .auto_add_history(false)
            .behavior(Behavior::PreferTerm)
            .completion_type(CompletionType::List)
            .build();
        let mut editor: Editor<Words, FileHistory> = Editor::with_config(config).map_err(refused)?;
        editor.set_max_history_size(HISTORY).map_err(refused)?;
        let file = history_file()?;
        // None yet, or not readable: a shell without its past is still a shell.
        if let Err(error) = editor.load_history(&file)
            && file.exists()
        {
            context.output.warning("history", format_args!("cannot read {}: {error}", file.display()));
        }
        context.output.notice("help: all commands; exit or Ctrl-D: leave");
        loop {
            editor.set_helper(Some(Words { session: self.session.clone() }));
            let line = match editor.readline(&self.prompt()) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(refused(error)),
            };
            if may_be_remembered(&line) && editor.add_history_entry(line.as_str()).unwrap_or(false) {
                // At once: shells end in many ways.
                if let Err(error) = editor.append_history(&file) {
                    context.output.detail(format_args!("cannot write {}: {error}", file.display()));
                }
            }
            match self.carry_out(&line) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(failure) => context.output.failure(&failure),
            }
        }
        let _ = editor.history_mut().save(&file);
        Ok(Status::Done)
    }

    fn prompt(&self) -> String {
        self.session.as_ref().map_or_else(|| "drowse> ".to_owned(), |session| format!("drowse {session}> "))
    }

    /// Carries a line out; `None`: it ends the shell.
    fn carry_out(&mut self, line: &str) -> Result<Option<ExitStatus>, Failure> {
        let words = match read(line, self.session.as_ref())? {
            Line::Nothing => return Ok(Some(ExitStatus::default())),
            Line::Exit => return Ok(None),
            Line::Use(session) => {
                self.session = session;
                return Ok(Some(ExitStatus::default()));
            }
            Line::Run(words) => words,
        };
        let mut command = Command::new(&self.program);
        command.args(self.complete(words));
        if self.piped {
            command.stdin(Stdio::null());
        }
        let status = command.status().map_err(|error| {
            Failure::new(Exit::Usage, "storage", format!("cannot start drowse itself: {error}"))
        })?;
        Ok(Some(status))
    }

    /// The words with the shell's own flags, where they do not say otherwise.
    fn complete(&self, words: Vec<String>) -> Vec<OsString> {
        let given = |flag: &str| {
            words
                .iter()
                .take_while(|word| *word != "--")
                .any(|word| word == flag || word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
        };
        let own = self.flags.iter().filter(|(flag, _)| !given(flag));
        let mut all: Vec<OsString> = Vec::new();
        for (flag, value) in own {
            all.push(flag.into());
            all.extend(value.as_ref().map(OsString::from));
        }
        all.extend(words.into_iter().map(OsString::from));
        all
    }
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, found) = completion::of_line(line.get(..at).unwrap_or_default(), self.session.as_ref());
        let pair = |(display, replacement)| Pair { display, replacement };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

impl Hinter for Words {
    type Hint = String;
}
impl Highlighter for Words {}
impl Validator for Words {}
impl Helper for Words {}

fn exit(status: ExitStatus) -> Exit {
    let code = status.code().or_else(|| status.signal().map(|_| Exit::Interrupted as i32));
    [Exit::Usage, Exit::Server, Exit::Network, Exit::Authorization, Exit::Interrupted]
        .into_iter()
        .find(|&exit| Some(exit as i32) == code)
        .unwrap_or(Exit::Usage)
}

/// What a line asks for, in a shell that is about `session`.
fn read(line: &str, session: Option<&SessionName>) -> Result<Line, Failure> {
    let words = command_line(line).ok_or_else(|| Failure::usage("a quote or a backslash has no end"))?;
    // Whoever pastes a line from elsewhere.
    let words: Vec<String> = match words.first() {
        Some(first) if first == "drowse" => words.into_iter().skip(1).collect(),
        None => return Ok(Line::Nothing),
        Some(first) if first.starts_with('#') => return Ok(Line::Nothing),
        Some(_) => words,
    };
    let plain: Vec<&str> = words.iter().map(String::as_str).collect();
    match plain.as_slice() {
        ["exit" | "quit"] => return Ok(Line::Exit),
        ["use"] => return Ok(Line::Use(None)),
        ["use", name] => {
            let name = SessionName::new(name).map_err(|error| Failure::usage(error.to_string()))?;
            return Ok(Line::Use(Some(name)));
        }
        ["use", ..] => return Err(Failure::usage("`use` takes one session").with_hint("use @name")),
        ["shell", ..] => return Err(Failure::usage("this is a shell already").with_hint("use @name")),
        _ => {}
    }
    let Some(session) = session.filter(|_| is_about_a_session(&words)) else { return Ok(Line::Run(words)) };
    Ok(Line::Run([session.to_string()].into_iter().chain(words).collect()))
}

/// Whether the line is about a session and does not say which.
fn is_about_a_session(words: &[String]) -> bool {
    let own = words.iter().map(String::as_str).take_while(|word| *word != "--");
    if own.clone().any(|word| word == "--server" || word.starts_with("--server=")) {
        return false;
    }
    let mut plain = own.filter(|word| !word.starts_with('-'));
    match (plain.next(), plain.next()) {
        (Some(first), _) if first.starts_with('@') => false,
        (_, Some(second)) if second.starts_with('@') => false,
        // Flags alone: as bare `@name` takes them, as for example --json.
        (None, _) => !words.is_empty(),
        (Some(first), _) => grammar::verb(first)
            .is_none_or(|verb| matches!(verb.session, Session::Required | Session::OrServer)),
    }
}

/// Whether a line may be written to a file: it may hold a secret where headers or variables are given.
fn may_be_remembered(line: &str) -> bool {
    let secret = |word: &str| {
        ["-H", "--header", "--env", "--proxy-bearer-token"].iter().any(|flag| {
            word == *flag
                || word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=') || *flag == "-H")
        })
    };
    let words = command_line(line)
        .map_or_else(|| vec![Cow::from(line)], |words| words.into_iter().map(Cow::from).collect());
    !line.trim().is_empty() && !line.starts_with(' ') && !words.iter().any(|word| secret(word))
}

fn history_file() -> Result<PathBuf, Failure> {
    Ok(super::open()?.home().root().join("history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> SessionName {
        SessionName::new(text).unwrap()
    }

    #[track_caller]
    fn runs(line: &str, session: Option<&str>, wanted: &[&str]) {
        let session = session.map(name);
        let wanted = wanted.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(read(line, session.as_ref()).unwrap(), Line::Run(wanted), "{line}");
    }

    #[test]
    fn lines_are_about_the_session_unless_they_say_otherwise() {
        runs("tools-list", Some("@a"), &["@a", "tools-list"]);
        runs("drowse tools-list --full", Some("@a"), &["@a", "tools-list", "--full"]);
        runs("--json tools-list", Some("@a"), &["@a", "--json", "tools-list"]);
        runs("--json", Some("@a"), &["@a", "--json"]);
        runs("@b tools-list", Some("@a"), &["@b", "tools-list"]);
        runs("close @b", Some("@a"), &["close", "@b"]);
        runs("tools-list --server x", Some("@a"), &["tools-list", "--server", "x"]);
        runs("connect @b -- x @c", Some("@a"), &["connect", "@b", "--", "x", "@c"]);
        runs("help tools-call", Some("@a"), &["help", "tools-call"]);
        runs("clean", Some("@a"), &["clean"]);
        runs("toolslist", Some("@a"), &["@a", "toolslist"]);
        runs("tools-call echo 'text=a b'", Some("@a"), &["@a", "tools-call", "echo", "text=a b"]);
        runs("tools-list", None, &["tools-list"]);
        // Bare `drowse`: the list.
        runs("drowse", Some("@a"), &[]);
    }

    #[test]
    fn words_of_the_shell_itself() {
        let read = |line| read(line, Some(&name("@a")));
        for line in ["", "   ", "# a remark"] {
            assert_eq!(read(line).unwrap(), Line::Nothing, "{line:?}");
        }
        assert_eq!(read("exit").unwrap(), Line::Exit);
        assert_eq!(read("quit").unwrap(), Line::Exit);
        assert_eq!(read("use @b").unwrap(), Line::Use(Some(name("@b"))));
        assert_eq!(read("use").unwrap(), Line::Use(None));
        for line in ["use @b @c", "use a/b", "shell", "tools-call 'x", "x \\"] {
            assert!(read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn flags_of_the_shell_are_those_of_each_line_that_has_none() {
        let shell = Shell {
            program: PathBuf::new(),
            flags: vec![("--json", None), ("--timeout", Some("7".into()))],
            session: None,
            piped: false,
        };
        let complete = |words: &[&str]| shell.complete(words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(complete(&["ping"]), ["--json", "--timeout", "7", "ping"]);
        assert_eq!(complete(&["ping", "--timeout=9"]), ["--json", "ping", "--timeout=9"]);
        assert_eq!(
            complete(&["connect", "--", "x", "--json"]),
            ["--json", "--timeout", "7", "connect", "--", "x", "--json"]
        );
    }

    #[test]
    fn secrets_are_not_remembered() {
        for line in [
            "connect u -H 'A: b'",
            "connect u -HA:b",
            "connect --header='A: b' u",
            "connect --env A=b -- x",
            " tools-list",
            "",
        ] {
            assert!(!may_be_remembered(line), "{line}");
        }
        assert!(may_be_remembered("tools-call echo text=-Hello"));
    }
}
