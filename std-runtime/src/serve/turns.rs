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
        response.map(|body| Body::new(Watched { body, rest: Bytes::new(), turn: SendWrapper::new(self) }))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let now = self.turns.now();
        self.turns.inner.borrow_mut().close(now, self.number);
    }
}

/// The most that is given at once. Who takes less in the time that a client has takes nothing.
const PIECE: usize = 16 << 10;

/// A body that is asked for more only when the client has taken what there was. What is long is given in pieces, so that
/// a client which takes it slowly is not one that takes nothing.
struct Watched {
    body: Body,
    /// What is left of a frame.
    rest: Bytes,
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
        let frame = if self.rest.is_empty() {
            ready!(Pin::new(&mut self.body).poll_frame(context))
        } else {
            Some(Ok(Frame::data(std::mem::take(&mut self.rest))))
        };
        self.turn.give();
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| {
                frame.map_data(|mut data| {
                    self.rest = data.split_off(data.len().min(PIECE));
                    data
                })
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower().saturating_add(rest));
        if let Some(upper) = body.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use http_body::Body as _;

    #[tokio::test(start_paused = true)]
    async fn who_takes_a_long_answer_slowly_does_something() {
        let stalled = Duration::from_secs(10);
        let turns = Turns::new(&Limits { head: stalled, stalled, ..Limits::default() }, 4);
        let length = 5 * PIECE + 1;
        let mut body =
            Body::new(turns.begin().watch(Response::new(Body::from(vec![b'x'; length]))).into_body());
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut taken = 0;
        while taken < length {
            assert_eq!(body.size_hint().exact(), Some((length - taken) as u64));
            assert!(!body.is_end_stream());
            let over = tokio::time::timeout(Duration::from_secs(9), turns.over()).await;
            assert!(over.is_err(), "after {taken} bytes");
            let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) else {
                panic!("after {taken} bytes");
            };
            let data = frame.into_data().unwrap();
            assert!(data.len() <= PIECE && data.iter().all(|byte| *byte == b'x'));
            taken += data.len();
        }
        assert!(body.is_end_stream());
        // The last of it is not taken.
        tokio::time::timeout(Duration::from_secs(11), turns.over()).await.unwrap();
    }
}
