//! What callers and bridges say to each other, as types: the hello, GOAWAY, the vendor methods, the
//! error data, and the documents that a bridge is started with.
//!
//! This module never reads or writes a socket. Payloads of MCP itself are not modelled here: they stay
//! bytes on both sides.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::life::{Errors, Latency};
use crate::record::{DEFAULT_STOP_GRACE_MS, DEFAULT_TIMEOUT_MS, EraMemory, Settings};
use crate::share::Sharing;

/// The hello versions that this build speaks, best first.
pub const HELLO_VERSIONS: &[u32] = &[1];
/// The protocol version of every request on the socket after the hello.
pub const PROTOCOL_VERSION: &str = "2026-07-28";
/// `_meta` key: the time-out of this one request, in milliseconds.
pub const META_TIMEOUT: &str = "dev.drowse/timeoutMs";
/// `_meta` key of `logging/setLevel`: it is for now only, and the next server is told nothing.
pub const META_FORGET: &str = drowse_core::message::META_FORGET;
/// The method of the notification by which a bridge ends a connection.
pub const GOAWAY: &str = "notifications/drowse/goaway";
/// The method of the notification that the server had ended the session, or itself (params [`Renewed`]), and that the
/// answers that follow are of a fresh one.
pub const RENEWED: &str = "notifications/drowse/renewed";
/// The method of the notification that the server asked something during a request of this connection, and that it was
/// refused because the request does not declare that it can be asked; params [`Unasked`].
pub const UNASKED: &str = "notifications/drowse/unasked";
/// Asks for the server's own handshake. Starts a sleeping server and counts as use.
pub const METHOD_INFO: &str = "drowse/info";
/// A round trip to the server. Starts a sleeping server and counts as use.
pub const METHOD_PING: &str = "drowse/ping";
/// Asks how the bridge is. Neither starts nor counts.
pub const METHOD_STATUS: &str = "drowse/status";
/// Keeps the server otherwise from now on, params [`Keep`]. Neither starts nor counts.
pub const METHOD_SET: &str = "drowse/set";
/// Whether what the server offers is saved in the session's snapshot; the answer may come when it is. Neither starts nor
/// counts.
pub const METHOD_SNAPSHOT: &str = "drowse/snapshot";
/// Ends the server's tree and then the bridge. Neither starts nor counts.
pub const METHOD_CLOSE: &str = "drowse/close";
/// Keeps a file equal to a resource, params [`FileSync`]; answered when it is so for the first time. Starts a sleeping
/// server, counts as use, and then keeps the server awake.
pub const METHOD_SYNC: &str = "drowse/sync";
/// Ends what [`METHOD_SYNC`] began for a resource (`uri`), or for one `file` of it. Neither starts nor counts.
pub const METHOD_UNSYNC: &str = "drowse/unsync";
/// The variable that every process of a server carries; its value is the generation's marker.
pub const GENERATION_VARIABLE: &str = "DROWSE_GENERATION";
/// The largest message that is passed on, in bytes.
pub const MAX_MESSAGE: usize = 64 << 20;
/// Room for what drowse adds to a message of [`MAX_MESSAGE`] bytes.
pub const MESSAGE_SLACK: usize = 64 << 10;

/// The one member of every line that is about drowse and not about MCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope<T> {
    /// What is said.
    pub drowse: T,
}

/// A caller's first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerHello {
    /// The hello itself.
    pub hello: Hello,
}

/// What a caller says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The hello versions that the caller speaks.
    pub versions: Vec<u32>,
    /// Whose view this is; absent means this connection's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The caller's drowse version.
    pub client: String,
    /// Whether results come exactly as the server sent them, without `resultType` or `ttlMs` supplied.
    #[serde(default)]
    pub verbatim: bool,
}

impl Hello {
    /// The hello of this build.
    #[must_use]
    pub fn ours(principal: Option<String>, verbatim: bool) -> Self {
        Self {
            versions: HELLO_VERSIONS.to_vec(),
            principal,
            client: env!("CARGO_PKG_VERSION").to_owned(),
            verbatim,
        }
    }
}

/// A bridge's first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BridgeHello {
    /// The bridge takes requests.
    Hello(Welcome),
    /// The bridge takes nothing and closes.
    Refused(Refused),
}

/// A bridge that takes requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The chosen hello version.
    pub version: u32,
    /// The bridge's drowse version.
    pub bridge: String,
    /// The bridge's process, for people to read. Never signalled by this number alone.
    pub pid: u32,
}

/// A bridge that shares no hello version with the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The versions that the bridge speaks.
    pub versions: Vec<u32>,
    /// For people.
    pub reason: String,
    /// Operations in flight, where the bridge says so: a bridge with none may be replaced.
    #[serde(default, rename = "inFlight", skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u64>,
}

