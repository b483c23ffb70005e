//! Makes JSON texts, messages, and damaged ones.

use std::fmt;

use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Bytes that a failing test shows as text.
#[derive(Clone)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

fn space() -> impl Strategy<Value = &'static str> {
    prop_oneof![8 => Just(""), 2 => Just(" "), 1 => select(&["\n", "\t", "\r", "  \r\n "][..])]
}

/// A string with its quotes; one in some hundreds has a lone surrogate.
pub(crate) fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        300 => "[ -!#-\\[\\]-~]{0,12}".boxed(),
        100 => "[a-z ]{20,90}".boxed(),
        100 => any::<char>().prop_filter("stands for itself", |char| *char >= ' ' && *char != '"' && *char != '\\')
            .prop_map(String::from).boxed(),
        200 => select(&["\\\"", "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t"][..]).prop_map(String::from).boxed(),
        100 => any::<char>().prop_map(escaped).boxed(),
        2 => (0xd800u32..0xe000).prop_map(|half| format!("\\u{half:04x}")).boxed(),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn escaped(char: char) -> String {
    char.encode_utf16(&mut [0; 2])
        .iter()
        .map(|unit| if unit % 2 == 0 { format!("\\u{unit:04x}") } else { format!("\\u{unit:04X}") })
        .collect()
}

/// `text` as a string with its quotes, some characters written as escapes.
fn spelled(text: &'static str) -> impl Strategy<Value = String> {
    let plain = Just(format!("\"{text}\""));
    let odd = any::<u64>().prop_map(move |bits| {
        let inner: String = text
            .chars()
            .enumerate()
            .map(|(i, char)| if bits >> (i % 64) & 1 == 0 { escaped(char) } else { char.to_string() })
            .collect();
        format!("\"{inner}\"")
    });
    prop_oneof![9 => plain, 1 => odd]
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?(0|[1-9][0-9]{0,3})",
        "-?[1-9][0-9]{15,25}",
        "-?(0|[1-9][0-9]{0,5})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,4})?",
    ]
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => select(&["null", "true", "false", "{}", "[]", "[ ]", "{\n}"][..]).prop_map(String::from),
        2 => number(),
        3 => string(),
    ]
}

fn array(items: Vec<(String, &str)>) -> String {
    let items: Vec<String> = items.into_iter().map(|(item, space)| format!("{space}{item}{space}")).collect();
    format!("[{}]", items.join(","))
}

fn object(members: Vec<(String, String, &str)>) -> String {
    let members: Vec<String> = members
        .into_iter()
        .map(|(key, value, space)| format!("{space}{key}{space}:{space}{value}{space}"))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// A value, nested a little.
pub(crate) fn value() -> impl Strategy<Value = String> {
    scalar().prop_recursive(5, 40, 6, |inner| {
        let key = prop_oneof![string(), select(&["\"a\"", "\"_meta\"", "\"id\""][..]).prop_map(String::from)];
        prop_oneof![
            prop::collection::vec((inner.clone(), space()), 1..6).prop_map(array),
            prop::collection::vec((key, inner, space()), 1..6).prop_map(object),
        ]
    })
}

/// A value inside of many arrays and objects, around the bound of the depth.
pub(crate) fn deep() -> impl Strategy<Value = Bytes> {
    (1000usize..1050, any::<u64>(), scalar()).prop_map(|(depth, kinds, scalar)| {
        let is_object = |level: usize| kinds >> (level % 61) & 1 == 0;
        let opening = (0..depth).map(|level| if is_object(level) { "{\"a\":" } else { "[" });
        let closing = (0..depth).rev().map(|level| if is_object(level) { "}" } else { "]" });
        let text: String = opening.chain([scalar.as_str()]).chain(closing).collect();
        Bytes(text.into_bytes())
    })
}

/// Something like a message: right ones, and every way in which the members can be wrong together.
pub(crate) fn message() -> impl Strategy<Value = String> {
    let version = prop_oneof![30 => spelled("2.0"), 1 => scalar()];
    let id =
        prop_oneof![10 => "-?(0|[1-9][0-9]{0,20})", 5 => string(), 1 => Just("null".into()), 1 => scalar()];
    let method = prop_oneof![20 => select(&["\"tools/call\"", "\"a\\u0062\""][..]).prop_map(String::from), 1 => value()];
    let payload = || prop_oneof![20 => holder(), 1 => value()];
    let member = |often: u32, name: &'static str, value: BoxedStrategy<String>| {
        let times = prop_oneof![often => Just(1usize), 40 - often => Just(0), 1 => Just(2)];
        times.prop_flat_map(move |times| {
            prop::collection::vec((spelled(name), value.clone(), space()), times..=times)
        })
    };
    // Requests and answers are drawn apart, so that most are right; the last column makes them meet.
    let request = (
        member(39, "method", method.clone().boxed()),
        member(30, "params", payload().boxed()),
        member(1, "result", payload().boxed()),
        member(1, "error", payload().boxed()),
    );
    let answer = (
        member(1, "method", method.boxed()),
        member(1, "params", payload().boxed()),
        member(30, "result", payload().boxed()),
        member(10, "error", payload().boxed()),
    );
    (
        member(39, "jsonrpc", version.boxed()),
        member(34, "id", id.boxed()),
        prop_oneof![request, answer],
        prop::collection::vec((string(), value(), space()), 0..2),
    )
        .prop_map(|(version, id, (method, params, result, error), more)| {
            [version, id, method, params, result, error, more].concat()
        })
        .prop_shuffle()
        .prop_map(object)
}

