//! What a server does with tasks: its era, its capabilities, and what it says of a tool.

use drowse_runtime::home::SessionName;
use drowse_runtime::wire::{self, Ran};
use serde_json::Value;

use super::super::catalogue::TOOLS;
use super::super::operations::Operations;
use crate::error::{Exit, Failure};
use crate::result;

/// JSON-RPC: invalid params, which is how a server says that it does not know a task.
const INVALID_PARAMS: i64 = -32602;

/// A server, as far as tasks are concerned.
pub(super) struct Server {
    /// It has the extension's way with tasks, if any.
    pub(super) is_modern: bool,
    capabilities: Value,
    /// The server, as the subject of a sentence.
    who: String,
}

/// Whether a tool runs as a task (2025-11-25, basic/utilities/tasks, Tool-Level Negotiation).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Support {
    Forbidden,
    Optional,
    Required,
    /// There is no such tool in the list.
    Unknown,
}

impl Server {
    /// Asks the bridge what the server said of itself. From then on tasks are declared to a server that has the extension.
    pub(super) fn ask(operations: &mut Operations<'_>, session: &SessionName) -> Result<Self, Failure> {
        let info = operations.call(wire::METHOD_INFO, "")?;
        let mut info: Value = result::read(info.as_bytes())?;
        let server = Self {
            is_modern: info["era"] == "modern",
            capabilities: info["handshake"]["capabilities"].take(),
            who: operations.context.who(session),
        };
        operations.tasks = server.is_modern && server.has_tasks();
        Ok(server)
    }

    fn has_tasks(&self) -> bool {
        let extension = &self.capabilities["extensions"]["io.modelcontextprotocol/tasks"];
        if self.is_modern { extension.is_object() } else { self.capabilities["tasks"].is_object() }
    }

    pub(super) fn must_have_tasks(&self) -> Result<(), Failure> {
        if self.has_tasks() {
            return Ok(());
        }
        Err(unsupported(format!("{} has no tasks", self.who)))
    }

    pub(super) fn may_list(&self) -> Result<(), Failure> {
        self.must_have_tasks()?;
        if self.is_modern {
            return Err(unsupported(format!(
                "{} speaks 2026-07-28, in which tasks are not listed: keep the id that --detach prints",
                self.who
            )));
        }
        if !self.capabilities["tasks"]["list"].is_object() {
            return Err(unsupported(format!("{} does not list its tasks", self.who)));
        }
        Ok(())
    }

    pub(super) fn may_cancel(&self) -> Result<(), Failure> {
        self.must_have_tasks()?;
        if !self.is_modern && !self.capabilities["tasks"]["cancel"].is_object() {
            return Err(unsupported(format!("{} does not cancel tasks", self.who)));
        }
        Ok(())
    }

    /// The params of a call that asks for a task.
    pub(super) fn as_task(
        &self,
        operations: &mut Operations<'_>,
        tool: &str,
        params: &str,
    ) -> Result<String, Failure> {
        self.must_have_tasks().map_err(plainly)?;
        // Whether a task comes of it is the server's own decision.
        if self.is_modern {
            return Ok(params.to_owned());
        }
        if !self.capabilities["tasks"]["requests"]["tools"]["call"].is_object() {
            return Err(plainly(unsupported(format!("{} runs no tool as a task", self.who))));
        }
        if support(operations, tool)? == Support::Forbidden {
            return Err(plainly(unsupported(format!("the tool `{tool}` does not run as a task"))));
        }
        let open = params.trim_end().strip_suffix('}').unwrap_or(params);
        Ok(format!("{open},\"task\":{{}}}}"))
    }

    /// Says which task a server does not know.
    pub(super) fn explain(&self, id: &str, mut failure: Failure) -> Failure {
        if failure.rpc.as_ref().is_some_and(|rpc| rpc.code == INVALID_PARAMS) {
            failure.message = format!("the task {id}: {}", failure.message);
            return failure
                .with_hint("a server forgets its tasks when it ends, and each when its time is over");
        }
        failure
    }
}

/// What the list of tools says of a tool.
pub(super) fn support(operations: &mut Operations<'_>, tool: &str) -> Result<Support, Failure> {
    let name = |item: &serde_json::value::RawValue| {
        serde_json::from_str::<Value>(item.get()).ok().filter(|item| item["name"] == tool)
    };
    let found =
        operations.list(&TOOLS, |item| name(item).is_some()).map_err(|failure| failure.with_ran(Ran::No))?;
    let Some(found) = found.last().and_then(|last| name(last)) else { return Ok(Support::Unknown) };
    Ok(match found["execution"]["taskSupport"].as_str() {
        Some("required") => Support::Required,
        Some("optional") => Support::Optional,
        _ => Support::Forbidden,
    })
}

/// Says what can be had instead of a task.
fn plainly(failure: Failure) -> Failure {
    failure.with_hint("without --task and --detach it is a call like any other")
}

fn unsupported(message: String) -> Failure {
    Failure::new(Exit::Usage, wire::Kind::Unsupported.as_str(), message).with_ran(Ran::No)
}
