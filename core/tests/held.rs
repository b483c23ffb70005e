//! What holds for held calls whatever happens, in whatever order.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::{HashMap, HashSet};

use drowse_core::envelope;
use drowse_core::held::{Asking, Config, Fate, Held, HeldKey, Kind, Output, Principal, Question};
use drowse_core::held::{Lost, Retry, Secret, Slot, Then};
use drowse_core::link::{Cause, Failure, Key, Ran};
use drowse_core::method::Method;
use drowse_core::splice::RequestParts;
use drowse_core::time::{Duration, Instant};
use proptest::prelude::*;

const SLOTS: usize = 4;
const LOST: Failure = Failure { cause: Cause::ServerLost, ran: Ran::Unknown };

#[derive(Clone, Debug)]
enum Step {
    /// The server asks in the call of that number.
    Ask(usize),
    /// A retry with the state of that number: by whom, and which of its questions it answers, and how.
    Retry {
        state: usize,
        stranger: bool,
        answers: u8,
        how: bool,
    },
    Answer(usize),
    Fail(usize),
    Gone(usize, bool),
    Cancel(usize),
    Forget(usize),
    PrincipalGone(u64),
    Lost,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 0..6_usize;
    prop_oneof![
        6 => n.clone().prop_map(Step::Ask),
        8 => (0..12_usize, prop::bool::weighted(0.1), prop_oneof![3 => Just(0xff_u8), 1 => any::<u8>()], prop::bool::weighted(0.9))
            .prop_map(|(state, stranger, answers, how)| Step::Retry { state, stranger, answers, how }),
        2 => n.clone().prop_map(Step::Answer),
        1 => n.clone().prop_map(Step::Fail),
        1 => (n.clone(), any::<bool>()).prop_map(|(n, back)| Step::Gone(n, back)),
        1 => n.clone().prop_map(Step::Cancel),
        1 => n.prop_map(Step::Forget),
        1 => (0..3_u64).prop_map(Step::PrincipalGone),
        1 => Just(Step::Lost),
        2 => (0..200_u64).prop_map(Step::Pass),
    ]
}

/// What the adapter knows.
#[derive(Default)]
struct Books {
    /// Requests that are with the server, and whose they are.
    link: HashMap<Key, Principal>,
    held: HashMap<HeldKey, (Key, Principal)>,
    gone: HashSet<HeldKey>,
    open: HashSet<Question>,
    /// Questions that were ever asked.
    asked: HashSet<Question>,
    /// Answers that are kept and count as in flight.
    counted: HashSet<HeldKey>,
    /// States that were given out, with the questions shown, latest last.
    states: Vec<(String, HeldKey, Principal, Vec<Question>)>,
    next: u64,
}

struct World {
    held: Held<[Slot; SLOTS]>,
    now: Instant,
    server: u64,
    books: Books,
}

impl World {
    fn new() -> Self {
        let config =
            Config { patience: Duration::from_secs(60), per_principal: 2, kept: 2, ..Config::default() };
        let mut held = Held::new(config, Secret::new([3; 16]), [Slot::EMPTY; SLOTS]);
        held.handle_started(1);
        Self { held, now: Instant::ZERO, server: 1, books: Books::default() }
    }

