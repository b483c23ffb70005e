//! From what is wanted to the records of a session: reading the entry, pinning the environment.
//!
//! Owns which variables and headers are pinned and where each value is kept. Writes nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

use super::error::CallError;
use super::{Pin, Wanted, WantedShare, WantedTarget};
use crate::config::{ConfigError, ConfigFile, Entry, Transport, is_variable};
use crate::credential::Credentials;
use crate::expand::{expand, variables};
use crate::identity;
use crate::record::{SCHEMA, SessionRecord, Setting, Settings, Target, now_ms};
use crate::remote::{
    Header, check_certificates, check_header_name, check_proxy, complete_url, header_value, is_same_url,
};
use crate::share::{Share, ShareError, check_token};

/// Variables that every server gets as they were at `connect`, beside those with a prefix below.
const AMBIENT: &[&str] = &[
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];
const AMBIENT_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// The environment of whoever connects.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// This process's own.
    #[must_use]
    pub fn current() -> Self {
        Self(std::env::vars_os().collect())
    }

    fn get(&self, name: &str) -> Result<Option<String>, CallError> {
        match self.0.get(OsStr::new(name)) {
            None => Ok(None),
            Some(value) => match value.to_str() {
                Some(text) => Ok(Some(text.to_owned())),
                None => Err(CallError::NotText { what: format!("the value of {name}") }),
            },
        }
    }

    /// What is pinned unasked. A value that is not text is left out: records are text, and nobody asked for it.
    fn ambient(&self) -> BTreeMap<String, String> {
        let wanted = |name: &str| {
            AMBIENT.contains(&name) || AMBIENT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        };
        self.0
            .iter()
            .filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
            .filter(|(name, _)| wanted(name))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(iter: I) -> Self {
        Self(iter.into_iter().collect())
    }
}

impl fmt::Debug for Environment {
    /// Names only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The records of a session, not yet written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pinned {
    pub(super) record: SessionRecord,
    pub(super) credentials: Credentials,
}

impl Pinned {
    /// With the identity of what is in it.
    fn identified(mut self) -> Self {
        self.record.identity = identity::of(&self.record, &self.credentials);
        self
    }
}

/// The records of a session that does not exist yet.
pub(super) fn pin(wanted: &Wanted, defaults: &Settings) -> Result<Pinned, CallError> {
    let mut credentials = Credentials { ambient: wanted.environment.ambient(), ..Credentials::default() };
    add_pins(&mut credentials, &wanted.pins, &wanted.environment)?;
    let settings = given(wanted)?;
    let mut record = SessionRecord {
        schema: SCHEMA,
        target: target(&wanted.target)?,
        command: String::new(),
        args: Vec::new(),
        url: None,
        headers: BTreeMap::new(),
        given_headers: Vec::new(),
        cwd: text(&wanted.cwd, "the working directory")?,
        env: BTreeMap::new(),
        pins: credentials.pins.keys().cloned().collect(),
        settings: settings.clone(),
        given: settings,
        entry: None,
        auto_connect: None,
        syncs: Vec::new(),
        share: None,
        identity: String::new(),
        created: now_ms(),
    };
    match &wanted.target {
        WantedTarget::Command { command, args } => {
            if command.is_empty() {
                return Err(ConfigError::EmptyCommand.into());
            }
            record.command.clone_from(command);
            record.args.clone_from(args);
        }
        WantedTarget::Url { url } => record.url = Some(address(url)?),
        WantedTarget::Entry { .. } => {
            // Only now: how a session that is there is shared is its own.
            record.share = take_entry(&mut record, &mut credentials, &wanted.environment)?;
        }
    }
    record.settings = record.wanted(defaults);
    suits(&record, wanted)?;
    add_headers(&mut record, &mut credentials, &wanted.headers)?;
    share(&mut record, &mut credentials, &wanted.share)?;
    Ok(Pinned { record, credentials }.identified())
}

