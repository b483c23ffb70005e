//! The protocol's methods that a front may be asked for, and what each is to drowse.

use crate::json;

/// A request's method.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Method {
    /// `initialize`
    Initialize,
    /// `server/discover`
    Discover,
    /// `ping`
    Ping,
    /// `logging/setLevel`
    SetLevel,
    /// `tools/list`
    ToolsList,
    /// `tools/call`
    ToolsCall,
    /// `resources/list`
    ResourcesList,
    /// `resources/templates/list`
    TemplatesList,
    /// `resources/read`
    ResourcesRead,
    /// `resources/subscribe`
    Subscribe,
    /// `resources/unsubscribe`
    Unsubscribe,
    /// `subscriptions/listen`
    Listen,
    /// `prompts/list`
    PromptsList,
    /// `prompts/get`
    PromptsGet,
    /// `completion/complete`
    Complete,
    /// `tasks/…`
    Tasks,
    /// `drowse/info`: what the server says of itself.
    Info,
    /// `drowse/ping`: does the server answer?
    ServerPing,
    /// `drowse/status`: how the bridge stands.
    Status,
    /// `drowse/snapshot`: is what the server offers saved?
    Snapshot,
    /// `drowse/sync`: keep a file equal to a resource.
    Sync,
    /// `drowse/unsync`: do so no more.
    Unsync,
    /// `drowse/set`: how the server is kept from now on.
    Set,
    /// `drowse/close`: end the server and the bridge.
    Close,
    /// Any other.
    Other,
}

impl Method {
    /// Every method, and the two groups.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::NAMES.into_iter().map(|(_, method)| method).chain([Self::Tasks, Self::Other])
    }

    const NAMES: [(&'static str, Self); 23] = [
        ("tools/call", Self::ToolsCall),
        ("tools/list", Self::ToolsList),
        ("resources/read", Self::ResourcesRead),
        ("resources/list", Self::ResourcesList),
        ("resources/templates/list", Self::TemplatesList),
        ("prompts/list", Self::PromptsList),
        ("prompts/get", Self::PromptsGet),
        ("completion/complete", Self::Complete),
        ("resources/subscribe", Self::Subscribe),
        ("resources/unsubscribe", Self::Unsubscribe),
        ("subscriptions/listen", Self::Listen),
        ("initialize", Self::Initialize),
        ("server/discover", Self::Discover),
        ("ping", Self::Ping),
        ("logging/setLevel", Self::SetLevel),
        ("drowse/info", Self::Info),
        ("drowse/ping", Self::ServerPing),
        ("drowse/status", Self::Status),
        ("drowse/snapshot", Self::Snapshot),
        ("drowse/sync", Self::Sync),
        ("drowse/unsync", Self::Unsync),
        ("drowse/set", Self::Set),
        ("drowse/close", Self::Close),
    ];

    /// The method that a JSON string (with its quotes) names.
    #[must_use]
    pub fn from_json(raw: &[u8]) -> Self {
        if let Some((_, method)) = Self::NAMES.iter().find(|(name, _)| json::str_eq(raw, name)) {
            return *method;
        }
        if raw.starts_with(b"\"tasks/") { Self::Tasks } else { Self::Other }
    }

    /// The method of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        Self::NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map_or(if name.starts_with("tasks/") { Self::Tasks } else { Self::Other }, |(_, method)| *method)
    }

    /// The name on the wire; of a group its prefix, of an unknown method nothing.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tasks => "tasks/",
            method => Self::NAMES.iter().find(|(_, known)| *known == method).map_or("", |(name, _)| *name),
        }
    }

    /// Whether it only reads by definition, so that it may be issued anew after a link was lost
    /// (specification 2026-07-28, basic/transports/stdio, Unexpected Termination).
    #[must_use]
    pub const fn only_reads(self) -> bool {
        matches!(
            self,
            Self::Discover
                | Self::ToolsList
                | Self::ResourcesList
                | Self::TemplatesList
                | Self::ResourcesRead
                | Self::PromptsList
                | Self::Complete
                | Self::Ping
                | Self::ServerPing
                | Self::Info
        )
    }

    /// Whether it is one of drowse's own.
    #[must_use]
    pub const fn is_drowses(self) -> bool {
        matches!(
            self,
            Self::Info
                | Self::ServerPing
                | Self::Status
                | Self::Snapshot
                | Self::Sync
                | Self::Unsync
                | Self::Set
                | Self::Close
        )
    }

    /// Whether its result has to carry `ttlMs` and `cacheScope` (server/utilities/caching).
    #[must_use]
    pub const fn is_cacheable(self) -> bool {
        matches!(
            self,
            Self::Discover
                | Self::ToolsList
                | Self::PromptsList
                | Self::ResourcesList
                | Self::TemplatesList
                | Self::ResourcesRead
        )
    }

    /// Whether the server is asked for progress even if the caller is not: its work may be long, and progress keeps
    /// the request's time-out from ending it.
    #[must_use]
    pub const fn wants_progress(self) -> bool {
        matches!(self, Self::ToolsCall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, method) in Method::NAMES {
            assert_eq!(Method::from_name(name), method);
            assert_eq!(Method::from_json(std::format!("\"{name}\"").as_bytes()), method);
            assert_eq!(method.name(), name);
        }
        assert_eq!(Method::from_json(br#""tools\/call""#), Method::ToolsCall);
        assert_eq!(Method::from_json(br#""tasks/get""#), Method::Tasks);
        assert_eq!(Method::from_json(br#""tools/call2""#), Method::Other);
    }

    #[test]
    fn what_may_run_code_is_never_issued_anew() {
        assert!(!Method::ToolsCall.only_reads());
        assert!(!Method::Other.only_reads());
        assert!(!Method::Tasks.only_reads());
        assert!(!Method::Subscribe.only_reads());
        assert!(!Method::PromptsGet.only_reads());
    }
}
