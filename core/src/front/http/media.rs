//! What a body is, and what its client reads: the headers about media (RFC 9110, 8.3, 8.4 and 12.5.1).

use super::{Accepts, Header, Headers, Refusal, single};

/// What nearly all clients accept (basic/transports/streamable-http, Sending Messages to the Server).
const USUAL: &[u8] = b"application/json, text/event-stream";

/// The parts of a header's value, without the blanks around them. What is quoted is not taken apart.
struct Parts<'v> {
    rest: Option<&'v [u8]>,
    at: u8,
}

const fn parts(value: &[u8], at: u8) -> Parts<'_> {
    Parts { rest: Some(value), at }
}

impl<'v> Iterator for Parts<'v> {
    type Item = &'v [u8];

    fn next(&mut self) -> Option<&'v [u8]> {
        let rest = self.rest?;
        let (mut quoted, mut escaped) = (false, false);
        let end = rest.iter().position(|byte| {
            if escaped {
                escaped = false;
            } else if *byte == b'"' {
                quoted = !quoted;
            } else if quoted {
                escaped = *byte == b'\\';
            } else {
                return *byte == self.at;
            }
            false
        });
        let (part, tail) = end.and_then(|end| rest.split_at_checked(end)).unwrap_or((rest, &[]));
        self.rest = tail.split_first().map(|(_, tail)| tail);
        Some(part.trim_ascii())
    }
}

/// The value of a parameter of that name.
fn parameter<'v>(part: &'v [u8], name: &str) -> Option<&'v [u8]> {
    let (given, value) = part.split_at_checked(name.len())?;
    let value = value.strip_prefix(b"=")?;
    given.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
}

/// A weight in thousandths (RFC 9110, 12.4.2). More digits than the three that there may be are read, too.
#[must_use]
pub fn weight(text: &[u8]) -> Option<u16> {
    let (whole, rest) = text.split_first()?;
    let digits = match rest {
        [] => &[],
        [b'.', digits @ ..] => digits,
        _ => return None,
    };
    let (mut thousandths, mut unit) = (0u16, 100u16);
    for digit in digits {
        let digit = digit.is_ascii_digit().then_some(u16::from(digit & 15))?;
        thousandths = match unit {
            // Less than a thousandth is not nothing.
            0 if digit > 0 => thousandths.max(1),
            _ => thousandths.saturating_add(digit.saturating_mul(unit)),
        };
        unit /= 10;
    }
    match (whole, thousandths) {
        (b'0', _) => Some(thousandths),
        (b'1', 0) => Some(1000),
        _ => None,
    }
}

/// What is said about one kind of media; what says it most exactly counts.
#[derive(Clone, Copy, Default)]
struct Wanted {
    exactness: u8,
    weight: u16,
    /// Its place among all ranges.
    at: usize,
}

impl Wanted {
    fn hear(&mut self, range: &[u8], exact: &str, group: &str, weight: u16, at: usize) {
        let is = |name: &str| range.eq_ignore_ascii_case(name.as_bytes());
        let exactness = match () {
            () if is(exact) => 3,
            () if is(group) => 2,
            () if is("*/*") => 1,
            () => return,
        };
        if exactness > self.exactness || exactness == self.exactness && weight > self.weight {
            *self = Self { exactness, weight, at };
        }
    }
}

impl Accepts {
    /// Reads `Accept`. Without one everything is accepted; a weight that is none counts as 1.
    pub(super) fn read(headers: &(impl Headers + ?Sized)) -> Option<Self> {
        let mut values = headers.all(Header::Accept.name());
        if let (Some(USUAL), None) = (values.next(), values.next()) {
            return Some(Self::Both);
        }
        let (mut json, mut stream) = (Wanted::default(), Wanted::default());
        let ranges = headers.all(Header::Accept.name()).flat_map(|value| parts(value, b','));
        let mut any = false;
        for (at, range) in ranges.enumerate() {
            any = true;
            let mut parts = parts(range, b';');
            let kind = parts.next().unwrap_or_default();
            let weight = parts.find_map(|part| parameter(part, "q")).and_then(weight).unwrap_or(1000);
            json.hear(kind, "application/json", "application/*", weight, at);
            stream.hear(kind, "text/event-stream", "text/*", weight, at);
        }
        match (json.weight, stream.weight) {
            _ if !any => Some(Self::Both),
            (0, 0) => None,
            (_, 0) => Some(Self::Json),
            (0, _) => Some(Self::Stream),
            (less, more) if less < more || less == more && stream.at < json.at => Some(Self::StreamFirst),
            _ => Some(Self::Both),
        }
    }
}

/// Whether a body is JSON as it is sent: in UTF-8, and not packed.
///
/// # Errors
/// If it is something else.
pub(super) fn check(headers: &(impl Headers + ?Sized)) -> Result<(), Refusal> {
    let kind = single(headers, Header::ContentType)?.unwrap_or_default();
    let mut kind = parts(kind, b';');
    if !kind.next().unwrap_or_default().eq_ignore_ascii_case(b"application/json") {
        return Err(Refusal::ContentType);
    }
    for charset in kind.filter_map(|part| parameter(part, "charset")) {
        let inside = charset.strip_prefix(b"\"").and_then(|charset| charset.strip_suffix(b"\""));
        let charset = inside.unwrap_or(charset);
        if !["utf-8", "utf8", "us-ascii"].iter().any(|name| charset.eq_ignore_ascii_case(name.as_bytes())) {
            return Err(Refusal::Charset);
        }
    }
    let all_are = |header: Header, name: &str| {
        let mut codings = headers.all(header.name()).flat_map(|value| parts(value, b','));
        codings.all(|coding| coding.is_empty() || coding.eq_ignore_ascii_case(name.as_bytes()))
    };
    if !all_are(Header::ContentEncoding, "identity") {
        return Err(Refusal::ContentEncoding);
    }
    // What takes chunks apart leaves what is in them as it is.
    if !all_are(Header::TransferEncoding, "chunked") {
        return Err(Refusal::TransferEncoding);
    }
    Ok(())
}
