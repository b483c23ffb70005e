//! Results laid out for people.
//!
//! Everything that came from a server is escaped or folded when it is put in. Nothing here prints.

pub(crate) mod age;
pub(crate) mod content;
pub(crate) mod server;
pub(crate) mod sessions;
pub(crate) mod tasks;
pub(crate) mod tools;
