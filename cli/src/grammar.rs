//! The words and flags that drowse understands: one table of verbs, and a clap command for each.
//!
//! Owns spelling: names, aliases, help texts, suggestions for typos, and what is promised for later. Never looks at
//! values: `args` turns matches into checked arguments. A command line builds the clap command of its own verb only,
//! which is what keeps a warm `tools-call` near the cost of an empty program.

use clap::{Arg, ArgAction, Command};
use drowse_runtime::suggest::nearest;

/// One verb of the command line.
#[derive(Debug)]
pub(crate) struct Verb {
    pub(crate) name: &'static str,
    pub(crate) session: Session,
    /// One line of the overview.
    pub(crate) about: &'static str,
    /// Positional arguments and flags, as the overview shows them.
    pub(crate) usage: &'static str,
    /// More, for the verb's own help.
    details: &'static str,
    build: fn(Command) -> Command,
}

/// How a verb stands to `@name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    Required,
    Optional,
    None,
}

/// Every verb, in the order of the overview. Hidden ones have no `about`.
pub(crate) const VERBS: &[Verb] = &[
    Verb {
        name: "connect",
        session: Session::Optional,
        about: "Create a session, or reconnect one, and start its server",
        usage: "[flags] <url | file:entry | file> [@name]\n       drowse connect [flags] [@name] -- <command>…",
        details: CONNECT_DETAILS,
        build: connect,
    },
    Verb {
        name: "close",
        session: Session::Required,
        about: "End the server and forget the session",
        usage: "",
        details: "",
        build: |command| command,
    },
    Verb {
        name: "restart",
        session: Session::Required,
        about: "End the server and start a fresh one; an edited configuration file takes effect",
        usage: "",
        details: "",
        build: |command| command,
    },
    Verb {
        name: "tools-list",
        session: Session::Required,
        about: "List the server's tools",
        usage: "[--full]",
        details: "",
        build: |command| command.arg(switch("full", None, "Show whole descriptions and every argument")),
    },
    Verb {
        name: "tools-get",
        session: Session::Required,
        about: "Show one tool with its arguments",
        usage: "<tool>",
        details: "",
        build: |command| command.arg(positional("tool", "Name of the tool").required(true)),
    },
    Verb {
        name: "tools-call",
        session: Session::Required,
        about: "Call a tool",
        usage: "<tool> [key:=value… | {…} | -]",
        details: CALL_DETAILS,
        build: |command| {
            command
                .arg(positional("tool", "Name of the tool").required(true))
                .arg(
                    positional(
                        "arguments",
                        "key:=json, key=string, key=@file, one {…} object, or - for stdin",
                    )
                    .num_args(0..),
                )
                .arg(output_file("Save images, audio and embedded files there (without any: the text)"))
                .arg(switch("task", None, "Run it as a task, and wait for its result"))
                .arg(switch("detach", None, "Run it as a task, and only print the task's id"))
        },
    },
    Verb {
        name: "tasks-list",
        session: Session::Required,
        about: "List the server's tasks",
        usage: "",
        details: "Servers that speak 2026-07-28 list none.",
        build: |command| command,
    },
    Verb {
        name: "tasks-get",
        session: Session::Required,
        about: "Show how a task stands",
        usage: "<task>",
        details: "",
        build: task,
    },
    Verb {
        name: "tasks-result",
        session: Session::Required,
        about: "Wait for a task's result, and print it as tools-call does",
        usage: "<task> [-o FILE]",
        details: TASK_DETAILS,
        build: |command| task(command).arg(output_file("Save images, audio and embedded files there")),
    },
    Verb {
        name: "tasks-cancel",
        session: Session::Required,
        about: "Cancel a task",
        usage: "<task>",
        details: "",
        build: task,
    },
    Verb {
        name: "resources-list",
        session: Session::Required,
        about: "List the server's resources",
        usage: "",
        details: "",
        build: |command| command,
    },
    Verb {
        name: "resources-read",
        session: Session::Required,
        about: "Read one resource",
        usage: "<uri>",
        details: "",
        build: |command| {
            command
                .arg(positional("uri", "URI of the resource").required(true))
                .arg(output_file("Save the content there"))
        },
    },
    Verb {
        name: "ping",
        session: Session::Required,
        about: "Wake the server if it sleeps, and measure its answer",
        usage: "",
        details: "",
        build: |command| command,
    },
    Verb {
        name: "logs",
        session: Session::Required,
        about: "Show the session's log: the server's stderr and drowse's own lines",
        usage: "[-n N] [--follow]",
        details: "Starts nothing and counts as no activity.",
        build: |command| {
            command
                .arg(
                    value("lines", Some('n'), "N", "Show the last N lines (all of them: 0)")
                        .default_value("100"),
                )
                .arg(switch("follow", Some('f'), "Go on showing lines as they come, until Ctrl-C"))
        },
    },
    Verb {
        name: "clean",
        session: Session::None,
        about: "Remove sessions that crashed or expired and what they left; never a sleeping one",
        usage: "[all]",
        details: "`clean all` closes and removes every session.",
        build: |command| command.arg(positional("what", "all: every session").value_parser(["all"])),
    },
    Verb {
        name: "demo",
        session: Session::None,
        about: "Watch a real session connect, fall asleep and wake, on a built-in server",
        usage: "",
        details: "Uses a temporary home and removes it; your own sessions are not touched.",
        build: |command| command,
    },
    Verb {
        name: "demo-server",
        session: Session::None,
        about: "The built-in MCP server on stdin and stdout, for trying things by hand",
        usage: "",
        details: "For example: drowse connect @demo -- drowse demo-server",
        build: |command| command,
    },
    Verb {
        name: "help",
        session: Session::None,
        about: "Show this overview, or the help of one command",
        usage: "[command]",
        details: "",
        build: |command| command.arg(positional("command", "A command")),
    },
];

