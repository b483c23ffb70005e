//! Rounds in which contenders take turns, and the medians of what was measured.

use std::io;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::calls::Era;
use super::client::{Measured, Peer, Phase};
use super::measure;
use super::server::Eras;

/// How many of a proxy are counted together.
const MANY: usize = 20;
/// How long after a load its memory is looked at.
const SETTLED: Duration = Duration::from_secs(1);

/// Something that is measured.
#[derive(Debug, Clone, Default)]
pub struct Contender {
    /// Its name in the report.
    pub name: String,
    /// Where it is spoken to; over its standard streams, if nowhere.
    pub url: Option<String>,
    /// Its words, to which those of the server are added.
    pub command: Vec<String>,
    /// Words of the server behind the usual ones.
    pub more: Vec<String>,
}

impl Contender {
    /// One whose words stand between blanks.
    #[must_use]
    pub fn new(name: &str, url: Option<&str>, command: &str) -> Self {
        let command = command.split_whitespace().map(str::to_owned).collect();
        Self { name: name.to_owned(), url: url.map(str::to_owned), command, more: Vec::new() }
    }
}

/// The names of what has no proxy, over standard streams and over HTTP.
const DIRECT: [&str; 2] = ["direct", "direct-http"];

/// What a proxy between standard streams is compared with.
///
/// # Errors
/// As [`this_program`].
pub fn floors() -> io::Result<[Contender; 2]> {
    let relay = Contender { command: vec![this_program()?, "relay".to_owned()], ..Contender::default() };
    Ok([
        Contender { name: DIRECT[0].to_owned(), ..Contender::default() },
        Contender { name: "relay".to_owned(), ..relay },
    ])
}

/// What a front over HTTP is compared with. Their ports are free now.
///
/// # Errors
/// As [`this_program`], or if there are no free ports.
pub fn http_floors() -> io::Result<[Contender; 2]> {
    http_floors_of(&this_program()?)
}

/// The same of that program.
///
/// # Errors
/// If there are no free ports.
pub fn http_floors_of(program: &str) -> io::Result<[Contender; 2]> {
    let ports = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let [direct, relay] = ports.map(|port| port.local_addr().map(|address| address.port().to_string()));
    let (direct, relay) = (direct?, relay?);
    let url = |port: &str| Some(format!("http://127.0.0.1:{port}/mcp"));
    let http = |port: &str| ["--http".to_owned(), port.to_owned()];
    let hop = [program.to_owned(), "relay".to_owned()].into_iter().chain(http(&relay)).collect();
    Ok([
        Contender {
            name: DIRECT[1].to_owned(),
            url: url(&direct),
            more: http(&direct).to_vec(),
            ..Contender::default()
        },
        Contender { name: "relay-http".to_owned(), url: url(&relay), command: hop, ..Contender::default() },
    ])
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Who takes turns.
    pub contenders: Vec<Contender>,
    /// How often.
    pub rounds: usize,
    /// The era of the client.
    pub era: Era,
    /// The eras of the server.
    pub server: Eras,
    /// The calls.
    pub phases: Vec<Phase>,
    /// Memory is measured, too.
    pub memory: bool,
}

impl Default for Plan {
    fn default() -> Self {
        let (era, server) = (Era::Legacy, Eras::Legacy);
        Self { contenders: Vec::new(), rounds: 1, era, server, phases: Vec::new(), memory: false }
    }
}

/// What one contender's phase came to, as medians.
#[derive(Debug, Clone)]
pub struct Row {
    contender: String,
    /// It is spoken to over HTTP.
    http: bool,
    phase: String,
    p50: Vec<f64>,
    p99: Vec<f64>,
    rate: Vec<f64>,
    cpu: Vec<f64>,
    /// Lost, duplicated, mismatched, and errors.
    faults: [usize; 4],
    calls: usize,
    example: Option<String>,
}

/// What a contender keeps, in KiB.
#[derive(Debug, Clone, Default)]
struct Memory {
    idle: Vec<f64>,
    each_of_many: Vec<f64>,
    growth: Vec<f64>,
    peak: Vec<f64>,
    after: Vec<f64>,
}

/// All that was measured.
#[derive(Debug, Default)]
pub struct Report {
    rounds: usize,
    rows: Vec<Row>,
    starts: Vec<(String, Vec<f64>)>,
    memory: Vec<(String, Memory)>,
}

