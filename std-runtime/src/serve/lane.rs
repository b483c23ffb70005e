//! What waits for a client to read it: one lane for each stream.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use drowse_core::front::http::events::EventId;
use drowse_core::message;

use super::held::Untaken;
use crate::bridge::FAILED;

/// A message as an event of a stream, and where in it the message itself stands.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) bytes: Bytes,
    start: usize,
    id: Option<EventId>,
}

/// What ends an event.
const END: &[u8] = b"\n\n";

impl Event {
    /// An event of that id, if it has one.
    pub(super) fn new(id: &[u8], parts: &[&[u8]]) -> Self {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut bytes = Vec::with_capacity(id.len() + length + 12 + END.len());
        if !id.is_empty() {
            bytes.extend_from_slice(b"id: ");
            bytes.extend_from_slice(id);
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(b"data: ");
        let start = bytes.len();
        for part in parts {
            bytes.extend_from_slice(part);
        }
        // A server behind a URL may write a message on several lines, which to a client of these would be several parts.
        if let Some(message) = bytes.get_mut(start..) {
            on_one_line(message);
        }
        bytes.extend_from_slice(END);
        Self { bytes: bytes.into(), start, id: None }
    }

    /// An event that begins a stream: it says how to come again.
    pub(super) fn priming(id: &[u8], retry: u128) -> Self {
        let bytes = [b"id: ", id, format!("\nretry: {retry}\ndata: \n\n").as_bytes()].concat();
        Self { start: bytes.len(), bytes: bytes.into(), id: None }
    }

    /// An event that says how to come again and nothing else.
    pub(super) fn retry(retry: u128) -> Self {
        let bytes = format!("retry: {retry}\n\n");
        Self { start: bytes.len(), bytes: bytes.into(), id: None }
    }

    /// The same with its id, for those who keep it.
    pub(super) fn with_id(self, id: EventId) -> Self {
        Self { id: Some(id), ..self }
    }

    /// The same among all that clients have yet to take; `None`: there is no room for it.
    pub(super) fn admitted(self, all: &Untaken) -> Option<Self> {
        Some(Self { bytes: all.admit(self.bytes)?, ..self })
    }

    /// What a client is told whose answer finds no room.
    pub(super) fn no_room(event: &[u8], id: Option<&[u8]>) -> Self {
        let why = "the clients here have too much yet to read, so that this answer had to be given up: read, and ask again";
        Self::failed(event, id, why, br#"{"drowse":{"kind":"unread","ran":"unknown"}}"#)
    }

    /// What a client is told whose session ends before the answer.
    pub(super) fn session_over(event: &[u8], id: Option<&[u8]>) -> Self {
        let why = "the session of this client ended before the answer: begin anew";
        Self::failed(event, id, why, br#"{"drowse":{"kind":"shutting-down","ran":"unknown"}}"#)
    }

    fn failed(event: &[u8], id: Option<&[u8]>, why: &str, data: &[u8]) -> Self {
        let mut buffer = vec![0; 512 + id.map_or(0, <[u8]>::len)];
        let error = message::error(id, FAILED, why, Some(data), &mut buffer).unwrap_or_default();
        Self::new(event, &[error])
    }

    pub(super) fn id(&self) -> Option<EventId> {
        self.id
    }

    /// The message alone.
    pub(super) fn message(&self) -> Bytes {
        self.bytes.slice(self.start..self.bytes.len().saturating_sub(END.len()).max(self.start))
    }
}

/// Replaces line ends, which JSON has only between its tokens.
pub(super) fn on_one_line(message: &mut [u8]) {
    let mut rest = message;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
        let Some((_, tail)) = rest.split_at_mut_checked(at) else { return };
        let Some((end, tail)) = tail.split_first_mut() else { return };
        *end = b' ';
        rest = tail;
    }
}

/// One lane.
#[derive(Debug, Default)]
pub(super) struct Lane {
    queue: VecDeque<Event>,
    bytes: usize,
    /// Nothing more comes.
    over: bool,
    waker: Option<Waker>,
}

impl Lane {
    pub(super) fn push(&mut self, event: Event) {
        self.bytes += event.bytes.len();
        self.queue.push_back(event);
        self.wake();
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        let event = self.queue.pop_front()?;
        self.bytes -= event.bytes.len();
        Some(event)
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self) {
        self.over = true;
        self.wake();
    }

    pub(super) fn clear(&mut self) {
        self.queue = VecDeque::new();
        self.bytes = 0;
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn count(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.queue.iter()
    }

    /// Whether the only thing that comes is there.
    pub(super) fn is_single(&self) -> bool {
        self.over && self.queue.len() == 1
    }

    /// Ready when there is something to read, or nothing more will be.
    pub(super) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.over || !self.queue.is_empty() {
            return Poll::Ready(());
        }
        self.wait(context);
        Poll::Pending
    }

    /// Woken by the next thing that happens.
    pub(super) fn wait(&mut self, context: &mut Context<'_>) {
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            self.waker = Some(context.waker().clone());
        }
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
