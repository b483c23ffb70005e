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
    pub(crate) const fn bytes(self) -> &'a [u8] {
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

    /// The next frame.
    pub(super) fn poll(&mut self) -> Option<Heard<'_>> {
        let found = self.decoder.poll_found()?;
        if let Found::Line { start, end } = found
            && end - start > LONG
            // What waits behind it is copied, which is to cost no more than to copy the line.
            && self.decoder.pending() <= end - start
        {
            let room = self.decoder.pending().next_multiple_of(ROOM).max(ROOM);
            if let Ok(buffer) = self.decoder.replace_buffer(vec![0; room]) {
                return Some(Heard::Long(Bytes::from(buffer).slice(start..end)));
            }
        }
        Some(match self.decoder.frame(found) {
            Frame::Line(line) => Heard::Line(line),
            Frame::Oversize(oversize) => Heard::Oversize(oversize),
        })
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
    use drowse_core::framing::Frame;
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
                assert_eq!(intake.decoder.poll_frame(), Some(Frame::Line(&line)));
            }
            drop(far);
            assert!(!intake.read(&mut near).await.unwrap());
        });
    }
}
