//! The address: who has it when, and what happens when somebody else does.

use std::net::TcpListener;

use drowse_runtime::process::ProcessIdentity;
use drowse_runtime::record::State;
use drowse_tests::harness::{Home, Session, wait_until_gone};
use serde_json::json;

use crate::client::Client;

fn bridge(session: &Session<'_>) -> ProcessIdentity {
    session.state().unwrap().bridge.unwrap()
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

#[test]
fn close_gives_the_port_up_and_restart_keeps_it() {
    let home = Home::new();
    let session = home.connect("@s", &["--proxy", "0"], &[]);
    let client = Client::of(&session);
    let first = bridge(&session);
    assert!(!is_free(client.port()));
    session.run(["restart"]).ok();
    assert_ne!(bridge(&session), first);
    assert_eq!(Client::of(&session).port(), client.port(), "port 0 is the same again");
    client.call("pid", json!({}));
    session.run(["close"]).ok();
    assert!(is_free(client.port()));
}

#[test]
fn a_port_in_use_is_said_and_leaves_no_session() {
    let home = Home::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let (session, run) = home.try_connect("@s", &["--proxy", &port], &[]);
    let failed = run.fails(3);
    assert_eq!((&failed["kind"], &failed["ran"]), (&json!("not-shared"), &json!("no")), "{failed}");
    let said = failed["error"].as_str().unwrap();
    assert!(said.contains(&format!("port {port} is in use by process {}", std::process::id())), "{said}");
    assert!(!session.exists() && session.starts() == 0);
    let (_, run) = home.try_connect("@s", &["--proxy", "192.0.2.1:0", "--proxy-bearer-token", "t"], &[]);
    let failed = run.fails(3);
    assert!(failed["error"].as_str().unwrap().contains("no such address"), "{failed}");
}

#[test]
fn a_port_that_is_gone_costs_the_sharing_and_not_the_session() {
    let home = Home::new();
    let session = home.connect("@s", &["--proxy", "0"], &[]);
    let client = Client::of(&session);
    let port = client.port().to_string();
    let mut words: Vec<String> =
        ["connect", "@s", "--json", "--proxy", &port, "--"].map(ToOwned::to_owned).to_vec();
    words.extend(session.server(&[]));
    home.run(words.clone()).ok();
    assert_eq!(Client::of(&session).port().to_string(), port);
    session.kill_bridge();
    assert!(client.try_send("GET", &[], "").is_err(), "nobody is there");
    let taken = TcpListener::bind(("127.0.0.1", client.port())).unwrap();
    session.run(["ping"]).ok();
    let listed = session.listed();
    assert_eq!(listed["status"], "live");
    assert!(listed["_drowse"].get("listener").is_none(), "{listed}");
    let why = listed["_drowse"]["notShared"].as_str().unwrap();
    assert!(why.contains("in use by process"), "{why}");
    assert!(home.run(["@s", "logs"]).ok().out.contains("in use by process"));
    // Who asks for it is told; the session sleeps then, and works all the same.
    let failed = session.run(["restart"]).fails(3);
    assert_eq!(failed["kind"], "not-shared");
    session.run(["ping"]).ok();
    drop(taken);
    session.run(["ping"]).ok();
    assert!(session.listed()["_drowse"].get("listener").is_none(), "not by itself");
    home.run(words).ok();
    assert_eq!(Client::of(&session).port().to_string(), port);
    client.call("pid", json!({}));
}

#[test]
fn a_killed_bridge_is_replaced_by_the_next_command_with_its_port() {
    let home = Home::new();
    let session = home.connect("@s", &["--proxy", "0", "--idle-timeout", "1"], &[]);
    let client = Client::of(&session);
    session.wait_until(|state| state.state == State::Idle && state.ended);
    session.kill_bridge();
    assert!(client.try_send("GET", &[], "").is_err());
    let listed = session.listed();
    assert!(listed.get("pid").is_none() && listed["_drowse"].get("listener").is_none(), "{listed}");
    assert_eq!(listed["status"], "idle");
    session.run(["ping"]).ok();
    assert_eq!(Client::of(&session).port(), client.port());
    client.call("pid", json!({}));
    assert_eq!(session.state().unwrap().generation, 2);
}

#[test]
fn sharing_is_changed_and_taken_back() {
    let home = Home::new();
    let session = home.connect("@s", &["--proxy", "0", "--proxy-bearer-token", "t"], &[]);
    let (client, first) = (Client::of(&session), bridge(&session));
    let connect = |more: &[&str]| {
        let mut words: Vec<String> = ["connect", "@s", "--json"].map(ToOwned::to_owned).to_vec();
        words.extend(more.iter().map(ToString::to_string));
        words.push("--".to_owned());
        words.extend(session.server(&[]));
        home.run(words)
    };
    let same = connect(&["--proxy", "0"]).ok().json();
    assert_eq!((&same[0]["_drowse"]["outcome"], bridge(&session)), (&json!("already-awake"), first.clone()));
    let other = connect(&["--proxy", "127.0.0.2:0"]).ok().json();
    assert_eq!(other[0]["_drowse"]["outcome"], "restarted", "{other}");
    wait_until_gone(Some(&first));
    let elsewhere = Client::of(&session);
    assert_eq!(elsewhere.ask("tools/list", json!({})).status, 401, "its token stays");
    assert_eq!(elsewhere.with_token("t").ask("tools/list", json!({})).status, 200);
    assert!(is_free(client.port()));
    connect(&["--proxy-bearer-token", "u"]).ok();
    let elsewhere = Client::of(&session);
    assert_eq!(elsewhere.with_token("t").ask("tools/list", json!({})).status, 401);
    assert_eq!(elsewhere.with_token("u").ask("tools/list", json!({})).status, 200);
    connect(&["--proxy", "off"]).ok();
    assert!(elsewhere.try_send("GET", &[], "").is_err());
    let listed = session.listed();
    assert!(
        listed["_drowse"].get("share").is_none() && listed["_drowse"].get("listener").is_none(),
        "{listed}"
    );
    let failed = connect(&["--proxy-bearer-token", "u"]).fails(1);
    assert!(failed["error"].as_str().unwrap().contains("give --proxy"), "{failed}");
}

#[test]
fn a_whole_file_has_a_free_port_for_each() {
    let home = Home::new();
    let file = home.path().join("all.json");
    let (one, other) = (home.session("@one"), home.session("@other"));
    let entry = |session: &Session<'_>| {
        let mut words = session.server(&[]).into_iter();
        json!({"command": words.next(), "args": words.collect::<Vec<_>>()})
    };
    let servers = json!({"mcpServers": {"one": entry(&one), "other": entry(&other)}});
    std::fs::write(&file, servers.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let failed = home.run(["connect", file, "--json", "--proxy", "1"]).fails(1);
    assert!(failed["error"].as_str().unwrap().contains("port 0"), "{failed}");
    home.run(["connect", file, "--json", "--proxy", "0"]).ok();
    let clients = [&one, &other].map(Client::of);
    assert_ne!(clients[0].port(), clients[1].port());
    clients.iter().for_each(|client| drop(client.call("pid", json!({}))));
    assert_eq!((one.starts(), other.starts()), (1, 1));
}

#[test]
fn an_entry_says_where_it_is_shared() {
    let home = Home::new();
    let file = home.path().join("all.json");
    let (lazy, quiet) = (home.session("@lazy"), home.session("@quiet"));
    let entry = |session: &Session<'_>, share: &str, connects: bool| {
        let mut words = session.server(&[]).into_iter();
        json!({"command": words.next(), "args": words.collect::<Vec<_>>(), "share": share, "autoConnect": connects})
    };
    let servers = json!({"mcpServers": {"lazy": entry(&lazy, "127.0.0.2:0", false), "quiet": entry(&quiet, "0", true)}});
    std::fs::write(&file, servers.to_string()).unwrap();
    let words = |entry: &str| format!("{}:{entry}", file.display());
    home.run(["connect", file.to_str().unwrap(), "--json"]).ok();
    assert_eq!((lazy.starts(), quiet.starts()), (0, 1));
    let shown = lazy.listed();
    assert_eq!(shown["_drowse"]["share"]["address"], "127.0.0.2:0", "{shown}");
    for session in [&lazy, &quiet] {
        Client::of(session).call("pid", json!({}));
    }
    // What is given comes before it, and stays.
    quiet.run(["set", "proxy", "off"]).ok();
    quiet.run(["restart"]).ok();
    home.run(["connect", &words("quiet"), "@quiet", "--json"]).ok();
    assert!(quiet.listed()["_drowse"].get("share").is_none());
    home.run(["connect", &words("quiet"), "@other", "--json", "--proxy", "off"]).ok();
    assert!(home.session("@other").listed()["_drowse"].get("share").is_none());
    home.run(["close", "@other"]).ok();
}
