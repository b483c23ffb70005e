//! The hub's side towards clients of the legacy era: what they said once, what they are asked, and answers to batches.
//!
//! Keeps frames. Who is asked what, for how long, and what a message asks for, is the core's ([`drowse_core::front`]).

use drowse_core::capabilities::ClientCapabilities;
use drowse_core::envelope::Known;
use drowse_core::front::asking::{self, Asking, Ended, GroupKey, Subject, Why};
use drowse_core::front::round::{self, MAX_ROUNDS, Round, Wanted as Asked};
use drowse_core::front::visits::{self, Visits};
use drowse_core::held::Kind;
use drowse_core::json;
use drowse_core::link::{Cause, Failure, Ran};
use drowse_core::logging::Level;
use drowse_core::splice::{LegacyClient, NoAnswer};
use drowse_core::tally::Ending;

use super::callers::{Flow, Read};
use super::relay::written;
use super::*;

/// How many groups of questions are open at once.
const SLOTS: usize = 128;
/// Of how many visits to addresses it is known whose they are.
const VISITS: usize = 256;
/// The generation of a question that its server does not ask any more.
const TAKEN_BACK: u64 = u64::MAX;
/// Who drowse is to clients whose server said nothing of itself.
const OURS: &str = concat!(r#"{"name":"drowse","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// What a client said in its `initialize`.
pub(super) struct Client {
    info: Vec<u8>,
    pub(super) capabilities: ClientCapabilities,
}

impl Client {
    /// The same for the core, and the bytes that it is about.
    pub(super) fn parts(&self) -> (LegacyClient, &[u8]) {
        let info = Span::new(0, self.info.len());
        (LegacyClient { info, capabilities: self.capabilities }, &self.info)
    }
}

/// What a client is asked, until it has answered.
enum Kept {
    /// A question of a legacy server, of that generation.
    Question { line: Vec<u8>, parts: RequestParts, kind: Kind, generation: u64 },
    /// What a modern server wants before a call is put again.
    Round { payload: Box<Payload>, inputs: Vec<Input>, state: Option<Vec<u8>> },
    /// The same, once the client has refused a part: the call ends with that error as soon as the rest is withdrawn.
    Refused { id: Vec<u8>, error: Vec<u8> },
}

struct Input {
    key: Vec<u8>,
    wanted: Asked,
    /// Its place among what the client is asked.
    place: Option<u8>,
    answer: Option<Vec<u8>>,
}

/// What a client is told that asks for tasks of the other era.
pub(super) fn no_such_tasks() -> Explained {
    let text = "the tasks of a server of this era cannot be had by a client of another".to_owned();
    explain::refused(text, "unsupported")
}

/// What a client is told whose server answers what the client's era has no word for.
pub(super) fn no_such_result() -> Explained {
    let text = "the server's answer is of a kind that the client's revision does not have".to_owned();
    let mut explained = explain::refused(text, "unsupported");
    explained.data = r#"{"drowse":{"kind":"unsupported","ran":"unknown"}}"#.to_owned();
    explained
}

/// What clients are asked.
pub(super) struct Asks {
    asking: Asking<Box<[asking::Slot]>>,
    kept: HashMap<u64, (GroupKey, Kept)>,
    /// Where clients were sent.
    pub(super) visits: Visits<[visits::Slot; VISITS]>,
}

impl Asks {
    pub(super) fn new() -> Self {
        let slots = vec![asking::Slot::EMPTY; SLOTS].into_boxed_slice();
        let visits = Visits::new([visits::Slot::EMPTY; VISITS]);
        Self { asking: Asking::new(slots), kept: HashMap::new(), visits }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.asking.poll_timeout()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.asking.handle_timeout(now);
    }

    /// Whether a client is asked something for that call.
    pub(super) fn is_asked_for(&self, call: Key) -> bool {
        self.asking.is_asked_for(call)
    }

    /// A call has ended, whatever was asked for it.
    pub(super) fn handle_call_over(&mut self, call: Key) {
        self.asking.handle_call_over(call);
    }

    pub(super) fn handle_client_gone(&mut self, client: u64) {
        self.asking.handle_client_gone(client);
        self.visits.handle_client_gone(client);
    }
}

/// The answers to a batch, which go as one.
#[derive(Default)]
pub(super) struct Batch {
    /// Which message it is.
    number: u64,
    /// The requests that are not answered yet, and how often each was put. A batch may have very many.
    ids: HashMap<Vec<u8>, usize>,
    /// One of its requests, which stands for all.
    about: Vec<u8>,
    gathered: Vec<u8>,
    /// Not all of it was read.
    unread: bool,
    /// The last item that was read.
    last: Option<Span>,
    /// An item of it is being read.
    at_hand: bool,
}

impl Batch {
    fn put(&mut self, id: &[u8]) {
        *self.ids.entry(id.to_vec()).or_default() += 1;
        if self.about.is_empty() {
            id.clone_into(&mut self.about);
        }
    }

    /// A request of it is answered, or was not put.
    fn settle(&mut self, id: &[u8]) {
        if let Some(count) = self.ids.get_mut(id) {
            *count -= 1;
            if *count == 0 {
                self.ids.remove(id);
            }
        }
    }

    fn add(&mut self, parts: &[&[u8]]) {
        self.gathered.push(if self.gathered.is_empty() { b'[' } else { b',' });
        parts.iter().for_each(|part| self.gathered.extend_from_slice(part));
    }
}

impl Connection {
    /// Sends an answer, or keeps it for the answer to its batch.
    pub(super) fn answer(&mut self, id: Option<&[u8]>, parts: &[&[u8]]) {
        self.pass_answer(id, parts, None);
    }

    /// The same with one whose `parts` are of `whole`, some of them.
    pub(super) fn pass_answer(&mut self, id: Option<&[u8]>, parts: &[&[u8]], whole: Option<&Bytes>) {
        let of_batch = self.batches.iter_mut().find(|batch| match id {
            Some(id) => batch.ids.contains_key(id),
            None => batch.at_hand,
        });
        match of_batch {
            None => self.mouth.pass(id.map_or(About::Nothing, About::Answer), parts, whole),
            Some(batch) => {
                batch.add(parts);
                if let Some(id) = id {
                    batch.settle(id);
                }
                self.send_batches();
            }
        }
    }

    /// How much waits for the rest of its batch.
    pub(super) fn gathered(&self) -> usize {
        self.batches.iter().map(|batch| batch.gathered.len()).sum()
    }

    /// Sends the answers to batches that are complete.
    fn send_batches(&mut self) {
        while let Some(at) = self.batches.iter().position(|batch| batch.ids.is_empty() && !batch.unread) {
            let batch = self.batches.remove(at);
            if batch.gathered.is_empty() {
                self.mouth.leave_unanswered(&batch.about);
            } else {
                self.mouth.send(About::Answer(&batch.about), &[&batch.gathered, b"]"]);
            }
        }
    }

    /// A request of a legacy client that it cancelled gets no answer (basic/utilities/cancellation).
    pub(super) fn leave_unanswered(&mut self, id: &[u8]) {
        match self.batches.iter_mut().find(|batch| batch.ids.contains_key(id)) {
            None => self.mouth.leave_unanswered(id),
            Some(batch) => {
                batch.settle(id);
                self.send_batches();
            }
        }
    }

    fn batch(&mut self, number: u64) -> Option<&mut Batch> {
        self.batches.iter_mut().find(|batch| batch.unread && batch.number == number)
    }

    /// Nobody reads on in that message: what was put of it goes on, and nothing more is.
    pub(super) fn end_batch(&mut self, number: u64) {
        if let Some(batch) = self.batch(number) {
            batch.unread = false;
            self.send_batches();
        }
    }
}

impl Hub {
    /// Reads a batch, or goes on where there was no room for more of it. `number` says which message it is: on some
    /// connections several are read at the same time.
    pub(super) fn batch(
        &self,
        inner: &mut Inner,
        now: Instant,
        id: u64,
        whole: Line<'_>,
        items: Span,
        number: u64,
    ) -> Flow {
        let line = whole.bytes();
        let Some(connection) = inner.connections.get_mut(&id) else { return Flow::Close };
        if connection.batch(number).is_none() {
            connection.batches.push(Batch { number, unread: true, ..Batch::default() });
        }
        let last = connection.batch(number).and_then(|batch| batch.last);
        let mut rest = match last {
            None => envelope::batch(line, items),
            Some(last) => envelope::batch_after(line, items, last),
        };
        let act = |inner: &mut Inner, act: &mut dyn FnMut(&mut Batch)| {
            if let Some(batch) = inner.connections.get_mut(&id).and_then(|one| one.batch(number)) {
                act(batch);
            }
        };
        let flow = loop {
            let Some(at) = rest.next() else { break Flow::Next };
            let item = at.of(line);
            let request = match envelope::read(item) {
                Ok(envelope::Message::Request { id, .. }) => Some(id.of(item)),
                Err(error) if !error.is_response => error.id.map(|id| id.of(item)),
                _ => None,
            };
            act(inner, &mut |batch| {
                batch.at_hand = true;
                if let Some(request) = request {
                    batch.put(request);
                }
            });
            match self.client_line(inner, now, id, whole.part(item), Read::Item) {
                Flow::Next | Flow::Greeted => act(inner, &mut |batch| batch.last = Some(at)),
                Flow::Close => break Flow::Close,
                Flow::Wait => {
                    if let Some(request) = request {
                        act(inner, &mut |batch| batch.settle(request));
                    }
                    break Flow::Wait;
                }
            }
        };
        act(inner, &mut |batch| batch.at_hand = false);
        if let (Flow::Next, Some(connection)) = (&flow, inner.connections.get_mut(&id)) {
            connection.end_batch(number);
        }
        flow
    }

    /// Puts a question of a legacy server to the client whose call it belongs to.
    pub(super) fn put_question(
        &self,
        inner: &mut Inner,
        now: Instant,
        line: &[u8],
        parts: RequestParts,
        kind: Kind,
        call: Key,
    ) {
        let Some(Some(payload)) = inner.payloads.get(call.index()) else { return };
        let client = payload.connection;
        let Ok(group) = inner.asks.asking.ask(now, client, Subject::Call(call), 1) else {
            inner.host.note("a question of the server was put to nobody: too many are open");
            return self.refuse_question(inner, line, parts.id, kind, NoAnswer::Cancelled);
        };
        let (method, params) = (parts.method.of(line), parts.params.map(|params| params.of(line)));
        let text = written(|w| round::question(w, group.id(0), method, params));
        let visit = parts.params.filter(|_| kind == Kind::Url);
        if let Some(visit) = visit.and_then(|params| json::member(line, params, "elicitationId")) {
            inner.asks.visits.handle_asked(visit.of(line), client);
        }
        let generation = inner.server.lifecycle().generation();
        let kept = Kept::Question { line: line.to_vec(), parts, kind, generation };
        inner.asks.kept.insert(group.number(), (group, kept));
        inner.server.hold(now, call);
        inner.say_of(call, client, &text);
    }

    /// A modern server wants something of a legacy client before it answers.
    pub(super) fn begin_round(
        &self,
        inner: &mut Inner,
        now: Instant,
        mut payload: Payload,
        line: &[u8],
        result: Span,
    ) {
        // The result is no end of the call.
        inner.server.tally_mut().handle_round();
        let fail = |inner: &mut Inner, payload: &Payload, text: &str| {
            inner.server.tally_mut().end(Ending::Ours, None);
            let mut explained = explain::refused(text.to_owned(), "unsupported");
            explained.data = r#"{"drowse":{"kind":"unsupported","ran":"unknown"}}"#.to_owned();
            inner.reply_error(payload.connection, Some(&payload.id), explain::CODE, &explained);
        };
        let capabilities = payload.client.as_ref().map(|client| client.capabilities).unwrap_or_default();
        let Ok(wanted) = Round::read(line, result) else {
            return fail(inner, &payload, "the server wants something that no client can be asked for");
        };
        if payload.rounds >= MAX_ROUNDS || payload.frame.is_none() {
            return fail(inner, &payload, "the server asks again and again: the call was given up");
        }
        payload.rounds += 1;
        let mut places = 0;
        let mut inputs = Vec::new();
        for input in &wanted.inputs {
            let key = input.key.of(line).to_vec();
            if input.wanted.is_covered(capabilities) {
                inputs.push(Input { key, wanted: input.wanted, place: Some(places), answer: None });
                places += 1;
            } else if let Some(answer) = input.wanted.declined() {
                let answer = Some(answer.to_vec());
                inputs.push(Input { key, wanted: input.wanted, place: None, answer });
            } else {
                return fail(
                    inner,
                    &payload,
                    "the server asks for a capability that the client did not declare",
                );
            }
        }
        let state = wanted.state.map(|state| state.of(line).to_vec());
        if places == 0 {
            if let Err(payload) = self.put_again(inner, now, Box::new(payload), &inputs, state.as_deref()) {
                fail(inner, &payload, "too many requests are under way to put the call again");
            }
            return;
        }
        let client = payload.connection;
        let Ok(group) = inner.asks.asking.ask(now, client, Subject::Round, usize::from(places)) else {
            return fail(inner, &payload, "the client is asked too much at once");
        };
        let asked = wanted.inputs.iter().zip(&inputs).filter_map(|(input, kept)| Some((input, kept.place?)));
        if let Some(connection) = inner.connections.get_mut(&client) {
            for (input, place) in asked {
                let text = written(|w| input.write(w, group.id(place), line));
                connection.mouth.send(About::Request(&payload.id), &[&text]);
            }
        }
        let kept = Kept::Round { payload: Box::new(payload), inputs, state };
        inner.asks.kept.insert(group.number(), (group, kept));
        // To the client the call is in flight.
        inner.server.defer();
    }

    /// Puts a call again, with what the server wanted. If there is no room, gives it back as it was.
    fn put_again(
        &self,
        inner: &mut Inner,
        now: Instant,
        payload: Box<Payload>,
        inputs: &[Input],
        state: Option<&[u8]>,
    ) -> Result<(), Box<Payload>> {
        let Some(frame) = &payload.frame else { return Ok(()) };
        let answers =
            || inputs.iter().filter_map(|input| Some((input.key.as_slice(), input.answer.as_deref()?)));
        let again = written(|w| round::retry(w, frame, &payload.parts, answers(), state));
        let Some(parts) = envelope::read(&again).ok().and_then(|message| RequestParts::of(&message)) else {
            let explained = explain::refused("the answer is no valid message".to_owned(), "invalid-request");
            inner.reply_error(payload.connection, Some(&payload.id), explain::CODE, &explained);
            return Ok(());
        };
        let operation = Operation { method: payload.method, allowance: payload.allowance };
        inner.ask_for(payload.connection);
        match inner.server.submit(now, operation) {
            Ok(key) => {
                inner.cache.sent(payload.method);
                inner.order += 1;
                let order = inner.order;
                let payload = Payload {
                    parts,
                    frame: Some(again.into()),
                    sent: false,
                    wire: None,
                    relisted: false,
                    cached_as: None,
                    order,
                    ..*payload
                };
                inner.keep(key, payload);
                Ok(())
            }
            Err(Refusal::Full) => Err(payload),
            Err(Refusal::Unavailable(why)) => {
                inner.server.tally_mut().end(Ending::Ours, None);
                let explained = inner.explain(|around| explain::unavailable(why, around));
                inner.reply_error(payload.connection, Some(&payload.id), explain::CODE, &explained);
                Ok(())
            }
        }
    }

    /// A client answers something that it was asked.
    pub(super) fn client_answers(
        &self,
        inner: &mut Inner,
        now: Instant,
        client: u64,
        frame: &[u8],
        id: Span,
        answer: Result<Span, Span>,
    ) -> Flow {
        let found = json::as_u64(id.of(frame)).and_then(|id| inner.asks.asking.find(client, id));
        let Some((group, place)) = found else { return Flow::Next };
        let Some((_, kept)) = inner.asks.kept.remove(&group.number()) else { return Flow::Next };
        match kept {
            Kept::Refused { .. } => {
                inner.asks.kept.insert(group.number(), (group, kept));
            }
            Kept::Question { line, parts, generation, .. } => {
                let subject = inner.asks.asking.subject(group);
                inner.asks.asking.handle_answer(group, place);
                let (name, value) = match answer {
                    Ok(result) => (&br#","result":"#[..], result),
                    Err(error) => (&br#","error":"#[..], error),
                };
                let asked = parts.id.of(&line);
                let text = [br#"{"jsonrpc":"2.0","id":"#, asked, name, value.of(frame), b"}"].concat();
                if generation == inner.server.lifecycle().generation() {
                    self.answer_server(inner, &text);
                }
                if let Some(Subject::Call(call)) = subject {
                    inner.answered(now, call);
                }
            }
            Kept::Round { payload, mut inputs, state } => {
                let Some(input) = inputs.iter_mut().find(|input| input.place == Some(place)) else {
                    return Flow::Next;
                };
                let answer = match answer {
                    Ok(result) => Ok(result.of(frame).to_vec()),
                    Err(error) => input.wanted.failed().map(<[u8]>::to_vec).ok_or(error),
                };
                match answer {
                    // What cannot be said to the server is said to whoever waits for the call, once what else the client
                    // was asked for it is withdrawn.
                    Err(error) => {
                        inner.server.tally_mut().end(Ending::Theirs, None);
                        inner.server.undefer(now);
                        let is_last = inner.asks.asking.is_last(group, place);
                        inner.asks.asking.handle_answer(group, place);
                        if is_last {
                            inner.refuse_call(client, &payload.id, error.of(frame));
                        } else {
                            let kept = Kept::Refused { id: payload.id, error: error.of(frame).to_vec() };
                            inner.asks.kept.insert(group.number(), (group, kept));
                            inner.asks.asking.handle_over(group);
                        }
                    }
                    Ok(answer) => {
                        input.answer = Some(answer);
                        if !inner.asks.asking.is_last(group, place) {
                            inner.asks.asking.handle_answer(group, place);
                            let kept = Kept::Round { payload, inputs, state };
                            inner.asks.kept.insert(group.number(), (group, kept));
                        } else if let Err(payload) =
                            self.put_again(inner, now, payload, &inputs, state.as_deref())
                        {
                            let kept = Kept::Round { payload, inputs, state };
                            inner.asks.kept.insert(group.number(), (group, kept));
                            return Flow::Wait;
                        } else {
                            inner.asks.asking.handle_answer(group, place);
                            inner.server.undefer(now);
                        }
                    }
                }
            }
        }
        Flow::Next
    }

    /// A client tells how far it is with something that it is asked. Of what a modern server wants nobody is told that.
    pub(super) fn client_progress(&self, inner: &mut Inner, client: u64, frame: &[u8], token: Span) {
        let generation = inner.server.lifecycle().generation();
        let is_of = |(group, kept): &(GroupKey, Kept)| match kept {
            Kept::Question { line, parts, generation: of, .. } => {
                let theirs = parts.value(Known::ProgressToken);
                *of == generation
                    && theirs.is_some_and(|theirs| theirs.of(line) == token.of(frame))
                    && inner.asks.asking.client(*group) == Some(client)
            }
            Kept::Round { .. } | Kept::Refused { .. } => false,
        };
        if inner.asks.kept.values().any(is_of) && !inner.takes_no_answers() {
            self.answer_server(inner, frame);
        }
    }

    /// Does what is to be done about questions that nobody will answer. `true`: there were some.
    pub(super) fn drive_asks(&self, inner: &mut Inner, now: Instant) -> bool {
        let mut any = false;
        while let Some(Ended { group, client, subject, open, why }) = inner.asks.asking.poll_ended() {
            any = true;
            if why != Why::Gone {
                for place in (0..8).filter(|place| open >> place & 1 == 1) {
                    let text = written(|w| round::withdrawn(w, group.id(place)));
                    match (subject, inner.asks.kept.get(&group.number())) {
                        (Subject::Call(call), _) => inner.say_of(call, client, &text),
                        (_, Some((_, kept))) => {
                            let id = match kept {
                                Kept::Round { payload, .. } => &payload.id,
                                Kept::Refused { id, .. } => id,
                                Kept::Question { .. } => continue,
                            };
                            if let Some(connection) = inner.connections.get_mut(&client) {
                                connection.mouth.send(About::Request(id), &[&text]);
                            }
                        }
                        (_, None) => {}
                    }
                }
            }
            match inner.asks.kept.remove(&group.number()) {
                Some((_, Kept::Question { line, parts, kind, generation }))
                    if generation == inner.server.lifecycle().generation() =>
                {
                    self.refuse_question(inner, &line, parts.id, kind, NoAnswer::Cancelled);
                }
                Some((_, Kept::Round { payload, .. })) => {
                    let ending = if why == Why::Silent { Ending::TimedOut } else { Ending::Cancelled };
                    inner.server.tally_mut().end(ending, None);
                    if why == Why::Silent {
                        let failure = Failure { cause: Cause::TimedOut, ran: Ran::Unknown };
                        let mut explained = inner.explain(|around| explain::failure(failure, around));
                        "the client did not answer what the server asks".clone_into(&mut explained.message);
                        inner.reply_error(client, Some(&payload.id), explain::CODE, &explained);
                    }
                    inner.server.undefer(now);
                }
                Some((_, Kept::Refused { id, error })) => inner.refuse_call(client, &id, &error),
                // Nobody is there any more who asked.
                Some((_, Kept::Question { .. })) | None => {}
            }
            if let Subject::Call(call) = subject {
                inner.answered(now, call);
            }
        }
        any
    }
}

impl Inner {
    /// A client refused what the server wants for a call, and that is the call's end.
    fn refuse_call(&mut self, client: u64, id: &[u8], error: &[u8]) {
        if let Some(connection) = self.connections.get_mut(&client) {
            let parts: [&[u8]; 5] = [br#"{"jsonrpc":"2.0","id":"#, id, br#","error":"#, error, b"}"];
            connection.answer(Some(id), &parts);
        }
    }

    /// A connection that begins with MCP, or a client of one that began with a hello, says who it is.
    pub(super) fn initialize(
        &mut self,
        of: u64,
        id: &[u8],
        revision: Revision,
        info: Option<&[u8]>,
        capabilities: ClientCapabilities,
    ) {
        let client = Client { info: info.unwrap_or_default().to_vec(), capabilities };
        if let Some(connection) = self.connections.get_mut(&of) {
            connection.client = Some(Rc::new(client));
            if connection.front.defers() && self.stateful.insert(of) {
                self.server.defer();
            }
        }
        let known = self.described();
        self.reply(of, id, &front::initialization(known.as_deref(), revision, OURS.as_bytes()));
    }

    /// What the server said of itself, now or when it last ran.
    pub(super) fn described(&mut self) -> Option<Vec<u8>> {
        if let Some(handshake) = &self.handshake {
            return Some(handshake.clone());
        }
        let saved = self.host.saved().filter(|saved| saved.header.identity == self.config.identity);
        let saved = saved?;
        let header = saved.header;
        let version = match header.era.as_str() {
            "modern" => json!({"supportedVersions": [header.protocol_version]}),
            _ => json!({"protocolVersion": header.protocol_version}),
        };
        let mut described = version;
        let raw = |text: &serde_json::value::RawValue| {
            serde_json::from_str::<serde_json::Value>(text.get()).unwrap_or_default()
        };
        if let Some(capabilities) = &header.capabilities {
            described["capabilities"] = raw(capabilities);
        }
        if let Some(info) = &header.server_info {
            described["serverInfo"] = raw(info);
        }
        if let Some(instructions) = header.instructions {
            described["instructions"] = instructions.into();
        }
        Some(described.to_string().into_bytes())
    }

    /// The legacy client that waits for a call.
    pub(super) fn is_of_legacy_client(&self, call: Key) -> bool {
        let payload = self.payloads.get(call.index()).and_then(Option::as_deref);
        payload.is_some_and(|payload| payload.client.is_some())
    }

    /// Says something to a client that belongs to a call of it.
    fn say_of(&mut self, call: Key, client: u64, text: &[u8]) {
        let payload = self.payloads.get(call.index()).and_then(Option::as_deref);
        let about = payload.map_or(About::Nothing, |payload| About::Request(&payload.id));
        if let Some(connection) = self.connections.get_mut(&client) {
            connection.mouth.send(about, &[text]);
        }
    }

    /// A question of a call is answered: with the last one its time goes on.
    fn answered(&mut self, now: Instant, call: Key) {
        if self.server.is_live(call) && !self.asks.asking.is_asked_for(call) {
            self.server.release(now, call);
        }
    }

    /// Looks whether a notification of the server takes back a question of it, which then has no answer.
    pub(super) fn question_cancelled(&mut self, line: &[u8], params: Span) {
        let Some(request) = json::member(line, params, "requestId") else { return };
        self.questions.unsettled.retain(|one| one.id() != request.of(line));
        for (group, kept) in self.asks.kept.values_mut() {
            if let Kept::Question { line: asked, parts, generation, .. } = kept
                && parts.id.of(asked) == request.of(line)
            {
                *generation = TAKEN_BACK;
                self.asks.asking.handle_over(*group);
            }
        }
    }

    /// A client cancels a call that waits for its own answers.
    pub(super) fn give_up_round(&mut self, connection: u64, id: &[u8]) {
        for (group, kept) in self.asks.kept.values() {
            if let Kept::Round { payload, .. } = kept
                && payload.connection == connection
                && payload.id == id
            {
                self.asks.asking.handle_over(*group);
            }
        }
    }

    /// The server is told of the most verbose level that anybody wants.
    pub(super) fn apply_levels(&mut self) {
        let levels = self.connections.values().filter_map(|one| one.front.level().or(one.level));
        let wanted: Option<Level> = levels.chain(self.base_level).min();
        if wanted != self.server.level() {
            self.server.change_level(wanted);
        }
    }

    /// Whether a log message is for the client of a request that is under way.
    pub(super) fn is_heard(&self, payload: &Payload, level: Level) -> bool {
        let front = self.connections.get(&payload.connection).map(|connection| connection.front);
        match front {
            Some(front) if front.is_legacy() => front.hears(level),
            _ => payload.wanted.covers(level),
        }
    }

    /// The legacy clients that a legacy server's message of no particular request is for.
    pub(super) fn listening_to_log(&self, level: Level) -> impl Iterator<Item = u64> {
        let legacy = self.revision.is_some_and(|revision| revision.era() == Era::Legacy);
        let connections = self.connections.iter().filter(move |_| legacy);
        connections.filter(move |(_, connection)| connection.front.hears(level)).map(|(id, _)| *id)
    }
}
