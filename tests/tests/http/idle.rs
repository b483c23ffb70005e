//! The acceptance matrix on HTTP: when a session falls asleep, what keeps it from it, and what keeps its idle period.
//!
//! Times are compared as they were written down, by the server or in the record, and as bounds that hold however slow the
//! machine is: never earlier than a full period, and never for ever.

use std::collections::BTreeSet;
use std::time::Duration;

use drowse_runtime::record::{State, StateRecord};
use drowse_tests::harness::{GATHERED, Home, HttpServer, Session, in_both_eras, wait_until_gone};
use serde_json::json;

use super::seen::{FOR_EVER, at, count, handshake, posted, question, sessions};

/// The shortest idle period that there is.
const SECOND: u64 = 1000;

/// What a server hears of a session that nobody uses: the handshake, and once what it offers.
fn at_rest(era: &str) -> Vec<&'static str> {
    let mut heard = handshake(era);
    heard.extend(GATHERED);
    heard
}

fn start(era: &str) -> (HttpServer, Home) {
    (HttpServer::start(&["--era", era]), Home::new())
}

/// What a legacy server is told at the end, and when; of a modern one nothing.
#[track_caller]
fn was_ended_not_before(server: &HttpServer, era: &str, asleep: &StateRecord, earliest: u64) {
    assert!(asleep.since >= earliest, "asleep at {}, not before {earliest}", asleep.since);
    let deletes = server.requests("DELETE");
    if era == "legacy" {
        let last = deletes.last().expect("the end of the session was told");
        assert!(at(last) >= earliest, "told at {}, not before {earliest}", at(last));
        let ended = server.events("session-closed").pop().expect("the session was ended");
        assert!(ended.is("session-closed", "why", "delete"), "{ended:?}");
    } else {
        assert_eq!(deletes, [], "there is no session to end");
    }
}

#[test]
fn flag_omitted() {
    in_both_eras(|era| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &[], &server);
        assert_eq!(session.deadline(), None, "it never sleeps");
        session.call("tag", &["tag=a"]).ok();
        assert_eq!(session.deadline(), None, "not after an operation either");
        assert_eq!(session.record().settings.idle_timeout_secs, None);
        assert_eq!(session.listed().get("idleTimeoutSecs"), None);
        assert_eq!(server.executions("a"), 1);
    });
}

#[test]
fn zero() {
    in_both_eras(|era| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &["--idle-timeout", "0"], &server);
        assert_eq!(session.deadline(), None, "it never sleeps");
        // Kept as 0, not as nothing said.
        assert_eq!(session.record().settings.idle_timeout_secs, Some(0));
        assert_eq!(session.listed()["idleTimeoutSecs"], 0);
        // It overrides a configuration entry's, also for a session that is there.
        let file = home.path().join("e.json");
        let entry = json!({"url": server.url(), "idleTimeoutSecs": 1});
        std::fs::write(&file, json!({"mcpServers": {"e": entry}}).to_string()).unwrap();
        let target = format!("{}:e", file.display());
        home.run(["connect", &target, "@e", "--idle-timeout", "0"]).ok();
        let other = home.session("@e");
        assert_eq!((other.deadline(), &other.listed()["idleTimeoutSecs"]), (None, &json!(0)));
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
        let (server, home) = start(era);
        let session = home.connect_http("@s", &["--idle-timeout", "1"], &server);
        let state = session.state().unwrap();
        let (ready, bridge) = (state.since, state.bridge.unwrap());
        let asleep = session.wait_until_asleep();
        was_ended_not_before(&server, era, &asleep, ready + SECOND);
        assert_eq!(count(&server, "DELETE"), usize::from(era == "legacy"), "told once");
        assert!(!bridge.is_alive(), "the bridge goes too");
        // A sleep and not a crash, and the session stays.
        assert_eq!((asleep.crashes.len(), asleep.message), (0, None));
        let listed = session.listed();
        assert_eq!((&listed["status"], listed.get("pid")), (&json!("idle"), None));
        let cleaned = home.run(["clean", "--json"]).ok().json();
        assert_eq!(cleaned, json!({"removed": [], "failed": []}));
        assert!(session.exists());
        assert_eq!(posted(&server), at_rest(era), "and the server was asked nothing else");
    });
}

/// Uses a session that has less than half of its period left. A full one starts when `operation` is over.
fn resets(era: &str, operation: impl Fn(&Session<'_>), done: impl Fn(&Session<'_>, &HttpServer) -> u64) {
    let (server, home) = start(era);
    let session = home.connect_http("@s", &["--idle-timeout", "2"], &server);
    session.wait_until_left(Duration::from_millis(800));
    let (_, before) = session.deadline().unwrap();
    operation(&session);
    let (after, _) = session.deadline().unwrap();
    assert!(after > before, "the deadline moved, from {before} to {after}");
    let asleep = session.wait_until_asleep();
    was_ended_not_before(&server, era, &asleep, done(&session, &server) + 2 * SECOND);
    assert_eq!(asleep.generation, 1, "the same session");
}

