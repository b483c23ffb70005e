//! The address is taken, moved and given up while the server runs or sleeps, and before it was ever started.

use std::net::TcpListener;

use drowse_runtime::record::State;
use drowse_tests::harness::{Home, Session, wait_until_gone};
use serde_json::{Value, json};

use crate::client::Client;

/// `set`, and what it says.
#[track_caller]
fn set(session: &Session<'_>, pairs: &[&str]) -> Value {
    let words = ["set", "--json"].iter().chain(pairs).copied();
    session.run(words.collect::<Vec<_>>()).ok().json()
}

/// What a server that was restarted would have lost.
fn server(session: &Session<'_>) -> (u64, Option<u32>) {
    let state = session.state().unwrap();
    (state.generation, state.server_pid)
}

#[test]
fn the_listener_of_a_server_that_runs_is_opened_moved_and_closed() {
    let home = Home::new();
    let session = home.connect("@s", &[], &[]);
    let before = server(&session);
    let said = set(&session, &["proxy", "0"]);
    let client = Client::of(&session);
    assert_eq!(said["listener"]["url"], json!(session.state().unwrap().shared_at), "{said}");
    assert_eq!(
        (&said["share"]["address"], &said["share"]["bearerToken"]),
        (&json!("127.0.0.1:0"), &json!(false))
    );
    client.call("pid", json!({}));
    // Another token: the same port, and nobody is let in by what held before.
    set(&session, &["proxy-bearer-token", "t"]);
    assert_eq!(Client::of(&session).port(), client.port());
    assert_eq!(client.ask("tools/list", json!({})).status, 401);
    assert_eq!(client.with_token("t").ask("tools/list", json!({})).status, 200);
    // Elsewhere, with its token; and how the server is kept, in one line.
    set(&session, &["proxy", "127.0.0.2:0", "idle-timeout", "1000"]);
    let elsewhere = Client::of(&session);
    assert!(client.try_send("GET", &[], "").is_err());
    assert_eq!(elsewhere.ask("tools/list", json!({})).status, 401);
    elsewhere.with_token("t").call("pid", json!({}));
    assert!(session.deadline().is_some());
    let shown = home.run(["@s", "set"]).ok().out;
    assert!(shown.contains("shared at http://127.0.0.2:"), "{shown}");
    let said = set(&session, &["proxy", "off"]);
    assert_eq!((&said["share"], &said["listener"]), (&Value::Null, &Value::Null), "{said}");
    assert!(elsewhere.try_send("GET", &[], "").is_err());
    assert!(session.listed()["_drowse"].get("listener").is_none());
    assert_eq!((server(&session), session.starts()), (before, 1));
    assert_eq!(said["keptToken"], true, "{said}");
    // Shared again it is as closed as it was, until that is taken back.
    let shown = home.run(["@s", "set", "proxy", "0"]).ok().out;
    assert!(shown.contains("with its bearer token"), "{shown}");
    let again = Client::of(&session);
    assert_eq!(again.ask("tools/list", json!({})).status, 401);
    again.with_token("t").call("pid", json!({}));
    let off = home.run(["@s", "set", "proxy", "off"]).ok();
    assert!(
        off.err.contains("its bearer token is kept") && off.err.contains("proxy-bearer-token off"),
        "{off:?}"
    );
    assert_eq!(set(&session, &["proxy-bearer-token", "off"])["keptToken"], false);
    let shown = home.run(["@s", "set", "proxy", "0"]).ok().out;
    assert!(shown.contains("without a bearer token"), "{shown}");
    // All of it survives a restart.
    session.run(["restart"]).ok();
    Client::of(&session).call("pid", json!({}));
}

