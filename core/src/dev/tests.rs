//! The machine against a server and a builder that take their time, on a virtual clock.

use std::vec::Vec;

use proptest::prelude::*;

use super::names::{DevTool, Unknown, may_be_repeated, ours_in};
use super::*;
use crate::span::Span;

const SECOND: Duration = Duration::from_secs(1);
const PLAIN: Wish = Wish { rebuild: false, env: false };
const REBUILD: Wish = Wish { rebuild: true, env: false };

struct World {
    dev: Dev,
    now: Instant,
    view: View,
    /// Restarts that were begun, builds that were begun, and what was told.
    restarts: Vec<u64>,
    builds: Vec<u64>,
    done: Vec<(u64, Verdict)>,
    holds: bool,
    aborted: usize,
    forgiven: usize,
    /// Whether files that change differ, and how often that was asked, and what was said of it.
    differ: bool,
    compared: usize,
    stalled: usize,
}

impl World {
    fn new(config: Config) -> Self {
        Self {
            dev: Dev::new(config),
            now: Instant::from_millis(1000),
            view: View { standing: Standing::Down, generation: 0, busy: false },
            restarts: Vec::new(),
            builds: Vec::new(),
            done: Vec::new(),
            holds: false,
            aborted: 0,
            forgiven: 0,
            differ: true,
            compared: 0,
            stalled: 0,
        }
    }

    fn up() -> Self {
        let mut world = Self::new(Config { builds: true, ..Config::default() });
        world.server(Standing::Up, 1);
        world
    }

    fn server(&mut self, standing: Standing, generation: u64) {
        self.view = View { standing, generation, ..self.view };
        self.tell();
    }

    fn busy(&mut self, busy: bool) {
        self.view.busy = busy;
        self.tell();
    }

    fn tell(&mut self) {
        self.dev.handle_server(self.now, self.view);
        self.drain();
    }

    fn submit(&mut self, wish: Wish) -> Job {
        let job = self.dev.submit(self.now, wish).unwrap();
        self.drain();
        job
    }

    fn built(&mut self, built: Built) {
        self.dev.handle_built(self.now, built);
        self.drain();
    }

    fn pass(&mut self, by: Duration) {
        let until = self.now.after(by);
        while let Some(at) = self.dev.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.dev.handle_timeout(self.now);
            self.drain();
        }
        self.now = until;
        self.dev.handle_timeout(self.now);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(action) = self.dev.poll_action() {
            match action {
                Action::Hold(holds) => {
                    assert_ne!(self.holds, holds, "told twice");
                    self.holds = holds;
                }
                Action::Build { job } => self.builds.push(job.number()),
                Action::AbortBuild => self.aborted += 1,
                Action::Restart { job } => self.restarts.push(job.number()),
                Action::Forgive => self.forgiven += 1,
                Action::Compare => {
                    self.compared += 1;
                    self.dev.handle_compared(self.now, self.differ);
                }
                Action::Stalled => self.stalled += 1,
                Action::Done { job, verdict } => self.done.push((job.number(), verdict)),
            }
        }
    }
}

#[test]
fn a_restart_ends_with_the_next_generation() {
    let mut world = World::up();
    world.submit(PLAIN);
    assert_eq!(world.restarts, [1]);
    world.server(Standing::Stopping, 1);
    world.server(Standing::Starting, 2);
    assert!(world.done.is_empty() && world.dev.is_restarting());
    world.server(Standing::Up, 2);
    assert_eq!(world.done, [(1, Verdict::Restarted)]);
}

#[test]
fn one_failure_does_not_poison_the_queue() {
    let mut world = World::up();
    world.submit(PLAIN);
    world.submit(REBUILD);
    world.submit(REBUILD);
    world.submit(PLAIN);
    world.server(Standing::Down, 2);
    assert_eq!(world.done, [(1, Verdict::StartFailed)]);
    world.built(Built::Failed);
    assert_eq!(world.done.last(), Some(&(2, Verdict::BuildFailed)));
    assert_eq!(world.restarts, [1], "a failed build restarts nothing");
    assert_eq!(world.builds, [2, 3]);
    world.built(Built::Changed);
    world.server(Standing::Up, 3);
    assert_eq!(world.done.last(), Some(&(3, Verdict::Restarted)));
    world.server(Standing::Up, 4);
    assert_eq!(world.done.last(), Some(&(4, Verdict::Restarted)));
    assert_eq!(world.restarts, [1, 3, 4]);
}

