//! The MCP session machine. No sockets, no clock, no threads, no allocator, no random numbers, no log.
//!
//! Bytes, events and time go in; decisions come out. For each server there is one [`server::Server`]:
//!
//! 1. hand in what happened: [`submit`](server::Server::submit), [`handle_frame`](server::Server::handle_frame) and the
//!    other `handle_*`, each with the time;
//! 2. drain [`poll_action`](server::Server::poll_action), do what it says, and hand the acknowledgement back in;
//! 3. sleep until [`poll_timeout`](server::Server::poll_timeout), or until something happens;
//! 4. [`handle_timeout`](server::Server::handle_timeout); repeat.
//!
//! Around it: [`framing`] cuts a stream into lines and [`sse`] one into events, [`front`] reads what callers send,
//! [`splice`] rewrites requests and answers on their way without copying them, [`http`] says what the exchanges with a
//! server behind a URL mean, [`message`] writes drowse's own, [`trace`] records and replays inputs, and
//! [`activity`] is the table of what wakes a server. `docs/embedding.md` in the repository shows the whole loop.
//!
//! No input panics, loops, or recurses without bound.
#![no_std]
#![forbid(unsafe_code)]
#[cfg(test)]
extern crate std;
// The simulated host is shared with the integration tests, which know the crate by its name.
#[cfg(test)]
extern crate self as drowse_core;

pub mod activity;
pub mod caching;
pub mod capabilities;
pub mod crash;
pub mod dev;
pub mod envelope;
pub mod era;
pub mod framing;
pub mod front;
pub mod held;
pub mod http;
pub mod json;
pub mod keepalive;
pub mod lifecycle;
pub mod link;
pub mod logging;
pub mod message;
pub mod method;
pub mod negotiate;
pub mod notification;
pub mod relay;
pub mod server;
#[cfg(feature = "embassy-sync")]
pub mod shared;
mod skim;
pub mod snapshot;
pub mod span;
pub mod splice;
pub mod sse;
pub mod tally;
pub mod tasks;
pub mod time;
pub mod trace;

/// The examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
struct Guide;
