//! A server of either era that announces only what was subscribed to, the way to it, and its clients, who count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;

pub(super) const PATIENCE: Duration = Duration::from_secs(300);
pub(super) const OVERLAP: Duration = Duration::from_millis(500);

pub(super) fn both(one: Lists, other: Lists) -> Lists {
    List::ALL.into_iter().filter(|list| other.has(*list)).fold(one, Lists::with)
}

/// What the server says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    Answer(u64, Option<i64>),
    Acknowledged(u64, Vec<u8>),
    Updated(Option<u64>, u8),
    Changed(Option<u64>, List),
}

/// What the server was sent, in texts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sent {
    Subscribe { wire: u64, text: u8, on: bool },
    Listen { wire: u64, texts: BTreeSet<u8>, lists: Lists },
    Cancel { wire: u64 },
}

impl Sent {
    const fn wire(&self) -> u64 {
        match self {
            Self::Subscribe { wire, .. } | Self::Listen { wire, .. } | Self::Cancel { wire } => *wire,
        }
    }
}

/// What a client was told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Told {
    Acknowledged,
    Updated(u8),
    Changed(List),
    End(End),
}

#[derive(Clone, Debug)]
pub(super) struct Hearer {
    pub(super) listener: Option<Listener>,
    pub(super) uris: BTreeSet<u8>,
    pub(super) lists: Lists,
    pub(super) told: Vec<Told>,
}

/// A server, the way to it, and its clients.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) relay: Relay<Vec<Slot>>,
    pub(super) era: Era,
    pub(super) now: Instant,
    pub(super) wire: u64,
    pub(super) texts: BTreeMap<u8, Uri>,
    pub(super) clients: Vec<Hearer>,
    pub(super) up: bool,
    /// What the server was sent and has not read.
    pub(super) inbox: VecDeque<Sent>,
    /// Answers that it takes its time with.
    pub(super) slow: Option<Vec<Said>>,
    /// What it said and nobody read; over HTTP each stream has an order of its own.
    pub(super) outbox: Vec<Said>,
    pub(super) http: bool,
    pub(super) subscribed: BTreeSet<u8>,
    pub(super) streams: BTreeMap<u64, (BTreeSet<u8>, Lists)>,
    /// Answers with an error for these.
    pub(super) refuses: BTreeMap<u8, i64>,
    /// Leaves these out of its acknowledgements.
    pub(super) omits: BTreeSet<u8>,
    pub(super) asked: Vec<Step>,
    /// What was to be said of refusals.
    pub(super) refusals: Vec<Option<Uri>>,
    pub(super) can_ask: bool,
    /// drowse itself wants to hear of changed lists.
    pub(super) own: bool,
    pub(super) temper: Temper,
}

/// How a server takes streams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Temper {
    Even,
    /// It answers with that error while another stream is open.
    Single(i64),
    /// It ends the stream that is open.
    Replaces,
    /// It says nothing while another stream is open.
    SilentlySingle,
    /// It answers with that error where lists are named.
    NoLists(i64),
    /// It does not answer where lists are named.
    SilentLists,
    /// It knows no streams.
    None,
}

/// From here on a text is no URI but a task.
pub(super) const TASK: u8 = 100;

impl World {
    pub(super) fn new(era: Era, http: bool) -> Self {
        Self {
            relay: Relay::new(vec![Slot::EMPTY; 40], PATIENCE, if http { OVERLAP } else { Duration::ZERO }),
            era,
            now: Instant::from_millis(1_000),
            wire: 0,
            texts: BTreeMap::new(),
            clients: Vec::new(),
            up: false,
            inbox: VecDeque::new(),
            slow: None,
            outbox: Vec::new(),
            http,
            subscribed: BTreeSet::new(),
            streams: BTreeMap::new(),
            refuses: BTreeMap::new(),
            omits: BTreeSet::new(),
            asked: Vec::new(),
            refusals: Vec::new(),
            can_ask: true,
            own: false,
            temper: Temper::Even,
        }
    }

    pub(super) fn up(era: Era) -> Self {
        let mut world = Self::new(era, false);
        world.start();
        world
    }

    pub(super) fn start(&mut self) {
        self.up = true;
        self.relay.handle_ready(self.era);
        if self.own {
            self.relay.want_lists(false);
        }
        self.drain();
    }

    pub(super) fn lose(&mut self) {
        self.up = false;
        self.relay.handle_lost();
        self.inbox.clear();
        self.outbox.clear();
        self.slow = self.slow.take().map(|_| Vec::new());
        self.subscribed.clear();
        self.streams.clear();
        self.drain();
    }

    pub(super) fn text(&self, uri: Uri) -> u8 {
        *self.texts.iter().find(|(_, known)| **known == uri).expect("a URI that was not forgotten").0
    }

