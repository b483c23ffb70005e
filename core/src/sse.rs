//! Server-sent events over a buffer of the caller: what an HTTP server streams its messages in.
//!
//! The caller reads into [`EventDecoder::space`], says how much with [`EventDecoder::filled`], and takes events with
//! [`EventDecoder::poll_event`] until there is none, as with [`framing`](crate::framing). It never connects, and never
//! connects again: it only remembers what that takes, the last event's id and the delay that the server wishes.
//!
//! The rules are those of the HTML standard ("Server-sent events", section 9.2.6). Each byte is looked at once, when it
//! arrives. Data stays where it was read to; only where it came on several lines, or beside other fields, the later parts
//! move up. Everything else goes by and needs no room, so that no comment and no field can fill the buffer.
//!
//! Memory stays bounded: data over the limit is not kept, but streams through a small scanner that finds the id of the
//! message, so that whoever waits for it can be told. One [`Event::Oversize`] stands for the whole event, and the next
//! one is read as if nothing had happened.

use core::cell::Cell;
use core::fmt;

use memchr::{memchr, memchr2};

use crate::framing::Oversize;
use crate::skim::{Kept, Skim};
use crate::time::Duration;

#[cfg(test)]
mod tests;

/// The longest id of an event that is kept, in bytes.
pub const MAX_EVENT_ID: usize = 256;

/// How many bytes of an event's type are kept: no type that MCP knows is nearly as long.
pub const MAX_EVENT_TYPE: usize = 64;

/// What a buffer may grow to over the limit, so that the lines around the longest data do not come byte by byte.
const MARGIN: usize = 64;

const MARK: [u8; 3] = *b"\xef\xbb\xbf";

/// What was read up to a blank line. Blank lines with nothing to say before them, such as those after comments that keep
/// a connection alive, are skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// An event with data.
    Message {
        /// The type, `message` if the server says none. Of one longer than [`MAX_EVENT_TYPE`] only so much is given.
        name: &'a [u8],
        /// The data; not empty. Several lines of it are joined by `\n`. It may be anything, also not UTF-8.
        data: &'a [u8],
    },
    /// No message (there is no data, or none but empty data), but the event has an id: from now on the stream can be
    /// resumed, see [`EventDecoder::last_event_id`]. Servers start a stream with this (2025-11-25, basic/transports,
    /// "Sending Messages to the Server").
    Primed,
    /// An event whose data was longer than the limit; the length is that of its data.
    Oversize(Oversize<'a>),
}

/// Splits a stream of bytes into events.
///
/// The buffer must hold at least one byte more than `limit` for data up to the limit to get through. A smaller one can be
/// replaced when [`EventDecoder::wants_room`] says so; where it cannot, let the limit be less than the size of the buffer.
pub struct EventDecoder<B> {
    buffer: B,
    limit: usize,
    /// The data of the event at hand: `start..joined`. Bytes up to `read` have been looked at, those up to `end` not yet.
    /// From `joined` to `read` nothing is needed any more.
    start: usize,
    joined: usize,
    read: usize,
    end: usize,
    /// Bytes of a byte-order mark that may stand at the start of the stream.
    mark: u8,
    /// The last line ended with a `\r`, so a `\n` that follows belongs to it.
    returned: bool,
    place: Place,
    /// Of the line at hand: the field's name, then the value of a field other than data.
    line: Kept<MAX_EVENT_ID>,
    /// A NUL was among those bytes, also if it was too far behind to be kept.
    nul: bool,
    block: Block,
    name: Kept<MAX_EVENT_TYPE>,
    /// The id to come into force with the end of the event.
    id: Kept<MAX_EVENT_ID>,
    last_id: Kept<MAX_EVENT_ID>,
    retry: Option<Duration>,
    skim: Skim,
}

/// What is known of the event at hand.
#[derive(Clone, Copy, Default)]
struct Block {
    /// A line of it was begun that is more than a comment.
    begun: bool,
    /// It has a line of data, though that may be empty.
    data: bool,
    /// It has a valid id.
    id: bool,
    /// Its data goes to the scanner.
    skimming: bool,
}

/// Where in a line the next byte stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the name of a field, or at the start of the line.
    Name,
    /// Behind the colon, where one space does not belong to the value.
    Colon(Field),
    Value(Field),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    /// A comment, or a field that nobody knows.
    Other,
}

