//! The hub's side towards callers: connections, their lines, and what is written back to them.

use drowse_core::activity::Asker;
use drowse_core::capabilities::ClientCapabilities;
use drowse_core::front::answer::{Answer, Asked};
use drowse_core::held::Carries;
use drowse_core::link::{Failure, Ran};

use super::relay::Listening;
use super::*;
use crate::wire::{RENEWED, Renewed};

/// What a connection does next.
pub(super) enum Flow {
    Next,
    /// Reads nothing more before all that was said is with the kernel.
    Greeted,
    /// Every slot is in use: the same frame again when one is free.
    Wait,
    Close,
}

/// How far what a client sent is read.
#[derive(Clone, Copy)]
pub(super) enum Read<'m> {
    /// It is a line.
    Line,
    /// It is an item of one.
    Item,
    /// It is a line that was read as this. The number tells it from others that wait for room at the same time.
    Message(&'m envelope::Message, u64),
}

/// A request of a caller that is to be carried on.
pub(super) struct Request<'l> {
    pub(super) connection: u64,
    pub(super) line: Line<'l>,
    pub(super) operation: Operation,
    pub(super) parts: RequestParts,
    /// The caller's progress token.
    pub(super) token: Option<Span>,
}

/// Why no further frame of a connection is handed in.
enum Pause {
    /// There is none.
    Read,
    /// This one waits for a free slot.
    Full(Bytes),
    /// The hello is being answered.
    Greeted,
    /// The connection does not read its answers.
    Unread,
    Close,
}

impl Hub {
    /// Serves a caller until it or the bridge goes.
    pub async fn serve_connection(&self, reader: impl AsyncRead + Unpin, writer: impl AsyncWrite + 'static) {
        self.serve(reader, writer, Front::new()).await;
    }

    /// The same for a client of that kind, which begins with MCP and not with a hello.
    pub async fn serve_client(
        &self,
        reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + 'static,
        asker: Asker,
    ) {
        self.serve(reader, writer, Front::of(asker)).await;
    }

    async fn serve(
        &self,
        mut reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + 'static,
        front: Front,
    ) {
        let Some((id, closed)) = self.add_connection(writer, front) else { return };
        tokio::select! {
            () = self.read_connection(id, &mut reader) => {}
            () = closed.notified() => {}
        }
        self.with(|hub, inner, now| hub.caller_gone(inner, now, id));
        // A last word (a refusal, the goodbye) is worth a moment, not more.
        let _ = tokio::time::timeout(GOODBYE, self.backlog_at_most(id, 0)).await;
        self.with(|hub, inner, now| {
            hub.remove_connection(inner, id);
            inner.rest.handle_active(now);
            hub.arm(inner);
        });
    }

    /// A caller went away: it does not want its answers.
    pub(super) fn caller_gone(&self, inner: &mut Inner, now: Instant, id: u64) {
        let (principal, named) =
            inner.connections.get(&id).map_or((0, false), |one| (one.principal, one.named));
        for key in inner.keys_of(|payload| payload.last == id) {
            inner.give_up(now, key);
        }
        if !named {
            inner.principal_gone(principal);
        }
        inner.marked.forget(id, None);
        inner.asks.handle_client_gone(id);
        inner.unlisten(now, id, None);
        inner.dev_gone(id, None);
        self.drive(inner, None);
    }

    /// Forgets a connection.
    pub(super) fn remove_connection(&self, inner: &mut Inner, id: u64) {
        let levels =
            inner.connections.remove(&id).is_some_and(|gone| gone.front.level().or(gone.level).is_some());
        if levels {
            inner.apply_levels();
        }
        let stateful = inner.stateful.remove(&id);
        if levels || stateful {
            let now = self.now();
            if stateful {
                inner.server.undefer(now);
            }
            self.drive(inner, None);
        }
    }

