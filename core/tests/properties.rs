//! What holds for every sequence of inputs, in order or not, true or not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test crate uses a part of it")]
mod harness;

use std::collections::{HashMap, HashSet};

use drowse_core::crash::CrashLog;
use drowse_core::era::{Era, Pin, Revision};
use drowse_core::http::exchange::{Carried, Verdict};
use drowse_core::lifecycle::{self, Exit, PublicState};
use drowse_core::link::{Allowance, Cause, Key, OWN_INDEX, REISSUED, Ran, Slot};
use drowse_core::message::Own;
use drowse_core::method::Method;
use drowse_core::negotiate::{Limits, Question};
use drowse_core::relay::{List, Step as Relayed};
use drowse_core::server::{Action, Config, Kept, Operation, Outcome, Refusal, Server, Transport};
use drowse_core::snapshot::{self, Step as Gathered};
use drowse_core::time::{Duration, Instant, Reason};
use drowse_core::trace::{self, Input, MAX_BESIDE_FRAME, Output};
use proptest::prelude::*;

use harness::{Behaviour, Fate, World};

#[path = "properties/http.rs"]
mod http;
#[path = "properties/kept.rs"]
mod kept;

const SLOTS: usize = 5;

/// What a server says that it has.
const OFFERS: &str = r#""capabilities":{"tools":{"listChanged":true},"resources":{}}"#;

type Machine = Server<[Slot; SLOTS]>;

/// An input, or something that the adapter does.
#[derive(Clone, Debug)]
enum Step {
    Submit(Method, Option<u64>),
    AskFor(Era),
    Cancel(usize),
    Hold(usize),
    Release(usize),
    Wake,
    Defer,
    Undefer,
    Show(bool),
    SetIdle(Option<u64>),
    /// Everything that can be changed: the idle period, and all else from the second number.
    Keep(Option<u64>, u64),
    Close,
    Persisted,
    PersistFailed,
    Spawned,
    SpawnFailed,
    /// The kernel took a request that was given out.
    Sent(usize),
    SetWritable(bool),
    Frame(Frame),
    Oversize(usize, bool),
    Lost,
    Exited(Exit),
    TreeGone,
    Expired,
    Unauthorized,
    Session,
    Endpoint,
    /// What came of the exchange of a request.
    Verdict(usize, Verdict),
    /// What came of an exchange of drowse's own.
    OwnVerdict(Carried, Verdict),
    /// What came of the exchange of a question of the gathering's.
    PageVerdict(Verdict),
    /// Time passes, and the timer fires, perhaps late.
    Pass(u64),
}

/// What the server writes.
#[derive(Clone, Debug)]
enum Frame {
    /// The truth about itself, in answer to the latest question.
    Handshake,
    /// An answer to the open request of that number.
    Answer(usize, Body),
    /// An answer with a guessed id.
    Guess(u64, Body),
    /// An answer with a guessed id of drowse's own messages.
    OwnGuess(u64, Body),
    /// An answer to the latest question of the gathering's.
    Gathered(Body),
    /// An answer to what opened the stream of changes.
    Listened(Body),
    /// The stream of changes is open.
    Acknowledged,
    /// A list changed.
    Changed(List),
    Progress(usize),
    Request(Method),
    Notification,
    Batch,
    Garbage(Vec<u8>),
}

#[derive(Clone, Copy, Debug)]
enum Body {
    Result,
    Discovered(Option<Revision>),
    Initialized(Revision),
    /// A page of a list.
    Page {
        more: bool,
    },
    Error(i64),
    Unsupported(Revision),
    Faulty,
}

