//! Servers behind a URL: what the parts of an HTTP exchange mean.
//!
//! Sockets, TLS and the syntax of HTTP are the adapter's. What a status or an error body says, when a stream that
//! broke is taken up again, and whether a request may have run, is decided here ([`exchange`]) and carried to
//! [`crate::server::Server::handle_verdict`]. What a request repeats in its headers is in [`headers`].

pub mod exchange;
pub mod headers;