    /// Something that drowse did of its own is over: the host rests again, if it did before.
    pub(super) fn rest_if_quiet(&self, inner: &Inner) {
        if inner.is_quiet() && !inner.rest.is_ready() {
            self.rest();
        }
    }

    /// The time is over for which the host stays ready for the next caller.
    pub(super) fn rest_in_time(&self, inner: &mut Inner, now: Instant) {
        if inner.rest.handle_timeout(now, inner.is_quiet()) {
            self.rest();
        }
    }

    /// Lets the host rest if it is quiet. Not at once but after whatever is to be done now, which would only need again
    /// what the host gives back.
    fn rest(&self) {
        let hub = self.clone();
        spawn_local(async move {
            tokio::task::yield_now().await;
            hub.with(|_, inner, _| {
                if inner.is_quiet() {
                    inner.host.quiet();
                }
            });
        });
    }

    async fn read_connection(&self, id: u64, reader: &mut (impl AsyncRead + Unpin)) {
        let mut intake = Intake::new(self.0.limit);
        loop {
            match self.client_frames(id, &mut intake) {
                Pause::Read => {
                    if !matches!(intake.read(reader).await, Ok(true)) {
                        return;
                    }
                }
                Pause::Full(line) => {
                    if !self.wait_for_room(id, line, &mut intake, reader).await {
                        return;
                    }
                }
                // What a caller sends along with its hello is only read if the hello is answered: one that hears no
                // answer knows that nothing ran.
                Pause::Greeted => self.backlog_at_most(id, 0).await,
                Pause::Unread => self.backlog_at_most(id, CLIENT_BACKLOG).await,
                Pause::Close => return,
            }
        }
    }

    /// Hands in what was read in one go, as far as that goes without waiting.
    fn client_frames(&self, id: u64, intake: &mut Intake) -> Pause {
        let mut several = false;
        let pause = loop {
            // Who does not read its answers is not read from.
            if self.client_backlog(id) > CLIENT_BACKLOG {
                break Pause::Unread;
            }
            let Some((frame, more)) = intake.poll() else { break Pause::Read };
            if more && !several {
                several = true;
                self.begin_burst();
            }
            match (self.client_frame(id, &frame), frame) {
                (Flow::Next, _) | (Flow::Wait, Heard::Oversize(_)) => {}
                (Flow::Greeted, _) => break Pause::Greeted,
                (Flow::Close, _) => break Pause::Close,
                (Flow::Wait, Heard::Line(line)) => break Pause::Full(Bytes::copy_from_slice(line)),
                (Flow::Wait, Heard::Long(line)) => break Pause::Full(line),
            }
        };
        if several {
            self.end_burst();
        }
        pause
    }

    pub(super) fn client_backlog(&self, id: u64) -> usize {
        self.0.inner.borrow().connections.get(&id).map_or(0, |connection| connection.mouth.backlog())
    }

    /// Waits until no more than `size` bytes are left to be written on a connection, or it is broken or gone.
    pub(super) async fn backlog_at_most(&self, id: u64, size: usize) {
        loop {
            let eased = match self.0.inner.borrow().connections.get(&id) {
                Some(Connection { mouth, .. }) if mouth.backlog() > size && !mouth.is_broken() => {
                    mouth.eased()
                }
                _ => None,
            };
            let Some(eased) = eased else { return };
            eased.notified().await;
        }
    }

