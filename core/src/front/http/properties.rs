//! Whatever a request says, what becomes of it is one thing or the other, and tables hold no more than they may.

use core::net::IpAddr;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::events::{EventId, Log};
use super::sessions::Sessions;
use super::*;
use crate::message::Writer;
use crate::time::Instant;

const NAMES: [&str; 17] = [
    "host",
    "origin",
    "authorization",
    "content-type",
    "accept",
    "mcp-protocol-version",
    "mcp-session-id",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-param-region",
    "content-encoding",
    "transfer-encoding",
    "access-control-request-method",
    "access-control-request-headers",
    "accept",
    "x-other",
];

fn value() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "localhost",
        "[::1]:80",
        "http://localhost",
        "evil.example",
        "Bearer token",
        "application/json",
        "text/event-stream",
        "2026-07-28",
        "2025-11-25",
        "tools/call",
        "echo",
        "=?base64?ZWNobw==?=",
        "1-2",
        "identity",
        "text/event-stream;q=0.0, application/json",
        "",
    ]);
    prop_oneof![
        4 => known.prop_map(|text: &str| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..24),
    ]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"region":"us"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
        r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":""}}"#,
    ]);
    (known, prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3)).prop_map(
        |(text, changes)| {
            let mut bytes = text.as_bytes().to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        },
    )
}

