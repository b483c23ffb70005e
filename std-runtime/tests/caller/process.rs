//! C6 with a real process: what it inherits, what it is told, and how it is understood.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use drowse_runtime::caller::{BridgeProgram, CallError, Pin, Sessions, Wanted};
use drowse_runtime::home::Home;
use drowse_runtime::lock::Lock;
use drowse_runtime::wire::{BridgeConfig, Kind};

use crate::fake::{long, name, tool, wanted};

/// Sessions whose bridge is a shell script.
fn scripted(dir: &tempfile::TempDir, script: &str) -> Sessions {
    let path = dir.path().join("bridge");
    fs::write(&path, format!("#!/bin/sh\ncd {}\n{script}\n", dir.path().display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let home = Home::new(dir.path().join("home"), None);
    let program = BridgeProgram { program: "/bin/sh".into(), args: vec![path.into()] };
    Sessions::at(home).with_launcher(program)
}

fn registered(sessions: &Sessions, wanted: Wanted) {
    sessions.connect(&Wanted { lazy: Some(true), ..wanted }, long()).unwrap();
}

#[test]
fn a_bridge_gets_its_whole_configuration_and_lock_l() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = scripted(
        &dir,
        r#"cat > config
        fd=$(sed 's/.*"lockFd":\([0-9]*\).*/\1/' config)
        readlink /proc/$$/fd/$fd > lock
        ls -l /proc/$$/fd > descriptors
        echo '{"failed":{"kind":"start-failed","message":"only a script"}}'"#,
    );
    let mut wanted = wanted("s");
    // More than any pipe holds.
    let secret = "s".repeat(300_000);
    wanted.pins = vec![Pin::Value("BIG".into(), secret.clone())];
    registered(&sessions, wanted);
    let error = sessions.caller(&name("s"), long()).call(tool("{}")).unwrap_err();
    assert!(error.to_string().contains("only a script"), "{error}");
    let config: BridgeConfig = serde_json::from_slice(&fs::read(dir.path().join("config")).unwrap()).unwrap();
    assert_eq!(config.env, [("BIG".to_owned(), secret)]);
    assert_eq!((config.session.as_str(), config.command.as_str()), ("s", "server"));
    let lock = fs::read_to_string(dir.path().join("lock")).unwrap();
    assert_eq!(PathBuf::from(lock.trim()), sessions.home().start_lock(&name("s")));
    // Of ours it has the lock and, as its stderr, the log: nothing else.
    let open = fs::read_to_string(dir.path().join("descriptors")).unwrap();
    let home = sessions.home().root().to_str().unwrap();
    let mut open: Vec<&str> = open.lines().filter_map(|line| Some(line.split_once(" -> ")?.1)).collect();
    open.retain(|target| target.starts_with(home));
    open.sort_unstable();
    let (log, lock) = (sessions.home().log_file(&name("s")), sessions.home().start_lock(&name("s")));
    assert_eq!(open, [lock.to_str().unwrap(), log.to_str().unwrap()]);
}

#[test]
fn a_starting_bridge_keeps_lock_l_when_its_starter_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("go");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let sessions = scripted(&dir, "cat > config; echo $$ > pid; read line < go");
    registered(&sessions, wanted("s"));
    let l = sessions.home().start_lock(&name("s"));
    let (interrupt, mut raise) = std::io::pipe().unwrap();
    raise.write_all(b"x").unwrap();
    let wait = drowse_runtime::caller::Wait {
        deadline: None,
        interrupt: Some(std::os::fd::AsFd::as_fd(&interrupt)),
    };
    // Interrupted already, so it does not even get L.
    let error = sessions.caller(&name("s"), wait).call(tool("{}")).unwrap_err();
    assert!(matches!(error, CallError::Interrupted { .. }), "{error}");
    let short = drowse_runtime::caller::Wait::at_most(std::time::Duration::from_millis(500));
    let error = sessions.caller(&name("s"), short).call(tool("{}")).unwrap_err();
    assert!(matches!(error, CallError::Deadline { .. }), "{error}");
    assert!(Lock::try_acquire(&l).unwrap().is_none());
    let holder = drowse_runtime::lock::noted(&l).unwrap();
    assert_eq!(holder.pid.to_string(), fs::read_to_string(dir.path().join("pid")).unwrap().trim());
    fs::write(&fifo, "go\n").unwrap();
    drop(Lock::acquire(&l, long()).unwrap());
}

#[test]
fn a_bridge_that_says_nothing_is_a_failed_start_with_its_status() {
    for (script, says) in
        [("exit 7", "exit status: 7"), ("kill -9 $$", "signal: 9"), ("echo hello", "makes no sense")]
    {
        let dir = tempfile::tempdir().unwrap();
        let sessions = scripted(&dir, script);
        let error = sessions.connect(&wanted("s"), long()).unwrap_err();
        assert_eq!(error.kind(), Kind::StartFailed);
        assert!(error.to_string().contains(says), "{script}: {error}");
        assert!(!sessions.home().session(&name("s")).exists());
    }
}

#[test]
fn what_a_bridge_says_before_it_has_a_log_is_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = scripted(&dir, "echo 'thread main panicked' >&2; exit 101");
    registered(&sessions, wanted("s"));
    let error = sessions.caller(&name("s"), long()).call(tool("{}")).unwrap_err();
    let log = sessions.home().log_file(&name("s"));
    assert!(error.to_string().contains(log.to_str().unwrap()), "{error}");
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    // It was started more than once.
    assert!(fs::read_to_string(log).unwrap().starts_with("thread main panicked\nthread main panicked\n"));
}

#[test]
fn a_program_that_cannot_be_run_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path().join("home"), None);
    let program = BridgeProgram { program: dir.path().join("nothing"), args: vec![] };
    let sessions = Sessions::at(home).with_launcher(program);
    let error = sessions.connect(&wanted("s"), long()).unwrap_err();
    assert!(matches!(error, CallError::BridgeFailed { .. }), "{error}");
    assert!(!sessions.home().session(&name("s")).exists());
}

#[test]
fn a_bridge_that_never_reports_is_ended_by_its_starter() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = scripted(&dir, "exec sleep 1000");
    let mut wanted = wanted("s");
    wanted.settings.connect_timeout_ms = Some(10);
    wanted.settings.stop_grace_ms = Some(5);
    registered(&sessions, wanted);
    let error = sessions.caller(&name("s"), long()).call(tool("{}")).unwrap_err();
    assert!(error.to_string().contains("reported nothing"), "{error}");
    let l = sessions.home().start_lock(&name("s"));
    assert!(!drowse_runtime::lock::noted(&l).unwrap().is_alive());
    drop(Lock::acquire(&l, long()).unwrap());
}
