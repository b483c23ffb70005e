//! What holds for pending tasks whatever happens, in whatever order.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::HashMap;

use drowse_core::envelope;
use drowse_core::method::Method;
use drowse_core::splice::RequestParts;
use drowse_core::tasks::{Asked, Full, Seen, Sight, Slot, Status, TaskKey, Tasks, UNHEARD};
use drowse_core::time::{Duration, Instant};
use proptest::prelude::*;

const SLOTS: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Create(Status, Option<u64>),
    /// The task of that number is seen.
    See(usize, Status, Option<u64>),
    Over(usize),
    Lost,
    Pass(u64),
    /// The adapter asks what is over.
    Drain,
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![
        5 => Just(Status::Working),
        2 => Just(Status::InputRequired),
        1 => Just(Status::Completed),
        1 => Just(Status::Failed),
        1 => Just(Status::Cancelled),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let ttl = prop::option::of(prop_oneof![0..200_u64, Just(u64::MAX)]);
    prop_oneof![
        4 => (status(), ttl.clone()).prop_map(|(status, ttl)| Step::Create(status, ttl)),
        4 => (0..8_usize, status(), ttl).prop_map(|(n, status, ttl)| Step::See(n, status, ttl)),
        1 => (0..8_usize).prop_map(Step::Over),
        1 => Just(Step::Lost),
        2 => prop_oneof![0..100_u64, Just(UNHEARD.as_secs())].prop_map(Step::Pass),
        3 => Just(Step::Drain),
    ]
}

/// What an adapter keeps, and a plain account of what should be.
#[derive(Default)]
struct World {
    now: u64,
    /// Until when each should pend, and since when it does.
    pending: HashMap<TaskKey, (u64, u64)>,
    over: Vec<TaskKey>,
    /// Every key that was ever given, in order.
    keys: Vec<TaskKey>,
    deferrals: i64,
}

impl World {
    fn until(created: u64, now: u64, ttl: Option<u64>) -> u64 {
        match ttl {
            Some(ttl) => created.saturating_add(ttl),
            None => now.saturating_add(UNHEARD.as_secs()),
        }
    }

    fn end(&mut self, key: TaskKey) {
        if self.pending.remove(&key).is_some() {
            self.over.push(key);
        }
    }

    fn step(&mut self, tasks: &mut Tasks<[Slot; SLOTS]>, step: &Step) {
        let at = Instant::from_millis(self.now * 1000);
        let secs = |ttl: Option<u64>| ttl.map(Duration::from_secs);
        match *step {
            Step::Create(status, ttl) => match tasks.handle_created(at, status, secs(ttl)) {
                Ok(Some(key)) => {
                    assert!(!self.keys.contains(&key), "a key is never used twice");
                    self.keys.push(key);
                    self.pending.insert(key, (Self::until(self.now, self.now, ttl), self.now));
                    self.deferrals += 1;
                }
                Ok(None) => assert!(status.is_final() || ttl == Some(0)),
                Err(Full) => assert_eq!(self.pending.len() + self.over.len(), SLOTS),
            },
            Step::See(n, status, ttl) => {
                let Some(key) = self.keys.get(n).copied() else { return };
                tasks.handle_seen(at, key, status, secs(ttl));
                if status.is_final() {
                    self.end(key);
                } else if let Some((until, created)) = self.pending.get_mut(&key) {
                    *until = Self::until(*created, self.now, ttl);
                }
            }
            Step::Over(n) => {
                let Some(key) = self.keys.get(n).copied() else { return };
                tasks.handle_over(key);
                self.end(key);
            }
            Step::Lost => {
                tasks.handle_lost();
                for key in self.pending.keys().copied().collect::<Vec<_>>() {
                    self.end(key);
                }
            }
            Step::Pass(secs) => {
                self.now += secs;
                tasks.handle_timeout(Instant::from_millis(self.now * 1000));
                let now = self.now;
                let due = self.pending.iter().filter(|(_, (until, _))| now >= *until);
                for key in due.map(|(key, _)| *key).collect::<Vec<_>>() {
                    self.end(key);
                }
            }
            Step::Drain => {
                while let Some(key) = tasks.poll_over() {
                    let place = self.over.iter().position(|over| *over == key);
                    self.over
                        .remove(place.unwrap_or_else(|| panic!("{key:?} is not over, or was told before")));
                    self.deferrals -= 1;
                }
                assert!(self.over.is_empty(), "not told: {:?}", self.over);
            }
        }
        assert_eq!(tasks.used(), self.pending.len());
        for key in &self.keys {
            assert_eq!(tasks.is_pending(*key), self.pending.contains_key(key));
        }
        let next = self.pending.values().map(|(until, _)| *until).min();
        let next = next.map(|secs| Instant::ZERO.after(Duration::from_secs(secs)));
        assert_eq!(tasks.poll_timeout(), next);
    }
}

proptest! {
    #[test]
    fn each_pending_task_defers_and_stops_deferring_once(steps in prop::collection::vec(step(), 0..60)) {
        let mut tasks = Tasks::new([Slot::EMPTY; SLOTS]);
        let mut world = World::default();
        for step in &steps {
            world.step(&mut tasks, step);
        }
        for last in [Step::Lost, Step::Drain] {
            world.step(&mut tasks, &last);
        }
        assert_eq!(world.deferrals, 0);
    }

    /// No answer, however malformed, is more than it says.
    #[test]
    fn answers_are_read_as_json_has_them(
        id in any::<String>(),
        word in prop_oneof!["working", "completed", "input_required", ".*"],
        ttl in prop::option::of(any::<u64>()),
        nested in any::<bool>(),
        asked in 0..6_usize,
    ) {
        let task = serde_json::json!({"taskId": id, "status": word, "ttl": ttl});
        let result = if nested {
            serde_json::json!({"task": task})
        } else {
            let mut task = task;
            task["resultType"] = "task".into();
            task
        };
        let frame = serde_json::json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
        let frame = frame.as_bytes();
        let asked = [Asked::Nothing, Asked::Call, Asked::Get, Asked::Result, Asked::List, Asked::Cancel][asked];
        let sight = match asked.seen(frame, &envelope::read(frame).unwrap()) {
            Seen::Created(sight) => { assert_eq!(asked, Asked::Call); sight }
            Seen::State(sight) => { assert!(!nested); sight }
            _ => return Ok(()),
        };
        let Sight { id: span, status, ttl: read } = sight;
        assert_eq!(serde_json::from_slice::<String>(span.of(frame)).unwrap(), id);
        let known = ["input_required", "completed", "failed", "cancelled"].contains(&word.as_str());
        assert_eq!(status.name() == word, known || word == "working");
        assert_eq!(read, ttl.map(Duration::from_millis));
    }

    #[test]
    fn any_request_is_asked_something(method in "tasks/(get|result|list|cancel|update|.*)", prepared in any::<bool>()) {
        let frame = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"taskId": "x"}}).to_string();
        let frame = frame.as_bytes();
        let parts = RequestParts::of(&envelope::read(frame).unwrap()).unwrap();
        let asked = Asked::of(frame, &parts, Method::Tasks, prepared);
        let of_one = matches!(asked, Asked::Get | Asked::Result | Asked::Cancel);
        assert_eq!(asked.task(frame, &parts).is_some(), of_one);
    }
}
