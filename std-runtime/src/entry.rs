//! How a program begins whose run is a millisecond: with less than Rust's own start does.
//!
//! That one reads `/proc/self/maps` and makes a stack for a signal handler, so that an overflow of the stack is told as
//! such: a tenth of what the shortest command takes. What else it does is done here. Where arguments reach a program only
//! by its `main`, Rust's own start is used.
#![allow(unsafe_code)]

use std::process;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Blocks of this size and more go back to the system as soon as they are free.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 512 << 10;

/// Makes `$run`, a `fn() -> u8`, what the program does; what it returns is the exit status. To be used once, in the root of
/// a program that has
/// `#![cfg_attr(all(target_os = "linux", target_env = "gnu", not(test)), no_main)]`.
#[macro_export]
macro_rules! entry {
    ($run:path) => {
        #[cfg(all(target_os = "linux", target_env = "gnu", not(test)))]
        #[unsafe(no_mangle)]
        extern "C" fn main() -> ::core::ffi::c_int {
            $crate::entry::begin($run)
        }

        #[cfg(not(all(target_os = "linux", target_env = "gnu", not(test))))]
        fn main() -> ::std::process::ExitCode {
            $run().into()
        }
    };
}

/// Runs a program to its end.
pub fn begin(run: fn() -> u8) -> ! {
    open_standard_streams();
    // SAFETY: no thread is there that could be disturbed, and no handler is put: the signal is ignored. Programs that are
    // started have its default again.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it sets a number. Without it the allocator learns from the first large block that it gets back to keep such
    // blocks, up to 32 MiB of them, which a process that mostly waits would have for ever.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        // What long messages need is not given back after each of them, to be fetched again page by page, but when all is
        // quiet.
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * LARGE)
    };
    // Flushes what is left of stdout.
    process::exit(run().into())
}

/// A standard stream that is closed would be the number of the next file that is opened, and be written to as such.
fn open_standard_streams() {
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut streams = [0, 1, 2].map(|number| {
        // SAFETY: it is only looked at, and one that is not open is reported as that.
        let stream = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
        PollFd::from_borrowed_fd(stream, PollFlags::empty())
    });
    let closed = match poll(&mut streams, Some(&none)) {
        Ok(0) => return,
        Ok(_) => streams.iter().filter(|stream| stream.revents().contains(PollFlags::NVAL)).count(),
        // It cannot be told which.
        Err(_) => process::abort(),
    };
    for _ in 0..closed {
        // The lowest number that is free: in their order, those that are closed.
        // SAFETY: the path is a string that ends with a zero.
        if unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) } < 0 {
            process::abort();
        }
    }
}
