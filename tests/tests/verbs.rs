//! What the command line offers of a server, end to end: the real binary, real servers of both eras.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod verbs {
    mod import;
    mod offers;
    mod once;
    mod shell;
}
