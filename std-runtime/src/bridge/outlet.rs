//! The writing end of a byte stream: writes at once what it can, keeps the rest, and knows what the kernel has taken.
//!
//! One outlet per stream is its only writer, so messages never interleave; whatever has gathered is written in one go:
//! what the kernel does not take, and the small messages that one [`Burst`] of frames gives rise to.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use tokio::sync::Notify;

use drowse_core::link::Key;

/// What pieces are made for that grow by little messages, and the room that a backlog keeps which is empty again.
const PIECE: usize = 64 << 10;
const LITTLE: usize = 4 << 10;
/// Messages up to this length gather during a burst: to copy them costs less than to write them one by one.
const SMALL: usize = 8 << 10;
/// So much may gather.
const GATHERED: usize = 32 << 10;
/// The most slices that one write offers.
const SLICES: usize = 32;
const NEWLINE: &[u8] = b"\n";

/// The frames that one read brought, while they are handled one after the other: what they give rise to is written when
/// the last of them was. Nothing waits for a clock, and a frame that comes alone is written as early.
#[derive(Default)]
pub(super) struct Burst {
    lasts: Cell<bool>,
    /// Its end is already to come by itself.
    ends_later: Cell<bool>,
    /// Whose outlets have gathered something.
    gathered: RefCell<Vec<u64>>,
}

impl Burst {
    pub(super) fn begin(&self) {
        self.lasts.set(true);
    }

    pub(super) fn lasts(&self) -> bool {
        self.lasts.get()
    }

    pub(super) fn end(&self) {
        self.lasts.set(false);
    }

    /// A part of it is over that may not be the last. Returns whether somebody has to end it later.
    pub(super) fn ends_later(&self) -> bool {
        if self.gathered.borrow().is_empty() {
            self.end();
            return false;
        }
        !self.ends_later.replace(true)
    }

    /// It is later.
    pub(super) fn handle_later(&self) {
        self.ends_later.set(false);
    }

    /// Whose outlet is to be told that the burst is over.
    pub(super) fn poll_gathered(&self) -> Option<u64> {
        self.gathered.borrow_mut().pop()
    }
}

/// A piece of what waits.
enum Bit {
    Gathered(Vec<u8>),
    /// Of a message that lives on its own.
    Shared(Bytes),
}

impl Bit {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Gathered(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }

    /// Where more can be added.
    fn vec(&mut self) -> Option<&mut Vec<u8>> {
        match self {
            Self::Gathered(bytes) => Some(bytes),
            Self::Shared(_) => None,
        }
    }
}

/// Bytes that wait, in pieces that are given back one by one as they are written: a long message is not kept whole until
/// its last byte is, and the allocator can return each.
#[derive(Default)]
struct Backlog {
    pieces: VecDeque<Bit>,
    /// So much of the first piece was taken out.
    start: usize,
    length: usize,
}

impl Backlog {
    const fn len(&self) -> usize {
        self.length
    }

    const fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn push(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len();
        while !bytes.is_empty() {
            // Never more than there is room for: what was written in the meantime is not copied once more.
            let mut last = self.pieces.back_mut().and_then(Bit::vec);
            let capacity = last.as_ref().map_or(0, |last| last.capacity());
            let room = last.as_ref().map_or(0, |last| last.capacity() - last.len());
            let (now, later) = bytes.split_at(bytes.len().min(room));
            if let Some(last) = &mut last {
                last.extend_from_slice(now);
            }
            bytes = later;
            if !bytes.is_empty() {
                let least = (capacity * 2).clamp(LITTLE, PIECE);
                self.pieces.push_back(Bit::Gathered(Vec::with_capacity(bytes.len().max(least))));
            }
        }
    }

    /// The same for a part of what lives on its own: what is long is not copied.
    fn push_of(&mut self, whole: Option<&Bytes>, bytes: &[u8]) {
        let of_it = |whole: &&Bytes| {
            let range = whole.as_ptr_range();
            let part = bytes.as_ptr_range();
            bytes.len() > PIECE && range.start <= part.start && part.end <= range.end
        };
        match whole.filter(of_it) {
            Some(whole) => {
                self.length += bytes.len();
                self.pieces.push_back(Bit::Shared(whole.slice_ref(bytes)));
            }
            None => self.push(bytes),
        }
    }

    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = self.start;
        self.pieces.iter().filter_map(move |piece| piece.bytes().get(std::mem::take(&mut start)..))
    }

    /// Takes out the first `count` bytes.
    fn advance(&mut self, count: usize) {
        self.start += count;
        self.length = self.length.saturating_sub(count);
        loop {
            let is_only = self.pieces.len() == 1;
            let first = self.pieces.front_mut().filter(|first| first.bytes().len() <= self.start);
            let Some(first) = first else { return };
            self.start -= first.bytes().len();
            match first.vec().filter(|first| is_only && first.capacity() <= PIECE) {
                Some(first) => return first.clear(),
                None => drop(self.pieces.pop_front()),
            }
        }
    }
}

