//! The hub's side towards clients that come by direct calls: whose messages are handed in one by one, and taken by a
//! [`Sink`].

use super::callers::{Flow, Read};
use super::*;
use crate::bridge::Sink;

/// A connection without a byte stream. Dropped, its client is gone.
pub(crate) struct Guest {
    hub: Hub,
    id: u64,
    /// Something may be left that its end has to take back.
    open: Cell<bool>,
    /// How many messages were handed in.
    offers: Cell<u64>,
}

/// A batch that is handed in. Dropped, nothing more of it is: what waits for room would never be read.
struct OfBatch<'g> {
    guest: &'g Guest,
    number: u64,
}

impl Drop for OfBatch<'_> {
    fn drop(&mut self) {
        self.guest.hub.with(|_, inner, _| {
            if let Some(connection) = inner.connections.get_mut(&self.guest.id) {
                connection.end_batch(self.number);
            }
        });
    }
}

/// What became of a message that was handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    Taken,
    /// The connection is over.
    Closed,
}

impl Hub {
    /// A client begins that is of that kind. Its principal is that of the `name`, a JSON string, or its own. `None`: the hub
    /// takes no more.
    pub(crate) fn welcome(&self, sink: Rc<dyn Sink>, front: Front, name: Option<&[u8]>) -> Option<Guest> {
        let inner = &mut *self.0.inner.borrow_mut();
        if inner.retired {
            return None;
        }
        let id = inner.next_connection;
        inner.next_connection += 1;
        let connection = Connection {
            principal: inner.questions.principal(name),
            front,
            mouth: Mouth::Sink(sink),
            closed: Rc::new(Notify::new()),
            named: name.is_some(),
            renewals: inner.told,
            level: None,
            client: None,
            batches: Vec::new(),
            _flusher: None,
        };
        inner.connections.insert(id, connection);
        Some(Guest { hub: self.clone(), id, open: Cell::new(true), offers: Cell::new(0) })
    }

    /// Clients of the kind that comes by direct calls went on reading, or went away.
    pub(crate) fn guests_active(&self) {
        self.with(|hub, inner, now| {
            inner.rest.handle_active(now);
            hub.arm(inner);
        });
    }

    /// Hands in what came alone but may not be: what came to other guests at the same time is handed in by their tasks,
    /// which run before one that is spawned now. The first of them does not wait for that: the server has nothing to do.
    fn guest_line(&self, id: u64, line: Line<'_>, message: &envelope::Message, number: u64) -> Flow {
        let read = Read::Message(message, number);
        if !self.0.burst.lasts() && self.0.inner.borrow().server.lifecycle().in_flight() == 0 {
            return self.with(|hub, inner, now| hub.client_line(inner, now, id, line, read));
        }
        self.begin_burst();
        let flow = self.with(|hub, inner, now| hub.client_line(inner, now, id, line, read));
        if self.0.burst.ends_later() {
            let hub = self.clone();
            spawn_local(async move {
                hub.0.burst.handle_later();
                hub.end_burst();
            });
        } else if !self.0.burst.lasts() && self.0.unarmed.get() {
            self.with(|hub, inner, _| hub.arm(inner));
        }
        flow
    }

    /// Whether arguments of any tool go into headers.
    pub(crate) fn marks_tools(&self) -> bool {
        let mut inner = self.0.inner.borrow_mut();
        inner.recall_marked();
        !inner.marked.is_empty()
    }

    /// A tool of the server as the list of tools has it, if arguments of it go into headers.
    pub(crate) fn marked_tool<T>(&self, name: &[u8], look: impl FnOnce(Option<&[u8]>) -> T) -> T {
        let inner = self.0.inner.borrow();
        let name: Vec<u8> = drowse_core::json::text(name).collect();
        look(inner.marked.tool(&name))
    }
}

impl Guest {
    /// Hands in a message, which must stand on one line, as it was read there. Waits while there is no room for it. The hub
    /// keeps of it what it needs.
    pub(crate) async fn offer(&self, line: Bytes, message: &envelope::Message) -> Offered {
        let number = self.offers.get();
        self.offers.set(number + 1);
        let is_batch = matches!(message, envelope::Message::Batch { .. });
        let _of_batch = is_batch.then(|| OfBatch { guest: self, number });
        loop {
            // Whoever frees a slot after this is heard.
            let room = self.hub.0.room.notified();
            match self.hub.guest_line(self.id, Line::from(&line), message, number) {
                Flow::Next | Flow::Greeted => return Offered::Taken,
                Flow::Close => return Offered::Closed,
                Flow::Wait => room.await,
            }
        }
    }

    /// The revision that a legacy client agreed on.
    pub(crate) fn legacy_revision(&self) -> Option<Revision> {
        let inner = self.hub.0.inner.borrow();
        inner.connections.get(&self.id).and_then(|connection| connection.front.legacy())
    }

    /// Its client has read what waited for it.
    pub(crate) fn eased(&self) {
        self.hub.eased(self.id);
    }

    /// All that was asked is answered.
    pub(crate) fn settle(&self) {
        self.open.set(false);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let id = self.id;
        if self.open.get() {
            self.hub.with(|hub, inner, now| hub.caller_gone(inner, now, id));
        }
        self.hub.remove_connection(&mut self.hub.0.inner.borrow_mut(), id);
    }
}
