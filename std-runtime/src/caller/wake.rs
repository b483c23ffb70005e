//! How a caller meets a bridge: C1 and C3 to C6 of the wake protocol.
//!
//! Owns the order of connecting, locking, waiting and starting. Never sends an operation, so nothing here
//! can run one; and never ends anything because a caller's deadline passed.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::Sessions;
use super::error::CallError;
use super::link::{Cut, Greeting, Link, Unanswered, greet};
use super::start::{Report, Started, bridge_config, start};
use crate::credential;
use crate::fault;
use crate::home::{HomeError, SessionName};
use crate::lock::{Attempt, Lock};
use crate::process::{self, ProcessIdentity};
use crate::record::{self, RecordError, SessionRecord, Settings, StateRecord, now_ms};
use crate::suggest::nearest;
use crate::wait::{Wait, Woken};
use crate::wire::{CallerHello, Envelope, Hello, Ran};

/// How long the answer to a hello may take before a caller goes on to look at the locks, still listening.
const PATIENCE: Duration = Duration::from_secs(1);
/// What a bridge may take beyond its own limits before it counts as dead.
pub(super) const MARGIN: Duration = Duration::from_secs(10);
/// How often one operation may start a bridge that is gone again before it could be used.
const MAX_STARTS: u32 = 5;
/// How long ending what a dead bridge left may take.
const SWEEP: Duration = Duration::from_secs(10);
/// A retry that lies further ahead than any back-off comes from a clock that was set back.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(3600);

/// What to do with a bridge that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Present {
    /// Use it.
    Use,
    /// Use it, unless it is this process: that one said that it is going away, so its end is waited for. By the time
    /// that L is ours, there may be another.
    UseOther(u32),
    /// Wait for its end.
    Avoid,
}

/// What was met, lock L still held.
pub(super) enum Met {
    /// A bridge that was there.
    Running(Link),
    /// A bridge that was started, ready.
    Started(Started),
}

/// Why no bridge was met.
pub(super) struct NotMet {
    pub(super) error: CallError,
    /// The bridge that was started for it, if one was.
    pub(super) bridge: Option<Box<Started>>,
}

impl<E: Into<CallError>> From<E> for NotMet {
    fn from(error: E) -> Self {
        Self { error: error.into(), bridge: None }
    }
}

/// How a wait for a bridge's end came out (C4).
enum Holder {
    /// No bridge lives.
    Gone,
    /// It greets after all, or says that it cannot.
    Greets(Greeting),
    /// Neither, until the limit.
    Stalled,
}

impl Sessions {
    /// Meets the session's bridge, or starts one: C1, and where that fails C3 to C6.
    pub(super) fn reach(
        &self,
        name: &SessionName,
        wait: Wait<'_>,
        mut present: Present,
    ) -> Result<Link, CallError> {
        if !self.home.check()? {
            return Err(self.no_session(name));
        }
        for _ in 0..MAX_STARTS {
            if let Greeting::Welcome(link) = self.look(name, present, wait)? {
                return Ok(link);
            }
            self.home.prepare()?;
            // Not made before the session is known to exist: locks are for ever.
            self.record(name)?;
            let lock = self.lock(name, wait)?;
            // It may have been closed while we waited.
            let record = self.record(name)?;
            match self.meet(name, &lock, &record, present, wait) {
                Ok(Met::Running(link)) => return Ok(link),
                Ok(Met::Started(bridge)) => {
                    bridge.release();
                    present = Present::Use;
                }
                Err(NotMet { error, bridge }) => {
                    if let Some(bridge) = bridge {
                        bridge.release();
                    }
                    return Err(error);
                }
            }
        }
        Err(CallError::BridgeFailed {
            name: name.clone(),
            what: format!("it was started {MAX_STARTS} times and gone each time"),
            log: self.home.log_file(name),
        })
    }