#[test]
fn a_build_that_changed_nothing_restarts_nothing_unless_it_has_to() {
    let mut world = World::up();
    world.submit(REBUILD);
    world.built(Built::Unchanged);
    assert_eq!((world.done.as_slice(), world.restarts.len()), (&[(1, Verdict::Unchanged)][..], 0));
    world.submit(Wish { rebuild: true, env: true });
    world.built(Built::Unchanged);
    assert_eq!(world.restarts, [2], "its environment is another one");
    world.server(Standing::Up, 2);
    world.server(Standing::Down, 2);
    world.submit(REBUILD);
    world.built(Built::Unchanged);
    assert_eq!(world.restarts, [2, 3], "nothing runs that could stay");
}

#[test]
fn what_is_under_way_is_waited_for_and_nothing_else_is_sent() {
    let mut world = World::up();
    world.busy(true);
    world.submit(PLAIN);
    assert!(world.holds && world.restarts.is_empty());
    world.pass(SECOND);
    world.busy(false);
    assert_eq!(world.restarts, [1]);
    world.server(Standing::Stopping, 1);
    assert!(world.holds);
    world.server(Standing::Up, 2);
    assert!(!world.holds);

    world.busy(true);
    world.submit(PLAIN);
    world.pass(Duration::from_millis(4999));
    assert_eq!(world.restarts, [1]);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.restarts, [1, 2], "not for ever");
}

#[test]
fn a_start_that_is_under_way_is_not_cut_short_at_once() {
    let mut world = World::up();
    world.server(Standing::Starting, 2);
    world.submit(PLAIN);
    assert!(world.restarts.is_empty());
    world.server(Standing::Up, 2);
    assert_eq!(world.restarts, [1]);
    world.server(Standing::Up, 3);
    world.server(Standing::Starting, 4);
    world.submit(PLAIN);
    world.pass(Duration::from_secs(5));
    assert_eq!(world.restarts, [1, 2], "a start that hangs is");
}

#[test]
fn a_build_has_a_limit_and_its_end_is_awaited() {
    let mut world = World::up();
    world.submit(REBUILD);
    world.pass(Duration::from_secs(600));
    assert_eq!((world.aborted, world.done.len()), (1, 0));
    world.built(Built::Changed);
    assert_eq!(world.done, [(1, Verdict::BuildTimedOut)]);
    assert!(world.restarts.is_empty());
}

#[test]
fn at_the_end_nothing_is_begun_any_more() {
    let mut world = World::up();
    world.submit(REBUILD);
    world.submit(PLAIN);
    world.dev.handle_changed(world.now);
    world.dev.close();
    world.drain();
    assert_eq!(world.done, [(2, Verdict::ShuttingDown)]);
    assert_eq!(world.aborted, 1);
    world.built(Built::Changed);
    assert_eq!(world.done.last(), Some(&(1, Verdict::ShuttingDown)));
    world.pass(Duration::from_secs(1000));
    assert!(world.restarts.is_empty() && world.builds == [1]);
    assert_eq!(world.dev.submit(world.now, PLAIN), Err(Refused::ShuttingDown));
}

#[test]
fn who_gave_up_before_its_turn_gets_none() {
    let mut world = World::up();
    world.submit(REBUILD);
    let second = world.submit(PLAIN);
    assert!(world.dev.cancel(second.number()));
    world.built(Built::Failed);
    assert!(world.restarts.is_empty());
    assert_eq!(world.done, [(1, Verdict::BuildFailed)]);
    assert_eq!(world.dev.waiting(), 0);
}

#[test]
fn files_settle_before_a_build_and_change_once_more_during_it() {
    let mut world = World::up();
    world.dev.handle_changed(world.now);
    for _ in 0..5 {
        world.pass(Duration::from_millis(100));
        world.dev.handle_changed(world.now);
        assert!(world.builds.is_empty());
    }
    world.pass(Duration::from_millis(200));
    assert_eq!(world.builds.len(), 1);
    // Twice while it runs are one more.
    for _ in 0..2 {
        world.dev.handle_changed(world.now);
        world.pass(Duration::from_millis(300));
    }
    world.built(Built::Changed);
    world.server(Standing::Up, 2);
    assert_eq!((world.builds.len(), world.compared), (1, 1), "its own files have to come to rest, too");
    world.pass(Duration::from_millis(200));
    assert_eq!((world.builds.len(), world.restarts.len()), (2, 1));
    world.built(Built::Unchanged);
    world.pass(Duration::from_secs(10));
    assert_eq!((world.builds.len(), world.restarts.len()), (2, 1));
}

/// One build of a world whose files change with each, or right after it.
fn build_that_changes_files(world: &mut World, during: bool) {
    if during {
        world.dev.handle_changed(world.now);
    }
    world.built(Built::Changed);
    let next = world.view.generation + 1;
    world.server(Standing::Up, next);
    if !during {
        world.pass(Duration::from_millis(150));
        world.dev.handle_changed(world.now);
    }
    world.pass(SECOND);
}

