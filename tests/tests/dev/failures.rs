//! Servers that cannot be started, that are slow to, or that end by themselves.

use std::time::{Duration, Instant};

use drowse_tests::harness::{LIMIT, in_both_eras};
use serde_json::json;

use super::client::{OURS, Place, kind};

#[test]
fn a_first_start_that_failed_is_not_tried_again_by_others_until_its_back_off_has_passed() {
    in_both_eras(|era| {
        let place = Place::new();
        let server = ["sh", "-c", "echo one >> starts; echo it broke >&2; exit 3"].map(str::to_owned);
        let mut client = place.dev(era, &[], &server);
        let call = client.send_call("echo", json!({"text": "x"}));
        let answer = client.answer(call);
        assert_eq!(kind(&answer), "start-failed");
        assert_eq!(answer["error"]["data"]["drowse"]["stderr"], "it broke");
        let starts = place.read("starts").lines().count();
        for _ in 0..5 {
            let call = client.send_call("echo", json!({"text": "x"}));
            let answer = client.answer(call);
            assert_eq!(kind(&answer), "backing-off");
            assert!(answer["error"]["message"].as_str().unwrap().contains("dev_restart"), "{answer}");
        }
        assert_eq!(place.read("starts").lines().count(), starts);
        assert_eq!(client.tools(), OURS, "what helps is there");
        let restarted = client.restart(json!({}));
        assert_eq!(restarted["structuredContent"]["outcome"], "start-failed");
        assert_eq!(restarted["isError"], true);
        assert!(super::client::text(&restarted).contains("it broke"), "{restarted}");
        assert!(place.read("starts").lines().count() > starts, "dev_restart tries at once");
        let status = client.status();
        assert_eq!(status["state"], "crashed");
        assert_eq!(status["stderr"], "it broke");
        client.close();
    });
}

#[test]
fn a_server_that_is_repaired_comes_with_its_list() {
    let place = Place::new();
    let fixture = place.server(&[]).join(" ");
    place.write("server.sh", "exit 3");
    let mut client = place.dev("legacy", &[], &["sh", "server.sh"].map(str::to_owned));
    assert_eq!(client.tools(), OURS);
    place.write("server.sh", &format!("exec {fixture}"));
    client.notes.clear();
    assert_eq!(client.restart(json!({}))["structuredContent"]["outcome"], "restarted");
    client.wait_for("notifications/tools/list_changed");
    assert!(client.tools().contains(&"echo".to_owned()));
    client.close();
}

