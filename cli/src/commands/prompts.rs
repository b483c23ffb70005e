//! `prompts-list` and `prompts-get`.

use std::path::Path;

use drowse_runtime::home::SessionName;

use super::catalogue::{self, PROMPTS};
use super::{Context, Status, operations, present};
use crate::arguments::{self, Arguments};
use crate::error::Failure;
use crate::render::content::Rendered;
use crate::render::tools::prompt;
use crate::result::{self, PromptResult, Verdict};

/// `prompts-list`.
pub(super) fn list(context: &Context, session: &SessionName) -> Result<Status, Failure> {
    catalogue::show(context, session, &PROMPTS, prompt)
}

/// `prompts-get`.
pub(super) fn get(
    context: &Context,
    session: &SessionName,
    name: &str,
    words: &[String],
    output: Option<&Path>,
) -> Result<Status, Failure> {
    let mut arguments = Arguments::parse(words, arguments::read_stdin)?;
    arguments.make_strings()?;
    let params = arguments::named(name, &arguments.to_json());
    let answer = operations::with(context, session, |operations| {
        operations
            .call("prompts/get", &params)
            .map_err(|failure| catalogue::explain(operations, session, &PROMPTS, name, failure))
    })?;
    result::check_complete(&result::read::<Verdict<'_>>(answer.as_bytes())?)?;
    present(context, &answer, output, || {
        Ok(Rendered::prompt(result::read::<PromptResult>(answer.as_bytes())?))
    })?;
    Ok(Status::Done)
}
