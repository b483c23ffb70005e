//! What `dev` is given: a server's command, and how it is built and kept.

use clap::ArgMatches;

use super::connect::{Variable, variables};
use crate::error::Failure;

/// What `dev` was given.
#[derive(Debug, PartialEq)]
pub(crate) struct Dev {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<Variable>,
}

pub(super) fn read(matches: &ArgMatches) -> Result<Dev, Failure> {
    let mut words = matches.get_many::<String>("command").into_iter().flatten().cloned();
    let Some(program) = words.next().filter(|program| !program.is_empty()) else {
        return Err(
            Failure::usage("dev needs a server's command").with_hint("drowse dev -- <command> [arguments]")
        );
    };
    Ok(Dev { program, args: words.collect(), env: variables(matches)? })
}
