//! A bridge made of threads, with a script for each of its lives and connections.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use drowse_runtime::caller::{
    CallError, Connected, Environment, Launch, Launched, Reply, Request, Sessions, Wait, Wanted, WantedShare,
    WantedTarget,
};
use drowse_runtime::home::{Home, SessionName};
use drowse_runtime::lock::Lock;
use drowse_runtime::process::new_marker;
use drowse_runtime::record::{self, Settings, State, StateRecord};
use drowse_runtime::wire::{BridgeConfig, Failed, Kind};
use rustix::event::{PollFd, PollFlags};
use serde_json::Value;

/// No wait of a test that is in order takes this long.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) fn long() -> Wait<'static> {
    Wait::at_most(LONG)
}

pub(crate) fn name(name: &str) -> SessionName {
    SessionName::new(name).unwrap()
}

/// What a connection's script came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The bridge lives on.
    Live,
    /// The bridge goes in good order.
    Exit,
    /// The bridge is gone as if killed: nothing is unlinked, nothing is written.
    Die,
}

type Script = Arc<dyn Fn(&mut Conn, &Shared) -> After + Send + Sync>;

/// One life of the bridge.
pub(crate) enum Life {
    /// It starts and serves each connection by the script.
    Serve(Script),
    /// It reports that its server cannot be started.
    Fails(&'static str),
    /// It ends without a report.
    Mute,
    /// It never reports; it ends when its socket is asked to close.
    NeverReady,
}

impl Life {
    pub(crate) fn serve(script: impl Fn(&mut Conn, &Shared) -> After + Send + Sync + 'static) -> Self {
        Self::Serve(Arc::new(script))
    }
}

pub(crate) struct Shared {
    home: Home,
    lives: Mutex<VecDeque<Life>>,
    configs: Mutex<Vec<BridgeConfig>>,
    executed: AtomicUsize,
    events: Mutex<Sender<String>>,
}

impl Shared {
    pub(crate) fn execute(&self) {
        self.executed.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn event(&self, what: &str) {
        let _ = self.events.lock().unwrap().send(what.to_owned());
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("fake bridges")
    }
}

/// A home, its sessions, and bridges that are threads of the test.
pub(crate) struct World {
    pub(crate) sessions: Sessions,
    pub(crate) shared: Arc<Shared>,
    events: Mutex<Receiver<String>>,
    pub(crate) dir: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"), None);
        Self::at(dir, home)
    }

    pub(crate) fn at(dir: tempfile::TempDir, home: Home) -> Self {
        let (send, events) = channel();
        let shared = Arc::new(Shared {
            home: home.clone(),
            lives: Mutex::default(),
            configs: Mutex::default(),
            executed: AtomicUsize::new(0),
            events: Mutex::new(send),
        });
        let sessions = Sessions::at(home).with_launcher(Fake(Arc::clone(&shared)));
        Self { sessions, shared, events: Mutex::new(events), dir }
    }

    /// What the next bridge does with its life; those after the last are in good order.
    pub(crate) fn next(&self, life: Life) {
        self.shared.lives.lock().unwrap().push_back(life);
    }

    pub(crate) fn launches(&self) -> usize {
        self.shared.configs.lock().unwrap().len()
    }

    pub(crate) fn config(&self, launch: usize) -> BridgeConfig {
        self.shared.configs.lock().unwrap()[launch].clone()
    }

    /// How often a `tools/call` ran.
    pub(crate) fn executed(&self) -> usize {
        self.shared.executed.load(Ordering::SeqCst)
    }

    pub(crate) fn connect(&self, wanted: &Wanted) -> Result<Connected, CallError> {
        self.sessions.connect(wanted, long())
    }

    /// A session @s that was never started.
    pub(crate) fn dormant(&self) -> &Self {
        self.connect(&Wanted { lazy: Some(true), ..wanted("s") }).unwrap();
        self
    }

    /// A session @s whose bridge is there.
    pub(crate) fn awake(&self) -> &Self {
        self.connect(&wanted("s")).unwrap();
        self
    }

    pub(crate) fn call(&self) -> Result<Reply, CallError> {
        self.call_within(long())
    }

    pub(crate) fn call_within(&self, wait: Wait<'_>) -> Result<Reply, CallError> {
        self.sessions.caller(&name("s"), wait).call(tool("{\"name\":\"t\"}"))
    }

    pub(crate) fn home(&self) -> &Home {
        self.sessions.home()
    }

    pub(crate) fn state(&self) -> Option<StateRecord> {
        record::read_state(self.home(), &name("s")).unwrap()
    }

    pub(crate) fn write_state(&self, state: &StateRecord) {
        record::write_state(self.home(), &name("s"), state).unwrap();
    }

