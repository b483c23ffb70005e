//! Every order of what clients of both eras, the server and time can do, with servers that change their era.

use super::*;
use crate::relay::legacy::{Reaction, Standing};

/// How many URIs there are.
const URIS: u8 = 4;

/// A client: what it listens to, by the number of its listener in the world.
#[derive(Clone, Debug)]
enum Peer {
    Modern(Vec<usize>),
    Legacy(Old),
}

/// A legacy client counts its requests and the answers.
#[derive(Clone, Debug, Default)]
struct Old {
    lists: Option<usize>,
    subscribed: Vec<Subscription>,
    /// Answered at once, and when the server had answered.
    requests: usize,
    answers: usize,
}

#[derive(Clone, Debug)]
struct Subscription {
    text: u8,
    at: usize,
    /// Requests that wait.
    waiting: usize,
    /// The server's answer was heard.
    answered: bool,
}

#[derive(Clone, Debug)]
enum Act {
    Listen(usize, Vec<u8>, u8),
    Cancel(usize, usize),
    Subscribe(usize, u8, bool),
    Exit(usize),
    Hears(usize, bool),
    Refuse(u8, Option<i64>),
    Serve(usize),
    AnswerLate(usize),
    Hear(usize),
    Touch(u8),
    Change(List),
    Lose,
    Start(bool),
    Restart(bool),
    Pass(u16),
    EndStream,
    CanAsk(bool),
}

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

struct Play {
    world: World,
    peers: Vec<Peer>,
    /// URIs that were refused at some time, and that were gone.
    refused: BTreeSet<u8>,
    gone: BTreeSet<u8>,
    /// Every update that the server announced.
    touched: usize,
}

impl Play {
    fn new(era: Era, http: bool, slow: bool) -> Self {
        let mut world = World::new(era, http);
        world.relay =
            Relay::new(vec![Slot::EMPTY; 120], PATIENCE, if http { OVERLAP } else { Duration::ZERO });
        world.slow = slow.then(Vec::new);
        let peers = vec![
            Peer::Modern(Vec::new()),
            Peer::Legacy(Old::default()),
            Peer::Modern(Vec::new()),
            Peer::Legacy(Old::default()),
        ];
        let mut play = Self { world, peers, refused: BTreeSet::new(), gone: BTreeSet::new(), touched: 0 };
        for who in [1, 3] {
            play.open(who);
        }
        play
    }

    /// A client connects; one of the legacy era hears of all lists.
    fn open(&mut self, who: usize) {
        if let Some(Peer::Legacy(old)) = self.peers.get_mut(who) {
            *old = Old { lists: Some(self.world.listen(&[], Lists::ALL)), ..Old::default() };
        }
        self.note();
    }

    /// Legacy clients take the answers that have come.
    fn note(&mut self) {
        let told = |world: &mut World, at: usize| {
            let all = &mut world.clients[at].told;
            let answer = all.iter().position(|told| matches!(told, Told::Acknowledged | Told::End(_)));
            answer.map(|place| all.remove(place))
        };
        for peer in &mut self.peers {
            let Peer::Legacy(old) = peer else { continue };
            let mut kept = Vec::new();
            for mut subscription in core::mem::take(&mut old.subscribed) {
                let mut is_over = false;
                while let Some(told) = told(&mut self.world, subscription.at) {
                    // Who was answered is not answered again.
                    old.answers += core::mem::take(&mut subscription.waiting);
                    match told {
                        Told::Acknowledged => {
                            assert!(!subscription.answered, "acknowledged once");
                            subscription.answered = true;
                        }
                        Told::End(End::Refused { why, .. }) => {
                            assert!(why == Why::Silent || self.refused.contains(&subscription.text));
                            let was_gone = why == Why::Gone && self.gone.contains(&subscription.text);
                            assert!(!subscription.answered || was_gone, "{why:?}");
                            is_over = true;
                        }
                        other => panic!("{other:?}"),
                    }
                }
                if !is_over {
                    kept.push(subscription);
                }
            }
            old.subscribed = kept;
        }
    }

