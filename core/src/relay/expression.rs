//! The server's side of the relay: what it said, and what it is asked next.

use super::*;

/// The error of a server that does not know a method.
const METHOD_NOT_FOUND: i64 = -32601;

impl<R: AsRef<[Slot]> + AsMut<[Slot]>> Relay<R> {
    /// The server said what it is.
    pub const fn handle_offers(&mut self, offers: Offers) {
        self.offers = offers;
    }

    /// The server is ready: what is wanted is expressed to it.
    pub fn handle_ready(&mut self, era: Era) {
        self.era = Some(era);
        self.changed = true;
        self.work = true;
        if core::mem::replace(&mut self.again, true) {
            // Another server may have other lists.
            self.tell_lists(Lists::ALL);
        }
    }

    /// The server is still there, but is going to be ended: its stream is closed before.
    pub fn handle_leaving(&mut self) {
        let open = [
            self.older.map(|older| older.wire),
            self.current.map(|stream| stream.wire),
            self.next.map(|stream| stream.wire),
        ];
        self.handle_lost();
        for wire in open.into_iter().flatten() {
            self.cancel(wire);
        }
    }

    /// The link to the server is gone, and with it what it was asked.
    pub fn handle_lost(&mut self) {
        if self.era.take().is_none() {
            return;
        }
        self.current = None;
        self.next = None;
        self.older = None;
        self.cancelled = [None; 4];
        self.own = Own::NONE;
        self.singly = false;
        self.blame = Blame::Open;
        self.in_a_row = 0;
        self.stale = Lists::NONE;
        self.asked = 0;
        self.pause = None;
        self.fruitless = 0;
        self.again_at = None;
        self.in_vain = 0;
        self.work = true;
        for index in 0..self.slots.count() {
            if let Some(topic) = self.slots.topic(index) {
                let was_held = topic.standing == Standing::Held;
                let (wants, is_task) = (topic.wants, topic.is_task);
                *topic = Topic { wants, is_task, stale: topic.stale || was_held, ..Topic::NEW };
            }
        }
    }

    /// Whether the server owes an answer under that id.
    #[must_use]
    pub fn awaits(&self, wire: u64) -> bool {
        let is_stream = |stream: Option<Stream>| stream.is_some_and(|stream| stream.wire == wire);
        is_stream(self.current)
            || is_stream(self.next)
            || self.older.is_some_and(|older| older.wire == wire)
            || (self.asked > 0 && self.asked_as(wire).is_some())
    }

    /// The server answered; `error`: with that code.
    pub fn handle_answer(&mut self, now: Instant, wire: u64, error: Option<i64>) -> Answered {
        // "Not found" was -32002 up to 2025-11-25 and is invalid parameters since (server/resources).
        let why = if matches!(error, Some(-32602 | -32002)) { Why::Gone } else { Why::Refused };
        if self.next.is_some_and(|stream| stream.wire == wire) {
            self.work = true;
            return if let Some(code) = error {
                self.stream_refused(now, why, code == METHOD_NOT_FOUND)
            } else {
                self.handle_ended(now, wire);
                Answered::Taken
            };
        }
        if self.handle_ended(now, wire) {
            return Answered::Taken;
        }
        let Some((index, topic)) = self.asked_as(wire) else { return Answered::Unasked };
        self.work = true;
        self.asked = self.asked.saturating_sub(1);
        match (topic.standing, error) {
            (Standing::Asked { .. }, None) => self.hold(index),
            (Standing::Asked { .. }, Some(_)) => {
                self.refuse(index, why);
                self.set_aside(now, index);
                return Answered::Refused(Some(self.slots.uri(index)));
            }
            _ => self.stand(index, Standing::Unasked),
        }
        Answered::Taken
    }

    /// The server, or what is between, ended that stream. Returns whether it was one.
    pub fn handle_ended(&mut self, now: Instant, wire: u64) -> bool {
        if self.older.is_some_and(|older| older.wire == wire) {
            self.part(false);
        } else if self.current.is_some_and(|stream| stream.wire == wire) {
            let Some(stream) = self.current.take() else { return false };
            let lasted = now >= stream.since.after(LASTING);
            let quietly = self.is_own_end(stream, lasted);
            self.stale = self.stale.or(stream.lists.and(self.lists_of_others()));
            for index in 0..self.slots.count() {
                if let Some(topic) = self.slots.topic(index)
                    && core::mem::take(&mut topic.in_current)
                    && topic.standing == Standing::Held
                {
                    topic.stale = true;
                    topic.standing = Standing::Unasked;
                }
            }
            if quietly {
                self.changed = true;
            } else {
                self.retry(now, lasted);
            }
        } else if let Some(next) = self.next.take_if(|stream| stream.wire == wire) {
            if !self.is_own_fault(next, false) {
                self.silent_candidates();
                self.retry(now, false);
            }
        } else {
            return false;
        }
        self.work = true;
        true
    }

