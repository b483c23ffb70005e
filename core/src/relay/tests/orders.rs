//! Every order of what clients of both eras, the server and time can do, with servers that change their era.

use super::play::{Act, Play, URIS};
use super::*;

fn act() -> impl Strategy<Value = Act> {
    let code = prop_oneof![Just(-32602), Just(-32002), Just(-32603), Just(-32000)];
    let uris = proptest::collection::vec(0..URIS, 0..4);
    prop_oneof![
        5 => (any::<usize>(), uris, 0..8_u8).prop_map(|(who, uris, lists)| Act::Listen(who, uris, lists)),
        3 => (any::<usize>(), any::<usize>()).prop_map(|(who, which)| Act::Cancel(who, which)),
        8 => (any::<usize>(), 0..URIS, any::<bool>()).prop_map(|(who, uri, on)| Act::Subscribe(who, uri, on)),
        1 => any::<usize>().prop_map(Act::Exit),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(who, hears)| Act::Hears(who, hears)),
        2 => (0..URIS, proptest::option::of(code)).prop_map(|(uri, code)| Act::Refuse(uri, code)),
        9 => any::<usize>().prop_map(Act::Serve),
        4 => any::<usize>().prop_map(Act::AnswerLate),
        9 => any::<usize>().prop_map(Act::Hear),
        3 => (0..URIS).prop_map(Act::Touch),
        1 => prop_oneof![Just(List::Tools), Just(List::Prompts)].prop_map(Act::Change),
        1 => Just(Act::Lose),
        2 => any::<bool>().prop_map(Act::Start),
        1 => any::<bool>().prop_map(Act::Restart),
        2 => (0..2_000_u16).prop_map(Act::Pass),
        1 => Just(Act::EndStream),
        1 => any::<bool>().prop_map(Act::CanAsk),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 768, ..ProptestConfig::default() })]

    #[test]
    fn in_any_order_it_comes_to_what_is_wanted(
        modern in any::<bool>(), http in any::<bool>(), slow in any::<bool>(),
        acts in proptest::collection::vec(act(), 0..120),
    ) {
        let mut play = Play::new(if modern { Era::Modern } else { Era::Legacy }, http, slow);
        for act in acts {
            play.act(act);
        }
        play.finish(modern);
    }

    /// A client of each era that is there all the time misses no update, whatever else is wanted, refused, or no more
    /// wanted meanwhile; and hears none twice.
    #[test]
    fn no_update_is_lost_or_doubled_while_others_come_and_go(
        modern in any::<bool>(), slow in any::<bool>(),
        acts in proptest::collection::vec(act(), 0..80),
    ) {
        let mut play = Play::new(if modern { Era::Modern } else { Era::Legacy }, false, slow);
        play.start(modern);
        // URIs that nobody else has to do with.
        let new = play.world.listen(&[8], Lists::NONE);
        let old = play.world.listen(&[8], Lists::NONE);
        play.world.settle();
        play.world.slow = slow.then(Vec::new);
        let mut touched = 0;
        for act in acts {
            match act {
                Act::Lose | Act::Restart(_) | Act::EndStream | Act::Pass(_) | Act::Hears(..) => {}
                // While it is found out what is refused, streams come and go: that is told of, not each update.
                Act::Refuse(..) if modern => {}
                Act::Touch(_) => {
                    play.world.touch(8);
                    touched += 1;
                }
                act => play.act(act),
            }
        }
        play.world.can_ask = true;
        play.world.drain();
        play.world.settle();
        for client in [new, old] {
            let told = play.world.told(client);
            let updates = told.iter().filter(|told| matches!(told, Told::Updated(_))).count();
            prop_assert_eq!((told.len(), updates), (touched + 1, touched), "{:?}", told);
        }
    }
}