/// Params of [`GOAWAY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goaway {
    /// How many requests the bridge had read on this connection. Requests after that many never ran.
    pub last: u64,
}

/// Result of [`METHOD_STATUS`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The public state word.
    pub state: String,
    /// The generation that runs, or ran last.
    pub generation: u64,
    /// The server's process, if one runs.
    pub server_pid: Option<u32>,
    /// Operations in flight.
    pub in_flight: u64,
    /// Milliseconds until the server is let go, if a deadline stands.
    pub idle_in_ms: Option<u64>,
    /// The resources whose updates somebody hears of: they keep the server awake.
    #[serde(default)]
    pub subscriptions: Vec<String>,
    /// The files that are kept equal to resources.
    #[serde(default)]
    pub syncs: Vec<SyncStatus>,
    /// What keeps the server awake, for people: each can stand after "kept awake by".
    #[serde(default, rename = "deferredBy")]
    pub deferred_by: Vec<String>,
    /// What was counted in the awake period that lasts.
    #[serde(default)]
    pub tally: Option<Tally>,
}

/// What a bridge counted and has not written down.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tally {
    /// When the awake period began, in milliseconds since 1970.
    pub since: Option<u64>,
    /// Operations that ended in it.
    pub calls: u64,
    /// Those that did not end with a result.
    pub errors: Errors,
    /// How often the server became ready since the bridge was started.
    pub wakes: u32,
    /// How often it fell asleep since then.
    pub sleeps: u32,
    /// Half of the operations took no longer, in milliseconds, wake-ups included (see [`Histogram`] for how true that
    /// is).
    ///
    /// [`Histogram`]: drowse_core::tally::Histogram
    pub p50_ms: Option<f64>,
    /// 95 in a hundred took no longer.
    pub p95_ms: Option<f64>,
    /// The longest.
    pub max_ms: Option<f64>,
    /// All of them.
    pub latency: Latency,
}

/// Result of [`METHOD_SNAPSHOT`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotStatus {
    /// The generation whose offers are in the session's snapshot, all that were to be gathered, if they are.
    #[serde(default)]
    pub generation: Option<u64>,
    /// When they were complete, in milliseconds since 1970.
    #[serde(default)]
    pub taken: Option<u64>,
    /// The lists of them that could not be read to their end.
    #[serde(default)]
    pub incomplete: Vec<String>,
    /// Why there is none of the server that runs, or ran last.
    #[serde(default)]
    pub why: Option<String>,
}

/// A file that is kept equal to a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSync {
    /// The resource.
    pub uri: String,
    /// The file, absolute.
    pub file: PathBuf,
}

/// How a file stands to the resource that it is to be equal to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncStatus {
    /// What is wanted.
    #[serde(flatten)]
    pub sync: FileSync,
    /// When the file was written last by this bridge, in milliseconds since 1970.
    #[serde(default)]
    pub written: Option<u64>,
    /// Why it is not equal.
    #[serde(default)]
    pub error: Option<String>,
}

/// Whether a failed operation may have run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ran {
    /// It never ran: it is safe to issue it again.
    No,
    /// It may have run.
    Unknown,
}

impl Ran {
    /// The word used on the wire and in `--json`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The stable word for why something failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// The request's time-out passed.
    Timeout,
    /// Somebody cancelled the request.
    Cancelled,
    /// The server went away during the request.
    ServerLost,
    /// The server could not be started.
    StartFailed,
    /// The server crashed lately; it is not started before the back-off ends.
    BackingOff,
    /// The session is being closed.
    ShuttingDown,
    /// A message over the limit.
    TooLarge,
    /// Too many operations at once.
    Busy,
    /// The request is malformed.
    InvalidRequest,
    /// The server or this build does not do that.
    Unsupported,
    /// The server's answer is no message.
    InvalidAnswer,
    /// The state could not be written, so the server was not started.
    NotPersisted,
    /// Processes of the last server cannot be ended.
    Unkillable,
    /// The server refused the credentials.
    Unauthorized,
    /// The server ended the session.
    Expired,
    /// An error of the server's own (said by the caller, never by a bridge).
    ServerError,
    /// The bridge went away during the request (said by the caller, never by a bridge).
    BridgeLost,
    /// Ctrl-C (said by the caller, never by a bridge).
    Interrupted,
    /// No session of that name (said by the caller).
    NoSession,
    /// The name is taken by a session with another target (said by the caller).
    NameTaken,
    /// A configuration file or entry cannot be used (said by the caller).
    Config,
    /// Files, locks or sockets cannot be used (said by the caller).
    Storage,
    /// The server cannot be reached, or the connection to it broke.
    Network,
    /// The server answered with an HTTP status that is no answer.
    Http,
    /// The address at which the session is to be shared cannot be had.
    NotShared,
    /// The server was replaced by a fresh one during the request (said by the dev proxy).
    Restarted,
    /// The server does not run yet, and the request may not wait for it (said by the dev proxy).
    NotReady,
    /// A word that this build does not know.
    #[serde(other)]
    Unknown,
}

