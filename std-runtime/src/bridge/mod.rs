//! The bridge: the process that owns a session's server while it is awake, and serves it on a Unix socket.
//!
//! [`serve`] is the whole program: it reads its configuration from its standard input, takes the session's lock,
//! listens, runs the [`Hub`] until that is retired, and leaves nothing behind. The steps are those of
//! docs/wake-protocol.md (B1 to B5, D1 to D3); the decisions are the core's.

mod backend;
mod client;
mod explain;
mod front;
mod host;
mod hub;
mod intake;
mod mouth;
mod outlet;
mod roomy;
mod settings;
pub mod stdio;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

use drowse_core::capabilities::ClientCapabilities;
use drowse_core::era::{Pin, Revision};
use drowse_core::lifecycle::Lost;
use drowse_core::logging::Level;
use drowse_core::negotiate::Limits;
use drowse_core::server;
use drowse_core::snapshot;
use drowse_core::time::Duration;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::fault;
use crate::home::{Home, HomeError, SessionName};
use crate::lock::Lock;
use crate::log::{self, SessionLog};
use crate::process::{self, ProcessIdentity};
use crate::share::{Sharing, Taken};
use crate::sys::one_thread;
use crate::sys::suspension::Suspension;
use crate::wait::Wait;
use crate::wire::{BridgeConfig, Kind, MAX_MESSAGE};

pub use backend::{
    Backend, Body, Client, Control, Facts, Failed, Host, LocalFuture, Moment, Process, Response, StartFailure,
};
pub(crate) use explain::CODE as FAILED;
pub use hub::{DevConfig, Hub, HubConfig, Workshop};
pub(crate) use hub::{Guest, Offered};
pub(crate) use mouth::{About, Sink};

use front::{Front, Served};
use host::BridgeHost;

/// A client for a server on this machine, which needs no proxies and no credentials.
pub(crate) fn local_client(url: &str) -> Result<Rc<dyn Client>, String> {
    let remote = crate::wire::Remote {
        url: url.to_owned(),
        headers: Vec::new(),
        insecure: false,
        cacert: None,
        proxy: None,
    };
    let client = client::HttpClient::new(&remote, &[], Duration::from_secs(5))?;
    Ok(Rc::new(client))
}

/// How many requests may be under way at once: 256 of one client, as a fifth is for others. More wait on their connections.
const SLOTS: usize = 320;
/// How long connections may take to read the goodbye.
const GOODBYE: Duration = Duration::from_secs(2);

/// Runs the bridge. Its standard input holds one [`BridgeConfig`], its standard output is where the starter waits for
/// one line, a [`crate::wire::StartReport`].
///
/// To be called on the main thread, before anything was opened: inherited descriptors are closed.
#[must_use]
pub fn serve() -> ExitCode {
    // Who starts a bridge may end with its terminal; the bridge does not.
    let _ = rustix::process::setsid();
    // A limit on the size of files costs the log, or a start, but not the session.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let mut text = Vec::new();
    let config = io::stdin()
        .lock()
        .read_to_end(&mut text)
        .and_then(|_| serde_json::from_slice::<BridgeConfig>(&text).map_err(io::Error::other));
    let Ok(ready) = rustix::io::fcntl_dupfd_cloexec(io::stdout().as_fd(), 3).map(File::from) else {
        return ExitCode::FAILURE;
    };
    match config {
        Ok(config) => match run(config, ready) {
            Ok(()) => ExitCode::SUCCESS,
            Err((ready, kind, message)) => {
                if let Some(ready) = ready {
                    BridgeHost::fail(ready, kind, message);
                }
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            BridgeHost::fail(ready, Kind::InvalidRequest, format!("the bridge's configuration: {error}"));
            ExitCode::FAILURE
        }
    }
}

type Refused = (Option<File>, Kind, String);

fn run(config: BridgeConfig, ready: File) -> Result<(), Refused> {
    let prepared = prepare(&config, &ready).and_then(|prepared| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Unfit::of("starting the runtime", error))?;
        let identity =
            ProcessIdentity::of_self().map_err(|error| Unfit::of("looking at this process", error))?;
        Ok((prepared, runtime, identity))
    });
    let (Prepared { home, name, log, lock, bridge_lock, listener, shared }, runtime, identity) =
        match prepared {
            Ok(prepared) => prepared,
            Err(Unfit { kind, message }) => return Err((Some(ready), kind, message)),
        };
    let mut hub_config = hub_config(&config);
    let (shared, taken) = match shared {
        Some(Ok(taken)) => (Some(Ok(taken.url.clone())), Some(taken)),
        Some(Err(why)) => (Some(Err(why)), None),
        None => (None, None),
    };
    let front = Rc::<Front>::default();
    let mut host = BridgeHost::new(&config, home.clone(), name.clone(), identity, log, ready, lock)
        .sharing(shared, Rc::clone(&front));
    hub_config.server.lifecycle.listens = taken.is_some();
    if let (Some(sharing), Some(taken)) = (&config.share, taken) {
        front.begin(sharing, taken);
    }
    if config.listen {
        host.write_sharing();
    }
    let served = serve_session(hub_config, config.listen, home, name, host, listener, front);
    let outcome = one_thread::block_on(&runtime, served);
    // The lock B is the last thing to go: whoever waits for it finds nothing of us.
    drop(runtime);
    drop(bridge_lock);
    outcome.map_err(|error| (None, Kind::Storage, error.to_string()))
}

