//! What a legacy server asks during a call: the call is held, its caller answers by calling again, and nothing runs twice.

use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::PublicState;
use drowse_runtime::bridge::Hub;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::{Caller, Event, IDLE, Script, Stage, assert_at, failure, play, sleepy};

/// How long answers are awaited.
const PATIENCE: Duration = Duration::from_secs(300);

async fn live() -> (Stage, Hub, Caller) {
    let stage = Stage::new(Script::of(Era::Legacy));
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    let caller = Caller::connect(&hub).await;
    (stage, hub, caller)
}

/// A call of a tool that never ends by itself, of a caller that can be asked.
async fn call(caller: &mut Caller, id: &str, tag: &str, more: Value) {
    let mut params = json!({"name": "never", "arguments": {"tag": tag}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }});
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    let line = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    caller.line(&line.to_string()).await;
}

/// Waits until the server has the call, and asks in its name.
async fn question(stage: &Stage, tag: &str, id: &str) {
    stage.until(|stage| stage.runs(tag) > 0).await;
    stage.server_says(&json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {
        "message": format!("for {tag}"), "requestedSchema": {"type": "object", "properties": {}},
    }}));
}

/// The server's final answer to the call of that tag.
fn finish(stage: &Stage, tag: &str) {
    let events = stage.events();
    let id = events.iter().find_map(|(_, event)| match event {
        Event::Got(message) if message["params"]["arguments"]["tag"] == tag => Some(message["id"].clone()),
        _ => None,
    });
    let result = json!({"content": [{"type": "text", "text": format!("done {tag}")}]});
    stage.server_says(&json!({"jsonrpc": "2.0", "id": id.unwrap(), "result": result}));
}

/// What the server got in answer to its requests.
fn answers(stage: &Stage) -> Vec<Value> {
    let events = stage.events().into_iter();
    let answers = events.filter_map(|(_, event)| match event {
        Event::Got(message) if message.get("method").is_none() => Some(message),
        _ => None,
    });
    answers.collect()
}

fn accept(state: &Value) -> Value {
    json!({"inputResponses": {"q1": {"action": "accept", "content": {"a": 1}}}, "requestState": state})
}

/// Asks a call once; gives the state that its caller was told.
async fn asked(stage: &Stage, caller: &mut Caller) -> Value {
    call(caller, "one", "t", json!({})).await;
    question(stage, "t", "question").await;
    let answer = caller.answer(&json!("one")).await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let asked = &result["inputRequests"]["q1"];
    assert_eq!(
        (&asked["method"], &asked["params"]["message"]),
        (&json!("elicitation/create"), &json!("for t"))
    );
    result["requestState"].clone()
}

#[test]
fn the_retry_answers_the_question_and_gets_the_calls_own_answer() {
    play(async || {
        let (stage, _hub, mut caller) = live().await;
        let state = asked(&stage, &mut caller).await;
        call(&mut caller, "two", "t", accept(&state)).await;
        stage.until(|stage| !answers(stage).is_empty()).await;
        let answer =
            json!({"jsonrpc": "2.0", "id": "question", "result": {"action": "accept", "content": {"a": 1}}});
        assert_eq!(answers(&stage), [answer]);
        finish(&stage, "t");
        let answer = caller.answer(&json!("two")).await;
        assert_eq!(answer["result"]["content"][0]["text"], "done t", "{answer}");
        assert_eq!(stage.runs("t"), 1);
        // Its response was lost: the identical retry gets the same.
        call(&mut caller, "three", "t", accept(&state)).await;
        assert_eq!(caller.answer(&json!("three")).await["result"], answer["result"]);
        // Another answer to the same question is an error.
        let other = json!({"inputResponses": {"q1": {"action": "decline"}}, "requestState": state});
        call(&mut caller, "four", "t", other).await;
        assert_eq!(failure(&caller.answer(&json!("four")).await), ("interaction-answered", "unknown"));
        assert_eq!((stage.runs("t"), answers(&stage).len()), (1, 1));
    });
}

#[test]
fn states_of_nobody_or_of_another_request_lead_to_no_call() {
    play(async || {
        let (stage, hub, mut caller) = live().await;
        let state = asked(&stage, &mut caller).await;
        let forged = state.as_str().unwrap().replace(['0', '1'], "2");
        call(&mut caller, "x", "t", accept(&json!(forged))).await;
        assert_eq!(failure(&caller.answer(&json!("x")).await), ("interaction-lost", "unknown"));
        call(&mut caller, "y", "other", accept(&state)).await;
        assert_eq!(failure(&caller.answer(&json!("y")).await), ("interaction-lost", "unknown"));
        // A connection without a name is a principal of its own.
        let mut stranger = Caller::connect(&hub).await;
        call(&mut stranger, "z", "t", accept(&state)).await;
        assert_eq!(failure(&stranger.answer(&json!("z")).await), ("interaction-lost", "unknown"));
        assert_eq!((stage.runs("t"), stage.runs("other"), answers(&stage).len()), (1, 0, 0));
    });
}

