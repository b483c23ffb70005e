//! How a caller meets a bridge: C1 and C3 to C6 of the wake protocol.
//!
//! Owns the order of connecting, locking, waiting and starting. Never sends an operation, so nothing here
//! can run one; and never ends anything because a caller's deadline passed.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use drowse_core::crash::CrashLog;
use drowse_core::time::Instant as CoreInstant;
use rustix::event::PollFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::Sessions;
use super::error::CallError;
use super::link::{Cut, Greeting, Link, Unanswered, greet};
use super::start::{Report, Started, bridge_config, start};
use crate::credential::{self, Credentials};
use crate::fault;
use crate::home::{HomeError, SessionName};
use crate::identity;
use crate::lock::{self, Attempt, Lock};
use crate::process::{self, ProcessIdentity};
use crate::record::aside;
use crate::record::{self, RecordError, SessionRecord, Settings, State, StateRecord, now_ms};
use crate::suggest::nearest;
use crate::wait::{Wait, Woken};
use crate::wire::{CallerHello, Envelope, Hello, Ran};

/// How long the answer to a hello may take before a caller goes on to look at the locks, still listening.
const PATIENCE: Duration = Duration::from_secs(1);
/// A longer request is not sent before the hello is answered: it may be more than the kernel takes at once, and one round
/// more is little beside it.
const MAX_ALONG: usize = 32 << 10;
/// What a bridge may take beyond its own limits before it counts as dead.
pub(super) const MARGIN: Duration = Duration::from_secs(10);
/// How often one operation may start a bridge that is gone again before it could be used.
pub(super) const MAX_STARTS: u32 = 3;
/// How long ending what a dead bridge left may take.
const SWEEP: Duration = Duration::from_secs(10);
/// How often a bridge that holds B is greeted again: the failure may have been our own.
const GREET_AGAIN: Duration = Duration::from_millis(100);
/// How soon B is tried again where the end of its holder cannot be watched, at first and at last.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

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

impl Present {
    /// What a greeting is to a caller that does not want to meet every bridge.
    fn admit(self, greeting: Greeting) -> Greeting {
        match greeting {
            Greeting::Welcome(link) if self == Self::UseOther(link.bridge()) => Greeting::Absent,
            greeting => greeting,
        }
    }
}

/// What becomes of a start if the address cannot be had at which the session is to be shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shared {
    /// It goes on: whoever wants something of the server can do without.
    IfPossible,
    /// It fails: whoever asks for it is told.
    Surely,
    /// That, too, and nothing but the address is wanted: no server is started.
    Only,
}

