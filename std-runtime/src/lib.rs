//! Tokio adapters for `drowse-core`.

pub mod builtin;