    /// The exchange that carried a question broke, or its answer is none.
    pub fn handle_broken(&mut self, now: Instant, wire: u64) {
        if self.handle_ended(now, wire) {
            return;
        }
        let Some((index, topic)) = self.asked_as(wire) else { return };
        self.asked = self.asked.saturating_sub(1);
        self.stand(index, Standing::Unasked);
        if matches!(topic.standing, Standing::Asked { .. }) {
            self.refuse_pending(index, Why::Silent);
            self.retry(now, false);
        }
        self.work = true;
    }

    /// The acknowledgement of a stream names that URI; to be told for each before
    /// [`handle_acknowledged`](Self::handle_acknowledged).
    pub fn handle_honoured(&mut self, wire: u64, uri: Uri) {
        if self.next.is_some_and(|stream| stream.wire == wire)
            && self.slots.generation(uri.index) == uri.generation
            && let Some(topic) = self.slots.topic(uri.index)
        {
            topic.honoured = topic.in_next;
        }
    }

    /// The server acknowledged a stream: the older one is closed.
    pub fn handle_acknowledged(&mut self, now: Instant, wire: u64) {
        let Some(next) = self.next.take_if(|stream| stream.wire == wire) else { return };
        self.work = true;
        self.part(true);
        if let Some(older) = self.current.take() {
            if self.overlap.is_zero() {
                // What it sent before is here, and all that it sends later is on the new one too.
                self.cancel(older.wire);
            } else {
                let until = now.after(self.overlap);
                self.older = Some(Older { wire: older.wire, until });
            }
        }
        self.in_a_row = 0;
        if self.blame == Blame::Alone {
            self.blame = Blame::Found;
        }
        let (since, lists) = (now, next.lists);
        self.current = Some(Stream { wire, lists, since });
        for index in 0..self.slots.count() {
            let Some(topic) = self.slots.topic(index) else { continue };
            topic.in_current = core::mem::take(&mut topic.in_next);
            let honoured = core::mem::take(&mut topic.honoured);
            match (topic.in_current, honoured) {
                (true, true) => self.hold(index),
                (true, false) => self.refuse(index, Why::Omitted),
                (false, _) if topic.standing == Standing::Held => {
                    topic.standing = Standing::Unasked;
                    topic.stale |= topic.wants > 0;
                }
                (false, _) => {}
            }
        }
        let stale = core::mem::take(&mut self.stale);
        self.tell_lists(stale.and(lists));
        self.regain(lists);
        self.changed |= self.singly || self.blame != Blame::Open || self.own.is_tried();
    }

    /// A resource was updated, or a task. `wire`: the stream that says so. Whether it is news.
    pub fn handle_updated(&mut self, wire: Option<u64>, uri: Uri) -> bool {
        let Some(older) = self.is_heard(wire) else { return false };
        if self.slots.generation(uri.index) != uri.generation {
            return false;
        }
        let from = self.one_of_two(older);
        let Some(topic) = self.slots.topic(uri.index) else { return false };
        if from.is_some_and(|older| is_repeated(&mut topic.ahead, older)) {
            return false;
        }
        self.tell_update(uri.index);
        true
    }

    /// A list changed. `wire`: the stream that says so.
    pub fn handle_list_changed(&mut self, wire: Option<u64>, list: List) {
        let Some(older) = self.is_heard(wire) else { return };
        if let Some(older) = self.one_of_two(older)
            && let Some(ahead) = self.ahead.get_mut(list as usize)
            && is_repeated(ahead, older)
        {
            return;
        }
        self.tell_lists(Lists::NONE.with(list));
    }

