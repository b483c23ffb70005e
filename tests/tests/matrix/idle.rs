//! When a session falls asleep, what keeps it from it, and what keeps its idle period.
//!
//! The real clock is under test here, so times are compared as they were written down: by the server (its journal),
//! and as bounds that hold however slow the machine is: never earlier than a full period, and never for ever.

use std::time::Duration;

use drowse_runtime::record::State;
use drowse_tests::harness::{GATHERED, Home, Session, in_both_eras};
use serde_json::{Value, json};

/// The shortest idle period that there is.
const SECOND: u64 = 1000;

fn connect<'h>(home: &'h Home, era: &str, flags: &[&str]) -> Session<'h> {
    home.connect("@s", flags, &["--era", era])
}

/// The handshake of a server that is met for the first time.
fn handshake(era: &str) -> Vec<&'static str> {
    match era {
        "legacy" => vec!["server/discover", "initialize", "notifications/initialized"],
        _ => vec!["server/discover"],
    }
}

#[test]
fn flag_omitted() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era, &[]);
        assert_eq!(session.deadline(), None, "it never sleeps");
        session.call("tag", &["tag=a"]).ok();
        assert_eq!(session.deadline(), None, "not after an operation either");
        assert_eq!(session.record().settings.idle_timeout_secs, None);
        assert_eq!(session.listed().get("idleTimeoutSecs"), None);
        assert_eq!((session.starts(), session.executions("a")), (1, 1));
    });
}

#[test]
fn zero() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era, &["--idle-timeout", "0"]);
        assert_eq!(session.deadline(), None, "it never sleeps");
        // Kept as 0, not as nothing said.
        assert_eq!(session.record().settings.idle_timeout_secs, Some(0));
        assert_eq!(session.listed()["idleTimeoutSecs"], 0);
        // It overrides a configuration entry's, also for a session that is there.
        let entry = json!({"idleTimeoutSecs": 1});
        let other = home.connect_entry("@e", &["--idle-timeout", "0"], entry, &["--era", era]);
        assert_eq!((other.deadline(), &other.listed()["idleTimeoutSecs"]), (None, &json!(0)));
        let target = format!("{}:e", home.path().join("e.json").display());
        home.run(["connect", &target, "@e"]).ok();
        assert_eq!(other.deadline(), None, "settings of a session stay, save those given now");
        home.run(["connect", &target, "@e", "--idle-timeout", "600"]).ok();
        assert!(other.deadline().is_some());
        home.run(["connect", &target, "@e", "--idle-timeout", "0"]).ok();
        assert_eq!(other.deadline(), None);
    });
}

#[test]
fn positive_and_no_activity() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era, &["--idle-timeout", "1"]);
        let state = session.state().unwrap();
        let (ready, bridge) = (state.since, state.bridge.unwrap());
        let asleep = session.wait_until_asleep();
        // Gracefully: its input ended, and it left by itself.
        let entries = session.journal.entries().unwrap();
        let last: Vec<&str> = entries.iter().rev().take(2).map(|entry| entry.event.as_str()).collect();
        assert_eq!(last, ["exit", "eof"]);
        assert!(session.last("eof") >= ready + SECOND, "not before its time");
        assert!(!bridge.is_alive(), "the bridge goes too");
        // A sleep and not a crash, and the session stays.
        assert_eq!((asleep.crashes.len(), asleep.message), (0, None));
        let listed = session.listed();
        assert_eq!((&listed["status"], listed.get("pid")), (&json!("idle"), None));
        assert_eq!(listed["_drowse"].get("serverPid"), None);
        let cleaned = home.run(["clean", "--json"]).ok().json();
        assert_eq!(cleaned, json!({"removed": [], "failed": []}));
        assert!(session.exists());
    });
}

/// Uses a session that has less than half of its period left. A full one starts when `operation` is over.
fn resets(era: &str, operation: impl Fn(&Session<'_>), at: impl Fn(&Session<'_>) -> u64) {
    let home = Home::new();
    let session = connect(&home, era, &["--idle-timeout", "2"]);
    session.wait_until_left(Duration::from_millis(800));
    let (_, before) = session.deadline().unwrap();
    operation(&session);
    let (after, _) = session.deadline().unwrap();
    assert!(after > before, "the deadline moved, from {before} to {after}");
    assert_eq!(session.starts(), 1, "the same server");
    session.wait_until_asleep();
    let used = at(&session);
    assert!(session.last("eof") >= used + 2 * SECOND, "a full period after the operation");
    assert_eq!(session.starts(), 1);
}

