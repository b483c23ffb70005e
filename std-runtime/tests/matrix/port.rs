//! Clients of a session's port: what wakes the server for them, what keeps it awake, and what they are told.

use std::time::Duration;

use drowse_core::activity::Asker;
use drowse_core::era::Era;
use drowse_core::lifecycle::{Exit, PublicState};
use drowse_runtime::bridge::Hub;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::{Caller, IDLE, Script, Stage, assert_at, sleepy};

in_both_eras! {
    lists_and_probes_start_nothing_and_a_call_does
    without_a_snapshot_a_list_says_so
    an_open_session_defers_and_its_end_begins_a_full_period
    the_listener_outlives_a_crash_and_goes_when_it_is_told
}

const HOUR: Duration = Duration::from_secs(3600);
const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("prompts/list", "prompts"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
];

async fn shared(era: Era) -> (Stage, Hub) {
    let stage = Stage::new(Script::of(era));
    let mut config = sleepy();
    config.lifecycle.listens = true;
    let hub = stage.bridge(config);
    stage.saved().await;
    (stage, hub)
}

/// Its clients, one of each era.
async fn clients(hub: &Hub) -> [Caller; 2] {
    let mut legacy = Caller::of(hub, Asker::ProxyPort);
    legacy.initialize("2025-11-25", json!({})).await;
    [Caller::of(hub, Asker::ProxyPort), legacy]
}

async fn lists(caller: &mut Caller, modern: bool) -> Vec<Value> {
    let mut all = Vec::new();
    for (method, member) in LISTS {
        let answer = if modern {
            caller.ask(method, json!({})).await
        } else {
            caller.plain(&json!(method), method, json!({})).await;
            caller.answer(&json!(method)).await
        };
        let result = &answer["result"];
        assert_eq!(result.get("resultType").is_some(), modern, "{answer}");
        assert!(result[member].is_array(), "{answer}");
        all.push(result[member].clone());
    }
    all
}

async fn lists_and_probes_start_nothing_and_a_call_does(era: Era) {
    let (stage, hub) = shared(era).await;
    let mut modern = Caller::of(&hub, Asker::ProxyPort);
    let live = lists(&mut modern, true).await;
    let used = stage.elapsed();
    assert_at(stage.state(PublicState::Idle).await, used + IDLE);
    sleep(HOUR).await;
    let [mut other, mut legacy] = clients(&hub).await;
    assert_eq!(lists(&mut other, true).await, live, "what is saved is what was said");
    assert_eq!(lists(&mut legacy, false).await, live);
    let discovered = other.ask("server/discover", json!({})).await;
    assert!(discovered["result"]["capabilities"].is_object(), "{discovered}");
    legacy.plain(&json!("p"), "ping", json!({})).await;
    assert_eq!(legacy.answer(&json!("p")).await["result"], json!({}));
    let stale = other.ask("tools/list", json!({"cursor": "x"})).await;
    assert_eq!(stale["error"]["code"], -32602, "{stale}");
    sleep(HOUR).await;
    assert_eq!((hub.state(), stage.starts()), (PublicState::Idle, 1));
    other.call("echo", json!({"text": "x"})).await;
    assert_eq!((hub.state(), stage.starts()), (PublicState::Live, 2));
    assert!(stage.outcomes().iter().all(Result::is_ok));
}

async fn without_a_snapshot_a_list_says_so(era: Era) {
    let (stage, hub) = shared(era).await;
    stage.state(PublicState::Idle).await;
    sleep(HOUR).await;
    stage.replace_snapshot(None);
    let mut client = Caller::of(&hub, Asker::ProxyPort);
    let answer = client.ask("tools/list", json!({})).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("nothing is saved"), "{answer}");
    assert_eq!(stage.starts(), 1);
}

async fn an_open_session_defers_and_its_end_begins_a_full_period(era: Era) {
    let (stage, hub) = shared(era).await;
    let [modern, one] = clients(&hub).await;
    let mut other = Caller::of(&hub, Asker::ProxyPort);
    other.initialize("2025-06-18", json!({})).await;
    let status = async || Caller::connect(&hub).await.ask("drowse/status", json!({})).await["result"].clone();
    assert_eq!(status().await["deferredBy"], json!(["2 open sessions of clients on its port"]));
    sleep(HOUR).await;
    drop(one);
    sleep(HOUR).await;
    assert_eq!(hub.state(), PublicState::Live);
    assert_eq!(status().await["deferredBy"], json!(["an open session of a client on its port"]));
    let ended = stage.elapsed();
    drop(other);
    assert_at(stage.state(PublicState::Idle).await, ended + IDLE);
    // The connection of a modern client is no session, and neither is one to the session's own socket.
    drop(modern);
    let mut caller = Caller::silent(&hub);
    caller.line(r#"{"drowse":{"hello":{"versions":[1],"client":"0"}}}"#).await;
    caller.receive().await.unwrap();
    caller.initialize("2025-11-25", json!({})).await;
    caller.plain(&json!(1), "tools/list", json!({})).await;
    caller.answer(&json!(1)).await;
    let used = stage.elapsed();
    assert_at(stage.state(PublicState::Idle).await, used + IDLE);
}

async fn the_listener_outlives_a_crash_and_goes_when_it_is_told(era: Era) {
    let (stage, hub) = shared(era).await;
    let [mut modern, _] = clients(&hub).await;
    modern.call("echo", json!({"text": "x"})).await;
    stage.server_exits(Exit::Signal(11));
    stage.state(PublicState::Crashed).await;
    sleep(HOUR).await;
    modern.call("echo", json!({"text": "x"})).await;
    assert_eq!(stage.starts(), 2);
    hub.close();
    hub.retired().await;
    assert_eq!(modern.receive().await, None);
}
