//! The headers that repeat what a request says in its body (basic/transports/streamable-http, "Request Metadata"):
//! `Mcp-Name`, and `Mcp-Param-*` for the arguments that a tool's schema marks with `x-mcp-header`.
//!
//! Everything works on spans of frames that were read already; nothing is copied but the header's value, into the
//! caller's [`Writer`].
//!
//! An adapter [looks through](tools) each list of tools and leaves out those that are marked wrongly, as HTTP clients
//! must. Before a call it goes through the tool's [`annotations`], and where there is an [argument](Annotation::argument)
//! it writes [name](Annotation::write_name) and [value](write_value).
//!
//! Where a name is repeated in an object, the last one counts, as it does to nearly all parsers of servers: header and
//! body must say the same to them.

use crate::envelope::Known;
use crate::json::{self, Text};
use crate::message::Writer;
use crate::method::Method;
use crate::span::Span;
use crate::splice::RequestParts;

mod says;
mod schema;
#[cfg(test)]
mod tests;

pub use says::{is_fit, says};
pub(crate) use schema::is_token;
pub use schema::{
    Annotation, Annotations, Fault, MAX_ANNOTATIONS, MAX_PATH, Tool, Tools, annotations, check, tools,
};

/// What the names of the headers for arguments start with.
pub const PARAM_PREFIX: &str = "Mcp-Param-";

const SENTINEL_START: &[u8] = b"=?base64?";
const SENTINEL_END: &[u8] = b"?=";

/// The largest integer that a header may carry, and below zero the smallest: beyond it, JavaScript loses digits.
const MAX_SAFE: u64 = (1 << 53) - 1;

/// The value for the header `Mcp-Name`, if requests of this method have one: `params.name`, `params.uri` or (in the
/// extension for tasks) `params.taskId`, a string.
#[must_use]
pub fn name(method: Method, frame: &[u8], parts: &RequestParts) -> Option<Span> {
    let source = match method {
        Method::ToolsCall | Method::PromptsGet => Known::Name,
        Method::ResourcesRead => Known::Uri,
        Method::Tasks => Known::TaskId,
        _ => return None,
    };
    parts.value(source).filter(|value| json::is_string(value.of(frame)))
}

/// Whether `error`, an error of a modern server, says that the headers of a request were not what its body wants, so that
/// nothing ran: the tool may be marked otherwise by now, and is to be listed anew before one more attempt
/// ("Client Behavior"; basic/index, Error Codes).
#[must_use]
pub fn were_refused(frame: &[u8], error: Span) -> bool {
    json::member(frame, error, "code").and_then(|code| json::as_i64(code.of(frame))) == Some(-32020)
}

/// No header can carry the value: it is an array, an object, or an integer that is not within 2^53.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Unfit;

impl core::fmt::Display for Unfit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("no header can carry the value")
    }
}

impl core::error::Error for Unfit {}

/// Writes `raw`, a JSON value, as the value of `Mcp-Name` or of an `Mcp-Param-*` header: strings plain or in base64, see
/// [`is_plain`], integers in decimal, booleans as words.
///
/// A number with a fraction goes as it is written. No schema that may be marked allows it, but that is for the server to
/// say, and without the header it would complain of that instead.
///
/// # Errors
/// If there is no way to write it; then nothing is written.
pub fn write_value(raw: &[u8], w: &mut Writer<'_>) -> Result<(), Unfit> {
    match raw.first() {
        Some(b'"') => write_text(raw, w),
        Some(b't' | b'f') => w.raw(raw),
        Some(b'-' | b'0'..=b'9') => match Number::of(raw) {
            Number::Safe(value) => w.signed(value),
            Number::Fraction => w.raw(raw),
            Number::Unsafe => return Err(Unfit),
        },
        _ => return Err(Unfit),
    }
    Ok(())
}

/// Whether the text of `raw`, a JSON string with its quotes, may stand in a header as it is. Otherwise it goes in base64,
/// between `=?base64?` and `?=` ("Value Encoding"): text with anything but visible ASCII and spaces, with spaces at its
/// ends, which are lost on the way, and text that looks like such an encoding.
///
/// A tab between other characters would be allowed too, but is a control character to some.
#[must_use]
pub fn is_plain(raw: &[u8]) -> bool {
    let mut start = SENTINEL_START.iter();
    let mut looks_encoded = true;
    let (mut last, mut before) = (None, None);
    for byte in json::text(raw) {
        if !matches!(byte, b' '..=b'~') || byte == b' ' && last.is_none() {
            return false;
        }
        looks_encoded &= start.next().is_none_or(|expected| *expected == byte);
        (last, before) = (Some(byte), last);
    }
    looks_encoded &=
        start.next().is_none() && [before, last].into_iter().flatten().eq(SENTINEL_END.iter().copied());
    last != Some(b' ') && !looks_encoded
}

