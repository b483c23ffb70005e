//! `grep`: what servers offer, found by a word of it. All sessions are searched as they are on disk; a session that is
//! named is woken and asked.

use std::time::{Duration, Instant};

use drowse_runtime::caller::{Listed, Sessions, Wait};
use drowse_runtime::home::SessionName;
use drowse_runtime::record::{SessionRecord, now_ms};
use drowse_runtime::snapshot::{self, Header, Hit, Job, Kind, Pattern, Searched};
use drowse_runtime::wire;
use serde_json::Value;
use serde_json::value::RawValue;

use super::catalogue::{Catalogue, PROMPTS, RESOURCES, TEMPLATES, TOOLS};
use super::operations::{self, Operations};
use super::{Context, Status};
use crate::args::Grep;
use crate::error::{Exit, Failure};
use crate::output::usual_columns;
use crate::render::found::{self, Found};
use crate::render::server::Info;
use crate::result;

/// Bridges that are still asking their servers are waited for that long, all together.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many sessions are named that were not searched.
const MAX_NAMED: usize = 5;
/// JSON-RPC: no such method, which is how a server says that it has nothing of a kind.
const METHOD_NOT_FOUND: i64 = -32601;

/// `grep`. Its statuses are those of grep(1): 0 for something, 1 for nothing, 2 for a failure.
pub(super) fn grep(context: &Context, wanted: &Grep) -> Result<Status, Failure> {
    search(context, wanted).map_err(Failure::of_grep)
}

fn search(context: &Context, wanted: &Grep) -> Result<Status, Failure> {
    let pattern = Pattern::new(&wanted.pattern, wanted.kind).map_err(|error| {
        let failure = Failure::usage(error.to_string());
        if wanted.kind.regex {
            failure.with_hint("without -E it is searched for as it stands")
        } else {
            failure
        }
    })?;
    let (mut found, remarks) = match &wanted.session {
        Some(session) => (live(context, session, wanted, &pattern)?, Vec::new()),
        None => everywhere(context, wanted, &pattern)?,
    };
    found.truncate(wanted.limit.unwrap_or(usize::MAX));
    if context.output.json {
        context.output.document(&found::to_json(&found))?;
    } else {
        context.output.layout(&found::list(&found, &pattern, now_ms(), usual_columns()))?;
    }
    for remark in remarks {
        context.output.remark("not-searched", remark);
    }
    Ok(if found.is_empty() { Status::Bad(Exit::Usage) } else { Status::Done })
}

/// Searches the snapshots of all sessions, and starts nothing.
fn everywhere(
    context: &Context,
    wanted: &Grep,
    pattern: &Pattern,
) -> Result<(Vec<Found>, Vec<String>), Failure> {
    let sessions = super::open()?;
    let listed = sessions.list()?;
    let mut remarks = Vec::new();
    if listed.is_empty() {
        remarks.push("no sessions\n  ↳ drowse connect --help".to_owned());
    }
    let mut known: Vec<(&Listed, &SessionRecord)> = Vec::with_capacity(listed.len());
    for session in &listed {
        match &session.record {
            Ok(record) => known.push((session, record)),
            Err(error) => remarks.push(format!("warning: {} was not searched: {error}", session.name)),
        }
    }
    let jobs: Vec<Job<'_>> = known
        .iter()
        .map(|(session, record)| Job { name: &session.name, identity: &record.identity })
        .collect();
    let searched = snapshot::search(sessions.home(), &jobs, pattern, wanted.scope, wanted.limit);
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    let until = Instant::now() + PATIENCE;
    for (((session, _), job), searched) in known.iter().zip(&jobs).zip(searched) {
        let searched = match searched {
            Ok(Searched::NotNeeded) => continue,
            searched if is_behind(session, &searched) && complete(&sessions, &session.name, until) => {
                let again = snapshot::search(sessions.home(), &[*job], pattern, wanted.scope, wanted.limit);
                again.into_iter().next().unwrap_or(searched)
            }
            searched => searched,
        };
        match searched {
            Ok(Searched::Through { header, hits }) => {
                let cached_at = (!is_current(session, &header)).then_some(header.taken);
                found.extend(hits.into_iter().map(|hit| Found {
                    session: session.name.to_string(),
                    status: session.state.name(),
                    cached_at,
                    hit,
                }));
            }
            Ok(Searched::Missing | Searched::OfAnother) => missing.push(&session.name),
            Ok(Searched::NotNeeded) => {}
            Err(error) => remarks.push(format!("warning: {} was not searched: {error}", session.name)),
        }
    }
    remarks.extend(unsearched(&missing));
    context.output.detail(format_args!("{} sessions", known.len()));
    Ok((found, remarks))
}

