//! One connection to a bridge: connecting, the hello, lines in and bytes out.
//!
//! Owns the socket and what was read from it. Knows nothing of operations: see `call`.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType};

use crate::fault;
use crate::home::SocketAddress;
use crate::seek;
use crate::wait::{Wait, Woken};
use crate::wire::{BridgeHello, Envelope, MAX_MESSAGE, MESSAGE_SLACK, Refused};

/// How much room is made for each read. Unix sockets carry about 200 KiB at a time.
const CHUNK: usize = 256 << 10;
/// The first read's room: most answers are small.
const FIRST_CHUNK: usize = 8 << 10;
/// A connection keeps no more memory than this between its messages.
const KEPT: usize = 1 << 20;
/// How often a full queue of connections is tried again: there is nothing to wait on.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(5);

/// What came of trying to meet a bridge (C1).
pub(super) enum Greeting {
    /// It takes requests.
    Welcome(Link),
    /// It speaks no hello version of ours.
    Refused(Refused),
    /// It was connected to, but has not answered yet.
    Silent(Unanswered),
    /// There is none; or whatever is there is no bridge of ours. Nothing ran.
    Absent,
}

/// Why a wait ended without its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Deadline,
    Interrupted,
    /// Either, and what was sent along with the hello may have run.
    Late {
        interrupted: bool,
    },
}

/// Connects and exchanges the hello, waiting no longer than `patience` for the answer.
///
/// What is to be sent next may go `along` with the hello, so that its answer takes one round. A bridge reads it only once
/// it has answered the hello; where that answer does not come in time, it is taken back, and was never read.
pub(super) fn greet(
    address: &SocketAddress,
    hello: &[u8],
    along: Option<&[u8]>,
    wait: Wait<'_>,
    patience: Duration,
) -> io::Result<Result<Greeting, Cut>> {
    let patient_until = Instant::now() + patience;
    let socket = match connect(address, wait, patient_until)? {
        Ok(Some(socket)) => socket,
        Ok(None) => return Ok(Ok(Greeting::Absent)),
        Err(cut) => return Ok(Err(cut)),
    };
    // Another user's process never gets to see a request, whatever it answers.
    let us = rustix::process::geteuid();
    if !rustix::net::sockopt::socket_peercred(&socket).is_ok_and(|peer| peer.uid == us) {
        return Ok(Ok(Greeting::Absent));
    }
    // A hello always fits into the buffer of a new connection. Where it cannot be sent, the other side has
    // left, and what it said before may be an answer all the same.
    let mut ahead = 0;
    match along {
        Some(line) => {
            fault::point("C1");
            fault::point("C2");
            let sent = send(&socket, &[hello, line].concat());
            ahead = sent.map_or(0, |n| n.saturating_sub(hello.len()));
            fault::point("C2-sent");
        }
        None => {
            let _ = send(&socket, hello);
            fault::point("C1");
        }
    }
    let mut unanswered = Unanswered { socket, lines: LineBuffer::default(), ahead };
    loop {
        let limited = wait.no_later_than(patient_until);
        let woken = limited.poll(&[(unanswered.socket.as_fd(), PollFlags::IN)])?;
        unanswered = match unanswered.advance() {
            Greeting::Silent(unanswered) => unanswered,
            greeting => return Ok(Ok(greeting)),
        };
        let cut = match woken {
            Woken::Ready => continue,
            Woken::Interrupted => Cut::Interrupted,
            Woken::Deadline if wait.is_over() => Cut::Deadline,
            Woken::Deadline if ahead == 0 => return Ok(Ok(Greeting::Silent(unanswered))),
            Woken::Deadline => return Ok(Ok(unanswered.take_back())),
        };
        return Ok(Err(match unanswered.take_back() {
            Greeting::Welcome(_) if ahead > 0 => Cut::Late { interrupted: cut == Cut::Interrupted },
            _ => cut,
        }));
    }
}

/// Connects and sends what is to be answered later, without waiting for anything. `None` if that is not possible now.
pub(super) fn begin(address: &SocketAddress, lines: &[u8]) -> Option<Unanswered> {
    let past = Wait { deadline: Some(Instant::now()), interrupt: None };
    let socket = connect(address, past, Instant::now()).ok()?.ok()??;
    let us = rustix::process::geteuid();
    if !rustix::net::sockopt::socket_peercred(&socket).is_ok_and(|peer| peer.uid == us) {
        return None;
    }
    // So little always fits into the buffer of a new connection.
    let sent = send(&socket, lines).ok()? == lines.len();
    sent.then(|| Unanswered { socket, lines: LineBuffer::default(), ahead: 0 })
}

