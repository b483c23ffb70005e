//! A client of few words: what it is told to say, over sockets, and what comes back as it came.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use drowse_tests::harness::HttpServer;
use serde_json::{Value, json};

use super::peer::{LIMIT, initialize, modern, request};

pub const BOTH: &str = "application/json, text/event-stream";

/// One connection.
pub struct Wire {
    reader: BufReader<TcpStream>,
    /// What of the body was read and is no event yet.
    unread: Vec<u8>,
    framing: Framing,
}

#[derive(Clone, Copy, PartialEq)]
enum Framing {
    Left(usize),
    Chunked,
    UntilClose,
    Over,
}

#[derive(Debug)]
pub struct Head {
    pub status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// One event of a stream, or a comment.
#[derive(Debug, Default, PartialEq)]
pub struct Event {
    pub name: Option<String>,
    pub id: Option<String>,
    pub data: Option<String>,
    pub retry: Option<String>,
    pub comment: bool,
}

impl Event {
    pub fn message(&self) -> Value {
        serde_json::from_str(self.data.as_deref().expect("data")).unwrap()
    }
}

impl Wire {
    pub fn open(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        Self { reader: BufReader::new(socket), unread: Vec::new(), framing: Framing::Over }
    }

    /// Sends a request. `Host` and `Content-Length` are as they should be.
    pub fn send(&mut self, verb: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        let socket = self.reader.get_mut();
        let mut head = format!("{verb} {path} HTTP/1.1\r\nHost: {}\r\n", socket.peer_addr().unwrap());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if verb == "POST" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        socket.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// The head of the response, if there is one.
    pub fn try_head(&mut self) -> io::Result<Head> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let head = Head { status, headers };
        self.framing = match (head.header("content-length"), head.header("transfer-encoding")) {
            (Some(length), _) => Framing::Left(length.parse().unwrap()),
            (None, Some("chunked")) => Framing::Chunked,
            _ => Framing::UntilClose,
        };
        Ok(head)
    }

    pub fn head(&mut self) -> Head {
        self.try_head().expect("a response")
    }

    /// The next part of the body; empty at its end, an error if it ends where it should not.
    fn part(&mut self) -> io::Result<Vec<u8>> {
        let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
        match self.framing {
            Framing::Over | Framing::Left(0) => Ok(Vec::new()),
            Framing::Left(left) => {
                let mut bytes = vec![0; left.min(1 << 16)];
                let read = self.reader.read(&mut bytes)?;
                bytes.truncate(read);
                self.framing = Framing::Left(left - read);
                if read == 0 { Err(cut()) } else { Ok(bytes) }
            }
            Framing::Chunked => {
                let size = usize::from_str_radix(&self.line()?, 16).unwrap();
                let mut bytes = vec![0; size];
                self.reader.read_exact(&mut bytes)?;
                assert_eq!(self.line()?, "");
                if size == 0 {
                    self.framing = Framing::Over;
                }
                Ok(bytes)
            }
            Framing::UntilClose => {
                let mut bytes = vec![0; 1 << 16];
                let read = self.reader.read(&mut bytes)?;
                bytes.truncate(read);
                Ok(bytes)
            }
        }
    }

    /// The rest of the body, or how far it got.
    pub fn try_body(&mut self) -> Result<Vec<u8>, Vec<u8>> {
        let mut body = std::mem::take(&mut self.unread);
        loop {
            match self.part() {
                Ok(part) if part.is_empty() => return Ok(body),
                Ok(part) => body.extend(part),
                Err(_) => return Err(body),
            }
        }
    }

    pub fn body(&mut self) -> String {
        String::from_utf8(self.try_body().expect("a whole body")).unwrap()
    }

