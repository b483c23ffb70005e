//! Fixtures and harness of the acceptance tests.

pub mod fixture;
pub mod harness;
pub mod race;
pub mod wake_model;