    fn add_connection(&self, writer: impl AsyncWrite + 'static, front: Front) -> Option<(u64, Rc<Notify>)> {
        self.with(|hub, inner, _| {
            if inner.retired {
                return None;
            }
            let id = inner.next_connection;
            inner.next_connection += 1;
            let outlet = Outlet::new(writer).in_bursts(&hub.0.burst, id);
            let (closed, wake) = (Rc::new(Notify::new()), outlet.wake());
            let (hub, over) = (hub.clone(), Rc::clone(&closed));
            let flusher = Task::spawn(async move {
                loop {
                    wake.notified().await;
                    hub.flush(|inner| {
                        inner.connections.get_mut(&id).and_then(|connection| connection.mouth.stream())
                    })
                    .await;
                    hub.eased(id);
                    // Who cannot be answered any more may say nothing for as long as it likes.
                    if hub.is_broken(id) {
                        over.notify_one();
                    }
                }
            });
            let connection = Connection {
                // Without a hello it is a principal of its own.
                principal: if front.is_open() { inner.questions.principal(None) } else { 0 },
                front,
                mouth: Mouth::Stream(outlet),
                closed: Rc::clone(&closed),
                named: false,
                renewals: inner.told,
                level: None,
                client: None,
                batches: Vec::new(),
                _flusher: Some(flusher),
            };
            inner.connections.insert(id, connection);
            Some((id, closed))
        })
    }

    fn is_broken(&self, id: u64) -> bool {
        self.0.inner.borrow().connections.get(&id).is_some_and(|connection| connection.mouth.is_broken())
    }

    pub(super) fn client_frame(&self, id: u64, frame: &Heard<'_>) -> Flow {
        self.with(|hub, inner, now| {
            let line = match frame {
                Heard::Line(line) => Line::from(*line),
                Heard::Long(line) => Line::from(line),
                Heard::Oversize(oversize) => {
                    let limit = hub.0.limit >> 20;
                    let text = format!("the request is longer than the limit of {limit} MiB: send less");
                    inner.reply_error(id, oversize.id, -32600, &explain::refused(text, "too-large"));
                    return Flow::Next;
                }
            };
            hub.client_line(inner, now, id, line, Read::Line)
        })
    }

