//! What tools, resources and the prompt answer.

use serde_json::json;

use super::super::server::LASTING_MS;
use super::{Talk, assert_error, call, initialize, modern, modern_call, request, result_meta, text};

#[test]
fn every_tool_has_a_description_and_a_schema() {
    let tools = Talk::new().ask(&modern(1, "tools/list", json!({})))["result"]["tools"].clone();
    let names: Vec<&str> =
        tools.as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["echo", "add", "sleep", "whoami"]);
    for tool in tools.as_array().unwrap() {
        assert!(tool["description"].as_str().is_some_and(|text| text.len() > 40), "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false);
        for (name, property) in tool["inputSchema"]["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].is_string(), "{name} in {tool}");
        }
    }
    assert_eq!(tools[1]["outputSchema"]["required"], json!(["sum"]));
    assert_eq!(tools[3]["outputSchema"]["type"], "object");
}

#[test]
fn echo_keeps_the_text() {
    let mut talk = Talk::initialized("2025-11-25");
    for given in ["", "hi", "line\nbreak\r\u{2028}", "\"\\\u{0}", "näïve 🦀", &"x".repeat(1 << 20)] {
        assert_eq!(
            talk.ask(&call(1, "echo", json!({"text": given})))["result"],
            json!({"content": text(given)})
        );
    }
}

#[test]
fn add_is_exact_where_it_can_be() {
    let mut talk = Talk::initialized("2025-11-25");
    for (a, b, sum, shown) in [
        (json!(2), json!(3), json!(5), r#"{"sum":5}"#),
        (json!(-1), json!(1), json!(0), r#"{"sum":0}"#),
        (json!(0.5), json!(1), json!(1.5), r#"{"sum":1.5}"#),
        (
            json!(9_007_199_254_740_993_i64),
            json!(0),
            json!(9_007_199_254_740_993_i64),
            r#"{"sum":9007199254740993}"#,
        ),
    ] {
        let result = talk.ask(&call(1, "add", json!({"a": a, "b": b})))["result"].clone();
        assert_eq!(result, json!({"content": text(shown), "structuredContent": {"sum": sum}}));
    }
    let past = talk.ask(&call(2, "add", json!({"a": i64::MAX, "b": 1})))["result"].clone();
    assert_eq!(past["structuredContent"]["sum"], json!(9_223_372_036_854_775_808.0_f64));
    let too_large = talk.ask(&call(3, "add", json!({"a": f64::MAX, "b": f64::MAX})))["result"].clone();
    assert_eq!(too_large["isError"], true);
    assert!(too_large.get("structuredContent").is_none());
}

#[test]
fn whoami_tells_the_process_and_counts_its_calls() {
    let mut talk = Talk::new();
    let expected = |era: &str, version: &str, calls: u64| {
        json!({
            "pid": 42, "startedAt": "2026-11-30T12:00:00Z", "era": era, "protocolVersion": version, "calls": calls
        })
    };
    let first = talk.ask(&modern_call(1, "whoami", json!({})))["result"].clone();
    assert_eq!(first["structuredContent"], expected("modern", "2026-07-28", 1));
    assert_eq!(first["content"], text(&expected("modern", "2026-07-28", 1).to_string()));
    talk.ask(&modern_call(2, "echo", json!({"text": ""})));
    talk.ask(&modern_call(3, "no-such", json!({})));
    talk.ask(&initialize("2024-11-05"));
    let last = talk.ask(&request(4, "tools/call", json!({"name": "whoami"})))["result"].clone();
    assert_eq!(last["structuredContent"], expected("legacy", "2024-11-05", 3), "an unknown tool is no call");
}

#[test]
fn arguments_that_do_not_fit_are_told_to_the_model() {
    let mut talk = Talk::new();
    for (name, arguments, hint) in [
        ("echo", json!({}), "\"text\""),
        ("echo", json!({"text": 1}), "\"text\""),
        ("echo", json!({"text": "a", "texts": "b"}), "\"texts\""),
        ("add", json!({"a": 1}), "\"b\""),
        ("add", json!({"a": "1", "b": 2}), "\"a\""),
        ("sleep", json!({}), "\"ms\""),
        ("sleep", json!({"ms": -1}), "\"ms\""),
        ("sleep", json!({"ms": 1.5}), "\"ms\""),
        ("sleep", json!({"ms": 3_600_001}), "\"ms\""),
        ("whoami", json!({"x": 1}), "\"x\""),
    ] {
        let result = talk.ask(&modern_call(1, name, arguments))["result"].clone();
        assert_eq!((&result["isError"], &result["resultType"]), (&json!(true), &json!("complete")), "{name}");
        let shown = result["content"][0]["text"].as_str().unwrap();
        assert!(shown.starts_with(&format!("{name}: ")) && shown.contains(hint), "{shown}");
    }
}

#[test]
fn a_malformed_call_is_an_error_of_the_protocol() {
    let mut talk = Talk::new();
    for params in [
        json!({}),
        json!({"name": 1}),
        json!({"name": "no-such"}),
        json!({"name": "echo", "arguments": "text"}),
        json!({"name": "echo", "arguments": null}),
    ] {
        assert_error(&talk.ask(&modern(1, "tools/call", params)), Some(json!(1)), -32602);
    }
}

#[test]
fn resources_are_read() {
    let mut talk = Talk::new();
    let clock = talk.ask(&modern(1, "resources/read", json!({"uri": "demo://clock"})))["result"].clone();
    assert_eq!(
        clock,
        json!({
            "resultType": "complete",
            "contents": [{"uri": "demo://clock", "mimeType": "text/plain", "text": "2026-11-30T12:00:00Z"}],
            "ttlMs": 0,
            "cacheScope": "public",
            "_meta": result_meta(),
        })
    );
    let greeting =
        talk.ask(&modern(2, "resources/read", json!({"uri": "demo://greeting"})))["result"].clone();
    assert_eq!(greeting["ttlMs"], LASTING_MS);
    assert!(greeting["contents"][0]["text"].as_str().is_some_and(|text| text.contains("drowse")));

    let missing = json!({"uri": "demo://none"});
    let answer = talk.ask(&modern(3, "resources/read", missing.clone()));
    assert_error(&answer, Some(json!(3)), -32602);
    assert_eq!(answer["error"]["data"], missing);
    let mut legacy = Talk::initialized("2025-11-25");
    let answer = legacy.ask(&request(3, "resources/read", missing.clone()));
    assert_error(&answer, Some(json!(3)), -32002);
    assert_eq!(answer["error"]["data"], missing);
    assert_error(&talk.ask(&modern(4, "resources/read", json!({}))), Some(json!(4)), -32602);
}

#[test]
fn the_prompt_needs_its_argument() {
    let mut talk = Talk::new();
    let listed = talk.ask(&modern(1, "prompts/list", json!({})))["result"]["prompts"][0].clone();
    assert_eq!((&listed["name"], &listed["arguments"][0]["required"]), (&json!("greet"), &json!(true)));
    for params in [
        json!({"name": "greet"}),
        json!({"name": "greet", "arguments": {"name": 1}}),
        json!({"name": "no-such", "arguments": {"name": "Ann"}}),
        json!({}),
    ] {
        assert_error(&talk.ask(&modern(2, "prompts/get", params)), Some(json!(2)), -32602);
    }
}
