//! The bridge's middle: callers on one side, one server on the other, the core's machine between them.
//!
//! Carries bytes and does what the machine says; it decides nothing about protocol, lifecycle or time. Everything runs
//! on one thread; each stream has one reading task and one flushing task, and no request has a task of its own.
//!
//! Its loop is in `drive`, and when it runs in `pace`. What callers send arrives in `callers`, what the server sends in
//! `streams`, or in `remote` if that is behind a URL.

mod cache;
mod callers;
mod deferral;
mod dev;
mod drive;
mod guest;
mod legacy;
mod life;
mod logging;
mod marked;
mod notices;
mod pace;
mod questions;
mod relay;
mod remote;
mod saved;
mod settings;
mod snapshot;
mod streams;
mod sync;
mod tasks;
mod unsettled;
mod waiting;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use drowse_core::capabilities::ClientCapabilities;
use drowse_core::crash::CrashLog;
use drowse_core::envelope;
use drowse_core::era::{Era, Revision};
use drowse_core::front::{self, Front, Inbound, Rejection, answer};
use drowse_core::http::exchange::Carried;
use drowse_core::lifecycle::{Exit, Lost, PublicState, Record};
use drowse_core::link::{Allowance, Cause, Key, Slot};
use drowse_core::logging::{Level, Wanted};
use drowse_core::message::{self, Identity};
use drowse_core::method::Method;
use drowse_core::negotiate::NegotiationError;
use drowse_core::rest::Rest;
use drowse_core::server::{
    self, Action, Ignored, Operation, Outcome, Refusal, Server, StartError, Transport,
};
use drowse_core::span::Span;
use drowse_core::splice::{self, Origin, Piece, Pieces, RequestParts, Rewrite};
use drowse_core::tasks::Asked;
use drowse_core::time::{Duration, Instant};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::spawn_local;

use crate::wire::{FileSync, Kind};

use super::backend::{Backend, Control, Facts, Host, Process, StartFailure};
use super::explain::{self, Circumstances, Explained};
use super::intake::{Heard, Intake, Line};
use super::mouth::{About, Mouth};
use super::outlet::{Burst, Outlet, flush_once};
use crate::fault;
use cache::Cache;
pub(crate) use guest::{Guest, Offered};
use legacy::Asks;
use life::Chronicle;
use marked::{Marked, OURS};
use questions::Questions;
use relay::{Listeners, Machine};
use remote::{Post, Remote};
use snapshot::Gathered;
use sync::Syncs;
use tasks::Pending;

pub use dev::{DevConfig, Workshop};

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
/// Whose outlet it is that the server reads from; connections are known by their numbers.
const SERVER: u64 = u64::MAX;
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
    /// How the last generation ended, if nobody was told that what its server kept is gone.
    pub lost: Option<Lost>,
    /// What is run and with which credentials, as a hash: what is saved of the server holds for that.
    pub identity: String,
    /// How much of the server's log is wanted.
    pub log_level: Option<Level>,
    /// What a legacy server may ask its client for.
    pub capabilities: ClientCapabilities,
    /// The roots that it is told of, URIs.
    pub roots: Vec<String>,
    /// The files to keep equal to resources.
    pub syncs: Vec<FileSync>,
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
    /// What was read in one go is being handled.
    burst: Rc<Burst>,
    /// The next timeout moved to an earlier time.
    timer: Notify,
    /// It may have, during a burst.
    unarmed: Cell<bool>,
    /// A slot became free.
    room: Notify,
    /// The machine asked to be retired.
    retired: Notify,
    epoch: tokio::time::Instant,
    epoch_micros: u64,
    /// What the clock said last: it is read once for all frames of a burst.
    moment: Cell<Instant>,
    limit: usize,
}

