//! A hub between in-memory streams, on tokio's paused clock: a day passes in no time, and every instant is exact.
//!
//! [`Stage`] is the hub's surroundings and remembers all that happens there; `server` is the MCP server that it
//! starts, `site` one behind a URL, `caller` a client of the bridge. Nothing here touches a file, a process or the real clock.

mod caller;
mod server;
mod site;
mod tasks;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use drowse_core::capabilities::ClientCapabilities;
use drowse_core::era::Era;
use drowse_core::lifecycle::{self, Exit, PublicState};
use drowse_core::negotiate::Limits;
use drowse_core::server::{Config, Transport};
use drowse_core::snapshot;
use drowse_runtime::bridge::{
    Backend, Control, Facts, Host, Hub, HubConfig, LocalFuture, Moment, Process, StartFailure,
};
use drowse_runtime::snapshot::Snapshot;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) use caller::{Caller, failure};
pub(crate) use server::{ListFault, ListenFault, MEMORY, Script};
pub(crate) use site::{Respond, Seen, Site};

/// What kind of server it is, and how it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of the bridge's.
    Process(Era),
    /// 2026-07-28 behind a URL.
    Modern,
    /// Streamable HTTP up to 2025-11-25, with a session.
    Session,
    /// The same without one.
    Stateless,
    /// HTTP with SSE, as in 2024-11-05.
    Old,
}

impl From<Era> for Peer {
    fn from(era: Era) -> Self {
        Self::Process(era)
    }
}

impl Peer {
    pub(crate) const fn era(self) -> Era {
        match self {
            Self::Process(era) => era,
            Self::Modern => Era::Modern,
            Self::Session | Self::Stateless | Self::Old => Era::Legacy,
        }
    }

    pub(crate) const fn is_remote(self) -> bool {
        !matches!(self, Self::Process(_))
    }

    /// drowse itself has a stream there, on which it hears that lists changed.
    pub(crate) const fn has_own_stream(self) -> bool {
        matches!(self, Self::Process(Era::Modern))
    }

    /// It takes a while to let it go, in which something may come.
    pub(crate) const fn can_linger(self) -> bool {
        matches!(self, Self::Process(_) | Self::Session)
    }
}

/// When a test has hung: longer, on its own clock, than anything that is tested.
const STALLED: Duration = Duration::from_secs(400 * 86_400);
/// The idle period of most tests.
pub(crate) const IDLE: Duration = Duration::from_secs(600);
/// What the clock's granularity may add to each step.
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// Runs a test on a paused clock that moves on whenever nothing else can.
pub(crate) fn play(test: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    tokio::task::LocalSet::new().block_on(&runtime.unwrap(), async {
        assert!(tokio::time::timeout(STALLED, test()).await.is_ok(), "nothing happens any more");
    });
}

/// Something that happened in or to a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    Started,
    /// A message arrived.
    Got(Value),
    /// A tool began to run, with this tag.
    Ran(String),
    /// A running tool was cancelled.
    Cancelled(String),
    /// Its input ended.
    InputClosed,
    Terminated,
    Killed,
    Exited(Exit),
}

/// The surroundings of a hub, and what happened in them. A clone is the same stage.
#[derive(Clone)]
pub(crate) struct Stage(Rc<Shared>);

struct Shared {
    script: Script,
    began: Instant,
    events: RefCell<Vec<(Duration, Event)>>,
    records: RefCell<Vec<(Duration, Facts)>>,
    outcomes: RefCell<Vec<Result<(), StartFailure>>>,
    processes: RefCell<Vec<Rc<server::Process>>>,
    site: Rc<Site>,
    notes: RefCell<Vec<String>>,
    disk_full: Cell<bool>,
    life: RefCell<Vec<(Duration, Moment)>>,
    logged: RefCell<Vec<String>>,
    /// Every snapshot that was saved, and what the file holds.
    saved: RefCell<Vec<(Duration, Value)>>,
    file: RefCell<Option<Vec<u8>>>,
    toolset: Cell<usize>,
    /// What servers got, to the byte; and whether a test answers it.
    lines: RefCell<Vec<String>>,
    by_hand: Cell<bool>,
    changed: Notify,
}

impl Stage {
    pub(crate) fn new(script: Script) -> Self {
        Self(Rc::new(Shared {
            script,
            began: Instant::now(),
            events: RefCell::default(),
            records: RefCell::default(),
            outcomes: RefCell::default(),
            processes: RefCell::default(),
            site: Site::new(),
            notes: RefCell::default(),
            disk_full: Cell::default(),
            life: RefCell::default(),
            logged: RefCell::default(),
            saved: RefCell::default(),
            file: RefCell::default(),
            toolset: Cell::default(),
            lines: RefCell::default(),
            by_hand: Cell::default(),
            changed: Notify::new(),
        }))
    }

