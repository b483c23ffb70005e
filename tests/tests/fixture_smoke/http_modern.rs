//! The fixture over HTTP in the modern era.

use drowse_tests::harness::HttpServer;
use serde_json::{Value, json};

use super::http_client::{BOTH, Client, listen, tool};
use super::peer::{code_of, discover, initialize, modern, request, text_of};

const VERSION: (&str, &str) = ("MCP-Protocol-Version", "2026-07-28");

fn start(flags: &[&str]) -> (HttpServer, Client) {
    let server = HttpServer::start(&[&["--era", "modern"], flags].concat());
    let client = Client::of(&server);
    (server, client)
}

#[test]
fn the_journal_has_requests_and_their_headers() {
    let (server, client) = start(&[]);
    let (status, answer) = client.modern(&discover()).answer();
    assert_eq!((status, &answer["result"]["supportedVersions"]), (200, &json!(["2026-07-28"])));
    assert_eq!(text_of(&client.modern(&tool(0, "tag", json!({"tag": "t"}))).answer().1), "t");
    let http = server.requests("tools/call");
    assert_eq!(http.len(), 1);
    let headers = &http[0].fields["headers"];
    assert_eq!((&headers["mcp-name"], &headers["accept"]), (&json!("tag"), &json!(BOTH)));
    assert_eq!((&http[0].fields["id"], &http[0].fields["target"]), (&json!(0), &json!("/mcp")));
    assert_eq!((server.executions("t"), server.requests("POST").len()), (1, 2));
    assert_eq!(server.events("answered").len(), 2);
    assert!(server.events("session").is_empty());
}