#[test]
fn a_build_that_changes_what_is_watched_does_not_go_on_for_ever() {
    for during in [true, false] {
        let mut world = World::up();
        world.dev.handle_changed(world.now);
        world.pass(SECOND);
        while world.dev.is_building() && world.builds.len() < 20 {
            build_that_changes_files(&mut world, during);
        }
        assert_eq!((world.builds.len(), world.stalled), (4, 1), "{during}");
        assert!(world.dev.is_stalled() && world.dev.poll_timeout().is_none());
        // Something else changes: it is built, and what that changes once more. It is said once.
        world.dev.handle_changed(world.now);
        world.pass(SECOND);
        assert!(!world.dev.is_stalled());
        while world.dev.is_building() && world.builds.len() < 20 {
            build_that_changes_files(&mut world, during);
        }
        assert_eq!((world.builds.len(), world.stalled), (6, 1), "{during}");
        // Whoever asks for a build gets it.
        world.submit(REBUILD);
        assert_eq!(world.builds.len(), 7);
    }
}

#[test]
fn files_that_are_what_they_were_are_no_change() {
    let mut world = World::up();
    world.dev.handle_changed(world.now);
    world.pass(SECOND);
    assert_eq!(world.builds.len(), 1);
    world.differ = false;
    build_that_changes_files(&mut world, true);
    world.dev.handle_changed(world.now);
    world.pass(SECOND);
    assert_eq!((world.builds.len(), world.compared, world.stalled), (1, 3, 0));
    assert!(!world.dev.is_active());
    // It is not asked any more at the end.
    world.dev.handle_changed(world.now);
    world.dev.close();
    world.pass(SECOND);
    assert_eq!(world.compared, 3);
}

#[test]
fn changes_of_others_are_built_each_time() {
    let mut world = World::up();
    for turn in 1..20 {
        world.dev.handle_changed(world.now);
        world.pass(SECOND);
        assert_eq!(world.builds.len(), turn);
        world.built(Built::Changed);
        world.server(Standing::Up, turn as u64 + 1);
        world.pass(SECOND);
    }
    assert_eq!(world.stalled, 0);
}

#[test]
fn files_that_never_rest_are_built_all_the_same() {
    let mut world = World::up();
    for _ in 0..25 {
        world.dev.handle_changed(world.now);
        world.pass(Duration::from_millis(100));
    }
    assert_eq!(world.builds.len(), 1);
}

#[test]
fn a_server_that_rests_is_not_started_because_files_changed() {
    let mut world = World::new(Config::default());
    world.dev.handle_changed(world.now);
    world.pass(SECOND);
    assert!(world.restarts.is_empty() && world.builds.is_empty());
    assert_eq!(world.forgiven, 1, "what crashed before is another one now");
    world.submit(PLAIN);
    assert_eq!(world.restarts.len(), 1, "somebody who asks is another matter");
}

#[test]
fn a_server_that_crashed_is_started_again_because_files_changed() {
    let mut world = World::up();
    world.server(Standing::Crashed, 1);
    world.dev.handle_changed(world.now);
    world.pass(SECOND);
    assert!(world.restarts.is_empty() && world.builds == [1]);
    world.built(Built::Failed);
    assert!(world.restarts.is_empty(), "it is what it was");
    for (turn, built) in [(2, Built::Changed), (3, Built::Unchanged)] {
        world.dev.handle_changed(world.now);
        world.pass(SECOND);
        world.built(built);
        assert_eq!(world.restarts.last(), Some(&turn));
        world.server(Standing::Crashed, turn);
        assert_eq!(world.done.last(), Some(&(turn, Verdict::StartFailed)));
    }
    // One that crashes while it is built is no other matter.
    world.server(Standing::Up, 4);
    world.pass(SECOND);
    world.dev.handle_changed(world.now);
    world.pass(SECOND);
    world.server(Standing::Crashed, 4);
    world.built(Built::Changed);
    assert_eq!((world.restarts.last(), world.forgiven), (Some(&4), 0));
}

#[test]
fn what_cannot_be_done_is_refused_at_once() {
    let mut dev = Dev::new(Config::default());
    let now = Instant::ZERO;
    assert_eq!(dev.submit(now, REBUILD), Err(Refused::NoBuild));
    let mut jobs = 0;
    while dev.submit(now, PLAIN).is_ok() {
        jobs += 1;
        assert!(jobs <= QUEUE, "bounded");
    }
    assert_eq!(dev.submit(now, PLAIN), Err(Refused::Full));
}