    /// Reads a line, or an item of one.
    pub(super) fn client_line(
        &self,
        inner: &mut Inner,
        now: Instant,
        id: u64,
        line: Line<'_>,
        read: Read<'_>,
    ) -> Flow {
        let frame = line.bytes();
        inner.rest.handle_active(now);
        let default = inner.config.server.allowance;
        let Some(connection) = inner.connections.get_mut(&id) else { return Flow::Close };
        if connection.mouth.is_broken() {
            return Flow::Close;
        }
        let inbound = match read {
            Read::Line => connection.front.handle_frame(frame, default),
            Read::Item => connection.front.handle_item(frame, default),
            Read::Message(message, _) => connection.front.handle_message(frame, message, default),
        };
        match inbound {
            Inbound::Hello { principal } => {
                let name = principal.map(|name| name.of(frame));
                connection.principal = inner.questions.principal(name);
                connection.named = name.is_some();
                let welcome = json!({"drowse": {"hello": {
                    "version": front::HELLO_VERSION,
                    "bridge": env!("CARGO_PKG_VERSION"),
                    "pid": std::process::id(),
                }}});
                connection.mouth.send(About::Nothing, &[welcome.to_string().as_bytes()]);
                return Flow::Greeted;
            }
            Inbound::Refused => {
                let refused = json!({"drowse": {"refused": {
                    "versions": [front::HELLO_VERSION],
                    "reason": "this bridge speaks another version of drowse's hello: restart the session",
                    "inFlight": inner.server.lifecycle().in_flight(),
                }}});
                connection.mouth.send(About::Nothing, &[refused.to_string().as_bytes()]);
                return Flow::Close;
            }
            Inbound::Leave => {
                inner.server.leave(now);
                self.drive(inner, None);
                return Flow::Close;
            }
            Inbound::Operation { operation, parts, token } => {
                let request = Request { connection: id, line, operation, parts, token };
                return self.operation(inner, now, &request);
            }
            Inbound::List { operation, parts, token } => {
                let request = Request { connection: id, line, operation, parts, token };
                return self.list(inner, now, &request);
            }
            Inbound::Listen { id: request, filter, starts } => {
                let listening = Listening::modern(id, frame, request, &filter, starts);
                let flow = self.listen(inner, now, listening);
                self.drive(inner, None);
                return flow;
            }
            Inbound::Discover { id: request } => {
                let known = inner.described().or_else(|| inner.unseen());
                inner.reply(id, request.of(frame), &front::discovery(known.as_deref()));
            }
            Inbound::Status { id: request } => {
                let status = inner.status(now).to_string();
                inner.reply(id, request.of(frame), &[status.as_bytes()]);
            }
            Inbound::Snapshot { id: request } => {
                self.ask_for_snapshot(inner, now, id, request.of(frame));
            }
            Inbound::Close { id: request } => {
                inner.closers.push((id, request.of(frame).to_vec()));
                inner.server.close(now);
            }
            Inbound::Sync { id: request, params, on } => {
                let params = params.map_or(&b"{}"[..], |params| params.of(frame));
                if on {
                    self.sync(inner, id, request.of(frame), params);
                } else {
                    self.unsync(inner, id, request.of(frame), params);
                }
            }
            Inbound::Set { id: request, params } => {
                let params = params.map_or(&b"{}"[..], |params| params.of(frame));
                inner.set(now, id, request.of(frame), params);
            }
            Inbound::Cancel { request, reason } => {
                let wanted = request.of(frame);
                for key in
                    inner.keys_of(|payload| payload.connection == id && payload.id.as_slice() == wanted)
                {
                    inner.because(key, reason.map(|reason| reason.of(frame)));
                    inner.give_up(now, key);
                }
                inner.unlisten(now, id, Some(wanted));
                inner.give_up_round(id, wanted);
                inner.dev_gone(id, Some(wanted));
                let answers = inner.connections.get(&id).is_some_and(|one| one.front.answers_cancelled());
                if inner.marked.forget(id, Some(wanted)) && answers {
                    // It was refused, and is not sent again.
                    let failure = Failure { cause: Cause::Cancelled, ran: Ran::No };
                    let explained = inner.explain(|around| explain::failure(failure, around));
                    inner.reply_error(id, Some(wanted), explain::CODE, &explained);
                }
            }
            Inbound::Initialize { id: request, revision, info, capabilities } => {
                let info = info.map(|info| info.of(frame));
                inner.initialize(id, request.of(frame), revision, info, capabilities);
            }
            Inbound::Initialized => self.listen_to_lists(inner, now, id),
            Inbound::Ping { id: request } => inner.reply(id, request.of(frame), &[b"{}"]),
            Inbound::SetLevel { id: request } => {
                inner.apply_levels();
                inner.reply(id, request.of(frame), &[b"{}"]);
            }
            Inbound::Subscribe { id: request, uri, on } => {
                let (request, uri) = (request.of(frame), uri.of(frame));
                let flow = self.subscribe(inner, now, id, request, uri, on);
                self.drive(inner, None);
                return flow;
            }
            Inbound::Answer { id: question, answer } => {
                let flow = self.client_answers(inner, now, id, frame, question, answer);
                self.drive(inner, None);
                return flow;
            }
            Inbound::Progress { token } => self.client_progress(inner, id, frame, token),
            Inbound::Batch { items } => {
                let number = if let Read::Message(_, number) = read { number } else { 0 };
                return self.batch(inner, now, id, line, items, number);
            }
            Inbound::Ignore => return Flow::Next,
            Inbound::Reject { id: request, rejection } => {
                inner.reject(id, frame, request, rejection);
            }
        }
        self.drive(inner, None);
        Flow::Next
    }

