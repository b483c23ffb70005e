//! What only servers behind a URL have: sessions and their ends, streams that are taken up, what goes into headers.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use drowse_core::lifecycle::PublicState;
use drowse_core::server::Config;
use drowse_runtime::bridge::Hub;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::{
    Caller, Event, IDLE, Peer, Respond, Script, Seen, Stage, assert_at, failure, sleepy, with_idle,
};

over_both_transports! {
    session: Peer::Session;
    stateless: Peer::Stateless;
    old: Peer::Old;
    modern: Peer::Modern;
    = {
        idle_ends_the_session_and_waking_begins_another
        without_a_session_there_is_no_traffic
        the_announcement_is_taken_before_anything_else_is_sent
        a_cancelled_call_is_known_to_the_server
        what_is_asked_for_in_parallel_runs_in_parallel
    }
}

over_both_transports! {
    taken_up_session: Peer::Session;
    taken_up_stateless: Peer::Stateless;
    = {
        a_stream_that_ends_early_is_taken_up_where_it_was
    }
}

over_both_transports! {
    lost: Peer::Session;
    = {
        calls_of_a_session_that_is_gone_go_to_a_fresh_one
        a_session_that_ends_while_nothing_is_in_flight_is_asleep
        a_session_that_forgets_everything_is_not_asked_for_ever
        the_stream_of_a_session_is_taken_up
        a_server_that_does_not_answer_the_end_is_not_waited_for
        a_session_that_is_gone_ends_with_the_last_of_its_requests
    }
}

over_both_transports! {
    marked: Peer::Modern;
    = {
        a_call_that_is_refused_for_its_headers_is_sent_once_more_after_the_list_was_read
        what_is_listed_is_repeated_in_headers
        tools_that_are_marked_wrongly_are_left_out
        a_call_that_waits_for_the_list_can_be_cancelled
    }
}

async fn live(peer: Peer, config: Config) -> (Stage, Hub, Caller) {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.bridge(config);
    stage.ready().await;
    let caller = Caller::connect(&hub).await;
    (stage, hub, caller)
}

fn whats(stage: &Stage) -> Vec<String> {
    stage.site().seen().iter().map(|seen| seen.what().to_owned()).collect()
}

/// The answer of a tool to the request that was seen.
fn answer(seen: &Seen, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": seen.message["id"], "result": {"content": [{"type": "text", "text": text}]}})
}

async fn idle_ends_the_session_and_waking_begins_another(peer: Peer) {
    let (stage, hub, _caller) = live(peer, sleepy()).await;
    let ready = stage.elapsed();
    let sessions = stage.site().sessions();
    assert_eq!(sessions.len(), usize::from(peer == Peer::Session));
    assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
    hub.retired().await;
    assert_at(stage.elapsed(), ready + IDLE);
    let ends = stage.site().requests("DELETE");
    assert_eq!(ends.len(), sessions.len(), "a session, and only that, is ended by a request");
    if let [end] = &ends[..] {
        assert_at(end.at, ready + IDLE);
        assert_eq!(end.header("mcp-session-id"), Some(sessions[0].as_str()));
    }
    assert_eq!(stage.states(), [PublicState::Connecting, PublicState::Live, PublicState::Idle]);
    // The next bridge begins afresh, with what was learned of the era.
    let before = stage.site().seen().len();
    let hub = stage.bridge(sleepy());
    let mut caller = Caller::connect(&hub).await;
    caller.call("echo", json!({"tag": "again"})).await;
    let seen = stage.site().seen().split_off(before);
    let probed = seen.iter().any(|seen| seen.what() == "server/discover");
    assert_eq!(probed, peer == Peer::Modern);
    if peer == Peer::Session {
        assert_ne!(stage.site().sessions(), sessions, "waking gets a different session");
    }
}

async fn without_a_session_there_is_no_traffic(peer: Peer) {
    // As the bridge sets it.
    let config = Config { session_keepalive: Some(Duration::from_secs(30)), ..with_idle(None) };
    let (stage, hub, mut caller) = live(peer, config).await;
    stage.saved().await;
    caller.call("echo", json!({"tag": "a"})).await;
    let before = stage.site().seen().len();
    let used = stage.elapsed();
    sleep(Duration::from_secs(3600)).await;
    let after = stage.site().seen().split_off(before);
    if peer == Peer::Session {
        // Each is late by the clock's granularity, and so is what follows.
        assert!((119..=120).contains(&after.len()), "{}", after.len());
        for (place, seen) in (1..).zip(&after) {
            assert_eq!(seen.what(), "ping");
            assert!(seen.at >= used + Duration::from_secs(30) * place, "{:?}", seen.at);
        }
    } else {
        assert!(after.is_empty(), "{after:?}");
    }
    assert_eq!((hub.state(), stage.starts()), (PublicState::Live, 1));
}

