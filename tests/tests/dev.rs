//! The dev proxy end to end: the real binary between a client and a server that comes and goes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod dev {
    mod builds;
    mod client;
    mod ending;
    mod eras;
    mod failures;
    mod http;
    mod killed;
    mod restarts;
    mod serving;
    mod tools;
    mod urls;
    mod watching;
}
