//! The loop around one server, as an embedder writes it: events in, actions out, payloads kept beside the slots.

use drowse_core::crash::CrashLog;
use drowse_core::envelope;
use drowse_core::era::{Era, Pin};
use drowse_core::framing::{Frame, LineDecoder};
use drowse_core::front::place::Place;
use drowse_core::front::{self, Front, Inbound};
use drowse_core::http::exchange::Carried;
use drowse_core::lifecycle::{Exit, Lost};
use drowse_core::link::{Allowance, Failure, Key, Slot};
use drowse_core::message::{self, Identity, Writer};
use drowse_core::server::{Action, Config, Outcome, Server, StartError, Transport};
use drowse_core::splice::{self, Origin, Piece, Pieces, RequestParts, Rewrite};
use drowse_core::time::{Duration, Instant};
use drowse_core::trace::{Input, Output};

use crate::board::{self, Do, Event, MESSAGE, Process, Wish};
use crate::remote::Remote;
use crate::surface;
use crate::traced::Traced;

/// Requests that may be under way.
pub const SLOTS: usize = 32;
/// The longest line of the server.
pub const LINE: usize = 1024;

/// The machine.
pub type Machine = Server<[Slot; SLOTS]>;
/// The server's output, cut into lines.
pub type Lines = LineDecoder<[u8; LINE]>;

const ALLOWANCE: Allowance = Allowance { quiet: Duration::from_secs(5), total: Duration::from_secs(20) };
const US: Identity = Identity { name: "drowse-gates", version: "0.1.0" };

/// What comes after an event.
pub enum Next {
    /// The next event.
    Go,
    /// A new machine.
    Fresh(u64),
    /// The end.
    Stop,
}

/// Bytes of somebody else that are needed later.
#[derive(Clone, Copy)]
pub struct Kept {
    bytes: [u8; MESSAGE],
    length: usize,
}

impl Kept {
    /// Nothing.
    pub const EMPTY: Self = Self { bytes: [0; MESSAGE], length: 0 };

    /// What was kept.
    pub fn get(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Keeps as much as fits.
    fn keep(bytes: &[u8]) -> Self {
        let mut kept = Self::EMPTY;
        kept.extend(bytes);
        kept
    }

    /// Adds as much as fits; whether all of it does.
    pub fn extend(&mut self, bytes: &[u8]) -> bool {
        let before = self.length;
        for (slot, byte) in self.bytes.iter_mut().skip(before).zip(bytes) {
            *slot = *byte;
            self.length += 1;
        }
        self.length - before == bytes.len()
    }
}

/// A request whose key is out.
#[derive(Clone, Copy)]
struct Pending {
    key: Key,
    frame: Kept,
    parts: RequestParts,
    /// The caller takes answers as the server sent them.
    verbatim: bool,
}

/// What is kept beside the machine.
pub struct Desk {
    /// Parallel to the machine's slots.
    pending: [Option<Pending>; SLOTS],
    /// What the server says of itself.
    handshake: Kept,
}

/// One server and all that is known of it.
pub struct Adapter {
    front: Front,
    server: Traced,
    lines: Lines,
    desk: Desk,
    /// What is under way with the server, if it is one behind a URL.
    remote: Option<Remote>,
}

impl Adapter {
    /// A server that does not run. The bits of `settings` choose how it is kept.
    pub fn new(settings: u64) -> Self {
        let bit = |n: u32| settings >> n & 1 != 0;
        let mut config = Config::default();
        config.lifecycle.idle = Some(Duration::from_secs(10));
        config.lifecycle.auto_restart = bit(0);
        config.lifecycle.fail_on_expiry = bit(1);
        config.lifecycle.resident = bit(2);
        config.lifecycle.listens = bit(7);
        config.keepalive = bit(3).then_some(Duration::from_secs(3));
        config.remembered = bit(4).then_some(Era::Legacy);
        config.allowance = ALLOWANCE;
        config.pin = if bit(5) { Pin::from_name("2025-06-18").unwrap_or_default() } else { Pin::None };
        let remote = bit(6) && !crate::LEAN;
        if remote {
            config.transport = Transport::Http;
            config.limits.hedge = None;
            config.session_keepalive = config.keepalive;
        }
        let crashed = (0..settings >> 8 & 7).map(Instant::from_millis);
        let server = Server::new(config, [Slot::EMPTY; SLOTS], settings >> 16, CrashLog::from_times(crashed));
        Self {
            front: Front::new(),
            server: Traced::new(if bit(7) { server.after_loss(Lost::Ended) } else { server }),
            lines: LineDecoder::new([0; LINE], LINE),
            desk: Desk { pending: [None; SLOTS], handshake: Kept::EMPTY },
            remote: remote.then(Remote::new),
        }
    }

