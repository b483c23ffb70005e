//! Calls what the loop has no use for, on bytes that nobody knows: every reader, every name, every error's text.

use core::fmt::{self, Write};
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Waker};

use drowse_core::activity;
use drowse_core::caching::{self, Change};
use drowse_core::crash::CrashLog;
use drowse_core::dev::{self, Built, Dev, Wish};
use drowse_core::envelope;
use drowse_core::era::{Era, Pin, Revision};
use drowse_core::framing::{Frame, LineDecoder};
use drowse_core::http::headers;
use drowse_core::json;
use drowse_core::lifecycle::PublicState;
use drowse_core::link::{Key, Slot};
use drowse_core::logging::{Entry, Level, Wanted};
use drowse_core::message::{Identity, Writer};
use drowse_core::method::Method;
use drowse_core::negotiate::NegotiationError;
use drowse_core::relay::{self, Answered, Relay};
use drowse_core::server::{Action, Config, Operation, Outcome, Server};
use drowse_core::shared::Shared;
use drowse_core::snapshot;
use drowse_core::span::Span;
use drowse_core::splice::{self, Origin, Pieces, RequestParts, Rewrite};
use drowse_core::sse::{Event, EventDecoder};
use drowse_core::time::{Duration, Instant, Timetable};
use drowse_core::trace::{self, Input, Output};
use embassy_sync::blocking_mutex::raw::NoopRawMutex;

use crate::board::{self, MESSAGE};
use crate::remote;

/// What may be used again, and what ends that.
fn kept(bytes: &[u8]) {
    let Ok(message) = envelope::read(bytes) else { return };
    board::checksum(caching::lifetime(bytes, &message).map_or(0, |lifetime| lifetime.as_secs()));
    for method in Method::all() {
        let stale = Change::of(bytes, &message).is_some_and(|change| change.concerns(method));
        board::checksum(u64::from(stale) + u64::from(caching::may_change(method)));
        if let Some(parts) = RequestParts::of(&message)
            && let Some(parameters) = caching::parameters(method, bytes, &parts)
        {
            board::checksum(parameters.map(<[u8]>::len).sum::<usize>() as u64);
        }
    }
}

/// Tries every reader on `bytes`.
pub fn read_all(bytes: &[u8]) {
    documents(bytes);
    kept(bytes);
    strings(bytes);
    mirrored(bytes);
    lines(bytes);
    events(bytes);
    remote::exchanges(bytes);
    times(bytes);
    shared(bytes);
    listeners(bytes);
    traced(bytes);
    for rule in activity::rules() {
        board::checksum(rule.what.len() as u64);
    }
}

fn documents(bytes: &[u8]) {
    match json::scan(bytes) {
        Ok(span) => {
            for member in json::members(bytes, span) {
                let inner = json::elements(bytes, member.value).map(Span::len).sum::<usize>();
                board::checksum((member.key.len() + inner) as u64);
            }
            let found = json::member(bytes, span.shifted(0), "params").map_or(0, Span::end);
            board::checksum(found as u64);
        }
        Err(error) => text(&error),
    }
    match envelope::read(bytes) {
        Ok(message) => {
            if let Some(parts) = RequestParts::of(&message) {
                let (revision, level) = (Revision::LATEST_MODERN, level(bytes, &parts));
                let how = Rewrite { wire: 7, progress: true, revision, level, from: Origin::Verbatim };
                if let Ok(pieces) = splice::request(bytes, &parts, &how) {
                    let written = pieces.write(bytes, bytes, &mut [0; MESSAGE]).map_or(0, <[u8]>::len);
                    board::checksum((written + pieces.len()) as u64);
                }
            }
            board::checksum(u64::from(Pieces::default().is_empty()));
        }
        Err(error) => {
            board::checksum(error.code() as u64);
            text(&error);
        }
    }
    text(&NegotiationError::Refused(json::as_i64(bytes).unwrap_or(-1)));
    text(&NegotiationError::Ended);
    board::checksum(u64::from(envelope::is_id(bytes)));
}