    /// The next event or comment; `None` at the end of the stream, an error if it is cut off.
    pub fn try_event(&mut self) -> io::Result<Option<Event>> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\n\n") {
                let rest = self.unread.split_off(end + 2);
                let block = std::mem::replace(&mut self.unread, rest);
                let block = String::from_utf8(block).unwrap();
                let mut event = Event::default();
                for line in block.lines().filter(|line| !line.is_empty()) {
                    let (field, value) = line.split_once(':').unwrap();
                    let value = Some(value.strip_prefix(' ').unwrap_or(value).to_owned());
                    match field {
                        "event" => event.name = value,
                        "id" => event.id = value,
                        "data" => event.data = value,
                        "retry" => event.retry = value,
                        "" => event.comment = true,
                        other => panic!("{other}"),
                    }
                }
                return Ok(Some(event));
            }
            let part = self.part()?;
            if part.is_empty() {
                assert_eq!(self.unread, b"", "half an event at the end");
                return Ok(None);
            }
            self.unread.extend(part);
        }
    }

    /// The next message of a stream.
    pub fn message(&mut self) -> Value {
        loop {
            let event = self.try_event().expect("a stream that goes on").expect("an event");
            if event.data.as_deref().is_some_and(|data| !data.is_empty()) {
                return event.message();
            }
        }
    }

    /// That nothing comes any more.
    pub fn is_at_end(&mut self) -> bool {
        matches!(self.reader.read(&mut [0]), Ok(0) | Err(_))
    }
}

/// A client that behaves: one connection for each request, so that none waits for another.
pub struct Client {
    address: SocketAddr,
    pub session: Option<String>,
}

impl Client {
    pub fn of(server: &HttpServer) -> Self {
        Self { address: server.address(), session: None }
    }

    pub fn wire(&self) -> Wire {
        Wire::open(self.address)
    }

    /// Sends a request with these headers more.
    pub fn post(&self, headers: &[(&str, &str)], message: &Value) -> Wire {
        let mut wire = self.wire();
        let all = [&[("Accept", BOTH), ("Content-Type", "application/json")], headers].concat();
        wire.send("POST", "/mcp", &all, &message.to_string());
        wire
    }

    /// Sends a modern request with the headers that go with it.
    pub fn modern(&self, message: &Value) -> Wire {
        let (method, params) = (message["method"].as_str().unwrap(), &message["params"]);
        let mut headers = vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
        let name = params["name"].as_str().or(params["uri"].as_str());
        headers.extend(name.map(|name| ("Mcp-Name", name)));
        self.post(&headers, message)
    }

    /// Sends a legacy message with the headers that go with it.
    pub fn legacy(&self, message: &Value) -> Wire {
        self.post(&self.headers(), message)
    }

    pub fn headers(&self) -> Vec<(&str, &str)> {
        let session = self.session.as_deref().map(|session| ("Mcp-Session-Id", session));
        session.into_iter().chain([("MCP-Protocol-Version", "2025-11-25")]).collect()
    }

    /// Opens the stream of the legacy era, or resumes one.
    pub fn get(&self, last_event: Option<&str>) -> Wire {
        let mut headers = self.headers();
        headers.push(("Accept", "text/event-stream"));
        headers.extend(last_event.map(|id| ("Last-Event-ID", id)));
        let mut wire = self.wire();
        wire.send("GET", "/mcp", &headers, "");
        wire
    }

    /// Begins a session.
    pub fn initialize(&mut self) {
        let mut wire = self.post(&[], &initialize("2025-11-25"));
        let head = wire.head();
        assert_eq!(head.status, 200);
        self.session = head.header("mcp-session-id").map(Into::into);
        assert_eq!(wire.body_message(&head)["result"]["protocolVersion"], "2025-11-25");
        let mut wire = self.legacy(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!((wire.head().status, wire.body().as_str()), (202, ""));
    }
}

impl Wire {
    /// The status and the message in the body.
    pub fn answer(mut self) -> (u16, Value) {
        let head = self.head();
        let message = self.body_message(&head);
        (head.status, message)
    }

    /// The response in a body of either kind.
    pub fn body_message(&mut self, head: &Head) -> Value {
        if head.header("content-type") == Some("application/json") {
            return serde_json::from_str(&self.body()).unwrap();
        }
        loop {
            let message = self.message();
            if message.get("method").is_none() {
                return message;
            }
        }
    }
}

pub fn tool(id: impl Into<Value>, name: &str, arguments: Value) -> Value {
    modern(id, "tools/call", json!({"name": name, "arguments": arguments}))
}

pub fn listen(id: impl Into<Value>, filter: Value) -> Value {
    modern(id, "subscriptions/listen", json!({"notifications": filter}))
}

pub fn legacy_tool(id: impl Into<Value>, name: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": name, "arguments": arguments}))
}
