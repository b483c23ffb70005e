//! When a host that waits gives back what it can have again for a little work: memory, for instance.
//!
//! Not between requests that follow each other closely, which would only have to fetch it again: some time after the last
//! one was answered, or the last client left. Whatever comes meanwhile moves no timer: it is looked at when that fires.

use crate::time::{Duration, Instant};

/// How long a host stays ready for the next request.
pub const AFTER: Duration = Duration::from_millis(500);

/// The rest of one host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rest {
    /// When to look, while the host stays ready.
    at: Option<Instant>,
    last: Instant,
}

impl Rest {
    /// A host that rests.
    #[must_use]
    pub const fn new() -> Self {
        Self { at: None, last: Instant::ZERO }
    }

    /// A message came, a request was answered, or a client left: the next one may come soon.
    pub const fn handle_active(&mut self, now: Instant) {
        self.last = now;
        if self.at.is_none() {
            self.at = Some(now.after(AFTER));
        }
    }

    /// Whether the host stays ready for now. One that does not, and had something to do of its own, rests again at once.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.at.is_some()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.at
    }

    /// Time has passed; early, late and repeated calls do no harm. Returns whether to rest now: `quiet` is that nothing is
    /// under way. Where something is, its end is the next occasion.
    #[must_use]
    pub fn handle_timeout(&mut self, now: Instant, quiet: bool) -> bool {
        if self.at.is_none_or(|at| now < at) {
            return false;
        }
        let due = self.last.after(AFTER);
        self.at = Some(due).filter(|due| now < *due);
        self.at.is_none() && quiet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = AFTER.as_millis() as u64;

    #[test]
    fn once_and_not_before_its_time() {
        let mut rest = Rest::new();
        let later = |millis: u64| Instant::from_millis(10_000 + millis);
        assert!(!rest.handle_timeout(later(0), true) && !rest.is_ready());
        rest.handle_active(later(0));
        assert_eq!(rest.poll_timeout(), Some(later(0).after(AFTER)));
        assert!(!rest.handle_timeout(later(PERIOD - 1), true) && rest.is_ready());
        assert!(rest.handle_timeout(later(PERIOD), true));
        assert!(!rest.handle_timeout(later(PERIOD * 5), true));
        assert_eq!(rest.poll_timeout(), None);
    }

    #[test]
    fn who_comes_meanwhile_is_seen_when_it_is_over() {
        let mut rest = Rest::new();
        let at = Instant::from_millis;
        rest.handle_active(at(0));
        rest.handle_active(at(PERIOD - 100));
        assert_eq!(rest.poll_timeout(), Some(at(PERIOD)), "no timer is moved");
        assert!(!rest.handle_timeout(at(PERIOD), true));
        assert_eq!(rest.poll_timeout(), Some(at(2 * PERIOD - 100)));
        // Something is under way by then; the deadline is over all the same.
        assert!(!rest.handle_timeout(at(2 * PERIOD - 100), false));
        assert_eq!(rest.poll_timeout(), None);
        rest.handle_active(at(7 * PERIOD));
        assert!(rest.handle_timeout(at(8 * PERIOD), true));
    }
}
