//! Clients of the modern era.

use drowse_core::era::Era;
use serde_json::{Value, json};

use super::peer::{plain, serve, with_meta};
use crate::bridge::Event;

#[test]
fn a_call_is_answered_by_one_object() {
    for era in [Era::Legacy, Era::Modern] {
        serve(
            era,
            |_| {},
            async |endpoint| {
                let (head, answer) =
                    endpoint.modern("tools/call", json!({"name": "echo", "arguments": {"tag": "a"}})).await;
                assert_eq!((head.status, head.header("content-type")), (200, Some("application/json")));
                assert_eq!(answer["id"], 1);
                assert_eq!(answer["result"]["content"][0]["text"], "a", "{answer}");
                assert_eq!(head.header("mcp-session-id"), None);
            },
        );
    }
}

#[test]
fn clients_may_use_the_same_id_at_once() {
    plain(async |endpoint| {
        let mut clients = Vec::new();
        for (at, seconds) in [0.2, 0.1, 0.15].into_iter().enumerate() {
            let mut client = endpoint.connect().await;
            let arguments = json!({"tag": at.to_string(), "seconds": seconds});
            client
                .modern(&json!("same"), "tools/call", json!({"name": "slow", "arguments": arguments}))
                .await;
            clients.push(client);
        }
        for (at, client) in clients.iter_mut().enumerate() {
            let (head, answer) = client.answer().await;
            assert_eq!((head.status, &answer["id"]), (200, &json!("same")));
            assert_eq!(answer["result"]["content"][0]["text"], at.to_string());
        }
    });
}

#[test]
fn what_comes_before_the_answer_goes_on_a_stream() {
    plain(async |endpoint| {
        let mut client = endpoint.connect().await;
        let params = json!({"name": "slow", "arguments": {"tag": "s", "seconds": 0.25, "every": 0.1},
            "_meta": {"progressToken": 0}});
        client.modern(&json!(7), "tools/call", params).await;
        let head = client.head().await;
        assert_eq!((head.status, head.is_stream()), (200, true));
        assert_eq!(head.header("x-accel-buffering"), Some("no"));
        for progress in [1, 2] {
            let event = client.event().await.unwrap();
            assert_eq!((&event.id, event.retry), (&None, None), "no such streams are resumed");
            let message = event.message();
            assert_eq!(message["method"], "notifications/progress");
            assert_eq!(message["params"], json!({"progressToken": 0, "progress": progress}));
        }
        let answer = client.event().await.unwrap().message();
        assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(7), &json!("s")));
        assert_eq!(client.event().await, None);
        // The connection is good for more.
        client.modern(&json!(8), "tools/call", json!({"name": "echo", "arguments": {"tag": "e"}})).await;
        assert_eq!(client.answer().await.1["id"], 8);
    });
}

#[test]
fn a_client_that_reads_no_streams_gets_the_answer_alone() {
    plain(async |endpoint| {
        let mut client = endpoint.connect().await;
        let params = json!({"name": "slow", "arguments": {"tag": "s", "seconds": 0.15, "every": 0.05},
            "_meta": {"progressToken": 0}});
        client.modern_with(&[("accept", "application/json")], &json!(7), "tools/call", params).await;
        let (head, answer) = client.answer().await;
        assert_eq!((head.header("content-type"), &answer["id"]), (Some("application/json"), &json!(7)));
    });
}

#[test]
fn who_goes_away_takes_its_request_back() {
    for every in [json!(null), json!(0.02)] {
        plain(async |endpoint| {
            let mut client = endpoint.connect().await;
            let params = json!({"name": "slow", "arguments": {"tag": "t", "seconds": 30, "every": every},
                "_meta": {"progressToken": 0}});
            client.modern(&json!(1), "tools/call", params).await;
            endpoint.stage.until(|stage| stage.runs("t") == 1).await;
            if !every.is_null() {
                client.head().await;
                client.event().await.unwrap();
            }
            drop(client);
            let cancelled = Event::Cancelled("t".to_owned());
            while !endpoint.stage.events().iter().any(|(_, event)| *event == cancelled) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        });
    }
}

