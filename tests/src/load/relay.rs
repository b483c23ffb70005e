//! What one hop costs at the least: it gives each request an id of its own, each answer that of its request, and does
//! nothing else. It has no limits and knows of no eras.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};

use super::door::{Door, Reply};
use super::lines::{Lines, Output};
use super::peek::{self, Peek};

/// Above this backlog the other side is not read.
const BACKLOG: usize = 8 << 20;

/// One direction.
#[derive(Default)]
struct Way {
    lines: Lines,
    output: Output,
    over: bool,
}

impl Way {
    /// Reads once; `false` at the end.
    fn read(&mut self, from: impl AsFd) -> io::Result<bool> {
        match rustix::io::read(from, self.lines.space()) {
            Ok(n) => {
                self.lines.filled(n);
                self.over = n == 0;
                Ok(n > 0)
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// Relays between standard streams and a command, until the command ends.
///
/// # Errors
/// If it cannot be started, or a stream breaks.
pub fn run(words: &[String]) -> io::Result<()> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| io::Error::other("relay: to which command?"))?;
    let mut child =
        Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut to_server = child.stdin.take().map(OwnedFd::from);
    let from_server = child.stdout.take().map(OwnedFd::from).ok_or_else(|| io::Error::other("no output"))?;
    let (input, output) = (io::stdin(), io::stdout());
    let (mut up, mut down) = (Way::default(), Way::default());
    let mut ids: HashMap<u64, Vec<u8>> = HashMap::new();
    let mut next = 0_u64;
    for stream in [input.as_fd(), output.as_fd(), from_server.as_fd()]
        .into_iter()
        .chain(to_server.as_ref().map(AsFd::as_fd))
    {
        rustix::io::ioctl_fionbio(stream, true)?;
        let _ = rustix::pipe::fcntl_setpipe_size(stream, 1 << 20);
    }
    while !down.over {
        let wants = |wanted: bool, flag| if wanted { flag } else { PollFlags::empty() };
        let null = to_server.as_ref().map_or(from_server.as_fd(), AsFd::as_fd);
        let input_fd = input.as_fd();
        let output_fd = output.as_fd();
        let mut wanted = [
            PollFd::from_borrowed_fd(
                if up.over { null } else { input_fd },
                wants(!up.over && up.output.len() < BACKLOG, PollFlags::IN),
            ),
            PollFd::from_borrowed_fd(from_server.as_fd(), wants(down.output.len() < BACKLOG, PollFlags::IN)),
            PollFd::from_borrowed_fd(null, wants(!up.output.is_empty(), PollFlags::OUT)),
            PollFd::from_borrowed_fd(output_fd, wants(!down.output.is_empty(), PollFlags::OUT)),
        ];
        poll(&mut wanted, None)?;
        let ready = wanted.map(|one| !one.revents().is_empty());
        if ready[0] && !up.over {
            up.read(&input)?;
            while let Some(line) = up.lines.next() {
                let out = up.output.buffer();
                match peek::peek(line) {
                    Some(Peek { id: Some(id), method: Some(_), .. }) => {
                        ids.insert(next, line[id.clone()].to_vec());
                        out.extend_from_slice(&line[..id.start]);
                        out.extend_from_slice(next.to_string().as_bytes());
                        out.extend_from_slice(&line[id.end..]);
                        next += 1;
                    }
                    _ => out.extend_from_slice(line),
                }
                out.push(b'\n');
            }
        }
        if ready[1] {
            down.read(&from_server)?;
            while let Some(line) = down.lines.next() {
                let out = down.output.buffer();
                let Some(Peek { id: Some(id), method: None, .. }) = peek::peek(line) else {
                    out.extend_from_slice(line);
                    out.push(b'\n');
                    continue;
                };
                let Some(theirs) = peek::number(&line[id.clone()]).and_then(|id| ids.remove(&id)) else {
                    continue;
                };
                out.extend_from_slice(&line[..id.start]);
                out.extend_from_slice(&theirs);
                out.extend_from_slice(&line[id.end..]);
                out.push(b'\n');
            }
        }
        if let Some(server) = &to_server {
            up.output.flush(server)?;
        }
        down.output.flush(&output)?;
        if up.over && up.output.is_empty() {
            to_server = None;
        }
    }
    child.wait().map(drop)
}

/// The same between HTTP and a command.
///
/// # Errors
/// If it cannot be started, or a stream of it breaks.
pub fn http(listener: TcpListener, words: &[String]) -> io::Result<()> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| io::Error::other("relay: to which command?"))?;
    let mut child =
        Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let to_server = child.stdin.take().map(OwnedFd::from).ok_or_else(|| io::Error::other("no input"))?;
    let from_server = child.stdout.take().map(OwnedFd::from).ok_or_else(|| io::Error::other("no output"))?;
    for stream in [&to_server, &from_server] {
        rustix::io::ioctl_fionbio(stream, true)?;
        let _ = rustix::pipe::fcntl_setpipe_size(stream, 1 << 20);
    }
    let mut door = Door::new(listener)?;
    let (mut up, mut down) = (Output::default(), Way::default());
    // Of which connection a request is, and its id there.
    let mut ids: HashMap<u64, (u64, Vec<u8>)> = HashMap::new();
    let mut next = 0_u64;
    while !down.over {
        let writes = if up.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let mut streams = [(from_server.as_fd(), PollFlags::IN), (to_server.as_fd(), writes)];
        door.turn(&mut streams, |connection, body, _| {
            let out = up.buffer();
            let reply = match peek::peek(body) {
                Some(Peek { id: Some(id), method: Some(_), .. }) => {
                    ids.insert(next, (connection, body[id.clone()].to_vec()));
                    out.extend_from_slice(&body[..id.start]);
                    out.extend_from_slice(next.to_string().as_bytes());
                    out.extend_from_slice(&body[id.end..]);
                    next += 1;
                    Reply::Later
                }
                _ => {
                    out.extend_from_slice(body);
                    Reply::Nothing
                }
            };
            out.push(b'\n');
            reply
        })?;
        up.flush(&to_server)?;
        if streams[0].1.is_empty() {
            continue;
        }
        down.read(&from_server)?;
        while let Some(line) = down.lines.next() {
            let Some(Peek { id: Some(id), method: None, .. }) = peek::peek(line) else { continue };
            let Some((connection, theirs)) = peek::number(&line[id.clone()]).and_then(|id| ids.remove(&id))
            else {
                continue;
            };
            door.answer(connection, &[&line[..id.start], &theirs, &line[id.end..]]);
        }
    }
    child.wait().map(drop)
}
