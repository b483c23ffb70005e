//! What a client gets of a server that is kept for it.

use drowse_tests::harness::in_both_eras;
use rustix::process::Signal;
use serde_json::json;

use super::client::Place;

#[test]
fn a_probe_starts_nothing() {
    in_both_eras(|era| {
        let place = Place::new();
        let mut client = place.fixture(era, &[], &[]);
        if era == "modern" {
            assert!(client.ask("server/discover", json!({}))["result"]["supportedVersions"].is_array());
        } else {
            assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
        }
        assert_eq!(client.status()["state"], "stopped");
        client.close();
        assert_eq!(place.starts(), 0);
        assert!(!place.at("home").exists(), "no records");
    });
}

#[test]
fn the_first_request_starts_the_server_once_however_many_come() {
    in_both_eras(|era| {
        for server in ["legacy", "modern"] {
            let place = Place::new();
            let mut client = place.fixture(era, &[], &["--era", server, "--start-delay", "300"]);
            let list = client.send("tools/list", json!({}));
            let call = client.send_call("echo", json!({"text": "hello"}));
            let read = client.send("resources/list", json!({}));
            for id in [list, call, read] {
                let answer = client.answer(id);
                assert!(answer.get("result").is_some(), "{answer}");
            }
            assert_eq!(place.starts(), 1);
            client.close();
        }
    });
}

#[test]
fn the_server_has_our_environment_and_what_is_set_and_no_secret_is_shown() {
    let place = Place::new();
    let flags = ["--env", "DEV_SECRET=a-long-secret"];
    let mut client = place.fixture("legacy", &flags, &["--stderr", "the key is a-long-secret, yes"]);
    assert_eq!(client.text("env", json!({"name": "DEV_SECRET"})), "a-long-secret");
    assert!(client.text("env", json!({"name": "DROWSE_HOME"})).ends_with("/home"));
    let logs = client.text("dev_logs", json!({}));
    assert!(logs.contains("the key is [DEV_SECRET], yes"), "{logs}");
    // It stands in the server's command, too.
    let status = client.status();
    assert_eq!(status["env"], json!(["DEV_SECRET"]));
    assert!(status["command"].to_string().contains("the key is [DEV_SECRET], yes"), "{status}");
    assert!(!status.to_string().contains("a-long-secret"), "{status}");
    let errors = client.close();
    assert!(
        errors.contains("the key is [DEV_SECRET], yes\n") && !errors.contains("a-long-secret"),
        "{errors}"
    );
}

#[test]
fn a_secret_in_two_pieces_is_hidden_and_so_is_one_of_a_restart() {
    let place = Place::new();
    // The second half comes when the first one was read.
    let script = format!(
        "half=${{DEV_SECRET%????????}}; printf '%s' \"the key is $half\" >&2; sleep 0.3; \
         printf '%s, yes\\n' \"${{DEV_SECRET#\"$half\"}}\" >&2; exec {}",
        place.server(&[]).join(" ")
    );
    place.write("server.sh", &script);
    let server = ["sh", "server.sh"].map(str::to_owned);
    let mut client = place.dev("legacy", &["--env", "DEV_SECRET=a-long-secret"], &server);
    client.tools();
    client.restart(json!({"env": {"DEV_SECRET": "quite-another-one"}}));
    assert_eq!(client.text("env", json!({"name": "DEV_SECRET"})), "quite-another-one");
    let logs = client.text("dev_logs", json!({}));
    assert_eq!(logs.matches("the key is [DEV_SECRET], yes").count(), 2, "{logs}");
    let status = client.status().to_string();
    let errors = client.close();
    assert_eq!(errors.matches("the key is [DEV_SECRET], yes\n").count(), 2, "{errors}");
    for part in ["a-lon", "-secret", "quite-ano", "ther-one"] {
        assert!(!logs.contains(part) && !errors.contains(part) && !status.contains(part), "{part}: {logs}");
    }
}

#[test]
fn more_calls_than_there_is_room_for_wait_and_are_all_answered() {
    in_both_eras(|era| {
        let place = Place::new();
        let mut client = place.fixture(era, &[], &[]);
        client.tools();
        // So many that those which wait fill every buffer.
        let padding = "x".repeat(1000);
        let calls: Vec<u64> =
            (0..400).map(|_| client.send_call("slow", json!({"ms": 1000, "padding": padding}))).collect();
        for id in calls {
            let answer = client.answer(id);
            assert!(answer.get("result").is_some(), "{answer}");
        }
        client.close();
    });
}

#[test]
fn a_killed_proxy_takes_its_server_along() {
    let place = Place::new();
    let mut client = place.fixture("modern", &[], &[]);
    client.tools();
    client.signal(Signal::KILL);
    assert_eq!(client.end().0, None);
}

#[test]
fn a_list_in_pages_has_the_proxys_tools_on_the_last() {
    in_both_eras(|era| {
        let place = Place::new();
        let mut client = place.fixture(era, &[], &["--page-size", "5"]);
        let (mut cursor, mut pages) = (None, Vec::new());
        loop {
            let params = cursor.map_or_else(|| json!({}), |cursor: String| json!({"cursor": cursor}));
            let result = client.ask("tools/list", params)["result"].clone();
            let names: Vec<String> = result["tools"]
                .as_array()
                .unwrap()
                .iter()
                .map(|tool| tool["name"].as_str().unwrap().to_owned())
                .collect();
            pages.push(names);
            cursor = result["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        assert!(pages.len() > 1);
        let (last, rest) = pages.split_last().unwrap();
        assert!(rest.iter().flatten().all(|name| !name.starts_with("dev_")));
        assert!(last.ends_with(&super::client::OURS.map(str::to_owned)), "{last:?}");
        client.close();
    });
}
