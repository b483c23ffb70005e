//! The MCP session machine. No sockets, no clock, no allocator.
#![no_std]
#![forbid(unsafe_code)]
#[cfg(test)]
extern crate std;
// The simulated host is shared with the integration tests, which know the crate by its name.
#[cfg(test)]
extern crate self as drowse_core;

pub mod activity;
pub mod crash;
pub mod envelope;
pub mod era;
pub mod framing;
pub mod front;
pub mod json;
pub mod keepalive;
pub mod lifecycle;
pub mod link;
pub mod message;
pub mod method;
pub mod negotiate;
pub mod server;
#[cfg(feature = "embassy-sync")]
pub mod shared;
mod skim;
pub mod span;
pub mod splice;
pub mod time;
pub mod trace;
