//! `drowse`, `@name`, `close`, `clean` and `ping`.

use std::time::{Duration, Instant};

use drowse_runtime::home::SessionName;
use drowse_runtime::wire;
use serde_json::{Map, Value, json};

use super::operations::{self, Operations};
use super::{Context, Status, cached, sync};
use crate::error::{Exit, Failure};
use crate::render::server::Info;
use crate::render::sessions;
use crate::result;
use crate::text::duration;

/// How long may be waited for bridges to say how they are. They answer at once, unless something is wrong with them.
const PATIENCE: Duration = Duration::from_millis(250);

/// Bare `drowse`: from records, and what those say that are awake; nothing is started.
pub(super) fn list(context: &Context) -> Result<Status, Failure> {
    let listed = super::open()?.list_live(PATIENCE)?;
    if context.output.json {
        context.output.document(&sessions::list_to_json(&listed))?;
        return Ok(Status::Done);
    }
    if listed.is_empty() {
        context.output.notice(
            "no sessions\n  ↳ drowse connect @name -- <command>…\n  ↳ drowse connect https://…\n  \
             ↳ drowse connect mcp.json:entry\n  ↳ drowse demo",
        );
    }
    context.output.layout(&sessions::list(&listed))?;
    Ok(Status::Done)
}

/// Bare `@name`: the server's own description, live.
pub(super) fn info(context: &Context, session: &SessionName) -> Result<Status, Failure> {
    let (answer, cached) = if context.cached {
        cached::info(&cached::read(context, session)?.0)
    } else {
        let ask = |operations: &mut Operations<'_>| operations.call(wire::METHOD_INFO, "");
        (operations::with(context, session, ask)?, Map::new())
    };
    let info: Info<'_> = result::read(answer.as_bytes())?;
    if context.alone.is_some() {
        let extra = json!({"era": info.era, "protocolVersion": info.protocol_version});
        if context.output.json {
            context.output.document(&info.to_json(extra.as_object().unwrap_or(&Map::new())))?;
        } else {
            context.output.layout(&info.to_text())?;
        }
        return Ok(Status::Done);
    }
    let listed = super::open()?.get_live(session, PATIENCE)?;
    let syncs = sync::standing(&listed);
    if context.output.json {
        let mut extra = sessions::to_json(&listed);
        if let Some(Value::Object(inner)) = extra.remove("_drowse") {
            extra.extend(inner);
        }
        extra.extend(cached);
        if !syncs.is_empty() {
            extra.insert("syncs".into(), json!(syncs));
        }
        context.output.document(&info.to_json(&extra))?;
    } else {
        let text = format!("{}{}{}", sessions::entry(&listed, 0), info.to_text(), sync::lines(&syncs));
        context.output.layout(&text)?;
    }
    Ok(Status::Done)
}

/// `ping`: wakes, and measures the round trip to the server.
pub(super) fn ping(context: &Context, session: &SessionName) -> Result<Status, Failure> {
    let took = operations::with(context, session, |operations| {
        let start = Instant::now();
        operations.call(wire::METHOD_PING, "")?;
        Ok(start.elapsed())
    })?;
    if context.output.json {
        let millis = (took.as_secs_f64() * 1e6).round() / 1e3;
        context.output.document(&json!({"success": true, "durationMs": millis}).to_string())?;
    } else {
        context.output.text(&format!("{} answers ({})", context.who(session), duration(took)))?;
    }
    Ok(Status::Done)
}

/// `close`.
pub(super) fn close(context: &Context, session: &SessionName) -> Result<Status, Failure> {
    let sessions = super::open()?;
    let interrupt = context.interrupt();
    let closed = sessions.close(session, context.wait(interrupt.as_deref()));
    interrupt.iter().for_each(|interrupt| interrupt.release());
    closed?;
    if context.output.json {
        context.output.document(&json!({"name": session.to_string(), "closed": true}).to_string())?;
    } else {
        context.output.text(&format!("{session} closed"))?;
    }
    Ok(Status::Done)
}

/// `clean` and `clean all`.
pub(super) fn clean(context: &Context, all: bool) -> Result<Status, Failure> {
    let sessions = super::open()?;
    let interrupt = context.interrupt();
    let cleaned = sessions.clean(all, context.wait(interrupt.as_deref()));
    interrupt.iter().for_each(|interrupt| interrupt.release());
    let cleaned = cleaned?;
    let failed: Vec<(SessionName, Failure)> =
        cleaned.failed.into_iter().map(|(name, error)| (name, error.into())).collect();
    if context.output.json {
        let removed: Vec<String> = cleaned.removed.iter().map(ToString::to_string).collect();
        let failed: Vec<Value> = failed
            .iter()
            .map(|(name, failure)| {
                json!({
                    "name": name.to_string(), "error": failure.message,
                    "code": failure.exit as u8, "kind": failure.kind,
                })
            })
            .collect();
        let mut document = json!({"removed": removed, "failed": failed});
        if cleaned.ended > 0 || !cleaned.not_ended.is_empty() {
            document["_drowse"] = json!({"ended": cleaned.ended, "notEnded": cleaned.not_ended});
        }
        context.output.document(&document.to_string())?;
    } else {
        if cleaned.removed.is_empty()
            && failed.is_empty()
            && cleaned.ended == 0
            && cleaned.not_ended.is_empty()
        {
            context.output.notice("nothing to clean");
        }
        if cleaned.ended > 0 {
            context.output.notice(format_args!("{} ended", drowse_runtime::dev::left_behind(cleaned.ended)));
        }
        for error in &cleaned.not_ended {
            context.output.notice(format_args!("what a killed dev proxy left cannot be ended: {error}"));
        }
        let removed: String = cleaned.removed.iter().map(|name| format!("{name} removed\n")).collect();
        context.output.text(&removed)?;
        for (name, failure) in &failed {
            context.output.notice(format_args!("{name}: {}", failure.to_text()));
        }
    }
    let not_ended = cleaned.not_ended.iter().map(|_| Exit::Server);
    let worst =
        failed.iter().map(|(_, failure)| failure.exit).chain(not_ended).max_by_key(|&exit| exit as u8);
    Ok(worst.map_or(Status::Done, |exit: Exit| Status::Bad(exit)))
}
