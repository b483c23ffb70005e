//! The writing end of a byte stream: writes at once what it can, keeps the rest, and knows what the kernel has taken.
//!
//! One outlet per stream is its only writer, so messages never interleave; whatever has gathered is written in one go.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::io::AsyncWrite;
use tokio::sync::Notify;

use drowse_core::link::Key;

/// How much one write of the backlog offers to the kernel.
const CHUNK: usize = 256 << 10;
/// A backlog that is empty again keeps no more room than this.
const KEEP: usize = 64 << 10;
const NEWLINE: &[u8] = b"\n";

/// A stream that is written to.
pub(super) struct Outlet {
    writer: Pin<Box<dyn AsyncWrite>>,
    backlog: VecDeque<u8>,
    /// Requests of which no byte was written so far, and where in the stream they begin.
    unsent: VecDeque<(u64, Key)>,
    /// Bytes the kernel has taken, and bytes given to the outlet.
    written: u64,
    given: u64,
    failed: bool,
    wake: Rc<Notify>,
    /// Told when the backlog became shorter, or the stream broke.
    eased: Rc<Notify>,
}

impl Outlet {
    pub(super) fn new(writer: impl AsyncWrite + 'static) -> Self {
        Self {
            writer: Box::pin(writer),
            backlog: VecDeque::new(),
            unsent: VecDeque::new(),
            written: 0,
            given: 0,
            failed: false,
            wake: Rc::new(Notify::new()),
            eased: Rc::new(Notify::new()),
        }
    }

    /// Told when there is something to flush.
    pub(super) fn wake(&self) -> Rc<Notify> {
        Rc::clone(&self.wake)
    }

    /// Told when the backlog became shorter, or the stream broke.
    pub(super) fn eased(&self) -> Rc<Notify> {
        Rc::clone(&self.eased)
    }

    /// How much waits to be written.
    pub(super) fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// Whether the stream is broken: nothing more will be written.
    pub(super) fn is_broken(&self) -> bool {
        self.failed
    }

    /// Sends a line made of `parts`. What the kernel does not take at once is kept. `key` is remembered until the
    /// first byte of the line was taken, see [`poll_sent`](Self::poll_sent).
    pub(super) fn send(&mut self, parts: &[&[u8]], key: Option<Key>) {
        if self.failed {
            return;
        }
        if let Some(key) = key {
            self.unsent.push_back((self.given, key));
        }
        let total = parts.iter().map(|part| part.len()).sum::<usize>() + NEWLINE.len();
        self.given += total as u64;
        let mut taken = 0;
        // A waker that does nothing: the flushing task registers its own when something is left over.
        let mut context = Context::from_waker(Waker::noop());
        while self.backlog.is_empty() && taken < total {
            let slices: Vec<IoSlice<'_>> = rest(parts, taken).map(IoSlice::new).collect();
            match self.writer.as_mut().poll_write_vectored(&mut context, &slices) {
                Poll::Ready(Ok(n)) if n > 0 => {
                    taken += n;
                    self.written += n as u64;
                }
                Poll::Ready(Ok(_) | Err(_)) => return self.fail(),
                Poll::Pending => break,
            }
        }
        if taken < total {
            let more = total - taken;
            if self.backlog.capacity() - self.backlog.len() < more {
                // Not twice as much as is needed: that may be large.
                self.backlog.reserve_exact(more.max(CHUNK));
            }
            for part in rest(parts, taken) {
                self.backlog.extend(part);
            }
            self.wake.notify_one();
        }
    }

    /// The next request whose first byte was taken.
    pub(super) fn poll_sent(&mut self) -> Option<Key> {
        let (start, key) = *self.unsent.front()?;
        if self.written > start {
            self.unsent.pop_front();
            return Some(key);
        }
        None
    }

    /// Writes the backlog, until it is empty or the kernel takes no more.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while !self.backlog.is_empty() && !self.failed {
            let (front, back) = self.backlog.as_slices();
            let front = front.get(..CHUNK).unwrap_or(front);
            let slices = [IoSlice::new(front), IoSlice::new(back.get(..CHUNK).unwrap_or(back))];
            match self.writer.as_mut().poll_write_vectored(context, &slices) {
                Poll::Ready(Ok(n)) if n > 0 => {
                    self.written += n as u64;
                    self.backlog.drain(..n);
                    self.eased.notify_waiters();
                    return Poll::Ready(());
                }
                Poll::Ready(Ok(_) | Err(_)) => self.fail(),
                Poll::Pending => return Poll::Pending,
            }
        }
        if self.backlog.capacity() > KEEP {
            self.backlog = VecDeque::new();
        }
        Poll::Ready(())
    }

    fn fail(&mut self) {
        self.failed = true;
        self.backlog = VecDeque::new();
        self.wake.notify_one();
        self.eased.notify_waiters();
    }
}

impl std::fmt::Debug for Outlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outlet").field("backlog", &self.backlog.len()).field("failed", &self.failed).finish()
    }
}

/// Writes once with `access` giving the outlet for each attempt; ready as soon as something was written, the backlog
/// is empty, the stream broke, or the outlet is gone.
pub(super) async fn flush_once<A>(mut access: A)
where
    A: FnMut(&mut dyn FnMut(&mut Outlet) -> Poll<()>) -> Poll<()>,
{
    poll_fn(|context| access(&mut |outlet: &mut Outlet| outlet.poll_flush(context))).await;
}

/// What is left of a line after its first `skip` bytes, without empty parts.
fn rest<'p>(parts: &'p [&'p [u8]], mut skip: usize) -> impl Iterator<Item = &'p [u8]> {
    parts.iter().copied().chain([NEWLINE]).filter_map(move |part| {
        let left = part.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(part.len());
        (!left.is_empty()).then_some(left)
    })
}
