//! What the server offers, kept until it is saved: pages of its lists, and who waits to hear that they are.
//!
//! When to ask, and for what, is the core's (`drowse_core::snapshot`). Once all is saved, nothing stays here but a hash
//! of what the file holds. A file that cannot be written costs the snapshot, never the session.

use std::hash::Hasher as _;

use drowse_core::era::Era;
use drowse_core::json as text;
use drowse_core::snapshot::{self as core, Listing, Listings, Page, Step};
use siphasher::sip128::{Hasher128 as _, SipHasher24};

use super::relay::written;
use super::*;
use crate::snapshot::{Header, LISTS, Layout, SCHEMA};

/// How long the answer to whether there is a snapshot waits for one.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where a modern server says who it is, in `_meta` of its description of itself.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// What is gathered, and what was saved.
#[derive(Default)]
pub(super) struct Gathered {
    /// The lists that the server says it has.
    offers: Listings,
    /// The arrays of items that came in this round, by list.
    pages: [Vec<Vec<u8>>; LISTS.len()],
    /// The lists of this round that were read to their end.
    whole: Listings,
    /// Where the list that is being read goes on, a JSON string.
    cursor: Option<Vec<u8>>,
    /// What the file holds.
    saved: Option<Saved>,
    /// What could not be written.
    unwritten: Option<Unwritten>,
    /// Who wants to hear when it is saved: connections, the ids of their requests, and how long they wait.
    waiting: Vec<(u64, Vec<u8>, Instant)>,
}

#[derive(Clone, Copy)]
struct Saved {
    generation: u64,
    taken: u64,
    incomplete: Listings,
    /// Of the lists and the server's description of itself.
    hash: u128,
}

struct Unwritten {
    document: Vec<u8>,
    would_be: Saved,
    why: String,
}

impl Gathered {
    /// Another server runs now.
    pub(super) fn handle_started(&mut self) {
        self.offers = Listings::NONE;
        self.unwritten = None;
        self.forget_pages();
    }

    /// The server said what it has.
    pub(super) fn handle_handshake(&mut self, line: &[u8], described: Span) {
        self.offers = Listings::offered(line, described);
    }

    /// When somebody has waited long enough.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.waiting.iter().map(|(_, _, until)| *until).min()
    }

    fn forget_pages(&mut self) {
        self.pages = Default::default();
        self.whole = Listings::NONE;
        self.cursor = None;
    }

    fn page_of(&mut self, listing: Listing) -> &mut Vec<Vec<u8>> {
        let [tools, prompts, resources, templates] = &mut self.pages;
        match listing {
            Listing::Tools => tools,
            Listing::Prompts => prompts,
            Listing::Resources => resources,
            Listing::Templates => templates,
        }
    }

    /// Nothing at all came of it.
    fn is_missing(&self, listing: Listing) -> bool {
        !self.whole.has(listing) && self.pages.get(listing as usize).is_none_or(Vec::is_empty)
    }
}

impl Hub {
    /// Asks the server for a page, or saves what it said.
    pub(super) fn snapshot(&self, inner: &mut Inner, step: Step) {
        match step {
            Step::Ask { wire, listing, more } => {
                let Some(revision) = inner.server.revision() else { return };
                let cursor = inner.gathered.cursor.take().filter(|_| more);
                let bytes =
                    written(|w| core::request(w, wire, listing, revision, IDENTITY, cursor.as_deref()));
                self.ask(inner, &bytes, listing.method(), wire);
            }
            Step::Gathered { lists, lacking } => {
                inner.save(lists, lacking);
                inner.gathered.forget_pages();
                self.rest_if_quiet(inner);
            }
        }
    }

    /// Somebody asks whether there is a snapshot of this server.
    pub(super) fn ask_for_snapshot(&self, inner: &mut Inner, now: Instant, connection: u64, id: &[u8]) {
        inner.gathered.waiting.push((connection, id.to_vec(), now.after(PATIENCE)));
        self.tell_of_snapshot(inner, now);
    }

