//! Servers behind a URL, end to end: the real binary, real sockets, the real clock, servers of both eras.
//!
//! The acceptance matrix by the same names as on stdio; how sessions recover; what servers and networks get wrong. What
//! ran, and how often, is counted by the server. Every home is checked for what is left in it when it is dropped.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod http {
    mod idle;
    mod old;
    mod recovery;
    mod resumption;
    mod seen;
    mod trouble;
}