#[test]
fn a_subscription_lasts_as_long_as_its_stream() {
    plain(async |endpoint| {
        let mut client = endpoint.connect().await;
        let params = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["a:1"]}});
        client.modern(&json!("listen:0"), "subscriptions/listen", params).await;
        let head = client.head().await;
        assert!(head.is_stream(), "{head:?}");
        let first = client.event().await.unwrap().message();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
        assert_eq!(first["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "listen:0");
        endpoint.stage.process().change_tools();
        let second = client.event().await.unwrap().message();
        assert_eq!(second["method"], "notifications/tools/list_changed", "{second}");
        assert_eq!(endpoint.stage.process().subscriptions(), ["a:1"]);
        drop(client);
        while !endpoint.stage.process().subscriptions().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn errors_have_the_status_of_their_kind() {
    plain(async |endpoint| {
        for (method, status, code) in [
            ("no/such", 404, -32601),
            ("ping", 404, -32601),
            ("logging/setLevel", 404, -32601),
            ("initialize", 404, -32601),
        ] {
            let (head, answer) = endpoint.modern(method, json!({})).await;
            assert_eq!((head.status, &answer["error"]["code"]), (status, &json!(code)), "{method}");
            assert_eq!(answer["id"], 1);
        }
        assert_eq!(endpoint.stage.starts(), 0);
    });
}

async fn refused(endpoint: &super::peer::Endpoint, headers: &[(&str, &str)], message: &Value) -> (u16, i64) {
    let mut client = endpoint.connect().await;
    client.post(headers, message).await;
    let (head, answer) = client.answer().await;
    (head.status, answer["error"]["code"].as_i64().unwrap())
}

#[test]
fn headers_and_body_say_the_same() {
    plain(async |endpoint| {
        let version = ("mcp-protocol-version", "2026-07-28");
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": with_meta(json!({}))});
        let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let other = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list",
            "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "1900-01-01"}}});
        let method = ("mcp-method", "tools/list");
        assert_eq!(refused(&endpoint, &[version], &list).await, (400, -32020));
        assert_eq!(refused(&endpoint, &[method], &list).await, (400, -32020));
        assert_eq!(refused(&endpoint, &[version, ("mcp-method", "tools/call")], &list).await, (400, -32020));
        assert_eq!(refused(&endpoint, &[version, method], &bare).await, (400, -32602));
        assert_eq!(
            refused(&endpoint, &[("mcp-protocol-version", "1900-01-01"), method], &other).await,
            (400, -32022)
        );
        assert_eq!(refused(&endpoint, &[version], &json!([list])).await, (400, -32600));
        assert_eq!(
            refused(&endpoint, &[version], &json!({"jsonrpc": "2.0", "id": 1, "result": {}})).await,
            (400, -32600)
        );
        assert_eq!(endpoint.stage.starts(), 0);
    });
}

#[test]
fn notifications_are_accepted_and_there_is_no_other_method() {
    plain(async |endpoint| {
        let mut client = endpoint.connect().await;
        let version = ("mcp-protocol-version", "2026-07-28");
        client.post(&[version], &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "listen:0"}})).await;
        let head = client.head().await;
        assert_eq!((head.status, client.body(&head).await.len()), (202, 0));
        for method in ["GET", "DELETE", "PUT", "OPTIONS", "PATCH"] {
            client.request(method, &[version, ("accept", "text/event-stream")], "").await;
            let (head, _) = client.answer().await;
            assert_eq!((head.status, head.header("allow")), (405, Some("POST, GET, DELETE")), "{method}");
        }
        client.request_at("POST", "/other", &[], "").await;
        assert_eq!(client.answer().await.0.status, 404);
        // A session means nothing here.
        client.modern_with(&[("mcp-session-id", "nobodys")], &json!(1), "tools/list", json!({})).await;
        assert_eq!(client.answer().await.0.status, 200);
    });
}

#[test]
fn a_message_may_stand_on_many_lines() {
    plain(async |endpoint| {
        let mut client = endpoint.connect().await;
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": with_meta(json!({"name": "echo", "arguments": {"tag": "a\nb"}}))});
        let body = format!("\r\n{}\n", serde_json::to_string_pretty(&message).unwrap());
        let headers = [
            ("content-type", "application/json"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "echo"),
        ];
        client.request("POST", &headers, &body).await;
        assert_eq!(client.answer().await.1["result"]["content"][0]["text"], "a\nb");
    });
}

#[test]
fn http_2_is_spoken_too() {
    plain(async |endpoint| {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().http2_prior_knowledge().no_proxy().build().unwrap();
        let url = format!("http://{}/mcp", endpoint.address);
        let call = |tag: String| {
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": with_meta(json!({"name": "slow", "arguments": {"tag": tag, "seconds": 0.05}}))});
            let request = client.post(&url).header("content-type", "application/json");
            let request =
                request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/call");
            let request = request.header("mcp-name", "slow").body(message.to_string());
            async move {
                let response = request.send().await.unwrap();
                assert_eq!(response.version(), reqwest::Version::HTTP_2);
                response.text().await.unwrap()
            }
        };
        let mut calls = tokio::task::JoinSet::new();
        for at in 0..20 {
            let call = call(at.to_string());
            calls.spawn_local(async move { (at, call.await) });
        }
        while let Some(done) = calls.join_next().await {
            let (at, text) = done.unwrap();
            let answer: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(answer["result"]["content"][0]["text"], at.to_string());
        }
    });
}

#[test]
fn what_cannot_be_read_is_said_and_an_id_that_was_not_read_is_left_out() {
    plain(async |endpoint| {
        let json = ("content-type", "application/json");
        let version = ("mcp-protocol-version", "2026-07-28");
        let body = r#"{"jsonrpc":"2.0","method":"\ud83d","id":{}}"#;
        for (headers, id) in [(&[json, version][..], None), (&[json], Some(&Value::Null))] {
            let mut client = endpoint.connect().await;
            client.request("POST", headers, body).await;
            let (head, answer) = client.answer().await;
            assert_eq!((head.status, answer.get("id")), (400, id), "{answer}");
            assert_eq!(answer["error"]["code"], -32700);
            let said = answer["error"]["message"].as_str().unwrap();
            assert!(said.contains("a lone surrogate") && said.ends_with("at byte 27"), "{said}");
        }
    });
}

#[test]
fn a_session_is_told_which_revisions_there_are() {
    plain(async |endpoint| {
        let session = endpoint.session("2025-11-25").await;
        let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "1999-01-01")];
        let mut client = endpoint.connect().await;
        client.post(&headers, &json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"})).await;
        let (head, answer) = client.answer().await;
        assert_eq!((head.status, &answer["id"]), (400, &json!(7)));
        let said = answer["error"]["message"].as_str().unwrap();
        assert!(said.contains("MCP-Protocol-Version") && said.contains("2025-11-25"), "{said}");
    });
}
