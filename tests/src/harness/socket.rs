//! A client of a bridge by hand-written lines.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};

use super::LIMIT;

/// A connection to a bridge. Dropped, it is closed.
#[derive(Debug)]
pub struct Socket {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    /// Messages that came while another one was waited for.
    unread: VecDeque<Value>,
    next_id: u64,
}

impl Socket {
    /// Connects and says hello.
    pub(super) fn connect(address: &Path) -> io::Result<Self> {
        let mut socket = Self::connect_silently(address)?;
        socket.line(&json!({"drowse": {"hello": {"versions": [1], "client": "0"}}}).to_string())?;
        match socket.read()? {
            Some(hello) if hello["drowse"]["hello"]["version"] == 1 => Ok(socket),
            other => Err(io::Error::other(format!("no hello: {other:?}"))),
        }
    }

    fn connect_silently(address: &Path) -> io::Result<Self> {
        let writer = UnixStream::connect(address)?;
        writer.set_read_timeout(Some(LIMIT))?;
        let reader = BufReader::new(writer.try_clone()?);
        Ok(Self { reader, writer, unread: VecDeque::new(), next_id: 0 })
    }

    /// Its writing end once more, for a thread that writes while another one reads.
    ///
    /// # Panics
    /// If this process has no descriptor left.
    #[must_use]
    pub fn writer(&self) -> UnixStream {
        self.writer.try_clone().expect("a descriptor")
    }

    /// Writes a line as it stands.
    ///
    /// # Errors
    /// If the bridge is gone.
    pub fn line(&mut self, line: &str) -> io::Result<()> {
        self.writer.write_all(format!("{line}\n").as_bytes())
    }

    fn read(&mut self) -> io::Result<Option<Value>> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => Ok(None),
            Ok(_) => serde_json::from_str(&line).map(Some).map_err(io::Error::other),
            // It left with something of ours unread.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The next message; `None` at the end of the connection.
    ///
    /// # Panics
    /// If nothing comes within [`LIMIT`], or no message.
    #[track_caller]
    pub fn receive(&mut self) -> Option<Value> {
        if let Some(message) = self.unread.pop_front() {
            return Some(message);
        }
        self.read().unwrap_or_else(|error| panic!("the bridge: {error}"))
    }

    /// Sends a request with an id of the test's choice. A member `_meta` of `params` is added to what every request
    /// has.
    ///
    /// # Panics
    /// If the bridge is gone.
    #[track_caller]
    pub fn send_as(&mut self, id: &Value, method: &str, mut params: Value) {
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.line(&request.to_string()).unwrap_or_else(|error| panic!("the bridge: {error}"));
    }

    /// Sends a request; its id.
    ///
    /// # Panics
    /// If the bridge is gone.
    #[track_caller]
    pub fn send(&mut self, method: &str, params: Value) -> Value {
        let id = json!(self.next_id);
        self.next_id += 1;
        self.send_as(&id, method, params);
        id
    }

    /// Starts a call of a tool; its id.
    ///
    /// # Panics
    /// If the bridge is gone.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.send("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// If the bridge is gone.
    pub fn notify(&mut self, method: &str, params: Value) -> io::Result<()> {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string())
    }

    /// The answer to the request of that id; whatever else comes waits for [`receive`](Self::receive).
    ///
    /// # Panics
    /// If it does not come.
    #[track_caller]
    pub fn answer(&mut self, id: &Value) -> Value {
        let is_it = |message: &Value| message.get("method").is_none() && message["id"] == *id;
        if let Some(place) = self.unread.iter().position(is_it) {
            return self.unread.remove(place).expect("it was just there");
        }
        loop {
            match self.read() {
                Ok(Some(message)) if is_it(&message) => return message,
                Ok(Some(message)) => self.unread.push_back(message),
                Ok(None) => panic!("no answer to {id}; before it came {:?}", self.unread),
                Err(error) => panic!("no answer to {id}: {error}"),
            }
        }
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(&id)
    }
}

/// `kind` and `ran` of a failure that drowse reports on a socket.
///
/// # Panics
/// If it is none.
#[must_use]
#[track_caller]
pub fn failure(answer: &Value) -> (&str, &str) {
    let data = &answer["error"]["data"]["drowse"];
    match (data["kind"].as_str(), data["ran"].as_str()) {
        (Some(kind), Some(ran)) => (kind, ran),
        _ => panic!("no failure of drowse's: {answer}"),
    }
}
