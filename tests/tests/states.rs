//! Every state by its name, as the real program shows it: in the list, to people and to programs, with its age and the
//! next command; how it is reached by real processes, and how it is left.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

use std::time::{Duration, Instant};

use drowse_runtime::record::{State, StateRecord, write_state};
use drowse_tests::harness::{Home, HttpServer, Session, in_both_eras, now_ms};
use serde_json::Value;

/// How the list shows `@s`, to people: its line, and what stands below it.
fn shown(home: &Home) -> String {
    home.run(["--max-chars", "100000"]).ok().out
}

/// That `@s` is shown so: with the state's word, and everywhere the same next step. Its entry.
#[track_caller]
fn is(home: &Home, session: &Session<'_>, state: &str, next: &str) -> Value {
    let entry = session.listed();
    assert_eq!(entry["status"], state, "{entry}");
    let said = entry["_drowse"]["nextStep"].as_str().unwrap_or_default();
    assert!(said.contains(next), "{said:?} does not say {next:?}");
    let text = shown(home);
    assert!(text.contains(&format!("@s  {state}")), "{text}");
    assert!(text.contains("\n  ↳ ") && text.contains(next), "{text}");
    entry
}

#[test]
fn dormant() {
    let home = Home::new();
    let session = home.connect("@s", &["--lazy"], &[]);
    is(&home, &session, "dormant", "starts on first use, e.g. drowse @s tools-list");
    assert_eq!(session.starts(), 0);
    assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
    is(&home, &session, "live", "never sleeps");
}

#[test]
fn connecting() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &["--lazy"], &["--era", era, "--start-delay", "2000"]);
        let call = session.start_call("tag", &["tag=a"]);
        session.wait_until(|state| state.state == State::Connecting);
        is(&home, &session, "connecting", "wait until it answers: drowse @s ping");
        assert_eq!(call.end().ok().text(), "a");
        is(&home, &session, "live", "use it");
    });
}

#[test]
fn live() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &["--idle-timeout", "600"], &["--era", era]);
        let before = now_ms();
        session.call("tag", &["tag=a"]).ok();
        let entry = is(&home, &session, "live", "sleeps in 10 min; use it, e.g. drowse @s tools-list");
        let extra = &entry["_drowse"];
        let left = extra["idleInMs"].as_u64().unwrap();
        assert!(left <= 600_000 && left > 300_000, "{entry}");
        let at = extra["sleepsAt"].as_u64().unwrap();
        assert!(at >= before + 600_000 - 1000 && at <= now_ms() + 600_000, "{entry}");
        assert_eq!((&extra["inFlight"], extra.get("deferredBy")), (&0.into(), None));
        assert!(extra["since"].as_u64().unwrap() <= now_ms());
        // The same where one asks for it alone.
        let info = session.run([]).ok().json();
        assert!(info["_drowse"]["idleInMs"].is_u64() && info["_drowse"]["nextStep"].is_string(), "{info}");
        let text = home.run(["@s"]).ok().out;
        assert!(text.contains("@s  live") && text.contains("↳ sleeps in 10 min"), "{text}");
        // What is under way keeps it awake.
        let slow = session.start_call("slow", &["ms:=600000", "tag=slow"]);
        session.wait_for(|entries| entries.iter().any(|entry| entry.is("in", "method", "tools/call")));
        while session.listed()["_drowse"].get("deferredBy").is_none() {}
        is(&home, &session, "live", "kept awake by an operation in flight");
        drop(slow);
    });
}

#[test]
fn idle() {
    in_both_eras(|era| {
        let home = Home::new();
        let flags = ["--idle-timeout", "1", "--auto-restart"];
        let session = home.connect("@s", &flags, &["--era", era]);
        let asleep = session.wait_until_asleep();
        let entry = is(&home, &session, "idle", "wakes on next use, e.g. drowse @s tools-list");
        assert_eq!(entry["_drowse"]["since"], asleep.since);
        // Nothing about drowse wakes it, and `clean` keeps it.
        for words in [&["clean"][..], &["logs", "@s"], &[]] {
            home.run(words).ok();
        }
        assert_eq!(session.starts(), 1);
        is(&home, &session, "idle", "wakes on next use");
        // A clock that was set back makes no nonsense of its age.
        let ahead = StateRecord { since: now_ms() + 86_400_000, ..session.state().unwrap() };
        write_state(home.files(), &"@s".parse().unwrap(), &ahead).unwrap();
        assert!(shown(&home).contains("@s  idle just now"), "{}", shown(&home));
        let ago = StateRecord { since: now_ms() - 3 * 3_600_000 - 5_000, ..ahead };
        write_state(home.files(), &"@s".parse().unwrap(), &ago).unwrap();
        assert!(shown(&home).contains("@s  idle for 3 h"), "{}", shown(&home));
        assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
        assert_eq!(session.starts(), 2);
    });
}

