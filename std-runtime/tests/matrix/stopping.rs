//! How a server is ended, and what is written down meanwhile.

use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::{Exit, PublicState};
use drowse_runtime::bridge::HubConfig;
use drowse_runtime::wire::Kind;
use serde_json::json;
use tokio::time::sleep;

use crate::bridge::{Caller, Event, IDLE, Peer, Script, Stage, assert_at, failure, sleepy, with_idle};

in_both_eras! {
    stdio_terminates_its_child
    a_stubborn_child_is_told_and_then_killed
    a_server_that_ends_itself_when_idle_only_beat_the_timer
    a_server_that_ends_itself_without_an_idle_period_crashed
    a_server_that_closes_its_output_is_ended
    a_crash_in_flight_fails_typed_and_the_next_call_works
    what_only_reads_is_asked_anew
    a_start_that_fails_is_reported_and_retired
    a_start_that_cannot_be_written_down_does_not_happen
    a_server_that_keeps_crashing_is_let_rest
}

mod silent {
    use super::*;

    over_both_transports! {
        silence_is_shown_and_ends
    }
}

/// The grace after each step of a stop.
const GRACE: Duration = Duration::from_secs(2);

async fn stdio_terminates_its_child(era: Era) {
    // It takes its time, within the grace.
    let stage = Stage::new(Script { lingers: Duration::from_millis(1900), ..Script::of(era) });
    let hub = stage.bridge(sleepy());
    let ready = stage.ready().await;
    hub.retired().await;
    assert_at(stage.elapsed(), ready + IDLE + Duration::from_millis(1900));
    let ends: Vec<Event> = stage
        .events()
        .iter()
        .map(|(_, event)| event.clone())
        .skip_while(|event| *event != Event::InputClosed)
        .collect();
    assert_eq!(ends, [Event::InputClosed, Event::Exited(Exit::Status(0))]);
}

async fn a_stubborn_child_is_told_and_then_killed(era: Era) {
    let script = Script { ignores_input_end: true, ..Script::of(era) };
    for (script, end) in
        [(script, Exit::Signal(15)), (Script { ignores_terminate: true, ..script }, Exit::Signal(9))]
    {
        let stage = Stage::new(script);
        let hub = stage.bridge(sleepy());
        let idle = stage.ready().await + IDLE;
        hub.retired().await;
        let events = stage.events();
        let at =
            |wanted: Event| events.iter().find(|(_, event)| *event == wanted).map(|(at, _)| *at).unwrap();
        assert_at(at(Event::InputClosed), idle);
        assert_at(at(Event::Terminated), idle + GRACE);
        if end == Exit::Signal(9) {
            assert_at(at(Event::Killed), idle + GRACE * 2);
        }
        at(Event::Exited(end));
        assert_eq!(stage.states().last(), Some(&PublicState::Idle), "its exit is the stop's, not a crash");
    }
}

async fn a_server_that_ends_itself_when_idle_only_beat_the_timer(era: Era) {
    for (exit, state) in [
        (Exit::Status(0), PublicState::Idle),
        (Exit::Status(1), PublicState::Crashed),
        (Exit::Signal(9), PublicState::Crashed),
    ] {
        let stage = Stage::new(Script::of(era));
        let hub = stage.bridge(sleepy());
        stage.ready().await;
        sleep(Duration::from_secs(60)).await;
        stage.server_exits(exit);
        hub.retired().await;
        assert_eq!(stage.states().last(), Some(&state), "{exit:?}");
        assert!(stage.records().last().unwrap().1.record.ended);
    }
}

async fn a_server_that_ends_itself_without_an_idle_period_crashed(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(with_idle(None));
    stage.ready().await;
    stage.server_exits(Exit::Status(0));
    hub.retired().await;
    assert_eq!(stage.states().last(), Some(&PublicState::Crashed));
}

async fn a_server_that_closes_its_output_is_ended(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(sleepy());
    let mut caller = Caller::connect(&hub).await;
    let call = caller.start("never", json!({"tag": "a"})).await;
    stage.until(|stage| stage.runs("a") == 1).await;
    stage.process().close_output();
    let answer = caller.answer(&call).await;
    assert_eq!(failure(&answer), ("server-lost", "unknown"));
    hub.retired().await;
    assert!(matches!(stage.events().last(), Some((_, Event::Exited(_)))), "it did not stay");
    assert_eq!(stage.states().last(), Some(&PublicState::Crashed), "it was needed");
}

async fn a_crash_in_flight_fails_typed_and_the_next_call_works(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(sleepy());
    let mut caller = Caller::connect(&hub).await;
    caller.call("echo", json!({"tag": "works"})).await;
    let call = caller.start("never", json!({"tag": "lost"})).await;
    stage.until(|stage| stage.runs("lost") == 1).await;
    stage.server_exits(Exit::Signal(9));
    let answer = caller.answer(&call).await;
    assert_eq!(failure(&answer), ("server-lost", "unknown"));
    hub.retired().await;
    // It worked before, so there is nothing to wait for.
    let (_, last) = stage.records().last().cloned().unwrap();
    assert_eq!((last.record.state, last.retry_at), (PublicState::Crashed, None));
    let hub = stage.bridge(sleepy());
    let mut caller = Caller::connect(&hub).await;
    caller.call("echo", json!({"tag": "next"})).await;
    assert_eq!([stage.runs("lost"), stage.runs("next")], [1, 1]);
}

