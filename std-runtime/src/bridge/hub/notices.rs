//! Notifications of the server that are about no request's progress, on their way to whom they concern; and those of
//! clients.

use drowse_core::envelope::Message;
use drowse_core::json;
use drowse_core::link::REISSUED;
use drowse_core::message::Own;
use drowse_core::notification::Notification;

use super::relay::written;
use super::*;

impl Inner {
    /// A notification of the server. `origin`: the request on whose stream it came, where the transport tells.
    pub(super) fn notified(&mut self, now: Instant, line: &[u8], method: Span, origin: Option<Key>) {
        let what = Notification::from_json(method.of(line));
        if what == Notification::Other {
            return;
        }
        let Ok(Message::Notification { params: Some(params), .. }) = envelope::read(line) else { return };
        match what {
            Notification::Message => self.logged(line, origin),
            Notification::Cancelled => self.question_cancelled(line, params),
            Notification::Task | Notification::TaskStatus => {
                if what == Notification::Task {
                    self.task_told(line, params);
                }
                self.task_notified(now, line, params);
            }
            Notification::ElicitationComplete => self.visit_complete(line, params),
            _ => {}
        }
    }

    /// Whoever was sent to an address is told that it was there. A modern client learns it by its retry.
    fn visit_complete(&mut self, line: &[u8], params: Span) {
        let id = json::member(line, params, "elicitationId").filter(|id| json::is_string(id.of(line)));
        let client = id.and_then(|id| self.asks.visits.handle_complete(id.of(line)));
        if let Some(connection) = client.and_then(|client| self.connections.get_mut(&client)) {
            send_on_one_line(connection, line);
        }
    }

    /// A client cancels a request, and says why.
    pub(super) fn because(&mut self, key: Key, reason: Option<&[u8]>) {
        if let Some(Some(payload)) = self.payloads.get_mut(key.index()) {
            payload.reason = reason.map(Into::into);
        }
    }

    /// The same for its server. `None`: the client said nothing, or it was not the client who cancelled.
    pub(super) fn cancelled_because(&self, own: Own) -> Option<Vec<u8>> {
        let Own::Cancelled { id, timed_out: false } = own else { return None };
        let key = Key::from_wire(id & !REISSUED)?;
        let payload = self.payloads.get(key.index())?.as_deref()?;
        let reason = payload.reason.as_deref().filter(|_| payload.wire == Some(id))?;
        Some(written(|w| message::cancelled(w, id, reason)))
    }

    /// Whether a request of that connection means something to a server of that revision.
    pub(super) fn reaches(&self, connection: u64, method: Method, server: Revision) -> bool {
        method != Method::Tasks
            || self.connections.get(&connection).is_none_or(|one| one.front.reaches(method, server.era()))
    }
}

/// Sends a message of the server as it stands. Over HTTP it may stand on several lines.
pub(super) fn send_on_one_line(connection: &mut Connection, line: &[u8]) {
    if !line.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return connection.mouth.send(About::Nothing, &[line]);
    }
    let line = on_one_line(line);
    connection.mouth.send(About::Nothing, &[&line]);
}

/// A message without its line breaks, which can only stand between its members.
pub(super) fn on_one_line(line: &[u8]) -> Vec<u8> {
    line.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}
