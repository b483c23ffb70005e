//! A fixture process, and the test that talks to it over pipes.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use drowse_tests::fixture::journal::{Entry, Journal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take before the test is given up. Nothing waits for this when all is well.
pub const LIMIT: Duration = Duration::from_secs(30);

pub struct Peer {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    unread: Vec<u8>,
    pub journal: Journal,
    _directory: Option<TempDir>,
}

impl Peer {
    /// Starts a fixture with a journal of its own.
    pub fn start(flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::at(directory.path().join("journal"));
        let mut peer = Self::start_with(flags, journal, |_| {});
        peer._directory = Some(directory);
        peer
    }

    pub fn start_with(flags: &[&str], journal: Journal, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drowse-fixture"));
        command.args(flags).arg("--log").arg(journal.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().unwrap();
        Self { child, stdin, stdout, unread: Vec::new(), journal, _directory: None }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("stdin is closed").write_all(bytes).unwrap();
    }

    pub fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// The next line without its newline; `None` at the end of output.
    pub fn raw_line(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let rest = self.unread.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.unread, rest);
                line.pop();
                return Some(line);
            }
            if self.read_some() == 0 {
                assert!(self.unread.is_empty(), "half a line at the end: {:?}", self.unread);
                return None;
            }
        }
    }

    fn read_some(&mut self) -> usize {
        let limit = Timespec::try_from(LIMIT).unwrap();
        let ready =
            poll(&mut [PollFd::from_borrowed_fd(self.stdout.as_fd(), PollFlags::IN)], Some(&limit)).unwrap();
        assert!(ready > 0, "nothing came within {LIMIT:?}; journal: {:#?}", self.journal.entries());
        let mut bytes = [0; 65536];
        let read = self.stdout.read(&mut bytes).unwrap();
        self.unread.extend_from_slice(&bytes[..read]);
        read
    }

    /// The next message.
    pub fn receive(&mut self) -> Value {
        let line = self.raw_line().expect("a message, not the end of output");
        serde_json::from_slice(&line)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&line)))
    }

    /// Sends a request and returns the next message.
    pub fn ask(&mut self, message: &Value) -> Value {
        self.send(message);
        self.receive()
    }

    pub fn initialize(&mut self) {
        let answer = self.ask(&initialize("2025-11-25"));
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    /// The text that a modern call of a tool returns.
    pub fn call(&mut self, name: &str, arguments: Value) -> String {
        let answer = self.ask(&call(name, name, arguments));
        text_of(&answer)
    }

    /// Closes the fixture's input. Everything that it still wrote until the end of output, as messages.
    pub fn close(&mut self) -> Vec<Value> {
        self.stdin = None;
        std::iter::from_fn(|| self.raw_line()).map(|line| serde_json::from_slice(&line).unwrap()).collect()
    }

    /// How it ended. Call it when it is about to.
    pub fn status(&mut self) -> ExitStatus {
        let journal = self.journal.clone();
        let pid = self.child.id();
        // The end of output comes with the end of the process; for the tests that did not read up to it.
        let deadline = Instant::now() + LIMIT;
        let pidfd = rustix::process::pidfd_open(raw(pid), rustix::process::PidfdFlags::empty()).unwrap();
        let left = Timespec::try_from(deadline - Instant::now()).unwrap();
        let ready = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)).unwrap();
        assert!(ready > 0, "it runs on; journal: {:#?}", journal.entries());
        self.child.wait().unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(raw(self.child.id()), signal).unwrap();
    }

    pub fn wait(&self, enough: impl FnMut(&[Entry]) -> bool) -> Vec<Entry> {
        self.journal.wait(LIMIT, enough).unwrap()
    }

    /// The `why` of the last `exit` in the journal.
    pub fn why(&self) -> String {
        let entries = self.journal.entries().unwrap();
        let exit = entries.iter().rfind(|entry| entry.event == "exit").expect("an exit");
        exit.text("why").unwrap().to_owned()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

pub fn raw(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

pub fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

pub fn initialize(revision: &str) -> Value {
    let client = json!({"name": "smoke", "version": "0"});
    request(
        "init",
        "initialize",
        json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client}),
    )
}

/// A modern request.
pub fn modern(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let mut request = request(id, method, params);
    let meta = &mut request["params"]["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    request
}

pub fn discover() -> Value {
    modern("probe", "server/discover", json!({}))
}

/// A modern call of a tool.
pub fn call(id: impl Into<Value>, name: &str, arguments: Value) -> Value {
    modern(id, "tools/call", json!({"name": name, "arguments": arguments}))
}

/// A legacy call of a tool.
pub fn legacy_call(id: impl Into<Value>, name: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": name, "arguments": arguments}))
}

pub fn text_of(answer: &Value) -> String {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}")).to_owned()
}

pub fn code_of(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer}"))
}
