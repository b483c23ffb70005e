//! Sessions that their server ends, and servers that go and come back: a fresh session where it is proved that nothing
//! ran, and nothing twice.

use drowse_runtime::record::State;
use drowse_tests::harness::{Home, HttpServer, at_once, in_both_eras};

use super::seen::{FOR_EVER, check, count, ids, lives, says, sessions};

/// A legacy server on whose sessions nobody can listen, so that only a request finds out that one is gone.
const UNHEARD: &[&str] = &["--era", "legacy", "--get", "405"];

/// How a server may say that a session is gone.
const WORDS: [(&str, &str); 2] = [("404", "404"), ("400", "400")];

#[test]
fn a_session_that_is_gone_is_replaced_and_the_call_runs_once() {
    at_once(WORDS, |status| {
        let server = HttpServer::start(&[UNHEARD, &["--unknown-session", status]].concat());
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        for tag in ["a", "b"] {
            server.ask_for("forget", "");
            assert_eq!(session.call("tag", &[&format!("tag={tag}")]).ok().text(), tag);
            assert_eq!(server.executions(tag), 1);
        }
        // What only reads as well.
        server.ask_for("forget", "");
        session.run(["tools-list"]).ok();
        // People are told, once, that something may be missing.
        let told = |tag: &str| {
            let run = home.run(["@s", "tools-call", "tag", &format!("tag={tag}")]).ok();
            assert_eq!((run.out.as_str(), server.executions(tag)), (format!("{tag}\n").as_str(), 1));
            run.err.contains("a fresh one answered")
        };
        assert!(!told("c"), "it was the command before that found out");
        server.ask_for("forget", "");
        assert!(told("d") && !told("e"));
        server.ask_for("forget", "");
        let run = home.run(["@s", "ping"]).ok();
        assert!(run.err.contains("a fresh one answered") && !told("f"), "{}", run.err);
        let sessions = sessions(&server);
        assert_eq!((sessions.len(), session.state().unwrap().generation), (6, 6), "{sessions:?}");
        assert_eq!(count(&server, "DELETE"), 0, "nobody ends what is gone");
        assert_eq!(count(&server, "server/discover"), 1, "its era is known");
        lives(&session, &server);
    });
}

#[test]
fn many_calls_find_the_session_gone_at_once() {
    at_once(WORDS, |status| {
        let server = HttpServer::start(&[UNHEARD, &["--unknown-session", status]].concat());
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        server.ask_for("forget", "");
        let tags: Vec<String> = (0..6).map(|place| format!("t{place}")).collect();
        at_once(tags.iter().map(|tag| (tag.clone(), tag)), |tag| {
            assert_eq!(&session.call("tag", &[&format!("tag={tag}")]).ok().text(), tag);
        });
        assert!(tags.iter().all(|tag| server.executions(tag) == 1));
        assert_eq!(
            (sessions(&server).len(), session.state().unwrap().generation),
            (2, 2),
            "one fresh session"
        );
    });
}

/// A server that forgets each session at once is not asked for ever.
#[test]
fn a_server_that_keeps_no_session_fails_the_call() {
    at_once(WORDS, |status| {
        // `initialize` is no request of the session yet; `notifications/initialized` is the only one it takes.
        let flags = ["--session-requests", "1", "--unknown-session", status];
        let server = HttpServer::start(&[UNHEARD, &flags].concat());
        let home = Home::new();
        // So that drowse itself has asked for nothing by then.
        let session = home.connect_http("@s", &["--lazy"], &server);
        let failed = session.call("tag", &["tag=a"]).fails(2);
        check(&failed, "expired", "no");
        assert_eq!((server.executions("a"), sessions(&server).len()), (0, 2), "tried once more");
    });
}

#[test]
fn who_would_rather_stop_gets_no_fresh_session() {
    at_once(WORDS, |status| {
        let server = HttpServer::start(&[UNHEARD, &["--unknown-session", status]].concat());
        let home = Home::new();
        let session = home.connect_http("@s", &["--on-expiry", "fail"], &server);
        server.ask_for("forget", "");
        for tag in ["a", "b"] {
            let failed = session.call("tag", &[&format!("tag={tag}")]).fails(2);
            check(&failed, "expired", "no");
            says(&failed, &["ended the session", "restart"]);
            assert_eq!(session.listed()["status"], "expired");
        }
        check(&session.run(["tools-list"]).fails(2), "expired", "no");
        assert_eq!((server.executions("a"), sessions(&server).len()), (0, 1));
        session.run(["restart"]).ok();
        lives(&session, &server);
        assert_eq!((server.executions("a"), server.executions("b"), sessions(&server).len()), (0, 0, 2));
    });
}

