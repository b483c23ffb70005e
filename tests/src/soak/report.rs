//! What came of a run, and whether that is within bounds.

use std::fmt;
use std::time::Duration;

use super::Sample;
use crate::race::outcome::Outcome;

/// What came of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// How long operations came.
    pub took: Duration,
    /// Sessions there were.
    pub sessions: usize,
    /// Those in use at a time.
    pub awake: usize,
    /// Those that were in use at some time.
    pub woken_sessions: usize,
    /// Operations that were answered and ran once.
    pub answered: usize,
    /// Operations that failed for a kill, and are known not to have run.
    pub never_ran: usize,
    /// Operations that failed for a kill, and ran or did not.
    pub unknown: usize,
    /// Operations whose caller was killed.
    pub killed_callers: usize,
    /// Servers that were killed.
    pub killed_servers: usize,
    /// Bridges that were killed.
    pub killed_bridges: usize,
    /// Servers that were started.
    pub servers: usize,
    /// Operations that failed although nothing was killed, or were answered and never ran.
    pub lost: Vec<String>,
    /// Operations that ran more than once.
    pub twice: Vec<String>,
    /// Whatever else may not be.
    pub wrong: Vec<String>,
    /// Processes that were left when all was asleep.
    pub orphans: Vec<String>,
    /// Files that were left.
    pub files: usize,
    /// The looks.
    pub samples: Vec<Sample>,
}

/// By how much things may rise, from the mean of the second third of a run to the mean of its last third.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Descriptors of a bridge.
    pub descriptors: f64,
    /// Processes, as a part of the bridges and servers in use.
    pub processes: f64,
    /// Private memory of a bridge that lives as long as the run, in KiB.
    pub memory: f64,
    /// Files for each session that was ever in use.
    pub files: f64,
    /// Their size for each such session, in KiB.
    pub size: f64,
}

impl Bounds {
    /// What holds for every run.
    pub const STATED: Self =
        Self { descriptors: 1.0, processes: 0.15, memory: 128.0, files: 10.0, size: 64.0 };
}

impl Report {
    /// Counts one operation, which ran so many times.
    pub(super) fn count(
        &mut self,
        outcome: &Outcome,
        executions: usize,
        explained: bool,
        describe: impl Fn() -> String,
    ) {
        if executions > 1 {
            self.twice.push(describe());
        } else if let Err(why) = outcome.check(executions) {
            self.lost.push(format!("{}: {why}", describe()));
        } else {
            match outcome {
                Outcome::Answered => self.answered += 1,
                Outcome::Killed => self.killed_callers += 1,
                Outcome::Failed(_) if !explained => self.lost.push(describe()),
                Outcome::Failed(typed) if typed.never_ran() => self.never_ran += 1,
                Outcome::Failed(_) => self.unknown += 1,
                Outcome::Broken(how) => self.wrong.push(how.clone()),
            }
        }
    }

    /// Operations in all.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.answered
            + self.never_ran
            + self.unknown
            + self.killed_callers
            + self.lost.len()
            + self.twice.len()
    }

    /// What must never be, whatever the machine: none of it.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let named = |what: &str, list: &[String]| -> Vec<String> {
            list.iter().map(|one| format!("{what}: {one}")).collect()
        };
        [
            named("lost", &self.lost),
            named("twice", &self.twice),
            named("wrong", &self.wrong),
            named("orphan", &self.orphans),
        ]
        .concat()
    }

    /// What rose by more than it may.
    #[must_use]
    pub fn beyond(&self, bounds: &Bounds) -> Vec<String> {
        let woken = self.woken_sessions.max(1) as f64;
        [
            ("descriptors of a bridge", self.rise(|s| s.steady_descriptors), bounds.descriptors),
            (
                "processes",
                self.rise(|s| (s.bridges + s.servers) as f64),
                bounds.processes * 2.0 * self.awake as f64,
            ),
            ("KiB of a bridge", self.rise(|s| s.steady_memory), bounds.memory),
            ("files for each session", self.files as f64 / woken, bounds.files),
            (
                "KiB of files for each session",
                self.samples.last().map_or(0.0, |s| s.size) / woken,
                bounds.size,
            ),
        ]
        .into_iter()
        .filter(|(_, value, bound)| value > bound)
        .map(|(what, value, bound)| format!("{what}: {value:.2} is more than {bound:.2}"))
        .collect()
    }

    /// The mean of the last third less the mean of the second.
    fn rise(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        self.part(2, &of) - self.part(1, &of)
    }

    /// The mean of the first, second or last third.
    fn part(&self, third: usize, of: &impl Fn(&Sample) -> f64) -> f64 {
        let length = self.samples.len() / 3;
        let part: Vec<f64> = self.samples.iter().skip(third * length).take(length).map(of).collect();
        if part.is_empty() { 0.0 } else { part.iter().sum::<f64>() / part.len() as f64 }
    }
}

/// One number of a look.
type Of = fn(&Sample) -> f64;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} sessions, {} of them used, {} in use at a time, {:.0} s",
            self.sessions,
            self.woken_sessions,
            self.awake,
            self.took.as_secs_f64()
        )?;
        writeln!(
            f,
            "{} operations: {} answered, {} failed for a kill and never ran, {} failed for a kill and may have run, {} \
             callers killed",
            self.operations(),
            self.answered,
            self.never_ran,
            self.unknown,
            self.killed_callers
        )?;
        writeln!(
            f,
            "{} servers started; {} servers and {} bridges killed",
            self.servers, self.killed_servers, self.killed_bridges
        )?;
        writeln!(
            f,
            "lost {}, twice {}, orphans {}, other faults {}",
            self.lost.len(),
            self.twice.len(),
            self.orphans.len(),
            self.wrong.len()
        )?;
        writeln!(f, "\n| mean of | first third | second | last |\n| --- | --- | --- | --- |")?;
        let rows: [(&str, Of); 9] = [
            ("bridges", |s| s.bridges as f64),
            ("servers", |s| s.servers as f64),
            ("descriptors of a bridge", |s| s.descriptors),
            ("PSS of a bridge, KiB", |s| s.memory),
            ("descriptors of a steady bridge", |s| s.steady_descriptors),
            ("private memory of a steady bridge, KiB", |s| s.steady_memory),
            ("files", |s| s.files as f64),
            ("size of files, KiB", |s| s.size),
            ("operations until then", |s| s.operations as f64),
        ];
        for (name, of) in rows {
            let [first, second, last] = [0, 1, 2].map(|third| self.part(third, &of));
            writeln!(f, "| {name} | {first:.1} | {second:.1} | {last:.1} |")?;
        }
        write!(f, "\n{} files were left", self.files)
    }
}
