//! The dev proxy: one process that serves a client, owns the server behind it, and outlives each of its builds.
//!
//! [`run`] is the whole program: a [`Hub`] with a host of its own, the standard streams as its one connection, and an
//! end that takes the server's whole tree along. It keeps no session; that it is there is written down, for those who
//! have to end what it leaves should it be killed.

mod changes;
mod files;
mod host;
mod log;
mod port;
pub(crate) mod record;
mod stream;
mod watch;
mod workshop;

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

use drowse_core::activity::Asker;
use drowse_core::capabilities::ClientCapabilities;
use drowse_core::dev;
use drowse_core::era::Pin;
use drowse_core::lifecycle;
use drowse_core::link::Allowance;
use drowse_core::negotiate::Limits;
use drowse_core::server;
use drowse_core::snapshot;
use drowse_core::time::Duration;
use rustix::io::fcntl_dupfd_cloexec;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::bridge::{DevConfig, Hub, HubConfig, stdio};
use crate::home::Home;
use crate::process;
use crate::serve;
use crate::sys::one_thread;
use crate::sys::suspension::Suspension;
use crate::wire::MAX_MESSAGE;

use changes::Changes;
use host::DevHost;
use log::Log;
pub use record::count as left_behind;
use stream::Watched;
use watch::Watch;
use workshop::{Shared, Shop};

/// How many requests may be under way at once; more wait on their connection.
const SLOTS: usize = 320;
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
    /// Where it is written down that the proxy runs; `None`: nowhere.
    pub home: Option<Home>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// The environment that it has in any case.
    pub environment: Vec<(String, String)>,
    /// What is added to that, until a restart says otherwise.
    pub env: Vec<(String, String)>,
    /// The shell command that builds the server.
    pub build: Option<String>,
    /// How long that may take.
    pub build_limit: Duration,
    /// The files after whose change the server is built and restarted, as patterns.
    pub watch: Vec<String>,
    /// How long a restart waits for what is under way.
    pub drain: Duration,
    /// How long a request waits for a server that is not ready.
    pub discovery_wait: Duration,
    /// Calls that may run twice, by the annotations of their tools, are put again where a restart ended them.
    pub replay_safe: bool,
    /// What is known of the server's revision.
    pub pin: Pin,
    /// The roots that a legacy server is told of, URIs.
    pub roots: Vec<String>,
    /// A legacy server is told that it may ask for sampling.
    pub sampling: bool,
    /// What a request may take without an answer or progress.
    pub timeout: Duration,
    /// Where the server serves, if it does so over HTTP and not on its standard streams.
    pub backend_url: Option<String>,
    /// Clients come over HTTP, and not on the standard streams.
    pub http: Option<Http>,
}

/// Where clients come over HTTP.
#[derive(Debug, Clone)]
pub struct Http {
    /// The address to listen at; port 0 is any that is free.
    pub address: SocketAddr,
    /// How it is served.
    pub options: serve::Options,
}