/// The records of a session as its entry has them now. What was pinned stays; new variables of the entry get
/// their values from `environment`.
pub(super) fn pin_again(
    record: &SessionRecord,
    credentials: &Credentials,
    environment: &Environment,
    defaults: &Settings,
) -> Result<Pinned, CallError> {
    let mut again = Pinned { record: record.clone(), credentials: credentials.clone() };
    take_entry(&mut again.record, &mut again.credentials, environment)?;
    again.record.settings = again.record.wanted(defaults);
    Ok(again.identified())
}

/// The same session with the settings and variables that are given now, and no others changed.
pub(super) fn change(
    record: &SessionRecord,
    credentials: &Credentials,
    wanted: &Wanted,
) -> Result<Pinned, CallError> {
    let mut record = record.clone();
    let mut credentials = credentials.clone();
    let settings = given(wanted)?;
    suits(&record, wanted)?;
    record.settings = settings.clone().over(record.settings);
    record.given = settings.over(record.given);
    add_pins(&mut credentials, &wanted.pins, &wanted.environment)?;
    record.pins = credentials.pins.keys().cloned().collect();
    add_headers(&mut record, &mut credentials, &wanted.headers)?;
    share(&mut record, &mut credentials, &wanted.share)?;
    Ok(Pinned { record, credentials }.identified())
}

/// The same session, shared as it is wanted now.
pub(super) fn reshared(
    record: &SessionRecord,
    credentials: &Credentials,
    wanted: &WantedShare,
) -> Result<Pinned, CallError> {
    let mut new = Pinned { record: record.clone(), credentials: credentials.clone() };
    share(&mut new.record, &mut new.credentials, wanted)?;
    Ok(new)
}

/// Where it is said what a wanted session runs, as its record has it.
pub(super) fn target(wanted: &WantedTarget) -> Result<Target, CallError> {
    Ok(match wanted {
        WantedTarget::Command { .. } => Target::Command,
        WantedTarget::Url { .. } => Target::Url,
        WantedTarget::Entry { file, entry } => {
            let absolute = std::path::absolute(file)
                .map_err(|source| ConfigError::Unreadable { path: file.clone(), source })?;
            text(&absolute, "the path of the configuration file")?;
            Target::Entry { file: absolute, entry: entry.clone() }
        }
    })
}

/// Whether a session already runs what is wanted.
pub(super) fn same_target(record: &SessionRecord, wanted: &WantedTarget) -> Result<bool, CallError> {
    Ok(record.target == target(wanted)?
        && match wanted {
            WantedTarget::Command { command, args } => record.command == *command && record.args == *args,
            WantedTarget::Url { url } => {
                let wanted = address(url)?;
                record.url.as_deref().is_some_and(|known| is_same_url(known, &wanted))
            }
            WantedTarget::Entry { .. } => true,
        })
}

fn address(url: &str) -> Result<String, ConfigError> {
    complete_url(url).map_err(|source| ConfigError::Url { place: "the URL".to_owned(), source })
}

/// The settings that are given, once it is certain that they can be used.
fn given(wanted: &Wanted) -> Result<Settings, CallError> {
    let mut settings = wanted.settings.clone();
    if let Some(proxy) = &settings.proxy {
        check_proxy(proxy).map_err(|source| ConfigError::Proxy { place: "--proxy".to_owned(), source })?;
    }
    if let Some(file) = &mut settings.cacert {
        // A session wakes from anywhere.
        *file = std::path::absolute(wanted.cwd.join(&*file)).unwrap_or_else(|_| wanted.cwd.join(&*file));
        usable(file, || "--cacert".to_owned())?;
    }
    Ok(settings)
}

pub(super) fn usable(certificates: &Path, place: impl Fn() -> String) -> Result<(), CallError> {
    text(certificates, "the path of the file of certificates")?;
    check_certificates(certificates)
        .map_err(|source| ConfigError::Certificate { place: place(), source }.into())
}

