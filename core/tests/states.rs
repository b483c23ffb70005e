//! The table of states is exactly the machine: every transition that is seen has a row, and every row is seen.
//!
//! Machines of every configuration that matters are driven at random, over both transports, on a virtual clock, by all
//! inputs that an adapter hands in, together with what callers do to a session whose machine is gone. The seed is fixed, so
//! that a run is like any other.

#![expect(clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use std::collections::{BTreeMap, BTreeSet};
use std::{env, fs, path::Path};

use drowse_core::crash::CrashLog;
use drowse_core::http::exchange::{Carried, Verdict};
use drowse_core::lifecycle::table::{self, Event, Markdown};
use drowse_core::lifecycle::{self, Exit, Lost, PublicState};
use drowse_core::link::{Allowance, Key, Ran, Slot};
use drowse_core::message::Own;
use drowse_core::method::Method;
use drowse_core::negotiate::{Limits, Question};
use drowse_core::server::{Action, Config, Operation, Outcome, Server, Transport};
use drowse_core::time::{Duration, Instant, Reason};

const SLOTS: usize = 3;
type Machine = Server<[Slot; SLOTS]>;
type Step = (PublicState, Event, PublicState);

/// Small, good enough to choose inputs, and the same everywhere.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// What a session is configured to, and how it behaves.
#[derive(Clone, Copy, Debug)]
struct Kind {
    transport: Transport,
    idle: bool,
    auto_restart: bool,
    fail_on_expiry: bool,
    resident: bool,
}

impl Kind {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for bits in 0..32 {
            let bit = |place: u32| bits >> place & 1 == 1;
            all.push(Self {
                transport: if bit(0) { Transport::Http } else { Transport::Stream },
                idle: bit(1),
                auto_restart: bit(2),
                fail_on_expiry: bit(3),
                resident: bit(4),
            });
        }
        all
    }

    fn config(self) -> Config {
        let http = self.transport == Transport::Http;
        Config {
            transport: self.transport,
            limits: Limits { hedge: Limits::default().hedge.filter(|_| !http), ..Limits::default() },
            keepalive: Some(Duration::from_secs(20)),
            session_keepalive: Some(Duration::from_secs(20)),
            allowance: Allowance { quiet: Duration::from_secs(30), total: Duration::from_secs(60) },
            lifecycle: lifecycle::Config {
                idle: self.idle.then(|| Duration::from_secs(50)),
                auto_restart: self.auto_restart,
                fail_on_expiry: self.fail_on_expiry,
                resident: self.resident,
                ..lifecycle::Config::default()
            },
            ..Config::default()
        }
    }
}

/// A session: its machine, or the record that is left of it, and an adapter that keeps to its contract.
struct Session {
    kind: Kind,
    machine: Machine,
    now: Instant,
    /// The machine is gone; this is what the record says.
    record: Option<PublicState>,
    open: Vec<Option<(Key, u64)>>,
    question: Option<Own>,
    /// A process may exist.
    process: bool,
    leaving: bool,
    deferrals: usize,
    /// A disk that refuses, a program that is not there: for the next attempt.
    disk_full: bool,
    missing: bool,
    seen: BTreeMap<Step, u32>,
}

impl Session {
    fn new(kind: Kind) -> Self {
        let machine = Server::new(kind.config(), [Slot::EMPTY; SLOTS], 0, CrashLog::new());
        Self {
            kind,
            machine,
            now: Instant::from_millis(9_000_000),
            record: None,
            open: vec![None; SLOTS],
            question: None,
            process: false,
            leaving: false,
            deferrals: 0,
            disk_full: false,
            missing: false,
            seen: BTreeMap::new(),
        }
    }

    /// What a user is told.
    fn state(&self) -> PublicState {
        self.record.unwrap_or_else(|| self.machine.state())
    }

