//! The bridge's middle: callers on one side, one server on the other, the core's machine between them.
//!
//! Carries bytes and does what the machine says; it decides nothing about protocol, lifecycle or time. Everything runs
//! on one thread; each stream has one reading task and one flushing task, and no request has a task of its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::task::Poll;

use drowse_core::crash::CrashLog;
use drowse_core::envelope;
use drowse_core::era::Revision;
use drowse_core::framing::Frame;
use drowse_core::front::{self, Front, Inbound, Rejection};
use drowse_core::lifecycle::{Exit, PublicState, Record};
use drowse_core::link::{Key, Slot};
use drowse_core::message::{self, Identity};
use drowse_core::method::Method;
use drowse_core::negotiate::NegotiationError;
use drowse_core::server::{self, Action, Ignored, Operation, Outcome, Refusal, Server, StartError};
use drowse_core::span::Span;
use drowse_core::splice::{self, Piece, Pieces, RequestParts};
use drowse_core::time::{Duration, Instant};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::spawn_local;

use crate::wire::Kind;

use super::backend::{Backend, Control, Facts, Host, StartFailure};
use super::explain::{self, Circumstances, Explained};
use super::intake::Intake;
use super::outlet::{Outlet, flush_once};
use crate::fault;

/// Who drowse is to servers.
const IDENTITY: Identity = Identity { name: "drowse", version: env!("CARGO_PKG_VERSION") };
/// Above this backlog the server gets no further requests; they stay queued.
const SERVER_BACKLOG: usize = 1 << 20;
/// How many reads the pipes of a server that ended may take: more than the largest pipe holds.
const DRAIN: usize = 512;
/// How long a connection that is over may take to read what was said last.
const GOODBYE: Duration = Duration::from_secs(2);
/// Above this backlog a caller is not read from.
const CLIENT_BACKLOG: usize = 1 << 20;
/// How much of the server's stderr is kept for error messages.
const STDERR_TAIL: usize = 4 << 10;

/// What a hub is started with.
#[derive(Debug, Clone)]
pub struct HubConfig {
    /// How the server is run.
    pub server: server::Config,
    /// How many requests may be under way.
    pub slots: usize,
    /// The longest message, in bytes.
    pub limit: usize,
    /// The last generation that was started.
    pub generation: u64,
    /// Recent crashes, in milliseconds since 1970.
    pub crashes: Vec<u64>,
    /// The revision of the last run.
    pub revision: Option<Revision>,
    /// The time now, in microseconds since 1970.
    pub now_micros: u64,
}

/// The shared handle; everything is on one thread.
#[derive(Clone)]
pub struct Hub(Rc<Shared>);

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}

struct Shared {
    inner: RefCell<Inner>,
    /// The next timeout moved to an earlier time.
    timer: Notify,
    /// A slot became free.
    room: Notify,
    /// The machine asked to be retired.
    retired: Notify,
    epoch: tokio::time::Instant,
    epoch_micros: u64,
    limit: usize,
}

struct Inner {
    server: Server<Box<[Slot]>>,
    host: Box<dyn Host>,
    config: HubConfig,
    payloads: Vec<Option<Payload>>,
    connections: HashMap<u64, Connection>,
    next_connection: u64,
    running: Option<Running>,
    /// What the server said of itself when it was negotiated.
    handshake: Option<Vec<u8>>,
    revision: Option<Revision>,
    /// Who asked for the end, and waits for it.
    closers: Vec<(u64, Vec<u8>)>,
    spawn_failure: Option<String>,
    failure: Option<String>,
    stderr: Vec<u8>,
    armed: Option<Instant>,
    started: bool,
    retired: bool,
}

/// What is kept for a request under way.
struct Payload {
    connection: u64,
    method: Method,
    /// The caller's id, raw.
    id: Vec<u8>,
    /// The caller's progress token, raw.
    token: Option<Vec<u8>>,
    parts: RequestParts,
    /// The request itself, while it may have to be sent (again).
    frame: Option<Vec<u8>>,
    sent: bool,
}

struct Connection {
    front: Front,
    outlet: Outlet,
    closed: Rc<Notify>,
    _flusher: Task,
}

struct Running {
    generation: u64,
    input: Option<Outlet>,
    control: Rc<dyn Control>,
    /// The end of the tree is awaited.
    awaited: bool,
    _flusher: Task,
}

/// A task that ends with what it serves.
struct Task(tokio::task::JoinHandle<()>);

