//! How much room there is for those who listen, and for whom.
//!
//! Slots are memory alone, of which the caller adds more where there is any ([`Relay::grow`]). What is bounded is what
//! clients ask for by name: a subscription is one client's wish to hear of one URI or task, or a stream without any.

use super::{Listener, Relay, Slot};
use crate::relay::slots::Content;

/// How many subscriptions one client may have for each that there is still room for.
const SHARE: usize = 4;

/// There is no room for so many more subscriptions of that client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Crowded {
    /// How many there are, of all clients.
    pub used: usize,
    /// How many of them are that client's.
    pub theirs: usize,
    /// How many there may be, of all clients.
    pub limit: usize,
}

impl<R: AsRef<[Slot]> + AsMut<[Slot]>> Relay<R> {
    /// Changes how many subscriptions there may be; those that there are stay.
    pub const fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Moves into a larger storage. Gives back the one before, or the one given if that is no larger.
    pub fn grow(&mut self, slots: R) -> R {
        self.slots.grow(slots)
    }

    /// Whether a client may have so many more subscriptions. As of requests, nobody gets more than four times as many
    /// as there is still room for, so that whoever else comes finds some. `theirs`, how many it has, is called only where
    /// it matters.
    ///
    /// # Errors
    /// If it has too many, or all together have.
    pub fn admit(&self, more: usize, theirs: impl FnOnce() -> usize) -> Result<(), Crowded> {
        let before = more.saturating_sub(1);
        let all = self.weight.saturating_add(before);
        let share = self.limit.saturating_sub(all).saturating_mul(SHARE);
        // Nobody has more than all.
        if all < share {
            return Ok(());
        }
        let theirs = theirs();
        if theirs.saturating_add(before) < share {
            return Ok(());
        }
        Err(Crowded { used: self.weight, theirs, limit: self.limit })
    }

    /// A listener counts for so many subscriptions. Until then it counts for none, like one that only hears what is not
    /// asked for by name, and that everybody has a place for.
    pub fn weigh(&mut self, listener: Listener, weight: u16) {
        let Some(client) = self.client(listener) else { return };
        let before = core::mem::replace(&mut client.weight, weight);
        self.weight = self.weight.saturating_sub(usize::from(before)).saturating_add(usize::from(weight));
    }

    /// For how many subscriptions it counts.
    #[must_use]
    pub fn weight_of(&self, listener: Listener) -> usize {
        match self.slots.at(listener.index) {
            Content::Client(client) if self.slots.generation(listener.index) == listener.generation => {
                usize::from(client.weight)
            }
            _ => 0,
        }
    }

    /// How many slots are free.
    #[must_use]
    pub fn free(&self) -> usize {
        self.slots.free()
    }
}

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod tests {
    use std::boxed::Box;
    use std::vec;

    use super::super::{Full, Lists};
    use super::*;
    use crate::time::Duration;

    fn relay() -> Relay<Box<[Slot]>> {
        let storage = vec![Slot::EMPTY; 4].into_boxed_slice();
        let mut relay = Relay::new(storage, Duration::from_secs(1), Duration::ZERO);
        relay.set_limit(100);
        relay
    }

    fn larger(slots: usize) -> Box<[Slot]> {
        vec![Slot::EMPTY; slots].into_boxed_slice()
    }

    #[test]
    fn nobody_takes_all_the_room_for_subscriptions() {
        let mut relay = relay();
        relay.grow(larger(400));
        let greedy = relay.attach(Lists::NONE).unwrap();
        // At once, or one by one.
        assert_eq!(relay.admit(80, || 0), Ok(()));
        relay.weigh(greedy, 79);
        assert_eq!(relay.admit(1, || 79), Ok(()));
        relay.weigh(greedy, 0);
        assert_eq!(relay.admit(81, || 0), Err(Crowded { used: 0, theirs: 0, limit: 100 }));
        relay.weigh(greedy, 80);
        assert_eq!(relay.admit(1, || 80), Err(Crowded { used: 80, theirs: 80, limit: 100 }));
        assert_eq!((relay.admit(16, || 0), relay.weight_of(greedy)), (Ok(()), 80));
        assert!(relay.admit(17, || 0).is_err(), "nor of what is left");
        // Who hears of lists as all do counts for nothing.
        for _ in 0..200 {
            relay.attach(Lists::ALL).unwrap();
        }
        assert_eq!(relay.admit(16, || 0), Ok(()));
        relay.close(greedy);
        assert_eq!((relay.admit(80, || 0), relay.weight_of(greedy)), (Ok(()), 0));
        assert!(relay.admit(usize::MAX, || usize::MAX).is_err());
    }

    #[test]
    fn more_storage_keeps_what_there_is() {
        let mut relay = relay();
        let one = relay.attach(Lists::NONE).unwrap();
        let uri = relay.want(one, None).unwrap();
        let two = relay.attach(Lists::NONE).unwrap();
        assert_eq!((relay.free(), relay.want(two, None)), (0, Err(Full)));
        assert_eq!(relay.grow(larger(3)).len(), 3, "that would be less");
        assert_eq!(relay.grow(larger(9)).len(), 4);
        assert_eq!((relay.free(), relay.used()), (5, 4));
        let other = relay.want(two, None).unwrap();
        assert_ne!(uri, other);
        assert!(relay.is_wanted(uri) && relay.is_wanted(other));
        // What is gone leaves its place to the next, and its key finds nothing.
        relay.close(one);
        let three = relay.attach(Lists::NONE).unwrap();
        assert_eq!(three.index(), one.index());
        relay.weigh(one, 5);
        assert_eq!((relay.weight_of(one), relay.weight_of(three)), (0, 0));
    }
}
