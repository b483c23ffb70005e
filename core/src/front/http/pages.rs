//! Pages of other origins that were allowed by name: what their browsers have to be told (Fetch, CORS protocol).
//!
//! Only those: pages of this machine come in as any client does, and to all others nothing is said.

use super::{Header, Headers};
use crate::http::headers::{PARAM_PREFIX, is_token};
use crate::message::Writer;

/// The methods that a page may use.
pub const METHODS: &str = "POST, GET, DELETE";
/// What a page may read of a response beside its body.
pub const EXPOSED: &str = "mcp-session-id";
/// For how many seconds a browser need not ask again.
pub const MAX_AGE: u64 = 600;

/// The headers that a page may send, beside those for the parameters of tools.
const HEADERS: &str = "authorization, content-type, accept, mcp-session-id, mcp-protocol-version, last-event-id, \
                       mcp-method, mcp-name";

/// Writes the headers that a page may send: those that any may, and of those that it asks for the parameters of tools.
pub fn write_allowed(headers: &(impl Headers + ?Sized), w: &mut Writer<'_>) {
    w.raw(HEADERS.as_bytes());
    let asked =
        headers.all(Header::RequestHeaders.name()).flat_map(|value| value.split(|byte| *byte == b','));
    for name in asked.map(<[u8]>::trim_ascii) {
        let is_param = name.split_at_checked(PARAM_PREFIX.len()).is_some_and(|(start, rest)| {
            start.eq_ignore_ascii_case(PARAM_PREFIX.as_bytes()) && !rest.is_empty()
        });
        if is_param && name.iter().all(|byte| is_token(*byte)) {
            w.raw(b", ");
            w.raw(name);
        }
    }
}

/// The space that [`write_allowed`] needs at most.
pub fn allowed_length(headers: &(impl Headers + ?Sized)) -> usize {
    let asked = headers.all(Header::RequestHeaders.name()).map(<[u8]>::len);
    // Each name that is written is longer than the comma and the blank before it.
    asked.fold(HEADERS.len(), |sum, length| sum.saturating_add(length.saturating_mul(2)))
}