struct Prepared {
    home: Home,
    name: SessionName,
    log: Option<SessionLog>,
    lock: OwnedFd,
    bridge_lock: Lock,
    listener: std::os::unix::net::UnixListener,
    /// The address at which the session is shared, or why it cannot be had.
    shared: Option<Result<Taken, String>>,
}

/// Why there can be no bridge.
struct Unfit {
    kind: Kind,
    message: String,
}

impl Unfit {
    fn of(what: &str, error: io::Error) -> Self {
        Self { kind: Kind::Storage, message: format!("{what}: {error}") }
    }
}

/// B1 and B2, and making this process fit to own a server.
fn prepare(config: &BridgeConfig, ready: &File) -> Result<Prepared, Unfit> {
    use std::os::fd::AsRawFd;
    process::close_descriptors_from(3, &[config.lock_fd, ready.as_raw_fd()])
        .map_err(|error| Unfit::of("closing inherited files", error))?;
    let lock = process::adopt_descriptor(config.lock_fd)
        .map_err(|error| Unfit::of("taking over the lock", error))?;
    let name = SessionName::new(&config.session)
        .map_err(|error| Unfit::of("the session's name", io::Error::other(error)))?;
    let home = Home::resolved(config.home.clone(), config.runtime.clone());
    let log = SessionLog::open(home.log_file(&name), log::DEFAULT_CAP).ok();
    process::detach_standard_streams(log.as_ref().map(|log| log.file().as_fd()))
        .map_err(|error| Unfit::of("detaching from the starter", error))?;
    // A working directory that somebody unmounts or removes is not ours to hold.
    let _ = std::env::set_current_dir(Path::new("/"));
    process::become_subreaper()
        .map_err(|error| Unfit::of("becoming the reaper of the server's processes", error))?;
    // Free, save for those who look for a moment whether it is.
    let wait = Wait::at_most(Duration::from_millis(config.connect_timeout_ms));
    let bridge_lock = Lock::acquire(&home.bridge_lock(&name), wait)
        .map_err(|error| Unfit::of("taking the session's lock", io::Error::other(error)))?;
    fault::point("B1");
    // The last bridge had it until it gave up B.
    let shared = config.share.as_ref().map(Sharing::take);
    if let (Some(Err(why)), Some(Sharing { required: true, .. })) = (&shared, &config.share) {
        return Err(Unfit { kind: Kind::NotShared, message: why.clone() });
    }
    let listener = listen(&home, &name).map_err(|error| {
        let error = HomeError::io("listen at", &home.socket_file(&name), error);
        Unfit::of("listening on the session's socket", io::Error::other(error))
    })?;
    Ok(Prepared { home, name, log, lock, bridge_lock, listener, shared })
}