    /// An input, what follows from it, and the transitions that they made.
    fn on(&mut self, event: impl Fn(&Self, PublicState) -> Event, input: impl FnOnce(&mut Self)) {
        let from = self.state();
        input(self);
        self.saw(from, &event);
        self.drain(event);
        let timeout = self.machine.poll_timeout().filter(|_| self.record.is_none());
        if let (Some((_, reason)), PublicState::Idle) = (timeout, self.state()) {
            let ends = [Reason::InputClosed, Reason::Terminated, Reason::Killed, Reason::Request];
            assert!(ends.contains(&reason), "{reason:?} is awaited in sleep");
        }
    }

    /// The two properties of a sleeping session are checked wherever a transition is noted.
    fn saw(&mut self, from: PublicState, event: impl Fn(&Self, PublicState) -> Event) {
        let to = self.state();
        if from == to {
            return;
        }
        let event = event(self, to);
        if from == PublicState::Idle {
            let by_a_user = matches!(event, Event::Use | Event::Restart | Event::Close);
            assert!(by_a_user, "{event:?} took it from idle to {to} ({:?})", self.kind);
            assert_ne!(to, PublicState::Crashed);
        }
        *self.seen.entry((from, event, to)).or_default() += 1;
    }

    /// A new machine takes the place of the one that is gone, as a new bridge does.
    fn begin_anew(&mut self, forgives: bool) {
        let state = self.state();
        let generation = self.machine.lifecycle().generation();
        let crashes = match forgives {
            true => CrashLog::new(),
            false => self.machine.lifecycle().crashes().clone(),
        };
        self.machine = Server::new(self.kind.config(), [Slot::EMPTY; SLOTS], generation, crashes);
        if state == PublicState::Expired && !forgives {
            self.machine = self.machine.clone().after_loss(Lost::Expired);
        }
        self.record = None;
        self.open = vec![None; SLOTS];
        (self.question, self.process, self.leaving, self.deferrals) = (None, false, false, 0);
        let now = self.now;
        self.machine.wake(now);
    }

    /// Whether a caller starts a session whose machine is gone.
    fn may_begin(&self) -> bool {
        match self.state() {
            PublicState::Unauthorized | PublicState::Closed => false,
            PublicState::Expired if self.kind.fail_on_expiry => false,
            _ => self.machine.lifecycle().crashes().admits(self.now),
        }
    }

    fn used(&mut self, input: impl FnOnce(&mut Self)) {
        if self.record.is_some() {
            if self.may_begin() {
                self.on(|_, _| Event::Use, |it| it.begin_anew(false));
            }
        } else {
            self.on(|_, _| Event::Use, input);
        }
    }

    fn drain(&mut self, event: impl Fn(&Self, PublicState) -> Event) {
        if self.record.is_some() {
            return;
        }
        for _ in 0..200 {
            let before = self.state();
            let action = self.machine.poll_action();
            self.saw(before, &event);
            let Some(action) = action else { return };
            let (now, from) = (self.now, self.state());
            match action {
                Action::Persist(_) if core::mem::take(&mut self.disk_full) => {
                    self.machine.handle_persist_failed(now);
                }
                Action::Persist(_) => self.machine.handle_persisted(now),
                Action::Spawn { .. } if core::mem::take(&mut self.missing) => {
                    self.machine.handle_spawn_failed(now);
                }
                Action::Spawn { .. } => {
                    (self.process, self.question) = (true, None);
                    self.machine.handle_spawned(now);
                }
                Action::SendOwn(own @ (Own::Discover { .. } | Own::Initialize { .. } | Own::Ping { .. })) => {
                    self.question = Some(own);
                }
                Action::Send { key, wire, .. } => {
                    self.open[key.index()] = Some((key, wire));
                    self.machine.handle_sent(key);
                }
                Action::AnswerInfo { key } | Action::AnswerLevel { key } | Action::Fail { key, .. } => {
                    self.open[key.index()] = None;
                }
                Action::Kill if !self.process => self.machine.handle_tree_gone(now),
                Action::Retire => {
                    self.record = Some(self.machine.state());
                    return;
                }
                _ => {}
            }
            self.saw(from, |_, _| Event::StartFailed);
        }
        panic!("poll_action never ends");
    }

