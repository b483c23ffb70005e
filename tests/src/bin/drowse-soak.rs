//! Ten minutes on a thousand sessions; see `drowse_tests::soak`. `drowse-soak [sessions awake seconds operations kills]`.

use std::process::ExitCode;
use std::time::Duration;

use drowse_tests::race::chance;
use drowse_tests::soak::{self, Bounds, Plan};

fn main() -> ExitCode {
    let mut plan = Plan::full(chance::seed("soak"));
    let numbers: Result<Vec<usize>, _> = std::env::args().skip(1).map(|word| word.parse()).collect();
    match numbers.as_deref() {
        Ok([]) => {}
        Ok(&[sessions, awake, seconds, operations, kills])
            if awake > 10 && sessions > awake && seconds > 0 =>
        {
            let steady = awake / 10;
            let time = Duration::from_secs(seconds as u64);
            plan = Plan { sessions, awake, steady, time, operations, kills, every: time / 60, ..plan };
        }
        _ => {
            eprintln!(
                "drowse-soak [sessions awake seconds operations kills]: numbers, more sessions than awake > 10"
            );
            return ExitCode::from(1);
        }
    }
    let report = soak::run(&plan);
    println!("{report}");
    let faults = [report.faults(), report.beyond(&Bounds::STATED)].concat();
    for fault in &faults {
        eprintln!("{fault}");
    }
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) }
}
