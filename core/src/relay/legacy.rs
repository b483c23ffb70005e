//! What a legacy client's `resources/subscribe` and `resources/unsubscribe` come to.
//!
//! Each URI that such a client subscribed to is a listener of its own, which begins with the first request and ends with
//! the last. The answer to a subscription is the server's; requests that change nothing are answered at once.

/// How a client's subscription to one URI stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Standing {
    /// It has none.
    Unknown,
    /// It asked, and has not been answered.
    Waiting,
    /// It was told that it is subscribed.
    Answered,
}

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Reaction {
    /// A listener begins ([`Relay::attach`](super::Relay::attach)); the request waits for its answer.
    Begin,
    /// The request waits for the same answer as the one before.
    Join,
    /// It is answered at once: nothing changes.
    Confirm,
    /// Whoever waits is answered, then the listener ends ([`Relay::close`](super::Relay::close)), then the request is
    /// answered.
    End,
}

impl Reaction {
    /// To a request to hear of a URI (`on`), or to hear of it no more.
    #[must_use]
    pub const fn to(standing: Standing, on: bool) -> Self {
        match (standing, on) {
            (Standing::Unknown, true) => Self::Begin,
            (Standing::Waiting, true) => Self::Join,
            (Standing::Answered, true) | (Standing::Unknown, false) => Self::Confirm,
            (Standing::Waiting | Standing::Answered, false) => Self::End,
        }
    }
}
