//! The words and flags that drowse understands: one table of verbs, and a clap command for each.
//!
//! Owns spelling: names, aliases, help texts, suggestions for typos, and what is promised for later. Never looks at
//! values: `args` turns matches into checked arguments. A command line builds the clap command of its own verb only,
//! which is what keeps a warm `tools-call` near the cost of an empty program.

use clap::{Arg, ArgAction, Command};
use drowse_runtime::suggest::nearest;

mod details;
mod dev;
pub(crate) mod man;
pub(crate) mod topics;

use details::{
    CALL_DETAILS, COMPLETE_DETAILS, COMPLETIONS_DETAILS, CONFIG_DETAILS, CONNECT_DETAILS, DEV_DETAILS,
    DOCTOR_DETAILS, GREP_DETAILS, IMPORT_DETAILS, LEVEL_DETAILS, PROMPT_DETAILS, PS_DETAILS, SET_DETAILS,
    SHELL_DETAILS, STATS_DETAILS, SUBSCRIBE_DETAILS, TASK_DETAILS, TIMELINE_DETAILS, TOP_DETAILS,
};

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
    /// A session, or a server for this one command (`--server`).
    OrServer,
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
        name: "set",
        session: Session::Required,
        about: "Show how the session is kept, or change it: idle-timeout, timeout, keepalive, …",
        usage: "[<setting> <value>]…",
        details: SET_DETAILS,
        build: |command| {
            command.arg(setting_words("Names of settings, each with its value; none: show them all"))
        },
    },
    Verb {
        name: "tools-list",
        session: Session::OrServer,
        about: "List the server's tools",
        usage: "[--full]",
        details: "",
        build: |command| command.arg(switch("full", None, "Show whole descriptions and every argument")),
    },
    Verb {
        name: "tools-get",
        session: Session::OrServer,
        about: "Show one tool with its arguments",
        usage: "<tool>",
        details: "",
        build: |command| expected(command.arg(positional("tool", "Name of the tool").required(true))),
    },
    Verb {
        name: "tools-call",
        session: Session::OrServer,
        about: "Call a tool",
        usage: "<tool> [key:=value… | {…} | -]",
        details: CALL_DETAILS,
        build: |command| {
            let command = command
                .arg(positional("tool", "Name of the tool").required(true))
                .arg(arguments())
                .arg(output_file("Save images, audio and embedded files there (without any: the text)"))
                .arg(switch(
                    "check",
                    None,
                    "Ask for the tool's schema as it is now, and check the arguments by that",
                ))
                .arg(switch("no-check", None, "Send arguments that do not fit").overrides_with("check"))
                .arg(switch("task", None, "Run it as a task, and wait for its result"))
                .arg(switch("detach", None, "Run it as a task, and only print the task's id"));
            expected(command)
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
        session: Session::OrServer,
        about: "List the server's resources",
        usage: "",
        details: "",
        build: |command| command,
    },
    Verb {
        name: "resources-read",
        session: Session::OrServer,
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
        name: "resources-templates-list",
        session: Session::OrServer,
        about: "List the server's templates of resource URIs",
        usage: "",
        details: "",
        build: |command| command,
    },
    Verb {
        name: "prompts-list",
        session: Session::OrServer,
        about: "List the server's prompts",
        usage: "",
        details: "",
        build: |command| command,
    },
    Verb {
        name: "prompts-get",
        session: Session::OrServer,
        about: "Fill in one prompt",
        usage: "<prompt> [key:=value… | {…} | -]",
        details: PROMPT_DETAILS,
        build: |command| {
            let command = command
                .arg(positional("prompt", "Name of the prompt").required(true))
                .arg(arguments())
                .arg(output_file("Save images, audio and embedded files there (without any: the text)"));
            expected(command)
        },
    },
    Verb {
        name: "complete",
        session: Session::OrServer,
        about: "Ask the server how an argument may go on",
        usage: "prompt <prompt> <argument> [prefix] [--with key=value]…\n       \
                drowse @name complete resource <uri-template> <argument> [prefix] [--with key=value]…",
        details: COMPLETE_DETAILS,
        build: |command| {
            command
                .arg(
                    positional("of", "prompt, or resource")
                        .required(true)
                        .value_parser(["prompt", "resource"]),
                )
                .arg(positional("reference", "Name of the prompt, or the template").required(true))
                .arg(positional("argument", "Name of its argument").required(true))
                .arg(positional("prefix", "What the value starts with"))
                .arg(
                    value("with", None, "KEY=VALUE", "The value of another argument; repeatable")
                        .action(ArgAction::Append),
                )
        },
    },
    Verb {
        name: "resources-subscribe",
        session: Session::Required,
        about: "Print a resource each time that it is updated, until Ctrl-C",
        usage: "<uri> [--sync FILE]",
        details: SUBSCRIBE_DETAILS,
        build: |command| {
            command.arg(positional("uri", "URI of the resource").required(true)).arg(value(
                "sync",
                None,
                "FILE",
                "Keep this file equal to the resource, in the background",
            ))
        },
    },
    Verb {
        name: "resources-unsubscribe",
        session: Session::Required,
        about: "Keep no file equal to a resource any more",
        usage: "<uri>",
        details: "Ends what `resources-subscribe <uri> --sync` began. The files stay as they are.",
        build: |command| command.arg(positional("uri", "URI of the resource").required(true)),
    },
    Verb {
        name: "ping",
        session: Session::OrServer,
        about: "Wake the server if it sleeps, and measure its answer",
        usage: "",
        details: "",
        build: |command| command,
    },
    Verb {
        name: "logging-set-level",
        session: Session::Required,
        about: "Say how much of its log the server is to send: into the session's log",
        usage: "<level>",
        details: LEVEL_DETAILS,
        build: |command| {
            command.arg(positional("level", "The least severe that is wanted").required(true).value_parser([
                "debug",
                "info",
                "notice",
                "warning",
                "error",
                "critical",
                "alert",
                "emergency",
                "off",
            ]))
        },
    },
    Verb {
        name: "grep",
        session: Session::Optional,
        about: "Find tools and instructions of all sessions by a word of them; wakes none",
        usage: "<pattern> [--tools --resources --prompts --instructions] [-E] [-m N]\n       \
                drowse @name grep [flags] <pattern>",
        details: GREP_DETAILS,
        build: |command| {
            command
                // With it the session, as in `grep @name word`.
                .arg(
                    positional("pattern", "What to look for, in whatever case")
                        .required(true)
                        .num_args(1..=2)
                        .action(ArgAction::Append),
                )
                .arg(switch("tools", None, "Search tools"))
                .arg(switch("resources", None, "Search resources and their templates"))
                .arg(switch("prompts", None, "Search prompts"))
                .arg(switch("instructions", None, "Search what servers want a model to know"))
                .arg(switch("regex", Some('E'), "The pattern is a regular expression"))
                .arg(switch("case-sensitive", None, "`A` is not `a`"))
                .arg(value("max-results", Some('m'), "N", "Stop after N results"))
        },
    },
    Verb {
        name: "logs",
        session: Session::Required,
        about: "Show the session's log: the server's stderr and log messages, and drowse's own lines",
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
        name: "ps",
        session: Session::Optional,
        about: "Show the processes of sessions: bridges, servers, and what was left behind",
        usage: "[@name]",
        details: PS_DETAILS,
        build: |command| command.arg(positional("session", "Show those of this session only")),
    },
    Verb {
        name: "top",
        session: Session::None,
        about: "Watch what sessions do and cost",
        usage: "[--once]",
        details: TOP_DETAILS,
        build: |command| command.arg(switch("once", None, "Print one table, as without a terminal")),
    },
    Verb {
        name: "doctor",
        session: Session::None,
        about: "Check everything that drowse needs, and mend what can be mended",
        usage: "[--dry-run]",
        details: DOCTOR_DETAILS,
        build: |command| command.arg(switch("dry-run", None, "Only say what would be done")),
    },
    Verb {
        name: "stats",
        session: Session::Optional,
        about: "Show what sessions were used for, how long they slept, and what that saved",
        usage: "[@name]",
        details: STATS_DETAILS,
        build: |command| command.arg(positional("name", "A session; without one, all of them")),
    },
    Verb {
        name: "timeline",
        session: Session::Required,
        about: "Show a session's life: what it was when, and why",
        usage: "[--since 24h] [-o FILE.svg]",
        details: TIMELINE_DETAILS,
        build: |command| {
            command
                .arg(
                    value("since", None, "DURATION", "How far back (24h, 7d), or `all`").default_value("24h"),
                )
                .arg(output_file("Draw it into this file, as SVG"))
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
        name: "shell",
        session: Session::Optional,
        about: "Type commands one after the other, with history and completion",
        usage: "[@name]",
        details: SHELL_DETAILS,
        build: |command| command.arg(positional("session", "The session that lines are about")),
    },
    Verb {
        name: "import",
        session: Session::None,
        about: "Make sessions of the servers that MCP hosts and mcpc know; shows first what it will do",
        usage: "[--yes] [file]…",
        details: IMPORT_DETAILS,
        build: |command| {
            command
                .arg(positional("files", "Files with mcpServers, or mcpc's sessions.json").num_args(0..))
                .arg(switch("yes", Some('y'), "Do it without asking"))
        },
    },
    Verb {
        name: "config",
        session: Session::None,
        about: "Show or change your defaults for the settings of sessions",
        usage: "[get <setting> | set <setting> <value> | unset <setting> | path]",
        details: CONFIG_DETAILS,
        build: |command| command.arg(setting_words("get, set, unset or path; nothing: show them all")),
    },
    Verb {
        name: "dev",
        session: Session::None,
        about: "Keep the clients of a server that you are writing while it is built and restarted",
        usage: "[flags] [--] <command>…",
        details: DEV_DETAILS,
        build: dev::build,
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
        name: "completions",
        session: Session::None,
        about: "Print the completion script of a shell",
        usage: "<bash|zsh|fish|powershell>",
        details: COMPLETIONS_DETAILS,
        build: |command| {
            command.arg(positional("shell", "The shell").required(true).value_parser([
                "bash",
                "zsh",
                "fish",
                "powershell",
            ]))
        },
    },
    Verb {
        name: "man",
        session: Session::None,
        about: "Print a manual page, or write all of them",
        usage: "[command] [-o DIR]",
        details: "For example: drowse man -o ~/.local/share/man/man1, and then: man drowse-tools-call",
        build: |command| {
            command.arg(positional("command", "A command (else: drowse itself)")).arg(value(
                "output",
                Some('o'),
                "DIR",
                "Write the pages of all commands into this directory",
            ))
        },
    },
    Verb {
        name: "help",
        session: Session::None,
        about: "Show this overview, the help of one command, or a topic",
        usage: "[command | topic]",
        details: "",
        build: |command| command.arg(positional("command", "A command or a topic")),
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
    "--sync",
    "--max-chars",
    "--idle-timeout",
    "--env",
    "--header",
    "-H",
    "--cacert",
    "--proxy",
    "--proxy-bearer-token",
    "--keepalive",
    "--on-expiry",
    "--output",
    "-o",
    "--lines",
    "-n",
    "--server",
    "--with",
    "--schema",
    "--schema-mode",
    "--elicit",
    "--root",
    "--sampling-command",
    "--max-results",
    "-m",
    "--since",
    "--build",
    "--build-timeout",
    "--watch",
    "--drain",
    "--discovery-wait",
    "--backend-url",
    "--mcp-version",
    "--http",
    "--http-path",
    "--http-bearer-token",
    "--http-host",
    "--http-origin",
    "--http-limit",
];

/// Words that users of other releases may type, and that come later.
const LATER_VERBS: &[&str] = &["login", "logout", "serve", "enable", "disable"];

/// Flags that come later, likewise.
const LATER_FLAGS: &[&str] = &["--profile", "--no-profile"];

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
        "prompts" | "prompt-list" => "prompts-list",
        "prompt" | "prompt-get" => "prompts-get",
        "templates" | "templates-list" | "resource-templates-list" => "resources-templates-list",
        "completion" => "completions",
        "list" | "ls" | "sessions" => "",
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
        Session::Required | Session::OrServer => format!("drowse @name {} {}", verb.name, verb.usage),
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
    let command = match verb.name {
        "" | "tools-list" | "tools-get" | "resources-list" | "resources-templates-list" | "prompts-list" => {
            command.arg(switch("cached", None, "Show what was there when the server ran last; start nothing"))
        }
        _ => command,
    };
    let command = (verb.build)(command);
    let command = if takes_server(verb) { once(command) } else { command };
    command
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
         drowse [@name] <command> …   flags may stand anywhere\n  \
         drowse <command> … --server <server>\n                               \
         a server for one command, without a session\n\nCommands:\n",
    );
    for verb in VERBS.iter().filter(|verb| !verb.about.is_empty()) {
        let head = match verb.session {
            Session::Required | Session::OrServer => format!("@name {}", verb.name),
            _ => verb.name.to_owned(),
        };
        text.push_str(&format!("  {head:<32}{}\n", verb.about));
    }
    text.push_str("\nTopics (drowse help <topic>):\n");
    for topic in topics::TOPICS {
        text.push_str(&format!("  {:<32}{}\n", topic.name, topic.about));
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
         Your defaults for sessions: see drowse config path.\n\
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

/// The flags that say what answers a server's questions.
fn for_questions(command: Command) -> Command {
    command.arg(root()).arg(value(
        "sampling-command",
        None,
        "COMMAND",
        "Let the server ask a language model through this shell command",
    ))
}

fn root() -> Arg {
    value("root", None, "DIR", "Tell the server of this directory when it asks for roots; repeatable")
        .action(ArgAction::Append)
}

fn connect(command: Command) -> Command {
    let command = command
        .arg(
            positional("server", "URL, or file:entry of an MCP configuration file")
                .num_args(0..=2)
                // Flags may stand between it and the name.
                .action(ArgAction::Append)
                .hide(true),
        )
        .arg(value(
            "idle-timeout",
            None,
            "DURATION",
            "Let the server go after that long without use (600, 10m; 0: never)",
        ))
        .arg(variables("Pin another variable of your environment, or set one; repeatable"))
        .arg(switch("lazy", None, "Register only; start the server with the first command"));
    let command = for_questions(for_urls(command))
        .mut_arg("proxy", |arg| {
            arg.value_name("[HOST:]PORT").action(ArgAction::Append).help(
                "Share the session over HTTP at this address (0: a free port; off: no more); a URL: reach the server \
                 through that proxy",
            )
        })
        .arg(value(
            "proxy-bearer-token",
            None,
            "TOKEN",
            "Let only clients with this token in there; @FILE reads it from a file, '${NAME}' from a variable",
        ));
    dev::front(command)
        .mut_args(|arg| match arg.get_id().as_str() {
            id if id.starts_with("http-") => {
                let help = arg.get_help().map(|help| help.to_string().replacen("HTTP:", "With --proxy:", 1));
                arg.help(help.unwrap_or_default())
            }
            _ => arg,
        })
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
            Arg::new("command")
                .value_name("COMMAND")
                .help("The server's command and its arguments, after --")
                .num_args(0..)
                .hide(true)
                .last(true),
        )
}

/// The topic of help, or the verb, that somebody probably meant.
pub(crate) fn similar_help(typed: &str) -> Option<&'static str> {
    nearest(typed, topics::TOPICS.iter().map(|topic| topic.name)).or_else(|| similar_verb(typed))
}

