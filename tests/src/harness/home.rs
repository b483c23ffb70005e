//! A home that leaves nothing behind.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use drowse_runtime::home::{Home as Files, SessionName};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::http::HttpServer;
use super::run::{Run, Running};
use super::session::Session;
use super::{program, survey};

/// How long a process may take to be gone from `/proc` once its end was reported.
const GONE: Duration = Duration::from_secs(10);

/// A `DROWSE_HOME` of its own in a temporary directory, which is also `HOME` and the working directory there.
#[derive(Debug)]
pub struct Home {
    directory: TempDir,
    files: Files,
    patience: Duration,
}

impl Home {
    /// An empty one.
    ///
    /// # Panics
    /// If there is no room for it.
    #[must_use]
    pub fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("drowse-").tempdir().expect("a temporary directory");
        let files = Files::new(directory.path().join("home"), None);
        Self { directory, files, patience: GONE }
    }

    /// The same, with another limit for its processes to be gone once all was closed.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The directory that all of it is in.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Where drowse has its files.
    #[must_use]
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The binary with these arguments, in this home, with nothing inherited that could matter.
    #[must_use]
    pub fn command<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Command {
        let mut command = Command::new(program::drowse());
        command
            .args(words)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("DROWSE_HOME", self.files.root())
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub fn run<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Run {
        let begun = Instant::now();
        Running::start(self.command(words)).end_since(begun)
    }

    /// Runs a command of [`command`](Self::command) to its end.
    pub fn finish(&self, command: Command) -> Run {
        Running::start(command).end()
    }

    /// Starts the binary.
    #[must_use]
    pub fn start<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Running {
        Running::start(self.command(words))
    }

    /// A session on the fixture server with these flags, connected with those of drowse.
    ///
    /// # Panics
    /// If the connect fails.
    #[track_caller]
    pub fn connect(&self, name: &str, flags: &[&str], fixture: &[&str]) -> Session<'_> {
        let (session, run) = self.try_connect(name, flags, fixture);
        let _ = run.ok();
        session
    }

    /// The same, where the connect may fail: then there is no session of that name.
    pub fn try_connect(&self, name: &str, flags: &[&str], fixture: &[&str]) -> (Session<'_>, Run) {
        let session = self.session(name);
        let mut words: Vec<String> = vec!["connect".into(), name.into(), "--json".into()];
        words.extend(flags.iter().map(ToString::to_string));
        words.push("--".into());
        words.extend(session.server(fixture));
        let run = self.run(words);
        (session, run)
    }

    /// A session on a server behind a URL, connected with these flags. It has that server's journal.
    ///
    /// # Panics
    /// If the connect fails.
    #[track_caller]
    pub fn connect_http(&self, name: &str, flags: &[&str], server: &HttpServer) -> Session<'_> {
        let (session, run) = self.try_connect_http(name, flags, server);
        let _ = run.ok();
        session
    }

    /// The same, where the connect may fail: then there is no session of that name.
    pub fn try_connect_http(&self, name: &str, flags: &[&str], server: &HttpServer) -> (Session<'_>, Run) {
        let mut session = self.session(name);
        session.journal = server.journal.clone();
        let url = server.url();
        let mut words = vec!["connect", url.as_str(), name, "--json"];
        words.extend(flags);
        let run = self.run(words);
        (session, run)
    }

    /// A session through an entry of a configuration file: `entry` is all of it but the command.
    ///
    /// # Panics
    /// If the connect fails.
    #[track_caller]
    pub fn connect_entry(&self, name: &str, flags: &[&str], entry: Value, fixture: &[&str]) -> Session<'_> {
        let (session, run) = self.try_connect_entry(name, flags, entry, fixture);
        let _ = run.ok();
        session
    }

    /// The same, where the connect may fail.
    pub fn try_connect_entry(
        &self,
        name: &str,
        flags: &[&str],
        entry: Value,
        fixture: &[&str],
    ) -> (Session<'_>, Run) {
        let session = self.session(name);
        let target = self.write_entry(name, entry, fixture);
        let mut words = vec!["connect", target.as_str(), name, "--json"];
        words.extend(flags);
        let run = self.run(words);
        (session, run)
    }

    /// Writes a configuration file with one entry, for the fixture; `file:entry` as drowse takes it.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write_entry(&self, name: &str, mut entry: Value, fixture: &[&str]) -> String {
        let mut server = self.session(name).server(fixture).into_iter();
        entry["command"] = json!(server.next());
        entry["args"] = json!(server.collect::<Vec<_>>());
        let bare = name.trim_start_matches('@');
        let file = self.path().join(format!("{bare}.json"));
        fs::write(&file, json!({"mcpServers": {bare: entry}}).to_string()).expect("a file");
        format!("{}:{bare}", file.display())
    }

    /// A handle for a session, connected or not, whose fixture journal is in this home.
    ///
    /// # Panics
    /// If it is no name.
    #[must_use]
    pub fn session(&self, name: &str) -> Session<'_> {
        Session::new(self, SessionName::new(name).expect("a name"))
    }

    /// The sessions as `drowse --json` lists them.
    ///
    /// # Panics
    /// If there is no list.
    #[must_use]
    pub fn list(&self) -> Vec<Value> {
        self.run(["--json"]).ok().json()["sessions"].as_array().expect("a list").clone()
    }

    /// What is left of its sessions, one line each.
    fn leftovers(&self) -> Vec<String> {
        let deadline = Instant::now() + self.patience;
        let processes = loop {
            let processes = survey::belonging_to(self.path());
            if processes.is_empty() || Instant::now() >= deadline {
                break processes;
            }
            thread::sleep(Duration::from_millis(5));
        };
        let files = fs::read_dir(self.files.sessions()).into_iter().flatten().flatten();
        let mut left: Vec<String> =
            processes.iter().map(|pid| format!("process {}", survey::describe(*pid))).collect();
        left.extend(files.map(|file| format!("file {}", file.path().display())));
        left
    }

    fn kill_all(&self) {
        for pid in survey::belonging_to(self.path()) {
            // Looked at just now: it carries this home's path, which is nobody else's.
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    /// The logs of all sessions, for a failure's text.
    fn logs(&self) -> String {
        let sessions = fs::read_dir(self.files.sessions()).into_iter().flatten().flatten();
        let logs = sessions.map(|session| session.path().join("log"));
        let read = |log: PathBuf| Some(format!("{}:\n{}", log.display(), fs::read_to_string(&log).ok()?));
        logs.filter_map(read).collect()
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.logs());
            // Nothing is asserted on the way out of a failure, and nothing is left all the same.
            self.kill_all();
            return;
        }
        let cleaned = self.run(["clean", "all", "--json"]);
        let left = self.leftovers();
        self.kill_all();
        assert_eq!(cleaned.code, 0, "closing all sessions: {}{}", cleaned.out, cleaned.err);
        assert_eq!(left, [] as [String; 0], "left of {}", self.path().display());
    }
}
