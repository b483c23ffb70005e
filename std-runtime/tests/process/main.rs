//! Real processes, started and ended. Each test has a process of its own, as being a subreaper, and what becomes
//! of orphans, is a matter of a whole process.

// Helpers of tests may fail as tests do; clippy sees only the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod alone;
mod descriptors;
mod ending;
mod forking;
mod identity;
mod launching;
mod sweeping;
mod traced;
