//! What goes between a legacy client and servers of both eras.

use serde_json::{Value, json};
use std::string::ToString;

use super::*;
use crate::capabilities::ClientCapabilities;
use crate::envelope;

const INFO: &[u8] = br#"{"name":"c","version":"1"}"#;

fn carried(text: &str, revision: Revision, level: Option<Level>, capabilities: ClientCapabilities) -> Value {
    let frame = text.as_bytes();
    let parts = RequestParts::of(&envelope::read(frame).unwrap()).unwrap();
    let client = LegacyClient { info: Span::new(0, INFO.len()), capabilities };
    let how = Rewrite { wire: 77, progress: true, revision, level, from: Origin::Legacy(&client) };
    let out = request(frame, &parts, &how).unwrap();
    let mut buffer = [0; 1024];
    let bytes = out.write(frame, INFO, &mut buffer).unwrap();
    envelope::read(bytes).unwrap();
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn a_modern_server_is_told_all_with_each_request() {
    let all = ClientCapabilities {
        form: true,
        url: true,
        sampling: true,
        sampling_tools: true,
        roots: true,
        tasks: true,
    };
    let meta = json!({
        "progressToken": 77,
        "io.modelcontextprotocol/logLevel": "info",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities":
            {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}},
    });
    for (text, more) in [
        (r#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#, json!({})),
        (r#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{}}"#, json!({})),
        (
            r#"{"jsonrpc":"2.0","id":"a","params":{"cursor":"x"},"method":"tools/list"}"#,
            json!({"cursor": "x"}),
        ),
        (
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"cursor":"x","_meta":{}}}"#,
            json!({"cursor": "x"}),
        ),
        // Whatever it claims there itself is not what it said in its handshake.
        (
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"tasks":{}},"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2030-01-01"}}}"#,
            json!({}),
        ),
    ] {
        let value = carried(text, Revision::V2026_07_28, Some(Level::Info), all);
        let mut expected = more;
        expected["_meta"] = meta.clone();
        assert_eq!(value["params"], expected, "{text}");
        assert_eq!(value["id"], 77);
    }
    let kept = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"a":1,"progressToken":2,"b":3,"io.modelcontextprotocol/logLevel":"debug","c":{"d":4}}}}"#;
    let value = carried(kept, Revision::V2026_07_28, None, ClientCapabilities::default());
    let meta = &value["params"]["_meta"];
    assert_eq!((&meta["a"], &meta["b"], &meta["c"]["d"]), (&json!(1), &json!(3), &json!(4)));
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    assert_eq!(meta.get("io.modelcontextprotocol/logLevel"), None);
}

