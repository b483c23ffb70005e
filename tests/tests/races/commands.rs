//! Commands that race with calls and with each other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use drowse_runtime::record::State;
use drowse_tests::harness::at_once;
use drowse_tests::race::chance::{self, Chance};
use drowse_tests::race::outcome::{Ended, Outcome, of_reply, slept};
use drowse_tests::race::processes::Watch;
use drowse_tests::race::world::{Session, Setup, World, params, request, slow_params, wait};
use rustix::process::Signal;

fn setup() -> Setup<'static> {
    Setup { server: &["--exit-delay", "100"], idle_secs: 1, ..Setup::default() }
}

struct Stop(AtomicBool);

/// Stops them whatever becomes of the test.
struct Stopped<'s>(&'s Stop);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Callers that call until they are told to stop; every call that any of them made.
fn calls_during<T>(
    session: &Session<'_>,
    seed: u64,
    act: impl FnOnce(&mut Chance) -> T,
) -> (Vec<(String, Outcome)>, T) {
    let stop = Stop(AtomicBool::new(false));
    let begun = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (stop, begun) = (&stop, &begun);
        let callers: Vec<_> = (0..6_u64)
            .map(|caller| {
                let mut chance = Chance::new(seed, caller + 1);
                scope.spawn(move || {
                    let mut made = Vec::new();
                    let sessions = session.world.sessions("");
                    let mut kept = sessions.caller(&session.name, wait());
                    while !stop.0.load(Ordering::Relaxed) {
                        let tag = format!("{caller}-{}", made.len());
                        let ms = if chance.percent(50) { 0 } else { chance.below(100) };
                        kept.set_wait(wait());
                        let outcome = match caller {
                            0..2 => session.command_begins_slow(ms, &tag, "").outcome(),
                            _ if ms == 0 => of_reply(&kept.call(request(&params(&tag))), &tag),
                            _ => of_reply(&kept.call(request(&slow_params(ms, &tag))), &slept(ms)),
                        };
                        begun.fetch_add(1, Ordering::Relaxed);
                        made.push((tag, outcome));
                        thread::sleep(chance.time(Duration::from_millis(30)));
                    }
                    made
                })
            })
            .collect();
        let mut chance = Chance::new(seed, 0);
        // All are on their way.
        while begun.load(Ordering::Relaxed) < 12 {
            thread::sleep(Duration::from_millis(5));
        }
        let stopped = Stopped(stop);
        let done = act(&mut chance);
        drop(stopped);
        (callers.into_iter().flat_map(|caller| caller.join().expect("a caller")).collect(), done)
    })
}

fn check(session: &Session<'_>, made: &[(String, Outcome)]) {
    let audit = session.audit();
    assert_eq!(audit.overlap(), None);
    for (tag, outcome) in made {
        assert_eq!(outcome.check(audit.executions(tag)), Ok(()), "{tag}");
    }
}

/// A call that the restart found in the server fails and says so; one that never ran goes on to the new bridge.
#[test]
fn restarts_and_calls() {
    let seed = chance::seed("restarts_and_calls");
    let world = World::new();
    let session = world.session("s", &setup());
    let watch = Watch::over(world.mark());
    let (made, ()) = calls_during(&session, seed, |chance| {
        for _ in 0..8 {
            let ended = world.runs(&["restart", &session.at(), "--json"]);
            assert!(ended.status.success(), "{ended}\n{}", session.log());
            thread::sleep(chance.time(Duration::from_millis(300)));
        }
    });
    watch.finish();
    check(&session, &made);
    for (tag, outcome) in &made {
        if let Outcome::Failed(typed) = outcome {
            assert_eq!(typed.kind, "shutting-down", "{tag}: {typed:?}");
            assert_eq!(typed.ran.as_deref(), Some("unknown"), "{tag}: {typed:?}");
        }
    }
    session.close();
    world.is_left_empty();
}

