//! Standard streams, or what else was inherited, as a client's connection: read and written without blocking the one
//! thread, whatever they are.
//!
//! Whether a stream blocks belongs to the open file and not to the descriptor, and whoever started us may have the same
//! one open: so a pipe is opened anew. What can be neither waited for nor opened anew (a terminal, a file) has a thread
//! that copies it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use rustix::fs::{FileType, OFlags};
use rustix::pipe::PipeFlags;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::Notify;

use super::roomy::Roomy;

/// What is read.
pub type Reader = Pin<Box<dyn AsyncRead>>;
/// What is written. A [`Hub`](super::Hub) is its one writer.
pub type Writer = Pin<Box<dyn AsyncWrite>>;

/// The reading end of a connection. To be called within a runtime.
///
/// # Errors
/// If there are no descriptors left, or the stream cannot be read.
pub fn reader(stream: OwnedFd) -> io::Result<Reader> {
    match kind(&stream)? {
        FileType::Fifo => {
            let again = OpenOptions::new().read(true).open(path(&stream)).map_or(stream, OwnedFd::from);
            Ok(Box::pin(Roomy::new(pipe::Receiver::from_owned_fd(again)?)))
        }
        FileType::Socket if !is_shared_by_another_end(&stream) => Ok(Box::pin(socket(stream)?)),
        _ => {
            let (end, copy) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            copy_all(File::from(stream), File::from(copy), None)?;
            Ok(Box::pin(pipe::Receiver::from_owned_fd(end)?))
        }
    }
}

/// The writing end of a connection, and what tells when all that was written is there. To be called within a runtime.
///
/// # Errors
/// If there are no descriptors left, or the stream cannot be written.
pub fn writer(stream: OwnedFd) -> io::Result<(Writer, Delivery)> {
    match kind(&stream)? {
        FileType::Fifo => {
            let again = OpenOptions::new().write(true).open(path(&stream)).map_or(stream, OwnedFd::from);
            Ok((Box::pin(Roomy::new(pipe::Sender::from_owned_fd(again)?)), Delivery(None)))
        }
        FileType::Socket if !is_shared_by_another_end(&stream) => {
            Ok((Box::pin(socket(stream)?), Delivery(None)))
        }
        _ => {
            let (copy, end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            let ledger = Arc::new(Ledger::default());
            copy_all(File::from(copy), File::from(stream), Some(Arc::clone(&ledger)))?;
            let writer = Counted { pipe: pipe::Sender::from_owned_fd(end)?, ledger: Arc::clone(&ledger) };
            Ok((Box::pin(writer), Delivery(Some(ledger))))
        }
    }
}

/// Whether what was given to a [`writer`] is where it goes. A process that ends before loses what a thread still copies.
#[derive(Debug)]
pub struct Delivery(Option<Arc<Ledger>>);

impl Delivery {
    /// Resolves when it is, or nobody takes it any more.
    pub async fn done(&self) {
        let Some(ledger) = &self.0 else { return };
        loop {
            let mut moved = pin!(ledger.moved.notified());
            moved.as_mut().enable();
            if ledger.is_even() {
                return;
            }
            moved.await;
        }
    }
}

/// How much was given to the thread that copies, and how much of that it wrote.
#[derive(Debug, Default)]
struct Ledger {
    given: AtomicU64,
    written: AtomicU64,
    over: AtomicBool,
    moved: Notify,
}

impl Ledger {
    fn is_even(&self) -> bool {
        self.over.load(Ordering::Acquire)
            || self.written.load(Ordering::Acquire) >= self.given.load(Ordering::Acquire)
    }

    fn wrote(&self, count: usize) {
        self.written.fetch_add(count as u64, Ordering::AcqRel);
        self.moved.notify_waiters();
    }

    fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.moved.notify_waiters();
    }
}

/// The way to the thread that copies.
struct Counted {
    pipe: pipe::Sender,
    ledger: Arc<Ledger>,
}

impl Counted {
    fn count(&self, poll: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = &poll {
            self.ledger.given.fetch_add(*count as u64, Ordering::AcqRel);
        }
        poll
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.pipe).poll_write(context, bytes);
        self.count(poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.pipe).poll_write_vectored(context, slices);
        self.count(poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.pipe.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(context)
    }
}

fn kind(stream: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(stream)?.st_mode))
}

fn path(stream: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", stream.as_raw_fd())
}

/// A socket cannot be opened anew; one that blocks may be somebody else's, too, who counts on that.
fn is_shared_by_another_end(stream: &OwnedFd) -> bool {
    rustix::fs::fcntl_getfl(stream).is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK))
}

fn socket(stream: OwnedFd) -> io::Result<UnixStream> {
    UnixStream::from_std(std::os::unix::net::UnixStream::from(stream))
}

