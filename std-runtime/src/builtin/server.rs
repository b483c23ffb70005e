//! The built-in server's protocol: what a line means, in which era, and what is to be written when.
//!
//! It owns the state of the conversation and the bytes not yet written. It has no thread, no stream and no
//! clock: lines and points in time go in by [`Server::handle_line`] and [`Server::handle_timeout`], lines come
//! out of [`Server::output`], and [`Server::poll_timeout`] says when it wants to be called again. A late or
//! repeated call is harmless.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::catalogue::{self, Called, Surroundings, object};
use super::meta::{
    self, CAPABILITIES_KEY, LOG_LEVELS, Meta, PROTOCOL_VERSION_KEY, SERVER_INFO_KEY, SUBSCRIPTION_KEY,
};
use super::rpc::{self, Failure, Message, Object};
use super::utc;

/// The one revision served without a handshake.
pub(super) const MODERN: &str = "2026-07-28";
/// The revisions that an `initialize` may settle on, the preferred one first.
pub(super) const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Of these, the ones whose servers must accept batches; 2025-06-18 took them out.
const WITH_BATCHES: [&str; 2] = ["2025-03-26", "2024-11-05"];

/// How long what never changes may be kept by a client.
pub(super) const LASTING_MS: u64 = 3_600_000;
const PROGRESS_EVERY_MS: u64 = 100;
const CLOCK_EVERY: Duration = Duration::from_secs(1);
/// How many requests may wait at once; a client that needs more is told so instead of filling our memory.
const IN_FLIGHT_MAX: usize = 1024;

const INSTRUCTIONS: &str = "A small server for trying things out. `whoami` tells one process from the next, `sleep` \
    takes its time, and `demo://clock` is a resource worth subscribing to.";

/// One conversation.
pub(super) struct Server {
    pid: u32,
    started_at: SystemTime,
    wall: fn() -> SystemTime,
    /// Tool calls so far.
    calls: u64,
    legacy: Option<Legacy>,
    in_flight: Vec<InFlight>,
    batches: Vec<Batch>,
    batches_so_far: u64,
    /// When the clock is announced next; `None` while nobody listens for it.
    clock_due: Option<Instant>,
    output: Vec<u8>,
}

/// What an `initialize` settled for this process.
struct Legacy {
    revision: &'static str,
    /// Index into [`LOG_LEVELS`]; nothing is logged until the client names a level.
    log_level: Option<usize>,
    subscriptions: BTreeSet<String>,
}

/// By which rules one request is answered.
#[derive(Clone, Copy, PartialEq)]
enum Era {
    Legacy(&'static str),
    Modern,
}

/// A request while it is decided.
struct Request<'a> {
    id: &'a Value,
    method: &'a str,
    params: &'a Object,
    progress_token: Option<Value>,
    reply: Reply,
}

/// A request that is not answered yet.
struct InFlight {
    id: Value,
    work: Work,
}

enum Work {
    Sleep { era: Era, reply: Reply, token: Option<Value>, began: Instant, ms: u64, reported_ms: u64 },
    Listen { uris: Vec<String> },
}

/// Where an answer goes: onto a line of its own, or into the answer of a batch.
#[derive(Clone, Copy, PartialEq)]
enum Reply {
    Line,
    Batch(u64),
}

struct Batch {
    key: u64,
    /// Requests whose answer is outstanding, and one for the batch itself while it is being read.
    open: usize,
    answers: Vec<Value>,
}

/// How a request ends: now, or by a later event.
enum Outcome {
    Now(Object),
    Later,
}

impl Server {
    /// A server that nobody has spoken to. `wall` is the time of day.
    pub(super) fn new(pid: u32, wall: fn() -> SystemTime) -> Self {
        Self {
            pid,
            started_at: wall(),
            wall,
            calls: 0,
            legacy: None,
            in_flight: Vec::new(),
            batches: Vec::new(),
            batches_so_far: 0,
            clock_due: None,
            output: Vec::new(),
        }
    }

