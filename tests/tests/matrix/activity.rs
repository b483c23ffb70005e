//! The rows of the activity table that exist by now: which commands, and which messages on a bridge's socket, start a
//! sleeping server, which count as its use, and which do neither.

use std::time::Duration;

use drowse_runtime::record::State;
use drowse_tests::harness::{Home, Session, in_both_eras, now_ms};
use serde_json::{Value, json};

/// Commands on a session that start its server and count.
const USES: &[&[&str]] = &[
    &[],
    &["tools-list"],
    &["tools-list", "--full"],
    &["tools-get", "echo"],
    &["tools-call", "echo", "text=hi"],
    &["tools-call", "echo", "--help"],
    &["resources-list"],
    &["resources-read", "counter://main"],
    &["ping"],
];

/// Commands that do neither, whatever the session is.
const REMARKS: &[&[&str]] = &[
    &[],
    &["--json"],
    &["@s", "logs"],
    &["logs", "@s", "-n", "5"],
    &["clean"],
    &["--help"],
    &["--version"],
    &["help", "connect"],
    &["@s", "tools-call", "--help"],
    // Refused before anything is asked.
    &["@s", "no-such-command"],
    &["@s", "tools-list", "--no-such-flag"],
    &["@s", "tools-call", "echo", "not an argument"],
    &["@s", "ping", "--timeout", "-1"],
    &["@other", "ping"],
];

/// Long enough that nothing falls asleep by itself here.
const IDLE_SECS: u64 = 600;

fn awake<'h>(home: &'h Home, era: &str) -> Session<'h> {
    home.connect("@s", &["--idle-timeout", "600"], &["--era", era])
}

/// When the idle period ends, known well enough to tell whether something moved it.
fn deadline(session: &Session<'_>) -> (u64, u64) {
    for _ in 0..1000 {
        let (low, high) = session.deadline().expect("a deadline");
        if high - low <= 20 {
            return (low, high);
        }
    }
    panic!("this machine is too slow to ask anything");
}

/// That `act` counts as use, or does not.
#[track_caller]
fn check_counts(session: &Session<'_>, counts: bool, what: &str, act: impl FnOnce()) {
    // Far enough from the last use that a new period could be told from the old.
    session.wait_until_left(Duration::from_millis(IDLE_SECS * 1000 - 60));
    let (_, before) = deadline(session);
    let begun = now_ms();
    act();
    let (low, high) = deadline(session);
    if counts {
        assert!(low > before && high >= begun + IDLE_SECS * 1000, "{what} counts");
    } else {
        assert!(low <= before && high < begun + IDLE_SECS * 1000, "{what} does not count");
    }
}

#[test]
fn commands_that_use_a_session_count() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = awake(&home, era);
        for words in USES {
            check_counts(&session, true, &words.join(" "), || {
                let _ = session.run(words.iter().copied()).ok();
            });
        }
        // A connect to it is a use, a result that is an error as well, and so is an error answer.
        let mut connect = vec!["connect".to_owned(), "@s".to_owned(), "--".to_owned()];
        connect.extend(session.server(&["--era", era]));
        check_counts(&session, true, "connect", || drop(home.run(&connect).ok()));
        check_counts(&session, true, "fail", || drop(session.call("fail", &[]).exits(2)));
        check_counts(&session, true, "rpc_error", || drop(session.call("rpc_error", &[]).exits(2)));
        assert_eq!(session.starts(), 1);
        check_counts(&session, true, "restart", || drop(session.run(["restart"]).ok()));
        assert_eq!(session.starts(), 2);
    });
}

#[test]
fn commands_that_use_a_session_start_it() {
    in_both_eras(|era| {
        let home = Home::new();
        for (place, words) in USES.iter().enumerate() {
            let session = home.connect(&format!("@s{place}"), &["--lazy"], &["--era", era]);
            assert_eq!((session.starts(), session.listed()["status"].as_str()), (0, Some("dormant")));
            let _ = session.run(words.iter().copied()).ok();
            assert_eq!(
                (session.starts(), session.listed()["status"].as_str()),
                (1, Some("live")),
                "{words:?}"
            );
        }
        for word in ["restart", "connect"] {
            let session = home.connect(&format!("@{word}"), &["--lazy"], &["--era", era]);
            if word == "restart" {
                session.run(["restart"]).ok();
            } else {
                home.connect("@connect", &[], &["--era", era]);
            }
            assert_eq!((session.starts(), session.listed()["status"].as_str()), (1, Some("live")), "{word}");
        }
    });
}

