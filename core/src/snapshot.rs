//! What a server offers, gathered while it runs for the time when it sleeps.
//!
//! [`Gathering`] owns when the lists of a server are asked for, page by page, and when that is to be done again. It asks
//! once nothing is in flight, or a bounded time after the server is ready; one page at a time, and only for lists that
//! the server says it has. These requests are drowse's own: they are no activity, and whatever becomes of them, the
//! lifecycle does not hear of it. It keeps no list: the adapter keeps what [`Page`] points at, and the cursor.

use crate::capabilities::ClientCapabilities;
use crate::envelope::Message;
use crate::era::{Era, Revision};
use crate::json;
use crate::message::{self, Identity, Writer};
use crate::method::Method;
use crate::relay::List;
use crate::span::Span;
use crate::time::{Duration, Instant, Reason, Timetable};

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;

/// There is no such method (JSON-RPC 2.0, Error object).
const METHOD_NOT_FOUND: i64 = -32601;

/// A list that a server may have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Listing {
    /// `tools/list`
    Tools,
    /// `prompts/list`
    Prompts,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    Templates,
}

impl Listing {
    /// Every list.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The method that asks for it.
    #[must_use]
    pub const fn method(self) -> Method {
        match self {
            Self::Tools => Method::ToolsList,
            Self::Prompts => Method::PromptsList,
            Self::Resources => Method::ResourcesList,
            Self::Templates => Method::TemplatesList,
        }
    }

    /// The member of the result that holds it.
    #[must_use]
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The capability of a server that has it.
    const fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Some of the lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Listings(u8);

impl Listings {
    /// None.
    pub const NONE: Self = Self(0);

    /// Those, and this one.
    #[must_use]
    pub const fn with(self, listing: Listing) -> Self {
        Self(self.0 | listing.bit())
    }

    /// Those, but for this one.
    #[must_use]
    pub const fn without(self, listing: Listing) -> Self {
        Self(self.0 & !listing.bit())
    }

    /// Those, and these.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are among these.
    #[must_use]
    pub const fn among(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether it is one of them.
    #[must_use]
    pub const fn has(self, listing: Listing) -> bool {
        self.0 & listing.bit() != 0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Listing> {
        Listing::ALL.into_iter().filter(move |listing| self.has(*listing))
    }

    /// The lists whose capability is in a server's description of itself.
    #[must_use]
    pub fn offered(frame: &[u8], described: Span) -> Self {
        let Some(capabilities) = json::member(frame, described, "capabilities") else { return Self::NONE };
        let has = |listing: &Listing| {
            json::member(frame, capabilities, listing.capability())
                .is_some_and(|capability| json::is_object(capability.of(frame)))
        };
        Listing::ALL.into_iter().filter(has).fold(Self::NONE, Self::with)
    }

    /// The lists whose change that notification announces.
    #[must_use]
    pub const fn changed(list: List) -> Self {
        match list {
            List::Tools => Self::NONE.with(Listing::Tools),
            List::Prompts => Self::NONE.with(Listing::Prompts),
            List::Resources => Self::NONE.with(Listing::Resources).with(Listing::Templates),
        }
    }
}

/// When lists are asked for, and how much of them is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// For so long nothing was in flight: whoever woke the server is served first.
    pub quiet: Duration,
    /// A server that is always busy is asked so long after it is ready.
    pub latest: Duration,
    /// What an answer may take.
    pub answer: Duration,
    /// A list that changed is asked for again once it has not changed for so long; the pause grows while it keeps
    /// changing.
    pub settle: Duration,
    /// The longest such pause.
    pub longest: Duration,
    /// The most pages of one list.
    pub pages: u16,
    /// No further page is asked for once answers of so many bytes came, and none is kept that makes it twice as many.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(100),
            latest: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            settle: Duration::from_secs(1),
            longest: Duration::from_secs(60),
            pages: 100,
            bytes: 16 << 20,
        }
    }
}

/// What the adapter has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Step {
    /// Ask for a page ([`request`]).
    Ask {
        /// The id on the wire.
        wire: u64,
        /// Of what.
        listing: Listing,
        /// With the cursor of the last page; else it is the first.
        more: bool,
    },
    /// All that was to be asked was asked: save it.
    Gathered {
        /// What was asked for this time. Of the others, what was saved before still holds.
        lists: Listings,
        /// Those of them that could not be read to their end.
        lacking: Listings,
    },
}

