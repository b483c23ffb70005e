//! A home of its own with the real `drowse` in it, and sessions whose server is the fixture.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use drowse_runtime::caller::{
    BRIDGE_COMMAND, BridgeProgram, Environment, Pin, Request, Sessions, Wait, Wanted, WantedShare,
    WantedTarget,
};
use drowse_runtime::home::{Home, SessionName};
use drowse_runtime::lock::Lock;
use drowse_runtime::record::{self, Settings, StateRecord};
use rustix::process::Signal;
use tempfile::TempDir;

use super::audit::Audit;
use super::outcome::{ENDING, Ended, Outcome, Running, of_reply, slept};
use super::processes::{self, Role, SESSION, Seen, WORLD};
use crate::fixture::journal::Journal;
use crate::harness::{LIMIT, Watch, drowse, fixture};

/// A home with its processes. Those that are left when it is dropped are killed.
#[derive(Debug)]
pub struct World {
    directory: TempDir,
    mark: String,
}

/// How a session is set up.
#[derive(Default, Debug, Clone)]
pub struct Setup<'a> {
    /// Flags of the fixture server.
    pub server: &'a [&'a str],
    /// Seconds until the server is let go.
    pub idle_secs: u64,
    /// The limit for starting and negotiating; `None` is the default.
    pub connect_ms: Option<u64>,
    /// How long a server may take to stop; `None` is the default.
    pub grace_ms: Option<u64>,
}

/// A session of a [`World`], registered and not started.
#[derive(Debug)]
pub struct Session<'w> {
    /// Where it lives.
    pub world: &'w World,
    /// Its name.
    pub name: SessionName,
    /// What its servers write.
    pub journal: Journal,
    target: WantedTarget,
    settings: Settings,
    pins: Vec<Pin>,
}

