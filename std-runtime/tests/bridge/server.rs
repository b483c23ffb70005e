//! The MCP server on the stage: one task, either era, well-behaved save where its [`Script`] says otherwise.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use drowse_core::era::Era;
use drowse_core::lifecycle::Exit;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, spawn_local};

use super::{Event, Peer, Stage, tasks::Task};

/// Names the stream of a notification.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// What a server that runs uses, in bytes.
pub(crate) const MEMORY: u64 = 40 << 20;
/// Room in a pipe.
const PIPE: usize = 64 << 10;

/// How the server behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script {
    pub(crate) peer: Peer,
    /// It speaks both eras: each of its processes that of the first question.
    pub(crate) both: bool,
    /// It reads nothing before.
    pub(crate) boot: Duration,
    /// It stays for this long after its input was closed.
    pub(crate) lingers: Duration,
    pub(crate) ignores_input_end: bool,
    pub(crate) ignores_terminate: bool,
    /// It answers neither ping nor `server/discover`, once it is ready.
    pub(crate) ignores_keepalive: bool,
    /// It exits when it gets this method.
    pub(crate) dies_on: Option<&'static str>,
    /// There is no such program.
    pub(crate) cannot_start: bool,
    /// Behind a URL: calls that run get no head of a response.
    pub(crate) mute_calls: bool,
    /// It announces no updates of resources.
    pub(crate) announces_nothing: bool,
    /// It says that it has no lists.
    pub(crate) has_no_lists: bool,
    /// How many tools it has, and how many it tells at a time, if not all.
    pub(crate) tools: usize,
    pub(crate) per_page: Option<usize>,
    /// What becomes of requests for its tools.
    pub(crate) tools_fault: Option<ListFault>,
    /// What becomes of modern requests to be told of changes.
    pub(crate) listen_fault: Option<ListenFault>,
    /// Its lists and reads may be used again for so many milliseconds.
    pub(crate) ttl_ms: u64,
}

/// How a server answers who asks for a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListFault {
    Silent,
    Garbage,
    Error(i64),
    /// There is always another page.
    Endless,
}

/// How a modern server answers who wants to be told of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenFault {
    /// With that error.
    Error(i64),
    /// With that error where lists are named.
    Lists(i64),
    /// With that error while another stream is open.
    Second(i64),
    Silent,
}

impl Script {
    /// A page of the tools.
    fn tools(&self, params: &Value, version: usize) -> Value {
        let from: usize = params["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
        let until = self.per_page.map_or(self.tools, |page| self.tools.min(from + page));
        let tools: Vec<Value> =
            (from..until).map(|n| json!({"name": format!("t{n}-v{version}"), "inputSchema": {}})).collect();
        let mut result = json!({"tools": tools});
        if until < self.tools {
            result["nextCursor"] = json!(until.to_string());
        }
        if self.tools_fault == Some(ListFault::Endless) {
            result["nextCursor"] = json!("0");
        }
        result
    }

    /// A result with what is said of its freshness.
    fn fresh(&self, mut result: Value) -> Value {
        if self.ttl_ms > 0 {
            result["ttlMs"] = self.ttl_ms.into();
            result["cacheScope"] = "private".into();
        }
        result
    }

    pub(crate) fn of(peer: impl Into<Peer>) -> Self {
        Self {
            peer: peer.into(),
            boot: Duration::ZERO,
            lingers: Duration::ZERO,
            ignores_input_end: false,
            ignores_terminate: false,
            ignores_keepalive: false,
            dies_on: None,
            cannot_start: false,
            mute_calls: false,
            announces_nothing: false,
            has_no_lists: false,
            tools: 0,
            per_page: None,
            tools_fault: None,
            listen_fault: None,
            ttl_ms: 0,
            both: false,
        }
    }
}

/// One started server.
pub(crate) struct Process {
    pub(crate) pid: u32,
    output: RefCell<Option<mpsc::UnboundedSender<String>>>,
    ended: Cell<Option<Exit>>,
    changed: Notify,
    tasks: RefCell<Vec<AbortHandle>>,
    /// Requests that run, by their id as text.
    running: RefCell<Vec<(String, Rc<Notify>)>>,
    initialized: Cell<bool>,
    /// The era of the first question.
    chosen: Cell<Option<Era>>,
    pub(super) given: RefCell<Vec<Task>>,
    /// What was subscribed to, and the streams that are open: ids and filters.
    subscribed: RefCell<BTreeSet<String>>,
    streams: RefCell<Vec<(Value, Value)>>,
    /// How many lines it wrote.
    said: Cell<usize>,
}

/// Starts a server; what comes back are the near ends of its pipes.
pub(super) fn start(stage: &Stage) -> (Rc<Process>, DuplexStream, DuplexStream) {
    let (input, theirs) = duplex(PIPE);
    let (output, mut to_output) = duplex(PIPE);
    let (sender, mut lines) = mpsc::unbounded_channel::<String>();
    let process = Process::new(1000 + u32::try_from(stage.starts()).unwrap());
    process.writes_to(sender);
    spawn_local(async move {
        while let Some(line) = lines.recv().await {
            if to_output.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                break;
            }
        }
    });
    let (stage, serving) = (stage.clone(), Rc::clone(&process));
    let task = spawn_local(async move { serve(&stage, &serving, theirs).await });
    process.tasks.borrow_mut().push(task.abort_handle());
    (process, input, output)
}

