//! Pending tasks defer the idle deadline, until their end was seen.

use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::{Exit, PublicState};
use drowse_runtime::bridge::Hub;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::{Caller, IDLE, Script, Stage, assert_at, sleepy};

in_both_eras! {
    a_task_pends_until_its_time_is_over
    without_a_limit_it_pends_for_a_day
    its_end_is_seen_in_what_a_caller_asks
    its_end_is_seen_in_a_notification
    what_is_no_end_ends_nothing
    all_of_several_have_to_end
    they_end_with_their_server
    tasks_that_nobody_asked_for_defer_nothing
    operations_on_tasks_count
}

const HOUR: Duration = Duration::from_secs(3600);

/// The params of a call that may be answered with a task.
pub(super) fn task(era: Era, id: &str, ttl: Value) -> Value {
    let mut params = json!({"name": "task", "arguments": {"id": id, "ttl": ttl}});
    match era {
        Era::Legacy => params["task"] = json!({}),
        Era::Modern => {
            params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": {
                "extensions": {"io.modelcontextprotocol/tasks": {}},
            }});
        }
    }
    params
}

/// A bridge whose server has just been given tasks of these names, without a limit.
async fn with_tasks(era: Era, names: &[&str]) -> (Stage, Hub, Caller) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    for name in names {
        let answer = caller.ask("tools/call", task(era, name, Value::Null)).await;
        assert!(answer.get("result").is_some(), "{answer}");
    }
    (stage, hub, caller)
}

/// That nothing sleeps before the next hour is over.
async fn still_awake(stage: &Stage, hub: &Hub) {
    sleep(HOUR).await;
    assert_eq!((hub.state(), stage.starts()), (PublicState::Live, 1));
}

/// That the server falls asleep a full period from now.
async fn sleeps_from_now(stage: &Stage, hub: &Hub) {
    let now = stage.elapsed();
    assert_eq!(hub.state(), PublicState::Live);
    assert_at(stage.state(PublicState::Idle).await, now + IDLE);
    assert_eq!(stage.starts(), 1);
}

async fn a_task_pends_until_its_time_is_over(era: Era) {
    let (stage, hub, mut caller) = with_tasks(era, &[]).await;
    let created = stage.elapsed();
    caller.ask("tools/call", task(era, "a", json!(7_200_000))).await;
    still_awake(&stage, &hub).await;
    assert_at(stage.state(PublicState::Idle).await, created + 2 * HOUR + IDLE);
}

async fn without_a_limit_it_pends_for_a_day(era: Era) {
    let (stage, hub, mut caller) = with_tasks(era, &["a"]).await;
    still_awake(&stage, &hub).await;
    caller.ask("tasks/get", json!({"taskId": "a"})).await;
    let heard = stage.elapsed();
    assert_at(stage.state(PublicState::Idle).await, heard + 24 * HOUR + IDLE);
}

async fn its_end_is_seen_in_what_a_caller_asks(era: Era) {
    for status in ["completed", "failed", "cancelled"] {
        let (stage, hub, mut caller) = with_tasks(era, &["a"]).await;
        still_awake(&stage, &hub).await;
        stage.task_goes("a", status);
        still_awake(&stage, &hub).await;
        caller.ask("tasks/get", json!({"taskId": "a"})).await;
        sleeps_from_now(&stage, &hub).await;
    }
    let legacy = ["tasks/result", "tasks/cancel", "tasks/list"];
    for method in if era == Era::Legacy { &legacy[..] } else { &["tasks/cancel"] } {
        let (stage, hub, mut caller) = with_tasks(era, &["a"]).await;
        still_awake(&stage, &hub).await;
        if *method == "tasks/list" {
            stage.task_goes("a", "completed");
        }
        let answer = caller.ask(method, json!({"taskId": "a"})).await;
        assert!(answer.get("result").is_some(), "{answer}");
        sleeps_from_now(&stage, &hub).await;
    }
}

