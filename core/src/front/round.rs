//! What a modern server wants of its caller before it can answer (`input_required`, basic/patterns/mrtr), for a client
//! that is asked by requests instead.

use heapless::Vec;

use crate::capabilities::ClientCapabilities;
use crate::held::Kind;
use crate::json;
use crate::message::Writer;
use crate::span::Span;
use crate::splice::RequestParts;

/// The most that a server may want at once.
pub const MAX_INPUTS: usize = 8;
/// How often a call may be answered with that.
pub const MAX_ROUNDS: u16 = 32;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Wanted {
    /// A question to a user or to a language model.
    Question(Kind),
    /// `roots/list`
    Roots,
}

impl Wanted {
    /// Whether a client with these capabilities can be asked.
    #[must_use]
    pub const fn is_covered(self, by: ClientCapabilities) -> bool {
        match self {
            Self::Question(kind) => kind.is_covered(by),
            Self::Roots => by.roots,
        }
    }

    /// What is answered for a client that cannot be asked; `None`: there is no such answer, and the call fails.
    #[must_use]
    pub const fn declined(self) -> Option<&'static [u8]> {
        match self {
            Self::Question(Kind::Form | Kind::Url) => Some(br#"{"action":"decline"}"#),
            Self::Question(Kind::Sampling | Kind::SamplingWithTools) => None,
            Self::Roots => Some(br#"{"roots":[]}"#),
        }
    }

    /// What is answered for a client that answered with an error; `None`: the call fails with that error.
    #[must_use]
    pub const fn failed(self) -> Option<&'static [u8]> {
        match self {
            Self::Question(Kind::Form | Kind::Url) => Some(br#"{"action":"cancel"}"#),
            other => other.declined(),
        }
    }
}

/// One of the things that a server wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Input {
    /// Its key, a JSON string: the answer gets the same.
    pub key: Span,
    /// The method of the request, a JSON string.
    pub method: Span,
    /// Its parameters.
    pub params: Option<Span>,
    /// What it is.
    pub wanted: Wanted,
}

/// What a modern server's result is to a legacy client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Sort {
    /// What it asked for.
    Complete,
    /// The server wants something before: see [`Round::read`].
    InputRequired,
    /// It has no such results (basic/index, Result Type).
    Unknown,
}

impl Sort {
    /// Reads a result.
    #[must_use]
    pub fn of(frame: &[u8], result: Span) -> Self {
        match json::member(frame, result, "resultType").map(|kind| kind.of(frame)) {
            None => Self::Complete,
            Some(kind) if json::str_eq(kind, "complete") => Self::Complete,
            Some(kind) if json::str_eq(kind, "input_required") => Self::InputRequired,
            Some(_) => Self::Unknown,
        }
    }
}

/// All that a server wants before it is asked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// What it wants.
    pub inputs: Vec<Input, MAX_INPUTS>,
    /// What it is to be told when it is asked again, exactly as it stands.
    pub state: Option<Span>,
}

/// The result wants something that no client can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Unanswerable;

impl Round {
    /// Reads such a result.
    ///
    /// # Errors
    /// If it wants nothing, too much, or what there is not.
    pub fn read(frame: &[u8], result: Span) -> Result<Self, Unanswerable> {
        let state = json::member(frame, result, "requestState").filter(|state| state.of(frame) != b"null");
        let requests = json::member(frame, result, "inputRequests");
        if requests.is_none() && state.is_none() {
            return Err(Unanswerable);
        }
        let mut inputs = Vec::new();
        if let Some(requests) = requests {
            if !json::is_object(requests.of(frame)) {
                return Err(Unanswerable);
            }
            for member in json::members(frame, requests) {
                let input = Input::read(frame, member.key, member.value).ok_or(Unanswerable)?;
                inputs.push(input).map_err(|_| Unanswerable)?;
            }
        }
        Ok(Self { inputs, state })
    }
}