#[test]
fn a_token_is_taken_back_and_the_word_for_that_is_none() {
    let home = Home::new();
    let session = home.connect("@s", &["--proxy", "0"], &[]);
    for word in ["default", "off"] {
        set(&session, &["proxy-bearer-token", "t"]);
        let client = Client::of(&session);
        assert_eq!(client.ask("tools/list", json!({})).status, 401);
        // From elsewhere nobody is let in without one.
        set(&session, &["proxy", "0.0.0.0:0"]);
        let failed = session.run(["set", "proxy-bearer-token", word]).fails(1);
        assert!(failed["error"].as_str().unwrap().contains("everybody who reaches"), "{failed}");
        assert_eq!(session.listed()["_drowse"]["share"]["bearerToken"], true);
        set(&session, &["proxy", "0"]);
        let said = set(&session, &["proxy-bearer-token", word]);
        assert_eq!(said["share"]["bearerToken"], false, "{said}");
        Client::of(&session).call("pid", json!({}));
    }
    // The other thing of that name is taken back, and it is said that this one is not.
    let said = home.run(["@s", "set", "proxy", "default"]).ok().err;
    assert!(said.contains("still shared at http://") && said.contains("set proxy off"), "{said}");
    set(&session, &["proxy", "off", "proxy-bearer-token", "default"]);
    assert_eq!(set(&session, &["proxy-bearer-token", "off"])["share"], Value::Null);
}

