//! What `dev` is given: a server's command, and how it is built and kept.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::ArgMatches;
use drowse_core::front::http::Limits;

use super::connect::{Variable, variables};
use super::share::token;
use super::{number, seconds};
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
    pub(crate) sampling: bool,
    pub(crate) backend_url: Option<String>,
    pub(crate) http: Option<Http>,
}

/// `--http` and what goes with it.
#[derive(Debug, PartialEq)]
pub(crate) struct Http {
    pub(crate) address: SocketAddr,
    pub(crate) path: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) limits: Limits,
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
        sampling: matches.get_flag("sampling"),
        backend_url: matches.get_one::<String>("backend-url").cloned(),
        http: http(matches)?,
    })
}

fn http(matches: &ArgMatches) -> Result<Option<Http>, Failure> {
    let one = |flag: &str| matches.get_one::<String>(flag).cloned();
    let many = |flag: &str| -> Vec<String> {
        matches.get_many::<String>(flag).into_iter().flatten().cloned().collect()
    };
    let Some(typed) = one("http") else {
        let flags = ["http-path", "http-bearer-token", "http-host", "http-origin", "http-limit"];
        return match flags.into_iter().find(|flag| matches.contains_id(flag)) {
            Some(flag) => Err(Failure::usage(format!("--{flag} is about --http, which is not given"))),
            None => Ok(None),
        };
    };
    let wrong = || Failure::usage(format!("--http takes a port, or an address and a port, not `{typed}`"));
    let address = match typed.parse::<u16>() {
        Ok(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        Err(_) => typed.replace("localhost:", "127.0.0.1:").parse().map_err(|_| wrong())?,
    };
    let token = token(matches, "http-bearer-token")?;
    if !address.ip().is_loopback() && token.is_none() {
        return Err(Failure::usage(format!(
            "{address} can be reached by others: it needs --http-bearer-token"
        ))
        .with_hint("only for this machine: --http 127.0.0.1:PORT"));
    }
    let mut limits = Limits::default();
    for typed in many("http-limit") {
        limit(&mut limits, &typed)?;
    }
    let (path, hosts, origins) = (one("http-path"), many("http-host"), many("http-origin"));
    Ok(Some(Http { address, path, token, hosts, origins, limits }))
}

fn limit(limits: &mut Limits, typed: &str) -> Result<(), Failure> {
    let wrong = |what: &str| Failure::usage(format!("--http-limit {typed}: {what}"));
    let Some((name, value)) = typed.split_once('=') else { return Err(wrong("it takes NAME=VALUE")) };
    let count = || match number("--http-limit", value) {
        Ok(count @ 1..) => Ok(count),
        _ => Err(wrong("it takes a positive whole number")),
    };
    let period = || match seconds(value) {
        Some(seconds @ 1..) => Ok(Duration::from_secs(seconds)),
        _ => Err(wrong("it takes a positive number of seconds, or 90s, 10m")),
    };
    match name {
        "connections" => limits.connections = count()?,
        "body" => limits.body = count()?,
        "sessions" => limits.sessions = count()?,
        "streams" => limits.streams = count()?,
        "unread" => limits.unread = count()?,
        "events" => limits.events = count()?,
        "idle" => limits.idle = period()?,
        "head" => limits.head = period()?,
        "body-time" => limits.body_time = period()?,
        "stalled" => limits.stalled = period()?,
        _ => {
            return Err(wrong(
                "there is no such limit; there are connections, body, sessions, streams, unread, events, idle, head, \
                 body-time and stalled",
            ));
        }
    }
    Ok(())
}
