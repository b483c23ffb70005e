//! What `connect` is told of sharing a session: `--proxy [host:]port`, and who may come in; the token of `dev --http`, too.
//!
//! A token on the command line can be seen by others on the machine while the command runs, so it may stand in a file or in
//! the environment instead.

use std::fs::File;
use std::io::Read;

use clap::ArgMatches;
use drowse_runtime::caller::WantedShare;
use drowse_runtime::remote;
use drowse_runtime::share::{Share, check_token};

use super::front;
use crate::error::Failure;

/// The longest file of a token.
const MAX_FILE: u64 = 64 << 10;

/// Every `--proxy`: the URL of one by which the server is reached, and where the session is shared. They are told by their
/// form.
pub(super) fn proxies(matches: &ArgMatches) -> Result<(Option<String>, WantedShare), Failure> {
    let (mut upstream, mut wanted) = (None, WantedShare::default());
    for typed in matches.get_many::<String>("proxy").into_iter().flatten() {
        let twice = if typed.contains("://") {
            upstream.replace(self::upstream(typed)?).is_some()
        } else if typed == "off" {
            wanted.at.replace(None).is_some()
        } else {
            wanted.at.replace(Some(place(typed)?)).is_some()
        };
        if twice {
            return Err(Failure::usage("--proxy is given twice"));
        }
    }
    wanted.token = token(matches, "proxy-bearer-token")?.map(Some);
    if wanted.token.is_some() && wanted.at == Some(None) {
        return Err(Failure::usage(
            "--proxy-bearer-token is for a session that is shared: leave out --proxy off",
        ));
    }
    wanted.front = front::front(matches)?;
    match (front::given(matches), &wanted.at) {
        (Some(flag), None) => Err(Failure::usage(format!(
            "--{flag} is about sharing the session, and it is not said where: give --proxy [host:]port, too"
        ))),
        (Some(flag), Some(None)) => {
            Err(Failure::usage(format!("--{flag} is for a session that is shared: leave out --proxy off")))
        }
        _ => Ok((upstream, wanted)),
    }
}

/// The URL of a proxy, where nothing can be shared.
pub(super) fn upstream(typed: &str) -> Result<String, Failure> {
    if let Ok(place) = Share::parse(typed) {
        return Err(Failure::usage(format!(
            "--proxy takes the URL of the proxy by which the server is reached here; a session is shared at {place} by \
             `connect`"
        ))
        .with_hint(format!("--proxy http://host:port\ndrowse connect <server> @name --proxy {typed}")));
    }
    remote::check_proxy(typed).map_err(|error| Failure::usage(format!("--proxy: {error}")))?;
    Ok(typed.to_owned())
}

fn place(typed: &str) -> Result<Share, Failure> {
    Share::parse(typed).map_err(|error| {
        // It may be a URL that lacks its scheme, with whatever is in it.
        Failure::usage(format!("--proxy: {error}"))
            .with_hint("--proxy 8080, or to reach the server through a proxy: --proxy http://host:port")
    })
}

/// The token that a flag gives: as it stands, `@FILE`, or `${NAME}` for a variable. Nothing of it is shown.
pub(super) fn token(matches: &ArgMatches, flag: &str) -> Result<Option<String>, Failure> {
    matches.get_one::<String>(flag).map(|typed| token_of(flag, typed)).transpose()
}

fn token_of(flag: &str, typed: &str) -> Result<String, Failure> {
    let refused = |why: String| Failure::usage(format!("--{flag}: {why}"));
    let variable = typed.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let token = if let Some(path) = typed.strip_prefix('@') {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text));
        read.map_err(|error| refused(format!("cannot read {path}: {error}")))?;
        text.trim().to_owned()
    } else if let Some(name) = variable {
        std::env::var(name).map_err(|_| refused(format!("the variable {name} is not set, or is no text")))?
    } else {
        typed.to_owned()
    };
    check_token(&token).map_err(|error| refused(error.to_string()))?;
    Ok(token)
}

/// The setting with a session's token.
pub(crate) const TOKEN: &str = "proxy-bearer-token";

/// Takes a pair of `set` that is about sharing the session. `false`: it is about something else.
pub(super) fn set(wanted: &mut WantedShare, name: &str, typed: &str) -> Result<bool, Failure> {
    let twice = match name {
        // A URL is that of the proxy by which the server is reached, and so is whatever takes that back.
        "proxy" if typed.contains("://") || typed == "default" => return Ok(false),
        "proxy" if typed == "off" => wanted.at.replace(None).is_some(),
        "proxy" => wanted.at.replace(Some(place(typed)?)).is_some(),
        // Words that take back are no tokens: everybody would guess them.
        TOKEN if matches!(typed, "default" | "off") => wanted.token.replace(None).is_some(),
        TOKEN => wanted.token.replace(Some(token_of(TOKEN, typed)?)).is_some(),
        _ => return front::set(&mut wanted.front, name, typed),
    };
    if twice {
        return Err(Failure::usage(format!("{name} is given twice")));
    }
    Ok(true)
}
