//! The end of the connection, and signals: nothing is left.

use std::process::Command;
use std::time::Duration;

use drowse_tests::harness::{drowse, in_both_eras};
use rustix::process::Signal;
use serde_json::json;

use super::client::{Place, kind};

#[test]
fn signals_end_everything_with_their_status() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 0), (Signal::HUP, 0)] {
        let place = Place::new();
        let mut client = place.fixture("legacy", &[], &["--grandchild-setsid"]);
        client.tools();
        client.signal(signal);
        let (ended, errors, _) = client.end();
        assert_eq!(ended, Some(status), "{errors}");
    }
}

#[test]
fn the_end_of_input_ends_a_start_that_still_negotiates() {
    let place = Place::new();
    let mut client = place.fixture("legacy", &[], &["--silent", "--ignore-eof", "--ignore-term"]);
    client.send("tools/list", json!({}));
    place.journal().wait(drowse_tests::harness::LIMIT, |entries| !entries.is_empty()).unwrap();
    client.close_input();
    let (status, _, took) = client.end();
    assert_eq!(status, Some(0));
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(place.starts(), 1, "no other was started");
}

#[test]
fn a_server_that_does_not_want_to_go_is_killed_before_its_client_loses_patience() {
    let place = Place::new();
    let mut client = place.fixture("modern", &[], &["--ignore-eof", "--ignore-term"]);
    client.tools();
    client.close_input();
    let (status, _, took) = client.end();
    assert_eq!(status, Some(0));
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_signal_that_comes_with_the_end_of_input_leaves_the_server_its_time_and_two_do_not() {
    for (signals, delay, farewells) in [(1, "200", 1), (2, "1700", 0)] {
        let place = Place::new();
        let mut client = place.fixture("legacy", &[], &["--exit-delay", delay, "--ignore-term"]);
        client.tools();
        if signals == 1 {
            client.close_input();
            client.signal(Signal::TERM);
        } else {
            client.signal(Signal::TERM);
            // Signals of one kind that wait count as one.
            client.signal(Signal::HUP);
        }
        assert_eq!(client.end().0, Some(0));
        let exits = place.journal().entries().unwrap().iter().filter(|entry| entry.event == "exit").count();
        assert_eq!(exits, farewells);
    }
}

#[test]
fn an_output_that_nobody_reads_any_more_is_the_end() {
    in_both_eras(|era| {
        let place = Place::new();
        let mut client = place.fixture(era, &[], &["--ignore-eof", "--ignore-term"]);
        client.tools();
        client.close_output();
        // The input stays open. Some answer finds out.
        client.send_call("pid", json!({}));
        let (status, errors, took) = client.end();
        assert_eq!(status, Some(0), "{errors}");
        assert!(took < Duration::from_secs(4), "{took:?}");
        assert_eq!(place.starts(), 1);
    });
}

#[test]
fn queued_restarts_are_not_done_any_more() {
    let place = Place::new();
    let mut client = place.fixture("legacy", &["--build", "sleep 600"], &[]);
    client.tools();
    client.send_call("dev_restart", json!({"rebuild": true}));
    client.send_call("dev_restart", json!({}));
    client.wait_for_status(|status| status["queued"] == 1);
    client.close();
    assert_eq!(place.starts(), 1);
}

#[test]
fn a_request_during_the_end_is_told_so_without_a_hint_to_try_again() {
    let place = Place::new();
    let mut client = place.fixture("legacy", &[], &["--ignore-eof", "--ignore-term"]);
    client.tools();
    client.signal(Signal::TERM);
    loop {
        let call = client.send_call("echo", json!({"text": "x"}));
        let answer = client.answer(call);
        if answer.get("error").is_some() {
            assert_eq!(kind(&answer), "shutting-down");
            assert_eq!(answer["error"]["message"], "the dev proxy is shutting down");
            break;
        }
    }
    assert_eq!(client.end().0, Some(0));
}

#[test]
fn lines_that_cannot_be_carried_out_are_refused() {
    for (words, said) in [
        (&["dev"][..], "needs a server's command"),
        (&["dev", "--"], "needs a server's command"),
        (&["dev", "--drain", "soon", "--", "x"], "--drain"),
        (&["dev", "--discovery-wait", "-1", "--", "x"], "--discovery-wait"),
        (&["dev", "--build", " ", "--", "x"], "--build"),
        (&["dev", "--build-timeout", "0", "--", "x"], "--build-timeout"),
        (&["dev", "--env", "NO_SUCH_VARIABLE_HERE", "--", "x"], "no such variable"),
        (&["dev", "--http-path", "/x", "--", "x"], "--http"),
        (&["dev", "--http", "0.0.0.0:0", "--", "x"], "bearer"),
        (&["dev", "--http", "nowhere", "--", "x"], "--http"),
        (&["dev", "--http", "0", "--http-limit", "body=0", "--", "x"], "--http-limit"),
        (&["@s", "dev", "--", "x"], "session"),
    ] {
        let run = Command::new(drowse()).args(words).output().unwrap();
        assert_eq!(run.status.code(), Some(1), "{words:?}");
        assert!(run.stdout.is_empty());
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(errors.contains(said), "{words:?}: {errors}");
    }
}
