//! The fixture over HTTP in the legacy era: sessions, their streams, and streams that are taken up again.

use drowse_tests::harness::HttpServer;
use serde_json::{Value, json};

use super::http_client::{BOTH, Client, Wire, legacy_tool};
use super::peer::{code_of, discover, initialize, request, text_of};

fn start(flags: &[&str]) -> (HttpServer, Client) {
    let server = HttpServer::start(&[&["--era", "legacy"], flags].concat());
    let mut client = Client::of(&server);
    client.initialize();
    (server, client)
}

fn call(client: &Client, name: &str, arguments: Value) -> String {
    text_of(&client.legacy(&legacy_tool(1, name, arguments)).answer().1)
}

fn status_of(client: &Client) -> u16 {
    client.legacy(&request(1, "ping", json!({}))).head().status
}

fn delete(client: &Client) -> Wire {
    let mut wire = client.wire();
    wire.send("DELETE", "/mcp", &client.headers(), "");
    wire
}

#[test]
fn a_session_from_its_begin_to_its_end() {
    let (server, client) = start(&[]);
    assert_eq!(call(&client, "tag", json!({"tag": "t"})), "t");
    let mut wire = client.legacy(&request(1, "tools/list", json!({})));
    assert_eq!(wire.head().header("mcp-session-id"), client.session.as_deref());
    assert_eq!(delete(&client).head().status, 200);
    for _ in 0..2 {
        let (status, answer) = client.legacy(&request(1, "ping", json!({}))).answer();
        assert_eq!((status, code_of(&answer), &answer["id"]), (404, -32001, &Value::Null));
    }
    assert_eq!(delete(&client).head().status, 404);
    let session = server.events("session");
    assert_eq!(session.len(), 1);
    assert_eq!(session[0].fields["client"]["clientInfo"]["name"], "smoke");
    assert_eq!(session[0].text("session"), client.session.as_deref());
    let closed = server.events("session-closed");
    assert!(closed.len() == 1 && closed[0].is("session-closed", "why", "delete"));
    assert_eq!((server.requests("DELETE").len(), server.executions("t")), (2, 1));
}

#[test]
fn what_a_session_requires() {
    let server = HttpServer::start(&["--era", "legacy"]);
    let mut client = Client::of(&server);
    let ask = |headers: &[(&str, &str)], message: &Value| client.post(headers, message).answer();
    for message in [discover(), request(1, "tools/list", json!({}))] {
        let (status, answer) = ask(&[], &message);
        assert_eq!((status, code_of(&answer)), (400, -32000));
    }
    let (status, answer) = ask(&[("Mcp-Session-Id", "nobody's")], &request(1, "ping", json!({})));
    assert_eq!((status, code_of(&answer)), (404, -32001));
    let mut wire = client.post(&[], &initialize("2025-06-18"));
    let head = wire.head();
    let session = head.header("mcp-session-id").unwrap().to_owned();
    let mine = ("Mcp-Session-Id", session.as_str());
    let list = request(1, "tools/list", json!({}));
    // Nothing but a ping until it has been told that all is ready.
    let (status, answer) = ask(&[mine], &list);
    assert_eq!((status, code_of(&answer)), (200, -32602));
    assert_eq!(ask(&[mine], &request(1, "ping", json!({}))).1["result"], json!({}));
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(client.post(&[mine], &ready).head().status, 202);
    assert!(ask(&[mine], &list).1["result"]["tools"].is_array());
    assert!(ask(&[mine, ("MCP-Protocol-Version", "2025-06-18")], &list).1["result"]["tools"].is_array());
    let (status, answer) = ask(&[mine, ("MCP-Protocol-Version", "2026-07-28")], &list);
    assert_eq!((status, code_of(&answer)), (400, -32000));
    let (status, answer) = ask(&[mine], &initialize("2025-06-18"));
    assert_eq!((status, code_of(&answer)), (400, -32600));
    client.session = Some(session);
    let mut wire = client.wire();
    wire.send("GET", "/mcp", &[&client.headers()[..], &[("Accept", "application/json")]].concat(), "");
    assert_eq!(wire.head().status, 406);
    assert_eq!(client.legacy(&json!({"jsonrpc": "2.0", "id": "x", "result": {}})).head().status, 202);
}

