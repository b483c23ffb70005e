//! The same host around a server behind a URL: the machine of each exchange plays together with the server's own, and a
//! simulated network and server ([`serving`]) answer them. Bodies go as bytes, streams through the decoder.

use std::borrow::ToOwned;
use std::collections::VecDeque;
use std::string::String;
use std::vec;
use std::vec::Vec;

use drowse_core::era::Era;
use drowse_core::http::exchange::{self, Carried, Exchange, Head, Link, Next, Verdict};
use drowse_core::link::{Key, REISSUED};
use drowse_core::message::Own;
use drowse_core::method::Method;
use drowse_core::negotiate::Question;
use drowse_core::sse::{self, EventDecoder};
use drowse_core::time::{Duration, Instant};
use serde_json::Value;

use super::{Behaviour, Did, Event, World};

mod serving;

/// What kind of server it is, and how it is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    /// A process of ours, over a byte stream.
    Process(Era),
    /// 2026-07-28 behind a URL.
    Modern,
    /// Streamable HTTP up to 2025-11-25, with a session.
    Session,
    /// The same without one.
    Stateless,
    /// HTTP with SSE, as in 2024-11-05.
    Old,
}

impl From<Era> for Peer {
    fn from(era: Era) -> Self {
        Self::Process(era)
    }
}

impl Peer {
    pub(crate) const fn era(self) -> Era {
        match self {
            Self::Process(era) => era,
            Self::Modern => Era::Modern,
            Self::Session | Self::Stateless | Self::Old => Era::Legacy,
        }
    }

    pub(crate) const fn is_remote(self) -> bool {
        !matches!(self, Self::Process(_))
    }
}

/// What becomes of the next request that a caller sent, or of the next attempt to take a stream up again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whim {
    /// The answer as one message.
    Plain,
    /// The answer on a stream, behind an event that has an id.
    Stream,
    /// The same, but the stream ends before the answer, which waits for whoever takes it up.
    Cut,
    /// The connection breaks before a response.
    Break { runs: bool },
    /// The body breaks off in the middle.
    Half,
    /// There is no connection.
    Away,
    /// A status that is no success, with the code of an error in its body.
    Refuse { status: u16, code: Option<i64>, later: Option<u64>, runs: bool },
    /// An answer to another request.
    Foreign,
    /// Another type of content.
    Page,
    /// It runs, and there is no response.
    Mute,
    /// The answer comes twice on its stream, and the stream stays open.
    Twice,
}

impl Whim {
    /// Nothing that is refused so has run, by the rules of HTTP and of the protocol.
    const fn is_proof(status: u16, later: bool, session: bool) -> bool {
        matches!(status, 300..=399 | 401 | 403 | 405)
            || later && matches!(status, 429 | 503)
            || session && matches!(status, 400 | 404)
    }
}

/// The adapter's side and the server's.
#[derive(Debug, Default)]
pub(crate) struct Net {
    courses: Vec<Course>,
    next: u64,
    session: Option<u64>,
    old: bool,
    closing: bool,
    // The server's.
    known: Vec<u64>,
    sessions: u64,
    listening: Option<u64>,
    old_stream: Option<u64>,
    /// Answers that a stream did not bring any more, by its exchange.
    parked: Vec<(u64, Value)>,
    pub(crate) whims: VecDeque<Whim>,
    /// Sessions that were ended by a request.
    pub(crate) ended: Vec<u64>,
}

/// An exchange on its way.
#[derive(Debug)]
struct Course {
    number: u64,
    exchange: Exchange,
    wire: u64,
    request: Sent,
    stage: Stage,
    decoder: EventDecoder<Vec<u8>>,
    body: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Head,
    Message,
    Events,
    Inspect,
}

/// A request of HTTP.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    verb: &'static str,
    message: Value,
    session: Option<u64>,
    /// To the endpoint that the stream of 2024-11-05 named.
    endpoint: bool,
    last_event: Option<String>,
}

/// What happens on the network, about one exchange.
#[derive(Clone, Debug)]
pub(super) enum Happens {
    /// The server gets the request.
    Arrives(Sent),
    Head(Head, Option<u64>),
    Chunk(Vec<u8>),
    End,
    Fails {
        connected: bool,
    },
    /// The pause is over.
    Resend,
}

impl Net {
    /// The server forgot its sessions, and nobody was told so far.
    pub(crate) fn known_no_more(&mut self) {
        self.known.clear();
    }
}

impl World {
    // What callers and tests do.

