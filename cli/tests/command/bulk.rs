//! A whole file at once.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::home::{Home, Run};
use crate::life::{left_behind, signal};

const DROWSE: &str = env!("CARGO_BIN_EXE_drowse");

fn file(home: &Home, servers: &Value) {
    fs::write(home.path().join("mcp.json"), json!({ "mcpServers": servers }).to_string()).unwrap();
}

fn array(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn demo_server(more: &Value) -> Value {
    let mut entry = json!({"command": DROWSE, "args": ["demo-server"]});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    entry
}

#[test]
fn every_entry_has_a_result_in_the_files_order() {
    let home = Home::new();
    assert_eq!(home.run("connect @beta --lazy -- cat").code, 0);
    let servers = json!({
        "zeta": demo_server(&json!({"idleTimeoutSecs": 60})),
        "beta": demo_server(&json!({"autoConnect": false, "idleTimeoutSecs": 60})),
        "gone": {"command": "/no/such/program"},
        "bad": {"command": "cat", "url": "https://x.example"},
        "unset": {"url": "https://x.example", "headers": {"X-A": "${DROWSE_TEST_UNSET}"}},
        "a b": demo_server(&json!({})),
        "a-b": demo_server(&json!({"autoConnect": false})),
    });
    file(&home, &servers);
    let run = home.run("connect mcp.json --json --idle-timeout 0 --insecure");
    assert_eq!((run.code, run.err.as_str()), (2, ""), "{}", run.out);
    let results = array(&run.out);
    let shown: Vec<_> = results
        .iter()
        .map(|result| {
            let of = |key: &str| result[key].as_str().unwrap_or("-").to_owned();
            let outcome = result["_drowse"]["outcome"].as_str().unwrap_or("-").to_owned();
            (of("name"), of("status"), of("kind"), result["code"].as_u64().unwrap_or(0), outcome)
        })
        .collect();
    let want = [
        ("@zeta", "live", "-", 0, "created"),
        ("@beta-2", "dormant", "-", 0, "registered"),
        ("@gone", "-", "start-failed", 2, "-"),
        ("@bad", "-", "config", 1, "-"),
        ("@unset", "-", "config", 1, "-"),
        ("@a-b", "live", "-", 0, "created"),
        ("@a-b-2", "dormant", "-", 0, "registered"),
    ];
    let text = |(name, status, kind, code, outcome): (&str, &str, &str, u64, &str)| {
        (name.to_owned(), status.to_owned(), kind.to_owned(), code, outcome.to_owned())
    };
    assert_eq!(shown, want.map(text));
    let entries: Vec<_> = results.iter().map(|result| result["_drowse"]["entry"].clone()).collect();
    assert_eq!(entries, ["zeta", "beta", "gone", "bad", "unset", "a b", "a-b"]);
    assert!(results[0]["_drowse"]["handshake"].is_object());
    assert!(results[2]["target"].as_str().unwrap().ends_with("/mcp.json:gone"), "{}", results[2]);
    assert!(results[4]["error"].as_str().unwrap().contains("DROWSE_TEST_UNSET"));
    for result in [&results[0], &results[1], &results[5]] {
        assert_eq!(result["idleTimeoutSecs"], 0, "an explicit 0 counts for all: {result}");
        assert!(result["_drowse"].get("insecure").is_none(), "it says nothing to a command: {result}");
    }
    let listed = home.run("--json").out;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let names: Vec<_> = listed["sessions"].as_array().unwrap().iter().map(|s| s["name"].clone()).collect();
    assert_eq!(names, ["@a-b", "@a-b-2", "@beta", "@beta-2", "@zeta"], "what failed is not there");

    // Once more: the same sessions, and their settings stay.
    let run = home.run("connect mcp.json");
    assert_eq!(run.code, 2);
    let lines: Vec<_> = run.out.lines().collect();
    assert_eq!(lines.len(), 7, "{}", run.out);
    assert!(lines[0].starts_with("● @zeta    live  "), "{}", run.out);
    assert!(
        lines[2].starts_with("✗ @gone    failed  ") && lines[2].contains("/no/such/program"),
        "{}",
        run.out
    );
    assert!(run.err.starts_with("3 of 7 failed\n  ↳ "), "{}", run.err);
    assert!(!run.out.contains("sleeps after"), "{}", run.out);
}

#[test]
fn lazy_counts_for_all_and_urls_are_registered_with_what_is_given() {
    let home = Home::new();
    file(
        &home,
        &json!({
            "web": {"url": "https://x.example", "headers": {"X-Lit": "s3cret"}, "keepaliveSecs": 9},
            "cmd": {"command": "cat", "keepaliveSecs": 9},
        }),
    );
    let run = home.run("connect ./mcp.json --lazy --json --proxy http://p:1 --keepalive 0 --timeout 7");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let results = array(&run.out);
    for result in &results {
        assert_eq!(result["status"], "dormant");
        assert_eq!(
            (&result["_drowse"]["keepaliveSecs"], &result["_drowse"]["timeoutMs"]),
            (&json!(0), &json!(7000))
        );
    }
    assert_eq!(results[0]["_drowse"]["proxy"], "http://p:1");
    assert!(results[1]["_drowse"].get("proxy").is_none());
    assert!(!run.out.contains("s3cret"));
}

#[test]
fn files_without_entries_and_files_that_are_none() {
    let home = Home::new();
    file(&home, &json!({}));
    let run = home.run("connect mcp.json --json");
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "[]\n", ""));
    assert!(home.run("connect mcp.json").err.contains("mcp.json has no entries"));
    fs::write(home.path().join("mcp.json"), "{").unwrap();
    let run = home.run("connect mcp.json --json");
    assert_eq!((run.code, &run.failure()["kind"]), (1, &json!("config")));
    let run = home.run("connect mcp.json @x --json");
    assert_eq!(run.code, 1);
    let failure = run.failure();
    assert!(failure["error"].as_str().unwrap().contains("named after its entries"), "{failure}");
    assert!(failure["_drowse"]["hint"].as_str().unwrap().contains("drowse connect mcp.json:<entry> @x"));
}

