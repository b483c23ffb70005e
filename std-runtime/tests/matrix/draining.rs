//! Whatever comes while a server is being let go: calls, the end of the server, what its keepalive finds out, close,
//! another bridge that takes over. It fell asleep and nothing else is written of it; no call is lost or runs twice.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::{Exit, PublicState};
use drowse_core::server::Config;
use drowse_runtime::bridge::Hub;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::{Caller, Event, IDLE, Peer, Respond, Script, Stage, assert_at, failure, sleepy};

over_both_transports! {
    lingering:
    a_machine_that_was_suspended
    a_call_at_each_step
    a_call_with_little_time_of_its_own
    a_keepalive_that_fails_around_the_deadline
    close_at_each_step
    a_bridge_that_is_to_leave_at_each_step
}

over_both_transports! {
    process_legacy: Peer::Process(drowse_core::era::Era::Legacy);
    process_modern: Peer::Process(drowse_core::era::Era::Modern);
    = {
        a_server_that_ends_by_itself_at_each_step
        a_server_that_ends_by_itself_at_the_deadline
        a_server_that_closes_its_output_first_is_no_crash
    }
}

over_both_transports! {
    session: Peer::Session;
    = {
        what_a_keepalive_finds_out_at_each_step
        an_end_that_the_server_refuses
    }
}

/// Around the steps of a stop that takes as long as it may: the deadline, and two seconds after each word.
const MOMENTS: [i64; 11] = [-1, 0, 1, 2, 1000, 1999, 2000, 2001, 3999, 4000, 4001];

/// A server that takes all the time that a stop gives it.
fn stubborn(peer: Peer) -> Script {
    Script { ignores_input_end: true, ignores_terminate: true, ..Script::of(peer) }
}

/// One on its way to sleep, at so many milliseconds after its deadline.
async fn at_moment(script: Script, config: Config, moment: i64) -> (Stage, Hub, Caller, Duration) {
    let stage = Stage::new(script);
    let hub = stage.bridge(config);
    let ready = stage.ready().await;
    let caller = Caller::connect(&hub).await;
    let millis = u64::try_from(i64::try_from(IDLE.as_millis()).unwrap() + moment).unwrap();
    sleep((ready + Duration::from_millis(millis)).saturating_sub(stage.elapsed())).await;
    (stage, hub, caller, ready)
}

/// Of each generation: once it is asleep, nothing else is written of it.
#[track_caller]
fn check_records(stage: &Stage) {
    let records = stage.records();
    for (_, asleep) in records.iter().filter(|(_, facts)| facts.record.state == PublicState::Idle) {
        let later = records
            .iter()
            .skip_while(|(_, facts)| facts.record != asleep.record)
            .filter(|(_, facts)| facts.record.generation == asleep.record.generation);
        for (_, facts) in later {
            let allowed = matches!(facts.record.state, PublicState::Idle | PublicState::Closed);
            assert!(allowed, "{:?} after idle", facts.record);
        }
        assert_eq!((asleep.crashes.len(), asleep.retry_at, asleep.message.as_deref()), (0, None, None));
    }
}

/// Answered, or so late that the bridge says that it never read it: then its caller goes to the next one.
async fn is_not_lost(stage: &Stage, caller: &mut Caller, call: &Value, tag: &str) {
    while let Some(message) = caller.receive().await {
        if message["method"] == "notifications/drowse/goaway" {
            assert_eq!(message["params"]["last"], 0, "it was read: {message}");
            continue;
        }
        assert_eq!(message["id"], *call, "{message}");
        assert!(message.get("result").is_some(), "{message}");
        assert_eq!(stage.runs(tag), 1);
        return;
    }
    assert_eq!(stage.runs(tag), 0, "it ran, and nobody was told");
}

async fn a_call_at_each_step(peer: Peer) {
    for script in [Script::of(peer), stubborn(peer)] {
        for moment in MOMENTS {
            let (stage, _hub, mut caller, _) = at_moment(script, sleepy(), moment).await;
            let call = caller.start("echo", json!({"tag": "a"})).await;
            is_not_lost(&stage, &mut caller, &call, "a").await;
            check_records(&stage);
            assert!(!stage.states().contains(&PublicState::Crashed), "{moment}: {:?}", stage.states());
        }
    }
}

