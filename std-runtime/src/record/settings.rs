//! The settings of a session: what was set, and what holds where nothing was.

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
    /// A pinned revision or era.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_version: Option<String>,
    /// The roots that the server is told of when it asks, `file://` URIs. If there is none, it is not offered any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<Vec<String>>,
    /// The shell command that asks a language model for the server; empty is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling_command: Option<String>,
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
            mcp_version: self.mcp_version.or(base.mcp_version),
            roots: self.roots.or(base.roots),
            sampling_command: self.sampling_command.or(base.sampling_command),
        }
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
