//! A client by hand-written bytes, and what it speaks to.

use std::net::SocketAddr;
use std::time::Duration;

use drowse_core::era::Era;
use drowse_runtime::bridge::Hub;
use drowse_runtime::serve::{self, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};

use crate::bridge::{Script, Stage, sleepy};

/// When a test has hung.
const STALLED: Duration = Duration::from_secs(60);

/// An endpoint, and what is behind it.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) address: SocketAddr,
    pub(super) stage: Stage,
    pub(super) hub: Hub,
}

/// Runs a test against an endpoint in front of a server of that era.
pub(super) fn serve(era: Era, change: impl FnOnce(&mut Options), test: impl AsyncFnOnce(Endpoint)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let stage = Stage::new(Script { tools: 2, ..Script::of(era) });
        let hub = stage.proxy(sleepy());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut options = Options::default();
        change(&mut options);
        let serving = hub.clone();
        spawn_local(async move { serve::http(&serving, listener, options).await.unwrap() });
        let test = test(Endpoint { address, stage, hub });
        assert!(tokio::time::timeout(STALLED, test).await.is_ok(), "nothing happens any more");
    });
}

/// The same with everything as it is by default.
pub(super) fn plain(test: impl AsyncFnOnce(Endpoint)) {
    serve(Era::Legacy, |_| {}, test);
}

/// The head of a response.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }
}

/// An event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) id: Option<String>,
    pub(super) retry: Option<u64>,
    pub(super) data: Option<String>,
}

impl Event {
    pub(super) fn message(&self) -> Value {
        serde_json::from_str(self.data.as_deref().unwrap_or_default()).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

/// A connection.
pub(super) struct Client {
    pub(super) stream: TcpStream,
    /// What was read, and after its chunks were put together.
    raw: Vec<u8>,
    text: Vec<u8>,
}

impl Endpoint {
    pub(super) async fn connect(&self) -> Client {
        Client { stream: TcpStream::connect(self.address).await.unwrap(), raw: Vec::new(), text: Vec::new() }
    }

    /// A modern request on a connection of its own: its head, and its body.
    pub(super) async fn modern(&self, method: &str, params: Value) -> (Head, Value) {
        let mut client = self.connect().await;
        client.modern(&json!(1), method, params).await;
        client.answer().await
    }

    /// A session of a legacy client of that revision.
    pub(super) async fn session(&self, revision: &str) -> String {
        self.session_with(revision, json!({})).await
    }

    /// The same with these capabilities.
    pub(super) async fn session_with(&self, revision: &str, capabilities: Value) -> String {
        let mut client = self.connect().await;
        let params = json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}});
        client.post(&[], &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
        let (head, answer) = client.answer().await;
        assert_eq!((head.status, &answer["result"]["protocolVersion"]), (200, &json!(revision)), "{answer}");
        let session = head.header("mcp-session-id").expect("a session").to_owned();
        client
            .post(
                &[("mcp-session-id", &session)],
                &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            )
            .await;
        assert_eq!(client.head().await.status, 202);
        session
    }

    /// A message in a session, on a connection of its own.
    pub(super) async fn say(&self, session: &str, message: Value) -> (Head, Client) {
        let mut client = self.connect().await;
        client.post(&[("mcp-session-id", session)], &message).await;
        let head = client.head().await;
        (head, client)
    }

    /// A stream of a session, from an event on.
    pub(super) async fn listen(&self, session: &str, last: Option<&str>) -> (Head, Client) {
        let mut client = self.connect().await;
        let mut headers = vec![("accept", "text/event-stream"), ("mcp-session-id", session)];
        headers.extend(last.map(|last| ("last-event-id", last)));
        client.request("GET", &headers, "").await;
        let head = client.head().await;
        (head, client)
    }
}

