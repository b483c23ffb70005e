//! One held call: its questions, its rounds, and how it ends.

use heapless::Vec;

use super::MAX_QUESTIONS;
use super::exchange::{HeldKey, Output, Question, Then};
use super::question::Kind;
use super::state::{Digest, Fields};
use crate::json;
use crate::link::{self, Failure};
use crate::span::Span;
use crate::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    number: u16,
    kind: Kind,
    /// The round in which the caller was shown it; 0: not yet.
    pub(super) shown: u16,
    /// It is over; the server is to be told.
    withdrawn: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The questions of the round are with the caller.
    Asking,
    /// The answers of the round are with the server, and a caller waits.
    Waiting,
    /// The same, but the caller that waited is gone.
    Alone,
    /// The adapter keeps the answer.
    Answered,
    Failed(Failure),
    /// Only outputs are left.
    Over,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// The call at the link, until that took its key back.
    pub(super) link: Option<link::Key>,
    pub(super) fields: Fields,
    pub(super) stage: Stage,
    /// The answers of the round, once they were taken.
    pub(super) taken: Option<Digest>,
    /// Those of the round before.
    pub(super) before: Option<Digest>,
    /// It is over, and a caller was told how.
    pub(super) told: bool,
    /// Its answer counted as in flight to the end.
    pub(super) ends: bool,
    pub(super) questions: u16,
    pub(super) open: [Option<Open>; MAX_QUESTIONS],
}

impl Call {
    /// A call whose caller waits.
    pub(super) const fn new(link: link::Key, fields: Fields) -> Self {
        Self {
            link: Some(link),
            fields,
            stage: Stage::Waiting,
            taken: None,
            before: None,
            told: false,
            ends: false,
            questions: 0,
            open: [None; MAX_QUESTIONS],
        }
    }

    pub(super) fn is_asking(&self) -> bool {
        self.open.iter().flatten().any(|open| open.withdrawn.is_none())
    }

    /// Finds a place for a question.
    pub(super) fn add(&mut self, kind: Kind) -> Option<(u8, u16)> {
        // The last round that can be counted is the last that is asked.
        if self.fields.round == u16::MAX {
            return None;
        }
        let (place, slot) = self.open.iter_mut().enumerate().find(|(_, slot)| slot.is_none())?;
        let number = self.questions.checked_add(1)?;
        *slot = Some(Open { number, kind, shown: 0, withdrawn: None });
        self.questions = number;
        Some((place as u8, number))
    }

    /// Begins a round with whatever is open.
    pub(super) fn ask(&mut self, expires: Instant) {
        self.before = self.taken.take();
        self.fields.round = self.fields.round.saturating_add(1);
        self.fields.expires = expires;
        for open in self.open.iter_mut().flatten() {
            open.shown = self.fields.round;
        }
        self.stage = Stage::Asking;
    }

    /// The questions that are not withdrawn.
    pub(super) fn questions(&self, held: HeldKey) -> impl Iterator<Item = (Question, Open)> + '_ {
        (0..).zip(&self.open).filter_map(move |(place, open)| {
            let open = (*open).filter(|open| open.withdrawn.is_none())?;
            Some((Question { held, place, number: open.number, kind: open.kind }, open))
        })
    }

    /// Takes the answers to the round's questions out of `inputResponses`. What is no object answers nothing, and what
    /// answers nothing is asked again (basic/patterns/mrtr, Error Handling).
    pub(super) fn take(
        &mut self,
        held: HeldKey,
        frame: &[u8],
        responses: Span,
    ) -> Vec<(Question, Span), MAX_QUESTIONS> {
        let mut answers = Vec::new();
        let round = self.fields.round;
        for (place, slot) in (0..).zip(&mut self.open) {
            let Some(open) = slot.filter(|open| open.withdrawn.is_none() && open.shown == round) else {
                continue;
            };
            let question = Question { held, place, number: open.number, kind: open.kind };
            if let Some(answer) = json::member(frame, responses, question.name().as_str())
                && json::is_object(answer.of(frame))
                && answers.push((question, answer)).is_ok()
            {
                *slot = None;
            }
        }
        answers
    }

    /// What becomes of a retry of the round.
    pub(super) fn resume(&mut self, expires: Instant) -> Then {
        match self.stage {
            Stage::Asking if self.taken.is_none() => Then::Ask,
            Stage::Asking | Stage::Waiting | Stage::Alone => {
                let instead = self.stage == Stage::Waiting;
                match self.link {
                    // What was not answered, or came in the meantime, makes the next round.
                    Some(_) if self.is_asking() => {
                        self.ask(expires);
                        Then::Ask
                    }
                    Some(call) => {
                        self.stage = Stage::Waiting;
                        Then::Wait { call, instead }
                    }
                    None => self.nothing(),
                }
            }
            Stage::Answered => {
                self.withdraw(true);
                Then::Answer { ends: !core::mem::replace(&mut self.told, true) }
            }
            Stage::Failed(failure) => {
                self.withdraw(true);
                self.told = true;
                Then::Fail(failure)
            }
            Stage::Over => self.nothing(),
        }
    }

    /// Where no retry can get to; what is said then must be true whatever happened.
    pub(super) const fn nothing(&self) -> Then {
        Then::Fail(Failure { cause: link::Cause::Cancelled, ran: link::Ran::Unknown })
    }

    pub(super) fn withdraw(&mut self, tell: bool) {
        for open in self.open.iter_mut().flatten() {
            // Once the server is gone, there is nobody to tell of what was withdrawn before.
            open.withdrawn = Some(tell && open.withdrawn != Some(false));
        }
    }

    /// Whether it is over and only kept for a repeated retry.
    pub(super) fn is_kept(&self) -> bool {
        self.told && self.stage != Stage::Over
    }

    pub(super) fn finish(&mut self) {
        if self.stage == Stage::Over {
            return;
        }
        self.withdraw(true);
        self.ends = self.stage == Stage::Answered && !self.told;
        self.stage = Stage::Over;
    }

    /// When the call ends for want of a retry.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::Waiting | Stage::Over => None,
            _ => Some(self.fields.expires),
        }
    }

    pub(super) fn expire(&mut self, now: Instant) {
        if self.deadline().is_some_and(|at| now >= at) {
            self.finish();
        }
    }

    pub(super) fn poll(&mut self, held: HeldKey) -> Option<Output> {
        for (place, slot) in (0..).zip(&mut self.open) {
            if let Some(Open { number, kind, withdrawn: Some(tell), .. }) = *slot {
                *slot = None;
                return Some(Output::Withdraw { question: Question { held, place, number, kind }, tell });
            }
        }
        if self.stage != Stage::Over {
            return None;
        }
        match self.link.take() {
            Some(call) => Some(Output::Cancel { call }),
            None => Some(Output::Forget { held, ends: self.ends }),
        }
    }
}