impl World {
    /// A new home, with nothing in it.
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // So that all are found however a test is started.
        let directory = tempfile::Builder::new().prefix("drowse-race-").tempdir().expect("a directory");
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{count}-{}", std::process::id(), directory.path().display());
        Self { directory, mark }
    }

    /// What its processes carry in [`WORLD`].
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// A directory for files of the test.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The home.
    pub fn home(&self) -> Home {
        Home::resolved(self.directory.path().join("home"), None)
    }

    /// The sessions, as a library user has them, with real bridges. `faults`: steps at which those bridges end, as
    /// `DROWSE_FAULT` has them.
    pub fn sessions(&self, faults: &str) -> Sessions {
        let mut args: Vec<OsString> =
            vec![format!("{WORLD}={}", self.mark).into(), format!("DROWSE_FAULT={faults}").into()];
        args.extend([drowse().into(), BRIDGE_COMMAND.into()]);
        Sessions::at(self.home()).with_launcher(BridgeProgram { program: "/usr/bin/env".into(), args })
    }

    /// The real command, with nothing inherited. `faults` as in [`sessions`](Self::sessions), for the command and for
    /// the bridges that it starts, but each for one process only; `always B1` for all of them.
    pub fn command(&self, words: &[&str], faults: &str) -> Command {
        let mut command = Command::new(drowse());
        command
            .args(words)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("DROWSE_HOME", self.home().root())
            .env(WORLD, &self.mark)
            .env("DROWSE_FAULT", faults.trim_start_matches("always "))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if !faults.starts_with("always ") {
            command.env("DROWSE_FAULT_ONCE", self.path().join("fault"));
        }
        command
    }

    /// Runs the real command to its end.
    pub fn runs(&self, words: &[&str]) -> Ended {
        let child = self.command(words, "").spawn().expect("run drowse");
        match Ended::of(Running { child, answer: String::new() }) {
            Ok(ended) => ended,
            Err(hangs) => panic!("{hangs}"),
        }
    }

    /// The same.
    pub fn runs_words(&self, words: &[String]) -> Ended {
        self.runs(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Registers a session on the fixture; nothing is started.
    pub fn session(&self, name: &str, setup: &Setup<'_>) -> Session<'_> {
        let session = self.unregistered(name, setup);
        self.sessions("").connect(&session.wanted(true), wait()).expect("register a session");
        session
    }

    /// A session on the fixture that does not exist yet.
    pub fn unregistered(&self, name: &str, setup: &Setup<'_>) -> Session<'_> {
        let journal = Journal::at(self.path().join(format!("{name}.journal")));
        let mut args = vec!["--log".to_owned(), journal.path().display().to_string()];
        args.extend(setup.server.iter().map(|flag| (*flag).to_owned()));
        let settings = Settings {
            idle_timeout_secs: Some(setup.idle_secs),
            connect_timeout_ms: setup.connect_ms,
            stop_grace_ms: setup.grace_ms,
            ..Settings::default()
        };
        Session {
            world: self,
            name: SessionName::new(name).expect("a session's name"),
            journal,
            target: WantedTarget::Command { command: fixture().display().to_string(), args },
            settings,
            pins: vec![
                Pin::Value(WORLD.to_owned(), self.mark.clone()),
                Pin::Value(SESSION.to_owned(), name.to_owned()),
            ],
        }
    }

    /// The live processes of this world, by what they are.
    pub fn processes(&self) -> Vec<Seen> {
        processes::marked(&self.mark)
    }

    /// Its live bridges.
    pub fn bridges(&self) -> Vec<Seen> {
        let mut seen = self.processes();
        seen.retain(|one| one.role == Role::Bridge);
        seen
    }

    /// Waits for the end of all processes of this world, which nobody ends here; panics if one stays.
    #[track_caller]
    pub fn is_left_empty(&self) {
        let deadline = Instant::now() + ENDING;
        loop {
            let left = self.processes();
            let Some(one) = left.first() else { return };
            let rest = deadline.saturating_duration_since(Instant::now());
            assert!(one.ends_within(rest), "left behind: {left:#?}");
        }
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Bridges first: they would start servers anew.
        for _ in 0..10 {
            let mut left = self.processes();
            if left.is_empty() {
                break;
            }
            left.sort_by_key(|one| one.role != Role::Bridge);
            for one in &left {
                one.signal(Signal::KILL);
            }
            for one in &left {
                one.ends_within(Duration::from_secs(1));
            }
        }
    }
}

impl Session<'_> {
    /// What is wanted of it.
    pub fn wanted(&self, lazy: bool) -> Wanted {
        Wanted {
            name: self.name.clone(),
            target: self.target.clone(),
            settings: self.settings.clone(),
            pins: self.pins.clone(),
            headers: Vec::new(),
            cwd: self.world.path().to_owned(),
            environment: Environment::default(),
            lazy: Some(lazy),
            share: WantedShare::default(),
        }
    }

    /// The command line that connects it, with further flags for the server.
    pub fn connect_words(&self, server: &[&str]) -> Vec<String> {
        let WantedTarget::Command { command, args } = &self.target else { panic!("not a command") };
        let idle = self.settings.idle_timeout_secs.unwrap_or(0).to_string();
        let mark = format!("{WORLD}={}", self.world.mark);
        let session = format!("{SESSION}={}", self.name.as_str());
        let at = self.at();
        let mut words = vec!["connect", &at, "--json", "--idle-timeout", &idle];
        words.extend(["--env", &mark, "--env", &session, "--", command]);
        let words = words.into_iter().chain(args.iter().map(String::as_str)).chain(server.iter().copied());
        words.map(str::to_owned).collect()
    }

    /// Its name as the command line has it.
    pub fn at(&self) -> String {
        format!("@{}", self.name.as_str())
    }

    /// One call of the tool `tag` in this process, on a connection of its own.
    pub fn call(&self, tag: &str) -> Outcome {
        call(&self.world.sessions(""), &self.name, tag)
    }

    /// One call of the tool `tag` by the real command.
    pub fn command_call(&self, tag: &str, faults: &str) -> Outcome {
        self.command_begins(tag, faults).outcome()
    }

    /// Begins a call of the tool `tag` by the real command.
    pub fn command_begins(&self, tag: &str, faults: &str) -> Running {
        self.command_begins_tool(&["tag", &format!("tag={tag}")], tag.to_owned(), faults)
    }

    /// Begins a call of the tool `slow`, which takes so many milliseconds.
    pub fn command_begins_slow(&self, ms: u64, tag: &str, faults: &str) -> Running {
        let words = ["slow", &format!("ms:={ms}"), &format!("tag={tag}")];
        self.command_begins_tool(&words, slept(ms), faults)
    }

    fn command_begins_tool(&self, tool: &[&str], answer: String, faults: &str) -> Running {
        let at = self.at();
        let mut words = vec![at.as_str(), "tools-call"];
        words.extend_from_slice(tool);
        words.push("--json");
        let child = self.world.command(&words, faults).spawn().expect("run drowse");
        Running { child, answer }
    }

    /// What `state.json` says.
    pub fn state(&self) -> Option<StateRecord> {
        record::read_state(&self.world.home(), &self.name).expect("state.json can be read")
    }

    /// The bridge that `state.json` names, if it lives.
    pub fn bridge(&self) -> Option<Seen> {
        let bridge = self.state()?.bridge?;
        self.world.bridges().into_iter().find(|seen| (seen.pid, seen.started) == (bridge.pid, bridge.started))
    }

    /// The live processes of its servers.
    pub fn servers(&self) -> Vec<Seen> {
        let mut seen = self.world.processes();
        seen.retain(|one| matches!(&one.role, Role::Server { session, .. } if session == self.name.as_str()));
        seen
    }

    /// What is in the session's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.world.home().log_file(&self.name)).unwrap_or_default()
    }

    /// The journal, read.
    pub fn audit(&self) -> Audit {
        Audit::of(&self.journal.entries().expect("a journal"))
    }

    /// Waits for the end of the bridge that lives, if one does.
    #[track_caller]
    pub fn bridge_ends(&self) {
        if let Some(bridge) = self.bridge() {
            assert!(bridge.ends_within(ENDING), "still there: {bridge:?}\n{}", self.log());
        }
    }

    /// Waits until it may be started again.
    pub fn sleeps_until_retry(&self) {
        if let Some(at) = self.state().and_then(|state| state.retry_at) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            // Not a wait for something: time itself is what has to pass.
            std::thread::sleep(Duration::from_millis(at + 1).saturating_sub(now));
        }
    }

    /// Waits until its log has this.
    #[track_caller]
    pub fn has_logged(&self, text: &str) {
        let deadline = Instant::now() + LIMIT;
        let mut watch = Watch::on(&self.world.home().session(&self.name)).expect("its directory");
        while !self.log().contains(text) {
            assert!(watch.changed(deadline).expect("inotify"), "not in the log: {text}\n{}", self.log());
        }
    }

    /// Waits until the last server that was started has been told to go.
    #[track_caller]
    pub fn is_told_to_go(&self) {
        self.writes(|audit| audit.lives.last().is_some_and(|life| life.told.is_some()));
    }

    /// Waits until a tool runs with this tag.
    #[track_caller]
    pub fn runs(&self, tag: &str) {
        self.writes(|audit| audit.executions(tag) > 0);
    }

    /// Waits for the start of a server after `before` others; its process.
    #[track_caller]
    pub fn has_a_server(&self, before: usize) -> Seen {
        let audit = self.writes(|audit| audit.lives.len() > before);
        let pid = audit.lives[before].pid;
        let server = self.servers().into_iter().find(|server| server.pid == pid);
        server.unwrap_or_else(|| panic!("{pid} is gone\n{}", self.log()))
    }

    #[track_caller]
    fn writes(&self, enough: impl Fn(&Audit) -> bool) -> Audit {
        match self.journal.wait(LIMIT, |entries| enough(&Audit::of(entries))) {
            Ok(entries) => Audit::of(&entries),
            Err(error) => panic!("{error}\n{}", self.log()),
        }
    }

    /// Waits until somebody holds L, to start a bridge or to wait for one.
    #[track_caller]
    pub fn is_being_started(&self) {
        let path = self.world.home().start_lock(&self.name);
        let deadline = Instant::now() + LIMIT;
        // Nothing tells of a lock that is taken, so this is asked again and again.
        while Lock::try_acquire(&path).expect("a lock").is_some() {
            assert!(Instant::now() < deadline, "nobody takes L");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether both of its locks are free.
    pub fn is_unlocked(&self) -> bool {
        let home = self.world.home();
        [home.start_lock(&self.name), home.bridge_lock(&self.name)].iter().all(|path| {
            // Waits, as whoever just ended may still be about to.
            Lock::acquire(path, Wait::at_most(ENDING)).is_ok()
        })
    }

    /// Ends it and checks that nothing is left: no process, no lock held, no file but its log's directory's absence.
    #[track_caller]
    pub fn close(&self) {
        let closed = self.world.sessions("").close(&self.name, wait());
        assert!(closed.is_ok(), "close: {closed:?}\n{:#?}\n{}", self.world.processes(), self.log());
        assert_eq!(self.servers(), [], "close leaves a server");
        assert!(self.is_unlocked(), "close leaves a lock held: {:#?}", self.world.processes());
        assert!(!self.world.home().session(&self.name).exists(), "close leaves files");
    }
}

/// One call of the tool `tag`.
pub fn call(sessions: &Sessions, name: &SessionName, tag: &str) -> Outcome {
    of_reply(&sessions.caller(name, wait()).call(request(&params(tag))), tag)
}

/// The params of a call of the tool `tag`.
pub fn params(tag: &str) -> String {
    format!(r#"{{"name":"tag","arguments":{{"tag":"{tag}"}}}}"#)
}

/// A tool call with these params.
pub fn request(params: &str) -> Request<'_> {
    Request { method: "tools/call", params, timeout: None, progress: None }
}

/// The params of a call of the tool `slow`.
pub fn slow_params(ms: u64, tag: &str) -> String {
    format!(r#"{{"name":"slow","arguments":{{"ms":{ms},"tag":"{tag}"}}}}"#)
}

/// No test waits longer for a call.
pub fn wait() -> Wait<'static> {
    Wait::at_most(LIMIT)
}
