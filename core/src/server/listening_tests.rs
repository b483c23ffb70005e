//! The facade and those who listen, on a virtual clock: what wakes, what defers, and what is said in which order.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::*;
use crate::http::exchange::{Carried, Verdict};
use crate::lifecycle::Exit;
use crate::lifecycle::PublicState;
use crate::message::Own;
use crate::method::Method;
use crate::relay::{End, Filter, Full, List, Listener, Lists, Step, Uri};

/// A server, and what an adapter sees of it.
struct World {
    server: Server<[Slot; 2], [relay::Slot; 16]>,
    now: Instant,
    /// Whatever is to be done, in words.
    did: Vec<String>,
    /// Ids of questions that are open.
    asked: Vec<u64>,
    ended: Vec<(Listener, End)>,
    boots: bool,
}

fn config(transport: Transport) -> Config {
    Config {
        transport,
        limits: Limits { hedge: None, ..Limits::default() },
        lifecycle: lifecycle::Config {
            idle: Some(Duration::from_secs(60)),
            resident: true,
            ..lifecycle::Config::default()
        },
        ..Config::default()
    }
}

const DISCOVERED: &str = r#""result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}}}"#;

impl World {
    fn new(config: Config) -> Self {
        Self {
            server: Server::listening(config, [Slot::EMPTY; 2], [relay::Slot::EMPTY; 16], 0, CrashLog::new()),
            now: Instant::from_millis(1_000_000),
            did: Vec::new(),
            asked: Vec::new(),
            ended: Vec::new(),
            boots: true,
        }
    }

    fn live() -> Self {
        let mut world = Self::new(config(Transport::Stream));
        world.server.wake(world.now);
        world.drain();
        assert_eq!(world.server.state(), PublicState::Live);
        world.done();
        world
    }

    fn done(&mut self) -> Vec<String> {
        core::mem::take(&mut self.did)
    }

    fn drain(&mut self) {
        for _ in 0..100 {
            let Some(action) = self.server.poll_action() else { return };
            match action {
                Action::Persist(_) => self.server.handle_persisted(self.now),
                Action::Spawn { .. } if self.boots => {
                    self.did.push("spawn".to_string());
                    self.server.handle_spawned(self.now);
                }
                Action::Spawn { .. } => self.server.handle_spawn_failed(self.now),
                Action::SendOwn(Own::Discover { id, .. }) => {
                    let frame = format!(r#"{{"jsonrpc":"2.0","id":{id},{DISCOVERED}}}"#);
                    self.server.handle_frame(self.now, frame.as_bytes());
                }
                Action::SendOwn(Own::Cancelled { id, .. }) => self.did.push(format!("cancel {id}")),
                Action::Relay(step) => {
                    match step {
                        Step::Listen { wire, .. } => self.asked.push(wire),
                        Step::End { listener, why } => self.ended.push((listener, why)),
                        _ => {}
                    }
                    let text = format!("{step:?}");
                    self.did.push(text.split([' ', '{']).next().unwrap().to_string());
                }
                Action::Kill => {
                    self.did.push("Kill".to_string());
                    self.server.handle_tree_gone(self.now);
                }
                other => self.did.push(format!("{other:?}")),
            }
        }
        panic!("no end of actions: {:?}", self.did);
    }

    fn listen(&mut self, uris: usize, lists: Lists) -> (Listener, Option<Uri>) {
        let listener = self.server.attach(lists).unwrap();
        let mut last = None;
        for _ in 0..uris {
            last = Some(self.server.want(listener, None).unwrap());
        }
        self.server.listen(self.now, listener, uris > 0).unwrap();
        self.drain();
        (listener, last)
    }

    fn acknowledge(&mut self, uri: Option<Uri>) {
        let wire = self.asked.pop().unwrap();
        let frame = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{wire}}},"notifications":{{"resourceSubscriptions":["u"]}}}}}}"#
        );
        let outcome = self.server.handle_frame(self.now, frame.as_bytes());
        let Outcome::Acknowledged { wire: said, filter } = outcome else { panic!("{outcome:?}") };
        assert_eq!((said, filter.uris(frame.as_bytes()).count()), (wire, 1));
        if let Some(uri) = uri {
            self.server.handle_honoured(wire, uri);
        }
        self.server.handle_acknowledged(self.now, wire);
        self.drain();
    }

    fn pass(&mut self, seconds: u64) {
        let end = self.now.after(Duration::from_secs(seconds));
        while let Some((at, _)) = self.server.poll_timeout().filter(|(at, _)| *at <= end) {
            self.now = self.now.max(at);
            self.server.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }
}

#[test]
fn updates_of_resources_start_the_server_and_keep_it_awake() {
    let mut world = World::new(config(Transport::Stream));
    let (listener, uri) = world.listen(1, Lists::NONE);
    assert_eq!(world.done(), ["spawn", "Listen"]);
    world.acknowledge(uri);
    assert_eq!(world.done(), ["Acknowledge"]);
    world.pass(3600);
    assert_eq!((world.server.state(), world.done()), (PublicState::Live, Vec::new()));
    world.server.unlisten(world.now, listener);
    world.drain();
    let did = world.done();
    assert!(did.len() == 2 && did[0].starts_with("cancel") && did[1] == "Forget", "{did:?}");
    world.pass(59);
    assert_eq!(world.server.state(), PublicState::Live, "a full period follows");
    world.pass(1);
    assert_eq!(world.server.state(), PublicState::Idle);
}

