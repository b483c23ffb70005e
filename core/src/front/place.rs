//! Where a message stands whose client has requests before it that wait for room.
//!
//! They must not keep from drowse what makes that room: what takes back a request under way, or lets one go on.

use crate::envelope::{self, Message};
use crate::notification::Notification;

/// Its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// After them.
    Behind,
    /// Before them: an answer to what the client was asked.
    Before,
    /// Before them, and again after them: it takes back a request, which may be under way or one of those that wait. To
    /// take back what is not there, or not any more, means nothing.
    Both,
}

impl Place {
    /// That of this line.
    #[must_use]
    pub fn of(frame: &[u8]) -> Self {
        match envelope::read(frame) {
            Ok(Message::Response { .. } | Message::Error { .. }) => Self::Before,
            Ok(Message::Notification { method, .. })
                if Notification::from_json(method.of(frame)) == Notification::Cancelled =>
            {
                Self::Both
            }
            _ => Self::Behind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_room_does_not_wait_for_it() {
        for (place, line) in [
            (Place::Both, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#),
            (Place::Both, r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#),
            (Place::Before, r#"{"jsonrpc":"2.0","id":1,"result":{"action":"cancel"}}"#),
            (Place::Before, r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#),
            (Place::Behind, r#"{"jsonrpc":"2.0","id":1,"method":"notifications/cancelled"}"#),
            (Place::Behind, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
            (Place::Behind, r#"{"jsonrpc":"2.0","method":"notifications/drowse/leave"}"#),
            (Place::Behind, r#"[{"jsonrpc":"2.0","method":"notifications/cancelled"}]"#),
            (Place::Behind, "no message"),
        ] {
            assert_eq!(Place::of(line.as_bytes()), place, "{line}");
        }
    }
}
