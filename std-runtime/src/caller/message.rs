//! Requests as lines, and lines as answers. Payloads stay bytes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use drowse_core::logging::Level;
use drowse_core::message::META_LOG_LEVEL;
use drowse_core::relay::wire;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Request;
use super::error::{CallError, RpcError};
use crate::input::{ClientCapabilities, capabilities_json};
use crate::wire::{
    Envelope, ErrorData, GOAWAY, Goaway, META_TIMEOUT, PROTOCOL_VERSION, RENEWED, Renewed, UNASKED, Unasked,
};

/// A request as one line, newline included.
pub(super) fn request(
    id: u64,
    request: &Request<'_>,
    capabilities: ClientCapabilities,
    log: Option<Level>,
) -> Result<Vec<u8>, CallError> {
    let bad = |error: serde_json::Error| CallError::BadParams {
        method: request.method.to_owned(),
        what: error.to_string(),
    };
    let params = match request.params.trim() {
        "" => Members::default(),
        text => serde_json::from_str(text).map_err(bad)?,
    };
    let mut line = Vec::with_capacity(request.params.len() + 512);
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    line.extend_from_slice(id.to_string().as_bytes());
    line.extend_from_slice(b",\"method\":");
    write(&mut line, request.method).map_err(bad)?;
    line.extend_from_slice(b",\"params\":{\"_meta\":{");
    // What the caller says of itself comes from here; anything else in a `_meta` of its own is passed on.
    let ours = [
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/clientCapabilities",
        "io.modelcontextprotocol/clientInfo",
        META_TIMEOUT,
        "progressToken",
    ];
    for (key, value) in &params.0 {
        if key == "_meta" {
            let meta: Members<'_> = serde_json::from_str(value.get()).map_err(bad)?;
            let is_ours = |key: &str| ours.contains(&key) || log.is_some() && key == META_LOG_LEVEL;
            for (key, value) in meta.0.iter().filter(|(key, _)| !is_ours(key)) {
                member(&mut line, key, value.get()).map_err(bad)?;
                line.push(b',');
            }
        }
    }
    let version = format!("\"{PROTOCOL_VERSION}\"");
    member(&mut line, ours[0], &version).map_err(bad)?;
    line.push(b',');
    member(&mut line, ours[1], &capabilities_json(capabilities)).map_err(bad)?;
    line.push(b',');
    let info = concat!("{\"name\":\"drowse\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}");
    member(&mut line, ours[2], info).map_err(bad)?;
    if let Some(level) = log {
        line.push(b',');
        line.extend_from_slice(level.meta());
    }
    if let Some(timeout) = request.timeout {
        line.push(b',');
        member(&mut line, META_TIMEOUT, &timeout.as_millis().max(1).to_string()).map_err(bad)?;
    }
    if request.progress.is_some() {
        line.push(b',');
        member(&mut line, "progressToken", &id.to_string()).map_err(bad)?;
    }
    line.push(b'}');
    for (key, value) in params.0.iter().filter(|(key, _)| key != "_meta") {
        line.push(b',');
        member(&mut line, key, value.get()).map_err(bad)?;
    }
    line.extend_from_slice(b"}}");
    // A newline in JSON is white space, or escaped; in a line it would be the line's end.
    for byte in &mut line {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line.push(b'\n');
    Ok(line)
}

/// The cancellation of a request as one line.
pub(super) fn cancel(id: u64, reason: &str) -> Vec<u8> {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id},\"reason\":\"{reason}\"}}}}\n"
    )
    .into_bytes()
}

