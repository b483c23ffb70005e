//! What keeps a session awake, in combination: it is shown, and when the last of it ends a full period starts.

use std::time::Duration;

use drowse_tests::harness::{Home, Session, in_both_eras, now_ms};
use serde_json::{Value, json};

use super::{COUNTER, Subscriber, everywhere};

const PERIOD: u64 = 2;

/// What keeps it awake, as the list has it; waited for, since the end of a command is heard a moment later.
#[track_caller]
fn kept_awake_by(session: &Session<'_>, reasons: &[&str]) {
    let wanted = if reasons.is_empty() { Value::Null } else { json!(reasons) };
    let mut last = Value::Null;
    for _ in 0..1000 {
        last = session.listed()["_drowse"].clone();
        if last["deferredBy"] == wanted {
            assert_eq!(last["idleInMs"].is_null(), !reasons.is_empty(), "{last}");
            return;
        }
    }
    panic!("not kept awake by {reasons:?}, but {last}");
}

/// It falls asleep, and not before a full period after this moment.
#[track_caller]
fn sleeps_a_period_after(session: &Session<'_>, ended: u64, starts: usize) {
    let asleep = session.wait_until_asleep();
    assert!(asleep.since >= ended + PERIOD * 1000, "asleep {} ms after", asleep.since - ended);
    assert_eq!(session.starts(), starts, "it slept meanwhile");
}

fn counter() -> String {
    format!("a subscription to {COUNTER}")
}

#[test]
fn a_client_that_is_killed_defers_no_more() {
    everywhere(&["--idle-timeout", "2"], |home, session, server| {
        let mut subscriber = Subscriber::start(home, &["@s", "resources-subscribe", COUNTER]);
        assert!(subscriber.says().starts_with("subscribed"));
        // A slow machine may have let it sleep before.
        let starts = if server.is_none() { session.starts() } else { 0 };
        kept_awake_by(&session, &[&counter()]);
        std::thread::sleep(Duration::from_secs(PERIOD));
        kept_awake_by(&session, &[&counter()]);
        let ended = now_ms();
        subscriber.child.kill().unwrap();
        let asleep = session.wait_until_asleep();
        assert!(asleep.since >= ended + PERIOD * 1000);
        if server.is_none() {
            assert_eq!(session.starts(), starts);
        }
    });
}

#[test]
fn of_two_subscriptions_both_have_to_end() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &["--idle-timeout", "2"], &["--era", era]);
        let first = Subscriber::start(&home, &["@s", "resources-subscribe", COUNTER]);
        let second = Subscriber::start(&home, &["@s", "resources-subscribe", COUNTER]);
        assert!(first.says().starts_with("subscribed") && second.says().starts_with("subscribed"));
        let starts = session.starts();
        kept_awake_by(&session, &[&counter()]);
        first.ends_after_ctrl_c();
        std::thread::sleep(Duration::from_secs(PERIOD));
        kept_awake_by(&session, &[&counter()]);
        let text = home.run(["--max-chars", "100000"]).ok().out;
        assert!(text.contains("↳ kept awake by a subscription to counter://main; use it"), "{text}");
        let ended = now_ms();
        second.ends_after_ctrl_c();
        sleeps_a_period_after(&session, ended, starts);
    });
}

#[test]
fn a_task_and_a_subscription_both_have_to_end() {
    in_both_eras(|era| {
        for task_first in [false, true] {
            let home = Home::new();
            let session = home.connect("@s", &["--idle-timeout", "2"], &["--era", era, "--tasks"]);
            let subscriber = Subscriber::start(&home, &["@s", "resources-subscribe", COUNTER]);
            assert!(subscriber.says().starts_with("subscribed"));
            let starts = session.starts();
            // Longer than the subscription, or until it is cancelled; its time may also just pass.
            let ttl = if task_first { "ttl:=600000" } else { "ttl:=5000" };
            let run = session.call("work", &["ms:=600000", ttl, "--detach"]).ok();
            let created = session.last("run");
            let id = run.json()["taskId"].as_str().unwrap().to_owned();
            kept_awake_by(&session, &[&counter(), &format!("the task {id}")]);
            if task_first {
                session.run(["tasks-cancel", &id]).ok();
                kept_awake_by(&session, &[&counter()]);
                std::thread::sleep(Duration::from_secs(PERIOD));
                let ended = now_ms();
                subscriber.ends_after_ctrl_c();
                sleeps_a_period_after(&session, ended, starts);
            } else {
                subscriber.ends_after_ctrl_c();
                sleeps_a_period_after(&session, created + 5000, starts);
            }
        }
    });
}

#[test]
fn a_file_that_is_kept_equal_is_said() {
    let home = Home::new();
    let session = home.connect("@s", &["--idle-timeout", "2"], &["--era", "modern"]);
    let file = home.path().join("copy");
    session.run(["resources-subscribe", COUNTER, "--sync", file.to_str().unwrap()]).ok();
    let file = file.canonicalize().unwrap();
    let starts = session.starts();
    kept_awake_by(&session, &[&format!("the copy of {COUNTER} in {}", file.display())]);
    let ended = now_ms();
    session.run(["resources-unsubscribe", COUNTER]).ok();
    kept_awake_by(&session, &[]);
    sleeps_a_period_after(&session, ended, starts);
}
