//! `close` and `clean`: ending sessions.
//!
//! Owns that nothing of a session's server is left when its end is reported, and that no file of it is left
//! when it is forgotten. Ends bridges on a user's order only.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use super::error::CallError;
use super::link::Greeting;
use super::wake::ending;
use super::{Caller, Cleaned, Request, Sessions};
use crate::dev;
use crate::home::{HomeError, SessionName};
use crate::lock::{self, Lock};
use crate::record::{self, RecordError, SessionRecord, Settings, State};
use crate::wait::Wait;
use crate::wire::METHOD_CLOSE;

/// What a bridge may take to end beyond the graces of its server.
const ENDING: Duration = Duration::from_secs(5);

/// What is left of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its records.
    Kept,
    /// Nothing.
    Removed,
}

impl Sessions {
    /// Ends a session: its server's whole tree is gone, and the session forgotten, when this returns.
    ///
    /// # Errors
    /// If there is no such session, or it could not be ended before the deadline.
    pub fn close(&self, name: &SessionName, wait: Wait<'_>) -> Result<(), CallError> {
        if !self.home.check()? {
            return Err(self.no_session(name));
        }
        let settings = self.settings_to_close(name)?;
        self.home.prepare()?;
        let _lock = self.lock(name, &settings, wait)?;
        let settings = self.settings_to_close(name)?;
        self.end_with(name, &settings, Ending::Removed, wait)
    }

    /// Removes what crashed, expired or was orphaned, never a sleeping session; with `all`, everything. Ends what killed
    /// dev proxies left.
    ///
    /// # Errors
    /// If the home cannot be read.
    pub fn clean(&self, all: bool, wait: Wait<'_>) -> Result<Cleaned, CallError> {
        let mut cleaned = Cleaned::default();
        if !self.home.check()? {
            return Ok(cleaned);
        }
        self.home.prepare()?;
        for left in dev::record::left(&self.home) {
            match left.end_gently() {
                Ok(ended) => cleaned.ended += ended,
                Err(error) => cleaned.not_ended.push(error.to_string()),
            }
        }
        for name in record::names(&self.home)? {
            if !self.is_to_go(&name, all) {
                continue;
            }
            match self.clean_one(&name, all, wait) {
                Ok(true) => cleaned.removed.push(name),
                Ok(false) => {}
                Err(error @ CallError::Interrupted { .. }) => return Err(error),
                Err(error) => cleaned.failed.push((name, error)),
            }
        }
        Ok(cleaned)
    }

    /// Ends and removes everything of a home that nobody is to use any more. Unlike [`Sessions::clean`], it does not
    /// wait for a server that is only just being started: it ends that start.
    ///
    /// # Errors
    /// If the home cannot be read.
    pub fn abandon(&self, wait: Wait<'_>) -> Result<Cleaned, CallError> {
        if self.home.check()? {
            for name in record::names(&self.home)? {
                let path = self.home.start_lock(&name);
                let Some(bridge) = lock::noted(&path) else { continue };
                if bridge.is_alive() && lock::is_open_in(&path, bridge.pid) == Some(true) {
                    let settings = self.settings_to_close(&name).unwrap_or_default();
                    // Where that fails, its end is waited for after all.
                    let _ = bridge.end(ending(&settings));
                }
            }
        }
        self.clean(true, wait)
    }

    fn clean_one(&self, name: &SessionName, all: bool, wait: Wait<'_>) -> Result<bool, CallError> {
        let lock = if all {
            Some(self.lock(name, &self.settings_to_close(name).unwrap_or_default(), wait)?)
        } else {
            // Somebody is starting or closing it right now: then it is not left over.
            Lock::try_acquire(&self.home.start_lock(name))?
        };
        if lock.is_none() || !self.is_to_go(name, all) {
            return Ok(false);
        }
        // Its bridge may be about to end, or about to serve a call that reached it in time: what counts is what it is
        // afterwards.
        if !all
            && !self.get(name).is_ok_and(|listed| listed.listener.is_some() && listed.bridge_pid.is_none())
        {
            self.bridge_ends(name, Instant::now() + ENDING, wait)?;
            if !self.is_to_go(name, all) {
                return Ok(false);
            }
        }
        let settings = self.settings_to_close(name).unwrap_or_default();
        self.end_with(name, &settings, Ending::Removed, wait)?;
        Ok(true)
    }

    fn is_to_go(&self, name: &SessionName, all: bool) -> bool {
        // A directory without a session in it: not one that cannot be looked into.
        if matches!(self.home.session_file(name).try_exists(), Ok(false)) {
            return self.home.session(name).exists();
        }
        all || matches!(self.get(name), Ok(listed) if matches!(listed.state, State::Crashed | State::Expired))
    }

    /// A session's settings, as far as they can be read: a damaged record must not keep one from closing it.
    fn settings_to_close(&self, name: &SessionName) -> Result<Settings, CallError> {
        match record::read_session(&self.home, name) {
            Ok(Some(record)) => Ok(record.settings),
            Ok(None) => Err(self.no_session(name)),
            Err(RecordError::Malformed { .. } | RecordError::Newer { .. }) => Ok(Settings::default()),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends whatever runs of a session, with L held.
    pub(super) fn end(
        &self,
        name: &SessionName,
        record: &SessionRecord,
        ending: Ending,
        wait: Wait<'_>,
    ) -> Result<(), CallError> {
        self.end_with(name, &record.settings, ending, wait)
    }

    fn end_with(
        &self,
        name: &SessionName,
        settings: &Settings,
        ending: Ending,
        wait: Wait<'_>,
    ) -> Result<(), CallError> {
        let patience = settings.stop_limit() + ENDING;
        let limit = Instant::now() + patience;
        let mut ask = true;
        match self.greet(name, wait, patience)? {
            Greeting::Welcome(link) => {
                let mut caller = Caller::on(self, name, wait.no_later_than(limit), link);
                let close = Request { method: METHOD_CLOSE, params: "", timeout: None, progress: None };
                match caller.call_here(close) {
                    Err(error @ CallError::Interrupted { .. }) => return Err(error),
                    // Whatever it answers, and if it goes without an answer: what counts is that it ends.
                    _ if wait.is_over() => return Err(closing_took_too_long(name)),
                    _ => {}
                }
            }
            Greeting::Refused(_) => ask = false,
            Greeting::Silent(_) | Greeting::Absent => {}
        }
        if !ask || !self.bridge_ends(name, limit, wait)? {
            self.end_bridge_process(name, settings)?;
        }
        let known = self.known_or_reaped(name)?;
        self.sweep(name, known.as_ref(), wait)?;
        self.unlink_socket(name)?;
        match ending {
            Ending::Kept => Ok(()),
            Ending::Removed => self.remove(name),
        }
    }

    /// Forgets a session: first the file by which it exists, then all others. Locks stay.
    pub(super) fn remove(&self, name: &SessionName) -> Result<(), CallError> {
        let directory = self.home.session(name);
        let gone = |e: io::Error, path| match e.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(HomeError::io("remove", path, e)),
        };
        let record = self.home.session_file(name);
        // Whatever stands in its place.
        let removed = if fs::symlink_metadata(&record).is_ok_and(|meta| meta.is_dir()) {
            fs::remove_dir_all(&record)
        } else {
            fs::remove_file(&record)
        };
        removed.or_else(|e| gone(e, &record))?;
        fs::remove_dir_all(&directory).or_else(|e| gone(e, &directory))?;
        Ok(())
    }
}

fn closing_took_too_long(name: &SessionName) -> CallError {
    CallError::Deadline { during: format!("waiting for {name} to end"), ran: crate::wire::Ran::Unknown }
}
