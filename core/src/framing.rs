//! Newline framing over a buffer of the caller.
//!
//! The caller reads into [`LineDecoder::space`], says how much with [`LineDecoder::filled`], and takes frames with
//! [`LineDecoder::poll_frame`] until there is none. Nothing is copied but partial lines that must move to the front,
//! and no byte is searched twice for a newline.
//!
//! Memory stays bounded: a line over the limit is not kept, but streams through a small scanner that finds its id
//! (peers may put it *after* a huge result), so that whoever waits for it can be told. One [`Frame::Oversize`] stands
//! for the whole line, and the next line is read as if nothing had happened.

use core::fmt;

use memchr::memchr;

use crate::json::is_space;
use crate::skim::Skim;

#[cfg(test)]
mod tests;

/// What a line came to. Lines of white space only are skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// A line, without its `\n` or `\r\n`.
    Line(&'a [u8]),
    /// A line that was longer than the limit.
    Oversize(Oversize<'a>),
}

/// What is known of a line, or of an event's data, that was longer than the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Oversize<'a> {
    /// The id at the top of the message, byte for byte, if there was exactly one, valid and at most 256 bytes long.
    pub id: Option<&'a [u8]>,
    /// There was no method at the top: `id` is that of a request of ours.
    pub is_response: bool,
    /// Length of the line without its end, or of the data, in bytes.
    pub length: u64,
}

/// Splits a stream of bytes into lines.
///
/// The buffer must hold at least `limit` bytes for lines up to the limit to get through. A smaller one can be replaced
/// when [`LineDecoder::wants_room`] says so; where it cannot, let the limit be the size of the buffer.
pub struct LineDecoder<B> {
    buffer: B,
    limit: usize,
    /// What is not yet given out: `start..end`, of which `start..searched` has no newline.
    start: usize,
    searched: usize,
    end: usize,
    tail: Tail,
    spare: [u8; 1],
    /// The rest of the line at hand goes to `skim`.
    skimming: bool,
    skim: Skim,
}

/// What came in behind a buffer that a line of just the limit fills: its end may still follow, one byte at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    None,
    /// `\r`
    Return,
    /// `\n`: the line is complete.
    Newline,
    /// `\r\n`: the line is complete.
    ReturnNewline,
}

