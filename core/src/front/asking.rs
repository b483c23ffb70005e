//! Requests that drowse puts to legacy clients, on behalf of servers.
//!
//! A group is what is asked at once for one call: the one question of a legacy server, or all that a modern server wants
//! before it is asked again ([`super::round`]). Owns the ids on the wire, who may answer, how many are open, and when an
//! answer is waited for no longer. The frames stay outside, under the group's [`number`](GroupKey::number).

use super::round::MAX_INPUTS;
use crate::link;
use crate::time::{Duration, Instant};

/// How many groups of one client are open at once.
pub const PER_CLIENT: usize = 16;
/// How long answers are waited for.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// Ids of one group.
const PLACES: u64 = MAX_INPUTS as u64;

/// For what a group asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Subject {
    /// For a call that is with a legacy server.
    Call(link::Key),
    /// For a call that a modern server gave back.
    Round,
}

/// Names a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct GroupKey {
    index: u16,
    number: u64,
}

impl GroupKey {
    /// Its number, which no other group has or had.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }

    /// The id of the request in that place.
    #[must_use]
    pub const fn id(self, place: u8) -> u64 {
        self.number.saturating_mul(PLACES).saturating_add(place as u64)
    }
}

/// Why a group is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Why {
    /// The client did not answer.
    Silent,
    /// The call is over.
    Over,
    /// The client is gone.
    Gone,
}

/// A group ended before it was answered. Its requests that are open are withdrawn, save where the client is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ended {
    /// Which.
    pub group: GroupKey,
    /// Whom it asked.
    pub client: u64,
    /// For what.
    pub subject: Subject,
    /// The places that were not answered, as bits.
    pub open: u8,
    /// Why.
    pub why: Why,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Group {
    number: u64,
    client: u64,
    subject: Subject,
    open: u8,
    expires: Instant,
    ended: Option<Why>,
}

/// Storage for one group.
#[derive(Clone, Copy, Debug)]
pub struct Slot(Option<Group>);

impl Slot {
    /// A slot that is not in use.
    pub const EMPTY: Self = Self(None);
}

/// There is no room for another group, or it asks too much or nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Full;

/// All that is asked. `S` is the storage.
#[derive(Clone, Debug)]
pub struct Asking<S> {
    slots: S,
    next: u64,
    used: usize,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Asking<S> {
    /// Takes the storage; at most 65,535 slots of it are used.
    #[must_use]
    pub const fn new(slots: S) -> Self {
        Self { slots, next: 0, used: 0 }
    }

    /// How many groups are open.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used
    }

    /// A client is asked `count` things. The ids are those of the places below `count`.
    ///
    /// # Errors
    /// If there is no room; nothing changed.
    pub fn ask(
        &mut self,
        now: Instant,
        client: u64,
        subject: Subject,
        count: usize,
    ) -> Result<GroupKey, Full> {
        if count == 0
            || count > MAX_INPUTS
            || self.groups().filter(|(_, one)| one.client == client).count() >= PER_CLIENT
        {
            return Err(Full);
        }
        let open = u8::MAX >> (MAX_INPUTS - count);
        let number = self.next;
        let slots = self.slots.as_mut().iter_mut().take(usize::from(u16::MAX));
        let (index, slot) = (0_u16..).zip(slots).find(|(_, slot)| slot.0.is_none()).ok_or(Full)?;
        let expires = now.after(PATIENCE);
        *slot = Slot(Some(Group { number, client, subject, open, expires, ended: None }));
        self.next = self.next.wrapping_add(1);
        self.used += 1;
        Ok(GroupKey { index, number })
    }

    /// The group and the place that an id of that client's answer names, if it still waits for that.
    #[must_use]
    pub fn find(&self, client: u64, id: u64) -> Option<(GroupKey, u8)> {
        let (number, place) = (id / PLACES, (id % PLACES) as u8);
        let (key, group) = self.groups().find(|(key, _)| key.number == number)?;
        (group.client == client && group.ended.is_none() && group.open >> place & 1 == 1)
            .then_some((key, place))
    }

    /// Whether all but that place is answered.
    #[must_use]
    pub fn is_last(&self, key: GroupKey, place: u8) -> bool {
        self.get(key).is_some_and(|group| group.open == 1 << place)
    }

    /// For what a group asks.
    #[must_use]
    pub fn subject(&self, key: GroupKey) -> Option<Subject> {
        self.get(key).map(|group| group.subject)
    }

    /// Whom a group asks.
    #[must_use]
    pub fn client(&self, key: GroupKey) -> Option<u64> {
        self.get(key).map(|group| group.client)
    }

    /// A client has answered. `true`: that was the last answer, and the group is no more.
    pub fn handle_answer(&mut self, key: GroupKey, place: u8) -> bool {
        let Some(slot) = self.slots.as_mut().get_mut(usize::from(key.index)) else { return false };
        let Some(group) = slot.0.as_mut().filter(|group| group.number == key.number && place < 8) else {
            return false;
        };
        group.open &= !(1 << place);
        if group.open != 0 || group.ended.is_some() {
            return false;
        }
        *slot = Slot::EMPTY;
        self.used = self.used.saturating_sub(1);
        true
    }