#[test]
fn operation_before_deadline_resets_on_completion() {
    in_both_eras(|era| {
        let operation = |session: &Session<'_>| {
            let run = session.call("slow", &["ms:=300", "tag=a"]).ok();
            assert_eq!(run.text(), "slept 300");
        };
        // From its completion, which is 300 ms after it began to run.
        resets(era, operation, |session, _| session.wait_for_run("a") + 300);
    });
}

#[test]
fn explicit_ping_resets() {
    in_both_eras(|era| {
        let ping = |session: &Session<'_>| {
            assert_eq!(session.run(["ping"]).ok().json()["success"], true);
        };
        resets(era, ping, |_, server| {
            let asked = server.requests(question(era)).pop();
            at(&asked.expect("the server itself was asked"))
        });
    });
}

#[test]
fn operation_past_deadline_keeps_then_full_period() {
    in_both_eras(|era| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &["--idle-timeout", "1"], &server);
        let ready = session.state().unwrap().since;
        let run = session.call("slow", &["ms:=1800", "tag=a"]).ok();
        assert_eq!(run.text(), "slept 1800");
        let asleep = session.wait_until_asleep();
        let done = session.wait_for_run("a") + 1800;
        assert!(done > ready + SECOND, "past the deadline that it had");
        was_ended_not_before(&server, era, &asleep, done + SECOND);
        assert_eq!((asleep.generation, server.executions("a")), (1, 1));
    });
}

#[test]
fn concurrent_operations() {
    in_both_eras(|era| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &["--idle-timeout", "1"], &server);
        let calls = [("a", 100), ("b", 1700), ("c", 900)].map(|(tag, ms)| {
            let call = session.start_call("slow", &[&format!("ms:={ms}"), &format!("tag={tag}")]);
            (tag, ms, call)
        });
        let mut done = 0;
        for (tag, ms, call) in calls {
            assert_eq!(call.end().ok().text(), format!("slept {ms}"));
            done = done.max(session.wait_for_run(tag) + ms);
        }
        let asleep = session.wait_until_asleep();
        was_ended_not_before(&server, era, &asleep, done + SECOND);
        assert_eq!((asleep.generation, ["a", "b", "c"].map(|tag| server.executions(tag))), (1, [1; 3]));
    });
}

#[test]
fn internal_keepalive_does_not_reset() {
    in_both_eras(|era| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &["--idle-timeout", "6", "--keepalive", "1"], &server);
        session.call("tag", &["tag=a"]).ok();
        let used = session.wait_for_run("a");
        let asleep = session.wait_until_asleep();
        was_ended_not_before(&server, era, &asleep, used + 6 * SECOND);
        let asked: Vec<u64> = server.requests(question(era)).iter().map(at).filter(|at| *at > used).collect();
        assert!(asked.len() >= 3, "it was asked whether it lives: {:?}", posted(&server));
        // Had the first one counted, this would be too early.
        assert!(asked.iter().all(|at| *at < asleep.since), "nothing is asked of one that sleeps");
        assert!(asleep.since < asked[0] + 6 * SECOND, "asleep at {}, asked at {asked:?}", asleep.since);
        assert_eq!((asleep.generation, server.executions("a")), (1, 1));
        // Without the flag a server without a session hears nothing from drowse itself.
        let quiet = home.connect_http("@q", &["--idle-timeout", "1"], &server);
        quiet.wait_until_saved();
        let before = posted(&server).len();
        quiet.wait_until_asleep();
        assert_eq!(posted(&server).len(), before);
    });
}

/// Of the server, over the stream that a legacy one has for it, and of a client; neither counts.
#[test]
fn notification_or_refresh_does_not_reset() {
    in_both_eras(|era| {
        let server = HttpServer::start(&["--era", era, "--chatter", "50"]);
        let home = Home::new();
        let session = home.connect_http("@s", &["--idle-timeout", "2"], &server);
        session.wait_until_saved();
        let mut socket = session.socket();
        session.wait_until_left(Duration::from_millis(1500));
        let (_, before) = session.deadline().unwrap();
        if era == "legacy" {
            server.wait_for_events("stream", 1);
            for what in ["tools", "prompts", "resources"] {
                assert_eq!(server.ask_for("notify", what), "1", "somebody listens");
            }
        }
        for method in ["notifications/cancelled", "notifications/roots/list_changed", "notifications/x"] {
            socket.notify(method, json!({"requestId": 99})).unwrap();
        }
        // Read after them, so they were read as well.
        assert!(socket.ask("drowse/status", json!({}))["result"].is_object());
        let (low, _) = session.deadline().unwrap();
        assert!(low <= before, "the deadline moved, from {before} to {low}");
        let asleep = session.wait_until_asleep();
        // What a server says has changed is asked for again, for drowse itself; where it says nothing, nothing is.
        let posted = posted(&server);
        let (first, again) = posted.split_at(at_rest(era).len());
        assert_eq!(first, at_rest(era));
        let again: BTreeSet<&str> = again.iter().map(String::as_str).collect();
        let lists = if era == "legacy" { BTreeSet::from(GATHERED) } else { BTreeSet::new() };
        assert!(again.is_subset(&lists), "{again:?}");
        assert_eq!(asleep.generation, 1);
    });
}

