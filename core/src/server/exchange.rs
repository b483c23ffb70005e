//! What goes into a server's machine besides events, and what comes out of it.

use crate::envelope::{EnvelopeError, Message};
use crate::era::Revision;
use crate::lifecycle::{Lost, Record, Unavailable};
use crate::link::{Allowance, Failure, Key};
use crate::message::Own;
use crate::method::Method;
use crate::relay;
use crate::snapshot;
use crate::span::Span;
use crate::splice::RequestParts;

/// A request for the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Operation {
    /// Its method.
    pub method: Method,
    /// What it may take; `None`: what the configuration says.
    pub allowance: Option<Allowance>,
}

/// Why an operation was not accepted. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Refusal {
    /// As many operations as there are slots are under way: take it back later.
    Full,
    /// The server cannot be used now; the failure is final for this operation.
    Unavailable(Unavailable),
}

/// What the adapter has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Action {
    /// Write this record; then `handle_persisted` or `handle_persist_failed`.
    Persist(Record),
    /// Start the server's process; then `handle_spawned` or `handle_spawn_failed`, before any other input.
    Spawn {
        /// Number of the generation.
        generation: u64,
    },
    /// Send a message of drowse's own ([`crate::message::own`]).
    SendOwn(Own),
    /// Send a caller's request, rewritten by [`crate::splice::request`]; then `handle_sent` as soon as the kernel took
    /// its first byte. If the link is lost before that, by whatever input, forget what was not written: the request
    /// comes again.
    Send {
        /// Which.
        key: Key,
        /// Its id on the wire.
        wire: u64,
        /// Its method.
        method: Method,
        /// The revision the server speaks.
        revision: Revision,
    },
    /// Answer the caller with what the server said of itself when it was negotiated. Takes the key back.
    AnswerInfo {
        /// Which.
        key: Key,
    },
    /// Answer the caller that a modern server will be told its log level, see [`crate::logging`]. Takes the key back.
    AnswerLevel {
        /// Which.
        key: Key,
    },
    /// Tell the caller that its request failed. Takes the key back.
    Fail {
        /// Which.
        key: Key,
        /// Why.
        failure: Failure,
    },
    /// Over HTTP: open the stream on which the server says what belongs to no request
    /// ([`crate::http::exchange::Carried::Listening`]), and keep it for as long as its exchange says.
    Listen,
    /// Over HTTP: open the stream of the transport of 2024-11-05; then `handle_endpoint`, or a verdict.
    OpenOldStream,
    /// Close the server's input. Over HTTP: end the session, if there is one, and the streams of no request.
    CloseInput,
    /// Tell the whole tree to terminate.
    Terminate,
    /// Kill the whole tree. If there is none, `handle_tree_gone` at once.
    Kill,
    /// Say something to a client that listens, or to the server on behalf of those who do, of whom drowse may be one.
    Relay(relay::Step),
    /// Ask the server what it offers, or save what it said.
    Snapshot(snapshot::Step),
    /// A fresh server took the place of one that ended unasked: tell the callers that what that kept is gone.
    Renewed(Lost),
    /// Nothing runs and nothing waits: say goodbye to whoever is connected, and go.
    Retire,
}

/// What a frame of the server was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Outcome {
    /// The answer to a caller's request, to be rewritten by [`crate::splice::answer`]. Takes the key back.
    Deliver {
        /// Whose.
        key: Key,
        /// The method that was asked for.
        method: Method,
        /// The answer: a response or an error.
        message: Message,
        /// The revision the server speaks.
        revision: Revision,
    },
    /// Progress of a caller's request, to be rewritten by [`crate::splice::progress`] if the caller asked for it.
    Progress {
        /// Whose.
        key: Key,
        /// Where the token stands.
        token: Span,
    },
    /// The server's description of itself: keep a copy for [`Action::AnswerInfo`].
    Handshake(Span),
    /// A request of the server: answer with an empty result.
    Pong {
        /// Its id.
        id: Span,
    },
    /// Another request of the server: one that is [held](crate::held) for a caller, or that the adapter answers itself
    /// (`roots/list`), or nothing that anybody here can serve: answer that with the error -32601.
    Asked(RequestParts),
    /// A resource was updated: hand in its key to `handle_updated`, if somebody wants to hear of it.
    Updated {
        /// Its URI, a JSON string.
        uri: Span,
        /// The stream that says so.
        wire: Option<u64>,
    },
    /// A stream of announcements was opened: hand in the keys of its URIs to `handle_honoured`, then
    /// `handle_acknowledged`.
    Acknowledged {
        /// The stream.
        wire: u64,
        /// What it is for.
        filter: relay::Filter,
    },
    /// An error answer to what the server was asked to announce: keep a copy for [`relay::End::Refused`].
    Unheard {
        /// Of what; none: whatever a stream was to be opened for.
        uri: Option<relay::Uri>,
        /// The error object.
        error: Span,
    },
    /// A page of what the server offers, that [`snapshot::Step::Ask`] asked for: keep what is in it.
    Listed(snapshot::Page),
    /// A notification of the server.
    Notification {
        /// Its method.
        method: Span,
    },
    /// A batch: hand in each item on its own.
    Batch(Span),
    /// Nothing to be done.
    Ignored(Ignored),
}

/// Why a frame was ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Ignored {
    /// It is not a message.
    Malformed(EnvelopeError),
    /// An answer that nobody waits for: late, repeated, or made up.
    Unasked,
    /// It belongs to the handshake or to a keepalive.
    Internal,
    /// The server is not running as far as the machine knows.
    Stale,
    /// A modern server must not send requests (basic/transports/stdio, Receiving Messages).
    Forbidden,
}
