//! Single requests: their time-outs, their cancellation, their ids, and that none runs twice.

use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::PublicState;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, duplex};
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::bridge::{Caller, Event, Peer, Script, Stage, assert_at, failure, sleepy};

over_both_transports! {
    a_time_out_cancels_one_request_and_the_session_lives
    a_request_brings_its_own_time_out
    progress_starts_the_time_out_anew_up_to_a_maximum
    a_late_answer_reaches_nobody
    a_cancelled_request_is_answered_once_and_ends
    a_caller_that_goes_away_is_cancelled
    what_comes_with_a_hello_is_read_after_its_answer
    answers_come_in_the_servers_order_with_the_callers_ids
    one_callers_ids_are_not_anothers
    a_full_house_makes_callers_wait
    what_takes_requests_back_does_not_wait_for_their_room
    what_needs_no_room_does_not_wait_for_it
    requests_wait_for_a_slow_start_outside_of_their_time
    an_answer_over_the_limit_fails_that_request_alone
    lines_that_are_no_answer_disturb_nobody
    requests_of_the_server_are_declined
}

async fn live(peer: Peer) -> (Stage, drowse_runtime::bridge::Hub, Caller) {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    let caller = Caller::connect(&hub).await;
    (stage, hub, caller)
}

fn timeout(millis: u64) -> Value {
    json!({"dev.drowse/timeoutMs": millis})
}

fn cancellations(stage: &Stage) -> Vec<Value> {
    let events = stage.events().into_iter();
    let got = events.filter_map(|(_, event)| match event {
        Event::Got(message) if message["method"] == "notifications/cancelled" => Some(message),
        _ => None,
    });
    got.collect()
}

/// How often the server was told, in its own way, that an answer is not wanted.
fn told(stage: &Stage) -> usize {
    if stage.script().peer == Peer::Modern {
        return stage.events().iter().filter(|(_, event)| matches!(event, Event::Cancelled(_))).count();
    }
    cancellations(stage).len()
}

/// The wire id of the call that the server got with that tag.
fn wire_id(stage: &Stage, tag: &str) -> Value {
    let events = stage.events();
    let id = events.iter().find_map(|(_, event)| match event {
        Event::Got(message) if message["params"]["arguments"]["tag"] == tag => Some(message["id"].clone()),
        _ => None,
    });
    id.unwrap_or_else(|| panic!("{tag} did not arrive: {events:?}"))
}

async fn a_time_out_cancels_one_request_and_the_session_lives(peer: Peer) {
    let (stage, hub, mut caller) = live(peer).await;
    let begun = stage.elapsed();
    let late = caller.start("never", json!({"tag": "late"})).await;
    let other = caller.start("slow", json!({"tag": "other", "seconds": 299.0})).await;
    let answer = caller.answer(&other).await;
    assert!(answer.get("result").is_some(), "{answer}");
    let answer = caller.answer(&late).await;
    assert_eq!(failure(&answer), ("timeout", "unknown"));
    // The documented default is the real one.
    assert_at(stage.elapsed(), begun + Duration::from_secs(300));
    stage.until(|stage| stage.events().iter().any(|(_, e)| *e == Event::Cancelled("late".into()))).await;
    assert_eq!(told(&stage), 1);
    if let [cancelled] = &cancellations(&stage)[..] {
        assert_eq!(cancelled["params"]["requestId"], wire_id(&stage, "late"));
    }
    caller.call("echo", json!({"tag": "next"})).await;
    assert_eq!((hub.state(), stage.starts()), (PublicState::Live, 1));
    assert_eq!(["late", "other", "next"].map(|tag| stage.runs(tag)), [1; 3]);
}

async fn a_request_brings_its_own_time_out(peer: Peer) {
    let (stage, _hub, mut caller) = live(peer).await;
    // Shorter than the session's, and longer than even the maximum: its caller knows what it asks for.
    for millis in [1500, 2 * 3_600_000] {
        let begun = stage.elapsed();
        let params = json!({"name": "never", "arguments": {}, "_meta": timeout(millis)});
        let answer = caller.ask("tools/call", params).await;
        assert_eq!(failure(&answer), ("timeout", "unknown"));
        assert_at(stage.elapsed(), begun + Duration::from_millis(millis));
    }
}