/// Why the proxy could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum DevError {
    /// Something that was asked for cannot be done; what to do is said.
    #[error("{0}")]
    Usage(String),
    /// The system refused.
    #[error("the proxy cannot be set up: {0}")]
    Io(#[from] io::Error),
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
/// To be called on the main thread: the server is killed when that ends. Over HTTP, `listening` is told where.
///
/// # Errors
/// If the process cannot be made fit to own a server.
pub fn run(options: Options, listening: impl FnOnce(SocketAddr) + 'static) -> Result<Ended, DevError> {
    process::become_subreaper()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    one_thread::block_on(&runtime, serve_all(options, listening))
}

async fn serve_all(options: Options, listening: impl FnOnce(SocketAddr)) -> Result<Ended, DevError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let log = Log::new(another(io::stderr())?);
    let mut watch = match options.watch.as_slice() {
        [] => None,
        patterns => Some(Watch::new(&options.cwd, patterns).map_err(DevError::Usage)?),
    };
    if let Some(url) = &options.backend_url {
        port::check(url).map_err(DevError::Usage)?;
    }
    let (config, dev) = (hub_config(&options), dev_config(&options));
    let shared = Rc::new(RefCell::new(Shared::new(&options)));
    let host = DevHost::new(Rc::clone(&shared), Rc::clone(&log));
    let changes = watch.as_ref().map(|watch| Changes::new(watch.touched()));
    let shop = Shop::new(Rc::clone(&shared), Rc::clone(&log), changes);
    let http = options.http;
    let hub = Hub::in_the_making(config, dev, Box::new(host), Box::new(shop));
    hub.stand_by();

    let (over, delivery) = match http {
        None => {
            let (over, delivery) = serve_streams(&hub)?;
            (over, Some(delivery))
        }
        Some(Http { address, options }) => {
            let listener = TcpListener::bind(address)
                .await
                .map_err(|error| DevError::Usage(format!("--http {address}: {error}")))?;
            options.check().map_err(|error| DevError::Usage(error.to_string()))?;
            listening(listener.local_addr()?);
            let hub = hub.clone();
            tokio::task::spawn_local(async move { serve::http(&hub, listener, options).await });
            (Rc::new(Notify::new()), None)
        }
    };

    let mut suspension = Suspension::watch();
    let mut ended = None;
    loop {
        // A second signal is impatience. One that comes with the end of the input is not: clients do both at once.
        let mut end = |how: Ended| match (ended, how) {
            (None, _) => {
                ended = Some(how);
                hub.close();
            }
            (Some(Ended::ByClient), Ended::BySignal(_)) => ended = Some(how),
            (Some(Ended::BySignal(_)), Ended::BySignal(_)) => hub.kill(),
            (Some(_), Ended::ByClient) => {}
        };
        tokio::select! {
            biased;
            () = hub.retired() => break,
            () = over.notified() => end(Ended::ByClient),
            _ = terminate.recv() => end(Ended::BySignal(libc::SIGTERM)),
            _ = interrupt.recv() => end(Ended::BySignal(libc::SIGINT)),
            _ = hangup.recv() => end(Ended::BySignal(libc::SIGHUP)),
            length = suspension.ended() => hub.suspended(length),
            () = changed(&mut watch) => hub.files_changed(),
        }
    }
    let finished = shared.borrow().finished();
    finished.await;
    shared.borrow_mut().record.remove();
    let last = async {
        hub.flushed().await;
        if let Some(delivery) = delivery {
            delivery.done().await;
        }
    };
    let _ = tokio::time::timeout(GOODBYE, last).await;
    let _ = tokio::time::timeout(GOODBYE, log.flushed()).await;
    Ok(ended.unwrap_or(Ended::ByClient))
}

/// Serves the client on the standard streams. What is given is told when that is over, and knows what has arrived.
fn serve_streams(hub: &Hub) -> io::Result<(Rc<Notify>, stdio::Delivery)> {
    let (reader, over) = Watched::new(stdio::reader(another(io::stdin())?)?);
    let (writer, delivery) = stdio::writer(another(io::stdout())?)?;
    let hub = hub.clone();
    tokio::task::spawn_local(async move { hub.serve_client(reader, writer, Asker::DevProxy).await });
    Ok((over, delivery))
}

async fn changed(watch: &mut Option<Watch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

fn dev_config(options: &Options) -> DevConfig {
    DevConfig {
        machine: dev::Config {
            builds: options.build.is_some(),
            drain: options.drain,
            build_limit: options.build_limit,
            ..dev::Config::default()
        },
        discovery_wait: options.discovery_wait,
        replay_safe: options.replay_safe,
    }
}

fn another(stream: impl AsFd) -> io::Result<OwnedFd> {
    Ok(fcntl_dupfd_cloexec(stream, 3)?)
}

fn hub_config(options: &Options) -> HubConfig {
    HubConfig {
        server: server::Config {
            pin: options.pin,
            lifecycle: lifecycle::Config {
                input_grace: GRACE,
                terminate_grace: GRACE,
                resident: true,
                in_the_making: true,
                ..lifecycle::Config::default()
            },
            allowance: Allowance {
                quiet: options.timeout,
                total: server::Config::default().allowance.total.max(options.timeout),
            },
            snapshot: Some(snapshot::Limits::default()),
            transport: match options.backend_url {
                Some(_) => server::Transport::Http,
                None => server::Transport::Stream,
            },
            limits: Limits {
                // Over HTTP silence says nothing of the era.
                hedge: Limits::default().hedge.filter(|_| options.backend_url.is_none()),
                ..Limits::default()
            },
            ..server::Config::default()
        },
        slots: SLOTS,
        limit: MAX_MESSAGE,
        generation: 0,
        crashes: Vec::new(),
        revision: None,
        syncs: Vec::new(),
        // Fixed before the client says what it can do; drowse declines for one that cannot.
        capabilities: ClientCapabilities {
            form: true,
            url: true,
            sampling: options.sampling,
            sampling_tools: options.sampling,
            roots: !options.roots.is_empty(),
            ..ClientCapabilities::default()
        },
        roots: options.roots.clone(),
        lost: None,
        identity: "dev".to_owned(),
        log_level: None,
        now_micros: crate::record::now_ms().saturating_mul(1000),
    }
}
