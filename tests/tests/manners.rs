//! How the command line behaves on terminals, towards shells, and where names are mistyped.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod manners {
    mod completion;
    mod help;
    mod hostile;
    mod meant;
    mod terminals;
}
