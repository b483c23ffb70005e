//! Results laid out for people.
//!
//! Everything that came from a server is escaped or folded when it is put in. Nothing here prints.

pub(crate) mod age;
pub(crate) mod columns;
pub(crate) mod content;
pub(crate) mod found;
pub(crate) mod processes;
pub(crate) mod server;
pub(crate) mod sessions;
pub(crate) mod stats;
pub(crate) mod tasks;
pub(crate) mod timeline;
pub(crate) mod tools;
pub(crate) mod top;
