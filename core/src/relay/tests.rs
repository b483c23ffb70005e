//! One relay between clients and a server of either era, each checked against what it must come to.

#![expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]

use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::link::{Cause, Ran};

mod orders;
mod own;
mod play;
mod world;

use self::world::*;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

#[test]
fn each_hears_its_own_and_nothing_else() {
    for era in ERAS {
        let mut world = World::up(era);
        let one = world.listen(&[1, 2], Lists::NONE);
        let two = world.listen(&[2, 3], Lists::NONE.with(List::Tools));
        world.settle();
        assert_eq!(world.announced(), [1, 2, 3].into());
        assert!(world.relay.defers());
        assert_eq!((world.told(one), world.told(two)), (vec![Told::Acknowledged], vec![Told::Acknowledged]));
        for (client, told) in [(one, [1, 2]), (two, [2, 3])] {
            for text in 1..=3 {
                world.touch(text);
                world.settle();
            }
            assert_eq!(world.told(client), told.map(Told::Updated));
            world.told(if client == one { two } else { one });
        }
        world.change(List::Tools);
        world.change(List::Prompts);
        world.settle();
        assert_eq!((world.told(one), world.told(two)), (vec![], vec![Told::Changed(List::Tools)]));
        world.leave(two);
        world.settle();
        assert_eq!(world.announced(), [1, 2].into(), "{era:?}");
        world.leave(one);
        world.settle();
        assert_eq!((world.announced(), world.relay.used()), ([].into(), 0), "{era:?}");
        assert!(!world.relay.defers());
    }
}

#[test]
fn what_nobody_wants_is_not_wanted_before_the_server_knows() {
    for era in ERAS {
        let mut world = World::up(era);
        let (one, two) = (world.listen(&[1], Lists::NONE), world.listen(&[1, 2], Lists::NONE));
        world.settle();
        let (shared, other) = (world.texts[&1], world.texts[&2]);
        assert!(world.relay.is_wanted(shared) && world.relay.is_wanted(other));
        world.leave(two);
        assert!(world.relay.is_wanted(shared) && !world.relay.is_wanted(other), "{era:?}");
        world.leave(one);
        assert!(!world.relay.is_wanted(shared), "{era:?}");
        assert_eq!(world.announced(), [1, 2].into(), "the server was not told yet");
        world.settle();
        assert!(!world.relay.is_wanted(shared));
        // Its slot is somebody else's by now.
        world.listen(&[3], Lists::NONE);
        assert!(!world.relay.is_wanted(shared) && !world.relay.is_wanted(other));
    }
}

#[test]
fn tasks_are_heard_of_where_there_are_such_and_keep_nothing_awake() {
    for era in ERAS {
        let mut world = World::up(era);
        let both = world.listen(&[1, TASK], Lists::NONE);
        let task = world.listen(&[TASK], Lists::NONE);
        world.settle();
        let modern = era == Era::Modern;
        assert_eq!(world.announced(), if modern { [1, TASK].into() } else { [1].into() });
        assert_eq!(
            (world.told(both), world.told(task)),
            (vec![Told::Acknowledged], vec![Told::Acknowledged])
        );
        assert_eq!(world.clients[task].uris, if modern { [TASK].into() } else { [].into() });
        assert!(world.relay.defers());
        world.leave(both);
        world.settle();
        assert!(!world.relay.defers());
        world.touch(TASK);
        world.settle();
        let updated = if modern { vec![Told::Updated(TASK)] } else { Vec::new() };
        assert_eq!(world.told(task), updated);
        // Of another server nothing can be said of it before that says something.
        world.lose();
        world.start();
        world.settle();
        assert_eq!(world.told(task), []);
        world.touch(TASK);
        world.settle();
        assert_eq!(world.told(task), updated);
        world.leave(task);
        world.settle();
        assert_eq!((world.announced(), world.relay.used()), ([].into(), 0), "{era:?}");
    }
}

