//! Rows that only servers behind a URL have: sessions that end, streams that break and are taken up, statuses.

use super::*;

rows! {
    session: Peer::Session;
    stateless: Peer::Stateless;
    old: Peer::Old;
    modern: Peer::Modern;
    = {
        idle_ends_what_there_is_of_a_session
        waking_is_always_fresh
        a_server_that_does_not_answer_the_end_is_not_waited_for
        nothing_is_sent_while_nothing_is_asked
        a_cancelled_call_is_known_to_the_server
        the_announcement_is_taken_before_anything_else_is_sent
    }
}

rows! {
    resumable_session: Peer::Session;
    resumable_stateless: Peer::Stateless;
    = {
        a_stream_that_ends_early_is_taken_up_at_the_time_that_the_server_wished
        a_stream_that_is_never_taken_up_fails_its_request_alone
        credentials_that_are_refused_for_the_rest_of_a_stream_prove_nothing
    }
}

rows! {
    statuses_session: Peer::Session;
    statuses_stateless: Peer::Stateless;
    statuses_modern: Peer::Modern;
    = {
        later_is_waited_for_by_what_only_reads
        a_status_fails_one_call_and_the_server_lives
        without_a_connection_nothing_ran
        a_connection_that_breaks_leaves_a_call_unknown_and_a_list_is_asked_anew
        answers_that_are_none_fail_one_call
        refused_credentials_end_it
    }
}

fn sent(did: &[Did], what: &str) -> usize {
    did.iter().filter(|did| **did == Did::Send(what.to_owned())).count()
}

/// What the row `reconnecting_falls_asleep` is for a server that cannot exit: a session that ended with a call in it,
/// after which nobody asks any more. It was used 30 s ago.
pub(super) fn what_reconnects_falls_asleep(mut world: World, peer: Peer) {
    if let Some(process) = world.behaviour_of_process() {
        process.latency = None;
    }
    let call = world.call("tools/call");
    world.seconds(1);
    match peer {
        Peer::Session => {
            // Its stream cannot be taken up in a session that is gone.
            world.writes(json!({"jsonrpc": "2.0", "method": "notifications/message"}));
            world.forgets();
            world.behaviour.mute = true;
            world.seconds(2);
        }
        Peer::Old => {
            world.behaviour.mute = true;
            world.forgets();
        }
        // Nothing that such a server does ends more than one request.
        _ => {
            world.cancel(call);
            return sleeps_after(&mut world, PERIOD * 1000);
        }
    }
    let ended = world.fate(call).clone();
    assert!(matches!(ended, Fate::Failed(_, Ran::Unknown)), "{ended:?}");
    assert_eq!(world.state(), "reconnecting");
    world.seconds(PERIOD);
    assert_eq!((world.state(), world.awaits()), ("idle", None));
}

/// Live, and used once.
fn live(config: Config, peer: Peer) -> World {
    let mut world = World::new(config, peer);
    world.use_it();
    assert_eq!(world.state(), "live");
    world.done();
    world.executed.clear();
    world
}

fn resident() -> Config {
    with(|lifecycle| lifecycle.resident = true)
}

/// How often that call ran.
fn runs(world: &World, call: usize) -> usize {
    world.executed.iter().filter(|run| run.ends_with(&format!(" {call}"))).count()
}

fn failed(cause: Cause, ran: Ran) -> Fate {
    Fate::Failed(cause, ran)
}

fn idle_ends_what_there_is_of_a_session(peer: Peer) {
    let mut world = live(resident(), peer);
    let session = world.session();
    assert_eq!(session.is_some(), peer == Peer::Session);
    // One stream of no request, at most.
    let streams = usize::from(matches!(peer, Peer::Session | Peer::Old));
    assert_eq!(world.exchanges(), streams);
    world.seconds(PERIOD);
    assert_eq!(world.state(), "idle");
    assert_eq!(sent(&world.done(), "DELETE"), usize::from(session.is_some()));
    world.seconds(1);
    assert_eq!(world.net.ended, Vec::from_iter(session));
    assert_eq!((world.exchanges(), world.has_process()), (0, false));
}

fn waking_is_always_fresh(peer: Peer) {
    let mut world = live(resident(), peer);
    let first = world.session();
    world.seconds(PERIOD + 1);
    world.done();
    world.use_it();
    assert_eq!(world.server.lifecycle().generation(), 2);
    let did = world.done();
    if peer == Peer::Session {
        assert!(world.session().is_some_and(|second| Some(second) != first), "the same session twice");
    }
    // The era is remembered, so that no probe is sent to a legacy server.
    assert_eq!(sent(&did, "server/discover"), usize::from(peer == Peer::Modern));
}