    /// Tells those who wait whether it is saved, as soon as that is known, or they have waited long enough.
    pub(super) fn tell_of_snapshot(&self, inner: &mut Inner, now: Instant) {
        if inner.gathered.waiting.is_empty() {
            return;
        }
        // Who is still being started will say what it offers.
        let comes = match inner.server.state() {
            PublicState::Connecting | PublicState::Reconnecting => true,
            _ => inner.server.gathering().is_wanted(),
        } && !inner.retired;
        let status = inner.snapshot_status(comes);
        let (done, waiting) = std::mem::take(&mut inner.gathered.waiting)
            .into_iter()
            .partition(|(_, _, until)| !comes || now >= *until);
        inner.gathered.waiting = waiting;
        let done: Vec<_> = done;
        for (connection, id, _) in done {
            inner.reply(connection, &id, &[status.as_bytes()]);
        }
    }
}

impl Inner {
    /// A page came.
    pub(super) fn listed(&mut self, line: &[u8], page: Page) {
        let Page { listing, first, result, items, cursor } = page;
        if first {
            self.gathered.page_of(listing).clear();
        }
        let goes_on =
            text::member(line, result, "nextCursor").is_some_and(|next| text::is_string(next.of(line)));
        if !goes_on {
            self.gathered.whole = self.gathered.whole.with(listing);
        }
        self.gathered.cursor = cursor.map(|cursor| cursor.of(line).to_vec());
        let Some(items) = items else { return };
        let mut kept = items.of(line).to_vec();
        // Of tools that are marked wrongly nobody is to hear.
        let modern = self.server.revision().is_some_and(|revision| revision.era() == Era::Modern);
        if listing == Listing::Tools && modern && self.remote.is_some() {
            let Self { marked, host, .. } = self;
            if let Some(filtered) = marked.learn(line, result, |text| host.note(&text))
                && let Ok(envelope::Message::Response { result, .. }) = envelope::read(&filtered)
                && let Some(items) = text::member(&filtered, result, listing.member())
            {
                kept = items.of(&filtered).to_vec();
            }
        } else if listing == Listing::Tools {
            self.marked.remember(line, result);
        }
        self.gathered.page_of(listing).push(kept);
    }

    /// The session is written down as asleep, and its server still runs: what there is of a snapshot is saved now.
    pub(super) fn save_before_sleep(&mut self) {
        if self.config.server.snapshot.is_none() {
            return;
        }
        let generation = self.server.lifecycle().generation();
        if let Some(unwritten) = self.gathered.unwritten.take() {
            self.write_snapshot(unwritten);
        } else if self.gathered.saved.is_none_or(|saved| saved.generation != generation)
            && self.handshake.is_some()
        {
            // It fell asleep before it had said all.
            let offers = self.gathered.offers;
            let lacking = offers.iter().filter(|listing| !self.gathered.whole.has(*listing));
            let lacking = lacking.fold(Listings::NONE, Listings::with);
            self.save(offers, lacking);
        }
        self.gathered.forget_pages();
    }

