//! Who comes in, and what nobody there gets to see.

use std::fs;

use drowse_runtime::record::State;
use drowse_tests::harness::{Home, HttpServer};
use serde_json::json;

use crate::client::Client;

const SECRET: &str = "s3cret-of-the-owner";
const TOKEN: &str = "t0ken-of-clients";

#[test]
fn nobody_comes_in_without_the_token() {
    let home = Home::new();
    let flags = ["--proxy", "0", "--proxy-bearer-token", TOKEN, "--idle-timeout", "1"];
    let session = home.connect("@s", &flags, &["--era", "modern"]);
    session.wait_until(|state| state.state == State::Idle && state.ended);
    let client = Client::of(&session);
    let call = json!({"name": "pid", "arguments": {}});
    let wrong =
        [client.clone(), client.with_token(""), client.with_token("x"), client.with_token(&TOKEN[1..])];
    let longer = client.with_token(&format!("{TOKEN}x"));
    for stranger in wrong.iter().chain([&longer]) {
        let refused = stranger.ask("tools/call", call.clone());
        assert_eq!(refused.status, 401, "{refused:?}");
        assert!(refused.head.to_ascii_lowercase().contains("www-authenticate: bearer"), "{refused:?}");
        assert!(!format!("{refused:?}").contains(TOKEN));
        assert_eq!(stranger.send("GET", &[], "").status, 401);
        assert_eq!(stranger.send("DELETE", &[], "").status, 401);
    }
    assert_eq!((session.starts(), session.state().unwrap().state), (1, State::Idle), "nobody woke it");
    assert_eq!(client.with_token(TOKEN).ask("tools/call", call).status, 200);
    // Where the token is not: the bridge's words and environment, records but the credentials, log, list.
    let pid = session.state().unwrap().bridge.unwrap().pid;
    for file in ["cmdline", "environ"] {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(TOKEN), "{file}");
    }
    for entry in
        fs::read_dir(home.files().session(&drowse_runtime::home::SessionName::new("s").unwrap())).unwrap()
    {
        let path = entry.unwrap().path();
        let text = fs::read(&path).unwrap_or_default();
        let has = String::from_utf8_lossy(&text).contains(TOKEN);
        assert_eq!(has, path.ends_with("credentials.json"), "{}", path.display());
    }
    for words in [&["--json"][..], &[], &["@s"], &["@s", "logs"], &["@s", "set"], &["ps"], &["doctor"]] {
        let run = home.run(words);
        assert!(!run.out.contains(TOKEN) && !run.err.contains(TOKEN), "{words:?}");
    }
    assert_eq!(session.listed()["_drowse"]["share"]["bearerToken"], true);
}

#[test]
fn a_token_stands_in_a_file_or_a_variable_and_an_empty_one_lets_nobody_in() {
    let home = Home::new();
    let file = home.path().join("token");
    fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let from_file = format!("@{}", file.display());
    let session = home.connect("@s", &["--proxy", "0", "--proxy-bearer-token", &from_file], &[]);
    assert_eq!(Client::of(&session).with_token(TOKEN).ask("tools/list", json!({})).status, 200);
    assert_eq!(Client::of(&session).ask("tools/list", json!({})).status, 401);
    let words = |token: &str| {
        let mut words: Vec<String> =
            ["connect", "@v", "--json", "--proxy", "0", "--proxy-bearer-token", token, "--"]
                .map(ToOwned::to_owned)
                .to_vec();
        words.extend(home.session("@v").server(&[]));
        words
    };
    fs::write(&file, "\n").unwrap();
    for empty in ["", from_file.as_str(), "${EMPTY}", "${NOT_SET}"] {
        let mut command = home.command(words(empty));
        command.env("EMPTY", "");
        let failed = home.finish(command).fails(1);
        assert!(failed["error"].as_str().unwrap().contains("--proxy-bearer-token"), "{failed}");
    }
    let mut command = home.command(words("${VARIABLE}"));
    command.env("VARIABLE", TOKEN);
    home.finish(command).ok();
    let other = home.session("@v");
    assert_eq!(Client::of(&other).with_token(TOKEN).ask("tools/list", json!({})).status, 200);
    let (_, run) = home.try_connect("@open", &["--proxy", "0.0.0.0:0"], &[]);
    let failed = run.fails(1);
    let said = failed["error"].as_str().unwrap();
    assert!(said.contains("everybody") && said.contains("--proxy-bearer-token"), "{said}");
}

#[test]
fn the_headers_of_the_session_stay_its_own() {
    let header = format!("X-Key: {SECRET}");
    let mut server = HttpServer::start(&["--era", "modern"]);
    let home = Home::new();
    let flags = ["--proxy", "0", "-H", header.as_str(), "--idle-timeout", "1"];
    let session = home.connect_http("@s", &flags, &server);
    let client = Client::of(&session);
    let mut seen = vec![
        client.ask("server/discover", json!({})),
        client.ask("tools/list", json!({})),
        client.ask("tools/call", json!({"name": "pid", "arguments": {}})),
        client.ask("tools/call", json!({"name": "no-such-tool", "arguments": {}})),
        client.ask("drowse/status", json!({})),
    ];
    session.wait_until(|state| state.state == State::Idle && state.ended);
    server.stop();
    let away = client.ask("tools/call", json!({"name": "pid", "arguments": {}}));
    let told = away.json();
    assert_eq!(told["error"]["data"]["drowse"]["ran"], "no", "{told}");
    seen.push(away);
    let address = server.address().to_string();
    for response in &seen {
        let shown = format!("{response:?}");
        assert!(!shown.contains(SECRET) && !shown.contains(&address), "{shown}");
    }
    let log = home.run(["@s", "logs"]).ok();
    assert!(!log.out.contains(SECRET) && !home.run(["--json"]).out.contains(SECRET));
    server.restart();
}

#[test]
fn what_a_server_is_run_with_and_its_last_words_stay_with_its_owner() {
    let home = Home::new();
    let session = home.session("@s");
    let flag = home.path().join("broken");
    let script = format!(
        "if [ -e {} ]; then echo \"no luck with $KEY\" >&2; exit 3; fi; exec {}",
        flag.display(),
        session.server(&["--era", "modern"]).join(" ")
    );
    let key = format!("KEY={SECRET}");
    let words = [
        "connect",
        "@s",
        "--json",
        "--proxy",
        "0",
        "--env",
        &key,
        "--idle-timeout",
        "1",
        "--",
        "sh",
        "-c",
        &script,
    ];
    home.run(words).ok();
    let client = Client::of(&session);
    session.wait_until(|state| state.state == State::Idle && state.ended);
    fs::write(&flag, "").unwrap();
    let failed = client.ask("tools/call", json!({"name": "pid", "arguments": {}}));
    let error = failed.json()["error"].clone();
    assert_eq!(error["data"]["drowse"], json!({"kind": "start-failed", "ran": "no"}), "{error}");
    let shown = format!("{failed:?}");
    assert!(!shown.contains(SECRET) && !shown.contains("luck") && !shown.contains("broken"), "{shown}");
    // Its owner is told.
    let owners = session.run(["ping"]).fails(2);
    assert!(owners.to_string().contains("no luck with"), "{owners}");
}