/// An operation that comes while the end of the session is under way is not lost, and gets a fresh one.
fn a_server_that_does_not_answer_the_end_is_not_waited_for(peer: Peer) {
    let mut world = live(resident(), peer);
    let had_session = world.session().is_some();
    if let Some(process) = world.behaviour_of_process() {
        process.ignores_eof = true;
    }
    world.seconds(PERIOD);
    assert_eq!(world.has_process(), had_session, "what needs no end is over at once");
    let call = world.call("tools/call");
    world.seconds(1);
    assert_eq!(world.is_answered(call), !had_session);
    world.seconds(2);
    assert!(world.is_answered(call));
    assert_eq!((runs(&world, call), world.server.lifecycle().generation()), (1, 2));
}

fn nothing_is_sent_while_nothing_is_asked(peer: Peer) {
    // As the bridge sets it: only a session, which a server may forget, is asked after.
    let mut world = live(Config { session_keepalive: Some(Duration::from_secs(30)), ..config(None) }, peer);
    world.seconds(3600);
    let did = world.done();
    if peer == Peer::Session {
        assert_eq!(did, vec![Did::Send("ping".to_owned()); 120]);
    } else {
        assert_eq!(did, []);
        assert_eq!(world.awaits(), None, "not even a timer");
    }
    assert_eq!(world.state(), "live");
}

fn a_cancelled_call_is_known_to_the_server(peer: Peer) {
    let mut world = holding(config(Some(PERIOD)), peer);
    let call = world.call("tools/call");
    world.seconds(1);
    assert!(world.holds());
    let before = world.exchanges();
    world.cancel(call);
    world.seconds(1);
    assert_eq!(*world.fate(call), failed(Cause::Cancelled, Ran::Unknown));
    assert_eq!((world.cancelled, world.holds()), (1, false));
    // By the end of the exchange where that means it, with a message else.
    assert_eq!(sent(&world.done(), "notifications/cancelled"), usize::from(peer != Peer::Modern));
    assert_eq!(world.exchanges(), before - usize::from(peer != Peer::Old), "its exchange is broken off");
    assert_eq!(world.state(), "live");
}

fn the_announcement_is_taken_before_anything_else_is_sent(peer: Peer) {
    let mut world = World::new(config(Some(PERIOD)), peer);
    let call = world.call("tools/call");
    world.seconds(1);
    assert!(world.is_answered(call));
    let did = world.done();
    let place = |what: &str| did.iter().position(|did| *did == Did::Send(what.to_owned()));
    if peer == Peer::Modern {
        assert_eq!(place("notifications/initialized"), None);
    } else {
        let live = did.iter().position(|did| matches!(did, Did::Persist(state, _) if state.name() == "live"));
        assert!(place("initialize") < place("notifications/initialized"));
        assert!(place("notifications/initialized") < live && live < place("tools/call"), "{did:?}");
    }
}

fn a_stream_that_ends_early_is_taken_up_at_the_time_that_the_server_wished(peer: Peer) {
    let mut world = live(config(Some(PERIOD)), peer);
    world.net.whims.push_back(Whim::Cut);
    let call = world.call("tools/call");
    // The stream ends 5 ms after the call, the server wished for half a second.
    world.pass(Duration::from_millis(504));
    assert_eq!((sent(&world.done(), "GET"), world.fate(call)), (0, &Fate::Open));
    world.pass(Duration::from_millis(1));
    assert_eq!(sent(&world.done(), "GET"), 1);
    assert!(world.is_answered(call));
    assert_eq!(runs(&world, call), 1);
    sleeps_after(&mut world, PERIOD * 1000);
}

