//! C3 to C6: locks, leftovers, starts and their failures.

use std::fs;
use std::io::{BufRead, BufReader, Write, pipe};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use drowse_runtime::caller::{CallError, Environment, ExitClass, Outcome, Wait};
use drowse_runtime::home::Home;
use drowse_runtime::lock::Lock;
use drowse_runtime::process::{GENERATION_VARIABLE, ProcessIdentity, new_marker};
use drowse_runtime::record::{self, EraMemory, State, StateRecord, now_ms};
use drowse_runtime::wire::{Kind, Ran};

use crate::fake::{Life, World, long, name, wanted};

/// A process that stays until it is killed, and is collected at the end of the test.
struct Stays(Child);

impl Stays {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn with_marker(marker: &str) -> Self {
        Self::start(Command::new("cat").env(GENERATION_VARIABLE, marker))
    }

    fn identity(&self) -> ProcessIdentity {
        ProcessIdentity::of(self.0.id()).unwrap()
    }

    fn is_there(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Stays {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_sleeping_session_wakes_once_however_many_call() {
    let world = World::new();
    world.dormant();
    thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| world.call().unwrap());
        }
    });
    assert_eq!((world.launches(), world.executed()), (1, 12));
}

#[test]
fn a_stale_socket_is_no_obstacle() {
    let world = World::new();
    world.dormant();
    let socket = world.home().socket_file(&name("s"));
    drop(UnixListener::bind(&socket).unwrap());
    world.call().unwrap();
    world.sessions.restart(&name("s"), &Environment::default(), long()).unwrap();
    world.sessions.close(&name("s"), long()).unwrap();
    // Nor is a file of another kind.
    world.dormant();
    fs::write(&socket, "not a socket").unwrap();
    world.call().unwrap();
    assert_eq!(world.executed(), 2);
}

#[test]
fn a_socket_of_another_program_is_no_bridge() {
    let world = World::new();
    world.dormant();
    let stranger = UnixListener::bind(world.home().socket_file(&name("s"))).unwrap();
    let greeter = thread::spawn(move || {
        // C1, and again with L held; then the path is another's.
        for _ in 0..2 {
            stranger.accept().unwrap().0.write_all(b"SSH-2.0-x\r\n").unwrap();
        }
    });
    world.call().unwrap();
    greeter.join().unwrap();
    assert_eq!((world.launches(), world.executed()), (1, 1));
}

#[test]
fn a_long_home_works_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path().join("h".repeat(120)).join("i".repeat(120)), None);
    let world = World::at(dir, home);
    assert!(world.home().socket_file(&name("s")).as_os_str().len() > 240);
    world.dormant();
    world.call().unwrap();
    world.call().unwrap();
    world.sessions.close(&name("s"), long()).unwrap();
    assert_eq!((world.launches(), world.executed()), (1, 2));
}

#[test]
fn locks_and_sockets_in_a_runtime_directory() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = dir.path().join("rt");
    let home = Home::new(dir.path().join("home"), Some(runtime.clone()));
    let world = World::at(dir, home);
    world.awake().call().unwrap();
    assert!(world.home().socket_file(&name("s")).starts_with(&runtime));
    assert!(!world.home().root().join("locks").exists());
    assert_eq!(world.config(0).runtime.as_deref(), world.home().runtime());
    world.sessions.close(&name("s"), long()).unwrap();
    assert!(!world.home().socket_file(&name("s")).exists());
}

#[test]
fn what_a_killed_bridge_left_is_ended_before_the_next_start() {
    let world = World::new();
    world.dormant();
    let marker = new_marker();
    let mut leftover = Stays::with_marker(&marker);
    let state = StateRecord {
        generation: 4,
        marker,
        state: State::Live,
        ended: false,
        era: Some(EraMemory { era: "legacy".into(), protocol_version: "2025-06-18".into() }),
        ..StateRecord::dormant()
    };
    world.write_state(&state);
    world.call().unwrap();
    assert!(!leftover.is_there());
    let config = world.config(0);
    assert_eq!((config.generation, config.era), (4, state.era));
}

#[test]
fn what_ended_or_was_of_another_boot_is_not_looked_for() {
    let here = ProcessIdentity::of_self().unwrap();
    let before = ProcessIdentity { boot_id: "00000000-0000".into(), ..here };
    for (ended, bridge) in [(true, None), (false, Some(before))] {
        let world = World::new();
        world.dormant();
        let marker = new_marker();
        let mut other = Stays::with_marker(&marker);
        world.write_state(&StateRecord { marker, ended, bridge, ..StateRecord::dormant() });
        world.call().unwrap();
        assert!(other.is_there());
    }
}