#[test]
fn tasks_that_are_not_to_be_had_are_left_out_and_are_no_error() {
    for refused in [None, Some(-32602), Some(-32603)] {
        let mut world = World::up(Era::Modern);
        let tasks = refused.is_some();
        world.relay.handle_offers(Offers { lists: Lists::ALL, subscribe: true, tasks });
        if let Some(code) = refused {
            world.refuses.insert(TASK, code);
        }
        let alone = world.listen(&[TASK], Lists::NONE);
        let one = world.listen(&[1, TASK], Lists::NONE.with(List::Tools));
        world.settle();
        assert_eq!(
            (world.told(alone), world.told(one)),
            (vec![Told::Acknowledged], vec![Told::Acknowledged])
        );
        assert_eq!((world.clients[alone].uris.len(), &world.clients[one].uris), (0, &[1].into()));
        assert_eq!(world.announced(), [1].into());
        world.leave(one);
        assert!(!world.relay.defers());
        world.leave(alone);
        world.settle();
        assert_eq!(world.relay.used(), 0, "{refused:?}");
    }
}

#[test]
fn a_legacy_server_is_asked_once_for_each_uri() {
    let mut world = World::up(Era::Legacy);
    let clients: Vec<usize> = (0..3).map(|_| world.listen(&[1], Lists::NONE)).collect();
    world.settle();
    assert_eq!(world.asked.len(), 1);
    world.leave(clients[0]);
    world.leave(clients[1]);
    world.settle();
    assert_eq!(world.asked.len(), 1, "somebody wants it");
    world.lose();
    world.start();
    world.settle();
    assert_eq!(world.asked.len(), 2, "again after a start");
    assert_eq!(world.told(clients[2]), [Told::Acknowledged, Told::Updated(1)], "it may have changed");
}

#[test]
fn a_modern_server_has_one_stream_and_the_new_one_is_open_before_the_old_is_closed() {
    let mut world = World::up(Era::Modern);
    world.listen(&[1], Lists::NONE);
    world.settle();
    assert_eq!(world.open_streams(), [(1, 1)]);
    world.listen(&[2], Lists::NONE);
    assert!(world.serve());
    assert_eq!(world.open_streams(), [(1, 1), (2, 2)]);
    assert!(world.hear(0));
    assert!(matches!(world.asked.last(), Some(Step::Cancel { wire: 1 })));
    world.settle();
    assert_eq!(world.open_streams(), [(2, 2)]);
}

#[test]
fn what_both_streams_say_is_passed_on_once() {
    for http in [false, true] {
        let mut world = World::new(Era::Modern, http);
        world.start();
        let one = world.listen(&[1], Lists::ALL);
        world.settle();
        world.told(one);
        world.listen(&[2], Lists::NONE);
        // Said before the new stream is open, and then on both.
        world.touch(1);
        world.serve();
        world.touch(1);
        world.change(List::Tools);
        world.settle();
        let told = world.told(one);
        let updates = told.iter().filter(|told| **told == Told::Updated(1)).count();
        assert_eq!((updates, told.len()), (2, 3), "http: {http}, {told:?}");
        world.pass(OVERLAP);
        assert_eq!(world.open_streams().len(), 1);
        world.touch(1);
        world.settle();
        assert_eq!(world.told(one), [Told::Updated(1)]);
    }
}

#[test]
fn subscribe_and_unsubscribe_in_quick_succession() {
    for era in ERAS {
        let mut world = World::up(era);
        let first = world.listen(&[1], Lists::NONE);
        world.leave(first);
        world.settle();
        assert_eq!((world.announced(), world.relay.used()), ([].into(), 0), "{era:?}");
        let second = world.listen(&[1], Lists::NONE);
        world.settle();
        world.leave(second);
        let third = world.listen(&[1], Lists::NONE);
        world.settle();
        assert_eq!(world.announced(), [1].into(), "{era:?}");
        assert_eq!(world.told(third), [Told::Acknowledged]);
        world.touch(1);
        world.settle();
        assert_eq!(world.told(third), [Told::Updated(1)]);
    }
}

