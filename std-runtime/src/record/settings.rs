//! The settings of a session: what was set, and what holds where nothing was.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Settings of a session; an absent one has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// Seconds without use before the server is let go. 0 is never, and differs from absent only in that
    /// it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_secs: Option<u64>,
    /// A request's time-out in milliseconds, reset by progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// A request's time-out in milliseconds whatever the progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_timeout_ms: Option<u64>,
    /// The limit for starting and negotiating, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_timeout_ms: Option<u64>,
    /// How long a server may take to exit after EOF, and again after TERM, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_grace_ms: Option<u64>,
    /// Seconds between keepalive pings; 0 is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive_secs: Option<u64>,
    /// Whether a crashed or expired server is started again in the background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_restart: Option<bool>,
    /// What to do when a server has ended the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<OnExpiry>,
    /// For servers behind URLs: whether any certificate is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure: Option<bool>,
    /// For servers behind URLs: a PEM file of certificate authorities to trust beside the system's. Absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cacert: Option<PathBuf>,
    /// For servers behind URLs: the proxy to use, instead of those that the environment names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// A pinned revision or era.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_version: Option<String>,
    /// The roots that the server is told of when it asks, `file://` URIs. If there is none, it is not offered any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<Vec<String>>,
    /// The shell command that asks a language model for the server; empty is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling_command: Option<String>,
    /// How much of the server's log is wanted (`warning`); absent: what the server gives by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<String>,
}

/// What to do when a server has ended the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnExpiry {
    /// The next operation begins a fresh one. The default.
    Fresh,
    /// Operations fail until a restart, as the state at the server's side is gone.
    Fail,
}

impl OnExpiry {
    /// The word of the command line, of entries and of `--json`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Fail => "fail",
        }
    }

    /// Of a word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Fresh, Self::Fail].into_iter().find(|choice| choice.as_str() == name)
    }
}

/// Default of [`Settings::timeout_ms`].
pub const DEFAULT_TIMEOUT_MS: u64 = 300_000;
/// Default of [`Settings::max_timeout_ms`].
pub const DEFAULT_MAX_TIMEOUT_MS: u64 = 3_600_000;
/// Default of [`Settings::connect_timeout_ms`].
pub const DEFAULT_CONNECT_TIMEOUT_MS: u64 = 60_000;
/// Default of [`Settings::stop_grace_ms`].
pub const DEFAULT_STOP_GRACE_MS: u64 = 2_000;

impl Settings {
    /// These settings, where set; else those of `base`.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        Self {
            idle_timeout_secs: self.idle_timeout_secs.or(base.idle_timeout_secs),
            timeout_ms: self.timeout_ms.or(base.timeout_ms),
            max_timeout_ms: self.max_timeout_ms.or(base.max_timeout_ms),
            connect_timeout_ms: self.connect_timeout_ms.or(base.connect_timeout_ms),
            stop_grace_ms: self.stop_grace_ms.or(base.stop_grace_ms),
            keepalive_secs: self.keepalive_secs.or(base.keepalive_secs),
            auto_restart: self.auto_restart.or(base.auto_restart),
            on_expiry: self.on_expiry.or(base.on_expiry),
            insecure: self.insecure.or(base.insecure),
            cacert: self.cacert.or(base.cacert),
            proxy: self.proxy.or(base.proxy),
            mcp_version: self.mcp_version.or(base.mcp_version),
            roots: self.roots.or(base.roots),
            sampling_command: self.sampling_command.or(base.sampling_command),
            log_level: self.log_level.or(base.log_level),
        }
    }

    /// The flag of a setting that only servers behind URLs have, if one is set.
    #[must_use]
    pub fn only_for_urls(&self) -> Option<&'static str> {
        match self {
            Self { insecure: Some(true), .. } => Some("--insecure"),
            Self { cacert: Some(_), .. } => Some("--cacert"),
            Self { proxy: Some(_), .. } => Some("--proxy"),
            _ => None,
        }
    }

    /// The same without the settings that only servers behind URLs have.
    #[must_use]
    pub fn without_those_for_urls(self) -> Self {
        Self { insecure: None, cacert: None, proxy: None, ..self }
    }

    /// Whether an expired session is not to be replaced by a fresh one.
    #[must_use]
    pub fn fails_on_expiry(&self) -> bool {
        self.on_expiry == Some(OnExpiry::Fail)
    }

    /// The limit for starting and negotiating.
    #[must_use]
    pub fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms.unwrap_or(DEFAULT_CONNECT_TIMEOUT_MS))
    }

    /// A request's time-out whatever the progress.
    #[must_use]
    pub fn max_timeout(&self) -> Duration {
        Duration::from_millis(self.max_timeout_ms.unwrap_or(DEFAULT_MAX_TIMEOUT_MS))
    }

    /// How long stopping a server's tree may take: once after EOF, once after TERM.
    #[must_use]
    pub fn stop_limit(&self) -> Duration {
        let once = self.stop_grace_ms.unwrap_or(DEFAULT_STOP_GRACE_MS);
        Duration::from_millis(once.saturating_mul(2))
    }
}
