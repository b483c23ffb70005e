//! What happens to the session, for its life: which changes of state are worth a line, with what was counted.

use drowse_core::tally::{Counts, Histogram};

use super::*;
use crate::bridge::backend::Moment;
use crate::wire;

/// What was not written down yet.
#[derive(Default)]
pub(super) struct Chronicle {
    /// The state and generation of the last line.
    written: Option<(PublicState, u64)>,
    /// A crash that may turn out to be none, once it is known how the server ended.
    held: Option<Moment>,
}

impl Inner {
    /// The record has changed.
    pub(super) fn chronicle(&mut self, now: Instant, record: Record) {
        let Record { state, generation, ended } = record;
        if self.chronicle.held.as_ref().is_some_and(|held| held.state != state) {
            match state {
                // It only beat the timer to the same end.
                PublicState::Idle => self.chronicle.held = None,
                _ => self.write_held(),
            }
        }
        let why = self.why(now, state);
        if self.chronicle.written == Some((state, generation)) {
            if ended && !state.is_awake() {
                self.write_leftover();
            }
            return;
        }
        let lets_go = state == PublicState::Idle && !ended && self.failure.is_none();
        let control = self.running.as_ref().filter(|_| lets_go).map(|running| Rc::clone(&running.control));
        let mut moment = Moment::new(state, generation);
        moment.memory = control.and_then(|control| control.memory());
        moment.why = why;
        if state == PublicState::Crashed && !ended {
            if let Some(held) = &mut self.chronicle.held {
                held.why = moment.why.or(held.why.take());
            } else {
                moment.at_ms = Some(crate::record::now_ms());
                self.chronicle.held = Some(moment);
            }
            return;
        }
        if let Some(held) = self.chronicle.held.take() {
            moment.at_ms = held.at_ms;
        }
        self.write_moment(moment);
    }

    /// Why it crashed may be known only now.
    pub(super) fn explain_crash(&mut self) {
        if let Some(held) = self.chronicle.held.as_mut().filter(|held| held.why.is_none()) {
            held.why.clone_from(&self.failure);
        }
    }

    /// Nothing more will happen.
    pub(super) fn end_chronicle(&mut self) {
        self.explain_crash();
        self.write_held();
        self.write_leftover();
    }

    fn write_held(&mut self) {
        if let Some(held) = self.chronicle.held.take() {
            self.write_moment(held);
        }
    }

    /// What ended after the line that it belongs to was written.
    fn write_leftover(&mut self) {
        if let Some((state, generation)) = self.chronicle.written
            && !self.server.tally().is_empty()
        {
            self.write_moment(Moment::new(state, generation));
        }
    }

    fn write_moment(&mut self, mut moment: Moment) {
        let counts = !moment.state.is_awake();
        if counts {
            moment.counts = *self.server.tally().counts();
            moment.latency = *self.server.tally().latency();
        }
        self.chronicle.written = Some((moment.state, moment.generation));
        // A full disk costs the line; what was counted goes into the next one.
        if self.host.lived(&moment).is_ok() && counts {
            self.server.tally_mut().take();
        }
    }

    fn why(&self, now: Instant, state: PublicState) -> Option<String> {
        let text = match state {
            PublicState::Idle => {
                let lifecycle = self.server.lifecycle();
                let idle = lifecycle.config().idle.filter(|idle| now.since(lifecycle.quiet_since()) >= *idle);
                match (idle, &self.failure) {
                    (_, Some(failure)) => failure.clone(),
                    (Some(idle), None) => format!("not used for {} s", idle.as_secs_f64()),
                    (None, None) => "the server ended the session, and was not needed".to_owned(),
                }
            }
            PublicState::Crashed | PublicState::Unauthorized => return self.failure.clone(),
            PublicState::Expired => "the server ended the session".to_owned(),
            PublicState::Disconnected => "the server does not answer".to_owned(),
            PublicState::Reconnecting => "started again in the background".to_owned(),
            PublicState::Closed => "told to end".to_owned(),
            _ => return None,
        };
        Some(text)
    }

    /// What was counted in the awake period that lasts.
    pub(super) fn tally(&self) -> wire::Tally {
        let tally = self.server.tally();
        let (counts, latency): (&Counts, &Histogram) = (tally.counts(), tally.latency());
        let millis = |latency: Option<Duration>| latency.map(|latency| latency.as_secs_f64() * 1e3);
        wire::Tally {
            since: tally.awake_since().map(Instant::as_millis),
            calls: counts.calls,
            errors: counts.into(),
            wakes: tally.wakes(),
            sleeps: tally.sleeps(),
            p50_ms: millis(latency.quantile(500)),
            p95_ms: millis(latency.quantile(950)),
            max_ms: millis(latency.longest()),
            latency: latency.into(),
        }
    }
}
