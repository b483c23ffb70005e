//! The stateless revision: `_meta`, discovery, lists, subscriptions.

use serde_json::{Value, json};

use super::super::server::LASTING_MS;
use super::{Talk, assert_error, cancelled, initialize, modern, modern_call, result_meta, text};

#[test]
fn discover_is_answered_in_full() {
    let answer = Talk::new().ask(&modern("probe-1", "server/discover", json!({})));
    let instructions = answer["result"]["instructions"].clone();
    assert!(instructions.is_string());
    assert_eq!(
        answer,
        json!({"jsonrpc": "2.0", "id": "probe-1", "result": {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "resources": {"subscribe": true}, "prompts": {}},
            "instructions": instructions,
            "ttlMs": LASTING_MS,
            "cacheScope": "public",
            "_meta": result_meta(),
        }})
    );
}

#[test]
fn required_meta_fields_are_required_of_every_method() {
    for method in
        ["server/discover", "tools/list", "tools/call", "resources/read", "subscriptions/listen", "x/y"]
    {
        for key in ["protocolVersion", "clientCapabilities"] {
            let key = format!("io.modelcontextprotocol/{key}");
            let mut talk = Talk::new();
            let mut lacking = modern(1, method, json!({}));
            lacking["params"]["_meta"].as_object_mut().unwrap().remove(&key);
            let answer = talk.ask(&lacking);
            assert_error(&answer, Some(json!(1)), -32602);
            assert!(answer["error"]["message"].as_str().unwrap().contains(&key), "{answer}");

            let mut mistyped = modern(2, method, json!({}));
            mistyped["params"]["_meta"][&key] = json!(7);
            assert_error(&talk.ask(&mistyped), Some(json!(2)), -32602);
        }
    }
}

#[test]
fn optional_meta_fields_are_checked_where_given() {
    let with = |key: &str, value: Value| {
        let mut list = modern(1, "tools/list", json!({}));
        list["params"]["_meta"][key] = value;
        Talk::new().ask(&list)
    };
    for (key, value) in [
        ("io.modelcontextprotocol/clientInfo", json!("me")),
        ("io.modelcontextprotocol/logLevel", json!("loud")),
        ("io.modelcontextprotocol/logLevel", Value::Null),
        ("progressToken", json!(1.5)),
        ("progressToken", Value::Null),
    ] {
        assert_error(&with(key, value), Some(json!(1)), -32602);
    }
    for (key, value) in [
        ("io.modelcontextprotocol/clientInfo", json!({"name": "a", "version": "1"})),
        ("io.modelcontextprotocol/logLevel", json!("debug")),
        ("progressToken", json!(0)),
        ("com.example/other", json!([1])),
    ] {
        assert!(with(key, value).get("result").is_some(), "{key}");
    }
}

#[test]
fn an_unsupported_revision_is_named_and_the_supported_one_offered() {
    for requested in ["1900-01-01", "2025-11-25", "2027-01-01"] {
        let mut list = modern(9, "tools/list", json!({}));
        list["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(requested);
        // What else another revision requires is unknown, so the version is judged first.
        list["params"]["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
        assert_eq!(
            Talk::new().ask(&list),
            json!({"jsonrpc": "2.0", "id": 9, "error": {
                "code": -32022,
                "message": "Unsupported protocol version",
                "data": {"supported": ["2026-07-28"], "requested": requested},
            }})
        );
    }
}

#[test]
fn removed_methods_are_unknown_to_the_modern_era() {
    let mut talk = Talk::new();
    for method in ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "roots/list"] {
        let params = json!({"level": "info", "uri": "demo://clock"});
        assert_error(&talk.ask(&modern(1, method, params)), Some(json!(1)), -32601);
    }
    let mut opening = initialize("2025-11-25");
    opening["params"]["_meta"] = modern(0, "x", json!({}))["params"]["_meta"].clone();
    let answer = talk.ask(&opening);
    assert_error(&answer, Some(json!(0)), -32601);
    assert_eq!(answer["error"]["data"], json!({"supported": ["2026-07-28"]}));
    // That was no opening: the process may still be initialized.
    assert!(talk.ask(&initialize("2025-11-25")).get("result").is_some());
}

#[test]
fn modern_lists_say_how_long_they_may_be_kept() {
    let mut talk = Talk::new();
    for (method, field, length) in [
        ("tools/list", "tools", 4),
        ("resources/list", "resources", 2),
        ("resources/templates/list", "resourceTemplates", 0),
        ("prompts/list", "prompts", 1),
    ] {
        let answer = talk.ask(&modern(1, method, json!({})));
        let result = answer["result"].as_object().unwrap();
        let keys: Vec<&str> = result.keys().map(String::as_str).collect();
        assert_eq!(keys, ["resultType", field, "ttlMs", "cacheScope", "_meta"]);
        assert_eq!(result[field].as_array().map(Vec::len), Some(length));
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(LASTING_MS), &json!("public")));
        assert_eq!(result["_meta"], result_meta());
        let second = modern(2, method, json!({"cursor": "page-2"}));
        assert_error(&talk.ask(&second), Some(json!(2)), -32602);
    }
}

