//! The endpoint: from a request of HTTP to the hub, and from what that says to a response.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::Poll;
use std::time::Duration;

use ::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use ::http::request::Parts;
use ::http::{Method, StatusCode};
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use drowse_core::envelope::{self, Message};
use drowse_core::era::Era;
use drowse_core::front::Front;
use drowse_core::front::http::bodies::{Bodies, SHORT};
use drowse_core::front::http::sessions::{SessionKey, Sessions, Slot};
use drowse_core::front::http::{
    self, Accepts, Gate, Get, Limit, Limits, Post, Refusal, Route, mirror, pages,
};
use drowse_core::message::Writer;
use drowse_core::time::Instant;
use send_wrapper::SendWrapper;
use tokio::sync::Notify;

use super::alarm::Alarms;
use super::body::events;
use super::held::{Untaken, hold};
use super::lane::on_one_line;
use super::once::{Once, OnceSource};
use super::session::{Permit, Session, Stream};
use super::view::View;
use super::{Options, Stop};
use crate::bridge::{Guest, Hub, Offered};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
/// The principal of all modern clients of an endpoint: who they are it cannot tell.
const PRINCIPAL: &[u8] = br#""http""#;

/// Where a connection came in.
#[derive(Debug, Clone, Copy)]
pub(super) struct CameAt(pub(super) IpAddr);

/// An endpoint.
pub(super) struct State {
    pub(super) hub: Hub,
    pub(super) options: Options,
    bound: SocketAddr,
    stop: Rc<Stop>,
    epoch: tokio::time::Instant,
    table: RefCell<Sessions<Box<[Slot]>>>,
    bodies: Rc<Cell<Bodies>>,
    untaken: Untaken,
    /// By the index of the session's slot.
    sessions: RefCell<Vec<Option<Rc<Session>>>>,
    /// A session began.
    began: Notify,
    /// For bodies, and for answers that may yet become streams.
    body_times: Rc<Alarms>,
    patience: Rc<Alarms>,
    legacy_patience: Rc<Alarms>,
    this: Weak<Self>,
}

/// What a body takes of what all may.
struct Room {
    bodies: Rc<Cell<Bodies>>,
    has: usize,
}

impl Room {
    /// The body, and what is to be dropped when its answer begins. A long one has its room for as long as anybody keeps it:
    /// a call that may have to be put again does so when its answer has begun long ago.
    fn hold(self, body: Bytes) -> (Bytes, Option<Self>) {
        if body.len() <= SHORT {
            return (body, Some(self));
        }
        (hold(body, self), None)
    }

    fn grow(&mut self, to: usize) -> Result<(), Refusal> {
        let mut all = self.bodies.get();
        all.grow(self.has, to)?;
        self.bodies.set(all);
        self.has = to.max(self.has);
        Ok(())
    }

    /// Makes room in `body` for so much, and not much more: of those that send slowly each has what came.
    fn reserve(&mut self, body: &mut Vec<u8>, length: usize, longest: usize) -> Result<(), Refusal> {
        if length > body.capacity() {
            let capacity = body.capacity().saturating_mul(2).max(SHORT).min(longest).max(length);
            self.grow(capacity)?;
            body.reserve_exact(capacity - body.len());
        }
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut all = self.bodies.get();
        all.release(self.has);
        self.bodies.set(all);
    }
}

/// A refusal, and what it answers.
struct Refused {
    why: Refusal,
    id: Option<Vec<u8>>,
    body: Bytes,
    /// Who is told.
    era: Era,
}

impl From<Refusal> for Refused {
    fn from(why: Refusal) -> Self {
        Self { why, id: None, body: Bytes::new(), era: Era::Legacy }
    }
}

impl State {
    pub(super) fn new(hub: &Hub, bound: SocketAddr, options: Options, stop: Rc<Stop>) -> Rc<Self> {
        let Limits { sessions, idle, bodies, answers, .. } = options.limits;
        Rc::new_cyclic(|this| Self {
            hub: hub.clone(),
            options,
            bound,
            stop,
            epoch: tokio::time::Instant::now(),
            table: RefCell::new(Sessions::new(idle, vec![Slot::EMPTY; sessions].into_boxed_slice())),
            bodies: Rc::new(Cell::new(Bodies::new(bodies))),
            untaken: Untaken::new(answers),
            sessions: RefCell::new(vec![None; sessions]),
            began: Notify::new(),
            body_times: Alarms::new(),
            patience: Alarms::new(),
            legacy_patience: Alarms::new(),
            this: this.clone(),
        })
    }

