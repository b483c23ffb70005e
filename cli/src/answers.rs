//! Answers to what a server asks for in the middle of a request: from the terminal, from `--elicit`, or from what the
//! session was connected with.
//!
//! Owns who answers what, and so what is declared with a request. The rounds are the runtime's, the conversation is the
//! terminal's.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use drowse_runtime::caller::{Sessions, Wait};
use drowse_runtime::home::SessionName;
use drowse_runtime::input::{
    Answers, Asks, ClientCapabilities, Form, InputError, Question, Sampling, roots_result,
};
use drowse_runtime::record::{self, DEFAULT_TIMEOUT_MS};
use drowse_runtime::wire::{Ran, Unasked};
use serde_json::{Map, Value, json};

use crate::error::{Exit, Failure};
use crate::output::Output;
use crate::terminal::{Said, Terminal};
use crate::text::one_line;

/// The code of a server's refusal to do something without asking (basic/index, Error Codes).
const MISSING_CAPABILITY: i64 = -32021;
/// The code by which a server of 2025-11-25 says that addresses are to be visited first.
const VISIT_FIRST: i64 = -32042;
/// The most addresses that are told.
const VISITS: usize = 4;

/// `--elicit`: answers to questions for the user, where there is none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Elicit {
    AcceptDefaults,
    Decline,
    /// The content of forms, or answers by key.
    Given(Map<String, Value>),
}

impl Elicit {
    /// Reads the flag's value.
    pub(crate) fn parse(typed: &str) -> Result<Self, Failure> {
        let wrong = |what: &str| {
            Failure::usage(format!("--elicit takes accept-defaults, decline or a JSON object{what}"))
        };
        match typed.trim() {
            "accept-defaults" => Ok(Self::AcceptDefaults),
            "decline" => Ok(Self::Decline),
            text if text.starts_with('{') => match serde_json::from_str(text) {
                Ok(members) => Ok(Self::Given(members)),
                Err(error) => Err(wrong(&format!(": {error}"))),
            },
            other => Err(wrong(&format!(", not `{}`", one_line(other, 40)))),
        }
    }
}

/// Whoever can answer during one request.
#[derive(Debug)]
pub(crate) struct Answerer<'a> {
    session: &'a SessionName,
    output: &'a Output,
    elicit: Option<&'a Elicit>,
    terminal: Option<Terminal>,
    roots: Vec<String>,
    sampling: Option<Model>,
    wait: Wait<'a>,
}

/// What asks a language model.
#[derive(Debug)]
struct Model {
    command: String,
    cwd: PathBuf,
    limit: Duration,
}

impl<'a> Answerer<'a> {
    /// `timeout` is that of the request.
    pub(crate) fn new(
        sessions: &Sessions,
        session: &'a SessionName,
        output: &'a Output,
        elicit: Option<&'a Elicit>,
        timeout: Option<Duration>,
        wait: Wait<'a>,
    ) -> Self {
        // A program reads what `--json` prints, and nobody may be there.
        let terminal = if elicit.is_some() || output.json { None } else { Terminal::open() };
        // If it cannot be read, the call says why.
        let members = ["roots", "samplingCommand"];
        let record = record::read_session_with(sessions.home(), session, &members).ok().flatten();
        let (mut roots, mut sampling) = (Vec::new(), None);
        if let Some(record) = record {
            let settings = record.settings;
            roots = settings.roots.unwrap_or_default();
            let limit = Duration::from_millis(settings.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS));
            sampling = settings.sampling_command.filter(|command| !command.is_empty()).map(|command| Model {
                command,
                cwd: PathBuf::from(record.cwd),
                limit: timeout.unwrap_or(limit),
            });
        }
        Self { session, output, elicit, terminal, roots, sampling, wait }
    }

    fn form(&mut self, key: &str, message: &str, form: &Form) -> Result<Said, InputError> {
        let unanswered = |what: String| {
            InputError::Unanswered(format!("{} asks “{}”: {what}", self.session, one_line(message, 200)))
        };
        match (self.elicit, &mut self.terminal) {
            (Some(Elicit::Decline), _) => Ok(Said::Decline),
            (Some(Elicit::AcceptDefaults), _) => match form.defaults() {
                Ok(content) => Ok(Said::Accept(Some(content))),
                Err(field) => Err(unanswered(format!("`{}` has no default", field.name))),
            },
            (Some(Elicit::Given(given)), _) => match given_for(given, key).map_err(unanswered)? {
                Some(Said::Accept(content)) => {
                    Ok(Said::Accept(Some(form.fill(&content.unwrap_or_default()).map_err(unanswered)?)))
                }
                Some(said) => Ok(said),
                None => Ok(Said::Accept(Some(form.fill(given).map_err(unanswered)?))),
            },
            (None, Some(terminal)) => terminal.form(&self.session.to_string(), message, form, self.wait),
            (None, None) => Ok(Said::Decline),
        }
    }

    fn visit(&mut self, key: &str, message: &str, url: &str) -> Result<Said, InputError> {
        if let (None, Some(terminal)) = (self.elicit, &mut self.terminal) {
            return terminal.visit(&self.session.to_string(), message, url, self.wait);
        }
        // Consent to an address that nobody has seen is only what names the question.
        let said = match self.elicit {
            Some(Elicit::Given(given)) => given_for(given, key).map_err(InputError::Unanswered)?,
            _ => None,
        };
        let said = match said {
            Some(Said::Accept(_)) => Said::Accept(None),
            Some(said) => said,
            None => Said::Decline,
        };
        let word = match said {
            Said::Accept(_) => "accepted",
            Said::Decline => "declined",
            Said::Cancel => "cancelled",
        };
        let message = one_line(message, 200);
        self.output.remark(
            "question",
            format_args!("{} asks “{message}” and for a visit to {url}: {word}", self.session),
        );
        Ok(said)
    }
}

