//! The hub's side towards a server behind a URL: its exchanges, and their ends.
//!
//! Every request is a task that carries its exchange to an end. What a status or an end means says the core's
//! [`Exchange`]; what follows from its verdict says the core's `Server`.

use bytes::Bytes;
use drowse_core::http::exchange::{self, Carried, Content, Exchange, Head, Next, Verdict};
use drowse_core::link::REISSUED;
use drowse_core::message::Own;
use drowse_core::negotiate::Question;
use drowse_core::sse::{Event, EventDecoder};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::*;
use crate::bridge::backend::{Client, Failed, Response};

/// How many answers to requests of the server may be under way.
const MESSAGES: usize = 256;
/// Room for ordinary events.
const ROOM: usize = 16 << 10;
/// How much may come after the answer until the connection is given up.
const REST: usize = 64 << 10;
/// How long that may take.
const REST_TIME: Duration = Duration::from_secs(1);
/// A larger buffer of events is given back once it is not needed.
const SHRINK_OVER: usize = 256 << 10;

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const PLAIN: HeaderValue = HeaderValue::from_static("identity");
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A server behind a URL, for as long as a generation lasts.
pub(super) struct Remote {
    client: Rc<dyn Client>,
    /// The client's address, as requests have it.
    uri: http::Uri,
    generation: u64,
    /// The session that it gave, which no log ever sees.
    session: Option<HeaderValue>,
    /// Where the transport of 2024-11-05 posts to.
    endpoint: Option<http::Uri>,
    /// Tasks by number; those of requests also by the id on the wire.
    tasks: HashMap<u64, Task>,
    requests: HashMap<u64, u64>,
    /// Streams that belong to no request.
    streams: Vec<u64>,
    /// The id on the wire of drowse's own last question whether the server lives.
    keepalive: Option<u64>,
    next: u64,
    /// The process that serves there, if it is one of ours; once it is being ended, its end is awaited.
    pub(super) keeper: Option<Rc<dyn Control>>,
    ending: bool,
    /// Its input, which says nothing: its end would be a wish that it ends.
    pub(super) input: Option<Box<dyn AsyncWrite + Unpin>>,
    /// No new exchange is wanted; when the last one ends, the generation is over.
    closing: bool,
}

impl Remote {
    pub(super) fn new(client: Rc<dyn Client>, generation: u64) -> Self {
        let uri = client.url().as_str().parse().unwrap_or_default();
        Self {
            client,
            uri,
            generation,
            session: None,
            endpoint: None,
            tasks: HashMap::new(),
            requests: HashMap::new(),
            streams: Vec::new(),
            keepalive: None,
            next: 0,
            keeper: None,
            ending: false,
            input: None,
            closing: false,
        }
    }

    fn link(&self, era: Option<Era>) -> exchange::Link {
        exchange::Link { era, session: self.session.is_some(), old: self.endpoint.is_some() }
    }

    /// Of which generation it is.
    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    fn is_over(&self) -> bool {
        self.closing && self.tasks.is_empty()
    }

    /// So many messages of ours are under way that no more are begun.
    pub(super) fn takes_no_messages(&self) -> bool {
        self.tasks.len() >= MESSAGES + self.requests.len() + self.streams.len()
    }

    /// Breaks an exchange off: nobody waits for its answer.
    pub(super) fn abandon(&mut self, wire: u64) {
        if let Some(number) = self.requests.remove(&wire) {
            self.tasks.remove(&number);
        }
    }

    /// Breaks everything off.
    pub(super) fn abort(&mut self) {
        self.closing = true;
        self.tasks.clear();
        self.requests.clear();
        self.streams.clear();
    }
}

/// What is posted, and what its headers say of it.
pub(super) struct Post {
    pub(super) body: Bytes,
    pub(super) headers: HeaderMap,
    pub(super) carried: Carried,
    /// The id of the request on the wire.
    pub(super) wire: u64,
}