    fn now(&self) -> Instant {
        Instant::from_micros(u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Ends sessions that nobody uses.
    pub(super) async fn expire(&self) {
        loop {
            let next = self.table.borrow().poll_timeout();
            let next = match next {
                None if self.table.borrow().count() == 0 => {
                    self.began.notified().await;
                    continue;
                }
                // Those in use end later than that.
                None => self.now().after(self.options.limits.idle),
                Some(at) => at,
            };
            tokio::time::sleep_until(self.epoch + next.since(Instant::from_micros(0))).await;
            loop {
                let now = self.now();
                let Some(key) = self.table.borrow_mut().poll_expired(now) else { break };
                self.remove(key);
            }
        }
    }

    /// Ends all sessions.
    pub(super) fn end(&self) {
        let sessions: Vec<Rc<Session>> =
            self.sessions.borrow_mut().iter_mut().filter_map(Option::take).collect();
        for session in sessions {
            session.give_up();
        }
    }

    /// A stream or a request of a session is over.
    pub(super) fn ended(&self, key: SessionKey) {
        let now = self.now();
        self.table.borrow_mut().end(now, key);
    }

    fn remove(&self, key: SessionKey) {
        let session = self
            .sessions
            .borrow_mut()
            .get_mut(key.index())
            .and_then(|place| place.take_if(|session| session.key == key));
        if let Some(session) = session {
            session.end();
        }
    }

    fn find(&self, text: &[u8]) -> Result<Rc<Session>, Refusal> {
        let now = self.now();
        let key = self.table.borrow_mut().find(now, text)?;
        let session = self.sessions.borrow().get(key.index()).cloned().flatten();
        match session.filter(|session| session.key == key) {
            Some(session) if !session.is_closed() => Ok(session),
            _ => {
                self.table.borrow_mut().close(key);
                self.remove(key);
                Err(Refusal::UnknownSession)
            }
        }
    }

    fn permit(&self, key: SessionKey) -> Result<Permit, Refusal> {
        self.table.borrow_mut().begin(key, self.options.limits.streams)?;
        Ok(Permit { state: self.this.clone(), key })
    }

    /// Answers a request.
    pub(super) async fn respond<B>(&self, head: &Parts, body: B, at: Option<CameAt>) -> Response
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        let page = self.page(&head.headers, at);
        let mut response = match self.serve(head, body, at).await {
            Ok(response) => response,
            Err(refused) => refusal(&refused),
        };
        if let Some(page) = page {
            show(&mut response, page);
        }
        response
    }

    /// The `Origin` of a request whose page may read the response.
    fn page(&self, headers: &HeaderMap, at: Option<CameAt>) -> Option<HeaderValue> {
        if self.options.origins.is_empty() {
            return None;
        }
        self.gate(at).page(&View::new(headers)).and_then(|origin| HeaderValue::from_bytes(origin).ok())
    }

    async fn serve<B>(&self, head: &Parts, body: B, at: Option<CameAt>) -> Result<Response, Refused>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        let view = View::new(&head.headers);
        let told = |refused: Refused| Refused { era: http::era(&view), ..refused };
        if self.stop.is_said() {
            return Err(told(Refusal::Closing.into()));
        }
        let gate = self.gate(at);
        let authority = head.uri.authority().map(::http::uri::Authority::as_str);
        if head.method == Method::OPTIONS && gate.asks_first(&view, authority)? {
            return Ok(preflight(&view));
        }
        gate.admit(&view, authority).map_err(Refused::from).map_err(told)?;
        self.answer(head, &view, body).await.map_err(told)
    }