#[test]
fn what_is_wanted_while_the_server_is_down_is_expressed_at_its_start() {
    for era in ERAS {
        let mut world = World::new(era, false);
        let one = world.listen(&[1], Lists::NONE);
        let lists = world.listen(&[], Lists::ALL);
        assert_eq!(world.told(lists), [Told::Acknowledged], "needs no server");
        assert_eq!(world.told(one), []);
        world.start();
        world.settle();
        assert_eq!((world.told(one), world.announced()), (vec![Told::Acknowledged], [1].into()));
    }
}

#[test]
fn refusals() {
    for era in ERAS {
        for (code, why) in [(-32602, Why::Gone), (-32002, Why::Gone), (-32603, Why::Refused)] {
            let mut world = World::up(era);
            world.refuses.insert(1, code);
            let old = world.listen(&[2, 3], Lists::NONE);
            world.settle();
            world.told(old);
            let one = world.listen(&[1], Lists::NONE);
            world.settle();
            let told = world.told(one);
            assert!(
                matches!(told[..], [Told::End(End::Refused { why: said, .. })] if said == why),
                "{era:?} {code}: {told:?}"
            );
            world.pass(Duration::from_secs(70));
            assert_eq!(world.announced(), [2, 3].into(), "{era:?} {code}");
            world.leave(old);
            world.pass(Duration::from_secs(70));
            assert_eq!(world.relay.used(), 0, "a refused one is not remembered");
        }
    }
}

#[test]
fn one_that_is_gone_after_a_start_is_dropped_and_the_others_are_expressed() {
    for era in ERAS {
        let mut world = World::up(era);
        let one = world.listen(&[1], Lists::NONE);
        let both = world.listen(&[1, 2, 3], Lists::NONE);
        world.settle();
        world.lose();
        world.refuses.insert(1, -32602);
        let gone = world.texts[&1];
        world.start();
        world.settle();
        assert_eq!(world.announced(), [2, 3].into(), "{era:?}");
        world.pass(Duration::from_secs(70));
        assert_eq!(world.refusals, [Some(gone)], "{era:?}: said once, by its name");
        let told = world.told(one);
        assert!(matches!(told[..], [Told::Acknowledged, Told::End(End::Refused { why: Why::Gone, .. })]));
        let told = world.told(both);
        assert!(told.contains(&Told::Updated(2)) && told.contains(&Told::Updated(3)), "{told:?}");
        assert!(world.clients[both].listener.is_some());
    }
}

#[test]
fn any_other_refusal_keeps_it_for_the_next_attempt() {
    for era in ERAS {
        let mut world = World::up(era);
        let one = world.listen(&[1, 2], Lists::NONE);
        world.settle();
        world.lose();
        world.refuses.insert(1, -32603);
        world.start();
        world.settle();
        assert!(world.clients[one].listener.is_some());
        world.refuses.clear();
        world.lose();
        world.start();
        world.settle();
        assert_eq!(world.announced(), [1, 2].into(), "{era:?}");
    }
}

#[test]
fn what_an_acknowledgement_leaves_out() {
    let mut world = World::up(Era::Modern);
    world.omits.insert(1);
    let one = world.listen(&[1], Lists::NONE);
    let both = world.listen(&[1, 2], Lists::NONE);
    world.settle();
    assert!(matches!(world.told(one)[..], [Told::End(End::Refused { why: Why::Omitted, .. })]));
    assert_eq!(world.told(both), [Told::Acknowledged]);
    world.touch(2);
    world.settle();
    assert_eq!(world.told(both), [Told::Updated(2)]);
}

#[test]
fn a_server_that_announces_nothing() {
    for era in ERAS {
        let mut world = World::new(era, false);
        world.relay.handle_offers(Offers { lists: Lists::NONE, subscribe: false, tasks: false });
        world.start();
        let one = world.listen(&[1], Lists::ALL);
        world.settle();
        assert!(matches!(world.told(one)[..], [Told::End(End::Refused { why: Why::Unsupported, .. })]));
        let lists = world.listen(&[], Lists::ALL);
        world.settle();
        assert_eq!(world.told(lists), [Told::Acknowledged]);
        assert_eq!(world.asked, [], "{era:?}");
    }
}

