//! connect, restart, close, clean, list.

use std::fs;
use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use drowse_runtime::caller::{CallError, Environment, ExitClass, Outcome, Pin, Wait, Wanted, WantedTarget};
use drowse_runtime::home::Home;
use drowse_runtime::lock::Lock;
use drowse_runtime::process::{ProcessIdentity, new_marker};
use drowse_runtime::record::{self, State, StateRecord};
use drowse_runtime::wire::{Kind, Ran};

use crate::fake::{After, Life, World, in_order, long, name, wanted};

fn exists(world: &World, session: &str) -> bool {
    world.home().session(&name(session)).exists()
}

#[test]
fn connect_makes_a_session_and_asks_its_server_who_it_is() {
    let world = World::new();
    let connected = world.connect(&wanted("s")).unwrap();
    assert_eq!(connected.outcome, Outcome::Created);
    assert!(connected.info.unwrap().as_bytes().starts_with(b"{\"era\":\"modern\""));
    let listed = world.sessions.get(&name("s")).unwrap();
    assert_eq!(listed.record.unwrap().describe(), "server --stdio");
    let again = world.connect(&wanted("s")).unwrap();
    assert_eq!(again.outcome, Outcome::AlreadyAwake);
    assert_eq!((world.launches(), world.executed()), (1, 0));
}

#[test]
fn lazy_only_writes_the_records() {
    let world = World::new();
    let connected = world.connect(&Wanted { lazy: Some(true), ..wanted("s") }).unwrap();
    assert_eq!((connected.outcome, world.launches()), (Outcome::Registered, 0));
    assert!(connected.info.is_none());
    assert_eq!(world.sessions.get(&name("s")).unwrap().state, State::Dormant);
    let again = world.connect(&Wanted { lazy: Some(true), ..wanted("s") }).unwrap();
    assert_eq!((again.outcome, world.launches()), (Outcome::Updated, 0));
    let woken = world.connect(&wanted("s")).unwrap();
    assert_eq!((woken.outcome, world.launches()), (Outcome::Woken, 1));
}

