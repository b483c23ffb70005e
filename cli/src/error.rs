//! What a command that failed says, and with which status it exits.
//!
//! Owns the failure document of `--json` and its form for people. Never decides *whether* something failed: the
//! commands do that, and the runtime says what it knows of a call (`kind`, `ran`, the exit status).

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::{Deref, DerefMut};

use drowse_runtime::caller::{CallError, RpcError};
use drowse_runtime::wire::Ran;
use serde_json::{Value, json};

pub(crate) use drowse_runtime::caller::ExitClass as Exit;

use crate::text::Sanitized;

/// A command that failed, with everything that its user needs to go on.
#[derive(Debug)]
pub(crate) struct Failure(Box<Details>);

/// What a [`Failure`] knows. Boxed there, because a success should not carry room for it.
#[derive(Debug)]
pub(crate) struct Details {
    /// One sentence; may hold text from a server, so it is sanitized when shown.
    pub(crate) message: String,
    /// A stable word for programs.
    pub(crate) kind: Cow<'static, str>,
    /// The exit status.
    pub(crate) exit: Exit,
    /// Whether the operation may have run, where there was one.
    pub(crate) ran: Option<Ran>,
    /// The next thing to do, usually a command.
    pub(crate) hint: Option<String>,
    /// The last lines that a server wrote to stderr before it failed to start.
    pub(crate) stderr: Option<String>,
    /// The JSON-RPC error that came as the answer.
    pub(crate) rpc: Option<RpcError>,
    /// Whether `message` already says what `ran` says.
    says_ran: bool,
}

impl Failure {
    /// A failure of the given kind.
    pub(crate) fn new(exit: Exit, kind: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self(Box::new(Details {
            message: message.into(),
            kind: kind.into(),
            exit,
            ran: None,
            hint: None,
            stderr: None,
            rpc: None,
            says_ran: false,
        }))
    }

    /// A command line that cannot be carried out as written.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// Adds what to do next.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds whether the operation may have run.
    pub(crate) fn with_ran(mut self, ran: Ran) -> Self {
        self.ran = Some(ran);
        self
    }

    /// The same with the status that grep(1) has for a failure: 1 means that nothing was found.
    pub(crate) fn of_grep(mut self) -> Self {
        if self.exit != Exit::Interrupted {
            self.exit = Exit::Server;
        }
        self
    }

    /// The one document that a failed `--json` command prints, on stderr.
    pub(crate) fn to_json(&self) -> String {
        let mut document = serde_json::Map::new();
        document.insert("error".into(), self.message.as_str().into());
        document.insert("code".into(), (self.exit as u8).into());
        document.insert("kind".into(), self.kind.as_ref().into());
        if let Some(ran) = self.ran {
            document.insert("ran".into(), ran.as_str().into());
        }
        let mut extra = serde_json::Map::new();
        if let Some(hint) = &self.hint {
            extra.insert("hint".into(), hint.as_str().into());
        }
        if let Some(stderr) = &self.stderr {
            extra.insert("stderr".into(), stderr.as_str().into());
        }
        if let Some(rpc) = &self.rpc {
            let mut error = json!({"code": rpc.code, "message": rpc.message});
            if let Some(data) = rpc.data.as_deref().and_then(|data| serde_json::from_str(data).ok()) {
                error["data"] = data;
            }
            extra.insert("rpc".into(), error);
        }
        if !extra.is_empty() {
            document.insert("_drowse".into(), extra.into());
        }
        Value::from(document).to_string()
    }

    /// The form for people: what happened, whether it may have run, what to do.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("error: {}", Sanitized(&self.message));
        match self.ran.filter(|_| !self.says_ran && self.exit != Exit::Usage) {
            Some(Ran::No) => text.push_str(" (it did not run; safe to try again)"),
            Some(Ran::Unknown) => text.push_str(" (it may have run)"),
            _ => {}
        }
        if let Some(stderr) = self.stderr.as_deref().map(str::trim_end).filter(|tail| !tail.is_empty()) {
            text.push_str("\n  the server's last words:");
            for line in stderr.lines() {
                let _ = write!(text, "\n    {}", Sanitized(line));
            }
        }
        if let Some(hint) = &self.hint {
            for line in hint.lines() {
                let _ = write!(text, "\n  ↳ {}", Sanitized(line));
            }
        }
        text
    }
}

impl Deref for Failure {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut Details {
        &mut self.0
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let mut failure = Self::new(error.exit(), error.kind().as_str(), error.to_string());
        failure.ran = error.ran();
        failure.stderr = error.stderr().map(str::to_owned);
        // The texts of the runtime say it themselves, save where they are the bridge's own words.
        failure.says_ran = !matches!(error, CallError::Failed { .. });
        if let CallError::Answer(rpc) | CallError::Failed { error: rpc, .. } = error {
            failure.rpc = Some(rpc);
        }
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_document_with_the_four_fields() {
        let failure = Failure::new(Exit::Network, "timeout", "no answer within 5 s").with_ran(Ran::Unknown);
        assert_eq!(
            failure.to_json(),
            r#"{"error":"no answer within 5 s","code":3,"kind":"timeout","ran":"unknown"}"#
        );
    }

    #[test]
    fn extras_stand_under_one_key_only() {
        let mut failure =
            Failure::new(Exit::Server, "server-error", "nope").with_hint("drowse @a tools-list");
        failure.rpc = Some(RpcError { code: -32602, message: "nope".into(), data: Some("[1]".into()) });
        let document: Value = serde_json::from_str(&failure.to_json()).unwrap();
        let keys: Vec<_> = document.as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["error", "code", "kind", "_drowse"]);
        assert_eq!(document["_drowse"]["rpc"], json!({"code": -32602, "message": "nope", "data": [1]}));
        assert_eq!(document["_drowse"]["hint"], "drowse @a tools-list");
    }

    #[test]
    fn text_escapes_what_a_server_wrote() {
        let mut failure = Failure::new(Exit::Server, "start-failed", "bad \u{1b}[2J").with_ran(Ran::No);
        failure.stderr = Some("line one\nline \u{7}two\n".into());
        let text = failure.to_text();
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
        assert!(text.contains("did not run"), "{text}");
        assert!(text.contains("\n    line one\n"), "{text}");
    }
}
