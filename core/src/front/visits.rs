//! Which client was sent to an address by which `elicitationId`: nobody else is told that the visit is over
//! (2025-11-25, client/elicitation, Completion Notifications).
//!
//! Keeps no texts. The latest are remembered; of one that is forgotten no client is told, which a server cannot rely on
//! anyway.

use crate::json;

/// Room for one visit.
#[derive(Clone, Copy, Debug)]
pub struct Slot(Option<(u64, u64)>);

impl Slot {
    /// A slot that is not in use.
    pub const EMPTY: Self = Self(None);
}

/// The latest visits. `S` is the storage.
#[derive(Clone, Debug)]
pub struct Visits<S> {
    slots: S,
    next: usize,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Visits<S> {
    /// Takes the storage.
    #[must_use]
    pub const fn new(slots: S) -> Self {
        Self { slots, next: 0 }
    }

    /// A client is asked to go somewhere. `id`: the `elicitationId`, a JSON string.
    pub fn handle_asked(&mut self, id: &[u8], client: u64) {
        let digest = digest(id);
        let slots = self.slots.as_mut();
        let known = slots.iter().position(|slot| slot.0.is_some_and(|(known, _)| known == digest));
        let place = known.unwrap_or(self.next);
        if let Some(slot) = slots.get_mut(place) {
            *slot = Slot(Some((digest, client)));
        }
        if known.is_none() {
            self.next = if self.next + 1 < slots.len() { self.next + 1 } else { 0 };
        }
    }

    /// A visit is over: whom to tell. It is forgotten.
    pub fn handle_complete(&mut self, id: &[u8]) -> Option<u64> {
        let digest = digest(id);
        let mut slots = self.slots.as_mut().iter_mut();
        let slot = slots.find(|slot| slot.0.is_some_and(|(known, _)| known == digest))?;
        slot.0.take().map(|(_, client)| client)
    }

    /// A client is gone.
    pub fn handle_client_gone(&mut self, client: u64) {
        for slot in self.slots.as_mut().iter_mut().filter(|slot| slot.0.is_some_and(|(_, of)| of == client)) {
            *slot = Slot::EMPTY;
        }
    }
}

/// FNV-1a of the text. Whoever makes two of its own identifiers collide tells one of its clients of the other's visit,
/// which a server can do in simpler ways.
fn digest(id: &[u8]) -> u64 {
    json::text(id).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_asked_is_told_and_once() {
        let mut visits = Visits::new([Slot::EMPTY; 2]);
        visits.handle_asked(br#""a""#, 1);
        visits.handle_asked(br#""b""#, 2);
        assert_eq!(visits.handle_complete(br#""\u0061""#), Some(1));
        assert_eq!(visits.handle_complete(br#""a""#), None);
        // The oldest makes room.
        visits.handle_asked(br#""c""#, 3);
        visits.handle_asked(br#""d""#, 3);
        assert_eq!(visits.handle_complete(br#""b""#), None);
        visits.handle_client_gone(3);
        assert_eq!((visits.handle_complete(br#""c""#), visits.handle_complete(br#""d""#)), (None, None));
        // Whoever was asked last, if one identifier is given twice.
        visits.handle_asked(br#""e""#, 4);
        visits.handle_asked(br#""e""#, 5);
        assert_eq!((visits.handle_complete(br#""e""#), visits.handle_complete(br#""e""#)), (Some(5), None));
        assert_eq!(Visits::new([]).handle_complete(br#""e""#), None);
    }
}
