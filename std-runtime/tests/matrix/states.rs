//! Every state by its name, as the bridge reports it and writes it down, and how it is left.

use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::{Exit, Lost, PublicState, table};
use drowse_core::server::Config;
use drowse_runtime::bridge::Hub;
use drowse_runtime::record::{Settings, State};
use serde_json::json;
use tokio::time::sleep;

use super::keeping::Session;
use crate::bridge::{Caller, IDLE, Peer, Script, Stage, assert_at, failure, sleepy, with_idle};

in_both_eras! {
    connecting
    live
    idle
    reconnecting
    crashed
    crashed_at_the_start_again_and_again
    left_in_peace_is_idle_and_never_crashed
}

mod reached_both_ways {
    use super::*;

    over_both_transports! {
        disconnected
    }
}

mod behind_a_url {
    use super::*;

    over_both_transports! {
        session: Peer::Session;
        stateless: Peer::Stateless;
        modern: Peer::Modern;
        = {
            unauthorized
        }
    }
}

/// What the bridge says, which is what it wrote down.
async fn is(stage: &Stage, hub: &Hub, wanted: PublicState) {
    let status = Caller::connect(hub).await.ask("drowse/status", json!({})).await;
    assert_eq!(status["result"]["state"], wanted.name(), "{status}");
    assert_eq!((hub.state(), stage.states().last()), (wanted, Some(&wanted)));
}

/// Each change that was written down is a row of the table, or one that callers make in between.
fn were_in_the_table(stage: &Stage) {
    for pair in stage.states().windows(2) {
        let known = table::transitions().any(|way| [way.from, way.to] == pair);
        assert!(known, "{pair:?} of {:?}", stage.states());
    }
}

fn restarting() -> Config {
    let mut config = sleepy();
    config.lifecycle.auto_restart = true;
    config
}

#[test]
fn dormant() {
    let session = Session::new(Settings::default());
    let listed = session.listed();
    assert_eq!((listed.state, listed.bridge_pid), (State::Dormant, None));
    assert!(session.documents().is_empty(), "nothing was started");
}

async fn connecting(era: Era) {
    let stage = Stage::new(Script { boot: Duration::from_secs(30), ..Script::of(era) });
    let hub = stage.bridge(sleepy());
    sleep(Duration::from_secs(1)).await;
    is(&stage, &hub, PublicState::Connecting).await;
    stage.ready().await;
    were_in_the_table(&stage);
}

async fn live(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(sleepy());
    let ready = stage.ready().await;
    is(&stage, &hub, PublicState::Live).await;
    assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
    were_in_the_table(&stage);
}

async fn idle(era: Era) {
    let stage = Stage::new(Script { lingers: Duration::from_millis(1900), ..Script::of(era) });
    let hub = stage.bridge(restarting());
    stage.state(PublicState::Idle).await;
    // While the server is being ended, and after.
    is(&stage, &hub, PublicState::Idle).await;
    hub.retired().await;
    assert_eq!(stage.states().last(), Some(&PublicState::Idle));
    sleep(Duration::from_secs(86_400)).await;
    assert_eq!((stage.starts(), stage.states().last()), (1, Some(&PublicState::Idle)), "nothing wakes it");
    let hub = stage.bridge(restarting());
    Caller::connect(&hub).await.call("echo", json!({"tag": "next"})).await;
    is(&stage, &hub, PublicState::Live).await;
    were_in_the_table(&stage);
}

async fn disconnected(peer: Peer) {
    let stage = Stage::new(Script { ignores_keepalive: true, ..Script::of(peer) });
    let mut config = sleepy();
    config.keepalive = Some(Duration::from_secs(100));
    let hub = stage.bridge(config);
    let ready = stage.ready().await;
    stage.state(PublicState::Disconnected).await;
    is(&stage, &hub, PublicState::Disconnected).await;
    // An answer brings it back; the idle period runs on meanwhile.
    let mut caller = Caller::connect(&hub).await;
    caller.call("echo", json!({"tag": "a"})).await;
    is(&stage, &hub, PublicState::Live).await;
    let used = stage.elapsed();
    assert!(used > ready);
    assert_at(stage.state(PublicState::Idle).await, used + IDLE);
    were_in_the_table(&stage);
}

async fn reconnecting(era: Era) {
    let stage = Stage::new(Script { boot: Duration::from_secs(30), ..Script::of(era) });
    let hub = stage.bridge(restarting());
    stage.ready().await;
    Caller::connect(&hub).await.call("echo", json!({"tag": "a"})).await;
    stage.server_exits(Exit::Signal(9));
    stage.state(PublicState::Reconnecting).await;
    is(&stage, &hub, PublicState::Reconnecting).await;
    stage.ready().await;
    assert_eq!(stage.starts(), 2);
    were_in_the_table(&stage);
}