#[test]
fn auto_connect_false_is_lazy_unless_said_otherwise() {
    let world = World::new();
    let file = world.dir.path().join("mcp.json");
    fs::write(&file, r#"{"mcpServers":{"e":{"command":"c","autoConnect":false,"idleTimeoutSecs":9}}}"#)
        .unwrap();
    let mut wanted = wanted("s");
    wanted.target = WantedTarget::Entry { file, entry: "e".into() };
    assert_eq!(world.connect(&wanted).unwrap().outcome, Outcome::Registered);
    assert_eq!(world.connect(&wanted).unwrap().outcome, Outcome::Updated);
    assert_eq!(world.launches(), 0);
    wanted.lazy = Some(false);
    assert_eq!(world.connect(&wanted).unwrap().outcome, Outcome::Woken);
    assert_eq!(world.config(0).idle_timeout_secs, 9);
}

#[test]
fn two_connects_of_one_name_at_once_make_one_session() {
    for _ in 0..8 {
        let world = World::new();
        let mut outcomes = thread::scope(|scope| {
            let connects = [(); 4].map(|()| scope.spawn(|| world.connect(&wanted("s")).unwrap().outcome));
            connects.map(|connect| format!("{:?}", connect.join().unwrap()))
        });
        outcomes.sort();
        assert_eq!(outcomes, ["AlreadyAwake", "AlreadyAwake", "AlreadyAwake", "Created"]);
        assert_eq!(world.launches(), 1);
    }
}

#[test]
fn two_connects_of_one_name_with_two_targets_make_one_session() {
    let world = World::new();
    let other =
        Wanted { target: WantedTarget::Command { command: "another".into(), args: vec![] }, ..wanted("s") };
    let (a, b) = thread::scope(|scope| {
        let a = scope.spawn(|| world.connect(&wanted("s")));
        let b = scope.spawn(|| world.connect(&other));
        (a.join().unwrap(), b.join().unwrap())
    });
    let error = match (a, b) {
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => error,
        both => panic!("{both:?}"),
    };
    assert_eq!((error.kind(), error.exit()), (Kind::NameTaken, ExitClass::Usage));
    assert!(error.to_string().contains("drowse close @s"), "{error}");
    assert_eq!(world.launches(), 1);
}

#[test]
fn a_first_connect_that_fails_leaves_nothing() {
    type Make = fn() -> Vec<Life>;
    let lives: [Make; 3] = [
        || vec![Life::Fails("no such program")],
        || vec![Life::Mute, Life::Mute, Life::Mute],
        || {
            vec![Life::serve(|conn, shared| {
                // Ready, and then its server dies before it says who it is.
                conn.hello();
                let request = conn.message().unwrap();
                if request["method"] != "drowse/info" {
                    return crate::fake::serve_one(conn, shared, &request).unwrap_or(After::Live);
                }
                let data = r#"{"drowse":{"kind":"server-lost","ran":"unknown"}}"#;
                conn.refuse(&request, &format!(r#"{{"code":-32000,"message":"gone","data":{data}}}"#));
                After::Live
            })]
        },
    ];
    for lives in lives {
        let world = World::new();
        lives().into_iter().for_each(|life| world.next(life));
        let mut wanted = wanted("s");
        wanted.settings.stop_grace_ms = Some(50);
        let error = world.connect(&wanted).unwrap_err();
        assert_eq!(error.exit(), ExitClass::Server, "{error}");
        assert!(!exists(&world, "s"));
        world.bridge_is_gone();
        drop(Lock::acquire(&world.home().start_lock(&name("s")), long()).unwrap());
        // The name is free for anything.
        wanted.target = WantedTarget::Command { command: "another".into(), args: vec![] };
        assert_eq!(world.connect(&wanted).unwrap().outcome, Outcome::Created);
    }
}

#[test]
fn a_first_connect_that_is_cut_short_ends_what_it_started() {
    let world = World::new();
    world.next(Life::NeverReady);
    let error = world.sessions.connect(&wanted("s"), Wait::at_most(Duration::from_millis(300))).unwrap_err();
    assert!(matches!(error, CallError::Deadline { ran: Ran::No, .. }), "{error}");
    assert!(!exists(&world, "s"));
    world.bridge_is_gone();
    assert_eq!(world.launches(), 1);
}

#[test]
fn a_configuration_that_cannot_be_used_touches_nothing() {
    let world = World::new();
    let file = world.dir.path().join("mcp.json");
    fs::write(
        &file,
        r#"{"mcpServers":{"web":{"url":"ws://x/mcp"},"v":{"command":"c","args":["${UNSET_VAR}"]}}}"#,
    )
    .unwrap();
    let mut wanted = wanted("s");
    for (entry, says) in [("web", "not ws://"), ("v", "UNSET_VAR"), ("wob", "did you mean `web`")] {
        wanted.target = WantedTarget::Entry { file: file.clone(), entry: entry.into() };
        let error = world.connect(&wanted).unwrap_err();
        assert_eq!((error.kind(), error.exit()), (Kind::Config, ExitClass::Usage));
        assert!(error.to_string().contains(says), "{error}");
    }
    wanted.target = WantedTarget::Entry { file: world.dir.path().join("none.json"), entry: "x".into() };
    assert!(world.connect(&wanted).unwrap_err().to_string().contains("there is no file"));
    assert!(!world.home().root().exists());
}

#[test]
fn settings_are_kept_except_those_given_now() {
    let world = World::new();
    let mut first = wanted("s");
    first.settings.idle_timeout_secs = Some(60);
    first.pins = vec![Pin::Value("TOKEN".into(), "one".into())];
    world.connect(&first).unwrap();
    assert_eq!(world.config(0).env, [("TOKEN".to_owned(), "one".to_owned())]);
    assert_eq!(world.connect(&wanted("s")).unwrap().outcome, Outcome::AlreadyAwake);
    let mut second = wanted("s");
    second.settings.timeout_ms = Some(5_000);
    let changed = world.connect(&second).unwrap();
    assert_eq!(changed.outcome, Outcome::Restarted);
    let config = world.config(1);
    assert_eq!((config.idle_timeout_secs, config.timeout_ms), (60, 5_000));
    assert_eq!(config.env, [("TOKEN".to_owned(), "one".to_owned())]);
    let mut zero = wanted("s");
    zero.settings.idle_timeout_secs = Some(0);
    zero.pins = vec![Pin::Value("TOKEN".into(), "two".into())];
    let changed = world.connect(&zero).unwrap();
    assert_eq!(changed.record.settings.idle_timeout_secs, Some(0));
    assert_eq!(world.config(2).env, [("TOKEN".to_owned(), "two".to_owned())]);
    let record = fs::read_to_string(world.home().session_file(&name("s"))).unwrap();
    assert!(!record.contains("two"), "{record}");
}

#[test]
fn restart_reads_the_entry_again_and_a_broken_one_stops_nothing() {
    let world = World::new();
    let file = world.dir.path().join("mcp.json");
    fs::write(&file, r#"{"mcpServers":{"e":{"command":"one","idleTimeoutSecs":1}}}"#).unwrap();
    let mut wanted = wanted("s");
    wanted.target = WantedTarget::Entry { file: file.clone(), entry: "e".into() };
    wanted.settings.timeout_ms = Some(7_000);
    world.connect(&wanted).unwrap();
    fs::write(&file, "{").unwrap();
    let restart = || world.sessions.restart(&name("s"), &Environment::default(), long());
    assert_eq!(restart().unwrap_err().kind(), Kind::Config);
    world.call().unwrap();
    assert_eq!(world.launches(), 1);
    fs::write(&file, r#"{"mcpServers":{"e":{"command":"two","idleTimeoutSecs":2,"timeout":9}}}"#).unwrap();
    assert_eq!(restart().unwrap().outcome, Outcome::Restarted);
    let config = world.config(1);
    assert_eq!((config.command.as_str(), config.idle_timeout_secs, config.timeout_ms), ("two", 2, 7_000));
    assert_eq!(config.generation, 1);
    world.call().unwrap();
    assert_eq!((world.launches(), world.executed()), (2, 2));
}

#[test]
fn close_forgets_the_session_and_keeps_its_locks() {
    let world = World::new();
    world.awake();
    world.sessions.close(&name("s"), long()).unwrap();
    assert!(!exists(&world, "s"));
    assert!(world.home().start_lock(&name("s")).exists() && world.home().bridge_lock(&name("s")).exists());
    assert!(Lock::try_acquire(&world.home().bridge_lock(&name("s"))).unwrap().is_some());
    assert_eq!(world.call().unwrap_err().kind(), Kind::NoSession);
    assert_eq!(world.sessions.close(&name("s"), long()).unwrap_err().kind(), Kind::NoSession);
}

#[test]
fn close_ends_a_bridge_that_does_not_answer() {
    let world = World::new();
    let mut wanted = wanted("s");
    wanted.settings.stop_grace_ms = Some(10);
    wanted.lazy = Some(true);
    world.connect(&wanted).unwrap();
    // A process that holds B, with a socket that says hello and is deaf to the rest.
    let lock = Lock::try_acquire(&world.home().bridge_lock(&name("s"))).unwrap().unwrap();
    let mut command = std::process::Command::new("cat");
    lock.hand_down(&mut command);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    drop((command, lock));
    let bridge = Some(ProcessIdentity::of(child.id()).unwrap());
    world.write_state(&StateRecord { state: State::Live, bridge, ..StateRecord::dormant() });
    let listener = std::os::unix::net::UnixListener::bind(world.home().socket_file(&name("s"))).unwrap();
    thread::scope(|scope| {
        let close = scope.spawn(|| world.sessions.close(&name("s"), long()));
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"{\"drowse\":{\"hello\":{\"version\":1,\"bridge\":\"0\",\"pid\":1}}}\n").unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        assert!(heard.contains("drowse/close"), "{heard}");
        close.join().unwrap().unwrap();
    });
    assert!(!exists(&world, "s"));
    assert!(!child.wait().unwrap().success());
}

#[test]
fn close_works_whatever_the_records_look_like() {
    let world = World::new();
    for (file, text) in [
        ("session.json", "{\"sch"),
        ("session.json", "{\"schema\":99}"),
        ("state.json", "nonsense"),
        ("credentials.json", "nonsense"),
    ] {
        world.dormant();
        fs::write(world.home().session(&name("s")).join(file), text).unwrap();
        world.sessions.close(&name("s"), long()).unwrap();
        assert!(!exists(&world, "s"), "{file}");
    }
}

#[test]
fn a_call_that_meets_a_close_finds_no_session() {
    let world = World::new();
    world.awake();
    let lock = Lock::try_acquire(&world.home().start_lock(&name("s"))).unwrap().unwrap();
    // As `close` leaves it, before it lets go of L.
    thread::scope(|scope| {
        world.next(Life::serve(in_order));
        fs::remove_file(world.home().socket_file(&name("s"))).unwrap();
        let call = scope.spawn(|| world.call());
        fs::remove_file(world.home().session_file(&name("s"))).unwrap();
        drop(lock);
        assert_eq!(call.join().unwrap().unwrap_err().kind(), Kind::NoSession);
    });
    assert_eq!(world.launches(), 1);
}

#[test]
fn clean_takes_what_crashed_and_never_what_sleeps() {
    let world = World::new();
    let states = [
        ("crashed", State::Crashed),
        ("expired", State::Expired),
        ("idle", State::Idle),
        ("unauthorized", State::Unauthorized),
        // Live by its record, with no bridge: killed.
        ("killed", State::Live),
    ];
    for (session, state) in states {
        world.connect(&Wanted { lazy: Some(true), ..wanted(session) }).unwrap();
        let state = StateRecord { state, marker: new_marker(), ..StateRecord::dormant() };
        record::write_state(world.home(), &name(session), &state).unwrap();
    }
    world.connect(&Wanted { lazy: Some(true), ..wanted("dormant") }).unwrap();
    world.awake();
    let mut state = world.state().unwrap();
    state.bridge = Some(ProcessIdentity::of_self().unwrap());
    world.write_state(&state);
    fs::create_dir(world.home().session(&name("orphan"))).unwrap();
    fs::write(world.home().session(&name("orphan")).join("log"), "x").unwrap();
    // Somebody is starting it right now.
    world.connect(&Wanted { lazy: Some(true), ..wanted("busy") }).unwrap();
    let crashed = StateRecord { state: State::Crashed, ..StateRecord::dormant() };
    record::write_state(world.home(), &name("busy"), &crashed).unwrap();
    let busy = Lock::try_acquire(&world.home().start_lock(&name("busy"))).unwrap().unwrap();

    let cleaned = world.sessions.clean(false, long()).unwrap();
    assert_eq!(cleaned.removed, ["crashed", "expired", "killed", "orphan"].map(name));
    assert!(cleaned.failed.is_empty());
    let left: Vec<_> = world.sessions.list().unwrap().into_iter().map(|listed| listed.name).collect();
    assert_eq!(left, ["busy", "dormant", "idle", "s", "unauthorized"].map(name));
    world.call().unwrap();

    drop(busy);
    state.bridge = None;
    world.write_state(&state);
    let cleaned = world.sessions.clean(true, long()).unwrap();
    assert_eq!(cleaned.removed.len(), 5);
    assert!(world.sessions.list().unwrap().is_empty());
    world.bridge_is_gone();
}

#[test]
fn a_list_names_what_it_cannot_read_and_goes_on() {
    let world = World::new();
    assert!(world.sessions.list().unwrap().is_empty());
    for session in ["a", "b", "c"] {
        world.connect(&Wanted { lazy: Some(true), ..wanted(session) }).unwrap();
    }
    fs::write(world.home().session_file(&name("b")), "{").unwrap();
    fs::write(world.home().state_file(&name("c")), "{").unwrap();
    let listed = world.sessions.list().unwrap();
    assert_eq!(listed.len(), 3);
    assert!(listed[0].record.is_ok() && listed[0].state_error.is_none());
    assert!(listed[1].record.as_ref().unwrap_err().to_string().contains("session.json is damaged"));
    assert!(listed[2].state_error.as_ref().unwrap().to_string().contains("state.json is damaged"));
}

#[test]
fn a_thousand_sessions_are_listed_in_order() {
    let world = World::new();
    world.home().prepare().unwrap();
    world.dormant();
    let record = world.sessions.get(&name("s")).unwrap().record.unwrap();
    let text = serde_json::to_vec(&record).unwrap();
    let me = ProcessIdentity::of_self().unwrap();
    for i in 0..1000 {
        let session = name(&format!("n{i:04}"));
        record::make_directory(world.home(), &session).unwrap();
        // Not by way of `connect`, which waits for the disk each time.
        fs::write(world.home().session_file(&session), &text).unwrap();
        let awake = i % 10 == 0;
        let state = StateRecord {
            state: if awake { State::Live } else { State::Idle },
            bridge: Some(me.clone()),
            ended: !awake,
            ..StateRecord::dormant()
        };
        record::write_state(world.home(), &session, &state).unwrap();
    }
    let listed = world.sessions.list().unwrap();
    assert_eq!(listed.len(), 1001);
    assert!(listed.is_sorted_by_key(|listed| listed.name.clone()));
    assert_eq!(listed.iter().filter(|listed| listed.bridge_pid == Some(me.pid)).count(), 100);
    assert_eq!(listed.iter().filter(|listed| listed.state == State::Live).count(), 100);
}

#[test]
fn a_home_that_cannot_be_used_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let world = World::at(dir, Home::new(file.join("home"), None));
    let error = world.connect(&wanted("s")).unwrap_err();
    assert_eq!(error.kind(), Kind::Storage);
    assert!(error.to_string().contains("DROWSE_HOME"), "{error}");
}
