//! That a request runs once at most, and that whoever asked learns what became of it: time-outs, interruptions, callers
//! and servers that vanish. The server counts.

use drowse_runtime::record::State;
use drowse_tests::harness::{Home, Session, at_once, belonging_to, in_both_eras};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Longer than any test.
const FOR_EVER: &str = "ms:=600000";

fn connect<'h>(home: &'h Home, era: &str) -> Session<'h> {
    home.connect("@s", &["--idle-timeout", "600"], &["--era", era])
}

/// The session lives: the same server, and nothing of the last call is left in it.
#[track_caller]
fn lives(session: &Session<'_>) {
    assert_eq!(session.call("tag", &["tag=after"]).ok().text(), "after");
    assert_eq!((session.starts(), session.executions("after")), (1, 1));
    assert_eq!(session.status()["inFlight"], 0);
    assert_eq!(session.listed()["status"], "live");
}

/// The tool with this tag ran once, and the server was told, once, that nobody wants its answer.
#[track_caller]
fn ran_once_and_was_cancelled(session: &Session<'_>, tag: &str) {
    session.wait_for(|entries| entries.iter().any(|entry| entry.is("cancelled", "tag", tag)));
    assert_eq!(session.executions(tag), 1);
    let cancels = session.methods().iter().filter(|method| *method == "notifications/cancelled").count();
    assert_eq!(cancels, 1);
}

#[track_caller]
fn check(failed: &Value, kind: &str, ran: &str) {
    assert_eq!((&failed["kind"], &failed["ran"]), (&json!(kind), &json!(ran)), "{failed}");
}

#[test]
fn a_time_out_cancels_one_request_and_the_session_lives() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era);
        let run = session.call("slow", &[FOR_EVER, "tag=a", "quiet:=true", "--timeout", "1"]);
        check(&run.fails(3), "timeout", "unknown");
        ran_once_and_was_cancelled(&session, "a");
        lives(&session);
    });
}

#[test]
fn the_sessions_own_time_out_is_the_real_one() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &["--timeout", "1"], &["--era", era]);
        let run = session.call("slow", &[FOR_EVER, "tag=a", "quiet:=true"]);
        assert!(run.took.as_millis() >= 1000);
        check(&run.fails(3), "timeout", "unknown");
        ran_once_and_was_cancelled(&session, "a");
        // One request may ask for more.
        let run = session.call("slow", &["ms:=1300", "quiet:=true", "--timeout", "60"]).ok();
        assert_eq!(run.text(), "slept 1300");
        lives(&session);
    });
}

/// `--json` or not, terminal or not: the bridge asks the server for progress, because it keeps the request alive.
#[test]
fn progress_starts_the_time_out_anew() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era);
        let run = session.call("slow", &["ms:=2500", "tag=a", "--timeout", "1"]).ok();
        assert_eq!(run.text(), "slept 2500");
        assert_eq!(session.executions("a"), 1);
        lives(&session);
    });
}

#[test]
fn ctrl_c_cancels_and_says_whether_it_may_have_run() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era);
        let call = session.start_call("slow", &[FOR_EVER, "tag=a"]);
        session.wait_for_run("a");
        call.signal(Signal::INT);
        check(&call.end().fails(130), "interrupted", "unknown");
        ran_once_and_was_cancelled(&session, "a");
        lives(&session);
        // For people as well.
        let call = home.start(["@s", "tools-call", "slow", FOR_EVER, "tag=b"]);
        session.wait_for_run("b");
        call.signal(Signal::INT);
        let run = call.end().exits(130);
        assert!(run.err.contains("may have run"), "{}", run.err);
    });
}

