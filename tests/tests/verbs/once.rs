//! Commands with a server of their own: what they print, and that nothing is left of it however they end.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use drowse_tests::harness::{Home, HttpServer, LIMIT, Running, at_once, belonging_to, drowse, in_both_eras};
use rustix::process::Signal;
use serde_json::json;

/// A home with a temporary directory of its own, and the words for a fixture in it.
struct Place {
    home: Home,
    temporary: PathBuf,
}

impl Place {
    fn new() -> Self {
        let home = Home::new();
        let temporary = home.path().join("tmp");
        fs::create_dir(&temporary).unwrap();
        Self { home, temporary }
    }

    fn server(&self, flags: &[&str]) -> Vec<String> {
        self.home.session("@x").server(flags)
    }

    /// A command line, its server given in one word.
    fn command(&self, words: &[&str], flags: &[&str]) -> Command {
        let mut command = self.home.command(words);
        command.arg("--server").arg(self.server(flags).join(" ")).env("TMPDIR", &self.temporary);
        command
    }

    /// That there is no trace: no file, no process, and not even a home.
    #[track_caller]
    fn is_clean(&self) {
        let files: Vec<_> =
            fs::read_dir(&self.temporary).unwrap().flatten().map(|entry| entry.path()).collect();
        assert_eq!(files, [] as [PathBuf; 0]);
        assert_eq!(belonging_to(self.home.path()), [] as [u32; 0]);
        assert!(!self.home.files().root().exists());
    }

    /// The same, soon: where the command itself was killed, another process cleans up.
    #[track_caller]
    fn becomes_clean(&self) {
        let deadline = Instant::now() + LIMIT / 2;
        while fs::read_dir(&self.temporary).unwrap().next().is_some()
            || !belonging_to(self.home.path()).is_empty()
        {
            assert!(Instant::now() < deadline, "left: {:?}", belonging_to(self.home.path()));
            thread::sleep(Duration::from_millis(5));
        }
        self.is_clean();
    }
}

#[test]
fn every_operation() {
    in_both_eras(|era| {
        let place = Place::new();
        let run = |words: &[&str]| place.home.finish(place.command(words, &["--era", era])).ok().out;
        assert!(run(&["tools-list"]).starts_with("echo text:=string\n"));
        assert!(run(&["tools-get", "echo"]).contains("text  string, required"));
        assert_eq!(run(&["tools-call", "echo", "text:=1"]), "1\n", "coerced as ever");
        assert!(
            run(&["tools-call", "echo", "--help"])
                .contains("drowse tools-call echo text:=<string> --server '")
        );
        assert!(run(&["resources-list"]).contains("blob://bytes"));
        assert_eq!(run(&["resources-read", "counter://main"]), "0\n");
        assert_eq!(run(&["resources-templates-list"]), "counter://{name}  counters\n");
        assert_eq!(run(&["prompts-get", "hello", "name=you"]), "hello you\n");
        assert_eq!(run(&["complete", "prompt", "hello", "name", "b"]), "bob\n");
        assert!(run(&["ping"]).starts_with("the server answers ("));
        assert!(run(&[]).starts_with("Server: drowse-fixture "), "the info of a bare name");
        assert_eq!(place.home.session("@x").starts(), 11);
        place.is_clean();
    });
}

#[test]
fn every_way_to_name_a_server() {
    let place = Place::new();
    let entry = place.home.write_entry("@x", json!({"env": {"GREETING": "hi"}}), &[]);
    let mut dashes = place.home.command(["tools-call", "env", "name=GREETING", "--env", "GREETING=hi", "--"]);
    dashes.args(place.server(&[])).env("TMPDIR", &place.temporary);
    let mut file = place.home.command(["--server", &entry, "tools-call", "env", "name=GREETING"]);
    file.env("TMPDIR", &place.temporary);
    let mut runtime = place.command(&["tools-call", "env", "name=GREETING", "--env", "GREETING"], &[]);
    runtime.env("GREETING", "hi").env("DROWSE_RUNTIME", place.temporary.join("runtime"));
    for command in [dashes, file, runtime] {
        assert_eq!(place.home.finish(command).ok().out, "hi\n");
    }
    fs::remove_dir(place.temporary.join("runtime")).expect("empty");
    place.is_clean();
    for (words, says) in [
        (&["tools-list", "--server", "no-such-thing"][..], "no file"),
        (&["@s", "tools-list", "--server", "cat x"], "two servers"),
        (&["tools-list", "--env", "A=1"], "--server"),
        (&["tools-list", "--server", "cat 'x"], "quote"),
        (&["tools-list", "--server"], "needs a value"),
        (&["connect", "@s", "--server", "cat x"], "--server"),
        (&["tools-list"], "needs a session"),
    ] {
        let failure = place.home.run(words.iter().copied().chain(["--json"])).fails(1);
        assert!(failure["error"].as_str().unwrap().contains(says), "{words:?}: {failure}");
    }
    let two = place.home.run(["--json", "tools-list", "--server", "cat x", "--", "cat"]).fails(1);
    assert!(two["error"].as_str().unwrap().contains("two servers"), "{two}");
    place.is_clean();
}

