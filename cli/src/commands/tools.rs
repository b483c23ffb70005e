//! `tools-list`, `tools-get`, `tools-call` and the help of a single tool.

use std::path::Path;

use drowse_runtime::home::SessionName;
use drowse_runtime::wire::Ran;
use serde::Deserialize;
use serde_json::Value;

use super::catalogue::{self, TOOLS, explain, name, one};
use super::operations::{self, Operations};
use super::{Context, Status, present};
use crate::arguments::{self, Arguments};
use crate::error::{Exit, Failure};
use crate::render::content::Rendered;
use crate::render::tools;
use crate::result::{self, ToolResult, Verdict};

/// `tools-list`.
pub(super) fn list(context: &Context, session: &SessionName, full: bool) -> Result<Status, Failure> {
    catalogue::show(context, session, &TOOLS, |tool| {
        if full { tools::details(tool) + "\n" } else { tools::summary(tool) }
    })
}

/// `tools-get`.
pub(super) fn get(context: &Context, session: &SessionName, tool: &str) -> Result<Status, Failure> {
    let found = operations::with(context, session, |operations| one(operations, session, &TOOLS, tool))?;
    if context.output.json {
        context.output.document(found.get())?;
    } else {
        context.output.layout(&tools::details(&result::read(found.get().as_bytes())?))?;
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
    words: &[String],
    output: Option<&Path>,
) -> Result<Status, Failure> {
    let mut arguments = Arguments::parse(words, arguments::read_stdin)?;
    let answer = operations::with(context, session, |operations| {
        if arguments.needs_schema()
            && let Some(schema) = schema(operations, tool)?
        {
            arguments.coerce(&schema);
        }
        let params = arguments::named(tool, &arguments.to_json());
        operations
            .call("tools/call", &params)
            .map_err(|failure| explain(operations, session, &TOOLS, tool, failure))
    })?;
    show(context, &answer, output)
}

fn show(context: &Context, answer: &str, output: Option<&Path>) -> Result<Status, Failure> {
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
    match operations.list(&TOOLS, |item| name(item).as_deref() == Some(tool)) {
        Ok(found) => Ok(found
            .last()
            .filter(|last| name(last).as_deref() == Some(tool))
            .and_then(|last| result::read::<Schema>(last.get().as_bytes()).ok())
            .map(|schema| schema.input_schema)),
        Err(failure) if matches!(failure.kind.as_ref(), "server-error" | "invalid-answer") => Ok(None),
        Err(failure) => Err(failure.with_ran(Ran::No)),
    }
}