    /// Whether something is still asked for that call.
    #[must_use]
    pub fn is_asked_for(&self, call: link::Key) -> bool {
        self.groups().any(|(_, group)| group.ended.is_none() && group.subject == Subject::Call(call))
    }

    /// A call is over, whatever was asked for it.
    pub fn handle_call_over(&mut self, call: link::Key) {
        self.end(Why::Over, |group| group.subject == Subject::Call(call));
    }

    /// A group is over, for its call is.
    pub fn handle_over(&mut self, key: GroupKey) {
        self.end(Why::Over, |group| group.number == key.number);
    }

    /// A client is gone.
    pub fn handle_client_gone(&mut self, client: u64) {
        self.end(Why::Gone, |group| group.client == client);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.end(Why::Silent, |group| now >= group.expires);
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.used == 0 {
            return None;
        }
        self.groups().filter(|(_, group)| group.ended.is_none()).map(|(_, group)| group.expires).min()
    }

    /// The next group that is over; takes it back.
    pub fn poll_ended(&mut self) -> Option<Ended> {
        if self.used == 0 {
            return None;
        }
        let slots = (0_u16..).zip(self.slots.as_mut());
        for (index, slot) in slots {
            if let Some(Group { number, client, subject, open, ended: Some(why), .. }) = slot.0 {
                *slot = Slot::EMPTY;
                self.used = self.used.saturating_sub(1);
                return Some(Ended { group: GroupKey { index, number }, client, subject, open, why });
            }
        }
        None
    }

    fn end(&mut self, why: Why, which: impl Fn(&Group) -> bool) {
        if self.used == 0 {
            return;
        }
        for group in self.slots.as_mut().iter_mut().filter_map(|slot| slot.0.as_mut()) {
            if which(group) {
                // Whoever is gone is told nothing, whatever else ended it.
                let gone = why == Why::Gone;
                group.ended = if gone { Some(why) } else { group.ended.or(Some(why)) };
            }
        }
    }

    fn groups(&self) -> impl Iterator<Item = (GroupKey, Group)> {
        let slots = (0_u16..).zip(self.slots.as_ref());
        slots
            .filter_map(|(index, slot)| slot.0.map(|group| (GroupKey { index, number: group.number }, group)))
    }

    fn get(&self, key: GroupKey) -> Option<Group> {
        self.slots.as_ref().get(usize::from(key.index))?.0.filter(|group| group.number == key.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_micros(1_000_000);

    fn asking() -> Asking<[Slot; 20]> {
        Asking::new([Slot::EMPTY; 20])
    }

    #[test]
    fn an_answer_counts_once_and_only_from_whom_was_asked() {
        let mut asking = asking();
        let group = asking.ask(NOW, 1, Subject::Round, 2).unwrap();
        let other = asking.ask(NOW, 2, Subject::Round, 1).unwrap();
        assert_eq!(asking.find(1, group.id(1)), Some((group, 1)));
        assert_eq!(asking.find(2, group.id(1)), None);
        assert_eq!(asking.find(1, group.id(2)), None);
        assert!(!asking.is_last(group, 1));
        assert!(!asking.handle_answer(group, 1));
        assert_eq!(asking.find(1, group.id(1)), None);
        assert!(asking.is_last(group, 0));
        assert!(asking.handle_answer(group, 0));
        assert!(!asking.handle_answer(group, 0));
        assert_eq!((asking.used(), asking.find(1, group.id(0))), (1, None));
        assert_eq!(asking.find(2, other.id(0)), Some((other, 0)));
    }

    #[test]
    fn silence_and_absence_end_it() {
        let mut asking = asking();
        let one = asking.ask(NOW, 1, Subject::Round, 8).unwrap();
        asking.handle_answer(one, 3);
        assert_eq!(asking.poll_timeout(), Some(NOW.after(PATIENCE)));
        asking.handle_timeout(NOW);
        assert_eq!(asking.poll_ended(), None);
        asking.handle_timeout(NOW.after(PATIENCE));
        assert_eq!((asking.find(1, one.id(0)), asking.poll_timeout()), (None, None));
        asking.handle_client_gone(1);
        let ended = asking.poll_ended().unwrap();
        assert_eq!((ended.group, ended.open, ended.why), (one, 0b1111_0111, Why::Gone));
        assert_eq!((asking.used(), asking.poll_ended()), (0, None));
    }

    #[test]
    fn there_is_room_for_so_many_and_for_others_too() {
        let mut asking = asking();
        for _ in 0..PER_CLIENT {
            asking.ask(NOW, 1, Subject::Round, 1).unwrap();
        }
        assert_eq!(asking.ask(NOW, 1, Subject::Round, 1), Err(Full));
        for count in [0, 9] {
            assert_eq!(asking.ask(NOW, 2, Subject::Round, count), Err(Full));
        }
        for _ in PER_CLIENT..20 {
            asking.ask(NOW, 2, Subject::Round, 1).unwrap();
        }
        assert_eq!(asking.ask(NOW, 3, Subject::Round, 1), Err(Full));
        asking.handle_client_gone(1);
        while asking.poll_ended().is_some() {}
        assert_eq!(asking.used(), 4);
    }
}