async fn the_announcement_is_taken_before_anything_else_is_sent(peer: Peer) {
    let stage = Stage::new(Script::of(peer));
    let taken = Rc::new(RefCell::new(None));
    let until = Rc::clone(&taken);
    stage.site().take_next("notifications/initialized", move |_, respond| {
        *until.borrow_mut() = Some(respond);
    });
    let hub = stage.bridge(sleepy());
    let mut caller = Caller::connect(&hub).await;
    let call = caller.start("echo", json!({"tag": "a"})).await;
    sleep(Duration::from_secs(30)).await;
    let waits = peer != Peer::Modern;
    assert_eq!(stage.runs("a"), usize::from(!waits), "{:?}", whats(&stage));
    let respond: Option<Respond> = taken.borrow_mut().take();
    if let Some(respond) = respond {
        assert_eq!(hub.state(), PublicState::Connecting);
        respond.whole(202, &[], "");
    }
    assert!(caller.answer(&call).await.get("result").is_some());
    assert_eq!(stage.runs("a"), 1);
    let seen = whats(&stage);
    let place = |what: &str| seen.iter().position(|seen| seen == what);
    if waits {
        assert!(place("initialize") < place("notifications/initialized"), "{seen:?}");
        assert!(place("notifications/initialized") < place("tools/call"), "{seen:?}");
    }
}

async fn a_cancelled_call_is_known_to_the_server(peer: Peer) {
    let (stage, hub, mut caller) = live(peer, sleepy()).await;
    // Before the head of a response, and while its stream runs.
    for tag in ["stream", "silence"] {
        let gone = Rc::new(RefCell::new(false));
        if tag == "silence" && peer != Peer::Old {
            let gone = Rc::clone(&gone);
            let stage = stage.clone();
            stage.clone().site().take_next("tools/call", move |_, mut respond| {
                stage.note_event(Event::Ran("silence".into()));
                tokio::task::spawn_local(async move {
                    respond.abandoned().await;
                    *gone.borrow_mut() = true;
                    stage.note_event(Event::Cancelled("silence".into()));
                });
            });
        }
        let call = caller.start("never", json!({"tag": tag})).await;
        stage.until(|stage| stage.runs(tag) == 1).await;
        caller.notify("notifications/cancelled", json!({"requestId": call})).await;
        assert_eq!(failure(&caller.answer(&call).await), ("cancelled", "unknown"));
        stage.until(|stage| stage.events().iter().any(|(_, e)| *e == Event::Cancelled(tag.into()))).await;
    }
    let told = stage.site().requests("notifications/cancelled");
    assert_eq!(told.len(), if peer == Peer::Modern { 0 } else { 2 });
    caller.call("echo", json!({"tag": "next"})).await;
    assert_eq!((hub.state(), stage.starts()), (PublicState::Live, 1));
}

/// As many as one client may have, with answers in the opposite order.
async fn what_is_asked_for_in_parallel_runs_in_parallel(peer: Peer) {
    const MANY: usize = 256;
    let stage = Stage::new(Script::of(peer));
    // A fifth of the room is for others.
    let hub = stage.bridge_with(sleepy(), |config| config.slots = MANY / 4 * 5);
    stage.ready().await;
    let mut callers = [Caller::connect(&hub).await, Caller::connect(&hub).await];
    let begun = stage.elapsed();
    let mut calls = Vec::new();
    for place in 0..MANY {
        let seconds = 10.0 + (MANY - place) as f64 / 100.0;
        let arguments = json!({"tag": place.to_string(), "seconds": seconds});
        calls.push(callers[place % 2].start("slow", arguments).await);
    }
    for (place, call) in calls.iter().enumerate() {
        let answer = callers[place % 2].answer(call).await;
        assert_eq!(answer["result"]["content"][0]["text"], place.to_string());
    }
    assert!(stage.elapsed() < begun + Duration::from_secs(13), "{:?}", stage.elapsed() - begun);
    assert!((0..MANY).all(|place| stage.runs(&place.to_string()) == 1));
    assert_eq!((hub.state(), stage.starts()), (PublicState::Live, 1));
}

