//! Buffers of lines to read into and of bytes to write.

use std::io;
use std::os::fd::AsFd;

use memchr::memchr;

/// How much one read asks for, at the least.
const ROOM: usize = 128 << 10;
/// What a buffer may keep when it is empty.
const KEEP: usize = 1 << 20;

/// What was read, line by line.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    start: usize,
    searched: usize,
    end: usize,
}

impl Lines {
    /// Where to read into.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start > 0 && (self.start == self.end || self.bytes.len() - self.end < ROOM) {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.searched -= self.start;
            self.start = 0;
        }
        if self.end == 0 && self.bytes.len() > KEEP {
            self.bytes = Vec::new();
        }
        if self.bytes.len() - self.end < ROOM {
            self.bytes.resize((self.bytes.len() * 2).max(self.end + ROOM), 0);
        }
        &mut self.bytes[self.end..]
    }

    /// So much of it was filled.
    pub fn filled(&mut self, n: usize) {
        self.end += n;
    }

    /// The next whole line.
    #[expect(clippy::should_implement_trait, reason = "it lends")]
    pub fn next(&mut self) -> Option<&[u8]> {
        let Some(at) = memchr(b'\n', &self.bytes[self.searched..self.end]) else {
            self.searched = self.end;
            return None;
        };
        let (start, end) = (self.start, self.searched + at);
        self.start = end + 1;
        self.searched = self.start;
        Some(&self.bytes[start..end])
    }
}

/// Bytes to be written to what does not block.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    written: usize,
}

impl Output {
    /// Whether all was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    /// How much waits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Where to put more.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Writes what is taken.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn flush(&mut self, to: impl AsFd) -> io::Result<()> {
        while !self.is_empty() {
            match rustix::io::write(&to, &self.bytes[self.written..]) {
                Ok(n) => self.written += n,
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.is_empty() {
            self.written = 0;
            reuse(&mut self.bytes);
        } else if self.written > KEEP {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
        Ok(())
    }
}

/// Empties a buffer, and gives it back if it is large.
pub fn reuse(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEEP {
        *buffer = Vec::new();
    } else {
        buffer.clear();
    }
}
