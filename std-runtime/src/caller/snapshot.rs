//! Asking a bridge whether what its server offers is saved.

use super::{CallError, Sessions};
use crate::home::SessionName;
use crate::wait::Wait;
use crate::wire::{METHOD_SNAPSHOT, SnapshotStatus};

impl Sessions {
    /// Waits until what a running server offers is in its session's snapshot, or until it is clear that it will not be;
    /// `None` if no bridge runs: then the file is as good as it gets. Starts nothing and counts as no use.
    ///
    /// # Errors
    /// If the wait ends first, or the bridge answers with an error.
    pub fn snapshot(&self, name: &SessionName, wait: Wait<'_>) -> Result<Option<SnapshotStatus>, CallError> {
        self.ask_bridge(name, METHOD_SNAPSHOT, wait)
    }
}