impl Field {
    const KNOWN: [(&[u8], Self); 4] =
        [(b"data", Self::Data), (b"event", Self::Event), (b"id", Self::Id), (b"retry", Self::Retry)];

    fn named(name: &Kept<MAX_EVENT_ID>) -> Self {
        let known = Self::KNOWN.into_iter().find(|(known, _)| *known == name.kept());
        known.map_or(Self::Other, |(_, field)| field)
    }
}

/// What an event came to.
enum Found {
    Message { start: usize, end: usize },
    Primed,
    Oversize,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> EventDecoder<B> {
    /// A decoder that accepts data of up to `limit` bytes.
    pub const fn new(buffer: B, limit: usize) -> Self {
        Self {
            buffer,
            limit,
            start: 0,
            joined: 0,
            read: 0,
            end: 0,
            mark: 0,
            returned: false,
            place: Place::Name,
            line: Kept::new(),
            nul: false,
            block: Block { begun: false, data: false, id: false, skimming: false },
            name: Kept::new(),
            id: Kept::new(),
            last_id: Kept::new(),
            retry: None,
            skim: Skim::new(),
        }
    }

    /// Where to read into. Empty only while events must be taken first or [`EventDecoder::wants_room`].
    pub fn space(&mut self) -> &mut [u8] {
        self.compact();
        self.buffer.as_mut().get_mut(self.end..).unwrap_or_default()
    }

    /// Says that the first `n` bytes of [`EventDecoder::space`] were filled.
    pub fn filled(&mut self, n: usize) {
        self.end = self.end.saturating_add(n).min(self.buffer_len());
    }

    /// The next event, if all of it is there.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event<'_>> {
        let found = self.advance()?;
        Some(match found {
            Found::Message { start, end } => {
                let name = self.name.kept();
                let name = if name.is_empty() { b"message" } else { name };
                Event::Message { name, data: self.buffer.as_ref().get(start..end).unwrap_or_default() }
            }
            Found::Primed => Event::Primed,
            Found::Oversize => Event::Oversize(Oversize {
                id: self.skim.id(),
                is_response: !self.skim.has_method(),
                length: self.skim.length(),
            }),
        })
    }

    /// The id to resume the stream after (`Last-Event-ID`), byte for byte: that of the last complete event that had one,
    /// whether a message or not. `None` if there is none, if the server took it back with an empty one, or if it
    /// [was too long](EventDecoder::last_event_id_is_too_long).
    ///
    /// It holds no line ends and no NUL, but maybe other bytes that a header cannot carry.
    #[must_use]
    pub fn last_event_id(&self) -> Option<&[u8]> {
        self.last_id.bytes().filter(|id| !id.is_empty())
    }

    /// The last id was longer than [`MAX_EVENT_ID`], so the stream cannot be resumed until another one comes.
    #[must_use]
    pub fn last_event_id_is_too_long(&self) -> bool {
        self.last_id.bytes().is_none()
    }

    /// How long the server wishes a client to wait before it connects again (`retry`), if it ever said so. It is in
    /// force as soon as its line is complete.
    #[must_use]
    pub const fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Whether an event was begun that is not complete. At the end of a stream such an event does not count.
    #[must_use]
    pub fn is_amid_event(&self) -> bool {
        let begins = |field: &[u8]| !self.line.kept().is_empty() && field.starts_with(self.line.kept());
        self.block.begun
            || self.place == Place::Name && Field::KNOWN.into_iter().any(|(name, _)| begins(name))
    }

    /// Starts over for the bytes of another connection. Whatever is not given out is dropped; the last event's id and
    /// the wished delay stay, as the other connection continues where this one ended.
    pub fn restart(&mut self) {
        (self.start, self.joined, self.read, self.end) = (0, 0, 0, 0);
        (self.mark, self.returned) = (0, false);
        self.next_line();
        self.next_block();
        self.id = self.last_id;
    }

    /// The size that the buffer should grow to, if data fills it and is still under the limit.
    #[must_use]
    pub fn wants_room(&self) -> Option<usize> {
        let length = self.buffer_len();
        let full = self.read >= self.end && self.joined.saturating_sub(self.start) >= length;
        full.then(|| length.saturating_mul(2).max(1).min(self.limit.saturating_add(MARGIN)))
    }