/// A page that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Page {
    /// Of what.
    pub listing: Listing,
    /// The first one: what was kept of that list is over.
    pub first: bool,
    /// The result.
    pub result: Span,
    /// Its objects, an array; none if the server has no such list.
    pub items: Option<Span>,
    /// The cursor to ask for the next page with, a JSON string, if that will be asked for.
    pub cursor: Option<Span>,
}

/// Where a gathering stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// There is nothing to be asked.
    Rest,
    /// It waits for a quiet moment after the first of these, and for none after the second.
    Due { earliest: Instant, latest: Instant },
    /// The next question is put as soon as the server takes it.
    Go { latest: Instant },
    /// A page is awaited.
    Asked { wire: u64, until: Instant, latest: Instant },
}

/// The list that is being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Current {
    listing: Listing,
    pages: u16,
}

/// The gathering of one server's lists.
#[derive(Clone, Copy, Debug)]
pub struct Gathering {
    /// None: nothing is gathered, ever.
    limits: Option<Limits>,
    offers: Listings,
    phase: Phase,
    /// To be asked for, beside `current`.
    wanted: Listings,
    current: Option<Current>,
    gathered: Listings,
    lacking: Listings,
    /// They changed after they were asked for.
    stale: Listings,
    bytes: usize,
    /// Something was in flight when that was last looked at.
    busy: bool,
    /// When the last round ended, and how long the next one is put off after that.
    ended: Option<Instant>,
    pause: Duration,
    /// Nobody waits for that answer any more.
    abandoned: Option<u64>,
}

impl Gathering {
    /// Without limits nothing is gathered.
    #[must_use]
    pub fn new(limits: Option<Limits>) -> Self {
        Self {
            limits,
            offers: Listings::NONE,
            phase: Phase::Rest,
            wanted: Listings::NONE,
            current: None,
            gathered: Listings::NONE,
            lacking: Listings::NONE,
            stale: Listings::NONE,
            bytes: 0,
            busy: false,
            ended: None,
            pause: Duration::ZERO,
            abandoned: None,
        }
    }

    /// What the server says it has.
    pub const fn handle_offers(&mut self, offers: Listings) {
        self.offers = offers;
    }

    /// The server is ready.
    pub fn handle_ready(&mut self, now: Instant) {
        let Some(limits) = self.limits else { return };
        self.begin_round();
        self.ended = None;
        self.pause = limits.settle;
        self.wanted = self.offers;
        self.phase = Phase::Due { earliest: now.after(limits.quiet), latest: now.after(limits.latest) };
    }

    /// The link is lost: nothing is asked, and nothing awaited.
    pub fn handle_lost(&mut self) {
        self.clear();
        self.abandoned = None;
    }

    /// The server is about to be ended: as [`handle_lost`](Self::handle_lost), and an exchange that is under way is not
    /// waited for.
    pub fn handle_leaving(&mut self) {
        if let Phase::Asked { wire, .. } = self.phase {
            self.abandoned = Some(wire);
        }
        self.clear();
    }

    fn clear(&mut self) {
        self.phase = Phase::Rest;
        self.offers = Listings::NONE;
        self.wanted = Listings::NONE;
        self.begin_round();
    }

    fn begin_round(&mut self) {
        self.current = None;
        self.gathered = Listings::NONE;
        self.lacking = Listings::NONE;
        self.stale = Listings::NONE;
        self.bytes = 0;
    }

    /// Lists of a server that is ready changed.
    pub fn handle_changed(&mut self, now: Instant, lists: Listings) {
        let Some(limits) = self.limits else { return };
        let lists = lists.among(self.offers);
        if lists.is_empty() {
            return;
        }
        match self.phase {
            Phase::Rest => {
                self.wanted = lists;
                self.put_off(now, limits);
            }
            Phase::Due { earliest, latest } if self.current.is_none() && self.gathered.is_empty() => {
                self.wanted = self.wanted.and(lists);
                self.phase = Phase::Due { earliest: earliest.max(now.after(limits.settle)), latest };
            }
            // What is still to be asked for will be read as it is by then.
            _ => {
                let unasked = self.wanted.among(lists);
                self.stale = self.stale.and(Listings(lists.0 & !unasked.0));
            }
        }
    }

