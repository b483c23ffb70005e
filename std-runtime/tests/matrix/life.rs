//! What is written into a session's life, and what is counted.

use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::Exit;
use drowse_core::lifecycle::PublicState::{self, Closed, Connecting, Crashed, Disconnected, Idle, Live};
use drowse_core::tally::Counts;
use drowse_runtime::bridge::Moment;
use serde_json::json;

use crate::bridge::{Caller, MEMORY, Peer, Script, Stage, assert_at, sleepy, with_idle};

over_both_transports! {
    a_sleep_ends_a_line_with_what_was_counted
    what_drowse_asks_for_itself_is_not_counted
}

mod processes {
    use super::*;

    in_both_eras! {
        a_crash_is_one_line_and_its_calls_are_in_it
        an_exit_that_only_beats_the_timer_is_a_sleep
        an_operation_during_the_drain_belongs_to_the_next_period
        a_start_that_fails_is_a_crash
        being_told_to_end_is_said
        a_full_disk_costs_lines_and_no_counts
    }
}

fn states(life: &[(Duration, Moment)]) -> Vec<PublicState> {
    life.iter().map(|(_, moment)| moment.state).collect()
}

async fn a_sleep_ends_a_line_with_what_was_counted(peer: Peer) {
    let stage = Stage::new(Script::of(peer));
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    caller.call("slow", json!({"tag": "a", "seconds": 0.5})).await;
    caller.call("echo", json!({"tag": "b"})).await;
    let failed = caller.ask("drowse/nonsense", json!({})).await;
    assert!(failed["error"].is_object());
    let status = caller.ask("drowse/status", json!({})).await["result"].clone();
    assert_eq!((&status["tally"]["calls"], &status["tally"]["wakes"]), (&json!(2), &json!(1)), "{status}");
    assert!(status["tally"]["maxMs"].as_f64().is_some_and(|ms| (500.0..510.0).contains(&ms)), "{status}");
    let slept = stage.state(Idle).await;
    hub.retired().await;
    let life = stage.life();
    assert_eq!(states(&life), [Connecting, Live, Idle]);
    let (at, line) = life.last().unwrap();
    assert_at(*at, slept);
    assert_eq!(line.counts, Counts { calls: 2, ..Counts::default() });
    assert_eq!(line.latency.count(), 2);
    assert_eq!(line.memory, (!peer.is_remote()).then_some(MEMORY));
    assert_eq!(line.why.as_deref(), Some("not used for 600 s"));
    assert!(life.iter().rev().skip(1).all(|(_, line)| line.counts == Counts::default()));
}

async fn what_drowse_asks_for_itself_is_not_counted(peer: Peer) {
    let stage = Stage::new(Script::of(peer));
    let mut config = sleepy();
    config.keepalive = Some(Duration::from_secs(30));
    let hub = stage.bridge(config);
    stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    caller.ask("drowse/status", json!({})).await;
    caller.ask("server/discover", json!({})).await;
    hub.retired().await;
    assert_eq!(stage.life().last().map(|(_, line)| line.counts.calls), Some(0));
}

async fn a_crash_is_one_line_and_its_calls_are_in_it(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    let id = caller.start("never", json!({"tag": "a"})).await;
    stage.until(|stage| stage.runs("a") == 1).await;
    stage.server_exits(Exit::Status(7));
    caller.answer(&id).await;
    hub.retired().await;
    let life = stage.life();
    assert_eq!(states(&life), [Connecting, Live, Crashed]);
    let line = &life.last().unwrap().1;
    assert_eq!(line.counts, Counts { calls: 1, ours: 1, ..Counts::default() });
    assert_eq!(line.why.as_deref(), Some("the server ended by itself (exit status 7)"));
    assert_eq!((line.memory, line.latency.count()), (None, 0));
}

async fn an_exit_that_only_beats_the_timer_is_a_sleep(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    stage.server_exits(Exit::Status(0));
    hub.retired().await;
    let life = stage.life();
    // Its output ends before it is known how it ended.
    assert_eq!(states(&life), [Connecting, Live, Disconnected, Idle]);
    assert_eq!(life[3].1.why.as_deref(), Some("the server ended by itself (exit status 0)"));
}

async fn an_operation_during_the_drain_belongs_to_the_next_period(era: Era) {
    let stage = Stage::new(Script { ignores_input_end: true, ..Script::of(era) });
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    caller.call("echo", json!({"tag": "a"})).await;
    stage.state(Idle).await;
    let again = caller.start("echo", json!({"tag": "b"})).await;
    caller.answer(&again).await;
    stage.state(Idle).await;
    hub.retired().await;
    let life = stage.life();
    assert_eq!(states(&life), [Connecting, Live, Idle, Connecting, Live, Idle]);
    let calls: Vec<_> = life.iter().map(|(_, line)| (line.generation, line.counts.calls)).collect();
    assert_eq!(calls, [(1, 0), (1, 0), (1, 1), (2, 0), (2, 0), (2, 1)]);
}

async fn a_start_that_fails_is_a_crash(era: Era) {
    let stage = Stage::new(Script { cannot_start: true, ..Script::of(era) });
    let hub = stage.bridge(sleepy());
    hub.retired().await;
    let life = stage.life();
    assert_eq!(states(&life), [Connecting, Crashed]);
    assert!(life[1].1.why.as_ref().is_some_and(|why| why.contains("there is no such program")));
}

async fn being_told_to_end_is_said(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(with_idle(None));
    stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    caller.start("never", json!({"tag": "a"})).await;
    stage.until(|stage| stage.runs("a") == 1).await;
    hub.close();
    hub.retired().await;
    let life = stage.life();
    // The call fails only after it was written down that the server is ended.
    assert_eq!(states(&life), [Connecting, Live, Closed, Closed]);
    let calls: Vec<_> = life.iter().map(|(_, line)| line.counts.calls).collect();
    assert_eq!(calls, [0, 0, 0, 1]);
}

async fn a_full_disk_costs_lines_and_no_counts(era: Era) {
    let stage = Stage::new(Script { ignores_input_end: true, ..Script::of(era) });
    let hub = stage.bridge(sleepy());
    let ready = stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    caller.call("echo", json!({"tag": "a"})).await;
    stage.fill_disk(true);
    tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_secs(601)).await;
    assert!(stage.elapsed() > ready);
    stage.fill_disk(false);
    hub.retired().await;
    let life = stage.life();
    assert_eq!(states(&life), [Connecting, Live, Idle]);
    assert_eq!(life[2].1.counts.calls, 1);
}
