//! Runs the suite's server scenarios one at a time against drowse with the everything server behind it, and judges them.
//!
//! One drowse for all scenarios of a pairing: the version that the suite speaks, the one that the server is
//! restricted to, and what lies between drowse and the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::scenarios::Scenario;
use super::subject::{self, Subject};
use super::suite::{failed, passed, remove_results, results, told, too_few};
use super::tables::{self, Exception, LEGACY, MODERN};
use crate::harness::drowse;

/// What the scenarios are run against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Against {
    /// drowse.
    Front,
    /// The everything server itself.
    Direct,
    /// What answers everything with the same.
    Constant,
}

/// How the suite is to be run.
#[derive(Debug)]
pub struct Options {
    suite: PathBuf,
    server: PathBuf,
    node: PathBuf,
    out: PathBuf,
    only: Vec<String>,
    pairings: Vec<String>,
    against: Against,
}

impl Options {
    /// From the words after `servers`.
    ///
    /// # Errors
    /// If they make no sense, with the usage.
    pub fn parse(words: &[&str]) -> Result<Self, String> {
        let mut words = words.iter().copied();
        let mut options = Self {
            suite: words.next().ok_or(super::USAGE)?.into(),
            server: words.next().ok_or(super::USAGE)?.into(),
            node: "node".into(),
            out: "results".into(),
            only: Vec::new(),
            pairings: Vec::new(),
            against: Against::Front,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{}", super::USAGE));
            match word {
                "--node" => options.node = value()?.into(),
                "--out" => options.out = value()?.into(),
                "--only" => options.only.push(value()?.to_owned()),
                "--pairing" => options.pairings.push(value()?.to_owned()),
                "--direct" => options.against = Against::Direct,
                "--constant" => options.against = Against::Constant,
                _ => return Err(super::USAGE.to_owned()),
            }
        }
        Ok(options)
    }

    fn scenarios(&self, version: &str) -> Vec<Scenario> {
        let mut all = tables::scenarios(version, self.against != Against::Front);
        let wants =
            |name: &str| self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()));
        all.retain(|scenario| wants(scenario.name));
        all
    }
}

/// What one drowse is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pairing {
    /// What the suite speaks.
    client: &'static str,
    /// What the server is restricted to.
    server: &'static str,
    /// Whether the server is reached over HTTP.
    over_http: bool,
}

/// The same version on both sides, both ways to the server; then across.
const PAIRINGS: [Pairing; 6] = [
    Pairing { client: LEGACY, server: LEGACY, over_http: false },
    Pairing { client: MODERN, server: MODERN, over_http: false },
    Pairing { client: LEGACY, server: LEGACY, over_http: true },
    Pairing { client: MODERN, server: MODERN, over_http: true },
    Pairing { client: MODERN, server: LEGACY, over_http: false },
    Pairing { client: LEGACY, server: MODERN, over_http: false },
];

impl Pairing {
    fn name(self) -> String {
        let transport = if self.over_http { "http" } else { "stdio" };
        format!("{}-on-{}-{transport}", &self.client[..4], &self.server[..4])
    }

    /// What translation cannot carry here.
    fn exceptions(self) -> Vec<Exception> {
        if self.client == self.server { Vec::new() } else { tables::exceptions(self.client) }
    }
}

/// One line of the table at the end.
struct Row {
    words: String,
    good: bool,
}

/// Runs the scenarios and prints a table; whether all is as it should be.
///
/// # Errors
/// If the suite cannot be run at all.
pub fn main(options: &Options) -> Result<bool, String> {
    let rows = match options.against {
        Against::Front => {
            // Built here if it must be, so that no scenario waits for it.
            let _ = drowse();
            let wants = |name: &str| {
                options.pairings.is_empty() || options.pairings.iter().any(|part| name.contains(part))
            };
            let wanted = PAIRINGS.into_iter().filter(|pairing| wants(&pairing.name()));
            wanted.map(|pairing| run_pairing(options, pairing)).collect::<Result<Vec<_>, _>>()?
        }
        Against::Direct => [LEGACY, MODERN]
            .map(|version| run_direct(options, version))
            .into_iter()
            .collect::<Result<_, _>>()?,
        Against::Constant => [LEGACY, MODERN]
            .map(|version| run_constant(options, version))
            .into_iter()
            .collect::<Result<_, _>>()?,
    };
    let rows: Vec<Row> = rows.into_iter().flatten().collect();
    println!("\n{HEAD}");
    for row in &rows {
        println!("{}", row.words);
    }
    let good = rows.iter().filter(|row| row.good).count();
    let wanted = if options.against == Against::Constant { "failed, as they must" } else { "passed" };
    println!("\n{good} of {} {wanted}", rows.len());
    Ok(!rows.is_empty() && good == rows.len())
}

