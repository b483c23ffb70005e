//! The idle stop in every order of events, on a virtual clock.
//!
//! A live server is at its idle deadline, and its keepalive is due at the same instant. From there a search takes every
//! order in which records are acknowledged, time passes, the server ends by itself, its tree goes, HTTP exchanges come to
//! their ends, and callers call, cancel, wake, close or take over; each of them a bounded number of times. What has to
//! hold is checked after every step, and from every state that is reached it is checked that whatever was accepted comes
//! to an end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use core::hash::{Hash, Hasher};
use std::collections::HashSet;
use std::hash::DefaultHasher;

use drowse_core::crash::CrashLog;
use drowse_core::era::Era;
use drowse_core::http::exchange::{Carried, Verdict};
use drowse_core::lifecycle::{self, Exit, PublicState, Record};
use drowse_core::link::{Cause, Failure, Key, Ran, Slot};
use drowse_core::message::Own;
use drowse_core::method::Method;
use drowse_core::negotiate::{Limits, Question};
use drowse_core::server::{Action, Config, Operation, Outcome, Server, Transport};
use drowse_core::time::{Duration, Instant};

const IDLE: Duration = Duration::from_secs(60);
/// How long those who wait are kept waiting for what was killed and does not go.
const PATIENCE: Duration = Duration::from_secs(10);

/// Something that may happen next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// The record that was given out is written.
    Written,
    /// It could not be.
    NotWritten,
    /// The next timeout.
    Time,
    /// The server closed its output.
    OutputEnds,
    Exits(Exit),
    /// Nothing of its tree is left.
    Gone,
    /// The server says something.
    Speaks,
    /// Over HTTP: what came of the keepalive.
    Keepalive(Verdict),
    Call,
    Cancel,
    /// `connect`, and the second half of a `restart`.
    Wake,
    /// `close`, the first half of a `restart`, a signal; and a second one.
    Close,
    /// Another version of drowse takes over.
    Leave,
    /// The machine was suspended for longer than any period.
    Suspended,
}

/// How often some of them may still happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Left {
    times: u8,
    calls: u8,
    cancels: u8,
    wakes: u8,
    closes: u8,
    leaves: u8,
    words: u8,
    failures: u8,
    suspensions: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tree {
    None,
    /// The server itself runs, or over HTTP the session is open.
    Up {
        output: bool,
    },
    /// It ended, and what it started may be left.
    Remains,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Answered,
    Failed(Failure),
    Cancelled,
}

#[derive(Clone, Debug)]
struct Call {
    key: Key,
    sent: u8,
    wire: u64,
    wants: bool,
    end: Option<End>,
}

/// The machine and a faithful adapter, which does what it is told and acknowledges when the search says so.
#[derive(Clone, Debug)]
struct World {
    server: Server<[Slot; 3]>,
    transport: Transport,
    now: Instant,
    left: Left,
    tree: Tree,
    /// The record that is being written.
    record: Option<Record>,
    /// The generation of which `idle` was written.
    asleep: Option<u64>,
    /// The last record that is on the disk.
    disk: Record,
    ping: Option<u64>,
    calls: Vec<Call>,
    closed: bool,
    left_over: bool,
    /// The server ended by itself, or was found gone, before it was asleep.
    by_itself: bool,
    unauthorized: bool,
    not_written: bool,
    killed: Option<Instant>,
    retired: bool,
    path: Vec<Step>,
}

