//! `tools-list`, `tools-get`, `tools-call` and the help of a single tool.

use std::path::Path;

use drowse_runtime::home::SessionName;
use drowse_runtime::suggest::nearest;
use drowse_runtime::wire::Ran;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::operations::{self, Operations};
use super::tasks::{self, Called};
use super::{Context, Status};
use crate::args::Mode;
use crate::arguments::{self, Arguments};
use crate::error::{Exit, Failure};
use crate::render::content::Rendered;
use crate::render::tools;
use crate::result::{self, ToolResult, Verdict};

/// JSON-RPC: invalid params, which is how a server refuses a tool that it does not have.
const INVALID_PARAMS: i64 = -32602;
/// JSON-RPC: no such method, which some servers say instead.
const METHOD_NOT_FOUND: i64 = -32601;

/// `tools-list`.
pub(super) fn list(context: &Context, session: &SessionName, full: bool) -> Result<Status, Failure> {
    let found = operations::with(context, session, |operations| all(operations, |_| false))?;
    if context.output.json {
        context.output.document(&array(&found))?;
        return Ok(Status::Done);
    }
    if found.is_empty() {
        context.output.notice(format_args!("{session} has no tools"));
    }
    let mut text = String::new();
    for tool in &found {
        let tool: Value = result::read(tool.get().as_bytes())?;
        if full {
            text.push_str(&tools::details(&tool));
            text.push('\n');
        } else {
            text.push_str(&tools::summary(&tool));
        }
    }
    context.output.layout(text.strip_suffix("\n\n").unwrap_or(&text))?;
    Ok(Status::Done)
}

/// `tools-get`.
pub(super) fn get(context: &Context, session: &SessionName, tool: &str) -> Result<Status, Failure> {
    let found = operations::with(context, session, |operations| one(operations, session, tool))?;
    if context.output.json {
        context.output.document(found.get())?;
    } else {
        context.output.layout(&tools::details(&result::read(found.get().as_bytes())?))?;
    }
    Ok(Status::Done)
}

/// `tools-call <tool> --help`.
pub(super) fn help(context: &Context, session: &SessionName, tool: &str) -> Result<Status, Failure> {
    let found = operations::with(context, session, |operations| one(operations, session, tool))?;
    if context.output.json {
        context.output.document(found.get())?;
    } else {
        let tool = result::read(found.get().as_bytes())?;
        context.output.layout(&tools::help(&session.to_string(), &tool))?;
    }
    Ok(Status::Done)
}

/// `tools-call`.
pub(super) fn call(
    context: &Context,
    session: &SessionName,
    tool: &str,
    words: &[String],
    output: Option<&Path>,
    task: Option<Mode>,
) -> Result<Status, Failure> {
    let mut arguments = Arguments::parse(words, arguments::read_stdin)?;
    let called = operations::with(context, session, |operations| {
        if arguments.needs_schema()
            && let Some(schema) = schema(operations, tool)?
        {
            arguments.coerce(&schema);
        }
        let mut params = String::from("{\"name\":");
        arguments::push_string(&mut params, tool);
        params.push_str(",\"arguments\":");
        params.push_str(&arguments.to_json());
        params.push('}');
        match task {
            Some(mode) => tasks::call(operations, session, tool, &params, mode),
            None => operations
                .call("tools/call", &params)
                .map(Called::Result)
                .map_err(|failure| tasks::explain(operations, tool, failure)),
        }
        .map_err(|failure| explain(operations, session, tool, failure))
    })?;
    match called {
        Called::Result(answer) => show(context, &answer, output),
        Called::Detached(task) => tasks::detached(context, session, &task),
    }
}

