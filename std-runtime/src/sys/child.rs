//! The child's side between fork and exec, and the one wait call that rustix does not offer in full.
//!
//! Everything in [`prepare`] runs in a copy of a process whose other threads are gone in the middle of whatever
//! they did: it only makes system calls, takes no lock and allocates nothing.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal};

use super::{Children, descriptors};

/// Has `command` start its program in a state that owes nothing to ours: own process group, killed when the
/// thread that forks it ends, all signals at their defaults and unblocked, no descriptor but the standard three.
pub(crate) fn prepare(command: &mut Command) {
    command.process_group(0);
    let parent = rustix::process::getpid();
    // SAFETY: the closure runs between fork and exec. It makes plain system calls on values that were copied in,
    // takes no lock and allocates nothing, as `pre_exec` asks for.
    unsafe {
        command.pre_exec(move || {
            die_with(parent)?;
            reset_signals()?;
            descriptors::close_on_exec_from(3)
        });
    }
}

/// Asks for KILL when the parent ends. A parent that ended before the question was asked would never be noticed:
/// so look whether it is still the same one afterwards.
fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }
}

/// Handlers are gone after exec anyway, but *ignored* signals and the mask are inherited: a server whose starter
/// ran under nohup, or in the background of a shell, would not hear HUP or INT.
fn reset_signals() -> io::Result<()> {
    // The default action, no flags, nothing masked: all zero, in whatever order an architecture has them. Not by
    // the C library, which keeps some signals to itself, but hands them on ignored if they came so.
    let default = [0_u64; 16];
    let last = libc::SIGRTMAX();
    let mask_bytes: libc::size_t = if last > 64 { 16 } else { 8 };
    for signal in 1..=last {
        // SAFETY: `default` is larger than the kernel's sigaction on every architecture, and is only read. KILL
        // and STOP are refused with an error, which is what we want of them.
        unsafe {
            let none = std::ptr::null_mut::<libc::c_void>();
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), none, mask_bytes);
        }
    }
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set that sigprocmask then reads; there is one thread in this process.
    let result = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// See [`super::peek_children`]. By libc, as rustix's status does not say *which* child it is about.
pub(super) fn peek_children() -> io::Result<Children> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    loop {
        // SAFETY: `info` is a valid place for a siginfo_t for the length of the call.
        if unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), flags) } == 0 {
            break;
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return Ok(Children::None),
            _ => return Err(error),
        }
    }
    // SAFETY: zeroed above, for which all bit patterns are valid, and filled by waitid, which leaves the pid zero
    // if no child has ended.
    let ended = unsafe { info.assume_init().si_pid() };
    Ok(match u32::try_from(ended) {
        Ok(pid) if pid != 0 => Children::Ended(pid),
        _ => Children::Alive,
    })
}