/// A call of a tool of the stage.
pub(super) fn call(id: u64, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// The same with a token for progress.
pub(super) fn reporting(id: u64, arguments: Value) -> Value {
    let mut call = call(id, "slow", arguments);
    call["params"]["_meta"] = json!({"progressToken": "p"});
    call
}

/// What every modern request says.
pub(super) fn with_meta(mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    params
}

impl Client {
    pub(super) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Sends a request; a `host` that is not among the headers is that of this machine.
    pub(super) async fn request(&mut self, method: &str, headers: &[(&str, &str)], body: &str) {
        self.request_at(method, "/mcp", headers, body).await;
    }

    pub(super) async fn request_at(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) {
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            text.push_str("host: localhost\r\n");
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        self.write(text.as_bytes()).await;
    }

    /// Sends a message.
    pub(super) async fn post(&mut self, more: &[(&str, &str)], message: &Value) {
        let mut headers =
            vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        headers.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
        headers.extend_from_slice(more);
        self.request("POST", &headers, &message.to_string()).await;
    }

    /// Sends a modern request.
    pub(super) async fn modern(&mut self, id: &Value, method: &str, params: Value) {
        self.modern_with(&[], id, method, params).await;
    }

    pub(super) async fn modern_with(
        &mut self,
        more: &[(&str, &str)],
        id: &Value,
        method: &str,
        params: Value,
    ) {
        let params = with_meta(params);
        let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        if !name.is_empty() {
            headers.push(("mcp-name", &name));
        }
        headers.extend_from_slice(more);
        self.post(&headers, &message).await;
    }

    async fn more(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer).await {
            Ok(count @ 1..) => {
                self.raw.extend_from_slice(&buffer[..count]);
                true
            }
            _ => false,
        }
    }

    /// Whether the other end closed the connection, and said no more before.
    pub(super) async fn is_closed(&mut self) -> bool {
        self.raw.is_empty() && !self.more().await
    }

    /// The next head; a connection that ends instead fails.
    pub(super) async fn head(&mut self) -> Head {
        self.maybe_head().await.expect("a response")
    }

    pub(super) async fn maybe_head(&mut self) -> Option<Head> {
        self.text.clear();
        let end = loop {
            match self.raw.windows(4).position(|window| window == b"\r\n\r\n") {
                Some(end) => break end,
                None if self.more().await => {}
                None => return None,
            }
        };
        let text = String::from_utf8(self.raw.drain(..end + 4).collect()).unwrap();
        let mut lines = text.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines.filter_map(|line| line.split_once(": "));
        Some(Head {
            status,
            headers: headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect(),
        })
    }

    /// The next piece of a body in chunks.
    async fn chunk(&mut self) -> bool {
        loop {
            if let Some(end) = self.raw.windows(2).position(|window| window == b"\r\n") {
                let size = usize::from_str_radix(std::str::from_utf8(&self.raw[..end]).unwrap(), 16).unwrap();
                if self.raw.len() >= end + 2 + size + 2 {
                    self.raw.drain(..end + 2);
                    self.text.extend(self.raw.drain(..size));
                    self.raw.drain(..2);
                    return size > 0;
                }
            }
            if !self.more().await {
                return false;
            }
        }
    }

    pub(super) async fn body(&mut self, head: &Head) -> Vec<u8> {
        if let Some(length) = head.header("content-length") {
            let length: usize = length.parse().unwrap();
            while self.raw.len() < length {
                assert!(self.more().await, "the body ended early");
            }
            return self.raw.drain(..length).collect();
        }
        while self.chunk().await {}
        std::mem::take(&mut self.text)
    }

    /// The head and a body that is one JSON object.
    pub(super) async fn answer(&mut self) -> (Head, Value) {
        let head = self.head().await;
        let body = self.body(&head).await;
        let text = String::from_utf8_lossy(&body).into_owned();
        let value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{head:?} {text}"));
        (head, value)
    }

    /// The next event that is no comment; `None` at the end of the stream.
    pub(super) async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.any_event().await?.filter(|event| *event != Event::default()) {
                return Some(event);
            }
        }
    }

    /// The next event; within it `None`: a comment. `None` at the end of the stream.
    pub(super) async fn any_event(&mut self) -> Option<Option<Event>> {
        let end = loop {
            match self.text.windows(2).position(|window| window == b"\n\n") {
                Some(end) => break end,
                None if self.chunk().await => {}
                None => return None,
            }
        };
        let text = String::from_utf8(self.text.drain(..end + 2).collect()).unwrap();
        let mut event = Event::default();
        for line in text.trim_end_matches('\n').lines() {
            match line.split_once(": ").or_else(|| line.split_once(':')) {
                Some(("id", id)) => event.id = Some(id.to_owned()),
                Some(("retry", retry)) => event.retry = retry.parse().ok(),
                Some(("data", data)) => event.data = Some(data.to_owned()),
                Some(("", _)) => return Some(None),
                other => panic!("{other:?}"),
            }
        }
        Some(Some(event))
    }
}
