//! Multi round-trip requests, from the client's side: a server that needs something ends a request with an
//! `input_required` result, and the client sends the request again with the answers (specification 2026-07-28,
//! basic/patterns/mrtr).
//!
//! Owns the rounds: what a question is, that only what was declared is answered, and what a retry holds. Never asks
//! anybody: whoever can implements [`Answers`].

mod form;
mod sampling;

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;

use drowse_core::message::Writer;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::seek;

pub use drowse_core::capabilities::ClientCapabilities;

pub use self::form::{Choice, Field, FieldKind, Form};
pub use self::sampling::{Sampling, SamplingError};

/// How often one request is answered with questions before that is called a fault of the server's.
pub const MAX_ROUNDS: usize = 10;

/// Answers a server's questions.
pub trait Answers {
    /// What can be asked. Every request says it, and nothing else is answered.
    fn capabilities(&self) -> ClientCapabilities;

    /// Answers one question. The answer is the bare result, as JSON.
    ///
    /// # Errors
    /// If the request cannot go on.
    fn answer(&mut self, question: &Question<'_>) -> Result<String, InputError>;
}

/// A question of a server.
#[derive(Debug)]
pub struct Question<'a> {
    /// Its key, which is that of the answer.
    pub key: Cow<'a, str>,
    /// What is asked.
    pub asks: Asks<'a>,
}

/// What a question asks.
#[derive(Debug)]
pub enum Asks<'a> {
    /// That a user fills in a form.
    Form {
        /// Why.
        message: String,
        /// The form.
        form: Form,
    },
    /// That a user visits an address.
    Url {
        /// Why.
        message: String,
        /// The address, as it came.
        url: String,
    },
    /// For the roots.
    Roots,
    /// That a language model is asked: the params of `sampling/createMessage`, as JSON.
    Sampling(&'a str),
}

/// Why a request that needs input cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// What the server asks makes no sense.
    #[error("the server asks for input in a way that cannot be understood: {0}")]
    Malformed(String),
    /// The server asks for something that it was told it cannot have.
    #[error("the server asks for {what}, though it was not offered any")]
    Undeclared {
        /// What it asks for.
        what: &'static str,
    },
    /// It asks and asks.
    #[error("the server has asked for input {MAX_ROUNDS} times for one request, and asks again")]
    TooManyRounds,
    /// There is no answer to a question.
    #[error("{0}")]
    Unanswered(String),
    /// The command that asks a language model failed.
    #[error("the sampling command {0}")]
    Sampling(SamplingError),
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
    /// The terminal cannot be used.
    #[error("the terminal cannot be used: {0}")]
    Terminal(io::Error),
}

/// Whether the result of a request may be `input_required`. That of `tasks/result` may where a server of 2025-11-25 asks
/// during a task.
#[must_use]
pub fn is_supported(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read" | "tasks/result")
}

/// Answers the questions of a task (`inputRequests`, as they came), each once: `answered` is the keys of those that were
/// answered before. The result is the `inputResponses` for `tasks/update`; `None` if there is nothing new to answer.
///
/// # Errors
/// If the task cannot go on.
pub fn respond(
    requests: &str,
    answers: &mut dyn Answers,
    answered: &mut Vec<String>,
) -> Result<Option<String>, InputError> {
    let Requests(mut requests) =
        serde_json::from_str(requests).map_err(|error| InputError::Malformed(error.to_string()))?;
    requests.retain(|(key, _)| !answered.iter().any(|known| known == key));
    if requests.is_empty() {
        return Ok(None);
    }
    let keys: Vec<String> = requests.iter().map(|(key, _)| key.clone().into_owned()).collect();
    let capabilities = answers.capabilities();
    let responses = Requests(requests).answers(capabilities, answers)?;
    answered.extend(keys);
    Ok(Some(responses))
}

