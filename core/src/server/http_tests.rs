//! The facade over HTTP, on a virtual clock: verdicts on exchanges go in, what follows from them comes out.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::*;
use crate::http::exchange::{Carried, Verdict};
use crate::link::{Failure, REISSUED, Ran};
use crate::message::Own;
use crate::method::Method;
use crate::negotiate::Question;

const PROBE: Carried = Carried::Question(Question::Discover);
const INITIALIZE: Carried = Carried::Question(Question::Initialize);
const CALL: Carried = Carried::Request(Method::ToolsCall);

/// A server behind a URL, and what an adapter sees of it.
struct World {
    server: Server<[Slot; 4]>,
    now: Instant,
    /// Whatever is to be done, in words.
    did: Vec<String>,
    sent: Vec<(Key, u64)>,
    asked: Option<(Carried, u64)>,
    failed: Vec<(Key, Failure)>,
}

fn config() -> Config {
    Config {
        transport: Transport::Http,
        limits: Limits { hedge: None, ..Limits::default() },
        lifecycle: lifecycle::Config {
            idle: Some(Duration::from_secs(60)),
            resident: true,
            ..lifecycle::Config::default()
        },
        session_keepalive: Some(Duration::from_secs(30)),
        ..Config::default()
    }
}

impl World {
    fn asleep(config: Config) -> Self {
        let server = Server::new(config, [Slot::EMPTY; 4], 0, CrashLog::new());
        let now = Instant::from_millis(1_000_000);
        Self { server, now, did: Vec::new(), sent: Vec::new(), asked: None, failed: Vec::new() }
    }

    fn new(config: Config) -> Self {
        let mut world = Self::asleep(config);
        world.server.wake(world.now);
        world.drain();
        world
    }

    fn modern() -> Self {
        let mut world = Self::new(config());
        world.discovered();
        assert_eq!(world.state(), "live");
        world.did.clear();
        world
    }

    /// A legacy server that gave a session.
    fn legacy(config: Config) -> Self {
        let mut world = Self::new(config);
        world.initialize(true);
        assert_eq!(world.state(), "live");
        world.did.clear();
        world
    }

