//! What a legacy server asks during a call, on its way to the caller and back (docs of [`drowse_core::held`]).
//!
//! Keeps the frames of questions and of answers that nobody fetched yet. Which call a question belongs to, who is shown
//! it, and what becomes of a retry, is the core's.

use drowse_core::capabilities::ClientCapabilities;
use drowse_core::held::{
    self, Asking, Candidate, Config, Fate, Held, HeldKey, Kind, MAX_QUESTIONS, Output, Principal, Question,
    Resumed, Retry, Secret, Then, Unasked as Why,
};
use drowse_core::link::{Cause, Failure};
use drowse_core::splice::{NoAnswer, Shown};

use super::callers::Request;
use super::unsettled::Unsettled;
use super::*;
use crate::wire::{UNASKED, Unasked};

/// The connection of a call that nobody waits for.
pub(super) const NOBODY: u64 = u64::MAX - 1;
/// How many calls are held at once.
const SLOTS: usize = 64;
/// An answer that was delivered is kept for a repeated retry up to this size.
const KEPT_COPY: usize = 256 << 10;

/// How much a caller is told of a question that it cannot be asked, in characters.
const SHOWN: usize = 2000;

/// What is kept for a held call.
#[derive(Default)]
struct Kept {
    questions: [Option<(Vec<u8>, RequestParts)>; MAX_QUESTIONS],
    answer: Option<(Vec<u8>, Method)>,
}

/// The held calls, and what is kept for them.
pub(super) struct Questions {
    held: Held<Box<[held::Slot]>>,
    kept: HashMap<usize, Kept>,
    /// Numbers of principals that have a name.
    principals: HashMap<Vec<u8>, u64>,
    next_principal: u64,
    /// What a server may ask for at all.
    pub(super) capabilities: ClientCapabilities,
    roots: Vec<String>,
    /// Those of which it is not settled whose they are.
    pub(super) unsettled: Vec<Unsettled>,
}

impl Questions {
    pub(super) fn new(capabilities: ClientCapabilities, roots: Vec<String>) -> Self {
        let mut secret = [0; 16];
        if getrandom::fill(&mut secret).is_err() {
            // Nothing that cannot be guessed: then nothing is held.
            return Self::none();
        }
        let slots = vec![held::Slot::EMPTY; SLOTS].into_boxed_slice();
        Self {
            held: Held::new(Config::default(), Secret::new(secret), slots),
            kept: HashMap::new(),
            principals: HashMap::new(),
            next_principal: 0,
            capabilities,
            roots,
            unsettled: Vec::new(),
        }
    }

    fn none() -> Self {
        Self {
            held: Held::new(Config::default(), Secret::new([0; 16]), Box::new([])),
            kept: HashMap::new(),
            principals: HashMap::new(),
            next_principal: 0,
            capabilities: ClientCapabilities::default(),
            roots: Vec::new(),
            unsettled: Vec::new(),
        }
    }

    /// The number of a principal: of the one of that name, or of one that is this connection alone.
    pub(super) fn principal(&mut self, name: Option<&[u8]>) -> u64 {
        let next = &mut self.next_principal;
        let mut new = || {
            *next += 1;
            *next
        };
        match name {
            Some(name) => match self.principals.get(name) {
                Some(known) => *known,
                None => *self.principals.entry(name.to_vec()).or_insert_with(new),
            },
            None => new(),
        }
    }

    /// When something has to be done about a held call.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let unsettled = self.unsettled.iter().map(Unsettled::poll_timeout);
        unsettled.chain(self.held.poll_timeout()).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.held.handle_timeout(now);
    }

    /// A server was started, or is gone.
    pub(super) fn handle_started(&mut self, generation: u64) {
        self.unsettled.clear();
        self.held.handle_lost();
        self.held.handle_started(generation);
    }

    pub(super) fn handle_lost(&mut self) {
        self.unsettled.clear();
        if self.held.used() > 0 {
            self.held.handle_lost();
        }
    }

    fn frame(&self, question: Question) -> Option<&(Vec<u8>, RequestParts)> {
        self.kept.get(&question.held.index())?.questions.get(usize::from(question.place))?.as_ref()
    }

    fn take_frame(&mut self, question: Question) -> Option<(Vec<u8>, RequestParts)> {
        self.kept.get_mut(&question.held.index())?.questions.get_mut(usize::from(question.place))?.take()
    }
}