/// B3 to D3.
async fn serve_session(
    config: HubConfig,
    listen: bool,
    home: Home,
    name: SessionName,
    host: BridgeHost,
    listener: std::os::unix::net::UnixListener,
    front: Rc<Front>,
) -> io::Result<()> {
    let listener = UnixListener::from_std(listener)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;

    let hub = Hub::new(config, Box::new(host));
    let mut served = Served::default();
    if listen {
        // Whoever waits for the report may come in at once.
        front.serve(&hub, &mut served)?;
        hub.await_clients();
    } else {
        hub.start();
    }
    let mut suspension = Suspension::watch();
    loop {
        tokio::select! {
            biased;
            () = hub.retired() => break,
            () = front.changed() => front.serve(&hub, &mut served)?,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if is_ours(&stream) => {
                    let hub = hub.clone();
                    let (reader, writer) = stream.into_split();
                    tokio::task::spawn_local(async move { hub.serve_connection(reader, writer).await });
                }
                Ok(_) => {}
                // Out of descriptors: those in use have to end first.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            _ = terminate.recv() => hub.close(),
            _ = interrupt.recv() => hub.close(),
            _ = hangup.recv() => hub.close(),
            length = suspension.ended() => hub.suspended(length),
        }
    }
    // D3. Whoever was not said hello to by now comes again.
    fault::point("D3");
    if let Ok(address) = home.socket(&name) {
        let _ = std::fs::remove_file(address.as_path());
    }
    fault::point("D3-unlinked");
    drop(listener);
    front.give_up();
    let _ = tokio::time::timeout(GOODBYE, hub.flushed()).await;
    // It gives up the address at once, and its clients a moment to read the last of it.
    served.ended(GOODBYE).await;
    Ok(())
}

/// B2. Only its owner may connect, from the first moment on.
fn listen(home: &Home, name: &SessionName) -> io::Result<std::os::unix::net::UnixListener> {
    let address = home.socket(name)?;
    // The lock says that nobody listens there.
    match std::fs::remove_file(address.as_path()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mask = rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o177));
    let listener = std::os::unix::net::UnixListener::bind(address.as_path());
    rustix::process::umask(mask);
    let listener = listener?;
    listener.set_nonblocking(true)?;
    fault::point("B2");
    Ok(listener)
}

fn is_ours(stream: &tokio::net::UnixStream) -> bool {
    let us = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == us || peer.uid() == 0)
}

fn hub_config(config: &BridgeConfig) -> HubConfig {
    let revision = config.era.as_ref().and_then(|memory| Revision::from_name(&memory.protocol_version));
    HubConfig {
        server: server::Config {
            pin: config.mcp_version.as_deref().and_then(Pin::from_name).unwrap_or_default(),
            remembered: revision.map(Revision::era),
            limits: Limits {
                // Over HTTP silence says nothing of the era.
                hedge: Limits::default().hedge.filter(|_| config.remote.is_none()),
                ..Limits::default()
            },
            transport: if config.remote.is_some() {
                server::Transport::Http
            } else {
                server::Transport::Stream
            },
            snapshot: Some(snapshot::Limits::default()),
            ..server::Config::default()
        }
        .with(settings::kept(&config.settings())),
        slots: SLOTS,
        limit: MAX_MESSAGE,
        generation: config.generation,
        crashes: config.crashes.clone(),
        revision,
        syncs: config.syncs.clone(),
        capabilities: ClientCapabilities {
            form: true,
            url: true,
            sampling: config.sampling,
            sampling_tools: config.sampling,
            roots: !config.roots.is_empty(),
            tasks: false,
        },
        roots: config.roots.clone(),
        lost: match (config.expired, config.ended) {
            (true, _) => Some(Lost::Expired),
            (false, true) => Some(Lost::Ended),
            (false, false) => None,
        },
        identity: config.identity.clone(),
        log_level: config.log_level.as_deref().and_then(Level::from_name),
        now_micros: crate::record::now_ms().saturating_mul(1000),
    }
}
