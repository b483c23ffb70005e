//! Clients of the legacy era, in stories: what they open with, what they are asked, and what they hear.

use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::front::asking::PATIENCE;
use drowse_core::lifecycle::{Exit, PublicState};
use drowse_runtime::bridge::Hub;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::{Caller, Event, Peer, Script, Stage, failure, play, sleepy};

by_process_and_url! {
    the_handshake_starts_nothing_and_agrees_on_a_version
    the_socket_serves_them_after_its_hello
    a_batch_is_answered_as_one
    a_batch_with_more_than_there_is_room_for_is_answered_all_the_same
    what_was_cancelled_is_not_answered
    a_subscription_has_an_answer_of_its_own_and_ends_when_it_is_told
    subscriptions_outlive_the_server_and_not_the_client
    each_hears_what_it_asked_for
    a_question_goes_to_the_client_whose_call_it_belongs_to
    a_client_that_cannot_be_asked_declines
    a_client_that_does_not_answer_is_waited_for_so_long
    the_end_of_a_client_is_the_end_of_its_questions
    a_cancelled_call_withdraws_its_questions
    an_error_of_the_client_is_passed_on
}

const A_WHILE: Duration = Duration::from_millis(50);
const LATEST: &str = "2025-11-25";

async fn ready(peer: impl Into<Peer>) -> (Stage, Hub) {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.bridge(sleepy());
    stage.saved().await;
    (stage, hub)
}

async fn client(hub: &Hub, capabilities: Value) -> Caller {
    let (mut caller, _) = Caller::legacy(hub, LATEST, capabilities).await;
    sleep(A_WHILE).await;
    assert_eq!(caller.waiting().await, None);
    caller
}

fn elicits() -> Value {
    json!({"elicitation": {"form": {}}})
}

/// A call that the server has, and leaves to the test; its id on the wire.
async fn call(stage: &Stage, caller: &mut Caller, id: &str, tag: &str) -> Value {
    caller.plain(&json!(id), "tools/call", json!({"name": "never", "arguments": {"tag": tag}})).await;
    stage.until(|stage| stage.runs(tag) > 0).await;
    wire_id(stage, tag)
}

/// The id of the last request with that tag.
fn wire_id(stage: &Stage, tag: &str) -> Value {
    let got = requests(stage, tag);
    got.last().unwrap()["id"].clone()
}

fn requests(stage: &Stage, tag: &str) -> Vec<Value> {
    let events = stage.events().into_iter();
    let got = events.filter_map(|(_, event)| match event {
        Event::Got(message) if message["params"]["arguments"]["tag"] == tag => Some(message),
        _ => None,
    });
    got.collect()
}

/// What the server got in answer to its own requests.
fn answers(stage: &Stage) -> Vec<Value> {
    let events = stage.events().into_iter();
    let answers = events.filter_map(|(_, event)| match event {
        Event::Got(message) if message.get("method").is_none() => Some(message),
        _ => None,
    });
    answers.collect()
}

fn form(message: &str) -> Value {
    json!({"message": message, "requestedSchema": {"type": "object", "properties": {}}})
}

/// The server says that, over HTTP on the stream of the request of that id.
fn says_for(stage: &Stage, wire: &Value, message: &Value) {
    match stage.script().peer.is_remote() {
        true => assert!(stage.site().says_to(Some(wire), &message.to_string()), "no stream for {message}"),
        false => stage.server_says(message),
    }
}

/// The server wants a form filled in, during the call of that id, as its era does it.
fn server_asks(stage: &Stage, era: Era, wire: &Value, message: &str) {
    let message = match era {
        Era::Legacy => json!({"jsonrpc": "2.0", "id": format!("for {message}"),
            "method": "elicitation/create", "params": form(message)}),
        Era::Modern => json!({"jsonrpc": "2.0", "id": wire, "result": {
            "resultType": "input_required",
            "inputRequests": {"the \"key\"": {"method": "elicitation/create", "params": form(message)}},
            "requestState": "st\u{e4}te",
        }}),
    };
    says_for(stage, wire, &message);
}

