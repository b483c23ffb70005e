//! Where the server is made: its build, what it consists of, its environment, and the log.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use drowse_core::dev::Built;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::Notify;
use tokio::task::spawn_local;

use crate::bridge::{Hub, Workshop};
use crate::process::{self, Launch, Tree, TreeControl};

use super::changes::Changes;
use super::files;
use super::log::Log;
use super::record::Record;

/// How much of a build's output goes into the log; the rest is read and left out.
const MAX_OUTPUT: usize = 256 << 10;
/// How many of its last lines are shown to whoever asked for it.
const LAST_LINES: usize = 40;
/// How long a line of those may be.
const MAX_LINE: usize = 2000;

/// What is shared with the host that starts the servers.
pub(super) struct Shared {
    /// The environment that servers and builds have in any case.
    pub(super) environment: Vec<(String, String)>,
    /// What is added to that for servers.
    pub(super) env: Vec<(String, String)>,
    /// What the server that was started last consists of, if that can be told and there is a build that may change it.
    pub(super) made_of: Option<u128>,
    /// Its program and arguments.
    pub(super) command: Vec<String>,
    pub(super) cwd: PathBuf,
    pub(super) url: Option<String>,
    pub(super) record: Record,
    build: Option<String>,
    watched: Vec<String>,
    running: Option<TreeControl>,
    building: Rc<Building>,
    last: Option<Last>,
}

/// Builds whose trees are there.
#[derive(Default)]
struct Building {
    count: Cell<usize>,
    over: Notify,
}

/// How the last build went.
struct Last {
    command: String,
    outcome: &'static str,
    status: Option<String>,
    took: Duration,
    at: Instant,
    lines: VecDeque<String>,
}

/// The adapter behind the hub.
pub(super) struct Shop {
    shared: Rc<RefCell<Shared>>,
    log: Rc<Log>,
    /// Files that are watched and changed, and what they were.
    changes: Option<Changes>,
}

impl Shared {
    pub(super) fn new(options: &super::Options) -> Self {
        let mut command = vec![options.command.clone()];
        command.extend(options.args.iter().cloned());
        Self {
            environment: options.environment.clone(),
            env: options.env.clone(),
            made_of: None,
            command,
            cwd: options.cwd.clone(),
            url: options.backend_url.clone(),
            record: Record::new(options.home.clone()),
            build: options.build.clone(),
            watched: options.watch.clone(),
            running: None,
            building: Rc::default(),
            last: None,
        }
    }

    /// Resolves when no build is left.
    pub(super) fn finished(&self) -> impl Future<Output = ()> + use<> {
        let building = Rc::clone(&self.building);
        async move {
            while building.count.get() > 0 {
                building.over.notified().await;
            }
        }
    }

    /// The server is about to be started.
    pub(super) fn note_what_it_is_made_of(&mut self) {
        // All of it is read for that.
        self.made_of = self.build.as_ref().and_then(|_| self.fingerprint());
    }

    /// What the server would consist of if it were started now.
    fn fingerprint(&self) -> Option<u128> {
        files::fingerprint(&self.cwd, &self.command)
    }
}

impl Shop {
    pub(super) fn new(shared: Rc<RefCell<Shared>>, log: Rc<Log>, changes: Option<Changes>) -> Self {
        log.redact(&shared.borrow().env);
        Self { shared, log, changes }
    }
}

impl Workshop for Shop {
    fn build(&mut self, hub: &Hub) {
        let (hub, log, shared) = (hub.clone(), Rc::clone(&self.log), Rc::clone(&self.shared));
        let command = self.shared.borrow().build.clone().unwrap_or_default();
        log.note(&format!("building: {command}"));
        let launched = {
            let mut shared = self.shared.borrow_mut();
            shared.record.prepare(&log);
            process::launch(&Launch {
                command: "/bin/sh".to_owned(),
                args: vec!["-c".to_owned(), command.clone()],
                cwd: shared.cwd.clone(),
                env: shared.environment.iter().cloned().chain([shared.record.variable()]).collect(),
                marker: process::new_marker(),
            })
        };
        let begun = Instant::now();
        match launched {
            Ok(tree) => {
                let building = Rc::clone(&self.shared.borrow().building);
                building.count.set(building.count.get() + 1);
                self.shared.borrow_mut().running = Some(tree.control.clone());
                spawn_local(async move {
                    let (status, lines) = watch(tree, &log).await;
                    let mut shared = shared.borrow_mut();
                    let aborted = shared.running.take().is_none();
                    let built = match &status {
                        _ if aborted => Built::Failed,
                        Some(_) => Built::Failed,
                        None => match (shared.made_of, shared.fingerprint()) {
                            (Some(was), Some(is)) if was == is => Built::Unchanged,
                            _ => Built::Changed,
                        },
                    };
                    let outcome = match built {
                        _ if aborted => "ended",
                        Built::Failed => "failed",
                        Built::Unchanged => "unchanged",
                        Built::Changed => "succeeded",
                    };
                    let took = begun.elapsed();
                    let how = status.as_ref().map_or_else(String::new, |status| format!(" ({status})"));
                    log.note(&format!("build {outcome}{how} after {:.1} s", took.as_secs_f64()));
                    shared.last = Some(Last { command, outcome, status, took, at: Instant::now(), lines });
                    drop(shared);
                    building.count.set(building.count.get() - 1);
                    building.over.notify_waiters();
                    hub.built(built);
                });
            }
            Err(error) => {
                log.note(&format!("the build could not be started: {error}"));
                self.shared.borrow_mut().last = Some(Last {
                    command,
                    outcome: "failed",
                    status: Some(error.to_string()),
                    took: Duration::ZERO,
                    at: begun,
                    lines: VecDeque::new(),
                });
                // Not from within: the hub is in the middle of asking for it.
                spawn_local(async move { hub.built(Built::Failed) });
            }
        }
    }

