//! Streams that break before the answer: a legacy server whose events have ids is asked for the rest (`Last-Event-ID`),
//! and what was asked is never asked again.

use drowse_tests::harness::{Home, HttpServer, Session, at_once};

use super::seen::{FOR_EVER, check, count, lives, sessions};

const RESUMABLE: &[&str] = &["--era", "legacy", "--event-ids", "--retry", "50"];

/// The events after which somebody asked for the rest, in order.
fn resumed(server: &HttpServer) -> Vec<String> {
    let streams = server.events("stream");
    streams.iter().filter_map(|entry| entry.text("lastEventId")).map(Into::into).collect()
}

/// A slow call whose stream breaks on the way; its progress makes events.
fn slow(session: &Session<'_>, tag: &str) {
    let run = session.call("slow", &["ms:=700", &format!("tag={tag}")]).ok();
    assert_eq!(run.text(), "slept 700");
}

#[test]
fn the_answer_comes_after_the_stream_broke() {
    let cases = [
        ("before any message", "hang-up=0;times=1"),
        ("after one", "hang-up=1;times=1"),
        ("amid a chunk", "hang-up=2;abrupt;times=1"),
    ];
    at_once(cases, |fault| {
        let server = HttpServer::start(RESUMABLE);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        server.wait_for_events("stream", 1);
        server.fault(&format!("{fault};on=tools/call"));
        slow(&session, "a");
        let resumed = resumed(&server);
        assert_eq!(resumed.len(), 1, "{resumed:?}");
        assert_eq!((server.executions("a"), count(&server, "tools/call")), (1, 1), "it is not asked again");
        assert_eq!(sessions(&server).len(), 1);
        lives(&session, &server);
    });
}

/// A server that wants to be polled ends each response, again and again.
#[test]
fn a_stream_that_is_polled() {
    let server = HttpServer::start(RESUMABLE);
    let home = Home::new();
    let session = home.connect_http("@s", &[], &server);
    server.wait_for_events("stream", 1);
    server.fault("hang-up=0;times=1;on=tools/call");
    let call = session.start_call("slow", &["ms:=1500", "tag=a"]);
    for polls in 2..5 {
        server.wait_for_events("stream", polls);
        server.ask_for("hang-up", "");
    }
    assert_eq!(call.end().ok().text(), "slept 1500");
    assert_eq!((server.executions("a"), count(&server, "tools/call")), (1, 1));
    lives(&session, &server);
}

/// Also what only reads: its answer is there, so it is fetched.
#[test]
fn a_list_that_broke_off() {
    let server = HttpServer::start(RESUMABLE);
    let home = Home::new();
    let session = home.connect_http("@s", &[], &server);
    session.wait_until_saved();
    server.fault("hang-up=0;times=1;on=tools/list");
    session.run(["tools-list"]).ok();
    assert_eq!((count(&server, "tools/list"), resumed(&server).len()), (1 + 1, 1));
}

#[test]
fn a_server_that_is_restarted_has_nothing_to_resume() {
    let mut server = HttpServer::start(RESUMABLE);
    let home = Home::new();
    let session = home.connect_http("@s", &[], &server);
    let call = session.start_call("slow", &[FOR_EVER, "tag=a"]);
    session.wait_for_run("a");
    server.kill();
    server.restart();
    let failed = call.end();
    let failed = failed.fails(if failed.code == 2 { 2 } else { 3 });
    assert_eq!(failed["ran"], "unknown", "{failed}");
    assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
    assert_eq!((server.executions("a"), server.executions("b"), sessions(&server).len()), (1, 1, 2));
}

/// What was asked may have run, whatever becomes of its stream.
#[test]
fn a_stream_that_is_refused_when_it_is_taken_up() {
    let cases = [
        ("for a while", "status=503;times=2", true),
        ("for ever", "status=405", false),
        ("with a page", "html=200", false),
        ("by a broken connection, for a while", "close=before;times=2", true),
    ];
    at_once(cases.map(|(name, fault, comes)| (name, (fault, comes))), |(fault, comes)| {
        let server = HttpServer::start(RESUMABLE);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        server.wait_for_events("stream", 1);
        server.fault("hang-up=0;times=1;on=tools/call");
        server.fault(&format!("{fault};on=GET"));
        let run = session.call("slow", &["ms:=300", "tag=a"]);
        if comes {
            assert_eq!(run.ok().text(), "slept 300");
        } else {
            assert_eq!(run.fails(run.code)["ran"], "unknown", "{run:?}");
        }
        assert_eq!((server.executions("a"), count(&server, "tools/call")), (1, 1));
        lives(&session, &server);
    });
}

#[test]
fn a_caller_who_goes_while_it_is_resumed() {
    let server = HttpServer::start(RESUMABLE);
    let home = Home::new();
    let session = home.connect_http("@s", &[], &server);
    server.wait_for_events("stream", 1);
    server.fault("hang-up=0;times=1;on=tools/call");
    let call = session.start_call("slow", &[FOR_EVER, "tag=a"]);
    server.wait_for_events("stream", 2);
    call.signal(rustix::process::Signal::INT);
    check(&call.end().fails(130), "interrupted", "unknown");
    server.wait_for(|entries| entries.iter().any(|entry| entry.is("cancelled", "tag", "a")));
    assert_eq!((server.executions("a"), count(&server, "notifications/cancelled")), (1, 1));
    lives(&session, &server);
}

/// Without ids there is nothing to resume by, and in the modern era no stream is ever resumed.
#[test]
fn streams_that_cannot_be_resumed() {
    let cases: [(&str, &[&str]); 2] = [
        ("without ids", &["--era", "legacy", "--retry", "50"]),
        ("modern", &["--era", "modern", "--event-ids"]),
    ];
    at_once(cases, |flags| {
        let server = HttpServer::start(flags);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        session.wait_until_saved();
        server.fault("hang-up=1;times=1;on=tools/call");
        let failed = session.call("slow", &[FOR_EVER, "tag=a"]).fails(3);
        check(&failed, "network", "unknown");
        assert_eq!((server.executions("a"), count(&server, "tools/call")), (1, 1));
        assert_eq!(resumed(&server), [] as [String; 0]);
        let before = count(&server, "tools/list");
        server.fault("hang-up=0;times=1;on=tools/list");
        session.run(["tools-list"]).ok();
        assert_eq!(count(&server, "tools/list"), before + 2, "what only reads is put again");
        lives(&session, &server);
    });
}
