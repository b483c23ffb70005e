//! `prompts-list` and `prompts-get`.

use drowse_runtime::home::SessionName;
use serde_json::Value;

use super::catalogue::{self, PROMPTS};
use super::{Context, Status, operations, present};
use crate::args::Given;
use crate::arguments::{self, Arguments};
use crate::error::Failure;
use crate::render::content::Rendered;
use crate::render::tools::prompt;
use crate::result::{self, PromptResult, Verdict};
use crate::schema::expected::What;

/// `prompts-list`.
pub(super) fn list(context: &Context, session: &SessionName) -> Result<Status, Failure> {
    catalogue::show(context, session, &PROMPTS, prompt)
}

/// `prompts-get`.
pub(super) fn get(
    context: &Context,
    session: &SessionName,
    name: &str,
    given: &Given,
) -> Result<Status, Failure> {
    let mut arguments = Arguments::parse(&given.words, arguments::read_stdin)?;
    arguments.make_strings()?;
    let expected = catalogue::expectation(given.expected.as_ref(), name)?;
    let params = arguments::named(name, &arguments.to_json());
    let answer = operations::with(context, session, |operations| {
        if let Some((how, before)) = &expected {
            let live = catalogue::one(operations, session, &PROMPTS, name)?;
            let live: Value = result::read(live.get().as_bytes())?;
            how.compare(What::Prompt, before, &live, Some(&arguments.names()))?;
        }
        operations
            .call("prompts/get", &params)
            .map_err(|failure| catalogue::explain(operations, session, &PROMPTS, name, failure))
    })?;
    result::check_complete(&result::read::<Verdict<'_>>(answer.as_bytes())?)?;
    present(context, &answer, given.output.as_deref(), || {
        Ok(Rendered::prompt(result::read::<PromptResult>(answer.as_bytes())?))
    })?;
    Ok(Status::Done)
}