#[test]
fn a_stream_that_ends_is_opened_again_after_a_pause_that_grows() {
    let mut world = World::up(Era::Modern);
    let one = world.listen(&[1], Lists::ALL);
    world.settle();
    world.told(one);
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        let (wire, _) = world.open_streams()[0];
        world.streams.clear();
        world.relay.handle_ended(world.now, wire);
        world.drain();
        world.pass(Duration::from_millis(seconds * 1000 - 1));
        assert_eq!(world.open_streams(), []);
        world.pass(Duration::from_millis(1));
        assert_eq!(world.open_streams().len(), 1, "{seconds}");
        assert!(world.told(one).contains(&Told::Updated(1)), "it may have changed meanwhile");
    }
    world.pass(LASTING);
    let (wire, _) = world.open_streams()[0];
    world.streams.clear();
    world.relay.handle_ended(world.now, wire);
    world.pass(RETRY);
    assert_eq!(world.open_streams().len(), 1, "that one was worth it");
}

#[test]
fn a_new_client_is_not_made_to_wait_for_the_pause() {
    let mut world = World::up(Era::Modern);
    world.listen(&[1], Lists::NONE);
    world.settle();
    for _ in 0..6 {
        world.streams.clear();
        world.relay.handle_broken(world.now, world.wire);
        world.drain();
        world.pass(Duration::from_secs(1));
        if world.open_streams().is_empty() {
            break;
        }
    }
    let two = world.listen(&[2], Lists::NONE);
    world.settle();
    assert_eq!((world.told(two), world.announced()), (vec![Told::Acknowledged], [1, 2].into()));
}

#[test]
fn a_connection_that_breaks_surfaces_for_whoever_is_new() {
    for era in ERAS {
        let mut world = World::up(era);
        let one = world.listen(&[1], Lists::NONE);
        world.relay.handle_broken(world.now, world.wire);
        world.drain();
        assert!(matches!(world.told(one)[..], [Told::End(End::Refused { why: Why::Silent, .. })]), "{era:?}");
        let two = world.listen(&[1], Lists::NONE);
        world.inbox.clear();
        world.pass(PATIENCE);
        assert!(matches!(world.told(two)[..], [Told::End(End::Refused { why: Why::Silent, .. })]));
        assert!(matches!(world.asked.last(), Some(Step::Cancel { .. })));
        world.streams.clear();
        world.pass(Duration::from_secs(120));
        assert_eq!(world.relay.used(), 0);
    }
}

#[test]
fn a_slow_client_is_told_once_what_changed_meanwhile() {
    for era in ERAS {
        let mut world = World::up(era);
        let one = world.listen(&[1], Lists::ALL);
        world.settle();
        world.told(one);
        let listener = world.clients[one].listener.unwrap();
        world.relay.set_hears(listener, false);
        for _ in 0..100 {
            world.touch(1);
            world.change(List::Prompts);
        }
        world.settle();
        assert_eq!(world.told(one), []);
        world.relay.set_hears(listener, true);
        world.drain();
        let told = world.told(one);
        assert!(told.len() == 2 && told.contains(&Told::Updated(1)), "{told:?}");
    }
}

#[test]
fn an_operation_that_fails_gives_its_listener_back() {
    let mut world = World::new(Era::Legacy, false);
    let key = Key::from_wire(1 << 16 | 3).unwrap();
    let listener = world.relay.attach(Lists::NONE).unwrap();
    world.relay.want(listener, None).unwrap();
    world.relay.begin(listener, Some(key));
    assert!(!world.relay.defers(), "an operation in flight defers by itself");
    assert_eq!(world.relay.key_of(listener), Some(key));
    assert_eq!(world.relay.handle_failure(key), Some(listener));
    assert_eq!(world.relay.handle_failure(key), None);
    assert!(!world.relay.handle_turn(key));
    let forgotten = world.relay.poll(world.now, false, || 0);
    assert!(matches!(forgotten, Some(Step::Forget { .. })));
    assert_eq!(world.relay.used(), 0);
}