/// A stream that is written to.
pub(super) struct Outlet {
    writer: Pin<Box<dyn AsyncWrite>>,
    backlog: Backlog,
    /// Requests of which no byte was written so far, and where in the stream they begin.
    unsent: VecDeque<(u64, Key)>,
    /// Bytes the kernel has taken, and bytes given to the outlet.
    written: u64,
    given: u64,
    failed: bool,
    /// The backlog waits for the kernel, and so for the flushing task.
    blocked: bool,
    /// The bursts that it gathers in, as whose, and whether it has said so during this one.
    burst: Option<(Rc<Burst>, u64)>,
    gathering: bool,
    wake: Rc<Notify>,
    /// Told when the backlog became shorter, or the stream broke.
    eased: Rc<Notify>,
}

impl Outlet {
    pub(super) fn new(writer: impl AsyncWrite + 'static) -> Self {
        Self {
            writer: Box::pin(writer),
            backlog: Backlog::default(),
            unsent: VecDeque::new(),
            written: 0,
            given: 0,
            failed: false,
            blocked: false,
            burst: None,
            gathering: false,
            wake: Rc::new(Notify::new()),
            eased: Rc::new(Notify::new()),
        }
    }

    /// The same for one that gathers during bursts, known there as `whose`.
    pub(super) fn in_bursts(mut self, burst: &Rc<Burst>, whose: u64) -> Self {
        self.burst = Some((Rc::clone(burst), whose));
        self
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

    /// Sends a line made of `parts`, some of them of `whole`. What the kernel does not take at once is kept. `key` is
    /// remembered until the first byte of the line was taken, see [`poll_sent`](Self::poll_sent).
    pub(super) fn send(&mut self, parts: &[&[u8]], whole: Option<&Bytes>, key: Option<Key>) {
        if self.failed {
            return;
        }
        if let Some(key) = key {
            self.unsent.push_back((self.given, key));
        }
        let total = parts.iter().map(|part| part.len()).sum::<usize>() + NEWLINE.len();
        self.given += total as u64;
        if self.blocked || self.gathers(total) {
            self.keep(parts, whole, 0, total);
        } else {
            self.write(parts, whole, total);
        }
    }

    /// The burst is over: writes what gathered.
    pub(super) fn handle_burst_over(&mut self) {
        self.gathering = false;
        if !self.blocked && !self.failed && !self.backlog.is_empty() {
            self.write(&[], None, 0);
        }
    }

    /// Whether a message of that length is left for the end of the burst.
    fn gathers(&mut self, length: usize) -> bool {
        let Some((burst, whose)) = self.burst.as_ref().filter(|(burst, _)| burst.lasts.get()) else {
            return false;
        };
        if length > SMALL || self.backlog.len() + length > GATHERED {
            return false;
        }
        if !self.gathering {
            self.gathering = true;
            burst.gathered.borrow_mut().push(*whose);
        }
        true
    }

    /// Writes the backlog, and behind it the line of `total` bytes that `parts` make. Keeps what the kernel does not take.
    fn write(&mut self, parts: &[&[u8]], whole: Option<&Bytes>, total: usize) {
        // A waker that does nothing: the flushing task registers its own when something is left over.
        let mut context = Context::from_waker(Waker::noop());
        let mut taken = 0;
        while taken < total || !self.backlog.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let offered = self.backlog.slices().chain(line(parts, taken, total));
            let count = offer(&mut slices, offered);
            let slices = slices.get(..count).unwrap_or_default();
            match self.writer.as_mut().poll_write_vectored(&mut context, slices) {
                Poll::Ready(Ok(n)) if n > 0 => {
                    let of_backlog = n.min(self.backlog.len());
                    self.backlog.advance(of_backlog);
                    taken += n - of_backlog;
                    self.written += n as u64;
                }
                Poll::Ready(Ok(_) | Err(_)) => return self.fail(),
                Poll::Pending => {
                    self.blocked = true;
                    self.keep(parts, whole, taken, total);
                    return self.wake.notify_one();
                }
            }
        }
    }

