//! One server for several tasks of an executor, behind embassy-sync's blocking mutex.
//!
//! Any task hands inputs in; one task, the runner, carries the actions out:
//!
//! ```text
//!  callers ── submit ──▶ ┌────────┐ ── next_action ──▶ runner ──▶ the server's input
//!  reader ─── with ────▶ │ Shared │ ◀── with ──────────┘
//!                        └────────┘
//! ```
//!
//! Owns the lock and the runner's wake-up. It never holds the lock across an `await`, and keeps no payloads: those are
//! the adapter's, by [`Key::index`], and so is the channel on which a caller hears of its answer.
//!
//! Which mutex fits is embassy-sync's choice `M`: `NoopRawMutex` for tasks of one executor,
//! `CriticalSectionRawMutex` where interrupts or other executors take part.

use core::cell::RefCell;
use core::fmt;

use embassy_sync::blocking_mutex::Mutex;
use embassy_sync::blocking_mutex::raw::RawMutex;
use embassy_sync::signal::Signal;

use crate::link::{Key, Slot};
use crate::server::{Action, Operation, Refusal, Server};
use crate::time::Instant;

/// A server that tasks share.
pub struct Shared<M: RawMutex, S> {
    server: Mutex<M, RefCell<Server<S>>>,
    changed: Signal<M, ()>,
}

impl<M: RawMutex, S: AsRef<[Slot]> + AsMut<[Slot]>> Shared<M, S> {
    /// Takes the server.
    #[must_use]
    pub const fn new(server: Server<S>) -> Self {
        Self { server: Mutex::new(RefCell::new(server)), changed: Signal::new() }
    }

    /// Hands inputs in, and wakes the runner. `None`, and nothing done, only if called inside of itself.
    pub fn with<R>(&self, inputs: impl FnOnce(&mut Server<S>) -> R) -> Option<R> {
        let result =
            self.server.lock(|cell| cell.try_borrow_mut().ok().map(|mut server| inputs(&mut server)));
        self.changed.signal(());
        result
    }

    /// Looks at the server. `None` only if called inside of [`with`](Self::with).
    pub fn look<R>(&self, view: impl FnOnce(&Server<S>) -> R) -> Option<R> {
        self.server.lock(|cell| cell.try_borrow().ok().map(|server| view(&server)))
    }

    /// Accepts an operation, and wakes the server for it; or changes nothing.
    ///
    /// # Errors
    /// As [`Server::submit`].
    pub fn submit(&self, now: Instant, operation: Operation) -> Result<Key, Refusal> {
        self.with(|server| server.submit(now, operation)).unwrap_or(Err(Refusal::Full))
    }

    /// The next thing to do, for the runner. Call until `None`, then await [`changed`](Self::changed) and the time of
    /// [`Server::poll_timeout`], whichever comes first.
    pub fn poll_action(&self) -> Option<Action> {
        self.server.lock(|cell| cell.try_borrow_mut().ok().and_then(|mut server| server.poll_action()))
    }

    /// Waits until something was handed in since it was last awaited. For one task only; it may come once too often.
    pub async fn changed(&self) {
        self.changed.wait().await;
    }

    /// Waits for the next thing to do, and sees to the server's timeouts meanwhile. For one task only.
    ///
    /// Time is embassy-time's; hand in the same ([`now`]) with every input. Dropping the future loses nothing, so it may
    /// be one of several that the runner selects from.
    #[cfg(feature = "embassy-time")]
    pub async fn next_action(&self) -> Action {
        loop {
            if let Some(action) = self.poll_action() {
                return action;
            }
            let deadline = self.look(Server::poll_timeout).flatten();
            let mut timer = deadline.map(|(at, _)| embassy_time::Timer::at(at.into()));
            let mut changed = core::pin::pin!(self.changed.wait());
            core::future::poll_fn(|context| {
                use core::future::Future;
                use core::pin::Pin;

                // Both are polled, so that either wakes the task.
                let changed = changed.as_mut().poll(context);
                let due = timer.as_mut().is_some_and(|timer| Pin::new(timer).poll(context).is_ready());
                if due { core::task::Poll::Ready(()) } else { changed }
            })
            .await;
            self.server.lock(|cell| {
                if let Ok(mut server) = cell.try_borrow_mut() {
                    server.handle_timeout(now());
                }
            });
        }
    }
}

/// Embassy-time's clock.
#[cfg(feature = "embassy-time")]
#[must_use]
pub fn now() -> Instant {
    embassy_time::Instant::now().into()
}

impl<M: RawMutex, S> fmt::Debug for Shared<M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
