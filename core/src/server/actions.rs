//! What is to be done next, in its order.

use super::{Action, Server, counting, own_id};
use crate::era::{Era, Revision};
use crate::lifecycle::Effect;
use crate::link::Slot;
use crate::message::Own;
use crate::method::Method;
use crate::negotiate::{Negotiation, Question};
use crate::relay;
use crate::time::Duration;

/// How long a tree has to be gone after it was killed, before those who wait are told that it is not.
const KILL_GRACE: Duration = Duration::from_secs(10);

impl<S, R> Server<S, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    R: AsRef<[relay::Slot]> + AsMut<[relay::Slot]>,
{
    /// The next thing to do. Call until `None` after every input.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.settle();
        if let Some(own) = self.poll_negotiation() {
            return Some(Action::SendOwn(own));
        }
        if self.negotiation.as_mut().is_some_and(Negotiation::poll_old_stream) {
            return Some(Action::OpenOldStream);
        }
        // What is going to be ended is told before its input is closed.
        if let Some(wire) = self.relay.poll_cancelled() {
            return Some(self.cancel_relayed(wire));
        }
        if let Some(action) = self.poll_abandoned() {
            return Some(action);
        }
        while let Some((id, timed_out)) = self.link.poll_cancelled() {
            // A modern server takes the end of the exchange for that (basic/transports/streamable-http, Cancellation), and
            // where a session is over nobody can be told.
            let untold = self.revision.is_some_and(|revision| revision.era() == Era::Modern)
                || self.lifecycle.is_stopping();
            if !(self.is_http() && untold) {
                return Some(Action::SendOwn(Own::Cancelled { id, timed_out }));
            }
        }
        let effect = if self.retiring { Some(Effect::Retire) } else { self.lifecycle.poll_effect() };
        if let Some(effect) = effect {
            return Some(match effect {
                Effect::Persist(record) => Action::Persist(record),
                Effect::Spawn { generation } => Action::Spawn { generation },
                Effect::CloseInput => Action::CloseInput,
                Effect::Terminate => Action::Terminate,
                Effect::Kill => {
                    self.gone_by = Some(self.now.after(KILL_GRACE));
                    Action::Kill
                }
                Effect::Retire => {
                    self.relay.finish();
                    let told = self.poll_relay(false);
                    self.retiring = told.is_some();
                    told.unwrap_or(Action::Retire)
                }
            });
        }
        if let Some(lost) = self.lifecycle.poll_renewed() {
            return Some(Action::Renewed(lost));
        }
        // Only now: whoever hears of a failure and looks at the record finds what it came from.
        if let Some((key, failure)) = self.link.poll_failure() {
            self.lifecycle.end(self.now, false);
            self.count(counting::of_failure(failure));
            if let Some(listener) = self.relay.handle_failure(key) {
                let why = relay::End::Failed(failure);
                return Some(Action::Relay(relay::Step::End { listener, why }));
            }
            return Some(Action::Fail { key, failure });
        }
        let ready = self.revision.filter(|_| self.lifecycle.is_ready());
        if let Some(action) = self.poll_relay(ready.is_some() && self.writable) {
            return Some(action);
        }
        let revision = ready?;
        if core::mem::take(&mut self.untold_level)
            && self.logs
            && let Some(level) = self.level
        {
            let id = own_id(self.own, Question::Initialize);
            self.own = self.own.wrapping_add(1);
            return Some(Action::SendOwn(Own::SetLevel { id, level }));
        }
        if self.http.session && !self.http.listening && !self.http.old {
            self.http.listening = true;
            return Some(Action::Listen);
        }
        while self.writable
            && !self.holds
            && let Some((key, wire, method)) = self.link.poll_send()
        {
            if method == Method::Listen && self.relay.handle_turn(key) {
                // From here on it is no operation: it is kept until its client ends it.
                self.link.poll_local(key);
                self.defer_for_listeners();
                self.lifecycle.end(self.now, false);
                self.count_unasked();
                match self.poll_relay(self.writable) {
                    Some(action) => return Some(action),
                    None => continue,
                }
            }
            return Some(match method {
                Method::Info => {
                    self.link.poll_local(key);
                    // The server was not asked, so this proves nothing of it.
                    self.lifecycle.end(self.now, false);
                    self.count_unasked();
                    Action::AnswerInfo { key }
                }
                // It is said with the requests that follow.
                Method::SetLevel if revision.era() == Era::Modern => {
                    self.link.poll_local(key);
                    self.lifecycle.end(self.now, false);
                    self.count_unasked();
                    Action::AnswerLevel { key }
                }
                // The question "does the server answer" is put in the server's own era.
                Method::ServerPing => {
                    self.link.handle_sent(key);
                    Action::SendOwn(alive_question(wire, revision))
                }
                method => Action::Send { key, wire, method, revision },
            });
        }
        if self.keepalive.poll_question(self.now) {
            let id = own_id(self.own, Question::Initialize);
            self.own = self.own.wrapping_add(1);
            return Some(Action::SendOwn(alive_question(id, revision)));
        }
        self.poll_gathering()
    }

    fn poll_negotiation(&mut self) -> Option<Own> {
        let negotiation = self.negotiation.as_mut()?;
        let own = self.own;
        let message = negotiation.poll_send(|question| own_id(own, question));
        if message.is_some() {
            self.own = self.own.wrapping_add(1);
        }
        self.settle();
        message
    }
}

fn alive_question(id: u64, revision: Revision) -> Own {
    match revision.era() {
        Era::Legacy => Own::Ping { id },
        Era::Modern => Own::Discover { id, revision },
    }
}
