//! Held calls: a legacy server asks its client something during a call, and the caller speaks modern MCP.
//!
//! A legacy server sends a request (`elicitation/create`, `sampling/createMessage`) and waits. A modern caller cannot be
//! sent one: its call ends with an `input_required` result, and it calls again with the answers (basic/patterns/mrtr).
//! In between, the call is *held*: it runs on at the server and nobody waits for it. This machine owns what is held, the
//! `requestState` by which a caller finds its call again, and the rule that a call is never issued twice: a retry either
//! finds its call or fails with `ran: unknown`.
//!
//! It is used beside [`crate::server::Server`], whose link keeps the call's key the whole time:
//!
//! 1. A question arrives: [`Kind::of`], [`attribute`](Held::attribute), [`hold`](Held::hold). Any refusal means that the
//!    server is told so ([`splice::refused`](crate::splice::refused)). Otherwise keep the question's frame; if the call
//!    was waited for, its caller gets [`shown`](Held::shown) questions and [`state`](Held::state) now.
//! 2. A request with a `requestState` arrives: [`handle_retry`](Held::handle_retry), never a new call.
//! 3. The link takes the call's key back: [`handle_answer`](Held::handle_answer) or
//!    [`handle_failure`](Held::handle_failure) say whether somebody waits.
//! 4. Time, callers that go and servers that end: the other `handle_*`, [`cancel`](Held::cancel), [`forget`](Held::forget).
//! 5. After each: drain [`poll_output`](Held::poll_output); sleep until [`poll_timeout`](Held::poll_timeout) at most.
//!
//! The adapter keeps the frames of questions and answers in a table beside the slots. What it keeps for a question goes
//! when the question is answered or withdrawn; what it keeps for a call goes with [`Output::Forget`]. Both come exactly
//! once.
//!
//! # Rounds
//!
//! Each `input_required` result is a round. Its answers are taken once; the same retry again (its response was lost)
//! gets the same outcome, another one is refused. The state of a round ends [`Config::patience`] after it was given out,
//! and with it the call, unless a retry came and waits.

use heapless::Vec;

use crate::json;
use crate::link::{self, Failure};
use crate::method::Method;
use crate::span::Span;
use crate::time::{Duration, Instant};

mod call;
mod exchange;
mod question;
mod state;
mod unsettled;

use self::call::{Call, Stage};
pub use self::exchange::{
    Asked, Asking, Carries, Config, Fate, HeldKey, Lost, Output, Principal, Question, Resumed, Retry, Then,
};
use self::question::{Attribution, Lingering};
pub use self::question::{Candidate, Kind, Name, Unasked};
use self::state::{Claim, Fields};
pub use self::state::{Digest, STATE_LEN, Secret, State};
pub use self::unsettled::{GRACE, SETTLING, Settled, Unsettled, gives_way};

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;

/// The most questions of one call that are open at once.
pub const MAX_QUESTIONS: usize = 8;
/// The longest that a call is held for its caller.
pub const MAX_PATIENCE: Duration = Duration::from_secs(300);

const REQUEST_STATE: &str = "requestState";
const INPUT_RESPONSES: &str = "inputResponses";

/// Room for one held call. The caller provides the storage: an array on a device, a boxed slice on a host.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    generation: u32,
    call: Option<Call>,
}

impl Slot {
    /// An unused slot.
    pub const EMPTY: Self = Self { generation: 0, call: None };
}

/// The held calls of one server.
#[derive(Clone, Debug)]
pub struct Held<S> {
    config: Config,
    secret: Secret,
    slots: S,
    used: usize,
    /// The generation of the server that runs.
    server: u64,
    lingering: Lingering,
    /// There may be outputs.
    outputs: bool,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Held<S> {
    /// Takes the storage; at most 65,535 slots of it are used. `secret` makes its states unforgeable: random, and new
    /// in every process.
    #[must_use]
    pub fn new(config: Config, secret: Secret, mut slots: S) -> Self {
        for slot in slots.as_mut() {
            *slot = Slot::EMPTY;
        }
        let config = Config { patience: config.patience.min(MAX_PATIENCE), ..config };
        Self { config, secret, slots, used: 0, server: 0, lingering: Lingering::default(), outputs: false }
    }

    /// How many calls are held.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used
    }

