//! Names of tools that are the proxy's own.

use crate::json;
use crate::span::Span;

/// How they begin. Whatever begins so never reaches the server.
const PREFIX: &[u8] = b"dev_";

/// A tool of the proxy's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum DevTool {
    /// `dev_restart`
    Restart,
    /// `dev_status`
    Status,
    /// `dev_logs`
    Logs,
}

impl DevTool {
    /// In the order of the list.
    pub const ALL: [Self; 3] = [Self::Restart, Self::Status, Self::Logs];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Restart => "dev_restart",
            Self::Status => "dev_status",
            Self::Logs => "dev_logs",
        }
    }

    /// What a call is to, by the tool's name, raw: `None` if it is the server's, and an error if it would be the proxy's
    /// and there is none of that name.
    #[must_use]
    pub fn of_call(raw: &[u8]) -> Option<Result<Self, Unknown>> {
        if let Some(tool) = Self::ALL.into_iter().find(|tool| json::str_eq(raw, tool.name())) {
            return Some(Ok(tool));
        }
        is_ours(raw).then_some(Err(Unknown))
    }
}

/// The proxy has no such tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Unknown;

/// Whether the name, a JSON string, is one of the proxy's.
#[must_use]
pub fn is_ours(raw: &[u8]) -> bool {
    json::is_string(raw) && json::text(raw).take(PREFIX.len()).eq(PREFIX.iter().copied())
}

/// The proxy's own tools in a list of them, by the place of each in the array.
pub fn ours_in(frame: &[u8], tools: Span) -> impl Iterator<Item = usize> {
    json::elements(frame, tools).enumerate().filter_map(|(place, tool)| {
        let name = json::member(frame, tool, "name")?;
        is_ours(name.of(frame)).then_some(place)
    })
}

/// Whether a tool, an object of a list, says that calling it twice does no more than once: it only reads, or is
/// idempotent (server/tools, Annotations). Whoever asks for that trusts the server.
#[must_use]
pub fn may_be_repeated(frame: &[u8], tool: Span) -> bool {
    let Some(annotations) = json::member(frame, tool, "annotations") else { return false };
    ["readOnlyHint", "idempotentHint"]
        .into_iter()
        .any(|hint| json::member(frame, annotations, hint).is_some_and(|value| value.of(frame) == b"true"))
}