#[test]
fn ctrl_c_before_the_server_is_ready_ran_nothing() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &["--lazy"], &["--era", era, "--start-delay", "1500"]);
        let call = session.start_call("tag", &["tag=a"]);
        session.wait_for(|entries| !entries.is_empty());
        call.signal(Signal::INT);
        check(&call.end().fails(130), "interrupted", "no");
        // What was begun for it goes on, and the next call finds it.
        assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
        assert_eq!((session.starts(), session.executions("a"), session.executions("b")), (1, 0, 1));
        // A first connect that is interrupted leaves no session, and no server.
        let mut words = vec!["connect".to_owned(), "@new".to_owned(), "--json".to_owned(), "--".to_owned()];
        let new = home.session("@new");
        words.extend(new.server(&["--era", era, "--silent"]));
        let connect = home.start(words);
        new.wait_for(|entries| !entries.is_empty());
        connect.signal(Signal::INT);
        check(&connect.end().fails(130), "interrupted", "no");
        assert!(!new.exists());
        let new_journal = new.journal.path().to_owned();
        assert_eq!(belonging_to(&new_journal), [] as [u32; 0]);
    });
}

#[test]
fn a_caller_that_is_killed_is_cancelled() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era);
        let call = session.start_call("slow", &[FOR_EVER, "tag=a"]);
        let other = session.start_call("slow", &["ms:=500", "tag=b"]);
        session.wait_for_run("a");
        session.wait_for_run("b");
        call.signal(Signal::KILL);
        assert_eq!(call.end().code, -1);
        ran_once_and_was_cancelled(&session, "a");
        assert_eq!(other.end().ok().text(), "slept 500", "nobody else is");
        lives(&session);
    });
}

#[test]
fn a_server_that_dies_in_a_call_is_not_asked_again() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era);
        let waiting = session.start_call("slow", &[FOR_EVER, "tag=a"]);
        session.wait_for_run("a");
        let run = session.call("crash", &["tag=b"]);
        check(&run.fails(2), "server-lost", "unknown");
        check(&waiting.end().fails(2), "server-lost", "unknown");
        assert_eq!(session.listed()["status"], "crashed", "shown at once");
        // It worked before, so nobody waits: the next call wakes a fresh one.
        assert_eq!(session.call("tag", &["tag=c"]).ok().text(), "c");
        assert_eq!((session.starts(), ["a", "b", "c"].map(|tag| session.executions(tag))), (2, [1; 3]));
    });
}

/// What only reads may be issued anew, and is: nobody notices.
#[test]
fn a_server_that_dies_while_it_is_read_from_is_replaced() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era);
        let call = session.start_call("slow", &[FOR_EVER, "tag=a"]);
        session.wait_for_run("a");
        session.kill_server();
        let list = session.run(["tools-list"]).ok().json();
        assert!(list.as_array().is_some_and(|tools| !tools.is_empty()));
        check(&call.end().fails(2), "server-lost", "unknown");
        assert_eq!((session.starts(), session.executions("a")), (2, 1));
    });
}

