//! What drowse itself wants to hear: that it is heard, and that nobody else pays for it.

use std::string::String;

use super::*;

fn world(temper: Temper) -> World {
    let mut world = World::new(Era::Modern, false);
    (world.own, world.temper) = (true, temper);
    world.start();
    world
}

fn listens(world: &World) -> usize {
    world.asked.iter().filter(|step| matches!(step, Step::Listen { .. })).count()
}

/// The lists of the streams that are open.
fn heard(world: &World) -> Vec<Lists> {
    world.streams.values().map(|(_, lists)| *lists).collect()
}

fn timer(world: &World) -> Option<(Instant, Reason)> {
    let mut table = Timetable::new();
    world.relay.timetable(&mut table);
    table.next()
}

#[test]
fn it_is_asked_once_and_waited_for_without_a_timer() {
    for temper in [Temper::Even, Temper::NoLists(-32603), Temper::SilentLists, Temper::None] {
        let mut world = world(temper);
        assert_eq!(world.asked, [], "not before the server was used");
        world.settle();
        assert_eq!((listens(&world), timer(&world)), (1, None), "{temper:?}");
        assert!(!world.relay.defers() && !world.relay.has_listeners());
        world.pass(Duration::from_secs(3600));
        assert_eq!(listens(&world), 1, "{temper:?}");
        assert_eq!(heard(&world), if temper == Temper::Even { vec![Lists::ALL] } else { vec![] });
    }
}

#[test]
fn only_lists_that_the_server_announces_are_asked_for() {
    let mut world = World::new(Era::Modern, false);
    world.own = true;
    let lists = Lists::NONE.with(List::Prompts);
    world.relay.handle_offers(Offers { lists, subscribe: true, tasks: true });
    world.start();
    world.settle();
    assert_eq!(heard(&world), [lists]);
    for era in ERAS {
        let mut world = World::new(era, false);
        world.own = true;
        world.relay.handle_offers(Offers { lists: Lists::NONE, subscribe: true, tasks: true });
        world.start();
        world.settle();
        assert_eq!(world.asked, []);
    }
}

#[test]
fn it_rides_on_what_is_opened_for_others() {
    let mut world = World::new(Era::Modern, false);
    world.own = true;
    let one = world.listen(&[1], Lists::NONE);
    world.start();
    world.settle();
    assert_eq!((listens(&world), heard(&world)), (1, vec![Lists::ALL]));
    world.change(List::Tools);
    world.settle();
    assert_eq!(world.told(one), [Told::Acknowledged], "nobody else hears of it");
    world.leave(one);
    world.settle();
    assert_eq!((world.announced(), heard(&world)), ([].into(), vec![Lists::ALL]));
    assert_eq!(world.relay.used(), 0);
}

#[test]
fn a_server_with_room_for_one_stream_has_all_in_one() {
    for temper in [Temper::Single(-32603), Temper::Single(-32602), Temper::SilentlySingle, Temper::Replaces] {
        let mut world = world(temper);
        world.settle();
        let one = world.listen(&[1, 2], Lists::NONE);
        world.pass(Duration::from_secs(6));
        assert_eq!(world.told(one), [Told::Acknowledged], "{temper:?}");
        assert_eq!((world.announced(), heard(&world)), ([1, 2].into(), vec![Lists::ALL]), "{temper:?}");
        assert_eq!(world.relay.take_regained(), Lists::ALL, "{temper:?}: it was not heard for a moment");
        world.leave(one);
        world.pass(Duration::from_secs(20));
        assert_eq!((world.announced(), heard(&world)), ([].into(), vec![Lists::ALL]), "{temper:?}");
        assert_eq!(timer(&world), None, "{temper:?}");
    }
}

#[test]
fn a_server_that_wants_no_lists_serves_the_others() {
    for temper in [Temper::NoLists(-32603), Temper::NoLists(-32602), Temper::SilentLists] {
        for before in [false, true] {
            let mut world = World::new(Era::Modern, false);
            (world.own, world.temper) = (true, temper);
            world.start();
            if !before {
                world.settle();
            }
            let one = world.listen(&[1], Lists::NONE);
            world.pass(Duration::from_secs(6));
            assert_eq!(world.told(one), [Told::Acknowledged], "{temper:?} {before}");
            assert_eq!((world.announced(), heard(&world)), ([1].into(), vec![Lists::NONE]));
            let asked = listens(&world);
            world.pass(Duration::from_secs(3600));
            assert_eq!((listens(&world), timer(&world)), (asked, None), "it is not asked again");
            world.leave(one);
            world.settle();
            assert_eq!((listens(&world), heard(&world)), (asked, vec![]));
        }
    }
}

#[test]
fn the_fault_of_a_uri_is_not_that_of_the_lists() {
    for code in [-32602, -32603] {
        let mut world = world(Temper::Even);
        world.settle();
        world.refuses.insert(1, code);
        let one = world.listen(&[1], Lists::NONE);
        world.settle();
        assert!(matches!(world.told(one)[..], [Told::End(End::Refused { .. })]), "{code}");
        world.pass(Duration::from_secs(70));
        assert_eq!(heard(&world), [Lists::ALL], "{code}");
        let two = world.listen(&[2], Lists::NONE);
        world.settle();
        assert_eq!((world.told(two), heard(&world)), (vec![Told::Acknowledged], vec![Lists::ALL]));
        assert_eq!(world.open_streams().len(), 1);
    }
}

