//! Chance that can be repeated: every test prints its seed, `DROWSE_SEED` gives it again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A small generator of numbers that look random (SplitMix64).
#[derive(Debug, Clone)]
pub struct Chance(u64);

/// The seed of this run: `DROWSE_SEED`, or a new one. Printed, for the next run.
pub fn seed(test: &str) -> u64 {
    let given = std::env::var("DROWSE_SEED").ok().and_then(|text| text.trim().parse().ok());
    let seed = given.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::from(now.subsec_nanos()) << 16 | now.as_secs() & 0xffff
    });
    println!("{test}: DROWSE_SEED={seed}");
    seed
}

impl Chance {
    /// The sequence of this seed. Each `stream` of a seed is another sequence.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut chance = Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        chance.next();
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = high.saturating_sub(low).unsigned_abs();
        low.saturating_add_unsigned(self.below(span + 1))
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A time below `limit`.
    pub fn time(&mut self, limit: Duration) -> Duration {
        Duration::from_micros(self.below(u64::try_from(limit.as_micros()).unwrap_or(u64::MAX)))
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.below(of.len() as u64)).unwrap_or(0)]
    }
}
