//! `drowse/set`: a bridge goes by other settings while its server runs, and it is no use of the server.

use std::time::Duration;

use drowse_core::lifecycle::PublicState;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::{Caller, Peer, Script, Stage, with_idle};

over_both_transports! {
    a_change_of_the_period_counts_from_the_last_use
    a_limit_holds_for_requests_from_then_on
    what_is_no_settings_changes_nothing
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn keep(idle_secs: u64, timeout_ms: u64) -> Value {
    json!({"settings": {
        "idleTimeoutSecs": idle_secs, "timeoutMs": timeout_ms, "maxTimeoutMs": 3_600_000,
        "connectTimeoutMs": 60_000, "stopGraceMs": 2_000,
    }})
}

async fn awake(peer: Peer) -> (Stage, drowse_runtime::bridge::Hub) {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.bridge(with_idle(Some(seconds(600))));
    stage.ready().await;
    (stage, hub)
}

async fn a_change_of_the_period_counts_from_the_last_use(peer: Peer) {
    let (stage, hub) = awake(peer).await;
    let mut caller = Caller::connect(&hub).await;
    caller.call("echo", json!({"tag": "a"})).await;
    sleep(seconds(500)).await;
    assert_eq!(caller.ask("drowse/set", keep(1000, 300_000)).await["result"], json!({}));
    sleep(seconds(450)).await;
    assert_eq!(hub.state(), PublicState::Live, "postponed");
    caller.ask("drowse/set", keep(0, 300_000)).await;
    sleep(seconds(1_000_000)).await;
    assert_eq!(hub.state(), PublicState::Live, "never");
    let status = caller.ask("drowse/status", json!({})).await;
    assert_eq!(status["result"]["idleInMs"], Value::Null);
    caller.ask("drowse/set", keep(10, 300_000)).await;
    sleep(seconds(1)).await;
    assert_eq!(hub.state(), PublicState::Idle, "over already");
    assert_eq!((stage.starts(), stage.runs("a")), (1, 1));
}

async fn a_limit_holds_for_requests_from_then_on(peer: Peer) {
    let (_stage, hub) = awake(peer).await;
    let mut caller = Caller::connect(&hub).await;
    caller.ask("drowse/set", keep(600, 1_000)).await;
    let answer = caller.ask("tools/call", json!({"name": "slow", "arguments": {"seconds": 50}})).await;
    assert_eq!(answer["error"]["data"]["drowse"]["kind"], "timeout", "{answer}");
    assert_eq!(hub.state(), PublicState::Live);
}

async fn what_is_no_settings_changes_nothing(peer: Peer) {
    let (_stage, hub) = awake(peer).await;
    let mut caller = Caller::connect(&hub).await;
    let mut level = keep(5, 1);
    level["logLevel"] = "loud".into();
    for params in [json!({}), json!({"settings": {"idleTimeoutSecs": -1}}), level] {
        let answer = caller.ask("drowse/set", params).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    sleep(seconds(100)).await;
    assert_eq!(hub.state(), PublicState::Live);
}