#[test]
fn every_set_of_capabilities_is_told_as_it_is_written() {
    for bits in 0..32_u8 {
        let bit = |n: u8| bits >> n & 1 == 1;
        let capabilities = ClientCapabilities {
            form: bit(0),
            url: bit(1),
            sampling: bit(2),
            sampling_tools: bit(2) && bit(3),
            roots: bit(4),
            tasks: false,
        };
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let value = carried(text, Revision::V2026_07_28, None, capabilities);
        let told = value["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].to_string();
        let span = json::scan(told.as_bytes()).unwrap();
        assert_eq!(ClientCapabilities::read(told.as_bytes(), span), capabilities);
    }
}

#[test]
fn a_legacy_server_is_told_nothing_more() {
    let text = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x"}}"#;
    let value = carried(text, Revision::V2025_06_18, Some(Level::Info), ClientCapabilities::default());
    assert_eq!(value["params"], json!({"name": "x", "_meta": {"progressToken": 77}}));
}

fn answered(text: &str, method: Method, server: Revision) -> std::string::String {
    let frame = text.as_bytes();
    let message = envelope::read(frame).unwrap();
    let out = answer_legacy(frame, &message, Span::new(0, 3), method, server).unwrap();
    let mut buffer = [0; 1024];
    let bytes = out.write(frame, br#""a""#, &mut buffer).unwrap();
    assert_eq!(bytes.len(), out.len());
    envelope::read(bytes).unwrap();
    core::str::from_utf8(bytes).unwrap().into()
}

#[test]
fn results_lose_what_is_of_the_modern_era_and_nothing_else() {
    let modern = Revision::V2026_07_28;
    for (result, left) in [
        (r#"{"resultType":"complete","tools":[],"ttlMs":5,"cacheScope":"public"}"#, r#"{"tools":[]}"#),
        (r#"{"tools":[ 1 ],  "x":{"resultType":1}}"#, r#"{"tools":[ 1 ],  "x":{"resultType":1}}"#),
        (r#"{"result\u0054ype":"complete"}"#, "{}"),
        (r#"{"a":1,"ttlMs":0,"b":2 , "c":3,"cacheScope":"private","d":4}"#, r#"{"a":1,"b":2 , "c":3,"d":4}"#),
    ] {
        let text = std::format!(r#"{{"jsonrpc":"2.0","id":5,"result":{result}}}"#);
        let expected = std::format!(r#"{{"jsonrpc":"2.0","id":"a","result":{left}}}"#);
        assert_eq!(answered(&text, Method::ToolsList, modern), expected);
        let untouched = std::format!(r#"{{"jsonrpc":"2.0","id":"a","result":{result}}}"#);
        assert_eq!(answered(&text, Method::ToolsList, Revision::V2024_11_05), untouched);
    }
    // Of what cannot be kept, such members are the tool's own.
    let text = r#"{"jsonrpc":"2.0","id":5,"result":{"resultType":"complete","ttlMs":1}}"#;
    assert_eq!(
        answered(text, Method::ToolsCall, modern),
        r#"{"jsonrpc":"2.0","id":"a","result":{"ttlMs":1}}"#
    );
}

#[test]
fn not_found_has_its_old_code_where_a_resource_was_read() {
    let text = r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32602,"message":"no"}}"#;
    let code = |method, server| {
        let text = answered(text, method, server);
        serde_json::from_str::<Value>(&text).unwrap()["error"]["code"].as_i64().unwrap()
    };
    for method in Method::all() {
        let old = if method == Method::ResourcesRead { -32002 } else { -32602 };
        assert_eq!(code(method, Revision::V2026_07_28), old);
        assert_eq!(code(method, Revision::V2025_11_25), -32602);
    }
}

/// Whatever stands beside it, what is left is an object, and nothing else is touched.
#[test]
fn a_call_that_may_become_a_task_is_one_like_any_other_to_the_other_era() {
    let told = r#""_meta":{"progressToken":77}"#;
    let line = |method: &str, params: &str| {
        std::format!(r#"{{"jsonrpc":"2.0","id":77,"method":"{method}","params":{{{params}}}}}"#)
    };
    let again = |text: &str, answers: bool| {
        let frame = text.as_bytes();
        let parts = RequestParts::of(&envelope::read(frame).unwrap()).unwrap();
        let revision = Revision::V2025_11_25;
        let from = if answers { Origin::AfterVisits } else { Origin::Modern };
        let how = Rewrite { wire: 77, progress: true, revision, level: None, from };
        let out = request(frame, &parts, &how);
        let mut buffer = [0; 512];
        std::string::String::from_utf8(out.unwrap().write(frame, b"", &mut buffer).unwrap().to_vec()).unwrap()
    };
    for (params, left) in [
        (r#""task":{"ttl":1}"#, ""),
        (r#""t\u0061sk":{}, "name":"t""#, r#","name":"t""#),
        (r#""name":"t","task":null"#, r#","name":"t""#),
        (r#""name":"t" , "task":{} , "arguments":{"task":1}"#, r#","name":"t" , "arguments":{"task":1}"#),
        (r#""task":{},"task":{},"a":1,"task":2"#, r#","a":1"#),
    ] {
        assert_eq!(again(&line("tools/call", params), false), line("tools/call", &[told, left].concat()));
        let with_answers = [params, r#","inputResponses":{}"#].concat();
        let left_there = [told, left].concat();
        assert_eq!(again(&line("tools/call", &with_answers), true), line("tools/call", &left_there));
        let first = [r#""inputResponses":{"task":1},"#, params].concat();
        assert_eq!(again(&line("tools/call", &first), true), line("tools/call", &left_there));
        // Of another request it is a member like any other.
        let kept = [told, ",", params].concat();
        assert_eq!(again(&line("prompts/get", params), false), line("prompts/get", &kept));
    }
    let old = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"task":{}}}"#;
    let none = ClientCapabilities::default();
    assert!(carried(old, Revision::V2026_07_28, None, none)["params"].get("task").is_none());
    assert_eq!(carried(old, Revision::V2025_11_25, None, none)["params"]["task"], json!({}));
}
