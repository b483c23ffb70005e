//! Runs the suite's scenarios one at a time, and judges them.
//!
//! One at a time because they measure times, and because the suite ignores exit statuses when it runs several.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::client::DONE;
use super::scenarios::{SCENARIOS, Scenario};
use crate::harness::drowse;

/// How long a client may take in one scenario.
const CLIENT_LIMIT_MS: u32 = 30_000;

/// How the suite is to be run.
#[derive(Debug)]
pub struct Options {
    /// The suite's program.
    pub suite: PathBuf,
    /// Node.js.
    pub node: PathBuf,
    /// Where results go.
    pub out: PathBuf,
    /// Parts of names; none means all.
    pub only: Vec<String>,
    /// Another client, in the shell's words.
    pub client: Option<String>,
    /// Whether failures are what is wanted.
    pub all_must_fail: bool,
}

impl Options {
    /// From the words after `suite`.
    ///
    /// # Errors
    /// If they make no sense, with the usage.
    pub fn parse(words: &[&str]) -> Result<Self, String> {
        let mut words = words.iter().copied();
        let mut options = Self {
            suite: words.next().ok_or(super::USAGE)?.into(),
            node: "node".into(),
            out: "results".into(),
            only: Vec::new(),
            client: None,
            all_must_fail: false,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{}", super::USAGE));
            match word {
                "--node" => options.node = value()?.into(),
                "--out" => options.out = value()?.into(),
                "--only" => options.only.push(value()?.to_owned()),
                "--client" => options.client = Some(value()?.to_owned()),
                "--all-must-fail" => options.all_must_fail = true,
                _ => return Err(super::USAGE.to_owned()),
            }
        }
        Ok(options)
    }

    fn wants(&self, scenario: &Scenario) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| scenario.name.contains(part.as_str()))
    }
}

/// What the suite left behind of one scenario.
#[derive(Debug, Default)]
pub struct Observed {
    /// Whether the suite exited with 0.
    pub content: bool,
    /// Its checks.
    pub checks: Vec<Value>,
    /// What the client wrote.
    pub client: String,
    /// What the suite said.
    pub said: String,
}

/// What is wrong with a scenario's outcome; nothing if it passed.
#[must_use]
pub fn judge(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    let mut wrong = short_of_checks(scenario, observed);
    if !observed.content {
        wrong.push("the suite is not content".to_owned());
    }
    if observed.client.lines().last() != Some(DONE) {
        wrong.push("the client did not get to its end".to_owned());
    }
    wrong
}

/// The part that a client cannot claim: what the suite has seen of it.
fn short_of_checks(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    let mut wrong = too_few(scenario, &observed.checks);
    wrong.extend(failed(&observed.checks).map(told));
    wrong
}

/// Whether too few checks succeeded.
pub(super) fn too_few(scenario: &Scenario, checks: &[Value]) -> Vec<String> {
    let passed = passed(checks);
    if passed >= scenario.least {
        return Vec::new();
    }
    vec![format!("{passed} checks succeeded, at least {} must", scenario.least)]
}

/// The checks that failed: a warning is one of them, and so is a status that nobody knows.
pub(super) fn failed(checks: &[Value]) -> impl Iterator<Item = &Value> {
    checks.iter().filter(|check| !matches!(check["status"].as_str(), Some("SUCCESS" | "INFO" | "SKIPPED")))
}

/// A check in a line.
pub(super) fn told(check: &Value) -> String {
    let part = |key: &str| check[key].as_str().unwrap_or_default();
    let status = check["status"].as_str().unwrap_or("no status");
    format!("{status} {}: {} {}", part("id"), part("description"), part("errorMessage"))
}

pub(super) fn passed(checks: &[Value]) -> usize {
    checks.iter().filter(|check| check["status"] == "SUCCESS").count()
}

/// A client that is run under the suite.
#[derive(Debug)]
struct Client {
    /// In the shell's words.
    words: String,
    /// How it comes by the version, for the table.
    version: &'static str,
}

