//! `man`: manual pages, made of the commands' own help.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{Context, Status};
use crate::error::{Exit, Failure};
use crate::grammar::{self, man};

/// Prints one page, or writes all of them.
pub(super) fn man(
    context: &Context,
    verb: Option<&'static str>,
    directory: Option<&Path>,
) -> Result<Status, Failure> {
    let Some(directory) = directory else {
        let page = verb.and_then(grammar::verb).map_or_else(man::overview, man::page);
        context.output.verbatim(&page)?;
        return Ok(Status::Done);
    };
    if verb.is_some() {
        return Err(Failure::usage("-o is for the pages of all commands: leave the command out"));
    }
    let failed = |what: &Path, error: std::io::Error| {
        Failure::new(Exit::Usage, "output", format!("cannot write {}: {error}", what.display()))
    };
    fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    let mut files = Vec::new();
    for (name, page) in man::pages() {
        let file = directory.join(format!("{name}.1"));
        fs::write(&file, page).map_err(|error| failed(&file, error))?;
        files.push(file);
    }
    if context.output.json {
        context.output.document(&json!(files).to_string())?;
    } else {
        context.output.text(&format!("{} pages written to {}", files.len(), directory.display()))?;
        context.output.notice(format_args!("↳ man {}", directory.join("drowse.1").display()));
    }
    Ok(Status::Done)
}