fn finish(stage: &Stage, tag: &str) {
    let result = json!({"content": [{"type": "text", "text": tag}]});
    let wire = wire_id(stage, tag);
    says_for(stage, &wire, &json!({"jsonrpc": "2.0", "id": wire, "result": result}));
}

/// A client during whose call (`a`, tagged `t`) the server has asked something (`m`).
async fn questioned(peer: Peer, capabilities: Value) -> (Stage, Hub, Caller) {
    let era = peer.era();
    let (stage, hub) = ready(peer).await;
    let mut caller = client(&hub, capabilities).await;
    let wire = call(&stage, &mut caller, "a", "t").await;
    server_asks(&stage, era, &wire, "m");
    (stage, hub, caller)
}

/// Waits for what a client is asked.
async fn asked(caller: &mut Caller, message: &str) -> Value {
    let question = caller.receive().await.unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert_eq!(question["params"], form(message));
    question["id"].clone()
}

async fn the_handshake_starts_nothing_and_agrees_on_a_version(peer: Peer) {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.proxy(sleepy());
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        (LATEST, LATEST),
        ("2026-07-28", LATEST),
        ("1999-01-01", LATEST),
    ] {
        let (mut caller, told) = Caller::legacy(&hub, asked, json!({})).await;
        assert_eq!(told["protocolVersion"], agreed);
        assert_eq!(told["serverInfo"]["name"], "drowse");
        assert_eq!(told["capabilities"]["resources"], json!({"subscribe": true, "listChanged": true}));
        caller.plain(&json!(0), "ping", json!({})).await;
        assert_eq!(caller.answer(&json!(0)).await["result"], json!({}));
        caller.plain(&json!(1), "logging/setLevel", json!({"level": "debug"})).await;
        assert_eq!(caller.answer(&json!(1)).await["result"], json!({}));
    }
    let mut modern = Caller::of_proxy(&hub);
    let discovered = modern.ask("server/discover", json!({})).await;
    assert_eq!(discovered["result"]["supportedVersions"], json!(["2026-07-28"]));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.starts(), 0);
    // The first that needs the server starts it, and then it is known.
    assert!(modern.ask("tools/list", json!({})).await["result"]["tools"].is_array());
    assert_eq!(stage.starts(), 1);
    let (_, told) = Caller::legacy(&hub, LATEST, json!({})).await;
    assert_eq!(
        told["capabilities"],
        json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {}})
    );
    assert_eq!(stage.starts(), 1);
}

async fn the_socket_serves_them_after_its_hello(peer: Peer) {
    let (_stage, hub) = ready(peer).await;
    let mut caller = Caller::connect(&hub).await;
    let told = caller.initialize("2025-06-18", json!({})).await;
    assert_eq!(told["protocolVersion"], "2025-06-18");
    caller.plain(&json!("a"), "tools/list", json!({})).await;
    assert_eq!(caller.answer(&json!("a")).await["result"], json!({"tools": []}));
    caller.plain(&json!("b"), "drowse/status", json!({})).await;
    assert_eq!(caller.answer(&json!("b")).await["error"]["code"], -32601);
    // A connection that begins without is still turned away.
    let mut silent = Caller::silent(&hub);
    silent.initialize_only().await;
    assert!(silent.receive().await.unwrap()["drowse"]["refused"].is_object());
}

async fn a_batch_is_answered_as_one(peer: Peer) {
    let (_stage, hub) = ready(peer).await;
    let (mut caller, _) = Caller::legacy(&hub, "2025-03-26", json!({})).await;
    let call = |id: &str, seconds: f64| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "slow", "arguments": {"seconds": seconds, "tag": id}}})
    };
    let items = json!([
        call("slow", 2.0),
        {"jsonrpc": "2.0", "id": 0, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        {"jsonrpc": "2.0", "id": 1, "method": "no/such"},
        {"jsonrpc": "2.0", "id": 2},
        call("quick", 1.0),
        {"jsonrpc": "2.0", "id": "nobody's", "result": {}},
    ]);
    caller.line(&items.to_string()).await;
    let answer = caller.receive().await.unwrap();
    let mut ids: Vec<String> =
        answer.as_array().unwrap().iter().map(|answer| answer["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["\"quick\"", "\"slow\"", "0", "1"], "{answer}");
    // Nothing to answer is nothing said.
    caller.line(&json!([{"jsonrpc": "2.0", "method": "notifications/other"}]).to_string()).await;
    sleep(A_WHILE).await;
    assert_eq!(caller.waiting().await, None);
    // Answers that are not of the batch do not wait for it.
    caller.line(&json!([call("x", 5.0)]).to_string()).await;
    caller.plain(&json!(9), "ping", json!({})).await;
    assert_eq!(caller.receive().await.unwrap()["id"], 9);
    let answer = caller.receive().await.unwrap();
    assert_eq!((answer.as_array().unwrap().len(), &answer[0]["id"]), (1, &json!("x")));
}