    fn request(principal: Principal, rest: &str) -> (String, RequestParts) {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"n{}"{rest}}}}}"#,
            principal.0
        );
        let parts = RequestParts::of(&envelope::read(text.as_bytes()).unwrap()).unwrap();
        (text, parts)
    }

    fn live(&self, n: usize) -> Option<HeldKey> {
        let mut keys: Vec<HeldKey> =
            self.books.held.keys().copied().filter(|key| !self.books.gone.contains(key)).collect();
        keys.sort_by_key(|key| key.index());
        (!keys.is_empty()).then(|| keys[n % keys.len()])
    }

    fn show(&mut self, key: HeldKey) {
        let principal = self.books.held[&key].1;
        let state = String::from_utf8(self.held.state(key).unwrap().as_bytes().to_vec()).unwrap();
        let shown: Vec<Question> = self.held.shown(key).collect();
        for question in &shown {
            assert!(self.books.open.contains(question), "only what is open is shown");
        }
        if !self.books.states.iter().any(|(known, ..)| *known == state) {
            self.books.states.push((state, key, principal, shown));
        }
    }

    fn ask(&mut self, n: usize) {
        // Six calls of three principals, made as they are needed.
        let call = Key::from_wire((self.server << 20) + ((n as u64) << 16)).unwrap();
        let principal = Principal(n as u64 % 3);
        let ended =
            self.books.held.values().any(|(key, _)| *key == call) && !self.books.link.contains_key(&call);
        if ended {
            return;
        }
        let (text, parts) = Self::request(principal, "");
        self.books.next += 1;
        let mut random = [0; 16];
        random[..8].copy_from_slice(&self.books.next.to_le_bytes());
        let before = self.held.find(call);
        let used = self.held.used();
        let asked = self.held.hold(
            self.now,
            Asking {
                call,
                principal,
                kind: Kind::Form,
                method: Method::ToolsCall,
                frame: text.as_bytes(),
                params: parts.params,
                random,
            },
        );
        let Ok(asked) = asked else {
            assert_eq!((self.held.find(call), self.held.used()), (before, used), "a refusal changes nothing");
            return;
        };
        self.books.link.insert(call, principal);
        let key = asked.question.held;
        assert!(before.is_none_or(|before| before == key));
        self.books.held.insert(key, (call, principal));
        assert!(self.books.open.insert(asked.question));
        assert!(self.books.asked.insert(asked.question), "no question has the place of another");
        if asked.now {
            self.show(key);
        }
    }

    fn retry(&mut self, state: usize, stranger: bool, answers: u8, how: bool) {
        if self.books.states.is_empty() {
            return;
        }
        let at = self.books.states.len() - 1 - state % self.books.states.len();
        let (state, key, owner, shown) = self.books.states[at].clone();
        let principal = if stranger { Principal(owner.0 + 1) } else { owner };
        let responses: Vec<String> = (shown.iter().enumerate())
            .filter(|(place, _)| answers >> place & 1 == 1)
            .map(|(_, question)| {
                format!(r#""{}":{{"action":"accept","how":{how}}}"#, question.name().as_str())
            })
            .collect();
        let rest = format!(r#","inputResponses":{{{}}},"requestState":"{state}""#, responses.join(","));
        let (text, parts) = Self::request(owner, &rest);
        let retry = Retry {
            principal,
            method: Method::ToolsCall,
            frame: text.as_bytes(),
            params: parts.params.unwrap(),
        };
        let resumed = match self.held.handle_retry(self.now, retry) {
            Ok(resumed) => resumed,
            Err(lost) => {
                assert!(stranger == (lost == Lost::NotYours), "{lost:?}");
                return;
            }
        };
        assert!(!stranger, "a stranger found the call");
        assert_eq!(resumed.held, key);
        for (question, span) in &resumed.answers {
            assert!(self.books.open.remove(question), "answered once");
            assert!(shown.contains(question), "only what was shown with that state is answered");
            assert!(span.of(text.as_bytes()).starts_with(br#"{"action":"#));
        }
        let state_now = self.held.state(key);
        match resumed.then {
            Then::Ask => self.show(key),
            Then::Wait { call, .. } => assert_eq!(self.books.link.get(&call), Some(&owner)),
            Then::Answer { ends } => assert_eq!(ends, self.books.counted.remove(&key)),
            Then::Fail(failure) => assert_eq!(failure, LOST),
        }
        // The same again has the same outcome, and no effect.
        let again = self.held.handle_retry(self.now, retry);
        if self.books.gone.contains(&key) {
            return;
        }
        match (resumed.then, again) {
            // It was the last that is kept.
            (Then::Answer { .. } | Then::Fail(_), Err(Lost::Ended | Lost::OtherGeneration)) => {}
            (then, again) => {
                let again = again.unwrap();
                assert!(again.answers.is_empty());
                assert_eq!(self.held.state(key), state_now);
                match then {
                    Then::Wait { call, .. } => assert_eq!(again.then, Then::Wait { call, instead: true }),
                    Then::Answer { .. } => assert_eq!(again.then, Then::Answer { ends: false }),
                    then => assert_eq!(again.then, then),
                }
            }
        }
    }

    fn end(&mut self, n: usize, failure: Option<Failure>) {
        let Some(key) = self.live(n) else { return };
        let call = self.books.held[&key].0;
        if self.books.link.remove(&call).is_none() {
            return;
        }
        let fate = match failure {
            None => self.held.handle_answer(self.now, call),
            Some(failure) => self.held.handle_failure(self.now, call, failure),
        };
        match fate {
            Some(Fate::Deliver(found)) => assert_eq!(found, key),
            Some(Fate::Keep(found)) => {
                assert_eq!(found, key);
                if failure.is_none() {
                    self.books.counted.insert(key);
                }
            }
            None => panic!("it is held"),
        }
    }

    fn step(&mut self, step: Step) {
        let timed = matches!(step, Step::Pass(_));
        match step {
            Step::Ask(n) => self.ask(n),
            Step::Retry { state, stranger, answers, how } => self.retry(state, stranger, answers, how),
            Step::Answer(n) => self.end(n, None),
            Step::Fail(n) => self.end(n, Some(LOST)),
            Step::Gone(n, may_return) => {
                if let Some(key) = self.live(n) {
                    self.held.handle_gone(self.now, key, may_return);
                }
            }
            Step::Cancel(n) => {
                if let Some(key) = self.live(n) {
                    self.held.cancel(key);
                }
            }
            Step::Forget(n) => {
                if let Some(key) = self.live(n) {
                    self.held.forget(key);
                }
            }
            Step::PrincipalGone(n) => self.held.handle_principal_gone(Principal(n)),
            Step::Lost => {
                self.held.handle_lost();
                for call in core::mem::take(&mut self.books.link).into_keys() {
                    if let Some(Fate::Keep(_) | Fate::Deliver(_)) =
                        self.held.handle_failure(self.now, call, LOST)
                    {}
                }
                self.server += 1;
                self.held.handle_started(self.server);
            }
            Step::Pass(seconds) => {
                self.now = self.now.after(Duration::from_secs(seconds));
                self.held.handle_timeout(self.now);
            }
        }
        self.drain();
        assert!(self.held.used() <= SLOTS);
        if timed {
            assert!(self.held.poll_timeout().is_none_or(|at| at > self.now), "nothing is overdue");
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.held.poll_output() {
            match output {
                Output::Withdraw { question, .. } => assert!(self.books.open.remove(&question), "ended once"),
                Output::Cancel { call } => {
                    assert!(self.books.link.remove(&call).is_some(), "it is with the server");
                    assert_eq!(self.held.handle_failure(self.now, call, LOST), None);
                }
                Output::Forget { held, ends } => {
                    assert!(self.books.gone.insert(held), "forgotten once");
                    assert_eq!(ends, self.books.counted.remove(&held));
                    assert!(self.books.open.iter().all(|question| question.held != held));
                    assert!(!self.books.link.contains_key(&self.books.held[&held].0));
                }
            }
        }
        assert_eq!(self.held.used(), self.books.held.len() - self.books.gone.len());
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_doubled_or_shown_to_others(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        // In the end only time passes, and whoever waits goes.
        while let Some(key) = world.live(0) {
            world.held.handle_gone(world.now, key, true);
            match world.held.poll_timeout() {
                Some(at) => {
                    world.now = world.now.max(at);
                    world.held.handle_timeout(world.now);
                }
                None => world.held.cancel(key),
            }
            world.drain();
        }
        prop_assert_eq!(world.held.used(), 0);
        prop_assert!(world.books.open.is_empty() && world.books.counted.is_empty() && world.books.link.is_empty());
        prop_assert_eq!(world.held.poll_timeout(), None);
    }
}