#[test]
fn sessions_that_are_lost() {
    let (server, mut client) = start(&[]);
    let mut other = Client::of(&server);
    other.initialize();
    let mut slow = client.legacy(&legacy_tool(1, "slow", json!({"ms": 60_000})));
    let mut stream = client.get(None);
    assert_eq!(stream.head().status, 200);
    server.wait_for_events("run", 1);
    assert_eq!(server.ask_for("forget", ""), "2");
    assert_eq!((status_of(&client), status_of(&other)), (404, 404));
    assert_eq!((slow.head().status, slow.try_event().unwrap()), (200, None));
    assert_eq!(stream.try_event().unwrap(), None);
    client.session = None;
    client.initialize();
    assert_eq!(status_of(&client), 200);
    assert_eq!(server.events("session").len(), 3);

    for (flag, status) in [("404", 404), ("400", 400)] {
        // One of them is `notifications/initialized`.
        let (server, client) = start(&["--session-requests", "3", "--unknown-session", flag]);
        assert_eq!([(); 4].map(|()| status_of(&client)), [200, 200, status, status]);
        assert_eq!(server.events("session-closed")[0].text("why"), Some("expired"));
    }
    let (_server, client) = start(&["--delete", "405"]);
    assert_eq!((delete(&client).head().status, status_of(&client)), (405, 200));
}

#[test]
fn without_session_ids() {
    let (server, client) = start(&["--no-sessions"]);
    assert_eq!(client.session, None);
    assert_eq!(call(&client, "echo", json!({"text": "x"})), "x");
    // Any id will do, and so will none of the handshake.
    let fresh = HttpServer::start(&["--era", "legacy", "--no-sessions"]);
    let mut stranger = Client::of(&fresh);
    stranger.session = Some("whatever".into());
    assert_eq!(call(&stranger, "echo", json!({"text": "y"})), "y");
    let (status, answer) = stranger.post(&[], &discover()).answer();
    assert_eq!((status, code_of(&answer)), (200, -32601));
    assert_eq!(delete(&stranger).head().status, 405);
    let mut stream = client.get(None);
    stream.head();
    server.wait_for_events("stream", 1);
    assert_eq!(server.ask_for("notify", "tools"), "1");
    assert_eq!(stream.message()["method"], "notifications/tools/list_changed");
    let (_server, client) = start(&["--get", "405"]);
    let head = client.get(None).head();
    assert_eq!((head.status, head.header("allow")), (405, Some("POST, DELETE")));
}

#[test]
fn the_stream_of_a_session_hears_what_it_subscribed_to() {
    let (server, client) = start(&[]);
    assert_eq!(server.ask_for("notify", "tools"), "0", "nobody is there to hear it");
    let mut stream = client.get(None);
    assert_eq!(stream.head().header("content-type"), Some("text/event-stream"));
    server.wait_for_events("stream", 1);
    assert_eq!(client.get(None).head().status, 409);
    assert_eq!(call(&client, "touch", json!({})), "1");
    client.legacy(&request(2, "resources/subscribe", json!({"uri": "counter://main"}))).answer();
    assert_eq!(call(&client, "touch", json!({})), "2");
    assert_eq!(stream.message()["params"], json!({"uri": "counter://main"}));
    assert_eq!(call(&client, "flip_tools", json!({})), "true");
    assert_eq!(stream.message()["method"], "notifications/tools/list_changed");
    // It may ask there, too.
    let ask = client.legacy(&legacy_tool(3, "ask", json!({"method": "ping", "stream": "get"})));
    let asked = stream.message();
    assert_eq!(asked["method"], "ping");
    client.legacy(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {}})).head();
    assert_eq!(text_of(&ask.answer().1), "{}");
    drop(stream);
    let mut again = client.get(None);
    assert_eq!(again.head().status, 200, "the one before has gone");
    assert_eq!(server.ask_for("hang-up", ""), "1");
    assert_eq!(again.try_event().unwrap(), None);
    assert_eq!(server.events("stream").len(), 3);
}

#[test]
fn it_asks_on_the_stream_of_the_call() {
    let (_server, client) = start(&[]);
    for method in ["elicitation/create", "sampling/createMessage", "roots/list", "ping"] {
        let mut wire = client.legacy(&legacy_tool(1, "ask", json!({"method": method})));
        assert_eq!(wire.head().header("content-type"), Some("text/event-stream"));
        let asked = wire.message();
        assert_eq!(asked["method"], method);
        assert_eq!(asked["params"].get("requestedSchema").is_some(), method == "elicitation/create");
        let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"for": method}});
        let mut accepted = client.legacy(&answer);
        assert_eq!((accepted.head().status, accepted.body().as_str()), (202, ""));
        assert_eq!(text_of(&wire.message()), json!({"for": method}).to_string());
        assert_eq!(wire.try_event().unwrap(), None);
    }
}

#[test]
fn only_a_word_cancels() {
    let (server, client) = start(&[]);
    drop(client.legacy(&legacy_tool(1, "slow", json!({"ms": 300, "tag": "on"}))));
    let closed = server.wait_for_events("closed", 1);
    assert!(closed[0].is("closed", "tag", "on"));
    let mut slow = client.legacy(&legacy_tool(2, "slow", json!({"ms": 60_000, "tag": "off"})));
    server.wait_for_events("run", 2);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    assert_eq!(client.legacy(&cancel).head().status, 202);
    let cancelled = server.wait_for_events("cancelled", 1);
    assert!(cancelled.len() == 1 && cancelled[0].is("cancelled", "tag", "off"));
    assert_eq!((slow.head().status, slow.try_event().unwrap()), (200, None));
    let heard = server
        .wait_for(|entries| entries.iter().any(|entry| entry.is("in", "method", "notifications/cancelled")));
    assert!(heard.iter().any(|entry| entry.fields.get("requestId") == Some(&json!(2))));
}