    /// A client listens; the number names it.
    pub(super) fn listen(&mut self, uris: &[u8], lists: Lists) -> usize {
        let listener = self.relay.attach(lists).expect("room");
        for text in uris {
            let known = self.texts.get(text).copied();
            let wanted = match *text >= TASK {
                true => self.relay.want_task(listener, known),
                false => self.relay.want(listener, known),
            };
            let uri = wanted.expect("room");
            self.texts.insert(*text, uri);
        }
        self.relay.begin(listener, None);
        self.clients.push(Hearer {
            listener: Some(listener),
            uris: uris.iter().copied().collect(),
            lists,
            told: Vec::new(),
        });
        self.drain();
        self.clients.len() - 1
    }

    pub(super) fn leave(&mut self, client: usize) {
        if let Some(listener) = self.clients[client].listener.take() {
            self.relay.close(listener);
        }
        self.drain();
    }

    pub(super) fn told(&mut self, client: usize) -> Vec<Told> {
        core::mem::take(&mut self.clients[client].told)
    }

    pub(super) fn client(&mut self, listener: Listener) -> &mut Hearer {
        self.clients.iter_mut().find(|client| client.listener == Some(listener)).expect("a live listener")
    }

    pub(super) fn drain(&mut self) {
        for _ in 0..10_000 {
            let (now, can_ask, wire) = (self.now, self.up && self.can_ask, &mut self.wire);
            let step = self.relay.poll(now, can_ask, || {
                *wire += 1;
                *wire
            });
            let Some(step) = step else { return };
            match step {
                Step::Acknowledge { listener, .. } => {
                    let heard: BTreeSet<u8> =
                        self.relay.heard_by(listener).map(|uri| self.text(uri)).collect();
                    let client = self.client(listener);
                    assert!(heard.is_subset(&client.uris));
                    client.uris = heard;
                    client.told.push(Told::Acknowledged);
                }
                Step::Changed { listener, list } => self.client(listener).told.push(Told::Changed(list)),
                Step::Updated { listener, uri } => {
                    let text = self.text(uri);
                    self.client(listener).told.push(Told::Updated(text));
                }
                Step::End { listener, why } => {
                    let client = self.client(listener);
                    client.told.push(Told::End(why));
                    client.listener = None;
                }
                Step::Forget { uri } => {
                    let text = self.text(uri);
                    self.texts.remove(&text);
                }
                Step::Listen { wire, lists } => {
                    assert!(self.up);
                    let texts = self.relay.asked().map(|uri| self.text(uri)).collect();
                    self.asked.push(step);
                    self.inbox.push_back(Sent::Listen { wire, texts, lists });
                }
                Step::Subscribe { wire, uri, on } => {
                    assert!(self.up);
                    let text = self.text(uri);
                    self.asked.push(step);
                    self.inbox.push_back(Sent::Subscribe { wire, text, on });
                }
                Step::Cancel { wire } => {
                    self.asked.push(step);
                    self.inbox.push_back(Sent::Cancel { wire });
                }
            }
        }
        panic!("there is always something to do");
    }

    /// The server reads a message, and answers.
    pub(super) fn serve(&mut self) -> bool {
        self.serve_any(0)
    }

    /// The same; it may read them in any order, but what is about one request.
    pub(super) fn serve_any(&mut self, choice: usize) -> bool {
        if self.inbox.is_empty() {
            return false;
        }
        let wire = self.inbox[choice % self.inbox.len()].wire();
        let at = self.inbox.iter().position(|sent| sent.wire() == wire).unwrap();
        match self.inbox.remove(at).unwrap() {
            Sent::Subscribe { wire, text, on } => {
                let code = self.refuses.get(&text).copied().filter(|_| on);
                match (code, on) {
                    (Some(_), _) => {}
                    (None, true) => _ = self.subscribed.insert(text),
                    (None, false) => _ = self.subscribed.remove(&text),
                }
                let said = Said::Answer(wire, code);
                self.slow.as_mut().unwrap_or(&mut self.outbox).push(said);
            }
            Sent::Listen { wire, mut texts, lists } => {
                let open = self.open_streams().first().map(|(wire, _)| *wire);
                let code = match (self.temper, open) {
                    (Temper::Single(code), Some(_)) => Some(code),
                    (Temper::NoLists(code), _) if !lists.is_empty() => Some(code),
                    (Temper::None, _) => Some(-32601),
                    (Temper::SilentlySingle, Some(_)) => return true,
                    (Temper::SilentLists, _) if !lists.is_empty() => return true,
                    _ => None,
                };
                let code = code.or_else(|| texts.iter().find_map(|text| self.refuses.get(text).copied()));
                if let Some(code) = code {
                    self.slow.as_mut().unwrap_or(&mut self.outbox).push(Said::Answer(wire, Some(code)));
                    return true;
                }
                if let (Temper::Replaces, Some(open)) = (self.temper, open) {
                    self.streams.remove(&open);
                    self.outbox.push(Said::Answer(open, None));
                }
                texts.retain(|text| !self.omits.contains(text));
                self.outbox.push(Said::Acknowledged(wire, texts.iter().copied().collect()));
                self.streams.insert(wire, (texts, lists));
            }
            Sent::Cancel { wire } => {
                self.streams.remove(&wire);
                if self.http {
                    // The connection is gone, and what was on it.
                    for said in [&mut self.outbox].into_iter().chain(&mut self.slow) {
                        said.retain(|said| stream_of(said) != Some(wire));
                    }
                }
            }
        }
        true
    }

