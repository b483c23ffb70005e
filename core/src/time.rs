//! Time as the core sees it: instants and durations that the caller injects, and the table of what is awaited.
//!
//! Nothing here reads a clock. An [`Instant`] is a number of microseconds since an epoch of the caller's choice
//! (a host uses the Unix epoch advanced by a monotonic clock, a device its uptime, a test zero). Arithmetic
//! saturates, and a deadline is always rounded *up*, so that a timer never fires before its time.

pub use core::time::Duration;

/// A point in time: microseconds since the caller's epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Instant(u64);

impl Instant {
    /// The epoch itself.
    pub const ZERO: Self = Self(0);

    /// The instant `micros` microseconds after the epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The instant `millis` milliseconds after the epoch, saturating.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1000))
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the epoch, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1000
    }

    /// `self + duration`, rounded up to a whole microsecond, saturating at the end of time.
    #[must_use]
    pub const fn after(self, duration: Duration) -> Self {
        let micros = duration.as_secs().saturating_mul(1_000_000);
        let micros = micros.saturating_add(duration.subsec_nanos().div_ceil(1000) as u64);
        Self(self.0.saturating_add(micros))
    }

    /// `self - duration`, rounded down to a whole microsecond, saturating at the epoch.
    #[must_use]
    pub const fn before(self, duration: Duration) -> Self {
        let micros = duration.as_secs().saturating_mul(1_000_000);
        let micros = micros.saturating_add(duration.subsec_nanos().div_ceil(1000) as u64);
        Self(self.0.saturating_sub(micros))
    }

    /// How long after `earlier` this instant is; zero when it is not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(feature = "embassy-time")]
impl From<embassy_time::Instant> for Instant {
    fn from(at: embassy_time::Instant) -> Self {
        Self(at.as_micros())
    }
}

#[cfg(feature = "embassy-time")]
impl From<Instant> for embassy_time::Instant {
    fn from(at: Instant) -> Self {
        Self::from_ticks(ticks(at.as_micros(), embassy_time::TICK_HZ))
    }
}

/// Ticks of a clock of `hz` ticks a second, rounded up and saturating: a timer that fires early would only be armed again.
#[cfg(any(test, feature = "embassy-time"))]
const fn ticks(micros: u64, hz: u64) -> u64 {
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    seconds.saturating_mul(hz).saturating_add(rest.saturating_mul(hz).div_ceil(1_000_000))
}

/// Why a timeout is awaited.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Reason {
    /// The server has to be ready by then, or its start has failed.
    Connect,
    /// The probe was not answered: `initialize` is sent as well.
    Hedge,
    /// `initialize` was answered; a late answer to the probe would still win until then.
    Verdict,
    /// A request's time-out, or its hard maximum.
    Request,
    /// Nothing was heard for the keepalive period.
    Keepalive,
    /// The keepalive has to be answered by then.
    KeepaliveAnswer,
    /// The idle period ends.
    Idle,
    /// The server has to be gone after its input was closed.
    InputClosed,
    /// The server has to be gone after it was told to terminate.
    Terminated,
    /// The server's tree has to be gone after it was killed.
    Killed,
    /// A crashed server may be started again in the background.
    Backoff,
    /// The server has to answer to what it was asked to announce.
    Subscribe,
    /// A stream of announcements that ended is opened again.
    Relisten,
    /// The older of two streams of announcements is closed.
    Overlap,
    /// The server is asked what it offers, or has to answer that.
    Snapshot,
}

impl Reason {
    const COUNT: usize = 15;
    const ALL: [Self; Self::COUNT] = [
        Self::Connect,
        Self::Hedge,
        Self::Verdict,
        Self::Request,
        Self::Keepalive,
        Self::KeepaliveAnswer,
        Self::Idle,
        Self::InputClosed,
        Self::Terminated,
        Self::Killed,
        Self::Backoff,
        Self::Subscribe,
        Self::Relisten,
        Self::Overlap,
        Self::Snapshot,
    ];
}

/// Every timeout that is awaited at one moment, by [`Reason`].
///
/// Machines fill it from their state, so a timer cannot outlive the state that wanted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timetable([Option<Instant>; Reason::COUNT]);

impl Timetable {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self([None; Reason::COUNT])
    }

    /// Awaits `at` for `reason`; an earlier entry for the same reason stays.
    pub fn set(&mut self, reason: Reason, at: Instant) {
        if let Some(entry) = self.0.get_mut(reason as usize) {
            *entry = Some(entry.map_or(at, |was| was.min(at)));
        }
    }

    /// What is awaited for `reason`.
    #[must_use]
    pub fn get(&self, reason: Reason) -> Option<Instant> {
        self.0.get(reason as usize).copied().flatten()
    }

    /// The earliest entry, and why it exists.
    #[must_use]
    pub fn next(&self) -> Option<(Instant, Reason)> {
        let mut first: Option<(Instant, Reason)> = None;
        for (at, reason) in self.0.iter().zip(Reason::ALL) {
            if let Some(at) = *at
                && first.is_none_or(|(earliest, _)| at < earliest)
            {
                first = Some((at, reason));
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_round_up_and_saturate() {
        assert_eq!(Instant::ZERO.after(Duration::from_nanos(1)), Instant::from_micros(1));
        assert_eq!(Instant::ZERO.after(Duration::from_nanos(1000)), Instant::from_micros(1));
        assert_eq!(Instant::ZERO.after(Duration::from_nanos(1001)), Instant::from_micros(2));
        assert_eq!(Instant::from_micros(5).after(Duration::MAX), Instant::from_micros(u64::MAX));
        assert_eq!(Instant::from_micros(5).since(Instant::from_micros(9)), Duration::ZERO);
        assert_eq!(Instant::from_micros(5).before(Duration::from_nanos(1001)), Instant::from_micros(3));
        assert_eq!(Instant::from_micros(5).before(Duration::MAX), Instant::ZERO);
    }

    #[test]
    fn ticks_round_up_at_every_rate() {
        for hz in [1, 100, 1000, 32_768, 1_000_000, 16_000_000, 1_000_000_000] {
            for micros in [0, 1, 30, 31, 999_999, 1_000_000, 1_000_001, 123_456_789_012] {
                let exact = u128::from(micros) * u128::from(hz);
                assert_eq!(u128::from(ticks(micros, hz)), exact.div_ceil(1_000_000), "{micros} at {hz}");
            }
        }
        assert_eq!(ticks(u64::MAX, 1_000_000), u64::MAX);
        assert_eq!(ticks(u64::MAX, 1_000_000_000), u64::MAX);
    }

    #[test]
    fn the_table_names_the_reason_of_the_earliest() {
        let mut table = Timetable::new();
        assert_eq!(table.next(), None);
        table.set(Reason::Idle, Instant::from_micros(9));
        table.set(Reason::Request, Instant::from_micros(7));
        table.set(Reason::Request, Instant::from_micros(8));
        assert_eq!(table.next(), Some((Instant::from_micros(7), Reason::Request)));
        assert_eq!(table.get(Reason::Idle), Some(Instant::from_micros(9)));
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }
}
