//! Tokio adapters for `drowse-core`.

pub mod process;
mod sys;