    /// The server gives the answers that it took its time with.
    pub(super) fn answer_late(&mut self, choice: usize) {
        let Some(slow) = self.slow.as_mut().filter(|slow| !slow.is_empty()) else { return };
        let answer = slow.remove(choice % slow.len());
        self.outbox.push(answer);
    }

    /// What the server said is read: the oldest, or over HTTP that of any stream.
    pub(super) fn hear(&mut self, choice: usize) -> bool {
        if self.outbox.is_empty() {
            return false;
        }
        let mut at = 0;
        if self.http {
            let pick = choice % self.outbox.len();
            let stream = stream_of(&self.outbox[pick]);
            at = self.outbox.iter().position(|said| stream_of(said) == stream).unwrap();
        }
        let said = self.outbox.remove(at);
        match said {
            Said::Answer(wire, code) => {
                if let Answered::Refused(uri) = self.relay.handle_answer(self.now, wire, code) {
                    self.refusals.push(uri);
                }
            }
            Said::Acknowledged(wire, texts) => {
                for uri in texts.iter().filter_map(|text| self.texts.get(text)) {
                    self.relay.handle_honoured(wire, *uri);
                }
                self.relay.handle_acknowledged(self.now, wire);
            }
            // What nobody knows by now is dropped.
            Said::Updated(wire, text) => {
                if let Some(uri) = self.texts.get(&text) {
                    self.relay.handle_updated(wire, *uri);
                }
            }
            Said::Changed(wire, list) => self.relay.handle_list_changed(wire, list),
        }
        self.drain();
        true
    }

    /// Everything that is on its way arrives.
    pub(super) fn settle(&mut self) {
        self.outbox.extend(self.slow.take().into_iter().flatten());
        while self.serve() || self.hear(0) {}
        if self.own && self.up {
            self.relay.want_lists(true);
            self.drain();
            while self.serve() || self.hear(0) {}
        }
    }

    pub(super) fn pass(&mut self, duration: Duration) {
        let end = self.now.after(duration);
        for _ in 0..1_000 {
            self.settle();
            let mut table = Timetable::new();
            self.relay.timetable(&mut table);
            match table.next() {
                Some((at, _)) if at <= end => {
                    self.now = self.now.max(at);
                    self.relay.handle_timeout(self.now);
                    self.drain();
                }
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("time does not pass");
    }

    /// Time passes, and nothing arrives.
    pub(super) fn wait(&mut self, millis: u16) {
        self.now = self.now.after(Duration::from_millis(millis.into()));
        self.relay.handle_timeout(self.now);
        self.drain();
    }

    /// A stream breaks.
    pub(super) fn end_stream(&mut self) {
        if let Some((wire, _)) = self.open_streams().first().copied() {
            self.streams.remove(&wire);
            self.outbox.retain(|said| stream_of(said) != Some(wire));
            self.relay.handle_broken(self.now, wire);
            self.drain();
        }
    }

    pub(super) fn can_ask(&mut self, can: bool) {
        self.can_ask = can;
        self.drain();
    }

    /// The resource changes: the server says so to whoever subscribed.
    pub(super) fn touch(&mut self, text: u8) {
        if self.subscribed.contains(&text) {
            self.outbox.push(Said::Updated(None, text));
        }
        for (wire, (texts, _)) in &self.streams {
            if texts.contains(&text) {
                self.outbox.push(Said::Updated(Some(*wire), text));
            }
        }
    }

    pub(super) fn change(&mut self, list: List) {
        if self.era == Era::Legacy {
            self.outbox.push(Said::Changed(None, list));
        }
        for (wire, (_, lists)) in &self.streams {
            if lists.has(list) {
                self.outbox.push(Said::Changed(Some(*wire), list));
            }
        }
    }

    pub(super) fn open_streams(&self) -> Vec<(u64, usize)> {
        self.streams.iter().map(|(wire, (texts, _))| (*wire, texts.len())).collect()
    }

    /// What the server announces by now.
    pub(super) fn announced(&self) -> BTreeSet<u8> {
        let on_streams = self.streams.values().flat_map(|(texts, _)| texts);
        on_streams.chain(&self.subscribed).copied().collect()
    }

    pub(super) fn wanted_lists(&self) -> Lists {
        let live = self.clients.iter().filter(|client| client.listener.is_some());
        live.map(|client| client.lists).fold(Lists::NONE, both)
    }

    pub(super) fn wanted(&self) -> BTreeSet<u8> {
        let live = self.clients.iter().filter(|client| client.listener.is_some());
        live.flat_map(|client| client.uris.iter().copied()).collect()
    }
}

pub(super) fn stream_of(said: &Said) -> Option<u64> {
    match said {
        Said::Answer(wire, _) | Said::Acknowledged(wire, _) => Some(*wire),
        Said::Updated(wire, _) | Said::Changed(wire, _) => *wire,
    }
}
