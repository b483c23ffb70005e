//! A simulated host around one [`Server`]: a disk, a server process of either era or a server behind a URL ([`remote`]),
//! and a clock that moves only when it is told to.
//!
//! Messages go as bytes, rewritten the way an adapter does it, and the adapter's slab of payloads is kept and checked:
//! each key comes back exactly once. It never waits for real time.
//!
//! The unit tests of the facade include it too, where nothing of std is in scope by itself.

#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

mod remote;

use std::borrow::ToOwned;
use std::boxed::Box;
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use drowse_core::crash::CrashLog;
use drowse_core::envelope::{self, Message};
use drowse_core::era::Era;
use drowse_core::http::exchange::Carried;
use drowse_core::lifecycle::{Exit, PublicState, Record};
use drowse_core::link::{Cause, Key, Ran, Slot};
use drowse_core::message::{self, Identity, Writer};
use drowse_core::method::Method;
use drowse_core::negotiate::Limits;
use drowse_core::relay;
use drowse_core::server::{Action, Config, Ignored, Operation, Outcome, Refusal, Server, Transport};
use drowse_core::snapshot;
use drowse_core::splice::{self, Origin, RequestParts, Rewrite};
use drowse_core::time::{Duration, Instant, Reason};
use serde_json::{Value, json};

use self::remote::{Happens, Net};
#[allow(unused_imports, reason = "each test crate uses a part of it")]
pub(crate) use self::remote::{Peer, Whim};

const IDENTITY: Identity = Identity { name: "drowse", version: "0" };
/// A simulated process takes this long to do what it is told.
const MOMENT: Duration = Duration::from_millis(10);

/// How the processes behave that are started from now on.
#[derive(Clone, Debug)]
pub(crate) struct Behaviour {
    pub(crate) peer: Peer,
    /// From its start until it reads its input.
    pub(crate) boot: Duration,
    /// From an operation to its answer; `None`: only when told to, by [`World::answer`].
    pub(crate) latency: Option<Duration>,
    /// It answers nothing at all.
    pub(crate) mute: bool,
    /// It says nothing any more once it was negotiated.
    pub(crate) mute_after_start: bool,
    pub(crate) dies_on_probe: bool,
    pub(crate) dies_on_initialize: bool,
    /// It speaks both eras: that of the first question, to the end of its process.
    pub(crate) both: bool,
    /// It stays when its input is closed; behind a URL, it does not answer the end of a session.
    pub(crate) ignores_eof: bool,
    pub(crate) ignores_terminate: bool,
    /// It waits for a device and does not end even when it is killed.
    pub(crate) ignores_kill: bool,
    /// It exits with status 0 this long after its last answer, as some servers do by themselves.
    pub(crate) leaves_after: Option<Duration>,
}

impl Behaviour {
    pub(crate) fn of(peer: impl Into<Peer>) -> Self {
        Self {
            peer: peer.into(),
            boot: MOMENT,
            latency: Some(Duration::from_millis(5)),
            mute: false,
            mute_after_start: false,
            dies_on_probe: false,
            dies_on_initialize: false,
            both: false,
            ignores_eof: false,
            ignores_terminate: false,
            ignores_kill: false,
            leaves_after: None,
        }
    }
}

/// What becomes of records that are to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Disk {
    Works,
    Full,
    /// The acknowledgement is given by the test.
    Slow,
}

/// What the host did, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Did {
    Persist(PublicState, u64),
    Spawn(u64),
    /// Wrote a message with this method; over HTTP also the verb of a request without a message.
    Send(String),
    CloseInput,
    Terminate,
    Kill,
    Retire,
}

/// What became of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Open,
    Answered(Value),
    Failed(Cause, Ran),
}

#[derive(Clone, Debug)]
struct Process {
    generation: u64,
    behaviour: Behaviour,
    started: Instant,
    input_open: bool,
    /// The era that a server of both has chosen.
    chosen: Option<Era>,
    /// Requests that wait for [`World::answer`].
    held: Vec<Held>,
}

#[derive(Clone, Debug)]
struct Held {
    request: Value,
    /// The exchange that it came with.
    course: u64,
}

#[derive(Clone, Debug)]
enum Event {
    /// The process reads a message.
    Read(Value),
    /// The process writes one.
    Write(Value),
    Exit(Exit),
    Gone,
    /// Something happens about an exchange.
    Net(u64, Happens),
}

#[derive(Clone, Debug)]
struct Call {
    key: Option<Key>,
    frame: Vec<u8>,
    fate: Fate,
}

