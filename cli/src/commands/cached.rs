//! `--cached`: what a server offered when it ran last, from its snapshot. Starts nothing.

use drowse_runtime::caller::{CallError, Listed};
use drowse_runtime::home::SessionName;
use drowse_runtime::record::now_ms;
use drowse_runtime::snapshot::{self, Snapshot};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Context;
use super::catalogue::{self, Catalogue};
use crate::error::{Exit, Failure};
use crate::render::age::{ago, since};
use crate::render::server::with_member;

/// A session's snapshot, with its age told.
pub(super) fn read(context: &Context, session: &SessionName) -> Result<(Snapshot, Listed), Failure> {
    let sessions = super::open()?;
    let listed = sessions.get(session)?;
    let record = match listed.record {
        Ok(ref record) => record,
        Err(error) => return Err(CallError::from(error).into()),
    };
    let Some(found) = snapshot::read(sessions.home(), session).map_err(unreadable)? else {
        return Err(missing(
            session,
            "there is no snapshot of it: its server has not run yet, or not long enough",
        ));
    };
    if found.header.identity != record.identity {
        let what = "its snapshot is of what it ran before, or with other credentials";
        return Err(missing(session, what));
    }
    let age = since(found.header.taken, now_ms())
        .map_or_else(|| "just now".to_owned(), |span| format!("{} ago", ago(span)));
    context.output.notice(format_args!("{session}, {}: as its server was {age}", listed.state.name()));
    Ok((found, listed))
}

/// One of the lists.
pub(super) fn list(
    context: &Context,
    session: &SessionName,
    catalogue: &Catalogue,
) -> Result<Vec<Box<RawValue>>, Failure> {
    read(context, session).map(|(snapshot, _)| of(snapshot, catalogue))
}

/// The thing of that name, in JSON with the time when it was seen.
pub(super) fn one(
    context: &Context,
    session: &SessionName,
    catalogue: &Catalogue,
    wanted: &str,
) -> Result<(Box<RawValue>, String), Failure> {
    let (snapshot, _) = read(context, session)?;
    let extra = json!({"cachedAt": snapshot.header.taken}).to_string();
    let found = catalogue::named(context, session, catalogue, wanted, of(snapshot, catalogue))?;
    let json = with_member(found.get(), "_drowse", &extra);
    Ok((found, json))
}

/// What the server said of itself, in the shape of an answer to `drowse/info`, and what is to stand beside it.
pub(super) fn info(snapshot: &Snapshot) -> (String, Map<String, Value>) {
    let header = &snapshot.header;
    let mut handshake = format!(r#"{{"protocolVersion":{}"#, json!(header.protocol_version));
    for (key, value) in [("capabilities", &header.capabilities), ("serverInfo", &header.server_info)] {
        if let Some(value) = value {
            handshake.push_str(&format!(r#","{key}":{}"#, value.get()));
        }
    }
    if let Some(instructions) = &header.instructions {
        handshake.push_str(&format!(r#","instructions":{}"#, json!(instructions)));
    }
    handshake.push('}');
    let answer = format!(
        r#"{{"era":{},"protocolVersion":{},"handshake":{handshake}}}"#,
        json!(header.era),
        json!(header.protocol_version)
    );
    (answer, Map::from_iter([("cachedAt".to_owned(), header.taken.into())]))
}

fn of(snapshot: Snapshot, catalogue: &Catalogue) -> Vec<Box<RawValue>> {
    match catalogue.member {
        "tools" => snapshot.tools,
        "prompts" => snapshot.prompts,
        "resources" => snapshot.resources,
        "resourceTemplates" => snapshot.resource_templates,
        _ => Vec::new(),
    }
}

fn unreadable(error: snapshot::SnapshotError) -> Failure {
    Failure::new(Exit::Network, "storage", error.to_string())
}

fn missing(session: &SessionName, what: &str) -> Failure {
    Failure::new(Exit::Usage, "no-snapshot", format!("{session}: {what}"))
        .with_hint(format!("without --cached, its server is asked; or, to have one: drowse {session} ping"))
}
