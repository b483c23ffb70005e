//! What a legacy server refuses, for a modern client: addresses to visit first, and what the client did not declare.

use heapless::Vec;

use crate::capabilities::ClientCapabilities;
use crate::envelope::Message;
use crate::held::{Kind, MAX_QUESTIONS};
use crate::json;
use crate::method::Method;
use crate::span::Span;

/// The code of 2025-11-25 for a request that needs a visit first (client/elicitation, URL Elicitation Required Error).
const URL_REQUIRED: i64 = -32042;
/// What the modern era reserves for itself, save what it has defined (basic/index, Error Codes).
const RESERVED: core::ops::RangeInclusive<i64> = -32099..=-32023;
/// Not found, up to 2025-11-25.
const NOT_FOUND: i64 = -32002;

/// The code of a legacy server's error in the modern era; `None`: it is the same.
pub(super) fn modern_code(frame: &[u8], error: Span) -> Option<(Span, &'static [u8])> {
    let code = json::member(frame, error, "code")?;
    match json::as_i64(code.of(frame))? {
        NOT_FOUND => Some((code, b"-32602")),
        reserved if RESERVED.contains(&reserved) => Some((code, b"-32603")),
        _ => None,
    }
}

/// Whether a client may be answered that something is required first (basic/patterns/mrtr, Supported Requests).
#[must_use]
pub const fn may_require_input(method: Method) -> bool {
    matches!(method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead)
}

/// The addresses that a user has to visit before a legacy server takes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The params of each `elicitation/create`, objects.
    pub elicitations: Vec<Span, MAX_QUESTIONS>,
}

impl Visit {
    /// Reads an answer of a legacy server; `None`: it is another one, or wants what cannot be shown.
    #[must_use]
    pub fn of(frame: &[u8], message: &Message) -> Option<Self> {
        let Message::Error { error, .. } = *message else { return None };
        let code = json::member(frame, error, "code")?;
        if json::as_i64(code.of(frame)) != Some(URL_REQUIRED) {
            return None;
        }
        let data = object(frame, json::member(frame, error, "data")?)?;
        let list = json::member(frame, data, "elicitations").filter(|list| json::is_array(list.of(frame)))?;
        let mut elicitations = Vec::new();
        for one in json::elements(frame, list) {
            let params = object(frame, one)?;
            json::member(frame, params, "mode").filter(|mode| json::str_eq(mode.of(frame), "url"))?;
            elicitations.push(params).ok()?;
        }
        (!elicitations.is_empty()).then_some(Self { elicitations })
    }

    /// Its identifiers, JSON strings.
    pub fn ids<'f>(&self, frame: &'f [u8]) -> impl Iterator<Item = &'f [u8]> {
        let id = |params: &Span| json::member(frame, *params, "elicitationId").map(|id| id.of(frame));
        self.elicitations.iter().filter_map(id).filter(|id| json::is_string(id))
    }
}

/// Slices for the head and the end, and for each address.
const SLICES: usize = 3 + 5 * MAX_QUESTIONS + 1;
/// Where the answer to each goes.
const KEYS: [&[u8]; MAX_QUESTIONS] = [b"\"v1", b"\"v2", b"\"v3", b"\"v4", b"\"v5", b"\"v6", b"\"v7", b"\"v8"];

