//! One run of the binary.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;

use super::LIMIT;

/// How long a pipe may stay open once the process that was given it has ended: somebody else holds it then.
const HELD: Duration = Duration::from_secs(10);

/// A command that was started. Dropped, it is killed.
#[derive(Debug)]
pub struct Running {
    child: Child,
    words: String,
    out: Receiver<Vec<u8>>,
    err: Receiver<Vec<u8>>,
}

/// How a command ended, and what it said.
#[derive(Debug, Clone)]
pub struct Run {
    /// What was run.
    pub words: String,
    /// Its exit status; -1 if a signal ended it.
    pub code: i32,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
    /// How long it took.
    pub took: Duration,
}

impl Running {
    /// Starts a command, of the binary or around it.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(command: Command) -> Self {
        Self::start_with(command, None)
    }

    /// The same, with its standard error somewhere else than in its [`Run`].
    pub(super) fn start_with(mut command: Command, stderr: Option<Stdio>) -> Self {
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        command.stdout(Stdio::piped()).stderr(stderr.unwrap_or_else(Stdio::piped));
        let mut child = command.spawn().expect("the binary starts");
        let out = read_all(child.stdout.take());
        let err = read_all(child.stderr.take());
        Self { child, words: words.join(" "), out, err }
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If it cannot be signalled.
    pub fn signal(&self, signal: Signal) {
        // It is our own child and not waited for, so its number is its own.
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a pid"), signal).expect("a child can be signalled");
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not end within [`LIMIT`], or what it started holds its output.
    #[must_use]
    pub fn end(self) -> Run {
        self.end_since(Instant::now())
    }

    pub(super) fn end_since(mut self, begun: Instant) -> Run {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        let process = pidfd_open(pid, PidfdFlags::empty()).expect("a child that was not waited for");
        let limit = Timespec::try_from(LIMIT).expect("a limit");
        let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)).expect("poll");
        assert!(ended > 0, "`drowse {}` does not end", self.words);
        let took = begun.elapsed();
        let status = self.child.wait().expect("its status");
        let text = |from: &Receiver<Vec<u8>>, which: &str| {
            let bytes = from
                .recv_timeout(HELD)
                .unwrap_or_else(|_| panic!("what `drowse {}` started holds its {which}", self.words));
            String::from_utf8(bytes).unwrap_or_else(|error| panic!("its {which}: {error}"))
        };
        let (out, err) = (text(&self.out, "stdout"), text(&self.err, "stderr"));
        Run { words: self.words.clone(), code: status.code().unwrap_or(-1), out, err, took }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_all(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

impl Run {
    /// That it exited with this status.
    ///
    /// # Panics
    /// If it did not.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "`drowse {}`\nout: {}\nerr: {}", self.words, head(&self.out), self.err);
        self
    }

    /// That it succeeded.
    ///
    /// # Panics
    /// If it did not.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.exits(0)
    }

    /// The one document on its standard output.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| {
            panic!("`drowse {}`: {error}\nout: {}\nerr: {}", self.words, head(&self.out), self.err)
        })
    }

    /// The notices of a run with `--json`: the documents on standard error that tell of no failure.
    ///
    /// # Panics
    /// If anything there is no document.
    #[must_use]
    #[track_caller]
    pub fn notices(&self) -> Vec<Value> {
        let read = |line: &str| -> Value {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {}", self.err))
        };
        self.err.lines().map(read).filter(|document| document.get("notice").is_some()).collect()
    }

    /// The failure document of a run with `--json`, which failed with this status: the last line on standard error, behind
    /// nothing but notices; nothing on standard output.
    ///
    /// # Panics
    /// If it is anything else.
    #[must_use]
    #[track_caller]
    pub fn fails(&self, code: i32) -> Value {
        let all = || format!("`drowse {}`\nout: {}\nerr: {}", self.words, head(&self.out), self.err);
        assert_eq!(self.code, code, "{}", all());
        assert_eq!(
            (self.out.as_str(), self.err.lines().count()),
            ("", 1 + self.notices().len()),
            "{}",
            all()
        );
        let last = self.err.lines().last().unwrap_or_default();
        let document: Value = serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {}", all()));
        assert_eq!(document["code"], code, "{}", all());
        assert!(document["error"].as_str().is_some_and(|error| !error.is_empty()), "{}", all());
        document
    }

    /// The text of the first content of a tool's result (`--json`).
    ///
    /// # Panics
    /// If it has none.
    #[must_use]
    #[track_caller]
    pub fn text(&self) -> String {
        let document = self.json();
        let text = document["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text: {}", head(&self.out))).to_owned()
    }
}

fn head(text: &str) -> &str {
    match text.char_indices().nth(2000) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}
