//! The reading end of a byte stream: newline framing over a buffer that grows with a long line and shrinks after it.

use std::io;

use drowse_core::framing::LineDecoder;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Room for ordinary lines.
const ROOM: usize = 16 << 10;
/// How much room more than one read of a long line asks for, at the least.
const SHRINK_OVER: usize = 256 << 10;

/// A stream that is read line by line.
#[derive(Debug)]
pub(super) struct Intake {
    /// Its frames.
    pub(super) decoder: LineDecoder<Vec<u8>>,
}

impl Intake {
    /// Lines of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { decoder: LineDecoder::new(vec![0; ROOM], limit) }
    }

    /// Makes room for the next read; all frames have been taken out.
    pub(super) fn make_room(&mut self) {
        let size = match self.decoder.wants_room() {
            Some(size) => size,
            None if self.decoder.buffer_len() > SHRINK_OVER && self.decoder.pending() <= ROOM / 2 => ROOM,
            None => return,
        };
        // A refusal changes nothing, and the decoder then treats the line as too long.
        let _ = self.decoder.replace_buffer(vec![0; size]);
    }

    /// Reads once. `false` at the end of the stream.
    pub(super) async fn read(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> io::Result<bool> {
        self.make_room();
        let n = reader.read(self.decoder.space()).await?;
        self.decoder.filled(n);
        Ok(n > 0)
    }
}