    fn discovered(&mut self) {
        self.answer_own(r#""result":{"supportedVersions":["2026-07-28"],"capabilities":{}}"#);
    }

    fn initialize(&mut self, session: bool) {
        self.verdict(PROBE, self.wire(), Verdict::Refused { status: 404, ran: Ran::Unknown });
        assert_eq!(self.asked.map(|(carried, _)| carried), Some(INITIALIZE));
        if session {
            self.server.handle_session(self.now);
        }
        self.answer_own(r#""result":{"protocolVersion":"2025-11-25","capabilities":{}}"#);
        assert_eq!(self.state(), "connecting", "nothing is sent before the announcement was taken");
        assert_eq!(self.did.last().map(String::as_str), Some("initialized"));
        self.verdict(Carried::Message, 0, Verdict::Done);
    }

    fn wire(&self) -> u64 {
        self.asked.unwrap().1
    }

    fn answer_own(&mut self, body: &str) {
        let frame = format!(r#"{{"jsonrpc":"2.0","id":{},{body}}}"#, self.wire());
        self.server.handle_frame(self.now, frame.as_bytes());
        self.drain();
    }

    fn answer(&mut self, wire: u64) -> Outcome {
        let frame = format!(r#"{{"jsonrpc":"2.0","id":{wire},"result":{{}}}}"#);
        let outcome = self.server.handle_frame(self.now, frame.as_bytes());
        self.drain();
        outcome
    }

    fn verdict(&mut self, carried: Carried, wire: u64, verdict: Verdict) {
        self.server.handle_verdict(self.now, carried, wire, verdict);
        self.drain();
    }

    fn call(&mut self, method: Method) -> Key {
        let key = self.server.submit(self.now, Operation { method, allowance: None }).unwrap();
        self.drain();
        key
    }

    fn gone(&mut self) {
        self.server.handle_tree_gone(self.now);
        self.drain();
    }

    fn seconds(&mut self, seconds: u64) {
        self.now = self.now.after(Duration::from_secs(seconds));
        self.server.handle_timeout(self.now);
        self.drain();
    }

    fn state(&self) -> &'static str {
        self.server.state().name()
    }

    fn drain(&mut self) {
        while let Some(action) = self.server.poll_action() {
            let text = match action {
                Action::Persist(record) => {
                    self.server.handle_persisted(self.now);
                    format!("persist {}", record.state)
                }
                Action::Spawn { .. } => {
                    self.server.handle_spawned(self.now);
                    "spawn".to_string()
                }
                Action::SendOwn(Own::Discover { id, .. }) => {
                    self.asked = Some((PROBE, id));
                    "discover".to_string()
                }
                Action::SendOwn(Own::Initialize { id, .. }) => {
                    self.asked = Some((INITIALIZE, id));
                    "initialize".to_string()
                }
                Action::SendOwn(Own::Initialized) => "initialized".to_string(),
                Action::SendOwn(Own::Ping { id }) => {
                    self.asked = Some((Carried::Request(Method::ServerPing), id));
                    "ping".to_string()
                }
                Action::SendOwn(Own::Cancelled { .. }) => "cancelled".to_string(),
                Action::Send { key, wire, method, .. } => {
                    self.server.handle_sent(key);
                    self.sent.push((key, wire));
                    method.name().to_string()
                }
                Action::Fail { key, failure } => {
                    self.failed.push((key, failure));
                    "fail".to_string()
                }
                other => format!("{other:?}"),
            };
            self.did.push(text);
        }
    }
}

#[test]
fn a_modern_server_needs_one_question() {
    let mut world = World::modern();
    let key = world.call(Method::ToolsCall);
    assert_eq!(world.sent, [(key, key.wire())]);
    assert!(world.server.awaits(key.wire()));
    assert!(matches!(world.answer(key.wire()), Outcome::Deliver { .. }));
    assert!(!world.server.awaits(key.wire()));
    world.verdict(CALL, key.wire(), Verdict::Done);
    assert!(world.failed.is_empty());
}

#[test]
fn a_legacy_server_with_a_session_is_listened_to_and_told_of_the_end() {
    let mut world = World::new(config());
    world.initialize(true);
    assert!(world.did.ends_with(&["persist live".to_string(), "Listen".to_string()]), "{:?}", world.did);
    world.did.clear();
    // Its own keepalive is answered and does not keep it awake.
    world.seconds(30);
    assert_eq!(world.did, ["ping"]);
    world.answer(world.wire());
    world.seconds(30);
    assert_eq!(world.state(), "idle");
    assert_eq!(world.did.last().map(String::as_str), Some("CloseInput"));
    world.gone();
    assert_eq!(world.did.last().map(String::as_str), Some("persist idle"));
    world.did.clear();
    world.call(Method::ToolsCall);
    assert!(world.did.contains(&"spawn".to_string()), "waking is always fresh: {:?}", world.did);
    world.initialize_background();
    assert!(!world.did.contains(&"Renewed(Expired)".to_string()), "sleep is no surprise");
}

#[test]
fn a_session_that_is_gone_before_it_began_is_told_by_the_next_request() {
    let mut world = World::new(config());
    let key = world.call(Method::ToolsCall);
    world.verdict(PROBE, world.wire(), Verdict::Refused { status: 404, ran: Ran::Unknown });
    for again in [false, true] {
        world.server.handle_session(world.now);
        world.answer_own(r#""result":{"protocolVersion":"2025-11-25","capabilities":{}}"#);
        world.verdict(Carried::Message, 0, Verdict::Expired { ran: Ran::No });
        assert_eq!(world.state(), "live", "nobody waits for the time of a start to be over");
        world.verdict(CALL, key.wire(), Verdict::Expired { ran: Ran::No });
        assert_eq!(world.failed.len(), usize::from(again), "a server that forgets all is not asked for ever");
        world.gone();
    }
}

#[test]
fn without_a_session_there_is_no_traffic_of_our_own() {
    let mut world = World::new(Config { lifecycle: lifecycle::Config::default(), ..config() });
    world.initialize(false);
    assert!(!world.did.contains(&"Listen".to_string()));
    world.did.clear();
    world.seconds(30 * 86_400);
    assert!(world.did.is_empty(), "{:?}", world.did);
    assert_eq!(world.server.poll_timeout(), None);
}

#[test]
fn what_found_the_session_gone_goes_to_a_fresh_one() {
    let mut world = World::legacy(config());
    let first = world.call(Method::ToolsCall);
    let other = world.call(Method::ToolsCall);
    world.verdict(CALL, first.wire(), Verdict::Expired { ran: Ran::No });
    assert_eq!(world.state(), "expired");
    // The other one has a verdict of its own.
    assert!(world.server.awaits(other.wire()) && world.failed.is_empty());
    world.verdict(CALL, other.wire(), Verdict::Expired { ran: Ran::No });
    world.did.clear();
    world.gone();
    assert_eq!(world.state(), "connecting");
    world.sent.clear();
    world.initialize(true);
    assert_eq!(world.sent, [(first, first.wire()), (other, other.wire())]);
    assert!(world.failed.is_empty());
    assert_eq!(
        world.did.iter().filter(|did| *did == "Renewed(Expired)").count(),
        1,
        "the user is told, once"
    );
    // A server that forgets every session is not asked for ever.
    world.verdict(CALL, first.wire(), Verdict::Expired { ran: Ran::No });
    assert_eq!(world.failed, [(first, Failure { cause: Cause::Expired, ran: Ran::No })]);
}

#[test]
fn an_answer_that_comes_after_the_session_was_found_gone_still_counts() {
    let mut world = World::legacy(config());
    let first = world.call(Method::ToolsCall);
    let other = world.call(Method::ToolsCall);
    world.verdict(CALL, first.wire(), Verdict::Expired { ran: Ran::No });
    assert!(matches!(world.answer(other.wire()), Outcome::Deliver { .. }));
    // One whose stream is lost may have run.
    world.gone();
    assert!(world.failed.is_empty());
}

#[test]
fn a_stream_that_cannot_be_taken_up_in_a_session_that_is_gone_may_have_run() {
    let mut world = World::legacy(config());
    let key = world.call(Method::ToolsCall);
    world.verdict(CALL, key.wire(), Verdict::Expired { ran: Ran::Unknown });
    assert_eq!(world.failed, [(key, Failure { cause: Cause::Expired, ran: Ran::Unknown })]);
}

#[test]
fn who_wants_no_fresh_session_gets_none() {
    let lifecycle = lifecycle::Config { fail_on_expiry: true, ..config().lifecycle };
    let mut world = World::legacy(Config { lifecycle, ..config() });
    let key = world.call(Method::ToolsCall);
    world.verdict(CALL, key.wire(), Verdict::Expired { ran: Ran::No });
    world.gone();
    assert_eq!(world.failed, [(key, Failure { cause: Cause::Expired, ran: Ran::No })]);
    assert_eq!(world.state(), "expired");
}

#[test]
fn a_session_that_ends_while_nothing_is_in_flight_is_asleep() {
    let mut world = World::legacy(config());
    world.verdict(Carried::Listening, 0, Verdict::Expired { ran: Ran::Unknown });
    world.gone();
    assert_eq!(world.state(), "idle");
}

/// On its way to sleep, with a call that came too late for this session.
fn drained(allowance: Option<Allowance>) -> (World, Key) {
    let mut world = World::legacy(config());
    world.seconds(30);
    world.answer(world.wire());
    world.seconds(30);
    assert!(world.did.contains(&"CloseInput".to_string()), "{:?}", world.did);
    let key = world.server.submit(world.now, Operation { method: Method::ToolsCall, allowance }).unwrap();
    world.drain();
    (world, key)
}

#[test]
fn the_time_of_a_call_that_waits_for_a_session_to_end_is_not_its_own() {
    let second = Duration::from_secs(1);
    let (mut world, key) = drained(Some(Allowance { quiet: second, total: second }));
    world.seconds(1);
    assert_eq!((world.failed.clone(), world.state()), (Vec::new(), "idle"));
    world.gone();
    world.initialize_background();
    assert_eq!(world.sent, [(key, key.wire())]);
    world.seconds(1);
    let timed_out = Failure { cause: Cause::TimedOut, ran: Ran::Unknown };
    assert_eq!(world.failed, [(key, timed_out)], "its time begins with the server that it has");
}

#[test]
fn what_a_session_says_of_credentials_while_it_ends_is_not_said_to_the_next() {
    for verdict in [Verdict::Unauthorized, Verdict::Expired { ran: Ran::No }, Verdict::Unreachable] {
        let (mut world, key) = drained(None);
        let ping = Carried::Request(Method::ServerPing);
        world.verdict(ping, world.wire(), verdict);
        assert_eq!((world.failed.clone(), world.state()), (Vec::new(), "idle"), "{verdict:?}");
        world.gone();
        world.initialize_background();
        assert_eq!(world.sent, [(key, key.wire())], "{verdict:?}");
    }
}

#[test]
fn refused_credentials_end_the_session_and_nothing_ran() {
    let mut world = World::modern();
    let key = world.call(Method::ToolsCall);
    let other = world.call(Method::ToolsCall);
    world.verdict(CALL, key.wire(), Verdict::Unauthorized);
    assert_eq!(world.failed, [(key, Failure { cause: Cause::Unauthorized, ran: Ran::No })]);
    assert_eq!(world.state(), "unauthorized");
    assert!(matches!(world.answer(other.wire()), Outcome::Deliver { .. }));
    world.gone();
    assert_eq!(
        world.server.submit(world.now, Operation { method: Method::ToolsCall, allowance: None }),
        Err(Refusal::Unavailable(Unavailable::Unauthorized))
    );
    let mut world = World::new(config());
    let key = world.call(Method::ToolsCall);
    world.verdict(PROBE, world.wire(), Verdict::Unauthorized);
    assert_eq!(world.failed, [(key, Failure { cause: Cause::Unauthorized, ran: Ran::No })]);
    assert_eq!(world.state(), "unauthorized");
}

#[test]
fn without_a_connection_nothing_ran_and_the_session_lives() {
    let mut world = World::modern();
    for method in [Method::ToolsCall, Method::ToolsList] {
        let key = world.call(method);
        world.verdict(Carried::Request(method), key.wire(), Verdict::Unreachable);
        assert_eq!(world.failed.pop(), Some((key, Failure { cause: Cause::Unreachable, ran: Ran::No })));
        assert_eq!(world.state(), "disconnected");
    }
    let key = world.call(Method::ToolsCall);
    world.answer(key.wire());
    assert_eq!(world.state(), "live");
}

#[test]
fn a_connection_that_breaks_leaves_calls_unknown_and_reads_put_again() {
    let mut world = World::modern();
    let call = world.call(Method::ToolsCall);
    let list = world.call(Method::ToolsList);
    world.verdict(CALL, call.wire(), Verdict::Broken);
    world.sent.clear();
    world.verdict(Carried::Request(Method::ToolsList), list.wire(), Verdict::Broken);
    assert_eq!(world.failed, [(call, Failure { cause: Cause::ConnectionLost, ran: Ran::Unknown })]);
    assert_eq!(world.sent, [(list, list.wire() | REISSUED)]);
    assert!(matches!(world.answer(list.wire() | REISSUED), Outcome::Deliver { .. }));
    assert_eq!(world.state(), "live");
}

#[test]
fn the_end_of_an_exchange_cancels_at_a_modern_server_and_a_message_at_a_legacy_one() {
    for (mut world, told) in [(World::modern(), false), (World::legacy(config()), true)] {
        let key = world.call(Method::ToolsCall);
        world.server.cancel(world.now, key);
        world.drain();
        assert_eq!(world.did.contains(&"cancelled".to_string()), told);
        assert_eq!(world.failed, [(key, Failure { cause: Cause::Cancelled, ran: Ran::Unknown })]);
    }
}

#[test]
fn where_a_session_is_over_nobody_is_told_of_a_cancellation() {
    let mut world = World::legacy(config());
    let gone = world.call(Method::ToolsCall);
    let other = world.call(Method::ToolsCall);
    world.verdict(CALL, gone.wire(), Verdict::Expired { ran: Ran::No });
    world.server.cancel(world.now, other);
    world.drain();
    assert_eq!(world.failed, [(other, Failure { cause: Cause::Cancelled, ran: Ran::Unknown })]);
    assert!(!world.did.contains(&"cancelled".to_string()));
}

#[test]
fn a_server_in_trouble_is_not_taken_for_an_old_one() {
    for status in [500, 502, 503] {
        let mut world = World::new(config());
        let key = world.call(Method::ToolsCall);
        world.verdict(PROBE, world.wire(), Verdict::Refused { status, ran: Ran::Unknown });
        assert_eq!(world.server.start_error(), Some(StartError::Negotiation(NegotiationError::Http(status))));
        assert_eq!(world.failed, [(key, Failure { cause: Cause::StartFailed, ran: Ran::No })]);
        assert!(!world.did.contains(&"initialize".to_string()));
    }
    let mut world = World::new(config());
    world.verdict(PROBE, world.wire(), Verdict::Unreachable);
    assert_eq!(world.server.start_error(), Some(StartError::Negotiation(NegotiationError::Unreachable)));
}

#[test]
fn a_modern_server_that_cannot_be_asked_to_initialize_is_probed_all_the_same() {
    let refusals =
        [400, 404, 405, 401, 500, 503].map(|status| Verdict::Refused { status, ran: Ran::Unknown });
    for verdict in refusals.into_iter().chain([Verdict::Broken, Verdict::Invalid]) {
        let mut world = World::asleep(config());
        world.server.ask_for(Era::Legacy);
        let key = world.call(Method::ToolsCall);
        assert_eq!(world.asked.map(|(asked, _)| asked), Some(INITIALIZE), "{:?}", world.did);
        world.verdict(INITIALIZE, world.wire(), verdict);
        if world.did.contains(&"OpenOldStream".to_string()) {
            world.verdict(Carried::OldStream, 0, Verdict::NoStream);
        }
        assert_eq!(world.asked.map(|(asked, _)| asked), Some(PROBE), "{verdict:?}: {:?}", world.did);
        world.discovered();
        assert_eq!(world.server.revision(), Some(Revision::V2026_07_28), "{verdict:?}");
        assert!(world.server.is_live(key));
    }
}

#[test]
fn silence_is_no_verdict_over_http() {
    let mut world = World::new(config());
    world.seconds(59);
    assert!(!world.did.contains(&"initialize".to_string()));
    world.seconds(1);
    assert_eq!(world.server.start_error(), Some(StartError::Negotiation(NegotiationError::TimedOut)));
}

#[test]
fn a_server_that_takes_no_post_may_speak_the_old_transport() {
    for status in [400, 404, 405] {
        let mut world = World::new(config());
        world.verdict(PROBE, world.wire(), Verdict::Refused { status, ran: Ran::Unknown });
        world.verdict(INITIALIZE, world.wire(), Verdict::Refused { status, ran: Ran::Unknown });
        assert_eq!(world.did.last().map(String::as_str), Some("OpenOldStream"));
        world.did.clear();
        world.server.handle_endpoint(world.now);
        world.drain();
        assert_eq!(world.did, ["initialize"]);
        world.verdict(INITIALIZE, world.wire(), Verdict::Done);
        world.answer_own(r#""result":{"protocolVersion":"2024-11-05","capabilities":{}}"#);
        world.verdict(Carried::Message, 0, Verdict::Done);
        assert_eq!(world.state(), "live");
        // Its one stream carries all answers.
        let key = world.call(Method::ToolsCall);
        world.verdict(CALL, key.wire(), Verdict::Done);
        assert!(world.server.awaits(key.wire()));
        world.verdict(Carried::OldStream, 0, Verdict::Expired { ran: Ran::Unknown });
        assert_eq!(world.failed, [(key, Failure { cause: Cause::ServerLost, ran: Ran::Unknown })]);
        assert_eq!(world.state(), "expired");
    }
    // And one that does not is refused as it was.
    for verdict in [Verdict::NoStream, Verdict::Broken, Verdict::Refused { status: 405, ran: Ran::No }] {
        let mut world = World::new(config());
        world.verdict(PROBE, world.wire(), Verdict::Refused { status: 404, ran: Ran::Unknown });
        world.verdict(INITIALIZE, world.wire(), Verdict::Refused { status: 404, ran: Ran::Unknown });
        world.verdict(Carried::OldStream, 0, verdict);
        assert_eq!(world.server.start_error(), Some(StartError::Negotiation(NegotiationError::Http(404))));
    }
}

#[test]
fn a_session_that_is_forgotten_by_a_server_that_was_restarted_is_told_by_the_keepalive() {
    let mut world = World::legacy(Config {
        lifecycle: lifecycle::Config { auto_restart: true, resident: true, ..lifecycle::Config::default() },
        ..config()
    });
    world.seconds(30);
    assert_eq!(world.did, ["ping"]);
    world.verdict(Carried::Request(Method::ServerPing), world.wire(), Verdict::Expired { ran: Ran::No });
    assert_eq!(world.state(), "expired");
    world.gone();
    world.seconds(0);
    assert_eq!(world.state(), "reconnecting", "in the background");
    world.initialize_background();
    assert_eq!(world.state(), "live");
}

impl World {
    fn initialize_background(&mut self) {
        // The era is remembered.
        self.server.handle_session(self.now);
        self.answer_own(r#""result":{"protocolVersion":"2025-11-25","capabilities":{}}"#);
        self.verdict(Carried::Message, 0, Verdict::Done);
    }
}