fn a_stream_that_is_never_taken_up_fails_its_request_alone(peer: Peer) {
    let mut world = live(config(None), peer);
    for (whim, tries) in [
        // The server is away for long: it is asked a few times, with growing pauses.
        (Whim::Away, 6),
        (Whim::Refuse { status: 503, code: None, later: None, runs: false }, 6),
        // It says that this cannot be had.
        (Whim::Refuse { status: 405, code: None, later: None, runs: false }, 1),
        (Whim::Page, 1),
    ] {
        world.net.whims.push_back(Whim::Cut);
        let call = world.call("tools/call");
        let other = world.call("tools/list");
        world.pass(Duration::from_millis(100));
        assert!(world.is_answered(other), "{whim:?}");
        world.net.whims.extend(vec![whim; tries]);
        world.seconds(120);
        let expected = if whim == Whim::Page { Cause::InvalidAnswer } else { Cause::ConnectionLost };
        assert_eq!(*world.fate(call), failed(expected, Ran::Unknown), "{whim:?}");
        assert_eq!(sent(&world.done(), "GET"), tries, "{whim:?}");
        assert_eq!((world.net.whims.len(), runs(&world, call)), (0, 1), "{whim:?}");
        assert_eq!(world.state(), "live");
        world.use_it();
        world.done();
    }
}

fn credentials_that_are_refused_for_the_rest_of_a_stream_prove_nothing(peer: Peer) {
    for status in [401, 403] {
        let mut world = live(config(Some(PERIOD)), peer);
        world.net.whims.extend([Whim::Cut, Whim::Refuse { status, code: None, later: None, runs: false }]);
        let call = world.call("tools/call");
        world.seconds(2);
        assert_eq!(runs(&world, call), 1);
        assert!(matches!(world.fate(call), Fate::Failed(_, Ran::Unknown)), "{:?}", world.fate(call));
    }
}

fn later_is_waited_for_by_what_only_reads(peer: Peer) {
    let mut world = live(config(Some(PERIOD)), peer);
    let later = |status| Whim::Refuse { status, code: None, later: Some(7), runs: false };
    world.net.whims.extend([later(429), later(503), later(429)]);
    let list = world.call("tools/list");
    world.pass(Duration::from_millis(20_999));
    assert_eq!((world.fate(list), runs(&world, list)), (&Fate::Open, 0));
    world.pass(Duration::from_millis(1));
    assert_eq!(runs(&world, list), 1);
    world.pass(Duration::from_millis(5));
    assert!(world.is_answered(list));
    // Not for ever, and not for what may run twice.
    world.net.whims.extend([later(429), later(503), later(429), later(503)]);
    let list = world.call("tools/list");
    world.seconds(60);
    assert_eq!(*world.fate(list), failed(Cause::Refused, Ran::Unknown));
    world.net.whims.push_back(later(429));
    let call = world.call("tools/call");
    world.seconds(1);
    assert_eq!(*world.fate(call), failed(Cause::Refused, Ran::Unknown));
    world.net.whims.push_back(Whim::Refuse { status: 503, code: None, later: Some(3600), runs: false });
    let list = world.call("tools/list");
    world.seconds(1);
    assert_eq!(*world.fate(list), failed(Cause::Refused, Ran::Unknown), "an hour is too long");
}

fn a_status_fails_one_call_and_the_server_lives(peer: Peer) {
    let mut world = live(config(Some(PERIOD)), peer);
    for (status, ran) in [
        (500, Ran::Unknown),
        (502, Ran::Unknown),
        (301, Ran::No),
        (307, Ran::No),
        (405, Ran::No),
        (413, Ran::Unknown),
    ] {
        for runs in [false, true] {
            world.net.whims.push_back(Whim::Refuse { status, code: None, later: None, runs });
            let call = world.call("tools/call");
            world.seconds(1);
            assert_eq!(*world.fate(call), failed(Cause::Refused, ran), "{status}");
            assert_eq!(world.state(), "live");
        }
        // What the body says is the answer.
        if status >= 400 && status != 405 {
            world.net.whims.push_back(Whim::Refuse { status, code: Some(-32020), later: None, runs: false });
            let call = world.call("tools/call");
            world.seconds(1);
            assert!(world.is_answered(call), "{status}: {:?}", world.fate(call));
        }
    }
    world.use_it();
    world.done();
    sleeps_after(&mut world, PERIOD * 1000);
}

fn without_a_connection_nothing_ran(peer: Peer) {
    let mut world = live(config(Some(PERIOD)), peer);
    for method in ["tools/call", "tools/list"] {
        world.net.whims.push_back(Whim::Away);
        let call = world.call(method);
        world.seconds(1);
        assert_eq!(*world.fate(call), failed(Cause::Unreachable, Ran::No), "{method}");
        assert_eq!(world.state(), "disconnected");
    }
    // It is asked all the same when somebody wants something.
    world.use_it();
    assert_eq!(world.state(), "live");
    world.net.whims.push_back(Whim::Away);
    world.call("tools/call");
    world.done();
    world.seconds(PERIOD);
    assert_eq!(world.state(), "idle", "out of reach is where waiting is pure waste");
}

