//! What clients asked to hear, and how the server is told.
//!
//! Owns the set of what is wanted (the union over the clients' `subscriptions/listen`), who hears what, and how that
//! set is expressed in the server's era: a legacy server gets one `resources/subscribe` for each URI, a modern one one
//! `subscriptions/listen` for all. Tasks of the extension of 2026-07-28 that somebody wants to hear of are named there
//! like URIs, and mean something to such servers alone. Texts stay outside: a [`Uri`] and a [`Listener`] name a slot for the caller's own
//! storage beside it, which is given back by [`Step::Forget`] and [`Step::End`] (or [`Relay::close`]).
//!
//! Nothing is queued: each URI has one standing with the server, at most one question about it is open, and what is to
//! be said next is looked up when the answer has come. So subscribe and unsubscribe in quick succession end as the
//! last of them wanted, in both eras and over any transport.
//!
//! drowse itself may want to hear of changed lists too ([`Relay::want_lists`]): then they belong to the one stream.
//!
//! The set outlives the server, not the client. What was heard of before and then not for a while (the server was
//! started again, its stream broke) may have changed meanwhile, so its clients are told of an update as soon as it is
//! heard of again.

use crate::era::Era;
use crate::link::{Failure, Key};
use crate::time::{Duration, Instant, Reason, Timetable};

mod expression;
pub mod legacy;
mod own;
mod room;
mod slots;
#[cfg(test)]
mod tests;
pub mod wire;

use self::own::Own;
pub use self::room::Crowded;
use self::slots::{Client, Content, Hearing, Slots, Stage, Standing, Topic, Want};
pub use self::slots::{Listener, Slot, Uri};
pub use self::wire::{Filter, List};

/// How long a stream that ended is left alone before it is opened again; the pause grows while that helps nothing.
const RETRY: Duration = Duration::from_secs(1);
/// The longest such pause.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// A stream that lasted this long was worth opening.
const LASTING: Duration = Duration::from_secs(30);
/// How many questions to a legacy server are open at once.
const AT_ONCE: u16 = 16;

/// A set of lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Lists(u8);

impl Lists {
    /// No list.
    pub const NONE: Self = Self(0);
    /// Every list.
    pub const ALL: Self = Self(7);

    /// With that one as well.
    #[must_use]
    pub const fn with(self, list: List) -> Self {
        Self(self.0 | 1 << list as u8)
    }

    /// Whether that one is among them.
    #[must_use]
    pub const fn has(self, list: List) -> bool {
        self.0 & 1 << list as u8 != 0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn without(self, list: List) -> Self {
        Self(self.0 & !(1 << list as u8))
    }

    const fn less(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    fn first(self) -> Option<List> {
        List::ALL.into_iter().find(|list| self.has(*list))
    }
}

/// What a server can announce.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Offers {
    /// Changes of these lists.
    pub lists: Lists,
    /// Updates of resources.
    pub subscribe: bool,
    /// The status of tasks, in a modern server's way.
    pub tasks: bool,
}

impl Offers {
    /// Before a server ran, nothing is known to be missing.
    const UNKNOWN: Self = Self { lists: Lists::ALL, subscribe: true, tasks: true };
}

/// Why a URI is not heard of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Why {
    /// The server has no such resource; its error says so.
    Gone,
    /// The server answered with another error.
    Refused,
    /// The server's acknowledgement leaves it out.
    Omitted,
    /// The server announces no updates of resources.
    Unsupported,
    /// The server did not answer.
    Silent,
}

/// Why a listener comes to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum End {
    /// The server is let go. `acknowledged`: so that the end is a graceful one; otherwise nothing was heard.
    Over {
        /// Whether the subscription had begun.
        acknowledged: bool,
    },
    /// Nothing of what it wanted is to be had; the first reason.
    Refused {
        /// Why.
        why: Why,
        /// What it wanted.
        uri: Uri,
    },
    /// The server that it needs could not be had.
    Failed(Failure),
}