    pub(crate) fn script(&self) -> &Script {
        &self.0.script
    }

    /// A bridge on this stage, started.
    pub(crate) fn bridge(&self, config: Config) -> Hub {
        self.bridge_with(config, |_| {})
    }

    /// The same, with more to say about it. It goes on where the last one on this stage stopped, as a new process
    /// does with the record of the last.
    pub(crate) fn bridge_with(&self, config: Config, change: impl FnOnce(&mut HubConfig)) -> Hub {
        let known = self.0.records.borrow().last().map(|(_, facts)| facts.clone());
        let mut config = HubConfig {
            server: config,
            slots: 16,
            limit: 1 << 20,
            generation: known.as_ref().map_or(0, |facts| facts.record.generation),
            crashes: known.as_ref().map_or_else(Vec::new, |facts| facts.crashes.clone()),
            revision: known.as_ref().and_then(|facts| facts.revision),
            capabilities: ClientCapabilities { form: true, ..ClientCapabilities::default() },
            roots: Vec::new(),
            syncs: Vec::new(),
            lost: None,
            identity: "staged".into(),
            log_level: None,
            // A real one starts with the time of day; it only has to be later than the last one's.
            now_micros: 1_000_000_000_000 + u64::try_from(self.elapsed().as_micros()).unwrap(),
        };
        config.server.remembered =
            config.server.remembered.or(config.revision.map(|revision| revision.era()));
        if self.script().peer.is_remote() {
            config.server.transport = Transport::Http;
            config.server.limits = Limits { hedge: None, ..config.server.limits };
            config.server.session_keepalive = config.server.session_keepalive.or(config.server.keepalive);
        }
        config.server.snapshot = Some(snapshot::Limits::default());
        change(&mut config);
        let hub = Hub::new(config, Box::new(self.clone()));
        hub.start();
        hub
    }

