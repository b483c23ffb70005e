//! What a session's server offered, kept for the time when it sleeps: `snapshot.json`, with real processes.
//!
//! Whether a list was asked for is read in the server's journal; that a snapshot is complete is asked of the bridge, which
//! answers when it is.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use drowse_runtime::home::SessionName;
use drowse_runtime::record::State;
use drowse_runtime::snapshot::{self, Snapshot};
use drowse_tests::harness::{Home, HttpServer, Session, Watch, in_both_eras};
use serde_json::{Value, json};

fn name(text: &str) -> SessionName {
    SessionName::new(text).unwrap()
}

fn file(home: &Home) -> PathBuf {
    home.files().snapshot_file(&name("s"))
}

/// Waits until the bridge says that all is saved, and reads it.
#[track_caller]
fn saved(home: &Home, session: &Session<'_>) -> Snapshot {
    let answer = session.socket().ask("drowse/snapshot", json!({}));
    assert!(answer["result"]["generation"].is_u64(), "{answer}");
    let snapshot = snapshot::read(home.files(), &name("s")).unwrap().expect("a snapshot that can be read");
    assert_eq!(snapshot.header.generation, answer["result"]["generation"]);
    assert_eq!(snapshot.header.taken, answer["result"]["taken"]);
    snapshot
}

/// The names of its tools.
fn tools(snapshot: &Snapshot) -> Vec<String> {
    let name = |tool: &str| serde_json::from_str::<Value>(tool).unwrap()["name"].as_str().unwrap().to_owned();
    snapshot.tools.iter().map(|tool| name(tool.get())).collect()
}

/// What the session's own commands say that its tools are.
fn live_tools(session: &Session<'_>) -> Vec<String> {
    let listed = session.run(["tools-list"]).ok().json();
    let list = listed.as_array().or_else(|| listed["tools"].as_array()).expect("a list of tools");
    list.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_a_server_offers_is_saved_while_it_runs_and_stays_while_it_sleeps() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &["--idle-timeout", "1"], &["--era", era, "--page-size", "4"]);
        let snapshot = saved(&home, &session);
        assert_eq!(snapshot.header.era, era);
        assert_eq!(snapshot.header.identity, session.record().identity);
        assert_eq!(snapshot.header.identity.len(), 32);
        assert!(snapshot.header.server_info.is_some() && snapshot.header.capabilities.is_some());
        assert!(snapshot.header.instructions.is_some() && snapshot.header.incomplete.is_empty());
        assert!(!snapshot.resources.is_empty() && !snapshot.prompts.is_empty());
        let mode = fs::metadata(file(&home)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let asleep = session.wait_until_asleep();
        assert_eq!(asleep.state, State::Idle);
        let kept = snapshot::read(home.files(), &name("s")).unwrap().unwrap();
        assert_eq!(kept.to_bytes(), snapshot.to_bytes());
        // Four at a time, all of them.
        assert_eq!(tools(&kept), live_tools(&session));
    });
}

#[test]
fn the_same_behind_a_url() {
    in_both_eras(|era| {
        let server = HttpServer::start(&["--era", era, "--page-size", "4"]);
        let home = Home::new();
        let session = home.connect_http("@s", &["--idle-timeout", "1"], &server);
        let snapshot = saved(&home, &session);
        assert_eq!(snapshot.header.era, era);
        session.wait_until_asleep();
        assert_eq!(tools(&snapshot), live_tools(&session));
        assert!(!snapshot.resources.is_empty() && snapshot.header.incomplete.is_empty());
    });
}

#[test]
fn every_wake_takes_a_new_one() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &["--idle-timeout", "1"], &["--era", era]);
        let first = saved(&home, &session);
        session.wait_until_asleep();
        session.run(["ping"]).ok();
        let second = saved(&home, &session);
        assert_eq!((first.header.generation, second.header.generation), (1, 2));
        assert!(second.header.taken > first.header.taken);
    });
}