impl Process {
    fn new(pid: u32) -> Rc<Self> {
        Rc::new(Self {
            pid,
            output: RefCell::default(),
            ended: Cell::new(None),
            changed: Notify::new(),
            tasks: RefCell::default(),
            running: RefCell::default(),
            given: RefCell::default(),
            initialized: Cell::new(false),
            chosen: Cell::new(None),
            subscribed: RefCell::default(),
            streams: RefCell::default(),
            said: Cell::new(0),
        })
    }

    /// One that only serves a request of a server behind a URL.
    pub(super) fn of_request() -> Rc<Self> {
        let process = Self::new(0);
        process.initialized.set(true);
        process
    }

    pub(super) fn writes_to(&self, output: mpsc::UnboundedSender<String>) {
        *self.output.borrow_mut() = Some(output);
    }

    /// Cancels the request of that id, if it runs.
    pub(super) fn cancel(&self, id: &str) {
        for (_, cancelled) in self.running.borrow().iter().filter(|(running, _)| running == id) {
            cancelled.notify_one();
        }
    }

    /// Writes a line, if the server still runs.
    pub(crate) fn write(&self, line: String) {
        if let Some(output) = &*self.output.borrow() {
            self.said.set(self.said.get() + 1);
            let _ = output.send(line);
        }
    }

    /// Announces an update to whoever subscribed, and to nobody else.
    pub(crate) fn update(&self, uri: &str) {
        if self.subscribed.borrow().contains(uri) {
            self.announce("notifications/resources/updated", json!({"uri": uri}));
        }
        for (id, filter) in &*self.streams.borrow() {
            let wanted = &filter["resourceSubscriptions"];
            if wanted.as_array().is_some_and(|uris| uris.contains(&json!(uri))) {
                self.announce(
                    "notifications/resources/updated",
                    json!({"_meta": {SUBSCRIPTION: id}, "uri": uri}),
                );
            }
        }
    }

    /// Announces that the list of tools changed.
    pub(crate) fn change_tools(&self) {
        if self.initialized.get() && self.streams.borrow().is_empty() {
            self.announce("notifications/tools/list_changed", json!({}));
        }
        for (id, filter) in &*self.streams.borrow() {
            if filter["toolsListChanged"] == true {
                self.announce("notifications/tools/list_changed", json!({"_meta": {SUBSCRIPTION: id}}));
            }
        }
    }

    /// Ends its streams of its own accord.
    pub(crate) fn end_streams(&self) {
        for (id, _) in self.streams.take() {
            let result = json!({"resultType": "complete", "_meta": {SUBSCRIPTION: id}});
            self.write(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
        }
    }

    /// Has never heard of any.
    pub(super) fn forget_subscriptions(&self) {
        self.subscribed.borrow_mut().clear();
    }

    /// What it announces: each URI as often as it would be said.
    pub(crate) fn subscriptions(&self) -> Vec<String> {
        let mut all: Vec<String> = self.subscribed.borrow().iter().cloned().collect();
        for (_, filter) in &*self.streams.borrow() {
            let uris = filter["resourceSubscriptions"].as_array().cloned().unwrap_or_default();
            all.extend(uris.iter().filter_map(|uri| uri.as_str().map(str::to_owned)));
        }
        all.sort();
        all
    }

    /// How many lines it wrote.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) fn said(&self) -> usize {
        self.said.get()
    }

