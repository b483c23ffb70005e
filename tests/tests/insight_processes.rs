//! `ps`, `top` and `doctor`, with real processes: what they see, what they end, what they leave alone.

#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use drowse_runtime::home::SessionName;
use drowse_runtime::process::ProcessIdentity;
use drowse_runtime::record::State;
use drowse_tests::harness::{Home, LIMIT, Run, Session, Terminal, fixture, wait_until_gone};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A server with a process of its own that ignores TERM, has a session of its own, and has a child.
const STUBBORN: &str =
    r#"setsid sh -c 'trap "" TERM; while :; do sleep 600; done' </dev/null >/dev/null 2>&1 & exec "$@""#;

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, signal).expect("it can be signalled");
}

fn bridge(session: &Session<'_>) -> ProcessIdentity {
    session.state().and_then(|state| state.bridge).expect("a bridge")
}

/// The processes of `ps --json`, of one session.
fn processes(home: &Home, name: &str) -> Vec<Value> {
    let document = home.run(["ps", "--json"]).ok().json();
    let all = document["processes"].as_array().expect("a list").clone();
    all.into_iter().filter(|process| process["session"] == name).collect()
}

fn roles(processes: &[Value]) -> Vec<&str> {
    processes.iter().map(|process| process["role"].as_str().expect("a role")).collect()
}

fn pids(processes: &[Value]) -> Vec<u32> {
    processes.iter().filter_map(|process| process["pid"].as_u64()?.try_into().ok()).collect()
}

/// Waits until `ps` shows what is wanted of a session.
#[track_caller]
fn wait_for(home: &Home, name: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let until = std::time::Instant::now() + LIMIT;
    loop {
        let processes = processes(home, name);
        if wanted(&processes) {
            return processes;
        }
        assert!(std::time::Instant::now() < until, "{name}: {processes:#?}");
    }
}

/// The findings of `doctor --json` that are not `ok`: check, session, verdict, what.
fn findings(run: &Run) -> Vec<(String, String, String, String)> {
    let document = run.json();
    let word = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let all = document["findings"].as_array().expect("findings").clone();
    all.iter()
        .filter(|finding| finding["verdict"] != "ok")
        .map(|it| (word(it, "check"), word(it, "session"), word(it, "verdict"), word(it, "what")))
        .collect()
}

/// The one finding of this check about this session.
#[track_caller]
fn finding<'f>(
    findings: &'f [(String, String, String, String)],
    check: &str,
    session: &str,
) -> (&'f str, &'f str) {
    let found: Vec<_> = findings.iter().filter(|it| it.0 == check && it.1 == session).collect();
    let [(_, _, verdict, what)] = found[..] else { panic!("{check} {session}: {findings:#?}") };
    (verdict, what)
}

/// A process that is nobody's but the test's, and is to be there at the end.
struct Bystander(Child);