    /// Answers a request of somebody who may come in.
    async fn answer<B>(&self, head: &Parts, view: &View<'_>, body: B) -> Result<Response, Refused>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        match head.method {
            Method::POST => {
                let post = Post::read(view)?;
                let (body, room) = self.collect(body).await?;
                let (body, _room) = room.hold(one_line(body));
                self.post(&post, view, body).await
            }
            Method::GET => {
                let get = Get::read(view, false)?;
                let session = self.find(get.session)?;
                let permit = self.permit(session.key)?;
                let source = match get.last {
                    Some(last) => session.resume(last, permit)?,
                    None => session.listen(permit),
                };
                Ok(stream(events(source, self.options.pace.keep_alive)))
            }
            Method::DELETE => {
                let get = Get::read(view, true)?;
                let session = self.find(get.session)?;
                self.table.borrow_mut().close(session.key);
                self.remove(session.key);
                Ok(empty(StatusCode::NO_CONTENT))
            }
            _ => Err(Refusal::Method.into()),
        }
    }

    fn gate(&self, at: Option<CameAt>) -> Gate<'_, String> {
        Gate {
            local: at.map_or(self.bound.ip(), |at| at.0),
            hosts: &self.options.hosts,
            origins: &self.options.origins,
            token: self.options.token.as_deref().map(str::as_bytes),
        }
    }

    /// The whole body. What comes in one piece is not copied.
    async fn collect<B>(&self, mut body: B) -> Result<(Bytes, Room), Refusal>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        let limit = self.options.limits.body;
        let too_long = Refusal::Limit(Limit::Body(limit));
        if body.size_hint().lower() > limit as u64 {
            return Err(too_long);
        }
        self.bodies.get().expect(usize::try_from(body.size_hint().lower()).unwrap_or(limit))?;
        let mut room = Room { bodies: Rc::clone(&self.bodies), has: 0 };
        let read = async {
            let mut first: Option<Bytes> = None;
            let mut more = Vec::new();
            while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
                // What breaks off may look like a message and is none.
                let frame = frame.map_err(|_| Refusal::Incomplete)?;
                let Ok(data) = frame.into_data() else { break };
                let length = first.as_ref().map_or(more.len(), Bytes::len) + data.len();
                if length > limit {
                    return Err(too_long);
                }
                let rest = body.size_hint().upper().and_then(|rest| usize::try_from(rest).ok());
                let longest = rest.map_or(limit, |rest| length.saturating_add(rest).min(limit));
                match first.take() {
                    None if more.is_empty() => {
                        room.grow(length)?;
                        first = Some(data);
                    }
                    before => {
                        room.reserve(&mut more, length, longest)?;
                        before.iter().for_each(|before| more.extend_from_slice(before));
                        more.extend_from_slice(&data);
                    }
                }
                if body.is_end_stream() {
                    break;
                }
            }
            Ok(first.unwrap_or_else(|| more.into()))
        };
        let read = self.body_times.within(self.options.limits.body_time, read).await;
        Ok((read.unwrap_or(Err(Refusal::Limit(Limit::BodyTime)))?, room))
    }

    async fn post(&self, post: &Post<'_>, view: &View<'_>, body: Bytes) -> Result<Response, Refused> {
        let message = match envelope::read(&body) {
            Ok(message) => message,
            Err(error) => {
                let id = error.id.map(|id| id.of(&body).to_vec());
                return Err(Refused { id, body, ..Refusal::Malformed(error).into() });
            }
        };
        let id = match message {
            Message::Request { id, .. } => Some(id),
            _ => None,
        };
        let refuse = |why: Refusal| Refused {
            id: id.map(|id| id.of(&body).to_vec()),
            body: body.clone(),
            ..why.into()
        };
        let route = post.route(&body, &message).map_err(refuse)?;
        // The body is not kept for as long as its answer takes.
        let asked = id.map(|id| id.of(&body).to_vec());
        let refused = |why: Refusal| Refused { id: asked, ..why.into() };
        match route {
            Route::Modern => {
                // Who is called matters only where tools have headers of their own.
                let called = self.hub.marks_tools().then(|| mirror::tool(&body, &message)).flatten();
                let checked = match called {
                    Some(name) => self
                        .hub
                        .marked_tool(name.of(&body), |tool| mirror::check(post, view, &body, &message, tool)),
                    None => mirror::check(post, view, &body, &message, None),
                };
                checked.map_err(refuse)?;
                if id.is_none() {
                    return Ok(empty(StatusCode::ACCEPTED));
                }
                self.modern(post.accepts, body, &message).await.map_err(refused)
            }
            Route::Begin => self.begin(body, &message).await.map_err(refused),
            Route::Session(session) => {
                let session = self.find(session).map_err(refuse)?;
                self.continued(&session, post.accepts, body, &message).await.map_err(refused)
            }
        }
    }

    async fn modern(&self, accepts: Accepts, body: Bytes, message: &Message) -> Result<Response, Refusal> {
        let once = Once::new(self.options.limits.unread, self.untaken.clone(), accepts == Accepts::Json);
        let front = Front::modern(self.options.asker);
        let guest =
            self.hub.welcome(Rc::clone(&once) as _, front, Some(PRINCIPAL)).ok_or(Refusal::Closing)?;
        if guest.offer(body, message).await == Offered::Closed {
            return Err(Refusal::Closing);
        }
        let ready = poll_fn(|context| once.lane().borrow_mut().poll_ready(context));
        match accepts {
            Accepts::Json => ready.await,
            _ => drop(self.patience.within(self.options.pace.patience, ready).await),
        }
        let mut lane = once.lane().borrow_mut();
        if lane.is_single() && accepts != Accepts::Stream {
            let message = lane.pop().map(|event| event.message()).unwrap_or_default();
            guest.settle();
            return Ok(json(http::status(&message), message));
        }
        if lane.is_over() && lane.count() == 0 {
            return Err(Refusal::Closing);
        }
        drop(lane);
        Ok(stream(events(OnceSource { once, guest }, self.options.pace.keep_alive)))
    }

    /// A session begins.
    async fn begin(&self, body: Bytes, message: &Message) -> Result<Response, Refusal> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| Refusal::Closing)?;
        let now = self.now();
        let (key, gone) = self.table.borrow_mut().open(now, u128::from_ne_bytes(random))?;
        if let Some(gone) = gone {
            self.remove(gone);
        }
        self.began.notify_one();
        let limits = &self.options.limits;
        let session =
            Session::new(key, self.options.pace, limits.unread, self.untaken.clone(), limits.events);
        let begun = self.begin_session(&session, body, message).await;
        if begun.is_err() || session.is_closed() {
            self.table.borrow_mut().close(key);
            session.end();
        }
        begun
    }

    async fn begin_session(
        &self,
        session: &Rc<Session>,
        body: Bytes,
        message: &Message,
    ) -> Result<Response, Refusal> {
        let front = Front::of(self.options.asker);
        let guest: Guest = self.hub.welcome(Rc::clone(session) as _, front, None).ok_or(Refusal::Closing)?;
        session.set_guest(guest);
        let Some(guest) = session.guest() else { return Err(Refusal::Closing) };
        let ids = http::requests(&body, message).map(|id| id.of(&body).to_vec()).collect();
        let stream = session.open(ids, self.permit(session.key)?)?;
        if guest.offer(body, message).await == Offered::Closed {
            return Err(Refusal::Closing);
        }
        // The front answers at once.
        poll_fn(|context| stream.lane().borrow_mut().poll_ready(context)).await;
        let event = stream.lane().borrow_mut().pop().ok_or(Refusal::Closing)?;
        let mut response = json(200, event.message());
        if let Some(revision) = guest.legacy_revision() {
            session.set_revision(revision);
            if let Ok(value) = HeaderValue::from_bytes(&session.key.text()) {
                response.headers_mut().insert(SESSION, value);
            }
            if let Some(place) = self.sessions.borrow_mut().get_mut(session.key.index()) {
                *place = Some(Rc::clone(session));
            }
        } else {
            session.end();
        }
        Ok(response)
    }

    async fn continued(
        &self,
        session: &Rc<Session>,
        accepts: Accepts,
        body: Bytes,
        message: &Message,
    ) -> Result<Response, Refusal> {
        let Some(guest) = session.guest() else { return Err(Refusal::UnknownSession) };
        session.note_heard();
        http::fits(guest.legacy_revision(), message)?;
        let ids: Vec<Vec<u8>> = http::requests(&body, message).map(|id| id.of(&body).to_vec()).collect();
        if ids.is_empty() {
            return match guest.offer(body, message).await {
                Offered::Taken => Ok(empty(StatusCode::ACCEPTED)),
                Offered::Closed => Err(Refusal::UnknownSession),
            };
        }
        let stream = Waiting { session, stream: session.open(ids, self.permit(session.key)?)?, put: false };
        let stream = stream.put(&guest, body, message).await?;
        let ready = poll_fn(|context| stream.stream.lane().borrow_mut().poll_ready(context));
        let streams = matches!(accepts, Accepts::Stream | Accepts::StreamFirst);
        let patience = if streams { Duration::ZERO } else { self.options.pace.legacy_patience };
        let ready = self.legacy_patience.within(patience, ready).await;
        if accepts == Accepts::Json && ready.is_none() {
            poll_fn(|context| {
                let mut lane = stream.stream.lane().borrow_mut();
                if lane.is_over() {
                    return Poll::Ready(());
                }
                lane.wait(context);
                Poll::Pending
            })
            .await;
        }
        let mut lane = stream.stream.lane().borrow_mut();
        if accepts == Accepts::Json {
            while lane.count() > 1 {
                lane.pop();
            }
        }
        if lane.is_single() && !streams {
            let message = lane.pop().map(|event| event.message()).unwrap_or_default();
            return Ok(json(200, message));
        }
        if lane.is_over() && lane.count() == 0 {
            // It was cancelled, which is answered by nothing.
            return Ok(empty(StatusCode::ACCEPTED));
        }
        drop(lane);
        let source = session.stream(&stream.stream);
        Ok(self::stream(events(source, self.options.pace.keep_alive)))
    }
}

