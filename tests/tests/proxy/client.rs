//! A small client over HTTP, of either era: a connection for each request.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use drowse_tests::harness::Session;
use serde_json::{Value, json};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client of a session's port.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    authority: String,
    path: String,
    /// What it calls the host.
    host: String,
    token: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    /// The last message in it.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let data = self.body.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&self.body);
        serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Client {
    /// Of the place where the session says that it is shared.
    #[track_caller]
    pub(crate) fn of(session: &Session<'_>) -> Self {
        let url = session.state().and_then(|state| state.shared_at).expect("it is shared");
        let (authority, path) =
            url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("a URL");
        let (authority, path) = (authority.to_owned(), format!("/{path}"));
        Self { host: authority.clone(), authority, path, token: None }
    }

    pub(crate) fn port(&self) -> u16 {
        self.authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port")
    }

    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    pub(crate) fn by_name(&self, host: &str) -> Self {
        Self { host: host.to_owned(), ..self.clone() }
    }

    pub(crate) fn try_send(
        &self,
        method: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Response> {
        let mut stream = TcpStream::connect(&self.authority)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut head = format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            self.path,
            self.host,
            body.len()
        );
        if let Some(token) = &self.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text)?;
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Response { status, head: head.to_owned(), body: body.to_owned() })
    }

    #[track_caller]
    pub(crate) fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Response {
        self.try_send(method, headers, body)
            .unwrap_or_else(|error| panic!("{method} {}: {error}", self.authority))
    }

    /// A request of the modern era.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, params: Value) -> Response {
        self.try_ask(method, params).unwrap_or_else(|error| panic!("{method} {}: {error}", self.authority))
    }

    pub(crate) fn try_ask(&self, method: &str, mut params: Value) -> io::Result<Response> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let name = params.get("name").or(params.get("uri")).and_then(Value::as_str).map(ToOwned::to_owned);
        let mut headers = vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
        headers.extend(name.as_deref().map(|name| ("Mcp-Name", name)));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        self.try_send("POST", &headers, &body)
    }

    /// A call of a tool, in the modern era; the text that it answers.
    #[track_caller]
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> String {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).json();
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Asks for a session of the legacy era.
    #[track_caller]
    pub(crate) fn initialize(&self) -> Response {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
        self.send("POST", &[], &body)
    }

    /// A session of the legacy era.
    #[track_caller]
    pub(crate) fn open(&self) -> Stateful {
        let response = self.initialize();
        assert_eq!(response.status, 200, "{response:?}");
        let id = response.header("Mcp-Session-Id").expect("a session").to_owned();
        Stateful { client: self.clone(), id }
    }
}

pub(crate) struct Stateful {
    client: Client,
    id: String,
}

impl Stateful {
    fn headers(&self) -> [(&str, &str); 2] {
        [("Mcp-Session-Id", &self.id), ("MCP-Protocol-Version", "2025-06-18")]
    }

    #[track_caller]
    pub(crate) fn ask(&self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        self.client.send("POST", &self.headers(), &body).json()
    }

    /// The status of a request of it.
    #[track_caller]
    pub(crate) fn status(&self) -> u16 {
        self.client.send("POST", &self.headers(), r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#).status
    }

    #[track_caller]
    pub(crate) fn delete(&self) {
        let status = self.client.send("DELETE", &self.headers(), "").status;
        assert!((200..300).contains(&status), "{status}");
    }
}