/// Runs the scenarios and prints a table; whether all is as it should be.
///
/// # Errors
/// If the suite cannot be run at all.
pub fn main(options: &Options) -> Result<bool, String> {
    let mut rows = Vec::new();
    for client in clients(options)? {
        for scenario in SCENARIOS.iter().filter(|scenario| options.wants(scenario)) {
            rows.push(try_out(options, &client, scenario)?);
        }
    }
    println!("\n{HEAD}");
    for (row, _) in &rows {
        println!("{row}");
    }
    let good = rows.iter().filter(|(_, good)| *good).count();
    let wanted = if options.all_must_fail { "failed, as they must" } else { "passed" };
    println!("\n{good} of {} {wanted}", rows.len());
    Ok(!rows.is_empty() && good == rows.len())
}

const HEAD: &str = "scenario                              mock speaks  version    checks   least   seconds";

/// drowse finds the version out, as it does for everybody, and is then told it: two ways to the same requests.
fn clients(options: &Options) -> Result<Vec<Client>, String> {
    if let Some(words) = &options.client {
        return Ok(vec![Client { words: words.clone(), version: "-" }]);
    }
    // Built here if it must be, so that no scenario waits for it.
    let _ = drowse();
    let program = std::env::current_exe().map_err(|error| format!("my own path: {error}"))?;
    let words = format!("'{}' client", program.display());
    let pinned = Client { words: format!("{words} --pinned"), version: "pinned" };
    Ok(vec![Client { words, version: "found out" }, pinned])
}

/// One row of the table, and whether it is as it should be. What is not is explained at once.
fn try_out(options: &Options, client: &Client, scenario: &Scenario) -> Result<(String, bool), String> {
    let begun = Instant::now();
    let observed = observe(options, client, scenario)?;
    let wrong = judge(scenario, &observed);
    let good = match options.all_must_fail {
        true => !short_of_checks(scenario, &observed).is_empty(),
        false => wrong.is_empty(),
    };
    let row = format!(
        "{:36}  {:11}  {:9}  {:6}  {:6}  {:8.1}  {}",
        scenario.name,
        scenario.version,
        client.version,
        passed(&observed.checks),
        scenario.least,
        begun.elapsed().as_secs_f64(),
        if wrong.is_empty() { "ok" } else { "FAILED" },
    );
    if !good {
        println!("{row}\n{}", explain(&wrong, &observed));
    }
    Ok((row, good))
}

fn observe(options: &Options, client: &Client, scenario: &Scenario) -> Result<Observed, String> {
    let out = options.out.join(client.version.replace(' ', "-")).join(scenario.version);
    // The suite makes a directory with the time in its name; an old one must not be taken for it.
    remove_results(&out, scenario.name).map_err(|error| format!("{}: {error}", out.display()))?;
    let ended = Command::new(&options.node)
        .arg(&options.suite)
        .args(["client", "--command", &client.words, "--scenario", scenario.name])
        .args(["--spec-version", scenario.version, "--timeout", &CLIENT_LIMIT_MS.to_string()])
        .arg("--output-dir")
        .arg(&out)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", options.node.display()))?;
    let mut observed = Observed {
        content: ended.status.success(),
        said: String::from_utf8_lossy(&ended.stderr).into_owned(),
        ..Observed::default()
    };
    for directory in results(&out, scenario.name) {
        let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap_or_default();
        observed.checks = serde_json::from_str(&read("checks.json")).unwrap_or_default();
        observed.client = read("stdout.txt");
    }
    Ok(observed)
}

/// The directories of a scenario's results: its name, and the time.
pub(super) fn results(out: &Path, scenario: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(out).into_iter().flatten().flatten();
    let named = |name: &str| {
        let time = name.strip_prefix(scenario).and_then(|rest| rest.strip_prefix('-'));
        time.is_some_and(|time| time.starts_with(|first: char| first.is_ascii_digit()))
    };
    let ours = entries.filter(|entry| entry.file_name().to_str().is_some_and(named));
    ours.map(|entry| entry.path()).collect()
}

