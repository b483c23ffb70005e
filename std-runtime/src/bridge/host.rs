//! The surroundings of a real bridge: processes, the state record, the session's log, the pipe to the starter.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::rc::Rc;
use std::time::Duration;

use drowse_core::lifecycle::Exit;

use crate::fault;
use crate::home::{Home, SessionName};
use crate::life::{self, Line};
use crate::log::SessionLog;
use crate::process::{self, Launch, ProcessIdentity, Tree, TreeControl};
use crate::record::{self, EraMemory, SCHEMA, State, StateRecord};
use crate::share::Sharing;
use crate::snapshot::{self, Snapshot};
use crate::sys;
use crate::wire::{BridgeConfig, Failed, Kind, Ready, Remote, StartReport};

use super::backend::{Backend, Control, Facts, Host, LocalFuture, Moment, Process, StartFailure};
use super::client::HttpClient;
use super::front::Front;
use super::roomy::Roomy;

pub(super) struct BridgeHost {
    home: Home,
    name: SessionName,
    launch: Launch,
    /// The server's address, if it is one behind a URL.
    remote: Option<Remote>,
    connect: Duration,
    /// The generation that `launch.marker` belongs to.
    generation: u64,
    identity: ProcessIdentity,
    log: Option<SessionLog>,
    /// The state that was written last, and since when it is so: a state that is written again lasts.
    last: Option<(State, u64)>,
    life: life::Writer,
    /// The beginning of a line of stderr whose end has not come.
    partial: Vec<u8>,
    /// Where the session is shared, or why it is not though it is to be.
    shared: Option<Result<String, String>>,
    front: Rc<Front>,
    /// Where the starter waits.
    ready: Option<File>,
    /// The starter's lock, ours too until the server is ready.
    lock: Option<OwnedFd>,
}

impl BridgeHost {
    pub(super) fn new(
        config: &BridgeConfig,
        home: Home,
        name: SessionName,
        identity: ProcessIdentity,
        log: Option<SessionLog>,
        ready: File,
        lock: OwnedFd,
    ) -> Self {
        let mut env = config.env.clone();
        env.push((process::SESSION_VARIABLE.to_owned(), home.session(&name).to_string_lossy().into_owned()));
        Self {
            life: life::Writer::new(&home, &name),
            home,
            name,
            launch: Launch {
                command: config.command.clone(),
                args: config.args.clone(),
                cwd: config.cwd.clone(),
                env,
                marker: String::new(),
            },
            remote: config.remote.clone(),
            connect: Duration::from_millis(config.connect_timeout_ms),
            generation: config.generation,
            identity,
            log,
            last: None,
            partial: Vec::new(),
            shared: None,
            front: Rc::default(),
            ready: Some(ready),
            lock: Some(lock),
        }
    }

    /// It is shared at that URL; or it is to be, and why it is not.
    pub(super) fn sharing(mut self, shared: Option<Result<String, String>>, front: Rc<Front>) -> Self {
        if let Some(Err(why)) = &shared
            && let Some(log) = &mut self.log
        {
            let _ = log.drowse(why);
        }
        self.shared = shared;
        self.front = front;
        self
    }

    /// Writes down where the session is shared, and no more than that: nothing else has changed.
    pub(super) fn write_sharing(&mut self) {
        let known = record::read_state(&self.home, &self.name).ok().flatten();
        let mut known = known.unwrap_or_else(StateRecord::dormant);
        if self.last.is_none() && (known.state.is_awake() || !known.ended) {
            // Of the last bridge, which was killed, and whatever it left was ended before we were started.
            (known.state, known.ended, known.server_pid) = (known.state.bereft(false), true, None);
        }
        known.bridge = Some(self.identity.clone());
        known.shared_at = self.shared.as_ref().and_then(|shared| shared.as_ref().ok().cloned());
        known.not_shared = self.shared.as_ref().and_then(|shared| shared.as_ref().err().cloned());
        if let Err(error) = record::write_state(&self.home, &self.name, &known) {
            self.note(&format!("where the session is shared could not be written: {error}"));
        }
    }