impl Task {
    fn spawn(future: impl Future<Output = ()> + 'static) -> Self {
        Self(spawn_local(future))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a connection does next.
enum Flow {
    Next,
    /// Every slot is in use: the same frame again when one is free.
    Wait,
    Close,
}

impl Hub {
    /// A hub whose server does not run yet.
    #[must_use]
    pub fn new(config: HubConfig, host: Box<dyn Host>) -> Self {
        let slots = vec![Slot::EMPTY; config.slots].into_boxed_slice();
        let now = Instant::from_micros(config.now_micros);
        // Crashes that have not happened yet come from a clock that was set back: nobody waits for those.
        let crashes = config.crashes.iter().map(|ms| Instant::from_millis(*ms)).filter(|at| *at <= now);
        let crashes = CrashLog::from_times(crashes);
        let server = Server::new(config.server, slots, config.generation, crashes);
        let (epoch_micros, limit, count, revision) =
            (config.now_micros, config.limit, config.slots, config.revision);
        let inner = Inner {
            server,
            host,
            config,
            payloads: (0..count).map(|_| None).collect(),
            connections: HashMap::new(),
            next_connection: 0,
            running: None,
            handshake: None,
            revision,
            closers: Vec::new(),
            spawn_failure: None,
            failure: None,
            stderr: Vec::new(),
            armed: None,
            started: false,
            retired: false,
        };
        Self(Rc::new(Shared {
            inner: RefCell::new(inner),
            timer: Notify::new(),
            room: Notify::new(),
            retired: Notify::new(),
            epoch: tokio::time::Instant::now(),
            epoch_micros,
            limit,
        }))
    }

    /// Starts the server and the clock. To be called once, within a `LocalSet`.
    pub fn start(&self) {
        let hub = self.clone();
        spawn_local(async move { hub.run_timer().await });
        self.with(|hub, inner, now| {
            inner.server.wake(now);
            hub.drive(inner, None);
            // A start that may not happen is not waited for: the starter is told, and comes again.
            if let Some(why) = inner.server.lifecycle().unavailable(now).filter(|_| !inner.retired) {
                inner.failure = Some(inner.explain(|around| explain::unavailable(why, around)).message);
                hub.retire(inner);
            }
        });
    }

    /// Ends the server for good.
    pub fn close(&self) {
        self.with(|hub, inner, now| {
            inner.server.close(now);
            hub.drive(inner, None);
        });
    }

    /// Resolves when nothing runs and nothing waits, and every connection has been said goodbye to.
    pub async fn retired(&self) {
        while !self.0.inner.borrow().retired {
            self.0.retired.notified().await;
        }
    }

    /// Resolves when everything was written that the other ends take, or their connections are gone.
    pub async fn flushed(&self) {
        let ids: Vec<u64> = self.0.inner.borrow().connections.keys().copied().collect();
        for id in ids {
            self.backlog_at_most(id, 0).await;
        }
    }

    /// The public state.
    #[must_use]
    pub fn state(&self) -> PublicState {
        self.0.inner.borrow().server.state()
    }

    /// Serves a caller until it or the bridge goes.
    pub async fn serve_connection(
        &self,
        mut reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + 'static,
    ) {
        let Some((id, closed)) = self.add_connection(writer) else { return };
        tokio::select! {
            () = self.read_connection(id, &mut reader) => {}
            () = closed.notified() => {}
        }
        self.with(|hub, inner, now| {
            // A caller that went away does not want its answers.
            for key in inner.keys_of(|payload| payload.connection == id) {
                inner.server.cancel(now, key);
            }
            hub.drive(inner, None);
        });
        // A last word (a refusal, the goodbye) is worth a moment, not more.
        let _ = tokio::time::timeout(GOODBYE, self.backlog_at_most(id, 0)).await;
        self.with(|_, inner, _| inner.connections.remove(&id));
    }

    async fn read_connection(&self, id: u64, reader: &mut (impl AsyncRead + Unpin)) {
        let mut intake = Intake::new(self.0.limit);
        loop {
            while let Some(frame) = intake.decoder.poll_frame() {
                match self.client_frame(id, &frame) {
                    Flow::Next => {}
                    Flow::Close => return,
                    Flow::Wait => {
                        let Frame::Line(line) = frame else { continue };
                        let line = line.to_vec();
                        if !self.wait_for_room(id, &line, &mut intake, reader).await {
                            return;
                        }
                    }
                }
                // Who does not read its answers is not read from.
                if self.client_backlog(id) > CLIENT_BACKLOG {
                    self.backlog_at_most(id, CLIENT_BACKLOG).await;
                }
            }
            if !matches!(intake.read(reader).await, Ok(true)) {
                return;
            }
        }
    }

    /// Hands in a frame that found every slot in use, as soon as one is free. Notices meanwhile if the caller goes:
    /// then `false`.
    async fn wait_for_room(
        &self,
        id: u64,
        line: &[u8],
        intake: &mut Intake,
        reader: &mut (impl AsyncRead + Unpin),
    ) -> bool {
        loop {
            tokio::select! {
                () = self.0.room.notified() => match self.client_frame(id, &Frame::Line(line)) {
                    Flow::Next => return true,
                    Flow::Close => return false,
                    Flow::Wait => {}
                },
                more = intake.read(reader), if intake.decoder.pending() < CLIENT_BACKLOG => {
                    if !matches!(more, Ok(true)) {
                        return false;
                    }
                }
            }
        }
    }

    fn client_backlog(&self, id: u64) -> usize {
        self.0.inner.borrow().connections.get(&id).map_or(0, |connection| connection.outlet.backlog())
    }

    /// Waits until no more than `size` bytes are left to be written on a connection, or it is broken or gone.
    async fn backlog_at_most(&self, id: u64, size: usize) {
        loop {
            let eased = match self.0.inner.borrow().connections.get(&id) {
                Some(Connection { outlet, .. }) if outlet.backlog() > size && !outlet.is_broken() => {
                    outlet.eased()
                }
                _ => return,
            };
            eased.notified().await;
        }
    }

    fn with<T>(&self, act: impl FnOnce(&Self, &mut Inner, Instant) -> T) -> T {
        let now = self.now();
        act(self, &mut self.0.inner.borrow_mut(), now)
    }

    fn now(&self) -> Instant {
        let elapsed = self.0.epoch.elapsed();
        Instant::from_micros(
            self.0.epoch_micros.saturating_add(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)),
        )
    }

    fn wall(&self, at: Instant) -> tokio::time::Instant {
        self.0.epoch + at.since(Instant::from_micros(self.0.epoch_micros))
    }

    async fn run_timer(self) {
        loop {
            let next = self.with(|_, inner, _| {
                inner.armed = inner.server.poll_timeout().map(|(at, _)| at);
                inner.armed
            });
            match next {
                None => self.0.timer.notified().await,
                Some(at) => tokio::select! {
                    () = tokio::time::sleep_until(self.wall(at)) => self.with(|hub, inner, now| {
                        inner.server.handle_timeout(now);
                        hub.drive(inner, None);
                    }),
                    () = self.0.timer.notified() => {}
                },
            }
        }
    }

    fn add_connection(&self, writer: impl AsyncWrite + 'static) -> Option<(u64, Rc<Notify>)> {
        self.with(|hub, inner, _| {
            if inner.retired {
                return None;
            }
            let id = inner.next_connection;
            inner.next_connection += 1;
            let outlet = Outlet::new(writer);
            let (closed, wake) = (Rc::new(Notify::new()), outlet.wake());
            let hub = hub.clone();
            let flusher = Task::spawn(async move {
                loop {
                    wake.notified().await;
                    hub.flush(|inner| {
                        inner.connections.get_mut(&id).map(|connection| &mut connection.outlet)
                    })
                    .await;
                }
            });
            let connection =
                Connection { front: Front::new(), outlet, closed: Rc::clone(&closed), _flusher: flusher };
            inner.connections.insert(id, connection);
            Some((id, closed))
        })
    }

    /// Writes what gathered in an outlet, until that is empty, broken, or gone. Only its flushing task may do this: a
    /// stream wakes one waiter.
    async fn flush(&self, outlet: impl Fn(&mut Inner) -> Option<&mut Outlet>) {
        loop {
            let mut more = false;
            flush_once(|flush| {
                let mut inner = self.0.inner.borrow_mut();
                match outlet(&mut inner) {
                    Some(outlet) => {
                        let poll = flush(outlet);
                        more = outlet.backlog() > 0 && !outlet.is_broken();
                        poll
                    }
                    None => Poll::Ready(()),
                }
            })
            .await;
            if !more {
                return;
            }
            // Requests may be with the kernel now, and there may be room for more.
            self.with(|hub, inner, _| {
                inner.set_writable();
                hub.drive(inner, None);
            });
        }
    }

    fn client_frame(&self, id: u64, frame: &Frame<'_>) -> Flow {
        self.with(|hub, inner, now| {
            let frame = match frame {
                Frame::Line(line) => *line,
                Frame::Oversize(oversize) => {
                    let limit = hub.0.limit >> 20;
                    let text = format!("the request is longer than the limit of {limit} MiB: send less");
                    inner.reply_error(id, oversize.id, -32600, &explain::refused(text, "too-large"));
                    return Flow::Next;
                }
            };
            let default = inner.config.server.allowance;
            let Some(connection) = inner.connections.get_mut(&id) else { return Flow::Close };
            if connection.outlet.is_broken() {
                return Flow::Close;
            }
            match connection.front.handle_frame(frame, default) {
                Inbound::Hello { .. } => {
                    let welcome = json!({"drowse": {"hello": {
                        "version": front::HELLO_VERSION,
                        "bridge": env!("CARGO_PKG_VERSION"),
                        "pid": std::process::id(),
                    }}});
                    connection.outlet.send(&[welcome.to_string().as_bytes()], None);
                }
                Inbound::Refused => {
                    let refused = json!({"drowse": {"refused": {
                        "versions": [front::HELLO_VERSION],
                        "reason": "this bridge speaks another version of drowse's hello: restart the session",
                        "inFlight": inner.server.lifecycle().in_flight(),
                    }}});
                    connection.outlet.send(&[refused.to_string().as_bytes()], None);
                    return Flow::Close;
                }
                Inbound::Leave => {
                    inner.server.leave(now);
                    hub.drive(inner, None);
                    return Flow::Close;
                }
                Inbound::Operation { operation, parts, token } => {
                    return hub.operation(inner, now, id, frame, operation, parts, token);
                }
                Inbound::Discover { id: request } => {
                    let handshake = inner.handshake.take();
                    inner.reply(id, request.of(frame), &front::discovery(handshake.as_deref()));
                    inner.handshake = handshake;
                }
                Inbound::Status { id: request } => {
                    let status = inner.status(now).to_string();
                    inner.reply(id, request.of(frame), &[status.as_bytes()]);
                }
                Inbound::Close { id: request } => {
                    inner.closers.push((id, request.of(frame).to_vec()));
                    inner.server.close(now);
                }
                Inbound::Cancel { request } => {
                    let wanted = request.of(frame);
                    for key in
                        inner.keys_of(|payload| payload.connection == id && payload.id.as_slice() == wanted)
                    {
                        inner.server.cancel(now, key);
                    }
                }
                Inbound::Ignore => return Flow::Next,
                Inbound::Reject { id: request, rejection } => {
                    inner.reject(id, frame, request, rejection);
                }
            }
            hub.drive(inner, None);
            Flow::Next
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one request, used once")]
    fn operation(
        &self,
        inner: &mut Inner,
        now: Instant,
        connection: u64,
        frame: &[u8],
        operation: Operation,
        parts: RequestParts,
        token: Option<Span>,
    ) -> Flow {
        match inner.server.submit(now, operation) {
            Ok(key) => {
                if inner.server.is_stopping() {
                    fault::point("D2");
                }
                let payload = Payload {
                    connection,
                    method: operation.method,
                    id: parts.id.of(frame).to_vec(),
                    token: token.map(|span| span.of(frame).to_vec()),
                    parts,
                    frame: None,
                    sent: false,
                };
                if let Some(place) = inner.payloads.get_mut(key.index()) {
                    *place = Some(payload);
                }
                self.drive(inner, Some((key, frame)));
                // Most requests are with the kernel by now, and need no copy.
                if inner.server.is_live(key)
                    && let Some(Some(payload)) = inner.payloads.get_mut(key.index())
                    && (!payload.sent || payload.method.only_reads())
                {
                    payload.frame = Some(frame.to_vec());
                }
            }
            Err(Refusal::Full) => {
                if let Some(connection) = inner.connections.get_mut(&connection) {
                    connection.front.unread();
                }
                return Flow::Wait;
            }
            Err(Refusal::Unavailable(why)) => {
                let explained = inner.explain(|around| explain::unavailable(why, around));
                inner.reply_error(connection, Some(parts.id.of(frame)), explain::CODE, &explained);
                self.drive(inner, None);
            }
        }
        Flow::Next
    }

    /// Does what the machine says, until it says no more.
    fn drive(&self, inner: &mut Inner, current: Option<(Key, &[u8])>) {
        loop {
            inner.note_sent();
            let Some(action) = inner.server.poll_action() else { break };
            let now = self.now();
            match action {
                Action::Persist(record) => self.persist(inner, now, record),
                Action::Spawn { generation } => self.spawn(inner, now, generation),
                Action::SendOwn(own) => {
                    let mut buffer = [0; message::OWN_MAX];
                    if let Ok(bytes) = message::own(own, IDENTITY, &mut buffer) {
                        inner.write(&[bytes], None);
                    }
                }
                Action::Send { key, revision, .. } => inner.send_request(key, revision, current),
                Action::AnswerInfo { key } => self.answer_info(inner, key),
                Action::Fail { key, failure } => {
                    let explained = inner.explain(|around| explain::failure(failure, around));
                    if let Some(payload) = inner.release(key) {
                        inner.reply_error(payload.connection, Some(&payload.id), explain::CODE, &explained);
                    }
                    self.0.room.notify_waiters();
                }
                Action::CloseInput => {
                    if let Some(running) = &mut inner.running {
                        running.input = None;
                    }
                }
                Action::Terminate => {
                    if let Some(running) = &inner.running {
                        running.control.terminate();
                    }
                }
                Action::Kill => match &inner.running {
                    Some(running) => running.control.kill(),
                    None => inner.server.handle_tree_gone(now),
                },
                Action::Retire => self.retire(inner),
            }
        }
        if inner.server.is_stopping() {
            self.await_end(inner);
        }
        let next = inner.server.poll_timeout().map(|(at, _)| at);
        let sooner = match (next, inner.armed) {
            (Some(next), Some(armed)) => next < armed,
            (Some(_), None) => true,
            (None, _) => false,
        };
        // While requests come and go the timer may fire early, which does no harm; a quiet bridge is not to be woken
        // for a time-out that is over.
        if sooner || (inner.server.lifecycle().in_flight() == 0 && next != inner.armed) {
            inner.armed = next;
            self.0.timer.notify_one();
        }
    }

    fn persist(&self, inner: &mut Inner, now: Instant, record: Record) {
        if record.state == PublicState::Connecting && !record.ended {
            inner.stderr.clear();
            inner.spawn_failure = None;
            inner.failure = None;
        }
        if let Some(error) = inner.server.start_error() {
            let secs = inner.config.server.limits.connect.as_secs();
            inner.failure = Some(explain::start_error(error, inner.spawn_failure.as_deref(), secs));
        }
        if let Some(revision) = inner.server.revision() {
            inner.revision = Some(revision);
        }
        let unwell = record.state == PublicState::Crashed;
        let crashes = inner.server.lifecycle().crashes();
        let facts = Facts {
            record,
            server_pid: inner.running.as_ref().and_then(|running| running.control.pid()),
            // An era that did not hold is not remembered.
            revision: inner.revision.filter(|revision| inner.server.remembered() == Some(revision.era())),
            crashes: crashes.times().iter().map(|at| at.as_millis()).collect(),
            retry_at: crashes.retry_at().map(Instant::as_millis),
            message: inner.failure.clone().filter(|_| unwell),
            stderr: inner.stderr_tail().filter(|_| unwell),
        };
        match inner.host.persist(&facts) {
            Ok(()) => inner.server.handle_persisted(now),
            Err(error) => {
                inner.host.note(&format!("the state could not be written: {error}"));
                inner.server.handle_persist_failed(now);
            }
        }
        if record.state == PublicState::Live && !inner.started {
            inner.started = true;
            inner.host.started(Ok(()));
        }
    }

    fn spawn(&self, inner: &mut Inner, now: Instant, generation: u64) {
        match inner.host.spawn(generation) {
            Ok(Backend { input, output, errors, control }) => {
                let outlet = Outlet::new(input);
                let broken = Rc::new(Notify::new());
                let flusher =
                    Task::spawn(self.clone().flush_server(generation, outlet.wake(), Rc::clone(&broken)));
                inner.running = Some(Running {
                    generation,
                    input: Some(outlet),
                    control: Rc::clone(&control),
                    awaited: false,
                    _flusher: flusher,
                });
                inner.server.handle_spawned(now);
                let hub = self.clone();
                spawn_local(async move {
                    hub.read_server(generation, output, errors, control, broken).await;
                });
            }
            Err(text) => {
                inner.host.note(&text);
                inner.spawn_failure = Some(text);
                inner.server.handle_spawn_failed(now);
            }
        }
    }

    fn answer_info(&self, inner: &mut Inner, key: Key) {
        if let (Some(payload), Some(revision)) = (inner.release(key), inner.server.revision()) {
            let head = format!(
                r#"{{"era":"{}","protocolVersion":"{}","handshake":"#,
                revision.era().name(),
                revision.name()
            );
            let handshake = inner.handshake.clone().unwrap_or_else(|| b"null".to_vec());
            inner.reply(payload.connection, &payload.id, &[head.as_bytes(), &handshake, b"}"]);
        }
        self.0.room.notify_waiters();
    }

    fn retire(&self, inner: &mut Inner) {
        inner.retired = true;
        for (connection, id) in std::mem::take(&mut inner.closers) {
            inner.reply(connection, &id, &[b"{}"]);
        }
        for connection in inner.connections.values_mut() {
            if connection.front.is_open() {
                let goaway = format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/drowse/goaway","params":{{"last":{}}}}}"#,
                    connection.front.read_count()
                );
                connection.outlet.send(&[goaway.as_bytes()], None);
            }
            // What comes now never ran, and its sender is told by the goodbye, or by the missing hello.
            connection.front.close();
            connection.closed.notify_one();
        }
        if !inner.started {
            inner.started = true;
            let kind = match inner.server.start_error() {
                // The server was too slow, not unwilling.
                Some(StartError::Negotiation(NegotiationError::TimedOut)) => Kind::Timeout,
                Some(StartError::NotPersisted) => Kind::Storage,
                _ => Kind::StartFailed,
            };
            let failure = StartFailure {
                kind,
                message: inner
                    .failure
                    .clone()
                    .unwrap_or_else(|| "the session was closed while its server started".to_owned()),
                stderr: inner.stderr_tail(),
            };
            inner.host.started(Err(&failure));
        }
        self.0.retired.notify_one();
    }

    /// Waits for the end of a tree that is being ended.
    fn await_end(&self, inner: &mut Inner) {
        let Some(running) = inner.running.as_mut().filter(|running| !running.awaited) else { return };
        running.awaited = true;
        let (hub, control, generation) = (self.clone(), Rc::clone(&running.control), running.generation);
        spawn_local(async move {
            control.gone().await;
            hub.with(|hub, inner, now| {
                if inner.running.as_ref().is_some_and(|running| running.generation == generation) {
                    inner.running = None;
                    inner.server.handle_tree_gone(now);
                    let waiting = inner.payloads.iter().flatten().filter(|payload| !payload.sent).count();
                    if waiting > 0 && inner.server.state() == PublicState::Connecting {
                        inner.host.note(&format!(
                            "started again: {waiting} requests came while the server was being ended"
                        ));
                    }
                    hub.drive(inner, None);
                }
            });
        });
    }

    /// Reads the server's output and errors until their end, and notices the end of its process.
    async fn read_server(
        &self,
        generation: u64,
        mut output: Box<dyn AsyncRead + Unpin>,
        errors: Option<Box<dyn AsyncRead + Unpin>>,
        control: Rc<dyn Control>,
        broken: Rc<Notify>,
    ) {
        let mut intake = Intake::new(self.0.limit);
        let mut errors = Errors { reader: errors, buffer: [0; 4096] };
        let mut exited = control.exited();
        let mut exit: Option<Exit> = None;
        let mut output_ended = false;
        while exit.is_none() {
            tokio::select! {
                biased;
                ended = &mut exited => exit = Some(ended),
                more = intake.read(&mut output), if !output_ended => {
                    self.server_frames(generation, &mut intake);
                    if !matches!(more, Ok(true)) {
                        output_ended = true;
                        self.last_frame(generation, &mut intake);
                        // Who ends closes both pipes, and its last words explain what is reported now.
                        self.drain_errors(&mut errors).await;
                        self.with_generation(generation, |inner, now| inner.server.handle_lost(now));
                    }
                }
                bytes = errors.read() => self.with(|_, inner, _| inner.take_errors(bytes)),
                // Biased: by now its output has nothing more to read.
                () = broken.notified() => {
                    self.with_generation(generation, |inner, now| inner.server.handle_lost(now));
                }
            }
        }
        // It wrote all this before it ended, so it is in the pipes; what comes later is of somebody else who holds them.
        // Where it ended before this task first ran, the runtime has not looked at the pipes yet.
        tokio::task::yield_now().await;
        for _ in 0..DRAIN {
            if output_ended || !matches!(at_once(intake.read(&mut output)).await, Some(Ok(true))) {
                break;
            }
            self.server_frames(generation, &mut intake);
        }
        if !output_ended {
            self.last_frame(generation, &mut intake);
        }
        self.drain_errors(&mut errors).await;
        if let Some(exit) = exit {
            self.with(|_, inner, _| {
                if inner.server.state().is_awake() {
                    let how = match exit {
                        Exit::Status(status) => format!("exit status {status}"),
                        Exit::Signal(signal) => format!("signal {signal}"),
                    };
                    let text = format!("the server ended by itself ({how})");
                    inner.host.note(&text);
                    inner.failure = Some(text);
                }
            });
            self.with_generation(generation, |inner, now| inner.server.handle_exited(now, exit));
        }
        // The rest of the tree may still have something to say, until it is gone.
        let mut gone = control.gone();
        loop {
            tokio::select! {
                biased;
                () = &mut gone => return,
                bytes = errors.read() => self.with(|_, inner, _| inner.take_errors(bytes)),
            }
        }
    }

    /// Takes what stands in the pipe of the server's errors by now.
    async fn drain_errors(&self, errors: &mut Errors) {
        for _ in 0..DRAIN {
            match at_once(errors.read()).await {
                Some(bytes) => self.with(|_, inner, _| inner.take_errors(bytes)),
                None => break,
            }
        }
    }

    fn server_frames(&self, generation: u64, intake: &mut Intake) {
        while let Some(frame) = intake.decoder.poll_frame() {
            self.server_frame(generation, &frame);
        }
    }

    fn last_frame(&self, generation: u64, intake: &mut Intake) {
        if let Some(frame) = intake.decoder.finish() {
            self.server_frame(generation, &frame);
        }
    }

    async fn flush_server(self, generation: u64, wake: Rc<Notify>, broken: Rc<Notify>) {
        loop {
            wake.notified().await;
            self.flush(|inner| {
                inner
                    .running
                    .as_mut()
                    .filter(|running| running.generation == generation)
                    .and_then(|running| running.input.as_mut())
            })
            .await;
            self.with(|hub, inner, _| {
                inner.set_writable();
                hub.drive(inner, None);
                let input = inner.running.as_ref().and_then(|running| running.input.as_ref());
                if input.is_some_and(Outlet::is_broken) {
                    // What it wrote before it closed its input is read first.
                    broken.notify_one();
                }
            });
        }
    }

    fn with_generation(&self, generation: u64, act: impl FnOnce(&mut Inner, Instant)) {
        self.with(|hub, inner, now| {
            if inner.running.as_ref().is_some_and(|running| running.generation == generation) {
                act(inner, now);
                hub.drive(inner, None);
            }
        });
    }

    fn server_frame(&self, generation: u64, frame: &Frame<'_>) {
        self.with_generation(generation, |inner, now| match frame {
            Frame::Line(line) => self.server_line(inner, now, line, true),
            Frame::Oversize(oversize) => {
                inner.host.note(&format!(
                    "the server wrote a line of {} bytes, which is over the limit; it was dropped",
                    oversize.length
                ));
                inner.server.handle_oversize(now, oversize.id, oversize.is_response);
            }
        });
    }

    fn server_line(&self, inner: &mut Inner, now: Instant, line: &[u8], whole: bool) {
        match inner.server.handle_frame(now, line) {
            Outcome::Deliver { key, method, message, revision } => {
                if let Some(payload) = inner.release(key) {
                    inner.deliver(&payload, method, line, &message, revision);
                }
                self.0.room.notify_waiters();
            }
            Outcome::Progress { key, token } => inner.progress(key, line, token),
            Outcome::Handshake(span) => {
                inner.handshake = Some(span.of(line).to_vec());
            }
            // A server that asks and does not read is not answered for ever.
            Outcome::Pong { .. } | Outcome::Decline { .. } if inner.input_backlog() > SERVER_BACKLOG => {}
            Outcome::Pong { id } => {
                let mut buffer = vec![0; id.len() + 64];
                if let Ok(bytes) = message::empty_result(id.of(line), &mut buffer) {
                    inner.write(&[bytes], None);
                }
            }
            Outcome::Decline { id, method } => {
                let mut buffer = vec![0; id.len() + 256];
                let text = "drowse declared no such capability";
                if let Ok(bytes) = message::error(Some(id.of(line)), -32601, text, None, &mut buffer) {
                    inner.write(&[bytes], None);
                }
                let method = String::from_utf8_lossy(method.of(line)).into_owned();
                inner.host.note(&format!("declined the server's request {method}"));
            }
            Outcome::Batch(items) if whole => {
                for item in envelope::batch(line, items) {
                    self.server_line(inner, now, item.of(line), false);
                    self.drive(inner, None);
                }
            }
            Outcome::Batch(_) => inner.host.note("ignored a batch within a batch"),
            Outcome::Ignored(Ignored::Malformed(error)) => {
                let start = String::from_utf8_lossy(line.get(..120).unwrap_or(line)).into_owned();
                inner
                    .host
                    .note(&format!("ignored a line of the server that is no message ({error}): {start}"));
            }
            Outcome::Ignored(Ignored::Unasked) => {
                inner.host.note("ignored an answer that nobody waits for");
            }
            Outcome::Notification { .. } | Outcome::Ignored(_) => {}
        }
    }
}

impl Inner {
    fn keys_of(&self, wanted: impl Fn(&Payload) -> bool) -> Vec<Key> {
        self.payloads
            .iter()
            .enumerate()
            .filter(|(_, payload)| payload.as_ref().is_some_and(&wanted))
            .filter_map(|(index, _)| self.server.key_at(index))
            .collect()
    }

    fn release(&mut self, key: Key) -> Option<Payload> {
        self.payloads.get_mut(key.index()).and_then(Option::take)
    }

    /// Tells the machine which requests the kernel has taken; those need no copy any more.
    fn note_sent(&mut self) {
        while let Some(key) =
            self.running.as_mut().and_then(|running| running.input.as_mut()).and_then(Outlet::poll_sent)
        {
            self.server.handle_sent(key);
            if self.server.is_live(key)
                && let Some(Some(payload)) = self.payloads.get_mut(key.index())
            {
                payload.sent = true;
                if !payload.method.only_reads() {
                    payload.frame = None;
                }
            }
        }
    }

    fn take_errors(&mut self, bytes: &[u8]) {
        self.host.server_errors(bytes);
        self.stderr.extend_from_slice(bytes);
        let over = self.stderr.len().saturating_sub(STDERR_TAIL);
        self.stderr.drain(..over);
    }

    fn write(&mut self, parts: &[&[u8]], key: Option<Key>) {
        if let Some(input) = self.running.as_mut().and_then(|running| running.input.as_mut()) {
            input.send(parts, key);
        }
        self.set_writable();
    }

    fn input_backlog(&self) -> usize {
        let input = self.running.as_ref().and_then(|running| running.input.as_ref());
        input.map_or(0, Outlet::backlog)
    }

    fn set_writable(&mut self) {
        self.server.set_writable(self.input_backlog() <= SERVER_BACKLOG);
    }

    fn send_request(&mut self, key: Key, revision: Revision, current: Option<(Key, &[u8])>) {
        let Some(Some(payload)) = self.payloads.get_mut(key.index()) else { return };
        let kept = payload.frame.take();
        let frame = match (&kept, current) {
            (Some(kept), _) => kept.as_slice(),
            (None, Some((of, frame))) if of == key => frame,
            (None, _) => return,
        };
        let (parts, progress) = (payload.parts, payload.method.wants_progress() || payload.token.is_some());
        let (connection, id) = (payload.connection, payload.id.clone());
        match splice::request(frame, &parts, key.wire(), progress, revision) {
            Ok(pieces) => {
                let running = self.running.as_mut().and_then(|running| running.input.as_mut());
                if let Some(input) = running {
                    with_slices(&pieces, frame, &[], |slices| input.send(slices, Some(key)));
                }
                self.set_writable();
                if let Some(Some(payload)) = self.payloads.get_mut(key.index()) {
                    payload.frame = kept;
                }
            }
            Err(error) => {
                let explained = explain::refused(error.to_string(), "invalid-request");
                self.reply_error(connection, Some(&id), -32600, &explained);
                self.release(key);
                let now = self.server.now();
                self.server.cancel(now, key);
            }
        }
    }

    fn deliver(
        &mut self,
        payload: &Payload,
        method: Method,
        line: &[u8],
        message: &envelope::Message,
        revision: Revision,
    ) {
        if method == Method::ServerPing {
            // Whatever it said: it answered.
            return self.reply(payload.connection, &payload.id, &[b"{}"]);
        }
        let limit = self.config.limit;
        let Some(connection) = self.connections.get_mut(&payload.connection) else { return };
        let id = Span::new(0, payload.id.len());
        let verbatim = connection.front.is_verbatim();
        if let Ok(pieces) = splice::answer(line, message, id, method, revision, verbatim) {
            with_slices(&pieces, line, &payload.id, |slices| connection.outlet.send(slices, None));
        }
        if connection.outlet.backlog() > limit.saturating_mul(2) {
            // It asks for more than it reads.
            connection.closed.notify_one();
            self.host.note("closed a caller's connection: it does not read its answers");
        }
    }

    fn progress(&mut self, key: Key, line: &[u8], token: Span) {
        if let Some(Some(payload)) = self.payloads.get(key.index())
            && let Some(wanted) = &payload.token
            && let Some(connection) = self.connections.get_mut(&payload.connection)
            && connection.outlet.backlog() < SERVER_BACKLOG
            && let Ok(pieces) = splice::progress(line, token, Span::new(0, wanted.len()))
        {
            with_slices(&pieces, line, wanted, |slices| connection.outlet.send(slices, None));
        }
    }

    fn reply(&mut self, connection: u64, id: &[u8], result: &[&[u8]]) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            let mut parts: Vec<&[u8]> = vec![br#"{"jsonrpc":"2.0","id":"#, id, br#","result":"#];
            parts.extend_from_slice(result);
            parts.push(b"}");
            connection.outlet.send(&parts, None);
        }
    }

    fn reply_error(&mut self, connection: u64, id: Option<&[u8]>, code: i32, explained: &Explained) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            let room = explained.message.len() * 6 + explained.data.len() + id.map_or(0, <[u8]>::len) + 128;
            let mut buffer = vec![0; room];
            let data = Some(explained.data.as_bytes());
            if let Ok(bytes) = message::error(id, code, &explained.message, data, &mut buffer) {
                connection.outlet.send(&[bytes], None);
            }
        }
    }

