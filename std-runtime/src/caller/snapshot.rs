//! Asking a bridge whether what its server offers is saved.

use std::time::Duration;

use super::{CallError, Caller, Request, Sessions};
use crate::caller::link::Greeting;
use crate::home::SessionName;
use crate::wait::Wait;
use crate::wire::{METHOD_SNAPSHOT, SnapshotStatus};

/// How long a bridge may take to answer the hello.
const PATIENCE: Duration = Duration::from_secs(1);

impl Sessions {
    /// Waits until what a running server offers is in its session's snapshot, or until it is clear that it will not be;
    /// `None` if no bridge runs: then the file is as good as it gets. Starts nothing and counts as no use.
    ///
    /// # Errors
    /// If the wait ends first, or the bridge answers with an error.
    pub fn snapshot(&self, name: &SessionName, wait: Wait<'_>) -> Result<Option<SnapshotStatus>, CallError> {
        let Greeting::Welcome(link) = self.greet(name, wait, PATIENCE)? else { return Ok(None) };
        let request = Request { method: METHOD_SNAPSHOT, params: "", timeout: None, progress: None };
        match Caller::on(self, name, wait, link).call_here(request) {
            Ok(reply) => match serde_json::from_slice(reply.as_bytes()) {
                Ok(status) => Ok(Some(status)),
                Err(e) => Err(CallError::BridgeLost { name: name.clone(), what: e.to_string() }),
            },
            // It fell asleep at this very moment.
            Err(CallError::BridgeLost { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