impl Body {
    fn text(self) -> String {
        match self {
            Self::Result => r#""result":{"content":[]}"#.to_owned(),
            Self::Discovered(Some(revision)) => {
                format!(r#""result":{{"supportedVersions":["{}"],{OFFERS}}}"#, revision.name())
            }
            Self::Discovered(None) => r#""result":{"supportedVersions":["2030-01-01"]}"#.to_owned(),
            Self::Initialized(revision) => {
                format!(r#""result":{{"protocolVersion":"{}",{OFFERS}}}"#, revision.name())
            }
            Self::Page { more } => {
                let cursor = if more { r#","nextCursor":"c""# } else { "" };
                format!(r#""result":{{"tools":[{{"name":"t"}}],"resources":[]{cursor}}}"#)
            }
            Self::Error(code) => format!(r#""error":{{"code":{code},"message":"no"}}"#),
            Self::Unsupported(revision) => format!(
                r#""error":{{"code":-32022,"message":"no","data":{{"supported":["{}"]}}}}"#,
                revision.name()
            ),
            Self::Faulty => r#""result":[],"error":7"#.to_owned(),
        }
    }
}

fn revision() -> impl Strategy<Value = Revision> {
    (0..Revision::ALL.len()).prop_map(|index| Revision::ALL[index])
}

fn method() -> impl Strategy<Value = Method> {
    let methods: Vec<Method> = Method::all().collect();
    prop_oneof![
        3 => Just(Method::ToolsCall),
        2 => Just(Method::ToolsList),
        1 => Just(Method::Info),
        1 => Just(Method::ServerPing),
        2 => (0..methods.len()).prop_map(move |index| methods[index]),
    ]
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        4 => Just(Body::Result),
        2 => any::<bool>().prop_map(|more| Body::Page { more }),
        1 => proptest::option::of(revision()).prop_map(Body::Discovered),
        1 => revision().prop_map(Body::Initialized),
        1 => prop_oneof![Just(-32601), Just(-32020), Just(-32022), any::<i64>()].prop_map(Body::Error),
        1 => revision().prop_map(Body::Unsupported),
        1 => Just(Body::Faulty),
    ]
}

fn frame() -> impl Strategy<Value = Frame> {
    prop_oneof![
        6 => Just(Frame::Handshake),
        6 => (0..SLOTS, body()).prop_map(|(which, body)| Frame::Answer(which, body)),
        2 => (prop_oneof![0..0x4_0000u64, any::<u64>()], body()).prop_map(|(id, body)| Frame::Guess(id, body)),
        2 => (0..16u64, body()).prop_map(|(number, body)| Frame::OwnGuess(number, body)),
        4 => body().prop_map(Frame::Gathered),
        1 => body().prop_map(Frame::Listened),
        3 => Just(Frame::Acknowledged),
        2 => prop_oneof![Just(List::Tools), Just(List::Resources)].prop_map(Frame::Changed),
        2 => (0..SLOTS).prop_map(Frame::Progress),
        1 => method().prop_map(Frame::Request),
        1 => Just(Frame::Notification),
        1 => Just(Frame::Batch),
        1 => proptest::collection::vec(any::<u8>(), 0..40).prop_map(Frame::Garbage),
    ]
}

fn exit() -> impl Strategy<Value = Exit> {
    prop_oneof![Just(Exit::Status(0)), any::<i32>().prop_map(Exit::Status), (1..32).prop_map(Exit::Signal)]
}

fn millis() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), 1..600u64, Just(2_000), 1_000..70_000u64, Just(60_000), Just(30 * 24 * 3_600_000),]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let ran = || prop_oneof![Just(Ran::No), Just(Ran::Unknown)];
    prop_oneof![
        3 => Just(Verdict::Done),
        2 => ran().prop_map(|ran| Verdict::Expired { ran }),
        1 => Just(Verdict::Unauthorized),
        2 => Just(Verdict::Unreachable),
        3 => Just(Verdict::Broken),
        2 => (prop_oneof![Just(400), Just(404), Just(405), 300..600u16], ran())
            .prop_map(|(status, ran)| Verdict::Refused { status, ran }),
        1 => Just(Verdict::Invalid),
        1 => Just(Verdict::NoStream),
    ]
}

fn carried() -> impl Strategy<Value = Carried> {
    prop_oneof![
        3 => Just(Carried::Question(Question::Discover)),
        3 => Just(Carried::Question(Question::Initialize)),
        3 => Just(Carried::Message),
        1 => Just(Carried::Request(Method::ServerPing)),
        1 => Just(Carried::Listening),
        1 => Just(Carried::OldStream),
        1 => Just(Carried::Goodbye),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (method(), proptest::option::of(0..20_000u64)).prop_map(|(method, limit)| Step::Submit(method, limit)),
        2 => any::<bool>().prop_map(|legacy| Step::AskFor(if legacy { Era::Legacy } else { Era::Modern })),
        2 => (0..SLOTS).prop_map(Step::Cancel),
        1 => (0..SLOTS).prop_map(Step::Hold),
        1 => (0..SLOTS).prop_map(Step::Release),
        2 => Just(Step::Wake),
        1 => Just(Step::Defer),
        1 => Just(Step::Undefer),
        1 => any::<bool>().prop_map(Step::Show),
        1 => proptest::option::of(0..100u64).prop_map(Step::SetIdle),
        1 => (proptest::option::of(0..100u64), any::<u64>()).prop_map(|(idle, rest)| Step::Keep(idle, rest)),
        1 => prop_oneof![3 => Just(Step::Wake), 1 => Just(Step::Close)],
        6 => Just(Step::Persisted),
        1 => Just(Step::PersistFailed),
        4 => Just(Step::Spawned),
        1 => Just(Step::SpawnFailed),
        4 => (0..SLOTS).prop_map(Step::Sent),
        1 => any::<bool>().prop_map(Step::SetWritable),
        16 => frame().prop_map(Step::Frame),
        1 => (0..SLOTS, any::<bool>()).prop_map(|(which, response)| Step::Oversize(which, response)),
        1 => Just(Step::Lost),
        2 => exit().prop_map(Step::Exited),
        3 => Just(Step::TreeGone),
        1 => Just(Step::Expired),
        1 => Just(Step::Unauthorized),
        1 => Just(Step::Session),
        1 => Just(Step::Endpoint),
        4 => (0..SLOTS, verdict()).prop_map(|(which, verdict)| Step::Verdict(which, verdict)),
        3 => (carried(), verdict()).prop_map(|(carried, verdict)| Step::OwnVerdict(carried, verdict)),
        2 => verdict().prop_map(Step::PageVerdict),
        6 => millis().prop_map(Step::Pass),
    ]
}

/// Everything that can be changed: the idle period in seconds, and all else from a number.
fn kept(idle: Option<u64>, rest: u64) -> Kept {
    let bits = |from: u32| Duration::from_secs(1 + (rest >> from & 0xf));
    let period = |from: u32| Some(bits(from)).filter(|period| *period != Duration::from_secs(0x10));
    Kept {
        idle: idle.map(Duration::from_secs),
        input_grace: bits(0),
        terminate_grace: bits(4),
        auto_restart: rest >> 8 & 1 == 1,
        fail_on_expiry: rest >> 9 & 1 == 1,
        connect: bits(12),
        allowance: Allowance { quiet: bits(16), total: bits(20) },
        keepalive: period(24),
        session_keepalive: period(28),
    }
}

fn config() -> impl Strategy<Value = Config> {
    let lifecycle = (
        prop_oneof![1 => Just(None), 4 => (0..100u64).prop_map(Some)],
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(idle, auto_restart, fail_on_expiry, resident, listens)| lifecycle::Config {
            idle: idle.map(Duration::from_secs),
            auto_restart,
            fail_on_expiry,
            resident,
            listens,
            ..lifecycle::Config::default()
        });
    let pin = prop_oneof![
        6 => Just(Pin::None),
        1 => Just(Pin::Era(Era::Legacy)),
        1 => Just(Pin::Era(Era::Modern)),
        1 => revision().prop_map(Pin::Revision),
    ];
    let remembered = prop_oneof![Just(None), Just(Some(Era::Legacy)), Just(Some(Era::Modern))];
    let keepalive = proptest::option::of(0..40u64);
    let transport = prop_oneof![Just(Transport::Stream), Just(Transport::Http)];
    (lifecycle, pin, remembered, keepalive, transport, any::<bool>()).prop_map(
        |(lifecycle, pin, remembered, keepalive, transport, gathers)| Config {
            pin,
            remembered,
            limits: match transport {
                Transport::Stream => Limits::default(),
                Transport::Http => Limits { hedge: None, ..Limits::default() },
            },
            lifecycle,
            transport,
            keepalive: keepalive.map(Duration::from_secs),
            session_keepalive: Some(Duration::from_secs(30)),
            allowance: Allowance { quiet: Duration::from_secs(10), total: Duration::from_secs(30) },
            snapshot: gathers.then(snapshot::Limits::default),
        },
    )
}

/// What the adapter knows of a request.
#[derive(Clone, Debug)]
struct Open {
    key: Key,
    method: Method,
    /// It was given out and not taken by the kernel so far.
    writing: bool,
    /// How often the kernel took it, save those of which it is proved that nothing came.
    sent: usize,
    /// Its latest id on the wire.
    wire: u64,
}

/// An adapter that keeps books, and may be made to lie.
struct Adapter {
    config: Config,
    machine: Machine,
    now: Instant,
    open: Vec<Option<Open>>,
    /// Every wire id that was ever given to a request.
    used: HashSet<u64>,
    /// The latest question of the handshake.
    question: Option<Own>,
    /// The latest question of the gathering's, and what it was.
    page: Option<(u64, Method)>,
    /// What opened the stream of changes of this generation.
    stream: Option<u64>,
    /// What it may at the earliest be counted from that the server falls asleep.
    quiet_since: Instant,
    deferrals: usize,
    /// Operations that came back.
    concluded: u64,
    /// Everything that came out, for comparison.
    log: Vec<String>,
    /// Everything that went in, as lines, and what each gave back.
    trace: Vec<u8>,
    outputs: Vec<Output>,
    /// Acknowledges by itself, as an adapter should.
    honest: bool,
}

impl Adapter {
    fn new(config: Config, honest: bool) -> Self {
        Self {
            config,
            machine: Server::new(config, [Slot::EMPTY; SLOTS], 3, CrashLog::new()),
            now: Instant::from_millis(5_000_000),
            open: vec![None; SLOTS],
            used: HashSet::new(),
            question: None,
            page: None,
            stream: None,
            quiet_since: Instant::ZERO,
            deferrals: 0,
            concluded: 0,
            log: Vec::new(),
            trace: Vec::new(),
            outputs: Vec::new(),
            honest,
        }
    }