    pub(super) fn operation(&self, inner: &mut Inner, now: Instant, request: &Request<'_>) -> Flow {
        let &Request { connection, line, operation, parts, token } = request;
        let frame = line.bytes();
        if self.dev_call(inner, now, request) {
            return Flow::Next;
        }
        // A modern server has states of its own; a legacy one would run the call again.
        let is_modern = inner.revision.is_some_and(|revision| revision.era() == Era::Modern);
        let client = inner.connections.get(&connection).and_then(|one| one.client.clone());
        let carries = match client.is_none() && !is_modern {
            true => Carries::of(frame, operation.method, parts.params),
            false => Carries::default(),
        };
        if carries.state.is_some() {
            self.retry(inner, request);
            self.drive(inner, None);
            return Flow::Next;
        }
        if let Some(responses) = carries.responses
            && !splice::accepts_all(frame, responses)
        {
            let text =
                "the user did not accept what the server requires first, so the request was not put again";
            let explained = explain::refused(text.to_owned(), "declined");
            inner.reply_error(connection, Some(parts.id.of(frame)), explain::CODE, &explained);
            return Flow::Next;
        }
        if let Some(revision) = inner.revision
            && !inner.reaches(connection, operation.method, revision)
        {
            inner.reply_error(connection, Some(parts.id.of(frame)), -32601, &legacy::no_such_tasks());
            return Flow::Next;
        }
        let cached_as = inner.cache.key(operation.method, frame, &parts).filter(|_| is_modern);
        if inner.server.state() == PublicState::Live
            && let (Some(key), Some(revision)) = (&cached_as, inner.revision)
            && let Some(cached) = inner.cache.fresh(now, operation.method, key)
            && let Ok(message) = envelope::read(&cached)
        {
            // It counts like any other, though the server need not hear of it.
            inner.server.answer_again(now);
            let payload = Payload::new(connection, operation.method, frame, parts, None);
            let payload = Payload { client, ..payload };
            inner.deliver(&payload, operation.method, cached.as_slice().into(), &message, revision);
            self.drive(inner, None);
            return Flow::Next;
        }
        let Ok(sets_level) = inner.sets_level(connection, frame, &parts, operation.method) else {
            return Flow::Next;
        };
        let submitted = match inner.has_room_for(connection) {
            true => {
                inner.ask_for(connection);
                inner.server.submit(now, operation)
            }
            false => Err(Refusal::Full),
        };
        match submitted {
            Ok(key) => {
                if inner.server.is_stopping() {
                    fault::point("D2");
                }
                inner.cache.sent(operation.method);
                let mut payload = Box::new(Payload::new(connection, operation.method, frame, parts, token));
                inner.order += 1;
                let (capabilities, wanted) = match &client {
                    Some(client) => {
                        // One that set no level leaves it to the server; a modern one has to be told something.
                        let front = inner.connections.get(&connection).map(|one| one.front);
                        let level = front.and_then(|front| front.level()).unwrap_or(Level::Info);
                        (client.capabilities, Wanted::From(level))
                    }
                    None => {
                        let wanted = Wanted::of(frame, &parts);
                        inner.wants_log(connection, wanted);
                        (ClientCapabilities::of_request(frame, &parts), wanted)
                    }
                };
                // Into its place one by one: it is too large to be moved about.
                payload.repeatable = inner.may_be_repeated(key, operation.method, frame, &parts);
                payload.allowance = operation.allowance;
                payload.order = inner.order;
                payload.principal = inner.connections.get(&connection).map_or(0, |one| one.principal);
                payload.capabilities = capabilities;
                payload.cached_as = cached_as;
                payload.wanted = wanted;
                payload.sets_level = sets_level;
                payload.after_visits = carries.responses.is_some();
                payload.client = client;
                payload.asked = tasks::asked(frame, &parts, operation.method, capabilities);
                inner.keep(key, payload);
                self.drive(inner, Some((key, line)));
                // Most requests are with the kernel by now, and need no copy.
                let revision = inner.server.revision();
                if inner.server.is_live(key)
                    && let Some(Some(payload)) = inner.payloads.get_mut(key.index())
                    && (!payload.sent || payload.is_kept_for_later(revision) || inner.remote.is_some())
                {
                    payload.frame = Some(line.keep());
                }
            }
            Err(Refusal::Full) => {
                if let Some(connection) = inner.connections.get_mut(&connection) {
                    connection.front.unread();
                }
                return Flow::Wait;
            }
            Err(Refusal::Unavailable(_)) if inner.refused_without(request) => self.drive(inner, None),
            Err(Refusal::Unavailable(why)) => {
                let explained = inner.explain(|around| explain::unavailable(why, around));
                inner.reply_error(connection, Some(parts.id.of(frame)), explain::CODE, &explained);
                self.drive(inner, None);
            }
        }
        Flow::Next
    }
}

