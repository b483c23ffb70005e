//! What all sessions do and cost, a line each.

use std::cmp::Reverse;

use drowse_runtime::caller::{Listed, Load, Standing};
use drowse_runtime::home::SessionName;
use drowse_runtime::process::Memory;
use drowse_runtime::record::State;
use drowse_runtime::wire::Tally;
use serde_json::{Value, json};

use super::age::ago;
use super::columns::{Cell, Column, lay_out};
use super::processes::{memory, memory_json};
use super::sessions::{begun, dot};
use crate::output::Style;

/// What there is to say of one session.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: SessionName,
    pub(crate) state: State,
    /// Since when, in milliseconds since 1970.
    pub(crate) since: Option<u64>,
    pub(crate) era: Option<String>,
    pub(crate) awake: Option<Awake>,
}

/// The same, of one whose bridge runs.
#[derive(Debug, Default)]
pub(crate) struct Awake {
    pub(crate) pid: u32,
    /// Whether its bridge said how it is.
    pub(crate) answers: bool,
    pub(crate) in_flight: u64,
    pub(crate) idle_in_ms: Option<u64>,
    /// Whether it falls asleep at all.
    pub(crate) sleeps: bool,
    pub(crate) tally: Option<Tally>,
    pub(crate) load: Load,
}

/// By what lines are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    #[default]
    Name,
    State,
    Sleep,
    Calls,
    Memory,
}

impl Sort {
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Name => Self::State,
            Self::State => Self::Sleep,
            Self::Sleep => Self::Calls,
            Self::Calls => Self::Memory,
            Self::Memory => Self::Name,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::State => "state",
            Self::Sleep => "time until sleep",
            Self::Calls => "calls",
            Self::Memory => "memory",
        }
    }
}

impl Row {
    /// What is known of a session, from its records, its bridge and the process table.
    pub(crate) fn new(listed: &Listed, standing: Option<&Standing>, load: Option<Load>) -> Self {
        let settings = listed.record.as_ref().ok().map(|record| &record.settings);
        let sleeps = settings.is_some_and(|set| set.idle_timeout_secs.is_some_and(|seconds| seconds > 0));
        let known = listed.known.as_ref();
        let mut row = Self {
            name: listed.name.clone(),
            state: listed.state,
            since: begun(listed),
            era: known.and_then(|known| known.era.as_ref()).map(|era| era.era.clone()),
            awake: None,
        };
        let Some(pid) = listed.bridge_pid else { return row };
        let mut awake = Awake { pid, sleeps, load: load.unwrap_or_default(), ..Awake::default() };
        match standing {
            Some(Standing::Answers(answer)) => {
                awake.answers = true;
                awake.in_flight = answer.status.in_flight;
                awake.idle_in_ms = answer.status.idle_in_ms;
                awake.tally.clone_from(&answer.status.tally);
                row.state = State::from_name(&answer.status.state).unwrap_or(row.state);
            }
            // It ended since the list was read, or has not begun to listen.
            Some(Standing::Absent) => awake.answers = true,
            Some(Standing::Silent | Standing::Refuses) | None => {}
        }
        row.awake = Some(awake);
        row
    }

    fn silent(&self) -> bool {
        self.awake.as_ref().is_some_and(|awake| !awake.answers)
    }

    fn memory(&self) -> u64 {
        let Some(awake) = &self.awake else { return 0 };
        [awake.load.bridge, awake.load.server].into_iter().flatten().map(|memory| memory.bytes).sum()
    }

    fn calls(&self) -> u64 {
        self.awake.as_ref().and_then(|awake| awake.tally.as_ref()).map_or(0, |tally| tally.calls)
    }

    /// When it falls asleep.
    fn countdown(&self) -> String {
        let Some(awake) = self.awake.as_ref().filter(|awake| awake.answers) else { return "-".to_owned() };
        match awake.idle_in_ms {
            Some(ms) => clock(ms),
            None if awake.in_flight > 0 => "in use".to_owned(),
            None if !awake.sleeps => "never".to_owned(),
            None if self.state.is_awake() => "deferred".to_owned(),
            None => "-".to_owned(),
        }
    }
}