async fn a_stream_that_ends_early_is_taken_up_where_it_was(peer: Peer) {
    let (stage, _hub, mut caller) = live(peer, sleepy()).await;
    for breaks in [false, true] {
        let begun = stage.elapsed();
        let asked = Rc::new(RefCell::new(None));
        let kept = Rc::clone(&asked);
        stage.site().take_next("tools/call", move |seen, mut respond| {
            *kept.borrow_mut() = Some(seen);
            respond.streams();
            respond.chunk("id: a/1\nretry: 750\ndata:\n\n");
            if breaks {
                respond.breaks();
            }
        });
        // Once it ends again without the answer, then it brings it.
        stage.site().take_next("GET", |_, mut respond| {
            respond.streams();
            respond.chunk(
                "retry: 250\nid: a/2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n",
            );
        });
        stage.site().take_next("GET", move |_, mut respond| {
            let seen = asked.borrow_mut().take().unwrap();
            respond.streams();
            respond.event(Some("a/3"), &answer(&seen, "late"));
        });
        let call = caller.start("echo", json!({})).await;
        assert_eq!(caller.answer(&call).await["result"]["content"][0]["text"], "late");
        let taken_up = stage.site().requests("GET");
        let [.., first, second] = &taken_up[..] else { panic!("{taken_up:?}") };
        assert_at(first.at, begun + Duration::from_millis(750));
        assert_at(second.at, begun + Duration::from_millis(1000));
        assert_eq!(
            [first.header("last-event-id"), second.header("last-event-id")],
            [Some("a/1"), Some("a/2")]
        );
        for seen in [first, second] {
            assert_eq!(seen.header("accept"), Some("text/event-stream"));
        }
    }
    assert_eq!(stage.site().requests("tools/call").len(), 2, "no call was sent twice");
}

async fn calls_of_a_session_that_is_gone_go_to_a_fresh_one(peer: Peer) {
    let (stage, hub, mut caller) = live(peer, sleepy()).await;
    let first = stage.site().sessions();
    stage.site().forget();
    let mut calls = Vec::new();
    for tag in ["a", "b", "c"] {
        calls.push(caller.start("echo", json!({"tag": tag})).await);
    }
    for call in &calls {
        assert!(caller.answer(call).await.get("result").is_some());
    }
    assert_eq!(["a", "b", "c"].map(|tag| stage.runs(tag)), [1; 3]);
    assert_ne!(stage.site().sessions(), first);
    assert_eq!((hub.state(), stage.starts()), (PublicState::Live, 2));
    assert!(stage.site().requests("DELETE").is_empty(), "what is gone needs no end");
    let probes = stage.site().requests("server/discover").len();
    assert_eq!(probes, 1, "the era is remembered");
}

/// Whatever of it is still under way may have an answer, but not longer than anybody waits for that.
async fn a_session_that_is_gone_ends_with_the_last_of_its_requests(peer: Peer) {
    let (stage, hub, mut caller) = live(peer, sleepy()).await;
    let slow = caller.start("slow", json!({"tag": "slow", "seconds": 1.0})).await;
    let hangs = caller.start("never", json!({"tag": "hangs"})).await;
    stage.until(|stage| stage.runs("hangs") == 1).await;
    stage.site().forget();
    let fresh = caller.start("echo", json!({"tag": "fresh"})).await;
    assert!(caller.answer(&slow).await.get("result").is_some());
    assert_eq!(stage.runs("fresh"), 0);
    let begun = stage.elapsed();
    caller.notify("notifications/cancelled", json!({"requestId": hangs})).await;
    assert_eq!(failure(&caller.answer(&hangs).await), ("cancelled", "unknown"));
    assert!(caller.answer(&fresh).await.get("result").is_some());
    assert_at(stage.elapsed(), begun);
    assert_eq!((hub.state(), stage.starts()), (PublicState::Live, 2));
}

async fn a_session_that_ends_while_nothing_is_in_flight_is_asleep(peer: Peer) {
    for (idle, state) in [(Some(IDLE), PublicState::Idle), (None, PublicState::Expired)] {
        let (stage, hub, _caller) = live(peer, with_idle(idle)).await;
        sleep(Duration::from_secs(60)).await;
        stage.site().forget();
        stage.site().end_stream();
        hub.retired().await;
        assert_eq!(stage.states().last(), Some(&state));
        assert_at(stage.elapsed(), Duration::from_secs(61));
        let hub = stage.bridge(with_idle(idle));
        let mut caller = Caller::connect(&hub).await;
        caller.call("echo", json!({"tag": "next"})).await;
        assert_eq!(stage.starts(), 2);
    }
}