impl Inner {
    fn is_quiet(&self) -> bool {
        self.server.lifecycle().in_flight() == 0
    }

    /// What is handed in next is for the client of that connection.
    pub(super) fn ask_for(&mut self, connection: u64) {
        if let Some(connection) = self.connections.get(&connection) {
            self.server.ask_for(connection.front.era());
        }
    }

    /// Whether a connection may have one more request under way. Of those that come by direct calls some are of one request
    /// each: what is of one principal counts together.
    pub(super) fn has_room_for(&self, connection: u64) -> bool {
        self.server.has_room_for(|| {
            let principal = self.principal_of_guest(connection);
            let theirs =
                |payload: &Payload| payload.last == connection || principal == Some(payload.principal);
            let asked = self.payloads.iter().flatten().filter(|payload| theirs(payload)).count();
            asked + self.waiting_to_hear(connection)
        })
    }

    fn principal_of_guest(&self, connection: u64) -> Option<u64> {
        let guest = self.connections.get(&connection).filter(|one| matches!(one.mouth, Mouth::Sink(_)))?;
        Some(guest.principal)
    }

    /// Whether another connection is of the same client as this one.
    pub(super) fn is_of_client(&self, connection: u64) -> impl Fn(u64) -> bool {
        let wanted = self.principal_of_guest(connection);
        move |other| other == connection || wanted.is_some() && wanted == self.principal_of_guest(other)
    }

    /// Before an answer of a fresh server: that what the one before kept is gone.
    fn tell_of_renewal(&mut self, connection: u64) {
        let Some(connection) = self.connections.get_mut(&connection) else { return };
        if connection.renewals == self.renewals {
            return;
        }
        connection.renewals = self.renewals;
        self.told = self.renewals;
        if connection.front.knows_drowse() {
            let params = Renewed { ended: self.lost == Lost::Ended };
            let line = json!({"jsonrpc": "2.0", "method": RENEWED, "params": params}).to_string();
            connection.mouth.send(About::Nothing, &[line.as_bytes()]);
        }
    }