#[test]
fn headers_have_to_fit() {
    let (_server, client) = start(&[]);
    let list = modern(1, "tools/list", json!({}));
    let echo = tool(1, "echo", json!({"text": "x"}));
    let method = ("Mcp-Method", "tools/list");
    let bare = request(1, "tools/list", json!({}));
    let mut strange = list.clone();
    strange["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let unknown = ("MCP-Protocol-Version", "2099-01-01");
    let refused = |headers: &[(&str, &str)], message: &Value, code: i64| {
        let (status, answer) = client.post(headers, message).answer();
        assert_eq!((status, code_of(&answer)), (400, code), "{headers:?} {answer}");
        assert_eq!(answer["id"], message["id"]);
    };
    let call = ("Mcp-Method", "tools/call");
    refused(&[method], &list, -32020);
    refused(&[VERSION], &list, -32020);
    refused(&[VERSION, call], &list, -32020);
    refused(&[VERSION, method], &strange, -32020);
    refused(&[unknown, method], &strange, -32022);
    refused(&[unknown, method], &bare, -32022);
    refused(&[VERSION, method], &bare, -32602);
    refused(&[VERSION, call], &echo, -32020);
    refused(&[VERSION, call, ("Mcp-Name", "tag")], &echo, -32020);
    refused(&[], &initialize("2025-11-25"), -32020);
    let encoded = [VERSION, call, ("Mcp-Name", "=?base64?ZWNobw==?=")];
    assert_eq!(text_of(&client.post(&encoded, &echo).answer().1), "x");
}

#[test]
fn statuses_of_errors() {
    let (_server, client) = start(&[]);
    for (message, status, code) in [
        (modern(1, "ping", json!({})), 404, -32601),
        (tool(1, "no-such", json!({})), 200, -32602),
        (tool(1, "ask", json!({})), 400, -32021),
        (tool(1, "rpc_error", json!({})), 200, 1234),
        (modern(1, "resources/read", json!({"uri": "none://"})), 200, -32602),
    ] {
        let (got, answer) = client.modern(&message).answer();
        assert_eq!((got, code_of(&answer)), (status, code), "{message}");
    }
    let (status, answer) = client.post(&[VERSION], &json!([discover()])).answer();
    assert_eq!((status, code_of(&answer)), (400, -32600));
    let (status, answer) =
        client.post(&[VERSION], &json!({"jsonrpc": "2.0", "id": 1, "result": {}})).answer();
    assert_eq!((status, code_of(&answer)), (400, -32600));
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(client.post(&[VERSION], &cancel).head().status, 202);
    for verb in ["GET", "DELETE", "PUT"] {
        let mut wire = client.wire();
        wire.send(verb, "/mcp", &[("Accept", BOTH)], "");
        let head = wire.head();
        assert_eq!((head.status, head.header("allow")), (405, Some("POST")), "{verb}");
    }
    for (path, headers, status) in [
        ("/elsewhere", vec![], 404),
        ("/mcp", vec![("Accept", BOTH), ("Content-Type", "text/plain")], 415),
        ("/mcp", vec![("Accept", "application/json"), ("Content-Type", "application/json")], 406),
        ("/mcp", vec![("Origin", "http://elsewhere.example")], 403),
        ("/mcp", vec![("Accept", BOTH), ("Content-Type", "application/json")], 400),
    ] {
        let mut wire = client.wire();
        wire.send("POST", path, &headers, "no message");
        assert_eq!(wire.head().status, status, "{path} {headers:?}");
    }
}

#[test]
fn ways_to_refuse_initialize() {
    for (flag, status, code) in
        [("--initialize-answers-32022", 400, -32022), ("--modern-only-refuses-initialize", 404, -32601)]
    {
        let (_server, client) = start(&[flag]);
        let (got, answer) = client.post(&[], &initialize("2025-11-25")).answer();
        assert_eq!((got, code_of(&answer)), (status, code));
    }
}

#[test]
fn an_answer_comes_in_the_form_it_is_told() {
    let mut slow = tool(7, "slow", json!({"ms": 150}));
    slow["params"]["_meta"]["progressToken"] = json!("p");
    for (form, quick, slowly) in [
        ("auto", "application/json", "text/event-stream"),
        ("json", "application/json", "application/json"),
        ("sse", "text/event-stream", "text/event-stream"),
    ] {
        let (_server, client) = start(&["--answers", form]);
        let mut wire = client.modern(&tool(1, "echo", json!({"text": "x"})));
        let head = wire.head();
        assert_eq!((head.header("content-type"), head.header("mcp-session-id")), (Some(quick), None));
        assert_eq!(text_of(&wire.body_message(&head)), "x");
        let mut wire = client.modern(&slow);
        let head = wire.head();
        assert_eq!(head.header("content-type"), Some(slowly), "{form}");
        if slowly == "text/event-stream" {
            assert_eq!(head.header("x-accel-buffering"), Some("no"));
            assert_eq!(wire.message()["params"]["progressToken"], "p");
        }
        assert_eq!(text_of(&wire.body_message(&head)), "slept 150");
        assert!(wire.try_body().is_ok());
        // An error keeps its status, whatever the form.
        assert_eq!(client.modern(&modern(1, "ping", json!({}))).head().status, 404);
    }
}

#[test]
fn streams_with_a_retry_comments_and_without_chunks() {
    let (_server, client) =
        start(&["--answers", "sse", "--retry", "1234", "--until-close", "--comments", "20"]);
    let mut wire = client.modern(&tool(1, "slow", json!({"ms": 300})));
    let head = wire.head();
    assert_eq!((head.header("transfer-encoding"), head.header("connection")), (None, Some("close")));
    assert_eq!(wire.try_event().unwrap().unwrap().retry.as_deref(), Some("1234"));
    assert!(wire.try_event().unwrap().unwrap().comment);
    assert_eq!(text_of(&wire.message()), "slept 300");
    assert!(wire.is_at_end());
}

#[test]
fn the_end_of_the_connection_is_a_cancellation() {
    let (server, client) = start(&[]);
    for id in [json!(1), json!("1")] {
        drop(client.modern(&tool(id.clone(), "slow", json!({"ms": 60_000, "tag": "gone"}))));
    }
    let ended = server.wait_for_events("cancelled", 2);
    assert!(ended.iter().all(|entry| entry.text("tag") == Some("gone")));
    let closed = server.wait_for_events("closed", 2);
    assert!(
        closed
            .iter()
            .all(|entry| entry.is("closed", "tag", "gone") && entry.text("method") == Some("tools/call"))
    );
    // The same id may be in use twice: each request stands for itself.
    let wires = [250, 100].map(|ms| (ms, client.modern(&tool(0, "slow", json!({"ms": ms})))));
    for (ms, wire) in wires {
        assert_eq!(text_of(&wire.answer().1), format!("slept {ms}"));
    }
}

#[test]
fn listen_hears_what_it_asked_for() {
    let (server, client) = start(&[]);
    let call = |name: &str, arguments: Value| text_of(&client.modern(&tool(1, name, arguments)).answer().1);
    assert_eq!(call("notify", json!({"what": "tools"})), "0");
    let mut tools = client.modern(&listen("l", json!({"toolsListChanged": true})));
    assert_eq!(tools.head().header("content-type"), Some("text/event-stream"));
    let acknowledged = tools.message();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], json!({"toolsListChanged": true}));
    let mut counter = client.modern(&listen(0, json!({"resourceSubscriptions": ["counter://main"]})));
    counter.head();
    counter.message();
    assert_eq!(call("notify", json!({"what": "prompts"})), "0");
    assert_eq!(call("flip_tools", json!({})), "true");
    assert_eq!(call("touch", json!({})), "1");
    assert_eq!(server.ask_for("notify", "updated"), "1");
    let (changed, updated) = (tools.message(), counter.message());
    assert_eq!(changed["params"]["_meta"], json!({"io.modelcontextprotocol/subscriptionId": "l"}));
    assert_eq!(updated["params"]["_meta"], json!({"io.modelcontextprotocol/subscriptionId": 0}));
    assert_eq!(counter.message(), updated);
    drop(counter);
    server.wait_for_events("closed", 1);
    assert_eq!(call("touch", json!({})), "2");
    assert_eq!(server.ask_for("notify", "updated"), "0");
    // The server ends the other one: in good order.
    assert_eq!(server.ask_for("end-listens", ""), "1");
    let last = tools.message();
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!("l"), &json!("complete")));
    assert_eq!(tools.try_event().unwrap(), None);
    // And one without a word.
    let mut tools = client.modern(&listen("m", json!({"toolsListChanged": true})));
    tools.head();
    tools.message();
    assert_eq!(server.ask_for("hang-up", ""), "1");
    assert_eq!(tools.try_event().unwrap(), None);
}