    /// The server ends by itself, or was told to.
    fn exits(&mut self, exit: Exit) {
        if !self.process {
            return;
        }
        let starting = self.machine.lifecycle().is_negotiating();
        let event = move |_: &Self, to| match to {
            _ if starting => Event::StartFailed,
            PublicState::Idle => Event::Left,
            _ => Event::Exited,
        };
        self.on(event, |it| it.machine.handle_exited(it.now, exit));
        self.gone();
    }

    fn loses(&mut self) {
        if self.process && self.kind.transport == Transport::Stream {
            let starting = self.machine.lifecycle().is_negotiating();
            let event = if starting { Event::StartFailed } else { Event::Exited };
            self.on(move |_, _| event, |it| it.machine.handle_lost(it.now));
        }
    }

    fn gone(&mut self) {
        if self.process && self.machine.is_stopping() {
            self.process = false;
            // What waited is what uses it; a machine that never heard how it ended has to guess.
            let event = |_: &Self, to| if to == PublicState::Crashed { Event::Exited } else { Event::Use };
            self.on(event, |it| it.machine.handle_tree_gone(it.now));
        }
    }

    fn time(&mut self, chance: &mut Chance) {
        let Some((at, _)) = self.machine.poll_timeout().filter(|_| self.record.is_none()) else {
            self.now = self.now.after(Duration::from_secs(chance.below(40) as u64));
            return;
        };
        let late = if chance.one_in(3) { chance.below(60) as u64 } else { 0 };
        self.now = self.now.max(at.after(Duration::from_secs(late)));
        let (connecting, leaving) = (self.machine.lifecycle().is_negotiating(), self.leaving);
        let event = move |_: &Self, to| match to {
            PublicState::Idle if leaving => Event::Replaced,
            PublicState::Idle => Event::Deadline,
            PublicState::Reconnecting => Event::Backoff,
            PublicState::Disconnected => Event::Silent,
            PublicState::Crashed if connecting => Event::StartFailed,
            // It paused the negotiation for a better answer.
            PublicState::Live | PublicState::Suspended if connecting => Event::Ready,
            to => panic!("time leads to {to}"),
        };
        self.on(event, |it| it.machine.handle_timeout(it.now));
    }

