//! Tasks end to end, in both eras and on both transports.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod tasks {
    mod calls;
    mod places;
    mod waiting;
}
