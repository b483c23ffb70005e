//! The MCP server on the stage behind a URL: a [`Client`] whose network is a function call.
//!
//! It speaks one of the dialects of [`Peer`], well-behaved save where its script says otherwise, or where a test took a
//! request for itself by [`Site::take_next`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use drowse_core::era::Era;
use drowse_core::lifecycle::Exit;
use drowse_runtime::bridge::{Body, Client, Failed, LocalFuture, Response};
use http::{HeaderMap, Request, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;

use super::server::{self, Process};
use super::{Event, Peer, Stage};

/// A request of HTTP as the server saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) at: Duration,
    pub(crate) verb: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    /// What it carried; null if nothing.
    pub(crate) message: Value,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The method of the protocol, or else that of HTTP.
    pub(crate) fn what(&self) -> &str {
        self.message["method"].as_str().unwrap_or(&self.verb)
    }
}

enum Piece {
    Chunk(Bytes),
    Broken,
}

/// The server's side of an exchange. Dropped before the head was given, it breaks the connection; dropped later, it ends
/// the body.
pub(crate) struct Respond {
    head: Option<oneshot::Sender<Result<Response, Failed>>>,
    body: mpsc::UnboundedSender<Piece>,
    pieces: Option<mpsc::UnboundedReceiver<Piece>>,
}

fn broken() -> Failed {
    Failed { connected: true, text: "the connection broke".into() }
}