/// A frame that was found, and where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// A line, by its place in the buffer.
    Line {
        /// Where it starts.
        start: usize,
        /// Where it ends, without its `\n` or `\r\n`.
        end: usize,
    },
    /// A line that was longer than the limit.
    Oversize,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> LineDecoder<B> {
    /// A decoder that accepts lines of up to `limit` bytes, not counting their ends.
    pub const fn new(buffer: B, limit: usize) -> Self {
        Self {
            buffer,
            limit,
            start: 0,
            searched: 0,
            end: 0,
            tail: Tail::None,
            spare: [0],
            skimming: false,
            skim: Skim::new(),
        }
    }

    /// Where to read into. Empty only while frames must be taken first or [`LineDecoder::wants_room`].
    pub fn space(&mut self) -> &mut [u8] {
        if self.at_brim() {
            return &mut self.spare;
        }
        if self.tail != Tail::None {
            return &mut [];
        }
        self.compact();
        self.buffer.as_mut().get_mut(self.end..).unwrap_or_default()
    }

    /// Says that the first `n` bytes of [`LineDecoder::space`] were filled.
    pub fn filled(&mut self, n: usize) {
        if n == 0 {
            return;
        }
        if !self.at_brim() {
            self.end = self.end.saturating_add(n).min(self.buffer_len());
            return;
        }
        let [byte] = self.spare;
        self.tail = match (self.tail, byte) {
            (Tail::None, b'\n') => Tail::Newline,
            (Tail::Return, b'\n') => Tail::ReturnNewline,
            (Tail::None, b'\r') if self.pending() <= self.limit => Tail::Return,
            (tail, _) => {
                self.skim_pending();
                if tail == Tail::Return {
                    self.skim.feed(b"\r");
                }
                self.skim.feed(&[byte]);
                Tail::None
            }
        };
    }

    /// The next line, if all of it is there.
    #[must_use]
    pub fn poll_frame(&mut self) -> Option<Frame<'_>> {
        let found = self.poll_found()?;
        Some(self.frame(found))
    }

    /// The same for those who may want the buffer along with the line: until more is read, [`LineDecoder::frame`] shows it,
    /// and a buffer that is replaced still has it in its place.
    #[must_use]
    pub fn poll_found(&mut self) -> Option<Found> {
        self.advance()
    }

    /// Takes what is left as the last line, for when the stream has ended without a newline. Call it once
    /// [`LineDecoder::poll_frame`] gives nothing more.
    #[must_use]
    pub fn finish(&mut self) -> Option<Frame<'_>> {
        let found = match self.advance() {
            Some(found) => found,
            None if self.skimming => self.end_skimming()?,
            None => {
                let (start, end) = (self.start, self.end);
                let returned = self.tail == Tail::Return;
                self.tail = Tail::None;
                self.start = end;
                self.line(start, end, !returned)?
            }
        };
        Some(self.frame(found))
    }

    /// The size that the buffer should grow to, if a partial line fills it and is still under the limit.
    #[must_use]
    pub fn wants_room(&self) -> Option<usize> {
        let length = self.buffer_len();
        let full = self.start == 0 && self.end >= length && self.searched >= self.end;
        // A buffer without a byte could never take one in.
        let enough = self.limit.max(1);
        (full && length < enough).then(|| length.saturating_mul(2).max(1).min(self.limit.saturating_add(2)))
    }

    /// Replaces the buffer, moves what is pending over and gives the old one back.
    ///
    /// # Errors
    /// Gives `new` back, and changes nothing, if it cannot hold what is pending.
    pub fn replace_buffer(&mut self, mut new: B) -> Result<B, B> {
        let pending = self.buffer.as_ref().get(self.start..self.end).unwrap_or_default();
        let length = pending.len();
        let Some(target) = new.as_mut().get_mut(..length) else { return Err(new) };
        target.iter_mut().zip(pending).for_each(|(to, from)| *to = *from);
        self.searched = self.searched.saturating_sub(self.start);
        self.start = 0;
        self.end = length;
        // With room behind the line, its `\r` is an ordinary byte again.
        if self.tail == Tail::Return
            && let Some(slot) = new.as_mut().get_mut(length)
        {
            *slot = b'\r';
            self.end += 1;
            self.searched = self.end;
            self.tail = Tail::None;
        }
        Ok(core::mem::replace(&mut self.buffer, new))
    }

    /// Number of bytes that were read and not yet given out. Those of a line over the limit are not kept and not
    /// counted.
    #[must_use]
    pub fn pending(&self) -> usize {
        let behind = usize::from(matches!(self.tail, Tail::Return | Tail::ReturnNewline));
        self.end.saturating_sub(self.start) + behind
    }

    /// Size of the buffer.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        self.buffer.as_ref().len()
    }

    /// What was found last.
    #[must_use]
    pub fn frame(&self, found: Found) -> Frame<'_> {
        match found {
            Found::Line { start, end } => {
                Frame::Line(self.buffer.as_ref().get(start..end).unwrap_or_default())
            }
            Found::Oversize => Frame::Oversize(Oversize {
                id: self.skim.id(),
                is_response: !self.skim.has_method(),
                length: self.skim.line_length(),
            }),
        }
    }

    /// Takes the next complete line out of what is pending.
    fn advance(&mut self) -> Option<Found> {
        loop {
            let unsearched = self.buffer.as_ref().get(self.searched..self.end)?;
            let found = match memchr(b'\n', unsearched) {
                Some(at) => {
                    let start = self.start;
                    let end = self.searched + at;
                    self.start = end + 1;
                    self.searched = self.start;
                    if self.skimming {
                        self.skim.feed(self.buffer.as_ref().get(start..end).unwrap_or_default());
                        self.end_skimming()
                    } else {
                        self.line(start, end, true)
                    }
                }
                None => {
                    self.searched = self.end;
                    let (start, end) = (self.start, self.end);
                    if matches!(self.tail, Tail::Newline | Tail::ReturnNewline) {
                        let bare = self.tail == Tail::Newline;
                        self.tail = Tail::None;
                        self.start = end;
                        self.line(start, end, bare)
                    } else {
                        if self.skimming || self.is_over() {
                            self.skim_pending();
                        }
                        return None;
                    }
                }
            };
            if found.is_some() {
                return found;
            }
        }
    }

    /// The line `start..end`; a `\r` at its end belongs to its end if `bare`. `None` if it is blank.
    fn line(&mut self, start: usize, end: usize, bare: bool) -> Option<Found> {
        let whole = self.buffer.as_ref().get(start..end)?;
        let line = if bare { whole.strip_suffix(b"\r").unwrap_or(whole) } else { whole };
        if line.iter().all(|&byte| is_space(byte)) {
            return None;
        }
        let end = start + line.len();
        if line.len() <= self.limit {
            return Some(Found::Line { start, end });
        }
        self.skim = Skim::new();
        self.skim.feed(whole);
        Some(Found::Oversize)
    }

    /// Whether the partial line is over the limit, whatever follows. A `\r` may belong to its end.
    fn is_over(&self) -> bool {
        let line = self.buffer.as_ref().get(self.start..self.end).unwrap_or_default();
        line.strip_suffix(b"\r").unwrap_or(line).len() > self.limit
    }

    /// Gives the partial line to the scanner and lets go of it.
    fn skim_pending(&mut self) {
        if !self.skimming {
            self.skimming = true;
            self.skim = Skim::new();
        }
        self.skim.feed(self.buffer.as_ref().get(self.start..self.end).unwrap_or_default());
        (self.start, self.searched, self.end) = (0, 0, 0);
    }

    fn end_skimming(&mut self) -> Option<Found> {
        self.skimming = false;
        if self.skim.is_blank() { None } else { Some(Found::Oversize) }
    }

    /// The buffer is full of one partial line that can still turn out to be within the limit only by ending here.
    fn at_brim(&self) -> bool {
        let length = self.buffer_len();
        self.start == 0
            && self.end == length
            && self.searched == length
            && length >= self.limit.max(1)
            && matches!(self.tail, Tail::None | Tail::Return)
    }

    /// Moves what is pending to the front, where that is free or makes much room.
    fn compact(&mut self) {
        let (start, end) = (self.start, self.end);
        let buffer = self.buffer.as_mut();
        let pending = end.saturating_sub(start);
        let free = buffer.len().saturating_sub(end);
        // Each byte moves once at most on average: no more than were given out before, or for want of any room.
        if pending == 0 || free == 0 || (pending <= start && free < buffer.len() / 2) {
            if start == 0 {
                return;
            }
            // Checked here once more, so that the check inside is seen to hold and no panic is linked.
            if let Some(used) = buffer.get_mut(..end)
                && start <= used.len()
            {
                used.copy_within(start.., 0);
            }
            self.start = 0;
            self.searched = self.searched.saturating_sub(start);
            self.end = pending;
        }
    }
}

impl<B: AsRef<[u8]>> fmt::Debug for LineDecoder<B> {
    /// Without the bytes: they may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineDecoder")
            .field("buffer_len", &self.buffer.as_ref().len())
            .field("limit", &self.limit)
            .field("pending", &self.end.saturating_sub(self.start))
            .field("skimming", &self.skimming)
            .finish_non_exhaustive()
    }
}
