//! What the built-in server offers: its tools, resources and prompt, their descriptions and what they do.
//!
//! Everything here is the same in both eras and for every caller; nothing here waits or remembers.

use serde_json::{Value, json};

use super::rpc::{Failure, Object};

/// The resource whose text changes, and with it the only one that is ever announced as updated.
pub(super) const CLOCK: &str = "demo://clock";
const GREETING: &str = "demo://greeting";

/// An hour: long enough to outlast every time-out worth trying, short enough not to be forgotten for ever.
const SLEEP_MAX_MS: u64 = 3_600_000;

/// What a tool may know about the process that runs it and the request that calls it.
pub(super) struct Surroundings {
    pub(super) pid: u32,
    /// When the process started, RFC 3339.
    pub(super) started_at: String,
    /// `legacy` or `modern`.
    pub(super) era: &'static str,
    pub(super) protocol_version: &'static str,
    /// Tool calls of this process so far, this one included.
    pub(super) calls: u64,
}

/// What became of a tool call.
pub(super) enum Called {
    Done(Object),
    /// Answer with [`slept`] when this many milliseconds have passed.
    Sleep(u64),
}

/// The value of `tools` in `tools/list`.
pub(super) fn tools() -> Value {
    json!([
        {
            "name": "echo",
            "title": "Echo",
            "description": "Returns the given text unchanged. Use it to see that a call arrives and comes back.",
            "inputSchema": {
                "type": "object",
                "properties": {"text": {"type": "string", "description": "The text to return"}},
                "required": ["text"],
                "additionalProperties": false
            },
            "annotations": {"readOnlyHint": true, "openWorldHint": false}
        },
        {
            "name": "add",
            "title": "Add two numbers",
            "description": "Adds two numbers and returns their sum, as text and as structured content.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "a": {"type": "number", "description": "The first summand"},
                    "b": {"type": "number", "description": "The second summand"}
                },
                "required": ["a", "b"],
                "additionalProperties": false
            },
            "outputSchema": {
                "type": "object",
                "properties": {"sum": {"type": "number", "description": "a + b"}},
                "required": ["sum"],
                "additionalProperties": false
            },
            "annotations": {"readOnlyHint": true, "openWorldHint": false}
        },
        {
            "name": "sleep",
            "title": "Sleep",
            "description": "Waits before it answers, reporting progress every 100 ms to callers that ask for it. \
                Other calls are answered meanwhile, and a cancelled sleep ends at once. Use it to try time-outs, \
                progress and cancellation.",
            "inputSchema": {
                "type": "object",
                "properties": {"ms": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": SLEEP_MAX_MS,
                    "description": "How long to wait, in milliseconds"
                }},
                "required": ["ms"],
                "additionalProperties": false
            },
            "annotations": {"readOnlyHint": true, "openWorldHint": false}
        },
        {
            "name": "whoami",
            "title": "Who am I talking to",
            "description": "Describes the server process that answers: its pid, when it was started, the protocol \
                era of this call, and how many tool calls it has had. A new pid after a pause means that the server \
                was put to sleep and woken again.",
            "inputSchema": {"type": "object", "additionalProperties": false},
            "outputSchema": {
                "type": "object",
                "properties": {
                    "pid": {"type": "integer", "description": "Process id of the server"},
                    "startedAt": {"type": "string", "format": "date-time", "description": "Start of the process"},
                    "era": {"enum": ["legacy", "modern"], "description": "The protocol era of this call"},
                    "protocolVersion": {"type": "string", "description": "The protocol revision of this call"},
                    "calls": {"type": "integer", "description": "Tool calls so far, this one included"}
                },
                "required": ["pid", "startedAt", "era", "protocolVersion", "calls"],
                "additionalProperties": false
            },
            "annotations": {"readOnlyHint": true, "openWorldHint": false}
        }
    ])
}

/// Calls a tool. Arguments that do not fit its schema are a result with `isError`, so that a model can correct
/// itself.
///
/// # Errors
///
/// There is no tool of that name.
pub(super) fn call(name: &str, arguments: &Object, surroundings: &Surroundings) -> Result<Called, Failure> {
    let outcome = match name {
        "echo" => echo(arguments).map(Called::Done),
        "add" => add(arguments).map(Called::Done),
        "sleep" => sleep(arguments).map(Called::Sleep),
        "whoami" => whoami(arguments, surroundings).map(Called::Done),
        _ => return Err(Failure::invalid_params(format!("Unknown tool: {name}"))),
    };
    Ok(outcome.unwrap_or_else(|problem| {
        Called::Done(object(json!({"content": [text(format!("{name}: {problem}"))], "isError": true})))
    }))
}

/// The result of a sleep that has ended.
pub(super) fn slept(ms: u64) -> Object {
    object(json!({"content": [text(format!("slept {ms} ms"))]}))
}