    fn abort_build(&mut self) {
        if let Some(control) = self.shared.borrow_mut().running.take() {
            control.kill();
        }
    }

    fn set_env(&mut self, env: Vec<(String, String)>) {
        self.log.redact(&env);
        self.shared.borrow_mut().env = env;
    }

    fn logs(&self, lines: usize) -> Vec<String> {
        self.log.tail(lines)
    }

    fn redacted(&self, text: &str) -> String {
        self.log.redacted(text)
    }

    fn has_changed(&mut self) -> bool {
        self.changes.as_mut().is_none_or(Changes::compare)
    }

    fn changed_file(&self) -> Option<String> {
        let path = self.changes.as_ref()?.last()?;
        let cwd = self.shared.borrow().cwd.canonicalize().unwrap_or_default();
        Some(path.strip_prefix(cwd).unwrap_or(path).display().to_string())
    }

    fn describe(&self, status: &mut Map<String, Value>) {
        let shared = self.shared.borrow();
        status.insert("command".into(), json!(shared.command));
        if let Some(url) = &shared.url {
            status.insert("url".into(), json!(url));
        }
        let names: Vec<&str> = shared.env.iter().map(|(name, _)| name.as_str()).collect();
        status.insert("env".into(), json!(names));
        if let Some(build) = &shared.build {
            status.insert("buildCommand".into(), json!(build));
        }
        if !shared.watched.is_empty() {
            status.insert("watches".into(), json!(shared.watched));
        }
        if let Some(last) = &shared.last {
            status.insert(
                "lastBuild".into(),
                json!({
                    "command": last.command,
                    "outcome": last.outcome,
                    "status": last.status,
                    "tookMs": last.took.as_millis() as u64,
                    "agoMs": last.at.elapsed().as_millis() as u64,
                }),
            );
        }
    }

    fn last_build(&self) -> Option<String> {
        let shared = self.shared.borrow();
        let last = shared.last.as_ref()?;
        let mut text = last.status.as_ref().map_or_else(String::new, |status| format!("({status})\n"));
        for line in &last.lines {
            text.push_str(line);
            text.push('\n');
        }
        Some(text.trim_end().to_owned())
    }
}

/// Reads a build to its end, and ends what it leaves behind. Gives what was wrong with its end, and its last lines.
async fn watch(tree: Tree, log: &Log) -> (Option<String>, VecDeque<String>) {
    let Tree { stdin, stdout, stderr, control } = tree;
    drop(stdin);
    let gathered = RefCell::new(Output { lines: VecDeque::new(), room: MAX_OUTPUT, cut: false });
    let read = async { tokio::join!(copy(stdout, log, &gathered), copy(stderr, log, &gathered)) };
    let mut read = std::pin::pin!(read);
    let mut over = false;
    let status = loop {
        tokio::select! {
            biased;
            _ = &mut read, if !over => over = true,
            status = control.exited() => break status,
        }
    };
    // A build is over with its own process; what it left behind holds the pipes.
    control.kill();
    control.gone().await;
    if !over {
        // All that was written is there by now.
        let _ = tokio::time::timeout(Duration::from_secs(1), read).await;
    }
    let wrong = (!status.success()).then(|| match std::os::unix::process::ExitStatusExt::signal(&status) {
        Some(signal) => format!("signal {signal}"),
        None => format!("exit status {}", status.code().unwrap_or(-1)),
    });
    let lines = std::mem::take(&mut gathered.borrow_mut().lines);
    (wrong, lines)
}

struct Output {
    lines: VecDeque<String>,
    /// How much more of it is shown.
    room: usize,
    cut: bool,
}

async fn copy(mut from: impl AsyncRead + Unpin, log: &Log, to: &RefCell<Output>) {
    let mut buffer = vec![0; 16 << 10];
    let mut partial = Vec::new();
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        for part in buffer.get(..read).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE.saturating_sub(partial.len());
            partial.extend_from_slice(part.get(..room).unwrap_or(part));
            if part.ends_with(b"\n") {
                take(&mut partial, log, to);
            }
        }
    }
    if !partial.is_empty() {
        take(&mut partial, log, to);
    }
}

fn take(partial: &mut Vec<u8>, log: &Log, to: &RefCell<Output>) {
    let line = String::from_utf8_lossy(partial.strip_suffix(b"\n").unwrap_or(partial)).into_owned();
    partial.clear();
    let mut to = to.borrow_mut();
    if to.lines.len() == LAST_LINES {
        to.lines.pop_front();
    }
    if line.len() <= to.room {
        to.room -= line.len();
        log.message(&format!("build: {line}"));
    } else if !to.cut {
        to.cut = true;
        to.room = 0;
        log.note("the build writes more than is shown; its last lines are in the answer");
    }
    to.lines.push_back(log.redacted(&line));
}