pub(super) fn remove_results(out: &Path, scenario: &str) -> std::io::Result<()> {
    results(out, scenario).iter().try_for_each(fs::remove_dir_all)
}

/// A failure's text: what is wrong, what the client did, and what the suite said of it.
fn explain(wrong: &[String], observed: &Observed) -> String {
    let mut text = String::new();
    for line in wrong {
        let _ = writeln!(text, "  - {line}");
    }
    // Those of the checks that matter are among what is wrong. What the client wrote is repeated there if it failed.
    let suite = observed.said.split("\nChecks:\n").next().unwrap_or_default();
    let client = if suite.contains(&observed.client) { "" } else { &observed.client };
    for line in suite.lines().chain(client.lines()).filter(|line| !line.is_empty()) {
        let _ = writeln!(text, "    | {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SCENARIO: Scenario = Scenario { name: "some", version: "2026-07-28", least: 2 };

    fn observed(statuses: &[&str]) -> Observed {
        Observed {
            content: true,
            checks: statuses.iter().map(|status| json!({"id": "a", "status": status})).collect(),
            client: format!("   1 ms  drowse connect\n{DONE}\n"),
            said: String::new(),
        }
    }

    #[test]
    fn enough_checks_and_a_client_that_did_all_pass() {
        assert_eq!(
            judge(&SCENARIO, &observed(&["SUCCESS", "INFO", "SKIPPED", "SUCCESS"])),
            [] as [String; 0]
        );
        assert_eq!(judge(&SCENARIO, &observed(&["SUCCESS"; 5])), [] as [String; 0]);
    }

    #[test]
    fn too_few_checks_fail_though_none_failed() {
        for statuses in [&[][..], &["SUCCESS"], &["SUCCESS", "INFO", "SKIPPED"]] {
            let wrong = judge(&SCENARIO, &observed(statuses));
            assert_eq!(wrong.len(), 1, "{wrong:?}");
            assert!(wrong[0].ends_with("checks succeeded, at least 2 must"), "{wrong:?}");
        }
    }

    #[test]
    fn a_failure_a_warning_and_a_status_nobody_knows_fail() {
        for status in ["FAILURE", "WARNING", "BROKEN"] {
            let wrong = judge(&SCENARIO, &observed(&["SUCCESS", "SUCCESS", status]));
            assert_eq!(wrong.len(), 1, "{wrong:?}");
            assert!(wrong[0].starts_with(&format!("{status} a: ")), "{wrong:?}");
        }
    }

    #[test]
    fn a_suite_that_is_not_content_and_a_client_that_stopped_early_fail() {
        let good = observed(&["SUCCESS", "SUCCESS"]);
        assert_eq!(judge(&SCENARIO, &Observed { content: false, ..good }), ["the suite is not content"]);
        for client in ["", "   1 ms  drowse connect\n", "all commands succeeded\nthen it died"] {
            let good = observed(&["SUCCESS", "SUCCESS"]);
            let wrong = judge(&SCENARIO, &Observed { client: client.to_owned(), ..good });
            assert_eq!(wrong, ["the client did not get to its end"]);
        }
    }

    #[test]
    fn results_are_those_of_this_scenario() {
        let out = tempfile::tempdir().expect("a directory");
        for name in
            ["tools_call-2026-01-02T03-04-05-006Z", "tools_call-more-2026-01-02T03-04-05-006Z", "tools_call"]
        {
            fs::create_dir(out.path().join(name)).expect("a directory");
        }
        assert_eq!(
            results(out.path(), "tools_call"),
            [out.path().join("tools_call-2026-01-02T03-04-05-006Z")]
        );
        remove_results(out.path(), "tools_call").expect("removed");
        assert_eq!(results(out.path(), "tools_call"), [] as [PathBuf; 0]);
        assert_eq!(fs::read_dir(out.path()).expect("a directory").count(), 2);
    }
}