#[derive(Clone, Debug)]
enum Deed {
    Listen(u8),
    Leave(usize),
    Serve(usize),
    Hear(usize),
    Touch,
    Change,
    Pass,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => (0..URIS).prop_map(Deed::Listen),
        2 => any::<usize>().prop_map(Deed::Leave),
        8 => any::<usize>().prop_map(Deed::Serve),
        8 => any::<usize>().prop_map(Deed::Hear),
        6 => Just(Deed::Touch),
        2 => Just(Deed::Change),
        3 => Just(Deed::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// While streams are replaced over HTTP, where what they say arrives in any order, each update and each change is
    /// passed on once: also what both of two streams say.
    #[test]
    fn over_http_two_streams_are_heard_as_one(deeds in proptest::collection::vec(deed(), 0..80)) {
        let mut world = World::new(Era::Modern, true);
        world.start();
        let steady = world.listen(&[8], Lists::NONE.with(List::Tools));
        world.settle();
        world.told(steady);
        let (mut touched, mut changed, mut both) = (0, 0, false);
        for deed in deeds {
            match deed {
                Deed::Listen(uri) if world.relay.used() < 30 => _ = world.listen(&[uri], Lists::NONE),
                Deed::Leave(client) if !(client % world.clients.len() == steady) => {
                    world.leave(client % world.clients.len());
                }
                Deed::Serve(choice) => _ = world.serve_any(choice),
                Deed::Hear(choice) => _ = world.hear(choice),
                Deed::Touch => {
                    both |= world.open_streams().len() > 1;
                    touched += 1;
                    world.touch(8);
                }
                Deed::Change => {
                    changed += 1;
                    world.change(List::Tools);
                }
                // What was said on the older one has arrived by then.
                Deed::Pass => world.pass(OVERLAP),
                Deed::Listen(_) | Deed::Leave(_) => {}
            }
        }
        world.pass(OVERLAP);
        let told = world.told(steady);
        let count = |what: Told| told.iter().filter(|told| **told == what).count();
        prop_assert_eq!((count(Told::Updated(8)), count(Told::Changed(List::Tools))), (touched, changed), "{}", both);
        prop_assert_eq!(told.len(), touched + changed);
    }
}

/// One refusal in the middle of many, with either kind of error, does not stop the others: neither when they are new,
/// nor when they are asked for again.
#[test]
fn one_refusal_stops_no_other() {
    for era in ERAS {
        for code in [-32602, -32603] {
            let mut world = World::up(era);
            let one = world.listen(&[0, 1, 2, 3], Lists::ALL);
            world.settle();
            world.lose();
            world.refuses.insert(2, code);
            world.start();
            world.settle();
            assert_eq!(world.announced(), [0, 1, 3].into(), "{era:?} {code}");
            let new = world.listen(&[1, 2, 4, 5], Lists::NONE);
            world.pass(Duration::from_millis(500));
            assert_eq!(world.announced(), [0, 1, 3, 4, 5].into(), "{era:?} {code}");
            assert_eq!(world.told(new), [Told::Acknowledged], "{era:?} {code}");
            assert_eq!(world.clients[new].uris, [1, 4, 5].into());
            // Only who heard of it before gets it back, and only if it was not gone.
            world.refuses.clear();
            world.told(one);
            world.pass(Duration::from_secs(70));
            let back = if code == -32603 { vec![Told::Updated(2)] } else { vec![] };
            assert_eq!(world.told(one), back, "{era:?}");
            assert_eq!(world.announced().contains(&2), code == -32603, "{era:?}");
            world.touch(2);
            world.settle();
            assert_eq!((world.told(one), world.told(new)), (back, vec![]), "{era:?} {code}");
        }
    }
}

/// What is new is not blamed for what has gone since it was asked for.
#[test]
fn what_is_gone_meanwhile_is_found_out() {
    for code in [-32602, -32603] {
        let mut world = World::up(Era::Modern);
        let one = world.listen(&[1, 2], Lists::NONE);
        world.settle();
        world.told(one);
        world.refuses.insert(1, code);
        let new = world.listen(&[3], Lists::NONE);
        world.pass(Duration::from_millis(500));
        assert_eq!((world.told(new), world.announced()), (vec![Told::Acknowledged], [2, 3].into()), "{code}");
        assert_eq!(world.told(one), [Told::Updated(2)], "it may have changed meanwhile");
    }
}

/// The server may announce an update before it answers the request that subscribed to it.
#[test]
fn an_update_that_overtakes_the_answer_is_not_lost() {
    let mut world = World::up(Era::Legacy);
    world.slow = Some(Vec::new());
    let one = world.listen(&[1], Lists::NONE);
    world.serve();
    world.touch(1);
    assert!(world.hear(0));
    assert_eq!(world.told(one), []);
    world.settle();
    assert_eq!(world.told(one), [Told::Acknowledged, Told::Updated(1)]);
}

/// What is refused for another reason is tried again after pauses that grow, and not for those whom it was refused to.
#[test]
fn what_is_refused_is_asked_for_again_some_time_later() {
    for era in ERAS {
        let mut world = World::up(era);
        let one = world.listen(&[1, 2], Lists::NONE);
        world.settle();
        world.lose();
        world.refuses.insert(1, -32000);
        world.start();
        world.pass(Duration::from_secs(3600));
        let asked = world.asked.len();
        assert!(asked < 200, "{asked}");
        world.refuses.clear();
        world.pass(RETRY_MAX);
        assert_eq!(world.announced(), [1, 2].into(), "{era:?}");
        world.leave(one);
        world.settle();
        assert_eq!(world.relay.used(), 0);
    }
}

#[test]
fn a_server_of_another_era_is_asked_for_the_same() {
    let mut world = World::up(Era::Legacy);
    let (one, two) = (world.listen(&[1, 2], Lists::NONE), world.listen(&[], Lists::ALL));
    for era in [Era::Modern, Era::Legacy, Era::Modern, Era::Legacy] {
        world.settle();
        world.told(one);
        world.told(two);
        world.lose();
        world.era = era;
        world.start();
        world.settle();
        assert_eq!(world.announced(), [1, 2].into(), "{era:?}");
        assert_eq!(world.open_streams().len(), usize::from(era == Era::Modern));
        assert_eq!(world.subscribed.len(), if era == Era::Legacy { 2 } else { 0 });
        assert_eq!(world.told(one), [1, 2].map(Told::Updated), "they may have changed");
        assert_eq!(world.told(two), List::ALL.map(Told::Changed), "another server, other lists");
        world.touch(2);
        world.settle();
        assert_eq!(world.told(one), [Told::Updated(2)]);
    }
}
