//! Processes killed at random moments, one or two at a time, while calls go on; others are held up for a moment, so that
//! everything happens in every order. In some storms the session is restarted, closed and connected again meanwhile.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use drowse_tests::race::chance::{self, Chance};
use drowse_tests::race::outcome::{Outcome, of_reply, slept};
use drowse_tests::race::processes::{Role, Seen, Watch};
use drowse_tests::race::world::{Session, Setup, World, params, request, slow_params, wait};
use rustix::process::Signal;

const SERVER: Setup<'static> = Setup {
    server: &["--grandchild-setsid", "--exit-delay", "100"],
    idle_secs: 1,
    connect_ms: None,
    grace_ms: None,
};
/// How many callers a session has that are commands, and how many that are threads.
const COMMANDS: usize = 3;
const THREADS: usize = 2;

#[derive(Debug, Default)]
struct Tally(BTreeMap<String, usize>);

impl Tally {
    fn count(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }
}

/// What goes on besides calls and kills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Commands {
    None,
    /// `restart`, `close` and `connect`.
    Some,
}

#[test]
fn kills_at_random_moments() {
    storm("kills_at_random_moments", 3, 12, Commands::None);
}

#[test]
fn kills_and_commands_at_random_moments() {
    storm("kills_and_commands_at_random_moments", 3, 12, Commands::Some);
}

#[test]
#[ignore = "takes minutes: run by hand"]
fn many_kills_at_random_moments() {
    storm("many_kills_at_random_moments", 16, 60, Commands::None);
}

#[test]
#[ignore = "takes minutes: run by hand"]
fn many_kills_and_commands_at_random_moments() {
    storm("many_kills_and_commands_at_random_moments", 16, 60, Commands::Some);
}

fn storm(test: &str, worlds: u64, calls: usize, commands: Commands) {
    let seed = chance::seed(test);
    let tally = Mutex::new(Tally::default());
    thread::scope(|scope| {
        let tally = &tally;
        let threads: Vec<_> = (0..worlds)
            .map(|number| scope.spawn(move || one_world(seed, number, calls, commands, tally)))
            .collect();
        for thread in threads {
            assert!(thread.join().is_ok(), "{test}: DROWSE_SEED={seed}");
        }
    });
    println!("{test}: {:#?}", tally.into_inner().expect("the tally").0);
}

fn one_world(seed: u64, number: u64, calls: usize, commands: Commands, tally: &Mutex<Tally>) {
    let world = World::new();
    let session = world.session("s", &SERVER);
    let watch = Watch::over(world.mark());
    let left = AtomicUsize::new(COMMANDS + THREADS);
    let outcomes = thread::scope(|scope| {
        let (session, left) = (&session, &left);
        let callers: Vec<_> = (0..COMMANDS + THREADS)
            .map(|caller| {
                let chance = Chance::new(seed, number * 1000 + 1 + caller as u64);
                scope.spawn(move || {
                    let made = call_on(session, caller, calls, chance);
                    left.fetch_sub(1, Ordering::Relaxed);
                    made
                })
            })
            .collect();
        scope.spawn(move || hold_up(session.world, Chance::new(seed, number * 1000 + 998), left));
        if commands == Commands::Some {
            scope.spawn(move || command(session, Chance::new(seed, number * 1000 + 999), left, tally));
        }
        let mut chance = Chance::new(seed, number * 1000);
        while left.load(Ordering::Relaxed) > 0 {
            // Not a wait for something: the moment is what is drawn.
            thread::sleep(Duration::from_millis(50) + chance.time(Duration::from_millis(900)));
            for killed in kill(&world, &mut chance) {
                tally.lock().expect("the tally").count(format!("killed a {killed}"));
            }
        }
        callers.into_iter().flat_map(|caller| caller.join().expect("a caller")).collect::<Vec<_>>()
    });
    watch.finish();
    let audit = session.audit();
    for (tag, outcome) in &outcomes {
        assert_eq!(outcome.check(audit.executions(tag)), Ok(()), "{tag}\n{}", session.log());
        let what = match outcome {
            Outcome::Answered => "answered".to_owned(),
            Outcome::Killed => "caller killed".to_owned(),
            Outcome::Failed(typed) => {
                format!("failed: {}, ran {}", typed.kind, typed.ran.as_deref().unwrap_or("-"))
            }
            Outcome::Broken(how) => how.clone(),
        };
        tally.lock().expect("the tally").count(what);
    }
    if commands == Commands::Some {
        let ended = world.runs_words(&session.connect_words(&[]));
        assert!(ended.status.success(), "{ended}\n{}", session.log());
    }
    // If it was killed while it started, again and again, it is not started for a while.
    session.sleeps_until_retry();
    crate::aftermath(&session);
}