#[test]
fn many_entries_are_connected_a_few_at_a_time() {
    let home = Home::new();
    let servers: serde_json::Map<_, _> =
        (0..20).map(|i| (format!("s{i:02}"), json!({"command": format!("/no/such/{i}")}))).collect();
    file(&home, &Value::from(servers));
    let run = home.run("connect mcp.json --json");
    assert_eq!(run.code, 2);
    let results = array(&run.out);
    assert_eq!(results.len(), 20);
    for (i, result) in results.iter().enumerate() {
        assert_eq!(result["name"], format!("@s{i:02}"));
        assert!(result["error"].as_str().unwrap().contains(&format!("/no/such/{i}")), "{result}");
    }
    assert_eq!(home.run("--json").out, "{\"sessions\":[],\"profiles\":[]}\n");
}

#[test]
fn ctrl_c_ends_all_of_it_and_leaves_nothing() {
    let home = Home::new();
    let silent = json!({"command": "sleep", "args": ["1000"]});
    let servers: serde_json::Map<_, _> = (0..10).map(|i| (format!("s{i}"), silent.clone())).collect();
    file(&home, &Value::from(servers));
    let child = home
        .command(&["connect", "mcp.json", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = || fs::read_dir(home.path().join("home/sessions")).map_or(0, Iterator::count);
    let limit = Instant::now() + Duration::from_secs(20);
    while started() < 8 {
        assert!(Instant::now() < limit, "{} were started", started());
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, "INT");
    let run = Run::of(child.wait_with_output().unwrap());
    assert_eq!(run.code, 130, "{}{}", run.out, run.err);
    let results = array(&run.out);
    assert_eq!(results.len(), 10, "{}", run.out);
    for result in &results {
        assert_eq!((&result["kind"], &result["code"]), (&json!("interrupted"), &json!(130)), "{result}");
    }
    assert_eq!(started(), 0);
    assert_eq!(left_behind(home.path()), [""; 0]);
}
