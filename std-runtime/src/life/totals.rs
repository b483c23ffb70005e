//! What a life came to: calls, times, and how often it woke, slept and crashed. Adding lines one by one, or what some of
//! them came to and then the rest, gives the same.

use drowse_core::tally::Histogram;
use serde::{Deserialize, Serialize};

use super::{Errors, Line, is_zero, word};
use crate::record::State;

/// How long operations took, as it is written down: buckets of a [`Histogram`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Latency(
    /// No more than this many microseconds, and how many operations.
    Vec<(u64, u32)>,
);

impl Latency {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What can be asked of it.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::new();
        for (micros, count) in &self.0 {
            histogram.record_many(*micros, *count);
        }
        histogram
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, more: &Self) {
        if !more.is_empty() {
            let mut histogram = self.histogram();
            histogram.merge(&more.histogram());
            *self = Self::from(&histogram);
        }
    }
}

impl From<&Histogram> for Latency {
    fn from(histogram: &Histogram) -> Self {
        Self(histogram.filled().collect())
    }
}

/// What lines come to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Totals {
    /// How many lines.
    pub lines: u64,
    /// When the first was written, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// When the state was written last, in milliseconds since 1970.
    pub at: u64,
    /// That state.
    #[serde(with = "word", skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Operations.
    #[serde(skip_serializing_if = "is_zero")]
    pub calls: u64,
    /// Those that did not end with a result.
    #[serde(skip_serializing_if = "Errors::is_none")]
    pub errors: Errors,
    /// How long operations took.
    #[serde(skip_serializing_if = "Latency::is_empty")]
    pub latency: Latency,
    /// How often a server became ready.
    #[serde(skip_serializing_if = "is_zero")]
    pub wakes: u64,
    /// How often it was let go because it was not used.
    #[serde(skip_serializing_if = "is_zero")]
    pub sleeps: u64,
    /// How often it crashed, or could not be started.
    #[serde(skip_serializing_if = "is_zero")]
    pub crashes: u64,
    /// How often it ended the session.
    #[serde(skip_serializing_if = "is_zero")]
    pub expiries: u64,
    /// How often a bridge ended without a word: what it counted is lost.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Milliseconds in which a server ran, or was being started.
    #[serde(skip_serializing_if = "is_zero")]
    pub awake_ms: u64,
    /// Milliseconds in which none ran, on purpose.
    #[serde(skip_serializing_if = "is_zero")]
    pub asleep_ms: u64,
    /// Milliseconds in which none ran because it had crashed, expired, or refused.
    #[serde(skip_serializing_if = "is_zero")]
    pub down_ms: u64,
    /// Milliseconds of which nobody knows.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown_ms: u64,
    /// What the server's processes used when they were let go last, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// What the sleep saved: KiB of memory times milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub saved_kib_ms: u64,
    /// Lines that were none.
    #[serde(skip_serializing_if = "is_zero")]
    pub damaged: u64,
}

impl Totals {
    /// Adds the next line.
    pub fn add(&mut self, line: &Line) {
        if let Some(folded) = &line.folded {
            self.join(folded);
        }
        if line.state.is_none() && line.did.is_none() {
            return;
        }
        self.lines += 1;
        self.since.get_or_insert(line.at);
        self.count(line.calls, &line.errors, &line.latency);
        if let Some(state) = line.state {
            // The word of the last bridge, whose end it did not write.
            let lost = line.fresh && self.state.is_some_and(State::is_awake);
            self.pass(line.at, lost);
            self.enter(state, line.told);
            self.at = line.at;
            // A line about a sleep says what was let go.
            self.memory = line.memory.or(self.memory);
        }
    }

    /// Adds operations.
    pub fn count(&mut self, calls: u64, errors: &Errors, latency: &Latency) {
        self.calls = self.calls.saturating_add(calls);
        self.errors.add(errors);
        self.latency.merge(latency);
    }

    /// Up to now. `alive`: a bridge runs. `known`: the state that is written down elsewhere, and since when, if the
    /// bridge came as far as that and no further.
    #[must_use]
    pub fn until(&self, now: u64, alive: bool, known: Option<(State, u64)>) -> Self {
        let mut totals = self.clone();
        if totals.state.is_some_and(State::is_awake) && !alive {
            let written = known.filter(|(state, since)| !state.is_awake() && *since >= totals.at);
            if let Some((state, since)) = written {
                totals.pass(since, false);
                totals.enter(state, false);
                totals.at = since;
                totals.pass(now, false);
            } else {
                totals.pass(now, true);
            }
        } else {
            totals.pass(now, false);
        }
        totals.at = now;
        totals
    }

    /// Of the time of which something is known, the part in which the server slept; `None` if there is none.
    #[must_use]
    pub fn share_asleep(&self) -> Option<f64> {
        let known = self.awake_ms.saturating_add(self.asleep_ms).saturating_add(self.down_ms);
        (known > 0).then(|| self.asleep_ms as f64 / known as f64)
    }

    /// What the sleep saved, in MiB times hours.
    #[must_use]
    pub fn saved_mib_hours(&self) -> f64 {
        self.saved_kib_ms as f64 / 1024.0 / 3_600_000.0
    }

    /// Time passes in the state that lasts. A clock that was set back lets none pass.
    fn pass(&mut self, until: u64, lost: bool) {
        let Some(state) = self.state else { return };
        let passed = until.saturating_sub(self.at);
        let sum = if lost {
            self.lost += 1;
            &mut self.unknown_ms
        } else if state.is_awake() {
            &mut self.awake_ms
        } else if matches!(state, State::Idle | State::Dormant | State::Closed) {
            &mut self.asleep_ms
        } else {
            &mut self.down_ms
        };
        *sum = sum.saturating_add(passed);
        if state == State::Idle
            && let Some(memory) = self.memory
        {
            self.saved_kib_ms = self.saved_kib_ms.saturating_add((memory >> 10).saturating_mul(passed));
        }
    }

    fn enter(&mut self, state: State, told: bool) {
        let was = self.state.replace(state);
        if was == Some(state) {
            return;
        }
        match state {
            // From the others it only answers again, or is shown again.
            State::Live if !matches!(was, Some(State::Disconnected | State::Suspended)) => self.wakes += 1,
            State::Idle if !told => self.sleeps += 1,
            State::Crashed => self.crashes += 1,
            State::Expired => self.expiries += 1,
            _ => {}
        }
    }

    /// Begins with what others came to; nothing was added before, unless somebody edited the file.
    fn join(&mut self, folded: &Self) {
        let before = std::mem::replace(self, folded.clone());
        self.lines += before.lines;
        self.since = before.since.or(self.since);
        self.count(before.calls, &before.errors, &before.latency);
        for (sum, more) in [
            (&mut self.wakes, before.wakes),
            (&mut self.sleeps, before.sleeps),
            (&mut self.crashes, before.crashes),
            (&mut self.expiries, before.expiries),
            (&mut self.lost, before.lost),
            (&mut self.awake_ms, before.awake_ms),
            (&mut self.asleep_ms, before.asleep_ms),
            (&mut self.down_ms, before.down_ms),
            (&mut self.unknown_ms, before.unknown_ms),
            (&mut self.saved_kib_ms, before.saved_kib_ms),
            (&mut self.damaged, before.damaged),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}
