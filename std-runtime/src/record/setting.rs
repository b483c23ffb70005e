//! The settings by name: how each is written on the command line and in files, and when a change of it takes effect.
//!
//! Owns the one table of them. Never touches a file: whether a certificate can be used is asked elsewhere.

use std::path::Path;

use drowse_core::era::Pin;
use drowse_core::logging::Level;
use serde_json::{Value, json};

use super::{
    DEFAULT_CONNECT_TIMEOUT_MS, DEFAULT_MAX_TIMEOUT_MS, DEFAULT_STOP_GRACE_MS, DEFAULT_TIMEOUT_MS, OnExpiry,
    Settings,
};
use crate::config::seconds;
use crate::input::root_uri;
use crate::remote::check_proxy;
use crate::suggest::nearest;

/// One of [`Settings`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Setting {
    /// [`Settings::idle_timeout_secs`]
    IdleTimeout,
    /// [`Settings::timeout_ms`]
    Timeout,
    /// [`Settings::max_timeout_ms`]
    MaxTimeout,
    /// [`Settings::connect_timeout_ms`]
    ConnectTimeout,
    /// [`Settings::stop_grace_ms`]
    StopGrace,
    /// [`Settings::keepalive_secs`]
    Keepalive,
    /// [`Settings::auto_restart`]
    AutoRestart,
    /// [`Settings::on_expiry`]
    OnExpiry,
    /// [`Settings::insecure`]
    Insecure,
    /// [`Settings::cacert`]
    Cacert,
    /// [`Settings::proxy`]
    Proxy,
    /// [`Settings::mcp_version`]
    McpVersion,
    /// [`Settings::roots`]
    Roots,
    /// [`Settings::sampling_command`]
    SamplingCommand,
    /// [`Settings::log_level`]
    LogLevel,
}

/// Where the value of a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// It was given for this session.
    Given,
    /// The session's entry in a configuration file has it.
    Entry,
    /// It is the user's default.
    User,
    /// Nobody said anything.
    BuiltIn,
}

impl Source {
    /// The word of `--json`, and for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Entry => "entry",
            Self::User => "user default",
            Self::BuiltIn => "built-in",
        }
    }
}

/// A century: far beyond any use, and far from overflow in milliseconds and microseconds.
const MAX_SECONDS: u64 = 100 * 366 * 86400;

impl Setting {
    /// Every setting, in the order in which they are shown.
    pub const ALL: [Self; 15] = [
        Self::IdleTimeout,
        Self::Timeout,
        Self::MaxTimeout,
        Self::ConnectTimeout,
        Self::StopGrace,
        Self::Keepalive,
        Self::AutoRestart,
        Self::OnExpiry,
        Self::LogLevel,
        Self::McpVersion,
        Self::Roots,
        Self::SamplingCommand,
        Self::Insecure,
        Self::Cacert,
        Self::Proxy,
    ];

