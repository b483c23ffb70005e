//! Clients over HTTP on real sockets, in front of a hub whose server is in memory.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

#[allow(dead_code, unused_imports, reason = "each test crate uses a part of it")]
mod bridge;

mod http {
    mod away;
    mod bytes;
    mod encodings;
    mod gate;
    mod hostile;
    mod legacy;
    mod limits;
    mod modern;
    mod peer;
    mod two;
}
