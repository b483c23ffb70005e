//! From what is wanted to the records of a session: reading the entry, pinning the environment.
//!
//! Owns which variables are pinned and where each value is kept. Writes nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

use super::error::CallError;
use super::{Pin, Wanted, WantedTarget};
use crate::config::{ConfigError, ConfigFile, Entry, Transport, is_variable};
use crate::credential::Credentials;
use crate::expand::{expand, variables};
use crate::record::{SCHEMA, SessionRecord, Target, now_ms};

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

/// The records of a session that does not exist yet.
pub(super) fn pin(wanted: &Wanted) -> Result<Pinned, CallError> {
    let mut credentials = Credentials { ambient: wanted.environment.ambient(), ..Credentials::default() };
    add_pins(&mut credentials, &wanted.pins, &wanted.environment)?;
    let mut record = SessionRecord {
        schema: SCHEMA,
        target: target(&wanted.target)?,
        command: String::new(),
        args: Vec::new(),
        cwd: text(&wanted.cwd, "the working directory")?,
        env: BTreeMap::new(),
        pins: credentials.pins.keys().cloned().collect(),
        settings: wanted.settings.clone(),
        given: wanted.settings.clone(),
        auto_connect: None,
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
        WantedTarget::Entry { .. } => take_entry(&mut record, &mut credentials, &wanted.environment)?,
    }
    Ok(Pinned { record, credentials })
}

/// The records of a session as its entry has them now. What was pinned stays; new variables of the entry get
/// their values from `environment`.
pub(super) fn pin_again(
    record: &SessionRecord,
    credentials: &Credentials,
    environment: &Environment,
) -> Result<Pinned, CallError> {
    let mut again = Pinned { record: record.clone(), credentials: credentials.clone() };
    take_entry(&mut again.record, &mut again.credentials, environment)?;
    Ok(again)
}

/// The same session with the settings and variables that are given now, and no others changed.
pub(super) fn change(
    record: &SessionRecord,
    credentials: &Credentials,
    wanted: &Wanted,
) -> Result<Pinned, CallError> {
    let mut record = record.clone();
    let mut credentials = credentials.clone();
    record.settings = wanted.settings.clone().over(record.settings);
    record.given = wanted.settings.clone().over(record.given);
    add_pins(&mut credentials, &wanted.pins, &wanted.environment)?;
    record.pins = credentials.pins.keys().cloned().collect();
    Ok(Pinned { record, credentials })
}

/// Where a wanted session's command comes from, as its record says it.
pub(super) fn target(wanted: &WantedTarget) -> Result<Target, CallError> {
    Ok(match wanted {
        WantedTarget::Command { .. } => Target::Command,
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
            WantedTarget::Entry { .. } => true,
        })
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

/// Fills in what the entry says, for a session that has one.
fn take_entry(
    record: &mut SessionRecord,
    credentials: &mut Credentials,
    environment: &Environment,
) -> Result<(), CallError> {
    let Target::Entry { file, entry: name } = record.target.clone() else { return Ok(()) };
    let Entry { transport, env, cwd, settings, auto_connect, .. } = ConfigFile::read(&file)?.entry(&name)?;
    let place = |member: &str| format!("entry `{name}` of {}, {member}", file.display());
    let mut values = Values { place: &place, known: credentials, environment, new: BTreeMap::new() };
    match transport {
        Transport::Url(url) => return Err(ConfigError::UrlsComeLater { url }.into()),
        Transport::Stdio { command, args } => {
            values.collect("command", &command)?;
            for (i, arg) in args.iter().enumerate() {
                values.collect(&format!("args[{i}]"), arg)?;
            }
            (record.command, record.args) = (command, args);
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
        if variables(&value).is_empty() {
            record.env.insert(variable.clone(), None);
            literals.insert(variable, value);
        } else {
            record.env.insert(variable, Some(value));
        }
    }
    let variables = values.new;
    credentials.variables = variables;
    credentials.entry = literals;
    record.settings = record.given.clone().over(settings);
    record.auto_connect = auto_connect;
    Ok(())
}

/// Looks up what `${VAR}` names, and remembers it.
struct Values<'a> {
    place: &'a dyn Fn(&str) -> String,
    known: &'a Credentials,
    environment: &'a Environment,
    new: BTreeMap<String, String>,
}

impl Values<'_> {
    fn collect(&mut self, member: &str, text: &str) -> Result<(), CallError> {
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
        expanded
            .map(drop)
            .map_err(|source| ConfigError::Expand { place: (self.place)(member), source }.into())
    }
}

