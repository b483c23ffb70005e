//! A subscription of a caller: it outlives bridges and servers, and ends with its value here.
//!
//! A connection of its own carries it, so that operations between two updates go their usual way. What is heard while
//! nobody waits is one update, however often the resource changed.

use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::PollFlags;
use serde_json::json;

use super::call::MAX_ROUNDS;
use super::error::CallError;
use super::link::{Filled, Link};
use super::message::{Incoming, cancel, parse, request as request_line};
use super::wake::{MARGIN, Present};
use super::{Request, Sessions};
use crate::home::SessionName;
use crate::input::ClientCapabilities;
use crate::record;
use crate::wait::{Wait, Woken};
use crate::wire::{Kind, MAX_MESSAGE, Ran};

/// The one request on the connection.
const ID: u64 = 1;
const METHOD: &str = "subscriptions/listen";

/// Hears of the updates of one resource.
#[derive(Debug)]
pub struct Subscription<'a> {
    sessions: &'a Sessions,
    name: SessionName,
    uri: String,
    wait: Wait<'a>,
    link: Option<Link>,
    /// The bridge that said that it goes away.
    leaving: Option<u32>,
}

/// What a subscriber hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// The resource was updated, once or more often.
    Updated,
    /// The bridge ended, and the subscription with it: [`Subscription::renew`] begins it anew.
    Lost,
}

/// What became of a line, or of the wait for one.
enum Heard {
    Acknowledged { honoured: bool },
    Updated,
    Lost,
}

impl Sessions {
    /// Subscribes to the updates of a resource, waking the session if it sleeps. Its server stays awake until the value
    /// is dropped.
    ///
    /// # Errors
    /// See [`CallError`]; if the server announces no updates of that resource, the error says so.
    pub fn subscribe<'a>(
        &'a self,
        name: &SessionName,
        wait: Wait<'a>,
        uri: &str,
    ) -> Result<Subscription<'a>, CallError> {
        let mut subscription = Subscription {
            sessions: self,
            name: name.clone(),
            uri: uri.to_owned(),
            wait,
            link: None,
            leaving: None,
        };
        subscription.renew()?;
        Ok(subscription)
    }
}

