//! The reading end of a byte stream: newline framing over a buffer that grows with a long line and shrinks after it.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use drowse_core::framing::{Found, Frame, LineDecoder, Oversize};
use tokio::io::{AsyncRead, ReadBuf};

/// Room for ordinary lines.
const ROOM: usize = 16 << 10;
/// A line that is longer than this is one of several, most of the time: those are read in large pieces.
const LONGISH: usize = 64 << 10;
/// A line that is longer than this gets much room at once: it is not copied each time that it has grown by half, and what
/// is not written to costs nothing.
const LONG: usize = 256 << 10;
/// So much.
const LARGE: usize = 33 << 20;

/// A line, and whose part it is: what lives on its own is kept without a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    bytes: &'a [u8],
    whole: Option<&'a Bytes>,
}

impl<'a> Line<'a> {
    pub(super) const fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// What it is a part of, if that lives on its own.
    pub(super) const fn whole(self) -> Option<&'a Bytes> {
        self.whole
    }

    /// A part of it.
    pub(super) const fn part(self, bytes: &'a [u8]) -> Self {
        Self { bytes, whole: self.whole }
    }

    /// It, for as long as it is wanted.
    pub(super) fn keep(self) -> Bytes {
        match self.whole {
            Some(whole) => whole.slice_ref(self.bytes),
            None => Bytes::copy_from_slice(self.bytes),
        }
    }
}

impl<'a> From<&'a [u8]> for Line<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, whole: None }
    }
}

impl<'a> From<&'a Bytes> for Line<'a> {
    fn from(bytes: &'a Bytes) -> Self {
        Self { bytes, whole: Some(bytes) }
    }
}

/// A frame. A very long line has left with its buffer.
#[derive(Debug)]
pub(super) enum Heard<'a> {
    Line(&'a [u8]),
    Long(Bytes),
    Oversize(Oversize<'a>),
}

impl<'a> From<Frame<'a>> for Heard<'a> {
    fn from(frame: Frame<'a>) -> Self {
        match frame {
            Frame::Line(line) => Self::Line(line),
            Frame::Oversize(oversize) => Self::Oversize(oversize),
        }
    }
}

/// A stream that is read line by line.
#[derive(Debug)]
pub(super) struct Intake {
    /// Its frames.
    pub(super) decoder: LineDecoder<Vec<u8>>,
    limit: usize,
}

