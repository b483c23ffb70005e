//! Whether a server that says nothing is still there.
//!
//! Owns when to ask, and how long an answer may take. It never sends: [`crate::server::Server`] puts the question in
//! the server's era, and calls [`Keepalive::heard`] for whatever the server says.

use crate::time::{Duration, Instant, Reason, Timetable};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Nothing is owed; this is when the server was last heard.
    Heard(Instant),
    /// To be asked.
    Due,
    /// Asked at that time.
    Asked(Instant),
}

/// The keepalive of one server.
#[derive(Clone, Copy, Debug)]
pub struct Keepalive {
    period: Option<Duration>,
    state: State,
}

impl Keepalive {
    /// Asks a server that was silent for `period`, and takes as long for its silence after that; none or zero: never.
    #[must_use]
    pub fn new(period: Option<Duration>) -> Self {
        Self { period: period.filter(|period| !period.is_zero()), state: State::Heard(Instant::ZERO) }
    }

    /// Changes the period. What the server owes since its last question it has a full period for; and a server that was
    /// heard is asked when it was silent for the new one.
    pub fn set_period(&mut self, now: Instant, period: Option<Duration>) {
        self.period = period.filter(|period| !period.is_zero());
        if self.is_asked() {
            self.state = State::Asked(now);
        } else if self.period.is_none() {
            self.state = State::Heard(now);
        }
    }

    /// The server said something: it is there, and what was asked need not be answered any more.
    pub const fn heard(&mut self, now: Instant) {
        self.state = State::Heard(now);
    }

    /// Whether an answer is owed.
    #[must_use]
    pub const fn is_asked(&self) -> bool {
        matches!(self.state, State::Asked(_))
    }

    /// Time has passed; early, late and repeated calls do no harm. Returns whether the server has become silent.
    #[must_use]
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        let Some(period) = self.period else { return false };
        let (at, silent) = match self.state {
            State::Heard(at) => (at, false),
            State::Asked(at) => (at, true),
            State::Due => return false,
        };
        if now < at.after(period) {
            return false;
        }
        self.state = State::Due;
        silent
    }

    /// Adds what is awaited.
    pub fn timetable(&self, table: &mut Timetable) {
        let Some(period) = self.period else { return };
        match self.state {
            State::Heard(at) => table.set(Reason::Keepalive, at.after(period)),
            State::Asked(at) => table.set(Reason::KeepaliveAnswer, at.after(period)),
            State::Due => {}
        }
    }

    /// Whether the server is to be asked now; the question counts as put.
    #[must_use]
    pub fn poll_question(&mut self, now: Instant) -> bool {
        let due = self.state == State::Due;
        if due {
            self.state = State::Asked(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    fn awaits(keepalive: &Keepalive) -> Option<(Instant, Reason)> {
        let mut table = Timetable::new();
        keepalive.timetable(&mut table);
        table.next()
    }

    #[test]
    fn asks_and_asks_again() {
        let mut keepalive = Keepalive::new(Some(Duration::from_secs(30)));
        keepalive.heard(at(5));
        assert_eq!(awaits(&keepalive), Some((at(35), Reason::Keepalive)));
        assert!(!keepalive.handle_timeout(at(34)) && !keepalive.poll_question(at(34)));
        assert!(!keepalive.handle_timeout(at(35)));
        assert!(!keepalive.handle_timeout(at(35)));
        assert!(keepalive.poll_question(at(35)) && !keepalive.poll_question(at(35)), "once");
        assert_eq!(awaits(&keepalive), Some((at(65), Reason::KeepaliveAnswer)));
        assert!(keepalive.handle_timeout(at(65)), "silent");
        assert!(!keepalive.handle_timeout(at(65)), "said once");
        assert!(keepalive.poll_question(at(65)));
        keepalive.heard(at(66));
        assert_eq!(awaits(&keepalive), Some((at(96), Reason::Keepalive)));
    }

    #[test]
    fn another_period_counts_from_the_same_silence() {
        let mut keepalive = Keepalive::new(None);
        keepalive.heard(at(5));
        keepalive.set_period(at(10), Some(Duration::from_secs(30)));
        assert_eq!(awaits(&keepalive), Some((at(35), Reason::Keepalive)));
        keepalive.set_period(at(20), Some(Duration::from_secs(10)));
        assert_eq!(awaits(&keepalive), Some((at(15), Reason::Keepalive)), "over already");
        assert!(!keepalive.handle_timeout(at(20)) && keepalive.poll_question(at(20)));
        // Nobody is silent because the period got shorter while it thought.
        keepalive.set_period(at(29), Some(Duration::from_secs(2)));
        assert!(!keepalive.handle_timeout(at(30)));
        assert_eq!(awaits(&keepalive), Some((at(31), Reason::KeepaliveAnswer)));
        keepalive.set_period(at(30), None);
        assert!(!keepalive.handle_timeout(at(1000)));
        assert_eq!(awaits(&keepalive), None);
        // One that is due is not asked any more.
        let mut keepalive = Keepalive::new(Some(Duration::from_secs(1)));
        assert!(!keepalive.handle_timeout(at(1)));
        keepalive.set_period(at(1), None);
        assert!(!keepalive.poll_question(at(1)));
    }

    #[test]
    fn none_and_nothing_are_never() {
        for period in [None, Some(Duration::ZERO)] {
            let mut keepalive = Keepalive::new(period);
            assert!(!keepalive.handle_timeout(at(1_000)));
            assert!(!keepalive.poll_question(at(1_000)));
            assert_eq!(awaits(&keepalive), None);
        }
    }
}
