//! The client: starts what is measured, opens the connection, and makes the calls of a phase over standard streams or
//! over HTTP.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::calls::{Calls, Era, Outcome};
use super::http;
use super::lines::{Lines, Output};
use super::measure;
use super::peek;

/// Nothing is heard for so long: what is not answered is lost.
const PATIENCE: Duration = Duration::from_secs(30);
/// Above this backlog no more calls are begun.
const BACKLOG: usize = 4 << 20;

/// Calls to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// How many at once.
    pub at_once: usize,
    /// How many bytes each says.
    pub bytes: usize,
    /// How many in all.
    pub count: usize,
    /// Who stops reading, if anybody does.
    pub stall: Option<Stall>,
}

/// Who stops reading ten times during a phase, for a fifth of a second each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// The client, which goes on asking.
    Client,
    /// The server.
    Server,
}

/// How long a stall lasts.
const STALL: Duration = Duration::from_millis(200);
const STALLS: usize = 10;

impl Phase {
    /// `at_once:bytes:count`, and `:client` or `:server` for who stalls.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let number = |at: usize| parts.get(at)?.parse::<usize>().ok().filter(|number| *number > 0);
        let stall = match parts.get(3) {
            None => None,
            Some(&"client") => Some(Stall::Client),
            Some(&"server") => Some(Stall::Server),
            Some(_) => return None,
        };
        (parts.len() <= 4).then_some(())?;
        Some(Self { at_once: number(0)?, bytes: number(1)?, count: number(2)?, stall })
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.at_once, self.bytes, self.count)?;
        match self.stall {
            None => Ok(()),
            Some(Stall::Client) => f.write_str(":client"),
            Some(Stall::Server) => f.write_str(":server"),
        }
    }
}

/// What a phase came to.
#[derive(Debug, Clone)]
pub struct Measured {
    /// What became of the calls.
    pub outcome: Outcome,
    /// From the first to the last.
    pub time: Duration,
    /// Processor time of the proxy, in nanoseconds.
    pub cpu: u64,
}

/// A program that is spoken to.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    /// The words of the server behind it.
    server: Vec<String>,
    era: Era,
    way: Way,
    next: u64,
    /// From its start to the answer to the first `tools/list`.
    pub started: Duration,
}

#[derive(Debug)]
enum Way {
    Streams { input: Option<OwnedFd>, output: OwnedFd, lines: Lines },
    Http { address: String, path: String, session: Option<String> },
}

