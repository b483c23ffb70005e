//! Runs the checker.
use drowse_tests::wake_model::*;
use Command::*;

fn run(name: &str, c: Config) -> bool {
    let t = std::time::Instant::now();
    let r = check(&c);
    println!("{name}: {} states {} steps {} ends overflow {} in {:?}", r.states, r.steps, r.ends, r.overflow, t.elapsed());
    if let Some((w, t)) = r.violation {
        println!("{w:?} ({} lines)", t.len());
        if std::env::var("T").is_ok() { for l in t { println!("  {l}"); } }
        return false;
    }
    true
}
#[test]
fn clean() {
    let base = Config::new(2, 0);
    for (n, c) in [
        ("close", base.beside(Close)),
        ("restart", base.beside(Restart)),
        ("set", base.beside(Set)),
        ("connect", base.beside(Connect)),
        ("list", base.beside(List)),
        ("set close", base.beside(Set).beside(Close)),
        ("restart close", base.beside(Restart).beside(Close)),
        ("connect close", base.beside(Connect).beside(Close)),
        ("connect restart", base.beside(Connect).beside(Restart)),
        ("close close", base.beside(Close).beside(Close)),
    ] {
      for k in 0..3u8 {
        if k==2 && n.contains(' ') { continue }
        run(&format!("{n} kills {k}"), Config{kills:k, ..c});
      }
    }
    run("wedge 1 ", Config{wedges:true, ..Config::new(2,1)});
    run("wedge 2 ", Config{wedges:true, ..Config::new(2,2)});
    run("flaky ", Config{flaky:true, ..Config::new(2,1)});
    run("noidle ", Config{idles:false, ..Config::new(2,2)});
    run("flaky noidle ", Config{idles:false, flaky:true, ..Config::new(2,1)});
    run("flaky noidle close", Config{idles:false, flaky:true, ..Config::new(2,1)}.beside(Close));
    run("early ", Config{variant:Variant::EarlyRelease, ..Config::new(2,2)});
}
#[test]
fn mutants() {
    use Variant::*;
    for v in [NoHello,RetryOnEof,SessionNotReread,NoAwaitB,NoHelloWhileAwaitingB,WedgedStarterKept,NoSweep,LockNotHandedOver,UnlockInsteadOfClose,BridgeTriesB,ForkBeforeState,ServerInheritsB,IdleForgetsGeneration,EndedTooEarly,DrainDrops,NoGoaway,CloseWithoutLock,CloseUnlinksLocks,SetWithoutLock,ConnectUndoesAtOnce,ShutDownReported] {
      println!("== {v:?}");
      for k in 0..3u8 {
        if !run(&format!("{v:?} 2x{k}"), Config::new(2,k).with(v)) { break }
      }
      for cmd in [Close, Restart, Set, Connect, List] {
      for k in 0..2u8 {
        if !run(&format!("{v:?} 1x{k} {cmd:?}"), Config::new(1,k).beside(cmd).with(v)) { break }
      }}
      for (cmd,c2) in [(Close, Connect), (Close,Set)] {
      for k in 0..2u8 {
        if !run(&format!("{v:?} 1x{k} {cmd:?} {c2:?}"), Config::new(1,k).beside(cmd).beside(c2).with(v)) { break }
      }}
    }
}
