//! Tools whose arguments a server behind a URL wants repeated in headers (`x-mcp-header`): what their schemas say, as
//! far as lists of tools came by, and calls that have to wait for a list.
//!
//! The rules are the core's ([`drowse_core::http::headers`]); here is only the memory that they need.

use drowse_core::envelope::Message;
use drowse_core::http::headers::{self, Tool};
use drowse_core::json;
use drowse_core::tally::Ending;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::*;

/// The connection of drowse itself, which no caller has.
pub(super) const OURS: u64 = u64::MAX;
/// A list with more pages is not read to its end.
const PAGES: u32 = 100;

/// What is remembered of marked tools.
#[derive(Default)]
pub(super) struct Marked {
    /// The tools with marked parameters, by name.
    tools: HashMap<Vec<u8>, Vec<u8>>,
    /// Calls that were refused for their headers, and with what; they are sent again once the list is read.
    waiting: Vec<(Payload, Vec<u8>)>,
    pages: u32,
    /// A list came by, or what was saved of the server has been looked at.
    told: bool,
}

impl Marked {
    /// Nobody waits for those answers any more. Whether there were any.
    pub(super) fn forget(&mut self, connection: u64, id: Option<&[u8]>) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(payload, _)| {
            payload.connection != connection || id.is_some_and(|id| id != payload.id.as_slice())
        });
        self.waiting.len() < before
    }

    /// Whether no tool has marked parameters.
    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// A tool with marked parameters, by its name.
    pub(super) fn tool(&self, name: &[u8]) -> Option<&[u8]> {
        self.tools.get(name).map(Vec::as_slice)
    }

    /// Learns from a list of tools of a server that is not behind a URL.
    pub(super) fn remember(&mut self, line: &[u8], result: Span) {
        self.told = true;
        for tool in headers::tools(line, result) {
            let Some(name) = json::member(line, tool.span, "name") else { continue };
            let name: Vec<u8> = json::text(name.of(line)).collect();
            if tool.fault.is_none() && headers::annotations(line, tool.span).next().is_some() {
                self.tools.insert(name, tool.span.of(line).to_vec());
            } else if !self.tools.is_empty() {
                self.tools.remove(&name);
            }
        }
    }

    /// Learns from a list of tools. Gives the list without those that are marked wrongly, if there are any.
    pub(super) fn learn(
        &mut self,
        line: &[u8],
        result: Span,
        mut note: impl FnMut(String),
    ) -> Option<Vec<u8>> {
        self.told = true;
        let tools: Vec<Tool> = headers::tools(line, result).collect();
        for tool in &tools {
            let name: Vec<u8> = json::member(line, tool.span, "name")
                .map(|name| json::text(name.of(line)).collect())
                .unwrap_or_default();
            if let Some(fault) = tool.fault {
                note(format!("left out the tool `{}`: {fault}", String::from_utf8_lossy(&name)));
            }
            if tool.fault.is_none() && headers::annotations(line, tool.span).next().is_some() {
                self.tools.insert(name, tool.span.of(line).to_vec());
            } else {
                self.tools.remove(&name);
            }
        }
        let (first, last) = (tools.first()?, tools.last()?);
        if tools.iter().all(|tool| tool.fault.is_none()) {
            return None;
        }
        let kept: Vec<&[u8]> =
            tools.iter().filter(|tool| tool.fault.is_none()).map(|tool| tool.span.of(line)).collect();
        let mut filtered = line.get(..first.span.start())?.to_vec();
        filtered.extend(kept.join(&b','));
        filtered.extend_from_slice(line.get(last.span.end()..)?);
        Some(filtered)
    }
}

impl Hub {
    /// Delivers an answer of a modern server behind a URL.
    pub(super) fn deliver_remote(
        &self,
        inner: &mut Inner,
        payload: Payload,
        from: Line<'_>,
        message: &Message,
        revision: Revision,
    ) {
        let (line, method) = (from.bytes(), payload.method);
        if revision.era() == Era::Modern {
            match *message {
                Message::Response { result, .. } if method == Method::ToolsList => {
                    let Inner { marked, host, .. } = inner;
                    let filtered = marked.learn(line, result, |text| host.note(&text));
                    if payload.connection == OURS {
                        return self.next_page(inner, line, result);
                    }
                    if let Some(filtered) = filtered
                        && let Ok(message) = envelope::read(&filtered)
                    {
                        return inner.deliver(
                            &payload,
                            method,
                            filtered.as_slice().into(),
                            &message,
                            revision,
                        );
                    }
                }
                Message::Error { error, .. }
                    if method == Method::ToolsCall
                        && !payload.relisted
                        && headers::were_refused(line, error) =>
                {
                    // Refused for its headers, so nothing ran; the list says what they should be.
                    inner.server.tally_mut().set_aside();
                    let first = inner.marked.waiting.is_empty();
                    inner.marked.waiting.push((payload, line.to_vec()));
                    if first {
                        inner.marked.pages = 0;
                        self.list_tools(inner, None);
                    }
                    return;
                }
                _ if payload.connection == OURS => return self.tools_listed(inner),
                _ => {}
            }
        }
        inner.deliver(&payload, method, from, message, revision);
    }

