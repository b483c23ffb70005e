//! The caller's side of the wake protocol: what a command, a gateway or a program does to use a session.
//!
//! Blocking code without a runtime, because a warm call must cost little more than the process that makes
//! it. Every wait ends at the caller's deadline or when its interrupt descriptor becomes readable. Nothing
//! here owns a server: the bridge does.

mod error;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use self::error::{CallError, ExitClass, RpcError};
use crate::home::{Home, SessionName};
use crate::record::{RecordError, SessionRecord, Settings, State, StateRecord};
pub use crate::wait::Wait;

/// All sessions of one home.
#[derive(Debug)]
pub struct Sessions {
    home: Home,
}

/// A session as a list shows it.
#[derive(Debug)]
pub struct Listed {
    /// Its name.
    pub name: SessionName,
    /// What is wanted, or why that cannot be read.
    pub record: Result<SessionRecord, RecordError>,
    /// The public state, checked against the processes that are there.
    pub state: State,
    /// What is known, if it was ever started and the record can be read.
    pub known: Option<StateRecord>,
    /// The bridge's process, if it lives.
    pub bridge_pid: Option<u32>,
}

/// A session that is wanted.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Its name.
    pub name: SessionName,
    /// What it runs.
    pub target: WantedTarget,
    /// Settings given now. Others are kept, or come from the entry.
    pub settings: Settings,
    /// Variables given now: `--env NAME` (the value of the environment) or `--env NAME=VALUE`.
    pub pins: Vec<Pin>,
    /// The working directory for a target that names none.
    pub cwd: PathBuf,
    /// Where pinned variables and `${VAR}` get their values.
    pub environment: Environment,
    /// Only write the records; `None` asks the entry (`autoConnect: false` is lazy).
    pub lazy: Option<bool>,
}

/// What a wanted session runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedTarget {
    /// A command.
    Command {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// An entry of a configuration file.
    Entry {
        /// The file.
        file: PathBuf,
        /// The entry's name.
        entry: String,
    },
}

/// A variable given with `--env`.
#[derive(Clone, PartialEq, Eq)]
pub enum Pin {
    /// Take the value from the environment.
    Name(String),
    /// This value.
    Value(String, String),
}

impl std::fmt::Debug for Pin {
    /// Without the value.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Name(name) | Self::Value(name, _)) = self;
        f.debug_tuple("Pin").field(name).finish()
    }
}

/// The environment of whoever connects.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// This process's own.
    #[must_use]
    pub fn current() -> Self {
        Self(std::env::vars_os().collect())
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(iter: I) -> Self {
        Self(iter.into_iter().collect())
    }
}

impl std::fmt::Debug for Environment {
    /// Names only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What a `connect` or `restart` came to.
#[derive(Debug)]
pub struct Connected {
    /// The session's name.
    pub name: SessionName,
    /// What is wanted of it now.
    pub record: SessionRecord,
    /// What happened.
    pub outcome: Outcome,
    /// The result of `drowse/info`, as JSON; `None` with `lazy`.
    pub info: Option<Reply>,
}

/// What happened at a `connect` or `restart`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The session is new, and its server was started.
    Created,
    /// The session is new, and nothing was started.
    Registered,
    /// The session was there and awake.
    AlreadyAwake,
    /// The session was there, asleep, and was woken.
    Woken,
    /// The session was there, and its server was started anew: server-side state is gone.
    Restarted,
    /// The session was there; only its records were written.
    Updated,
}

/// One operation.
pub struct Request<'a> {
    /// The method, `tools/call` or `drowse/ping` for instance.
    pub method: &'a str,
    /// The params as a JSON object; empty for none. May hold a `_meta` of its own.
    pub params: &'a str,
    /// The request's time-out; `None` is the session's.
    pub timeout: Option<Duration>,
    /// Called with the params of each progress notification.
    pub progress: Option<&'a mut dyn FnMut(&str)>,
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("method", &self.method).finish_non_exhaustive()
    }
}

