//! The protocol's revisions and its two eras.
//!
//! *Legacy* revisions open with an `initialize` handshake; *modern* ones say everything with each request
//! (specification 2026-07-28, basic/versioning). drowse speaks every revision listed here to servers and clients.

use crate::json;

/// How a peer speaks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Era {
    /// `initialize` first; revisions up to 2025-11-25.
    Legacy,
    /// Stateless; revision 2026-07-28 and later.
    Modern,
}

impl Era {
    /// The word used in records, output and configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// A revision of the protocol that drowse speaks, oldest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Revision {
    /// 2024-11-05
    V2024_11_05,
    /// 2025-03-26
    V2025_03_26,
    /// 2025-06-18
    V2025_06_18,
    /// 2025-11-25
    V2025_11_25,
    /// 2026-07-28
    V2026_07_28,
}

impl Revision {
    /// Every revision, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];
    /// The revision offered in `initialize`.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;
    /// The revision offered in `server/discover`.
    pub const LATEST_MODERN: Self = Self::V2026_07_28;

    /// The revision as it stands on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The era it belongs to.
    #[must_use]
    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Modern,
            _ => Era::Legacy,
        }
    }

    /// The revision of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.name() == name)
    }

    /// The revision that a JSON string (with its quotes) names.
    #[must_use]
    pub fn from_json(raw: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| json::str_eq(raw, revision.name()))
    }
}

/// What a configuration says about a server's revision (`mcpVersion`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Pin {
    /// Nothing: the era is found out.
    #[default]
    None,
    /// The era is known, the newest revision of it is offered.
    Era(Era),
    /// Exactly this revision is offered, and no other is accepted.
    Revision(Revision),
}

impl Pin {
    /// Reads a configuration's word: `legacy`, `modern`, or a revision.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "legacy" => Some(Self::Era(Era::Legacy)),
            "modern" => Some(Self::Era(Era::Modern)),
            _ => Revision::from_name(name).map(Self::Revision),
        }
    }

    /// The era it allows, if only one.
    #[must_use]
    pub const fn era(self) -> Option<Era> {
        match self {
            Self::None => None,
            Self::Era(era) => Some(era),
            Self::Revision(revision) => Some(revision.era()),
        }
    }

    /// Whether a server may speak `revision`.
    #[must_use]
    pub fn allows(self, revision: Revision) -> bool {
        match self {
            Self::None => true,
            Self::Era(era) => revision.era() == era,
            Self::Revision(only) => revision == only,
        }
    }

    /// The revision to offer in that era.
    #[must_use]
    pub fn offer(self, era: Era) -> Revision {
        match (self, era) {
            (Self::Revision(revision), _) if revision.era() == era => revision,
            (_, Era::Legacy) => Revision::LATEST_LEGACY,
            (_, Era::Modern) => Revision::LATEST_MODERN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_eras() {
        for revision in Revision::ALL {
            assert_eq!(Revision::from_name(revision.name()), Some(revision));
            assert_eq!(Pin::from_name(revision.name()), Some(Pin::Revision(revision)));
        }
        assert_eq!(Revision::from_json(br#""2025\u002d06-18""#), Some(Revision::V2025_06_18));
        assert_eq!(Revision::from_json(b"20250618"), None);
        assert_eq!(Revision::LATEST_LEGACY.era(), Era::Legacy);
        assert_eq!(Revision::LATEST_MODERN.era(), Era::Modern);
    }

    #[test]
    fn pins() {
        assert_eq!(Pin::from_name("newest"), None);
        assert!(Pin::None.allows(Revision::V2024_11_05));
        assert!(!Pin::Era(Era::Modern).allows(Revision::V2025_11_25));
        assert!(!Pin::Revision(Revision::V2025_03_26).allows(Revision::V2025_11_25));
        assert_eq!(Pin::Revision(Revision::V2025_03_26).offer(Era::Legacy), Revision::V2025_03_26);
        assert_eq!(Pin::Era(Era::Legacy).offer(Era::Legacy), Revision::V2025_11_25);
    }
}
