//! The protocol's notifications, of all revisions and of its extension for tasks.

use crate::json;

/// What a notification is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Notification {
    /// `notifications/initialized`
    Initialized,
    /// `notifications/cancelled`
    Cancelled,
    /// `notifications/progress`
    Progress,
    /// `notifications/message`: something for a log.
    Message,
    /// `notifications/tools/list_changed`
    ToolsChanged,
    /// `notifications/prompts/list_changed`
    PromptsChanged,
    /// `notifications/resources/list_changed`
    ResourcesChanged,
    /// `notifications/resources/updated`
    ResourceUpdated,
    /// `notifications/roots/list_changed`
    RootsChanged,
    /// `notifications/subscriptions/acknowledged`, of 2026-07-28.
    Acknowledged,
    /// `notifications/elicitation/complete`, of 2025-11-25.
    ElicitationComplete,
    /// `notifications/tasks/status`, of 2025-11-25.
    TaskStatus,
    /// `notifications/tasks`, of the extension.
    Task,
    /// Any other.
    Other,
}

impl Notification {
    const NAMES: [(&'static str, Self); 13] = [
        ("notifications/progress", Self::Progress),
        ("notifications/message", Self::Message),
        ("notifications/cancelled", Self::Cancelled),
        ("notifications/resources/updated", Self::ResourceUpdated),
        ("notifications/tools/list_changed", Self::ToolsChanged),
        ("notifications/prompts/list_changed", Self::PromptsChanged),
        ("notifications/resources/list_changed", Self::ResourcesChanged),
        ("notifications/roots/list_changed", Self::RootsChanged),
        ("notifications/initialized", Self::Initialized),
        ("notifications/subscriptions/acknowledged", Self::Acknowledged),
        ("notifications/elicitation/complete", Self::ElicitationComplete),
        ("notifications/tasks/status", Self::TaskStatus),
        ("notifications/tasks", Self::Task),
    ];

    /// Each of them.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::NAMES.into_iter().map(|(_, one)| one).chain([Self::Other])
    }

    /// The one that a JSON string (with its quotes) names.
    #[must_use]
    pub fn from_json(raw: &[u8]) -> Self {
        Self::NAMES.iter().find(|(name, _)| json::str_eq(raw, name)).map_or(Self::Other, |(_, one)| *one)
    }

    /// The name on the wire; of an unknown one nothing.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for one in Notification::all() {
            assert_eq!(Notification::from_json(std::format!("\"{}\"", one.name()).as_bytes()), one);
        }
        assert_eq!(Notification::from_json(br#""notifications\/pro\u0067ress""#), Notification::Progress);
        assert_eq!(Notification::from_json(br#""notifications/tasks/""#), Notification::Other);
    }
}
