//! Lists from what was saved of the server, for clients that do not wake it by asking for them.

use drowse_core::era::Era;
use drowse_core::json as text;

use super::callers::{Flow, Request};
use super::*;
use crate::bridge::explain::Explained;
use crate::snapshot::LISTS;

impl Hub {
    /// A list that is passed on to a server that is up, and is answered from its snapshot otherwise.
    pub(super) fn list(&self, inner: &mut Inner, now: Instant, request: &Request<'_>) -> Flow {
        if inner.server.lifecycle().is_up() {
            return self.operation(inner, now, request);
        }
        let &Request { connection, line, operation: Operation { method, .. }, parts, .. } = request;
        let frame = line.bytes();
        let id = parts.id.of(frame);
        let cursor = parts.params.and_then(|params| text::member(frame, params, "cursor"));
        match inner.saved_list(method) {
            // All of it is one page.
            Ok(_) if cursor.is_some_and(|cursor| cursor.of(frame) != b"null") => {
                let text = "the server that gave this cursor is gone: ask for the list from its beginning";
                let explained = explain::refused(text.to_owned(), "invalid-request");
                inner.reply_error(connection, Some(id), -32602, &explained);
            }
            Ok((line, revision)) => {
                if let Ok(message) = envelope::read(&line) {
                    let client = inner.connections.get(&connection).and_then(|one| one.client.clone());
                    let payload = Payload::new(connection, method, frame, parts, None);
                    let payload = Payload { client, ..payload };
                    inner.deliver(&payload, method, line.as_slice().into(), &message, revision);
                }
            }
            Err(explained) => inner.reply_error(connection, Some(id), explain::CODE, &explained),
        }
        self.drive(inner, None);
        Flow::Next
    }
}

impl Inner {
    /// A list as the server would give it, in its own era.
    fn saved_list(&mut self, method: Method) -> Result<(Vec<u8>, Revision), Explained> {
        let nothing = || {
            let text = "the server sleeps, and nothing is saved of what it offers: it wakes for a call, or for \
                        `drowse @name tools-list`";
            explain::refused(text.to_owned(), "unsupported")
        };
        let place = match method {
            Method::ToolsList => 0,
            Method::PromptsList => 1,
            Method::ResourcesList => 2,
            Method::TemplatesList => 3,
            _ => return Err(nothing()),
        };
        let saved = self.host.saved().filter(|saved| saved.header.identity == self.config.identity);
        let saved = saved.ok_or_else(nothing)?;
        let revision = Revision::from_name(&saved.header.protocol_version).ok_or_else(nothing)?;
        let (name, items) = LISTS.into_iter().zip(saved.lists()).nth(place).ok_or_else(nothing)?;
        if items.is_empty() && saved.header.incomplete.iter().any(|list| list == name) {
            return Err(nothing());
        }
        let mut line = br#"{"jsonrpc":"2.0","id":0,"result":{"#.to_vec();
        if revision.era() == Era::Modern {
            line.extend_from_slice(br#""resultType":"complete","ttlMs":0,"cacheScope":"private","#);
        }
        line.extend_from_slice(format!(r#""{name}":["#).as_bytes());
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                line.push(b',');
            }
            line.extend_from_slice(item.get().as_bytes());
        }
        line.extend_from_slice(b"]}}");
        Ok((line, revision))
    }
}
