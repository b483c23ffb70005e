//! The marker that all processes of one generation carry, and ending those whose bridge is dead.
//!
//! It is the last resort: it reaches what lost its parent *and* its bridge. It cannot reach a process that was
//! started with a cleared environment, that overwrote its own, or that may not be looked into (set-user-id); and
//! one that moves on by forking can slip through, if it does so in each of the moments in which it is looked for.

use std::cell::Cell;
use std::collections::HashSet;
use std::io;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use super::survey::{self, EMPTY_LOOKS, Member};
use crate::sys::{self, procfs};

/// The environment variable with the marker.
pub const GENERATION_VARIABLE: &str = "DROWSE_GENERATION";

/// The environment variable with the directory of the session whose server it is: so that what is left of it is known
/// even where nothing else tells of its generation any more.
pub const SESSION_VARIABLE: &str = "DROWSE_SESSION";

/// How many processes are held by descriptor at a time. Those beyond are signalled all the same, and found again
/// in the next pass if they take their time.
const HELD_AT_ONCE: usize = 128;

/// How many looks during which something ended are not counted.
const LOOKS_WITH_GAPS: u32 = 16;

/// What a [`sweep`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    /// Processes that were killed.
    pub ended: usize,
}

/// A new marker: 128 random bits in hexadecimal.
#[must_use]
pub fn new_marker() -> String {
    let mut bits = [0; 16];
    if getrandom::fill(&mut bits).is_err() {
        // No random source at all (a sandbox that forbids it). A marker has to be unique, not secret: who and when.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        bits = (now << 32 | u128::from(sys::own_pid())).to_be_bytes();
    }
    bits.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The live processes of our user that carry this marker, in no particular order. Never this process itself.
///
/// # Errors
/// If `/proc` cannot be read, or the marker is empty.
pub fn marked(marker: &str) -> io::Result<Vec<u32>> {
    let variable = variable(marker)?;
    Ok(survey::carriers(&procfs::snapshot()?, &variable).iter().map(|member| member.stat.pid).collect())
}

/// Kills every process of our user that carries this marker, and what is below those, until none is left. Never
/// this process itself. Blocks.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] if some live on at the deadline, another kind if one may not be killed or `/proc`
/// cannot be read: it names the process. Those that were reached are killed in any case.
pub fn sweep(marker: &str, deadline: Instant) -> io::Result<Swept> {
    let variable = variable(marker)?;
    sweep_found(deadline, || carrying(&variable))
}

/// The live processes of our user that carry this variable (`NAME=value`), and what is below those, parents first; and
/// whether some processes ended during the look. Never this process itself.
///
/// # Errors
/// If `/proc` cannot be read.
pub(crate) fn carrying(variable: &str) -> io::Result<(Vec<Member>, bool)> {
    let (snapshot, gaps) = procfs::snapshot_with_gaps()?;
    Ok((survey::below(&snapshot, survey::carriers(&snapshot, variable)), gaps))
}

/// Kills all that `find` finds, parents first, until it finds nobody; it also says whether some processes ended while it
/// looked.
///
/// # Errors
/// As [`sweep`].
pub(crate) fn sweep_found(
    deadline: Instant,
    find: impl Fn() -> io::Result<(Vec<Member>, bool)>,
) -> io::Result<Swept> {
    let gaps = Cell::new(false);
    let look = || {
        let (members, with_gaps) = find()?;
        gaps.set(with_gaps);
        Ok(members)
    };
    let mut ended = HashSet::new();
    let mut empty_looks = 0;
    let mut looks_with_gaps = 0;
    while empty_looks < EMPTY_LOOKS {
        let members = survey::freeze(&look)?;
        let Some(first) = members.first().map(|member| member.stat.pid) else {
            // Something ended during the look, maybe one of these: it does not count. But others come and go on a
            // busy machine, too.
            if gaps.get() && looks_with_gaps < LOOKS_WITH_GAPS {
                looks_with_gaps += 1;
            } else {
                empty_looks += 1;
            }
            continue;
        };
        empty_looks = 0;
        let mut held = Vec::new();
        let mut refused = None;
        for member in members.iter().rev() {
            match member.signal(Signal::KILL) {
                Ok(Some(process)) => {
                    ended.insert(member.key());
                    if held.len() < HELD_AT_ONCE {
                        held.push((member.stat.pid, process));
                    }
                }
                Ok(None) => {}
                Err(error) => refused = Some((member.stat.pid, error)),
            }
        }
        if let Some((pid, error)) = refused {
            let what = format!("process {pid}, left over from an earlier run, cannot be killed: {error}");
            return Err(io::Error::new(error.kind(), what));
        }
        for (pid, process) in &held {
            if !process.wait(deadline)? {
                return Err(still_there(*pid));
            }
        }
        // Nothing could be held: all of them ended, or changed parents, while we looked. Look again, but not for
        // ever.
        if held.is_empty() && Instant::now() >= deadline {
            return Err(still_there(first));
        }
    }
    Ok(Swept { ended: ended.len() })
}

fn still_there(pid: u32) -> io::Error {
    let what = format!("process {pid}, left over from an earlier run, was killed but has not ended");
    io::Error::new(io::ErrorKind::TimedOut, what)
}

/// The entry of the environment to look for. An empty marker is a record gone wrong, not a generation.
fn variable(marker: &str) -> io::Result<String> {
    if marker.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "an empty marker marks nothing"));
    }
    Ok(format!("{GENERATION_VARIABLE}={marker}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_128_bits_in_hexadecimal_and_never_repeat() {
        let markers: HashSet<String> = (0..1000).map(|_| new_marker()).collect();
        assert_eq!(markers.len(), 1000);
        assert!(
            markers.iter().all(|one| one.len() == 32 && one.bytes().all(|byte| byte.is_ascii_hexdigit()))
        );
    }

    #[test]
    fn an_empty_marker_is_refused() {
        assert_eq!(marked("").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(sweep("", Instant::now()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