impl Input {
    fn read(frame: &[u8], key: Span, request: Span) -> Option<Self> {
        if !json::is_object(request.of(frame)) {
            return None;
        }
        let method = json::member(frame, request, "method").filter(|name| json::is_string(name.of(frame)))?;
        let params = json::member(frame, request, "params");
        if params.is_some_and(|params| !json::is_object(params.of(frame))) {
            return None;
        }
        let wanted = if json::str_eq(method.of(frame), "roots/list") {
            Wanted::Roots
        } else {
            Wanted::Question(Kind::of(frame, method, params)?)
        };
        Some(Self { key, method, params, wanted })
    }

    /// Writes the request to the client. An address to visit gets the identifier that it has in 2025-11-25, where it has
    /// none.
    pub fn write(&self, w: &mut Writer<'_>, id: u64, frame: &[u8]) {
        let (method, params) = (self.method.of(frame), self.params.map(|params| params.of(frame)));
        let names = |params| json::member(frame, params, "elicitationId").is_some();
        let unnamed = self.wanted == Wanted::Question(Kind::Url) && !self.params.is_some_and(names);
        let Some(rest) = params.and_then(|params| params.strip_prefix(b"{")).filter(|_| unnamed) else {
            return question(w, id, method, params);
        };
        w.raw(br#"{"jsonrpc":"2.0","id":"#);
        w.number(id);
        w.raw(br#","method":"#);
        w.raw(method);
        // It says what it is for, so it is not empty.
        w.raw(br#","params":{"elicitationId":"drowse-"#);
        w.number(id);
        w.raw(b"\",");
        w.raw(rest);
        w.raw(b"}");
    }
}

/// Writes a request to a legacy client. The method is a JSON string, the parameters are an object.
pub fn question(w: &mut Writer<'_>, id: u64, method: &[u8], params: Option<&[u8]>) {
    w.raw(br#"{"jsonrpc":"2.0","id":"#);
    w.number(id);
    w.raw(br#","method":"#);
    w.raw(method);
    if let Some(params) = params {
        w.raw(br#","params":"#);
        w.raw(params);
    }
    w.raw(b"}");
}

/// Writes that a question to a legacy client is no longer one.
pub fn withdrawn(w: &mut Writer<'_>, id: u64) {
    w.raw(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#);
    w.number(id);
    w.raw(br#","reason":"nobody waits for the answer any more"}}"#);
}

/// Writes the request once more, with the answers, each under the key of its input, and the state.
pub fn retry<'a>(
    w: &mut Writer<'_>,
    frame: &[u8],
    parts: &RequestParts,
    answers: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    state: Option<&[u8]>,
) {
    let Some(params) = parts.params else { return w.raw(frame) };
    w.raw(Span::new(0, params.start()).of(frame));
    let mut separator: &[u8] = b"{";
    for member in json::members(frame, params) {
        // Those of the round before.
        let key = member.key.of(frame);
        if json::str_eq(key, "inputResponses") || json::str_eq(key, "requestState") {
            continue;
        }
        w.raw(separator);
        w.raw(Span::new(member.key.start(), member.value.end()).of(frame));
        separator = b",";
    }
    let mut opening: &[u8] = br#""inputResponses":{"#;
    let mut any = false;
    for (key, answer) in answers {
        if !any {
            w.raw(separator);
            separator = b",";
        }
        w.raw(opening);
        w.raw(key);
        w.raw(b":");
        w.raw(answer);
        opening = b",";
        any = true;
    }
    if any {
        w.raw(b"}");
    }
    if let Some(state) = state {
        w.raw(separator);
        w.raw(br#""requestState":"#);
        w.raw(state);
        separator = b",";
    }
    w.raw(if separator == b"{" { b"{}" } else { b"}" });
    w.raw(Span::new(params.end(), frame.len()).of(frame));
}

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod tests {
    use serde_json::{Value, json};
    use std::string::ToString;
    use std::vec::Vec as List;

    use super::*;
    use crate::envelope;

    fn read(text: &str) -> Result<Round, Unanswerable> {
        Round::read(text.as_bytes(), json::scan(text.as_bytes()).unwrap())
    }

    #[test]
    fn what_is_wanted_is_read_or_refused_as_a_whole() {
        let text = r#"{"resultType":"input_required","inputRequests":{"a\"":{"method":"elicitation/create","params":{"mode":"url"}},"b":{"method":"roots/list"},"c":{"method":"sampling/createMessage","params":{"tools":[]}}},"requestState":"s\u0041"}"#;
        let round = read(text).unwrap();
        assert_eq!(Sort::of(text.as_bytes(), json::scan(text.as_bytes()).unwrap()), Sort::InputRequired);
        let wanted: List<_> = round.inputs.iter().map(|input| input.wanted).collect();
        assert_eq!(
            wanted,
            [Wanted::Question(Kind::Url), Wanted::Roots, Wanted::Question(Kind::SamplingWithTools)]
        );
        assert_eq!(round.state.unwrap().of(text.as_bytes()), br#""s\u0041""#);
        assert_eq!(read(r#"{"requestState":"x"}"#).unwrap().inputs.len(), 0);
        let nine = (0..9).map(|n| std::format!(r#""{n}":{{"method":"roots/list"}}"#)).collect::<List<_>>();
        for bad in [
            "{}",
            r#"{"requestState":null}"#,
            r#"{"inputRequests":[]}"#,
            r#"{"inputRequests":{"a":1}}"#,
            r#"{"inputRequests":{"a":{"method":"tools/call","params":{}}}}"#,
            r#"{"inputRequests":{"a":{"method":"roots/list","params":[]}}}"#,
            &std::format!(r#"{{"inputRequests":{{{}}}}}"#, nine.join(",")),
        ] {
            assert_eq!(read(bad), Err(Unanswerable), "{bad}");
        }
    }

    #[test]
    fn a_retry_has_the_answers_of_this_round_alone_and_the_exact_state() {
        let again = |request: &str, answers: &[(&str, &str)], state: Option<&str>| -> Value {
            let frame = request.as_bytes();
            let parts = RequestParts::of(&envelope::read(frame).unwrap()).unwrap();
            let mut buffer = [0; 512];
            let mut w = Writer::new(&mut buffer);
            let answers = answers.iter().map(|(key, answer)| (key.as_bytes(), answer.as_bytes()));
            retry(&mut w, frame, &parts, answers, state.map(str::as_bytes));
            let bytes = w.finish().unwrap();
            envelope::read(bytes).unwrap();
            serde_json::from_slice(bytes).unwrap()
        };
        let first =
            r#"{"jsonrpc":"2.0","id":"x","params":{"name":"t","_meta":{"a":1}},"method":"tools/call"}"#;
        let once = again(first, &[(r#""k""#, "{}"), (r#""l""#, r#"{"action":"cancel"}"#)], Some(r#""s""#));
        assert_eq!(
            once,
            json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "t",
                "_meta": {"a": 1}, "inputResponses": {"k": {}, "l": {"action": "cancel"}},
                "requestState": "s"}})
        );
        let twice = again(&once.to_string(), &[(r#""m""#, "{}")], None);
        assert_eq!(twice["params"], json!({"name": "t", "_meta": {"a": 1}, "inputResponses": {"m": {}}}));
        let state = again(&once.to_string(), &[], Some("\"t\""));
        assert_eq!(state["params"], json!({"name": "t", "_meta": {"a": 1}, "requestState": "t"}));
        let empty = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#;
        assert_eq!(again(empty, &[], None)["params"], json!({}));
    }

    #[test]
    fn who_cannot_be_asked_declines_where_that_can_be_said() {
        let all = [Kind::Form, Kind::Url, Kind::Sampling, Kind::SamplingWithTools];
        for wanted in all.into_iter().map(Wanted::Question).chain([Wanted::Roots]) {
            assert!(!wanted.is_covered(ClientCapabilities::default()));
            assert_eq!(wanted.declined().is_none(), wanted.failed().is_none());
            for answer in [wanted.declined(), wanted.failed()].into_iter().flatten() {
                assert!(serde_json::from_slice::<Value>(answer).unwrap().is_object());
            }
        }
    }
}
