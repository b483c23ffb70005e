//! How much memory everything below a process uses.
//!
//! A look at `/proc` that is cheap enough to be taken just before a server is let go. Never signals anybody.

use std::fs;
use std::io;

use super::memory::field;
use crate::sys::procfs;

/// Adding up what processes share takes the kernel some 25 µs for each MiB. This much is looked at so; beyond it, all
/// that a process has is counted as its own.
const EXACT_UP_TO: u64 = 128 << 20;
/// No tree that is worth a look has more processes.
const MOST: usize = 1024;

/// The memory of everything below a process, without itself, in bytes: below a bridge, that is its server's whole tree.
/// Shared parts are divided among those who share them (PSS), where the kernel tells; of a large tree they are
/// counted in full (RSS). `None` if there is nothing below it.
#[must_use]
pub fn memory_below(pid: u32) -> Option<u64> {
    let mut found = children(pid);
    let mut next = 0;
    while let Some(parent) = found.get(next).copied().filter(|_| found.len() < MOST) {
        next += 1;
        found.extend(children(parent));
    }
    let mut exact = EXACT_UP_TO;
    let sizes = found.iter().filter_map(|pid| memory_of(*pid, &mut exact));
    sizes.reduce(u64::saturating_add).filter(|bytes| *bytes > 0)
}

/// The children of a process.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut found = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => found.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok())),
            // Not all kernels have such a file.
            Err(error) if error.kind() == io::ErrorKind::NotFound && thread.path().exists() => {
                let all = procfs::snapshot().unwrap_or_default();
                return all.iter().filter(|stat| stat.parent == pid).map(|stat| stat.pid).collect();
            }
            Err(_) => {}
        }
    }
    found
}

/// The memory of one process, exact if it is no more than what is left of that; `None` if it has none (any more).
fn memory_of(pid: u32, exact: &mut u64) -> Option<u64> {
    let size = |file: &str, name| field(&fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?, name);
    let resident = size("status", "VmRSS:")?;
    let Some(left) = exact.checked_sub(resident) else { return Some(resident) };
    *exact = left;
    Some(size("smaps_rollup", "Pss:").unwrap_or(resident))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_is_below_a_process_is_counted_and_it_is_not() {
        // A shell and its child, both waiting. The child itself says that it is there.
        let mut shell = Command::new("sh")
            .args(["-c", "(echo x; exec sleep 60) & wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        shell.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let below = memory_below(shell.id()).unwrap();
        let all = children(std::process::id()).iter().any(|pid| *pid == shell.id());
        assert!(all && (4096..64 << 20).contains(&below), "{below}");
        let mine = memory_of(std::process::id(), &mut EXACT_UP_TO.clone()).unwrap();
        assert!(mine > 1 << 20, "{mine}");
        let _ = shell.stdin.take().unwrap().flush();
        let child = children(shell.id());
        shell.kill().unwrap();
        shell.wait().unwrap();
        for pid in child {
            let _ = Command::new("kill").arg(pid.to_string()).status();
        }
        assert_eq!((memory_below(shell.id()), memory_of(u32::MAX, &mut 0)), (None, None));
    }
}
