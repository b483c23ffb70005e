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

const NAMES: [&str; 12] = [
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
            refusal.write(&mut w, None, &body);
            prop_assert!(serde_json::from_slice::<serde_json::Value>(w.finish().unwrap()).is_ok());
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