/// Params or a result: an object that may have `_meta`.
/// An id or a token: of either type, and as odd as may be.
fn id() -> impl Strategy<Value = String> {
    let odd = &["\"\"", r#""\u0000""#, r#""0""#, "0", "-0", r#""a\"},{""#][..];
    prop_oneof![string(), "-?(0|[1-9][0-9]{0,24})", select(odd).prop_map(String::from)]
}

/// Members of an object, of these and any others, each at most once, in any order.
fn members(known: Vec<BoxedStrategy<String>>) -> impl Strategy<Value = String> {
    let others = prop::collection::vec(value(), 0..3).prop_map(|others| {
        others.iter().enumerate().map(|(at, value)| format!("\"o{at}\":{value}")).collect::<Vec<_>>()
    });
    let known: Vec<_> = known.into_iter().map(proptest::option::of).collect();
    (known, others, space()).prop_flat_map(|(known, mut others, space)| {
        others.extend(known.into_iter().flatten());
        Just(others).prop_shuffle().prop_map(move |all| all.join(&format!(",{space}")))
    })
}

fn member(name: &'static str, value: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    (spelled(name), value).prop_map(|(name, value)| format!("{name}:{value}")).boxed()
}

fn metadata(modern: bool) -> impl Strategy<Value = String> {
    let mut known = vec![
        member("progressToken", id()),
        member("dev.drowse/timeoutMs", number()),
        member("io.modelcontextprotocol/clientInfo", value()),
        member("io.modelcontextprotocol/logLevel", string()),
    ];
    if !modern {
        known.push(member("io.modelcontextprotocol/clientCapabilities", value()));
    }
    members(known).prop_map(move |members| {
        if !modern {
            return format!("{{{members}}}");
        }
        let comma = if members.is_empty() { "" } else { "," };
        format!(
            r#"{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}{comma}{members}}}"#
        )
    })
}

fn params(modern: bool) -> impl Strategy<Value = String> {
    let known = vec![
        member("name", string()),
        member("arguments", value()),
        member("inputResponses", value()),
        member("requestState", string()),
    ];
    let meta = match modern {
        true => metadata(true).prop_map(Some).boxed(),
        false => proptest::option::of(metadata(false)).boxed(),
    };
    (members(known), meta, any::<bool>()).prop_map(|(members, meta, first)| {
        let meta = meta.map(|meta| format!("\"_meta\":{meta}")).unwrap_or_default();
        let comma = if members.is_empty() || meta.is_empty() { "" } else { "," };
        if first { format!("{{{meta}{comma}{members}}}") } else { format!("{{{members}{comma}{meta}}}") }
    })
}

/// A request of a client of either era.
pub(crate) fn request() -> impl Strategy<Value = String> {
    let methods = &[
        "tools/call",
        "tools/list",
        "prompts/get",
        "prompts/list",
        "resources/read",
        "resources/list",
        "resources/templates/list",
        "completion/complete",
        "tasks/get",
    ][..];
    let params = prop_oneof![params(true).prop_map(Some), proptest::option::of(params(false))];
    (id(), select(methods), params, any::<bool>()).prop_map(|(id, method, params, first)| {
        let params = params.map(|params| format!(",\"params\":{params}")).unwrap_or_default();
        match first {
            true => format!(r#"{{"jsonrpc":"2.0","id":{id}{params},"method":"{method}"}}"#),
            false => format!(r#"{{"method":"{method}","id":{id},"jsonrpc":"2.0"{params}}}"#),
        }
    })
}

/// The params of a visit to an address.
fn visit() -> impl Strategy<Value = String> {
    members(vec![member("url", string()), member("elicitationId", string())]).prop_map(|members| {
        let comma = if members.is_empty() { "" } else { "," };
        format!("{{\"mode\":\"url\"{comma}{members}}}")
    })
}

/// The method and the params of a question.
fn question() -> impl Strategy<Value = String> {
    let form = members(vec![member("message", string()), member("mode", Just(r#""form""#.to_owned()))]);
    prop_oneof![
        form.prop_map(|params| format!(r#""method":"elicitation/create","params":{{{params}}}"#)),
        visit().prop_map(|params| format!(r#""params":{params},"method":"elicitation\/create""#)),
        value().prop_map(|value| {
            format!(r#""method":"sampling/createMessage","params":{{"messages":{value}}}"#)
        }),
        Just(r#""method":"roots/list""#.to_owned()),
    ]
}

/// What a server of either era says to a request.
pub(crate) fn said() -> impl Strategy<Value = String> {
    let inputs = prop::collection::vec((any::<u16>(), question()), 0..4).prop_map(|inputs| {
        let inputs =
            inputs.iter().enumerate().map(|(at, (key, asks))| format!("\"{key}\\\"{at}\":{{{asks}}}"));
        format!("{{{}}}", inputs.collect::<Vec<_>>().join(","))
    });
    let kinds = &[r#""complete""#, r#""input_required""#, r#""task""#, r#""com\u0070lete""#][..];
    let result = members(vec![
        member("resultType", select(kinds).prop_map(String::from)),
        member("ttlMs", number()),
        member("cacheScope", string()),
        member("isError", Just("true".to_owned())),
        member("inputRequests", inputs),
        member("requestState", string()),
    ]);
    let required = prop::collection::vec(visit(), 0..4)
        .prop_map(|visits| format!(r#"{{"elicitations":[{}]}}"#, visits.join(",")));
    let data = prop_oneof![required, value()];
    let codes = &["-32002", "-32602", "-32042", "-32050", "-32021", "-32603", "7"][..];
    let error = (select(codes), string(), data).prop_map(|(code, text, data)| {
        format!(r#""error":{{"data":{data},"message":{text},"code":{code}}}"#)
    });
    let answer = prop_oneof![result.prop_map(|result| format!("\"result\":{{{result}}}")), error];
    prop_oneof![
        6 => answer.prop_map(|answer| format!(r#"{{{answer},"id":77,"jsonrpc":"2.0"}}"#)),
        1 => (id(), question()).prop_map(|(id, asks)| format!(r#"{{"jsonrpc":"2.0","id":{id},{asks}}}"#)),
    ]
}

fn holder() -> impl Strategy<Value = String> {
    let meta = prop_oneof![
        10 => prop::collection::vec((string(), value(), space()), 0..3).prop_map(object),
        1 => value(),
    ];
    let metas = prop_oneof![10 => Just(1usize), 10 => Just(0), 1 => Just(2)].prop_flat_map(move |times| {
        prop::collection::vec((spelled("_meta"), meta.clone(), space()), times..=times)
    });
    (metas, prop::collection::vec((string(), value(), space()), 0..4))
        .prop_map(|(metas, more)| [metas, more].concat())
        .prop_shuffle()
        .prop_map(object)
}

#[derive(Clone, Debug)]
enum Damage {
    Remove(Index),
    Insert(Index, u8),
    Replace(Index, u8),
    Cut(Index),
    Repeat(Index, Index),
}

fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![3 => select(&b"{}[]\":,\\u0-.eE \n\r\t\0\x1f\x7f\xc3\xa9\xed\xf0\xff"[..]), 1 => any::<u8>()]
}

/// `text` with a few faults.
pub(crate) fn damaged(text: impl Strategy<Value = String>) -> impl Strategy<Value = Bytes> {
    let damage = prop_oneof![
        any::<Index>().prop_map(Damage::Remove),
        (any::<Index>(), byte()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        (any::<Index>(), byte()).prop_map(|(at, byte)| Damage::Replace(at, byte)),
        any::<Index>().prop_map(Damage::Cut),
        (any::<Index>(), any::<Index>()).prop_map(|(a, b)| Damage::Repeat(a, b)),
    ];
    (text, prop::collection::vec(damage, 1..4)).prop_map(|(text, damages)| {
        let mut bytes = text.into_bytes();
        for damage in damages {
            let length = bytes.len();
            match damage {
                Damage::Insert(at, byte) => bytes.insert(at.index(length + 1), byte),
                _ if length == 0 => {}
                Damage::Remove(at) => {
                    bytes.remove(at.index(length));
                }
                Damage::Replace(at, byte) => bytes[at.index(length)] = byte,
                Damage::Cut(at) => bytes.truncate(at.index(length)),
                Damage::Repeat(a, b) => {
                    let (a, b) = (a.index(length), b.index(length));
                    let part = bytes[a.min(b)..a.max(b)].to_vec();
                    bytes.splice(a.min(b)..a.min(b), part);
                }
            }
        }
        Bytes(bytes)
    })
}

/// Bytes that mean something to JSON, in any order.
pub(crate) fn soup() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(byte(), 0..40).prop_map(Bytes)
}

/// Lines of all kinds, with all kinds of ends.
pub(crate) fn stream() -> impl Strategy<Value = Bytes> {
    let line = prop_oneof![
        3 => message().prop_map(String::into_bytes),
        2 => damaged(message()).prop_map(|bytes| bytes.0),
        1 => value().prop_map(String::into_bytes),
        1 => soup().prop_map(|bytes| bytes.0),
        2 => prop::collection::vec(select(&b"a \r\t\""[..]), 0..12),
    ];
    let end = prop_oneof![
        3 => Just(&b"\n"[..]),
        1 => Just(&b"\r\n"[..]),
        1 => Just(&b"\r\r\n"[..]),
        1 => Just(&b"\n\n"[..]),
        1 => Just(&b""[..]),
    ];
    prop::collection::vec((line, end), 0..8)
        .prop_map(|lines| Bytes(lines.into_iter().flat_map(|(line, end)| [&line, end].concat()).collect()))
}

/// Server-sent events of all kinds, with all kinds of ends; maybe a byte-order mark before them.
pub(crate) fn events() -> impl Strategy<Value = Bytes> {
    let name =
        select(&["data", "data", "data", "id", "event", "retry", "dat", "foo", "", "Data", " data"][..]);
    let colon = select(&[": ", ": ", ":", ":  ", "", " :"][..]);
    let text = prop_oneof![
        3 => message().prop_map(String::into_bytes).boxed(),
        1 => damaged(message()).prop_map(|bytes| bytes.0).boxed(),
        3 => prop::collection::vec(select(&b"ab01: \t\0\xef"[..]), 0..12),
        1 => (250usize..260).prop_map(|length| vec![b'7'; length]),
        2 => (0u64..1000).prop_map(|number| number.to_string().into_bytes()),
        2 => Just(Vec::new()),
    ]
    .boxed();
    let end = || select(&["\n", "\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "\r\r", "\r\n\n", ""][..]);
    let line = prop_oneof![
        9 => (name, colon, text, end()).prop_map(|(name, colon, mut text, end)| {
            text.retain(|byte| !b"\r\n".contains(byte));
            [name.as_bytes(), colon.as_bytes(), &text, end.as_bytes()].concat()
        }),
        1 => prop::collection::vec(select(&b"data: \r\n\xef\xbb\xbf"[..]), 0..12),
    ];
    let mark = prop_oneof![6 => Just(&b""[..]), 1 => Just(&b"\xef\xbb\xbf"[..]), 1 => Just(&b"\xef\xbb"[..])];
    (mark, prop::collection::vec(line, 0..12))
        .prop_map(|(mark, lines)| Bytes([mark, &lines.concat()].concat()))
}
