//! Tasks that a server has been given and whose end nobody has seen: they defer the idle deadline.
//!
//! A task is work that goes on after the call that began it was answered (specification 2025-11-25,
//! basic/utilities/tasks, and the extension `io.modelcontextprotocol/tasks` of 2026-07-28). Ending an idle server would
//! end it, and lose a result that was not fetched. So a task *pends* from the answer that creates it until an answer or
//! a notification shows it in a final state, until its time to live is over, or until its server is gone.
//!
//! It is used beside [`crate::server::Server`]:
//!
//! 1. A request goes to the server: [`Asked::of`], to be kept until its answer.
//! 2. Its answer comes: [`Asked::seen`] says what it tells of tasks; a notification: [`is_notification`].
//! 3. A new one: [`handle_created`](Tasks::handle_created), and if that gives a key, `Server::defer`. The adapter keeps
//!    the task's id beside the key. One that is known: [`handle_seen`](Tasks::handle_seen) or
//!    [`handle_over`](Tasks::handle_over).
//! 4. The server is gone: [`handle_lost`](Tasks::handle_lost). Time: [`handle_timeout`](Tasks::handle_timeout), at
//!    [`poll_timeout`](Tasks::poll_timeout).
//! 5. After each: drain [`poll_over`](Tasks::poll_over), and for each key `Server::undefer`. It comes exactly once.
//!
//! Tasks of others are of no interest: only what was created through this machine defers.

use crate::envelope::{Known, Message};
use crate::json;
use crate::method::Method;
use crate::notification::Notification;
use crate::span::Span;
use crate::splice::RequestParts;
use crate::time::{Duration, Instant};

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod tests;

/// How long a task pends that has no time to live and is not heard of.
pub const UNHEARD: Duration = Duration::from_secs(24 * 3600);

/// JSON-RPC: there is no such task, or it is over.
const INVALID_PARAMS: i64 = -32602;
/// JSON-RPC: the server does not do that, which says nothing of the task.
const METHOD_NOT_FOUND: i64 = -32601;

/// How a task stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Status {
    /// `working`, or a word that is not known here.
    Working,
    /// `input_required`: it waits for answers of the client.
    InputRequired,
    /// `completed`
    Completed,
    /// `failed`
    Failed,
    /// `cancelled`
    Cancelled,
}

impl Status {
    /// The status that a JSON string names.
    #[must_use]
    pub fn from_json(raw: &[u8]) -> Self {
        [Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled]
            .into_iter()
            .find(|status| json::str_eq(raw, status.name()))
            .unwrap_or(Self::Working)
    }

    /// The word on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing changes any more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// What a message says of one task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Sight {
    /// Its id, a string with its quotes.
    pub id: Span,
    /// How it stands.
    pub status: Status,
    /// How long the server keeps it after it was created; `None`: without limit.
    pub ttl: Option<Duration>,
}

impl Sight {
    /// Reads a task: an object with an id and a status.
    #[must_use]
    pub fn read(frame: &[u8], task: Span) -> Option<Self> {
        let (mut id, mut status, mut ttl) = (None, None, None);
        for member in json::members(frame, task) {
            let key = member.key.of(frame);
            if json::str_eq(key, "taskId") {
                id = Some(member.value);
            } else if json::str_eq(key, "status") {
                status = Some(member.value);
            // As the extension calls it, or as 2025-11-25 does.
            } else if json::str_eq(key, "ttlMs") || json::str_eq(key, "ttl") {
                ttl = json::as_u64(member.value.of(frame)).map(Duration::from_millis);
            }
        }
        let string = |span: &Span| json::is_string(span.of(frame));
        let (id, status) = (id.filter(string)?, status.filter(string)?);
        Some(Self { id, status: Status::from_json(status.of(frame)), ttl })
    }
}

/// What a request's answer may tell of tasks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Asked {
    /// Nothing.
    #[default]
    Nothing,
    /// That one was created: a call by whoever is prepared for that.
    Call,
    /// `tasks/get`
    Get,
    /// `tasks/result`
    Result,
    /// `tasks/list`
    List,
    /// `tasks/cancel`
    Cancel,
}

