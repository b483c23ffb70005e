//! Clients of both eras and what can happen to them; what it must come to.

use std::collections::BTreeSet;

use super::*;

/// How many URIs there are.
pub(super) const URIS: u8 = 4;

/// A client: what it listens to, by the number of its listener in the world.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    Modern(Vec<usize>),
    Legacy(Old),
}

/// A legacy client counts its requests and the answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Old {
    lists: Option<usize>,
    subscribed: Vec<Subscription>,
    /// Answered at once, and when the server had answered.
    requests: usize,
    answers: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Subscription {
    text: u8,
    at: usize,
    /// Requests that wait.
    waiting: usize,
    /// The server's answer was heard.
    answered: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Act {
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

pub(super) struct Play {
    pub(super) world: World,
    peers: Vec<Peer>,
    /// URIs that were refused at some time, and that were gone.
    pub(super) refused: BTreeSet<u8>,
    gone: BTreeSet<u8>,
}

impl Play {
    pub(super) fn new(era: Era, http: bool, slow: bool) -> Self {
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
        let mut play = Self { world, peers, refused: BTreeSet::new(), gone: BTreeSet::new() };
        for who in [1, 3] {
            play.open(who);
        }
        play
    }

    /// A client connects; one of the legacy era hears of all lists.
    pub(super) fn open(&mut self, who: usize) {
        if let Some(Peer::Legacy(old)) = self.peers.get_mut(who) {
            *old = Old { lists: Some(self.world.listen(&[], Lists::ALL)), ..Old::default() };
        }
        self.note();
    }

    /// Legacy clients take the answers that have come.
    pub(super) fn note(&mut self) {
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

    pub(super) fn act(&mut self, act: Act) {
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
            Act::Pass(millis) => self.world.wait(millis),
            Act::EndStream => self.world.end_stream(),
            Act::CanAsk(can) => self.world.can_ask(can),
            _ => {}
        }
        self.note();
    }

    pub(super) fn start(&mut self, modern: bool) {
        self.world.era = if modern { Era::Modern } else { Era::Legacy };
        self.world.start();
    }

    pub(super) fn hears(&mut self, client: usize, hears: bool) {
        let count = self.world.clients.len();
        if let Some(listener) = self.world.clients[client % count].listener {
            self.world.relay.set_hears(listener, hears);
            self.world.drain();
        }
    }

    pub(super) fn subscribe(&mut self, peer: usize, text: u8, on: bool) {
        if self.world.relay.used() >= 100 {
            return;
        }
        let Peer::Legacy(old) = &mut self.peers[peer] else { return };
        let known = old.subscribed.iter().position(|one| one.text == text);
        let standing = match known.map(|at| old.subscribed[at].answered) {
            None => legacy::Standing::Unknown,
            Some(false) => legacy::Standing::Waiting,
            Some(true) => legacy::Standing::Answered,
        };
        old.requests += 1;
        match (legacy::Reaction::to(standing, on), known) {
            (legacy::Reaction::Begin, None) => {
                let at = self.world.listen(&[text], Lists::NONE);
                old.subscribed.push(Subscription { text, at, waiting: 1, answered: false });
            }
            (legacy::Reaction::Join, Some(known)) => old.subscribed[known].waiting += 1,
            (legacy::Reaction::End, Some(known)) => {
                let ended = old.subscribed.remove(known);
                old.answers += ended.waiting + 1;
                self.world.leave(ended.at);
            }
            (legacy::Reaction::Confirm, _) => old.answers += 1,
            odd => panic!("{odd:?}"),
        }
    }

    /// What a listener hears of, as the relay has it.
    pub(super) fn heard(&self, at: usize) -> BTreeSet<u8> {
        let listener = self.world.clients[at].listener;
        let heard = listener.into_iter().flat_map(|listener| self.world.relay.heard_by(listener));
        heard.map(|uri| self.world.text(uri)).collect()
    }

    pub(super) fn all_heard(&self) -> BTreeSet<u8> {
        (0..self.world.clients.len()).flat_map(|at| self.heard(at)).collect()
    }

    /// Time enough for whatever is tried again.
    pub(super) fn come_to_rest(&mut self) {
        self.world.can_ask = true;
        self.world.drain();
        self.world.pass(Duration::from_secs(400));
        self.note();
    }

    pub(super) fn timer(&self) -> Option<(Instant, Reason)> {
        let mut table = Timetable::new();
        self.world.relay.timetable(&mut table);
        table.next()
    }

    /// All comes to rest, with a server that refuses what it refused last and then with one that refuses nothing.
    pub(super) fn finish(mut self, modern: bool) {
        if !self.world.up {
            self.start(modern);
        }
        for client in 0..self.world.clients.len() {
            self.hears(client, true);
        }
        self.come_to_rest();
        // What the server refuses for another reason than that it is gone is kept, and not announced.
        let (heard, announced) = (self.all_heard(), self.world.announced());
        let is_kept = |text: &u8| matches!(self.world.refuses.get(text), Some(-32603 | -32000));
        assert!((&heard - &announced).iter().all(is_kept), "{heard:?}, and announced is {announced:?}");
        // It may also refuse to announce less.
        let refuses_less = announced.iter().any(is_kept);
        assert!(announced.is_subset(&heard) || refuses_less, "{heard:?}, and announced is {announced:?}");
        // What was never refused is not missed by anybody, whatever else was refused.
        for client in self.world.clients.iter().filter(|client| client.listener.is_some()) {
            let missed = &client.uris - &heard;
            assert!(missed.is_subset(&self.refused), "{missed:?}");
        }
        self.world.refuses.clear();
        self.come_to_rest();
        self.check();
        self.leave();
    }

    /// Each that is wanted is announced, each client has its answers, and hears its own once.
    pub(super) fn check(&mut self) {
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

    pub(super) fn hear_once(
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
    pub(super) fn leave(&mut self) {
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
