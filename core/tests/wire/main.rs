//! Properties of what reads the wire: JSON scan, envelope, newline framing, server-sent events; and of what is rewritten
//! for the other side.
//!
//! What must hold is written down once, in [`oracle`], [`events`] and [`translation`], against `serde_json` and against the plainest code that does the
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
mod translation;
