//! `connect --proxy` end to end: a session that is shared over HTTP, with a listener that outlives its server's sleep.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

#[path = "proxy/changing.rs"]
mod changing;
#[path = "proxy/client.rs"]
mod client;
#[path = "proxy/front.rs"]
mod front;
#[path = "proxy/ports.rs"]
mod ports;
#[path = "proxy/secrets.rs"]
mod secrets;
#[path = "proxy/sleep.rs"]
mod sleep;