#[test]
fn closes_and_calls() {
    let seed = chance::seed("closes_and_calls");
    at_once((0..4_u64).map(|number| (number.to_string(), number)), |number| {
        let world = World::new();
        let session = world.session("s", &setup());
        let watch = Watch::over(world.mark());
        let (made, ()) = calls_during(&session, seed.wrapping_add(number), |chance| {
            thread::sleep(chance.time(Duration::from_millis(200)));
            let ended = world.runs(&["close", &session.at(), "--json"]);
            assert!(ended.status.success(), "{ended}");
            // Those that come later find that it is gone, or else it is not.
            let before = session.audit().lives.len();
            thread::sleep(Duration::from_millis(100));
            assert_eq!(session.audit().lives.len(), before, "started after it was closed");
        });
        watch.finish();
        check(&session, &made);
        for (tag, outcome) in &made {
            if let Outcome::Failed(typed) = outcome {
                match (typed.kind.as_str(), typed.exit) {
                    ("shutting-down", 3) => assert_eq!(typed.ran.as_deref(), Some("unknown"), "{tag}"),
                    ("no-session", 1) => assert!(typed.never_ran(), "{tag}"),
                    _ => panic!("{tag}: {typed:?}"),
                }
            }
        }
        assert!(!world.home().session(&session.name).exists());
        assert!(session.is_unlocked());
        world.is_left_empty();
    });
}

/// Of several connects of one name, the first makes the session; others of the same command find it.
#[test]
fn connects_of_one_name() {
    at_once([("same", true), ("different", false)], |same| {
        let world = World::new();
        let session = world.unregistered("s", &setup());
        let ended: Vec<Ended> = thread::scope(|scope| {
            let connects: Vec<_> = (0..6)
                .map(|number| {
                    let (world, session) = (&world, &session);
                    scope.spawn(move || {
                        let more = format!("number {number}");
                        let more = ["--stderr", if same { "the same" } else { &more }];
                        world.runs_words(&session.connect_words(&more))
                    })
                })
                .collect();
            connects.into_iter().map(|connect| connect.join().expect("a connect")).collect()
        });
        let (made, refused): (Vec<_>, Vec<_>) = ended.iter().partition(|ended| ended.status.success());
        assert_eq!(made.len(), if same { 6 } else { 1 }, "{ended:#?}");
        for ended in refused {
            let failed = ended.failure();
            assert_eq!((failed.kind.as_str(), failed.exit), ("name-taken", 1), "{ended}");
        }
        assert_eq!(session.audit().lives.len(), 1, "one server");
        assert_eq!(session.command_call("after", ""), Outcome::Answered);
        session.close();
        world.is_left_empty();
    });
}

/// Connects that fail leave nothing, however many there are.
#[test]
fn failing_connects_of_one_name() {
    let world = World::new();
    let server = ["--die-on-probe-always", "--grandchild-setsid"];
    let session = world.unregistered("s", &Setup { server: &server, idle_secs: 1, ..Setup::default() });
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let failed = world.runs_words(&session.connect_words(&[])).failure();
                assert_eq!((failed.kind.as_str(), failed.exit), ("start-failed", 2), "{failed:?}");
            });
        }
    });
    assert_eq!(session.audit().overlap(), None);
    assert!(!world.home().session(&session.name).exists(), "a session that never was");
    assert!(session.is_unlocked());
    world.is_left_empty();
}