#[test]
fn servers_that_leave_after_a_call() {
    in_both_eras(|era| {
        let flags = |more: &[&'static str]| [&["--era", era], more].concat();
        let home = Home::new();
        // Status 0 with nothing in flight, and an idle period: it only beat the timer to it.
        let idle = home.connect("@idle", &["--idle-timeout", "600"], &flags(&["--session-end", "exit0"]));
        assert_eq!(idle.call("tag", &["tag=a"]).ok().text(), "a");
        let state = idle.wait_until(|state| state.ended);
        assert_eq!((state.state, state.message), (State::Idle, None));
        // Without one it was to stay; with another status something went wrong.
        let stays = home.connect("@stays", &[], &flags(&["--session-end", "exit0"]));
        let fails = home.connect("@fails", &["--idle-timeout", "600"], &flags(&["--session-end", "exit3"]));
        for session in [&stays, &fails] {
            assert_eq!(session.call("tag", &["tag=a"]).ok().text(), "a", "the answer was there");
            assert_eq!(session.wait_until(|state| state.ended).state, State::Crashed);
        }
        for session in [&idle, &stays, &fails] {
            assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
            assert_eq!((session.starts(), session.executions("a"), session.executions("b")), (2, 1, 1));
        }
        // By itself, some time after.
        let bored =
            home.connect("@bored", &["--idle-timeout", "600"], &flags(&["--exit-after-idle-ms", "200"]));
        assert_eq!(bored.wait_until(|state| state.ended).state, State::Idle);
        assert_eq!(bored.call("tag", &["tag=a"]).ok().text(), "a");
    });
}

#[test]
fn a_server_that_closes_its_output_and_stays_is_ended() {
    in_both_eras(|era| {
        let home = Home::new();
        let entry = json!({"stopGraceSecs": 1});
        let flags = ["--era", era, "--close-stdout-and-stay", "--ignore-eof"];
        let session = home.connect_entry("@s", &[], entry, &flags);
        check(&session.call("tag", &["tag=a"]).fails(2), "server-lost", "unknown");
        let marker = session.state().unwrap().marker;
        // The next call waits until that one is gone: never two.
        check(&session.call("tag", &["tag=b"]).fails(2), "server-lost", "unknown");
        assert_eq!(drowse_runtime::process::marked(&marker).unwrap(), [] as [u32; 0]);
        assert_eq!((session.starts(), session.executions("a"), session.executions("b")), (2, 1, 1));
    });
}

#[test]
fn a_bridge_that_is_killed_in_a_call_takes_its_server_with_it() {
    in_both_eras(|era| {
        let home = Home::new();
        let entry = json!({"stopGraceSecs": 1});
        let flags = ["--era", era, "--ignore-eof", "--grandchild-setsid"];
        let session = home.connect_entry("@s", &[], entry, &flags);
        let marker = session.state().unwrap().marker;
        let call = session.start_call("slow", &[FOR_EVER, "tag=a"]);
        session.wait_for_run("a");
        session.kill_bridge();
        check(&call.end().fails(3), "bridge-lost", "unknown");
        assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
        assert_eq!(drowse_runtime::process::marked(&marker).unwrap(), [] as [u32; 0], "nothing of the first");
        assert_eq!((session.starts(), session.executions("a"), session.executions("b")), (2, 1, 1));
    });
}

/// A log-out, a shutdown: it ends its server first, and that is no crash.
#[test]
fn a_bridge_that_is_told_to_go_ends_its_server_first() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era);
        let call = session.start_call("slow", &[FOR_EVER, "tag=a"]);
        session.wait_for_run("a");
        session.tell_bridge_to_go();
        check(&call.end().fails(3), "shutting-down", "unknown");
        let state = session.wait_until_asleep();
        assert_eq!((state.crashes.len(), state.message), (0, None));
        let last = session.journal.entries().unwrap().last().unwrap().clone();
        assert!(last.is("exit", "why", "eof"), "{last:?}");
        assert_eq!(session.call("tag", &["tag=b"]).ok().text(), "b");
        assert_eq!((session.starts(), session.executions("a"), session.executions("b")), (2, 1, 1));
    });
}

#[test]
fn a_close_or_a_restart_in_a_call_fails_it_typed() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = connect(&home, era);
        let call = session.start_call("slow", &[FOR_EVER, "tag=a"]);
        session.wait_for_run("a");
        session.run(["restart"]).ok();
        check(&call.end().fails(3), "shutting-down", "unknown");
        assert_eq!((session.starts(), session.executions("a")), (2, 1));
        let call = session.start_call("slow", &[FOR_EVER, "tag=b"]);
        session.wait_for_run("b");
        session.run(["close"]).ok();
        check(&call.end().fails(3), "shutting-down", "unknown");
        assert_eq!((session.starts(), session.executions("b"), session.exists()), (2, 1, false));
        let run = session.call("tag", &["tag=c"]);
        assert_eq!(run.fails(1)["kind"], "no-session");
        assert_eq!(session.executions("c"), 0);
    });
}

/// One at a time is started, however many want it at once.
#[test]
fn many_callers_of_a_sleeping_session_start_one_server() {
    in_both_eras(|era| {
        let home = Home::new();
        let session = home.connect("@s", &["--lazy"], &["--era", era, "--start-delay", "200"]);
        let tags: Vec<String> = (0..8).map(|place| format!("t{place}")).collect();
        at_once(tags.iter().map(|tag| (tag.clone(), tag)), |tag| {
            assert_eq!(&session.call("tag", &[&format!("tag={tag}")]).ok().text(), tag);
        });
        assert_eq!(session.starts(), 1);
        assert!(tags.iter().all(|tag| session.executions(tag) == 1));
    });
}
