//! The user's own defaults for settings of sessions, in a file that people may edit.
//!
//! Owns `config.json`: `{"schema": 1, "defaults": {"idleTimeoutSecs": 600}}`, with comments and trailing commas. What it
//! does not know it keeps as it stands, comments included. A missing file is one without defaults.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::{Map, Value};

use crate::config::{self, ConfigError, MAX_CONFIG};
use crate::home::{Home, HomeError};
use crate::lock::Lock;
use crate::record::{self, Durability, Setting, Settings};
use crate::regular;
use crate::wait::Wait;

/// The schema that this build writes, and the newest that it reads.
const SCHEMA: u64 = 1;

/// The user's defaults, as they were read.
#[derive(Debug, Clone)]
pub struct UserDefaults {
    path: PathBuf,
    text: Option<String>,
    settings: Settings,
    unknown: Vec<String>,
}

impl UserDefaults {
    /// Reads them.
    ///
    /// # Errors
    /// If the file is damaged, of a newer drowse, or cannot be read.
    pub fn read(home: &Home) -> Result<Self, ConfigError> {
        let path = home.config_file();
        let unreadable = |source| ConfigError::Unreadable { path: path.clone(), source };
        let file = match regular::open(&path) {
            Ok(file) => file,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Self { path, text: None, settings: Settings::default(), unknown: Vec::new() });
            }
            Err(source) => return Err(unreadable(source)),
        };
        let mut bytes = Vec::new();
        file.take(MAX_CONFIG + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_CONFIG {
            return Err(ConfigError::Huge { path });
        }
        let text = String::from_utf8(bytes)
            .map_err(|e| damaged(&path, &format!("byte {} is not UTF-8", e.utf8_error().valid_up_to())))?;
        Self::parse(path, text)
    }

    fn parse(path: PathBuf, text: String) -> Result<Self, ConfigError> {
        let plain = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let none = || Value::Object(Map::new());
        let root: Option<Value> = jsonc_parser::parse_to_serde_value(plain, &config::JSONC)
            .map_err(|e| damaged(&path, &e.to_string()))?;
        // A file of nothing, or of nothing but comments, says nothing.
        let root = root.unwrap_or_else(none);
        let bad = |what: &str| damaged(&path, what);
        let root = root.as_object().ok_or_else(|| bad("not an object"))?;
        match root.get("schema").map(Value::as_u64) {
            None => {}
            Some(Some(schema)) if schema <= SCHEMA => {}
            Some(Some(schema)) => return Err(ConfigError::NewerDefaults { path, schema }),
            Some(None) => return Err(bad("`schema` must be a number")),
        }
        let (mut settings, mut unknown) = (Settings::default(), Vec::new());
        let empty = none();
        let defaults = root.get("defaults").unwrap_or(&empty);
        let defaults = defaults.as_object().ok_or_else(|| bad("`defaults` must be an object"))?;
        let base = path.parent().unwrap_or(Path::new("/"));
        for (member, value) in defaults {
            let setting = Setting::ALL.into_iter().find(|setting| setting.member() == member);
            let Some(setting) = setting.filter(|setting| setting.has_user_default()) else {
                unknown.push(member.clone());
                continue;
            };
            if value.is_null() {
                continue;
            }
            let read = setting.read(value, base).map_err(|why| {
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                damaged(&path, &format!("`defaults.{member}` must be {}{why}", setting.want()))
            })?;
            setting.copy(&read, &mut settings);
        }
        Ok(Self { path, text: Some(text), settings, unknown })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is such a file.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.text.is_some()
    }

    /// The defaults.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Members of `defaults` that are none that this build knows. They are kept, and mean nothing.
    #[must_use]
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Sets a default, or with none takes it back; `change` has the setting and no other. One writer at a time, and
    /// readers see the old file or the new one.
    ///
    /// # Errors
    /// If the file is damaged or cannot be written, or the setting can have no default.
    pub fn change(home: &Home, setting: Setting, change: Option<&Settings>) -> Result<Self, DefaultsError> {
        home.prepare()?;
        let wait = Wait::at_most(std::time::Duration::from_secs(10));
        let _lock = Lock::acquire(&home.config_lock(), wait)
            .map_err(|error| HomeError::io("lock", &home.config_lock(), io::Error::other(error)))?;
        let known = Self::read(home)?;
        let value = change.and_then(|settings| setting.value(settings));
        let text = known.with(setting, value);
        let again = Self::parse(known.path, text)?;
        let text = again.text.as_deref().unwrap_or_default();
        // A link, as those who keep such files elsewhere have it, stays one.
        let path = fs::canonicalize(&again.path).unwrap_or_else(|_| again.path.clone());
        if let Some(directory) = path.parent() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(|e| HomeError::io("make", directory, e))?;
        }
        record::replace(&path, text.as_bytes(), Durability::Synced)?;
        Ok(again)
    }

    /// The text with another value of one setting, all else as it was.
    fn with(&self, setting: Setting, value: Option<Value>) -> String {
        let text = self.text.as_deref().unwrap_or_default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // It was parsed a moment ago.
        let Ok(root) = CstRootNode::parse(text, &config::JSONC) else { return text.to_owned() };
        let object = root.object_value_or_set();
        if object.get("schema").is_none() {
            object.insert(0, "schema", CstInputValue::Number(SCHEMA.to_string()));
        }
        let defaults = object.object_value_or_set("defaults");
        match (defaults.get(setting.member()), value) {
            (Some(known), Some(value)) => known.set_value(input(&value)),
            (Some(known), None) => known.remove(),
            (None, Some(value)) => {
                defaults.append(setting.member(), input(&value));
            }
            (None, None) => {}
        }
        let mut text = root.to_string();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }
}

