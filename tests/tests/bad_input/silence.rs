//! Servers that say nothing, or nothing that makes sense, and those that end instead of answering.

use std::time::Duration;

use drowse_tests::harness::{ERAS, Home, Run, Session, at_once, in_both_eras};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::bystander::{Bystander, complaint, failure, is_not_there};

/// Far more than the second that these servers are given, and far less than the default of a minute.
const SOON: Duration = Duration::from_secs(25);

/// Connects to an arbitrary command that has a second to start and one for each step of its end.
fn connect<'h>(home: &'h Home, name: &str, script: &str) -> (Session<'h>, Run) {
    let entry = json!({"mcpServers": {"x": {
        "command": "sh", "args": ["-c", script], "connectTimeoutSecs": 1, "stopGraceSecs": 1,
    }}});
    let file = home.path().join(format!("{}.json", name.trim_start_matches('@')));
    std::fs::write(&file, entry.to_string()).unwrap();
    let run = home.run(["connect", &format!("{}:x", file.display()), name, "--json"]);
    (home.session(name), run)
}

/// Signals a server that its session's record names.
fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

fn timed_out(run: &Run) -> Value {
    let document = failure(run, 3, "timeout", &["handshake within 1 s", "is it an MCP server on stdio?"]);
    assert_eq!(document["ran"], "no");
    assert!(run.took < SOON, "{:?}", run.took);
    document
}

#[test]
fn nothing_that_makes_sense_comes() {
    let home = Home::new();
    let other = Bystander::of(&home);
    let cases = [
        ("prose", "echo hello; echo 'usage: server <port>'; cat >/dev/null"),
        ("flood", "exec yes '{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}'"),
        ("no-newline", "exec cat /dev/zero"),
        ("silence", "exec sleep 600"),
    ];
    at_once(cases.map(|case| (case.0, case)), |(name, script)| {
        let (session, run) = connect(&home, &format!("@{name}"), script);
        timed_out(&run);
        is_not_there(&session);
    });
    // One that repeats what it hears refuses what is asked, as it hears us refuse it.
    let (session, run) = connect(&home, "@echo", "exec cat");
    failure(&run, 2, "start-failed", &["refused the handshake", "is it an MCP server on stdio?"]);
    is_not_there(&session);
    other.noticed_nothing();
}

#[test]
fn nothing_comes_at_all() {
    let home = Home::new();
    let (session, run) = home.try_connect_entry("@s", &[], json!({"connectTimeoutSecs": 1}), &["--silent"]);
    timed_out(&run);
    assert_eq!(session.starts(), 1, "the probe runs on the server itself");
    is_not_there(&session);
    // A session that is there already stays, and says the same.
    let lazy = home.try_connect_entry("@s", &["--lazy"], json!({"connectTimeoutSecs": 1}), &["--silent"]);
    let _ = lazy.1.ok();
    timed_out(&session.run(["ping"]));
    assert!(session.exists());
}

#[test]
fn a_call_is_never_answered() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era]);
        let server = session.state().unwrap().server_pid.unwrap();
        // It reads nothing and says nothing, not even that it makes progress.
        signal(server, Signal::STOP);
        let run = session.call("tag", &["tag=a", "--timeout", "1"]);
        let document = failure(&run, 3, "timeout", &["did not answer within the time-out", "--timeout"]);
        assert_eq!(document["ran"], "unknown");
        assert!(run.took < SOON, "{:?}", run.took);
        signal(server, Signal::CONT);
        session.run(["ping"]).ok();
        assert_eq!((session.executions("a"), session.starts()), (1, 1), "it is not run again");
        // One that will never answer again is ended like any other.
        signal(server, Signal::STOP);
        session.run(["close"]).ok();
    });
}

#[test]
fn it_ends_without_a_word() {
    let home = Home::new();
    let other = Bystander::of(&home);
    let cases = [("zero", "exit 0"), ("one", "exit 1"), ("signal", "kill -9 $$")];
    at_once(cases.map(|case| (case.0, case)), |(name, script)| {
        let (session, run) = connect(&home, &format!("@{name}"), script);
        failure(&run, 2, "start-failed", &["ended before it answered"]);
        is_not_there(&session);
    });
    other.noticed_nothing();
}

#[test]
fn it_crashes_in_the_handshake() {
    at_once(ERAS.map(|era| (era, era)), |era| {
        let home = Home::new();
        let flags =
            ["--era", era, "--crash-in-handshake", "100", "--stderr", "cannot find the flux capacitor"];
        let (session, run) = home.try_connect("@s", &[], &flags);
        let document = failure(&run, 2, "start-failed", &["ended before it answered the handshake"]);
        assert!(document["_drowse"]["stderr"].as_str().unwrap().contains("flux capacitor"), "{document}");
        assert_eq!(document["ran"], "no");
        is_not_there(&session);
        // For people, the last words stand below.
        let server = session.server(&flags);
        let words = ["connect", "@s", "--"].into_iter().chain(server.iter().map(String::as_str));
        complaint(&home.run(words), 2, &["last words", "\n    cannot find the flux capacitor"]);
        // One that recovers is a server like any other.
        let recovered = home.connect("@r", &[], &["--era", era, "--crash-in-handshake", "1"]);
        recovered.call("tag", &["tag=a"]).ok();
    });
}

#[test]
fn it_dies_on_every_request() {
    let home = Home::new();
    let (session, run) = home.try_connect("@s", &[], &["--die-on-probe-always"]);
    failure(&run, 2, "start-failed", &["ended before it answered"]);
    assert_eq!(session.starts(), 2, "once for the probe, once straight into the handshake");
    is_not_there(&session);
}

#[test]
fn it_cannot_be_started() {
    let home = Home::new();
    let other = Bystander::of(&home);
    std::fs::write(home.path().join("text"), "no program").unwrap();
    let script = home.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    for (command, says) in [
        ("no-such-program-anywhere", "not found on the PATH"),
        ("./nowhere", "does not exist: install it"),
        ("./text", "chmod +x"),
        ("./script", "interpreter"),
        ("/", "not a program"),
    ] {
        let run = home.run(["connect", "@s", "--json", "--", command]);
        failure(&run, 2, "start-failed", &["@s cannot be started", says]);
        is_not_there(&home.session("@s"));
    }
    let entry = json!({"cwd": "/no/such/directory"});
    let (session, run) = home.try_connect_entry("@s", &[], entry, &[]);
    failure(&run, 2, "start-failed", &["/no/such/directory", "create it"]);
    is_not_there(&session);
    other.noticed_nothing();
}
