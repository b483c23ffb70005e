//! The proxy's own tools in the server's lists, and lists without a server.

use super::super::callers::Request;
use super::*;

/// The tools, as they stand in a list.
const TOOLS: &str = concat!(
    r#"{"name":"dev_restart","title":"Restart the server","description":"Restarts the MCP server behind this connection, which is being developed: ends the running process and starts a fresh one, then waits until it answers. Call it after changing the server's code. The connection and your other tools stay; state that the server kept in memory is lost. With rebuild the configured build runs first, and the server is restarted only if the build succeeded and changed it.","inputSchema":{"type":"object","properties":{"rebuild":{"type":"boolean","description":"Run the build command first. Without it the server is restarted as it is."},"env":{"type":"object","additionalProperties":{"type":"string"},"description":"Environment variables for the server from this restart on, instead of all that were set before; {} clears them; leave it out to keep them."}},"additionalProperties":false},"annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":false}}"#,
    r#",{"name":"dev_status","title":"Status of the server","description":"Tells how the MCP server behind this connection is: state, pid, uptime, protocol versions, the last build, and why it ended if it crashed. Answers at once and never starts anything.","inputSchema":{"type":"object","properties":{},"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#,
    r#",{"name":"dev_logs","title":"Log of the server","description":"Returns the last lines that the MCP server behind this connection wrote to stderr, and the output of its builds. Answers at once and never starts anything.","inputSchema":{"type":"object","properties":{"lines":{"type":"integer","minimum":1,"maximum":1000,"description":"How many lines (100 if left out)."}},"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#
);
/// JSON-RPC: no such method (basic/index, Error Codes).
const METHOD_NOT_FOUND: i64 = -32601;

impl Inner {
    /// The same line of the server with the proxy's tools, if it is the last page of tools; those of the server whose names
    /// are the proxy's are left out, as they cannot be called. Everything else stays byte for byte.
    pub(in super::super) fn with_dev_tools(
        &self,
        method: Method,
        line: &[u8],
        message: &Message,
    ) -> Option<Vec<u8>> {
        if self.dev.is_none() || method != Method::ToolsList {
            return None;
        }
        let result = match *message {
            Message::Response { result, .. } => result,
            // It has no tools of its own.
            Message::Error { id: Some(id), error } => {
                let code = text::member(line, error, "code")?;
                let none = text::as_i64(code.of(line)) == Some(METHOD_NOT_FOUND);
                let head = br#"{"jsonrpc":"2.0","id":"#.as_slice();
                return none.then(|| {
                    [head, id.of(line), br#","result":{"tools":["#, TOOLS.as_bytes(), b"]}}"].concat()
                });
            }
            _ => return None,
        };
        let tools = text::member(line, result, "tools").filter(|tools| text::is_array(tools.of(line)))?;
        let more =
            text::member(line, result, "nextCursor").is_some_and(|next| text::is_string(next.of(line)));
        let ours: HashSet<usize> = names::ours_in(line, tools).collect();
        if more && ours.is_empty() {
            return None;
        }
        let (start, end) = (tools.start(), tools.end());
        let mut array: Vec<u8> = if ours.is_empty() {
            // As it stands, without its last bracket.
            line.get(start..end - 1)?.to_vec()
        } else {
            let kept = text::elements(line, tools).enumerate().filter(|(place, _)| !ours.contains(place));
            let kept: Vec<&[u8]> = kept.map(|(_, tool)| tool.of(line)).collect();
            [b"[".as_slice(), &kept.join(&b","[..])].concat()
        };
        if !more {
            if array.iter().skip(1).any(|byte| !byte.is_ascii_whitespace()) {
                array.push(b',');
            }
            array.extend_from_slice(TOOLS.as_bytes());
        }
        array.push(b']');
        Some([line.get(..start)?, &array, line.get(end..)?].concat())
    }

    /// Answers a request that has no server to go to, if that can be done from what is known; else gives it back.
    /// `frame`: the request, if it is not kept.
    pub(in super::super) fn answer_without(
        &mut self,
        payload: Payload,
        failure: Failure,
        frame: Option<&[u8]>,
    ) -> Option<Payload> {
        if self.dev.is_none() {
            return Some(payload);
        }
        let waits = failure.cause == Cause::NotReady;
        let failed = matches!(failure.cause, Cause::StartFailed | Cause::BackingOff);
        match self.list_without(&payload, frame, waits, failed) {
            Some(result) => {
                let (connection, id) = (payload.connection, payload.id);
                self.server.expect_news();
                self.reply(connection, &id, &[&result]);
                None
            }
            None => Some(payload),
        }
    }

    /// The same for a request that was not even accepted.
    pub(in super::super) fn refused_without(&mut self, request: &Request<'_>) -> bool {
        let &Request { connection, line, operation: Operation { method, .. }, parts, .. } = request;
        let frame = line.bytes();
        if self.dev.is_none() || method != Method::ToolsList || self.retired {
            return false;
        }
        let payload = Payload::new(connection, method, frame, parts, None);
        let Some(result) = self.list_without(&payload, Some(frame), false, true) else { return false };
        self.server.expect_news();
        self.reply(connection, &payload.id, &[&result]);
        true
    }

    /// A list from the last run, or for tools the proxy's own. `failed`: nothing is being started, so that only the tools
    /// that help are worth an answer.
    fn list_without(
        &mut self,
        payload: &Payload,
        frame: Option<&[u8]>,
        waits: bool,
        failed: bool,
    ) -> Option<Vec<u8>> {
        let (place, name) = match payload.method {
            Method::ToolsList if waits || failed => (0, "tools"),
            Method::PromptsList if waits => (1, "prompts"),
            Method::ResourcesList if waits => (2, "resources"),
            Method::TemplatesList if waits => (3, "resourceTemplates"),
            _ => return None,
        };
        let frame = payload.frame.as_deref().or(frame)?;
        // It goes on with a list of a server that is not there any more.
        if payload.parts.params.is_some_and(|params| text::member(frame, params, "cursor").is_some()) {
            return None;
        }
        let saved = self.host.saved();
        let items = saved.as_ref().and_then(|saved| saved.lists().get(place).copied()).unwrap_or_default();
        let raw = items.iter().map(|item| item.get()).filter(|item| {
            let tool = Span::new(0, item.len());
            let name = text::member(item.as_bytes(), tool, "name");
            place != 0 || !name.is_some_and(|name| names::is_ours(name.of(item.as_bytes())))
        });
        let raw: Vec<&str> = raw.chain((place == 0).then_some(TOOLS)).collect();
        let list = format!(r#""{name}":[{}]"#, raw.join(","));
        let legacy = self.connections.get(&payload.connection).is_some_and(|one| one.front.is_legacy());
        let result = match legacy {
            true => format!("{{{list}}}"),
            false => format!(r#"{{"resultType":"complete",{list},"ttlMs":0,"cacheScope":"private"}}"#),
        };
        Some(result.into_bytes())
    }
}
