//! Ctrl-C while an operation is under way.
//!
//! Owns the signal handlers of a command that talks to a bridge. The first Ctrl-C makes a descriptor readable, at which
//! the runtime cancels the operation and says whether it may have run; a second one, or one that comes when no
//! operation is under way any more, ends the process as if no handler were there.

use std::io::{self, PipeReader};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The handlers, for as long as the process lives.
#[derive(Debug)]
pub(crate) struct Interrupt {
    reader: PipeReader,
    /// The next signal has its default effect.
    default: Arc<AtomicBool>,
}

impl Interrupt {
    /// Catches Ctrl-C.
    pub(crate) fn catch() -> io::Result<Self> {
        Self::on(&[SIGINT])
    }

    /// Catches everything that ends a process by request, for commands that must clean up.
    pub(crate) fn catch_all() -> io::Result<Self> {
        Self::on(&[SIGINT, SIGTERM, SIGHUP])
    }

    fn on(signals: &[i32]) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let default = Arc::new(AtomicBool::new(false));
        for &signal in signals {
            // In this order: a first signal finds the flag down, and raises it for a second one.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&default))?;
            signal_hook::flag::register(signal, Arc::clone(&default))?;
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(Self { reader, default })
    }

    /// Readable from the first signal on. Nobody reads it.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    /// Whether a signal has come.
    pub(crate) fn is_raised(&self) -> bool {
        self.default.load(Ordering::SeqCst)
    }

    /// No operation is under way any more: from now on a signal ends the process.
    pub(crate) fn release(&self) {
        self.default.store(true, Ordering::SeqCst);
    }
}
