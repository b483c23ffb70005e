//! Commands that start nothing: sessions as records, their list, their names and their logs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::home::Home;

fn sessions(home: &Home) -> Vec<Value> {
    let run = home.run("--json");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let mut document: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(document["profiles"], json!([]));
    match document["sessions"].take() {
        Value::Array(sessions) => sessions,
        other => panic!("{other}"),
    }
}

fn names(home: &Home) -> Vec<String> {
    sessions(home).iter().map(|session| session["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn no_sessions() {
    let home = Home::new();
    let run = home.run("");
    assert_eq!((run.code, run.out.as_str()), (0, ""));
    assert!(run.err.contains("no sessions") && run.err.contains("↳ drowse connect"), "{}", run.err);
    assert!(names(&home).is_empty());
    assert!(!home.path().join("home").exists(), "looking must not create anything");
}

#[test]
fn a_lazy_connect_registers_and_the_list_shows_it() {
    let home = Home::new();
    let run = home.run("connect @x --lazy --idle-timeout 10m --timeout 90 --json -- cat -u");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let connected: Value = serde_json::from_str(&run.out).unwrap();
    let entry = &connected.as_array().unwrap()[0];
    assert_eq!(
        (&entry["name"], &entry["status"], &entry["target"], &entry["idleTimeoutSecs"]),
        (&json!("@x"), &json!("dormant"), &json!("cat -u"), &json!(600))
    );
    assert_eq!(
        (&entry["_drowse"]["outcome"], &entry["_drowse"]["timeoutMs"]),
        (&json!("registered"), &json!(90000))
    );
    let listed = &sessions(&home)[0];
    assert_eq!(listed["name"], "@x");
    assert!(listed.get("pid").is_none());
    let run = home.run("");
    assert!(run.out.starts_with("○ @x  dormant"), "{}", run.out);
    assert!(run.out.contains("\n  ↳ starts on first use, e.g. drowse @x tools-list\n"), "{}", run.out);
}

#[test]
fn an_explicit_0_is_kept_as_0_and_settings_stay() {
    let home = Home::new();
    assert_eq!(home.run("connect @x --lazy --idle-timeout 5 -- cat").code, 0);
    assert_eq!(home.run("connect @x --lazy -- cat").code, 0);
    assert_eq!(sessions(&home)[0]["idleTimeoutSecs"], 5);
    assert_eq!(home.run("connect @x --lazy --idle-timeout 0 -- cat").code, 0);
    assert_eq!(sessions(&home)[0]["idleTimeoutSecs"], 0);
    assert_eq!(home.run("connect @y --lazy -- cat").code, 0);
    assert!(sessions(&home)[1].get("idleTimeoutSecs").is_none());
}

#[test]
fn derived_names_count_up_only_for_another_target() {
    let home = Home::new();
    for (line, expected) in [
        ("connect --lazy -- cat", &["@cat"][..]),
        ("connect --lazy -- cat -u", &["@cat", "@cat-2"]),
        ("connect --lazy -- cat -A", &["@cat", "@cat-2", "@cat-3"]),
        ("connect --lazy -- cat -u", &["@cat", "@cat-2", "@cat-3"]),
        ("connect --lazy -- cat", &["@cat", "@cat-2", "@cat-3"]),
    ] {
        let run = home.run(line);
        assert_eq!(run.code, 0, "{line}: {}", run.err);
        assert_eq!(names(&home), expected, "{line}");
    }
    fs::write(
        home.path().join("mcp.json"),
        r#"{"mcpServers":{"cat":{"command":"cat"},"two words":{"command":"cat","idleTimeoutSecs":7}}}"#,
    )
    .unwrap();
    assert_eq!(home.run("connect mcp.json:cat --lazy").code, 0);
    assert_eq!(home.run_words(&["connect", "mcp.json:two words", "--lazy"]).code, 0);
    assert_eq!(home.run_words(&["connect", "./mcp.json:two words", "--lazy"]).code, 0);
    assert_eq!(names(&home), ["@cat", "@cat-2", "@cat-3", "@cat-4", "@two-words"]);
    let entry = sessions(&home).pop().unwrap();
    assert_eq!(entry["idleTimeoutSecs"], 7);
    assert!(entry["target"].as_str().unwrap().ends_with("/mcp.json:two words"), "{entry}");
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let home = Home::new();
    assert_eq!(home.run("connect @x --lazy -- cat").code, 0);
    let run = home.run("connect @x --lazy --json -- tac");
    assert_eq!((run.code, &run.failure()["kind"]), (1, &json!("name-taken")));
    assert_eq!(sessions(&home)[0]["target"], "cat");
}

#[test]
fn configuration_faults_are_usage_errors() {
    let home = Home::new();
    fs::write(home.path().join("bad.json"), "{").unwrap();
    fs::write(
        home.path().join("mcp.json"),
        r#"{"mcpServers":{"files":{"command":"cat"},"web":{"url":"ws://x"},
        "two":{"url":"https://x","command":"cat"}}}"#,
    )
    .unwrap();
    for (line, says) in [
        ("connect bad.json:x --lazy --json", "not valid JSON"),
        ("connect mcp.json:fils --lazy --json", "files"),
        ("connect mcp.json:web --lazy --json", "not ws://"),
        ("connect mcp.json:two --lazy --json", "both `command` and `url`"),
        ("connect mcp.json:files --lazy --insecure --json", "--insecure is for servers behind a URL"),
        ("connect @x --lazy --env DROWSE_TEST_UNSET --json -- cat", "DROWSE_TEST_UNSET"),
    ] {
        let run = home.run(line);
        assert_eq!(run.code, 1, "{line}");
        let failure = run.failure();
        assert!(failure["error"].as_str().unwrap().contains(says), "{line}: {failure}");
    }
    assert!(names(&home).is_empty(), "a connect that fails leaves no session");
}

