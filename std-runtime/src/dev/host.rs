//! The surroundings of the dev proxy's server: its processes, and the log. Nothing is written down.

use std::io;
use std::rc::Rc;

use crate::bridge::{Backend, Facts, Host, Process, StartFailure};
use crate::process::{self, Launch};
use crate::snapshot::Snapshot;

use super::Options;
use super::log::Log;

pub(super) struct DevHost {
    launch: Launch,
    log: Rc<Log>,
    /// What the server offered when it was last asked, for the time when it does not run.
    snapshot: Option<Vec<u8>>,
}

impl DevHost {
    pub(super) fn new(options: Options, log: Rc<Log>) -> Self {
        let Options { command, args, cwd, mut environment, env, .. } = options;
        log.redact(&env);
        environment.extend(env);
        let launch = Launch { command, args, cwd, env: environment, marker: String::new() };
        Self { launch, log, snapshot: None }
    }
}

impl Host for DevHost {
    fn persist(&mut self, _facts: &Facts) -> io::Result<()> {
        Ok(())
    }

    fn spawn(&mut self, _generation: u64) -> Result<Backend, String> {
        self.launch.marker = process::new_marker();
        let tree = process::launch(&self.launch).map_err(|error| error.to_string())?;
        Ok(Backend::Process(Process::of(tree)))
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
}
