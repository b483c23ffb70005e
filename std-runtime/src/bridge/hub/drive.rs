//! The hub's heart: what the machine says is done, until it says no more.

use super::*;

impl Hub {
    /// Does what the machine says, until it says no more.
    pub(super) fn drive(&self, inner: &mut Inner, current: Option<(Key, Line<'_>)>) {
        // The clock was read by whoever drives.
        let mut now = self.0.moment.get();
        let under_way = inner.server.lifecycle().in_flight();
        loop {
            inner.note_sent();
            let Some(action) = inner.server.poll_action() else {
                if inner.server.negotiated().is_none() {
                    inner.questions.handle_lost();
                    inner.tasks.handle_lost();
                }
                inner.drive_tasks(now);
                self.tell_of_snapshot(inner, now);
                if self.drive_questions(inner, now)
                    | self.drive_asks(inner, now)
                    | self.settle_questions(inner, now)
                    | self.drive_dev(inner, now)
                {
                    now = self.now();
                    continue;
                }
                // Some of it may have ended without an answer, as what only waits to hear does.
                if inner.server.lifecycle().in_flight() < under_way {
                    self.0.room.notify_waiters();
                }
                break;
            };
            let is_quick = matches!(action, Action::Send { .. });
            match action {
                Action::Persist(record) => self.persist(inner, now, record),
                Action::Spawn { generation } => self.spawn(inner, now, generation),
                Action::SendOwn(own) => {
                    let mut buffer = [0; message::OWN_MAX];
                    if let Ok(bytes) =
                        message::own_with(own, IDENTITY, inner.questions.capabilities, &mut buffer)
                    {
                        let because = inner.cancelled_because(own);
                        let bytes = because.as_deref().unwrap_or(bytes);
                        if inner.remote.is_some() {
                            self.post_own(inner, own, bytes);
                        } else {
                            inner.write(&[bytes], None);
                        }
                    }
                }
                Action::Send { key, wire, revision, .. } => {
                    self.send_request(inner, key, wire, revision, current);
                }
                Action::Renewed(lost) => {
                    inner.renewals += 1;
                    inner.lost = lost;
                    inner.host.note(match lost {
                        Lost::Expired => "the server had ended the session; a fresh one was begun",
                        Lost::Ended => "the server had ended by itself; a fresh one was started",
                    });
                }
                Action::Listen => self.open_stream(inner, Carried::Listening),
                Action::OpenOldStream => self.open_stream(inner, Carried::OldStream),
                Action::Relay(step) => self.relay(inner, step),
                Action::Snapshot(step) => self.snapshot(inner, step),
                Action::AnswerInfo { key } => self.answer_info(inner, key),
                Action::AnswerLevel { key } => {
                    inner.answer_level(key);
                    self.0.room.notify_waiters();
                }
                Action::Fail { key, failure } => {
                    inner.asks.handle_call_over(key);
                    let payload = inner.release(key);
                    if let Some(payload) = &payload {
                        inner.keep_failure(now, key, payload, failure);
                    }
                    let detail = payload.as_ref().and_then(|payload| payload.detail.as_deref());
                    let fault = payload.as_ref().and_then(|payload| payload.fault.as_deref());
                    let explained = inner.explain(|around| {
                        explain::failure(failure, &Circumstances { detail, fault, ..*around })
                    });
                    let frame = current.and_then(|(of, line)| (of == key).then_some(line.bytes()));
                    let payload = payload.and_then(|payload| inner.answer_without(*payload, failure, frame));
                    if let Some(payload) = payload {
                        if let (Some(remote), Some(wire)) = (&mut inner.remote, payload.wire) {
                            remote.abandon(wire);
                        }
                        if payload.connection == OURS {
                            self.tools_listed(inner);
                        }
                        let cancelled = failure.cause == Cause::Cancelled;
                        let connection = inner.connections.get_mut(&payload.connection);
                        match connection.filter(|one| cancelled && !one.front.answers_cancelled()) {
                            Some(connection) => connection.leave_unanswered(&payload.id),
                            None => {
                                let id = Some(payload.id.as_slice());
                                inner.reply_error(payload.connection, id, explain::CODE, &explained);
                            }
                        }
                    }
                    // It may have been the last thing that was under way.
                    self.remote_ended(inner);
                    self.0.room.notify_waiters();
                }
                Action::CloseInput if inner.remote.is_some() => self.say_goodbye(inner),
                Action::Terminate | Action::Kill if inner.remote.is_some() => {
                    if let Some(remote) = &mut inner.remote {
                        remote.abort();
                        if let (Some(keeper), true) = (&remote.keeper, matches!(action, Action::Kill)) {
                            keeper.kill();
                        }
                    }
                    self.remote_ended(inner);
                }
                Action::CloseInput => {
                    if let Some(running) = &mut inner.running {
                        if let Some(input) = &mut running.input {
                            // What it was told just now, it is to read before that.
                            input.handle_burst_over();
                        }
                        running.input = None;
                        fault::point("D1-input");
                    }
                }
                Action::Terminate => {
                    if let Some(running) = &inner.running {
                        running.control.terminate();
                    }
                }
                Action::Kill => match &inner.running {
                    Some(running) => running.control.kill(),
                    None => inner.server.handle_tree_gone(now),
                },
                Action::Retire => self.retire(inner),
            }
            if !is_quick {
                now = self.now();
            }
        }
        if inner.server.is_stopping() {
            self.await_end(inner);
        }
        // Of the frames of a burst the last one says how long the timer has.
        if self.0.burst.lasts() {
            self.0.unarmed.set(true);
        } else {
            self.arm(inner);
        }
    }

    fn persist(&self, inner: &mut Inner, now: Instant, record: Record) {
        inner.explain_crash();
        if record.state == PublicState::Connecting && !record.ended {
            inner.stderr.clear();
            inner.spawn_failure = None;
            inner.network = None;
            inner.failure = None;
        }
        if let Some(error) = inner.server.start_error() {
            let secs = inner.config.server.limits.connect.as_secs();
            inner.failure = Some(inner.explain_start(error, secs));
        }
        if let Some(revision) = inner.server.revision() {
            inner.revision = Some(revision);
        }
        if record.state == PublicState::Live {
            // What went wrong on the way there no longer matters.
            inner.network = None;
        }
        if record.state == PublicState::Unauthorized && inner.failure.is_none() {
            inner.failure = Some(explain::unauthorized(inner.network.as_deref()));
        }
        let unwell = matches!(record.state, PublicState::Crashed | PublicState::Unauthorized);
        let crashes = inner.server.lifecycle().crashes();
        let facts = Facts {
            record,
            now: now.as_millis(),
            server_pid: inner.server_pid(),
            // An era that did not hold is not remembered.
            revision: inner.revision.filter(|revision| inner.server.remembered() == Some(revision.era())),
            crashes: crashes.times().iter().map(|at| at.as_millis()).collect(),
            retry_at: crashes.retry_at().map(Instant::as_millis),
            message: inner.failure.clone().filter(|_| unwell),
            stderr: inner.stderr_tail().filter(|_| unwell),
            lost: inner.server.lifecycle().lost() == Some(Lost::Ended),
        };
        let persisted = inner.host.persist(&facts);
        inner.rest.handle_active(now);
        inner.note_dev(now, record.state);
        inner.chronicle(now, record);
        match persisted {
            Ok(()) => {
                inner.server.handle_persisted(now);
                if record.state == PublicState::Idle && !record.ended {
                    // D1. A kill from here on leaves a session that sleeps.
                    inner.save_before_sleep();
                }
            }
            Err(error) => {
                inner.host.note(&format!("the state could not be written: {error}"));
                inner.server.handle_persist_failed(now);
            }
        }
        if record.state == PublicState::Live && !inner.started {
            inner.started = true;
            inner.host.started(Ok(()));
        }
    }

    fn spawn(&self, inner: &mut Inner, now: Instant, generation: u64) {
        inner.questions.handle_started(generation);
        inner.cache.clear();
        inner.gathered.handle_started();
        match inner.host.spawn(generation) {
            Ok(Backend::Remote(client)) => {
                inner.remote = Some(Remote::new(client, generation));
                inner.server.handle_spawned(now);
            }
            Ok(Backend::Served(Process { input, output, errors, control }, client)) => {
                let mut remote = Remote::new(client, generation);
                remote.keeper = Some(Rc::clone(&control));
                remote.input = Some(input);
                inner.remote = Some(remote);
                self.watch_keeper(generation, output, errors, control);
                inner.server.handle_spawned(now);
            }
            Ok(Backend::Process(Process { input, output, errors, control })) => {
                let outlet = Outlet::new(input).in_bursts(&self.0.burst, SERVER);
                let (broken, reported) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
                let flusher =
                    Task::spawn(self.clone().flush_server(generation, outlet.wake(), Rc::clone(&broken)));
                inner.running = Some(Running {
                    generation,
                    input: Some(outlet),
                    control: Rc::clone(&control),
                    awaited: false,
                    reported: Rc::clone(&reported),
                    _flusher: flusher,
                });
                inner.server.handle_spawned(now);
                let hub = self.clone();
                spawn_local(async move {
                    hub.read_server(generation, output, errors, control, broken, reported).await;
                });
            }
            Err(text) => {
                inner.host.note(&text);
                inner.spawn_failure = Some(text);
                inner.server.handle_spawn_failed(now);
            }
        }
    }

    fn answer_info(&self, inner: &mut Inner, key: Key) {
        if let (Some(payload), Some(revision)) = (inner.release(key), inner.server.revision()) {
            let head = format!(
                r#"{{"era":"{}","protocolVersion":"{}","handshake":"#,
                revision.era().name(),
                revision.name()
            );
            let handshake = inner.handshake.clone().unwrap_or_else(|| b"null".to_vec());
            inner.reply(payload.connection, &payload.id, &[head.as_bytes(), &handshake, b"}"]);
        }
        self.0.room.notify_waiters();
    }

    pub(super) fn retire(&self, inner: &mut Inner) {
        inner.retired = true;
        inner.end_chronicle();
        self.tell_of_snapshot(inner, self.now());
        for (connection, id) in std::mem::take(&mut inner.closers) {
            inner.reply(connection, &id, &[b"{}"]);
        }
        for connection in inner.connections.values_mut() {
            if connection.front.knows_drowse() {
                let goaway = format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/drowse/goaway","params":{{"last":{}}}}}"#,
                    connection.front.read_count()
                );
                connection.mouth.send(About::Nothing, &[goaway.as_bytes()]);
            }
            // What comes now never ran, and its sender is told by the goodbye, or by the missing hello.
            connection.front.close();
            connection.mouth.close();
            connection.closed.notify_one();
        }
        if !inner.started {
            inner.started = true;
            let kind = match inner.server.start_error() {
                // The server was too slow, not unwilling.
                Some(StartError::Negotiation(NegotiationError::TimedOut)) => Kind::Timeout,
                Some(StartError::NotPersisted) => Kind::Storage,
                Some(StartError::Negotiation(NegotiationError::Unreachable | NegotiationError::Broken)) => {
                    Kind::Network
                }
                Some(StartError::Negotiation(NegotiationError::Http(_))) => Kind::Http,
                None if inner.server.state() == PublicState::Unauthorized => Kind::Unauthorized,
                _ => Kind::StartFailed,
            };
            let failure = StartFailure {
                kind,
                message: inner
                    .failure
                    .clone()
                    .unwrap_or_else(|| "the session was closed while its server started".to_owned()),
                stderr: inner.stderr_tail(),
            };
            inner.host.started(Err(&failure));
        }
        // The endpoint over HTTP waits for it, too; and whoever waits for room is told.
        self.0.retired.notify_waiters();
        self.0.room.notify_waiters();
    }
}
