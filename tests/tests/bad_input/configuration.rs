//! Configuration files and targets that cannot be used.

use std::fs::{self, File};
use std::path::PathBuf;

use drowse_tests::harness::{Home, Run};
use serde_json::json;

use super::bystander::{Bystander, complaint, failure, is_not_there};

/// Writes a file and tries to connect to its entry `x`.
fn connect(home: &Home, content: impl AsRef<[u8]>) -> Run {
    fs::write(home.path().join("mcp.json"), content).unwrap();
    home.run(["connect", "mcp.json:x", "@s", "--json"])
}

#[test]
fn missing() {
    let home = Home::new();
    for target in ["nowhere.json:x", "./nowhere.json:x", "/no/such/directory/mcp.json:x", "nowhere.json"] {
        let run = home.run(["connect", target, "@s", "--json"]);
        let file = target.trim_end_matches(":x");
        failure(&run, 1, "config", &[&format!("there is no file `{file}`"), "drowse connect <file>:<entry>"]);
    }
    complaint(&home.run(["connect", "nowhere.json:x"]), 1, &["there is no file", "↳ drowse connect"]);
    assert!(!home.files().root().exists(), "nothing is made for a mistake");
}

#[test]
fn malformed() {
    let home = Home::new();
    let other = Bystander::of(&home);
    let cases: [(&[u8], &str); 9] = [
        (b"{\"mcpServers\": {\n  \"x\": oops}}", "line 2"),
        (b"{\"mcpServers\": {\"x\": {\"command\": \"cat\"}", "not valid JSON"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8"),
        (b"", "mcpServers"),
        (b"[1, 2]", "mcpServers"),
        (b"{\"x\": {\"command\": \"cat\"}}", "mcpServers"),
        (b"{\"mcpServers\": {\"x\": 7}}", "an object"),
        (b"{\"mcpServers\": {\"x\": {\"command\": \"a\\u0000b\"}}}", "`command` must be"),
        (
            b"{\"mcpServers\": {\"x\": {\"command\": \"cat\", \"idleTimeoutSecs\": \"soon\"}}}",
            "idleTimeoutSecs",
        ),
    ];
    for (content, says) in cases {
        failure(&connect(&home, content), 1, "config", &["mcp.json", says]);
    }
    let deep = format!("{{\"mcpServers\": {}", "[".repeat(1_000_000));
    failure(&connect(&home, deep), 1, "config", &["mcp.json", "not valid JSON"]);
    is_not_there(&home.session("@s"));
    other.noticed_nothing();
}

#[test]
fn huge() {
    let home = Home::new();
    File::create(home.path().join("mcp.json")).unwrap().set_len(40 << 30).unwrap();
    for file in [home.path().join("mcp.json"), PathBuf::from("/dev/zero")] {
        let run = home.run(["connect", &format!("{}:x", file.display()), "@s", "--json"]);
        failure(&run, 1, "config", &["larger than 16 MiB", "cannot be a configuration file"]);
    }
    is_not_there(&home.session("@s"));
}

#[test]
fn not_a_file() {
    let home = Home::new();
    fs::create_dir(home.path().join("mcp.json")).unwrap();
    failure(&home.run(["connect", "mcp.json:x", "@s", "--json"]), 1, "config", &["cannot read", "mcp.json"]);
}

#[test]
fn an_unknown_entry() {
    let home = Home::new();
    let content =
        json!({"mcpServers": {"files": {"command": "cat"}, "github": {"command": "cat"}}}).to_string();
    fs::write(home.path().join("mcp.json"), content).unwrap();
    let run = home.run(["connect", "mcp.json:fils", "@s", "--json"]);
    failure(&run, 1, "config", &["no entry `fils`", "did you mean `files`?"]);
    let run = home.run(["connect", "mcp.json:zzz", "@s", "--json"]);
    failure(&run, 1, "config", &["no entry `zzz`", "it has `files`, `github`"]);
    let run = home.run(["connect", "mcp.json:", "@s", "--json"]);
    failure(&run, 1, "usage", &["names no entry", "mcp.json:<entry>"]);
    is_not_there(&home.session("@s"));
}

#[test]
fn a_remote_server() {
    let home = Home::new();
    let entry = |entry: serde_json::Value| json!({"mcpServers": {"x": entry}}).to_string();
    for (content, says) in [
        (json!({"url": "ws://mcp.example.com/mcp"}), "url: drowse speaks http:// and https://, not ws://"),
        (json!({"url": "https://me:hush@mcp.example.com/mcp"}), "url: a URL must not hold a user name"),
        (json!({"url": "https://mcp.example.com", "command": "cat"}), "both `command` and `url`"),
        (json!({"url": "https://mcp.example.com", "type": "stdio"}), "said to be `stdio`, but has a `url`"),
        (json!({"url": "https://mcp.example.com", "headers": {"Host": "hush"}}), "Host is drowse's own"),
        (json!({"url": "https://mcp.example.com", "headers": {"A": "hush\r\nB: c"}}), "headers.A: the value"),
        (json!({"type": "http"}), "neither `command` nor `url`"),
    ] {
        let run = connect(&home, entry(content));
        assert!(!run.err.contains("hush"), "{}", run.err);
        failure(&run, 1, "config", &["entry `x`", "mcp.json", says]);
    }
    for (url, says) in [
        ("ftp://mcp.example.com", "not ftp://"),
        ("localhost:99999", "invalid port"),
        ("https://[::1", "not a URL"),
        ("https:///mcp", "names no host"),
        ("https://mcp.example.com/a b", "white space"),
    ] {
        let run = home.run(["connect", url, "@s", "--json"]);
        failure(&run, 1, "usage", &[url, "is not the URL of a server", says]);
    }
    fs::write(home.path().join("mcp.json"), "{").unwrap();
    failure(&home.run(["connect", "mcp.json", "--json"]), 1, "config", &["mcp.json", "not valid JSON"]);
    is_not_there(&home.session("@s"));
}

#[test]
fn variables_without_a_value() {
    let home = Home::new();
    let entry =
        |env: serde_json::Value| json!({"mcpServers": {"x": {"command": "cat", "env": env}}}).to_string();
    let run = connect(&home, entry(json!({"TOKEN": "${DROWSE_TEST_NOWHERE}"})));
    failure(&run, 1, "config", &["env.TOKEN", "DROWSE_TEST_NOWHERE", "not set"]);
    let run = connect(&home, entry(json!({"TOKEN": "${input:token}"})));
    failure(&run, 1, "config", &["env.TOKEN", "${input:token} is not a variable"]);
    let run = connect(&home, entry(json!({"A=B": "1"})));
    failure(&run, 1, "config", &["`A=B` cannot be the name"]);
    for (pin, says) in
        [("DROWSE_TEST_NOWHERE", "is not set"), ("=1", "--env"), ("", "--env"), ("A B=1", "`A B=1`")]
    {
        let run = home.run(["connect", "@s", "--json", "--env", pin, "--", "cat"]);
        assert!(run.fails(1)["error"].as_str().unwrap().contains(says), "{}", run.err);
    }
    is_not_there(&home.session("@s"));
}

#[test]
fn an_entry_that_breaks_later() {
    let home = Home::new();
    let session = home.connect_entry("@s", &[], json!({}), &[]);
    let server = session.call("pid", &[]).ok().text();
    for content in ["{", "{\"mcpServers\": {}}", "{\"mcpServers\": {\"s\": {\"url\": \"ws://x\"}}}"] {
        fs::write(home.path().join("s.json"), content).unwrap();
        failure(&session.run(["restart"]), 1, "config", &[]);
    }
    fs::remove_file(home.path().join("s.json")).unwrap();
    failure(&session.run(["restart"]), 1, "config", &["there is no file", "s.json"]);
    // What runs is left alone, and needs the file no more.
    assert_eq!(session.call("pid", &[]).ok().text(), server);
    session.kill_bridge();
    session.run(["ping"]).ok();
}