async fn a_batch_with_more_than_there_is_room_for_is_answered_all_the_same(peer: Peer) {
    let (stage, hub) = ready(peer).await;
    let (mut caller, _) = Caller::legacy(&hub, "2024-11-05", json!({})).await;
    let items: Vec<Value> = (0..40)
        .map(|id| {
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                "params": {"name": "slow", "arguments": {"seconds": 1, "tag": format!("n{id}")}}})
        })
        .collect();
    caller.line(&json!(items).to_string()).await;
    let answer = caller.receive().await.unwrap();
    let mut ids: Vec<i64> =
        answer.as_array().unwrap().iter().map(|answer| answer["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..40).collect::<Vec<_>>());
    for id in 0..40 {
        assert_eq!(stage.runs(&format!("n{id}")), 1);
    }
    assert_eq!(caller.waiting().await, None);
}

async fn what_was_cancelled_is_not_answered(peer: Peer) {
    let (stage, hub) = ready(peer).await;
    let (mut caller, _) = Caller::legacy(&hub, "2025-03-26", json!({})).await;
    call(&stage, &mut caller, "a", "t").await;
    caller.notify("notifications/cancelled", json!({"requestId": "a"})).await;
    stage.until(|stage| stage.events().iter().any(|(_, event)| *event == Event::Cancelled("t".into()))).await;
    sleep(A_WHILE).await;
    assert_eq!(caller.waiting().await, None);
    // Of a batch, the rest is.
    let never = json!({"jsonrpc": "2.0", "id": "b", "method": "tools/call",
        "params": {"name": "never", "arguments": {"tag": "u"}}});
    caller.line(&json!([never, {"jsonrpc": "2.0", "id": 1, "method": "ping"}]).to_string()).await;
    stage.until(|stage| stage.runs("u") > 0).await;
    caller.notify("notifications/cancelled", json!({"requestId": "b"})).await;
    let answer = caller.receive().await.unwrap();
    assert_eq!(answer, json!([{"jsonrpc": "2.0", "id": 1, "result": {}}]));
}

async fn subscribe(caller: &mut Caller, id: &str, on: bool, uri: &str) -> Value {
    let method = if on { "resources/subscribe" } else { "resources/unsubscribe" };
    caller.plain(&json!(id), method, json!({"uri": uri})).await;
    caller.answer(&json!(id)).await
}

/// Waits until the server announces updates of just these, each on one stream.
async fn announces(stage: &Stage, uris: &[&str]) {
    for _ in 0..100 {
        if stage.announced() == uris {
            return;
        }
        sleep(A_WHILE).await;
    }
    assert_eq!(stage.announced(), uris);
}

fn updated(uri: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
}

async fn a_subscription_has_an_answer_of_its_own_and_ends_when_it_is_told(peer: Peer) {
    let (stage, hub) = ready(peer).await;
    let mut caller = client(&hub, json!({})).await;
    // Twice is once.
    caller.plain(&json!("one"), "resources/subscribe", json!({"uri": "a:1"})).await;
    assert_eq!(subscribe(&mut caller, "two", true, "a:1").await["result"], json!({}));
    assert_eq!(caller.answer(&json!("one")).await["result"], json!({}));
    announces(&stage, &["a:1"]).await;
    stage.update("a:1");
    assert_eq!(caller.receive().await.unwrap(), updated("a:1"));
    sleep(A_WHILE).await;
    assert_eq!(caller.waiting().await, None);
    // A cancel that names an answered request cancels nothing.
    caller.notify("notifications/cancelled", json!({"requestId": "one"})).await;
    for (uri, code) in [("gone:1", None), ("shy:1", Some(-32603))] {
        let refused = subscribe(&mut caller, "x", true, uri).await;
        assert!(refused["error"].is_object(), "{refused}");
        assert!(code.is_none_or(|code| refused["error"]["code"] == code), "{refused}");
    }
    announces(&stage, &["a:1"]).await;
    assert_eq!(subscribe(&mut caller, "off", false, "a:1").await["result"], json!({}));
    assert_eq!(subscribe(&mut caller, "again", false, "a:1").await["result"], json!({}));
    announces(&stage, &[]).await;
    stage.update("a:1");
    sleep(A_WHILE).await;
    assert_eq!(caller.waiting().await, None);
}

async fn subscriptions_outlive_the_server_and_not_the_client(peer: Peer) {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.proxy(sleepy());
    let mut caller = client(&hub, json!({})).await;
    // It starts the server, too.
    subscribe(&mut caller, "a", true, "a:1").await;
    if peer.is_remote() {
        stage.site().forget();
        announces(&stage, &[]).await;
    } else {
        stage.server_exits(Exit::Status(1));
        stage.until(|stage| stage.records().last().unwrap().1.record.state == PublicState::Crashed).await;
    }
    sleep(Duration::from_secs(5)).await;
    caller.plain(&json!("b"), "tools/list", json!({})).await;
    caller.answer(&json!("b")).await;
    if !peer.is_remote() {
        assert_eq!(stage.starts(), 2);
    }
    announces(&stage, &["a:1"]).await;
    drop(caller);
    announces(&stage, &[]).await;
}

async fn each_hears_what_it_asked_for(peer: Peer) {
    let (stage, hub) = ready(peer).await;
    let mut old = client(&hub, json!({})).await;
    let mut other = client(&hub, json!({})).await;
    let mut new = Caller::of_proxy(&hub);
    subscribe(&mut old, "a", true, "a:1").await;
    subscribe(&mut other, "b", true, "b:1").await;
    let listens =
        new.send("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": ["a:1"]}})).await;
    new.receive().await.unwrap();
    sleep(A_WHILE).await;
    stage.update("a:1");
    assert_eq!(old.receive().await.unwrap(), updated("a:1"));
    let told = new.receive().await.unwrap();
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listens);
    stage.tools_changed();
    for caller in [&mut old, &mut other] {
        let told = caller.receive().await.unwrap();
        assert_eq!(told, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    }
    sleep(A_WHILE).await;
    for caller in [&mut old, &mut other, &mut new] {
        assert_eq!(caller.waiting().await, None);
    }
}

