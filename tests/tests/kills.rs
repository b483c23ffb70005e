//! `kill -9` of bridges, servers, callers and pairs of them, at every named step of the wake protocol and at random
//! moments; and processes that are stopped instead.
//!
//! After each: the next call works, what was in flight failed and said how, nothing ran twice, nothing is left.

#![cfg(target_os = "linux")]

#[cfg(debug_assertions)]
#[path = "kills/pairs.rs"]
mod pairs;
#[cfg(debug_assertions)]
#[path = "kills/steps.rs"]
mod steps;
#[path = "kills/storm.rs"]
mod storm;
#[path = "kills/wedged.rs"]
mod wedged;
