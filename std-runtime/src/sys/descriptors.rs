//! File descriptors of the whole process: closing what was inherited, marking what must not be.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::FdFlags;

/// Closes every descriptor from `first` on, except those in `keep`.
///
/// For the first moments of a process, when all it has was inherited from a starter whose files, sockets and
/// pipes it must not hold open. Descriptors that something in this process already owns are closed under its
/// feet: call it before anything is opened (a runtime included).
pub fn close_descriptors_from(first: RawFd, keep: &[RawFd]) -> io::Result<()> {
    let mut keep: Vec<RawFd> = keep.iter().copied().filter(|fd| *fd >= first).collect();
    keep.sort_unstable();
    keep.dedup();
    let mut next = first.max(0);
    for kept in keep {
        if kept > next {
            close_range(next, kept - 1)?;
        }
        next = kept.saturating_add(1);
    }
    close_range(next, RawFd::MAX)
}

/// Points standard input and output at `/dev/null`, and standard error at `log` (or also at `/dev/null`).
pub fn detach_standard_streams(log: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(log.unwrap_or_else(|| null.as_fd()))?;
    Ok(())
}

/// Marks every descriptor from `first` on as closed by exec. Not closed at once, as the pipe by which a failed
/// exec is reported is among them. Runs between fork and exec: system calls only.
pub(super) fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    match range(first, RawFd::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_uint) {
        Ok(()) => Ok(()),
        // Before Linux 5.11, or forbidden by a sandbox.
        Err(_) => each_listed(first, RawFd::MAX, |fd| {
            let flags = rustix::io::fcntl_getfd(fd)?;
            Ok(rustix::io::fcntl_setfd(fd, flags | FdFlags::CLOEXEC)?)
        }),
    }
}

fn close_range(first: RawFd, last: RawFd) -> io::Result<()> {
    match range(first, last, 0) {
        Ok(()) => Ok(()),
        Err(_) => each_listed(first, last, |fd| {
            // SAFETY: the caller has given up what it has in this range; see close_descriptors_from.
            unsafe { rustix::io::close(fd.as_raw_fd()) };
            Ok(())
        }),
    }
}

fn range(first: RawFd, last: RawFd, flags: libc::c_uint) -> io::Result<()> {
    // By number, as the C library has a function for it only since glibc 2.34.
    // SAFETY: touches no memory of ours. Closing is what the callers are for.
    let result =
        unsafe { libc::syscall(libc::SYS_close_range, first as libc::c_uint, last as libc::c_uint, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Calls `act` for every open descriptor in the range, by the list that `/proc` has of them. Reads into a buffer
/// on the stack, so that it can run between fork and exec.
fn each_listed(
    first: RawFd,
    last: RawFd,
    mut act: impl FnMut(BorrowedFd<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let list = rustix::fs::open(
        c"/proc/self/fd",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    // The kernel walks by number, so closing one does not hide another.
    let mut entries = RawDir::new(&list, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let Some(fd) = number(entry.file_name()) else { continue };
        if fd < first || fd > last || fd == list.as_raw_fd() {
            continue;
        }
        // SAFETY: it is open: the kernel just listed it, and nothing else runs here that would close it.
        act(unsafe { BorrowedFd::borrow_raw(fd) })?;
    }
    Ok(())
}

fn number(name: &CStr) -> Option<RawFd> {
    let mut value: RawFd = 0;
    for digit in name.to_bytes() {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(RawFd::from(digit - b'0'))?;
    }
    Some(value)
}

/// Takes over a descriptor that the starter left open for this process.
///
/// # Errors
/// If nothing is open under that number, or it is a standard stream.
pub fn adopt_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    if number <= 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: only looked at; that it is open is what the call finds out.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and was inherited for this very purpose: nothing else in this process owns it. To be called
    // once for a number, at the start.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands in for `close_range` where there is none: tried here, as on a newer kernel nothing else does.
    #[test]
    fn descriptors_are_found_by_the_list_of_them_too() {
        let one = rustix::io::fcntl_dupfd_cloexec(io::stderr(), 700).unwrap();
        let other = rustix::io::fcntl_dupfd_cloexec(io::stderr(), one.as_raw_fd() + 1).unwrap();
        rustix::io::fcntl_setfd(&one, FdFlags::empty()).unwrap();
        let mut seen = Vec::new();
        each_listed(one.as_raw_fd(), other.as_raw_fd(), |fd| {
            seen.push((fd.as_raw_fd(), rustix::io::fcntl_getfd(fd)?.contains(FdFlags::CLOEXEC)));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(one.as_raw_fd(), false), (other.as_raw_fd(), true)]);
        assert_eq!(
            [number(c"0"), number(c"42"), number(c".."), number(c"99999999999")],
            [Some(0), Some(42), None, None]
        );
    }
}
