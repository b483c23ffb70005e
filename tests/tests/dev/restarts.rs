//! `dev_restart`: what becomes of the server, of what is under way, and of its environment.

use std::time::{Duration, Instant};

use drowse_tests::harness::{LIMIT, drowse, in_both_eras};
use serde_json::json;

use super::client::{Place, kind, text};

/// Longer than any test, in milliseconds.
const FOR_EVER: u64 = 600_000;
const LISTS: [&str; 3] = [
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
];

#[test]
fn a_restart_replaces_the_process_and_announces_every_list() {
    in_both_eras(|era| {
        let place = Place::new();
        let mut client = place.fixture(era, &[], &[]);
        let first = client.text("pid", json!({}));
        if era == "modern" {
            let lists =
                json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
            client.send("subscriptions/listen", json!({"notifications": lists}));
            client.wait_for("notifications/subscriptions/acknowledged");
        }
        client.notes.clear();
        let restarted = client.restart(json!({}));
        assert_eq!(restarted["structuredContent"]["outcome"], "restarted");
        assert_eq!(restarted["isError"], false);
        for list in LISTS {
            client.wait_for(list);
        }
        let second = client.text("pid", json!({}));
        assert_ne!(first, second);
        assert_eq!(restarted["structuredContent"]["pid"].to_string(), second);
        assert_eq!(place.starts(), 2);
        client.close();
    });
}

/// It may have other lists the next time, whatever it says of itself.
#[test]
fn a_server_that_announces_nothing_has_its_lists_announced_all_the_same() {
    in_both_eras(|era| {
        let place = Place::new();
        let server = [drowse().to_str().unwrap(), "demo-server"].map(str::to_owned);
        let mut client = place.dev(era, &[], &server);
        client.tools();
        if era == "modern" {
            let lists =
                json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
            client.send("subscriptions/listen", json!({"notifications": lists}));
            let acknowledged = "notifications/subscriptions/acknowledged";
            client.wait_for(acknowledged);
            let acknowledged = client.notes.iter().find(|note| note["method"] == acknowledged).unwrap();
            assert_eq!(acknowledged["params"]["notifications"], lists);
        }
        client.notes.clear();
        client.restart(json!({}));
        for list in LISTS {
            client.wait_for(list);
        }
        client.close();
    });
}

#[test]
fn a_restart_of_a_server_that_never_ran_starts_it() {
    let place = Place::new();
    let mut client = place.fixture("legacy", &[], &[]);
    assert_eq!(client.restart(json!({}))["structuredContent"]["outcome"], "restarted");
    assert_eq!((place.starts(), client.status()["state"].clone()), (1, json!("running")));
    client.close();
}

#[test]
fn what_is_under_way_is_answered_and_what_comes_meanwhile_runs_on_the_new_server() {
    in_both_eras(|era| {
        let place = Place::new();
        let mut client = place.fixture(era, &["--drain", "60"], &[]);
        let first = client.text("pid", json!({}));
        let slow = client.send_call("slow", json!({"ms": FOR_EVER, "tag": "slow", "until": "done"}));
        place.wait_for_run("slow");
        let restart = client.send_call("dev_restart", json!({}));
        let later = client.send_call("pid", json!({}));
        let status = client.status();
        assert_eq!((&status["state"], status["pid"].to_string()), (&json!("restarting"), first.clone()));
        assert!(status["hint"].as_str().unwrap().starts_with("wait"), "{status}");
        assert!(![slow, restart, later].into_iter().any(|id| client.has_answer(id)));
        place.write("done", "");
        assert!(client.answer(slow).get("result").is_some(), "drained");
        assert_eq!(client.answer(restart)["result"]["structuredContent"]["outcome"], "restarted");
        assert_ne!(text(&client.answer(later)["result"]), first);
        client.close();
    });
}

#[test]
fn what_takes_longer_than_the_drain_fails_and_may_have_run() {
    in_both_eras(|era| {
        let place = Place::new();
        let mut client = place.fixture(era, &["--drain", "1"], &["--slow-reads"]);
        client.tools();
        let slow = client.send_call("slow", json!({"ms": FOR_EVER, "tag": "slow"}));
        place.wait_for_run("slow");
        let begun = Instant::now();
        client.restart(json!({}));
        assert!(begun.elapsed() >= Duration::from_secs(1));
        let answer = client.answer(slow);
        assert_eq!(kind(&answer), "restarted");
        assert_eq!(answer["error"]["data"]["drowse"]["ran"], "unknown");
        assert_eq!(place.journal().executions("slow").unwrap(), 1);
        client.close();
    });
}

#[test]
fn only_a_tool_that_says_it_is_safe_is_put_again_and_only_if_that_is_wanted() {
    in_both_eras(|era| {
        let place = Place::new();
        let flags = ["--drain", "0", "--replay-safe"];
        let mut client = place.fixture(era, &flags, &["--slow-reads"]);
        // What the client was told holds at once; the proxy reads the annotations by itself only when the server has a moment.
        client.tools();
        let safe = client.send_call("slow", json!({"ms": FOR_EVER, "tag": "safe", "until": "done"}));
        place.wait_for_run("safe");
        client.restart(json!({}));
        place.write("done", "");
        assert!(client.answer(safe).get("result").is_some());
        assert_eq!(place.journal().executions("safe").unwrap(), 2);
        client.close();

        let place = Place::new();
        let mut client = place.fixture(era, &flags, &[]);
        client.tools();
        client.wait_for_status(|status| !status["tools"].is_null());
        let unsafe_one = client.send_call("slow", json!({"ms": FOR_EVER, "tag": "unsafe"}));
        place.wait_for_run("unsafe");
        client.restart(json!({}));
        assert_eq!(kind(&client.answer(unsafe_one)), "restarted");
        assert_eq!(place.journal().executions("unsafe").unwrap(), 1);
        client.close();
    });
}

