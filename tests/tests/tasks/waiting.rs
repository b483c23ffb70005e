//! A session with a pending task does not fall asleep, and what is lost with a server is said.

use drowse_runtime::record::State;
use serde_json::json;

use super::places::everywhere;

#[test]
fn a_pending_task_keeps_the_session_awake() {
    everywhere(&["--idle-timeout", "1"], |session, _| {
        let run = session.call("work", &["ms:=600000", "ttl:=2500", "--detach"]).ok();
        let created = session.last("run");
        assert!(run.json()["taskId"].is_string());
        assert_eq!(session.deadline(), None, "it is not let go while that pends");
        // Its time, and then a full period.
        let asleep = session.wait_until_asleep();
        assert!(asleep.since >= created + 3500, "asleep {} ms after it was created", asleep.since - created);
        assert_eq!(session.starts(), 1);
    });
}

#[test]
fn when_its_end_was_seen_a_full_period_starts() {
    everywhere(&["--idle-timeout", "3"], |session, _| {
        let id =
            session.call("work", &["ms:=300", "--detach"]).ok().json()["taskId"].as_str().unwrap().to_owned();
        assert_eq!(session.deadline(), None);
        session.run(["tasks-result", &id]).ok();
        assert!(session.deadline().is_some());
        session.wait_until_asleep();
    });
}

#[test]
fn a_crash_ends_the_tasks() {
    let home = drowse_tests::harness::Home::new();
    let session = home.connect("@s", &["--idle-timeout", "2"], &["--era", "legacy", "--tasks"]);
    let id =
        session.call("work", &["ms:=600000", "--detach"]).ok().json()["taskId"].as_str().unwrap().to_owned();
    session.kill_server();
    session.wait_until(|state| state.state == State::Crashed);
    let failed = session.run(["tasks-result", &id]).fails(2);
    assert_eq!(failed["_drowse"]["rpc"]["code"], json!(-32602));
    assert!(failed["_drowse"]["hint"].as_str().unwrap().contains("forgets"), "{failed}");
    session.wait_until_asleep();
}
