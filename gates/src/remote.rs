//! The loop around a server behind a URL: an exchange for each message, and the machine of each. What the network does
//! comes from the board; how a real adapter speaks HTTP is not shown here.

use drowse_core::http::exchange::{self, Carried, Content, Exchange, Head, Link, Next, Verdict};
use drowse_core::link::{Key, REISSUED};
use drowse_core::message::{self, Own};
use drowse_core::method::Method;
use drowse_core::negotiate::Question;
use drowse_core::sse::{Event, EventDecoder};
use drowse_core::time::{Duration, Instant};
use drowse_core::trace::Input;

use crate::adapter::{Desk, Kept};
use crate::board::{self, Do, MESSAGE, Network};
use crate::traced::Traced;

/// Exchanges that may be under way.
const COURSES: usize = 40;
/// A body, or the data of an event.
const BODY: usize = 512;

/// What is under way with a server.
pub struct Remote {
    courses: [Option<Course>; COURSES],
    session: bool,
    old: bool,
    /// The last exchange that ends ends the generation.
    closing: bool,
}

/// An exchange on its way.
struct Course {
    exchange: Exchange,
    wire: u64,
    stage: Stage,
    events: EventDecoder<[u8; BODY]>,
    body: Kept,
}

/// What is awaited of an exchange.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Head,
    Message,
    Events,
    Inspect,
    /// The time to ask again.
    Pause(Instant),
}

impl Remote {
    /// Nothing is under way.
    pub const fn new() -> Self {
        Self { courses: [const { None }; COURSES], session: false, old: false, closing: false }
    }

    /// What one of drowse's own messages is to an exchange.
    pub fn carried(server: &Traced, own: Own) -> (Carried, u64) {
        match own {
            Own::Discover { id, .. } if server.negotiated().is_none() => {
                (Carried::Question(Question::Discover), id)
            }
            Own::Initialize { id, .. } => (Carried::Question(Question::Initialize), id),
            Own::Discover { id, .. } | Own::Ping { id } => (Carried::Request(Method::ServerPing), id),
            Own::SetLevel { id, .. } => (Carried::Request(Method::SetLevel), id),
            Own::Initialized | Own::Cancelled { .. } => (Carried::Message, 0),
        }
    }

    /// Begins an exchange. What it posts, if anything, is written next.
    pub fn begin(&mut self, now: Instant, server: &mut Traced, carried: Carried, wire: u64) {
        if crate::LEAN {
            return;
        }
        let era = server.revision().map(|revision| revision.era());
        let link = Link { era, session: self.session, old: self.old };
        let Some((number, place)) = self.courses.iter_mut().enumerate().find(|(_, place)| place.is_none())
        else {
            server.put(now, Input::Verdict { carried, wire, verdict: Verdict::Unreachable });
            return;
        };
        *place = Some(Course {
            exchange: Exchange::new(carried, link),
            wire,
            stage: Stage::Head,
            events: EventDecoder::new([0; BODY], BODY - 1),
            body: Kept::EMPTY,
        });
        board::act(Do::Exchange, number as u64);
    }

    /// Ends the session and the streams of no request.
    pub fn close(&mut self, now: Instant, server: &mut Traced) {
        if crate::LEAN {
            return;
        }
        for (number, place) in self.courses.iter_mut().enumerate() {
            let is_stream = |course: &mut Course| {
                matches!(course.exchange.carried(), Carried::Listening | Carried::OldStream)
            };
            if place.take_if(is_stream).is_some() {
                board::act(Do::Over, number as u64);
            }
        }
        if self.session && !self.closing {
            self.begin(now, server, Carried::Goodbye, 0);
        }
        self.closing = true;
        self.settle(now, server);
    }

    /// Breaks everything off.
    pub fn abort(&mut self, now: Instant, server: &mut Traced) {
        if crate::LEAN {
            return;
        }
        self.closing = true;
        for (number, place) in self.courses.iter_mut().enumerate() {
            if place.take().is_some() {
                board::act(Do::Over, number as u64);
            }
        }
        self.settle(now, server);
    }

    /// Nobody waits for the answer to that request.
    pub fn abandon(&mut self, now: Instant, server: &mut Traced, key: Key) {
        if crate::LEAN {
            return;
        }
        for (number, place) in self.courses.iter_mut().enumerate() {
            let is_it = |course: &mut Course| {
                matches!(course.exchange.carried(), Carried::Request(_))
                    && course.wire & !REISSUED == key.wire()
            };
            if place.take_if(is_it).is_some() {
                board::act(Do::Over, number as u64);
            }
        }
        self.settle(now, server);
    }

    /// When a pause ends.
    pub fn until(&self) -> Option<Instant> {
        let pauses = self.courses.iter().flatten().filter_map(|course| match course.stage {
            Stage::Pause(at) => Some(at),
            _ => None,
        });
        pauses.min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant) {
        if crate::LEAN {
            return;
        }
        for course in self.courses.iter_mut().flatten() {
            if let Stage::Pause(at) = course.stage
                && now >= at
            {
                board::checksum(course.events.last_event_id().map_or(0, <[u8]>::len) as u64);
                course.events.restart();
                course.body = Kept::EMPTY;
                course.stage = Stage::Head;
            }
        }
    }

