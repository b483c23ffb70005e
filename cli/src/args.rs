//! The command line, checked.
//!
//! Owns the way from raw words to one [`Command`] with its [`Globals`]: first the grammar that is drowse's own (`@name`,
//! the verb, in either order, flags anywhere), then the verb's flags by clap, then values. Never does what it read.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use drowse_runtime::config;
use drowse_runtime::home::SessionName;

use crate::answers::Elicit;
use crate::error::Failure;
use crate::grammar::{self, Session, Verb};
use crate::target;

mod connect;
mod tasks;

pub(crate) use connect::{Connect, Variable};
pub(crate) use tasks::{Mode, Tasks};

/// What to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    List,
    Info {
        session: SessionName,
    },
    Connect(Box<Connect>),
    Close {
        session: SessionName,
    },
    Restart {
        session: SessionName,
    },
    ToolsList {
        session: SessionName,
        full: bool,
    },
    ToolsGet {
        session: SessionName,
        tool: String,
    },
    ToolsCall {
        session: SessionName,
        tool: String,
        words: Vec<String>,
        output: Option<PathBuf>,
        task: Option<Mode>,
    },
    Tasks {
        session: SessionName,
        what: Tasks,
    },
    /// `tools-call <tool> --help`: that tool's arguments.
    ToolHelp {
        session: SessionName,
        tool: String,
    },
    ResourcesList {
        session: SessionName,
    },
    ResourcesRead {
        session: SessionName,
        uri: String,
        output: Option<PathBuf>,
    },
    Ping {
        session: SessionName,
    },
    Logs {
        session: SessionName,
        lines: usize,
        follow: bool,
    },
    Clean {
        all: bool,
    },
    Demo,
    DemoServer,
    /// Help or the version: text for stdout.
    Show(String),
}

/// The flags that every verb takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Globals {
    pub(crate) json: bool,
    pub(crate) verbose: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_chars: Option<usize>,
    /// `--elicit`, which only commands that may be asked something take.
    pub(crate) elicit: Option<Elicit>,
}

impl Globals {
    /// What can be told of a line that may not parse: how its failure is to be shown.
    pub(crate) fn guess(words: &[OsString]) -> Self {
        let json = words.iter().take_while(|word| *word != "--").any(|word| word == "--json" || word == "-j");
        Self {
            json: json || switched_on("DROWSE_JSON"),
            verbose: switched_on("DROWSE_VERBOSE"),
            ..Self::default()
        }
    }
}

/// Reads a command line without its first word.
pub(crate) fn parse(words: Vec<OsString>) -> Result<(Command, Globals), Failure> {
    let guess = Globals::guess(&words);
    let split = Split::new(words)?;
    if split.wants(&["--version", "-V"]) && split.verb.is_none() {
        return Ok((Command::Show(format!("drowse {}\n", env!("CARGO_PKG_VERSION"))), guess));
    }
    let Some(verb) = split.verb else {
        if split.wants(&["--help", "-h"]) {
            return Ok((Command::Show(grammar::overview()), guess));
        }
        let matches = split.matches(&grammar::BARE)?;
        let command = match split.session {
            Some(session) => Command::Info { session },
            None => Command::List,
        };
        return Ok((command, globals(&matches, guess)?));
    };
    if split.wants(&["--help", "-h"]) {
        let command = match (verb.name, &split.session, split.first_positional()) {
            ("tools-call", Some(session), Some(tool)) => {
                Command::ToolHelp { session: session.clone(), tool: text(tool)? }
            }
            ("help", _, None) => Command::Show(grammar::overview()),
            _ => Command::Show(verb_help(verb)),
        };
        return Ok((command, guess));
    }
    let matches = split.matches(verb)?;
    let globals = globals(&matches, guess)?;
    match (verb.session, &split.session) {
        (Session::Required, None) => return Err(no_session(verb)),
        (Session::None, Some(session)) => {
            return Err(Failure::usage(format!(
                "`{}` does not take a session, but {session} was given",
                verb.name
            )));
        }
        _ => {}
    }
    Ok((command(verb, split.session, &matches)?, globals))
}

/// The line, after drowse's own grammar: who, what, and the rest for clap.
struct Split {
    session: Option<SessionName>,
    verb: Option<&'static Verb>,
    rest: Vec<OsString>,
}

