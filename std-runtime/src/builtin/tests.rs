//! The built-in server line by line, on a clock of the test's own.

mod input;
mod legacy;
mod modern;
mod offers;
mod waiting;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::server::Server;

/// 2026-11-30T12:00:00Z
fn noon() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_796_040_000)
}

/// A server, and the client that speaks to it.
struct Talk {
    server: Server,
    start: Instant,
    at: Duration,
}

impl Talk {
    fn new() -> Self {
        Self { server: Server::new(42, noon), start: Instant::now(), at: Duration::ZERO }
    }

    fn initialized(revision: &str) -> Self {
        let mut talk = Self::new();
        let answer = talk.send(&initialize(revision));
        assert_eq!(answer.len(), 1, "{answer:?}");
        assert_eq!(answer[0]["result"]["protocolVersion"], revision);
        assert!(talk.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).is_empty());
        talk
    }

    fn now(&self) -> Instant {
        self.start + self.at
    }

    /// What the server writes in answer to these bytes.
    fn line(&mut self, bytes: &[u8]) -> Vec<Value> {
        self.server.handle_line(self.now(), bytes);
        self.drain()
    }

    fn send(&mut self, message: &Value) -> Vec<Value> {
        self.line(format!("{message}\n").as_bytes())
    }

    /// The one answer to a request.
    fn ask(&mut self, message: &Value) -> Value {
        let mut answers = self.send(message);
        assert_eq!(answers.len(), 1, "{message} gave {answers:?}");
        answers.remove(0)
    }

    /// What the server writes when the clock has reached `ms`, waking it only when it asked to be woken.
    fn until(&mut self, ms: u64) -> Vec<Value> {
        let end = self.start + Duration::from_millis(ms);
        let mut lines = Vec::new();
        while let Some(due) = self.server.poll_timeout().filter(|due| *due <= end) {
            self.server.handle_timeout(due);
            let written = self.drain();
            assert!(
                !written.is_empty() || self.server.poll_timeout() != Some(due),
                "woken for nothing, and again at once"
            );
            lines.extend(written);
        }
        self.at = end - self.start;
        lines
    }

    fn drain(&mut self) -> Vec<Value> {
        let text = String::from_utf8(self.server.output().to_vec()).expect("output is UTF-8");
        self.server.discard_output();
        assert!(text.is_empty() || text.ends_with('\n'), "half a line: {text:?}");
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }
}

fn initialize(revision: &str) -> Value {
    request(
        0,
        "initialize",
        json!({
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"},
        }),
    )
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// A request of the modern era.
fn modern(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let mut request = request(id, method, params);
    let meta = &mut request["params"]["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    request
}

fn call(id: impl Into<Value>, name: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": name, "arguments": arguments}))
}

fn modern_call(id: impl Into<Value>, name: &str, arguments: Value) -> Value {
    modern(id, "tools/call", json!({"name": name, "arguments": arguments}))
}

fn cancelled(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id.into()}})
}

fn server_info() -> Value {
    json!({"name": "drowse-demo", "title": "drowse demo server", "version": env!("CARGO_PKG_VERSION")})
}

fn result_meta() -> Value {
    json!({"io.modelcontextprotocol/serverInfo": server_info()})
}

fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

#[track_caller]
fn assert_error(answer: &Value, id: Option<Value>, code: i64) {
    assert_eq!(answer["jsonrpc"], "2.0");
    assert_eq!(answer.get("id"), id.as_ref(), "{answer}");
    assert_eq!(answer["error"]["code"], code, "{answer}");
    assert!(!answer["error"]["message"].as_str().unwrap_or_default().is_empty(), "{answer}");
    assert!(answer.get("result").is_none(), "{answer}");
}
