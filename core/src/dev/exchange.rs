//! What the dev proxy's machine is told and what it says.

/// A restart that somebody asked for, or that files caused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Job(pub(super) u64);

impl Job {
    /// Its number, counted from one in the order of arrival.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// What is wanted of a restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Wish {
    /// Build first; if that changed nothing, the server stays.
    pub rebuild: bool,
    /// With another environment, so that the server is replaced in any case.
    pub env: bool,
}

/// Why a restart cannot be done at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Refused {
    /// There is no command that builds.
    NoBuild,
    /// Too many wait.
    Full,
    /// Everything ends.
    ShuttingDown,
}

/// How a build ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Built {
    /// The server is another one, or nobody can tell.
    Changed,
    /// The server is what it was.
    Unchanged,
    /// It failed, so the server is what it was.
    Failed,
}

/// How the server stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Standing {
    /// It does not run: it never did, or rests.
    Down,
    /// It does not run, and was meant to: it crashed, or did not start.
    Crashed,
    /// It is being started.
    Starting,
    /// It answers.
    Up,
    /// It is being ended.
    Stopping,
}

/// What of the server is of interest here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct View {
    /// How it stands.
    pub standing: Standing,
    /// Its generation.
    pub generation: u64,
    /// It was sent something that it has not answered.
    pub busy: bool,
}

/// What the adapter has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Action {
    /// Send nothing more to the server (`true`), or go on.
    Hold(bool),
    /// Run the build, for that job.
    Build {
        /// For whom.
        job: Job,
    },
    /// End the build with its whole tree; its end is told as ever.
    AbortBuild,
    /// Replace the server, or start it: from now on it has that job's environment, if the job has one.
    Restart {
        /// For whom.
        job: Job,
    },
    /// The server that rests is another one now: what crashed before says nothing of it.
    Forgive,
    /// Say whether the files that changed differ from what they were at the last such question.
    Compare,
    /// Tell the user, once, that files change with every build: nothing is done about it until others do.
    Stalled,
    /// A job is over.
    Done {
        /// Which.
        job: Job,
        /// How it went.
        verdict: Verdict,
    },
}

/// How a job went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Verdict {
    /// Another server answers.
    Restarted,
    /// The build changed nothing, so the server stays.
    Unchanged,
    /// The build failed; the old server serves.
    BuildFailed,
    /// The build took too long and was ended; the old server serves.
    BuildTimedOut,
    /// The new server could not be started.
    StartFailed,
    /// Everything ends.
    ShuttingDown,
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Restarted => "restarted",
            Self::Unchanged => "unchanged",
            Self::BuildFailed => "build-failed",
            Self::BuildTimedOut => "build-timed-out",
            Self::StartFailed => "start-failed",
            Self::ShuttingDown => "shutting-down",
        }
    }

    /// Whether what was wanted is so.
    #[must_use]
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Restarted | Self::Unchanged)
    }
}