    /// Saves a round: these lists, but for what is lacking of them. Others are as they were saved in this generation, and
    /// what did not come at all as it was saved before.
    fn save(&mut self, lists: Listings, lacking: Listings) {
        let Some(revision) = self.server.revision().or(self.revision) else { return };
        let generation = self.server.lifecycle().generation();
        let unasked = self.gathered.offers.iter().any(|listing| !lists.has(listing));
        let missing = lacking.iter().any(|listing| self.gathered.is_missing(listing));
        let mut old = None;
        if unasked || missing {
            old = self.host.saved().filter(|old| old.header.identity == self.config.identity);
        }
        let earlier = self.gathered.saved.filter(|saved| saved.generation == generation);
        let continues = earlier.is_some_and(|saved| {
            old.as_ref().is_some_and(|old| {
                (old.header.generation, old.header.taken) == (saved.generation, saved.taken)
            })
        });
        if unasked && !continues {
            // The file is not what it was: it is made anew.
            self.gathered.saved = None;
            let now = self.server.now();
            return self.server.regather(now);
        }
        let earlier_lack = earlier.filter(|_| unasked).map_or(Listings::NONE, |saved| saved.incomplete);
        let incomplete = lists.iter().fold(earlier_lack, Listings::without).and(lacking);
        let taken = self.server.now().as_millis();
        let handshake = self.handshake.as_deref().unwrap_or(b"{}");
        let header = Header {
            schema: SCHEMA,
            identity: self.config.identity.clone(),
            taken,
            generation,
            era: revision.era().name().to_owned(),
            protocol_version: revision.name().to_owned(),
            incomplete: incomplete.iter().map(|listing| listing.member().to_owned()).collect(),
            ..described(handshake)
        };
        let mut hasher = SipHasher24::new();
        hasher.write(handshake);
        hasher.write(header.incomplete.concat().as_bytes());
        let mut layout = Layout::new(&header);
        for (listing, pages) in Listing::ALL.into_iter().zip(&self.gathered.pages) {
            let is_old = self.gathered.offers.has(listing)
                && (!lists.has(listing) || lacking.has(listing) && self.gathered.is_missing(listing));
            let kept =
                old.as_ref().filter(|_| is_old).and_then(|old| old.lists().get(listing as usize).copied());
            let kept = kept.unwrap_or_default().iter().map(|item| item.get().as_bytes());
            let new = pages
                .iter()
                .flat_map(|page| text::elements(page, Span::new(0, page.len())).map(|item| item.of(page)));
            let new = new.filter(|item| text::is_object(item));
            let items: Vec<&[u8]> = kept.chain(new).collect();
            hasher.write_usize(items.len());
            for item in &items {
                hasher.write(item);
                hasher.write_u8(0);
            }
            layout.list(items.into_iter());
        }
        let hash = hasher.finish128().as_u128();
        if earlier.is_some_and(|saved| saved.hash == hash) {
            // It changed back, or only said that it changed.
            self.gathered.unwritten = None;
            return;
        }
        // One that is being written is restarted before it has said all.
        if !lacking.is_empty() && self.dev.is_none() {
            let names: Vec<&str> = lacking.iter().map(|listing| listing.method().name()).collect();
            self.host.note(&format!(
                "the snapshot is not complete: the server did not answer {} to the end",
                names.join(", ")
            ));
        }
        let would_be = Saved { generation, taken, incomplete, hash };
        self.write_snapshot(Unwritten { document: layout.finish(), would_be, why: String::new() });
    }

    fn write_snapshot(&mut self, unwritten: Unwritten) {
        match self.host.save(&unwritten.document) {
            Ok(()) => {
                self.gathered.saved = Some(unwritten.would_be);
                self.gathered.unwritten = None;
            }
            Err(error) => {
                let why = format!("the snapshot could not be written: {error}");
                self.host.note(&why);
                // Tried once more before the server sleeps.
                self.gathered.unwritten = Some(Unwritten { why, ..unwritten });
            }
        }
    }

    fn snapshot_status(&self, comes: bool) -> String {
        let generation = self.server.lifecycle().generation();
        let saved = self.gathered.saved.filter(|saved| saved.generation == generation);
        let why = match (&self.gathered.unwritten, saved) {
            (Some(unwritten), _) => Some(unwritten.why.clone()),
            (None, Some(_)) => None,
            (None, None) if comes => Some("the server has not said yet what it offers".to_owned()),
            (None, None) if self.config.server.snapshot.is_none() => Some("none is taken".to_owned()),
            (None, None) => Some("the server ended before it had said what it offers".to_owned()),
        };
        let saved = saved.filter(|_| why.is_none());
        let incomplete = saved.map_or(Listings::NONE, |saved| saved.incomplete);
        json!({
            "generation": saved.map(|saved| saved.generation),
            "taken": saved.map(|saved| saved.taken),
            "incomplete": incomplete.iter().map(Listing::member).collect::<Vec<_>>(),
            "why": why,
        })
        .to_string()
    }
}

/// What a server's description of itself says for the header.
fn described(handshake: &[u8]) -> Header {
    let whole = Span::new(0, handshake.len());
    let raw = |span: Span| {
        std::str::from_utf8(span.of(handshake))
            .ok()
            .and_then(|text| serde_json::value::RawValue::from_string(text.to_owned()).ok())
    };
    let object = |parent: Span, name: &str| {
        text::member(handshake, parent, name).filter(|span| text::is_object(span.of(handshake)))
    };
    let info = object(whole, "serverInfo")
        .or_else(|| object(whole, "_meta").and_then(|meta| object(meta, SERVER_INFO)));
    Header {
        schema: SCHEMA,
        identity: String::new(),
        taken: 0,
        generation: 0,
        era: String::new(),
        protocol_version: String::new(),
        server_info: info.and_then(raw),
        capabilities: object(whole, "capabilities").and_then(raw),
        instructions: text::member(handshake, whole, "instructions")
            .and_then(|span| serde_json::from_slice(span.of(handshake)).ok()),
        incomplete: Vec::new(),
    }
}