async fn a_question_goes_to_the_client_whose_call_it_belongs_to(peer: Peer) {
    let era = peer.era();
    let (stage, hub) = ready(peer).await;
    let mut bystander = client(&hub, elicits()).await;
    let mut caller = client(&hub, elicits()).await;
    let wire = call(&stage, &mut caller, "a", "t").await;
    server_asks(&stage, era, &wire, "m");
    let question = asked(&mut caller, "m").await;
    // Whoever was not asked answers nothing.
    let answer =
        json!({"jsonrpc": "2.0", "id": question, "result": {"action": "accept", "content": {"a": 1}}});
    bystander.line(&answer.to_string()).await;
    sleep(A_WHILE).await;
    assert_eq!((answers(&stage).len(), requests(&stage, "t").len()), (0, 1));
    caller.line(&answer.to_string()).await;
    caller.line(&answer.to_string()).await;
    sleep(A_WHILE).await;
    let accepted = json!({"action": "accept", "content": {"a": 1}});
    match era {
        Era::Legacy => {
            assert_eq!(answers(&stage), [json!({"jsonrpc": "2.0", "id": "for m", "result": accepted})]);
            assert_eq!(stage.runs("t"), 1);
        }
        Era::Modern => {
            let [first, retry] = &requests(&stage, "t")[..] else { panic!() };
            assert_ne!(first["id"], retry["id"]);
            assert_eq!(retry["params"]["requestState"], "st\u{e4}te");
            assert_eq!(retry["params"]["inputResponses"], json!({"the \"key\"": accepted}));
            let mut meta = (first["params"]["_meta"].clone(), retry["params"]["_meta"].clone());
            meta.1["progressToken"] = meta.0["progressToken"].take();
            meta.0["progressToken"] = meta.1["progressToken"].clone();
            assert_eq!(meta.0, meta.1);
            // Once more.
            server_asks(&stage, era, &wire_id(&stage, "t"), "n");
            let question = asked(&mut caller, "n").await;
            caller
                .line(&json!({"jsonrpc": "2.0", "id": question, "result": {"action": "cancel"}}).to_string())
                .await;
            sleep(A_WHILE).await;
            let again = requests(&stage, "t")[2].clone();
            assert_eq!(again["params"]["inputResponses"], json!({"the \"key\"": {"action": "cancel"}}));
        }
    }
    finish(&stage, "t");
    let answer = caller.answer(&json!("a")).await;
    assert_eq!(answer["result"]["content"][0]["text"], "t");
    assert_eq!((bystander.waiting().await, caller.waiting().await), (None, None));
}

