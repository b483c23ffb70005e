//! Tasks: `tools-call --task` and `--detach`, `tasks-list`, `tasks-get`, `tasks-result`, `tasks-cancel`.
//!
//! Owns how a task is followed to its end, in the words of either era: 2025-11-25 (basic/utilities/tasks) polls and
//! fetches the result on its own, the extension of 2026-07-28 gives it with the last poll.

use std::time::{Duration, Instant};

use drowse_runtime::caller::RpcError;
use drowse_runtime::home::SessionName;
use drowse_runtime::wire::{self, Ran};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::catalogue::{self, TASKS};
use super::operations::{self, Operations};
use super::{Context, Status, tools};
use crate::args::{TaskMode, Tasks};
use crate::error::{Exit, Failure};
use crate::render::tasks::{Task, details, summary};
use crate::result;

mod server;

use server::Server;

/// How long a server may be asked to cancel a task while the user waits for nothing else.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);
/// How long the result of a task that asks is waited for on one request, before its state is looked at again.
const RESULT_LIMIT: Duration = Duration::from_secs(3600);
/// How often a task is looked at whose server does not say, and the most and the least that it may say.
const POLL: Duration = Duration::from_secs(1);
const POLL_LEAST: Duration = Duration::from_millis(50);
const POLL_MOST: Duration = Duration::from_secs(300);

/// What came of a call.
pub(super) enum Called {
    /// The result of the tool.
    Result(String),
    /// A task that goes on: the task as JSON.
    Detached(String),
}

/// `tasks-…`.
pub(super) fn run(context: &Context, session: &SessionName, what: &Tasks) -> Result<Status, Failure> {
    match what {
        Tasks::List => list(context, session),
        Tasks::Get(id) => get(context, session, id),
        Tasks::Cancel(id) => cancel(context, session, id),
        Tasks::Result(id, output) => {
            let answer = operations::with(context, session, |operations| {
                let server = Server::ask(operations, session)?;
                server.must_have_tasks()?;
                follow(operations, &server, id, None).map_err(|failure| match failure.exit {
                    Exit::Interrupted => goes_on(context, session, id, failure),
                    _ => failure,
                })
            })?;
            tools::show(context, &answer, output.as_deref())
        }
    }
}

/// Calls a tool, as a task if that is wanted.
pub(super) fn call(
    operations: &mut Operations<'_>,
    session: &SessionName,
    tool: &str,
    params: &str,
    mode: Option<TaskMode>,
) -> Result<Called, Failure> {
    let Some(mode) = mode else {
        return operations
            .call("tools/call", params)
            .map(Called::Result)
            .map_err(|failure| explain(operations, tool, failure));
    };
    if mode == TaskMode::Detach && operations.context.alone.is_some() {
        return Err(Failure::usage(
            "--detach needs a session: a server of one command ends with it, and so would the task",
        ));
    }
    let server = Server::ask(operations, session)?;
    let params = server.as_task(operations, tool, params)?;
    let answer = operations.call("tools/call", &params)?;
    let Some(created) = created(&answer, server.is_modern)? else {
        operations.context.output.notice("the server answered at once, without a task");
        return Ok(Called::Result(answer));
    };
    if mode == TaskMode::Detach {
        return Ok(Called::Detached(created.to_owned()));
    }
    let task: Task<'_> = result::read(created.as_bytes())?;
    let id = task.task_id.clone().into_owned();
    operations.context.output.detail(format_args!("the call runs as the task {id}"));
    let followed = follow(operations, &server, &id, Some(&task));
    followed.map(Called::Result).map_err(|failure| match failure.exit {
        Exit::Interrupted => cancelled_by_user(operations, &server, session, &id),
        Exit::Network => goes_on(operations.context, session, &id, failure),
        _ => failure,
    })
}

/// Says which task goes on.
pub(super) fn detached(context: &Context, session: &SessionName, task: &str) -> Result<Status, Failure> {
    if context.output.json {
        context.output.document(task)?;
        return Ok(Status::Done);
    }
    let task: Task<'_> = result::read(task.as_bytes())?;
    context.output.text(&task.task_id)?;
    context.output.notice(format_args!("↳ drowse {session} tasks-result {}", task.task_id));
    Ok(Status::Done)
}