    fn key(&self, which: usize) -> Option<Key> {
        self.open[which].as_ref().map(|open| open.key)
    }

    /// Hands an input to the machine, and writes it down.
    fn give(&mut self, input: Input<'_>) -> Output {
        let mut buffer = vec![0; MAX_BESIDE_FRAME + 256];
        let recorded = match input {
            // A machine may be given what no framing gives it, but such a frame is no line.
            Input::Frame(frame) if frame.contains(&b'\n') => Input::Frame(b"\x01"),
            input => input,
        };
        self.trace.extend_from_slice(trace::write(self.now, &recorded, &mut buffer).expect("a line"));
        let output = self.machine.replay(self.now, recorded);
        self.outputs.push(output);
        output
    }

    fn take(&mut self, step: &Step) {
        let now = self.now;
        match step {
            Step::Submit(method, limit) => self.submit(*method, *limit),
            Step::AskFor(era) => {
                self.give(Input::AskFor(*era));
            }
            Step::Cancel(which) => {
                if let Some(key) = self.key(*which) {
                    self.give(Input::Cancel(key));
                }
            }
            Step::Hold(which) => {
                if let Some(key) = self.key(*which) {
                    self.give(Input::Hold(key));
                }
            }
            Step::Release(which) => {
                if let Some(key) = self.key(*which) {
                    self.give(Input::Release(key));
                }
            }
            Step::Wake => {
                self.give(Input::Wake);
                self.quiet_since = now;
            }
            Step::Defer => {
                self.give(Input::Defer);
                self.deferrals += 1;
            }
            Step::Undefer => {
                self.give(Input::Undefer);
                if self.deferrals == 1 {
                    self.quiet_since = now;
                }
                self.deferrals = self.deferrals.saturating_sub(1);
            }
            Step::Show(shown) => {
                self.give(Input::Show(*shown));
                if *shown {
                    self.quiet_since = now;
                }
            }
            Step::SetIdle(idle) => {
                self.give(Input::SetIdle(idle.map(Duration::from_secs)));
            }
            Step::Keep(idle, rest) => {
                self.give(Input::Keep(kept(*idle, *rest)));
            }
            Step::Close => {
                self.give(Input::Close);
            }
            Step::Persisted => {
                self.give(Input::Persisted);
            }
            Step::PersistFailed => {
                self.give(Input::PersistFailed);
            }
            Step::Spawned => {
                self.give(Input::Spawned);
            }
            Step::SpawnFailed => {
                self.give(Input::SpawnFailed);
            }
            Step::Sent(which) => self.sent(*which),
            Step::SetWritable(writable) => {
                self.give(Input::SetWritable(*writable));
            }
            Step::Frame(frame) => self.frame(frame),
            Step::Oversize(which, response) => {
                let id = self.key(*which).map(|key| key.wire().to_string());
                let id = id.as_ref().map(String::as_bytes);
                self.give(Input::Oversize { id, is_response: *response });
            }
            Step::Lost => {
                self.give(Input::Lost);
            }
            Step::Exited(exit) => {
                self.give(Input::Exited(*exit));
            }
            Step::TreeGone => {
                self.give(Input::TreeGone);
            }
            Step::Expired => {
                self.give(Input::Expired);
            }
            Step::Unauthorized => {
                self.give(Input::Unauthorized);
            }
            Step::Session => {
                self.give(Input::Session);
            }
            Step::Endpoint => {
                self.give(Input::Endpoint);
            }
            Step::Verdict(which, verdict) => {
                let Some(open) = self.open[*which].as_mut() else { return };
                let (wire, carried) = (open.wire, Carried::Request(open.method));
                if self.machine.awaits(wire) {
                    match verdict {
                        Verdict::Done | Verdict::NoStream => {}
                        Verdict::Unauthorized
                        | Verdict::Unreachable
                        | Verdict::Expired { ran: Ran::No }
                        | Verdict::Refused { ran: Ran::No, .. } => {
                            open.writing = false;
                            open.sent = open.sent.saturating_sub(1);
                        }
                        _ => open.writing = false,
                    }
                }
                self.give(Input::Verdict { carried, wire, verdict: *verdict });
            }
            Step::OwnVerdict(carried, verdict) => {
                let wire = match self.question {
                    Some(Own::Discover { id, .. } | Own::Initialize { id, .. } | Own::Ping { id }) => id,
                    _ => 0,
                };
                self.give(Input::Verdict { carried: *carried, wire, verdict: *verdict });
            }
            Step::PageVerdict(verdict) => {
                let Some((wire, method)) = self.page else { return };
                self.give(Input::Verdict { carried: Carried::Request(method), wire, verdict: *verdict });
            }
            Step::Pass(millis) => {
                self.now = now.after(Duration::from_millis(*millis));
                self.timeout();
            }
        }
        if self.machine.revision().is_none() {
            // The link is lost: what the kernel has not taken by now is not written any more.
            for open in self.open.iter_mut().flatten() {
                open.writing = false;
            }
        }
    }