proptest! {
    #[test]
    fn what_comes_in_named_this_host_and_had_the_token(
        values in prop::collection::vec((prop::sample::select(&NAMES[..]), value()), 0..8),
    ) {
        let headers: Vec<(&str, &[u8])> = values.iter().map(|(name, value)| (*name, value.as_slice())).collect();
        let gate = Gate { local: IpAddr::from([127, 0, 0, 1]), hosts: &[] as &[&str], origins: &[], token: Some(b"token") };
        if gate.admit(&headers[..], None).is_ok() {
            let all = |name: &str| headers[..].all(name).map(<[u8]>::trim_ascii).map(<[u8]>::to_vec).collect::<Vec<_>>();
            prop_assert!(matches!(&all("host")[..], [host] if host.starts_with(b"localhost") || host.starts_with(b"[::1]") || host.starts_with(b"127.")));
            prop_assert_eq!(all("authorization"), [b"Bearer token".to_vec()]);
            prop_assert!(!all("origin").iter().any(|origin| origin.is_empty() || origin.ends_with(b"example")));
        }
    }

    #[test]
    fn each_request_has_one_way(
        values in prop::collection::vec((prop::sample::select(&NAMES[..]), value()), 0..10),
        body in body(),
    ) {
        let headers: Vec<(&str, &[u8])> = values.iter().map(|(name, value)| (*name, value.as_slice())).collect();
        let headers = &headers[..];
        let _ = (Get::read(headers, true), Get::read(headers, false), status(&body));
        let (Ok(post), Ok(message)) = (Post::read(headers), envelope::read(&body)) else { return Ok(()) };
        for id in requests(&body, &message) {
            prop_assert!(envelope::is_id(id.of(&body)));
        }
        let checked = mirror::check(&post, headers, &body, &message, Some(br#"{"name":"echo","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}"#));
        match post.route(&body, &message) {
            Ok(Route::Modern) => {
                if checked.is_ok() && matches!(message, Message::Request { .. }) {
                    // It would be understood by whoever reads the headers alone.
                    prop_assert!(post.version.is_modern());
                    prop_assert_eq!(headers.all("mcp-method").count(), 1);
                }
            }
            Ok(Route::Session(session)) => prop_assert_eq!(Some(session), post.session),
            Ok(Route::Begin) => prop_assert!(post.session.is_none()),
            Err(refusal) => prop_assert!((400..500).contains(&refusal.status())),
        }
        if let Err(refusal) = checked {
            let mut buffer = [0; 2048];
            let mut w = Writer::new(&mut buffer);
            refusal.write(&mut w, None, &body, Era::Legacy);
            prop_assert!(serde_json::from_slice::<serde_json::Value>(w.finish().unwrap()).is_ok());
        }
    }

    #[test]
    fn a_weight_is_the_number_that_it_says(thousandths in 0u16..=1000, digits in 0usize..4) {
        let text = std::format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
        prop_assert_eq!(media::weight(text.as_bytes()), Some(thousandths));
        let short = &text[..if digits == 0 { 1 } else { 2 + digits }];
        let number: f64 = short.parse().unwrap();
        prop_assert_eq!(media::weight(short.as_bytes()), Some((number * 1000.0).round() as u16));
    }

    #[test]
    fn what_is_no_weight_is_none(text in prop::collection::vec(prop::sample::select(&b"01259.-+eEx \"\xff"[..]), 0..8)) {
        let number = core::str::from_utf8(&text).ok().filter(|text| {
            text.starts_with(['0', '1']) && text[1..].chars().all(|one| one == '.' || one.is_ascii_digit())
        });
        let number = number.and_then(|text| text.parse::<f64>().ok()).filter(|number| *number <= 1.0);
        let weight = media::weight(&text);
        prop_assert_eq!(weight.is_some(), number.is_some_and(|_| text.get(1).is_none_or(|byte| *byte == b'.')));
        if let (Some(weight), Some(number)) = (weight, number) {
            prop_assert_eq!(weight == 0, number == 0.0);
        }
    }

    #[test]
    fn a_refused_kind_is_not_sent(
        ranges in prop::collection::vec(
            (prop::sample::select(vec!["application/json", "application/*", "text/event-stream", "text/*", "*/*", "a/b"]),
                prop::sample::select(vec!["", ";q=0", ";q=0.0", ";q=0.5", ";q=1", ";v=\",\";q=0.000", ";v=\";q=0\""])),
            0..6,
        ),
    ) {
        let header = ranges.iter().map(|(kind, more)| [*kind, *more].concat()).collect::<Vec<_>>().join(", ");
        let headers: [(&str, &[u8]); 1] = [("accept", header.as_bytes())];
        let accepts = |exact: &str, group: &str| {
            [exact, group, "*/*"].iter().find_map(|name| {
                let mut of = ranges.iter().filter(|(kind, _)| kind == name).peekable();
                of.peek()?;
                Some(of.any(|(_, more)| !more.contains(";q=0") || more.contains("0.5") || more.ends_with("0\"")))
            })
        };
        let json = accepts("application/json", "application/*") == Some(true);
        let stream = accepts("text/event-stream", "text/*") == Some(true);
        let read = Accepts::read(&headers[..]);
        prop_assert_eq!(matches!(read, Some(Accepts::Both | Accepts::StreamFirst | Accepts::Json)), json, "{}", header);
        prop_assert_eq!(matches!(read, Some(Accepts::Both | Accepts::StreamFirst | Accepts::Stream)), stream, "{}", header);
    }

    #[test]
    fn bodies_hold_what_they_hold(steps in prop::collection::vec((0usize..6, 0usize..60_000, any::<bool>()), 1..80), limit in 0usize..100_000) {
        let mut all = bodies::Bodies::new(limit);
        let mut held = [0usize; 6];
        for (which, more, ends) in steps {
            let has = held[which];
            if ends {
                all.release(has);
                held[which] = 0;
            } else {
                match all.grow(has, has + more) {
                    Ok(()) => held[which] += more,
                    Err(Refusal::Limit(Limit::Body(room))) => prop_assert!(has + more > room),
                    Err(refusal) => prop_assert_eq!(refusal, Refusal::Limit(Limit::Bodies(limit))),
                }
            }
            prop_assert_eq!(all.held(), held.iter().sum::<usize>());
            prop_assert!(all.held() <= limit);
            let long = held.iter().filter(|held| **held > bodies::SHORT).sum::<usize>();
            prop_assert!(long <= limit - limit / 4);
        }
    }

    #[test]
    fn a_connection_is_over_when_its_client_was_quiet(steps in prop::collection::vec((0u8..4, 0usize..4, 0u64..8), 1..60)) {
        let (idle, stalled) = (Duration::from_secs(10), Duration::from_secs(5));
        let mut turns = turns::Turns::new(Instant::from_micros(0), idle, stalled, [turns::Slot::EMPTY; 4]);
        // What is open, and since when it waits for its client.
        let mut open: Vec<(usize, Option<u64>)> = Vec::new();
        let (mut now, mut quiet) = (0, 0);
        for (step, which, later) in steps {
            now += later;
            let at = (!open.is_empty()).then(|| which % open.len());
            match (step, at) {
                (0, _) if open.len() < 4 => open.push((turns.open(), None)),
                (1, Some(at)) => {
                    turns.give(Instant::from_millis(now * 1000), open[at].0);
                    open[at].1 = Some(now);
                }
                (2, Some(at)) => {
                    turns.taken(open[at].0);
                    open[at].1 = None;
                }
                (3, Some(at)) => {
                    turns.close(Instant::from_millis(now * 1000), open.swap_remove(at).0);
                    quiet = now;
                }
                _ => {}
            }
            let since = open.iter().filter_map(|(_, since)| *since).min();
            let expected = if open.is_empty() { Some(quiet + 10) } else { since.map(|since| since + 5) };
            prop_assert_eq!(turns.poll_timeout(), expected.map(|at| Instant::from_millis(at * 1000)));
        }
    }

    #[test]
    fn a_header_that_drowse_writes_says_what_it_read(text in ".*", number in any::<i32>()) {
        for value in [serde_json::json!(text), serde_json::json!(number)] {
            let raw = serde_json::to_vec(&value).unwrap();
            let mut buffer = vec![0; raw.len() * 4 + 64];
            let mut w = Writer::new(&mut buffer);
            crate::http::headers::write_value(&raw, &mut w).unwrap();
            let header = w.finish().unwrap();
            prop_assert!(crate::http::headers::says(header, &raw));
            let mut other = header.to_vec();
            other.push(b'x');
            prop_assert!(!crate::http::headers::says(&other, &raw));
        }
    }

    #[test]
    fn a_stream_is_whole_or_refused(
        steps in prop::collection::vec((0u32..4, 0usize..40), 1..120),
        limit in 0usize..200,
        slots in 0usize..12,
    ) {
        let mut log = Log::new(limit, vec![events::Slot::EMPTY; slots]);
        let mut queue: VecDeque<EventId> = VecDeque::new();
        let mut all: Vec<EventId> = Vec::new();
        for (stream, length) in steps {
            let id = log.number(stream);
            all.push(id);
            let pushed = log.push(id, length);
            prop_assert!(pushed.gone <= queue.len());
            queue.drain(..pushed.gone);
            if pushed.kept {
                queue.push_back(id);
            }
            prop_assert_eq!(queue.len(), log.count());
            prop_assert!(log.bytes() <= limit && log.count() <= slots);
            for last in &all {
                let expected: Vec<EventId> = all
                    .iter()
                    .filter(|id| id.stream == last.stream && id.number > last.number)
                    .copied()
                    .collect();
                match log.after(*last) {
                    Ok(after) => {
                        let got: Vec<EventId> = after.map(|(at, id)| { assert_eq!(queue[at], id); id }).collect();
                        prop_assert_eq!(got, expected);
                    }
                    Err(refusal) => {
                        prop_assert_eq!(refusal, Refusal::UnknownEvent);
                        prop_assert!(expected.iter().any(|id| !queue.contains(id)));
                    }
                }
            }
        }
    }

    #[test]
    fn sessions_are_those_that_were_opened(
        steps in prop::collection::vec((0u8..6, 0u128..6, 0u64..90), 1..80),
    ) {
        let mut table = Sessions::new(Duration::from_secs(100), vec![sessions::Slot::EMPTY; 3]);
        let mut now = 0;
        let mut keys: Vec<sessions::SessionKey> = Vec::new();
        let mut next = 1u128;
        for (step, which, later) in steps {
            now += later * 1000;
            let at = Instant::from_millis(now);
            let key = keys.get(which as usize % keys.len().max(1)).copied();
            match (step, key) {
                (0 | 1, _) => {
                    if let Ok((key, gone)) = table.open(at, next) {
                        keys.retain(|one| Some(*one) != gone);
                        keys.push(key);
                    }
                    next += 1;
                }
                (2, Some(key)) => drop(table.begin(key, 2)),
                (3, Some(key)) => table.end(at, key),
                (4, Some(key)) => {
                    prop_assert!(table.close(key));
                    keys.retain(|one| *one != key);
                }
                _ => {
                    while let Some(gone) = table.poll_expired(at) {
                        keys.retain(|one| *one != gone);
                    }
                    prop_assert!(table.poll_timeout().is_none_or(|next| next > at));
                }
            }
            prop_assert_eq!(table.count(), keys.len());
            for key in &keys {
                let mut copy = table.clone();
                prop_assert_eq!(copy.find(at, &key.text()), Ok(*key));
            }
        }
    }
}