/// Whether what is given now is for a server of this kind.
fn suits(record: &SessionRecord, wanted: &Wanted) -> Result<(), ConfigError> {
    let header = (!wanted.headers.is_empty()).then_some("-H");
    match header.or_else(|| wanted.settings.only_for_urls()) {
        Some(flag) if record.url.is_none() => Err(ConfigError::OnlyForUrls { flag }),
        _ => Ok(()),
    }
}

/// Headers that are given replace those of the same name, and no others.
fn add_headers(
    record: &mut SessionRecord,
    credentials: &mut Credentials,
    headers: &[Header],
) -> Result<(), ConfigError> {
    let is_given =
        |name: &str| headers.iter().any(|Header { name: given, .. }| given.eq_ignore_ascii_case(name));
    credentials.headers.retain(|(name, _)| !is_given(name));
    for Header { name, value } in headers {
        let refused = |source| ConfigError::Header { place: "-H".to_owned(), source };
        check_header_name(name).map_err(refused)?;
        let value = header_value(name, value).map_err(refused)?;
        credentials.headers.push((name.clone(), value.to_owned()));
    }
    record.given_headers = credentials.headers.iter().map(|(name, _)| name.clone()).collect();
    Ok(())
}

/// Sharing as it is given: what is not said stays, so that another port does not open what had a token.
fn share(
    record: &mut SessionRecord,
    credentials: &mut Credentials,
    wanted: &WantedShare,
) -> Result<(), ConfigError> {
    let token = wanted.token.as_ref().and_then(Option::as_ref);
    if let Some(token) = token {
        check_token(token)?;
    }
    match &wanted.at {
        Some(Some(at)) => {
            let known = record.share.take();
            record.share = Some(known.map_or_else(|| at.clone(), |known| known.moved_to(at)));
        }
        Some(None) => record.share = None,
        None => {}
    }
    match &mut record.share {
        None if token.is_some() => return Err(ShareError::Unshared.into()),
        None if wanted.front.is_given() => return Err(ShareError::NoFront.into()),
        // The token is kept: whoever shares it again without a word of that does not mean to let everybody in.
        None => {
            if wanted.token.is_some() {
                credentials.share_token = None;
            }
        }
        Some(share) => {
            share.take(&wanted.front);
            if let Some(token) = &wanted.token {
                credentials.share_token.clone_from(token);
            }
            share.token = credentials.share_token.is_some();
            share.check()?;
        }
    }
    Ok(())
}

fn add_pins(credentials: &mut Credentials, pins: &[Pin], environment: &Environment) -> Result<(), CallError> {
    for pin in pins {
        let (name, value) = match pin {
            Pin::Value(name, value) => (name, value.clone()),
            Pin::Name(name) => match environment.get(name)? {
                Some(value) => (name, value),
                None => return Err(ConfigError::UnsetPin { name: name.clone() }.into()),
            },
        };
        if !is_variable(name) || value.contains('\0') {
            return Err(ConfigError::BadVariable { name: name.clone() }.into());
        }
        credentials.pins.insert(name.clone(), value);
    }
    Ok(())
}