#[test]
fn what_may_not_be_kept_says_nothing_of_keeping() {
    let mut talk = Talk::new();
    assert_eq!(
        talk.ask(&modern_call(1, "echo", json!({"text": "hi"})))["result"],
        json!({"resultType": "complete", "content": text("hi"), "_meta": result_meta()})
    );
    assert_eq!(
        talk.ask(&modern(2, "prompts/get", json!({"name": "greet", "arguments": {"name": "Ann"}})))["result"],
        json!({
            "resultType": "complete",
            "description": "A request for a greeting",
            "messages": [{"role": "user", "content": {
                "type": "text", "text": "Please greet Ann in one friendly sentence."
            }}],
            "_meta": result_meta(),
        })
    );
}

#[test]
fn listening_to_the_clock() {
    let mut talk = Talk::new();
    let filter = json!({
        "toolsListChanged": true,
        "resourceSubscriptions": ["demo://clock", "demo://none", "demo://greeting"],
    });
    let acknowledged = json!({
        "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
            "_meta": {"io.modelcontextprotocol/subscriptionId": "listen:0"},
            "notifications": {"resourceSubscriptions": ["demo://clock", "demo://greeting"]},
        }
    });
    let listen = modern("listen:0", "subscriptions/listen", json!({"notifications": filter}));
    assert_eq!(talk.send(&listen), [acknowledged]);
    assert_eq!(talk.until(999), [] as [Value; 0]);
    let update = json!({
        "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {
            "_meta": {"io.modelcontextprotocol/subscriptionId": "listen:0"}, "uri": "demo://clock"
        }
    });
    assert_eq!(talk.until(3000), [update.clone(), update.clone(), update]);

    // A second stream, on an integer id, hears beside the first and is named apart from it; that it came in
    // the middle of a second delays nothing.
    assert_eq!(talk.until(3500), [] as [Value; 0]);
    let second = modern(
        0,
        "subscriptions/listen",
        json!({"notifications": {
            "resourceSubscriptions": ["demo://clock"]
        }}),
    );
    assert_eq!(talk.send(&second)[0]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 0);
    let ids: Vec<Value> = talk
        .until(4000)
        .iter()
        .map(|update| update["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone())
        .collect();
    assert_eq!(ids, [json!("listen:0"), json!(0)]);

    assert!(talk.send(&cancelled("listen:0")).is_empty());
    assert_eq!(talk.until(5000).len(), 1);
    assert!(talk.send(&cancelled(0)).is_empty());
    assert_eq!(talk.server.poll_timeout(), None);
}

#[test]
fn a_listen_filter_is_checked_and_may_be_empty() {
    let mut talk = Talk::new();
    for filter in [
        json!(null),
        json!([]),
        json!({"resourceSubscriptions": "demo://clock"}),
        json!({
            "resourceSubscriptions": ["demo://clock", 1]
        }),
    ] {
        let listen = modern(1, "subscriptions/listen", json!({"notifications": filter}));
        assert_error(&talk.ask(&listen), Some(json!(1)), -32602);
    }
    assert_error(&talk.ask(&modern(1, "subscriptions/listen", json!({}))), Some(json!(1)), -32602);
    let lines =
        talk.send(&modern(2, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})));
    assert_eq!(lines[0]["params"]["notifications"], json!({}));
    assert_eq!(talk.server.poll_timeout(), None, "nothing to announce, nothing to wake for");
}
