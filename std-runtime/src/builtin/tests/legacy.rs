//! The `initialize` handshake and what follows from it.

use serde_json::{Value, json};

use super::super::server::LEGACY;
use super::{Talk, assert_error, call, initialize, modern, modern_call, request, server_info};

#[test]
fn initialize_is_answered_in_full() {
    let mut talk = Talk::new();
    let answer = talk.ask(&initialize("2025-11-25"));
    let instructions = answer["result"]["instructions"].clone();
    assert!(instructions.as_str().is_some_and(|text| text.contains("whoami")));
    assert_eq!(
        answer,
        json!({"jsonrpc": "2.0", "id": 0, "result": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "resources": {"subscribe": true}, "prompts": {}, "logging": {}},
            "serverInfo": server_info(),
            "instructions": instructions,
        }})
    );
}

#[test]
fn every_legacy_revision_is_agreed_to_and_an_unknown_one_gets_the_newest() {
    for revision in LEGACY {
        Talk::initialized(revision);
    }
    for unknown in ["2026-07-28", "1900-01-01", ""] {
        let answer = Talk::new().ask(&initialize(unknown));
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    }
}

#[test]
fn initialize_needs_its_parameters_and_comes_once() {
    for missing in ["protocolVersion", "capabilities", "clientInfo"] {
        let mut talk = Talk::new();
        let mut opening = initialize("2025-11-25");
        opening["params"].as_object_mut().unwrap().remove(missing);
        let answer = talk.ask(&opening);
        assert_error(&answer, Some(json!(0)), -32602);
        assert!(answer["error"]["message"].as_str().unwrap().contains(missing));
        // A refused initialize has initialized nothing.
        assert_error(&talk.ask(&request(1, "tools/list", json!({}))), Some(json!(1)), -32602);
    }
    let mut talk = Talk::initialized("2025-11-25");
    assert_error(&talk.ask(&initialize("2025-11-25")), Some(json!(0)), -32600);
}

#[test]
fn before_initialize_only_ping_is_answered() {
    let mut talk = Talk::new();
    assert_eq!(
        talk.ask(&request("p", "ping", json!({}))),
        json!({"jsonrpc": "2.0", "id": "p", "result": {}})
    );
    for method in [
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "prompts/list",
        "logging/setLevel",
        "server/discover",
        "subscriptions/listen",
        "no/such",
    ] {
        assert_error(&talk.ask(&request(7, method, json!({}))), Some(json!(7)), -32602);
    }
    assert_eq!(talk.ask(&initialize("2025-06-18"))["result"]["protocolVersion"], "2025-06-18");
}

#[test]
fn legacy_results_carry_no_modern_fields() {
    let mut talk = Talk::initialized("2025-11-25");
    let answers = [
        talk.ask(&request(1, "tools/list", json!({}))),
        talk.ask(&request(2, "resources/list", json!({}))),
        talk.ask(&request(3, "resources/templates/list", json!({}))),
        talk.ask(&request(4, "resources/read", json!({"uri": "demo://clock"}))),
        talk.ask(&request(5, "prompts/list", json!({}))),
        talk.ask(&request(6, "prompts/get", json!({"name": "greet", "arguments": {"name": "Ann"}}))),
        talk.ask(&call(7, "echo", json!({"text": "hi"}))),
        talk.ask(&request(8, "ping", json!({}))),
    ];
    for answer in answers {
        let result = answer["result"].as_object().unwrap_or_else(|| panic!("no result: {answer}"));
        for field in ["resultType", "ttlMs", "cacheScope", "_meta"] {
            assert!(!result.contains_key(field), "{field} in {answer}");
        }
    }
}

#[test]
fn legacy_methods_without_a_counterpart() {
    let mut talk = Talk::initialized("2025-11-25");
    for method in ["server/discover", "subscriptions/listen", "completion/complete", "tasks/list", "no/such"]
    {
        assert_error(&talk.ask(&request(1, method, json!({}))), Some(json!(1)), -32601);
    }
}

#[test]
fn set_level_turns_logging_on_from_that_level() {
    let mut talk = Talk::initialized("2025-11-25");
    assert_eq!(talk.send(&call(1, "echo", json!({"text": "a"}))).len(), 1, "silent until asked");
    let done = json!({"jsonrpc": "2.0", "id": 2, "result": {}});
    assert_eq!(talk.ask(&request(2, "logging/setLevel", json!({"level": "info"}))), done);
    let lines = talk.send(&call(3, "echo", json!({"text": "a"})));
    assert_eq!(
        lines[0],
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {
            "level": "info", "logger": "demo", "data": "tools/call echo"
        }})
    );
    assert_eq!(lines[1]["id"], 3);
    talk.ask(&request(4, "logging/setLevel", json!({"level": "notice"})));
    assert_eq!(talk.send(&call(5, "echo", json!({"text": "a"}))).len(), 1);
    for level in [json!("loud"), json!(3), Value::Null] {
        assert_error(
            &talk.ask(&request(6, "logging/setLevel", json!({"level": level}))),
            Some(json!(6)),
            -32602,
        );
    }
    assert_error(&talk.ask(&request(7, "logging/setLevel", json!({}))), Some(json!(7)), -32602);
}

#[test]
fn a_legacy_subscription_to_the_clock() {
    let mut talk = Talk::initialized("2025-11-25");
    assert!(talk.until(5000).is_empty(), "nobody has subscribed");
    assert_error(
        &talk.ask(&request(1, "resources/subscribe", json!({"uri": "demo://none"}))),
        Some(json!(1)),
        -32002,
    );
    assert_error(&talk.ask(&request(1, "resources/subscribe", json!({}))), Some(json!(1)), -32602);
    assert_eq!(
        talk.ask(&request(2, "resources/subscribe", json!({"uri": "demo://greeting"})))["result"],
        json!({})
    );
    assert!(talk.until(6000).is_empty(), "the greeting never changes");
    assert_eq!(
        talk.ask(&request(3, "resources/subscribe", json!({"uri": "demo://clock"})))["result"],
        json!({})
    );
    let update = json!({
        "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "demo://clock"}
    });
    assert_eq!(talk.until(8000), [update.clone(), update]);
    assert_eq!(
        talk.ask(&request(4, "resources/unsubscribe", json!({"uri": "demo://clock"})))["result"],
        json!({})
    );
    assert_eq!(talk.server.poll_timeout(), None, "no timer is left");
    assert!(talk.until(60_000).is_empty());
}

#[test]
fn half_a_modern_request_is_no_legacy_one() {
    let mut talk = Talk::initialized("2025-11-25");
    for key in ["io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"] {
        let mut lacking = modern(1, "tools/list", json!({}));
        lacking["params"]["_meta"].as_object_mut().unwrap().remove(key);
        assert_error(&talk.ask(&lacking), Some(json!(1)), -32602);
    }
}

#[test]
fn a_modern_request_is_served_in_a_legacy_process() {
    let mut talk = Talk::initialized("2025-11-25");
    assert_eq!(talk.ask(&modern(1, "server/discover", json!({})))["result"]["resultType"], "complete");
    assert_error(&talk.ask(&modern(2, "ping", json!({}))), Some(json!(2)), -32601);
    let era = |answer: Value| answer["result"]["structuredContent"]["era"].clone();
    assert_eq!(era(talk.ask(&modern_call(3, "whoami", json!({})))), "modern");
    assert_eq!(era(talk.ask(&call(4, "whoami", json!({})))), "legacy");
}