/// The clock of the timers stood still, the idle period did not.
async fn a_machine_that_was_suspended(peer: Peer) {
    let hours = Duration::from_secs(8 * 3600);
    let (stage, hub, mut caller, ready) = at_moment(stubborn(peer), sleepy(), -500_000).await;
    hub.suspended(Duration::from_secs(200));
    sleep(Duration::from_secs(299)).await;
    assert_eq!(hub.state(), PublicState::Live, "less than the rest of the period");
    // What is in flight has the time that it had, and then a full period begins.
    let slow = caller.start("slow", json!({"tag": "slow", "seconds": 250.0})).await;
    sleep(Duration::from_secs(100)).await;
    hub.suspended(hours);
    assert!(caller.answer(&slow).await.get("result").is_some());
    assert_at(stage.elapsed(), ready + Duration::from_secs(100 + 299 + 250));
    sleep(Duration::from_secs(500)).await;
    assert_eq!(hub.state(), PublicState::Live);
    // At once when the machine goes on; and who calls in the same moment is served.
    let suspended = stage.elapsed();
    hub.suspended(hours);
    let call = caller.start("echo", json!({"tag": "a"})).await;
    is_not_lost(&stage, &mut caller, &call, "a").await;
    if stage.starts() == 1 {
        sleep(Duration::from_secs(2)).await;
        hub.suspended(hours);
    }
    let asleep =
        stage.records().iter().find(|(_, facts)| facts.record.state == PublicState::Idle).map(|(at, _)| *at);
    assert!(asleep.is_none_or(|at| at >= suspended), "{asleep:?}");
    stage.until(|stage| stage.states().contains(&PublicState::Idle)).await;
    let asleep = stage.records().iter().find(|(_, facts)| facts.record.state == PublicState::Idle).unwrap().0;
    assert!(asleep <= suspended + Duration::from_secs(3), "{asleep:?}, not {suspended:?}");
    check_records(&stage);
}

/// What the stop takes is not taken from the call.
async fn a_call_with_little_time_of_its_own(peer: Peer) {
    let mut config = sleepy();
    config.allowance.quiet = Duration::from_secs(1);
    let (stage, _hub, mut caller, _) = at_moment(stubborn(peer), config, 10).await;
    let answer = caller.call("echo", json!({"tag": "a"})).await;
    assert!(answer.get("result").is_some(), "{answer}");
    assert_eq!((stage.starts(), stage.runs("a")), (2, 1));
    check_records(&stage);
}

async fn a_keepalive_that_fails_around_the_deadline(peer: Peer) {
    for keepalive in [299_000, 299_999, 300_000, 300_001, 301_000, 599_999, 600_000] {
        let script = Script { ignores_keepalive: true, ..stubborn(peer) };
        let config = Config { keepalive: Some(Duration::from_millis(keepalive)), ..sleepy() };
        let (stage, hub, mut caller, ready) = at_moment(script, config, 1000).await;
        let asleep = stage.states();
        assert_eq!(asleep.last(), Some(&PublicState::Idle), "{keepalive}");
        let at = |wanted: PublicState| {
            stage.records().iter().find(|(_, facts)| facts.record.state == wanted).map(|(at, _)| *at)
        };
        assert_at(at(PublicState::Idle).unwrap(), ready + IDLE);
        // A modern one that is silent does not even say that it is one.
        if peer.era() == Era::Legacy {
            let call = caller.start("echo", json!({"tag": "a"})).await;
            is_not_lost(&stage, &mut caller, &call, "a").await;
        }
        hub.close();
        hub.retired().await;
        check_records(&stage);
    }
}

