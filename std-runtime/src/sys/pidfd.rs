//! A process held by descriptor: whatever becomes of its number, a signal reaches this process or nobody.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{PidfdFlags, Signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A process, not a number.
#[derive(Debug)]
pub(crate) struct PidFd(OwnedFd);

impl PidFd {
    /// Holds the process that has the number `pid` now. Who that is, is to be asked *after* this call.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        Ok(Self(rustix::process::pidfd_open(super::pid(pid)?, PidfdFlags::empty())?))
    }

    /// Signals it. A process that is gone already is no error: `Ok(false)`.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<bool> {
        match rustix::process::pidfd_send_signal(&self.0, signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Blocks until all its threads have ended (`true`; a zombie has) or the deadline passed (`false`).
    pub(crate) fn wait(&self, deadline: Instant) -> io::Result<bool> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
            match rustix::event::poll(&mut fds, Some(&left)) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The same, for tokio: readable once all its threads have ended. Within a runtime whose I/O is enabled.
    pub(crate) fn watched(self) -> io::Result<AsyncFd<Self>> {
        // SAFETY: the descriptor is ours alone, is open, and is the same one until `self` is dropped: nothing
        // here takes it out or replaces it.
        unsafe { Ok(AsyncFd::register_with_interest(self, Interest::READABLE)?) }
    }
}

impl AsRawFd for PidFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
