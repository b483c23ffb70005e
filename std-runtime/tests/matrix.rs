//! The acceptance matrix on the bridge: its hub between in-memory streams, on tokio's paused clock, in both eras.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod bridge;

/// Makes a test of each row in each era: `legacy::row` and `modern::row`.
macro_rules! in_both_eras {
    ($($row:ident)+) => {
        mod legacy {
            $(#[test]
            fn $row() {
                crate::bridge::play(async || super::$row(drowse_core::era::Era::Legacy).await);
            })+
        }
        mod modern {
            $(#[test]
            fn $row() {
                crate::bridge::play(async || super::$row(drowse_core::era::Era::Modern).await);
            })+
        }
    };
}

mod matrix {
    mod activity;
    mod idle;
    mod keeping;
    mod requests;
    mod stopping;
    mod tasks;
}