impl World {
    fn at_the_deadline(transport: Transport, left: Left) -> Self {
        let config = Config {
            remembered: Some(Era::Legacy),
            limits: match transport {
                Transport::Stream => Limits::default(),
                Transport::Http => Limits { hedge: None, ..Limits::default() },
            },
            lifecycle: lifecycle::Config { idle: Some(IDLE), ..lifecycle::Config::default() },
            transport,
            keepalive: Some(IDLE / 2),
            session_keepalive: Some(IDLE / 2),
            ..Config::default()
        };
        let mut world = Self {
            server: Server::new(config, [Slot::EMPTY; 3], 0, CrashLog::new()),
            transport,
            now: Instant::from_millis(1_000_000),
            left,
            tree: Tree::None,
            record: None,
            asleep: None,
            disk: Record { state: PublicState::Dormant, generation: 0, ended: true },
            ping: None,
            calls: Vec::new(),
            closed: false,
            left_over: false,
            by_itself: false,
            unauthorized: false,
            not_written: false,
            killed: None,
            retired: false,
            path: Vec::new(),
        };
        world.server.wake(world.now);
        world.drain();
        while world.record.is_some() {
            world.take(Step::Written);
        }
        // It works: what ends later is no start that failed.
        world.take(Step::Call);
        assert_eq!(world.calls.pop().unwrap().end, Some(End::Answered));
        // The keepalive is asked half-way, and has to be answered at the idle deadline.
        world.take(Step::Time);
        assert!(world.ping.is_some());
        assert_eq!(world.server.state(), PublicState::Live);
        world.left = left;
        world.path.clear();
        world
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let left = self.left;
        if self.record.is_some() {
            steps.push(Step::Written);
            if left.failures > 0 {
                steps.push(Step::NotWritten);
            }
        }
        if left.times > 0 && self.server.poll_timeout().is_some() {
            steps.push(Step::Time);
        }
        match (self.transport, self.tree) {
            (Transport::Stream, Tree::Up { output }) => {
                if output {
                    steps.push(Step::OutputEnds);
                    if left.words > 0 {
                        steps.push(Step::Speaks);
                    }
                }
                for exit in [Exit::Status(0), Exit::Status(1), Exit::Signal(9)] {
                    steps.push(Step::Exits(exit));
                }
            }
            (Transport::Http, Tree::Up { .. }) if self.ping.is_some() => {
                for verdict in [
                    Verdict::Done,
                    Verdict::Unreachable,
                    Verdict::Broken,
                    Verdict::Unauthorized,
                    Verdict::Expired { ran: Ran::No },
                    Verdict::Refused { status: 500, ran: Ran::Unknown },
                ] {
                    steps.push(Step::Keepalive(verdict));
                }
            }
            _ => {}
        }
        // Over HTTP nothing is left once the exchanges are over that a stop waits for.
        let goes = match self.transport {
            Transport::Stream => self.tree == Tree::Remains,
            Transport::Http => self.tree != Tree::None && self.server.is_stopping(),
        };
        if goes {
            steps.push(Step::Gone);
        }
        if left.calls > 0 && !self.retired {
            steps.push(Step::Call);
        }
        if left.cancels > 0 && self.calls.iter().any(|call| call.end.is_none() && call.wants) {
            steps.push(Step::Cancel);
        }
        if left.wakes > 0 && !self.retired {
            steps.push(Step::Wake);
        }
        if left.closes > 0 && !self.retired {
            steps.push(Step::Close);
        }
        if left.leaves > 0 && !self.retired {
            steps.push(Step::Leave);
        }
        if left.suspensions > 0 && !self.retired {
            steps.push(Step::Suspended);
        }
        steps
    }

