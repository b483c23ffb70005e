//! The search: breadth first over all states, then a proof that every run ends.
//!
//! Owns the set of states and the way back from each to a root. Knows nothing of the protocol but that a state has
//! steps.

use std::collections::BTreeSet;
use std::fmt;

use super::world::{BRIDGES, CALLERS, COMMANDS, World};
use super::{Command, Config, Violation, bridge, caller, command, fault, verdict};

/// Who takes a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    Caller(usize),
    Bridge(usize),
    Command(Command),
    Server,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Step,
    /// The idle deadline.
    Idle,
    Fault,
}

struct Step {
    who: Who,
    what: &'static str,
    kind: Kind,
    next: World,
}

/// The steps out of one state.
#[derive(Default)]
pub(super) struct Steps(Vec<Step>);

impl Steps {
    pub(super) fn push(&mut self, who: Who, what: &'static str, next: World) {
        self.add(who, what, Kind::Step, next);
    }

    pub(super) fn push_idle(&mut self, who: Who, what: &'static str, next: World) {
        self.add(who, what, Kind::Idle, next);
    }

    pub(super) fn push_fault(&mut self, who: Who, what: &'static str, next: World) {
        self.add(who, what, Kind::Fault, next);
    }

    fn add(&mut self, who: Who, what: &'static str, kind: Kind, mut next: World) {
        next.normalize();
        self.0.push(Step { who, what, kind, next });
    }

    /// Fills with what every process can do by itself, faults left out.
    fn fill(&mut self, world: &World, config: &Config) {
        self.0.clear();
        for i in 0..CALLERS {
            caller::steps(world, config, i, self);
        }
        for k in 0..BRIDGES {
            bridge::steps(world, config, k, self);
        }
        for j in 0..COMMANDS {
            command::steps(world, config, j, self);
        }
        bridge::server_steps(world, self);
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caller(i) => write!(f, "caller {i}"),
            Self::Bridge(k) => write!(f, "bridge {k}"),
            Self::Command(kind) => write!(f, "{kind:?}"),
            Self::Server => write!(f, "server"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.who, self.what)
    }
}

/// What the search found.
#[derive(Debug)]
pub struct Report {
    /// Different states, callers being interchangeable.
    pub states: usize,
    /// Steps between them, kills included.
    pub steps: u64,
    /// States in which nothing more can happen.
    pub ends: usize,
    /// Every kind of step that was taken, in the words of a trace.
    pub taken: BTreeSet<&'static str>,
    /// A state needed more bridge processes at once than the model has room for, so not all was seen.
    pub overflow: bool,
    /// The first thing found wrong, and the steps that lead there, one a line; nothing was searched beyond it.
    pub violation: Option<(Violation, Vec<String>)>,
}

/// Visits every state.
pub fn check(config: &Config) -> Report {
    let mut search = Search {
        config: *config,
        states: States::default(),
        report: Report {
            states: 0,
            steps: 0,
            ends: 0,
            taken: BTreeSet::new(),
            overflow: false,
            violation: None,
        },
        recent: [0; RECENT],
    };
    search.visit_all();
    if search.report.violation.is_none() {
        search.prove_endings();
    }
    search.report.states = search.states.words.len();
    search.report
}

struct Search {
    config: Config,
    states: States,
    report: Report,
    /// Addresses of words that `report.taken` has.
    recent: [usize; RECENT],
}

const RECENT: usize = 512;

impl Search {
    fn visit_all(&mut self) {
        for mut root in self.config.roots() {
            root.normalize();
            self.states.insert(root.pack(), NO_PARENT);
        }
        let mut steps = Steps::default();
        let mut at = 0;
        while at < self.states.words.len() {
            let world = World::unpack(self.states.words[at]);
            if let Some(what) = self.broken(verdict::of_state(&world)) {
                self.report.violation = Some((what, self.trace(at, None)));
                return;
            }
            steps.fill(&world, &self.config);
            if steps.0.is_empty() {
                self.report.ends += 1;
                if let Some(what) = self.broken(verdict::of_end(&world, &self.config)) {
                    self.report.violation = Some((what, self.trace(at, None)));
                    return;
                }
            }
            fault::steps(&world, &self.config, &mut steps);
            for step in &steps.0 {
                self.report.steps += 1;
                self.note(step.what);
                if step.next.overflow {
                    self.report.overflow = true;
                    continue;
                }
                if let Some(what) = self.broken(step.next.violation) {
                    self.report.violation = Some((what, self.trace(at, Some(what))));
                    return;
                }
                let target = self.states.insert(step.next.pack(), at as u32);
                if step.kind == Kind::Step {
                    self.states.entries[target] += 1;
                }
            }
            at += 1;
        }
    }