#[test]
fn a_server_behind_a_url() {
    in_both_eras(|era| {
        let place = Place::new();
        let server = HttpServer::start(&["--era", era]);
        let url = server.url();
        let words = ["tools-call", "tag", "tag=t", "--server", &url, "-H", "X-Drowse-Test: 1"];
        let mut command = place.home.command(words);
        command.env("TMPDIR", &place.temporary);
        assert_eq!(place.home.finish(command).ok().out, "t\n");
        assert_eq!(server.executions("t"), 1);
        // A session at the server is ended, too.
        assert_eq!(server.requests("DELETE").len(), usize::from(era == "legacy"));
        place.is_clean();
    });
    let home = Home::new();
    for (words, says) in [
        (&["ping", "--server", "ftp://x"][..], "not ftp://"),
        (&["ping", "--server", "cat x", "-H", "A: 1"], "for servers behind a URL"),
        (&["@s", "ping", "--insecure"], "--server"),
    ] {
        let failure = home.run(words.iter().copied().chain(["--json"])).fails(1);
        assert!(failure["error"].as_str().unwrap().contains(says), "{words:?}: {failure}");
    }
}

#[test]
fn sessions_of_the_user_are_not_touched() {
    let place = Place::new();
    let session = place.home.connect("@drowse-fixture", &[], &[]);
    let before = session.state();
    place.home.finish(place.command(&["tools-call", "tag", "tag=once"], &[])).ok();
    assert_eq!((session.state(), session.executions("once")), (before, 0));
    assert_eq!(place.home.list().len(), 1);
}

#[test]
fn failures_leave_nothing() {
    type Case = (&'static str, &'static [&'static str], &'static [&'static str], i32, &'static str);
    let cases: [Case; 6] = [
        ("dies in the handshake", &["tools-list"], &["--die-on-probe-always"], 2, "start-failed"),
        ("no such flag", &["ping"], &["--nonsense"], 2, "start-failed"),
        ("crashes", &["tools-call", "crash"], &[], 2, "server-lost"),
        ("refuses", &["tools-call", "rpc_error"], &[], 2, "server-error"),
        (
            "too late",
            &["tools-call", "slow", "ms:=60000", "quiet:=true", "--timeout", "1"],
            &[],
            3,
            "timeout",
        ),
        (
            "never ends",
            &["tools-call", "rpc_error"],
            &["--ignore-eof", "--ignore-term", "--grandchild-setsid"],
            2,
            "server-error",
        ),
    ];
    at_once(cases.map(|case| (case.0, case)), |(_, words, flags, code, kind)| {
        let place = Place::new();
        let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        let failure = place.home.finish(place.command(&words, flags)).fails(code);
        assert_eq!(failure["kind"], kind, "{failure}");
        place.is_clean();
    });
}

#[test]
fn an_interrupted_one_cancels_and_leaves_nothing() {
    let signals = [("int", Signal::INT), ("term", Signal::TERM), ("hup", Signal::HUP)];
    at_once(signals, |signal| {
        for era in ["legacy", "modern"] {
            let place = Place::new();
            let session = place.home.session("@x");
            let running = Running::start(
                place.command(&["tools-call", "slow", "ms:=60000", "tag=t", "--json"], &["--era", era]),
            );
            session.wait_for_run("t");
            running.signal(signal);
            let failure = running.end().fails(130);
            assert_eq!((&failure["kind"], &failure["ran"]), (&json!("interrupted"), &json!("unknown")));
            place.is_clean();
            assert_eq!(session.executions("t"), 1);
        }
    });
}

#[test]
fn a_start_is_interrupted_at_once() {
    let place = Place::new();
    let running = Running::start(place.command(&["ping", "--json"], &["--start-delay", "60000"]));
    place.home.session("@x").wait_for(|entries| !entries.is_empty());
    running.signal(Signal::INT);
    let run = running.end();
    assert!(run.took < LIMIT / 2, "{:?}", run.took);
    assert_eq!(run.fails(130)["ran"], "no");
    place.is_clean();
}

#[test]
fn one_that_is_killed_leaves_nothing() {
    in_both_eras(|era| {
        let place = Place::new();
        let running =
            Running::start(place.command(&["tools-call", "slow", "ms:=60000", "tag=t"], &["--era", era]));
        place.home.session("@x").wait_for_run("t");
        running.signal(Signal::KILL);
        assert_eq!(running.end().code, -1);
        place.becomes_clean();
    });
    // While the server is being started.
    let place = Place::new();
    let running = Running::start(place.command(&["ping"], &["--start-delay", "60000"]));
    place.home.session("@x").wait_for(|entries| !entries.is_empty());
    running.signal(Signal::KILL);
    assert_eq!(running.end().code, -1);
    place.becomes_clean();
}

#[test]
fn the_guard_removes_nothing_that_is_not_its_own() {
    let home = Home::new();
    let precious = home.path().join("precious");
    fs::create_dir(&precious).unwrap();
    // Standard input ends at once, as if whoever started it had been killed.
    assert_eq!(home.run(["once-guard".as_ref(), precious.as_os_str()]).code, 0);
    assert_eq!(home.run(["once-guard"]).code, 1);
    assert!(precious.exists() && drowse().exists());
}

#[test]
fn many_at_once() {
    let place = Place::new();
    let running: Vec<Running> = (0..4)
        .map(|n| Running::start(place.command(&["tools-call", "echo", &format!("text={n}")], &[])))
        .collect();
    for (n, running) in running.into_iter().enumerate() {
        assert_eq!(running.end().ok().out, format!("{n}\n"));
    }
    place.is_clean();
}
