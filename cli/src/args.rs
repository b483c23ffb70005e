//! The command line, checked.
//!
//! Owns the way from raw words to one [`Command`] with its [`Globals`]: first the grammar that is drowse's own (`@name`,
//! the verb, in either order, flags anywhere), then the verb's flags by clap, then values. Never does what it read.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use drowse_runtime::caller::{Change, Level, WantedShare};
use drowse_runtime::config;
use drowse_runtime::home::SessionName;
use drowse_runtime::record::Settings;
use drowse_runtime::remote::Header;
use drowse_runtime::suggest::nearest;

use crate::answers::Elicit;
use crate::completion::Shell;
use crate::error::Failure;
use crate::grammar::{self, Session, Verb, topics};
use crate::schema::expected::{Expected, Mode};
use crate::target::{self, Target};
use crate::text::shell_quoted;

mod connect;
mod dev;
mod front;
mod grep;
mod life;
mod plain;
mod settings;
mod share;
mod tasks;

pub(crate) use connect::{Connect, Variable};
pub(crate) use dev::Dev;
pub(crate) use front::{LIMIT as HTTP_LIMIT, NAMES as HTTP_SETTINGS};
pub(crate) use grep::Grep;
pub(crate) use settings::Config;
pub(crate) use tasks::{TaskMode, Tasks};

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
    /// `set`; without a change: show them all.
    Set {
        session: SessionName,
        changes: Vec<Change>,
        share: WantedShare,
    },
    Config(Config),
    ToolsList {
        session: SessionName,
        full: bool,
    },
    ToolsGet {
        session: SessionName,
        tool: String,
        expected: Option<Expected>,
    },
    ToolsCall {
        session: SessionName,
        tool: String,
        given: Given,
        check: Check,
        task: Option<TaskMode>,
    },
    Tasks {
        session: SessionName,
        what: Tasks,
    },
    /// `logging-set-level`; no level: `off`.
    SetLevel {
        session: SessionName,
        level: Option<Level>,
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
    TemplatesList {
        session: SessionName,
    },
    PromptsList {
        session: SessionName,
    },
    PromptsGet {
        session: SessionName,
        prompt: String,
        given: Given,
    },
    Complete {
        session: SessionName,
        asked: Completion,
    },
    ResourcesSubscribe {
        session: SessionName,
        uri: String,
        /// `--sync`: keep this file equal, in the background.
        sync: Option<PathBuf>,
    },
    ResourcesUnsubscribe {
        session: SessionName,
        uri: String,
    },
    Ping {
        session: SessionName,
    },
    Grep(Box<Grep>),
    Logs {
        session: SessionName,
        lines: usize,
        follow: bool,
    },
    /// `stats`; no session: all.
    Stats {
        session: Option<SessionName>,
    },
    Timeline {
        session: SessionName,
        /// No duration: all of it.
        since: Option<Duration>,
        output: Option<PathBuf>,
    },
    Clean {
        all: bool,
    },
    /// `import`; no files: wherever servers are usually kept.
    Import {
        files: Vec<PathBuf>,
        yes: bool,
    },
    /// `shell`, on a session or on all.
    Shell {
        session: Option<SessionName>,
    },
    Ps {
        session: Option<SessionName>,
    },
    Top {
        once: bool,
    },
    Doctor {
        dry_run: bool,
    },
    Dev(Box<Dev>),
    Demo,
    DemoServer,
    /// `completions`: a script for stdout.
    Completions(Shell),
    /// `man`: a page for stdout, or all of them into a directory.
    Man {
        verb: Option<&'static str>,
        directory: Option<PathBuf>,
    },
    /// Help or the version: text for stdout.
    Show(String),
    /// A command on a server of its own, which it calls by a name as if it were a session.
    Once {
        server: Box<Once>,
        command: Box<Self>,
    },
}