struct Inner {
    server: Machine,
    host: Box<dyn Host>,
    config: HubConfig,
    /// Most of the time none is there, so that each has a place of its own.
    payloads: Vec<Option<Box<Payload>>>,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    running: Option<Running>,
    /// The server, if it is one behind a URL.
    remote: Option<Remote>,
    /// Tools whose arguments go into headers.
    marked: Marked,
    /// What the server asks during calls.
    questions: Questions,
    /// What legacy clients are asked.
    asks: Asks,
    /// How much of the log is wanted whoever is connected.
    base_level: Option<Level>,
    /// Results that may be used again.
    cache: Cache,
    /// Tasks whose end nobody has seen.
    tasks: Pending,
    /// Who hears what the server announces.
    listeners: Listeners,
    /// Connections of clients whose sessions keep the server awake.
    stateful: HashSet<u64>,
    /// Files that are kept equal to resources.
    syncs: Syncs,
    /// What of its life is not written down yet.
    chronicle: Chronicle,
    /// What the server offers, until it is saved.
    gathered: Gathered,
    /// Requests that were accepted so far.
    order: u64,
    /// How often a server that had ended unasked was replaced, of which the last caller was told, and how it ended.
    renewals: u64,
    told: u64,
    lost: Lost,
    /// What the network said while the server was being reached.
    network: Option<String>,
    /// What the server said of itself when it was negotiated.
    handshake: Option<Vec<u8>>,
    revision: Option<Revision>,
    /// Who asked for the end, and waits for it.
    closers: Vec<(u64, Vec<u8>)>,
    /// What is more where the server is being written.
    dev: Option<Box<dev::Dev>>,
    spawn_failure: Option<String>,
    failure: Option<String>,
    stderr: Vec<u8>,
    armed: Option<Instant>,
    /// When the host gives back what it can have again, and how many requests there had been when that was put off last.
    rest: Rest,
    rested: u64,
    started: bool,
    retired: bool,
}

/// What is kept for a request under way.
struct Payload {
    /// Who waits for the answer.
    connection: u64,
    /// Who waited last, if now nobody does.
    last: u64,
    method: Method,
    /// The caller's id, raw.
    id: Vec<u8>,
    /// The caller's progress token, raw.
    token: Option<Vec<u8>>,
    parts: RequestParts,
    /// The request itself, while it may have to be sent (again).
    frame: Option<Bytes>,
    sent: bool,
    /// Its id on the wire, once it was sent.
    wire: Option<u64>,
    /// What the network said of it.
    detail: Option<String>,
    /// What is wrong with its answer, which is no message.
    fault: Option<String>,
    /// What it may take, if not the usual.
    allowance: Option<Allowance>,
    /// It was sent again after the list of tools was read.
    relisted: bool,
    /// Its place in the order of arrival.
    order: u64,
    principal: u64,
    /// What its caller can be asked for.
    capabilities: ClientCapabilities,
    /// What its result is kept under, if it may be used again.
    cached_as: Option<cache::CacheKey>,
    /// What its answer may tell of tasks, and of which.
    asked: (Asked, Option<Vec<u8>>),
    /// How much of the log its caller wants with it.
    wanted: Wanted,
    /// The log level that it sets.
    sets_level: Option<Option<Level>>,
    /// It carries the answers to what its server, a legacy one, refused it for.
    after_visits: bool,
    /// What its server asked and its client did not declare.
    lacks: Option<drowse_core::held::Kind>,
    /// The legacy client that waits for it, and how often the server wanted something of that.
    client: Option<Rc<legacy::Client>>,
    rounds: u16,
    /// It may run twice.
    repeatable: bool,
    /// Why its caller cancelled it, a JSON string, if it said that.
    reason: Option<Box<[u8]>>,
}

impl Payload {
    fn new(connection: u64, method: Method, frame: &[u8], parts: RequestParts, token: Option<Span>) -> Self {
        Self {
            connection,
            last: connection,
            method,
            id: parts.id.of(frame).to_vec(),
            token: token.map(|span| span.of(frame).to_vec()),
            parts,
            frame: None,
            sent: false,
            wire: None,
            detail: None,
            fault: None,
            allowance: None,
            relisted: false,
            order: 0,
            principal: 0,
            capabilities: ClientCapabilities::default(),
            cached_as: None,
            asked: (Asked::Nothing, None),
            wanted: Wanted::Nothing,
            sets_level: None,
            after_visits: false,
            lacks: None,
            client: None,
            rounds: 0,
            repeatable: false,
            reason: None,
        }
    }