#[test]
fn crash_back_off_fails_at_once_and_restart_forgives_it() {
    let world = World::new();
    world.dormant();
    world.write_state(&StateRecord {
        state: State::Crashed,
        crashes: vec![now_ms(); 5],
        message: Some("exit status 3".into()),
        stderr: Some("panic!".into()),
        ..StateRecord::dormant()
    });
    let error = world.call().unwrap_err();
    assert_eq!(
        (error.kind(), error.ran(), error.exit()),
        (Kind::BackingOff, Some(Ran::No), ExitClass::Server)
    );
    assert_eq!(error.stderr(), Some("panic!"));
    assert_eq!(world.launches(), 0);
    let restarted = world.sessions.restart(&name("s"), &Environment::default(), long()).unwrap();
    assert_eq!(restarted.outcome, Outcome::Restarted);
    assert!(world.config(0).crashes.is_empty());
    world.call().unwrap();
}

#[test]
fn a_crash_that_is_over_is_told_to_the_next_bridge() {
    let world = World::new();
    world.dormant();
    world.write_state(&StateRecord { state: State::Crashed, crashes: vec![7], ..StateRecord::dormant() });
    world.call().unwrap();
    assert_eq!(world.config(0).crashes, [7]);
}

#[test]
fn a_start_that_fails_says_why_and_keeps_a_session_that_was_there() {
    let world = World::new();
    world.dormant();
    world.next(Life::Fails("npx is not in PATH"));
    let error = world.call().unwrap_err();
    assert_eq!(
        (error.kind(), error.ran(), error.exit()),
        (Kind::StartFailed, Some(Ran::No), ExitClass::Server)
    );
    assert!(error.to_string().contains("npx is not in PATH"), "{error}");
    assert_eq!(error.stderr(), Some("last words"));
    world.call().unwrap();
    assert_eq!((world.launches(), world.executed()), (2, 1));
}

#[test]
fn a_bridge_that_ends_without_a_word_is_started_again_but_not_for_ever() {
    let world = World::new();
    world.dormant();
    world.next(Life::Mute);
    world.call().unwrap();
    assert_eq!((world.launches(), world.executed()), (2, 1));
    world.sessions.close(&name("s"), long()).unwrap();
    world.dormant();
    for _ in 0..3 {
        world.next(Life::Mute);
    }
    let error = world.call().unwrap_err();
    assert!(matches!(error, CallError::BridgeFailed { .. }), "{error}");
    assert_eq!((error.kind(), error.ran()), (Kind::StartFailed, Some(Ran::No)));
    assert_eq!((world.launches(), world.executed()), (5, 1));
}

#[test]
fn waiting_for_another_starter_ends_at_the_deadline_or_interrupt() {
    let world = World::new();
    world.dormant();
    let held = Lock::try_acquire(&world.home().start_lock(&name("s"))).unwrap().unwrap();
    let error = world.call_within(Wait::at_most(Duration::ZERO)).unwrap_err();
    assert!(matches!(error, CallError::Deadline { ran: Ran::No, .. }), "{error}");
    let (interrupt, mut raise) = pipe().unwrap();
    raise.write_all(b"x").unwrap();
    let error = world.call_within(Wait { deadline: None, interrupt: Some(interrupt.as_fd()) }).unwrap_err();
    assert!(matches!(error, CallError::Interrupted { ran: Ran::No }), "{error}");
    drop(held);
    world.call().unwrap();
    assert_eq!((world.launches(), world.executed()), (1, 1));
}

#[test]
fn an_interrupted_start_goes_on_for_the_next_caller() {
    let world = World::new();
    world.dormant();
    world.next(Life::NeverReady);
    let (interrupt, mut raise) = pipe().unwrap();
    let wait = Wait { deadline: None, interrupt: Some(interrupt.as_fd()) };
    thread::scope(|scope| {
        let call = scope.spawn(|| world.call_within(wait));
        world.hear("listening");
        raise.write_all(b"x").unwrap();
        let error = call.join().unwrap().unwrap_err();
        assert!(matches!(error, CallError::Interrupted { ran: Ran::No }), "{error}");
    });
    // It still holds L, which its starter has given up, and answers its hello.
    assert!(Lock::try_acquire(&world.home().start_lock(&name("s"))).unwrap().is_none());
    world.call().unwrap();
    assert_eq!((world.launches(), world.executed()), (1, 1));
}

/// A process that holds a lock, and does nothing else.
fn holder(lock: &Path) -> Stays {
    let lock = Lock::try_acquire(lock).unwrap().unwrap();
    let mut command = Command::new("cat");
    lock.hand_down(&mut command);
    Stays::start(&mut command)
}