#[test]
fn a_stream_is_taken_up_where_it_was_left() {
    let flags = ["--event-ids", "--retry", "10", "--fault", "hang-up=1;on=tools/call;times=1"];
    let (server, client) = start(&flags);
    let mut slow = legacy_tool(1, "slow", json!({"ms": 250, "tag": "once"}));
    slow["params"]["_meta"] = json!({"progressToken": 5});
    let mut wire = client.legacy(&slow);
    wire.head();
    let first: Vec<_> = std::iter::from_fn(|| wire.try_event().unwrap()).collect();
    assert_eq!(first.len(), 3, "{first:?}");
    assert_eq!(first[0].retry.as_deref(), Some("10"));
    assert_eq!((first[1].data.as_deref(), first[1].id.is_some()), (Some(""), true));
    assert_eq!(first[2].message()["params"]["progress"], 100);
    let mut resumed = client.get(first[2].id.as_deref());
    resumed.head();
    assert_eq!(resumed.message()["params"]["progress"], 200);
    assert_eq!(text_of(&resumed.message()), "slept 250");
    assert_eq!(resumed.try_event().unwrap(), None);
    // As often as one likes, and from the beginning.
    let mut again = client.get(first[1].id.as_deref());
    again.head();
    assert_eq!([(); 3].map(|()| again.message()["id"].clone()), [json!(null), json!(null), json!(1)]);
    assert_eq!(server.executions("once"), 1);
    let resumptions = server.events("stream");
    assert_eq!(resumptions.len(), 2);
    assert_eq!(resumptions[0].text("lastEventId"), first[2].id.as_deref());
    assert_eq!(client.get(Some("nonsense")).head().status, 400);
    // What is announced while nobody listens waits for who comes back.
    let mut stream = client.get(None);
    stream.head();
    server.wait_for_events("stream", 3);
    server.ask_for("notify", "tools");
    stream.try_event().unwrap();
    let seen = stream.try_event().unwrap().unwrap();
    assert_eq!(seen.message()["method"], "notifications/tools/list_changed");
    drop(stream);
    server.wait_for_events("closed", 1);
    server.ask_for("notify", "prompts");
    let mut stream = client.get(seen.id.as_deref());
    stream.head();
    assert_eq!(stream.message()["method"], "notifications/prompts/list_changed");
}

#[test]
fn a_stream_may_end_at_once() {
    for (spec, is_abrupt) in [("hang-up=0;on=tools/call", false), ("hang-up=0;abrupt;on=tools/call", true)] {
        let (server, client) = start(&["--event-ids", "--fault", spec]);
        let mut wire = client.legacy(&legacy_tool(1, "tag", json!({"tag": "t"})));
        wire.head();
        let prime = wire.try_event().unwrap().unwrap();
        assert_eq!(prime.data.as_deref(), Some(""));
        assert_eq!(wire.try_event().is_err(), is_abrupt);
        let mut resumed = client.get(prime.id.as_deref());
        resumed.head();
        assert_eq!(text_of(&resumed.message()), "t");
        assert_eq!(server.executions("t"), 1);
    }
}

#[test]
fn dual_serves_both_at_once() {
    let server = HttpServer::start(&["--era", "dual"]);
    let mut client = Client::of(&server);
    assert_eq!(client.modern(&discover()).answer().0, 200);
    client.initialize();
    assert_eq!(call(&client, "echo", json!({"text": "old"})), "old");
    let modern = super::http_client::tool(1, "echo", json!({"text": "new"}));
    assert_eq!(text_of(&client.modern(&modern).answer().1), "new");
    assert_eq!(client.post(&[("MCP-Protocol-Version", "2099-01-01")], &discover()).answer().0, 400);
    assert!(server.requests("initialize")[0].fields["headers"]["accept"] == BOTH);
}

#[test]
fn spoilt_messages_of_the_other_transport_work_here_too() {
    let spoilt = ["--answers", "sse", "--unknown-ids", "--answer-twice", "--batch"];
    let server = HttpServer::start(&[&["--era", "legacy", "--no-sessions"], &spoilt[..]].concat());
    let client = Client::of(&server);
    let mut wire = client.legacy(&legacy_tool(1, "echo", json!({"text": "x"})));
    wire.head();
    let all: Vec<_> = std::iter::from_fn(|| wire.try_event().unwrap()).map(|event| event.message()).collect();
    assert_eq!(all.len(), 5, "{all:?}");
    assert_eq!((&all[0]["id"], &all[3], &all[4][1]["id"]), (&json!("nobody-asked"), &all[4], &json!(1)));
}