/// The path of this program, which is also the server and the relay.
///
/// # Errors
/// If the system does not say.
pub fn this_program() -> io::Result<String> {
    Ok(std::env::current_exe()?.to_string_lossy().into_owned())
}

/// Measures. `tell` is told what is done.
///
/// # Errors
/// If something does not start, or a connection breaks.
pub fn run(plan: &Plan, tell: impl Fn(&str)) -> io::Result<Report> {
    let server = [this_program()?, "server".to_owned(), "--era".to_owned(), plan.server.name().to_owned()];
    run_with(plan, &server, tell)
}

/// The same with a server of the caller's.
///
/// # Errors
/// As [`run`].
pub fn run_with(plan: &Plan, server: &[String], tell: impl Fn(&str)) -> io::Result<Report> {
    let mut report = Report { rounds: plan.rounds, ..Report::default() };
    for contender in &plan.contenders {
        report.starts.push((contender.name.clone(), Vec::new()));
        report.memory.push((contender.name.clone(), Memory::default()));
        for phase in &plan.phases {
            report.rows.push(Row {
                contender: contender.name.clone(),
                http: contender.url.is_some(),
                phase: phase.to_string(),
                p50: Vec::new(),
                p99: Vec::new(),
                rate: Vec::new(),
                cpu: Vec::new(),
                faults: [0; 4],
                calls: 0,
                example: None,
            });
        }
    }
    for round in 0..plan.rounds {
        for (at, contender) in plan.contenders.iter().enumerate() {
            tell(&format!("round {} of {}: {}", round + 1, plan.rounds, contender.name));
            let server = [server, &contender.more].concat();
            let start = || Peer::start(&contender.command, &server, contender.url.as_deref(), plan.era);
            let mut peer = start()?;
            report.starts[at].1.push(peer.started.as_secs_f64() * 1000.0);
            // Whatever is only done once is done.
            peer.run(&Phase { at_once: 1, bytes: 100, count: 50, stall: None })?;
            for (row, phase) in report.rows[at * plan.phases.len()..].iter_mut().zip(&plan.phases) {
                let measured = peer.run(phase)?;
                row.add(&peer, phase, measured);
            }
            peer.end()?;
            if plan.memory {
                report.memory[at].1.measure(&start)?;
            }
        }
    }
    Ok(report)
}

impl Row {
    fn add(&mut self, peer: &Peer, phase: &Phase, measured: Measured) {
        let outcome = measured.outcome;
        let answered = (outcome.ok + outcome.errors).max(1) as f64;
        self.p50.push(outcome.quantile(500));
        self.p99.push(outcome.quantile(990));
        self.rate.push(answered / measured.time.as_secs_f64());
        if !peer.proxies().is_empty() {
            self.cpu.push(measured.cpu as f64 / 1000.0 / answered);
        }
        let faults = [outcome.lost, outcome.duplicated, outcome.mismatched, outcome.errors];
        self.faults.iter_mut().zip(faults).for_each(|(sum, more)| *sum += more);
        self.calls += phase.count;
        self.example = self.example.take().or(outcome.example);
    }
}

impl Memory {
    fn measure(&mut self, start: &impl Fn() -> io::Result<Peer>) -> io::Result<()> {
        let kept = |peer: &Peer| {
            thread::sleep(SETTLED);
            measure::memory(&peer.proxies()) as f64
        };
        let mut peer = start()?;
        let idle = kept(&peer);
        self.idle.push(idle);
        let calls = |count| Phase { at_once: 16, bytes: 100, count, stall: None };
        peer.run(&calls(10_000))?;
        let before = kept(&peer);
        peer.run(&calls(100_000))?;
        self.growth.push(kept(&peer) - before);
        let proxies = peer.proxies();
        measure::forget_peak(&proxies);
        let (resident, before) = (measure::resident(&proxies), measure::memory(&proxies) as f64);
        peer.run(&Phase { at_once: 1, bytes: 10 << 20, count: 1, stall: None })?;
        self.peak.push(measure::peak(&proxies).saturating_sub(resident) as f64);
        self.after.push(kept(&peer) - before);
        peer.end()?;
        let many: Vec<Peer> = (0..MANY).map(|_| start()).collect::<io::Result<_>>()?;
        thread::sleep(SETTLED);
        let all: Vec<u32> = many.iter().flat_map(Peer::proxies).collect();
        self.each_of_many.push(measure::memory(&all) as f64 / MANY as f64);
        many.into_iter().try_for_each(Peer::end)
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

impl Report {
    /// Whether every call was answered once, with its own answer.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.rows.iter().all(|row| row.faults == [0; 4])
    }

    /// The first answer that was none of a call, if there was one.
    #[must_use]
    pub fn example(&self) -> Option<&str> {
        self.rows.iter().find_map(|row| row.example.as_deref())
    }

    /// How many calls were made.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.rows.iter().map(|row| row.calls).sum()
    }