    /// The server forgets its sessions, and every stream ends.
    pub(crate) fn forgets(&mut self) {
        self.net.known.clear();
        self.net.old_stream = None;
        self.net.listening = None;
        let numbers: Vec<u64> = self.net.courses.iter().map(|course| course.number).collect();
        for number in numbers {
            self.on_net(self.now, number, Happens::End);
        }
        if let Some(process) = &mut self.process {
            process.held.clear();
        }
        self.pass(Duration::ZERO);
    }

    /// How the server behaves that runs.
    pub(crate) fn behaviour_of_process(&mut self) -> Option<&mut Behaviour> {
        self.process.as_mut().map(|process| &mut process.behaviour)
    }

    /// The session that is used.
    pub(crate) fn session(&self) -> Option<u64> {
        self.net.session
    }

    /// Exchanges that are under way.
    pub(crate) fn exchanges(&self) -> usize {
        self.net.courses.len()
    }

    // The adapter.

    pub(super) fn post_own(&mut self, own: Own, bytes: &[u8]) {
        let (carried, wire) = match own {
            Own::Discover { id, .. } if self.server.revision().is_none() => {
                (Carried::Question(Question::Discover), id)
            }
            Own::Initialize { id, .. } => (Carried::Question(Question::Initialize), id),
            Own::Discover { id, .. } | Own::Ping { id } => (Carried::Request(Method::ServerPing), id),
            Own::SetLevel { id, .. } => (Carried::Request(Method::SetLevel), id),
            Own::Initialized | Own::Cancelled { .. } => (Carried::Message, 0),
        };
        self.post(carried, wire, bytes);
    }

    pub(super) fn post(&mut self, carried: Carried, wire: u64, bytes: &[u8]) {
        let message = serde_json::from_slice(bytes).expect("what drowse writes is JSON");
        self.begin("POST", carried, wire, message);
    }

    pub(super) fn begin(&mut self, verb: &'static str, carried: Carried, wire: u64, message: Value) {
        let era = self.server.revision().map(|revision| revision.era());
        let link = Link { era, session: self.net.session.is_some(), old: self.net.old };
        let number = self.net.next;
        self.net.next += 1;
        let (session, endpoint) = (self.net.session, self.net.old);
        let request = Sent { verb, message, session, endpoint, last_event: None };
        self.net.courses.push(Course {
            number,
            exchange: Exchange::new(carried, link),
            wire,
            request: request.clone(),
            stage: Stage::Head,
            decoder: EventDecoder::new(vec![0; 4096], 4000),
            body: Vec::new(),
        });
        self.transmit(number, request);
    }

    fn transmit(&mut self, number: u64, request: Sent) {
        let name = request.message["method"].as_str().unwrap_or(if request.verb == "POST" {
            "answer"
        } else {
            request.verb
        });
        self.did.push(Did::Send(name.to_owned()));
        let Some(process) = &self.process else { return };
        let at = self.now.max(process.started.after(process.behaviour.boot));
        self.on_net(at, number, Happens::Arrives(request));
    }

    pub(super) fn goodbye(&mut self) {
        self.net
            .courses
            .retain(|course| !matches!(course.exchange.carried(), Carried::Listening | Carried::OldStream));
        if self.net.session.is_some() && !self.net.closing {
            self.begin("DELETE", Carried::Goodbye, 0, Value::Null);
        }
        self.net.closing = true;
        self.exchanges_over();
    }

    pub(super) fn break_off(&mut self) {
        self.net.courses.clear();
        self.net.closing = true;
        self.exchanges_over();
    }

    /// Nobody waits for the answer to that request. A modern server takes the end of the exchange for that.
    pub(super) fn abandon(&mut self, key: Key) {
        let is_it = |course: &Course| {
            matches!(course.exchange.carried(), Carried::Request(_)) && course.wire & !REISSUED == key.wire()
        };
        if let Some(place) = self.net.courses.iter().position(is_it) {
            let course = self.net.courses.remove(place);
            if self.behaviour.peer == Peer::Modern
                && let Some(process) = &mut self.process
            {
                let before = process.held.len();
                process.held.retain(|held| held.course != course.number);
                self.cancelled += before - process.held.len();
            }
            self.exchanges_over();
        }
    }

    fn exchanges_over(&mut self) {
        if self.net.closing && self.net.courses.is_empty() {
            self.net.closing = false;
            self.net.session = None;
            self.net.old = false;
            self.process = None;
            self.server.handle_tree_gone(self.now);
        }
    }

    /// The whole of them is gone at once.
    pub(super) fn net_vanishes(&mut self) {
        self.net.courses.clear();
        self.net.closing = false;
        self.net.session = None;
        self.net.old = false;
    }

