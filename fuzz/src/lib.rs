//! What the fuzz targets check, as plain functions of the fuzzer's bytes.
//!
//! `cargo test --manifest-path fuzz/Cargo.toml` replays the seeds in `corpus/<target>/`, whole and damaged, on the stable
//! toolchain. To look for more:
//!
//! ```text
//! cargo +nightly fuzz run envelope fuzz/artifacts/found fuzz/corpus/envelope
//! ```
//!
//! A new target is a function here with a line in [`TARGETS`], a file in `fuzz_targets/`, a `[[bin]]`, and some seeds.

/// The properties themselves are those of the core's own tests.
#[allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a target fails by panicking")]
#[path = "../../core/tests/wire/oracle.rs"]
mod oracle;

#[allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a target fails by panicking")]
#[path = "../../core/tests/wire/events.rs"]
mod events;

#[allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a target fails by panicking"
)]
#[path = "../../core/tests/wire/translation.rs"]
mod translation;

#[allow(clippy::expect_used, clippy::panic, reason = "a target fails by panicking")]
mod exchange;
#[allow(clippy::expect_used, reason = "a target fails by panicking")]
mod facade;
#[allow(clippy::expect_used, clippy::panic, reason = "a target fails by panicking")]
mod front;
#[allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a target fails by panicking")]
mod http;
#[allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a target fails by panicking"
)]
mod relay;

/// Takes the bytes of the fuzzer, and panics if what must hold does not.
pub type Target = fn(&[u8]);

/// Every target by its name.
pub const TARGETS: [(&str, Target); 9] = [
    ("envelope", envelope),
    ("exchange", exchange),
    ("framing", framing),
    ("facade", facade),
    ("front", front),
    ("relay", relay),
    ("http", http),
    ("sse", sse),
    ("translation", translation),
];

/// `data` as what the network does about one exchange of HTTP.
pub fn exchange(data: &[u8]) {
    exchange::play(data);
}

/// `data` as a trace of the facade's inputs.
pub fn facade(data: &[u8]) {
    facade::play(data);
}

/// `data` as the lines of a client's connection.
pub fn front(data: &[u8]) {
    front::lines(data);
}

/// `data` as what clients, servers and time do to the relay.
pub fn relay(data: &[u8]) {
    relay::orders(data);
}

/// `data` as a request over HTTP.
pub fn http(data: &[u8]) {
    http::request(data);
}

/// `data` as one frame: the JSON scan and the envelope agree with `serde_json`, walks of anything end.
pub fn envelope(data: &[u8]) {
    oracle::json(data);
    oracle::envelope(data);
    oracle::walks(data, 0, data.len(), "id");
    if let [start, end, ..] = *data {
        oracle::walks(data, start.into(), end.into(), "_meta");
    }
}

/// `data` as a stream of lines, see [`Arrival`].
pub fn framing(data: &[u8]) {
    let Some(Arrival { stream, limit, buffer, pieces }) = Arrival::read(data) else { return };
    oracle::framing(stream, limit, buffer, pieces);
    oracle::framing(stream, limit, limit, pieces);
}

/// `data` as a stream of server-sent events, see [`Arrival`].
pub fn sse(data: &[u8]) {
    let Some(Arrival { stream, limit, buffer, pieces }) = Arrival::read(data) else { return };
    events::sse(stream, limit, buffer, pieces);
    events::sse(stream, limit, limit + 1, pieces);
}

/// `data` as a request of a client, and what its server says to that: lines.
pub fn translation(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (request, said) = data.split_at(end);
    translation::translation(request, said.get(1..).unwrap_or_default());
}

/// A stream behind a head that says how it arrives: the limit, the size of the buffer, the number of pieces (up to 15),
/// and the size of each.
struct Arrival<'a> {
    stream: &'a [u8],
    limit: usize,
    buffer: usize,
    pieces: &'a [u8],
}

impl<'a> Arrival<'a> {
    fn read(data: &'a [u8]) -> Option<Self> {
        let [limit, buffer, count, ref rest @ ..] = *data else { return None };
        let count = usize::from(count & 0x0f).min(rest.len());
        let (pieces, stream) = rest.split_at(count);
        let limit = usize::from(limit);
        // What the buffer lacks or has over the limit matters most.
        let buffer = (limit + usize::from(buffer)).saturating_sub(128);
        Some(Self { stream, limit, buffer, pieces })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::TARGETS;

    /// The seeds, each cut short at every place and with every byte changed in turn.
    #[test]
    fn seeds_hold() {
        for (name, target) in TARGETS {
            let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
            let mut seeds = 0;
            for entry in fs::read_dir(&corpus).expect("a corpus") {
                let data = fs::read(entry.expect("a seed").path()).expect("its bytes");
                seeds += 1;
                target(&data);
                // Longer ones would take more time than they are worth.
                for at in 0..data.len().min(600) {
                    target(&data[..at]);
                    for byte in [0, b'\n', b'\r', b'"', b'\\', b'}', data[at] ^ 0x01, data[at] ^ 0x80] {
                        let mut changed = data.clone();
                        changed[at] = byte;
                        target(&changed);
                    }
                }
            }
            assert!(seeds > 0, "no seeds in {}", corpus.display());
        }
    }
}