impl Split {
    /// Takes the first two positional words as `@name` and verb, in either order; keeps everything else in place.
    fn new(words: Vec<OsString>) -> Result<Self, Failure> {
        let mut split = Self { session: None, verb: None, rest: Vec::with_capacity(words.len()) };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            if split.is_complete() || word == "--" {
                split.rest.push(word);
                split.rest.extend(words);
                break;
            }
            let typed = word.to_string_lossy();
            if typed.starts_with('-') && typed != "-" {
                let wants_value = grammar::takes_value(&typed);
                split.rest.push(word);
                if wants_value {
                    split.rest.extend(words.next());
                }
            } else if typed.starts_with('@') {
                let name = session_name(&typed)?;
                if let Some(first) = &split.session {
                    return Err(Failure::usage(format!("two sessions: {first} and {name}")));
                }
                split.session = Some(name);
            } else if split.verb.is_none() {
                split.verb = Some(find_verb(&typed, split.session.as_ref())?);
            } else {
                // The verb stands first and its next word is not a session: the grammar is the verb's own from here.
                split.rest.push(word);
                split.rest.extend(words);
                break;
            }
        }
        Ok(split)
    }

    /// Whether the next words belong to the verb. `connect` keeps every `@name` after it: it may stand anywhere.
    fn is_complete(&self) -> bool {
        match self.verb {
            Some(verb) => self.session.is_some() || verb.session != Session::Required,
            None => false,
        }
    }

    /// Whether one of these switches stands before `--`.
    fn wants(&self, switches: &[&str]) -> bool {
        self.rest
            .iter()
            .take_while(|word| *word != "--")
            .any(|word| switches.iter().any(|switch| word == switch))
    }

    fn first_positional(&self) -> Option<&OsStr> {
        let mut words = self.rest.iter();
        while let Some(word) = words.next() {
            match word.to_str() {
                Some("--") => return words.next().map(OsString::as_os_str),
                Some(flag) if flag.len() > 1 && flag.starts_with('-') => {
                    if grammar::takes_value(flag) {
                        words.next();
                    }
                }
                _ => return Some(word),
            }
        }
        None
    }

    fn matches(&self, verb: &Verb) -> Result<ArgMatches, Failure> {
        grammar::command(verb).try_get_matches_from(&self.rest).map_err(|error| refuse(verb, &error))
    }
}

/// The verb, or the best thing to say about a word that is none.
fn find_verb(typed: &str, session: Option<&SessionName>) -> Result<&'static Verb, Failure> {
    if let Some(verb) = grammar::verb(typed) {
        return Ok(verb);
    }
    if grammar::is_later_verb(typed) {
        return Err(Failure::usage(format!("`{typed}` comes with a later release of drowse")));
    }
    let failure = Failure::usage(format!("there is no command `{typed}`"));
    let who = session.map_or_else(String::new, |session| format!("{session} "));
    if let Some(meant) = grammar::similar_verb(typed) {
        return Err(failure.with_hint(format!("Did you mean: drowse {who}{meant}")));
    }
    if session.is_none() && target::looks_like_server(typed) {
        return Err(failure.with_hint(format!("to use a server: drowse connect {typed}")));
    }
    if session.is_none() && session_name(typed).is_ok() {
        return Err(failure.with_hint(format!(
            "a session is written with an @: drowse @{typed}\nall commands: drowse --help"
        )));
    }
    Err(failure.with_hint("all commands: drowse --help"))
}

fn no_session(verb: &Verb) -> Failure {
    Failure::usage(format!("`{}` needs a session", verb.name)).with_hint(format!(
        "{}\nsessions: drowse",
        format!("drowse @name {} {}", verb.name, verb.usage).trim_end()
    ))
}

fn command(verb: &Verb, session: Option<SessionName>, matches: &ArgMatches) -> Result<Command, Failure> {
    let required = |id: &str| matches.get_one::<String>(id).cloned().unwrap_or_default();
    let output = || matches.get_one::<String>("output").map(PathBuf::from);
    if verb.name == "connect" {
        return connect::read(session, matches).map(|connect| Command::Connect(Box::new(connect)));
    }
    if let Some(session) = session {
        return Ok(match verb.name {
            "close" => Command::Close { session },
            "restart" => Command::Restart { session },
            "tools-list" => Command::ToolsList { session, full: matches.get_flag("full") },
            "tools-get" => Command::ToolsGet { session, tool: required("tool") },
            "tools-call" => Command::ToolsCall {
                session,
                tool: required("tool"),
                words: matches.get_many::<String>("arguments").into_iter().flatten().cloned().collect(),
                output: output(),
                task: tasks::mode(matches),
            },
            "tasks-list" | "tasks-get" | "tasks-result" | "tasks-cancel" => {
                Command::Tasks { session, what: tasks::read(verb.name, matches) }
            }
            "resources-list" => Command::ResourcesList { session },
            "resources-read" => Command::ResourcesRead { session, uri: required("uri"), output: output() },
            "ping" => Command::Ping { session },
            "logs" => Command::Logs {
                session,
                lines: number("--lines", &required("lines"))?,
                follow: matches.get_flag("follow"),
            },
            other => return Err(Failure::usage(format!("`{other}` does not take a session"))),
        });
    }
    match verb.name {
        "clean" => Ok(Command::Clean { all: matches.contains_id("what") }),
        "demo" => Ok(Command::Demo),
        "demo-server" => Ok(Command::DemoServer),
        "help" => match matches.get_one::<String>("command") {
            None => Ok(Command::Show(grammar::overview())),
            Some(name) => find_verb(name, None).map(|verb| Command::Show(verb_help(verb))),
        },
        other => Err(Failure::usage(format!("`{other}` needs a session"))),
    }
}

