//! The sessions of legacy clients: their ids, how long they last, and how many there may be.
//!
//! A session lasts as long as its client uses it: an open stream or a request under way keeps it, and so does each
//! request. Where all are in use, the one that was quiet for longest gives way, if nobody used it for [`SPARE`]: its client
//! is told that it is over, and begins another.

use super::{Limit, Refusal};
use crate::time::{Duration, Instant};

/// A session that was not used for that long gives way to a new one, if there is no room otherwise.
pub const SPARE: Duration = Duration::from_secs(60);
/// How long the id of a session is, in hexadecimal digits.
pub const ID_LENGTH: usize = 32;

/// Storage for a session.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    id: Option<u128>,
    used: Instant,
    /// Streams and requests that are open.
    open: usize,
}

impl Slot {
    /// Of none.
    pub const EMPTY: Self = Self { id: None, used: Instant::from_micros(0), open: 0 };
}

/// A session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SessionKey {
    index: usize,
    id: u128,
}

impl SessionKey {
    /// Its place in the storage.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index
    }

    /// Its id as it stands in `Mcp-Session-Id`.
    #[must_use]
    pub fn text(self) -> [u8; ID_LENGTH] {
        let mut text = [b'0'; ID_LENGTH];
        for (at, digit) in text.iter_mut().rev().enumerate() {
            let nibble = (self.id >> (at * 4)) as u8 & 15;
            *digit = if nibble < 10 { b'0' | nibble } else { b'W' + nibble };
        }
        text
    }
}

/// The id in an `Mcp-Session-Id`, if it has the form of one.
fn parse(text: &[u8]) -> Option<u128> {
    if text.len() != ID_LENGTH {
        return None;
    }
    text.iter().try_fold(0u128, |id, byte| match byte {
        b'0'..=b'9' => Some(id << 4 | u128::from(byte & 15)),
        b'a'..=b'f' => Some(id << 4 | u128::from((byte & 15) + 9)),
        _ => None,
    })
}

/// The table of sessions. Its storage is the caller's, and as large as sessions may be many.
#[derive(Clone, Debug)]
pub struct Sessions<S> {
    slots: S,
    idle: Duration,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Sessions<S> {
    /// No sessions; each ends when nobody has used it for `idle`.
    pub const fn new(idle: Duration, slots: S) -> Self {
        Self { slots, idle }
    }

    /// Begins a session. `id` is random, and nobody can guess it. The second is a session that had to give way.
    ///
    /// # Errors
    /// If there is room for no more.
    pub fn open(&mut self, now: Instant, id: u128) -> Result<(SessionKey, Option<SessionKey>), Refusal> {
        let slots = self.slots.as_mut();
        let count = slots.len();
        let free = slots.iter().position(|slot| slot.id.is_none());
        let index = match free {
            Some(index) => index,
            None => slots
                .iter()
                .enumerate()
                .filter(|(_, slot)| slot.open == 0 && now.since(slot.used) >= SPARE)
                .min_by_key(|(_, slot)| slot.used)
                .map(|(index, _)| index)
                .ok_or(Refusal::Limit(Limit::Sessions(count)))?,
        };
        let Some(slot) = slots.get_mut(index) else { return Err(Refusal::Limit(Limit::Sessions(count))) };
        let gone = slot.id.map(|id| SessionKey { index, id });
        *slot = Slot { id: Some(id), used: now, open: 0 };
        Ok((SessionKey { index, id }, gone))
    }

    /// The session of an `Mcp-Session-Id`, which is used.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(&mut self, now: Instant, text: &[u8]) -> Result<SessionKey, Refusal> {
        let id = parse(text).ok_or(Refusal::UnknownSession)?;
        let slots = self.slots.as_mut().iter_mut().enumerate();
        for (index, slot) in slots {
            if slot.id == Some(id) {
                slot.used = now;
                return Ok(SessionKey { index, id });
            }
        }
        Err(Refusal::UnknownSession)
    }

    /// A stream or a request of a session is open, unless there are `limit` already.
    ///
    /// # Errors
    /// If there are, or the session is over.
    pub fn begin(&mut self, key: SessionKey, limit: usize) -> Result<(), Refusal> {
        let slot = self.slot(key).ok_or(Refusal::UnknownSession)?;
        if slot.open >= limit {
            return Err(Refusal::Limit(Limit::Streams(limit)));
        }
        slot.open = slot.open.saturating_add(1);
        Ok(())
    }

    /// A stream or a request is over.
    pub fn end(&mut self, now: Instant, key: SessionKey) {
        if let Some(slot) = self.slot(key) {
            slot.open = slot.open.saturating_sub(1);
            slot.used = slot.used.max(now);
        }
    }

    /// The session ends. Whether there was one.
    pub fn close(&mut self, key: SessionKey) -> bool {
        self.slot(key).map(|slot| *slot = Slot::EMPTY).is_some()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.slots.as_ref().iter().filter(|slot| slot.id.is_some()).count()
    }

    /// When the next one ends that nobody uses. It changes after every call but [`count`](Self::count).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let quiet = self.slots.as_ref().iter().filter(|slot| slot.id.is_some() && slot.open == 0);
        quiet.map(|slot| slot.used.after(self.idle)).min()
    }

    /// A session that ended because nobody used it.
    pub fn poll_expired(&mut self, now: Instant) -> Option<SessionKey> {
        let idle = self.idle;
        let slots = self.slots.as_mut().iter_mut().enumerate();
        for (index, slot) in slots {
            if let Some(id) = slot.id
                && slot.open == 0
                && now.since(slot.used) >= idle
            {
                *slot = Slot::EMPTY;
                return Some(SessionKey { index, id });
            }
        }
        None
    }

    fn slot(&mut self, key: SessionKey) -> Option<&mut Slot> {
        self.slots.as_mut().get_mut(key.index).filter(|slot| slot.id == Some(key.id))
    }
}
