//! How much memory the bodies of all requests may take together.

use super::{Limit, Refusal};

/// A body that is no longer than that may use what long ones leave free.
pub const SHORT: usize = 16 << 10;

/// What the bodies hold that are read, or wait for their answers.
///
/// Long ones get no more than three quarters of it, so that clients which send such, and slowly, are in the way of each
/// other, and not of the many short requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bodies {
    limit: usize,
    held: usize,
}

impl Bodies {
    /// None yet; together they hold `limit` bytes at most.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { limit, held: 0 }
    }

    /// What they hold.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.held
    }

    /// A body that holds `has` bytes is to hold `to`. What is refused takes nothing.
    ///
    /// # Errors
    /// If there is no room now, or there never would be.
    pub const fn grow(&mut self, has: usize, to: usize) -> Result<(), Refusal> {
        let more = to.saturating_sub(has);
        match self.look(to, more) {
            Ok(()) => {
                self.held = self.held.saturating_add(more);
                Ok(())
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Whether a body of that length would find room now. It takes nothing: a length is only said.
    ///
    /// # Errors
    /// If it would not.
    pub const fn expect(&self, length: usize) -> Result<(), Refusal> {
        self.look(length, length)
    }

    /// A body is gone that held so much.
    pub const fn release(&mut self, has: usize) {
        self.held = self.held.saturating_sub(has);
    }

    const fn look(&self, length: usize, more: usize) -> Result<(), Refusal> {
        let room = if length <= SHORT { self.limit } else { self.limit.saturating_sub(self.limit / 4) };
        if length > room {
            return Err(Refusal::Limit(Limit::Body(room)));
        }
        if more > room.saturating_sub(self.held) {
            return Err(Refusal::Limit(Limit::Bodies(self.limit)));
        }
        Ok(())
    }
}