    /// Keeps what is left of a line of `total` bytes.
    fn keep(&mut self, parts: &[&[u8]], whole: Option<&Bytes>, taken: usize, total: usize) {
        for part in line(parts, taken, total) {
            self.backlog.push_of(whole, part);
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
            self.blocked = true;
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = offer(&mut slices, self.backlog.slices());
            let slices = slices.get(..count).unwrap_or_default();
            match self.writer.as_mut().poll_write_vectored(context, slices) {
                Poll::Ready(Ok(n)) if n > 0 => {
                    self.written += n as u64;
                    self.backlog.advance(n);
                    self.blocked = !self.backlog.is_empty();
                    self.eased.notify_waiters();
                    return Poll::Ready(());
                }
                Poll::Ready(Ok(_) | Err(_)) => self.fail(),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }

    fn fail(&mut self) {
        self.failed = true;
        self.backlog = Backlog::default();
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

/// Puts as many slices in place as there is room for, and says how many.
fn offer<'b>(slices: &mut [IoSlice<'b>; SLICES], bytes: impl Iterator<Item = &'b [u8]>) -> usize {
    let mut count = 0;
    for (slice, bytes) in slices.iter_mut().zip(bytes) {
        *slice = IoSlice::new(bytes);
        count += 1;
    }
    count
}

/// What is left of a line of `total` bytes after its first `skip` ones, without empty parts. Without a byte it is none.
fn line<'p>(parts: &'p [&'p [u8]], mut skip: usize, total: usize) -> impl Iterator<Item = &'p [u8]> {
    let end = (total > 0).then_some(NEWLINE);
    parts.iter().copied().chain(end).filter_map(move |part| {
        let left = part.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(part.len());
        (!left.is_empty()).then_some(left)
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Takes so much at once, so often.
    struct Taker {
        taken: Rc<RefCell<Vec<u8>>>,
        writes: Rc<Cell<usize>>,
        most: Rc<Cell<usize>>,
    }

    impl AsyncWrite for Taker {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let most = self.most.get();
            if most == 0 {
                return Poll::Pending;
            }
            let offered: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).take(most).collect();
            self.taken.borrow_mut().extend_from_slice(&offered);
            self.writes.set(self.writes.get() + 1);
            Poll::Ready(Ok(offered.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    struct Bench {
        outlet: Outlet,
        burst: Rc<Burst>,
        taken: Rc<RefCell<Vec<u8>>>,
        writes: Rc<Cell<usize>>,
        most: Rc<Cell<usize>>,
        sent: Vec<u8>,
    }

    impl Bench {
        fn new() -> Self {
            let burst = Rc::new(Burst::default());
            let (taken, writes, most) = (Rc::default(), Rc::default(), Rc::new(Cell::new(usize::MAX)));
            let taker =
                Taker { taken: Rc::clone(&taken), writes: Rc::clone(&writes), most: Rc::clone(&most) };
            let outlet = Outlet::new(taker).in_bursts(&burst, 7);
            Self { outlet, burst, taken, writes, most, sent: Vec::new() }
        }

        fn send(&mut self, length: usize) {
            let text: Vec<u8> = (0..length).map(|at| b'a' + (at % 23) as u8).collect();
            let (front, back) = text.split_at(length / 3);
            let key = Key::from_wire(self.sent.len() as u64);
            self.outlet.send(&[front, b"", back], None, key);
            self.sent.extend_from_slice(&text);
            self.sent.push(b'\n');
        }

        fn end(&mut self) {
            self.burst.end();
            while let Some(whose) = self.burst.poll_gathered() {
                assert_eq!(whose, 7);
                self.outlet.handle_burst_over();
            }
        }

        fn flush(&mut self) -> bool {
            let mut context = Context::from_waker(Waker::noop());
            while self.outlet.backlog() > 0 {
                if self.outlet.poll_flush(&mut context).is_pending() {
                    return false;
                }
            }
            true
        }
    }

    #[test]
    fn a_burst_is_one_write_and_a_lone_message_is_not_delayed() {
        let mut bench = Bench::new();
        bench.send(100);
        assert_eq!((bench.writes.get(), bench.outlet.backlog()), (1, 0));
        bench.burst.begin();
        for _ in 0..40 {
            bench.send(100);
        }
        assert_eq!((bench.writes.get(), bench.outlet.backlog()), (1, 40 * 101));
        assert!(bench.outlet.poll_sent().is_some());
        assert!(bench.outlet.poll_sent().is_none(), "no byte of the others was written");
        bench.end();
        assert_eq!((bench.writes.get(), bench.outlet.backlog()), (2, 0));
        assert_eq!(std::iter::from_fn(|| bench.outlet.poll_sent()).count(), 40);
        assert_eq!(*bench.taken.borrow(), bench.sent);
    }

    #[test]
    fn a_burst_of_several_parts_is_ended_once() {
        let mut bench = Bench::new();
        bench.burst.begin();
        assert!(!bench.burst.ends_later(), "nothing has gathered");
        bench.send(100);
        assert_eq!(bench.writes.get(), 1, "so it is over");
        let later: Vec<bool> = (0..3)
            .map(|_| {
                bench.burst.begin();
                bench.send(100);
                bench.burst.ends_later()
            })
            .collect();
        assert_eq!((later.as_slice(), bench.writes.get()), ([true, false, false].as_slice(), 1));
        bench.burst.handle_later();
        bench.end();
        assert_eq!((bench.writes.get(), bench.outlet.backlog()), (2, 0));
        bench.burst.begin();
        bench.send(100);
        assert!(bench.burst.ends_later());
        assert_eq!(bench.taken.borrow().len(), 4 * 101);
    }

    #[test]
    fn a_large_message_takes_along_what_gathered_before_it() {
        let mut bench = Bench::new();
        bench.burst.begin();
        bench.send(100);
        bench.send(SMALL * 2);
        assert_eq!((bench.writes.get(), bench.outlet.backlog()), (1, 0));
        bench.send(100);
        bench.end();
        assert_eq!(*bench.taken.borrow(), bench.sent);
    }

    #[test]
    fn the_order_stays_whatever_the_kernel_takes() {
        // More slices than one write offers, and pieces that are taken in parts.
        for most in [1, 7, 1000, PIECE - 1, PIECE + 1, PIECE * 3] {
            let mut bench = Bench::new();
            for round in 0..6 {
                bench.most.set(if round % 2 == 0 { 0 } else { most });
                bench.burst.begin();
                bench.send(10);
                bench.send(if most < 1000 { SMALL + 1 } else { PIECE * 2 });
                bench.send(SMALL - 10);
                bench.end();
                if round % 3 == 1 {
                    bench.outlet.poll_flush(&mut Context::from_waker(Waker::noop())).is_ready();
                }
            }
            bench.most.set(0);
            assert!(!bench.flush() || bench.outlet.backlog() == 0);
            bench.most.set(most);
            assert!(bench.flush());
            assert!(*bench.taken.borrow() == bench.sent, "{most}");
            assert_eq!(std::iter::from_fn(|| bench.outlet.poll_sent()).count(), 18);
        }
    }

    #[test]
    fn of_what_lives_on_its_own_nothing_long_is_copied() {
        let whole = Bytes::from((0..PIECE * 4).map(|at| b'a' + (at % 23) as u8).collect::<Vec<u8>>());
        let other = vec![b'-'; PIECE * 2];
        for most in [999, PIECE, usize::MAX] {
            let mut bench = Bench::new();
            bench.most.set(0);
            let parts: [&[u8]; 5] =
                [b"{1234567", &whole[10..20], &whole[PIECE..PIECE * 3], &other, &whole[..9]];
            bench.outlet.send(&parts, Some(&whole), None);
            bench.outlet.send(&[b"next"], None, None);
            let shared = bench.outlet.backlog.pieces.iter().filter_map(|bit| match bit {
                Bit::Shared(bytes) => Some((bytes.as_ptr(), bytes.len())),
                Bit::Gathered(_) => None,
            });
            assert_eq!(shared.collect::<Vec<_>>(), [(whole[PIECE..].as_ptr(), PIECE * 2)]);
            assert!(!whole.is_unique());
            bench.most.set(most);
            assert!(bench.flush());
            assert!(*bench.taken.borrow() == [&parts.concat()[..], b"\nnext\n"].concat(), "{most}");
            assert!(whole.is_unique(), "nothing is held on to");
        }
    }
}
