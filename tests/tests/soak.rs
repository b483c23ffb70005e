//! A short run of what `drowse-soak` does for ten minutes: nothing lost, nothing twice, nothing left.

#![cfg(target_os = "linux")]

use drowse_tests::race::chance;
use drowse_tests::soak::{Plan, run};

#[test]
fn many_sessions_with_random_kills() {
    let plan = Plan::slice(chance::seed("many_sessions_with_random_kills"));
    let report = run(&plan);
    println!("{report}");
    assert_eq!(report.faults(), [] as [String; 0]);
    assert_eq!(report.operations(), plan.operations);
    assert!(report.killed_bridges + report.killed_servers >= plan.kills / 2, "too few kills to say anything");
    assert!(report.servers > report.woken_sessions, "nothing slept and woke");
    assert!(report.answered > plan.operations / 2, "too few answers to say anything");
}