    /// The held call that is under way at the link under that key.
    #[must_use]
    pub fn find(&self, call: link::Key) -> Option<HeldKey> {
        if self.used == 0 {
            return None;
        }
        self.iter().find(|(_, held)| held.link == Some(call) && held.stage != Stage::Over).map(|(key, _)| key)
    }

    /// A server was started: states of others no longer count.
    pub const fn handle_started(&mut self, generation: u64) {
        self.server = generation;
    }

    /// The server is gone, and nobody is left to tell of a question that is withdrawn. (Its calls fail at the link.)
    pub fn handle_lost(&mut self) {
        self.outputs = true;
        self.lingering = Lingering::default();
        for call in self.calls_mut() {
            call.withdraw(false);
        }
    }

    /// A request at the server was cancelled or timed out, and may go on there for a while. One that no question could
    /// come from does not count.
    pub fn handle_cancelled(&mut self, now: Instant, principal: Principal, method: Method) {
        if question::may_leak(method) {
            self.lingering.add(now, now.after(self.config.linger), principal);
        }
    }

    /// Finds the call that a question of the server belongs to, among the requests that are with the server.
    ///
    /// `origin` is that call where the transport tells (over HTTP a question comes on the stream of its call). On stdio
    /// nothing tells. The server gets the answer under the question's own id whichever call carried it to a user, so
    /// among calls of *one* principal a wrong guess costs nothing but the place where the user sees the question: the
    /// call that is really concerned goes on, and the other one's answer is kept for its retry. So there the oldest
    /// call without an open question is taken, or else the oldest. Between principals a wrong guess would show one
    /// what another's call is about: if requests of several are with the server that could have led to a question, or
    /// lately were, it is not put to anybody; where those are of clients that are away, not at once ([`Unsettled`]).
    ///
    /// # Errors
    /// If it cannot be put to anybody, and why.
    pub fn attribute(
        &self,
        now: Instant,
        kind: Kind,
        origin: Option<link::Key>,
        requests: impl Iterator<Item = Candidate>,
    ) -> Result<link::Key, Unasked> {
        let mut attribution = Attribution::new(kind, origin);
        for request in requests {
            let busy = self.find(request.key).and_then(|key| self.get(key)).is_some_and(Call::is_asking);
            attribution.consider(request, busy);
        }
        attribution.result(|principal| origin.is_none() && self.lingering.others(now, principal))
    }

    /// Holds a question.
    ///
    /// # Errors
    /// If there is no room for it. Nothing changed then.
    pub fn hold(&mut self, now: Instant, asking: Asking<'_>) -> Result<Asked, Unasked> {
        let Asking { call: link, principal, method, kind, random, .. } = asking;
        let key = match self.find(link) {
            Some(key) => key,
            None => {
                let theirs =
                    self.iter().filter(|(_, call)| call.fields.principal == principal && !call.told).count();
                if theirs >= self.config.per_principal {
                    return Err(Unasked::TooManyOfOne);
                }
                let free = self
                    .slots
                    .as_ref()
                    .iter()
                    .take(usize::from(u16::MAX))
                    .position(|slot| slot.call.is_none());
                let index = free.and_then(|index| u16::try_from(index).ok()).ok_or(Unasked::TooMany)?;
                let params = digest(&self.secret, asking.frame, asking.params);
                let fields = Fields {
                    index,
                    id: random,
                    principal,
                    method,
                    params,
                    server: self.server,
                    round: 0,
                    expires: now,
                };
                let slot = self.slots.as_mut().get_mut(usize::from(index)).ok_or(Unasked::TooMany)?;
                slot.call = Some(Call::new(link, fields));
                self.used += 1;
                HeldKey { index, generation: slot.generation }
            }
        };
        let expires = now.after(self.config.patience);
        let call = self.get_mut(key).ok_or(Unasked::TooMany)?;
        let (place, number) = call.add(kind).ok_or(Unasked::TooManyOfCall)?;
        let now = call.stage == Stage::Waiting;
        if now {
            call.ask(expires);
        }
        Ok(Asked { question: Question { held: key, place, number, kind }, now })
    }

