//! Why a call failed, whether it may have run, and which exit status that is.

use std::fmt;
use std::path::PathBuf;

use crate::config::ConfigError;
use crate::home::{HomeError, SessionName};
use crate::lock::LockError;
use crate::record::RecordError;
use crate::wire::{ErrorData, Failed, Kind, Ran};

/// The exit statuses of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitClass {
    /// Wrong use.
    Usage = 1,
    /// The server answered with an error, or cannot be started.
    Server = 2,
    /// Network, time-out, or drowse's own link to the bridge.
    Network = 3,
    /// Authorization.
    Authorization = 4,
    /// Ctrl-C.
    Interrupted = 130,
}

/// A JSON-RPC error answer, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// The code.
    pub code: i64,
    /// The message.
    pub message: String,
    /// `data`, as JSON, byte for byte.
    pub data: Option<String>,
}

/// Why a call failed. Each text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A record cannot be used.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no session of that name.
    #[error("there is no session {name}{}", NearestSession(nearest.as_ref()))]
    NoSession {
        /// The name that was asked for.
        name: SessionName,
        /// A session of a similar name.
        nearest: Option<SessionName>,
    },
    /// The name is in use for something else.
    #[error("{name} is taken by {existing}: choose another name, or `drowse close {name}` first")]
    NameTaken {
        /// The name.
        name: SessionName,
        /// What it runs, for people.
        existing: String,
    },
    /// The working directory or a value that must be text is not UTF-8.
    #[error("{what} is not valid UTF-8: drowse keeps its records as text, so use another")]
    NotText {
        /// What it is.
        what: String,
    },
    /// The server answered with an error of its own.
    #[error("{} (code {})", .0.message, .0.code)]
    Answer(RpcError),
    /// The bridge answered that the operation failed.
    #[error("{}", .error.message)]
    Failed {
        /// What drowse says of it.
        data: Box<ErrorData>,
        /// The whole answer.
        error: RpcError,
    },
    /// The server does not say when that changes.
    #[error("{what}")]
    NotAnnounced {
        /// What it does not announce, as a sentence.
        what: String,
    },
    /// The server could not be started.
    #[error("{name} cannot be started: {}", .report.message)]
    StartFailed {
        /// The session.
        name: SessionName,
        /// What the bridge reported, the server's last words included.
        report: Failed,
    },
    /// The bridge ended, or could not be run, before it said anything.
    #[error("the bridge of {name} did not start ({what}): see {}, then try again", log.display())]
    BridgeFailed {
        /// The session.
        name: SessionName,
        /// What went wrong.
        what: String,
        /// The session's log.
        log: PathBuf,
    },
    /// The server crashed lately.
    #[error(
        "{name} crashed and is not started again for {}: wait, or `drowse restart {name}` now{}",
        Seconds(*wait_ms), Because(message.as_deref())
    )]
    BackingOff {
        /// The session.
        name: SessionName,
        /// How long until a start is tried again, in milliseconds.
        wait_ms: u64,
        /// When that is, in milliseconds since 1970.
        retry_at: u64,
        /// Why it crashed.
        message: Option<String>,
        /// Its last words.
        stderr: Option<String>,
    },
    /// The server refused the credentials the last time, and would again.
    #[error(
        "{name} is not started: {}; `drowse restart {name}` tries the same once more",
        message.as_deref().unwrap_or("the server refused the credentials the last time: connect again with others, -H 'Name: value'")
    )]
    Unauthorized {
        /// The session.
        name: SessionName,
        /// What was said then, and what to do.
        message: Option<String>,
    },
    /// The server ended the session, and the user wants no fresh one unasked.
    #[error(
        "the server of {name} ended the session, and with it what it kept: `drowse restart {name}` begins a fresh one"
    )]
    Expired {
        /// The session.
        name: SessionName,
    },
    /// A bridge of another drowse, which shares no hello version with this one, serves the session.
    #[error(
        "{name} is served by a bridge of another drowse version ({reason}): `drowse restart {name}` replaces it"
    )]
    OtherVersion {
        /// The session.
        name: SessionName,
        /// What the bridge said.
        reason: String,
    },
    /// A process that cannot be told apart from others holds the session's lock and does nothing.
    #[error("something holds {} and does not answer: end it (`fuser {}` names it), then try again", path.display(), path.display())]
    Wedged {
        /// The lock.
        path: PathBuf,
    },
    /// The bridge runs in another container that shares this home, and does not answer. Its number means nothing
    /// here.
    #[error(
        "{name} is served from another container that shares this home (process {pid} there), which does not answer \
         and holds {}: end it there, then try again", path.display()
    )]
    Elsewhere {
        /// The session.
        name: SessionName,
        /// The bridge's number in its own container.
        pid: u32,
        /// The lock that it holds.
        path: PathBuf,
    },
    /// What a killed bridge left behind cannot be ended, so nothing is started beside it.
    #[error("{name} cannot be started: {source}; end it, then try again")]
    Leftover {
        /// The session.
        name: SessionName,
        /// What the kernel said, and of which process.
        source: std::io::Error,
    },
    /// The link to the bridge broke while the operation was with it.
    #[error("the bridge of {name} went away during the call ({what}); it may have run")]
    BridgeLost {
        /// The session.
        name: SessionName,
        /// How.
        what: String,
    },
    /// The caller's own deadline passed.
    #[error("timed out {during}{}", MayHaveRun(*ran))]
    Deadline {
        /// While doing what: `waiting for …`.
        during: String,
        /// Whether the operation may have run.
        ran: Ran,
    },
    /// The user interrupted.
    #[error("interrupted{}", MayHaveRun(*ran))]
    Interrupted {
        /// Whether the operation may have run.
        ran: Ran,
    },
    /// The answer is larger than what drowse passes on.
    #[error("the answer is larger than {limit} bytes; the operation ran, its answer is lost")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The params are not a JSON object.
    #[error("the params of {method} are not a JSON object: {what}")]
    BadParams {
        /// The method.
        method: String,
        /// What the parser said.
        what: String,
    },
}

