//! What must hold for any bytes as server-sent events. Panics if it does not.

use std::time::Duration;

use drowse_core::framing::{Frame, LineDecoder};
use drowse_core::sse::{Event, EventDecoder, MAX_EVENT_ID, MAX_EVENT_TYPE};

/// An event that outlives the buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Owned {
    Message { name: Vec<u8>, data: Vec<u8> },
    Primed,
    Oversize { id: Option<Vec<u8>>, is_response: bool, length: u64 },
}

impl From<Event<'_>> for Owned {
    fn from(event: Event<'_>) -> Self {
        match event {
            Event::Message { name, data } => Self::Message { name: name.to_vec(), data: data.to_vec() },
            Event::Primed => Self::Primed,
            Event::Oversize(oversize) => Self::Oversize {
                id: oversize.id.map(<[u8]>::to_vec),
                is_response: oversize.is_response,
                length: oversize.length,
            },
        }
    }
}

/// What a stream comes to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stream {
    pub(crate) events: Vec<Owned>,
    pub(crate) last_id: Option<Vec<u8>>,
    pub(crate) retry: Option<Duration>,
    too_long: bool,
    pub(crate) unfinished: bool,
}

/// Whatever the pieces in which `stream` arrives and whatever the size of the buffer, it comes to what the plainest code
/// makes of it. `pieces` are used in turn, each is the size of the next read.
pub(crate) fn sse(stream: &[u8], limit: usize, buffer: usize, pieces: &[u8]) {
    let expected = plain(stream, limit);
    let found = decode(stream, limit, stream.len().max(limit) + 1, &[]);
    assert_eq!(found, expected, "limit {limit}");
    let found = decode(stream, limit, buffer, pieces);
    assert_eq!(found, expected, "limit {limit}, buffer {buffer}, pieces {pieces:?}");
}

pub(crate) fn decode(mut stream: &[u8], limit: usize, buffer: usize, pieces: &[u8]) -> Stream {
    let mut decoder = EventDecoder::new(vec![0; buffer], limit);
    let mut pieces = pieces.iter().cycle();
    let mut events = Vec::new();
    while !stream.is_empty() {
        if let Some(size) = decoder.wants_room() {
            assert!(decoder.space().is_empty());
            assert!(size > decoder.buffer_len() && size <= limit + 64);
            assert!(decoder.replace_buffer(vec![0; size]).is_ok());
        }
        let space = decoder.space();
        let n = pieces.next().map_or(usize::MAX, |&piece| usize::from(piece)).clamp(1, space.len().max(1));
        let n = n.min(stream.len());
        let (now, later) = stream.split_at(n);
        space.get_mut(..n).expect("after polling there must be space").copy_from_slice(now);
        stream = later;
        decoder.filled(n);
        // Events may be taken at any time, but once there is no space they must be.
        if n.is_multiple_of(3) && !decoder.space().is_empty() {
            continue;
        }
        while let Some(event) = decoder.poll_event() {
            events.push(event.into());
        }
        assert!(decoder.pending() <= limit, "more is kept than the limit");
    }
    while let Some(event) = decoder.poll_event() {
        events.push(event.into());
    }
    Stream {
        events,
        last_id: decoder.last_event_id().map(<[u8]>::to_vec),
        retry: decoder.retry(),
        too_long: decoder.last_event_id_is_too_long(),
        unfinished: decoder.is_amid_event(),
    }
}

/// The rules of the standard over the whole stream at once.
fn plain(stream: &[u8], limit: usize) -> Stream {
    let mut found = Stream::default();
    let mut lines = lines(stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream));
    let rest = lines.pop().unwrap_or_default();
    let (mut begun, mut data, mut name, mut id) = (false, None::<Vec<u8>>, Vec::new(), None);
    for line in lines {
        if line.is_empty() {
            if let Some(id) = id.take() {
                let id: Vec<u8> = id;
                found.too_long = id.len() > MAX_EVENT_ID;
                found.last_id = Some(id).filter(|id| !id.is_empty() && !found.too_long);
                if data.as_ref().is_none_or(Vec::is_empty) {
                    found.events.push(Owned::Primed);
                }
            }
            if let Some(data) = data.take().filter(|data| !data.is_empty()) {
                let name = std::mem::take(&mut name);
                found.events.push(if data.len() > limit {
                    oversize(data, limit)
                } else {
                    message(name, data)
                });
            }
            name.clear();
            begun = false;
            continue;
        }
        let (field, value) = split(&line);
        begun |= [&b"data"[..], b"event", b"id", b"retry"].contains(&field);
        match field {
            b"data" => match &mut data {
                Some(data) => data.extend([b"\n", value].concat()),
                None => data = Some(value.to_vec()),
            },
            b"event" => name = value.to_vec(),
            b"id" if !value.contains(&0) => id = Some(value.to_vec()),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let number = std::str::from_utf8(value).expect("digits").parse();
                found.retry =
                    number.ok().filter(|_| value.len() <= 256).map(Duration::from_millis).or(found.retry);
            }
            _ => {}
        }
    }
    let fields = ["data", "event", "id", "retry"].map(str::as_bytes);
    let amid = if rest.contains(&b':') {
        fields.contains(&split(&rest).0)
    } else {
        !rest.is_empty() && fields.iter().any(|field| field.starts_with(&rest))
    };
    found.unfinished = begun || amid;
    found
}

/// The lines without their ends, and what follows the last of them.
fn lines(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut lines = vec![Vec::new()];
    let mut bytes = stream.iter().peekable();
    while let Some(&byte) = bytes.next() {
        if byte == b'\r' {
            bytes.next_if_eq(&&b'\n');
        }
        match lines.last_mut() {
            Some(line) if byte != b'\r' && byte != b'\n' => line.push(byte),
            _ => lines.push(Vec::new()),
        }
    }
    lines
}

/// The name of a field and its value.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let Some(colon) = line.iter().position(|&byte| byte == b':') else { return (line, b"") };
    let value = &line[colon + 1..];
    (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
}

fn message(mut name: Vec<u8>, data: Vec<u8>) -> Owned {
    name.truncate(MAX_EVENT_TYPE);
    let name = if name.is_empty() { b"message".to_vec() } else { name };
    Owned::Message { name, data }
}

/// What framing says of a line of this length. A line of blanks it would not report at all.
fn oversize(mut data: Vec<u8>, limit: usize) -> Owned {
    let length = data.len() as u64;
    let Some(text) = data.iter().position(|byte| !b" \t\n".contains(byte)) else {
        return Owned::Oversize { id: None, is_response: true, length };
    };
    // A line break between two lines of data is white space to JSON, except in a string, where it is wrong: there a
    // control character that no line ends with stands for it.
    let (mut quoted, mut escaped) = (false, false);
    for byte in &mut data[text..] {
        quoted ^= *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        if *byte == b'\n' {
            *byte = if quoted { 1 } else { b' ' };
        }
    }
    data[..text].fill(b' ');
    data.push(b'\n');
    let mut decoder = LineDecoder::new(data.clone(), limit);
    decoder.filled(data.len());
    let Some(Frame::Oversize(oversize)) = decoder.poll_frame() else { panic!("not oversize") };
    Owned::Oversize { id: oversize.id.map(<[u8]>::to_vec), is_response: oversize.is_response, length }
}
