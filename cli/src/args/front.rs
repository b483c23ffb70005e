//! What is given of an HTTP front, `--http` of `dev` and `--proxy` of `connect`: who else may come in, and how much there may be.

use clap::ArgMatches;
use drowse_runtime::serve::limits::LimitName;
use drowse_runtime::share::WantedFront;

use super::{number, seconds};
use crate::error::Failure;

/// The flags, and the settings of a session that is shared.
pub(crate) const NAMES: [&str; 3] = [HOST, ORIGIN, LIMIT];
const HOST: &str = "http-host";
const ORIGIN: &str = "http-origin";
pub(crate) const LIMIT: &str = "http-limit";

/// The value of a limit, or of `set`, that takes it back.
const UNSET: &str = "default";

/// All that is given by flags. `--http-host ''` takes those back that were given before.
pub(super) fn front(matches: &ArgMatches) -> Result<WantedFront, Failure> {
    let many = |flag: &str| matches.get_many::<String>(flag).into_iter().flatten();
    let list = |flag: &str, read: fn(&str, &str) -> Result<String, Failure>| {
        let typed = many(flag).filter(|typed| !typed.is_empty());
        let read = typed.map(|typed| read(&format!("--{flag}"), typed)).collect::<Result<Vec<_>, _>>();
        matches.contains_id(flag).then_some(read).transpose()
    };
    let limits = many(LIMIT).map(|typed| limit(&format!("--{LIMIT}"), typed)).collect::<Result<_, _>>()?;
    Ok(WantedFront { hosts: list(HOST, host)?, origins: list(ORIGIN, origin)?, limits })
}

/// The first of the flags that is given.
pub(super) fn given(matches: &ArgMatches) -> Option<&'static str> {
    NAMES.into_iter().find(|flag| matches.contains_id(flag))
}

/// Takes a pair of `set` that is about it. `false`: it is about something else.
pub(super) fn set(front: &mut WantedFront, name: &str, typed: &str) -> Result<bool, Failure> {
    let (list, read): (_, fn(&str, &str) -> _) = match name {
        HOST => (&mut front.hosts, host),
        ORIGIN => (&mut front.origins, origin),
        LIMIT if typed == UNSET => {
            front.limits.extend(LimitName::ALL.map(|limit| (limit, None)));
            return Ok(true);
        }
        LIMIT => {
            front.limits.push(limit(name, typed)?);
            return Ok(true);
        }
        _ => return Ok(false),
    };
    let list = list.get_or_insert_default();
    if typed != UNSET && !typed.is_empty() {
        list.push(read(name, typed)?);
    }
    Ok(true)
}

/// A name or an address, as clients have it in `Host`: what is none would let nobody in, and nobody would know.
fn host(flag: &str, typed: &str) -> Result<String, Failure> {
    let has_port = typed.matches(':').count() == 1 || typed.contains("]:");
    if has_port || typed.contains(|c: char| c == '/' || c == '*' || c.is_whitespace()) {
        return Err(Failure::usage(format!(
            "{flag} {typed}: it takes the name of a host alone, as box.local, without scheme, port or path"
        )));
    }
    Ok(typed.to_owned())
}

/// What browsers send in `Origin`, letter by letter.
fn origin(flag: &str, typed: &str) -> Result<String, Failure> {
    let is_one = typed.split_once("://").is_some_and(|(scheme, host)| {
        !scheme.is_empty()
            && !host.is_empty()
            && !host.contains(|c: char| "/?#@*".contains(c) || c.is_whitespace())
    });
    if is_one || typed == "null" {
        return Ok(typed.to_owned());
    }
    Err(Failure::usage(format!(
        "{flag} {typed}: an origin is scheme://host or scheme://host:port, as https://tool.example"
    )))
}

/// `NAME=VALUE`. Without a value: as usual.
fn limit(flag: &str, typed: &str) -> Result<(LimitName, Option<u64>), Failure> {
    let wrong = |what: &str| Failure::usage(format!("{flag} {typed}: {what}"));
    let Some((name, value)) = typed.split_once('=') else { return Err(wrong("it takes NAME=VALUE")) };
    let Some(limit) = LimitName::from_name(name) else {
        let names = LimitName::ALL.map(LimitName::name).join(", ");
        return Err(wrong(&format!("there is no such limit; there are {names}")));
    };
    let value = match value {
        UNSET => None,
        "off" if limit == LimitName::Hold => Some(0),
        _ if limit.is_period() => match seconds(value) {
            Some(seconds @ 1..) => Some(seconds),
            _ => return Err(wrong("it takes a positive number of seconds, or 90s, 10m")),
        },
        _ => match number(flag, value).ok().and_then(|count| u64::try_from(count).ok()) {
            Some(count @ 1..) if count <= limit.most() => Some(count),
            Some(1..) => return Err(wrong(&format!("it takes no more than {}", limit.most()))),
            _ => return Err(wrong("it takes a positive whole number")),
        },
    };
    Ok((limit, value))
}

