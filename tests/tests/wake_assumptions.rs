//! What the wake model takes for granted about the kernel, asked of the kernel that runs this.

#![cfg(target_os = "linux")]

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A process that has a copy of this open file description until it is killed, or reads the end of its input.
fn holder(of: &File) -> Child {
    let copy = of.try_clone().expect("duplicate a descriptor");
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::from(copy)).spawn().expect("run cat")
}

fn open(dir: &TempDir) -> File {
    File::create(dir.path().join("lock")).expect("open the lock file")
}

fn taken(dir: &TempDir) -> bool {
    matches!(open(dir).try_lock(), Err(TryLockError::WouldBlock))
}

/// C6: the bridge keeps L for a starter that is gone, and the kernel frees it when the bridge is gone as well.
#[test]
fn a_lock_lives_as_long_as_the_last_copy_of_its_description() {
    let dir = TempDir::new().expect("a directory");
    let lock = open(&dir);
    lock.lock().expect("lock");
    let mut bridge = holder(&lock);
    drop(lock);
    assert!(taken(&dir), "the child's copy holds the lock");
    bridge.kill().expect("kill");
    bridge.wait().expect("wait");
    // Waits rather than tries: between fork and exec another test's child may have a copy for an instant.
    open(&dir).lock().expect("nobody is left to hold it");
}

/// C6: why a starter must close its copy of L and never unlock it.
#[test]
fn unlocking_one_copy_unlocks_them_all() {
    let dir = TempDir::new().expect("a directory");
    let lock = open(&dir);
    lock.lock().expect("lock");
    let mut bridge = holder(&lock);
    lock.unlock().expect("unlock");
    assert!(!taken(&dir), "the child's copy holds nothing any more");
    bridge.kill().expect("kill");
    bridge.wait().expect("wait");
}

/// Two openings of one lock file exclude each other within one process, so a gateway may be many callers.
#[test]
fn two_openings_exclude_each_other_in_one_process() {
    let dir = TempDir::new().expect("a directory");
    let lock = open(&dir);
    lock.lock().expect("lock");
    assert!(taken(&dir));
}

/// C2 and D3: GOAWAY reaches a caller whose operation the bridge never read, whether it was sent before the connection
/// was closed or could not be sent any more.
#[test]
fn what_a_dead_peer_sent_stays_readable() {
    for sent_before in [true, false] {
        let (mut caller, mut bridge) = UnixStream::pair().expect("a pair");
        if sent_before {
            caller.write_all(b"operation\n").expect("send");
        }
        bridge.write_all(b"goaway\n").expect("send");
        drop(bridge);
        if !sent_before {
            let error = caller.write_all(b"operation\n").expect_err("the peer is gone");
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        }
        let mut read = [0; 64];
        let count = caller.read(&mut read).expect("what was sent stays readable");
        assert_eq!(&read[..count], b"goaway\n");
        // With something unread left at the peer this is a reset, else an end. Both mean that no more will come.
        match caller.read(&mut read) {
            Ok(count) => assert_eq!((count, sent_before), (0, false)),
            Err(error) => assert_eq!((error.kind(), sent_before), (ErrorKind::ConnectionReset, true)),
        }
    }
}

/// C1: an operation is taken back by shutting the receiving side, or by ending: from there on the bridge cannot answer the
/// hello, and what it had answered before is still there.
#[test]
fn who_does_not_receive_any_more_is_not_answered() {
    for answered_before in [true, false] {
        let (mut caller, mut bridge) = UnixStream::pair().expect("a pair");
        caller.write_all(b"hello\noperation\n").expect("send");
        if answered_before {
            bridge.write_all(b"welcome\n").expect("send");
        }
        caller.shutdown(Shutdown::Read).expect("shut");
        let error = bridge.write_all(b"welcome\n").expect_err("nobody receives");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        let mut read = [0; 64];
        let count = caller.read(&mut read).expect("what was sent stays readable, and then the end");
        assert_eq!(&read[..count], if answered_before { &b"welcome\n"[..] } else { b"" });
    }
    let (mut caller, mut bridge) = UnixStream::pair().expect("a pair");
    caller.write_all(b"hello\noperation\n").expect("send");
    drop(caller);
    let error = bridge.write_all(b"welcome\n").expect_err("nobody is there");
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

/// C1: a connect succeeds before anybody accepts, so only the hello's answer says that somebody is there.
#[test]
fn a_connection_that_nobody_accepted_ends_with_the_listener() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("sock");
    let listener = UnixListener::bind(&path).expect("bind");
    let mut caller = UnixStream::connect(&path).expect("connect");
    caller.write_all(b"hello\n").expect("send");
    drop(listener);
    let error = caller.read(&mut [0; 64]).expect_err("it was never accepted");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let error = UnixStream::connect(&path).expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}
