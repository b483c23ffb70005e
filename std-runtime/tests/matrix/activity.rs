//! The rows of the activity table that can be seen on a bridge's socket: what starts a sleeping server and counts,
//! and what does neither.
//!
//! A bridge whose server sleeps is one whose server is just being ended: a later operation finds no bridge.

use std::time::Duration;

use drowse_core::lifecycle::PublicState;
use drowse_runtime::bridge::Hub;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::{Caller, Event, IDLE, Peer, Script, Stage, assert_at, sleepy};

over_both_transports! {
    what_is_wanted_from_the_server_counts
    what_is_asked_of_drowse_does_not_count
}

mod asleep {
    use super::*;

    over_both_transports! {
        lingering:
        what_is_wanted_from_the_server_starts_it
        what_is_asked_of_drowse_starts_nothing
        close_neither_starts_nor_counts
    }
}

/// Requests that start and count.
fn operations() -> Vec<(&'static str, Value)> {
    vec![
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "echo", "arguments": {}})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "a:b"})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "p"})),
        ("completion/complete", json!({"ref": {}, "argument": {}})),
        ("logging/setLevel", json!({"level": "info"})),
        ("drowse/info", json!({})),
        ("drowse/ping", json!({})),
    ]
}

/// Requests that do neither, and what they are answered with: a result (`None`), or an error of this code.
const QUESTIONS: &[(&str, Option<i64>)] = &[
    ("server/discover", None),
    ("drowse/status", None),
    ("drowse/snapshot", None),
    // Of another era, or for later: refused, and refusing is no use of the server.
    ("initialize", Some(-32601)),
    ("ping", Some(-32601)),
    // Without a filter. (Those with one: subscriptions.)
    ("subscriptions/listen", Some(-32602)),
    ("no/such", Some(-32601)),
];

/// Lines that are no request.
fn remarks() -> Vec<String> {
    let notification = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
    };
    vec![
        notification("notifications/cancelled", json!({"requestId": 12345})),
        notification("notifications/cancelled", json!({})),
        notification("notifications/initialized", json!({})),
        notification("notifications/roots/list_changed", json!({})),
        notification("notifications/progress", json!({"progressToken": 0, "progress": 1})),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}).to_string(),
        String::new(),
    ]
}

/// A bridge that has begun to end its server, which takes a while to go.
async fn draining(peer: Peer) -> (Stage, Hub, Caller) {
    let stage = Stage::new(Script { lingers: Duration::from_millis(1900), ..Script::of(peer) });
    let hub = stage.bridge(sleepy());
    let caller = Caller::connect(&hub).await;
    stage.until(|stage| stage.events().last().is_some_and(|(_, event)| *event == Event::InputClosed)).await;
    assert_eq!(hub.state(), PublicState::Idle);
    (stage, hub, caller)
}

async fn what_is_wanted_from_the_server_counts(peer: Peer) {
    for (method, params) in operations() {
        let stage = Stage::new(Script::of(peer));
        let hub = stage.bridge(sleepy());
        stage.ready().await;
        let mut caller = Caller::connect(&hub).await;
        sleep(Duration::from_secs(500)).await;
        let answer = caller.ask(method, params).await;
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        let done = stage.elapsed();
        assert_at(stage.state(PublicState::Idle).await, done + IDLE);
        hub.retired().await;
        assert_eq!(stage.starts(), 1, "{method}");
    }
}

async fn what_is_wanted_from_the_server_starts_it(peer: Peer) {
    for (method, params) in operations() {
        let (stage, hub, mut caller) = draining(peer).await;
        let answer = caller.ask(method, params).await;
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        assert_eq!((stage.starts(), hub.state()), (2, PublicState::Live), "{method}");
    }
}

async fn what_is_asked_of_drowse_does_not_count(peer: Peer) {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.bridge(sleepy());
    let ready = stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    stage.saved().await;
    let before = stage.methods();
    sleep(Duration::from_secs(500)).await;
    ask_all(&mut caller).await;
    // Nor does a connection, with or without a hello, or its end.
    let silent = Caller::silent(&hub);
    drop(Caller::connect(&hub).await);
    drop(silent);
    assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
    // But that nobody listens any more, before it is ended.
    let goodbye = peer.has_own_stream().then_some("notifications/cancelled");
    assert_eq!(stage.methods().split_off(before.len()), goodbye.as_slice(), "the server heard nothing of it");
}

async fn what_is_asked_of_drowse_starts_nothing(peer: Peer) {
    let (stage, hub, mut caller) = draining(peer).await;
    ask_all(&mut caller).await;
    drop(Caller::connect(&hub).await);
    hub.retired().await;
    assert_eq!((stage.starts(), hub.state()), (1, PublicState::Idle));
    // What was refused was read all the same, the malformed last one included; the remarks are not counted.
    let asked = QUESTIONS.len() + 1;
    let goaway = loop {
        let message = caller.receive().await.unwrap();
        if message["method"] == "notifications/drowse/goaway" {
            break message;
        }
    };
    assert_eq!(goaway["params"]["last"], asked);
}

async fn ask_all(caller: &mut Caller) {
    for (method, code) in QUESTIONS {
        let answer = caller.ask(method, json!({})).await;
        match code {
            None => assert!(answer["result"].is_object(), "{method}: {answer}"),
            Some(code) => assert_eq!(answer["error"]["code"], *code, "{method}: {answer}"),
        }
    }
    for line in remarks() {
        caller.line(&line).await;
    }
    // Read after the remarks, so they were read as well.
    caller.line(&json!({"jsonrpc": "2.0", "id": "last", "method": 1}).to_string()).await;
    while let Some(message) = caller.receive().await {
        if message.get("error").is_some() {
            break;
        }
    }
}

async fn close_neither_starts_nor_counts(peer: Peer) {
    // While it sleeps.
    let (stage, hub, mut caller) = draining(peer).await;
    let answer = caller.ask("drowse/close", json!({})).await;
    assert_eq!(answer["result"], json!({}), "{answer}");
    hub.retired().await;
    assert_eq!(stage.starts(), 1);
    assert!(matches!(stage.events().last(), Some((_, Event::Exited(_)))), "answered when the tree was gone");
    // While it is live, and with something in flight, which fails and says whether it may have run.
    let stage = Stage::new(Script::of(peer));
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    let (mut one, mut other) = (Caller::connect(&hub).await, Caller::connect(&hub).await);
    let call = one.start("never", json!({"tag": "a"})).await;
    stage.until(|stage| stage.runs("a") == 1).await;
    other.ask("drowse/close", json!({})).await;
    let answer = one.answer(&call).await;
    assert_eq!(crate::bridge::failure(&answer), ("shutting-down", "unknown"));
    hub.retired().await;
    assert_eq!((stage.starts(), stage.runs("a")), (1, 1));
}
