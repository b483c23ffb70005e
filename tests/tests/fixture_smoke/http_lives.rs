//! The old transport, and how fixtures over HTTP begin and end.

use std::net::TcpStream;

use drowse_tests::harness::HttpServer;
use serde_json::{Value, json};

use super::http_client::{Client, Wire, legacy_tool, tool};
use super::peer::{initialize, request, text_of};

fn post(server: &HttpServer, path: &str, message: &Value) -> u16 {
    let mut wire = Wire::open(server.address());
    wire.send("POST", path, &[("Content-Type", "application/json")], &message.to_string());
    wire.head().status
}

#[test]
fn the_old_transport() {
    let server = HttpServer::start(&["--era", "legacy", "--old-sse"]);
    assert!(server.url().ends_with("/sse"));
    assert_eq!(post(&server, "/sse", &initialize("2025-11-25")), 405);
    assert_eq!(post(&server, "/mcp", &initialize("2025-11-25")), 404);
    let mut stream = Wire::open(server.address());
    stream.send("GET", "/sse", &[("Accept", "text/event-stream")], "");
    assert_eq!(stream.head().header("content-type"), Some("text/event-stream"));
    let endpoint = stream.try_event().unwrap().unwrap();
    assert_eq!(endpoint.name.as_deref(), Some("endpoint"));
    let endpoint = endpoint.data.unwrap();
    assert!(endpoint.starts_with("/messages?session="));
    assert_eq!(post(&server, &endpoint, &initialize("2024-11-05")), 202);
    assert_eq!(stream.message()["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(
        post(&server, &endpoint, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})),
        202
    );
    let mut slow = legacy_tool(1, "slow", json!({"ms": 150}));
    slow["params"]["_meta"] = json!({"progressToken": 9});
    assert_eq!(post(&server, &endpoint, &slow), 202);
    assert_eq!(stream.message()["params"]["progressToken"], 9);
    assert_eq!(text_of(&stream.message()), "slept 150");
    assert_eq!(post(&server, &endpoint, &legacy_tool(2, "ask", json!({}))), 202);
    let asked = stream.message();
    assert_eq!(asked["method"], "roots/list");
    post(&server, &endpoint, &json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}}));
    assert_eq!(text_of(&stream.message()), r#"{"roots":[]}"#);
    assert_eq!(server.ask_for("notify", "tools"), "1");
    assert_eq!(stream.message()["method"], "notifications/tools/list_changed");
    server.fault("status=500;ran;times=1;on=tools/call");
    assert_eq!(post(&server, &endpoint, &legacy_tool(3, "tag", json!({"tag": "t"}))), 500);
    assert_eq!((text_of(&stream.message()), server.executions("t")), ("t".into(), 1));
    drop(stream);
    let closed = server.wait_for_events("session-closed", 1);
    assert!(closed[0].is("session-closed", "why", "disconnected"));
    assert_eq!(post(&server, &endpoint, &request(4, "ping", json!({}))), 404);
}

#[test]
fn endpoints_of_the_old_transport() {
    for form in ["absolute", "other"] {
        let server = HttpServer::start(&["--old-sse", "--endpoint", form, "--old-post", "404"]);
        let mut stream = Wire::open(server.address());
        stream.send("GET", "/sse", &[("Accept", "text/event-stream")], "");
        stream.head();
        let endpoint = stream.try_event().unwrap().unwrap().data.unwrap();
        let origin = if form == "other" { server.other() } else { format!("http://{}", server.address()) };
        assert!(endpoint.starts_with(&format!("{origin}/messages?session=")), "{endpoint}");
        assert_eq!(post(&server, "/sse", &json!({})), 404);
    }
}

#[test]
fn it_says_where_it_is_and_ends_with_its_input() {
    let mut server = HttpServer::start(&[]);
    let file = server.file("url");
    server.restart_with(&["--url-file", &file]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), server.url());
    assert_eq!(server.url(), format!("http://{}/mcp", server.address()));
    server.stop();
    assert_eq!(server.events("exit").len(), 2);
    assert!(server.events("exit").iter().all(|entry| entry.is("exit", "why", "eof")));
    assert!(TcpStream::connect(server.address()).is_err(), "nobody is there");
}

