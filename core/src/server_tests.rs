//! The facade: what it does in which order, what a frame is taken for, and what becomes of each operation.

#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use std::borrow::ToOwned;
use std::boxed::Box;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use serde_json::{Value, json};

use self::harness::{Behaviour, Did, Disk, Fate, World};
use super::*;
use crate::lifecycle::Exit;
use crate::link::Ran;
use crate::method::Method;

#[allow(dead_code, reason = "the integration tests use the rest of it")]
#[path = "../tests/harness/mod.rs"]
mod harness;

#[path = "server/kept_tests.rs"]
mod kept;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn idle(seconds: u64) -> Config {
    let lifecycle = lifecycle::Config { idle: Some(secs(seconds)), ..lifecycle::Config::default() };
    Config { lifecycle, ..Config::default() }
}

fn resident(config: Config) -> Config {
    Config { lifecycle: lifecycle::Config { resident: true, ..config.lifecycle }, ..config }
}

/// A server that is live and was used once.
fn live(config: Config, era: Era) -> World {
    let mut world = World::new(config, era);
    world.use_it();
    world.done();
    world.executed.clear();
    world
}

/// The same, and its operations stay unanswered from now on.
fn holding(config: Config, era: Era) -> World {
    let mut world = World::new(config, era);
    world.behaviour.latency = None;
    world.act(|server, now| server.wake(now));
    world.seconds(1);
    assert_eq!(world.state(), "live");
    world.done();
    world
}

fn send(method: &str) -> Did {
    Did::Send(method.to_string())
}

fn failed(cause: Cause, ran: Ran) -> Fate {
    Fate::Failed(cause, ran)
}

// A start.

#[test]
fn an_operation_wakes_a_legacy_server() {
    let mut world = World::new(idle(60), Era::Legacy);
    world.use_it();
    assert_eq!(
        world.done(),
        [
            Did::Persist(PublicState::Connecting, 1),
            Did::Spawn(1),
            send("server/discover"),
            send("initialize"),
            send("notifications/initialized"),
            Did::Persist(PublicState::Live, 1),
            send("tools/call"),
        ]
    );
    assert_eq!(world.server.revision(), Some(Revision::V2025_11_25));
    assert_eq!(world.server.remembered(), Some(Era::Legacy));
}

#[test]
fn an_operation_wakes_a_modern_server() {
    let mut world = World::new(idle(60), Era::Modern);
    world.use_it();
    assert_eq!(
        world.done(),
        [
            Did::Persist(PublicState::Connecting, 1),
            Did::Spawn(1),
            send("server/discover"),
            Did::Persist(PublicState::Live, 1),
            send("tools/call"),
        ]
    );
    assert_eq!(world.server.revision(), Some(Revision::V2026_07_28));
}

#[test]
fn the_era_is_remembered_across_sleeps() {
    let mut world = live(resident(idle(60)), Era::Legacy);
    world.seconds(70);
    assert_eq!(world.state(), "idle");
    world.done();
    world.use_it();
    assert!(!world.done().contains(&send("server/discover")), "the probe is spared");
}

#[test]
fn an_era_that_no_longer_holds_is_found_out_anew() {
    for (before, after) in [(Era::Legacy, Era::Modern), (Era::Modern, Era::Legacy)] {
        let mut world = live(resident(idle(60)), before);
        world.seconds(70);
        world.behaviour = Behaviour::of(after);
        world.use_it();
        assert_eq!(world.server.remembered(), Some(after));
    }
}

#[test]
fn nothing_is_spawned_before_the_record_is_written() {
    let mut world = World::new(idle(60), Era::Modern);
    world.disk = Disk::Slow;
    let call = world.call("tools/call");
    world.seconds(1_000);
    assert_eq!(world.done(), [Did::Persist(PublicState::Connecting, 1)]);
    world.disk = Disk::Works;
    world.act(Server::handle_persisted);
    world.seconds(1);
    assert!(world.is_answered(call));
}

#[test]
fn a_slow_start_is_hedged_and_still_found_modern() {
    // The false-legacy trap: the probe waits in the pipe while the server starts.
    let mut world = World::new(idle(600), Era::Modern);
    world.behaviour.boot = secs(30);
    let call = world.call("tools/call");
    world.seconds(31);
    assert!(world.is_answered(call));
    assert_eq!(world.server.revision(), Some(Revision::V2026_07_28));
    assert!(!world.did.contains(&send("notifications/initialized")));
    let mut world = World::new(idle(600), Era::Legacy);
    world.behaviour.boot = secs(30);
    let call = world.call("tools/call");
    world.seconds(31);
    assert!(world.is_answered(call));
    assert_eq!(world.server.revision(), Some(Revision::V2025_11_25));
}

#[test]
fn a_server_that_dies_on_the_probe_is_started_straight() {
    let mut world = World::new(resident(idle(60)), Era::Legacy);
    world.behaviour.dies_on_probe = true;
    world.use_it();
    let did = world.done();
    assert_eq!(did.iter().filter(|did| matches!(did, Did::Spawn(_))).count(), 2, "{did:?}");
    assert_eq!(did.iter().filter(|did| **did == send("server/discover")).count(), 1, "{did:?}");
    assert_eq!(world.server.remembered(), Some(Era::Legacy));
    world.seconds(70);
    world.done();
    world.use_it();
    let did = world.done();
    assert_eq!(did.iter().filter(|did| matches!(did, Did::Spawn(_))).count(), 1, "the verdict is remembered");
}

/// What a client of that era wants of a server that never ran: how often that was started, and what it was asked.
fn asked_for(world: &mut World, era: Era) -> (usize, Vec<String>) {
    world.done();
    world.server.ask_for(era);
    world.use_it();
    let did = world.done();
    let spawns = did.iter().filter(|did| matches!(did, Did::Spawn(_))).count();
    let questions = did.into_iter().filter_map(|did| match did {
        Did::Send(method) if matches!(&*method, "server/discover" | "initialize") => Some(method),
        _ => None,
    });
    (spawns, questions.collect())
}

