//! What processes use, from /proc.

use std::fs;

/// Processor time, in nanoseconds, of the processes and all their threads.
#[must_use]
pub fn cpu(pids: &[u32]) -> u64 {
    let threads =
        pids.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok()).flatten().flatten();
    // The first number is the time on a processor; that of the process alone would be that of its first thread.
    let times = threads.filter_map(|thread| {
        fs::read_to_string(thread.path().join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok()
    });
    times.sum()
}

/// Proportional set size of the processes together, in KiB.
#[must_use]
pub fn memory(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|pid| line(&format!("/proc/{pid}/smaps_rollup"), "Pss:")).sum()
}

/// The most that was resident of the processes since [`forget_peak`], in KiB.
#[must_use]
pub fn peak(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|pid| line(&format!("/proc/{pid}/status"), "VmHWM:")).sum()
}

/// What is resident of the processes, in KiB.
#[must_use]
pub fn resident(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|pid| line(&format!("/proc/{pid}/status"), "VmRSS:")).sum()
}

/// The peak is counted from here on.
pub fn forget_peak(pids: &[u32]) {
    for pid in pids {
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
    }
}

fn line(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse().ok()
}

/// A process and all below it, but not the fixture servers.
#[must_use]
pub fn proxies(root: u32) -> Vec<u32> {
    let mut all = vec![root];
    let mut at = 0;
    while let Some(pid) = all.get(at).copied() {
        at += 1;
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    all.retain(|pid| !is_server(*pid));
    all
}

fn is_server(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    words.next().is_some_and(|program| program.ends_with(b"drowse-load")) && words.next() == Some(b"server")
}
