//! A session of a legacy client: one connection of the hub, and the streams on which its messages go.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use drowse_core::era::Revision;
use drowse_core::front::http::events::{self, EventId, Log, STANDING};
use drowse_core::front::http::sessions::SessionKey;
use drowse_core::front::http::{Pace, Refusal};
use drowse_core::message::Writer;
use tokio::time::{Instant, Sleep};

use super::body::Source;
use super::endpoint::State;
use super::held::Untaken;
use super::lane::{Event, Lane};
use crate::bridge::{About, Guest, Sink};

/// How many events are kept of a session at most.
const KEPT: usize = 512;
/// How many answers are kept for clients that were sent away before them.
const AWAITED: usize = 64;

/// One session.
pub(super) struct Session {
    pub(super) key: SessionKey,
    pace: Pace,
    unread: usize,
    untaken: Untaken,
    inner: RefCell<Inner>,
    guest: RefCell<Option<Rc<Guest>>>,
    /// When its client was last heard, or stopped to listen.
    heard: Cell<Instant>,
}

struct Inner {
    revision: Option<Revision>,
    /// Of requests that are not answered, each with the mark of its id if it has one alone.
    streams: Vec<(Option<u64>, Rc<Stream>)>,
    /// Those that were answered before their clients came again; the oldest first.
    awaited: VecDeque<Rc<Stream>>,
    /// Of what belongs to no request.
    standing: Rc<Stream>,
    log: Log<Box<[events::Slot]>>,
    kept: VecDeque<Event>,
    next: u32,
    closed: bool,
}

/// How far the response to a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It may still be one JSON object.
    Undecided,
    /// It is a stream of events.
    Streaming,
    /// Nobody will read it, as nobody knows of it.
    Orphan,
}

/// Of which requests a stream is. A batch may be of very many.
enum Ids {
    One(Vec<u8>),
    Many(HashSet<Vec<u8>>),
}

impl Ids {
    fn new(mut ids: Vec<Vec<u8>>) -> Self {
        match ids.pop() {
            Some(id) if ids.is_empty() => Self::One(id),
            last => Self::Many(ids.into_iter().chain(last).collect()),
        }
    }

    /// The id that an error is about; that of a batch is about all of them.
    fn alone(&self) -> Option<&[u8]> {
        match self {
            Self::One(one) => Some(one),
            Self::Many(_) => None,
        }
    }

    fn has(&self, id: &[u8]) -> bool {
        match self {
            Self::One(one) => one == id,
            Self::Many(many) => many.contains(id),
        }
    }
}

/// A stream of a session.
pub(super) struct Stream {
    number: u32,
    /// The first event, which says nothing.
    first: EventId,
    ids: Ids,
    lane: RefCell<Lane>,
    phase: Cell<Phase>,
    /// Which reader is the last; 0: none.
    reader: Cell<u64>,
    readers: Cell<u64>,
    /// Its reader was sent away, and is to come again.
    away: Cell<bool>,
    permit: RefCell<Option<Permit>>,
}

impl Stream {
    fn is_standing(&self) -> bool {
        self.number == STANDING
    }

    pub(super) fn lane(&self) -> &RefCell<Lane> {
        &self.lane
    }

    fn attach(&self) -> u64 {
        let reader = self.readers.get() + 1;
        self.readers.set(reader);
        self.reader.set(reader);
        self.away.set(false);
        // Who read it before finds out.
        self.lane.borrow_mut().wake();
        reader
    }
}

/// A place among the open streams and requests of a session.
pub(super) struct Permit {
    pub(super) state: Weak<State>,
    pub(super) key: SessionKey,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(state) = self.state.upgrade() {
            state.ended(self.key);
        }
    }
}

impl Session {
    pub(super) fn new(key: SessionKey, pace: Pace, unread: usize, untaken: Untaken, kept: usize) -> Rc<Self> {
        let slots = vec![events::Slot::EMPTY; KEPT].into_boxed_slice();
        let standing = Stream {
            number: STANDING,
            first: EventId { stream: STANDING, number: 0 },
            ids: Ids::Many(HashSet::new()),
            lane: RefCell::default(),
            phase: Cell::new(Phase::Streaming),
            reader: Cell::new(0),
            readers: Cell::new(0),
            away: Cell::new(false),
            permit: RefCell::default(),
        };
        let inner = Inner {
            revision: None,
            streams: Vec::new(),
            awaited: VecDeque::new(),
            standing: Rc::new(standing),
            log: Log::new(kept, slots),
            kept: VecDeque::new(),
            next: STANDING + 1,
            closed: false,
        };
        let (inner, guest) = (RefCell::new(inner), RefCell::new(None));
        Rc::new(Self { key, pace, unread, untaken, inner, guest, heard: Cell::new(Instant::now()) })
    }