    /// Whether its frame is needed after a server of that era has it.
    fn is_kept_for_later(&self, server: Option<Revision>) -> bool {
        let can_be_asked = self.capabilities != ClientCapabilities::default();
        self.repeatable
            || answer::is_needed_later(
                self.method,
                self.era(),
                server.map(|revision| revision.era()),
                can_be_asked,
            )
    }

    /// The era of its client.
    const fn era(&self) -> Era {
        if self.client.is_some() { Era::Legacy } else { Era::Modern }
    }
}

struct Connection {
    front: Front,
    mouth: Mouth,
    closed: Rc<Notify>,
    /// Whose view it is, as a number; whether others may have the same.
    principal: u64,
    named: bool,
    /// The renewals that its caller knows of.
    renewals: u64,
    /// The most verbose log level that a modern client wanted with a request.
    level: Option<Level>,
    /// What a legacy client said of itself.
    client: Option<Rc<legacy::Client>>,
    /// Its batches that are not answered.
    batches: Vec<legacy::Batch>,
    _flusher: Option<Task>,
}

struct Running {
    generation: u64,
    input: Option<Outlet>,
    control: Rc<dyn Control>,
    /// The end of the tree is awaited.
    awaited: bool,
    /// Told when the end of the server itself was handed in.
    reported: Rc<Notify>,
    _flusher: Task,
}

/// A task that ends with what it serves.
struct Task(Option<tokio::task::JoinHandle<()>>);

impl Task {
    fn spawn(future: impl Future<Output = ()> + 'static) -> Self {
        Self(Some(spawn_local(future)))
    }

    /// Lets it come to its end.
    fn detach(mut self) {
        self.0 = None;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
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
        let heard = relay::slots();
        let mut server = Server::listening(config.server, slots, heard, config.generation, crashes);
        if let Some(lost) = config.lost {
            server = server.after_loss(lost);
        }
        server.set_level(config.log_level);
        relay::limit(&mut server);
        let (epoch_micros, limit, count, revision) =
            (config.now_micros, config.limit, config.slots, config.revision);
        let questions = Questions::new(config.capabilities, config.roots.clone());
        let base_level = config.log_level;
        let inner = Inner {
            questions,
            asks: Asks::new(),
            base_level,
            cache: Cache::default(),
            tasks: Pending::new(),
            listeners: Listeners::new(),
            stateful: HashSet::new(),
            syncs: Syncs::default(),
            chronicle: Chronicle::default(),
            gathered: Gathered::default(),
            order: 0,
            renewals: 0,
            told: 0,
            lost: Lost::Expired,
            server,
            host,
            config,
            payloads: (0..count).map(|_| None).collect(),
            connections: BTreeMap::new(),
            next_connection: 0,
            running: None,
            remote: None,
            marked: Marked::default(),
            network: None,
            handshake: None,
            revision,
            closers: Vec::new(),
            dev: None,
            spawn_failure: None,
            failure: None,
            stderr: Vec::new(),
            armed: None,
            rest: Rest::new(),
            rested: 0,
            started: false,
            retired: false,
        };
        Self(Rc::new(Shared {
            inner: RefCell::new(inner),
            burst: Rc::default(),
            timer: Notify::new(),
            unarmed: Cell::new(false),
            room: Notify::new(),
            retired: Notify::new(),
            epoch: tokio::time::Instant::now(),
            epoch_micros,
            moment: Cell::new(now),
            limit,
        }))
    }

    /// Starts the clock: the server is started by the first request that needs it. To be called once, within a
    /// `LocalSet`, instead of [`start`](Self::start).
    pub fn stand_by(&self) {
        // What only the start needed is given back, too.
        self.with(|_, inner, now| inner.rest.handle_active(now));
        let hub = self.clone();
        spawn_local(async move { hub.run_timer().await });
    }