#[test]
fn an_unknown_session_is_named_with_the_closest_one() {
    let home = Home::new();
    assert_eq!(home.run("connect @files --lazy -- cat").code, 0);
    for line in ["@fils ping", "@fils", "@fils tools-call echo", "@fils logs", "close @fils", "@fils restart"]
    {
        let run = home.run(&format!("{line} --json"));
        assert_eq!(run.code, 1, "{line}");
        let failure = run.failure();
        assert_eq!((&failure["kind"], &failure["ran"]), (&json!("no-session"), &json!("no")), "{line}");
        assert!(failure["error"].as_str().unwrap().contains("@files"), "{line}: {failure}");
    }
}

#[test]
fn close_and_clean() {
    let home = Home::new();
    for name in ["@a", "@b", "@c"] {
        assert_eq!(home.run(&format!("connect {name} --lazy -- cat")).code, 0);
    }
    let run = home.run("close @a --json");
    assert_eq!((run.code, run.out.as_str()), (0, "{\"name\":\"@a\",\"closed\":true}\n"));
    assert_eq!(home.run("clean --json").out, "{\"removed\":[],\"failed\":[]}\n");
    assert_eq!(names(&home), ["@b", "@c"], "clean never takes a sleeping session");
    assert_eq!(home.run("clean all").out, "@b removed\n@c removed\n");
    assert!(names(&home).is_empty());
}

#[test]
fn logs_are_shown_from_their_end() {
    let home = Home::new();
    assert_eq!(home.run("connect @x --lazy -- cat").code, 0);
    let log = home.path().join("home/sessions/x/log");
    fs::write(&log, "one\ntwo\nthree \u{1b}[31m\n").unwrap();
    assert_eq!(home.run("@x logs -n 2").out, "two\nthree \u{1b}[31m\n", "a pipe gets the bytes");
    assert_eq!(home.run("logs @x").out.lines().count(), 3);
    assert_eq!(home.run("logs @x -n 0").out.lines().count(), 3);
    let run = home.run("logs @x -n 2 --json");
    assert_eq!(serde_json::from_str::<Value>(&run.out).unwrap(), json!(["two", "three \u{1b}[31m"]));
}

#[test]
fn followed_logs_end_with_the_session() {
    let home = Home::new();
    assert_eq!(home.run("connect @x --lazy -- cat").code, 0);
    let log = home.path().join("home/sessions/x/log");
    fs::write(&log, "one\n").unwrap();
    let mut child = home
        .command(&["@x", "logs", "--follow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = channel();
    thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let next = || match lines.recv_timeout(Duration::from_secs(20)) {
        Ok(line) => line,
        Err(RecvTimeoutError::Disconnected) => "the end".to_owned(),
        Err(RecvTimeoutError::Timeout) => "silence".to_owned(),
    };
    let mut seen = vec![next()];
    fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(b"two\n").unwrap();
    seen.push(next());
    assert_eq!(home.run("close @x").code, 0);
    seen.push(next());
    if seen != ["one", "two", "the end"] {
        child.kill().unwrap();
        panic!("{seen:?}");
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_damaged_record_is_shown_and_hides_no_other() {
    let home = Home::new();
    for name in ["@a", "@b"] {
        assert_eq!(home.run(&format!("connect {name} --lazy -- cat")).code, 0);
    }
    fs::write(home.path().join("home/sessions/a/session.json"), "{\"schema\":1,").unwrap();
    let listed = sessions(&home);
    assert_eq!((&listed[0]["target"], &listed[1]["target"]), (&Value::Null, &json!("cat")));
    assert!(listed[0]["_drowse"]["error"].as_str().unwrap().contains("damaged"));
    let run = home.run("");
    assert_eq!(run.code, 0);
    assert!(run.out.contains("damaged") && run.out.contains("↳ drowse close @a\n"), "{}", run.out);
    assert_eq!(home.run("close @a").code, 0);
    assert_eq!(names(&home), ["@b"]);
}