async fn a_client_that_cannot_be_asked_declines(peer: Peer) {
    let era = peer.era();
    let (stage, _hub, mut caller) = questioned(peer, json!({"sampling": {}})).await;
    sleep(A_WHILE).await;
    let declined = json!({"action": "decline"});
    match era {
        Era::Legacy => {
            assert_eq!(answers(&stage), [json!({"jsonrpc": "2.0", "id": "for m", "result": declined})]);
        }
        Era::Modern => {
            let retry = requests(&stage, "t")[1].clone();
            assert_eq!(retry["params"]["inputResponses"], json!({"the \"key\"": declined}));
        }
    }
    finish(&stage, "t");
    assert_eq!(caller.receive().await.unwrap()["id"], "a");
}

async fn a_client_that_does_not_answer_is_waited_for_so_long(peer: Peer) {
    let era = peer.era();
    let (stage, _hub, mut caller) = questioned(peer, elicits()).await;
    let question = asked(&mut caller, "m").await;
    let began = stage.elapsed();
    let withdrawn = caller.receive().await.unwrap();
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question);
    let waited = stage.elapsed() - began;
    assert!(waited >= PATIENCE && waited < Duration::from_secs(301), "{waited:?}");
    match era {
        Era::Legacy => {
            sleep(A_WHILE).await;
            assert_eq!(answers(&stage)[0]["result"], json!({"action": "cancel"}));
            finish(&stage, "t");
            assert_eq!(caller.receive().await.unwrap()["result"]["content"][0]["text"], "t");
        }
        Era::Modern => {
            assert_eq!(failure(&caller.receive().await.unwrap()), ("timeout", "unknown"));
            // With that it is over, and the server may be let go.
            stage.state(PublicState::Idle).await;
        }
    }
}

async fn the_end_of_a_client_is_the_end_of_its_questions(peer: Peer) {
    let era = peer.era();
    let (stage, _hub, mut caller) = questioned(peer, elicits()).await;
    asked(&mut caller, "m").await;
    drop(caller);
    sleep(A_WHILE).await;
    match era {
        Era::Legacy => assert_eq!(answers(&stage)[0]["result"], json!({"action": "cancel"})),
        Era::Modern => assert_eq!(requests(&stage, "t").len(), 1),
    }
    stage.state(PublicState::Idle).await;
}

async fn a_cancelled_call_withdraws_its_questions(peer: Peer) {
    let (stage, _hub, mut caller) = questioned(peer, elicits()).await;
    let question = asked(&mut caller, "m").await;
    caller.notify("notifications/cancelled", json!({"requestId": "a"})).await;
    let withdrawn = caller.receive().await.unwrap();
    assert_eq!(withdrawn["params"]["requestId"], question);
    caller.line(&json!({"jsonrpc": "2.0", "id": question, "result": {"action": "accept"}}).to_string()).await;
    stage.state(PublicState::Idle).await;
    assert_eq!((stage.runs("t"), caller.waiting().await), (1, None));
}

