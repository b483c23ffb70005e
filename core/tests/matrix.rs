//! The acceptance matrix at the level of the core: each row a test of its name, in both eras and over both transports, on
//! a virtual clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test crate uses a part of it")]
mod harness;

use drowse_core::activity::{self, Asker, Counts, Starts};
use drowse_core::crash::CrashLog;
use drowse_core::era::Era;
use drowse_core::lifecycle::{self, Exit};
use drowse_core::link::{Cause, Ran};
use drowse_core::method::Method;
use drowse_core::server::{Config, Refusal, Server};
use drowse_core::time::{Duration, Reason};
use serde_json::json;

use harness::{Behaviour, Did, Disk, Fate, Peer, Whim, World};

/// The idle period of these tests, in seconds.
const PERIOD: u64 = 60;

/// Makes tests of the rows: a module for each kind of server.
macro_rules! rows {
    ($($module:ident: $peer:expr;)* = $rows:tt) => {
        $(rows! { @ $module $peer; $rows })*
    };
    (@ $module:ident $peer:expr; { $($row:ident)* }) => {
        mod $module {
            use super::*;
            $(#[test] fn $row() { super::$row($peer); })*
        }
    };
}

rows! {
    legacy: Peer::Process(Era::Legacy);
    modern: Peer::Process(Era::Modern);
    http_session: Peer::Session;
    http_stateless: Peer::Stateless;
    http_old: Peer::Old;
    http_modern: Peer::Modern;
    = {
        flag_omitted
        zero
        positive_and_no_activity
        operation_before_deadline_resets_on_completion
        operation_past_deadline_keeps_then_full_period
        concurrent_operations
        internal_keepalive_does_not_reset
        notification_or_refresh_does_not_reset
        explicit_ping_resets
        restart_keeps_timeout
        recovery_after_killed_bridge_keeps_timeout
        next_command_after_idle_wakes
        deferral_keeps_awake
        deferral_ends_with_a_full_period
        deferral_and_operation_both_have_to_end
        deferral_does_not_start
        failed_and_cancelled_operations_count_until_they_end
        the_time_of_a_start_does_not_count
        disconnected_falls_asleep
        reconnecting_falls_asleep
        auto_restart_never_wakes_the_idle
        status_and_timeouts_do_not_reset
        every_request_that_counts_resets
        connect_counts_on_a_server_that_is_awake
    }
}

rows! {
    stdio_legacy: Peer::Process(Era::Legacy);
    stdio_modern: Peer::Process(Era::Modern);
    = {
        stop_ends_the_child
    }
}

#[path = "matrix/states.rs"]
mod states;

#[path = "matrix/http.rs"]
mod http;

fn config(idle: Option<u64>) -> Config {
    let idle = idle.map(Duration::from_secs);
    Config { lifecycle: lifecycle::Config { idle, ..lifecycle::Config::default() }, ..Config::default() }
}

fn with(change: impl FnOnce(&mut lifecycle::Config)) -> Config {
    let mut config = config(Some(PERIOD));
    change(&mut config.lifecycle);
    config
}

/// Live, and the last operation ends now.
fn used(config: Config, peer: Peer) -> World {
    let mut world = World::new(config, peer);
    world.use_it();
    world.behaviour.latency = None;
    assert_eq!(world.state(), "live");
    world.done();
    world
}

/// It falls asleep after exactly this many milliseconds, gracefully.
fn sleeps_after(world: &mut World, millis: u64) {
    world.pass(Duration::from_millis(millis - 1));
    assert!(world.has_process() && world.state() != "idle", "it slept too early");
    world.pass(Duration::from_millis(1));
    assert_eq!(world.state(), "idle");
    let did = world.done();
    assert!(did.contains(&Did::CloseInput) || did.contains(&Did::Kill), "{did:?}");
    world.seconds(5);
    assert!(!world.has_process(), "its process is left");
    assert_eq!(world.state(), "idle");
}

/// It does not fall asleep within a month.
fn never_sleeps(world: &mut World) {
    world.seconds(30 * 24 * 3600);
    assert!(world.has_process());
    assert_eq!(world.state(), "live");
    world.done();
}

/// Holds the answers of the process that runs.
fn holding(config: Config, peer: Peer) -> World {
    let mut world = World::new(config, peer);
    world.behaviour.latency = None;
    world.act(|server, now| server.wake(now));
    world.seconds(1);
    assert_eq!(world.state(), "live");
    world.done();
    world
}

fn flag_omitted(peer: Peer) {
    let mut world = used(config(None), peer);
    assert_eq!(world.awaits(), None, "not even a timer");
    never_sleeps(&mut world);
    assert!(world.done().is_empty());
}

fn zero(peer: Peer) {
    let mut world = used(config(Some(0)), peer);
    assert_eq!(world.awaits(), None);
    never_sleeps(&mut world);
}

fn positive_and_no_activity(peer: Peer) {
    let mut world = World::new(config(Some(PERIOD)), peer);
    world.act(|server, now| server.wake(now));
    world.pass(Duration::from_millis(10));
    assert_eq!(world.state(), "live");
    world.done();
    world.pass(Duration::from_millis(PERIOD * 1000 - 1));
    assert!(world.has_process());
    assert!(world.done().is_empty());
    world.pass(Duration::from_millis(1));
    // The record first, then the transport; the child ends by itself, and the session stays.
    let did = world.done();
    assert!(matches!(did[..], [Did::Persist(_, 1), Did::CloseInput, ..]), "{did:?}");
    world.seconds(1);
    assert!(!world.has_process());
    let did = [did, world.done()].concat();
    assert!(!did.contains(&Did::Kill), "{did:?}");
    // A session is ended with a request of its own, and nobody else is told.
    let told = did.contains(&Did::Send("DELETE".to_owned()));
    assert_eq!((told, world.net.ended.len()), (peer == Peer::Session, usize::from(told)));
    assert_eq!(did.last(), Some(&Did::Retire));
    let record = world.record.expect("the session stays");
    assert_eq!((record.state.name(), record.generation, record.ended), ("idle", 1, true));
}

fn operation_before_deadline_resets_on_completion(peer: Peer) {
    let mut world = holding(config(Some(PERIOD)), peer);
    world.seconds(50);
    let call = world.call("tools/call");
    world.seconds(5);
    world.answer();
    assert!(world.is_answered(call));
    sleeps_after(&mut world, PERIOD * 1000);
}

fn operation_past_deadline_keeps_then_full_period(peer: Peer) {
    let mut world = holding(config(Some(PERIOD)), peer);
    world.seconds(50);
    let call = world.call("tools/call");
    world.seconds(200);
    assert_eq!(world.state(), "live");
    assert_eq!(world.awaits().map(|(_, reason)| reason), Some(Reason::Request), "no idle deadline in flight");
    world.answer();
    assert!(world.is_answered(call));
    sleeps_after(&mut world, PERIOD * 1000);
}

fn concurrent_operations(peer: Peer) {
    let mut world = holding(config(Some(PERIOD)), peer);
    let calls: Vec<usize> = (0..3).map(|_| world.call("tools/call")).collect();
    for call in calls {
        world.seconds(PERIOD + 10);
        assert_eq!(world.state(), "live");
        world.answer();
        assert!(world.is_answered(call));
    }
    sleeps_after(&mut world, PERIOD * 1000);
}

fn internal_keepalive_does_not_reset(peer: Peer) {
    let mut world = used(Config { keepalive: Some(Duration::from_secs(14)), ..config(Some(PERIOD)) }, peer);
    world.pass(Duration::from_millis(PERIOD * 1000 - 1));
    let question = if peer.era() == Era::Legacy { "ping" } else { "server/discover" };
    let asked = world.done().iter().filter(|did| **did == Did::Send(question.to_owned())).count();
    assert!(asked >= 3, "{asked} keepalives");
    assert_eq!(world.state(), "live");
    sleeps_after(&mut world, 1);
}

fn notification_or_refresh_does_not_reset(peer: Peer) {
    let mut world = used(config(Some(PERIOD)), peer);
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 0, "progress": 1}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "roots/list"}),
        json!({"jsonrpc": "2.0", "id": 77, "result": {}}),
    ] {
        world.seconds(9);
        world.writes(message);
    }
    world.act(|server, _| server.set_writable(true));
    world.seconds(4);
    sleeps_after(&mut world, 2000);
}

