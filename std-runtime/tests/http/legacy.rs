//! Clients of the legacy era: sessions, their streams, and what is told again.

use std::time::Duration;

use drowse_core::era::Era;
use serde_json::{Value, json};

use super::peer::{Endpoint, call, plain, reporting, serve};
use crate::bridge::Event;

const LATEST: &str = "2025-11-25";

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn was_cancelled(endpoint: &Endpoint, tag: &str) -> bool {
    let cancelled = Event::Cancelled(tag.to_owned());
    endpoint.stage.events().iter().any(|(_, event)| *event == cancelled)
}

#[test]
fn a_session_lasts_until_its_client_ends_it() {
    for revision in ["2025-03-26", "2025-06-18", LATEST] {
        plain(async |endpoint| {
            let session = endpoint.session(revision).await;
            assert!(session.bytes().all(|byte| byte.is_ascii_graphic()));
            let (head, mut client) = endpoint.say(&session, call(1, "echo", json!({"tag": "a"}))).await;
            assert_eq!(head.status, 200);
            let answer: Value = serde_json::from_slice(&client.body(&head).await).unwrap();
            assert_eq!(
                answer,
                json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "a"}]}})
            );
            client.request("DELETE", &[("mcp-session-id", &session)], "").await;
            assert_eq!(client.head().await.status, 204);
            for method in ["DELETE", "GET"] {
                client
                    .request(method, &[("mcp-session-id", &session), ("accept", "text/event-stream")], "")
                    .await;
                assert_eq!(client.answer().await.0.status, 404);
            }
            assert_eq!(endpoint.say(&session, call(1, "echo", json!({}))).await.0.status, 404);
        });
    }
}

#[test]
fn nobody_has_a_session_that_was_not_begun() {
    plain(async |endpoint| {
        let session = endpoint.session(LATEST).await;
        let long = "a".repeat(4000);
        for other in [
            "",
            "0",
            "../../etc/passwd",
            &session.to_uppercase(),
            &session[1..],
            &long,
            "00000000000000000000000000000000",
        ] {
            let (head, _) = endpoint.say(other, call(1, "echo", json!({}))).await;
            assert_eq!(head.status, 404, "{other}");
            assert_eq!(endpoint.listen(other, Some("1-1")).await.0.status, 404, "{other}");
        }
        let mut client = endpoint.connect().await;
        client.post(&[], &call(1, "echo", json!({}))).await;
        assert_eq!(client.answer().await.0.status, 400);
        let mut client = endpoint.connect().await;
        client
            .post(
                &[("mcp-session-id", &session), ("mcp-protocol-version", "1900-01-01")],
                &call(1, "echo", json!({})),
            )
            .await;
        assert_eq!(client.answer().await.0.status, 400);
        assert_eq!(endpoint.stage.starts(), 0);
    });
}

#[test]
fn sessions_are_apart() {
    plain(async |endpoint| {
        let (one, two) = (endpoint.session(LATEST).await, endpoint.session(LATEST).await);
        assert_ne!(one, two);
        // The same id in both, and the second takes its own back.
        let (_, mut first) = endpoint.say(&one, reporting(1, json!({"tag": "one", "seconds": 0.4}))).await;
        let (_, mut second) = endpoint.say(&two, reporting(1, json!({"tag": "two", "seconds": 30}))).await;
        let primed = first.event().await.unwrap();
        second.event().await.unwrap();
        // The id of an event means something in its own session only.
        let (head, mut own) = endpoint.listen(&two, primed.id.as_deref()).await;
        assert_eq!(head.status, 200);
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        assert_eq!(endpoint.say(&two, cancel).await.0.status, 202);
        until(|| was_cancelled(&endpoint, "two")).await;
        assert_eq!(first.event().await.unwrap().message()["result"]["content"][0]["text"], "one");
        assert!(!was_cancelled(&endpoint, "one"));
        assert_eq!(own.event().await, None, "nothing of the other session");
    });
}

