//! The `_meta` of a request: which era it belongs to and what it asks for beside its parameters.
//! Reads and checks; remembers nothing.

use serde_json::{Value, json};

use super::rpc::{self, Failure, Object};
use super::server::MODERN;

pub(super) const PROTOCOL_VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(super) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub(super) const CLIENT_INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";
pub(super) const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
pub(super) const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";
pub(super) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// From the least to the most severe.
pub(super) const LOG_LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// What a request's `_meta` says.
pub(super) struct Meta {
    /// The request belongs to the modern era.
    pub(super) modern: bool,
    pub(super) progress_token: Option<Value>,
}

impl Meta {
    /// Reads it, and refuses what a server must refuse: in the modern era `_meta` names the revision and the
    /// client's capabilities with every request (2026-07-28, basic/index).
    pub(super) fn read(params: &Object) -> Result<Self, Failure> {
        let meta = match params.get("_meta") {
            None => return Ok(Self { modern: false, progress_token: None }),
            Some(Value::Object(meta)) => meta,
            Some(_) => return Err(Failure::invalid_params("\"_meta\" must be an object")),
        };
        let progress_token = meta.get("progressToken").cloned();
        if progress_token.as_ref().is_some_and(|token| !rpc::is_id(token)) {
            return Err(Failure::invalid_params("\"progressToken\" must be a string or an integer"));
        }
        let modern = meta.contains_key(PROTOCOL_VERSION_KEY) || meta.contains_key(CAPABILITIES_KEY);
        if modern {
            Self::check_modern(meta)?;
        }
        Ok(Self { modern, progress_token })
    }

    fn check_modern(meta: &Object) -> Result<(), Failure> {
        let invalid = |key: &str, kind: &str| {
            Err(Failure::invalid_params(format!("_meta: \"{key}\" must be given, as {kind}")))
        };
        // The version comes first: what the rest of another revision looks like is not ours to judge.
        match meta.get(PROTOCOL_VERSION_KEY) {
            Some(Value::String(version)) if version == MODERN => {}
            Some(Value::String(version)) => {
                return Err(Failure::new(-32022, "Unsupported protocol version")
                    .with_data(json!({"supported": [MODERN], "requested": version})));
            }
            _ => return invalid(PROTOCOL_VERSION_KEY, "a string"),
        }
        if !meta.get(CAPABILITIES_KEY).is_some_and(Value::is_object) {
            return invalid(CAPABILITIES_KEY, "an object");
        }
        if meta.get(CLIENT_INFO_KEY).is_some_and(|info| !info.is_object()) {
            return invalid(CLIENT_INFO_KEY, "an object");
        }
        match meta.get(LOG_LEVEL_KEY) {
            None => Ok(()),
            level => log_level(level).map(|_| ()),
        }
    }
}

/// The severity of a level's name, as its index into [`LOG_LEVELS`].
pub(super) fn log_level(level: Option<&Value>) -> Result<usize, Failure> {
    let position = |name: &str| LOG_LEVELS.iter().position(|known| *known == name);
    level.and_then(Value::as_str).and_then(position).ok_or_else(|| {
        Failure::invalid_params(format!("The log level must be one of {}", LOG_LEVELS.join(", ")))
    })
}
