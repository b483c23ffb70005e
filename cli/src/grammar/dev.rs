//! The flags of `dev`.

use clap::{Arg, ArgAction, Command};

use super::{switch, value, variables};

pub(super) fn build(command: Command) -> Command {
    command
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
        .arg(variables("Set another variable for the server, and never show its value; repeatable"))
        .arg(
            Arg::new("command")
                .value_name("COMMAND")
                .help("The server's command and its arguments, after --")
                .num_args(0..)
                .hide(true)
                .last(true),
        )
}
