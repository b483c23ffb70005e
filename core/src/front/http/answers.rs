//! How much memory the long messages may take together that clients have yet to take.

pub use super::bodies::SHORT;

/// The long messages that are on their way to clients: those of more than [`SHORT`] bytes. What is shorter is bounded by
/// what may wait on each stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answers {
    limit: usize,
    held: usize,
}

impl Answers {
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

    /// A message of that length is to wait for its client: whether it may. One alone always may, however long it is.
    #[must_use]
    pub const fn take(&mut self, length: usize) -> bool {
        let fits = self.held == 0 || length <= self.limit.saturating_sub(self.held);
        if fits {
            self.held = self.held.saturating_add(length);
        }
        fits
    }

    /// Its client has it, or is gone.
    pub const fn release(&mut self, length: usize) {
        self.held = self.held.saturating_sub(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn together_they_hold_no_more_than_that_and_one_alone_always_fits() {
        let mut all = Answers::new(100);
        assert!(all.take(300));
        assert!(!all.take(1), "behind a long one");
        all.release(300);
        assert!(all.take(60) && !all.take(41) && all.take(40) && !all.take(1));
        assert_eq!(all.held(), 100, "what was refused takes nothing");
        all.release(60);
        assert!(all.take(60));
        all.release(usize::MAX);
        assert!(all.take(usize::MAX));
        assert_eq!(all.held(), usize::MAX);
        assert!(!all.take(usize::MAX));
    }
}
