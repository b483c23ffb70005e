//! How fixture processes begin and end.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use drowse_tests::fixture::journal::Journal;
use rustix::process::{Signal, getsid, kill_process, test_kill_process};
use serde_json::json;

use super::peer::{LIMIT, Peer, call, discover, raw, text_of};

#[test]
fn the_journal_tells_who_started() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::at(directory.path().join("journal"));
    let mut peer = Peer::start_with(&[], journal, |command| _ = command.env("DROWSE_GENERATION", "abc"));
    assert_eq!(peer.call("pid", json!({})), peer.child.id().to_string());
    let entries = peer.journal.entries().unwrap();
    assert!(entries[0].is("start", "generation", "abc"), "{entries:?}");
    assert_eq!(entries[0].fields["ppid"], std::process::id());
    assert_eq!(peer.journal.starts().unwrap(), [peer.child.id()]);
}

#[test]
fn the_journal_gives_up_on_what_never_comes() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::at(directory.path().join("journal"));
    assert!(journal.entries().unwrap().is_empty());
    let error = journal.wait(std::time::Duration::from_millis(1), |_| false).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    journal.record("in", |_| {}).unwrap();
    assert_eq!(journal.wait(LIMIT, |entries| entries.len() == 1).unwrap()[0].pid, std::process::id());
    std::fs::write(journal.path(), "no event\n").unwrap();
    assert!(journal.entries().is_err());
}

#[test]
fn ignore_eof() {
    let mut peer = Peer::start(&["--ignore-eof"]);
    peer.send(&call(1, "slow", json!({"ms": 100})));
    peer.stdin = None;
    peer.wait(|entries| entries.iter().any(|entry| entry.event == "eof"));
    // Served after the end of input, so it did stay.
    assert_eq!(text_of(&peer.receive()), "slept 100");
    peer.signal(Signal::TERM);
    assert_eq!(peer.status().signal(), Some(15));
}

#[test]
fn ignore_term() {
    let mut peer = Peer::start(&["--ignore-term"]);
    peer.ask(&discover());
    for count in 1..=2 {
        peer.signal(Signal::TERM);
        peer.wait(|entries| {
            entries.iter().filter(|entry| entry.is("signal", "signal", "TERM")).count() == count
        });
    }
    assert_eq!(peer.call("echo", json!({"text": "hi"})), "hi");
    peer.signal(Signal::KILL);
    assert_eq!(peer.status().signal(), Some(9));
}

#[test]
fn without_ignore_term_it_ends() {
    let mut peer = Peer::start(&[]);
    peer.ask(&discover());
    peer.signal(Signal::TERM);
    assert_eq!(peer.status().signal(), Some(15));
}

#[test]
fn fork_and_exit_leaves_another_to_serve() {
    let mut peer = Peer::start(&["--fork-and-exit"]);
    assert_eq!(peer.status().code(), Some(0));
    let pid: u32 = peer.call("pid", json!({})).parse().unwrap();
    assert_ne!(pid, peer.child.id());
    let entries = peer.journal.entries().unwrap();
    assert!(entries.iter().any(|entry| entry.is("start", "role", "grandchild") && entry.pid == pid));
    assert_eq!(peer.journal.starts().unwrap(), [peer.child.id()]);
    assert!(peer.close().is_empty());
    assert_eq!(peer.why(), "eof");
}

#[test]
fn grandchild_setsid_leaves_one_behind() {
    let mut peer = Peer::start(&["--grandchild-setsid"]);
    peer.ask(&discover());
    let entries = peer.journal.entries().unwrap();
    let sleeper = entries.iter().find(|entry| entry.is("start", "role", "sleeper")).expect("a sleeper").pid;
    assert_eq!(getsid(Some(raw(sleeper))).unwrap(), raw(sleeper));
    // The end of output is seen although the sleeper lives: it does not hold the pipe.
    assert!(peer.close().is_empty());
    assert_eq!(peer.status().code(), Some(0));
    test_kill_process(raw(sleeper)).expect("it outlives the server");
    kill_process(raw(sleeper), Signal::KILL).unwrap();
}

#[test]
fn exit_after_idle_counts_from_the_last_work() {
    let mut peer = Peer::start(&["--exit-after-idle-ms", "60"]);
    assert!(peer.raw_line().is_none(), "it leaves although its input is open");
    assert_eq!(peer.status().code(), Some(0));
    assert_eq!(peer.why(), "idle");
    // The request is there before the process is, so that it cannot come too late.
    let (input, mut request) = std::io::pipe().unwrap();
    writeln!(request, "{}", call(1, "slow", json!({"ms": 600}))).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::at(directory.path().join("journal"));
    let flags = ["--exit-after-idle-ms", "250"];
    let mut busy = Peer::start_with(&flags, journal, |command| _ = command.stdin(input));
    assert_eq!(text_of(&busy.receive()), "slept 600");
    assert!(busy.raw_line().is_none());
    assert_eq!(busy.status().code(), Some(0));
}

#[test]
fn session_end_follows_the_first_call() {
    for (flag, status) in [("exit0", 0), ("exit7", 7)] {
        let mut peer = Peer::start(&["--session-end", flag]);
        peer.ask(&discover());
        assert_eq!(peer.call("echo", json!({"text": "bye"})), "bye");
        assert!(peer.raw_line().is_none());
        assert_eq!(peer.status().code(), Some(status));
        assert_eq!(peer.why(), "session-end");
    }
}

#[test]
fn exit_now_answers_and_crash_does_not() {
    let mut peer = Peer::start(&[]);
    assert_eq!(peer.call("exit_now", json!({"status": 9})), "bye");
    assert_eq!(peer.status().code(), Some(9));
    let mut peer = Peer::start(&[]);
    peer.send(&call(1, "crash", json!({"tag": "last words"})));
    assert!(peer.raw_line().is_none());
    assert_eq!(peer.status().signal(), Some(9));
    assert_eq!(peer.journal.executions("last words").unwrap(), 1);
}

#[test]
fn stderr_text_and_flood() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::at(directory.path().join("journal"));
    let flags = ["--stderr", "Hello from below", "--stderr-flood", "1000000"];
    let mut peer = Peer::start_with(&flags, journal, |command| _ = command.stderr(Stdio::piped()));
    let mut stderr = peer.child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).map(|_| text)
    });
    peer.ask(&discover());
    assert!(peer.close().is_empty());
    let text = reader.join().unwrap().unwrap();
    let flood = text.strip_prefix("Hello from below\n").unwrap().strip_suffix("flood ends\n").unwrap();
    assert_eq!(flood.len(), 1_000_000);
}