const HEAD: &str =
    "scenario                                       pairing                checks   least   seconds";

fn run_pairing(options: &Options, pairing: Pairing) -> Result<Vec<Row>, String> {
    let words = subject::everything(&options.node, &options.server, pairing.server)?;
    let subject = Subject::front(&words, pairing.over_http)?;
    let exceptions = pairing.exceptions();
    let mut rows = run_each(options, &subject, &pairing.name(), pairing.client, &exceptions)?;
    if let Err(why) = subject.end() {
        rows.push(Row { words: format!("{}: {why}", pairing.name()), good: false });
    }
    Ok(rows)
}

fn run_direct(options: &Options, version: &'static str) -> Result<Vec<Row>, String> {
    let words = subject::everything(&options.node, &options.server, version)?;
    let subject = Subject::direct(&words)?;
    let rows = run_each(options, &subject, &format!("{}-direct", &version[..4]), version, &[])?;
    subject.end()?;
    Ok(rows)
}

fn run_each(
    options: &Options,
    subject: &Subject,
    name: &str,
    version: &str,
    exceptions: &[Exception],
) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for scenario in options.scenarios(version) {
        let begun = Instant::now();
        let exception = exceptions.iter().find(|exception| exception.scenario == scenario.name);
        let observed = observe(options, subject, name, &scenario)?;
        let wrong = judge(&scenario, exception, &observed);
        let row = row(name, &scenario, exception, &observed, begun.elapsed().as_secs_f64(), wrong.is_empty());
        if !wrong.is_empty() {
            println!("{}", row.words);
            for line in wrong {
                println!("  - {line}");
            }
        }
        rows.push(row);
    }
    if rows.iter().any(|row| !row.good) {
        println!("{name}: what was run against said\n{}", subject.said());
    }
    Ok(rows)
}

fn row(
    name: &str,
    scenario: &Scenario,
    exception: Option<&Exception>,
    observed: &Observed,
    seconds: f64,
    good: bool,
) -> Row {
    let least = exception.map_or(scenario.least, |exception| exception.least);
    let passed = passed(&observed.checks);
    let verdict = match (good, exception) {
        (false, _) => "FAILED",
        (true, None) => "ok",
        (true, Some(_)) => "as it must",
    };
    let words = format!("{:45}  {name:20}  {passed:6}  {least:6}  {seconds:8.1}  {verdict}", scenario.name);
    Row { words, good }
}

/// What the suite left behind of one scenario.
#[derive(Debug, Default)]
struct Observed {
    /// Whether the suite exited with 0.
    content: bool,
    /// Its checks.
    checks: Vec<Value>,
}

/// What is wrong with a scenario's outcome; nothing if it is as it should be.
fn judge(scenario: &Scenario, exception: Option<&Exception>, observed: &Observed) -> Vec<String> {
    let Some(exception) = exception else {
        let mut wrong = too_few(scenario, &observed.checks);
        wrong.extend(failed(&observed.checks).map(told));
        if !observed.content {
            wrong.push("the suite is not content".to_owned());
        }
        return wrong;
    };
    let mut wrong = too_few(&Scenario { least: exception.least, ..*scenario }, &observed.checks);
    let is_listed = |check: &&Value| exception.fails.iter().any(|id| check["id"] == *id);
    wrong.extend(failed(&observed.checks).filter(|check| !is_listed(check)).map(told));
    for id in &exception.fails {
        if !failed(&observed.checks).any(|check| check["id"] == *id) {
            wrong.push(format!("{id} did not fail: the list of what cannot be carried is too long"));
        }
    }
    wrong
}

fn observe(
    options: &Options,
    subject: &Subject,
    name: &str,
    scenario: &Scenario,
) -> Result<Observed, String> {
    let out = options.out.join(name);
    let kept = kept_as(scenario);
    // The suite makes a directory with the time in its name; an old one must not be taken for it.
    remove_results(&out, &kept).map_err(|error| format!("{}: {error}", out.display()))?;
    let content = run_suite(options, subject, &out, scenario.version, &["--scenario", scenario.name])?;
    Ok(Observed { content, checks: read_checks(&out, scenario) })
}

/// The one scenario that looks at nothing but the status where answers are JSON. That it passes proves nothing, but
/// lists are what several others look at.
const HOLLOW: (&str, &str) = ("server-sse-multiple-streams", MODERN);

