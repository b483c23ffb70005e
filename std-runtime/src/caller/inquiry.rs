//! Asking many bridges how they are, all at once and for a bounded time.
//!
//! Owns the open questions. Each goes out with the hello, so that an answer takes one round; nobody waits for one bridge
//! longer than for all.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::link::{self, Filled, Greeting, Unanswered};
use super::message::{self, Incoming};
use super::{Listed, Request, Sessions};
use crate::input::ClientCapabilities;
use crate::wait::{Wait, Woken};
use crate::wire::{METHOD_STATUS, Status};

/// How many questions are open at a time: each takes a descriptor.
const OPEN: usize = 200;
const ID: u64 = 1;

pub(super) struct Inquiry<'s> {
    sessions: &'s Sessions,
    /// The hello and the question.
    lines: Vec<u8>,
    /// Whom it is about, by place in the list.
    open: VecDeque<(usize, Unanswered)>,
    /// How long may be waited altogether, and until when that is, once there was something to wait for.
    patience: Duration,
    until: Option<Instant>,
}

impl<'s> Inquiry<'s> {
    pub(super) fn new(sessions: &'s Sessions, patience: Duration) -> Self {
        Self { sessions, lines: Vec::new(), open: VecDeque::new(), patience, until: None }
    }

    /// Adds a session to the list, and asks its bridge, if it is awake.
    pub(super) fn ask(&mut self, all: &mut Vec<Listed>, listed: Listed) {
        if listed.state.is_awake() && listed.bridge_pid.is_some() {
            if self.open.len() >= OPEN {
                self.hear_one(all);
            }
            let asked = self.sessions.home().socket(&listed.name).ok();
            if let Some(asked) = asked.and_then(|address| link::begin(&address, self.lines())) {
                self.open.push_back((all.len(), asked));
            }
        }
        all.push(listed);
    }

    /// Waits for what is not answered yet.
    pub(super) fn finish(mut self, all: &mut [Listed]) {
        while !self.open.is_empty() {
            self.hear_one(all);
        }
    }

    fn hear_one(&mut self, all: &mut [Listed]) {
        let Some((place, asked)) = self.open.pop_front() else { return };
        let until = *self.until.get_or_insert_with(|| Instant::now() + self.patience);
        let wait = Wait { deadline: Some(until), interrupt: None };
        let status = hear(asked, wait);
        if let Some(listed) = all.get_mut(place) {
            // It went on since its record was read: then neither says how long it has been so.
            listed.status = status.filter(|status| status.state == listed.state.name());
        }
    }

    fn lines(&mut self) -> &[u8] {
        if self.lines.is_empty() {
            let request = Request { method: METHOD_STATUS, params: "", timeout: None, progress: None };
            let question = message::request(ID, &request, ClientCapabilities::default(), None);
            if let (Ok(mut lines), Ok(question)) = (self.sessions.hello(), question) {
                lines.extend_from_slice(&question);
                self.lines = lines;
            }
        }
        &self.lines
    }
}

/// The answer of one bridge, if it comes in time.
fn hear(mut asked: Unanswered, wait: Wait<'_>) -> Option<Status> {
    let mut link = loop {
        asked = match asked.advance() {
            Greeting::Welcome(link) => break link,
            Greeting::Silent(asked) => asked,
            Greeting::Refused(_) | Greeting::Absent => return None,
        };
        if !matches!(wait.poll(&[(asked.as_fd(), PollFlags::IN)]), Ok(Woken::Ready)) {
            return None;
        }
    };
    loop {
        while let Some(line) = link.next_line() {
            let line = link.get(line);
            match message::parse(line) {
                Ok(Incoming::Result { id: ID, result }) => {
                    return serde_json::from_slice(line.get(result)?).ok();
                }
                Ok(Incoming::Error { .. } | Incoming::Goaway(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
        match link.fill() {
            Filled::Some => {}
            Filled::Nothing => {
                if !matches!(wait.poll(&[(link.as_fd(), PollFlags::IN)]), Ok(Woken::Ready)) {
                    return None;
                }
            }
            Filled::End | Filled::TooLong => return None,
        }
    }
}
