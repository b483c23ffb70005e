//! A proxy that is killed: what its server and its builds left in sessions of their own is found by those that come after
//! it, and by nobody else.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use drowse_tests::harness::{LIMIT, belonging_to, drowse};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::client::{Client, Place};

/// Kills a proxy; what is left of it.
fn kill(place: &Place, client: Client, left: usize) -> Vec<u32> {
    client.signal(Signal::KILL);
    assert_eq!(client.end().0, None);
    // The server itself ends with its proxy.
    settles(place, left)
}

/// The processes of the place, as soon as there are so many: some may be on their way out.
fn settles(place: &Place, left: usize) -> Vec<u32> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let found = belonging_to(&place.at(""));
        if found.len() == left {
            return found;
        }
        assert!(Instant::now() < deadline, "{found:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A proxy with a server that has a child in a session of its own.
fn with_a_grandchild(place: &Place) -> Client {
    let mut client = place.fixture("legacy", &[], &["--grandchild-setsid"]);
    client.tools();
    client
}

fn run(place: &Place, words: &[&str]) -> Output {
    Command::new(drowse()).args(words).env("DROWSE_HOME", place.at("home")).output().unwrap()
}

fn records(place: &Place) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place.at("home/locks")).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "dev"))
        .collect()
}

#[test]
fn the_next_proxy_ends_what_a_killed_one_left() {
    let place = Place::new();
    let first = with_a_grandchild(&place);
    assert_eq!(records(&place).len(), 1);
    let left = kill(&place, first, 1);
    // A probe starts nothing, and looks for nothing.
    let mut second = place.fixture("legacy", &[], &[]);
    assert!(belonging_to(&place.at("")).contains(&left[0]));
    second.tools();
    assert!(!belonging_to(&place.at("")).contains(&left[0]));
    assert_eq!(records(&place).len(), 1, "its own");
    let errors = second.close();
    assert!(errors.contains("ended 1 process that a killed dev proxy left"), "{errors}");
    assert_eq!(records(&place), [] as [PathBuf; 0]);
}

#[test]
fn doctor_lists_it_and_ends_it() {
    let place = Place::new();
    let client = with_a_grandchild(&place);
    let left = kill(&place, client, 1);
    let shown = run(&place, &["doctor", "--dry-run", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let shown = shown.to_string();
    assert!(shown.contains(&format!("1 process that a killed dev proxy left: {} (", left[0])), "{shown}");
    assert_eq!(belonging_to(&place.at("")), left);
    let mended = run(&place, &["doctor"]);
    let mended = String::from_utf8_lossy(&mended.stdout).into_owned();
    assert!(mended.contains("killed dev proxy left"), "{mended}");
    assert_eq!(belonging_to(&place.at("")), [] as [u32; 0]);
    assert_eq!(records(&place), [] as [PathBuf; 0]);
    let again = run(&place, &["doctor", "--dry-run"]);
    assert!(!String::from_utf8_lossy(&again.stdout).contains("dev proxy"));
}

#[test]
fn clean_ends_what_a_build_left() {
    let place = Place::new();
    let build = "setsid sh -c 'echo x >built; exec sleep 600' & wait";
    let mut client = place.fixture("legacy", &["--build", build], &[]);
    client.send_call("dev_restart", json!({"rebuild": true}));
    place.wait_until(|place| !place.read("built").is_empty());
    kill(&place, client, 1);
    let cleaned = run(&place, &["clean", "--json"]);
    assert_eq!(cleaned.status.code(), Some(0));
    let cleaned: Value = serde_json::from_slice(&cleaned.stdout).unwrap();
    assert_eq!(cleaned, json!({"removed": [], "failed": [], "_drowse": {"ended": 1, "notEnded": []}}));
    assert_eq!(belonging_to(&place.at("")), [] as [u32; 0]);
}

#[test]
fn proxies_side_by_side_leave_each_other_alone() {
    let place = Place::new();
    let (mut first, second) = (with_a_grandchild(&place), with_a_grandchild(&place));
    let before = first.status()["pid"].clone();
    assert!(before.is_u64(), "{before}");
    assert_eq!(records(&place).len(), 2);
    // Two proxies, two servers and two children, of which three go; the third proxy ends what is left of one.
    let left = kill(&place, second, 4);
    let third = with_a_grandchild(&place);
    let now = settles(&place, 6);
    assert_eq!(left.iter().filter(|pid| now.contains(pid)).count(), 3);
    assert!(run(&place, &["clean"]).status.success());
    assert_eq!(settles(&place, 6), now);
    assert_eq!(first.status()["pid"], before);
    third.close();
    assert!(first.tools().contains(&"echo".to_owned()));
    first.close();
    assert_eq!(records(&place), [] as [PathBuf; 0]);
}

#[test]
fn a_home_that_cannot_be_written_is_said_once() {
    let place = Place::new();
    // Nothing can be made below a file.
    place.write("home", "");
    let mut client = place.fixture("legacy", &["--build", "true"], &["--grandchild-setsid"]);
    client.tools();
    client.restart(json!({"rebuild": true}));
    client.restart(json!({}));
    let errors = client.close();
    assert_eq!(errors.matches("nobody will find what its server leaves running").count(), 1, "{errors}");
}

#[test]
fn a_probe_makes_no_home() {
    let place = Place::new();
    place.fixture("legacy", &[], &[]).close();
    assert!(!place.at("home").exists());
}
