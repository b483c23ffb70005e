//! Whose turn it is on a connection of HTTP/2, and the end of one whose client does nothing.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use drowse_core::front::http::{Limits, turns};
use drowse_core::time::Instant;
use http_body::{Frame, SizeHint};
use send_wrapper::SendWrapper;

/// The requests of a connection.
pub(super) struct Turns {
    inner: RefCell<turns::Turns<Box<[turns::Slot]>>>,
    epoch: tokio::time::Instant,
    /// How often it is looked at that is not over yet.
    pause: std::time::Duration,
}

impl Turns {
    /// A connection that begins.
    pub(super) fn new(limits: &Limits, most: usize) -> Rc<Self> {
        let slots = vec![turns::Slot::EMPTY; most].into_boxed_slice();
        let begin = Instant::from_micros(0);
        Rc::new(Self {
            inner: RefCell::new(turns::Turns::new(begin, limits.head, limits.stalled, slots)),
            epoch: tokio::time::Instant::now(),
            pause: limits.head.min(limits.stalled),
        })
    }

    fn now(&self) -> Instant {
        Instant::from_micros(u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Waits until it is over.
    pub(super) async fn over(&self) {
        loop {
            let now = self.now();
            // Nobody tells when that changes: it is never later than it was, and nothing is over sooner than in a pause.
            let next = match self.inner.borrow().poll_timeout() {
                Some(at) if at <= now => return,
                Some(at) => at.since(now),
                None => self.pause,
            };
            tokio::time::sleep(next).await;
        }
    }

    /// A request is there.
    pub(super) fn begin(self: &Rc<Self>) -> Turn {
        let number = self.inner.borrow_mut().open();
        Turn { turns: Rc::clone(self), number }
    }
}

/// A request of such a connection. Dropped, it is over.
pub(super) struct Turn {
    turns: Rc<Turns>,
    number: usize,
}

impl Turn {
    fn give(&self) {
        let now = self.turns.now();
        self.turns.inner.borrow_mut().give(now, self.number);
    }

    /// It lasts as long as the body of its response.
    pub(super) fn watch(self, response: Response) -> Response {
        self.give();
        response.map(|body| Body::new(Watched { body, turn: SendWrapper::new(self) }))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let now = self.turns.now();
        self.turns.inner.borrow_mut().close(now, self.number);
    }
}

/// A body that is asked for more only when the client has taken what there was.
struct Watched {
    body: Body,
    turn: SendWrapper<Turn>,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.turn.turns.inner.borrow_mut().taken(self.turn.number);
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.turn.give();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
