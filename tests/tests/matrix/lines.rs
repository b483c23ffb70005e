//! Servers whose output is not what it should be. None of it fails a call that has its answer, none of it ends the
//! session, and the log says what was ignored.

use drowse_runtime::record::State;
use drowse_tests::harness::{Home, Session, at_once};

/// Uses everything once: whatever stands between the answers, these are they.
#[track_caller]
fn works(session: &Session<'_>) {
    assert_eq!(session.call("echo", &["text=hi"]).ok().text(), "hi");
    let tools = session.run(["tools-list"]).ok().json();
    assert!(tools.as_array().unwrap().iter().any(|tool| tool["name"] == "echo"));
    let read = session.run(["resources-read", "counter://main"]).ok().json();
    assert_eq!(read["contents"][0]["text"], "0");
    assert_eq!(session.run(["ping"]).ok().json()["success"], true);
    for tag in ["a", "b", "c"] {
        assert_eq!(session.call("tag", &[&format!("tag={tag}")]).ok().text(), tag);
        assert_eq!(session.executions(tag), 1);
    }
    let calls = [300, 100, 200].map(|ms| (ms, session.start_call("slow", &[&format!("ms:={ms}")])));
    for (ms, call) in calls {
        assert_eq!(call.end().ok().text(), format!("slept {ms}"));
    }
    assert_eq!(session.starts(), 1);
    assert_eq!(session.status()["inFlight"], 0);
}

#[test]
fn output_that_should_not_be_there() {
    let cases: Vec<Vec<&str>> = [
        vec!["--garbage"],
        vec!["--answer-twice"],
        vec!["--unknown-ids"],
        vec!["--batch"],
        vec!["--garbage", "--answer-twice", "--unknown-ids", "--batch", "--chatter", "20"],
        vec!["--stderr-flood", "3000000"],
    ]
    .into_iter()
    .flat_map(|flags| ["legacy", "modern"].map(|era| [vec!["--era", era], flags.clone()].concat()))
    .chain([vec!["--era", "legacy", "--legacy-version", "2025-03-26", "--batch"]])
    .collect();
    at_once(cases.into_iter().map(|flags| (flags.join(" "), flags)), |flags| {
        let home = Home::new();
        let session = home.connect("@s", &[], &flags);
        works(&session);
        let log = home.run(["@s", "logs", "-n", "100000"]).ok().out;
        let said = |text: &str| assert!(log.contains(text), "{flags:?}: not in the log: {text}\n{log}");
        if flags.contains(&"--garbage") {
            said("ignored a line of the server that is no message");
            said("fixture server, ready to serve");
        }
        if flags.contains(&"--unknown-ids") || flags.contains(&"--answer-twice") {
            said("ignored an answer that nobody waits for");
        }
        if flags.contains(&"--stderr-flood") {
            said("flood ends");
        }
        if flags.contains(&"--batch") && flags.contains(&"modern") {
            // Not allowed there, and understood all the same.
            assert_eq!(session.listed()["_drowse"]["era"], "modern");
        }
    });
}

/// The process that was started is the server; whoever it leaves the pipes to is none.
#[test]
fn a_server_that_forks_and_exits_is_ended() {
    let home = Home::new();
    let (session, run) = home.try_connect("@s", &[], &["--fork-and-exit", "--stderr", "gone to the back"]);
    if run.code == 0 {
        // Its heir was quick, and answered for it before its end was noticed. It is noticed all the same.
        assert_eq!(session.wait_until(|state| state.ended).state, State::Crashed);
    } else {
        let failed = run.fails(2);
        let kind = failed["kind"].as_str().unwrap();
        assert!(["start-failed", "backing-off"].contains(&kind), "{failed}");
        assert_eq!(failed["ran"], "no", "{failed}");
        assert!(!session.exists());
    }
    let left = session.journal.entries().unwrap();
    assert!(left.iter().any(|entry| entry.is("exit", "why", "fork-and-exit")), "{left:?}");
}