impl Kind {
    /// The word used on the wire and in `--json`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::ServerLost => "server-lost",
            Self::StartFailed => "start-failed",
            Self::BackingOff => "backing-off",
            Self::ShuttingDown => "shutting-down",
            Self::TooLarge => "too-large",
            Self::Busy => "busy",
            Self::InvalidRequest => "invalid-request",
            Self::Unsupported => "unsupported",
            Self::InvalidAnswer => "invalid-answer",
            Self::NotPersisted => "not-persisted",
            Self::Unkillable => "unkillable",
            Self::Unauthorized => "unauthorized",
            Self::Expired => "expired",
            Self::ServerError => "server-error",
            Self::BridgeLost => "bridge-lost",
            Self::Interrupted => "interrupted",
            Self::NoSession => "no-session",
            Self::Network => "network",
            Self::Http => "http",
            Self::NotShared => "not-shared",
            Self::Restarted => "restarted",
            Self::NotReady => "not-ready",
            Self::NameTaken => "name-taken",
            Self::Config => "config",
            Self::Storage => "storage",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `data` of an error that drowse made: `{"drowse": {"kind": …, "ran": …}}`. An error without it is the
/// server's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorData {
    /// Why.
    pub kind: Kind,
    /// Whether the operation may have run.
    pub ran: Ran,
    /// With `backing-off`: when a start is tried again, in milliseconds since 1970.
    #[serde(default, rename = "retryAt", skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<u64>,
    /// With `start-failed` and `server-lost`: the last lines of the server's stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// With `too-large`: the limit in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

impl ErrorData {
    /// Kind and ran, nothing else.
    #[must_use]
    pub fn new(kind: Kind, ran: Ran) -> Self {
        Self { kind, ran, retry_at: None, stderr: None, limit: None }
    }
}

/// The one document that a bridge reads on its stdin. It holds secrets: never an argument, never on disk.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BridgeConfig {
    /// The session's name.
    pub session: String,
    /// The home directory.
    pub home: PathBuf,
    /// The directory for locks and sockets, where it is not the home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<PathBuf>,
    /// The program, expanded.
    pub command: String,
    /// Its arguments, expanded.
    pub args: Vec<String>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its whole environment, save [`GENERATION_VARIABLE`].
    pub env: Vec<(String, String)>,
    /// Seconds without use after which the server is let go; 0 is never.
    pub idle_timeout_secs: u64,
    /// A request's time-out unless it brings its own, reset by progress.
    pub timeout_ms: u64,
    /// A request's time-out whatever the progress.
    pub max_timeout_ms: u64,
    /// The limit for starting and negotiating.
    pub connect_timeout_ms: u64,
    /// How long a server may take to exit after EOF on its stdin, and again after TERM.
    pub stop_grace_ms: u64,
    /// Seconds between keepalive pings; 0 is none, and so is absent save for a server with a session over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive_secs: Option<u64>,
    /// Whether a crashed or expired server is started again in the background.
    #[serde(default)]
    pub auto_restart: bool,
    /// Whether an expired session fails, rather than being replaced by a fresh one.
    #[serde(default)]
    pub fail_on_expiry: bool,
    /// The server's address, if it is one behind a URL: `command`, `args` and `cwd` then mean nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Remote>,
    /// A revision (`2025-06-18`) or an era (`legacy`, `modern`) that the entry pins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_version: Option<String>,
    /// The roots that the server may ask for, `file://` URIs; if there is none, it is not offered any.
    #[serde(default)]
    pub roots: Vec<String>,
    /// How much of the server's log is wanted (`warning`); absent: what the server gives by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<String>,
    /// Whether callers can ask a language model for the server.
    #[serde(default)]
    pub sampling: bool,
    /// The number of the inherited descriptor of lock L.
    pub lock_fd: i32,
    /// The generation in `state.json` when the bridge was started; the bridge's first is one more.
    pub generation: u64,
    /// What the last generation's negotiation found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub era: Option<EraMemory>,
    /// When the server crashed lately, in milliseconds since 1970, oldest first.
    #[serde(default)]
    pub crashes: Vec<u64>,
    /// The files to keep equal to resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub syncs: Vec<FileSync>,
    /// How it is shared over HTTP, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Sharing>,
    /// Nobody wants the server so far: it is only shared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub listen: bool,
    /// What is run and with which credentials, as a hash: see [`crate::identity`].
    #[serde(default)]
    pub identity: String,
    /// Whether the server ended the last generation's session.
    #[serde(default)]
    pub expired: bool,
    /// Whether the last generation's server ended by itself, and with it what it kept; nobody was told so far.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
}

