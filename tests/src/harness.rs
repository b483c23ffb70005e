//! The harness of the end-to-end tests: the real binary, real servers, each test in a home of its own.
//!
//! A [`Home`] is a temporary `DROWSE_HOME` with the binary in it; a [`Session`] is one that is connected there to the
//! [fixture server](crate::fixture), with that server's journal. When a home is dropped, its sessions are closed and
//! the test fails if anything of them is left: a process, a socket, a record.
//!
//! Nothing here waits for a fixed time: whatever is waited for is watched, with [`LIMIT`] as the point where a test is
//! given up. All of it can run in parallel, and needs no fixed port.
//!
//! A [`HttpServer`] is the fixture behind a URL; [`Home::connect_http`] connects a session to it.
//!
//! The binary under test is the one in the target directory that the test itself was built into. `cargo test
//! --workspace` builds it; where it is missing or older than the sources, it is built when the first test needs it.

mod home;
mod http;
mod program;
mod run;
mod session;
mod socket;
pub(crate) mod survey;
mod terminal;

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use home::Home;
pub use http::HttpServer;
pub use program::{drowse, fixture};
pub use run::{Run, Running};
pub use session::{GATHERED, Session, wait_until_gone};
pub use socket::{Socket, failure};
pub use survey::{Watch, belonging_to};
pub use terminal::Terminal;

/// How long anything may take before the test is given up. Nothing waits for this when all is well.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Both values of the fixture's `--era`, for servers of one era.
pub const ERAS: [&str; 2] = ["legacy", "modern"];

/// Runs a test for a server of either era, both at once. Two threads are named by their era, so a failure says which.
///
/// # Panics
/// If the test fails in either.
pub fn in_both_eras(test: impl Fn(&'static str) + Sync) {
    at_once(ERAS.map(|era| (era, era)), test);
}

/// Runs a test for each of several cases, all at once, in threads that have the cases' names.
///
/// # Panics
/// If the test fails for any.
pub fn at_once<C: Send>(cases: impl IntoIterator<Item = (impl Into<String>, C)>, test: impl Fn(C) + Sync) {
    let test = &test;
    thread::scope(|scope| {
        let threads: Vec<_> = cases
            .into_iter()
            .map(|(name, case)| {
                let name = name.into();
                let thread = thread::Builder::new().name(name.clone());
                (name, thread.spawn_scoped(scope, move || test(case)).expect("a thread"))
            })
            .collect();
        let failed: Vec<String> =
            threads.into_iter().filter_map(|(name, thread)| thread.join().is_err().then_some(name)).collect();
        assert!(failed.is_empty(), "failed for {}", failed.join(", "));
    });
}

/// The time now as records and journals have it: milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
