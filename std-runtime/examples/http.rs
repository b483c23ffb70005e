//! Serves an MCP server on standard streams over HTTP: `http ADDR [--token T] [--hold MS] -- COMMAND [ARG…]`. For
//! benchmarks, and for suites that want an address.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::rc::Rc;

use drowse_core::capabilities::ClientCapabilities;
use drowse_core::lifecycle::Exit;
use drowse_core::{server, snapshot};
use drowse_runtime::bridge::{
    Backend, Control, Facts, Host, Hub, HubConfig, LocalFuture, Process, StartFailure,
};
use drowse_runtime::process::{self, Launch, TreeControl};
use drowse_runtime::serve::{self, Options};
use drowse_runtime::snapshot::Snapshot;

struct Surroundings {
    launch: Launch,
    saved: Option<Vec<u8>>,
}

impl Host for Surroundings {
    fn persist(&mut self, _: &Facts) -> io::Result<()> {
        Ok(())
    }

    fn spawn(&mut self, _: u64) -> Result<Backend, String> {
        self.launch.marker = process::new_marker();
        let tree = process::launch(&self.launch).map_err(|error| error.to_string())?;
        Ok(Backend::Process(Process {
            input: Box::new(tree.stdin),
            output: Box::new(tree.stdout),
            errors: Some(Box::new(tree.stderr)),
            control: Rc::new(Processes(tree.control)),
        }))
    }

    fn server_errors(&mut self, bytes: &[u8]) {
        eprint!("{}", String::from_utf8_lossy(bytes));
    }

    fn note(&mut self, text: &str) {
        eprintln!("{text}");
    }

    fn server_log(&mut self, _: &str) {}

    fn save(&mut self, document: &[u8]) -> io::Result<()> {
        self.saved = Some(document.to_vec());
        Ok(())
    }

    fn saved(&mut self) -> Option<Snapshot> {
        None
    }

    fn started(&mut self, _: Result<(), &StartFailure>) {}
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
                (None, signal) => Exit::Signal(signal.unwrap_or_default()),
            }
        })
    }

    fn terminate(&self) {
        self.0.terminate();
    }

    fn kill(&self) {
        self.0.kill();
    }

    fn gone(&self) -> LocalFuture<'_, ()> {
        Box::pin(self.0.gone())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().ok_or("the address is missing")?;
    let mut options = Options::default();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--token" => options.token = args.next(),
            "--hold" => {
                let millis = args.next().ok_or("milliseconds are missing")?.parse()?;
                options.pace.hold = Some(drowse_core::time::Duration::from_millis(millis));
            }
            "--" => break,
            _ => return Err(format!("unknown: {arg}").into()),
        }
    }
    let command = args.next().ok_or("the command is missing")?;
    let launch = Launch {
        command,
        args: args.collect(),
        cwd: std::env::current_dir()?,
        env: std::env::vars().collect(),
        marker: String::new(),
    };
    let config = HubConfig {
        server: server::Config { snapshot: Some(snapshot::Limits::default()), ..server::Config::default() },
        slots: 256,
        limit: 64 << 20,
        generation: 0,
        crashes: Vec::new(),
        revision: None,
        now_micros: 0,
        expired: false,
        identity: String::new(),
        log_level: None,
        capabilities: ClientCapabilities {
            form: true,
            url: true,
            sampling: true,
            sampling_tools: true,
            roots: true,
            tasks: false,
        },
        roots: Vec::new(),
        syncs: Vec::new(),
    };
    process::become_subreaper()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let hub = Hub::new(config, Box::new(Surroundings { launch, saved: None }));
        hub.stand_by();
        let listener = tokio::net::TcpListener::bind(&address).await?;
        eprintln!("listening on http://{}{}", listener.local_addr()?, options.path);
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            served = serve::http(&hub, listener, options) => served?,
            _ = tokio::signal::ctrl_c() => hub.close(),
            _ = terminate.recv() => hub.close(),
        }
        hub.retired().await;
        Ok(())
    })
}
