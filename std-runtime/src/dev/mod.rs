//! The dev proxy: one process that serves a client, owns the server behind it, and outlives each of its builds.
//!
//! [`run`] is the whole program: a [`Hub`] with a host of its own, the standard streams as its one connection, and an
//! end that takes the server's whole tree along. It keeps no session and writes no records.

mod host;
mod log;
mod stream;

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::rc::Rc;

use drowse_core::activity::Asker;
use drowse_core::capabilities::ClientCapabilities;
use drowse_core::lifecycle;
use drowse_core::link::Allowance;
use drowse_core::server;
use drowse_core::snapshot;
use drowse_core::time::Duration;
use rustix::io::fcntl_dupfd_cloexec;
use tokio::signal::unix::{SignalKind, signal};

use crate::bridge::{Hub, HubConfig, stdio};
use crate::process;
use crate::sys::suspension::Suspension;
use crate::wire::MAX_MESSAGE;

use host::DevHost;
use log::Log;
use stream::Watched;

/// How many requests may be under way at once; more wait on their connection.
const SLOTS: usize = 256;
/// How long a server has to end after its input was closed, and again after TERM. A client that ends its server gives
/// that two seconds for each, and drowse has to be done by then.
const GRACE: Duration = Duration::from_secs(1);
/// How long the client may take to read what was said last.
const GOODBYE: Duration = Duration::from_secs(1);

/// What is served, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server's program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// The environment that it has in any case.
    pub environment: Vec<(String, String)>,
    /// What is added to that, until a restart says otherwise.
    pub env: Vec<(String, String)>,
    /// What a request may take without an answer or progress.
    pub timeout: Duration,
}

/// Why the proxy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The client closed the connection.
    ByClient,
    /// It was told to, by this signal.
    BySignal(i32),
}

/// Serves the client on the standard streams, until that goes or a signal comes; then nothing of the server is left.
///
/// To be called on the main thread: the server is killed when that ends.
///
/// # Errors
/// If the process cannot be made fit to own a server.
pub fn run(options: Options) -> io::Result<Ended> {
    process::become_subreaper()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, serve(options))
}

async fn serve(options: Options) -> io::Result<Ended> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let log = Log::new(stderr()?);
    let config = hub_config(&options);
    let hub = Hub::new(config, Box::new(DevHost::new(options, Rc::clone(&log))));
    hub.stand_by();

    let (reader, over) = Watched::new(stdio::reader(fcntl_dupfd_cloexec(io::stdin().as_fd(), 3)?)?);
    let writer = stdio::writer(fcntl_dupfd_cloexec(io::stdout().as_fd(), 3)?)?;
    let client = hub.clone();
    tokio::task::spawn_local(async move { client.serve_client(reader, writer, Asker::DevProxy).await });

    let mut suspension = Suspension::watch();
    let mut ended = None;
    loop {
        // A second word is impatience.
        let mut end = |how: Ended| match ended {
            None => {
                ended = Some(how);
                hub.close();
            }
            Some(_) if how != Ended::ByClient => hub.kill(),
            Some(_) => {}
        };
        tokio::select! {
            biased;
            () = hub.retired() => break,
            () = over.notified() => end(Ended::ByClient),
            _ = terminate.recv() => end(Ended::BySignal(libc::SIGTERM)),
            _ = interrupt.recv() => end(Ended::BySignal(libc::SIGINT)),
            _ = hangup.recv() => end(Ended::BySignal(libc::SIGHUP)),
            length = suspension.ended() => hub.suspended(length),
        }
    }
    let _ = tokio::time::timeout(GOODBYE, hub.flushed()).await;
    let _ = tokio::time::timeout(GOODBYE, log.flushed()).await;
    Ok(ended.unwrap_or(Ended::ByClient))
}

fn stderr() -> io::Result<std::os::fd::OwnedFd> {
    Ok(fcntl_dupfd_cloexec(io::stderr().as_fd(), 3)?)
}

fn hub_config(options: &Options) -> HubConfig {
    HubConfig {
        server: server::Config {
            lifecycle: lifecycle::Config {
                input_grace: GRACE,
                terminate_grace: GRACE,
                resident: true,
                ..lifecycle::Config::default()
            },
            allowance: Allowance {
                quiet: options.timeout,
                total: server::Config::default().allowance.total.max(options.timeout),
            },
            snapshot: Some(snapshot::Limits::default()),
            ..server::Config::default()
        },
        slots: SLOTS,
        limit: MAX_MESSAGE,
        generation: 0,
        crashes: Vec::new(),
        revision: None,
        syncs: Vec::new(),
        // Fixed before the client says what it can do; drowse declines for one that cannot.
        capabilities: ClientCapabilities { form: true, url: true, ..ClientCapabilities::default() },
        roots: Vec::new(),
        expired: false,
        identity: "dev".to_owned(),
        log_level: None,
        now_micros: crate::record::now_ms().saturating_mul(1000),
    }
}
