//! The hub's side towards the server: its streams, its end, and the requests that are written to it.

use std::pin::pin;

use drowse_core::envelope::Message;
use drowse_core::front::round::Sort;

use super::*;

impl Hub {
    /// Waits for the end of a tree that is being ended.
    pub(super) fn await_end(&self, inner: &mut Inner) {
        let Some(running) = inner.running.as_mut().filter(|running| !running.awaited) else { return };
        running.awaited = true;
        let (hub, control, generation) = (self.clone(), Rc::clone(&running.control), running.generation);
        let reported = Rc::clone(&running.reported);
        spawn_local(async move {
            control.gone().await;
            // How the server itself ended, and what it wrote before, is heard first: it decides what the end was.
            reported.notified().await;
            hub.with(|hub, inner, now| {
                if inner.running.as_ref().is_some_and(|running| running.generation == generation) {
                    inner.running = None;
                    inner.server.handle_tree_gone(now);
                    let waiting = inner.payloads.iter().flatten().filter(|payload| !payload.sent).count();
                    if waiting > 0 && inner.server.state() == PublicState::Connecting {
                        let requests = if waiting == 1 { "request" } else { "requests" };
                        inner.host.note(&format!(
                            "started again: {waiting} {requests} came while the server was being ended"
                        ));
                    }
                    hub.drive(inner, None);
                }
            });
        });
    }

    /// Reads the server's output and errors until their end, and notices the end of its process.
    pub(super) async fn read_server(
        &self,
        generation: u64,
        mut output: Box<dyn AsyncRead + Unpin>,
        errors: Option<Box<dyn AsyncRead + Unpin>>,
        control: Rc<dyn Control>,
        broken: Rc<Notify>,
        reported: Rc<Notify>,
    ) {
        let mut intake = Intake::new(self.0.limit);
        let mut errors = Errors { reader: errors, buffer: [0; 4096] };
        let mut exited = control.exited();
        let mut cut = pin!(broken.notified());
        let mut exit: Option<Exit> = None;
        let mut output_ended = false;
        while exit.is_none() {
            tokio::select! {
                biased;
                ended = &mut exited => exit = Some(ended),
                more = intake.read(&mut output), if !output_ended => {
                    self.server_frames(generation, &mut intake);
                    if !matches!(more, Ok(true)) {
                        output_ended = true;
                        self.last_frame(generation, &mut intake);
                        // Who ends closes both pipes, and its last words explain what is reported now.
                        self.drain_errors(&mut errors).await;
                        self.with_generation(generation, |inner, now| inner.server.handle_lost(now));
                    }
                }
                bytes = errors.read() => self.with(|_, inner, _| inner.take_errors(bytes)),
                // Biased: by now its output has nothing more to read.
                () = &mut cut => {
                    cut.set(broken.notified());
                    self.with_generation(generation, |inner, now| inner.server.handle_lost(now));
                }
            }
        }
        // It wrote all this before it ended, so it is in the pipes; what comes later is of somebody else who holds them.
        // Where it ended before this task first ran, the runtime has not looked at the pipes yet.
        tokio::task::yield_now().await;
        for _ in 0..DRAIN {
            if output_ended || !matches!(at_once(intake.read(&mut output)).await, Some(Ok(true))) {
                break;
            }
            self.server_frames(generation, &mut intake);
        }
        if !output_ended {
            self.last_frame(generation, &mut intake);
        }
        self.drain_errors(&mut errors).await;
        if let Some(exit) = exit {
            self.with(|_, inner, _| {
                let state = inner.server.state();
                let by_itself =
                    state.is_awake() || (inner.server.is_stopping() && state == PublicState::Crashed);
                if by_itself {
                    let text = how_it_ended(exit);
                    inner.host.note(&text);
                    inner.failure = Some(text);
                }
            });
            self.with_generation(generation, |inner, now| inner.server.handle_exited(now, exit));
        }
        reported.notify_one();
        // The rest of the tree may still have something to say, until it is gone.
        let mut gone = control.gone();
        loop {
            tokio::select! {
                biased;
                () = &mut gone => return,
                bytes = errors.read() => self.with(|_, inner, _| inner.take_errors(bytes)),
            }
        }
    }