fn level(bytes: &[u8], parts: &RequestParts) -> Option<Level> {
    let wanted = Wanted::of(bytes, parts);
    let params = parts.params.filter(|_| Entry::is_one(bytes, parts.method));
    if let Some(Entry { level, logger, data }) = params.and_then(|params| Entry::read(bytes, params)) {
        let lengths = logger.map_or(0, Span::len) + data.len();
        board::checksum(lengths as u64 + u64::from(wanted.covers(level)));
    }
    wanted.with(core::str::from_utf8(bytes).ok().and_then(Level::from_name))
}

/// The bytes as a list of tools, as a tool, and as the parameters of a call.
fn mirrored(bytes: &[u8]) {
    let span = Span::new(0, bytes.len());
    for tool in headers::tools(bytes, span) {
        board::checksum(tool.span.len() as u64);
        if let Some(fault) = tool.fault {
            text(&fault);
        }
    }
    board::checksum(u64::from(headers::check(bytes, span).is_ok() || headers::is_plain(bytes)));
    let mut out = [0; 64];
    let mut w = Writer::new(&mut out);
    for annotation in headers::annotations(bytes, span) {
        board::checksum((annotation.header().len() + annotation.path().len()) as u64);
        annotation.write_name(bytes, &mut w);
        if let Some(value) = annotation.argument(bytes, bytes, span) {
            board::checksum(value.len() as u64);
        }
    }
    let message = envelope::read(bytes).ok();
    let parts = message.and_then(|message| RequestParts::of(&message));
    let name = parts.and_then(|parts| headers::name(Method::from_json(bytes), bytes, &parts)).unwrap_or(span);
    if let Err(error) = headers::write_value(name.of(bytes), &mut w) {
        text(&error);
    }
    board::checksum(w.finish().map_or(0, |written| written.len() as u64));
}

fn strings(bytes: &[u8]) {
    let mut out = [0; 64];
    if let Some(string) = json::unescape(bytes, &mut out) {
        board::checksum(string.len() as u64);
        board::checksum(Pin::from_name(string).and_then(Pin::era).map_or(0, |era| era.name().len() as u64));
        board::checksum(Revision::from_name(string).map_or(0, |known| known.name().len() as u64));
        board::checksum(Method::from_name(string).name().len() as u64);
        board::checksum(PublicState::from_name(string).map_or(0, |state| state.name().len() as u64));
        let mut again = [0; 32];
        let mut w = Writer::new(&mut again);
        w.string(string);
        w.signed(json::as_i64(bytes).unwrap_or(i64::MIN));
        match w.finish() {
            Ok(written) => board::checksum(written.len() as u64),
            Err(error) => text(&error),
        }
    }
}

/// A decoder whose buffer is smaller than its limit, and is replaced by a bigger one.
fn lines(bytes: &[u8]) {
    let mut store = [0; 3 * MESSAGE];
    let (small, big) = store.split_at_mut(16);
    let mut bigger = Some(big);
    let mut decoder = LineDecoder::new(small, MESSAGE);
    let mut rest = bytes;
    loop {
        if decoder.wants_room().is_some()
            && let Some(buffer) = bigger.take()
        {
            let _ = decoder.replace_buffer(buffer);
        }
        let mut taken = 0;
        for (slot, byte) in decoder.space().iter_mut().zip(rest) {
            *slot = *byte;
            taken += 1;
        }
        decoder.filled(taken);
        rest = rest.get(taken..).unwrap_or_default();
        while let Some(found) = decoder.poll_found() {
            frame_seen(decoder.frame(found));
        }
        if taken == 0 {
            break;
        }
    }
    board::checksum((decoder.pending() + decoder.buffer_len()) as u64);
    if let Some(frame) = decoder.finish() {
        frame_seen(frame);
    }
}

fn frame_seen(frame: Frame<'_>) {
    board::checksum(match frame {
        Frame::Line(line) => line.len() as u64,
        Frame::Oversize(line) => line.length + line.id.map_or(0, <[u8]>::len) as u64,
    });
}

