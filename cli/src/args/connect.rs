//! What `connect` is given: a server, a name, and how the session is to be kept.

use clap::ArgMatches;
use std::path::Path;

use drowse_runtime::caller::WantedShare;
use drowse_runtime::home::SessionName;
use drowse_runtime::input::root_uri;
use drowse_runtime::record::{OnExpiry, Settings};
use drowse_runtime::remote::Header;

use super::{seconds, session_name, share};
use crate::error::Failure;
use crate::target::{self, Target};

/// What `connect` was given.
#[derive(Debug, PartialEq)]
pub(crate) struct Connect {
    pub(crate) target: Target,
    pub(crate) name: Option<SessionName>,
    /// An explicit 0, or `--no-…`, is not the same as no flag. Without `--timeout`, which every verb takes.
    pub(crate) settings: Settings,
    pub(crate) env: Vec<Variable>,
    pub(crate) headers: Vec<Header>,
    pub(crate) lazy: bool,
    pub(crate) share: WantedShare,
}

/// One `--env`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Variable {
    /// `--env NAME`: the value that it has now.
    Pinned(String),
    /// `--env NAME=VALUE`.
    Set(String, String),
}

/// Reads the words and flags of `connect`.
pub(super) fn read(session: Option<SessionName>, matches: &ArgMatches) -> Result<Connect, Failure> {
    let many = |id: &str| matches.get_many::<String>(id).into_iter().flatten();
    let mut name = session;
    let mut servers = Vec::new();
    for word in many("server") {
        if word.starts_with('@') {
            if let Some(first) = &name {
                return Err(Failure::usage(format!("two session names: {first} and {word}")));
            }
            name = Some(session_name(word)?);
        } else {
            servers.push(word.as_str());
        }
    }
    let target = target::parse(&servers, many("command").cloned().collect())?;
    let (proxy, share) = share::proxies(matches)?;
    let settings = Settings { proxy, ..settings(matches)? };
    let env = variables(matches)?;
    let headers = headers(matches)?;
    match &target {
        Target::Command { .. } => check_command(&target, &settings, &headers)?,
        Target::File(file) => {
            let file = file.display();
            if let Some(Some(place)) =
                share.at.as_ref().filter(|at| at.as_ref().is_some_and(|at| at.port != 0))
            {
                return Err(Failure::usage(format!(
                    "--proxy {place} would be the address of every session of {file}, and is one's only: give it for one \
                     entry, or port 0, which is a free one for each"
                ))
                .with_hint(format!("drowse connect {file}:<entry> --proxy {place}")));
            }
            if let Some(name) = name {
                return Err(Failure::usage(format!(
                    "{file} is a whole file, whose sessions are named after its entries: {name} cannot be the \
                     name of all"
                ))
                .with_hint(format!("drowse connect {file}\ndrowse connect {file}:<entry> {name}")));
            }
            if !headers.is_empty() {
                return Err(Failure::usage(format!(
                    "-H would go to every server of {file}: give it for one entry"
                ))
                .with_hint(format!("drowse connect {file}:<entry> -H …")));
            }
        }
        Target::Entry { .. } | Target::Url(_) => {}
    }
    Ok(Connect { target, name, settings, env, headers, lazy: matches.get_flag("lazy"), share })
}

fn settings(matches: &ArgMatches) -> Result<Settings, Failure> {
    let one = |id: &str| matches.get_one::<String>(id);
    let period = |flag: &'static str| {
        one(flag)
            .map(|typed| {
                seconds(typed).ok_or_else(|| {
                    Failure::usage(format!(
                        "--{flag} takes a number of seconds, or 90s, 10m, 2h, 1d; 0 means never; not `{typed}`"
                    ))
                })
            })
            .transpose()
    };
    Ok(Settings {
        idle_timeout_secs: period("idle-timeout")?,
        keepalive_secs: period("keepalive")?,
        auto_restart: choice(matches, "auto-restart", "no-auto-restart"),
        on_expiry: one("on-expiry").and_then(|word| OnExpiry::from_name(word)),
        roots: roots(matches)?,
        sampling_command: one("sampling-command").cloned(),
        ..for_urls(matches)
    })
}

/// A command has no use for what is said of a URL.
pub(super) fn check_command(target: &Target, settings: &Settings, headers: &[Header]) -> Result<(), Failure> {
    let header = (!headers.is_empty()).then_some("-H");
    match header.or_else(|| settings.only_for_urls()) {
        Some(flag) if matches!(target, Target::Command { .. }) => Err(Failure::usage(format!(
            "{flag} is for servers behind a URL, and this one is a command: leave it out"
        ))),
        _ => Ok(()),
    }
}

/// What is said of a server that is there for one command.
pub(super) fn for_once(matches: &ArgMatches) -> Result<Settings, Failure> {
    Ok(Settings {
        roots: roots(matches)?,
        sampling_command: matches.get_one::<String>("sampling-command").cloned(),
        proxy: matches.get_one::<String>("proxy").map(|typed| share::upstream(typed)).transpose()?,
        ..for_urls(matches)
    })
}

/// Every `--root`, as the URI that a server is told.
pub(super) fn roots(matches: &ArgMatches) -> Result<Option<Vec<String>>, Failure> {
    let typed: Vec<&String> = matches.get_many::<String>("root").into_iter().flatten().collect();
    let uri = |root: &&String| match root.strip_prefix("file://") {
        Some(path) if path.starts_with('/') => Ok((*root).clone()),
        Some(_) => Err(Failure::usage(format!("--root takes a directory or a file:///… URI, not `{root}`"))),
        None => root_uri(Path::new(root)).map_err(|error| Failure::usage(format!("--root {root}: {error}"))),
    };
    if typed.is_empty() {
        return Ok(None);
    }
    typed.iter().filter(|root| !root.is_empty()).map(uri).collect::<Result<_, _>>().map(Some)
}

/// How a server behind a URL is reached, beside its headers and a proxy.
fn for_urls(matches: &ArgMatches) -> Settings {
    let one = |id: &str| matches.get_one::<String>(id);
    Settings {
        insecure: choice(matches, "insecure", "no-insecure"),
        cacert: one("cacert").map(Into::into),
        ..Settings::default()
    }
}

fn choice(matches: &ArgMatches, on: &str, off: &str) -> Option<bool> {
    matches.get_flag(on).then_some(true).or_else(|| matches.get_flag(off).then_some(false))
}

/// Every `-H`. It may be nothing but a secret, so nothing of it is shown.
pub(super) fn headers(matches: &ArgMatches) -> Result<Vec<Header>, Failure> {
    let header =
        |typed: &String| Header::parse(typed).map_err(|error| Failure::usage(format!("-H: {error}")));
    matches.get_many::<String>("header").into_iter().flatten().map(header).collect()
}

/// Every `--env`.
pub(super) fn variables(matches: &ArgMatches) -> Result<Vec<Variable>, Failure> {
    matches.get_many::<String>("env").into_iter().flatten().map(|typed| variable(typed)).collect()
}

fn variable(typed: &str) -> Result<Variable, Failure> {
    let (name, value) = match typed.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (typed, None),
    };
    if name.is_empty() || name.contains('\0') || name.contains(char::is_whitespace) {
        return Err(Failure::usage(format!("--env takes NAME or NAME=VALUE, not `{typed}`")));
    }
    Ok(match value {
        Some(value) => Variable::Set(name.to_owned(), value.to_owned()),
        None => Variable::Pinned(name.to_owned()),
    })
}
