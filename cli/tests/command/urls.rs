//! Sessions on servers behind URLs, as records: nothing here opens a connection.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::bridge::{Answer, Bridge};
use crate::home::{Home, Run};

fn sessions(home: &Home) -> Vec<Value> {
    let run = home.run("--json");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&run.out).unwrap();
    document["sessions"].as_array().unwrap().clone()
}

/// All files below, but those of credentials.
fn texts(directory: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            all.push_str(&texts(&path));
        } else if path.is_file() && !path.ends_with("credentials.json") {
            all.push_str(&String::from_utf8_lossy(&fs::read(path).unwrap()));
        }
    }
    all
}

#[test]
fn a_url_is_registered_with_all_that_was_given() {
    let home = Home::new();
    fs::write(home.path().join("ca.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    let line = "connect mcp.apify.com/x --lazy --json --verbose -H Authorization:s3cret -H X-A:s3cret --cacert ca.pem \
                --insecure --proxy http://proxy:3128 --keepalive 0 --auto-restart --on-expiry fail --idle-timeout 60";
    let run = home.run(line);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let connected: Value = serde_json::from_str(&run.out).unwrap();
    let entry = &connected[0];
    assert_eq!(
        (&entry["name"], &entry["status"], &entry["target"], &entry["idleTimeoutSecs"]),
        (&json!("@apify"), &json!("dormant"), &json!("https://mcp.apify.com/x"), &json!(60))
    );
    let mut extra = entry["_drowse"].clone();
    assert_eq!(extra["since"], extra["created"], "it is dormant since then");
    extra["created"].take();
    extra["since"].take();
    let ca = home.path().join("ca.pem").canonicalize().unwrap();
    assert_eq!(
        extra,
        json!({
            "keepaliveSecs": 0, "autoRestart": true, "onExpiry": "fail", "url": "https://mcp.apify.com/x",
            "headers": ["Authorization", "X-A"], "insecure": true, "cacert": ca, "proxy": "http://proxy:3128",
            "created": null, "since": null, "nextStep": "starts on first use, e.g. drowse @apify tools-list", "outcome": "registered",
        })
    );
    // What is given now, and nothing else.
    let run = home.run("connect https://MCP.apify.com:443/x @apify --lazy --no-auto-restart -H x-a:s3cret2");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(
        run.out.starts_with("○ @apify  dormant") && run.out.contains("https://mcp.apify.com/x"),
        "{}",
        run.out
    );
    let extra = sessions(&home)[0]["_drowse"].clone();
    assert_eq!((&extra["autoRestart"], &extra["onExpiry"]), (&json!(false), &json!("fail")));
    assert_eq!(extra["headers"], json!(["Authorization", "x-a"]));
    assert!(!texts(home.path()).contains("s3cret"));
    let kept = fs::read_to_string(home.path().join("home/sessions/apify/credentials.json")).unwrap();
    assert!(kept.contains(r#""headers":[["Authorization","s3cret"],["x-a","s3cret2"]]"#), "{kept}");
}

#[test]
fn names_are_derived_from_hosts_and_count_up_only_for_another_address() {
    let home = Home::new();
    for (line, name) in [
        ("connect mcp.apify.com", "@apify"),
        ("connect https://mcp.apify.com/", "@apify"),
        ("connect mcp.apify.com/other", "@apify-2"),
        ("connect localhost:8080", "@localhost"),
        ("connect [::1]:8080/mcp", "@localhost-2"),
    ] {
        let run = home.run(&format!("{line} --lazy --json"));
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{line}");
        assert_eq!(serde_json::from_str::<Value>(&run.out).unwrap()[0]["name"], name, "{line}");
    }
    let targets: Vec<_> = sessions(&home).iter().map(|session| session["target"].clone()).collect();
    assert_eq!(
        targets,
        [
            "https://mcp.apify.com",
            "https://mcp.apify.com/other",
            "http://localhost:8080",
            "http://[::1]:8080/mcp"
        ]
    );
    let run = home.run("connect other.example @apify --lazy --json");
    assert_eq!((run.code, &run.failure()["kind"]), (1, &json!("name-taken")));
}

#[test]
fn an_entrys_literal_headers_and_variables_are_kept_apart() {
    let home = Home::new();
    fs::write(
        home.path().join("mcp.json"),
        r#"{"mcpServers":{"web":{"type":"http","url":"https://${HOST:-h.example}/mcp",
            "headers":{"Authorization":"Bearer ${TOKEN}","X-Lit":"lit-s3cret"}}}}"#,
    )
    .unwrap();
    let run = home.run("connect mcp.json:web --lazy --json");
    assert_eq!(run.code, 1);
    assert!(run.failure()["error"].as_str().unwrap().contains("headers.Authorization: the variable TOKEN"));
    let run = home.command(&["connect", "mcp.json:web", "--lazy", "--json", "-H", "X-Mine: mine-s3cret"]);
    let run = Run::of({ run }.env("TOKEN", "tok-s3cret").output().unwrap());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let session = &sessions(&home)[0];
    assert!(session["target"].as_str().unwrap().ends_with("/mcp.json:web"), "{session}");
    assert_eq!(session["_drowse"]["url"], "https://${HOST:-h.example}/mcp");
    assert_eq!(session["_drowse"]["headers"], json!(["Authorization", "X-Lit", "X-Mine"]));
    let all = texts(&home.path().join("home"));
    assert!(all.contains("Bearer ${TOKEN}") && !all.contains("s3cret"), "{all}");
    assert!(!home.run("").out.contains("s3cret"));
}

/// Writes down what a bridge would have.
fn state(home: &Home, name: &str, state: &str) {
    let record = json!({
        "schema": 1, "generation": 1, "marker": "", "state": state, "since": 1, "ended": true,
        "message": "HTTP 401: the token has expired",
    });
    let file = home.path().join("home/sessions").join(name).join("state.json");
    fs::write(file, record.to_string()).unwrap();
}

#[test]
fn refused_credentials_exit_4_until_others_are_given() {
    let home = Home::new();
    assert_eq!(home.run("connect mcp.example.com @x --lazy -H X-Key:old").code, 0);
    state(&home, "x", "unauthorized");
    for line in ["@x ping --json", "@x --json", "@x tools-call t --json"] {
        let run = home.run(line);
        assert_eq!(run.code, 4, "{line}: {}", run.err);
        let failure = run.failure();
        assert_eq!((&failure["kind"], &failure["ran"]), (&json!("unauthorized"), &json!("no")), "{line}");
        let error = failure["error"].as_str().unwrap();
        assert!(error.contains("the token has expired") && error.contains("drowse restart @x"), "{error}");
    }
    let list = home.run("").out;
    assert!(list.contains("○ @x  unauthorized"), "{list}");
    assert!(list.contains("↳ HTTP 401: the token has expired\n"), "{list}");
    assert!(
        list.contains("↳ new credentials: drowse connect https://mcp.example.com @x -H 'Authorization: …'\n"),
        "{list}"
    );
    assert_eq!(sessions(&home)[0]["_drowse"]["message"], "HTTP 401: the token has expired");
    assert_eq!(home.run("clean").code, 0);
    assert_eq!(home.run("connect mcp.example.com @x --lazy -H X-Key:new").code, 0);
    assert_eq!(sessions(&home)[0]["status"], "idle");
}

#[test]
fn an_expired_session_fails_only_if_that_was_asked_for() {
    let home = Home::new();
    assert_eq!(home.run("connect mcp.example.com @x --lazy --on-expiry fail").code, 0);
    state(&home, "x", "expired");
    let run = home.run("@x ping --json");
    assert_eq!((run.code, &run.failure()["kind"]), (2, &json!("expired")));
    assert!(home.run("").out.contains("↳ its state is gone; begin a fresh one: drowse @x restart\n"));
    assert_eq!(home.run("connect mcp.example.com @x --lazy --on-expiry fresh").code, 0);
    assert!(home.run("").out.contains("starts fresh on next use"));
}

#[test]
fn a_session_behind_a_url_answers_like_any_other() {
    let home = Home::new();
    let _bridge = Bridge::start(&home, |message| match message["method"].as_str() {
        Some("drowse/info") => Answer::Result(
            r#"{"era":"modern","protocolVersion":"2026-07-28","handshake":{"capabilities":{}}}"#.into(),
        ),
        _ => Answer::Error(json!({
            "code": -31000, "message": "the server refused the credentials",
            "data": {"drowse": {"kind": "unauthorized", "ran": "no"}},
        })),
    });
    let record = json!({
        "schema": 1, "target": "url", "command": "", "url": "https://h.example/mcp", "cwd": "/", "created": 1,
        "givenHeaders": ["X-Key"],
    });
    fs::write(home.path().join("home/sessions/s/session.json"), record.to_string()).unwrap();
    let run = home.run("@s --json");
    assert_eq!(run.code, 0, "{}", run.err);
    let document: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(document["_drowse"]["target"], "https://h.example/mcp");
    assert_eq!(document["_drowse"]["headers"], json!(["X-Key"]));
    assert!(document["_drowse"].get("serverPid").is_none());
    let run = home.run("connect https://h.example/mcp @s");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("@s was connected and awake already"), "{}", run.err);
    let run = home.run("@s tools-call t --json");
    assert_eq!((run.code, &run.failure()["kind"]), (4, &json!("unauthorized")));
}
