//! A month in virtual time: a server is used in bursts, sleeps, wakes, crashes and leaves, over every transport and in both
//! eras, and at no time is an operation lost or run twice, or a sleep taken for a crash.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "each test crate uses a part of it")]
mod harness;

use std::collections::{HashMap, HashSet};

use drowse_core::era::Era;
use drowse_core::lifecycle::{self, Exit, PublicState};
use drowse_core::link::Ran;
use drowse_core::server::{Config, Refusal};
use drowse_core::snapshot;
use drowse_core::time::{Duration, Instant};

use harness::{Did, Fate, Peer, World};

/// The idle period.
const PERIOD: Duration = Duration::from_secs(600);
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// Chance that is the same in every run (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }
}

/// What is known of the month so far.
#[derive(Default, Debug)]
struct Ledger {
    calls: usize,
    answered: usize,
    refused: usize,
    never_ran: usize,
    may_have_run: usize,
    spawned: u64,
    slept: usize,
    crashed: usize,
    /// Generations that are recorded as asleep.
    idle: HashSet<u64>,
}

impl Ledger {
    fn note(&mut self, did: Vec<Did>) {
        for did in did {
            match did {
                Did::Spawn(generation) => {
                    assert_eq!(generation, self.spawned + 1, "one generation after the other");
                    self.spawned = generation;
                }
                Did::Persist(PublicState::Idle, generation) => {
                    self.slept += usize::from(self.idle.insert(generation));
                }
                Did::Persist(PublicState::Crashed, generation) => {
                    assert!(!self.idle.contains(&generation), "a sleep became a crash");
                    self.crashed += 1;
                }
                _ => {}
            }
        }
    }
}

fn month(peer: Peer, seed: u64) -> Ledger {
    let lifecycle = lifecycle::Config { idle: Some(PERIOD), resident: true, ..lifecycle::Config::default() };
    // Every other one is asked what it offers, and when that changes.
    let snapshot = (seed % 2 == 1 && !peer.is_remote()).then(snapshot::Limits::default);
    let mut world = World::new(Config { lifecycle, snapshot, ..Config::default() }, peer);
    let mut chance = Chance(seed);
    let mut ledger = Ledger::default();
    let mut open: Vec<usize> = Vec::new();
    let end = world.now().after(MONTH);
    // Nothing fails but for a reason: when something was last ended by force.
    let mut ended = Instant::ZERO;
    while world.now() < end {
        match chance.below(100) {
            0..50 => {
                for _ in 0..=chance.below(4) {
                    match world.try_call("tools/call") {
                        Ok(call) => {
                            ledger.calls += 1;
                            open.push(call);
                        }
                        Err(Refusal::Unavailable(why)) => {
                            ledger.refused += 1;
                            assert!(ended > Instant::ZERO, "refused without a crash: {why:?}");
                        }
                        Err(refusal) => panic!("{refusal:?}"),
                    }
                }
                world.pass(Duration::from_millis(chance.below(2000)));
            }
            50..70 => world.pass(Duration::from_millis(chance.below(1_200_000))),
            70..85 => world.pass(Duration::from_secs(chance.below(4 * 3600))),
            85..93 if world.has_process() && !peer.is_remote() => {
                ended = world.now();
                world.exits(if chance.below(2) == 0 { Exit::Status(1) } else { Exit::Signal(9) });
            }
            93..96 if world.has_process() && !peer.is_remote() => {
                ended = world.now();
                world.exits(Exit::Status(0));
            }
            // The moment of the deadline itself.
            96..100 => {
                if let Some((millis, _)) = world.awaits() {
                    world.pass(Duration::from_millis(millis.saturating_sub(chance.below(3))));
                }
            }
            _ => {}
        }
        ledger.note(world.done());
        open.retain(|&call| match world.fate(call) {
            Fate::Open => true,
            Fate::Answered(_) => {
                ledger.answered += 1;
                false
            }
            Fate::Failed(cause, ran) => {
                assert!(ended > Instant::ZERO, "failed without a reason: {cause:?}");
                match ran {
                    Ran::No => ledger.never_ran += 1,
                    Ran::Unknown => ledger.may_have_run += 1,
                }
                false
            }
        });
    }
    // Left alone it ends whatever is open, and sleeps.
    world.pass(PERIOD);
    world.pass(PERIOD);
    ledger.note(world.done());
    assert!(!world.has_process(), "{}", world.state());
    assert!(matches!(world.state(), "idle" | "crashed"), "{}", world.state());
    for call in open {
        assert!(world.is_answered(call), "{:?}", world.fate(call));
        ledger.answered += 1;
    }
    let mut runs: HashMap<&str, usize> = HashMap::new();
    for run in &world.executed {
        *runs.entry(run).or_default() += 1;
    }
    assert!(runs.values().all(|count| *count == 1), "something ran twice");
    assert!(
        runs.len() >= ledger.answered && runs.len() <= ledger.answered + ledger.may_have_run,
        "{ledger:?}"
    );
    assert_eq!(ledger.calls, ledger.answered + ledger.never_ran + ledger.may_have_run, "{ledger:?}");
    ledger
}

#[test]
fn a_month_of_use_sleep_and_crashes() {
    for seed in 0..6 {
        for era in [Era::Legacy, Era::Modern] {
            let ledger = month(Peer::Process(era), seed);
            assert!(ledger.slept > 100 && ledger.crashed > 10 && ledger.calls > 500, "{ledger:?}");
        }
        for peer in [Peer::Session, Peer::Stateless, Peer::Old, Peer::Modern] {
            let ledger = month(peer, seed);
            assert!(ledger.slept > 100 && ledger.crashed == 0 && ledger.calls > 500, "{ledger:?}");
            assert_eq!(ledger.calls, ledger.answered, "{ledger:?}");
        }
    }
}