fn connect(
    address: &SocketAddress,
    wait: Wait<'_>,
    patient_until: Instant,
) -> io::Result<Result<Option<OwnedFd>, Cut>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let to = SocketAddrUnix::new(address.as_path())?;
    loop {
        match rustix::net::connect(&socket, &to) {
            Ok(()) => return Ok(Ok(Some(socket))),
            Err(Errno::INTR) => {}
            // Its queue of connections is full.
            Err(Errno::AGAIN) if Instant::now() < patient_until => {
                let pause = wait.no_later_than(Instant::now() + QUEUE_FULL_PAUSE);
                match pause.poll(&[])? {
                    Woken::Interrupted => return Ok(Err(Cut::Interrupted)),
                    _ if wait.is_over() => return Ok(Err(Cut::Deadline)),
                    _ => {}
                }
            }
            // No socket, nobody behind it, no room in its queue, or something that is no socket at all.
            Err(
                Errno::NOENT
                | Errno::CONNREFUSED
                | Errno::CONNRESET
                | Errno::AGAIN
                | Errno::NOTSOCK
                | Errno::NOTDIR
                | Errno::PROTOTYPE,
            ) => return Ok(Ok(None)),
            // Our own trouble, which says nothing about the bridge.
            Err(e) => return Err(e.into()),
        }
    }
}

/// A connection whose hello has not been answered yet.
pub(super) struct Unanswered {
    socket: OwnedFd,
    lines: LineBuffer,
    /// How much was sent along with the hello.
    ahead: usize,
}

impl Unanswered {
    /// Looks whether the answer is there, without waiting.
    pub(super) fn advance(mut self) -> Greeting {
        loop {
            if let Some(line) = self.lines.next_line() {
                let answer = serde_json::from_slice(self.lines.get(line));
                return match answer {
                    Ok(Envelope { drowse: BridgeHello::Hello(welcome) }) => Greeting::Welcome(Link {
                        socket: self.socket,
                        lines: self.lines,
                        bridge: welcome.pid,
                        version: welcome.bridge,
                        ahead: self.ahead,
                        ended: false,
                    }),
                    Ok(Envelope { drowse: BridgeHello::Refused(refused) }) => Greeting::Refused(refused),
                    Err(_) => Greeting::Absent,
                };
            }
            match self.lines.fill(self.socket.as_fd()) {
                Filled::Some => {}
                Filled::Nothing => return Greeting::Silent(self),
                Filled::End | Filled::TooLong => return Greeting::Absent,
            }
        }
    }

    /// Takes back what was sent along with the hello: from here on the bridge cannot answer the hello any more, and what
    /// comes after a hello that it cannot answer it does not read. If it has answered by now, that stands, and nothing
    /// more can be heard of what it read; else it is as if nobody were there.
    fn take_back(self) -> Greeting {
        // The kernel either has the answer in our queue by then, or refuses it to the bridge.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
        match self.advance() {
            Greeting::Silent(_) => Greeting::Absent,
            greeting => greeting,
        }
    }
}

impl AsFd for Unanswered {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A connection to a bridge that takes requests.
#[derive(Debug)]
pub(super) struct Link {
    socket: OwnedFd,
    lines: LineBuffer,
    bridge: u32,
    version: String,
    /// How much of the first request was sent along with the hello.
    ahead: usize,
    ended: bool,
}

impl Link {
    #[cfg(test)]
    pub(super) fn over(socket: std::os::unix::net::UnixStream) -> Self {
        socket.set_nonblocking(true).unwrap();
        Self {
            socket: socket.into(),
            lines: LineBuffer::default(),
            ended: false,
            ahead: 0,
            bridge: 0,
            version: String::new(),
        }
    }

    /// The process at the other end, by its own account.
    pub(super) fn bridge(&self) -> u32 {
        self.bridge
    }

    /// Its version of drowse.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// How much of the first request has been sent already. Said once.
    pub(super) fn take_ahead(&mut self) -> usize {
        std::mem::take(&mut self.ahead)
    }

    /// Gives bytes to the kernel, as many as it takes now.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send(&self.socket, bytes)
    }