    /// C1, with a bridge that may be used only.
    fn look(&self, name: &SessionName, present: Present, wait: Wait<'_>) -> Result<Greeting, CallError> {
        if present == Present::Avoid {
            return Ok(Greeting::Absent);
        }
        Ok(match self.greet(name, wait, PATIENCE)? {
            Greeting::Welcome(link) if present == Present::UseOther(link.bridge()) => Greeting::Absent,
            greeting => greeting,
        })
    }

    /// C1: connect, exchange the hello.
    pub(super) fn greet(
        &self,
        name: &SessionName,
        wait: Wait<'_>,
        patience: Duration,
    ) -> Result<Greeting, CallError> {
        let hello = Hello::ours(self.principal.clone(), self.verbatim);
        let socket = self.home.socket_file(name);
        let failed = |e: io::Error| HomeError::io("connect to", &socket, e);
        let mut line =
            serde_json::to_vec(&Envelope { drowse: CallerHello { hello } }).map_err(|e| failed(e.into()))?;
        line.push(b'\n');
        let address = match self.home.socket(name) {
            Ok(address) => address,
            // The directory of a long path is not there, so neither is a socket.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Greeting::Absent),
            Err(e) => return Err(failed(e).into()),
        };
        match greet(&address, &line, wait, patience).map_err(failed)? {
            Ok(greeting) => Ok(greeting),
            Err(cut) => Err(cut_off(cut, format!("waiting for the bridge of {name} to answer"))),
        }
    }

    /// C3: lock L.
    pub(super) fn lock(&self, name: &SessionName, wait: Wait<'_>) -> Result<Lock, CallError> {
        let lock = Lock::acquire(&self.home.start_lock(name), wait)?;
        fault::point("C3");
        Ok(lock)
    }

    /// What is wanted of the session, which must exist.
    pub(super) fn record(&self, name: &SessionName) -> Result<SessionRecord, CallError> {
        record::read_session(&self.home, name)?.ok_or_else(|| self.no_session(name))
    }

    /// The error that there is no such session.
    pub(super) fn no_session(&self, name: &SessionName) -> CallError {
        let names = record::names(&self.home).unwrap_or_default();
        let existing = names.iter().filter(|name| self.home.session_file(name).exists());
        let nearest = nearest(name.as_str(), existing.map(SessionName::as_str));
        CallError::NoSession {
            name: name.clone(),
            nearest: nearest.and_then(|name| SessionName::new(name).ok()),
        }
    }

    /// C3 (the second half) to C6, with L held: the bridge that is there, or a new one that is ready.
    pub(super) fn meet(
        &self,
        name: &SessionName,
        lock: &Lock,
        record: &SessionRecord,
        present: Present,
        wait: Wait<'_>,
    ) -> Result<Met, NotMet> {
        let mut greeting = self.look(name, present, wait)?;
        let patience = record.settings.connect_timeout().saturating_add(record.settings.stop_limit());
        let mut seen = self.progress(name);
        // C4.
        loop {
            let unanswered = match greeting {
                Greeting::Welcome(link) => return Ok(Met::Running(link)),
                Greeting::Refused(refused) if refused.in_flight == Some(0) => {
                    self.end_bridge_process(name, &record.settings)?;
                    None
                }
                Greeting::Refused(refused) => {
                    let reason = refused.reason;
                    return Err(CallError::OtherVersion { name: name.clone(), reason }.into());
                }
                Greeting::Silent(unanswered) => Some(unanswered),
                Greeting::Absent => None,
            };
            greeting = match self.wait_for_end(name, unanswered, Instant::now() + patience, wait)? {
                Holder::Gone => break,
                Holder::Greets(greeting) => greeting,
                Holder::Stalled => {
                    let now = self.progress(name);
                    let stuck = now == seen;
                    seen = now;
                    let greeting = self.look(name, present, wait)?;
                    if stuck && matches!(greeting, Greeting::Silent(_) | Greeting::Absent) {
                        self.end_bridge_process(name, &record.settings)?;
                    }
                    greeting
                }
            };
        }
        // C5.
        let known = record::read_state(&self.home, name)?;
        fault::point("C5");
        self.sweep(name, known.as_ref(), wait)?;
        fault::point("C5-swept");
        self.unlink_socket(name)?;
        may_start(name, known.as_ref(), now_ms())?;
        // C6.
        let credentials = credential::read(&self.home, name)?.unwrap_or_default();
        let config =
            bridge_config(&self.home, name, record, &credentials, known.as_ref()).map_err(CallError::from)?;
        let limit = Instant::now() + patience + MARGIN;
        match start(self.launcher.as_ref(), &self.home, name, config, lock, limit, wait)? {
            Report::Ready(bridge) => Ok(Met::Started(bridge)),
            Report::Failed { error, bridge } | Report::Cut { error, bridge } => {
                Err(NotMet { error, bridge: Some(Box::new(bridge)) })
            }
        }
    }

