//! The hub's side towards those who listen: what they are told, and what the server is asked for them.
//!
//! Keeps the texts of URIs and the ids of requests. Who hears what, and when the server is asked, is the core's.

use drowse_core::envelope::Message;
use drowse_core::json as text;
use drowse_core::link::{Cause, Failure, Ran};
use drowse_core::message::Writer;
use drowse_core::relay::legacy::{Reaction, Standing};
use drowse_core::relay::{self, End, Filter, Listener, Step, Uri, Why, wire};

use super::callers::Flow;
use super::notices::on_one_line;
use super::*;

/// Room at the start for listeners, URIs, and who listens to what. It grows with what is asked for.
const SLOTS: usize = 64;
/// How many subscriptions there may be, of all clients (docs/http.md).
const LIMIT: usize = 4096;
/// A connection with this backlog is told later what changed meanwhile, and once.
const SLOW: usize = 64 << 10;

/// The machine of a hub's server.
pub(super) type Machine = Server<Box<[Slot]>, Box<[relay::Slot]>>;

/// Storage for what is listened to.
pub(super) fn slots() -> Box<[relay::Slot]> {
    room_for(SLOTS)
}

fn room_for(count: usize) -> Box<[relay::Slot]> {
    vec![relay::Slot::EMPTY; count].into_boxed_slice()
}

/// A server that is listened to, with room for so many.
pub(super) const fn limit(server: &mut Machine) {
    server.relay_mut().set_limit(LIMIT);
}

/// A client's subscription.
struct Heard {
    listener: Listener,
    connection: u64,
    /// Its request's id, raw.
    id: Vec<u8>,
    ears: Ears,
}

/// How a client listens.
enum Ears {
    /// By `subscriptions/listen`, which names all that it is told.
    Modern,
    /// A legacy client is told of all lists. Its id is none.
    Lists,
    /// By `resources/subscribe`, in requests that wait for their answers: the first, if any, and these.
    Resource { uri: String, also: Vec<Vec<u8>> },
}

/// What a client names that it wants to hear of.
#[derive(Default)]
struct Names {
    uris: Vec<String>,
    tasks: Vec<String>,
}

impl Names {
    /// For how many subscriptions they count. What every client hears counts for none.
    fn weight(&mut self, ears: &Ears) -> usize {
        for names in [&mut self.uris, &mut self.tasks] {
            // Said twice is said once.
            let mut known = HashSet::new();
            names.retain(|name| known.insert(name.clone()));
        }
        match ears {
            Ears::Lists => 0,
            _ => (self.uris.len() + self.tasks.len()).max(1),
        }
    }
}

/// What a client is told that asks for too much.
fn crowd(relay::Crowded { used, theirs, limit }: relay::Crowded, more: usize) -> String {
    let more =
        if more == 1 { "another subscription".to_owned() } else { format!("{more} more subscriptions") };
    format!(
        "no room for {more}: of the {limit} that there may be, {used} are taken, {theirs} of them by this client, and a \
         fifth of the room is for others: end some"
    )
}

/// That a client begins to listen, and to what.
pub(super) struct Listening<'i> {
    connection: u64,
    /// Its request's id, raw.
    id: &'i [u8],
    lists: relay::Lists,
    names: Names,
    /// It wakes the server.
    starts: bool,
    ears: Ears,
}

impl<'i> Listening<'i> {
    /// By `subscriptions/listen`.
    pub(super) fn modern(connection: u64, frame: &'i [u8], id: Span, filter: &Filter, starts: bool) -> Self {
        let uris = filter.uris(frame).filter_map(decoded).collect();
        let names = Names { uris, tasks: filter.tasks(frame).filter_map(decoded).collect() };
        Self { connection, id: id.of(frame), lists: filter.lists, names, starts, ears: Ears::Modern }
    }
}

struct Text {
    uri: Uri,
    text: Rc<str>,
    /// It is the id of a task.
    is_task: bool,
    /// What the server last said of that task, on one line.
    said: Option<Vec<u8>>,
    /// The server's error, raw, if it refused.
    refusal: Option<Vec<u8>>,
}

/// Who listens, and to what.
pub(super) struct Listeners {
    /// By the index of the listener's slot.
    heard: HashMap<usize, Heard>,
    /// By the index of the URI's slot.
    texts: HashMap<usize, Text>,
    uris: HashMap<Rc<str>, Uri>,
    tasks: HashMap<Rc<str>, Uri>,
    /// The server's error, raw, when it refused a stream as a whole.
    refusal: Option<Vec<u8>>,
}