async fn a_session_that_forgets_everything_is_not_asked_for_ever(peer: Peer) {
    let (stage, _hub, mut caller) = live(peer, sleepy()).await;
    for _ in 0..2 {
        stage.site().take_next("tools/call", |_, respond| respond.whole(404, &[], ""));
    }
    let call = caller.start("echo", json!({"tag": "a"})).await;
    assert_eq!(failure(&caller.answer(&call).await), ("expired", "no"));
    assert_eq!((stage.runs("a"), stage.site().requests("tools/call").len()), (0, 2));
}

async fn the_stream_of_a_session_is_taken_up(peer: Peer) {
    let (stage, hub, _caller) = live(peer, with_idle(None)).await;
    stage.until(|stage| stage.site().requests("GET").len() == 1).await;
    let ended = stage.elapsed();
    stage.site().end_stream();
    sleep(Duration::from_secs(5)).await;
    let seen = stage.site().requests("GET");
    assert_eq!(seen.len(), 2);
    assert_at(seen[1].at, ended + Duration::from_secs(1));
    // A server that is away for long is asked ever more rarely, and not given up.
    for _ in 0..50 {
        stage.site().take_next("GET", |_, respond| respond.refuses());
    }
    let ended = stage.elapsed();
    stage.site().end_stream();
    sleep(Duration::from_secs(1800)).await;
    let tries = stage.site().requests("GET").len() - 2;
    assert!((20..45).contains(&tries), "{tries} tries in {:?}", stage.elapsed() - ended);
    assert_eq!(hub.state(), PublicState::Live);
}

async fn a_server_that_does_not_answer_the_end_is_not_waited_for(peer: Peer) {
    let stage = Stage::new(Script { ignores_input_end: true, ..Script::of(peer) });
    let hub = stage.bridge(sleepy());
    let ready = stage.ready().await;
    hub.retired().await;
    // The grace of a stop.
    assert_at(stage.elapsed(), ready + IDLE + Duration::from_secs(2));
    assert_eq!(stage.states().last(), Some(&PublicState::Idle));
}

/// A tool whose argument `region` is to be repeated.
fn marked(name: &str, header: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": header}}}})
}

fn list(seen: &Seen, tools: &Value, more: &Value) -> Value {
    let mut result = json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"});
    if more.is_string() {
        result["nextCursor"] = more.clone();
    }
    json!({"jsonrpc": "2.0", "id": seen.message["id"], "result": result})
}

async fn a_call_that_is_refused_for_its_headers_is_sent_once_more_after_the_list_was_read(peer: Peer) {
    let (stage, _hub, mut caller) = live(peer, sleepy()).await;
    let refuse = |seen: Seen, respond: Respond| {
        respond.json(
            400,
            &json!({"jsonrpc": "2.0", "id": seen.message["id"],
            "error": {"code": -32020, "message": "Header mismatch"}}),
        );
    };
    // Two calls at once: the list is read once, to its end.
    stage.site().take_next("tools/call", refuse);
    stage.site().take_next("tools/call", refuse);
    stage.site().take_next("tools/list", |seen, respond| {
        assert_eq!(seen.message["params"].get("cursor"), None);
        respond.json(200, &list(&seen, &json!([marked("other", "X")]), &json!("p2")));
    });
    stage.site().take_next("tools/list", |seen, respond| {
        assert_eq!(seen.message["params"]["cursor"], "p2");
        respond.json(200, &list(&seen, &json!([marked("echo", "Region")]), &Value::Null));
    });
    let one = caller.start("echo", json!({"tag": "one", "region": "eu"})).await;
    let two = caller.start("echo", json!({"tag": "two", "region": "us \u{e4}"})).await;
    for call in [&one, &two] {
        let answer = caller.answer(call).await;
        assert!(answer.get("result").is_some(), "{answer}");
    }
    assert_eq!([stage.runs("one"), stage.runs("two")], [1, 1]);
    let calls = stage.site().requests("tools/call");
    let headers: Vec<Option<&str>> = calls.iter().map(|seen| seen.header("mcp-param-region")).collect();
    assert_eq!(headers, [None, None, Some("eu"), Some("=?base64?dXMgw6Q=?=")]);
    assert!(calls.iter().all(|seen| seen.header("mcp-name") == Some("echo")));
    assert_eq!(stage.site().requests("tools/list").len(), 2);
    // Once: what is refused again is told.
    stage.site().take_next("tools/call", refuse);
    stage.site().take_next("tools/call", refuse);
    let call = caller.start("echo", json!({"tag": "three", "region": "eu"})).await;
    assert_eq!(caller.answer(&call).await["error"]["code"], -32020);
    assert_eq!(stage.runs("three"), 0);
    // And one whose list cannot be read gets what the server said of it, too.
    stage.site().take_next("tools/call", refuse);
    stage.site().take_next("tools/call", refuse);
    stage.site().take_next("tools/list", |_, respond| respond.whole(500, &[], "no"));
    let call = caller.start("echo", json!({"tag": "four"})).await;
    assert_eq!(caller.answer(&call).await["error"]["code"], -32020);
}

