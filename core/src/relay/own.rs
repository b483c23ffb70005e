//! What drowse itself wants to hear: that lists changed whose contents it keeps.
//!
//! It is one more want in the union, and the least of them: nobody is told, it keeps nothing awake, and whatever goes
//! wrong with a stream that carries it is first put right at its cost. It holds for one generation, and only modern
//! servers have to be asked for it.

use super::*;

/// How long an answer is waited for that is missing because of drowse, perhaps, while somebody else waits for it too.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether it is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Want {
    /// No, or no more: the server refused it.
    No,
    /// On what is opened for others.
    Riding,
    /// Also if nobody else listens.
    Alone,
}

/// What was refused with it is tried without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trial {
    No,
    /// And is accepted, as it seems: the fault was in it.
    Without,
    /// And was refused all the same: the fault was not in it.
    Cleared,
}

/// What to do about a stream that did not come to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Remedy {
    /// The server may have room for one: that which is open serves nobody else, and makes way.
    MakeWay,
    /// It is tried without.
    Without,
    /// It was for nobody else.
    Drop,
}

/// What drowse wants, and how it fares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    want: Want,
    trial: Trial,
    /// Lists that were heard of, and then not for a while.
    missed: Lists,
    /// Those that are heard of again.
    regained: Lists,
}

impl Own {
    pub(super) const NONE: Self =
        Self { want: Want::No, trial: Trial::No, missed: Lists::NONE, regained: Lists::NONE };

    /// The lists that belong to the union, if others listen and if not.
    pub(super) const fn lists(&self, others: bool) -> Lists {
        match (self.want, self.trial) {
            (Want::Alone, Trial::No) => Lists::ALL,
            (Want::Riding, Trial::No) if others => Lists::ALL,
            _ => Lists::NONE,
        }
    }

    /// The server has all that is to be asked for. Whether there is more now.
    pub(super) const fn settle(&mut self) -> bool {
        match self.trial {
            Trial::No => return false,
            Trial::Without => *self = Self::NONE,
            Trial::Cleared => self.trial = Trial::No,
        }
        true
    }

    /// Whether [`settle`](Self::settle) has something to find out.
    pub(super) const fn is_tried(&self) -> bool {
        !matches!(self.trial, Trial::No)
    }

    const fn miss(&mut self, lists: Lists) {
        self.missed = self.missed.or(lists);
    }
}

impl<R: AsRef<[Slot]> + AsMut<[Slot]>> Relay<R> {
    /// From now on, and as long as the server runs, drowse wants to hear of changed lists itself: if others listen, or
    /// (`alone`) also if nobody does. Nobody is told, and the server is not kept awake for it. A legacy server says it
    /// unasked.
    pub fn want_lists(&mut self, alone: bool) {
        if self.era != Some(Era::Modern) {
            return;
        }
        match self.own.want {
            Want::No if !alone => self.own.want = Want::Riding,
            Want::Riding if alone => {
                self.own.want = Want::Alone;
                self.changed = true;
                self.work = true;
            }
            _ => {}
        }
    }

    /// Lists that drowse did not hear of for a while, and does again: they may have changed.
    #[must_use]
    pub const fn take_regained(&mut self) -> Lists {
        core::mem::replace(&mut self.own.regained, Lists::NONE)
    }

    /// The lists that others want to hear of.
    pub(super) fn lists_of_others(&self) -> Lists {
        if self.slots.used() == 0 {
            return Lists::NONE;
        }
        let active =
            self.slots.clients().filter(|(_, client)| matches!(client.stage, Stage::Asking | Stage::Live));
        active.fold(Lists::NONE, |all, (_, client)| all.or(client.lists))
    }

    /// Whether others hear of something by that stream; `named`: it names that URI.
    fn serves_others(&self, stream: Stream, named: impl Fn(&Topic) -> bool) -> bool {
        if self.slots.used() == 0 {
            return false;
        }
        let is_served =
            |(index, topic): (u16, Topic)| topic.wants > 0 && named(&topic) && self.is_active(index);
        !self.lists_of_others().and(stream.lists).is_empty() || self.slots.topics().any(is_served)
    }

    /// The lists of a stream that nobody else wants to hear of.
    fn only_own(&self, stream: Stream) -> Lists {
        stream.lists.less(self.lists_of_others())
    }