    /// How many streams are open.
    pub(crate) fn open_streams(&self) -> usize {
        self.streams.borrow().len()
    }

    /// Whether somebody hears of it when the list of tools changes.
    pub(crate) fn is_heard(&self) -> bool {
        self.initialized.get()
            || self.streams.borrow().iter().any(|(_, filter)| filter["toolsListChanged"] == true)
    }

    fn announce(&self, method: &str, params: Value) {
        self.write(json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Closes its output while it stays.
    pub(crate) fn close_output(&self) {
        self.output.borrow_mut().take();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    pub(super) async fn ended(&self) -> Exit {
        loop {
            if let Some(exit) = self.ended.get() {
                return exit;
            }
            self.changed.notified().await;
        }
    }

    pub(super) fn end(&self, stage: &Stage, exit: Exit) {
        if self.has_ended() {
            return;
        }
        self.ended.set(Some(exit));
        self.close_output();
        stage.note_event(Event::Exited(exit));
        self.changed.notify_waiters();
        for task in self.tasks.borrow_mut().drain(..) {
            task.abort();
        }
    }
}

async fn serve(stage: &Stage, process: &Rc<Process>, input: DuplexStream) {
    let script = *stage.script();
    tokio::time::sleep(script.boot).await;
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        stage.note_event(Event::Got(message.clone()));
        stage.note_line(&line);
        if stage.is_by_hand() {
            continue;
        }
        if script.dies_on.is_some_and(|method| message["method"] == method) {
            return process.end(stage, Exit::Status(3));
        }
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => {
                if let Some(answer) = request(stage, process, method, id, &message["params"]) {
                    process.write(answer.to_string());
                }
            }
            (Some("notifications/cancelled"), None) => {
                process.streams.borrow_mut().retain(|(stream, _)| *stream != message["params"]["requestId"]);
                process.cancel(&message["params"]["requestId"].to_string());
            }
            (Some("notifications/initialized"), None) => process.initialized.set(true),
            _ => {}
        }
    }
    stage.note_event(Event::InputClosed);
    if script.ignores_input_end {
        return std::future::pending().await;
    }
    tokio::time::sleep(script.lingers).await;
    process.end(stage, Exit::Status(0));
}

/// The answer to a request; `None` if it comes later, or never.
pub(super) fn request(
    stage: &Stage,
    process: &Rc<Process>,
    method: &str,
    id: &Value,
    params: &Value,
) -> Option<Value> {
    let script = stage.script();
    let result = |result: Value| Some(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    let error =
        |code: i64| Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}));
    let capabilities = if script.has_no_lists {
        json!({"logging": {}})
    } else if script.announces_nothing {
        json!({"tools": {}, "resources": {}})
    } else {
        json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {}})
    };
    let mut capabilities = capabilities;
    let asked = if method == "initialize" { Era::Legacy } else { Era::Modern };
    let chosen = process.chosen.get().unwrap_or(asked);
    process.chosen.set(Some(chosen));
    let era = if script.both { chosen } else { script.peer.era() };
    if era == Era::Modern && !script.announces_nothing && !script.has_no_lists {
        capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    }
    let ready = !stage.outcomes().is_empty();
    match (era, method) {
        (Era::Legacy, "ping") | (Era::Modern, "server/discover") if script.ignores_keepalive && ready => None,
        (Era::Legacy, "initialize") => result(json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": capabilities,
            "serverInfo": {"name": "staged", "version": "1"},
        })),
        (Era::Legacy, "ping") => result(json!({})),
        (Era::Legacy, "server/discover") => error(-32601),
        (Era::Modern, "server/discover") => result(json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities,
            "ttlMs": 0,
            "cacheScope": "private",
        })),
        (Era::Modern, "initialize" | "ping") => error(-32601),
        (Era::Legacy, _) if !process.initialized.get() => error(-32600),
        (Era::Legacy, "logging/setLevel") if params["level"] == "alert" => error(-32603),
        (Era::Legacy, "logging/setLevel") => result(json!({})),
        (era, "tools/call") if params["name"] == "task" => result(process.create_task(era, params)),
        (era, method) if method.starts_with("tasks/") => {
            process.of_tasks(era, method, params).map_or_else(error, result)
        }
        (Era::Legacy, "resources/subscribe" | "resources/unsubscribe") => match params["uri"].as_str() {
            Some("gone:1") => error(-32002),
            Some("shy:1") => error(-32603),
            Some(uri) => {
                if method == "resources/subscribe" {
                    process.subscribed.borrow_mut().insert(uri.to_owned());
                } else {
                    process.subscribed.borrow_mut().remove(uri);
                }
                result(json!({}))
            }
            None => error(-32602),
        },
        (Era::Modern, "subscriptions/listen") => {
            let filter = params["notifications"].clone();
            let uris = filter["resourceSubscriptions"].as_array().cloned().unwrap_or_default();
            match script.listen_fault {
                Some(ListenFault::Error(code)) => return error(code),
                Some(ListenFault::Lists(code)) if filter["toolsListChanged"] == true => return error(code),
                Some(ListenFault::Second(code)) if process.open_streams() > 0 => return error(code),
                Some(ListenFault::Silent) => return None,
                _ => {}
            }
            if uris.contains(&json!("gone:1")) {
                return error(-32602);
            }
            if uris.contains(&json!("shy:1")) {
                return error(-32603);
            }
            process.announce(
                "notifications/subscriptions/acknowledged",
                json!({"_meta": {SUBSCRIPTION: id}, "notifications": filter}),
            );
            process.streams.borrow_mut().push((id.clone(), filter));
            None
        }
        (_, "tools/call") => call(stage, process, id, params),
        (_, "tools/list") => match script.tools_fault {
            Some(ListFault::Silent) => None,
            Some(ListFault::Garbage) => result(json!({"tools": {"not": "a list"}})),
            Some(ListFault::Error(code)) => error(code),
            Some(ListFault::Endless) | None => result(script.fresh(script.tools(params, stage.toolset()))),
        },
        (_, "resources/list") => result(json!({"resources": []})),
        (_, "resources/templates/list") => result(json!({"resourceTemplates": []})),
        (_, "resources/read") => result(script.fresh(json!({"contents": []}))),
        (_, "prompts/list") => result(json!({"prompts": []})),
        (_, "prompts/get") => result(json!({"messages": []})),
        (_, "completion/complete") => result(json!({"completion": {"values": []}})),
        _ => error(-32601),
    }
}

