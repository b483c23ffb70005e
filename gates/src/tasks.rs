//! Calls the machine of pending tasks, on bytes that nobody knows.

use drowse_core::envelope::{self, Message};
use drowse_core::json;
use drowse_core::method::Method;
use drowse_core::span::Span;
use drowse_core::splice::RequestParts;
use drowse_core::tasks::{self, Asked, Full, Seen, Sight, Slot, Tasks};
use drowse_core::time::Instant;

use crate::board;

/// The bytes are a caller's request, and a server's answer or notification.
pub fn read(bytes: &[u8]) {
    let at = Instant::from_micros(board::now());
    let mut pending = Tasks::new([Slot::EMPTY; 4]);
    let Ok(message) = envelope::read(bytes) else { return };
    let mut asked = Asked::Call;
    if let Some(parts) = RequestParts::of(&message) {
        asked = Asked::of(bytes, &parts, Method::from_json(parts.method.of(bytes)), false);
        board::checksum(asked.task(bytes, &parts).map_or(0, Span::len) as u64);
    }
    if let Message::Notification { method, .. } = message {
        board::checksum(u64::from(tasks::is_notification(bytes, method)));
    }
    let mut create = |sight: Sight| match pending.handle_created(at, sight.status, sight.ttl) {
        Ok(Some(key)) => {
            pending.handle_seen(at, key, sight.status, sight.ttl);
            pending.handle_over(key);
            board::checksum(key.index() as u64 + u64::from(pending.is_pending(key)));
        }
        Ok(None) => board::checksum(sight.status.name().len() as u64),
        Err(Full) => {}
    };
    match asked.seen(bytes, &message) {
        Seen::Created(sight) | Seen::State(sight) => create(sight),
        Seen::States(span) => {
            json::elements(bytes, span).filter_map(|task| Sight::read(bytes, task)).for_each(create);
        }
        Seen::Nothing | Seen::Over => {}
    }
    pending.handle_timeout(pending.poll_timeout().unwrap_or(at));
    pending.handle_lost();
    while let Some(key) = pending.poll_over() {
        board::checksum(u64::from(pending.key_at(key.index()).is_some()));
    }
    board::checksum(pending.used() as u64);
}
