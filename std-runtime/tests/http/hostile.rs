//! Clients that mean no good, or do not know better.

use std::time::Duration;

use drowse_core::era::Era;
use serde_json::{Value, json};

use super::peer::{Endpoint, call, plain, reporting, serve};

async fn is_well(endpoint: &Endpoint) {
    let (head, _) =
        endpoint.modern("tools/call", json!({"name": "echo", "arguments": {"tag": "well"}})).await;
    assert_eq!(head.status, 200);
}

#[test]
fn heads_that_never_end() {
    serve(
        Era::Legacy,
        |options| options.limits.head = Duration::from_millis(300),
        async |endpoint| {
            for start in [
                "",
                "P",
                "PRI * HT",
                "POST /mcp HTTP/1.1\r\nhost: localhost\r\n",
                "POST /mcp HTTP/1.1\r\nx: ",
            ] {
                let mut client = endpoint.connect().await;
                client.write(start.as_bytes()).await;
                is_well(&endpoint).await;
                let ended = async {
                    while let Some(head) = client.maybe_head().await {
                        assert_eq!(head.status, 408);
                    }
                };
                assert!(tokio::time::timeout(Duration::from_secs(5), ended).await.is_ok(), "{start}");
            }
        },
    );
}

#[test]
fn bodies_that_never_come() {
    serve(
        Era::Legacy,
        |options| options.limits.body_time = Duration::from_millis(200),
        async |endpoint| {
            let mut client = endpoint.connect().await;
            client.write(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{").await;
            is_well(&endpoint).await;
            assert_eq!(client.head().await.status, 408);
            // One that says it is long, and ends.
            let mut client = endpoint.connect().await;
            client.write(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{}").await;
            drop(client);
            is_well(&endpoint).await;
            assert_eq!(endpoint.stage.runs(""), 0);
        },
    );
}

#[test]
fn bodies_that_break_off_are_no_messages() {
    plain(async |endpoint| {
        let session = endpoint.session("2025-11-25").await;
        let message = call(1, "echo", json!({"tag": "never"})).to_string();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nmcp-session-id: {session}\r\n"
        );
        let long = format!("{head}content-length: {}\r\n\r\n{message}", message.len() + 1);
        let chunks = format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{message}\r\n", message.len());
        let junk = format!("{chunks}junk\r\n");
        for text in [long, chunks, junk] {
            let mut client = endpoint.connect().await;
            client.write(text.as_bytes()).await;
            tokio::io::AsyncWriteExt::shutdown(&mut client.stream).await.unwrap();
            if let Some(head) = client.maybe_head().await {
                assert_eq!(head.status, 400);
            }
        }
        is_well(&endpoint).await;
        assert_eq!(endpoint.stage.runs("never"), 0);
    });
}

#[test]
fn heads_that_are_none() {
    plain(async |endpoint| {
        let long = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "a".repeat(200_000));
        let many = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(500));
        let path = format!("POST /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a".repeat(100_000));
        for text in [
            "nonsense\r\n\r\n",
            "\0\0\0\0\r\n\r\n",
            "POST /mcp HTTP/9.9\r\n\r\n",
            "POST /mcp HTTP/1.1\r\nhost localhost\r\n\r\n",
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense that is no frame of it",
            &long,
            &many,
            &path,
        ] {
            let mut client = endpoint.connect().await;
            let _ = tokio::io::AsyncWriteExt::write_all(&mut client.stream, text.as_bytes()).await;
            let closed = tokio::time::timeout(Duration::from_secs(5), client.maybe_head()).await;
            let start = text.get(..30).unwrap_or(text);
            if let Ok(Some(head)) = closed {
                assert!((400..600).contains(&head.status), "{start} {head:?}");
            } else {
                assert!(closed.is_ok(), "{start}");
            }
        }
        is_well(&endpoint).await;
    });
}

