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

/// What the processes have written to and nobody else sees, in KiB: unlike [`memory`] it does not depend on who else runs
/// the same program.
#[must_use]
pub fn anonymous(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|pid| line(&format!("/proc/{pid}/smaps_rollup"), "Anonymous:")).sum()
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

/// What stands between client and server where `root` was started: that process and those below it, but not the server,
/// which is the one that was started with the words of `server`, nor what that started.
#[must_use]
pub fn proxies(root: u32, server: &[String]) -> Vec<u32> {
    let mut all = vec![root];
    all.retain(|pid| !is_server(*pid, server));
    let mut at = 0;
    while let Some(pid) = all.get(at).copied() {
        at += 1;
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok());
            all.extend(children.filter(|pid| !is_server(*pid, server)));
        }
    }
    all
}

/// Whether a process has exactly these words. Its program may be named by another path.
fn is_server(pid: u32, server: &[String]) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0);
    let Some((program, arguments)) = server.split_first() else { return false };
    let name = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec);
    words.next().and_then(name) == name(program.as_bytes())
        && words.eq(arguments.iter().map(String::as_bytes))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_server_is_not_measured_and_whoever_has_its_words_among_others_is() {
        let server: Vec<String> = ["cat", "-", "/dev/null"].map(str::to_owned).to_vec();
        // A shell that ends with the words of the server, as a proxy does, and one below it.
        let script = r#""$@" <&3 & sleep 60 <&3 & echo started; read -r line; kill $!"#;
        let mut proxy = Command::new("sh")
            .args(["-c", &format!("exec 3<&0; {script}"), "proxy"])
            .args(&server)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(proxy.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let words = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // Until both are what they are to be, and no copy of the shell.
        let until = Instant::now() + Duration::from_secs(20);
        let found = loop {
            let found = proxies(proxy.id(), &server);
            if found.len() == 2 && found.get(1).is_some_and(|pid| words(pid).starts_with(b"sleep")) {
                break found;
            }
            assert!(Instant::now() < until, "the shell and its sleep, not {found:?}");
            std::thread::yield_now();
        };
        assert_eq!(found.first(), Some(&proxy.id()));
        drop(proxy.stdin.take());
        proxy.wait().unwrap();
    }
}
