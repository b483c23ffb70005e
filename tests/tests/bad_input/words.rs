//! Command lines that make no sense, and words with strange characters in them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use drowse_tests::harness::{Home, Running, at_once};
use serde_json::json;

use super::bystander::{complaint, failure};

#[test]
fn names_that_are_none() {
    let home = Home::new();
    let long = format!("@{}", "x".repeat(65));
    let names = ["@", "@a b", "@../../etc", "@a/b", "@é", "@a\nb", "@a\u{1b}[2Jb", "@@a", "@.", &long];
    for name in names {
        for words in [&[name, "ping"][..], &["connect", name, "--", "cat"], &["close", name], &[name]] {
            complaint(&home.run(words), 1, &["not a session name", "1 to 64 letters"]);
            let run = home.run(words.iter().take(1).chain(&["--json"]).chain(words.iter().skip(1)));
            failure(&run, 1, "usage", &["not a session name"]);
        }
    }
    assert!(!home.files().root().exists(), "nothing is made for a mistake");
}

#[test]
fn words_that_are_not_text() {
    let home = Home::new();
    home.connect("@s", &[], &[]);
    let strange = OsStr::from_bytes(b"text=\xff\xfe");
    let words = |line: &'static str| line.split(' ').map(OsStr::new);
    for line in ["@s tools-call echo --json", "connect @x --json -- cat", "connect --json"] {
        let run = home.run(words(line).chain([strange]));
        failure(&run, 1, "usage", &["UTF-8"]);
    }
    // Where it stands in the environment and nobody asked for it, it is left out.
    let mut command = home.command(["connect", "@y", "--lazy", "--json", "--", "cat"]);
    command.env("LC_ALL", strange);
    Running::start(command).end().ok();
    let mut command = home.command(["connect", "@z", "--lazy", "--json", "--env", "MINE", "--", "cat"]);
    command.env("MINE", strange);
    failure(&Running::start(command).end(), 1, "config", &["MINE", "UTF-8"]);
}

#[test]
fn characters_that_steer_a_terminal() {
    let home = Home::new();
    let steering = "a\u{1b}]0;owned\u{7}\u{9b}2J\r\u{202e}\nb";
    let session = home.connect("@s", &[], &[]);
    // To the server and back they pass as they are.
    assert_eq!(session.call("echo", &[&format!("text={steering}")]).ok().text(), steering);
    let nul = session.call("echo", &["{\"text\":\"a\\u0000b\"}"]).ok();
    assert_eq!(nul.text(), "a\0b");
    // In a complaint they are spelled out.
    complaint(&home.run(["@s", "tools-call", "echo", steering]), 1, &["\\x1b]0;owned"]);
    complaint(&home.run(["@s", steering]), 1, &["\\x1b]0;owned"]);
    complaint(&home.run(["connect", steering]), 1, &["\\x1b]0;owned"]);
    complaint(&home.run(["@s", "resources-read", steering]), 2, &[]);
    complaint(&home.run(["connect", "@x", "--", steering]), 2, &["\\x1b]0;owned"]);
    // A session that has them in its command is one line of the list.
    home.run(["connect", "@x", "--lazy", "--", "cat", steering]).ok();
    let list = home.run([] as [&str; 0]).ok();
    let line = list.out.lines().find(|line| line.contains("@x")).unwrap();
    assert!(line.contains("\\x1b]0;owned\\x07"), "{line:?}");
    assert!(!list.out.contains(|c: char| c.is_control() && c != '\n'), "{:?}", list.out);
    let listed = home.list().into_iter().find(|session| session["name"] == "@x").unwrap();
    assert!(listed["target"].as_str().unwrap().contains(steering), "programs get it as it is");
}

#[test]
fn numbers_and_flags_that_are_none() {
    let home = Home::new();
    for words in [
        &["connect", "@s", "--idle-timeout", "-1", "--", "cat"][..],
        &["connect", "@s", "--idle-timeout", "99999999999999999999", "--", "cat"],
        &["connect", "@s", "--idle-timeout", "1.5", "--", "cat"],
        &["connect", "@s", "--idle-timeout", "", "--", "cat"],
        &["@s", "ping", "--timeout", "soon"],
        &["@s", "ping", "--timeout", "0"],
        &["@s", "ping", "--bogus"],
        &["@s", "tools-call"],
        &["@s", "tools-call", "echo", "="],
        &["@s", "tools-call", "echo", "{"],
        &["@s", "tools-call", "echo", "text=@/no/such/file"],
        &["@s", "logs", "-n", "many"],
        &["connect", "@s", "--", ""],
        &["connect", "@s", "--"],
        &["connect", "@s", "@t", "--", "cat"],
    ] {
        complaint(&home.run(words), 1, &[]);
        let mut command = home.command(words);
        command.env("DROWSE_JSON", "1");
        let _ = Running::start(command).end().fails(1);
    }
    assert!(!home.files().root().exists(), "nothing is made for a mistake");
}

#[test]
fn two_connects_of_one_name() {
    let home = Home::new();
    let session = home.session("@s");
    let server = session.server(&["--start-delay", "200"]);
    let words = |name: &'static str, flag: &'static str| {
        let server = server.clone();
        ["connect", name, "--json", "--env", flag, "--"].map(str::to_owned).into_iter().chain(server)
    };
    // For one target: whoever comes second finds the session awake.
    let both: Vec<_> = (0..4).map(|_| home.start(words("@s", "A=1"))).collect();
    let mut outcomes: Vec<String> = both
        .into_iter()
        .map(|run| run.end().ok().json()[0]["_drowse"]["outcome"].as_str().unwrap().to_owned())
        .collect();
    outcomes.sort();
    assert_eq!(outcomes, ["already-awake", "already-awake", "already-awake", "created"]);
    assert_eq!(session.starts(), 1);
    // For two targets: one wins, and the other is told what the name has become.
    let one =
        home.start(["connect", "@t", "--json", "--"].map(str::to_owned).into_iter().chain(server.clone()));
    let two = server.iter().cloned().chain(["--answer-twice".to_owned()]);
    let two = home.start(["connect", "@t", "--json", "--"].map(str::to_owned).into_iter().chain(two));
    let mut runs = [one.end(), two.end()];
    runs.sort_by_key(|run| run.code);
    assert_eq!(runs[0].code, 0, "{}", runs[0].err);
    failure(&runs[1], 1, "name-taken", &["@t is taken by", "choose another name", "drowse close @t"]);
    assert_eq!(session.starts(), 2);
    home.run(["@t", "ping", "--json"]).ok();
}

#[test]
fn two_connects_of_which_none_can_succeed() {
    let home = Home::new();
    let session = home.session("@s");
    at_once(["a", "b", "c"].map(|name| (name, name)), |_| {
        let words = ["connect", "@s", "--json", "--", "sh", "-c", "exit 3"];
        failure(&home.run(words), 2, "start-failed", &["ended before it answered"]);
    });
    assert!(!session.exists());
    assert_eq!(json!(home.list()), json!([]));
}
