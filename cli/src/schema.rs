//! The JSON Schemas of tools: what values become under them, whether arguments fit, and whether they are still those
//! that somebody expects.
//!
//! A schema comes from a server and is not to be trusted: nothing that it refers to is fetched, and whatever is done
//! with it has a bound.

pub(crate) mod check;
pub(crate) mod coerce;
pub(crate) mod expected;
pub(crate) mod meant;
mod problem;