#[test]
fn a_server_of_both_eras_speaks_that_of_the_client_who_caused_its_start() {
    for era in ERAS {
        for boot in [10, 30_000] {
            let mut world = World::new(resident(idle(60)), Era::Modern);
            world.behaviour.both = true;
            world.behaviour.boot = Duration::from_millis(boot);
            let call = {
                world.server.ask_for(era);
                world.call("tools/call")
            };
            // Whoever comes while it starts has caused nothing.
            world.server.ask_for(if era == Era::Legacy { Era::Modern } else { Era::Legacy });
            world.call("tools/list");
            world.seconds(31);
            assert!(world.is_answered(call));
            assert_eq!(world.server.remembered(), Some(era), "{boot}");
            world.seconds(70);
            assert!(!world.has_process());
            // From then on it is known.
            for other in ERAS {
                world.server.ask_for(other);
                world.call("tools/call");
                world.seconds(31);
                assert_eq!(world.server.revision().map(Revision::era), Some(era));
                world.seconds(70);
            }
        }
    }
    // drowse's own starts ask for the modern era first.
    let mut world = World::new(idle(60), Era::Modern);
    world.behaviour.both = true;
    world.act(|server, now| server.wake(now));
    world.server.ask_for(Era::Legacy);
    world.call("tools/call");
    world.seconds(1);
    assert_eq!(world.server.revision(), Some(Revision::V2026_07_28));
}

#[test]
fn servers_of_one_era_are_found_whoever_wants_them() {
    let both = ["initialize".to_owned(), "server/discover".to_owned()];
    // It refuses `initialize`.
    let mut world = World::new(idle(60), Era::Modern);
    assert_eq!(asked_for(&mut world, Era::Legacy), (1, both.to_vec()));
    assert_eq!(world.server.remembered(), Some(Era::Modern));
    let mut world = World::new(idle(60), Era::Modern);
    assert_eq!(asked_for(&mut world, Era::Modern), (1, both[1..].to_vec()));
    let mut world = World::new(idle(60), Era::Legacy);
    assert_eq!(asked_for(&mut world, Era::Legacy), (1, both[..1].to_vec()));
    let mut world = World::new(idle(60), Era::Legacy);
    assert_eq!(asked_for(&mut world, Era::Modern).0, 1);
    // It dies on it, and is not asked that again.
    let mut world = World::new(resident(idle(60)), Era::Modern);
    world.behaviour.dies_on_initialize = true;
    assert_eq!(asked_for(&mut world, Era::Legacy), (2, both.to_vec()));
    assert_eq!(world.server.remembered(), Some(Era::Modern));
    world.seconds(70);
    assert_eq!(asked_for(&mut world, Era::Legacy), (1, both[1..].to_vec()));
    // It dies on both.
    let mut world = World::new(idle(60), Era::Modern);
    (world.behaviour.dies_on_initialize, world.behaviour.dies_on_probe) = (true, true);
    world.server.ask_for(Era::Legacy);
    let call = world.call("tools/call");
    world.seconds(10);
    assert_eq!(world.fate(call), &failed(Cause::StartFailed, Ran::No));
    assert_eq!(world.server.remembered(), None);
    // A pin is stronger.
    let mut world = World::new(Config { pin: Pin::Era(Era::Modern), ..idle(60) }, Era::Modern);
    world.behaviour.both = true;
    assert_eq!(asked_for(&mut world, Era::Legacy), (1, both[1..].to_vec()));
}

#[test]
fn a_start_of_drowses_own_goes_on_for_whoever_caused_the_one_before() {
    let mut world = World::new(resident(idle(600)), Era::Modern);
    world.behaviour.both = true;
    world.behaviour.mute = true;
    world.server.ask_for(Era::Legacy);
    world.call("tools/call");
    world.seconds(61);
    world.behaviour.mute = false;
    world.act(Server::restart);
    world.seconds(1);
    assert_eq!(world.server.remembered(), Some(Era::Legacy));
}

#[test]
fn a_silent_server_fails_its_start_at_the_connect_limit() {
    let mut world = World::new(idle(600), Era::Legacy);
    world.behaviour.mute = true;
    let calls = [world.call("tools/call"), world.call("tools/list")];
    world.pass(Duration::from_millis(59_999));
    assert_eq!(world.state(), "connecting");
    world.pass(Duration::from_millis(1));
    for call in calls {
        assert_eq!(*world.fate(call), failed(Cause::StartFailed, Ran::No));
    }
    assert_eq!(world.server.start_error(), Some(StartError::Negotiation(NegotiationError::TimedOut)));
    assert!(world.did.contains(&Did::Kill), "no grace for what was never ready");
    world.seconds(1);
    assert_eq!(world.state(), "crashed");
    assert_eq!(world.done().last(), Some(&Did::Retire));
}

#[test]
fn an_era_under_which_a_start_failed_is_not_trusted_again() {
    let config = Config { remembered: Some(Era::Legacy), ..resident(idle(600)) };
    let mut world = World::new(config, Era::Legacy);
    world.behaviour.mute = true;
    world.call("tools/call");
    world.seconds(61);
    assert_eq!(world.server.remembered(), None);
    world.behaviour.mute = false;
    world.done();
    world.use_it();
    assert!(world.done().contains(&send("server/discover")));
}

#[test]
fn a_program_that_is_not_there() {
    let mut world = World::new(idle(600), Era::Modern);
    world.can_spawn = false;
    let call = world.call("tools/call");
    assert_eq!(*world.fate(call), failed(Cause::StartFailed, Ran::No));
    assert_eq!(world.server.start_error(), Some(StartError::NotSpawned));
    assert_eq!(world.done().last(), Some(&Did::Retire));
}

