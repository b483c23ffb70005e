//! Files as people write them.

use super::*;

fn parse(text: &str) -> Result<ConfigFile, ConfigError> {
    ConfigFile::parse(Path::new("/c/mcp.json"), text)
}

fn entry(body: &str) -> Result<Entry, ConfigError> {
    parse(&format!(r#"{{"mcpServers":{{"e":{body}}}}}"#)).unwrap().entry("e")
}

#[test]
fn a_file_with_comments_trailing_commas_and_both_roots() {
    let file = parse(
        r#"{
        // one
        "mcpServers": { "b": {"command": "x",}, "a": {"command": "first"}, },
        /* two */
        "servers": { "c": {"command": "y"}, "a": {"command": "second"} },
        "inputs": [1,],
    }"#,
    )
    .unwrap();
    assert_eq!(file.names().collect::<Vec<_>>(), ["b", "a", "c"]);
    let a = file.entry("a").unwrap();
    assert_eq!(a.transport, Transport::Stdio { command: "first".into(), args: vec![] });
}

#[test]
fn all_members() {
    let e = entry(
        r#"{"command":"npx","args":["-y",3,true],"env":{"B":"${B}","A":7,"GONE":null},"cwd":"/w",
        "idleTimeoutSecs":0,"timeoutSecs":9,"maxTimeoutSecs":"2m","connectTimeoutSecs":1,"stopGraceSecs":4,
        "keepaliveSecs":0,"autoRestart":true,"onExpiry":"fail","insecure":false,"cacert":"ca.pem",
        "proxy":"http://p:1","mcpVersion":"legacy","autoConnect":false,"type":"stdio","x":{"y":[1]}}"#,
    )
    .unwrap();
    assert_eq!(
        e.transport,
        Transport::Stdio { command: "npx".into(), args: vec!["-y".into(), "3".into(), "true".into()] }
    );
    assert_eq!(e.env, [("B".into(), "${B}".into()), ("A".into(), "7".into())]);
    assert_eq!(e.cwd.as_deref(), Some("/w"));
    assert_eq!(e.auto_connect, Some(false));
    let want = Settings {
        idle_timeout_secs: Some(0),
        timeout_ms: Some(9_000),
        max_timeout_ms: Some(120_000),
        connect_timeout_ms: Some(1_000),
        stop_grace_ms: Some(4_000),
        keepalive_secs: Some(0),
        auto_restart: Some(true),
        on_expiry: Some(OnExpiry::Fail),
        insecure: Some(false),
        cacert: Some("/c/ca.pem".into()),
        proxy: Some("http://p:1".into()),
        mcp_version: Some("legacy".into()),
        ..Settings::default()
    };
    assert_eq!(e.settings, want);
    assert_eq!(Value::Object(e.other), serde_json::json!({"type": "stdio", "x": {"y": [1]}}));
}