#[test]
fn changes_of_lists_neither_start_nor_defer() {
    let mut world = World::new(config(Transport::Stream));
    world.listen(0, Lists::ALL);
    assert_eq!(world.done(), ["Acknowledge"]);
    assert_eq!(world.server.state(), PublicState::Dormant);
    world.server.wake(world.now);
    world.drain();
    assert_eq!(world.done(), ["spawn", "Listen"], "expressed at the start");
    world.acknowledge(None);
    let frame = format!(
        r#"{{"jsonrpc":"2.0","method":"{}","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}}}}}"#,
        List::Tools.notification(),
        own_id(world.server.own.wrapping_sub(1), Question::Initialize)
    );
    world.server.handle_frame(world.now, frame.as_bytes());
    world.drain();
    assert_eq!(world.done(), ["Changed"]);
    world.pass(60);
    assert_eq!(world.server.state(), PublicState::Idle);
}

#[test]
fn the_stream_is_closed_before_the_input_is() {
    let mut world = World::live();
    world.listen(0, Lists::ALL);
    world.acknowledge(None);
    world.done();
    world.pass(60);
    let did = world.done();
    assert!(did[0].starts_with("cancel") && did[1] == "CloseInput", "{did:?}");
    let mut world = World::new(config(Transport::Http));
    world.listen(1, Lists::ALL);
    world.done();
    world.server.close(world.now);
    world.drain();
    assert_eq!(world.done(), ["Cancel", "CloseInput"], "over HTTP the exchange is broken off");
}

#[test]
fn a_server_that_cannot_be_started_fails_the_request() {
    let mut world = World::new(config(Transport::Stream));
    world.boots = false;
    let (listener, _) = world.listen(1, Lists::ALL);
    let Some((ended, End::Failed(failure))) = world.ended.pop() else { panic!() };
    assert_eq!((ended, failure.cause), (listener, Cause::StartFailed));
    assert_eq!(world.server.relay().used(), 0);
    assert_eq!(world.server.lifecycle().in_flight(), 0);
    world.server.close(world.now);
    world.drain();
    let listener = world.server.attach(Lists::NONE).unwrap();
    world.server.want(listener, None).unwrap();
    let refused = world.server.listen(world.now, listener, true);
    assert!(matches!(refused, Err(Refusal::Unavailable(Unavailable::ShuttingDown))), "{refused:?}");
    world.server.unlisten(world.now, listener);
    world.drain();
    assert_eq!(world.server.relay().used(), 0);
}

#[test]
fn who_goes_while_the_server_starts_is_not_remembered() {
    let mut world = World::new(config(Transport::Stream));
    let listener = world.server.attach(Lists::NONE).unwrap();
    world.server.want(listener, None).unwrap();
    world.server.listen(world.now, listener, true).unwrap();
    assert_eq!(world.server.lifecycle().in_flight(), 1);
    world.server.unlisten(world.now, listener);
    world.drain();
    assert_eq!((world.server.relay().used(), world.server.lifecycle().in_flight()), (0, 0));
    world.pass(60);
    assert_eq!(world.server.state(), PublicState::Idle);
}

#[test]
fn everybody_is_told_before_the_machine_retires() {
    let mut world = World::new(Config {
        lifecycle: lifecycle::Config { resident: false, ..config(Transport::Stream).lifecycle },
        ..config(Transport::Stream)
    });
    let (listener, uri) = world.listen(1, Lists::NONE);
    world.acknowledge(uri);
    world.done();
    world.server.handle_exited(world.now, Exit::Status(1));
    world.server.handle_tree_gone(world.now);
    world.drain();
    assert_eq!(world.ended, [(listener, End::Over { acknowledged: true })]);
    let did = world.done();
    assert_eq!(did.last().map(String::as_str), Some("Retire"), "{did:?}");
    assert_eq!(did.iter().filter(|did| *did == "Retire").count(), 1);
    assert_eq!(world.server.relay().used(), 0);
}

#[test]
fn a_stream_over_http_that_breaks_is_opened_again() {
    let mut world = World::new(config(Transport::Http));
    let (_, uri) = world.listen(1, Lists::NONE);
    let wire = world.asked[0];
    assert!(world.server.awaits(wire));
    world.acknowledge(uri);
    assert!(world.server.awaits(wire), "for as long as it is open");
    world.done();
    world.server.handle_verdict(world.now, Carried::Request(Method::Listen), wire, Verdict::Broken);
    world.drain();
    assert!(!world.server.awaits(wire));
    assert_eq!(world.done(), Vec::<String>::new());
    world.pass(1);
    assert_eq!(world.done(), ["Listen"]);
    world.acknowledge(uri);
    assert_eq!(world.done(), ["Updated"], "it may have changed meanwhile");
    assert_eq!(world.server.state(), PublicState::Live);
}

#[test]
fn nobody_can_listen_without_storage() {
    let mut server = Server::new(Config::default(), [Slot::EMPTY; 1], 0, CrashLog::new());
    assert_eq!(server.attach(Lists::ALL), Err(Full));
    let filter = Filter { lists: Lists::ALL, uris: None, tasks: None };
    assert_eq!(filter.uris(b"").count(), 0);
}

#[test]
fn an_error_answer_is_given_to_whoever_asked() {
    let mut world = World::live();
    let (listener, uri) = world.listen(1, Lists::NONE);
    let frame = format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32602,"message":"no such thing"}}}}"#,
        world.asked[0]
    );
    let outcome = world.server.handle_frame(world.now, frame.as_bytes());
    let Outcome::Unheard { uri: Some(refused), error } = outcome else { panic!("{outcome:?}") };
    assert_eq!(Some(refused), uri);
    assert_eq!(error.of(frame.as_bytes()), br#"{"code":-32602,"message":"no such thing"}"#);
    world.drain();
    let why = relay::Why::Gone;
    assert_eq!(world.ended, [(listener, End::Refused { why, uri: uri.unwrap() })]);
    world.pass(60);
    assert_eq!(world.server.state(), PublicState::Idle, "a refused one keeps nothing awake");
}
