//! The MCP session machine. No sockets, no clock, no allocator.
#![no_std]
#[cfg(test)]
extern crate std;
