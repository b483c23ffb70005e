//! Servers in trouble: those that say so by a status, those that are slow, and those that say nothing; and callers who no
//! longer want to know.

use drowse_tests::fixture::journal::Entry;
use drowse_tests::harness::{Home, HttpServer, at_once, in_both_eras};
use rustix::process::Signal;
use serde_json::json;

use super::seen::{FOR_EVER, at, check, count, ids, lives, says};

fn start(era: &str) -> (HttpServer, Home) {
    (HttpServer::start(&["--era", era]), Home::new())
}

fn cases<'c>(faults: &[&'c str]) -> Vec<(String, (&'c str, &'static str))> {
    let eras = |fault: &&'c str| {
        let fault = *fault;
        ["legacy", "modern"].map(|era| (format!("{fault} {era}"), (fault, era)))
    };
    faults.iter().flat_map(eras).collect()
}

#[test]
fn a_status_that_is_no_answer() {
    at_once(cases(&["500", "502", "503", "504", "429", "418"]), |(status, era)| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &[], &server);
        session.wait_until_saved();
        // It may have run all the same.
        server.fault(&format!("status={status};ran;times=1;on=tools/call;body=what a mess"));
        let failed = session.call("tag", &["tag=a"]).fails(2);
        check(&failed, "http", "unknown");
        says(&failed, &["refused the request", status, "what a mess"]);
        assert_eq!((server.executions("a"), count(&server, "tools/call")), (1, 1));
        server.fault(&format!("status={status};times=1;on=tools/list"));
        check(&session.run(["tools-list"]).fails(2), "http", "unknown");
        assert_eq!(count(&server, "tools/list"), 1 + 1, "nobody said that it may be put again");
        assert_eq!(session.listed()["status"], "live");
        lives(&session, &server);
    });
}

#[test]
fn what_only_reads_waits_for_as_long_as_the_server_asks() {
    at_once(cases(&["429", "503"]), |(status, era)| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &[], &server);
        session.wait_until_saved();
        server.fault(&format!("status={status};retry-after=1;times=2;on=tools/list"));
        let tools = session.run(["tools-list"]).ok().json();
        assert!(tools.as_array().is_some_and(|tools| !tools.is_empty()));
        let asked: Vec<u64> = server.requests("tools/list").iter().skip(1).map(at).collect();
        assert_eq!(asked.len(), 3);
        // The clock of the wall may be set meanwhile, but not by much.
        assert!(asked.windows(2).all(|pair| pair[1] >= pair[0] + 900), "{asked:?}");
        let ids = ids(&server, "tools/list").split_off(1);
        assert_eq!(ids.iter().filter(|id| **id == ids[0]).count(), 3);
        // A call is another matter.
        server.fault(&format!("status={status};retry-after=1;ran;times=1;on=tools/call"));
        let failed = session.call("tag", &["tag=a"]).fails(2);
        check(&failed, "http", "unknown");
        says(&failed, &[status, "after 1 s"]);
        assert_eq!((server.executions("a"), count(&server, "tools/call")), (1, 1));
        lives(&session, &server);
    });
}

#[test]
fn waits_that_are_too_long_or_too_many_are_not_waited_for() {
    in_both_eras(|era| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &[], &server);
        session.wait_until_saved();
        server.fault("status=503;retry-after=3600;times=1;on=tools/list");
        let failed = session.run(["tools-list"]).fails(2);
        check(&failed, "http", "unknown");
        says(&failed, &["503", "after 3600 s"]);
        assert_eq!(count(&server, "tools/list"), 1 + 1);
        server.fault("status=503;retry-after=Fri, 31 Dec 1999 23:59:59 GMT;times=1;on=tools/list");
        let failed = session.run(["tools-list"]).fails(2);
        says(&failed, &["503", "after Fri, 31 Dec 1999 23:59:59 GMT"]);
        assert!(!failed["error"].as_str().unwrap().contains("GMT s"), "{failed}");
        assert_eq!(count(&server, "tools/list"), 1 + 2);
        server.fault("status=503;retry-after=0;on=tools/list");
        check(&session.run(["tools-list"]).fails(2), "http", "unknown");
        assert_eq!(count(&server, "tools/list"), 1 + 6, "three times more");
        lives(&session, &server);
    });
}