    /// An input, all that follows from it, and the timeouts that are due.
    fn step(&mut self, step: &Step) {
        let before = self.machine.state();
        self.take(step);
        self.drain();
        for round in 0.. {
            assert!(round < 10, "timeouts never end: {:?}", self.machine.poll_timeout());
            if self.machine.poll_timeout().is_none_or(|(at, _)| at > self.now) {
                break;
            }
            self.timeout();
            self.drain();
        }
        if self.machine.state() == PublicState::Idle && before != PublicState::Idle {
            let by_itself = matches!(
                step,
                Step::Exited(Exit::Status(0))
                    | Step::Expired
                    | Step::TreeGone
                    | Step::Verdict(..)
                    | Step::OwnVerdict(..)
                    | Step::PageVerdict(..)
            );
            assert!(by_itself || self.may_sleep(), "{step:?} made it idle");
        }
        self.log.push(format!("{:?}", self.machine.state()));
        self.check();
    }

    /// Nothing is in flight, and a full period has passed since something was.
    fn may_sleep(&self) -> bool {
        let period = self.machine.lifecycle().config().idle.filter(|period| !period.is_zero());
        self.open.iter().all(Option::is_none)
            && self.deferrals == 0
            && period.is_some_and(|period| self.now >= self.quiet_since.after(period))
    }

