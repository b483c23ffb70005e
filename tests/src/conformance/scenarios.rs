//! What is run, and what must come of it.

/// One scenario at one version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scenario {
    /// Its name in the suite.
    pub name: &'static str,
    /// The version that its mock speaks.
    pub version: &'static str,
    /// How many checks must succeed. The suite itself would be content with none: a client that does nothing at all
    /// passes two of these scenarios there.
    pub least: usize,
}

/// The last legacy version.
const LEGACY: &str = "2025-11-25";
/// The modern version.
const MODERN: &str = "2026-07-28";

/// All of them, in the order they are run. The numbers are what complete clients were seen to reach.
pub const SCENARIOS: [Scenario; 13] = [
    of("initialize", LEGACY, 1),
    of("tools_call", LEGACY, 2),
    of("elicitation-sep1034-client-defaults", LEGACY, 5),
    of("sse-retry", LEGACY, 3),
    of("json-schema-2020-12-preservation", LEGACY, 9),
    of("tools_call", MODERN, 2),
    of("request-metadata", MODERN, 8),
    of("sep-2322-client-request-state", MODERN, 5),
    of("http-standard-headers", MODERN, 9),
    of("http-custom-headers", MODERN, 18),
    of("http-invalid-tool-headers", MODERN, 12),
    of("json-schema-ref-no-deref", MODERN, 1),
    of("json-schema-2020-12-preservation", MODERN, 9),
];

const fn of(name: &'static str, version: &'static str, least: usize) -> Scenario {
    Scenario { name, version, least }
}