    /// C4: waits until B is free, listening for a late hello at the same time.
    fn wait_for_end(
        &self,
        name: &SessionName,
        mut unanswered: Option<Unanswered>,
        limit: Instant,
        wait: Wait<'_>,
    ) -> Result<Holder, CallError> {
        let path = self.home.bridge_lock(name);
        // Held only to know that it is free: L keeps others from starting.
        let mut contended = match Lock::attempt(&path)? {
            Attempt::Held(_) => return Ok(Holder::Gone),
            Attempt::Contended(contended) => contended,
        };
        fault::point("C4");
        loop {
            let limited = wait.no_later_than(limit);
            let mut interest = vec![(contended.as_fd(), PollFlags::IN)];
            interest.extend(unanswered.iter().map(|unanswered| (unanswered.as_fd(), PollFlags::IN)));
            let woken = limited.poll(&interest).map_err(|e| HomeError::io("wait for", &path, e))?;
            match woken {
                Woken::Interrupted => return Err(CallError::Interrupted { ran: Ran::No }),
                Woken::Deadline if wait.is_over() => {
                    let during = format!("waiting for the last bridge of {name} to end");
                    return Err(CallError::Deadline { during, ran: Ran::No });
                }
                Woken::Deadline => return Ok(Holder::Stalled),
                Woken::Ready => {}
            }
            contended = match contended.take()? {
                Attempt::Held(_) => return Ok(Holder::Gone),
                Attempt::Contended(contended) => contended,
            };
            unanswered = match unanswered.map(Unanswered::advance) {
                None | Some(Greeting::Absent) => None,
                Some(Greeting::Silent(unanswered)) => Some(unanswered),
                Some(greeting) => return Ok(Holder::Greets(greeting)),
            };
        }
    }

    /// Waits until B is free, at most until `limit`. `false` if it still is not.
    pub(super) fn bridge_ends(
        &self,
        name: &SessionName,
        limit: Instant,
        wait: Wait<'_>,
    ) -> Result<bool, CallError> {
        Ok(matches!(self.wait_for_end(name, None, limit, wait)?, Holder::Gone))
    }