    /// Replaces the buffer, moves what is pending over and gives the old one back.
    ///
    /// # Errors
    /// Gives `new` back, and changes nothing, if it cannot hold what is pending.
    pub fn replace_buffer(&mut self, mut new: B) -> Result<B, B> {
        let old = self.buffer.as_ref();
        let data = old.get(self.start..self.joined).unwrap_or_default();
        let unread = old.get(self.read..self.end).unwrap_or_default();
        let joined = data.len();
        let end = joined.saturating_add(unread.len());
        let Some(target) = new.as_mut().get_mut(..end) else { return Err(new) };
        target.iter_mut().zip(data.iter().chain(unread)).for_each(|(to, from)| *to = *from);
        (self.start, self.joined, self.read, self.end) = (0, joined, joined, end);
        Ok(core::mem::replace(&mut self.buffer, new))
    }

    /// Number of bytes that are kept: data of the event at hand, and whatever was not looked at yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.joined.saturating_sub(self.start) + self.end.saturating_sub(self.read)
    }

    /// Size of the buffer.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        self.buffer.as_ref().len()
    }

    /// Reads on to the end of the next event.
    fn advance(&mut self) -> Option<Found> {
        if !self.block.begun {
            // The type of the event that was given out last was needed until now.
            self.name.clear();
        }
        loop {
            let unread = self.buffer.as_ref().get(self.read..self.end)?;
            let first = *unread.first()?;
            let line_feed = first == b'\n' && self.returned;
            self.returned = false;
            if line_feed {
                self.read += 1;
                continue;
            }
            if let Some(expected) = MARK.get(usize::from(self.mark)) {
                if first == *expected {
                    self.read += 1;
                    self.mark += 1;
                    continue;
                }
                // Bytes of only a part of the mark begin the name of some field.
                if self.mark > 0 {
                    self.place = Place::Value(Field::Other);
                }
                self.mark = MARK.len() as u8;
            }
            match memchr2(b'\n', b'\r', unread) {
                None => {
                    self.piece(self.end);
                    return None;
                }
                Some(at) => {
                    let end = self.read + at;
                    self.returned = unread.get(at) == Some(&b'\r');
                    self.piece(end);
                    self.read = end + 1;
                    if let Some(found) = self.line_end() {
                        return Some(found);
                    }
                }
            }
        }
    }

    /// Reads up to `to`, where the line ends or more of it is to come.
    fn piece(&mut self, to: usize) {
        loop {
            let bytes = self.buffer.as_ref().get(self.read..to).unwrap_or_default();
            let Some(first) = bytes.first() else { return };
            match self.place {
                Place::Name => {
                    let colon = memchr(b':', bytes);
                    self.line.extend(bytes.get(..colon.unwrap_or(bytes.len())).unwrap_or_default());
                    let Some(colon) = colon else { break };
                    self.read += colon + 1;
                    let field = Field::named(&self.line);
                    self.place = Place::Colon(field);
                    self.line.clear();
                    self.begin(field);
                }
                Place::Colon(field) => {
                    self.read += usize::from(*first == b' ');
                    self.place = Place::Value(field);
                }
                Place::Value(Field::Data) => {
                    self.data(to);
                    break;
                }
                Place::Value(Field::Other) => break,
                Place::Value(_) => {
                    self.nul |= memchr(0, bytes).is_some();
                    self.line.extend(bytes);
                    break;
                }
            }
        }
        self.read = to;
    }

    /// The name of a field was read.
    fn begin(&mut self, field: Field) {
        self.block.begun |= field != Field::Other;
        if field != Field::Data {
            return;
        }
        if self.block.data {
            self.join();
        }
        self.block.data = true;
    }

    /// Puts the `\n` between two lines of data. What was read behind the first of them leaves room for it.
    fn join(&mut self) {
        if self.block.skimming || !self.grows_by(1) {
            self.skim.feed(b"\n");
            return;
        }
        if self.start == self.joined {
            let at = self.read.saturating_sub(1);
            (self.start, self.joined) = (at, at);
        }
        if let Some(slot) = self.buffer.as_mut().get_mut(self.joined) {
            *slot = b'\n';
            self.joined += 1;
        }
    }

    /// Takes the bytes up to `to` as data.
    fn data(&mut self, to: usize) {
        let from = self.read;
        if self.block.skimming || !self.grows_by(to.saturating_sub(from)) {
            self.skim.feed(self.buffer.as_ref().get(from..to).unwrap_or_default());
            return;
        }
        if self.start == self.joined {
            (self.start, self.joined) = (from, to);
        } else if self.joined == from {
            self.joined = to;
        } else {
            move_down(self.buffer.as_mut(), self.joined, from, to);
            self.joined += to.saturating_sub(from);
        }
    }

    /// Whether the data stays within the limit with `more` bytes. If not, it goes to the scanner.
    fn grows_by(&mut self, more: usize) -> bool {
        let length = self.joined.saturating_sub(self.start);
        if length.saturating_add(more) <= self.limit {
            return true;
        }
        self.block.skimming = true;
        self.skim = Skim::new();
        self.skim.feed(self.buffer.as_ref().get(self.start..self.joined).unwrap_or_default());
        self.joined = self.start;
        false
    }

    /// The line at hand is complete.
    fn line_end(&mut self) -> Option<Found> {
        let field = match self.place {
            Place::Name if self.line.kept().is_empty() => return self.dispatch(),
            Place::Name => {
                // A field without a colon has an empty value.
                let field = Field::named(&self.line);
                self.begin(field);
                self.line.clear();
                field
            }
            Place::Colon(field) | Place::Value(field) => field,
        };
        match field {
            Field::Data | Field::Other => {}
            Field::Event => {
                self.name.clear();
                self.name.extend(self.line.kept());
            }
            Field::Id if self.nul => {}
            Field::Id => {
                self.id = self.line;
                self.block.id = true;
            }
            Field::Retry => self.retry = self.line.bytes().and_then(milliseconds).or(self.retry),
        }
        self.next_line();
        None
    }

    /// A blank line: the event at hand is complete.
    fn dispatch(&mut self) -> Option<Found> {
        let block = self.block;
        let (start, end) = (self.start, self.joined);
        if block.id {
            self.last_id = self.id;
        }
        self.next_block();
        if block.skimming {
            Some(Found::Oversize)
        } else if start < end {
            Some(Found::Message { start, end })
        } else {
            // The type went with the event, though nobody was told of it.
            self.name.clear();
            block.id.then_some(Found::Primed)
        }
    }

    fn next_line(&mut self) {
        self.place = Place::Name;
        self.line.clear();
        self.nul = false;
    }

    fn next_block(&mut self) {
        self.block = Block::default();
        (self.start, self.joined) = (self.read, self.read);
    }

    /// Drops what was read, and moves the data to the front where that is free or makes much room.
    fn compact(&mut self) {
        if self.read < self.end {
            return;
        }
        let (start, joined) = (self.start, self.joined);
        let length = joined.saturating_sub(start);
        (self.read, self.end) = (joined, joined);
        let free = self.buffer_len().saturating_sub(joined);
        // Data moves once at most for want of any room, and otherwise into room that had been filled before.
        if length == 0 || free == 0 || (length <= start && free < self.buffer_len() / 2) {
            if start > 0 && length > 0 {
                move_down(self.buffer.as_mut(), 0, start, joined);
            }
            (self.start, self.joined, self.read, self.end) = (0, length, length, length);
        }
    }
}

/// Moves the bytes `from..end` to `to`, which is not behind them.
fn move_down(buffer: &mut [u8], to: usize, from: usize, end: usize) {
    // With copy_within a build for size would link the checks inside, and with them a panic.
    let cells = Cell::from_mut(buffer).as_slice_of_cells();
    let (Some(from), Some(to)) = (cells.get(from..end), cells.get(to..)) else { return };
    from.iter().zip(to).for_each(|(from, to)| to.set(from.get()));
}

/// The value of a `retry` field, if it is a number. One that no clock could measure is none.
fn milliseconds(value: &[u8]) -> Option<Duration> {
    if value.is_empty() {
        return None;
    }
    let number = value.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then_some(byte & 15)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })?;
    Some(Duration::from_millis(number))
}

impl<B: AsRef<[u8]>> fmt::Debug for EventDecoder<B> {
    /// Without the bytes: they may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventDecoder")
            .field("buffer_len", &self.buffer.as_ref().len())
            .field("limit", &self.limit)
            .field("data", &self.joined.saturating_sub(self.start))
            .field("unread", &self.end.saturating_sub(self.read))
            .field("skimming", &self.block.skimming)
            .finish_non_exhaustive()
    }
}
