//! What the commands on tasks are given.

use std::path::PathBuf;

use clap::ArgMatches;

/// How a call runs as a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskMode {
    /// `--task`: its result is waited for.
    Wait,
    /// `--detach`: only its id is wanted.
    Detach,
}

/// What to do with tasks.
#[derive(Debug, PartialEq)]
pub(crate) enum Tasks {
    List,
    Get(String),
    Result(String, Option<PathBuf>),
    Cancel(String),
}

/// Reads `--task` and `--detach`.
pub(super) fn mode(matches: &ArgMatches) -> Option<TaskMode> {
    match (matches.get_flag("detach"), matches.get_flag("task")) {
        (true, _) => Some(TaskMode::Detach),
        (false, true) => Some(TaskMode::Wait),
        (false, false) => None,
    }
}

/// Reads the words and flags of a command `tasks-…`.
pub(super) fn read(verb: &str, matches: &ArgMatches) -> Tasks {
    let id = || matches.get_one::<String>("task").cloned().unwrap_or_default();
    match verb {
        "tasks-get" => Tasks::Get(id()),
        "tasks-result" => Tasks::Result(id(), matches.get_one::<String>("output").map(PathBuf::from)),
        "tasks-cancel" => Tasks::Cancel(id()),
        _ => Tasks::List,
    }
}
