//! Reading `/proc`: who is whose child, since when, in what state, with what environment.
//!
//! Everything read here is about a *number*, and may be about another process by the time it is used. Those who
//! signal hold a pidfd first and read again.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

/// `PF_KTHREAD` of the kernel's sources, in the flags of `/proc/<pid>/stat`.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// How often, and how long apart, a process is looked at again that seems to be in the middle of an exec. That takes
/// microseconds, unless the new program has to be fetched from a slow disk.
const EXEC_LOOKS: u32 = 200;
const EXEC_PAUSE: Duration = Duration::from_millis(1);

/// One line of `/proc/<pid>/stat`, as far as we need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: u32,
    pub(crate) state: u8,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) threads: u32,
    /// A thread of the kernel that only looks like a process.
    pub(crate) kernel: bool,
    /// Ticks since boot at which it started: with the pid, its identity until the next boot.
    pub(crate) started: u64,
    /// Ticks of processor time that it has used.
    pub(crate) used: u64,
    /// It has a program: not a zombie, not the kernel's, and not in the middle of an exec, between its old memory and the
    /// new.
    pub(crate) loaded: bool,
}

impl Stat {
    /// The process that has this number now; `None` if there is none.
    pub(crate) fn read(pid: u32) -> io::Result<Option<Self>> {
        let text = match fs::read(format!("/proc/{pid}/stat")) {
            Ok(text) => text,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        Self::parse(&text).map(Some).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat cannot be read"))
        })
    }

    fn parse(text: &[u8]) -> Option<Self> {
        // The second field is the program's name in brackets, with whatever it likes inside: brackets, spaces,
        // newlines. Only the last bracket ends it.
        let open = text.iter().position(|byte| *byte == b'(')?;
        let close = text.iter().rposition(|byte| *byte == b')')?;
        let pid = str::from_utf8(text.get(..open)?).ok()?.trim().parse().ok()?;
        let rest = str::from_utf8(text.get(close + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // proc_pid_stat(5) counts from 1, and the state, our first, is its third.
        let field = |number: usize| fields.get(number - 3).copied();
        // -1 for one that is just being reaped: it has left its group and session already.
        let number = |number: usize| Some(u32::try_from(field(number)?.parse::<i64>().ok()?).unwrap_or(0));
        Some(Self {
            pid,
            state: *field(3)?.as_bytes().first()?,
            parent: number(4)?,
            group: number(5)?,
            session: number(6)?,
            threads: field(20)?.parse().ok()?,
            kernel: field(9)?.parse::<u32>().ok()? & KERNEL_THREAD != 0,
            started: field(22)?.parse().ok()?,
            used: field(14)?.parse::<u64>().ok()?.saturating_add(field(15)?.parse().ok()?),
            // Where its code starts: the last thing that an exec puts in place, after arguments and environment.
            loaded: field(26).is_some_and(|start| start != "0"),
        })
    }

    /// Whether it is a zombie, or even less. A process whose first thread has ended while others run shows the
    /// same letter, but is alive.
    pub(crate) fn ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1
    }

    /// Whether this is one and the same process as `other`.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.pid == other.pid && self.started == other.started
    }
}

/// All processes that can be seen, the newest (as far as their numbers tell) first: it is those that may be gone in a
/// moment, with another one in their place. Those that end meanwhile are left out.
pub(crate) fn snapshot() -> io::Result<Vec<Stat>> {
    Ok(snapshot_with_gaps()?.0)
}

/// The same, and whether some did end meanwhile: their children may have been born too late to be listed.
pub(crate) fn snapshot_with_gaps() -> io::Result<(Vec<Stat>, bool)> {
    let mut found = Vec::new();
    let mut gaps = false;
    // One that is unreadable is not one of ours. Any other failure is ours, and would hide who is there.
    for pid in pids()?.into_iter().rev() {
        match Stat::read(pid) {
            Ok(Some(stat)) => found.push(stat),
            Ok(None) => gaps = true,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error),
        }
    }
    Ok((found, gaps))
}

/// The numbers of all processes that can be seen, rising.
fn pids() -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            found.push(pid);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Whether this process belongs to our user and was started with `variable` (`NAME=value`) in its environment. A
/// zombie has no environment any more.
pub(crate) fn carries(process: &Stat, variable: &str) -> bool {
    environment(process)
        .is_some_and(|entries| entries.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes()))
}

/// The environment that this process was started with, entries ended by NUL, if it belongs to our user and has one.
pub(crate) fn environment(process: &Stat) -> Option<Vec<u8>> {
    let us = rustix::process::geteuid().as_raw();
    let directory = format!("/proc/{}", process.pid);
    if process.kernel || !fs::metadata(&directory).is_ok_and(|metadata| metadata.uid() == us) {
        return None;
    }
    after_exec(process, "environ")
}

