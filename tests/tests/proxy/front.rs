//! Who else comes in, and how much there may be: given with the address, kept with the session, and changed.

use drowse_tests::harness::{Home, Session};
use serde_json::{Value, json};

use crate::client::Client;

/// What a page's browser is told before its request.
fn asks(client: &Client, origin: &str) -> u16 {
    let headers = [("Origin", origin), ("Access-Control-Request-Method", "POST")];
    client.send("OPTIONS", &headers, "").status
}

/// A request by this name of the host.
fn by_name(client: &Client, host: &str) -> u16 {
    client.by_name(host).ask("tools/list", json!({})).status
}

/// How a client is told that there are as many sessions as there may be.
#[track_caller]
fn refused(client: &Client) -> String {
    let response = client.initialize();
    assert_eq!((response.status, response.header("Retry-After")), (503, Some("30")), "{response:?}");
    response.json()["error"]["message"].as_str().expect("a reason").to_owned()
}

#[track_caller]
fn connect(home: &Home, session: &Session<'_>, more: &[&str]) -> Value {
    let words = ["connect", "@s", "--json"].iter().chain(more).chain(&["--"]).map(ToString::to_string);
    home.run(words.chain(session.server(&[])).collect::<Vec<_>>()).ok().json()[0].take()
}

#[test]
fn what_is_given_with_the_address_holds_there_and_stays() {
    let home = Home::new();
    let flags = ["--proxy", "0", "--http-limit", "sessions=1", "--http-origin", "https://tool.example"];
    let session = home.connect("@s", &flags, &[]);
    let client = Client::of(&session);
    let open = client.open();
    assert!(refused(&client).contains("all 1 sessions are in use"));
    open.delete();
    assert_eq!((asks(&client, "https://tool.example"), asks(&client, "https://other.example")), (204, 403));
    assert_eq!(by_name(&client, "box.example"), 403);
    let share = session.listed()["_drowse"]["share"].clone();
    let said = json!({
        "address": "127.0.0.1:0", "bearerToken": false,
        "origins": ["https://tool.example"], "limits": {"sessions": 1},
    });
    assert_eq!(share, said);
    // Once more, with a name: the rest is as it was.
    let other = connect(&home, &session, &["--proxy", "0", "--http-host", "box.example"]);
    assert_eq!(other["_drowse"]["outcome"], "restarted", "{other}");
    let again = connect(
        &home,
        &session,
        &["--proxy", "0", "--http-host", "box.example", "--http-limit", "sessions=1"],
    );
    assert_eq!(again["_drowse"]["outcome"], "already-awake", "{again}");
    let client = Client::of(&session);
    assert_eq!((by_name(&client, "box.example"), asks(&client, "https://tool.example")), (200, 204));
    // Elsewhere, and after a restart.
    session.run(["set", "proxy", "127.0.0.2:0"]).ok();
    for _ in 0..2 {
        let client = Client::of(&session);
        let open = client.open();
        assert!(refused(&client).contains("all 1 sessions"));
        open.delete();
        assert_eq!((by_name(&client, "box.example"), asks(&client, "https://tool.example")), (200, 204));
        session.run(["restart"]).ok();
    }
}

#[test]
fn set_changes_it_while_the_server_runs() {
    let home = Home::new();
    let session = home.connect("@s", &["--proxy", "0", "--idle-timeout", "600"], &[]);
    let warned = |limit: &str| session.run(["set", "http-limit", limit]).ok().err;
    for (limit, unused) in [("idle=90s", "1 min 30 s"), ("default", "30 min")] {
        let warned = warned(limit);
        assert!(
            warned.starts_with("{\"notice\"") && warned.contains("\"kind\":\"stateful-clients\""),
            "{warned}"
        );
        assert!(warned.contains(&format!("do not use it for {unused}; ")), "{warned}");
    }
    let client = Client::of(&session);
    let before = session.state().unwrap().server_pid;
    assert_eq!(asks(&client, "https://tool.example"), 403);
    let pairs = ["set", "--json", "http-limit", "sessions=1", "http-origin", "https://tool.example"];
    let said = session.run(pairs).ok().json();
    assert_eq!(
        (&said["share"]["limits"], &said["share"]["origins"]),
        (&json!({"sessions": 1}), &json!(["https://tool.example"])),
        "{said}"
    );
    assert_eq!(Client::of(&session).port(), client.port());
    let _open = client.open();
    refused(&client);
    assert_eq!(asks(&client, "https://tool.example"), 204);
    let shown = home.run(["@s", "set"]).ok().out;
    assert!(shown.contains("; for pages of https://tool.example; sessions=1"), "{shown}");
    session.run(["set", "http-limit", "default", "http-origin", "default"]).ok();
    let _two = (client.open(), client.open());
    assert_eq!(asks(&client, "https://tool.example"), 403);
    assert_eq!(session.listed()["_drowse"]["share"], json!({"address": "127.0.0.1:0", "bearerToken": false}));
    assert_eq!((session.state().unwrap().server_pid, session.starts()), (before, 1));
    session.run(["set", "proxy", "off"]).ok();
    let failed = session.run(["set", "http-limit", "sessions=1"]).fails(1);
    assert!(failed["error"].as_str().unwrap().contains("share it first"), "{failed}");
}