fn explicit_ping_resets(peer: Peer) {
    let mut world = used(config(Some(PERIOD)), peer);
    world.seconds(50);
    let call = world.call("drowse/ping");
    world.pass(Duration::ZERO);
    assert!(world.is_answered(call));
    sleeps_after(&mut world, PERIOD * 1000);
}

fn restart_keeps_timeout(peer: Peer) {
    let config = config(Some(PERIOD));
    let mut world = used(config, peer);
    world.act(Server::close);
    world.seconds(1);
    assert_eq!(world.done().last(), Some(&Did::Retire));
    let generation = world.record.expect("a record").generation;
    let mut world = World::recovered(config, peer, generation, CrashLog::new(), world.now());
    world.act(|server, now| server.wake(now));
    world.pass(Duration::from_millis(10));
    assert_eq!((world.state(), world.server.lifecycle().generation()), ("live", generation + 1));
    sleeps_after(&mut world, PERIOD * 1000);
}

fn recovery_after_killed_bridge_keeps_timeout(peer: Peer) {
    let config = config(Some(PERIOD));
    let mut world = used(config, peer);
    world.seconds(30);
    // The bridge is gone, and its process with it; the record says that it was live.
    let record = world.record.expect("a record");
    assert_eq!((record.state.name(), record.ended), ("live", false));
    let crashes = world.server.lifecycle().crashes().clone();
    let mut world = World::recovered(config, peer, record.generation, crashes, world.now());
    world.use_it();
    assert_eq!(world.server.lifecycle().generation(), record.generation + 1);
    world.done();
    sleeps_after(&mut world, PERIOD * 1000);
}

