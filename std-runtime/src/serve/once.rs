//! A request of the modern era: it stands for itself, and is a connection of the hub of its own.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::body::Source;
use super::lane::{Event, Lane};
use crate::bridge::{About, Guest, Sink};

/// What the hub says about a request.
pub(super) struct Once {
    lane: RefCell<Lane>,
    /// What may wait to be read.
    unread: usize,
    /// Its client takes no stream: what comes before the answer is not told.
    answer_only: bool,
}

impl Once {
    pub(super) fn new(unread: usize, answer_only: bool) -> Rc<Self> {
        Rc::new(Self { lane: RefCell::default(), unread, answer_only })
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
        lane.push(Event::new(&[], parts));
        if answers {
            lane.end();
        } else if lane.bytes() > self.unread && lane.count() > 1 {
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
            if lane.is_over() {
                self.guest.settle();
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
