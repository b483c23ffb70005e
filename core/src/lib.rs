//! The MCP session machine. No sockets, no clock, no allocator.
#![no_std]
#[cfg(test)]
extern crate std;

pub mod envelope;
pub mod framing;
pub mod json;
mod skim;
pub mod span;
