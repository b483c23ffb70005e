//! What drowse asks a server for itself: that it costs nobody anything.

use std::string::{String, ToString};
use std::vec::Vec;

use serde_json::{Value, json};

use super::*;
use crate::http::exchange::{Carried, Verdict};
use crate::link::Ran;
use crate::message::Own;
use crate::method::Method;
use crate::relay::List;
use crate::snapshot::{Limits as Gathered, Listing, Listings, Step};

type Machine = Server<[Slot; 4]>;

const IDLE: u64 = 60_000;

/// A modern server that has tools and is ready.
fn ready(transport: Transport) -> Machine {
    ready_with(transport, &json!({"tools": {}}))
}

fn ready_with(transport: Transport, capabilities: &Value) -> Machine {
    let lifecycle =
        lifecycle::Config { idle: Some(Duration::from_millis(IDLE)), ..lifecycle::Config::default() };
    let limits = Limits { hedge: None, ..Limits::default() };
    let config =
        Config { lifecycle, limits, transport, snapshot: Some(Gathered::default()), ..Config::default() };
    let mut server = Server::new(config, [Slot::EMPTY; 4], 0, CrashLog::new());
    server.wake(at(0));
    for action in actions(&mut server, 0) {
        if let Action::SendOwn(Own::Discover { id, .. }) = action {
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete",
                "supportedVersions": ["2026-07-28"], "capabilities": capabilities}});
            server.handle_frame(at(0), answer.to_string().as_bytes());
        }
    }
    actions(&mut server, 0);
    assert_eq!(server.state(), PublicState::Live);
    server
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(1_000_000 + millis)
}

/// What it does, with everything acknowledged.
fn actions(server: &mut Machine, millis: u64) -> Vec<Action> {
    let mut did = Vec::new();
    while let Some(action) = server.poll_action() {
        did.push(action);
        match action {
            Action::Persist(_) => server.handle_persisted(at(millis)),
            Action::Spawn { .. } => server.handle_spawned(at(millis)),
            _ => {}
        }
    }
    did
}

fn pass(server: &mut Machine, millis: u64) -> Vec<Action> {
    server.handle_timeout(at(millis));
    actions(server, millis)
}

fn asked(did: &[Action]) -> u64 {
    match did {
        [Action::Snapshot(Step::Ask { wire, listing: Listing::Tools, more: false })] => *wire,
        other => panic!("{other:?}"),
    }
}

fn tools(wire: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": wire, "result": {"resultType": "complete", "tools": [{"name": "t"}]}})
}

fn states(did: &[Action]) -> Vec<PublicState> {
    did.iter()
        .filter_map(|action| match action {
            Action::Persist(record) => Some(record.state),
            _ => None,
        })
        .collect()
}

#[test]
fn what_is_gathered_is_no_activity() {
    let mut server = ready(Transport::Stream);
    assert_eq!(server.poll_timeout(), Some((at(100), Reason::Snapshot)));
    let wire = asked(&pass(&mut server, 100));
    assert_eq!(server.lifecycle().in_flight(), 0);
    assert_eq!(server.lifecycle().idle_deadline(), Some(at(IDLE)));
    let Outcome::Listed(page) = server.handle_frame(at(20_000), tools(wire).to_string().as_bytes()) else {
        panic!("it was asked for")
    };
    assert!(page.first && page.items.is_some() && page.cursor.is_none());
    let lists = Listings::NONE.with(Listing::Tools);
    let all = Action::Snapshot(Step::Gathered { lists, lacking: Listings::NONE });
    assert_eq!(actions(&mut server, 20_000), [all]);
    assert_eq!(server.poll_timeout(), Some((at(IDLE), Reason::Idle)), "nothing wakes it before");
    let did = pass(&mut server, IDLE);
    assert_eq!(states(&did), [PublicState::Idle]);
}

#[test]
fn whoever_wants_something_comes_first() {
    let mut server = ready(Transport::Stream);
    let operation = Operation { method: Method::ToolsCall, allowance: None };
    server.submit(at(99), operation).unwrap();
    assert!(matches!(actions(&mut server, 99)[..], [Action::Send { .. }]));
    assert_eq!(pass(&mut server, 100), []);
    assert_eq!(pass(&mut server, 4_999), []);
    let wire = asked(&pass(&mut server, 5_000));
    assert_eq!(server.lifecycle().in_flight(), 1, "that of the caller");
    server.handle_frame(at(5_001), tools(wire).to_string().as_bytes());
    assert_eq!(server.lifecycle().in_flight(), 1);
}

