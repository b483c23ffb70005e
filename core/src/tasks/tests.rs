use std::format;

use super::*;
use crate::envelope;

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1000)
}

fn asked(method: &str, params: &str, prepared: bool) -> (Asked, Option<std::vec::Vec<u8>>) {
    let frame = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    let frame = frame.as_bytes();
    let parts = RequestParts::of(&envelope::read(frame).unwrap()).unwrap();
    let asked = Asked::of(frame, &parts, Method::from_name(method), prepared);
    (asked, asked.task(frame, &parts).map(|span| span.of(frame).to_vec()))
}

/// What `asked` sees in an answer: how it is called, the task's id, and its status.
fn seen(asked: Asked, answer: &str) -> (&'static str, std::string::String, Option<Status>) {
    let frame = format!(r#"{{"jsonrpc":"2.0","id":1,{answer}}}"#);
    let frame = frame.as_bytes();
    let text = |span: Span| std::string::String::from_utf8_lossy(span.of(frame)).into_owned();
    match asked.seen(frame, &envelope::read(frame).unwrap()) {
        Seen::Nothing => ("nothing", "".into(), None),
        Seen::Created(task) => ("created", text(task.id), Some(task.status)),
        Seen::State(task) => ("state", text(task.id), Some(task.status)),
        Seen::States(span) => ("states", text(span), None),
        Seen::Over => ("over", "".into(), None),
    }
}

#[test]
fn only_who_is_prepared_for_a_task_is_given_one() {
    for (method, params, prepared, wanted) in [
        ("tools/call", r#"{"name":"x"}"#, false, Asked::Nothing),
        ("tools/call", r#"{"name":"x"}"#, true, Asked::Call),
        ("tools/call", r#"{"task":{"ttl":1},"name":"x"}"#, false, Asked::Call),
        ("tools/list", "{}", true, Asked::Nothing),
        ("tasks/get", r#"{"taskId":"a"}"#, false, Asked::Get),
        ("tasks/result", r#"{"taskId":"a"}"#, false, Asked::Result),
        ("tasks/list", r#"{"taskId":"a"}"#, true, Asked::List),
        ("tasks/cancel", r#"{"taskId":"a"}"#, false, Asked::Cancel),
        ("tasks/update", r#"{"taskId":"a"}"#, false, Asked::Nothing),
    ] {
        assert_eq!(asked(method, params, prepared).0, wanted, "{method} {params}");
    }
    assert_eq!(asked("tasks/get", r#"{"taskId":"a\n"}"#, false).1.as_deref(), Some(br#""a\n""#.as_slice()));
    assert_eq!(asked("tasks/get", r#"{"taskId":7}"#, false).1, None);
    assert_eq!(asked("tasks/list", r#"{"taskId":"a"}"#, false).1, None);
}

#[test]
fn tasks_are_created_in_either_eras_way() {
    let nested = r#""result":{"_meta":{},"task":{"taskId":"t","status":"working","ttl":5,"pollInterval":7}}"#;
    assert_eq!(seen(Asked::Call, nested), ("created", r#""t""#.into(), Some(Status::Working)));
    let flat = r#""result":{"resultType":"task","taskId":"t","status":"input_required","ttlMs":null}"#;
    assert_eq!(seen(Asked::Call, flat), ("created", r#""t""#.into(), Some(Status::InputRequired)));
    for none in [
        r#""result":{"content":[]}"#,
        r#""result":{"resultType":"complete","taskId":"t","status":"working"}"#,
        r#""result":{"resultType":"input_required","task":{"taskId":"t","status":"working"}}"#,
        r#""result":{"resultType":"task","taskId":7,"status":"working"}"#,
        r#""result":{"task":{"taskId":"t"}}"#,
        r#""result":{"task":[]}"#,
        r#""error":{"code":-32602,"message":"no"}"#,
    ] {
        assert_eq!(seen(Asked::Call, none).0, "nothing", "{none}");
    }
    assert_eq!(seen(Asked::Nothing, nested).0, "nothing");
}

#[test]
fn answers_tell_how_a_task_stands() {
    let state = |status: &str| format!(r#""result":{{"taskId":"t","status":"{status}","ttl":5}}"#);
    let error = |code: i64| format!(r#""error":{{"code":{code},"message":"no"}}"#);
    let kind = |asked, answer: &str| seen(asked, answer).0;
    for (word, status) in [
        ("working", Status::Working),
        ("input_required", Status::InputRequired),
        ("completed", Status::Completed),
        ("failed", Status::Failed),
        ("cancelled", Status::Cancelled),
        ("dreaming", Status::Working),
    ] {
        assert_eq!(seen(Asked::Get, &state(word)).2, Some(status));
        assert_eq!(seen(Asked::Cancel, &state(word)).2, Some(status));
        assert_eq!(status.is_final(), matches!(word, "completed" | "failed" | "cancelled"));
        assert!(word == "dreaming" || status.name() == word);
    }
    assert_eq!(kind(Asked::Cancel, r#""result":{"resultType":"complete"}"#), "over");
    assert_eq!(kind(Asked::Result, r#""result":{"content":[]}"#), "over");
    assert_eq!(kind(Asked::List, r#""result":{"tasks":[]}"#), "states");
    assert_eq!(kind(Asked::List, r#""result":{}"#), "nothing");
    // Of a task that is unknown by now nobody waits for the end; of a failure that is not the task's, for nothing else.
    for (asked, code, wanted) in [
        (Asked::Get, -32602, "over"),
        (Asked::Get, -32603, "nothing"),
        (Asked::Get, -32601, "nothing"),
        (Asked::Cancel, -32602, "over"),
        (Asked::Cancel, -32601, "nothing"),
        (Asked::Result, -32602, "over"),
        (Asked::Result, -32000, "over"),
        (Asked::Result, -32601, "nothing"),
        (Asked::List, -32602, "nothing"),
    ] {
        assert_eq!(kind(asked, &error(code)), wanted, "{asked:?} {code}");
    }
}

#[test]
fn notifications_tell_the_same() {
    for (method, is_one) in [
        ("notifications/tasks/status", true),
        ("notifications/tasks", true),
        ("notifications/tasks/list", false),
        ("notifications/message", false),
    ] {
        let frame = format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"taskId":"t","status":"failed","ttl":60000}}}}"#
        );
        let frame = frame.as_bytes();
        let Message::Notification { method, params, .. } = envelope::read(frame).unwrap() else { panic!() };
        assert_eq!(is_notification(frame, method), is_one, "{method:?}");
        let sight = Sight::read(frame, params.unwrap()).unwrap();
        assert_eq!((sight.status, sight.ttl), (Status::Failed, Some(60 * SECOND)));
    }
}

#[test]
fn a_task_pends_until_its_end_is_seen() {
    for status in [Status::Completed, Status::Failed, Status::Cancelled] {
        let mut tasks = Tasks::new([Slot::EMPTY; 2]);
        let key = tasks.handle_created(at(0), Status::Working, None).unwrap().unwrap();
        tasks.handle_seen(at(1), key, Status::InputRequired, None);
        assert!(tasks.is_pending(key));
        assert_eq!(tasks.poll_over(), None);
        tasks.handle_seen(at(2), key, status, None);
        assert!(!tasks.is_pending(key));
        assert_eq!((tasks.used(), tasks.poll_over(), tasks.poll_over()), (0, Some(key), None));
        // Whatever is said of it later.
        tasks.handle_seen(at(3), key, Status::Working, None);
        tasks.handle_over(key);
        assert_eq!((tasks.used(), tasks.poll_over(), tasks.poll_timeout()), (0, None, None));
    }
}

#[test]
fn a_task_that_is_over_when_it_is_created_never_pends() {
    let mut tasks = Tasks::new([Slot::EMPTY; 1]);
    for (status, ttl) in [(Status::Completed, None), (Status::Working, Some(Duration::ZERO))] {
        assert_eq!(tasks.handle_created(at(0), status, ttl), Ok(None));
    }
    assert_eq!(tasks.used(), 0);
}

#[test]
fn its_time_to_live_counts_from_its_creation_and_may_change() {
    let mut tasks = Tasks::new([Slot::EMPTY; 2]);
    let key = tasks.handle_created(at(10), Status::Working, Some(60 * SECOND)).unwrap().unwrap();
    assert_eq!(tasks.poll_timeout(), Some(at(70)));
    tasks.handle_seen(at(60), key, Status::Working, Some(90 * SECOND));
    assert_eq!(tasks.poll_timeout(), Some(at(100)));
    tasks.handle_timeout(at(99));
    assert!(tasks.is_pending(key));
    tasks.handle_timeout(at(100));
    tasks.handle_timeout(at(100));
    assert_eq!((tasks.poll_over(), tasks.poll_over(), tasks.poll_timeout()), (Some(key), None, None));
    // Without one, from when it was last heard of.
    let key = tasks.handle_created(at(10), Status::Working, None).unwrap().unwrap();
    tasks.handle_seen(at(500), key, Status::Working, None);
    assert_eq!(tasks.poll_timeout(), Some(at(500).after(UNHEARD)));
    // Even a shorter one than has passed.
    tasks.handle_seen(at(501), key, Status::Working, Some(SECOND));
    tasks.handle_timeout(at(501));
    assert_eq!(tasks.poll_over(), Some(key));
}

#[test]
fn no_more_pend_than_there_is_room_for() {
    let mut tasks = Tasks::new([Slot::EMPTY; 2]);
    let new = |tasks: &mut Tasks<_>| tasks.handle_created(at(0), Status::Working, None);
    let first = new(&mut tasks).unwrap().unwrap();
    new(&mut tasks).unwrap().unwrap();
    assert_eq!(new(&mut tasks), Err(Full));
    tasks.handle_over(first);
    // Its place is taken until the adapter knows.
    assert_eq!(new(&mut tasks), Err(Full));
    assert_eq!(tasks.poll_over(), Some(first));
    let third = new(&mut tasks).unwrap().unwrap();
    assert_eq!(third.index(), first.index());
    assert!(third != first && tasks.is_pending(third) && !tasks.is_pending(first));
}

#[test]
fn all_end_with_their_server() {
    let mut tasks = Tasks::new([Slot::EMPTY; 3]);
    for _ in 0..3 {
        tasks.handle_created(at(0), Status::Working, None).unwrap().unwrap();
    }
    tasks.handle_lost();
    tasks.handle_lost();
    assert_eq!((tasks.used(), tasks.poll_timeout()), (0, None));
    assert_eq!(core::iter::from_fn(|| tasks.poll_over()).count(), 3);
}