async fn what_is_listed_is_repeated_in_headers(peer: Peer) {
    let (stage, _hub, mut caller) = live(peer, sleepy()).await;
    stage.site().take_next("tools/list", |seen, respond| {
        respond.json(200, &list(&seen, &json!([marked("echo", "Region")]), &Value::Null));
    });
    caller.ask("tools/list", json!({})).await;
    for (region, header) in
        [(json!("eu"), Some("eu")), (Value::Null, None), (json!(" x "), Some("=?base64?IHgg?="))]
    {
        caller.call("echo", json!({"region": region})).await;
        assert_eq!(stage.site().requests("tools/call").last().unwrap().header("mcp-param-region"), header);
    }
    // A later list takes it back.
    stage.site().take_next("tools/list", |seen, respond| {
        respond.json(200, &list(&seen, &json!([{"name": "echo", "inputSchema": {}}]), &Value::Null));
    });
    caller.ask("tools/list", json!({})).await;
    caller.call("echo", json!({"region": "eu"})).await;
    assert_eq!(stage.site().requests("tools/call").last().unwrap().header("mcp-param-region"), None);
}

async fn tools_that_are_marked_wrongly_are_left_out(peer: Peer) {
    let (stage, _hub, mut caller) = live(peer, sleepy()).await;
    for (tools, kept) in [
        (json!([marked("a", "Fine"), marked("b", "not a name"), marked("c", "Fine")]), vec!["a", "c"]),
        (json!([marked("b", ""), marked("c", "Fine")]), vec!["c"]),
        (json!([marked("b", "x\r\ny")]), vec![]),
        (json!([]), vec![]),
    ] {
        stage.site().take_next("tools/list", move |seen, respond| {
            respond.json(200, &list(&seen, &tools, &json!("more")));
        });
        let answer = caller.ask("tools/list", json!({})).await;
        let names: Vec<&str> = answer["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, kept);
        assert_eq!(answer["result"]["nextCursor"], "more", "nothing else of it is changed");
    }
    assert_eq!(stage.notes().iter().filter(|note| note.contains("left out the tool `b`")).count(), 3);
}

async fn a_call_that_waits_for_the_list_can_be_cancelled(peer: Peer) {
    let (stage, hub, mut caller) = live(peer, sleepy()).await;
    stage.site().take_next("tools/call", |seen, respond| {
        respond.json(
            400,
            &json!({"jsonrpc": "2.0", "id": seen.message["id"],
            "error": {"code": -32020, "message": "Header mismatch"}}),
        );
    });
    let kept = Rc::new(RefCell::new(None));
    let list = Rc::clone(&kept);
    stage.site().take_next("tools/list", move |_, respond| *list.borrow_mut() = Some(respond));
    let call = caller.start("echo", json!({"tag": "a"})).await;
    stage.until(|stage| stage.site().requests("tools/list").len() == 1).await;
    caller.notify("notifications/cancelled", json!({"requestId": call})).await;
    assert_eq!(failure(&caller.answer(&call).await), ("cancelled", "no"));
    drop(kept.borrow_mut().take());
    sleep(Duration::from_secs(1)).await;
    assert_eq!((stage.runs("a"), hub.state()), (0, PublicState::Live));
    assert_eq!(caller.ask("drowse/status", json!({})).await["result"]["inFlight"], 0);
}
