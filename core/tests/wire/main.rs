//! Properties of what reads the wire: JSON scan, envelope, newline framing, server-sent events.
//!
//! What must hold is written down once, in [`oracle`] and [`events`], against `serde_json` and against the plainest code that does the
//! same; the fuzz targets check the same with their own inputs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core, reason = "tests run on a host")]

mod events;
mod generate;
mod oracle;
mod peer;
mod properties;