/// Fills in what the entry says, for a session that has one. Answers where it says that it is shared.
fn take_entry(
    record: &mut SessionRecord,
    credentials: &mut Credentials,
    environment: &Environment,
) -> Result<Option<Share>, CallError> {
    let Target::Entry { file, entry: name } = record.target.clone() else { return Ok(None) };
    let Entry { transport, env, cwd, settings, auto_connect, share, .. } =
        ConfigFile::read(&file)?.entry(&name)?;
    let place = |member: &str| format!("entry `{name}` of {}, {member}", file.display());
    let mut values = Values { place: &place, known: credentials, environment, new: BTreeMap::new() };
    (record.command, record.args, record.url) = (String::new(), Vec::new(), None);
    record.headers.clear();
    let mut literal_headers = BTreeMap::new();
    match transport {
        Transport::Stdio { command, args } => {
            values.collect("command", &command)?;
            for (i, arg) in args.iter().enumerate() {
                values.collect(&format!("args[{i}]"), arg)?;
            }
            (record.command, record.args) = (command, args);
        }
        Transport::Url { url, headers } => {
            let address = values.collect("url", &url)?;
            complete_url(&address).map_err(|source| ConfigError::Url { place: place("url"), source })?;
            record.url = Some(url);
            for (header, value) in headers {
                let member = format!("headers.{header}");
                let sent = values.collect(&member, &value)?;
                header_value(&header, &sent)
                    .map_err(|source| ConfigError::Header { place: place(&member), source })?;
                keep(&mut record.headers, &mut literal_headers, header, value);
            }
        }
    }
    if let Some(cwd) = cwd {
        values.collect("cwd", &cwd)?;
        // Relative to the file, so that it does not depend on where somebody connects from.
        let base = file.parent().unwrap_or(Path::new("/"));
        record.cwd = if cwd.starts_with("${") { cwd } else { text(&base.join(cwd), "cwd")? };
    }
    record.env.clear();
    let mut literals = BTreeMap::new();
    for (variable, value) in env {
        values.collect(&format!("env.{variable}"), &value)?;
        keep(&mut record.env, &mut literals, variable, value);
    }
    if let Some(file) = &settings.cacert {
        usable(file, || place("cacert"))?;
    }
    let variables = values.new;
    credentials.variables = variables;
    credentials.entry = literals;
    credentials.entry_headers = literal_headers;
    record.entry = Some(settings);
    record.auto_connect = auto_connect;
    Ok(share)
}

/// A value of an entry: the record keeps a template, and of a literal only that there is one.
fn keep(
    record: &mut BTreeMap<String, Option<String>>,
    literals: &mut BTreeMap<String, String>,
    name: String,
    value: String,
) {
    if variables(&value).is_empty() {
        record.insert(name.clone(), None);
        literals.insert(name, value);
    } else {
        record.insert(name, Some(value));
    }
}

/// Looks up what `${VAR}` names, and remembers it.
struct Values<'a> {
    place: &'a dyn Fn(&str) -> String,
    known: &'a Credentials,
    environment: &'a Environment,
    new: BTreeMap<String, String>,
}

impl Values<'_> {
    /// The text as it is now.
    fn collect(&mut self, member: &str, text: &str) -> Result<String, CallError> {
        let mut not_text = None;
        let new = &mut self.new;
        let expanded = expand(text, &mut |name| {
            let value = match self.known.variable(name) {
                Some(value) => Some(value.to_owned()),
                None => self.environment.get(name).unwrap_or_else(|error| {
                    not_text = Some(error);
                    None
                }),
            };
            if let Some(value) = &value {
                new.insert(name.to_owned(), value.clone());
            }
            value
        });
        if let Some(error) = not_text {
            return Err(error);
        }
        expanded.map_err(|source| ConfigError::Expand { place: (self.place)(member), source }.into())
    }
}

fn text(path: &Path, what: &str) -> Result<String, CallError> {
    path.to_str().map(str::to_owned).ok_or_else(|| CallError::NotText { what: what.to_owned() })
}

/// How two records differ in what a running bridge was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    /// Not at all.
    None,
    /// In settings that can be changed while the server runs.
    Live,
    /// In something that only a new bridge goes by.
    Start,
}

pub(super) fn difference(old: (&SessionRecord, &Credentials), new: &Pinned) -> Difference {
    let differing: Vec<Setting> = Setting::differing(&old.0.settings, &new.record.settings).collect();
    if old.1 != &new.credentials
        || old.0.share != new.record.share
        || !differing.iter().all(|setting| setting.is_live())
    {
        Difference::Start
    } else if differing.is_empty() {
        Difference::None
    } else {
        Difference::Live
    }
}

#[cfg(test)]
mod tests;
