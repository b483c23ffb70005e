//! Starting a bridge (C6): its configuration, its process, and its report.
//!
//! Owns the hand-over of lock L and of the one document that a bridge reads. Never waits for the bridge's
//! end; a bridge outlives whoever started it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, PipeReader, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::error::CallError;
use super::listing;
use crate::config::ConfigError;
use crate::credential::Credentials;
use crate::expand::{ExpandError, expand};
use crate::fault;
use crate::home::{Home, HomeError, SessionName};
use crate::identity;
use crate::lock::Lock;
use crate::process::ProcessIdentity;
use crate::record::{SessionRecord, State, StateRecord};
use crate::regular;
use crate::remote::{complete_url, header_value};
use crate::share::{self, Sharing};
use crate::sys::pidfd::PidFd;
use crate::wait::{Wait, Woken};
use crate::wire::{BridgeConfig, BridgeSettings, Ran, Remote, StartReport};

/// The hidden command that a bridge runs as.
pub const BRIDGE_COMMAND: &str = "bridge-serve";

/// How long a process may take from closing its report to its end.
const ENDING: Duration = Duration::from_secs(1);

/// No report is longer.
const MAX_REPORT: usize = 1 << 20;

/// How a bridge process comes to be. Replaced in tests.
pub trait Launch: fmt::Debug + Send + Sync {
    /// Starts a bridge that reads `config`, inherits `lock` and reports on the pipe that is answered. Fills
    /// in the number that the lock has in the bridge.
    ///
    /// # Errors
    /// If the process cannot be started.
    fn launch(&self, config: &mut BridgeConfig, lock: &Lock, log: &Path) -> io::Result<Launched>;
}

/// A bridge that was started, and has not reported yet.
#[derive(Debug)]
pub struct Launched {
    /// Where it reports.
    pub report: PipeReader,
    /// Its process, if it is a child of ours.
    pub child: Option<Child>,
}