/// The answer that was given for this very question.
fn given_for(given: &Map<String, Value>, key: &str) -> Result<Option<Said>, String> {
    let Some(Value::Object(answer)) = given.get(key) else { return Ok(None) };
    let content = || match answer.get("content") {
        None => Ok(None),
        Some(Value::Object(content)) => Ok(Some(content.clone())),
        Some(_) => Err(format!("--elicit: the content for {key:?} is not an object")),
    };
    match answer.get("action").map(Value::as_str) {
        None => Ok(Some(Said::Accept(Some(answer.clone())))),
        Some(Some("accept")) => Ok(Some(Said::Accept(content()?))),
        Some(Some("decline")) => Ok(Some(Said::Decline)),
        Some(Some("cancel")) => Ok(Some(Said::Cancel)),
        Some(_) => Err(format!("--elicit: the action for {key:?} is none of accept, decline and cancel")),
    }
}

impl Answers for Answerer<'_> {
    fn capabilities(&self) -> ClientCapabilities {
        let user = self.elicit.is_some() || self.terminal.is_some();
        ClientCapabilities {
            form: user,
            url: user,
            sampling: self.sampling.is_some(),
            sampling_tools: false,
            roots: !self.roots.is_empty(),
            tasks: false,
        }
    }

    fn answer(&mut self, question: &Question<'_>) -> Result<String, InputError> {
        let key = question.key.as_ref();
        let said = match &question.asks {
            Asks::Form { message, form } => self.form(key, message, form)?,
            Asks::Url { message, url } => self.visit(key, message, url)?,
            Asks::Roots => return Ok(roots_result(&self.roots)),
            Asks::Sampling(params) => {
                let Some(model) = &self.sampling else {
                    return Err(InputError::Undeclared { what: "sampling" });
                };
                let wait = self.wait.no_later_than(Instant::now() + model.limit);
                return Sampling { command: &model.command, cwd: &model.cwd }.run(params, wait);
            }
        };
        Ok(match said {
            Said::Accept(Some(content)) => json!({"action": "accept", "content": content}),
            Said::Accept(None) => json!({"action": "accept"}),
            Said::Decline => json!({"action": "decline"}),
            Said::Cancel => json!({"action": "cancel"}),
        }
        .to_string())
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        let (exit, kind) = match &error {
            InputError::Unanswered(_) => (Exit::Usage, "input-required"),
            InputError::Sampling(_) => (Exit::Usage, "sampling"),
            InputError::Terminal(_) => (Exit::Usage, "terminal"),
            InputError::Interrupted => (Exit::Interrupted, "interrupted"),
            _ => (Exit::Server, "invalid-answer"),
        };
        // The server had the request, and what it did before it asked is its own affair.
        Self::new(exit, kind, error.to_string()).with_ran(Ran::Unknown)
    }
}

