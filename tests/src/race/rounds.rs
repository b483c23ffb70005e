//! Calls around the idle deadline, from many callers and many sessions at once.
//!
//! A session's callers go in rounds. In each, every caller sends one call at a time of its own within 50 ms of the
//! moment at which the server is let go: a full idle period after the last answer of the round before. In every other
//! round, by chance, all of them come after that moment, as one that comes before it puts it off for the rest.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use drowse_runtime::caller::{Caller, Sessions};

use super::chance::Chance;
use super::outcome::{Outcome, of_reply};
use super::processes::Watch;
use super::world::{Session, Setup, World, params, request, wait};

/// How far from the deadline calls are.
const MARGIN_MS: i64 = 50;
/// How long servers take to exit, session by session: long enough for a call to arrive meanwhile, and so short that
/// calls meet the bridge's own end.
const EXIT_DELAYS_MS: [&str; 4] = ["300", "300", "30", "0"];

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Of the chance.
    pub seed: u64,
    /// How many callers each session has.
    pub callers: Vec<usize>,
    /// How many calls in all.
    pub calls: usize,
    /// How many of a hundred calls are the real command; the others are threads of this process.
    pub commands: u64,
}

/// What came of it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Calls that were made.
    pub calls: usize,
    /// Of those, by the real command.
    pub commands: usize,
    /// Calls that arrived during a drain: bridges count those that wait when a server is gone.
    pub in_a_drain: usize,
    /// The same, by the number of callers that their session has.
    pub in_a_drain_by_callers: BTreeMap<usize, usize>,
    /// Calls that began during a drain by the clock, see [`Audit::in_a_drain`](super::audit::Audit::in_a_drain).
    pub began_in_a_drain: usize,
    /// Servers that were started.
    pub servers: usize,
    /// Bridges that started them.
    pub bridges: usize,
    /// How often the processes were looked at for two servers of one session.
    pub looks: usize,
}

struct Made {
    tag: String,
    began: u64,
    command: bool,
    outcome: Outcome,
}