#[cfg(test)]
mod tests {
    use drowse_core::front::http::{Limits, Pace};
    use drowse_core::time::Duration;

    use super::*;

    #[test]
    fn the_help_has_every_limit_as_it_is() {
        let help = super::super::verb_help(crate::grammar::verb("dev").unwrap());
        let table = &help[help.find("connections=").unwrap()..help.find("For example").unwrap()];
        let mut limits = Limits {
            connections: 1,
            body: 1,
            bodies: 1,
            sessions: 1,
            streams: 1,
            unread: 1,
            answers: 1,
            events: 1,
            idle: Duration::ZERO,
            head: Duration::ZERO,
            body_time: Duration::ZERO,
            stalled: Duration::ZERO,
        };
        let mut pace = Pace { hold: Some(Duration::ZERO), ..Pace::default() };
        for typed in table.split_whitespace().filter(|word| word.contains('=')) {
            let (name, value) =
                limit("--http-limit", typed).unwrap_or_else(|failure| panic!("{}", failure.message));
            name.put(value.unwrap(), &mut limits, &mut pace);
        }
        assert_eq!((limits, pace), (Limits::default(), Pace::default()));
        for verb in ["dev", "connect"] {
            let help = super::super::verb_help(crate::grammar::verb(verb).unwrap());
            let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
            for name in LimitName::ALL.map(LimitName::name) {
                assert!(
                    help.contains(&format!("{name},")) || help.contains(&format!("{name} (")),
                    "{verb}: {name}"
                );
            }
        }
    }

    #[test]
    fn origins_and_hosts_that_nobody_could_come_by() {
        for bad in [
            "tool.example",
            "https://",
            "://x",
            "https://x/",
            "https://x/mcp",
            "*",
            "https://*.x",
            "https://a b",
        ] {
            let message = origin("--http-origin", bad).unwrap_err().message.clone();
            assert!(message.contains("as https://tool.example"), "{bad}: {message}");
        }
        for good in ["https://tool.example", "http://localhost:3000", "app://x", "http://[::1]:8080", "null"]
        {
            assert_eq!(origin("x", good).unwrap(), good);
        }
        for bad in ["https://box.local", "box.local:8080", "box/", "*.box", "[::1]:80", "a b"] {
            let message = host("--http-host", bad).unwrap_err().message.clone();
            assert!(message.contains("as box.local"), "{bad}: {message}");
        }
        for good in ["box.local", "box", "10.0.0.1", "fe80::1", "[::1]"] {
            assert_eq!(host("x", good).unwrap(), good);
        }
        let mut front = WantedFront::default();
        assert!(set(&mut front, ORIGIN, "tool.example").is_err() && set(&mut front, HOST, "a:1").is_err());
        assert!(set(&mut front, ORIGIN, "").unwrap() && set(&mut front, HOST, "default").unwrap());
        assert_eq!((front.origins, front.hosts), (Some(Vec::new()), Some(Vec::new())));
    }

    #[test]
    fn limits_that_are_none() {
        for (typed, said) in [
            ("sessions", "it takes NAME=VALUE"),
            ("session=1", "there are connections, body, bodies"),
            ("sessions=0", "positive whole number"),
            ("sessions=-1", "positive whole number"),
            ("sessions=off", "positive whole number"),
            ("sessions=32769", "no more than 32768"),
            ("sessions=9999999999999", "no more than 32768"),
            ("bodies=18446744073709551615", "no more than 1099511627776"),
            ("idle=0", "positive number of seconds"),
            ("idle=off", "positive number of seconds"),
        ] {
            let message = limit("--http-limit", typed).unwrap_err().message.clone();
            assert!(message.starts_with("--http-limit ") && message.contains(said), "{typed}: {message}");
        }
        assert_eq!(limit("x", "idle=2m").ok(), Some((LimitName::Idle, Some(120))));
        assert_eq!(limit("x", "hold=off").ok(), Some((LimitName::Hold, Some(0))));
        assert_eq!(limit("x", "sessions=default").ok(), Some((LimitName::Sessions, None)));
    }
}