impl Hub {
    /// A request of a legacy server. `origin`: the request on whose stream it came, where the transport tells.
    pub(super) fn server_asks(
        &self,
        inner: &mut Inner,
        now: Instant,
        line: &[u8],
        parts: RequestParts,
        origin: Option<Key>,
    ) {
        let RequestParts { id, method, params, .. } = parts;
        let kind =
            Kind::of(line, method, params).filter(|kind| kind.is_covered(inner.questions.capabilities));
        let Some(kind) = kind else {
            if drowse_core::json::str_eq(method.of(line), "roots/list") && inner.questions.capabilities.roots
            {
                let roots: Vec<_> = inner.questions.roots.iter().map(|uri| json!({"uri": uri})).collect();
                let roots = json!({"roots": roots}).to_string();
                let answer =
                    [br#"{"jsonrpc":"2.0","id":"#, id.of(line), br#","result":"#, roots.as_bytes(), b"}"]
                        .concat();
                return self.answer_server(inner, &answer);
            }
            let mut buffer = vec![0; id.len() + 256];
            let text = "drowse declared no such capability";
            if let Ok(bytes) = message::error(Some(id.of(line)), -32601, text, None, &mut buffer) {
                self.answer_server(inner, bytes);
            }
            let method = String::from_utf8_lossy(method.of(line)).into_owned();
            return inner.host.note(&format!("declined the server's request {method}"));
        };
        let origin = inner.task_origin(line, params).or(origin);
        let call = inner.attribute(now, kind, origin);
        if let Err(Why::Unsettled { principal, .. }) = call
            && inner.settle_later(now, line, parts, kind, principal)
        {
            return;
        }
        self.put_to(inner, now, line, parts, kind, call);
    }

    /// Puts a question to whoever waits for that call, or to nobody.
    pub(super) fn put_to(
        &self,
        inner: &mut Inner,
        now: Instant,
        line: &[u8],
        parts: RequestParts,
        kind: Kind,
        call: Result<Key, Why>,
    ) {
        let id = parts.id;
        if let Ok(call) = call
            && inner.is_of_legacy_client(call)
        {
            return self.put_question(inner, now, line, parts, kind, call);
        }
        let asked = call.and_then(|call| inner.hold(now, call, kind));
        match asked {
            Ok((asked, call)) => {
                let question = asked.question;
                let kept = inner.questions.kept.entry(question.held.index()).or_default();
                if let Some(place) = kept.questions.get_mut(usize::from(question.place)) {
                    *place = Some((line.to_vec(), parts));
                }
                if asked.now {
                    let waiter =
                        inner.payloads.get_mut(call.index()).and_then(Option::as_mut).map(|payload| {
                            (std::mem::replace(&mut payload.connection, NOBODY), payload.id.clone())
                        });
                    inner.server.hold(now, call);
                    if let Some((connection, id)) = waiter {
                        inner.show(question.held, connection, &id);
                    }
                }
            }
            Err(why) => {
                if let Why::Undeclared(Some(call)) = why
                    && let Some(Some(payload)) = inner.payloads.get_mut(call.index())
                {
                    payload.lacks = payload.lacks.or(Some(kind));
                    let connection = payload.connection;
                    inner.tell_of_unasked(connection, line, parts);
                }
                inner.host.note(&format!("a question of the server was put to nobody: {why}"));
                self.refuse_question(inner, line, id, kind, why.answer());
            }
        }
    }

    pub(super) fn refuse_question(
        &self,
        inner: &mut Inner,
        line: &[u8],
        id: Span,
        kind: Kind,
        why: NoAnswer,
    ) {
        if let Ok(pieces) = splice::refused(id, kind, why) {
            let answer = with_slices(&pieces, line, &[], |slices| slices.concat());
            self.answer_server(inner, &answer);
        }
    }

    /// A caller's request that carries the state of an interaction: it is never sent to the server.
    pub(super) fn retry(&self, inner: &mut Inner, request: &Request<'_>) {
        let &Request { connection, line, operation: Operation { method, .. }, parts, token } = request;
        let frame = line.bytes();
        let now = self.now();
        let id = parts.id.of(frame);
        let principal = Principal(inner.connections.get(&connection).map_or(0, |one| one.principal));
        let retry = Retry { principal, method, frame, params: parts.params.unwrap_or_default() };
        let Resumed { held, answers, then } = match inner.questions.held.handle_retry(now, retry) {
            Ok(resumed) => resumed,
            Err(lost) => {
                let explained = explain::lost(lost);
                return inner.reply_error(connection, Some(id), explain::CODE, &explained);
            }
        };
        for (question, answer) in answers {
            let Some((asked, asked_parts)) = inner.questions.take_frame(question) else { continue };
            if let Ok(pieces) = splice::answer_question(asked_parts.id, answer) {
                let line = with_slices(&pieces, frame, &asked, |slices| slices.concat());
                self.answer_server(inner, &line);
            }
        }
        match then {
            Then::Wait { call, instead } => {
                if let Some(Some(payload)) = inner.payloads.get_mut(call.index()) {
                    let before = (payload.connection, std::mem::replace(&mut payload.id, id.to_vec()));
                    payload.connection = connection;
                    payload.last = connection;
                    payload.token = token.map(|token| token.of(frame).to_vec());
                    if instead {
                        let text = "the same request was sent again, and that one gets the answer".to_owned();
                        let explained = explain::refused(text, "cancelled");
                        inner.reply_error(before.0, Some(&before.1), explain::CODE, &explained);
                    }
                }
                inner.server.release(now, call);
            }
            Then::Ask => inner.show(held, connection, id),
            Then::Answer { ends } => {
                let kept = inner.questions.kept.get(&held.index()).and_then(|kept| kept.answer.clone());
                if let Some((line, method)) = kept
                    && let Ok(message) = envelope::read(&line)
                    && let Some(revision) = inner.revision
                {
                    let payload = Payload {
                        capabilities: ClientCapabilities::of_request(frame, &parts),
                        ..Payload::new(connection, method, frame, parts, None)
                    };
                    inner.deliver(&payload, method, line.as_slice().into(), &message, revision);
                }
                if ends {
                    inner.server.undefer(now);
                }
            }
            Then::Fail(failure) => {
                let explained = inner.explain(|around| explain::failure(failure, around));
                inner.reply_error(connection, Some(id), explain::CODE, &explained);
            }
        }
    }

    /// Does what the machine of held calls says.
    pub(super) fn drive_questions(&self, inner: &mut Inner, now: Instant) -> bool {
        let mut any = false;
        while let Some(output) = inner.questions.held.poll_output() {
            any = true;
            match output {
                Output::Withdraw { question, tell } => {
                    if let Some((line, parts)) = inner.questions.take_frame(question)
                        && tell
                    {
                        self.refuse_question(inner, &line, parts.id, question.kind, NoAnswer::Cancelled);
                    }
                }
                Output::Cancel { call } => inner.server.cancel(now, call),
                Output::Forget { held, ends } => {
                    inner.questions.kept.remove(&held.index());
                    if ends {
                        inner.server.undefer(now);
                    }
                }
            }
        }
        any
    }
}

impl Inner {
    /// Whoever waits for a request is told what the server asked meanwhile, and was refused: it is nowhere in the answer.
    fn tell_of_unasked(&mut self, connection: u64, line: &[u8], parts: RequestParts) {
        let connection = self.connections.get_mut(&connection);
        let Some(connection) = connection.filter(|connection| connection.front.knows_drowse()) else {
            return;
        };
        let text = |name: &str| {
            let params = parts.params?;
            let raw = drowse_core::json::member(line, params, name)?.of(line);
            let text: String = serde_json::from_slice(raw).ok()?;
            Some(text.chars().take(SHOWN).collect())
        };
        let params = Unasked {
            method: serde_json::from_slice(parts.method.of(line)).unwrap_or_default(),
            message: text("message"),
            url: text("url"),
        };
        let told = json!({"jsonrpc": "2.0", "method": UNASKED, "params": params}).to_string();
        connection.mouth.send(About::Nothing, &[told.as_bytes()]);
    }

