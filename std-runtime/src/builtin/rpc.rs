//! JSON-RPC 2.0 as MCP restricts it: reads one message, writes one line. Knows no method and no era.

use serde_json::{Map, Value, json};

/// A JSON object, as parameters and results are.
pub(super) type Object = Map<String, Value>;

/// What one JSON value turned out to be.
pub(super) enum Message {
    Request {
        id: Value,
        method: String,
        params: Object,
    },
    Notification {
        method: String,
        params: Object,
    },
    /// An answer to a request; this server never sends one, so there is nothing to match it with.
    Response,
    /// No message, and the failure to answer with; to the id where one could be read.
    Malformed {
        id: Option<Value>,
        failure: Failure,
    },
}

/// A JSON-RPC error, as it is sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    code: i64,
    message: String,
    data: Option<Value>,
}

impl Failure {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(super) fn parse(message: impl Into<String>) -> Self {
        Self::new(-32700, message)
    }

    pub(super) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(-32600, message)
    }

    pub(super) fn method_not_found(method: &str) -> Self {
        Self::new(-32601, format!("Method not found: {method}"))
    }

    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub(super) fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
}

impl Message {
    /// Reads one message.
    pub(super) fn read(value: Value) -> Self {
        let Value::Object(mut message) = value else {
            return Self::Malformed {
                id: None,
                failure: Failure::invalid_request("A message is a JSON object"),
            };
        };
        let id = message.remove("id");
        let readable_id = id.as_ref().filter(|id| is_id(id)).cloned();
        let invalid =
            |text: &str| Self::Malformed { id: readable_id.clone(), failure: Failure::invalid_request(text) };
        if message.get("jsonrpc") != Some(&json!("2.0")) {
            return invalid("\"jsonrpc\" must be \"2.0\"");
        }
        let method = match message.remove("method") {
            Some(Value::String(method)) => method,
            Some(_) => return invalid("\"method\" must be a string"),
            None if message.contains_key("result") || message.contains_key("error") => return Self::Response,
            None => return invalid("\"method\" is missing"),
        };
        if id.is_some() && readable_id.is_none() {
            return invalid("\"id\" must be a string or an integer");
        }
        let params = match message.remove("params") {
            None => Object::new(),
            Some(Value::Object(params)) => params,
            // A notification is never answered, not even a malformed one.
            Some(_) if id.is_none() => Object::new(),
            Some(_) => {
                let failure = Failure::invalid_params("\"params\" must be an object");
                return Self::Malformed { id: readable_id, failure };
            }
        };
        match readable_id {
            Some(id) => Self::Request { id, method, params },
            None => Self::Notification { method, params },
        }
    }
}

/// Whether `value` may be a request id or a progress token: a string or an integer.
pub(super) fn is_id(value: &Value) -> bool {
    value.is_string() || value.is_i64() || value.is_u64()
}

/// The response that answers `id`; an error whose request could not be read has no id.
pub(super) fn response(id: Option<Value>, outcome: Result<Object, Failure>) -> Value {
    let mut message = Object::new();
    message.insert("jsonrpc".into(), "2.0".into());
    if let Some(id) = id {
        message.insert("id".into(), id);
    }
    match outcome {
        Ok(result) => message.insert("result".into(), Value::Object(result)),
        Err(failure) => {
            let mut error = Object::new();
            error.insert("code".into(), failure.code.into());
            error.insert("message".into(), failure.message.into());
            if let Some(data) = failure.data {
                error.insert("data".into(), data);
            }
            message.insert("error".into(), Value::Object(error))
        }
    };
    Value::Object(message)
}

/// A notification.
pub(super) fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// Appends `message` to `lines`, as one line.
pub(super) fn write_line(lines: &mut Vec<u8>, message: &Value) {
    // Serializing a `Value` into memory cannot fail: its keys are strings and a `Vec` takes any byte.
    let written = serde_json::to_writer(&mut *lines, message);
    debug_assert!(written.is_ok(), "a Value is always serializable");
    lines.push(b'\n');
}