async fn crashed(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    let call = caller.start("never", json!({"tag": "a"})).await;
    stage.until(|stage| stage.runs("a") == 1).await;
    let exited = stage.elapsed();
    stage.server_exits(Exit::Status(3));
    assert_eq!(failure(&caller.answer(&call).await), ("server-lost", "unknown"));
    assert_at(stage.elapsed(), exited);
    hub.retired().await;
    let (_, last) = stage.records().last().cloned().unwrap();
    assert_eq!(last.record.state, PublicState::Crashed);
    assert!(last.message.is_some_and(|message| message.contains("exit status 3")));
    let hub = stage.bridge(sleepy());
    Caller::connect(&hub).await.call("echo", json!({"tag": "next"})).await;
    assert_eq!((stage.runs("a"), stage.runs("next")), (1, 1));
    were_in_the_table(&stage);
}

/// A server that dies at every start is started five times, and then not for 30 s.
async fn crashed_at_the_start_again_and_again(era: Era) {
    let dies_on = Some(if era == Era::Legacy { "initialize" } else { "server/discover" });
    let stage = Stage::new(Script { dies_on, ..Script::of(era) });
    let mut config = restarting();
    config.remembered = Some(era);
    config.lifecycle.idle = None;
    let hub = stage.bridge(config);
    sleep(Duration::from_secs(20)).await;
    let starts = stage.starts();
    // Five attempts. Who dies on the probe may be a legacy server, so each is up to two processes.
    assert_eq!(stage.records().last().map(|(_, facts)| facts.crashes.len()), Some(5));
    assert!((5..=10).contains(&starts), "{starts}");
    let mut caller = Caller::connect(&hub).await;
    let refused = stage.elapsed();
    let answer = caller.ask("tools/call", json!({"name": "echo", "arguments": {"tag": "x"}})).await;
    assert_eq!(failure(&answer), ("backing-off", "no"), "{answer}");
    assert_at(stage.elapsed(), refused);
    assert!(answer["error"]["data"]["drowse"]["retryAt"].is_u64(), "{answer}");
    assert_eq!((hub.state(), stage.starts()), (PublicState::Crashed, starts));
    // It closes again by itself.
    sleep(Duration::from_secs(31)).await;
    assert!(stage.starts() > starts);
    assert_eq!(stage.runs("x"), 0);
    were_in_the_table(&stage);
}

async fn left_in_peace_is_idle_and_never_crashed(era: Era) {
    for closes_first in [false, true] {
        let stage = Stage::new(Script::of(era));
        let hub = stage.bridge(sleepy());
        stage.ready().await;
        sleep(Duration::from_secs(60)).await;
        if closes_first {
            stage.process().close_output();
            sleep(Duration::from_millis(100)).await;
            assert_ne!(hub.state(), PublicState::Crashed);
        }
        stage.server_exits(Exit::Status(0));
        hub.retired().await;
        let states = stage.states();
        assert_eq!(states.last(), Some(&PublicState::Idle), "{closes_first}: {states:?}");
        assert!(!states.contains(&PublicState::Crashed), "{closes_first}: {states:?}");
        were_in_the_table(&stage);
    }
}

async fn unauthorized(peer: Peer) {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.bridge(restarting());
    stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    stage.site().take_next("tools/call", |_, respond| respond.whole(401, &[], ""));
    let answer = caller.ask("tools/call", json!({"name": "echo", "arguments": {"tag": "x"}})).await;
    assert_eq!(failure(&answer), ("unauthorized", "no"), "{answer}");
    hub.retired().await;
    assert_eq!(stage.states().last(), Some(&PublicState::Unauthorized));
    // Nothing in the background tries again; a new bridge, as a new `-H` or `restart` brings it, does.
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(stage.starts(), 1);
    let hub = stage.bridge(restarting());
    Caller::connect(&hub).await.call("echo", json!({"tag": "y"})).await;
    assert_eq!((stage.runs("x"), stage.runs("y")), (0, 1));
    were_in_the_table(&stage);
}

#[test]
fn expired() {
    crate::bridge::play(async || {
        // With an idle timeout and nothing in flight the server only beat the timer to the same end.
        for (idle, wanted) in [(None, PublicState::Expired), (Some(IDLE), PublicState::Idle)] {
            let stage = Stage::new(Script::of(Peer::Session));
            let hub = stage.bridge(with_idle(idle));
            stage.ready().await;
            sleep(Duration::from_secs(60)).await;
            stage.site().forget();
            stage.site().end_stream();
            hub.retired().await;
            assert_eq!(stage.states().last(), Some(&wanted));
            let hub = stage.bridge_with(with_idle(idle), |config| {
                config.lost = (wanted == PublicState::Expired).then_some(Lost::Expired);
            });
            let mut caller = Caller::connect(&hub).await;
            caller.call("echo", json!({"tag": "next"})).await;
            let mut told = false;
            let id = caller.send("drowse/status", json!({})).await;
            while let Some(message) = caller.receive().await {
                told |= message["method"] == "notifications/drowse/renewed";
                if message["id"] == id {
                    break;
                }
            }
            assert_eq!(told, wanted == PublicState::Expired, "who calls next is told that state is gone");
            were_in_the_table(&stage);
        }
    });
}
