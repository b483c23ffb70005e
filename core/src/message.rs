//! Writes the messages that drowse itself sends, into a caller's buffer.
//!
//! Payloads of others never pass through here: they are spliced, see [`crate::splice`].

use crate::capabilities::ClientCapabilities;
use crate::era::Revision;
use crate::logging::Level;

/// Who we are, as `clientInfo` and `serverInfo` say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Name of the program.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// The key of a request's revision in `_meta` (basic/index, per-request protocol fields).
pub const META_PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The key of a request's client capabilities in `_meta`.
pub const META_CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The key of the client's name and version in `_meta`.
pub const META_CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The key of the wanted log level in `_meta`.
pub const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The key of a request's own time-out in milliseconds, in `_meta` on drowse's sockets.
pub const META_TIMEOUT: &str = "dev.drowse/timeoutMs";
/// The key, in `_meta` on drowse's sockets, that a log level is set for now only: the next server is told nothing.
pub const META_FORGET: &str = "dev.drowse/forget";
/// The key of the progress token in `_meta`.
pub const META_PROGRESS_TOKEN: &str = "progressToken";

/// A message of drowse's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Own {
    /// The probe, also used as the keepalive of a modern server: `server/discover`.
    Discover {
        /// Its wire id.
        id: u64,
        /// The revision it offers.
        revision: Revision,
    },
    /// The legacy handshake.
    Initialize {
        /// Its wire id.
        id: u64,
        /// The revision it offers.
        revision: Revision,
    },
    /// `notifications/initialized`
    Initialized,
    /// The legacy keepalive.
    Ping {
        /// Its wire id.
        id: u64,
    },
    /// `logging/setLevel`, which a legacy server is told after every start.
    SetLevel {
        /// Its wire id.
        id: u64,
        /// How much of its log is wanted.
        level: Level,
    },
    /// `notifications/cancelled` for the request of that wire id.
    Cancelled {
        /// The wire id of the cancelled request.
        id: u64,
        /// Whether it was its time-out that ended it.
        timed_out: bool,
    },
}

/// The buffer is too small for the message; nothing useful was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Overflow;

impl core::fmt::Display for Overflow {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the buffer is too small for the message")
    }
}

impl core::error::Error for Overflow {}

/// Appends to a caller's buffer; past its end it only counts.
#[derive(Debug)]
pub struct Writer<'b> {
    buffer: &'b mut [u8],
    length: usize,
}

impl<'b> Writer<'b> {
    /// Starts at the buffer's beginning.
    #[must_use]
    pub const fn new(buffer: &'b mut [u8]) -> Self {
        Self { buffer, length: 0 }
    }

    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        let end = self.length.saturating_add(bytes.len());
        if let Some(room) = self.buffer.get_mut(self.length..end) {
            // Compiles to the same copy as copy_from_slice, whose check of the lengths would be a way to panic.
            for (slot, byte) in room.iter_mut().zip(bytes) {
                *slot = *byte;
            }
        }
        self.length = end;
    }

    /// Appends a number in decimal.
    pub fn number(&mut self, value: u64) {
        let mut digits = [0; 20];
        self.raw(decimal(value, &mut digits));
    }

    /// Appends a signed number in decimal.
    pub fn signed(&mut self, value: i64) {
        if value < 0 {
            self.raw(b"-");
        }
        self.number(value.unsigned_abs());
    }

    /// Appends a JSON string, quoted and escaped.
    pub fn string(&mut self, text: &str) {
        self.raw(b"\"");
        let mut rest = text.as_bytes();
        while let Some(at) = rest.iter().position(|&byte| needs_escape(byte)) {
            let Some((plain, [byte, after @ ..])) = rest.split_at_checked(at) else { break };
            self.raw(plain);
            self.escaped(*byte);
            rest = after;
        }
        self.raw(rest);
        self.raw(b"\"");
    }

    /// Appends a value of the embedder's own, such as the arguments of a tool.
    ///
    /// drowse does not use it for its own messages: it links what serde-json-core can panic with (a `char` is one
    /// of the types that do; see there).
    pub fn value(&mut self, value: &impl serde::Serialize) {
        let written =
            self.buffer.get_mut(self.length..).and_then(|room| serde_json_core::to_slice(value, room).ok());
        // A value that does not fit makes the whole message overflow, whatever its length.
        self.length = written.map_or(usize::MAX, |n| self.length.saturating_add(n));
    }

    fn escaped(&mut self, byte: u8) {
        let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' - 10 + nibble };
        match byte {
            b'"' | b'\\' => self.raw(&[b'\\', byte]),
            b'\n' => self.raw(b"\\n"),
            b'\r' => self.raw(b"\\r"),
            b'\t' => self.raw(b"\\t"),
            0x08 => self.raw(b"\\b"),
            0x0c => self.raw(b"\\f"),
            _ => self.raw(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]),
        }
    }

    /// What was written.
    ///
    /// # Errors
    /// If it did not all fit.
    pub fn finish(self) -> Result<&'b [u8], Overflow> {
        self.buffer.get(..self.length).ok_or(Overflow)
    }
}