    /// Takes what stands in the pipe of the server's errors by now.
    async fn drain_errors(&self, errors: &mut Errors) {
        for _ in 0..DRAIN {
            match at_once(errors.read()).await {
                Some(bytes) => self.with(|_, inner, _| inner.take_errors(bytes)),
                None => break,
            }
        }
    }

    fn server_frames(&self, generation: u64, intake: &mut Intake) {
        let mut several = false;
        while let Some((frame, more)) = intake.poll() {
            if more && !several {
                several = true;
                self.begin_burst();
            }
            self.server_frame(generation, &frame);
        }
        if several {
            self.end_burst();
        }
    }

    fn last_frame(&self, generation: u64, intake: &mut Intake) {
        if let Some(frame) = intake.decoder.finish() {
            self.server_frame(generation, &frame.into());
        }
    }

    pub(super) async fn flush_server(self, generation: u64, wake: Rc<Notify>, broken: Rc<Notify>) {
        loop {
            wake.notified().await;
            self.flush(|inner| {
                inner
                    .running
                    .as_mut()
                    .filter(|running| running.generation == generation)
                    .and_then(|running| running.input.as_mut())
            })
            .await;
            self.with(|_, inner, _| {
                let input = inner.running.as_ref().and_then(|running| running.input.as_ref());
                if input.is_some_and(Outlet::is_broken) {
                    // What it wrote before it closed its input is read first.
                    broken.notify_one();
                }
            });
        }
    }

    pub(super) fn with_generation(&self, generation: u64, act: impl FnOnce(&mut Inner, Instant)) {
        self.with(|hub, inner, now| {
            if inner.running.as_ref().is_some_and(|running| running.generation == generation) {
                act(inner, now);
                hub.drive(inner, None);
            }
        });
    }

    fn server_frame(&self, generation: u64, frame: &Heard<'_>) {
        self.with_generation(generation, |inner, now| {
            inner.rest.handle_active(now);
            match frame {
                Heard::Line(line) => self.server_line(inner, now, Line::from(*line), None, true),
                Heard::Long(line) => self.server_line(inner, now, Line::from(line), None, true),
                Heard::Oversize(oversize) => {
                    inner.host.note(&format!(
                        "the server wrote a line of {} bytes, which is over the limit; it was dropped",
                        oversize.length
                    ));
                    inner.server.handle_oversize(now, oversize.id, oversize.is_response);
                }
            }
        });
    }

    /// Answers a request of the server.
    pub(super) fn answer_server(&self, inner: &mut Inner, bytes: &[u8]) {
        if inner.remote.is_some() {
            self.post_answer(inner, bytes);
        } else {
            inner.write(&[bytes], None);
        }
    }