/// Prints the result of a tool.
pub(super) fn show(context: &Context, answer: &str, output: Option<&Path>) -> Result<Status, Failure> {
    let verdict: Verdict<'_> = result::read(answer.as_bytes())?;
    result::check_complete(&verdict)?;
    let failed = verdict.is_error == Some(true);
    if context.output.json && output.is_none() {
        context.output.document(answer)?;
    } else {
        let rendered = Rendered::tool(result::read::<ToolResult>(answer.as_bytes())?);
        match output.filter(|_| !failed) {
            Some(path) => {
                for line in rendered.save(path)? {
                    context.output.notice(line);
                }
            }
            None if !rendered.parts.is_empty() && !failed => {
                context.output.notice("↳ save binary content with -o <file>");
            }
            None => {}
        }
        if context.output.json {
            context.output.document(answer)?;
        } else if output.is_none() || failed || !rendered.parts.is_empty() {
            context.output.text(&rendered.text)?;
        }
    }
    if !failed {
        return Ok(Status::Done);
    }
    context.output.notice("error: the tool reported an error");
    Ok(Status::Bad(Exit::Server))
}

/// All tools, or those up to the first that is enough.
fn all(
    operations: &mut Operations<'_>,
    enough: impl FnMut(&RawValue) -> bool,
) -> Result<Vec<Box<RawValue>>, Failure> {
    operations.list("tools/list", "tools", enough)
}

/// The tool of that name.
fn one(operations: &mut Operations<'_>, session: &SessionName, tool: &str) -> Result<Box<RawValue>, Failure> {
    let mut found = all(operations, |item| name(item).as_deref() == Some(tool))?;
    match found.pop() {
        Some(last) if name(&last).as_deref() == Some(tool) => Ok(last),
        last => {
            let names: Vec<String> = found.iter().chain(&last).filter_map(|item| name(item)).collect();
            Err(unknown(session, tool, &names).with_ran(Ran::No))
        }
    }
}

/// The input schema of a tool, if the server tells.
///
/// A server that refuses to list still may be called. Any other failure is one of the whole command, whose call was
/// not sent.
fn schema(operations: &mut Operations<'_>, tool: &str) -> Result<Option<Value>, Failure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Schema {
        #[serde(default)]
        input_schema: Value,
    }
    match all(operations, |item| name(item).as_deref() == Some(tool)) {
        Ok(found) => Ok(found
            .last()
            .filter(|last| name(last).as_deref() == Some(tool))
            .and_then(|last| result::read::<Schema>(last.get().as_bytes()).ok())
            .map(|schema| schema.input_schema)),
        Err(failure) if matches!(failure.kind.as_ref(), "server-error" | "invalid-answer") => Ok(None),
        Err(failure) => Err(failure.with_ran(Ran::No)),
    }
}

/// Says "Did you mean" where the server refused a tool because it has none of that name.
fn explain(operations: &mut Operations<'_>, session: &SessionName, tool: &str, failure: Failure) -> Failure {
    let refused = failure.kind == "server-error"
        && failure.rpc.as_ref().is_some_and(|rpc| [INVALID_PARAMS, METHOD_NOT_FOUND].contains(&rpc.code));
    if !refused {
        return failure;
    }
    let Ok(found) = all(operations, |_| false) else { return failure };
    let names: Vec<String> = found.iter().filter_map(|item| name(item)).collect();
    if names.iter().any(|name| name == tool) {
        return failure;
    }
    match &unknown(session, tool, &names).hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

fn unknown(session: &SessionName, tool: &str, names: &[String]) -> Failure {
    let failure = Failure::new(Exit::Usage, "no-tool", format!("{session} has no tool `{tool}`"));
    let reversed = |name: &&String| {
        let mut words: Vec<&str> = name.split(['-', '_']).collect();
        words.reverse();
        tool.split(['-', '_']).eq(words)
    };
    let meant = names.iter().find(reversed).map(String::as_str);
    match meant.or_else(|| nearest(tool, names.iter().map(String::as_str))) {
        Some(meant) => failure.with_hint(format!("Did you mean: {meant}")),
        None => failure.with_hint(format!("its tools: drowse {session} tools-list")),
    }
}

fn name(tool: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    serde_json::from_str::<Named>(tool.get()).ok().map(|tool| tool.name)
}

/// A bare array of items as they came.
pub(super) fn array(items: &[Box<RawValue>]) -> String {
    let mut array = String::from("[");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            array.push(',');
        }
        array.push_str(item.get());
    }
    array.push(']');
    array
}
