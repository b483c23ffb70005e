//! A disk that is full, one that can only be read, and a limit on the size of files.

use drowse_runtime::home::SessionName;
use drowse_tests::harness::{Home, Running, Session};
use serde_json::Value;

use super::bystander::failure;
use super::confined::Confined;

/// A home on a disk of its own of 512 KiB.
fn small_disk(home: &Home) -> Option<Confined> {
    let root = home.files().root().display();
    Confined::mounts(&format!("mkdir -m 700 {root} && mount -t tmpfs -o size=512k,mode=700 none {root}"))
}

fn fill(home: &Home, disk: &Confined) {
    disk.script(&format!("cat /dev/zero >{}/filler 2>/dev/null || true", home.files().root().display()));
}

fn free(home: &Home, disk: &Confined) {
    disk.script(&format!("rm {}/filler", home.files().root().display()));
}

fn connect<'a>(session: &Session<'_>, flags: &[&'a str], fixture: &[&'a str]) -> Vec<String> {
    let words = ["connect", "@s", "--json"].iter().chain(flags).chain(&["--"]).map(ToString::to_string);
    words.chain(session.server(fixture)).collect()
}

/// How the list in there shows it.
fn status(home: &Home, disk: &Confined) -> String {
    let list = disk.run(home, ["--json"]).ok().json();
    list["sessions"][0]["status"].as_str().unwrap_or_else(|| panic!("{list}")).to_owned()
}

const FULL: [&str; 2] = ["no room left", "free some space"];

#[test]
fn a_full_disk_refuses_a_connect() {
    let home = Home::new();
    let Some(disk) = small_disk(&home) else { return };
    fill(&home, &disk);
    let session = home.session("@s");
    for flags in [&[][..], &["--lazy"]] {
        let document = failure(&disk.run(&home, connect(&session, flags, &[])), 3, "storage", &FULL);
        assert_eq!(document["ran"], "no");
    }
    assert_eq!(disk.run(&home, ["--json"]).ok().json()["sessions"], Value::Array(vec![]));
    let root = home.files().root().display();
    assert_eq!(disk.script(&format!("find {root} -type f ! -name filler ! -path '*/locks/*'")), "");
    free(&home, &disk);
    disk.run(&home, connect(&session, &[], &[])).ok();
    disk.run(&home, ["close", "@s"]).ok();
}

#[test]
fn a_disk_that_fills_up() {
    let home = Home::new();
    let Some(disk) = small_disk(&home) else { return };
    let session = home.session("@s");
    disk.run(&home, connect(&session, &["--idle-timeout", "2"], &["--stderr-flood", "1000"])).ok();
    fill(&home, &disk);
    // Calls write nothing.
    for tag in ["tag=a", "tag=b"] {
        disk.run(&home, ["@s", "tools-call", "tag", tag, "--json"]).ok();
    }
    // It falls asleep all the same, and nothing of it is left.
    session.wait_for(|entries| entries.iter().any(|entry| entry.event == "exit"));
    assert_eq!((session.starts(), session.executions("a"), session.executions("b")), (1, 1, 1));
    // It is seen to sleep, and so it is not cleaned away.
    assert_eq!(status(&home, &disk), "idle");
    disk.run(&home, ["clean", "--json"]).ok();
    assert_eq!(status(&home, &disk), "idle");
    // It cannot wake: a server that no record names could not be found again.
    let document = failure(&disk.run(&home, ["@s", "ping", "--json"]), 3, "storage", &["room"]);
    assert_eq!(document["ran"], "no");
    assert_eq!(session.starts(), 1);
    failure(&disk.run(&home, ["@s", "restart", "--json"]), 3, "storage", &["room"]);
    // Room is all it needs.
    free(&home, &disk);
    disk.run(&home, ["@s", "tools-call", "tag", "tag=c", "--json"]).ok();
    assert_eq!((session.starts(), session.executions("c")), (2, 1));
    // Closing needs no room.
    fill(&home, &disk);
    disk.run(&home, ["close", "@s"]).ok();
    assert_eq!(disk.run(&home, ["--json"]).ok().json()["sessions"], Value::Array(vec![]));
}

