//! `resources-list` and `resources-read`.

use std::path::Path;

use drowse_runtime::home::SessionName;
use serde_json::{Value, json};

use super::{Context, Status, operations, tools};
use crate::error::Failure;
use crate::render::content::Rendered;
use crate::render::tools::resource;
use crate::result::{self, ReadResult, Verdict};

/// `resources-list`.
pub(super) fn list(context: &Context, session: &SessionName) -> Result<Status, Failure> {
    let found = operations::with(context, session, |operations| {
        operations.list("resources/list", "resources", |_| false)
    })?;
    if context.output.json {
        context.output.document(&tools::array(&found))?;
        return Ok(Status::Done);
    }
    if found.is_empty() {
        context.output.notice(format_args!("{session} has no resources"));
    }
    let mut text = String::new();
    for item in &found {
        text.push_str(&resource(&result::read::<Value>(item.get().as_bytes())?));
    }
    context.output.layout(&text)?;
    Ok(Status::Done)
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
