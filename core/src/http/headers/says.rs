//! The other side of the headers: whether one says what the body says.

use super::{Number, SENTINEL_END, SENTINEL_START, base64_group};
use crate::json;

/// Whether `header`, the value of an `Mcp-Method`, `Mcp-Name` or `Mcp-Param-*` header without the blanks around it, says
/// the same as `raw`, a JSON value of the body. Numbers are compared as such ("Server Validation").
#[must_use]
pub fn says(header: &[u8], raw: &[u8]) -> bool {
    if !header.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
        return false;
    }
    match raw.first() {
        Some(b'"') => match encoded(header) {
            // There is one way to write it, with all that fills it up.
            Some(base64) => {
                let mut text = json::text(raw);
                let groups = core::iter::from_fn(|| base64_group(&mut text)).flatten();
                groups.eq(base64.iter().copied())
            }
            None => core::str::from_utf8(header).is_ok_and(|header| json::str_eq(raw, header)),
        },
        Some(b't' | b'f') => header == raw,
        Some(b'-' | b'0'..=b'9') => {
            header == raw
                || is_number(header)
                    && matches!((Number::of(header), Number::of(raw)), (Number::Safe(one), Number::Safe(other)) if one == other)
        }
        _ => false,
    }
}

/// Whether a header can carry the value.
#[must_use]
pub fn is_fit(raw: &[u8]) -> bool {
    match raw.first() {
        Some(b'"' | b't' | b'f') => true,
        Some(b'-' | b'0'..=b'9') => !matches!(Number::of(raw), Number::Unsafe),
        _ => false,
    }
}

/// What stands between the marks of an encoded value.
fn encoded(header: &[u8]) -> Option<&[u8]> {
    header.strip_prefix(SENTINEL_START)?.strip_suffix(SENTINEL_END)
}

fn is_number(text: &[u8]) -> bool {
    matches!(text.first(), Some(b'-' | b'0'..=b'9'))
        && json::scan(text).is_ok_and(|span| span.of(text) == text)
}