/// One exchange on its way.
struct Course {
    generation: u64,
    exchange: Exchange,
    wire: u64,
    decoder: EventDecoder<Vec<u8>>,
    number: u64,
}

impl Course {
    /// The call on whose stream messages come.
    fn origin(&self) -> Option<Key> {
        match self.exchange.carried() {
            Carried::Request(_) => Key::from_wire(self.wire & !REISSUED),
            _ => None,
        }
    }
}

impl Hub {
    /// Sends one of drowse's own messages.
    pub(super) fn post_own(&self, inner: &mut Inner, own: Own, bytes: &[u8]) {
        let (carried, wire) = match own {
            Own::Discover { id, .. } if inner.server.revision().is_none() => {
                (Carried::Question(Question::Discover), id)
            }
            Own::Initialize { id, .. } => (Carried::Question(Question::Initialize), id),
            Own::Discover { id, .. } | Own::Ping { id } => (Carried::Request(Method::ServerPing), id),
            Own::SetLevel { id, .. } => (Carried::Request(Method::SetLevel), id),
            Own::Initialized | Own::Cancelled { .. } => (Carried::Message, 0),
        };
        let mut headers = HeaderMap::new();
        match own {
            Own::Discover { revision, .. } => {
                headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.name()));
                headers.insert(METHOD, HeaderValue::from_static("server/discover"));
            }
            // Nothing is agreed on so far, and an older server may refuse a header that it does not know.
            Own::Initialize { .. } => {}
            _ => inner.legacy_headers(&mut headers),
        }
        if carried == Carried::Request(Method::ServerPing) {
            inner.is_asked(wire);
        }
        self.post(inner, Post { body: Bytes::copy_from_slice(bytes), headers, carried, wire });
    }

    /// Asks for announcements.
    pub(super) fn post_for_listeners(&self, inner: &mut Inner, bytes: &[u8], method: Method, wire: u64) {
        let mut headers = HeaderMap::new();
        inner.legacy_headers(&mut headers);
        if inner.is_modern() {
            headers.insert(METHOD, HeaderValue::from_static(method.name()));
        }
        let (body, carried) = (Bytes::copy_from_slice(bytes), Carried::Request(method));
        self.post(inner, Post { body, headers, carried, wire });
    }

    /// Answers a request of the server.
    pub(super) fn post_answer(&self, inner: &mut Inner, bytes: &[u8]) {
        let mut headers = HeaderMap::new();
        inner.legacy_headers(&mut headers);
        let body = Bytes::copy_from_slice(bytes);
        self.post(inner, Post { body, headers, carried: Carried::Message, wire: 0 });
    }

    pub(super) fn post(&self, inner: &mut Inner, post: Post) {
        let era = inner.server.revision().map(Revision::era);
        let Some(remote) = inner.remote.as_mut() else { return };
        let uri = remote.endpoint.as_ref().unwrap_or(&remote.uri).clone();
        let mut request = http::Request::new(post.body);
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = post.headers;
        request.headers_mut().insert(header::CONTENT_TYPE, JSON);
        request.headers_mut().insert(header::ACCEPT, BOTH);
        let link = remote.link(era);
        self.begin(inner, request, post.carried, post.wire, link);
    }

    /// Opens a stream that belongs to no request.
    pub(super) fn open_stream(&self, inner: &mut Inner, carried: Carried) {
        let era = inner.server.revision().map(Revision::era);
        let mut headers = HeaderMap::new();
        if carried == Carried::Listening {
            inner.legacy_headers(&mut headers);
        }
        let Some(remote) = inner.remote.as_mut() else { return };
        let mut request = http::Request::new(Bytes::new());
        *request.uri_mut() = remote.uri.clone();
        *request.headers_mut() = headers;
        request.headers_mut().insert(header::ACCEPT, EVENTS);
        let link = remote.link(era);
        self.begin(inner, request, carried, 0, link);
    }

    /// Ends the session, and the streams that belong to no request.
    pub(super) fn say_goodbye(&self, inner: &mut Inner) {
        let mut headers = HeaderMap::new();
        inner.legacy_headers(&mut headers);
        let Some(remote) = inner.remote.as_mut() else { return };
        for number in std::mem::take(&mut remote.streams) {
            remote.tasks.remove(&number);
        }
        remote.closing = true;
        if remote.session.is_some() {
            let mut request = http::Request::new(Bytes::new());
            *request.method_mut() = http::Method::DELETE;
            *request.uri_mut() = remote.uri.clone();
            *request.headers_mut() = headers;
            let link = remote.link(Some(Era::Legacy));
            self.begin(inner, request, Carried::Goodbye, 0, link);
        }
        self.remote_ended(inner);
    }

    /// Tells the machine that nothing is under way any more.
    pub(super) fn remote_ended(&self, inner: &mut Inner) {
        if let Some(remote) = inner.remote.as_mut().filter(|remote| remote.is_over()) {
            if let Some(keeper) = &remote.keeper {
                if !std::mem::replace(&mut remote.ending, true) {
                    remote.input = None;
                    self.end_keeper(remote.generation, Rc::clone(keeper));
                }
                return;
            }
            inner.remote = None;
            let now = self.now();
            inner.server.handle_tree_gone(now);
        }
    }

    fn begin(
        &self,
        inner: &mut Inner,
        mut request: http::Request<Bytes>,
        carried: Carried,
        wire: u64,
        link: exchange::Link,
    ) {
        let Some(remote) = inner.remote.as_mut() else { return };
        // Nothing compressed is read: it may be a bomb. Whoever says nothing takes anything (RFC 9110, 12.5.3).
        request.headers_mut().insert(header::ACCEPT_ENCODING, PLAIN);
        let number = remote.next;
        remote.next += 1;
        let course = Course {
            generation: remote.generation,
            exchange: Exchange::new(carried, link),
            wire,
            decoder: EventDecoder::new(Vec::new(), self.0.limit),
            number,
        };
        let (hub, client) = (self.clone(), Rc::clone(&remote.client));
        let task = Task::spawn(async move { hub.run_exchange(course, client, request).await });
        remote.tasks.insert(number, task);
        match carried {
            Carried::Question(_) | Carried::Request(_) => {
                remote.requests.insert(wire, number);
            }
            Carried::Listening | Carried::OldStream => remote.streams.push(number),
            Carried::Message | Carried::Goodbye => {}
        }
    }

    async fn run_exchange(&self, mut course: Course, client: Rc<dyn Client>, first: http::Request<Bytes>) {
        let mut request = first.clone();
        let verdict = loop {
            let mut next = match client.send(request).await {
                Ok(response) => self.run_response(&mut course, response).await,
                Err(failure) => {
                    self.note_failure(&course, &failure);
                    course.exchange.handle_failure(self.now(), failure.connected)
                }
            };
            if let Next::Answer { .. } = next {
                next = Next::Over(Verdict::Done);
            }
            match next {
                Next::Again { at } => {
                    tokio::time::sleep_until(self.wall(at)).await;
                    request = first.clone();
                }
                Next::Resume { at } => {
                    tokio::time::sleep_until(self.wall(at)).await;
                    request = resumption(&first, &course.decoder);
                    course.decoder.restart();
                }
                Next::Over(verdict) => break verdict,
                // Only of a response.
                Next::Message | Next::Events | Next::Inspect | Next::Answer { .. } => break Verdict::Invalid,
            }
        };
        self.with_remote(course.generation, |hub, inner, now| {
            if let Some(remote) = inner.remote.as_mut() {
                if let Some(task) = remote.tasks.remove(&course.number) {
                    task.detach();
                }
                if remote.requests.get(&course.wire) == Some(&course.number) {
                    remote.requests.remove(&course.wire);
                }
                remote.streams.retain(|number| *number != course.number);
                if matches!(verdict, Verdict::Expired { .. }) {
                    remote.session = None;
                }
            }
            // Nobody may be there whose leaving would say so: a keepalive, a stream that ended.
            hub.rest_if_quiet(inner);
            inner.server.handle_verdict(now, course.exchange.carried(), course.wire, verdict);
            hub.remote_ended(inner);
        });
    }

    /// Reads a response to its end. The answer is whether the request is to be sent again, or that it is over.
    async fn run_response(&self, course: &mut Course, response: Response) -> Next {
        let (parts, mut body) = response.into_parts();
        let head = read_head(parts.status, &parts.headers);
        if course.exchange.carried() == Carried::Question(Question::Initialize)
            && let Some(session) = parts.headers.get(&SESSION_ID)
            && parts.status.is_success()
        {
            let mut session = session.clone();
            session.set_sensitive(true);
            self.with_remote(course.generation, |_, inner, now| {
                if let Some(remote) = inner.remote.as_mut() {
                    remote.session = Some(session);
                    inner.server.handle_session(now);
                }
            });
        }
        match course.exchange.handle_head(self.now(), &head) {
            Next::Message => {
                let mut message = Vec::new();
                if let Some(length) = length(&parts.headers) {
                    message.reserve_exact(length.min(self.0.limit));
                }
                loop {
                    match body.chunk().await {
                        Ok(Some(chunk)) if message.len() + chunk.len() > self.0.limit => {
                            self.too_long(course);
                            return course.exchange.handle_message_end(true);
                        }
                        Ok(Some(chunk)) => message.extend_from_slice(&chunk),
                        Ok(None) => break,
                        Err(failure) => {
                            self.note_failure(course, &failure);
                            return course.exchange.handle_failure(self.now(), true);
                        }
                    }
                }
                on_one_line(&mut message);
                self.remote_line(course.generation, &message, course.origin());
                let answered = !self.awaits(course);
                if !answered {
                    self.note_detail(course, explain::no_answer(parts.status, &message));
                }
                course.exchange.handle_message_end(answered)
            }
            Next::Events => {
                self.run_events(course, &mut *body).await;
                let answered = !self.awaits(course);
                course.exchange.handle_end(self.now(), answered)
            }
            Next::Inspect => {
                let mut message = Vec::new();
                while message.len() < exchange::INSPECT {
                    match body.chunk().await {
                        Ok(Some(chunk)) => message.extend_from_slice(&chunk),
                        Ok(None) | Err(_) => break,
                    }
                }
                message.truncate(exchange::INSPECT);
                self.note_refusal(course, &parts, &message);
                let next = course.exchange.handle_body(&message);
                if let Next::Answer { error } = next {
                    let error = error.of(&message);
                    let mut buffer = vec![0; error.len() + 64];
                    if let Ok(frame) = exchange::error_answer(course.wire, error, &mut buffer) {
                        self.remote_line(course.generation, frame, None);
                    }
                }
                next
            }
            next => {
                if !matches!(next, Next::Over(Verdict::Done) | Next::Again { .. } | Next::Resume { .. }) {
                    self.note_refusal(course, &parts, b"");
                }
                next
            }
        }
    }

    async fn run_events(&self, course: &mut Course, body: &mut dyn crate::bridge::backend::Body) {
        let is_request = matches!(course.exchange.carried(), Carried::Question(_) | Carried::Request(_));
        let mut rest = REST;
        let mut until = None;
        loop {
            let chunk = match until {
                None => body.chunk().await,
                // The answer is there; what is left is worth a connection that can be used again, not more.
                Some(until) => match tokio::time::timeout_at(until, body.chunk()).await {
                    Ok(chunk) => chunk,
                    Err(_) => return,
                },
            };
            let mut chunk = match chunk {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return,
                Err(failure) => {
                    self.note_failure(course, &failure);
                    return;
                }
            };
            if until.is_some() {
                let Some(left) = rest.checked_sub(chunk.len()) else { return };
                rest = left;
            }
            while !chunk.is_empty() {
                if let Some(size) = course.decoder.wants_room() {
                    let _ = course.decoder.replace_buffer(vec![0; size.max(ROOM)]);
                } else if course.decoder.buffer_len() > SHRINK_OVER && course.decoder.pending() <= ROOM / 2 {
                    let _ = course.decoder.replace_buffer(vec![0; ROOM]);
                }
                let space = course.decoder.space();
                let n = space.len().min(chunk.len());
                if let (Some(space), Some(part)) = (space.get_mut(..n), chunk.get(..n)) {
                    space.copy_from_slice(part);
                }
                course.decoder.filled(n);
                bytes::Buf::advance(&mut chunk, n);
                self.take_events(course);
            }
            if is_request && until.is_none() && !self.awaits(course) {
                until = Some(tokio::time::Instant::now() + REST_TIME);
            }
        }
    }

    fn take_events(&self, course: &mut Course) {
        loop {
            let origin = course.origin();
            let Course { decoder, exchange, generation, .. } = course;
            let Some(event) = decoder.poll_event() else { return };
            match event {
                Event::Message { name: b"endpoint", data } if exchange.carried() == Carried::OldStream => {
                    self.endpoint(*generation, data);
                }
                Event::Message { name: b"message", data } => {
                    self.remote_line(*generation, data, origin);
                }
                // Other types are not of this protocol.
                Event::Message { .. } | Event::Primed => {}
                Event::Oversize(oversize) => {
                    let (id, is_response) = (oversize.id.map(<[u8]>::to_vec), oversize.is_response);
                    self.with_remote(*generation, |_, inner, now| {
                        inner.host.note(&format!(
                            "the server sent a message of {} bytes, which is over the limit; it was dropped",
                            oversize.length
                        ));
                        inner.server.handle_oversize(now, id.as_deref(), is_response);
                    });
                }
            }
            let (id, retry) = (course.decoder.last_event_id().is_some(), course.decoder.retry());
            course.exchange.handle_event(id, retry);
        }
    }

    /// The transport of 2024-11-05 named where to post to.
    fn endpoint(&self, generation: u64, data: &[u8]) {
        self.with_remote(generation, |_, inner, now| {
            let Some(remote) = inner.remote.as_mut() else { return };
            let base = remote.client.url();
            let joined = std::str::from_utf8(data).ok().and_then(|text| base.join(text.trim()).ok());
            match joined {
                // Requests carry credentials.
                Some(url) if url.origin() == base.origin() => {
                    remote.endpoint = url.as_str().parse().ok();
                    inner.server.handle_endpoint(now);
                }
                _ => {
                    let text = "the server named an endpoint of another origin, which is not used";
                    inner.host.note(text);
                    inner.network = Some(text.to_owned());
                    inner.server.handle_verdict(now, Carried::OldStream, 0, Verdict::NoStream);
                }
            }
        });
    }

    /// Hands in a message of the server.
    fn remote_line(&self, generation: u64, line: &[u8], origin: Option<Key>) {
        if memchr::memchr2(b'\n', b'\r', line).is_some() {
            let mut copy = line.to_vec();
            on_one_line(&mut copy);
            return self.remote_line(generation, &copy, origin);
        }
        self.with_remote(generation, |hub, inner, now| {
            hub.server_line(inner, now, line.into(), origin, true);
        });
    }

    fn too_long(&self, course: &Course) {
        let limit = self.0.limit;
        self.with_remote(course.generation, |_, inner, now| {
            inner.host.note(&format!("the server's answer is longer than {limit} bytes; it was dropped"));
            inner.server.handle_oversize(now, Some(course.wire.to_string().as_bytes()), true);
        });
    }

    fn awaits(&self, course: &Course) -> bool {
        self.0.inner.borrow().server.awaits(course.wire)
    }

    fn note_failure(&self, course: &Course, failure: &Failed) {
        self.note_detail(course, failure.text.clone());
    }

    fn note_refusal(&self, course: &Course, parts: &http::response::Parts, body: &[u8]) {
        let text = {
            let inner = self.0.inner.borrow();
            let base = inner.remote.as_ref().map(|remote| remote.client.url());
            explain::refusal(base, parts.status, &parts.headers, body)
        };
        self.note_detail(course, text);
    }

    /// Remembers what the network said, for whoever is told that a request, or the start, failed.
    fn note_detail(&self, course: &Course, text: String) {
        self.with_remote(course.generation, |_, inner, _| {
            let mut payloads = inner.payloads.iter_mut().flatten();
            if matches!(course.exchange.carried(), Carried::Request(_))
                && let Some(payload) = payloads.find(|payload| payload.wire == Some(course.wire))
            {
                payload.detail = Some(text.clone());
            }
            inner.network = Some(text);
        });
    }

    fn with_remote(&self, generation: u64, act: impl FnOnce(&Self, &mut Inner, Instant)) {
        self.with(|hub, inner, now| {
            if inner.remote.as_ref().is_some_and(|remote| remote.generation == generation) {
                act(hub, inner, now);
                hub.drive(inner, None);
            }
        });
    }
}