fn write_text(raw: &[u8], w: &mut Writer<'_>) {
    if is_plain(raw) {
        write_unescaped(raw, w);
        return;
    }
    w.raw(SENTINEL_START);
    let mut text = json::text(raw);
    while let Some(group) = base64_group(&mut text) {
        w.raw(&group);
    }
    w.raw(SENTINEL_END);
}

/// Writes the text of a JSON string as it is.
fn write_unescaped(raw: &[u8], w: &mut Writer<'_>) {
    for byte in json::text(raw) {
        w.raw(&[byte]);
    }
}

/// The next three bytes of the text in base64 (RFC 4648, section 4).
fn base64_group(text: &mut Text<'_>) -> Option<[u8; 4]> {
    const ALPHABET: [u8; 64] = *b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |bits: u32| ALPHABET.get((bits & 63) as usize).copied().unwrap_or_default();
    let first = text.next()?;
    let (second, third) = (text.next(), text.next());
    let bits = u32::from_be_bytes([0, first, second.unwrap_or_default(), third.unwrap_or_default()]);
    Some([
        letter(bits >> 18),
        letter(bits >> 12),
        second.map_or(b'=', |_| letter(bits >> 6)),
        third.map_or(b'=', |_| letter(bits)),
    ])
}

/// What a JSON number is to a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Number {
    /// An integer within 2^53, be it written as `42`, `42.0` or `4.2e1`.
    Safe(i64),
    /// An integer beyond that, or a number with so many digits.
    Unsafe,
    Fraction,
}

impl Number {
    fn of(raw: &[u8]) -> Self {
        Self::parts(raw).unwrap_or(Self::Unsafe)
    }

    /// `None` once the digits are too many.
    fn parts(raw: &[u8]) -> Option<Self> {
        let (negative, digits) = raw.strip_prefix(b"-").map_or((false, raw), |rest| (true, rest));
        let exponent_at = digits.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(digits.len());
        let (digits, exponent) = digits.split_at_checked(exponent_at)?;
        let mut value = 0u64;
        // The zeros at the end count only once another digit follows.
        let mut power = exponent.split_first().map_or(0, |(_, exponent)| whole(exponent));
        let mut zeros = 0i64;
        let mut fraction = false;
        for byte in digits {
            match byte {
                b'.' => fraction = true,
                _ => {
                    power = power.saturating_sub(i64::from(fraction));
                    zeros += 1;
                    if *byte != b'0' {
                        value = shifted(value, zeros)?.checked_add(u64::from(byte & 15))?;
                        zeros = 0;
                    }
                }
            }
        }
        power = power.saturating_add(zeros);
        if value != 0 && power < 0 {
            return Some(Self::Fraction);
        }
        let value = shifted(value, power).filter(|value| *value <= MAX_SAFE)?;
        let value = i64::try_from(value).ok()?;
        Some(Self::Safe(if negative { -value } else { value }))
    }
}

/// `value` times ten to the power of `by`.
fn shifted(value: u64, by: i64) -> Option<u64> {
    if value == 0 {
        return Some(0);
    }
    10u64.checked_pow(u32::try_from(by).ok()?)?.checked_mul(value)
}

/// An exponent; its size stops growing where it has long ceased to matter.
fn whole(exponent: &[u8]) -> i64 {
    let digits = exponent.iter().filter(|byte| byte.is_ascii_digit());
    let size = digits.fold(0i64, |size, digit| size.saturating_mul(10).saturating_add(i64::from(digit & 15)));
    if exponent.first() == Some(&b'-') { size.saturating_neg() } else { size }
}

/// The value of the last member of `object` whose name, with its quotes, `is` the one that is looked for.
fn last_member(frame: &[u8], object: Span, is: impl Fn(&[u8]) -> bool) -> Option<Span> {
    json::members(frame, object).filter(|member| is(member.key.of(frame))).last().map(|member| member.value)
}
