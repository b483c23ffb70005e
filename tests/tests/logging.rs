//! Log levels and log messages end to end, in both eras and on both transports.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

use drowse_tests::harness::Session;
use serde_json::json;

#[path = "tasks/places.rs"]
mod places;

use places::everywhere;

/// The messages in the session's log.
fn messages(session: &Session<'_>) -> Vec<String> {
    let lines = session.run(["logs", "-n", "0"]).ok().json();
    let lines = lines.as_array().unwrap().iter().filter_map(|line| line.as_str()?.split_once(" server: "));
    lines.map(|(_, text)| text.to_owned()).filter(|text| text.starts_with('[')).collect()
}

#[test]
fn a_level_is_remembered_and_messages_go_into_the_log() {
    everywhere(&["--idle-timeout", "1"], |session, era| {
        let log = |level: &str| {
            let level = format!("level={level}");
            session.call("notify", &["n:=1", &level]).ok().text()
        };
        let answer = session.run(["logging-set-level", "error"]).ok().json();
        assert_eq!(answer, json!({"success": true, "level": "error"}));
        assert_eq!(session.record().settings.log_level.as_deref(), Some("error"));
        assert_eq!((log("warning").as_str(), log("critical").as_str()), ("0", "1"));
        let critical = r#"[critical] fixture: {"index":0}"#;
        assert_eq!(messages(session), [critical]);
        // The next server is told, too.
        session.wait_until_asleep();
        assert_eq!((log("warning").as_str(), log("error").as_str()), ("0", "1"));
        assert_eq!(messages(session), [critical, r#"[error] fixture: {"index":0}"#]);
        session.run(["logging-set-level", "off"]).ok();
        assert_eq!(session.record().settings.log_level, None);
        assert_eq!(log("error"), "0");
        session.wait_until_asleep();
        // What a server sends that was told nothing is its own affair.
        assert_eq!(log("error"), if era == "legacy" { "1" } else { "0" });
        let levels = session.journal.entries().unwrap();
        let levels: Vec<_> = levels
            .iter()
            .filter(|entry| entry.event == "log-level")
            .map(|entry| entry.fields["level"].clone())
            .collect();
        assert_eq!(levels, if era == "legacy" { vec!["error", "error", "emergency"] } else { vec![] });
    });
}

#[test]
fn verbose_commands_show_what_is_logged_meanwhile() {
    everywhere(&[], |session, _| {
        let run = |words: &[&str]| session.run(["tools-call", "notify"].iter().chain(words).copied()).ok();
        let quiet = run(&["n:=2"]);
        assert_eq!(quiet.err, "");
        let verbose = run(&["n:=2", "--verbose"]);
        assert_eq!(verbose.text(), "2");
        let shown: Vec<&str> = verbose.err.lines().filter(|line| line.starts_with("server: ")).collect();
        let wanted = [0, 1].map(|index| format!(r#"server: [warning] fixture: {{"index":{index}}}"#));
        assert_eq!(shown, wanted);
        assert!(!run(&["level=debug", "--verbose"]).err.contains("server: "), "from info on");
        session.run(["logging-set-level", "debug"]).ok();
        assert!(run(&["level=debug", "--verbose"]).err.contains("server: [debug]"));
    });
}

#[test]
fn levels_are_words() {
    everywhere(&["--lazy"], |session, _| {
        let failed = session.run(["logging-set-level", "loud"]).fails(1);
        assert_eq!(failed["kind"], "usage");
        assert_eq!(session.starts(), usize::from(session.record().url.is_some()));
    });
}
