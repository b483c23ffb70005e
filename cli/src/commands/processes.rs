//! `ps`: the processes of sessions.

use drowse_runtime::home::SessionName;
use drowse_runtime::record::now_ms;

use super::{Context, Status};
use crate::error::Failure;
use crate::render::processes::{table, to_json};
use crate::screen::width;

/// `ps` and `ps @name`. Starts nothing and asks nobody.
pub(super) fn ps(context: &Context, session: Option<&SessionName>) -> Result<Status, Failure> {
    let sessions = super::open()?;
    let processes = sessions.processes(session)?;
    if let Some(name) = session.filter(|_| processes.is_empty()) {
        // One that is gone may have left something; else it has to be there.
        sessions.get(name)?;
    }
    if context.output.json {
        context.output.document(&to_json(&processes))?;
    } else if processes.is_empty() {
        let whose = session.map_or_else(|| "any session".to_owned(), ToString::to_string);
        context.output.notice(format_args!("no process of {whose} runs"));
    } else {
        context.output.layout(&table(&processes, now_ms(), width()))?;
    }
    Ok(Status::Done)
}