impl Bystander {
    fn start(environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(fixture());
        command.args(["--role", "sleeper"]).env_clear().envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("a process"))
    }

    #[track_caller]
    fn lives(&mut self) {
        assert!(self.0.try_wait().expect("a child").is_none(), "a bystander was ended");
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_a_killed_bridge_leaves_is_shown_and_exactly_that_is_ended() {
    let home = Home::new();
    let other = home.connect("@other", &[], &["--grandchild-setsid"]);
    let before = pids(&processes(&home, "@other"));
    let plain = home.connect("@plain", &[], &["--ignore-eof", "--ignore-term", "--grandchild-setsid"]);
    let stubborn = home.session("@stubborn");
    let mut words: Vec<String> =
        ["connect", "@stubborn", "--", "sh", "-c", STUBBORN, "sh"].map(Into::into).into();
    words.extend(stubborn.server(&[]));
    home.run(words).ok();

    let seen = wait_for(&home, "@plain", |seen| seen.len() == 3);
    assert_eq!(roles(&seen), ["bridge", "server", "child"]);
    assert_eq!(seen[0]["pid"], bridge(&plain).pid);
    assert!(seen.iter().all(|it| it["memory"]["bytes"].as_u64().is_some_and(|bytes| bytes > 0)), "{seen:#?}");
    assert!(seen.iter().all(|it| it["since"].as_u64().is_some_and(|at| at > 1_700_000_000_000)));
    assert!(
        seen[2]["command"].as_array().is_some_and(|words| words.contains(&json!("sleeper"))),
        "{seen:#?}"
    );

    // The same program, once with nothing of drowse about it, once of another home.
    let mut bystanders = [
        Bystander::start(&[]),
        Bystander::start(&[("DROWSE_GENERATION", "0123"), ("DROWSE_SESSION", "/elsewhere/sessions/plain")]),
    ];
    plain.kill_bridge();
    stubborn.kill_bridge();
    let left = wait_for(&home, "@plain", |seen| roles(seen) == ["orphan"]);
    let stubborn_left = wait_for(&home, "@stubborn", |seen| roles(seen) == ["orphan", "orphan"]);
    assert_eq!(
        (&left[0]["why"], &left[0]["next"]),
        (&json!("its bridge has ended"), &json!("drowse doctor"))
    );
    let text = home.run(["ps"]).ok().out;
    assert!(text.contains("left over of @plain") && text.contains("↳ drowse doctor"), "{text}");

    let dry = home.run(["doctor", "--dry-run", "--json"]).exits(2);
    for (name, left) in [("@plain", &left), ("@stubborn", &stubborn_left)] {
        let found = findings(&dry);
        let (verdict, what) = finding(&found, "orphans", name);
        assert_eq!(verdict, "would-fix");
        assert!(pids(left).iter().all(|pid| what.contains(&format!("{pid} ("))), "{what}");
    }
    assert_eq!(pids(&processes(&home, "@plain")), pids(&left), "a dry run ended something");

    let mended = home.run(["doctor", "--json"]).ok();
    for (name, left) in [("@plain", &left), ("@stubborn", &stubborn_left)] {
        let found = findings(&mended);
        let (verdict, what) = finding(&found, "orphans", name);
        assert_eq!(verdict, "fixed");
        assert!(pids(left).iter().all(|pid| what.contains(&format!("{pid} ("))), "{what}");
        assert_eq!(processes(&home, name), [] as [Value; 0]);
        assert!(pids(left).iter().all(|pid| ProcessIdentity::of(*pid).is_err()), "{left:#?}");
    }
    bystanders.iter_mut().for_each(Bystander::lives);
    assert_eq!(pids(&processes(&home, "@other")), before);
    assert_eq!(findings(&home.run(["doctor", "--json"]).ok()), []);
    assert_eq!((other.starts(), plain.starts()), (1, 1), "something was started");
    plain.call("pid", &[]).ok();
}

#[test]
fn what_is_left_of_sessions_that_are_gone() {
    let home = Home::new();
    let dead = home.connect("@dead", &[], &["--grandchild-setsid"]);
    let alive = home.connect("@alive", &[], &["--grandchild-setsid"]);
    dead.kill_bridge();
    wait_for(&home, "@dead", |seen| roles(seen) == ["orphan"]);
    for session in ["dead", "alive"] {
        fs::remove_dir_all(home.files().session(&SessionName::new(session).unwrap())).unwrap();
    }
    let left = processes(&home, "@dead");
    assert_eq!(left[0]["why"], "its session does not exist any more");
    assert_eq!(roles(&processes(&home, "@alive"))[..2], ["bridge", "child"]);
    assert_eq!(processes(&home, "@alive").len(), 3);
    assert_eq!(home.run(["ps", "@dead", "--json"]).ok().json()["processes"].as_array().unwrap().len(), 1);
    let found = findings(&home.run(["doctor", "--json"]).ok());
    assert_eq!(finding(&found, "orphans", "@dead").0, "fixed");
    assert_eq!(finding(&found, "bridges", "@alive").0, "fixed");
    assert_eq!(home.run(["ps", "--json"]).ok().json(), json!({"processes": []}));
    assert_eq!(home.run(["ps", "@never", "--json"]).fails(1)["kind"], "no-session");
    drop(alive);
}

fn file(home: &Home, session: &str, name: &str) -> PathBuf {
    home.files().session(&SessionName::new(session).unwrap()).join(name)
}

#[test]
fn damaged_records_are_set_aside_and_others_are_unharmed() {
    let home = Home::new();
    let live = home.connect("@live", &[], &[]);
    let server = live.call("pid", &[]).ok().text();
    let idle = home.connect("@idle", &["--idle-timeout", "1"], &[]);
    let crashed = home.connect("@crashed", &[], &[]);
    let state = home.connect("@state", &[], &["--grandchild-setsid"]);
    let record = home.connect("@record", &["--idle-timeout", "1"], &[]);
    let empty = home.connect("@empty", &["--idle-timeout", "1"], &[]);
    home.run(["connect", "@dormant", "--lazy", "--", "cat"]).ok();
    for session in [&idle, &record, &empty] {
        session.wait_until_asleep();
    }
    let asleep = fs::read(file(&home, "idle", "state.json")).unwrap();
    crashed.kill_bridge();
    // With its record goes the mark of what it left.
    state.kill_bridge();
    wait_for(&home, "@state", |seen| roles(seen) == ["orphan"]);

    fs::write(file(&home, "state", "state.json"), r#"{"schema":1,"generation":7,"mark"#).unwrap();
    fs::write(file(&home, "state", "snapshot.json"), "{\"schema\":1,").unwrap();
    fs::write(file(&home, "record", "session.json"), "").unwrap();
    fs::write(file(&home, "empty", "state.json"), "").unwrap();
    fs::write(file(&home, "empty", ".new-abc"), "half").unwrap();
    fs::write(file(&home, "live", ".new-abc"), "half").unwrap();
    fs::set_permissions(file(&home, "empty", "credentials.json"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(file(&home, "live", "state.json"), "not a record").unwrap();
    fs::DirBuilder::new().mode(0o700).create(home.files().sessions().join("nothing")).unwrap();

    let tree = || {
        let mut files: Vec<(PathBuf, u64, i64)> = Vec::new();
        let mut directories = vec![home.files().root().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap().flatten() {
                let meta = entry.metadata().unwrap();
                files.push((entry.path(), meta.ino(), meta.mtime_nsec()));
                directories.extend(meta.is_dir().then(|| entry.path()));
            }
        }
        files.sort();
        files
    };
    let before = tree();
    let dry = findings(&home.run(["doctor", "--dry-run", "--json"]).exits(2));
    assert_eq!(finding(&dry, "orphans", "@state").0, "would-fix");
    assert_eq!(finding(&dry, "records", "@nothing").0, "would-fix");
    assert_eq!(tree(), before, "a dry run changed something");

    let found = findings(&home.run(["doctor", "--json"]).exits(2));
    assert_eq!(finding(&found, "orphans", "@state").0, "fixed");
    let of_state: Vec<_> = found.iter().filter(|it| it.0 == "records" && it.1 == "@state").collect();
    assert!(of_state.len() == 2 && of_state.iter().all(|it| it.2 == "fixed"), "{of_state:#?}");
    let (verdict, what) = finding(&found, "records", "@record");
    assert!(verdict == "needs-you" && what.contains("session.json.damaged-1"), "{what}");
    let (verdict, what) = finding(&found, "records", "@live");
    assert!(verdict == "needs-you" && what.contains("left alone while its server runs"), "{what}");
    assert_eq!(
        finding(&found, "records", "@nothing"),
        ("fixed", "there is a directory, but no session in it: removed")
    );
    assert_eq!(found.iter().filter(|it| it.1 == "@empty" && it.2 == "fixed").count(), 3, "{found:#?}");

    // What was wrong is kept, and what was not is as it was.
    for (session, name) in [("state", "state.json"), ("state", "snapshot.json"), ("record", "session.json")] {
        assert!(file(&home, session, &format!("{name}.damaged-1")).exists(), "{session} {name}");
    }
    let rebuilt = state.state().unwrap();
    assert_eq!((rebuilt.state, rebuilt.generation, rebuilt.ended), (State::Idle, 7, true));
    assert!(!file(&home, "empty", ".new-abc").exists() && file(&home, "live", ".new-abc").exists());
    assert_eq!(fs::read(file(&home, "live", "state.json")).unwrap(), b"not a record");
    assert_eq!(fs::metadata(file(&home, "empty", "credentials.json")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read(file(&home, "idle", "state.json")).unwrap(), asleep);
    assert_eq!(live.call("pid", &[]).ok().text(), server);
    assert_eq!((live.starts(), idle.starts(), state.starts()), (1, 1, 1), "something was started");

    // A second look finds what is left to the user, and no more; and he can do it.
    let again = findings(&home.run(["doctor", "--json"]).exits(2));
    assert_eq!(again.iter().map(|it| it.1.as_str()).collect::<Vec<_>>(), ["@live", "@record"], "{again:#?}");
    live.run(["restart"]).ok();
    let cleaned = home.run(["clean", "--json"]).ok().json();
    assert_eq!(cleaned, json!({"removed": ["@crashed", "@record"], "failed": []}));
    assert_eq!(findings(&home.run(["doctor", "--json"]).ok()), []);
    for session in [&idle, &state, &empty, &live] {
        session.call("pid", &[]).ok();
    }
    assert_eq!(state.state().unwrap().generation, 8);
}

#[test]
fn a_stopped_bridge_is_shown_in_time_and_is_left_to_the_user() {
    let home = Home::new();
    let stopped = home.connect("@stopped", &[], &[]);
    let other = home.connect("@other", &[], &[]);
    let bridge = bridge(&stopped);
    signal(bridge.pid, Signal::STOP);
    let run = home.run(["top", "--json"]).ok();
    // It waits for a second; the rest is what a busy machine needs.
    assert!(run.took < Duration::from_secs(20), "{:?}", run.took);
    let document = run.json();
    let answers = |name: &str| {
        let sessions = document["sessions"].as_array().unwrap();
        sessions.iter().find(|it| it["name"] == name).unwrap()["answers"].clone()
    };
    assert_eq!((answers("@stopped"), answers("@other")), (json!(false), json!(true)));
    assert_eq!(document["totals"]["notAnswering"], 1);
    assert!(home.run(["top", "--once"]).ok().out.contains("! not answering"));
    assert_eq!(processes(&home, "@stopped")[0]["state"], "stopped");
    let found = findings(&home.run(["doctor", "--json"]).exits(2));
    let (verdict, what) = finding(&found, "bridges", "@stopped");
    assert!(verdict == "needs-you" && what.contains("kill -CONT"), "{what}");
    assert!(bridge.is_alive(), "it was ended");
    signal(bridge.pid, Signal::CONT);
    stopped.call("pid", &[]).ok();
    assert_eq!((stopped.starts(), other.starts()), (1, 1));
    assert_eq!(findings(&home.run(["doctor", "--json"]).ok()), []);
}

#[test]
fn one_table_of_all_sessions() {
    let home = Home::new();
    let live = home.connect("@live", &["--idle-timeout", "300"], &["--era", "modern", "--grandchild-setsid"]);
    let always = home.connect("@always", &[], &["--era", "legacy"]);
    home.run(["connect", "@dormant", "--lazy", "--", "cat"]).ok();
    let busy = always.start_call("slow", &["ms:=60000", "tag=t"]);
    always.wait_for_run("t");
    let document = home.run(["top", "--once", "--json"]).ok().json();
    let sessions = document["sessions"].as_array().unwrap();
    let names: Vec<_> = sessions.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["@always", "@dormant", "@live"]);
    let [always_row, dormant, live_row] = &sessions[..] else { unreachable!() };
    assert_eq!((&always_row["era"], &always_row["inFlight"]), (&json!("legacy"), &json!(1)));
    assert_eq!((&dormant["status"], &dormant["era"]), (&json!("dormant"), &Value::Null));
    assert!(dormant["since"].is_u64() && dormant.get("inFlight").is_none(), "{dormant}");
    assert_eq!((&live_row["era"], &live_row["status"]), (&json!("modern"), &json!("live")));
    let left = live_row["idleInMs"].as_u64().unwrap();
    assert!((200_000..=300_000).contains(&left), "{left}");
    assert_eq!(live_row["processes"], 3);
    for memory in ["bridgeMemory", "serverMemory"] {
        assert!(live_row[memory]["bytes"].as_u64().unwrap() > 0, "{live_row}");
    }
    for key in ["calls", "errors", "wakes", "latency"] {
        assert!(live_row.get(key).is_some(), "{key}: {live_row}");
    }
    let totals = &document["totals"];
    assert_eq!((&totals["sessions"], &totals["awake"], &totals["asleep"]), (&json!(3), &json!(2), &json!(1)));
    let text = home.run(["top"]).ok().out;
    assert!(text.contains("in use") && text.contains("3 sessions: 2 awake, 1 asleep"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    busy.signal(Signal::INT);
    let _ = busy.end();
    // Nobody was used by being looked at.
    assert!(live.deadline().unwrap().0 <= drowse_tests::harness::now_ms() + left);
    assert_eq!(live.starts(), 1);
}

fn top(home: &Home) -> Terminal {
    let mut command = home.command(["top"]);
    command.env("TERM", "xterm");
    let mut terminal = Terminal::start_whole(&command);
    terminal.resize(100, 20);
    terminal
}

#[test]
fn the_live_table_keeps_nothing_awake_and_gives_the_terminal_back() {
    let home = Home::new();
    let session = home.connect("@short", &["--idle-timeout", "2"], &[]);
    let mut terminal = top(&home);
    terminal.sees("\u{1b}[?1049h").sees("@short").sees("live");
    assert!(!terminal.is_as_ever());
    // It falls asleep while it is looked at, each second.
    terminal.sees("idle").sees("1 session: 0 awake, 1 asleep");
    session.wait_until_asleep();
    terminal.types("s").sees("by state").types("jk\u{1b}[B\u{1b}[6~").resize(30, 6).sees("SESSION");
    // And is seen again when it wakes.
    session.call("pid", &[]).ok();
    terminal.sees("1 awake").types("q");
    terminal.sees("\u{1b}[?1049l");
    let restored = |terminal: Terminal, code| {
        let deadline = std::time::Instant::now() + LIMIT;
        while !terminal.is_as_ever() {
            assert!(std::time::Instant::now() < deadline, "the terminal is not as it was");
        }
        let run = terminal.end().exits(code);
        assert!(run.err.contains("\u{1b}[?25h\u{1b}[?1049l"), "{:?}", run.err);
    };
    restored(terminal, 0);
    let mut interrupted = top(&home);
    interrupted.sees("@short").types("\u{3}");
    restored(interrupted, 130);
    let mut terminated = top(&home);
    terminated.sees("@short");
    terminated.signal(Signal::TERM);
    restored(terminated, 130);
    assert_eq!(session.starts(), 2);
}

#[test]
fn what_a_killed_command_with_a_server_of_its_own_leaves() {
    let home = Home::new();
    let temporary = home.path().join("tmp");
    let left = temporary.join("drowse-once-left");
    fs::create_dir_all(&left).unwrap();
    fs::create_dir(temporary.join("drowse-once-young")).unwrap();
    let there = |words: &[&str]| {
        let mut command = home.command(words);
        command.env("TMPDIR", &temporary);
        command
    };
    let server = fixture();
    let words = ["connect", "@once", "--json", "--", server.to_str().unwrap(), "--grandchild-setsid"];
    let mut connect = there(&words);
    connect.env("DROWSE_HOME", left.join("home"));
    home.finish(connect).ok();
    let mut list = there(&["--json"]);
    list.env("DROWSE_HOME", left.join("home"));
    let pid = home.finish(list).ok().json()["sessions"][0]["pid"].as_u64().unwrap();
    let old = Command::new("touch").args(["-d", "2 hours ago"]).arg(&left).status().unwrap();
    assert!(old.success());
    // As long as something of it runs it is left alone.
    assert_eq!(findings(&home.finish(there(&["doctor", "--json"])).ok()), []);
    let bridge = ProcessIdentity::of(u32::try_from(pid).unwrap()).unwrap();
    signal(bridge.pid, Signal::KILL);
    wait_until_gone(Some(&bridge));
    let dry = findings(&home.finish(there(&["doctor", "--json", "--dry-run"])).exits(2));
    assert!(dry.len() == 1 && dry[0].2 == "would-fix" && left.exists(), "{dry:?}");
    let found = findings(&home.finish(there(&["doctor", "--json"])).ok());
    assert!(found.len() == 1 && found[0].0 == "temporary" && found[0].2 == "fixed", "{found:?}");
    assert!(!left.exists() && temporary.join("drowse-once-young").exists());
}

#[test]
fn a_home_that_cannot_be_used_is_a_finding() {
    let home = Home::new();
    let mut relative = home.command(["doctor", "--json"]);
    relative.env("DROWSE_HOME", "relative");
    let found = findings(&home.finish(relative).exits(2));
    assert!(found.len() == 1 && found[0].0 == "home" && found[0].3.contains("absolute"), "{found:?}");
    home.connect("@s", &[], &[]);
    fs::set_permissions(home.files().sessions(), fs::Permissions::from_mode(0o755)).unwrap();
    let found = findings(&home.run(["doctor", "--json"]).ok());
    assert!(
        found.len() == 1 && found[0].2 == "fixed" && found[0].3.contains("its mode is 700 now"),
        "{found:?}"
    );
    assert_eq!(home.list().len(), 1);
}
