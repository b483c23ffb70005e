//! Drives the real `drowse` in homes of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so by a panic")]

mod awake;
mod bridge;
mod bulk;
mod home;
mod life;
mod records;
mod schemas;
mod search;
mod terminal;
mod urls;
mod usage;