    fn reject(&mut self, connection: u64, frame: &[u8], id: Option<Span>, rejection: Rejection) {
        let mut explained = explain::refused(rejection.to_string(), "invalid-request");
        match rejection {
            Rejection::UnsupportedVersion(requested) => {
                let requested: &str = std::str::from_utf8(requested.of(frame)).unwrap_or("null");
                explained.data = format!(r#"{{"supported":["2026-07-28"],"requested":{requested}}}"#);
            }
            Rejection::UnknownMethod => explained = explain::refused(rejection.to_string(), "unsupported"),
            _ => {}
        }
        self.reply_error(connection, id.map(|id| id.of(frame)), rejection.code(), &explained);
    }

    fn explain(&self, explain: impl FnOnce(&Circumstances<'_>) -> Explained) -> Explained {
        let secs = self.config.server.limits.connect.as_secs();
        let start = match self.server.start_error() {
            Some(error) => Some(explain::start_error(error, self.spawn_failure.as_deref(), secs)),
            None => self.failure.clone(),
        };
        let stderr = self.stderr_tail();
        explain(&Circumstances {
            start: start.as_deref(),
            stderr: stderr.as_deref(),
            retry_at_ms: self.server.lifecycle().crashes().retry_at().map(Instant::as_millis),
            limit: self.config.limit,
        })
    }

    fn stderr_tail(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.stderr);
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn status(&self, now: Instant) -> serde_json::Value {
        let lifecycle = self.server.lifecycle();
        json!({
            "state": lifecycle.public_state().name(),
            "generation": lifecycle.generation(),
            "serverPid": self.running.as_ref().and_then(|running| running.control.pid()),
            "inFlight": lifecycle.in_flight(),
            "idleInMs": lifecycle.idle_deadline().map(|at| at.since(now).as_millis() as u64),
        })
    }
}

/// A server's standard error.
struct Errors {
    reader: Option<Box<dyn AsyncRead + Unpin>>,
    buffer: [u8; 4096],
}

impl Errors {
    /// What comes next; never ready once the stream is over.
    async fn read(&mut self) -> &[u8] {
        if let Some(reader) = &mut self.reader {
            if let Ok(n @ 1..) = reader.read(&mut self.buffer).await {
                return self.buffer.get(..n).unwrap_or_default();
            }
            self.reader = None;
        }
        std::future::pending().await
    }
}

/// What a future gives without waiting.
async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    // The runtime's own limit on how much is done in one go must not look like an empty pipe.
    let mut future = std::pin::pin!(tokio::task::unconstrained(future));
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Gives the slices of a rewritten message.
fn with_slices<T>(pieces: &Pieces, frame: &[u8], other: &[u8], act: impl FnOnce(&[&[u8]]) -> T) -> T {
    let mut digits = [[0; 20]; splice::MAX_PIECES];
    let mut slices: [&[u8]; splice::MAX_PIECES] = [&[]; splice::MAX_PIECES];
    let mut count = 0;
    for ((piece, digits), slice) in pieces.iter().zip(digits.iter_mut()).zip(slices.iter_mut()) {
        *slice = match piece {
            Piece::Frame(span) => span.of(frame),
            Piece::Other(span) => span.of(other),
            Piece::Fixed(bytes) => bytes,
            Piece::Number(value) => message::decimal(*value, digits),
        };
        count += 1;
    }
    act(slices.get(..count).unwrap_or(&slices))
}
