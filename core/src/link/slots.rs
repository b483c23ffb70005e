//! Where requests are kept: the caller's storage, and the lists through it.
//!
//! Every slot is in one list or in none: free, queued or failing, or with the server. Keys of requests that are gone
//! find nothing, since a slot counts its requests.

use super::{Key, OWN_INDEX, Request};

/// Stands for no slot: an index that no slot has.
const NONE: u16 = OWN_INDEX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Content {
    Free,
    Used(Request),
}

/// Room for one request. The caller provides the storage: an array on a device, a boxed slice on a host.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    generation: u32,
    next: u16,
    previous: u16,
    content: Content,
}

impl Slot {
    /// An unused slot.
    pub const EMPTY: Self = Self { generation: 0, next: NONE, previous: NONE, content: Content::Free };
}

/// A first-in-first-out list through the slots.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u16,
    tail: u16,
}

impl List {
    const EMPTY: Self = Self { head: NONE, tail: NONE };
}

#[derive(Clone, Copy)]
pub(super) enum Which {
    Free,
    Queued,
    Failing,
}

/// The slots, and which of them are free, queued and failing.
#[derive(Clone, Debug)]
pub(super) struct Slots<S> {
    storage: S,
    free: List,
    queued: List,
    failing: List,
    used: usize,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Slots<S> {
    pub(super) fn new(storage: S) -> Self {
        let mut slots =
            Self { storage, free: List::EMPTY, queued: List::EMPTY, failing: List::EMPTY, used: 0 };
        for index in 0..slots.count() {
            let index = index as u16;
            if let Some(slot) = slots.slot_mut(index) {
                *slot = Slot::EMPTY;
            }
            slots.link(Which::Free, NONE, index);
        }
        slots
    }

    /// How many are in use.
    pub(super) const fn used(&self) -> usize {
        self.used
    }

    /// How many can be used at all.
    pub(super) fn count(&self) -> usize {
        self.storage.as_ref().len().min(usize::from(NONE))
    }

    /// Takes a free slot; in no list so far.
    pub(super) fn insert(&mut self, request: Request) -> Option<Key> {
        let index = self.list(Which::Free).head;
        let slot = self.slot_mut(index)?;
        slot.content = Content::Used(request);
        let generation = slot.generation;
        self.unlink_index(Which::Free, index);
        self.used += 1;
        Some(Key { index, generation })
    }

    /// Gives back a slot that is in no list.
    pub(super) fn remove(&mut self, key: Key) {
        if self.get(key).is_none() {
            return;
        }
        if let Some(slot) = self.slot_mut(key.index) {
            slot.content = Content::Free;
            slot.generation = slot.generation.wrapping_add(1);
        }
        self.used = self.used.saturating_sub(1);
        // Last in, first out keeps the slots in use few and near each other.
        self.link(Which::Free, self.free.head, key.index);
    }

    /// The request in the slot of that index.
    pub(super) fn at(&self, index: u16) -> Option<(Key, Request)> {
        let slot = self.slot(index)?;
        match slot.content {
            Content::Used(request) => Some((Key { index, generation: slot.generation }, request)),
            Content::Free => None,
        }
    }

    pub(super) fn get(&self, key: Key) -> Option<Request> {
        self.at(key.index).filter(|(found, _)| *found == key).map(|(_, request)| request)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Request> {
        let slot = self.slot_mut(key.index)?;
        match &mut slot.content {
            Content::Used(request) if slot.generation == key.generation => Some(request),
            _ => None,
        }
    }

    /// Every request.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        self.storage.as_mut().iter_mut().filter_map(|slot| match &mut slot.content {
            Content::Used(request) => Some(request),
            Content::Free => None,
        })
    }

    pub(super) const fn is_empty(&self, which: Which) -> bool {
        self.list(which).head == NONE
    }

    /// The first request of a list.
    pub(super) fn first(&self, which: Which) -> Option<(Key, Request)> {
        self.at(self.list(which).head)
    }

    /// The request after that one, in its list.
    pub(super) fn after(&self, key: Key) -> Option<(Key, Request)> {
        self.at(self.slot(key.index)?.next)
    }

    pub(super) fn push_back(&mut self, which: Which, key: Key) {
        self.link(which, NONE, key.index);
    }

    /// Puts a slot into a list before another one of it, or at its end.
    pub(super) fn insert_before(&mut self, which: Which, next: Option<Key>, key: Key) {
        self.link(which, next.map_or(NONE, |next| next.index), key.index);
    }

    pub(super) fn unlink(&mut self, which: Which, key: Key) {
        self.unlink_index(which, key.index);
    }

    // `NONE` is no slot, however large the storage.

    fn slot(&self, index: u16) -> Option<&Slot> {
        if index == NONE { None } else { self.storage.as_ref().get(usize::from(index)) }
    }

    fn slot_mut(&mut self, index: u16) -> Option<&mut Slot> {
        if index == NONE { None } else { self.storage.as_mut().get_mut(usize::from(index)) }
    }

    const fn list(&self, which: Which) -> List {
        match which {
            Which::Free => self.free,
            Which::Queued => self.queued,
            Which::Failing => self.failing,
        }
    }

    const fn list_mut(&mut self, which: Which) -> &mut List {
        match which {
            Which::Free => &mut self.free,
            Which::Queued => &mut self.queued,
            Which::Failing => &mut self.failing,
        }
    }

    fn link(&mut self, which: Which, next: u16, index: u16) {
        let previous = match self.slot_mut(next) {
            Some(slot) => core::mem::replace(&mut slot.previous, index),
            None => core::mem::replace(&mut self.list_mut(which).tail, index),
        };
        match self.slot_mut(previous) {
            Some(slot) => slot.next = index,
            None => self.list_mut(which).head = index,
        }
        if let Some(slot) = self.slot_mut(index) {
            slot.next = next;
            slot.previous = previous;
        }
    }

    fn unlink_index(&mut self, which: Which, index: u16) {
        let Some(slot) = self.slot_mut(index) else { return };
        let (next, previous) = (slot.next, slot.previous);
        slot.next = NONE;
        slot.previous = NONE;
        match self.slot_mut(previous) {
            Some(slot) => slot.next = next,
            None => self.list_mut(which).head = next,
        }
        match self.slot_mut(next) {
            Some(slot) => slot.previous = previous,
            None => self.list_mut(which).tail = previous,
        }
    }
}