    /// The server answers the handshake, and well or not.
    fn answers_handshake(&mut self, well: bool) {
        let (id, body) = match self.question {
            Some(Own::Discover { id, revision }) if well => (
                id,
                format!(r#""result":{{"supportedVersions":["{}"],"capabilities":{{}}}}"#, revision.name()),
            ),
            Some(Own::Initialize { id, revision }) if well => {
                (id, format!(r#""result":{{"protocolVersion":"{}","capabilities":{{}}}}"#, revision.name()))
            }
            Some(Own::Ping { id }) => (id, r#""result":{}"#.to_owned()),
            Some(Own::Discover { id, .. } | Own::Initialize { id, .. }) => {
                (id, r#""error":{"code":-32603,"message":"no"}"#.to_owned())
            }
            _ => return,
        };
        self.writes(&format!(r#"{{"jsonrpc":"2.0","id":{id},{body}}}"#));
        if self.kind.transport == Transport::Http {
            // What `initialize` leads to is confirmed.
            self.verdict(Carried::Message, 0, Verdict::Done);
        }
    }

    fn answers(&mut self, which: usize) {
        let Some((_, wire)) = self.open[which] else { return };
        self.writes(&format!(r#"{{"jsonrpc":"2.0","id":{wire},"result":{{"content":[]}}}}"#));
    }

    fn writes(&mut self, line: &str) {
        if !self.process {
            return;
        }
        let negotiating = self.machine.lifecycle().is_negotiating();
        let event = move |it: &Self, _| match (negotiating, it.machine.revision()) {
            (true, Some(_)) => Event::Ready,
            (true, None) => Event::StartFailed,
            (false, _) => Event::Heard,
        };
        self.on(event, |it| {
            if let Outcome::Deliver { key, .. } = it.machine.handle_frame(it.now, line.as_bytes()) {
                it.open[key.index()] = None;
            }
        });
    }

    fn verdict(&mut self, carried: Carried, wire: u64, verdict: Verdict) {
        if !self.process || self.kind.transport == Transport::Stream {
            return;
        }
        let negotiating = self.machine.lifecycle().is_negotiating();
        let event = move |it: &Self, to| match verdict {
            Verdict::Expired { .. } if negotiating => Event::StartFailed,
            Verdict::Expired { .. } => Event::SessionEnded,
            Verdict::Unauthorized => Event::Refused,
            _ if negotiating && it.machine.revision().is_some() => Event::Ready,
            _ if negotiating => Event::StartFailed,
            Verdict::Unreachable => Event::Silent,
            _ if to == PublicState::Live || to == PublicState::Suspended => Event::Heard,
            _ => panic!("{verdict:?} led to {to}"),
        };
        self.on(event, |it| it.machine.handle_verdict(it.now, carried, wire, verdict));
    }

    fn step(&mut self, chance: &mut Chance) {
        let which = chance.below(SLOTS);
        if self.record.is_some() {
            return match chance.below(6) {
                0 => self.on(|_, _| Event::Restart, |it| it.begin_anew(true)),
                1 => self.on(|_, _| Event::Close, |it| it.record = Some(PublicState::Closed)),
                2 => self.bereft(chance.one_in(2)),
                3 => self.now = self.now.after(Duration::from_secs(31)),
                _ => self.used(|_| {}),
            };
        }
        match chance.below(64) {
            0..8 => self.used(|it| {
                let methods = [Method::ToolsCall, Method::ToolsList, Method::Info, Method::ServerPing];
                let operation = Operation { method: methods[which], allowance: None };
                let _ = it.machine.submit(it.now, operation);
            }),
            8..10 => self.used(|it| it.machine.wake(it.now)),
            10 => {
                if let Some((key, _)) = self.open[which] {
                    self.on(
                        |_, _| panic!("a cancelled call changes the state"),
                        |it| it.machine.cancel(it.now, key),
                    );
                }
            }
            11 => {
                self.deferrals += 1;
                self.on(|_, _| panic!("a deferral changes the state"), |it| it.machine.defer());
            }
            12..14 if self.deferrals > 0 => {
                self.deferrals -= 1;
                self.on(
                    |_, _| panic!("the end of a deferral changes the state"),
                    |it| it.machine.undefer(it.now),
                );
            }
            14 => self.on(|_, _| Event::Hidden, |it| it.machine.show(it.now, false)),
            15..17 => {
                let suspended = self.state() == PublicState::Suspended;
                let event = if suspended { Event::Shown } else { Event::Use };
                self.on(move |_, _| event, |it| it.machine.show(it.now, true));
            }
            17 if chance.one_in(3) => {
                self.leaving = true;
                self.on(|_, _| Event::Replaced, |it| it.machine.leave(it.now));
            }
            18 if chance.one_in(4) => self.on(|_, _| Event::Close, |it| it.machine.close(it.now)),
            19 if chance.one_in(4)
                && !matches!(self.state(), PublicState::Closed | PublicState::Connecting) =>
            {
                self.on(|_, _| Event::Restart, |it| it.begin_anew(true));
            }
            20 if chance.one_in(4) => self.bereft(chance.one_in(3)),
            21 => self.disk_full = chance.one_in(2),
            22 => self.missing = chance.one_in(2),
            23 => self.exits(Exit::Status(0)),
            24 => self.exits(Exit::Status(1)),
            25 => self.exits(Exit::Signal(9)),
            26 => self.loses(),
            27..31 => self.gone(),
            31 => self.refused(),
            32 if self.kind.transport == Transport::Http => {
                let negotiating = self.machine.lifecycle().is_negotiating();
                let event = if negotiating { Event::StartFailed } else { Event::SessionEnded };
                self.on(move |_, _| event, |it| it.machine.handle_expired(it.now));
            }
            33..39 => self.answers_handshake(true),
            39 => self.answers_handshake(false),
            40..44 => self.answers(which),
            44 => self.writes(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#),
            45..48 => {
                let verdicts = [
                    Verdict::Done,
                    Verdict::Expired { ran: Ran::No },
                    Verdict::Expired { ran: Ran::Unknown },
                    Verdict::Unauthorized,
                    Verdict::Unreachable,
                    Verdict::Broken,
                    Verdict::Refused { status: 500, ran: Ran::Unknown },
                    Verdict::Refused { status: 404, ran: Ran::No },
                    Verdict::Invalid,
                    Verdict::NoStream,
                ];
                let verdict = verdicts[chance.below(verdicts.len())];
                if let (Some((_, wire)), true) = (self.open[which], chance.one_in(2)) {
                    self.verdict(Carried::Request(Method::ToolsCall), wire, verdict);
                } else {
                    let (carried, wire) = match self.question {
                        Some(Own::Discover { id, .. }) => (Carried::Question(Question::Discover), id),
                        Some(Own::Initialize { id, .. }) => (Carried::Question(Question::Initialize), id),
                        _ => (Carried::Listening, 0),
                    };
                    self.verdict(carried, wire, verdict);
                }
            }
            48..64 => self.time(chance),
            _ => {}
        }
    }

    fn refused(&mut self) {
        if self.process && self.kind.transport == Transport::Http {
            self.on(|_, _| Event::Refused, |it| it.machine.handle_unauthorized(it.now));
        }
    }

    /// The machine is killed, or the whole computer.
    fn bereft(&mut self, rebooted: bool) {
        let event = if rebooted { Event::Rebooted } else { Event::BridgeLost };
        self.on(
            move |_, _| event,
            |it| {
                it.record = Some(it.state().bereft(rebooted));
                it.process = false;
            },
        );
    }
}

const HEAD: &str = "# The states of a session

What `drowse` shows of each session, what each word means, and what a user can do next; then every way from one state to
another. A `suspended` server is one that runs while nobody is shown what it offers, which only hosts that embed drowse
have so far.

Two things hold throughout. Nothing but a user's own command or a client's request takes a session out of `idle`: not a
timer, not `--auto-restart`, not a notification. And `idle` is never shown or recorded as `crashed`, whoever is killed
when.

This page is made from the table in `core/src/lifecycle/table.rs`, which a test holds against the machine;
`DROWSE_WRITE_DOCS=1 cargo test -p drowse-core --test states` writes it anew.

";

#[test]
fn the_page_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/states.md");
    let wanted = format!("{HEAD}{Markdown}");
    if env::var_os("DROWSE_WRITE_DOCS").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), wanted, "{} is out of date", path.display());
}

fn explore() -> BTreeMap<Step, u32> {
    let mut seen = BTreeMap::new();
    for (number, kind) in (1..).zip(Kind::all()) {
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15 ^ (number << 20));
        for _ in 0..500 {
            let mut session = Session::new(kind);
            for _ in 0..120 {
                session.step(&mut chance);
                if session.state() == PublicState::Closed && session.record.is_some() {
                    break;
                }
            }
            for (step, count) in session.seen {
                *seen.entry(step).or_default() += count;
            }
        }
    }
    seen
}

#[test]
fn the_table_is_the_machine() {
    let seen = explore();
    let rows: BTreeSet<Step> = table::transitions().map(|row| (row.from, row.event, row.to)).collect();
    let show = |step: &Step| format!("{} | {:?} | {}", step.0, step.1, step.2);
    let unlisted: Vec<String> = seen
        .iter()
        .filter(|(step, _)| !rows.contains(step))
        .map(|(step, n)| format!("{} ({n})", show(step)))
        .collect();
    let unseen: Vec<String> = rows.iter().filter(|row| !seen.contains_key(row)).map(show).collect();
    assert!(
        unlisted.is_empty() && unseen.is_empty(),
        "not in the table: {unlisted:#?}\nnever seen: {unseen:#?}"
    );
}
