//! Whole lives of sessions with real bridges and real servers.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::home::{Home, Run};

const DROWSE: &str = env!("CARGO_BIN_EXE_drowse");

fn document(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {}", run.out))
}

pub(crate) fn signal(child: &std::process::Child, signal: &str) {
    let kill = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

/// Whether a process runs: zombies count as gone.
fn runs(pid: u64) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Processes whose environment names this home: bridges carry no such thing, servers and commands do.
pub(crate) fn left_behind(home: &Path) -> Vec<String> {
    let needle = home.as_os_str().as_encoded_bytes();
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries
        .filter_map(|entry| {
            let path = entry.path();
            let holds = |file| {
                fs::read(path.join(file))
                    .is_ok_and(|text| text.windows(needle.len()).any(|part| part == needle))
            };
            let cwd = fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(home));
            (holds("environ") || holds("cmdline") || cwd).then(|| path.display().to_string())
        })
        .collect()
}

#[test]
fn connect_use_and_close() {
    let home = Home::new();
    let connected =
        document(&home.run(&format!("connect @d --idle-timeout 600 --json -- {DROWSE} demo-server")));
    let entry = &connected[0];
    assert_eq!(
        (&entry["name"], &entry["status"], &entry["idleTimeoutSecs"], &entry["_drowse"]["outcome"]),
        (&json!("@d"), &json!("live"), &json!(600), &json!("created"))
    );
    assert!(entry["_drowse"]["handshake"]["capabilities"].is_object(), "{entry}");
    let (bridge, server) = (entry["pid"].as_u64().unwrap(), entry["_drowse"]["serverPid"].as_u64().unwrap());
    assert!(runs(bridge) && runs(server) && bridge != server);

    let whoami = document(&home.run("@d tools-call whoami --json"));
    assert_eq!(whoami["structuredContent"]["pid"], server);
    assert_eq!(home.run("@d tools-call echo text:=123").out, "123\n", "the schema says it is a string");
    assert_eq!(home.run("@d tools-call add a:=2 b:=40").out, "{\"sum\":42}\n");
    let unfit = home.run("@d tools-call add a:=2 --json");
    assert_eq!((unfit.code, &unfit.failure()["kind"]), (1, &json!("invalid-arguments")));
    let bad = home.run("@d tools-call add a:=2 --no-check --json");
    assert_eq!((bad.code, bad.err.as_str()), (2, ""), "an isError result");
    assert_eq!(document(&home.run("@d ping --json"))["success"], true);
    assert!(document(&home.run("@d tools-list --json")).as_array().unwrap().len() >= 4);
    assert!(home.run("").out.starts_with("● @d  live"));

    let again = document(&home.run(&format!("connect @d --json -- {DROWSE} demo-server")));
    assert_eq!(again[0]["_drowse"]["outcome"], "already-awake");
    assert_eq!(again[0]["idleTimeoutSecs"], 600);

    let restarted = document(&home.run("restart @d --json"));
    assert_eq!(restarted["_drowse"]["outcome"], "restarted");
    assert!(!runs(server), "the old server is gone when restart returns");
    let server = restarted["_drowse"]["serverPid"].as_u64().unwrap();
    assert_eq!(home.run("@d close").code, 0);
    assert!(!runs(server), "the server is gone when close returns");
    assert_eq!(home.run("").out, "");
}

#[test]
fn a_server_that_cannot_start_is_a_failure_with_its_last_words() {
    let home = Home::new();
    for (words, kind) in [
        // It lingers, so that its words are read before its end is noticed, however busy the machine is.
        (&["sh", "-c", "echo out of cheese >&2; sleep 0.5; exit 3"][..], "start-failed"),
        (&["/no/such/program"], "start-failed"),
    ] {
        let run = home.run_words(&[&["connect", "@x", "--json", "--"], words].concat());
        assert_eq!(run.code, 2, "{}", run.err);
        let failure = run.failure();
        assert_eq!((&failure["kind"], &failure["ran"]), (&json!(kind), &json!("no")), "{failure}");
        if words[0] == "sh" {
            assert!(failure["_drowse"]["stderr"].as_str().unwrap().contains("out of cheese"), "{failure}");
            let run = home.run_words(&[&["connect", "@x", "--"], words].concat());
            assert!(run.err.contains("out of cheese"), "{}", run.err);
        }
    }
    assert_eq!(document(&home.run("--json"))["sessions"], json!([]));
}

#[test]
fn the_demo_shows_a_life_and_leaves_nothing() {
    let home = Home::new();
    let json = Run::of(home.command(&["demo", "--json"]).env("TMPDIR", home.path()).output().unwrap());
    assert_eq!(json.err, "");
    let report = document(&json);
    let (first, second) = (report["firstPid"].as_u64().unwrap(), report["secondPid"].as_u64().unwrap());
    assert!(first != second && !runs(first) && !runs(second), "{report}");
    assert!(report["asleepAfterMs"].as_f64().unwrap() >= 2000.0, "{report}");
    for step in ["connectMs", "toolsListMs", "toolsCallMs", "wakeMs"] {
        assert!(report[step].as_f64().is_some_and(|millis| millis > 0.0), "{step}: {report}");
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    let text = Run::of(home.command(&["demo"]).env("TMPDIR", home.path()).output().unwrap());
    assert_eq!((text.code, text.err.as_str()), (0, ""));
    for part in
        ["$ drowse connect @demo --idle-timeout 2", "42", "asleep", "good morning", "Nothing of it is left"]
    {
        assert!(text.out.contains(part), "{part}: {}", text.out);
    }
}

#[test]
fn an_interrupted_demo_cleans_up() {
    for (name, wait_for) in [("INT", "falls asleep"), ("TERM", "Use it"), ("HUP", "Connect")] {
        let home = Home::new();
        let mut child = home
            .command(&["demo"])
            .env("TMPDIR", home.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains(wait_for) {
            line.clear();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "{name}");
        }
        signal(&child, name);
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        let run = Run::of(child.wait_with_output().unwrap());
        assert_eq!(run.code, 130, "{name}: {rest}{}", run.err);
        assert!(run.err.contains("interrupted"), "{name}: {}", run.err);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "{name}");
        assert_eq!(left_behind(home.path()), [""; 0], "{name}");
    }
}

#[test]
fn a_demo_that_nobody_reads_still_tells_the_truth() {
    let home = Home::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let start = Instant::now();
    let run = Run::of(
        home.command(&["demo"])
            .env("TMPDIR", home.path())
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap(),
    );
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert!(start.elapsed() >= Duration::from_secs(2), "it went the whole way");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn an_interrupted_first_connect_leaves_no_session_and_no_process() {
    for round in 0..8 {
        let home = Home::new();
        let record = home.path().join("home/sessions/x/session.json");
        let child = home
            .command(&["connect", "@x", "--json", "--", DROWSE, "demo-server"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The moment at which a bridge is about to be started, and has no lock yet by which it could be found.
        let limit = Instant::now() + Duration::from_secs(20);
        while !record.exists() {
            assert!(Instant::now() < limit, "round {round}: the session was never written");
            std::thread::yield_now();
        }
        signal(&child, "INT");
        let run = Run::of(child.wait_with_output().unwrap());
        if run.code == 0 {
            // Connected before the signal came.
            continue;
        }
        assert_eq!((run.code, &run.failure()["kind"]), (130, &json!("interrupted")), "round {round}");
        assert_eq!(left_behind(home.path()), [""; 0], "round {round}");
        assert!(!record.exists(), "round {round}");
    }
}
