//! The simulated server behind a URL, and the network that brings what it says.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use drowse_core::era::Era;
use drowse_core::http::exchange::{Content, Head};
use drowse_core::message;
use drowse_core::time::{Duration, Instant};
use serde_json::{Value, json};

use super::super::{Held, World, reply, success};
use super::{Happens, Peer, Sent, Whim};

const fn head(status: u16, content: Content) -> Head {
    Head { status, content, encoded: false, retry_after: None }
}

fn event(id: Option<&str>, data: &Value) -> Vec<u8> {
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    format!("{id}data: {data}\n\n").into_bytes()
}

/// What a stream begins with that can be taken up, after half a second.
fn primed(number: u64) -> Vec<u8> {
    format!("id: {number}-0\nretry: 500\ndata:\n\n").into_bytes()
}

impl World {
    /// The response to a request, as one message.
    fn respond(&mut self, at: Instant, number: u64, status: u16, body: &Value) {
        self.on_net(at, number, Happens::Head(head(status, Content::Json), None));
        self.on_net(at, number, Happens::Chunk(body.to_string().into_bytes()));
        self.on_net(at, number, Happens::End);
    }

    /// The response without a body.
    fn status(&mut self, number: u64, status: u16) {
        self.on_net(self.now, number, Happens::Head(head(status, Content::Unnamed), None));
        self.on_net(self.now, number, Happens::End);
    }

    fn streams(&mut self, at: Instant, number: u64) {
        self.on_net(at, number, Happens::Head(head(200, Content::Events), None));
    }

    /// The answer to a request that the server held.
    pub(in super::super) fn respond_held(&mut self, held: &Held) {
        let answer = success(&held.request);
        if self.behaviour.peer == Peer::Old {
            return self.says(&answer);
        }
        if !self.net.courses.iter().any(|course| course.number == held.course) {
            return;
        }
        self.on_net(self.now, held.course, Happens::Chunk(event(Some("9"), &answer)));
        self.on_net(self.now, held.course, Happens::End);
    }

    /// The server says something that belongs to no request, where it can.
    pub(in super::super) fn says(&mut self, message: &Value) {
        let held = self.process.as_ref().and_then(|process| process.held.first());
        let stream = self.net.old_stream.or(self.net.listening).or(held.map(|held| held.course));
        if let Some(number) = stream {
            self.on_net(self.now, number, Happens::Chunk(event(None, message)));
        }
    }

    pub(super) fn remote_reads(&mut self, number: u64, request: &Sent) {
        let Some(process) = &self.process else { return };
        let behaviour = process.behaviour.clone();
        if behaviour.mute || behaviour.mute_after_start && self.server.revision().is_some() {
            return;
        }
        let peer = behaviour.peer;
        let known = request.session.is_some_and(|session| self.net.known.contains(&session));
        let message = &request.message;
        match (request.verb, peer) {
            ("DELETE", _) => {
                if !behaviour.ignores_eof {
                    let session = request.session.expect("only a session is ended");
                    self.net.known.retain(|known| *known != session);
                    self.net.ended.push(session);
                    self.status(number, 200);
                }
            }
            ("GET", Peer::Old) => {
                self.net.old_stream = Some(number);
                self.streams(self.now, number);
                self.on_net(
                    self.now,
                    number,
                    Happens::Chunk(b"event: endpoint\ndata: /messages?session=1\n\n".to_vec()),
                );
            }
            ("GET", Peer::Session) if !known => self.status(number, 404),
            ("GET", Peer::Session) if request.last_event.is_some() => self.resumed(number),
            ("GET", Peer::Session) => {
                self.net.listening = Some(number);
                self.streams(self.now, number);
            }
            ("GET", _) if request.last_event.is_some() => self.resumed(number),
            ("GET", _) => self.status(number, 405),
            (_, Peer::Old) if !request.endpoint => self.status(number, 405),
            (_, Peer::Session) if request.session.is_some() && !known => {
                self.respond(
                    self.now,
                    number,
                    404,
                    &json!({"jsonrpc": "2.0", "id": null,
                    "error": {"code": -32001, "message": "Session not found"}}),
                );
            }
            (_, Peer::Session) if request.session.is_none() && message["method"] != "initialize" => {
                self.respond(
                    self.now,
                    number,
                    400,
                    &json!({"jsonrpc": "2.0", "id": null,
                    "error": {"code": -32000, "message": "Bad Request: no valid session ID provided"}}),
                );
            }
            (_, Peer::Old) => {
                self.status(number, 202);
                self.remote_message(number, message, true);
            }
            _ => self.remote_message(number, message, false),
        }
    }