/// Whether a snapshot says what the server says now.
fn is_current(session: &Listed, header: &Header) -> bool {
    session.state.is_awake()
        && session.bridge_pid.is_some()
        && session.known.as_ref().is_some_and(|known| known.generation == header.generation)
}

/// Whether a session's server runs, and its snapshot does not say what it offers.
fn is_behind(session: &Listed, searched: &Result<Searched, snapshot::SnapshotError>) -> bool {
    session.bridge_pid.is_some()
        && session.state.is_awake()
        && match searched {
            Ok(Searched::Through { header, .. }) => !is_current(session, header),
            _ => true,
        }
}

/// Lets the bridge of a session that is awake complete its snapshot; whether it did.
fn complete(sessions: &Sessions, session: &SessionName, until: Instant) -> bool {
    let status = sessions.snapshot(session, Wait { deadline: Some(until), interrupt: None });
    status.is_ok_and(|status| status.is_some_and(|status| status.generation.is_some()))
}

/// What is said of sessions that have no snapshot.
fn unsearched(missing: &[&SessionName]) -> Option<String> {
    let first = missing.first()?;
    let mut names: Vec<String> = missing.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    if missing.len() > MAX_NAMED {
        names.push("…".to_owned());
    }
    let (were, have) = match missing.len() {
        1 => ("1 session was", "it has".to_owned()),
        many => (&*format!("{many} sessions were"), "they have".to_owned()),
    };
    Some(format!(
        "{were} not searched, as {have} no snapshot yet: {}\n  ↳ one is made when the server runs, e.g. drowse {first} ping",
        names.join(", ")
    ))
}

/// Searches what the server of one session says now.
fn live(
    context: &Context,
    session: &SessionName,
    wanted: &Grep,
    pattern: &Pattern,
) -> Result<Vec<Found>, Failure> {
    let hits = operations::with(context, session, |operations| ask(operations, wanted, pattern))?;
    let found = |hit| Found { session: session.to_string(), status: "live", cached_at: None, hit };
    Ok(hits.into_iter().map(found).collect())
}

fn ask(operations: &mut Operations<'_>, wanted: &Grep, pattern: &Pattern) -> Result<Vec<Hit>, Failure> {
    let answer = operations.call(wire::METHOD_INFO, "")?;
    let info: Info<'_> = result::read(answer.as_bytes())?;
    let handshake: Value = serde_json::from_str(info.handshake.get()).unwrap_or_default();
    let mut hits = Vec::new();
    if let Some(text) = handshake["instructions"].as_str().filter(|_| wanted.scope.instructions) {
        hits.extend(snapshot::instructions(text, pattern));
    }
    for (kind, catalogue, capability) in [
        (Kind::Tool, &TOOLS, "tools"),
        (Kind::Prompt, &PROMPTS, "prompts"),
        (Kind::Resource, &RESOURCES, "resources"),
        (Kind::ResourceTemplate, &TEMPLATES, "resources"),
    ] {
        // A server that says nothing of what it can do may do anything.
        let offers = handshake["capabilities"].as_object().is_none_or(|all| all.contains_key(capability));
        if wanted.scope.has(kind) && offers {
            let items = listed(operations, catalogue)?;
            hits.extend(items.iter().filter_map(|item| snapshot::hit(kind, item, pattern)));
        }
    }
    Ok(hits)
}

fn listed(operations: &mut Operations<'_>, catalogue: &Catalogue) -> Result<Vec<Box<RawValue>>, Failure> {
    match operations.list(catalogue, |_| false) {
        Err(failure) if failure.rpc.as_ref().is_some_and(|rpc| rpc.code == METHOD_NOT_FOUND) => {
            Ok(Vec::new())
        }
        listed => listed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_sessions_without_a_snapshot() {
        let names: Vec<SessionName> =
            (0..7).map(|n| SessionName::new(&format!("s{n}")).unwrap_or_else(|_| unreachable!())).collect();
        let names: Vec<&SessionName> = names.iter().collect();
        assert_eq!(unsearched(&[]), None);
        let one = unsearched(&names[..1]).unwrap();
        assert!(one.starts_with("1 session was not searched, as it has no snapshot yet: @s0\n"), "{one}");
        assert!(one.ends_with("drowse @s0 ping"), "{one}");
        let many = unsearched(&names).unwrap();
        assert!(many.starts_with("7 sessions were not searched, as they have no"), "{many}");
        assert!(many.contains("yet: @s0, @s1, @s2, @s3, @s4, …\n"), "{many}");
    }
}