#[test]
fn a_held_call_keeps_the_server_awake_until_its_time_is_over_and_is_then_cancelled() {
    play(async || {
        let (stage, hub, mut caller) = live().await;
        let state = asked(&stage, &mut caller).await;
        let shown = stage.elapsed();
        stage.until(|stage| !stage.got("notifications/cancelled").is_empty()).await;
        assert_at(stage.got("notifications/cancelled")[0], shown + PATIENCE);
        let cancelled = json!({"jsonrpc": "2.0", "id": "question", "result": {"action": "cancel"}});
        assert_eq!(answers(&stage), [cancelled]);
        assert_eq!(hub.state(), PublicState::Live);
        call(&mut caller, "late", "t", accept(&state)).await;
        assert_eq!(failure(&caller.answer(&json!("late")).await), ("interaction-lost", "unknown"));
        // From there a full period.
        assert_at(stage.state(PublicState::Idle).await, shown + PATIENCE + IDLE);
        assert_eq!(stage.runs("t"), 1);
    });
}

#[test]
fn a_caller_that_goes_away_while_it_is_asked_is_cancelled() {
    play(async || {
        let (stage, _hub, mut caller) = live().await;
        asked(&stage, &mut caller).await;
        drop(caller);
        stage.until(|stage| !stage.got("notifications/cancelled").is_empty()).await;
        assert_eq!(answers(&stage)[0]["result"], json!({"action": "cancel"}));
    });
}

#[test]
fn an_answer_that_comes_before_the_retry_waits_for_it_and_keeps_the_server_awake() {
    play(async || {
        let (stage, _hub, mut caller) = live().await;
        let state = asked(&stage, &mut caller).await;
        let shown = stage.elapsed();
        finish(&stage, "t");
        sleep(PATIENCE - Duration::from_secs(1)).await;
        call(&mut caller, "two", "t", accept(&state)).await;
        let answer = caller.answer(&json!("two")).await;
        assert_eq!(answer["result"]["content"][0]["text"], "done t", "{answer}");
        let taken = stage.elapsed();
        assert!(taken >= shown + PATIENCE - Duration::from_secs(1));
        assert_at(stage.state(PublicState::Idle).await, taken + IDLE);
        assert_eq!(stage.runs("t"), 1);
    });
}

#[test]
fn who_cannot_be_asked_is_not_and_the_server_is_told() {
    play(async || {
        let (stage, _hub, mut caller) = live().await;
        let id = caller.start("never", json!({"tag": "t"})).await;
        question(&stage, "t", "question").await;
        stage.until(|stage| !answers(stage).is_empty()).await;
        assert_eq!(answers(&stage)[0]["result"], json!({"action": "decline"}));
        finish(&stage, "t");
        assert!(caller.answer(&id).await.get("result").is_some());
    });
}

#[test]
fn a_question_that_may_belong_to_several_callers_is_put_to_nobody() {
    play(async || {
        let (stage, hub, mut one) = live().await;
        let mut other = Caller::connect(&hub).await;
        call(&mut one, "a", "a", json!({})).await;
        call(&mut other, "b", "b", json!({})).await;
        stage.until(|stage| stage.runs("b") > 0).await;
        question(&stage, "a", "question").await;
        stage.until(|stage| !answers(stage).is_empty()).await;
        assert_eq!(answers(&stage)[0]["result"], json!({"action": "cancel"}));
    });
}

#[test]
fn a_server_that_ends_takes_the_call_with_it_and_it_is_not_issued_again() {
    play(async || {
        let (stage, _hub, mut caller) = live().await;
        let state = asked(&stage, &mut caller).await;
        stage.server_exits(drowse_core::lifecycle::Exit::Status(3));
        call(&mut caller, "two", "t", accept(&state)).await;
        assert_eq!(failure(&caller.answer(&json!("two")).await), ("server-lost", "unknown"));
        caller.call("echo", json!({"tag": "fresh"})).await;
        // The identical retry gets the same, also while another server runs, and nothing once its time is over.
        call(&mut caller, "three", "t", accept(&state)).await;
        assert_eq!(failure(&caller.answer(&json!("three")).await), ("server-lost", "unknown"));
        sleep(PATIENCE).await;
        call(&mut caller, "four", "t", accept(&state)).await;
        assert_eq!(failure(&caller.answer(&json!("four")).await), ("interaction-lost", "unknown"));
        assert_eq!((stage.runs("t"), stage.starts()), (1, 2));
    });
}
