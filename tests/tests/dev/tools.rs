//! The proxy's own tools.

use drowse_tests::harness::in_both_eras;
use serde_json::json;

use super::client::{OURS, Place};

#[test]
fn names_that_begin_with_dev_are_never_forwarded() {
    in_both_eras(|era| {
        let place = Place::new();
        let mut client = place.fixture(era, &[], &[]);
        for name in ["dev_other", "dev_", "dev_restart2"] {
            let call = client.send_call(name, json!({"tag": "forwarded"}));
            let answer = client.answer(call);
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
        assert_eq!(place.starts(), 0);
        client.close();
    });
}

#[test]
fn tools_of_the_server_with_such_names_are_not_in_its_list() {
    in_both_eras(|era| {
        for server in [&["--dev-tools"][..], &["--dev-tools", "--page-size", "3"]] {
            let place = Place::new();
            let mut client = place.fixture(era, &[], server);
            let names = client.all_tools();
            assert!(
                names.contains(&"echo".to_owned()) && !names.contains(&"dev_mine".to_owned()),
                "{names:?}"
            );
            let devs: Vec<_> = names.iter().filter(|name| name.starts_with("dev_")).collect();
            assert_eq!(devs, OURS.iter().collect::<Vec<_>>(), "{names:?}");
            let call = client.send_call("dev_mine", json!({}));
            assert_eq!(client.answer(call)["error"]["code"], -32602);
            client.close();
        }
    });
}

#[test]
fn arguments_that_do_not_fit_are_refused_and_say_why() {
    in_both_eras(|era| {
        let place = Place::new();
        let mut client = place.fixture(era, &[], &[]);
        for (tool, arguments, said) in [
            ("dev_restart", json!({"rebuild": "yes"}), "true or false"),
            ("dev_restart", json!({"env": ["A"]}), "object of strings"),
            ("dev_restart", json!({"env": {"A": 1}}), "`A`"),
            ("dev_restart", json!({"env": {"A=B": "1"}}), "="),
            ("dev_restart", json!({"force": true}), "`force`"),
            ("dev_logs", json!({"lines": 0}), "1 to 1000"),
            ("dev_logs", json!({"lines": "all"}), "1 to 1000"),
            ("dev_status", json!({"x": 1}), "takes none"),
            ("dev_status", json!([]), "object"),
        ] {
            let result = client.call(tool, arguments.clone());
            assert_eq!(result["isError"], true, "{arguments}");
            let text = super::client::text(&result);
            assert!(text.contains(said), "{arguments}: {text}");
        }
        assert_eq!(place.starts(), 0);
        client.close();
    });
}

#[test]
fn the_status_tells_of_both_sides_and_starts_nothing() {
    in_both_eras(|era| {
        for server in ["legacy", "modern"] {
            let place = Place::new();
            let mut client = place.fixture(era, &[], &["--era", server]);
            let status = client.status();
            assert_eq!((&status["state"], &status["server"]), (&json!("stopped"), &json!(null)));
            assert!(status["hint"].as_str().unwrap().contains("first request starts"), "{status}");
            for name in ["pid", "uptimeMs", "tools"] {
                assert_eq!(status[name], json!(null), "{status}");
            }
            assert_eq!(place.starts(), 0);
            let pid = client.text("pid", json!({}));
            let status = client.status();
            assert_eq!(status["state"], "running");
            assert_eq!(status["pid"].to_string(), pid);
            assert_eq!(status["generation"], 1);
            let version = |era| if era == "modern" { "2026-07-28" } else { "2025-11-25" };
            for (side, era) in [("client", era), ("server", server)] {
                assert_eq!(status[side]["era"], era);
                assert_eq!(status[side]["version"], version(era));
            }
            assert!(status["uptimeMs"].is_u64() && status["server"]["info"]["name"].is_string(), "{status}");
            client.close();
        }
    });
}

#[test]
fn the_status_counts_the_servers_tools() {
    in_both_eras(|era| {
        for pages in [&[][..], &["--page-size", "4"]] {
            let place = Place::new();
            let mut client = place.fixture(era, &[], pages);
            assert_eq!(client.status()["tools"], json!(null), "nobody knows");
            let all = client.all_tools().len() - OURS.len();
            client.wait_for_status(|status| status["tools"] == all);
            client.call("flip_tools", json!({}));
            client.wait_for_status(|status| status["tools"] == all + 1);
            // The bonus is gone with the server.
            client.restart(json!({}));
            client.wait_for_status(|status| status["tools"] == all);
            client.close();
        }
    });
}

#[test]
fn logs_are_whole_lines_and_as_many_as_are_asked_for() {
    let place = Place::new();
    let mut client = place.fixture("legacy", &[], &["--stderr-flood", "200000"]);
    client.tools();
    let result = client.call("dev_logs", json!({"lines": 3}));
    let lines = result["structuredContent"]["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().any(|line| line == "flood ends"), "{lines:?}");
    client.close();
}

#[test]
fn the_proxys_own_tools_wait_for_no_call_of_the_server() {
    in_both_eras(|era| {
        let place = Place::new();
        let mut client = place.fixture(era, &[], &[]);
        let slow = || json!({"ms": 60_000, "tag": "slow"});
        for _ in 0..400 {
            client.send_call("slow", slow());
        }
        place.wait_for_run("slow");
        assert_eq!(client.status()["state"], "running");
        client.call("dev_logs", json!({}));
        // And it is the way out.
        client.restart(json!({}));
        assert_eq!(client.status()["generation"], 2);
    });
}
