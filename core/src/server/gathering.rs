//! The facade's side towards the snapshot: what drowse asks the server for itself.

use super::{Action, Instant, Question, Server, Slot, own_id, relay};
use crate::http::exchange::{Carried, Verdict};
use crate::message::Own;
use crate::snapshot::Gathering;

impl<S, R> Server<S, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    R: AsRef<[relay::Slot]> + AsMut<[relay::Slot]>,
{
    /// What is gathered of the server's offers, to look at.
    #[must_use]
    pub const fn gathering(&self) -> &Gathering {
        &self.gathering
    }

    /// What was saved before is of no use: everything that the server offers is to be gathered again.
    pub fn regather(&mut self, now: Instant) {
        self.now = now;
        self.gathering.forget(now);
    }

    /// An exchange of a question of the gathering's is over. Nobody wanted it, so that nothing follows from its failure
    /// but that the answer is missing; only a session that is gone is gone for everybody.
    pub(super) fn is_gathered_quietly(&mut self, carried: Carried, wire: u64, verdict: Verdict) -> bool {
        if !matches!(carried, Carried::Request(_)) || !self.gathering.awaits(wire) {
            return false;
        }
        if verdict != Verdict::Done {
            self.gathering.handle_failed(self.now, wire);
        }
        !matches!(verdict, Verdict::Done | Verdict::Expired { .. })
    }

    pub(super) fn poll_abandoned(&mut self) -> Option<Action> {
        let wire = self.gathering.poll_abandoned()?;
        if self.is_http() {
            return Some(Action::Relay(relay::Step::Cancel { wire }));
        }
        // Who is about to be ended need not be told.
        (!self.lifecycle.is_stopping())
            .then_some(Action::SendOwn(Own::Cancelled { id: wire, timed_out: true }))
    }

    /// Whether drowse itself wants to hear of changed lists. Over HTTP that would be a connection, held for as long as
    /// the server is awake.
    pub(super) const fn hears_of_changes(&self) -> bool {
        self.config.snapshot.is_some() && !self.is_http()
    }

    /// Last of all: whatever anybody else wants comes first.
    pub(super) fn poll_gathering(&mut self) -> Option<Action> {
        self.gathering.note_busy(self.now, self.lifecycle.in_flight() > 0);
        if self.hears_of_changes() && self.gathering.is_about_to_ask() {
            // Before the first list is asked for, so that no change is missed between.
            self.relay.want_lists(true);
            if let Some(action) = self.poll_relay(self.writable) {
                return Some(action);
            }
        }
        let own = &mut self.own;
        let step = self.gathering.poll(self.now, self.writable, || {
            let id = own_id(*own, Question::Initialize);
            *own = own.wrapping_add(1);
            id
        })?;
        Some(Action::Snapshot(step))
    }
}