impl Listeners {
    pub(super) fn new() -> Self {
        Self {
            heard: HashMap::new(),
            texts: HashMap::new(),
            uris: HashMap::new(),
            tasks: HashMap::new(),
            refusal: None,
        }
    }

    fn text(&self, uri: Uri) -> &str {
        self.texts.get(&uri.index()).map_or("", |known| &known.text)
    }

    fn is_task(&self, uri: Uri) -> bool {
        self.texts.get(&uri.index()).is_some_and(|known| known.is_task)
    }

    /// The texts of those that are tasks, or of the others.
    fn texts<'l>(&'l self, all: &'l [Uri], tasks: bool) -> impl Iterator<Item = &'l str> {
        all.iter().filter(move |uri| self.is_task(**uri) == tasks).map(|uri| self.text(*uri))
    }

    /// How many hear of that resource.
    pub(super) fn count_of(&self, uri: &str, server: &Machine) -> usize {
        let Some(uri) = self.uris.get(uri) else { return 0 };
        let hears = |heard: &&Heard| server.relay().heard_by(heard.listener).any(|one| one == *uri);
        self.heard.values().filter(hears).count()
    }

    /// The URIs that somebody wants to hear of.
    pub(super) fn wanted(&self, server: &Machine) -> Vec<&str> {
        let is_wanted = |(_, uri): &(&Rc<str>, &Uri)| server.relay().is_wanted(**uri);
        let mut wanted: Vec<&str> = self.uris.iter().filter(is_wanted).map(|(text, _)| &**text).collect();
        wanted.sort_unstable();
        wanted
    }
}

impl Hub {
    /// A client begins to listen.
    pub(super) fn listen(&self, inner: &mut Inner, now: Instant, listening: Listening<'_>) -> Flow {
        let Listening { connection, id, lists, mut names, starts, ears } = listening;
        let weight = names.weight(&ears);
        if weight > 0
            && let Err(crowded) = inner.server.relay().admit(weight, || inner.subscriptions_of(connection))
        {
            let explained = explain::refused(crowd(crowded, weight), "busy");
            inner.reply_error(connection, Some(id), explain::CODE, &explained);
            return Flow::Next;
        }
        if starts && !inner.has_room_for(connection) {
            return inner.read_later(connection);
        }
        let attached = inner.attach(lists, &names);
        if attached.is_some() {
            inner.ask_for(connection);
        }
        let begun = attached.map(|listener| (listener, inner.server.listen(now, listener, starts)));
        match begun {
            Some((listener, Ok(()))) => {
                let weight = u16::try_from(weight).unwrap_or(u16::MAX);
                inner.server.relay_mut().weigh(listener, weight);
                let heard = Heard { listener, connection, id: id.to_vec(), ears };
                inner.listeners.heard.insert(listener.index(), heard);
            }
            Some((listener, Err(why))) => {
                inner.server.unlisten(now, listener);
                return match why {
                    Refusal::Full => inner.read_later(connection),
                    Refusal::Unavailable(why) => {
                        let explained = inner.explain(|around| explain::unavailable(why, around));
                        inner.reply_error(connection, Some(id), explain::CODE, &explained);
                        Flow::Next
                    }
                };
            }
            // Only with tens of thousands of clients.
            None if id.is_empty() => inner.host.note("too many clients: one hears of no changed lists"),
            None => {
                let text = "too many clients are connected to the session".to_owned();
                inner.reply_error(connection, Some(id), explain::CODE, &explain::refused(text, "busy"));
            }
        }
        Flow::Next
    }

    /// A legacy client may be told of changed lists from now on.
    pub(super) fn listen_to_lists(&self, inner: &mut Inner, now: Instant, connection: u64) {
        let (lists, names) = (relay::Lists::ALL, Names::default());
        let ears = Ears::Lists;
        self.listen(inner, now, Listening { connection, id: &[], lists, names, starts: false, ears });
    }

