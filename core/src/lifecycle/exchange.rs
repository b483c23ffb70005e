//! What the lifecycle is told of a server's end, and what it says: states, records, effects, refusals.

use crate::time::Instant;

/// How what a server kept was lost, without anybody having asked for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Lost {
    /// The server ended the session.
    Expired,
    /// The server that ran ended by itself.
    Ended,
}

/// What a user is told about a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PublicState {
    /// Never started.
    Dormant,
    /// Being started.
    Connecting,
    /// Running and answering.
    Live,
    /// Running, but shown to nobody.
    Suspended,
    /// Not running, on purpose.
    Idle,
    /// Running, but not answering, or about to be gone.
    Disconnected,
    /// Being started again in the background.
    Reconnecting,
    /// Ended by itself, or could not be started.
    Crashed,
    /// Refused the credentials.
    Unauthorized,
    /// Ended the session.
    Expired,
    /// Forgotten.
    Closed,
}

impl PublicState {
    /// Every state.
    pub const ALL: [Self; 11] = [
        Self::Dormant,
        Self::Connecting,
        Self::Live,
        Self::Suspended,
        Self::Idle,
        Self::Disconnected,
        Self::Reconnecting,
        Self::Crashed,
        Self::Unauthorized,
        Self::Expired,
        Self::Closed,
    ];

    /// The word for it in records and output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dormant => "dormant",
            Self::Connecting => "connecting",
            Self::Live => "live",
            Self::Suspended => "suspended",
            Self::Idle => "idle",
            Self::Disconnected => "disconnected",
            Self::Reconnecting => "reconnecting",
            Self::Crashed => "crashed",
            Self::Unauthorized => "unauthorized",
            Self::Expired => "expired",
            Self::Closed => "closed",
        }
    }

    /// The state of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether a server process may exist in this state.
    #[must_use]
    pub const fn is_awake(self) -> bool {
        matches!(
            self,
            Self::Connecting | Self::Live | Self::Suspended | Self::Disconnected | Self::Reconnecting
        )
    }

    /// What a record in this state comes to whose machine is gone: it was killed, or went with the computer, which was
    /// started anew since. That is a sleep and not a crash.
    #[must_use]
    pub const fn bereft(self, rebooted: bool) -> Self {
        match (self.is_awake(), rebooted) {
            (false, _) => self,
            (true, true) => Self::Idle,
            (true, false) => Self::Crashed,
        }
    }
}

impl core::fmt::Display for PublicState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// How a server process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Exit {
    /// With this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

/// What is to be done about the process and the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Effect {
    /// Write this record; acknowledge with `handle_persisted` or `handle_persist_failed`.
    Persist(Record),
    /// Start the process of this generation; acknowledged by negotiation, or by `handle_spawn_failed`.
    Spawn {
        /// Number of the generation.
        generation: u64,
    },
    /// Close the server's input.
    CloseInput,
    /// Tell the whole tree to terminate.
    Terminate,
    /// Kill the whole tree. Its end is to be reported, at once if there is no process.
    Kill,
    /// Nothing is left to do and nothing waits: the machine may go.
    Retire,
}

/// What is written down about a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Record {
    /// Its state.
    pub state: PublicState,
    /// The generation that the state is about.
    pub generation: u64,
    /// No process of that generation is left.
    pub ended: bool,
}

/// Why an operation is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Unavailable {
    /// The server keeps crashing; not before this instant.
    BackingOff(Instant),
    /// It is being closed.
    ShuttingDown,
    /// It refused the credentials.
    Unauthorized,
    /// It ended the session, and a fresh one is not wanted.
    Expired,
    /// Processes of the last generation were killed and are still there.
    Unkillable,
}