    fn report(&mut self, report: &StartReport) {
        if let (Some(mut ready), Ok(mut line)) = (self.ready.take(), serde_json::to_vec(report)) {
            line.push(b'\n');
            // A starter that is gone does not need the answer.
            let _ = ready.write_all(&line);
        }
    }

    /// Tells the starter why there is no bridge.
    pub(super) fn fail(ready: File, kind: Kind, message: String) {
        let report = StartReport::Failed(Failed { kind, message, stderr: None });
        if let Ok(mut line) = serde_json::to_vec(&report) {
            line.push(b'\n');
            let _ = (&ready).write_all(&line);
        }
    }
}

impl Host for BridgeHost {
    fn persist(&mut self, facts: &Facts) -> io::Result<()> {
        let state = match facts.record.state {
            // A bridge that was told to stop leaves a session that sleeps; whoever forgets a session removes its
            // records himself.
            State::Closed => State::Idle,
            other => other,
        };
        if facts.record.generation != self.generation {
            // A generation keeps its marker for as long as anything of it may live.
            self.generation = facts.record.generation;
            self.launch.marker = process::new_marker();
        }
        let since = match self.last {
            Some((last, since)) if last == state => since,
            _ => record::now_ms(),
        };
        let record = StateRecord {
            schema: SCHEMA,
            generation: facts.record.generation,
            marker: self.launch.marker.clone(),
            state,
            since,
            bridge: Some(self.identity.clone()),
            server_pid: facts.server_pid,
            ended: facts.record.ended,
            era: facts.revision.map(|revision| EraMemory {
                era: revision.era().name().to_owned(),
                protocol_version: revision.name().to_owned(),
            }),
            crashes: facts.crashes.iter().map(|at| time_of_day(*at, facts.now, since)).collect(),
            retry_at: facts.retry_at.map(|at| time_of_day(at, facts.now, since)),
            message: facts.message.clone(),
            stderr: facts.stderr.clone(),
            lost: facts.lost,
            shared_at: self.shared.as_ref().and_then(|shared| shared.as_ref().ok().cloned()),
            not_shared: self.shared.as_ref().and_then(|shared| shared.as_ref().err().cloned()),
        };
        let write = if state.is_awake() { record::write_state } else { record::write_last_state };
        write(&self.home, &self.name, &record).map_err(io::Error::other)?;
        self.last = Some((state, since));
        if state == State::Idle {
            fault::point(if record.ended { "D1-gone" } else { "D1" });
        }
        Ok(())
    }

    fn lived(&mut self, moment: &Moment) -> io::Result<()> {
        let told = moment.state == State::Closed;
        let line = Line {
            at: moment.at_ms.unwrap_or_else(record::now_ms),
            state: Some(if told { State::Idle } else { moment.state }),
            generation: Some(moment.generation),
            told,
            memory: moment.memory,
            why: moment.why.clone(),
            ..Line::default()
        };
        self.life.write(line.with_counts(&moment.counts, &moment.latency))
    }

    fn spawn(&mut self, _generation: u64) -> Result<Backend, String> {
        fault::point("B3");
        if let Some(remote) = &self.remote {
            let client = HttpClient::new(remote, &self.launch.env, self.connect)?;
            return Ok(Backend::Remote(Rc::new(client)));
        }
        let tree = process::launch(&self.launch).map_err(|error| error.to_string())?;
        fault::point("B4");
        Ok(Backend::Process(Process::of(tree)))
    }

    fn share(&mut self, wanted: Option<&Sharing>) -> Result<Option<String>, String> {
        let url = self.front.share(wanted)?;
        self.shared = url.clone().map(Ok);
        self.write_sharing();
        Ok(url)
    }

