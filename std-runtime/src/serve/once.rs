//! A request of the modern era: it stands for itself, and is a connection of the hub of its own.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::body::Source;
use super::held::Untaken;
use super::lane::{Event, Lane};
use crate::bridge::{About, Guest, Sink};

/// What the hub says about a request.
pub(super) struct Once {
    lane: RefCell<Lane>,
    /// What may wait to be read.
    unread: usize,
    untaken: Untaken,
    /// Its client takes no stream: what comes before the answer is not told.
    answer_only: bool,
}

impl Once {
    pub(super) fn new(unread: usize, untaken: Untaken, answer_only: bool) -> Rc<Self> {
        Rc::new(Self { lane: RefCell::default(), unread, untaken, answer_only })
    }

    pub(super) fn lane(&self) -> &RefCell<Lane> {
        &self.lane
    }
}

impl Sink for Once {
    fn take(&self, about: About<'_>, parts: &[&[u8]]) {
        let mut lane = self.lane.borrow_mut();
        let answers = matches!(about, About::Answer(_));
        if lane.is_over() || self.answer_only && !answers {
            return;
        }
        let admitted = Event::new(&[], parts).admitted(&self.untaken);
        let is_lost = admitted.is_none();
        match (admitted, about) {
            (Some(event), _) => lane.push(event),
            (None, About::Answer(id)) => lane.push(Event::no_room(&[], Some(id))),
            (None, _) => {}
        }
        if answers {
            lane.end();
        } else if is_lost || lane.bytes() > self.unread && lane.count() > 1 {
            // It does not read its stream. What it would have heard is lost, and so is the request.
            lane.clear();
            lane.end();
        }
    }

    fn leave_unanswered(&self, _: &[u8]) {
        self.lane.borrow_mut().end();
    }

    fn backlog(&self) -> usize {
        self.lane.borrow().bytes()
    }

    fn is_broken(&self) -> bool {
        self.lane.borrow().is_over()
    }

    fn away(&self) -> Option<Duration> {
        // Who closes its stream takes the request back.
        None
    }

    fn close(&self) {
        self.lane.borrow_mut().end();
    }
}

/// The stream of such a request. Closing it takes the request back.
pub(super) struct OnceSource {
    pub(super) once: Rc<Once>,
    pub(super) guest: Guest,
}

impl Source for OnceSource {
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut lane = self.once.lane.borrow_mut();
        if let Some(event) = lane.pop() {
            let (is_over, is_empty) = (lane.is_over(), lane.count() == 0);
            drop(lane);
            if is_over {
                self.guest.settle();
            } else if is_empty {
                self.guest.eased();
            }
            return Poll::Ready(Some(event));
        }
        match lane.is_over() {
            true => Poll::Ready(None),
            false => {
                lane.wait(context);
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &[u8] = &[b'x'; 60_000];

    fn said(once: &Once) -> String {
        let event = once.lane().borrow_mut().pop().unwrap();
        String::from_utf8(event.message().to_vec()).unwrap()
    }

    #[test]
    fn an_answer_that_finds_no_room_is_an_error() {
        let all = Untaken::new(100_000);
        let new = || Once::new(1 << 20, all.clone(), false);
        let (first, second, third) = (new(), new(), new());
        first.take(About::Answer(b"1"), &[LONG]);
        second.take(About::Answer(b"2"), &[LONG]);
        let refused = said(&second);
        assert!(refused.starts_with(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-31000,"#), "{refused}");
        assert!(refused.contains(r#""kind":"unread","ran":"unknown""#), "{refused}");
        // What is short does not wait for that.
        third.take(About::Request(b"3"), &[b"short"]);
        assert_eq!(said(&third), "short");
        // It is being written: its client does not have it yet.
        let writing = first.lane().borrow_mut().pop().unwrap();
        let rest = writing.bytes.slice(50_000..);
        drop((writing, first));
        third.take(About::Request(b"3"), &[LONG]);
        assert!(third.is_broken(), "a stream that lost something is over");
        assert!(third.lane().borrow_mut().pop().is_none());
        drop(rest);
        let last = new();
        last.take(About::Answer(b"4"), &[LONG]);
        assert_eq!(said(&last).len(), LONG.len());
    }
}