#[test]
fn operation_before_deadline_resets_on_completion() {
    in_both_eras(|era| {
        let operation = |session: &Session<'_>| {
            let run = session.call("slow", &["ms:=300", "tag=a"]).ok();
            assert_eq!(run.text(), "slept 300");
        };
        // From its completion, which is 300 ms after it began to run.
        resets(era, operation, |session| session.wait_for_run("a") + 300);
    });
}

#[test]
fn explicit_ping_resets() {
    in_both_eras(|era| {
        let ping = |session: &Session<'_>| {
            assert_eq!(session.run(["ping"]).ok().json()["success"], true);
        };
        resets(era, ping, |session| {
            let question = if era == "legacy" { "ping" } else { "server/discover" };
            let entries = session.journal.entries().unwrap();
            let asked = entries.iter().rfind(|entry| entry.is("in", "method", question));
            asked.expect("the server itself was asked").fields["at"].as_u64().unwrap()
        });
    });
}

#[test]
fn operation_past_deadline_keeps_then_full_period() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era, &["--idle-timeout", "1"]);
        let ready = session.state().unwrap().since;
        let run = session.call("slow", &["ms:=1800", "tag=a"]).ok();
        assert_eq!(run.text(), "slept 1800");
        assert_eq!(session.starts(), 1);
        session.wait_until_asleep();
        let done = session.wait_for_run("a") + 1800;
        assert!(done > ready + SECOND, "past the deadline that it had");
        assert!(session.last("eof") >= done + SECOND, "a full period");
        assert_eq!((session.starts(), session.executions("a")), (1, 1));
    });
}

#[test]
fn concurrent_operations() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era, &["--idle-timeout", "1"]);
        let calls = [("a", 100), ("b", 1700), ("c", 900)].map(|(tag, ms)| {
            let call = session.start_call("slow", &[&format!("ms:={ms}"), &format!("tag={tag}")]);
            (tag, ms, call)
        });
        let mut done = 0;
        for (tag, ms, call) in calls {
            assert_eq!(call.end().ok().text(), format!("slept {ms}"));
            done = done.max(session.wait_for_run(tag) + ms);
        }
        session.wait_until_asleep();
        assert!(session.last("eof") >= done + SECOND, "a full period after the last one");
        assert_eq!((session.starts(), ["a", "b", "c"].map(|tag| session.executions(tag))), (1, [1; 3]));
    });
}

/// There is none on stdio unless it is asked for: from the handshake to the end the server is asked what it offers, once,
/// in the modern era also to say when that changes, and nothing else that nobody wanted.
#[test]
fn internal_keepalive_does_not_reset() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era, &["--idle-timeout", "1"]);
        session.wait_until_saved();
        session.call("tag", &["tag=a"]).ok();
        session.wait_until_asleep();
        let modern = era == "modern";
        let mut expected = handshake(era);
        expected.extend(modern.then_some("subscriptions/listen"));
        expected.extend(GATHERED);
        expected.push("tools/call");
        expected.extend(modern.then_some("notifications/cancelled"));
        assert_eq!(session.methods(), expected, "nothing but what the user asked");
        // Where it is asked for, it keeps nothing awake.
        let entry = json!({"idleTimeoutSecs": 3, "keepaliveSecs": 1});
        let kept = home.connect_entry("@k", &[], entry, &["--era", era]);
        let ready = kept.state().unwrap().since;
        kept.wait_until_asleep();
        let question = if era == "legacy" { "ping" } else { "server/discover" };
        let asked = kept.methods().iter().filter(|method| *method == question).count();
        let own = if era == "legacy" { 0 } else { 1 };
        assert!(asked - own >= 1, "it was asked whether it lives: {:?}", kept.methods());
        assert!(kept.last("eof") >= ready + 3 * SECOND);
        assert_eq!(kept.starts(), 1);
    });
}