#[test]
fn it_comes_back_at_the_same_port() {
    let mut server = HttpServer::start(&["--era", "legacy"]);
    let mut client = Client::of(&server);
    client.initialize();
    let (url, pid, session) = (server.url(), server.pid(), client.session.clone());
    let mut stream = client.get(None);
    stream.head();
    server.kill();
    assert!(stream.try_event().is_err());
    assert!(TcpStream::connect(server.address()).is_err());
    server.restart();
    assert_eq!(server.url(), url);
    assert_ne!(server.pid(), pid);
    assert_eq!(client.legacy(&request(1, "ping", json!({}))).head().status, 404);
    client.session = None;
    client.initialize();
    assert_ne!(client.session, session);
    assert_eq!(server.journal.starts().unwrap().len(), 2);
}

#[test]
fn it_listens_on_ipv6() {
    let server = HttpServer::start_at("[::1]:0", &["--era", "modern"]);
    assert!(server.url().starts_with("http://[::1]:"));
    let answer = Client::of(&server).modern(&tool(1, "pid", json!({}))).answer().1;
    assert_eq!(text_of(&answer), server.pid().to_string());
}

#[test]
fn tools_that_end_the_process() {
    for form in ["json", "sse"] {
        let mut server = HttpServer::start(&["--era", "modern", "--answers", form]);
        let mut wire = Client::of(&server).modern(&tool(1, "exit_now", json!({"status": 9})));
        let head = wire.head();
        assert_eq!(text_of(&wire.body_message(&head)), "bye");
        assert!(wire.try_body().is_ok());
        assert_eq!(server.wait_for_exit(), Some(9));
        server.restart();
        let mut wire = Client::of(&server).modern(&tool(1, "crash", json!({"tag": "last words"})));
        assert!(wire.try_head().is_err() || wire.try_event().is_err());
        assert_eq!((server.wait_for_exit(), server.executions("last words")), (None, 1));
        server.restart_with(&["--era", "modern", "--session-end", "exit7"]);
        let pid = server.pid().to_string();
        assert_eq!(text_of(&Client::of(&server).modern(&tool(1, "pid", json!({}))).answer().1), pid);
        assert_eq!(server.wait_for_exit(), Some(7));
    }
}

#[test]
fn a_connection_serves_many_requests_or_one() {
    for (flags, count) in [(vec!["--era", "modern"], 2), (vec!["--era", "modern", "--close-connections"], 1)]
    {
        let server = HttpServer::start(&flags);
        let body = tool(1, "pid", json!({})).to_string();
        let headers = [
            ("Accept", super::http_client::BOTH),
            ("Content-Type", "application/json"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "pid"),
        ];
        let mut wire = Wire::open(server.address());
        for _ in 0..count {
            wire.send("POST", "/mcp", &headers, &body);
            wire.head();
            wire.body();
        }
        assert_eq!(server.events("http").iter().filter(|http| http.fields["connection"] == 0).count(), count);
        if count == 1 {
            assert!(wire.is_at_end());
        }
    }
}

#[test]
fn flags_that_make_no_sense() {
    for flags in [
        &["--http"][..],
        &["--token", "t"],
        &["--http", "127.0.0.1:0", "--fault", "no-such"],
        &["--http", "127.0.0.1:0", "--fault", "hang;to=same"],
        &["--http", "127.0.0.1:0", "--answers", "xml"],
        &["--http", "nowhere"],
    ] {
        let run =
            std::process::Command::new(env!("CARGO_BIN_EXE_drowse-fixture")).args(flags).output().unwrap();
        assert!(!run.status.success(), "{flags:?}");
        assert!(String::from_utf8(run.stderr).unwrap().starts_with("drowse-fixture: "));
    }
}
