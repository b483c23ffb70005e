//! `resources-list`, `resources-templates-list` and `resources-read`.

use std::path::Path;

use drowse_runtime::home::SessionName;
use serde_json::json;

use super::catalogue::{self, RESOURCES, TEMPLATES};
use super::{Context, Status, operations};
use crate::error::Failure;
use crate::render::content::Rendered;
use crate::render::tools::resource;
use crate::result::{self, ReadResult, Verdict};

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
    let answer = operations::with(context, session, |operations| operations.call("resources/read", &params))?;
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