#[test]
fn a_list_that_changed_is_saved_again() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era]);
        let before = saved(&home, &session);
        session.call("flip_tools", &[]).ok();
        // The change came before the answer of the call, and is waited for.
        let after = saved(&home, &session);
        assert_ne!(tools(&before), tools(&after), "{era}");
        assert_eq!(tools(&after), live_tools(&session));
        assert_eq!(after.header.generation, before.header.generation);
    });
}

/// Waits until the file holds other tools than these.
#[track_caller]
fn changed(home: &Home, before: &Snapshot) -> Snapshot {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut watch = Watch::on(&home.files().session(&name("s"))).unwrap();
    loop {
        let now = snapshot::read(home.files(), &name("s")).unwrap().expect("it is never gone");
        if tools(&now) != tools(before) {
            return now;
        }
        assert!(watch.changed(deadline).unwrap(), "it did not change");
    }
}

#[test]
fn a_list_that_changes_while_nobody_asks_for_anything_is_saved_too() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &["--idle-timeout", "5"], &["--era", era]);
        let before = saved(&home, &session);
        session.call("flip_tools", &["in_ms:=500"]).ok();
        let (low, high) = session.deadline().expect("a deadline");
        let after = changed(&home, &before);
        assert!(tools(&after).contains(&"bonus".to_owned()) && !tools(&before).contains(&"bonus".to_owned()));
        assert_eq!(after.header.generation, before.header.generation);
        assert_eq!((session.listed()["status"].as_str(), session.starts()), (Some("live"), 1));
        let (after_low, after_high) = session.deadline().expect("a deadline");
        assert!(after_low <= high && low <= after_high, "{era}: it is no use: {low}, {after_high}");
        session.wait_until_asleep();
        // One question more, and a word before the end.
        let methods = session.methods();
        let listens = methods.iter().filter(|method| *method == "subscriptions/listen").count();
        assert_eq!(listens, usize::from(era == "modern"), "{methods:?}");
        if era == "modern" {
            assert_eq!(methods.last().unwrap(), "notifications/cancelled");
        }
        assert_eq!(tools(&after), tools(&snapshot::read(home.files(), &name("s")).unwrap().unwrap()));
    });
}

#[test]
fn it_counts_as_no_use() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &["--idle-timeout", "2"], &["--era", era]);
        let (low, high) = session.deadline().expect("a deadline");
        saved(&home, &session);
        let (after_low, after_high) = session.deadline().expect("a deadline");
        assert!(after_low <= high && low <= after_high, "{low}..{high}, {after_low}..{after_high}");
        session.wait_until_asleep();
        assert_eq!(session.starts(), 1);
    });
}

#[test]
fn a_crash_keeps_the_last_one() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era]);
        let snapshot = saved(&home, &session);
        session.kill_server();
        session.wait_until(|state| state.ended && state.state == State::Crashed);
        assert_eq!(fs::read(file(&home)).unwrap(), snapshot.to_bytes());
        // And so does the end of a bridge that nobody expected.
        session.run(["restart"]).ok();
        let snapshot = saved(&home, &session);
        session.kill_bridge();
        assert_eq!(fs::read(file(&home)).unwrap(), snapshot.to_bytes());
    });
}

#[test]
fn it_goes_with_its_session() {
    let home = Home::new();
    for way in ["close", "clean"] {
        let session = home.connect("@s", &[], &[]);
        saved(&home, &session);
        if way == "close" {
            session.run(["close"]).ok();
        } else {
            home.run(["clean", "all"]).ok();
        }
        assert!(!session.exists() && !file(&home).exists(), "{way}");
    }
}

