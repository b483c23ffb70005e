//! What the adapter reports of the server: what became of what it was told to do, what the server wrote, and its end.

use super::{Config, Http, Ignored, Outcome, Server, StartError, counting, question_of};
use crate::envelope::{self, Message};
use crate::era::Era;
use crate::http::exchange::{Carried, Verdict};
use crate::json;
use crate::lifecycle::{Exit, Unavailable};
use crate::link::{Cause, Key, OWN_INDEX, Ran, Slot};
use crate::logging;
use crate::method::Method;
use crate::negotiate::{Heard, Negotiation, NegotiationError};
use crate::relay;
use crate::snapshot;
use crate::span::Span;
use crate::splice::RequestParts;
use crate::time::Instant;

impl<S, R> Server<S, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    R: AsRef<[relay::Slot]> + AsMut<[relay::Slot]>,
{
    /// The record was written.
    pub fn handle_persisted(&mut self, now: Instant) {
        self.now = now;
        self.lifecycle.handle_persisted(now);
    }

    /// The record could not be written.
    pub fn handle_persist_failed(&mut self, now: Instant) {
        self.now = now;
        if self.lifecycle.handle_persist_failed(now) {
            self.start_error = Some(StartError::NotPersisted);
            self.link.fail_queued(Cause::NotPersisted);
        }
    }

    /// The process runs.
    pub fn handle_spawned(&mut self, now: Instant) {
        self.now = now;
        if self.lifecycle.is_negotiating() && self.negotiation.is_none() {
            let Config { pin, limits, .. } = self.config;
            self.start_error = None;
            self.writable = true;
            let straight = self.lifecycle.is_straight();
            self.http = Http::default();
            let likely = self.remembered.or(self.wanted_by);
            let mut negotiation = Negotiation::new(now, pin, likely, straight, limits);
            if self.is_http() {
                negotiation = negotiation.over_http();
            }
            if let Some(at) = self.connect_by.filter(|_| straight) {
                negotiation = negotiation.no_later_than(at);
            }
            self.connect_by = Some(negotiation.connect_by());
            self.negotiation = Some(negotiation);
        }
    }

    /// The process could not be started.
    pub fn handle_spawn_failed(&mut self, now: Instant) {
        self.now = now;
        self.negotiation = None;
        self.gone_by = None;
        self.start_error = Some(StartError::NotSpawned);
        self.link.fail_queued(Cause::StartFailed);
        self.lifecycle.handle_spawn_failed(now);
    }

    /// The server's input is full, or takes more again. What it does not take stays queued, and so never ran.
    pub const fn set_writable(&mut self, writable: bool) {
        self.writable = writable;
    }

    /// The kernel took the first byte of a request.
    pub fn handle_sent(&mut self, key: Key) {
        self.link.handle_sent(key);
    }

    /// The server wrote a line.
    pub fn handle_frame(&mut self, now: Instant, frame: &[u8]) -> Outcome {
        self.now = now;
        if self.negotiation.is_none() && !self.lifecycle.is_ready() {
            // Answers that were on their way when the stop began still count.
            if !self.lifecycle.is_stopping() {
                return Outcome::Ignored(Ignored::Stale);
            }
        }
        let message = match envelope::read(frame) {
            Ok(message) => message,
            Err(error) => {
                if let (Some(id), true) = (error.id, error.is_response)
                    && let Some(wire) = json::as_u64(id.of(frame))
                {
                    self.handle_bad_answer(wire, Cause::InvalidAnswer);
                }
                return Outcome::Ignored(Ignored::Malformed(error));
            }
        };
        self.heard();
        match message {
            Message::Response { id, .. } | Message::Error { id: Some(id), .. } => {
                self.handle_answer(frame, id, message)
            }
            Message::Error { id: None, .. } => Outcome::Ignored(Ignored::Unasked),
            Message::Request { id, method, params, meta, known } => {
                if self.revision.is_some_and(|revision| revision.era() == Era::Modern) {
                    Outcome::Ignored(Ignored::Forbidden)
                } else if Method::from_json(method.of(frame)) == Method::Ping {
                    Outcome::Pong { id }
                } else {
                    Outcome::Asked(RequestParts { id, method, params, meta, known })
                }
            }
            Message::Notification { method, params, .. } => {
                if json::str_eq(method.of(frame), "notifications/progress")
                    && let Some(token) =
                        params.and_then(|params| json::member(frame, params, "progressToken"))
                    && let Some(wire) = json::as_u64(token.of(frame))
                    && let Some(key) = self.link.handle_progress(now, wire)
                {
                    return Outcome::Progress { key, token };
                }
                self.handle_announcement(frame, method, params).unwrap_or(Outcome::Notification { method })
            }
            Message::Batch { items } => Outcome::Batch(items),
        }
    }