fn a_connection_that_breaks_leaves_a_call_unknown_and_a_list_is_asked_anew(peer: Peer) {
    let mut world = live(config(Some(PERIOD)), peer);
    for whim in [Whim::Break { runs: false }, Whim::Break { runs: true }, Whim::Half] {
        world.net.whims.push_back(whim);
        let call = world.call("tools/call");
        world.seconds(1);
        assert_eq!(*world.fate(call), failed(Cause::ConnectionLost, Ran::Unknown), "{whim:?}");
        world.net.whims.push_back(whim);
        let list = world.call("tools/list");
        world.seconds(1);
        assert!(world.is_answered(list), "{whim:?}");
        world.net.whims.extend([whim, whim]);
        let list = world.call("tools/list");
        world.seconds(1);
        assert_eq!(*world.fate(list), failed(Cause::ConnectionLost, Ran::Unknown), "{whim:?}: once");
        assert_eq!(world.state(), "live");
    }
}

fn answers_that_are_none_fail_one_call(peer: Peer) {
    let mut world = live(config(Some(PERIOD)), peer);
    for whim in [Whim::Foreign, Whim::Page] {
        world.net.whims.push_back(whim);
        let call = world.call("tools/call");
        let other = world.call("tools/call");
        world.seconds(1);
        assert_eq!(*world.fate(call), failed(Cause::InvalidAnswer, Ran::Unknown), "{whim:?}");
        assert!(world.is_answered(other));
    }
    // A second answer reaches nobody.
    world.net.whims.push_back(Whim::Twice);
    let call = world.call("tools/call");
    world.seconds(1);
    assert!(world.is_answered(call));
    assert_eq!(world.state(), "live");
}

fn refused_credentials_end_it(peer: Peer) {
    for status in [401, 403] {
        let mut world = live(resident(), peer);
        world.net.whims.push_back(Whim::Refuse { status, code: None, later: None, runs: true });
        let call = world.call("tools/call");
        world.seconds(1);
        assert_eq!(*world.fate(call), failed(Cause::Unauthorized, Ran::No));
        assert_eq!((runs(&world, call), world.state()), (0, "unauthorized"));
        let refusal = world.try_call("tools/call");
        assert!(matches!(refusal, Err(Refusal::Unavailable(_))));
        world.seconds(3);
        assert!(!world.has_process(), "nothing is left under way");
    }
}

#[test]
fn calls_of_a_session_that_is_gone_go_to_a_fresh_one() {
    let mut world = live(resident(), Peer::Session);
    let first = world.session();
    world.net.known_no_more();
    let calls: Vec<usize> = (0..4).map(|_| world.call("tools/call")).collect();
    world.seconds(2);
    for call in calls {
        assert!(world.is_answered(call));
        assert_eq!(runs(&world, call), 1);
    }
    assert_ne!(world.session(), first);
    assert_eq!((world.state(), world.server.lifecycle().generation()), ("live", 2));
    assert!(world.net.ended.is_empty(), "a session that is gone needs no end");
    world.use_it();
    world.done();
    sleeps_after(&mut world, PERIOD * 1000);
}

#[test]
fn a_session_that_is_gone_while_nothing_is_in_flight_is_asleep() {
    let mut world = live(resident(), Peer::Session);
    world.forgets();
    world.seconds(2);
    assert_eq!(world.state(), "idle");
    world.use_it();
    // Without an idle period that is an end, which is told.
    let mut config = config(None);
    config.lifecycle.resident = true;
    let mut world = live(config, Peer::Session);
    world.forgets();
    world.seconds(2);
    assert_eq!(world.state(), "expired");
    world.use_it();
    assert_eq!(world.state(), "live");
}

#[test]
fn the_old_transport_is_found_by_a_server_that_takes_no_post() {
    let mut world = World::new(config(Some(PERIOD)), Peer::Old);
    world.use_it();
    let did: Vec<String> = world
        .done()
        .into_iter()
        .filter_map(|did| if let Did::Send(method) = did { Some(method) } else { None })
        .collect();
    assert_eq!(
        did,
        ["server/discover", "initialize", "GET", "initialize", "notifications/initialized", "tools/call"]
    );
}