    /// Everything that was saved is of no use: all is to be gathered again.
    pub fn forget(&mut self, now: Instant) {
        self.handle_changed(now, self.offers);
    }

    /// A round is wanted because of changes.
    fn put_off(&mut self, now: Instant, limits: Limits) {
        let mut earliest = now.after(limits.settle);
        if let Some(ended) = self.ended {
            self.pause = if now >= ended.after(limits.longest) {
                limits.settle
            } else {
                self.pause.checked_mul(2).unwrap_or(limits.longest).min(limits.longest)
            };
            earliest = earliest.max(ended.after(self.pause));
        }
        self.phase = Phase::Due { earliest, latest: earliest.after(limits.latest) };
    }

    /// Whether something is in flight. To be told before [`poll`](Self::poll), and when time has passed; early, late and
    /// repeated calls do no harm.
    pub fn note_busy(&mut self, now: Instant, busy: bool) {
        let Some(limits) = self.limits else { return };
        if (busy || self.busy)
            && let Phase::Due { earliest, latest } = self.phase
        {
            self.phase = Phase::Due { earliest: earliest.max(now.after(limits.quiet)), latest };
        }
        self.busy = busy;
        match self.phase {
            Phase::Due { earliest, latest } if now >= latest || (!self.busy && now >= earliest) => {
                self.phase = Phase::Go { latest };
            }
            Phase::Asked { wire, until, .. } if now >= until => {
                self.abandoned = Some(wire);
                self.fail(now);
            }
            _ => {}
        }
    }

    /// Adds what is awaited.
    pub fn timetable(&self, table: &mut Timetable) {
        match self.phase {
            Phase::Due { latest, .. } if self.busy => table.set(Reason::Snapshot, latest),
            Phase::Due { earliest, latest } => table.set(Reason::Snapshot, earliest.min(latest)),
            Phase::Asked { until, .. } => table.set(Reason::Snapshot, until),
            Phase::Rest | Phase::Go { .. } => {}
        }
    }

    /// Whether a question is put next, or a round ended.
    #[must_use]
    pub const fn is_about_to_ask(&self) -> bool {
        matches!(self.phase, Phase::Go { .. })
    }

    /// Whether an answer with that id is waited for.
    #[must_use]
    pub fn awaits(&self, wire: u64) -> bool {
        matches!(self.phase, Phase::Asked { wire: asked, .. } if asked == wire)
    }

    /// The lists that are still to be read, or read to their end, in the round that is under way.
    #[must_use]
    pub fn unfinished(&self) -> Listings {
        let current = self.current.map_or(Listings::NONE, |current| Listings::NONE.with(current.listing));
        match self.phase {
            Phase::Rest => Listings::NONE,
            _ => self.wanted.and(current).and(self.lacking),
        }
    }

    /// Whether a round is under way, or about to be.
    #[must_use]
    pub const fn is_wanted(&self) -> bool {
        !matches!(self.phase, Phase::Rest)
    }

    /// An answer to a question of this machine's, see [`awaits`](Self::awaits). What is to be kept of it, if anything.
    pub fn handle_answer(
        &mut self,
        now: Instant,
        wire: u64,
        frame: &[u8],
        message: &Message,
    ) -> Option<Page> {
        let limits = self.limits?;
        let Current { listing, pages } = self.current.filter(|_| self.awaits(wire))?;
        self.bytes = self.bytes.saturating_add(frame.len());
        let first = pages == 0;
        let page = match *message {
            _ if self.bytes > limits.bytes.saturating_mul(2) => None,
            Message::Response { result, kind, .. } => {
                let complete = kind.is_none_or(|kind| json::str_eq(kind.of(frame), "complete"));
                let items = json::member(frame, result, listing.member())
                    .filter(|items| complete && json::is_array(items.of(frame)));
                items.map(|items| {
                    let cursor = json::member(frame, result, "nextCursor")
                        .filter(|cursor| json::is_string(cursor.of(frame)));
                    Page { listing, first, result, items: Some(items), cursor }
                })
            }
            Message::Error { error, .. } => json::member(frame, error, "code")
                .filter(|code| first && json::as_i64(code.of(frame)) == Some(METHOD_NOT_FOUND))
                .map(|_| Page { listing, first, result: error, items: None, cursor: None }),
            _ => None,
        };
        let Some(mut page) = page else {
            self.fail(now);
            return None;
        };
        let pages = pages.saturating_add(1);
        let over = pages >= limits.pages || self.bytes >= limits.bytes;
        if page.cursor.is_some() && !over {
            self.current = Some(Current { listing, pages });
        } else {
            if page.cursor.take().is_some() {
                self.lacking = self.lacking.with(listing);
            }
            self.finish();
        }
        self.go_on(now, limits);
        Some(page)
    }

