//! Servers behind a URL that are away, refuse, stall, or send what is no answer.

use std::time::Duration;

use drowse_core::lifecycle::PublicState;
use drowse_runtime::bridge::Hub;
use drowse_runtime::wire::Kind;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::{Caller, IDLE, Peer, Script, Stage, assert_at, failure, sleepy};

over_both_transports! {
    session: Peer::Session;
    stateless: Peer::Stateless;
    modern: Peer::Modern;
    = {
        later_is_waited_for_by_what_only_reads
        statuses_fail_one_request
        a_body_that_is_no_answer_fails_one_request
        a_body_over_the_limit_fails_one_request
        a_connection_that_breaks_leaves_a_call_unknown
        without_a_connection_nothing_ran
        refused_credentials_end_it
        an_error_is_the_answer_whatever_the_status
        a_body_may_be_laid_out_on_several_lines
        a_body_after_the_answer_is_not_waited_for
        a_caller_that_does_not_read_costs_only_itself
    }
}

over_both_transports! {
    asking: Peer::Session;
    = {
        a_server_that_asks_and_takes_no_answer_is_not_answered_for_ever
    }
}

over_both_transports! {
    start_session: Peer::Session;
    start_modern: Peer::Modern;
    = {
        starts_that_fail_say_why
    }
}

async fn live(peer: Peer) -> (Stage, Hub, Caller) {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.bridge_with(sleepy(), |config| config.limit = 100_000);
    stage.ready().await;
    let caller = Caller::connect(&hub).await;
    (stage, hub, caller)
}

const JSON: (&str, &str) = ("content-type", "application/json");
const EVENTS: (&str, &str) = ("content-type", "text/event-stream");

/// Calls, and gives how that failed.
async fn fails(caller: &mut Caller) -> (String, String, Value) {
    let call = caller.start("echo", json!({"tag": "failed"})).await;
    let answer = caller.answer(&call).await;
    let (kind, ran) = failure(&answer);
    (kind.to_owned(), ran.to_owned(), answer["error"]["message"].clone())
}

async fn later_is_waited_for_by_what_only_reads(peer: Peer) {
    let (stage, _hub, mut caller) = live(peer).await;
    let saved = stage.saved().await;
    sleep(Duration::from_millis(1)).await;
    for (status, pause) in [(429, "7"), (503, "2")] {
        stage.site().take_next("tools/list", move |_, respond| {
            respond.whole(status, &[("retry-after", pause)], "busy");
        });
    }
    let begun = stage.elapsed();
    let answer = caller.ask("tools/list", json!({})).await;
    assert_eq!(answer["result"]["tools"], json!([]), "{answer}");
    let at: Vec<Duration> =
        stage.site().requests("tools/list").iter().map(|seen| seen.at).filter(|at| *at > saved).collect();
    for (at, expected) in at.iter().zip([0, 7, 9]) {
        assert_at(*at, begun + Duration::from_secs(expected));
    }
    assert_eq!(at.len(), 3);
    // What may run something is told of it.
    stage.site().take_next("tools/call", |_, respond| respond.whole(429, &[("retry-after", "7")], "busy"));
    let (kind, ran, message) = fails(&mut caller).await;
    assert_eq!((kind.as_str(), ran.as_str()), ("http", "unknown"));
    assert!(message.as_str().unwrap().contains("429"), "{message}");
    assert_at(stage.elapsed(), begun + Duration::from_secs(9));
}

async fn statuses_fail_one_request(peer: Peer) {
    let (stage, hub, mut caller) = live(peer).await;
    for (status, ran) in [(500, "unknown"), (502, "unknown"), (302, "no"), (405, "no"), (418, "unknown")] {
        let other = caller.start("slow", json!({"tag": "other", "seconds": 2.0})).await;
        stage.until(|stage| stage.site().requests("tools/call").len() % 2 == 1).await;
        stage.site().take_next("tools/call", move |_, respond| {
            let headers = [("location", "https://else.where/mcp?key=secret"), ("content-type", "text/html")];
            respond.whole(status, &headers, "<html>\u{1b}[31mno\r\n such thing</html>");
        });
        let (kind, said, message) = fails(&mut caller).await;
        assert_eq!((kind.as_str(), said.as_str()), ("http", ran), "{status}");
        let message = message.as_str().unwrap();
        assert!(message.contains(&status.to_string()), "{message}");
        assert!(!message.contains("secret") && !message.contains('\u{1b}'), "{message}");
        assert_eq!(message.contains("https://else.where/mcp"), status == 302, "{message}");
        assert!(caller.answer(&other).await.get("result").is_some());
    }
    assert_eq!((hub.state(), stage.starts(), stage.runs("failed")), (PublicState::Live, 1, 0));
}

