//! What a server was used for: how many operations, how they ended, how long they took, how often it woke and slept.
//!
//! Owns counters of fixed size and nothing else. [`crate::server::Server`] feeds them when operations begin and end and
//! when the public state changes; whoever writes a record of an awake period takes them out with [`Tally::take`]. Only
//! what counts as activity is counted, see [`crate::activity`]: what drowse asks for itself is not.

use crate::lifecycle::PublicState;
use crate::time::{Duration, Instant};

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Ending {
    /// With a result.
    Served,
    /// With an error of the server's: an error answer, or a tool's result that says so.
    Theirs,
    /// With an error of drowse's: the server was lost, could not be started or reached, or its answer was none.
    Ours,
    /// Its time was up.
    TimedOut,
    /// Its caller cancelled it, or went away.
    Cancelled,
}

/// How operations ended, counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Counts {
    /// All of them.
    pub calls: u64,
    /// With an error of the server's.
    pub theirs: u64,
    /// With an error of drowse's.
    pub ours: u64,
    /// Timed out.
    pub timed_out: u64,
    /// Cancelled.
    pub cancelled: u64,
}

impl Counts {
    /// Those that did not end with a result.
    #[must_use]
    pub const fn errors(&self) -> u64 {
        self.theirs.saturating_add(self.ours).saturating_add(self.timed_out).saturating_add(self.cancelled)
    }
}

/// Latencies in buckets of fixed bounds: four for each power of two, from [`Histogram::FLOOR`] to over an hour.
///
/// What it tells of a latency is the upper bound of its bucket, or the longest that there was if that is less: never
/// less than the truth, and less than a quarter more, save for those below the floor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Histogram {
    buckets: [u32; Self::BUCKETS],
    longest: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// What is quicker than this is in one bucket.
    pub const FLOOR: Duration = Duration::from_micros(1 << Self::FLOOR_BITS);
    const FLOOR_BITS: u32 = 6;
    /// What takes 2^32 µs (71 minutes) or more is in one bucket, too.
    const CEILING_BITS: u32 = 32;
    const BUCKETS: usize = ((Self::CEILING_BITS - Self::FLOOR_BITS) * 4 + 2) as usize;

    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        Self { buckets: [0; Self::BUCKETS], longest: 0 }
    }

    /// Counts a latency.
    pub fn record(&mut self, latency: Duration) {
        self.record_many(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX), 1);
    }

    /// Counts `count` latencies of as many microseconds: how buckets that were written down are read again.
    pub fn record_many(&mut self, micros: u64, count: u32) {
        if let Some(bucket) = self.buckets.get_mut(Self::index(micros)) {
            *bucket = bucket.saturating_add(count);
            if count > 0 {
                self.longest = self.longest.max(micros);
            }
        }
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket = bucket.saturating_add(more);
        }
        self.longest = self.longest.max(other.longest);
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, count| sum.saturating_add(u64::from(*count)))
    }

    /// The longest; `None` if none was counted.
    #[must_use]
    pub fn longest(&self) -> Option<Duration> {
        (self.count() > 0).then(|| Duration::from_micros(self.longest))
    }

    /// The latency that `permille` of a thousand do not exceed; `None` if none was counted. See [`Histogram`] for how
    /// true it is.
    #[must_use]
    pub fn quantile(&self, permille: u32) -> Option<Duration> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = count.saturating_mul(u64::from(permille.min(1000))).div_ceil(1000);
        let mut seen: u64 = 0;
        for (upper, number) in self.filled() {
            seen = seen.saturating_add(u64::from(number));
            if seen >= rank.max(1) {
                return Some(Duration::from_micros(upper));
            }
        }
        self.longest()
    }

    /// The buckets that are not empty, by rising latency: the upper bound in microseconds, but no more than the longest
    /// that there was, and how many are in it. Reading them again with [`record_many`](Self::record_many) gives the same
    /// histogram.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let buckets = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        buckets.map(|(index, count)| (Self::last_of(index).min(self.longest), *count))
    }

    /// The bucket of a latency.
    const fn index(micros: u64) -> usize {
        if micros < 1 << Self::FLOOR_BITS {
            return 0;
        }
        if micros >> Self::CEILING_BITS != 0 {
            return Self::BUCKETS - 1;
        }
        // Not `ilog2`, which has no answer for zero.
        let power = u64::BITS - 1 - micros.leading_zeros();
        let quarter = (micros >> (power - 2)) & 3;
        ((power - Self::FLOOR_BITS) * 4) as usize + quarter as usize + 1
    }

    /// The longest latency that belongs to a bucket.
    const fn last_of(index: usize) -> u64 {
        if index == 0 {
            return (1 << Self::FLOOR_BITS) - 1;
        }
        if index >= Self::BUCKETS - 1 {
            return u64::MAX;
        }
        let from_floor = index as u64 - 1;
        let (power, quarter) = (from_floor / 4 + Self::FLOOR_BITS as u64, from_floor % 4);
        ((quarter + 5) << (power - 2)) - 1
    }
}

