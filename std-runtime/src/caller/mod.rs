//! The caller's side of the wake protocol: what a command, a gateway or a program does to use a session.
//!
//! Blocking code without a runtime, because a warm call must cost little more than the process that makes
//! it. Every wait ends at the caller's deadline or when its interrupt descriptor becomes readable. Nothing
//! here owns a server: the bridge does.

mod call;
mod census;
mod connect;
pub mod doctor;
mod end;
mod error;
mod inquiry;
mod leftover;
mod life;
mod link;
mod listing;
mod message;
mod pin;
mod poll;
mod settings;
mod sharing;
mod snapshot;
mod start;
mod subscription;
mod sync;
mod wake;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use self::census::{Gauge, Load, Orphaned, Role, SessionProcess};
pub use self::error::{CallError, ExitClass, RpcError};
pub use self::leftover::Rebuilt;
pub use self::life::LifeNow;
use self::link::{Greeting, Link};
pub use self::pin::Environment;
pub use self::poll::{Answer, Poll, Standing};
pub use self::settings::{Change, Changed, Heard};
pub use self::start::{BRIDGE_COMMAND, BridgeProgram, Launch, Launched, OurProgram};
pub use self::subscription::{News, Subscription};
pub use drowse_core::logging::Level;

use serde::de::DeserializeOwned;

use crate::home::{Home, SessionName};
use crate::input::ClientCapabilities;
use crate::record::{RecordError, SessionRecord, Settings, State, StateRecord};
use crate::remote::Header;
use crate::share::{Share, WantedFront};
pub use crate::wait::Wait;
use crate::wire::{METHOD_STATUS, Renewed, Status, Unasked};

/// All sessions of one home.
#[derive(Debug, Clone)]
pub struct Sessions {
    home: Home,
    launcher: Arc<dyn Launch>,
    principal: Option<String>,
    verbatim: bool,
    rebuilt: Arc<Mutex<Vec<Rebuilt>>>,
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
    /// Why what is known cannot be read.
    pub state_error: Option<RecordError>,
    /// The bridge's process, if it lives.
    pub bridge_pid: Option<u32>,
    /// What the bridge says of itself, if it was asked and answered in time.
    pub status: Option<Status>,
    /// The listener by which it is shared, if that lives: its bridge, also while the server sleeps.
    pub listener: Option<Listener>,
}

/// A process at which clients find a session over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Its number.
    pub pid: u32,
    /// Where clients connect to.
    pub url: String,
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
    /// Headers given now, for a server behind a URL. They replace those of the same name.
    pub headers: Vec<Header>,
    /// The working directory for a target that names none.
    pub cwd: PathBuf,
    /// Where pinned variables and `${VAR}` get their values.
    pub environment: Environment,
    /// Only write the records; `None` asks the entry (`autoConnect: false` is lazy).
    pub lazy: Option<bool>,
    /// Whether it is to be shared over HTTP, and where.
    pub share: WantedShare,
}

/// What is given of sharing a session.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct WantedShare {
    /// Where, or no more; absent: as it was.
    pub at: Option<Option<Share>>,
    /// The bearer token of those who come in there, or none any more; absent: as it was, if it is shared already.
    pub token: Option<Option<String>>,
    /// Who else may come in, and how much there may be; likewise.
    pub front: WantedFront,
}

impl WantedShare {
    /// Whether there is anything of it.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.at.is_some() || self.token.is_some() || self.front.is_given()
    }
}

impl std::fmt::Debug for WantedShare {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WantedShare").field("at", &self.at).finish_non_exhaustive()
    }
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
    /// A server behind a URL.
    Url {
        /// The address; without a scheme it is `http` on this machine, else `https`.
        url: String,
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
    /// The session was there and awake, and its server goes by the settings that are given now.
    Changed,
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
    sessions: &'a Sessions,
    name: SessionName,
    wait: Wait<'a>,
    link: Option<Link>,
    /// Requests sent on `link`: what a bridge counts too.
    sent: u64,
    next_id: u64,
    /// The server, or its session, was replaced by a fresh one.
    renewed: Option<Renewed>,
    /// What the server asked and was refused.
    unasked: Vec<Unasked>,
    /// What every request declares.
    capabilities: ClientCapabilities,
    /// How much of the server's log is wanted during requests, and who takes it.
    log: Option<(Level, TakeMessage)>,
}

/// Takes the params of a log message of the server.
pub type TakeMessage = fn(&str);

/// What `clean` did.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// Sessions that were removed.
    pub removed: Vec<SessionName>,
    /// Sessions that should go and could not.
    pub failed: Vec<(SessionName, CallError)>,
    /// How many processes that killed dev proxies left were ended.
    pub ended: usize,
    /// Why others of those could not be.
    pub not_ended: Vec<String>,
}

impl Sessions {
    /// The sessions of the home that the environment names. Creates nothing.
    ///
    /// # Errors
    /// If the environment names no home.
    pub fn open() -> Result<Self, CallError> {
        Ok(Self::at(Home::from_env()?))
    }

    /// The sessions of a home, with bridges that are this very program.
    #[must_use]
    pub fn at(home: Home) -> Self {
        let rebuilt = Arc::default();
        Self { home, launcher: Arc::new(OurProgram), principal: None, verbatim: true, rebuilt }
    }

    /// The same, with bridges of another kind.
    #[must_use]
    pub fn with_launcher(self, launcher: impl Launch + 'static) -> Self {
        Self { launcher: Arc::new(launcher), ..self }
    }

    /// The same, with connections that belong to one view.
    #[must_use]
    pub fn with_principal(self, principal: impl Into<String>) -> Self {
        Self { principal: Some(principal.into()), ..self }
    }

    /// The same, with results exactly as the server sent them (`true`, the default), or with what the newest
    /// revision requires supplied where an older server left it out.
    #[must_use]
    pub fn with_verbatim(self, verbatim: bool) -> Self {
        Self { verbatim, ..self }
    }

    /// The directories.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// A handle for operations on one session. Does nothing yet, not even look whether it exists.
    #[must_use]
    pub fn caller<'a>(&'a self, name: &SessionName, wait: Wait<'a>) -> Caller<'a> {
        Caller::new(self, name, wait)
    }

    /// What the session's bridge says of itself; `None` if none runs. Starts nothing and counts as no use.
    ///
    /// # Errors
    /// If the wait ends first, or the bridge answers with an error.
    pub fn status(&self, name: &SessionName, wait: Wait<'_>) -> Result<Option<Status>, CallError> {
        self.ask_bridge(name, METHOD_STATUS, wait)
    }

    /// The answer of the bridge that runs to a question about itself; `None` if none runs.
    fn ask_bridge<T: DeserializeOwned>(
        &self,
        name: &SessionName,
        method: &str,
        wait: Wait<'_>,
    ) -> Result<Option<T>, CallError> {
        let Greeting::Welcome(link) = self.greet(name, wait, STATUS_PATIENCE)? else { return Ok(None) };
        let request = Request { method, params: "", timeout: None, progress: None };
        match Caller::on(self, name, wait, link).call_here(request) {
            Ok(reply) => match serde_json::from_slice(reply.as_bytes()) {
                Ok(answer) => Ok(Some(answer)),
                Err(e) => Err(CallError::BridgeLost { name: name.clone(), what: e.to_string() }),
            },
            // It fell asleep at this very moment.
            Err(CallError::BridgeLost { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// How long a bridge may take to answer the hello of somebody who only asks how it is.
const STATUS_PATIENCE: Duration = Duration::from_secs(1);
