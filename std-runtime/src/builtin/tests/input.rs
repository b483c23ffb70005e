//! Input that is no message, or none to be answered.

use serde_json::json;

use super::{Talk, assert_error, request};

#[test]
fn garbage_is_answered_without_an_id_and_does_no_harm() {
    let mut talk = Talk::new();
    for garbage in [
        &b"hello"[..],
        b"{\"jsonrpc\":\"2.0\",\"id\":1,",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} trailing",
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud800\"}",
        b"{'jsonrpc':'2.0'}",
        b"NaN",
    ] {
        let answers = talk.line(garbage);
        assert_eq!(answers.len(), 1);
        assert_error(&answers[0], None, -32700);
    }
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_error(&talk.line(nested.as_bytes())[0], None, -32700);
    for blank in ["", "\n", "  \t\r\n"] {
        assert!(talk.line(blank.as_bytes()).is_empty());
    }
    assert_eq!(
        talk.line(b"  {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n")[0]["result"],
        json!({})
    );
}

#[test]
fn json_that_is_no_message() {
    let mut talk = Talk::new();
    for (value, id) in [
        (json!(42), None),
        (json!("ping"), None),
        (json!(null), None),
        (json!({}), None),
        (json!({"id": 1, "method": "ping"}), Some(json!(1))),
        (json!({"jsonrpc": "1.0", "id": "a", "method": "ping"}), Some(json!("a"))),
        (json!({"jsonrpc": "2.0", "id": 1}), Some(json!(1))),
        (json!({"jsonrpc": "2.0", "id": 1, "method": 5}), Some(json!(1))),
        (json!({"jsonrpc": "2.0", "id": null, "method": "ping"}), None),
        (json!({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}), None),
        (json!({"jsonrpc": "2.0", "id": [1], "method": "ping"}), None),
        (json!({"jsonrpc": "2.0", "id": true, "method": "ping"}), None),
    ] {
        let answer = talk.ask(&value);
        assert_error(&answer, id, -32600);
    }
    for params in [json!([]), json!("x"), json!(null)] {
        assert_error(&talk.ask(&request(1, "ping", params)), Some(json!(1)), -32602);
    }
    assert_error(&talk.ask(&request(1, "ping", json!({"_meta": 1}))), Some(json!(1)), -32602);
}

#[test]
fn ids_come_back_as_they_were() {
    let mut talk = Talk::new();
    for id in [json!(0), json!(-7), json!(u64::MAX), json!(""), json!("0"), json!("ä\n")] {
        assert_eq!(talk.ask(&request(id.clone(), "ping", json!({})))["id"], id);
    }
}

#[test]
fn notifications_and_responses_are_never_answered() {
    let mut talk = Talk::new();
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/no-such", "params": {"a": 1}}),
        json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "echo"}}),
        json!({"jsonrpc": "2.0", "method": "initialize", "params": []}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}),
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": ""}}),
    ] {
        assert!(talk.send(&message).is_empty(), "{message}");
    }
    assert_error(&talk.ask(&request(2, "tools/list", json!({}))), Some(json!(2)), -32602);
}