#[test]
fn the_environment_is_replaced_kept_or_cleared() {
    let place = Place::new();
    let mut client = place.fixture("modern", &["--env", "ONE=first", "--env", "TWO=second"], &[]);
    let read = |client: &mut super::client::Client, name: &str| {
        let result = client.call("env", json!({"name": name}));
        (result["isError"] != true).then(|| text(&result))
    };
    assert_eq!(read(&mut client, "ONE").as_deref(), Some("first"));
    client.restart(json!({"env": {"THREE": "third"}}));
    assert_eq!(read(&mut client, "ONE"), None, "given replaces all");
    assert_eq!(read(&mut client, "THREE").as_deref(), Some("third"));
    client.restart(json!({}));
    assert_eq!(read(&mut client, "THREE").as_deref(), Some("third"), "absent keeps");
    client.restart(json!({"env": {}}));
    assert_eq!(read(&mut client, "THREE"), None, "empty clears");
    client.close();
}

#[test]
fn each_of_several_restarts_has_its_own_environment_in_the_order_of_arrival() {
    let place = Place::new();
    let script = format!("echo ${{X-none}} >> seen; exec {}", place.server(&[]).join(" "));
    let mut client = place.dev("legacy", &[], &["sh", "-c", &script].map(str::to_owned));
    client.tools();
    let ids: Vec<u64> =
        ["a", "b", "c"].map(|value| client.send_call("dev_restart", json!({"env": {"X": value}}))).to_vec();
    for id in ids {
        assert_eq!(client.answer(id)["result"]["structuredContent"]["outcome"], "restarted");
    }
    assert_eq!(client.text("env", json!({"name": "X"})), "c");
    assert_eq!(place.read("seen").lines().collect::<Vec<_>>(), ["none", "a", "b", "c"]);
    assert_eq!(place.starts(), 4);
    client.close();
}

#[test]
fn a_cancelled_wait_gets_no_answer_and_a_restart_that_has_begun_goes_on() {
    in_both_eras(|era| {
        let place = Place::new();
        place.open_gate();
        let mut client = place.dev(era, &[], &place.gated(&[]));
        client.tools();
        place.close_gate();
        let begun = client.send_call("dev_restart", json!({}));
        let queued = client.send_call("dev_restart", json!({"env": {"X": "never"}}));
        for id in [begun, queued] {
            client.notify("notifications/cancelled", json!({"requestId": id}));
        }
        let status = client.status();
        assert_eq!((&status["state"], &status["queued"]), (&json!("restarting"), &json!(0)));
        place.open_gate();
        let result = client.call("env", json!({"name": "X"}));
        assert_eq!(result["isError"], true, "the queued one was not done");
        assert_eq!(place.starts(), 2);
        assert!(!client.has_answer(begun) && !client.has_answer(queued));
        client.close();
    });
}

#[test]
fn subscriptions_are_expressed_to_each_new_server() {
    in_both_eras(|era| {
        for server in ["legacy", "modern"] {
            let place = Place::new();
            let mut client = place.fixture(era, &[], &["--era", server]);
            if era == "modern" {
                let wanted = json!({"resourceSubscriptions": ["counter://main"]});
                client.send("subscriptions/listen", json!({"notifications": wanted}));
                client.wait_for("notifications/subscriptions/acknowledged");
            } else {
                client.ask("resources/subscribe", json!({"uri": "counter://main"}));
            }
            client.restart(json!({}));
            client.notes.clear();
            assert_eq!(client.status()["subscriptions"], json!(["counter://main"]));
            // The subscription may be under way still, and is heard of at the latest with the next touch.
            let begun = Instant::now();
            while !client.notes.iter().any(|note| note["method"] == "notifications/resources/updated") {
                assert!(begun.elapsed() < LIMIT, "no update");
                client.call("touch", json!({}));
            }
            client.close();
        }
    });
}

#[test]
fn a_hundred_restarts_leave_no_descriptor_and_no_process_more() {
    let place = Place::new();
    let flags = ["--build", "true"];
    let mut client = place.fixture("legacy", &flags, &[]);
    client.ask("resources/subscribe", json!({"uri": "counter://main"}));
    client.restart(json!({"rebuild": true}));
    let pid = client.pid();
    let count = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    let (descriptors, threads) = (count("fd"), count("task"));
    for _ in 0..100 {
        client.restart(json!({}));
    }
    client.restart(json!({"rebuild": true}));
    client.call("touch", json!({}));
    // What belonged to the last one may be on its way out, and threads that nobody needs end some time later.
    place.wait_until(|_| count("fd") <= descriptors && count("task") <= threads);
    assert_eq!(place.starts(), 103);
    client.close();
}