/// Bare `drowse` and `@name`: the flags that every verb takes, and nothing else.
pub(crate) const BARE: Verb = Verb {
    name: "",
    session: Session::Optional,
    about: "",
    usage: "",
    details: "",
    build: |command| command,
};

/// Long and short names of every flag that is followed by a value, whatever the verb. The splitter needs them before
/// it knows the verb; a test holds this list against the commands.
const VALUE_FLAGS: &[&str] = &[
    "--timeout",
    "--max-chars",
    "--idle-timeout",
    "--env",
    "--header",
    "-H",
    "--cacert",
    "--proxy",
    "--keepalive",
    "--on-expiry",
    "--output",
    "-o",
    "--lines",
    "-n",
    "--elicit",
    "--root",
    "--sampling-command",
];

/// Words that users of other releases may type, and that come later.
const LATER_VERBS: &[&str] = &[
    "resources-subscribe",
    "resources-unsubscribe",
    "resources-templates-list",
    "prompts-list",
    "prompts-get",
    "logging-set-level",
    "grep",
    "login",
    "logout",
    "shell",
    "serve",
    "dev",
    "enable",
    "disable",
    "set",
];

/// Flags that come later, likewise.
const LATER_FLAGS: &[&str] =
    &["--profile", "--no-profile", "--proxy-bearer-token", "--schema", "--schema-mode", "--cached"];

const CONNECT_DETAILS: &str = "\
The server is a URL, an entry of an MCP configuration file (`mcp.json:files`), or a command after `--`. A URL without \
a scheme is https://, or http:// on this machine. Without @name a name is derived from the host, the entry or the \
command. On an existing name with the same target its settings stay, except those given now (-H replaces the headers \
of the same name, --no-insecure and --no-auto-restart take back). A whole file connects all its entries, each as a \
session of its name; flags given here then count for all of them.

Asleep and awake:
  --idle-timeout lets the server go after that long without use. The session stays, and its next command wakes a \
  fresh server; what the old one kept in memory is gone. 0, or no such flag, means never.
  An operation counts as use from its start to its end. While one is in flight nothing sleeps; when the last one \
  ends, a full period starts. `ping` counts. What the server sends by itself does not, nor do `drowse` (the list), \
  `logs` and `close`.
  --lazy registers the session and starts nothing; its first command does.
  --auto-restart starts a server that crashed, or whose session expired, again in the background; never one that is \
  asleep. --on-expiry fail makes commands fail when the server has ended the session, until `restart`.

