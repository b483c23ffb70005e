//! What the operating system gives us and nothing else does: the one place of this crate with `unsafe`.
//!
//! It owns the calls for which rustix has no safe form, the reading of `/proc`, and pidfds. It never decides
//! anything: who is signalled, and when, is `process`'s business.
//!
//! Linux 5.3 or later (pidfds), with `/proc` mounted. Other platforms are untried.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "drowse-runtime needs Linux: process trees are ended with pidfds, a subreaper and /proc. Other platforms \
     are untried; a port starts in this module."
);

pub(crate) mod child;
pub(crate) mod descriptors;
pub(crate) mod handover;
pub(crate) mod listeners;
pub(crate) mod one_thread;
pub(crate) mod pages;
pub(crate) mod pidfd;
pub(crate) mod procfs;
pub(crate) mod suspension;

use std::io;

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus};

/// The pid of this process.
pub(crate) fn own_pid() -> u32 {
    std::process::id()
}

/// A pid as rustix wants it. Zero and what does not fit are no process.
pub(crate) fn pid(raw: u32) -> io::Result<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{raw} is not the number of a process"))
    })
}

/// Whether orphans below this process become its children.
pub(crate) fn is_subreaper() -> bool {
    // The kernel answers with a flag; rustix's type for it is a pid, absent for zero.
    rustix::process::child_subreaper().is_ok_and(|set| set.is_some())
}

/// Makes this process the one that orphans below it are given to.
pub(crate) fn set_subreaper() -> io::Result<()> {
    // Any number but zero switches it on; the kernel does not look at it further.
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// How our child `pid` ended, if it did. It stays a zombie, so that its pid cannot be given to another.
pub(crate) fn peek_exit(pid: Pid) -> io::Result<Option<WaitIdStatus>> {
    Ok(rustix::io::retry_on_intr(|| {
        rustix::process::waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT,
        )
    })?)
}

/// Reaps our child `pid` if it ended. From here on its number may be given to another process.
pub(crate) fn reap(pid: Pid) -> io::Result<Option<WaitIdStatus>> {
    Ok(rustix::io::retry_on_intr(|| {
        rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
    })?)
}

/// What the kernel knows about the children of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Children {
    /// There is none, neither alive nor waiting to be reaped.
    None,
    /// There are some, all alive.
    Alive,
    /// This one ended and waits to be reaped (there may be more behind it).
    Ended(u32),
}

/// Looks at the children of this process without reaping any.
pub(crate) fn peek_children() -> io::Result<Children> {
    child::peek_children()
}
