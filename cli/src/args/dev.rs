//! What `dev` is given: a server's command, and how it is built and kept.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::ArgMatches;
use drowse_core::era::Pin;
use drowse_core::front::http::{Limits, Pace};
use drowse_runtime::record::Setting;
use drowse_runtime::serve::limits::{Named, in_force};

use super::connect::{Variable, roots, variables};
use super::front::{front, given};
use super::seconds;
use super::share::token;
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
    pub(crate) pin: Pin,
    pub(crate) roots: Vec<String>,
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
    pub(crate) pace: Pace,
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
        pin: pin(matches)?,
        roots: roots(matches)?.unwrap_or_default(),
        sampling: matches.get_flag("sampling"),
        backend_url: matches.get_one::<String>("backend-url").cloned(),
        http: http(matches)?,
    })
}

/// The same words as those of the setting.
fn pin(matches: &ArgMatches) -> Result<Pin, Failure> {
    let Some(typed) = matches.get_one::<String>("mcp-version") else { return Ok(Pin::None) };
    Pin::from_name(typed).ok_or_else(|| {
        Failure::usage(format!("--mcp-version takes {}; not `{typed}`", Setting::McpVersion.want()))
    })
}

fn http(matches: &ArgMatches) -> Result<Option<Http>, Failure> {
    let one = |flag: &str| matches.get_one::<String>(flag).cloned();
    let Some(typed) = one("http") else {
        let mut flags = ["http-path", "http-bearer-token"].into_iter();
        return match flags.find(|flag| matches.contains_id(flag)).or_else(|| given(matches)) {
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
    let front = front(matches)?;
    let (limits, pace) = in_force(&front.limits_over(Named::new()));
    let (path, hosts, origins) = (one("http-path"), front.hosts, front.origins);
    let (hosts, origins) = (hosts.unwrap_or_default(), origins.unwrap_or_default());
    Ok(Some(Http { address, path, token, hosts, origins, limits, pace }))
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Globals, parse};
    use super::*;

    fn line(line: &str) -> Result<(Dev, Globals), Failure> {
        match parse(line.split_whitespace().map(Into::into).collect())? {
            (Command::Dev(dev), globals) => Ok((*dev, globals)),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn command(text: &str) -> String {
        let (dev, _) = line(text).unwrap_or_else(|failure| panic!("{text}: {}", failure.message));
        [dev.program].into_iter().chain(dev.args).collect::<Vec<_>>().join(" ")
    }

    fn refused(typed: &str) -> Failure {
        line(typed).map(|_| ()).expect_err(typed)
    }

    #[test]
    fn the_help_has_every_period_as_it_is() {
        let help = super::super::verb_help(crate::grammar::verb("dev").unwrap());
        let usual = |flag: &str, secs: u64| {
            let of_flag = help.split_once(&format!("--{flag} ")).unwrap().1;
            let until = of_flag.find("\n      --").unwrap_or(of_flag.len());
            let of_flag = of_flag[..until].split_whitespace().collect::<Vec<_>>().join(" ");
            let said = [format!("{secs} s by default"), format!("{}m by default", secs / 60)];
            assert!(said.iter().any(|said| of_flag.contains(said)), "{of_flag}");
        };
        usual("drain", DRAIN_SECS);
        usual("discovery-wait", DISCOVERY_SECS);
        usual("build-timeout", BUILD_SECS);
        let (dev, _) = line("dev x").unwrap();
        let periods = [dev.drain, dev.discovery_wait, dev.build_limit];
        assert_eq!(periods, [5, 15, 600].map(Duration::from_secs));
    }

    #[test]
    fn a_stream_is_held_for_as_long_as_is_said() {
        let hold = |typed: &str| {
            line(&format!("dev --http 0 {typed} x")).map(|(dev, _)| dev.http.unwrap().pace.hold)
        };
        assert_eq!(hold("").ok(), Some(None));
        assert_eq!(hold("--http-limit hold=2m").ok(), Some(Some(Duration::from_secs(120))));
        assert_eq!(hold("--http-limit hold=2m --http-limit hold=off").ok(), Some(None));
        for wrong in ["hold=0", "hold=", "hold=soon", "hold=Off"] {
            assert!(hold(&format!("--http-limit {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_version_and_the_roots_are_those_of_a_session() {
        use drowse_core::era::{Era, Revision};
        for (typed, pin) in [
            ("dev x", Pin::None),
            ("dev --mcp-version legacy x", Pin::Era(Era::Legacy)),
            ("dev --mcp-version modern x", Pin::Era(Era::Modern)),
            ("dev --mcp-version 2025-06-18 x", Pin::Revision(Revision::V2025_06_18)),
        ] {
            assert_eq!(line(typed).unwrap().0.pin, pin, "{typed}");
        }
        for wrong in ["dev --mcp-version 1999 x", "dev --mcp-version Legacy x", "dev --mcp-version= x"] {
            let message = refused(wrong).message.clone();
            assert!(message.contains("--mcp-version takes legacy, modern, or a revision"), "{message}");
        }
        let here = std::env::current_dir().unwrap();
        let (dev, _) = line("dev --root file:///a --root . x").unwrap();
        assert_eq!(dev.roots, ["file:///a".to_owned(), format!("file://{}", here.display())]);
        assert!(line("dev --root= x").unwrap().0.roots.is_empty());
        for wrong in ["dev --root file://host/a x", "dev --root /no/such/directory x"] {
            assert!(refused(wrong).message.contains("--root"), "{wrong}");
        }
    }

    #[test]
    fn what_comes_after_the_first_word_is_the_servers() {
        for (typed, expected) in [
            ("dev -- node server.js --flag", "node server.js --flag"),
            ("dev node server.js --flag", "node server.js --flag"),
            ("dev node --help", "node --help"),
            ("dev node -V --json --drain 9", "node -V --json --drain 9"),
            ("dev --drain 9 node --build x", "node --build x"),
            ("dev --drain=9 node @s", "node @s"),
            ("dev --replay-safe --watch src --watch lib node a", "node a"),
            ("--timeout 9 dev node a", "node a"),
            ("dev node -- a", "node -- a"),
            ("dev -- -x", "-x"),
        ] {
            assert_eq!(command(typed), expected, "{typed}");
        }
        let (dev, globals) = line("dev --drain 9 node --drain 1 --json").unwrap();
        assert_eq!((dev.drain, globals.json), (Duration::from_secs(9), false));
        assert!(line("dev --json node").unwrap().1.json);
        assert!(line("--json dev node --json").unwrap().1.json);
    }

    #[test]
    fn a_flag_before_it_is_ours() {
        for (typed, said) in [
            ("dev --flag node server.js", "unexpected flag `--flag`"),
            ("dev --port=1 -- node server.js", "unexpected flag `--port`"),
            ("dev --drian 9 node", "unexpected flag `--drian`"),
            ("dev --drain", "needs a value"),
            ("dev --drain 9", "needs a server's command"),
        ] {
            let message = refused(typed).message.clone();
            assert!(message.contains(said), "{typed}: {message}");
        }
        let hint = |typed: &str| refused(typed).hint.clone().unwrap_or_default();
        assert!(hint("dev --flag node").contains("after its command"), "{}", hint("dev --flag node"));
        assert!(hint("dev --drian 9 node").contains("--drain"));
    }

    #[test]
    fn a_token_may_stand_elsewhere_and_is_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), " hush-hush \n").unwrap();
        let typed = format!("dev --http 0 --http-bearer-token @{} x", file.path().display());
        let token = |typed: &str| line(typed).unwrap().0.http.unwrap().token;
        assert_eq!(token(&typed).as_deref(), Some("hush-hush"));
        assert_eq!(token("dev --http 0 --http-bearer-token plain x").as_deref(), Some("plain"));
        let path = std::env::var("CARGO_PKG_NAME").unwrap();
        assert_eq!(token("dev --http 0 --http-bearer-token ${CARGO_PKG_NAME} x"), Some(path));
        std::fs::write(file.path(), "hu\u{1}sh").unwrap();
        for wrong in [&typed[..], "dev --http 0 --http-bearer-token hu\u{1}sh x"] {
            let message = refused(wrong).message.clone();
            assert!(message.contains("--http-bearer-token") && !message.contains("hu"), "{message}");
        }
        for wrong in ["@/nowhere/at/all", "${NO_SUCH_VARIABLE_HERE}"] {
            let message = &refused(&format!("dev --http 0 --http-bearer-token {wrong} x")).message;
            assert!(message.contains("--http-bearer-token"), "{message}");
        }
    }
}