Questions of the server:
  --root is a directory (or file) that it may be told of; `--root ''` takes them back.
  --sampling-command gets the params of sampling/createMessage as JSON on stdin and writes its result, JSON with role, \
  content and model, to stdout. It runs in the session's working directory, with the time-out of the request.

The working directory and a few variables (PATH, HOME, LANG, proxy and CA settings, XDG) are pinned now, so that the \
session wakes the same from anywhere. Name others with --env.";

const CALL_DETAILS: &str = "\
Arguments:
  key:=json     a number, boolean, null, array, object or string; what is not JSON is a string.
                For a parameter declared as a string, id:=123 sends \"123\".
  key=string    always a string
  key=@file     the file's text, as a string (a string that starts with @: key:=@text)
  {…}           the whole object
  -             the whole object, from stdin (only then stdin is read)

Questions of the server:
  On a terminal you are asked. Otherwise, and with --json, the server is told that nobody can be, unless --elicit says
  what to answer: accept-defaults fills forms in with their defaults, decline refuses, and a JSON object is the content
  of every form (what a form does not ask for is left out), or holds an answer for a question under its key:
  {\"key\": {…content…}} or {\"key\": {\"action\": \"accept|decline|cancel\"}}. Addresses are never opened without a yes.

Tasks:
  --task asks the server to run the call as a task, shows how that stands, and prints the result; --timeout limits the
  wait, not the task, and Ctrl-C cancels the task. --detach prints the task's id and returns (--json: the task); fetch
  the result with tasks-result. A session with a pending task does not fall asleep, until its end was seen or the time
  for which its server keeps it is over (a day, if the server does not say).

`drowse @name tools-call <tool> --help` shows what that tool takes.
Exit status: 0, or 2 if the tool reports an error.";

const TASK_DETAILS: &str = "\
Waits until the task is done; --timeout limits that. What the task asks meanwhile is asked on the terminal, or answered \
by --elicit. Ctrl-C ends the wait, not the task. Exit status: 0, or 2 if the tool reports an error.";

/// The verb of that name.
pub(crate) fn verb(name: &str) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| verb.name == name)
}

/// Whether a word like `--timeout` is followed by a value.
pub(crate) fn takes_value(flag: &str) -> bool {
    VALUE_FLAGS.contains(&flag)
}

/// Whether a verb is known, but not in this release.
pub(crate) fn is_later_verb(name: &str) -> bool {
    LATER_VERBS.contains(&name)
}

/// Whether a flag is known, but not in this release.
pub(crate) fn is_later_flag(flag: &str) -> bool {
    LATER_FLAGS.contains(&flag.split_once('=').map_or(flag, |(name, _)| name))
}

/// Whether a flag is one of `connect`'s.
pub(crate) fn is_connect_flag(flag: &str) -> bool {
    let flag = flag.split_once('=').map_or(flag, |(name, _)| name);
    let long = |arg: &Arg| arg.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long));
    let short = |arg: &Arg| arg.get_short().is_some_and(|short| flag == format!("-{short}"));
    connect(Command::new("connect")).get_arguments().any(|arg| long(arg) || short(arg))
}

/// The verb that somebody probably meant: a reversed name, a part of one, or a slip of the finger.
pub(crate) fn similar_verb(typed: &str) -> Option<&'static str> {
    let visible = || VERBS.iter().filter(|verb| !verb.about.is_empty()).map(|verb| verb.name);
    let typed = typed.to_ascii_lowercase().replace('_', "-");
    let reversed = typed.split_once('-').map(|(first, second)| format!("{second}-{first}"));
    let wanted: &str = match typed.as_str() {
        "tools" | "ls-tools" | "tool-list" => "tools-list",
        "call" | "run" | "exec" => "tools-call",
        "resources" => "resources-list",
        "read" => "resources-read",
        "list" | "ls" | "sessions" | "ps" => "",
        "log" => "logs",
        "stop" | "disconnect" | "kill" | "rm" | "remove" => "close",
        "start" | "add" | "open" => "connect",
        "tools-schema" | "tool-get" => "tools-get",
        typed => match reversed.as_deref().and_then(verb) {
            Some(verb) => verb.name,
            None => return nearest(typed, visible()),
        },
    };
    (!wanted.is_empty()).then_some(wanted).and_then(verb).map(|verb| verb.name)
}