    /// A process that owns its server, and starts it when somebody needs it.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) fn proxy(&self, mut config: Config) -> Hub {
        config.lifecycle.resident = true;
        if self.script().peer.is_remote() {
            config.transport = Transport::Http;
        }
        let config = HubConfig {
            server: config,
            slots: 16,
            limit: 1 << 20,
            generation: 0,
            crashes: Vec::new(),
            revision: None,
            capabilities: ClientCapabilities { form: true, ..ClientCapabilities::default() },
            roots: Vec::new(),
            syncs: Vec::new(),
            lost: None,
            identity: "staged".into(),
            log_level: None,
            now_micros: 1_000_000_000_000 + u64::try_from(self.elapsed().as_micros()).unwrap(),
        };
        let hub = Hub::new(config, Box::new(self.clone()));
        hub.stand_by();
        hub
    }

    /// Since the test began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.began.elapsed()
    }

    pub(crate) fn fill_disk(&self, full: bool) {
        self.0.disk_full.set(full);
    }

    pub(crate) fn note_event(&self, event: Event) {
        self.0.events.borrow_mut().push((self.elapsed(), event));
        self.0.changed.notify_waiters();
    }

    fn note_line(&self, line: &str) {
        self.0.lines.borrow_mut().push(line.to_owned());
        self.0.changed.notify_waiters();
    }

    /// Every line that servers got, as it stood there. Of a request to a server behind a URL that was broken off, also
    /// `closed` and its id.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lines.borrow().clone()
    }

    /// From now on servers answer nothing by themselves, or do so again.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) fn answer_by_hand(&self, by_hand: bool) {
        self.0.by_hand.set(by_hand);
    }

    fn is_by_hand(&self) -> bool {
        self.0.by_hand.get()
    }

    pub(crate) fn events(&self) -> Vec<(Duration, Event)> {
        self.0.events.borrow().clone()
    }

    pub(crate) fn records(&self) -> Vec<(Duration, Facts)> {
        self.0.records.borrow().clone()
    }

    /// What was written into the session's life.
    pub(crate) fn life(&self) -> Vec<(Duration, Moment)> {
        self.0.life.borrow().clone()
    }

    pub(crate) fn outcomes(&self) -> Vec<Result<(), StartFailure>> {
        self.0.outcomes.borrow().clone()
    }

    /// The states written down, each once where it repeats.
    pub(crate) fn states(&self) -> Vec<PublicState> {
        let mut states: Vec<PublicState> =
            self.records().iter().map(|(_, facts)| facts.record.state).collect();
        states.dedup();
        states
    }

    pub(crate) fn starts(&self) -> usize {
        self.events().iter().filter(|(_, event)| *event == Event::Started).count()
    }

    /// How often a tool ran with that tag.
    pub(crate) fn runs(&self, tag: &str) -> usize {
        self.events().iter().filter(|(_, event)| *event == Event::Ran(tag.into())).count()
    }

    /// When the server got messages of that method.
    pub(crate) fn got(&self, method: &str) -> Vec<Duration> {
        let events = self.events();
        let matching = events.iter().filter(|(_, event)| match event {
            Event::Got(message) => message["method"] == method,
            _ => false,
        });
        matching.map(|(at, _)| *at).collect()
    }

    /// Every method that the servers got, in order; answers are `answer`.
    pub(crate) fn methods(&self) -> Vec<String> {
        let events = self.events();
        let methods = events.iter().filter_map(|(_, event)| match event {
            Event::Got(message) => Some(message["method"].as_str().unwrap_or("answer").to_owned()),
            _ => None,
        });
        methods.collect()
    }

    /// Waits until it is so.
    pub(crate) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        while !is_so(self) {
            self.0.changed.notified().await;
        }
    }

    /// Waits for a record with that state of the generation that is current then, and says when it was written.
    pub(crate) async fn state(&self, wanted: PublicState) -> Duration {
        let last = |stage: &Self| stage.records().last().map(|(at, facts)| (*at, facts.record.state));
        self.until(|stage| last(stage).is_some_and(|(_, state)| state == wanted)).await;
        last(self).map_or(Duration::ZERO, |(at, _)| at)
    }

    /// Waits until the server is ready, and says when that was.
    pub(crate) async fn ready(&self) -> Duration {
        self.state(PublicState::Live).await
    }

    /// The running server.
    pub(crate) fn process(&self) -> Rc<server::Process> {
        Rc::clone(self.0.processes.borrow().last().expect("a server was started"))
    }

    /// The server behind the URL.
    pub(crate) fn site(&self) -> Rc<Site> {
        Rc::clone(&self.0.site)
    }

    /// What the bridge wrote to its log.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.0.notes.borrow().clone()
    }

    /// Waits until what the server offers is saved, and says when that was: from then on drowse asks it nothing by
    /// itself, unless it says that something changed.
    pub(crate) async fn saved(&self) -> Duration {
        self.until(|stage| !stage.snapshots().is_empty()).await;
        self.snapshots().last().map_or(Duration::ZERO, |(at, _)| *at)
    }

    /// The snapshots that were saved, and when.
    pub(crate) fn snapshots(&self) -> Vec<(Duration, Value)> {
        self.0.saved.borrow().clone()
    }

    /// Puts something else in the snapshot's place.
    pub(crate) fn replace_snapshot(&self, file: Option<Vec<u8>>) {
        *self.0.file.borrow_mut() = file;
    }

    /// The server's tools are others from now on, of which it says nothing.
    pub(crate) fn change_tools(&self) {
        self.0.toolset.set(self.toolset() + 1);
    }

    /// Which tools the server has.
    pub(crate) fn toolset(&self) -> usize {
        self.0.toolset.get()
    }

    /// The file of the snapshot.
    pub(crate) fn snapshot_file(&self) -> Option<Vec<u8>> {
        self.0.file.borrow().clone()
    }

    /// What the servers said for the log.
    pub(crate) fn logged(&self) -> Vec<String> {
        self.0.logged.borrow().clone()
    }

    /// The params of the messages of that method that servers got.
    pub(crate) fn params_of(&self, method: &str) -> Vec<Value> {
        let events = self.events();
        let params = events.iter().filter_map(|(_, event)| match event {
            Event::Got(message) if message["method"] == method => Some(message["params"].clone()),
            _ => None,
        });
        params.collect()
    }

    /// Sends a message as the running server.
    pub(crate) fn server_says(&self, message: &Value) {
        self.server_writes(message.to_string());
    }

    /// Sends a line as the running server.
    pub(crate) fn server_writes(&self, line: String) {
        if self.script().peer.is_remote() {
            self.0.site.says(&line);
        } else {
            self.process().write(line);
        }
    }

    /// What the server announces updates of.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) fn announced(&self) -> Vec<String> {
        match self.script().peer.is_remote() {
            true => self.0.site.subscriptions(),
            false => self.process().subscriptions(),
        }
    }

    /// A resource of the server is updated.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) fn update(&self, uri: &str) {
        match self.script().peer.is_remote() {
            true => self.0.site.update(uri),
            false => self.process().update(uri),
        }
    }

    /// The server announces that its list of tools changed.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) fn tools_changed(&self) {
        match self.script().peer.is_remote() {
            true => self.0.site.change_tools(self.script().peer.era()),
            false => self.process().change_tools(),
        }
    }

    /// Ends the running server as if it did so itself.
    pub(crate) fn server_exits(&self, exit: Exit) {
        let process = self.process();
        process.end(self, exit);
    }
}

