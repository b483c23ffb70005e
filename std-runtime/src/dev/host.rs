//! The surroundings of the dev proxy's server: its processes, and the log. No more is written down than
//! that there are any.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use crate::bridge::{Backend, Facts, Host, Process, StartFailure};
use crate::process::{self, Launch};
use crate::snapshot::Snapshot;
use crate::sys;

use super::log::Log;
use super::port;
use super::workshop::Shared;

pub(super) struct DevHost {
    shared: Rc<RefCell<Shared>>,
    log: Rc<Log>,
    /// What the server offered when it was last asked, for the time when it does not run.
    snapshot: Option<Vec<u8>>,
}

impl DevHost {
    pub(super) fn new(shared: Rc<RefCell<Shared>>, log: Rc<Log>) -> Self {
        Self { shared, log, snapshot: None }
    }
}

impl Host for DevHost {
    fn persist(&mut self, _facts: &Facts) -> io::Result<()> {
        Ok(())
    }

    fn spawn(&mut self, _generation: u64) -> Result<Backend, String> {
        self.log.server_gone();
        let mut shared = self.shared.borrow_mut();
        shared.record.prepare(&self.log);
        shared.note_what_it_is_made_of();
        let client = shared.url.as_deref().map(port::reserve).transpose()?;
        let launch = Launch {
            command: shared.command.first().cloned().unwrap_or_default(),
            args: shared.command.get(1..).unwrap_or_default().to_vec(),
            cwd: shared.cwd.clone(),
            env: shared
                .environment
                .iter()
                .chain(&shared.env)
                .cloned()
                .chain([shared.record.variable()])
                .collect(),
            marker: process::new_marker(),
        };
        let tree = process::launch(&launch).map_err(|error| error.to_string())?;
        let process = Process::of(tree);
        Ok(match client {
            Some(client) => Backend::Served(process, client),
            None => Backend::Process(process),
        })
    }

    fn server_errors(&mut self, bytes: &[u8]) {
        self.log.server(bytes);
    }

    fn note(&mut self, text: &str) {
        self.log.note(text);
    }

    fn server_log(&mut self, text: &str) {
        self.log.message(text);
    }

    fn save(&mut self, document: &[u8]) -> io::Result<()> {
        self.snapshot = Some(document.to_vec());
        Ok(())
    }

    fn saved(&mut self) -> Option<Snapshot> {
        self.snapshot.as_deref().and_then(Snapshot::from_bytes)
    }

    fn started(&mut self, _outcome: Result<(), &StartFailure>) {}

    fn quiet(&mut self) {
        sys::pages::release_heap();
        sys::pages::release_program();
    }
}