    fn act(&mut self, act: Act) {
        let who = |peer: usize| peer % self.peers.len();
        match act {
            Act::Listen(peer, uris, lists) => {
                let lists = List::ALL.into_iter().filter(|list| lists & 1 << *list as u8 != 0);
                let lists = lists.fold(Lists::NONE, Lists::with);
                let peer = who(peer);
                if let Peer::Modern(listens) = &mut self.peers[peer]
                    && self.world.relay.used() < 100
                {
                    listens.push(self.world.listen(&uris, lists));
                }
            }
            Act::Cancel(peer, which) => {
                let peer = who(peer);
                if let Peer::Modern(listens) = &mut self.peers[peer]
                    && !listens.is_empty()
                {
                    let at = listens.swap_remove(which % listens.len());
                    self.world.leave(at);
                }
            }
            Act::Subscribe(peer, uri, on) => {
                let peer = who(peer);
                self.subscribe(peer, uri, on);
            }
            Act::Exit(peer) => {
                let peer = who(peer);
                match &mut self.peers[peer] {
                    Peer::Modern(listens) => {
                        for at in core::mem::take(listens) {
                            self.world.leave(at);
                        }
                    }
                    Peer::Legacy(old) => {
                        for at in old.subscribed.drain(..).map(|one| one.at).chain(old.lists.take()) {
                            self.world.leave(at);
                        }
                        self.open(peer);
                    }
                }
            }
            Act::Hears(client, hears) => self.hears(client, hears),
            Act::Refuse(uri, code) => {
                match code {
                    Some(code) => _ = self.world.refuses.insert(uri, code),
                    None => _ = self.world.refuses.remove(&uri),
                }
                self.refused.extend(code.map(|_| uri));
                self.gone.extend(code.filter(|code| matches!(code, -32602 | -32002)).map(|_| uri));
            }
            Act::Serve(choice) if self.world.up => _ = self.world.serve_any(choice),
            Act::AnswerLate(choice) => self.world.answer_late(choice),
            Act::Hear(choice) if self.world.up => _ = self.world.hear(choice),
            Act::Touch(text) if self.world.up => {
                self.touched += usize::from(self.world.announced().contains(&text));
                self.world.touch(text);
            }
            Act::Change(list) if self.world.up => self.world.change(list),
            Act::Lose if self.world.up => self.world.lose(),
            Act::Start(modern) if !self.world.up => self.start(modern),
            Act::Restart(modern) => {
                if self.world.up {
                    self.world.relay.handle_leaving();
                    while self.world.relay.poll_cancelled().is_some() {}
                    self.world.lose();
                }
                self.start(modern);
            }
            Act::Pass(millis) => apply(&mut self.world, Op::Pass(millis)),
            Act::EndStream => apply(&mut self.world, Op::EndStream),
            Act::CanAsk(can) => apply(&mut self.world, Op::CanAsk(can)),
            _ => {}
        }
        self.note();
    }

    fn start(&mut self, modern: bool) {
        self.world.era = if modern { Era::Modern } else { Era::Legacy };
        self.world.start();
    }

    fn hears(&mut self, client: usize, hears: bool) {
        let count = self.world.clients.len();
        if let Some(listener) = self.world.clients[client % count].listener {
            self.world.relay.set_hears(listener, hears);
            self.world.drain();
        }
    }

    fn subscribe(&mut self, peer: usize, text: u8, on: bool) {
        if self.world.relay.used() >= 100 {
            return;
        }
        let Peer::Legacy(old) = &mut self.peers[peer] else { return };
        let known = old.subscribed.iter().position(|one| one.text == text);
        let standing = match known.map(|at| old.subscribed[at].answered) {
            None => Standing::Unknown,
            Some(false) => Standing::Waiting,
            Some(true) => Standing::Answered,
        };
        old.requests += 1;
        match (Reaction::to(standing, on), known) {
            (Reaction::Begin, None) => {
                let at = self.world.listen(&[text], Lists::NONE);
                old.subscribed.push(Subscription { text, at, waiting: 1, answered: false });
            }
            (Reaction::Join, Some(known)) => old.subscribed[known].waiting += 1,
            (Reaction::End, Some(known)) => {
                let ended = old.subscribed.remove(known);
                old.answers += ended.waiting + 1;
                self.world.leave(ended.at);
            }
            (Reaction::Confirm, _) => old.answers += 1,
            odd => panic!("{odd:?}"),
        }
    }

    /// What a listener hears of, as the relay has it.
    fn heard(&self, at: usize) -> BTreeSet<u8> {
        let listener = self.world.clients[at].listener;
        let heard = listener.into_iter().flat_map(|listener| self.world.relay.heard_by(listener));
        heard.map(|uri| self.world.text(uri)).collect()
    }

    fn all_heard(&self) -> BTreeSet<u8> {
        (0..self.world.clients.len()).flat_map(|at| self.heard(at)).collect()
    }