#[test]
fn others_are_not_made_to_wait_for_it() {
    let mut world = world(Temper::Even);
    world.relay.want_lists(true);
    world.drain();
    let one = world.listen(&[1], Lists::NONE);
    assert!(matches!(world.asked[..], [Step::Listen { .. }, Step::Cancel { .. }, Step::Listen { .. }]));
    world.settle();
    assert_eq!((world.told(one), heard(&world)), (vec![Told::Acknowledged], vec![Lists::ALL]));
}

#[test]
fn a_stream_that_the_server_ends_is_not_opened_again_for_drowse() {
    let mut world = world(Temper::Even);
    world.settle();
    let (wire, _) = world.open_streams()[0];
    world.streams.clear();
    world.relay.handle_ended(world.now, wire);
    world.pass(Duration::from_secs(3600));
    assert_eq!((listens(&world), timer(&world)), (1, None));
    // For others it is, and what lasted may be heard again.
    let one = world.listen(&[1], Lists::NONE);
    world.settle();
    assert_eq!((world.told(one), heard(&world)), (vec![Told::Acknowledged], vec![Lists::NONE]));
    world.lose();
    world.start();
    world.settle();
    assert_eq!(heard(&world), [Lists::ALL], "another generation");
    world.pass(LASTING);
    let (wire, _) = world.open_streams()[0];
    world.streams.clear();
    world.relay.handle_ended(world.now, wire);
    world.pass(RETRY);
    assert_eq!((heard(&world), world.relay.take_regained()), (vec![Lists::ALL], Lists::ALL));
}

#[test]
fn its_stream_is_closed_before_the_server_goes() {
    let mut world = world(Temper::Even);
    world.settle();
    world.relay.handle_leaving();
    assert_eq!(world.relay.poll_cancelled(), Some(1));
    assert_eq!(world.relay.poll_cancelled(), None);
    world.up = false;
    world.drain();
    assert_eq!(listens(&world), 1);
}

fn temper() -> impl Strategy<Value = Temper> {
    prop_oneof![
        Just(Temper::Even),
        prop_oneof![Just(-32602), Just(-32603), Just(-32000)].prop_map(Temper::Single),
        Just(Temper::Replaces),
        prop_oneof![Just(-32602), Just(-32603)].prop_map(Temper::NoLists),
        Just(Temper::SilentLists),
        Just(Temper::None),
    ]
}

#[derive(Clone, Debug)]
enum Deed {
    Listen(Vec<u8>),
    Leave(usize),
    Touch(u8),
    Change(List),
    Lose,
    Pass(u16),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => proptest::collection::vec(0..4_u8, 1..3).prop_map(Deed::Listen),
        3 => any::<usize>().prop_map(Deed::Leave),
        2 => (0..4_u8).prop_map(Deed::Touch),
        1 => prop_oneof![Just(List::Tools), Just(List::Resources)].prop_map(Deed::Change),
        1 => Just(Deed::Lose),
        1 => (0..2_000_u16).prop_map(Deed::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Whatever the server makes of it: those who listen to resources are served the same, with and without.
    #[test]
    fn nobody_else_notices(
        temper in temper(), refused in proptest::option::of((0..4_u8, prop_oneof![Just(-32602), Just(-32603)])),
        deeds in proptest::collection::vec(deed(), 0..30),
    ) {
        let mut told = Vec::new();
        for own in [false, true] {
            let mut world = World::new(Era::Modern, false);
            (world.own, world.temper) = (own, temper);
            world.refuses.extend(refused);
            world.start();
            for deed in &deeds {
                match deed {
                    Deed::Listen(uris) if world.relay.used() < 30 => _ = world.listen(uris, Lists::NONE),
                    Deed::Leave(client) if !world.clients.is_empty() => {
                        world.leave(client % world.clients.len());
                    }
                    Deed::Touch(text) => world.touch(*text),
                    Deed::Change(list) => world.change(*list),
                    Deed::Lose => {
                        world.lose();
                        world.start();
                    }
                    Deed::Pass(millis) => world.pass(Duration::from_millis((*millis).into())),
                    Deed::Listen(_) | Deed::Leave(_) => {}
                }
                // Long enough for whatever is tried without it.
                world.pass(Duration::from_secs(130));
            }
            prop_assert!(world.open_streams().len() <= 1);
            let all: Vec<Vec<String>> = world.clients.iter().map(|client| {
                // That something may have changed is said once more where a stream made way.
                let told = client.told.iter().filter(|told| !matches!(told, Told::Updated(_)));
                told.map(|told| match told {
                    Told::End(End::Refused { why, .. }) => std::format!("{why:?}"),
                    other => std::format!("{other:?}"),
                }).collect()
            }).collect();
            told.push((all, world.wanted().is_subset(&world.announced())));
        }
        let with = told.pop();
        prop_assert_eq!(told.pop(), with);
    }
}
