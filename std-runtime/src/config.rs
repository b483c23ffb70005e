//! Configuration files of MCP hosts: `mcpServers` and `servers`, with comments and trailing commas.
//!
//! Owns reading, checking and expanding entries. Never writes a file and never looks at the environment:
//! values of variables come from whoever asks.

/// Why a configuration cannot be used. Each text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {}
