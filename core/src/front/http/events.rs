//! What is kept of a session's streams, so that a client that lost one can ask for the rest (2025-11-25,
//! basic/transports, Resumability and Redelivery).
//!
//! The [`Log`] knows which event is of which stream and how long it is; the events themselves are the adapter's, in a queue
//! beside it: oldest first, and as many as the log [says](Log::push) go from its front.

use core::iter::FusedIterator;

use heapless::Vec;

use super::Refusal;
use crate::message::Writer;

/// Of so many streams it is known exactly what was lost of them.
const LOST: usize = 16;
/// The stream of what belongs to no request.
pub const STANDING: u32 = 0;

/// The id of an event. No other one of the session has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct EventId {
    /// Its stream.
    pub stream: u32,
    /// Its number in the session.
    pub number: u64,
}

impl EventId {
    /// Reads a `Last-Event-ID`.
    #[must_use]
    pub fn read(text: &[u8]) -> Option<Self> {
        let at = text.iter().position(|byte| *byte == b'-')?;
        let (stream, number) = text.split_at_checked(at)?;
        let number = number.split_first()?.1;
        Some(Self { stream: u32::try_from(decimal(stream)?).ok()?, number: decimal(number)? })
    }

    /// Writes it as the `id` of an event.
    pub fn write(self, w: &mut Writer<'_>) {
        w.number(u64::from(self.stream));
        w.raw(b"-");
        w.number(self.number);
    }
}

/// A number that is written as drowse writes it, and in no other way.
fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 1 && text.first() == Some(&b'0') {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte & 15))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// Storage for an event.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    id: EventId,
    length: usize,
}

impl Slot {
    /// Of none.
    pub const EMPTY: Self = Self { id: EventId { stream: 0, number: 0 }, length: 0 };
}

/// What is kept.
#[derive(Clone, Debug)]
pub struct Log<S> {
    slots: S,
    /// The place of the oldest one.
    first: usize,
    count: usize,
    bytes: usize,
    limit: usize,
    /// The number of the next event.
    next: u64,
    /// The last event that was lost of a stream.
    lost: Vec<(u32, u64), LOST>,
    /// The same for all streams that are not among them.
    lost_of_any: u64,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Log<S> {
    /// Nothing is kept, and at most `limit` bytes will be.
    pub const fn new(limit: usize, slots: S) -> Self {
        Self { slots, first: 0, count: 0, bytes: 0, limit, next: 1, lost: Vec::new(), lost_of_any: 0 }
    }

    /// An id for an event that need not be kept, as it says nothing.
    pub const fn number(&mut self, stream: u32) -> EventId {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        EventId { stream, number }
    }

    /// Keeps an event of a stream. Gives how many of the oldest are gone for that; where it is too long to be kept, those
    /// are all, and it itself is lost.
    pub fn push(&mut self, id: EventId, length: usize) -> Pushed {
        let capacity = self.slots.as_ref().len();
        let mut gone = 0;
        let fits = length <= self.limit && capacity > 0;
        while self.count > 0
            && (!fits || self.count >= capacity || self.bytes.saturating_add(length) > self.limit)
        {
            self.lose_first();
            gone += 1;
        }
        if !fits {
            self.lose(id);
            return Pushed { gone, kept: false };
        }
        let place = self.place(self.count);
        if let Some(slot) = self.slots.as_mut().get_mut(place) {
            *slot = Slot { id, length };
        }
        self.count += 1;
        self.bytes = self.bytes.saturating_add(length);
        Pushed { gone, kept: true }
    }

    /// The events of a stream that came after `last`: their places in the queue, and their ids.
    ///
    /// # Errors
    /// If one of them is lost, or there never was such an event.
    pub fn after(&self, last: EventId) -> Result<After<'_, S>, Refusal> {
        let lost =
            self.lost.iter().find(|(stream, _)| *stream == last.stream).map_or(0, |(_, number)| *number);
        if last.number == 0 || last.number >= self.next || lost.max(self.lost_of_any) > last.number {
            return Err(Refusal::UnknownEvent);
        }
        Ok(After { log: self, last, at: 0 })
    }

    /// How many bytes are kept.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many events are kept.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    fn place(&self, at: usize) -> usize {
        let capacity = self.slots.as_ref().len();
        let place = self.first.saturating_add(at);
        if place >= capacity { place.saturating_sub(capacity) } else { place }
    }

    fn get(&self, at: usize) -> Option<&Slot> {
        self.slots.as_ref().get(self.place(at)).filter(|_| at < self.count)
    }

    fn lose_first(&mut self) {
        if let Some(slot) = self.get(0).copied() {
            self.bytes = self.bytes.saturating_sub(slot.length);
            self.lose(slot.id);
        }
        self.first = self.place(1);
        self.count = self.count.saturating_sub(1);
    }

    fn lose(&mut self, id: EventId) {
        match self.lost.iter_mut().find(|(stream, _)| *stream == id.stream) {
            Some((_, number)) => *number = (*number).max(id.number),
            None => {
                if self.lost.push((id.stream, id.number)).is_err()
                    && let Some(oldest) = self.lost.iter_mut().min_by_key(|(_, number)| *number)
                {
                    self.lost_of_any = self.lost_of_any.max(oldest.1);
                    *oldest = (id.stream, id.number);
                }
            }
        }
    }
}

/// What became of the queue beside a [`Log`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pushed {
    /// So many of the oldest are gone.
    pub gone: usize,
    /// The new one is kept: it goes to the end.
    pub kept: bool,
}

/// The events of a stream after one of them, see [`Log::after`].
#[derive(Clone, Debug)]
pub struct After<'l, S> {
    log: &'l Log<S>,
    last: EventId,
    at: usize,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Iterator for After<'_, S> {
    type Item = (usize, EventId);

    fn next(&mut self) -> Option<(usize, EventId)> {
        while let Some(slot) = self.log.get(self.at) {
            let at = self.at;
            self.at += 1;
            if slot.id.stream == self.last.stream && slot.id.number > self.last.number {
                return Some((at, slot.id));
            }
        }
        None
    }
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> FusedIterator for After<'_, S> {}
