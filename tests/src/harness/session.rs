//! One session on the fixture server, and ways to watch it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use drowse_runtime::home::SessionName;
use drowse_runtime::process::ProcessIdentity;
use drowse_runtime::record::{self, SessionRecord, State, StateRecord};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::home::Home;
use super::run::{Run, Running};
use super::socket::Socket;
use super::survey::{self, Watch};
use super::{LIMIT, now_ms, program};
use crate::fixture::journal::{Entry, Journal};

/// What drowse asks the fixture for its snapshot of it, in order, where each list is one page.
pub const GATHERED: [&str; 4] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];

/// A session, connected or not.
#[derive(Debug)]
pub struct Session<'h> {
    home: &'h Home,
    name: SessionName,
    /// What its servers write down.
    pub journal: Journal,
}

impl<'h> Session<'h> {
    pub(super) fn new(home: &'h Home, name: SessionName) -> Self {
        let journal = Journal::at(home.path().join(format!("{}.journal", name.as_str())));
        Self { home, name, journal }
    }

    /// The command line of its server.
    #[must_use]
    pub fn server(&self, flags: &[&str]) -> Vec<String> {
        let text = |path: &std::path::Path| path.to_str().expect("a path that is text").to_owned();
        let mut words = vec![text(program::fixture())];
        words.extend(flags.iter().map(ToString::to_string));
        words.extend(["--log".to_owned(), text(self.journal.path())]);
        words
    }

