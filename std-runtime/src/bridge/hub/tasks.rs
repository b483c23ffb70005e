//! Tasks of the server, as far as the bridge has to know of them: while one pends, the server is not let go.
//!
//! Keeps the ids; what a message tells of a task, and how long it pends, is the core's ([`drowse_core::tasks`]).

use std::borrow::Cow;

use drowse_core::envelope::Message;
use drowse_core::json;
use drowse_core::tasks::{Asked, Full, Seen, Sight, Slot, TaskKey, Tasks};

use super::notices::send_on_one_line;
use super::*;

/// How many tasks may pend.
const SLOTS: usize = 128;
/// An id that is longer is not kept, so its task does not keep the server awake.
const LONGEST_ID: usize = 1024;
/// What a message of a task carries in its `_meta` (2025-11-25, basic/utilities/tasks, Associating Task-Related
/// Messages).
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// The pending tasks, and their ids.
pub(super) struct Pending {
    tasks: Tasks<Box<[Slot]>>,
    /// And the connections that were given them.
    ids: Vec<Option<(Vec<u8>, u64)>>,
}

impl Pending {
    pub(super) fn new() -> Self {
        let slots = vec![Slot::EMPTY; SLOTS].into_boxed_slice();
        Self { tasks: Tasks::new(slots), ids: vec![None; SLOTS] }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.tasks.poll_timeout()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.tasks.handle_timeout(now);
    }

    /// The server is gone.
    pub(super) fn handle_lost(&mut self) {
        self.tasks.handle_lost();
    }

    /// The ids of those that pend.
    pub(super) fn pending(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.ids.iter().flatten().map(|(id, _)| String::from_utf8_lossy(id))
    }

    fn find(&self, id: &[u8]) -> Option<TaskKey> {
        let place = self.ids.iter().position(|known| known.as_ref().is_some_and(|(known, _)| known == id))?;
        self.tasks.key_at(place)
    }

    fn seen(&mut self, now: Instant, line: &[u8], sight: &Sight) {
        if self.tasks.used() > 0
            && let Some(key) = self.find(&text(line, sight.id))
        {
            self.tasks.handle_seen(now, key, sight.status, sight.ttl);
        }
    }
}

/// What the answer to a request may tell of tasks, and of which.
pub(super) fn asked(
    frame: &[u8],
    parts: &RequestParts,
    method: Method,
    capabilities: ClientCapabilities,
) -> (Asked, Option<Vec<u8>>) {
    let asked = Asked::of(frame, parts, method, capabilities.tasks);
    (asked, asked.task(frame, parts).map(|id| text(frame, id)))
}

fn text(frame: &[u8], string: Span) -> Vec<u8> {
    json::text(string.of(frame)).collect()
}

impl Inner {
    /// Looks what an answer tells of tasks.
    pub(super) fn tasks_seen(&mut self, now: Instant, key: Key, line: &[u8], message: &Message) {
        let Some(Some(payload)) = self.payloads.get(key.index()) else { return };
        let (asked, about) = &payload.asked;
        match asked.seen(line, message) {
            Seen::Nothing => {}
            Seen::Created(sight) => {
                let owner = payload.connection;
                self.task_created(now, line, &sight, owner);
            }
            Seen::State(sight) => self.tasks.seen(now, line, &sight),
            Seen::States(span) => {
                for sight in json::elements(line, span).filter_map(|task| Sight::read(line, task)) {
                    self.tasks.seen(now, line, &sight);
                }
            }
            Seen::Over => {
                if let Some(key) = about.as_deref().and_then(|id| self.tasks.find(id)) {
                    self.tasks.tasks.handle_over(key);
                }
            }
        }
    }

    fn task_created(&mut self, now: Instant, line: &[u8], sight: &Sight, owner: u64) {
        if sight.id.len() > LONGEST_ID {
            return self.host.note("a task does not keep the server awake: its id is too long");
        }
        let id = text(line, sight.id);
        if self.tasks.find(&id).is_some() {
            return self.tasks.seen(now, line, sight);
        }
        match self.tasks.tasks.handle_created(now, sight.status, sight.ttl) {
            Ok(None) => {}
            Ok(Some(key)) => {
                if let Some(place) = self.tasks.ids.get_mut(key.index()) {
                    *place = Some((id, owner));
                }
                self.server.defer();
            }
            Err(Full) => {
                self.host.note(&format!("a task does not keep the server awake: {SLOTS} others do already"));
            }
        }
    }

    /// A notification tells of a task. Whoever was given it by a server of its own era hears of it.
    pub(super) fn task_notified(&mut self, now: Instant, line: &[u8], params: Span) {
        if self.tasks.tasks.used() == 0 {
            return;
        }
        let Some(sight) = Sight::read(line, params) else { return };
        let Some(key) = self.tasks.find(&text(line, sight.id)) else { return };
        let owner = self.tasks.ids.get(key.index()).and_then(Option::as_ref).map(|(_, owner)| *owner);
        let legacy = self.revision.is_some_and(|revision| revision.era() == Era::Legacy);
        if let Some(connection) = owner.and_then(|owner| self.connections.get_mut(&owner))
            && legacy
            && connection.front.is_legacy()
            && connection.mouth.backlog() < SERVER_BACKLOG
        {
            send_on_one_line(connection, line);
        }
        self.tasks.seen(now, line, &sight);
    }

    /// The request that waits for the result of the task that a question belongs to: its caller is asked.
    pub(super) fn task_origin(&self, line: &[u8], params: Option<Span>) -> Option<Key> {
        let related = json::member(line, json::member(line, params?, "_meta")?, RELATED_TASK)?;
        let id = text(line, json::member(line, related, "taskId")?);
        let waits = |payload: &Payload| {
            payload.sent && payload.asked.0 == Asked::Result && payload.asked.1.as_deref() == Some(&id)
        };
        self.keys_of(waits).first().copied()
    }

    /// What no longer pends no longer defers.
    pub(super) fn drive_tasks(&mut self, now: Instant) {
        while let Some(key) = self.tasks.tasks.poll_over() {
            if let Some(place) = self.tasks.ids.get_mut(key.index()) {
                *place = None;
            }
            self.server.undefer(now);
        }
    }
}