/// A server that dies whenever it is started: a few tries, further and further apart, then none for half a minute.
/// Whoever calls meanwhile is told at once, and `restart` tries again.
#[test]
fn a_server_that_dies_at_its_start() {
    let world = World::new();
    let session = world.session("s", &Setup { server: &["--crash-in-handshake", "10"], ..setup() });
    let mut tries = 0;
    while session.state().is_none_or(|state| state.crashes.len() < 5) {
        tries += 1;
        assert!(tries < 50, "the breaker does not open: {:?}", session.state());
        let before = session.audit().lives.len();
        let failed = session.command_call(&format!("try-{tries}"), "").failure();
        assert!(failed.never_ran() && failed.exit == 2, "{failed:?}");
        match failed.kind.as_str() {
            "start-failed" => assert!(session.audit().lives.len() > before, "{failed:?}"),
            "backing-off" => {
                assert_eq!(session.audit().lives.len(), before, "{failed:?}");
                session.sleeps_until_retry();
            }
            _ => panic!("{failed:?}"),
        }
    }
    let state = session.state().expect("a state");
    assert_eq!(state.state, State::Crashed);
    let last = *state.crashes.last().expect("a crash");
    assert_eq!(state.retry_at, Some(last + 30_000), "{state:?}");
    let before = session.audit().lives.len();
    thread::scope(|scope| {
        for number in 0..8 {
            let session = &session;
            scope.spawn(move || {
                let failed = match number % 2 {
                    0 => session.call(&format!("open-{number}")),
                    _ => session.command_call(&format!("open-{number}"), ""),
                }
                .failure();
                assert!(failed.never_ran(), "{failed:?}");
                assert_eq!((failed.kind.as_str(), failed.exit), ("backing-off", 2), "{failed:?}");
            });
        }
    });
    assert_eq!(session.audit().lives.len(), before, "started although it is not to be");
    let ended = world.runs(&["restart", &session.at(), "--json"]);
    assert!(ended.status.success(), "{ended}");
    assert_eq!(session.command_call("after", ""), Outcome::Answered);
    session.close();
    world.is_left_empty();
}

/// All at once, none may start it more often than the breaker allows.
#[test]
fn callers_of_a_server_that_dies_at_its_start() {
    let world = World::new();
    let session = world.session("s", &Setup { server: &["--die-on-probe-always"], ..setup() });
    thread::scope(|scope| {
        for number in 0..16 {
            let session = &session;
            scope.spawn(move || {
                let tag = format!("call-{number}");
                let outcome =
                    if number % 4 == 0 { session.command_call(&tag, "") } else { session.call(&tag) };
                let failed = outcome.failure();
                assert!(failed.never_ran() && failed.exit == 2, "{failed:?}");
                assert!(["start-failed", "backing-off"].contains(&failed.kind.as_str()), "{failed:?}");
            });
        }
    });
    let audit = session.audit();
    assert!(audit.runs.is_empty());
    // Each try may be two: the probe may be what it dies of.
    assert!(audit.lives.len() <= 10, "{} servers", audit.lives.len());
    session.close();
    world.is_left_empty();
}

/// TERM ends the bridge and all of its server, and leaves a session that sleeps.
#[test]
fn a_bridge_that_is_told_to_terminate() {
    at_once([("quiet", false), ("working", true)], |working| {
        let world = World::new();
        let session = world.session("s", &Setup { server: &["--grandchild-setsid"], ..setup() });
        let running = if working {
            Some(session.command_begins_slow(20_000, "working", ""))
        } else {
            assert_eq!(session.command_call("before", ""), Outcome::Answered);
            None
        };
        session.has_a_server(0);
        if working {
            session.runs("working");
        }
        session.bridge().expect("a bridge").signal(Signal::TERM);
        session.bridge_ends();
        world_has_no_server(&session);
        let state = session.state().expect("a state");
        assert_eq!((state.state, state.ended), (State::Idle, true), "{state:?}");
        assert!(state.crashes.is_empty(), "{state:?}");
        if let Some(running) = running {
            let failed = running.outcome().failure();
            assert_eq!((failed.kind.as_str(), failed.exit), ("shutting-down", 3), "{failed:?}");
            assert_eq!(failed.ran.as_deref(), Some("unknown"));
        }
        assert_eq!(session.command_call("after", ""), Outcome::Answered);
        session.close();
        world.is_left_empty();
    });
}

fn world_has_no_server(session: &Session<'_>) {
    assert_eq!(session.servers(), [], "{}", session.log());
}