#[test]
fn a_server_in_trouble_at_the_start() {
    at_once(cases(&["500", "503"]), |(status, era)| {
        let (server, home) = start(era);
        server.fault(&format!("status={status};body=come back later"));
        let (session, run) = home.try_connect_http("@s", &[], &server);
        let failed = run.fails(2);
        check(&failed, "http", "no");
        says(&failed, &[status, "come back later"]);
        assert!(!session.exists());
        assert_eq!(count(&server, "initialize"), 0, "that does not make it an old server");
        // The question may be put again, when the server says when.
        server.ask_for("mend", "");
        server.fault("status=503;retry-after=1;times=1");
        let session = home.connect_http("@s", &[], &server);
        lives(&session, &server);
    });
}

#[test]
fn a_slow_server() {
    in_both_eras(|era| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &[], &server);
        session.wait_until_saved();
        server.fault("delay=1500;times=1;on=tools/call");
        assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
        server.fault("drip=1;times=1;on=tools/list");
        session.run(["tools-list"]).ok();
        assert_eq!((server.executions("a"), count(&server, "tools/call")), (1, 1));
        lives(&session, &server);
    });
}

/// Half-open: it takes the request and never answers, or begins an answer that never ends.
#[test]
fn a_server_that_says_nothing() {
    at_once(cases(&["hang", "hang;ran", "comments=50", "comments=50;ran"]), |(fault, era)| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &[], &server);
        session.wait_until_saved();
        let (before, other) =
            (session.state().unwrap(), session.start_call("slow", &["ms:=2500", "tag=other"]));
        session.wait_for_run("other");
        server.fault(&format!("{fault};times=1;on=tools/call:tag"));
        let run = session.call("tag", &["tag=a", "--timeout", "1"]);
        let failed = run.fails(3);
        check(&failed, "timeout", "unknown");
        says(&failed, &["did not answer", "--timeout"]);
        assert!(run.took.as_millis() >= 1000, "{:?}", run.took);
        server.wait_for(|entries| entries.iter().any(|entry| entry.is("closed", "tag", "a")));
        assert_eq!(server.executions("a"), usize::from(fault.ends_with("ran")));
        // A legacy server is told; a modern one has it from the end of the connection.
        let told = usize::from(era == "legacy");
        server.wait_for(|entries| {
            let is_it = |entry: &&_| {
                drowse_tests::fixture::journal::Entry::is(entry, "in", "method", "notifications/cancelled")
            };
            entries.iter().filter(is_it).count() >= told
        });
        assert_eq!(count(&server, "notifications/cancelled"), told);
        assert_eq!(other.end().ok().text(), "slept 2500", "nobody else is cancelled");
        assert_eq!(session.state().unwrap().bridge, before.bridge);
        lives(&session, &server);
        // What only reads has the same limit, and is not put again after it.
        let before = count(&server, "tools/list");
        server.fault(&format!("{};times=1;on=tools/list", fault.trim_end_matches(";ran")));
        check(&session.run(["tools-list", "--timeout", "1"]).fails(3), "timeout", "unknown");
        assert_eq!(count(&server, "tools/list"), before + 1);
    });
}

/// Comments keep a connection alive, not a request.
#[test]
fn progress_starts_the_time_out_anew() {
    in_both_eras(|era| {
        let server = HttpServer::start(&["--era", era, "--comments", "100"]);
        let home = Home::new();
        let session = home.connect_http("@s", &[], &server);
        let run = session.call("slow", &["ms:=2500", "tag=a", "--timeout", "1"]).ok();
        assert_eq!(run.text(), "slept 2500");
        let failed = session.call("slow", &[FOR_EVER, "tag=b", "quiet:=true", "--timeout", "1"]).fails(3);
        check(&failed, "timeout", "unknown");
        assert_eq!((server.executions("a"), server.executions("b")), (1, 1));
        lives(&session, &server);
    });
}

