//! What keeps a server awake, for people: phrases that can stand after "kept awake by".
//!
//! Only says it; what defers, and that it does, is the core's.

use super::*;

impl Inner {
    /// Why there is no idle deadline though there is an idle period; nothing if there is no reason.
    pub(super) fn deferred_by(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        match self.server.lifecycle().in_flight() {
            0 => {}
            1 => reasons.push("an operation in flight".to_owned()),
            many => reasons.push(format!("{many} operations in flight")),
        }
        if self.server.relay().defers() {
            for uri in self.listeners.wanted(&self.server) {
                let files: Vec<_> = self.syncs.files_of(uri).collect();
                // Each file has a listener of its own.
                if self.listeners.count_of(uri, &self.server) > files.len() || files.is_empty() {
                    reasons.push(format!("a subscription to {uri}"));
                }
                reasons.extend(files.iter().map(|file| format!("the copy of {uri} in {}", file.display())));
            }
        }
        match self.stateful.len() {
            0 => {}
            1 => reasons.push("an open session of a client on its port".to_owned()),
            many => reasons.push(format!("{many} open sessions of clients on its port")),
        }
        reasons.extend(self.tasks.pending().map(|id| format!("the task {id}")));
        reasons
    }
}