#[test]
fn a_timeout_that_cannot_be_seconds_is_milliseconds() {
    let ms = |body: &str| entry(body).unwrap().settings.timeout_ms;
    assert_eq!(ms(r#"{"command":"x","timeout":60}"#), Some(60_000));
    assert_eq!(ms(r#"{"command":"x","timeout":3600}"#), Some(3_600_000));
    assert_eq!(ms(r#"{"command":"x","timeout":60000}"#), Some(60_000));
    assert_eq!(ms(r#"{"command":"x","timeout":60000,"timeoutSecs":5}"#), Some(5_000));
    assert_eq!(ms(r#"{"command":"x"}"#), None);
}

#[test]
fn wrong_members_are_named() {
    for (body, member) in [
        (r#"{"command":7}"#, "command"),
        (r#"{"command":"x","args":"-y"}"#, "args"),
        (r#"{"command":"x","args":[["a"]]}"#, "args"),
        (r#"{"command":"x","env":["A"]}"#, "env"),
        (r#"{"command":"x","env":{"A":{}}}"#, "env"),
        (r#"{"command":"x","cwd":1}"#, "cwd"),
        (r#"{"command":"x","idleTimeoutSecs":-1}"#, "idleTimeoutSecs"),
        (r#"{"command":"x","idleTimeoutSecs":1.5}"#, "idleTimeoutSecs"),
        (r#"{"command":"x","idleTimeoutSecs":"soon"}"#, "idleTimeoutSecs"),
        (r#"{"command":"x","timeout":0}"#, "timeout"),
        (r#"{"command":"x","mcpVersion":"2025-13-32"}"#, "mcpVersion"),
        (r#"{"command":"x","mcpVersion":20250618}"#, "mcpVersion"),
        (r#"{"command":"x","autoConnect":"no"}"#, "autoConnect"),
        (r#"{"command":"x","share":"here"}"#, "share"),
        (r#"{"command":"x","share":8080}"#, "share"),
        (r#"{"command":"a\u0000b"}"#, "command"),
        (r#"[]"#, "(the entry)"),
    ] {
        match entry(body) {
            Err(ConfigError::BadMember { member: found, .. }) => assert_eq!(found, member, "{body}"),
            other => panic!("{body}: {other:?}"),
        }
    }
    assert!(matches!(entry(r#"{"command":"x","env":{"A=B":"1"}}"#), Err(ConfigError::BadVariable { .. })));
    assert!(matches!(entry(r#"{"args":[]}"#), Err(ConfigError::NoServer { .. })));
    assert!(matches!(entry(r#"{"command":""}"#), Err(ConfigError::NoServer { .. })));
}

#[test]
fn servers_behind_urls_in_all_spellings() {
    for body in [
        r#"{"url":"https://h/${X}"}"#,
        r#"{"serverUrl":"https://h/${X}","type":"streamable-http"}"#,
        r#"{"httpUrl":"https://h/${X}","transport":"streamableHttp"}"#,
        r#"{"url":"https://h/${X}","command":"","args":[],"type":"sse"}"#,
        r#"{"url":"https://h/${X}","httpUrl":"https://h/${X}","type":"http","transport":{"x":1}}"#,
    ] {
        let url = "https://h/${X}".to_owned();
        assert_eq!(entry(body).unwrap().transport, Transport::Url { url, headers: vec![] }, "{body}");
    }
    let Transport::Url { headers, .. } =
        entry(r#"{"url":"u","headers":{"X-B":"${B}","x-a":7,"Gone":null}}"#).unwrap().transport
    else {
        panic!("not a URL")
    };
    assert_eq!(headers, [("X-B".into(), "${B}".into()), ("x-a".into(), "7".into())]);
}

#[test]
fn an_entry_is_one_server_and_of_the_kind_that_it_says() {
    for (body, says) in [
        (r#"{"command":"x","url":"https://h"}"#, "has both `command` and `url`"),
        (r#"{"command":"x","serverUrl":"x"}"#, "has both `command` and `serverUrl`"),
        (r#"{"url":"https://h/sse","httpUrl":"https://h/mcp"}"#, "has both `url` and `httpUrl`"),
        (r#"{"url":"","command":""}"#, "neither `command` nor `url`"),
        (r#"{"command":"x","type":"http"}"#, "said to be `http`, but has a `command`"),
        (r#"{"url":"https://h","type":"stdio"}"#, "said to be `stdio`, but has a `url`"),
        (r#"{"url":"https://h","type":"ws"}"#, "`type` must be `stdio`, `http`"),
        (r#"{"url":"https://h","headers":["A: hush"]}"#, "`headers` must be an object"),
        (r#"{"url":"https://h","headers":{"A":{"x":"hush"}}}"#, "`headers` must be an object"),
        (r#"{"url":"https://h","headers":{"A B":"hush"}}"#, "headers: `A B` cannot be the name"),
        (r#"{"url":"https://h","headers":{"Mcp-Method":"hush"}}"#, "Mcp-Method is drowse's own"),
        (r#"{"url":"https://h","proxy":"http://u:hush@p"}"#, "proxy: the URL of a proxy must not"),
        (r#"{"url":"https://h","proxy":"8080"}"#, "proxy: a proxy is written"),
        (r#"{"url":"https://h","insecure":"yes"}"#, "`insecure` must be true or false"),
        (r#"{"url":"https://h","onExpiry":"retry"}"#, "`onExpiry` must be `fresh` or `fail`"),
    ] {
        let error = entry(body).expect_err(body).to_string();
        assert!(error.contains(says) && error.contains("entry `e`") && !error.contains("hush"), "{error}");
    }
}

#[test]
fn unknown_entries_get_a_hint() {
    let file = parse(r#"{"servers":{"github":{"command":"x"},"files":{"command":"x"}}}"#).unwrap();
    assert!(file.entry("gitbub").unwrap_err().to_string().ends_with("did you mean `github`?"));
    assert!(file.entry("zzz").unwrap_err().to_string().ends_with("it has `github`, `files`"));
    let empty = parse(r#"{"servers":{}}"#).unwrap();
    assert!(empty.entry("x").unwrap_err().to_string().ends_with("it is empty"));
}

#[test]
fn malformed_files() {
    for text in ["{", r#"{"mcpServers":{"a":{}}"#, "{'mcpServers':{}}", "{mcpServers:{}}", "{} {}"] {
        assert!(matches!(parse(text), Err(ConfigError::Malformed { .. })), "{text:?}");
    }
    let error = parse("{\n\"mcpServers\": oops}").unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("/c/mcp.json"), "{error}");
    let deep = format!("{{\"mcpServers\":{}", "[".repeat(200_000));
    assert!(matches!(parse(&deep), Err(ConfigError::Malformed { .. })));
    for text in ["", "[]", "3", "{}", r#"{"mcpServers":[]}"#] {
        assert!(matches!(parse(text), Err(ConfigError::NoServers { .. })), "{text}");
    }
}

#[test]
fn files_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.json");
    assert!(matches!(ConfigFile::read(&path), Err(ConfigError::Missing { .. })));
    assert!(matches!(ConfigFile::read(dir.path()), Err(ConfigError::Unreadable { .. })));
    std::fs::write(&path, "\u{feff}{\"mcpServers\":{\"a\":{\"command\":\"x\"}}}").unwrap();
    assert_eq!(ConfigFile::read(&path).unwrap().names().count(), 1);
    std::fs::write(&path, b"{\"mcpServers\":{\"\xff\":1}}").unwrap();
    assert!(ConfigFile::read(&path).unwrap_err().to_string().contains("not UTF-8"));
    File::create(&path).unwrap().set_len(MAX_CONFIG + 1).unwrap();
    assert!(matches!(ConfigFile::read(&path), Err(ConfigError::Huge { .. })));
}

#[test]
fn durations() {
    for (text, want) in [
        ("0", Some(0)),
        ("600", Some(600)),
        ("10m", Some(600)),
        ("1h30m", Some(5400)),
        ("1d", Some(86_400)),
        (" 5s ", Some(5)),
        ("", None),
        ("m", None),
        ("-1", None),
        ("+1", None),
        ("1.5", None),
        ("1e3", None),
        ("1m1h", None),
        ("1m1m", None),
        ("10m5", None),
        ("10 m", None),
        ("99999999999999999999", None),
        ("9999999999999999999h", None),
        ("1é", None),
    ] {
        assert_eq!(seconds(text), want, "{text:?}");
    }
}
