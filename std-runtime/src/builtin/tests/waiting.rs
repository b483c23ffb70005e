//! Requests that take their time: progress, cancellation, batches.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Talk, assert_error, call, cancelled, initialize, modern, modern_call, request, text};

fn with_token(mut call: Value, token: Value) -> Value {
    call["params"]["_meta"]["progressToken"] = token;
    call
}

#[test]
fn a_sleep_reports_and_lets_others_pass() {
    for (mut talk, sleep) in [
        (Talk::initialized("2025-11-25"), call(1, "sleep", json!({"ms": 250}))),
        (Talk::new(), modern_call(1, "sleep", json!({"ms": 250}))),
    ] {
        assert!(talk.send(&with_token(sleep, json!(0))).is_empty());
        let progress = |at: u64| {
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": 0, "progress": at, "total": 250, "message": format!("slept {at} of 250 ms")
            }})
        };
        assert_eq!(talk.until(99), [] as [Value; 0]);
        assert_eq!(talk.until(100), [progress(100)]);
        assert_eq!(
            talk.ask(&modern_call(2, "echo", json!({"text": "now"})))["result"]["content"],
            text("now")
        );
        assert_eq!(talk.until(249), [progress(200)]);
        let end = talk.until(10_000);
        assert_eq!(end.len(), 1);
        assert_eq!((&end[0]["id"], &end[0]["result"]["content"]), (&json!(1), &text("slept 250 ms")));
        assert_eq!(talk.server.poll_timeout(), None);
    }
}

#[test]
fn a_late_timer_reports_in_order_and_once() {
    let mut talk = Talk::new();
    talk.send(&with_token(modern_call("s", "sleep", json!({"ms": 300})), json!("t")));
    talk.server.handle_timeout(talk.start + Duration::from_secs(9));
    let lines = talk.drain();
    let progress: Vec<Option<u64>> = lines.iter().map(|line| line["params"]["progress"].as_u64()).collect();
    assert_eq!(progress, [Some(100), Some(200), Some(300), None]);
    assert_eq!(lines[3]["id"], "s");
    talk.server.handle_timeout(talk.start + Duration::from_secs(9));
    assert!(talk.drain().is_empty(), "a repeated timeout is harmless");
}

#[test]
fn without_a_token_there_is_no_progress_and_zero_waits_for_nothing() {
    let mut talk = Talk::new();
    assert!(talk.send(&modern_call(1, "sleep", json!({"ms": 500}))).is_empty());
    assert_eq!(talk.until(499), [] as [Value; 0]);
    assert_eq!(talk.until(500).len(), 1);
    assert_eq!(talk.ask(&modern_call(2, "sleep", json!({"ms": 0})))["result"]["content"], text("slept 0 ms"));
}

#[test]
fn sleeps_end_in_the_order_of_their_deadlines() {
    let mut talk = Talk::new();
    for (id, ms) in [("long", 300), ("short", 100), ("middle", 200)] {
        assert!(talk.send(&modern_call(id, "sleep", json!({"ms": ms}))).is_empty());
    }
    let ids: Vec<Value> = talk.until(1000).iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, ["short", "middle", "long"]);
}

#[test]
fn a_cancelled_sleep_is_never_heard_of_again() {
    let mut talk = Talk::new();
    talk.send(&with_token(modern_call(1, "sleep", json!({"ms": 1000})), json!("t")));
    talk.send(&modern_call("1", "sleep", json!({"ms": 1000})));
    assert_eq!(talk.until(150).len(), 1);
    assert!(talk.send(&cancelled(1)).is_empty());
    let rest = talk.until(5000);
    assert_eq!(rest.len(), 1, "an id keeps its type: {rest:?}");
    assert_eq!(rest[0]["id"], "1");
    for harmless in [
        cancelled(1),
        cancelled("nobody"),
        cancelled(Value::Null),
        json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled"
        }),
    ] {
        assert!(talk.send(&harmless).is_empty());
    }
    // The id is free again.
    assert!(talk.ask(&modern_call(1, "echo", json!({"text": ""}))).get("result").is_some());
}

#[test]
fn an_id_in_flight_is_not_taken_twice() {
    let mut talk = Talk::new();
    talk.send(&modern_call(1, "sleep", json!({"ms": 100})));
    assert_error(&talk.ask(&modern_call(1, "echo", json!({"text": ""}))), Some(json!(1)), -32600);
    assert_eq!(talk.until(100).len(), 1);
}

#[test]
fn waiting_requests_are_bounded() {
    let mut talk = Talk::new();
    for id in 0..1024 {
        assert!(talk.send(&modern_call(id, "sleep", json!({"ms": 1}))).is_empty());
    }
    assert_error(&talk.ask(&modern_call(1024, "sleep", json!({"ms": 1}))), Some(json!(1024)), -32603);
    assert!(talk.ask(&modern_call(1025, "echo", json!({"text": ""}))).get("result").is_some());
    assert_eq!(talk.until(1).len(), 1024);
}

#[test]
fn a_batch_is_answered_as_one_when_its_last_request_is() {
    for revision in ["2025-03-26", "2024-11-05"] {
        let mut talk = Talk::initialized(revision);
        let batch = json!([
            request(1, "ping", json!({})),
            {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
            call(2, "sleep", json!({"ms": 100})),
            request(3, "no/such", json!({})),
            17,
            modern(4, "tools/list", json!({})),
            initialize("2025-03-26"),
        ]);
        assert!(talk.send(&batch).is_empty());
        let lines = talk.until(100);
        assert_eq!(lines.len(), 1);
        let answers = lines[0].as_array().unwrap();
        let found: Vec<(Value, Value)> =
            answers.iter().map(|answer| (answer["id"].clone(), answer["error"]["code"].clone())).collect();
        assert_eq!(
            found,
            [
                (json!(1), Value::Null),
                (json!(3), json!(-32601)),
                (Value::Null, json!(-32600)),
                (json!(4), json!(-32600)),
                (json!(0), json!(-32600)),
                (json!(2), Value::Null),
            ]
        );
    }
}

#[test]
fn a_batch_with_nothing_to_answer_is_not_answered() {
    let mut talk = Talk::initialized("2025-03-26");
    assert!(talk.send(&json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}])).is_empty());
    assert!(talk.send(&json!([call(1, "sleep", json!({"ms": 100})), cancelled(1)])).is_empty());
    assert!(talk.until(1000).is_empty());
    assert!(
        talk.send(&json!([call(1, "sleep", json!({"ms": 100})), call(2, "sleep", json!({"ms": 50}))]))
            .is_empty()
    );
    assert!(talk.send(&cancelled(1)).is_empty());
    let lines = talk.until(5000);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].as_array().map(Vec::len), Some(1));
    assert_eq!(lines[0][0]["id"], 2);
    assert_error(&talk.ask(&json!([])), None, -32600);
}

#[test]
fn later_revisions_have_no_batches() {
    for mut talk in [Talk::new(), Talk::initialized("2025-06-18"), Talk::initialized("2025-11-25")] {
        assert_error(&talk.ask(&json!([request(1, "ping", json!({}))])), None, -32600);
    }
}