    fn timeout(&mut self) {
        self.give(Input::Timeout);
        let next = self.machine.poll_timeout();
        assert!(next.is_none_or(|(at, _)| at > self.now), "{next:?} is not in the future");
    }

    fn submit(&mut self, method: Method, limit: Option<u64>) {
        let allowance = limit.map(|millis| {
            let quiet = Duration::from_millis(millis);
            Allowance { quiet, total: quiet.saturating_mul(3) }
        });
        // For whom it is goes with it, be it refused.
        let nobody = |text: String| {
            text.replace("asker: Some(Legacy)", "asker: None").replace("asker: Some(Modern)", "asker: None")
        };
        let before = nobody(format!("{:?}", self.machine));
        match self.give(Input::Submit(Operation { method, allowance })) {
            Output::Submitted(Ok(key)) => {
                assert!(self.used.insert(key.wire()), "{key:?} was used before");
                assert_eq!(Key::from_wire(key.wire()), Some(key));
                let place = &mut self.open[key.index()];
                assert!(place.is_none(), "{key:?} is given out while {place:?} is under way");
                *place = Some(Open { key, method, writing: false, sent: 0, wire: key.wire() });
            }
            Output::Submitted(Err(refusal)) => {
                assert_eq!(format!("{:?}", self.machine), before, "a refusal changes nothing");
                if refusal == Refusal::Full {
                    assert!(self.open.iter().all(Option::is_some), "it is not full");
                }
                self.log.push(format!("{refusal:?}"));
            }
            other => panic!("{other:?}"),
        }
    }

    fn sent(&mut self, which: usize) {
        if let Some(open) = self.open[which].as_mut().filter(|open| open.writing || !self.honest) {
            if open.writing {
                open.sent += 1;
            }
            open.writing = false;
            let key = open.key;
            self.give(Input::Sent(key));
        }
    }

