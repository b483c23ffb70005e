//! The facade's side towards those who listen, and what the server announces.

use super::{
    Action, Era, Ignored, Instant, Operation, Outcome, Question, Refusal, Server, Slot, own_id, relay,
};
use crate::envelope::Message;
use crate::json;
use crate::message::Own;
use crate::method::Method;
use crate::relay::wire::{ACKNOWLEDGED, UPDATED, cancelled, subscription};
use crate::relay::{Answered, Filter, Full, List, Listener, Lists, Relay, Step, Uri};
use crate::snapshot::Listings;
use crate::span::Span;

impl<S, R> Server<S, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    R: AsRef<[relay::Slot]> + AsMut<[relay::Slot]>,
{
    /// What clients listen to, to look at.
    #[must_use]
    pub const fn relay(&self) -> &Relay<R> {
        &self.relay
    }

    /// What clients listen to, for its room ([`Relay::grow`], [`Relay::set_limit`], [`Relay::weigh`]).
    pub const fn relay_mut(&mut self) -> &mut Relay<R> {
        &mut self.relay
    }

    /// A client begins to say what it listens to: changes of these lists, and what [`want`](Self::want) adds; then
    /// [`listen`](Self::listen).
    ///
    /// # Errors
    /// If there is no room; nothing changed.
    pub fn attach(&mut self, lists: Lists) -> Result<Listener, Full> {
        self.relay.attach(lists)
    }

    /// It listens to updates of that resource, whose URI has a key already if somebody does.
    ///
    /// # Errors
    /// If there is no room; nothing changed.
    pub fn want(&mut self, listener: Listener, known: Option<Uri>) -> Result<Uri, Full> {
        self.relay.want(listener, known)
    }

    /// It listens to the status of that task, whose id has a key already if somebody does.
    ///
    /// # Errors
    /// If there is no room; nothing changed.
    pub fn want_task(&mut self, listener: Listener, known: Option<Uri>) -> Result<Uri, Full> {
        self.relay.want_task(listener, known)
    }

    /// It said all. Who wants updates of resources wakes the server, and keeps it awake; who only wants to know of
    /// changed lists does neither.
    ///
    /// # Errors
    /// If the server cannot be used now. The listener is still there: [`unlisten`](Self::unlisten), or try again.
    pub fn listen(&mut self, now: Instant, listener: Listener, uris: bool) -> Result<(), Refusal> {
        let key = match uris {
            true => Some(self.submit(now, Operation { method: Method::Listen, allowance: None })?),
            false => {
                self.asker = None;
                None
            }
        };
        self.relay.begin(listener, key);
        Ok(())
    }

    /// The client does not listen any more. Takes the listener back.
    pub fn unlisten(&mut self, now: Instant, listener: Listener) {
        self.now = now;
        let key = self.relay.key_of(listener);
        self.relay.close(listener);
        if let Some(key) = key {
            self.link.cancel(key);
        }
        self.defer_for_listeners();
    }

    /// A client takes what it is told, or is slow.
    pub fn set_hears(&mut self, listener: Listener, hears: bool) {
        self.relay.set_hears(listener, hears);
    }

    /// The resource of an [`Outcome::Updated`], or a task that a notification tells of. Whether it is news.
    pub fn handle_updated(&mut self, wire: Option<u64>, uri: Uri) -> bool {
        self.relay.handle_updated(wire, uri)
    }

    /// A resource that an [`Outcome::Acknowledged`] names.
    pub fn handle_honoured(&mut self, wire: u64, uri: Uri) {
        self.relay.handle_honoured(wire, uri);
    }

    /// All that an [`Outcome::Acknowledged`] names was handed in.
    pub fn handle_acknowledged(&mut self, now: Instant, wire: u64) {
        self.now = now;
        self.relay.handle_acknowledged(now, wire);
        let regained = self.relay.take_regained();
        for list in List::ALL.into_iter().filter(|list| regained.has(*list)) {
            self.gathering.handle_changed(now, Listings::changed(list));
        }
        self.settle();
    }

    /// A notification of the server, if it is one of those that clients listen to.
    pub(super) fn handle_announcement(
        &mut self,
        frame: &[u8],
        method: Span,
        params: Option<Span>,
    ) -> Option<Outcome> {
        let method = method.of(frame);
        let wire = subscription(frame, params);
        if let Some(list) = List::of_notification(method) {
            self.relay.handle_list_changed(wire, list);
            self.gathering.handle_changed(self.now, Listings::changed(list));
        } else if json::str_eq(method, UPDATED) {
            let uri = json::member(frame, params?, "uri").filter(|uri| json::is_string(uri.of(frame)))?;
            return Some(Outcome::Updated { uri, wire });
        } else if json::str_eq(method, ACKNOWLEDGED) {
            let (wire, filter) = (wire?, Filter::read(frame, params)?);
            if !self.relay.has_listeners() {
                // It was opened for drowse alone, without any URI that had to be looked up.
                self.handle_acknowledged(self.now, wire);
                return Some(Outcome::Ignored(Ignored::Internal));
            }
            return Some(Outcome::Acknowledged { wire, filter });
        } else if json::str_eq(method, "notifications/cancelled") {
            self.relay.handle_ended(self.now, cancelled(frame, params)?);
        }
        None
    }

    /// An answer to a message of drowse's own, after the negotiation.
    pub(super) fn handle_relayed(&mut self, frame: &[u8], wire: u64, message: &Message) -> Outcome {
        let error = match *message {
            Message::Error { error, .. } => Some(error),
            _ => None,
        };
        let code = error.map(|error| {
            json::member(frame, error, "code").and_then(|code| json::as_i64(code.of(frame))).unwrap_or(0)
        });
        let answered = self.relay.handle_answer(self.now, wire, code);
        self.settle();
        match (answered, error) {
            (Answered::Refused(uri), Some(error)) => Outcome::Unheard { uri, error },
            _ => Outcome::Ignored(Ignored::Internal),
        }
    }

    pub(super) fn poll_relay(&mut self, can_ask: bool) -> Option<Action> {
        let own = &mut self.own;
        let step = self.relay.poll(self.now, can_ask, || {
            let id = own_id(*own, Question::Initialize);
            *own = own.wrapping_add(1);
            id
        })?;
        self.defer_for_listeners();
        Some(match step {
            Step::Cancel { wire } => self.cancel_relayed(wire),
            step => Action::Relay(step),
        })
    }

    /// Over HTTP the end of the exchange says it (basic/patterns/cancellation).
    pub(super) fn cancel_relayed(&self, wire: u64) -> Action {
        let modern = self.remembered == Some(Era::Modern);
        if self.is_http() && modern {
            Action::Relay(Step::Cancel { wire })
        } else {
            Action::SendOwn(Own::Cancelled { id: wire, timed_out: !modern })
        }
    }

    pub(super) fn defer_for_listeners(&mut self) {
        let defers = self.relay.defers();
        if defers != self.deferred {
            self.deferred = defers;
            if defers {
                self.lifecycle.defer();
            } else {
                self.lifecycle.undefer(self.now);
            }
        }
    }
}
