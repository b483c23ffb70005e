//! `stats` and `timeline`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use drowse_runtime::home::SessionName;

use super::{Command, seconds, session_name};
use crate::error::Failure;

/// The session may stand on either side of the verb.
pub(super) fn stats(session: Option<SessionName>, matches: &ArgMatches) -> Result<Command, Failure> {
    let named = matches.get_one::<String>("name").map(|typed| session_name(typed)).transpose()?;
    match (session, named) {
        (Some(first), Some(second)) => Err(Failure::usage(format!("two sessions: {first} and {second}"))),
        (one, other) => Ok(Command::Stats { session: one.or(other) }),
    }
}

pub(super) fn timeline(session: SessionName, matches: &ArgMatches) -> Result<Command, Failure> {
    let typed = matches.get_one::<String>("since").map_or("all", String::as_str);
    let since = match typed {
        "all" => None,
        typed => match seconds(typed) {
            Some(seconds) if seconds > 0 => Some(Duration::from_secs(seconds)),
            _ => {
                return Err(Failure::usage(format!(
                    "--since takes a duration (24h, 7d, 90m) or `all`, not `{typed}`"
                )));
            }
        },
    };
    let output = matches.get_one::<String>("output").map(PathBuf::from);
    Ok(Command::Timeline { session, since, output })
}