#[test]
fn a_stream_that_is_open_ends_with_its_listener() {
    let home = Home::new();
    let session = home.connect("@s", &["--proxy", "0"], &["--era", "modern"]);
    let client = Client::of(&session);
    let before = server(&session);
    std::thread::scope(|scope| {
        let listen = scope.spawn(|| {
            client.try_ask("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))
        });
        let legacy = client.open();
        set(&session, &["proxy", "off"]);
        let _ = listen.join().unwrap();
        drop(legacy);
    });
    assert_eq!(server(&session), before);
    session.run(["ping"]).ok();
}

#[test]
fn a_port_that_is_taken_changes_nothing() {
    let home = Home::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let session = home.connect("@s", &["--proxy", "0"], &[]);
    let client = Client::of(&session);
    for pairs in [&["proxy", &port][..], &["proxy", &port, "idle-timeout", "7"]] {
        let words = ["set"].iter().chain(pairs).copied();
        let failed = session.run(words.collect::<Vec<_>>()).fails(3);
        assert_eq!((&failed["kind"], &failed["ran"]), (&json!("not-shared"), &json!("no")), "{failed}");
        assert!(failed["error"].as_str().unwrap().contains("is in use by process"), "{failed}");
    }
    assert_eq!(Client::of(&session).port(), client.port());
    client.call("pid", json!({}));
    assert_eq!(session.listed()["_drowse"]["share"]["address"], "127.0.0.1:0");
    assert!(session.deadline().is_none(), "what stood beside it was not set either");
    // Nor for one that sleeps, which then has no listener.
    let sleeper = home.connect("@z", &["--lazy"], &[]);
    assert_eq!(sleeper.run(["set", "proxy", &port]).fails(3)["kind"], "not-shared");
    assert!(sleeper.listed()["_drowse"].get("share").is_none());
    for (pairs, said) in [
        (&["proxy", "0.0.0.0:0"][..], "bearer"),
        (&["proxy", "x"], "--proxy"),
        (&["proxy", "0", "proxy", "1"], "twice"),
        (&["proxy-bearer-token"], "needs a value"),
        (&["proxy-bearer-token", ""], "let everybody in"),
        (&["proxy", "off", "proxy-bearer-token", "t"], "leave out"),
    ] {
        let words = ["set"].iter().chain(pairs).copied();
        let failed = session.run(words.collect::<Vec<_>>()).fails(1);
        assert!(failed["error"].as_str().unwrap().contains(said), "{failed}");
    }
    client.call("pid", json!({}));
}

#[test]
fn one_that_sleeps_is_shared_at_once() {
    let home = Home::new();
    let session = home.connect("@s", &["--idle-timeout", "1"], &[]);
    let bridge = session.state().unwrap().bridge;
    session.wait_until(|state| state.ended && state.state == State::Idle);
    wait_until_gone(bridge.as_ref());
    set(&session, &["proxy", "0"]);
    let client = Client::of(&session);
    let listed = session.listed();
    assert_eq!(listed["status"], "idle", "{listed}");
    assert!(
        listed["_drowse"]["listener"]["pid"].is_u64() && listed["_drowse"].get("serverPid").is_none(),
        "{listed}"
    );
    let tools = client.ask("tools/list", json!({})).json();
    assert!(tools["result"]["tools"].is_array(), "{tools}");
    assert_eq!(session.starts(), 1);
    client.call("pid", json!({}));
    assert_eq!((session.starts(), session.state().unwrap().generation), (2, 2));
    session.wait_until(|state| state.ended && state.state == State::Idle);
    let listener = session.state().unwrap().bridge;
    set(&session, &["proxy", "off"]);
    wait_until_gone(listener.as_ref());
    assert_eq!(session.listed()["status"], "idle");
    session.run(["ping"]).ok();
}

#[test]
fn a_lazy_connect_listens_before_the_first_command() {
    let home = Home::new();
    let session = home.connect("@s", &["--lazy", "--proxy", "0"], &[]);
    let client = Client::of(&session);
    let listener = session.state().unwrap().bridge.unwrap();
    let listed = session.listed();
    assert_eq!(
        (&listed["status"], &listed["_drowse"]["listener"]["pid"]),
        (&json!("dormant"), &json!(listener.pid)),
        "{listed}"
    );
    assert_eq!(session.starts(), 0);
    client.call("pid", json!({}));
    session.run(["ping"]).ok();
    assert_eq!((session.starts(), session.state().unwrap().bridge), (1, Some(listener)));
    // A port that is taken leaves no session.
    let port = client.port().to_string();
    let (other, run) = home.try_connect("@other", &["--lazy", "--proxy", &port], &[]);
    assert_eq!(run.fails(3)["kind"], "not-shared");
    assert!(!other.exists());
    // One that is there is shared by another lazy connect.
    let later = home.connect("@later", &["--lazy"], &[]);
    let words = ["connect", "@later", "--lazy", "--proxy", "0", "--json", "--"].map(ToOwned::to_owned);
    home.run(words.into_iter().chain(later.server(&[]))).ok();
    assert_eq!(later.starts(), 0);
    Client::of(&later).call("pid", json!({}));
    later.run(["close"]).ok();
}

#[test]
fn a_server_that_does_not_start_leaves_the_listener() {
    let home = Home::new();
    home.run(["connect", "@s", "--lazy", "--proxy", "0", "--", "/nonexistent/server"]).ok();
    let session = home.session("@s");
    let client = Client::of(&session);
    let failed = session.run(["ping"]).fails(2);
    assert!(failed["error"].as_str().unwrap().contains("does not exist"), "{failed}");
    let answer = client.ask("tools/call", json!({"name": "pid", "arguments": {}})).json();
    assert!(answer["error"].is_object(), "{answer}");
    session.run(["close"]).ok();
    assert!(client.try_send("GET", &[], "").is_err());
}

#[test]
fn what_was_saved_of_tools_says_which_headers_their_calls_have() {
    let home = Home::new();
    let session = home.connect("@s", &["--idle-timeout", "1"], &["--header-tools"]);
    let bridge = session.state().unwrap().bridge;
    session.wait_until(|state| state.ended && state.state == State::Idle);
    wait_until_gone(bridge.as_ref());
    // Another bridge, which has not asked the server for its tools.
    set(&session, &["proxy", "0"]);
    let starts = session.starts();
    let refused =
        Client::of(&session).ask("tools/call", json!({"name": "region", "arguments": {"region": "eu"}}));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!(-32020)), "{refused:?}");
    assert_eq!(session.starts(), starts);
}
