//! How much of the log is wanted, who is told, and where messages go.

use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::{Exit, PublicState};
use drowse_core::logging::Level;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::{Caller, IDLE, Peer, Script, Stage, assert_at, sleepy};

in_both_eras! {
    a_level_is_told_and_remembered
    a_level_of_the_session_is_told_from_the_start
    levels_that_are_refused_are_not_remembered
    a_request_may_want_more_and_not_less
    messages_go_into_the_log_and_to_who_wants_them
}

mod declared {
    use super::a_server_without_a_log_is_told_no_level;

    over_both_transports! {
        a_server_without_a_log_is_told_no_level
    }
}

const LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The level that each call told the server.
fn told(stage: &Stage) -> Vec<Option<String>> {
    let levels = stage.params_of("tools/call").into_iter();
    levels.map(|params| params["_meta"][LEVEL].as_str().map(str::to_owned)).collect()
}

fn levels_set(stage: &Stage) -> Vec<Value> {
    stage.params_of("logging/setLevel").into_iter().map(|mut params| params["level"].take()).collect()
}

fn echo(meta: Value) -> Value {
    json!({"name": "echo", "arguments": {}, "_meta": meta})
}

async fn a_level_is_told_and_remembered(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    caller.call("echo", json!({})).await;
    let answer = caller.ask("logging/setLevel", json!({"level": "warning"})).await;
    assert!(answer["result"].is_object(), "{answer}");
    caller.call("echo", json!({})).await;
    stage.server_exits(Exit::Status(3));
    caller.call("echo", json!({})).await;
    assert_eq!(stage.starts(), 2);
    let warning = Some("warning".to_owned());
    match era {
        Era::Legacy => {
            assert_eq!(levels_set(&stage), ["warning", "warning"], "each server is told");
            assert_eq!(told(&stage), [None, None, None]);
            let again: Vec<String> = stage.methods().into_iter().rev().take(3).collect();
            assert_eq!(again, ["tools/call", "logging/setLevel", "notifications/initialized"]);
        }
        Era::Modern => {
            assert_eq!(levels_set(&stage), [] as [Value; 0]);
            assert_eq!(told(&stage), [None, warning.clone(), warning]);
        }
    }
    // For now only.
    let params = json!({"level": "emergency", "_meta": {"dev.drowse/forget": true}});
    caller.ask("logging/setLevel", params).await;
    stage.server_exits(Exit::Status(3));
    caller.call("echo", json!({})).await;
    assert_eq!(told(&stage).last(), Some(&None));
    if era == Era::Legacy {
        assert_eq!(levels_set(&stage), ["warning", "warning", "emergency"]);
        assert_eq!(stage.params_of("logging/setLevel").pop().unwrap()["_meta"], json!({}));
    }
}

async fn a_level_of_the_session_is_told_from_the_start(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge_with(sleepy(), |config| config.log_level = Some(Level::Info));
    let ready = stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    caller.call("echo", json!({})).await;
    match era {
        Era::Legacy => assert_eq!(levels_set(&stage), ["info"]),
        Era::Modern => assert_eq!(told(&stage), [Some("info".to_owned())]),
    }
    assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
}

async fn levels_that_are_refused_are_not_remembered(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(sleepy());
    let ready = stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    sleep(Duration::from_secs(1)).await;
    for params in [json!({"level": "loud"}), json!({"level": 7}), json!({})] {
        let answer = caller.ask("logging/setLevel", params).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    assert_eq!(levels_set(&stage), [] as [Value; 0], "refused without the server");
    assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
    if era == Era::Legacy {
        let hub = stage.bridge(sleepy());
        let mut caller = Caller::connect(&hub).await;
        let answer = caller.ask("logging/setLevel", json!({"level": "alert"})).await;
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        stage.server_exits(Exit::Status(3));
        caller.call("echo", json!({})).await;
        assert_eq!(levels_set(&stage), ["alert"]);
    }
}

async fn a_server_without_a_log_is_told_no_level(peer: Peer) {
    for has_log in [false, true] {
        let stage = Stage::new(Script { announces_nothing: !has_log, ..Script::of(peer) });
        let hub = stage.bridge_with(sleepy(), |config| config.log_level = Some(Level::Info));
        stage.ready().await;
        let (mut old, _) = Caller::legacy(&hub, "2025-11-25", json!({})).await;
        old.plain(&json!(1), "logging/setLevel", json!({"level": "debug"})).await;
        assert_eq!(old.answer(&json!(1)).await["result"], json!({}));
        let mut new = Caller::connect(&hub).await;
        new.ask("tools/call", echo(json!({LEVEL: "notice"}))).await;
        let told = if has_log && peer.era() == Era::Legacy { vec!["info", "debug"] } else { Vec::new() };
        assert_eq!(levels_set(&stage), told);
    }
}

async fn a_request_may_want_more_and_not_less(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge_with(sleepy(), |config| config.log_level = Some(Level::Warning));
    stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    for own in ["debug", "error", "loud"] {
        caller.ask("tools/call", echo(json!({LEVEL: own}))).await;
    }
    let wanted = match era {
        // What a legacy server is not to see.
        Era::Legacy => [None, None, None],
        Era::Modern => [Some("debug".into()), Some("warning".into()), Some("loud".into())],
    };
    assert_eq!(told(&stage), wanted);
    // It is told the most that anybody wants instead, for as long as who wants it is there.
    drop(caller);
    sleep(Duration::from_secs(1)).await;
    let levels = if era == Era::Legacy { vec!["warning", "debug", "warning"] } else { Vec::new() };
    assert_eq!(levels_set(&stage), levels);
}

async fn messages_go_into_the_log_and_to_who_wants_them(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    let (mut one, mut other) = (Caller::connect(&hub).await, Caller::connect(&hub).await);
    let mut calls = Vec::new();
    for level in ["warning", "error"] {
        let params =
            json!({"name": "slow", "arguments": {"seconds": 1.0, "tag": level}, "_meta": {LEVEL: level}});
        calls.push(one.send("tools/call", params).await);
    }
    let unasked = other.start("slow", json!({"seconds": 1.0, "tag": "x"})).await;
    stage.until(|stage| stage.runs("x") == 1 && stage.runs("error") == 1).await;
    let message = |level: &str| {
        let params = json!({"level": level, "logger": "l", "data": {"of": level}});
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
    };
    for level in ["info", "warning", "critical"] {
        stage.server_says(&message(level));
    }
    for call in &calls {
        one.answer(call).await;
    }
    other.answer(&unasked).await;
    // Nobody is there any more who could want it.
    stage.server_says(&message("emergency"));
    one.call("echo", json!({})).await;
    // Each once, though two calls wanted the last one; and as it came.
    assert_eq!(
        [one.receive().await, one.receive().await],
        [Some(message("warning")), Some(message("critical"))]
    );
    assert_eq!(
        stage.logged(),
        ["info", "warning", "critical", "emergency"]
            .map(|level| format!(r#"[{level}] l: {{"of":"{level}"}}"#))
    );
    drop((one, other));
    sleep(2 * IDLE).await;
    assert_eq!(hub.state(), PublicState::Idle);
}