async fn progress_starts_the_time_out_anew_up_to_a_maximum(peer: Peer) {
    let (stage, _hub, mut caller) = live(peer).await;
    // The caller did not ask for progress: the server was asked all the same, and it helps.
    caller.call("slow", json!({"tag": "quiet", "seconds": 1000.0, "every": 250.0})).await;
    assert_eq!(caller.ask("drowse/status", json!({})).await["result"]["inFlight"], 0);
    // A caller that asks gets it under its own token, of any type.
    for token in [json!(0), json!("t")] {
        let params = json!({
            "name": "slow",
            "arguments": {"tag": "told", "seconds": 700.0, "every": 250.0},
            "_meta": {"progressToken": token},
        });
        let answer = caller.ask("tools/call", params).await;
        assert!(answer.get("result").is_some(), "{answer}");
        for _ in 0..2 {
            let progress = caller.receive().await.unwrap();
            assert_eq!(progress["method"], "notifications/progress");
            assert_eq!(progress["params"]["progressToken"], token);
        }
    }
    // But not for ever.
    let begun = stage.elapsed();
    let endless = caller.start("slow", json!({"tag": "endless", "seconds": 1e6, "every": 250.0})).await;
    let answer = caller.answer(&endless).await;
    assert_eq!(failure(&answer), ("timeout", "unknown"));
    assert_at(stage.elapsed(), begun + Duration::from_secs(3600));
    assert_eq!(stage.runs("endless"), 1);
}

async fn a_late_answer_reaches_nobody(peer: Peer) {
    let (stage, _hub, mut caller) = live(peer).await;
    let call = caller.start("never", json!({"tag": "late"})).await;
    caller.answer(&call).await;
    let wire = wire_id(&stage, "late");
    // After the time-out, and twice; then again when its slot belongs to another request.
    let late = json!({"jsonrpc": "2.0", "id": wire, "result": {"content": "late"}});
    stage.server_says(&late);
    stage.server_says(&late);
    let next = caller.start("slow", json!({"tag": "next", "seconds": 1.0})).await;
    stage.until(|stage| stage.runs("next") == 1).await;
    stage.server_says(&late);
    let answer = caller.answer(&next).await;
    assert_eq!(answer["result"]["content"][0]["text"], "next");
    assert_eq!(caller.ask("drowse/status", json!({})).await["result"]["inFlight"], 0);
}

async fn a_cancelled_request_is_answered_once_and_ends(peer: Peer) {
    let (stage, _hub, mut caller) = live(peer).await;
    for id in [json!(0), json!("zero")] {
        let tag = id.to_string();
        let params = json!({"name": "never", "arguments": {"tag": tag}});
        caller.send_as(&id, "tools/call", params).await;
        stage.until(|stage| stage.runs(&tag) == 1).await;
        // Neither the other type nor another id is this request.
        for other in [json!("0"), json!(1), json!(null)] {
            caller.notify("notifications/cancelled", json!({"requestId": other})).await;
        }
        sleep(Duration::from_secs(1)).await;
        assert!(!cancellations(&stage).iter().any(|got| got["params"]["requestId"] == wire_id(&stage, &tag)));
        caller.notify("notifications/cancelled", json!({"requestId": id})).await;
        caller.notify("notifications/cancelled", json!({"requestId": id})).await;
        assert_eq!(failure(&caller.answer(&id).await), ("cancelled", "unknown"));
        stage.until(|stage| stage.events().iter().any(|(_, e)| *e == Event::Cancelled(tag.clone()))).await;
    }
    assert_eq!(told(&stage), 2);
    // One that was never sent never ran, and the server hears nothing of it.
    let stage = Stage::new(Script { boot: Duration::from_secs(10), ..Script::of(peer) });
    let hub = stage.bridge(sleepy());
    let mut caller = Caller::connect(&hub).await;
    let call = caller.start("echo", json!({"tag": "early"})).await;
    caller.notify("notifications/cancelled", json!({"requestId": call})).await;
    assert_eq!(failure(&caller.answer(&call).await), ("cancelled", "no"));
    stage.ready().await;
    caller.call("echo", json!({"tag": "next"})).await;
    assert_eq!((stage.runs("early"), cancellations(&stage).len()), (0, 0));
}

async fn a_caller_that_goes_away_is_cancelled(peer: Peer) {
    let (stage, hub, mut caller) = live(peer).await;
    let mut other = Caller::connect(&hub).await;
    let kept = other.start("slow", json!({"tag": "kept", "seconds": 5.0})).await;
    caller.start("never", json!({"tag": "left"})).await;
    stage.until(|stage| stage.runs("left") == 1).await;
    drop(caller);
    stage.until(|stage| stage.events().iter().any(|(_, e)| *e == Event::Cancelled("left".into()))).await;
    assert!(other.answer(&kept).await.get("result").is_some());
    assert_eq!(told(&stage), 1);
    assert_eq!(other.ask("drowse/status", json!({})).await["result"]["inFlight"], 0);
}