/// What was met.
pub(super) enum Met {
    /// A bridge that was there.
    Running(Link),
    /// A bridge that was started, ready.
    Started(Started),
    /// A bridge that was started, and gone before it was ready or said why not.
    Gone(CallError),
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

/// What every bridge understands, whatever the version of its hello.
const LEAVE: &[u8] = b"{\"drowse\":{\"leave\":{}}}\n";

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
    /// Meets the session's bridge, or starts one: C1, and where that fails C3 to C6. What is to be sent then goes `along`
    /// with the hello where it can; [`Link::take_ahead`] says how much of it.
    pub(super) fn reach(
        &self,
        name: &SessionName,
        wait: Wait<'_>,
        mut present: Present,
        along: &[u8],
    ) -> Result<Link, CallError> {
        if !self.home.check()? {
            return Err(self.no_session(name));
        }
        let mut gone = None;
        for _ in 0..MAX_STARTS {
            // A bridge that may not be used is not asked before it said who it is.
            let met = match present {
                Present::Use if along.len() <= MAX_ALONG => {
                    self.greet_with(name, Some(along), wait, PATIENCE)?
                }
                _ => self.look(name, present, wait)?,
            };
            if let Greeting::Welcome(link) = met {
                return Ok(link);
            }
            self.home.prepare()?;
            // Not made before the session is known to exist: locks are for ever.
            let settings = self.record(name)?.settings;
            let lock = self.lock(name, &settings, wait)?;
            // It may have been closed or changed while we waited.
            let record = self.record(name)?;
            match self.meet(name, lock, &record, present, Shared::IfPossible, wait) {
                Ok(Met::Running(link)) => return Ok(link),
                Ok(Met::Started(bridge)) => {
                    bridge.release();
                    present = Present::Use;
                }
                Ok(Met::Gone(error)) => {
                    gone = Some(error);
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
        Err(gone.unwrap_or_else(|| CallError::BridgeFailed {
            name: name.clone(),
            what: format!("it was started {MAX_STARTS} times and gone each time"),
            log: self.home.log_file(name),
        }))
    }

    /// C1, with a bridge that may be used only.
    fn look(&self, name: &SessionName, present: Present, wait: Wait<'_>) -> Result<Greeting, CallError> {
        if present == Present::Avoid {
            return Ok(Greeting::Absent);
        }
        Ok(present.admit(self.greet(name, wait, PATIENCE)?))
    }

    /// C1: connect, exchange the hello.
    pub(super) fn greet(
        &self,
        name: &SessionName,
        wait: Wait<'_>,
        patience: Duration,
    ) -> Result<Greeting, CallError> {
        self.greet_with(name, None, wait, patience)
    }

    fn greet_with(
        &self,
        name: &SessionName,
        along: Option<&[u8]>,
        wait: Wait<'_>,
        patience: Duration,
    ) -> Result<Greeting, CallError> {
        let socket = self.home.socket_file(name);
        let failed = |e: io::Error| HomeError::io("connect to", &socket, e);
        let line = self.hello().map_err(|e| failed(e.into()))?;
        let address = match self.home.socket(name) {
            Ok(address) => address,
            // The directory of a long path is not there, so neither is a socket.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Greeting::Absent),
            Err(e) => return Err(failed(e).into()),
        };
        match greet(&address, &line, along, wait, patience).map_err(failed)? {
            Ok(greeting) => Ok(greeting),
            Err(cut) => Err(cut_off(cut, format!("waiting for the bridge of {name} to answer"))),
        }
    }

    /// The first line that a bridge is told.
    pub(super) fn hello(&self) -> Result<Vec<u8>, serde_json::Error> {
        let hello = Hello::ours(self.principal.clone(), self.verbatim);
        let mut line = serde_json::to_vec(&Envelope { drowse: CallerHello { hello } })?;
        line.push(b'\n');
        Ok(line)
    }

    /// C3: lock L. A bridge that inherited it and gets nowhere within its limits is ended. Whoever else holds it is
    /// waited for, but nobody for ever: no work that is done under L takes longer than those limits.
    pub(super) fn lock(
        &self,
        name: &SessionName,
        settings: &Settings,
        wait: Wait<'_>,
    ) -> Result<Lock, CallError> {
        let path = self.home.start_lock(name);
        let mut contended = match Lock::attempt(&path)? {
            Attempt::Held(lock) => {
                fault::point("C3");
                return Ok(lock);
            }
            Attempt::Contended(contended) => contended,
        };
        let patience = patience_with_a_starter(settings);
        let mut holder = lock::noted(&path);
        let mut limit = Instant::now() + patience;
        let mut holders = None;
        loop {
            let limited = wait.no_later_than(limit);
            let woken = limited
                .poll(&[(contended.as_fd(), PollFlags::IN)])
                .map_err(|e| HomeError::io("wait for", &path, e))?;
            match woken {
                Woken::Ready => {}
                Woken::Interrupted => return Err(CallError::Interrupted { ran: Ran::No }),
                Woken::Deadline if wait.is_over() => {
                    let during = format!("waiting for another drowse that is starting or ending {name}");
                    return Err(CallError::Deadline { during, ran: Ran::No });
                }
                Woken::Deadline => {
                    let now = lock::noted(&path);
                    if let Some(bridge) = now.as_ref().filter(|_| now == holder)
                        && bridge.is_alive()
                        && lock::is_open_in(&path, bridge.pid) == Some(true)
                    {
                        // Fails only where it may not be signalled: then the wait goes on.
                        let _ = bridge.end(ending(settings));
                    } else {
                        let current = (now.clone(), lock::holders(&path));
                        if holders.as_ref() == Some(&current) {
                            return Err(self.held_by_another(name, path));
                        }
                        holders = Some(current);
                    }
                    holder = now;
                    limit = Instant::now() + patience;
                }
            }
            contended = match contended.take()? {
                Attempt::Held(lock) => {
                    fault::point("C3");
                    return Ok(lock);
                }
                Attempt::Contended(contended) => contended,
            };
        }
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

    /// C3 (the second half) to C6: the bridge that is there, or a new one that is ready. L is held until that
    /// one is started, and longer only where the caller has a share of its own.
    pub(super) fn meet(
        &self,
        name: &SessionName,
        lock: Lock,
        record: &SessionRecord,
        present: Present,
        shared: Shared,
        wait: Wait<'_>,
    ) -> Result<Met, NotMet> {
        let patience = patience(&record.settings);
        let mut greeting = self.look(name, present, wait)?;
        let mut seen = self.progress(name);
        let mut left = false;
        // C4.
        loop {
            let unanswered = match greeting {
                Greeting::Welcome(link) => return Ok(Met::Running(link)),
                // Of another version. It finishes what it has, and goes; if it does not know how, so be it.
                Greeting::Refused(refused) if left => {
                    let reason = refused.reason;
                    return Err(CallError::OtherVersion { name: name.clone(), reason }.into());
                }
                Greeting::Refused(_) => {
                    self.ask_to_leave(name)?;
                    left = true;
                    None
                }
                Greeting::Silent(unanswered) => Some(unanswered),
                Greeting::Absent => None,
            };
            // Who is leaving has nothing more to say.
            let present = if left { Present::Avoid } else { present };
            greeting = match self.wait_for_end(name, unanswered, present, Instant::now() + patience, wait)? {
                Holder::Gone => break,
                Holder::Greets(greeting) => greeting,
                Holder::Stalled => {
                    let now = self.progress(name);
                    let stuck = now == seen;
                    seen = now;
                    // One that was asked to leave and still answers is busy, or does not know how to.
                    let greeting = if left {
                        self.greet(name, wait, PATIENCE)?
                    } else {
                        self.look(name, present, wait)?
                    };
                    if stuck && matches!(greeting, Greeting::Silent(_) | Greeting::Absent) {
                        self.end_bridge_process(name, &record.settings)?;
                    }
                    greeting
                }
            };
        }
        // While nothing was touched yet: what is wrong with the user's defaults is to be mended first.
        let record = &*self.with_defaults(name, record)?;
        // C5.
        let known = self.known_or_rebuilt(name)?;
        fault::point("C5");
        self.sweep(name, known.as_ref(), wait)?;
        fault::point("C5-swept");
        self.unlink_socket(name)?;
        if shared != Shared::Only {
            may_start(name, &record.settings, known.as_ref(), now_ms())?;
        }
        // C6.
        let credentials = credential::read(&self.home, name)?.unwrap_or_default();
        self.identify(name, record, &credentials);
        let mut config =
            bridge_config(&self.home, name, record, &credentials, known.as_ref()).map_err(CallError::from)?;
        if let Some(sharing) = &mut config.share {
            sharing.required = shared != Shared::IfPossible;
        }
        // Files that are kept equal to resources want the server.
        config.listen = shared == Shared::Only && config.share.is_some() && config.syncs.is_empty();
        let limit = Instant::now() + patience_with_a_starter(&record.settings);
        match start(self.launcher.as_ref(), &self.home, name, config, lock, limit, wait)? {
            Report::Ready(bridge) => Ok(Met::Started(bridge)),
            Report::Gone(error) => Ok(Met::Gone(error)),
            Report::Failed { error, bridge } | Report::Cut { error, bridge } => {
                Err(NotMet { error, bridge: Some(Box::new(bridge)) })
            }
        }
    }

    /// A record that was written before there were identities, or by hand, gets the one that its bridge will have.
    fn identify(&self, name: &SessionName, record: &SessionRecord, credentials: &Credentials) {
        let identity = identity::of(record, credentials);
        if record.identity != identity
            // Not what somebody else changed since.
            && record::read_session(&self.home, name).is_ok_and(|now| now.as_ref() == Some(record))
        {
            // Without it only what is known of a sleeping server is not used.
            let _ = record::write_session(&self.home, name, &SessionRecord { identity, ..record.clone() });
        }
    }

    /// Asks a bridge of another version to finish what it has in flight, and to go.
    fn ask_to_leave(&self, name: &SessionName) -> Result<(), CallError> {
        use std::io::Write as _;
        let socket = self.home.socket_file(name);
        let failed = |e: io::Error| HomeError::io("connect to", &socket, e);
        let address = self.home.socket(name).map_err(failed)?;
        // One that is gone by now has left.
        if let Ok(mut stream) = std::os::unix::net::UnixStream::connect(address.as_path()) {
            let _ = stream.write_all(LEAVE);
        }
        Ok(())
    }

    /// C4: waits until B is free, listening for a late hello and greeting again at the same time.
    ///
    /// B is tried, and never waited for in the kernel: a wait that was given up could still take it for a
    /// moment, when the next bridge wants it. Nobody but us tries it meanwhile, since we hold L.
    fn wait_for_end(
        &self,
        name: &SessionName,
        mut unanswered: Option<Unanswered>,
        present: Present,
        limit: Instant,
        wait: Wait<'_>,
    ) -> Result<Holder, CallError> {
        let path = self.home.bridge_lock(name);
        let mut watched = None;
        let mut looked = false;
        let mut pause = TRY_AGAIN.0;
        let mut greet_at = Instant::now() + GREET_AGAIN;
        loop {
            if Lock::try_acquire(&path)?.is_some() {
                return Ok(Holder::Gone);
            }
            // Its end frees the lock, so that is what to wait for, where it is known who it is.
            if !std::mem::replace(&mut looked, true) {
                fault::point("C4");
                watched = self.bridge_process(name).and_then(|bridge| watch(&bridge));
            }
            let step = if watched.is_some() { GREET_AGAIN } else { pause };
            pause = (pause * 2).min(TRY_AGAIN.1);
            let now = Instant::now();
            let limited = wait.no_later_than(limit.min(now + step));
            let mut interest: Vec<_> = Vec::with_capacity(2);
            interest.extend(watched.iter().map(|process| (process.as_fd(), PollFlags::IN)));
            interest.extend(unanswered.iter().map(|unanswered| (unanswered.as_fd(), PollFlags::IN)));
            match limited.poll(&interest).map_err(|e| HomeError::io("wait for", &path, e))? {
                Woken::Interrupted => return Err(CallError::Interrupted { ran: Ran::No }),
                Woken::Deadline if wait.is_over() => {
                    let during = format!("waiting for the last bridge of {name} to end");
                    return Err(CallError::Deadline { during, ran: Ran::No });
                }
                Woken::Deadline if Instant::now() >= limit => return Ok(Holder::Stalled),
                Woken::Deadline => {}
                // Over, and if B is still held it was not this one.
                Woken::Ready if watched.as_ref().is_some_and(has_ended) => watched = None,
                Woken::Ready => {}
            }
            unanswered = match unanswered.map(|unanswered| present.admit(unanswered.advance())) {
                Some(Greeting::Silent(unanswered)) => Some(unanswered),
                None | Some(Greeting::Absent) if present == Present::Avoid || Instant::now() < greet_at => {
                    None
                }
                None | Some(Greeting::Absent) => {
                    greet_at = Instant::now() + GREET_AGAIN;
                    match present.admit(self.greet(name, wait, Duration::ZERO)?) {
                        Greeting::Silent(unanswered) => Some(unanswered),
                        Greeting::Absent => None,
                        greeting => return Ok(Holder::Greets(greeting)),
                    }
                }
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
        Ok(matches!(self.wait_for_end(name, None, Present::Avoid, limit, wait)?, Holder::Gone))
    }

    /// Ends a bridge that does not answer: TERM, then KILL. It is told from any other process by what was
    /// written down of it and by the lock that it holds, never by its number alone.
    pub(super) fn end_bridge_process(
        &self,
        name: &SessionName,
        settings: &Settings,
    ) -> Result<(), CallError> {
        let ended = self.bridge_process(name).is_some_and(|bridge| bridge.end(ending(settings)).is_ok());
        if ended || self.bridge_ends(name, Instant::now(), Wait::default())? {
            return Ok(());
        }
        Err(self.held_by_another(name, self.home.bridge_lock(name)))
    }

    /// The error that a lock is held by somebody who is not ours to end.
    fn held_by_another(&self, name: &SessionName, path: PathBuf) -> CallError {
        let here = ProcessIdentity::of_self().ok();
        let recorded = known_if_readable(self, name).ok().flatten().and_then(|known| known.bridge);
        let started = lock::noted(&self.home.start_lock(name));
        let elsewhere = [recorded, started].into_iter().flatten().find(|bridge| {
            here.as_ref().is_some_and(|here| here.boot_id == bridge.boot_id && here.pid_ns != bridge.pid_ns)
        });
        match elsewhere {
            Some(bridge) => CallError::Elsewhere { name: name.clone(), pid: bridge.pid, path },
            None => CallError::Wedged { path },
        }
    }

    /// The process that holds B, if it is one that we know to be a bridge of this session: the one that wrote
    /// `state.json`, or the one that was started last and has not come so far.
    pub(super) fn bridge_process(&self, name: &SessionName) -> Option<ProcessIdentity> {
        let path = self.home.bridge_lock(name);
        let recorded = known_if_readable(self, name).ok().flatten().and_then(|known| known.bridge);
        let started = lock::noted(&self.home.start_lock(name));
        [recorded, started]
            .into_iter()
            .flatten()
            .find(|bridge| bridge.is_alive() && lock::is_open_in(&path, bridge.pid) != Some(false))
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
            // What somebody put there is kept, and in nobody's way.
            Err(e) if e.kind() == io::ErrorKind::IsADirectory => {
                let aside = aside::set_aside(&socket);
                aside.map(drop).map_err(|e| HomeError::io("set aside", &socket, e).into())
            }
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

/// Whether a session may be started again at `now`, in milliseconds since 1970: not where it crashed a moment ago,
/// and not where only a user's own word helps.
fn may_start(
    name: &SessionName,
    settings: &Settings,
    known: Option<&StateRecord>,
    now: u64,
) -> Result<(), CallError> {
    let Some(known) = known else { return Ok(()) };
    match known.state {
        State::Unauthorized => {
            return Err(CallError::Unauthorized { name: name.clone(), message: known.message.clone() });
        }
        State::Expired if settings.fails_on_expiry() => {
            return Err(CallError::Expired { name: name.clone() });
        }
        _ => {}
    }
    let crashes = CrashLog::from_times(known.crashes.iter().map(|ms| CoreInstant::from_millis(*ms)));
    let Some(retry_at) = crashes.retry_at().filter(|_| !crashes.admits(CoreInstant::from_millis(now))) else {
        return Ok(());
    };
    Err(CallError::BackingOff {
        name: name.clone(),
        wait_ms: retry_at.as_millis().saturating_sub(now),
        retry_at: retry_at.as_millis(),
        message: known.message.clone(),
        stderr: known.stderr.clone(),
    })
}

/// A descriptor that becomes readable when this very process has ended.
fn watch(process: &ProcessIdentity) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(process.pid).ok()?)?;
    let descriptor = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // Whose it is can be asked only once it is open.
    process.is_alive().then_some(descriptor)
}

fn has_ended(process: &OwnedFd) -> bool {
    let now = Wait { deadline: Some(Instant::now()), interrupt: None };
    matches!(now.poll(&[(process.as_fd(), PollFlags::IN)]), Ok(Woken::Ready))
}

/// How long a bridge may get nowhere before it counts as wedged: the time to start a server, and to stop one.
pub(super) fn patience(settings: &Settings) -> Duration {
    settings.connect_timeout().saturating_add(settings.stop_limit())
}

/// The same for a bridge that reports to its starter, which it does within those limits: so a little longer.
fn patience_with_a_starter(settings: &Settings) -> Duration {
    let patience = patience(settings);
    patience.saturating_add(patience.min(MARGIN))
}

/// How long a bridge may take to end after TERM: it ends its server first, which may take both graces.
pub(super) fn ending(settings: &Settings) -> Duration {
    settings.stop_limit().saturating_add(Duration::from_secs(1))
}

pub(super) fn cut_off(cut: Cut, during: String) -> CallError {
    match cut {
        Cut::Deadline => CallError::Deadline { during, ran: Ran::No },
        Cut::Interrupted => CallError::Interrupted { ran: Ran::No },
        Cut::Late { interrupted: false } => CallError::Deadline { during, ran: Ran::Unknown },
        Cut::Late { interrupted: true } => CallError::Interrupted { ran: Ran::Unknown },
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
    use crate::record::OnExpiry;

    #[test]
    fn back_off() {
        let name = SessionName::new("x").unwrap();
        let now = 1_800_000_000_000;
        let may = |crashes: Vec<u64>, now| {
            let known = StateRecord { crashes, message: Some("exit 3".into()), ..StateRecord::dormant() };
            may_start(&name, &Settings::default(), Some(&known), now)
        };
        assert!(may_start(&name, &Settings::default(), None, now).is_ok());
        assert!(may(vec![], now).is_ok());
        assert!(may(vec![now], now).is_ok());
        assert!(may(vec![now - 1, now], now).is_err());
        assert!(may(vec![now - 1, now], now + 10_000).is_ok());
        let error = may(vec![now - 4, now - 3, now - 2, now - 1, now], now + 1).unwrap_err();
        assert_eq!((error.kind(), error.ran()), (crate::wire::Kind::BackingOff, Some(Ran::No)));
        let text = error.to_string();
        assert!(
            text.contains("30 s") && text.contains("drowse restart @x") && text.contains("exit 3"),
            "{text}"
        );
        // The clock was set back by a day.
        assert!(may(vec![now - 1, now], now - 86_400_000).is_ok());
    }

    #[test]
    fn what_only_a_user_can_mend_is_not_started() {
        let name = SessionName::new("x").unwrap();
        let may = |state, on_expiry| {
            let known = StateRecord { state, message: Some("HTTP 401".into()), ..StateRecord::dormant() };
            let settings = Settings { on_expiry, ..Settings::default() };
            may_start(&name, &settings, Some(&known), 0)
                .map_err(|error| (error.exit() as u8, error.to_string()))
        };
        let (exit, text) = may(State::Unauthorized, None).unwrap_err();
        assert_eq!(exit, 4);
        assert!(text.contains("HTTP 401") && text.contains("drowse restart @x"), "{text}");
        let untold = CallError::Unauthorized { name: name.clone(), message: None }.to_string();
        assert!(untold.contains("-H 'Name: value'"), "{untold}");
        assert!(may(State::Expired, None).is_ok() && may(State::Expired, Some(OnExpiry::Fresh)).is_ok());
        let (exit, text) = may(State::Expired, Some(OnExpiry::Fail)).unwrap_err();
        assert_eq!(exit, 2);
        assert!(text.contains("restart @x"), "{text}");
    }
}