    /// Takes one line, with or without its newline. Whatever it holds is answered, or ignored where an answer
    /// is forbidden.
    pub(super) fn handle_line(&mut self, now: Instant, line: &[u8]) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        match serde_json::from_slice(line) {
            Err(error) => self.refuse(None, Failure::parse(format!("Parse error: {error}"))),
            Ok(Value::Array(messages)) => self.handle_batch(now, messages),
            Ok(message) => self.handle_message(now, message, Reply::Line),
        }
    }

    /// Does what has become due.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        let mut index = 0;
        while let Some(waiting) = self.in_flight.get_mut(index) {
            index += 1;
            let Work::Sleep { era, reply, token, began, ms, reported_ms } = &mut waiting.work else {
                continue;
            };
            while let (Some(token), Some(at_ms)) = (&*token, next_report(*reported_ms, *ms)) {
                if *began + Duration::from_millis(at_ms) > now {
                    break;
                }
                *reported_ms = at_ms;
                let message = format!("slept {at_ms} of {ms} ms");
                let params =
                    json!({"progressToken": token, "progress": at_ms, "total": ms, "message": message});
                rpc::write_line(&mut self.output, &rpc::notification("notifications/progress", params));
            }
            if *began + Duration::from_millis(*ms) <= now {
                let (era, reply, ms) = (*era, *reply, *ms);
                index -= 1;
                let id = self.in_flight.remove(index).id;
                self.answer(reply, rpc::response(Some(id), Ok(complete(era, catalogue::slept(ms), None))));
            }
        }
        if self.clock_due.is_some_and(|due| due <= now) {
            self.announce_clock();
            self.clock_due = Some(now + CLOCK_EVERY);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is wanted next. Changes with every call of a `handle_*`.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let sleeps = self.in_flight.iter().filter_map(|waiting| match &waiting.work {
            Work::Sleep { token, began, ms, reported_ms, .. } => {
                let report = token.as_ref().and_then(|_| next_report(*reported_ms, *ms));
                Some(*began + Duration::from_millis(report.unwrap_or(*ms)))
            }
            Work::Listen { .. } => None,
        });
        sleeps.chain(self.clock_due).min()
    }

    /// Whole lines, to be written and then discarded.
    pub(super) fn output(&self) -> &[u8] {
        &self.output
    }

    /// What [`output`](Self::output) showed has been written.
    pub(super) fn discard_output(&mut self) {
        self.output.clear();
        self.output.shrink_to(super::KEPT_LINE_BYTES);
    }

    fn handle_batch(&mut self, now: Instant, messages: Vec<Value>) {
        if !self.legacy.as_ref().is_some_and(|legacy| WITH_BATCHES.contains(&legacy.revision)) {
            let text = "Batches belong to the revisions up to 2025-03-26, after initialize";
            return self.refuse(None, Failure::invalid_request(text));
        }
        if messages.is_empty() {
            return self.refuse(None, Failure::invalid_request("A batch must not be empty"));
        }
        self.batches_so_far += 1;
        let key = self.batches_so_far;
        self.batches.push(Batch { key, open: 1, answers: Vec::new() });
        for message in messages {
            self.handle_message(now, message, Reply::Batch(key));
        }
        self.close_one(key);
    }

    fn handle_message(&mut self, now: Instant, message: Value, reply: Reply) {
        if let Reply::Batch(key) = reply {
            self.batch(key, |batch| batch.open += 1);
        }
        let (id, outcome) = match Message::read(message) {
            Message::Request { id, method, params } => {
                let outcome = self.handle_request(now, &id, &method, &params, reply);
                (Some(id), outcome)
            }
            Message::Notification { method, params } => {
                if method == "notifications/cancelled" {
                    self.cancel(params.get("requestId"));
                }
                return self.leave_unanswered(reply);
            }
            Message::Response => return self.leave_unanswered(reply),
            Message::Malformed { id, failure } => (id, Err(failure)),
        };
        match outcome {
            Ok(Outcome::Now(result)) => self.answer(reply, rpc::response(id, Ok(result))),
            Ok(Outcome::Later) => {}
            Err(failure) => self.answer(reply, rpc::response(id, Err(failure))),
        }
    }

    fn handle_request(
        &mut self,
        now: Instant,
        id: &Value,
        method: &str,
        params: &Object,
        reply: Reply,
    ) -> Result<Outcome, Failure> {
        if self.in_flight.iter().any(|waiting| waiting.id == *id) {
            return Err(Failure::invalid_request("A request with this id is still in flight"));
        }
        let Meta { modern, progress_token } = Meta::read(params)?;
        let request = Request { id, method, params, progress_token, reply };
        if modern {
            return self.handle_modern(now, request);
        }
        if let Some(legacy) = &self.legacy {
            let revision = legacy.revision;
            return self.handle_legacy(now, request, revision);
        }
        match method {
            "initialize" => self.initialize(params).map(Outcome::Now),
            "ping" => Ok(Outcome::Now(Object::new())),
            // Wrong in either era: malformed in the modern one, too early in the legacy one.
            _ => Err(Failure::invalid_params(format!(
                "{method}: send initialize first, or give _meta {PROTOCOL_VERSION_KEY} and {CAPABILITIES_KEY}"
            ))),
        }
    }

    fn handle_modern(&mut self, now: Instant, request: Request<'_>) -> Result<Outcome, Failure> {
        if request.reply != Reply::Line {
            return Err(Failure::invalid_request(format!("{MODERN} has no batches")));
        }
        match request.method {
            "server/discover" => {
                let discovered = json!({
                    "supportedVersions": [MODERN],
                    "capabilities": {"tools": {}, "resources": {"subscribe": true}, "prompts": {}},
                    "instructions": INSTRUCTIONS,
                });
                Ok(Outcome::Now(complete(Era::Modern, object(discovered), Some(LASTING_MS))))
            }
            "subscriptions/listen" => self.listen(now, request.id, request.params),
            // Gone in this revision; what is left to say is where to go.
            "initialize" => {
                Err(Failure::method_not_found(request.method).with_data(json!({"supported": [MODERN]})))
            }
            _ => self.handle_common(now, request, Era::Modern),
        }
    }

    fn handle_legacy(
        &mut self,
        now: Instant,
        request: Request<'_>,
        revision: &'static str,
    ) -> Result<Outcome, Failure> {
        let era = Era::Legacy(revision);
        let params = request.params;
        match request.method {
            "ping" => {}
            "initialize" => return Err(Failure::invalid_request("This process is initialized already")),
            "logging/setLevel" => {
                let level = meta::log_level(params.get("level"))?;
                self.legacy_mut(|legacy| legacy.log_level = Some(level));
            }
            "resources/subscribe" => {
                let uri = string(params, "uri")?;
                if !catalogue::has_resource(uri) {
                    return Err(resource_not_found(era, uri));
                }
                self.legacy_mut(|legacy| _ = legacy.subscriptions.insert(uri.to_owned()));
                self.set_clock(now);
            }
            "resources/unsubscribe" => {
                let uri = string(params, "uri")?;
                self.legacy_mut(|legacy| _ = legacy.subscriptions.remove(uri));
                self.set_clock(now);
            }
            _ => return self.handle_common(now, request, era),
        }
        Ok(Outcome::Now(Object::new()))
    }

    /// The methods that both eras have.
    fn handle_common(&mut self, now: Instant, request: Request<'_>, era: Era) -> Result<Outcome, Failure> {
        let params = request.params;
        let listed = |name: &str, items: Value| {
            // Nothing here takes a second page, so no cursor was ever given out.
            match params.get("cursor") {
                Some(_) => Err(Failure::invalid_params("Invalid cursor")),
                None => Ok(Outcome::Now(complete(era, object(json!({name: items})), Some(LASTING_MS)))),
            }
        };
        match request.method {
            "tools/list" => listed("tools", catalogue::tools()),
            "resources/list" => listed("resources", catalogue::resources()),
            "resources/templates/list" => listed("resourceTemplates", json!([])),
            "prompts/list" => listed("prompts", catalogue::prompts()),
            "resources/read" => {
                let uri = string(params, "uri")?;
                let (contents, ttl_ms) = catalogue::read(uri, &utc::rfc3339((self.wall)()))
                    .ok_or_else(|| resource_not_found(era, uri))?;
                Ok(Outcome::Now(complete(era, object(json!({"contents": contents})), Some(ttl_ms))))
            }
            "prompts/get" => {
                let prompt = catalogue::prompt(string(params, "name")?, &arguments(params)?)?;
                Ok(Outcome::Now(complete(era, prompt, None)))
            }
            "tools/call" => self.call_tool(now, request, era),
            method => Err(Failure::method_not_found(method)),
        }
    }

    fn initialize(&mut self, params: &Object) -> Result<Object, Failure> {
        let requested = string(params, "protocolVersion")?;
        for name in ["capabilities", "clientInfo"] {
            if !params.get(name).is_some_and(Value::is_object) {
                return Err(Failure::invalid_params(format!("\"{name}\" must be given, as an object")));
            }
        }
        let preferred = LEGACY[0];
        let revision = LEGACY.into_iter().find(|known| *known == requested).unwrap_or(preferred);
        self.legacy = Some(Legacy { revision, log_level: None, subscriptions: BTreeSet::new() });
        Ok(object(json!({
            "protocolVersion": revision,
            "capabilities": {"tools": {}, "resources": {"subscribe": true}, "prompts": {}, "logging": {}},
            "serverInfo": server_info(),
            "instructions": INSTRUCTIONS,
        })))
    }

    fn call_tool(&mut self, now: Instant, request: Request<'_>, era: Era) -> Result<Outcome, Failure> {
        let name = string(request.params, "name")?;
        let (era_name, protocol_version) = match era {
            Era::Legacy(revision) => ("legacy", revision),
            Era::Modern => ("modern", MODERN),
        };
        let surroundings = Surroundings {
            pid: self.pid,
            started_at: utc::rfc3339(self.started_at),
            era: era_name,
            protocol_version,
            calls: self.calls + 1,
        };
        let called = catalogue::call(name, &arguments(request.params)?, &surroundings)?;
        self.calls += 1;
        self.log(era, "info", &format!("tools/call {name}"));
        match called {
            Called::Done(result) => Ok(Outcome::Now(complete(era, result, None))),
            Called::Sleep(0) => Ok(Outcome::Now(complete(era, catalogue::slept(0), None))),
            Called::Sleep(ms) => {
                let Request { id, progress_token: token, reply, .. } = request;
                self.keep(id, Work::Sleep { era, reply, token, began: now, ms, reported_ms: 0 })
            }
        }
    }

    fn listen(&mut self, now: Instant, id: &Value, params: &Object) -> Result<Outcome, Failure> {
        let Some(Value::Object(filter)) = params.get("notifications") else {
            return Err(Failure::invalid_params("\"notifications\" must be given, as an object"));
        };
        let uris = match filter.get("resourceSubscriptions") {
            None => None,
            Some(Value::Array(uris)) => {
                let uris: Option<Vec<&str>> = uris.iter().map(Value::as_str).collect();
                let Some(uris) = uris else {
                    return Err(Failure::invalid_params("\"resourceSubscriptions\" must hold strings"));
                };
                Some(uris.into_iter().filter(|uri| catalogue::has_resource(uri)).collect::<Vec<_>>())
            }
            Some(_) => return Err(Failure::invalid_params("\"resourceSubscriptions\" must be an array")),
        };
        // The lists of this server never change, so of the filter only the resources can be honoured.
        let honoured = uris.as_ref().map_or_else(|| json!({}), |uris| json!({"resourceSubscriptions": uris}));
        let uris = uris.unwrap_or_default().into_iter().map(str::to_owned).collect();
        let later = self.keep(id, Work::Listen { uris })?;
        let params = json!({"_meta": {SUBSCRIPTION_KEY: id}, "notifications": honoured});
        let acknowledged = rpc::notification("notifications/subscriptions/acknowledged", params);
        rpc::write_line(&mut self.output, &acknowledged);
        self.set_clock(now);
        Ok(later)
    }

    fn keep(&mut self, id: &Value, work: Work) -> Result<Outcome, Failure> {
        if self.in_flight.len() == IN_FLIGHT_MAX {
            return Err(Failure::new(-32603, format!("{IN_FLIGHT_MAX} requests are in flight already")));
        }
        self.in_flight.push(InFlight { id: id.clone(), work });
        Ok(Outcome::Later)
    }

    fn legacy_mut(&mut self, change: impl FnOnce(&mut Legacy)) {
        if let Some(legacy) = &mut self.legacy {
            change(legacy);
        }
    }

    /// Ends a request that waits, without an answer. One that is unknown or answered already is no error.
    fn cancel(&mut self, id: Option<&Value>) {
        let Some(index) = self.in_flight.iter().position(|waiting| Some(&waiting.id) == id) else { return };
        match self.in_flight.remove(index).work {
            Work::Sleep { reply, .. } => self.leave_unanswered(reply),
            Work::Listen { .. } => {
                if !self.clock_is_heard() {
                    self.clock_due = None;
                }
            }
        }
    }

    /// Starts the clock's announcements with its first listener and stops them with its last.
    fn set_clock(&mut self, now: Instant) {
        self.clock_due =
            if self.clock_is_heard() { self.clock_due.or(Some(now + CLOCK_EVERY)) } else { None };
    }

    fn clock_is_heard(&self) -> bool {
        self.legacy.as_ref().is_some_and(|legacy| legacy.subscriptions.contains(catalogue::CLOCK))
            || self.clock_listeners().next().is_some()
    }

    fn clock_listeners(&self) -> impl Iterator<Item = &Value> {
        self.in_flight.iter().filter_map(|waiting| match &waiting.work {
            Work::Listen { uris } => uris.iter().any(|uri| uri == catalogue::CLOCK).then_some(&waiting.id),
            Work::Sleep { .. } => None,
        })
    }

    fn announce_clock(&mut self) {
        const METHOD: &str = "notifications/resources/updated";
        let mut updates = Vec::new();
        if self.legacy.as_ref().is_some_and(|legacy| legacy.subscriptions.contains(catalogue::CLOCK)) {
            updates.push(rpc::notification(METHOD, json!({"uri": catalogue::CLOCK})));
        }
        updates.extend(self.clock_listeners().map(|id| {
            rpc::notification(METHOD, json!({"_meta": {SUBSCRIPTION_KEY: id}, "uri": catalogue::CLOCK}))
        }));
        for update in &updates {
            rpc::write_line(&mut self.output, update);
        }
    }

    /// Logs to a legacy client that asked for it. The modern era deprecates such messages, so that the server
    /// does not announce them there and sends none.
    fn log(&mut self, era: Era, level: &str, text: &str) {
        let wanted = self.legacy.as_ref().and_then(|legacy| legacy.log_level);
        let severity = LOG_LEVELS.iter().position(|known| *known == level);
        if matches!(era, Era::Legacy(_)) && wanted.is_some() && severity >= wanted {
            let params = json!({"level": level, "logger": "demo", "data": text});
            rpc::write_line(&mut self.output, &rpc::notification("notifications/message", params));
        }
    }

    fn refuse(&mut self, id: Option<Value>, failure: Failure) {
        rpc::write_line(&mut self.output, &rpc::response(id, Err(failure)));
    }

    fn answer(&mut self, reply: Reply, message: Value) {
        match reply {
            Reply::Line => rpc::write_line(&mut self.output, &message),
            Reply::Batch(key) => {
                self.batch(key, |batch| batch.answers.push(message));
                self.close_one(key);
            }
        }
    }

    fn leave_unanswered(&mut self, reply: Reply) {
        if let Reply::Batch(key) = reply {
            self.close_one(key);
        }
    }

    fn batch(&mut self, key: u64, change: impl FnOnce(&mut Batch)) {
        if let Some(batch) = self.batches.iter_mut().find(|batch| batch.key == key) {
            change(batch);
        }
    }

    /// One request of the batch is done with; the last one sends the answers, if there are any.
    fn close_one(&mut self, key: u64) {
        self.batch(key, |batch| batch.open -= 1);
        if let Some(index) = self.batches.iter().position(|batch| batch.key == key && batch.open == 0) {
            let answers = self.batches.remove(index).answers;
            if !answers.is_empty() {
                rpc::write_line(&mut self.output, &Value::Array(answers));
            }
        }
    }
}