    /// Reads what is there.
    pub(super) fn fill(&mut self) -> Filled {
        if self.ended {
            return Filled::End;
        }
        let filled = self.lines.fill(self.socket.as_fd());
        self.ended = filled == Filled::End;
        filled
    }

    /// The next whole line, without its newline; valid until the next [`Link::fill`].
    pub(super) fn next_line(&mut self) -> Option<Range<usize>> {
        self.lines.next_line()
    }

    /// The bytes of a line.
    pub(super) fn get(&self, line: Range<usize>) -> &[u8] {
        self.lines.get(line)
    }

    /// The bytes of a line, to keep. Not copied where they are all there is.
    pub(super) fn take(&mut self, line: Range<usize>) -> (Vec<u8>, Range<usize>) {
        self.lines.take(line)
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// Some bytes.
    Some,
    /// Nothing yet.
    Nothing,
    /// The other side is gone; all that it had written has been read.
    End,
    /// A line that is longer than any that drowse passes on.
    TooLong,
}

fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(0),
            other => return other.map_err(io::Error::from),
        }
    }
}

/// Bytes that were read, cut into lines.
#[derive(Debug, Default)]
struct LineBuffer {
    bytes: Vec<u8>,
    /// Where the next line starts.
    start: usize,
    /// Up to where there is no newline.
    scanned: usize,
}