/// Sends a request, and sends it again with answers as long as the server asks for input. `send` is given the params
/// and what is declared with them, and sends them under a new id each time; it gives the result as it came.
///
/// # Errors
/// What `send` fails with, or an [`InputError`].
pub fn complete<E: From<InputError>>(
    method: &str,
    params: &str,
    answers: &mut dyn Answers,
    mut send: impl FnMut(&str, ClientCapabilities) -> Result<String, E>,
) -> Result<String, E> {
    let capabilities = answers.capabilities();
    let mut again = None;
    for _ in 0..=MAX_ROUNDS {
        let result = send(again.as_deref().unwrap_or(params), capabilities)?;
        let Some(required) = InputRequired::read(&result)? else { return Ok(result) };
        if !is_supported(method) {
            return Err(InputError::Malformed(format!("it may not do so in answer to {method}")).into());
        }
        again = Some(required.retry(params, capabilities, answers)?);
    }
    Err(InputError::TooManyRounds.into())
}

/// The capabilities as a JSON object.
#[must_use]
pub fn capabilities_json(capabilities: ClientCapabilities) -> String {
    // More than all of them take.
    let mut buffer = [0; 192];
    let mut w = Writer::new(&mut buffer);
    capabilities.write(&mut w);
    w.finish().map_or_else(|_| "{}".to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// The URI of a directory or file, as `roots/list` names it.
///
/// # Errors
/// If there is no such file.
pub fn root_uri(path: &Path) -> io::Result<String> {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    let path = path.canonicalize()?;
    let mut uri = String::from("file://");
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(byte.into());
            }
            byte => _ = write!(uri, "%{byte:02X}"),
        }
    }
    Ok(uri)
}

/// The result of `roots/list`.
#[must_use]
pub fn roots_result(roots: &[String]) -> String {
    let roots: Vec<Value> = roots.iter().map(|uri| serde_json::json!({"uri": uri})).collect();
    serde_json::json!({"roots": roots}).to_string()
}

/// An `input_required` result.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired<'a> {
    #[serde(borrow, default)]
    result_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_requests: Option<Requests<'a>>,
    #[serde(borrow, default)]
    request_state: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Asking<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

impl<'a> InputRequired<'a> {
    /// The result if it is one that asks for input.
    fn read(result: &'a str) -> Result<Option<Self>, InputError> {
        const TYPE: &str = "\"input_required\"";
        // Most results are not, some are large, and looking for a word is much quicker than reading JSON.
        if !seek::contains(result.as_bytes(), TYPE.as_bytes()) {
            return Ok(None);
        }
        let is_type = |raw: &RawValue| raw.get() == TYPE;
        let mut required: Self = match serde_json::from_str(result) {
            Ok(required) => required,
            Err(error) => {
                // It may not be meant for us at all.
                let other = serde_json::from_str::<ResultType<'_>>(result)
                    .is_ok_and(|found| !found.result_type.is_some_and(is_type));
                return if other { Ok(None) } else { Err(InputError::Malformed(error.to_string())) };
            }
        };
        if !required.result_type.is_some_and(is_type) {
            return Ok(None);
        }
        required.request_state = required.request_state.filter(|state| state.get() != "null");
        if required.request_state.is_some_and(|state| !state.get().starts_with('"')) {
            return Err(InputError::Malformed("its requestState is not a string".to_owned()));
        }
        if required.request_state.is_none() && required.input_requests.is_none() {
            return Err(InputError::Malformed("it has neither inputRequests nor a requestState".to_owned()));
        }
        Ok(Some(required))
    }