    /// What the median p50 of a row is above that of no proxy, in microseconds.
    fn added(&self, row: &Row) -> Option<f64> {
        let name = DIRECT[usize::from(row.http)];
        let floor = self.rows.iter().find(|floor| floor.contender == name && floor.phase == row.phase)?;
        (row.contender != name).then_some(median(&row.p50)? - median(&floor.p50)?)
    }

    /// All of it.
    #[must_use]
    pub fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let [lost, duplicated, mismatched, errors] = row.faults;
            json!({
                "contender": row.contender, "phase": row.phase, "calls": row.calls,
                "p50Us": median(&row.p50), "addedUs": self.added(row), "p99Us": median(&row.p99),
                "perSecond": median(&row.rate), "cpuUs": median(&row.cpu), "lost": lost,
                "duplicated": duplicated, "mismatched": mismatched, "errors": errors, "example": row.example,
            })
        });
        let starts: Vec<Value> = self
            .starts
            .iter()
            .map(|(name, starts)| json!({"contender": name, "startMs": median(starts)}))
            .collect();
        let memory: Vec<Value> = self
            .memory
            .iter()
            .filter(|(_, memory)| !memory.idle.is_empty())
            .map(|(name, memory)| {
                json!({
                    "contender": name, "idleKib": median(&memory.idle), "eachOfManyKib": median(&memory.each_of_many),
                    "growthKib": median(&memory.growth), "peakKib": median(&memory.peak),
                    "afterKib": median(&memory.after),
                })
            })
            .collect();
        let rows: Vec<Value> = rows.collect();
        json!({"rounds": self.rounds, "rows": rows, "starts": starts, "memory": memory})
    }

    /// The same for people.
    #[must_use]
    pub fn table(&self) -> String {
        let figure = |values: &[f64], digits: usize| {
            median(values).map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let mut lines = vec![format!(
            "medians of {} rounds\n\n{:<14} {:<22} {:>9} {:>9} {:>9} {:>9} {:>8}  lost/twice/wrong/errors",
            self.rounds, "", "calls", "p50 us", "added", "p99 us", "msg/s", "cpu us"
        )];
        for row in &self.rows {
            let [lost, twice, wrong, errors] = row.faults;
            lines.push(format!(
                "{:<14} {:<22} {:>9} {:>9} {:>9} {:>9} {:>8}  {lost}/{twice}/{wrong}/{errors}",
                row.contender,
                row.phase,
                figure(&row.p50, 1),
                self.added(row).map_or_else(|| "-".to_owned(), |added| format!("{added:+.1}")),
                figure(&row.p99, 1),
                figure(&row.rate, 0),
                figure(&row.cpu, 1),
            ));
            lines.extend(row.example.iter().map(|example| format!("    {example}")));
        }
        lines.push(format!("\n{:<14} {:>9}", "", "start ms"));
        for (name, starts) in &self.starts {
            lines.push(format!("{name:<14} {:>9}", figure(starts, 1)));
        }
        if self.memory.iter().any(|(_, memory)| !memory.idle.is_empty()) {
            lines.push(format!(
                "\n{:<14} {:>9} {:>12} {:>12} {:>12} {:>10}  KiB",
                "", "idle", "each of 20", "100k calls", "10 MiB peak", "1 s later"
            ));
            for (name, memory) in &self.memory {
                lines.push(format!(
                    "{name:<14} {:>9} {:>12} {:>12} {:>12} {:>10}",
                    figure(&memory.idle, 0),
                    figure(&memory.each_of_many, 0),
                    figure(&memory.growth, 0),
                    figure(&memory.peak, 0),
                    figure(&memory.after, 0),
                ));
            }
        }
        lines.join("\n")
    }
}