#[test]
fn a_disk_that_can_only_be_read() {
    let home = Home::new();
    let Some(disk) = small_disk(&home) else { return };
    let root = home.files().root().display();
    // Laid over it, because what runs there has files open; by their paths they are all read-only.
    let remount = |how: &str| match how {
        "ro" => disk.script(&format!("mount --bind {root} {root} && mount -o remount,bind,ro {root}")),
        _ => disk.script(&format!("umount -l {root}")),
    };
    let session = home.session("@s");
    const READ_ONLY: [&str; 2] = ["is read-only", "DROWSE_HOME"];
    // Nothing there yet.
    remount("ro");
    failure(&disk.run(&home, connect(&session, &[], &[])), 3, "storage", &READ_ONLY);
    assert_eq!(disk.run(&home, ["--json"]).ok().json()["sessions"], Value::Array(vec![]));
    remount("rw");
    disk.run(&home, connect(&session, &["--idle-timeout", "1"], &[])).ok();
    remount("ro");
    let text = disk.run(&home, ["@s", "tools-call", "tag", "tag=a", "--json"]).ok().text();
    assert_eq!(text, "a", "what runs needs no disk");
    session.wait_for(|entries| entries.iter().any(|entry| entry.event == "exit"));
    // The bridge, which may be there still, or the caller: either knows.
    let document = failure(&disk.run(&home, ["@s", "ping", "--json"]), 3, "storage", &[]);
    let said = document["error"].as_str().unwrap();
    assert!(said.contains("read-only") || said.contains("make the directory writable"), "{document}");
    for words in [["@s", "restart", "--json"], ["close", "@s", "--json"]] {
        failure(&disk.run(&home, words), 3, "storage", &READ_ONLY);
    }
    assert_eq!(session.starts(), 1);
    // It can be looked at.
    let _ = status(&home, &disk);
    disk.run(&home, ["@s", "logs"]).ok();
    remount("rw");
    disk.run(&home, ["@s", "ping", "--json"]).ok();
    disk.run(&home, ["close", "@s"]).ok();
}

#[test]
fn a_home_without_permission() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: nothing is forbidden to root");
        return;
    }
    let home = Home::new();
    let session = home.connect("@s", &["--lazy"], &[]);
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let directory = home.files().session(&SessionName::new("s").unwrap());
    mode(&directory, 0o500);
    failure(&session.run(["ping"]), 3, "storage", &["permission denied", "chmod"]);
    mode(&directory, 0o700);
    mode(&home.files().sessions(), 0o500);
    failure(
        &home.run(["connect", "@t", "--json", "--", "cat"]),
        3,
        "storage",
        &["permission denied", "chmod"],
    );
    mode(&home.files().sessions(), 0o700);
    session.run(["ping"]).ok();
}

#[test]
fn a_limit_on_the_size_of_files() {
    let home = Home::new();
    let session = home.session("@s");
    let limited = |words: Vec<String>| {
        let plain = home.command(words);
        let mut command = std::process::Command::new("prlimit");
        command.args(["--fsize=0", "--"]).arg(plain.get_program()).args(plain.get_args());
        command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(std::process::Stdio::null()).current_dir(home.path());
        Running::start(command).end()
    };
    // Whoever waits for a word is told, instead of seeing a process die of a signal.
    let run = limited(connect(&session, &[], &[]));
    failure(&run, 3, "storage", &["limit", "ulimit -f"]);
    assert!(!session.exists());
    home.run(connect(&session, &[], &[])).ok();
    limited(vec!["@s".into(), "ping".into(), "--json".into()]).ok();
    session.kill_bridge();
    failure(&limited(vec!["@s".into(), "ping".into(), "--json".into()]), 3, "storage", &["limit"]);
    session.run(["ping"]).ok();
}

#[test]
fn a_dev_proxy_outlives_a_limit_on_the_size_of_files() {
    use std::io::{BufRead, BufReader, Write};

    let home = Home::new();
    let server = drowse_tests::harness::fixture();
    let plain = home.command(["dev".as_ref(), "--".as_ref(), server.as_os_str()]);
    let mut command = std::process::Command::new("prlimit");
    command.args(["--fsize=0", "--"]).arg(plain.get_program()).args(plain.get_args());
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut proxy = command
        .current_dir(home.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = BufReader::new(proxy.stdout.take().unwrap()).lines();
    let mut input = proxy.stdin.take().unwrap();
    let params =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#;
    writeln!(input, r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#).unwrap();
    assert!(answers.next().unwrap().unwrap().contains("protocolVersion"));
    let params = r#"{"name":"echo","arguments":{"text":"served"}}"#;
    writeln!(input, r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{params}}}"#).unwrap();
    let served = answers.map_while(Result::ok).find(|line| line.contains(r#""id":2"#));
    drop(input);
    let status = proxy.wait().unwrap();
    assert!(served.is_some_and(|line| line.contains("served")), "{status}");
    assert!(status.success(), "{status}");
}