    /// The questions of the call's round that its caller is to be shown.
    pub fn shown(&self, held: HeldKey) -> impl Iterator<Item = Question> + '_ {
        self.get(held).into_iter().flat_map(move |call| {
            let round = call.fields.round;
            call.questions(held).filter(move |(_, open)| open.shown == round).map(|(question, _)| question)
        })
    }

    /// The `requestState` of the call's round.
    #[must_use]
    pub fn state(&self, held: HeldKey) -> Option<State> {
        self.get(held).map(|call| State::mint(&self.secret, &call.fields))
    }

    /// A request with a `requestState` arrived. Whatever comes of it, it is not sent to the server.
    ///
    /// # Errors
    /// If it does not lead to a call.
    pub fn handle_retry(&mut self, now: Instant, retry: Retry<'_>) -> Result<Resumed, Lost> {
        let Retry { principal, method, frame, params } = retry;
        let state = Retry::state_of(frame, Some(params)).ok_or(Lost::NotYours)?;
        let claim = Claim::read(state.of(frame)).ok_or(Lost::NotYours)?;
        let digest = digest(&self.secret, frame, Some(params));
        let fields = claim.prove(&self.secret, principal, method, digest).ok_or(Lost::NotYours)?;
        if now >= fields.expires {
            return Err(Lost::Expired);
        }
        let found =
            self.iter().find(|(_, call)| call.fields.index == fields.index && call.fields.id == fields.id);
        let Some((held, _)) = found.filter(|(_, call)| call.stage != Stage::Over) else {
            let same = fields.server == self.server;
            return Err(if same { Lost::Ended } else { Lost::OtherGeneration });
        };
        let responses =
            json::member(frame, params, INPUT_RESPONSES).filter(|span| json::is_object(span.of(frame)));
        let answers_digest = self.secret.digest([responses.map_or(b"".as_slice(), |span| span.of(frame))]);
        let expires = now.after(self.config.patience);
        let call = self.get_mut(held).ok_or(Lost::Ended)?;
        let mut answers = Vec::new();
        let then = if fields.round == call.fields.round {
            match call.taken {
                None => {
                    if let Some(responses) = responses {
                        answers = call.take(held, frame, responses);
                    }
                    if !answers.is_empty() {
                        call.taken = Some(answers_digest);
                    }
                    call.resume(expires)
                }
                Some(taken) if taken == answers_digest => call.resume(expires),
                Some(_) => return Err(Lost::Answered),
            }
        } else if fields.round.checked_add(1) == Some(call.fields.round) && call.taken.is_none() {
            // What came of these answers was the round that is open now, whatever has become of the call since.
            if call.before != Some(answers_digest) {
                return Err(Lost::Answered);
            }
            Then::Ask
        } else {
            return Err(Lost::Stale);
        };
        self.trim();
        Ok(Resumed { held, answers, then })
    }

    /// The server's answer to a request arrived, and the link has taken the key back. `None`: the call is not held.
    #[must_use]
    pub fn handle_answer(&mut self, now: Instant, call: link::Key) -> Option<Fate> {
        self.end(now, call, Stage::Answered)
    }

    /// The link says that a request failed. `None`: the call is not held.
    #[must_use]
    pub fn handle_failure(&mut self, now: Instant, call: link::Key, failure: Failure) -> Option<Fate> {
        self.end(now, call, Stage::Failed(failure))
    }

    /// The caller that waits for a held call is gone without having cancelled it. If it may come back (its principal is
    /// more than its connection), the call runs on for the rest of the round's time.
    pub fn handle_gone(&mut self, now: Instant, held: HeldKey, may_return: bool) {
        if !may_return {
            return self.cancel(held);
        }
        self.outputs = true;
        if let Some(call) = self.get_mut(held)
            && call.stage == Stage::Waiting
        {
            call.stage = Stage::Alone;
            call.expire(now);
        }
    }

    /// Nobody is going to come for the call.
    pub fn cancel(&mut self, held: HeldKey) {
        self.outputs = true;
        if let Some(call) = self.get_mut(held) {
            call.finish();
        }
    }

    /// The call's answer is not kept (it is too large, or there is no room): a retry for it finds nothing.
    pub fn forget(&mut self, held: HeldKey) {
        if self.get(held).is_some_and(|call| call.link.is_none()) {
            self.cancel(held);
        }
    }

    /// The principal is gone for good.
    pub fn handle_principal_gone(&mut self, principal: Principal) {
        self.outputs = true;
        for call in self.calls_mut().filter(|call| call.fields.principal == principal) {
            call.finish();
        }
    }

    /// Time has passed; early, late and repeated calls do no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.used == 0 {
            return;
        }
        self.outputs = true;
        for call in self.calls_mut() {
            call.expire(now);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.used == 0 {
            return None;
        }
        self.iter().filter_map(|(_, call)| call.deadline()).min()
    }

    /// The next thing to do. Call until `None` after every input.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output> {
        if !self.outputs {
            return None;
        }
        for (index, slot) in self.slots.as_mut().iter_mut().take(usize::from(u16::MAX)).enumerate() {
            let held = HeldKey { index: index as u16, generation: slot.generation };
            let Some(call) = &mut slot.call else { continue };
            let output = call.poll(held);
            if let Some(Output::Forget { .. }) = output {
                slot.call = None;
                slot.generation = slot.generation.wrapping_add(1);
                self.used = self.used.saturating_sub(1);
            }
            if output.is_some() {
                return output;
            }
        }
        self.outputs = false;
        None
    }

    fn end(&mut self, now: Instant, link: link::Key, stage: Stage) -> Option<Fate> {
        let held = self.find(link)?;
        let call = self.get_mut(held)?;
        let waited = call.stage == Stage::Waiting;
        call.link = None;
        call.stage = stage;
        call.told = waited;
        if waited {
            call.expire(now);
        }
        self.trim();
        Some(if waited { Fate::Deliver(held) } else { Fate::Keep(held) })
    }

    /// Lets the oldest go of those that are only kept for a repetition.
    fn trim(&mut self) {
        self.outputs = true;
        let kept = self.config.kept;
        while self.iter().filter(|(_, call)| call.is_kept()).count() > kept {
            let oldest =
                self.calls_mut().filter(|call| call.is_kept()).min_by_key(|call| call.fields.expires);
            let Some(call) = oldest else { break };
            call.finish();
        }
    }

    fn iter(&self) -> impl Iterator<Item = (HeldKey, &Call)> {
        self.slots.as_ref().iter().take(usize::from(u16::MAX)).enumerate().filter_map(|(index, slot)| {
            let key = HeldKey { index: index as u16, generation: slot.generation };
            slot.call.as_ref().map(|call| (key, call))
        })
    }

    fn calls_mut(&mut self) -> impl Iterator<Item = &mut Call> {
        self.slots.as_mut().iter_mut().filter_map(|slot| slot.call.as_mut())
    }

    fn get(&self, key: HeldKey) -> Option<&Call> {
        let slot = self.slots.as_ref().get(key.index())?;
        slot.call.as_ref().filter(|_| slot.generation == key.generation)
    }

    fn get_mut(&mut self, key: HeldKey) -> Option<&mut Call> {
        let slot = self.slots.as_mut().get_mut(key.index())?;
        let same = slot.generation == key.generation;
        slot.call.as_mut().filter(|_| same)
    }
}

/// What a call is about: its parameters without what a retry adds and without `_meta`, in their order.
fn digest(secret: &Secret, frame: &[u8], params: Option<Span>) -> Digest {
    let members = params.into_iter().flat_map(|params| json::members(frame, params)).filter(|member| {
        let key = member.key.of(frame);
        !["_meta", INPUT_RESPONSES, REQUEST_STATE].iter().any(|name| json::str_eq(key, name))
    });
    secret.digest(members.flat_map(|member| [member.key.of(frame), member.value.of(frame)]))
}
