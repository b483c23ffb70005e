//! A question, its rounds, and every way in which a held call ends.

#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use std::format;
use std::string::String;
use std::vec::Vec;

use serde_json::{Value, json};

use super::*;
use crate::capabilities::ClientCapabilities;
use crate::envelope;
use crate::link::{Cause, Ran};
use crate::method::Method;
use crate::splice::{self, NoAnswer, RequestParts, Shown};

const ASK: &str = r#"{"jsonrpc":"2.0","id":"s-1","method":"elicitation/create","params":{"message":"your name?","requestedSchema":{"type":"object","properties":{}}}}"#;
const ANN: Principal = Principal(1);
const BOB: Principal = Principal(2);
const MINUTE: u64 = 60;

const ALL: ClientCapabilities = ClientCapabilities {
    form: true,
    url: true,
    sampling: true,
    sampling_tools: true,
    roots: false,
    tasks: false,
};

fn at(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1000)
}

fn link(n: u64) -> link::Key {
    link::Key::from_wire(n).unwrap()
}

/// The parameters of a call, and those of its retry.
fn call_text(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{params}}}}}"#)
}

fn parts_of(frame: &[u8]) -> RequestParts {
    RequestParts::of(&envelope::read(frame).unwrap()).unwrap()
}

struct World {
    held: Held<[Slot; 3]>,
    random: u8,
}