#[test]
fn ask_wants_what_the_method_needs() {
    let (_server, client) = start(&[]);
    for (method, capability) in [
        ("elicitation/create", "elicitation"),
        ("sampling/createMessage", "sampling"),
        ("roots/list", "roots"),
    ] {
        let mut ask = tool(1, "ask", json!({"method": method}));
        let (_, refused) = client.modern(&ask).answer();
        assert_eq!(refused["error"]["data"]["requiredCapabilities"], json!({capability: {}}));
        ask["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({capability: {}});
        let (status, wanted) = client.modern(&ask).answer();
        assert_eq!(status, 200);
        assert_eq!(wanted["result"]["inputRequests"][capability]["method"], method);
        ask["id"] = json!(2);
        ask["params"]["inputResponses"] = json!({capability: {"said": true}});
        ask["params"]["requestState"] = wanted["result"]["requestState"].clone();
        let said = json!({capability: {"said": true}}).to_string();
        assert_eq!(text_of(&client.modern(&ask).answer().1), said);
    }
}

#[test]
fn header_tools_want_their_headers() {
    let (_server, client) = start(&["--header-tools"]);
    let (_, listed) = client.modern(&modern(1, "tools/list", json!({}))).answer();
    let tools = listed["result"]["tools"].as_array().unwrap();
    let named = |name: &str| tools.iter().find(|tool| tool["name"] == name).expect("it is listed");
    assert_eq!(named("region")["inputSchema"]["properties"]["region"]["x-mcp-header"], "Region");
    for wrong in ["wrong_type", "wrong_twice", "wrong_empty", "wrong_name", "wrong_place"] {
        assert!(named(wrong)["inputSchema"].to_string().contains("x-mcp-header"), "{wrong}");
    }
    let arguments =
        json!({"region": "Köln", "count": 42, "flag": true, "where": {"zone": "a b"}, "text": null});
    let right = [
        ("Mcp-Param-Region", "=?base64?S8O2bG4=?="),
        ("Mcp-Param-Count", "42.0"),
        ("Mcp-Param-Flag", "true"),
        ("Mcp-Param-Zone", "a b"),
    ];
    let call = tool(1, "region", arguments.clone());
    let base = [VERSION, ("Mcp-Method", "tools/call"), ("Mcp-Name", "region")];
    let post =
        |headers: &[(&str, &str)], call: &Value| client.post(&[&base, headers].concat(), call).answer();
    let (status, answer) = post(&right, &call);
    assert_eq!((status, text_of(&answer)), (200, arguments.to_string()));
    for (index, wrong) in ["Koln", "43", "True", "ab"].into_iter().enumerate() {
        let mut headers = right;
        headers[index].1 = wrong;
        assert_eq!(code_of(&post(&headers, &call).1), -32020, "{headers:?}");
        let (status, answer) = post(&[&right[..index], &right[index + 1..]].concat(), &call);
        assert_eq!((status, code_of(&answer)), (400, -32020));
    }
    // What is not in the arguments must not be in the headers, and nothing is nothing.
    let nothing = tool(1, "region", json!({"region": null}));
    assert_eq!(post(&[], &nothing).0, 200);
    assert_eq!(post(&[("Mcp-Param-Region", "")], &nothing).0, 400);
    assert_eq!(post(&[("Mcp-Param-Region", "")], &tool(1, "region", json!({"region": ""}))).0, 200);
    client.modern(&tool(1, "flip_headers", json!({}))).answer();
    let (status, answer) = post(&right, &call);
    assert_eq!((status, code_of(&answer)), (400, -32020));
    let mut other = right;
    other[0].0 = "Mcp-Param-Area";
    assert_eq!(post(&other, &call).0, 200);
}

#[test]
fn lenient_takes_anything() {
    let (_server, client) = start(&["--lenient"]);
    let mut wire = client.wire();
    wire.send("POST", "/mcp", &[("Origin", "http://elsewhere.example")], &discover().to_string());
    assert_eq!(wire.answer().0, 200);
}

#[test]
fn a_result_of_any_size() {
    let (_server, client) = start(&[]);
    let size = 3_000_000;
    let (_, answer) = client.modern(&tool(1, "big", json!({"bytes": size}))).answer();
    assert_eq!(text_of(&answer).len(), size);
    let mut wire = client.modern(&tool(1, "huge", json!({"bytes": size})));
    let head = wire.head();
    assert_eq!(head.header("content-length"), Some("3000000"));
    assert_eq!(wire.body().len(), size);
    let (_server, client) = start(&["--answers", "sse"]);
    let mut wire = client.modern(&tool(1, "huge", json!({"bytes": size})));
    wire.head();
    let event = wire.try_event().unwrap().unwrap();
    assert_eq!(event.data.as_ref().map(String::len), Some(size));
    assert_eq!(event.message()["id"], 1);
}