    /// The network did something about an exchange.
    pub fn handle(&mut self, now: Instant, server: &mut Traced, desk: &mut Desk, what: Network, body: &[u8]) {
        if crate::LEAN {
            return;
        }
        let number = what.exchange % COURSES;
        let old = &mut self.old;
        let Some(course) = self.courses.get_mut(number).and_then(Option::as_mut) else { return };
        let next = match (what.kind, course.stage) {
            (0, Stage::Head) => {
                let head = Head {
                    status: what.status,
                    content: Content::of(what.content),
                    encoded: what.encoded,
                    retry_after: (what.pause > 0).then(|| Duration::from_secs(what.pause)),
                };
                if what.session && course.exchange.carried() == Carried::Question(Question::Initialize) {
                    self.session = true;
                    server.put(now, Input::Session);
                }
                Some(course.exchange.handle_head(now, &head))
            }
            (1, Stage::Message | Stage::Inspect) => course.take(now, server, body),
            (1, Stage::Events) => {
                course.events(now, server, desk, body, old);
                None
            }
            (2, Stage::Message) => {
                desk.hear(server, now, line(course.body.get()));
                let answered = !server.awaits(course.wire);
                Some(course.exchange.handle_message_end(answered))
            }
            (2, Stage::Events) => {
                let answered = !server.awaits(course.wire);
                Some(course.exchange.handle_end(now, answered))
            }
            (2, Stage::Inspect) => Some(course.exchange.handle_body(course.body.get())),
            (3, Stage::Head | Stage::Message) => Some(course.exchange.handle_failure(now, what.connected)),
            _ => None,
        };
        let verdict = match next {
            None => return,
            Some(Next::Message) => return course.stage = Stage::Message,
            Some(Next::Events) => return course.stage = Stage::Events,
            Some(Next::Inspect) => return course.stage = Stage::Inspect,
            Some(Next::Again { at } | Next::Resume { at }) => return course.stage = Stage::Pause(at),
            Some(Next::Answer { error }) => {
                let mut buffer = [0; BODY + 64];
                if let Ok(frame) =
                    exchange::error_answer(course.wire, error.of(course.body.get()), &mut buffer)
                {
                    desk.hear(server, now, line(frame));
                }
                Verdict::Done
            }
            Some(Next::Over(verdict)) => verdict,
        };
        let (carried, wire) = (course.exchange.carried(), course.wire);
        if let Some(place) = self.courses.get_mut(number) {
            *place = None;
        }
        if let Verdict::Expired { .. } = verdict {
            self.session = false;
        }
        board::act(Do::Over, number as u64);
        server.put(now, Input::Verdict { carried, wire, verdict });
        self.settle(now, server);
    }

    fn settle(&mut self, now: Instant, server: &mut Traced) {
        if self.closing && self.courses.iter().all(Option::is_none) {
            *self = Self::new();
            server.put(now, Input::TreeGone);
        }
    }
}

impl Course {
    /// Keeps a part of a body; over if it is too long for an answer.
    fn take(&mut self, now: Instant, server: &mut Traced, part: &[u8]) -> Option<Next> {
        if self.body.extend(part) || self.stage == Stage::Inspect {
            return None;
        }
        let mut digits = [0; 20];
        let id = Some(message::decimal(self.wire, &mut digits));
        server.put(now, Input::Oversize { id, is_response: true });
        Some(self.exchange.handle_message_end(true))
    }

    fn events(&mut self, now: Instant, server: &mut Traced, desk: &mut Desk, part: &[u8], old: &mut bool) {
        let mut rest = part;
        loop {
            let mut taken = 0;
            for (slot, byte) in self.events.space().iter_mut().zip(rest) {
                *slot = *byte;
                taken += 1;
            }
            self.events.filled(taken);
            rest = rest.get(taken..).unwrap_or_default();
            while let Some(event) = self.events.poll_event() {
                match event {
                    Event::Message { name: b"endpoint", .. } => {
                        if self.exchange.carried() == Carried::OldStream {
                            *old = true;
                            server.put(now, Input::Endpoint);
                        }
                    }
                    Event::Message { data, .. } => {
                        desk.hear(server, now, line(data));
                    }
                    Event::Primed => {}
                    Event::Oversize(event) => {
                        let (id, is_response) = (event.id, event.is_response);
                        server.put(now, Input::Oversize { id, is_response });
                    }
                }
                let (id, retry) = (self.events.last_event_id().is_some(), self.events.retry());
                self.exchange.handle_event(id, retry);
            }
            if taken == 0 {
                break;
            }
        }
    }
}

/// What a trace can hold of a message: it knows only messages of one line.
fn line(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    bytes.get(..end).unwrap_or_default()
}

/// What the machine of an exchange says of bytes that come in its place, in every order.
pub fn exchanges(bytes: &[u8]) {
    let now = Instant::from_micros(board::now());
    let head = |status| Head { status, content: Content::of(Some(bytes)), encoded: false, retry_after: None };
    let mut exchange = Exchange::new(Carried::Request(Method::ToolsList), Link::default());
    for byte in bytes.iter().take(MESSAGE) {
        let next = match byte % 6 {
            0 => exchange.handle_head(now, &head(u16::from(*byte) * 4)),
            1 => exchange.handle_body(bytes),
            2 => exchange.handle_end(now, byte & 8 != 0),
            3 => exchange.handle_message_end(byte & 8 != 0),
            4 => exchange.handle_failure(now, byte & 8 != 0),
            _ => {
                exchange.handle_event(byte & 8 != 0, Some(Duration::from_millis(u64::from(*byte))));
                continue;
            }
        };
        board::checksum(u64::from(matches!(next, Next::Over(_))));
    }
    let status = u16::from(bytes.first().copied().unwrap_or_default()) + 200;
    board::checksum(u64::from(exchange::may_follow(status, bytes.len() > 9)));
}