    /// The server wrote a line beyond the limit; `id` is its raw id, if one was found.
    pub fn handle_oversize(&mut self, now: Instant, id: Option<&[u8]>, is_response: bool) {
        self.now = now;
        self.heard();
        if let Some(wire) = id.filter(|_| is_response).and_then(json::as_u64) {
            self.handle_bad_answer(wire, Cause::TooLarge);
        }
    }

    /// The server closed its output, or its input is broken.
    pub fn handle_lost(&mut self, now: Instant) {
        self.now = now;
        self.lose();
        self.lifecycle.handle_lost(now);
        self.settle();
    }

    /// The server's process ended; others of its tree may live on.
    pub fn handle_exited(&mut self, now: Instant, exit: Exit) {
        self.now = now;
        self.lose();
        self.lifecycle.handle_exited(now, exit);
        self.settle();
    }

    /// No process of the server's tree is left.
    pub fn handle_tree_gone(&mut self, now: Instant) {
        self.now = now;
        self.gone_by = None;
        self.lose();
        self.settle();
        if !self.lifecycle.is_stopping() {
            // It went without a word.
            self.lifecycle.handle_lost(now);
        }
        let waiting = self.link.has_queued();
        self.lifecycle.handle_tree_gone(now, waiting);
        if self.link.has_queued()
            && let Some(why) = self.lifecycle.unavailable(now)
        {
            self.link.fail_queued(match why {
                Unavailable::BackingOff(_) => Cause::BackingOff,
                Unavailable::ShuttingDown => Cause::ShuttingDown,
                Unavailable::Unauthorized => Cause::Unauthorized,
                Unavailable::Expired => Cause::Expired,
                Unavailable::Unkillable => Cause::Unkillable,
            });
        }
    }

    /// The server said that the session is gone.
    pub fn handle_expired(&mut self, now: Instant) {
        self.now = now;
        self.lose();
        self.lifecycle.handle_expired();
        self.settle();
    }

    /// The server refused the credentials, which proves that nothing ran.
    pub fn handle_unauthorized(&mut self, now: Instant) {
        self.now = now;
        self.refuse_queued();
        self.lose();
        self.negotiation = None;
        self.lifecycle.handle_unauthorized();
    }

    /// Over HTTP: the answer to `initialize` came with a session. To be told before that answer.
    pub const fn handle_session(&mut self, now: Instant) {
        self.now = now;
        self.http.session = true;
    }

    /// Over HTTP: the stream of the transport of 2024-11-05 named the endpoint to post to.
    pub fn handle_endpoint(&mut self, now: Instant) {
        self.now = now;
        if let Some(negotiation) = &mut self.negotiation {
            self.http.old = true;
            negotiation.handle_endpoint();
        }
    }

    /// Over HTTP: what came of an exchange. `wire` is the id of the request that it carried, if it did.
    ///
    /// A session that is gone and credentials that are refused end the generation; other exchanges that are under way
    /// have verdicts of their own, so they are waited for.
    pub fn handle_verdict(&mut self, now: Instant, carried: Carried, wire: u64, verdict: Verdict) {
        self.now = now;
        let wire = match carried {
            Carried::Question(_) | Carried::Request(_) => wire,
            _ => u64::from(OWN_INDEX),
        };
        if self.is_gathered_quietly(carried, wire, verdict) {
            return self.settle();
        }
        match verdict {
            Verdict::Done => {
                self.heard();
                if carried == Carried::Message
                    && let Some(negotiation) = &mut self.negotiation
                {
                    negotiation.handle_confirmed();
                }
            }
            // Whatever was asked would have been answered there.
            Verdict::Expired { .. } if carried == Carried::OldStream => self.handle_expired(now),
            Verdict::Expired { ran } => {
                if carried == Carried::Message
                    && let Some(negotiation) = &mut self.negotiation
                {
                    // What is sent next finds it gone as well, and is sent back.
                    negotiation.handle_confirmed();
                }
                match ran {
                    Ran::No => self.link.handle_sent_back(wire),
                    Ran::Unknown => self.link.handle_refused(wire, Cause::Expired, ran),
                }
                self.lifecycle.handle_expired();
            }
            Verdict::Unauthorized => {
                self.link.handle_refused(wire, Cause::Unauthorized, Ran::No);
                self.refuse_queued();
                self.negotiation = None;
                self.lifecycle.handle_unauthorized();
            }
            Verdict::Unreachable => {
                self.link.handle_refused(wire, Cause::Unreachable, Ran::No);
                if let Some(negotiation) = &mut self.negotiation {
                    negotiation.handle_unreachable(NegotiationError::Unreachable);
                }
                self.lifecycle.handle_silent();
            }
            Verdict::Broken => {
                self.link.handle_broken(wire);
                if let Some(negotiation) = &mut self.negotiation {
                    match carried {
                        Carried::Question(question) => negotiation.handle_broken(now, question, wire),
                        Carried::OldStream => negotiation.handle_no_endpoint(now),
                        _ => {}
                    }
                }
            }
            Verdict::Refused { status, ran } => {
                self.heard();
                self.link.handle_refused(wire, Cause::Refused, ran);
                if let Some(negotiation) = &mut self.negotiation {
                    match carried {
                        Carried::Question(question) => {
                            negotiation.handle_status(now, question, wire, status);
                        }
                        Carried::OldStream => negotiation.handle_no_endpoint(now),
                        _ => {}
                    }
                }
            }
            Verdict::Invalid => self.handle_bad_answer(wire, Cause::InvalidAnswer),
            Verdict::NoStream => {
                if let (Some(negotiation), Carried::OldStream) = (&mut self.negotiation, carried) {
                    negotiation.handle_no_endpoint(now);
                }
            }
        }
        if verdict != Verdict::Done {
            self.relay.handle_broken(now, wire);
        }
        self.settle();
    }

