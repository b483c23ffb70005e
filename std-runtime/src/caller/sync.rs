//! Files that are kept equal to resources: what the record wants, and telling the bridge.
//!
//! The record decides: a bridge that starts begins with what stands there. So it is written first, and taken back where
//! it turns out that it cannot be.

use std::path::PathBuf;

use serde_json::json;

use super::error::CallError;
use super::link::Greeting;
use super::{Caller, Request, STATUS_PATIENCE, Sessions};
use crate::home::SessionName;
use crate::record::{self, SessionRecord};
use crate::wait::Wait;
use crate::wire::{FileSync, METHOD_SYNC, METHOD_UNSYNC};

impl Sessions {
    /// Keeps a file equal to a resource from now on, waking the session if it sleeps. It is equal when this returns.
    ///
    /// # Errors
    /// If that does not work now; then it is not kept equal either.
    pub fn sync(&self, name: &SessionName, wanted: &FileSync, wait: Wait<'_>) -> Result<(), CallError> {
        let mut new = false;
        self.change_syncs(name, wait, |record| {
            new = !record.syncs.contains(wanted);
            if new {
                record.syncs.push(wanted.clone());
            }
            new
        })?;
        let params = json!({"uri": wanted.uri, "file": wanted.file}).to_string();
        let request = Request { method: METHOD_SYNC, params: &params, timeout: None, progress: None };
        let asked = Caller::new(self, name, wait).call(request);
        if asked.is_err() && new {
            // The time of the caller may be over; what is taken back is taken back all the same.
            let wait = Wait::at_most(STATUS_PATIENCE).uninterrupted();
            let _ = self.change_syncs(name, wait, |record| {
                let count = record.syncs.len();
                record.syncs.retain(|sync| sync != wanted);
                record.syncs.len() < count
            });
            let _ = self.tell(name, wanted, wait);
        }
        asked.map(drop)
    }

    /// Keeps no file equal to that resource any more; which ones it were.
    ///
    /// # Errors
    /// If there is no such session, or its record cannot be written.
    pub fn unsync(&self, name: &SessionName, uri: &str, wait: Wait<'_>) -> Result<Vec<PathBuf>, CallError> {
        let mut ended = Vec::new();
        self.change_syncs(name, wait, |record| {
            ended = record.syncs.extract_if(.., |sync| sync.uri == uri).map(|sync| sync.file).collect();
            !ended.is_empty()
        })?;
        self.tell(name, &FileSync { uri: uri.to_owned(), file: PathBuf::new() }, wait)?;
        Ok(ended)
    }

    /// Tells a bridge that runs, if one does, that a resource's files are not kept equal any more.
    fn tell(&self, name: &SessionName, ended: &FileSync, wait: Wait<'_>) -> Result<(), CallError> {
        let Greeting::Welcome(link) = self.greet(name, wait, STATUS_PATIENCE)? else { return Ok(()) };
        let mut params = json!({"uri": ended.uri});
        if !ended.file.as_os_str().is_empty() {
            params["file"] = json!(ended.file);
        }
        let params = params.to_string();
        let request = Request { method: METHOD_UNSYNC, params: &params, timeout: None, progress: None };
        match Caller::on(self, name, wait, link).call_here(request) {
            // It ends by itself; the next one finds the record.
            Err(CallError::BridgeLost { .. }) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Changes the record under its lock; `change` says whether it did.
    fn change_syncs(
        &self,
        name: &SessionName,
        wait: Wait<'_>,
        change: impl FnOnce(&mut SessionRecord) -> bool,
    ) -> Result<(), CallError> {
        if !self.home.check()? {
            return Err(self.no_session(name));
        }
        let read = || record::read_session(&self.home, name)?.ok_or_else(|| self.no_session(name));
        let settings = read()?.settings;
        let _lock = self.lock(name, &settings, wait)?;
        let mut record = read()?;
        if change(&mut record) {
            record::write_session(&self.home, name, &record)?;
        }
        Ok(())
    }
}