    fn frame(&mut self, frame: &Frame) {
        let id = |id: String, body: Body| format!(r#"{{"jsonrpc":"2.0","id":{id},{}}}"#, body.text());
        let bytes = match frame {
            Frame::Handshake => match self.question {
                Some(Own::Discover { id: wire, revision }) => {
                    id(wire.to_string(), Body::Discovered(Some(revision)))
                }
                Some(Own::Initialize { id: wire, revision }) => {
                    id(wire.to_string(), Body::Initialized(revision))
                }
                _ => return,
            },
            Frame::Answer(which, body) => match self.key(*which) {
                Some(_) => {
                    let open = self.open[*which].as_ref().expect("it is open");
                    id(open.wire.to_string(), *body)
                }
                None => return,
            },
            Frame::Guess(wire, body) => id(wire.to_string(), *body),
            Frame::OwnGuess(number, body) => id((number << 16 | u64::from(OWN_INDEX)).to_string(), *body),
            Frame::Gathered(body) => match self.page {
                Some((wire, _)) => id(wire.to_string(), *body),
                None => return,
            },
            Frame::Listened(body) => match self.stream {
                Some(wire) => id(wire.to_string(), *body),
                None => return,
            },
            Frame::Acknowledged => {
                let Some(wire) = self.stream else { return };
                format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{wire}}},"notifications":{{"toolsListChanged":true}}}}}}"#
                )
            }
            Frame::Changed(list) => {
                format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, list.notification())
            }
            Frame::Progress(which) => {
                let token = self.key(*which).map_or(7, Key::wire);
                format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token}}}}}"#
                )
            }
            Frame::Request(method) => {
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, method.name())
            }
            Frame::Notification => {
                r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#.to_owned()
            }
            Frame::Batch => r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},[]]"#.to_owned(),
            Frame::Garbage(bytes) => {
                let output = self.give(Input::Frame(bytes));
                self.log.push(format!("{output:?}"));
                return;
            }
        };
        let Output::Heard(outcome) = self.give(Input::Frame(bytes.as_bytes())) else {
            panic!("a frame was given")
        };
        self.log.push(format!("{outcome:?}"));
        match outcome {
            Outcome::Deliver { key, method, .. } => {
                let open = self.conclude(key);
                assert_eq!(open.method, method);
                assert!(open.writing || open.sent > 0, "an answer to what was never given out");
            }
            Outcome::Progress { key, .. } => assert_eq!(self.key(key.index()), Some(key)),
            _ => {}
        }
    }

    fn drain(&mut self) {
        // Per slot a failure and a cancellation or a request, and a few effects.
        for _ in 0..4 * SLOTS + 20 {
            let Output::Action(Some(action)) = self.give(Input::Poll) else { return };
            self.log.push(format!("{action:?}"));
            match action {
                Action::Send { key, wire, method, .. } => {
                    let honest = self.honest;
                    let open = self.open[key.index()].as_mut().expect("it is under way");
                    assert_eq!((open.key, open.method), (key, method));
                    assert!(!open.writing, "it is written already");
                    let limit = usize::from(method.only_reads());
                    assert!(open.sent <= limit, "{method:?} was sent {} times before", open.sent);
                    open.writing = true;
                    open.wire = wire;
                    if honest {
                        self.sent(key.index());
                    }
                }
                Action::SendOwn(own) => match own {
                    Own::Discover { id, .. } | Own::Initialize { id, .. } | Own::Ping { id } => {
                        if let Some(key) = Key::from_wire(id & !REISSUED) {
                            let open = self.open[key.index()].as_mut().expect("it is under way");
                            assert_eq!((open.key, open.method), (key, Method::ServerPing));
                            assert!(open.sent <= 1);
                            open.sent += 1;
                            open.wire = id;
                        } else {
                            self.question = Some(own);
                        }
                    }
                    _ => {}
                },
                Action::AnswerLevel { key } => {
                    assert_eq!(self.conclude(key).method, Method::SetLevel);
                }
                Action::AnswerInfo { key } => {
                    assert_eq!(self.conclude(key).method, Method::Info);
                }
                Action::Fail { key, failure } => {
                    let open = self.conclude(key);
                    if failure.ran == Ran::No {
                        assert_eq!(open.sent, 0, "{failure:?} of what the kernel took");
                    }
                    if failure.cause == Cause::ServerLost {
                        assert!(open.sent > 0, "what was only queued survives a lost link");
                    }
                }
                Action::Snapshot(Gathered::Ask { wire, listing, .. }) => {
                    assert!(self.machine.lifecycle().is_ready() && self.config.snapshot.is_some());
                    self.page = Some((wire, listing.method()));
                }
                Action::Relay(Relayed::Listen { wire, .. }) => {
                    assert_eq!(self.machine.revision().map(Revision::era), Some(Era::Modern));
                    assert_eq!(self.config.transport, Transport::Stream);
                    assert!(self.config.snapshot.is_some());
                    if self.honest {
                        assert_eq!(self.stream, None, "a server is asked once");
                    }
                    self.stream = Some(wire);
                }
                Action::Persist(_) if self.honest => {
                    self.give(Input::Persisted);
                }
                Action::Spawn { .. } if self.honest => {
                    self.question = None;
                    self.stream = None;
                    self.give(Input::Spawned);
                }
                Action::Kill if self.honest => {
                    self.give(Input::TreeGone);
                }
                _ => {}
            }
        }
        panic!("poll_action never ends: {:?}", self.log.iter().rev().take(10).collect::<Vec<_>>());
    }

    fn conclude(&mut self, key: Key) -> Open {
        let open = self.open[key.index()].take().expect("a key comes back once");
        assert_eq!(open.key, key);
        assert!(!self.machine.is_live(key));
        self.concluded += 1;
        // The time of the last input, which may lie before now.
        self.quiet_since = self.quiet_since.max(self.machine.now());
        open
    }

    fn check(&self) {
        let open = self.open.iter().flatten().count();
        assert_eq!(self.machine.lifecycle().in_flight() as usize, open);
        let counts = self.machine.tally().counts();
        assert_eq!(counts.calls, self.concluded, "each operation is counted once");
        assert!(counts.errors() <= counts.calls && self.machine.tally().latency().count() <= counts.calls);
        for (index, place) in self.open.iter().enumerate() {
            assert_eq!(self.machine.key_at(index), place.as_ref().map(|open| open.key));
        }
        if let Some(at) = self.machine.timetable().get(Reason::Idle) {
            assert_eq!((open, self.deferrals), (0, 0), "no idle deadline while something is in flight");
            let period = self.machine.lifecycle().config().idle.expect("there is a period");
            assert!(
                at >= self.quiet_since.after(period),
                "{at:?} is less than {period:?} after the last operation"
            );
        }
    }

    /// The session is closed, whatever happened before: every key comes back.
    fn finish(&mut self) {
        self.honest = true;
        for input in [Input::Close, Input::Persisted, Input::TreeGone, Input::Persisted] {
            self.give(input);
            self.drain();
        }
        assert!(self.open.iter().all(Option::is_none), "keys were lost: {:?}", self.open);
        assert_eq!(self.machine.state(), PublicState::Closed);
        assert_eq!(self.machine.lifecycle().in_flight(), 0);
        assert_eq!(self.machine.poll_timeout(), None);
    }
}