impl Asked {
    /// Reads a caller's request. `prepared`: it declares the extension.
    #[must_use]
    pub fn of(frame: &[u8], parts: &RequestParts, method: Method, prepared: bool) -> Self {
        match method {
            Method::ToolsCall => {
                if prepared || parts.value(Known::Task).is_some() {
                    Self::Call
                } else {
                    Self::Nothing
                }
            }
            Method::Tasks => [
                ("tasks/get", Self::Get),
                ("tasks/result", Self::Result),
                ("tasks/list", Self::List),
                ("tasks/cancel", Self::Cancel),
            ]
            .into_iter()
            .find(|(name, _)| json::str_eq(parts.method.of(frame), name))
            .map_or(Self::Nothing, |(_, asked)| asked),
            _ => Self::Nothing,
        }
    }

    /// The task that a request is about: `params.taskId`, a string with its quotes.
    #[must_use]
    pub fn task(self, frame: &[u8], parts: &RequestParts) -> Option<Span> {
        match self {
            Self::Get | Self::Result | Self::Cancel => {
                parts.value(Known::TaskId).filter(|id| json::is_string(id.of(frame)))
            }
            Self::Nothing | Self::Call | Self::List => None,
        }
    }

    /// What the answer tells.
    #[must_use]
    pub fn seen(self, frame: &[u8], message: &Message) -> Seen {
        match *message {
            Message::Response { result, .. } => self.seen_in(frame, result),
            Message::Error { error, .. } => {
                let code = json::member(frame, error, "code").and_then(|code| json::as_i64(code.of(frame)));
                match self {
                    // The task is not there, or this is the error of what it ran.
                    Self::Result if code != Some(METHOD_NOT_FOUND) => Seen::Over,
                    Self::Get | Self::Cancel if code == Some(INVALID_PARAMS) => Seen::Over,
                    _ => Seen::Nothing,
                }
            }
            _ => Seen::Nothing,
        }
    }

    fn seen_in(self, frame: &[u8], result: Span) -> Seen {
        let state = |task| Sight::read(frame, task);
        match self {
            Self::Nothing => Seen::Nothing,
            Self::Call => {
                // 2025-11-25 nests it; a result of its own type is the extension's.
                let created = match json::member(frame, result, "resultType").map(|kind| kind.of(frame)) {
                    Some(kind) if json::str_eq(kind, "task") => state(result),
                    Some(kind) if !json::str_eq(kind, "complete") => None,
                    _ => json::member(frame, result, "task").and_then(state),
                };
                created.map_or(Seen::Nothing, Seen::Created)
            }
            Self::Get => state(result).map_or(Seen::Nothing, Seen::State),
            // Its server keeps it until there is a result; one that is asked for input is no result.
            Self::Result => Seen::Over,
            Self::List => json::member(frame, result, "tasks").map_or(Seen::Nothing, Seen::States),
            // The extension only acknowledges; whether the work stops is the server's affair, and nobody waits for it.
            Self::Cancel => state(result).map_or(Seen::Over, Seen::State),
        }
    }
}

/// What an answer tells of tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Seen {
    /// Nothing.
    Nothing,
    /// There is a new one.
    Created(Sight),
    /// How one stands.
    State(Sight),
    /// How many stand: an array, each element for [`Sight::read`].
    States(Span),
    /// The one that was asked about is over.
    Over,
}

/// Whether a notification's params are a task, for [`Sight::read`]: `notifications/tasks/status`, or
/// `notifications/tasks` of the extension.
#[must_use]
pub fn is_notification(frame: &[u8], method: Span) -> bool {
    matches!(Notification::from_json(method.of(frame)), Notification::Task | Notification::TaskStatus)
}

/// Names a pending task. Never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TaskKey {
    index: u16,
    generation: u32,
}

impl TaskKey {
    /// The place of its slot.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// Room for one pending task. The caller provides the storage: an array on a device, a boxed slice on a host.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    generation: u32,
    task: Option<Pending>,
}

impl Slot {
    /// An unused slot.
    pub const EMPTY: Self = Self { generation: 0, task: None };
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    created: Instant,
    until: Instant,
    /// It no longer pends, and the adapter has not been told.
    over: bool,
}

/// Every slot is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Full;

/// The pending tasks of one server.
#[derive(Clone, Debug)]
pub struct Tasks<S> {
    slots: S,
    used: usize,
    /// So many of them are over.
    over: usize,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Tasks<S> {
    /// Takes the storage; at most 65,535 slots of it are used.
    #[must_use]
    pub fn new(mut slots: S) -> Self {
        for slot in slots.as_mut() {
            *slot = Slot::EMPTY;
        }
        Self { slots, used: 0, over: 0 }
    }

    /// How many tasks pend.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used - self.over
    }