/// What a line from a bridge says.
pub(super) enum Incoming<'a> {
    /// The answer to a request: where its result stands in the line.
    Result { id: u64, result: Range<usize> },
    /// The answer to a request.
    Error { id: u64, error: RpcError, data: Option<ErrorData> },
    /// Progress of a request of ours: the notification's params.
    Progress(&'a str),
    /// A log message of the server: the notification's params.
    Message(&'a str),
    /// The connection ends.
    Goaway(u64),
    /// The server had ended the session, or itself, and a fresh one answers.
    Renewed(Renewed),
    /// The server asked something, and was refused.
    Unasked(Unasked),
    /// A subscription began: its request, and the URIs that will be heard of.
    Acknowledged { id: u64, uris: Vec<String> },
    /// A resource of a subscription was updated.
    Updated { id: u64 },
    /// Anything else: other notifications, answers to ids that are not ours.
    Other,
}

/// Reads a line.
pub(super) fn parse(line: &[u8]) -> Result<Incoming<'_>, serde_json::Error> {
    let message: Message<'_> = serde_json::from_slice(line)?;
    if let Some(method) = message.method {
        let params = message.params.map_or("{}", RawValue::get);
        return Ok(match method.as_ref() {
            GOAWAY => Incoming::Goaway(serde_json::from_str::<Goaway>(params)?.last),
            RENEWED => Incoming::Renewed(serde_json::from_str(params).unwrap_or_default()),
            UNASKED => serde_json::from_str(params).map_or(Incoming::Other, Incoming::Unasked),
            "notifications/message" => Incoming::Message(params),
            "notifications/progress" => Incoming::Progress(params),
            wire::ACKNOWLEDGED | wire::UPDATED => match serde_json::from_str::<Announcement>(params) {
                Ok(Announcement { meta: Subscribed { id }, notifications }) => match notifications {
                    Some(Heard { uris }) => Incoming::Acknowledged { id, uris },
                    None if method == wire::ACKNOWLEDGED => Incoming::Acknowledged { id, uris: Vec::new() },
                    None => Incoming::Updated { id },
                },
                Err(_) => Incoming::Other,
            },
            _ => Incoming::Other,
        });
    }
    let Some(Ok(id)) = message.id.map(|id| id.get().parse()) else { return Ok(Incoming::Other) };
    if let Some(error) = message.error {
        let Answer { code, message, data } = serde_json::from_str(error.get())?;
        let ours =
            data.and_then(|data| serde_json::from_str(data.get()).ok()).map(|Envelope { drowse }| drowse);
        let data = data.map(|data| data.get().to_owned());
        return Ok(Incoming::Error { id, error: RpcError { code, message, data }, data: ours });
    }
    let Some(result) = message.result else { return Ok(Incoming::Other) };
    // A raw value borrows from the line: the distance of the two is its place.
    let start = (result.get().as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
    Ok(Incoming::Result { id, result: start..start + result.get().len() })
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The params of what a subscription says.
#[derive(Deserialize)]
struct Announcement {
    #[serde(rename = "_meta")]
    meta: Subscribed,
    #[serde(default)]
    notifications: Option<Heard>,
}

#[derive(Deserialize)]
struct Subscribed {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    id: u64,
}

#[derive(Deserialize)]
struct Heard {
    #[serde(default, rename = "resourceSubscriptions")]
    uris: Vec<String>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

fn member(line: &mut Vec<u8>, key: &str, value: &str) -> Result<(), serde_json::Error> {
    write(line, key)?;
    line.push(b':');
    line.extend_from_slice(value.as_bytes());
    Ok(())
}

fn write<T: Serialize + ?Sized>(line: &mut Vec<u8>, value: &T) -> Result<(), serde_json::Error> {
    serde_json::to_writer(line, value)
}

/// The members of an object in their order, their values untouched.
#[derive(Default)]
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry()? {
                    members.push((key, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::wire::{Kind, Ran};

    fn line(params: &str, timeout: Option<Duration>) -> Value {
        let request_ = Request { method: "tools/call", params, timeout, progress: None };
        let line = request(7, &request_, ClientCapabilities::default(), None).unwrap();
        let (last, rest) = line.split_last().unwrap();
        assert_eq!(*last, b'\n');
        assert!(!rest.contains(&b'\n'));
        serde_json::from_slice(rest).unwrap()
    }

    #[test]
    fn requests_carry_their_meta() {
        let value = line("", None);
        assert_eq!(value["id"], 7);
        assert_eq!(value["method"], "tools/call");
        assert_eq!(
            value["params"]["_meta"],
            json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "drowse", "version": env!("CARGO_PKG_VERSION")},
            })
        );
        let value = line("{\"a\": [1,\n2],\r\n \"b\\u0022\":\"x\\ny\"}", Some(Duration::from_micros(1)));
        assert_eq!(value["params"]["a"], json!([1, 2]));
        assert_eq!(value["params"]["b\""], "x\ny");
        assert_eq!(value["params"]["_meta"][META_TIMEOUT], 1);
    }

    #[test]
    fn a_meta_of_the_callers_own_is_kept_where_it_does_not_contradict() {
        let value = line(
            r#"{"_meta":{"x/y":1,"progressToken":5,"io.modelcontextprotocol/protocolVersion":"0"}}"#,
            None,
        );
        let meta = &value["params"]["_meta"];
        assert_eq!(meta["x/y"], 1);
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta.get("progressToken"), None);
        let mut seen = |_: &str| {};
        let with = Request { method: "m", params: "{}", timeout: None, progress: Some(&mut seen) };
        let value: Value =
            serde_json::from_slice(&request(9, &with, ClientCapabilities::default(), None).unwrap()).unwrap();
        assert_eq!(value["params"]["_meta"]["progressToken"], 9);
    }

    #[test]
    fn what_the_caller_can_be_asked_for_is_declared() {
        let request_ = Request { method: "m", params: "", timeout: None, progress: None };
        let capabilities = ClientCapabilities { form: true, roots: true, ..ClientCapabilities::default() };
        let value: Value =
            serde_json::from_slice(&request(1, &request_, capabilities, None).unwrap()).unwrap();
        let declared = &value["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(*declared, json!({"elicitation": {"form": {}}, "roots": {}}));
    }

    #[test]
    fn numbers_and_spelling_of_params_are_untouched() {
        let params = r#"{"n":123456789012345678901234567890.10,"e":"\u00e9","dup":1,"dup":2}"#;
        let request_ = Request { method: "m", params, timeout: None, progress: None };
        let line =
            String::from_utf8(request(1, &request_, ClientCapabilities::default(), None).unwrap()).unwrap();
        assert!(line.ends_with(&format!(",{}}}\n", &params[1..])), "{line}");
    }

    #[test]
    fn params_that_are_no_object_are_refused() {
        for params in ["[]", "3", "{", "{}{}", "{\"_meta\":3}"] {
            let request_ = Request { method: "m", params, timeout: None, progress: None };
            assert!(
                matches!(
                    request(1, &request_, ClientCapabilities::default(), None),
                    Err(CallError::BadParams { .. })
                ),
                "{params}"
            );
        }
    }

    #[test]
    fn answers() {
        let line = br#"{"jsonrpc":"2.0","id":7,"result": {"a":"\u00e9"} }"#;
        let Incoming::Result { id: 7, result } = parse(line).unwrap() else { panic!() };
        assert_eq!(&line[result], br#"{"a":"\u00e9"}"#);
        let line = br#"{"id":7,"error":{"code":-32000,"message":"no","data":{"x":1}}}"#;
        let Incoming::Error { id: 7, error, data: None } = parse(line).unwrap() else { panic!() };
        assert_eq!(
            (error.code, error.message.as_str(), error.data.as_deref()),
            (-32000, "no", Some("{\"x\":1}"))
        );
        let line = br#"{"id":7,"error":{"code":-32001,"message":"late","data":{"drowse":{"kind":"timeout","ran":"unknown"}}}}"#;
        let Incoming::Error { data: Some(data), .. } = parse(line).unwrap() else { panic!() };
        assert_eq!(data, ErrorData::new(Kind::Timeout, Ran::Unknown));
        let line =
            br#"{"id":7,"error":{"code":1,"message":"","data":{"drowse":{"kind":"brand-new","ran":"no"}}}}"#;
        let Incoming::Error { data: Some(data), .. } = parse(line).unwrap() else { panic!() };
        assert_eq!(data.kind, Kind::Unknown);
    }

    #[test]
    fn notifications_and_strangers() {
        let line = br#"{"method":"notifications/drowse/goaway","params":{"last":3}}"#;
        assert!(matches!(parse(line).unwrap(), Incoming::Goaway(3)));
        let line = br#"{"method":"notifications/progress","params":{"progressToken":1,"progress":2}}"#;
        assert!(matches!(parse(line).unwrap(), Incoming::Progress(r#"{"progressToken":1,"progress":2}"#)));
        let line = br#"{"method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"uri":"a"}}"#;
        assert!(matches!(parse(line).unwrap(), Incoming::Updated { id: 7 }));
        let line = br#"{"method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"resourceSubscriptions":["a"]}}}"#;
        let Incoming::Acknowledged { id: 7, uris } = parse(line).unwrap() else { panic!() };
        assert_eq!(uris, ["a"]);
        for line in [
            "{}",
            r#"{"method":"notifications/resources/updated","params":{"uri":"a"}}"#,
            r#"{"id":"x","result":{}}"#,
            r#"{"id":1}"#,
            r#"{"method":"x"}"#,
            r#"{"id":null,"result":{}}"#,
        ] {
            assert!(matches!(parse(line.as_bytes()).unwrap(), Incoming::Other), "{line}");
        }
        assert!(parse(b"garbage").is_err());
        assert!(parse(b"{\"method\":\"notifications/drowse/goaway\"}").is_err());
    }
}
