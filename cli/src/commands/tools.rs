//! `tools-list`, `tools-get`, `tools-call` and the help of a single tool.

use std::path::Path;

use drowse_runtime::home::SessionName;
use drowse_runtime::wire::Ran;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::catalogue::{self, TOOLS, explain, name, one};
use super::operations::{self, Operations};
use super::tasks::{self, Called};
use super::{Context, Status, cached, present};
use crate::args::{Check, Given, TaskMode};
use crate::arguments::{self, Arguments};
use crate::error::{Exit, Failure};
use crate::render::content::Rendered;
use crate::render::tools;
use crate::result::{self, ToolResult, Verdict};
use crate::schema::check::{Checked, check};
use crate::schema::expected::{Expected, What};
use crate::schema::meant;

/// `tools-list`.
pub(super) fn list(context: &Context, session: &SessionName, full: bool) -> Result<Status, Failure> {
    catalogue::show(context, session, &TOOLS, |tool| {
        if full { tools::details(tool) + "\n" } else { tools::summary(tool) }
    })
}

/// `tools-get`.
pub(super) fn get(
    context: &Context,
    session: &SessionName,
    tool: &str,
    expected: Option<&Expected>,
) -> Result<Status, Failure> {
    let expected = catalogue::expectation(expected, tool)?;
    let (found, json) = if context.cached {
        cached::one(context, session, &TOOLS, tool)?
    } else {
        let found = operations::with(context, session, |operations| one(operations, session, &TOOLS, tool))?;
        let json = found.get().to_owned();
        (found, json)
    };
    let live: Value = result::read(found.get().as_bytes())?;
    if let Some((how, before)) = &expected {
        how.compare(What::Tool, before, &live, None)?;
    }
    if context.output.json {
        context.output.document(&json)?;
    } else {
        context.output.layout(&tools::details(&live))?;
    }
    Ok(Status::Done)
}

/// `tools-call <tool> --help`.
pub(super) fn help(context: &Context, session: &SessionName, tool: &str) -> Result<Status, Failure> {
    let found = operations::with(context, session, |operations| one(operations, session, &TOOLS, tool))?;
    if context.output.json {
        context.output.document(found.get())?;
    } else {
        let tool = result::read(found.get().as_bytes())?;
        context.output.layout(&tools::help(&tool, |words| context.line(session, words)))?;
    }
    Ok(Status::Done)
}

/// `tools-call`.
pub(super) fn call(
    context: &Context,
    session: &SessionName,
    tool: &str,
    given: &Given,
    checks: Check,
    task: Option<TaskMode>,
) -> Result<Status, Failure> {
    let mut arguments = Arguments::parse(&given.words, arguments::read_stdin)?;
    let expected = catalogue::expectation(given.expected.as_ref(), tool)?;
    let mut output_schema = None;
    let called = operations::with(context, session, |operations| {
        let live = if let Some((how, before)) = &expected {
            let live = one(operations, session, &TOOLS, tool)?;
            let live: Value = result::read(live.get().as_bytes())?;
            how.compare(What::Tool, before, &live, Some(&arguments.names()))?;
            Some(live)
        } else if arguments.needs_schema() || is_to_be_asked(context, operations, tool, checks, &arguments) {
            declared(operations, tool)?
        } else {
            None
        };
        if let Some(mut live) = live {
            arguments.coerce(&live["inputSchema"]);
            if checks != Check::Never {
                fits(context, session, &live, tool, &arguments)?;
            }
            output_schema = live.get_mut("outputSchema").map(Value::take);
        }
        let params = arguments::named(tool, &arguments.to_json());
        tasks::call(operations, session, tool, &params, task)
            .map_err(|failure| explain(operations, session, &TOOLS, tool, failure))
    })?;
    let answer = match called {
        Called::Result(answer) => answer,
        Called::Detached(task) => return tasks::detached(context, session, &task),
    };
    let status = show(context, &answer, given.output.as_deref())?;
    if let Some(schema) = output_schema.filter(|schema| schema.is_object() && status == Status::Done) {
        check_output(context, &schema, &answer);
    }
    Ok(status)
}