/// The same with server-sent events; the bytes come over two connections.
fn events(bytes: &[u8]) {
    let mut store = [0; 3 * MESSAGE];
    let (small, big) = store.split_at_mut(16);
    let mut bigger = Some(big);
    let mut decoder = EventDecoder::new(small, MESSAGE);
    for _ in 0..2 {
        let mut rest = bytes;
        loop {
            if decoder.wants_room().is_some()
                && let Some(buffer) = bigger.take()
            {
                let _ = decoder.replace_buffer(buffer);
            }
            let mut taken = 0;
            for (slot, byte) in decoder.space().iter_mut().zip(rest) {
                *slot = *byte;
                taken += 1;
            }
            decoder.filled(taken);
            rest = rest.get(taken..).unwrap_or_default();
            while let Some(event) = decoder.poll_event() {
                board::checksum(match event {
                    Event::Message { name, data } => (name.len() + data.len()) as u64,
                    Event::Primed => 1,
                    Event::Oversize(event) => event.length + event.id.map_or(0, <[u8]>::len) as u64,
                });
            }
            if taken == 0 {
                break;
            }
        }
        board::checksum((decoder.pending() + decoder.buffer_len()) as u64);
        board::checksum(decoder.last_event_id().map_or(0, <[u8]>::len) as u64);
        board::checksum(decoder.retry().map_or(0, |retry| retry.as_secs()));
        board::checksum(u64::from(decoder.last_event_id_is_too_long() || decoder.is_amid_event()));
        decoder.restart();
    }
}

/// A machine that tasks share; the bytes come as a line of its server.
fn shared(bytes: &[u8]) {
    let server = Server::new(Config::default(), [Slot::EMPTY; 2], 0, CrashLog::new());
    let shared: Shared<NoopRawMutex, _> = Shared::new(server);
    let at = Instant::from_micros(board::now());
    let operation = Operation { method: Method::Other, allowance: None };
    board::checksum(u64::from(shared.submit(at, operation).is_ok()));
    while let Some(action) = shared.poll_action() {
        let _ = shared.with(|server| match action {
            Action::Persist(_) => server.handle_persisted(at),
            Action::Spawn { .. } => server.handle_spawned(at),
            _ => {
                board::checksum(u64::from(matches!(server.handle_frame(at, bytes), Outcome::Ignored(_))));
            }
        });
    }
    board::checksum(shared.look(|server| server.state() as u64).unwrap_or_default());
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..2 {
        board::checksum(u64::from(pin!(shared.changed()).poll(&mut context).is_ready()));
    }
}

/// A server that is being written, and the queue of its builds and restarts.
fn in_the_making(server: Server<[Slot; 2], [relay::Slot; 8]>, bytes: &[u8]) {
    let mut server = server.in_the_making(Duration::from_secs(bytes.len() as u64));
    let mut dev = Dev::new(dev::Config { builds: true, ..dev::Config::default() });
    let mut at = Instant::from_micros(board::now());
    for byte in bytes.iter().take(64) {
        let wish = Wish { rebuild: byte & 1 == 1, env: byte & 2 == 2 };
        match byte >> 2 & 7 {
            0 => board::checksum(dev.submit(at, wish).map_or(0, dev::Job::number)),
            1 => board::checksum(u64::from(dev.cancel(u64::from(*byte)))),
            2 => dev.handle_changed(at),
            3 => dev.handle_built(at, if wish.env { Built::Changed } else { Built::Unchanged }),
            4 => dev.close(),
            5 => {
                server.set_holds(wish.env);
                server.stand_by();
                server.set_listens(at, wish.rebuild);
            }
            6 => server.expect_news(),
            _ => at = at.after(Duration::from_secs(u64::from(*byte))),
        }
        dev.handle_server(at, server.view());
        dev.handle_timeout(at);
        while let Some(action) = dev.poll_action() {
            match action {
                dev::Action::Restart { .. } => server.restart(at),
                dev::Action::Forgive => server.forgive(),
                dev::Action::Compare => dev.handle_compared(at, wish.env),
                other => board::checksum(u64::from(matches!(other, dev::Action::Done { .. }))),
            }
        }
        let operation = Operation { method: Method::ToolsCall, allowance: None };
        board::checksum(u64::from(server.has_room_for(|| bytes.len())));
        server.ask_for(if wish.env { Era::Legacy } else { Era::Modern });
        if let Ok(key) = server.submit(at, operation) {
            server.mark_repeatable(key);
            server.cancel(at, key);
        }
        while server.poll_action().is_some() {}
        board::checksum(dev.poll_timeout().map_or(0, Instant::as_micros) + dev.waiting() as u64);
        board::checksum(u64::from(
            dev.is_active() || dev.is_stalled() || dev.is_building() || dev.is_restarting(),
        ));
    }
    let whole = Span::new(0, bytes.len());
    board::checksum(dev::names::ours_in(bytes, whole).count() as u64);
    board::checksum(u64::from(dev::names::may_be_repeated(bytes, whole)));
    board::checksum(u64::from(dev::names::DevTool::of_call(bytes).is_some()));
}

