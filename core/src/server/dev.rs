//! What the dev proxy wants of a server beyond what a session does.

use super::{Cause, Duration, Instant, Key, Server, Slot, relay};
use crate::dev::{Standing, View};
use crate::lifecycle::PublicState;

impl<S, R> Server<S, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    R: AsRef<[relay::Slot]> + AsMut<[relay::Slot]>,
{
    /// A server that is being written. Its requests wait no longer than that for one that is not ready, and changes of its
    /// lists are announced whatever it offers.
    #[must_use]
    pub fn in_the_making(mut self, patience: Duration) -> Self {
        self.link.set_patience(Some(patience));
        self.relay.announce();
        self
    }

    /// Replaces the server by a fresh one, or starts it. What is under way fails, but for what may run twice; what was not
    /// sent waits for the new one.
    pub fn restart(&mut self, now: Instant) {
        self.now = now;
        let asker = self.asker.take();
        self.note_asker(asker);
        self.link.set_lost_as(Cause::Restarted);
        self.lifecycle.restart(now);
        self.settle();
    }

    /// Earlier crashes say nothing of what would be started now.
    pub fn forgive(&mut self) {
        self.lifecycle.forgive();
    }

    /// Nothing more is sent to the server that runs; or it goes on.
    pub const fn set_holds(&mut self, holds: bool) {
        self.holds = holds;
    }

    /// The request may run twice: it is put again, once, where it is not known whether it ran.
    pub fn mark_repeatable(&mut self, key: Key) {
        self.link.mark_repeatable(key);
    }

    /// Somebody was told of its lists without it.
    pub const fn expect_news(&mut self) {
        self.relay.expect_news();
    }

    /// How it stands.
    #[must_use]
    pub fn view(&mut self) -> View {
        let standing = if self.lifecycle.is_ready() {
            Standing::Up
        } else if self.lifecycle.is_starting() {
            Standing::Starting
        } else if self.lifecycle.is_stopping() {
            Standing::Stopping
        } else if self.lifecycle.public_state() == PublicState::Crashed {
            Standing::Crashed
        } else {
            Standing::Down
        };
        let busy = standing == Standing::Up && self.link.is_busy();
        View { standing, generation: self.lifecycle.generation(), busy }
    }
}