    /// When to come back at the latest.
    pub fn until(&self) -> Option<u64> {
        let timeout = self.server.poll_timeout().map(|(at, reason)| {
            board::checksum(reason as u64);
            at
        });
        let pause = self.remote.as_ref().and_then(Remote::until);
        [timeout, pause].into_iter().flatten().min().map(Instant::as_micros)
    }

    /// Hands in one event, and does what follows from it.
    pub fn handle(&mut self, event: Event) -> Next {
        let now = Instant::from_micros(board::now());
        match event {
            Event::Finish => {
                self.give_up();
                return Next::Stop;
            }
            Event::Fresh(settings) => {
                self.give_up();
                return Next::Fresh(settings);
            }
            Event::Request { bytes, length } => self.request(now, bytes.get(..length).unwrap_or_default()),
            Event::Cancel(which) => {
                let chosen = self.desk.pending.get(which as usize % SLOTS).copied().flatten();
                if let Some(pending) = chosen {
                    // Or its caller is asked something, or has answered.
                    let input = match which >> 5 & 3 {
                        1 => Input::Hold(pending.key),
                        2 => Input::Release(pending.key),
                        _ => Input::Cancel(pending.key),
                    };
                    self.server.put(now, input);
                }
            }
            Event::Readable => self.readable(now),
            Event::Tick => {
                if let Some(remote) = &mut self.remote {
                    remote.tick(now);
                }
                self.put(now, Input::Timeout);
            }
            Event::Network(what, bytes, length) => {
                if let Some(remote) = &mut self.remote {
                    let body = bytes.get(..length).unwrap_or_default();
                    remote.handle(now, &mut self.server, &mut self.desk, what, body);
                }
            }
            Event::Process(process) => self.process(now, process),
            Event::Wish(wish, argument) => {
                let input = match wish {
                    Wish::Wake => Input::Wake,
                    Wish::Defer => Input::Defer,
                    Wish::Undefer => Input::Undefer,
                    Wish::Show => Input::Show(argument & 1 != 0),
                    Wish::Idle => Input::SetIdle(Some(Duration::from_secs(argument))),
                    Wish::Leave => Input::Leave,
                    Wish::Close => Input::Close,
                    Wish::Writable => Input::SetWritable(argument & 1 != 0),
                };
                self.put(now, input);
            }
            Event::Bytes { .. } => {}
        }
        while let Output::Action(Some(action)) = self.server.put(now, Input::Poll) {
            self.act(action);
        }
        Next::Go
    }

    fn put(&mut self, now: Instant, input: Input<'_>) {
        self.server.put(now, input);
    }