/// The answer to one operation.
pub struct Reply {
    line: Vec<u8>,
    result: std::ops::Range<usize>,
}

impl Reply {
    /// The result, byte for byte as it came.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.line.get(self.result.clone()).unwrap_or_default()
    }
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Reply").field(&String::from_utf8_lossy(self.as_bytes())).finish()
    }
}

/// Uses one session: its requests share a connection for as long as the bridge keeps it.
#[derive(Debug)]
pub struct Caller<'a> {
    _sessions: &'a Sessions,
    _name: SessionName,
    _wait: Wait<'a>,
}

impl Caller<'_> {
    /// Runs one operation, waking the session if it sleeps.
    ///
    /// # Errors
    /// See [`CallError`]; each says whether the operation may have run.
    pub fn call(&mut self, request: Request<'_>) -> Result<Reply, CallError> {
        let _ = request;
        Err(unfinished())
    }
}

/// What `clean` did.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// Sessions that were removed.
    pub removed: Vec<SessionName>,
    /// Sessions that should go and could not.
    pub failed: Vec<(SessionName, CallError)>,
}

impl Sessions {
    /// The sessions of the home that the environment names. Creates nothing.
    ///
    /// # Errors
    /// If there is no usable home.
    pub fn open() -> Result<Self, CallError> {
        Ok(Self::at(Home::from_env()?))
    }

    /// The sessions of a given home. Creates nothing.
    #[must_use]
    pub fn at(home: Home) -> Self {
        Self { home }
    }

    /// The directories.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// All sessions, by name, from records and the process table alone.
    ///
    /// # Errors
    /// If the home cannot be read. A session whose records cannot be read is listed with its error.
    pub fn list(&self) -> Result<Vec<Listed>, CallError> {
        Err(unfinished())
    }

    /// One session as a list shows it.
    ///
    /// # Errors
    /// If there is no such session, or the home cannot be read.
    pub fn get(&self, name: &SessionName) -> Result<Listed, CallError> {
        let _ = name;
        Err(unfinished())
    }

    /// Makes a session, or changes and wakes the one of that name.
    ///
    /// # Errors
    /// If the name has another target, the configuration cannot be used, or the server does not start; a
    /// session that is new is then not there.
    pub fn connect(&self, wanted: &Wanted, wait: Wait<'_>) -> Result<Connected, CallError> {
        let _ = (wanted, wait);
        Err(unfinished())
    }

    /// A handle for operations on one session. Does nothing yet, not even look whether it exists.
    pub fn caller<'a>(&'a self, name: &SessionName, wait: Wait<'a>) -> Caller<'a> {
        Caller { _sessions: self, _name: name.clone(), _wait: wait }
    }

    /// Ends a session: its server's whole tree is gone, and the session forgotten, when this returns.
    ///
    /// # Errors
    /// If there is no such session, or it could not be ended before the deadline.
    pub fn close(&self, name: &SessionName, wait: Wait<'_>) -> Result<(), CallError> {
        let _ = (name, wait);
        Err(unfinished())
    }

    /// Ends a session's server and starts it anew, with its configuration entry read again.
    ///
    /// # Errors
    /// If there is no such session, its entry cannot be used, or the server does not start.
    pub fn restart(&self, name: &SessionName, wait: Wait<'_>) -> Result<Connected, CallError> {
        let _ = (name, wait);
        Err(unfinished())
    }

    /// Removes what crashed, expired or was orphaned, never a sleeping session; with `all`, everything.
    ///
    /// # Errors
    /// If the home cannot be read.
    pub fn clean(&self, all: bool, wait: Wait<'_>) -> Result<Cleaned, CallError> {
        let _ = (all, wait);
        Err(unfinished())
    }
}

fn unfinished() -> CallError {
    CallError::NotABridge { path: PathBuf::new(), what: "this part of drowse is not built yet".into() }
}