    /// Waits for something that a script says.
    pub(crate) fn hear(&self, what: &str) {
        assert_eq!(self.events.lock().unwrap().recv_timeout(LONG).unwrap(), what);
    }

    /// Whether no script has said anything more.
    pub(crate) fn is_silent(&self) -> bool {
        self.events.lock().unwrap().try_recv().is_err()
    }

    /// Waits until the session's bridge has let go of its lock.
    pub(crate) fn bridge_is_gone(&self) {
        drop(Lock::acquire(&self.home().bridge_lock(&name("s")), long()).unwrap());
    }
}

pub(crate) fn wanted(session: &str) -> Wanted {
    Wanted {
        name: name(session),
        target: WantedTarget::Command { command: "server".into(), args: vec!["--stdio".into()] },
        settings: Settings::default(),
        pins: Vec::new(),
        headers: Vec::new(),
        cwd: "/".into(),
        environment: Environment::default(),
        lazy: None,
        share: WantedShare::default(),
    }
}

pub(crate) fn tool(params: &str) -> Request<'_> {
    Request { method: "tools/call", params, timeout: None, progress: None }
}

#[derive(Debug)]
struct Fake(Arc<Shared>);

impl Launch for Fake {
    fn launch(&self, config: &mut BridgeConfig, lock: &Lock, _log: &Path) -> io::Result<Launched> {
        let (report, ours) = io::pipe()?;
        let life = self.0.lives.lock().unwrap().pop_front().unwrap_or_else(|| Life::serve(in_order));
        self.0.configs.lock().unwrap().push(config.clone());
        let bridge = Bridge { shared: Arc::clone(&self.0), config: config.clone() };
        let lock = lock.share();
        thread::spawn(move || bridge.live(life, lock, ours));
        Ok(Launched { report, child: None })
    }
}

struct Bridge {
    shared: Arc<Shared>,
    config: BridgeConfig,
}

impl Bridge {
    fn live(&self, life: Life, start: Lock, mut report: PipeWriter) {
        let (home, name) = (&self.shared.home, name(&self.config.session));
        let lock = Lock::acquire(&home.bridge_lock(&name), long()).unwrap();
        let (script, ready) = match life {
            Life::Serve(script) => (script, true),
            Life::NeverReady => (Arc::new(in_order) as Script, false),
            Life::Mute => return,
            Life::Fails(message) => {
                let failed = Failed {
                    kind: Kind::StartFailed,
                    message: message.to_owned(),
                    stderr: Some("last words".to_owned()),
                };
                let text = serde_json::json!({ "failed": failed }).to_string() + "\n";
                report.write_all(text.as_bytes()).unwrap();
                return;
            }
        };
        let listener = UnixListener::bind(home.socket(&name).unwrap().as_path()).unwrap();
        let mut state = StateRecord {
            generation: self.config.generation + 1,
            marker: new_marker(),
            state: State::Live,
            ended: false,
            // Nobody: the truth would be the test itself.
            bridge: None,
            crashes: self.config.crashes.clone(),
            era: self.config.era.clone(),
            ..StateRecord::dormant()
        };
        record::write_state(home, &name, &state).unwrap();
        let (report, start) = if ready {
            report.write_all(b"{\"ready\":{\"pid\":1}}\n").unwrap();
            drop((report, start));
            (None, None)
        } else {
            self.shared.event("listening");
            (Some(report), Some(start))
        };
        let after = self.serve(listener, &script);
        if after == After::Exit {
            state.state = State::Idle;
            state.ended = true;
            record::write_state(home, &name, &state).unwrap();
        }
        drop((report, start));
        drop(lock);
    }

    fn serve(&self, listener: UnixListener, script: &Script) -> After {
        let (over, ours) = io::pipe().unwrap();
        let (send, outcome) = channel::<(After, usize, Sender<()>)>();
        let mut open: Vec<UnixStream> = Vec::new();
        loop {
            let mut fds = [
                PollFd::new(&listener, PollFlags::IN),
                PollFd::from_borrowed_fd(over.as_fd(), PollFlags::IN),
            ];
            rustix::event::poll(&mut fds, None).unwrap();
            if let Ok((after, leaver, left)) = outcome.try_recv() {
                if after == After::Exit {
                    let name = name(&self.config.session);
                    std::fs::remove_file(self.shared.home.socket_file(&name)).unwrap();
                }
                drop(listener);
                left.send(()).unwrap();
                for (connection, stream) in open.iter().enumerate() {
                    if connection != leaver {
                        let _ = stream.shutdown(std::net::Shutdown::Both);
                    }
                }
                // Until all scripts are done.
                drop((send, ours, open));
                while let Ok((_, _, left)) = outcome.recv() {
                    left.send(()).unwrap();
                }
                return after;
            }
            let (stream, _) = listener.accept().unwrap();
            open.push(stream.try_clone().unwrap());
            let (script, shared) = (Arc::clone(script), Arc::clone(&self.shared));
            let (wake, connection) = (ours.try_clone().unwrap(), open.len() - 1);
            let going = Going { send: send.clone(), wake, connection, left: false };
            thread::spawn(move || {
                let mut conn = Conn::new(stream, going);
                let after = script(&mut conn, &shared);
                if after != After::Live {
                    conn.leave(after);
                }
            });
        }
    }
}