#[test]
fn a_server_that_says_nothing_at_the_start() {
    in_both_eras(|era| {
        let (server, home) = start(era);
        server.fault("hang");
        let file = home.path().join("s.json");
        let entry = json!({"url": server.url(), "connectTimeoutSecs": 1});
        std::fs::write(&file, json!({"mcpServers": {"s": entry}}).to_string()).unwrap();
        let target = format!("{}:s", file.display());
        let failed = home.run(["connect", &target, "@s", "--json"]).fails(3);
        check(&failed, "timeout", "no");
        says(&failed, &["within 1 s", "URL"]);
        assert!(!home.session("@s").exists());
        server.wait_for_events("closed", 1);
        assert_eq!(count(&server, "initialize"), 0, "silence does not make it an old server");
    });
}

#[test]
fn ctrl_c_cancels() {
    in_both_eras(|era| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &[], &server);
        let call = session.start_call("slow", &[FOR_EVER, "tag=a"]);
        session.wait_for_run("a");
        call.signal(Signal::INT);
        check(&call.end().fails(130), "interrupted", "unknown");
        server.wait_for(|entries| entries.iter().any(|entry| entry.is("cancelled", "tag", "a")));
        if era == "legacy" {
            let told = server.requests("notifications/cancelled");
            assert_eq!(told.len(), 1);
        } else {
            server.wait_for(|entries| entries.iter().any(|entry| entry.is("closed", "tag", "a")));
            assert_eq!(count(&server, "notifications/cancelled"), 0, "the end of the connection says it");
        }
        assert_eq!(server.executions("a"), 1);
        // So is a caller that is killed.
        let call = session.start_call("slow", &[FOR_EVER, "tag=b"]);
        let other = session.start_call("slow", &["ms:=500", "tag=c"]);
        session.wait_for_run("b");
        session.wait_for_run("c");
        call.signal(Signal::KILL);
        assert_eq!(call.end().code, -1);
        server.wait_for(|entries| entries.iter().any(|entry| entry.is("cancelled", "tag", "b")));
        assert_eq!(other.end().ok().text(), "slept 500", "nobody else is");
        assert_eq!(["a", "b", "c"].map(|tag| server.executions(tag)), [1; 3]);
        lives(&session, &server);
    });
}

/// A ping has its limit too, and whoever asked it; drowse's own questions to a server that hangs do not pile up.
#[test]
fn pings_that_are_not_answered() {
    in_both_eras(|era| {
        let (server, home) = start(era);
        let session = home.connect_http("@s", &["--keepalive", "1"], &server);
        server.fault(&format!("hang;on={}", super::seen::question(era)));
        check(&session.run(["ping", "--timeout", "1"]).fails(3), "timeout", "unknown");
        let asked = || server.requests(super::seen::question(era)).len();
        let before = asked();
        let ended = |entries: &[Entry]| entries.iter().filter(|entry| entry.event == "closed").count();
        server.wait_for(|entries| {
            let asks = |entry: &&Entry| entry.is("http", "method", super::seen::question(era));
            entries.iter().filter(asks).count() >= before + 4
        });
        // All but the last one, or two, are over.
        server.wait_for(|entries| ended(entries) >= 4);
        assert_eq!(session.listed()["status"], "disconnected", "it was silent for too long");
        lives_after(&session, &server);
    });
}

#[track_caller]
fn lives_after(session: &drowse_tests::harness::Session<'_>, server: &HttpServer) {
    // Whatever it answers, it lives.
    assert_eq!(session.call("tag", &["tag=after"]).ok().text(), "after");
    assert_eq!(server.executions("after"), 1);
    server.ask_for("mend", "");
    session.run(["ping"]).ok();
    assert_eq!(session.listed()["status"], "live");
}

/// Whatever a server makes of the end of its session, drowse goes.
#[test]
fn goodbyes_that_are_not_taken() {
    let faults = ["status=405", "status=404", "status=500", "close=before", "html=200", "hang"];
    at_once(faults.map(|fault| (fault, fault)), |fault| {
        let server = HttpServer::start(&["--era", "legacy", "--fault", &format!("{fault};on=DELETE")]);
        let home = Home::new();
        let session = home.connect_http("@s", &["--idle-timeout", "1"], &server);
        session.wait_until_asleep();
        assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a");
        let run = home.run(["close", "@s", "--json"]).ok();
        assert!(run.took.as_secs() < 20, "{:?}", run.took);
        assert_eq!((server.executions("a"), count(&server, "DELETE")), (1, 2));
        assert!(!session.exists());
    });
}
