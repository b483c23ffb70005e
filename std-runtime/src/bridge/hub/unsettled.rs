//! Questions of a legacy server that wait until it is settled whose they are (docs of [`held::Unsettled`]).
//!
//! Keeps their frames, and knows which clients are away. How long they wait, and what becomes of them, is the core's.

use drowse_core::held::{self, Kind, Principal, Settled};

use super::*;

/// How many wait at once.
const MOST: usize = 16;

/// A question that waits.
pub(super) struct Unsettled {
    question: held::Unsettled,
    line: Vec<u8>,
    parts: RequestParts,
    kind: Kind,
}

impl Unsettled {
    /// The id that the server gave it, raw.
    pub(super) fn id(&self) -> &[u8] {
        self.parts.id.of(&self.line)
    }

    /// When its time is over.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.question.poll_timeout()
    }
}

impl Hub {
    /// Looks at the questions that wait. `true`: something became of one.
    pub(super) fn settle_questions(&self, inner: &mut Inner, now: Instant) -> bool {
        let (mut any, mut give_up) = (false, false);
        for mut one in std::mem::take(&mut inner.questions.unsettled) {
            let found = inner.attribute(now, one.kind, None).map(|call| (call, inner.principal_of(call)));
            let call = match one.question.next(now, found) {
                Settled::NotYet => {
                    inner.questions.unsettled.push(one);
                    continue;
                }
                Settled::GiveUpOthers => {
                    inner.questions.unsettled.push(one);
                    give_up = true;
                    continue;
                }
                Settled::Of(call) => Ok(call),
                Settled::Refused(why) => Err(why),
            };
            any = true;
            self.put_to(inner, now, &one.line, one.parts, one.kind, call);
        }
        if give_up {
            // After all were looked at: each of them waits for the same.
            inner.give_up_absent();
        }
        any | give_up
    }
}

impl Inner {
    /// A question waits. `false`: too many do.
    pub(super) fn settle_later(
        &mut self,
        now: Instant,
        line: &[u8],
        parts: RequestParts,
        kind: Kind,
        principal: Principal,
    ) -> bool {
        if self.questions.unsettled.len() >= MOST {
            return false;
        }
        let question = held::Unsettled::new(now, principal);
        self.questions.unsettled.push(Unsettled { question, line: line.to_vec(), parts, kind });
        true
    }

    /// For how long the client of a call has been away that is asked something for it.
    pub(super) fn away_with_question(&self, call: Key, payload: &Payload) -> Option<Duration> {
        if payload.client.is_none() || !self.asks.is_asked_for(call) {
            return None;
        }
        self.connections.get(&payload.connection)?.mouth.away()
    }

    /// The open questions of those who have been away for too long give way to others.
    fn give_up_absent(&mut self) {
        for (index, payload) in self.payloads.iter().enumerate() {
            let Some((payload, call)) = payload.as_ref().zip(self.server.key_at(index)) else { continue };
            if self.away_with_question(call, payload).is_some_and(held::gives_way) {
                self.asks.handle_call_over(call);
            }
        }
    }

    fn principal_of(&self, call: Key) -> Principal {
        let payload = self.payloads.get(call.index()).and_then(Option::as_deref);
        Principal(payload.map_or(0, |payload| payload.principal))
    }
}