    /// A line of the caller.
    fn request(&mut self, now: Instant, line: &[u8]) {
        board::checksum(u64::from(Place::of(line, true) == Place::Behind));
        let inbound = self.front.handle_frame(line, ALLOWANCE);
        board::checksum(self.front.read_count() + u64::from(self.front.is_open()));
        match inbound {
            Inbound::Operation { operation, parts, token } | Inbound::List { operation, parts, token } => {
                board::checksum(token.map_or(0, |token| token.len() as u64));
                match self.server.put(now, Input::Submit(operation)) {
                    Output::Submitted(Ok(key)) => {
                        board::act(Do::Accepted, key.wire());
                        if let Some(slot) = self.desk.pending.get_mut(key.index()) {
                            let verbatim = self.front.is_verbatim();
                            *slot = Some(Pending { key, frame: Kept::keep(line), parts, verbatim });
                        }
                    }
                    _ => {
                        self.front.unread();
                        board::act(Do::Refused, 0);
                    }
                }
            }
            Inbound::Hello { principal } => to_caller(&[principal.map_or(b"hello", |name| name.of(line))]),
            Inbound::Refused => to_caller(&[b"refused"]),
            Inbound::Leave => self.put(now, Input::Leave),
            // A board without storage for listeners.
            Inbound::Listen { id, .. }
            | Inbound::Sync { id, .. }
            | Inbound::Set { id, .. }
            | Inbound::Snapshot { id } => {
                to_caller(&[id.of(line)]);
            }
            Inbound::Discover { id } => {
                to_caller(&[br#"{"jsonrpc":"2.0","id":"#, id.of(line), br#","result":"#]);
                let handshake = Some(self.desk.handshake.get()).filter(|known| !known.is_empty());
                to_caller(&front::discovery(handshake));
                to_caller(&[b"}"]);
            }
            Inbound::Status { id } => to_caller(&[id.of(line), self.server.state().name().as_bytes()]),
            Inbound::Close { .. } => {
                self.front.close();
                self.server.put(now, Input::Close);
            }
            Inbound::Cancel { request, .. } => {
                let same = |pending: &Pending| pending.parts.id.of(pending.frame.get()) == request.of(line);
                let chosen = self.desk.pending.iter().flatten().find(|pending| same(pending));
                if let Some(key) = chosen.map(|pending| pending.key) {
                    self.server.put(now, Input::Cancel(key));
                }
            }
            Inbound::Initialize { id, revision, .. } => {
                to_caller(&[br#"{"jsonrpc":"2.0","id":"#, id.of(line), br#","result":"#]);
                let handshake = Some(self.desk.handshake.get()).filter(|known| !known.is_empty());
                to_caller(&front::initialization(handshake, revision, br#"{"name":"gates","version":"0"}"#));
                to_caller(&[b"}"]);
            }
            // A board whose callers are modern.
            Inbound::Ping { id } | Inbound::SetLevel { id } | Inbound::Subscribe { id, .. } => {
                to_caller(&[id.of(line)]);
            }
            Inbound::Answer { .. }
            | Inbound::Progress { .. }
            | Inbound::Batch { .. }
            | Inbound::Initialized
            | Inbound::Ignore => {}
            Inbound::Reject { id, rejection } => {
                surface::text(&rejection);
                let mut buffer = [0; MESSAGE];
                let id = id.map(|id| id.of(line));
                if let Ok(answer) = message::error(id, rejection.code(), "rejected", None, &mut buffer) {
                    to_caller(&[answer]);
                }
            }
        }
    }

    fn readable(&mut self, now: Instant) {
        if self.remote.is_some() {
            return;
        }
        loop {
            let space = self.lines.space();
            let taken = board::read(space);
            self.lines.filled(taken);
            // The frame lies in the decoder's buffer, so the parts of the adapter are borrowed one by one.
            while let Some(frame) = self.lines.poll_frame() {
                match frame {
                    Frame::Line(line) => {
                        self.desk.hear(&mut self.server, now, line);
                    }
                    Frame::Oversize(line) => {
                        let (id, is_response) = (line.id, line.is_response);
                        self.server.put(now, Input::Oversize { id, is_response });
                    }
                }
            }
            if taken == 0 {
                break;
            }
        }
    }

    fn process(&mut self, now: Instant, process: Process) {
        match process {
            Process::Lost => {
                while let Some(Frame::Line(line)) = self.lines.finish() {
                    self.desk.hear(&mut self.server, now, line);
                }
                self.server.put(now, Input::Lost);
            }
            Process::Exited(status) => self.put(now, Input::Exited(Exit::Status(status))),
            Process::Killed(signal) => self.put(now, Input::Exited(Exit::Signal(signal))),
            Process::TreeGone => {
                self.lines = LineDecoder::new([0; LINE], LINE);
                self.server.put(now, Input::TreeGone);
            }
            Process::Expired => self.put(now, Input::Expired),
            Process::Unauthorized => self.put(now, Input::Unauthorized),
        }
    }

    fn act(&mut self, action: Action) {
        let now = Instant::from_micros(board::now());
        match action {
            Action::Persist(record) => {
                let ended = u64::from(record.ended);
                if board::act(Do::Persist, record.generation << 8 | (record.state as u64) << 1 | ended) {
                    self.server.put(now, Input::Persisted);
                } else {
                    self.server.put(now, Input::PersistFailed);
                }
            }
            Action::Spawn { generation } => {
                if board::act(Do::Spawn, generation) {
                    self.server.put(now, Input::Spawned);
                } else {
                    self.server.put(now, Input::SpawnFailed);
                }
            }
            Action::SendOwn(own) => {
                if let Some(remote) = &mut self.remote {
                    let (carried, wire) = Remote::carried(&self.server, own);
                    remote.begin(now, &mut self.server, carried, wire);
                }
                let mut buffer = [0; message::OWN_MAX];
                if let Ok(bytes) = message::own(own, US, &mut buffer) {
                    to_server(bytes);
                }
            }
            Action::Send { key, wire, method, revision } => {
                let Some(pending) = self.desk.pending.get(key.index()).copied().flatten() else { return };
                let frame = pending.frame.get();
                let progress = method.wants_progress();
                let how = Rewrite { wire, progress, revision, level: None, from: Origin::Verbatim };
                match splice::request(frame, &pending.parts, &how) {
                    Ok(pieces) => {
                        // What the network may have got may run.
                        let handed = self.remote.is_some();
                        if let Some(remote) = &mut self.remote {
                            self.server.put(now, Input::Sent(key));
                            remote.begin(now, &mut self.server, Carried::Request(method), wire);
                        }
                        if spliced(Do::ToServer, &pieces, frame, b"") && !handed {
                            self.server.put(now, Input::Sent(key));
                        }
                    }
                    Err(_) => self.put(now, Input::Cancel(key)),
                }
            }
            // What is not asked for is not saved.
            Action::Relay(_) | Action::Snapshot(_) => {}
            // Who is connected would be told.
            Action::Renewed(_) => {
                board::act(Do::Noticed, 0);
            }
            Action::Listen | Action::OpenOldStream => {
                let carried = if action == Action::Listen { Carried::Listening } else { Carried::OldStream };
                if let Some(remote) = &mut self.remote {
                    remote.begin(now, &mut self.server, carried, 0);
                }
            }
            Action::AnswerLevel { key } => drop(self.desk.take(key)),
            Action::AnswerInfo { key } => {
                if let Some(pending) = self.desk.take(key) {
                    let mut buffer = [0; 2 * MESSAGE];
                    let mut w = Writer::new(&mut buffer);
                    w.raw(br#"{"jsonrpc":"2.0","id":"#);
                    w.raw(pending.parts.id.of(pending.frame.get()));
                    w.raw(br#","result":{"handshake":"#);
                    w.raw(self.desk.handshake.get());
                    w.raw(b"}}");
                    if let Ok(bytes) = w.finish() {
                        to_caller(&[bytes]);
                    }
                }
            }
            Action::Fail { key, failure } => {
                if let Some(remote) = &mut self.remote {
                    remote.abandon(now, &mut self.server, key);
                }
                if let Some(pending) = self.desk.take(key) {
                    fail(&pending, failure);
                }
            }
            Action::CloseInput => {
                board::act(Do::CloseInput, 0);
                if let Some(remote) = &mut self.remote {
                    remote.close(now, &mut self.server);
                }
            }
            Action::Terminate | Action::Kill => {
                board::act(if action == Action::Kill { Do::Kill } else { Do::Terminate }, 0);
                if let Some(remote) = &mut self.remote {
                    remote.abort(now, &mut self.server);
                }
            }
            Action::Retire => {
                board::act(Do::Retire, self.server.state() as u64);
            }
        }
    }

    /// Takes every key back: whoever waits is told nothing more.
    fn give_up(&mut self) {
        if let Some(StartError::Negotiation(error)) = self.server.start_error() {
            surface::text(&error);
        }
        board::checksum(u64::from(self.server.timetable().next() == self.server.poll_timeout()));
        board::checksum(u64::from(self.server.is_stopping()) + self.server.lifecycle().generation());
        for (index, slot) in self.desk.pending.iter_mut().enumerate() {
            if let Some(pending) = slot.take() {
                let known =
                    self.server.is_live(pending.key) && self.server.key_at(index) == Some(pending.key);
                board::act(if known { Do::Released } else { Do::Stray }, pending.key.wire());
            }
        }
    }
}

impl Desk {
    /// What follows from a message of the server.
    pub fn hear(&mut self, server: &mut Traced, now: Instant, line: &[u8]) {
        let Output::Heard(outcome) = server.put(now, Input::Frame(line)) else { return };
        let Outcome::Batch(items) = outcome else { return self.single(line, outcome) };
        for item in envelope::batch(line, items) {
            board::checksum(envelope::batch_after(line, items, item).count() as u64);
            let item = item.of(line);
            if let Output::Heard(outcome) = server.put(now, Input::Frame(item)) {
                self.single(item, outcome);
            }
        }
    }

    /// What follows from one message; a batch within a batch is none.
    fn single(&mut self, frame: &[u8], outcome: Outcome) {
        let mut buffer = [0; MESSAGE];
        match outcome {
            Outcome::Deliver { key, method, message, revision } => {
                if let Some(pending) = self.take(key)
                    && let Ok(pieces) =
                        splice::answer(frame, &message, pending.parts.id, method, revision, pending.verbatim)
                {
                    spliced(Do::ToCaller, &pieces, frame, pending.frame.get());
                }
            }
            Outcome::Progress { key, token } => {
                if let Some(pending) = self.pending.get(key.index()).copied().flatten()
                    && let Some(wanted) = pending.parts.value(envelope::Known::ProgressToken)
                    && let Ok(pieces) = splice::progress(frame, token, wanted)
                {
                    spliced(Do::ToCaller, &pieces, frame, pending.frame.get());
                }
            }
            Outcome::Handshake(span) => self.handshake = Kept::keep(span.of(frame)),
            Outcome::Pong { id } => {
                if let Ok(bytes) = message::empty_result(id.of(frame), &mut buffer) {
                    to_server(bytes);
                }
            }
            Outcome::Asked(RequestParts { id, method, .. }) => {
                board::checksum(method.len() as u64);
                let declined = message::error(Some(id.of(frame)), -32601, "not supported", None, &mut buffer);
                if let Ok(bytes) = declined {
                    to_server(bytes);
                }
            }
            Outcome::Notification { method } => {
                board::act(Do::Noticed, method.len() as u64);
            }
            Outcome::Updated { .. }
            | Outcome::Acknowledged { .. }
            | Outcome::Unheard { .. }
            | Outcome::Listed(_)
            | Outcome::Batch(_)
            | Outcome::Ignored(_) => {
                board::act(Do::Noticed, 0);
            }
        }
    }

    fn take(&mut self, key: Key) -> Option<Pending> {
        let taken = self.pending.get_mut(key.index())?.take_if(|pending| pending.key == key)?;
        board::act(Do::Released, key.wire());
        Some(taken)
    }
}

fn fail(pending: &Pending, failure: Failure) {
    let mut data = [0; 128];
    let mut w = Writer::new(&mut data);
    w.raw(br#"{"drowse":{"kind":"#);
    w.string(failure.cause.kind());
    w.raw(br#","ran":"#);
    w.string(failure.ran.name());
    w.raw(b"}}");
    let Ok(data) = w.finish() else { return };
    let mut buffer = [0; MESSAGE];
    let id = Some(pending.parts.id.of(pending.frame.get()));
    if let Ok(bytes) = message::error(id, -32000, failure.cause.kind(), Some(data), &mut buffer) {
        to_caller(&[bytes]);
    }
}

fn to_caller(parts: &[&[u8]]) {
    for part in parts {
        board::write(Do::ToCaller, part);
    }
    board::end_of_message(Do::ToCaller);
}

fn to_server(bytes: &[u8]) {
    board::write(Do::ToServer, bytes);
    board::end_of_message(Do::ToServer);
}

/// Writes a message piece by piece; whether the first byte was taken.
fn spliced(to: Do, pieces: &Pieces, frame: &[u8], other: &[u8]) -> bool {
    let mut sent = false;
    for piece in pieces.iter() {
        sent |= match piece {
            Piece::Frame(span) => board::write(to, span.of(frame)),
            Piece::Other(span) => board::write(to, span.of(other)),
            Piece::Fixed(bytes) => board::write(to, bytes),
            Piece::Number(value) => board::write(to, message::decimal(*value, &mut [0; 20])),
        };
    }
    board::end_of_message(to);
    sent
}