    /// `resources/subscribe` or `resources/unsubscribe` of a legacy client.
    pub(super) fn subscribe(
        &self,
        inner: &mut Inner,
        now: Instant,
        connection: u64,
        id: &[u8],
        uri: &[u8],
        on: bool,
    ) -> Flow {
        let Some(uri) = decoded(uri) else {
            let explained = explain::refused("params.uri is no text".to_owned(), "invalid-request");
            inner.reply_error(connection, Some(id), -32602, &explained);
            return Flow::Next;
        };
        let known = inner.listeners.heard.values_mut().find_map(|heard| match &mut heard.ears {
            Ears::Resource { uri: known, also } if heard.connection == connection && *known == uri => {
                Some((heard.listener, &heard.id, also))
            }
            _ => None,
        });
        let standing = match &known {
            None => Standing::Unknown,
            Some((_, first, _)) if first.is_empty() => Standing::Answered,
            Some(_) => Standing::Waiting,
        };
        match (Reaction::to(standing, on), known) {
            (Reaction::Join, Some((_, _, also))) => {
                also.push(id.to_vec());
                return Flow::Next;
            }
            (Reaction::End, Some((listener, _, _))) => {
                inner.subscribed(listener);
                inner.server.unlisten(now, listener);
                inner.listeners.heard.remove(&listener.index());
                inner.reply(connection, id, &[b"{}"]);
            }
            (Reaction::Begin, _) => {
                let names = Names { uris: vec![uri.clone()], tasks: Vec::new() };
                let ears = Ears::Resource { uri, also: Vec::new() };
                let lists = relay::Lists::NONE;
                return self.listen(
                    inner,
                    now,
                    Listening { connection, id, lists, names, starts: true, ears },
                );
            }
            _ => inner.reply(connection, id, &[b"{}"]),
        }
        Flow::Next
    }

    /// What the machine says to or about those who listen.
    pub(super) fn relay(&self, inner: &mut Inner, step: Step) {
        if matches!(step, Step::Acknowledge { .. }) {
            // It counted as a request of its client until now.
            self.0.room.notify_waiters();
        }
        match step {
            Step::Acknowledge { listener, .. } if inner.is_legacy_listener(listener) => {
                inner.subscribed(listener);
            }
            Step::Changed { listener, list } if inner.is_legacy_listener(listener) => {
                inner.tell(listener, |w, _, _| wire::list_changed_to_all(w, list));
            }
            Step::Updated { listener, uri } if inner.is_legacy_listener(listener) => {
                inner.tell(listener, |w, _, listeners| wire::updated_to_all(w, listeners.text(uri)));
            }
            Step::Acknowledge { listener, lists } => {
                let heard: Vec<Uri> = inner.server.relay().heard_by(listener).collect();
                inner.tell(listener, |w, id, listeners| {
                    let (uris, tasks) = (listeners.texts(&heard, false), listeners.texts(&heard, true));
                    wire::acknowledged(w, id, lists, uris, tasks);
                });
            }
            Step::Changed { listener, list } => {
                inner.tell(listener, |w, id, _| wire::list_changed(w, id, list));
            }
            Step::Updated { listener, uri } if inner.listeners.is_task(uri) => {
                inner.tell_of_task(listener, uri);
            }
            Step::Updated { listener, uri } => {
                inner.tell(listener, |w, id, listeners| wire::updated(w, id, listeners.text(uri)));
            }
            Step::End { listener, why: End::Over { acknowledged: true } } => {
                if !inner.is_legacy_listener(listener) {
                    inner.tell_last(listener, |w, id, _| wire::ended(w, id));
                }
                inner.listeners.heard.remove(&listener.index());
            }
            Step::End { listener, why } => {
                if let Some(mut heard) = inner.listeners.heard.remove(&listener.index()) {
                    let also = match &mut heard.ears {
                        Ears::Resource { also, .. } => std::mem::take(also),
                        _ => Vec::new(),
                    };
                    // Who was answered before is told nothing: there is no way to say it.
                    for id in std::iter::once(std::mem::take(&mut heard.id)).chain(also) {
                        heard.id = id;
                        if !heard.id.is_empty() {
                            inner.refuse(&heard, why);
                        }
                    }
                }
                self.0.room.notify_waiters();
            }
            Step::Forget { uri } => {
                if let Some(known) = inner.listeners.texts.remove(&uri.index()) {
                    let Listeners { uris, tasks, .. } = &mut inner.listeners;
                    if known.is_task { tasks } else { uris }.remove(&known.text);
                }
            }
            Step::Subscribe { wire, uri, on } => {
                let text = inner.listeners.text(uri).to_owned();
                let bytes = written(|w| wire::subscribe(w, wire, &text, on));
                let method = if on { Method::Subscribe } else { Method::Unsubscribe };
                self.ask(inner, &bytes, method, wire);
            }
            Step::Listen { wire, lists } => {
                let Some(revision) = inner.server.revision() else { return };
                let asked: Vec<Uri> = inner.server.relay().asked().collect();
                let listeners = &inner.listeners;
                let bytes = written(|w| {
                    let (uris, tasks) = (listeners.texts(&asked, false), listeners.texts(&asked, true));
                    wire::listen(w, wire, revision, IDENTITY, lists, uris, tasks);
                });
                self.ask(inner, &bytes, Method::Listen, wire);
            }
            Step::Cancel { wire } => {
                if let Some(remote) = &mut inner.remote {
                    remote.abandon(wire);
                }
                self.remote_ended(inner);
            }
        }
    }