/// What was counted since it was last taken, and since the machine began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tally {
    counts: Counts,
    latency: Histogram,
    state: PublicState,
    awake_since: Option<Instant>,
    wakes: u32,
    sleeps: u32,
    crashes: u32,
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

impl Tally {
    /// Nothing was counted.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            counts: Counts { calls: 0, theirs: 0, ours: 0, timed_out: 0, cancelled: 0 },
            latency: Histogram::new(),
            state: PublicState::Dormant,
            awake_since: None,
            wakes: 0,
            sleeps: 0,
            crashes: 0,
        }
    }

    /// An operation ended that took this long; no time if it says nothing of the server, because the call waited for
    /// its caller meanwhile.
    pub fn end(&mut self, ending: Ending, took: Option<Duration>) {
        let Counts { calls, theirs, ours, timed_out, cancelled } = &mut self.counts;
        *calls = calls.saturating_add(1);
        let kind = match ending {
            Ending::Served => None,
            Ending::Theirs => Some(theirs),
            Ending::Ours => Some(ours),
            Ending::TimedOut => Some(timed_out),
            Ending::Cancelled => Some(cancelled),
        };
        if let Some(kind) = kind {
            *kind = kind.saturating_add(1);
        }
        // How long somebody waited before giving up is no latency.
        if let (Ending::Served | Ending::Theirs, Some(took)) = (ending, took) {
            self.latency.record(took);
        }
    }

    /// The last answer was an error that is not the end of its operation.
    pub const fn set_aside(&mut self) {
        self.counts.calls = self.counts.calls.saturating_sub(1);
        self.counts.theirs = self.counts.theirs.saturating_sub(1);
    }

    /// The last result was no end of its operation: the server wants something first.
    pub const fn handle_round(&mut self) {
        self.counts.calls = self.counts.calls.saturating_sub(1);
    }

    /// The public state is this one now.
    pub const fn see(&mut self, now: Instant, state: PublicState) {
        let was = self.state;
        self.state = state;
        match (was, state) {
            (PublicState::Connecting | PublicState::Reconnecting, PublicState::Live) => {
                self.wakes = self.wakes.saturating_add(1);
            }
            // It only ended before its exit told that it was not needed.
            (PublicState::Crashed, PublicState::Idle) if self.awake_since.is_some() => {
                self.crashes = self.crashes.saturating_sub(1);
                self.sleeps = self.sleeps.saturating_add(1);
            }
            (_, PublicState::Idle) if was.is_awake() => self.sleeps = self.sleeps.saturating_add(1),
            (_, PublicState::Crashed) if was.is_awake() => self.crashes = self.crashes.saturating_add(1),
            _ => {}
        }
        if state.is_awake() && !was.is_awake() {
            self.awake_since = Some(now);
        }
    }

    /// How operations ended since this was last taken.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How long those took that the server answered, wake-ups included.
    #[must_use]
    pub const fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// When the awake period began that lasts, or was last.
    #[must_use]
    pub const fn awake_since(&self) -> Option<Instant> {
        self.awake_since
    }

    /// How often the server became ready.
    #[must_use]
    pub const fn wakes(&self) -> u32 {
        self.wakes
    }

    /// How often it was let go, or went by itself when it was not needed.
    #[must_use]
    pub const fn sleeps(&self) -> u32 {
        self.sleeps
    }

    /// How often it crashed, or could not be started.
    #[must_use]
    pub const fn crashes(&self) -> u32 {
        self.crashes
    }

    /// Whether operations were counted that were not taken.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.counts.calls == 0
    }

    /// Operations and latencies were written down: they are counted from nothing again.
    pub const fn take(&mut self) {
        self.counts = Self::new().counts;
        self.latency = Histogram::new();
    }
}
