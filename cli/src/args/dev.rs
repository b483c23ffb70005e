//! What `dev` is given: a server's command, and how it is built and kept.

use std::time::Duration;

use clap::ArgMatches;

use super::connect::{Variable, variables};
use super::seconds;
use crate::error::Failure;

/// How long a build may take.
const BUILD_SECS: u64 = 600;
/// How long a restart waits for what is under way.
const DRAIN_SECS: u64 = 5;
/// How long a request waits for a server that is not ready.
const DISCOVERY_SECS: u64 = 15;

/// What `dev` was given.
#[derive(Debug, PartialEq)]
pub(crate) struct Dev {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<Variable>,
    pub(crate) build: Option<String>,
    pub(crate) build_limit: Duration,
    pub(crate) watch: Vec<String>,
    pub(crate) drain: Duration,
    pub(crate) discovery_wait: Duration,
    pub(crate) replay_safe: bool,
}

pub(super) fn read(matches: &ArgMatches) -> Result<Dev, Failure> {
    let mut words = matches.get_many::<String>("command").into_iter().flatten().cloned();
    let Some(program) = words.next().filter(|program| !program.is_empty()) else {
        return Err(
            Failure::usage("dev needs a server's command").with_hint("drowse dev -- <command> [arguments]")
        );
    };
    let period = |flag: &'static str, usual: u64| match matches.get_one::<String>(flag) {
        None => Ok(Duration::from_secs(usual)),
        Some(typed) => seconds(typed).map(Duration::from_secs).ok_or_else(|| {
            Failure::usage(format!("--{flag} takes a number of seconds, or 90s, 10m; not `{typed}`"))
        }),
    };
    let build = matches.get_one::<String>("build").cloned();
    if build.as_ref().is_some_and(|build| build.trim().is_empty()) {
        return Err(Failure::usage("--build takes a shell command, and this one is empty"));
    }
    let build_limit = period("build-timeout", BUILD_SECS)?;
    if build_limit.is_zero() {
        return Err(Failure::usage("--build-timeout takes a positive number of seconds, or 90s, 10m"));
    }
    Ok(Dev {
        program,
        args: words.collect(),
        env: variables(matches)?,
        build,
        build_limit,
        watch: matches.get_many::<String>("watch").into_iter().flatten().cloned().collect(),
        drain: period("drain", DRAIN_SECS)?,
        discovery_wait: period("discovery-wait", DISCOVERY_SECS)?,
        replay_safe: matches.get_flag("replay-safe"),
    })
}