    /// A stream that only drowse wants keeps nobody waiting: it is to be cancelled if others want more.
    pub(super) fn supersede(&mut self) -> Option<u64> {
        let next = self.next.filter(|_| self.own.want == Want::Alone && self.pause.is_none())?;
        if self.serves_others(next, |topic| topic.in_next) {
            return None;
        }
        let wants_more = |(index, topic): (u16, Topic)| {
            topic.wants > 0 && !matches!(topic.standing, Standing::Refused(_)) && self.is_active(index)
        };
        let lists = self.lists_of_others().and(self.offers.lists).less(next.lists);
        if lists.is_empty() && !self.slots.topics().any(wants_more) {
            return None;
        }
        self.own.miss(next.lists);
        self.next = None;
        self.forget_next();
        Some(next.wire)
    }

    fn remedy(&self, next: Stream) -> Option<Remedy> {
        let alone = self.own.want == Want::Alone;
        if self.own.want == Want::No {
            return None;
        }
        if alone
            && let Some(current) = self.current
            && !self.serves_others(current, |topic| topic.in_current)
        {
            return Some(Remedy::MakeWay);
        }
        if alone && !self.serves_others(next, |topic| topic.in_next) {
            return Some(Remedy::Drop);
        }
        let known = self.current.map_or(Lists::NONE, |current| current.lists);
        let is_new = !self.only_own(next).less(known).is_empty();
        (is_new && self.own.trial == Trial::No).then_some(Remedy::Without)
    }

    /// When the stream that is being opened is waited for no longer. One that only drowse wants is waited for without
    /// a timer.
    pub(super) fn open_by(&self, next: Stream) -> Option<Instant> {
        match self.remedy(next) {
            Some(Remedy::Drop) if self.current.is_none() => None,
            Some(_) => Some(next.since.after(PATIENCE.min(self.patience))),
            None => Some(next.since.after(self.patience)),
        }
    }

    /// A stream did not come to be. Whether that is put right at drowse's cost, and nobody else need hear of it.
    /// `never`: the server has no streams.
    pub(super) fn is_own_fault(&mut self, next: Stream, never: bool) -> bool {
        let mut remedy = self.remedy(next);
        if never && self.own.want != Want::No {
            remedy = remedy.filter(|remedy| *remedy == Remedy::Drop);
            self.own = Own::NONE;
            self.changed = true;
        }
        match remedy {
            Some(Remedy::MakeWay) => {
                if let Some(current) = self.current.take() {
                    self.own.miss(current.lists);
                    self.cancel(current.wire);
                }
                self.forget_current();
            }
            Some(Remedy::Without) => self.own.trial = Trial::Without,
            Some(Remedy::Drop) => self.own = Own::NONE,
            None => {
                if self.own.is_tried() {
                    self.own.trial = Trial::Cleared;
                }
                return false;
            }
        }
        self.forget_next();
        self.changed = true;
        self.work = true;
        true
    }

    /// A stream that was open has ended; `named` are still those that it served. Whether nobody else need hear of it.
    pub(super) fn is_own_end(&mut self, stream: Stream, lasted: bool) -> bool {
        if self.own.want == Want::No {
            return false;
        }
        let others = self.serves_others(stream, |topic| topic.in_current);
        if self.next.is_none() && (!others || !lasted && !self.only_own(stream).is_empty()) {
            // It is no reason to ask again and again.
            self.own = Own::NONE;
        }
        if self.own.want != Want::No {
            self.own.miss(stream.lists);
        }
        !others
    }

    /// A stream is open.
    pub(super) fn regain(&mut self, lists: Lists) {
        self.own.regained = self.own.regained.or(self.own.missed.and(lists));
        self.own.missed = self.own.missed.less(lists);
    }

    fn forget_next(&mut self) {
        for index in 0..self.slots.count() {
            if let Some(topic) = self.slots.topic(index) {
                topic.in_next = false;
                topic.honoured = false;
            }
        }
    }

    /// No stream is open that names any URI.
    pub(super) fn forget_current(&mut self) {
        for index in 0..self.slots.count() {
            if let Some(topic) = self.slots.topic(index) {
                topic.in_current = false;
                if topic.standing == Standing::Held {
                    topic.standing = Standing::Unasked;
                }
            }
        }
    }
}