    /// Starts the server and the clock. To be called once, within a `LocalSet`.
    pub fn start(&self) {
        self.stand_by();
        self.with(|hub, inner, now| {
            inner.server.wake(now);
            hub.begin_syncs(inner);
            hub.drive(inner, None);
            // A start that may not happen is not waited for: the starter is told, and comes again.
            if let Some(why) = inner.server.lifecycle().unavailable(now).filter(|_| !inner.retired) {
                inner.failure = Some(inner.explain(|around| explain::unavailable(why, around)).message);
                hub.retire(inner);
            }
        });
    }

    /// Starts the clock of a session that is shared and whose server nobody wants so far: the first operation starts it.
    /// To be called once, within a `LocalSet`, instead of [`start`](Self::start).
    pub fn await_clients(&self) {
        self.stand_by();
        self.with(|hub, inner, _| {
            inner.server.stand_by();
            inner.started = true;
            inner.host.started(Ok(()));
            hub.drive(inner, None);
        });
    }

    /// Ends the server for good.
    pub fn close(&self) {
        self.with(|hub, inner, now| {
            inner.server.close(now);
            inner.close_dev();
            hub.drive(inner, None);
        });
    }

    /// The machine was suspended for that long, and the clock of the timers stood still.
    pub fn suspended(&self, length: Duration) {
        self.with(|hub, inner, now| {
            inner.server.handle_suspended(now, length);
            inner.host.note(&format!("the machine was suspended for {} s", length.as_secs()));
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

    fn with<T>(&self, act: impl FnOnce(&Self, &mut Inner, Instant) -> T) -> T {
        let now = if self.0.burst.lasts() { self.0.moment.get() } else { self.now() };
        act(self, &mut self.0.inner.borrow_mut(), now)
    }
}

impl Inner {
    fn keys_of(&self, wanted: impl Fn(&Payload) -> bool) -> Vec<Key> {
        self.payloads
            .iter()
            .enumerate()
            .filter(|(_, payload)| payload.as_deref().is_some_and(&wanted))
            .filter_map(|(index, _)| self.server.key_at(index))
            .collect()
    }

    fn keep(&mut self, key: Key, payload: impl Into<Box<Payload>>) {
        if let Some(place) = self.payloads.get_mut(key.index()) {
            *place = Some(payload.into());
        }
    }

    fn release(&mut self, key: Key) -> Option<Box<Payload>> {
        self.payloads.get_mut(key.index()).and_then(Option::take)
    }

    fn explain(&self, explain: impl FnOnce(&Circumstances<'_>) -> Explained) -> Explained {
        let secs = self.config.server.limits.connect.as_secs();
        let start = match self.server.start_error() {
            Some(error) => Some(self.explain_start(error, secs)),
            None => self.failure.clone(),
        };
        let stderr = self.stderr_tail();
        explain(&Circumstances {
            start: start.as_deref(),
            stderr: stderr.as_deref(),
            retry_at_ms: self.server.lifecycle().crashes().retry_at().map(Instant::as_millis),
            limit: self.config.limit,
            detail: None,
            fault: None,
            dev: self.dev.is_some(),
        })
    }

    fn explain_start(&self, error: StartError, secs: u64) -> String {
        let remote = self.config.server.transport == Transport::Http;
        let said = if remote { self.network.as_deref() } else { self.spawn_failure.as_deref() };
        match remote {
            true => explain::connect_error(error, self.spawn_failure.as_deref().or(said), secs),
            false => explain::start_error(error, said, secs),
        }
    }

    fn stderr_tail(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.stderr);
        let text = text.trim();
        let shown = || self.without_secrets(text);
        (!text.is_empty()).then(shown)
    }

    fn status(&self, now: Instant) -> serde_json::Value {
        let lifecycle = self.server.lifecycle();
        json!({
            "state": lifecycle.public_state().name(),
            "generation": lifecycle.generation(),
            "serverPid": self.running.as_ref().and_then(|running| running.control.pid()),
            "inFlight": lifecycle.in_flight(),
            "subscriptions": self.listeners.wanted(&self.server),
            "syncs": self.syncs.status(),
            "deferredBy": self.deferred_by(),
            "tally": self.tally(),
            "idleInMs": lifecycle.idle_deadline().map(|at| at.since(now).as_millis() as u64),
        })
    }
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
