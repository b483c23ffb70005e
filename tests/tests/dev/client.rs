//! A client on the standard streams of `drowse dev`, of either era, and a place with a server for it.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use drowse_tests::fixture::journal::Journal;
use drowse_tests::harness::{LIMIT, belonging_to, drowse, fixture};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A directory with everything of one proxy in it. Dropped, nothing of it may be left.
pub(super) struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub(super) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // At once: who looks at it sees all of it or nothing.
        let whole = self.at(".written");
        std::fs::write(&whole, text).unwrap();
        std::fs::rename(whole, path).unwrap();
    }

    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap_or_default()
    }

    pub(super) fn journal(&self) -> Journal {
        Journal::at(self.at("journal"))
    }

    /// How often the server was started.
    pub(super) fn starts(&self) -> usize {
        self.journal().starts().unwrap_or_default().len()
    }

    /// The fixture server, with its journal.
    pub(super) fn server(&self, flags: &[&str]) -> Vec<String> {
        let journal = self.at("journal");
        let mut command =
            vec![fixture().display().to_string(), "--log".into(), journal.display().to_string()];
        command.extend(flags.iter().map(|flag| (*flag).to_owned()));
        command
    }

    /// The same; it begins when there is a file `go`.
    pub(super) fn gated(&self, flags: &[&str]) -> Vec<String> {
        let script = format!("until test -e go; do sleep 0.05; done; exec {}", self.server(flags).join(" "));
        ["sh", "-c", &script].map(str::to_owned).to_vec()
    }

    pub(super) fn open_gate(&self) {
        self.write("go", "");
    }

    pub(super) fn close_gate(&self) {
        std::fs::remove_file(self.at("go")).unwrap();
    }

    /// Waits until it is so.
    pub(super) fn wait_until(&self, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "it never came");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// `drowse dev <flags> -- <server>`, with a client of that era.
    pub(super) fn dev(&self, era: &'static str, flags: &[&str], server: &[String]) -> Client {
        Client::start(self, era, flags, server)
    }

    /// The same with the fixture server.
    pub(super) fn fixture(&self, era: &'static str, flags: &[&str], server: &[&str]) -> Client {
        self.dev(era, flags, &self.server(server))
    }

    /// Waits until the journal has that.
    pub(super) fn wait_for_run(&self, tag: &str) {
        let runs = |entries: &[drowse_tests::fixture::journal::Entry]| {
            entries.iter().any(|entry| entry.is("run", "tag", tag))
        };
        self.journal().wait(LIMIT, runs).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        let deadline = Instant::now() + LIMIT;
        loop {
            let left = belonging_to(self.directory.path());
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "processes are left: {left:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

pub(super) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    reader: Option<thread::JoinHandle<()>>,
    answers: HashMap<u64, Value>,
    pub(super) notes: Vec<Value>,
    errors: Option<thread::JoinHandle<String>>,
    modern: bool,
    /// What a legacy client was told by the handshake.
    pub(super) opened: Value,
    last: u64,
}

impl Client {
    fn start(place: &Place, era: &'static str, flags: &[&str], server: &[String]) -> Self {
        let mut child = Command::new(drowse())
            .arg("dev")
            .args(flags)
            .arg("--")
            .args(server)
            .current_dir(place.directory.path())
            .env("DROWSE_HOME", place.at("home"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        let reader = thread::spawn(move || {
            for line in out.lines() {
                let line = line.unwrap();
                // Nothing but the protocol.
                let message = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a message: {line}"));
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let errors = child.stderr.take().unwrap();
        let errors = thread::spawn(move || std::io::read_to_string(errors).unwrap());
        let input = child.stdin.take();
        let mut client = Self {
            child,
            input,
            lines,
            reader: Some(reader),
            answers: HashMap::new(),
            notes: Vec::new(),
            errors: Some(errors),
            modern: era == "modern",
            opened: Value::Null,
            last: 0,
        };
        if !client.modern {
            let opened = client.ask(
                "initialize",
                json!({"protocolVersion": "2025-11-25", "capabilities": {},
                       "clientInfo": {"name": "t", "version": "1"}}),
            );
            assert_eq!(opened["result"]["capabilities"]["tools"]["listChanged"], true);
            client.opened = opened["result"].clone();
            client.notify("notifications/initialized", json!({}));
        }
        client
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request.
    pub(super) fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.last += 1;
        if self.modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        let id = self.last;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(super) fn notify(&mut self, method: &str, params: Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Waits for an answer.
    pub(super) fn answer(&mut self, id: u64) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(answer) = self.answers.remove(&id) {
                return answer;
            }
            assert!(self.hear(deadline), "no answer to {id}; heard {:?}", self.notes);
        }
    }

    /// Whether it has come by now. `false` at the deadline, or at the end.
    fn hear(&mut self, deadline: Instant) -> bool {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(message) => {
                match message.get("id").and_then(Value::as_u64) {
                    Some(id) if message.get("method").is_none() => {
                        assert!(self.answers.insert(id, message).is_none(), "{id} is answered twice");
                    }
                    _ => self.notes.push(message),
                }
                true
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => false,
        }
    }

    /// Waits for a notification.
    pub(super) fn wait_for(&mut self, method: &str) {
        let deadline = Instant::now() + LIMIT;
        while !self.notes.iter().any(|note| note["method"] == method) {
            assert!(self.hear(deadline), "no {method}; heard {:?}", self.notes);
        }
    }

    pub(super) fn has_answer(&mut self, id: u64) -> bool {
        while let Ok(message) = self.lines.try_recv() {
            match message.get("id").and_then(Value::as_u64) {
                Some(id) => drop(self.answers.insert(id, message)),
                None => self.notes.push(message),
            }
        }
        self.answers.contains_key(&id)
    }

    pub(super) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    pub(super) fn send_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.send("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The result of a call.
    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.send_call(tool, arguments);
        let answer = self.answer(id);
        assert!(answer.get("result").is_some(), "{answer}");
        answer["result"].clone()
    }

    /// The text of a call's result.
    pub(super) fn text(&mut self, tool: &str, arguments: Value) -> String {
        text(&self.call(tool, arguments))
    }

    pub(super) fn status(&mut self) -> Value {
        self.call("dev_status", json!({}))["structuredContent"].clone()
    }

    /// What `dev_restart` says.
    pub(super) fn restart(&mut self, arguments: Value) -> Value {
        self.call("dev_restart", arguments)
    }

    /// The names of the tools.
    pub(super) fn tools(&mut self) -> Vec<String> {
        let answer = self.ask("tools/list", json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The names on all pages of the list.
    pub(super) fn all_tools(&mut self) -> Vec<String> {
        let (mut names, mut params) = (Vec::new(), json!({}));
        loop {
            let page = self.ask("tools/list", params)["result"].clone();
            let tools = page["tools"].as_array().unwrap_or_else(|| panic!("{page}"));
            names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
            match page["nextCursor"].as_str() {
                Some(next) => params = json!({"cursor": next}),
                None => return names,
            }
        }
    }

    /// Asks for the status until it is so.
    pub(super) fn wait_for_status(&mut self, is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "{status}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid().try_into().unwrap()).unwrap(), signal).unwrap();
    }

    /// Closes our end of its output; nothing can be heard after that.
    pub(super) fn close_output(&mut self) {
        self.lines = mpsc::channel().1;
        // The reader finds that out with the next line.
        self.send_call("dev_status", json!({}));
        self.reader.take().unwrap().join().unwrap();
    }

    pub(super) fn close_input(&mut self) {
        self.input = None;
    }

    /// Waits for the end: the status, what was on stderr, and how long it took.
    pub(super) fn end(mut self) -> (Option<i32>, String, Duration) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < LIMIT, "the proxy does not end");
            thread::sleep(Duration::from_millis(5));
        };
        (status.code(), self.errors.take().unwrap().join().unwrap(), begun.elapsed())
    }

    /// The end of the connection, and then of everything.
    pub(super) fn close(mut self) -> String {
        self.close_input();
        let (status, errors, _) = self.end();
        assert_eq!(status, Some(0), "{errors}");
        errors
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

/// The kind of an error.
pub(super) fn kind(answer: &Value) -> &str {
    answer["error"]["data"]["drowse"]["kind"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

pub(super) const OURS: [&str; 3] = ["dev_restart", "dev_status", "dev_logs"];
