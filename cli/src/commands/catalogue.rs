//! What a server lists: whole lists, one thing of a list, and what was meant by a name that is not in it.

use drowse_runtime::home::SessionName;
use drowse_runtime::suggest::nearest;
use drowse_runtime::wire::Ran;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::operations::{self, Operations};
use super::{Context, Status, cached};
use crate::error::{Exit, Failure};
use crate::result;
use crate::schema::expected::{Expected, Mode};

/// One of a server's lists.
#[derive(Debug)]
pub(super) struct Catalogue {
    pub(super) method: &'static str,
    /// The member of the result that has the items.
    pub(super) member: &'static str,
    /// One of them and several, for people.
    item: &'static str,
    items: &'static str,
    verb: &'static str,
}

pub(super) const TOOLS: Catalogue =
    Catalogue { method: "tools/list", member: "tools", item: "tool", items: "tools", verb: "tools-list" };
pub(super) const PROMPTS: Catalogue = Catalogue {
    method: "prompts/list",
    member: "prompts",
    item: "prompt",
    items: "prompts",
    verb: "prompts-list",
};
pub(super) const RESOURCES: Catalogue = Catalogue {
    method: "resources/list",
    member: "resources",
    item: "resource",
    items: "resources",
    verb: "resources-list",
};
pub(super) const TEMPLATES: Catalogue = Catalogue {
    method: "resources/templates/list",
    member: "resourceTemplates",
    item: "template",
    items: "resource templates",
    verb: "resources-templates-list",
};

pub(super) const TASKS: Catalogue =
    Catalogue { method: "tasks/list", member: "tasks", item: "task", items: "tasks", verb: "tasks-list" };

/// JSON-RPC: invalid params, which is how a server refuses a name that it does not have.
const INVALID_PARAMS: i64 = -32602;
/// JSON-RPC: no such method, which some servers say instead.
const METHOD_NOT_FOUND: i64 = -32601;

/// The command that shows a whole list.
pub(super) fn show(
    context: &Context,
    session: &SessionName,
    catalogue: &Catalogue,
    render: impl FnMut(&Value) -> String,
) -> Result<Status, Failure> {
    let found = if context.cached {
        cached::list(context, session, catalogue)?
    } else {
        operations::with(context, session, |operations| operations.list(catalogue, |_| false))?
    };
    print(context, session, catalogue, &found, render)
}

/// Prints a whole list.
pub(super) fn print(
    context: &Context,
    session: &SessionName,
    catalogue: &Catalogue,
    found: &[Box<RawValue>],
    mut render: impl FnMut(&Value) -> String,
) -> Result<Status, Failure> {
    if context.output.json {
        context.output.document(&array(found))?;
        return Ok(Status::Done);
    }
    if found.is_empty() {
        context.output.notice(format_args!("{} has no {}", context.who(session), catalogue.items));
    }
    let mut text = String::new();
    for item in found {
        text.push_str(&render(&result::read::<Value>(item.get().as_bytes())?));
    }
    // Where items are set apart by empty lines, none stands at the end.
    context.output.layout(text.strip_suffix("\n\n").unwrap_or(&text))?;
    Ok(Status::Done)
}

/// The thing of that name.
pub(super) fn one(
    operations: &mut Operations<'_>,
    session: &SessionName,
    catalogue: &Catalogue,
    wanted: &str,
) -> Result<Box<RawValue>, Failure> {
    let found = operations.list(catalogue, |item| name(item).as_deref() == Some(wanted))?;
    named(operations.context, session, catalogue, wanted, found)
}

/// The thing of that name in a list.
pub(super) fn named(
    context: &Context,
    session: &SessionName,
    catalogue: &Catalogue,
    wanted: &str,
    mut found: Vec<Box<RawValue>>,
) -> Result<Box<RawValue>, Failure> {
    match found.iter().position(|item| name(item).as_deref() == Some(wanted)) {
        Some(at) => Ok(found.swap_remove(at)),
        None => {
            let names: Vec<String> = found.iter().filter_map(|item| name(item)).collect();
            Err(unknown(context, session, catalogue, wanted, &names).with_ran(Ran::No))
        }
    }
}

/// What `--schema` says of the thing of that name, unless it does not matter.
pub(super) fn expectation<'a>(
    expected: Option<&'a Expected>,
    name: &str,
) -> Result<Option<(&'a Expected, Value)>, Failure> {
    // Read even then: a file that is not there is a mistake.
    let read = expected.map(|expected| expected.read(name).map(|before| (expected, before))).transpose()?;
    Ok(read.filter(|(expected, _)| expected.mode != Mode::Ignore))
}

/// Says "Did you mean" where the server refused a name because it has nothing of that name.
pub(super) fn explain(
    operations: &mut Operations<'_>,
    session: &SessionName,
    catalogue: &Catalogue,
    wanted: &str,
    failure: Failure,
) -> Failure {
    let refused = failure.kind == "server-error"
        && failure.rpc.as_ref().is_some_and(|rpc| [INVALID_PARAMS, METHOD_NOT_FOUND].contains(&rpc.code));
    if !refused {
        return failure;
    }
    let Ok(found) = operations.list(catalogue, |_| false) else { return failure };
    let names: Vec<String> = found.iter().filter_map(|item| name(item)).collect();
    if names.iter().any(|name| name == wanted) {
        return failure;
    }
    match &unknown(operations.context, session, catalogue, wanted, &names).hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

fn unknown(
    context: &Context,
    session: &SessionName,
    catalogue: &Catalogue,
    wanted: &str,
    names: &[String],
) -> Failure {
    let Catalogue { item, items, verb, .. } = catalogue;
    let message = format!("{} has no {item} `{wanted}`", context.who(session));
    let failure = Failure::new(Exit::Usage, format!("no-{item}"), message);
    let reversed = |name: &&String| {
        let mut words: Vec<&str> = name.split(['-', '_']).collect();
        words.reverse();
        wanted.split(['-', '_']).eq(words)
    };
    let meant = names.iter().find(reversed).map(String::as_str);
    match meant.or_else(|| nearest(wanted, names.iter().map(String::as_str))) {
        Some(meant) => failure.with_hint(format!("Did you mean: {meant}")),
        None => failure.with_hint(format!("its {items}: {}", context.line(session, verb))),
    }
}

/// The name of an item as it came.
pub(super) fn name(item: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    serde_json::from_str::<Named>(item.get()).ok().map(|item| item.name)
}

/// A bare array of items as they came.
fn array(items: &[Box<RawValue>]) -> String {
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