/// Clients that listen: to a machine, and to a relay alone that hears everything at once.
fn listeners(bytes: &[u8]) {
    let slots = [relay::Slot::EMPTY; 8];
    let mut server = Server::listening(Config::default(), [Slot::EMPTY; 2], slots, 0, CrashLog::new());
    let at = Instant::from_micros(board::now());
    let whole = Span::new(0, bytes.len());
    let filter = relay::Filter::read(bytes, Some(whole));
    let lists = filter.map_or(relay::Lists::ALL, |filter| filter.lists);
    let names = filter.map_or(0, |filter| filter.uris(bytes).count());
    server.relay_mut().set_limit(bytes.len());
    if let Ok(listener) = server.attach(lists) {
        if let Ok(uri) = server.want(listener, None) {
            board::checksum(u64::from(server.handle_updated(None, uri)));
            board::checksum(u64::from(server.want_task(listener, Some(uri)).is_ok()));
            server.handle_honoured(names as u64, uri);
        }
        board::checksum(u64::from(server.listen(at, listener, names > 0).is_ok()));
        server.handle_acknowledged(at, names as u64);
        server.set_hears(listener, names > 1);
        while server.poll_action().is_some() {}
        server.unlisten(at, listener);
    }
    in_the_making(server.clone(), bytes);
    board::checksum(server.relay().used() as u64 + u64::from(server.awaits(1)));
    board::checksum(u64::from(server.negotiated().is_some()));

    let mut relay = Relay::new(slots, Duration::from_secs(1), Duration::from_millis(names as u64));
    relay.handle_offers(relay::Offers::read(bytes, whole));
    relay.set_patience(Duration::from_secs(names as u64));
    relay.announce();
    relay.expect_news();
    relay.set_limit(names);
    board::checksum(relay.grow(slots).len() as u64 + relay.free() as u64);
    board::checksum(u64::from(relay.admit(names, || bytes.len()).is_ok()));
    for era in [Era::Legacy, Era::Modern] {
        let Ok(listener) = relay.attach(lists) else { return };
        relay.weigh(listener, names as u16);
        board::checksum(relay.weight_of(listener) as u64);
        let uri = relay.want(listener, None);
        let key = Key::from_wire(names as u64);
        relay.begin(listener, key);
        board::checksum(u64::from(relay.key_of(listener).is_some()));
        if let Some(key) = key
            && !relay.handle_turn(key)
        {
            board::checksum(u64::from(relay.handle_failure(key).is_some()));
        }
        relay.handle_ready(era);
        relay.want_lists(names > 2);
        let mut wire = 0;
        for round in 0..4 {
            while let Some(step) = relay.poll(at, true, || {
                wire += 1;
                wire
            }) {
                board::checksum(u64::from(matches!(step, relay::Step::Listen { .. })));
                board::checksum((relay.asked().count() + relay.heard_by(listener).count()) as u64);
            }
            if let Ok(uri) = uri {
                relay.handle_honoured(wire, uri);
                board::checksum(u64::from(relay.handle_updated(Some(wire), uri) && relay.is_wanted(uri)));
                board::checksum(u64::from(relay.want_task(listener, Some(uri)).is_ok()));
            }
            relay.handle_acknowledged(at, wire);
            relay.handle_list_changed(relay::wire::subscription(bytes, Some(whole)), relay::List::Tools);
            let code = relay::wire::cancelled(bytes, Some(whole)).map(|code| code as i64);
            match round {
                0 => board::checksum(u64::from(relay.handle_answer(at, wire, code) == Answered::Taken)),
                1 => relay.handle_broken(at, wire),
                2 => board::checksum(u64::from(relay.handle_ended(at, wire) || relay.awaits(wire))),
                _ => relay.handle_timeout(at.after(Duration::from_secs(100))),
            }
        }
        let mut table = Timetable::new();
        relay.timetable(&mut table);
        relay.set_hears(listener, relay.defers());
        relay.handle_leaving();
        board::checksum(relay.poll_cancelled().unwrap_or(0));
        relay.handle_lost();
        relay.close(listener);
        relay.finish();
        board::checksum(u64::from(relay.has_listeners() || !relay.take_regained().is_empty()));
    }
    announced(bytes);
    accounts(bytes);
}

