//! Fixtures and harness of the acceptance tests.