    /// The params of the retry: those of the request, the answers under the keys of their questions, and the state
    /// byte for byte.
    fn retry(
        &self,
        params: &str,
        capabilities: ClientCapabilities,
        answers: &mut dyn Answers,
    ) -> Result<String, InputError> {
        let mut more = Vec::new();
        if let Some(requests) = &self.input_requests {
            more.push(format!("\"inputResponses\":{}", requests.answers(capabilities, answers)?));
        }
        if let Some(state) = self.request_state {
            more.push(format!("\"requestState\":{}", state.get()));
        }
        let members =
            params.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
        if !members.trim().is_empty() {
            more.insert(0, members.to_owned());
        }
        Ok(format!("{{{}}}", more.join(",")))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultType<'a> {
    #[serde(borrow, default)]
    result_type: Option<&'a RawValue>,
}

impl<'a> Asks<'a> {
    fn read(key: &str, request: &'a RawValue, capabilities: ClientCapabilities) -> Result<Self, InputError> {
        let bad = |what: &str| InputError::Malformed(format!("the question {key:?}: {what}"));
        let Asking { method, params } =
            serde_json::from_str(request.get()).map_err(|error| bad(&error.to_string()))?;
        let declared = |declared: bool, what: &'static str| {
            if declared { Ok(()) } else { Err(InputError::Undeclared { what }) }
        };
        let params = params.map_or("{}", RawValue::get);
        let value = || match serde_json::from_str(params) {
            Ok(Value::Object(members)) => Ok(members),
            _ => Err(bad("its params are not an object")),
        };
        match method.as_ref() {
            "roots/list" => {
                declared(capabilities.roots, "roots")?;
                Ok(Self::Roots)
            }
            "sampling/createMessage" => {
                declared(capabilities.sampling, "sampling")?;
                let members = value()?;
                let tools = ["tools", "toolChoice"].iter().any(|name| members.contains_key(*name));
                declared(!tools || capabilities.sampling_tools, "sampling with tools")?;
                if !members.get("messages").is_some_and(Value::is_array) {
                    return Err(bad("it has no messages"));
                }
                Ok(Self::Sampling(params))
            }
            "elicitation/create" => {
                let mut members = value()?;
                let mut text = |name: &str| match members.get_mut(name).map(Value::take) {
                    Some(Value::String(text)) => Ok(text),
                    None if name == "mode" => Ok("form".to_owned()),
                    _ => Err(bad(&format!("its {name} is not a string"))),
                };
                match text("mode")?.as_str() {
                    "form" => {
                        declared(capabilities.form, "a form to be filled in")?;
                        let message = text("message")?;
                        let schema = members.get("requestedSchema").unwrap_or(&Value::Null);
                        let form = Form::read(schema).map_err(|what| bad(&what))?;
                        Ok(Self::Form { message, form })
                    }
                    "url" => {
                        declared(capabilities.url, "a visit to an address")?;
                        Ok(Self::Url { message: text("message")?, url: text("url")? })
                    }
                    mode => Err(bad(&format!("there is no mode {mode:?}"))),
                }
            }
            method => Err(bad(&format!("there is no method {method:?} for it"))),
        }
    }
}