/// What the adapter has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Step {
    /// Tell a client what it will hear ([`wire::acknowledged`]): these lists, and [`Relay::heard_by`].
    Acknowledge {
        /// Whom.
        listener: Listener,
        /// The lists.
        lists: Lists,
    },
    /// Tell a client that a list changed ([`wire::list_changed`]).
    Changed {
        /// Whom.
        listener: Listener,
        /// Which.
        list: List,
    },
    /// Tell a client that a resource was updated ([`wire::updated`]).
    Updated {
        /// Whom.
        listener: Listener,
        /// Which.
        uri: Uri,
    },
    /// Answer a client's request, which is the end of it ([`wire::ended`], or an error). Takes the listener back.
    End {
        /// Whom.
        listener: Listener,
        /// Why.
        why: End,
    },
    /// Nobody wants that URI any more. Takes it back.
    Forget {
        /// Which.
        uri: Uri,
    },
    /// Ask a legacy server for updates ([`wire::subscribe`]), or to stop them.
    Subscribe {
        /// The id on the wire.
        wire: u64,
        /// Of what.
        uri: Uri,
        /// Or no more.
        on: bool,
    },
    /// Open a modern server's stream ([`wire::listen`]) for these lists and for [`Relay::asked`].
    Listen {
        /// The id on the wire.
        wire: u64,
        /// The lists.
        lists: Lists,
    },
    /// Cancel the request of that id: over HTTP break its exchange off, else send `notifications/cancelled`.
    Cancel {
        /// The id on the wire.
        wire: u64,
    },
}

/// What an answer of the server came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answered {
    /// It answers no question of the relay.
    Unasked,
    /// It was taken.
    Taken,
    /// The error refuses that URI, or whatever the stream was to be opened for.
    Refused(Option<Uri>),
}

/// There are not enough slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Full;

/// A modern server's stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stream {
    wire: u64,
    lists: Lists,
    since: Instant,
}

/// The older of two streams, while both are open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Older {
    wire: u64,
    until: Instant,
}

/// Whose fault it is that a stream was refused which names one new URI beside what is heard of already: that may be
/// gone by now, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Blame {
    /// Not known; to be found out.
    Open,
    /// The new one is tried without the others.
    Alone,
    /// It was accepted so. What is refused until all is settled is so for its own sake.
    Found,
}

/// The relay of one server. `R` is the storage of what is wanted.
#[derive(Clone, Debug)]
pub struct Relay<R> {
    slots: Slots<R>,
    /// How many subscriptions there may be, and how many there are.
    limit: usize,
    weight: usize,
    /// Where the next look at the slots begins.
    cursor: u16,
    /// How long an answer may take.
    patience: Duration,
    /// How long the older of two streams is kept, where what is sent on them may arrive in another order.
    overlap: Duration,
    /// The server's era, while it is ready.
    era: Option<Era>,
    /// A server was ready before.
    again: bool,
    offers: Offers,
    /// The lists whose changes drowse announces whatever the server does.
    announced: Lists,
    current: Option<Stream>,
    next: Option<Stream>,
    older: Option<Older>,
    /// While there are two: how many more changes of each list came on the older one.
    ahead: [i16; 3],
    cancelled: [Option<u64>; 4],
    /// What drowse itself wants to hear.
    own: Own,
    /// The modern stream may have to be opened anew.
    changed: bool,
    /// The server refused the stream for one of several URIs: they are tried one after the other.
    singly: bool,
    blame: Blame,
    /// How many refusals came one after the other.
    in_a_row: u16,
    /// Lists that were heard of, and then not for a while.
    stale: Lists,
    /// Questions to a legacy server that are open.
    asked: u16,
    /// Wishes of those who listen, but for what was refused: these defer the idle deadline.
    deferring: u32,
    /// Nothing is said to the server before that.
    pause: Option<Instant>,
    fruitless: u8,
    /// When that is asked for again which was refused, but is not gone; and how often it was.
    again_at: Option<Instant>,
    in_vain: u8,
    /// There may be something to do.
    work: bool,
    over: bool,
}

impl<R: AsRef<[Slot]> + AsMut<[Slot]>> Relay<R> {
    /// Takes the storage; at most 65,535 slots of it are used.
    #[must_use]
    pub fn new(slots: R, patience: Duration, overlap: Duration) -> Self {
        Self {
            slots: Slots::new(slots),
            limit: usize::MAX,
            weight: 0,
            cursor: 0,
            patience,
            overlap,
            era: None,
            again: false,
            offers: Offers::UNKNOWN,
            announced: Lists::NONE,
            current: None,
            next: None,
            older: None,
            ahead: [0; 3],
            cancelled: [None; 4],
            own: Own::NONE,
            changed: false,
            singly: false,
            blame: Blame::Open,
            in_a_row: 0,
            stale: Lists::NONE,
            asked: 0,
            deferring: 0,
            pause: None,
            fruitless: 0,
            again_at: None,
            in_vain: 0,
            work: false,
            over: false,
        }
    }