#[test]
fn an_id_is_used_once_at_a_time() {
    plain(async |endpoint| {
        let session = endpoint.session(LATEST).await;
        let (head, mut first) =
            endpoint.say(&session, call(1, "slow", json!({"tag": "a", "seconds": 0.3}))).await;
        assert!(head.is_stream());
        let (head, mut again) = endpoint.say(&session, call(1, "echo", json!({"tag": "b"}))).await;
        assert_eq!(head.status, 400);
        assert_eq!(again.body(&head).await.first(), Some(&b'{'));
        first.event().await.unwrap();
        assert_eq!(first.event().await.unwrap().message()["id"], 1);
        assert_eq!(endpoint.say(&session, call(1, "echo", json!({"tag": "c"}))).await.0.status, 200);
    });
}

#[test]
fn who_loses_a_stream_gets_the_rest_of_it() {
    plain(async |endpoint| {
        let session = endpoint.session(LATEST).await;
        let (head, mut client) =
            endpoint.say(&session, reporting(1, json!({"tag": "a", "seconds": 0.5, "every": 0.1}))).await;
        assert!(head.is_stream());
        let primed = client.event().await.unwrap();
        assert_eq!((primed.retry, primed.data.as_deref()), (Some(1000), Some("")));
        let first = client.event().await.unwrap();
        assert_eq!(first.message()["params"]["progress"], 1);
        drop(client);
        // It is not taken back, and what comes meanwhile is kept.
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert!(!was_cancelled(&endpoint, "a"));
        let (head, mut client) = endpoint.listen(&session, first.id.as_deref()).await;
        assert!(head.is_stream(), "{head:?}");
        let mut last = first.id.clone();
        for progress in 2..=4 {
            let event = client.event().await.unwrap();
            assert_eq!(event.message()["params"]["progress"], progress);
            assert_ne!(event.id, last);
            last = event.id;
        }
        assert_eq!(client.event().await.unwrap().message()["result"]["content"][0]["text"], "a");
        assert_eq!(client.event().await, None);
        // From the beginning it is all told again, from its end nothing is.
        let (_, mut client) = endpoint.listen(&session, primed.id.as_deref()).await;
        assert_eq!(client.event().await.unwrap(), first);
        for last in ["9-9", "1-9999", "nonsense", "0-0"] {
            assert_eq!(
                endpoint.listen(&session, Some(last)).await.0.status,
                if last == "0-0" { 200 } else { 400 },
                "{last}"
            );
        }
    });
}

#[test]
fn a_stream_is_closed_and_its_client_comes_again() {
    let hold =
        |options: &mut drowse_runtime::serve::Options| options.pace.hold = Some(Duration::from_millis(100));
    serve(Era::Legacy, hold, async |endpoint| {
        let session = endpoint.session(LATEST).await;
        let (_, mut client) =
            endpoint.say(&session, call(1, "slow", json!({"tag": "a", "seconds": 0.4}))).await;
        let primed = client.event().await.unwrap();
        assert_eq!(client.event().await, None, "it is closed before the answer");
        let mut rounds = 0;
        let answer = loop {
            let (head, mut client) = endpoint.listen(&session, primed.id.as_deref()).await;
            assert!(head.is_stream());
            rounds += 1;
            // It is told again when to come.
            assert_eq!(client.event().await.unwrap().retry, Some(1000));
            if let Some(event) = client.event().await {
                break event.message();
            }
        };
        assert!(rounds > 1);
        assert_eq!(answer["result"]["content"][0]["text"], "a");
    });
}

