//! The body of a response that is a stream of events.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use send_wrapper::SendWrapper;
use tokio::time::{Instant, Sleep, sleep_until};

use super::lane::Event;

/// Where the events of a stream come from. Dropped, its client does not read it any more.
pub(super) trait Source {
    /// The next event; `None` once the stream is over.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>>;
}

/// A comment, which says that the stream goes on.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// The events of a source, and comments where it is silent.
struct Events<S> {
    source: S,
    keep_alive: Duration,
    said: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S: Source> Events<S> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self.source.poll_event(context) {
            Poll::Ready(event) => {
                if self.timer.is_some() {
                    self.said = Instant::now();
                }
                return Poll::Ready(event.map(|event| event.bytes));
            }
            Poll::Pending => {}
        }
        if self.timer.is_none() {
            self.said = Instant::now();
            self.timer = Some(Box::pin(sleep_until(self.said + self.keep_alive)));
        }
        while let Some(timer) = &mut self.timer {
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            let due = self.said + self.keep_alive;
            if due <= now {
                self.said = now;
                timer.as_mut().reset(now + self.keep_alive);
                return Poll::Ready(Some(COMMENT));
            }
            timer.as_mut().reset(due);
        }
        Poll::Pending
    }
}

/// The body; everything is on one thread.
struct Local<S>(SendWrapper<Events<S>>);

impl<S: Source + Unpin> Body for Local<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A stream of events as the body of a response.
pub(super) fn events(source: impl Source + Unpin + 'static, keep_alive: Duration) -> axum::body::Body {
    let events = Events { source, keep_alive, said: Instant::now(), timer: None };
    axum::body::Body::new(Local(SendWrapper::new(events)))
}