async fn its_end_is_seen_in_a_notification(era: Era) {
    let (stage, hub, _caller) = with_tasks(era, &["a"]).await;
    let method = if era == Era::Legacy { "notifications/tasks/status" } else { "notifications/tasks" };
    let say = |id: &str, status: &str| {
        let params = json!({"taskId": id, "status": status});
        stage.server_says(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    };
    still_awake(&stage, &hub).await;
    say("a", "input_required");
    say("b", "completed");
    still_awake(&stage, &hub).await;
    say("a", "completed");
    sleeps_from_now(&stage, &hub).await;
}

async fn what_is_no_end_ends_nothing(era: Era) {
    let (stage, hub, mut caller) = with_tasks(era, &["a"]).await;
    stage.task_goes("a", "input_required");
    caller.ask("tasks/get", json!({"taskId": "a"})).await;
    // Of another task; and what the server does not do says nothing of any.
    for (method, code) in [("tasks/get", -32602), ("tasks/nonsense", -32602)] {
        let answer = caller.ask(method, json!({"taskId": "b"})).await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    let update = caller.ask("tasks/update", json!({"taskId": "a", "inputResponses": {}})).await;
    assert_eq!(update.get("error").is_some(), era == Era::Legacy, "{update}");
    still_awake(&stage, &hub).await;
    // One that the server has forgotten is over.
    stage.process().forget_tasks();
    caller.ask("tasks/get", json!({"taskId": "a"})).await;
    sleeps_from_now(&stage, &hub).await;
}

async fn all_of_several_have_to_end(era: Era) {
    let (stage, hub, mut caller) = with_tasks(era, &["a", "b", "c"]).await;
    for (id, last) in [("b", false), ("a", false), ("c", true)] {
        still_awake(&stage, &hub).await;
        stage.task_goes(id, "completed");
        caller.ask("tasks/get", json!({"taskId": id})).await;
        if last {
            sleeps_from_now(&stage, &hub).await;
        }
    }
}

async fn they_end_with_their_server(era: Era) {
    let (stage, hub, mut caller) = with_tasks(era, &["a", "b"]).await;
    still_awake(&stage, &hub).await;
    // With work under way it is a crash, whatever its status.
    stage.server_exits(Exit::Status(0));
    stage.state(PublicState::Crashed).await;
    hub.retired().await;
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    let mut again = Caller::connect(&hub).await;
    let answer = again.ask("tasks/get", json!({"taskId": "a"})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let now = stage.elapsed();
    assert_at(stage.state(PublicState::Idle).await, now + IDLE);
    // The same within one bridge: what waits is for the next server.
    let (stage, hub, mut other) = with_tasks(era, &["a"]).await;
    stage.server_exits(Exit::Status(3));
    let answer = other.ask("tools/call", json!({"name": "echo", "arguments": {"tag": "x"}})).await;
    assert!(answer.get("result").is_some(), "{answer}");
    assert_eq!(stage.starts(), 2);
    let now = stage.elapsed();
    assert_at(stage.state(PublicState::Idle).await, now + IDLE);
    hub.retired().await;
    drop(caller.receive().await);
}

async fn tasks_that_nobody_asked_for_defer_nothing(era: Era) {
    let (stage, hub, mut caller) = with_tasks(era, &[]).await;
    // By a caller that is not prepared for one, and of others.
    let params = json!({"name": "task", "arguments": {"id": "a"}});
    caller.ask("tools/call", params).await;
    caller.ask("tasks/get", json!({"taskId": "a"})).await;
    sleeps_from_now(&stage, &hub).await;
}

async fn operations_on_tasks_count(era: Era) {
    let (stage, hub, mut caller) = with_tasks(era, &[]).await;
    for method in ["tasks/get", "tasks/list", "tasks/nonsense"] {
        sleep(IDLE / 2).await;
        caller.ask(method, json!({"taskId": "a"})).await;
    }
    sleeps_from_now(&stage, &hub).await;
}
