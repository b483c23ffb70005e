//! `--backend-url`: a command that serves over HTTP.

use std::net::TcpListener;

use drowse_tests::harness::in_both_eras;
use serde_json::json;

use super::client::{Place, kind};

/// A port that nobody has at the moment.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_server_at_a_url_is_started_used_restarted_and_ended() {
    in_both_eras(|era| {
        let place = Place::new();
        let port = free_port();
        let address = format!("127.0.0.1:{port}");
        let url = format!("http://{address}/mcp");
        let mut client = place.fixture(era, &["--backend-url", &url], &["--http", &address]);
        assert_eq!(client.status()["state"], "stopped");
        let first = client.text("pid", json!({}));
        assert_eq!(client.status()["pid"].to_string(), first);
        let restarted = client.restart(json!({}));
        assert_eq!(restarted["structuredContent"]["outcome"], "restarted", "{restarted}");
        assert_ne!(client.text("pid", json!({})), first);
        let crash = client.send_call("crash", json!({}));
        assert!(client.answer(crash).get("error").is_some());
        client.wait_for_status(|status| status["state"] == "crashed");
        assert_eq!(client.text("echo", json!({"text": "again"})), "again");
        assert_eq!(place.starts(), 3);
        client.close();
        assert!(TcpListener::bind(&address).is_ok(), "the port is free");
    });
}

#[test]
fn a_port_that_somebody_else_has_is_named_with_its_holder_who_is_left_alone() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let url = format!("http://{address}/mcp");
    let mut client = place.fixture("legacy", &["--backend-url", &url], &["--http", &address]);
    let call = client.send_call("echo", json!({"text": "x"}));
    let answer = client.answer(call);
    assert_eq!(kind(&answer), "start-failed");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
    assert_eq!(place.starts(), 0);
    drop(listener);
    assert_eq!(client.restart(json!({}))["structuredContent"]["outcome"], "restarted");
    client.close();
}
