//! When a server falls asleep, and what keeps it from it.

use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::{Exit, PublicState};
use drowse_core::server::Config;
use drowse_runtime::bridge::Hub;
use serde_json::json;
use tokio::time::sleep;

use crate::bridge::{Caller, Event, IDLE, Peer, Script, Stage, TICK, assert_at, sleepy, with_idle};

over_both_transports! {
    flag_omitted
    zero
    positive_and_no_activity
    operation_before_deadline_resets_on_completion
    operation_past_deadline_keeps_then_full_period
    concurrent_operations
    internal_keepalive_does_not_reset
    notification_or_refresh_does_not_reset
    explicit_ping_resets
    the_connect_itself_gets_a_full_period
    a_failed_operation_counts_until_it_fails
}

mod asleep {
    use super::*;

    over_both_transports! {
        lingering:
        next_command_after_idle_wakes
    }
}

const A_MONTH: Duration = Duration::from_secs(30 * 86_400);

/// A bridge whose server has just become ready; when that was.
async fn awake(peer: Peer, config: Config) -> (Stage, Hub, Duration) {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.bridge(config);
    let ready = stage.ready().await;
    (stage, hub, ready)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn never_sleeps(peer: Peer, idle: Option<Duration>) {
    let (stage, hub, _) = awake(peer, with_idle(idle)).await;
    let mut caller = Caller::connect(&hub).await;
    caller.call("echo", json!({"tag": "a"})).await;
    sleep(A_MONTH).await;
    assert_eq!(hub.state(), PublicState::Live);
    caller.call("echo", json!({"tag": "b"})).await;
    assert_eq!((stage.starts(), stage.runs("b")), (1, 1));
    assert_eq!(stage.states(), [PublicState::Connecting, PublicState::Live]);
}

async fn flag_omitted(peer: Peer) {
    never_sleeps(peer, None).await;
}

async fn zero(peer: Peer) {
    never_sleeps(peer, Some(Duration::ZERO)).await;
}

async fn positive_and_no_activity(peer: Peer) {
    let (stage, hub, ready) = awake(peer, sleepy()).await;
    let mut caller = Caller::connect(&hub).await;
    assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
    hub.retired().await;
    // Gracefully: its input ended, it left by itself, nobody had to tell it.
    let events = stage.events();
    let mut last: Vec<&Event> = events.iter().rev().map(|(_, event)| event).collect();
    // Who keeps nothing behind a URL is not told anything.
    last.truncate(if peer.can_linger() { 2 } else { 0 });
    let expected = [&Event::Exited(Exit::Status(0)), &Event::InputClosed];
    assert!(last.is_empty() || last == expected, "{events:?}");
    assert_eq!(events.iter().any(|(_, event)| *event == Event::InputClosed), peer.can_linger());
    assert!(!events.iter().any(|(_, event)| matches!(event, Event::Terminated | Event::Killed)));
    // A sleep, not a crash, from before the first step to after the last.
    assert_eq!(stage.states(), [PublicState::Connecting, PublicState::Live, PublicState::Idle]);
    let records = stage.records();
    let idle: Vec<bool> = records
        .iter()
        .filter(|(_, facts)| facts.record.state == PublicState::Idle)
        .map(|(_, facts)| facts.record.ended)
        .collect();
    assert_eq!(idle.first(), Some(&false), "written before anything was stopped");
    assert_eq!(idle.last(), Some(&true), "written once nothing was left");
    let (_, last) = records.last().unwrap();
    assert_eq!((last.crashes.len(), last.retry_at, last.message.as_deref()), (0, None, None));
    // Whoever was connected is told that nothing of his was left undone, then the connection ends.
    let goaway = caller.receive().await.unwrap();
    assert_eq!(goaway["method"], "notifications/drowse/goaway");
    assert_eq!(goaway["params"], json!({"last": 0}));
    assert_eq!(caller.receive().await, None);
}

async fn operation_before_deadline_resets_on_completion(peer: Peer) {
    let (stage, hub, ready) = awake(peer, sleepy()).await;
    let mut caller = Caller::connect(&hub).await;
    sleep(seconds(599)).await;
    let begun = stage.elapsed();
    assert!(begun < ready + IDLE);
    caller.call("slow", json!({"tag": "a", "seconds": 0.5})).await;
    let done = stage.elapsed();
    assert!(done >= begun + Duration::from_millis(500));
    // From the completion, not from the arrival.
    assert_at(stage.state(PublicState::Idle).await, done + IDLE);
    assert_eq!((stage.starts(), stage.runs("a")), (1, 1));
}

async fn operation_past_deadline_keeps_then_full_period(peer: Peer) {
    let config = sleepy();
    let (stage, hub, ready) = awake(peer, config).await;
    let mut caller = Caller::connect(&hub).await;
    sleep(seconds(590)).await;
    let call = caller.start("slow", json!({"tag": "a", "seconds": 250.0})).await;
    sleep(seconds(200)).await;
    assert!(stage.elapsed() > ready + IDLE, "the deadline it had is over");
    assert_eq!(hub.state(), PublicState::Live);
    let answer = caller.answer(&call).await;
    assert!(answer.get("result").is_some(), "{answer}");
    let done = stage.elapsed();
    assert_at(stage.state(PublicState::Idle).await, done + IDLE);
    assert_eq!((stage.starts(), stage.runs("a")), (1, 1));
}

async fn concurrent_operations(peer: Peer) {
    let (stage, hub, _) = awake(peer, sleepy()).await;
    let mut one = Caller::connect(&hub).await;
    let mut other = Caller::connect(&hub).await;
    let long = one.start("slow", json!({"tag": "long", "seconds": 290.0})).await;
    // A short one begins and ends while the long one is under way; neither its end nor the end of its connection
    // starts the clock.
    let short = other.start("slow", json!({"tag": "short", "seconds": 1.0})).await;
    other.answer(&short).await;
    drop(other);
    // And several at once on one connection, answered in another order.
    let middle = one.start("slow", json!({"tag": "middle", "seconds": 100.0})).await;
    one.answer(&middle).await;
    one.answer(&long).await;
    let done = stage.elapsed();
    assert_at(stage.state(PublicState::Idle).await, done + IDLE);
    assert_eq!([stage.runs("long"), stage.runs("short"), stage.runs("middle")], [1; 3]);
}

async fn internal_keepalive_does_not_reset(peer: Peer) {
    let config = Config { keepalive: Some(seconds(100)), ..sleepy() };
    let (stage, hub, _) = awake(peer, config).await;
    let mut caller = Caller::connect(&hub).await;
    caller.call("echo", json!({"tag": "a"})).await;
    let done = stage.elapsed();
    assert_at(stage.state(PublicState::Idle).await, done + IDLE);
    let question = if peer.era() == Era::Legacy { "ping" } else { "server/discover" };
    let asked = stage.got(question).into_iter().filter(|at| *at > done).count();
    assert!(asked >= 3, "only {asked} keepalives: {:?}", stage.methods());
    // Nor is it taken for the caller's business: no answer of a keepalive reached him.
    hub.retired().await;
    assert_eq!(caller.receive().await.unwrap()["method"], "notifications/drowse/goaway");
}

async fn notification_or_refresh_does_not_reset(peer: Peer) {
    let (stage, hub, _) = awake(peer, sleepy()).await;
    let mut caller = Caller::connect(&hub).await;
    caller.call("echo", json!({"tag": "a"})).await;
    let done = stage.elapsed();
    stage.saved().await;
    let before = stage.methods();
    let mut answered = 0;
    while stage.elapsed() + seconds(50) < done + IDLE {
        sleep(seconds(50)).await;
        // Whatever the server says by itself.
        for method in [
            "notifications/tools/list_changed",
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
            "notifications/resources/updated",
            "notifications/message",
            "notifications/progress",
            "notifications/no/such",
        ] {
            stage.server_says(&json!({"jsonrpc": "2.0", "method": method, "params": {"progressToken": 7}}));
        }
        // A request of its own that belongs to no call, and a line that is no message.
        stage.server_says(&json!({"jsonrpc": "2.0", "id": "s", "method": "roots/list"}));
        stage.server_says(&json!("garbage"));
        answered += 1;
        // And what a caller asks of the bridge itself.
        assert!(caller.ask("drowse/status", json!({})).await.get("result").is_some());
    }
    assert_eq!(answered, 11);
    assert_at(stage.state(PublicState::Idle).await, done + IDLE);
    // The server got nothing but what drowse wants to know when a list changed, once for each time at most, in the legacy
    // era the refusals of its own requests, and at last that nobody listens any more.
    let (refreshed, after): (Vec<String>, Vec<String>) =
        stage.methods().split_off(before.len()).into_iter().partition(|method| method.ends_with("/list"));
    let heard = !matches!(peer, Peer::Modern | Peer::Stateless);
    let of_tools = refreshed.iter().filter(|method| *method == "tools/list").count();
    assert!(of_tools <= 11 && (of_tools > 5) == heard, "{of_tools} refreshes");
    assert_eq!(refreshed.len(), 3 * of_tools);
    let can_ask = peer.era() == Era::Legacy && peer != Peer::Stateless;
    let refusals = if can_ask { 11 } else { 0 };
    let mut expected = vec!["answer"; refusals];
    expected.extend(peer.has_own_stream().then_some("notifications/cancelled"));
    assert_eq!(after, expected);
}

async fn explicit_ping_resets(peer: Peer) {
    let (stage, hub, _) = awake(peer, sleepy()).await;
    let mut caller = Caller::connect(&hub).await;
    sleep(seconds(599)).await;
    let answer = caller.ask("drowse/ping", json!({})).await;
    assert_eq!(answer["result"], json!({}), "{answer}");
    let done = stage.elapsed();
    assert_at(stage.state(PublicState::Idle).await, done + IDLE);
    let question = if peer.era() == Era::Legacy { "ping" } else { "server/discover" };
    assert!(stage.got(question).iter().any(|at| *at >= seconds(599)), "the server itself was asked");
}

/// While the bridge still drains: the same one starts the next generation.
async fn next_command_after_idle_wakes(peer: Peer) {
    let stage = Stage::new(Script { lingers: Duration::from_millis(1500), ..Script::of(peer) });
    let hub = stage.bridge(sleepy());
    let ready = stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
    stage.until(|stage| stage.events().last().is_some_and(|(_, event)| *event == Event::InputClosed)).await;
    let answer = caller.call("echo", json!({"tag": "woken"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "woken");
    let done = stage.elapsed();
    assert_eq!((stage.starts(), stage.runs("woken")), (2, 1));
    let events = stage.events();
    let exited = events.iter().position(|(_, event)| matches!(event, Event::Exited(_))).unwrap();
    let restarted = events.iter().rposition(|(_, event)| *event == Event::Started).unwrap();
    assert!(exited < restarted, "never two at once: {events:?}");
    assert_eq!(stage.records().last().unwrap().1.record.generation, 2);
    // And that one sleeps again, after a period of its own.
    assert_at(stage.state(PublicState::Idle).await, done + IDLE);
    hub.retired().await;
    // Once nothing is left of it, the next bridge goes on from its record, and with what it learned of the era.
    let hub = stage.bridge(sleepy());
    let mut caller = Caller::connect(&hub).await;
    caller.call("echo", json!({"tag": "again"})).await;
    assert_eq!((stage.starts(), stage.runs("again")), (3, 1));
    assert_eq!(stage.records().last().unwrap().1.record.generation, 3);
    let probes = stage.got("server/discover").len();
    assert_eq!(probes, if peer.era() == Era::Legacy { 1 } else { 3 }, "{:?}", stage.methods());
}

async fn the_connect_itself_gets_a_full_period(peer: Peer) {
    let stage = Stage::new(Script { boot: seconds(30), ..Script::of(peer) });
    let _hub = stage.bridge(sleepy());
    let ready = stage.ready().await;
    assert!(ready >= seconds(30));
    assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
    assert_eq!(stage.outcomes(), [Ok(())]);
}

async fn a_failed_operation_counts_until_it_fails(peer: Peer) {
    let (stage, hub, _) = awake(peer, sleepy()).await;
    let mut caller = Caller::connect(&hub).await;
    let call = caller.start("never", json!({"tag": "a"})).await;
    let answer = caller.answer(&call).await;
    assert!(answer.get("error").is_some());
    let failed = stage.elapsed();
    assert!(failed >= seconds(300), "the time-out of a request");
    // A caller that goes away takes its operation with it, and that is its end.
    caller.start("never", json!({"tag": "b"})).await;
    stage.until(|stage| stage.runs("b") == 1).await;
    sleep(seconds(100)).await;
    drop(caller);
    let gone = stage.elapsed();
    let idle = stage.state(PublicState::Idle).await;
    assert!(idle >= gone + IDLE && idle <= gone + IDLE + TICK * 2, "{idle:?}, not {:?}", gone + IDLE);
    let cancelled = |tag: &str| Event::Cancelled(tag.into());
    for tag in ["a", "b"] {
        assert!(stage.events().iter().any(|(_, event)| *event == cancelled(tag)), "{tag} was cancelled");
    }
}