    pub(super) fn send_request(
        &self,
        inner: &mut Inner,
        key: Key,
        wire: u64,
        revision: Revision,
        current: Option<(Key, Line<'_>)>,
    ) {
        let Some(Some(payload)) = inner.payloads.get_mut(key.index()) else { return };
        payload.wire = Some(wire);
        payload.detail = None;
        payload.fault = None;
        let kept = payload.frame.take();
        let line = match (&kept, current) {
            (Some(kept), _) => Line::from(kept),
            (None, Some((of, line))) if of == key => line,
            (None, _) => return,
        };
        let frame = line.bytes();
        let (parts, progress) = (payload.parts, payload.method.wants_progress() || payload.token.is_some());
        let method = payload.method;
        let level = payload.wanted.with(inner.base_level);
        let (client, after_visits, connection) =
            (payload.client.clone(), payload.after_visits, payload.connection);
        let reaches = inner.reaches(connection, method, revision);
        let (client, other) = client.as_deref().map(legacy::Client::parts).unzip();
        let other = other.unwrap_or_default();
        let from = match &client {
            _ if !reaches => return self.refuse_request(inner, key, -32601, &legacy::no_such_tasks()),
            None if after_visits && revision.era() == Era::Legacy => Origin::AfterVisits,
            Some(client) => Origin::Legacy(client),
            None if inner.reaches(connection, Method::Tasks, revision) => Origin::Verbatim,
            None => Origin::Modern,
        };
        match splice::request(frame, &parts, &Rewrite { wire, progress, revision, level, from }) {
            Ok(pieces) => {
                if inner.remote.is_some() {
                    let body = with_slices(&pieces, frame, other, |slices| slices.concat());
                    if method == Method::ToolsCall {
                        inner.recall_marked();
                    }
                    let headers = inner.request_headers(frame, &parts, method, revision);
                    payload_sent(inner, key);
                    self.post(
                        inner,
                        Post { body: body.into(), headers, carried: Carried::Request(method), wire },
                    );
                } else {
                    if let Some(input) = inner.running.as_mut().and_then(|running| running.input.as_mut()) {
                        with_slices(&pieces, frame, other, |slices| {
                            input.send(slices, line.whole(), Some(key));
                        });
                    }
                    inner.set_writable();
                }
                if let Some(Some(payload)) = inner.payloads.get_mut(key.index()) {
                    payload.frame = kept;
                }
            }
            Err(error) => {
                let explained = explain::refused(error.to_string(), "invalid-request");
                self.refuse_request(inner, key, -32600, &explained);
            }
        }
    }

    /// Answers a request that cannot be put to the server.
    fn refuse_request(&self, inner: &mut Inner, key: Key, code: i32, explained: &Explained) {
        if let Some(payload) = inner.release(key) {
            inner.reply_error(payload.connection, Some(&payload.id), code, explained);
        }
        let now = inner.server.now();
        inner.server.cancel(now, key);
    }

    pub(super) fn server_line(
        &self,
        inner: &mut Inner,
        now: Instant,
        from: Line<'_>,
        origin: Option<Key>,
        whole: bool,
    ) {
        let line = from.bytes();
        let before = inner.server.state();
        let outcome = inner.server.handle_frame(now, line);
        if !matches!(outcome, Outcome::Deliver { .. }) {
            inner.cache.hear(line);
        }
        if inner.server.state() != before {
            // Whoever hears the answer and looks at the record finds that the server answers.
            self.drive(inner, None);
        }
        match outcome {
            Outcome::Deliver { key, method, message, revision } => {
                inner.tasks_seen(now, key, line, &message);
                inner.level_taken(key, &message);
                inner.asks.handle_call_over(key);
                if inner.keep_answer(now, key, method, line) {
                    inner.release(key);
                } else if let Some(mut payload) = inner.release(key) {
                    let sort = match message {
                        Message::Response { result, .. }
                            if revision.era() == Era::Modern && payload.client.is_some() =>
                        {
                            (Sort::of(line, result), result)
                        }
                        _ => (Sort::Complete, Span::default()),
                    };
                    if let (Sort::InputRequired, result) = sort {
                        self.begin_round(inner, now, *payload, line, result);
                    } else if let (Sort::Unknown, _) = sort {
                        let explained = legacy::no_such_result();
                        inner.reply_error(payload.connection, Some(&payload.id), explain::CODE, &explained);
                    } else if inner.remote.is_some() {
                        self.deliver_remote(inner, *payload, from, &message, revision);
                    } else {
                        // It may be as long as the answer, which takes room of its own.
                        payload.frame = None;
                        inner.deliver(&payload, method, from, &message, revision);
                    }
                }
                self.0.room.notify_waiters();
            }
            Outcome::Progress { key, token } => inner.progress(key, line, token),
            Outcome::Handshake(span) => {
                inner.handshake = Some(inner.shown(span.of(line)));
                inner.gathered.handle_handshake(line, span);
            }
            // A server that asks and does not read is not answered for ever.
            Outcome::Pong { .. } | Outcome::Asked(_) if inner.takes_no_answers() => {}
            Outcome::Pong { id } => {
                let mut buffer = vec![0; id.len() + 64];
                if let Ok(bytes) = message::empty_result(id.of(line), &mut buffer) {
                    self.answer_server(inner, bytes);
                }
            }
            Outcome::Asked(parts) => self.server_asks(inner, now, line, parts, origin),
            Outcome::Batch(items) if whole => {
                for item in envelope::batch(line, items) {
                    self.server_line(inner, now, from.part(item.of(line)), origin, false);
                    self.drive(inner, None);
                }
            }
            Outcome::Batch(_) => inner.host.note("ignored a batch within a batch"),
            Outcome::Ignored(Ignored::Malformed(error)) => {
                inner.note_fault(&error, line);
                let start = String::from_utf8_lossy(line.get(..120).unwrap_or(line)).into_owned();
                inner
                    .host
                    .note(&format!("ignored a line of the server that is no message ({error}): {start}"));
            }
            Outcome::Ignored(Ignored::Unasked) => {
                inner.host.note("ignored an answer that nobody waits for");
            }
            Outcome::Listed(page) => {
                inner.learn_tools(line, &page);
                inner.listed(line, page);
            }
            Outcome::Updated { uri, wire } => inner.updated(line, uri, wire),
            Outcome::Acknowledged { wire, filter } => inner.acknowledged(now, line, wire, &filter),
            Outcome::Unheard { uri, error } => inner.unheard(line, uri, error),
            Outcome::Notification { method } => inner.notified(now, line, method, origin),
            Outcome::Ignored(_) => {}
        }
    }
}

impl Inner {
    /// Tells the machine which requests the kernel has taken; those need no copy any more.
    pub(super) fn note_sent(&mut self) {
        let revision = self.server.revision();
        while let Some(key) =
            self.running.as_mut().and_then(|running| running.input.as_mut()).and_then(Outlet::poll_sent)
        {
            self.server.handle_sent(key);
            if self.server.is_live(key)
                && let Some(Some(payload)) = self.payloads.get_mut(key.index())
            {
                payload.sent = true;
                if !payload.is_kept_for_later(revision) {
                    payload.frame = None;
                }
            }
        }
    }