/// Says where a tool runs only as a task.
fn explain(operations: &mut Operations<'_>, tool: &str, failure: Failure) -> Failure {
    const METHOD_NOT_FOUND: i64 = -32601;
    let refused = failure.rpc.as_ref().is_some_and(|rpc| rpc.code == METHOD_NOT_FOUND);
    if refused && server::support(operations, tool).is_ok_and(|support| support == server::Support::Required)
    {
        return failure.with_hint("this tool runs only as a task: add --task, or --detach");
    }
    failure
}

/// The task in the answer to a call, if there is one: as JSON.
fn created(answer: &str, is_modern: bool) -> Result<Option<&str>, Failure> {
    #[derive(Deserialize)]
    struct Nested<'a> {
        #[serde(borrow, default)]
        task: Option<&'a RawValue>,
    }
    if is_modern {
        let verdict: result::Verdict<'_> = result::read(answer.as_bytes())?;
        return Ok((verdict.result_type.as_deref() == Some("task")).then_some(answer));
    }
    Ok(result::read::<Nested<'_>>(answer.as_bytes())?.task.map(RawValue::get))
}

/// Looks at a task until it is done, and gives its result. `seen`: what is known of it.
fn follow(
    operations: &mut Operations<'_>,
    server: &Server,
    id: &str,
    seen: Option<&Task<'_>>,
) -> Result<String, Failure> {
    let outcome = follow_to_end(operations, server, id, seen);
    if outcome.is_err() {
        operations.show_line("");
    }
    outcome
}

fn follow_to_end(
    operations: &mut Operations<'_>,
    server: &Server,
    id: &str,
    seen: Option<&Task<'_>>,
) -> Result<String, Failure> {
    let deadline = operations.context.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut show = Show { last: String::new() };
    let mut answered = Vec::new();
    if let Some(task) = seen.filter(|task| !task.is_final()) {
        show.show(operations, task);
        pause(operations, deadline, task)?;
    }
    loop {
        let state =
            operations.call("tasks/get", &about(id)).map_err(|failure| server.explain(id, failure))?;
        let task: Task<'_> = result::read(state.as_bytes())?;
        show.show(operations, &task);
        match task.status.as_ref() {
            "cancelled" => return Err(was_cancelled(id, &task)),
            "completed" | "failed" if server.is_modern => return inline(id, &task),
            "completed" | "failed" => return operations.call("tasks/result", &about(id)),
            "input_required" if server.is_modern => update(operations, id, &task, &mut answered)?,
            "input_required" => {
                // What is asked comes while the result is waited for.
                operations.limit = Some(operations.context.timeout.unwrap_or(RESULT_LIMIT));
                let outcome = operations.call("tasks/result", &about(id));
                operations.limit = None;
                match outcome {
                    Err(failure) if failure.kind == "timeout" && deadline.is_none() => {}
                    outcome => return outcome,
                }
            }
            _ => {}
        }
        pause(operations, deadline, &task)?;
    }
}

/// The result that came with the last look at a task.
fn inline(id: &str, task: &Task<'_>) -> Result<String, Failure> {
    if let Some(result) = task.result {
        return Ok(result.get().to_owned());
    }
    let message = task.status_message.as_deref().unwrap_or("the server does not say why").to_owned();
    let rpc =
        task.error.and_then(|error| serde_json::from_str::<Value>(error.get()).ok()).map(|error| RpcError {
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().map_or_else(|| message.clone(), str::to_owned),
            data: error.get("data").map(Value::to_string),
        });
    let said = rpc.as_ref().map_or(message, |rpc| rpc.message.clone());
    let mut failure = Failure::new(Exit::Server, "server-error", format!("the task {id} failed: {said}"));
    failure.rpc = rpc;
    Err(failure)
}

/// Answers what a task asks (the extension's way).
fn update(
    operations: &mut Operations<'_>,
    id: &str,
    task: &Task<'_>,
    answered: &mut Vec<String>,
) -> Result<(), Failure> {
    let Some(requests) = task.input_requests else { return Ok(()) };
    let Some(responses) = operations.respond(requests.get(), answered)? else { return Ok(()) };
    let params = format!("{{\"taskId\":{},\"inputResponses\":{responses}}}", Value::from(id));
    operations.call("tasks/update", &params).map(drop)
}

fn was_cancelled(id: &str, task: &Task<'_>) -> Failure {
    let why = task.status_message.as_deref().map_or_else(String::new, |message| format!(": {message}"));
    Failure::new(Exit::Server, "task-cancelled", format!("the task {id} was cancelled{why}"))
}