    /// Time has passed; early, late and repeated calls do no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.pause.is_some_and(|at| now >= at) {
            self.pause = None;
            self.work = true;
        }
        if self.again_at.is_some_and(|at| now >= at) {
            self.ask_again();
        }
        if self.older.is_some_and(|older| now >= older.until) {
            self.part(true);
        }
        if let Some(next) = self.next
            && self.open_by(next).is_some_and(|by| now >= by)
        {
            self.handle_ended(now, next.wire);
            self.cancel(next.wire);
        }
        if self.asked == 0 {
            return;
        }
        for index in 0..self.slots.count() {
            if let Content::Topic(Topic {
                standing: Standing::Asked { wire, by } | Standing::Leaving { wire, by },
                ..
            }) = self.slots.at(index)
                && now >= by
            {
                self.handle_broken(now, wire);
                self.cancel(wire);
            }
        }
    }

    /// Adds what is awaited.
    pub fn timetable(&self, table: &mut Timetable) {
        if let Some(at) = self.pause {
            table.set(Reason::Relisten, at);
        }
        if let Some(at) = self.again_at {
            table.set(Reason::Relisten, at);
        }
        if let Some(older) = self.older {
            table.set(Reason::Overlap, older.until);
        }
        if let Some(by) = self.next.and_then(|next| self.open_by(next)) {
            table.set(Reason::Subscribe, by);
        }
        if self.asked > 0 {
            for (_, topic) in self.slots.topics() {
                if let Standing::Asked { by, .. } | Standing::Leaving { by, .. } = topic.standing {
                    table.set(Reason::Subscribe, by);
                }
            }
        }
    }

    /// The modern stream is opened, opened anew, or closed.
    pub(super) fn poll_stream(&mut self, now: Instant, wire: impl FnOnce() -> u64) -> Option<Step> {
        if self.era != Some(Era::Modern) || !self.changed {
            return None;
        }
        if let Some(wire) = self.supersede() {
            return Some(Step::Cancel { wire });
        }
        if self.next.is_some() || self.older.is_some() || self.pause.is_some() {
            return None;
        }
        self.changed = false;
        let lists = self.lists_of_others().and(self.offers.lists);
        let (mut differs, mut any, mut first) = (false, !lists.is_empty(), true);
        let alone = self.blame == Blame::Alone && self.has_new();
        if self.blame == Blame::Alone && !alone {
            self.blame = Blame::Open;
        }
        for index in 0..self.slots.count() {
            let Content::Topic(topic) = self.slots.at(index) else { continue };
            let mut wanted = topic.wants > 0 && self.is_active(index);
            wanted &= !matches!(topic.standing, Standing::Refused(_));
            if wanted && !(if topic.is_task { self.offers.tasks } else { self.offers.subscribe }) {
                self.refuse(index, Why::Unsupported);
                wanted = false;
            }
            if wanted && topic.standing == Standing::Held {
                wanted = !alone;
            } else if wanted && (self.singly || alone) {
                wanted = core::mem::take(&mut first);
            }
            any |= wanted;
            differs |= wanted != topic.in_current;
            if let Some(topic) = self.slots.topic(index) {
                topic.in_next = wanted;
                topic.ahead = 0;
            }
        }
        self.ahead = [0; 3];
        let lists = lists.or(self.own.lists(any).and(self.offers.lists));
        any |= !lists.is_empty();
        differs |= self.current.map_or(Lists::NONE, |stream| stream.lists) != lists;
        if differs && any {
            let wire = wire();
            self.next = Some(Stream { wire, lists, since: now });
            return Some(Step::Listen { wire, lists });
        }
        for index in 0..self.slots.count() {
            if let Some(topic) = self.slots.topic(index) {
                topic.in_next = false;
            }
        }
        if !any {
            self.forget_current();
        }
        self.singly = false;
        self.blame = Blame::Open;
        self.changed = self.own.settle();
        // Somebody may have been refused, and something may be forgotten now.
        self.work = true;
        if any { None } else { self.current.take().map(|stream| Step::Cancel { wire: stream.wire }) }
    }

    /// The server will not open the stream that it was asked for. `never`: it has no such streams.
    fn stream_refused(&mut self, now: Instant, why: Why, never: bool) -> Answered {
        if let Some(next) = self.next.take()
            && self.is_own_fault(next, never)
        {
            return Answered::Taken;
        }
        let is_candidate = |topic: &Topic| topic.in_next && topic.standing != Standing::Held;
        let (one, many) = {
            let mut candidates = self.slots.topics().filter(|(_, topic)| is_candidate(topic));
            let one = candidates.next().map(|(index, _)| self.slots.uri(index));
            (one, candidates.next().is_some())
        };
        let mut beside = 0_u16;
        for (_, topic) in self.slots.topics() {
            beside += u16::from(topic.in_next && topic.standing == Standing::Held);
        }
        if one.is_none() && beside > 0 && why == Why::Gone {
            // One of those that are heard of is gone: they are asked for anew.
            return self.doubt(beside);
        }
        // One refusal must not stop the others: they are tried one after the other, and that by itself which may be
        // refused for what has been heard of so far.
        let to_be_found_out = !never && (many || one.is_some() && beside > 0 && self.blame == Blame::Open);
        for index in 0..self.slots.count() {
            let Content::Topic(topic) = self.slots.at(index) else { continue };
            if let Some(topic) = self.slots.topic(index) {
                topic.in_next = false;
            }
            if is_candidate(&topic) && !to_be_found_out {
                self.refuse(index, why);
                if !never {
                    self.set_aside(now, index);
                }
            }
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        if to_be_found_out && many {
            self.singly = true;
        } else if to_be_found_out {
            self.blame = Blame::Alone;
        } else if self.blame == Blame::Alone {
            self.blame = Blame::Open;
        }
        if one.is_some() {
            self.changed = true;
        }
        if !never && (one.is_none() || self.in_a_row.is_multiple_of(AT_ONCE)) {
            self.retry(now, false);
        }
        if to_be_found_out { Answered::Taken } else { Answered::Refused(one.filter(|_| !many)) }
    }

    /// The server refused what it announces, so that one of these is gone.
    fn doubt(&mut self, count: u16) -> Answered {
        self.changed = true;
        self.singly = true;
        let mut gone = None;
        for index in 0..self.slots.count() {
            let Some(topic) = self.slots.topic(index) else { continue };
            if core::mem::take(&mut topic.in_next) && topic.standing == Standing::Held {
                topic.standing = Standing::Unasked;
                topic.stale = true;
                gone = Some(index);
            }
        }
        match gone.filter(|_| count == 1) {
            Some(index) => {
                self.refuse(index, Why::Gone);
                Answered::Refused(Some(self.slots.uri(index)))
            }
            None => Answered::Taken,
        }
    }

    /// What was refused for another reason than that it is gone is asked for again some time later, if somebody heard
    /// of it before.
    fn set_aside(&mut self, now: Instant, index: u16) {
        let is_kept = |topic: Topic| topic.wants > 0 && topic.standing == Standing::Refused(Why::Refused);
        if let Content::Topic(topic) = self.slots.at(index)
            && is_kept(topic)
            && self.again_at.is_none()
        {
            self.again_at = Some(now.after(pause_after(self.in_vain)));
            self.in_vain = self.in_vain.saturating_add(1);
        }
    }

    fn ask_again(&mut self) {
        self.again_at = None;
        let mut any = false;
        for index in 0..self.slots.count() {
            if let Some(topic) = self.slots.topic(index)
                && topic.wants > 0
                && topic.standing == Standing::Refused(Why::Refused)
            {
                topic.standing = Standing::Unasked;
                any = true;
            }
        }
        self.changed |= any;
        self.work |= any;
    }

    /// Whether a URI is wanted that the server has not answered for.
    fn has_new(&self) -> bool {
        self.slots.topics().any(|(index, topic)| {
            topic.wants > 0
                && !matches!(topic.standing, Standing::Held | Standing::Refused(_))
                && self.is_active(index)
        })
    }

    /// Ends the older of two streams; `cancel`: it is still open.
    fn part(&mut self, cancel: bool) {
        if let Some(older) = self.older.take() {
            self.work = true;
            if cancel {
                self.cancel(older.wire);
            }
        }
    }

    pub(super) fn cancel(&mut self, wire: u64) {
        // More than a few at once only after time-outs, where it is no more than a courtesy.
        if let Some(place) = self.cancelled.iter_mut().find(|place| place.is_none()) {
            *place = Some(wire);
        }
        self.work = true;
    }

    /// Nothing is asked for a while; longer each time, unless the last stream was worth it.
    fn retry(&mut self, now: Instant, lasted: bool) {
        if lasted {
            self.fruitless = 0;
        }
        let at = now.after(pause_after(self.fruitless));
        self.fruitless = self.fruitless.saturating_add(1);
        self.pause = Some(self.pause.map_or(at, |was| was.max(at)));
        self.changed = true;
    }

    fn asked_as(&self, wire: u64) -> Option<(u16, Topic)> {
        self.slots.topics().find(|(_, topic)| match topic.standing {
            Standing::Asked { wire: asked, .. } | Standing::Leaving { wire: asked, .. } => asked == wire,
            _ => false,
        })
    }

    fn stand(&mut self, index: u16, standing: Standing) {
        if let Some(topic) = self.slots.topic(index) {
            topic.standing = standing;
        }
    }

    /// The server announces updates of it from now on.
    fn hold(&mut self, index: u16) {
        let Some(topic) = self.slots.topic(index) else { return };
        topic.standing = Standing::Held;
        // What a task came to meanwhile cannot be said without its server.
        let stale = core::mem::take(&mut topic.stale) && !topic.is_task;
        self.each_want(index, |want, client| {
            if want.hearing == Hearing::Pending {
                want.hearing = Hearing::Held;
                client.pending = client.pending.saturating_sub(1);
                client.held = client.held.saturating_add(1);
            } else {
                want.due |= stale;
            }
        });
    }

    /// The server will not announce updates of it.
    pub(super) fn refuse(&mut self, index: u16, why: Why) {
        self.stand(index, Standing::Refused(why));
        self.work = true;
        self.refuse_pending(index, why);
        if why == Why::Gone {
            self.refuse_all(index, why, Hearing::Held);
        }
    }

    fn refuse_pending(&mut self, index: u16, why: Why) {
        self.refuse_all(index, why, Hearing::Pending);
    }

    /// Those whose stream did not come to be get an answer; the others wait.
    fn silent_candidates(&mut self) {
        for index in 0..self.slots.count() {
            if let Some(topic) = self.slots.topic(index)
                && core::mem::take(&mut topic.in_next)
                && topic.standing != Standing::Held
            {
                self.refuse_pending(index, Why::Silent);
            }
        }
    }

    fn refuse_all(&mut self, index: u16, why: Why, which: Hearing) {
        let uri = self.slots.uri(index);
        let is_task = self.is_task(index);
        let (mut refused, mut counted) = (0_u16, 0_u32);
        self.each_want(index, |want, client| {
            if want.hearing != which {
                return;
            }
            want.hearing = Hearing::Refused;
            want.due = false;
            // It is left out of what a client is told, and is no error (the extension, Task Status Notifications).
            client.refused = client.refused.or(Some((why, uri)).filter(|_| !is_task));
            let count = if which == Hearing::Held { &mut client.held } else { &mut client.pending };
            *count = count.saturating_sub(1);
            refused += 1;
            counted += u32::from(!is_task && matches!(client.stage, Stage::Asking | Stage::Live));
        });
        self.deferring = self.deferring.saturating_sub(counted);
        if let Some(topic) = self.slots.topic(index) {
            topic.wants = topic.wants.saturating_sub(refused);
        }
    }

    fn each_want(&mut self, topic: u16, mut act: impl FnMut(&mut Want, &mut Client)) {
        self.work = true;
        for index in 0..self.slots.count() {
            let Content::Want(mut want) = self.slots.at(index) else { continue };
            if want.topic != topic {
                continue;
            }
            if let Some(client) = self.slots.client(want.listener) {
                act(&mut want, client);
            }
            if let Some(place) = self.slots.want(index) {
                *place = want;
            }
        }
    }

    fn tell_update(&mut self, topic: u16) {
        // The server may say so before it answers who asked for it.
        let asked =
            matches!(self.slots.at(topic), Content::Topic(Topic { standing: Standing::Asked { .. }, .. }));
        self.each_want(topic, |want, _| {
            want.due |= want.hearing == Hearing::Held || asked && want.hearing == Hearing::Pending;
        });
    }

    fn tell_lists(&mut self, lists: Lists) {
        if lists.is_empty() {
            return;
        }
        self.work = true;
        for index in 0..self.slots.count() {
            if let Some(client) = self.slots.client(index)
                && matches!(client.stage, Stage::Asking | Stage::Live)
            {
                client.due = client.due.or(lists.and(client.lists));
            }
        }
    }

    /// Whether it is the older of two streams, if there are two: from the moment that the newer one is asked for, since
    /// what it says may arrive later than its acknowledgement.
    const fn one_of_two(&self, older: bool) -> Option<bool> {
        match (&self.older, &self.next) {
            (Some(_), _) => Some(older),
            (None, Some(_)) => Some(true),
            (None, None) => None,
        }
    }

    /// Whether what that stream says is passed on, and whether it is the older of two.
    fn is_heard(&self, wire: Option<u64>) -> Option<bool> {
        match (self.era?, wire) {
            (Era::Legacy, _) => Some(false),
            // Some servers do not say it.
            (Era::Modern, None) => self.current.map(|_| false),
            (Era::Modern, Some(wire)) if self.current.is_some_and(|stream| stream.wire == wire) => {
                Some(false)
            }
            (Era::Modern, Some(wire)) => self.older.is_some_and(|older| older.wire == wire).then_some(true),
        }
    }
}

/// How long nothing is asked after so many attempts that helped nothing.
fn pause_after(attempts: u8) -> Duration {
    RETRY.saturating_mul(1 << attempts.min(6)).min(RETRY_MAX)
}

/// Whether the other of two streams said the same before. `ahead`: how many more came on the older one.
const fn is_repeated(ahead: &mut i16, older: bool) -> bool {
    let repeated = if older { *ahead < 0 } else { *ahead > 0 };
    *ahead = if older { ahead.saturating_add(1) } else { ahead.saturating_sub(1) };
    repeated
}