/// Starts bridges as another process of a program.
#[derive(Debug, Clone)]
pub struct BridgeProgram {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// Starts bridges as another process of this very program, with [`BRIDGE_COMMAND`].
#[derive(Debug, Clone, Copy)]
pub struct OurProgram;

impl Launch for OurProgram {
    fn launch(&self, config: &mut BridgeConfig, lock: &Lock, log: &Path) -> io::Result<Launched> {
        let program = std::env::current_exe()?;
        // Replaced on disk while we run: the kernel still has the one that we are.
        let program = if program.exists() { program } else { PathBuf::from("/proc/self/exe") };
        BridgeProgram { program, args: vec![BRIDGE_COMMAND.into()] }.launch(config, lock, log)
    }
}

impl Launch for BridgeProgram {
    fn launch(&self, config: &mut BridgeConfig, lock: &Lock, log: &Path) -> io::Result<Launched> {
        let (report, their_report) = io::pipe()?;
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdout(their_report);
        // Also where it is started from within a server that is being written, it is not one of that server's processes.
        command.env_remove(crate::dev::record::VARIABLE);
        // Its last words, should it panic before it has a log of its own.
        let log = regular::open_with(File::options().append(true).create(true).mode(0o600), log);
        command.stderr(log.map_or_else(|_| Stdio::null(), Stdio::from));
        config.lock_fd = lock.hand_down(&mut command);
        command.stdin(document(config)?);
        let child = command.spawn()?;
        Ok(Launched { report, child: Some(child) })
    }
}

/// The configuration as a file without a name: written before the bridge starts, so that neither waits for
/// the other however long it is, and read by it alone.
fn document(config: &BridgeConfig) -> io::Result<File> {
    let memory = rustix::fs::memfd_create("drowse-bridge", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(memory);
    file.write_all(&serde_json::to_vec(config)?)?;
    file.rewind()?;
    Ok(file)
}

/// A bridge that reported that it is ready.
#[derive(Debug)]
pub(super) struct Started {
    child: Option<Child>,
}

impl Started {
    /// Lets the bridge live. A long-lived caller must still collect it when it ends.
    pub(super) fn release(self) {
        reap_later(self.child);
    }

    /// Whether the bridge's process still runs.
    pub(super) fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Ends the bridge's process at once. It is our own child, so its number is not another's.
    pub(super) fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Started {
    /// How it ended, for people. Its report ends a moment before the process does.
    fn ending(&mut self) -> String {
        let status = self.child.as_mut().and_then(|child| {
            let process = PidFd::open(child.id()).ok()?;
            process.wait(Instant::now() + ENDING).ok()?;
            child.try_wait().ok()?
        });
        status.map_or_else(|| "it ended".to_owned(), |status| format!("it ended with {status}"))
    }
}

/// What became of a start.
pub(super) enum Report {
    /// It serves.
    Ready(Started),
    /// It said that it failed, or did not say anything for too long and was ended.
    Failed { error: CallError, bridge: Started },
    /// It ended without a word. Nothing ran, and another one may do better.
    Gone(CallError),
    /// The caller would not wait longer. The bridge goes on.
    Cut { error: CallError, bridge: Started },
}

/// Starts a bridge and waits for its report. From the start on its own copy of L does the work, so that a
/// starter that is stopped is in nobody's way. `limit` is when a bridge that reports nothing counts as wedged,
/// and is ended: it is our own child.
pub(super) fn start(
    launcher: &dyn Launch,
    home: &Home,
    name: &SessionName,
    mut config: BridgeConfig,
    lock: Lock,
    limit: Instant,
    wait: Wait<'_>,
) -> Result<Report, CallError> {
    let log = home.log_file(name);
    let failed = |what: String| CallError::BridgeFailed { name: name.clone(), what, log: log.clone() };
    let Launched { mut report, child } =
        launcher.launch(&mut config, &lock, &log).map_err(|e| match e.kind() {
            // Its configuration counts as a file.
            io::ErrorKind::FileTooLarge => HomeError::io("write", &home.session(name), e).into(),
            _ => failed(e.to_string()),
        })?;
    fault::point("C6");
    // For those who wait for L. It says nothing where it fails: they wait a little longer then.
    let identity = child.as_ref().and_then(|child| ProcessIdentity::of(child.id()).ok());
    let _ = identity.map(|identity| lock.note(&identity));
    fault::point("C6-noted");
    drop(lock);
    let mut bridge = Started { child };
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let limited = wait.no_later_than(limit);
        match limited.poll(&[(report.as_fd(), PollFlags::IN)]).map_err(|e| failed(e.to_string()))? {
            Woken::Ready => {}
            Woken::Interrupted => {
                return Ok(Report::Cut { error: CallError::Interrupted { ran: Ran::No }, bridge });
            }
            Woken::Deadline if wait.is_over() => {
                let during = format!("waiting for {name} to start");
                return Ok(Report::Cut { error: CallError::Deadline { during, ran: Ran::No }, bridge });
            }
            Woken::Deadline => {
                bridge.kill();
                let error = failed("it reported nothing".to_owned());
                return Ok(Report::Failed { error, bridge });
            }
        }
        let read = report.read(&mut chunk).map_err(|e| failed(e.to_string()))?;
        text.extend_from_slice(chunk.get(..read).unwrap_or_default());
        let line = text.iter().position(|b| *b == b'\n').and_then(|end| text.get(..end));
        if let Some(line) = line {
            return Ok(match serde_json::from_slice(line) {
                Ok(StartReport::Ready(_)) => Report::Ready(bridge),
                Ok(StartReport::Failed(report)) => {
                    Report::Failed { error: CallError::StartFailed { name: name.clone(), report }, bridge }
                }
                Err(_) => Report::Failed { error: failed("its report makes no sense".to_owned()), bridge },
            });
        }
        if read == 0 || text.len() > MAX_REPORT {
            let error = failed(bridge.ending());
            bridge.release();
            return Ok(Report::Gone(error));
        }
    }
}

/// Collects a child when it ends, so that a long-lived caller gathers no zombies.
pub(super) fn reap_later(child: Option<Child>) {
    if let Some(mut child) = child {
        let wait = move || {
            let _ = child.wait();
        };
        // Without the thread it is a zombie until we end: no reason to fail.
        let _ = std::thread::Builder::new().name("reaper".to_owned()).stack_size(64 << 10).spawn(wait);
    }
}

/// What a bridge is told: the record with its `${VAR}` expanded and its values filled in.
pub(super) fn bridge_config(
    home: &Home,
    name: &SessionName,
    record: &SessionRecord,
    credentials: &Credentials,
    known: Option<&StateRecord>,
) -> Result<BridgeConfig, ConfigError> {
    let expanded = |place: &str, text: &str| {
        expand(text, &mut |variable| credentials.variable(variable).map(str::to_owned))
            .map_err(|source| ConfigError::Expand { place: format!("{name}, {place}"), source })
    };
    // Nothing of a command line is expanded: the shell has done that.
    let templates = record.is_template();
    let text = |place: &str, text: &str| if templates { expanded(place, text) } else { Ok(text.to_owned()) };
    let remote = match &record.url {
        Some(url) => Some(remote(name, record, credentials, &text("url", url)?, &expanded)?),
        None => None,
    };
    let mut cwd = PathBuf::from(&record.cwd);
    let mut command = String::new();
    let mut args = Vec::with_capacity(record.args.len());
    if remote.is_none() {
        cwd = PathBuf::from(text("cwd", &record.cwd)?);
        command = text("command", &record.command)?;
        if command.contains('/') {
            command = cwd.join(command).to_string_lossy().into_owned();
        }
        for (i, arg) in record.args.iter().enumerate() {
            args.push(text(&format!("args[{i}]"), arg)?);
        }
    }
    let mut env: BTreeMap<String, String> = credentials.ambient.clone();
    for (variable, template) in &record.env {
        let value = match template {
            Some(template) => expanded(&format!("env.{variable}"), template)?,
            None => credentials.entry.get(variable).cloned().ok_or_else(|| ConfigError::Expand {
                place: format!("{name}, env.{variable}"),
                source: ExpandError::Unset { name: variable.clone() },
            })?,
        };
        env.insert(variable.clone(), value);
    }
    env.extend(credentials.pins.clone());
    let settings = &record.settings;
    let kept = BridgeSettings::of(settings);
    // A server behind a URL goes on without a bridge, and says itself what it does not know any more.
    let ended = remote.is_none() && known.is_some_and(was_ended);
    Ok(BridgeConfig {
        session: name.as_str().to_owned(),
        home: home.root().to_owned(),
        runtime: home.runtime().map(Path::to_owned),
        command,
        args,
        cwd,
        env: env.into_iter().collect(),
        idle_timeout_secs: kept.idle_timeout_secs,
        timeout_ms: kept.timeout_ms,
        max_timeout_ms: kept.max_timeout_ms,
        connect_timeout_ms: kept.connect_timeout_ms,
        stop_grace_ms: kept.stop_grace_ms,
        keepalive_secs: kept.keepalive_secs,
        auto_restart: kept.auto_restart,
        fail_on_expiry: kept.fail_on_expiry,
        remote,
        mcp_version: settings.mcp_version.clone(),
        roots: settings.roots.clone().unwrap_or_default(),
        log_level: settings.log_level.clone(),
        sampling: settings.sampling_command.as_ref().is_some_and(|command| !command.is_empty()),
        lock_fd: -1,
        generation: known.map_or(0, |known| known.generation),
        era: known.and_then(|known| known.era.clone()),
        crashes: known.map(|known| known.crashes.clone()).unwrap_or_default(),
        syncs: record.syncs.clone(),
        share: record.share.clone().map(|share| Sharing {
            token: credentials.share_token.clone(),
            last: known.and_then(|known| known.shared_at.as_deref()).and_then(share::port_of),
            required: false,
            share,
        }),
        listen: false,
        identity: identity::of(record, credentials),
        expired: known.is_some_and(|known| known.state == State::Expired),
        ended,
    })
}

/// Whether a server ended by itself, or with its bridge, and nobody was told so far that what it kept is gone.
fn was_ended(known: &StateRecord) -> bool {
    let ran = matches!(known.state, State::Live | State::Suspended | State::Disconnected);
    let here = ProcessIdentity::of_self().ok();
    (known.lost || ran) && listing::seen(known, false, here.as_ref()) == State::Crashed
}

/// What a bridge is told of a server behind a URL. What was expanded is checked again: a variable may have got
/// another value since.
fn remote(
    name: &SessionName,
    record: &SessionRecord,
    credentials: &Credentials,
    url: &str,
    expanded: &dyn Fn(&str, &str) -> Result<String, ConfigError>,
) -> Result<Remote, ConfigError> {
    let place = |member: &str| format!("{name}, {member}");
    let url = complete_url(url).map_err(|source| ConfigError::Url { place: place("url"), source })?;
    let mut headers = Vec::new();
    for (header, template) in &record.headers {
        if credentials.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(header)) {
            continue;
        }
        let member = format!("headers.{header}");
        let value = match template {
            Some(template) => expanded(&member, template)?,
            None => credentials.entry_headers.get(header).cloned().ok_or_else(|| ConfigError::Expand {
                place: place(&member),
                source: ExpandError::Unset { name: header.clone() },
            })?,
        };
        let value = header_value(header, &value)
            .map_err(|source| ConfigError::Header { place: place(&member), source })?;
        headers.push((header.clone(), value.to_owned()));
    }
    headers.extend(credentials.headers.iter().cloned());
    Ok(Remote {
        url,
        headers,
        insecure: record.settings.insecure.unwrap_or(false),
        cacert: record.settings.cacert.clone(),
        proxy: record.settings.proxy.clone(),
    })
}