async fn a_body_that_is_no_answer_fails_one_request(peer: Peer) {
    let (stage, hub, mut caller) = live(peer).await;
    let bodies: Vec<(&[(&str, &str)], &str)> = vec![
        (&[("content-type", "text/html")], "<html>"),
        (&[JSON], "<html>"),
        (&[JSON], ""),
        (&[JSON], r#"{"jsonrpc":"2.0","id":"another","result":{}}"#),
        (&[JSON], r#"{"jsonrpc":"2.0","id":null,"result":{}}"#),
        (&[JSON, ("content-encoding", "gzip")], "\u{1f}"),
        (&[], ""),
    ];
    for (headers, body) in bodies {
        let (headers, body) = (headers.to_vec(), body.to_owned());
        let shown = format!("{headers:?} {body}");
        stage.site().take_next("tools/call", move |_, respond| {
            let headers: Vec<(&'static str, &str)> = headers;
            respond.whole(200, &headers, body);
        });
        let (kind, ran, _) = fails(&mut caller).await;
        assert_eq!((kind.as_str(), ran.as_str()), ("invalid-answer", "unknown"), "{shown}");
    }
    // A stream that ends without the answer.
    for body in
        ["", ": nothing\n\n", "data: {}\n\n", "data: {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{}}\n\n"]
    {
        stage.site().take_next("tools/call", move |_, respond| respond.whole(200, &[EVENTS], body));
        let (kind, ran, _) = fails(&mut caller).await;
        assert_eq!((kind.as_str(), ran.as_str()), ("network", "unknown"), "{body}");
    }
    caller.call("echo", json!({"tag": "next"})).await;
    assert_eq!((hub.state(), stage.starts()), (PublicState::Live, 1));
}

async fn a_body_over_the_limit_fails_one_request(peer: Peer) {
    let (stage, hub, mut caller) = live(peer).await;
    for streamed in [false, true] {
        for id_first in [false, true] {
            stage.site().take_next("tools/call", move |seen, mut respond| {
                let (id, text) = (&seen.message["id"], "x".repeat(30_000));
                respond.head(200, &[if streamed { EVENTS } else { JSON }]);
                if streamed {
                    respond.chunk("data: ");
                }
                respond.chunk(if id_first { format!(r#"{{"id":{id},"#) } else { "{".into() });
                respond.chunk(r#""jsonrpc":"2.0","result":{"text":""#);
                for _ in 0..10 {
                    respond.chunk(text.clone());
                }
                respond.chunk(if id_first { r#""}}"#.into() } else { format!(r#""}},"id":{id}}}"#) });
                respond.chunk("\n\n");
            });
            let call = caller.start("echo", json!({})).await;
            let answer = caller.answer(&call).await;
            assert_eq!(failure(&answer), ("too-large", "unknown"), "{streamed} {id_first}");
            assert_eq!(answer["error"]["data"]["drowse"]["limit"], 100_000);
        }
    }
    caller.call("echo", json!({"tag": "next"})).await;
    assert_eq!((hub.state(), stage.starts()), (PublicState::Live, 1));
}

async fn a_connection_that_breaks_leaves_a_call_unknown(peer: Peer) {
    let (stage, hub, mut caller) = live(peer).await;
    stage.site().take_next("tools/call", |_, respond| respond.breaks());
    let (kind, ran, message) = fails(&mut caller).await;
    assert_eq!((kind.as_str(), ran.as_str()), ("network", "unknown"));
    assert!(message.as_str().unwrap().contains("the connection broke"), "{message}");
    stage.site().take_next("tools/call", |_, mut respond| {
        respond.head(200, &[JSON]);
        respond.chunk(r#"{"jsonrpc":"2.0","id":"#);
        respond.breaks();
    });
    let (kind, ran, _) = fails(&mut caller).await;
    assert_eq!((kind.as_str(), ran.as_str()), ("network", "unknown"));
    // What only reads is put once more.
    stage.site().take_next("tools/list", |_, respond| respond.breaks());
    assert!(caller.ask("tools/list", json!({})).await.get("result").is_some());
    stage.site().take_next("tools/list", |_, respond| respond.breaks());
    stage.site().take_next("tools/list", |_, respond| respond.breaks());
    assert_eq!(failure(&caller.ask("tools/list", json!({})).await), ("network", "unknown"));
    assert_eq!((hub.state(), stage.starts()), (PublicState::Live, 1));
}

async fn without_a_connection_nothing_ran(peer: Peer) {
    let (stage, hub, mut caller) = live(peer).await;
    stage.site().take_next("tools/call", |_, respond| respond.refuses());
    let (kind, ran, message) = fails(&mut caller).await;
    assert_eq!((kind.as_str(), ran.as_str()), ("network", "no"));
    assert!(message.as_str().unwrap().contains("connection refused"), "{message}");
    let failed = stage.elapsed();
    assert_eq!(hub.state(), PublicState::Disconnected);
    assert_at(stage.state(PublicState::Idle).await, failed + IDLE);
}

async fn refused_credentials_end_it(peer: Peer) {
    for status in [401, 403] {
        let (stage, hub, mut caller) = live(peer).await;
        stage.site().take_next("tools/call", move |_, respond| {
            respond.whole(status, &[("www-authenticate", "Bearer")], "");
        });
        let (kind, ran, _) = fails(&mut caller).await;
        assert_eq!((kind.as_str(), ran.as_str()), ("unauthorized", "no"));
        hub.retired().await;
        let (_, facts) = stage.records().last().cloned().unwrap();
        assert_eq!(facts.record.state, PublicState::Unauthorized);
        assert!(facts.message.is_some_and(|message| message.contains(&status.to_string())));
    }
}

async fn an_error_is_the_answer_whatever_the_status(peer: Peer) {
    let (stage, hub, mut caller) = live(peer).await;
    for status in [200, 400, 404, 500] {
        for id in [json!(null), json!("wrong")] {
            if status == 200 && id != json!(null) || status == 404 && peer == Peer::Session {
                continue;
            }
            stage.site().take_next("tools/call", move |seen, respond| {
                let id = if status == 200 { seen.message["id"].clone() } else { id };
                let error = json!({"code": -32602, "message": "no \u{e4}", "data": {"a": [1, {}]}});
                respond.json(status, &json!({"jsonrpc": "2.0", "id": id, "error": error}));
            });
            let call = caller.start("echo", json!({})).await;
            let answer = caller.answer(&call).await;
            assert_eq!(answer["error"]["code"], -32602, "{status}: {answer}");
            assert_eq!(answer["error"]["data"], json!({"a": [1, {}]}));
        }
    }
    assert_eq!((hub.state(), stage.starts()), (PublicState::Live, 1));
}

async fn a_body_may_be_laid_out_on_several_lines(peer: Peer) {
    let (stage, hub, mut caller) = live(peer).await;
    let text = "two\nlines";
    for (status, member) in [(200, "result"), (400, "error")] {
        for streamed in [false, true] {
            if streamed && status != 200 {
                continue;
            }
            stage.site().take_next("tools/call", move |seen, respond| {
                let value =
                    json!({"code": -32602, "message": text, "content": [{"type": "text", "text": text}]});
                let message = json!({"jsonrpc": "2.0", "id": seen.message["id"], member: value});
                let body = serde_json::to_string_pretty(&message).unwrap().replace('\n', "\r\n");
                if streamed {
                    let data: Vec<String> = body.lines().map(|line| format!("data: {line}\n")).collect();
                    respond.whole(200, &[EVENTS], format!("{}\n", data.concat()));
                } else {
                    respond.whole(status, &[JSON], body);
                }
            });
            let call = caller.start("echo", json!({})).await;
            let answer = caller.answer(&call).await;
            assert_eq!(answer[member]["message"], text, "{answer}");
        }
    }
    assert_eq!((hub.state(), stage.starts()), (PublicState::Live, 1));
}

async fn a_body_after_the_answer_is_not_waited_for(peer: Peer) {
    let (stage, hub, mut caller) = live(peer).await;
    let begun = stage.elapsed();
    stage.site().take_next("tools/call", |seen, mut respond| {
        respond.streams();
        respond.event(None, &json!({"jsonrpc": "2.0", "id": seen.message["id"], "result": {}}));
        respond.event(None, &json!({"jsonrpc": "2.0", "id": seen.message["id"], "result": {"second": 1}}));
        tokio::task::spawn_local(async move {
            respond.abandoned().await;
        });
    });
    let call = caller.start("echo", json!({})).await;
    let answer = caller.answer(&call).await;
    assert_eq!(answer["result"].get("second"), None);
    assert_at(stage.elapsed(), begun);
    // Nor does the stream that stays open keep anything awake.
    assert_at(stage.state(PublicState::Idle).await, begun + IDLE);
    hub.retired().await;
}

/// One that asks and does not read is closed once more waits for it than may; others notice nothing.
async fn a_caller_that_does_not_read_costs_only_itself(peer: Peer) {
    let (stage, hub, mut other) = live(peer).await;
    let mut deaf = Caller::connect(&hub).await;
    let text = "y".repeat(40_000);
    for place in 0..16 {
        deaf.start("echo", json!({"tag": format!("{place}{text}")})).await;
    }
    stage.until(|stage| stage.notes().iter().any(|note| note.contains("does not read"))).await;
    other.call("echo", json!({"tag": "other"})).await;
    assert_eq!(stage.runs("other"), 1);
    drop(deaf);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(other.ask("drowse/status", json!({})).await["result"]["inFlight"], 0);
}

async fn starts_that_fail_say_why(peer: Peer) {
    type Fault = fn(crate::bridge::Respond);
    let faults: [(&str, Kind, &str, Fault); 4] = [
        ("away", Kind::Network, "connection refused", |respond| respond.refuses()),
        ("trouble", Kind::Http, "503", |respond| respond.whole(503, &[], "down for maintenance")),
        ("credentials", Kind::Unauthorized, "401", |respond| respond.whole(401, &[], "")),
        ("silence", Kind::Timeout, "60", |mut respond| {
            tokio::task::spawn_local(async move { respond.abandoned().await });
        }),
    ];
    for (name, kind, text, fault) in faults {
        let stage = Stage::new(Script { boot: Duration::from_secs(1), ..Script::of(peer) });
        for _ in 0..2 {
            stage.site().take_next("server/discover", move |_, respond| fault(respond));
        }
        let hub = stage.bridge(sleepy());
        let mut caller = Caller::connect(&hub).await;
        let call = caller.start("echo", json!({"tag": "a"})).await;
        let answer = caller.answer(&call).await;
        assert_eq!(failure(&answer).1, "no", "{name}: {answer}");
        hub.retired().await;
        let failed = stage.outcomes()[0].clone().unwrap_err();
        assert_eq!(failed.kind, kind, "{name}: {failed:?}");
        assert!(failed.message.contains(text), "{name}: {failed:?}");
        assert_eq!(stage.runs("a"), 0);
        assert!(stage.site().requests("initialize").is_empty(), "{name} says nothing of an era");
    }
}

async fn a_server_that_asks_and_takes_no_answer_is_not_answered_for_ever(peer: Peer) {
    let (stage, hub, mut caller) = live(peer).await;
    for _ in 0..1000 {
        stage.site().take_next("POST", |_, mut respond| {
            tokio::task::spawn_local(async move { respond.abandoned().await });
        });
    }
    for id in 0..1000 {
        stage.server_says(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    }
    sleep(Duration::from_secs(1)).await;
    let answers = stage.site().requests("POST").len();
    assert_eq!(answers, 256);
    // Callers are served all the same.
    caller.call("echo", json!({"tag": "a"})).await;
    assert_at(stage.state(PublicState::Idle).await, Duration::from_secs(1) + IDLE);
    hub.retired().await;
}
