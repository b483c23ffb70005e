//! Which era a server of both speaks, when a client causes its first start.

use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::server::Config;
use drowse_runtime::bridge::Hub;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::{Caller, Peer, Script, Stage, play, sleepy};

const LATEST: &str = "2025-11-25";

/// A server that was never started, of the eras that `change` says, and its proxy.
fn unknown(peer: impl Into<Peer>, change: impl FnOnce(&mut Script)) -> (Stage, Hub) {
    let mut script = Script::of(peer);
    change(&mut script);
    let stage = Stage::new(script);
    let hub = stage.proxy(Config { snapshot: None, ..sleepy() });
    (stage, hub)
}

/// What it was asked first of all.
fn questions(stage: &Stage) -> Vec<String> {
    let asks = |method: &String| matches!(&**method, "initialize" | "server/discover");
    stage.methods().into_iter().filter(asks).collect()
}

async fn legacy(hub: &Hub) -> Caller {
    Caller::legacy(hub, LATEST, json!({"elicitation": {"form": {}}})).await.0
}

async fn echo(caller: &mut Caller) -> Value {
    caller.plain(&json!("c"), "tools/call", json!({"name": "echo", "arguments": {"tag": "t"}})).await;
    caller.answer(&json!("c")).await
}

#[test]
fn a_server_of_both_eras_has_a_session_with_the_legacy_client_that_starts_it() {
    for (method, params) in [
        ("tools/call", json!({"name": "echo", "arguments": {"tag": "t"}})),
        ("tools/list", json!({})),
        ("resources/subscribe", json!({"uri": "file:///a"})),
    ] {
        for boot in [0, 5] {
            play(async || {
                let (stage, hub) = unknown(Era::Modern, |script| {
                    script.both = true;
                    script.boot = Duration::from_secs(boot);
                });
                let mut old = legacy(&hub).await;
                assert_eq!(stage.starts(), 0);
                old.plain(&json!("x"), method, params.clone()).await;
                let answer = old.answer(&json!("x")).await;
                assert!(answer.get("result").is_some(), "{answer}");
                assert_eq!(questions(&stage)[0], "initialize");
                assert!(stage.methods().contains(&"notifications/initialized".to_owned()), "{method}");
                // It may ask its client for something, during a call.
                old.plain(&json!("n"), "tools/call", json!({"name": "never", "arguments": {"tag": "n"}}))
                    .await;
                stage.until(|stage| stage.runs("n") > 0).await;
                let form =
                    json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
                stage.server_says(
                    &json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": form}),
                );
                loop {
                    let heard = old.receive().await.expect("the question");
                    if heard["method"] == "elicitation/create" {
                        break;
                    }
                }
            });
        }
    }
}

#[test]
fn for_a_modern_client_it_is_modern() {
    play(async || {
        let (stage, hub) = unknown(Era::Modern, |script| script.both = true);
        // Who is there and wants nothing does not count.
        let _old = legacy(&hub).await;
        let mut new = Caller::of_proxy(&hub);
        let answer = new.ask("tools/call", json!({"name": "echo", "arguments": {"tag": "t"}})).await;
        assert!(answer.get("result").is_some(), "{answer}");
        assert_eq!(questions(&stage), ["server/discover"]);
    });
}

#[test]
fn a_session_finds_out_when_it_begins() {
    play(async || {
        let mut script = Script::of(Era::Modern);
        script.both = true;
        let stage = Stage::new(script);
        let hub = stage.bridge_with(sleepy(), |config| config.server.snapshot = None);
        stage.ready().await;
        let mut old = legacy(&hub).await;
        assert!(echo(&mut old).await.get("result").is_some());
        assert_eq!(questions(&stage), ["server/discover"]);
    });
}

#[test]
fn servers_of_one_era_serve_a_legacy_client_that_starts_them() {
    let dies = |script: &mut Script| script.dies_on = Some("initialize");
    type Change = fn(&mut Script);
    let peers: [(Peer, Change, usize); 5] = [
        (Era::Legacy.into(), |_| {}, 1),
        (Era::Modern.into(), |_| {}, 1),
        (Era::Modern.into(), dies, 2),
        (Peer::Modern, |_| {}, 1),
        (Peer::Session, |_| {}, 1),
    ];
    for (peer, change, starts) in peers {
        play(async || {
            let (stage, hub) = unknown(peer, change);
            let mut old = legacy(&hub).await;
            let answer = echo(&mut old).await;
            assert!(answer.get("result").is_some(), "{peer:?}: {answer}");
            assert_eq!(stage.starts(), starts, "{peer:?}");
            assert_eq!(questions(&stage)[0], "initialize", "{peer:?}");
            sleep(Duration::from_secs(1)).await;
        });
    }
}