    /// Every run ends: the graph without deadlines has no cycle. Faults and passing failures are counted down, so no
    /// cycle can contain one. Takes away, again and again, the states that nothing leads to; a cycle would remain.
    fn prove_endings(&mut self) {
        let total = self.states.words.len();
        let mut ready: Vec<u32> =
            (0..total as u32).filter(|&s| self.states.entries[s as usize] == 0).collect();
        let mut taken = 0;
        let mut steps = Steps::default();
        while let Some(at) = ready.pop() {
            taken += 1;
            steps.fill(&World::unpack(self.states.words[at as usize]), &self.config);
            for step in steps.0.iter().filter(|s| s.kind == Kind::Step && !s.next.overflow) {
                let Some(target) = self.states.find(step.next.pack()) else { continue };
                let entries = &mut self.states.entries[target];
                *entries -= 1;
                if *entries == 0 {
                    ready.push(target as u32);
                }
            }
        }
        if taken < total {
            let (at, round) = self.find_cycle();
            let mut trace = self.trace(at, None);
            trace.push(format!("and from there for ever: {}", round.join("; ")));
            self.report.violation = Some((Violation::Endless, trace));
        }
    }

    /// A state on a cycle and the steps round it. Only states that `prove_endings` could not take away can be on one.
    fn find_cycle(&self) -> (usize, Vec<&'static str>) {
        let mut on_path = vec![false; self.states.words.len()];
        let mut done = on_path.clone();
        let onward = |at: usize| {
            let mut steps = Steps::default();
            steps.fill(&World::unpack(self.states.words[at]), &self.config);
            let steps = steps.0.into_iter().filter(|s| s.kind == Kind::Step);
            steps.filter_map(|s| Some((s.what, self.states.find(s.next.pack())?))).collect::<Vec<_>>()
        };
        for root in (0..done.len()).filter(|&s| self.states.entries[s] > 0) {
            let mut path = if done[root] { Vec::new() } else { vec![(root, "", onward(root))] };
            while let Some((at, _, left)) = path.last_mut() {
                let at = *at;
                on_path[at] = true;
                match left.pop() {
                    Some((what, next)) if on_path[next] => {
                        let start = path.iter().position(|&(s, _, _)| s == next).unwrap_or(0);
                        let mut round: Vec<_> = path[start + 1..].iter().map(|&(_, what, _)| what).collect();
                        round.push(what);
                        return (next, round);
                    }
                    Some((_, next)) if done[next] => {}
                    Some((what, next)) => path.push((next, what, onward(next))),
                    None => {
                        on_path[at] = false;
                        done[at] = true;
                        path.pop();
                    }
                }
            }
        }
        (0, Vec::new())
    }

    /// Remembers that this kind of step was taken. Nearly all were already, and then it must cost next to nothing.
    fn note(&mut self, what: &'static str) {
        let address = what.as_ptr() as usize;
        let recent = &mut self.recent[address / 8 % RECENT];
        if *recent != address {
            *recent = address;
            self.report.taken.insert(what);
        }
    }

    /// A violation, unless it is one that is to be passed by.
    fn broken(&self, found: Option<Violation>) -> Option<Violation> {
        found.filter(|v| !(self.config.harm_only && v.is_early_sign()))
    }