    fn handle_answer(&mut self, frame: &[u8], id: Span, message: Message) -> Outcome {
        let Some(wire) = json::as_u64(id.of(frame)) else { return Outcome::Ignored(Ignored::Unasked) };
        if wire & 0xffff == u64::from(OWN_INDEX) {
            return self.handle_own_answer(frame, wire, &message);
        }
        // In this order: a key that was taken back has to be given out.
        let answered = self.revision.and_then(|revision| Some((revision, self.link.handle_answer(wire)?)));
        let Some((revision, (key, method))) = answered else { return Outcome::Ignored(Ignored::Unasked) };
        self.lifecycle.end(self.now, true);
        self.count(counting::of_answer(method, &message));
        Outcome::Deliver { key, method, message, revision }
    }

    fn handle_own_answer(&mut self, frame: &[u8], wire: u64, message: &Message) -> Outcome {
        let Some(negotiation) = &mut self.negotiation else {
            if self.gathering.awaits(wire) {
                let page = self.gathering.handle_answer(self.now, wire, frame, message);
                return page.map_or(Outcome::Ignored(Ignored::Internal), Outcome::Listed);
            }
            return self.handle_relayed(frame, wire, message);
        };
        let heard = negotiation.handle_answer(self.now, question_of(wire), frame, message);
        if let Heard::Handshake(span) = heard {
            self.gathering.handle_offers(snapshot::Listings::offered(frame, span));
            self.logs = logging::is_declared(frame, span);
        }
        self.settle();
        match heard {
            Heard::Handshake(span) => {
                self.relay.handle_offers(relay::Offers::read(frame, span));
                Outcome::Handshake(span)
            }
            Heard::Consumed | Heard::Other => Outcome::Ignored(Ignored::Internal),
        }
    }

    fn handle_bad_answer(&mut self, wire: u64, cause: Cause) {
        if wire & 0xffff != u64::from(OWN_INDEX) {
            self.link.handle_bad_answer(wire, cause);
        } else if let Some(negotiation) = &mut self.negotiation {
            negotiation.handle_invalid_answer(self.now, question_of(wire), wire);
            self.settle();
        } else {
            self.gathering.handle_failed(self.now, wire);
            self.relay.handle_broken(self.now, wire);
        }
    }

    fn heard(&mut self) {
        if self.lifecycle.is_ready() {
            // Whatever was asked, the server lives; the answer to a question that is still open is not waited for.
            self.keepalive.heard(self.now);
            self.lifecycle.handle_heard();
        }
    }

    /// The credentials are refused: what was not sent fails. During a stop it waits for the next server, which has a
    /// word of its own to say about them.
    fn refuse_queued(&mut self) {
        if !self.lifecycle.is_stopping() {
            self.link.fail_queued(Cause::Unauthorized);
        }
    }

    fn lose(&mut self) {
        self.link.handle_lost();
        self.relay.handle_lost();
        self.gathering.handle_lost();
        self.revision = None;
        if let Some(negotiation) = &mut self.negotiation {
            negotiation.handle_end();
        }
    }
}
