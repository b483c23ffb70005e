//! HTTP on one thread and without a runtime, as little of it as a floor needs: connections that are polled, and the requests
//! that they bring. It has no limits, and takes only bodies with a length.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use memchr::memmem;
use rustix::event::{PollFd, PollFlags, poll};

use super::lines::{Output, reuse};

/// How much one read asks for, at the least.
const ROOM: usize = 64 << 10;

/// What is said to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The text that was put behind `out`.
    Text,
    /// Nothing, which is said at once.
    Nothing,
    /// That comes later, by [`Door::answer`].
    Later,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    end: usize,
    output: Output,
    over: bool,
}

/// A listener and its connections.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    text: Vec<u8>,
}

impl Door {
    /// Connections of that listener.
    ///
    /// # Errors
    /// If it cannot be polled.
    pub fn new(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener, connections: BTreeMap::new(), next: 0, text: Vec::new() })
    }

    /// Waits until a connection has something, or one of the `others`, of which it then says what. Shows each request's body, with the number of its
    /// connection and where its answer goes.
    ///
    /// # Errors
    /// If nothing can be waited for.
    pub fn turn(
        &mut self,
        others: &mut [(BorrowedFd<'_>, PollFlags)],
        mut show: impl FnMut(u64, &[u8], &mut Vec<u8>) -> Reply,
    ) -> io::Result<()> {
        let ready: Vec<PollFlags> = {
            let mut wanted = vec![PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN)];
            wanted.extend(self.connections.values().map(|one| {
                let writes = if one.output.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
                PollFd::from_borrowed_fd(one.stream.as_fd(), PollFlags::IN | writes)
            }));
            wanted.extend(others.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)));
            poll(&mut wanted, None)?;
            wanted.iter().map(PollFd::revents).collect()
        };
        let own = 1 + self.connections.len();
        others.iter_mut().zip(&ready[own..]).for_each(|((_, flags), ready)| *flags = *ready);
        for (one, (number, connection)) in ready[1..own].iter().zip(&mut self.connections) {
            if one.is_empty() {
                continue;
            }
            connection.read();
            while let Some((is_post, body)) = connection.next() {
                self.text.clear();
                let reply = match is_post {
                    true => show(*number, &connection.input[body.clone()], &mut self.text),
                    false => Reply::Nothing,
                };
                let status = if is_post { "202 Accepted" } else { "405 Method Not Allowed" };
                match reply {
                    Reply::Text => connection.say("200 OK\r\nContent-Type: application/json", &self.text),
                    Reply::Nothing => connection.say(status, b""),
                    Reply::Later => {}
                }
                connection.skip(body.end);
            }
            connection.flush();
        }
        reuse(&mut self.text);
        self.connections.retain(|_, connection| !connection.over);
        if !ready[0].is_empty() {
            while let Ok((stream, _)) = self.listener.accept() {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                let (input, output) = (Vec::new(), Output::default());
                self.connections.insert(self.next, Connection { stream, input, end: 0, output, over: false });
                self.next += 1;
            }
        }
        Ok(())
    }

    /// Answers a request that was shown before, if its connection is still there.
    pub fn answer(&mut self, connection: u64, text: &[&[u8]]) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            self.text.clear();
            text.iter().for_each(|part| self.text.extend_from_slice(part));
            connection.say("200 OK\r\nContent-Type: application/json", &self.text);
            connection.flush();
        }
    }
}

impl Connection {
    fn read(&mut self) {
        if self.input.len() - self.end < ROOM {
            self.input.resize(self.end + ROOM, 0);
        }
        match rustix::io::read(&self.stream, &mut self.input[self.end..]) {
            Ok(n) if n > 0 => self.end += n,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            _ => self.over = true,
        }
    }

    /// The next request that is there as a whole: whether it is a POST, and where its body is.
    fn next(&self) -> Option<(bool, Range<usize>)> {
        let input = &self.input[..self.end];
        let head = memmem::find(input, b"\r\n\r\n")?;
        let start = head + 4;
        let end = start + length(&input[..head]);
        (end <= input.len()).then(|| (input.starts_with(b"POST "), start..end))
    }

    /// All before `at` was used.
    fn skip(&mut self, at: usize) {
        self.input.copy_within(at..self.end, 0);
        self.end -= at;
    }

    fn say(&mut self, status: &str, text: &[u8]) {
        let out = self.output.buffer();
        let _ = write!(out, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", text.len());
        out.extend_from_slice(text);
    }

    fn flush(&mut self) {
        self.over |= self.output.flush(&self.stream).is_err();
    }
}

/// How long the body is that belongs to a head.
fn length(head: &[u8]) -> usize {
    const NAME: &[u8] = b"content-length:";
    let lines = head.split(|byte| *byte == b'\n');
    let mut value = lines.filter_map(|line| {
        let (name, value) = line.split_at_checked(NAME.len())?;
        name.eq_ignore_ascii_case(NAME).then(|| value.trim_ascii())
    });
    let digits = value.next().unwrap_or_default().iter();
    digits.fold(0, |length, digit| length * 10 + usize::from(digit & 15))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn requests_in_pieces_and_several_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut door = Door::new(listener).unwrap();
        let mut seen = Vec::new();
        let mut turn = |door: &mut Door| {
            door.turn(&mut [], |number, body, out| {
                seen.push((number, body.to_vec()));
                out.extend_from_slice(body);
                match body {
                    b"one" => Reply::Text,
                    b"two" => Reply::Later,
                    _ => Reply::Nothing,
                }
            })
            .unwrap();
        };
        turn(&mut door);
        let head = "POST / HTTP/1.1\r\nHost: x\r\nCONTENT-length: 3\r\n\r\n";
        client.write_all(head.as_bytes()).unwrap();
        turn(&mut door);
        client.write_all(format!("one{head}two{head}sixGET / HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        turn(&mut door);
        door.answer(0, &[b"t", b"wo"]);
        door.answer(7, &[b"nobody"]);
        let bodies = [b"one", b"two", b"six"].map(|body| (0, body.to_vec()));
        assert_eq!(seen, bodies);
        client.shutdown(std::net::Shutdown::Write).unwrap();
        door.turn(&mut [], |_, _, _| Reply::Nothing).unwrap();
        assert!(door.connections.is_empty());
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        let status: Vec<&str> =
            said.lines().filter_map(|line| Some(line.split_once("HTTP/1.1 ")?.1)).collect();
        assert_eq!(status, ["200 OK", "202 Accepted", "405 Method Not Allowed", "200 OK"]);
        assert!(said.ends_with("Content-Length: 3\r\n\r\ntwo"), "{said}");
    }
}
