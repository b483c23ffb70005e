//! A process beyond its number, which another one may have by the time it is used.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::sys;
use crate::sys::pidfd::PidFd;
use crate::sys::procfs::{self, Stat};

/// How long a killed process may take to end. Only one that hangs inside the kernel takes any time at all.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Which process a number stood for when it was written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessIdentity {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub started: u64,
    /// The boot those ticks are counted from.
    pub boot_id: String,
    /// The namespace its number belongs to.
    pub pid_ns: u64,
}

impl ProcessIdentity {
    /// This process.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn of_self() -> io::Result<Self> {
        Self::of(sys::own_pid())
    }

    /// The process that has this number now.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is none (a zombie included), others if `/proc` cannot be read.
    pub fn of(pid: u32) -> io::Result<Self> {
        match Stat::read(pid)? {
            Some(stat) if !stat.ended() => Ok(Self {
                pid,
                started: stat.started,
                boot_id: procfs::boot_id()?,
                pid_ns: procfs::pid_namespace()?,
            }),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no process {pid}"))),
        }
    }

    /// Whether this very process still runs: same boot, same namespace, same start. A zombie does not run. What
    /// was written down in another namespace (a container that shares our files) is never alive here.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).is_ok_and(|now| now == *self)
    }

    /// Ends it: TERM, and KILL if it still runs after `term_grace`. Blocks until it has ended. `false`: it did not
    /// run any more. Another process that has its number by now is not touched.
    ///
    /// # Errors
    /// If it may not be signalled, or has not ended ten seconds after KILL.
    pub fn end(&self, term_grace: Duration) -> io::Result<bool> {
        if !self.is_alive() {
            return Ok(false);
        }
        let process = match PidFd::open(self.pid) {
            Ok(process) => process,
            Err(_) if !self.is_alive() => return Ok(false),
            Err(error) => return Err(error),
        };
        // Again, now that the number cannot change hands under us.
        if !self.is_alive() || !process.signal(Signal::TERM)? {
            return Ok(false);
        }
        if process.wait(Instant::now() + term_grace)? {
            return Ok(true);
        }
        process.signal(Signal::KILL)?;
        if process.wait(Instant::now() + KILL_LIMIT)? {
            return Ok(true);
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("process {} was killed but has not ended", self.pid),
        ))
    }
}