    /// Whether a task pends.
    #[must_use]
    pub fn is_pending(&self, key: TaskKey) -> bool {
        self.get(key).is_some_and(|task| !task.over)
    }

    /// The task in the slot of that index, if one pends there.
    #[must_use]
    pub fn key_at(&self, index: usize) -> Option<TaskKey> {
        let slot = self.slots.as_ref().get(index)?;
        let task = slot.task.filter(|task| !task.over);
        Some(TaskKey { index: u16::try_from(index).ok()?, generation: slot.generation })
            .filter(|_| task.is_some())
    }

    /// A task was created. `None`: it is over already.
    ///
    /// # Errors
    /// If every slot is in use; the task defers nothing then.
    pub fn handle_created(
        &mut self,
        now: Instant,
        status: Status,
        ttl: Option<Duration>,
    ) -> Result<Option<TaskKey>, Full> {
        if status.is_final() || ttl.is_some_and(|ttl| ttl.is_zero()) {
            return Ok(None);
        }
        let free = |slot: &Slot| slot.task.is_none();
        let place = self.slots.as_ref().iter().take(usize::from(u16::MAX)).position(free).ok_or(Full)?;
        let index = u16::try_from(place).map_err(|_| Full)?;
        let slot = self.slots.as_mut().get_mut(place).ok_or(Full)?;
        slot.task = Some(Pending { created: now, until: until(now, now, ttl), over: false });
        self.used = self.used.saturating_add(1);
        Ok(Some(TaskKey { index, generation: slot.generation }))
    }

    /// How a task stands was seen.
    pub fn handle_seen(&mut self, now: Instant, key: TaskKey, status: Status, ttl: Option<Duration>) {
        if status.is_final() {
            return self.handle_over(key);
        }
        if let Some(task) = self.get_mut(key) {
            task.until = until(task.created, now, ttl);
        }
    }

    /// A task is over.
    pub fn handle_over(&mut self, key: TaskKey) {
        if let Some(task) = self.get_mut(key)
            && !task.over
        {
            task.over = true;
            self.over = self.over.saturating_add(1);
        }
    }

    /// The server is gone, and its tasks with it.
    pub fn handle_lost(&mut self) {
        for task in self.slots.as_mut().iter_mut().filter_map(|slot| slot.task.as_mut()) {
            task.over = true;
        }
        self.over = self.used;
    }

    /// Time has passed; early, late and repeated calls do no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.used() == 0 {
            return;
        }
        for task in self.slots.as_mut().iter_mut().filter_map(|slot| slot.task.as_mut()) {
            if !task.over && now >= task.until {
                task.over = true;
                self.over = self.over.saturating_add(1);
            }
        }
    }

    /// When the next task's time is over.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.used() == 0 {
            return None;
        }
        let pending = |slot: &Slot| slot.task.filter(|task| !task.over).map(|task| task.until);
        self.slots.as_ref().iter().filter_map(pending).min()
    }

    /// The next task that no longer pends. Takes the key back.
    #[must_use]
    pub fn poll_over(&mut self) -> Option<TaskKey> {
        if self.over == 0 {
            return None;
        }
        for (index, slot) in (0..u16::MAX).zip(self.slots.as_mut()) {
            if slot.task.is_some_and(|task| task.over) {
                let key = TaskKey { index, generation: slot.generation };
                *slot = Slot { generation: slot.generation.wrapping_add(1), task: None };
                self.over = self.over.saturating_sub(1);
                self.used = self.used.saturating_sub(1);
                return Some(key);
            }
        }
        None
    }

    fn get(&self, key: TaskKey) -> Option<&Pending> {
        let slot = self.slots.as_ref().get(key.index())?;
        slot.task.as_ref().filter(|_| slot.generation == key.generation)
    }

    fn get_mut(&mut self, key: TaskKey) -> Option<&mut Pending> {
        let slot = self.slots.as_mut().get_mut(key.index())?;
        slot.task.as_mut().filter(|_| slot.generation == key.generation)
    }
}

/// Until when a task pends of which nothing more is heard. A server may forget it when its time is over.
fn until(created: Instant, now: Instant, ttl: Option<Duration>) -> Instant {
    match ttl {
        Some(ttl) => created.after(ttl),
        None => now.after(UNHEARD),
    }
}
