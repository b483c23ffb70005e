//! How much of everything there may be, and what is said when there is more.

use std::time::Duration;

use drowse_core::era::Era;
use drowse_runtime::serve::Options;
use serde_json::{Value, json};

use super::peer::{Endpoint, call, reporting, serve};

fn limited(change: impl FnOnce(&mut Options), test: impl AsyncFnOnce(Endpoint)) {
    serve(Era::Legacy, change, test);
}

const INIT: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn bodies() {
    limited(
        |options| options.limits.body = 1000,
        async |endpoint| {
            let mut client = endpoint.connect().await;
            client
                .modern(
                    &json!(1),
                    "tools/call",
                    json!({"name": "echo", "arguments": {"tag": "a".repeat(2000)}}),
                )
                .await;
            let (head, answer) = client.answer().await;
            assert_eq!(head.status, 413);
            assert!(answer["error"]["message"].as_str().unwrap().contains("1000 bytes"), "{answer}");
            // In pieces, of which nobody says how many there are.
            let mut client = endpoint.connect().await;
            client.write(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n").await;
            for _ in 0..30 {
                let _ = tokio::io::AsyncWriteExt::write_all(
                    &mut client.stream,
                    format!("64\r\n{}\r\n", " ".repeat(100)).as_bytes(),
                )
                .await;
            }
            assert_eq!(client.head().await.status, 413);
            let (head, _) = endpoint.modern("tools/list", json!({})).await;
            assert_eq!(head.status, 200);
        },
    );
}

#[test]
fn all_bodies_together() {
    limited(
        |options| options.limits.bodies = 400_000,
        async |endpoint| {
            let message = |id: u64| {
                let arguments = json!({"tag": "big", "filler": "a".repeat(90_000)});
                let params = super::peer::with_meta(json!({"name": "echo", "arguments": arguments}));
                json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
            };
            let head = format!(
                "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: echo\r\n\
                 content-length: {}\r\n\r\n",
                message(10).len()
            );
            let mut all = tokio::task::JoinSet::new();
            let (go, _) = tokio::sync::broadcast::channel::<()>(1);
            for id in 10..50 {
                let (endpoint, head, text) = (endpoint.clone(), head.clone(), message(id));
                let mut go = go.subscribe();
                all.spawn_local(async move {
                    let mut client = endpoint.connect().await;
                    client.write(head.as_bytes()).await;
                    // All but its end, slowly.
                    let (most, end) = text.split_at(88_000);
                    for piece in most.as_bytes().chunks(4000) {
                        let _ = tokio::io::AsyncWriteExt::write_all(&mut client.stream, piece).await;
                        let said = tokio::time::timeout(Duration::from_millis(5), client.maybe_head()).await;
                        if let Ok(Some(head)) = said {
                            assert_eq!((head.status, head.header("retry-after")), (503, Some("1")));
                            return 503;
                        }
                        if said.is_ok() {
                            return 0;
                        }
                    }
                    go.recv().await.unwrap();
                    client.write(end.as_bytes()).await;
                    let (head, answer) = client.answer().await;
                    assert_eq!(answer["id"], id);
                    head.status
                });
            }
            let mut ended = Vec::new();
            while ended.len() < 37 {
                ended.push(all.join_next().await.unwrap().unwrap());
            }
            assert!(ended.iter().all(|status| *status == 503), "three find room: {ended:?}");
            // They are in the way of no short ones.
            let (short, _) = endpoint.modern("tools/call", json!({"name": "echo", "arguments": {}})).await;
            assert_eq!(short.status, 200);
            let mut client = endpoint.connect().await;
            client.write(head.as_bytes()).await;
            assert_eq!(client.answer().await.0.status, 503, "before any of it was sent");
            go.send(()).unwrap();
            while let Some(status) = all.join_next().await {
                assert_eq!(status.unwrap(), 200);
            }
            assert_eq!(endpoint.stage.runs("big"), 3);
            // What was answered, and what was refused, takes nothing more.
            let mut client = endpoint.connect().await;
            client.write(format!("{head}{}", message(99)).as_bytes()).await;
            assert_eq!(client.answer().await.0.status, 200);
            // This one would never find room.
            let mut client = endpoint.connect().await;
            client.write(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 300001\r\n\r\n").await;
            assert_eq!(client.answer().await.0.status, 413);
        },
    );
}

#[test]
fn a_body_counts_for_as_long_as_it_is_kept() {
    // A call of the other era is kept whole, as it may have to be put again.
    serve(
        Era::Modern,
        |options| options.limits.bodies = 400_000,
        async |endpoint| {
            let session = endpoint.session("2025-11-25").await;
            let long = |id: u64| {
                call(id, "slow", json!({"seconds": 0.5, "tag": "big", "filler": "a".repeat(90_000)}))
            };
            let mut streams = Vec::new();
            for id in 1..4 {
                let (head, client) = endpoint.say(&session, long(id)).await;
                assert!(head.is_stream(), "its answer has begun");
                streams.push(client);
            }
            assert_eq!(endpoint.say(&session, long(4)).await.0.status, 503);
            let short = call(5, "echo", json!({"tag": "short"}));
            assert_eq!(endpoint.say(&session, short).await.0.status, 200);
            for mut stream in streams {
                while stream.event().await.is_some() {}
            }
            assert_eq!(endpoint.say(&session, long(6)).await.0.status, 200);
            assert_eq!(endpoint.stage.runs("big"), 4);
        },
    );
}

#[test]
fn sessions() {
    limited(
        |options| options.limits.sessions = 2,
        async |endpoint| {
            let one = endpoint.session("2025-11-25").await;
            endpoint.session("2025-11-25").await;
            let mut client = endpoint.connect().await;
            client.request("POST", &[JSON], INIT).await;
            let (head, _) = client.answer().await;
            assert_eq!((head.status, head.header("retry-after")), (503, Some("30")));
            client.request("DELETE", &[("mcp-session-id", &one)], "").await;
            client.head().await;
            endpoint.session("2025-11-25").await;
        },
    );
}

#[test]
fn streams_of_a_session() {
    limited(
        |options| options.limits.streams = 2,
        async |endpoint| {
            let session = endpoint.session("2025-11-25").await;
            let (head, mut stream) = endpoint.listen(&session, None).await;
            assert_eq!(head.status, 200);
            let (_, one) = endpoint.say(&session, call(1, "slow", json!({"seconds": 0.3}))).await;
            let (head, _) = endpoint.say(&session, call(2, "echo", json!({}))).await;
            assert_eq!((head.status, head.header("retry-after")), (429, Some("1")));
            assert_eq!(endpoint.listen(&session, None).await.0.status, 429);
            // What is no request has no stream.
            let note = json!({"jsonrpc": "2.0", "method": "notifications/x"});
            assert_eq!(endpoint.say(&session, note).await.0.status, 202);
            drop(one);
            stream.event().await.unwrap();
            // As soon as the one that is under way has ended.
            while endpoint.say(&session, call(2, "echo", json!({}))).await.0.status != 200 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        },
    );
}

#[test]
fn the_time_of_a_session() {
    limited(
        |options| options.limits.idle = Duration::from_secs(1),
        async |endpoint| {
            let (used, unused) = (endpoint.session("2025-11-25").await, endpoint.session("2025-11-25").await);
            for at in 0..15 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                assert_eq!(endpoint.say(&used, call(at, "echo", json!({}))).await.0.status, 200);
            }
            assert_eq!(endpoint.say(&unused, call(1, "echo", json!({}))).await.0.status, 404);
            // An open stream keeps it.
            let (_, mut stream) = endpoint.listen(&used, None).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(endpoint.say(&used, call(9, "echo", json!({}))).await.0.status, 200);
            stream.event().await.unwrap();
        },
    );
}

#[test]
fn connections() {
    limited(
        |options| options.limits.connections = 2,
        async |endpoint| {
            let (one, _two) = (endpoint.connect().await, endpoint.connect().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
            let mut three = endpoint.connect().await;
            let (head, answer) = three.answer().await;
            assert_eq!((head.status, head.header("retry-after")), (503, Some("1")), "{answer}");
            assert!(three.is_closed().await);
            drop(one);
            while endpoint.modern("tools/list", json!({})).await.0.status != 200 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        },
    );
}

#[test]
fn comments_say_that_a_stream_goes_on() {
    limited(
        |options| options.pace.keep_alive = Duration::from_millis(50),
        async |endpoint| {
            let session = endpoint.session("2025-11-25").await;
            let (_, mut stream) = endpoint.listen(&session, None).await;
            assert!(stream.any_event().await.unwrap().is_some());
            for _ in 0..3 {
                assert_eq!(stream.any_event().await, Some(None));
            }
            let mut client = endpoint.connect().await;
            client
                .modern(
                    &json!(1),
                    "subscriptions/listen",
                    json!({"notifications": {"toolsListChanged": true}}),
                )
                .await;
            client.head().await;
            assert!(client.any_event().await.unwrap().is_some());
            assert_eq!(client.any_event().await, Some(None));
        },
    );
}

#[test]
fn the_end_of_all() {
    limited(
        |_| {},
        async |endpoint| {
            let session = endpoint.session("2025-11-25").await;
            let (_, mut stream) = endpoint.listen(&session, None).await;
            stream.event().await.unwrap();
            let mut slow = endpoint.connect().await;
            slow.modern(
                &json!(1),
                "tools/call",
                json!({"name": "slow", "arguments": {"seconds": 30, "tag": "s"}}),
            )
            .await;
            endpoint.stage.until(|stage| stage.runs("s") == 1).await;
            let mut idle = endpoint.connect().await;
            idle.modern(&json!(1), "server/discover", json!({})).await;
            idle.answer().await;
            endpoint.hub.close();
            let (head, answer) = slow.answer().await;
            assert_eq!((head.status, answer["error"].is_object()), (200, true), "{answer}");
            assert_eq!(stream.event().await, None);
            assert!(idle.is_closed().await);
            assert!(tokio::net::TcpStream::connect(endpoint.address).await.is_err());
        },
    );
}

#[test]
fn a_large_answer_is_no_limit() {
    limited(
        |options| options.limits.unread = 1000,
        async |endpoint| {
            let tag = "x".repeat(100_000);
            let (head, answer) =
                endpoint.modern("tools/call", json!({"name": "echo", "arguments": {"tag": tag}})).await;
            assert_eq!(
                (head.status, answer["result"]["content"][0]["text"].as_str().map(str::len)),
                (200, Some(100_000))
            );
            let session = endpoint.session("2025-06-18").await;
            let (head, mut client) =
                endpoint.say(&session, call(1, "slow", json!({"tag": tag, "seconds": 0.1}))).await;
            assert!(head.is_stream());
            let answer: Value = client.event().await.unwrap().message();
            assert_eq!(answer["result"]["content"][0]["text"].as_str().map(str::len), Some(100_000));
        },
    );
}

#[test]
fn an_answer_is_not_lost_for_what_was_said_before_it() {
    limited(
        |options| {
            options.limits.unread = 10_000;
            options.pace.legacy_patience = Duration::from_secs(10);
        },
        async |endpoint| {
            let session = endpoint.session("2025-06-18").await;
            let tag = "x".repeat(100_000);
            for accept in ["application/json", "application/json, text/event-stream"] {
                let call = reporting(1, json!({"tag": tag, "seconds": 0.3, "every": 0.02}));
                let mut client = endpoint.connect().await;
                client.post(&[("mcp-session-id", &session), ("accept", accept)], &call).await;
                let head = client.head().await;
                assert_eq!(head.status, 200, "{accept}");
                let answer: Value = match head.is_stream() {
                    false => serde_json::from_slice(&client.body(&head).await).unwrap(),
                    true => {
                        let mut last = None;
                        while let Some(event) = client.event().await {
                            last = Some(event.message());
                        }
                        last.unwrap()
                    }
                };
                assert_eq!(answer["result"]["content"][0]["text"].as_str().map(str::len), Some(100_000));
            }
        },
    );
}
