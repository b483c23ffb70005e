//! Sleep and wake: what starts a sleeping server, what keeps one awake, and what stays while it sleeps.

use std::thread;

use drowse_runtime::process::ProcessIdentity;
use drowse_runtime::record::State;
use drowse_tests::harness::{Home, Session, at_once};
use serde_json::{Value, json};

use crate::client::Client;

const SLEEPY: &[&str] = &["--proxy", "0", "--idle-timeout", "1"];

/// Waits until the server sleeps; its bridge stays as the listener.
#[track_caller]
fn asleep(session: &Session<'_>) -> ProcessIdentity {
    let state = session.wait_until(|state| state.ended && state.state == State::Idle);
    let bridge = state.bridge.expect("a bridge");
    assert!(bridge.is_alive(), "the listener stays");
    bridge
}

/// What `ps` shows, by role.
fn roles(home: &Home) -> Vec<(String, u64)> {
    let shown = home.run(["ps", "--json"]).ok().json();
    let processes = shown["processes"].as_array().or(shown.as_array()).expect("a list").clone();
    let role = |process: &Value| Some((process["role"].as_str()?.to_owned(), process["pid"].as_u64()?));
    processes.iter().filter_map(role).collect()
}

#[test]
fn the_listener_stays_and_the_next_call_wakes_the_server() {
    at_once(["legacy", "modern"].map(|era| (era, era)), |era| {
        let home = Home::new();
        let session = home.connect("@s", SLEEPY, &["--era", era]);
        let client = Client::of(&session);
        let first = client.call("pid", json!({}));
        let bridge = asleep(&session);
        let listed = session.listed();
        assert_eq!((&listed["status"], &listed["pid"]), (&json!("idle"), &json!(bridge.pid)), "{listed}");
        assert_eq!(listed["_drowse"]["listener"]["pid"], bridge.pid);
        assert!(listed["_drowse"].get("serverPid").is_none(), "{listed}");
        assert_eq!(roles(&home), [("listener".to_owned(), u64::from(bridge.pid))]);
        // What needs no server is answered without it.
        let starts = session.starts();
        let tools = client.ask("tools/list", json!({})).json();
        assert!(
            tools["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "pid"),
            "{tools}"
        );
        assert_eq!(tools["result"]["resultType"], "complete");
        for method in ["prompts/list", "resources/list", "resources/templates/list", "server/discover"] {
            let answer = client.ask(method, json!({})).json();
            assert!(answer["result"].is_object(), "{method}: {answer}");
        }
        let stale = client.ask("tools/list", json!({"cursor": "2"})).json();
        assert_eq!(stale["error"]["code"], -32602, "{stale}");
        let unknown = client.ask("drowse/status", json!({})).json();
        assert_eq!(
            unknown["error"]["code"], -32601,
            "what is drowse's own is not for its clients: {unknown}"
        );
        assert_eq!((session.starts(), session.state().unwrap().state), (starts, State::Idle));
        // A call wakes it, in the same bridge.
        assert_ne!(client.call("pid", json!({})), first);
        let state = session.state().unwrap();
        assert_eq!((state.generation, state.bridge.unwrap()), (2, bridge.clone()));
        assert_eq!(asleep(&session), bridge);
        // And so does a command.
        session.run(["ping"]).ok();
        let state = session.state().unwrap();
        assert_eq!((state.generation, state.bridge.unwrap()), (3, bridge));
    });
}

#[test]
fn many_clients_at_once_wake_one_server() {
    let home = Home::new();
    let session = home.connect("@s", SLEEPY, &["--era", "modern"]);
    asleep(&session);
    let starts = session.starts();
    let client = Client::of(&session);
    let pids: Vec<String> = thread::scope(|scope| {
        let calls: Vec<_> = (0..16).map(|_| scope.spawn(|| client.call("pid", json!({})))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert!(pids.windows(2).all(|two| two[0] == two[1]), "{pids:?}");
    assert_eq!(session.starts(), starts + 1);
}

#[test]
fn an_open_session_of_a_client_keeps_the_server_awake() {
    let home = Home::new();
    let session = home.connect("@s", &["--proxy", "0", "--idle-timeout", "1000"], &["--era", "modern"]);
    let said = home.run(
        ["connect", "@s", "--proxy", "0", "--"]
            .map(ToOwned::to_owned)
            .into_iter()
            .chain(session.server(&["--era", "modern"])),
    );
    assert!(said.err.contains("keep @s awake"), "{}", said.err);
    let client = Client::of(&session);
    assert!(session.deadline().is_some());
    let (one, other) = (client.open(), client.open());
    assert_eq!(session.deadline(), None);
    assert_eq!(session.status()["deferredBy"], json!(["2 open sessions of clients on its port"]));
    assert_eq!(
        one.ask("tools/call", json!({"name": "echo", "arguments": {"text": "x"}}))["result"]["content"][0]["text"],
        "x"
    );
    one.delete();
    assert_eq!(one.status(), 404);
    assert_eq!(session.status()["deferredBy"], json!(["an open session of a client on its port"]));
    session.run(["set", "idle-timeout", "1"]).ok();
    assert_eq!(session.deadline(), None, "a shorter period changes nothing of that");
    other.delete();
    asleep(&session);
    // One that begins while the server sleeps does not wake it, nor do its lists.
    let later = client.open();
    let tools = later.ask("tools/list", json!({}));
    assert!(tools["result"]["tools"].is_array() && tools["result"].get("resultType").is_none(), "{tools}");
    assert_eq!(session.state().unwrap().generation, 1);
    later.ask("tools/call", json!({"name": "echo", "arguments": {"text": "x"}}));
    assert_eq!((session.state().unwrap().generation, session.deadline()), (2, None));
    later.delete();
    asleep(&session);
}

#[test]
fn a_server_that_crashes_leaves_the_listener() {
    let home = Home::new();
    let session = home.connect("@s", &["--proxy", "0"], &["--era", "modern"]);
    let client = Client::of(&session);
    client.call("pid", json!({}));
    session.kill_server();
    let state = session.wait_until(|state| state.state == State::Crashed && state.ended);
    let bridge = state.bridge.unwrap();
    assert!(bridge.is_alive());
    assert_eq!(session.listed()["_drowse"]["listener"]["pid"], bridge.pid);
    client.call("pid", json!({}));
    assert_eq!(session.state().unwrap().bridge.unwrap(), bridge);
    // `clean` takes it for what it is.
    session.kill_server();
    session.wait_until(|state| state.state == State::Crashed && state.ended);
    home.run(["clean"]).ok();
    assert!(!session.exists() && !bridge.is_alive());
}