/// So many cases, or more where `PROPTEST_CASES` says so.
fn at_least(cases: u32) -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    ProptestConfig { cases: config.cases.max(cases), ..config }
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(step(), 0..most)
}

proptest! {
    #![proptest_config(at_least(1_500))]

    /// Inputs in any order, acknowledgements of what never happened, answers nobody asked for, jumps in time.
    #[test]
    fn no_sequence_of_inputs_breaks_a_rule(
        config in config(),
        honest in any::<bool>(),
        steps in steps(80),
    ) {
        let mut adapter = Adapter::new(config, honest);
        for step in &steps {
            adapter.step(step);
        }
        adapter.finish();
    }

    /// A second machine gets the same inputs and many more timeouts: it does the same.
    #[test]
    fn early_and_repeated_timeouts_change_nothing(
        config in config(),
        honest in any::<bool>(),
        steps in steps(60),
        early in proptest::collection::vec(0..3usize, 60),
    ) {
        let mut one = Adapter::new(config, honest);
        let mut other = Adapter::new(config, honest);
        for (step, early) in steps.iter().zip(early) {
            one.step(step);
            if let Step::Pass(millis) = step {
                // On the way there, as long as nothing is due.
                let end = other.now.after(Duration::from_millis(*millis));
                let due = other.machine.poll_timeout().map_or(end, |(at, _)| at.min(end));
                let way = due.since(other.now).as_micros() as u64;
                for part in 1..=early as u64 {
                    let at = other.now.after(Duration::from_micros(way.saturating_sub(1) * part / 3));
                    other.machine.handle_timeout(at);
                    other.drain();
                }
            }
            other.step(step);
            for _ in 0..early {
                other.machine.handle_timeout(other.now);
                other.drain();
            }
            prop_assert_eq!(&one.log, &other.log);
        }
    }

    /// A recorded run, replayed from its text, is the same run.
    #[test]
    fn a_replayed_trace_gives_the_same_actions_and_states(
        config in config(),
        honest in any::<bool>(),
        steps in steps(60),
    ) {
        let mut adapter = Adapter::new(config, honest);
        for step in &steps {
            adapter.step(step);
        }
        let mut again = Adapter::new(config, honest).machine;
        let mut outputs = adapter.outputs.iter();
        for line in adapter.trace.split_inclusive(|byte| *byte == b'\n') {
            let (now, input) = trace::parse(line).expect("it was written by us");
            prop_assert_eq!(Some(&again.replay(now, input)), outputs.next(), "{:?}", input);
        }
        prop_assert_eq!(outputs.next(), None);
        prop_assert_eq!(format!("{again:?}"), format!("{:?}", adapter.machine));
    }

    /// An adapter that does not take the actions after each input loses no key either.
    #[test]
    fn undrained_inputs_do_no_harm(config in config(), steps in steps(80), drained in any::<u64>()) {
        let mut adapter = Adapter::new(config, false);
        for (index, step) in steps.iter().enumerate() {
            adapter.take(step);
            if drained >> (index % 64) & 1 == 1 {
                adapter.drain();
            }
        }
        adapter.drain();
        adapter.finish();
    }
}

