//! What `grep` is given.

use clap::ArgMatches;
use drowse_runtime::home::SessionName;
use drowse_runtime::snapshot::{PatternKind, Scope};

use super::{number, session_name};
use crate::error::Failure;

/// A search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Grep {
    /// Only this session, by asking its server; else all, as they are on disk.
    pub(crate) session: Option<SessionName>,
    pub(crate) pattern: String,
    pub(crate) kind: PatternKind,
    pub(crate) scope: Scope,
    /// No more results than this.
    pub(crate) limit: Option<usize>,
}

/// Reads the words and flags of `grep`.
pub(super) fn read(session: Option<SessionName>, matches: &ArgMatches) -> Result<Grep, Failure> {
    let words: Vec<&String> = matches.get_many::<String>("pattern").into_iter().flatten().collect();
    let (session, pattern) = match (&session, words.as_slice()) {
        (_, [pattern]) => (session, (*pattern).clone()),
        // The session may stand after the verb, on either side of the pattern.
        (None, [name, pattern]) if name.starts_with('@') => (Some(session_name(name)?), (*pattern).clone()),
        (None, [pattern, name]) if name.starts_with('@') => (Some(session_name(name)?), (*pattern).clone()),
        (_, [_, extra]) => {
            return Err(Failure::usage(format!("unexpected argument `{extra}`"))
                .with_hint("a pattern with spaces in it stands in quotes"));
        }
        _ => return Err(Failure::usage("missing <pattern>").with_hint("drowse grep --help")),
    };
    let flag = |id: &str| matches.get_flag(id);
    let given = Scope {
        tools: flag("tools"),
        resources: flag("resources"),
        prompts: flag("prompts"),
        instructions: flag("instructions"),
    };
    let nothing = Scope { tools: false, resources: false, prompts: false, instructions: false };
    let scope = if given == nothing { Scope { tools: true, instructions: true, ..nothing } } else { given };
    let limit = matches.get_one::<String>("max-results");
    Ok(Grep {
        session,
        pattern,
        kind: PatternKind { regex: flag("regex"), case_sensitive: flag("case-sensitive") },
        scope,
        limit: limit.map(|typed| number("--max-results", typed)).transpose()?,
    })
}