    /// No answer will come, or none that can be read.
    pub fn handle_failed(&mut self, now: Instant, wire: u64) {
        if self.awaits(wire) {
            self.fail(now);
        }
    }

    fn fail(&mut self, now: Instant) {
        if let Some(Current { listing, .. }) = self.current {
            self.lacking = self.lacking.with(listing);
        }
        self.finish();
        if let Some(limits) = self.limits {
            self.go_on(now, limits);
        }
    }

    /// The current list is over.
    fn finish(&mut self) {
        if let Some(Current { listing, .. }) = self.current.take() {
            self.gathered = self.gathered.with(listing);
        }
    }

    /// The next question; not before whoever came meanwhile is served, unless that takes too long.
    fn go_on(&mut self, now: Instant, limits: Limits) {
        if let Phase::Asked { latest, .. } = self.phase {
            self.phase = if self.busy && now < latest {
                Phase::Due { earliest: now.after(limits.quiet), latest }
            } else {
                Phase::Go { latest }
            };
        }
    }

    /// The request whose answer nobody waits for any more.
    #[must_use]
    pub const fn poll_abandoned(&mut self) -> Option<u64> {
        self.abandoned.take()
    }

    /// The next thing to do, of a server that is ready; `can_ask`: it takes requests.
    pub fn poll(&mut self, now: Instant, can_ask: bool, wire: impl FnOnce() -> u64) -> Option<Step> {
        let limits = self.limits?;
        let Phase::Go { latest } = self.phase else { return None };
        let current = match self.current {
            Some(current) => current,
            None => match self.wanted.iter().next() {
                Some(listing) => Current { listing, pages: 0 },
                None => return Some(self.end_round(now, limits)),
            },
        };
        if !can_ask {
            return None;
        }
        self.wanted = self.wanted.without(current.listing);
        self.current = Some(current);
        let wire = wire();
        self.phase = Phase::Asked { wire, until: now.after(limits.answer), latest };
        Some(Step::Ask { wire, listing: current.listing, more: current.pages > 0 })
    }

    fn end_round(&mut self, now: Instant, limits: Limits) -> Step {
        let step = Step::Gathered { lists: self.gathered, lacking: self.lacking };
        let stale = self.stale;
        self.begin_round();
        self.ended = Some(now);
        self.phase = Phase::Rest;
        if !stale.is_empty() {
            self.wanted = stale;
            self.put_off(now, limits);
        }
        step
    }
}

/// Writes the request for a page. `cursor`: that of the last page, a JSON string.
pub fn request(
    w: &mut Writer<'_>,
    wire: u64,
    listing: Listing,
    revision: Revision,
    identity: Identity,
    cursor: Option<&[u8]>,
) {
    w.raw(br#"{"jsonrpc":"2.0","id":"#);
    w.number(wire);
    w.raw(br#","method":""#);
    w.raw(listing.method().name().as_bytes());
    w.raw(br#"","params":{"#);
    if let Some(cursor) = cursor {
        w.raw(br#""cursor":"#);
        w.raw(cursor);
    }
    if revision.era() == Era::Modern {
        w.raw(if cursor.is_some() { br#","_meta":"# } else { br#""_meta":"# });
        message::request_meta(w, revision, identity, ClientCapabilities::default());
    }
    w.raw(b"}}");
}
