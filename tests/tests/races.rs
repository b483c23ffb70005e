//! Calls that race with the idle deadline, with each other, and with commands, on real processes.

#![cfg(target_os = "linux")]

#[path = "races/commands.rs"]
mod commands;

use drowse_tests::race::chance;
use drowse_tests::race::rounds::{Plan, Tally, run};

/// Sessions with 1, 4 and 16 callers, in turn.
fn sessions(count: usize) -> Vec<usize> {
    [1, 4, 16].into_iter().cycle().take(count).collect()
}

fn calls(test: &str, sessions: Vec<usize>, calls: usize) -> Tally {
    let plan = Plan { seed: chance::seed(test), callers: sessions, calls, commands: 15 };
    let tally = run(&plan);
    println!("{test}: {tally:#?}");
    assert_eq!(tally.calls, calls);
    tally
}

#[test]
fn calls_around_the_deadline() {
    let tally = calls("calls_around_the_deadline", sessions(12), 400);
    assert!(tally.in_a_drain >= 50, "too few to say anything");
}

#[test]
#[ignore = "takes minutes: run by hand"]
fn two_thousand_calls_around_the_deadline() {
    let tally = calls("two_thousand_calls_around_the_deadline", sessions(32), 2000);
    assert!(tally.in_a_drain >= 500, "too few to say anything");
}