    pub(super) fn deliver(
        &mut self,
        payload: &Payload,
        method: Method,
        from: Line<'_>,
        message: &envelope::Message,
        revision: Revision,
    ) {
        let line = from.bytes();
        self.tell_of_renewal(payload.connection);
        if method == Method::ServerPing {
            // Whatever it said: it answered.
            return self.reply(payload.connection, &payload.id, &[b"{}"]);
        }
        if method == Method::ToolsList
            && let envelope::Message::Response { result, .. } = *message
        {
            self.learn_from_answer(line, result);
            if !(self.remote.is_some() && revision.era() == Era::Modern) {
                self.marked.remember(line, result);
            }
        }
        if let Some(key) = &payload.cached_as {
            self.cache.keep(self.server.now(), method, key, line, message);
        }
        let with_ours = self.with_dev_tools(method, line, message);
        let reread = with_ours.as_deref().and_then(|line| Some((line, envelope::read(line).ok()?)));
        let (from, message) =
            reread.as_ref().map_or((from, message), |(line, message)| (Line::from(*line), message));
        let line = from.bytes();
        let limit = self.config.limit;
        let Some(connection) = self.connections.get_mut(&payload.connection) else { return };
        let id = Span::new(0, payload.id.len());
        let verbatim = connection.front.is_verbatim();
        let asked = Asked {
            method,
            client: payload.era(),
            verbatim,
            capabilities: payload.capabilities,
            lacks: payload.lacks,
        };
        let answer = Answer::of(line, message, revision.era(), &asked);
        let own_id = payload.id.as_slice();
        match &answer {
            Answer::VisitFirst(visit) => {
                return connection.answer(Some(own_id), &splice::visit_first(own_id, line, visit));
            }
            Answer::Missing(kind) => {
                return connection.answer(Some(own_id), &splice::missing_capability(own_id, *kind));
            }
            Answer::Visits(visit) => {
                visit.ids(line).for_each(|id| self.asks.visits.handle_asked(id, payload.connection));
            }
            Answer::Plain => {}
        }
        let rewritten = match &payload.client {
            Some(_) => splice::answer_legacy(line, message, id, method, revision),
            None => splice::answer(line, message, id, method, revision, verbatim),
        };
        match rewritten {
            Ok(pieces) => {
                let id = Some(payload.id.as_slice());
                with_slices(&pieces, line, &payload.id, |slices| {
                    connection.pass_answer(id, slices, from.whole());
                });
            }
            Err(error) => {
                let explained = explain::refused(error.to_string(), "invalid-answer");
                return self.reply_error(payload.connection, Some(&payload.id), explain::CODE, &explained);
            }
        }
        if connection.mouth.backlog() + connection.gathered() > limit.saturating_mul(2) {
            // It asks for more than it reads.
            connection.mouth.close();
            connection.closed.notify_one();
            self.host.note("closed a caller's connection: it does not read its answers");
        }
    }

    pub(super) fn progress(&mut self, key: Key, line: &[u8], token: Span) {
        if let Some(Some(payload)) = self.payloads.get(key.index())
            && let Some(wanted) = &payload.token
            && let Some(connection) = self.connections.get_mut(&payload.connection)
            && connection.mouth.backlog() < SERVER_BACKLOG
            && let Ok(pieces) = splice::progress(line, token, Span::new(0, wanted.len()))
        {
            let about = About::Request(&payload.id);
            with_slices(&pieces, line, wanted, |slices| connection.mouth.send(about, slices));
        }
    }

    pub(super) fn reply(&mut self, connection: u64, id: &[u8], result: &[&[u8]]) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            let mut parts: Vec<&[u8]> = vec![br#"{"jsonrpc":"2.0","id":"#, id, br#","result":"#];
            parts.extend_from_slice(result);
            parts.push(b"}");
            connection.answer(Some(id), &parts);
        }
    }

    pub(super) fn reply_error(
        &mut self,
        connection: u64,
        id: Option<&[u8]>,
        code: i32,
        explained: &Explained,
    ) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            let guarded;
            let explained = if connection.front.is_outside() {
                guarded = explain::for_outsiders(explained);
                &guarded
            } else {
                explained
            };
            let room = explained.message.len() * 6 + explained.data.len() + id.map_or(0, <[u8]>::len) + 128;
            let mut buffer = vec![0; room];
            let data = Some(explained.data.as_bytes());
            if let Ok(bytes) = message::error(id, code, &explained.message, data, &mut buffer) {
                connection.answer(id, &[bytes]);
            }
        }
    }

    fn reject(&mut self, connection: u64, frame: &[u8], id: Option<Span>, rejection: Rejection) {
        let mut explained = explain::refused(rejection.to_string(), "invalid-request");
        match rejection {
            Rejection::UnsupportedVersion(requested) => {
                let requested: &str = std::str::from_utf8(requested.of(frame)).unwrap_or("null");
                explained.data = format!(r#"{{"supported":["2026-07-28"],"requested":{requested}}}"#);
            }
            Rejection::UndeclaredTasks => {
                explained.data =
                    r#"{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#
                        .to_owned();
            }
            Rejection::UnknownMethod => explained = explain::refused(rejection.to_string(), "unsupported"),
            _ => {}
        }
        self.reply_error(connection, id.map(|id| id.of(frame)), rejection.code(), &explained);
    }
}