fn text(path: &Path, what: &str) -> Result<String, CallError> {
    path.to_str().map(str::to_owned).ok_or_else(|| CallError::NotText { what: what.to_owned() })
}

/// Whether two records differ in anything that a running bridge was told.
pub(super) fn differs(old: (&SessionRecord, &Credentials), new: &Pinned) -> bool {
    old.0.settings != new.record.settings || old.1 != &new.credentials
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::record::Settings;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(k, v)| (OsString::from(*k), OsString::from(*v))).collect()
    }

    fn wanted(target: WantedTarget, environment: Environment) -> Wanted {
        Wanted {
            name: crate::home::SessionName::new("x").unwrap(),
            target,
            settings: Settings::default(),
            pins: Vec::new(),
            cwd: "/work-dir".into(),
            environment,
            lazy: None,
        }
    }

    fn command() -> WantedTarget {
        WantedTarget::Command { command: "./serve".into(), args: vec!["${NOT_EXPANDED}".into()] }
    }

    fn file(text: &str) -> (tempfile::TempDir, WantedTarget) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mcp.json");
        std::fs::write(&file, text).unwrap();
        (dir, WantedTarget::Entry { file, entry: "e".into() })
    }

    #[test]
    fn the_allow_list_is_pinned_and_nothing_else() {
        let environment = environment(&[
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("XDG_DATA_HOME", "/d"),
            ("https_proxy", "p"),
            ("SECRET", "s"),
            ("PATHS", "no"),
        ]);
        let pinned = pin(&wanted(command(), environment)).unwrap();
        let names: Vec<_> = pinned.credentials.ambient.keys().map(String::as_str).collect();
        assert_eq!(names, ["LC_ALL", "PATH", "XDG_DATA_HOME", "https_proxy"]);
        assert_eq!(pinned.record.args, ["${NOT_EXPANDED}"]);
        assert!(!pinned.record.is_template());
    }

    #[test]
    fn values_never_reach_the_record() {
        let (_dir, target) = file(
            r#"{"mcpServers":{"e":{"command":"run","args":["--key=${KEY}","${WITH:-fallback}"],
            "env":{"LITERAL":"lit-secret","FROM":"x${TOKEN}"},"cwd":"sub","idleTimeoutSecs":60}}}"#,
        );
        let mut wanted = wanted(
            target,
            environment(&[("KEY", "key-secret"), ("TOKEN", "tok-secret"), ("P", "pin-secret")]),
        );
        wanted.pins = vec![Pin::Name("P".into()), Pin::Value("Q".into(), "q-secret".into())];
        let Pinned { record, credentials } = pin(&wanted).unwrap();
        let json = serde_json::to_string(&record).unwrap();
        assert!(!json.contains("secret"), "{json}");
        assert!(json.contains("--key=${KEY}") && json.contains("x${TOKEN}"), "{json}");
        assert_eq!(record.pins, ["P", "Q"]);
        assert_eq!(record.env["LITERAL"], None);
        assert_eq!(credentials.entry["LITERAL"], "lit-secret");
        assert_eq!(credentials.variables.keys().collect::<Vec<_>>(), ["KEY", "TOKEN"]);
        assert_eq!(record.settings.idle_timeout_secs, Some(60));
        assert!(record.cwd.ends_with("/sub") && record.cwd.starts_with('/'));
        assert!(!format!("{credentials:?}{:?}", wanted.environment).contains("secret"));
    }

    #[test]
    fn what_is_given_beats_the_entry_zero_included() {
        let (_dir, target) = file(r#"{"servers":{"e":{"command":"run","idleTimeoutSecs":60,"timeout":5}}}"#);
        let mut wanted = wanted(target, Environment::default());
        wanted.settings.idle_timeout_secs = Some(0);
        let pinned = pin(&wanted).unwrap();
        assert_eq!(pinned.record.settings.idle_timeout_secs, Some(0));
        assert_eq!(pinned.record.settings.timeout_ms, Some(5_000));
        assert_eq!(pinned.record.given, wanted.settings);
    }

    #[test]
    fn an_unset_variable_is_an_error_that_names_it_and_its_place() {
        for (member, body) in [
            ("args[0]", r#"{"command":"c","args":["${GONE}"]}"#),
            ("command", r#"{"command":"${GONE}"}"#),
            ("env.A", r#"{"command":"c","env":{"A":"${env:GONE}"}}"#),
            ("cwd", r#"{"command":"c","cwd":"${GONE}/x"}"#),
        ] {
            let (_dir, target) = file(&format!(r#"{{"servers":{{"e":{body}}}}}"#));
            let error = pin(&wanted(target, Environment::default())).unwrap_err().to_string();
            assert!(
                error.contains("GONE is not set") && error.contains(member) && error.contains('e'),
                "{error}"
            );
        }
        let mut unset = wanted(command(), Environment::default());
        unset.pins = vec![Pin::Name("GONE".into())];
        assert!(pin(&unset).unwrap_err().to_string().contains("--env GONE"));
    }

    #[test]
    fn urls_and_empty_commands_are_refused() {
        let (_dir, target) = file(r#"{"servers":{"e":{"url":"https://h/mcp"}}}"#);
        let error = pin(&wanted(target, Environment::default())).unwrap_err();
        assert!(matches!(error, CallError::Config(ConfigError::UrlsComeLater { .. })), "{error}");
        let empty = WantedTarget::Command { command: String::new(), args: vec![] };
        assert!(pin(&wanted(empty, Environment::default())).is_err());
    }

    #[test]
    fn an_edited_entry_takes_effect_but_pins_and_given_settings_stay() {
        let (dir, target) =
            file(r#"{"servers":{"e":{"command":"one","env":{"A":"${A}"},"idleTimeoutSecs":1}}}"#);
        let mut wanted = wanted(target, environment(&[("A", "old"), ("PATH", "/old")]));
        wanted.settings.timeout_ms = Some(7);
        wanted.pins = vec![Pin::Value("P".into(), "p".into())];
        let first = pin(&wanted).unwrap();
        std::fs::write(
            dir.path().join("mcp.json"),
            r#"{"servers":{"e":{"command":"two","env":{"A":"${A}","B":"${B}"},"idleTimeoutSecs":2,"timeout":9}}}"#,
        )
        .unwrap();
        let later = environment(&[("A", "new"), ("B", "b"), ("PATH", "/new")]);
        let again = pin_again(&first.record, &first.credentials, &later).unwrap();
        assert_eq!(again.record.command, "two");
        assert_eq!(again.record.settings.idle_timeout_secs, Some(2));
        assert_eq!(again.record.settings.timeout_ms, Some(7));
        assert_eq!(again.credentials.variables["A"], "old");
        assert_eq!(again.credentials.variables["B"], "b");
        assert_eq!(again.credentials.ambient["PATH"], "/old");
        assert_eq!(again.credentials.pins["P"], "p");
        std::fs::remove_file(dir.path().join("mcp.json")).unwrap();
        assert!(pin_again(&first.record, &first.credentials, &later).is_err());
    }

    #[test]
    fn changing_a_session_touches_only_what_is_given() {
        let mut first = wanted(command(), environment(&[("PATH", "/old"), ("T", "1")]));
        first.settings.idle_timeout_secs = Some(5);
        first.pins = vec![Pin::Name("T".into())];
        let old = pin(&first).unwrap();
        let mut second = wanted(command(), environment(&[("PATH", "/new")]));
        let same = change(&old.record, &old.credentials, &second).unwrap();
        assert!(!differs((&old.record, &old.credentials), &same));
        second.settings.timeout_ms = Some(3);
        second.pins = vec![Pin::Value("U".into(), "u".into())];
        let new = change(&old.record, &old.credentials, &second).unwrap();
        assert!(differs((&old.record, &old.credentials), &new));
        assert_eq!(new.record.settings.idle_timeout_secs, Some(5));
        assert_eq!(new.record.settings.timeout_ms, Some(3));
        assert_eq!(new.record.pins, ["T", "U"]);
        assert_eq!(new.credentials.ambient["PATH"], "/old");
    }

    #[test]
    fn targets_are_the_same_by_command_line_or_by_file_and_entry() {
        let pinned = pin(&wanted(command(), Environment::default())).unwrap();
        assert!(same_target(&pinned.record, &command()).unwrap());
        let other = WantedTarget::Command { command: "./serve".into(), args: vec![] };
        assert!(!same_target(&pinned.record, &other).unwrap());
        let entry = WantedTarget::Entry { file: PathBuf::from("/c.json"), entry: "e".into() };
        assert!(!same_target(&pinned.record, &entry).unwrap());
    }
}
