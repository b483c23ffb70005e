//! Subscriptions through the bridge: what a client is told, what the server is asked, and what keeps it awake.

use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::{Exit, PublicState};
use drowse_core::server::Config;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::{Caller, IDLE, Script, Stage, assert_at, failure, sleepy};

in_both_eras! {
    the_acknowledgement_comes_first_and_has_the_clients_own_id
    each_client_hears_its_own
    the_server_is_asked_once_for_what_several_want
    subscribe_and_unsubscribe_in_quick_succession
    resources_keep_the_server_awake_and_a_full_period_follows
    lists_neither_start_nor_keep_awake
    who_subscribes_while_the_server_is_being_ended_gets_the_next_one
    a_cancelled_subscription_is_not_answered
    the_end_of_a_connection_is_the_end_of_its_subscriptions
    a_refusal_is_the_servers_own
    a_server_that_announces_nothing
    one_that_cannot_be_started_fails_the_request
    the_end_of_the_bridge_is_a_graceful_one
    a_server_that_was_restarted_is_asked_again
    a_hundred_restarts_leave_nothing_behind
    a_slow_client_is_told_once
    what_is_wrong_with_a_filter_is_said
    nobody_takes_all_the_room_for_subscriptions
    subscriptions_that_wait_for_the_server_leave_room_for_others
}

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const A_WHILE: Duration = Duration::from_millis(50);

fn to(uris: &[&str]) -> Value {
    json!({"notifications": {"resourceSubscriptions": uris}})
}

async fn awake(era: Era) -> (Stage, drowse_runtime::bridge::Hub) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    (stage, hub)
}

/// Subscribes and waits for the acknowledgement.
pub(super) async fn subscribe(caller: &mut Caller, uris: &[&str]) -> Value {
    let id = caller.send("subscriptions/listen", to(uris)).await;
    let ack = caller.receive().await.unwrap();
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged", "{ack}");
    assert_eq!(ack["params"]["_meta"][SUBSCRIPTION], id);
    assert_eq!(ack["params"]["notifications"]["resourceSubscriptions"], json!(uris));
    id
}

fn updated(id: &Value, uri: &str) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/resources/updated",
        "params": {"_meta": {SUBSCRIPTION: id}, "uri": uri},
    })
}

async fn the_acknowledgement_comes_first_and_has_the_clients_own_id(era: Era) {
    let (stage, hub) = awake(era).await;
    let mut caller = Caller::connect(&hub).await;
    for id in [json!("listen:0"), json!(0), json!("ü")] {
        let filter =
            json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["a:1"]});
        caller.send_as(&id, "subscriptions/listen", json!({"notifications": filter})).await;
        let ack = caller.receive().await.unwrap();
        assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(ack["params"]["_meta"][SUBSCRIPTION], id);
        assert_eq!(
            ack["params"]["notifications"],
            json!({"toolsListChanged": true, "resourceSubscriptions": ["a:1"]}),
            "what the server can announce"
        );
        sleep(A_WHILE).await;
        stage.process().update("a:1");
        assert_eq!(caller.receive().await.unwrap(), updated(&id, "a:1"));
        stage.process().change_tools();
        let changed = caller.receive().await.unwrap();
        assert_eq!(changed["method"], "notifications/tools/list_changed");
        assert_eq!(changed["params"]["_meta"][SUBSCRIPTION], id);
        caller.notify("notifications/cancelled", json!({"requestId": id})).await;
        sleep(A_WHILE).await;
    }
}

async fn each_client_hears_its_own(era: Era) {
    let (stage, hub) = awake(era).await;
    let (mut one, mut two) = (Caller::connect(&hub).await, Caller::connect(&hub).await);
    let first = subscribe(&mut one, &["a:1", "a:2"]).await;
    let second = subscribe(&mut two, &["a:2", "a:3"]).await;
    let third = subscribe(&mut two, &["a:3"]).await;
    sleep(A_WHILE).await;
    for uri in ["a:1", "a:2", "a:3", "a:4"] {
        stage.process().update(uri);
    }
    stage.process().change_tools();
    sleep(A_WHILE).await;
    assert_eq!(
        one.ask("drowse/status", json!({})).await["result"]["subscriptions"],
        json!(["a:1", "a:2", "a:3"])
    );
    assert_eq!(one.receive().await.unwrap(), updated(&first, "a:1"));
    assert_eq!(one.receive().await.unwrap(), updated(&first, "a:2"));
    let mut heard = Vec::new();
    for _ in 0..3 {
        heard.push(two.receive().await.unwrap());
    }
    for update in [updated(&second, "a:2"), updated(&second, "a:3"), updated(&third, "a:3")] {
        assert!(heard.contains(&update), "{heard:?}");
    }
    for caller in [&mut one, &mut two] {
        caller.ask("drowse/status", json!({})).await;
        assert!(tokio::time::timeout(IDLE / 2, caller.receive()).await.is_err(), "and nothing else");
    }
}