/// A process that holds lock B, and is the bridge by the records.
fn recorded_holder(world: &World) -> Stays {
    let holder = holder(&world.home().bridge_lock(&name("s")));
    let bridge = Some(holder.identity());
    world.write_state(&StateRecord { state: State::Live, bridge, ..StateRecord::dormant() });
    holder
}

/// A session that waits for nothing long.
fn impatient(world: &World) {
    let mut wanted = wanted("s");
    wanted.settings.connect_timeout_ms = Some(1_000);
    wanted.settings.stop_grace_ms = Some(50);
    wanted.lazy = Some(true);
    world.connect(&wanted).unwrap();
}

#[test]
fn a_wedged_bridge_is_ended_by_identity_and_replaced() {
    for stopped in [false, true] {
        let world = World::new();
        impatient(&world);
        let mut wedged = recorded_holder(&world);
        if stopped {
            // Deaf to TERM.
            let pid = rustix::process::Pid::from_raw(wedged.0.id().try_into().unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        }
        // It even listens, but never answers.
        let _listener = UnixListener::bind(world.home().socket_file(&name("s"))).unwrap();
        world.call().unwrap();
        assert!(!wedged.is_there());
        assert_eq!((world.launches(), world.executed()), (1, 1));
    }
}

#[test]
fn a_bridge_that_is_wedged_before_it_wrote_anything_is_known_by_its_starters_note() {
    let world = World::new();
    impatient(&world);
    let mut wedged = holder(&world.home().bridge_lock(&name("s")));
    let l = Lock::try_acquire(&world.home().start_lock(&name("s"))).unwrap().unwrap();
    l.note(&wedged.identity()).unwrap();
    drop(l);
    world.call().unwrap();
    assert!(!wedged.is_there());
    assert_eq!((world.launches(), world.executed()), (1, 1));
}

#[test]
fn a_holder_that_is_not_the_bridge_of_the_record_is_never_signalled() {
    let world = World::new();
    impatient(&world);
    let mut stranger = holder(&world.home().bridge_lock(&name("s")));
    let mut bystander = Stays::start(&mut Command::new("cat"));
    // The number is the stranger's, the start is another's: a pid that was used again.
    let again = ProcessIdentity { started: 1, ..stranger.identity() };
    // A living process that does not hold the lock.
    let other = bystander.identity();
    for bridge in [None, Some(again), Some(other)] {
        world.write_state(&StateRecord { state: State::Live, bridge, ..StateRecord::dormant() });
        let error = world.call().unwrap_err();
        assert!(matches!(error, CallError::Wedged { .. }), "{error}");
        assert!(error.to_string().contains("fuser"), "{error}");
        assert!(stranger.is_there() && bystander.is_there());
    }
    assert_eq!(world.launches(), 0);
}

#[test]
fn a_healthy_bridge_that_could_not_be_greeted_at_first_is_not_waited_for_nor_ended() {
    let world = World::new();
    world.dormant();
    // It holds B, and begins to listen only when two connects have failed.
    let mut bridge = recorded_holder(&world);
    let path = world.home().socket_file(&name("s"));
    let shared = std::sync::Arc::clone(&world.shared);
    thread::scope(|scope| {
        let call = scope.spawn(|| world.call());
        // L is held: the caller is in C4.
        let l = world.home().start_lock(&name("s"));
        while Lock::try_acquire(&l).unwrap().is_some() {
            thread::yield_now();
        }
        let listener = UnixListener::bind(path).unwrap();
        scope.spawn(move || crate::fake::serve_one_connection(&listener, &shared));
        call.join().unwrap().unwrap();
    });
    assert!(bridge.is_there());
    assert_eq!((world.launches(), world.executed()), (0, 1));
}

#[test]
fn a_wedged_bridge_that_still_holds_l_is_ended_by_those_who_wait() {
    let world = World::new();
    let mut wanted = wanted("s");
    wanted.settings.connect_timeout_ms = Some(10);
    wanted.settings.stop_grace_ms = Some(5);
    wanted.lazy = Some(true);
    world.connect(&wanted).unwrap();
    let path = world.home().start_lock(&name("s"));
    let lock = Lock::try_acquire(&path).unwrap().unwrap();
    let mut command = Command::new("cat");
    lock.hand_down(&mut command);
    let mut wedged = Stays::start(&mut command);
    drop(command);
    lock.note(&wedged.identity()).unwrap();
    drop(lock);
    world
        .sessions
        .caller(&name("s"), Wait::at_most(Duration::from_secs(60)))
        .call(crate::fake::tool("{}"))
        .unwrap();
    assert!(!wedged.is_there());
    assert_eq!((world.launches(), world.executed()), (1, 1));
}

#[test]
fn a_callers_own_deadline_ends_no_bridge() {
    let world = World::new();
    world.dormant();
    let mut slow = recorded_holder(&world);
    let error = world.call_within(Wait::at_most(Duration::from_millis(100))).unwrap_err();
    assert!(matches!(error, CallError::Deadline { ran: Ran::No, .. }), "{error}");
    assert!(slow.is_there());
    // Its end is all that the next one waits for.
    drop(slow);
    world.call().unwrap();
}

/// A bridge that speaks another version of the hello, and ends when it is asked to leave.
fn bridge_of_another_version(world: &World, bridge: Stays) -> thread::JoinHandle<()> {
    let listener = UnixListener::bind(world.home().socket_file(&name("s"))).unwrap();
    thread::spawn(move || {
        loop {
            let mut stream = listener.accept().unwrap().0;
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            if line.contains("\"leave\"") {
                assert_eq!(line, "{\"drowse\":{\"leave\":{}}}\n");
                drop(bridge);
                return;
            }
            let refused =
                "{\"drowse\":{\"refused\":{\"versions\":[9],\"reason\":\"speaks 9\",\"inFlight\":2}}}\n";
            stream.write_all(refused.as_bytes()).unwrap();
        }
    })
}

#[test]
fn a_bridge_of_another_version_is_asked_to_leave_and_replaced() {
    let world = World::new();
    world.dormant();
    let bridge = recorded_holder(&world);
    let other = bridge_of_another_version(&world, bridge);
    world.call().unwrap();
    other.join().unwrap();
    assert_eq!((world.launches(), world.executed()), (1, 1));
}

#[test]
fn a_bridge_of_another_version_that_does_not_leave_is_left_alone() {
    let world = World::new();
    impatient(&world);
    let mut bridge = recorded_holder(&world);
    let listener = UnixListener::bind(world.home().socket_file(&name("s"))).unwrap();
    // It ends with the test program.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let refused =
                "{\"drowse\":{\"refused\":{\"versions\":[9],\"reason\":\"speaks 9\",\"inFlight\":0}}}\n";
            let _ = stream.unwrap().write_all(refused.as_bytes());
        }
    });
    let error = world.call().unwrap_err();
    assert!(matches!(error, CallError::OtherVersion { .. }), "{error}");
    assert!(
        error.to_string().contains("speaks 9") && error.to_string().contains("drowse restart @s"),
        "{error}"
    );
    assert!(bridge.is_there());
    assert_eq!(world.launches(), 0);
}

