//! Log messages of the server: into the session's log, and to whoever wants them with a request under way. And how much
//! of the log is wanted.
//!
//! What is wanted, and who is told, is the core's ([`drowse_core::logging`]).

use drowse_core::envelope::{Known, Message};
use drowse_core::json;
use drowse_core::logging::{Entry, Level};

use super::*;

/// As much of a message goes into the log.
const LONGEST: usize = 8 << 10;

/// What a `logging/setLevel` of a caller wants remembered; `None`: a level that there is not.
fn wanted_level(frame: &[u8], parts: &RequestParts) -> Option<Option<Level>> {
    let level =
        json::member(frame, parts.params?, "level").and_then(|level| Level::from_json(level.of(frame)))?;
    let forget = parts.value(Known::Forget).is_some_and(|forget| forget.of(frame) == b"true");
    Some((!forget).then_some(level))
}

impl Inner {
    /// Looks at a caller's request before it is accepted. `Err`: it was refused.
    pub(super) fn sets_level(
        &mut self,
        connection: u64,
        frame: &[u8],
        parts: &RequestParts,
        method: Method,
    ) -> Result<Option<Option<Level>>, ()> {
        if method != Method::SetLevel {
            return Ok(None);
        }
        if let Some(level) = wanted_level(frame, parts) {
            return Ok(Some(level));
        }
        let explained = explain::refused("there is no such log level".to_owned(), "invalid-request");
        self.reply_error(connection, Some(parts.id.of(frame)), -32602, &explained);
        Err(())
    }

    /// The server has taken a level: it is what the next one is told, too.
    pub(super) fn level_taken(&mut self, key: Key, message: &Message) {
        if let Message::Response { .. } = message {
            self.remember_level(key);
        }
    }

    fn remember_level(&mut self, key: Key) {
        let payload = self.payloads.get(key.index()).and_then(Option::as_deref);
        if let Some(Payload { sets_level: Some(level), .. }) = payload {
            self.base_level = *level;
            self.server.set_level(*level);
            self.apply_levels();
        }
    }

    /// A modern server is told with each request.
    pub(super) fn answer_level(&mut self, key: Key) {
        self.remember_level(key);
        if let Some(payload) = self.release(key) {
            self.reply(payload.connection, &payload.id, &[br#"{"resultType":"complete"}"#]);
        }
    }

    /// A modern client wants so much of the log with a request: a legacy server is told for all that it does.
    pub(super) fn wants_log(&mut self, connection: u64, wanted: Wanted) {
        if let Wanted::From(level) = wanted
            && let Some(connection) = self.connections.get_mut(&connection)
            && connection.level.is_none_or(|known| level < known)
        {
            connection.level = Some(level);
            self.apply_levels();
        }
    }

    /// Takes a log message. `origin`: the request on whose stream it came, where the transport
    /// tells.
    pub(super) fn logged(&mut self, line: &[u8], origin: Option<Key>) {
        let Ok(Message::Notification { params: Some(params), .. }) = envelope::read(line) else { return };
        let Some(entry) = Entry::read(line, params) else { return };
        self.host.server_log(&written(line, &entry));
        let is_of = |index: usize| origin.is_none_or(|origin| origin.index() == index);
        let wanting = |(_, payload): &(usize, &Payload)| payload.sent && self.is_heard(payload, entry.level);
        let payloads = self.payloads.iter().enumerate();
        // Each with the request that it belongs to, if there is one.
        let mut connections: Vec<(u64, usize)> = payloads
            .filter_map(|(index, payload)| {
                payload.as_deref().filter(|_| is_of(index)).map(|payload| (index, payload))
            })
            .filter(wanting)
            .map(|(index, payload)| (payload.connection, index))
            .collect();
        if origin.is_none() {
            connections.extend(self.listening_to_log(entry.level).map(|id| (id, usize::MAX)));
        }
        connections.sort_unstable();
        connections.dedup_by_key(|(id, _)| *id);
        if connections.is_empty() {
            return;
        }
        // Over HTTP a message may stand on several lines.
        let line: Vec<u8> =
            line.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect();
        for (id, index) in connections {
            let payload = self.payloads.get(index).and_then(Option::as_deref);
            let about = payload.map_or(About::Nothing, |payload| About::Request(&payload.id));
            if let Some(connection) = self.connections.get_mut(&id)
                && connection.mouth.backlog() < SERVER_BACKLOG
            {
                connection.mouth.send(about, &[&line]);
            }
        }
    }
}

/// A message as it stands in the log: level, logger and data on one line.
fn written(line: &[u8], entry: &Entry) -> String {
    let mut text = format!("[{}] ", entry.level.name());
    let mut put = |bytes: &mut dyn Iterator<Item = u8>| {
        let room = LONGEST.saturating_sub(text.len());
        let mut part: Vec<u8> = bytes.take(room + 1).collect();
        let cut = part.len() > room;
        part.truncate(room);
        text.extend(String::from_utf8_lossy(&part).chars().map(|c| if c.is_control() { ' ' } else { c }));
        if cut {
            text.push('…');
        }
    };
    if let Some(logger) = entry.logger {
        put(&mut json::text(logger.of(line)).chain(*b": "));
    }
    let data = entry.data.of(line);
    if json::is_string(data) {
        put(&mut json::text(data));
    } else {
        put(&mut data.iter().copied());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_of_the_log() {
        let text = |params: &str| {
            let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#);
            let Ok(Message::Notification { params: Some(params), .. }) = envelope::read(line.as_bytes())
            else {
                panic!("{line}")
            };
            written(line.as_bytes(), &Entry::read(line.as_bytes(), params).unwrap())
        };
        assert_eq!(
            text(r#"{"level":"error","logger":"db","data":{"a": [1,"x"]}}"#),
            r#"[error] db: {"a": [1,"x"]}"#
        );
        assert_eq!(text(r#"{"level":"info","data":"two\nlines\u001b[2J"}"#), "[info] two lines [2J");
        let long = text(&format!(r#"{{"level":"debug","logger":"l","data":"{}"}}"#, "é".repeat(LONGEST)));
        assert!(long.len() <= LONGEST + 8 && long.ends_with('…'), "{}", long.len());
        let long = text(&format!(r#"{{"level":"debug","logger":"{}","data":7}}"#, "l".repeat(LONGEST)));
        assert!(long.len() <= LONGEST + 8, "{}", long.len());
    }
}