/// What a tool or prompt is given, and what becomes of its content.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) words: Vec<String>,
    pub(crate) output: Option<PathBuf>,
    pub(crate) expected: Option<Expected>,
}

/// Whether arguments are checked before they are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Check {
    /// By what is known of the tool; what does not fit that, by what the server says of it.
    #[default]
    IfKnown,
    Always,
    Never,
}

/// A server that is there for one command.
#[derive(Debug, PartialEq)]
pub(crate) struct Once {
    pub(crate) name: SessionName,
    pub(crate) target: Target,
    pub(crate) settings: Settings,
    pub(crate) env: Vec<Variable>,
    pub(crate) headers: Vec<Header>,
    /// How it was given: what ends a line that uses it again.
    pub(crate) typed: String,
}

/// What `complete` was given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// Whether `reference` is a template of resource URIs, and not a prompt.
    pub(crate) of_resource: bool,
    pub(crate) reference: String,
    pub(crate) argument: String,
    pub(crate) prefix: String,
    /// Arguments that have a value already.
    pub(crate) with: Vec<(String, String)>,
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
    /// `--cached`, which only commands take that a snapshot can answer.
    pub(crate) cached: bool,
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
    let mut split = Split::new(words)?;
    let guess = if split.verb.is_some_and(|verb| verb.name == "dev") {
        split.end_flags();
        // What comes after the server's command is not ours.
        Globals::guess(&split.rest)
    } else {
        guess
    };
    if split.wants(&["--version", "-V"]) && split.verb.is_none() {
        return Ok((Command::Show(format!("drowse {}\n", env!("CARGO_PKG_VERSION"))), guess));
    }
    if let Some(call) = plain::call(&split) {
        return Ok((call, guess));
    }
    let verb = split.verb.unwrap_or(&grammar::BARE);
    let parsed = parse_of(verb, split, guess);
    if verb.name == "grep" { parsed.map_err(Failure::of_grep) } else { parsed }
}

