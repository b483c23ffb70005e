//! Fixtures and harness of the acceptance tests, and what runs the public conformance suite.

pub mod conformance;
pub mod fixture;
pub mod harness;
pub mod load;
pub mod race;
pub mod soak;
pub mod wake_model;