/// The simulated host.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) server: Server<Box<[Slot]>>,
    pub(crate) behaviour: Behaviour,
    pub(crate) disk: Disk,
    /// There is such a program.
    pub(crate) can_spawn: bool,
    pub(crate) did: Vec<Did>,
    /// Every operation that a server process ever began: its method, and the call's number.
    pub(crate) executed: Vec<String>,
    pub(crate) cancelled: usize,
    /// Progress that was passed on.
    pub(crate) progress: usize,
    pub(crate) record: Option<Record>,
    /// What the server offers is asked for.
    gathers: bool,
    /// How often all of it was.
    pub(crate) gathered: usize,
    now: Instant,
    process: Option<Process>,
    pub(crate) net: Net,
    /// What is going to happen: when, to which generation, what.
    agenda: Vec<(Instant, u64, Event)>,
    calls: Vec<Call>,
    /// The adapter's payloads: which call is in which slot.
    slab: Vec<Option<usize>>,
}

impl World {
    pub(crate) fn new(config: Config, peer: impl Into<Peer>) -> Self {
        Self::recovered(config, peer, 0, CrashLog::new(), Instant::from_millis(1_000_000))
    }

    /// A host that was started anew: nothing is left but the record.
    pub(crate) fn recovered(
        mut config: Config,
        peer: impl Into<Peer>,
        generation: u64,
        crashes: CrashLog,
        now: Instant,
    ) -> Self {
        let peer = peer.into();
        if peer.is_remote() {
            config.transport = Transport::Http;
            config.limits = Limits { hedge: None, ..config.limits };
            config.session_keepalive = config.session_keepalive.or(config.keepalive);
        }
        let slots = vec![Slot::EMPTY; 8].into_boxed_slice();
        Self {
            gathers: config.snapshot.is_some(),
            gathered: 0,
            server: Server::new(config, slots, generation, crashes),
            behaviour: Behaviour::of(peer),
            disk: Disk::Works,
            can_spawn: true,
            did: Vec::new(),
            executed: Vec::new(),
            cancelled: 0,
            progress: 0,
            record: None,
            now,
            process: None,
            net: Net::default(),
            agenda: Vec::new(),
            calls: Vec::new(),
            slab: vec![None; 8],
        }
    }

