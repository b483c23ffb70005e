//! What a server offers is saved: when it is asked, what is kept, and that it costs nobody anything.

use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::{Exit, PublicState};
use drowse_runtime::bridge::Hub;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::subscriptions::subscribe;
use crate::bridge::{
    Caller, Event, IDLE, ListFault, ListenFault, Peer, Script, Stage, TICK, assert_at, play, sleepy,
    with_idle,
};

over_both_transports! {
    it_is_gathered_when_it_is_quiet_and_delays_no_sleep
    pages_are_followed_to_the_end
    who_says_to_have_no_lists_is_not_asked
    a_list_that_never_comes_is_said_to_be_missing_and_the_old_one_kept
    lists_that_are_none_harm_nothing
    it_falls_asleep_in_the_middle_of_it
    who_asks_for_it_waits_until_it_is_saved
    a_caller_comes_first
    the_next_one_is_asked_anew
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn names(snapshot: &Value) -> Vec<&str> {
    snapshot["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

fn last(stage: &Stage) -> Value {
    stage.snapshots().last().expect("a snapshot was saved").1.clone()
}

/// A server with three tools, and its bridge.
fn three(peer: impl Into<Peer>, change: impl FnOnce(&mut Script)) -> (Stage, Hub) {
    let mut script = Script { tools: 3, ..Script::of(peer) };
    change(&mut script);
    let stage = Stage::new(script);
    let hub = stage.bridge(sleepy());
    (stage, hub)
}

async fn it_is_gathered_when_it_is_quiet_and_delays_no_sleep(peer: Peer) {
    let (stage, hub) = three(peer, |_| {});
    let ready = stage.ready().await;
    assert_at(stage.saved().await, ready + ms(100));
    let snapshot = last(&stage);
    assert_eq!(names(&snapshot), ["t0-v0", "t1-v0", "t2-v0"]);
    assert_eq!(snapshot["prompts"], json!([]));
    assert_eq!(
        (&snapshot["identity"], &snapshot["generation"], snapshot["era"].as_str()),
        (&json!("staged"), &json!(1), Some(peer.era().name()))
    );
    assert!(snapshot["capabilities"]["tools"].is_object(), "{snapshot}");
    if peer.era() == Era::Legacy {
        assert_eq!(snapshot["serverInfo"]["name"], "staged");
    }
    // Prompts are none that it says it has.
    assert_eq!(stage.got("prompts/list").len(), 0);
    assert_eq!(stage.got("tools/list").len(), 1);
    assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
    hub.retired().await;
    assert_eq!(stage.snapshots().len(), 1, "nothing had to be written again");
}

async fn pages_are_followed_to_the_end(peer: Peer) {
    let (stage, _hub) = three(peer, |script| (script.tools, script.per_page) = (7, Some(3)));
    stage.saved().await;
    let snapshot = last(&stage);
    let expected: Vec<String> = (0..7).map(|n| format!("t{n}-v0")).collect();
    assert_eq!(names(&snapshot), expected);
    assert_eq!(snapshot.get("incomplete"), None);
    assert_eq!(stage.got("tools/list").len(), 3);
}

async fn who_says_to_have_no_lists_is_not_asked(peer: Peer) {
    let (stage, _hub) = three(peer, |script| script.has_no_lists = true);
    stage.saved().await;
    let asked: Vec<String> = stage.methods().into_iter().filter(|method| method.ends_with("/list")).collect();
    assert_eq!(asked, Vec::<String>::new());
    assert_eq!(last(&stage)["tools"], json!([]));
}

async fn a_list_that_never_comes_is_said_to_be_missing_and_the_old_one_kept(peer: Peer) {
    let (stage, hub) = three(peer, |script| script.tools_fault = Some(ListFault::Silent));
    let ready = stage.ready().await;
    // Nobody else waits for it.
    let mut caller = Caller::connect(&hub).await;
    sleep(seconds(1)).await;
    caller.call("echo", json!({"tag": "a"})).await;
    let used = stage.elapsed();
    assert_at(stage.saved().await, ready + ms(100) + seconds(30));
    let snapshot = last(&stage);
    assert_eq!((&snapshot["tools"], &snapshot["incomplete"]), (&json!([]), &json!(["tools"])));
    assert!(stage.notes().iter().any(|note| note.contains("not complete") && note.contains("tools/list")));
    assert_eq!(hub.state(), PublicState::Live);
    assert_at(stage.state(PublicState::Idle).await, used + IDLE);
    hub.retired().await;
    // What an earlier run said of its tools is better than nothing.
    let mut earlier = snapshot;
    earlier["tools"] = json!([{"name": "earlier"}]);
    for (identity, kept) in [("staged", true), ("of another", false)] {
        earlier["identity"] = json!(identity);
        stage.replace_snapshot(Some(earlier.to_string().into_bytes()));
        let before = stage.snapshots().len();
        let hub = stage.bridge(sleepy());
        stage.until(|stage| stage.snapshots().len() > before).await;
        let snapshot = last(&stage);
        assert_eq!(names(&snapshot).len(), usize::from(kept));
        assert_eq!(snapshot["incomplete"], json!(["tools"]));
        hub.close();
        hub.retired().await;
    }
}

async fn lists_that_are_none_harm_nothing(peer: Peer) {
    for (fault, tools, incomplete) in [
        (ListFault::Garbage, 0, true),
        (ListFault::Error(-32603), 0, true),
        (ListFault::Error(-32601), 0, false),
        (ListFault::Endless, 300, true),
    ] {
        let (stage, hub) = three(peer, |script| script.tools_fault = Some(fault));
        let ready = stage.ready().await;
        stage.saved().await;
        let snapshot = last(&stage);
        assert_eq!(snapshot["tools"].as_array().unwrap().len(), tools, "{fault:?}");
        assert_eq!(snapshot.get("incomplete").is_some(), incomplete, "{fault:?}");
        assert_eq!(hub.state(), PublicState::Live);
        assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
        hub.retired().await;
        assert_eq!(stage.states(), [PublicState::Connecting, PublicState::Live, PublicState::Idle]);
    }
}

async fn it_falls_asleep_in_the_middle_of_it(peer: Peer) {
    let stage = Stage::new(Script { tools: 3, tools_fault: Some(ListFault::Silent), ..Script::of(peer) });
    let hub = stage.bridge(with_idle(Some(seconds(10))));
    let ready = stage.ready().await;
    assert_at(stage.state(PublicState::Idle).await, ready + seconds(10));
    hub.retired().await;
    // It does not wait for an answer that nobody wants.
    assert_at(stage.elapsed(), ready + seconds(10));
    let (at, snapshot) = stage.snapshots().pop().unwrap();
    assert_at(at, ready + seconds(10));
    assert_eq!(snapshot["incomplete"], json!(["tools", "resources", "resourceTemplates"]));
}

async fn who_asks_for_it_waits_until_it_is_saved(peer: Peer) {
    let (stage, hub) = three(peer, |script| script.tools_fault = None);
    let mut caller = Caller::connect(&hub).await;
    let answer = caller.ask("drowse/snapshot", json!({})).await;
    assert_eq!(
        (&answer["result"]["generation"], &answer["result"]["why"]),
        (&json!(1), &Value::Null),
        "{answer}"
    );
    assert_eq!(stage.snapshots().len(), 1);
    let at = stage.elapsed();
    let again = caller.ask("drowse/snapshot", json!({})).await;
    assert_eq!((&again["result"], stage.elapsed()), (&answer["result"], at));
    // No longer than it makes sense.
    let (stage, hub) = three(peer, |script| script.tools_fault = Some(ListFault::Silent));
    stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    let at = stage.elapsed();
    let answer = caller.ask("drowse/snapshot", json!({})).await;
    assert_at(stage.elapsed(), at + seconds(10));
    assert_eq!(answer["result"]["generation"], Value::Null);
    assert!(answer["result"]["why"].as_str().unwrap().contains("not said yet"), "{answer}");
    // It said so little that nothing was saved: the server goes, and whoever waits hears of it.
    let id = json!(77);
    caller
        .line(
            &json!({"jsonrpc": "2.0", "id": id, "method": "drowse/snapshot", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}}})
            .to_string(),
        )
        .await;
    sleep(seconds(1)).await;
    hub.close();
    let answer = loop {
        let message = caller.receive().await.expect("an answer, or a goodbye");
        if message["id"] == id {
            break message;
        }
    };
    assert!(answer["result"]["why"].is_string(), "{answer}");
}

async fn a_caller_comes_first(peer: Peer) {
    let (stage, hub) = three(peer, |_| {});
    let ready = stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    let call = caller.start("slow", json!({"tag": "a", "seconds": 20})).await;
    assert_at(stage.saved().await, ready + seconds(5));
    caller.answer(&call).await;
    let used = stage.elapsed();
    assert_at(stage.state(PublicState::Idle).await, used + IDLE);
}

async fn the_next_one_is_asked_anew(peer: Peer) {
    let (stage, hub) = three(peer, |_| {});
    stage.saved().await;
    hub.retired().await;
    stage.change_tools();
    let hub = stage.bridge(sleepy());
    stage.until(|stage| stage.snapshots().len() == 2).await;
    assert_eq!(
        (&last(&stage)["generation"], names(&last(&stage))),
        (&json!(2), vec!["t0-v1", "t1-v1", "t2-v1"])
    );
    hub.retired().await;
}

/// Says that its tools changed.
fn announce(stage: &Stage) {
    stage.server_says(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
}

#[test]
fn a_list_that_changed_is_asked_for_again_and_no_other() {
    for peer in [Peer::Process(Era::Legacy), Peer::Process(Era::Modern), Peer::Session, Peer::Old] {
        play(async || {
            let (stage, hub) = three(peer, |_| {});
            let ready = stage.ready().await;
            stage.saved().await;
            sleep(seconds(100)).await;
            stage.change_tools();
            announce(&stage);
            sleep(ms(500)).await;
            announce(&stage);
            let said = stage.elapsed();
            stage.until(|stage| stage.snapshots().len() == 2).await;
            assert_at(stage.elapsed(), said + seconds(1));
            assert_eq!(names(&last(&stage))[0], "t0-v1");
            assert_eq!((stage.got("tools/list").len(), stage.got("resources/list").len()), (2, 1));
            // It says so, and nothing changed: nothing is written.
            announce(&stage);
            sleep(seconds(100)).await;
            assert_eq!((stage.got("tools/list").len(), stage.snapshots().len()), (3, 2));
            assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
            hub.retired().await;
        });
    }
}

#[test]
fn a_file_that_somebody_damaged_is_made_anew() {
    for file in [None, Some("{\"schema\":1,"), Some("{\"schema\":99}"), Some("[]"), Some("")] {
        play(async || {
            let (stage, _hub) = three(Era::Legacy, |_| {});
            stage.saved().await;
            stage.replace_snapshot(file.map(|text| text.as_bytes().to_vec()));
            announce(&stage);
            sleep(seconds(100)).await;
            let whole = stage.snapshot_file().unwrap();
            let snapshot: Value = serde_json::from_slice(&whole).unwrap();
            assert_eq!(names(&snapshot).len(), 3, "{file:?}");
            assert_eq!(stage.got("resources/list").len(), 2, "all of it was asked for again");
            let asked = stage.got("tools/list").len();
            assert!(asked <= 3, "{asked}");
        });
    }
}

#[test]
fn a_crash_keeps_what_was_saved_before() {
    play(async || {
        let (stage, hub) = three(Era::Modern, |_| {});
        stage.saved().await;
        hub.retired().await;
        stage.change_tools();
        let hub = stage.bridge(sleepy());
        stage.until(|stage| stage.starts() == 2).await;
        stage.ready().await;
        stage.server_exits(Exit::Status(1));
        hub.retired().await;
        assert_eq!(hub.state(), PublicState::Crashed);
        assert_eq!(stage.snapshots().len(), 1);
        assert_eq!(names(&last(&stage))[0], "t0-v0");
    });
}

#[test]
fn what_could_not_be_written_is_said_and_written_before_it_sleeps() {
    play(async || {
        let (stage, hub) = three(Era::Legacy, |_| {});
        let ready = stage.ready().await;
        stage.fill_disk(true);
        let mut caller = Caller::connect(&hub).await;
        let answer = caller.ask("drowse/snapshot", json!({})).await;
        assert!(answer["result"]["why"].as_str().unwrap().contains("could not be written"), "{answer}");
        assert!(stage.notes().iter().any(|note| note.contains("the snapshot could not be written")));
        caller.call("echo", json!({"tag": "a"})).await;
        let used = stage.elapsed();
        assert!(used < ready + seconds(1) + TICK);
        stage.fill_disk(false);
        assert_at(stage.state(PublicState::Idle).await, used + IDLE);
        let (at, snapshot) = stage.snapshots().pop().expect("it was written");
        assert_at(at, used + IDLE);
        assert_eq!(names(&snapshot).len(), 3);
        hub.retired().await;
    });
}

#[test]
fn a_flood_of_changes_is_answered_with_ever_fewer_questions() {
    play(async || {
        let (stage, hub) = three(Era::Legacy, |_| {});
        let ready = stage.ready().await;
        stage.saved().await;
        while stage.elapsed() + seconds(1) < ready + IDLE {
            stage.change_tools();
            announce(&stage);
            sleep(ms(250)).await;
        }
        assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
        hub.retired().await;
        let asked = stage.got("tools/list").len();
        assert!((5..=20).contains(&asked), "{asked} in ten minutes");
    });
}

/// The filters of the streams that the server was asked for, in order.
fn listened(stage: &Stage) -> Vec<Value> {
    let events = stage.events();
    let filters = events.iter().filter_map(|(_, event)| match event {
        Event::Got(message) if message["method"] == "subscriptions/listen" => {
            Some(message["params"]["notifications"].clone())
        }
        _ => None,
    });
    filters.collect()
}

#[test]
fn a_modern_process_says_that_its_tools_changed_though_nobody_else_listens() {
    play(async || {
        let (stage, hub) = three(Era::Modern, |_| {});
        let ready = stage.ready().await;
        stage.saved().await;
        // Before the first list, and after whoever woke it.
        assert_eq!(stage.methods()[..3], ["server/discover", "subscriptions/listen", "tools/list"]);
        assert_at(stage.got("subscriptions/listen")[0], ready + ms(100));
        assert_eq!(listened(&stage), [json!({"toolsListChanged": true})]);
        sleep(seconds(100)).await;
        stage.change_tools();
        stage.process().change_tools();
        let said = stage.elapsed();
        stage.until(|stage| stage.snapshots().len() == 2).await;
        assert_at(stage.elapsed(), said + seconds(1));
        assert_eq!(names(&last(&stage))[0], "t0-v1");
        let before = stage.methods();
        assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
        hub.retired().await;
        assert_eq!(stage.methods().split_off(before.len()), ["notifications/cancelled"]);
        assert_eq!(listened(&stage).len(), 1);
    });
}

#[test]
fn a_server_behind_a_url_is_not_made_to_hold_a_stream_for_that() {
    for peer in [Peer::Modern, Peer::Stateless] {
        play(async || {
            let (stage, hub) = three(peer, |_| {});
            let ready = stage.ready().await;
            stage.saved().await;
            let before = stage.methods();
            assert_eq!(listened(&stage), Vec::<Value>::new());
            assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
            hub.retired().await;
            assert_eq!(stage.methods(), before, "no traffic at all");
        });
    }
}

#[test]
fn who_will_not_say_it_is_not_asked_again_and_serves_its_subscribers() {
    for fault in [
        ListenFault::Error(-32601),
        ListenFault::Lists(-32602),
        ListenFault::Lists(-32603),
        ListenFault::Second(-32603),
        ListenFault::Silent,
    ] {
        play(async || {
            let (stage, hub) = three(Era::Modern, |script| script.listen_fault = Some(fault));
            let ready = stage.ready().await;
            stage.saved().await;
            assert_eq!(listened(&stage).len(), 1, "{fault:?}");
            assert_eq!(stage.notes(), Vec::<String>::new(), "nobody need know");
            if matches!(fault, ListenFault::Error(_) | ListenFault::Silent) {
                assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
                hub.retired().await;
                return assert_eq!(listened(&stage).len(), 1, "{fault:?}");
            }
            let mut caller = Caller::connect(&hub).await;
            let id = subscribe(&mut caller, &["a:1"]).await;
            sleep(ms(50)).await;
            assert_eq!(stage.process().subscriptions(), ["a:1"], "{fault:?}");
            assert_eq!(stage.process().open_streams(), 1);
            assert_eq!(stage.process().is_heard(), matches!(fault, ListenFault::Second(_)), "{fault:?}");
            let asked = listened(&stage).len();
            sleep(IDLE * 2).await;
            assert_eq!((listened(&stage).len(), hub.state()), (asked, PublicState::Live));
            caller.notify("notifications/cancelled", json!({"requestId": id})).await;
            let ended = stage.elapsed();
            assert_at(stage.state(PublicState::Idle).await, ended + IDLE);
            hub.retired().await;
        });
    }
}

#[test]
fn who_subscribes_first_is_asked_for_together_with_it() {
    play(async || {
        let stage = Stage::new(Script { tools: 3, ..Script::of(Era::Modern) });
        let hub = stage.bridge(sleepy());
        let mut caller = Caller::connect(&hub).await;
        let id = subscribe(&mut caller, &["a:1"]).await;
        stage.saved().await;
        assert_eq!(listened(&stage), [json!({"toolsListChanged": true, "resourceSubscriptions": ["a:1"]})]);
        stage.change_tools();
        stage.process().change_tools();
        stage.until(|stage| stage.snapshots().len() == 2).await;
        stage.process().update("a:1");
        let told = caller.receive().await.unwrap();
        assert_eq!(told["method"], "notifications/resources/updated", "and of nothing else: {told}");
        // It stays for drowse, and goes with the server.
        caller.notify("notifications/cancelled", json!({"requestId": id})).await;
        let ended = stage.elapsed();
        sleep(ms(50)).await;
        assert_eq!((stage.process().subscriptions(), stage.process().open_streams()), (Vec::new(), 1));
        assert!(stage.process().is_heard());
        assert_at(stage.state(PublicState::Idle).await, ended + IDLE);
        hub.retired().await;
        assert_eq!(stage.process().open_streams(), 0);
    });
}
