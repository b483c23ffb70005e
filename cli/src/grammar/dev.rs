//! The flags of `dev`.

use clap::{Arg, Command};

use super::variables;

pub(super) fn build(command: Command) -> Command {
    command.arg(variables("Set another variable for the server, and never show its value; repeatable")).arg(
        Arg::new("command")
            .value_name("COMMAND")
            .help("The server's command and its arguments, after --")
            .num_args(0..)
            .hide(true)
            .last(true),
    )
}