#[test]
fn a_refusal_for_lack_of_room_changes_nothing() {
    let mut relay = Relay::new([Slot::EMPTY; 3], PATIENCE, OVERLAP);
    let listener = relay.attach(Lists::NONE).unwrap();
    let uri = relay.want(listener, None).unwrap();
    assert_eq!(relay.want(listener, Some(uri)), Ok(uri), "said twice is said once");
    assert_eq!(
        (relay.want(listener, None), relay.attach(Lists::ALL), relay.used()),
        (Err(Full), Err(Full), 3)
    );
}

#[test]
fn everybody_is_told_of_the_end() {
    let mut world = World::up(Era::Modern);
    let (one, two) = (world.listen(&[1], Lists::NONE), world.listen(&[], Lists::ALL));
    world.lose();
    world.relay.finish();
    world.drain();
    assert_eq!(world.told(one), [Told::End(End::Over { acknowledged: false })]);
    assert_eq!(world.told(two), [Told::Acknowledged, Told::End(End::Over { acknowledged: true })]);
    assert_eq!(world.relay.used(), 0);
    let failure = Failure { cause: Cause::Cancelled, ran: Ran::No };
    assert_ne!(End::Failed(failure), End::Over { acknowledged: true });
}

#[test]
fn the_stream_is_closed_before_the_server_goes() {
    let mut world = World::up(Era::Modern);
    world.listen(&[1], Lists::NONE);
    world.settle();
    world.relay.handle_leaving();
    assert_eq!(world.relay.poll_cancelled(), Some(1));
    assert_eq!(world.relay.poll_cancelled(), None);
    world.up = false;
    world.drain();
}