/// The clap command of one verb. Its help flag is a plain switch: `args` decides what help is shown.
pub(crate) fn command(verb: &Verb) -> Command {
    let line = match verb.session {
        Session::Required => format!("drowse @name {} {}", verb.name, verb.usage),
        _ => format!("drowse {} {}", verb.name, verb.usage),
    };
    let command = Command::new(verb.name)
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args_override_self(false)
        .about(verb.about)
        .after_help(verb.details)
        .override_usage(
            line.trim_end().to_owned() + if verb.usage.contains("[flags]") { "" } else { " [flags]" },
        )
        .max_term_width(110);
    let command = match verb.name {
        // Those during which a server may ask (basic/patterns/mrtr, Supported Requests).
        "tools-call" | "resources-read" | "prompts-get" | "tasks-result" => command.arg(value(
            "elicit",
            None,
            "ANSWER",
            "Answer the server's questions: accept-defaults, decline, or a JSON object (else: on the terminal)",
        )),
        _ => command,
    };
    (verb.build)(command)
        .arg(value("timeout", None, "DURATION", timeout_help(verb.name)))
        .arg(value("max-chars", None, "N", "Cut text after N characters (JSON stays whole)"))
        .arg(switch("json", Some('j'), "Print JSON (also: DROWSE_JSON=1)"))
        .arg(switch("verbose", None, "Say more on stderr (also: DROWSE_VERBOSE=1)"))
        .arg(switch("help", Some('h'), "Show this help"))
}

/// The help of `drowse` itself.
pub(crate) fn overview() -> String {
    let mut text = String::from(
        "Keeps MCP servers asleep until somebody needs them.\n\n\
         Usage:\n  \
         drowse                       list sessions\n  \
         drowse @name                 show a session's server\n  \
         drowse [@name] <command> …   flags may stand anywhere\n\nCommands:\n",
    );
    for verb in VERBS.iter().filter(|verb| !verb.about.is_empty()) {
        let head = match verb.session {
            Session::Required => format!("@name {}", verb.name),
            _ => verb.name.to_owned(),
        };
        text.push_str(&format!("  {head:<24}{}\n", verb.about));
    }
    text.push_str(
        "\nFlags:\n  \
         -j, --json                print JSON (also: DROWSE_JSON=1)\n      \
         --timeout <DURATION>  limit of this request (default 300 s; 90, 90s, 5m)\n      \
         --max-chars <N>       cut text after N characters (JSON stays whole)\n      \
         --verbose             say more on stderr (also: DROWSE_VERBOSE=1)\n  \
         -h, --help                help, also after a command\n  \
         -V, --version             the version\n\n\
         Files: $DROWSE_HOME, else $XDG_STATE_HOME/drowse. Locks and sockets: $DROWSE_RUNTIME, if set.\n\
         Exit status: 0 ok, 1 usage, 2 server, 3 network or time-out, 4 authorization, 130 interrupted.\n\n\
         Try: drowse demo\n",
    );
    text
}

/// The flags that say how a server behind a URL is reached.
fn for_urls(command: Command) -> Command {
    command
        .arg(
            value(
                "header",
                Some('H'),
                "'NAME: VALUE'",
                "URL: send this header with every request; repeatable",
            )
            .action(ArgAction::Append),
        )
        .arg(value("cacert", None, "FILE", "URL: trust the certificate authorities in this PEM file too"))
        .arg(switch("insecure", None, "URL: accept any certificate").overrides_with("no-insecure"))
        .arg(switch("no-insecure", None, "Take --insecure back").overrides_with("insecure").hide(true))
        .arg(value("proxy", None, "URL", "URL: reach the server through this proxy, not the environment's"))
}

