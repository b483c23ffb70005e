//! A server that somebody traces: what it comes to is known only when the tracer lets go of it.
#![allow(unsafe_code)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::alone::{script, start};

const TRACED: &str = "DROWSE_TEST_TRACED";

#[test]
#[ignore = "a helper of the next one"]
fn tracer() {
    let pid: libc::pid_t = std::env::var(TRACED).unwrap().parse().unwrap();
    // SAFETY: it takes numbers only.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) };
    println!("\nseized {seized}");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn one_that_is_traced_keeps_nobody_from_going_on() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let tree = start(&script("cat"));
        let mut tracer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "traced::tracer", "--ignored", "--nocapture"])
            .env(TRACED, tree.control.pid().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(tracer.stdout.take().unwrap()).lines();
        let seized = lines.by_ref().map(Result::unwrap).find(|line| line.starts_with("seized")).unwrap();
        let input = tracer.stdin.take();
        if seized == "seized 0" {
            // Whoever asks again and again without a pause would never get to the end of the wait.
            let (over, is_over) = mpsc::channel::<()>();
            let watch = thread::spawn(move || {
                let _ = is_over.recv_timeout(Duration::from_secs(10));
                drop(input);
            });
            drop(tree.stdin);
            let wait = tokio::time::timeout(Duration::from_millis(500), tree.control.exited());
            assert!(wait.await.is_err(), "its tracer has it");
            drop(over);
            watch.join().unwrap();
        } else {
            // Not allowed here.
            drop((input, tree.stdin));
        }
        let exited = tokio::time::timeout(Duration::from_secs(60), tree.control.exited());
        assert!(exited.await.unwrap().success());
        tree.control.kill();
        tokio::time::timeout(Duration::from_secs(60), tree.control.gone()).await.unwrap();
        tracer.wait().unwrap();
    });
}