fn call_on(session: &Session<'_>, caller: usize, calls: usize, mut chance: Chance) -> Vec<(String, Outcome)> {
    let sessions = session.world.sessions("");
    let mut kept = sessions.caller(&session.name, wait());
    let mut made = Vec::new();
    for number in 0..calls {
        // Some so late that the server sleeps, or is just about to.
        let pause = if chance.percent(25) { 1000 } else { 200 };
        thread::sleep(chance.time(Duration::from_millis(pause)) + Duration::from_millis(pause / 10));
        let tag = format!("{caller}-{number}");
        let slow = chance.percent(40).then(|| chance.below(400));
        let outcome = match (caller < COMMANDS, slow) {
            (true, None) => session.command_call(&tag, ""),
            (true, Some(ms)) => session.command_begins_slow(ms, &tag, "").outcome(),
            (false, slow) => {
                kept.set_wait(wait());
                let (params, answer) = match slow {
                    None => (params(&tag), tag.clone()),
                    Some(ms) => (slow_params(ms, &tag), slept(ms)),
                };
                of_reply(&kept.call(request(&params)), &answer)
            }
        };
        made.push((tag, outcome));
    }
    made
}

/// Stops a process now and then, and lets it go on soon.
fn hold_up(world: &World, mut chance: Chance, left: &AtomicUsize) {
    while left.load(Ordering::Relaxed) > 0 {
        thread::sleep(chance.time(Duration::from_millis(60)));
        let seen = world.processes();
        if !seen.is_empty() {
            let one = chance.pick(&seen);
            one.signal(Signal::STOP);
            thread::sleep(chance.time(Duration::from_millis(40)));
            one.signal(Signal::CONT);
        }
    }
}

/// Restarts the session now and then, or closes it and connects it again.
fn command(session: &Session<'_>, mut chance: Chance, left: &AtomicUsize, tally: &Mutex<Tally>) {
    while left.load(Ordering::Relaxed) > 0 {
        thread::sleep(chance.time(Duration::from_millis(1500)));
        let at = session.at();
        let commands = if chance.percent(60) { vec!["restart"] } else { vec!["close", "connect"] };
        for command in commands {
            let ended = match command {
                "connect" => session.world.runs_words(&session.connect_words(&[])),
                command => session.world.runs(&[command, &at, "--json"]),
            };
            let what = match ended.done() {
                Ok(()) => "done".to_owned(),
                Err(Outcome::Killed) => "killed".to_owned(),
                Err(Outcome::Failed(typed)) => typed.kind,
                Err(other) => panic!("{command}: {other:?}\n{}", session.log()),
            };
            tally.lock().expect("the tally").count(format!("{command}: {what}"));
        }
    }
}

/// Kills one or two processes, of whatever kind there are; their kinds.
fn kill(world: &World, chance: &mut Chance) -> Vec<&'static str> {
    let mut seen = world.processes();
    let mut killed = Vec::new();
    for _ in 0..if chance.percent(40) { 2 } else { 1 } {
        let kind = *chance.pick(&["bridge", "server", "caller"]);
        let of_kind: Vec<&Seen> = seen.iter().filter(|one| self::kind(one) == kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        let one = (*chance.pick(&of_kind)).clone();
        one.signal(Signal::KILL);
        seen.retain(|other| *other != one);
        killed.push(kind);
    }
    killed
}

fn kind(seen: &Seen) -> &'static str {
    match seen.role {
        Role::Bridge => "bridge",
        Role::Server { .. } => "server",
        Role::Other => "caller",
    }
}