/// A request whose client waits for the beginning of the response.
struct Waiting<'s> {
    session: &'s Session,
    stream: Rc<Stream>,
    put: bool,
}

impl Waiting<'_> {
    async fn put(mut self, guest: &Guest, body: Bytes, message: &Message) -> Result<Self, Refusal> {
        let offered = guest.offer(body, message).await;
        self.put = true;
        match offered {
            Offered::Taken => Ok(self),
            Offered::Closed => Err(Refusal::UnknownSession),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.put {
            self.session.orphan(&self.stream);
        } else {
            self.session.forget(&self.stream);
        }
    }
}

/// A message on one line, as servers on standard streams need it. Most are, and are not copied.
fn one_line(body: Bytes) -> Bytes {
    let trimmed = body.trim_ascii();
    let body = if trimmed.len() == body.len() { body.clone() } else { body.slice_ref(trimmed) };
    if memchr::memchr2(b'\n', b'\r', &body).is_none() {
        return body;
    }
    let mut line = body.to_vec();
    on_one_line(&mut line);
    line.into()
}

fn response(status: StatusCode, kind: HeaderValue, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn json(status: u16, body: Bytes) -> Response {
    response(StatusCode::from_u16(status).unwrap_or_default(), JSON, Body::from(body))
}

fn stream(body: Body) -> Response {
    let mut response = response(StatusCode::OK, EVENTS, body);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Tells a browser what its page may send.
fn preflight(view: &View<'_>) -> Response {
    let mut buffer = vec![0; pages::allowed_length(view)];
    let mut w = Writer::new(&mut buffer);
    pages::write_allowed(view, &mut w);
    let allowed = w.finish().ok().and_then(|allowed| HeaderValue::from_bytes(allowed).ok());
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(pages::METHODS));
    headers.extend(allowed.map(|allowed| (header::ACCESS_CONTROL_ALLOW_HEADERS, allowed)));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(pages::MAX_AGE));
    headers.insert(header::VARY, HeaderValue::from_static("access-control-request-headers"));
    response
}