    pub(super) fn ask(&self, inner: &mut Inner, bytes: &[u8], method: Method, wire: u64) {
        if inner.remote.is_some() {
            self.post_for_listeners(inner, bytes, method, wire);
        } else {
            inner.write(&[bytes], None);
        }
    }

    /// Something of a connection's backlog was written.
    pub(super) fn eased(&self, id: u64) {
        if !self.0.inner.borrow().listeners.heard.is_empty() {
            self.with(|hub, inner, _| {
                inner.note_hearing(id);
                hub.drive(inner, None);
            });
        }
    }
}

impl Inner {
    /// How many subscriptions a client has: a connection, or all of one principal that come by direct calls.
    fn subscriptions_of(&self, connection: u64) -> usize {
        self.heard_by(connection).map(|listener| self.server.relay().weight_of(listener)).sum()
    }

    /// How many subscriptions of such a client wait for the server, as requests do.
    pub(super) fn waiting_to_hear(&self, connection: u64) -> usize {
        self.heard_by(connection).filter(|listener| self.server.relay().key_of(*listener).is_some()).count()
    }

    fn heard_by(&self, connection: u64) -> impl Iterator<Item = Listener> {
        let is_theirs = self.is_of_client(connection);
        let heard = self.listeners.heard.values();
        heard.filter(move |heard| is_theirs(heard.connection)).map(|heard| heard.listener)
    }