/// Who hears no answer to its hello knows that nothing ran of what it sent along.
async fn what_comes_with_a_hello_is_read_after_its_answer(peer: Peer) {
    let (stage, hub, _caller) = live(peer).await;
    let got = |stage: &Stage, tag: &str| {
        stage.events().iter().any(|(_, event)| match event {
            Event::Got(message) => message["params"]["arguments"]["tag"] == tag,
            _ => false,
        })
    };
    // How much fits of what is answered before somebody reads it.
    for (tag, room) in [("all", 1 << 10), ("some", 8), ("none", 0)] {
        let (mut ours, theirs) = duplex(1 << 10);
        let (mut answers, writer) = duplex(room.max(1));
        if room == 0 {
            drop(std::mem::replace(&mut answers, duplex(1).0));
        }
        let hello = json!({"drowse": {"hello": {"versions": [1], "client": "0"}}});
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "echo", "arguments": {"tag": tag}, "_meta": meta}});
        ours.write_all(format!("{hello}\n{call}\n").as_bytes()).await.unwrap();
        let hub = hub.clone();
        let served = spawn_local(async move { hub.serve_connection(theirs, writer).await });
        sleep(Duration::from_secs(1)).await;
        assert_eq!(got(&stage, tag), tag == "all", "{tag}");
        if tag == "some" {
            let reader =
                spawn_local(async move { tokio::io::copy(&mut answers, &mut tokio::io::sink()).await });
            stage.until(|stage| got(stage, tag)).await;
            reader.abort();
        }
        drop(ours);
        served.await.unwrap();
    }
}