/// What is counted, and what a machine gathers of its server.
fn accounts(bytes: &[u8]) {
    let config = Config { snapshot: Some(snapshot::Limits::default()), ..Config::default() };
    let mut server = Server::new(config, [Slot::EMPTY; 2], 0, CrashLog::new());
    let at = Instant::from_micros(board::now());
    let operation = Operation { method: Method::ToolsList, allowance: None };
    if let Ok(key) = server.submit_own(at, operation) {
        server.cancel(at, key);
    }
    server.answer_again(at);
    server.regather(at.after(Duration::from_micros(bytes.len() as u64)));
    while server.poll_action().is_some() {}
    board::checksum(u64::from(server.gathering().is_wanted()) + server.tally().counts().calls);
    server.tally_mut().take();
}

/// What is said to those who listen, and to the server for them.
fn announced(bytes: &[u8]) {
    let mut buffer = [0; 2 * MESSAGE];
    let lists = relay::Lists::NONE.with(relay::List::Prompts);
    let uri = core::str::from_utf8(bytes).unwrap_or("x");
    let us = Identity { name: "gates", version: "0" };
    for write in 0..7 {
        let mut w = Writer::new(&mut buffer);
        match write {
            0 => relay::wire::subscribe(&mut w, 1, uri, bytes.len() > 9),
            1 => relay::wire::listen(
                &mut w,
                1,
                Revision::LATEST_MODERN,
                us,
                lists,
                [uri].into_iter(),
                [uri].into_iter(),
            ),
            2 => relay::wire::acknowledged(&mut w, bytes, lists, [uri].into_iter(), [uri].into_iter()),
            3 => relay::wire::updated(&mut w, bytes, uri),
            5 => relay::wire::task(&mut w, bytes, bytes, Span::new(0, bytes.len())),
            4 => relay::wire::list_changed(&mut w, bytes, relay::List::Resources),
            _ => relay::wire::ended(&mut w, bytes),
        }
        board::checksum(w.finish().map_or(0, <[u8]>::len) as u64);
    }
    board::checksum(u64::from(relay::List::of_notification(bytes).is_some()));
}

/// A machine that is told what the bytes say, if they are a line of a trace, and then that they are a frame.
fn traced(bytes: &[u8]) {
    let mut server = Server::new(Config::default(), [Slot::EMPTY; 2], 0, CrashLog::new());
    let at = Instant::from_micros(board::now());
    let mut line = [0; MESSAGE + trace::MAX_BESIDE_FRAME];
    for (at, input) in [trace::parse(bytes), Ok((at, Input::Frame(bytes)))].into_iter().flatten() {
        match trace::write(at, &input, &mut line) {
            Ok(written) => board::checksum(written.len() as u64),
            Err(error) => text(&error),
        }
        board::checksum(u64::from(server.replay(at, input) == Output::None));
    }
    if let Err(error) = trace::parse(bytes) {
        text(&error);
    }
    let method = json::member(bytes, Span::new(0, bytes.len()), "method")
        .map_or(Method::Other, |method| Method::from_json(method.of(bytes)));
    let rule = activity::rule(method, activity::Asker::Gateway, bytes.len() > 100);
    text(&rule.starts);
    text(&rule.counts);
    text(&activity::Markdown);
    text(&activity::Text);
}

fn times(bytes: &[u8]) {
    let at = Instant::from_millis(json::as_u64(bytes).unwrap_or(u64::MAX));
    let later = at.after(Duration::from_secs(at.as_millis()));
    board::checksum(later.since(at).as_secs());
}

/// Formats an error's text, which must not need a panic either.
pub fn text(error: &impl fmt::Display) {
    if crate::LEAN {
        return;
    }
    struct Sum(u64);
    impl Write for Sum {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            self.0 += part.len() as u64;
            Ok(())
        }
    }
    let mut sum = Sum(0);
    let _ = write!(sum, "{error}");
    board::checksum(sum.0);
}