#[test]
fn an_answer_that_is_too_long_to_be_kept_waits_for_who_was_sent_away() {
    let hold = |options: &mut drowse_runtime::serve::Options| {
        options.pace.hold = Some(Duration::from_millis(100));
        options.limits.events = 1000;
        options.limits.streams = 2;
    };
    serve(Era::Legacy, hold, async |endpoint| {
        let session = endpoint.session(LATEST).await;
        let long = "a".repeat(5000);
        let (_, mut client) =
            endpoint.say(&session, call(1, "slow", json!({"tag": long, "seconds": 0.3}))).await;
        let primed = client.event().await.unwrap();
        assert_eq!(client.event().await, None, "it is closed before the answer");
        tokio::time::sleep(Duration::from_millis(400)).await;
        // Who is away is no open stream any more, once the answer is there.
        for id in 2..5 {
            assert_eq!(endpoint.say(&session, call(id, "echo", json!({}))).await.0.status, 200);
        }
        let (head, mut client) = endpoint.listen(&session, primed.id.as_deref()).await;
        assert!(head.is_stream(), "{head:?}");
        client.event().await.unwrap();
        assert_eq!(client.event().await.unwrap().message()["result"]["content"][0]["text"], long);
        assert_eq!(client.event().await, None);
        // It was told, and is too long to be told again.
        assert_eq!(endpoint.listen(&session, primed.id.as_deref()).await.0.status, 400);
    });
}

#[test]
fn only_clients_that_know_of_it_are_sent_away() {
    let hold =
        |options: &mut drowse_runtime::serve::Options| options.pace.hold = Some(Duration::from_millis(50));
    serve(Era::Legacy, hold, async |endpoint| {
        let session = endpoint.session("2025-06-18").await;
        let slow = call(1, "slow", json!({"tag": "a", "seconds": 0.3}));
        let (_, mut client) = endpoint.say(&session, slow.clone()).await;
        assert_eq!(client.event().await.unwrap().message()["result"]["content"][0]["text"], "a");
        let mut client = endpoint.connect().await;
        client
            .modern_with(&[("accept", "text/event-stream")], &json!(1), "tools/call", slow["params"].clone())
            .await;
        assert!(client.head().await.is_stream());
        assert_eq!(client.event().await.unwrap().message()["result"]["content"][0]["text"], "a");
    });
}

#[test]
fn what_belongs_to_no_request_goes_on_the_stream_of_the_session() {
    plain(async |endpoint| {
        let session = endpoint.session(LATEST).await;
        let (_, mut client) = endpoint
            .say(
                &session,
                json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "a:1"}}),
            )
            .await;
        client.write(b"").await;
        let (head, mut stream) = endpoint.listen(&session, None).await;
        assert!(head.is_stream());
        let primed = stream.event().await.unwrap();
        assert_eq!(primed.data.as_deref(), Some(""));
        endpoint.stage.process().change_tools();
        let changed = stream.event().await.unwrap();
        assert_eq!(
            changed.message(),
            json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        );
        drop(stream);
        until(|| !endpoint.stage.process().subscriptions().is_empty()).await;
        endpoint.stage.process().update("a:1");
        tokio::time::sleep(Duration::from_millis(100)).await;
        // Nobody was there; it is told when somebody is, by either way of asking.
        let (_, mut stream) = endpoint.listen(&session, changed.id.as_deref()).await;
        let updated = stream.event().await.unwrap();
        assert_eq!(updated.message()["params"]["uri"], "a:1");
        drop(stream);
        tokio::time::sleep(Duration::from_millis(50)).await;
        endpoint.stage.process().change_tools();
        let (_, mut stream) = endpoint.listen(&session, None).await;
        loop {
            let event = stream.event().await.unwrap();
            if event.data.as_deref() != Some("") {
                assert_eq!(event.message()["method"], "notifications/tools/list_changed");
                break;
            }
        }
        // A newer one takes its place.
        let (_, mut newer) = endpoint.listen(&session, None).await;
        newer.event().await.unwrap();
        assert_eq!(stream.event().await, None);
        endpoint.stage.process().change_tools();
        assert_eq!(newer.event().await.unwrap().message()["method"], "notifications/tools/list_changed");
    });
}

#[test]
fn a_request_that_is_taken_back_ends_its_stream() {
    plain(async |endpoint| {
        let session = endpoint.session(LATEST).await;
        let (_, mut client) =
            endpoint.say(&session, call(1, "slow", json!({"tag": "a", "seconds": 30}))).await;
        client.event().await.unwrap();
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        assert_eq!(endpoint.say(&session, cancel).await.0.status, 202);
        assert_eq!(client.event().await, None);
        until(|| was_cancelled(&endpoint, "a")).await;
    });
}