    fn take(&mut self, step: Step) {
        self.path.push(step);
        let now = self.now;
        let awake = self.server.state().is_awake();
        match step {
            Step::Written => {
                self.disk = self.record.take().unwrap();
                self.server.handle_persisted(now);
            }
            Step::NotWritten => {
                self.left.failures -= 1;
                self.not_written = true;
                self.record = None;
                self.server.handle_persist_failed(now);
            }
            Step::Time => {
                self.left.times -= 1;
                self.now = self.server.poll_timeout().unwrap().0.max(now);
                self.server.handle_timeout(self.now);
            }
            Step::OutputEnds => {
                self.tree = Tree::Up { output: false };
                self.server.handle_lost(now);
            }
            Step::Exits(exit) => {
                self.by_itself |= awake;
                self.tree = Tree::Remains;
                self.server.handle_exited(now, exit);
            }
            Step::Gone => {
                self.tree = Tree::None;
                self.ping = None;
                self.server.handle_tree_gone(now);
            }
            Step::Speaks => {
                self.left.words -= 1;
                self.server.handle_frame(now, br#"{"jsonrpc":"2.0","method":"notifications/message"}"#);
            }
            Step::Keepalive(verdict) => {
                let wire = self.ping.take().unwrap();
                self.by_itself |= awake && matches!(verdict, Verdict::Expired { .. });
                self.unauthorized |= verdict == Verdict::Unauthorized;
                if verdict == Verdict::Done {
                    self.answer(wire, "{}");
                }
                self.server.handle_verdict(now, Carried::Request(Method::ServerPing), wire, verdict);
            }
            Step::Call => {
                self.left.calls -= 1;
                let operation = Operation { method: Method::ToolsCall, allowance: None };
                if let Ok(key) = self.server.submit(now, operation) {
                    self.calls.push(Call { key, sent: 0, wire: 0, wants: true, end: None });
                }
            }
            Step::Cancel => {
                self.left.cancels -= 1;
                let call = self.calls.iter_mut().find(|call| call.end.is_none() && call.wants).unwrap();
                call.wants = false;
                self.server.cancel(now, call.key);
            }
            Step::Wake => {
                self.left.wakes -= 1;
                self.server.wake(now);
            }
            Step::Close => {
                self.left.closes -= 1;
                self.closed = true;
                self.server.close(now);
            }
            Step::Leave => {
                self.left.leaves -= 1;
                self.left_over = true;
                self.server.leave(now);
            }
            Step::Suspended => {
                self.left.suspensions -= 1;
                self.server.handle_suspended(now, Duration::from_secs(86_400));
            }
        }
        self.drain();
        self.check();
    }

    fn answer(&mut self, wire: u64, result: &str) -> Outcome {
        let frame = format!(r#"{{"jsonrpc":"2.0","id":{wire},"result":{result}}}"#);
        self.server.handle_frame(self.now, frame.as_bytes())
    }

    fn drain(&mut self) {
        for _ in 0..40 {
            let Some(action) = self.server.poll_action() else { return };
            match action {
                Action::Persist(record) => {
                    self.holds(self.record.is_none(), "one record at a time");
                    self.record = Some(record);
                    self.recorded(record);
                }
                Action::Spawn { generation } => {
                    self.holds(self.tree == Tree::None, "never two at once");
                    let written = Record { state: PublicState::Connecting, generation, ended: false };
                    self.holds(self.disk == written, "a start is written down before it is one");
                    self.tree = Tree::Up { output: true };
                    self.killed = None;
                    self.server.handle_spawned(self.now);
                }
                Action::SendOwn(Own::Initialize { id, .. }) => {
                    if self.transport == Transport::Http {
                        self.server.handle_session(self.now);
                    }
                    self.answer(id, r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#);
                    if self.transport == Transport::Http {
                        let asked = Carried::Question(Question::Initialize);
                        self.server.handle_verdict(self.now, asked, id, Verdict::Done);
                    }
                }
                Action::SendOwn(Own::Initialized) if self.transport == Transport::Http => {
                    self.server.handle_verdict(self.now, Carried::Message, 0, Verdict::Done);
                }
                Action::SendOwn(Own::Ping { id }) => self.ping = Some(id),
                Action::SendOwn(_) | Action::Listen | Action::Renewed(_) => {}
                Action::Send { key, wire, .. } => {
                    let up = self.tree == Tree::Up { output: true };
                    self.holds(up, "sent to a server that is there");
                    let call = self.call(key);
                    call.sent += 1;
                    call.wire = wire;
                    let once = call.sent == 1;
                    self.holds(once, "a call runs once");
                    self.server.handle_sent(key);
                    // Answered at once: what is under way at the deadline is none of this.
                    let outcome = self.answer(wire, "{}");
                    self.holds(matches!(outcome, Outcome::Deliver { .. }), "its answer is taken");
                    if self.transport == Transport::Http {
                        let carried = Carried::Request(Method::ToolsCall);
                        self.server.handle_verdict(self.now, carried, wire, Verdict::Done);
                    }
                    self.ends(key, End::Answered);
                }
                Action::Fail { key, failure } => self.ends(key, End::Failed(failure)),
                Action::CloseInput | Action::Terminate => {
                    self.holds(self.record.is_none(), "nothing is stopped before that was written down");
                }
                Action::Kill => {
                    self.holds(self.record.is_none(), "nothing is killed before that was written down");
                    self.killed.get_or_insert(self.now);
                    if self.transport == Transport::Http || self.tree == Tree::None {
                        self.tree = Tree::None;
                        self.ping = None;
                        self.server.handle_tree_gone(self.now);
                    } else {
                        self.tree = Tree::Remains;
                    }
                }
                Action::Retire => {
                    self.holds(self.tree == Tree::None, "nothing is left behind");
                    let open = self.calls.iter().any(|call| call.end.is_none());
                    self.holds(!open && self.record.is_none(), "nothing waits");
                    self.retired = true;
                }
                other => panic!("{other:?} after {:?}", self.path),
            }
        }
        panic!("no end of actions after {:?}", self.path);
    }

    fn call(&mut self, key: Key) -> &mut Call {
        self.calls.iter_mut().find(|call| call.key == key && call.end.is_none()).expect("it is under way")
    }

    fn ends(&mut self, key: Key, end: End) {
        let (closed, left, unauthorized, failed_start) =
            (self.closed, self.left_over, self.unauthorized, self.not_written);
        let stuck = self.killed.is_some_and(|at| self.now >= at.after(PATIENCE));
        let call = self.call(key);
        let (sent, wants) = (call.sent > 0, call.wants);
        call.end = Some(match end {
            End::Failed(failure) if failure.cause == Cause::Cancelled => End::Cancelled,
            end => end,
        });
        let End::Failed(Failure { cause, ran }) = end else { return };
        self.holds((ran == Ran::No) != sent, "`ran` is right");
        let excused = match cause {
            Cause::Cancelled => !wants,
            // Its caller goes to the next bridge.
            Cause::ShuttingDown => closed || left,
            Cause::Unauthorized => unauthorized,
            Cause::NotPersisted => failed_start,
            Cause::Unkillable => stuck,
            _ => false,
        };
        self.holds(excused, "an operation is never lost");
    }

    fn recorded(&mut self, record: Record) {
        use PublicState::{Closed, Connecting, Idle, Live};
        if self.asleep == Some(record.generation) {
            let allowed = matches!(record.state, Idle | Closed);
            self.holds(allowed, "`idle` is never overwritten");
        }
        match record.state {
            Idle => {
                // That it is written is checked where something hangs on it.
                self.asleep = Some(record.generation);
                self.holds(!self.closed, "closed is closed");
            }
            Connecting | Live => self.asleep = self.asleep.filter(|asleep| *asleep == record.generation),
            _ => {}
        }
    }

    fn check(&self) {
        if self.server.lifecycle().generation() == self.asleep.unwrap_or(u64::MAX) {
            let state = self.server.state();
            let shown = matches!(state, PublicState::Idle | PublicState::Closed);
            self.holds(shown, "never shown as anything but asleep");
        }
        let open = self.calls.iter().filter(|call| call.end.is_none()).count();
        self.holds(
            self.server.lifecycle().in_flight() as usize == open,
            "none is counted twice or forgotten",
        );
        // An end that is no one's fault is no crash.
        let crashed = self.server.lifecycle().crashes().times().len();
        self.holds(crashed == 0 || self.not_written, "it worked before");
    }

    /// From here on everything goes as it should: nobody has anything left to wait for.
    fn finish(mut self) {
        self.left.times = u8::MAX;
        for _ in 0..60 {
            let open = self.calls.iter().any(|call| call.end.is_none());
            let settled = self.retired || (!self.server.is_stopping() && self.record.is_none());
            if settled && !open {
                return;
            }
            let step = match self.tree {
                _ if self.record.is_some() => Step::Written,
                Tree::Up { .. } if self.transport == Transport::Http && self.server.is_stopping() => {
                    Step::Gone
                }
                Tree::Up { .. } if self.server.is_stopping() => Step::Exits(Exit::Status(0)),
                Tree::Remains => Step::Gone,
                _ => Step::Time,
            };
            if step == Step::Time && self.server.poll_timeout().is_none() {
                break;
            }
            self.take(step);
        }
        panic!("stuck in {:?} after {:?}\n{:?}", self.server.state(), self.path, self.calls);
    }

    #[track_caller]
    fn holds(&self, is_so: bool, rule: &str) {
        assert!(is_so, "{rule}, but after {:?}: {:?} {self:?}", self.path, self.server.state());
    }

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let bare = Self { path: Vec::new(), ..self.clone() };
        format!("{bare:?}").hash(&mut hasher);
        hasher.finish()
    }
}

/// Every state that can be reached; how many those are, and in how many of them the server was on its way to sleep.
fn search(transport: Transport, left: Left) -> (usize, usize) {
    let mut seen = HashSet::new();
    let mut open = vec![World::at_the_deadline(transport, left)];
    let mut draining = 0;
    while let Some(world) = open.pop() {
        if !seen.insert(world.fingerprint()) {
            continue;
        }
        draining += usize::from(world.asleep.is_some() && world.server.is_stopping());
        for step in world.steps() {
            let mut next = world.clone();
            next.take(step);
            // What the next server does at its own deadline is the same again.
            if next.server.lifecycle().generation() == 1 || next.server.is_stopping() {
                open.push(next);
            } else {
                next.finish();
            }
        }
        world.finish();
    }
    (seen.len(), draining)
}

const LEFT: Left = Left {
    times: 4,
    calls: 1,
    cancels: 0,
    wakes: 0,
    closes: 0,
    leaves: 0,
    words: 1,
    failures: 0,
    suspensions: 0,
};

fn both(left: Left) {
    for transport in [Transport::Stream, Transport::Http] {
        let (states, draining) = search(transport, left);
        println!("{transport:?} {left:?}: {states} states, {draining} of a drain");
        assert!(draining > 5, "{states} states say nothing of the drain");
    }
}

#[test]
fn calls_that_arrive() {
    both(Left { calls: 2, ..LEFT });
}

#[test]
fn a_call_that_arrives_and_is_cancelled() {
    both(Left { cancels: 1, ..LEFT });
}

#[test]
fn a_call_and_a_wake() {
    both(Left { wakes: 1, ..LEFT });
}

#[test]
fn a_call_and_a_close_or_a_second_signal() {
    both(Left { closes: 2, ..LEFT });
}

#[test]
fn a_call_a_restart_and_a_close() {
    both(Left { wakes: 1, closes: 1, ..LEFT });
}

#[test]
fn a_call_and_another_program_that_takes_over() {
    both(Left { leaves: 1, closes: 1, ..LEFT });
}

#[test]
fn a_call_and_a_machine_that_was_suspended() {
    both(Left { suspensions: 1, wakes: 1, ..LEFT });
}

#[test]
fn a_record_that_cannot_be_written() {
    both(Left { failures: 1, ..LEFT });
}
