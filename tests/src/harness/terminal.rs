//! The binary on a terminal of its own: what a user sees there, and types.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::LIMIT;
use super::run::{Run, Running};

/// A command on a terminal. Its standard output is a pipe, as in `drowse … | cat`: what is seen is the rest.
#[derive(Debug)]
pub struct Terminal {
    running: Running,
    master: File,
    seen: String,
    /// How much of that was looked at.
    read: usize,
}

impl Terminal {
    /// Starts a command of [`Home::command`](super::Home::command) on a new terminal, which it controls.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn start(command: &Command) -> Self {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("a terminal of ours");
        unlockpt(&master).expect("a terminal that can be opened");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(i32::try_from(OFlags::NOCTTY.bits()).expect("a flag"))
            .open(name.to_str().expect("a name"))
            .expect("its other side");
        // Makes its standard input the terminal that it controls, and then becomes the command.
        let mut on_terminal = Command::new("setsid");
        on_terminal.arg("--ctty").arg(command.get_program()).args(command.get_args()).env_clear();
        on_terminal.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(directory) = command.get_current_dir() {
            on_terminal.current_dir(directory);
        }
        on_terminal.stdin(Stdio::from(slave.try_clone().expect("a copy")));
        let running = Running::start_with(on_terminal, Some(Stdio::from(slave)));
        Self { running, master: File::from(master), seen: String::new(), read: 0 }
    }

    /// The same, with its standard output on the terminal, too.
    ///
    /// # Panics
    /// If there is no terminal.
    #[must_use]
    pub fn start_whole(command: &Command) -> Self {
        let mut whole = Command::new("sh");
        whole.args(["-c", "exec \"$@\" >&2", "sh"]).arg(command.get_program()).args(command.get_args());
        whole.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(directory) = command.get_current_dir() {
            whole.current_dir(directory);
        }
        Self::start(&whole)
    }

    /// Makes it this wide and high.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn resize(&mut self, columns: u16, lines: u16) -> &mut Self {
        let size = Winsize { ws_col: columns, ws_row: lines, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).expect("the terminal");
        self
    }

    /// Whether it works line by line and shows what is typed, as it did when it was started.
    ///
    /// # Panics
    /// If the terminal is gone.
    #[must_use]
    pub fn is_as_ever(&self) -> bool {
        let modes = tcgetattr(&self.master).expect("the terminal");
        modes.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Sends the command a signal.
    ///
    /// # Panics
    /// If it has ended.
    pub fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    /// Waits until this is seen, after what was seen before.
    ///
    /// # Panics
    /// If it is not within [`LIMIT`].
    #[track_caller]
    pub fn sees(&mut self, text: &str) -> &mut Self {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.seen[self.read..].find(text) {
                self.read += at + text.len();
                return self;
            }
            assert!(self.more(deadline), "{text:?} is not seen:\n{}", self.seen);
        }
    }

    /// Types this, and Enter.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn enters(&mut self, line: &str) -> &mut Self {
        self.types(&format!("{line}\n"))
    }

    /// Types this: `\u{3}` is Ctrl-C, `\u{4}` Ctrl-D.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn types(&mut self, keys: &str) -> &mut Self {
        self.master.write_all(keys.as_bytes()).expect("the terminal");
        self
    }

    /// All that was seen so far.
    #[must_use]
    pub fn seen(&self) -> &str {
        &self.seen
    }

    /// Waits for the end of the command. What was seen stands for its standard error.
    ///
    /// # Panics
    /// If it does not end within [`LIMIT`].
    #[must_use]
    pub fn end(mut self) -> Run {
        let deadline = Instant::now() + LIMIT;
        while self.more(deadline) {}
        let mut run = self.running.end();
        run.err = self.seen;
        run
    }

    /// Reads on. False: there is no more, or no time.
    fn more(&mut self, deadline: Instant) -> bool {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).expect("a time");
        let ready = poll(&mut [PollFd::from_borrowed_fd(self.master.as_fd(), PollFlags::IN)], Some(&left));
        if ready.expect("poll") == 0 {
            return false;
        }
        let mut chunk = [0; 4096];
        match self.master.read(&mut chunk) {
            Ok(0) => false,
            Ok(read) => {
                self.seen.push_str(&String::from_utf8_lossy(&chunk[..read]));
                true
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            // The other side is closed.
            Err(_) => false,
        }
    }
}