    /// There is no room for what a connection asks: it is asked again when there is some.
    fn read_later(&mut self, connection: u64) -> Flow {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.front.unread();
        }
        Flow::Wait
    }

    /// Sees to it that there are slots for a listener to so many names, as far as there can be any.
    fn make_room(&mut self, names: usize) {
        let (used, free) = (self.server.relay().used(), self.server.relay().free());
        let wanted = 1 + 2 * names;
        if free < wanted {
            let slots = (2 * (used + free)).max(used + wanted).min(usize::from(u16::MAX));
            self.server.relay_mut().grow(room_for(slots));
        }
    }

    fn attach(&mut self, lists: relay::Lists, names: &Names) -> Option<Listener> {
        self.make_room(names.uris.len() + names.tasks.len());
        let listener = self.server.attach(lists).ok()?;
        let uris = names.uris.iter().map(|text| (text, false));
        for (text, is_task) in uris.chain(names.tasks.iter().map(|text| (text, true))) {
            let map = if is_task { &self.listeners.tasks } else { &self.listeners.uris };
            let known = map.get(text.as_str()).copied();
            let wanted = match is_task {
                true => self.server.want_task(listener, known),
                false => self.server.want(listener, known),
            };
            match wanted {
                Ok(uri) if known == Some(uri) => {}
                Ok(uri) => {
                    let text: Rc<str> = text.as_str().into();
                    let map = if is_task { &mut self.listeners.tasks } else { &mut self.listeners.uris };
                    map.insert(Rc::clone(&text), uri);
                    let text = Text { uri, text, is_task, said: None, refusal: None };
                    self.listeners.texts.insert(uri.index(), text);
                }
                Err(relay::Full) => {
                    let now = self.server.now();
                    self.server.unlisten(now, listener);
                    return None;
                }
            }
        }
        Some(listener)
    }

    /// The subscriptions of a connection end: that of one request, or all of them.
    pub(super) fn unlisten(&mut self, now: Instant, connection: u64, id: Option<&[u8]>) {
        if id.is_some_and(|id| self.waits_no_more(connection, id)) {
            return;
        }
        let ended: Vec<Listener> = self
            .listeners
            .heard
            .values()
            .filter(|heard| heard.connection == connection && id.is_none_or(|id| id == heard.id))
            .map(|heard| heard.listener)
            .collect();
        for listener in ended {
            self.server.unlisten(now, listener);
            self.listeners.heard.remove(&listener.index());
        }
    }

    /// Of several requests that wait for the answer to one subscription, one was cancelled.
    fn waits_no_more(&mut self, connection: u64, id: &[u8]) -> bool {
        self.listeners.heard.values_mut().filter(|heard| heard.connection == connection).any(|heard| {
            let Ears::Resource { also, .. } = &mut heard.ears else { return false };
            if let Some(place) = also.iter().position(|one| one == id) {
                also.remove(place);
            } else if heard.id == id && !also.is_empty() {
                heard.id = also.remove(0);
            } else {
                return false;
            }
            true
        })
    }

    fn is_legacy_listener(&self, listener: Listener) -> bool {
        let heard = self.listeners.heard.get(&listener.index());
        heard.is_some_and(|heard| !matches!(heard.ears, Ears::Modern))
    }

    /// A legacy client hears what it subscribed to.
    fn subscribed(&mut self, listener: Listener) {
        let Some(heard) = self.listeners.heard.get_mut(&listener.index()) else { return };
        let Ears::Resource { also, .. } = &mut heard.ears else { return };
        let (connection, ids) = (heard.connection, std::mem::take(also));
        for id in std::iter::once(std::mem::take(&mut heard.id)).chain(ids).filter(|id| !id.is_empty()) {
            self.reply(connection, &id, &[b"{}"]);
        }
    }

    /// Writes a line to a client that listens.
    fn tell(&mut self, listener: Listener, write: impl Fn(&mut Writer<'_>, &[u8], &Listeners)) {
        self.tell_about(
            listener,
            |id| if id.is_empty() { About::Nothing } else { About::Request(id) },
            write,
        );
    }

    /// The same, of the last thing that it is told.
    fn tell_last(&mut self, listener: Listener, write: impl Fn(&mut Writer<'_>, &[u8], &Listeners)) {
        self.tell_about(listener, |id| About::Answer(id), write);
    }

    fn tell_about(
        &mut self,
        listener: Listener,
        about: impl Fn(&[u8]) -> About<'_>,
        write: impl Fn(&mut Writer<'_>, &[u8], &Listeners),
    ) {
        let Some(heard) = self.listeners.heard.get(&listener.index()) else { return };
        let bytes = written(|w| write(w, &heard.id, &self.listeners));
        let connection = heard.connection;
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.mouth.send(about(&heard.id), &[&bytes]);
        }
        self.note_hearing(connection);
    }

    /// Who does not read what it is told is told no more until it does.
    fn note_hearing(&mut self, id: u64) {
        let hears = self.connections.get(&id).is_none_or(|connection| connection.mouth.backlog() < SLOW);
        for heard in self.listeners.heard.values().filter(|heard| heard.connection == id) {
            self.server.set_hears(heard.listener, hears);
        }
    }

    /// Tells a client why it will not hear anything.
    fn refuse(&mut self, heard: &Heard, why: End) {
        let failure = match why {
            End::Refused { why, uri } => {
                let text = self.listeners.text(uri).to_owned();
                let known = self.listeners.texts.get(&uri.index()).and_then(|known| known.refusal.clone());
                if let (Why::Gone | Why::Refused, Some(error)) =
                    (why, known.or(self.listeners.refusal.clone()))
                {
                    if let Some(connection) = self.connections.get_mut(&heard.connection) {
                        let parts: [&[u8]; 5] =
                            [br#"{"jsonrpc":"2.0","id":"#, &heard.id, br#","error":"#, &error, b"}"];
                        connection.answer(Some(&heard.id), &parts);
                    }
                    return;
                }
                let (message, kind) = match why {
                    Why::Unsupported => {
                        ("the server announces no updates of resources".to_owned(), "unsupported")
                    }
                    Why::Silent => {
                        (format!("the server did not say whether it announces updates of {text}"), "network")
                    }
                    Why::Gone | Why::Refused | Why::Omitted => {
                        (format!("the server announces no updates of {text}"), "unsupported")
                    }
                };
                let explained = explain::refused(message, kind);
                return self.reply_error(heard.connection, Some(&heard.id), explain::CODE, &explained);
            }
            End::Failed(failure) => failure,
            End::Over { .. } => Failure { cause: Cause::ServerLost, ran: Ran::No },
        };
        let explained = self.explain(|around| explain::failure(failure, around));
        self.reply_error(heard.connection, Some(&heard.id), explain::CODE, &explained);
    }

    /// A resource was updated. What is updated may be a part of what was subscribed to (server/resources).
    pub(super) fn updated(&mut self, line: &[u8], uri: Span, wire: Option<u64>) {
        let Some(updated) = decoded(uri.of(line)) else { return };
        if let Some(uri) = self.listeners.uris.get(updated.as_str()) {
            self.server.handle_updated(wire, *uri);
            return;
        }
        for (text, uri) in &self.listeners.uris {
            let rest = updated.strip_prefix(&**text);
            if rest.is_some_and(|rest| text.ends_with('/') || rest.starts_with(['/', '?', '#'])) {
                self.server.handle_updated(wire, *uri);
            }
        }
    }

    /// A modern server tells how a task stands: whoever listens to it is told.
    pub(super) fn task_told(&mut self, line: &[u8], params: Span) {
        if self.listeners.tasks.is_empty() || !self.is_modern() {
            return;
        }
        let id = text::member(line, params, "taskId").and_then(|id| decoded(id.of(line)));
        let Some(uri) = id.and_then(|id| self.listeners.tasks.get(id.as_str()).copied()) else { return };
        if self.server.handle_updated(wire::subscription(line, Some(params)), uri)
            && let Some(known) = self.listeners.texts.get_mut(&uri.index())
        {
            known.said = Some(on_one_line(line));
        }
    }

    fn tell_of_task(&mut self, listener: Listener, uri: Uri) {
        self.tell(listener, |w, id, listeners| {
            let said = listeners.texts.get(&uri.index()).and_then(|known| known.said.as_deref());
            if let Some(line) = said
                && let Ok(Message::Notification { params: Some(params), .. }) = envelope::read(line)
            {
                wire::task(w, id, line, params);
            }
        });
    }

    /// A stream of announcements was opened.
    pub(super) fn acknowledged(&mut self, now: Instant, line: &[u8], wire: u64, filter: &Filter) {
        for text in filter.uris(line).filter_map(decoded) {
            if let Some(uri) = self.listeners.uris.get(text.as_str()) {
                self.server.handle_honoured(wire, *uri);
            }
        }
        for text in filter.tasks(line).filter_map(decoded) {
            if let Some(uri) = self.listeners.tasks.get(text.as_str()) {
                self.server.handle_honoured(wire, *uri);
            }
        }
        self.server.handle_acknowledged(now, wire);
    }

    /// The server refused to announce something.
    pub(super) fn unheard(&mut self, line: &[u8], uri: Option<Uri>, error: Span) {
        let error = error.of(line);
        let what = uri.map_or("what was asked for", |uri| self.listeners.text(uri));
        let said = String::from_utf8_lossy(error.get(..200).unwrap_or(error));
        self.host.note(&format!("the server announces no updates of {what}: {said}"));
        match uri.and_then(|uri| self.listeners.texts.get_mut(&uri.index()).filter(|known| known.uri == uri))
        {
            Some(known) => known.refusal = Some(error.to_vec()),
            None => self.listeners.refusal = Some(error.to_vec()),
        }
    }

    /// Whether the server is asked in the modern era.
    pub(super) fn is_modern(&self) -> bool {
        self.server.revision().is_some_and(|revision| revision.era() == Era::Modern)
    }
}

/// What a JSON string says.
fn decoded(raw: &[u8]) -> Option<String> {
    String::from_utf8(text::text(raw).collect()).ok()
}

/// A message of any length.
pub(super) fn written(write: impl Fn(&mut Writer<'_>)) -> Vec<u8> {
    let mut buffer = vec![0; 512];
    loop {
        let mut w = Writer::new(&mut buffer);
        write(&mut w);
        if let Ok(length) = w.finish().map(<[u8]>::len) {
            buffer.truncate(length);
            return buffer;
        }
        let larger = buffer.len() * 4;
        buffer = vec![0; larger];
    }
}
