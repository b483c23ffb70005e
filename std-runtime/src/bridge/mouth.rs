//! Where what is said to a client goes: into a byte stream, or to somebody who is called for each message.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use super::outlet::Outlet;

/// What a message is about. Byte streams carry all messages alike; over HTTP each request has a stream of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About<'a> {
    /// It answers the request of that id, raw: nothing more comes of it.
    Answer(&'a [u8]),
    /// It belongs to that request, which goes on.
    Request(&'a [u8]),
    /// It belongs to no request.
    Nothing,
}

/// Takes the messages for a client. It is called while the hub is at work, so it must not call the hub.
pub(crate) trait Sink {
    /// Takes a message, in parts.
    fn take(&self, about: About<'_>, parts: &[&[u8]]);
    /// The request of that id gets no answer: it was cancelled.
    fn leave_unanswered(&self, id: &[u8]);
    /// How many bytes the client has not taken.
    fn backlog(&self) -> usize;
    /// Nobody is there any more.
    fn is_broken(&self) -> bool;
    /// For how long nobody has been there to hear anything, though the client may come again.
    fn away(&self) -> Option<Duration>;
    /// The hub says nothing more on this connection.
    fn close(&self);
}

/// The way to a client.
pub(super) enum Mouth {
    Stream(Outlet),
    Sink(Rc<dyn Sink>),
}

impl Mouth {
    /// Says something to the client.
    pub(super) fn send(&mut self, about: About<'_>, parts: &[&[u8]]) {
        self.pass(about, parts, None);
    }

    /// The same with a message whose `parts` are of `whole`, some of them.
    pub(super) fn pass(&mut self, about: About<'_>, parts: &[&[u8]], whole: Option<&Bytes>) {
        match self {
            Self::Stream(outlet) => outlet.send(parts, whole, None),
            Self::Sink(sink) => sink.take(about, parts),
        }
    }

    /// A request gets no answer.
    pub(super) fn leave_unanswered(&self, id: &[u8]) {
        if let Self::Sink(sink) = self {
            sink.leave_unanswered(id);
        }
    }

    /// How much waits to be taken.
    pub(super) fn backlog(&self) -> usize {
        match self {
            Self::Stream(outlet) => outlet.backlog(),
            Self::Sink(sink) => sink.backlog(),
        }
    }

    /// Whether nothing more will be taken.
    pub(super) fn is_broken(&self) -> bool {
        match self {
            Self::Stream(outlet) => outlet.is_broken(),
            Self::Sink(sink) => sink.is_broken(),
        }
    }

    /// For how long nobody has been there to hear anything. Whose byte stream is over is gone.
    pub(super) fn away(&self) -> Option<Duration> {
        match self {
            Self::Stream(_) => None,
            Self::Sink(sink) => sink.away(),
        }
    }

    /// The byte stream, if it is one.
    pub(super) fn stream(&mut self) -> Option<&mut Outlet> {
        match self {
            Self::Stream(outlet) => Some(outlet),
            Self::Sink(_) => None,
        }
    }

    /// Told when a backlog that the hub has to write became shorter.
    pub(super) fn eased(&self) -> Option<Rc<Notify>> {
        match self {
            Self::Stream(outlet) => Some(outlet.eased()),
            Self::Sink(_) => None,
        }
    }

    /// Nothing more is said.
    pub(super) fn close(&self) {
        if let Self::Sink(sink) = self {
            sink.close();
        }
    }
}
