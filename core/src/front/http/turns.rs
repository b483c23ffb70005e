//! Whose turn it is on a connection that carries many requests at once (HTTP/2): one whose client does nothing is over,
//! though it acknowledges pings.
//!
//! A request waits for its answer, which may take long; or something of the answer waits for the client, which may not.

use crate::time::{Duration, Instant};

/// Storage for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(Turn);

impl Slot {
    /// Of none.
    pub const EMPTY: Self = Self(Turn::Nobody);
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// There is no request.
    Nobody,
    /// It waits for its answer, or for more of it.
    Ours,
    /// Since then something waits for the client to take it.
    Theirs(Instant),
}

/// The requests of a connection. Their storage is the caller's, and as large as they may be many.
#[derive(Clone, Debug)]
pub struct Turns<S> {
    slots: S,
    idle: Duration,
    stalled: Duration,
    open: usize,
    /// Since when there is none.
    quiet: Instant,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Turns<S> {
    /// A connection that begins. Without a request it is over after `idle`, and after `stalled` where one's client takes
    /// nothing of the answer.
    pub const fn new(now: Instant, idle: Duration, stalled: Duration, slots: S) -> Self {
        Self { slots, idle, stalled, open: 0, quiet: now }
    }

    /// A request is there; its number. What finds no room is counted all the same.
    pub fn open(&mut self) -> usize {
        self.open = self.open.saturating_add(1);
        let slots = self.slots.as_mut();
        let free = slots.iter().position(|slot| *slot == Slot::EMPTY).unwrap_or(slots.len());
        self.set(free, Turn::Ours);
        free
    }

    /// Something of its answer waits for the client.
    pub fn give(&mut self, now: Instant, request: usize) {
        self.set(request, Turn::Theirs(now));
    }

    /// The client has taken all that there was.
    pub fn taken(&mut self, request: usize) {
        self.set(request, Turn::Ours);
    }

    /// It is over.
    pub fn close(&mut self, now: Instant, request: usize) {
        self.set(request, Turn::Nobody);
        self.open = self.open.saturating_sub(1);
        self.quiet = self.quiet.max(now);
    }

    /// When the connection is over unless its client does something; `None` while all wait for answers. It changes after
    /// every call.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.open == 0 {
            return Some(self.quiet.after(self.idle));
        }
        let theirs = self.slots.as_ref().iter().filter_map(|slot| match slot.0 {
            Turn::Theirs(since) => Some(since),
            Turn::Nobody | Turn::Ours => None,
        });
        theirs.min().map(|since| since.after(self.stalled))
    }

    fn set(&mut self, request: usize, turn: Turn) {
        if let Some(slot) = self.slots.as_mut().get_mut(request) {
            *slot = Slot(turn);
        }
    }
}