/// All scenarios of a version in one run of the suite, for all that they must fail.
fn run_constant(options: &Options, version: &'static str) -> Result<Vec<Row>, String> {
    let subject = Subject::constant()?;
    let name = format!("{}-constant", &version[..4]);
    let out = options.out.join(&name);
    match fs::remove_dir_all(&out) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", out.display()));
        }
        _ => {}
    }
    let begun = Instant::now();
    run_suite(options, &subject, &out, version, &["--suite", "all"])?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut rows = Vec::new();
    for scenario in options.scenarios(version) {
        let observed = Observed { content: true, checks: read_checks(&out, &scenario) };
        let wrong = judge(&scenario, None, &observed);
        let hollow = (scenario.name, scenario.version) == HOLLOW;
        // A scenario that was not run at all would fail too, and prove nothing.
        let good = wrong.is_empty() == hollow && !results(&out, &kept_as(&scenario)).is_empty();
        let row = row(&name, &scenario, None, &observed, seconds, wrong.is_empty());
        rows.push(Row { good, ..row });
    }
    subject.end()?;
    Ok(rows)
}

/// Runs it to its end; whether it is content.
fn run_suite(
    options: &Options,
    subject: &Subject,
    out: &Path,
    version: &str,
    what: &[&str],
) -> Result<bool, String> {
    let ended = Command::new(&options.node)
        .arg(&options.suite)
        .args(["server", "--url", &subject.url, "--spec-version", version])
        .args(what)
        .arg("--output-dir")
        .arg(out)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|error| format!("{}: {error}", options.node.display()))?;
    Ok(ended.success())
}

/// How the suite calls a scenario's results.
fn kept_as(scenario: &Scenario) -> String {
    format!("server-{}", scenario.name)
}

fn read_checks(out: &Path, scenario: &Scenario) -> Vec<Value> {
    let read = |directory: &PathBuf| fs::read_to_string(directory.join("checks.json")).ok();
    let text = results(out, &kept_as(scenario)).iter().find_map(read).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SCENARIO: Scenario = Scenario { name: "some", version: MODERN, least: 2 };

    fn observed(checks: &[(&str, &str)]) -> Observed {
        let checks = checks.iter().map(|(id, status)| json!({"id": id, "status": status})).collect();
        Observed { content: true, checks }
    }

    fn exception() -> Exception {
        Exception { scenario: "some", version: MODERN, fails: vec!["b"], least: 1 }
    }

    #[test]
    fn enough_checks_pass_and_a_warning_fails() {
        let good = [("a", "SUCCESS"), ("b", "SUCCESS"), ("c", "INFO")];
        assert_eq!(judge(&SCENARIO, None, &observed(&good)), [] as [String; 0]);
        let wrong = judge(&SCENARIO, None, &Observed { content: false, ..observed(&good) });
        assert_eq!(wrong, ["the suite is not content"]);
        for status in ["WARNING", "FAILURE", "BROKEN"] {
            let wrong = judge(&SCENARIO, None, &observed(&[good[0], good[1], ("c", status)]));
            assert_eq!(wrong.len(), 1, "{wrong:?}");
        }
        assert_eq!(judge(&SCENARIO, None, &observed(&good[1..])).len(), 1);
        assert_eq!(judge(&SCENARIO, None, &observed(&[])).len(), 1);
    }

    #[test]
    fn what_cannot_be_carried_fails_in_exactly_the_checks_that_are_listed() {
        let judge = |checks: &[(&str, &str)]| judge(&SCENARIO, Some(&exception()), &observed(checks));
        assert_eq!(judge(&[("a", "SUCCESS"), ("b", "FAILURE")]), [] as [String; 0]);
        assert_eq!(judge(&[("a", "SUCCESS"), ("b", "WARNING")]), [] as [String; 0]);
        // Another check, too few, and a list that is too long.
        assert_eq!(judge(&[("a", "SUCCESS"), ("b", "FAILURE"), ("c", "FAILURE")]).len(), 1);
        assert_eq!(judge(&[("b", "FAILURE")]).len(), 1);
        let wrong = judge(&[("a", "SUCCESS"), ("b", "SUCCESS")]);
        assert_eq!(wrong, ["b did not fail: the list of what cannot be carried is too long"]);
    }

    #[test]
    fn every_version_meets_every_other() {
        for client in [LEGACY, MODERN] {
            for server in [LEGACY, MODERN] {
                let met =
                    PAIRINGS.iter().filter(|pairing| (pairing.client, pairing.server) == (client, server));
                assert_eq!(met.count(), if client == server { 2 } else { 1 });
            }
        }
        assert_eq!(PAIRINGS.map(Pairing::name)[5], "2025-on-2026-stdio");
        assert_eq!(PAIRINGS[1].exceptions(), []);
        assert_ne!(PAIRINGS[4].exceptions(), []);
    }
}