    /// Changes how long an answer may take, for those that are asked for from now on.
    pub const fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Drowse itself announces changes of all lists: after a restart, and when a server is there at last that somebody was
    /// answered without.
    pub const fn announce(&mut self) {
        self.announced = Lists::ALL;
    }

    /// Somebody was told of lists without the server, so that it is news when that is there.
    pub const fn expect_news(&mut self) {
        self.again = true;
    }

    /// How many slots are in use.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.slots.used()
    }

    /// Whether the server is kept awake for somebody.
    #[must_use]
    pub const fn defers(&self) -> bool {
        self.deferring > 0
    }

    /// Whether somebody wants to hear of that URI. One that nobody wants is kept until the server was told so
    /// ([`Step::Forget`]).
    #[must_use]
    pub fn is_wanted(&self, uri: Uri) -> bool {
        uri == self.slots.uri(uri.index)
            && matches!(self.slots.at(uri.index), Content::Topic(topic) if topic.wants > 0)
    }

    /// What that listener hears of.
    pub fn heard_by(&self, listener: Listener) -> impl Iterator<Item = Uri> {
        let wants = self.slots.wants();
        wants
            .filter(move |(_, want)| want.listener == listener.index && want.hearing == Hearing::Held)
            .map(|(_, want)| self.slots.uri(want.topic))
    }

    /// What the modern stream is opened for.
    pub fn asked(&self) -> impl Iterator<Item = Uri> {
        let topics = self.slots.topics().filter(|(_, topic)| topic.in_next);
        topics.map(|(index, _)| self.slots.uri(index))
    }

    // What clients do.

    /// A client begins to say what it wants to hear: of these lists, and then of what [`want`](Self::want) adds.
    ///
    /// # Errors
    /// If there is no room; nothing changed.
    pub fn attach(&mut self, lists: Lists) -> Result<Listener, Full> {
        let client = Client {
            stage: Stage::Opening,
            lists,
            due: Lists::NONE,
            hears: true,
            pending: 0,
            held: 0,
            weight: 0,
            refused: None,
        };
        let index = self.slots.insert(Content::Client(client)).ok_or(Full)?;
        Ok(self.slots.listener(index))
    }

    /// It wants to hear of that URI, which has a key already if somebody wants it.
    ///
    /// # Errors
    /// If there is no room; nothing changed.
    pub fn want(&mut self, listener: Listener, known: Option<Uri>) -> Result<Uri, Full> {
        self.want_topic(listener, known, Topic::NEW)
    }

    /// The same of a task. It keeps nothing awake, as the task itself does for as long as it pends; and where the server
    /// says nothing of tasks, it is left out of what the client is told.
    ///
    /// # Errors
    /// If there is no room; nothing changed.
    pub fn want_task(&mut self, listener: Listener, known: Option<Uri>) -> Result<Uri, Full> {
        self.want_topic(listener, known, Topic { is_task: true, ..Topic::NEW })
    }

    fn want_topic(&mut self, listener: Listener, known: Option<Uri>, new: Topic) -> Result<Uri, Full> {
        let known = known.filter(|uri| *uri == self.slots.uri(uri.index));
        let known = known.filter(|uri| matches!(self.slots.at(uri.index), Content::Topic(_)));
        if let Some(uri) = known
            && self.slots.wants().any(|(_, want)| want.listener == listener.index && want.topic == uri.index)
        {
            return Ok(uri);
        }
        if self.slots.free() < if known.is_some() { 1 } else { 2 } {
            return Err(Full);
        }
        let index = match known {
            Some(uri) => uri.index,
            None => self.slots.insert(Content::Topic(new)).ok_or(Full)?,
        };
        let Some(topic) = self.slots.topic(index) else { return Err(Full) };
        topic.wants = topic.wants.saturating_add(1);
        // Whoever is new gets an answer of his own.
        if matches!(topic.standing, Standing::Refused(_)) {
            topic.standing = Standing::Unasked;
            topic.in_current = false;
        }
        let held = topic.standing == Standing::Held;
        let hearing = if held { Hearing::Held } else { Hearing::Pending };
        let want = Want { listener: listener.index, topic: index, hearing, due: false };
        self.slots.insert(Content::Want(want));
        if let Some(client) = self.client(listener) {
            let count = if held { &mut client.held } else { &mut client.pending };
            *count = count.saturating_add(1);
        }
        Ok(self.slots.uri(index))
    }

    /// It said all. `key`: it waits for the server as an operation; without, it is told at once what it will hear.
    pub fn begin(&mut self, listener: Listener, key: Option<Key>) {
        match key {
            Some(key) => {
                if let Some(client) = self.client(listener) {
                    client.stage = Stage::Queued(key);
                }
            }
            None => self.activate(listener.index),
        }
    }

    /// The server that the operation waited for is there. Returns whether it was a listener's.
    pub fn handle_turn(&mut self, key: Key) -> bool {
        let Some(index) = self.queued(key) else { return false };
        self.activate(index);
        true
    }

    /// The operation that a listener waited for as one failed; takes the listener back.
    pub fn handle_failure(&mut self, key: Key) -> Option<Listener> {
        let listener = self.slots.listener(self.queued(key)?);
        self.close(listener);
        Some(listener)
    }

    /// The key under which a listener waits for the server.
    #[must_use]
    pub fn key_of(&self, listener: Listener) -> Option<Key> {
        match self.slots.at(listener.index) {
            Content::Client(Client { stage: Stage::Queued(key), .. })
                if self.slots.generation(listener.index) == listener.generation =>
            {
                Some(key)
            }
            _ => None,
        }
    }

    /// The client does not listen any more. Takes the listener back.
    pub fn close(&mut self, listener: Listener) {
        let Some(client) = self.client(listener) else { return };
        let counted = matches!(client.stage, Stage::Asking | Stage::Live);
        let weight = usize::from(client.weight);
        self.weight = self.weight.saturating_sub(weight);
        for index in 0..self.slots.count() {
            let Content::Want(want) = self.slots.at(index) else { continue };
            if want.listener == listener.index {
                if want.hearing != Hearing::Refused {
                    let defers = counted && !self.is_task(want.topic);
                    self.deferring = self.deferring.saturating_sub(u32::from(defers));
                    self.unwant(want.topic);
                }
                self.slots.remove(index);
            }
        }
        self.slots.remove(listener.index);
        self.changed = true;
        self.work = true;
    }

    /// A client takes what it is told, or is slow: then it is told once what changed meanwhile.
    pub fn set_hears(&mut self, listener: Listener, hears: bool) {
        if let Some(client) = self.client(listener) {
            let eased = hears && !client.hears;
            client.hears = hears;
            self.work |= eased;
        }
    }

    fn client(&mut self, listener: Listener) -> Option<&mut Client> {
        let is_it = self.slots.generation(listener.index) == listener.generation;
        self.slots.client(listener.index).filter(|_| is_it)
    }

    fn queued(&self, key: Key) -> Option<u16> {
        self.slots.clients().find(|(_, client)| client.stage == Stage::Queued(key)).map(|(index, _)| index)
    }

    fn is_task(&self, topic: u16) -> bool {
        matches!(self.slots.at(topic), Content::Topic(Topic { is_task: true, .. }))
    }

    fn activate(&mut self, index: u16) {
        let wants = self.slots.wants().filter(|(_, want)| want.listener == index);
        let tasks = wants.filter(|(_, want)| self.is_task(want.topic)).count() as u32;
        if let Some(client) = self.slots.client(index) {
            client.stage = Stage::Asking;
            self.deferring += (u32::from(client.pending) + u32::from(client.held)).saturating_sub(tasks);
            if client.pending > 0 {
                // Whoever is new is not made to wait for what went wrong before.
                self.pause = None;
            }
            self.changed = true;
            self.work = true;
        }
    }

    fn unwant(&mut self, topic: u16) {
        if let Some(topic) = self.slots.topic(topic) {
            topic.wants = topic.wants.saturating_sub(1);
        }
    }

    // What is to be done.

    /// Everybody is to be told that it is over: the server is let go for good.
    pub const fn finish(&mut self) {
        self.over = true;
        self.work = true;
    }

    /// Whether somebody listens.
    #[must_use]
    pub fn has_listeners(&self) -> bool {
        self.slots.clients().next().is_some()
    }

    /// A request of the server's to be cancelled, before anything else is said or done.
    #[must_use]
    pub fn poll_cancelled(&mut self) -> Option<u64> {
        self.cancelled.iter_mut().find_map(Option::take)
    }

    /// The next thing to do. `can_ask`: the server takes what it is sent. `wire` makes an id for a message to it.
    #[must_use]
    pub fn poll(&mut self, now: Instant, can_ask: bool, mut wire: impl FnMut() -> u64) -> Option<Step> {
        if !self.work {
            return None;
        }
        if let Some(wire) = self.poll_cancelled() {
            return Some(Step::Cancel { wire });
        }
        while core::mem::take(&mut self.work) {
            let first = core::mem::take(&mut self.cursor);
            for index in first..self.slots.count() {
                let step = match self.slots.at(index) {
                    Content::Client(client) => self.poll_client(index, client),
                    Content::Want(want) => self.poll_want(index, want),
                    Content::Topic(topic) => self.poll_topic(now, index, topic, can_ask, &mut wire),
                    Content::Free => None,
                };
                if step.is_some() {
                    // There may be more to do for it, and then for those behind it; and in the end for all.
                    self.cursor = index;
                    self.work = true;
                    return step;
                }
            }
            if first > 0 {
                self.work = true;
                continue;
            }
            if can_ask && let Some(step) = self.poll_stream(now, &mut wire) {
                self.work = true;
                return Some(step);
            }
        }
        // What cannot be sent now is looked at again.
        self.work = self.era.is_some() && !can_ask;
        None
    }

    fn poll_client(&mut self, index: u16, client: Client) -> Option<Step> {
        let listener = self.slots.listener(index);
        let acknowledged = client.stage == Stage::Live;
        let mut end = None;
        if self.over {
            end = Some(End::Over { acknowledged });
        } else if matches!(client.stage, Stage::Asking | Stage::Live) && client.pending == 0 {
            if let Some((why, uri)) = client.refused
                && client.held == 0
                && client.lists.and(self.offers.lists.or(self.announced)).is_empty()
            {
                end = Some(End::Refused { why, uri });
            } else if !acknowledged {
                let lists = client.lists.and(self.offers.lists.or(self.announced));
                if let Some(client) = self.slots.client(index) {
                    client.stage = Stage::Live;
                    client.lists = lists;
                }
                return Some(Step::Acknowledge { listener, lists });
            }
        }
        if let Some(why) = end {
            self.close(listener);
            return Some(Step::End { listener, why });
        }
        let list = client.due.first().filter(|_| acknowledged && client.hears)?;
        if let Some(client) = self.slots.client(index) {
            client.due = client.due.without(list);
        }
        Some(Step::Changed { listener, list })
    }

    fn poll_want(&mut self, index: u16, want: Want) -> Option<Step> {
        let Content::Client(client) = self.slots.at(want.listener) else { return None };
        if !(want.due && want.hearing == Hearing::Held && client.stage == Stage::Live && client.hears) {
            return None;
        }
        if let Some(want) = self.slots.want(index) {
            want.due = false;
        }
        Some(Step::Updated { listener: self.slots.listener(want.listener), uri: self.slots.uri(want.topic) })
    }

    fn poll_topic(
        &mut self,
        now: Instant,
        index: u16,
        topic: Topic,
        can_ask: bool,
        wire: &mut impl FnMut() -> u64,
    ) -> Option<Step> {
        let uri = self.slots.uri(index);
        if topic.wants == 0
            && matches!(topic.standing, Standing::Unasked | Standing::Refused(_))
            && !topic.in_current
            && !topic.in_next
        {
            self.slots.remove(index);
            return Some(Step::Forget { uri });
        }
        if self.era != Some(Era::Legacy) || !can_ask || self.pause.is_some() || self.asked >= AT_ONCE {
            return None;
        }
        let by = now.after(self.patience);
        let on = match topic.standing {
            Standing::Unasked if topic.wants > 0 && self.is_active(index) => true,
            Standing::Held if topic.wants == 0 => false,
            _ => return None,
        };
        if on && (topic.is_task || !self.offers.subscribe) {
            self.refuse(index, Why::Unsupported);
            return None;
        }
        let wire = wire();
        if let Some(topic) = self.slots.topic(index) {
            topic.standing = if on { Standing::Asked { wire, by } } else { Standing::Leaving { wire, by } };
            self.asked += 1;
        }
        Some(Step::Subscribe { wire, uri, on })
    }

    /// Whether somebody wants it who has said all and need not wait for the server any more.
    fn is_active(&self, topic: u16) -> bool {
        // Who wanted it first is mostly right behind it.
        let (before, behind) = (0..topic, topic..self.slots.count());
        behind.chain(before).any(|index| {
            let Content::Want(want) = self.slots.at(index) else { return false };
            want.topic == topic
                && want.hearing != Hearing::Refused
                && matches!(
                    self.slots.at(want.listener),
                    Content::Client(Client { stage: Stage::Asking | Stage::Live, .. })
                )
        })
    }
}