impl Inner {
    /// The server is about to be asked whether it lives: for a caller, who has that id on the wire from now on, or for
    /// drowse itself. One question of its own is enough: the exchange of the last one, if nothing came of it, is over.
    fn is_asked(&mut self, wire: u64) {
        let asks = Key::from_wire(wire & !REISSUED).and_then(|key| self.payloads.get_mut(key.index()));
        if let Some(Some(payload)) = asks {
            payload.wire = Some(wire);
            payload.detail = None;
        } else if let Some(remote) = &mut self.remote
            && let Some(last) = remote.keepalive.replace(wire)
        {
            remote.abandon(last);
        }
    }

    /// What the exchange of a request says of it (basic/transports/streamable-http, Request Metadata).
    pub(super) fn request_headers(
        &self,
        frame: &[u8],
        parts: &RequestParts,
        method: Method,
        revision: Revision,
    ) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if revision.era() == Era::Legacy {
            self.legacy_headers(&mut headers);
            return headers;
        }
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.name()));
        let name = parts.method.of(frame);
        let name = name.get(1..name.len().saturating_sub(1)).unwrap_or_default();
        if let Ok(name) = HeaderValue::from_bytes(name) {
            headers.insert(METHOD, name);
        }
        self.repeat_in_headers(frame, parts, method, &mut headers);
        headers
    }

    /// What every exchange of a legacy session carries once it is negotiated.
    pub(super) fn legacy_headers(&self, headers: &mut HeaderMap) {
        if let Some(revision) = self.server.negotiated() {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.name()));
        }
        if let Some(session) = self.remote.as_ref().and_then(|remote| remote.session.clone()) {
            headers.insert(SESSION_ID, session);
        }
    }
}