/// The answer to a request that needs visits first: an `input_required` result, as slices to be written one after the
/// other. `caller_id` is the id of the caller's request, raw.
///
/// It has no `requestState`: the request is over at the server, and comes again as another one.
#[must_use]
pub fn visit_first<'a>(caller_id: &'a [u8], frame: &'a [u8], visit: &Visit) -> Vec<&'a [u8], SLICES> {
    let mut out = Vec::new();
    let mut put = |bytes| {
        // Exactly what is put below fits.
        let _ = out.push(bytes);
    };
    put(br#"{"jsonrpc":"2.0","id":"#.as_slice());
    put(caller_id);
    put(br#","result":{"resultType":"input_required","inputRequests":{"#);
    let mut separator: &[u8] = b"";
    for (params, key) in visit.elicitations.iter().zip(KEYS) {
        put(separator);
        put(key);
        put(br#"":{"method":"elicitation/create","params":"#);
        let [before, after] = without_elicitation_id(frame, *params);
        put(before);
        put(after);
        separator = b"},";
    }
    put(b"}}}}");
    out
}

/// An object without the identifier that the modern era has no use for, in two slices.
pub(super) fn without_elicitation_id(frame: &[u8], params: Span) -> [&[u8]; 2] {
    match member_range(frame, params, "elicitationId") {
        Some(gone) => {
            [Span::new(params.start(), gone.start()).of(frame), Span::new(gone.end(), params.end()).of(frame)]
        }
        None => [params.of(frame), b""],
    }
}

/// Where a member of an object stands, with one of the commas beside it.
pub(super) fn member_range(frame: &[u8], object: Span, name: &str) -> Option<Span> {
    let mut before = None;
    let mut found: Option<Span> = None;
    for member in json::members(frame, object) {
        match (found, before) {
            // The first: up to the next.
            (Some(gone), _) => return Some(Span::new(gone.start(), member.key.start())),
            (None, before) if json::str_eq(member.key.of(frame), name) => {
                let end = member.value.end();
                match before {
                    Some(before) => return Some(Span::new(before, end)),
                    None => found = Some(Span::new(member.key.start(), end)),
                }
            }
            (None, _) => before = Some(member.value.end()),
        }
    }
    found
}

/// Whether a client took every address that it was to visit: who declines does not want the request to be put again.
#[must_use]
pub fn accepts_all(frame: &[u8], responses: Span) -> bool {
    json::is_object(responses.of(frame))
        && json::members(frame, responses).all(|member| {
            object(frame, member.value)
                .and_then(|response| json::member(frame, response, "action"))
                .is_some_and(|action| json::str_eq(action.of(frame), "accept"))
        })
}

/// Whether a call failed, so that what its server was not told for want of a capability may be why.
#[must_use]
pub const fn is_failure(message: &Message) -> bool {
    match *message {
        Message::Error { .. } => true,
        Message::Response { is_error, .. } => is_error,
        _ => false,
    }
}

/// The answer to a request for which a capability is needed that its client did not declare (basic/index, Error Codes),
/// as slices to be written one after the other. `caller_id` is the id of the caller's request, raw.
#[must_use]
pub fn missing_capability(caller_id: &[u8], kind: Kind) -> [&[u8]; 5] {
    [
        br#"{"jsonrpc":"2.0","id":"#,
        caller_id,
        br#","error":{"code":-32021,"message":"the server needs a capability for this that the client did not declare","data":{"requiredCapabilities":"#,
        kind.requires(),
        b"}}}",
    ]
}

/// What a visit needs of a client, if that has not declared it.
#[must_use]
pub const fn unvisited(capabilities: ClientCapabilities) -> Option<Kind> {
    if capabilities.url { None } else { Some(Kind::Url) }
}

fn object(frame: &[u8], span: Span) -> Option<Span> {
    json::is_object(span.of(frame)).then_some(span)
}

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod tests {
    use std::string::String;

    use super::*;
    use crate::envelope;

    fn required(elicitations: &str) -> String {
        std::format!(
            r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":-32042,"message":"m","data":{{"elicitations":{elicitations}}}}}}}"#
        )
    }

    fn shown(text: &str) -> Option<String> {
        let frame = text.as_bytes();
        let visit = Visit::of(frame, &envelope::read(frame).unwrap())?;
        let text = visit_first(b"0", frame, &visit).concat();
        envelope::read(&text).unwrap();
        Some(String::from_utf8(text).unwrap())
    }

    #[test]
    fn addresses_are_shown_without_their_identifiers() {
        let text = required(
            r#"[{"mode":"url","elicitationId":"i","url":"u","message":"m"},{"elicitation\u0049d":"j","mode":"url"},{"mode":"url","elicitationId":"k"}]"#,
        );
        assert_eq!(
            shown(&text).unwrap(),
            r#"{"jsonrpc":"2.0","id":0,"result":{"resultType":"input_required","inputRequests":{"v1":{"method":"elicitation/create","params":{"mode":"url","url":"u","message":"m"}},"v2":{"method":"elicitation/create","params":{"mode":"url"}},"v3":{"method":"elicitation/create","params":{"mode":"url"}}}}}"#
        );
        let visit = Visit::of(text.as_bytes(), &envelope::read(text.as_bytes()).unwrap()).unwrap();
        assert_eq!(
            visit.ids(text.as_bytes()).collect::<std::vec::Vec<_>>(),
            [br#""i""#, br#""j""#, br#""k""#]
        );
        let nine = [r#"{"mode":"url"}"#; 9].join(",");
        for bad in ["[]", "{}", "1", r#"[{"mode":"form"}]"#, "[{}]", "[1]", &std::format!("[{nine}]")] {
            assert_eq!(shown(&required(bad)), None, "{bad}");
        }
        assert!(shown(&required(&std::format!("[{}]", [r#"{"mode":"url"}"#; 8].join(",")))).is_some());
    }

    #[test]
    fn who_declines_does_not_want_it_again() {
        let accepts = |text: &str| accepts_all(text.as_bytes(), json::scan(text.as_bytes()).unwrap());
        assert!(accepts(r#"{"v1":{"action":"accept"},"v2":{"action":"\u0061ccept"}}"#));
        assert!(accepts("{}"));
        for no in
            [r#"{"v1":{"action":"accept"},"v2":{"action":"decline"}}"#, r#"{"v1":{}}"#, r#"{"v1":1}"#, "[]"]
        {
            assert!(!accepts(no), "{no}");
        }
    }

    #[test]
    fn codes_that_the_modern_era_keeps_for_itself_are_not_used() {
        let code = |code: &str| {
            let error = std::format!(r#"{{"code":{code},"message":"m"}}"#);
            modern_code(error.as_bytes(), json::scan(error.as_bytes()).unwrap()).map(|(_, code)| code)
        };
        assert_eq!(code("-32002"), Some(&b"-32602"[..]));
        for reserved in ["-32042", "-32099", "-32023"] {
            assert_eq!(code(reserved), Some(&b"-32603"[..]));
        }
        for kept in ["-32022", "-32020", "-32019", "-32100", "-32602", "1", "-32001", "1.5"] {
            assert_eq!(code(kept), None, "{kept}");
        }
    }

    #[test]
    fn what_is_required_is_what_a_client_would_declare() {
        for kind in [Kind::Form, Kind::Url, Kind::Sampling, Kind::SamplingWithTools] {
            let text = missing_capability(b"\"x\"", kind).concat();
            let Message::Error { error, .. } = envelope::read(&text).unwrap() else { panic!() };
            let data = json::member(&text, error, "data").unwrap();
            let required = json::member(&text, data, "requiredCapabilities").unwrap();
            assert!(kind.is_covered(ClientCapabilities::read(&text, required)));
        }
    }
}