    /// The steps from a root to this state, and on to the violation that a step from here notes.
    fn trace(&self, at: usize, last: Option<Violation>) -> Vec<String> {
        let mut path = vec![at];
        while let parent = self.states.parents[path[path.len() - 1]]
            && parent != NO_PARENT
        {
            path.push(parent as usize);
        }
        path.reverse();
        // Packed states have their callers sorted. Walking unsorted ones along the path keeps each caller's number.
        let mut world = World::unpack(self.states.words[path[0]]);
        let mut lines = vec![world.to_string()];
        let mut steps = Steps::default();
        for &stop in &path[1..] {
            steps.fill(&world, &self.config);
            fault::steps(&world, &self.config, &mut steps);
            let word = self.states.words[stop];
            if let Some(step) =
                steps.0.iter().find(|s| self.broken(s.next.violation).is_none() && s.next.pack() == word)
            {
                lines.push(step.to_string());
                world = step.next;
            }
        }
        if last.is_some() {
            steps.fill(&world, &self.config);
            fault::steps(&world, &self.config, &mut steps);
            lines.extend(steps.0.iter().find(|s| s.next.violation == last).map(ToString::to_string));
        } else {
            lines.push(world.to_string());
        }
        lines
    }
}

const NO_PARENT: u32 = u32::MAX;
const NO_STATE: u32 = u32::MAX;

/// All states seen, in the order in which they were: 16 bytes each, 4 for the way back, 2 for the proof of endings,
/// and at most 8 in the table by which they are found.
#[derive(Default)]
struct States {
    words: Vec<u128>,
    parents: Vec<u32>,
    /// How many steps lead to this state, deadlines and faults not counted.
    entries: Vec<u16>,
    /// Open addressing; a power of two long, at most three quarters full.
    table: Vec<u32>,
}

impl States {
    /// The number of this state, a new one if it was not seen yet.
    fn insert(&mut self, word: u128, parent: u32) -> usize {
        if (self.words.len() + 1) * 4 > self.table.len() * 3 {
            self.grow();
        }
        let slot = self.slot(word);
        if self.table[slot] == NO_STATE {
            self.table[slot] = self.words.len() as u32;
            self.words.push(word);
            self.parents.push(parent);
            self.entries.push(0);
        }
        self.table[slot] as usize
    }

    fn find(&self, word: u128) -> Option<usize> {
        let found = self.table[self.slot(word)];
        (found != NO_STATE).then_some(found as usize)
    }

    /// Where this state is in the table, or would be.
    fn slot(&self, word: u128) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = hash(word) as usize & mask;
        while self.table[slot] != NO_STATE && self.words[self.table[slot] as usize] != word {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        self.table = vec![NO_STATE; (self.table.len() * 2).max(1 << 12)];
        let mask = self.table.len() - 1;
        for (number, &word) in self.words.iter().enumerate() {
            let mut slot = hash(word) as usize & mask;
            while self.table[slot] != NO_STATE {
                slot = (slot + 1) & mask;
            }
            self.table[slot] = number as u32;
        }
    }
}

/// Mixes both halves; the multipliers are odd and otherwise arbitrary.
fn hash(word: u128) -> u64 {
    let low = (word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let high = ((word >> 64) as u64).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    let mixed = (low ^ low >> 29).wrapping_add(high ^ high >> 31).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake_model::{Command, Variant};

    /// A field that the packing lost would merge states that differ.
    #[test]
    fn packing_loses_nothing() {
        for config in [
            Config { wedges: true, flaky: true, ..Config::new(1, 1) }.beside(Command::Restart),
            Config::new(2, 1),
            Config::new(1, 1)
                .beside(Command::Connect)
                .beside(Command::Close)
                .with(Variant::CloseUnlinksLocks),
        ] {
            let mut search = Search {
                config,
                states: States::default(),
                report: check(&Config::new(0, 0)),
                recent: [0; RECENT],
            };
            search.visit_all();
            let mut steps = Steps::default();
            for &word in &search.states.words {
                let world = World::unpack(word);
                assert_eq!(world.pack(), word);
                steps.fill(&world, &config);
                fault::steps(&world, &config, &mut steps);
                for Step { mut next, .. } in steps.0.drain(..).filter(|s| s.next.violation.is_none()) {
                    let unpacked = World::unpack(next.pack());
                    next.callers.sort_by_key(|caller| {
                        unpacked
                            .callers
                            .iter()
                            .position(|other| other == caller)
                            .expect("a caller was changed")
                    });
                    assert_eq!(unpacked, World { overflow: false, ..next });
                }
            }
        }
    }
}
