//! Fixtures and harness of the acceptance tests.

pub mod wake_model;
