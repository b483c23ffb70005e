//! What a client sends over HTTP: headers, one a line, an empty line, and a body.

use core::net::IpAddr;

use drowse_core::envelope::{self, Message};
use drowse_core::era::Era;
use drowse_core::front::http::events::{EventId, Log, Slot};
use drowse_core::front::http::sessions::{self, Sessions};
use drowse_core::front::http::{Gate, Get, Post, Route, mirror, pages, requests, status};
use drowse_core::json;
use drowse_core::message::Writer;
use drowse_core::time::{Duration, Instant};

const TOOL: &[u8] = br#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"n":{"type":"integer","x-mcp-header":"N"}}}}"#;

/// `data` as a request: who is let in named this host and had the token, what is accepted of a modern client is what its
/// headers say, and a refusal is a message.
pub(crate) fn request(data: &[u8]) {
    let end = data.windows(2).position(|window| window == b"\n\n").unwrap_or(data.len());
    let body = data.get(end + 2..).unwrap_or_default();
    let headers: Vec<(&str, &[u8])> = data[..end]
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let at = line.iter().position(|byte| *byte == b':')?;
            Some((core::str::from_utf8(&line[..at]).ok()?, &line[at + 1..]))
        })
        .collect();
    let headers = &headers[..];
    let local = IpAddr::from([127, 0, 0, 1]);
    let gate = Gate { local, hosts: &["a.example"], origins: &["https://a.example"], token: Some(b"token") };
    let page = gate.page(headers);
    assert!(page.is_none_or(|origin| origin.eq_ignore_ascii_case(b"https://a.example")));
    assert!(!matches!(gate.asks_first(headers, None), Ok(true)) || page.is_some());
    let mut buffer = vec![0; pages::allowed_length(headers)];
    let mut w = Writer::new(&mut buffer);
    pages::write_allowed(headers, &mut w);
    let allowed = w.finish().expect("there is room");
    assert!(allowed.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' '));
    let named = |name: &str| {
        let found = headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim_ascii()).collect::<Vec<_>>()
    };
    if gate.admit(headers, None).is_ok() {
        let hosts = named("host");
        let [host] = hosts[..] else { panic!("{} hosts", hosts.len()) };
        let host = String::from_utf8_lossy(host).to_ascii_lowercase();
        assert!(
            ["localhost", "127.", "a.example", "["].iter().any(|start| host.starts_with(start)),
            "{host}"
        );
        let given = named("authorization");
        assert!(matches!(given[..], [given] if given.ends_with(b"token")));
    }
    for ends in [true, false] {
        if let Ok(get) = Get::read(headers, ends) {
            assert_eq!(named("mcp-session-id"), [get.session]);
            replay(get.last.unwrap_or_default(), body);
            table(get.session, body);
        }
    }
    let _ = status(body);
    let (Ok(post), Ok(message)) = (Post::read(headers), envelope::read(body)) else { return };
    assert!(requests(body, &message).all(|id| envelope::is_id(id.of(body))));
    let packed = |value: &&[u8]| value.to_ascii_lowercase().windows(4).any(|part| part == b"gzip");
    assert!(!named("content-encoding").iter().chain(&named("transfer-encoding")).any(packed));
    let checked = mirror::check(&post, headers, body, &message, Some(TOOL));
    match post.route(body, &message) {
        Ok(Route::Session(session)) => assert_eq!(Some(session), post.session),
        Ok(Route::Begin) => assert!(post.session.is_none()),
        Ok(Route::Modern) if checked.is_ok() => {
            let Message::Request { method, .. } = message else { return };
            assert!(post.version.is_modern());
            let text: Vec<u8> = json::text(method.of(body)).collect();
            assert!(
                text.starts_with(b"=?base64?")
                    || named("mcp-method") == [&text[..]]
                    || named("mcp-method")[0].starts_with(b"=?base64?")
            );
        }
        Ok(Route::Modern) => {}
        Err(refusal) => assert!((400..500).contains(&refusal.status())),
    }
    if let Err(refusal) = checked {
        let mut buffer = vec![0; body.len() + 1024];
        let mut w = Writer::new(&mut buffer);
        refusal.write(&mut w, None, body, Era::Modern);
        let text = w.finish().expect("there is room");
        assert!(serde_json::from_slice::<serde_json::Value>(text).is_ok());
    }
}

/// `last` as a `Last-Event-ID` after events that `steps` say the streams and lengths of.
fn replay(last: &[u8], steps: &[u8]) {
    let mut log = Log::new(64, [Slot::EMPTY; 8]);
    let mut kept: Vec<EventId> = Vec::new();
    let mut all: Vec<EventId> = Vec::new();
    for step in steps {
        let id = log.number(u32::from(step & 3));
        all.push(id);
        let pushed = log.push(id, usize::from(step >> 2));
        kept.drain(..pushed.gone);
        if pushed.kept {
            kept.push(id);
        }
        assert!(kept.len() == log.count() && log.bytes() <= 64);
    }
    let Some(last) = EventId::read(last) else { return };
    if let Ok(after) = log.after(last) {
        let got: Vec<EventId> =
            after.map(|(at, id)| if kept[at] == id { id } else { panic!("another event") }).collect();
        let missed = all.iter().filter(|id| id.stream == last.stream && id.number > last.number);
        assert!(missed.copied().eq(got), "a stream has a hole");
    }
}

/// `text` as a session's id, among sessions that `steps` open and close.
fn table(text: &[u8], steps: &[u8]) {
    let mut sessions = Sessions::new(Duration::from_secs(60), [sessions::Slot::EMPTY; 4]);
    let mut keys = Vec::new();
    for (at, step) in (0u64..).zip(steps) {
        let now = Instant::from_millis(at * 10_000);
        if step & 1 == 0 {
            if let Ok((key, gone)) = sessions.open(now, u128::from(at) + 1) {
                keys.retain(|one| Some(*one) != gone);
                keys.push(key);
            }
        } else if let Some(key) = keys.pop() {
            assert!(sessions.close(key));
        }
        assert!(sessions.count() == keys.len() && keys.len() <= 4);
    }
    if let Ok(key) = sessions.find(Instant::from_millis(0), text) {
        assert!(keys.contains(&key) && key.text()[..] == *text);
    }
}
