//! Where listeners, what they want, and the URIs of resources are kept: the caller's storage.
//!
//! Keys of what is gone find nothing, since a slot counts its occupants.

use super::{Lists, Why};
use crate::link::Key;
use crate::time::Instant;

/// More slots than this are not used.
const MOST: usize = u16::MAX as usize;

/// A client's `subscriptions/listen`: its slot, and which of the slot's occupants it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Listener {
    pub(super) index: u16,
    pub(super) generation: u32,
}

impl Listener {
    /// Index of the slot: where the caller keeps the request's id.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// The URI of a resource that somebody wants to hear of, or a task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Uri {
    pub(super) index: u16,
    pub(super) generation: u32,
}

impl Uri {
    /// Index of the slot: where the caller keeps the text.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// How far a listener is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// What it wants is still being said.
    Opening,
    /// It waits for the server, under this key.
    Queued(Key),
    /// The server is being asked for what it wants.
    Asking,
    /// It was told what it will hear.
    Live,
}

/// A client that listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Client {
    pub(super) stage: Stage,
    pub(super) lists: Lists,
    /// Lists whose change it has not been told.
    pub(super) due: Lists,
    /// It takes what it is told; otherwise it is told later, and once.
    pub(super) hears: bool,
    /// Of its URIs: those that the server has not answered for, and those that it will hear of.
    pub(super) pending: u16,
    pub(super) held: u16,
    /// For how much it counts.
    pub(super) weight: u16,
    /// The first of its URIs that was refused.
    pub(super) refused: Option<(Why, Uri)>,
}

/// How a URI stands with the server of this generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// It was not asked for it.
    Unasked,
    /// It was asked, in the legacy era by a request of that id.
    Asked { wire: u64, by: Instant },
    /// It announces updates of it.
    Held,
    /// It was asked to stop.
    Leaving { wire: u64, by: Instant },
    /// It refused, and is asked again only for somebody new, or in the next generation.
    Refused(Why),
}

/// A URI that is wanted, or was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Topic {
    /// How many want it.
    pub(super) wants: u16,
    pub(super) standing: Standing,
    /// It was heard of before and then not for a while: it may have changed meanwhile.
    pub(super) stale: bool,
    /// It is named by the modern stream that is open, and by the one that is being opened.
    pub(super) in_current: bool,
    pub(super) in_next: bool,
    /// The acknowledgement names it.
    pub(super) honoured: bool,
    /// While there are two streams: how many more updates came on the older one.
    pub(super) ahead: i16,
    /// It is no URI but a task.
    pub(super) is_task: bool,
}

impl Topic {
    pub(super) const NEW: Self = Self {
        wants: 0,
        standing: Standing::Unasked,
        stale: false,
        in_current: false,
        in_next: false,
        honoured: false,
        ahead: 0,
        is_task: false,
    };
}

/// How one client stands to one URI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hearing {
    Pending,
    Held,
    Refused,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Want {
    pub(super) listener: u16,
    pub(super) topic: u16,
    pub(super) hearing: Hearing,
    /// It has not been told of the last update.
    pub(super) due: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    Free,
    Client(Client),
    Topic(Topic),
    Want(Want),
}

/// Room for one listener, one URI, or one listener's wish to hear of one URI. The caller provides the storage: an array
/// on a device, a boxed slice on a host.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    generation: u32,
    content: Content,
}

impl Slot {
    /// An unused slot.
    pub const EMPTY: Self = Self { generation: 0, content: Content::Free };
}

/// The slots.
#[derive(Clone, Debug)]
pub(super) struct Slots<R> {
    storage: R,
    used: usize,
    /// None below is free.
    full: u16,
    /// All from here on are.
    top: u16,
}

impl<R: AsRef<[Slot]> + AsMut<[Slot]>> Slots<R> {
    pub(super) fn new(mut storage: R) -> Self {
        storage.as_mut().fill(Slot::EMPTY);
        Self { storage, used: 0, full: 0, top: 0 }
    }