impl From<LockError> for CallError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Home(error) => Self::Home(error),
            LockError::Deadline { .. } => Self::Deadline {
                during: "waiting for another drowse that is starting or ending this session".to_owned(),
                ran: Ran::No,
            },
            LockError::Interrupted { .. } => Self::Interrupted { ran: Ran::No },
        }
    }
}

impl CallError {
    /// The stable word.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Home(_)
            | Self::Record(_)
            | Self::Wedged { .. }
            | Self::Elsewhere { .. }
            | Self::Leftover { .. } => Kind::Storage,
            Self::Config(_) | Self::NotText { .. } => Kind::Config,
            Self::NoSession { .. } => Kind::NoSession,
            Self::NameTaken { .. } => Kind::NameTaken,
            Self::Answer(_) => Kind::ServerError,
            Self::Failed { data, .. } => data.kind,
            Self::StartFailed { report, .. } => report.kind,
            Self::BridgeFailed { .. } => Kind::StartFailed,
            Self::BackingOff { .. } => Kind::BackingOff,
            Self::Unauthorized { .. } => Kind::Unauthorized,
            Self::Expired { .. } => Kind::Expired,
            Self::OtherVersion { .. } | Self::NotAnnounced { .. } => Kind::Unsupported,
            Self::BridgeLost { .. } => Kind::BridgeLost,
            Self::Deadline { .. } => Kind::Timeout,
            Self::Interrupted { .. } => Kind::Interrupted,
            Self::TooLarge { .. } => Kind::TooLarge,
            Self::BadParams { .. } => Kind::InvalidRequest,
        }
    }

    /// Whether the operation may have run; `None` where the server itself answered.
    #[must_use]
    pub fn ran(&self) -> Option<Ran> {
        match self {
            Self::Answer(_) => None,
            Self::Failed { data, .. } => Some(data.ran),
            Self::Deadline { ran, .. } | Self::Interrupted { ran } => Some(*ran),
            Self::BridgeLost { .. } | Self::TooLarge { .. } => Some(Ran::Unknown),
            _ => Some(Ran::No),
        }
    }

    /// The JSON-RPC code, where there was an answer.
    #[must_use]
    pub fn code(&self) -> Option<i64> {
        match self {
            Self::Answer(error) | Self::Failed { error, .. } => Some(error.code),
            _ => None,
        }
    }

    /// The server's last words, where drowse has them.
    #[must_use]
    pub fn stderr(&self) -> Option<&str> {
        match self {
            Self::Failed { data, .. } => data.stderr.as_deref(),
            Self::StartFailed { report, .. } => report.stderr.as_deref(),
            Self::BackingOff { stderr, .. } => stderr.as_deref(),
            _ => None,
        }
    }

    /// The exit status.
    #[must_use]
    pub fn exit(&self) -> ExitClass {
        match self.kind() {
            Kind::Interrupted => ExitClass::Interrupted,
            Kind::Timeout
            | Kind::BridgeLost
            | Kind::ShuttingDown
            | Kind::Busy
            | Kind::Cancelled
            | Kind::NotShared
            | Kind::Network => ExitClass::Network,
            Kind::ServerError
            | Kind::ServerLost
            | Kind::Restarted
            | Kind::NotReady
            | Kind::StartFailed
            | Kind::BackingOff
            | Kind::TooLarge
            | Kind::Unsupported
            | Kind::InvalidAnswer
            | Kind::Unkillable
            | Kind::Expired
            | Kind::Http
            | Kind::Unknown => ExitClass::Server,
            Kind::Unauthorized => ExitClass::Authorization,
            Kind::NoSession | Kind::NameTaken | Kind::Config | Kind::InvalidRequest => ExitClass::Usage,
            Kind::Storage | Kind::NotPersisted => ExitClass::Network,
        }
    }
}

struct NearestSession<'a>(Option<&'a SessionName>);

impl fmt::Display for NearestSession<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, ": did you mean {name}?"),
            None => f.write_str(": `drowse` lists the sessions there are"),
        }
    }
}

struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0.div_ceil(1000))
    }
}

struct Because<'a>(Option<&'a str>);

impl fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |why| write!(f, " ({why})"))
    }
}

struct MayHaveRun(Ran);

impl fmt::Display for MayHaveRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Ran::No => "; nothing ran",
            Ran::Unknown => "; it may have run",
        })
    }
}
