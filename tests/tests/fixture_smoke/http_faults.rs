//! What the fixture over HTTP does wrong when it is told to.

use drowse_tests::harness::HttpServer;
use serde_json::{Value, json};

use super::http_client::{Client, Wire, tool};
use super::peer::{code_of, discover, text_of};

fn start(spec: &str) -> (HttpServer, Client) {
    let server = HttpServer::start(&["--era", "modern", "--fault", spec]);
    let client = Client::of(&server);
    (server, client)
}

fn tag() -> Value {
    tool(1, "tag", json!({"tag": "t"}))
}

#[test]
fn statuses_in_place_of_answers() {
    let (server, client) = start("status=503;retry-after=2;times=2;on=tools/call");
    assert_eq!(client.modern(&discover()).head().status, 200);
    for _ in 0..2 {
        let head = client.modern(&tag()).head();
        assert_eq!((head.status, head.header("retry-after")), (503, Some("2")));
    }
    assert_eq!(text_of(&client.modern(&tag()).answer().1), "t");
    assert_eq!((server.executions("t"), server.events("fault").len()), (1, 2));
    server.fault("status=401;www=Bearer realm=\"x\"");
    let head = client.modern(&tag()).head();
    assert_eq!((head.status, head.header("www-authenticate")), (401, Some("Bearer realm=\"x\"")));
    server.ask_for("mend", "");
    server.fault("status=500;ran;body=sorry;on=tools/call:tag;skip=1");
    assert_eq!(client.modern(&tag()).head().status, 200);
    let mut wire = client.modern(&tag());
    assert_eq!((wire.head().status, wire.body().as_str(), server.executions("t")), (500, "sorry", 3));
    assert_eq!(client.modern(&tool(1, "echo", json!({"text": "x"}))).head().status, 200);
    server.fault("status=400;rpc=-32601;on=server/discover");
    let (status, answer) = client.modern(&discover()).answer();
    assert_eq!((status, code_of(&answer), &answer["id"]), (400, -32601, &json!("probe")));
    for status in [403, 429] {
        server.ask_for("mend", "");
        server.fault(&format!("status={status}"));
        assert_eq!(client.modern(&tag()).head().status, status);
    }
}

#[test]
fn web_pages() {
    for status in [200, 404, 502] {
        let (server, client) = start(&format!("html={status}"));
        let mut wire = client.modern(&tag());
        let head = wire.head();
        assert_eq!(head.status, status);
        assert!(head.header("content-type").unwrap().starts_with("text/html"));
        assert!(wire.body().starts_with("<!DOCTYPE html>"));
        assert_eq!(server.executions("t"), 0);
    }
}

#[test]
fn redirects() {
    for status in [301, 302, 307, 308] {
        let (server, client) = start(&format!("redirect={status};to=same"));
        let head = client.modern(&tag()).head();
        assert_eq!(head.status, status);
        assert_eq!(head.header("location"), Some(format!("{}/moved", server.url()).as_str()));
        server.ask_for("mend", "");
        server.fault(&format!("redirect={status};to=other"));
        let location = client.modern(&tag()).head().header("location").unwrap().to_owned();
        assert_eq!(location, format!("{}/mcp", server.other()));
        // Whoever follows is seen there, with what it should have kept to itself.
        let address = server.other().strip_prefix("http://").unwrap().parse().unwrap();
        let mut wire = Wire::open(address);
        wire.send("GET", "/mcp", &[("Authorization", "Bearer secret")], "");
        assert_eq!(wire.head().status, 405);
        let last = server.events("http").pop().unwrap();
        assert!(last.is("http", "origin", "other"));
        assert_eq!(last.fields["headers"]["authorization"], "Bearer secret");
        server.ask_for("mend", "");
        server.fault("redirect=307;to=loop");
        assert_eq!(client.modern(&tag()).head().header("location"), Some(server.url().as_str()));
    }
    let (server, client) = start("redirect=308");
    let mut wire = client.wire();
    let (body, both) = (tag().to_string(), super::http_client::BOTH);
    let headers = [
        ("Accept", both),
        ("Content-Type", "application/json"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "tag"),
    ];
    wire.send("POST", "/mcp/moved", &headers, &body);
    assert_eq!(text_of(&wire.answer().1), "t", "there are no faults where it leads");
    assert_eq!(server.executions("t"), 1);
}

#[test]
fn connections_that_end_too_soon() {
    for spec in ["close=before", "close=head", "close=reset"] {
        let (server, client) = start(&format!("{spec};times=1"));
        let mut wire = client.modern(&tag());
        assert!(wire.try_head().is_err(), "{spec}");
        assert_eq!(server.executions("t"), 0);
        assert_eq!(client.modern(&tag()).head().status, 200);
    }
    let (server, client) = start("close=before;ran");
    assert!(client.modern(&tag()).try_head().is_err());
    assert_eq!(server.executions("t"), 1);
}

