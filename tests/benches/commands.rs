//! What drowse costs as whole processes: `cargo bench -p drowse-tests --bench commands`.
//!
//! Every figure is a median of runs that take turns with its floor, so that a machine whose speed drifts does not
//! decide the ratio: an empty Rust program for commands, the server started by hand for connect and wake. Memory is
//! the proportional set size of bridges, without their servers; idle cost is read from the kernel's own accounting.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde_json::Value;

#[path = "commands/grep.rs"]
mod grep;
#[path = "commands/http.rs"]
mod http;

fn main() {
    let bench = Bench::new();
    println!("drowse {}, medians\n", bench.version());
    // `-- http` is only that part, and so is `-- grep`.
    if env::args().any(|word| word == "http") {
        return bench.http();
    }
    if env::args().any(|word| word == "grep") {
        return bench.grep();
    }
    bench.warm_call();
    bench.connect_and_wake();
    bench.list();
    bench.grep();
    bench.memory();
    bench.idle();
    bench.http();
}

/// A bridge stays ready for the next caller for a second, and is at rest after that.
const AT_REST: Duration = Duration::from_secs(3);

struct Bench {
    drowse: PathBuf,
    empty: PathBuf,
    home: tempfile::TempDir,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.run(&["clean", "all"]);
    }
}

impl Bench {
    fn new() -> Self {
        // The benchmark itself stands in target/release/deps; the programs beside that folder.
        let here = env::current_exe().expect("a path of our own");
        let release = here.parent().and_then(Path::parent).expect("target/release").to_owned();
        let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--quiet", "--release", "-p", "drowse", "-p", "drowse-tests", "--bins"])
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the programs do not build");
        let home = tempfile::tempdir().expect("a temporary directory");
        Self { drowse: release.join("drowse"), empty: release.join("drowse-empty"), home }
    }

    fn version(&self) -> String {
        String::from_utf8_lossy(&self.output(&["--version"])).trim().replace("drowse ", "")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.drowse);
        command.args(words).env("DROWSE_HOME", self.home.path()).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn output(&self, words: &[&str]) -> Vec<u8> {
        let out = self.command(words).output().expect("drowse runs");
        assert!(out.status.success(), "drowse {words:?}: {}", out.status);
        out.stdout
    }

    fn run(&self, words: &[&str]) -> Duration {
        let begin = Instant::now();
        let status = self.command(words).stdout(Stdio::null()).status().expect("drowse runs");
        let took = begin.elapsed();
        assert!(status.success(), "drowse {words:?}: {status}");
        took
    }

    /// A search, which may find nothing.
    fn search(&self, words: &[&str]) -> Duration {
        let begin = Instant::now();
        let status = self.command(words).stdout(Stdio::null()).status().expect("drowse runs");
        let took = begin.elapsed();
        assert!(matches!(status.code(), Some(0 | 1)), "drowse {words:?}: {status}");
        took
    }

    fn connect(&self, name: &str, more: &[&str]) -> Duration {
        let session = format!("@{name}");
        let server = self.drowse.to_string_lossy().into_owned();
        let mut words = vec!["connect", session.as_str()];
        words.extend_from_slice(more);
        words.extend_from_slice(&["--", &server, "demo-server"]);
        self.run(&words)
    }