impl World {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let mut held = Held::new(config, Secret::new([9; 16]), [Slot::EMPTY; 3]);
        held.handle_started(7);
        Self { held, random: 0 }
    }

    fn hold(&mut self, now: u64, n: u64, principal: Principal) -> Result<Asked, Unasked> {
        self.random += 1;
        let text = call_text(r#""name":"ask","arguments":{"a":[1, 2]},"_meta":{"x":1}"#);
        let params = parts_of(text.as_bytes()).params;
        self.held.hold(
            at(now),
            Asking {
                call: link(n),
                principal,
                kind: Kind::Form,
                method: Method::ToolsCall,
                frame: text.as_bytes(),
                params,
                random: [self.random; 16],
            },
        )
    }

    fn state(&self, held: HeldKey) -> String {
        String::from_utf8(self.held.state(held).unwrap().as_bytes().to_vec()).unwrap()
    }

    fn names(&self, held: HeldKey) -> Vec<String> {
        self.held.shown(held).map(|question| question.name().as_str().into()).collect()
    }

    fn retry(&mut self, now: u64, principal: Principal, state: &str, answers: &str) -> Result<Resumed, Lost> {
        let members = format!(r#""requestState":"{state}","inputResponses":{answers}"#);
        self.retry_with(now, principal, &members, r#""name":"ask","arguments":{"a":[1, 2]}"#)
    }

    fn retry_with(
        &mut self,
        now: u64,
        principal: Principal,
        members: &str,
        params: &str,
    ) -> Result<Resumed, Lost> {
        let text = call_text(&format!(r#"{members},{params},"_meta":{{"y":2}}"#));
        let frame = text.as_bytes();
        let params = parts_of(frame).params.unwrap();
        self.held.handle_retry(at(now), Retry { principal, method: Method::ToolsCall, frame, params })
    }

    fn outputs(&mut self) -> Vec<Output> {
        core::iter::from_fn(|| self.held.poll_output()).collect()
    }
}

const YES: &str = r#"{"q1":{"action":"accept","content":{}}}"#;

#[test]
fn a_question_goes_to_the_caller_and_its_answer_to_the_server() {
    let mut world = World::new();
    let Asked { question, now } = world.hold(0, 4, ANN).unwrap();
    assert!(now);
    assert_eq!(world.held.find(link(4)), Some(question.held));
    let state = world.state(question.held);
    let resumed = world.retry(9, ANN, &state, YES).unwrap();
    assert_eq!(resumed.then, Then::Wait { call: link(4), instead: false });
    assert_eq!(resumed.answers.len(), 1);
    assert_eq!(resumed.answers[0].0, question);
    assert_eq!(world.outputs(), []);
    assert_eq!(world.held.poll_timeout(), None, "a caller waits: the link's time-out holds");
    assert_eq!(world.held.handle_answer(at(10), link(4)), Some(Fate::Deliver(question.held)));
    assert_eq!(world.held.find(link(4)), None);
    // The response was lost: the same again, and once more.
    for _ in 0..2 {
        let again = world.retry(20, ANN, &state, YES).unwrap();
        assert_eq!((again.answers.len(), again.then), (0, Then::Answer { ends: false }));
    }
    assert_eq!(world.retry(20, ANN, &state, r#"{"q1":{"action":"decline"}}"#), Err(Lost::Answered));
    assert_eq!(world.held.poll_timeout(), Some(at(5 * MINUTE)));
    world.held.handle_timeout(at(5 * MINUTE));
    assert_eq!(world.outputs(), [Output::Forget { held: question.held, ends: false }]);
    assert_eq!((world.held.used(), world.held.poll_timeout()), (0, None));
}

#[test]
fn the_messages_are_those_of_the_specification() {
    let mut world = World::new();
    let question = world.hold(0, 4, ANN).unwrap().question;
    let state = world.held.state(question.held).unwrap();
    let shown = [Shown::new(question, ASK.as_bytes(), &parts_of(ASK.as_bytes()))];
    let text = splice::input_required(br#""caller""#, &shown, &state).concat();
    let asked: Value = serde_json::from_str(ASK).unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&text).unwrap(),
        json!({"jsonrpc": "2.0", "id": "caller", "result": {
            "resultType": "input_required",
            "inputRequests": {"q1": {"method": "elicitation/create", "params": asked["params"]}},
            "requestState": world.state(question.held),
        }})
    );
    let many = [shown[0]; MAX_QUESTIONS];
    let text = splice::input_required(b"0", &many, &state).concat();
    assert_eq!(text.windows(4).filter(|four| *four == b"\"q1\"").count(), MAX_QUESTIONS);
    assert!(text.ends_with(b"\"}}"));
    serde_json::from_slice::<Value>(&splice::input_required(b"0", &[], &state).concat()).unwrap();

    let retry = br#"{"inputResponses":{"q1":{"action":"accept"}}}"#;
    let id = parts_of(ASK.as_bytes()).id;
    let answer = splice::answer_question(id, Span::new(24, 43)).unwrap();
    assert_eq!(
        answer.write(retry, ASK.as_bytes(), &mut [0; 99]).unwrap(),
        br#"{"jsonrpc":"2.0","id":"s-1","result":{"action":"accept"}}"#
    );
    for (kind, why, end) in [
        (Kind::Form, NoAnswer::Declined, json!({"action": "decline"})),
        (Kind::Url, NoAnswer::Cancelled, json!({"action": "cancel"})),
        (Kind::Sampling, NoAnswer::Declined, Value::Null),
        (Kind::SamplingWithTools, NoAnswer::Cancelled, Value::Null),
    ] {
        let pieces = splice::refused(id, kind, why).unwrap();
        let mut buffer = [0; 128];
        let value: Value =
            serde_json::from_slice(pieces.write(ASK.as_bytes(), b"", &mut buffer).unwrap()).unwrap();
        assert_eq!((&value["id"], &value["result"]), (&json!("s-1"), &end));
        assert_eq!(value["error"]["code"] == -1, end.is_null());
    }
}

#[test]
fn several_questions_and_several_rounds() {
    let mut world = World::new();
    let first = world.hold(0, 4, ANN).unwrap();
    let held = first.question.held;
    // Two more while the user thinks: they are for the next round.
    for _ in 0..2 {
        assert!(!world.hold(1, 4, ANN).unwrap().now);
    }
    assert_eq!(world.names(held), ["q1"]);
    let one = world.state(held);
    let resumed = world.retry(2, ANN, &one, YES).unwrap();
    assert_eq!((resumed.answers.len(), resumed.then), (1, Then::Ask));
    assert_eq!(world.names(held), ["q2", "q3"]);
    let two = world.state(held);
    assert_ne!(one, two);
    // The response with the second round was lost.
    assert_eq!(world.retry(3, ANN, &one, YES).unwrap().then, Then::Ask);
    assert_eq!((world.state(held), world.names(held).len()), (two.clone(), 2));
    assert_eq!(world.retry(3, ANN, &one, "{}"), Err(Lost::Answered));
    // Half an answer is taken, and the rest asked again.
    let half = r#"{"q3":{"action":"decline"},"q1":{"action":"accept"},"q2":"yes"}"#;
    let resumed = world.retry(4, ANN, &two, half).unwrap();
    assert_eq!(resumed.answers.iter().map(|(question, _)| question.number).collect::<Vec<_>>(), [3]);
    assert_eq!((resumed.then, world.names(held)), (Then::Ask, ["q2".into()].to_vec()));
    assert_eq!(world.retry(4, ANN, &one, YES), Err(Lost::Stale));
    // No answer is no round.
    let three = world.state(held);
    for nothing in ["{}", "null", r#"{"q2":[]}"#, r#"{"q9":{}}"#] {
        assert_eq!(world.retry(5, ANN, &three, nothing).unwrap().then, Then::Ask, "{nothing}");
        assert_eq!(world.state(held), three);
    }
    let resumed = world.retry(6, ANN, &three, r#"{"\u00712":{}}"#).unwrap();
    assert_eq!(resumed.then, Then::Wait { call: link(4), instead: false });
    // The caller waits, so it is asked at once.
    let more = world.hold(7, 4, ANN).unwrap();
    assert_eq!((more.now, more.question.number), (true, 4));
    assert_eq!(world.outputs(), []);
}

#[test]
fn a_state_is_good_for_nothing_else() {
    let mut world = World::new();
    let held = world.hold(0, 4, ANN).unwrap().question.held;
    let state = world.state(held);
    assert_eq!(world.retry(1, BOB, &state, YES), Err(Lost::NotYours));
    let members = format!(r#""requestState":"{state}","inputResponses":{YES}"#);
    for params in [
        r#""name":"ask","arguments":{"a":[1,2]}"#,
        r#""name":"ask""#,
        r#""name":"ask","arguments":{"a":[1, 2]},"more":1"#,
        r#""arguments":{"a":[1, 2]},"name":"ask""#,
    ] {
        assert_eq!(world.retry_with(1, ANN, &members, params), Err(Lost::NotYours), "{params}");
    }
    for end in 0..state.len() {
        let mut forged = state.clone().into_bytes();
        forged[end] = if forged[end] == b'0' { b'1' } else { b'0' };
        let forged = String::from_utf8(forged).unwrap();
        assert_eq!(world.retry(1, ANN, &forged, YES), Err(Lost::NotYours));
        assert_eq!(world.retry(1, ANN, &state[..end], YES), Err(Lost::NotYours));
    }
    for forged in [state.to_uppercase(), format!("{state}0"), format!(" {state}"), "é".repeat(52)] {
        assert_eq!(world.retry(1, ANN, &forged, YES), Err(Lost::NotYours));
    }
    let text = call_text(&format!(r#"{members},"name":"ask","arguments":{{"a":[1, 2]}}"#));
    let params = parts_of(text.as_bytes()).params.unwrap();
    let retry = Retry { principal: ANN, method: Method::PromptsGet, frame: text.as_bytes(), params };
    assert_eq!(world.held.handle_retry(at(1), retry), Err(Lost::NotYours));
    assert_eq!(format!("{:?}", Secret::new([9; 16])), "Secret");
    // None of that used it up.
    let resumed = world.retry(1, ANN, &state, YES).unwrap();
    assert_eq!(resumed.then, Then::Wait { call: link(4), instead: false });
}

#[test]
fn a_call_without_a_retry_ends() {
    let mut world = World::new();
    let question = world.hold(0, 4, ANN).unwrap().question;
    let state = world.state(question.held);
    world.held.handle_timeout(at(5 * MINUTE - 1));
    assert_eq!(world.outputs(), []);
    assert_eq!(world.held.poll_timeout(), Some(at(5 * MINUTE)));
    // Even if the timer is late.
    assert_eq!(world.retry(5 * MINUTE, ANN, &state, YES), Err(Lost::Expired));
    world.held.handle_timeout(at(5 * MINUTE));
    let held = question.held;
    assert_eq!(
        world.outputs(),
        [
            Output::Withdraw { question, tell: true },
            Output::Cancel { call: link(4) },
            Output::Forget { held, ends: false }
        ]
    );
    world.held.handle_timeout(at(6 * MINUTE));
    assert_eq!(world.outputs(), []);
    assert_eq!(world.held.handle_failure(at(301), link(4), CANCELLED), None);
}

#[test]
fn nobody_is_waited_for_longer_than_five_minutes() {
    let mut world = World::with(Config { patience: Duration::from_secs(3600), ..Config::default() });
    let held = world.hold(0, 4, ANN).unwrap().question.held;
    let state = world.state(held);
    assert_eq!((MAX_PATIENCE, world.held.poll_timeout()), (Duration::from_secs(300), Some(at(5 * MINUTE))));
    assert_eq!(world.retry(5 * MINUTE, ANN, &state, YES), Err(Lost::Expired));
    // Or as short as is said.
    let mut world = World::with(Config { patience: Duration::from_secs(60), ..Config::default() });
    world.hold(0, 4, ANN).unwrap();
    assert_eq!(world.held.poll_timeout(), Some(at(MINUTE)));
}

const CANCELLED: Failure = Failure { cause: Cause::Cancelled, ran: Ran::Unknown };
const LOST: Failure = Failure { cause: Cause::ServerLost, ran: Ran::Unknown };

#[test]
fn a_server_that_gives_up_is_heard_at_the_next_retry() {
    let mut world = World::new();
    let question = world.hold(0, 4, ANN).unwrap().question;
    let held = question.held;
    let state = world.state(held);
    assert_eq!(world.held.handle_answer(at(1), link(4)), Some(Fate::Keep(held)));
    assert_eq!(world.outputs(), []);
    // It may have asked for another call, so it gets its answer.
    let resumed = world.retry(2, ANN, &state, YES).unwrap();
    assert_eq!((resumed.answers.len(), resumed.then), (1, Then::Answer { ends: true }));
    let resumed = world.retry(3, ANN, &state, YES).unwrap();
    assert_eq!((resumed.answers.len(), resumed.then), (0, Then::Answer { ends: false }));
    world.held.forget(held);
    assert_eq!(world.outputs(), [Output::Forget { held, ends: false }]);
    assert_eq!(world.retry(4, ANN, &state, YES), Err(Lost::Ended));
}

#[test]
fn an_answer_that_nobody_fetches_ends_with_the_round() {
    let mut world = World::new();
    let question = world.hold(0, 4, ANN).unwrap().question;
    let held = question.held;
    assert_eq!(world.held.handle_answer(at(1), link(4)), Some(Fate::Keep(held)));
    world.held.handle_timeout(at(5 * MINUTE));
    assert_eq!(
        world.outputs(),
        [Output::Withdraw { question, tell: true }, Output::Forget { held, ends: true }]
    );
}

#[test]
fn a_lost_server_fails_the_retry_and_never_hears_of_it() {
    let mut world = World::new();
    let question = world.hold(0, 4, ANN).unwrap().question;
    let state = world.state(question.held);
    world.held.handle_lost();
    assert_eq!(world.outputs(), [Output::Withdraw { question, tell: false }]);
    assert_eq!(world.held.handle_failure(at(1), link(4), LOST), Some(Fate::Keep(question.held)));
    world.held.handle_started(8);
    let resumed = world.retry(2, ANN, &state, YES).unwrap();
    assert_eq!((resumed.answers.len(), resumed.then), (0, Then::Fail(LOST)));
    world.held.forget(question.held);
    assert_eq!(world.outputs().len(), 1);
    assert_eq!(world.retry(2, ANN, &state, YES), Err(Lost::OtherGeneration));
}

#[test]
fn a_caller_that_goes_may_come_back() {
    let mut world = World::new();
    let held = world.hold(0, 4, ANN).unwrap().question.held;
    let state = world.state(held);
    world.retry(1, ANN, &state, YES).unwrap();
    // The first one is still there, as far as anybody knows.
    assert_eq!(world.retry(2, ANN, &state, YES).unwrap().then, Then::Wait { call: link(4), instead: true });
    world.held.handle_gone(at(3), held, true);
    assert_eq!(world.held.poll_timeout(), Some(at(5 * MINUTE)));
    assert_eq!(world.retry(4, ANN, &state, YES).unwrap().then, Then::Wait { call: link(4), instead: false });
    world.held.handle_gone(at(5), held, true);
    // Asked while nobody waits, shown to whoever comes.
    assert!(!world.hold(6, 4, ANN).unwrap().now);
    assert_eq!(world.retry(7, ANN, &state, YES).unwrap().then, Then::Ask);
    assert_eq!(world.names(held), ["q2"]);
    world.held.handle_gone(at(8), held, false);
    let outputs = world.outputs();
    assert!(matches!(
        outputs[..],
        [Output::Withdraw { tell: true, .. }, Output::Cancel { .. }, Output::Forget { .. }]
    ));

    let held = world.hold(10, 5, ANN).unwrap().question.held;
    let other = world.hold(10, 6, BOB).unwrap().question.held;
    world.held.handle_principal_gone(ANN);
    assert!(world.outputs().contains(&Output::Forget { held, ends: false }));
    assert_eq!(world.held.find(link(6)), Some(other));
}

#[test]
fn there_is_room_for_so_many_and_no_more() {
    let mut world = World::with(Config { per_principal: 2, kept: 1, ..Config::default() });
    let first = world.hold(0, 1, ANN).unwrap().question.held;
    world.hold(0, 2, ANN).unwrap();
    assert_eq!(world.hold(0, 3, ANN), Err(Unasked::TooManyOfOne));
    world.hold(0, 4, BOB).unwrap();
    assert_eq!(world.hold(0, 5, BOB), Err(Unasked::TooMany));
    for _ in 1..MAX_QUESTIONS {
        world.hold(0, 1, ANN).unwrap();
    }
    assert_eq!(world.hold(0, 1, ANN), Err(Unasked::TooManyOfCall));
    assert_eq!(world.held.used(), 3);
    // What is over and told takes no room from its principal, and leaves when there are too many.
    world.held.cancel(first);
    world.outputs();
    for n in [2, 3] {
        let held = world.held.find(link(n)).unwrap_or_else(|| world.hold(n, n, ANN).unwrap().question.held);
        let state = world.state(held);
        world.retry(n, ANN, &state, YES).unwrap();
        assert_eq!(world.held.handle_answer(at(n), link(n)), Some(Fate::Deliver(held)));
    }
    assert!(matches!(world.outputs()[..], [Output::Forget { ends: false, .. }]));
    assert_eq!(world.held.used(), 2);
}

fn candidate(n: u64, principal: Principal, method: Method) -> Candidate {
    Candidate { key: link(n), order: n, principal, method, capabilities: ALL, away: None }
}

#[test]
fn a_question_is_only_put_to_whom_it_can_concern() {
    let mut world = World::new();
    let find = |world: &World, now, origin, list: &[Candidate]| {
        world.held.attribute(at(now), Kind::Form, origin, list.iter().copied())
    };
    let call = |n, principal| candidate(n, principal, Method::ToolsCall);
    let list = candidate(9, BOB, Method::ToolsList);
    assert_eq!(find(&world, 0, None, &[]), Err(Unasked::NoCall));
    assert_eq!(find(&world, 0, None, &[list]), Err(Unasked::NoCall));
    assert_eq!(find(&world, 0, None, &[list, call(3, ANN)]), Ok(link(3)));
    // The oldest of one principal; never a guess between several, even if only one could be asked.
    assert_eq!(find(&world, 0, None, &[call(5, ANN), call(3, ANN)]), Ok(link(3)));
    let silent = Candidate { capabilities: ClientCapabilities::default(), ..call(3, ANN) };
    assert_eq!(find(&world, 0, None, &[silent]), Err(Unasked::Undeclared(Some(link(3)))));
    assert_eq!(find(&world, 0, None, &[silent, call(5, ANN)]), Ok(link(5)));
    assert_eq!(find(&world, 0, None, &[silent, call(5, BOB)]), Err(Unasked::Ambiguous));
    let other = candidate(5, BOB, Method::Other);
    assert_eq!(find(&world, 0, None, &[call(3, ANN), other]), Err(Unasked::Ambiguous));
    assert_eq!(find(&world, 0, None, &[other]), Err(Unasked::NoCall));
    // Unless the transport says.
    let both = [call(3, ANN), call(5, BOB)];
    assert_eq!(find(&world, 0, Some(link(5)), &both), Ok(link(5)));
    assert_eq!(find(&world, 0, Some(link(6)), &both), Err(Unasked::NoCall));
    // One that is asked already is rather not asked again.
    world.hold(0, 3, ANN).unwrap();
    let two = [call(3, ANN), call(5, ANN)];
    assert_eq!(find(&world, 0, None, &two), Ok(link(5)));
    assert_eq!(find(&world, 0, None, &two[..1]), Ok(link(3)));
    // And not for another one that cannot be asked.
    let mute = Candidate { capabilities: ClientCapabilities::default(), ..call(7, ANN) };
    assert_eq!(find(&world, 0, None, &[call(3, ANN), mute]), Err(Unasked::Undeclared(None)));
    // A cancelled list asks nothing; a cancelled call may still ask.
    world.held.handle_cancelled(at(0), BOB, Method::ToolsList);
    assert_eq!(find(&world, 0, None, &two), Ok(link(5)));
    world.held.handle_cancelled(at(0), BOB, Method::ToolsCall);
    assert_eq!(find(&world, 9, None, &two), Err(Unasked::Ambiguous));
    assert_eq!(find(&world, 9, Some(link(3)), &two), Ok(link(3)));
    assert_eq!(find(&world, 10, None, &two), Ok(link(5)));
    world.held.handle_cancelled(at(20), ANN, Method::ToolsCall);
    assert_eq!(find(&world, 20, None, &two), Ok(link(5)));
    world.held.handle_cancelled(at(21), BOB, Method::ToolsCall);
    world.held.handle_cancelled(at(22), ANN, Method::ToolsCall);
    assert_eq!(find(&world, 30, None, &two), Err(Unasked::Ambiguous));
    assert_eq!(find(&world, 31, None, &two), Ok(link(5)));
    assert_eq!(Unasked::Undeclared(None).answer(), NoAnswer::Declined);
    assert_eq!(Unasked::Ambiguous.answer(), NoAnswer::Cancelled);
}

#[test]
fn what_is_asked() {
    let kind = |method: &str, params: &str| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"{params}}}"#);
        let parts = parts_of(text.as_bytes());
        Kind::of(text.as_bytes(), parts.method, parts.params)
    };
    assert_eq!(kind("elicitation/create", r#","params":{}"#), Some(Kind::Form));
    assert_eq!(kind("elicitation/create", r#","params":{"mode":"form"}"#), Some(Kind::Form));
    assert_eq!(kind("elicitation/create", r#","params":{"mode":"url"}"#), Some(Kind::Url));
    assert_eq!(kind("elicitation/create", r#","params":{"mode":"dance"}"#), None);
    assert_eq!(kind("elicitation/create", ""), None);
    assert_eq!(kind("sampling/createMessage", r#","params":{}"#), Some(Kind::Sampling));
    assert_eq!(kind("sampling/createMessage", r#","params":{"tools":[]}"#), Some(Kind::SamplingWithTools));
    assert_eq!(kind("roots/list", r#","params":{}"#), None);
    let only = |set: fn(&mut ClientCapabilities)| {
        let mut capabilities = ClientCapabilities::default();
        set(&mut capabilities);
        capabilities
    };
    assert!(Kind::Form.is_covered(only(|c| c.form = true)) && !Kind::Url.is_covered(only(|c| c.form = true)));
    assert!(Kind::Url.is_covered(only(|c| c.url = true)) && !Kind::Form.is_covered(only(|c| c.url = true)));
    let plain = only(|c| c.sampling = true);
    assert!(Kind::Sampling.is_covered(plain) && !Kind::SamplingWithTools.is_covered(plain));
    assert!(Kind::SamplingWithTools.is_covered(ALL));
}

#[test]
fn losses_are_named() {
    for lost in
        [Lost::NotYours, Lost::Expired, Lost::OtherGeneration, Lost::Ended, Lost::Stale, Lost::Answered]
    {
        assert!(lost.kind().starts_with("interaction-"));
        assert!(!format!("{lost}").is_empty());
    }
    let text = call_text(r#""requestState":"x""#);
    let params = parts_of(text.as_bytes()).params;
    assert_eq!(
        Retry::state_of(text.as_bytes(), params).map(|span| span.of(text.as_bytes())),
        Some(&b"\"x\""[..])
    );
    assert_eq!(Retry::state_of(text.as_bytes(), None), None);
}

#[test]
fn a_call_whose_client_is_away_leaves_it_open_whose_a_question_is() {
    let mut world = World::new();
    let call = |n, principal| candidate(n, principal, Method::ToolsCall);
    let gone =
        |n, principal, seconds| Candidate { away: Some(Duration::from_secs(seconds)), ..call(n, principal) };
    let find = |world: &World, list: &[Candidate]| {
        world.held.attribute(at(0), Kind::Form, None, list.iter().copied())
    };
    let unsettled = |seconds| Err(Unasked::Unsettled { principal: ANN, away: Duration::from_secs(seconds) });
    for list in [[gone(3, BOB, 9), call(5, ANN)], [call(5, ANN), gone(3, BOB, 9)]] {
        assert_eq!(find(&world, &list), unsettled(9));
    }
    let third = Principal(77);
    assert_eq!(
        find(&world, &[gone(3, BOB, 9), call(5, ANN), gone(6, third, 4)]),
        unsettled(4),
        "all of them"
    );
    assert_eq!(find(&world, &[gone(3, BOB, 9), call(5, ANN), call(6, third)]), Err(Unasked::Ambiguous));
    // Nobody is there who could have asked.
    assert_eq!(find(&world, &[gone(3, BOB, 9), gone(5, ANN, 9)]), Err(Unasked::Ambiguous));
    let other = candidate(5, ANN, Method::Other);
    assert_eq!(find(&world, &[gone(3, BOB, 9), other]), Err(Unasked::Ambiguous));
    // It is the only one, or one of the same principal's.
    assert_eq!(find(&world, &[gone(3, BOB, 9)]), Ok(link(3)));
    assert!(find(&world, &[gone(3, ANN, 9), call(5, ANN)]).is_ok());
    // What was cancelled lately counts all the same.
    world.held.handle_cancelled(at(0), third, Method::ToolsCall);
    assert_eq!(find(&world, &[gone(3, BOB, 9), call(5, ANN)]), Err(Unasked::Ambiguous));
    assert_eq!(Unasked::Unsettled { principal: ANN, away: Duration::ZERO }.answer(), NoAnswer::Cancelled);
}