/// The params of [`RENEWED`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Renewed {
    /// The server ended by itself. Otherwise it ended the session.
    #[serde(default)]
    pub ended: bool,
}

/// The params of [`UNASKED`]: what the server asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Unasked {
    /// The server's request.
    pub method: String,
    /// What the user would have been shown, at most its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The address that the user was to visit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The params of [`METHOD_SET`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// All of it, whether or not it is new: so that the last one holds, whatever was lost.
    pub settings: BridgeSettings,
    /// The log level that is wanted from now on (`none`: as much as the server gives by itself); absent: as it was.
    #[serde(default, rename = "logLevel", skip_serializing_if = "Option::is_none")]
    pub log_level: Option<String>,
    /// Whether and how the session is shared from now on; absent: as it was. One that knows of it answers with `sharedAt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Reshare>,
}

/// How a session is shared from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reshare {
    /// How; absent: no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Sharing>,
}

/// The settings that a bridge can change while its server runs. See [`BridgeConfig`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BridgeSettings {
    /// [`BridgeConfig::idle_timeout_secs`]
    pub idle_timeout_secs: u64,
    /// [`BridgeConfig::timeout_ms`]
    pub timeout_ms: u64,
    /// [`BridgeConfig::max_timeout_ms`]
    pub max_timeout_ms: u64,
    /// [`BridgeConfig::connect_timeout_ms`]
    pub connect_timeout_ms: u64,
    /// [`BridgeConfig::stop_grace_ms`]
    pub stop_grace_ms: u64,
    /// [`BridgeConfig::keepalive_secs`]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive_secs: Option<u64>,
    /// [`BridgeConfig::auto_restart`]
    #[serde(default)]
    pub auto_restart: bool,
    /// [`BridgeConfig::fail_on_expiry`]
    #[serde(default)]
    pub fail_on_expiry: bool,
}

impl BridgeSettings {
    /// What a bridge is told of a session's settings.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self {
            idle_timeout_secs: settings.idle_timeout_secs.unwrap_or(0),
            timeout_ms: settings.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS),
            max_timeout_ms: millis(settings.max_timeout()),
            connect_timeout_ms: millis(settings.connect_timeout()),
            stop_grace_ms: settings.stop_grace_ms.unwrap_or(DEFAULT_STOP_GRACE_MS),
            keepalive_secs: settings.keepalive_secs,
            auto_restart: settings.auto_restart.unwrap_or(false),
            fail_on_expiry: settings.fails_on_expiry(),
        }
    }
}

impl BridgeConfig {
    /// The part of it that can be changed later.
    #[must_use]
    pub fn settings(&self) -> BridgeSettings {
        BridgeSettings {
            idle_timeout_secs: self.idle_timeout_secs,
            timeout_ms: self.timeout_ms,
            max_timeout_ms: self.max_timeout_ms,
            connect_timeout_ms: self.connect_timeout_ms,
            stop_grace_ms: self.stop_grace_ms,
            keepalive_secs: self.keepalive_secs,
            auto_restart: self.auto_restart,
            fail_on_expiry: self.fail_on_expiry,
        }
    }
}

/// A server behind a URL.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    /// Where it is, expanded: `http://` or `https://`.
    pub url: String,
    /// Headers that go with every request to it, expanded, in order; a name may come more than once.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// Whether any certificate is accepted.
    #[serde(default)]
    pub insecure: bool,
    /// A PEM file with certificate authorities to trust beside the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cacert: Option<PathBuf>,
    /// The proxy to use, instead of those that the environment names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
}

impl fmt::Debug for Remote {
    /// Without headers, and without what a URL may hold: they are secrets as often as not.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("insecure", &self.insecure).finish_non_exhaustive()
    }
}

impl fmt::Debug for BridgeConfig {
    /// Without arguments and environment values: they may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BridgeConfig")
            .field("session", &self.session)
            .field("command", &self.command)
            .field("cwd", &self.cwd)
            .field("idle_timeout_secs", &self.idle_timeout_secs)
            .field("lock_fd", &self.lock_fd)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

/// The one line that a starting bridge writes to its stdout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StartReport {
    /// The server answers; the bridge has closed its copy of L.
    Ready(Ready),
    /// No server; the bridge exits.
    Failed(Failed),
}

/// A bridge that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The bridge's process.
    pub pid: u32,
}

/// A bridge that could not start its server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Why, as a word: `start-failed`, `timeout`, …
    pub kind: Kind,
    /// Why, for people.
    pub message: String,
    /// The last lines of the server's stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_of_the_core_has_a_word_here() {
        for cause in drowse_core::link::Cause::ALL {
            let kind: Kind = serde_json::from_value(cause.kind().into()).unwrap();
            assert_ne!(kind, Kind::Unknown, "{cause:?}");
            assert_eq!(kind.as_str(), cause.kind());
        }
    }
}