/// How a script ends its bridge.
struct Going {
    send: Sender<(After, usize, Sender<()>)>,
    wake: PipeWriter,
    connection: usize,
    left: bool,
}

/// A bridge's end of a connection.
pub(crate) struct Conn {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    going: Going,
}

impl Conn {
    fn new(stream: UnixStream, going: Going) -> Self {
        Self { writer: stream.try_clone().unwrap(), reader: BufReader::new(stream), going }
    }

    /// From here on the bridge does not listen any more, while its connections are still there: what comes
    /// before a goaway.
    pub(crate) fn leave(&mut self, after: After) {
        if !std::mem::replace(&mut self.going.left, true) {
            let (left, wait) = channel();
            if self.going.send.send((after, self.going.connection, left)).is_ok() {
                self.going.wake.write_all(b"x").unwrap();
                wait.recv_timeout(LONG).unwrap();
            }
        }
    }

    /// A line, or nothing at its end.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(1..) if line.ends_with('\n') => Some(line),
            _ => None,
        }
    }

    pub(crate) fn message(&mut self) -> Option<Value> {
        self.line().map(|line| serde_json::from_str(&line).unwrap())
    }

    /// Writes, if anybody still listens.
    pub(crate) fn say(&mut self, text: &str) {
        let _ = self.writer.write_all(text.as_bytes());
    }

    pub(crate) fn hello(&mut self) -> Option<Value> {
        let hello = self.message()?;
        self.say("{\"drowse\":{\"hello\":{\"version\":1,\"bridge\":\"0\",\"pid\":1}}}\n");
        Some(hello)
    }

    pub(crate) fn answer(&mut self, request: &Value, result: &str) {
        self.say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\n", request["id"]));
    }

    pub(crate) fn refuse(&mut self, request: &Value, error: &str) {
        self.say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}\n", request["id"]));
    }

    pub(crate) fn goaway(&mut self, last: u64) {
        self.leave(After::Exit);
        self.say(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/drowse/goaway\",\"params\":{{\"last\":{last}}}}}\n"
        ));
    }
}

/// Serves one connection in good order, as a bridge that is not one of the fakes.
pub(crate) fn serve_one_connection(listener: &UnixListener, shared: &Shared) {
    let (send, _) = channel();
    let going = Going { send, wake: io::pipe().unwrap().1, connection: 0, left: false };
    in_order(&mut Conn::new(listener.accept().unwrap().0, going), shared);
}

/// What a bridge in good order does with a connection.
pub(crate) fn in_order(conn: &mut Conn, shared: &Shared) -> After {
    if conn.hello().is_none() {
        return After::Live;
    }
    serve_requests(conn, shared)
}

/// The same, after the hello.
pub(crate) fn serve_requests(conn: &mut Conn, shared: &Shared) -> After {
    while let Some(message) = conn.message() {
        if let Some(after) = serve_one(conn, shared, &message) {
            return after;
        }
    }
    After::Live
}

/// One request.
pub(crate) fn serve_one(conn: &mut Conn, shared: &Shared, message: &Value) -> Option<After> {
    match message["method"].as_str() {
        Some("drowse/close") => {
            conn.leave(After::Exit);
            conn.answer(message, "{}");
            return Some(After::Exit);
        }
        Some("drowse/info") => {
            conn.answer(message, "{\"era\":\"modern\",\"protocolVersion\":\"2026-07-28\",\"handshake\":{}}");
        }
        Some("drowse/status") => conn.answer(
            message,
            "{\"state\":\"live\",\"generation\":1,\"serverPid\":null,\"inFlight\":0,\"idleInMs\":null}",
        ),
        Some("notifications/cancelled") => {
            shared.event(&format!("cancelled {}", message["params"]["requestId"]));
        }
        Some("tools/call") => {
            shared.execute();
            conn.answer(message, "{\"content\":[], \"n\":1.0}");
        }
        _ => conn.refuse(message, "{\"code\":-32601,\"message\":\"no such method\"}"),
    }
    None
}