async fn what_only_reads_is_asked_anew(era: Era) {
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    let mut caller = Caller::connect(&hub).await;
    // Both are with the server when it goes; it never answers the first, and the second not in time.
    let call = caller.start("never", json!({"tag": "call"})).await;
    stage.until(|stage| stage.runs("call") == 1).await;
    let list = caller.send("tools/list", json!({})).await;
    stage.server_exits(Exit::Signal(9));
    assert_eq!(failure(&caller.answer(&call).await), ("server-lost", "unknown"));
    let answer = caller.answer(&list).await;
    assert_eq!(answer["result"], json!({"tools": []}), "{answer}");
    assert_eq!((stage.starts(), stage.runs("call")), (2, 1));
}

async fn a_start_that_fails_is_reported_and_retired(era: Era) {
    let first = if era == Era::Legacy { "initialize" } else { "server/discover" };
    let scripts = [
        Script { cannot_start: true, ..Script::of(era) },
        Script { dies_on: Some(first), boot: Duration::from_secs(1), ..Script::of(era) },
        Script { boot: Duration::from_secs(3600), ..Script::of(era) },
    ];
    for (script, kind) in scripts.into_iter().zip([Kind::StartFailed, Kind::StartFailed, Kind::Timeout]) {
        let stage = Stage::new(script);
        let hub = stage.bridge(sleepy());
        // A program that is not there is known to be missing before anybody can ask.
        if !script.cannot_start {
            let mut caller = Caller::connect(&hub).await;
            // It waits for the start like any other, and is not lost with it.
            let call = caller.start("echo", json!({"tag": "a"})).await;
            let answer = caller.answer(&call).await;
            assert_eq!(failure(&answer), ("start-failed", "no"), "{script:?}");
        }
        hub.retired().await;
        assert_eq!(stage.outcomes().len(), 1, "{script:?}");
        let failed = stage.outcomes()[0].clone().unwrap_err();
        assert_eq!(failed.kind, kind, "{script:?}: {failed:?}");
        assert!(!failed.message.is_empty());
        let (_, last) = stage.records().last().cloned().unwrap();
        assert_eq!((last.record.state, last.record.ended), (PublicState::Crashed, true), "{script:?}");
        assert_eq!(last.message.as_deref(), Some(failed.message.as_str()), "{script:?}");
        assert_eq!(stage.runs("a"), 0);
    }
}

async fn a_start_that_cannot_be_written_down_does_not_happen(era: Era) {
    let stage = Stage::new(Script::of(era));
    stage.fill_disk(true);
    let hub = stage.bridge(sleepy());
    hub.retired().await;
    assert_eq!(stage.starts(), 0);
    let failed = stage.outcomes()[0].clone().unwrap_err();
    assert!(failed.message.contains("disk") && failed.kind == Kind::Storage, "{failed:?}");
    // A stop happens all the same: what the stale record names is found by the next starter.
    let stage = Stage::new(Script::of(era));
    let hub = stage.bridge(sleepy());
    stage.ready().await;
    stage.fill_disk(true);
    hub.retired().await;
    assert!(matches!(stage.events().last(), Some((_, Event::Exited(Exit::Status(0))))));
}

async fn a_server_that_keeps_crashing_is_let_rest(era: Era) {
    let stage = Stage::new(Script { cannot_start: true, ..Script::of(era) });
    // How long the next start has to wait after each crash, in milliseconds.
    for (crash, rest) in (1..).zip([0, 250, 500, 1000, 30_000]) {
        stage.bridge(sleepy()).retired().await;
        assert_eq!(stage.outcomes().len(), crash);
        let (_, last) = stage.records().last().cloned().unwrap();
        assert_eq!(last.crashes.len(), crash);
        let retry_at = last.retry_at.map_or(0, |at| at - last.crashes.last().unwrap());
        assert_eq!(retry_at, rest, "after crash {crash}");
        if crash < 5 {
            sleep(Duration::from_millis(rest)).await;
        }
    }
    // A bridge that is started all the same does not start its server, and does not stay either.
    let records = stage.records().len();
    stage.bridge(sleepy()).retired().await;
    let failed = stage.outcomes().last().cloned().unwrap().unwrap_err();
    assert!(failed.message.contains("crash") && failed.kind == Kind::StartFailed, "{failed:?}");
    assert_eq!(stage.records().len(), records, "nothing was begun");
    // Crashes that have not happened yet come from a clock that was set back: nobody waits for those.
    let hours_ahead = |config: &mut HubConfig| config.now_micros -= 5 * 3_600_000_000;
    stage.bridge_with(sleepy(), hours_ahead).retired().await;
    assert!(stage.records().len() > records, "it was tried");
}

async fn silence_is_shown_and_ends(peer: Peer) {
    let stage = Stage::new(Script { ignores_keepalive: true, ..Script::of(peer) });
    let mut config = sleepy();
    config.keepalive = Some(Duration::from_secs(100));
    let hub = stage.bridge(config);
    let ready = stage.ready().await;
    // Its lists are the last that it says.
    let heard = stage.saved().await;
    let silent = stage.state(PublicState::Disconnected).await;
    assert_at(silent, heard + Duration::from_secs(200));
    // It is heard again, if it can say something by itself.
    let can_speak = !matches!(peer, Peer::Modern | Peer::Stateless);
    if can_speak {
        stage.server_says(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}));
        stage.state(PublicState::Live).await;
    }
    // The idle period runs on meanwhile: a server that nobody reaches is where waiting is pure waste.
    assert_at(stage.state(PublicState::Idle).await, ready + IDLE);
    hub.retired().await;
    let times = stage.states().iter().filter(|state| **state == PublicState::Disconnected).count();
    assert!(times > usize::from(can_speak), "{:?}", stage.states());
}
