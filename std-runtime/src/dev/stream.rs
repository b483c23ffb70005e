//! A stream that says when it is over, so that the server's end begins at once and not when the last word is read.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;

use crate::bridge::stdio::Reader;

/// What a client writes.
pub(super) struct Watched {
    reader: Reader,
    over: Rc<Notify>,
}

impl Watched {
    /// The stream, and what is told of its end.
    pub(super) fn new(reader: Reader) -> (Self, Rc<Notify>) {
        let over = Rc::new(Notify::new());
        (Self { reader, over: Rc::clone(&over) }, over)
    }
}

impl Drop for Watched {
    /// The connection may also be over because nobody reads what is written to it.
    fn drop(&mut self) {
        self.over.notify_one();
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.reader.as_mut().poll_read(context, buffer);
        if matches!(&read, Poll::Ready(Ok(())) if buffer.filled().len() == before)
            || matches!(&read, Poll::Ready(Err(_)))
        {
            self.over.notify_one();
        }
        read
    }
}
