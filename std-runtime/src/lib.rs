//! Tokio adapters for `drowse-core`.

pub mod builtin;
pub mod caller;
pub mod config;
pub mod home;
pub mod record;
pub mod wire;