async fn close_at_each_step(peer: Peer) {
    for moment in MOMENTS {
        let (stage, hub, mut caller, _) = at_moment(stubborn(peer), sleepy(), moment).await;
        let call = caller.start("echo", json!({"tag": "a"})).await;
        tokio::task::yield_now().await;
        // Twice, as by two signals; and by a caller.
        hub.close();
        let asked = caller.send("drowse/close", json!({})).await;
        hub.close();
        hub.retired().await;
        let mut answers = Vec::new();
        while let Some(message) = caller.receive().await {
            answers.push(message);
        }
        let of = |id: &Value| answers.iter().find(|message| message["id"] == *id);
        // It may have been answered, or passed on, before the close came.
        match of(&call) {
            Some(answer) if answer.get("result").is_some() => assert_eq!(stage.runs("a"), 1),
            Some(answer) => {
                let (kind, ran) = failure(answer);
                assert_eq!((kind, ran == "no"), ("shutting-down", stage.runs("a") == 0), "{moment}");
            }
            None => assert_eq!(stage.runs("a"), 0, "{moment}: {answers:?}"),
        }
        assert!(of(&asked).is_none_or(|answer| answer["result"] == json!({})), "{answers:?}");
        check_records(&stage);
        assert!(!stage.states().contains(&PublicState::Crashed), "{moment}: {:?}", stage.states());
        let (_, last) = stage.records().last().cloned().unwrap();
        assert!(last.record.ended, "{moment}: {last:?}");
        // The second half of a restart.
        let hub = stage.bridge(sleepy());
        let mut caller = Caller::connect(&hub).await;
        caller.call("echo", json!({"tag": "next"})).await;
        assert_eq!(stage.runs("next"), 1);
    }
}

