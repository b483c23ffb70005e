//! `logs`: a session's log, from its end, and what comes after.

use std::io;

use drowse_runtime::home::SessionName;
use drowse_runtime::log::{self, Follower};
use drowse_runtime::wait::Wait;
use serde_json::Value;

use super::{Context, Status};
use crate::error::{Exit, Failure};
use crate::output::Output;

/// `logs`. With `--json` without `--follow` one array of lines, with it a JSON string a line.
pub(super) fn logs(
    context: &Context,
    session: &SessionName,
    lines: usize,
    follow: bool,
) -> Result<Status, Failure> {
    let sessions = super::open()?;
    sessions.get(session)?;
    let path = sessions.home().log_file(session);
    let unreadable = |error: io::Error| {
        Failure::new(Exit::Usage, "storage", format!("cannot read {}: {error}", path.display()))
    };
    // Before the tail is read, so that no line falls between the two.
    let mut follower = follow.then(|| Follower::at_end(path.clone())).transpose().map_err(unreadable)?;
    let tail = log::tail(&path, if lines == 0 { usize::MAX } else { lines }).map_err(unreadable)?;
    let Some(follower) = &mut follower else {
        if tail.is_empty() && !context.output.json {
            context.output.notice(format_args!("the log of {session} is empty"));
        }
        print(&context.output, &tail, false)?;
        return Ok(Status::Done);
    };
    print(&context.output, &tail, true)?;
    loop {
        let new = follower.read_new().map_err(unreadable)?;
        if !new.is_empty() {
            print(&context.output, &new, true)?;
        }
        if follower.is_gone() {
            context.output.notice(format_args!("{session} was closed"));
            return Ok(Status::Done);
        }
        // Ctrl-C has its default effect here: there is nothing to cancel.
        follower.wait(Wait::default()).map_err(unreadable)?;
    }
}

fn print(output: &Output, bytes: &[u8], stream: bool) -> Result<(), Failure> {
    let text = String::from_utf8_lossy(bytes);
    if !output.json {
        return if text.is_empty() { Ok(()) } else { output.text(&text) };
    }
    let lines: Vec<Value> = text.lines().map(Value::from).collect();
    if !stream {
        return output.document(&Value::from(lines).to_string());
    }
    lines.iter().try_for_each(|line| output.document(&line.to_string()))
}