#[test]
fn a_disk_that_is_full() {
    let mut world = World::new(idle(600), Era::Modern);
    world.disk = Disk::Full;
    let call = world.call("tools/call");
    assert_eq!(*world.fate(call), failed(Cause::NotPersisted, Ran::No));
    assert_eq!(world.server.start_error(), Some(StartError::NotPersisted));
    let did = world.done();
    assert!(!did.iter().any(|did| matches!(did, Did::Spawn(_))), "{did:?}");
    assert_eq!(did.last(), Some(&Did::Retire));
}

#[test]
fn a_disk_that_fills_up_does_not_keep_the_server() {
    let mut world = live(idle(60), Era::Modern);
    world.disk = Disk::Full;
    world.seconds(61);
    assert!(!world.has_process());
    assert_eq!(world.done().last(), Some(&Did::Retire));
}

#[test]
fn a_wake_needs_no_operation() {
    let mut world = World::new(idle(60), Era::Legacy);
    world.act(|server, now| server.wake(now));
    world.pass(Duration::from_millis(10));
    assert_eq!(world.state(), "live");
    assert_eq!(world.awaits(), Some((60_000, Reason::Idle)));
}

// Frames.

#[test]
fn frames_of_a_server_that_does_not_run_are_stale() {
    let mut world = World::new(idle(60), Era::Legacy);
    let frame = br#"{"jsonrpc":"2.0","id":65535,"result":{"supportedVersions":["2026-07-28"]}}"#;
    assert_eq!(world.act(|server, now| server.handle_frame(now, frame)), Outcome::Ignored(Ignored::Stale));
    world.disk = Disk::Slow;
    world.call("tools/call");
    assert_eq!(world.act(|server, now| server.handle_frame(now, frame)), Outcome::Ignored(Ignored::Stale));
    assert_eq!(world.state(), "connecting");
}

