//! What became of calls and commands, and what holds for each.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use drowse_runtime::caller::{CallError, Reply};
use drowse_runtime::wire::Ran;
use rustix::process::Signal;
use serde_json::Value;

use super::processes::{self, Role, Seen};
use crate::harness::LIMIT;

/// The end of a process that was asked for has this long to show.
pub(super) const ENDING: Duration = Duration::from_secs(20);

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered, and rightly.
    Answered,
    /// It failed and said how.
    Failed(Typed),
    /// Its caller was killed.
    Killed,
    /// It ended in any other way, which no call may.
    Broken(String),
}

/// A failure as a user gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// The stable word.
    pub kind: String,
    /// `no` or `unknown`.
    pub ran: Option<String>,
    /// The exit status.
    pub exit: i32,
    /// The message.
    pub message: String,
}

impl Typed {
    fn of(error: &CallError) -> Self {
        Self {
            kind: error.kind().as_str().to_owned(),
            ran: error.ran().map(|ran: Ran| ran.as_str().to_owned()),
            exit: error.exit() as i32,
            message: error.to_string(),
        }
    }

    /// Whether it says that the operation never ran.
    pub fn never_ran(&self) -> bool {
        self.ran.as_deref() == Some("no")
    }
}

impl Outcome {
    /// What failed; panics on anything else.
    #[track_caller]
    pub fn failure(self) -> Typed {
        match self {
            Self::Failed(typed) => typed,
            other => panic!("not a typed failure: {other:?}"),
        }
    }

    /// Checks what holds for every call: it ended in one of the ways in which calls may end, and it ran as often as that
    /// way allows.
    ///
    /// # Errors
    ///
    /// Which of it does not hold.
    pub fn check(&self, executions: usize) -> Result<(), String> {
        let most = match self {
            Self::Answered if executions == 1 => 1,
            Self::Answered => return Err(format!("answered, and ran {executions} times")),
            Self::Killed => 1,
            Self::Failed(typed) => match (typed.exit, typed.ran.as_deref()) {
                (1..=3, Some("no")) => 0,
                (2 | 3, Some("unknown")) => 1,
                _ => return Err(format!("failed untyped: {typed:?}")),
            },
            Self::Broken(how) => return Err(how.clone()),
        };
        if executions <= most { Ok(()) } else { Err(format!("ran {executions} times: {self:?}")) }
    }
}

/// What became of a call that is to be answered so; `slow` answers `slept` and its milliseconds, `tag` the tag.
pub fn of_reply(reply: &Result<Reply, CallError>, answer: &str) -> Outcome {
    match reply {
        Ok(reply) => answered(reply.as_bytes(), answer),
        Err(error) => Outcome::Failed(Typed::of(error)),
    }
}

fn answered(result: &[u8], wanted: &str) -> Outcome {
    let text = serde_json::from_slice::<Value>(result).ok();
    match text.as_ref().and_then(|result| result["content"][0]["text"].as_str()) {
        Some(text) if text == wanted => Outcome::Answered,
        _ => Outcome::Broken(format!("not answered {wanted} but {}", String::from_utf8_lossy(result))),
    }
}

/// What `slow` answers.
pub fn slept(ms: u64) -> String {
    format!("slept {ms}")
}

/// A command that runs.
#[derive(Debug)]
pub struct Running {
    pub(super) child: Child,
    /// What it is to be answered.
    pub(super) answer: String,
}

impl Running {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it. It is our child, so its number is nobody else's.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// Whether it ends within a moment.
    pub fn has_ended(&mut self) -> bool {
        self.seen().is_none_or(|seen| seen.ends_within(ENDING))
    }

    fn seen(&self) -> Option<Seen> {
        let (pid, role) = (self.pid(), Role::Other);
        processes::started(pid).map(|started| Seen { pid, started, role, command: String::new() })
    }

    /// Waits for its end.
    pub fn outcome(self) -> Outcome {
        let answer = self.answer.clone();
        match Ended::of(self) {
            Ok(ended) => ended.outcome(&answer),
            Err(hangs) => Outcome::Broken(hangs),
        }
    }
}

/// A command that ended.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Ended {
    /// Waits for a command's end; an error if it takes longer than any may.
    pub(super) fn of(running: Running) -> Result<Self, String> {
        if let Some(seen) = running.seen().filter(|seen| !seen.ends_within(LIMIT)) {
            let mut stuck = running;
            stuck.kill();
            let output = stuck.child.wait_with_output();
            return Err(format!("drowse hangs: {seen:?} {output:?}"));
        }
        let output = running.child.wait_with_output().expect("wait for drowse");
        Ok(Self {
            status: output.status,
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// What failed; panics if nothing did, or it does not say.
    #[track_caller]
    pub fn failure(&self) -> Typed {
        self.outcome("").failure()
    }

    /// Whether it succeeded, whatever it printed.
    ///
    /// # Errors
    ///
    /// How it ended if it did not.
    pub fn done(&self) -> Result<(), Outcome> {
        if self.status.success() { Ok(()) } else { Err(self.outcome("")) }
    }

    fn outcome(&self, answer: &str) -> Outcome {
        if self.status.signal() == Some(Signal::KILL.as_raw()) {
            return Outcome::Killed;
        }
        if self.status.success() {
            return answered(self.out.as_bytes(), answer);
        }
        let typed = (|| {
            let document: Value = serde_json::from_str(self.err.lines().last()?).ok()?;
            Some(Typed {
                kind: document["kind"].as_str()?.to_owned(),
                ran: document["ran"].as_str().map(str::to_owned),
                exit: self.status.code()?,
                message: document["error"].as_str()?.to_owned(),
            })
        })();
        typed.map_or_else(|| Outcome::Broken(self.to_string()), Outcome::Failed)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nstdout: {}\nstderr: {}", self.status, self.out, self.err)
    }
}
