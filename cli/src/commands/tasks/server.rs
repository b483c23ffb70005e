//! What a server does with tasks: its era, its capabilities, and what it says of a tool.

use drowse_runtime::home::SessionName;
use drowse_runtime::wire::{self, Ran};
use serde_json::Value;

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
    pub(super) fn ask(operations: &mut Operations<'_>) -> Result<Self, Failure> {
        let info = operations.call(wire::METHOD_INFO, "")?;
        let mut info: Value = result::read(info.as_bytes())?;
        let server = Self {
            is_modern: info["era"] == "modern",
            capabilities: info["handshake"]["capabilities"].take(),
        };
        operations.tasks = server.is_modern && server.has_tasks();
        Ok(server)
    }

    fn has_tasks(&self) -> bool {
        let extension = &self.capabilities["extensions"]["io.modelcontextprotocol/tasks"];
        if self.is_modern { extension.is_object() } else { self.capabilities["tasks"].is_object() }
    }

    pub(super) fn must_have_tasks(&self, session: &SessionName) -> Result<(), Failure> {
        if self.has_tasks() {
            return Ok(());
        }
        Err(unsupported(format!("the server of {session} has no tasks")))
    }

    pub(super) fn may_list(&self, session: &SessionName) -> Result<(), Failure> {
        self.must_have_tasks(session)?;
        if self.is_modern {
            return Err(unsupported(format!(
                "the server of {session} speaks 2026-07-28, in which tasks are not listed: keep the id that --detach \
                 prints"
            )));
        }
        if !self.capabilities["tasks"]["list"].is_object() {
            return Err(unsupported(format!("the server of {session} does not list its tasks")));
        }
        Ok(())
    }

    pub(super) fn may_cancel(&self, session: &SessionName) -> Result<(), Failure> {
        self.must_have_tasks(session)?;
        if !self.is_modern && !self.capabilities["tasks"]["cancel"].is_object() {
            return Err(unsupported(format!("the server of {session} does not cancel tasks")));
        }
        Ok(())
    }

    /// The params of a call that asks for a task.
    pub(super) fn as_task(
        &self,
        operations: &mut Operations<'_>,
        session: &SessionName,
        tool: &str,
        params: &str,
    ) -> Result<String, Failure> {
        self.must_have_tasks(session)?;
        // Whether a task comes of it is the server's own decision.
        if self.is_modern {
            return Ok(params.to_owned());
        }
        if !self.capabilities["tasks"]["requests"]["tools"]["call"].is_object() {
            return Err(unsupported(format!("the server of {session} runs no tool as a task")));
        }
        if support(operations, tool)? == Support::Forbidden {
            return Err(unsupported(format!("the tool `{tool}` of {session} does not run as a task")));
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
    let found = operations
        .list("tools/list", "tools", |item| name(item).is_some())
        .map_err(|failure| failure.with_ran(Ran::No))?;
    let Some(found) = found.last().and_then(|last| name(last)) else { return Ok(Support::Unknown) };
    Ok(match found["execution"]["taskSupport"].as_str() {
        Some("required") => Support::Required,
        Some("optional") => Support::Optional,
        _ => Support::Forbidden,
    })
}

fn unsupported(message: String) -> Failure {
    Failure::new(Exit::Usage, wire::Kind::Unsupported.as_str(), message).with_ran(Ran::No)
}
