//! `resources-list`, `resources-templates-list` and `resources-read`.

use std::path::Path;

use drowse_runtime::home::SessionName;
use drowse_runtime::suggest::nearest;
use serde::Deserialize;
use serde_json::json;

use super::catalogue::{self, RESOURCES, TEMPLATES};
use super::operations::Operations;
use super::{Context, Status, operations};
use crate::error::Failure;
use crate::render::content::Rendered;
use crate::render::tools::resource;
use crate::result::{self, ReadResult, Verdict};

/// How servers of either era refuse a URI.
const INVALID_PARAMS: i64 = -32602;
const NOT_FOUND: i64 = -32002;

/// `resources-list`.
pub(super) fn list(context: &Context, session: &SessionName) -> Result<Status, Failure> {
    catalogue::show(context, session, &RESOURCES, |item| resource(item, "uri"))
}

/// `resources-templates-list`.
pub(super) fn templates(context: &Context, session: &SessionName) -> Result<Status, Failure> {
    catalogue::show(context, session, &TEMPLATES, |item| resource(item, "uriTemplate"))
}

/// `resources-read`.
pub(super) fn read(
    context: &Context,
    session: &SessionName,
    uri: &str,
    output: Option<&Path>,
) -> Result<Status, Failure> {
    let params = json!({"uri": uri}).to_string();
    let answer = operations::with(context, session, |operations| {
        operations.call("resources/read", &params).map_err(|failure| explain(operations, uri, failure))
    })?;
    result::check_complete(&result::read::<Verdict<'_>>(answer.as_bytes())?)?;
    if context.output.json && output.is_none() {
        context.output.document(&answer)?;
        return Ok(Status::Done);
    }
    let rendered = Rendered::resource(result::read::<ReadResult>(answer.as_bytes())?);
    match output {
        Some(path) => {
            for line in rendered.save(path)? {
                context.output.notice(line);
            }
            if context.output.json {
                context.output.document(&answer)?;
            }
        }
        None => {
            context.output.text(&rendered.text)?;
            if !rendered.parts.is_empty() {
                context.output.notice("↳ save it with -o <file>");
            }
        }
    }
    Ok(Status::Done)
}

/// Says "Did you mean" where the server refused a URI that is nearly one that it lists.
fn explain(operations: &mut Operations<'_>, uri: &str, failure: Failure) -> Failure {
    let refused = failure.rpc.as_ref().is_some_and(|rpc| [INVALID_PARAMS, NOT_FOUND].contains(&rpc.code));
    if failure.kind != "server-error" || !refused {
        return failure;
    }
    #[derive(Deserialize)]
    struct Listed {
        uri: String,
    }
    let Ok(found) = operations.list(&RESOURCES, |_| false) else { return failure };
    let uris: Vec<String> = found
        .iter()
        .filter_map(|item| serde_json::from_str::<Listed>(item.get()).ok())
        .map(|item| item.uri)
        .collect();
    match nearest(uri, uris.iter().map(String::as_str)).filter(|meant| *meant != uri) {
        Some(meant) => failure.with_hint(format!("Did you mean: {meant}")),
        None => failure,
    }
}
