//! Tokio adapters for `drowse-core`.

pub mod base64;
pub mod bridge;
pub mod builtin;
pub mod caller;
pub mod config;
pub mod credential;
pub mod defaults;
pub mod dev;
pub mod expand;
mod fault;
pub mod home;
pub mod identity;
pub mod import;
pub mod input;
pub mod life;
pub mod lock;
pub mod log;
pub mod process;
pub mod record;
mod regular;
pub mod remote;
pub mod serve;
pub mod snapshot;
pub mod suggest;
mod sys;
pub mod wait;
pub mod wire;