    fn server_errors(&mut self, bytes: &[u8]) {
        let Some(log) = &mut self.log else { return };
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(part);
            // A line without end is cut: it must not gather in memory.
            if part.ends_with(b"\n") || self.partial.len() > 16 << 10 {
                let line = self.partial.strip_suffix(b"\n").unwrap_or(&self.partial);
                // A full disk costs the log, not the session.
                let _ = log.server(line);
                self.partial.clear();
            }
        }
    }

    fn note(&mut self, text: &str) {
        if let Some(log) = &mut self.log {
            let _ = log.drowse(text);
        }
    }

    fn server_log(&mut self, text: &str) {
        if let Some(log) = &mut self.log {
            let _ = log.server(text.as_bytes());
        }
    }

    fn save(&mut self, document: &[u8]) -> io::Result<()> {
        snapshot::write_bytes(&self.home, &self.name, document).map_err(io::Error::other)
    }

    fn saved(&mut self) -> Option<Snapshot> {
        // Whatever is wrong with it: the next one takes its place.
        snapshot::read(&self.home, &self.name).ok().flatten()
    }

    fn quiet(&mut self) {
        sys::pages::release_heap();
        sys::pages::release_program();
    }

    fn started(&mut self, outcome: Result<(), &StartFailure>) {
        match outcome {
            Ok(()) => {
                let pid = std::process::id();
                fault::point("B5");
                // First the lock, then the word: whoever reads it may take the lock at once.
                self.lock = None;
                self.report(&StartReport::Ready(Ready { pid }));
                fault::point("B5-said");
            }
            Err(failure) => {
                self.report(&StartReport::Failed(Failed {
                    kind: failure.kind,
                    message: failure.message.clone(),
                    stderr: failure.stderr.clone(),
                }));
            }
        }
    }
}

/// When `at` is by a clock that says `now` where ours says `ours`: whoever reads a record knows only the time of day,
/// which may have been set since the bridge was started, and goes on while the machine is suspended.
const fn time_of_day(at: u64, ours: u64, now: u64) -> u64 {
    if at >= ours { now.saturating_add(at - ours) } else { now.saturating_sub(ours - at) }
}

impl Process {
    /// A tree of ours.
    pub(crate) fn of(tree: Tree) -> Self {
        Self {
            input: Box::new(Roomy::new(tree.stdin)),
            output: Box::new(Roomy::new(tree.stdout)),
            errors: Some(Box::new(tree.stderr)),
            control: Rc::new(Processes(tree.control)),
        }
    }
}

struct Processes(TreeControl);

impl Control for Processes {
    fn pid(&self) -> Option<u32> {
        Some(self.0.pid())
    }

    fn exited(&self) -> LocalFuture<'_, Exit> {
        Box::pin(async {
            let status = self.0.exited().await;
            match (status.code(), status.signal()) {
                (Some(code), _) => Exit::Status(code),
                (None, Some(signal)) => Exit::Signal(signal),
                (None, None) => Exit::Status(-1),
            }
        })
    }

    fn terminate(&self) {
        self.0.terminate();
        fault::point("D1-term");
    }

    fn kill(&self) {
        self.0.kill();
        fault::point("D1-kill");
    }

    fn gone(&self) -> LocalFuture<'_, ()> {
        Box::pin(self.0.gone())
    }

    fn memory(&self) -> Option<u64> {
        // Nothing else is below a bridge.
        process::memory_below(std::process::id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_clock_has_them_now() {
        let hour = 3_600_000;
        let ours = 100 * hour;
        // The clock was not touched, is ahead by an hour, was set back by two, or to 1970.
        for (now, shift) in [(ours, 0), (101 * hour, 1), (98 * hour, -2)] {
            let expected = |at: u64| at.checked_add_signed(shift * 3_600_000).unwrap();
            for at in [ours - 5000, ours, ours + 30_000] {
                assert_eq!(time_of_day(at, ours, now), expected(at));
            }
        }
        assert_eq!(time_of_day(ours - 5000, ours, 0), 0);
        assert_eq!(time_of_day(ours + 30_000, ours, 0), 30_000);
        assert_eq!(time_of_day(u64::MAX, 0, 5), u64::MAX);
    }
}
