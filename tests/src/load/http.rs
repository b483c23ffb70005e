//! As much of HTTP/1.1 as a load benchmark needs: heads, bodies with a length or in chunks, and events.

use std::io::{self, Read};

use memchr::memmem;

/// The first line of a message, and what follows from its fields.
#[derive(Debug, Default, Clone)]
pub struct Head {
    /// The request line, or the status line.
    pub first: String,
    /// How long the body is.
    pub length: usize,
    /// The body comes in chunks.
    pub chunked: bool,
    /// It is a stream of events.
    pub events: bool,
    /// The session that the server gave.
    pub session: Option<String>,
}

impl Head {
    /// The status of an answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.first.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    fn read(text: &str) -> Self {
        let mut lines = text.split("\r\n");
        let mut head = Self { first: lines.next().unwrap_or_default().to_owned(), ..Self::default() };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.length = value.parse().unwrap_or(0),
                "transfer-encoding" => head.chunked = value.eq_ignore_ascii_case("chunked"),
                "content-type" => head.events = value.starts_with("text/event-stream"),
                "mcp-session-id" => head.session = Some(value.to_owned()),
                _ => {}
            }
        }
        head
    }
}

/// What was read of a connection and not used.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    start: usize,
}

impl Input {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Reads more; `false` at the end.
    fn more(&mut self, from: &mut impl Read) -> io::Result<bool> {
        self.bytes.drain(..self.start);
        self.start = 0;
        let end = self.bytes.len();
        self.bytes.resize(end + (64 << 10), 0);
        let read = from.read(&mut self.bytes[end..]);
        self.bytes.truncate(end + *read.as_ref().unwrap_or(&0));
        Ok(read? > 0)
    }

    /// The next head; `None` if the connection ends instead.
    ///
    /// # Errors
    /// If it breaks.
    pub fn head(&mut self, from: &mut impl Read) -> io::Result<Option<Head>> {
        loop {
            if let Some(end) = memmem::find(self.rest(), b"\r\n\r\n") {
                let head = Head::read(&String::from_utf8_lossy(&self.rest()[..end]));
                self.start += end + 4;
                return Ok(Some(head));
            }
            if !self.more(from)? {
                return Ok(None);
            }
        }
    }

    /// The whole body that belongs to a head.
    ///
    /// # Errors
    /// If the connection ends before it.
    pub fn body(&mut self, from: &mut impl Read, head: &Head, body: &mut Vec<u8>) -> io::Result<()> {
        body.clear();
        if !head.chunked {
            return self.take(from, head.length, body);
        }
        while self.chunk(from, body)? {}
        Ok(())
    }

    /// The next chunk of a body; `false`: that was the last.
    ///
    /// # Errors
    /// If the connection ends before it.
    pub fn chunk(&mut self, from: &mut impl Read, body: &mut Vec<u8>) -> io::Result<bool> {
        let size = loop {
            if let Some(end) = memmem::find(self.rest(), b"\r\n") {
                let size = String::from_utf8_lossy(&self.rest()[..end]).into_owned();
                self.start += end + 2;
                let size = size.split(';').next().unwrap_or_default().trim().to_owned();
                break usize::from_str_radix(&size, 16).map_err(io::Error::other)?;
            }
            if !self.more(from)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        self.take(from, size, body)?;
        self.take(from, 2, &mut Vec::new())?;
        Ok(size > 0)
    }

    fn take(&mut self, from: &mut impl Read, count: usize, into: &mut Vec<u8>) -> io::Result<()> {
        while self.rest().len() < count {
            if !self.more(from)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        into.extend_from_slice(&self.bytes[self.start..self.start + count]);
        self.start += count;
        Ok(())
    }
}

/// The data of the events in a body, those of a line each, which is how MCP's are written.
pub fn events(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = body.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
    lines.map(|data| data.trim_ascii()).filter(|data| !data.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_with_a_length_and_in_chunks() {
        let mut text = &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nMcp-Session-Id: s\r\n\r\nabHTTP/1.1 202 Accepted\r\n\
            transfer-encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n"[..];
        let mut input = Input::default();
        let mut body = Vec::new();
        let head = input.head(&mut text).unwrap().unwrap();
        input.body(&mut text, &head, &mut body).unwrap();
        assert_eq!((head.status(), head.session.as_deref(), &*body), (200, Some("s"), &b"ab"[..]));
        let head = input.head(&mut text).unwrap().unwrap();
        input.body(&mut text, &head, &mut body).unwrap();
        assert_eq!((head.status(), head.events, &*body), (202, true, &b"abc0123456789"[..]));
        assert!(input.head(&mut text).unwrap().is_none());
    }

    #[test]
    fn data_of_events() {
        let body = b": hello\n\nid: 1\ndata:\n\nevent: message\r\ndata: {\"a\":1}\r\n\r\ndata:{}\n\n";
        assert_eq!(events(body).collect::<Vec<_>>(), [&b"{\"a\":1}"[..], b"{}"]);
    }
}
