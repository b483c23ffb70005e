//! The caller's side of the wake protocol against a bridge that follows, or breaks, the contract at each
//! step. Nothing here sleeps for a time: whatever is waited for is waited for by name.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod calls;
mod fake;
mod process;
mod sessions;
mod starts;
mod urls;
