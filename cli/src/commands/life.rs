//! `stats` and `timeline`: what is known of sessions' lives. Starts nothing, counts as nothing.

use std::fs;
use std::path::Path;
use std::time::Duration;

use drowse_runtime::caller::LifeNow;
use drowse_runtime::home::SessionName;
use serde_json::{Value, json};

use super::{Context, Status};
use crate::error::{Exit, Failure};
use crate::output::usual_columns;
use crate::render::stats;
use crate::render::timeline::Timeline;

/// `stats` of one session or of all.
pub(super) fn stats(context: &Context, session: Option<&SessionName>) -> Result<Status, Failure> {
    let sessions = super::open()?;
    if let Some(session) = session {
        let life = sessions.life(session)?;
        warn(context, &life);
        if context.output.json {
            context.output.document(&stats::to_json(&life).to_string())?;
        } else {
            context.output.layout(&stats::one(&life))?;
        }
        return Ok(Status::Done);
    }
    let mut lives = Vec::new();
    let mut failed = Vec::new();
    for (name, life) in sessions.lives_of(sessions.list()?) {
        match life {
            Ok(life) => lives.push(life),
            Err(error) => failed.push((name, Failure::from(error))),
        }
    }
    for life in &lives {
        warn(context, life);
    }
    for (name, failure) in &failed {
        context.output.warning("life", format_args!("{name}: {}", failure.message));
    }
    if context.output.json {
        let mut all: Vec<Value> = lives.iter().map(stats::to_json).collect();
        all.extend(
            failed.iter().map(|(name, failure)| json!({"name": name.to_string(), "error": failure.message})),
        );
        context.output.document(&json!({"sessions": all}).to_string())?;
    } else if lives.is_empty() {
        context.output.notice("no sessions\n  ↳ drowse connect @name -- <command>…");
    } else {
        context.output.layout(&stats::table(&lives))?;
    }
    Ok(Status::Done)
}

/// `timeline`.
pub(super) fn timeline(
    context: &Context,
    session: &SessionName,
    since: Option<Duration>,
    output: Option<&Path>,
) -> Result<Status, Failure> {
    let life = super::open()?.life(session)?;
    warn(context, &life);
    let since = since.map(|since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    let timeline = Timeline::new(&life, since);
    if let Some(path) = output {
        fs::write(path, timeline.to_svg()).map_err(|error| {
            Failure::new(Exit::Usage, "output", format!("cannot write {}: {error}", path.display()))
        })?;
        context.output.notice(format_args!("the timeline of {session} is in {}", path.display()));
    }
    if context.output.json {
        context.output.document(&timeline.to_json().to_string())?;
    } else if output.is_none() {
        context.output.layout(&timeline.to_text(usual_columns()))?;
    }
    Ok(Status::Done)
}

/// What of a life cannot be told.
fn warn(context: &Context, life: &LifeNow) {
    let name = &life.listed.name;
    match life.life.damaged {
        0 => {}
        1 => context
            .output
            .warning("life", format_args!("a line of the life of {name} is damaged: passed over")),
        n => context
            .output
            .warning("life", format_args!("{n} lines of the life of {name} are damaged: passed over")),
    }
    if life.life.newer > 0 {
        let n = life.life.newer;
        context.output.warning(
            "life",
            format_args!("{n} lines of the life of {name} are of a newer drowse: update it"),
        );
    }
    if life.silent {
        context.output.warning("life", format_args!("the bridge of {name} does not say what it counted"));
    }
}