    /// The word of the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::IdleTimeout => "idle-timeout",
            Self::Timeout => "timeout",
            Self::MaxTimeout => "max-timeout",
            Self::ConnectTimeout => "connect-timeout",
            Self::StopGrace => "stop-grace",
            Self::Keepalive => "keepalive",
            Self::AutoRestart => "auto-restart",
            Self::OnExpiry => "on-expiry",
            Self::Insecure => "insecure",
            Self::Cacert => "cacert",
            Self::Proxy => "proxy",
            Self::McpVersion => "mcp-version",
            Self::Roots => "roots",
            Self::SamplingCommand => "sampling-command",
            Self::LogLevel => "log-level",
        }
    }

    /// The member of entries, of the user's defaults and of `--json`.
    #[must_use]
    pub const fn member(self) -> &'static str {
        match self {
            Self::IdleTimeout => "idleTimeoutSecs",
            Self::Timeout => "timeoutSecs",
            Self::MaxTimeout => "maxTimeoutSecs",
            Self::ConnectTimeout => "connectTimeoutSecs",
            Self::StopGrace => "stopGraceSecs",
            Self::Keepalive => "keepaliveSecs",
            Self::AutoRestart => "autoRestart",
            Self::OnExpiry => "onExpiry",
            Self::Insecure => "insecure",
            Self::Cacert => "cacert",
            Self::Proxy => "proxy",
            Self::McpVersion => "mcpVersion",
            Self::Roots => "roots",
            Self::SamplingCommand => "samplingCommand",
            Self::LogLevel => "logLevel",
        }
    }

    /// The setting that a word names: by its name, or by its member in files.
    #[must_use]
    pub fn from_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.name() == word || setting.member() == word)
    }

    /// The name that was probably meant.
    #[must_use]
    pub fn similar(word: &str) -> Option<&'static str> {
        nearest(word, Self::ALL.into_iter().map(Self::name))
    }

    /// Whether a server that runs goes by a change at once; the others are for its next start.
    #[must_use]
    pub const fn is_live(self) -> bool {
        !matches!(
            self,
            Self::Insecure
                | Self::Cacert
                | Self::Proxy
                | Self::McpVersion
                | Self::Roots
                | Self::SamplingCommand
        )
    }

    /// Whether only servers behind URLs have it.
    #[must_use]
    pub const fn is_for_urls(self) -> bool {
        matches!(self, Self::Insecure | Self::Cacert | Self::Proxy)
    }

    /// Whether a user can have a default of it for all sessions. What is about one server, or would make all of them
    /// less safe, has none.
    #[must_use]
    pub const fn has_user_default(self) -> bool {
        !matches!(self, Self::Insecure | Self::McpVersion | Self::LogLevel)
    }

    /// What it must be, for people.
    #[must_use]
    pub const fn want(self) -> &'static str {
        match self {
            Self::IdleTimeout | Self::Keepalive => "a number of seconds, or 90s, 10m, 2h, 1d; 0 means never",
            Self::Timeout | Self::MaxTimeout | Self::ConnectTimeout | Self::StopGrace => {
                "a positive number of seconds, or 90s, 5m"
            }
            Self::AutoRestart | Self::Insecure => "on or off",
            Self::OnExpiry => "fresh or fail",
            Self::Cacert => "the path of a PEM file",
            Self::Proxy => "the URL of a proxy, http://host:port",
            Self::McpVersion => "legacy, modern, or a revision from 2024-11-05 to 2026-07-28",
            Self::Roots => "a directory or a file:///… URI, or a JSON list of them",
            Self::SamplingCommand => "a shell command; an empty one is none",
            Self::LogLevel => "debug, info, notice, warning, error, critical, alert or emergency",
        }
    }

    /// Reads it as people type it. A path is relative to `base`. The answer has this setting and no other.
    ///
    /// # Errors
    /// If it is none; what is wrong, where more can be said than [`Setting::want`] does.
    pub fn parse(self, typed: &str, base: &Path) -> Result<Settings, Option<String>> {
        let mut set = Settings::default();
        if typed.contains('\0') {
            return Err(None);
        }
        let period = || seconds(typed).filter(|secs| *secs <= MAX_SECONDS).ok_or(None);
        let limit = || period().and_then(|secs| if secs > 0 { Ok(secs * 1000) } else { Err(None) });
        let switch = || match typed {
            "on" | "true" | "yes" => Ok(true),
            "off" | "false" | "no" => Ok(false),
            _ => Err(None),
        };
        match self {
            Self::IdleTimeout => set.idle_timeout_secs = Some(period()?),
            Self::Keepalive => set.keepalive_secs = Some(period()?),
            Self::Timeout => set.timeout_ms = Some(limit()?),
            Self::MaxTimeout => set.max_timeout_ms = Some(limit()?),
            Self::ConnectTimeout => set.connect_timeout_ms = Some(limit()?),
            Self::StopGrace => set.stop_grace_ms = Some(limit()?),
            Self::AutoRestart => set.auto_restart = Some(switch()?),
            Self::Insecure => set.insecure = Some(switch()?),
            Self::OnExpiry => set.on_expiry = Some(OnExpiry::from_name(typed).ok_or(None)?),
            Self::Cacert if typed.is_empty() => return Err(None),
            Self::Cacert => set.cacert = Some(base.join(typed)),
            Self::Proxy => {
                check_proxy(typed).map_err(|error| Some(error.to_string()))?;
                set.proxy = Some(typed.to_owned());
            }
            Self::McpVersion => {
                Pin::from_name(typed).ok_or(None)?;
                set.mcp_version = Some(typed.to_owned());
            }
            Self::Roots => set.roots = Some(roots(typed, base)?),
            Self::SamplingCommand => set.sampling_command = Some(typed.to_owned()),
            Self::LogLevel => {
                set.log_level = Some(Level::from_name(typed).ok_or(None)?.name().to_owned());
            }
        }
        Ok(set)
    }

    /// Reads it from a file of JSON. A path is relative to `base`. The answer has this setting and no other.
    ///
    /// # Errors
    /// As [`Setting::parse`].
    pub fn read(self, value: &Value, base: &Path) -> Result<Settings, Option<String>> {
        match value {
            Value::String(text) => self.parse(text, base),
            Value::Bool(on) if matches!(self, Self::AutoRestart | Self::Insecure) => {
                self.parse(if *on { "on" } else { "off" }, base)
            }
            Value::Number(number) => self.parse(&number.to_string(), base),
            Value::Array(_) if self == Self::Roots => self.parse(&value.to_string(), base),
            _ => Err(None),
        }
    }

    /// Its value as `--json` and files have it, if it is set.
    #[must_use]
    pub fn value(self, settings: &Settings) -> Option<Value> {
        let secs =
            |ms: u64| if ms.is_multiple_of(1000) { json!(ms / 1000) } else { json!(ms as f64 / 1000.0) };
        match self {
            Self::IdleTimeout => settings.idle_timeout_secs.map(Value::from),
            Self::Timeout => settings.timeout_ms.map(secs),
            Self::MaxTimeout => settings.max_timeout_ms.map(secs),
            Self::ConnectTimeout => settings.connect_timeout_ms.map(secs),
            Self::StopGrace => settings.stop_grace_ms.map(secs),
            Self::Keepalive => settings.keepalive_secs.map(Value::from),
            Self::AutoRestart => settings.auto_restart.map(Value::from),
            Self::OnExpiry => settings.on_expiry.map(|choice| choice.as_str().into()),
            Self::Insecure => settings.insecure.map(Value::from),
            Self::Cacert => settings.cacert.as_ref().map(|path| path.to_string_lossy().into()),
            Self::Proxy => settings.proxy.as_deref().map(Value::from),
            Self::McpVersion => settings.mcp_version.as_deref().map(Value::from),
            Self::Roots => settings.roots.as_ref().map(|roots| json!(roots)),
            Self::SamplingCommand => settings.sampling_command.as_deref().map(Value::from),
            Self::LogLevel => settings.log_level.as_deref().map(Value::from),
        }
    }

    /// What holds where nothing is set, as [`Setting::value`]; null: nothing.
    #[must_use]
    pub fn built_in(self) -> Value {
        match self {
            Self::IdleTimeout => json!(0),
            Self::Timeout => json!(DEFAULT_TIMEOUT_MS / 1000),
            Self::MaxTimeout => json!(DEFAULT_MAX_TIMEOUT_MS / 1000),
            Self::ConnectTimeout => json!(DEFAULT_CONNECT_TIMEOUT_MS / 1000),
            Self::StopGrace => json!(DEFAULT_STOP_GRACE_MS / 1000),
            Self::AutoRestart | Self::Insecure => json!(false),
            Self::OnExpiry => json!(OnExpiry::Fresh.as_str()),
            // 30 s for servers with a session over HTTP, else none.
            Self::Keepalive => Value::Null,
            Self::Cacert
            | Self::Proxy
            | Self::McpVersion
            | Self::Roots
            | Self::SamplingCommand
            | Self::LogLevel => Value::Null,
        }
    }

    /// A value of [`Setting::value`] or [`Setting::built_in`] for people; where it is a period, it can be typed again.
    #[must_use]
    pub fn show(self, value: &Value) -> String {
        match (self, value) {
            (Self::IdleTimeout | Self::Keepalive, value) if *value == json!(0) => "never".to_owned(),
            (Self::Keepalive, Value::Null) => "30s with a session over HTTP, else never".to_owned(),
            (Self::McpVersion, Value::Null) => "negotiated".to_owned(),
            (Self::Proxy, Value::Null) => "the environment's".to_owned(),
            (Self::LogLevel, Value::Null) => "what the server gives by itself".to_owned(),
            (_, Value::Null) => "none".to_owned(),
            (_, Value::Bool(on)) => if *on { "on" } else { "off" }.to_owned(),
            (_, Value::Number(number)) => {
                number.as_u64().map_or_else(|| format!("{number}s"), crate::config::period)
            }
            (_, Value::Array(items)) if items.is_empty() => "none".to_owned(),
            (_, Value::Array(items)) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            (_, Value::String(text)) if text.is_empty() => "none".to_owned(),
            (_, Value::String(text)) => text.clone(),
            (_, Value::Object(_)) => value.to_string(),
        }
    }

    /// Gives `to` the value that `from` has, or none.
    pub fn copy(self, from: &Settings, to: &mut Settings) {
        match self {
            Self::IdleTimeout => to.idle_timeout_secs = from.idle_timeout_secs,
            Self::Timeout => to.timeout_ms = from.timeout_ms,
            Self::MaxTimeout => to.max_timeout_ms = from.max_timeout_ms,
            Self::ConnectTimeout => to.connect_timeout_ms = from.connect_timeout_ms,
            Self::StopGrace => to.stop_grace_ms = from.stop_grace_ms,
            Self::Keepalive => to.keepalive_secs = from.keepalive_secs,
            Self::AutoRestart => to.auto_restart = from.auto_restart,
            Self::OnExpiry => to.on_expiry = from.on_expiry,
            Self::Insecure => to.insecure = from.insecure,
            Self::Cacert => to.cacert.clone_from(&from.cacert),
            Self::Proxy => to.proxy.clone_from(&from.proxy),
            Self::McpVersion => to.mcp_version.clone_from(&from.mcp_version),
            Self::Roots => to.roots.clone_from(&from.roots),
            Self::SamplingCommand => to.sampling_command.clone_from(&from.sampling_command),
            Self::LogLevel => to.log_level.clone_from(&from.log_level),
        }
    }

    /// Those in which two differ.
    pub fn differing(one: &Settings, other: &Settings) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|setting| setting.value(one) != setting.value(other))
    }
}

