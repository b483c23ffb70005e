//! Giving one descriptor to one child.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use rustix::io::FdFlags;

/// Lets the program that `command` starts have `file` under the number that it has here. The mark that keeps
/// it out of other programs is cleared in the child, so that what other threads start meanwhile does not get it.
pub(crate) fn hand_down(command: &mut Command, file: Arc<File>) {
    // SAFETY: between fork and exec the closure makes one fcntl call on a descriptor that it keeps open itself;
    // it neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(move || Ok::<(), io::Error>(rustix::io::fcntl_setfd(&*file, FdFlags::empty())?));
    }
}