fn next_command_after_idle_wakes(peer: Peer) {
    for resident in [false, true] {
        let config = with(|lifecycle| lifecycle.resident = resident);
        let mut world = used(config, peer);
        sleeps_after(&mut world, PERIOD * 1000);
        if !resident {
            let refusal = world.try_call("tools/call");
            assert!(matches!(refusal, Err(Refusal::Unavailable(_))), "the caller starts another bridge");
            let generation = world.record.expect("a record").generation;
            world = World::recovered(config, peer, generation, CrashLog::new(), world.now());
        }
        world.behaviour = Behaviour::of(peer);
        world.use_it();
        assert_eq!(world.state(), "live");
        assert_eq!(world.server.lifecycle().generation(), 2, "always fresh");
        world.done();
        sleeps_after(&mut world, PERIOD * 1000);
    }
}

fn stop_ends_the_child(peer: Peer) {
    for (ignores_eof, ignores_terminate, wanted) in [
        (false, false, vec![Did::CloseInput]),
        (true, false, vec![Did::CloseInput, Did::Terminate]),
        (true, true, vec![Did::CloseInput, Did::Terminate, Did::Kill]),
    ] {
        for by_hand in [false, true] {
            let mut world = World::new(config(Some(PERIOD)), peer);
            world.behaviour.ignores_eof = ignores_eof;
            world.behaviour.ignores_terminate = ignores_terminate;
            world.use_it();
            world.done();
            if by_hand {
                world.act(Server::close);
            } else {
                world.seconds(PERIOD);
            }
            world.seconds(5);
            assert!(!world.has_process());
            let did = world.done();
            let steps: Vec<Did> = did
                .iter()
                .filter(|did| matches!(did, Did::CloseInput | Did::Terminate | Did::Kill))
                .cloned()
                .collect();
            // What a leader leaves behind is told to terminate, whether or not there is any.
            let expected =
                if wanted.len() == 1 { vec![Did::CloseInput, Did::Terminate] } else { wanted.clone() };
            assert_eq!(steps, expected);
            assert_eq!(did.last(), Some(&Did::Retire));
            assert_eq!(world.state(), if by_hand { "closed" } else { "idle" });
        }
    }
}