#[test]
fn the_end_of_a_session_is_that_of_its_requests() {
    plain(async |endpoint| {
        let session = endpoint.session(LATEST).await;
        let (_, mut client) =
            endpoint.say(&session, call(1, "slow", json!({"tag": "a", "seconds": 30}))).await;
        let (_, mut stream) = endpoint.listen(&session, None).await;
        client.event().await.unwrap();
        stream.event().await.unwrap();
        let mut other = endpoint.connect().await;
        other.request("DELETE", &[("mcp-session-id", &session)], "").await;
        assert_eq!(other.head().await.status, 204);
        assert_eq!((client.event().await, stream.event().await), (None, None));
        until(|| was_cancelled(&endpoint, "a")).await;
    });
}

#[test]
fn batches_of_old_clients_are_answered_as_one() {
    plain(async |endpoint| {
        let session = endpoint.session("2025-03-26").await;
        let batch = json!([call(1, "echo", json!({"tag": "a"})), {"jsonrpc": "2.0", "method": "notifications/x"},
            call(2, "echo", json!({"tag": "b"}))]);
        let (head, mut client) = endpoint.say(&session, batch).await;
        let answer: Value = serde_json::from_slice(&client.body(&head).await).unwrap();
        let mut ids: Vec<u64> =
            answer.as_array().unwrap().iter().map(|one| one["id"].as_u64().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2]);
        let (head, _) =
            endpoint.say(&session, json!([{"jsonrpc": "2.0", "method": "notifications/x"}])).await;
        assert_eq!(head.status, 202);
        let (head, mut client) = endpoint
            .say(&session, json!([call(3, "slow", json!({"seconds": 0.2})), call(4, "echo", json!({}))]))
            .await;
        assert!(head.is_stream());
        assert_eq!(client.event().await.unwrap().message().as_array().unwrap().len(), 2);
        assert_eq!(client.event().await, None);
    });
}

/// So many that they do not find room at once.
fn many(tool: &str, ids: std::ops::Range<u64>, arguments: &Value) -> Value {
    ids.map(|id| {
        let mut call = call(id, tool, arguments.clone());
        call["params"]["arguments"]["tag"] = json!(format!("t{id}"));
        call
    })
    .collect()
}

fn texts(answer: &Value) -> Vec<(u64, String)> {
    let answers = answer.as_array().unwrap().iter();
    let mut texts: Vec<_> = answers
        .map(|one| {
            let text = one["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{one}"));
            (one["id"].as_u64().unwrap(), text.to_owned())
        })
        .collect();
    texts.sort();
    texts
}

#[test]
fn batches_that_wait_for_room_at_the_same_time_are_apart() {
    plain(async |endpoint| {
        let session = endpoint.session("2025-03-26").await;
        let mut slow = endpoint.connect().await;
        let batch = many("slow", 0..70, &json!({"seconds": 0.2}));
        slow.post(&[("mcp-session-id", &session)], &batch).await;
        until(|| endpoint.stage.runs("t5") == 1).await;
        // One that needs no room is not one more piece of it, and does not end it.
        let pings = (1000..1040).map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        let (head, mut quick) = endpoint.say(&session, pings.collect()).await;
        let answer: Value = serde_json::from_slice(&quick.body(&head).await).unwrap();
        let ids: Vec<_> = answer.as_array().unwrap().iter().map(|one| one["id"].as_u64().unwrap()).collect();
        assert_eq!(ids, (1000..1040).collect::<Vec<_>>());
        let head = slow.head().await;
        let answer = if head.is_stream() {
            slow.event().await.unwrap().message()
        } else {
            serde_json::from_slice(&slow.body(&head).await).unwrap()
        };
        assert_eq!(texts(&answer), (0..70).map(|id| (id, format!("t{id}"))).collect::<Vec<_>>());
        for id in 0..70 {
            assert_eq!(endpoint.stage.runs(&format!("t{id}")), 1, "{id}");
        }
    });
}