impl Host for Stage {
    fn persist(&mut self, facts: &Facts) -> io::Result<()> {
        if self.0.disk_full.get() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.records.borrow_mut().push((self.elapsed(), facts.clone()));
        self.0.changed.notify_waiters();
        Ok(())
    }

    fn lived(&mut self, moment: &Moment) -> io::Result<()> {
        if self.0.disk_full.get() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.life.borrow_mut().push((self.elapsed(), moment.clone()));
        Ok(())
    }

    fn spawn(&mut self, generation: u64) -> Result<Backend, String> {
        if self.0.script.cannot_start {
            return Err("there is no such program".into());
        }
        assert_eq!(
            self.0.records.borrow().last().map(|(_, facts)| (facts.record.generation, facts.record.ended)),
            Some((generation, false)),
            "a server is started only after its generation was written down",
        );
        if self.script().peer.is_remote() {
            self.note_event(Event::Started);
            let (site, stage) = (self.site(), self.clone());
            return Ok(Backend::Remote(Rc::new(site::Visit { site, stage, began: Instant::now() })));
        }
        let (process, input, output) = server::start(self);
        self.0.processes.borrow_mut().push(Rc::clone(&process));
        self.note_event(Event::Started);
        Ok(Backend::Process(Process {
            input: Box::new(input),
            output: Box::new(output),
            errors: None,
            control: Rc::new(Controlled { stage: self.clone(), process }),
        }))
    }

    fn server_errors(&mut self, _bytes: &[u8]) {}

    fn note(&mut self, text: &str) {
        self.0.notes.borrow_mut().push(text.to_owned());
        self.0.changed.notify_waiters();
    }

    fn server_log(&mut self, text: &str) {
        self.0.logged.borrow_mut().push(text.to_owned());
    }

    fn save(&mut self, document: &[u8]) -> io::Result<()> {
        if self.0.disk_full.get() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let whole = serde_json::from_slice(document).expect("a snapshot is JSON");
        self.0.saved.borrow_mut().push((self.elapsed(), whole));
        *self.0.file.borrow_mut() = Some(document.to_vec());
        self.0.changed.notify_waiters();
        Ok(())
    }

    fn saved(&mut self) -> Option<Snapshot> {
        self.0.file.borrow().as_deref().and_then(Snapshot::from_bytes)
    }

    fn started(&mut self, outcome: Result<(), &StartFailure>) {
        self.0.outcomes.borrow_mut().push(outcome.map_err(Clone::clone));
    }
}

struct Controlled {
    stage: Stage,
    process: Rc<server::Process>,
}

impl Control for Controlled {
    fn pid(&self) -> Option<u32> {
        Some(self.process.pid)
    }

    fn exited(&self) -> LocalFuture<'_, Exit> {
        // The word of it comes late, after that of the whole tree, as it may with real processes.
        Box::pin(async {
            let exit = self.process.ended().await;
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            exit
        })
    }

    fn terminate(&self) {
        // Its tree is itself: a signal after its end reaches nobody.
        if self.process.has_ended() {
            return;
        }
        self.stage.note_event(Event::Terminated);
        if !self.stage.script().ignores_terminate {
            self.process.end(&self.stage, Exit::Signal(15));
        }
    }

    fn kill(&self) {
        if self.process.has_ended() {
            return;
        }
        self.stage.note_event(Event::Killed);
        self.process.end(&self.stage, Exit::Signal(9));
    }

    fn gone(&self) -> LocalFuture<'_, ()> {
        Box::pin(async {
            self.process.ended().await;
        })
    }

    fn memory(&self) -> Option<u64> {
        (!self.process.has_ended()).then_some(MEMORY)
    }
}

/// A server that falls asleep after [`IDLE`].
pub(crate) fn sleepy() -> Config {
    with_idle(Some(IDLE))
}

/// A server with this idle period.
pub(crate) fn with_idle(idle: Option<Duration>) -> Config {
    Config { lifecycle: lifecycle::Config { idle, ..lifecycle::Config::default() }, ..Config::default() }
}

/// That something happened when it should: not a moment earlier, and no later than the clock's granularity.
#[track_caller]
pub(crate) fn assert_at(at: Duration, expected: Duration) {
    assert!(at >= expected && at <= expected + TICK, "at {at:?}, not at {expected:?}");
}