    /// Time enough for whatever is tried again.
    fn come_to_rest(&mut self) {
        self.world.can_ask = true;
        self.world.drain();
        self.world.pass(Duration::from_secs(400));
        self.note();
    }

    fn timer(&self) -> Option<(Instant, Reason)> {
        let mut table = Timetable::new();
        self.world.relay.timetable(&mut table);
        table.next()
    }

    /// Each that is wanted is announced, each client has its answers, and hears its own once.
    fn check(&mut self) {
        let heard = self.all_heard();
        assert_eq!(self.world.announced(), heard);
        assert_eq!(self.world.texts.keys().copied().collect::<BTreeSet<u8>>(), heard);
        assert!(self.world.open_streams().len() <= 1);
        assert_eq!(self.timer(), None);
        assert_eq!(self.world.relay.defers(), !heard.is_empty());
        for peer in &self.peers {
            match peer {
                Peer::Legacy(old) => {
                    assert_eq!(old.requests, old.answers, "each request has one answer");
                    for one in &old.subscribed {
                        assert!(one.answered);
                        assert_eq!(self.heard(one.at), [one.text].into());
                    }
                }
                Peer::Modern(listens) => {
                    for at in listens {
                        let client = &self.world.clients[*at];
                        let count =
                            |what: fn(&Told) -> bool| client.told.iter().filter(|told| what(told)).count();
                        let acknowledged = count(|told| *told == Told::Acknowledged);
                        let ended = count(|told| matches!(told, Told::End(_)));
                        assert!(acknowledged <= 1 && ended <= 1, "{:?}", client.told);
                        assert_eq!(ended == 1, client.listener.is_none());
                        if client.listener.is_some() {
                            assert_eq!(client.told.first(), Some(&Told::Acknowledged));
                            let lost: BTreeSet<u8> = &client.uris - &self.heard(*at);
                            assert!(lost.is_subset(&self.gone), "{lost:?} were never gone");
                        }
                    }
                }
            }
        }
        for text in 0..URIS {
            self.hear_once(
                |told| matches!(told, Told::Updated(_)),
                |play, at| play.heard(at).contains(&text),
                |world| {
                    world.touch(text);
                },
            );
        }
        for list in List::ALL {
            self.hear_once(
                |told| matches!(told, Told::Changed(_)),
                |play, at| {
                    let client = &play.world.clients[at];
                    client.listener.is_some() && client.lists.has(list)
                },
                |world| world.change(list),
            );
        }
    }

    fn hear_once(
        &mut self,
        is_it: impl Fn(&Told) -> bool,
        hears: impl Fn(&Self, usize) -> bool,
        happens: impl Fn(&mut World),
    ) {
        for client in 0..self.world.clients.len() {
            self.world.told(client);
        }
        happens(&mut self.world);
        self.world.settle();
        for client in 0..self.world.clients.len() {
            let told = self.world.told(client);
            let count = told.iter().filter(|told| is_it(told)).count();
            assert_eq!((count, told.len()), (usize::from(hears(self, client)), count), "{told:?}");
        }
    }

    /// Everybody goes, and nothing is left.
    fn leave(&mut self) {
        for client in 0..self.world.clients.len() {
            self.world.leave(client);
        }
        self.world.pass(Duration::from_secs(400));
        assert_eq!((self.world.relay.used(), self.world.announced()), (0, [].into()));
        assert_eq!((self.world.open_streams(), self.timer()), (vec![], None));
        assert_eq!(self.world.texts.len(), 0);
        assert!(!self.world.relay.defers());
    }
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
        if !play.world.up {
            play.start(modern);
        }
        for client in 0..play.world.clients.len() {
            play.hears(client, true);
        }
        play.come_to_rest();
        // What the server refuses for another reason than that it is gone is kept, and not announced.
        let missing = &play.all_heard() - &play.world.announced();
        let refuses = &play.world.refuses;
        prop_assert!(missing.iter().all(|text| matches!(refuses.get(text), Some(-32603 | -32000))), "{missing:?}");
        prop_assert!(play.world.announced().is_subset(&play.all_heard()));
        // What was never refused is not missed by anybody, whatever else was refused.
        for client in play.world.clients.iter().filter(|client| client.listener.is_some()) {
            let missed = &client.uris - &play.all_heard();
            prop_assert!(missed.is_subset(&play.refused), "{missed:?}");
        }
        play.world.refuses.clear();
        play.come_to_rest();
        play.check();
        play.leave();
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
