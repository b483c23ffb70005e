//! `doctor`: looks at everything that sessions need, mends what is safe to mend, and says what is left to its user.
//!
//! Owns the findings and who may be touched: files only under a session's locks and while its bridge does not run,
//! processes only if they carry a marker of this home and no bridge is above them, a bridge only if its session is
//! gone. A bridge that does not answer is reported, never ended. Starts nothing and counts as no use.

mod place;
mod records;
mod running;
mod temporary;

use std::fmt::Display;
use std::io;
use std::time::{Duration, Instant};

use super::Sessions;
use super::census::Role;
use super::error::CallError;
use super::leftover::orphans;
use crate::dev;
use crate::home::{HomeError, SessionName};
use crate::lock::{self, Lock, LockError};
use crate::process::ProcessIdentity;
use crate::sys::procfs;
use crate::wait::Wait;

/// How long a session's lock may be held by somebody else before that is reported.
const BUSY: Duration = Duration::from_secs(1);

/// What one look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// There is nothing to do.
    Fine,
    /// There was, and it was done.
    Mended,
    /// There is, and it would have been done.
    WouldMend,
    /// There is, and only the user can do it.
    NeedsUser,
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Mended => "fixed",
            Self::WouldMend => "would fix",
            Self::NeedsUser => "needs you",
        }
    }

    /// Whether something is left to do.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::WouldMend | Self::NeedsUser)
    }
}

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, as a word: `kernel`, `home`, `records`, ….
    pub check: &'static str,
    /// Whose it is, if it is a session's.
    pub session: Option<SessionName>,
    /// What it came to.
    pub verdict: Verdict,
    /// What was found or done, for people.
    pub what: String,
    /// What to do about it: a command, most of the time.
    pub next: Option<String>,
}

impl Finding {
    /// All is well.
    #[must_use]
    pub fn fine(check: &'static str, what: impl Into<String>) -> Self {
        Self { check, session: None, verdict: Verdict::Fine, what: what.into(), next: None }
    }

    /// Something for the user to do.
    #[must_use]
    pub fn needs_user(check: &'static str, what: impl Into<String>, next: Option<String>) -> Self {
        Self { check, session: None, verdict: Verdict::NeedsUser, what: what.into(), next }
    }

    fn of(self, name: &SessionName) -> Self {
        Self { session: Some(name.clone()), ..self }
    }
}

/// What the kernel has to be able to do, whatever home is used.
#[must_use]
pub fn examine_kernel() -> Vec<Finding> {
    place::kernel()
}

/// Temporary homes of commands with a server of their own that were killed, with everyone who was to clean up after
/// them: directories whose names begin with `prefix`, where such homes are made. With `mend` they are removed.
#[must_use]
pub fn examine_temporary(prefix: &str, mend: bool, wait: Wait<'_>) -> Vec<Finding> {
    temporary::examine(prefix, mend, wait)
}

impl Sessions {
    /// Looks at the home, its sessions and their processes, in this order; with `mend`, puts right what can be put right
    /// without a question, else changes nothing.
    #[must_use]
    pub fn examine(&self, mend: bool, wait: Wait<'_>) -> Vec<Finding> {
        let mut doctor = Doctor { sessions: self, mend, wait, findings: Vec::new() };
        if doctor.place()
            && let Err(error) = doctor.sessions()
        {
            doctor.add(Finding::needs_user("records", error.to_string(), None));
        }
        doctor.findings
    }
}

struct Doctor<'s> {
    sessions: &'s Sessions,
    mend: bool,
    wait: Wait<'s>,
    findings: Vec<Finding>,
}

/// What stands between a session and its being mended.
enum Held {
    /// Nothing: nobody starts or changes it while this is held, and no bridge runs.
    Free(Lock),
    /// Its bridge runs.
    Running(Lock),
    /// Somebody else is at it; who, for people.
    Busy(String),
}