    pub(super) fn take_errors(&mut self, bytes: &[u8]) {
        self.host.server_errors(bytes);
        self.stderr.extend_from_slice(bytes);
        let over = self.stderr.len().saturating_sub(STDERR_TAIL);
        self.stderr.drain(..over);
    }

    pub(super) fn write(&mut self, parts: &[&[u8]], key: Option<Key>) {
        if let Some(input) = self.running.as_mut().and_then(|running| running.input.as_mut()) {
            input.send(parts, None, key);
        }
        self.set_writable();
    }

    pub(super) fn input_backlog(&self) -> usize {
        let input = self.running.as_ref().and_then(|running| running.input.as_ref());
        input.map_or(0, Outlet::backlog)
    }

    /// The server does not take what it was answered before.
    pub(super) fn takes_no_answers(&self) -> bool {
        self.input_backlog() > SERVER_BACKLOG || self.remote.as_ref().is_some_and(Remote::takes_no_messages)
    }

    pub(super) fn set_writable(&mut self) {
        self.server.set_writable(self.input_backlog() <= SERVER_BACKLOG);
    }
}

impl Inner {
    /// The answer to a request is no message: whoever waits for it is told what is wrong with it.
    fn note_fault(&mut self, error: &envelope::EnvelopeError, line: &[u8]) {
        let id = error.id.filter(|_| error.is_response);
        let Some(wire) = id.and_then(|id| drowse_core::json::as_u64(id.of(line))) else { return };
        let mut payloads = self.payloads.iter_mut().flatten();
        if let Some(payload) = payloads.find(|payload| payload.wire == Some(wire)) {
            payload.fault = Some(error.to_string());
        }
    }
}

/// What is handed to the network may run from now on.
fn payload_sent(inner: &mut Inner, key: Key) {
    inner.server.handle_sent(key);
    if let Some(Some(payload)) = inner.payloads.get_mut(key.index()) {
        payload.sent = true;
    }
}

/// That a server ended by itself, for people.
pub(super) fn how_it_ended(exit: Exit) -> String {
    match exit {
        Exit::Status(status) => format!("the server ended by itself (exit status {status})"),
        Exit::Signal(signal) => format!("the server ended by itself (signal {signal})"),
    }
}

/// A server's standard error.
struct Errors {
    reader: Option<Box<dyn AsyncRead + Unpin>>,
    buffer: [u8; 4096],
}

impl Errors {
    /// What comes next; never ready once the stream is over.
    async fn read(&mut self) -> &[u8] {
        if let Some(reader) = &mut self.reader {
            if let Ok(n @ 1..) = reader.read(&mut self.buffer).await {
                return self.buffer.get(..n).unwrap_or_default();
            }
            self.reader = None;
        }
        std::future::pending().await
    }
}

/// What a future gives without waiting.
async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    // The runtime's own limit on how much is done in one go must not look like an empty pipe.
    let mut future = std::pin::pin!(tokio::task::unconstrained(future));
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