#[test]
fn an_answer_that_is_owed_keeps_nothing_from_sleeping() {
    for transport in [Transport::Stream, Transport::Http] {
        let mut server = ready(transport);
        pass(&mut server, 100);
        let operation = Operation { method: Method::ToolsCall, allowance: None };
        server.submit(at(30_200), operation).unwrap();
        actions(&mut server, 30_200);
        let mut server = ready(transport);
        // Asked for the second time, just before the deadline.
        let wire = asked(&pass(&mut server, 100));
        server.handle_frame(at(101), tools(wire).to_string().as_bytes());
        actions(&mut server, 101);
        server.regather(at(IDLE - 2_000));
        actions(&mut server, IDLE - 2_000);
        let wire = asked(&pass(&mut server, IDLE - 1_000));
        let did = pass(&mut server, IDLE);
        assert_eq!(states(&did), [PublicState::Idle], "{transport:?}");
        let broken_off = did.contains(&Action::Relay(relay::Step::Cancel { wire }));
        assert_eq!(broken_off, transport == Transport::Http, "an exchange has to end: {did:?}");
        let place = |wanted: &Action| did.iter().position(|action| action == wanted);
        if let Some(place_of_it) = place(&Action::Relay(relay::Step::Cancel { wire })) {
            assert!(Some(place_of_it) < place(&Action::CloseInput));
        }
        assert!(!did.iter().any(|action| matches!(action, Action::SendOwn(_))), "{did:?}");
        assert!(matches!(
            server.handle_frame(at(IDLE + 1), tools(wire).to_string().as_bytes()),
            Outcome::Ignored(_)
        ));
    }
}

#[test]
fn a_server_that_owes_an_answer_is_told_that_nobody_waits() {
    let mut server = ready(Transport::Stream);
    let wire = asked(&pass(&mut server, 100));
    let did = pass(&mut server, 30_100);
    assert_eq!(did[0], Action::SendOwn(Own::Cancelled { id: wire, timed_out: true }));
    assert_eq!(server.state(), PublicState::Live);
    let mut server = ready(Transport::Http);
    let wire = asked(&pass(&mut server, 100));
    assert_eq!(pass(&mut server, 30_100)[0], Action::Relay(relay::Step::Cancel { wire }));
}

#[test]
fn refusals_of_what_nobody_wanted_change_no_state() {
    for verdict in [
        Verdict::Unauthorized,
        Verdict::Unreachable,
        Verdict::Broken,
        Verdict::Invalid,
        Verdict::Refused { status: 500, ran: Ran::Unknown },
    ] {
        let mut server = ready(Transport::Http);
        let wire = asked(&pass(&mut server, 100));
        server.handle_verdict(at(101), Carried::Request(Method::ToolsList), wire, verdict);
        let did = actions(&mut server, 101);
        let lists = Listings::NONE.with(Listing::Tools);
        assert_eq!(did, [Action::Snapshot(Step::Gathered { lists, lacking: lists })], "{verdict:?}");
        assert_eq!(server.state(), PublicState::Live);
    }
}

#[test]
fn a_line_that_is_too_long_or_no_message_is_a_lack() {
    for too_long in [false, true] {
        let mut server = ready(Transport::Stream);
        let wire = asked(&pass(&mut server, 100));
        if too_long {
            server.handle_oversize(at(101), Some(wire.to_string().as_bytes()), true);
        } else {
            let line = std::format!(r#"{{"jsonrpc":"2.0","id":{wire},"result":{{}},"error":{{}}}}"#);
            server.handle_frame(at(101), line.as_bytes());
        }
        let did = actions(&mut server, 101);
        assert!(
            matches!(did[..], [Action::Snapshot(Step::Gathered { lacking, .. })] if !lacking.is_empty()),
            "{did:?}"
        );
    }
}

fn announces() -> Value {
    json!({"tools": {"listChanged": true}, "prompts": {}})
}

fn changed(list: List) -> String {
    json!({"jsonrpc": "2.0", "method": list.notification(), "params": {}}).to_string()
}

/// The stream was opened before the first list was asked for.
fn opened(did: &[Action]) -> (u64, u64) {
    match did {
        [
            Action::Relay(relay::Step::Listen { wire, lists }),
            Action::Snapshot(Step::Ask { wire: page, listing: Listing::Tools, more: false }),
        ] => {
            assert!(lists.has(List::Tools) && !lists.has(List::Prompts));
            (*wire, *page)
        }
        other => panic!("{other:?}"),
    }
}

fn acknowledged(wire: u64) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
        "_meta": {"io.modelcontextprotocol/subscriptionId": wire}, "notifications": {"toolsListChanged": true}}})
    .to_string()
}

