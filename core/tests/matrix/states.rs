//! Every state by its name: how it is reached, what is accepted in it, and how it is left. That these are all the ways
//! there are is `core/tests/states.rs`.

use drowse_core::lifecycle::Unavailable;

use super::*;

rows! {
    each_legacy: Peer::Process(Era::Legacy);
    each_modern: Peer::Process(Era::Modern);
    each_session: Peer::Session;
    each_stateless: Peer::Stateless;
    each_old: Peer::Old;
    each_http_modern: Peer::Modern;
    = {
        dormant
        connecting
        live
        suspended
        idle
        disconnected
        closed
    }
}

rows! {
    process_legacy: Peer::Process(Era::Legacy);
    process_modern: Peer::Process(Era::Modern);
    = {
        reconnecting
        crashed
        crashed_until_the_breaker_closes
        idle_by_an_exit_of_its_own
    }
}

rows! {
    refusing_session: Peer::Session;
    refusing_stateless: Peer::Stateless;
    refusing_modern: Peer::Modern;
    = {
        unauthorized
    }
}

fn dormant(peer: Peer) {
    let mut world = World::new(config(Some(PERIOD)), peer);
    world.seconds(86_400);
    assert_eq!((world.state(), world.awaits(), world.done().len()), ("dormant", None, 0));
    world.use_it();
    assert_eq!(world.state(), "live");
}

fn connecting(peer: Peer) {
    let mut world = World::new(config(Some(PERIOD)), peer);
    world.behaviour.boot = Duration::from_secs(20);
    let call = world.call("tools/call");
    world.seconds(19);
    assert_eq!((world.state(), world.fate(call)), ("connecting", &Fate::Open));
    world.seconds(2);
    assert!(world.is_answered(call));
    assert_eq!(world.state(), "live");
}

fn live(peer: Peer) {
    let mut world = used(config(Some(PERIOD)), peer);
    sleeps_after(&mut world, PERIOD * 1000);
    let mut world = used(config(None), peer);
    never_sleeps(&mut world);
}

fn suspended(peer: Peer) {
    let mut world = used(with(|lifecycle| lifecycle.resident = true), peer);
    world.act(|server, now| server.show(now, false));
    assert_eq!(world.state(), "suspended");
    world.seconds(PERIOD / 2);
    world.act(|server, now| server.show(now, true));
    assert_eq!((world.state(), world.server.lifecycle().generation()), ("live", 1));
    world.act(|server, now| server.show(now, false));
    sleeps_after(&mut world, PERIOD * 1000);
    world.act(|server, now| server.show(now, true));
    world.seconds(1);
    assert_eq!((world.state(), world.server.lifecycle().generation()), ("live", 2));
}

fn idle(peer: Peer) {
    let config = with(|lifecycle| {
        lifecycle.auto_restart = true;
        lifecycle.resident = true;
    });
    let mut world = used(config, peer);
    sleeps_after(&mut world, PERIOD * 1000);
    world.done();
    world.seconds(30 * 86_400);
    assert_eq!((world.state(), world.awaits(), world.done().len()), ("idle", None, 0));
    world.behaviour.latency = Some(Duration::from_millis(5));
    world.use_it();
    assert_eq!((world.state(), world.server.lifecycle().generation()), ("live", 2));
}

fn idle_by_an_exit_of_its_own(peer: Peer) {
    for (exit, idle, state) in [
        (Exit::Status(0), Some(PERIOD), "idle"),
        (Exit::Status(0), None, "crashed"),
        (Exit::Status(1), Some(PERIOD), "crashed"),
        (Exit::Signal(9), Some(PERIOD), "crashed"),
    ] {
        let mut world = used(config(idle), peer);
        world.exits(exit);
        world.seconds(1);
        assert_eq!(world.state(), state, "{exit:?}");
        let crashed =
            world.done().iter().any(|did| matches!(did, Did::Persist(state, _) if state.name() == "crashed"));
        assert_eq!(crashed, state == "crashed", "{exit:?}: not even for a moment");
    }
}

fn disconnected(peer: Peer) {
    let keepalive = Some(Duration::from_secs(10));
    let mut world = World::new(Config { keepalive, ..config(Some(PERIOD)) }, peer);
    world.behaviour.mute_after_start = true;
    world.act(|server, now| server.wake(now));
    world.seconds(30);
    assert_eq!(world.state(), "disconnected");
    // It still takes operations, and an answer brings it back.
    if let Some(process) = world.behaviour_of_process() {
        process.mute_after_start = false;
    }
    world.use_it();
    assert_eq!(world.state(), "live");
}