/// Runs the plan and checks it; panics with what does not hold.
pub fn run(plan: &Plan) -> Tally {
    let world = World::new();
    let session = |index: usize| {
        let server = ["--exit-delay", EXIT_DELAYS_MS[index % EXIT_DELAYS_MS.len()]];
        world.session(&format!("s{index}"), &Setup { server: &server, idle_secs: 1, ..Setup::default() })
    };
    let sessions: Vec<Session<'_>> = (0..plan.callers.len()).map(session).collect();
    let shares = shares(plan);
    let watch = Watch::over(world.mark());
    let lead = command_takes(&sessions[0]);
    let made: Vec<Vec<Made>> = thread::scope(|scope| {
        let threads: Vec<_> = sessions
            .iter()
            .enumerate()
            .map(|(index, session)| {
                let (callers, calls) = (plan.callers[index], shares[index]);
                scope.spawn(move || session_rounds(session, plan, index, callers, calls, lead))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a session's calls")).collect()
    });
    let mut tally = Tally { looks: watch.finish(), ..Tally::default() };
    for ((session, made), callers) in sessions.iter().zip(&made).zip(&plan.callers) {
        tally.add(session, made, *callers);
    }
    for session in &sessions {
        session.close();
    }
    world.is_left_empty();
    tally
}

impl Tally {
    fn add(&mut self, session: &Session<'_>, made: &[Made], callers: usize) {
        // The last server is still there, or on its way; whatever was called has been written.
        let audit = session.audit();
        assert_eq!(audit.overlap(), None, "two servers of {:?} at once", session.name);
        for call in made {
            let checked = call.outcome.check(audit.executions(&call.tag));
            assert_eq!(checked, Ok(()), "{}\n{}", call.tag, session.log());
            assert_eq!(call.outcome, Outcome::Answered, "{} failed\n{}", call.tag, session.log());
            if audit.in_a_drain(&call.tag, call.began) {
                self.began_in_a_drain += 1;
            }
        }
        let waited = waited_for_a_drain(&session.log());
        self.in_a_drain += waited;
        *self.in_a_drain_by_callers.entry(callers).or_default() += waited;
        let executions: usize = audit.runs.values().map(Vec::len).sum();
        // One more: the call that measured how long the command takes.
        assert!(executions.abs_diff(made.len()) <= MEASURED, "{executions} executions, {} calls", made.len());
        self.calls += made.len();
        self.commands += made.iter().filter(|call| call.command).count();
        self.servers += audit.lives.len();
        let mut bridges: Vec<u64> = audit.lives.iter().map(|life| life.bridge).collect();
        bridges.dedup();
        self.bridges += bridges.len();
    }
}

/// How many calls waited for the end of a server, by what the bridges wrote into the log.
fn waited_for_a_drain(log: &str) -> usize {
    let counts = log.lines().filter_map(|line| {
        let count = line.split_once("started again: ")?.1.split_once(" request")?.0;
        count.parse::<usize>().ok()
    });
    counts.sum()
}

/// How many calls each session makes: whole rounds as far as possible, the rest on the last ones.
fn shares(plan: &Plan) -> Vec<usize> {
    let each: usize = plan.callers.iter().sum();
    let rounds = plan.calls / each;
    let mut shares: Vec<usize> = plan.callers.iter().map(|callers| callers * rounds).collect();
    let mut left = plan.calls - rounds * each;
    for (share, callers) in shares.iter_mut().zip(&plan.callers).rev() {
        let more = left.min(*callers);
        *share += more;
        left -= more;
    }
    shares
}

const MEASURED: usize = 3;

/// How long the command takes on an awake session: it has to begin that much earlier.
fn command_takes(session: &Session<'_>) -> Duration {
    let mut least = Duration::MAX;
    for number in 0..MEASURED {
        let began = Instant::now();
        assert_eq!(session.command_call(&format!("measure-{number}"), ""), Outcome::Answered);
        least = least.min(began.elapsed());
    }
    least
}

struct Shared {
    turn: Barrier,
    /// When the last answer came, in microseconds after `epoch`.
    last: AtomicU64,
    epoch: Instant,
    made: Mutex<Vec<Made>>,
}

fn session_rounds(
    session: &Session<'_>,
    plan: &Plan,
    index: usize,
    callers: usize,
    calls: usize,
    lead: Duration,
) -> Vec<Made> {
    let stream = index as u64 * 1000;
    // Warm, so that the first round has a deadline too.
    let epoch = Instant::now();
    let first = format!("{}-first", session.name.as_str());
    let began = wall();
    let outcome = session.call(&first);
    let first = Made { tag: first, began, command: false, outcome };
    let shared = Shared {
        turn: Barrier::new(callers),
        last: AtomicU64::new(micros(epoch)),
        epoch,
        made: Mutex::new(vec![first]),
    };
    // That one counts.
    let calls = calls.saturating_sub(1);
    thread::scope(|scope| {
        for caller in 0..callers {
            let shared = &shared;
            let mine = calls / callers + usize::from(caller < calls % callers);
            let rounds = calls.div_ceil(callers);
            let chance = Chance::new(plan.seed, stream + 1 + caller as u64);
            let mut lots = Chance::new(plan.seed, stream);
            scope.spawn(move || {
                let sessions = session.world.sessions("");
                let mut member = Member {
                    session,
                    chance,
                    sessions: &sessions,
                    caller: None,
                    commands: plan.commands,
                    lead,
                };
                for round in 0..rounds {
                    // All have their answers.
                    shared.turn.wait();
                    // Everyone draws the same lots.
                    let earliest = lots.between(-MARGIN_MS, MARGIN_MS);
                    let deadline = Duration::from_micros(shared.last.load(Ordering::Relaxed)) + IDLE;
                    shared.turn.wait();
                    if round < mine {
                        let tag = format!("{}-{caller}-{round}", session.name.as_str());
                        let made = member.call(tag, shared.epoch + deadline, earliest);
                        shared.last.fetch_max(micros(shared.epoch), Ordering::Relaxed);
                        shared.made.lock().expect("the calls").push(made);
                    }
                }
            });
        }
    });
    shared.made.into_inner().expect("the calls")
}

const IDLE: Duration = Duration::from_secs(1);

struct Member<'s> {
    session: &'s Session<'s>,
    chance: Chance,
    sessions: &'s Sessions,
    caller: Option<Caller<'s>>,
    commands: u64,
    lead: Duration,
}

impl Member<'_> {
    fn call(&mut self, tag: String, deadline: Instant, earliest: i64) -> Made {
        let offset = self.chance.between(earliest, MARGIN_MS);
        let command = self.chance.percent(self.commands);
        let at = match offset {
            0.. => deadline + Duration::from_millis(offset.unsigned_abs()),
            _ => deadline - Duration::from_millis(offset.unsigned_abs()),
        };
        let at = if command { at.checked_sub(self.lead).unwrap_or(at) } else { at };
        // Not a wait for something: the time of the call is what is tested.
        thread::sleep(at.saturating_duration_since(Instant::now()));
        let began = wall();
        let outcome = if command {
            self.session.command_call(&tag, "")
        } else {
            // Some go on with the connection that they have, some come anew.
            if self.chance.percent(40) {
                self.caller = None;
            }
            let caller = self.caller.get_or_insert_with(|| self.sessions.caller(&self.session.name, wait()));
            caller.set_wait(wait());
            of_reply(&caller.call(request(&params(&tag))), &tag)
        };
        Made { tag, began, command, outcome }
    }
}

fn micros(epoch: Instant) -> u64 {
    u64::try_from(epoch.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Now, in Unix milliseconds, as the journal has it.
fn wall() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