/// Reads the line of a verb.
fn parse_of(verb: &'static Verb, mut split: Split, guess: Globals) -> Result<(Command, Globals), Failure> {
    let asks_for_help = split.wants(&["--help", "-h"]);
    if asks_for_help && !(verb.name == "tools-call" && split.first_positional().is_some()) {
        let help = matches!((verb.name, split.first_positional()), ("" | "help", None));
        return Ok((Command::Show(if help { grammar::overview() } else { verb_help(verb) }), guess));
    }
    let words = split.cut_server_command(verb);
    let matches = split.matches(verb)?;
    let globals = globals(&matches, guess)?;
    let server = once(verb, &split, &matches, words)?;
    let session = server.as_ref().map(|server| server.name.clone()).or(split.session);
    match (verb.session, &session) {
        // Without any server, that of the verb in general.
        (_, None) if asks_for_help => return Ok((Command::Show(verb_help(verb)), globals)),
        (Session::Required | Session::OrServer, None) => return Err(no_session(verb)),
        (Session::None, Some(session)) => {
            return Err(Failure::usage(format!(
                "`{}` does not take a session, but {session} was given",
                verb.name
            )));
        }
        _ => {}
    }
    if globals.cached && (server.is_some() || session.is_none()) {
        return Err(Failure::usage("--cached is about a session: a server of its own has left no snapshot"));
    }
    let command = match (verb.name, session) {
        ("", Some(session)) => Command::Info { session },
        ("", None) => Command::List,
        ("tools-call", Some(session)) if asks_for_help => Command::ToolHelp {
            session,
            tool: matches.get_one::<String>("tool").cloned().unwrap_or_default(),
        },
        (_, session) => command(verb, session, &matches)?,
    };
    let command = match server {
        Some(server) => Command::Once { server: Box::new(server), command: Box::new(command) },
        None => command,
    };
    Ok((command, globals))
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
            Some(verb) => {
                self.session.is_some() || !matches!(verb.session, Session::Required | Session::OrServer)
            }
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

    /// Ends the flags before the first word that is none, as `--` does: from there on everything is a server's command.
    fn end_flags(&mut self) {
        let mut at = 0;
        while let Some(word) = self.rest.get(at).map(|word| word.to_string_lossy()) {
            if word == "--" {
                return;
            }
            if !word.starts_with('-') || word == "-" {
                self.rest.insert(at, "--".into());
                return;
            }
            at += if grammar::takes_value(&word) { 2 } else { 1 };
        }
    }

    /// Takes what stands after `--`, where that is a server's command line: a session has no use for one.
    fn cut_server_command(&mut self, verb: &Verb) -> Vec<OsString> {
        if self.session.is_some() || !grammar::takes_server(verb) {
            return Vec::new();
        }
        let at = self.rest.iter().position(|word| word == "--");
        at.map_or_else(Vec::new, |at| self.rest.split_off(at).split_off(1))
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

/// That there is no manual page of it.
fn no_page(typed: &str) -> Failure {
    let failure = Failure::usage(format!("there is no command `{typed}`"));
    match grammar::similar_verb(typed) {
        Some(meant) => failure.with_hint(format!("Did you mean: drowse man {meant}")),
        None => failure.with_hint("all commands: drowse --help"),
    }
}

fn no_session(verb: &Verb) -> Failure {
    let usage = verb.usage.lines().next().unwrap_or_default();
    let line = format!("{} {usage}", verb.name);
    let line = line.trim_end();
    let once = match verb.session {
        Session::OrServer => format!("drowse {line} --server <url | file:entry | \"command line\">\n"),
        _ => String::new(),
    };
    Failure::usage(format!("`{}` needs a session", verb.name))
        .with_hint(format!("drowse @name {line}\n{once}sessions: drowse"))
}

/// The server that the command is to have for itself, if it names one.
fn once(
    verb: &Verb,
    split: &Split,
    matches: &ArgMatches,
    command: Vec<OsString>,
) -> Result<Option<Once>, Failure> {
    if !grammar::takes_server(verb) {
        return Ok(None);
    }
    let command = command.iter().map(|word| text(word)).collect::<Result<Vec<_>, _>>()?;
    let of_server = grammar::OF_SERVER.iter().find(|id| {
        matches.value_source(id).is_some_and(|source| source == clap::parser::ValueSource::CommandLine)
    });
    let (target, typed) = match (matches.get_one::<String>("server"), command.is_empty(), &split.session) {
        (None, true, _) => {
            return match of_server {
                None => Ok(None),
                Some(flag) => Err(Failure::usage(format!(
                    "--{flag} is about a server, and belongs to `connect`, or to one that is given with --server"
                ))),
            };
        }
        (Some(given), true, None) => (target::once(given)?, format!("--server {}", shell_quoted(given))),
        (None, false, None) => {
            let typed: Vec<_> = command.iter().map(|word| shell_quoted(word)).collect();
            (target::parse(&[], command)?, format!("-- {}", typed.join(" ")))
        }
        (Some(given), false, _) => {
            return Err(Failure::usage(format!("two servers: `{given}`, and the command after --")));
        }
        (_, _, Some(session)) => {
            return Err(Failure::usage(format!("two servers: {session}, and that of --server")));
        }
    };
    let (settings, env) = (connect::for_once(matches)?, connect::variables(matches)?);
    let headers = connect::headers(matches)?;
    connect::check_command(&target, &settings, &headers)?;
    let name = session_name(&target.derived_name())?;
    Ok(Some(Once { name, target, settings, env, headers, typed }))
}

fn command(verb: &Verb, session: Option<SessionName>, matches: &ArgMatches) -> Result<Command, Failure> {
    let required = |id: &str| matches.get_one::<String>(id).cloned().unwrap_or_default();
    let output = || matches.get_one::<String>("output").map(PathBuf::from);
    if verb.name == "grep" {
        return grep::read(session, matches).map(|grep| Command::Grep(Box::new(grep)));
    }
    if verb.name == "connect" {
        return connect::read(session, matches).map(|connect| Command::Connect(Box::new(connect)));
    }
    if verb.name == "shell" {
        let named = matches.get_one::<String>("session").map(|typed| session_name(typed)).transpose()?;
        return match (session, named) {
            (Some(one), Some(other)) => Err(Failure::usage(format!("two sessions: {one} and {other}"))),
            (one, other) => Ok(Command::Shell { session: one.or(other) }),
        };
    }
    if let Some(session) = session {
        return Ok(match verb.name {
            "close" => Command::Close { session },
            "restart" => Command::Restart { session },
            "set" => {
                let (changes, share) = settings::changes(&session, matches)?;
                Command::Set { session, changes, share }
            }
            "tools-list" => Command::ToolsList { session, full: matches.get_flag("full") },
            "tools-get" => {
                Command::ToolsGet { session, tool: required("tool"), expected: expected(matches)? }
            }
            "tools-call" => Command::ToolsCall {
                session,
                tool: required("tool"),
                given: given(matches)?,
                check: match (matches.get_flag("check"), matches.get_flag("no-check")) {
                    (true, _) => Check::Always,
                    (false, true) => Check::Never,
                    (false, false) => Check::IfKnown,
                },
                task: tasks::mode(matches),
            },
            "logging-set-level" => Command::SetLevel { session, level: Level::from_name(&required("level")) },
            "tasks-list" | "tasks-get" | "tasks-result" | "tasks-cancel" => {
                Command::Tasks { session, what: tasks::read(verb.name, matches) }
            }
            "resources-list" => Command::ResourcesList { session },
            "resources-read" => Command::ResourcesRead { session, uri: required("uri"), output: output() },
            "resources-templates-list" => Command::TemplatesList { session },
            "prompts-list" => Command::PromptsList { session },
            "prompts-get" => {
                Command::PromptsGet { session, prompt: required("prompt"), given: given(matches)? }
            }
            "complete" => Command::Complete {
                session,
                asked: Completion {
                    of_resource: required("of") == "resource",
                    reference: required("reference"),
                    argument: required("argument"),
                    prefix: required("prefix"),
                    with: with(matches)?,
                },
            },
            "resources-subscribe" => Command::ResourcesSubscribe {
                session,
                uri: required("uri"),
                sync: matches.get_one::<String>("sync").map(PathBuf::from),
            },
            "resources-unsubscribe" => Command::ResourcesUnsubscribe { session, uri: required("uri") },
            "ping" => Command::Ping { session },
            "logs" => Command::Logs {
                session,
                lines: number("--lines", &required("lines"))?,
                follow: matches.get_flag("follow"),
            },
            "ps" => match matches.get_one::<String>("session") {
                None => Command::Ps { session: Some(session) },
                Some(other) => return Err(Failure::usage(format!("two sessions: {session} and {other}"))),
            },
            "stats" => life::stats(Some(session), matches)?,
            "timeline" => life::timeline(session, matches)?,
            other => return Err(Failure::usage(format!("`{other}` does not take a session"))),
        });
    }
    match verb.name {
        "stats" => life::stats(None, matches),
        "clean" => Ok(Command::Clean { all: matches.contains_id("what") }),
        "import" => Ok(Command::Import {
            files: matches.get_many::<String>("files").into_iter().flatten().map(PathBuf::from).collect(),
            yes: matches.get_flag("yes"),
        }),
        "config" => settings::config(matches).map(Command::Config),
        "ps" => {
            let session =
                matches.get_one::<String>("session").map(|typed| session_name(typed)).transpose()?;
            Ok(Command::Ps { session })
        }
        "top" => Ok(Command::Top { once: matches.get_flag("once") }),
        "doctor" => Ok(Command::Doctor { dry_run: matches.get_flag("dry-run") }),
        "dev" => dev::read(matches).map(|dev| Command::Dev(Box::new(dev))),
        "demo" => Ok(Command::Demo),
        "demo-server" => Ok(Command::DemoServer),
        "help" => match matches.get_one::<String>("command") {
            None => Ok(Command::Show(grammar::overview())),
            Some(name) => help_on(name).map(Command::Show),
        },
        "completions" => match matches.get_one::<String>("shell").and_then(|name| Shell::named(name)) {
            Some(shell) => Ok(Command::Completions(shell)),
            None => Err(Failure::usage("missing <shell>")),
        },
        "man" => Ok(Command::Man {
            verb: matches
                .get_one::<String>("command")
                .map(|name| grammar::verb(name).ok_or_else(|| no_page(name)))
                .transpose()?
                .map(|verb| verb.name),
            directory: matches.get_one::<String>("output").map(PathBuf::from),
        }),
        other => Err(Failure::usage(format!("`{other}` needs a session"))),
    }
}

fn given(matches: &ArgMatches) -> Result<Given, Failure> {
    Ok(Given {
        words: matches.get_many::<String>("arguments").into_iter().flatten().cloned().collect(),
        output: matches.get_one::<String>("output").map(PathBuf::from),
        expected: expected(matches)?,
    })
}

fn expected(matches: &ArgMatches) -> Result<Option<Expected>, Failure> {
    let mode = matches.get_one::<String>("schema-mode").map(String::as_str);
    let Some(file) = matches.get_one::<String>("schema") else {
        return match mode {
            Some(_) => Err(Failure::usage("--schema-mode is about --schema, which is not given")),
            None => Ok(None),
        };
    };
    let mode = match mode {
        Some("strict") => Mode::Strict,
        Some("ignore") => Mode::Ignore,
        _ => Mode::Compatible,
    };
    Ok(Some(Expected { file: file.into(), mode }))
}

/// Every `--with`.
fn with(matches: &ArgMatches) -> Result<Vec<(String, String)>, Failure> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for typed in matches.get_many::<String>("with").into_iter().flatten() {
        match typed.split_once('=') {
            Some((key, _)) if pairs.iter().any(|(known, _)| known == key) => {
                return Err(Failure::usage(format!("argument `{key}` is given twice")));
            }
            Some((key, value)) if !key.is_empty() => pairs.push((key.to_owned(), value.to_owned())),
            _ => return Err(Failure::usage(format!("--with takes key=value, not `{typed}`"))),
        }
    }
    Ok(pairs)
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
        cached: matches!(matches.try_get_one::<bool>("cached"), Ok(Some(true))),
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

/// A command's help, a topic, or both where they have one name.
fn help_on(name: &str) -> Result<String, Failure> {
    match (grammar::verb(name), topics::topic(name)) {
        (Some(verb), Some(topic)) => Ok(format!("{}\n{}", verb_help(verb), topic.text())),
        (Some(verb), None) => Ok(verb_help(verb)),
        (None, Some(topic)) => Ok(topic.text()),
        (None, None) if grammar::is_later_verb(name) => find_verb(name, None).map(verb_help),
        (None, None) => {
            let failure = Failure::usage(format!("there is no command or topic `{name}`"));
            Err(match grammar::similar_help(name) {
                Some(meant) => failure.with_hint(format!("Did you mean: drowse help {meant}")),
                None => failure.with_hint("all of them: drowse help"),
            })
        }
    }
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
                None if verb.name == "dev" => {
                    failure.with_hint(format!("flags of the server come after its command\n{help}"))
                }
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
            let possible = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(values)) => values.as_slice(),
                _ => &[],
            };
            match nearest(&value, possible.iter().map(String::as_str)) {
                Some(meant) => failure.with_hint(format!("Did you mean: {meant}")),
                None if possible.is_empty() => failure.with_hint(help),
                None => failure.with_hint(format!("one of: {}\n{help}", possible.join(", "))),
            }
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