/// The page of that origin may read the response.
fn show(response: &mut Response, page: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(pages::EXPOSED));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}

fn refusal(refused: &Refused) -> Response {
    let mut buffer = vec![0; 1024 + refused.id.as_ref().map_or(0, Vec::len) + refused.body.len().min(4096)];
    let mut w = Writer::new(&mut buffer);
    refused.why.write(&mut w, refused.id.as_deref(), &refused.body, refused.era);
    let body = w.finish().map(Bytes::copy_from_slice).unwrap_or_default();
    let mut response = json(refused.why.status(), body);
    let headers = response.headers_mut();
    match refused.why {
        Refusal::Unauthorized => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        Refusal::ContentEncoding => {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        Refusal::Method => {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
        }
        _ => {}
    }
    if let Some(seconds) = refused.why.retry_after() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The endpoint for axum, which wants futures that any thread may poll: these are polled by this one only.
pub(super) fn router(state: &Rc<State>) -> axum::Router {
    let shared = SendWrapper::new(Rc::clone(state));
    let endpoint = move |request: Request| {
        let state = Rc::clone(&shared);
        let at = request.extensions().get::<CameAt>().copied();
        SendWrapper::new(async move {
            let (head, body) = request.into_parts();
            state.respond(&head, body, at).await
        })
    };
    axum::Router::new().route(&state.options.path, axum::routing::any(endpoint)).fallback(nowhere)
}

async fn nowhere() -> Result<Response, Infallible> {
    let body = Bytes::from_static(
        br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"there is nothing at this path"}}"#,
    );
    Ok(json(404, body))
}

/// What a connection that is one too many is told.
pub(super) fn too_many() -> String {
    let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"too many connections: try again later"}}"#;
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}