impl Respond {
    /// Gives the head of the response.
    pub(crate) fn head(&mut self, status: u16, headers: &[(&'static str, &str)]) {
        let pieces = self.pieces.take().expect("one head");
        let mut response = http::Response::new(Box::new(Pieces(pieces)) as Box<dyn Body>);
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in headers {
            response.headers_mut().append(*name, value.parse().unwrap());
        }
        let _ = self.head.take().expect("one head").send(Ok(response));
    }

    pub(crate) fn chunk(&self, bytes: impl Into<Bytes>) {
        let _ = self.body.send(Piece::Chunk(bytes.into()));
    }

    /// An event with these lines, of data if they say nothing else.
    pub(crate) fn event(&self, id: Option<&str>, data: &Value) {
        let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
        self.chunk(format!("{id}data: {data}\n\n"));
    }

    /// Breaks the connection.
    pub(crate) fn breaks(mut self) {
        match self.head.take() {
            Some(head) => drop(head.send(Err(broken()))),
            None => drop(self.body.send(Piece::Broken)),
        }
    }

    /// There never was a connection.
    pub(crate) fn refuses(mut self) {
        let failed = Failed { connected: false, text: "connection refused".into() };
        let _ = self.head.take().unwrap().send(Err(failed));
    }

    /// A whole response.
    pub(crate) fn whole(mut self, status: u16, headers: &[(&'static str, &str)], body: impl Into<Bytes>) {
        self.head(status, headers);
        self.chunk(body);
    }

    /// A whole response with a message.
    pub(crate) fn json(self, status: u16, message: &Value) {
        self.whole(status, &[("content-type", "application/json")], message.to_string());
    }

    /// The head of a stream of events.
    pub(crate) fn streams(&mut self) {
        self.head(200, &[("content-type", "text/event-stream")]);
    }

    /// Nobody waits for it any more.
    pub(crate) async fn abandoned(&mut self) {
        match &mut self.head {
            Some(head) => head.closed().await,
            None => self.body.closed().await,
        }
    }
}

struct Pieces(mpsc::UnboundedReceiver<Piece>);

impl Body for Pieces {
    fn chunk(&mut self) -> LocalFuture<'_, Result<Option<Bytes>, Failed>> {
        Box::pin(async {
            match self.0.recv().await {
                Some(Piece::Chunk(bytes)) => Ok(Some(bytes)),
                Some(Piece::Broken) => Err(broken()),
                None => Ok(None),
            }
        })
    }
}

type Handler = Box<dyn FnOnce(Seen, Respond)>;

/// A server behind a URL, however often drowse begins anew with it.
pub(crate) struct Site {
    url: url::Url,
    began: tokio::time::Instant,
    seen: RefCell<Vec<Seen>>,
    taken: RefCell<Vec<(&'static str, Handler)>>,
    sessions: RefCell<Vec<String>>,
    last_session: Cell<u64>,
    /// The stream that belongs to no request.
    stream: RefCell<Option<Rc<Respond>>>,
    /// Each request of a tool that runs is like a process that answers one request.
    running: RefCell<Vec<(Value, Rc<Process>)>>,
    /// What sessions subscribed to.
    subscriber: Rc<Process>,
}

impl Site {
    pub(super) fn new() -> Rc<Self> {
        Rc::new(Self {
            url: "http://site.test/mcp".parse().unwrap(),
            began: tokio::time::Instant::now(),
            seen: RefCell::default(),
            taken: RefCell::default(),
            sessions: RefCell::default(),
            last_session: Cell::default(),
            stream: RefCell::default(),
            running: RefCell::default(),
            subscriber: Process::of_request(),
        })
    }

    /// Every request so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.borrow().clone()
    }

    /// Those with that method, of the protocol or of HTTP.
    pub(crate) fn requests(&self, what: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.what() == what).collect()
    }

    /// The next request with that method is for the test.
    pub(crate) fn take_next(&self, what: &'static str, handler: impl FnOnce(Seen, Respond) + 'static) {
        self.taken.borrow_mut().push((what, Box::new(handler)));
    }

    /// The server forgets its sessions and what they subscribed to. Streams stay as they are, but for modern ones of
    /// announcements, which end.
    pub(crate) fn forget(&self) {
        self.sessions.borrow_mut().clear();
        self.subscriber.forget_subscriptions();
        self.running.borrow().iter().for_each(|(_, process)| process.end_streams());
    }

    pub(crate) fn sessions(&self) -> Vec<String> {
        self.sessions.borrow().clone()
    }

    /// Ends every exchange that is under way, unanswered.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) fn end_exchanges(&self) {
        self.running.borrow().iter().for_each(|(_, process)| process.close_output());
    }

    /// Ends the stream that belongs to no request.
    pub(crate) fn end_stream(&self) {
        self.stream.borrow_mut().take();
    }

    /// Says something that belongs to no request, where there is a stream for it.
    pub(crate) fn says(&self, line: &str) {
        if let Some(stream) = &*self.stream.borrow() {
            return stream.chunk(events(line));
        }
        self.says_to(None, line);
    }

    /// Says something on the stream of the request of that id, or of the last that runs. `false`: there is none.
    pub(crate) fn says_to(&self, id: Option<&Value>, line: &str) -> bool {
        let running = self.running.borrow();
        let found = running.iter().rev().find(|(of, _)| id.is_none_or(|id| id == of));
        found.inspect(|(_, process)| process.write(line.to_owned())).is_some()
    }

    /// What it announces, as a process would.
    pub(super) fn subscriptions(&self) -> Vec<String> {
        let mut all = self.subscriber.subscriptions();
        all.extend(self.running.borrow().iter().flat_map(|(_, process)| process.subscriptions()));
        all.sort();
        all
    }

    /// Announces an update to whoever subscribed, and to nobody else.
    pub(super) fn update(&self, uri: &str) {
        if self.subscriber.subscriptions().iter().any(|known| known == uri) {
            let method = "notifications/resources/updated";
            self.says(&json!({"jsonrpc": "2.0", "method": method, "params": {"uri": uri}}).to_string());
        }
        self.running.borrow().iter().for_each(|(_, process)| process.update(uri));
    }

    /// Announces that the list of tools changed.
    pub(super) fn change_tools(&self, era: Era) {
        if era == Era::Legacy {
            let method = "notifications/tools/list_changed";
            return self.says(&json!({"jsonrpc": "2.0", "method": method}).to_string());
        }
        for (_, process) in self.running.borrow().iter().filter(|(_, process)| process.open_streams() > 0) {
            process.change_tools();
        }
    }

    fn reply(self: &Rc<Self>, stage: &Stage, seen: Seen, mut respond: Respond) {
        let peer = stage.script().peer;
        let known = seen
            .header("mcp-session-id")
            .is_some_and(|session| self.sessions.borrow().iter().any(|known| known == session));
        match (seen.verb.as_str(), peer) {
            ("DELETE", _) if known => {
                stage.note_event(Event::InputClosed);
                let (site, stage) = (Rc::clone(self), stage.clone());
                spawn_local(async move {
                    if stage.script().ignores_input_end {
                        return respond.abandoned().await;
                    }
                    tokio::time::sleep(stage.script().lingers).await;
                    let session = seen.header("mcp-session-id").unwrap().to_owned();
                    site.sessions.borrow_mut().retain(|known| *known != session);
                    stage.note_event(Event::Exited(Exit::Status(0)));
                    respond.whole(200, &[], "");
                });
            }
            ("GET", Peer::Old) => {
                respond.streams();
                respond.chunk("event: endpoint\ndata: /messages?session=1\n\n");
                *self.stream.borrow_mut() = Some(Rc::new(respond));
            }
            ("GET", Peer::Session) if known => {
                respond.streams();
                *self.stream.borrow_mut() = Some(Rc::new(respond));
            }
            (_, Peer::Session) if seen.header("mcp-session-id").is_some() && !known => {
                respond.json(
                    404,
                    &json!({"jsonrpc": "2.0", "id": null,
                    "error": {"code": -32001, "message": "Session not found"}}),
                );
            }
            (_, Peer::Session) if !known && seen.what() != "initialize" => {
                respond.json(
                    400,
                    &json!({"jsonrpc": "2.0", "id": null,
                    "error": {"code": -32000, "message": "Bad Request: no valid session ID provided"}}),
                );
            }
            ("POST", Peer::Old) if seen.path == "/mcp" => respond.whole(405, &[], ""),
            ("POST", _) => self.post(stage, &seen, respond),
            _ => respond.whole(405, &[], ""),
        }
    }

    fn post(self: &Rc<Self>, stage: &Stage, seen: &Seen, mut respond: Respond) {
        let (peer, message) = (stage.script().peer, &seen.message);
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
            if message["method"] == "notifications/cancelled" {
                let id = message["params"]["requestId"].to_string();
                for (_, process) in &*self.running.borrow() {
                    process.cancel(&id);
                }
            }
            return respond.whole(202, &[], "");
        };
        let process = match method {
            "resources/subscribe" | "resources/unsubscribe" => Rc::clone(&self.subscriber),
            _ => Process::of_request(),
        };
        let (sender, mut lines) = mpsc::unbounded_channel::<String>();
        process.writes_to(sender);
        let by_hand = stage.is_by_hand();
        let answer =
            if by_hand { None } else { server::request(stage, &process, method, id, &message["params"]) };
        if let Some(answer) = answer {
            if peer == Peer::Old {
                self.says(&answer.to_string());
                return respond.whole(202, &[], "");
            }
            if method == "initialize" && answer.get("result").is_some() && peer == Peer::Session {
                self.last_session.set(self.last_session.get() + 1);
                let session = format!("session-{}", self.last_session.get());
                self.sessions.borrow_mut().push(session.clone());
                let headers = [("content-type", "application/json"), ("mcp-session-id", session.as_str())];
                return respond.whole(200, &headers, answer.to_string());
            }
            let status = if answer.get("error").is_some() && peer == Peer::Modern { 404 } else { 200 };
            return respond.json(status, &answer);
        }
        // It runs: its messages come on a stream.
        self.running.borrow_mut().push((id.clone(), Rc::clone(&process)));
        let (site, stage, id) = (Rc::clone(self), stage.clone(), id.clone());
        if peer == Peer::Old {
            respond.whole(202, &[], "");
            spawn_local(async move {
                while let Some(line) = lines.recv().await {
                    site.says(&line);
                }
            });
            return;
        }
        if stage.script().mute_calls {
            // Not even the head.
            return drop(spawn_local(async move { respond.abandoned().await }));
        }
        respond.streams();
        spawn_local(async move {
            loop {
                let line = tokio::select! {
                    biased;
                    line = lines.recv() => line,
                    () = respond.abandoned() => break,
                };
                let Some(line) = line else { break };
                respond.chunk(events(&line));
                let message: Value = serde_json::from_str(&line).unwrap_or_default();
                if message.get("method").is_none() && message["id"] == id {
                    site.running.borrow_mut().retain(|(_, other)| !Rc::ptr_eq(other, &process));
                    return;
                }
            }
            site.running.borrow_mut().retain(|(_, other)| !Rc::ptr_eq(other, &process));
            if stage.is_by_hand() {
                stage.note_line(&format!("closed {id}"));
            }
            if stage.script().peer == Peer::Modern {
                process.cancel(&id.to_string());
            }
        });
    }
}