#[test]
fn commands_about_drowse_do_not_count() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = awake(&home, era);
        session.wait_until_saved();
        let methods = session.methods();
        for words in REMARKS {
            check_counts(&session, false, &words.join(" "), || drop(home.run(*words)));
        }
        check_counts(&session, false, "a connect that is refused", || {
            let _ = home.run(["connect", "@s", "--", "/another/server"]).exits(1);
        });
        // Another session's end is no use of this one either.
        check_counts(&session, false, "close @other", || {
            home.connect("@other", &[], &["--era", era]);
            home.run(["close", "@other"]).ok();
        });
        assert_eq!(session.methods(), methods, "the server heard nothing of it");
    });
}

#[test]
fn commands_about_drowse_start_nothing() {
    in_both_eras(|era| {
        let home = Home::new();
        let dormant = home.connect("@s", &["--lazy"], &["--era", era]);
        let asleep = home.connect("@t", &["--idle-timeout", "1"], &["--era", era]);
        let crashed = home.connect("@c", &[], &["--era", era]);
        crashed.kill_bridge();
        asleep.wait_until_asleep();
        for words in REMARKS {
            // `clean` takes what crashed, and only that.
            let _ = home.run(*words);
        }
        home.connect("@s", &["--lazy", "--idle-timeout", "7"], &["--era", era]);
        home.connect("@t", &["--lazy"], &["--era", era]);
        assert_eq!(asleep.run(["logs"]).code, 0);
        assert_eq!(dormant.listed()["status"], "dormant");
        assert_eq!(asleep.state().unwrap().state, State::Idle);
        assert!(dormant.try_socket().is_none() && asleep.try_socket().is_none());
        assert_eq!((crashed.starts(), crashed.exists()), (1, false));
        // Nor does the end of a session start it first.
        home.run(["close", "@s"]).ok();
        home.run(["@t", "close"]).ok();
        assert_eq!((dormant.starts(), asleep.starts()), (0, 1));
        assert!(!dormant.exists() && !asleep.exists());
    });
}

#[test]
fn messages_that_use_a_server_count() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = awake(&home, era);
        let mut socket = session.socket();
        for (method, params) in [
            ("tools/list", json!({})),
            ("tools/call", json!({"name": "echo", "arguments": {"text": "hi"}})),
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("resources/read", json!({"uri": "counter://main"})),
            ("prompts/list", json!({})),
            ("prompts/get", json!({"name": "hello", "arguments": {"name": "you"}})),
            ("completion/complete", completion()),
            ("drowse/info", json!({})),
            ("drowse/ping", json!({})),
        ] {
            check_counts(&session, true, method, || {
                let answer = socket.ask(method, params);
                assert!(answer["result"].is_object(), "{method}: {answer}");
            });
        }
        assert_eq!(session.starts(), 1);
    });
}

fn completion() -> Value {
    json!({"ref": {"type": "ref/prompt", "name": "hello"}, "argument": {"name": "name", "value": "an"}})
}

#[test]
fn messages_about_drowse_do_not_count() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = awake(&home, era);
        session.wait_until_saved();
        let mut socket = session.socket();
        let methods = session.methods();
        for method in [
            "server/discover",
            "drowse/status",
            "drowse/snapshot",
            "initialize",
            "ping",
            "logging/setLevel",
            "subscriptions/listen",
        ] {
            check_counts(&session, false, method, || {
                let answer = socket.ask(method, json!({}));
                let known = ["server/discover", "drowse/status", "drowse/snapshot"].contains(&method);
                assert_eq!(answer["result"].is_object(), known, "{method}: {answer}");
            });
        }
        for method in ["notifications/cancelled", "notifications/initialized", "notifications/progress"] {
            check_counts(&session, false, method, || {
                socket.notify(method, json!({"requestId": 0, "progressToken": 0})).unwrap();
                // Read after it, so it was read as well.
                socket.ask("drowse/status", json!({}));
            });
        }
        check_counts(&session, false, "a connection that comes and goes", || drop(session.socket()));
        assert_eq!(session.methods(), methods, "the server heard nothing of it");
    });
}