async fn the_server_is_asked_once_for_what_several_want(era: Era) {
    let (stage, hub) = awake(era).await;
    let mut callers = Vec::new();
    for _ in 0..3 {
        let mut caller = Caller::connect(&hub).await;
        subscribe(&mut caller, &["a:1"]).await;
        callers.push(caller);
    }
    let asked = stage.got("resources/subscribe").len() + stage.got("subscriptions/listen").len();
    assert_eq!(asked, 1);
    callers.truncate(1);
    sleep(A_WHILE).await;
    assert_eq!(stage.process().subscriptions(), ["a:1"]);
    callers.clear();
    sleep(A_WHILE).await;
    assert_eq!((stage.process().subscriptions(), stage.process().open_streams()), (Vec::new(), 0));
}

async fn subscribe_and_unsubscribe_in_quick_succession(era: Era) {
    let (stage, hub) = awake(era).await;
    let mut caller = Caller::connect(&hub).await;
    for last in [false, true, false, true] {
        let mut id = Value::Null;
        for _ in 0..20 {
            id = caller.send("subscriptions/listen", to(&["a:1"])).await;
            caller.notify("notifications/cancelled", json!({"requestId": id})).await;
        }
        if last {
            id = caller.send("subscriptions/listen", to(&["a:1"])).await;
        }
        sleep(Duration::from_secs(1)).await;
        assert_eq!(stage.process().subscriptions(), if last { vec!["a:1"] } else { vec![] });
        stage.process().update("a:1");
        sleep(A_WHILE).await;
        caller.ask("drowse/status", json!({})).await;
        let mut updates = 0;
        while let Ok(Some(message)) = tokio::time::timeout(A_WHILE, caller.receive()).await {
            updates += usize::from(message == updated(&id, "a:1"));
        }
        assert_eq!(updates, usize::from(last));
        caller.notify("notifications/cancelled", json!({"requestId": id})).await;
        sleep(A_WHILE).await;
    }
}

async fn resources_keep_the_server_awake_and_a_full_period_follows(era: Era) {
    let (stage, hub) = awake(era).await;
    let mut caller = Caller::connect(&hub).await;
    let id = subscribe(&mut caller, &["a:1"]).await;
    sleep(IDLE * 10).await;
    assert_eq!(hub.state(), PublicState::Live);
    caller.notify("notifications/cancelled", json!({"requestId": id})).await;
    sleep(A_WHILE).await;
    let ended = stage.elapsed();
    assert_at(stage.state(PublicState::Idle).await, ended - A_WHILE + IDLE);
}

