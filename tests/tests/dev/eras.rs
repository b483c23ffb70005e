//! Which era a server of both speaks behind the proxy, and what the proxy shows of one that never ran.

use drowse_tests::harness::in_both_eras;
use serde_json::{Value, json};

use super::client::Place;

/// What each server of this place was asked first.
fn asked(place: &Place) -> Vec<String> {
    place.journal().first_questions().unwrap()
}

#[test]
fn a_server_of_both_eras_speaks_that_of_the_client_also_after_a_restart() {
    in_both_eras(|era| {
        for first in ["pid", "dev_restart"] {
            let place = Place::new();
            let mut client = place.fixture(era, &[], &["--era", "dual"]);
            client.call(first, json!({}));
            client.call("echo", json!({"text": "hello"}));
            client.restart(json!({}));
            client.call("echo", json!({"text": "hello"}));
            client.close();
            let question = if era == "legacy" { "initialize" } else { "server/discover" };
            assert_eq!(asked(&place), [question; 2], "{first}");
        }
    });
}

#[test]
fn a_legacy_client_gets_a_server_that_knows_no_initialize() {
    for flags in
        [&["--era", "modern"][..], &["--modern-only-refuses-initialize"], &["--initialize-answers-32022"]]
    {
        let place = Place::new();
        let mut client = place.fixture("legacy", &[], flags);
        assert_eq!(client.text("echo", json!({"text": "hello"})), "hello");
        assert_eq!(asked(&place), ["initialize"]);
        assert_eq!(place.starts(), 1);
        client.close();
    }
}

#[test]
fn a_version_that_is_pinned_is_the_only_one() {
    in_both_eras(|era| {
        for (pin, question) in
            [("legacy", "initialize"), ("2025-06-18", "initialize"), ("modern", "server/discover")]
        {
            let place = Place::new();
            let mut client = place.fixture(era, &["--mcp-version", pin], &["--era", "dual"]);
            assert_eq!(client.text("echo", json!({"text": "hello"})), "hello");
            client.close();
            assert_eq!(asked(&place), [question], "{pin}");
        }
        for (pin, server) in [("legacy", "modern"), ("modern", "legacy")] {
            let place = Place::new();
            let mut client = place.fixture(era, &["--mcp-version", pin], &["--era", server]);
            let call = client.send_call("echo", json!({"text": "hello"}));
            let answer = client.answer(call);
            assert_eq!(answer["error"]["data"]["drowse"]["kind"], "start-failed", "{answer}");
            client.close();
        }
    });
}

#[test]
fn a_legacy_server_is_told_of_the_roots_that_are_given() {
    in_both_eras(|era| {
        let place = Place::new();
        let flags = ["--root", ".", "--root", "file:///elsewhere"];
        let mut client = place.fixture(era, &flags, &["--era", "legacy"]);
        let said: Value = serde_json::from_str(&client.text("ask", json!({}))).unwrap();
        let here = place.at("").canonicalize().unwrap();
        let here = format!("file://{}", here.display());
        assert_eq!(said["roots"], json!([{"uri": here}, {"uri": "file:///elsewhere"}]));
        client.close();
    });
}

#[test]
fn tasks_can_be_had_by_a_client_that_came_before_the_server() {
    for (server, ids) in [("legacy", true), ("modern", false)] {
        let place = Place::new();
        let mut client = place.fixture("legacy", &[], &["--era", server, "--tasks"]);
        let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        assert_eq!(client.opened["capabilities"]["tasks"], tasks);
        let params = json!({"name": "work", "arguments": {"ms": 1, "tag": "done"}, "task": {"ttl": 60_000}});
        let answer = client.ask("tools/call", params);
        let id = answer["result"]["task"]["taskId"].clone();
        assert_eq!(id.is_string(), ids, "{answer}");
        let result = client.ask("tasks/result", json!({"taskId": id}));
        match ids {
            true => assert_eq!(result["result"]["content"][0]["text"], "done", "{result}"),
            // It has none of this client's: the call is one like any other, and this is an error.
            false => {
                assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
                assert_eq!(result["error"]["code"], -32601, "{result}");
                assert_eq!(result["error"]["data"]["drowse"]["kind"], "unsupported", "{result}");
            }
        }
        client.close();
    }
    // One without any.
    let place = Place::new();
    let mut client = place.fixture("legacy", &[], &["--era", "legacy"]);
    let answer = client.ask("tasks/list", json!({}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    client.close();
    let place = Place::new();
    let mut client = place.fixture("modern", &[], &["--era", "modern"]);
    let shown = client.ask("server/discover", json!({}));
    let extensions = json!({"io.modelcontextprotocol/tasks": {}});
    assert_eq!(shown["result"]["capabilities"]["extensions"], extensions, "{shown}");
    let answer = client.ask("tasks/get", json!({"taskId": "t"}));
    assert!(answer.get("error").is_some(), "{answer}");
    client.close();
}