async fn answers_come_in_the_servers_order_with_the_callers_ids(peer: Peer) {
    let (stage, _hub, mut caller) = live(peer).await;
    let ids = [json!(0), json!("0"), json!(-1), json!(9_007_199_254_740_993_u64), json!("\u{2713} \"q\"")];
    for (place, id) in ids.iter().enumerate() {
        let seconds = (ids.len() - place) as f64;
        let params = json!({"name": "slow", "arguments": {"tag": place.to_string(), "seconds": seconds}});
        caller.send_as(id, "tools/call", params).await;
    }
    for (place, id) in ids.iter().enumerate().rev() {
        let answer = caller.receive().await.unwrap();
        assert_eq!(answer["id"], *id);
        assert_eq!(answer["result"]["content"][0]["text"], place.to_string());
    }
    // On the server's side they are all numbers of drowse's, each its own.
    let mut wire: Vec<u64> =
        (0..ids.len()).map(|place| wire_id(&stage, &place.to_string()).as_u64().unwrap()).collect();
    wire.sort_unstable();
    wire.dedup();
    assert_eq!(wire.len(), ids.len());
    // An id keeps its bytes.
    caller
        .line(r#"{"jsonrpc":"2.0","id":"\u0061\/","method":"drowse/status","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#)
        .await;
    assert_eq!(caller.receive().await.unwrap()["id"], "a/");
}

async fn one_callers_ids_are_not_anothers(peer: Peer) {
    let (stage, hub, mut one) = live(peer).await;
    let mut other = Caller::connect(&hub).await;
    let slow = |tag: &str| json!({"name": "slow", "arguments": {"tag": tag, "seconds": 5.0}});
    one.send_as(&json!(7), "tools/call", slow("one")).await;
    other.send_as(&json!(7), "tools/call", slow("other")).await;
    stage.until(|stage| stage.runs("one") + stage.runs("other") == 2).await;
    one.notify("notifications/cancelled", json!({"requestId": 7})).await;
    assert_eq!(failure(&one.answer(&json!(7)).await), ("cancelled", "unknown"));
    assert_eq!(other.answer(&json!(7)).await["result"]["content"][0]["text"], "other");
}

async fn a_full_house_makes_callers_wait(peer: Peer) {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.bridge_with(sleepy(), |config| config.slots = 4);
    let (mut one, mut other) = (Caller::connect(&hub).await, Caller::connect(&hub).await);
    let mut ids = Vec::new();
    for place in 0..12 {
        let tag = place.to_string();
        ids.push(one.start("slow", json!({"tag": tag, "seconds": 1.0})).await);
    }
    let mut most = 0;
    for id in &ids {
        most = most.max(other.ask("drowse/status", json!({})).await["result"]["inFlight"].as_u64().unwrap());
        assert!(one.answer(id).await.get("result").is_some());
    }
    assert_eq!(most, 4, "no more than there are slots");
    assert!((0..12).all(|place| stage.runs(&place.to_string()) == 1));
    // What waits for room when the bridge goes did not run, and the goodbye says so.
    for place in 20..26 {
        one.start("never", json!({"tag": place.to_string()})).await;
    }
    stage.until(|stage| stage.runs("23") == 1).await;
    other.ask("drowse/close", json!({})).await;
    let goaway = loop {
        let message = one.receive().await.unwrap();
        if message["method"] == "notifications/drowse/goaway" {
            break message;
        }
        let (kind, ran) = failure(&message);
        let expected = if message["id"].as_u64() < Some(16) { "unknown" } else { "no" };
        assert_eq!((kind, ran), ("shutting-down", expected), "{message}");
    };
    let last = goaway["params"]["last"].as_u64().unwrap();
    assert!((16..=18).contains(&last), "{goaway}");
    assert_eq!(stage.runs("24") + stage.runs("25"), 0);
}

async fn what_takes_requests_back_does_not_wait_for_their_room(peer: Peer) {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.bridge_with(sleepy(), |config| config.slots = 4);
    stage.ready().await;
    let begun = stage.elapsed();
    let (mut one, mut other) = (Caller::connect(&hub).await, Caller::connect(&hub).await);
    let mut ids = Vec::new();
    for place in 0..7 {
        ids.push(one.start("never", json!({"tag": place.to_string()})).await);
    }
    stage.until(|stage| stage.runs("3") == 1).await;
    other.ask("drowse/status", json!({})).await;
    assert_eq!(stage.runs("4"), 0, "it waits");
    for id in &ids {
        one.notify("notifications/cancelled", json!({"requestId": id})).await;
    }
    // Also one of those that waited.
    for id in &ids {
        assert_eq!(failure(&one.answer(id).await).0, "cancelled");
    }
    one.call("echo", json!({"tag": "next"})).await;
    assert!(stage.elapsed() < begun + Duration::from_secs(1), "{:?}", stage.elapsed() - begun);
    assert!((0..7).all(|place| stage.runs(&place.to_string()) <= 1));
    assert_eq!((stage.runs("next"), stage.starts()), (1, 1));
}

async fn what_needs_no_room_does_not_wait_for_it(peer: Peer) {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.bridge_with(sleepy(), |config| config.slots = 4);
    stage.ready().await;
    let begun = stage.elapsed();
    let (mut old, _) = Caller::legacy(&hub, "2025-11-25", json!({})).await;
    let mut new = Caller::connect(&hub).await;
    for place in 0..7 {
        old.plain(&json!(place), "tools/call", json!({"name": "never", "arguments": {}})).await;
        new.start("never", json!({})).await;
    }
    for n in 0..3 {
        old.plain(&json!(format!("ping{n}")), "ping", json!({})).await;
    }
    for n in 0..3 {
        let pong = old.receive().await.unwrap();
        assert_eq!((&pong["id"], &pong["result"]), (&json!(format!("ping{n}")), &json!({})), "{pong}");
    }
    let status = new.ask("drowse/status", json!({})).await;
    assert!(status.get("result").is_some(), "{status}");
    assert!(stage.elapsed() < begun + Duration::from_secs(1), "{:?}", stage.elapsed() - begun);
    // Who does not read what it is told is not read from: nothing is gathered for it without end.
    let mut writing = old.line_of_many(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#, 200_000);
    let stuck = tokio::time::timeout(Duration::from_secs(5), &mut writing).await;
    assert!(stuck.is_err(), "all was read");
}

async fn requests_wait_for_a_slow_start_outside_of_their_time(peer: Peer) {
    let boot = Duration::from_secs(50);
    let stage = Stage::new(Script { boot, ..Script::of(peer) });
    let hub = stage.bridge(sleepy());
    let mut caller = Caller::connect(&hub).await;
    // Waking is counted on its own: a second would not do for both.
    let params = json!({"name": "slow", "arguments": {"tag": "a", "seconds": 0.5}, "_meta": timeout(1000)});
    let answer = caller.ask("tools/call", params).await;
    assert!(answer.get("result").is_some(), "{answer}");
    assert!(stage.elapsed() > boot);
    assert_eq!(stage.runs("a"), 1);
}

async fn an_answer_over_the_limit_fails_that_request_alone(peer: Peer) {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.bridge_with(sleepy(), |config| config.limit = 100_000);
    let mut caller = Caller::connect(&hub).await;
    let other = caller.start("slow", json!({"tag": "other", "seconds": 3.0})).await;
    for id_first in [true, false] {
        let tag = if id_first { "first" } else { "last" };
        let call = caller.start("never", json!({"tag": tag})).await;
        stage.until(|stage| stage.runs(tag) == 1).await;
        let (id, text) = (wire_id(&stage, tag), "x".repeat(200_000));
        let line = if id_first {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":"{text}"}}}}"#)
        } else {
            format!(r#"{{"jsonrpc":"2.0","result":{{"text":"{text}"}},"id":{id}}}"#)
        };
        stage.server_writes(line);
        let answer = caller.answer(&call).await;
        assert_eq!(failure(&answer), ("too-large", "unknown"), "{tag}");
        assert_eq!(answer["error"]["data"]["drowse"]["limit"], 100_000);
    }
    // The same in the other direction: nothing of it is sent.
    let call = caller.start("echo", json!({"tag": "y".repeat(200_000)})).await;
    let answer = caller.answer(&call).await;
    assert_eq!(failure(&answer), ("too-large", "no"));
    assert!(caller.answer(&other).await.get("result").is_some());
    assert_eq!((stage.starts(), stage.runs("first"), stage.runs("last")), (1, 1, 1));
}

async fn lines_that_are_no_answer_disturb_nobody(peer: Peer) {
    let (stage, _hub, mut caller) = live(peer).await;
    let call = caller.start("slow", json!({"tag": "a", "seconds": 2.0})).await;
    stage.until(|stage| stage.runs("a") == 1).await;
    for line in [
        "starting up…",
        "",
        "{",
        "[]",
        "null",
        "42",
        "{}",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","id":"nobody","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":4503599627370496,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":-1,"error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
        r#"[{"jsonrpc":"2.0","method":"notifications/message"},[],1]"#,
    ] {
        stage.server_writes(line.to_owned());
    }
    let answer = caller.answer(&call).await;
    assert_eq!(answer["result"]["content"][0]["text"], "a");
    assert_eq!(
        (caller.ask("drowse/status", json!({})).await["result"]["state"].clone(), stage.starts()),
        (json!("live"), 1)
    );
    // An answer that is one and makes no sense fails the request that it is for.
    let call = caller.start("never", json!({"tag": "b"})).await;
    stage.until(|stage| stage.runs("b") == 1).await;
    let id = wire_id(&stage, "b");
    stage.server_writes(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}},"error":{{}}}}"#));
    assert_eq!(failure(&caller.answer(&call).await), ("invalid-answer", "unknown"));
    // Half of a pair, as JavaScript writes a text that it cut: said is what and where.
    let call = caller.start("never", json!({"tag": "d"})).await;
    stage.until(|stage| stage.runs("d") == 1).await;
    let id = wire_id(&stage, "d");
    let before = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"x":""#);
    stage.server_writes(format!(r#"{before}\ud83d"}}}}"#));
    let answer = caller.answer(&call).await;
    assert_eq!(failure(&answer), ("invalid-answer", "unknown"));
    let said = answer["error"]["message"].as_str().unwrap();
    let place = format!("at byte {}", before.len());
    assert!(said.contains("a lone surrogate in a \\u escape") && said.contains("cut inside"), "{said}");
    assert!(said.ends_with(&place), "{said} {place}");
    // In a batch, as revisions up to 2025-03-26 may send them.
    let call = caller.start("never", json!({"tag": "c"})).await;
    stage.until(|stage| stage.runs("c") == 1).await;
    let id = wire_id(&stage, "c");
    stage.server_writes(format!(
        r#"[{{"jsonrpc":"2.0","method":"notifications/message"}},{{"jsonrpc":"2.0","id":{id},"result":{{"x":1}}}}]"#
    ));
    assert_eq!(caller.answer(&call).await["result"]["x"], 1);
}

async fn requests_of_the_server_are_declined(peer: Peer) {
    let (stage, _hub, mut caller) = live(peer).await;
    let call = caller.start("slow", json!({"tag": "a", "seconds": 1.0})).await;
    stage.until(|stage| stage.runs("a") == 1).await;
    let ask = |id: Value, method: &str| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}});
    stage.server_says(&ask(json!("r"), "roots/list"));
    stage.server_says(&ask(json!(0), "sampling/createMessage"));
    stage.server_says(&ask(json!(1), "ping"));
    assert!(caller.answer(&call).await.get("result").is_some());
    let events = stage.events().into_iter();
    let answers: Vec<Value> = events
        .filter_map(|(_, event)| match event {
            Event::Got(message) if message.get("method").is_none() => Some(message),
            _ => None,
        })
        .collect();
    if peer.era() == Era::Modern {
        assert_eq!(answers, [] as [Value; 0], "a modern server sends none, so none is answered");
        return;
    }
    assert_eq!(answers.len(), 3);
    for (answer, id) in answers.iter().zip([json!("r"), json!(0)]) {
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(-32601)), "{answer}");
    }
    assert_eq!(answers[2], json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
}
