//! A question of a server whose call is not known for certain, for the sake of clients that are away.
//!
//! A legacy client that lost the stream of a call may come back to it for as long as its session lasts, so its call is
//! not over, and neither is the question that waits for it there. Nor can it be told that what the server asks next is
//! not asked for that call as well. So whoever is away keeps others from being asked, and could do so until the time of
//! its question is over. It does not have to: after [`GRACE`] its question gives way to that of a client that is there.
//! The server is told that nobody answered; as a rule the call ends with that, and the other question is of the call
//! that is left. If it does not end within [`SETTLING`], it may have been the one that asked, and nobody is asked.

use super::{Principal, Unasked};
use crate::link::Key;
use crate::time::{Duration, Instant};

/// How long a client may be away before its open question gives way to another's.
pub const GRACE: Duration = Duration::from_secs(5);
/// How long a call may go on whose question gave way.
pub const SETTLING: Duration = Duration::from_secs(5);

/// Whether the open question of a client that has been away for so long gives way to another's.
#[must_use]
pub fn gives_way(away: Duration) -> bool {
    away >= GRACE
}

/// What becomes of the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Settled {
    /// It waits.
    NotYet,
    /// It waits, and the questions of those who have been away for [`GRACE`] are given up.
    GiveUpOthers,
    /// It belongs to that call.
    Of(Key),
    /// It is put to nobody.
    Refused(Unasked),
}

/// Such a question. Ask for [`next`](Self::next) whenever a call ended, a client came back, or its time is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Unsettled {
    principal: Principal,
    /// When it is looked at again.
    at: Instant,
    until: Instant,
    given_up: bool,
}

impl Unsettled {
    /// The question came now, and would be that principal's.
    #[must_use]
    pub fn new(now: Instant, principal: Principal) -> Self {
        let until = now.after(GRACE).after(SETTLING);
        Self { principal, at: now, until, given_up: false }
    }

    /// What becomes of it. `found`: what [`Held::attribute`](super::Held::attribute) says now, and whose call that is.
    pub fn next(&mut self, now: Instant, found: Result<(Key, Principal), Unasked>) -> Settled {
        let is_theirs = |principal: Principal| principal == self.principal;
        match found {
            Ok((key, principal)) if is_theirs(principal) => Settled::Of(key),
            // Those who came later did not ask it; and whoever was away is not told of what may be another's.
            Ok(_) => Settled::Refused(Unasked::Ambiguous),
            Err(Unasked::Unsettled { .. } | Unasked::Ambiguous) if now >= self.until => {
                Settled::Refused(Unasked::Ambiguous)
            }
            Err(Unasked::Unsettled { .. } | Unasked::Ambiguous) if self.given_up => Settled::NotYet,
            Err(Unasked::Unsettled { principal, away }) if is_theirs(principal) => {
                if gives_way(away) {
                    self.given_up = true;
                    self.until = now.after(SETTLING);
                    self.at = self.until;
                    return Settled::GiveUpOthers;
                }
                self.at = now.after(GRACE.saturating_sub(away)).min(self.until);
                Settled::NotYet
            }
            Err(Unasked::Unsettled { .. }) => Settled::Refused(Unasked::Ambiguous),
            Err(why) => Settled::Refused(why),
        }
    }

    /// When its time is over.
    #[must_use]
    pub const fn poll_timeout(&self) -> Instant {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: Principal = Principal(1);
    const BOB: Principal = Principal(2);

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(seconds * 1_000_000)
    }

    fn away(principal: Principal, seconds: u64) -> Result<(Key, Principal), Unasked> {
        Err(Unasked::Unsettled { principal, away: Duration::from_secs(seconds) })
    }

    #[test]
    fn who_was_away_for_long_enough_gives_way() {
        let short = GRACE.saturating_sub(Duration::from_micros(1));
        assert_eq!([short, GRACE].map(gives_way), [false, true]);
    }

    fn call(principal: Principal) -> Result<(Key, Principal), Unasked> {
        Ok((Key::from_wire(1 << 16 | 3).unwrap(), principal))
    }

    #[test]
    fn who_is_away_gives_way_after_a_while_and_the_other_is_asked_when_that_call_is_over() {
        let mut question = Unsettled::new(at(0), ANN);
        assert_eq!(question.next(at(0), away(ANN, 2)), Settled::NotYet);
        assert_eq!(question.poll_timeout(), at(3));
        assert_eq!(question.next(at(3), away(ANN, 5)), Settled::GiveUpOthers);
        assert_eq!(question.poll_timeout(), at(8));
        // Nothing of it is open any more, but the call is there.
        assert_eq!(question.next(at(4), Err(Unasked::Ambiguous)), Settled::NotYet);
        assert!(matches!(question.next(at(5), call(ANN)), Settled::Of(_)));
    }

    #[test]
    fn nobody_is_asked_as_long_as_it_may_be_anothers() {
        let refused = Settled::Refused(Unasked::Ambiguous);
        // It came back.
        let mut question = Unsettled::new(at(0), ANN);
        assert_eq!(question.next(at(0), away(ANN, 0)), Settled::NotYet);
        assert_eq!(question.next(at(1), Err(Unasked::Ambiguous)), refused);
        // Its call goes on.
        let mut question = Unsettled::new(at(0), ANN);
        assert_eq!(question.next(at(0), away(ANN, 60)), Settled::GiveUpOthers);
        assert_eq!(question.next(at(4), away(ANN, 64)), Settled::NotYet);
        assert_eq!(question.next(at(5), Err(Unasked::Ambiguous)), refused);
        // It comes and goes.
        let mut question = Unsettled::new(at(0), ANN);
        for now in 0..10 {
            assert_eq!(question.next(at(now), away(ANN, 1)), Settled::NotYet, "{now}");
            assert!(question.poll_timeout() > at(now) && question.poll_timeout() <= at(10));
        }
        assert_eq!(question.next(at(10), away(ANN, 1)), refused);
        // The call whose it would be is over, and others' are there now, or only that of who is away.
        for found in [away(BOB, 60), call(BOB)] {
            assert_eq!(Unsettled::new(at(0), ANN).next(at(1), found), refused);
        }
        let none = Unsettled::new(at(0), ANN).next(at(1), Err(Unasked::NoCall));
        assert_eq!(none, Settled::Refused(Unasked::NoCall));
    }
}
