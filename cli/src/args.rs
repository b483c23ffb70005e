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

use crate::error::Failure;
use crate::grammar::{self, Session, Verb};
use crate::target::{self, Target};

/// What to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    List,
    Info {
        session: SessionName,
    },
    Connect(Connect),
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
    BridgeServe,
    /// Help or the version: text for stdout.
    Show(String),
}

/// What `connect` was given.
#[derive(Debug, PartialEq)]
pub(crate) struct Connect {
    pub(crate) target: Target,
    pub(crate) name: Option<SessionName>,
    /// Seconds; an explicit 0 is not the same as no flag.
    pub(crate) idle_timeout: Option<u64>,
    pub(crate) env: Vec<Variable>,
    pub(crate) lazy: bool,
}

/// One `--env`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Variable {
    /// `--env NAME`: the value that it has now.
    Pinned(String),
    /// `--env NAME=VALUE`.
    Set(String, String),
}

/// The flags that every verb takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Globals {
    pub(crate) json: bool,
    pub(crate) verbose: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_chars: Option<usize>,
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
        return connect(session, matches).map(Command::Connect);
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
            },
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
        "bridge-serve" => Ok(Command::BridgeServe),
        "help" => match matches.get_one::<String>("command") {
            None => Ok(Command::Show(grammar::overview())),
            Some(name) => find_verb(name, None).map(|verb| Command::Show(verb_help(verb))),
        },
        other => Err(Failure::usage(format!("`{other}` needs a session"))),
    }
}

fn connect(session: Option<SessionName>, matches: &ArgMatches) -> Result<Connect, Failure> {
    let words: Vec<&String> = matches.get_many::<String>("server").into_iter().flatten().collect();
    let mut name = session;
    let mut servers = Vec::new();
    for word in words {
        if word.starts_with('@') {
            if let Some(first) = &name {
                return Err(Failure::usage(format!("two session names: {first} and {word}")));
            }
            name = Some(session_name(word)?);
        } else {
            servers.push(word.as_str());
        }
    }
    let command: Vec<String> = matches.get_many::<String>("command").into_iter().flatten().cloned().collect();
    let target = target::parse(&servers, command)?;
    let idle_timeout = matches
        .get_one::<String>("idle-timeout")
        .map(|typed| seconds(typed).ok_or_else(|| {
            Failure::usage(format!("--idle-timeout takes a number of seconds, or 90s, 10m, 2h, 1d; 0 means never; not `{typed}`"))
        }))
        .transpose()?;
    let env = matches
        .get_many::<String>("env")
        .into_iter()
        .flatten()
        .map(|typed| variable(typed))
        .collect::<Result<_, _>>()?;
    Ok(Connect { target, name, idle_timeout, env, lazy: matches.get_flag("lazy") })
}

fn session_name(typed: &str) -> Result<SessionName, Failure> {
    SessionName::new(typed).map_err(|error| Failure::usage(error.to_string()))
}

fn variable(typed: &str) -> Result<Variable, Failure> {
    let (name, value) = match typed.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (typed, None),
    };
    if name.is_empty() || name.contains('\0') || name.contains(char::is_whitespace) {
        return Err(Failure::usage(format!("--env takes NAME or NAME=VALUE, not `{typed}`")));
    }
    Ok(match value {
        Some(value) => Variable::Set(name.to_owned(), value.to_owned()),
        None => Variable::Pinned(name.to_owned()),
    })
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
    })
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
mod tests {
    use super::*;

    fn line(line: &str) -> Result<(Command, Globals), Failure> {
        parse(line.split_whitespace().map(OsString::from).collect())
    }

    fn command_of(text: &str) -> Command {
        line(text).unwrap_or_else(|failure| panic!("{text}: {}", failure.message)).0
    }

    fn refused(text: &str) -> Failure {
        let failure = line(text).expect_err(text);
        assert_eq!(failure.exit as u8, 1, "{text}");
        failure
    }