impl LineBuffer {
    fn fill(&mut self, socket: BorrowedFd<'_>) -> Filled {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT);
            (self.start, self.scanned) = (0, 0);
        } else if self.start > CHUNK && self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        if self.bytes.len() - self.start > MAX_MESSAGE + MESSAGE_SLACK {
            return Filled::TooLong;
        }
        let room = self.bytes.capacity() - self.bytes.len();
        if room < FIRST_CHUNK / 2 {
            self.bytes.reserve(if self.bytes.is_empty() { FIRST_CHUNK } else { CHUNK });
        }
        loop {
            match rustix::io::read(socket, spare_capacity(&mut self.bytes)) {
                Ok(0) => return Filled::End,
                Ok(_) => return Filled::Some,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Filled::Nothing,
                // The other side left without reading all of what we wrote: an end like any other, and
                // what it had written comes before it.
                Err(_) => return Filled::End,
            }
        }
    }

    fn next_line(&mut self) -> Option<Range<usize>> {
        let Some(at) = seek::byte(b'\n', self.bytes.get(self.scanned..)?) else {
            self.scanned = self.bytes.len();
            return None;
        };
        let line = self.start..self.scanned + at;
        self.start = line.end + 1;
        self.scanned = self.start;
        Some(line)
    }

    fn get(&self, line: Range<usize>) -> &[u8] {
        self.bytes.get(line).unwrap_or_default()
    }

    fn take(&mut self, line: Range<usize>) -> (Vec<u8>, Range<usize>) {
        if line.start == 0 && self.start == self.bytes.len() {
            (self.start, self.scanned) = (0, 0);
            return (std::mem::take(&mut self.bytes), line);
        }
        let copy = self.get(line).to_vec();
        let all = 0..copy.len();
        (copy, all)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn pair() -> (UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (ours, theirs)
    }

    #[test]
    fn lines_whatever_the_pieces() {
        let text = b"one\n\ntwo\nthree and more\nrest";
        for piece in 1..text.len() {
            let (ours, mut theirs) = pair();
            let mut lines = LineBuffer::default();
            let mut seen: Vec<Vec<u8>> = Vec::new();
            for bytes in text.chunks(piece) {
                theirs.write_all(bytes).unwrap();
                assert_eq!(lines.fill(ours.as_fd()), Filled::Some);
                while let Some(line) = lines.next_line() {
                    seen.push(lines.get(line).to_vec());
                }
            }
            assert_eq!(seen, [b"one".to_vec(), vec![], b"two".to_vec(), b"three and more".to_vec()]);
            assert_eq!(lines.fill(ours.as_fd()), Filled::Nothing);
            drop(theirs);
            assert_eq!(lines.fill(ours.as_fd()), Filled::End);
        }
    }

    #[test]
    fn a_large_line_is_kept_without_a_copy_and_others_stay() {
        let (ours, mut theirs) = pair();
        let mut lines = LineBuffer::default();
        theirs.write_all(b"first\nsecond\n").unwrap();
        lines.fill(ours.as_fd());
        let first = lines.next_line().unwrap();
        let (bytes, range) = lines.take(first);
        assert_eq!(&bytes[range], b"first");
        let second = lines.next_line().unwrap();
        let (bytes, range) = lines.take(second);
        assert_eq!(&bytes[range], b"second");
        theirs.write_all(b"third\n").unwrap();
        lines.fill(ours.as_fd());
        let address = lines.bytes.as_ptr();
        let third = lines.next_line().unwrap();
        let (bytes, range) = lines.take(third);
        assert_eq!(&bytes[range], b"third");
        assert_eq!(bytes.as_ptr(), address);
        assert_eq!(lines.fill(ours.as_fd()), Filled::Nothing);
    }

    const HELLO: &[u8] = b"hello\n";
    const WELCOME: &[u8] = b"{\"drowse\":{\"hello\":{\"version\":1,\"bridge\":\"0\",\"pid\":1}}}\n";

    /// What comes of a hello with something along, at a bridge that does what it does.
    fn greeted(wait: Wait<'_>, bridge: impl FnOnce(UnixListener) + Send) -> Result<Greeting, Cut> {
        let dir = tempfile::tempdir().unwrap();
        let address = SocketAddress::new(dir.path().join("sock")).unwrap();
        let listener = UnixListener::bind(address.as_path()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || bridge(listener));
            greet(&address, HELLO, Some(b"operation\n"), wait, Duration::from_millis(50)).unwrap()
        })
    }

    #[test]
    fn what_goes_along_is_sent_at_once_and_counted_once() {
        let greeting = greeted(Wait::default(), |listener| {
            let mut stream = listener.accept().unwrap().0;
            let mut read = [0; 16];
            stream.read_exact(&mut read).unwrap();
            assert_eq!(&read, b"hello\noperation\n");
            stream.write_all(WELCOME).unwrap();
        });
        let Ok(Greeting::Welcome(mut link)) = greeting else { panic!("no welcome") };
        assert_eq!((link.take_ahead(), link.take_ahead()), (10, 0));
    }

    #[test]
    fn what_went_along_to_a_silent_bridge_is_taken_back() {
        let past = Wait { deadline: Some(Instant::now()), interrupt: None };
        let (interrupt, mut raise) = io::pipe().unwrap();
        raise.write_all(b"x").unwrap();
        let interrupted = Wait { deadline: None, interrupt: Some(interrupt.as_fd()) };
        for wait in [Wait::default(), past, interrupted] {
            let (send, receive) = std::sync::mpsc::channel();
            let greeting = greeted(wait, move |listener| {
                send.send(listener.accept().unwrap().0).unwrap();
            });
            let mut stream = receive.recv().unwrap();
            match greeting {
                Ok(Greeting::Absent) => assert!(wait.deadline.is_none() && wait.interrupt.is_none()),
                Err(Cut::Deadline) => assert!(wait.deadline.is_some()),
                Err(Cut::Interrupted) => assert!(wait.interrupt.is_some()),
                _ => panic!("it was silent"),
            }
            // It cannot say any more that it takes requests, and so must not take this one.
            assert!(stream.write_all(WELCOME).is_err());
        }
    }

    #[test]
    fn what_was_taken_by_the_time_that_it_is_wanted_back_may_have_run() {
        let (ours, mut theirs) = pair();
        theirs.write_all(WELCOME).unwrap();
        let unanswered = Unanswered { socket: ours.into(), lines: LineBuffer::default(), ahead: 10 };
        let Greeting::Welcome(mut link) = unanswered.take_back() else { panic!("it was answered") };
        assert_eq!((link.take_ahead(), link.fill()), (10, Filled::End));
    }

    #[test]
    fn all_that_was_received_comes_before_the_end() {
        let (ours, mut theirs) = pair();
        // Left unread by the other side, which makes its end a reset.
        send(&OwnedFd::from(ours.try_clone().unwrap()), b"never read").unwrap();
        theirs.write_all(b"last words\n").unwrap();
        drop(theirs);
        let mut lines = LineBuffer::default();
        assert!(send(&OwnedFd::from(ours.try_clone().unwrap()), b"x").is_err());
        assert_eq!(lines.fill(ours.as_fd()), Filled::Some);
        let line = lines.next_line().unwrap();
        assert_eq!(lines.get(line), b"last words");
        assert_eq!(lines.fill(ours.as_fd()), Filled::End);
    }
}