fn session_name(typed: &str) -> Result<SessionName, Failure> {
    SessionName::new(typed).map_err(|error| Failure::usage(error.to_string()))
}

/// A duration that can be kept and added to an instant.
fn seconds(typed: &str) -> Option<u64> {
    config::seconds(typed).filter(|&seconds| seconds <= MAX_SECONDS)
}

/// A century: far beyond any use, and far from overflow in milliseconds and microseconds.
const MAX_SECONDS: u64 = 100 * 366 * 86400;

fn number(flag: &str, typed: &str) -> Result<usize, Failure> {
    Some(typed)
        .filter(|typed| typed.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|typed| typed.parse().ok())
        .ok_or_else(|| Failure::usage(format!("{flag} takes a whole number, not `{typed}`")))
}

fn globals(matches: &ArgMatches, guess: Globals) -> Result<Globals, Failure> {
    let timeout = matches
        .get_one::<String>("timeout")
        .map(|typed| match seconds(typed) {
            Some(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
            _ => Err(Failure::usage(format!(
                "--timeout takes a positive number of seconds, or 90s, 5m; not `{typed}`"
            ))),
        })
        .transpose()?;
    let max_chars =
        matches.get_one::<String>("max-chars").map(|typed| number("--max-chars", typed)).transpose()?;
    Ok(Globals {
        json: guess.json || matches.get_flag("json"),
        verbose: guess.verbose || matches.get_flag("verbose"),
        timeout,
        max_chars,
        elicit: elicit(matches)?,
    })
}

fn elicit(matches: &ArgMatches) -> Result<Option<Elicit>, Failure> {
    match matches.try_get_one::<String>("elicit") {
        Ok(Some(typed)) => Elicit::parse(typed).map(Some),
        _ => Ok(None),
    }
}

fn switched_on(variable: &str) -> bool {
    std::env::var_os(variable)
        .is_some_and(|value| !matches!(value.to_str(), Some("" | "0" | "false" | "no" | "off")))
}

fn text(word: &OsStr) -> Result<String, Failure> {
    word.to_str().map(str::to_owned).ok_or_else(|| Failure::usage("the command line is not valid UTF-8"))
}

fn verb_help(verb: &Verb) -> String {
    grammar::command(verb).render_help().to_string()
}

/// What clap refused, in our own words, with what to do.
fn refuse(verb: &Verb, error: &clap::Error) -> Failure {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(value)) => Some(value.clone()),
        Some(ContextValue::Strings(values)) => Some(values.join(", ")),
        _ => None,
    };
    let argument = context(ContextKind::InvalidArg).unwrap_or_default();
    let help = if verb.name.is_empty() {
        "drowse --help".to_owned()
    } else {
        format!("drowse {} --help", verb.name)
    };
    match error.kind() {
        ErrorKind::UnknownArgument if grammar::is_later_flag(&argument) => {
            Failure::usage(format!("`{argument}` comes with a later release of drowse"))
        }
        ErrorKind::UnknownArgument if verb.name != "connect" && grammar::is_connect_flag(&argument) => {
            Failure::usage(format!("unexpected flag `{argument}`: it belongs to `connect`")).with_hint(help)
        }
        ErrorKind::UnknownArgument => {
            let what = if argument.starts_with('-') { "flag" } else { "argument" };
            let failure = Failure::usage(format!("unexpected {what} `{argument}`"));
            match context(ContextKind::SuggestedArg) {
                Some(meant) => failure.with_hint(format!("Did you mean: {meant}")),
                None => failure.with_hint(help),
            }
        }
        ErrorKind::MissingRequiredArgument => Failure::usage(format!("missing {argument}")).with_hint(help),
        ErrorKind::ArgumentConflict => Failure::usage(format!("`{argument}` is given twice")).with_hint(help),
        ErrorKind::InvalidUtf8 => Failure::usage("the command line is not valid UTF-8"),
        ErrorKind::InvalidValue => {
            let value = context(ContextKind::InvalidValue).unwrap_or_default();
            let failure = if value.is_empty() {
                Failure::usage(format!("`{argument}` needs a value"))
            } else {
                Failure::usage(format!("`{value}` is not a value of {argument}"))
            };
            failure.with_hint(help)
        }
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Failure::usage(first.strip_prefix("error: ").unwrap_or(first)).with_hint(help)
        }
    }
}

#[cfg(test)]
mod tests;