fn echo(arguments: &Object) -> Result<Object, String> {
    only(arguments, &["text"])?;
    match arguments.get("text") {
        Some(Value::String(given)) => Ok(object(json!({"content": [text(given.as_str())]}))),
        _ => Err("\"text\" must be given, as a string".into()),
    }
}

fn add(arguments: &Object) -> Result<Object, String> {
    only(arguments, &["a", "b"])?;
    let number = |name: &str| match arguments.get(name) {
        Some(Value::Number(number)) => Ok(number),
        _ => Err(format!("\"{name}\" must be given, as a number")),
    };
    let (a, b) = (number("a")?, number("b")?);
    let exact = a.as_i64().zip(b.as_i64()).and_then(|(a, b)| a.checked_add(b));
    let sum = match exact {
        Some(sum) => Value::from(sum),
        None => match a.as_f64().zip(b.as_f64()).map(|(a, b)| a + b) {
            Some(sum) if sum.is_finite() => Value::from(sum),
            _ => return Err("the sum is too large for a number".into()),
        },
    };
    Ok(structured(json!({"sum": sum})))
}

fn sleep(arguments: &Object) -> Result<u64, String> {
    only(arguments, &["ms"])?;
    match arguments.get("ms").and_then(Value::as_u64) {
        Some(ms) if ms <= SLEEP_MAX_MS => Ok(ms),
        _ => Err(format!("\"ms\" must be given, as an integer from 0 to {SLEEP_MAX_MS}")),
    }
}

fn whoami(arguments: &Object, surroundings: &Surroundings) -> Result<Object, String> {
    only(arguments, &[])?;
    Ok(structured(json!({
        "pid": surroundings.pid,
        "startedAt": surroundings.started_at,
        "era": surroundings.era,
        "protocolVersion": surroundings.protocol_version,
        "calls": surroundings.calls,
    })))
}

/// Refuses an argument that the tool does not have: more often a slip of the pen than meant to be ignored.
fn only(arguments: &Object, names: &[&str]) -> Result<(), String> {
    match arguments.keys().find(|key| !names.contains(&key.as_str())) {
        Some(key) => Err(format!("there is no argument \"{key}\"")),
        None => Ok(()),
    }
}

/// The value of `resources` in `resources/list`.
pub(super) fn resources() -> Value {
    json!([
        {
            "uri": CLOCK,
            "name": "clock",
            "title": "Clock",
            "description": "The time of day in UTC; subscribers hear of it once a second.",
            "mimeType": "text/plain"
        },
        {
            "uri": GREETING,
            "name": "greeting",
            "title": "Greeting",
            "description": "A text that never changes.",
            "mimeType": "text/plain"
        }
    ])
}

/// Whether there is a resource at `uri`.
pub(super) fn has_resource(uri: &str) -> bool {
    uri == CLOCK || uri == GREETING
}

/// The contents of the resource at `uri` when the time is `now` (RFC 3339), and for how many milliseconds they
/// may be kept. `None`: there is no such resource.
pub(super) fn read(uri: &str, now: &str) -> Option<(Value, u64)> {
    let (body, ttl_ms) = match uri {
        CLOCK => (now, 0),
        GREETING => ("Hello from the server that is built into drowse.", super::server::LASTING_MS),
        _ => return None,
    };
    Some((json!([{"uri": uri, "mimeType": "text/plain", "text": body}]), ttl_ms))
}

/// The value of `prompts` in `prompts/list`.
pub(super) fn prompts() -> Value {
    json!([{
        "name": "greet",
        "title": "Greet somebody",
        "description": "Asks for a friendly greeting of the named person.",
        "arguments": [{"name": "name", "description": "Who is to be greeted", "required": true}]
    }])
}

/// The result of `prompts/get`.
///
/// # Errors
///
/// There is no prompt of that name, or its argument is missing or no string.
pub(super) fn prompt(name: &str, arguments: &Object) -> Result<Object, Failure> {
    if name != "greet" {
        return Err(Failure::invalid_params(format!("Unknown prompt: {name}")));
    }
    let Some(Value::String(who)) = arguments.get("name") else {
        return Err(Failure::invalid_params(
            "Prompt greet: the argument \"name\" must be given, as a string",
        ));
    };
    Ok(object(json!({
        "description": "A request for a greeting",
        "messages": [{"role": "user", "content": text(format!("Please greet {who} in one friendly sentence."))}]
    })))
}

fn text(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

/// A result with structured content, and with its text beside it for clients that do not know it.
fn structured(value: Value) -> Object {
    object(json!({"content": [text(value.to_string())], "structuredContent": value}))
}

/// The object that a `json!({…})` literal is.
pub(super) fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}