/// A countdown: `4:59`, `1:02:03`. A part of a second counts as one.
fn clock(ms: u64) -> String {
    let seconds = ms.div_ceil(1000);
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

/// Sorts lines; those that are equal stay in the order of their names.
pub(crate) fn sort(rows: &mut [Row], by: Sort) {
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    match by {
        Sort::Name => {}
        // Awake ones first, then those that something is wrong with.
        Sort::State => rows.sort_by_key(|row| (Reverse(row.state.is_awake()), row.state.name())),
        Sort::Sleep => rows.sort_by_key(|row| match &row.awake {
            Some(awake) => (0, awake.idle_in_ms.unwrap_or(u64::MAX)),
            None => (1, 0),
        }),
        Sort::Calls => rows.sort_by_key(|row| Reverse(row.calls())),
        Sort::Memory => rows.sort_by_key(|row| Reverse(row.memory())),
    }
}

const COLUMNS: [Column; 12] = [
    Column { title: "SESSION", right: false, keep: 255 },
    Column { title: "STATE", right: false, keep: 255 },
    Column { title: "FOR", right: true, keep: 3 },
    Column { title: "ERA", right: false, keep: 4 },
    Column { title: "SLEEPS IN", right: true, keep: 10 },
    Column { title: "NOW", right: true, keep: 6 },
    Column { title: "CALLS", right: true, keep: 8 },
    Column { title: "ERRORS", right: true, keep: 5 },
    Column { title: "P50", right: true, keep: 2 },
    Column { title: "P95", right: true, keep: 7 },
    Column { title: "BRIDGE", right: true, keep: 1 },
    Column { title: "SERVER", right: true, keep: 9 },
];

/// The table: titles first, then the rows.
pub(crate) fn table(rows: &[Row], now: u64, width: Option<usize>) -> Vec<String> {
    let cells: Vec<Vec<Cell>> = rows.iter().map(|row| cells(row, now)).collect();
    lay_out(&COLUMNS, &cells, width)
}

fn cells(row: &Row, now: u64) -> Vec<Cell> {
    let (dot, style) = dot(row.state);
    let state = if row.silent() {
        Cell::styled("! not answering", Style::Red)
    } else {
        Cell::styled(format!("{dot} {}", row.state.name()), style)
    };
    let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let time = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), latency);
    let awake = row.awake.as_ref();
    let tally = awake.and_then(|awake| awake.tally.as_ref());
    let load = |field: fn(&Load) -> Option<Memory>| memory(awake.and_then(|awake| field(&awake.load)));
    vec![
        Cell::styled(row.name.to_string(), Style::Bold),
        state,
        row.since.map_or_else(|| "-".to_owned(), |since| ago(now.saturating_sub(since))).into(),
        row.era.clone().unwrap_or_else(|| "-".to_owned()).into(),
        row.countdown().into(),
        count(awake.filter(|awake| awake.answers).map(|awake| awake.in_flight)).into(),
        count(tally.map(|tally| tally.calls)).into(),
        count(tally.map(|tally| tally.errors.total())).into(),
        time(tally.and_then(|tally| tally.p50_ms)).into(),
        time(tally.and_then(|tally| tally.p95_ms)).into(),
        load(|load| load.bridge).into(),
        load(|load| load.server).into(),
    ]
}

fn latency(ms: f64) -> String {
    match ms {
        // Most calls take less than a millisecond.
        ms if ms < 1.0 => format!("{:.0} µs", ms * 1000.0),
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 10_000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.0} s", ms / 1000.0),
    }
}

/// What all of them come to.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    sessions: usize,
    awake: usize,
    silent: usize,
    in_flight: u64,
    calls: Option<u64>,
    errors: Option<u64>,
    bridges: Option<Memory>,
    servers: Option<Memory>,
    processes: usize,
}

