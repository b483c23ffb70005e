//! The flags of `dev`.

use clap::{Arg, ArgAction, Command};

use super::{root, switch, value, variables};

pub(super) fn build(command: Command) -> Command {
    let command = command
        .arg(value(
            "build",
            None,
            "COMMAND",
            "Shell command that builds the server, for dev_restart and --watch",
        ))
        .arg(value("build-timeout", None, "DURATION", "How long a build may take (10m by default)"))
        .arg(
            value("watch", None, "GLOB", "Build and restart when a file that matches changes; repeatable")
                .action(ArgAction::Append),
        )
        .arg(value(
            "drain",
            None,
            "DURATION",
            "How long a restart waits for what is under way (5 s by default)",
        ))
        .arg(value(
            "discovery-wait",
            None,
            "DURATION",
            "How long a request waits for a server that is not ready (15 s by default; 0: not at all)",
        ))
        .arg(switch(
            "replay-safe",
            None,
            "Put calls again that a restart ended, if their tools only read or are idempotent",
        ))
        .arg(value("backend-url", None, "URL", "Where the command serves, if it is an HTTP server"))
        .arg(value(
            "mcp-version",
            None,
            "VERSION",
            "Pin the server's era or revision (legacy, modern, 2025-06-18), which is found out otherwise",
        ))
        .arg(root())
        .arg(switch(
            "sampling",
            None,
            "Let a server of 2025 ask for sampling too; clients that have none refuse",
        ))
        .arg(value("http", None, "[HOST:]PORT", "Serve clients over HTTP, not on stdin and stdout (port 0: any)"))
        .arg(value("http-path", None, "PATH", "HTTP: the path of the endpoint (/mcp by default)"))
        .arg(value(
            "http-bearer-token",
            None,
            "TOKEN",
            "HTTP: let only requests with this token in; @FILE reads it from a file, '${NAME}' from a variable",
        ));
    front(command)
        .arg(variables("Set another variable for the server, and never show its value; repeatable"))
        .arg(
            Arg::new("command")
                .value_name("COMMAND")
                .help("The server's command and its arguments")
                .num_args(0..)
                .hide(true)
                .last(true),
        )
}

/// The flags that say who else comes in over HTTP, and how much there may be. `connect` has them, too.
pub(super) fn front(command: Command) -> Command {
    command
        .arg(
            value("http-host", None, "NAME", "HTTP: another name by which clients reach it; repeatable")
                .action(ArgAction::Append),
        )
        .arg(
            value("http-origin", None, "ORIGIN", "HTTP: web pages of this origin may come in, and read the answers (CORS); repeatable")
                .action(ArgAction::Append),
        )
        .arg(
            value(
                "http-limit",
                None,
                "NAME=VALUE",
                "HTTP: connections, body, bodies, sessions, streams, unread, answers, events (numbers), idle, head, body-time, stalled, \
                 hold (durations); repeatable",
            )
            .action(ArgAction::Append),
        )
}