async fn lists_neither_start_nor_keep_awake(era: Era) {
    let (stage, hub) = awake(era).await;
    let ready = stage.elapsed();
    let mut caller = Caller::connect(&hub).await;
    sleep(IDLE / 2).await;
    let id = caller.send("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})).await;
    let ack = caller.receive().await.unwrap();
    assert_eq!(ack["params"]["notifications"], json!({"toolsListChanged": true}));
    sleep(IDLE / 4).await;
    stage.process().change_tools();
    assert_eq!(caller.receive().await.unwrap()["method"], "notifications/tools/list_changed");
    assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
    // What it wants while the server is being ended starts nothing.
    let end = caller.answer(&id).await;
    assert_eq!(end["result"]["_meta"][SUBSCRIPTION], id);
    hub.retired().await;
    assert_eq!(stage.starts(), 1);
}

async fn who_subscribes_while_the_server_is_being_ended_gets_the_next_one(era: Era) {
    let stage = Stage::new(Script { lingers: Duration::from_millis(1900), ..Script::of(era) });
    let hub = stage.bridge(sleepy());
    let mut caller = Caller::connect(&hub).await;
    stage.state(PublicState::Idle).await;
    sleep(Duration::from_millis(100)).await;
    let mut other = Caller::connect(&hub).await;
    let lists =
        other.send("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})).await;
    assert_eq!(other.receive().await.unwrap()["params"]["_meta"][SUBSCRIPTION], lists);
    assert_eq!(hub.state(), PublicState::Idle, "needs no server");
    let id = subscribe(&mut caller, &["a:1"]).await;
    assert_eq!(stage.starts(), 2);
    stage.process().update("a:1");
    assert_eq!(caller.receive().await.unwrap(), updated(&id, "a:1"));
    let changed = other.receive().await.unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed", "another server, other lists");
}

async fn a_cancelled_subscription_is_not_answered(era: Era) {
    let (_stage, hub) = awake(era).await;
    let mut caller = Caller::connect(&hub).await;
    let id = subscribe(&mut caller, &["a:1"]).await;
    caller.notify("notifications/cancelled", json!({"requestId": id})).await;
    caller.ask("drowse/status", json!({})).await;
    assert!(tokio::time::timeout(IDLE / 2, caller.receive()).await.is_err());
}

async fn the_end_of_a_connection_is_the_end_of_its_subscriptions(era: Era) {
    let (stage, hub) = awake(era).await;
    let mut caller = Caller::connect(&hub).await;
    subscribe(&mut caller, &["a:1"]).await;
    // One whose acknowledgement has not come.
    caller.send("subscriptions/listen", to(&["a:2"])).await;
    drop(caller);
    let ended = stage.elapsed();
    sleep(A_WHILE).await;
    assert_eq!((stage.process().subscriptions(), stage.process().open_streams()), (Vec::new(), 0));
    assert_at(stage.state(PublicState::Idle).await, ended + IDLE);
}

async fn a_refusal_is_the_servers_own(era: Era) {
    let (stage, hub) = awake(era).await;
    let mut caller = Caller::connect(&hub).await;
    subscribe(&mut caller, &["a:1"]).await;
    for (uri, codes) in [("gone:1", [-32002, -32602]), ("shy:1", [-32603, -32603])] {
        let answer = caller.ask("subscriptions/listen", to(&[uri])).await;
        assert!(codes.contains(&answer["error"]["code"].as_i64().unwrap()), "{answer}");
        assert!(answer["error"].get("data").is_none(), "as the server put it");
    }
    sleep(Duration::from_secs(10)).await;
    assert_eq!(
        stage.process().subscriptions(),
        ["a:1"],
        "the others stay, and the refused one is not tried again"
    );
    let id = caller.send("subscriptions/listen", to(&["gone:1", "a:2"])).await;
    let ack = caller.receive().await.unwrap();
    assert_eq!(ack["params"]["_meta"][SUBSCRIPTION], id);
    assert_eq!(ack["params"]["notifications"]["resourceSubscriptions"], json!(["a:2"]));
}

async fn a_server_that_announces_nothing(era: Era) {
    let stage = Stage::new(Script { announces_nothing: true, ..Script::of(era) });
    let hub = stage.bridge(sleepy());
    let mut caller = Caller::connect(&hub).await;
    let answer = caller.ask("subscriptions/listen", to(&["a:1"])).await;
    assert_eq!(failure(&answer), ("unsupported", "no"));
    let id = caller.send("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})).await;
    let ack = caller.receive().await.unwrap();
    assert_eq!((&ack["params"]["_meta"][SUBSCRIPTION], &ack["params"]["notifications"]), (&id, &json!({})));
    let asked = stage.got("resources/subscribe").len() + stage.got("subscriptions/listen").len();
    assert_eq!(asked, 0);
}

async fn one_that_cannot_be_started_fails_the_request(era: Era) {
    let dies_on = Some(if era == Era::Legacy { "initialize" } else { "server/discover" });
    let stage = Stage::new(Script { boot: Duration::from_secs(5), dies_on, ..Script::of(era) });
    let hub = stage.bridge(sleepy());
    let mut caller = Caller::connect(&hub).await;
    let answer = caller.ask("subscriptions/listen", to(&["a:1"])).await;
    assert_eq!(failure(&answer), ("start-failed", "no"));
}

async fn the_end_of_the_bridge_is_a_graceful_one(era: Era) {
    let (stage, hub) = awake(era).await;
    let mut caller = Caller::connect(&hub).await;
    let id = subscribe(&mut caller, &["a:1"]).await;
    stage.server_exits(Exit::Status(1));
    let end = caller.receive().await.unwrap();
    assert_eq!(end["id"], id);
    assert_eq!(end["result"], json!({"resultType": "complete", "_meta": {SUBSCRIPTION: id}}));
    let goodbye = caller.receive().await.unwrap();
    assert_eq!(goodbye["method"], "notifications/drowse/goaway");
    hub.retired().await;
}

fn restarting() -> Config {
    let mut config = sleepy();
    config.lifecycle.auto_restart = true;
    config
}

async fn a_server_that_was_restarted_is_asked_again(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(restarting());
    let mut caller = Caller::connect(&hub).await;
    let id = subscribe(&mut caller, &["a:1", "a:2"]).await;
    stage.server_exits(Exit::Status(1));
    let mut heard = [caller.receive().await.unwrap(), caller.receive().await.unwrap()];
    heard.sort_by_key(|message| message["params"]["uri"].as_str().unwrap().to_owned());
    assert_eq!(heard, [updated(&id, "a:1"), updated(&id, "a:2")], "they may have changed meanwhile");
    assert_eq!((stage.starts(), stage.process().subscriptions()), (2, vec!["a:1".into(), "a:2".into()]));
    stage.process().update("a:1");
    assert_eq!(caller.receive().await.unwrap(), updated(&id, "a:1"));
    if era == Era::Modern {
        stage.process().end_streams();
        assert_eq!(caller.receive().await.unwrap()["method"], "notifications/resources/updated");
        assert_eq!(stage.process().open_streams(), 1, "a stream that ends is opened again");
    }
}

async fn a_hundred_restarts_leave_nothing_behind(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(restarting());
    let mut caller = Caller::connect(&hub).await;
    let id = subscribe(&mut caller, &["a:1"]).await;
    for round in 1..=100 {
        stage.server_exits(Exit::Status(1));
        assert_eq!(caller.receive().await.unwrap(), updated(&id, "a:1"));
        assert_eq!((stage.starts(), stage.process().subscriptions()), (round + 1, vec!["a:1".into()]));
        sleep(Duration::from_secs(120)).await;
    }
    assert_eq!(stage.process().open_streams(), usize::from(era == Era::Modern));
    let asked = stage.got("resources/subscribe").len() + stage.got("subscriptions/listen").len();
    assert_eq!(asked, 101);
    caller.notify("notifications/cancelled", json!({"requestId": id})).await;
    sleep(A_WHILE).await;
    let status = caller.ask("drowse/status", json!({})).await;
    assert_eq!(status["result"]["subscriptions"], json!([]));
    stage.state(PublicState::Idle).await;
}

async fn a_slow_client_is_told_once(era: Era) {
    let (stage, hub) = awake(era).await;
    let (mut slow, mut quick) = (Caller::connect(&hub).await, Caller::connect(&hub).await);
    let id = subscribe(&mut slow, &["a:1"]).await;
    let other = subscribe(&mut quick, &["a:1"]).await;
    const UPDATES: usize = 5_000;
    for _ in 0..UPDATES {
        stage.process().update("a:1");
        assert_eq!(quick.receive().await.unwrap(), updated(&other, "a:1"));
    }
    let mut told = 0;
    while let Ok(Some(message)) = tokio::time::timeout(A_WHILE, slow.receive()).await {
        assert_eq!(message, updated(&id, "a:1"));
        told += 1;
    }
    // Two pipes' worth, and the one that stands for all that came later.
    assert!((2..UPDATES / 2).contains(&told), "{told}");
    stage.process().update("a:1");
    assert_eq!(slow.receive().await.unwrap(), updated(&id, "a:1"));
}

async fn what_is_wrong_with_a_filter_is_said(era: Era) {
    let (_stage, hub) = awake(era).await;
    let mut caller = Caller::connect(&hub).await;
    for filter in
        [json!(null), json!([]), json!({"resourceSubscriptions": "a"}), json!({"toolsListChanged": 1})]
    {
        let answer = caller.ask("subscriptions/listen", json!({"notifications": filter})).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    let many: Vec<String> = (0..5_000).map(|number| format!("a:{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let answer = caller.ask("subscriptions/listen", to(&many)).await;
    assert_eq!(failure(&answer), ("busy", "no"));
    let said = answer["error"]["message"].as_str().unwrap();
    assert!(said.contains("no room for 5000 more subscriptions: of the 4096"), "{said}");
    subscribe(&mut caller, &many[..200]).await;
}

async fn nobody_takes_all_the_room_for_subscriptions(era: Era) {
    let (stage, hub) = awake(era).await;
    let many: Vec<String> = (0..4_096).map(|number| format!("a:{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut greedy = Caller::connect(&hub).await;
    subscribe(&mut greedy, &many[..3_276]).await;
    // Those that name none count, too. Said twice is said once.
    let id = greedy.send("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})).await;
    assert_eq!(greedy.receive().await.unwrap()["params"]["_meta"][SUBSCRIPTION], id);
    let answer = greedy.ask("subscriptions/listen", to(&["a:1", "a:1"])).await;
    assert_eq!(failure(&answer), ("busy", "no"));
    let said = answer["error"]["message"].as_str().unwrap();
    assert!(said.contains("no room for another subscription: of the 4096 that there may be, 3277"), "{said}");
    // A client that ends some has room again.
    greedy.notify("notifications/cancelled", json!({"requestId": id})).await;
    sleep(A_WHILE).await;
    subscribe(&mut greedy, &["b:1"]).await;
    // Whoever else comes finds some, of either era, until there is none; and whoever comes then hears of lists.
    let (mut others, mut left) = (Vec::new(), 4_096 - 3_277);
    while left > 0 {
        let mut other = Caller::connect(&hub).await;
        // The last of its own comes while there is a quarter of those before it left.
        let share = (1..=left).rev().find(|count| count - 1 < 4 * (left - (count - 1))).unwrap();
        if share < left {
            let answer = other.ask("subscriptions/listen", to(&many[..=share])).await;
            assert_eq!(failure(&answer), ("busy", "no"), "{share} of {left}");
        }
        subscribe(&mut other, &many[..share]).await;
        left -= share;
        others.push(other);
    }
    let (mut late, _) = Caller::legacy(&hub, "2025-11-25", json!({})).await;
    sleep(A_WHILE).await;
    assert_eq!(late.waiting().await, None);
    stage.process().change_tools();
    assert_eq!(late.receive().await.unwrap()["method"], "notifications/tools/list_changed");
    late.plain(&json!("s"), "resources/subscribe", json!({"uri": "a:1"})).await;
    assert_eq!(failure(&late.answer(&json!("s")).await), ("busy", "no"));
    // What others gave back is there at once.
    drop(greedy);
    sleep(A_WHILE).await;
    late.plain(&json!("t"), "resources/subscribe", json!({"uri": "a:1"})).await;
    assert_eq!(late.answer(&json!("t")).await["result"], json!({}));
    stage.process().update("a:1");
    assert_eq!(late.receive().await.unwrap()["params"], json!({"uri": "a:1"}));
}

async fn subscriptions_that_wait_for_the_server_leave_room_for_others(era: Era) {
    let stage = Stage::new(Script { boot: Duration::from_secs(5), ..Script::of(era) });
    let hub = stage.bridge_with(sleepy(), |config| config.slots = 10);
    let (mut greedy, mut other) = (Caller::connect(&hub).await, Caller::connect(&hub).await);
    for _ in 0..20 {
        greedy.send("subscriptions/listen", to(&["a:1"])).await;
    }
    sleep(A_WHILE).await;
    let status = other.ask("drowse/status", json!({})).await;
    assert_eq!(status["result"]["inFlight"], 8, "{status}");
    // Those that waited for room go on with the others, whether or not anybody is answered.
    for _ in 0..20 {
        assert_eq!(greedy.receive().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    }
    let answer = other.call("echo", json!({"tag": "other"})).await;
    assert!(answer.get("result").is_some(), "{answer}");
}