    /// A message that is for the protocol.
    fn remote_message(&mut self, number: u64, message: &Value, old: bool) {
        let (peer, now) = (self.behaviour.peer, self.now);
        let method = message["method"].as_str().unwrap_or_default();
        let answer = match (method, peer.era()) {
            ("server/discover", Era::Modern) => {
                assert_eq!(message["params"]["_meta"][message::META_PROTOCOL_VERSION], "2026-07-28");
                reply(
                    message,
                    "result",
                    &json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {}, "ttlMs": 0, "cacheScope": "private"}),
                )
            }
            ("server/discover", Era::Legacy) => {
                reply(message, "error", &json!({"code": -32601, "message": "no such method"}))
            }
            ("initialize", Era::Legacy) => {
                let answer = reply(
                    message,
                    "result",
                    &json!({
                    "protocolVersion": message["params"]["protocolVersion"], "capabilities": {},
                    "serverInfo": {"name": "simulated", "version": "0"}}),
                );
                if peer == Peer::Session {
                    self.net.sessions += 1;
                    let session = self.net.sessions;
                    self.net.known.push(session);
                    self.on_net(now, number, Happens::Head(head(200, Content::Json), Some(session)));
                    self.on_net(now, number, Happens::Chunk(answer.to_string().into_bytes()));
                    return self.on_net(now, number, Happens::End);
                }
                answer
            }
            ("initialize", Era::Modern) => {
                let data = json!({"supported": ["2026-07-28"], "requested": "2025-11-25"});
                let refusal = json!({"code": -32022, "message": "no", "data": data});
                return self.respond(now, number, 400, &reply(message, "error", &refusal));
            }
            ("ping", Era::Legacy) => reply(message, "result", &json!({})),
            ("", _) | ("notifications/initialized", _) if !old => return self.status(number, 202),
            ("", _) | ("notifications/initialized", _) => return,
            ("notifications/cancelled", _) => {
                self.cancelled += 1;
                let cancelled = &message["params"]["requestId"];
                if let Some(process) = &mut self.process {
                    process.held.retain(|held| held.request["id"] != *cancelled);
                }
                if !old {
                    self.status(number, 202);
                }
                return;
            }
            _ => return self.operation(number, message, old),
        };
        if old { self.says(&answer) } else { self.respond(now, number, 200, &answer) }
    }

    fn runs(&mut self, message: &Value) {
        let method = message["method"].as_str().unwrap_or_default();
        self.executed.push(format!("{method} {}", message["params"]["call"]));
    }

    /// A request of a caller.
    fn operation(&mut self, number: u64, message: &Value, old: bool) {
        let (peer, now) = (self.behaviour.peer, self.now);
        let modern = message["params"]["_meta"].get(message::META_PROTOCOL_VERSION).is_some();
        assert_eq!(modern, peer.era() == Era::Modern, "per-request fields are for modern servers: {message}");
        assert!(message.get("id").is_some(), "{message}");
        let whim = if old { None } else { self.net.whims.pop_front() };
        let Some(latency) = self.process.as_ref().and_then(|process| process.behaviour.latency) else {
            // Held: the stream is there, the answer is not.
            self.runs(message);
            if !old {
                self.streams(now, number);
                self.on_net(now, number, Happens::Chunk(primed(number)));
            }
            if let Some(process) = &mut self.process {
                process.held.push(Held { request: message.clone(), course: number });
            }
            return;
        };
        let (at, answer) = (now.after(latency), success(message));
        if old {
            self.runs(message);
            let stream = self.net.old_stream.unwrap_or(u64::MAX);
            return self.on_net(at, stream, Happens::Chunk(event(None, &answer)));
        }
        match whim.unwrap_or(Whim::Plain) {
            Whim::Plain => {
                self.runs(message);
                self.respond(at, number, 200, &answer);
            }
            Whim::Stream | Whim::Twice => {
                self.runs(message);
                self.streams(now, number);
                self.on_net(now, number, Happens::Chunk(primed(number)));
                self.on_net(at, number, Happens::Chunk(event(Some("1"), &answer)));
                if whim == Some(Whim::Twice) {
                    self.on_net(at, number, Happens::Chunk(event(Some("2"), &answer)));
                }
                self.on_net(at, number, Happens::End);
            }
            Whim::Cut => {
                self.runs(message);
                self.streams(now, number);
                self.on_net(now, number, Happens::Chunk(primed(number)));
                self.on_net(at, number, Happens::Fails { connected: true });
                self.net.parked.push((number, answer));
            }
            Whim::Break { runs } => {
                if runs {
                    self.runs(message);
                }
                self.on_net(now, number, Happens::Fails { connected: true });
            }
            Whim::Half => {
                self.runs(message);
                self.on_net(at, number, Happens::Head(head(200, Content::Json), None));
                self.on_net(at, number, Happens::Chunk(b"{\"jsonrpc\":".to_vec()));
                self.on_net(at, number, Happens::Fails { connected: true });
            }
            Whim::Away => self.on_net(now, number, Happens::Fails { connected: false }),
            Whim::Refuse { status, code, later, runs } => {
                if runs && !Whim::is_proof(status, later.is_some(), peer == Peer::Session) {
                    self.runs(message);
                }
                self.refuse(number, status, code, later);
            }
            Whim::Foreign => {
                self.runs(message);
                let answer = json!({"jsonrpc": "2.0", "id": "another", "result": {}});
                self.respond(at, number, 200, &answer);
            }
            Whim::Page => {
                self.runs(message);
                self.on_net(at, number, Happens::Head(head(200, Content::Other), None));
            }
            Whim::Mute => self.runs(message),
        }
    }

    fn refuse(&mut self, number: u64, status: u16, code: Option<i64>, later: Option<u64>) {
        let retry_after = later.map(Duration::from_secs);
        let head = Head { retry_after, ..head(status, Content::Json) };
        self.on_net(self.now, number, Happens::Head(head, None));
        if let Some(code) = code {
            let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": "session"}});
            self.on_net(self.now, number, Happens::Chunk(body.to_string().into_bytes()));
        }
        self.on_net(self.now, number, Happens::End);
    }

    /// Somebody asks for the rest of a stream.
    fn resumed(&mut self, number: u64) {
        match self.net.whims.pop_front().unwrap_or(Whim::Plain) {
            Whim::Refuse { status, code, later, .. } => return self.refuse(number, status, code, later),
            Whim::Away => return self.on_net(self.now, number, Happens::Fails { connected: false }),
            Whim::Break { .. } => return self.on_net(self.now, number, Happens::Fails { connected: true }),
            Whim::Mute => return,
            Whim::Page => {
                return self.on_net(self.now, number, Happens::Head(head(200, Content::Other), None));
            }
            _ => {}
        }
        self.streams(self.now, number);
        if let Some(place) = self.net.parked.iter().position(|(of, _)| *of == number) {
            let (_, answer) = self.net.parked.remove(place);
            self.on_net(self.now, number, Happens::Chunk(event(Some("2"), &answer)));
            self.on_net(self.now, number, Happens::End);
        }
    }
}