#[test]
fn a_batch_whose_client_leaves_is_in_nobodys_way() {
    plain(async |endpoint| {
        let session = endpoint.session("2025-03-26").await;
        let mut client = endpoint.connect().await;
        let batch = many("slow", 0..70, &json!({"seconds": 0.5}));
        client.post(&[("mcp-session-id", &session)], &batch).await;
        until(|| endpoint.stage.runs("t5") == 1).await;
        drop(client);
        // Some of it is under way: whoever uses their ids again is told so, and gets no answer of theirs.
        loop {
            let (head, mut client) = endpoint.say(&session, call(3, "echo", json!({"tag": "mine"}))).await;
            let answer: Value = serde_json::from_slice(&client.body(&head).await).unwrap();
            if head.status == 200 {
                assert_eq!(answer["result"]["content"][0]["text"], "mine", "{answer}");
                break;
            }
            assert!(answer["error"]["message"].as_str().unwrap().contains("under way"), "{answer}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // All of the next is read.
        let (head, mut client) = endpoint.say(&session, many("echo", 1000..1090, &json!({}))).await;
        let answer = if head.is_stream() {
            client.event().await.unwrap().message()
        } else {
            serde_json::from_slice(&client.body(&head).await).unwrap()
        };
        assert_eq!(texts(&answer), (1000..1090).map(|id| (id, format!("t{id}"))).collect::<Vec<_>>());
    });
}

#[test]
fn a_batch_where_there_are_none_is_refused_and_takes_no_ids() {
    plain(async |endpoint| {
        let session = endpoint.session(LATEST).await;
        let batch =
            json!([call(1, "echo", json!({"tag": "never"})), call(2, "echo", json!({"tag": "never"}))]);
        let (head, mut client) = endpoint.say(&session, batch).await;
        let answer: Value = serde_json::from_slice(&client.body(&head).await).unwrap();
        assert_eq!((head.status, &answer["error"]["code"]), (400, &json!(-32600)), "{answer}");
        assert_eq!(endpoint.say(&session, call(1, "echo", json!({"tag": "a"}))).await.0.status, 200);
        assert_eq!(endpoint.stage.runs("never"), 0);
    });
}

#[test]
fn an_initialize_that_is_none_begins_no_session() {
    plain(async |endpoint| {
        for params in [json!([]), json!({"protocolVersion": 7}), json!(null)] {
            let mut client = endpoint.connect().await;
            client
                .post(&[], &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}))
                .await;
            let head = client.head().await;
            // Either it is understood, or there is no session.
            assert!(head.status == 200 || head.header("mcp-session-id").is_none(), "{head:?}");
        }
        let session = endpoint.session(LATEST).await;
        let again = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": LATEST, "capabilities": {}}});
        let (head, mut client) = endpoint.say(&session, again).await;
        let answer: Value = serde_json::from_slice(&client.body(&head).await).unwrap();
        assert_eq!((head.header("mcp-session-id"), &answer["error"]["code"]), (None, &json!(-32600)));
    });
}

#[test]
fn both_eras_are_served_at_once() {
    serve(
        Era::Modern,
        |_| {},
        async |endpoint| {
            let session = endpoint.session(LATEST).await;
            let (head, answer) =
                endpoint.modern("tools/call", json!({"name": "echo", "arguments": {"tag": "m"}})).await;
            assert_eq!((head.status, &answer["result"]["resultType"]), (200, &json!("complete")));
            let (head, mut client) = endpoint.say(&session, call(1, "echo", json!({"tag": "l"}))).await;
            let answer: Value = serde_json::from_slice(&client.body(&head).await).unwrap();
            assert_eq!((head.status, answer["result"].get("resultType")), (200, None));
            assert_eq!(endpoint.stage.starts(), 1);
        },
    );
}
