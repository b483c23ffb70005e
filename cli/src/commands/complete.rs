//! `complete`: how the value of an argument may go on.

use drowse_runtime::home::SessionName;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Context, Status, operations};
use crate::args::Completion;
use crate::error::Failure;
use crate::result::{self, Verdict};

/// There is no such method (JSON-RPC 2.0, Error object).
const METHOD_NOT_FOUND: i64 = -32601;

/// The result of `completion/complete`.
#[derive(Debug, Deserialize)]
struct Answer {
    completion: Values,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Values {
    values: Vec<String>,
    #[serde(default)]
    total: Option<f64>,
    #[serde(default)]
    has_more: Option<bool>,
}

/// `complete`.
pub(super) fn complete(
    context: &Context,
    session: &SessionName,
    asked: &Completion,
) -> Result<Status, Failure> {
    let params = params(asked);
    let answer = operations::with(context, session, |operations| {
        operations.call("completion/complete", &params).map_err(|mut failure| {
            if failure.rpc.as_ref().is_some_and(|rpc| rpc.code == METHOD_NOT_FOUND) {
                failure.message = format!("{} completes nothing: {}", context.who(session), failure.message);
            }
            failure
        })
    })?;
    result::check_complete(&result::read::<Verdict<'_>>(answer.as_bytes())?)?;
    if context.output.json {
        context.output.document(&answer)?;
        return Ok(Status::Done);
    }
    let Answer { completion } = result::read(answer.as_bytes())?;
    let text: String = completion.values.iter().map(|value| format!("{value}\n")).collect();
    context.output.text(&text)?;
    let shown = completion.values.len();
    match completion.total {
        _ if shown == 0 => context.output.notice("no suggestions"),
        Some(total) if total > shown as f64 => {
            context.output.notice(format_args!("{shown} of {total}; a longer prefix shows others"));
        }
        None if completion.has_more == Some(true) => {
            context.output.notice("there are more; a longer prefix shows others");
        }
        _ => {}
    }
    Ok(Status::Done)
}

fn params(asked: &Completion) -> String {
    let reference = if asked.of_resource {
        json!({"type": "ref/resource", "uri": asked.reference})
    } else {
        json!({"type": "ref/prompt", "name": asked.reference})
    };
    let mut params = json!({"ref": reference, "argument": {"name": asked.argument, "value": asked.prefix}});
    // Known since 2025-06-18 only: an older server is not to meet it without need.
    if !asked.with.is_empty() {
        let known: Map<String, Value> =
            asked.with.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        params["context"] = json!({"arguments": known});
    }
    params.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked() {
        let mut asked = Completion {
            of_resource: false,
            reference: "review".into(),
            argument: "style".into(),
            prefix: String::new(),
            with: vec![("language".into(), "py".into())],
        };
        let with: Value = serde_json::from_str(&params(&asked)).unwrap();
        assert_eq!(
            with,
            json!({"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "style", "value": ""},
                "context": {"arguments": {"language": "py"}}})
        );
        asked = Completion { of_resource: true, reference: "a://{b}".into(), with: vec![], ..asked };
        let without: Value = serde_json::from_str(&params(&asked)).unwrap();
        assert_eq!(without["ref"], json!({"type": "ref/resource", "uri": "a://{b}"}));
        assert!(without.get("context").is_none());
    }
}
