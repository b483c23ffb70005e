//! The tables of the server scenarios, which stand where people look for them: `tests/conformance`.

use super::scenarios::Scenario;

const SCENARIOS: &str = include_str!("../../conformance/server-scenarios.txt");
const CROSS_ERA: &str = include_str!("../../conformance/cross-era.md");

/// The last legacy version.
pub const LEGACY: &str = "2025-11-25";
/// The modern version.
pub const MODERN: &str = "2026-07-28";

/// A scenario that translation cannot carry, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// Its name in the suite.
    pub scenario: &'static str,
    /// The version of the client, which is the suite.
    pub version: &'static str,
    /// The checks that fail.
    pub fails: Vec<&'static str>,
    /// How many succeed all the same.
    pub least: usize,
}

/// The scenarios of a version, in their order. With `direct`, what is expected of the server itself.
///
/// # Panics
/// If the table is not what it should be.
#[must_use]
pub fn scenarios(version: &str, direct: bool) -> Vec<Scenario> {
    let lines = SCENARIOS.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let rows = lines.map(|line| read_scenario(line, direct).unwrap_or_else(|| panic!("no scenario: {line}")));
    rows.filter(|scenario| scenario.version == version).collect()
}

fn read_scenario(line: &'static str, direct: bool) -> Option<Scenario> {
    let mut words = line.split_whitespace();
    let (version, name, least) = (words.next()?, words.next()?, words.next()?);
    let least = words.next().filter(|_| !direct).unwrap_or(least).parse().ok()?;
    words.next().is_none().then_some(Scenario { name, version, least })
}

/// What cannot be carried for clients of that version by servers of the other.
///
/// # Panics
/// If the table is not what it should be.
#[must_use]
pub fn exceptions(version: &str) -> Vec<Exception> {
    let mut client = "";
    let mut all = Vec::new();
    for line in CROSS_ERA.lines() {
        if let Some(title) = line.strip_prefix("## A client of ") {
            client = title.split(',').next().unwrap_or_default();
        } else if let Some(cells) = line.strip_prefix("| ")
            && !cells.starts_with("scenario ")
        {
            all.push(read_exception(client, cells).unwrap_or_else(|| panic!("no exception: {line}")));
        }
    }
    all.retain(|exception| exception.version == version);
    all
}

fn read_exception(version: &'static str, cells: &'static str) -> Option<Exception> {
    let mut cells = cells.split('|').map(str::trim);
    let (scenario, fails, least) = (cells.next()?, cells.next()?, cells.next()?.parse().ok()?);
    let fails: Vec<_> = fails.split(", ").filter(|check| !check.is_empty()).collect();
    let says_why = cells.next().is_some_and(|why| why.len() > 20);
    (says_why && !fails.is_empty()).then_some(Exception { scenario, version, fails, least })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_scenarios_are_there_with_the_checks_of_a_complete_server() {
        for (version, count, checks) in [(LEGACY, 33, 84), (MODERN, 40, 152)] {
            let all = scenarios(version, true);
            assert_eq!(all.len(), count);
            assert_eq!(all.iter().map(|one| one.least).sum::<usize>(), checks);
            assert_eq!(all[0].name, "tools-list");
            for one in &all {
                assert!(one.least > 0, "{one:?}");
                assert_eq!(all.iter().filter(|other| other.name == one.name).count(), 1, "{one:?}");
            }
        }
    }

    #[test]
    fn through_drowse_no_less_is_expected_than_of_the_server_itself() {
        for version in [LEGACY, MODERN] {
            assert_eq!(scenarios(version, true), scenarios(version, false));
        }
    }

    #[test]
    fn exceptions_are_of_scenarios_that_there_are_and_leave_something_to_check() {
        assert_eq!(exceptions(LEGACY), []);
        let all = exceptions(MODERN);
        assert!(!all.is_empty());
        for exception in all {
            let of = scenarios(MODERN, false).into_iter().find(|one| one.name == exception.scenario);
            assert!(of.is_some_and(|of| (1..of.least).contains(&exception.least)), "{exception:?}");
        }
    }

    #[test]
    fn lines_that_are_none_are_refused() {
        assert_eq!(read_scenario("2025-11-25 ping", false), None);
        assert_eq!(read_scenario("2025-11-25 ping two", false), None);
        assert_eq!(read_scenario("2025-11-25 ping 2 1 0", false), None);
        assert_eq!(read_exception(MODERN, "ping | a | 1 | because |"), None);
        assert_eq!(read_exception(MODERN, "ping | | 1 | for a reason of some length |"), None);
    }
}
