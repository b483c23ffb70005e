//! The real binary without any server: usage, help, failures, exit statuses, and the built-in server on its own.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::home::{Home, Run};

#[test]
fn usage_errors_exit_1_and_say_what_to_do() {
    let home = Home::new();
    for (line, says) in [
        ("--bogus", "unexpected flag `--bogus`"),
        ("@s --bogus", "unexpected flag `--bogus`"),
        ("@s tools-list --bogus", "unexpected flag `--bogus`"),
        ("@s tools-call", "missing <tool>"),
        ("@s tools-call echo nonsense", "key:=value"),
        ("@s tools-call echo a:=1 a:=2", "given twice"),
        ("@s list-tools", "Did you mean: drowse @s tools-list"),
        ("tools-list", "needs a session"),
        ("frobnicate", "a session is written with an @: drowse @frobnicate"),
        ("@not/a/name ping", "not a session name"),
        ("connect", "needs a server"),
        ("connect --idle-timeout soon -- cat", "--idle-timeout"),
        ("connect --idle-timeout -1 -- cat", "--idle-timeout"),
        ("connect ftp://mcp.example.com @x", "drowse speaks http:// and https://, not ftp://"),
        ("connect https://mcp.example.com/#x", "what follows # never reaches a server"),
        ("connect localhost:99999", "port"),
        ("connect https://", "names no host"),
        ("connect x.example -H Mcp-Session-Id:1", "drowse's own"),
        ("connect x.example --lazy --cacert none.pem", "--cacert: cannot read"),
        ("connect x.example --proxy 0.0.0.0:8080", "give --proxy-bearer-token"),
        ("connect x.example --proxy-bearer-token t", "give --proxy [host:]port, too"),
        ("connect x.example --proxy :8080", "a session is shared at [host:]port"),
        ("connect --header A:1 -- cat", "for servers behind a URL"),
        ("connect mcp.json:entry", "no file `mcp.json`"),
        ("@s enable", "later release"),
        ("@s ping --header a:b", "belongs to `connect`"),
        ("clean everything", "`everything`"),
    ] {
        let run = home.run(line);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{line}: {}", run.err);
        assert!(run.err.starts_with("error: "), "{line}: {}", run.err);
        assert!(run.err.contains(says), "{line}: {}", run.err);
    }
    assert!(!home.path().join("home").exists(), "a usage error must not create anything");
}

#[test]
fn secrets_in_the_wrong_place_are_not_shown() {
    let home = Home::new();
    for line in [
        "connect https://me:hush@mcp.example.com/mcp",
        "connect me:hush@mcp.example.com/mcp @x --verbose",
        "connect ftp://me:hush@mcp.example.com",
        "connect x.example -H hush",
        "connect x.example -H X-A:hush\u{1}",
        "connect x.example -H Host:hush --json",
        "connect x.example --proxy http://me:hush@proxy",
        "connect x.example --proxy 0 --proxy-bearer-token hush\u{1}",
        "connect x.example --proxy-bearer-token hush",
    ] {
        let run = home.run(line);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{line}: {}", run.err);
        assert!(!run.err.contains("hush"), "{line}: {}", run.err);
    }
    assert!(!home.path().join("home").exists());
}

#[test]
fn a_failure_is_one_json_document_on_stderr() {
    let home = Home::new();
    for line in ["@s ping --bogus --json", "--json nonsense", "-j connect", "connect --json x:y -- cat"] {
        let run = home.run(line);
        assert_eq!(run.code, 1, "{line}");
        assert_eq!(run.failure()["kind"], "usage", "{line}");
    }
    let by_environment = Run::of(home.command(&["nonsense"]).env("DROWSE_JSON", "1").output().unwrap());
    by_environment.failure();
    let off = Run::of(home.command(&["nonsense"]).env("DROWSE_JSON", "0").output().unwrap());
    assert!(off.err.starts_with("error: "), "{}", off.err);
}

#[test]
fn words_that_are_not_utf8_are_refused() {
    use std::os::unix::ffi::OsStrExt;
    let home = Home::new();
    let word = std::ffi::OsStr::from_bytes(b"a:=\xff");
    let run = Run::of(home.command(&["@s", "tools-call", "echo", "--json"]).arg(word).output().unwrap());
    assert_eq!(run.code, 1);
    assert!(run.failure()["error"].as_str().unwrap().contains("UTF-8"));
}

#[test]
fn help_and_version_go_to_stdout() {
    let home = Home::new();
    for (line, says) in [
        ("--help", "Keeps MCP servers asleep"),
        ("help", "@name tools-call"),
        ("@s --help", "130 interrupted"),
        ("connect --help", "--idle-timeout"),
        ("@s tools-call --help", "key=@file"),
        ("help logs", "--follow"),
        ("--version", env!("CARGO_PKG_VERSION")),
    ] {
        let run = home.run(line);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{line}");
        assert!(run.out.contains(says), "{line}: {}", run.out);
        assert!(!run.out.contains('\u{1b}'), "no colour in a pipe: {line}");
        assert!(run.out.lines().all(|line| line.chars().count() <= 120), "{line}: {}", run.out);
    }
    assert!(!home.run("--help").out.contains("bridge-serve"));
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let home = Home::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let run = Run::of(home.command(&["--help"]).stdout(writer).stderr(Stdio::piped()).output().unwrap());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
}

#[test]
fn a_full_stdout_is_a_failure() {
    let home = Home::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let run = Run::of(home.command(&["--help"]).stdout(full).stderr(Stdio::piped()).output().unwrap());
    assert_eq!(run.code, 1);
    assert!(run.err.contains("cannot write to stdout"), "{}", run.err);
}

#[test]
fn the_built_in_server_speaks_on_stdin_and_stdout() {
    let home = Home::new();
    let mut child = home
        .command(&["demo-server"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let request = r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    writeln!(child.stdin.take().unwrap(), "{request}").unwrap();
    let run = Run::of(child.wait_with_output().unwrap());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let answer: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(answer["id"], 7);
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
}
