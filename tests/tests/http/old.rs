//! The transport of 2024-11-05: one stream on which everything arrives, and an endpoint for what is said to the server.

use drowse_runtime::record::State;
use drowse_tests::harness::{Home, HttpServer, at_once};
use rustix::process::Signal;

use super::seen::{FOR_EVER, check, count, lives, says, sessions};

const OLD: &[&str] = &["--era", "legacy", "--old-sse"];

#[test]
fn it_is_found_and_used() {
    let cases: [(&str, &[&str]); 5] = [
        ("405", &["--legacy-version", "2024-11-05"]),
        ("404", &["--old-post", "404"]),
        ("400", &["--old-post", "400"]),
        ("an absolute endpoint", &["--endpoint", "absolute"]),
        ("comments", &["--comments", "20", "--until-close"]),
    ];
    at_once(cases, |flags| {
        let server = HttpServer::start(&[OLD, flags].concat());
        let home = Home::new();
        let session = home.connect_http("@s", &["--idle-timeout", "600"], &server);
        let info = session.run([]).ok().json();
        assert_eq!(info["_drowse"]["era"], "legacy", "{info}");
        assert_eq!(session.call("slow", &["ms:=300", "tag=a"]).ok().text(), "slept 300");
        session.run(["tools-list"]).ok();
        session.run(["ping"]).ok();
        // Answers in any order find whom they are for.
        let tags: Vec<String> = (0..4).map(|place| format!("t{place}")).collect();
        at_once(tags.iter().map(|tag| (tag.clone(), tag)), |tag| {
            assert_eq!(&session.call("tag", &[&format!("tag={tag}")]).ok().text(), tag);
        });
        assert!(tags.iter().all(|tag| server.executions(tag) == 1) && server.executions("a") == 1);
        assert_eq!(sessions(&server).len(), 1);
        lives(&session, &server);
        home.run(["close", "@s"]).ok();
        let closed = server.wait_for_events("session-closed", 1);
        assert!(closed[0].is("session-closed", "why", "disconnected"), "{closed:?}");
    });
}

/// Requests carry credentials.
#[test]
fn an_endpoint_of_another_origin_is_not_used() {
    let server = HttpServer::start(&[OLD, &["--endpoint", "other"]].concat());
    let home = Home::new();
    let (session, run) = home.try_connect_http("@s", &["-H", "Authorization: Bearer of-one-origin"], &server);
    assert_eq!(run.fails(2)["ran"], "no");
    says(&run.fails(2), &["another origin"]);
    assert!(!session.exists());
    assert!(server.events("http").iter().all(|entry| entry.is("http", "origin", "main")));
}

#[test]
fn it_falls_asleep_and_wakes() {
    let server = HttpServer::start(OLD);
    let home = Home::new();
    let session = home.connect_http("@s", &["--idle-timeout", "1"], &server);
    let ready = session.state().unwrap().since;
    let asleep = session.wait_until_asleep();
    assert!(asleep.since >= ready + 1000);
    server.wait_for_events("session-closed", 1);
    assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
    let sessions = sessions(&server);
    assert!(sessions.len() == 2 && sessions[0] != sessions[1], "{sessions:?}");
}

#[test]
fn a_stream_that_breaks_takes_with_it_what_was_asked() {
    let mut server = HttpServer::start(OLD);
    let home = Home::new();
    let session = home.connect_http("@s", &[], &server);
    let call = session.start_call("slow", &[FOR_EVER, "tag=a"]);
    session.wait_for_run("a");
    server.ask_for("hang-up", "");
    let run = call.end();
    assert_eq!(run.fails(run.code)["ran"], "unknown", "{run:?}");
    let state = session.wait_until(|state| state.ended);
    assert_eq!(state.state, State::Expired);
    assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
    server.kill();
    server.restart();
    assert_eq!(session.call("tag", &["tag=c"]).ok().text(), "c");
    assert_eq!(["a", "b", "c"].map(|tag| server.executions(tag)), [1; 3]);
}

#[test]
fn a_session_that_is_gone() {
    let server = HttpServer::start(OLD);
    let home = Home::new();
    let idle = home.connect_http("@idle", &["--idle-timeout", "600"], &server);
    server.ask_for("forget", "");
    assert_eq!(idle.wait_until(|state| state.ended).state, State::Idle);
    assert_eq!(idle.call("tag", &["tag=a"]).ok().text(), "a");
    home.run(["close", "@idle"]).ok();
    let again = home.connect_http("@again", &["--auto-restart"], &server);
    server.ask_for("forget", "");
    again.wait_until(|state| state.generation == 2 && state.state == State::Live);
    assert_eq!(again.call("tag", &["tag=b"]).ok().text(), "b");
    home.run(["close", "@again"]).ok();
    let fails = home.connect_http("@fails", &["--on-expiry", "fail"], &server);
    server.ask_for("forget", "");
    fails.wait_until(|state| state.ended);
    check(&fails.call("tag", &["tag=c"]).fails(2), "expired", "no");
    assert_eq!(["a", "b", "c"].map(|tag| server.executions(tag)), [1, 1, 0]);
}

#[test]
fn cancelled_and_timed_out() {
    let server = HttpServer::start(OLD);
    let home = Home::new();
    let session = home.connect_http("@s", &[], &server);
    let call = session.start_call("slow", &[FOR_EVER, "tag=a"]);
    session.wait_for_run("a");
    call.signal(Signal::INT);
    check(&call.end().fails(130), "interrupted", "unknown");
    server.wait_for(|entries| entries.iter().any(|entry| entry.is("cancelled", "tag", "a")));
    let run = session.call("slow", &[FOR_EVER, "tag=b", "quiet:=true", "--timeout", "1"]);
    check(&run.fails(3), "timeout", "unknown");
    server.wait_for(|entries| entries.iter().any(|entry| entry.is("cancelled", "tag", "b")));
    assert_eq!(count(&server, "notifications/cancelled"), 2);
    // A POST that is refused, and one that breaks.
    for (fault, tag) in [("status=500", "c"), ("close=before", "d"), ("close=before;ran", "e")] {
        server.fault(&format!("{fault};times=1;on=tools/call"));
        let run = session.call("tag", &[&format!("tag={tag}")]);
        // Whichever comes first, where the answer comes all the same.
        if !fault.ends_with("ran") || run.code != 0 {
            assert_eq!(run.fails(run.code)["ran"], "unknown", "{fault}: {run:?}");
        }
        assert_eq!(server.executions(tag), usize::from(fault.ends_with("ran")));
    }
    assert_eq!(["a", "b"].map(|tag| server.executions(tag)), [1, 1]);
    lives(&session, &server);
}