/// Whether a byte of a string may not stand for itself in JSON.
const fn needs_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..0x20)
}

/// Writes `value` in decimal; returns the digits.
pub fn decimal(value: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut rest = value;
    let mut used = 0;
    for slot in digits.iter_mut().rev() {
        *slot = b'0' + (rest % 10) as u8;
        rest /= 10;
        used += 1;
        if rest == 0 {
            break;
        }
    }
    digits.get(20 - used..).unwrap_or_default()
}

/// Writes one of drowse's own messages, without a line end, as a client that can be asked for nothing.
///
/// # Errors
/// If the buffer is too small; [`OWN_MAX`] bytes are enough for an [`Identity`] of ordinary length.
pub fn own(message: Own, identity: Identity, buffer: &mut [u8]) -> Result<&[u8], Overflow> {
    own_with(message, identity, ClientCapabilities::default(), buffer)
}

/// Writes one of drowse's own messages, without a line end, as a client with these capabilities.
///
/// # Errors
/// If the buffer is too small; [`OWN_MAX`] bytes are enough for an [`Identity`] of ordinary length.
pub fn own_with(
    message: Own,
    identity: Identity,
    capabilities: ClientCapabilities,
    buffer: &mut [u8],
) -> Result<&[u8], Overflow> {
    let mut w = Writer::new(buffer);
    w.raw(br#"{"jsonrpc":"2.0","#);
    match message {
        Own::Discover { id, revision } => {
            w.raw(br#""id":"#);
            w.number(id);
            w.raw(br#","method":"server/discover","params":{"_meta":"#);
            request_meta(&mut w, revision, identity, capabilities);
            w.raw(b"}}");
        }
        Own::Initialize { id, revision } => {
            w.raw(br#""id":"#);
            w.number(id);
            w.raw(br#","method":"initialize","params":{"protocolVersion":""#);
            w.raw(revision.name().as_bytes());
            w.raw(br#"","capabilities":"#);
            capabilities.write(&mut w);
            w.raw(br#","clientInfo":"#);
            implementation(&mut w, identity);
            w.raw(b"}}");
        }
        Own::Initialized => w.raw(br#""method":"notifications/initialized"}"#),
        Own::Ping { id } => {
            w.raw(br#""id":"#);
            w.number(id);
            w.raw(br#","method":"ping"}"#);
        }
        Own::SetLevel { id, level } => {
            w.raw(br#""id":"#);
            w.number(id);
            w.raw(br#","method":"logging/setLevel","params":{"level":""#);
            w.raw(level.name().as_bytes());
            w.raw(br#""}}"#);
        }
        Own::Cancelled { id, timed_out } => {
            let reason: &[u8] =
                if timed_out { br#""the request timed out""# } else { br#""the caller cancelled""# };
            cancelled_because(&mut w, id, reason);
        }
    }
    w.finish()
}

/// Writes [`Own::Cancelled`] with the caller's own reason, a JSON string.
pub fn cancelled(w: &mut Writer<'_>, id: u64, reason: &[u8]) {
    w.raw(br#"{"jsonrpc":"2.0","#);
    cancelled_because(w, id, reason);
}

fn cancelled_because(w: &mut Writer<'_>, id: u64, reason: &[u8]) {
    w.raw(br#""method":"notifications/cancelled","params":{"requestId":"#);
    w.number(id);
    w.raw(br#","reason":"#);
    w.raw(reason);
    w.raw(b"}}");
}

/// Room for every message of [`own`].
pub const OWN_MAX: usize = 512;

/// The `_meta` that every modern request of drowse's own has.
pub(crate) fn request_meta(
    w: &mut Writer<'_>,
    revision: Revision,
    identity: Identity,
    capabilities: ClientCapabilities,
) {
    w.raw(br#"{""#);
    w.raw(META_PROTOCOL_VERSION.as_bytes());
    w.raw(br#"":""#);
    w.raw(revision.name().as_bytes());
    w.raw(br#"",""#);
    w.raw(META_CLIENT_INFO.as_bytes());
    w.raw(br#"":"#);
    implementation(w, identity);
    w.raw(br#",""#);
    w.raw(META_CLIENT_CAPABILITIES.as_bytes());
    w.raw(br#"":"#);
    capabilities.write(w);
    w.raw(b"}");
}

fn implementation(w: &mut Writer<'_>, identity: Identity) {
    w.raw(br#"{"name":"#);
    w.string(identity.name);
    w.raw(br#","version":"#);
    w.string(identity.version);
    w.raw(b"}");
}

/// Writes a response with an empty result: the answer to a legacy server's `ping`.
///
/// # Errors
/// If the buffer is too small.
pub fn empty_result<'b>(id: &[u8], buffer: &'b mut [u8]) -> Result<&'b [u8], Overflow> {
    let mut w = Writer::new(buffer);
    w.raw(br#"{"jsonrpc":"2.0","id":"#);
    w.raw(id);
    w.raw(br#","result":{}}"#);
    w.finish()
}

/// Writes an error response. `id` is raw JSON, `data` as well; without an id the peer's could not be read.
///
/// # Errors
/// If the buffer is too small.
pub fn error<'b>(
    id: Option<&[u8]>,
    code: i32,
    message: &str,
    data: Option<&[u8]>,
    buffer: &'b mut [u8],
) -> Result<&'b [u8], Overflow> {
    let mut w = Writer::new(buffer);
    w.raw(br#"{"jsonrpc":"2.0","#);
    if let Some(id) = id {
        w.raw(br#""id":"#);
        w.raw(id);
        w.raw(b",");
    }
    w.raw(br#""error":{"code":"#);
    w.signed(i64::from(code));
    w.raw(br#","message":"#);
    w.string(message);
    if let Some(data) = data {
        w.raw(br#","data":"#);
        w.raw(data);
    }
    w.raw(b"}}");
    w.finish()
}

#[cfg(test)]
#[expect(clippy::std_instead_of_alloc, reason = "tests run on a host")]
mod tests {
    use super::*;
    use crate::envelope::{self, Message};
    use std::string::String;

    const US: Identity = Identity { name: "a \"quoted\" name", version: "1.2.3" };

    #[test]
    fn our_own_messages_are_messages() {
        let revision = Revision::LATEST_MODERN;
        for message in [
            Own::Discover { id: 0, revision },
            Own::Initialize { id: u64::MAX, revision: Revision::V2024_11_05 },
            Own::Initialized,
            Own::Ping { id: 7 },
            Own::SetLevel { id: u64::MAX, level: Level::Emergency },
            Own::Cancelled { id: 7, timed_out: true },
        ] {
            let mut buffer = [0; OWN_MAX];
            let bytes = own(message, US, &mut buffer).unwrap();
            let value: serde_json::Value = serde_json::from_slice(bytes).unwrap();
            assert_eq!(value["jsonrpc"], "2.0");
            match envelope::read(bytes).unwrap() {
                Message::Request { .. } | Message::Notification { .. } => {}
                other => panic!("{other:?}"),
            }
            let length = bytes.len();
            for short in [0, 1, length / 2, length - 1] {
                assert_eq!(
                    own(message, US, &mut [0; OWN_MAX][..short]),
                    Err(Overflow),
                    "{message:?} {short}"
                );
            }
        }
    }

    #[test]
    fn the_probe_says_all_that_a_modern_request_must() {
        let mut buffer = [0; OWN_MAX];
        let bytes = own(Own::Discover { id: 3, revision: Revision::V2026_07_28 }, US, &mut buffer).unwrap();
        let value: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        let meta = &value["params"]["_meta"];
        assert_eq!(meta[META_PROTOCOL_VERSION], "2026-07-28");
        assert_eq!(meta[META_CLIENT_CAPABILITIES], serde_json::json!({}));
        assert_eq!(meta[META_CLIENT_INFO]["name"], US.name);
    }

    #[test]
    fn what_we_can_be_asked_for_is_declared_in_both_eras() {
        let revision = Revision::LATEST_MODERN;
        let all = ClientCapabilities {
            form: true,
            url: true,
            sampling: true,
            sampling_tools: true,
            roots: true,
            tasks: true,
        };
        for message in [Own::Initialize { id: 1, revision }, Own::Discover { id: u64::MAX, revision }] {
            for (capabilities, wanted) in [
                (ClientCapabilities::default(), serde_json::json!({})),
                (
                    all,
                    serde_json::json!({
                        "elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {},
                        "extensions": {"io.modelcontextprotocol/tasks": {}}
                    }),
                ),
            ] {
                let mut buffer = [0; OWN_MAX];
                let bytes = own_with(message, US, capabilities, &mut buffer).unwrap();
                let params = serde_json::from_slice::<serde_json::Value>(bytes).unwrap()["params"].take();
                let declared = match message {
                    Own::Discover { .. } => &params["_meta"][META_CLIENT_CAPABILITIES],
                    _ => &params["capabilities"],
                };
                assert_eq!(*declared, wanted);
            }
        }
    }

    #[test]
    fn strings_are_escaped_like_everybody_elses() {
        let mut text = String::from("\u{7f}\u{2028}é𝄞");
        text.extend((0..0x80).map(char::from));
        let mut buffer = [0; 512];
        let mut w = Writer::new(&mut buffer);
        w.string(&text);
        let bytes = w.finish().unwrap();
        assert_eq!(serde_json::from_slice::<String>(bytes).unwrap(), text);
        assert_eq!(core::str::from_utf8(bytes).unwrap(), serde_json::to_string(&text).unwrap().as_str());
        let length = bytes.len();
        for short in 0..length {
            let mut w = Writer::new(&mut buffer[..short]);
            w.string(&text);
            assert_eq!(w.finish(), Err(Overflow));
        }
    }

    #[test]
    fn values_of_embedders_are_written() {
        #[derive(serde::Serialize)]
        struct Arguments<'a> {
            text: &'a str,
            times: [u8; 2],
        }
        let mut buffer = [0; 64];
        let mut w = Writer::new(&mut buffer);
        w.raw(b"[");
        w.value(&Arguments { text: "a\"b", times: [1, 2] });
        w.raw(b"]");
        assert_eq!(w.finish(), Ok(br#"[{"text":"a\"b","times":[1,2]}]"#.as_slice()));
        let mut w = Writer::new(&mut buffer[..8]);
        w.value(&Arguments { text: "", times: [1, 2] });
        assert_eq!(w.finish(), Err(Overflow));
    }

    #[test]
    fn errors_and_numbers() {
        let mut buffer = [0; 256];
        let bytes = error(Some(br#""a""#), -32601, "no \n such", Some(b"{\"x\":1}"), &mut buffer).unwrap();
        assert_eq!(
            bytes,
            br#"{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"no \n such","data":{"x":1}}}"#
        );
        let mut digits = [0; 20];
        for value in [0, 9, 10, u64::MAX] {
            assert_eq!(decimal(value, &mut digits), std::format!("{value}").as_bytes());
        }
    }
}