/// It gathered all, and nothing is to be done.
fn gathered(server: &mut Machine, millis: u64, page: u64) {
    server.handle_frame(at(millis), tools(page).to_string().as_bytes());
    let did = actions(server, millis);
    if let [Action::Snapshot(Step::Ask { wire, listing: Listing::Prompts, .. })] = did[..] {
        let none = json!({"jsonrpc": "2.0", "id": wire, "result": {"resultType": "complete", "prompts": []}});
        server.handle_frame(at(millis), none.to_string().as_bytes());
        let did = actions(server, millis);
        assert!(
            matches!(did[..], [Action::Snapshot(Step::Gathered { lacking: Listings::NONE, .. })]),
            "{did:?}"
        );
    } else {
        assert!(
            matches!(did[..], [Action::Snapshot(Step::Gathered { lacking: Listings::NONE, .. })]),
            "{did:?}"
        );
    }
}

#[test]
fn a_modern_process_is_asked_to_say_when_its_lists_change() {
    let mut server = ready_with(Transport::Stream, &announces());
    let (stream, page) = opened(&pass(&mut server, 100));
    assert_eq!(server.lifecycle().in_flight(), 0);
    server.handle_frame(at(101), acknowledged(stream).as_bytes());
    gathered(&mut server, 102, page);
    assert_eq!(server.poll_timeout(), Some((at(IDLE), Reason::Idle)), "nothing wakes it before");
    server.handle_frame(at(30_000), changed(List::Tools).as_bytes());
    assert_eq!(actions(&mut server, 30_000), []);
    assert_eq!(server.poll_timeout(), Some((at(31_000), Reason::Snapshot)));
    let page = asked(&pass(&mut server, 31_000));
    gathered(&mut server, 31_001, page);
    assert_eq!(server.lifecycle().idle_deadline(), Some(at(IDLE)), "it is no activity");
    let did = pass(&mut server, IDLE);
    assert_eq!(states(&did), [PublicState::Idle]);
    let place = |wanted: Action| did.iter().position(|action| *action == wanted);
    let ended = place(Action::SendOwn(Own::Cancelled { id: stream, timed_out: false }));
    assert!(ended.is_some() && ended < place(Action::CloseInput), "{did:?}");
}

#[test]
fn nothing_is_asked_of_others() {
    // Not where the server announces nothing, nor over HTTP.
    for (transport, offers) in [(Transport::Stream, json!({"tools": {}})), (Transport::Http, announces())] {
        let mut server = ready_with(transport, &offers);
        let page = asked(&pass(&mut server, 100));
        gathered(&mut server, 101, page);
        assert_eq!(server.poll_timeout(), Some((at(IDLE), Reason::Idle)));
    }
}

#[test]
fn a_server_that_will_not_say_it_is_none_the_worse() {
    for code in [-32601, -32602, -32603] {
        let mut server = ready_with(Transport::Stream, &announces());
        let (stream, page) = opened(&pass(&mut server, 100));
        let error = json!({"jsonrpc": "2.0", "id": stream, "error": {"code": code, "message": "no"}});
        let outcome = server.handle_frame(at(101), error.to_string().as_bytes());
        assert!(matches!(outcome, Outcome::Ignored(_)), "nobody asked: {outcome:?}");
        gathered(&mut server, 102, page);
        assert_eq!(server.poll_timeout(), Some((at(IDLE), Reason::Idle)), "{code}");
    }
    // No answer at all.
    let mut server = ready_with(Transport::Stream, &announces());
    let (_, page) = opened(&pass(&mut server, 100));
    gathered(&mut server, 102, page);
    assert_eq!(server.poll_timeout(), Some((at(IDLE), Reason::Idle)));
}

#[test]
fn whoever_is_being_served_is_served_first() {
    let mut server = ready_with(Transport::Stream, &announces());
    let operation = Operation { method: Method::ToolsCall, allowance: None };
    let key = server.submit(at(50), operation).unwrap();
    let did = actions(&mut server, 50);
    let [Action::Send { wire, .. }] = did[..] else { panic!("{did:?}") };
    server.handle_sent(key);
    assert_eq!(pass(&mut server, 200), []);
    server.handle_frame(at(300), tools(wire).to_string().as_bytes());
    assert_eq!(actions(&mut server, 300), []);
    assert_eq!(pass(&mut server, 399), []);
    opened(&pass(&mut server, 400));
}

#[test]
fn a_full_pipe_holds_it_up() {
    let mut server = ready_with(Transport::Stream, &announces());
    server.set_writable(false);
    assert_eq!(pass(&mut server, 100), []);
    server.set_writable(true);
    opened(&actions(&mut server, 101));
}
