//! Calls what looks at requests over HTTP, on bytes that nobody knows.

use core::net::IpAddr;

use drowse_core::activity::Asker;
use drowse_core::envelope;
use drowse_core::era::Era;
use drowse_core::front::Front;
use drowse_core::front::http::answers::Answers;
use drowse_core::front::http::bodies::Bodies;
use drowse_core::front::http::events::{self, EventId, Log};
use drowse_core::front::http::gate::check_token;
use drowse_core::front::http::sessions::{self, Sessions};
use drowse_core::front::http::{
    Gate, Get, Limits, Pace, Post, Refusal, Route, era, media, mirror, pages, requests, status, turns,
};
use drowse_core::http::headers;
use drowse_core::message::Writer;
use drowse_core::time::Instant;

use crate::board::{self, MESSAGE};
use crate::surface::text;

/// The bytes are every value, and the body.
pub fn read(bytes: &[u8]) {
    const NAMES: [&str; 8] = [
        "host",
        "content-type",
        "accept",
        "mcp-protocol-version",
        "mcp-session-id",
        "mcp-method",
        "mcp-name",
        "authorization",
    ];
    let values = NAMES.map(|name| (name, bytes));
    let headers: &[(&str, &[u8])] = &values;
    let json: &[(&str, &[u8])] = &[("content-type", b"application/json"), ("mcp-protocol-version", bytes)];
    let coded: &[(&str, &[u8])] = &[
        ("content-type", b"application/json"),
        ("accept", bytes),
        ("content-encoding", bytes),
        ("transfer-encoding", bytes),
    ];
    let gate = Gate {
        local: IpAddr::from([127, 0, 0, 1]),
        hosts: &["a.example"],
        origins: &["b"],
        token: (board::now() & 1 == 1).then_some(bytes),
    };
    let origin: &[(&str, &[u8])] =
        &[("host", bytes), ("origin", b"b"), ("access-control-request-method", bytes)];
    board::checksum(gate.page(headers).or(gate.page(origin)).map_or(0, |origin| origin.len() as u64));
    let mut out = [0; MESSAGE];
    let mut w = Writer::new(&mut out);
    let asked: &[(&str, &[u8])] = &[("access-control-request-headers", bytes)];
    pages::write_allowed(asked, &mut w);
    board::checksum(w.finish().map_or(0, <[u8]>::len) as u64 + pages::allowed_length(asked) as u64);
    board::checksum(media::weight(bytes).map_or(0, u64::from));
    for authority in [None, core::str::from_utf8(bytes).ok()] {
        match gate.asks_first(origin, authority) {
            Ok(asks) => board::checksum(u64::from(asks)),
            Err(refusal) => refused(refusal, era(headers), bytes),
        }
        if let Err(refusal) = gate.admit(headers, authority) {
            refused(refusal, era(headers), bytes);
        }
    }
    if let Err(error) = check_token(bytes) {
        text(&error);
    }
    for ends in [true, false] {
        match Get::read(headers, ends) {
            Ok(get) => board::checksum(get.session.len() as u64),
            Err(refusal) => refused(refusal, era(headers), bytes),
        }
    }
    board::checksum(
        u64::from(status(bytes)) + u64::from(headers::says(bytes, bytes) || headers::is_fit(bytes)),
    );
    for headers in [headers, json, coded] {
        match (Post::read(headers), envelope::read(bytes)) {
            (Ok(post), Ok(message)) => {
                board::checksum(requests(bytes, &message).count() as u64);
                board::checksum(mirror::tool(bytes, &message).map_or(0, |name| name.len() as u64));
                if let Err(refusal) = mirror::check(&post, headers, bytes, &message, Some(bytes)) {
                    refused(refusal, era(headers), bytes);
                }
                match post.route(bytes, &message) {
                    Ok(Route::Session(session)) => board::checksum(session.len() as u64),
                    Ok(Route::Modern) => board::checksum(Front::modern(Asker::ProxyPort).read_count()),
                    Ok(Route::Begin) => {}
                    Err(refusal) => refused(refusal, era(headers), bytes),
                }
            }
            (Err(refusal), _) => refused(refusal, era(headers), bytes),
            _ => {}
        }
    }
    tables(bytes);
}

fn refused(refusal: Refusal, era: Era, bytes: &[u8]) {
    text(&refusal);
    let mut out = [0; MESSAGE];
    let mut w = Writer::new(&mut out);
    refusal.write(&mut w, None, bytes, era);
    let length = w.finish().map_or(0, <[u8]>::len) as u64;
    board::checksum(length + u64::from(refusal.status()) + refusal.retry_after().unwrap_or_default());
}

fn tables(bytes: &[u8]) {
    let now = Instant::from_micros(board::now());
    let limits = Limits::default();
    let mut table = Sessions::new(limits.idle, [sessions::Slot::EMPTY; 4]);
    let mut bodies = Bodies::new(limits.bodies);
    let mut answers = Answers::new(limits.answers);
    let mut open = turns::Turns::new(now, limits.idle, limits.stalled, [turns::Slot::EMPTY; 4]);
    let mut log = Log::new(limits.events, [events::Slot::EMPTY; 4]);
    for byte in bytes {
        match table.open(now, u128::from(*byte)) {
            Ok((key, _)) => {
                if let Err(refusal) = table.begin(key, limits.streams) {
                    text(&refusal);
                }
                table.end(now, key);
                board::checksum(key.index() as u64 + u64::from(byte & 1 == 0 && table.close(key)));
            }
            Err(refusal) => text(&refusal),
        }
        let length = usize::from(*byte) << 20;
        if let Err(refusal) = bodies.expect(length).and_then(|()| bodies.grow(usize::from(*byte), length)) {
            text(&refusal);
            bodies.release(length);
        }
        if !answers.take(length) {
            answers.release(answers.held());
        }
        let request = open.open();
        match byte & 3 {
            0 => open.give(now, request),
            1 => open.taken(request),
            _ => open.close(now, request),
        }
        board::checksum(open.poll_timeout().map_or(0, Instant::as_micros) + bodies.held() as u64);
        let id = log.number(u32::from(*byte));
        board::checksum(log.push(id, usize::from(*byte)).gone as u64);
    }
    board::checksum(u64::from(table.find(now, bytes).is_ok()) + table.count() as u64);
    board::checksum(table.poll_timeout().map_or(0, Instant::as_micros));
    while let Some(key) = table.poll_expired(now) {
        board::checksum(u64::from(key.text()[0]));
    }
    if let Some(last) = EventId::read(bytes) {
        let mut out = [0; 48];
        let mut w = Writer::new(&mut out);
        last.write(&mut w);
        board::checksum(w.finish().map_or(0, <[u8]>::len) as u64);
        if let Ok(after) = log.after(last) {
            board::checksum(after.count() as u64);
        }
    }
    board::checksum((log.bytes() + log.count()) as u64 + Pace::default().retry.as_secs());
}