async fn an_error_of_the_client_is_passed_on(peer: Peer) {
    let era = peer.era();
    let (stage, _hub, mut caller) = questioned(peer, elicits()).await;
    let question = asked(&mut caller, "m").await;
    let error = json!({"code": -32603, "message": "no screen"});
    caller.line(&json!({"jsonrpc": "2.0", "id": question, "error": error}).to_string()).await;
    sleep(A_WHILE).await;
    match era {
        Era::Legacy => {
            assert_eq!(answers(&stage), [json!({"jsonrpc": "2.0", "id": "for m", "error": error})]);
        }
        Era::Modern => {
            let retry = requests(&stage, "t")[1].clone();
            assert_eq!(retry["params"]["inputResponses"]["the \"key\""], json!({"action": "cancel"}));
        }
    }
    finish(&stage, "t");
    assert_eq!(caller.receive().await.unwrap()["result"]["content"][0]["text"], "t");
}

/// What only a modern server can want.
mod wanted {
    use super::*;

    fn requires(stage: &Stage, wire: &Value, inputs: Value) {
        stage.server_says(&json!({"jsonrpc": "2.0", "id": wire,
            "result": {"resultType": "input_required", "inputRequests": inputs}}));
    }

    #[test]
    fn all_that_is_wanted_at_once_is_answered_at_once() {
        play(async || {
            let (stage, hub) = ready(Era::Modern).await;
            let mut caller = client(&hub, json!({"elicitation": {}, "sampling": {}, "roots": {}})).await;
            let wire = call(&stage, &mut caller, "a", "t").await;
            let sampling =
                json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
            let form = json!({"method": "elicitation/create", "params": form("m")});
            requires(&stage, &wire, json!({"s": sampling, "r": {"method": "roots/list"}, "f": form}));
            let mut ids = Vec::new();
            for method in ["sampling/createMessage", "roots/list", "elicitation/create"] {
                let question = caller.receive().await.unwrap();
                assert_eq!(question["method"], method);
                ids.push(question["id"].clone());
            }
            let results = [json!({"role": "assistant"}), json!({"roots": []}), json!({"action": "decline"})];
            for (id, result) in ids.iter().zip(&results).rev() {
                assert_eq!(requests(&stage, "t").len(), 1);
                caller.line(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()).await;
                sleep(A_WHILE).await;
            }
            let retry = requests(&stage, "t")[1].clone();
            assert_eq!(
                retry["params"]["inputResponses"],
                json!({"s": results[0], "r": results[1], "f": results[2]})
            );
            assert_eq!(retry["params"].get("requestState"), None);
        });
    }

    #[test]
    fn a_refusal_to_sample_is_the_calls_own_end() {
        play(async || {
            let (stage, hub) = ready(Era::Modern).await;
            let mut caller = client(&hub, json!({"elicitation": {}, "sampling": {}})).await;
            let wire = call(&stage, &mut caller, "a", "t").await;
            let sampling =
                json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
            let form = json!({"method": "elicitation/create", "params": form("m")});
            requires(&stage, &wire, json!({"s": sampling, "f": form}));
            let asked = caller.receive().await.unwrap();
            let other = caller.receive().await.unwrap();
            let error = json!({"code": -1, "message": "the user says no"});
            caller.line(&json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}).to_string()).await;
            // Over HTTP nothing is heard of a call after its answer.
            let withdrawn = caller.receive().await.unwrap();
            assert_eq!(withdrawn["params"]["requestId"], other["id"]);
            let answer = caller.receive().await.unwrap();
            assert_eq!((&answer["id"], &answer["error"]), (&json!("a"), &error));
            assert_eq!(requests(&stage, "t").len(), 1);
            stage.state(PublicState::Idle).await;
        });
    }

    #[test]
    fn what_cannot_be_asked_ends_the_call_and_nothing_else() {
        play(async || {
            let (stage, hub) = ready(Era::Modern).await;
            let mut caller = client(&hub, elicits()).await;
            let sampling =
                json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
            for (tag, inputs) in [
                ("a", json!({"s": sampling})),
                ("b", json!({"x": {"method": "tools/list"}})),
                ("c", json!([])),
            ] {
                let wire = call(&stage, &mut caller, tag, tag).await;
                requires(&stage, &wire, inputs);
                assert_eq!(failure(&caller.answer(&json!(tag)).await), ("unsupported", "unknown"));
                assert_eq!(requests(&stage, tag).len(), 1);
            }
        });
    }

    #[test]
    fn a_state_alone_is_sent_back_at_once_and_not_for_ever() {
        play(async || {
            let (stage, hub) = ready(Era::Modern).await;
            let mut caller = client(&hub, json!({})).await;
            call(&stage, &mut caller, "a", "t").await;
            for round in 1..=drowse_core::front::round::MAX_ROUNDS + 1 {
                let wire = wire_id(&stage, "t");
                stage.server_says(&json!({"jsonrpc": "2.0", "id": wire,
                    "result": {"resultType": "input_required", "requestState": round.to_string()}}));
                sleep(A_WHILE).await;
                if round <= drowse_core::front::round::MAX_ROUNDS {
                    let params = requests(&stage, "t").last().unwrap()["params"].clone();
                    assert_eq!(params["requestState"], round.to_string());
                }
            }
            assert_eq!(failure(&caller.answer(&json!("a")).await), ("unsupported", "unknown"));
        });
    }
}

