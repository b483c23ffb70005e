#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::*;
use EnvelopeErrorKind::{EmptyBatch, Invalid, Json, Misplaced, Missing, NoKind, NotAMessage, Repeated};

/// A message as text, its absent parts as `-`.
fn shown(frame: &str) -> String {
    let of = |span: Span| core::str::from_utf8(span.of(frame.as_bytes())).unwrap().to_string();
    let maybe = |span: Option<Span>| span.map_or_else(|| "-".to_string(), of);
    match read(frame.as_bytes()).unwrap_or_else(|error| panic!("{error}: {frame}")) {
        Message::Request { id, method, params, meta, .. } => {
            format!("request {} {} {} {}", of(id), of(method), maybe(params), maybe(meta))
        }
        Message::Notification { method, params, meta } => {
            format!("notification {} {} {}", of(method), maybe(params), maybe(meta))
        }
        Message::Response { id, result, meta, .. } => {
            format!("response {} {} {}", of(id), of(result), maybe(meta))
        }
        Message::Error { id, error } => format!("error {} {}", maybe(id), of(error)),
        Message::Batch { items } => format!("batch {}", of(items)),
    }
}

#[test]
fn reads_every_kind() {
    let cases = [
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, r#"request 1 "ping" - -"#),
        (
            r#" { "id" : "a" , "params" : {"_meta":{"x":1},"y":[]} , "method":"m", "jsonrpc":"2.0", "more":[1] } "#,
            r#"request "a" "m" {"_meta":{"x":1},"y":[]} {"x":1}"#,
        ),
        (r#"{"jsonrpc":"2.0","method":"n","params":{}}"#, r#"notification "n" {} -"#),
        (
            r#"{"jsonrpc":"2.0","method":"n","params":{"a":{"_meta":{}},"_meta":{}}}"#,
            r#"notification "n" {"a":{"_meta":{}},"_meta":{}} {}"#,
        ),
        (
            r#"{"result":{"content":[],"_meta":{"k":"}"}},"jsonrpc":"2.0","id":0}"#,
            r#"response 0 {"content":[],"_meta":{"k":"}"}} {"k":"}"}"#,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":{"a":{"_meta":1}}}"#, r#"response 1 {"a":{"_meta":1}} -"#),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#, r#"error 1 {"code":1,"message":""}"#),
        (r#"{"jsonrpc":"2.0","id":null,"error":{}}"#, "error - {}"),
        (r#"{"jsonrpc":"2.0","error":{}}"#, "error - {}"),
        (r#"[{"a":1},2]"#, r#"batch [{"a":1},2]"#),
        (" [1] ", "batch [1]"),
    ];
    for (frame, expected) in cases {
        assert_eq!(shown(frame), expected);
    }
}

#[test]
fn names_are_compared_after_unescaping() {
    assert_eq!(
        shown(
            r#"{"jsonrp\u0063":"\u0032.0","\u0069d":1,"m\u0065thod":"a\u0062","par\u0061ms":{"\u005fmeta":{}}}"#
        ),
        r#"request 1 "a\u0062" {"\u005fmeta":{}} {}"#
    );
    assert_eq!(
        shown(r#"{"jsonrpc":"2.0","id\u0000":1,"\\u0069d":2,"method":"m"}"#),
        r#"notification "m" - -"#
    );
}

#[test]
fn ids_stay_as_they_are() {
    for id in ["0", "-0", "-1", "123456789012345678901234567890", r#""""#, r#""\u0031""#, "\"é\"", r#""1""#]
    {
        let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
        assert_eq!(shown(&request), format!(r#"request {id} "m" - -"#));
        let response = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        assert_eq!(shown(&response), format!("response {id} {{}} -"));
    }
}

#[track_caller]
fn refused(frame: &str) -> (EnvelopeErrorKind, Option<&str>, bool) {
    let error = read(frame.as_bytes()).expect_err(frame);
    assert_eq!(error.code(), if matches!(error.kind, Json(_)) { -32700 } else { -32600 });
    assert!(error.offset as usize <= frame.len());
    let id = error.id.map(|id| core::str::from_utf8(id.of(frame.as_bytes())).unwrap());
    (error.kind, id, error.is_response)
}

#[test]
fn refuses_what_is_not_exactly_one_message() {
    use Part::{Error, Id, Meta, Method, Params, Result, Version};

    let cases = [
        ("1", NotAMessage, None, true),
        ("\"a\"", NotAMessage, None, true),
        ("null", NotAMessage, None, true),
        ("[]", EmptyBatch, None, true),
        (" [ ] ", EmptyBatch, None, true),
        ("{}", Missing(Version), None, true),
        (r#"{"id":1,"method":"m"}"#, Missing(Version), Some("1"), false),
        (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, Invalid(Version), Some("1"), false),
        (r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, Invalid(Version), Some("1"), false),
        (r#"{"jsonrpc":"2.0"}"#, NoKind, None, true),
        (r#"{"jsonrpc":"2.0","id":1}"#, NoKind, Some("1"), true),
        // Ids.
        (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, Invalid(Id), None, false),
        (r#"{"jsonrpc":"2.0","id":1.0,"method":"m"}"#, Invalid(Id), None, false),
        (r#"{"jsonrpc":"2.0","id":1e2,"method":"m"}"#, Invalid(Id), None, false),
        (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, Invalid(Id), None, false),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#, Invalid(Id), None, false),
        (r#"{"jsonrpc":"2.0","id":{},"result":{}}"#, Invalid(Id), None, true),
        (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, Invalid(Id), None, true),
        (r#"{"jsonrpc":"2.0","id":1.5,"error":{}}"#, Invalid(Id), None, true),
        (r#"{"jsonrpc":"2.0","result":{}}"#, Missing(Id), None, true),
        // Types.
        (r#"{"jsonrpc":"2.0","id":1,"method":1}"#, Invalid(Method), Some("1"), false),
        (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, Invalid(Method), Some("1"), false),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[]}"#, Invalid(Params), Some("1"), false),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":null}"#, Invalid(Params), Some("1"), false),
        (r#"{"jsonrpc":"2.0","id":"1","result":[]}"#, Invalid(Result), Some("\"1\""), true),
        (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, Invalid(Result), Some("1"), true),
        (r#"{"jsonrpc":"2.0","id":1,"error":"e"}"#, Invalid(Error), Some("1"), true),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":1}}"#, Invalid(Meta), Some("1"), false),
        (r#"{"jsonrpc":"2.0","id":1,"result":{"_meta":null}}"#, Invalid(Meta), Some("1"), true),
        // Combinations.
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, Misplaced(Error), Some("1"), true),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{}}"#, Misplaced(Result), Some("1"), false),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","error":{}}"#, Misplaced(Error), Some("1"), false),
        (r#"{"jsonrpc":"2.0","id":1,"params":{},"result":{}}"#, Misplaced(Params), Some("1"), true),
        // Repetitions, under any spelling.
        (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"m"}"#, Repeated(Version), Some("1"), false),
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}"#, Repeated(Id), None, false),
        (r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"m"}"#, Repeated(Id), None, false),
        (r#"{"jsonrpc":"2.0","id":null,"id":2,"error":{}}"#, Repeated(Id), None, true),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","\u006dethod":"n"}"#, Repeated(Method), Some("1"), false),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{},"params":{}}"#,
            Repeated(Params),
            Some("1"),
            false,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"r\u0065sult":{}}"#, Repeated(Result), Some("1"), true),
        (r#"{"jsonrpc":"2.0","id":1,"error":{},"error":{}}"#, Repeated(Error), Some("1"), true),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{},"\u005fmeta":{}}}"#,
            Repeated(Meta),
            Some("1"),
            false,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":{"_meta":{},"_meta":{}}}"#, Repeated(Meta), Some("1"), true),
    ];
    for (frame, kind, id, is_response) in cases {
        assert_eq!(refused(frame), (kind, id, is_response), "{frame}");
    }
}

#[test]
fn malformed_json_outweighs_broken_rules_and_still_gives_the_id() {
    use JsonErrorKind::{ExpectedCommaOrEnd, LoneSurrogate, TrailingBytes, UnexpectedEnd};

    let cases = [
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m""#, UnexpectedEnd, None, false),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m" "params":{}}"#, ExpectedCommaOrEnd, Some("1"), false),
        // After this fault at the top a method might stand, so it is not taken for an answer.
        (r#"{"jsonrpc":"2.0","id":1 "method":"m"}"#, ExpectedCommaOrEnd, None, true),
        (r#"{"jsonrpc":"2.0","result":{"a":"\ud800"},"id":"x"}"#, LoneSurrogate, Some("\"x\""), true),
        (r#"{"jsonrpc":"2.0","id":7,"result":{"a":"#, UnexpectedEnd, Some("7"), true),
        (r#"{"jsonrpc":"2.0","id":7,"params":{"a":"#, UnexpectedEnd, None, true),
        (r#"{"jsonrpc":"2.0","id":7,"method":"m"}{"id":8}"#, TrailingBytes, Some("7"), false),
        (r#"{"jsonrpc":"2.0","method":"m","id":"\ud800"}"#, LoneSurrogate, None, false),
        ("", JsonErrorKind::Empty, None, true),
        ("\u{feff}{}", JsonErrorKind::ByteOrderMark, None, true),
    ];
    for (frame, kind, id, is_response) in cases {
        assert_eq!(refused(frame), (Json(kind), id, is_response), "{frame}");
    }
    let error = read(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"a\":\"\xff\"}}").unwrap_err();
    assert_eq!((error.kind, error.id), (Json(JsonErrorKind::InvalidUtf8), Some(Span::new(22, 23))));
}

#[test]
fn depth_counts_from_the_top_of_the_frame() {
    let frame = |depth: usize| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":{}{}}}}}"#, "[".repeat(depth), "]".repeat(depth))
    };
    assert!(read(frame(json::MAX_DEPTH - 2).as_bytes()).is_ok());
    // What was open in one member is closed in the next.
    let more = frame(3).replace("}}", &format!("}},\"more\":{}{}}}", "[".repeat(1023), "]".repeat(1023)));
    assert!(read(more.as_bytes()).is_ok());
    let error = read(frame(json::MAX_DEPTH - 1).as_bytes()).unwrap_err();
    assert_eq!((error.kind, error.id), (Json(JsonErrorKind::TooDeep), Some(Span::new(22, 23))));
}

#[test]
fn items_of_a_batch_are_read_one_by_one() {
    let frame = br#" [ {"jsonrpc":"2.0","method":"a"} , 1 ] "#;
    let Ok(Message::Batch { items }) = read(frame) else { panic!() };
    let kinds: Vec<_> =
        batch(frame, items).map(|item| read(item.of(frame)).map_err(|error| error.kind)).collect();
    assert!(matches!(kinds[..], [Ok(Message::Notification { .. }), Err(NotAMessage)]), "{kinds:?}");
}

#[test]
fn says_what_is_wrong() {
    let text = |frame: &str| format!("{}", read(frame.as_bytes()).unwrap_err());
    assert_eq!(text(r#"{"jsonrpc":"2.0","id":1,"id":2}"#), r#""id" is repeated at byte 24"#);
    assert_eq!(text(r#"{"jsonrpc":"2"}"#), r#""jsonrpc" must be "2.0" at byte 11"#);
    assert_eq!(text("{"), "the JSON text ends too early at byte 1");
}