/// When a sleep of `ms` reports after it reported at `reported_ms`, counted from its beginning.
fn next_report(reported_ms: u64, ms: u64) -> Option<u64> {
    Some(reported_ms + PROGRESS_EVERY_MS).filter(|next| *next <= ms)
}

fn server_info() -> Value {
    json!({"name": "drowse-demo", "title": "drowse demo server", "version": env!("CARGO_PKG_VERSION")})
}

/// `fields` as a result of `era`; `ttl_ms` for the results that the modern era allows to be kept.
fn complete(era: Era, fields: Object, ttl_ms: Option<u64>) -> Object {
    if era != Era::Modern {
        return fields;
    }
    let mut result = object(json!({"resultType": "complete"}));
    result.extend(fields);
    if let Some(ttl_ms) = ttl_ms {
        // Nothing that this server says depends on who asks.
        result.extend(object(json!({"ttlMs": ttl_ms, "cacheScope": "public"})));
    }
    result.extend(object(json!({"_meta": {SERVER_INFO_KEY: server_info()}})));
    result
}

fn resource_not_found(era: Era, uri: &str) -> Failure {
    // 2026-07-28 gave the older code up.
    let code = if era == Era::Modern { -32602 } else { -32002 };
    Failure::new(code, format!("Resource not found: {uri}")).with_data(json!({"uri": uri}))
}

fn string<'a>(params: &'a Object, name: &str) -> Result<&'a str, Failure> {
    params
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| Failure::invalid_params(format!("\"{name}\" must be given, as a string")))
}

fn arguments(params: &Object) -> Result<Object, Failure> {
    match params.get("arguments") {
        None => Ok(Object::new()),
        Some(Value::Object(arguments)) => Ok(arguments.clone()),
        Some(_) => Err(Failure::invalid_params("\"arguments\" must be an object")),
    }
}