#[test]
fn answers_that_nobody_waits_for() {
    for era in ERAS {
        let mut world = holding(idle(600), era);
        let call = world.call("tools/call");
        world.seconds(1);
        let wire = world.key(call).wire();
        let body = r#""result":{"content":[]}"#;
        for id in [
            (wire + 1).to_string(),
            (wire + 0x1_0000).to_string(),
            format!("\"{wire}\""),
            "-1".to_string(),
            "65535".to_string(),
        ] {
            let frame = format!(r#"{{"jsonrpc":"2.0","id":{id},{body}}}"#);
            let outcome = world.act(|server, now| server.handle_frame(now, frame.as_bytes()));
            assert!(
                matches!(outcome, Outcome::Ignored(Ignored::Unasked | Ignored::Internal)),
                "{id}: {outcome:?}"
            );
        }
        world.answer();
        assert!(world.is_answered(call));
        let frame = format!(r#"{{"jsonrpc":"2.0","id":{wire},{body}}}"#);
        let outcome = world.act(|server, now| server.handle_frame(now, frame.as_bytes()));
        assert_eq!(outcome, Outcome::Ignored(Ignored::Unasked), "an answer that comes twice");
    }
}

#[test]
fn an_answer_to_a_request_that_was_not_sent_yet_is_not_believed() {
    let mut world = World::new(idle(600), Era::Legacy);
    let call = world.call("tools/call");
    let wire = world.key(call).wire();
    let frame = format!(r#"{{"jsonrpc":"2.0","id":{wire},"result":{{}}}}"#);
    let outcome = world.act(|server, now| server.handle_frame(now, frame.as_bytes()));
    assert_eq!(outcome, Outcome::Ignored(Ignored::Unasked));
    world.seconds(1);
    assert!(world.is_answered(call));
    assert_eq!(world.executed.len(), 1);
}

#[test]
fn faulty_answers_fail_their_request_and_nothing_else() {
    for (body, cause) in [
        (r#""result":[]"#, Cause::InvalidAnswer),
        (r#""result":{},"error":{}"#, Cause::InvalidAnswer),
        (r#""result":{},"result":{}"#, Cause::InvalidAnswer),
    ] {
        let mut world = holding(idle(600), Era::Modern);
        let (call, other) = (world.call("tools/call"), world.call("tools/call"));
        let frame = format!(r#"{{"jsonrpc":"2.0","id":{},{body}}}"#, world.key(call).wire());
        let outcome = world.act(|server, now| server.handle_frame(now, frame.as_bytes()));
        assert!(matches!(outcome, Outcome::Ignored(Ignored::Malformed(_))));
        assert_eq!(*world.fate(call), failed(cause, Ran::Unknown), "{body}");
        assert_eq!(*world.fate(other), Fate::Open);
        assert_eq!(world.state(), "live");
    }
}

#[test]
fn an_answer_over_the_limit_fails_its_request_and_nothing_else() {
    let mut world = holding(idle(600), Era::Legacy);
    let (call, other) = (world.call("resources/read"), world.call("tools/call"));
    let id = world.key(call).wire().to_string();
    world.act(|server, now| server.handle_oversize(now, Some(id.as_bytes()), false));
    assert_eq!(*world.fate(call), Fate::Open, "a request with that id is the server's own");
    world.act(|server, now| server.handle_oversize(now, None, true));
    world.act(|server, now| server.handle_oversize(now, Some(b"\"x\""), true));
    world.act(|server, now| server.handle_oversize(now, Some(id.as_bytes()), true));
    assert_eq!(*world.fate(call), failed(Cause::TooLarge, Ran::Unknown));
    assert_eq!(*world.fate(other), Fate::Open);
}

#[test]
fn garbage_changes_nothing() {
    let mut world = live(idle(60), Era::Legacy);
    let before = (world.awaits(), world.state());
    for frame in [
        "",
        "x",
        "{",
        "[]",
        "7",
        "null",
        "{}",
        "[[[[",
        r#"{"jsonrpc":"2.0"}"#,
        "\u{feff}{}",
        "Listening on port 3000",
    ] {
        let outcome = world.act(|server, now| server.handle_frame(now, frame.as_bytes()));
        assert!(matches!(outcome, Outcome::Ignored(Ignored::Malformed(_))), "{frame}");
    }
    assert_eq!((world.awaits(), world.state()), before);
    assert!(world.done().is_empty());
}

#[test]
fn garbage_before_the_handshake_does_not_stop_it() {
    for era in ERAS {
        let mut world = World::new(idle(60), era);
        let call = world.call("tools/call");
        for frame in ["Server starting…", "", "{\"level\":\"info\"}", "[]"] {
            world.act(|server, now| server.handle_frame(now, frame.as_bytes()));
        }
        world.seconds(1);
        assert!(world.is_answered(call));
    }
}

#[test]
fn a_handshake_that_is_no_message_fails_at_once_and_says_so() {
    for oversize in [false, true] {
        let mut world = World::new(resident(idle(60)), Era::Legacy);
        world.behaviour.mute = true;
        let call = world.call("tools/call");
        // The probe's id, then that of `initialize`.
        for id in [0xffff, 0x3_ffff] {
            world.act(|server, now| {
                if oversize {
                    server.handle_oversize(now, Some(id.to_string().as_bytes()), true);
                } else {
                    let frame = format!(r#"{{"id":{id},"result":null}}"#);
                    server.handle_frame(now, frame.as_bytes());
                }
            });
        }
        assert_eq!(*world.fate(call), failed(Cause::StartFailed, Ran::No));
        let error = StartError::Negotiation(NegotiationError::InvalidAnswer);
        assert_eq!(world.server.start_error(), Some(error));
    }
}

#[test]
fn what_a_legacy_server_asks_is_answered_or_declined() {
    let mut world = live(idle(60), Era::Legacy);
    let ping = br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#;
    assert!(matches!(world.server.handle_frame(world.now(), ping), Outcome::Pong { .. }));
    let roots = br#"{"jsonrpc":"2.0","id":3,"method":"roots/list"}"#;
    assert!(matches!(world.server.handle_frame(world.now(), roots), Outcome::Asked(_)));
    let log = br#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
    assert!(matches!(world.server.handle_frame(world.now(), log), Outcome::Notification { .. }));
    let batch = br#"[{"jsonrpc":"2.0","id":"a","method":"ping"}]"#;
    assert!(matches!(world.server.handle_frame(world.now(), batch), Outcome::Batch(_)));
}

#[test]
fn a_modern_server_must_not_ask() {
    let mut world = live(idle(60), Era::Modern);
    for method in ["ping", "roots/list", "elicitation/create"] {
        let frame = json!({"jsonrpc": "2.0", "id": 1, "method": method}).to_string();
        assert_eq!(
            world.server.handle_frame(world.now(), frame.as_bytes()),
            Outcome::Ignored(Ignored::Forbidden)
        );
    }
}

#[test]
fn an_error_without_an_id_belongs_to_nobody() {
    let mut world = holding(idle(60), Era::Legacy);
    let call = world.call("tools/call");
    world.writes(json!({"jsonrpc": "2.0", "id": Value::Null, "error": {"code": -32700, "message": "?"}}));
    assert_eq!(*world.fate(call), Fate::Open);
}

// Requests.

#[test]
fn a_timed_out_request_is_cancelled_and_the_session_lives() {
    for era in ERAS {
        let mut world = holding(idle(600), era);
        let call = world.call("tools/call");
        world.seconds(299);
        assert_eq!(*world.fate(call), Fate::Open);
        world.seconds(1);
        assert_eq!(*world.fate(call), failed(Cause::TimedOut, Ran::Unknown));
        world.seconds(1);
        assert_eq!(world.cancelled, 1);
        assert_eq!(world.state(), "live");
        assert_eq!(world.executed.len(), 1);
        let next = world.call("tools/call");
        world.pass(Duration::ZERO);
        world.answer();
        assert!(world.is_answered(next));
    }
}

#[test]
fn progress_keeps_a_request_alive_up_to_its_maximum() {
    for era in ERAS {
        let mut world = holding(idle(600), era);
        let call = world.call("tools/call");
        for _ in 0..17 {
            world.seconds(200);
            world.progresses();
        }
        assert_eq!(*world.fate(call), Fate::Open);
        assert_eq!(world.progress, 17);
        world.seconds(200);
        assert_eq!(*world.fate(call), failed(Cause::TimedOut, Ran::Unknown), "after an hour");
    }
}

#[test]
fn a_request_may_bring_its_own_allowance() {
    let mut world = holding(idle(600), Era::Legacy);
    let allowance = Allowance { quiet: secs(5), total: secs(5) };
    let operation = Operation { method: Method::ToolsCall, allowance: Some(allowance) };
    let key = world.server.submit(world.now(), operation).unwrap();
    assert!(matches!(world.server.poll_action(), Some(Action::Send { .. })));
    world.server.handle_sent(key);
    assert_eq!(world.awaits(), Some((5_000, Reason::Request)));
}

#[test]
fn a_cancelled_request_frees_its_slot_and_counts_as_ended() {
    let mut world = holding(idle(600), Era::Legacy);
    let call = world.call("tools/call");
    world.seconds(100);
    world.cancel(call);
    assert_eq!(*world.fate(call), failed(Cause::Cancelled, Ran::Unknown));
    assert_eq!(world.awaits(), Some((600_000, Reason::Idle)));
    world.pass(Duration::ZERO);
    assert_eq!(world.cancelled, 1);
}

#[test]
fn a_request_cancelled_while_the_server_starts_is_never_sent() {
    let mut world = World::new(idle(600), Era::Legacy);
    let (call, other) = (world.call("tools/call"), world.call("tools/call"));
    world.cancel(call);
    assert_eq!(*world.fate(call), failed(Cause::Cancelled, Ran::No));
    world.seconds(1);
    assert!(world.is_answered(other));
    assert_eq!(world.executed, ["tools/call 1"]);
    assert_eq!(world.cancelled, 0);
}

#[test]
fn more_requests_than_slots_are_refused_and_change_nothing() {
    let mut world = holding(idle(600), Era::Legacy);
    for _ in 0..8 {
        world.call("tools/call");
    }
    world.seconds(5);
    let before = format!("{:?}", world.server);
    let later = world.now().after(secs(1));
    let operation = Operation { method: Method::ToolsCall, allowance: None };
    assert_eq!(world.server.submit(later, operation), Err(Refusal::Full));
    assert_eq!(format!("{:?}", world.server), before);
    world.pass(Duration::ZERO);
    world.answer();
    world.call("tools/call");
}

#[test]
fn nobody_takes_all_the_room_there_is() {
    let mut world = holding(idle(600), Era::Legacy);
    // Nobody has more than all: while that is little, nobody counts.
    for _ in 0..6 {
        assert!(world.server.has_room_for(|| panic!("it does not matter")));
        world.call("tools/call");
    }
    assert!(world.server.has_room_for(|| 6));
    world.call("tools/call");
    // One is left: for who has less than four.
    assert!([0, 3].iter().all(|theirs| world.server.has_room_for(|| *theirs)));
    assert!([4, 7].iter().all(|theirs| !world.server.has_room_for(|| *theirs)));
    world.call("tools/call");
    assert!(!world.server.has_room_for(|| 0));
}

#[test]
fn an_unavailable_server_refuses_and_changes_nothing() {
    let mut world = live(idle(600), Era::Legacy);
    world.act(Server::close);
    let before = format!("{:?}", world.server);
    let operation = Operation { method: Method::ToolsCall, allowance: None };
    let refusal = Refusal::Unavailable(Unavailable::ShuttingDown);
    assert_eq!(world.server.submit(world.now().after(secs(1)), operation), Err(refusal));
    assert_eq!(format!("{:?}", world.server), before);
}

#[test]
fn a_full_input_keeps_requests_queued() {
    let mut world = live(idle(600), Era::Modern);
    world.server.set_writable(false);
    let (call, other) = (world.call("tools/call"), world.call("tools/call"));
    world.seconds(100);
    assert!(world.executed.is_empty());
    world.cancel(call);
    assert_eq!(*world.fate(call), failed(Cause::Cancelled, Ran::No));
    world.seconds(200);
    assert_eq!(*world.fate(other), failed(Cause::TimedOut, Ran::No));
    let next = world.call("tools/call");
    world.act(|server, _| server.set_writable(true));
    world.seconds(1);
    assert!(world.is_answered(next));
}

#[test]
fn what_the_server_said_of_itself_is_answered_once_it_is_ready() {
    for era in ERAS {
        let mut world = World::new(idle(60), era);
        let call = world.call("drowse/info");
        assert_eq!(*world.fate(call), Fate::Open);
        world.pass(Duration::from_millis(10));
        assert!(world.is_answered(call));
        assert!(world.executed.is_empty(), "the server is not bothered");
    }
}

#[test]
fn a_server_that_only_negotiates_and_crashes_is_not_one_that_works() {
    let mut world = World::new(resident(idle(60)), Era::Modern);
    for _ in 0..2 {
        world.call("drowse/info");
        world.pass(Duration::from_millis(10));
        world.exits(Exit::Status(1));
    }
    let refusal = world.try_call("drowse/info").unwrap_err();
    assert!(matches!(refusal, Refusal::Unavailable(Unavailable::BackingOff(_))), "{refusal:?}");
}

#[test]
fn a_ping_asks_in_the_servers_own_era() {
    for (era, method) in [(Era::Legacy, "ping"), (Era::Modern, "server/discover")] {
        let mut world = live(idle(60), era);
        let call = world.call("drowse/ping");
        assert_eq!(world.done(), [send(method)]);
        world.pass(Duration::ZERO);
        assert!(world.is_answered(call), "{era:?}: {world:#?}");
    }
}

// A server that ends.

#[test]
fn what_was_sent_fails_and_what_waits_is_served_by_the_next_generation() {
    for era in ERAS {
        let mut world = holding(idle(600), era);
        let (call, read) = (world.call("tools/call"), world.call("resources/read"));
        world.pass(Duration::ZERO);
        world.server.set_writable(false);
        let waiting = world.call("tools/call");
        world.behaviour.latency = Some(Duration::ZERO);
        world.exits(Exit::Signal(9));
        assert_eq!(*world.fate(call), failed(Cause::ServerLost, Ran::Unknown));
        world.seconds(1);
        assert!(world.is_answered(read), "what only reads is issued anew");
        assert!(world.is_answered(waiting));
        let count = |call: &str| world.executed.iter().filter(|executed| executed.ends_with(call)).count();
        assert_eq!((count(" 0"), count(" 1"), count(" 2")), (1, 2, 1));
    }
}

#[test]
fn a_server_that_closes_its_output_and_stays_is_ended() {
    let mut world = World::new(resident(idle(600)), Era::Modern);
    world.behaviour.ignores_eof = true;
    world.behaviour.latency = None;
    let call = world.call("tools/call");
    world.seconds(1);
    world.done();
    world.seconds(10);
    world.act(Server::handle_lost);
    assert_eq!(*world.fate(call), failed(Cause::ServerLost, Ran::Unknown));
    assert_eq!(world.done(), [Did::Persist(PublicState::Crashed, 1), Did::CloseInput]);
    world.pass(Duration::from_millis(2_100));
    assert!(!world.has_process(), "it was told to terminate");
    assert_eq!(world.state(), "crashed");
    world.behaviour = Behaviour::of(Era::Modern);
    world.use_it();
}

#[test]
fn a_server_that_closes_its_output_before_the_handshake_is_not_waited_for() {
    let mut world = World::new(resident(idle(600)), Era::Legacy);
    world.behaviour.mute = true;
    let call = world.call("tools/call");
    world.seconds(1);
    world.behaviour.mute = false;
    world.act(Server::handle_lost);
    world.seconds(1);
    assert!(world.is_answered(call), "it was started once more, for it may have died on the probe");
    let mut world = World::new(Config { pin: Pin::Era(Era::Modern), ..resident(idle(600)) }, Era::Legacy);
    world.behaviour.mute = true;
    let call = world.call("tools/call");
    world.act(Server::handle_lost);
    assert_eq!(*world.fate(call), failed(Cause::StartFailed, Ran::No));
    assert_eq!(world.server.start_error(), Some(StartError::Negotiation(NegotiationError::Ended)));
}

#[test]
fn a_request_that_kills_its_server_every_time_ends_too() {
    let mut world = holding(resident(idle(600)), Era::Modern);
    let read = world.call("resources/read");
    world.pass(Duration::ZERO);
    world.exits(Exit::Signal(11));
    world.seconds(1);
    assert_eq!(world.state(), "live");
    world.exits(Exit::Signal(11));
    assert_eq!(*world.fate(read), failed(Cause::ServerLost, Ran::Unknown));
}

#[test]
fn an_operation_during_the_drain_is_served_by_the_next_generation() {
    for era in ERAS {
        for at in [0, 1, 1_999, 2_000, 3_999, 4_000, 4_009] {
            let mut world = World::new(idle(60), era);
            world.behaviour.ignores_eof = true;
            world.behaviour.ignores_terminate = true;
            world.use_it();
            world.pass(Duration::from_millis(60_000 + at));
            assert_eq!(world.state(), "idle");
            assert!(world.has_process(), "it is being ended");
            let call = world.call("tools/call");
            assert_eq!(*world.fate(call), Fate::Open);
            world.seconds(6);
            assert!(world.is_answered(call), "{at} ms into the drain");
            assert_eq!(world.executed, ["tools/call 0", "tools/call 1"]);
            assert!(!world.done().contains(&Did::Retire));
            assert_eq!(world.record.unwrap().generation, 2);
        }
    }
}

#[test]
fn the_time_of_a_drain_is_not_taken_from_an_operation() {
    let allowance = Allowance { quiet: secs(1), total: secs(1) };
    let mut world = World::new(Config { allowance, ..idle(60) }, Era::Modern);
    world.behaviour.ignores_eof = true;
    world.behaviour.ignores_terminate = true;
    world.behaviour.boot = secs(3);
    let first = world.call("tools/call");
    world.seconds(4);
    assert!(world.is_answered(first), "nor is that of a start");
    world.seconds(60);
    assert_eq!(world.state(), "idle");
    let call = world.call("tools/call");
    world.seconds(6);
    assert_eq!(*world.fate(call), Fate::Open);
    world.seconds(2);
    assert!(world.is_answered(call));
}

#[test]
fn a_start_that_succeeds_has_no_error() {
    let mut world = World::new(resident(idle(60)), Era::Modern);
    world.can_spawn = false;
    world.call("tools/call");
    assert_eq!(world.server.start_error(), Some(StartError::NotSpawned));
    world.can_spawn = true;
    world.use_it();
    assert_eq!(world.server.start_error(), None);
}

#[test]
fn a_tree_that_cannot_be_killed_holds_nobody_up_for_ever() {
    let mut world = World::new(resident(idle(60)), Era::Legacy);
    world.behaviour =
        Behaviour { ignores_eof: true, ignores_terminate: true, ignores_kill: true, ..world.behaviour };
    world.use_it();
    world.seconds(60);
    let (call, cancelled) = (world.call("tools/call"), world.call("tools/call"));
    world.seconds(4);
    assert_eq!(world.done().last(), Some(&Did::Kill));
    world.cancel(cancelled);
    assert_eq!(world.awaits(), Some((10_000, Reason::Killed)));
    world.pass(Duration::from_millis(9_999));
    assert_eq!(*world.fate(call), Fate::Open);
    world.pass(Duration::from_millis(1));
    assert_eq!(*world.fate(call), failed(Cause::Unkillable, Ran::No));
    assert_eq!(world.awaits(), None);
    world.seconds(1_000);
    assert_eq!(world.try_call("tools/call"), Err(Refusal::Unavailable(Unavailable::Unkillable)));
    // Once it is gone after all, everything is as ever.
    world.behaviour = Behaviour::of(Era::Legacy);
    world.vanishes();
    world.use_it();
}

#[test]
fn a_killed_tree_that_nobody_waits_for_is_nobodys_timer() {
    let mut world = World::new(resident(idle(60)), Era::Legacy);
    world.behaviour = Behaviour { ignores_kill: true, mute: true, ..world.behaviour };
    let call = world.call("tools/call");
    world.seconds(61);
    assert_eq!(*world.fate(call), failed(Cause::StartFailed, Ran::No));
    assert_eq!(world.awaits(), None);
}

#[test]
fn a_failure_is_written_down_before_its_callers_hear_of_it() {
    let mut world = holding(idle(600), Era::Modern);
    let call = world.call("tools/call");
    world.pass(Duration::ZERO);
    world.server.handle_exited(world.now(), Exit::Signal(9));
    let first = world.server.poll_action();
    assert!(
        matches!(first, Some(Action::Persist(record)) if record.state == PublicState::Crashed),
        "{first:?}"
    );
    world.server.handle_persisted(world.now());
    world.drain();
    assert_eq!(*world.fate(call), failed(Cause::ServerLost, Ran::Unknown));
}

#[test]
fn a_retired_server_refuses_so_that_the_caller_starts_another() {
    let mut world = live(idle(60), Era::Legacy);
    world.seconds(61);
    assert_eq!(world.done().last(), Some(&Did::Retire));
    assert_eq!(world.try_call("tools/call").unwrap_err(), Refusal::Unavailable(Unavailable::ShuttingDown));
}

#[test]
fn a_server_that_leaves_when_it_is_not_needed_is_idle() {
    for era in ERAS {
        let mut world = World::new(idle(60), era);
        world.behaviour.leaves_after = Some(secs(5));
        world.use_it();
        world.seconds(6);
        assert_eq!(world.state(), "idle");
        assert_eq!(world.done().last(), Some(&Did::Retire));
    }
}

#[test]
fn a_server_that_keeps_failing_its_start_backs_off() {
    let config = Config { pin: Pin::Era(Era::Legacy), ..resident(idle(60)) };
    let mut world = World::new(config, Era::Legacy);
    world.behaviour.mute = true;
    for _ in 0..2 {
        let call = world.call("tools/call");
        world.exits(Exit::Status(1));
        assert_eq!(*world.fate(call), failed(Cause::StartFailed, Ran::No));
    }
    assert!(matches!(world.try_call("tools/call"), Err(Refusal::Unavailable(Unavailable::BackingOff(_)))));
    world.pass(Duration::from_millis(250));
    world.call("tools/call");
}

#[test]
fn operations_that_come_while_a_failed_start_is_cleared_away_get_one_of_their_own() {
    let mut world = World::new(resident(idle(60)), Era::Legacy);
    world.behaviour.mute = true;
    let call = world.call("tools/call");
    world.seconds(60);
    assert_eq!(*world.fate(call), failed(Cause::StartFailed, Ran::No));
    assert!(world.has_process(), "it is being killed");
    world.behaviour.mute = false;
    let next = world.call("tools/call");
    world.seconds(1);
    assert!(world.is_answered(next));
}

#[test]
fn the_end_of_a_tree_that_nobody_awaited_is_a_crash() {
    for era in ERAS {
        let mut world = live(resident(idle(60)), era);
        world.vanishes();
        assert_eq!(world.state(), "crashed", "a machine that is live without a process would be stuck");
        assert_eq!(world.server.revision(), None);
    }
}

#[test]
fn the_end_of_a_tree_before_the_handshake_is_a_failed_start() {
    let mut world = World::new(resident(idle(60)), Era::Modern);
    let call = world.call("tools/call");
    world.vanishes();
    // Whoever was asked may have died on the question.
    assert_eq!(world.state(), "connecting");
    assert_eq!(*world.fate(call), Fate::Open);
}

#[test]
fn close_ends_the_child_and_fails_what_is_under_way() {
    for era in ERAS {
        let mut world = holding(idle(600), era);
        let sent = world.call("tools/call");
        world.server.set_writable(false);
        let queued = world.call("tools/call");
        world.act(Server::close);
        assert_eq!(*world.fate(sent), failed(Cause::ShuttingDown, Ran::Unknown));
        assert_eq!(*world.fate(queued), failed(Cause::ShuttingDown, Ran::No));
        assert_eq!(world.state(), "closed");
        world.seconds(1);
        assert!(!world.has_process());
        assert_eq!(world.done().last(), Some(&Did::Retire));
    }
}

#[test]
fn close_while_the_probe_is_unanswered_ends_the_child_at_once() {
    let mut world = World::new(idle(600), Era::Legacy);
    world.behaviour.mute = true;
    let call = world.call("tools/call");
    world.seconds(1);
    world.done();
    world.act(Server::close);
    assert_eq!(*world.fate(call), failed(Cause::ShuttingDown, Ran::No));
    assert_eq!(world.done(), [Did::Persist(PublicState::Closed, 1), Did::Kill]);
    world.seconds(1);
    assert_eq!(world.done(), [Did::Persist(PublicState::Closed, 1), Did::Retire]);
}

#[test]
fn close_of_a_server_that_never_ran() {
    let mut world = World::new(idle(600), Era::Legacy);
    world.act(Server::close);
    assert_eq!(world.done(), [Did::Persist(PublicState::Closed, 0), Did::Retire]);
}

#[test]
fn a_session_that_the_server_ended() {
    let mut world = holding(resident(Config::default()), Era::Legacy);
    let (call, read) = (world.call("tools/call"), world.call("tools/list"));
    world.behaviour.latency = Some(Duration::ZERO);
    world.act(Server::handle_expired);
    assert_eq!(world.state(), "expired");
    assert_eq!(*world.fate(call), failed(Cause::ServerLost, Ran::Unknown));
    world.seconds(1);
    assert!(world.is_answered(read), "by a fresh session");
}

#[test]
fn a_session_whose_end_is_final() {
    let config = lifecycle::Config { fail_on_expiry: true, resident: true, ..lifecycle::Config::default() };
    let mut world = holding(Config { lifecycle: config, ..Config::default() }, Era::Legacy);
    let read = world.call("tools/list");
    world.act(Server::handle_expired);
    world.seconds(1);
    assert_eq!(*world.fate(read), failed(Cause::Expired, Ran::Unknown));
    assert_eq!(world.try_call("tools/call"), Err(Refusal::Unavailable(Unavailable::Expired)));
}

#[test]
fn credentials_that_are_refused() {
    let mut world = holding(resident(idle(60)), Era::Legacy);
    world.server.set_writable(false);
    let queued = world.call("tools/call");
    world.act(Server::handle_unauthorized);
    assert_eq!(*world.fate(queued), failed(Cause::Unauthorized, Ran::No));
    world.seconds(1);
    assert_eq!(world.state(), "unauthorized");
    assert_eq!(world.try_call("tools/call"), Err(Refusal::Unavailable(Unavailable::Unauthorized)));
    // In the handshake.
    let mut world = World::new(resident(idle(60)), Era::Legacy);
    let call = world.call("tools/call");
    world.act(Server::handle_unauthorized);
    assert_eq!(*world.fate(call), failed(Cause::Unauthorized, Ran::No));
    world.seconds(1);
    assert_eq!(world.state(), "unauthorized");
}

// Keepalive.

fn keepalive(seconds: u64) -> Config {
    Config { keepalive: Some(secs(seconds)), ..Config::default() }
}

#[test]
fn a_silent_server_is_asked_and_shown_as_disconnected() {
    for (era, method) in [(Era::Legacy, "ping"), (Era::Modern, "server/discover")] {
        let mut world = live(keepalive(30), era);
        world.seconds(29);
        assert!(world.done().is_empty());
        assert_eq!(world.awaits().unwrap().1, Reason::Keepalive);
        world.seconds(60);
        assert!(world.done().iter().filter(|did| **did == send(method)).count() >= 2);
        assert_eq!(world.state(), "live");
    }
}

#[test]
fn a_server_that_does_not_answer_the_keepalive_is_disconnected_until_it_is_heard() {
    let mut world = World::new(keepalive(30), Era::Legacy);
    world.behaviour.latency = None;
    world.act(|server, now| server.wake(now));
    world.seconds(1);
    let call = world.call("tools/call");
    world.pass(Duration::ZERO);
    // Whatever it is asked from now on is lost.
    world.server.handle_timeout(world.now().after(secs(31)));
    while world.server.poll_action().is_some() {}
    world.server.handle_timeout(world.now().after(secs(62)));
    assert_eq!(world.state(), "disconnected");
    world.answer();
    assert!(world.is_answered(call));
    assert_eq!(world.state(), "live");
}

#[test]
fn the_keepalive_counts_from_the_handshake() {
    for era in ERAS {
        let mut world = World::new(keepalive(30), era);
        world.act(|server, now| server.wake(now));
        world.pass(Duration::from_millis(10));
        assert_eq!(world.state(), "live");
        assert_eq!(world.awaits(), Some((30_000, Reason::Keepalive)));
    }
}

#[test]
fn a_keepalive_of_nothing_is_none() {
    let mut world = live(keepalive(0), Era::Legacy);
    assert_eq!(world.awaits(), None);
    world.seconds(1_000);
    assert!(world.done().is_empty());
}

#[test]
fn an_idle_stdio_server_has_no_timer_but_the_idle_deadline() {
    let world = live(idle(60), Era::Modern);
    assert_eq!(world.awaits().unwrap().1, Reason::Idle);
    let world = live(Config::default(), Era::Modern);
    assert_eq!(world.awaits(), None, "and without an idle period none at all");
}

// Acknowledgements that lie.

#[test]
fn news_of_a_spawn_that_come_twice_are_no_second_start() {
    let mut world = World::new(idle(60), Era::Legacy);
    let call = world.call("tools/call");
    world.act(Server::handle_spawned);
    world.seconds(1);
    world.act(Server::handle_spawned);
    assert!(world.is_answered(call));
    assert_eq!(world.done().iter().filter(|did| **did == send("server/discover")).count(), 1);
}

#[test]
fn a_spawn_that_failed_after_all_leaves_nothing_behind() {
    let mut world = World::new(resident(idle(60)), Era::Legacy);
    let mut server: Server<Box<[Slot]>> = world.server.clone();
    world.server.wake(world.now());
    server.wake(world.now());
    for _ in 0..2 {
        while let Some(action) = server.poll_action() {
            match action {
                Action::Persist(_) => server.handle_persisted(world.now()),
                Action::Spawn { .. } => {
                    server.handle_spawned(world.now());
                    server.handle_spawn_failed(world.now());
                }
                Action::SendOwn(own) => panic!("{own:?} to a process that is not there"),
                _ => {}
            }
        }
        assert_eq!(server.state(), PublicState::Crashed);
        assert_eq!(server.poll_timeout(), None);
        server.wake(world.now());
    }
}

#[test]
fn a_log_level_is_told_to_each_legacy_server_and_to_a_modern_one_with_requests() {
    for era in ERAS {
        let mut world = World::new(resident(idle(60)), era);
        world.act(|server, _| server.set_level(Some(Level::Warning)));
        for _ in 0..2 {
            world.use_it();
            let done = world.done();
            let live = done.iter().position(|did| matches!(did, Did::Persist(PublicState::Live, _))).unwrap();
            let wanted = [send("logging/setLevel"), send("tools/call")];
            let told = usize::from(era == Era::Modern);
            assert_eq!(done.get(live + 1..), wanted.get(told..));
            world.seconds(70);
            assert_eq!(world.state(), "idle");
            world.done();
        }
        // A caller that sets one uses the server, whatever its era.
        let call = world.call("logging/setLevel");
        world.seconds(1);
        assert!(world.is_answered(call));
        let sent = world.done().contains(&send("logging/setLevel"));
        assert_eq!((world.state(), sent), ("live", era == Era::Legacy));
        // Without a level nothing is told.
        world.act(|server, _| server.set_level(None));
        world.seconds(70);
        world.done();
        world.use_it();
        assert!(!world.done().contains(&send("logging/setLevel")));
    }
}