#[test]
fn damaged_states_are_written_anew_and_newer_ones_are_named() {
    let world = World::new();
    world.dormant();
    let file = world.home().state_file(&name("s"));
    let damaged = "{\"schema\":1,\"generation\":41,\"mar";
    fs::write(&file, damaged).unwrap();
    assert_eq!(world.sessions.take_rebuilt(), []);
    world.call().unwrap();
    let rebuilt = world.sessions.take_rebuilt();
    let [one] = &rebuilt[..] else { panic!("{rebuilt:?}") };
    assert_eq!(one.session, name("s"));
    assert_eq!(fs::read_to_string(&one.aside).unwrap(), damaged);
    assert_eq!(world.sessions.take_rebuilt(), [], "it is told once");
    world.sessions.close(&name("s"), long()).unwrap();
    world.dormant();
    fs::write(&file, "{\"schema\":2}").unwrap();
    let error = world.call().unwrap_err().to_string();
    assert!(error.contains("newer drowse"), "{error}");
}

#[test]
fn nothing_is_made_for_a_session_that_is_not_there() {
    let world = World::new();
    let error = world.call().unwrap_err();
    assert_eq!((error.kind(), error.ran(), error.exit()), (Kind::NoSession, Some(Ran::No), ExitClass::Usage));
    assert!(!world.home().root().exists());
    let mut other = wanted("session");
    other.lazy = Some(true);
    world.connect(&other).unwrap();
    let locks = || fs::read_dir(world.home().root().join("locks")).unwrap().count();
    let before = locks();
    let error = world.sessions.caller(&name("sesion"), long()).call(crate::fake::tool("{}")).unwrap_err();
    assert!(error.to_string().ends_with("did you mean @session?"), "{error}");
    assert!(world.sessions.close(&name("nothing-like-it"), long()).is_err());
    assert_eq!(locks(), before);
    assert_eq!(record::names(world.home()).unwrap().len(), 1);
}
