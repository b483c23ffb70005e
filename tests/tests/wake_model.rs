//! Runs the checker.
use drowse_tests::wake_model::*;

#[test]
fn explore() {
    let calls = std::env::var("C").ok().and_then(|c| c.parse().ok()).unwrap_or(2);
    let kills = std::env::var("K").ok().and_then(|c| c.parse().ok()).unwrap_or(2);
    let t = std::time::Instant::now();
    let r = check(&Config::new(calls, kills));
    println!("{} states {} steps {} ends overflow {} in {:?}", r.states, r.steps, r.ends, r.overflow, t.elapsed());
    if let Some((w, t)) = r.violation {
        println!("{w}");
        for l in t { println!("  {l}"); }
        panic!();
    }
}