/// What only a legacy server says.
mod said {
    use super::*;

    fn says(stage: &Stage, level: &str) {
        let params = json!({"level": level, "data": level});
        stage.server_says(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}));
    }

    async fn heard(caller: &mut Caller) -> Vec<String> {
        sleep(A_WHILE).await;
        let mut heard = Vec::new();
        while let Some(message) = caller.waiting().await {
            heard.push(message["params"]["level"].as_str().unwrap().to_owned());
        }
        heard
    }

    #[test]
    fn a_question_that_is_taken_back_is_withdrawn_and_not_answered() {
        play(async || {
            let (stage, hub) = ready(Era::Legacy).await;
            let mut caller = client(&hub, elicits()).await;
            let wire = call(&stage, &mut caller, "a", "t").await;
            server_asks(&stage, Era::Legacy, &wire, "m");
            let question = asked(&mut caller, "m").await;
            let taken = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "for m"}});
            stage.server_says(&taken);
            let withdrawn = caller.receive().await.unwrap();
            assert_eq!(withdrawn["params"]["requestId"], question);
            caller
                .line(&json!({"jsonrpc": "2.0", "id": question, "result": {"action": "accept"}}).to_string())
                .await;
            // The call's own time goes on.
            assert_eq!(failure(&caller.answer(&json!("a")).await), ("timeout", "unknown"));
            assert_eq!(answers(&stage).len(), 0);
        });
    }

    #[test]
    fn the_server_is_told_the_most_that_anybody_wants_and_each_hears_its_own() {
        play(async || {
            let (stage, hub) = ready(Era::Legacy).await;
            let mut quiet = client(&hub, json!({})).await;
            let mut loud = client(&hub, json!({})).await;
            let mut any = client(&hub, json!({})).await;
            for (caller, level) in [(&mut quiet, "error"), (&mut loud, "info")] {
                caller.plain(&json!(1), "logging/setLevel", json!({"level": level})).await;
                assert_eq!(caller.answer(&json!(1)).await["result"], json!({}));
            }
            for level in ["debug", "info", "alert"] {
                says(&stage, level);
            }
            assert_eq!(heard(&mut quiet).await, ["alert"]);
            assert_eq!(heard(&mut loud).await, ["info", "alert"]);
            assert_eq!(heard(&mut any).await, ["debug", "info", "alert"]);
            drop(loud);
            sleep(A_WHILE).await;
            let told = stage.events().into_iter().filter_map(|(_, event)| match event {
                Event::Got(message) if message["method"] == "logging/setLevel" => {
                    Some(message["params"]["level"].clone())
                }
                _ => None,
            });
            assert_eq!(told.collect::<Vec<_>>(), ["error", "info", "error"]);
        });
    }
}