    fn name(name: &str) -> SessionName {
        SessionName::new(name).unwrap()
    }

    fn connected(text: &str) -> Connect {
        match command_of(text) {
            Command::Connect(connect) => connect,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn both_word_orders() {
        for (one, other) in [
            ("@s close", "close @s"),
            ("@s restart", "restart @s"),
            ("@s tools-list --full", "tools-list @s --full"),
            ("@s tools-call echo a:=1", "tools-call @s echo a:=1"),
            ("@s logs -n 5", "logs -n 5 @s"),
            ("@s connect -- cat", "connect @s -- cat"),
        ] {
            assert_eq!(command_of(one), command_of(other), "{one}");
        }
        assert_eq!(command_of("@s close"), Command::Close { session: name("s") });
    }

    #[test]
    fn flags_may_stand_anywhere() {
        let expected = (
            Command::ToolsCall {
                session: name("s"),
                tool: "echo".into(),
                words: vec!["a:=1".into()],
                output: Some("f".into()),
            },
            Globals { json: true, timeout: Some(Duration::from_secs(5)), ..Globals::default() },
        );
        for text in [
            "@s tools-call echo a:=1 -o f --json --timeout 5",
            "--json --timeout 5 @s tools-call -o f echo a:=1",
            "--timeout=5 @s --json tools-call echo --output f a:=1",
            "-j @s -o f tools-call echo a:=1 --timeout 5s --json",
        ] {
            let (command, globals) = line(text).unwrap();
            assert_eq!((command, Globals { verbose: false, ..globals }), expected, "{text}");
        }
    }

    #[test]
    fn list_and_info() {
        assert_eq!(command_of(""), Command::List);
        assert_eq!(command_of("--json"), Command::List);
        assert_eq!(command_of("@s --json"), Command::Info { session: name("s") });
    }

    #[test]
    fn connect_forms() {
        let connect = connected(
            "connect @x --idle-timeout 10m --env A --env B=c=d --lazy --timeout 9 -- npx -y srv --json",
        );
        assert_eq!(
            connect.target,
            Target::Command { program: "npx".into(), args: vec!["-y".into(), "srv".into(), "--json".into()] }
        );
        assert_eq!(connect.name, Some(name("x")));
        assert_eq!(connect.idle_timeout, Some(600));
        assert_eq!(connect.env, [Variable::Pinned("A".into()), Variable::Set("B".into(), "c=d".into())]);
        assert!(connect.lazy);
        assert!(!line("connect -- npx --json").unwrap().1.json);
        assert_eq!(connected("connect -- cat").name, None);
        assert_eq!(connected("connect -- cat").idle_timeout, None);
        assert_eq!(connected("connect --idle-timeout 0 -- cat").idle_timeout, Some(0));
    }

    #[test]
    fn connect_takes_the_name_before_or_after_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display();
        for text in [
            format!("connect {path}:fs @x"),
            format!("connect @x {path}:fs"),
            format!("@x connect {path}:fs"),
        ] {
            let connect = connected(&text);
            assert_eq!(connect.name, Some(name("x")), "{text}");
            assert_eq!(connect.target, Target::Entry { file: file.path().into(), entry: "fs".into() });
        }
        assert!(refused(&format!("@a connect {path}:fs @b")).message.contains("two session names"));
        assert!(refused(&format!("connect {path}:fs {path}:fs")).message.contains("two servers"));
    }

    #[test]
    fn idle_timeouts_that_are_none() {
        for bad in
            ["-5", "1.5", "ten", "10x", "10ms", "", "+5", "99999999999999999999", "9999999999999", "0x10"]
        {
            let failure = refused(&format!("connect --idle-timeout={bad} -- cat"));
            assert!(failure.message.contains("--idle-timeout"), "{bad}: {}", failure.message);
        }
        assert!(refused("connect --idle-timeout -5 -- cat").message.contains("`-5`"));
        for (good, seconds) in [("600", 600), ("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86400)] {
            assert_eq!(
                connected(&format!("connect --idle-timeout {good} -- cat")).idle_timeout,
                Some(seconds)
            );
        }
        for bad in ["0", "-1", "x"] {
            assert!(refused(&format!("@s ping --timeout {bad}")).message.contains("--timeout"), "{bad}");
        }
    }

    #[test]
    fn unknown_flags_are_errors_everywhere() {
        for text in [
            "--bogus",
            "@s --bogus",
            "@s tools-list --bogus",
            "--bogus @s ping",
            "connect --bogus -- cat",
            "@s ping --ful",
            "@s tools-call echo --bogus=3",
        ] {
            assert!(refused(text).message.contains("unexpected flag"), "{text}: {}", refused(text).message);
        }
        assert_eq!(refused("@s tools-list --ful").hint.as_deref(), Some("Did you mean: --full"));
        assert!(refused("@s ping -H a:b").message.contains("later release"));
        assert!(refused("@s tools-call x --task").message.contains("later release"));
        assert!(refused("@s ping extra").message.contains("unexpected argument `extra`"));
    }

    #[test]
    fn mistakes_get_an_answer_that_helps() {
        let hint = |text| refused(text).hint.unwrap_or_default();
        assert_eq!(hint("@s list-tools"), "Did you mean: drowse @s tools-list");
        assert_eq!(hint("conect x"), "Did you mean: drowse connect");
        assert!(hint("tools-list").starts_with("drowse @name tools-list [--full]\n"));
        assert!(hint("mysession").starts_with("a session is written with an @: drowse @mysession"));
        assert_eq!(hint("mcp.json:files"), "to use a server: drowse connect mcp.json:files");
        assert!(refused("@s prompts-list").message.contains("later release"));
        assert!(refused("@s tools-call").message.contains("<tool>"));
        assert!(refused("@ ping").message.contains("not a session name"));
        assert!(refused("@a @b ping").message.contains("two sessions"));
        assert!(refused("clean @s").message.contains("`@s`"));
        assert!(refused("@s clean").message.contains("does not take a session"));
        assert!(refused("@s ping --timeout 1 --timeout 2").message.contains("given twice"));
        assert!(refused("@s ping --timeout").message.contains("needs a value"));
        assert!(refused("@s logs -n x").message.contains("whole number"));
        assert!(refused("connect --env =x -- cat").message.contains("NAME"));
    }

    #[test]
    fn help_is_found_wherever_it_is_asked() {
        let shown = |text| match command_of(text) {
            Command::Show(shown) => shown,
            other => panic!("{text}: {other:?}"),
        };
        for text in ["--help", "-h", "help", "help --help", "@s --help"] {
            assert_eq!(shown(text), grammar::overview(), "{text}");
        }
        for text in ["tools-call --help", "@s tools-call -h", "help tools-call", "tools-call x --help"] {
            assert!(shown(text).contains("key=@file"), "{text}");
        }
        assert!(shown("connect --help").contains("--idle-timeout"));
        assert_eq!(
            command_of("@s tools-call echo --help"),
            Command::ToolHelp { session: name("s"), tool: "echo".into() }
        );
        assert_eq!(
            command_of("@s tools-call --timeout 5 echo -h"),
            Command::ToolHelp { session: name("s"), tool: "echo".into() }
        );
        assert!(shown("--version").starts_with("drowse "));
        assert_eq!(
            connected("connect -- npx --help").target,
            Target::Command { program: "npx".into(), args: vec!["--help".into()] }
        );
    }

    #[test]
    fn json_is_guessed_from_lines_that_do_not_parse() {
        let guess = |text: &str| {
            Globals::guess(&text.split_whitespace().map(OsString::from).collect::<Vec<_>>()).json
        };
        assert!(guess("@s --bogus --json") && guess("-j nonsense"));
        assert!(!guess("connect -- npx --json"));
    }
}