impl Intake {
    /// Lines of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { decoder: LineDecoder::new(vec![0; ROOM], limit), limit }
    }

    /// The next frame, and whether it is not the only message that was read: others stand behind it, or in it.
    pub(super) fn poll(&mut self) -> Option<(Heard<'_>, bool)> {
        let found = self.decoder.poll_found()?;
        let more = self.decoder.pending() > 0;
        if let Found::Line { start, end } = found {
            let length = end - start;
            // What stands behind it is copied and what stands before it is kept along: neither is to be more than the line.
            if length > LONG && self.decoder.pending() <= length && start <= length {
                let room = self.decoder.pending().next_multiple_of(ROOM).max(ROOM);
                if let Ok(mut buffer) = self.decoder.replace_buffer(vec![0; room]) {
                    buffer.truncate(end);
                    buffer.shrink_to_fit();
                    return Some((Heard::Long(Bytes::from(buffer).slice(start..)), more));
                }
            }
        }
        let heard = Heard::from(self.decoder.frame(found));
        let more = more || matches!(heard, Heard::Line([b'[', ..]));
        Some((heard, more))
    }

    /// Makes room for the next read, also where frames wait to be taken out.
    pub(super) fn make_room(&mut self) {
        let Some(size) = self.decoder.wants_room() else {
            // Nothing read into no room would look like the end.
            if self.decoder.space().is_empty() {
                let _ = self.decoder.replace_buffer(vec![0; self.decoder.buffer_len().saturating_mul(2)]);
            }
            return;
        };
        let most = self.limit.saturating_add(2);
        let least = if size > LONG {
            LARGE
        } else if size > LONGISH {
            LONG
        } else {
            0
        };
        let size = size.max(least.min(most));
        // A refusal changes nothing, and the decoder then treats the line as too long.
        let _ = self.decoder.replace_buffer(vec![0; size]);
    }

    /// Nothing comes at the moment: what very long lines needed is given back.
    fn rest(&mut self) {
        if self.decoder.buffer_len() > LONG && self.decoder.pending() <= ROOM / 2 {
            let _ = self.decoder.replace_buffer(vec![0; ROOM]);
        }
    }

    /// Reads once. `false` at the end of the stream.
    pub(super) async fn read(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> io::Result<bool> {
        self.make_room();
        let n = poll_fn(|context| {
            let space = self.decoder.space();
            if space.is_empty() {
                // The longest line there may be waits to be taken out first.
                return Poll::Pending;
            }
            let mut space = ReadBuf::new(space);
            match Pin::new(&mut *reader).poll_read(context, &mut space) {
                Poll::Ready(read) => Poll::Ready(read.map(|()| space.filled().len())),
                Poll::Pending => {
                    self.rest();
                    Poll::Pending
                }
            }
        })
        .await?;
        self.decoder.filled(n);
        Ok(n > 0)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[test]
    fn what_waits_to_be_taken_out_is_not_the_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut near, mut far) = tokio::io::duplex(1 << 20);
            let line = vec![b'x'; 99];
            for _ in 0..5000 {
                far.write_all(&line).await.unwrap();
                far.write_all(b"\n").await.unwrap();
            }
            let mut intake = Intake::new(1 << 20);
            while intake.decoder.pending() < 500_000 {
                assert!(intake.read(&mut near).await.unwrap());
            }
            for _ in 0..5000 {
                assert!(matches!(intake.poll(), Some((Heard::Line(read), _)) if read == line));
            }
            drop(far);
            assert!(!intake.read(&mut near).await.unwrap());
        });
    }

    /// Reads `stream` in pieces of `piece` bytes, and says of each line how long it is and whether it left with its buffer.
    fn heard(stream: &[u8], piece: usize) -> Vec<(usize, bool)> {
        let mut intake = Intake::new(32 << 20);
        let mut lines = Vec::new();
        for mut bytes in stream.chunks(piece) {
            while !bytes.is_empty() {
                intake.make_room();
                let space = intake.decoder.space();
                let count = space.len().min(bytes.len());
                let (now, later) = bytes.split_at(count);
                space[..count].copy_from_slice(now);
                intake.decoder.filled(count);
                bytes = later;
                while let Some((frame, _)) = intake.poll() {
                    let (line, is_own) = match frame {
                        Heard::Line(line) => (Line::from(line).keep(), false),
                        Heard::Long(line) => (Line::from(&line).keep(), true),
                        Heard::Oversize(_) => panic!("there is none"),
                    };
                    // A line is made of one letter.
                    assert!(line.iter().all(|byte| *byte == line[0]), "of {} bytes", line.len());
                    lines.push((line.len(), is_own));
                }
            }
        }
        lines
    }

    #[test]
    fn a_very_long_line_leaves_with_its_buffer_and_those_around_it_are_whole() {
        let lengths = [100, 3 * LONG, 200, LONG + 1, 5 * LONG, 7, LONG, 2 * LONG];
        let mut stream = Vec::new();
        for (letter, length) in (b'a'..).zip(lengths) {
            stream.extend(std::iter::repeat_n(letter, length));
            stream.push(b'\n');
        }
        // In pieces as a pipe gives them, and so many at once that lines wait behind each other.
        for piece in [ROOM, LONG, 64 << 20] {
            let lines = heard(&stream, piece);
            assert_eq!(lines.iter().map(|line| line.0).collect::<Vec<_>>(), lengths, "{piece}");
            assert!(lines.iter().all(|(length, is_own)| !is_own || *length > LONG));
            assert!(lines[1].1 || piece > LONG, "the first of them alone");
        }
    }

    #[test]
    fn a_message_that_comes_alone_is_told_from_one_of_several() {
        let mut intake = Intake::new(1 << 20);
        let mut hear = |bytes: &[u8]| {
            intake.decoder.space()[..bytes.len()].copy_from_slice(bytes);
            intake.decoder.filled(bytes.len());
            std::iter::from_fn(|| intake.poll().map(|(_, more)| more)).collect::<Vec<_>>()
        };
        assert_eq!(hear(b"{}\n"), [false]);
        assert_eq!(hear(b"{}\r\n"), [false]);
        assert_eq!(hear(b"{}\n{}\n"), [true, false]);
        assert_eq!(hear(b"{}\n{"), [true]);
        assert_eq!(hear(b"}\n"), [false]);
        assert_eq!(hear(b"[{},{}]\n"), [true]);
    }

    #[test]
    fn what_leaves_is_not_kept_alive_with_more_than_itself() {
        let mut line = vec![b'x'; 10 << 20];
        line.push(b'\n');
        let mut intake = Intake::new(32 << 20);
        for piece in line.chunks(LONG) {
            let mut piece = piece;
            while !piece.is_empty() {
                intake.make_room();
                let space = intake.decoder.space();
                let count = space.len().min(piece.len());
                space[..count].copy_from_slice(&piece[..count]);
                intake.decoder.filled(count);
                piece = &piece[count..];
            }
        }
        let Some((Heard::Long(line), false)) = intake.poll() else { panic!("a long line") };
        assert_eq!(intake.decoder.buffer_len(), ROOM, "the stream goes on with an ordinary buffer");
        let kept = Line::from(&line).keep();
        assert_eq!(kept.as_ptr(), line.as_ptr(), "no copy");
        drop(line);
        assert_eq!(Vec::from(kept).capacity(), 10 << 20);
    }
}