    fn words<'w>(&self, words: impl IntoIterator<Item = &'w str>) -> Vec<OsString> {
        let all = std::iter::once(self.name.to_string()).chain(words.into_iter().map(ToOwned::to_owned));
        all.map(OsString::from).collect()
    }

    /// Runs `drowse @name <words> --json`.
    pub fn run<'w>(&self, words: impl IntoIterator<Item = &'w str>) -> Run {
        self.home.run(self.words(words.into_iter().chain(["--json"])))
    }

    /// Starts it.
    #[must_use]
    pub fn start<'w>(&self, words: impl IntoIterator<Item = &'w str>) -> Running {
        self.home.start(self.words(words.into_iter().chain(["--json"])))
    }

    /// Calls a tool of the fixture with `name=value` words.
    pub fn call(&self, tool: &str, arguments: &[&str]) -> Run {
        self.run(["tools-call", tool].into_iter().chain(arguments.iter().copied()))
    }

    /// Starts a call of a tool.
    #[must_use]
    pub fn start_call(&self, tool: &str, arguments: &[&str]) -> Running {
        self.start(["tools-call", tool].into_iter().chain(arguments.iter().copied()))
    }

    /// Whether drowse has anything of it.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.home.files().session(&self.name).exists()
    }

    /// What is wanted of it.
    ///
    /// # Panics
    /// If it has no readable record.
    #[must_use]
    pub fn record(&self) -> SessionRecord {
        record::read_session(self.home.files(), &self.name).expect("a record").expect("a session")
    }

    /// Waits until drowse has saved what the running server offers: from then on it asks for nothing by itself.
    ///
    /// # Panics
    /// If no bridge runs, or there is none.
    #[track_caller]
    pub fn wait_until_saved(&self) {
        let answer = self.socket().ask("drowse/snapshot", json!({}));
        assert!(answer["result"]["generation"].is_u64(), "{}: {answer}", self.name);
    }

    /// What is known of it.
    ///
    /// # Panics
    /// If the record cannot be read.
    #[must_use]
    pub fn state(&self) -> Option<StateRecord> {
        record::read_state(self.home.files(), &self.name).expect("a readable record")
    }

    /// How the list shows it.
    ///
    /// # Panics
    /// If the list does not have it.
    #[must_use]
    pub fn listed(&self) -> Value {
        let name = json!(self.name.to_string());
        self.home.list().into_iter().find(|entry| entry["name"] == name).expect("it is in the list")
    }

    /// Waits until what is known of it is so.
    ///
    /// # Panics
    /// If it is not within [`LIMIT`].
    #[track_caller]
    pub fn wait_until(&self, is_so: impl Fn(&StateRecord) -> bool) -> StateRecord {
        let deadline = Instant::now() + LIMIT;
        let mut watch = Watch::on(&self.home.files().session(&self.name)).expect("its directory");
        loop {
            let state = self.state();
            if let Some(state) = state.clone().filter(&is_so) {
                return state;
            }
            if !watch.changed(deadline).expect("inotify") {
                panic!("{}: not within {LIMIT:?}; it is {state:?}", self.name);
            }
        }
    }

    /// Waits until nothing of it runs because it fell asleep. The record of the last run.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn wait_until_asleep(&self) -> StateRecord {
        let state = self.wait_until(|state| state.ended && state.state == State::Idle);
        wait_until_gone(state.bridge.as_ref());
        state
    }

    /// Waits until the journal is so.
    ///
    /// # Panics
    /// If it is not within [`LIMIT`].
    #[track_caller]
    pub fn wait_for(&self, enough: impl FnMut(&[Entry]) -> bool) -> Vec<Entry> {
        self.journal.wait(LIMIT, enough).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Waits until a tool runs with this tag; when that was, in milliseconds since 1970.
    ///
    /// # Panics
    /// If it does not within [`LIMIT`].
    #[track_caller]
    pub fn wait_for_run(&self, tag: &str) -> u64 {
        let entries = self.wait_for(|entries| entries.iter().any(|entry| entry.is("run", "tag", tag)));
        entries.iter().find(|entry| entry.is("run", "tag", tag)).map_or(0, at)
    }

    /// When something happened last, in milliseconds since 1970.
    ///
    /// # Panics
    /// If it did not.
    #[must_use]
    #[track_caller]
    pub fn last(&self, event: &str) -> u64 {
        let entries = self.journal.entries().expect("a journal");
        let last = entries.iter().rfind(|entry| entry.event == event);
        last.map(at).unwrap_or_else(|| panic!("{}: no {event} in {entries:?}", self.name))
    }

    /// How many servers were started.
    ///
    /// # Panics
    /// If the journal cannot be read.
    #[must_use]
    pub fn starts(&self) -> usize {
        self.journal.starts().expect("a journal").len()
    }

    /// How often a tool ran with this tag.
    ///
    /// # Panics
    /// If the journal cannot be read.
    #[must_use]
    pub fn executions(&self, tag: &str) -> usize {
        self.journal.executions(tag).expect("a journal")
    }

    /// What the servers were asked and told, in order.
    ///
    /// # Panics
    /// If the journal cannot be read.
    #[must_use]
    pub fn methods(&self) -> Vec<String> {
        self.journal.methods().expect("a journal")
    }

    /// Where its bridge listens.
    #[must_use]
    pub fn socket_file(&self) -> PathBuf {
        self.home.files().socket_file(&self.name)
    }

    /// A connection to its bridge, with its hello said; `None` if there is no bridge.
    #[must_use]
    pub fn try_socket(&self) -> Option<Socket> {
        let address = self.home.files().socket(&self.name).ok()?;
        Socket::connect(address.as_path()).ok()
    }

    /// A connection to its bridge.
    ///
    /// # Panics
    /// If there is no bridge.
    #[must_use]
    #[track_caller]
    pub fn socket(&self) -> Socket {
        self.try_socket().unwrap_or_else(|| panic!("{} has no bridge: {:?}", self.name, self.state()))
    }

    /// What its bridge says of itself, which starts and counts as nothing.
    ///
    /// # Panics
    /// If there is no bridge.
    #[must_use]
    #[track_caller]
    pub fn status(&self) -> Value {
        self.socket().ask("drowse/status", json!({}))["result"].clone()
    }

    /// When it falls asleep unless it is used, in milliseconds since 1970: the earliest and the latest that this can
    /// be. `None` if there is no deadline.
    ///
    /// # Panics
    /// If there is no bridge.
    #[must_use]
    #[track_caller]
    pub fn deadline(&self) -> Option<(u64, u64)> {
        let mut socket = self.socket();
        let before = now_ms();
        let left = socket.ask("drowse/status", json!({}))["result"]["idleInMs"].as_u64()?;
        Some((before + left, now_ms() + left + 1))
    }

    /// Waits until no more than this is left of its idle period.
    ///
    /// # Panics
    /// If there is no bridge, or no deadline comes near.
    #[track_caller]
    pub fn wait_until_left(&self, left: Duration) {
        let mut socket = self.socket();
        let near = survey::poll_for(LIMIT, || {
            let status = socket.ask("drowse/status", json!({}));
            let millis = status["result"]["idleInMs"].as_u64()?;
            (u128::from(millis) <= left.as_millis()).then_some(())
        });
        assert!(near.is_some(), "{}: no deadline comes near", self.name);
    }

    /// Kills its bridge as the kernel would, and waits until it has ended.
    ///
    /// # Panics
    /// If it has none.
    #[track_caller]
    pub fn kill_bridge(&self) {
        let bridge = self.state().and_then(|state| state.bridge).expect("a bridge in the record");
        assert!(bridge.is_alive(), "{} has no bridge", self.name);
        signal(bridge.pid, Signal::KILL);
        wait_until_gone(Some(&bridge));
    }

    /// Tells its bridge to terminate.
    ///
    /// # Panics
    /// If it has none.
    #[track_caller]
    pub fn tell_bridge_to_go(&self) {
        let bridge = self.state().and_then(|state| state.bridge).expect("a bridge in the record");
        assert!(bridge.is_alive(), "{} has no bridge", self.name);
        signal(bridge.pid, Signal::TERM);
    }

    /// Kills its server's process.
    ///
    /// # Panics
    /// If it has none.
    #[track_caller]
    pub fn kill_server(&self) {
        let server = self.state().and_then(|state| state.server_pid).expect("a server in the record");
        signal(server, Signal::KILL);
    }
}

fn at(entry: &Entry) -> u64 {
    entry.fields.get("at").and_then(Value::as_u64).unwrap_or(0)
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, signal).expect("it can be signalled");
}

/// Waits until a process that was written down has ended.
///
/// # Panics
/// If it does not within [`LIMIT`].
#[track_caller]
pub fn wait_until_gone(process: Option<&ProcessIdentity>) {
    let Some(process) = process else { return };
    let gone = survey::poll_for(LIMIT, || (!process.is_alive()).then_some(()));
    assert!(gone.is_some(), "process {} lives on", process.pid);
}