    pub(super) fn attribute(&self, now: Instant, kind: Kind, origin: Option<Key>) -> Result<Key, Why> {
        let requests = self.payloads.iter().enumerate().filter_map(|(index, payload)| {
            let payload = payload.as_ref().filter(|payload| payload.sent)?;
            let key = self.server.key_at(index)?;
            Some(Candidate {
                key,
                order: payload.order,
                principal: Principal(payload.principal),
                method: payload.method,
                capabilities: payload.capabilities,
                away: self.away_with_question(key, payload),
            })
        });
        self.questions.held.attribute(now, kind, origin, requests)
    }

    fn hold(&mut self, now: Instant, call: Key, kind: Kind) -> Result<(held::Asked, Key), Why> {
        let Some(Some(payload)) = self.payloads.get(call.index()) else { return Err(Why::NoCall) };
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| Why::TooMany)?;
        let frame = payload.frame.as_deref().unwrap_or_default();
        let asking = Asking {
            call,
            principal: Principal(payload.principal),
            kind,
            method: payload.method,
            frame,
            params: payload.parts.params,
            random,
        };
        self.questions.held.hold(now, asking).map(|asked| (asked, call))
    }

    /// Shows a caller the questions of a round.
    fn show(&mut self, held: HeldKey, connection: u64, id: &[u8]) {
        let questions: Vec<Question> = self.questions.held.shown(held).collect();
        let shown: Vec<Shown<'_>> = questions
            .iter()
            .filter_map(|question| {
                let (frame, parts) = self.questions.frame(*question)?;
                Some(Shown::new(*question, frame, parts))
            })
            .collect();
        let Some(state) = self.questions.held.state(held) else { return };
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.mouth.send(About::Answer(id), &splice::input_required(id, &shown, &state));
        }
    }

    /// The answer to a call arrived. `true`: nobody waits for it, and it is kept for the retry.
    pub(super) fn keep_answer(&mut self, now: Instant, key: Key, method: Method, line: &[u8]) -> bool {
        match self.questions.held.handle_answer(now, key) {
            None => false,
            Some(Fate::Deliver(held)) => {
                if line.len() <= KEPT_COPY {
                    self.keep_for(held, method, line);
                } else {
                    self.questions.held.forget(held);
                }
                false
            }
            Some(Fate::Keep(held)) => {
                self.keep_for(held, method, line);
                // It counts as in flight until it is fetched, or its time is over.
                self.server.defer();
                true
            }
        }
    }

    fn keep_for(&mut self, held: HeldKey, method: Method, line: &[u8]) {
        self.questions.kept.entry(held.index()).or_default().answer = Some((line.to_vec(), method));
    }

    /// A call failed. If nobody waits for it, its retry is told.
    pub(super) fn keep_failure(&mut self, now: Instant, key: Key, payload: &Payload, failure: Failure) {
        if payload.sent && matches!(failure.cause, Cause::Cancelled | Cause::TimedOut) {
            self.questions.held.handle_cancelled(now, Principal(payload.principal), payload.method);
        }
        let _ = self.questions.held.handle_failure(now, key, failure);
    }

    /// A caller does not want the answer to a request any more, and will not come for it either.
    pub(super) fn give_up(&mut self, now: Instant, key: Key) {
        match self.questions.held.find(key) {
            Some(held) => self.questions.held.handle_gone(now, held, false),
            None => self.server.cancel(now, key),
        }
    }

    /// A connection that was a principal of its own is gone.
    pub(super) fn principal_gone(&mut self, principal: u64) {
        self.questions.held.handle_principal_gone(Principal(principal));
    }
}