    fn warm_call(&self) {
        self.connect("warm", &[]);
        let (mut calls, mut floors) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            calls.push(self.run(&["@warm", "tools-call", "echo", "text=hello"]));
            let begin = Instant::now();
            Command::new(&self.empty).stdin(Stdio::null()).status().expect("the empty program runs");
            floors.push(begin.elapsed());
        }
        let ratios = pairs(&calls, &floors, |call, floor| call.as_secs_f64() / floor.as_secs_f64());
        println!(
            "warm tools-call           {:>9}   empty program {}   ratio {:.2}",
            show(median(&mut calls)),
            show(median(&mut floors)),
            median(&mut { ratios })
        );
        self.run(&["@warm", "close"]);
    }

    /// The server alone: from its start to the answer to its first tool call.
    fn direct(&self) -> Duration {
        let begin = Instant::now();
        let mut server = Command::new(&self.drowse)
            .arg("demo-server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut input = server.stdin.take().expect("a pipe");
        let mut output = BufReader::new(server.stdout.take().expect("a pipe"));
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        for (id, method, params) in
            [(0, "server/discover", ""), (1, "tools/call", r#""name":"echo","arguments":{"text":"hello"},"#)]
        {
            writeln!(
                input,
                r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}{meta}}}}}"#
            )
            .expect("the server reads");
            let mut line = String::new();
            output.read_line(&mut line).expect("the server answers");
            assert!(line.contains("\"result\""), "{line}");
        }
        let took = begin.elapsed();
        drop(input);
        server.wait().expect("the server ends");
        took
    }

    fn connect_and_wake(&self) {
        const RUNS: usize = 40;
        let (mut connects, mut floors) = (Vec::new(), Vec::new());
        for run in 0..RUNS {
            // Everything that connect does by default, save the info it then asks for and prints.
            connects.push(self.connect(&format!("c{run}"), &["--idle-timeout", "1"]));
            floors.push(self.direct());
        }
        let mut added =
            pairs(&connects, &floors, |connect, floor| connect.as_secs_f64() - floor.as_secs_f64());
        let added_connect = median(&mut added);
        let names: Vec<String> = (0..RUNS).map(|run| format!("c{run}")).collect();
        while names
            .iter()
            .any(|name| self.state(name)["state"] != "idle" || self.state(name)["ended"] != true)
        {
            thread::sleep(Duration::from_millis(20));
        }
        let (mut wakes, mut wake_floors) = (Vec::new(), Vec::new());
        for name in &names {
            let session = format!("@{name}");
            wakes.push(self.run(&[&session, "tools-call", "echo", "text=hello"]));
            wake_floors.push(self.direct());
        }
        let mut added = pairs(&wakes, &wake_floors, |wake, floor| wake.as_secs_f64() - floor.as_secs_f64());
        println!(
            "connect                   {:>9}   server alone  {}   added {:.1} ms",
            show(median(&mut connects)),
            show(median(&mut floors)),
            added_connect * 1e3
        );
        println!(
            "wake, to the first answer {:>9}   server alone  {}   added {:.1} ms",
            show(median(&mut wakes)),
            show(median(&mut wake_floors)),
            median(&mut added) * 1e3
        );
        self.run(&["clean", "all"]);
    }

    fn list(&self) {
        for name in 0..1000 {
            self.connect(&format!("l{name}"), &["--lazy"]);
        }
        let mut asleep: Vec<Duration> = (0..30).map(|_| self.run(&[])).collect();
        for name in 0..100 {
            self.run(&[&format!("@l{name}"), "ping"]);
        }
        let mut awake: Vec<Duration> = (0..30).map(|_| self.run(&[])).collect();
        println!(
            "list of 1,000 sessions    {:>9}   with 100 awake {}",
            show(median(&mut asleep)),
            show(median(&mut awake))
        );
        self.run(&["clean", "all"]);
    }

    fn memory(&self) {
        // A server that is another program, so that no page of the bridge is shared with it.
        let fixture = self.empty.with_file_name("drowse-fixture").to_string_lossy().into_owned();
        let names: Vec<String> = (0..50).map(|name| format!("m{name}")).collect();
        let mut alone = 0;
        for (index, name) in names.iter().enumerate() {
            self.run(&["connect", &format!("@{name}"), "--", &fixture]);
            if index == 0 {
                thread::sleep(AT_REST);
                alone = self.pss(name);
            }
        }
        thread::sleep(AT_REST);
        let all: u64 = names.iter().map(|name| self.pss(name)).sum();
        println!(
            "idle bridge, PSS          {:>6.2} MiB   each of 50    {:.2} MiB",
            mib(alone),
            mib(all / names.len() as u64)
        );
        self.run(&["clean", "all"]);
    }

    fn idle(&self) {
        let seconds = self.idle_seconds();
        self.connect("still", &["--idle-timeout", "3600"]);
        // What the start leaves to be done is not idleness.
        thread::sleep(AT_REST);
        let before = self.activity("still");
        thread::sleep(Duration::from_secs(seconds));
        let after = self.activity("still");
        println!(
            "idle bridge, {seconds:>3} s         {:>6} ticks of CPU   {} wake-ups",
            after.0 - before.0,
            after.1 - before.1
        );
        self.run(&["@still", "close"]);
    }

    fn idle_seconds(&self) -> u64 {
        env::var("DROWSE_BENCH_IDLE_SECS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
    }

    fn state(&self, name: &str) -> Value {
        let path = self.home.path().join("sessions").join(name).join("state.json");
        serde_json::from_slice(&fs::read(path).expect("a state record")).expect("a state record")
    }

    fn bridge(&self, name: &str) -> u64 {
        self.state(name)["bridge"]["pid"].as_u64().expect("the bridge's pid")
    }

    /// Proportional set size of a session's bridge, in bytes.
    fn pss(&self, name: &str) -> u64 {
        let rollup =
            fs::read_to_string(format!("/proc/{}/smaps_rollup", self.bridge(name))).expect("the bridge runs");
        let line = rollup.lines().find(|line| line.starts_with("Pss:")).expect("a size");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a size") * 1024
    }

    /// CPU ticks and voluntary context switches of a session's bridge.
    fn activity(&self, name: &str) -> (u64, u64) {
        let pid = self.bridge(name);
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the bridge runs");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        let ticks = fields[11].parse::<u64>().expect("ticks") + fields[12].parse::<u64>().expect("ticks");
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the bridge runs");
        let switches = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
            .and_then(|text| text.trim().parse().ok())
            .expect("switches");
        (ticks, switches)
    }
}

fn pairs(a: &[Duration], b: &[Duration], of: impl Fn(&Duration, &Duration) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| of(a, b)).collect()
}

fn median<T: PartialOrd + Copy>(values: &mut [T]) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).expect("comparable"));
    values[values.len() / 2]
}

fn show(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1e3)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