/// A server that exits with status 0 while nothing needs it only beat the timer, if there is one.
#[test]
fn idle_by_an_exit_of_its_own() {
    in_both_eras(|era| {
        for (flags, state) in [(&["--idle-timeout", "600"][..], State::Idle), (&[], State::Crashed)] {
            let home = Home::new();
            let session = home.connect("@s", flags, &["--era", era, "--exit-after-idle-ms", "500"]);
            let ended = session.wait_until(|state| state.ended);
            assert_eq!((ended.state, ended.message.is_some()), (state, state == State::Crashed));
            assert_eq!(session.listed()["status"], state.name());
        }
    });
}

#[test]
fn disconnected() {
    in_both_eras(|era| {
        let mut server = HttpServer::start(&["--era", era]);
        let home = Home::new();
        let session = home.connect_http("@s", &["--idle-timeout", "600"], &server);
        server.stop();
        let _ = session.call("tag", &["tag=a"]).fails(3);
        let entry = is(&home, &session, "disconnected", "does not answer; begin anew: drowse @s restart");
        assert!(entry["_drowse"]["idleInMs"].is_u64(), "it falls asleep all the same: {entry}");
        server.restart();
        assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
        is(&home, &session, "live", "sleeps in");
    });
}

#[test]
fn reconnecting() {
    in_both_eras(|era| {
        let home = Home::new();
        let flags = ["--auto-restart", "--idle-timeout", "600"];
        let session = home.connect("@s", &flags, &["--era", era, "--start-delay", "2000"]);
        session.call("tag", &["tag=a"]).ok();
        session.kill_server();
        session.wait_until(|state| state.state == State::Reconnecting);
        is(&home, &session, "reconnecting", "is being started again; why: drowse @s logs");
        session.wait_until(|state| state.state == State::Live && state.generation == 2);
        assert_eq!((session.starts(), session.executions("a")), (2, 1));
    });
}

#[test]
fn crashed() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era, "--stderr", "TypeError: x is undefined"]);
        session.call("tag", &["tag=a"]).ok();
        let call = session.start_call("slow", &["ms:=600000", "tag=slow"]);
        session.wait_for(|entries| {
            entries.iter().filter(|entry| entry.is("in", "method", "tools/call")).count() == 2
        });
        let killed = Instant::now();
        session.kill_server();
        let failed = call.end().fails(2);
        assert_eq!((&failed["kind"], &failed["ran"]), (&"server-lost".into(), &"unknown".into()));
        assert!(killed.elapsed() < Duration::from_secs(20), "it was waited for");
        session.wait_until(|state| state.state == State::Crashed && state.ended);
        let next = "starts again on next use, e.g. drowse @s ping; why: drowse @s logs";
        let entry = is(&home, &session, "crashed", next);
        assert!(entry["_drowse"]["message"].as_str().unwrap().contains("signal 9"), "{entry}");
        assert!(entry["_drowse"]["stderr"].as_str().unwrap().contains("TypeError"), "{entry}");
        assert!(shown(&home).contains("↳ its last words: TypeError: x is undefined"), "{}", shown(&home));
        assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
        assert_eq!((session.starts(), session.executions("a"), session.executions("b")), (2, 1, 1));
    });
}

/// Whoever uses the server that takes the place of one that ended by itself is told that what that kept is gone, once.
#[test]
fn a_fresh_server_after_a_crash_is_told_of() {
    in_both_eras(|era| {
        let home = Home::new();
        let lost = |session: &Session<'_>, words: &[&str]| {
            let run = session.run(words.iter().copied()).ok();
            let told = run.notices();
            told.iter().for_each(|told| assert_eq!(told["kind"], "session-renewed", "{told}"));
            told.iter().filter(|told| told["notice"].as_str().unwrap().contains("ended by itself")).count()
        };
        // By whichever command finds out, also by one that the server itself hears nothing of but that it is there.
        for (name, words) in
            [("@ping", &["ping"][..]), ("@call", &["tools-call", "tag", "tag=a"]), ("@list", &["tools-list"])]
        {
            let session = home.connect(name, &[], &["--era", era]);
            assert_eq!(lost(&session, words), 0, "a first start replaces nothing");
            session.kill_server();
            session.wait_until(|state| state.state == State::Crashed && state.ended);
            assert_eq!((lost(&session, words), lost(&session, words)), (1, 0), "{words:?}");
            // By somebody who asked for it, it is no news.
            session.kill_server();
            session.wait_until(|state| state.state == State::Crashed && state.ended);
            session.run(["restart"]).ok();
            assert_eq!(lost(&session, words), 0, "{words:?}");
            session.run(["close"]).ok();
        }
        let session = home.connect("@restarts", &["--auto-restart"], &["--era", era]);
        session.kill_server();
        session.wait_until(|state| state.state == State::Live && state.generation == 2);
        assert_eq!((lost(&session, &["tools-list"]), lost(&session, &["tools-list"])), (1, 0));
        // With its bridge.
        session.kill_bridge();
        assert_eq!((lost(&session, &["tools-list"]), lost(&session, &["tools-list"])), (1, 0));
        // People read it, too.
        session.kill_bridge();
        let run = home.run(["@restarts", "tools-list"]).ok();
        assert!(
            run.err.contains("@restarts: the server had ended by itself, and a fresh one answered"),
            "{}",
            run.err
        );
    });
}

