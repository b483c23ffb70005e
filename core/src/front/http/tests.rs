use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

use core::net::{IpAddr, Ipv4Addr};

use super::events::{EventId, Log};
use super::gate::check_token;
use super::sessions::{SPARE, Sessions};
use super::*;
use crate::message::{META_CLIENT_CAPABILITIES, META_PROTOCOL_VERSION, Writer};
use crate::time::Instant;

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
const JSON: (&str, &[u8]) = ("Content-Type", b"application/json");
const ACCEPT: (&str, &[u8]) = ("Accept", b"application/json, text/event-stream");
const MODERN: (&str, &[u8]) = ("MCP-Protocol-Version", b"2026-07-28");

type Pair<'a> = (&'a str, &'a [u8]);

fn gate<'c>(hosts: &'c [&'c str], token: Option<&'c str>) -> Gate<'c, &'c str> {
    Gate {
        local: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)),
        hosts,
        origins: &["https://app.example"],
        token: token.map(str::as_bytes),
    }
}

fn admitted(gate: &Gate<'_, &str>, headers: &[Pair<'_>]) -> Result<(), Refusal> {
    gate.admit(headers, None)
}

#[test]
fn hosts_are_this_machine_the_address_and_those_that_are_named() {
    let gate = gate(&["dev.example", "198.51.100.1", "[2001:db8::1]"], None);
    for host in [
        "localhost",
        "localhost:80",
        "LOCALHOST:9",
        "localhost.",
        "127.0.0.1",
        "127.8.9.1:3",
        "[::1]",
        "[::1]:80",
        "192.0.2.7",
        "192.0.2.7:1234",
        "[::ffff:192.0.2.7]",
        "dev.example",
        "Dev.Example:443",
        "198.51.100.1:1",
        "[2001:db8::1]:5",
        "localhost:",
    ] {
        assert_eq!(admitted(&gate, &[("host", host.as_bytes())]), Ok(()), "{host}");
        assert_eq!(gate.admit(&[][..] as &[Pair<'_>], Some(host)), Ok(()), "{host}");
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "192.0.2.8",
        "[::2]",
        "",
        ":80",
        "localhost:x",
        "localhost:80:80",
        "a@localhost",
        "localhost/..",
        "[::1",
        "::1]",
        "[localhost]",
        "localhost\u{e9}",
        "localhost ",
        "127.1",
        "0x7f.0.0.1",
        "0.0.0.0",
        "dev.example..",
        "[::1]x",
    ] {
        let host = host.as_bytes();
        // Blanks around a value are no part of it.
        let expected = if host == b"localhost " { Ok(()) } else { Err(Refusal::Host) };
        assert_eq!(admitted(&gate, &[("host", host)]), expected, "{}", String::from_utf8_lossy(host));
    }
    assert_eq!(admitted(&gate, &[]), Err(Refusal::Host));
    let twice: [Pair<'_>; 2] = [("host", b"localhost"), ("Host", b"localhost")];
    assert_eq!(admitted(&gate, &twice), Err(Refusal::Host));
    // A target that names another host than the header does.
    assert_eq!(gate.admit(&[("host", &b"localhost"[..])][..], Some("evil.example")), Err(Refusal::Host));
    assert_eq!(gate.admit(&[("host", &b"evil.example"[..])][..], Some("localhost")), Err(Refusal::Host));
}

#[test]
fn addresses_are_read_like_everybody_does() {
    let gate = gate(&[], None);
    for text in [
        "::1",
        "0:0:0:0:0:0:0:1",
        "::0.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "0::1",
        "1::",
        "::",
        "1:2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7",
        "1::2::3",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7::8",
        "::12345",
        ":1",
        "1:",
        ":::1",
        "::1.2.3",
        "::1.2.3.4:5",
        "1:2:3:4:5:6:127.0.0.1",
        "fe80::1%1",
        "::01",
        "::00001",
        "g::1",
    ] {
        let known: Option<core::net::Ipv6Addr> = text.parse().ok();
        let ours = known.is_some_and(|address| IpAddr::V6(address).to_canonical().is_loopback());
        let host = format!("[{text}]");
        assert_eq!(admitted(&gate, &[("host", host.as_bytes())]).is_ok(), ours, "{text}");
    }
    for text in [
        "127.0.0.1",
        "127.255.255.255",
        "127.0.0.256",
        "127.0.0",
        "127.0.0.01",
        "127.0.0.1.",
        "127..0.1",
        "127.0.0.1.1",
        "0127.0.0.1",
    ] {
        let ours = text.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
        assert_eq!(admitted(&gate, &[("host", text.as_bytes())]).is_ok(), ours, "{text}");
    }
}

#[test]
fn origins_are_pages_of_these_hosts_and_those_that_are_named() {
    let gate = gate(&["dev.example"], None);
    let with = |origin: &str| admitted(&gate, &[("host", b"localhost"), ("origin", origin.as_bytes())]);
    for origin in [
        "http://localhost:5173",
        "https://127.0.0.1",
        "http://[::1]:3",
        "HTTP://dev.example",
        "https://app.example",
    ] {
        assert_eq!(with(origin), Ok(()), "{origin}");
    }
    for origin in [
        "null",
        "",
        "https://evil.example",
        "http://app.example",
        "https://app.example:1",
        "file://localhost",
        "http://localhost.evil.example",
        "http://",
        "localhost",
        "http://localhost/path",
    ] {
        assert_eq!(with(origin), Err(Refusal::Origin), "{origin}");
    }
    let twice: [Pair<'_>; 3] =
        [("host", b"localhost"), ("origin", b"http://localhost"), ("origin", b"http://localhost")];
    assert_eq!(admitted(&gate, &twice), Err(Refusal::Origin));
}

#[test]
fn a_token_is_the_same_or_none() {
    let gate = gate(&[], Some("s3cret-Token"));
    let with = |value: &str| admitted(&gate, &[("host", b"localhost"), ("authorization", value.as_bytes())]);
    for value in ["Bearer s3cret-Token", "bearer s3cret-Token", "BEARER   s3cret-Token  "] {
        assert_eq!(with(value), Ok(()), "{value}");
    }
    for value in [
        "",
        "Bearer",
        "Bearer ",
        "s3cret-Token",
        "Basic s3cret-Token",
        "Bearer s3cret-Toke",
        "Bearer s3cret-Tokenn",
        "Bearer S3cret-Token",
        "Bearer s3cret-Token s3cret-Token",
        "Bearers3cret-Token",
    ] {
        assert_eq!(with(value), Err(Refusal::Unauthorized), "{value}");
    }
    assert_eq!(admitted(&gate, &[("host", b"localhost")]), Err(Refusal::Unauthorized));
    let twice: [Pair<'_>; 3] = [
        ("host", b"localhost"),
        ("authorization", b"Bearer s3cret-Token"),
        ("authorization", b"Bearer s3cret-Token"),
    ];
    assert_eq!(admitted(&gate, &twice), Err(Refusal::Unauthorized));
}

#[test]
fn a_token_that_is_none_lets_nobody_in() {
    for token in ["", " ", "a b", "\u{e9}", "a\n"] {
        assert!(check_token(token.as_bytes()).is_err(), "{token:?}");
        let gate = gate(&[], Some(token));
        for given in ["Bearer ", "Bearer", &format!("Bearer {token}")] {
            let headers: [Pair<'_>; 2] = [("host", b"localhost"), ("authorization", given.as_bytes())];
            assert_eq!(admitted(&gate, &headers), Err(Refusal::Unauthorized), "{token:?}");
        }
    }
    assert!(check_token(b"a").is_ok());
}

#[test]
fn what_is_accepted() {
    let read = |accept: &[&str]| {
        let headers: Vec<Pair<'_>> = accept.iter().map(|value| ("accept", value.as_bytes())).collect();
        Accepts::read(&headers[..])
    };
    assert_eq!(read(&[]), Some(Accepts::Both));
    for both in
        ["application/json, text/event-stream", "*/*", "Application/JSON;q=0.9,TEXT/event-stream ; q=0.1"]
    {
        assert_eq!(read(&[both]), Some(Accepts::Both), "{both}");
    }
    assert_eq!(read(&["application/json", "text/event-stream"]), Some(Accepts::Both));
    assert_eq!(read(&["text/event-stream, application/json"]), Some(Accepts::StreamFirst));
    assert_eq!(read(&["application/*"]), Some(Accepts::Json));
    assert_eq!(read(&["application/json, text/event-stream;q=0"]), Some(Accepts::Json));
    assert_eq!(read(&["text/event-stream"]), Some(Accepts::Stream));
    for none in ["text/html", "", "application/xml, image/png", "application/json;q=0"] {
        assert_eq!(read(&[none]), None, "{none}");
    }
    for refused in ["q=0.", "q=0.0", "Q=0.00", "q=0.000", " q=0.0000", "v=1;q=0.0", "v=\"a,b;q=1\";q=0"] {
        let header = format!("application/json;{refused}, text/event-stream");
        assert_eq!(read(&[&header]), Some(Accepts::Stream), "{header}");
    }
    for taken in ["q=0.001", "q=1.000", "q=", "q=x", "q=-0", "v=\"a,b;q=0\"", "v=\"\\\";q=0", "q=0.00001"] {
        let header = format!("text/event-stream, application/json;{taken}");
        assert!(matches!(read(&[&header]), Some(Accepts::StreamFirst | Accepts::Both)), "{header}");
    }
    // What names a kind more exactly counts, and what weighs more comes first.
    assert_eq!(read(&["*/*, application/json;q=0"]), Some(Accepts::Stream));
    assert_eq!(read(&["text/event-stream;q=0, text/*, */*;q=0.1"]), Some(Accepts::Json));
    assert_eq!(read(&["*/*;q=0.0"]), None);
    assert_eq!(read(&["application/json;q=0.5, text/event-stream"]), Some(Accepts::StreamFirst));
    assert_eq!(read(&["text/event-stream;q=0.5, application/json"]), Some(Accepts::Both));
}

fn post<'h>(headers: &'h [Pair<'h>]) -> Result<Post<'h>, Refusal> {
    Post::read(headers)
}

#[test]
fn a_post_is_json() {
    for kind in ["application/json", "Application/JSON; charset=utf-8"] {
        assert!(post(&[("content-type", kind.as_bytes()), ACCEPT]).is_ok(), "{kind}");
    }
    for kind in ["", "text/plain", "application/jsonx", "application/x-www-form-urlencoded"] {
        assert_eq!(post(&[("content-type", kind.as_bytes()), ACCEPT]), Err(Refusal::ContentType), "{kind}");
    }
    assert_eq!(post(&[ACCEPT]), Err(Refusal::ContentType));
    let sent = |kind: &str, more: &[Pair<'_>]| {
        let mut headers = vec![("content-type", kind.as_bytes()), ACCEPT];
        headers.extend_from_slice(more);
        post(&headers).map(|_| ())
    };
    for kind in
        ["application/json;charset=\"UTF-8\"", "application/json; v=\";charset=x\"", "application/json;"]
    {
        assert_eq!(sent(kind, &[]), Ok(()), "{kind}");
    }
    for charset in ["utf-16", "iso-8859-1", "\"latin1\"", "", "utf-8; charset=utf-16"] {
        let kind = format!("application/json; Charset={charset}");
        assert_eq!(sent(&kind, &[]), Err(Refusal::Charset), "{kind}");
    }
    for (name, plain, refusal) in [
        ("content-encoding", &b"identity"[..], Refusal::ContentEncoding),
        ("transfer-encoding", b"Chunked", Refusal::TransferEncoding),
    ] {
        assert_eq!(sent("application/json", &[(name, plain), (name, b"")]), Ok(()), "{name}");
        for other in [&b"gzip"[..], b"br, identity", b"gzip, chunked", b"x"] {
            assert_eq!(sent("application/json", &[(name, plain), (name, other)]), Err(refusal), "{name}");
        }
    }
    assert_eq!(post(&[JSON, ("accept", b"text/html")]), Err(Refusal::NotAcceptable));
    let twice: [Pair<'_>; 3] = [JSON, ("mcp-session-id", b"a"), ("mcp-session-id", b"b")];
    assert_eq!(post(&twice), Err(Refusal::Repeated(Header::Session)));
}

fn routed<'h>(headers: &'h [Pair<'h>], body: &str) -> Result<Route<'h>, Refusal> {
    let message = envelope::read(body.as_bytes()).unwrap();
    post(headers)?.route(body.as_bytes(), &message)
}

#[test]
fn a_message_goes_where_its_era_says() {
    let modern = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{META}}}}}"#);
    let old = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let init = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
    let session: Pair<'_> = ("mcp-session-id", b"s");
    let legacy: Pair<'_> = ("mcp-protocol-version", b"2025-06-18");
    let unknown: Pair<'_> = ("mcp-protocol-version", b"1999-01-01");
    for headers in
        [&[JSON, MODERN][..], &[JSON, MODERN, session], &[JSON], &[JSON, legacy, session], &[JSON, unknown]]
    {
        assert_eq!(routed(headers, &modern), Ok(Route::Modern), "{headers:?}");
    }
    for body in [old, init, note, answer, batch] {
        assert_eq!(routed(&[JSON, session, unknown], body), Err(Refusal::Version), "{body}");
        assert_eq!(routed(&[JSON, unknown], body), Err(Refusal::Version), "{body}");
    }
    assert!(Refusal::Version.to_string().contains("2025-11-25"));
    assert_eq!(routed(&[JSON, MODERN], old), Ok(Route::Modern));
    assert_eq!(routed(&[JSON, MODERN], note), Ok(Route::Modern));
    assert_eq!(routed(&[JSON, MODERN], answer), Err(Refusal::Response));
    assert_eq!(routed(&[JSON, MODERN], batch), Err(Refusal::Batch));
    assert_eq!(routed(&[JSON], init), Ok(Route::Begin));
    assert_eq!(routed(&[JSON, legacy], init), Ok(Route::Begin));
    for body in [old, init, note, answer, batch] {
        assert_eq!(routed(&[JSON, session], body), Ok(Route::Session(b"s")), "{body}");
        assert_eq!(routed(&[JSON, session, legacy], body), Ok(Route::Session(b"s")), "{body}");
    }
    for body in [old, note, answer, batch] {
        assert_eq!(routed(&[JSON], body), Err(Refusal::NoSession), "{body}");
    }
}

#[test]
fn streams_and_ends_are_of_sessions() {
    let session: Pair<'_> = ("mcp-session-id", b"s");
    let stream: Pair<'_> = ("accept", b"text/event-stream");
    let get = |headers: &[Pair<'_>], ends| {
        Get::read(headers, ends).map(|get| (get.session.to_vec(), get.last.map(<[u8]>::to_vec)))
    };
    assert_eq!(get(&[session, stream], false), Ok((b"s".to_vec(), None)));
    assert_eq!(get(&[session], true), Ok((b"s".to_vec(), None)));
    let last: Pair<'_> = ("last-event-id", b" 1-2 ");
    assert_eq!(get(&[session, stream, last], false), Ok((b"s".to_vec(), Some(b"1-2".to_vec()))));
    assert_eq!(get(&[session, ("accept", b"application/json")], false), Err(Refusal::NotAcceptable));
    // In the modern era there are none.
    for ends in [true, false] {
        assert_eq!(get(&[stream], ends), Err(Refusal::Method));
        assert_eq!(get(&[session, stream, MODERN], ends), Err(Refusal::Method));
        assert_eq!(get(&[session, stream, ("mcp-protocol-version", b"x")], ends), Err(Refusal::Version));
        let legacy: Pair<'_> = ("mcp-protocol-version", b"2025-11-25");
        assert_eq!(get(&[stream, legacy], ends), Err(Refusal::NoSession));
    }
}

const TOOL: &str = r#"{"name":"t","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"on":{"type":"boolean","x-mcp-header":"On"}}}}"#;

fn checked(more: &[Pair<'_>], body: &str) -> Result<(), Refusal> {
    let mut headers: Vec<Pair<'_>> = vec![JSON];
    headers.extend_from_slice(more);
    let message = envelope::read(body.as_bytes()).unwrap();
    let tool = mirror::tool(body.as_bytes(), &message).map(|_| TOOL.as_bytes());
    mirror::check(&post(&headers)?, &headers[..], body.as_bytes(), &message, tool)
}

#[test]
fn headers_say_what_the_body_says() {
    let list = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{META}}}}}"#);
    let method: Pair<'_> = ("Mcp-Method", b"tools/list");
    assert_eq!(checked(&[MODERN, method], &list), Ok(()));
    assert_eq!(checked(&[MODERN, ("MCP-METHOD", b"  tools/list ")], &list), Ok(()));
    assert_eq!(checked(&[method], &list), Err(Refusal::Missing(Header::ProtocolVersion)));
    assert_eq!(
        checked(&[("mcp-protocol-version", b"2025-11-25"), method], &list),
        Err(Refusal::Mismatch(Header::ProtocolVersion))
    );
    assert_eq!(
        checked(&[("mcp-protocol-version", b"x"), method], &list),
        Err(Refusal::Mismatch(Header::ProtocolVersion))
    );
    assert_eq!(checked(&[MODERN], &list), Err(Refusal::Missing(Header::Method)));
    assert_eq!(
        checked(&[MODERN, ("mcp-method", b"Tools/list")], &list),
        Err(Refusal::Mismatch(Header::Method))
    );
    assert_eq!(checked(&[MODERN, method, method], &list), Err(Refusal::Repeated(Header::Method)));
    let other = list.replace("2026-07-28", "2030-01-01");
    assert!(matches!(
        checked(&[("mcp-protocol-version", b"2030-01-01")], &other),
        Err(Refusal::UnsupportedVersion(_))
    ));
    let bare = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    assert_eq!(checked(&[MODERN, method], bare), Err(Refusal::MissingMeta(META_PROTOCOL_VERSION)));
    let half = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    assert!(matches!(checked(&[MODERN, method], half), Err(Refusal::MissingMeta(_))));
    for wrong in ["[]", "null", "true", "\"{}\""] {
        let wrong = list.replace("Capabilities\":{}", &format!("Capabilities\":{wrong}"));
        let refused = checked(&[MODERN, method], &wrong).unwrap_err();
        assert_eq!(refused, Refusal::InvalidMeta(META_CLIENT_CAPABILITIES), "{wrong}");
        assert_eq!((refused.code(), refused.status()), (-32602, 400));
    }
    let init = list.replace("tools/list", "initialize");
    assert_eq!(checked(&[MODERN, ("mcp-method", b"initialize")], &init), Err(Refusal::UnknownMethod));
    let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(checked(&[MODERN], note), Ok(()));
}

fn call(name: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":{name},"arguments":{arguments},{META}}}}}"#
    )
}

#[test]
fn names_are_compared_after_decoding() {
    let method: Pair<'_> = ("mcp-method", b"tools/call");
    let with = |name: &str, header: &str| {
        checked(&[MODERN, method, ("mcp-name", header.as_bytes())], &call(name, "{}"))
    };
    assert_eq!(with(r#""echo""#, "echo"), Ok(()));
    assert_eq!(with(r#""ech\u006f""#, "echo"), Ok(()));
    assert_eq!(with(r#""Hello, 世界""#, "=?base64?SGVsbG8sIOS4lueVjA==?="), Ok(()));
    assert_eq!(with(r#""=?base64?literal?=""#, "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="), Ok(()));
    for (name, header) in [
        (r#""echo""#, "Echo"),
        (r#""echo""#, ""),
        (r#""Hello, 世界""#, "Hello, 世界"),
        (r#""Hello""#, "=?base64?SGVsbG8?="),
        (r#""Hello""#, "=?BASE64?SGVsbG8=?="),
        (r#""Hello""#, "=?base64?SGVs!!!bG8=?="),
        (r#""=?base64?literal?=""#, "=?base64?literal?="),
    ] {
        assert_eq!(with(name, header), Err(Refusal::Mismatch(Header::Name)), "{name} {header}");
    }
    assert_eq!(checked(&[MODERN, method], &call(r#""echo""#, "{}")), Err(Refusal::Missing(Header::Name)));
}

#[test]
fn marked_arguments_stand_in_headers() {
    let with = |arguments: &str, more: &[Pair<'_>]| {
        let mut headers: Vec<Pair<'_>> = vec![MODERN, ("mcp-method", b"tools/call"), ("mcp-name", b"t")];
        headers.extend_from_slice(more);
        checked(&headers, &call(r#""t""#, arguments))
    };
    assert_eq!(with("{}", &[]), Ok(()));
    assert_eq!(with(r#"{"region":null}"#, &[]), Ok(()));
    assert_eq!(with(r#"{"region":"us"}"#, &[("mcp-param-region", b"us")]), Ok(()));
    assert_eq!(with(r#"{"region":""}"#, &[("mcp-param-region", b"")]), Ok(()));
    for (number, header) in
        [("42", "42"), ("42", "42.0"), ("42.0", "42"), ("4.2e1", "42"), ("-7", "-7"), ("1.5", "1.5")]
    {
        let arguments = format!(r#"{{"n":{number}}}"#);
        assert_eq!(with(&arguments, &[("mcp-param-n", header.as_bytes())]), Ok(()), "{number} {header}");
    }
    assert_eq!(with(r#"{"on":true}"#, &[("Mcp-Param-On", b"true")]), Ok(()));
    // What no header can carry.
    assert_eq!(with(r#"{"region":["us"]}"#, &[]), Ok(()));
    let mismatch = Err(Refusal::Mismatch(Header::Param));
    assert_eq!(with(r#"{"region":"us"}"#, &[]), Err(Refusal::Missing(Header::Param)));
    assert_eq!(with(r#"{"region":"us"}"#, &[("mcp-param-region", b"eu")]), mismatch);
    assert_eq!(with("{}", &[("mcp-param-region", b"eu")]), mismatch);
    assert_eq!(with(r#"{"region":null}"#, &[("mcp-param-region", b"null")]), mismatch);
    assert_eq!(with(r#"{"n":42}"#, &[("mcp-param-n", b"43")]), mismatch);
    assert_eq!(with(r#"{"n":42}"#, &[("mcp-param-n", b"0x2a")]), mismatch);
    assert_eq!(with(r#"{"on":true}"#, &[("mcp-param-on", b"True")]), mismatch);
    assert_eq!(
        with(r#"{"region":"us"}"#, &[("mcp-param-region", b"us"), ("mcp-param-region", b"us")]),
        Err(Refusal::Repeated(Header::Param))
    );
}

#[test]
fn errors_have_their_status() {
    let error = |code: i32| format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"x"}}}}"#);
    for (code, expected) in [
        (-32601, 404),
        (-32020, 400),
        (-32021, 400),
        (-32022, 400),
        (-32600, 400),
        (-32602, 200),
        (-32603, 200),
        (-32000, 200),
    ] {
        assert_eq!(status(error(code).as_bytes()), expected, "{code}");
    }
    assert_eq!(status(br#"{"jsonrpc":"2.0","id":1,"result":{"error":{"code":-32601}}}"#), 200);
    assert_eq!(status(br#" {"error":{"message":"x","code":-32601},"jsonrpc":"2.0","id":1}"#), 404);
    assert_eq!(status(br#"{"\u0065rror":{"code":-32601,"message":"x"},"id":1,"jsonrpc":"2.0"}"#), 404);
    assert_eq!(status(br#"{"r\u0065sult":{},"jsonrpc":"2.0","id":1}"#), 200);
    assert_eq!(status(b"nonsense"), 200);
}

#[test]
fn a_refusal_is_an_error_of_json_rpc() {
    let frame = br#"{"v":"1999"}"#;
    let cut = envelope::read(br#"{"jsonrpc":"2.0","id":1,"method":"\ud83d"}"#).unwrap_err();
    let all = [
        Refusal::Host,
        Refusal::Unauthorized,
        Refusal::Limit(Limit::Body(1)),
        Refusal::Repeated(Header::Name),
        Refusal::Missing(Header::Method),
        Refusal::MissingMeta(META_PROTOCOL_VERSION),
        Refusal::UnsupportedVersion(Span::new(5, 11)),
        Refusal::UnsupportedVersion(Span::new(4, 5)),
        Refusal::Malformed(cut),
        Refusal::Malformed(envelope::read(b"7").unwrap_err()),
        Refusal::InvalidMeta(META_CLIENT_CAPABILITIES),
        Refusal::Version,
        Refusal::Incomplete,
    ];
    for refusal in all {
        let mut buffer = [0; 512];
        let mut w = Writer::new(&mut buffer);
        refusal.write(&mut w, Some(b"\"a\""), frame, Era::Modern);
        let text: serde_json::Value = serde_json::from_slice(w.finish().unwrap()).unwrap();
        assert_eq!(text["id"], "a", "{refusal:?}");
        assert_eq!(text["error"]["code"], refusal.code(), "{refusal:?}");
        assert_eq!(text["error"]["message"], refusal.to_string(), "{refusal:?}");
        assert!((400..600).contains(&refusal.status()), "{refusal:?}");
    }
    let mut buffer = [0; 512];
    let mut w = Writer::new(&mut buffer);
    Refusal::UnsupportedVersion(Span::new(5, 11)).write(&mut w, None, frame, Era::Legacy);
    let text: serde_json::Value = serde_json::from_slice(w.finish().unwrap()).unwrap();
    assert_eq!(text["error"]["data"], serde_json::json!({"supported": ["2026-07-28"], "requested": "1999"}));
    assert_eq!(text.get("id"), Some(&serde_json::Value::Null));
    // In the modern era an id is that of a request or none at all.
    let mut w = Writer::new(&mut buffer);
    Refusal::Malformed(cut).write(&mut w, None, frame, Era::Modern);
    let text: serde_json::Value = serde_json::from_slice(w.finish().unwrap()).unwrap();
    assert_eq!((text.get("id"), &text["error"]["code"]), (None, &serde_json::json!(-32700)));
    let said = text["error"]["message"].as_str().unwrap();
    assert!(said.contains("a lone surrogate in a \\u escape") && said.ends_with("at byte 34"), "{said}");
}

#[test]
fn requests_of_a_body_are_those_that_get_answers() {
    let ids = |body: &str| {
        let message = envelope::read(body.as_bytes()).unwrap();
        requests(body.as_bytes(), &message)
            .map(|id| String::from_utf8(id.of(body.as_bytes()).to_vec()).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#), ["\"a\""]);
    assert!(ids(r#"{"jsonrpc":"2.0","method":"x"}"#).is_empty());
    assert!(ids(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).is_empty());
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}, {"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":3,"result":{}},7,{"jsonrpc":"2.0","id":"b","method":"ping"}]"#;
    assert_eq!(ids(batch), ["1", "\"b\""]);
}

fn at(secs: u64) -> Instant {
    Instant::from_millis(secs * 1000)
}

fn table(count: usize) -> Sessions<Vec<sessions::Slot>> {
    Sessions::new(Duration::from_secs(100), vec![sessions::Slot::EMPTY; count])
}

#[test]
fn sessions_end_when_nobody_uses_them() {
    let mut sessions = table(2);
    assert_eq!(sessions.poll_timeout(), None);
    let (one, _) = sessions.open(at(0), 0xabc).unwrap();
    let (two, _) = sessions.open(at(0), u128::MAX).unwrap();
    assert_eq!(&one.text(), b"00000000000000000000000000000abc");
    assert_eq!(sessions.find(at(50), &one.text()), Ok(one));
    assert_eq!(sessions.poll_timeout(), Some(at(100)));
    assert_eq!(sessions.poll_expired(at(99)), None);
    assert_eq!(sessions.poll_expired(at(100)), Some(two));
    assert_eq!(sessions.find(at(100), &two.text()), Err(Refusal::UnknownSession));
    // An open stream keeps it, and its end begins the time anew.
    sessions.begin(one, 1).unwrap();
    assert_eq!(sessions.begin(one, 1), Err(Refusal::Limit(Limit::Streams(1))));
    assert_eq!((sessions.poll_timeout(), sessions.poll_expired(at(1000))), (None, None));
    sessions.end(at(1000), one);
    assert_eq!(sessions.poll_expired(at(1099)), None);
    assert_eq!(sessions.poll_expired(at(1100)), Some(one));
    assert_eq!((sessions.count(), sessions.close(one)), (0, false));
    // What is over is not touched by what is left of it.
    let (three, _) = sessions.open(at(1100), 0xabc).unwrap();
    assert_eq!(sessions.begin(two, 9), Err(Refusal::UnknownSession));
    sessions.end(at(2000), two);
    assert!(sessions.close(three));
}

#[test]
fn a_session_that_nobody_uses_gives_way() {
    let mut sessions = table(2);
    let (one, _) = sessions.open(at(0), 1).unwrap();
    let (two, _) = sessions.open(at(1), 2).unwrap();
    assert_eq!(sessions.open(at(1), 3), Err(Refusal::Limit(Limit::Sessions(2))));
    let spare = at(SPARE.as_secs());
    sessions.begin(one, 1).unwrap();
    assert_eq!(sessions.open(spare, 3), Err(Refusal::Limit(Limit::Sessions(2))));
    let (three, gone) = sessions.open(at(SPARE.as_secs() + 1), 3).unwrap();
    assert_eq!(gone, Some(two));
    assert_eq!(three.index(), two.index());
    assert_eq!(sessions.find(spare, &two.text()), Err(Refusal::UnknownSession));
}

#[test]
fn ids_of_sessions_are_read_as_they_are_written() {
    let mut sessions = table(1);
    let (one, _) = sessions.open(at(0), 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef).unwrap();
    let text = one.text();
    assert!(text.iter().all(u8::is_ascii_graphic));
    let upper = text.to_ascii_uppercase();
    let long = [&text[..], b"0"].concat();
    for other in [&upper[..], &text[1..], &long, b"", b"\xff", &[b' '; 32], &[0; 32]] {
        assert_eq!(sessions.find(at(0), other), Err(Refusal::UnknownSession));
    }
    assert_eq!(sessions.find(at(0), &text), Ok(one));
}

fn log(limit: usize, slots: usize) -> Log<Vec<events::Slot>> {
    Log::new(limit, vec![events::Slot::EMPTY; slots])
}

fn missed(log: &Log<Vec<events::Slot>>, last: EventId) -> Result<Vec<u64>, Refusal> {
    Ok(log.after(last)?.map(|(_, id)| id.number).collect())
}

#[test]
fn a_client_gets_what_it_missed_of_its_stream() {
    let mut log = log(100, 8);
    let first = log.number(1);
    let other = log.number(2);
    for stream in [1, 2, 1, 0, 1] {
        let id = log.number(stream);
        assert_eq!(log.push(id, 10).gone, 0);
    }
    assert_eq!(missed(&log, first), Ok(vec![3, 5, 7]));
    assert_eq!(missed(&log, other), Ok(vec![4]));
    assert_eq!(missed(&log, EventId { stream: 1, number: 5 }), Ok(vec![7]));
    assert_eq!(missed(&log, EventId { stream: 1, number: 7 }), Ok(vec![]));
    for number in [0, 8, u64::MAX] {
        assert_eq!(missed(&log, EventId { stream: 1, number }), Err(Refusal::UnknownEvent), "{number}");
    }
}

#[test]
fn what_is_lost_of_a_stream_is_known() {
    let mut log = log(30, 8);
    let (one, two) = (log.number(1), log.number(2));
    for stream in [1, 2, 2, 2] {
        let id = log.number(stream);
        log.push(id, 10);
    }
    // The event of the first is gone, and nothing of the second.
    assert_eq!((log.count(), log.bytes()), (3, 30));
    assert_eq!(missed(&log, one), Err(Refusal::UnknownEvent));
    assert_eq!(missed(&log, EventId { stream: 1, number: 3 }), Ok(vec![]));
    assert_eq!(missed(&log, two), Ok(vec![4, 5, 6]));
    // One that is too long is not kept, and nothing before it.
    let id = log.number(2);
    assert_eq!(log.push(id, 31), events::Pushed { gone: 3, kept: false });
    assert_eq!(missed(&log, two), Err(Refusal::UnknownEvent));
    assert_eq!(missed(&log, id), Ok(vec![]));
}

#[test]
fn ids_of_events_are_read_as_they_are_written() {
    for id in [EventId { stream: 0, number: 1 }, EventId { stream: u32::MAX, number: u64::MAX }] {
        let mut buffer = [0; 40];
        let mut w = Writer::new(&mut buffer);
        id.write(&mut w);
        assert_eq!(EventId::read(w.finish().unwrap()), Some(id));
    }
    for text in [
        "",
        "-",
        "1",
        "1-",
        "-1",
        "01-1",
        "1-01",
        "+1-1",
        "1--1",
        "1-1 ",
        "4294967296-1",
        "1-18446744073709551616",
        "a-1",
    ] {
        assert_eq!(EventId::read(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn only_pages_that_were_allowed_by_name_are_told_so() {
    let gate = Gate {
        local: IpAddr::from([127, 0, 0, 1]),
        hosts: &[] as &[&str],
        origins: &["https://Tool.example"],
        token: Some(b"t"),
    };
    let host: Pair<'_> = ("host", b"localhost");
    let wants: Pair<'_> = ("access-control-request-method", b"POST");
    let from = |origin: &'static str| -> Pair<'static> { ("origin", origin.as_bytes()) };
    let named = from("https://tool.example");
    assert_eq!(gate.page(&[host, named][..]), Some(&b"https://tool.example"[..]));
    assert_eq!(gate.asks_first(&[host, named, wants][..], None), Ok(true));
    // Without the token nothing else comes in.
    assert_eq!(gate.admit(&[host, named][..], None), Err(Refusal::Unauthorized));
    assert_eq!(gate.asks_first(&[host, named][..], None), Ok(false), "it asks for nothing");
    assert_eq!(
        gate.asks_first(&[("host", &b"evil.example"[..]), named, wants][..], None),
        Err(Refusal::Host)
    );
    assert_eq!(gate.asks_first(&[host, named, wants][..], Some("evil.example")), Err(Refusal::Host));
    for other in [
        "http://tool.example",
        "https://tool.example:1",
        "https://tool.example.evil",
        "null",
        "",
        "*",
        "http://localhost",
    ] {
        let headers = [host, from(other), wants];
        assert_eq!(gate.page(&headers[..]), None, "{other}");
        assert_eq!(gate.asks_first(&headers[..], None), Ok(false), "{other}");
    }
    assert_eq!(gate.page(&[host, named, named][..]), None);
    let none = Gate { origins: &[], ..gate };
    assert_eq!(none.page(&[host, named][..]), None);
}

#[test]
fn a_page_may_send_what_the_protocol_has() {
    let allowed = |asked: &[&str]| {
        let headers: Vec<Pair<'_>> =
            asked.iter().map(|value| ("access-control-request-headers", value.as_bytes())).collect();
        let mut buffer = vec![0; pages::allowed_length(&headers[..])];
        let mut w = Writer::new(&mut buffer);
        pages::write_allowed(&headers[..], &mut w);
        String::from_utf8(w.finish().unwrap().to_vec()).unwrap()
    };
    let usual = "authorization, content-type, accept, mcp-session-id, mcp-protocol-version, last-event-id, mcp-method, mcp-name";
    assert_eq!(allowed(&[]), usual);
    assert_eq!(allowed(&["content-type,x-other, cookie,Mcp-Param-,mcp-parameter"]), usual);
    assert_eq!(
        allowed(&["Mcp-Param-Region ,mcp-param-a b,mcp-param-\u{e9}", "x, mcp-param-n,mcp-param-n\r"]),
        format!("{usual}, Mcp-Param-Region, mcp-param-n, mcp-param-n")
    );
}

#[test]
fn long_bodies_leave_room_for_short_ones() {
    let mut bodies = bodies::Bodies::new(1 << 20);
    let long = 3 << 18;
    assert_eq!(bodies.grow(0, long + 1), Err(Refusal::Limit(Limit::Body(long))), "it never fits");
    assert_eq!(bodies.grow(0, long), Ok(()));
    assert_eq!(bodies.expect(bodies::SHORT + 1), Err(Refusal::Limit(Limit::Bodies(1 << 20))));
    assert_eq!(bodies.grow(0, bodies::SHORT), Ok(()));
    // The short one becomes a long one.
    assert_eq!(bodies.grow(bodies::SHORT, bodies::SHORT + 1), Err(Refusal::Limit(Limit::Bodies(1 << 20))));
    assert_eq!(bodies.held(), long + bodies::SHORT);
    bodies.release(long);
    assert_eq!(bodies.grow(bodies::SHORT, bodies::SHORT + 1), Ok(()));
    let refusal = Refusal::Limit(Limit::Bodies(1));
    assert_eq!((refusal.status(), refusal.retry_after()), (503, Some(1)));
}

#[test]
fn a_connection_whose_client_does_nothing_is_over() {
    let at = |seconds: u64| Instant::from_millis(seconds * 1000);
    let mut turns =
        turns::Turns::new(at(10), Duration::from_secs(30), Duration::from_secs(5), [turns::Slot::EMPTY; 2]);
    assert_eq!(turns.poll_timeout(), Some(at(40)), "it never began");
    let (one, two) = (turns.open(), turns.open());
    assert_eq!(turns.poll_timeout(), None, "answers may take long");
    turns.give(at(50), one);
    turns.give(at(52), two);
    assert_eq!(turns.poll_timeout(), Some(at(55)));
    turns.taken(one);
    assert_eq!(turns.poll_timeout(), Some(at(57)));
    // One that finds no room keeps the connection, and nothing more.
    let more = turns.open();
    turns.give(at(53), more);
    turns.close(at(54), two);
    turns.close(at(54), one);
    assert_eq!(turns.poll_timeout(), None);
    turns.close(at(60), more);
    assert_eq!(turns.poll_timeout(), Some(at(90)));
}