#[test]
fn restart_keeps_timeout() {
    in_both_eras(|era| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &["--idle-timeout", "1"], &server);
        let run = session.run(["restart"]).ok().json();
        assert_eq!((&run["idleTimeoutSecs"], &run["_drowse"]["outcome"]), (&json!(1), &json!("restarted")));
        let again = session.state().unwrap().since;
        let asleep = session.wait_until_asleep();
        was_ended_not_before(&server, era, &asleep, again + SECOND);
        assert_eq!((asleep.generation, session.listed()["idleTimeoutSecs"].as_u64()), (2, Some(1)));
        // In the other word order, and from sleep.
        home.run(["restart", "@s", "--json"]).ok();
        assert_eq!(session.wait_until_asleep().generation, 3);
        let expected = if era == "legacy" { 3 } else { 0 };
        assert_eq!(
            (sessions(&server).len(), count(&server, "DELETE")),
            (expected, expected),
            "each was ended"
        );
    });
}

#[test]
fn recovery_after_killed_bridge_keeps_timeout() {
    in_both_eras(|era| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &["--idle-timeout", "1"], &server);
        session.kill_bridge();
        assert_eq!(session.listed()["status"], "crashed", "shown at once");
        assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
        let woken = session.wait_for_run("a");
        let asleep = session.wait_until_asleep();
        was_ended_not_before(&server, era, &asleep, woken + SECOND);
        assert_eq!((asleep.generation, server.executions("a")), (2, 1));
        assert_eq!(session.listed()["idleTimeoutSecs"], 1);
    });
}

#[test]
fn next_command_after_idle_wakes() {
    in_both_eras(|era| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &["--idle-timeout", "1"], &server);
        session.call("tag", &["tag=first"]).ok();
        session.wait_until_asleep();
        session.call("tag", &["tag=second"]).ok();
        assert_eq!(session.listed()["status"], "live");
        let state = session.state().unwrap();
        assert_eq!((state.state, state.generation), (State::Live, 2));
        // And asleep again, and awake again.
        session.wait_until_asleep();
        session.call("tag", &["tag=third"]).ok();
        assert_eq!(["first", "second", "third"].map(|tag| server.executions(tag)), [1; 3]);
        let calls = server.requests("tools/call");
        let mut named: Vec<_> =
            calls.iter().map(|call| call.fields["headers"].get("mcp-session-id").cloned()).collect();
        if era == "legacy" {
            named.sort_by_key(|id| id.as_ref().map(ToString::to_string));
            named.dedup();
            assert_eq!((named.len(), sessions(&server).len()), (3, 3), "always a different one: {named:?}");
            assert_eq!(count(&server, "server/discover"), 1, "its era is known by now");
        } else {
            assert_eq!(named, [None, None, None], "there are no sessions");
        }
    });
}

#[test]
fn kill_of_the_bridge_fails_what_is_in_flight_and_the_next_call_works() {
    in_both_eras(|era| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &["--idle-timeout", "600"], &server);
        let call = session.start_call("slow", &[FOR_EVER, "tag=a"]);
        session.wait_for_run("a");
        session.kill_bridge();
        let failed = call.end().fails(3);
        super::seen::check(&failed, "bridge-lost", "unknown");
        assert_eq!(session.listed()["status"], "crashed");
        assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
        assert_eq!((server.executions("a"), server.executions("b")), (1, 1));
        assert_eq!(session.state().unwrap().generation, 2);
        if era == "legacy" {
            let sessions = sessions(&server);
            assert!(sessions.len() == 2 && sessions[0] != sessions[1], "{sessions:?}");
        }
    });
}

/// Whatever step of the drain it comes to: a sleep, and the next call begins a fresh session and runs once.
#[cfg(debug_assertions)]
#[test]
fn kill_of_the_bridge_at_each_step_of_the_drain_leaves_a_sleep() {
    in_both_eras(|era| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &["--idle-timeout", "1", "--keepalive", "1"], &server);
        for (number, step) in (2_u64..).step_by(2).zip(["D1", "D1-gone", "D3", "D3-unlinked"]) {
            session.wait_until_asleep();
            let (killed, next) = (format!("killed-at-{step}"), format!("after-{step}"));
            let mut command = home.command(["@s", "tools-call", "tag", &format!("tag={killed}"), "--json"]);
            command.env("DROWSE_FAULT", step);
            home.finish(command).ok();
            let state = session.wait_until(|state| state.state == State::Idle && state.generation == number);
            wait_until_gone(state.bridge.as_ref());
            let state = session.state().unwrap();
            assert_eq!((state.state, state.ended), (State::Idle, step != "D1"), "{step}");
            assert_eq!(session.listed()["status"], "idle", "{step}");
            session.call("tag", &[&format!("tag={next}")]).ok();
            assert_eq!([killed, next].map(|tag| server.executions(&tag)), [1, 1], "{step}");
            assert_eq!(session.state().unwrap().generation, number + 1, "{step}");
        }
    });
}