fn read_head(status: http::StatusCode, headers: &HeaderMap) -> Head {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let encoding = text(header::CONTENT_ENCODING);
    Head {
        status: status.as_u16(),
        content: Content::of(headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes)),
        encoded: encoding.is_some_and(|encoding| !encoding.trim().eq_ignore_ascii_case("identity")),
        retry_after: text(header::RETRY_AFTER)
            .and_then(|text| text.trim().parse().ok())
            .map(Duration::from_secs),
    }
}

/// A body may be laid out on several lines, and callers are written lines. In JSON a line break is white space: within a
/// string it is escaped.
fn on_one_line(message: &mut [u8]) {
    for byte in message {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The GET that takes up the stream of a request.
fn resumption(first: &http::Request<Bytes>, decoder: &EventDecoder<Vec<u8>>) -> http::Request<Bytes> {
    let mut request = http::Request::new(Bytes::new());
    *request.uri_mut() = first.uri().clone();
    for name in [PROTOCOL_VERSION, SESSION_ID] {
        if let Some(value) = first.headers().get(&name) {
            request.headers_mut().insert(name, value.clone());
        }
    }
    request.headers_mut().insert(header::ACCEPT, EVENTS);
    if let Some(id) = decoder.last_event_id().and_then(|id| HeaderValue::from_bytes(id).ok()) {
        request.headers_mut().insert(LAST_EVENT_ID, id);
    }
    request
}
