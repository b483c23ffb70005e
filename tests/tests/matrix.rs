//! The acceptance matrix end to end: the real binary, real servers of both eras, the real clock.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod matrix {
    mod activity;
    mod answers;
    mod eras;
    mod harness;
    mod idle;
    mod lines;
    mod never_twice;
    mod socket;
}