/// What happens to a server in a simulated host that is honest.
#[derive(Clone, Debug)]
enum Turn {
    Call(Method),
    Cancel(usize),
    Answer,
    Pass(u64),
    Crash(Exit),
    Vanish,
    Wake,
    Behave { latency: Option<u64>, mute: bool, stubborn: bool, dies_on_probe: bool, leaves: bool },
}

fn turn() -> impl Strategy<Value = Turn> {
    let behave = (proptest::option::weighted(0.7, 0..3_000u64), any::<[bool; 4]>()).prop_map(
        |(latency, [mute, stubborn, dies_on_probe, leaves])| Turn::Behave {
            latency,
            mute: mute && stubborn,
            stubborn,
            dies_on_probe,
            leaves,
        },
    );
    prop_oneof![
        8 => prop_oneof![Just(Method::ToolsCall), Just(Method::ResourcesRead), Just(Method::ServerPing)]
            .prop_map(Turn::Call),
        1 => (0..20usize).prop_map(Turn::Cancel),
        4 => Just(Turn::Answer),
        8 => prop_oneof![0..50u64, 0..5_000u64, Just(10_000u64), 0..70_000u64].prop_map(Turn::Pass),
        2 => exit().prop_map(Turn::Crash),
        1 => Just(Turn::Vanish),
        1 => Just(Turn::Wake),
        2 => behave,
    ]
}

proptest! {
    #![proptest_config(at_least(400))]

    /// Real messages to a simulated process that crashes, hangs and leaves: every call has one end, and what may run
    /// code runs at most once.
    #[test]
    fn every_call_ends_once_and_runs_at_most_once(
        legacy in any::<bool>(),
        auto_restart in any::<bool>(),
        gathers in any::<bool>(),
        turns in proptest::collection::vec(turn(), 0..60),
    ) {
        let era = if legacy { Era::Legacy } else { Era::Modern };
        let lifecycle = lifecycle::Config {
            idle: Some(Duration::from_secs(10)),
            auto_restart,
            resident: true,
            ..lifecycle::Config::default()
        };
        let snapshot = gathers.then(snapshot::Limits::default);
        let mut world = World::new(Config { lifecycle, snapshot, ..Config::default() }, era);
        let mut methods = HashMap::new();
        for turn in turns {
            match turn {
                Turn::Call(method) => {
                    if let Ok(call) = world.try_call(method.name()) {
                        methods.insert(call, method);
                    }
                }
                Turn::Cancel(call) if call < methods.len() => world.cancel(call),
                Turn::Answer if world.holds() => world.answer(),
                Turn::Pass(millis) => world.pass(Duration::from_millis(millis)),
                Turn::Crash(exit) if world.has_process() => world.exits(exit),
                Turn::Vanish if world.has_process() => world.vanishes(),
                Turn::Wake => world.act(|server, now| server.wake(now)),
                Turn::Behave { latency, mute, stubborn, dies_on_probe, leaves } => {
                    world.behaviour = Behaviour {
                        latency: latency.map(Duration::from_millis),
                        mute,
                        ignores_eof: stubborn,
                        ignores_terminate: stubborn,
                        dies_on_probe: dies_on_probe && legacy,
                        leaves_after: leaves.then(|| Duration::from_millis(500)),
                        ..Behaviour::of(era)
                    };
                }
                Turn::Cancel(_) | Turn::Answer | Turn::Crash(_) | Turn::Vanish => {}
            }
        }
        world.behaviour = Behaviour::of(era);
        world.seconds(8_000);
        for (call, method) in &methods {
            prop_assert_ne!(world.fate(*call), &Fate::Open);
            let runs = world.executed.iter().filter(|run| run.ends_with(&format!(" {call}"))).count();
            prop_assert!(runs <= 1 + usize::from(method.only_reads()), "{:?} ran {} times", method, runs);
            if let Fate::Failed(cause, Ran::No) = world.fate(*call) {
                prop_assert_eq!(runs, 0, "{:?} says that it did not run", cause);
            }
        }
        prop_assert!(!world.has_process(), "it is not asleep: {}", world.state());
        // And whatever happened: the next command works.
        world.use_it();
        let before = world.gathered;
        world.seconds(5);
        prop_assert_eq!(world.gathered > before, gathers);
    }
}
