//! The proxy's own tools.

use drowse_tests::harness::in_both_eras;
use serde_json::json;

use super::client::Place;

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
            assert_eq!(place.starts(), 0);
            let pid = client.text("pid", json!({}));
            let status = client.status();
            assert_eq!(status["state"], "running");
            assert_eq!(status["pid"].to_string(), pid);
            assert_eq!(status["generation"], 1);
            assert_eq!(status["client"]["era"], era);
            assert_eq!(status["server"]["era"], server);
            assert!(status["uptimeMs"].is_u64() && status["server"]["info"]["name"].is_string(), "{status}");
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