impl Subscription<'_> {
    /// Begins the subscription anew, with a bridge that wakes if there is none. What changed meanwhile was not heard.
    ///
    /// # Errors
    /// As at its first beginning.
    pub fn renew(&mut self) -> Result<(), CallError> {
        let params = json!({"notifications": {"resourceSubscriptions": [self.uri]}}).to_string();
        let request = Request { method: METHOD, params: &params, timeout: None, progress: None };
        let line = request_line(ID, &request, ClientCapabilities::default(), None)?;
        for _ in 0..MAX_ROUNDS {
            let present = self.leaving.take().map_or(Present::Use, Present::UseOther);
            let mut link = self.sessions.reach(&self.name, self.wait, present, &line)?;
            self.leaving = Some(link.bridge());
            let limit = Instant::now() + self.longest_start();
            let mut unsent = line.get(link.take_ahead()..).unwrap_or_default();
            loop {
                let sent = link.send(unsent);
                unsent = sent.ok().and_then(|n| unsent.get(n..)).unwrap_or_default();
                match self.hear(&mut link)? {
                    Some(Heard::Acknowledged { honoured: true }) => {
                        self.link = Some(link);
                        self.leaving = None;
                        return Ok(());
                    }
                    Some(Heard::Acknowledged { honoured: false }) => {
                        let what = format!("the server announces no updates of {}", self.uri);
                        return Err(CallError::NotAnnounced { what });
                    }
                    // It only listens: the next bridge may be asked as well.
                    Some(Heard::Lost) => break,
                    Some(Heard::Updated) => {}
                    None => {
                        let interest =
                            if unsent.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
                        self.pause(&link, interest, Some(limit))?;
                    }
                }
            }
        }
        Err(CallError::BridgeFailed {
            name: self.name.clone(),
            what: format!("{MAX_ROUNDS} in a row went away before they took the subscription"),
            log: self.sessions.home().log_file(&self.name),
        })
    }

    /// Waits for the next update, or for the end of the bridge.
    ///
    /// # Errors
    /// If the user interrupts, or the server has the resource no more.
    pub fn news(&mut self) -> Result<News, CallError> {
        loop {
            if let Some(news) = self.poll()? {
                return Ok(news);
            }
            if let Some(link) = &self.link {
                self.pause(link, PollFlags::IN, None)?;
            }
        }
    }

    /// What was heard by now, if anything.
    ///
    /// # Errors
    /// If the server has the resource no more.
    pub fn poll(&mut self) -> Result<Option<News>, CallError> {
        let Some(mut link) = self.link.take() else { return Ok(Some(News::Lost)) };
        let mut updated = None;
        loop {
            match self.hear(&mut link)? {
                Some(Heard::Updated) => updated = Some(News::Updated),
                Some(Heard::Acknowledged { .. }) => {}
                Some(Heard::Lost) => {
                    self.leaving = Some(link.bridge());
                    return Ok(Some(News::Lost));
                }
                None => break,
            }
        }
        self.link = Some(link);
        Ok(updated)
    }

    /// The next thing that was said, without waiting for it.
    fn hear(&self, link: &mut Link) -> Result<Option<Heard>, CallError> {
        loop {
            while let Some(line) = link.next_line() {
                let heard = match parse(link.get(line)) {
                    Ok(Incoming::Acknowledged { id: ID, uris }) => {
                        Heard::Acknowledged { honoured: uris.contains(&self.uri) }
                    }
                    Ok(Incoming::Updated { id: ID }) => Heard::Updated,
                    Ok(Incoming::Result { id: ID, .. } | Incoming::Goaway(_)) => Heard::Lost,
                    Ok(Incoming::Error { id: ID, error, data }) => match data {
                        Some(data) if matches!(data.kind, Kind::ShuttingDown | Kind::ServerLost) => {
                            Heard::Lost
                        }
                        Some(data) if data.kind == Kind::Unsupported => {
                            return Err(CallError::NotAnnounced { what: error.message });
                        }
                        Some(data) => return Err(CallError::Failed { data: Box::new(data), error }),
                        None => return Err(CallError::Answer(error)),
                    },
                    Ok(_) => continue,
                    Err(e) => {
                        let what = format!("it said something that makes no sense: {e}");
                        return Err(CallError::BridgeLost { name: self.name.clone(), what });
                    }
                };
                return Ok(Some(heard));
            }
            match link.fill() {
                Filled::Some => {}
                Filled::Nothing => return Ok(None),
                Filled::End => return Ok(Some(Heard::Lost)),
                Filled::TooLong => return Err(CallError::TooLarge { limit: MAX_MESSAGE }),
            }
        }
    }

    fn pause(&self, link: &Link, interest: PollFlags, limit: Option<Instant>) -> Result<(), CallError> {
        let wait = limit.map_or(self.wait, |limit| self.wait.no_later_than(limit));
        let lost = |what: String| CallError::BridgeLost { name: self.name.clone(), what };
        match wait.poll(&[(link.as_fd(), interest)]) {
            Ok(Woken::Ready) => Ok(()),
            Ok(Woken::Interrupted) => Err(CallError::Interrupted { ran: Ran::No }),
            Ok(Woken::Deadline) if self.wait.is_over() => {
                let during = format!("subscribing to {} of {}", self.uri, self.name);
                Err(CallError::Deadline { during, ran: Ran::No })
            }
            Ok(Woken::Deadline) => Err(lost("it does not answer".to_owned())),
            Err(e) => Err(lost(e.to_string())),
        }
    }

    /// How long a living bridge may take to start a server and have its answer.
    fn longest_start(&self) -> std::time::Duration {
        let settings = match record::read_session(self.sessions.home(), &self.name) {
            Ok(Some(record)) => record.settings,
            _ => record::Settings::default(),
        };
        settings.max_timeout() + settings.connect_timeout() + settings.stop_limit() + MARGIN
    }
}

impl Drop for Subscription<'_> {
    /// Unsubscribes. If the bridge cannot be told without waiting, the end of the connection says the same.
    fn drop(&mut self) {
        if let Some(link) = &mut self.link {
            let _ = link.send(&cancel(ID, "unsubscribed"));
        }
    }
}
