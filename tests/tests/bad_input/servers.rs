//! Servers that say the wrong things.

use std::fs;

use drowse_tests::harness::{Home, Session, in_both_eras};
use serde_json::json;

use super::bystander::{Bystander, complaint, failure, is_not_there};

/// That it can be used: lists and calls, and each call runs once.
fn works(session: &Session<'_>) {
    let tools = session.run(["tools-list"]).ok().json();
    assert!(tools.as_array().unwrap().iter().any(|tool| tool["name"] == "echo"));
    for tag in ["a", "b"] {
        assert_eq!(session.call("tag", &[&format!("tag={tag}")]).ok().text(), tag);
        assert_eq!(session.executions(tag), 1);
    }
    session.run(["ping"]).ok();
    assert_eq!(session.starts(), 1);
}

#[test]
fn garbage_between_the_messages() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era, "--garbage"]);
        works(&session);
    });
}

#[test]
fn answers_twice() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era, "--answer-twice"]);
        works(&session);
    });
}

#[test]
fn answers_to_unknown_ids() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era, "--unknown-ids"]);
        works(&session);
    });
}

#[test]
fn lines_of_100_mb() {
    in_both_eras(|era| {
        let home = Home::new();
        let other = Bystander::of(&home);
        let session = home.connect("@s", &[], &["--era", era]);
        let server = session.call("pid", &[]).ok().text();
        let run = session.call("huge", &["bytes:=100000000"]);
        let document = failure(&run, 2, "too-large", &["64 MiB", "ask for less"]);
        assert_eq!(document["ran"], "unknown");
        assert_eq!(session.call("pid", &[]).ok().text(), server, "the session lives");
        let bridge = session.state().unwrap().bridge.unwrap().pid;
        assert!(peak_mib(bridge) < 160, "the bridge grew to {} MiB", peak_mib(bridge));
        other.noticed_nothing();
    });
}

#[test]
fn a_line_of_100_mb_that_is_no_message() {
    let home = Home::new();
    let session = home.session("@s");
    let script =
        format!("head -c 100000000 /dev/zero | tr '\\0' x; echo; exec {}", session.server(&[]).join(" "));
    home.run(["connect", "@s", "--json", "--", "sh", "-c", &script]).ok();
    works(&session);
    let bridge = session.state().unwrap().bridge.unwrap().pid;
    assert!(peak_mib(bridge) < 160, "the bridge grew to {} MiB", peak_mib(bridge));
}

/// The most memory that a process had.
fn peak_mib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

#[test]
fn stdout_is_closed_and_the_process_stays() {
    in_both_eras(|era| {
        let home = Home::new();
        let other = Bystander::of(&home);
        let entry = json!({"stopGraceSecs": 1});
        let flags = ["--era", era, "--close-stdout-and-stay", "--ignore-eof"];
        let session = home.connect_entry("@s", &[], entry, &flags);
        let run = session.call("tag", &["tag=a"]);
        let document = failure(&run, 2, "server-lost", &["ended during the request", "next call"]);
        assert_eq!(document["ran"], "unknown");
        assert_eq!(session.executions("a"), 1, "it is not run again");
        other.noticed_nothing();
    });
}

#[test]
fn stderr_is_flooded() {
    let home = Home::new();
    let session = home.connect("@s", &[], &["--stderr-flood", "20000000"]);
    works(&session);
    let directory = home.files().session(&drowse_runtime::home::SessionName::new("s").unwrap());
    let logs: u64 = ["log", "log.1"].map(|log| fs::metadata(directory.join(log)).unwrap().len()).iter().sum();
    assert!(logs < 3 << 20, "the log grew to {logs} bytes");
    let tail = session.run(["logs", "-n", "3"]).ok().json();
    assert!(tail.to_string().contains("flood ends"), "{tail}");
}

#[test]
fn stderr_without_a_newline() {
    let home = Home::new();
    let session = home.session("@s");
    let script =
        format!("head -c 5000000 /dev/zero | tr '\\0' y >&2; exec {}", session.server(&[]).join(" "));
    home.run(["connect", "@s", "--json", "--", "sh", "-c", &script]).ok();
    works(&session);
}

#[test]
fn terminal_escapes_in_what_a_server_says() {
    let home = Home::new();
    let steering = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}";
    // A start that fails shows the last words.
    let script = format!("printf '%s\\n' '{steering}' >&2; exit 3");
    let words = ["connect", "@dead", "--", "sh", "-c", &script];
    let text =
        complaint(&home.run(words), 2, &["ended before it answered", "last words", "\\x1b[2J"]).to_owned();
    assert!(!text.contains('\u{202e}'), "{text}");
    let words = ["connect", "@dead", "--json", "--", "sh", "-c", &script];
    let document = failure(&home.run(words), 2, "start-failed", &[]);
    // Programs get it as it was.
    assert!(document["_drowse"]["stderr"].as_str().unwrap().contains(steering), "{document}");
    is_not_there(&home.session("@dead"));
    // So does an error answer.
    let session = home.connect("@s", &[], &[]);
    complaint(&home.run(["@s", "tools-call", &format!("no{steering}")]), 2, &["Unknown tool: no\\x1b]0;"]);
    // What goes into a pipe passes byte for byte; a terminal is not steered.
    let say = format!("text={steering}");
    assert_eq!(session.call("echo", &[&say]).ok().text(), steering);
    assert_eq!(home.run(["@s", "tools-call", "echo", &say]).ok().out, format!("{steering}\n"));
    let quoted = format!("'{}' @s tools-call echo '{say}'", drowse_tests::harness::drowse().display());
    let mut on_terminal = std::process::Command::new("script");
    on_terminal.args(["-qec", &quoted, "/dev/null"]).current_dir(home.path()).env_clear();
    on_terminal.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home.path());
    on_terminal.env("DROWSE_HOME", home.files().root()).stdin(std::process::Stdio::null());
    match on_terminal.output() {
        Ok(shown) => {
            let shown = String::from_utf8(shown.stdout).unwrap();
            assert!(shown.contains("\\x1b]0;owned\\x07\\x1b[2J\\u{9b}31m\\u{202e}"), "{shown:?}");
            assert!(!shown.contains('\u{1b}') && !shown.contains('\u{9b}'), "{shown:?}");
        }
        Err(error) => eprintln!("skipped: a terminal, as there is no `script`: {error}"),
    }
}
