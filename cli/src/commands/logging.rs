//! `logging-set-level`, and the server's log messages during a command with `--verbose`.

use std::io::{self, Write as _};

use drowse_runtime::caller::{Caller, Level, Sessions};
use drowse_runtime::home::SessionName;
use drowse_runtime::record;
use drowse_runtime::wire::{self, META_FORGET, Ran};
use serde_json::{Value, json};

use super::{Context, Status, operations};
use crate::error::{Exit, Failure};
use crate::result;
use crate::text::one_line;

/// How much of a message is shown.
const WIDTH: usize = 1000;

/// What is wanted of the log: a level, or (`off`) as little as can be.
pub(crate) type Wanted = Option<Level>;

/// `logging-set-level`.
pub(super) fn set_level(context: &Context, session: &SessionName, wanted: Wanted) -> Result<Status, Failure> {
    operations::with(context, session, |operations| {
        let info = operations.call(wire::METHOD_INFO, "")?;
        let info: Value = result::read(info.as_bytes())?;
        if !info["handshake"]["capabilities"]["logging"].is_object() {
            let message = format!("{} has no log messages", context.who(session));
            return Err(
                Failure::new(Exit::Usage, wire::Kind::Unsupported.as_str(), message).with_ran(Ran::No)
            );
        }
        // Nobody can tell a legacy server to be silent.
        let level = wanted.unwrap_or(Level::Emergency).name();
        let params = json!({"level": level, "_meta": {META_FORGET: wanted.is_none()}}).to_string();
        operations.call("logging/setLevel", &params)
    })?;
    let interrupt = context.interrupt();
    context.sessions()?.remember_log_level(
        session,
        wanted.map(Level::name),
        context.wait(interrupt.as_deref()),
    )?;
    let level = wanted.map_or("off", Level::name);
    if context.output.json {
        context.output.document(&json!({"success": true, "level": level}).to_string())?;
    } else {
        context
            .output
            .text(&format!("{session} logs {level}{}", if wanted.is_some() { " and worse" } else { "" }))?;
        context.output.notice(format_args!("↳ drowse {session} logs --follow"));
    }
    Ok(Status::Done)
}

/// With `--verbose` a command shows what its server logs meanwhile: as much as the session wants, or what is worth
/// telling.
pub(super) fn listen(context: &Context, sessions: &Sessions, session: &SessionName, caller: &mut Caller<'_>) {
    if !context.output.verbose {
        return;
    }
    let record = record::read_session(sessions.home(), session).ok().flatten();
    let level = record.and_then(|record| Level::from_name(record.settings.log_level.as_deref()?));
    caller.set_log(level.unwrap_or(Level::Info), show);
}

/// Shows a `notifications/message` by its params.
fn show(params: &str) {
    let Ok(message) = serde_json::from_str::<Value>(params) else { return };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let logger = message["logger"].as_str().map_or_else(String::new, |logger| format!("{logger}: "));
    let line = format!("[{}] {logger}{}", text(&message["level"]), text(&message["data"]));
    let _ = writeln!(io::stderr(), "server: {}", one_line(&line, WIDTH));
}
