//! A client of the bridge, by hand-written lines.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use drowse_core::activity::Asker;
use drowse_runtime::bridge::Hub;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};
use tokio::task::spawn_local;

const PIPE: usize = 64 << 10;

/// A connection after its hello. Dropped, it is closed.
pub(crate) struct Caller {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    /// Messages that came while another one was waited for.
    unread: VecDeque<Value>,
    next_id: u64,
}

impl Caller {
    pub(crate) async fn connect(hub: &Hub) -> Self {
        let mut caller = Self::silent(hub);
        caller
            .line(
                &json!({"drowse": {"hello": {"versions": [1], "client": "0", "verbatim": true}}}).to_string(),
            )
            .await;
        let hello = caller.receive().await.expect("an answer to the hello");
        assert_eq!(hello["drowse"]["hello"]["version"], 1, "{hello}");
        caller
    }

    /// A client that begins with MCP, as on standard streams.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) fn of_proxy(hub: &Hub) -> Self {
        Self::of(hub, Asker::DevProxy)
    }

    /// The same for a client of that kind.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) fn of(hub: &Hub, asker: Asker) -> Self {
        Self::served(hub, Some(asker))
    }

    /// The same, of the legacy era; gives what it was told, too.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) async fn legacy(hub: &Hub, version: &str, capabilities: Value) -> (Self, Value) {
        let mut caller = Self::of_proxy(hub);
        let told = caller.initialize(version, capabilities).await;
        (caller, told)
    }

    /// The handshake of the legacy era.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) async fn initialize(&mut self, version: &str, capabilities: Value) -> Value {
        let params = json!({"protocolVersion": version, "capabilities": capabilities,
            "clientInfo": {"name": "old", "version": "1"}});
        self.plain(&json!("init"), "initialize", params).await;
        let told = self.answer(&json!("init")).await;
        self.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        told["result"].clone()
    }

    /// The first line of that handshake, and nothing awaited.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) async fn initialize_only(&mut self) {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "old", "version": "1"}});
        self.plain(&json!("init"), "initialize", params).await;
    }

    /// Sends a request as it stands.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) async fn plain(&mut self, id: &Value, method: &str, params: Value) {
        self.line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
    }

    /// A connection that has not said hello.
    pub(crate) fn silent(hub: &Hub) -> Self {
        Self::served(hub, None)
    }

    fn served(hub: &Hub, asker: Option<Asker>) -> Self {
        let (ours, theirs) = duplex(PIPE);
        let hub = hub.clone();
        spawn_local(async move {
            let (reader, writer) = split(theirs);
            match asker {
                None => hub.serve_connection(reader, writer).await,
                Some(asker) => hub.serve_client(reader, writer, asker).await,
            }
        });
        let (reader, writer) = split(ours);
        Self { reader: BufReader::new(reader), writer, unread: VecDeque::new(), next_id: 0 }
    }

    /// Writes a line as it stands. A bridge that is gone does not read it.
    pub(crate) async fn line(&mut self, line: &str) {
        let _ = self.writer.write_all(format!("{line}\n").as_bytes()).await;
    }

    /// Writes the same line so often, while nobody reads.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) fn line_of_many<'c>(
        &'c mut self,
        line: &str,
        count: usize,
    ) -> Pin<Box<dyn Future<Output = ()> + 'c>> {
        let lines = format!("{line}\n").repeat(count);
        Box::pin(async move { self.writer.write_all(lines.as_bytes()).await.unwrap() })
    }

    /// The next message; `None` at the end of the connection.
    pub(crate) async fn receive(&mut self) -> Option<Value> {
        if let Some(message) = self.unread.pop_front() {
            return Some(message);
        }
        self.read().await
    }

    /// The next message, if one is there by now.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) async fn waiting(&mut self) -> Option<Value> {
        if let Some(message) = self.unread.pop_front() {
            return Some(message);
        }
        // Nothing is lost by giving up: lines are short, and come whole.
        tokio::time::timeout(Duration::from_millis(1), self.read()).await.ok().flatten()
    }

    /// Reads the next line and keeps nothing of it but its length.
    #[allow(dead_code, reason = "each test crate uses a part of it")]
    pub(crate) async fn skip(&mut self) -> usize {
        let mut length = 0;
        loop {
            let bytes = self.reader.fill_buf().await.expect("the bridge is there");
            assert!(!bytes.is_empty(), "the connection ended");
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(bytes.len(), |end| end + 1);
            self.reader.consume(taken);
            length += taken;
            if end.is_some() {
                return length;
            }
        }
    }

    /// The next line, to the byte; `None` at the end of the connection. Passes by what waits for
    /// [`receive`](Self::receive).
    pub(crate) async fn next_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line).await;
        matches!(read, Ok(1..)).then(|| line.trim_end_matches('\n').to_owned())
    }

    async fn read(&mut self) -> Option<Value> {
        let line = self.next_line().await?;
        Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    /// Sends a request; its id. A member `_meta` of `params` is added to what every request has.
    pub(crate) async fn send(&mut self, method: &str, params: Value) -> Value {
        let id = json!(self.next_id);
        self.next_id += 1;
        self.send_as(&id, method, params).await;
        id
    }

    /// The same, with an id of the test's choice.
    pub(crate) async fn send_as(&mut self, id: &Value, method: &str, mut params: Value) {
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        let declared = meta["io.modelcontextprotocol/clientCapabilities"].take();
        meta["io.modelcontextprotocol/clientCapabilities"] =
            if declared.is_null() { json!({}) } else { declared };
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.line(&request.to_string()).await;
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()).await;
    }

    /// The answer to the request of that id; whatever else comes waits for [`receive`](Self::receive).
    pub(crate) async fn answer(&mut self, id: &Value) -> Value {
        let is_it = |message: &Value| message.get("method").is_none() && message["id"] == *id;
        if let Some(place) = self.unread.iter().position(is_it) {
            return self.unread.remove(place).unwrap();
        }
        loop {
            let message = self.read().await.unwrap_or_else(|| panic!("no answer to {id}"));
            if is_it(&message) {
                return message;
            }
            self.unread.push_back(message);
        }
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(&id).await
    }

    /// Starts a call of a tool; its id.
    pub(crate) async fn start(&mut self, tool: &str, arguments: Value) -> Value {
        self.send("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Calls a tool that succeeds.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.start(tool, arguments).await;
        let answer = self.answer(&id).await;
        assert!(answer.get("result").is_some(), "{answer}");
        answer
    }
}

/// `kind` and `ran` of a failure that drowse reports.
#[track_caller]
pub(crate) fn failure(answer: &Value) -> (&str, &str) {
    let data = &answer["error"]["data"]["drowse"];
    match (data["kind"].as_str(), data["ran"].as_str()) {
        (Some(kind), Some(ran)) => (kind, ran),
        _ => panic!("no failure of drowse's: {answer}"),
    }
}