    fn next_page(&self, inner: &mut Inner, line: &[u8], result: Span) {
        inner.marked.pages += 1;
        let cursor =
            json::member(line, result, "nextCursor").filter(|cursor| json::is_string(cursor.of(line)));
        match cursor {
            Some(cursor) if inner.marked.pages < PAGES => self.list_tools(inner, Some(cursor.of(line))),
            _ => self.tools_listed(inner),
        }
    }

    /// Asks for a page of the tools, for drowse itself.
    fn list_tools(&self, inner: &mut Inner, cursor: Option<&[u8]>) {
        let mut frame = br#"{"jsonrpc":"2.0","id":0,"method":"tools/list","params":{"#.to_vec();
        if let Some(cursor) = cursor {
            frame.extend_from_slice(br#""cursor":"#);
            frame.extend_from_slice(cursor);
            frame.push(b',');
        }
        frame.extend_from_slice(
            format!(
                r#""_meta":{{"{}":"{}","{}":{{}}}}}}}}"#,
                message::META_PROTOCOL_VERSION,
                Revision::LATEST_MODERN.name(),
                message::META_CLIENT_CAPABILITIES
            )
            .as_bytes(),
        );
        let parts = envelope::read(&frame).ok().and_then(|message| RequestParts::of(&message));
        let now = self.now();
        let operation = Operation { method: Method::ToolsList, allowance: None };
        match (parts, inner.server.submit_own(now, operation)) {
            (Some(parts), Ok(key)) => {
                let payload = Payload::new(OURS, Method::ToolsList, &frame, parts, None);
                inner.keep(key, Payload { frame: Some(frame.into()), ..payload });
            }
            _ => self.tools_listed(inner),
        }
    }

    /// The list is read, as far as it can be: what waited for it is sent again.
    pub(super) fn tools_listed(&self, inner: &mut Inner) {
        let now = self.now();
        for (payload, refusal) in std::mem::take(&mut inner.marked.waiting) {
            let operation = Operation { method: payload.method, allowance: payload.allowance };
            match inner.server.submit(now, operation) {
                Ok(key) => inner.keep(key, Payload { relisted: true, sent: false, wire: None, ..payload }),
                Err(_) => {
                    inner.server.tally_mut().end(Ending::Theirs, None);
                    if let (Ok(message), Some(revision)) = (envelope::read(&refusal), inner.server.revision())
                    {
                        let refusal = refusal.as_slice().into();
                        inner.deliver(&payload, payload.method, refusal, &message, revision);
                    }
                }
            }
        }
    }
}

impl Inner {
    /// Before a list came by, what was saved of the server says which tools are marked. To be called before they are looked
    /// at.
    pub(super) fn recall_marked(&mut self) {
        if std::mem::replace(&mut self.marked.told, true) {
            return;
        }
        let saved = self.host.saved().filter(|saved| saved.header.identity == self.config.identity);
        let Some(saved) = saved else { return };
        for tool in saved.lists().first().copied().unwrap_or_default() {
            let tool = tool.get();
            if headers::annotations(tool.as_bytes(), Span::new(0, tool.len())).next().is_some() {
                let list = format!(r#"{{"tools":[{tool}]}}"#);
                self.marked.remember(list.as_bytes(), Span::new(0, list.len()));
            }
        }
    }

    /// Adds what a modern server wants to find in the headers of a request (basic/transports/streamable-http, Request
    /// Metadata).
    pub(super) fn repeat_in_headers(
        &self,
        frame: &[u8],
        parts: &RequestParts,
        method: Method,
        headers: &mut HeaderMap,
    ) {
        let Some(params) = parts.params else { return };
        let Some(name) = headers::name(method, frame, parts) else { return };
        if let Some(value) = header_value(name.of(frame)) {
            headers.insert(HeaderName::from_static("mcp-name"), value);
        }
        if method != Method::ToolsCall {
            return;
        }
        let key: Vec<u8> = json::text(name.of(frame)).collect();
        let Some(tool) = self.marked.tools.get(&key) else { return };
        let arguments =
            json::member(frame, params, "arguments").filter(|arguments| json::is_object(arguments.of(frame)));
        let Some(arguments) = arguments else { return };
        for annotation in headers::annotations(tool, Span::new(0, tool.len())) {
            let Some(value) = annotation.argument(tool, frame, arguments) else { continue };
            let mut buffer = vec![0; annotation.header().len() + headers::PARAM_PREFIX.len()];
            let mut w = message::Writer::new(&mut buffer);
            annotation.write_name(tool, &mut w);
            let name = w.finish().ok().and_then(|name| HeaderName::from_bytes(name).ok());
            if let (Some(name), Some(value)) = (name, header_value(value.of(frame))) {
                headers.insert(name, value);
            }
        }
    }
}

fn header_value(raw: &[u8]) -> Option<HeaderValue> {
    let mut buffer = vec![0; raw.len() * 2 + 32];
    let mut w = message::Writer::new(&mut buffer);
    headers::write_value(raw, &mut w).ok()?;
    HeaderValue::from_bytes(w.finish().ok()?).ok()
}