    /// Moves into a larger storage, and gives the other one back.
    pub(super) fn grow(&mut self, mut storage: R) -> R {
        let slots = storage.as_mut();
        if slots.len() <= self.storage.as_ref().len() {
            return storage;
        }
        slots.fill(Slot::EMPTY);
        for (to, from) in slots.iter_mut().zip(self.storage.as_ref()) {
            *to = *from;
        }
        core::mem::replace(&mut self.storage, storage)
    }

    fn room(&self) -> u16 {
        self.storage.as_ref().len().min(MOST) as u16
    }

    /// Whatever is there has an index below.
    pub(super) const fn count(&self) -> u16 {
        self.top
    }

    pub(super) const fn used(&self) -> usize {
        self.used
    }

    pub(super) fn free(&self) -> usize {
        usize::from(self.room()).saturating_sub(self.used)
    }

    pub(super) fn at(&self, index: u16) -> Content {
        self.storage.as_ref().get(usize::from(index)).map_or(Content::Free, |slot| slot.content)
    }

    fn is_free(&self, index: u16) -> bool {
        self.storage.as_ref().get(usize::from(index)).is_none_or(|slot| slot.content == Content::Free)
    }

    pub(super) fn generation(&self, index: u16) -> u32 {
        self.storage.as_ref().get(usize::from(index)).map_or(0, |slot| slot.generation)
    }

    pub(super) fn insert(&mut self, content: Content) -> Option<u16> {
        let index = (self.full..self.room()).find(|index| self.is_free(*index))?;
        self.storage.as_mut().get_mut(usize::from(index))?.content = content;
        self.used += 1;
        self.full = index.saturating_add(1);
        self.top = self.top.max(self.full);
        Some(index)
    }

    pub(super) fn remove(&mut self, index: u16) {
        if let Some(slot) = self.storage.as_mut().get_mut(usize::from(index))
            && slot.content != Content::Free
        {
            slot.content = Content::Free;
            slot.generation = slot.generation.wrapping_add(1);
            self.used = self.used.saturating_sub(1);
            self.full = self.full.min(index);
            while self.top > 0 && self.is_free(self.top - 1) {
                self.top -= 1;
            }
        }
    }

    pub(super) fn client(&mut self, index: u16) -> Option<&mut Client> {
        match self.storage.as_mut().get_mut(usize::from(index)).map(|slot| &mut slot.content) {
            Some(Content::Client(client)) => Some(client),
            _ => None,
        }
    }

    pub(super) fn topic(&mut self, index: u16) -> Option<&mut Topic> {
        match self.storage.as_mut().get_mut(usize::from(index)).map(|slot| &mut slot.content) {
            Some(Content::Topic(topic)) => Some(topic),
            _ => None,
        }
    }

    pub(super) fn want(&mut self, index: u16) -> Option<&mut Want> {
        match self.storage.as_mut().get_mut(usize::from(index)).map(|slot| &mut slot.content) {
            Some(Content::Want(want)) => Some(want),
            _ => None,
        }
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = (u16, Client)> {
        (0..self.count()).filter_map(|index| match self.at(index) {
            Content::Client(client) => Some((index, client)),
            _ => None,
        })
    }

    pub(super) fn topics(&self) -> impl Iterator<Item = (u16, Topic)> {
        (0..self.count()).filter_map(|index| match self.at(index) {
            Content::Topic(topic) => Some((index, topic)),
            _ => None,
        })
    }

    pub(super) fn wants(&self) -> impl Iterator<Item = (u16, Want)> {
        (0..self.count()).filter_map(|index| match self.at(index) {
            Content::Want(want) => Some((index, want)),
            _ => None,
        })
    }

    pub(super) fn listener(&self, index: u16) -> Listener {
        Listener { index, generation: self.generation(index) }
    }

    pub(super) fn uri(&self, index: u16) -> Uri {
        Uri { index, generation: self.generation(index) }
    }
}