/// Whether the verb works on a server of its own, too. So does the info of bare `@name`.
pub(crate) fn takes_server(verb: &Verb) -> bool {
    verb.session == Session::OrServer || verb.name.is_empty()
}

/// The flags that describe the server of a single command.
fn once(command: Command) -> Command {
    let command = command
        .next_help_heading("Without a session")
        .arg(value("server", None, "SERVER", "A URL, file:entry, or \"command line\"; also: -- <command>…"))
        .arg(variables("Another variable for its command; repeatable"));
    for_questions(for_urls(command)).next_help_heading(None)
}

/// The flags beside `--server` that say something of a server, by their ids.
pub(crate) const OF_SERVER: &[&str] =
    &["env", "header", "cacert", "insecure", "no-insecure", "proxy", "root", "sampling-command"];

fn variables(help: &'static str) -> Arg {
    value("env", None, "NAME[=VALUE]", help).action(ArgAction::Append)
}

fn arguments() -> Arg {
    positional("arguments", "key:=json, key=string, key=@file, one {…} object, or - for stdin").num_args(0..)
}

/// What somebody expects the thing to be.
fn expected(command: Command) -> Command {
    command.arg(value("schema", None, "FILE", "Refuse unless it is as in this file (see tools-call)")).arg(
        value("schema-mode", None, "MODE", "How much may differ: compatible (default), strict, or ignore")
            .value_parser(["compatible", "strict", "ignore"]),
    )
}

fn task(command: Command) -> Command {
    command.arg(positional("task", "Id of the task").required(true))
}

fn timeout_help(verb: &str) -> &'static str {
    if verb == "connect" {
        "Limit of the session's requests (300 s by default; 90, 90s, 5m)"
    } else {
        "Limit of this request, anew with each progress (90, 90s, 5m)"
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

fn setting_words(help: &'static str) -> Arg {
    positional("words", help).num_args(0..).allow_negative_numbers(true)
}

fn output_file(help: &'static str) -> Arg {
    value("output", Some('o'), "FILE", help)
}

#[cfg(test)]
mod tests;