    /// Its connection of the hub.
    pub(super) fn set_guest(&self, guest: Guest) {
        *self.guest.borrow_mut() = Some(Rc::new(guest));
    }

    /// Its client says something, or listens no more: from now on it may be away.
    pub(super) fn note_heard(&self) {
        self.heard.set(Instant::now());
    }

    pub(super) fn guest(&self) -> Option<Rc<Guest>> {
        self.guest.borrow().clone()
    }

    pub(super) fn set_revision(&self, revision: Revision) {
        self.inner.borrow_mut().revision = Some(revision);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inner.borrow().closed
    }

    /// It is over. Its client is gone for the hub.
    pub(super) fn end(&self) {
        Sink::close(self);
        let guest = self.guest.borrow_mut().take();
        drop(guest);
    }

    /// It is over, and that is not its client's doing: who waits for an answer is told, and does not come again for it.
    pub(super) fn give_up(&self) {
        let mut inner = self.inner.borrow_mut();
        let Inner { streams, log, .. } = &mut *inner;
        for (_, stream) in streams {
            if stream.phase.get() == Phase::Undecided || stream.reader.get() != 0 {
                let id = log.number(stream.number);
                let over = Event::session_over(id_text(id).as_bytes(), stream.ids.alone()).with_id(id);
                stream.lane.borrow_mut().push(over);
            }
        }
        drop(inner);
        self.end();
    }

    /// Whether a response begins with an event that says how to come again.
    fn is_primed(&self) -> bool {
        self.inner.borrow().revision.is_some_and(|revision| revision >= Revision::V2025_11_25)
    }

    /// A stream for the answers to these requests.
    pub(super) fn open(&self, ids: Vec<Vec<u8>>, permit: Permit) -> Result<Rc<Stream>, Refusal> {
        let mut inner = self.inner.borrow_mut();
        if ids.iter().any(|id| inner.stream_of(id).is_some()) {
            return Err(Refusal::IdInUse);
        }
        let number = inner.next;
        inner.next = inner.next.checked_add(1).unwrap_or(STANDING + 1);
        let first = inner.log.number(number);
        let stream = Rc::new(Stream {
            number,
            first,
            ids: Ids::new(ids),
            lane: RefCell::default(),
            phase: Cell::new(Phase::Undecided),
            reader: Cell::new(0),
            readers: Cell::new(0),
            away: Cell::new(false),
            permit: RefCell::new(Some(permit)),
        });
        let alone = match &stream.ids {
            Ids::One(id) => Some(mark(id)),
            Ids::Many(_) => None,
        };
        inner.streams.push((alone, Rc::clone(&stream)));
        Ok(stream)
    }

    /// The answers become events. What goes before them is the second.
    pub(super) fn stream(self: &Rc<Self>, stream: &Rc<Stream>) -> StreamSource {
        let primed = self.is_primed();
        let mut inner = self.inner.borrow_mut();
        stream.phase.set(Phase::Streaming);
        for event in stream.lane.borrow().events() {
            inner.keep(stream.number, event);
        }
        let begins =
            primed.then(|| Event::priming(id_text(stream.first).as_bytes(), self.pace.retry.as_millis()));
        drop(inner);
        self.read(Rc::clone(stream), begins, None)
    }

    fn read(
        self: &Rc<Self>,
        stream: Rc<Stream>,
        begins: Option<Event>,
        permit: Option<Permit>,
    ) -> StreamSource {
        let reader = stream.attach();
        let hold = self.pace.hold.filter(|_| self.is_primed());
        // Who is sent away is told when to come again.
        let begins = begins.or_else(|| hold.map(|_| Event::retry(self.pace.retry.as_millis())));
        let hold = hold.map(|hold| Box::pin(tokio::time::sleep(hold)));
        StreamSource { session: Rc::clone(self), stream, reader, begins, hold, _permit: permit }
    }

    /// The stream of what belongs to no request.
    pub(super) fn listen(self: &Rc<Self>, permit: Permit) -> StreamSource {
        let primed = self.is_primed();
        let mut inner = self.inner.borrow_mut();
        let standing = Rc::clone(&inner.standing);
        let begins = primed.then(|| {
            // All that waits comes after it.
            let waits = standing.lane.borrow().count() > 0;
            let id = if waits { None } else { Some(inner.log.number(STANDING)) };
            id.map(|id| Event::priming(id_text(id).as_bytes(), self.pace.retry.as_millis()))
        });
        drop(inner);
        self.read(standing, begins.flatten(), Some(permit))
    }