/// Whether the server is asked for its schema only to check by it.
///
/// What it said of the tool when it ran last is at hand. What fits that is sent, without another round trip; what does
/// not may fit what the tool has become.
fn is_to_be_asked(
    context: &Context,
    operations: &Operations<'_>,
    tool: &str,
    checks: Check,
    arguments: &Arguments,
) -> bool {
    match checks {
        Check::Always => true,
        Check::Never => false,
        // Of a server for one command nothing is known, and its start outweighs another question.
        Check::IfKnown if context.alone.is_some() => true,
        Check::IfKnown => operations.known_tool(tool).is_some_and(|known| {
            result::read::<Value>(known.get().as_bytes()).is_ok_and(|known| {
                let schema = known.get("inputSchema").filter(|schema| schema.is_object());
                schema.is_some_and(|schema| matches!(check(schema, &arguments.to_json()), Checked::Wrong(_)))
            })
        }),
    }
}

/// Refuses arguments that the tool's schema does not take.
fn fits(
    context: &Context,
    session: &SessionName,
    live: &Value,
    tool: &str,
    arguments: &Arguments,
) -> Result<(), Failure> {
    let schema = live.get("inputSchema").filter(|schema| schema.is_object());
    match schema.map(|schema| check(schema, &arguments.to_json())) {
        None | Some(Checked::Fits) => Ok(()),
        Some(Checked::Not(why)) => {
            context
                .output
                .warning("schema", format_args!("the arguments are not checked by the tool's schema: {why}"));
            Ok(())
        }
        Some(Checked::Wrong(problems)) => {
            let message = format!("the arguments do not fit the tool: {}", problems.join("; "));
            let mut hint = context.line(session, &format!("tools-call {tool} --help"));
            let meant = schema.map(|schema| meant::by(arguments, schema)).unwrap_or_default();
            if !meant.is_empty() {
                hint = format!("key=… is always a string; write: {}\n{hint}", meant.join(" "));
            }
            Err(Failure::new(Exit::Usage, "invalid-arguments", message)
                .with_ran(Ran::No)
                .with_hint(format!("{hint}\n--no-check sends them all the same")))
        }
    }
}

/// Says so where a result is not what the tool declares.
fn check_output(context: &Context, schema: &Value, answer: &str) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Structured<'a> {
        #[serde(borrow, default)]
        structured_content: Option<&'a RawValue>,
    }
    let structured =
        serde_json::from_str::<Structured<'_>>(answer).ok().and_then(|result| result.structured_content);
    let Some(structured) = structured else {
        context.output.warning(
            "output-schema",
            "the tool declares an output schema, and its result has no structured content",
        );
        return;
    };
    match check(schema, structured.get()) {
        Checked::Fits => {}
        Checked::Wrong(problems) => context.output.warning(
            "output-schema",
            format_args!("the result does not fit the tool's output schema: {}", problems.join("; ")),
        ),
        Checked::Not(why) => {
            context
                .output
                .detail(format_args!("the result is not checked by the tool's output schema: {why}"));
        }
    }
}

/// Prints the result of a tool.
pub(super) fn show(context: &Context, answer: &str, output: Option<&Path>) -> Result<Status, Failure> {
    let verdict: Verdict<'_> = result::read(answer.as_bytes())?;
    result::check_complete(&verdict)?;
    let failed = verdict.is_error == Some(true);
    // What a tool says of its failure is no content to keep.
    present(context, answer, output.filter(|_| !failed), || {
        Ok(Rendered::tool(result::read::<ToolResult>(answer.as_bytes())?))
    })?;
    if !failed {
        return Ok(Status::Done);
    }
    context.output.notice("error: the tool reported an error");
    Ok(Status::Bad(Exit::Server))
}

/// What the server says of a tool, if it does.
///
/// A server that refuses to list still may be called. Any other failure is one of the whole command, whose call was
/// not sent.
fn declared(operations: &mut Operations<'_>, tool: &str) -> Result<Option<Value>, Failure> {
    match operations.list(&TOOLS, |item| name(item).as_deref() == Some(tool)) {
        Ok(found) => Ok(found
            .last()
            .filter(|last| name(last).as_deref() == Some(tool))
            .and_then(|last| result::read(last.get().as_bytes()).ok())),
        Err(failure) if matches!(failure.kind.as_ref(), "server-error" | "invalid-answer") => Ok(None),
        Err(failure) => Err(failure.with_ran(Ran::No)),
    }
}