    pub(crate) const fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn state(&self) -> &'static str {
        self.server.state().name()
    }

    /// Whether a process runs.
    pub(crate) const fn has_process(&self) -> bool {
        self.process.is_some()
    }

    /// What was done since the last call.
    pub(crate) fn done(&mut self) -> Vec<Did> {
        core::mem::take(&mut self.did)
    }

    /// Milliseconds until the next timeout, and its reason.
    pub(crate) fn awaits(&self) -> Option<(u64, Reason)> {
        self.server.poll_timeout().map(|(at, reason)| (at.since(self.now).as_millis() as u64, reason))
    }

    // What callers do.

    /// A caller's request arrives; the number names the call.
    pub(crate) fn call(&mut self, method: &str) -> usize {
        self.try_call(method).unwrap_or_else(|refusal| panic!("{method} was refused: {refusal:?}"))
    }

    pub(crate) fn try_call(&mut self, method: &str) -> Result<usize, Refusal> {
        let number = self.calls.len();
        let request = json!({"jsonrpc": "2.0", "id": format!("c{number}"), "method": method, "params": {"_meta": {
            message::META_PROTOCOL_VERSION: "2026-07-28",
            message::META_CLIENT_CAPABILITIES: {},
            message::META_PROGRESS_TOKEN: format!("p{number}"),
        }, "call": number}});
        let operation = Operation { method: Method::from_name(method), allowance: None };
        let key = self.server.submit(self.now, operation)?;
        let place = &mut self.slab[key.index()];
        assert_eq!(*place, None, "the slot of {key:?} is in use");
        *place = Some(number);
        self.calls.push(Call { key: Some(key), frame: request.to_string().into_bytes(), fate: Fate::Open });
        self.drain();
        Ok(number)
    }

    pub(crate) fn fate(&self, call: usize) -> &Fate {
        &self.calls[call].fate
    }

    pub(crate) fn is_answered(&self, call: usize) -> bool {
        matches!(self.calls[call].fate, Fate::Answered(_))
    }

    /// A call from arrival to answer.
    pub(crate) fn use_it(&mut self) {
        let call = self.call("tools/call");
        for _ in 0..10_000 {
            if self.is_answered(call) {
                return;
            }
            assert_eq!(self.calls[call].fate, Fate::Open);
            self.pass(Duration::from_millis(1));
        }
        panic!("no answer in 10 s: {self:#?}");
    }

    pub(crate) fn cancel(&mut self, call: usize) {
        if let Some(key) = self.calls[call].key {
            self.server.cancel(self.now, key);
        }
        self.drain();
    }

    /// Hands an input to the machine, and does what it says.
    pub(crate) fn act<T>(&mut self, input: impl FnOnce(&mut Server<Box<[Slot]>>, Instant) -> T) -> T {
        let output = input(&mut self.server, self.now);
        self.drain();
        output
    }

    /// The key of an open call.
    pub(crate) fn key(&self, call: usize) -> Key {
        self.calls[call].key.expect("the call is open")
    }

    // What the server process does.

    /// Whether the process holds an operation that it has not answered.
    pub(crate) fn holds(&self) -> bool {
        self.process.as_ref().is_some_and(|process| !process.held.is_empty())
    }

    /// The process answers the oldest operation that it holds.
    pub(crate) fn answer(&mut self) {
        let process = self.process.as_mut().expect("a process runs");
        let held = process.held.remove(0);
        let generation = process.generation;
        if self.behaviour.peer.is_remote() {
            self.respond_held(&held);
        } else {
            self.agenda.push((self.now, generation, Event::Write(success(&held.request))));
        }
        self.pass(Duration::ZERO);
    }

    /// The process writes a message on its own.
    pub(crate) fn writes(&mut self, message: Value) {
        let generation = self.process.as_ref().expect("a process runs").generation;
        if self.behaviour.peer.is_remote() {
            self.says(&message);
        } else {
            self.agenda.push((self.now, generation, Event::Write(message)));
        }
        self.pass(Duration::ZERO);
    }

    /// The process reports progress of the oldest operation that it holds.
    pub(crate) fn progresses(&mut self) {
        let token =
            self.process.as_ref().expect("a process runs").held[0].request["params"]["_meta"]["progressToken"]
                .clone();
        self.writes(json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": 1}}));
    }

    /// The process ends by itself, or somebody ends it.
    pub(crate) fn exits(&mut self, exit: Exit) {
        let generation = self.process.as_ref().expect("a process runs").generation;
        self.agenda.push((self.now, generation, Event::Exit(exit)));
        self.pass(Duration::ZERO);
    }

    /// The whole tree is gone at once, and nothing was heard of it before.
    pub(crate) fn vanishes(&mut self) {
        self.process = None;
        self.net_vanishes();
        self.act(Server::handle_tree_gone);
    }

    // Time.

    pub(crate) fn pass(&mut self, duration: Duration) {
        let end = self.now.after(duration);
        self.drain();
        for _ in 0..100_000 {
            let event = self.agenda.iter().map(|(at, ..)| *at).min().filter(|at| *at <= end);
            let timeout = self.server.poll_timeout().map(|(at, _)| at).filter(|at| *at <= end);
            match (event, timeout) {
                (Some(event), timeout) if timeout.is_none_or(|at| event <= at) => {
                    self.now = self.now.max(event);
                    self.happen(event);
                }
                (_, Some(timeout)) => {
                    self.now = self.now.max(timeout);
                    self.server.handle_timeout(self.now);
                    if let Some((at, reason)) = self.server.poll_timeout() {
                        assert!(at > self.now, "{reason:?} would be handled again and again");
                    }
                }
                (_, None) => {
                    self.now = end;
                    return;
                }
            }
            self.drain();
        }
        panic!("time does not pass: {:?}", self.server.poll_timeout());
    }

    pub(crate) fn seconds(&mut self, seconds: u64) {
        self.pass(Duration::from_secs(seconds));
    }

    fn happen(&mut self, at: Instant) {
        // The first that was put there: messages keep their order.
        let index = self.agenda.iter().position(|(due, ..)| *due == at).expect("it was found a moment ago");
        let (_, generation, event) = self.agenda.remove(index);
        if self.process.as_ref().is_none_or(|process| process.generation != generation) {
            return;
        }
        match event {
            Event::Read(message) => self.process_reads(&message),
            Event::Write(message) => self.frame(message.to_string().as_bytes()),
            Event::Exit(exit) => {
                self.server.handle_lost(self.now);
                self.drain();
                self.server.handle_exited(self.now, exit);
                self.agenda.push((self.now, generation, Event::Gone));
            }
            Event::Gone => {
                self.process = None;
                self.server.handle_tree_gone(self.now);
            }
            Event::Net(number, happens) => self.net_happens(number, happens),
        }
    }

    fn process_reads(&mut self, message: &Value) {
        let Some(process) = self.process.as_mut() else { return };
        let behaviour = process.behaviour.clone();
        let generation = process.generation;
        let method = message["method"].as_str().unwrap_or_default();
        let asked = if method == "initialize" { Era::Legacy } else { Era::Modern };
        let chosen = *process.chosen.get_or_insert(asked);
        let era = if behaviour.both { chosen } else { behaviour.peer.era() };
        let mut write = |at, message| self.agenda.push((at, generation, Event::Write(message)));
        let now = self.now;
        let started = self.server.revision().is_some();
        let offers = match self.gathers {
            true => json!({"tools": {"listChanged": true}, "prompts": {}, "logging": {}}),
            false => json!({"logging": {}}),
        };
        if behaviour.mute || behaviour.mute_after_start && started {
            return;
        }
        match (method, era) {
            ("initialize", _) if behaviour.dies_on_initialize => {
                self.agenda.push((now, generation, Event::Exit(Exit::Status(1))));
            }
            ("server/discover", _) if behaviour.dies_on_probe => {
                self.agenda.push((now, generation, Event::Exit(Exit::Status(1))));
            }
            ("server/discover", Era::Modern) => {
                assert_eq!(message["params"]["_meta"][message::META_PROTOCOL_VERSION], "2026-07-28");
                write(
                    now,
                    reply(
                        message,
                        "result",
                        &json!({"resultType": "complete",
                    "supportedVersions": ["2026-07-28"], "capabilities": offers, "ttlMs": 0, "cacheScope": "private"}),
                    ),
                );
            }
            ("server/discover", Era::Legacy) => {
                write(now, reply(message, "error", &json!({"code": -32601, "message": "no such method"})));
            }
            ("initialize", Era::Legacy) => {
                write(
                    now,
                    reply(
                        message,
                        "result",
                        &json!({"protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": offers, "serverInfo": {"name": "simulated", "version": "0"}}),
                    ),
                );
            }
            ("initialize", Era::Modern) => {
                let data = json!({"supported": ["2026-07-28"], "requested": "2025-11-25"});
                write(now, reply(message, "error", &json!({"code": -32022, "message": "no", "data": data})));
            }
            ("ping", Era::Legacy) => write(now, reply(message, "result", &json!({}))),
            ("notifications/cancelled", _) => {
                self.cancelled += 1;
                let cancelled = &message["params"]["requestId"];
                process.held.retain(|held| held.request["id"] != *cancelled);
            }
            ("notifications/initialized", _) => {}
            // drowse's own, of which nobody knows.
            ("subscriptions/listen", Era::Modern) if message["params"].get("call").is_none() => {
                let meta = json!({"io.modelcontextprotocol/subscriptionId": message["id"]});
                let params = json!({"_meta": meta, "notifications": message["params"]["notifications"]});
                let method = "notifications/subscriptions/acknowledged";
                write(now, json!({"jsonrpc": "2.0", "method": method, "params": params}));
            }
            ("tools/list" | "prompts/list", _) if message["params"].get("call").is_none() => {
                let list = method.trim_end_matches("/list");
                write(now, reply(message, "result", &json!({"resultType": "complete", list: []})));
            }
            (method, era) => {
                assert!(message.get("id").is_some(), "{message}");
                let modern = message["params"]["_meta"].get(message::META_PROTOCOL_VERSION).is_some();
                assert_eq!(
                    modern,
                    era == Era::Modern,
                    "per-request fields are for modern servers: {message}"
                );
                self.executed.push(format!("{method} {}", message["params"]["call"]));
                match behaviour.latency {
                    Some(latency) => {
                        let at = now.after(latency);
                        write(at, success(message));
                        if let Some(after) = behaviour.leaves_after {
                            self.agenda.push((at.after(after), generation, Event::Exit(Exit::Status(0))));
                        }
                    }
                    None => process.held.push(Held { request: message.clone(), course: 0 }),
                }
            }
        }
    }

    // What an adapter does.

    /// Does what the machine says, until it says no more.
    pub(crate) fn drain(&mut self) {
        for _ in 0..1_000 {
            let Some(action) = self.server.poll_action() else { return };
            match action {
                Action::Persist(record) => {
                    self.did.push(Did::Persist(record.state, record.generation));
                    self.record = Some(record);
                    match self.disk {
                        Disk::Works => self.server.handle_persisted(self.now),
                        Disk::Full => self.server.handle_persist_failed(self.now),
                        Disk::Slow => {}
                    }
                }
                Action::Spawn { generation } => {
                    assert!(self.process.is_none(), "two processes of one server");
                    self.did.push(Did::Spawn(generation));
                    if !self.can_spawn {
                        self.server.handle_spawn_failed(self.now);
                        continue;
                    }
                    self.process = Some(Process {
                        generation,
                        behaviour: self.behaviour.clone(),
                        started: self.now,
                        input_open: true,
                        chosen: None,
                        held: Vec::new(),
                    });
                    self.server.handle_spawned(self.now);
                }
                Action::SendOwn(own) => {
                    let mut buffer = [0; message::OWN_MAX];
                    let bytes = message::own(own, IDENTITY, &mut buffer).expect("it fits");
                    if self.behaviour.peer.is_remote() {
                        self.post_own(own, bytes);
                    } else {
                        self.write(bytes);
                    }
                }
                Action::Send { key, wire, method, revision } => {
                    let number = self.slab[key.index()].expect("a payload is there");
                    assert_eq!(self.calls[number].key, Some(key));
                    let frame = self.calls[number].frame.clone();
                    let parts =
                        RequestParts::of(&envelope::read(&frame).expect("a message")).expect("a request");
                    let progress = method.wants_progress();
                    let how = Rewrite { wire, progress, revision, level: None, from: Origin::Verbatim };
                    let pieces = splice::request(&frame, &parts, &how).expect("few pieces");
                    let mut buffer = vec![0; pieces.len()];
                    let bytes = pieces.write(&frame, &[], &mut buffer).expect("it fits").to_vec();
                    if self.behaviour.peer.is_remote() {
                        self.server.handle_sent(key);
                        self.post(Carried::Request(method), wire, &bytes);
                    } else {
                        self.write(&bytes);
                        self.server.handle_sent(key);
                    }
                }
                Action::Listen if self.behaviour.peer.is_remote() => {
                    self.begin("GET", Carried::Listening, 0, Value::Null);
                }
                Action::OpenOldStream if self.behaviour.peer.is_remote() => {
                    self.begin("GET", Carried::OldStream, 0, Value::Null);
                }
                Action::Renewed(_) => {}
                Action::Listen | Action::OpenOldStream => panic!("{action:?} over a byte stream"),
                Action::Relay(step) => {
                    let (relay::Step::Listen { wire, lists }, true, false) =
                        (step, self.gathers, self.behaviour.peer.is_remote())
                    else {
                        panic!("{step:?}, though nobody listens")
                    };
                    let revision = self.server.revision().expect("it is ready");
                    let mut buffer = [0; 1024];
                    let mut w = Writer::new(&mut buffer);
                    relay::wire::listen(
                        &mut w,
                        wire,
                        revision,
                        IDENTITY,
                        lists,
                        [].into_iter(),
                        [].into_iter(),
                    );
                    let bytes = w.finish().expect("it fits").to_vec();
                    self.write(&bytes);
                }
                Action::Snapshot(step) => {
                    assert!(self.gathers, "{step:?}, though nothing is saved");
                    assert!(!self.behaviour.peer.is_remote(), "only processes are simulated so far");
                    match step {
                        snapshot::Step::Ask { wire, listing, more } => {
                            assert!(!more, "there is one page");
                            let revision = self.server.revision().expect("it is ready");
                            let mut buffer = [0; 1024];
                            let mut w = Writer::new(&mut buffer);
                            snapshot::request(&mut w, wire, listing, revision, IDENTITY, None);
                            let bytes = w.finish().expect("it fits").to_vec();
                            self.write(&bytes);
                        }
                        snapshot::Step::Gathered { .. } => self.gathered += 1,
                    }
                }
                Action::AnswerLevel { key } => self.conclude(key, Fate::Answered(json!({}))),
                Action::AnswerInfo { key } => self.conclude(key, Fate::Answered(json!("info"))),
                Action::Fail { key, failure } => {
                    self.conclude(key, Fate::Failed(failure.cause, failure.ran));
                    self.abandon(key);
                }
                Action::CloseInput => {
                    self.did.push(Did::CloseInput);
                    if self.behaviour.peer.is_remote() {
                        self.goodbye();
                        continue;
                    }
                    if let Some(process) = self.process.as_mut() {
                        process.input_open = false;
                        if !process.behaviour.ignores_eof {
                            self.ends_soon(Exit::Status(0));
                        }
                    }
                }
                Action::Terminate => {
                    self.did.push(Did::Terminate);
                    if self.behaviour.peer.is_remote() {
                        self.break_off();
                        continue;
                    }
                    if self.process.as_ref().is_some_and(|process| !process.behaviour.ignores_terminate) {
                        self.ends_soon(Exit::Signal(15));
                    }
                }
                Action::Kill => {
                    self.did.push(Did::Kill);
                    if self.behaviour.peer.is_remote() {
                        self.break_off();
                        continue;
                    }
                    match &self.process {
                        Some(process) if process.behaviour.ignores_kill => {}
                        Some(_) => self.ends_soon(Exit::Signal(9)),
                        None => self.server.handle_tree_gone(self.now),
                    }
                }
                Action::Retire => {
                    assert!(self.process.is_none(), "a process is left behind");
                    assert!(self.slab.iter().all(Option::is_none), "a call is left behind");
                    self.did.push(Did::Retire);
                }
            }
        }
        panic!("poll_action never ends: {:?}", self.did);
    }

    fn ends_soon(&mut self, exit: Exit) {
        if let Some(process) = &self.process {
            self.agenda.push((self.now.after(MOMENT), process.generation, Event::Exit(exit)));
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        let message: Value = serde_json::from_slice(bytes).expect("what drowse writes is JSON");
        self.did.push(Did::Send(message["method"].as_str().unwrap_or("answer").to_owned()));
        if let Some(process) = self.process.as_ref().filter(|process| process.input_open) {
            let at = self.now.max(process.started.after(process.behaviour.boot));
            self.agenda.push((at, process.generation, Event::Read(message)));
        }
    }

    fn frame(&mut self, frame: &[u8]) {
        match self.server.handle_frame(self.now, frame) {
            Outcome::Deliver { key, method, message, revision } => {
                let number = self.slab[key.index()].expect("a payload is there");
                let request = self.calls[number].frame.clone();
                let parts =
                    RequestParts::of(&envelope::read(&request).expect("a message")).expect("a request");
                let pieces =
                    splice::answer(frame, &message, parts.id, method, revision, false).expect("few pieces");
                let mut buffer = vec![0; pieces.len()];
                let bytes = pieces.write(frame, &request, &mut buffer).expect("it fits");
                let answer: Value = serde_json::from_slice(bytes).expect("JSON");
                assert_eq!(answer["id"], format!("c{number}"));
                if let Message::Response { .. } = message {
                    assert_eq!(
                        answer["result"]["resultType"], "complete",
                        "modern, whatever the server's era"
                    );
                }
                self.conclude(key, Fate::Answered(answer["result"].clone()));
            }
            Outcome::Progress { key, .. } => {
                assert!(self.slab[key.index()].is_some());
                self.progress += 1;
            }
            Outcome::Pong { id } => {
                let mut buffer = [0; 256];
                let bytes = message::empty_result(id.of(frame), &mut buffer).expect("it fits").to_vec();
                if self.behaviour.peer.is_remote() {
                    self.post(Carried::Message, 0, &bytes);
                } else {
                    self.write(&bytes);
                }
            }
            Outcome::Ignored(Ignored::Malformed(error)) => panic!("{error}"),
            Outcome::Handshake(_)
            | Outcome::Updated { .. }
            | Outcome::Acknowledged { .. }
            | Outcome::Unheard { .. }
            | Outcome::Listed(_)
            | Outcome::Asked(_)
            | Outcome::Notification { .. }
            | Outcome::Batch(_)
            | Outcome::Ignored(_) => {}
        }
    }

    fn conclude(&mut self, key: Key, fate: Fate) {
        let number = self.slab[key.index()].take().expect("each key comes back once");
        let call = &mut self.calls[number];
        assert_eq!(call.key.take(), Some(key));
        assert_eq!(call.fate, Fate::Open);
        call.fate = fate;
    }
}

fn reply(request: &Value, part: &str, body: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request["id"], part: body})
}

fn success(request: &Value) -> Value {
    let meta = &request["params"]["_meta"];
    let mut result = json!({"content": []});
    if meta.get(message::META_PROTOCOL_VERSION).is_some() {
        result["resultType"] = json!("complete");
    }
    reply(request, "result", &result)
}
