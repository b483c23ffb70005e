//! Servers behind a URL, end to end: the real binary, real sockets, the real clock, servers of both eras.
//!
//! The acceptance matrix by the same names as on stdio; how sessions recover; what servers and networks get wrong. What
//! ran, and how often, is counted by the server. Every home is checked for what is left in it when it is dropped.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod http {
    mod answers;
    mod bystander;
    #[path = "../bad_input/confined.rs"]
    #[allow(dead_code, reason = "another suite uses all of it")]
    mod confined;
    mod idle;
    mod mirror;
    mod network;
    mod old;
    mod proxies;
    mod recovery;
    mod redirects;
    mod resumption;
    mod secrets;
    mod seen;
    mod tls;
    mod tls_front;
    mod trouble;
}
