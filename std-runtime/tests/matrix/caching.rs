//! Results that the server says may be used again, for exactly as long as it says (server/utilities/caching).

use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::{Exit, PublicState};
use drowse_runtime::bridge::Hub;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::{Caller, IDLE, Peer, Script, Stage, assert_at, play, sleepy};

const TTL: Duration = Duration::from_secs(60);

async fn live(peer: Peer) -> (Stage, Hub, Caller) {
    let stage = Stage::new(Script { ttl_ms: 60_000, ..Script::of(peer) });
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    let caller = Caller::connect(&hub).await;
    stage.saved().await;
    sleep(Duration::from_millis(1)).await;
    (stage, hub, caller)
}

async fn list(caller: &mut Caller) -> Value {
    let answer = caller.ask("tools/list", json!({})).await;
    assert!(answer["result"]["tools"].is_array(), "{answer}");
    answer["result"].clone()
}

fn asked(stage: &Stage, method: &str) -> usize {
    // What drowse asked for itself came before.
    let (saved, _) = stage.snapshots()[0];
    stage.got(method).into_iter().filter(|at| *at > saved).count()
}

#[test]
fn a_fresh_result_is_given_again_and_a_stale_one_is_not() {
    for peer in [Peer::Process(Era::Modern), Peer::Modern] {
        play(async || {
            let (stage, hub, mut caller) = live(peer).await;
            let first = list(&mut caller).await;
            sleep(TTL - Duration::from_secs(1)).await;
            // To any caller of the session, under its own id.
            let mut other = Caller::connect(&hub).await;
            assert_eq!(list(&mut other).await, first);
            assert_eq!(asked(&stage, "tools/list"), 1);
            sleep(Duration::from_secs(1)).await;
            list(&mut caller).await;
            assert_eq!(asked(&stage, "tools/list"), 2, "now < received + ttl no longer holds");
        });
    }
}

#[test]
fn other_parameters_are_another_request() {
    play(async || {
        let (stage, _hub, mut caller) = live(Peer::Process(Era::Modern)).await;
        for uri in ["a", "b", "a", "b"] {
            caller.ask("resources/read", json!({"uri": uri})).await;
        }
        caller.ask("resources/read", json!({"uri": "a", "_meta": {"x": 1}})).await;
        assert_eq!(asked(&stage, "resources/read"), 2);
    });
}

#[test]
fn it_counts_like_any_other_and_wakes_like_any_other() {
    play(async || {
        let (stage, _hub, mut caller) = live(Peer::Process(Era::Modern)).await;
        list(&mut caller).await;
        sleep(Duration::from_secs(30)).await;
        list(&mut caller).await;
        let at = stage.elapsed();
        assert_eq!(asked(&stage, "tools/list"), 1);
        assert_at(stage.state(PublicState::Idle).await, at + IDLE);
    });
}

#[test]
fn what_the_server_says_has_changed_is_asked_anew() {
    play(async || {
        let (stage, _hub, mut caller) = live(Peer::Process(Era::Modern)).await;
        let read = json!({"uri": "a"});
        for _ in 0..2 {
            list(&mut caller).await;
            caller.ask("resources/read", read.clone()).await;
        }
        assert_eq!((asked(&stage, "tools/list"), asked(&stage, "resources/read")), (1, 1));
        stage.server_says(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        sleep(Duration::from_millis(10)).await;
        list(&mut caller).await;
        caller.ask("resources/read", read.clone()).await;
        assert_eq!((asked(&stage, "tools/list"), asked(&stage, "resources/read")), (2, 1));
        let updated =
            json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "a"}});
        stage.server_says(&updated);
        sleep(Duration::from_millis(10)).await;
        caller.ask("resources/read", read).await;
        assert_eq!((asked(&stage, "tools/list"), asked(&stage, "resources/read")), (2, 2));
    });
}

#[test]
fn a_call_may_change_everything_and_a_new_server_knows_nothing_of_the_old_ones_results() {
    play(async || {
        let (stage, _hub, mut caller) = live(Peer::Process(Era::Modern)).await;
        list(&mut caller).await;
        caller.call("echo", json!({})).await;
        list(&mut caller).await;
        assert_eq!(asked(&stage, "tools/list"), 2);
        stage.server_exits(Exit::Status(3));
        list(&mut caller).await;
        assert_eq!((stage.starts(), asked(&stage, "tools/list")), (2, 3));
    });
}

#[test]
fn a_legacy_server_says_nothing_of_it() {
    play(async || {
        let (stage, _hub, mut caller) = live(Peer::Process(Era::Legacy)).await;
        list(&mut caller).await;
        list(&mut caller).await;
        assert_eq!(asked(&stage, "tools/list"), 2);
    });
}