impl Doctor<'_> {
    fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Adds what `act` mends, or would.
    fn put_right(
        &mut self,
        check: &'static str,
        name: Option<&SessionName>,
        what: impl Display,
        act: impl FnOnce() -> Result<String, String>,
    ) {
        let (verdict, what) = if self.mend {
            match act() {
                Ok(done) => (Verdict::Mended, format!("{what}: {done}")),
                Err(error) => (Verdict::NeedsUser, format!("{what}, which cannot be mended: {error}")),
            }
        } else {
            (Verdict::WouldMend, what.to_string())
        };
        self.add(Finding { check, session: name.cloned(), verdict, what, next: None });
    }

    fn sessions(&mut self) -> Result<(), CallError> {
        if self.mend {
            self.sessions.home().prepare()?;
        }
        self.orphans()?;
        self.records()?;
        self.bridges()
    }

    /// Takes the locks of a session, or says why that is not to be.
    fn hold(&self, name: &SessionName) -> Result<Held, CallError> {
        let path = self.sessions.home().start_lock(name);
        let lock = match Lock::acquire(&path, self.wait.no_later_than(Instant::now() + BUSY)) {
            Ok(lock) => lock,
            Err(LockError::Deadline { .. }) => {
                let who = lock::noted(&path).filter(ProcessIdentity::is_alive).map(|bridge| bridge.pid);
                let who = who.into_iter().chain(lock::holders(&path)).next();
                return Ok(Held::Busy(match who {
                    Some(pid) => format!("process {pid} is starting, ending or changing it"),
                    None => "another process is starting, ending or changing it".to_owned(),
                }));
            }
            Err(error) => return Err(error.into()),
        };
        // One that is ending takes a moment. From then on there can be none, as long as the first lock is ours.
        if self.sessions.bridge_ends(name, Instant::now() + Duration::from_millis(200), self.wait)? {
            Ok(Held::Free(lock))
        } else {
            Ok(Held::Running(lock))
        }
    }

    /// What killed dev proxies left running. `false`: nothing.
    fn of_dev_proxies(&mut self) -> Result<bool, HomeError> {
        let mut any = false;
        for left in dev::record::left(self.sessions.home()) {
            let processes =
                left.processes().map_err(|e| HomeError::io("read", std::path::Path::new("/proc"), e))?;
            if processes.is_empty() {
                if self.mend {
                    // Only its file is there.
                    let _ = left.end_gently();
                }
                continue;
            }
            any = true;
            let listed: Vec<String> =
                processes.iter().map(|(pid, command)| format!("{pid} ({command})")).collect();
            let what = format!("{}: {}", dev::record::count(listed.len()), listed.join(", "));
            self.put_right("orphans", None, what, || match left.end_gently() {
                Ok(_) => Ok("ended".to_owned()),
                Err(error) => Err(error.to_string()),
            });
        }
        Ok(any)
    }

    /// What dead bridges left running.
    fn orphans(&mut self) -> Result<(), CallError> {
        let unreadable = |e: io::Error| HomeError::io("read", std::path::Path::new("/proc"), e);
        let found = self.sessions.census(&procfs::snapshot().map_err(unreadable)?)?;
        let mut names: Vec<SessionName> = orphans(found).map(|one| one.session).collect();
        names.sort_unstable();
        names.dedup();
        if !self.of_dev_proxies()? && names.is_empty() {
            self.add(Finding::fine("orphans", "no process is left of a server whose bridge is gone"));
        }
        for name in names {
            let listed = self.sessions.processes(Some(&name))?;
            let listed: Vec<String> = listed
                .iter()
                .filter_map(|process| match process.role {
                    Role::Orphan(why) => {
                        let command = process.command.join(" ");
                        Some(format!("{} ({command}; {})", process.pid, why.describe()))
                    }
                    _ => None,
                })
                .collect();
            if listed.is_empty() {
                continue;
            }
            let plural = if listed.len() == 1 { "process is" } else { "processes are" };
            let what = format!("{} {plural} left of its server: {}", listed.len(), listed.join(", "));
            if !self.mend {
                self.put_right("orphans", Some(&name), what, || Ok(String::new()));
                continue;
            }
            // Nobody starts a server of this session meanwhile, whose processes would have to be told from these.
            match self.hold(&name)? {
                Held::Busy(who) => {
                    let again = Some("drowse doctor".to_owned());
                    self.add(Finding::needs_user("orphans", format!("{what}; {who}"), again).of(&name));
                }
                Held::Free(_lock) | Held::Running(_lock) => {
                    let reaped = self.sessions.reap(&name);
                    self.put_right("orphans", Some(&name), what, || match reaped {
                        Ok(()) => Ok("ended".to_owned()),
                        Err(error) => Err(error.to_string()),
                    });
                }
            }
        }
        Ok(())
    }
}