    /// A stream that was lost, from that event on.
    pub(super) fn resume(self: &Rc<Self>, last: &[u8], permit: Permit) -> Result<StreamSource, Refusal> {
        let last = EventId::read(last).ok_or(Refusal::UnknownEvent)?;
        let mut inner = self.inner.borrow_mut();
        let awaited = inner.take_awaited(last.stream);
        let missed = inner
            .log
            .after(last)
            .map(|after| after.filter_map(|(at, _)| inner.kept.get(at).cloned()).collect::<Vec<Event>>());
        let found = match last.stream {
            STANDING => Some(Rc::clone(&inner.standing)),
            number => {
                inner.streams.iter().map(|(_, stream)| stream).find(|stream| stream.number == number).cloned()
            }
        };
        drop(inner);
        let stream = match (found.or(awaited), missed) {
            (Some(stream), Ok(missed)) => {
                let mut lane = stream.lane.borrow_mut();
                lane.clear();
                missed.into_iter().for_each(|event| lane.push(event));
                drop(lane);
                stream
            }
            // What waits for it is told; that something is lost nobody can say.
            (Some(stream), Err(_)) if stream.is_standing() => stream,
            // It was sent away, and more came than is kept. The answer is, and it is not lost by what drowse did.
            (Some(stream), Err(_)) if stream.away.get() => stream,
            // It is answered, and the answer was not read.
            (None, Ok(missed)) if !missed.is_empty() => {
                let mut lane = Lane::default();
                missed.into_iter().for_each(|event| lane.push(event));
                lane.end();
                Rc::new(Stream {
                    number: last.stream,
                    first: last,
                    ids: Ids::Many(HashSet::new()),
                    lane: RefCell::new(lane),
                    phase: Cell::new(Phase::Streaming),
                    reader: Cell::new(0),
                    readers: Cell::new(0),
                    away: Cell::new(false),
                    permit: RefCell::default(),
                })
            }
            _ => return Err(Refusal::UnknownEvent),
        };
        Ok(self.read(stream, None, Some(permit)))
    }

    /// Nobody waits for the response any more that was about to be written, so that nobody can ask for it again.
    pub(super) fn orphan(&self, stream: &Stream) {
        if stream.phase.get() == Phase::Undecided {
            stream.phase.set(Phase::Orphan);
            self.note_heard();
            stream.lane.borrow_mut().clear();
        }
    }

    /// Requests that were never put. Of a batch some may have been: whoever reads it says when the rest is over.
    pub(super) fn forget(&self, stream: &Rc<Stream>) {
        match stream.ids {
            Ids::One(_) => self.inner.borrow_mut().close(stream),
            Ids::Many(_) => self.orphan(stream),
        }
    }
}

/// Tells nearly all ids apart, and costs nothing: their ends.
fn mark(id: &[u8]) -> u64 {
    id.iter().rev().take(8).fold(0, |mark, byte| mark << 8 | u64::from(*byte))
}

impl Inner {
    fn keep(&mut self, stream: u32, event: &Event) {
        // Its number stands in it.
        let Some(id) = event.id().filter(|id| id.stream == stream) else { return };
        let pushed = self.log.push(id, event.bytes.len());
        self.kept.drain(..pushed.gone.min(self.kept.len()));
        if pushed.kept {
            self.kept.push_back(event.clone());
        }
    }

    /// A stream was answered whose client was sent away.
    fn await_client(&mut self, stream: Rc<Stream>, unread: usize) {
        // It is no request that is under way any more.
        drop(stream.permit.borrow_mut().take());
        self.awaited.push_back(stream);
        let bytes = |all: &VecDeque<Rc<Stream>>| -> usize {
            all.iter().map(|stream| stream.lane.borrow().bytes()).sum()
        };
        while self.awaited.len() > AWAITED || self.awaited.len() > 1 && bytes(&self.awaited) > unread {
            self.awaited.pop_front();
        }
    }

    fn take_awaited(&mut self, number: u32) -> Option<Rc<Stream>> {
        let at = self.awaited.iter().position(|stream| stream.number == number)?;
        self.awaited.remove(at)
    }

    fn stream_of(&self, id: &[u8]) -> Option<Rc<Stream>> {
        let wanted = mark(id);
        let found = |(mark, stream): &&(Option<u64>, Rc<Stream>)| {
            mark.is_none_or(|mark| mark == wanted) && stream.ids.has(id)
        };
        self.streams.iter().find(found).map(|(_, stream)| Rc::clone(stream))
    }

