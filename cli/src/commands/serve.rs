//! The command that is a server by itself: the built-in MCP server.

use std::io::{self, IsTerminal as _, Write as _};

use drowse_runtime::builtin;

use super::Status;
use crate::error::{Exit, Failure};

/// `demo-server`: MCP on stdin and stdout until stdin ends.
pub(super) fn demo_server() -> Result<Status, Failure> {
    if io::stdin().is_terminal() {
        let _ = writeln!(io::stderr(), "an MCP server: one JSON-RPC message a line, Ctrl-D ends it");
    }
    builtin::serve(io::stdin().lock(), io::stdout())
        .map(|()| Status::Done)
        .map_err(|error| Failure::new(Exit::Network, "storage", format!("stdin or stdout broke: {error}")))
}
