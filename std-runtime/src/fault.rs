//! Named steps of the wake protocol at which a test may end or stop the process that takes them.
//!
//! `DROWSE_FAULT` lists steps: `C6` ends the process by SIGKILL when it comes to that step, `C6#2` when it comes there
//! for the second time, `B3:stop` stops it by SIGSTOP. With `DROWSE_FAULT_ONCE` each of them happens to one process
//! only, the first of all: it makes the file of that name with `.C6` after it. Both are read in debug builds only; in
//! others nothing of this is left, not even the look at the environment.

/// This process is at `step` of docs/wake-protocol.md.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) const fn point(_step: &str) {}

#[cfg(debug_assertions)]
pub(crate) use armed::point;

#[cfg(debug_assertions)]
mod armed {
    use std::fs::File;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    static FAULTS: OnceLock<Vec<Fault>> = OnceLock::new();

    #[derive(Debug)]
    struct Fault {
        step: String,
        /// The how manyth visit it is about, from 1.
        visit: u32,
        signal: Signal,
        visits: AtomicU32,
    }

    /// This process is at `step` of docs/wake-protocol.md.
    pub(crate) fn point(step: &str) {
        let faults = FAULTS.get_or_init(|| parse(&std::env::var("DROWSE_FAULT").unwrap_or_default()));
        for fault in faults.iter().filter(|fault| fault.step == step) {
            if fault.visits.fetch_add(1, Ordering::Relaxed) + 1 == fault.visit && is_first(step) {
                // So that a test can tell that it was here, and not somewhere else, that it ended.
                eprintln!("drowse: fault at {step}");
                let _ = kill_process(getpid(), fault.signal);
            }
        }
    }

    fn is_first(step: &str) -> bool {
        std::env::var("DROWSE_FAULT_ONCE")
            .map_or(true, |file| File::create_new(format!("{file}.{step}")).is_ok())
    }

    fn parse(text: &str) -> Vec<Fault> {
        text.split(',').filter(|one| !one.is_empty()).map(one).collect()
    }

    fn one(text: &str) -> Fault {
        let (text, signal) = match text.strip_suffix(":stop") {
            Some(text) => (text, Signal::STOP),
            None => (text, Signal::KILL),
        };
        let (step, visit) = match text.split_once('#') {
            Some((step, visit)) => (step, visit.parse().unwrap_or(1)),
            None => (text, 1),
        };
        Fault { step: step.to_owned(), visit, signal, visits: AtomicU32::new(0) }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn steps_visits_and_signals() {
            let read = |text| {
                let faults = parse(text);
                faults.into_iter().map(|fault| (fault.step, fault.visit, fault.signal)).collect::<Vec<_>>()
            };
            assert_eq!(read(""), []);
            assert_eq!(read("C1"), [("C1".to_owned(), 1, Signal::KILL)]);
            assert_eq!(
                read("C6#2,B3:stop,D1#3:stop"),
                [
                    ("C6".to_owned(), 2, Signal::KILL),
                    ("B3".to_owned(), 1, Signal::STOP),
                    ("D1".to_owned(), 3, Signal::STOP)
                ]
            );
        }
    }
}