    /// All that it was opened for is answered, or will not be.
    fn close(&mut self, stream: &Rc<Stream>) {
        self.streams.retain(|(_, one)| !Rc::ptr_eq(one, stream));
    }
}

impl Sink for Session {
    fn take(&self, about: About<'_>, parts: &[&[u8]]) {
        let mut inner = self.inner.borrow_mut();
        if inner.closed {
            return;
        }
        let of_request = match about {
            About::Answer(id) | About::Request(id) => inner.stream_of(id),
            About::Nothing => None,
        };
        let answers = matches!(about, About::Answer(_));
        if answers && of_request.is_none() {
            // An answer goes on the stream of its request and nowhere else.
            return;
        }
        // What a call wants of its client is told, though nobody reads the call's own stream.
        let of_request = of_request.filter(|stream| answers || stream.phase.get() != Phase::Orphan);
        let stream = of_request.unwrap_or_else(|| Rc::clone(&inner.standing));
        let phase = stream.phase.get();
        if phase != Phase::Orphan {
            let id = inner.log.number(stream.number);
            let event = Event::new(id_text(id).as_bytes(), parts).with_id(id);
            if phase == Phase::Streaming {
                inner.keep(stream.number, &event);
            }
            let is_read = stream.reader.get() != 0 || stream.away.get() && answers;
            if phase == Phase::Undecided || is_read || stream.is_standing() {
                let mut lane = stream.lane.borrow_mut();
                let admitted = event.admitted(&self.untaken);
                let is_lost = admitted.is_none();
                match (admitted, about) {
                    (Some(event), _) => lane.push(event),
                    (None, About::Answer(_)) => {
                        lane.push(Event::no_room(id_text(id).as_bytes(), stream.ids.alone()).with_id(id));
                    }
                    (None, _) => {}
                }
                // Once a call is answered, what it said before matters less than that.
                if stream.is_standing() || answers {
                    while lane.bytes() > self.unread && lane.count() > 1 {
                        lane.pop();
                    }
                } else if is_lost || lane.bytes() > self.unread && lane.count() > 1 {
                    // Its client does not read. It can come again for what is kept.
                    lane.clear();
                    stream.reader.set(0);
                    self.note_heard();
                    lane.wake();
                }
            }
        }
        if answers {
            if stream.reader.get() != 0 || phase == Phase::Undecided {
                // It was there until now.
                self.note_heard();
            }
            stream.lane.borrow_mut().end();
            inner.close(&stream);
            if stream.away.get() {
                inner.await_client(stream, self.unread);
            }
        }
        drop(inner);
    }

    fn leave_unanswered(&self, id: &[u8]) {
        let mut inner = self.inner.borrow_mut();
        if let Some(stream) = inner.stream_of(id) {
            stream.lane.borrow_mut().end();
            inner.close(&stream);
        }
    }

    fn backlog(&self) -> usize {
        let inner = self.inner.borrow();
        let streams = inner.streams.iter().map(|(_, stream)| stream);
        streams.chain([&inner.standing]).map(|stream| stream.lane.borrow().bytes()).sum()
    }

    fn is_broken(&self) -> bool {
        self.is_closed()
    }

    fn away(&self) -> Option<Duration> {
        let inner = self.inner.borrow();
        let mut streams = inner.streams.iter().map(|(_, stream)| stream).chain([&inner.standing]);
        let listens =
            |stream: &Rc<Stream>| stream.reader.get() != 0 || stream.phase.get() == Phase::Undecided;
        if streams.any(listens) { None } else { Some(self.heard.get().elapsed()) }
    }

    fn close(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.closed = true;
        let streams = std::mem::take(&mut inner.streams);
        for stream in streams.iter().map(|(_, stream)| stream).chain([&inner.standing]) {
            stream.lane.borrow_mut().end();
        }
    }
}

/// A response that reads a stream. Dropped, the stream goes on without it.
pub(super) struct StreamSource {
    session: Rc<Session>,
    stream: Rc<Stream>,
    reader: u64,
    begins: Option<Event>,
    /// When its client is to come again.
    hold: Option<Pin<Box<Sleep>>>,
    _permit: Option<Permit>,
}