#[test]
fn ids_and_tokens_that_are_none() {
    plain(async |endpoint| {
        let session = endpoint.session("2025-11-25").await;
        let long = "i".repeat(300_000);
        for id in [json!(null), json!(1.5), json!({"a": 1}), json!([]), json!(true)] {
            let mut message = call(1, "echo", json!({"tag": "never"}));
            message["id"] = id.clone();
            let (head, _) = endpoint.say(&session, message).await;
            assert_eq!(head.status, 400, "{id}");
        }
        for id in [
            json!(long),
            json!("\r\n\r\ndata: x"),
            json!(u64::MAX),
            json!(-1),
            json!(""),
            json!("\u{0}\u{2028}"),
        ] {
            let mut message = call(1, "echo", json!({"tag": "ok"}));
            message["id"] = id.clone();
            let (head, mut client) = endpoint.say(&session, message).await;
            let answer: Value = serde_json::from_slice(&client.body(&head).await).unwrap();
            assert_eq!((head.status, &answer["id"]), (200, &id));
            let mut client = endpoint.connect().await;
            let params = json!({"name": "slow", "arguments": {"tag": "ok", "seconds": 0.06, "every": 0.02},
                "_meta": {"progressToken": id}});
            client.modern(&id, "tools/call", params).await;
            client.head().await;
            let event = client.event().await.unwrap().message();
            assert_eq!(event["params"]["progressToken"], id);
        }
        for body in
            ["", "{", "[]", "null", "\u{feff}{}", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}garbage"]
        {
            let mut client = endpoint.connect().await;
            client
                .request("POST", &[("content-type", "application/json"), ("mcp-session-id", &session)], body)
                .await;
            let head = client.head().await;
            assert_eq!(head.status, 400, "{body}");
        }
        assert_eq!(endpoint.stage.runs("never"), 0);
        is_well(&endpoint).await;
    });
}

#[test]
fn a_client_that_never_reads_is_ended() {
    let small = |options: &mut drowse_runtime::serve::Options| {
        options.limits.unread = 64 << 10;
        options.limits.stalled = Duration::from_millis(500);
    };
    serve(Era::Modern, small, async |endpoint| {
        let mut client = endpoint.connect().await;
        let params = json!({"name": "slow", "arguments": {"tag": "t", "seconds": 60, "every": 0.01},
            "_meta": {"progressToken": "p".repeat(200_000)}});
        client.modern(&json!(1), "tools/call", params).await;
        // Its request is taken back, and nothing more gathers for it.
        let cancelled = crate::bridge::Event::Cancelled("t".to_owned());
        while !endpoint.stage.events().iter().any(|(_, event)| *event == cancelled) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        is_well(&endpoint).await;
        drop(client);
    });
}

#[test]
fn a_session_whose_client_never_reads_is_bounded() {
    let small = |options: &mut drowse_runtime::serve::Options| {
        options.limits.unread = 64 << 10;
        options.limits.events = 300 << 10;
        options.limits.stalled = Duration::from_millis(500);
    };
    serve(Era::Legacy, small, async |endpoint| {
        let session = endpoint.session("2025-11-25").await;
        let mut message = reporting(1, json!({"tag": "t", "seconds": 3, "every": 0.01}));
        message["params"]["_meta"]["progressToken"] = json!("p".repeat(100_000));
        let (head, mut client) = endpoint.say(&session, message).await;
        assert!(head.is_stream());
        let first = client.event().await.unwrap();
        endpoint.stage.until(|stage| stage.runs("t") == 1).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        // Much more was written than is kept.
        assert_eq!(endpoint.listen(&session, first.id.as_deref()).await.0.status, 400);
        // The session goes on, and the request with it.
        assert_eq!(endpoint.say(&session, call(2, "echo", json!({}))).await.0.status, 200);
        drop(client);
        is_well(&endpoint).await;
    });
}

