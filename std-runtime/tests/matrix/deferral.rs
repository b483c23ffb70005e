//! What keeps a server awake, in combination, and what the bridge says of it.

use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::PublicState;
use drowse_runtime::bridge::Hub;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::subscriptions::subscribe;
use super::tasks::task;
use crate::bridge::{Caller, IDLE, Script, Stage, assert_at, sleepy};

in_both_eras! {
    of_two_subscriptions_both_have_to_end
    a_task_and_a_subscription_both_have_to_end
    a_task_whose_time_passes_leaves_the_subscription
    what_is_left_of_a_client_that_was_killed_is_its_task
    operations_and_deferrals_in_any_order
    one_resource_for_several_is_said_once
}

const HOUR: Duration = Duration::from_secs(3600);
/// Until what was sent has been read.
const A_WHILE: Duration = Duration::from_millis(5);

async fn awake(era: Era) -> (Stage, Hub, Caller) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    let caller = Caller::connect(&hub).await;
    (stage, hub, caller)
}

async fn unsubscribe(caller: &mut Caller, id: &Value) {
    caller.notify("notifications/cancelled", json!({"requestId": id})).await;
    sleep(A_WHILE).await;
}

/// What it says of itself after an hour: awake, and why.
async fn awake_by(hub: &Hub, reasons: &[&str]) {
    sleep(HOUR).await;
    assert_eq!(hub.state(), PublicState::Live);
    let status = Caller::connect(hub).await.ask("drowse/status", json!({})).await["result"].clone();
    assert_eq!(status["deferredBy"], json!(reasons), "{status}");
    assert_eq!(status["idleInMs"], Value::Null, "{status}");
}

/// Nothing defers any more since `ended`: a full period runs from then.
async fn sleeps(stage: &Stage, hub: &Hub, ended: Duration) {
    let status = Caller::connect(hub).await.ask("drowse/status", json!({})).await["result"].clone();
    assert_eq!(status["deferredBy"], json!([]), "{status}");
    assert!(status["idleInMs"].as_u64().is_some_and(|left| left <= IDLE.as_millis() as u64), "{status}");
    assert_at(stage.state(PublicState::Idle).await, ended + IDLE);
    assert_eq!(stage.starts(), 1);
}

async fn of_two_subscriptions_both_have_to_end(era: Era) {
    for first in [0, 1] {
        let (stage, hub, mut caller) = awake(era).await;
        let mut other = Caller::connect(&hub).await;
        let ids = [subscribe(&mut caller, &["a:1"]).await, subscribe(&mut other, &["a:2"]).await];
        awake_by(&hub, &["a subscription to a:1", "a subscription to a:2"]).await;
        let callers = [&mut caller, &mut other];
        unsubscribe(callers[first], &ids[first]).await;
        awake_by(&hub, &[["a subscription to a:2", "a subscription to a:1"][first]]).await;
        let ended = stage.elapsed();
        unsubscribe(callers[1 - first], &ids[1 - first]).await;
        sleeps(&stage, &hub, ended).await;
    }
}

async fn a_task_and_a_subscription_both_have_to_end(era: Era) {
    for task_first in [false, true] {
        let (stage, hub, mut caller) = awake(era).await;
        let id = subscribe(&mut caller, &["a:1"]).await;
        caller.ask("tools/call", task(era, "t", Value::Null)).await;
        awake_by(&hub, &["a subscription to a:1", "the task t"]).await;
        let mut ended = Duration::ZERO;
        for step in [task_first, !task_first] {
            ended = stage.elapsed();
            if step {
                stage.task_goes("t", "completed");
                caller.ask("tasks/get", json!({"taskId": "t"})).await;
            } else {
                unsubscribe(&mut caller, &id).await;
            }
            if step == task_first {
                awake_by(&hub, &[if task_first { "a subscription to a:1" } else { "the task t" }]).await;
            }
        }
        sleeps(&stage, &hub, ended).await;
    }
}

async fn a_task_whose_time_passes_leaves_the_subscription(era: Era) {
    for subscribed in [true, false] {
        let (stage, hub, mut caller) = awake(era).await;
        let id = subscribe(&mut caller, &["a:1"]).await;
        let created = stage.elapsed();
        caller.ask("tools/call", task(era, "t", json!(5_400_000))).await;
        awake_by(&hub, &["a subscription to a:1", "the task t"]).await;
        if subscribed {
            awake_by(&hub, &["a subscription to a:1"]).await;
            let ended = stage.elapsed();
            unsubscribe(&mut caller, &id).await;
            sleeps(&stage, &hub, ended).await;
        } else {
            unsubscribe(&mut caller, &id).await;
            assert_at(stage.state(PublicState::Idle).await, created + HOUR + HOUR / 2 + IDLE);
        }
    }
}

async fn what_is_left_of_a_client_that_was_killed_is_its_task(era: Era) {
    let (stage, hub, mut caller) = awake(era).await;
    subscribe(&mut caller, &["a:1"]).await;
    caller.start("never", json!({"tag": "x"})).await;
    awake_by(&hub, &["a subscription to a:1"]).await;
    // Its call failed by its time-out meanwhile; this one is under way.
    caller.start("never", json!({"tag": "y"})).await;
    caller.ask("tools/call", task(era, "t", json!(5_400_000))).await;
    let created = stage.elapsed();
    drop(caller);
    awake_by(&hub, &["the task t"]).await;
    assert_at(stage.state(PublicState::Idle).await, created + HOUR + HOUR / 2 + IDLE);
    // Without a task nothing is left.
    let (stage, hub, mut caller) = awake(era).await;
    subscribe(&mut caller, &["a:1"]).await;
    caller.start("never", json!({"tag": "x"})).await;
    sleep(IDLE / 2).await;
    let ended = stage.elapsed();
    drop(caller);
    sleep(A_WHILE).await;
    sleeps(&stage, &hub, ended).await;
}

async fn operations_and_deferrals_in_any_order(era: Era) {
    let (stage, hub, mut caller) = awake(era).await;
    let id = subscribe(&mut caller, &["a:1"]).await;
    let slow = caller.start("slow", json!({"tag": "s", "seconds": 100.0})).await;
    sleep(A_WHILE).await;
    let status = Caller::connect(&hub).await.ask("drowse/status", json!({})).await["result"].clone();
    assert_eq!(status["deferredBy"], json!(["an operation in flight", "a subscription to a:1"]));
    unsubscribe(&mut caller, &id).await;
    let again = caller.start("never", json!({"tag": "n"})).await;
    sleep(A_WHILE).await;
    let status = Caller::connect(&hub).await.ask("drowse/status", json!({})).await["result"].clone();
    assert_eq!(status["deferredBy"], json!(["2 operations in flight"]));
    caller.answer(&slow).await;
    caller.notify("notifications/cancelled", json!({"requestId": again})).await;
    caller.answer(&again).await;
    let ended = stage.elapsed();
    sleeps(&stage, &hub, ended).await;
}

async fn one_resource_for_several_is_said_once(era: Era) {
    let (stage, hub, mut caller) = awake(era).await;
    let mut other = Caller::connect(&hub).await;
    let first = subscribe(&mut caller, &["a:1"]).await;
    let second = subscribe(&mut other, &["a:1"]).await;
    awake_by(&hub, &["a subscription to a:1"]).await;
    unsubscribe(&mut caller, &first).await;
    awake_by(&hub, &["a subscription to a:1"]).await;
    let ended = stage.elapsed();
    unsubscribe(&mut other, &second).await;
    sleeps(&stage, &hub, ended).await;
}