fn deferral_keeps_awake(peer: Peer) {
    let mut world = used(config(Some(PERIOD)), peer);
    world.act(|server, _| server.defer());
    assert_eq!(world.awaits(), None);
    never_sleeps(&mut world);
}

fn deferral_ends_with_a_full_period(peer: Peer) {
    let mut world = used(config(Some(PERIOD)), peer);
    world.act(|server, _| server.defer());
    world.act(|server, _| server.defer());
    world.seconds(1000);
    world.act(|server, now| server.undefer(now));
    world.seconds(1000);
    assert_eq!(world.state(), "live");
    world.act(|server, now| server.undefer(now));
    sleeps_after(&mut world, PERIOD * 1000);
}

fn deferral_and_operation_both_have_to_end(peer: Peer) {
    for operation_last in [false, true] {
        let mut world = holding(config(Some(PERIOD)), peer);
        world.act(|server, _| server.defer());
        world.call("tools/call");
        for step in [operation_last, !operation_last] {
            world.seconds(100);
            assert_eq!(world.state(), "live");
            if step {
                world.act(|server, now| server.undefer(now));
            } else {
                world.answer();
            }
        }
        sleeps_after(&mut world, PERIOD * 1000);
    }
}

fn deferral_does_not_start(peer: Peer) {
    let mut world = World::new(config(Some(PERIOD)), peer);
    world.act(|server, _| server.defer());
    world.seconds(1000);
    world.act(|server, now| server.undefer(now));
    world.seconds(1000);
    assert_eq!(world.state(), "dormant");
    assert!(world.done().is_empty());
}

fn failed_and_cancelled_operations_count_until_they_end(peer: Peer) {
    let mut world = holding(config(Some(PERIOD)), peer);
    let call = world.call("tools/call");
    world.seconds(300);
    assert_eq!(*world.fate(call), Fate::Failed(Cause::TimedOut, Ran::Unknown));
    sleeps_after(&mut world, PERIOD * 1000);
    let mut world = holding(config(Some(PERIOD)), peer);
    let call = world.call("tools/call");
    world.seconds(100);
    world.cancel(call);
    sleeps_after(&mut world, PERIOD * 1000);
}

fn the_time_of_a_start_does_not_count(peer: Peer) {
    let mut world = World::new(config(Some(5)), peer);
    world.behaviour.boot = Duration::from_secs(30);
    world.act(|server, now| server.wake(now));
    world.seconds(29);
    assert_eq!(world.state(), "connecting");
    // A legacy server whose probe is refused is ready at once, and has its full period from then on.
    world.seconds(1);
    assert_eq!(world.state(), "live");
    sleeps_after(&mut world, 5_000);
}

fn disconnected_falls_asleep(peer: Peer) {
    let keepalive = Some(Duration::from_secs(10));
    let mut world = World::new(Config { keepalive, ..config(Some(PERIOD)) }, peer);
    world.behaviour.mute_after_start = true;
    world.act(|server, now| server.wake(now));
    world.pass(Duration::from_millis(10));
    world.seconds(30);
    assert_eq!(world.state(), "disconnected");
    sleeps_after(&mut world, (PERIOD - 30) * 1000);
}

fn reconnecting_falls_asleep(peer: Peer) {
    let mut world = used(with(|lifecycle| lifecycle.auto_restart = true), peer);
    world.seconds(30);
    if peer.is_remote() {
        return http::what_reconnects_falls_asleep(world, peer);
    }
    world.behaviour.mute = true;
    world.exits(Exit::Signal(9));
    world.pass(Duration::ZERO);
    assert_eq!(world.state(), "reconnecting");
    sleeps_after(&mut world, (PERIOD - 30) * 1000);
    assert_eq!(world.awaits(), None);
}