#[test]
fn silence() {
    let (server, client) = start("hang");
    drop(client.modern(&tag()));
    assert_eq!(server.wait_for_events("closed", 1).len(), 1);
    assert!(server.events("answered").is_empty() && server.executions("t") == 0);
    let (server, client) = start("comments=5");
    let mut wire = client.modern(&tag());
    assert_eq!(wire.head().header("content-type"), Some("text/event-stream"));
    for _ in 0..5 {
        assert!(wire.try_event().unwrap().unwrap().comment);
    }
    drop(wire);
    server.wait_for_events("closed", 1);
    let (server, client) = start("delay=100");
    assert_eq!(text_of(&client.modern(&tag()).answer().1), "t");
    drop(client.modern(&tag()));
    server.wait_for_events("closed", 1);
    assert_eq!(server.executions("t"), 1, "one who is gone in time has asked for nothing");
}

#[test]
fn spoilt_answers() {
    let (server, client) = start("type=text/plain");
    let mut wire = client.modern(&tag());
    assert_eq!(wire.head().header("content-type"), Some("text/plain"));
    assert!(wire.body().contains("\"t\""));
    server.ask_for("mend", "");
    server.fault("type=");
    assert_eq!(client.modern(&tag()).head().header("content-type"), None);
    let (_server, client) = start("cut-body");
    let mut wire = client.modern(&tag());
    wire.head();
    let half = wire.try_body().expect_err("it is cut");
    assert!(half.starts_with(b"{\"jsonrpc\""));
    let (server, client) = start("cut-sse");
    let mut wire = client.modern(&tag());
    assert_eq!(wire.head().header("content-type"), Some("text/event-stream"));
    assert!(wire.try_event().is_err());
    assert_eq!(server.executions("t"), 1);
    let (_server, client) = start("wrong-id=\"another\"");
    assert_eq!(client.modern(&tag()).answer().1["id"], "another");
    let (_server, client) = start("trailing");
    let mut wire = client.modern(&tag());
    wire.head();
    assert_eq!(wire.body().lines().count(), 3);
}

#[test]
fn streams_that_do_not_end_when_they_should() {
    let server = HttpServer::start(&["--era", "modern", "--answers", "sse", "--fault", "trailing"]);
    let client = Client::of(&server);
    let mut wire = client.modern(&tag());
    wire.head();
    let all: Vec<_> = std::iter::from_fn(|| wire.try_event().unwrap()).map(|event| event.message()).collect();
    assert_eq!((all.len(), text_of(&all[0])), (3, "t".into()));
    assert_eq!((&all[1]["id"], text_of(&all[1])), (&json!(1), "said after the end".into()));
    let (server, client) = start("linger");
    let mut wire = client.modern(&tag());
    wire.head();
    assert_eq!(text_of(&wire.message()), "t");
    drop(wire);
    assert!(server.wait_for_events("closed", 1)[0].is("closed", "method", "tools/call"));
    let (_server, client) = start("hang-up=1");
    let mut slow = tool(1, "slow", json!({"ms": 60_000}));
    slow["params"]["_meta"]["progressToken"] = json!(1);
    let mut wire = client.modern(&slow);
    wire.head();
    assert_eq!(wire.message()["method"], "notifications/progress");
    assert_eq!(wire.try_event().unwrap(), None);
}

#[test]
fn a_compressed_answer() {
    let (_server, client) = start("gzip=10000000");
    let mut wire = client.modern(&tag());
    assert_eq!(wire.head().header("content-encoding"), Some("gzip"));
    let body = wire.try_body().unwrap();
    assert!(body.starts_with(&[0x1f, 0x8b]) && body.len() < 100_000, "{} bytes", body.len());
    assert_eq!(body[body.len() - 4..], 10_000_000_u32.to_le_bytes());
}

#[test]
fn in_small_pieces() {
    let server = HttpServer::start(&["--era", "modern", "--answers", "sse", "--fault", "drip=3"]);
    let mut wire = Client::of(&server).modern(&tag());
    wire.head();
    assert_eq!(text_of(&wire.message()), "t");
    let (_server, client) = start("drip=1");
    assert_eq!(text_of(&client.modern(&tag()).answer().1), "t");
}

#[test]
fn a_token_is_asked_for() {
    let server = HttpServer::start(&["--era", "modern", "--token", "secret"]);
    let client = Client::of(&server);
    let head = client.modern(&tag()).head();
    assert_eq!(head.status, 401);
    assert!(head.header("www-authenticate").unwrap().starts_with("Bearer resource_metadata="));
    let headers = |token| {
        [
            ("Authorization", token),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "tag"),
        ]
    };
    let head = client.post(&headers("Bearer wrong"), &tag()).head();
    assert!(head.header("www-authenticate").unwrap().contains("invalid_token"));
    assert_eq!(client.post(&headers("Bearer secret"), &tag()).head().status, 200);
}
