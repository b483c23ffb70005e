//! What the hub needs from outside: a server's process and streams, and a place for records and log lines.
//!
//! The bridge fills it with real processes and files, tests with in-memory streams on a paused clock.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use drowse_core::era::Revision;
use drowse_core::lifecycle::{Exit, PublicState, Record};
use drowse_core::tally::{Counts, Histogram};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::share::Sharing;
use crate::snapshot::Snapshot;
use crate::wire::Kind;

/// A future on the bridge's one thread.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A server that was started, or reached.
pub enum Backend {
    /// A process of ours.
    Process(Process),
    /// A server behind a URL.
    Remote(Rc<dyn Client>),
    /// A process of ours that serves at a URL. Both of its streams are for the log.
    Served(Process, Rc<dyn Client>),
}

/// A started process.
pub struct Process {
    /// Its input. Dropped, it is closed.
    pub input: Box<dyn AsyncWrite + Unpin>,
    /// Its output.
    pub output: Box<dyn AsyncRead + Unpin>,
    /// Its errors, for the log.
    pub errors: Option<Box<dyn AsyncRead + Unpin>>,
    /// Its processes.
    pub control: Rc<dyn Control>,
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process(process) | Self::Served(process, _) => process.fmt(f),
            Self::Remote(_) => f.write_str("Remote"),
        }
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("pid", &self.control.pid()).finish_non_exhaustive()
    }
}

/// Sends HTTP requests to one server. What its answers mean is not its business.
pub trait Client {
    /// Sends a request whose URI is that of the server, or of an endpoint that it named.
    fn send(&self, request: http::Request<Bytes>) -> LocalFuture<'static, Result<Response, Failed>>;
    /// The server's own address.
    fn url(&self) -> &url::Url;
}

/// The beginning of a response; its body comes piece by piece.
pub type Response = http::Response<Box<dyn Body>>;

/// The body of a response.
pub trait Body {
    /// The next piece; `None` at its end.
    fn chunk(&mut self) -> LocalFuture<'_, Result<Option<Bytes>, Failed>>;
}

/// Why there is no response, or no more of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// A connection was there, so that the request may have been written.
    pub connected: bool,
    /// Why, for people.
    pub text: String,
}

/// The processes of a started server.
pub trait Control {
    /// Number of the process that was started, if it is one.
    fn pid(&self) -> Option<u32>;
    /// Resolves when that process has ended; others of its tree may live on.
    fn exited(&self) -> LocalFuture<'_, Exit>;
    /// Tells the whole tree to terminate.
    fn terminate(&self);
    /// Kills the whole tree.
    fn kill(&self);
    /// Resolves when no process of the tree is left.
    fn gone(&self) -> LocalFuture<'_, ()>;
    /// The memory of the whole tree, in bytes, if that can be told in a moment.
    fn memory(&self) -> Option<u64> {
        None
    }
}

/// What is written down about the session when its state changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// State and generation.
    pub record: Record,
    /// The machine's time, in milliseconds since 1970: that of the start, and what a monotonic clock counted since then.
    /// The time of day may have been set meanwhile.
    pub now: u64,
    /// The server's process.
    pub server_pid: Option<u32>,
    /// The revision that was negotiated, this time or before.
    pub revision: Option<Revision>,
    /// Recent crashes, in the time of `now`.
    pub crashes: Vec<u64>,
    /// Not to be started before, in the time of `now`.
    pub retry_at: Option<u64>,
    /// Why it is not well, for people.
    pub message: Option<String>,
    /// The last lines of the server's stderr, when it is not well.
    pub stderr: Option<String>,
    /// The server ended by itself, and nobody was told so far that what it kept is gone.
    pub lost: bool,
}

/// What is written into a session's life when its public state changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// The state from then on.
    pub state: PublicState,
    /// The generation that it is about.
    pub generation: u64,
    /// When it was, in milliseconds since 1970, if not just now.
    pub at_ms: Option<u64>,
    /// The operations that ended in the awake period that is over.
    pub counts: Counts,
    /// How long they took.
    pub latency: Histogram,
    /// What the server used before it was let go, in bytes.
    pub memory: Option<u64>,
    /// Why, for people.
    pub why: Option<String>,
}

impl Moment {
    /// A change of the state and nothing else.
    #[must_use]
    pub fn new(state: PublicState, generation: u64) -> Self {
        let (counts, latency) = (Counts::default(), Histogram::new());
        Self { state, generation, at_ms: None, counts, latency, memory: None, why: None }
    }
}

/// Why the first start failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// Why, as a word.
    pub kind: Kind,
    /// Why, for people.
    pub message: String,
    /// The last lines of its stderr.
    pub stderr: Option<String>,
}

/// The surroundings of a hub.
pub trait Host {
    /// Writes the state down.
    ///
    /// # Errors
    /// If it could not be written.
    fn persist(&mut self, facts: &Facts) -> io::Result<()>;
    /// Writes down what happened.
    ///
    /// # Errors
    /// If it could not be written.
    fn lived(&mut self, _moment: &Moment) -> io::Result<()> {
        Ok(())
    }
    /// Starts the server.
    ///
    /// # Errors
    /// Why it cannot be started, for people.
    fn spawn(&mut self, generation: u64) -> Result<Backend, String>;
    /// Shares the session over HTTP otherwise from now on, or no more. Answers where clients find it.
    ///
    /// # Errors
    /// Why it cannot be, for people: then it is shared as it was.
    fn share(&mut self, _wanted: Option<&Sharing>) -> Result<Option<String>, String> {
        Err("it cannot be shared".to_owned())
    }
    /// Takes what the server wrote to its stderr.
    fn server_errors(&mut self, bytes: &[u8]);
    /// Takes a line for the session's log.
    fn note(&mut self, text: &str);
    /// Takes a log message of the server, for the session's log: one line.
    fn server_log(&mut self, text: &str);
    /// Replaces the session's snapshot by this document.
    ///
    /// # Errors
    /// If it could not be written. The old one is then untouched.
    fn save(&mut self, document: &[u8]) -> io::Result<()>;
    /// The session's snapshot, if there is one that can be used.
    fn saved(&mut self) -> Option<Snapshot>;
    /// The first start of this process succeeded or failed. Called once.
    fn started(&mut self, outcome: Result<(), &StartFailure>);
    /// Nothing is in flight, and has not been for a while: it may be long until something happens.
    fn quiet(&mut self) {}
}