fn auto_restart_never_wakes_the_idle(peer: Peer) {
    for by_itself in [false, true] {
        if by_itself && matches!(peer, Peer::Modern | Peer::Stateless) {
            // There is nothing that such a server could end.
            continue;
        }
        let config = with(|lifecycle| {
            lifecycle.auto_restart = true;
            lifecycle.resident = true;
        });
        let mut world = used(config, peer);
        if by_itself {
            world.seconds(10);
            if peer.is_remote() {
                world.forgets();
                world.seconds(2);
            } else {
                world.exits(Exit::Status(0));
            }
            assert_eq!(world.state(), "idle");
        } else {
            sleeps_after(&mut world, PERIOD * 1000);
        }
        world.done();
        world.seconds(30 * 24 * 3600);
        assert_eq!(world.state(), "idle");
        assert!(world.done().is_empty(), "nothing in the background wakes it");
    }
}

fn status_and_timeouts_do_not_reset(peer: Peer) {
    let mut world = used(config(Some(PERIOD)), peer);
    for _ in 0..58 {
        world.seconds(1);
        // What `drowse/status` reads, and a timer that fires too early.
        let _ = (world.server.state(), world.server.lifecycle().in_flight(), world.server.revision());
        world.act(|server, now| server.handle_timeout(now));
    }
    sleeps_after(&mut world, 2_000);
}

/// Every row of the table of activity that has a request: what counts resets, and what does not is not for the server.
fn every_request_that_counts_resets(peer: Peer) {
    for method in Method::all().filter(|method| *method != Method::Other) {
        for asker in Asker::ALL {
            for uris in [false, true] {
                let rule = activity::rule(method, asker, uris);
                let name = if method == Method::Tasks { "tasks/get" } else { method.name() };
                if rule.counts == Counts::No {
                    assert_ne!(
                        rule.starts,
                        Starts::Yes,
                        "{name}: what starts a server is an operation on it"
                    );
                    continue;
                }
                // Awake: it counts, from its arrival to its answer.
                let mut world = World::new(config(Some(PERIOD)), peer);
                world.use_it();
                world.seconds(50);
                let call = world.call(name);
                world.pass(Duration::from_millis(5));
                assert!(world.is_answered(call), "{name}");
                world.pass(Duration::from_millis(PERIOD * 1000 - 10));
                assert_eq!(world.state(), "live", "{name}");
                world.pass(Duration::from_millis(10));
                assert_eq!(world.state(), "idle", "{name}");
                // Asleep: it starts the server, unless something else may answer it.
                if rule.starts == Starts::Yes {
                    let mut world = World::new(config(Some(PERIOD)), peer);
                    let call = world.call(name);
                    world.seconds(1);
                    assert!(world.is_answered(call), "{name}");
                }
            }
        }
    }
}

fn connect_counts_on_a_server_that_is_awake(peer: Peer) {
    let mut world = used(config(Some(PERIOD)), peer);
    world.seconds(50);
    world.act(|server, now| server.wake(now));
    sleeps_after(&mut world, PERIOD * 1000);
    // And `disable` does not, though `enable` does.
    let mut world = used(config(Some(PERIOD)), peer);
    world.seconds(50);
    world.act(|server, now| server.show(now, false));
    assert_eq!(world.state(), "suspended");
    sleeps_after(&mut world, 10_000);
    let mut world = used(config(Some(PERIOD)), peer);
    world.seconds(50);
    world.act(|server, now| server.show(now, false));
    world.act(|server, now| server.show(now, true));
    sleeps_after(&mut world, PERIOD * 1000);
}

#[test]
fn a_disk_that_is_slow_delays_and_loses_nothing() {
    let mut world = World::new(config(Some(PERIOD)), Era::Legacy);
    world.disk = Disk::Slow;
    let call = world.call("tools/call");
    for _ in 0..10 {
        world.seconds(1);
        world.act(Server::handle_persisted);
    }
    assert!(world.is_answered(call));
    assert_eq!(world.progress, 0);
}