#[test]
fn who_was_slow_to_listen_hears_again() {
    plain(async |endpoint| {
        let session = endpoint.session("2025-11-25").await;
        let uri = format!("a:{}", "x".repeat(20_000));
        for (id, uri) in [(1, uri.as_str()), (2, "the:end")] {
            let subscribe =
                json!({"jsonrpc": "2.0", "id": id, "method": "resources/subscribe", "params": {"uri": uri}});
            let (head, mut client) = endpoint.say(&session, subscribe).await;
            assert_eq!(head.status, 200);
            client.body(&head).await;
        }
        assert_eq!(endpoint.stage.process().subscriptions().len(), 2);
        // Nobody reads: what is told gathers to a bound, and no more.
        let other = endpoint.session("2025-11-25").await;
        for id in 0..20 {
            endpoint.stage.process().update(&uri);
            // What the server said before this answer has been taken.
            let (head, mut client) = endpoint.say(&other, call(id, "echo", json!({"tag": "x"}))).await;
            client.body(&head).await;
        }
        let (_, mut stream) = endpoint.listen(&session, None).await;
        let mut told = 0;
        loop {
            let event = stream.event().await.unwrap();
            if event.data.as_deref() == Some("") {
                continue;
            }
            let message = event.message();
            if message["params"]["uri"] == "the:end" {
                break;
            }
            if message["params"]["uri"] == uri {
                told += 1;
                if told == 1 {
                    endpoint.stage.process().update("the:end");
                }
            }
        }
        assert!((1..=8).contains(&told), "{told}");
        endpoint.stage.process().update(&uri);
        assert_eq!(stream.event().await.unwrap().message()["params"]["uri"], uri);
    });
}

#[test]
fn many_clients_at_once() {
    plain(async |endpoint| {
        let mut all = tokio::task::JoinSet::new();
        for at in 0..100 {
            let endpoint = endpoint.clone();
            all.spawn_local(async move {
                let tag = at.to_string();
                if at % 2 == 0 {
                    let session = endpoint.session("2025-11-25").await;
                    for id in 0..5 {
                        let (head, mut client) =
                            endpoint.say(&session, call(id, "echo", json!({"tag": tag}))).await;
                        let body = String::from_utf8(client.body(&head).await).unwrap();
                        assert!(body.contains(&format!("\"text\":\"{tag}\"")), "{body}");
                    }
                } else {
                    let mut client = endpoint.connect().await;
                    for id in 0..5 {
                        client
                            .modern(
                                &json!(id),
                                "tools/call",
                                json!({"name": "echo", "arguments": {"tag": tag}}),
                            )
                            .await;
                        let (_, answer) = client.answer().await;
                        assert_eq!(
                            (&answer["id"], &answer["result"]["content"][0]["text"]),
                            (&json!(id), &json!(tag))
                        );
                    }
                }
            });
        }
        while let Some(done) = all.join_next().await {
            done.unwrap();
        }
        assert_eq!(endpoint.stage.starts(), 1);
    });
}

#[test]
fn large_batches_hold_up_nobody() {
    plain(async |endpoint| {
        let session = endpoint.session("2025-03-26").await;
        let mut clients = Vec::new();
        for first in [100_000, 200_000] {
            let mut client = endpoint.connect().await;
            let calls: Vec<Value> =
                (first..first + 80_000).map(|id| call(id, "never", json!({"tag": "held"}))).collect();
            client.post(&[("mcp-session-id", &session)], &json!(calls)).await;
            clients.push(client);
        }
        // They have their share of sixteen.
        while endpoint.stage.runs("held") < 13 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let other = endpoint.session("2025-03-26").await;
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        assert_eq!(endpoint.say(&other, ping).await.0.status, 200);
        let (head, mut client) = endpoint.say(&other, call(2, "echo", json!({"tag": "other"}))).await;
        let answer: Value = serde_json::from_slice(&client.body(&head).await).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "other", "{answer}");
        assert_eq!(endpoint.stage.runs("held"), 13);
    });
}

#[test]
fn clients_without_sessions_leave_room_for_those_in_sessions() {
    plain(async |endpoint| {
        let mut clients = Vec::new();
        for id in 0..20 {
            let mut client = endpoint.connect().await;
            let params = json!({"name": "never", "arguments": {"tag": "held"}});
            client.modern(&json!(id), "tools/call", params).await;
            clients.push(client);
        }
        while endpoint.stage.runs("held") < 13 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let session = endpoint.session("2025-11-25").await;
        let (head, mut client) = endpoint.say(&session, call(2, "echo", json!({"tag": "other"}))).await;
        let answer: Value = serde_json::from_slice(&client.body(&head).await).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "other", "{answer}");
        assert_eq!(endpoint.stage.runs("held"), 13);
    });
}