/// The words that this process was started with, as it has them now; `None` if it is gone or a zombie.
pub(crate) fn command_line(pid: u32) -> Option<Vec<String>> {
    let process = Stat::read(pid).ok()??;
    let mut bytes = after_exec(&process, "cmdline").filter(|bytes| !bytes.is_empty())?;
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    Some(bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// What stands in the `environ` or `cmdline` of a process. In the middle of an exec it has neither, although whoever
/// started it has been told already that it runs: that is waited for.
fn after_exec(process: &Stat, file: &str) -> Option<Vec<u8>> {
    let path = format!("/proc/{}/{file}", process.pid);
    for _ in 0..EXEC_LOOKS {
        let found = fs::read(&path).ok()?;
        if !found.is_empty() {
            return Some(found);
        }
        match Stat::read(process.pid) {
            Ok(Some(now)) if now.same(process) && !now.loaded && !now.kernel && !now.ended() => {
                thread::sleep(EXEC_PAUSE);
            }
            // It was started with nothing, or is a zombie; unless the exec was over just now.
            _ => return fs::read(&path).ok(),
        }
    }
    None
}

/// How many ticks of [`Stat`] there are in a second.
pub(crate) fn ticks_per_second() -> u64 {
    // What the kernel told this program when it was started: pairs of words, of which AT_CLKTCK is the seventeenth
    // kind.
    const AT_CLKTCK: u64 = 17;
    let vector = fs::read("/proc/self/auxv").unwrap_or_default();
    let words = vector.chunks_exact(size_of::<usize>()).map(|word| {
        let mut bytes = [0; size_of::<usize>()];
        bytes.copy_from_slice(word);
        usize::from_ne_bytes(bytes) as u64
    });
    let words: Vec<u64> = words.collect();
    let told = words.chunks_exact(2).find_map(|pair| match pair {
        [AT_CLKTCK, value] => Some(*value),
        _ => None,
    });
    told.filter(|ticks| *ticks > 0).unwrap_or(100)
}

/// For how long the machine has been up, in the time that [`Stat::started`] is counted in.
pub(crate) fn uptime() -> io::Result<Duration> {
    let text = fs::read_to_string("/proc/uptime")?;
    let seconds = text.split_ascii_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/uptime cannot be read"))
}

/// A value that is another one after each boot.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// The namespace in which this process's pids mean something.
pub(crate) fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// A process that ends while it is looked at is reported in two ways, depending on how far the look had got.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let line = b"77 (a) Z (b \n) S 12 34 56 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 987654 1 2 3 4 5\n";
        let stat = Stat::parse(line).unwrap();
        let wanted = Stat {
            pid: 77,
            state: b'S',
            parent: 12,
            group: 34,
            session: 56,
            threads: 3,
            kernel: false,
            started: 987_654,
            used: 11,
            loaded: true,
        };
        assert_eq!(stat, wanted);
        let reaped = b"77 (a) X 0 -1 -1 0 -1 4194564 1 2 3 4 5 6 7 8 20 0 0 0 987654 1 2\n";
        assert!(Stat::parse(reaped).unwrap().ended());
        assert_eq!(Stat::parse(b"77 (cut off"), None);
        assert_eq!(Stat::parse(b"77 (short) S 1"), None);
    }

    #[test]
    fn a_process_lives_as_long_as_one_of_its_threads() {
        let base = Stat {
            pid: 1,
            state: b'Z',
            parent: 0,
            group: 1,
            session: 1,
            threads: 1,
            kernel: false,
            started: 1,
            used: 0,
            loaded: false,
        };
        assert!(base.ended());
        assert!(Stat { threads: 0, ..base }.ended());
        assert!(!Stat { threads: 2, ..base }.ended());
        assert!(!Stat { state: b'T', ..base }.ended());
    }

    /// Whoever starts a process is told so in the middle of its exec: several of these are met there.
    #[test]
    fn a_process_is_known_as_soon_as_it_was_started() {
        for _ in 0..300 {
            let mut command = std::process::Command::new("sleep");
            let mut child = command.args(["600"]).env("DROWSE_MARK", "this one").spawn().unwrap();
            let stat = Stat::read(child.id()).unwrap().unwrap();
            let (carries, words) = (carries(&stat, "DROWSE_MARK=this one"), command_line(child.id()));
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(carries);
            assert_eq!(words.unwrap(), ["sleep", "600"]);
            assert_eq!(command_line(child.id()), None);
        }
    }

    #[test]
    fn we_find_ourselves() {
        let me = super::super::own_pid();
        let stat = Stat::read(me).unwrap().unwrap();
        assert_eq!(stat.pid, me);
        assert!(!stat.ended());
        assert!(snapshot().unwrap().iter().any(|one| one.same(&stat)));
        assert_eq!(Stat::read(u32::MAX).unwrap(), None);
    }
}
