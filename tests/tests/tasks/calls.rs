//! `--task`, `--detach` and `tasks-…`.

use std::time::Duration;

use drowse_tests::harness::{Home, Session, in_both_eras};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::places::everywhere;

/// Longer than any test.
const FOR_EVER: &str = "ms:=600000";

fn detach(session: &Session<'_>, arguments: &[&str]) -> String {
    let run = session.call("work", &[arguments, &["--detach"]].concat()).ok();
    run.json()["taskId"].as_str().expect("an id").to_owned()
}

#[test]
fn a_call_as_a_task_ends_like_any_other() {
    everywhere(&[], |session, era| {
        let run = session.call("work", &["ms:=300", "tag=a", "--task"]).ok();
        assert_eq!(run.text(), "a");
        assert!(run.took >= Duration::from_millis(300));
        assert_eq!(session.executions("a"), 1);
        // What the tool reports, and what the server does.
        let failed = session.call("work", &["ms:=0", "fail:=true", "--task"]).exits(2);
        assert_eq!(failed.json()["isError"], true);
        let refused = session.call("work", &["ms:=100", "refuse:=true", "--task"]).fails(2);
        assert_eq!(
            (&refused["kind"], &refused["_drowse"]["rpc"]["code"]),
            (&json!("server-error"), &json!(1234))
        );
        // One that a modern server answers at once all the same.
        if era == "modern" {
            assert_eq!(session.call("work", &["ms:=0", "tag=b", "sync:=true", "--task"]).ok().text(), "b");
        }
        // Without the flag nothing is a task.
        assert_eq!(session.call("work", &["ms:=0", "tag=c"]).ok().text(), "c");
        let refused = session.call("work_only", &["ms:=0"]).fails(2);
        let hint = refused["_drowse"]["hint"].as_str().unwrap_or_default();
        assert!(hint.contains("--task"), "{refused}");
        assert_eq!(session.call("work_only", &["ms:=0", "tag=d", "--task"]).ok().text(), "d");
    });
}

#[test]
fn a_detached_task_is_fetched_later() {
    everywhere(&[], |session, era| {
        let id = detach(session, &["ms:=700", "tag=a"]);
        let shown = session.run(["tasks-get", &id]).ok().json();
        assert_eq!((&shown["taskId"], &shown["status"]), (&json!(id), &json!("working")));
        assert_eq!(session.run(["tasks-result", &id]).ok().text(), "a");
        assert_eq!(session.run(["tasks-get", &id]).ok().json()["status"], "completed");
        // As often as the server keeps it, and it ran once.
        assert_eq!(session.run(["tasks-result", &id]).ok().text(), "a");
        assert_eq!(session.executions("a"), 1);
        let list = session.run(["tasks-list"]);
        if era == "legacy" {
            assert_eq!(list.ok().json()[0]["taskId"], json!(id));
        } else {
            assert_eq!(list.fails(1)["kind"], "unsupported");
        }
        let unknown = session.run(["tasks-get", "nobody"]).fails(2);
        assert_eq!(unknown["_drowse"]["rpc"]["code"], -32602);
        assert!(unknown["error"].as_str().unwrap().contains("nobody"), "{unknown}");
    });
}

#[test]
fn a_task_is_cancelled() {
    everywhere(&[], |session, era| {
        let id = detach(session, &[FOR_EVER, "tag=a"]);
        let answer = session.run(["tasks-cancel", &id]).ok().json();
        assert_eq!(answer["status"], if era == "legacy" { json!("cancelled") } else { Value::Null });
        assert_eq!(session.run(["tasks-result", &id]).fails(2)["kind"], "task-cancelled");
        assert_eq!(session.run(["tasks-cancel", &id]).code, if era == "legacy" { 2 } else { 0 });
    });
}

#[test]
fn an_interrupted_call_cancels_its_task_and_an_interrupted_wait_does_not() {
    everywhere(&[], |session, _| {
        let waiting = session.start(["tools-call", "work", FOR_EVER, "tag=a", "--task"]);
        session.wait_for(|entries| entries.iter().any(|entry| entry.is("in", "method", "tasks/get")));
        waiting.signal(Signal::INT);
        let failed = waiting.end().fails(130);
        assert_eq!((&failed["kind"], &failed["ran"]), (&json!("interrupted"), &json!("unknown")));
        assert!(failed["error"].as_str().unwrap().contains("cancel"), "{failed}");
        session.wait_for(|entries| entries.iter().any(|entry| entry.is("task-cancelled", "tag", "a")));
        let id = detach(session, &[FOR_EVER, "tag=b"]);
        let gets =
            |session: &Session<'_>| session.methods().iter().filter(|method| *method == "tasks/get").count();
        let before = gets(session);
        let waiting = session.start(["tasks-result", id.as_str()]);
        session.wait_for(|_| gets(session) > before);
        waiting.signal(Signal::INT);
        let failed = waiting.end().fails(130);
        assert!(failed["_drowse"]["hint"].as_str().unwrap().contains("tasks-cancel"), "{failed}");
        assert_eq!(session.run(["tasks-get", &id]).ok().json()["status"], "working");
    });
}

#[test]
fn a_time_out_ends_the_wait_and_not_the_task() {
    everywhere(&[], |session, _| {
        let failed = session.call("work", &["ms:=1500", "tag=a", "--task", "--timeout", "1"]).fails(3);
        assert_eq!((&failed["kind"], &failed["ran"]), (&json!("timeout"), &json!("unknown")));
        let hint = failed["_drowse"]["hint"].as_str().unwrap();
        let id = hint.split_once("tasks-result ").unwrap().1.split_whitespace().next().unwrap();
        assert_eq!(session.run(["tasks-result", id]).ok().text(), "a");
        assert_eq!(session.executions("a"), 1);
    });
}

#[test]
fn what_a_task_asks_is_answered() {
    everywhere(&[], |session, _| {
        let answer = r#"{"name": "Ann"}"#;
        let run = session.call("work", &["ms:=200", "ask:=true", "--task", "--elicit", answer]).ok();
        assert!(run.text().contains("Ann") && run.text().contains("accept"), "{}", run.text());
        // By whoever comes later, too.
        let id = detach(session, &["ms:=0", "ask:=true"]);
        assert_eq!(session.run(["tasks-get", &id]).ok().json()["status"], "input_required");
        let run = session.run(["tasks-result", &id, "--elicit", "accept-defaults"]).ok();
        assert!(run.text().contains("nobody"), "{}", run.text());
    });
}

#[test]
fn servers_without_tasks_are_asked_for_none() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &[], &["--era", era]);
        for words in [
            &["tools-call", "tag", "tag=a", "--task"][..],
            &["tools-call", "tag", "tag=a", "--detach"],
            &["tasks-list"],
            &["tasks-get", "x"],
            &["tasks-result", "x"],
            &["tasks-cancel", "x"],
        ] {
            let failed = session.run(words.iter().copied()).fails(1);
            assert_eq!((&failed["kind"], &failed["ran"]), (&json!("unsupported"), &json!("no")), "{words:?}");
        }
        assert_eq!(session.executions("a"), 0);
        assert!(!session.methods().iter().any(|method| method.starts_with("tasks/")));
        // Nor is a tool that does not run as one.
        let other = home.connect("@t", &[], &["--era", era, "--tasks"]);
        let run = other.call("tag", &["tag=a", "--task"]);
        match era {
            "legacy" => assert_eq!(run.fails(1)["kind"], "unsupported"),
            _ => assert_eq!(run.ok().text(), "a"),
        }
    });
}