#[test]
fn a_session_that_ends_in_a_call_may_have_run() {
    let server = HttpServer::start(&["--era", "legacy"]);
    let home = Home::new();
    let session = home.connect_http("@s", &[], &server);
    let call = session.start_call("slow", &[FOR_EVER, "tag=a"]);
    session.wait_for_run("a");
    server.ask_for("forget", "");
    let failed = call.end().fails(3);
    check(&failed, "network", "unknown");
    assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
    assert_eq!((server.executions("a"), server.executions("b"), sessions(&server).len()), (1, 1, 2));
}

/// The stream that a legacy session is listened to on tells of its end.
#[test]
fn what_is_found_out_while_nothing_is_asked() {
    let idle = |home: &Home, server: &HttpServer| {
        let session = home.connect_http("@idle", &["--idle-timeout", "600"], server);
        server.wait_for_events("stream", 1);
        server.ask_for("forget", "");
        // It only beat the timer to the same end.
        let state = session.wait_until(|state| state.ended);
        assert_eq!((state.state, state.message), (State::Idle, None));
        assert_eq!(session.listed()["status"], "idle");
        assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
        assert_eq!((server.executions("a"), sessions(server).len()), (1, 2));
    };
    let stays = |home: &Home, server: &HttpServer| {
        let session = home.connect_http("@stays", &[], server);
        server.wait_for_events("stream", 1);
        server.ask_for("forget", "");
        let state = session.wait_until(|state| state.ended);
        assert_eq!(state.state, State::Expired);
        assert_eq!(session.listed()["status"], "expired");
        assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
        assert_eq!((server.executions("a"), sessions(server).len()), (1, 2));
    };
    let fails = |home: &Home, server: &HttpServer| {
        let session = home.connect_http("@fails", &["--on-expiry", "fail"], server);
        server.wait_for_events("stream", 1);
        server.ask_for("forget", "");
        session.wait_until(|state| state.ended);
        assert_eq!(session.listed()["status"], "expired");
        check(&session.call("tag", &["tag=a"]).fails(2), "expired", "no");
        session.run(["restart"]).ok();
        assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
        assert_eq!((server.executions("a"), sessions(server).len()), (1, 2));
    };
    let again = |home: &Home, server: &HttpServer| {
        let session = home.connect_http("@again", &["--auto-restart"], server);
        server.wait_for_events("stream", 1);
        server.ask_for("forget", "");
        let state = session.wait_until(|state| state.generation == 2 && state.state == State::Live);
        assert!(!state.ended);
        assert_eq!((sessions(server).len(), count(server, "tools/call")), (2, 0), "in the background");
        lives(&session, server);
    };
    type Case<'c> = (&'static str, &'c (dyn Fn(&Home, &HttpServer) + Sync));
    let cases: [Case<'_>; 4] =
        [("an idle period", &idle), ("none", &stays), ("on expiry fail", &fails), ("auto-restart", &again)];
    let cases = cases
        .into_iter()
        .flat_map(|(name, case)| WORDS.map(|(words, status)| (format!("{name}, {words}"), (case, status))));
    at_once(cases, |(case, status)| {
        let server = HttpServer::start(&["--era", "legacy", "--unknown-session", status]);
        case(&Home::new(), &server);
    });
}

/// Many servers have no stream to listen to, and say so in many ways. None is the end of the session.
#[test]
fn servers_that_nobody_can_listen_to() {
    let refusals = [
        "status=400",
        "status=404",
        "html=404",
        "status=405",
        "status=409",
        "status=501",
        "html=200",
        "close=before",
    ];
    at_once(refusals.map(|refusal| (refusal, refusal)), |refusal| {
        let server = HttpServer::start(&["--era", "legacy", "--fault", &format!("{refusal};on=GET")]);
        let home = Home::new();
        let session = home.connect_http("@s", &["--auto-restart", "--idle-timeout", "600"], &server);
        server.wait_for(|entries| entries.iter().any(|entry| entry.is("http", "verb", "GET")));
        assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
        lives(&session, &server);
        assert_eq!((server.executions("a"), sessions(&server).len()), (1, 1), "{refusal}");
        assert_eq!(session.state().unwrap().generation, 1);
    });
}

/// A keepalive finds it out where nobody can listen.
#[test]
fn a_keepalive_finds_the_session_gone() {
    at_once(WORDS, |status| {
        let server = HttpServer::start(&[UNHEARD, &["--unknown-session", status]].concat());
        let home = Home::new();
        let session = home.connect_http("@s", &["--keepalive", "1", "--auto-restart"], &server);
        server.ask_for("forget", "");
        session.wait_until(|state| state.generation == 2 && state.state == State::Live);
        assert_eq!((sessions(&server).len(), count(&server, "tools/call")), (2, 0));
        lives(&session, &server);
    });
}

/// Auto-restart never wakes a session that fell asleep.
#[test]
fn auto_restart_leaves_the_sleeping_alone() {
    let server = HttpServer::start(&["--era", "legacy"]);
    let home = Home::new();
    let session = home.connect_http("@s", &["--auto-restart", "--idle-timeout", "1"], &server);
    let asleep = session.wait_until_asleep();
    server.ask_for("forget", "");
    assert_eq!((asleep.generation, sessions(&server).len()), (1, 1));
    assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
    assert_eq!(session.state().unwrap().generation, 2);
}

/// The kinds of server that there are: what a server that was restarted has forgotten.
const KINDS: [(&str, &[&str]); 4] = [
    ("modern", &["--era", "modern"]),
    ("sessions", &["--era", "legacy"]),
    ("unheard sessions", &["--era", "legacy", "--get", "405"]),
    ("no sessions", &["--era", "legacy", "--no-sessions"]),
];

#[test]
fn a_server_that_was_restarted() {
    at_once(KINDS, |flags| {
        let mut server = HttpServer::start(flags);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
        server.kill();
        server.restart();
        assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
        session.run(["tools-list"]).ok();
        assert_eq!((server.executions("a"), server.executions("b")), (1, 1));
        let has_sessions = flags.contains(&"legacy") && !flags.contains(&"--no-sessions");
        let generation = session.state().unwrap().generation;
        assert_eq!(generation, 1 + u64::from(has_sessions), "only a session has to be begun anew");
        assert_eq!(sessions(&server).len(), if has_sessions { 2 } else { 0 });
        lives(&session, &server);
    });
}

#[test]
fn a_server_that_is_away() {
    at_once(KINDS, |flags| {
        let mut server = HttpServer::start(flags);
        let home = Home::new();
        let session = home.connect_http("@s", &["--idle-timeout", "600"], &server);
        server.stop();
        for (words, tag) in [(["tools-call", "tag"].as_slice(), "a"), (&["tools-list"], ""), (&["ping"], "")]
        {
            let argument = format!("tag={tag}");
            let words = words.iter().copied().chain((!tag.is_empty()).then_some(argument.as_str()));
            let failed = session.run(words).fails(3);
            check(&failed, "network", "no");
            says(&failed, &["cannot be reached", "refused"]);
            assert_eq!(session.listed()["status"], "disconnected");
        }
        assert!(session.deadline().is_some(), "it falls asleep all the same");
        server.restart();
        assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
        assert_eq!(session.listed()["status"], "live");
        assert_eq!((server.executions("a"), server.executions("b")), (0, 1));
    });
}

#[test]
fn a_disconnected_session_falls_asleep_and_wakes() {
    at_once(KINDS, |flags| {
        let mut server = HttpServer::start(flags);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        server.stop();
        check(&session.call("tag", &["tag=a"]).fails(3), "network", "no");
        // Not before: it would be asleep when it is called.
        let _ = session.run(["set", "idle-timeout", "1"]).ok();
        let asleep = session.wait_until_asleep();
        assert_eq!((asleep.crashes.len(), asleep.message), (0, None), "a sleep and not a crash");
        // To wake it is to reach it.
        let failed = session.call("tag", &["tag=a"]).fails(3);
        assert_eq!(failed["ran"], "no");
        says(&failed, &["cannot be reached"]);
        server.restart();
        assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
        assert_eq!((server.executions("a"), server.executions("b")), (0, 1));
    });
}

#[test]
fn a_server_that_is_away_from_the_start() {
    in_both_eras(|era| {
        let mut server = HttpServer::start(&["--era", era]);
        let home = Home::new();
        server.stop();
        let (session, run) = home.try_connect_http("@s", &[], &server);
        let failed = run.fails(3);
        check(&failed, "network", "no");
        says(&failed, &["cannot be reached", "refused"]);
        assert!(!session.exists(), "a first connect that fails leaves no session");
        // Registered all the same, if that is wanted.
        let session = home.connect_http("@s", &["--lazy"], &server);
        check(&session.call("tag", &["tag=a"]).fails(3), "network", "no");
        server.restart();
        assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
        assert_eq!((server.executions("a"), server.executions("b")), (0, 1));
    });
}

#[test]
fn a_server_that_dies_in_a_call_is_not_asked_again() {
    at_once(KINDS, |flags| {
        let mut server = HttpServer::start(flags);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        let waiting = session.start_call("slow", &[FOR_EVER, "tag=a"]);
        session.wait_for_run("a");
        check(&session.call("crash", &["tag=b"]).fails(3), "network", "unknown");
        check(&waiting.end().fails(3), "network", "unknown");
        assert!(server.wait_for_exit().is_none());
        server.restart();
        assert_eq!(session.call("tag", &["tag=c"]).ok().text(), "c");
        assert_eq!(["a", "b", "c"].map(|tag| server.executions(tag)), [1; 3]);
    });
}

#[test]
fn refused_credentials() {
    in_both_eras(|era| {
        let mut server = HttpServer::start(&["--era", era, "--token", "the-token-itself"]);
        let home = Home::new();
        let (session, run) = home.try_connect_http("@s", &["-H", "Authorization: Bearer wrong-one"], &server);
        let failed = run.fails(4);
        check(&failed, "unauthorized", "no");
        says(&failed, &["-H", "Authorization"]);
        assert!(!run.err.contains("wrong-one") && !session.exists());
        assert_eq!(count(&server, "initialize"), 0, "that is no old server");
        let good = ["-H", "Authorization: Bearer the-token-itself"];
        let session = home.connect_http("@s", &good, &server);
        assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
        // The token is taken back.
        server.restart_with(&["--era", era, "--token", "another"]);
        let failed = session.call("tag", &["tag=b"]).fails(4);
        check(&failed, "unauthorized", "no");
        let state = session.wait_until(|state| state.ended);
        assert_eq!(
            (state.state, session.listed()["status"].as_str()),
            (State::Unauthorized, Some("unauthorized"))
        );
        check(&session.call("tag", &["tag=b"]).fails(4), "unauthorized", "no");
        server.restart_with(&["--era", era, "--token", "the-token-itself"]);
        session.run(["restart"]).ok();
        lives(&session, &server);
        assert_eq!((server.executions("a"), server.executions("b")), (1, 0));
    });
}

/// What only reads is put again after a connection that broke, once, under another id.
#[test]
fn connections_that_break_before_the_answer() {
    let cases = ["close=before", "close=head", "close=reset", "cut-body", "cut-sse"]
        .into_iter()
        .flat_map(|fault| ["legacy", "modern"].map(|era| (format!("{fault} {era}"), (fault, era))));
    at_once(cases, |(fault, era)| {
        let server = HttpServer::start(&["--era", era]);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        // What drowse asks for itself does not meet what follows.
        session.wait_until_saved();
        // A call may have run, and sometimes did.
        let ran = if fault.starts_with("cut") { "" } else { ";ran" };
        server.fault(&format!("{fault}{ran};times=1;on=tools/call"));
        let failed = session.call("tag", &["tag=a"]).fails(3);
        check(&failed, "network", "unknown");
        says(&failed, &["connection", "broke"]);
        assert_eq!((server.executions("a"), count(&server, "tools/call")), (1, 1));
        lives(&session, &server);
        server.fault(&format!("{fault};times=1;on=tools/list"));
        let tools = session.run(["tools-list"]).ok().json();
        assert!(tools.as_array().is_some_and(|tools| !tools.is_empty()));
        let asked = ids(&server, "tools/list").split_off(1);
        assert!(asked.len() == 2 && asked[0] != asked[1], "{asked:?}");
        // Once, and not for ever.
        server.fault(&format!("{fault};times=5;on=tools/list"));
        check(&session.run(["tools-list"]).fails(3), "network", "unknown");
        assert_eq!(count(&server, "tools/list"), 1 + 4);
        assert_eq!(session.state().unwrap().generation, 1);
    });
}

#[test]
fn connections_that_break_before_the_server_looked() {
    in_both_eras(|era| {
        let server = HttpServer::start(&["--era", era]);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        server.fault("close=before;times=1;on=tools/call");
        check(&session.call("tag", &["tag=a"]).fails(3), "network", "unknown");
        assert_eq!((server.executions("a"), count(&server, "tools/call")), (0, 1), "nobody can know");
        lives(&session, &server);
    });
}