impl Totals {
    pub(crate) fn of(rows: &[Row]) -> Self {
        let mut totals = Self { sessions: rows.len(), ..Self::default() };
        let add = |sum: &mut Option<Memory>, one: Option<Memory>| {
            if let Some(one) = one {
                *sum.get_or_insert(Memory::NONE) += one;
            }
        };
        let count = |sum: &mut Option<u64>, one: Option<u64>| {
            if let Some(one) = one {
                *sum = Some(sum.unwrap_or(0).saturating_add(one));
            }
        };
        for row in rows {
            let Some(awake) = &row.awake else { continue };
            totals.awake += 1;
            totals.silent += usize::from(!awake.answers);
            totals.in_flight += awake.in_flight;
            totals.processes += awake.load.processes;
            let tally = awake.tally.as_ref();
            count(&mut totals.calls, tally.map(|tally| tally.calls));
            count(&mut totals.errors, tally.map(|tally| tally.errors.total()));
            add(&mut totals.bridges, awake.load.bridge);
            add(&mut totals.servers, awake.load.server);
        }
        totals
    }

    /// In one line.
    pub(crate) fn line(&self) -> String {
        let sessions = if self.sessions == 1 { "session" } else { "sessions" };
        let mut line = format!("{} {sessions}: {} awake", self.sessions, self.awake);
        if self.silent > 0 {
            line.push_str(&format!(" ({} not answering)", self.silent));
        }
        line.push_str(&format!(", {} asleep", self.sessions - self.awake));
        if let Some(calls) = self.calls {
            let many = |count: u64, word| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
            let errors = many(self.errors.unwrap_or(0), "error");
            line.push_str(&format!(" · {}, {errors}", many(calls, "call")));
        }
        if self.awake > 0 {
            line.push_str(&format!(" · bridges {}, servers {}", memory(self.bridges), memory(self.servers)));
        }
        line
    }
}

/// The document of `top --json`.
pub(crate) fn to_json(rows: &[Row]) -> String {
    let totals = Totals::of(rows);
    let sessions: Vec<Value> = rows.iter().map(row_to_json).collect();
    json!({
        "sessions": sessions,
        "totals": {
            "sessions": totals.sessions,
            "awake": totals.awake,
            "asleep": totals.sessions - totals.awake,
            "notAnswering": totals.silent,
            "inFlight": totals.in_flight,
            "calls": totals.calls,
            "errors": totals.errors,
            "processes": totals.processes,
            "bridgeMemory": memory_json(totals.bridges),
            "serverMemory": memory_json(totals.servers),
        },
    })
    .to_string()
}

fn row_to_json(row: &Row) -> Value {
    let mut entry = json!({
        "name": row.name.to_string(),
        "status": row.state.name(),
        "since": row.since,
        "era": row.era,
    });
    if let Some(awake) = &row.awake {
        let tally = awake.tally.as_ref();
        let time = |of: fn(&Tally) -> Option<f64>| tally.and_then(of);
        entry["pid"] = awake.pid.into();
        entry["answers"] = awake.answers.into();
        entry["inFlight"] = if awake.answers { awake.in_flight.into() } else { Value::Null };
        entry["idleInMs"] = awake.idle_in_ms.into();
        entry["calls"] = tally.map(|tally| tally.calls).into();
        entry["errors"] = tally.map(|tally| tally.errors.total()).into();
        entry["wakes"] = tally.map(|tally| tally.wakes).into();
        entry["latency"] = json!({
            "p50Ms": time(|tally| tally.p50_ms),
            "p95Ms": time(|tally| tally.p95_ms),
            "maxMs": time(|tally| tally.max_ms),
        });
        entry["processes"] = awake.load.processes.into();
        entry["bridgeMemory"] = memory_json(awake.load.bridge);
        entry["serverMemory"] = memory_json(awake.load.server);
    }
    entry
}

#[cfg(test)]
mod tests {
    use drowse_runtime::life::Errors;
    use drowse_runtime::process::Measure;

    use super::*;

    fn bytes(bytes: u64) -> Option<Memory> {
        Some(Memory { bytes, measure: Measure::Proportional })
    }

    fn row(name: &str, state: State, awake: Option<Awake>) -> Row {
        let name = SessionName::new(name).unwrap();
        Row { name, state, since: Some(0), era: Some("modern".into()), awake }
    }