#[test]
fn notification_or_refresh_does_not_reset() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &["--idle-timeout", "1"], &["--era", era, "--chatter", "50"]);
        // A caller that says much and asks nothing of the server, all the while.
        let mut socket = session.socket();
        let mut said = 0;
        let goaway = loop {
            for method in ["notifications/cancelled", "notifications/roots/list_changed", "notifications/x"] {
                said += u32::from(socket.notify(method, json!({"requestId": 99})).is_ok());
            }
            let Ok(()) = socket.line(&request(said, "drowse/status")) else { break None };
            match socket.receive() {
                Some(message) if message["method"] == "notifications/drowse/goaway" => break Some(message),
                Some(message) => assert!(message["result"].is_object(), "{message}"),
                None => break None,
            }
        };
        session.wait_until_asleep();
        assert!(said > 3, "while it was awake");
        if let Some(goaway) = goaway {
            assert!(goaway["params"]["last"].is_u64());
        }
        let entries = session.journal.entries().unwrap();
        assert!(entries.iter().filter(|entry| entry.event == "chatter").count() >= 3, "{entries:?}");
        // Where the machine is so busy that the chatter pauses, drowse asks what the server offers, once.
        let (mut methods, shaken) = (session.methods(), handshake(era));
        let fetched = methods.split_off(shaken.len());
        let mut offers = Vec::from_iter((era == "modern").then_some("subscriptions/listen"));
        offers.extend(GATHERED);
        offers.extend((era == "modern").then_some("notifications/cancelled"));
        assert_eq!(methods, shaken);
        assert!(fetched.is_empty() || fetched == offers, "and nothing was fetched anew either: {fetched:?}");
        assert_eq!(session.starts(), 1);
    });
}

fn request(id: u32, method: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": meta}}).to_string()
}

#[test]
fn restart_keeps_timeout() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era, &["--idle-timeout", "1"]);
        let run = session.run(["restart"]).ok().json();
        assert_eq!((&run["idleTimeoutSecs"], &run["_drowse"]["outcome"]), (&json!(1), &json!("restarted")));
        let again = session.last("start");
        assert!(session.deadline().is_some());
        session.wait_until_asleep();
        assert!(session.last("eof") >= again + SECOND);
        assert_eq!(session.starts(), 2);
        assert_eq!(session.listed()["idleTimeoutSecs"], 1);
        // In the other word order, and from sleep.
        home.run(["restart", "@s", "--json"]).ok();
        assert_eq!(session.starts(), 3);
        session.wait_until_asleep();
    });
}

#[test]
fn recovery_after_killed_bridge_keeps_timeout() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era, &["--idle-timeout", "1"]);
        let first = session.state().unwrap();
        session.kill_bridge();
        assert_eq!(session.listed()["status"], "crashed", "shown at once");
        let run = session.call("pid", &[]).ok();
        assert_ne!(run.text(), first.server_pid.unwrap().to_string(), "a fresh server");
        assert_eq!(session.starts(), 2);
        let woken = session.last("start");
        let state = session.wait_until_asleep();
        assert!(session.last("eof") >= woken + SECOND);
        assert_eq!((state.generation, session.starts()), (2, 2));
        assert_eq!(session.listed()["idleTimeoutSecs"], 1);
    });
}

#[test]
fn next_command_after_idle_wakes() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era, &["--idle-timeout", "1"]);
        let first = session.call("pid", &[]).ok().text();
        session.wait_until_asleep();
        let second = session.call("pid", &[]).ok().text();
        assert_ne!(first, second, "always fresh");
        assert_eq!(session.listed()["status"], "live");
        let state = session.state().unwrap();
        assert_eq!((state.state, state.generation, session.starts()), (State::Live, 2, 2));
        // And asleep again, and awake again.
        session.wait_until_asleep();
        session.call("tag", &["tag=third"]).ok();
        assert_eq!((session.starts(), session.executions("third")), (3, 1));
    });
}

#[test]
fn stdio_terminates_its_child() {
    in_both_eras(|era| {
        let home = Home::new();
        let polite = connect(&home, era, &["--idle-timeout", "1"]);
        // One that stays when its input ends and when it is told to go, and left another behind.
        let entry = json!({"idleTimeoutSecs": 1, "stopGraceSecs": 1});
        let flags = ["--era", era, "--ignore-eof", "--ignore-term", "--grandchild-setsid"];
        let stubborn = home.connect_entry("@t", &[], entry, &flags);
        for session in [&polite, &stubborn] {
            let marker = session.state().unwrap().marker;
            assert!(!drowse_runtime::process::marked(&marker).unwrap().is_empty());
            session.wait_until_asleep();
            assert_eq!(drowse_runtime::process::marked(&marker).unwrap(), [] as [u32; 0]);
        }
        assert_eq!(polite.journal.entries().unwrap().last().unwrap().text("why"), Some("eof"));
        let entries = stubborn.journal.entries().unwrap();
        let ends: Vec<&str> = entries
            .iter()
            .map(|entry| entry.event.as_str())
            .filter(|event| ["eof", "signal", "exit"].contains(event))
            .collect();
        assert_eq!(ends, ["eof", "signal"], "its input ended, it was told, and then it was killed");
        let status: Value = stubborn.listed()["status"].clone();
        assert_eq!(status, "idle", "and that is no crash");
    });
}