/// Tools: `echo`; `slow` answers after `seconds`, with progress every `every` seconds; `never` does not answer.
fn call(stage: &Stage, process: &Rc<Process>, id: &Value, params: &Value) -> Option<Value> {
    let arguments = &params["arguments"];
    let tag = arguments["tag"].as_str().unwrap_or_default().to_owned();
    stage.note_event(Event::Ran(tag.clone()));
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": tag}]}})
        .to_string();
    if params["name"] == "echo" {
        process.write(answer);
        return None;
    }
    let seconds = if params["name"] == "slow" { arguments["seconds"].as_f64() } else { None };
    let every = arguments["every"].as_f64().map(Duration::from_secs_f64);
    let token = params["_meta"]["progressToken"].clone();
    let cancelled = Rc::new(Notify::new());
    process.running.borrow_mut().push((id.to_string(), Rc::clone(&cancelled)));
    let (stage, serving) = (stage.clone(), Rc::clone(process));
    let task = spawn_local(async move {
        let end = async {
            match seconds {
                Some(seconds) => tokio::time::sleep(Duration::from_secs_f64(seconds)).await,
                None => std::future::pending().await,
            }
        };
        let report = async {
            let Some(every) = every else { return std::future::pending().await };
            for progress in 1.. {
                tokio::time::sleep(every).await;
                let params = json!({"progressToken": token, "progress": progress});
                let report = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
                serving.write(report.to_string());
            }
        };
        tokio::select! {
            () = end => serving.write(answer),
            () = report => {}
            () = cancelled.notified() => stage.note_event(Event::Cancelled(tag)),
        }
    });
    process.tasks.borrow_mut().push(task.abort_handle());
    None
}