    pub(super) fn on_net(&mut self, at: Instant, number: u64, happens: Happens) {
        let Some(process) = &self.process else { return };
        self.agenda.push((at, process.generation, Event::Net(number, happens)));
    }

    /// Nobody reads what is left of it.
    fn forget_response(&mut self, number: u64) {
        self.agenda.retain(|(.., event)| !matches!(event, Event::Net(of, _) if *of == number));
    }

    /// What comes of something that happened.
    pub(super) fn net_happens(&mut self, number: u64, happens: Happens) {
        if let Happens::Arrives(request) = happens {
            return self.remote_reads(number, &request);
        }
        let Some(place) = self.net.courses.iter().position(|course| course.number == number) else { return };
        let mut course = self.net.courses.remove(place);
        let now = self.now;
        let mut next = None;
        match (happens, course.stage) {
            (Happens::Resend, _) => {
                let request = course.request.clone();
                self.net.courses.insert(place, course);
                return self.transmit(number, request);
            }
            (Happens::Head(head, session), _) => {
                if session.is_some() {
                    self.net.session = session;
                    self.server.handle_session(now);
                }
                next = Some(course.exchange.handle_head(now, &head));
            }
            (Happens::Chunk(bytes), Stage::Events) => self.take_events(&mut course, &bytes),
            (Happens::Chunk(bytes), _) => course.body.extend(bytes),
            (Happens::End, Stage::Message) => {
                self.frame(&course.body.clone());
                let answered = !self.server.awaits(course.wire);
                next = Some(course.exchange.handle_message_end(answered));
            }
            (Happens::End | Happens::Fails { .. }, Stage::Events) => {
                let answered = !self.server.awaits(course.wire);
                next = Some(course.exchange.handle_end(now, answered));
            }
            (Happens::End | Happens::Fails { .. }, Stage::Inspect) => {
                next = Some(course.exchange.handle_body(&course.body));
            }
            (Happens::Fails { connected }, _) => next = Some(course.exchange.handle_failure(now, connected)),
            (Happens::End, Stage::Head) => next = Some(course.exchange.handle_failure(now, true)),
            (Happens::Arrives(_), _) => {}
        }
        let verdict = match next {
            None => None,
            Some(Next::Message) => {
                course.stage = Stage::Message;
                None
            }
            Some(Next::Events) => {
                course.stage = Stage::Events;
                None
            }
            Some(Next::Inspect) => {
                course.stage = Stage::Inspect;
                None
            }
            Some(Next::Again { at }) => {
                assert!(at >= now);
                self.forget_response(number);
                self.on_net(at, number, Happens::Resend);
                course.stage = Stage::Head;
                None
            }
            Some(Next::Resume { at }) => {
                assert!(at >= now);
                self.forget_response(number);
                self.on_net(at, number, Happens::Resend);
                let last = course.decoder.last_event_id().map(|id| String::from_utf8_lossy(id).into_owned());
                course.request =
                    Sent { verb: "GET", message: Value::Null, last_event: last, ..course.request };
                course.decoder.restart();
                course.stage = Stage::Head;
                None
            }
            Some(Next::Answer { error }) => {
                let mut buffer = vec![0; error.len() + 64];
                let frame = exchange::error_answer(course.wire, error.of(&course.body), &mut buffer);
                self.frame(frame.expect("it fits"));
                Some(Verdict::Done)
            }
            Some(Next::Over(verdict)) => Some(verdict),
        };
        match verdict {
            None => self.net.courses.insert(place, course),
            Some(verdict) => {
                if matches!(verdict, Verdict::Expired { .. }) {
                    self.net.session = None;
                }
                self.server.handle_verdict(now, course.exchange.carried(), course.wire, verdict);
                self.exchanges_over();
            }
        }
    }

    fn take_events(&mut self, course: &mut Course, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let space = course.decoder.space();
            let n = space.len().min(rest.len());
            space[..n].copy_from_slice(&rest[..n]);
            course.decoder.filled(n);
            rest = &rest[n..];
            while let Some(event) = course.decoder.poll_event() {
                match event {
                    sse::Event::Message { name: b"endpoint", .. } => {
                        self.net.old = true;
                        self.server.handle_endpoint(self.now);
                    }
                    sse::Event::Message { data, .. } => self.frame(data),
                    sse::Event::Primed => {}
                    sse::Event::Oversize(event) => panic!("{event:?}"),
                }
                let (id, retry) = (course.decoder.last_event_id().is_some(), course.decoder.retry());
                course.exchange.handle_event(id, retry);
            }
        }
    }
}
