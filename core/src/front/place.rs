//! Where a message stands whose client has requests before it that wait for room.
//!
//! They must not keep from drowse what makes that room: what takes back a request under way, or lets one go on. Nor is
//! there any reason to let wait what needs none: whether drowse is there, and what the dev proxy's own tools do.

use crate::dev::names::DevTool;
use crate::envelope::{self, Known, Message};
use crate::method::Method;
use crate::notification::Notification;
use crate::splice::RequestParts;

/// Its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// After them.
    Behind,
    /// Before them: an answer to what the client was asked.
    Before,
    /// Before them: a request that drowse answers itself, whatever is under way.
    Ours,
    /// Before them, and again after them: it takes back a request, which may be under way or one of those that wait. To
    /// take back what is not there, or not any more, means nothing.
    Both,
}

impl Place {
    /// That of this line. `dev`: the dev proxy's tools are among the server's.
    #[must_use]
    pub fn of(frame: &[u8], dev: bool) -> Self {
        let Ok(message) = envelope::read(frame) else { return Self::Behind };
        match message {
            Message::Response { .. } | Message::Error { .. } => Self::Before,
            Message::Request { .. }
                if RequestParts::of(&message).is_some_and(|parts| is_ours(frame, &parts, dev)) =>
            {
                Self::Ours
            }
            Message::Notification { method, .. }
                if Notification::from_json(method.of(frame)) == Notification::Cancelled =>
            {
                Self::Both
            }
            _ => Self::Behind,
        }
    }
}

fn is_ours(frame: &[u8], parts: &RequestParts, dev: bool) -> bool {
    match Method::from_json(parts.method.of(frame)) {
        Method::Ping | Method::Status => true,
        Method::ToolsCall => {
            dev && parts.value(Known::Name).is_some_and(|name| DevTool::of_call(name.of(frame)).is_some())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    #[test]
    fn what_makes_room_does_not_wait_for_it() {
        for (place, line) in [
            (Place::Both, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#),
            (Place::Both, r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#),
            (Place::Before, r#"{"jsonrpc":"2.0","id":1,"result":{"action":"cancel"}}"#),
            (Place::Before, r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#),
            (Place::Behind, r#"{"jsonrpc":"2.0","id":1,"method":"notifications/cancelled"}"#),
            (Place::Behind, r#"{"jsonrpc":"2.0","method":"notifications/drowse/leave"}"#),
            (Place::Behind, r#"[{"jsonrpc":"2.0","method":"notifications/cancelled"}]"#),
            (Place::Behind, "no message"),
        ] {
            assert_eq!(Place::of(line.as_bytes(), true), place, "{line}");
        }
    }

    #[test]
    fn what_needs_no_room_does_not_wait_for_it() {
        let place = |method: &str, name: &str, dev| {
            let line =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"name":"{name}"}}}}"#);
            Place::of(line.as_bytes(), dev)
        };
        for dev in [true, false] {
            assert_eq!(place("ping", "", dev), Place::Ours);
            assert_eq!(place("drowse/status", "", dev), Place::Ours);
            // That is asked of the server, and the others have an order.
            for method in ["drowse/ping", "drowse/close", "logging/setLevel", "resources/subscribe"] {
                assert_eq!(place(method, "dev_status", dev), Place::Behind, "{method}");
            }
            assert_eq!(place("tools/call", "status", dev), Place::Behind);
        }
        for name in ["dev_restart", "dev_status", "dev_logs", "dev_unknown"] {
            assert_eq!(place("tools/call", name, true), Place::Ours, "{name}");
            assert_eq!(place("tools/call", name, false), Place::Behind, "{name}");
        }
        let note = r#"{"jsonrpc":"2.0","method":"ping"}"#;
        assert_eq!(Place::of(note.as_bytes(), true), Place::Behind);
    }
}
