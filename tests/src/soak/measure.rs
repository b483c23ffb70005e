//! What a run costs at one moment: descriptors, processes, files, memory.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::race::processes::{Role, Seen};

/// One look.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// Since the start.
    pub at: Duration,
    /// Operations begun until then.
    pub operations: usize,
    /// Bridges.
    pub bridges: usize,
    /// Servers.
    pub servers: usize,
    /// Descriptors of a bridge, on average.
    pub descriptors: f64,
    /// Memory of a bridge in KiB (PSS), on average.
    pub memory: f64,
    /// Descriptors of a bridge that lives as long as the run, on average.
    pub steady_descriptors: f64,
    /// Its memory in KiB (what is its own: private pages), on average.
    pub steady_memory: f64,
    /// Files in the home.
    pub files: usize,
    /// Their size in KiB.
    pub size: f64,
}

impl Sample {
    /// Looks.
    #[must_use]
    pub fn take(at: Duration, operations: usize, all: &[Seen], steady: &[Seen], home: &Path) -> Self {
        let bridges: Vec<&Seen> = all.iter().filter(|seen| seen.role == Role::Bridge).collect();
        let (files, size) = files_and_size(home);
        Self {
            at,
            operations,
            bridges: bridges.len(),
            servers: all.iter().filter(|seen| matches!(seen.role, Role::Server { .. })).count(),
            descriptors: mean(bridges.iter().filter_map(|seen| descriptors(seen.pid))),
            memory: mean(bridges.iter().filter_map(|seen| memory(seen.pid, "Pss:"))),
            steady_descriptors: mean(steady.iter().filter_map(|seen| descriptors(seen.pid))),
            steady_memory: mean(steady.iter().filter_map(|seen| {
                Some(memory(seen.pid, "Private_Clean:")? + memory(seen.pid, "Private_Dirty:")?)
            })),
            files,
            size,
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count == 0.0 { 0.0 } else { sum / count }
}

/// Open descriptors of a process; `None` if it is gone.
fn descriptors(pid: u32) -> Option<f64> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as f64)
}

/// A line of what the kernel says of its memory, in KiB.
fn memory(pid: u32, line: &str) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let found = text.lines().find_map(|found| found.strip_prefix(line))?;
    found.split_whitespace().next()?.parse().ok()
}

/// How many files there are.
#[must_use]
pub(super) fn files(home: &Path) -> usize {
    files_and_size(home).0
}

fn files_and_size(directory: &Path) -> (usize, f64) {
    let mut sum = (0, 0.0);
    // Files come and go meanwhile.
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(kind) = entry.metadata() else { continue };
        if kind.is_dir() {
            let (files, size) = files_and_size(&entry.path());
            sum = (sum.0 + files, sum.1 + size);
        } else {
            sum = (sum.0 + 1, sum.1 + kind.len() as f64 / 1024.0);
        }
    }
    sum
}