impl Source for StreamSource {
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(event) = self.begins.take() {
            return Poll::Ready(Some(event));
        }
        if self.stream.reader.get() != self.reader {
            return Poll::Ready(None);
        }
        let mut lane = self.stream.lane.borrow_mut();
        if let Some(event) = lane.pop() {
            let is_empty = lane.count() == 0;
            drop(lane);
            if is_empty && let Some(guest) = self.session.guest() {
                guest.eased();
            }
            return Poll::Ready(Some(event));
        }
        if lane.is_over() {
            return Poll::Ready(None);
        }
        if let Some(hold) = &mut self.hold
            && hold.as_mut().poll(context).is_ready()
        {
            self.stream.reader.set(0);
            self.session.note_heard();
            self.stream.away.set(true);
            return Poll::Ready(None);
        }
        lane.wait(context);
        Poll::Pending
    }
}

impl Drop for StreamSource {
    fn drop(&mut self) {
        if self.stream.reader.get() == self.reader {
            self.stream.reader.set(0);
            self.session.note_heard();
            if !self.stream.is_standing() {
                // What it did not read is kept, as far as there is room.
                self.stream.lane.borrow_mut().clear();
            }
        }
    }
}

/// An id as it stands in an event.
fn id_text(id: EventId) -> String {
    let mut buffer = [0; 48];
    let mut w = Writer::new(&mut buffer);
    id.write(&mut w);
    w.finish().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use drowse_core::front::http::sessions::{Sessions, Slot};
    use drowse_core::time::{Duration, Instant};

    use super::*;

    #[test]
    fn an_answer_that_finds_no_room_is_an_error_and_kept_ones_take_none() {
        let long = [b'x'; 60_000];
        let mut table = Sessions::new(Duration::from_secs(60), [Slot::EMPTY]);
        let (key, _) = table.open(Instant::from_micros(0), 1).unwrap();
        let all = Untaken::new(100_000);
        let session = Session::new(key, Pace::default(), 1 << 20, all.clone(), 1 << 20);
        let open = |ids: &[&[u8]]| {
            let ids = ids.iter().map(|id| id.to_vec()).collect();
            session.open(ids, Permit { state: Weak::new(), key }).unwrap()
        };
        let said = |stream: &Stream| {
            let event = stream.lane().borrow_mut().pop().unwrap();
            String::from_utf8(event.message().to_vec()).unwrap()
        };
        let (one, two, batch) = (open(&[b"1"]), open(&[b"2"]), open(&[b"3", b"4"]));
        let source = session.stream(&one);
        session.take(About::Answer(b"1"), &[&long]);
        session.take(About::Answer(b"2"), &[&long]);
        assert!(said(&two).starts_with(r#"{"jsonrpc":"2.0","id":2,"error""#));
        session.take(About::Answer(b"3"), &[b"[", &long, b"]"]);
        assert!(said(&batch).starts_with(r#"{"jsonrpc":"2.0","error""#), "it is about all of them");
        // Its client is gone, and can come again for what is kept.
        let last = one.first;
        drop((source, one));
        let again = open(&[b"5"]);
        session.take(About::Answer(b"5"), &[&long]);
        assert_eq!(said(&again).len(), long.len());
        assert!(session.resume(id_text(last).as_bytes(), Permit { state: Weak::new(), key }).is_ok());
    }

    #[test]
    fn who_waits_in_a_session_that_is_given_up_is_told() {
        let mut table = Sessions::new(Duration::from_secs(60), [Slot::EMPTY]);
        let (key, _) = table.open(Instant::from_micros(0), 1).unwrap();
        let session = Session::new(key, Pace::default(), 1 << 20, Untaken::new(1 << 20), 1 << 20);
        let open = |ids: &[&[u8]]| {
            let ids = ids.iter().map(|id| id.to_vec()).collect();
            session.open(ids, Permit { state: Weak::new(), key }).unwrap()
        };
        let (new, read, left, batch) = (open(&[b"1"]), open(&[b"2"]), open(&[b"3"]), open(&[b"4", b"5"]));
        let _source = session.stream(&read);
        drop(session.stream(&left));
        session.give_up();
        let told = |stream: &Stream| {
            let event = stream.lane().borrow_mut().pop();
            event.map(|event| String::from_utf8(event.message().to_vec()).unwrap())
        };
        for (stream, begins) in [
            (&new, r#"{"jsonrpc":"2.0","id":1,"error""#),
            (&read, r#"{"jsonrpc":"2.0","id":2,"error""#),
            (&batch, r#"{"jsonrpc":"2.0","error""#),
        ] {
            let text = told(stream).unwrap();
            assert!(text.starts_with(begins) && text.contains(r#""kind":"shutting-down","ran":"unknown""#));
            assert!(stream.lane().borrow().is_over());
        }
        assert_eq!(told(&left), None);
        assert!(session.is_closed());
    }
}
