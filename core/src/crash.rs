//! When a server that keeps crashing may be started again: back-off, and a breaker.
//!
//! Only crashes of generations that never answered an operation count: a server that works and is killed now and then
//! is started again at once.

use heapless::Vec;

use crate::time::{Duration, Instant};

/// This many crashes within [`WINDOW`] open the breaker.
pub const LIMIT: usize = 5;
/// Crashes older than this are forgotten, and an open breaker closes after it.
pub const WINDOW: Duration = Duration::from_secs(30);
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// See [`CrashLog::record_failed_start`].
const PAUSE: Duration = Duration::from_secs(1);

/// The recent crashes of one server, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrashLog {
    times: Vec<Instant, LIMIT>,
    /// The last one was a start that failed, and is not to be tried again at once.
    pauses: bool,
}

impl CrashLog {
    /// No crashes.
    #[must_use]
    pub const fn new() -> Self {
        Self { times: Vec::new(), pauses: false }
    }

    /// The crashes that a record kept, oldest first; of more than [`LIMIT`] the last ones.
    #[must_use]
    pub fn from_times(times: impl IntoIterator<Item = Instant>) -> Self {
        let mut log = Self::new();
        for at in times {
            log.record(at);
        }
        log
    }

    /// The crashes, oldest first.
    #[must_use]
    pub fn times(&self) -> &[Instant] {
        &self.times
    }

    /// The server crashed at `now`.
    pub fn record(&mut self, now: Instant) {
        self.pauses = false;
        self.times.retain(|at| *at <= now && now.since(*at) < WINDOW);
        if self.times.is_full() {
            let mut oldest = true;
            self.times.retain(|_| !core::mem::take(&mut oldest));
        }
        // There is room: one was taken out if it was full.
        let _ = self.times.push(now);
    }

    /// The server could not be started at `now`, and even the first such failure is to cost a wait.
    pub fn record_failed_start(&mut self, now: Instant) {
        self.record(now);
        self.pauses = true;
    }

    /// The server proved that it works.
    pub fn clear(&mut self) {
        self.times.clear();
        self.pauses = false;
    }

    /// Whether the breaker is open: so many crashes that only time helps.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.times.is_full()
    }

    /// When the server may be started again; `None` is at once. The first crash costs no wait, further ones 250 ms,
    /// 500 ms and 1 s, the breaker [`WINDOW`].
    #[must_use]
    pub fn retry_at(&self) -> Option<Instant> {
        let last = *self.times.last()?;
        let delay = match self.times.len() {
            0 | 1 => Duration::ZERO,
            n if n >= LIMIT => WINDOW,
            n => FIRST_DELAY.saturating_mul(1 << (n - 2)),
        };
        let delay = if self.pauses { delay.max(PAUSE) } else { delay };
        (!delay.is_zero()).then(|| last.after(delay))
    }

    /// Whether the server may be started at `now`. A wait longer than any back-off means that the clock was set back
    /// since the crash: that is nothing to wait for.
    #[must_use]
    pub fn admits(&self, now: Instant) -> bool {
        self.retry_at().is_none_or(|at| now >= at || at.since(now) > WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_grows_and_the_breaker_opens_at_five() {
        let mut log = CrashLog::new();
        let mut now = Instant::from_millis(1000);
        assert!(log.admits(now));
        log.record(now);
        assert!(log.admits(now), "the first crash costs nothing");
        for delay in [250, 500, 1000] {
            log.record(now);
            assert_eq!(log.retry_at(), Some(now.after(Duration::from_millis(delay))));
            assert!(!log.admits(now));
            now = now.after(Duration::from_millis(delay));
            assert!(log.admits(now));
        }
        assert!(!log.is_open());
        log.record(now);
        assert!(log.is_open());
        assert_eq!(log.retry_at(), Some(now.after(WINDOW)));
        let later = now.after(WINDOW);
        assert!(log.admits(later));
        log.record(later);
        assert!(log.admits(later), "crashes outside the window are forgotten");
        log.clear();
        assert_eq!(log.retry_at(), None);
    }

    #[test]
    fn only_the_last_crashes_are_kept() {
        let times: [Instant; 7] = core::array::from_fn(|index| Instant::from_millis(index as u64));
        let log = CrashLog::from_times(times);
        assert_eq!(log.times(), &times[2..]);
        assert_eq!(log.retry_at(), Some(times[6].after(WINDOW)));
        let mut old = CrashLog::from_times(times);
        let later = times[3].after(WINDOW);
        old.record(later);
        assert_eq!(old.times(), [times[4], times[5], times[6], later]);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nobody_wait() {
        let at = Instant::from_millis(100_000);
        let log = CrashLog::from_times([at; LIMIT]);
        assert!(!log.admits(at));
        assert!(!log.admits(Instant::from_millis(100_000 - 1).after(WINDOW)));
        assert!(log.admits(at.after(WINDOW)));
        assert!(log.admits(Instant::from_millis(99_999)), "the crash is still to come");
    }
}