impl Peer {
    /// Starts a program, behind whose words come those of its server, and opens the connection: over its standard streams, or at a URL that it serves.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn start(words: &[String], server: &[String], url: Option<&str>, era: Era) -> io::Result<Self> {
        let words = [words, server].concat();
        let (program, arguments) = words.split_first().ok_or_else(|| io::Error::other("which program?"))?;
        let begun = Instant::now();
        let piped = || if url.is_some() { Stdio::null() } else { Stdio::piped() };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(piped())
            .stdout(piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| io::Error::other(format!("{program}: {error}")))?;
        let way = match url {
            Some(url) => {
                let rest = url.strip_prefix("http://").unwrap_or(url);
                let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
                Way::Http { address: address.to_owned(), path: format!("/{path}"), session: None }
            }
            None => {
                let input = child.stdin.take().map(OwnedFd::from);
                let output =
                    child.stdout.take().map(OwnedFd::from).ok_or_else(|| io::Error::other("no output"))?;
                for end in input.iter().chain([&output]) {
                    rustix::io::ioctl_fionbio(end, true)?;
                }
                Way::Streams { input, output, lines: Lines::default() }
            }
        };
        let mut peer = Self { child, server: server.to_vec(), era, way, next: 1, started: Duration::ZERO };
        peer.open()?;
        peer.started = begun.elapsed();
        Ok(peer)
    }

    /// The processes that stand between client and server.
    #[must_use]
    pub fn proxies(&self) -> Vec<u32> {
        measure::proxies(self.child.id(), &self.server)
    }

    fn open(&mut self) -> io::Result<()> {
        if self.era == Era::Legacy {
            let params = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"drowse-load","version":"1"}}"#;
            self.request("initialize", params)?;
            self.say(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        }
        let meta = self.era.meta();
        let params = format!("{{{}}}", meta.strip_suffix(',').unwrap_or(meta));
        self.request("tools/list", &params)
    }

    /// Makes one request and waits for its answer.
    fn request(&mut self, method: &str, params: &str) -> io::Result<()> {
        let id = self.next;
        self.next += 1;
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let until = Instant::now() + PATIENCE;
        match &mut self.way {
            Way::Http { address, path, session } => {
                let mut line = Vec::new();
                // It may not listen yet.
                let mut exchange = loop {
                    match Exchanges::connect(address, path, session.clone(), self.era) {
                        Ok(exchange) => break exchange,
                        Err(error) if Instant::now() > until => return Err(error),
                        Err(_) => thread::sleep(Duration::from_millis(1)),
                    }
                };
                let head = exchange.post(text.as_bytes(), |found| line = found.to_vec())?;
                *session = session.take().or(head.session);
                is_result(&line, method)
            }
            Way::Streams { .. } => {
                self.say(text.as_bytes())?;
                let Way::Streams { output, lines, .. } = &mut self.way else { return Ok(()) };
                loop {
                    while let Some(line) = lines.next() {
                        if peek::peek(line).is_some_and(|peek| {
                            peek.method.is_none()
                                && peek.id.and_then(|id| peek::number(&line[id])) == Some(id)
                        }) {
                            return is_result(line, method);
                        }
                    }
                    wait(output, PollFlags::IN, until)?;
                    read(output, lines)?;
                }
            }
        }
    }

    /// Writes one message that is not answered.
    fn say(&mut self, text: &[u8]) -> io::Result<()> {
        match &mut self.way {
            Way::Http { address, path, session } => {
                Exchanges::connect(address, path, session.clone(), self.era)?.post(text, |_| {}).map(drop)
            }
            Way::Streams { input, .. } => {
                let input = input.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
                let mut out = Output::default();
                out.buffer().extend_from_slice(text);
                out.buffer().push(b'\n');
                while !out.is_empty() {
                    out.flush(input)?;
                    if !out.is_empty() {
                        wait(input, PollFlags::OUT, Instant::now() + PATIENCE)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Makes the calls of a phase.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn run(&mut self, phase: &Phase) -> io::Result<Measured> {
        let proxies = self.proxies();
        let (cpu, begun) = (measure::cpu(&proxies), Instant::now());
        let outcome = match &mut self.way {
            Way::Streams { input, output, lines } => {
                let input = input.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
                let mut calls = Calls::new(self.era, self.next, phase.at_once, phase.bytes, phase.count);
                streams(input, output, lines, phase, &mut calls, self.era)?;
                self.next = calls.next_number();
                calls.over()
            }
            Way::Http { address, path, session } => {
                let count = phase.count / phase.at_once;
                let span = (count as u64 + 2) * 2;
                let workers: Vec<_> = (0..phase.at_once as u64)
                    .map(|worker| {
                        let calls = Calls::new(self.era, self.next + worker * span, 1, phase.bytes, count);
                        let (address, path, session, era) =
                            (address.clone(), path.clone(), session.clone(), self.era);
                        thread::spawn(move || exchanges(&address, &path, session, era, calls))
                    })
                    .collect();
                self.next += span * phase.at_once as u64;
                let mut all = Outcome::default();
                for worker in workers {
                    all.add(worker.join().map_err(|_| io::Error::other("a worker panicked"))?);
                }
                all
            }
        };
        let time = begun.elapsed();
        Ok(Measured { outcome, time, cpu: measure::cpu(&proxies).saturating_sub(cpu) })
    }

    /// Closes its input and waits for its end; it is killed if that does not come.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn end(mut self) -> io::Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> io::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        if let Way::Streams { input, .. } = &mut self.way {
            *input = None;
        } else if let Some(pid) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let until = Instant::now() + Duration::from_secs(5);
        while self.child.try_wait()?.is_none() {
            if Instant::now() > until {
                self.child.kill()?;
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// Whoever fails before the end leaves no process behind.
impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

fn is_result(line: &[u8], method: &str) -> io::Result<()> {
    match peek::peek(line) {
        Some(peek) if !peek.is_error => Ok(()),
        _ => Err(io::Error::other(format!("{method}: {}", String::from_utf8_lossy(line)))),
    }
}

fn wait(stream: &OwnedFd, flags: PollFlags, until: Instant) -> io::Result<()> {
    let left = until.checked_duration_since(Instant::now()).ok_or(io::ErrorKind::TimedOut)?;
    let left = rustix::time::Timespec::try_from(left).map_err(io::Error::other)?;
    poll(&mut [PollFd::new(stream, flags)], Some(&left))?;
    Ok(())
}

/// Reads once, if there is something.
fn read(output: &OwnedFd, lines: &mut Lines) -> io::Result<usize> {
    match rustix::io::read(output, lines.space()) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(n) => {
            lines.filled(n);
            Ok(n)
        }
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

fn streams(
    input: &OwnedFd,
    output: &OwnedFd,
    lines: &mut Lines,
    phase: &Phase,
    calls: &mut Calls,
    era: Era,
) -> io::Result<()> {
    let mut out = Output::default();
    let mut heard = Instant::now();
    let (mut stalls, mut stalled): (usize, Option<Instant>) = (0, None);
    while !calls.is_over() {
        if phase.stall.is_some() && calls.answered() > stalls * phase.count / STALLS {
            stalls += 1;
            match phase.stall {
                Some(Stall::Client) => stalled = Some(Instant::now() + STALL),
                _ => {
                    // Its number is below those of the calls, so its answer is no call's; it has none that is counted.
                    let stall = format!(
                        r#"{{"jsonrpc":"2.0","id":"stall {stalls}","method":"tools/call","params":{{{}"name":"stall","arguments":{{"ms":{}}}}}}}"#,
                        era.meta(),
                        STALL.as_millis()
                    );
                    out.buffer().extend_from_slice(stall.as_bytes());
                    out.buffer().push(b'\n');
                }
            }
        }
        while out.len() < BACKLOG && calls.ask(out.buffer()) {
            out.buffer().push(b'\n');
        }
        out.flush(input)?;
        let now = Instant::now();
        stalled = stalled.filter(|until| now < *until);
        if heard.elapsed() > PATIENCE {
            return Ok(());
        }
        let reads = if stalled.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let writes = if out.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let patience = stalled.map_or(Duration::from_secs(1), |until| until - now);
        let patience = rustix::time::Timespec::try_from(patience).map_err(io::Error::other)?;
        let mut wanted = [
            PollFd::from_borrowed_fd(output.as_fd(), reads),
            PollFd::from_borrowed_fd(input.as_fd(), writes),
        ];
        poll(&mut wanted, Some(&patience))?;
        if stalled.is_none() && wanted[0].revents().intersects(PollFlags::IN | PollFlags::HUP) {
            if read(output, lines)? > 0 {
                heard = Instant::now();
            }
            while let Some(line) = lines.next() {
                if !is_of_stall(line) {
                    calls.take(line);
                }
            }
        }
    }
    Ok(())
}

fn is_of_stall(line: &[u8]) -> bool {
    memchr::memmem::find(&line[..line.len().min(64)], br#""stall "#).is_some()
}

/// One connection, on which one request follows the other.
struct Exchanges {
    stream: TcpStream,
    input: http::Input,
    head: String,
    body: Vec<u8>,
    out: Vec<u8>,
    modern: bool,
}

impl Exchanges {
    fn connect(address: &str, path: &str, session: Option<String>, era: Era) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {}\r\n",
            era.revision()
        );
        if let Some(session) = session {
            head += &format!("Mcp-Session-Id: {session}\r\n");
        }
        let (input, modern) = (http::Input::default(), era == Era::Modern);
        Ok(Self { stream, input, head, body: Vec::new(), out: Vec::new(), modern })
    }

    /// Posts a message, and shows each that comes back.
    fn post(&mut self, text: &[u8], mut show: impl FnMut(&[u8])) -> io::Result<http::Head> {
        self.out.clear();
        self.out.extend_from_slice(self.head.as_bytes());
        if self.modern
            && let Some(peek) = peek::peek(text)
        {
            // What 2026-07-28 wants to see in the head.
            if let Some(method) = peek.method {
                self.out.extend_from_slice(b"Mcp-Method: ");
                self.out.extend_from_slice(&text[method]);
                self.out.extend_from_slice(b"\r\n");
            }
            let name = peek.body.and_then(|body| peek::member(text, body.start, b"name"));
            if let Some(name) = name {
                self.out.extend_from_slice(b"Mcp-Name: ");
                self.out.extend_from_slice(&text[name.start + 1..name.end - 1]);
                self.out.extend_from_slice(b"\r\n");
            }
        }
        self.out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", text.len()).as_bytes());
        self.out.extend_from_slice(text);
        self.stream.write_all(&self.out)?;
        let head = self.input.head(&mut self.stream)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.input.body(&mut self.stream, &head, &mut self.body)?;
        if head.events {
            http::events(&self.body).for_each(show);
        } else if !self.body.is_empty() {
            show(&self.body);
        }
        Ok(head)
    }
}

/// Makes calls one after the other on one connection, on a new one where that ends.
fn exchanges(address: &str, path: &str, session: Option<String>, era: Era, mut calls: Calls) -> Outcome {
    let (mut text, mut failures) = (Vec::new(), 0);
    let mut connection = None;
    while failures < 3 && calls.ask(&mut text) {
        let exchange = match &mut connection {
            Some(exchange) => exchange,
            None => match Exchanges::connect(address, path, session.clone(), era) {
                Ok(exchange) => connection.insert(exchange),
                Err(_) => break,
            },
        };
        if exchange.post(&text, |line| calls.take(line)).is_err() {
            connection = None;
            failures += 1;
        }
        text.clear();
    }
    calls.over()
}
