//! What is told of a session's life: counts, times, its timeline, and what becomes of a life that was damaged.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use drowse_runtime::home::SessionName;
use drowse_tests::harness::{Home, Session};
use serde_json::{Value, json};

fn life_file(home: &Home) -> PathBuf {
    home.files().life_file(&SessionName::new("s").unwrap())
}

fn stats(session: &Session<'_>) -> Value {
    session.run(["stats"]).ok().json()
}

/// Calls a tool without a look at its schema, which would be a call of its own.
fn call(session: &Session<'_>, tool: &str, more: &[&str], code: i32) {
    session.run(["tools-call", tool, "--no-check"].into_iter().chain(more.iter().copied())).exits(code);
}

fn add(home: &Home, text: &str) {
    let mut file = fs::File::options().append(true).open(life_file(home)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn counts_are_exact_over_two_wakes() {
    let home = Home::new();
    // The connect asks the server who it is: a call.
    let session = home.connect("@s", &["--idle-timeout", "4"], &[]);
    let connected = stats(&session);
    assert_eq!(
        (&connected["calls"], &connected["latencyMs"]),
        (&json!(1), &Value::Null),
        "drowse knew the answer"
    );
    for _ in 0..3 {
        call(&session, "echo", &["text=a"], 0);
    }
    call(&session, "fail", &[], 2);
    call(&session, "fail", &[], 2);
    call(&session, "rpc_error", &[], 2);
    call(&session, "slow", &[r#"{"ms":20000,"quiet":true}"#, "--timeout", "1"], 3);
    // What is asked of drowse is none.
    session.run(["stats"]).ok();
    session.run(["timeline"]).ok();
    session.run(["logs"]).ok();
    let so_far = stats(&session);
    let errors = json!({"total": 4, "theirs": 3, "ours": 0, "timedOut": 1, "cancelled": 0});
    assert_eq!(
        (&so_far["calls"], &so_far["errors"], &so_far["status"]),
        (&json!(8), &errors, &json!("live"))
    );
    assert!(so_far["awakeSince"].is_u64() && so_far["memoryBytes"].as_u64().unwrap() > 100_000, "{so_far}");
    session.wait_until_asleep();
    let asleep = stats(&session);
    assert_eq!(
        (&asleep["calls"], &asleep["errors"], &asleep["latencyMs"]),
        (&json!(8), &errors, &so_far["latencyMs"])
    );
    assert_eq!(
        (&asleep["wakes"], &asleep["sleeps"], &asleep["status"]),
        (&json!(1), &json!(1), &json!("idle"))
    );
    call(&session, "echo", &["text=a"], 0);
    call(&session, "fail", &[], 2);
    session.wait_until_asleep();
    let end = stats(&session);
    assert_eq!(
        (&end["calls"], &end["errors"]["theirs"], &end["errors"]["total"]),
        (&json!(10), &json!(4), &json!(5))
    );
    assert_eq!(
        (&end["wakes"], &end["sleeps"], &end["crashes"], session.starts()),
        (&json!(2), &json!(2), &json!(0), 2)
    );
    for positive in ["awakeMs", "asleepMs", "memoryBytes", "savedMibHours", "shareAsleep"] {
        assert!(end[positive].as_f64().is_some_and(|value| value > 0.0), "{positive}: {end}");
    }
    assert_eq!((&end["unknownMs"], &end["bridgesKilled"]), (&json!(0), &json!(0)));
    let all = home.run(["stats", "--json"]).ok().json();
    assert_eq!(all["sessions"].as_array().unwrap().len(), 1);
    assert_eq!((&all["sessions"][0]["calls"], &all["sessions"][0]["name"]), (&json!(10), &json!("@s")));
    let table = home.run(["stats"]).ok().out;
    assert!(table.lines().count() == 2 && table.contains("@s"), "{table}");
    assert_eq!(fs::metadata(life_file(&home)).unwrap().permissions().mode() & 0o777, 0o600);
    session.run(["close"]).ok();
    assert!(!session.exists());
    let _ = session.run(["stats"]).fails(1);
}

#[test]
fn asking_neither_starts_nor_counts() {
    let home = Home::new();
    let session = home.connect("@s", &["--idle-timeout", "600"], &[]);
    let (_, latest) = session.deadline().unwrap();
    for words in [&["stats"][..], &["timeline"], &["timeline", "--since", "all"]] {
        session.run(words.iter().copied()).ok();
    }
    let (earliest, _) = session.deadline().unwrap();
    assert!(earliest <= latest, "the deadline moved from {latest} to {earliest}");
    session.tell_bridge_to_go();
    session.wait_until_asleep();
    for words in [&["stats"][..], &["timeline"]] {
        session.run(words.iter().copied()).ok();
    }
    let told = stats(&session);
    // It did not fall asleep: it was told to.
    assert_eq!((&told["sleeps"], &told["crashes"], &told["status"]), (&json!(0), &json!(0), &json!("idle")));
    assert_eq!(session.starts(), 1);
}

#[test]
fn a_killed_bridge_loses_its_counts_and_nothing_else() {
    let home = Home::new();
    let session = home.connect("@s", &["--idle-timeout", "600"], &[]);
    call(&session, "echo", &["text=a"], 0);
    session.kill_bridge();
    let killed = stats(&session);
    assert_eq!(
        (&killed["calls"], &killed["bridgesKilled"], &killed["status"]),
        (&json!(0), &json!(1), &json!("crashed"))
    );
    call(&session, "echo", &["text=a"], 0);
    let again = stats(&session);
    assert_eq!(
        (&again["calls"], &again["bridgesKilled"], &again["wakes"]),
        (&json!(1), &json!(1), &json!(2))
    );
    let timeline = session.run(["timeline"]).ok().json();
    let periods = timeline["periods"].as_array().unwrap();
    assert!(periods.iter().any(|period| period["state"].is_null()), "{timeline}");
    assert_eq!(periods.last().unwrap()["state"], "live");
    // A crash is told with its cause.
    session.kill_server();
    session.wait_until(|state| state.state == drowse_runtime::record::State::Crashed && state.ended);
    let timeline = session.run(["timeline"]).ok().json();
    let last = timeline["events"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["state"], &last["why"]),
        (&json!("crashed"), &json!("the server ended by itself (signal 9)"))
    );
    assert_eq!((&stats(&session)["crashes"], &stats(&session)["calls"]), (&json!(1), &json!(1)));
}

#[test]
fn damaged_and_hostile_lines_harm_nothing() {
    let home = Home::new();
    let session = home.connect("@s", &["--lazy"], &[]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let hostile = r"</text><script>alert(1)</script>\u001b]0;x\u0007\u202e\ufffe";
    add(
        &home,
        &format!(
            "garbage\n{{\"at\":{now},\"v\":9,\"state\":\"dreaming\"}}\n\
             {{\"at\":{now},\"state\":\"crashed\",\"why\":\"{hostile}\"}}\n{{\"at\":{now},\"sta"
        ),
    );
    let told = stats(&session);
    assert_eq!(
        (&told["damagedLines"], &told["newerLines"], &told["crashes"]),
        (&json!(2), &json!(1), &json!(1))
    );
    let plain = home.run(["@s", "timeline"]).ok();
    assert!(plain.err.contains("2 lines of the life of @s are damaged"), "{}", plain.err);
    assert!(plain.err.contains("newer drowse"), "{}", plain.err);
    assert!(!plain.out.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{:?}", plain.out);
    assert!(plain.out.contains("<script>"), "{}", plain.out);
    let file = home.path().join("life.svg");
    let path = file.to_str().unwrap();
    home.run(["timeline", "@s", "-o", path, "--since", "7d"]).ok();
    let svg = fs::read_to_string(&file).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    assert!(document.descendants().all(|node| node.tag_name().name() != "script"));
    let _ = home.run(["@s", "timeline", "-o", "/nowhere/at/all.svg", "--json"]).fails(1);
    let _ = home.run(["@s", "timeline", "--since", "yesterday", "--json"]).fails(1);
    let _ = home.run(["@s", "stats", "@t", "--json"]).fails(1);
    // It lives on.
    call(&session, "echo", &["text=a"], 0);
    assert_eq!(stats(&session)["calls"], 1);
}

#[test]
fn a_long_life_is_folded_and_its_totals_stay() {
    let home = Home::new();
    let session = home.connect("@s", &["--lazy", "--idle-timeout", "1"], &[]);
    let mut text = String::new();
    let begin = 1_700_000_000_000_u64;
    for n in 0..5_000_u64 {
        let at = begin + n * 10_000;
        writeln!(text, r#"{{"at":{at},"state":"live","generation":{n}}}"#).unwrap();
        let (calls, theirs) = (n % 7, n % 2);
        writeln!(
            text,
            r#"{{"at":{},"state":"idle","generation":{n},"calls":{calls},"errors":{{"theirs":{theirs}}},"latency":[[{n},1]],"memory":1048576}}"#,
            at + 4_000
        )
        .unwrap();
    }
    add(&home, &text);
    let before = stats(&session);
    assert_eq!((&before["wakes"], &before["sleeps"]), (&json!(5000), &json!(5000)));
    let calls: u64 = (0..5_000).map(|n| n % 7).sum();
    assert_eq!((&before["calls"], &before["errors"]["theirs"]), (&json!(calls), &json!(2500)));
    call(&session, "echo", &["text=a"], 0);
    session.wait_until_asleep();
    let file = life_file(&home);
    assert!(fs::metadata(&file).unwrap().len() <= 256 << 10);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let after = stats(&session);
    assert_eq!((&after["calls"], &after["errors"]["theirs"]), (&json!(calls + 1), &json!(2500)));
    assert_eq!((&after["wakes"], &after["sleeps"]), (&json!(5001), &json!(5001)));
    assert_eq!(after["damagedLines"], 0);
    let timeline = session.run(["timeline", "--since", "all"]).ok().json();
    assert!(
        timeline["foldedEvents"].as_u64().is_some_and(|folded| folded > 5_000),
        "{}",
        timeline["foldedEvents"]
    );
}

#[test]
fn bridges_that_are_stopped_are_waited_for_together() {
    use rustix::process::{Pid, Signal, kill_process};
    let home = Home::new();
    let sessions: Vec<_> = (0..8).map(|number| home.connect(&format!("@s{number}"), &[], &[])).collect();
    let well = home.connect("@well", &[], &[]);
    call(&well, "echo", &["text=a"], 0);
    let bridges: Vec<_> = sessions
        .iter()
        .map(|session| Pid::from_raw(session.state().unwrap().bridge.unwrap().pid.cast_signed()).unwrap())
        .collect();
    bridges.iter().for_each(|bridge| kill_process(*bridge, Signal::STOP).unwrap());
    let begun = std::time::Instant::now();
    let all = home.run(["stats", "--json"]);
    let took = begun.elapsed();
    bridges.iter().for_each(|bridge| kill_process(*bridge, Signal::CONT).unwrap());
    let all = all.ok().json();
    let calls = |name: &str| {
        let lives = all["sessions"].as_array().unwrap();
        lives.iter().find(|life| life["name"] == name).unwrap()["calls"].as_u64().unwrap()
    };
    // The connect is a call, too.
    assert_eq!((calls("@well"), calls("@s0")), (2, 0), "{all}");
    // One by one they would take a second each.
    assert!(took < std::time::Duration::from_secs(7), "{took:?}");
}