async fn a_bridge_that_is_to_leave_at_each_step(peer: Peer) {
    for moment in MOMENTS {
        let (stage, hub, mut caller, _) = at_moment(stubborn(peer), sleepy(), moment).await;
        let call = caller.start("echo", json!({"tag": "a"})).await;
        let mut other = Caller::silent(&hub);
        other.line(r#"{"drowse":{"leave":{}}}"#).await;
        hub.retired().await;
        let mut answer = None;
        while let Some(message) = caller.receive().await {
            answer = if message["id"] == call { Some(message) } else { answer };
        }
        match answer {
            Some(answer) if answer.get("result").is_some() => assert_eq!(stage.runs("a"), 1),
            // Its caller goes to the next bridge.
            Some(answer) => assert_eq!(failure(&answer), ("shutting-down", "no"), "{moment}"),
            None => assert_eq!(stage.runs("a"), 0, "{moment}"),
        }
        check_records(&stage);
        assert_eq!(stage.states().last(), Some(&PublicState::Idle), "{moment}");
    }
}

async fn a_server_that_ends_by_itself_at_each_step(peer: Peer) {
    for exit in [Exit::Status(0), Exit::Status(1), Exit::Signal(11)] {
        for moment in [1, 2, 1000, 1999, 2000, 2001, 3999] {
            for calls in [false, true] {
                let (stage, hub, mut caller, _) = at_moment(stubborn(peer), sleepy(), moment).await;
                let call = match calls {
                    true => Some(caller.start("echo", json!({"tag": "a"})).await),
                    false => None,
                };
                stage.server_exits(exit);
                match call {
                    Some(call) => {
                        assert!(caller.answer(&call).await.get("result").is_some());
                        assert_eq!((stage.starts(), stage.runs("a")), (2, 1));
                    }
                    None => {
                        hub.retired().await;
                        assert_eq!(stage.states().last(), Some(&PublicState::Idle), "{exit:?} {moment}");
                    }
                }
                check_records(&stage);
                assert!(!stage.states().contains(&PublicState::Crashed), "{:?}", stage.states());
            }
        }
    }
}

/// It crashed or it fell asleep, whichever came first, but never both.
async fn a_server_that_ends_by_itself_at_the_deadline(peer: Peer) {
    for moment in [-2, -1, 0, 1] {
        let (stage, hub, ..) = at_moment(Script::of(peer), sleepy(), moment).await;
        let asleep = stage.states().contains(&PublicState::Idle);
        stage.server_exits(Exit::Status(1));
        hub.retired().await;
        check_records(&stage);
        let last = stage.states().last().copied();
        assert!(matches!(last, Some(PublicState::Idle | PublicState::Crashed)), "{last:?}");
        assert!(!asleep || last == Some(PublicState::Idle), "{moment}");
    }
}

/// Its output ends a moment before it does: how it ended is not known by then.
async fn a_server_that_closes_its_output_first_is_no_crash(peer: Peer) {
    let (stage, hub, ..) = at_moment(stubborn(peer), sleepy(), -60_000).await;
    stage.process().close_output();
    sleep(Duration::from_millis(100)).await;
    stage.server_exits(Exit::Status(0));
    hub.retired().await;
    let states = stage.states();
    assert!(!states.contains(&PublicState::Crashed), "{states:?}");
    assert_eq!(states.last(), Some(&PublicState::Idle));
}

/// The keepalive is under way at the deadline, and its answer comes while the session is being ended.
async fn what_a_keepalive_finds_out_at_each_step(peer: Peer) {
    type Ends = fn(Respond);
    let ends: [(&str, Ends); 6] = [
        ("404", |respond| respond.whole(404, &[], "")),
        ("401", |respond| respond.whole(401, &[], "")),
        ("403", |respond| respond.whole(403, &[], "")),
        ("500", |respond| respond.whole(500, &[], "")),
        ("broken", Respond::breaks),
        ("refused", Respond::refuses),
    ];
    for (what, end) in ends {
        for (moment, calls) in [(1, false), (1, true), (1000, false), (1000, true)] {
            let config = Config { keepalive: Some(IDLE - Duration::from_secs(1)), ..sleepy() };
            let held = Rc::new(RefCell::new(None));
            let stage = Stage::new(Script { lingers: Duration::from_millis(1500), ..Script::of(peer) });
            let holds = Rc::clone(&held);
            stage.site().take_next("ping", move |_, respond| *holds.borrow_mut() = Some(respond));
            let hub = stage.bridge(config);
            let ready = stage.ready().await;
            let mut caller = Caller::connect(&hub).await;
            sleep((ready + IDLE + Duration::from_millis(moment)).saturating_sub(stage.elapsed())).await;
            assert!(stage.events().iter().any(|(_, event)| *event == Event::InputClosed), "{what}");
            let call = match calls {
                true => Some(caller.start("echo", json!({"tag": "a"})).await),
                false => None,
            };
            tokio::task::yield_now().await;
            end(held.borrow_mut().take().expect("the server was asked"));
            match call {
                Some(call) => {
                    let answer = caller.answer(&call).await;
                    assert!(answer.get("result").is_some(), "{what}: {answer}");
                    assert_eq!((stage.starts(), stage.runs("a")), (2, 1), "{what}");
                }
                None => {
                    hub.retired().await;
                    assert_eq!(stage.states().last(), Some(&PublicState::Idle), "{what}");
                }
            }
            check_records(&stage);
        }
    }
}

/// Whatever it says to the end of a session, that is over; a call that came meanwhile gets the next.
async fn an_end_that_the_server_refuses(peer: Peer) {
    for status in [400, 401, 403, 404, 405, 500] {
        for calls in [false, true] {
            let stage = Stage::new(Script::of(peer));
            let held = Rc::new(RefCell::new(None));
            let holds = Rc::clone(&held);
            stage.site().take_next("DELETE", move |_, respond| *holds.borrow_mut() = Some(respond));
            let hub = stage.bridge(sleepy());
            let ready = stage.ready().await;
            let mut caller = Caller::connect(&hub).await;
            sleep((ready + IDLE + Duration::from_secs(1)).saturating_sub(stage.elapsed())).await;
            let call = match calls {
                true => Some(caller.start("echo", json!({"tag": "a"})).await),
                false => None,
            };
            tokio::task::yield_now().await;
            held.borrow_mut()
                .take()
                .map(|respond: Respond| respond.whole(status, &[], ""))
                .expect("a goodbye");
            match call {
                Some(call) => assert!(caller.answer(&call).await.get("result").is_some(), "{status}"),
                None => hub.retired().await,
            }
            check_records(&stage);
            assert!(!stage.states().contains(&PublicState::Unauthorized), "{status}: {:?}", stage.states());
        }
    }
}