/// Members of an object in their order.
#[derive(Debug)]
struct Requests<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl Requests<'_> {
    /// The object of answers, under the keys of their questions.
    fn answers(
        &self,
        capabilities: ClientCapabilities,
        answers: &mut dyn Answers,
    ) -> Result<String, InputError> {
        // All are understood before the first one is put to anybody.
        let mut questions: Vec<Question<'_>> = Vec::with_capacity(self.0.len());
        for (key, request) in &self.0 {
            if questions.iter().any(|question| question.key == *key) {
                return Err(InputError::Malformed(format!("the key {key:?} is there twice")));
            }
            let asks = Asks::read(key, request, capabilities)?;
            questions.push(Question { key: key.clone(), asks });
        }
        let mut responses = Vec::with_capacity(questions.len());
        for question in &questions {
            let key = Value::from(question.key.as_ref());
            responses.push(format!("{key}:{}", answers.answer(question)?));
        }
        Ok(format!("{{{}}}", responses.join(",")))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Requests<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Requests<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of questions")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<Key<'de>, _>()? {
                    members.push((key.0, value));
                }
                Ok(Requests(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Answers with the key, and writes down what it was asked.
    struct Echo {
        capabilities: ClientCapabilities,
        asked: Vec<String>,
    }

    impl Answers for Echo {
        fn capabilities(&self) -> ClientCapabilities {
            self.capabilities
        }

        fn answer(&mut self, question: &Question<'_>) -> Result<String, InputError> {
            self.asked.push(format!("{:?}", question.asks));
            Ok(json!({"action": "accept", "content": {"key": question.key}}).to_string())
        }
    }

    const ALL: ClientCapabilities = ClientCapabilities {
        form: true,
        url: true,
        sampling: true,
        sampling_tools: false,
        roots: true,
        tasks: false,
    };

    /// Sends a request to a server that gives these results one after the other; what it was sent.
    fn run(
        capabilities: ClientCapabilities,
        results: &[&str],
    ) -> (Result<String, InputError>, Vec<String>, usize) {
        let mut echo = Echo { capabilities, asked: Vec::new() };
        let mut sent = Vec::new();
        let outcome =
            complete("tools/call", r#"{"name":"t", "arguments":{"n":1.0}}"#, &mut echo, |params, _| {
                sent.push(params.to_owned());
                Ok(results.get(sent.len() - 1).unwrap_or_else(|| results.last().unwrap()).to_string())
            });
        (outcome, sent, echo.asked.len())
    }

    const FORM: &str = r#"{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}"#;

    #[test]
    fn a_retry_has_the_same_params_the_answers_and_the_exact_state() {
        let asks = format!(
            r#"{{"resultType":"input_required","inputRequests":{{"z":{FORM},"a\u0062":{FORM}}},"requestState":"\u00e9 \/ \\n"}}"#
        );
        let only_state = r#"{"requestState":"two", "resultType":"input_required"}"#;
        let only_questions = format!(r#"{{"resultType":"input_required","inputRequests":{{"q":{FORM}}}}}"#);
        let (outcome, sent, asked) =
            run(ALL, &[&asks, only_state, &only_questions, r#"{"content":[],"isError":true}"#]);
        assert_eq!(outcome.unwrap(), r#"{"content":[],"isError":true}"#);
        let head = r#"{"name":"t", "arguments":{"n":1.0}"#;
        let answer = |key: &str| format!(r#""{key}":{{"action":"accept","content":{{"key":"{key}"}}}}"#);
        assert_eq!(
            sent,
            [
                format!("{head}}}"),
                format!(
                    r#"{head},"inputResponses":{{{},{}}},"requestState":"\u00e9 \/ \\n"}}"#,
                    answer("z"),
                    answer("ab")
                ),
                format!(r#"{head},"requestState":"two"}}"#),
                format!(r#"{head},"inputResponses":{{{}}}}}"#, answer("q")),
            ]
        );
        assert_eq!(asked, 3);
    }

    #[test]
    fn what_a_task_asks_is_answered_once() {
        let mut echo = Echo { capabilities: ALL, asked: Vec::new() };
        let mut answered = Vec::new();
        let answer = |key: &str| format!(r#""{key}":{{"action":"accept","content":{{"key":"{key}"}}}}"#);
        let mut respond = |requests: &str| respond(requests, &mut echo, &mut answered);
        assert_eq!(respond(&format!(r#"{{"a":{FORM}}}"#)).unwrap(), Some(format!("{{{}}}", answer("a"))));
        let more = format!(r#"{{"b":{FORM},"a":{FORM}}}"#);
        assert_eq!(respond(&more).unwrap(), Some(format!("{{{}}}", answer("b"))));
        assert_eq!(respond(&more).unwrap(), None);
        assert!(matches!(respond("[]"), Err(InputError::Malformed(_))));
        assert_eq!((echo.asked.len(), answered), (2, vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn params_that_are_empty() {
        let mut echo = Echo { capabilities: ALL, asked: Vec::new() };
        for params in ["", "{}", " { } "] {
            let mut sent = Vec::new();
            let outcome: Result<_, InputError> = complete("prompts/get", params, &mut echo, |params, _| {
                sent.push(params.to_owned());
                Ok(if sent.len() == 1 {
                    r#"{"resultType":"input_required","requestState":""}"#.to_owned()
                } else {
                    "{}".to_owned()
                })
            });
            outcome.unwrap();
            assert_eq!(sent[1], r#"{"requestState":""}"#);
        }
    }

    #[test]
    fn only_what_was_declared_is_answered() {
        let none = ClientCapabilities::default();
        let question =
            |body: &str| format!(r#"{{"resultType":"input_required","inputRequests":{{"q":{body}}}}}"#);
        let url =
            r#"{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://x"}}"#;
        let sampling = r#"{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}"#;
        let tools = r#"{"method":"sampling/createMessage","params":{"messages":[],"tools":[]}}"#;
        let roots = r#"{"method":"roots/list"}"#;
        for body in [FORM, url, sampling, roots] {
            let (outcome, sent, asked) = run(none, &[&question(body)]);
            assert!(matches!(outcome, Err(InputError::Undeclared { .. })), "{body}");
            assert_eq!((sent.len(), asked), (1, 0));
            let (outcome, ..) = run(ALL, &[&question(body), "{}"]);
            outcome.unwrap();
        }
        let (outcome, ..) = run(ALL, &[&question(tools)]);
        assert!(matches!(outcome, Err(InputError::Undeclared { .. })));
        // Nobody is asked anything if one of several is not to be answered.
        let both = format!(r#"{{"resultType":"input_required","inputRequests":{{"a":{FORM},"b":{tools}}}}}"#);
        assert_eq!(run(ALL, &[&both]).2, 0);
    }

    #[test]
    fn what_makes_no_sense_is_the_servers_fault() {
        for result in [
            r#"{"resultType":"input_required"}"#,
            r#"{"resultType":"input_required","requestState":7}"#,
            r#"{"resultType":"input_required","requestState":null}"#,
            r#"{"resultType":"input_required","inputRequests":[]}"#,
            r#"{"resultType":"input_required","inputRequests":{"q":7}}"#,
            r#"{"resultType":"input_required","inputRequests":{"q":{"method":"tools/call"}}}"#,
            r#"{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":[]}}}"#,
            r#"{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"url","message":"m"}}}}"#,
            r#"{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"x","message":"m"}}}}"#,
            r#"{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"m"}}}}"#,
            r#"{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list"},"\u0071":{"method":"roots/list"}}}"#,
            r#"{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{}}}}"#,
        ] {
            let (outcome, sent, asked) = run(ALL, &[result]);
            assert!(matches!(outcome, Err(InputError::Malformed(_))), "{result}");
            assert_eq!((sent.len(), asked), (1, 0), "{result}");
        }
    }

    #[test]
    fn the_words_in_a_result_are_no_question() {
        for result in [
            r#"{"content":[{"type":"text","text":"\"input_required\""}]}"#,
            r#"{"structuredContent":{"resultType":"input_required"},"inputRequests":7,"resultType":"complete"}"#,
            r#"{"structuredContent":"input_required","resultType":"complete","requestState":7}"#,
        ] {
            assert_eq!(run(ALL, &[result]).0.unwrap(), result);
        }
    }

    #[test]
    fn rounds_are_counted() {
        let (outcome, sent, _) = run(ALL, &[r#"{"resultType":"input_required","requestState":"s"}"#]);
        assert!(matches!(outcome, Err(InputError::TooManyRounds)));
        assert_eq!(sent.len(), MAX_ROUNDS + 1);
    }

    #[test]
    fn other_methods_take_no_input() {
        let mut echo = Echo { capabilities: ALL, asked: Vec::new() };
        let outcome: Result<_, InputError> = complete("tools/list", "", &mut echo, |_, _| {
            Ok(r#"{"resultType":"input_required","requestState":"s"}"#.to_owned())
        });
        assert!(matches!(outcome, Err(InputError::Malformed(_))));
    }

    #[test]
    fn roots_are_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a b#ü");
        std::fs::create_dir(&path).unwrap();
        let uri = root_uri(&path.join("../a b#ü")).unwrap();
        assert!(uri.starts_with("file:///") && uri.ends_with("/a%20b%23%C3%BC"), "{uri}");
        assert!(root_uri(&path.join("none")).is_err());
        let result: Value = serde_json::from_str(&roots_result(std::slice::from_ref(&uri))).unwrap();
        assert_eq!(result, json!({"roots": [{"uri": uri}]}));
    }

    #[test]
    fn capabilities_are_json() {
        assert_eq!(capabilities_json(ClientCapabilities::default()), "{}");
        let all = ClientCapabilities { sampling_tools: true, ..ALL };
        assert_eq!(
            serde_json::from_str::<Value>(&capabilities_json(all)).unwrap(),
            json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}})
        );
    }
}