/// Copies until either end is gone, on a thread of its own.
fn copy_all(mut from: File, mut to: File, ledger: Option<Arc<Ledger>>) -> io::Result<()> {
    let copy = move || {
        // Not `io::copy`: it splices, and then a copy from a socket into a pipe was seen to stand still.
        let mut buffer = vec![0; 64 << 10];
        // Either end says by itself that it is gone.
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            if to.write_all(buffer.get(..n).unwrap_or_default()).is_err() {
                break;
            }
            if let Some(ledger) = &ledger {
                ledger.wrote(n);
            }
        }
        if let Some(ledger) = &ledger {
            ledger.end();
        }
    };
    std::thread::Builder::new().name("stdio".to_owned()).spawn(copy).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const LONG: usize = 300_000;

    fn run(test: impl AsyncFnOnce()) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test());
    }

    fn is_nonblocking(stream: &impl std::os::fd::AsFd) -> bool {
        rustix::fs::fcntl_getfl(stream).unwrap().contains(OFlags::NONBLOCK)
    }

    /// Sends more than fits through both of them at once.
    async fn carries(reader: &mut Reader, writer: &mut Writer) {
        let sent = vec![b'x'; LONG];
        let mut got = vec![0; LONG];
        let (wrote, read) = tokio::join!(writer.write_all(&sent), reader.read_exact(&mut got));
        wrote.unwrap();
        assert_eq!(read.unwrap(), LONG);
        assert_eq!(got, sent);
    }

    #[test]
    fn pipes_are_not_changed_for_those_who_share_them() {
        run(async || {
            let (input, output) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
            let shared = (input.try_clone().unwrap(), output.try_clone().unwrap());
            let (mut reader, mut writer) = (reader(input).unwrap(), writer(output).unwrap().0);
            carries(&mut reader, &mut writer).await;
            assert!(!is_nonblocking(&shared.0) && !is_nonblocking(&shared.1));
            drop((writer, shared));
            assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
        });
    }

    #[test]
    fn sockets_that_block_are_copied_and_others_used() {
        run(async || {
            for nonblocking in [false, true] {
                let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
                near.set_nonblocking(nonblocking).unwrap();
                far.set_nonblocking(nonblocking).unwrap();
                let shared = near.try_clone().unwrap();
                let (mut reader, mut writer) = (reader(near.into()).unwrap(), writer(far.into()).unwrap().0);
                carries(&mut reader, &mut writer).await;
                assert_eq!(is_nonblocking(&shared), nonblocking);
                drop(writer);
                assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
            }
        });
    }

    #[test]
    fn a_file_is_read_to_its_end_and_one_is_written() {
        run(async || {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(b"line\n").unwrap();
            file.rewind().unwrap();
            let mut reader = reader(file.into()).unwrap();
            let mut text = String::new();
            reader.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "line\n");

            let (mut done, told) = std::os::unix::net::UnixStream::pair().unwrap();
            let (mut writer, _) = writer(told.into()).unwrap();
            writer.write_all(b"said\n").await.unwrap();
            drop(writer);
            let mut text = String::new();
            // The end comes when the copying thread is done.
            done.read_to_string(&mut text).unwrap();
            assert_eq!(text, "said\n");
        });
    }

    #[test]
    fn what_was_given_to_a_file_is_waited_for() {
        run(async || {
            let (mut far, near) = std::os::unix::net::UnixStream::pair().unwrap();
            let (mut writer, delivery) = writer(near.into()).unwrap();
            writer.write_all(&[b'x'; 4096]).await.unwrap();
            delivery.done().await;
            // The other end takes no more than this, and the rest is not there as long as it does not read.
            let read = std::thread::spawn(move || {
                let mut all = vec![0; 4096 + 2 * LONG];
                far.read_exact(&mut all).unwrap();
            });
            writer.write_all(&[b'x'; 2 * LONG]).await.unwrap();
            delivery.done().await;
            read.join().unwrap();
            // Nobody takes it: that is not waited for.
            writer.write_all(b"x").await.unwrap();
            delivery.done().await;
        });
    }

    #[test]
    fn a_thread_that_still_copies_is_waited_for() {
        run(async || {
            let (far, near) = std::os::unix::net::UnixStream::pair().unwrap();
            let (mut writer, delivery) = writer(near.into()).unwrap();
            // More than the socket holds, and less than that and the pipe do.
            let mut wrote = 0;
            while let Ok(count) =
                tokio::time::timeout(std::time::Duration::from_millis(200), writer.write(&[b'x'; 4096])).await
            {
                wrote += count.unwrap();
            }
            let wait = tokio::time::timeout(std::time::Duration::from_millis(50), delivery.done());
            assert!(wait.await.is_err());
            let read = std::thread::spawn(move || {
                let mut far = far;
                far.read_exact(&mut vec![0; wrote]).unwrap();
                far
            });
            delivery.done().await;
            drop(read.join().unwrap());
        });
    }
}