    /// Ends a bridge that does not answer: TERM, then KILL. It is told from any other process by what
    /// `state.json` says of it, never by its number alone.
    pub(super) fn end_bridge_process(
        &self,
        name: &SessionName,
        settings: &Settings,
    ) -> Result<(), CallError> {
        let wedged = || CallError::Wedged { path: self.home.bridge_lock(name) };
        let known = known_if_readable(self, name)?;
        let bridge = known.and_then(|known| known.bridge).ok_or_else(wedged)?;
        // TERM has it end its server first, which may take both graces.
        let grace = settings.stop_limit().saturating_add(Duration::from_secs(1));
        match bridge.end(grace) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => {
                let gone = self.bridge_ends(name, Instant::now(), Wait::default())?;
                if gone { Ok(()) } else { Err(wedged()) }
            }
        }
    }

    /// C5: ends what carries the marker of a generation that is not known to have ended.
    pub(super) fn sweep(
        &self,
        name: &SessionName,
        known: Option<&StateRecord>,
        wait: Wait<'_>,
    ) -> Result<(), CallError> {
        let Some(known) = known.filter(|known| !known.ended && !known.marker.is_empty()) else {
            return Ok(());
        };
        let leftover = |source| CallError::Leftover { name: name.clone(), source };
        let here = ProcessIdentity::of_self().map_err(leftover)?;
        // Nothing survives a reboot.
        if known.bridge.as_ref().is_some_and(|bridge| bridge.boot_id != here.boot_id) {
            return Ok(());
        }
        let limit = Instant::now() + SWEEP;
        process::sweep(&known.marker, wait.deadline.map_or(limit, |deadline| deadline.min(limit)))
            .map(drop)
            .map_err(leftover)
    }

    /// C5: removes the socket of a bridge that is gone.
    pub(super) fn unlink_socket(&self, name: &SessionName) -> Result<(), CallError> {
        let socket = self.home.socket_file(name);
        match fs::remove_file(&socket) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(HomeError::io("remove", &socket, e).into()),
            _ => Ok(()),
        }
    }

    /// Something that changes whenever a bridge writes its state.
    fn progress(&self, name: &SessionName) -> Option<(u64, i64, i64)> {
        let meta = fs::metadata(self.home.state_file(name)).ok()?;
        Some((meta.ino(), meta.mtime(), meta.mtime_nsec()))
    }
}

/// Whether a session that crashed may be started again at `now`.
fn may_start(name: &SessionName, known: Option<&StateRecord>, now: u64) -> Result<(), CallError> {
    let Some((known, retry_at)) = known.and_then(|known| Some((known, known.retry_at?))) else {
        return Ok(());
    };
    let wait_ms = retry_at.saturating_sub(now);
    if wait_ms == 0 || u128::from(wait_ms) > LONGEST_BACK_OFF.as_millis() {
        return Ok(());
    }
    Err(CallError::BackingOff {
        name: name.clone(),
        wait_ms,
        retry_at,
        message: known.message.clone(),
        stderr: known.stderr.clone(),
    })
}

pub(super) fn cut_off(cut: Cut, during: String) -> CallError {
    match cut {
        Cut::Deadline => CallError::Deadline { during, ran: Ran::No },
        Cut::Interrupted => CallError::Interrupted { ran: Ran::No },
    }
}

/// A state record where a damaged one counts as none: for those who end a session.
pub(super) fn known_if_readable(
    sessions: &Sessions,
    name: &SessionName,
) -> Result<Option<StateRecord>, CallError> {
    match record::read_state(&sessions.home, name) {
        Err(RecordError::Malformed { .. }) => Ok(None),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off() {
        let name = SessionName::new("x").unwrap();
        let at =
            |retry_at| StateRecord { retry_at, message: Some("exit 3".into()), ..StateRecord::dormant() };
        assert!(may_start(&name, None, 10).is_ok());
        assert!(may_start(&name, Some(&at(None)), 10).is_ok());
        assert!(may_start(&name, Some(&at(Some(10))), 10).is_ok());
        assert!(may_start(&name, Some(&at(Some(9))), 10).is_ok());
        let error = may_start(&name, Some(&at(Some(1510))), 10).unwrap_err();
        assert_eq!((error.kind(), error.ran()), (crate::wire::Kind::BackingOff, Some(Ran::No)));
        let text = error.to_string();
        assert!(
            text.contains("2 s") && text.contains("drowse restart @x") && text.contains("exit 3"),
            "{text}"
        );
        // The clock was set back by a day.
        assert!(may_start(&name, Some(&at(Some(86_400_000))), 10).is_ok());
    }
}
