//! A long run on many sessions: a window of awake ones wanders over all of them, operations come at a steady rate, and
//! bridges, servers and callers are killed at random.
//!
//! What is counted is what the servers wrote down: an operation is *lost* if it failed and nothing of its session was
//! killed around it, and ran *twice* if two servers, or one, say so. What is measured are descriptors, processes, files
//! and memory over time; each has a bound for how much it may rise from the first third of the run to its end.

mod measure;
mod report;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::race::chance::Chance;
use crate::race::outcome::Outcome;
use crate::race::processes::Seen;
use crate::race::world::{Session, Setup, World};

pub use measure::Sample;
pub use report::{Bounds, Report};

/// How many operations may wait at once.
const CALLERS: usize = 24;
/// A crash keeps a session from being started for at most that long, and makes calls fail meanwhile.
const BACK_OFF: Duration = Duration::from_secs(45);

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Of the chance.
    pub seed: u64,
    /// How many sessions there are.
    pub sessions: usize,
    /// How many of them are in use at a time.
    pub awake: usize,
    /// Of those, how many stay in use all the time and are never killed: what is measured of single bridges is of these.
    pub steady: usize,
    /// For how long operations come.
    pub time: Duration,
    /// How many come.
    pub operations: usize,
    /// Seconds without use after which a server is let go.
    pub idle_secs: u64,
    /// How many bridges and servers are killed.
    pub kills: usize,
    /// How many of a hundred operations are the real command; the others are threads of this process.
    pub commands: u64,
    /// How many of a hundred of those are killed.
    pub killed_commands: u64,
    /// How often is measured.
    pub every: Duration,
}

impl Plan {
    /// A thousand sessions, a hundred of them awake, ten minutes.
    #[must_use]
    pub fn full(seed: u64) -> Self {
        Self {
            seed,
            sessions: 1000,
            awake: 100,
            steady: 10,
            time: Duration::from_secs(600),
            operations: 20_000,
            idle_secs: 10,
            kills: 200,
            commands: 20,
            killed_commands: 5,
            every: Duration::from_secs(10),
        }
    }

    /// The same in small, for every day.
    #[must_use]
    pub fn slice(seed: u64) -> Self {
        Self {
            sessions: 60,
            awake: 12,
            steady: 2,
            time: Duration::from_secs(12),
            operations: 600,
            idle_secs: 1,
            kills: 12,
            every: Duration::from_secs(1),
            ..Self::full(seed)
        }
    }
}

/// One operation, and what became of it.
#[derive(Debug)]
struct Done {
    session: usize,
    tag: String,
    began: Instant,
    ended: Instant,
    outcome: Outcome,
}

/// What the threads share.
struct Run<'w> {
    plan: &'w Plan,
    world: &'w World,
    sessions: Vec<Session<'w>>,
    start: Instant,
    next: AtomicUsize,
    done: Mutex<Vec<Done>>,
    kills: Mutex<Vec<(usize, Instant)>>,
    killed: [AtomicUsize; 2],
    over: AtomicBool,
}

/// Runs it.
///
/// # Panics
/// If the machine cannot run it: no directory, no processes.
#[must_use]
pub fn run(plan: &Plan) -> Report {
    let world = World::new();
    let setup = Setup { idle_secs: plan.idle_secs, ..Setup::default() };
    let sessions: Vec<_> = (0..plan.sessions).map(|n| world.session(&format!("s{n}"), &setup)).collect();
    let run = Run {
        plan,
        world: &world,
        sessions,
        start: Instant::now(),
        next: AtomicUsize::new(0),
        done: Mutex::default(),
        kills: Mutex::default(),
        killed: [AtomicUsize::new(0), AtomicUsize::new(0)],
        over: AtomicBool::new(false),
    };
    let samples = thread::scope(|scope| {
        let run = &run;
        let measuring = scope.spawn(|| run.measure());
        let killing = scope.spawn(|| run.kill());
        let callers: Vec<_> =
            (0..CALLERS).map(|caller| scope.spawn(move || run.call(caller as u64 + 2))).collect();
        for caller in callers {
            caller.join().expect("a caller");
        }
        run.over.store(true, Ordering::SeqCst);
        killing.join().expect("the killer");
        measuring.join().expect("the measuring")
    });
    run.end(samples)
}

impl<'w> Run<'w> {
    /// The sessions in use now: the steady ones, and a window that wanders once over all others.
    fn pick(&self, chance: &mut Chance) -> usize {
        let (steady, window) = (self.plan.steady, self.plan.awake - self.plan.steady);
        if chance.below(self.plan.awake as u64) < steady as u64 {
            return self.below(chance, steady);
        }
        steady + (self.window_start() + self.below(chance, window)) % (self.plan.sessions - steady)
    }

    fn window_start(&self) -> usize {
        let others = self.plan.sessions - self.plan.steady;
        let part = self.start.elapsed().as_secs_f64() / self.plan.time.as_secs_f64();
        (part * others as f64) as usize
    }

    fn below(&self, chance: &mut Chance, limit: usize) -> usize {
        usize::try_from(chance.below(limit as u64)).unwrap_or(0)
    }