fn events(line: &str) -> String {
    let lines: Vec<String> = line.split('\n').map(|line| format!("data: {line}\n")).collect();
    lines.concat() + "\n"
}

/// What one generation of a hub has of a site.
pub(super) struct Visit {
    pub(super) site: Rc<Site>,
    pub(super) stage: Stage,
    pub(super) began: tokio::time::Instant,
}

impl Client for Visit {
    fn send(&self, request: Request<Bytes>) -> LocalFuture<'static, Result<Response, Failed>> {
        let (site, stage) = (Rc::clone(&self.site), self.stage.clone());
        let ready = self.began + stage.script().boot;
        Box::pin(async move {
            tokio::time::sleep_until(ready).await;
            let (parts, body) = request.into_parts();
            assert!(body.is_empty() || parts.headers["content-type"] == "application/json");
            assert!(parts.headers.contains_key("accept") || parts.method == "DELETE");
            let seen = Seen {
                at: site.began.elapsed(),
                verb: parts.method.to_string(),
                path: parts.uri.path().to_owned(),
                headers: parts.headers,
                message: if body.is_empty() {
                    Value::Null
                } else {
                    serde_json::from_slice(&body).expect("drowse sends JSON")
                },
            };
            check_metadata(stage.script().peer, &seen);
            site.seen.borrow_mut().push(seen.clone());
            let (head, response) = oneshot::channel();
            let (chunks, pieces) = mpsc::unbounded_channel();
            let mut respond = Respond { head: Some(head), body: chunks, pieces: Some(pieces) };
            if seen.verb == "POST" && !(stage.script().peer == Peer::Old && seen.path == "/mcp") {
                stage.note_event(Event::Got(seen.message.clone()));
                stage.note_line(std::str::from_utf8(&body).expect("drowse sends text"));
            }
            let handler = {
                let mut taken = site.taken.borrow_mut();
                let place = taken.iter().position(|(what, _)| *what == seen.what());
                place.map(|place| taken.remove(place).1)
            };
            let silent = stage.script().ignores_keepalive
                && !stage.outcomes().is_empty()
                && matches!(seen.what(), "ping" | "server/discover");
            match handler {
                Some(handler) => handler(seen, respond),
                None if silent => drop(spawn_local(async move { respond.abandoned().await })),
                None => site.reply(&stage, seen, respond),
            }
            response.await.unwrap_or_else(|_| Err(broken()))
        })
    }

    fn url(&self) -> &url::Url {
        &self.site.url
    }
}