/// A server that dies at every start is started no more than five times in a row, whoever calls.
#[test]
fn crashed_at_every_start() {
    in_both_eras(|era| {
        let home = Home::new();
        let fixture = ["--era", era, "--crash-in-handshake", "1000", "--stderr", "no such database"];
        let session = home.connect("@s", &["--lazy"], &fixture);
        for crash in 1..=5 {
            let run = session.call("tag", &["tag=a"]).fails(2);
            assert_eq!((&run["kind"], &run["ran"]), (&"start-failed".into(), &"no".into()), "{run}");
            assert!(run["_drowse"]["stderr"].as_str().unwrap().contains("no such database"), "{run}");
            // Until its back-off is over, which the last time is half a minute.
            if let Some(at) = session.state().unwrap().retry_at.filter(|_| crash < 5) {
                std::thread::sleep(Duration::from_millis(at.saturating_sub(now_ms())));
            }
        }
        let begun = Instant::now();
        let refused = session.call("tag", &["tag=a"]).fails(2);
        assert_eq!((&refused["kind"], &refused["ran"]), (&"backing-off".into(), &"no".into()), "{refused}");
        assert!(begun.elapsed() < Duration::from_secs(20), "it fails at once");
        let starts = session.starts();
        // Who dies on the probe may be an old server: that is one more process.
        assert!((5..=10).contains(&starts), "{starts} starts in 5 calls");
        let said = refused.to_string();
        assert!(said.contains("drowse restart @s") && said.contains(" s"), "{said}");
        for _ in 0..5 {
            let _ = session.call("tag", &["tag=a"]).fails(2);
        }
        assert_eq!(session.starts(), starts, "and nobody starts it now");
        let entry = is(&home, &session, "crashed", "keeps crashing, so it is not started for");
        assert!(entry["_drowse"]["retryAt"].as_u64().unwrap() > now_ms(), "{entry}");
        assert!(
            shown(&home).contains("↳ its last words: drowse-fixture: crashing in the handshake"),
            "{}",
            shown(&home)
        );
        // A user's own word closes the breaker.
        let again = session.run(["restart"]).fails(2);
        assert_eq!(again["kind"], "start-failed", "{again}");
        assert!(session.starts() > starts);
        assert_eq!(session.state().unwrap().crashes.len(), 1);
    });
}

#[test]
fn unauthorized() {
    in_both_eras(|era| {
        for by_restart in [false, true] {
            let mut server = HttpServer::start(&["--era", era, "--token", "one"]);
            let home = Home::new();
            let session = home.connect_http("@s", &["-H", "Authorization: Bearer one"], &server);
            server.restart_with(&["--era", era, "--token", "two"]);
            let _ = session.call("tag", &["tag=a"]).fails(4);
            session.wait_until(|state| state.ended);
            is(&home, &session, "unauthorized", "the same once more: drowse @s restart");
            assert!(shown(&home).contains("new credentials: drowse connect"), "{}", shown(&home));
            assert_eq!(session.call("tag", &["tag=a"]).fails(4)["ran"], "no");
            if by_restart {
                let _ = session.run(["restart"]).fails(4);
                is(&home, &session, "unauthorized", "drowse @s restart");
                server.restart_with(&["--era", era, "--token", "one"]);
                session.run(["restart"]).ok();
            } else {
                home.connect_http("@s", &["-H", "Authorization: Bearer two"], &server);
            }
            is(&home, &session, "live", "never sleeps");
            assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
            assert_eq!((server.executions("a"), server.executions("b")), (0, 1));
        }
    });
}

#[test]
fn expired() {
    for fail in [false, true] {
        let server = HttpServer::start(&["--era", "legacy"]);
        let home = Home::new();
        let flags: &[&str] = if fail { &["--on-expiry", "fail"] } else { &[] };
        let session = home.connect_http("@s", flags, &server);
        server.wait_for_events("stream", 1);
        server.ask_for("forget", "");
        session.wait_until(|state| state.ended);
        if fail {
            is(&home, &session, "expired", "its state is gone; begin a fresh one: drowse @s restart");
            assert_eq!(session.call("tag", &["tag=a"]).fails(2)["kind"], "expired");
            session.run(["restart"]).ok();
        } else {
            is(&home, &session, "expired", "its state is gone; starts fresh on next use");
            let run = session.call("tag", &["tag=a"]).ok();
            assert_eq!(run.text(), "a");
            // A program is told as well, beside a result that is what it would be.
            let notices = run.notices();
            assert_eq!((notices.len(), run.err.lines().count()), (1, 1), "{}", run.err);
            assert_eq!(notices[0]["kind"], "session-renewed");
            assert!(notices[0]["notice"].as_str().unwrap().contains("gone"), "{}", notices[0]);
            let next = session.call("tag", &["tag=a"]).ok();
            assert_eq!((next.err.as_str(), &next.out), ("", &run.out));
        }
        is(&home, &session, "live", "never sleeps");
    }
}