/// Why a default could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum DefaultsError {
    /// The file cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file system refused.
    #[error(transparent)]
    Home(#[from] HomeError),
}

fn damaged(path: &Path, what: &str) -> ConfigError {
    ConfigError::Defaults { path: path.to_owned(), what: what.to_owned() }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(on) => CstInputValue::Bool(*on),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("h"), None);
        fs::create_dir_all(home.root()).unwrap();
        (dir, home)
    }

    fn idle(secs: u64) -> Settings {
        Settings { idle_timeout_secs: Some(secs), ..Settings::default() }
    }

    fn written(home: &Home) -> String {
        fs::read_to_string(home.config_file()).unwrap()
    }

    #[test]
    fn a_missing_file_has_no_defaults_and_is_made_by_the_first_change() {
        let (_dir, home) = home();
        let none = UserDefaults::read(&home).unwrap();
        assert_eq!((none.exists(), none.settings()), (false, &Settings::default()));
        UserDefaults::change(&home, Setting::IdleTimeout, Some(&idle(600))).unwrap();
        let value: Value = serde_json::from_str(&written(&home)).unwrap();
        assert_eq!(value, json!({"schema": 1, "defaults": {"idleTimeoutSecs": 600}}));
        assert_eq!(UserDefaults::read(&home).unwrap().settings(), &idle(600));
        UserDefaults::change(&home, Setting::IdleTimeout, Some(&idle(0))).unwrap();
        assert_eq!(UserDefaults::read(&home).unwrap().settings(), &idle(0), "0 is a value");
        UserDefaults::change(&home, Setting::IdleTimeout, None).unwrap();
        assert_eq!(UserDefaults::read(&home).unwrap().settings(), &Settings::default());
    }

    #[test]
    fn what_people_wrote_stays() {
        let (dir, home) = home();
        let text = "\u{feff}{\n  // mine\n  \"editor\": \"vi\",\n  \"defaults\": {\n    \"idleTimeoutSecs\": \"10m\", // ten\n    \"later\": [1],\n  },\n}\n";
        let elsewhere = dir.path().join("dotfiles.json");
        fs::write(&elsewhere, text).unwrap();
        std::os::unix::fs::symlink(&elsewhere, home.config_file()).unwrap();
        let known = UserDefaults::read(&home).unwrap();
        assert_eq!((known.settings(), known.unknown()), (&idle(600), &["later".to_owned()][..]));
        let change = Settings { auto_restart: Some(true), ..Settings::default() };
        UserDefaults::change(&home, Setting::AutoRestart, Some(&change)).unwrap();
        UserDefaults::change(&home, Setting::IdleTimeout, Some(&idle(5))).unwrap();
        let now = written(&home);
        for part in ["// mine", "\"editor\": \"vi\"", "// ten", "\"later\": [1]", "\"idleTimeoutSecs\": 5"] {
            assert!(now.contains(part), "{part} in {now}");
        }
        assert_eq!(now, fs::read_to_string(&elsewhere).unwrap(), "the link is followed");
        let both = Settings { auto_restart: Some(true), ..idle(5) };
        assert_eq!(UserDefaults::read(&home).unwrap().settings(), &both);
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_it_and_is_not_written_over() {
        let (_dir, home) = home();
        for (text, why) in [
            ("{", "config.json"),
            ("[]", "not an object"),
            (r#"{"defaults": 7}"#, "`defaults` must be an object"),
            (r#"{"defaults": {"idleTimeoutSecs": "soon"}}"#, "`defaults.idleTimeoutSecs` must be a number"),
            (r#"{"defaults": {"proxy": "::"}}"#, "`defaults.proxy` must be"),
            (r#"{"schema": 2}"#, "newer drowse"),
        ] {
            fs::write(home.config_file(), text).unwrap();
            let error = UserDefaults::read(&home).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("config.json"), "{error}");
            assert!(UserDefaults::change(&home, Setting::IdleTimeout, Some(&idle(1))).is_err());
            assert_eq!(written(&home), text);
        }
        for nothing in ["", "// nothing\n", "{}", r#"{"defaults": {"idleTimeoutSecs": null}}"#] {
            fs::write(home.config_file(), nothing).unwrap();
            assert_eq!(UserDefaults::read(&home).unwrap().settings(), &Settings::default(), "{nothing}");
        }
        // What is not for all servers is none.
        fs::write(home.config_file(), r#"{"defaults": {"insecure": true}}"#).unwrap();
        let known = UserDefaults::read(&home).unwrap();
        assert_eq!((known.settings(), known.unknown()), (&Settings::default(), &["insecure".to_owned()][..]));
    }

    #[test]
    fn changes_at_once_are_all_there_in_the_end() {
        let (_dir, home) = home();
        let settings = [
            (Setting::IdleTimeout, idle(1)),
            (Setting::Keepalive, Settings { keepalive_secs: Some(2), ..Settings::default() }),
            (Setting::AutoRestart, Settings { auto_restart: Some(true), ..Settings::default() }),
            (Setting::StopGrace, Settings { stop_grace_ms: Some(3000), ..Settings::default() }),
        ];
        std::thread::scope(|scope| {
            for (setting, change) in &settings {
                scope.spawn(|| UserDefaults::change(&home, *setting, Some(change)).unwrap());
            }
        });
        let all = settings.iter().fold(Settings::default(), |all, (_, one)| one.clone().over(all));
        assert_eq!(UserDefaults::read(&home).unwrap().settings(), &all);
    }
}
