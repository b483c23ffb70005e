//! The fixture server by hand-written lines over pipes: what other tests rely on must hold here first.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod fixture_smoke {
    pub mod peer;

    mod http_client;

    mod eras;
    mod http_faults;
    mod http_legacy;
    mod http_lives;
    mod http_modern;
    mod lines;
    mod lives;
    mod tools;
}