    fn rows() -> Vec<Row> {
        let load = |server| Load { bridge: bytes(2_000_000), server: bytes(server), processes: 2 };
        let errors = Errors { theirs: 1, ..Errors::default() };
        let tally = Some(Tally { calls: 12, errors, p50_ms: Some(1.25), ..Tally::default() });
        vec![
            row("c", State::Idle, None),
            row(
                "b",
                State::Live,
                Some(Awake {
                    answers: true,
                    sleeps: true,
                    idle_in_ms: Some(59_001),
                    tally,
                    load: load(9_000_000),
                    ..Awake::default()
                }),
            ),
            row("a", State::Live, Some(Awake { sleeps: true, load: load(80_000_000), ..Awake::default() })),
            row("d", State::Live, Some(Awake { answers: true, in_flight: 2, ..Awake::default() })),
        ]
    }

    fn order(by: Sort) -> String {
        let mut rows = rows();
        sort(&mut rows, by);
        rows.iter().map(|row| row.name.as_str()).collect()
    }

    #[test]
    fn each_order() {
        assert_eq!(order(Sort::Name), "abcd");
        assert_eq!(order(Sort::State), "abdc");
        assert_eq!(order(Sort::Sleep), "badc");
        assert_eq!(order(Sort::Calls), "bacd");
        assert_eq!(order(Sort::Memory), "abcd");
        let mut by = Sort::default();
        for _ in 0..5 {
            by = by.next();
        }
        assert_eq!(by, Sort::default());
    }

    #[test]
    fn a_line_for_each_and_the_sum() {
        let rows = rows();
        let lines = table(&rows, 61_000, None);
        assert!(lines[1].contains("○ idle") && lines[1].matches(" -").count() >= 6, "{}", lines[1]);
        for word in ["● live", "1:00", "12", "1.2 ms", "1.9 MiB", "8.6 MiB", "1 min"] {
            assert!(lines[2].contains(word), "{word}: {}", lines[2]);
        }
        assert!(lines[3].contains("! not answering"), "{}", lines[3]);
        assert!(lines[4].contains("in use"), "{}", lines[4]);
        let totals = Totals::of(&rows);
        assert_eq!(
            totals.line(),
            "4 sessions: 3 awake (1 not answering), 1 asleep · 12 calls, 1 error · bridges 3.8 MiB, servers 84.9 MiB"
        );
    }

    #[test]
    fn narrow_terminals_keep_what_matters_most() {
        let title = |width| table(&rows(), 61_000, Some(width)).swap_remove(0);
        assert!(title(60).contains("SERVER") && title(60).contains("SLEEPS IN"), "{}", title(60));
        assert!(!title(60).contains("BRIDGE") && !title(60).contains("P50"), "{}", title(60));
        assert_eq!(title(32), "SESSION  STATE            SLEEPS…".replace("SLEEPS…", "").trim_end());
    }

    #[test]
    fn countdowns() {
        assert_eq!(clock(0), "0:00");
        assert_eq!(clock(1), "0:01");
        assert_eq!(clock(299_000), "4:59");
        assert_eq!(clock(3_723_000), "1:02:03");
        let sleeps = |sleeps| {
            let awake = Awake { answers: true, sleeps, ..Awake::default() };
            row("x", State::Live, Some(awake)).countdown()
        };
        assert_eq!((sleeps(true).as_str(), sleeps(false).as_str()), ("deferred", "never"));
    }

    #[test]
    fn json_has_null_for_what_is_not_known() {
        let document: Value = serde_json::from_str(&to_json(&rows())).unwrap();
        assert_eq!(
            document["sessions"][0],
            json!({"name": "@c", "status": "idle", "since": 0, "era": "modern"})
        );
        assert_eq!(document["sessions"][1]["latency"], json!({"p50Ms": 1.25, "p95Ms": null, "maxMs": null}));
        assert_eq!(document["sessions"][2]["answers"], false);
        assert_eq!(document["sessions"][2]["inFlight"], Value::Null);
        assert_eq!(document["totals"]["serverMemory"], json!({"bytes": 89_000_000, "measure": "pss"}));
        assert_eq!(document["totals"]["calls"], 12);
    }
}