/// Waits as long as the server wants between two looks.
fn pause(operations: &Operations<'_>, deadline: Option<Instant>, task: &Task<'_>) -> Result<(), Failure> {
    let wanted = task.poll_interval.filter(|millis| millis.is_finite() && *millis >= 0.0);
    let wanted = wanted.and_then(|millis| Duration::try_from_secs_f64(millis / 1000.0).ok());
    let until = Instant::now() + wanted.unwrap_or(POLL).clamp(POLL_LEAST, POLL_MOST);
    operations.sleep_until(deadline.map_or(until, |deadline| deadline.min(until)))?;
    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        let message = format!("the task {} is not done by the end of --timeout", task.task_id);
        return Err(Failure::new(Exit::Network, "timeout", message).with_ran(Ran::Unknown));
    }
    Ok(())
}

/// The user interrupted a call: its task is cancelled with it.
fn cancelled_by_user(
    operations: &mut Operations<'_>,
    server: &Server,
    session: &SessionName,
    id: &str,
) -> Failure {
    operations.uninterrupted(CANCEL_LIMIT);
    let outcome = server.may_cancel().and_then(|()| operations.call("tasks/cancel", &about(id)));
    let failure = |what: String| {
        Failure::new(Exit::Interrupted, wire::Kind::Interrupted.as_str(), format!("interrupted; {what}"))
            .with_ran(Ran::Unknown)
    };
    match outcome {
        Ok(_) if server.is_modern => failure(format!("the server was told to cancel the task {id}")),
        Ok(_) => failure(format!("the task {id} was cancelled")),
        Err(error) => goes_on(
            operations.context,
            session,
            id,
            failure(format!("the task {id} could not be cancelled: {}", error.message)),
        ),
    }
}

fn goes_on(context: &Context, session: &SessionName, id: &str, failure: Failure) -> Failure {
    // A server of this one command ends with it.
    if context.alone.is_some() {
        return failure;
    }
    failure.with_hint(format!(
        "the task goes on; its result: drowse {session} tasks-result {id}\nto end it: drowse {session} tasks-cancel {id}"
    ))
}

fn list(context: &Context, session: &SessionName) -> Result<Status, Failure> {
    let found = operations::with(context, session, |operations| {
        Server::ask(operations, session)?.may_list()?;
        operations.list(&TASKS, |_| false)
    })?;
    catalogue::print(context, session, &TASKS, &found, |task| {
        Task::deserialize(task).map_or_else(|_| format!("{task}\n"), |task| summary(&task))
    })
}

fn get(context: &Context, session: &SessionName, id: &str) -> Result<Status, Failure> {
    let state = operations::with(context, session, |operations| {
        let server = Server::ask(operations, session)?;
        server.must_have_tasks()?;
        operations.call("tasks/get", &about(id)).map_err(|failure| server.explain(id, failure))
    })?;
    if context.output.json {
        context.output.document(&state)?;
    } else {
        let task: Task<'_> = result::read(state.as_bytes())?;
        context.output.layout(&details(&task))?;
        if task.status == "input_required" {
            context.output.notice(format_args!("↳ to answer: drowse {session} tasks-result {id}"));
        }
    }
    Ok(Status::Done)
}

fn cancel(context: &Context, session: &SessionName, id: &str) -> Result<Status, Failure> {
    let (answer, is_modern) = operations::with(context, session, |operations| {
        let server = Server::ask(operations, session)?;
        server.may_cancel()?;
        let answer =
            operations.call("tasks/cancel", &about(id)).map_err(|failure| server.explain(id, failure))?;
        Ok((answer, server.is_modern))
    })?;
    if context.output.json {
        context.output.document(&answer)?;
    } else if is_modern {
        context.output.text(&format!("the server was told to cancel the task {id}"))?;
        context.output.notice(format_args!("↳ what came of it: drowse {session} tasks-get {id}"));
    } else {
        context.output.layout(&details(&result::read(answer.as_bytes())?))?;
    }
    Ok(Status::Done)
}

fn about(id: &str) -> String {
    serde_json::json!({"taskId": id}).to_string()
}

/// The state of a task, for whoever waits.
struct Show {
    last: String,
}

impl Show {
    fn show(&mut self, operations: &Operations<'_>, task: &Task<'_>) {
        let line = task.line();
        if line != self.last {
            operations.context.output.detail(format_args!("task {}: {line}", task.task_id));
            operations.show_line(if task.is_final() { "" } else { &line });
            self.last = line;
        }
    }
}