    /// Makes the operations that fall to one caller.
    fn call(&self, stream: u64) {
        let mut chance = Chance::new(self.plan.seed, stream);
        loop {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            if number >= self.plan.operations {
                return;
            }
            let due = self.start + self.plan.time.mul_f64(number as f64 / self.plan.operations as f64);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let session = self.pick(&mut chance);
            let tag = format!("op-{number}");
            let began = Instant::now();
            let outcome = self.operation(session, &tag, &mut chance);
            let done = Done { session, tag, began, ended: Instant::now(), outcome };
            self.done.lock().unwrap_or_else(PoisonError::into_inner).push(done);
        }
    }

    fn operation(&self, session: usize, tag: &str, chance: &mut Chance) -> Outcome {
        let session = &self.sessions[session];
        if !chance.percent(self.plan.commands) {
            return session.call(tag);
        }
        let mut command = session.command_begins(tag, "");
        if chance.percent(self.plan.killed_commands) {
            thread::sleep(chance.time(Duration::from_millis(15)));
            command.kill();
        }
        command.outcome()
    }

    /// Kills bridges and servers of the window, evenly over the time.
    fn kill(&self) {
        let mut chance = Chance::new(self.plan.seed, 1);
        for number in 0..self.plan.kills {
            let part = (number as f64 + 0.5) / self.plan.kills as f64;
            let due = self.start + self.plan.time.mul_f64(part);
            while Instant::now() < due {
                if self.over.load(Ordering::SeqCst) {
                    return;
                }
                thread::sleep(due.saturating_duration_since(Instant::now()).min(Duration::from_millis(200)));
            }
            // Steady sessions are left alone; a sleeping one has nothing to kill, and another is looked for.
            for _ in 0..20 {
                let session = self.pick(&mut chance);
                if session >= self.plan.steady && self.kill_one(session, chance.percent(50)) {
                    break;
                }
            }
        }
    }

    fn kill_one(&self, at: usize, the_bridge: bool) -> bool {
        let session = &self.sessions[at];
        let victims: Vec<Seen> =
            if the_bridge { session.bridge().into_iter().collect() } else { session.servers() };
        let Some(victim) = victims.first() else { return false };
        // Before, so that nothing fails of it that is not explained by it.
        self.kills.lock().unwrap_or_else(PoisonError::into_inner).push((at, Instant::now()));
        victim.signal(Signal::KILL);
        self.killed[usize::from(the_bridge)].fetch_add(1, Ordering::Relaxed);
        true
    }

    fn measure(&self) -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut due = self.start;
        while !self.over.load(Ordering::SeqCst) {
            due += self.plan.every;
            while Instant::now() < due && !self.over.load(Ordering::SeqCst) {
                thread::sleep(due.saturating_duration_since(Instant::now()).min(Duration::from_millis(200)));
            }
            if !self.over.load(Ordering::SeqCst) {
                samples.push(self.sample());
            }
        }
        samples
    }

    fn sample(&self) -> Sample {
        let steady: Vec<_> =
            self.sessions.iter().take(self.plan.steady).filter_map(Session::bridge).collect();
        let operations = self.next.load(Ordering::SeqCst).min(self.plan.operations);
        Sample::take(
            self.start.elapsed(),
            operations,
            &self.world.processes(),
            &steady,
            self.world.home().root(),
        )
    }

    /// Waits until all is asleep, and reads what the servers wrote.
    fn end(self, samples: Vec<Sample>) -> Report {
        let took = self.start.elapsed();
        // Servers of bridges that were killed are gone with them; those that live fall asleep.
        let limit = Duration::from_secs(self.plan.idle_secs) + Duration::from_secs(30);
        let deadline = Instant::now() + limit;
        let mut left = self.world.processes();
        while !left.is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(100));
            left = self.world.processes();
        }
        let mut report = Report {
            took,
            sessions: self.plan.sessions,
            awake: self.plan.awake,
            killed_servers: self.killed[0].load(Ordering::Relaxed),
            killed_bridges: self.killed[1].load(Ordering::Relaxed),
            orphans: left.iter().map(|seen| format!("{seen:?}")).collect(),
            files: measure::files(self.world.home().root()),
            samples,
            ..Report::default()
        };
        let kills = self.kills.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut of_session: BTreeMap<usize, Vec<Done>> = BTreeMap::new();
        for done in self.done.into_inner().unwrap_or_else(PoisonError::into_inner) {
            of_session.entry(done.session).or_default().push(done);
        }
        for (at, all) in of_session {
            let audit = self.sessions[at].audit();
            report.servers += audit.lives.len();
            report.woken_sessions += 1;
            if let Some((one, next)) = audit.overlap() {
                report
                    .wrong
                    .push(format!("two servers of {} at once: {one:?}, {next:?}", self.sessions[at].at()));
            }
            for done in all {
                let explained = kills.iter().any(|(session, when)| {
                    *session == at && *when <= done.ended && *when + BACK_OFF >= done.began
                });
                report.count(&done.outcome, audit.executions(&done.tag), explained, || {
                    format!("{} of {}: {:?}", done.tag, self.sessions[at].at(), done.outcome)
                });
            }
        }
        report
    }
}