/// One root, a JSON list of them, or none.
fn roots(typed: &str, base: &Path) -> Result<Vec<String>, Option<String>> {
    if typed.is_empty() {
        return Ok(Vec::new());
    }
    let listed: Vec<String> = if typed.starts_with('[') {
        serde_json::from_str(typed).map_err(|_| None)?
    } else {
        vec![typed.to_owned()]
    };
    let uri = |root: &String| match root.strip_prefix("file://") {
        Some(path) if path.starts_with('/') => Ok(root.clone()),
        Some(_) => Err(None),
        None => root_uri(&base.join(root)).map_err(|error| Some(format!("{root}: {error}"))),
    };
    listed.iter().filter(|root| !root.is_empty()).map(uri).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(setting: Setting, typed: &str) -> Result<Settings, Option<String>> {
        setting.parse(typed, Path::new("/base"))
    }

    #[test]
    fn each_is_read_as_it_is_shown_and_as_it_is_kept() {
        for (setting, typed, value) in [
            (Setting::IdleTimeout, "10m", json!(600)),
            (Setting::IdleTimeout, "0", json!(0)),
            (Setting::Timeout, "90", json!(90)),
            (Setting::MaxTimeout, "2h", json!(7200)),
            (Setting::ConnectTimeout, "5s", json!(5)),
            (Setting::StopGrace, "1", json!(1)),
            (Setting::Keepalive, "0", json!(0)),
            (Setting::AutoRestart, "on", json!(true)),
            (Setting::AutoRestart, "false", json!(false)),
            (Setting::OnExpiry, "fail", json!("fail")),
            (Setting::Insecure, "yes", json!(true)),
            (Setting::Cacert, "ca.pem", json!("/base/ca.pem")),
            (Setting::Proxy, "http://p:1", json!("http://p:1")),
            (Setting::McpVersion, "legacy", json!("legacy")),
            (Setting::Roots, "file:///x", json!(["file:///x"])),
            (Setting::Roots, "", json!([])),
            (Setting::SamplingCommand, "llm --x", json!("llm --x")),
            (Setting::LogLevel, "error", json!("error")),
        ] {
            let read = parse(setting, typed).unwrap();
            assert_eq!(setting.value(&read), Some(value.clone()), "{typed}");
            assert_eq!(Setting::differing(&read, &Settings::default()).collect::<Vec<_>>(), [setting]);
            assert_eq!(setting.read(&value, Path::new("/base")).as_ref(), Ok(&read), "{value}");
            let mut copy = Settings::default();
            setting.copy(&read, &mut copy);
            assert_eq!(copy, read);
            setting.copy(&Settings::default(), &mut copy);
            assert_eq!(copy, Settings::default());
            if let (Value::Number(number), shown) = (&value, setting.show(&value))
                && number.as_u64() != Some(0)
            {
                assert_eq!(parse(setting, &shown).as_ref(), Ok(&read), "{shown}");
            }
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for (setting, typed) in [
            (Setting::IdleTimeout, "-1"),
            (Setting::IdleTimeout, "soon"),
            (Setting::IdleTimeout, "99999999999"),
            (Setting::Timeout, "0"),
            (Setting::StopGrace, "0"),
            (Setting::Keepalive, "1.5"),
            (Setting::AutoRestart, "maybe"),
            (Setting::OnExpiry, "later"),
            (Setting::Cacert, ""),
            (Setting::Proxy, "not a url"),
            (Setting::McpVersion, "2023-01-01"),
            (Setting::Roots, "file://x"),
            (Setting::Roots, "[1]"),
            (Setting::LogLevel, "loud"),
            (Setting::SamplingCommand, "a\0b"),
        ] {
            assert!(parse(setting, typed).is_err(), "{} {typed}", setting.name());
        }
        for value in [json!(null), json!({}), json!(true), json!(-1)] {
            assert!(Setting::IdleTimeout.read(&value, Path::new("/")).is_err(), "{value}");
        }
    }

    #[test]
    fn names_lead_back() {
        for setting in Setting::ALL {
            assert_eq!(Setting::from_name(setting.name()), Some(setting));
            assert_eq!(Setting::from_name(setting.member()), Some(setting));
            let _ = setting.show(&setting.built_in());
        }
        assert_eq!(Setting::from_name("idle"), None);
        assert_eq!(Setting::similar("idle-time"), Some("idle-timeout"));
    }
}