/// What the headers of every request have to say (basic/transports/streamable-http of both eras).
fn check_metadata(peer: Peer, seen: &Seen) {
    let version = seen.header("mcp-protocol-version");
    let modern_request = seen.message["params"]["_meta"].get("io.modelcontextprotocol/protocolVersion");
    match (peer.era(), seen.what()) {
        (_, "server/discover") => {
            assert_eq!(version, Some("2026-07-28"));
            assert_eq!(seen.header("mcp-method"), Some("server/discover"));
        }
        (_, "initialize") => assert_eq!(version, None, "nothing is agreed on"),
        (Era::Modern, what) => {
            let method = seen.header("mcp-method");
            assert_eq!((version, method), (Some("2026-07-28"), Some(what)), "{:?}", seen.message);
            assert_eq!(modern_request, Some(&json!("2026-07-28")));
            assert_eq!(seen.header("mcp-session-id"), None);
            assert_eq!(seen.verb, "POST", "a modern server takes nothing else");
        }
        (Era::Legacy, what) => {
            assert_eq!(modern_request, None);
            assert_eq!(seen.header("mcp-method"), None);
            if !(peer == Peer::Old && what == "GET") {
                assert_eq!(version, Some("2025-11-25"), "{what}");
            }
            assert_eq!(seen.header("mcp-session-id").is_some(), peer == Peer::Session, "{what}");
        }
    }
}