fn connect(command: Command) -> Command {
    let command = command
        .arg(
            positional("server", "URL, or file:entry of an MCP configuration file")
                .num_args(0..=2)
                .hide(true),
        )
        .arg(value(
            "idle-timeout",
            None,
            "DURATION",
            "Let the server go after that long without use (600, 10m; 0: never)",
        ))
        .arg(
            value(
                "env",
                None,
                "NAME[=VALUE]",
                "Pin another variable of your environment, or set one; repeatable",
            )
            .action(ArgAction::Append),
        )
        .arg(switch("lazy", None, "Register only; start the server with the first command"));
    for_urls(command)
        .arg(value("keepalive", None, "DURATION", "Ping the server that often (0: never)"))
        .arg(
            switch("auto-restart", None, "Start a server that crashed or expired again in the background")
                .overrides_with("no-auto-restart"),
        )
        .arg(switch("no-auto-restart", None, "Take it back").overrides_with("auto-restart").hide(true))
        .arg(
            value(
                "on-expiry",
                None,
                "fresh|fail",
                "When the server ended the session: begin a fresh one, or fail",
            )
            .value_parser(["fresh", "fail"])
            .hide_possible_values(true),
        )
        .arg(
            value(
                "root",
                None,
                "DIR",
                "Tell the server of this directory when it asks for roots; repeatable",
            )
            .action(ArgAction::Append),
        )
        .arg(value(
            "sampling-command",
            None,
            "COMMAND",
            "Let the server ask a language model through this shell command",
        ))
        .arg(
            Arg::new("command")
                .value_name("COMMAND")
                .help("The server's command and its arguments, after --")
                .num_args(0..)
                .hide(true)
                .last(true),
        )
}

fn task(command: Command) -> Command {
    command.arg(positional("task", "Id of the task").required(true))
}

fn timeout_help(verb: &str) -> &'static str {
    if verb == "connect" {
        "Limit of the session's requests (300 s by default; 90, 90s, 5m)"
    } else {
        "Limit of this request (90, 90s, 5m)"
    }
}

fn positional(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).help(help)
}

fn switch(name: &'static str, short: Option<char>, help: &'static str) -> Arg {
    // Twice is no mistake: scripts add --json to lines that have it.
    let arg = Arg::new(name).long(name).action(ArgAction::SetTrue).overrides_with(name).help(help);
    match short {
        Some(short) => arg.short(short),
        None => arg,
    }
}

fn value(name: &'static str, short: Option<char>, value: &'static str, help: &'static str) -> Arg {
    let arg = Arg::new(name).long(name).value_name(value).help(help).allow_negative_numbers(true);
    match short {
        Some(short) => arg.short(short),
        None => arg,
    }
}

fn output_file(help: &'static str) -> Arg {
    value("output", Some('o'), "FILE", help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_sound_and_agree_with_the_list_of_value_flags() {
        let mut seen: Vec<String> = Vec::new();
        for verb in VERBS {
            let mut command = command(verb);
            command.build();
            command.clone().debug_assert();
            for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
                let names = arg.get_long().map(|long| format!("--{long}"));
                for name in names.into_iter().chain(arg.get_short().map(|short| format!("-{short}"))) {
                    assert_eq!(takes_value(&name), arg.get_action().takes_values(), "{} {name}", verb.name);
                    seen.push(name);
                }
            }
        }
        for flag in VALUE_FLAGS.iter().copied() {
            assert!(seen.iter().any(|name| name == flag), "{flag} belongs to no command");
        }
        for flag in LATER_FLAGS {
            assert!(!seen.iter().any(|name| name == flag), "{flag} exists by now");
        }
        for later in LATER_VERBS {
            assert!(verb(later).is_none(), "{later} exists by now");
        }
    }

    #[test]
    fn typos_reversed_names_and_habits_find_their_verb() {
        for (typed, meant) in [
            ("list-tools", "tools-list"),
            ("call-tools", "tools-call"),
            ("read-resources", "resources-read"),
            ("tools_list", "tools-list"),
            ("tool-list", "tools-list"),
            ("toolslist", "tools-list"),
            ("tools-lsit", "tools-list"),
            ("tools-cal", "tools-call"),
            ("conect", "connect"),
            ("resart", "restart"),
            ("tools", "tools-list"),
            ("stop", "close"),
        ] {
            assert_eq!(similar_verb(typed), Some(meant), "{typed}");
        }
        for stranger in ["banana", "x", "list", "bridge-serv"] {
            assert_eq!(similar_verb(stranger), None, "{stranger}");
        }
    }

    #[test]
    fn the_overview_names_every_visible_verb_and_no_hidden_one() {
        let text = overview();
        for verb in VERBS {
            assert_eq!(text.contains(&format!(" {} ", verb.name)), !verb.about.is_empty(), "{}", verb.name);
        }
    }
}