fn reconnecting(peer: Peer) {
    let mut world = used(with(|lifecycle| lifecycle.auto_restart = true), peer);
    world.behaviour.boot = Duration::from_secs(10);
    world.exits(Exit::Signal(9));
    world.seconds(1);
    assert_eq!(world.state(), "reconnecting");
    // Somebody waits for it now.
    let call = world.call("tools/call");
    assert_eq!((world.state(), world.fate(call)), ("connecting", &Fate::Open));
    world.seconds(10);
    assert_eq!((world.state(), world.server.lifecycle().generation()), ("live", 2));
}

fn crashed(peer: Peer) {
    let mut world = holding(with(|lifecycle| lifecycle.resident = true), peer);
    let call = world.call("tools/call");
    world.pass(Duration::from_millis(100));
    world.exits(Exit::Status(3));
    assert_eq!(*world.fate(call), Fate::Failed(Cause::ServerLost, Ran::Unknown), "at once");
    world.seconds(1);
    assert_eq!((world.state(), world.has_process()), ("crashed", false));
    world.behaviour.latency = Some(Duration::from_millis(5));
    world.use_it();
    assert_eq!((world.state(), world.server.lifecycle().generation()), ("live", 2));
}

/// A server that dies at every start is started five times, by whomever; then callers fail at once, until the breaker
/// closes by itself.
fn crashed_until_the_breaker_closes(peer: Peer) {
    let mut world = World::new(with(|lifecycle| lifecycle.resident = true), peer);
    world.can_spawn = false;
    let attempts = |world: &World| world.server.lifecycle().crashes().times().len();
    for crash in 1..=5 {
        let call = world.call("tools/call");
        assert_eq!(*world.fate(call), Fate::Failed(Cause::StartFailed, Ran::No));
        assert_eq!((world.state(), attempts(&world)), ("crashed", crash));
        if crash < 5 {
            world.seconds(1);
        }
    }
    let generation = world.server.lifecycle().generation();
    let retry_at = world.now().after(Duration::from_secs(30));
    for _ in 0..100 {
        let refusal = world.try_call("tools/call");
        assert_eq!(refusal, Err(Refusal::Unavailable(Unavailable::BackingOff(retry_at))));
    }
    world.pass(Duration::from_millis(29_999));
    assert!(world.try_call("tools/call").is_err());
    assert_eq!(world.server.lifecycle().generation(), generation, "nothing was started");
    world.pass(Duration::from_millis(1));
    world.can_spawn = true;
    world.use_it();
    assert_eq!((world.state(), attempts(&world)), ("live", 0), "it answered, so it works");
}

fn unauthorized(peer: Peer) {
    let config = with(|lifecycle| {
        lifecycle.auto_restart = true;
        lifecycle.resident = true;
    });
    let mut world = World::new(config, peer);
    world.use_it();
    world.net.whims.push_back(Whim::Refuse { status: 401, code: None, later: None, runs: true });
    let call = world.call("tools/call");
    world.seconds(1);
    assert_eq!(*world.fate(call), Fate::Failed(Cause::Unauthorized, Ran::No));
    world.seconds(86_400);
    let refusal = world.try_call("tools/call");
    assert_eq!(refusal, Err(Refusal::Unavailable(Unavailable::Unauthorized)), "only a user can mend that");
    assert_eq!((world.state(), world.awaits()), ("unauthorized", None));
}

#[test]
fn expired() {
    for fail in [false, true] {
        let mut config = config(None);
        config.lifecycle.resident = true;
        config.lifecycle.fail_on_expiry = fail;
        let mut world = World::new(config, Peer::Session);
        world.use_it();
        world.forgets();
        world.seconds(2);
        assert_eq!(world.state(), "expired");
        if fail {
            let refusal = world.try_call("tools/call");
            assert_eq!(refusal, Err(Refusal::Unavailable(Unavailable::Expired)));
            assert_eq!((world.state(), world.awaits()), ("expired", None));
        } else {
            world.use_it();
            assert_eq!((world.state(), world.server.lifecycle().generation()), ("live", 2));
        }
    }
}

fn closed(peer: Peer) {
    let mut world = used(config(Some(PERIOD)), peer);
    world.act(Server::close);
    assert_eq!(world.state(), "closed");
    assert!(world.try_call("tools/call").is_err());
    world.seconds(10);
    assert_eq!((world.state(), world.has_process(), world.awaits()), ("closed", false, None));
}