#[test]
fn names_are_the_proxys_by_how_they_begin() {
    assert_eq!(DevTool::of_call(br#""dev_restart""#), Some(Ok(DevTool::Restart)));
    assert_eq!(DevTool::of_call(br#""\u0064ev_logs""#), Some(Ok(DevTool::Logs)));
    assert_eq!(DevTool::of_call(br#""dev_other""#), Some(Err(Unknown)));
    assert_eq!(DevTool::of_call(br#""device""#), None);
    assert_eq!(DevTool::of_call(br#""dev""#), None);
    assert_eq!(DevTool::of_call(b"7"), None);
    let list = br#"[{"name":"a"},{"name":"dev_x"},{"n":1},{"name":"dev_status"}]"#;
    let places: Vec<usize> = ours_in(list, Span::new(0, list.len())).collect();
    assert_eq!(places, [1, 3]);
    for (tool, may) in [
        (&br#"{"annotations":{"readOnlyHint":true}}"#[..], true),
        (br#"{"annotations":{"idempotentHint":true,"readOnlyHint":false}}"#, true),
        (br#"{"annotations":{"idempotentHint":"true"}}"#, false),
        (br#"{"readOnlyHint":true}"#, false),
    ] {
        assert_eq!(may_be_repeated(tool, Span::new(0, tool.len())), may);
    }
}

#[derive(Clone, Debug)]
enum Move {
    Submit(Wish),
    Cancel(u8),
    Changed,
    Built(Built),
    Server(Standing, bool, bool),
    Pass(u64),
    Close,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let wish = (any::<bool>(), any::<bool>()).prop_map(|(rebuild, env)| Wish { rebuild, env });
    let built = prop_oneof![Just(Built::Changed), Just(Built::Unchanged), Just(Built::Failed)];
    let standing = prop_oneof![
        Just(Standing::Down),
        Just(Standing::Crashed),
        Just(Standing::Starting),
        Just(Standing::Up),
        Just(Standing::Stopping)
    ];
    let one = prop_oneof![
        4 => wish.prop_map(Move::Submit),
        1 => any::<u8>().prop_map(Move::Cancel),
        2 => Just(Move::Changed),
        4 => built.prop_map(Move::Built),
        6 => (standing, any::<bool>(), any::<bool>()).prop_map(|(s, n, b)| Move::Server(s, n, b)),
        3 => (0_u64..700_000).prop_map(Move::Pass),
        1 => Just(Move::Close),
    ];
    prop::collection::vec(one, 0..60)
}

proptest! {
    /// Each job that was accepted and not given up comes back once, in order, and the queue never stands still.
    #[test]
    fn every_job_ends_once_and_in_order(moves in moves()) {
        let mut world = World::new(Config { builds: true, ..Config::default() });
        let mut accepted = Vec::new();
        let mut closed = false;
        for step in moves {
            match step {
                Move::Submit(wish) => {
                    if let Ok(job) = world.dev.submit(world.now, wish) {
                        prop_assert!(!closed);
                        accepted.push(job);
                    }
                    world.drain();
                }
                Move::Cancel(index) => {
                    if let Some(job) = accepted.get(usize::from(index)).copied() {
                        if world.dev.cancel(job.number()) {
                            accepted.retain(|one| *one != job);
                        }
                        world.drain();
                    }
                }
                Move::Changed => world.dev.handle_changed(world.now),
                Move::Built(built) => world.built(built),
                Move::Server(standing, next, busy) => {
                    world.view.busy = busy;
                    let generation = world.view.generation + u64::from(next);
                    world.server(standing, generation);
                }
                Move::Pass(millis) => world.pass(Duration::from_millis(millis)),
                Move::Close => {
                    world.dev.close();
                    world.drain();
                    closed = true;
                }
            }
            let restarts = world.restarts.len();
            if closed {
                world.server(world.view.standing, world.view.generation);
                prop_assert_eq!(world.restarts.len(), restarts, "nothing is begun after the end");
            }
        }
        // From here on everything goes well.
        for _ in 0..100 {
            if world.dev.is_building() {
                world.built(Built::Changed);
            }
            let generation = world.view.generation + 1;
            world.view.busy = false;
            world.server(Standing::Up, generation);
            world.pass(Duration::from_secs(1));
        }
        prop_assert!(!world.dev.is_building() && !world.dev.is_restarting());
        prop_assert!(!world.holds);
        prop_assert_eq!(world.dev.waiting(), 0);
        let numbers: Vec<u64> = world.done.iter().map(|(job, _)| *job).collect();
        for job in &accepted {
            let times = numbers.iter().filter(|one| **one == job.number()).count();
            prop_assert_eq!(times, 1, "of job {}", job.number());
        }
        if !closed {
            prop_assert!(numbers.is_sorted(), "{:?}", numbers);
        }
    }
}
