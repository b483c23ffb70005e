//! The limits of an endpoint by name, as people give them and records keep them.

use std::collections::BTreeMap;
use std::fmt;

use drowse_core::front::http::{Limits, Pace};
use drowse_core::time::Duration;

/// More than that nobody needs.
const MOST_SLOTS: u64 = 1_000_000;
/// Room for all sessions is made at the start, and each hears of changed lists, for which the relay has 65,535 slots.
const MOST_SESSIONS: u64 = 1 << 15;
/// Far beyond any memory, and far from overflow.
const MOST_BYTES: u64 = 1 << 40;
/// A century, likewise.
const MOST_SECONDS: u64 = 100 * 366 * 86400;

/// Limits that differ from the usual ones: numbers, or seconds; of `hold` 0 is `off`. Names that this build does not know are
/// kept.
pub type Named = BTreeMap<String, u64>;

/// One limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitName {
    /// [`Limits::connections`].
    Connections,
    /// [`Limits::body`].
    Body,
    /// [`Limits::bodies`].
    Bodies,
    /// [`Limits::sessions`].
    Sessions,
    /// [`Limits::streams`].
    Streams,
    /// [`Limits::unread`].
    Unread,
    /// [`Limits::answers`].
    Answers,
    /// [`Limits::events`].
    Events,
    /// [`Limits::idle`].
    Idle,
    /// [`Limits::head`].
    Head,
    /// [`Limits::body_time`].
    BodyTime,
    /// [`Limits::stalled`].
    Stalled,
    /// [`Pace::hold`].
    Hold,
}

impl LimitName {
    /// Every one.
    pub const ALL: [Self; 13] = [
        Self::Connections,
        Self::Body,
        Self::Bodies,
        Self::Sessions,
        Self::Streams,
        Self::Unread,
        Self::Answers,
        Self::Events,
        Self::Idle,
        Self::Head,
        Self::BodyTime,
        Self::Stalled,
        Self::Hold,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Body => "body",
            Self::Bodies => "bodies",
            Self::Sessions => "sessions",
            Self::Streams => "streams",
            Self::Unread => "unread",
            Self::Answers => "answers",
            Self::Events => "events",
            Self::Idle => "idle",
            Self::Head => "head",
            Self::BodyTime => "body-time",
            Self::Stalled => "stalled",
            Self::Hold => "hold",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.name() == name)
    }

    /// Whether its value is a time, in seconds.
    #[must_use]
    pub const fn is_period(self) -> bool {
        matches!(self, Self::Idle | Self::Head | Self::BodyTime | Self::Stalled | Self::Hold)
    }

    /// Its greatest value.
    #[must_use]
    pub const fn most(self) -> u64 {
        match self {
            Self::Connections | Self::Streams => MOST_SLOTS,
            Self::Sessions => MOST_SESSIONS,
            Self::Body | Self::Bodies | Self::Unread | Self::Answers | Self::Events => MOST_BYTES,
            Self::Idle | Self::Head | Self::BodyTime | Self::Stalled | Self::Hold => MOST_SECONDS,
        }
    }

    /// Sets it. A value that nobody could have given is the nearest that can be.
    pub fn put(self, value: u64, limits: &mut Limits, pace: &mut Pace) {
        let near = value.clamp(1, self.most());
        let (count, period) = (usize::try_from(near).unwrap_or(usize::MAX), Duration::from_secs(near));
        match self {
            Self::Connections => limits.connections = count,
            Self::Body => limits.body = count,
            Self::Bodies => limits.bodies = count,
            Self::Sessions => limits.sessions = count,
            Self::Streams => limits.streams = count,
            Self::Unread => limits.unread = count,
            Self::Answers => limits.answers = count,
            Self::Events => limits.events = count,
            Self::Idle => limits.idle = period,
            Self::Head => limits.head = period,
            Self::BodyTime => limits.body_time = period,
            Self::Stalled => limits.stalled = period,
            Self::Hold => pace.hold = (value > 0).then_some(period),
        }
    }
}

/// The limits in force where these differ from the usual ones.
#[must_use]
pub fn in_force(named: &Named) -> (Limits, Pace) {
    let (mut limits, mut pace) = (Limits::default(), Pace::default());
    for (name, value) in named {
        if let Some(limit) = LimitName::from_name(name) {
            limit.put(*value, &mut limits, &mut pace);
        }
    }
    (limits, pace)
}

/// A limit as it is given: `name=value`.
#[derive(Debug)]
pub struct Shown<'a>(pub &'a str, pub u64);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, value) = *self;
        match LimitName::from_name(name) {
            Some(LimitName::Hold) if value == 0 => write!(f, "{name}=off"),
            Some(limit) if limit.is_period() => write!(f, "{name}={value}s"),
            _ => write!(f, "{name}={value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_record_has_is_in_force_whatever_it_is() {
        let of = |pairs: &[(&str, u64)]| {
            in_force(&pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
        };
        assert_eq!(of(&[]), (Limits::default(), Pace::default()));
        assert_eq!(of(&[("of-later", 1)]), (Limits::default(), Pace::default()));
        let (limits, pace) = of(&[("sessions", 3), ("body-time", 7), ("hold", 30)]);
        assert_eq!((limits.sessions, limits.body_time), (3, Duration::from_secs(7)));
        assert_eq!(pace.hold, Some(Duration::from_secs(30)));
        assert_eq!(of(&[("hold", 0)]).1.hold, None);
        // By hand: nothing that would overflow, use up the memory or let nobody in.
        let (limits, _) = of(&[("sessions", u64::MAX), ("head", u64::MAX), ("connections", 0)]);
        assert_eq!((limits.sessions, limits.connections), (1 << 15, 1));
        assert_eq!(limits.head, Duration::from_secs(MOST_SECONDS));
        for limit in LimitName::ALL {
            assert_eq!(LimitName::from_name(limit.name()), Some(limit));
            let name = limit.name();
            assert_ne!(of(&[(name, 9)]), (Limits::default(), Pace::default()), "{name}");
        }
        assert_eq!(
            [Shown("idle", 90), Shown("hold", 0), Shown("body", 9), Shown("of-later", 1)]
                .map(|s| s.to_string()),
            ["idle=90s", "hold=off", "body=9", "of-later=1"]
        );
    }
}
