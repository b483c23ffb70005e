//! What `set` and `config` are given: settings by name, and values as people write them.

use std::path::PathBuf;

use clap::ArgMatches;
use drowse_runtime::caller::{Change, WantedShare};
use drowse_runtime::home::SessionName;
use drowse_runtime::record::{Setting, Settings};
use drowse_runtime::suggest::nearest;

use super::{front, share};
use crate::error::Failure;

/// The word that takes a setting back.
const UNSET: &str = "default";

/// What `config` is to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Config {
    Show,
    Path,
    Get(Setting),
    Set(Setting, Box<Settings>),
    Unset(Setting),
}

/// Reads the pairs of `set`; without any, the settings are shown.
pub(super) fn changes(
    session: &SessionName,
    matches: &ArgMatches,
) -> Result<(Vec<Change>, WantedShare), Failure> {
    let words: Vec<&str> = words(matches);
    let mut changes: Vec<Change> = Vec::new();
    let mut wanted = WantedShare::default();
    for pair in words.chunks(2) {
        match pair {
            [name, typed] if share::set(&mut wanted, name, typed)? => continue,
            [share::TOKEN] => {
                return Err(Failure::usage(format!(
                    "{} needs a value: the token, @FILE or ${{NAME}}",
                    share::TOKEN
                )));
            }
            [name] if front::NAMES.contains(name) => {
                return Err(Failure::usage(format!("{name} needs a value, or {UNSET}")));
            }
            _ => {}
        }
        let word = pair.first().copied().unwrap_or_default();
        let setting = named(word, |_| true).map_err(|failure| of_sharing(word, failure))?;
        let Some(typed) = pair.get(1) else {
            return Err(Failure::usage(format!("{} needs a value: {}", setting.name(), setting.want()))
                .with_hint(format!(
                    "drowse {session} set {} <value>\nback to what holds otherwise: drowse {session} set {} {UNSET}\nall settings: drowse {session} set",
                    setting.name(),
                    setting.name()
                )));
        };
        let is_off = *typed == "off" && setting == Setting::LogLevel;
        let new = if *typed == UNSET || is_off {
            Change::Unset(setting)
        } else {
            Change::To(setting, Box::new(value(setting, typed)?))
        };
        let same = |change: &&mut Change| matches!(change, Change::To(one, _) | Change::Unset(one) if *one == setting);
        match (changes.iter_mut().find(same), new) {
            (None, new) => changes.push(new),
            // As `connect` takes several --root.
            (Some(Change::To(Setting::Roots, known)), Change::To(_, more)) => {
                known.roots.get_or_insert_default().extend(more.roots.unwrap_or_default());
            }
            _ => return Err(Failure::usage(format!("{} is given twice", setting.name()))),
        }
    }
    if matches!(wanted.token, Some(Some(_))) && wanted.at == Some(None) {
        return Err(Failure::usage(
            "proxy-bearer-token is for a session that is shared: leave out proxy off",
        ));
    }
    if wanted.front.is_given() && wanted.at == Some(None) {
        return Err(Failure::usage(format!(
            "{} are for a session that is shared: leave out proxy off",
            front::NAMES.join(", ")
        )));
    }
    Ok((changes, wanted))
}

/// Reads what `config` is to do.
pub(super) fn config(matches: &ArgMatches) -> Result<Config, Failure> {
    const HELP: &str = "drowse config --help";
    let words = words(matches);
    match words.as_slice() {
        [] => Ok(Config::Show),
        ["path"] => Ok(Config::Path),
        ["get", key] => default(key).map(Config::Get),
        ["unset", key] => default(key).map(Config::Unset),
        ["set", key, typed] => {
            let setting = default(key)?;
            Ok(if *typed == UNSET {
                Config::Unset(setting)
            } else {
                Config::Set(setting, Box::new(value(setting, typed)?))
            })
        }
        ["set", key] => {
            let setting = default(key)?;
            Err(Failure::usage(format!("{} needs a value: {}", setting.name(), setting.want()))
                .with_hint(HELP))
        }
        ["get" | "set" | "unset"] => {
            Err(Failure::usage("which setting?").with_hint(format!("one of {}\n{HELP}", names(has_default))))
        }
        ["get" | "set" | "unset" | "path", ..] => {
            Err(Failure::usage("too many words: a value with spaces is quoted").with_hint(HELP))
        }
        [other, ..] => {
            Err(Failure::usage(format!("`config` takes get, set, unset or path, not `{other}`"))
                .with_hint(HELP))
        }
    }
}

fn words(matches: &ArgMatches) -> Vec<&str> {
    matches.get_many::<String>("words").into_iter().flatten().map(String::as_str).collect()
}

fn has_default(setting: &Setting) -> bool {
    setting.has_user_default()
}

fn names(which: impl Fn(&Setting) -> bool) -> String {
    Setting::ALL
        .iter()
        .filter(|setting| which(setting))
        .map(|setting| setting.name())
        .collect::<Vec<_>>()
        .join(", ")
}

fn named(word: &str, among: impl Fn(&Setting) -> bool) -> Result<Setting, Failure> {
    Setting::from_name(word).ok_or_else(|| {
        let failure = Failure::usage(format!("there is no setting `{word}`"));
        match Setting::similar(word) {
            Some(meant) => failure.with_hint(format!("Did you mean: {meant}")),
            None => failure.with_hint(format!("one of {}", names(among))),
        }
    })
}

/// The same where there may also be what sharing a session has for settings.
fn of_sharing(word: &str, failure: Failure) -> Failure {
    let own = [share::TOKEN].into_iter().chain(front::NAMES);
    let all = Setting::ALL.into_iter().map(Setting::name).chain(own.clone());
    match nearest(word, all) {
        Some(meant) => failure.with_hint(format!("Did you mean: {meant}")),
        None => {
            let own: Vec<_> = own.collect();
            failure.with_hint(format!("one of {}, {}", names(|_| true), own.join(", ")))
        }
    }
}

/// A setting that all sessions can have a default of.
fn default(word: &str) -> Result<Setting, Failure> {
    let setting = named(word, has_default)?;
    if setting.has_user_default() {
        return Ok(setting);
    }
    let name = setting.name();
    Err(Failure::usage(format!("{name} is about one server, and has no default for all"))
        .with_hint(format!("drowse @name set {name} <value>")))
}

fn value(setting: Setting, typed: &str) -> Result<Settings, Failure> {
    // What cannot be told is not relative to anything.
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    setting.parse(typed, &here).map_err(|why| {
        let why = why.map_or_else(String::new, |why| format!(" ({why})"));
        Failure::usage(format!("{} takes {}; not `{typed}`{why}", setting.name(), setting.want()))
    })
}
