//! What the outside world gets wrong, end to end: servers, configuration files, disks, other programs, command lines.
//!
//! Each test asks for the same things: a message that says what to do, the right exit status, one document on standard
//! error with `--json`, an end within a limit, nothing left behind (a [home](drowse_tests::harness::Home) checks that
//! when it is dropped), and that another session of the same home notices nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod bad_input {
    mod bystander;
    mod configuration;
    mod confined;
    mod disk;
    mod places;
    mod records;
    mod servers;
    mod silence;
    mod strangers;
    mod trees;
    mod words;
}