#[test]
fn another_configuration_makes_it_another_session() {
    let home = Home::new();
    let session = home.connect("@s", &["--env", "MINE=one"], &[]);
    let first = saved(&home, &session);
    let server = session.server(&[]);
    let words = ["connect", "@s", "--lazy", "--env", "MINE=two", "--"].map(str::to_owned);
    home.run(words.into_iter().chain(server.clone())).ok();
    let identity = session.record().identity;
    assert_ne!(first.header.identity, identity, "what is known of it holds no longer");
    // What keeps it, and how, makes no difference.
    let words = ["connect", "@s", "--lazy", "--idle-timeout", "77", "--"].map(str::to_owned);
    home.run(words.into_iter().chain(server)).ok();
    assert_eq!(session.record().identity, identity);
    session.run(["restart"]).ok();
    assert_eq!(session.record().identity, identity);
    assert_eq!(saved(&home, &session).header.identity, identity);
}

#[test]
fn a_record_without_an_identity_gets_one_when_it_wakes() {
    let home = Home::new();
    let session = home.connect("@s", &[], &[]);
    let identity = session.record().identity;
    session.kill_bridge();
    let path = home.files().session_file(&name("s"));
    let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    record.as_object_mut().unwrap().remove("identity").expect("it has one");
    fs::write(&path, record.to_string()).unwrap();
    session.run(["ping"]).ok();
    assert_eq!(session.record().identity, identity);
    assert_eq!(saved(&home, &session).header.identity, identity);
}

#[test]
fn a_damaged_one_harms_nothing_and_is_replaced() {
    let home = Home::new();
    let session = home.connect("@s", &["--idle-timeout", "1"], &[]);
    let whole = saved(&home, &session).to_bytes();
    session.wait_until_asleep();
    let text = String::from_utf8(whole.clone()).unwrap();
    let newer = text.replacen("\"schema\":1", "\"schema\":2", 1);
    let huge = format!("{{\"schema\":1,\"x\":\"{}\"}}", "y".repeat(8 << 20));
    for damaged in ["", &text[..text.len() / 2], &newer, &huge, "\u{0}\u{1}\u{2}", "{}", "[[[[[["] {
        fs::write(file(&home), damaged).unwrap();
        assert_eq!(session.listed()["status"], "idle");
        session.run(["ping"]).ok();
        let again = saved(&home, &session);
        assert_eq!(tools(&again), tools(&snapshot_of(&whole)));
        session.wait_until_asleep();
    }
    // Not even a directory in its place: it is set aside.
    fs::remove_file(file(&home)).unwrap();
    fs::create_dir(file(&home)).unwrap();
    session.run(["ping"]).ok();
    assert_eq!(tools(&saved(&home, &session)), tools(&snapshot_of(&whole)));
    assert!(file(&home).with_file_name("snapshot.json.damaged-1").is_dir(), "it is beside it");
    session.run(["close"]).ok();
    assert!(!session.exists());
}

fn snapshot_of(bytes: &[u8]) -> Snapshot {
    Snapshot::from_bytes(bytes).unwrap()
}

#[test]
fn a_server_that_writes_rubbish_and_batches_is_saved_all_the_same() {
    let home = Home::new();
    let flags = ["--era", "legacy", "--garbage", "--unknown-ids", "--answer-twice", "--page-size", "3"];
    let session = home.connect("@s", &[], &flags);
    let snapshot = saved(&home, &session);
    assert!(snapshot.header.incomplete.is_empty());
    assert_eq!(tools(&snapshot), live_tools(&session));
}

#[test]
fn a_server_behind_a_url_that_refuses_its_lists_harms_nothing() {
    in_both_eras(|era| {
        let server = HttpServer::start(&["--era", era]);
        let home = Home::new();
        let session = home.connect_http("@s", &["--idle-timeout", "2", "--lazy"], &server);
        server.fault("status=401;on=tools/list");
        session.call("tag", &["tag=a"]).ok();
        let snapshot = saved(&home, &session);
        assert_eq!(snapshot.header.incomplete, ["tools"]);
        assert!(snapshot.tools.is_empty() && !snapshot.resources.is_empty());
        assert_eq!(session.listed()["status"], "live", "what nobody wanted was refused");
        session.call("tag", &["tag=b"]).ok();
        session.wait_until_asleep();
        assert_eq!((server.executions("a"), server.executions("b")), (1, 1));
    });
}