#[test]
fn a_hundred_restarts_leave_nothing_behind() {
    for era in ERAS {
        let mut world = World::new(era, true);
        let one = world.listen(&[1, 2], Lists::ALL);
        let mut after = Vec::new();
        for _ in 0..100 {
            world.start();
            world.pass(Duration::from_secs(2));
            let mut table = Timetable::new();
            world.relay.timetable(&mut table);
            after.push((world.relay.used(), world.open_streams().len(), table.next(), world.announced()));
            world.lose();
        }
        after.dedup();
        assert_eq!(after.len(), 1, "{era:?}: {after:?}");
        world.leave(one);
        assert_eq!(world.relay.used(), 0);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Listen(Vec<u8>, u8),
    Leave(usize),
    Serve,
    Hear(usize),
    Touch(u8),
    Lose,
    Start,
    Pass(u16),
    EndStream,
    CanAsk(bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (proptest::collection::vec(0..4_u8, 0..3), 0..8_u8).prop_map(|(uris, lists)| Op::Listen(uris, lists)),
        4 => any::<usize>().prop_map(Op::Leave),
        8 => Just(Op::Serve),
        8 => any::<usize>().prop_map(Op::Hear),
        3 => (0..4_u8).prop_map(Op::Touch),
        1 => Just(Op::Lose),
        2 => Just(Op::Start),
        2 => (0..2_000_u16).prop_map(Op::Pass),
        1 => Just(Op::EndStream),
        1 => any::<bool>().prop_map(Op::CanAsk),
    ]
}

fn apply(world: &mut World, op: Op) {
    match op {
        Op::Listen(uris, lists) => {
            let lists = List::ALL.into_iter().filter(|list| lists & 1 << *list as u8 != 0);
            let lists = lists.fold(Lists::NONE, Lists::with);
            if world.relay.used() < 30 {
                world.listen(&uris, lists);
            }
        }
        Op::Leave(client) if !world.clients.is_empty() => world.leave(client % world.clients.len()),
        Op::Serve if world.up => _ = world.serve(),
        Op::Hear(choice) if world.up => _ = world.hear(choice),
        Op::Touch(text) if world.up => world.touch(text),
        Op::Lose if world.up => world.lose(),
        Op::Start if !world.up => world.start(),
        Op::Pass(millis) => world.wait(millis),
        Op::EndStream => world.end_stream(),
        Op::CanAsk(can) => world.can_ask(can),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// However things interleave: once all is quiet the server announces what is wanted and nothing else, each client
    /// was told exactly once that it listens, hears each update of its own exactly once, and no other.
    #[test]
    fn it_comes_to_what_is_wanted(
        modern in any::<bool>(), http in any::<bool>(), own in any::<bool>(),
        ops in proptest::collection::vec(op(), 0..80),
    ) {
        let mut world = World::new(if modern { Era::Modern } else { Era::Legacy }, http);
        world.own = own && !http;
        for op in ops {
            apply(&mut world, op);
        }
        world.can_ask = true;
        if !world.up {
            world.start();
        }
        world.drain();
        world.pass(Duration::from_secs(400));
        prop_assert_eq!(world.announced(), world.wanted());
        prop_assert!(world.open_streams().len() <= 1);
        if modern && !world.own {
            let heard = world.streams.values().map(|(_, lists)| *lists).fold(Lists::NONE, both);
            prop_assert_eq!(heard, world.wanted_lists(), "no list more, either");
        }
        prop_assert_eq!(world.texts.keys().copied().collect::<BTreeSet<u8>>(), world.wanted());
        prop_assert_eq!(world.relay.defers(), !world.wanted().is_empty());
        let mut table = Timetable::new();
        world.relay.timetable(&mut table);
        prop_assert_eq!(table.next(), None);
        for client in 0..world.clients.len() {
            let told = world.told(client);
            let acknowledged = told.iter().filter(|told| **told == Told::Acknowledged).count();
            if world.clients[client].listener.is_some() {
                prop_assert_eq!((acknowledged, told.first()), (1, Some(&Told::Acknowledged)), "{:?}", told);
            }
        }
        for text in 0..4 {
            world.touch(text);
            world.settle();
            for client in 0..world.clients.len() {
                let (told, hearer) = (world.told(client), &world.clients[client]);
                let hears = hearer.listener.is_some() && hearer.uris.contains(&text);
                prop_assert_eq!(told, if hears { vec![Told::Updated(text)] } else { vec![] });
            }
        }
        for list in List::ALL {
            world.change(list);
            world.settle();
            for client in 0..world.clients.len() {
                let (told, hearer) = (world.told(client), &world.clients[client]);
                let hears = hearer.listener.is_some() && hearer.lists.has(list);
                prop_assert_eq!(told, if hears { vec![Told::Changed(list)] } else { vec![] });
            }
        }
        for client in 0..world.clients.len() {
            world.leave(client);
        }
        world.pass(Duration::from_secs(400));
        prop_assert_eq!((world.relay.used(), world.announced().len()), (0, 0));
        prop_assert!(world.open_streams().len() <= usize::from(modern && world.own), "{:?}", world.open_streams());
    }

    /// Whoever is acknowledged and is told of nothing new has heard of every update since, if the link held: nothing
    /// is lost while streams are replaced on one ordered channel.
    #[test]
    fn no_update_is_lost_while_streams_are_replaced(
        modern in any::<bool>(), own in any::<bool>(),
        ops in proptest::collection::vec((op(), 0..4_u8), 0..60),
    ) {
        let mut world = World::new(if modern { Era::Modern } else { Era::Legacy }, false);
        world.own = own;
        world.start();
        let steady = world.listen(&[0, 1, 2, 3], Lists::NONE);
        world.settle();
        world.told(steady);
        let mut touched = 0;
        for (op, text) in ops {
            match op {
                Op::Lose | Op::EndStream | Op::Pass(_) => {}
                Op::Leave(client) if client % world.clients.len() == steady => {}
                Op::Touch(_) => {
                    world.touch(text);
                    touched += 1;
                }
                op => apply(&mut world, op),
            }
        }
        world.can_ask = true;
        world.drain();
        world.settle();
        let told = world.told(steady);
        let updates = told.iter().filter(|told| matches!(told, Told::Updated(_))).count();
        prop_assert_eq!(updates, touched, "{:?}", told);
    }
}