#[test]
fn lists_do_not_wait_longer_than_they_may_and_are_announced_when_the_server_is_up() {
    in_both_eras(|era| {
        let place = Place::new();
        let mut client = place.dev(era, &["--discovery-wait", "1"], &place.gated(&[]));
        if era == "modern" {
            client.send("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
            client.wait_for("notifications/subscriptions/acknowledged");
        }
        let begun = Instant::now();
        let call = client.send_call("echo", json!({"text": "x"}));
        let prompts = client.send("prompts/list", json!({}));
        assert_eq!(client.tools(), OURS);
        assert!(begun.elapsed() >= Duration::from_secs(1));
        let status = client.status();
        assert_eq!((&status["state"], &status["server"]), (&json!("starting"), &json!(null)));
        assert!(status["hint"].as_str().unwrap().starts_with("wait"), "{status}");
        let answer = client.answer(call);
        assert_eq!((kind(&answer), &answer["error"]["data"]["drowse"]["ran"]), ("not-ready", &json!("no")));
        assert_eq!(client.answer(prompts)["result"]["prompts"], json!([]));
        place.open_gate();
        client.wait_for("notifications/tools/list_changed");
        assert!(client.tools().contains(&"echo".to_owned()));
        assert_eq!(place.starts(), 1);
        client.close();
    });
}

#[test]
fn with_no_discovery_wait_the_first_list_comes_at_once_and_later_ones_from_the_last_run() {
    let place = Place::new();
    let mut client = place.dev("legacy", &["--discovery-wait", "0"], &place.gated(&[]));
    assert_eq!(client.tools(), OURS);
    place.open_gate();
    client.wait_for("notifications/tools/list_changed");
    let all = client.tools();
    assert!(all.len() > OURS.len());
    // The proxy asks for all lists by itself, as soon as the server has a moment, and keeps them when the last is there.
    let asked = |place: &Place| {
        let entries = place.journal().entries().unwrap();
        entries.iter().filter(|entry| entry.is("in", "method", "resources/templates/list")).count()
    };
    let (begun, mut rounds) = (Instant::now(), 0);
    loop {
        place.wait_until(|place| asked(place) > rounds);
        rounds = asked(&place);
        place.close_gate();
        let restart = client.send_call("dev_restart", json!({}));
        client.wait_for_status(|status| status["state"] == "restarting");
        let listed = client.tools();
        place.open_gate();
        client.answer(restart);
        if listed == all {
            break;
        }
        assert_eq!(listed, OURS, "from the last run, or nothing");
        assert!(begun.elapsed() < LIMIT, "never from the last run");
    }
    client.close();
}

#[test]
fn a_crash_is_told_and_the_next_request_starts_it_again() {
    in_both_eras(|era| {
        let place = Place::new();
        let mut client = place.fixture(era, &[], &["--stderr", "last words"]);
        client.tools();
        let crash = client.send_call("crash", json!({}));
        assert_eq!(kind(&client.answer(crash)), "server-lost");
        let status = client.wait_for_status(|status| status["state"] == "crashed");
        assert!(status["ended"].as_str().unwrap().contains("signal 9"), "{status}");
        assert_eq!(status["stderr"], "last words");
        assert!(status["hint"].as_str().unwrap().contains("dev_restart"));
        for name in ["pid", "server", "uptimeMs"] {
            assert_eq!(status[name], json!(null), "{status}");
        }
        assert_eq!(place.starts(), 1, "looking starts nothing");
        assert_eq!(client.text("echo", json!({"text": "again"})), "again");
        assert_eq!(place.starts(), 2);
        client.close();
    });
}

#[test]
fn five_crashes_within_half_a_minute_open_the_breaker_and_dev_restart_closes_it() {
    let place = Place::new();
    let mut client = place.fixture("modern", &[], &[]);
    let begun = Instant::now();
    let mut crashes = 0;
    while crashes < 5 {
        assert!(begun.elapsed() < Duration::from_secs(29), "too slow to tell");
        let call = client.send_call("crash", json!({}));
        let answer = client.answer(call);
        match kind(&answer) {
            "server-lost" => crashes += 1,
            "backing-off" => std::thread::sleep(Duration::from_millis(50)),
            other => panic!("{other}"),
        }
        client.wait_for_status(|status| status["state"] != "running");
    }
    let call = client.send_call("echo", json!({"text": "x"}));
    assert_eq!(kind(&client.answer(call)), "backing-off");
    let status = client.status();
    assert!(status["hint"].as_str().unwrap().contains("five times"), "{status}");
    assert!(status["retryInMs"].as_u64().unwrap() > 20_000, "{status}");
    assert_eq!(client.restart(json!({}))["structuredContent"]["outcome"], "restarted");
    assert_eq!(client.text("echo", json!({"text": "x"})), "x");
    client.close();
}

#[test]
fn a_wait_for_a_start_ends_when_its_client_cancels() {
    in_both_eras(|era| {
        let place = Place::new();
        let mut client = place.dev(era, &[], &place.gated(&[]));
        let call = client.send_call("tag", json!({"tag": "cancelled"}));
        client.notify("notifications/cancelled", json!({"requestId": call}));
        assert_eq!(client.status()["state"], "starting");
        place.open_gate();
        client.tools();
        assert!(!client.has_answer(call));
        assert_eq!(place.journal().executions("cancelled").unwrap(), 0);
        client.close();
    });
}
