//! Tokio adapters for `drowse-core`.
