//! The MCP server that is built into drowse: something to wake up without installing anything.
//!
//! It owns one process's conversation over a pair of byte streams and speaks both eras: the `initialize`
//! handshake of the revisions 2024-11-05 to 2025-11-25, and the stateless revision 2026-07-28. It never opens
//! a file or a socket, never sends a request of its own, and keeps nothing once it has returned.
//!
//! [`serve`] is the whole interface. What a line means is decided by `server`, which has no thread and no
//! clock of its own; what can be asked for stands in `catalogue`; `rpc` reads and writes the messages.

mod catalogue;
mod meta;
mod rpc;
mod server;
mod utc;

#[cfg(test)]
mod tests;

use std::io::{self, BufRead, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Instant, SystemTime};

use server::Server;

/// A line buffer that grew beyond this is given back after the line: one large message must not stay paid for.
const KEPT_LINE_BYTES: usize = 64 * 1024;

/// Serves MCP until `input` ends.
///
/// Requests are read one per line from `input`; every answer and notification is written to `output` as one
/// whole line and flushed. Requests are answered in the order they arrive, except the `sleep` tool, which
/// lets later ones pass. The second thread that this needs is started by the first request that waits.
///
/// Returns `Ok` when `input` ends, also when a reader of `output` has gone away (there is nobody left to
/// tell). What is still waiting then is dropped: a server leaves promptly when its standard input is closed.
///
/// # Errors
///
/// Any other error of reading `input` or of writing `output`.
pub fn serve<R: BufRead, W: Write + Send>(mut input: R, output: W) -> io::Result<()> {
    let server = Server::new(std::process::id(), SystemTime::now);
    let desk = Desk { shared: Mutex::new(Shared { server, output, end: None }), changed: Condvar::new() };
    let outcome = thread::scope(|scope| {
        let mut timer_runs = false;
        let mut line = Vec::new();
        let outcome = loop {
            line.clear();
            line.shrink_to(KEPT_LINE_BYTES);
            match input.read_until(b'\n', &mut line) {
                Ok(0) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
            let waits = match desk.receive(&line) {
                Ok(waits) => waits,
                Err(error) => break Err(error),
            };
            if waits && !timer_runs {
                timer_runs = true;
                scope.spawn(|| desk.run_timers());
            }
        };
        desk.close(outcome)
    });
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// What the reading thread and the timer thread share. One lock covers the decision and the writing, so the
/// lines on the wire are in the order in which they were decided.
struct Desk<W> {
    shared: Mutex<Shared<W>>,
    changed: Condvar,
}

struct Shared<W> {
    server: Server,
    output: W,
    /// Why nothing more is served: input ended, or output failed (then with the error, until it is reported).
    end: Option<io::Result<()>>,
}

impl<W: Write> Desk<W> {
    fn lock(&self) -> MutexGuard<'_, Shared<W>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles one line; says whether the server now waits for a point in time.
    fn receive(&self, line: &[u8]) -> io::Result<bool> {
        let mut shared = self.lock();
        if let Some(Err(error)) = shared.end.take() {
            return Err(error);
        }
        shared.server.handle_line(Instant::now(), line);
        shared.write_out()?;
        let waits = shared.server.poll_timeout().is_some();
        drop(shared);
        self.changed.notify_one();
        Ok(waits)
    }

    fn run_timers(&self) {
        let mut shared = self.lock();
        while shared.end.is_none() {
            let now = Instant::now();
            shared = match shared.server.poll_timeout() {
                None => self.changed.wait(shared).unwrap_or_else(PoisonError::into_inner),
                Some(due) if due > now => {
                    self.changed.wait_timeout(shared, due - now).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    shared.server.handle_timeout(now);
                    if let Err(error) = shared.write_out() {
                        // The reading thread cannot be interrupted; it reports this with its next line, and a
                        // client that closed our output is about to close our input as well.
                        shared.end = Some(Err(error));
                    }
                    shared
                }
            };
        }
    }

    /// Ends the timer thread; an error that it met is the first one, and goes before `outcome`.
    fn close(&self, outcome: io::Result<()>) -> io::Result<()> {
        let earlier = self.lock().end.replace(Ok(()));
        self.changed.notify_one();
        earlier.unwrap_or(Ok(())).and(outcome)
    }
}

impl<W: Write> Shared<W> {
    fn write_out(&mut self) -> io::Result<()> {
        let lines = self.server.output();
        if lines.is_empty() {
            return Ok(());
        }
        self.output.write_all(lines)?;
        self.output.flush()?;
        self.server.discard_output();
        Ok(())
    }
}