/// What is told of a question that was refused because nobody can be asked.
pub(crate) fn refused(who: impl Display, question: &Unasked) -> String {
    let asked = match (&question.message, &question.url) {
        (Some(message), Some(url)) => format!("asks “{}” and for a visit to {url}", one_line(message, 200)),
        (Some(message), None) => format!("asks “{}”", one_line(message, 200)),
        (None, _) => format!("asks for {}", one_line(&question.method, 80)),
    };
    let help = match question.method.as_str() {
        "elicitation/create" => "; run it on a terminal without --json, or answer with --elicit",
        _ => "",
    };
    format!("{who} {asked}, and nobody can be asked here: declined{help}")
}

/// Says what to do where the server refused because it cannot ask.
pub(crate) fn explain(session: &SessionName, failure: Failure) -> Failure {
    let missing = |name: &str| {
        let rpc = failure.rpc.as_ref().filter(|rpc| rpc.code == MISSING_CAPABILITY);
        let data = rpc.and_then(|rpc| serde_json::from_str::<Value>(rpc.data.as_deref()?).ok());
        data.is_some_and(|data| data["requiredCapabilities"].get(name).is_some())
    };
    let mut hints = Vec::new();
    if let Some(rpc) = failure.rpc.as_ref().filter(|rpc| rpc.code == VISIT_FIRST) {
        let data = rpc.data.as_deref().and_then(|data| serde_json::from_str::<Value>(data).ok());
        let visits = data.as_ref().and_then(|data| data["elicitations"].as_array());
        for url in visits.into_iter().flatten().filter_map(|visit| visit["url"].as_str()).take(VISITS) {
            hints.push(format!("it wants a visit first, and then the call again: {}", one_line(url, 2000)));
        }
    }
    if missing("extensions") {
        hints.push("it runs only as a task: add --task, or --detach".to_owned());
    }
    if missing("elicitation") {
        hints.push(
            "it asks the user: run it on a terminal without --json, or answer with --elicit".to_owned(),
        );
    }
    if missing("roots") {
        hints.push(format!("it asks for roots: drowse connect {session} --root <directory> …"));
    }
    if missing("sampling") {
        hints.push(format!(
            "it asks a language model: drowse connect {session} --sampling-command <command> …"
        ));
    }
    if hints.is_empty() { failure } else { failure.with_hint(hints.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elicit_values() {
        assert_eq!(Elicit::parse("accept-defaults").unwrap(), Elicit::AcceptDefaults);
        assert_eq!(Elicit::parse(" decline").unwrap(), Elicit::Decline);
        let Elicit::Given(given) = Elicit::parse(r#"{"a": 1}"#).unwrap() else { panic!() };
        assert_eq!(Value::from(given), json!({"a": 1}));
        for wrong in ["", "accept", "[]", "{", "{}{}", "7"] {
            assert_eq!(Elicit::parse(wrong).unwrap_err().exit, Exit::Usage, "{wrong}");
        }
    }

    #[test]
    fn what_is_given_for_a_question() {
        let given = json!({
            "a": {"name": "x"}, "b": {"action": "accept"}, "c": {"action": "decline"}, "d": {"action": "cancel"},
            "e": {"action": "accept", "content": {"n": 1}}, "f": 7, "g": {"action": "dance"},
            "h": {"action": "accept", "content": 7},
        });
        let given = given.as_object().unwrap();
        let content = |value: Value| Said::Accept(value.as_object().cloned());
        assert_eq!(given_for(given, "a"), Ok(Some(content(json!({"name": "x"})))));
        assert_eq!(given_for(given, "b"), Ok(Some(Said::Accept(None))));
        assert_eq!(given_for(given, "c"), Ok(Some(Said::Decline)));
        assert_eq!(given_for(given, "d"), Ok(Some(Said::Cancel)));
        assert_eq!(given_for(given, "e"), Ok(Some(content(json!({"n": 1})))));
        assert_eq!((given_for(given, "f"), given_for(given, "z")), (Ok(None), Ok(None)));
        assert!(given_for(given, "g").is_err() && given_for(given, "h").is_err());
    }
}
