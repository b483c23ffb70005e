//! Checks the wake protocol in every state that a few processes can be in, and that the checker would notice if the
//! protocol were wrong.
//!
//! The first half runs the protocol. The second half breaks it, one step at a time, and says what harm must follow.
//! `--nocapture` prints how many states there were; `--ignored` runs the configurations that take minutes.

use drowse_tests::wake_model::Command::{Close, Connect, List, Replace, Restart, Set};
use drowse_tests::wake_model::{Config, Report, Variant, Violation, check};

/// Runs a configuration in which nothing may go wrong.
fn holds(name: &str, config: Config) -> Report {
    let report = check(&config);
    println!("{name}: {} states, {} steps, {} ends", report.states, report.steps, report.ends);
    if let Some((violation, trace)) = &report.violation {
        panic!("{name}: {violation:?}\n  {}", trace.join("\n  "));
    }
    assert!(!report.overflow, "{name}: more bridges at once than the model has room for");
    assert!(report.ends > 0, "{name}: nothing ever ends");
    report
}

/// Runs a broken variant, and asks for this harm. Early signs of it are passed by.
fn breaks(config: Config, variant: Variant, harm: Violation) {
    let report = check(&Config { harm_only: true, ..config.with(variant) });
    println!("{variant:?}: {} states", report.states);
    let Some((violation, trace)) = report.violation else { panic!("{variant:?} was not noticed") };
    assert_eq!(violation, harm, "{variant:?}\n  {}", trace.join("\n  "));
    assert!(trace.len() > 2, "{variant:?}: a trace has a root, steps and an end: {trace:?}");
}

const TWO: Config = Config::new(2, 0);
const TWO_AND_A_KILL: Config = Config::new(2, 1);
const ONE_AND_A_KILL: Config = Config::new(1, 1);

#[test]
fn two_callers_two_kills() {
    holds("2 callers, 2 kills", Config::new(2, 2));
}

#[test]
fn two_callers_two_kills_complete_reaping() {
    holds("2 callers, 2 kills, complete reaping", Config { incomplete_reaping: false, ..Config::new(2, 2) });
}

#[test]
fn three_callers_no_kill() {
    holds("3 callers", Config::new(3, 0));
}

#[test]
fn three_callers_one_kill() {
    holds("3 callers, 1 kill", Config::new(3, 1));
}

#[test]
fn close_beside_two_callers() {
    holds("2 callers, 1 kill, close", TWO_AND_A_KILL.beside(Close));
}

#[test]
fn restart_beside_two_callers() {
    holds("2 callers, 1 kill, restart", TWO_AND_A_KILL.beside(Restart));
}

#[test]
fn replace_beside_two_callers() {
    holds("2 callers, 1 kill, replace", TWO_AND_A_KILL.beside(Replace));
}

#[test]
fn set_and_close_beside_two_callers() {
    holds("2 callers, 1 kill, set, close", TWO_AND_A_KILL.beside(Set).beside(Close));
}

#[test]
fn connect_beside_two_callers() {
    holds("2 callers, 1 kill, connect", TWO_AND_A_KILL.beside(Connect));
}

#[test]
fn connect_and_close_beside_one_caller() {
    holds("1 caller, 1 kill, connect, close", ONE_AND_A_KILL.beside(Connect).beside(Close));
}

#[test]
fn restart_and_close_beside_one_caller() {
    holds("1 caller, 1 kill, restart, close", ONE_AND_A_KILL.beside(Restart).beside(Close));
}

#[test]
fn listeners() {
    let listens = |config: Config| Config { listens: true, ..config };
    holds("2 callers, 2 kills, a listener", listens(Config::new(2, 2)));
    holds("3 callers, a listener", listens(Config::new(3, 0)));
    holds("2 callers, 2 kills or wedges, a listener", listens(Config { wedges: true, ..Config::new(2, 2) }));
    holds("2 callers, 1 kill, close, a listener", listens(TWO_AND_A_KILL.beside(Close)));
    holds("2 callers, 1 kill, restart, a listener", listens(TWO_AND_A_KILL.beside(Restart)));
    holds("2 callers, 1 kill, replace, a listener", listens(TWO_AND_A_KILL.beside(Replace)));
    holds("2 callers, 1 kill, connect, a listener", listens(TWO_AND_A_KILL.beside(Connect)));
}

#[test]
fn list_beside_two_callers() {
    holds("2 callers, 1 kill, list", TWO_AND_A_KILL.beside(List));
}

#[test]
fn wedged_bridges() {
    holds("2 callers, 2 kills or wedges", Config { wedges: true, ..Config::new(2, 2) });
    holds("1 caller, 1 kill or wedge, close", Config { wedges: true, ..ONE_AND_A_KILL }.beside(Close));
}

#[test]
fn a_passing_failure_to_connect() {
    holds("2 callers, 1 kill, 1 passing failure", Config { flaky: true, ..TWO_AND_A_KILL });
    let never_idle = Config { flaky: true, idles: false, ..TWO_AND_A_KILL };
    holds("2 callers, 1 kill, 1 passing failure, never idle", never_idle);
    holds("2 callers, 1 kill, 1 passing failure, never idle, close", never_idle.beside(Close));
}

#[test]
fn starter_may_release_l_early() {
    let early = |config: Config| config.with(Variant::EarlyRelease);
    holds("2 callers, 2 kills, early release", early(Config::new(2, 2)));
    holds("2 callers, 1 kill, close, early release", early(TWO_AND_A_KILL.beside(Close)));
    holds("2 callers, 1 kill or wedge, early release", early(Config { wedges: true, ..TWO_AND_A_KILL }));
}

#[test]
#[ignore = "takes minutes; up to 1 GiB"]
fn by_hand_callers() {
    holds("3 callers, 2 kills", Config::new(3, 2));
    holds("3 callers, 3 kills", Config::new(3, 3));
    holds("4 callers", Config::new(4, 0));
    holds("4 callers, 1 kill", Config::new(4, 1));
    holds("3 callers, 1 kill or wedge", Config { wedges: true, ..Config::new(3, 1) });
    holds("3 callers, 1 kill, early release", Config::new(3, 1).with(Variant::EarlyRelease));
}

#[test]
#[ignore = "takes minutes; up to 1 GiB"]
fn by_hand_commands() {
    let two_kills = Config::new(2, 2);
    for command in [Close, Restart, Replace, Set, Connect, List] {
        holds(&format!("2 callers, 2 kills, {command:?}"), two_kills.beside(command));
    }
    let pairs = [(Set, Close), (Restart, Close), (Replace, Close), (Connect, Close), (Close, Close)];
    let more = [(Connect, Restart), (Replace, Restart), (Set, Connect), (Connect, Connect)];
    for (one, other) in pairs.into_iter().chain(more) {
        holds(&format!("2 callers, 1 kill, {one:?}, {other:?}"), TWO_AND_A_KILL.beside(one).beside(other));
    }
    holds("3 callers, 1 kill, close", Config::new(3, 1).beside(Close));
}

/// What holds because it never happens proves nothing: each kind of step must have been taken.
#[test]
fn every_step_is_taken() {
    let mut taken =
        holds("1 caller, 1 kill, connect, close", ONE_AND_A_KILL.beside(Connect).beside(Close)).taken;
    for config in [
        TWO_AND_A_KILL,
        TWO.beside(Restart),
        TWO.beside(Replace),
        TWO.beside(List),
        TWO.beside(Set),
        Config { flaky: true, ..TWO },
        Config { wedges: true, ..TWO_AND_A_KILL },
        Config { listens: true, ..TWO_AND_A_KILL },
    ] {
        taken.extend(check(&config).taken);
    }
    for step in [
        "C1 connect",
        "C1 nobody listens",
        "C1 connect fails for a passing reason",
        "C1 send the hello",
        "C1 hello answered",
        "C1 closed before the hello was sent",
        "C1 closed before the hello's answer",
        "C1 no answer to the hello, take the operation back",
        "C1 send the hello and the operation",
        "answer a hello with an operation behind it",
        "C2 send the operation",
        "C2 answered",
        "C2 GOAWAY(0)",
        "C2 write error, then GOAWAY(0) read",
        "C2 write error, nothing to read",
        "C2 EOF without an answer",
        "C2 server lost, ran: no",
        "C2 server lost, ran: unknown",
        "C2 shut down, ran: no",
        "C2 shut down, ran: unknown",
        "C3 lock L",
        "C3 lock L, the session is gone",
        "C3 lock L, there is no session",
        "C3 release L",
        "C3 kill the wedged holder of L",
        "C4 B is free",
        "C4 try C1 again",
        "C4 kill the wedged holder of B",
        "C4 no hello within the limit, kill the bridge",
        "C5 end what the last generation left",
        "C5 unlink the socket",
        "C6 spawn",
        "C6 write the configuration",
        "C6 kill the wedged bridge",
        "C6 ready, release L",
        "C6 EOF, release L",
        "C6 the start failed",
        "B0 no configuration came, exit",
        "B1 lock B",
        "B2 bind",
        "B2 listen",
        "B3 write the next generation",
        "B4 fork",
        "B4 negotiated, write live",
        "B5 say ready to whoever waits for it",
        "B5 close L",
        "D1 deadline, write idle",
        "D1 the tree is gone",
        "D2 an operation came",
        "D3 nothing pending, write ended",
        "D3 nothing pending, write ended, stay as the listener",
        "D3 unlink the socket",
        "D3 close the listener",
        "D3 GOAWAY",
        "D3 exit",
        "the server is lost, write crashed",
        "answer or fail what is in flight",
        "say failed to whoever waits for ready",
        "cancel the operation of a caller that is gone",
        "read close",
        "read leave",
        "nothing is in flight, leave",
        "end the tree, write ended",
        "write session.json",
        "write session.json, release L",
        "remove session.json",
        "remove the session's directory, release L",
        "try B",
        "release B",
        "run an operation",
        "die with the bridge",
        "killed",
        "wedged",
        "its leader killed, a descendant lives",
        "(dead) L goes",
        "(dead) B goes",
        "(dead) the ready pipe goes",
        "(dead) its sockets go",
        "(dead) gone",
    ] {
        assert!(taken.contains(step), "never taken: {step}");
    }
}

/// One test for each broken variant.
macro_rules! broken {
    ($($name:ident: $config:expr, $variant:ident => $harm:ident;)*) => {
        $(#[test]
        fn $name() {
            breaks($config, Variant::$variant, Violation::$harm);
        })*
    };
}

broken! {
    c1_without_hello: TWO, NoHello => FailedUnkilled;
    c1_operation_not_taken_back: TWO, NotTakenBack => FalseNo;
    c2_retry_on_eof: TWO_AND_A_KILL, RetryOnEof => RanTwice;
    c2_shut_down_is_reported: TWO.beside(Restart), ShutDownReported => FailedByRestart;
    c3_session_not_read_again: Config::new(1, 0).beside(Close), SessionNotReread => NoSessionButProcess;
    c3_wedged_starter_kept: Config { wedges: true, ..TWO_AND_A_KILL }, WedgedStarterKept => StuckCaller;
    c4_skipped_by_close: Config::new(1, 0).beside(Close), NoAwaitB => NoSessionButProcess;
    c4_skipped_by_restart: Config::new(1, 0).beside(Restart), NoAwaitB => FailedUnkilled;
    c4_waits_for_b_alone: Config { flaky: true, idles: false, ..TWO }, NoHelloWhileAwaitingB => StuckCaller;
    d3_of_a_listener_without_d2: Config { listens: true, ..TWO }, DrainDrops => StuckCaller;
    c4_spins: TWO, SpinOnB => Endless;
    c5_skipped: TWO, NoSweep => SecondServer;
    c6_l_not_handed_over: Config::new(2, 2), LockNotHandedOver => SecondServer;
    c6_unlock_instead_of_close: Config::new(2, 2), UnlockInsteadOfClose => SecondServer;
    b1_tries_b: Config::new(1, 0).beside(List), BridgeTriesB => FailedUnkilled;
    b3_after_b4: TWO_AND_A_KILL, ForkBeforeState => SecondServer;
    b4_server_inherits_b: TWO_AND_A_KILL, ServerInheritsB => StuckCaller;
    d1_forgets_generation: TWO_AND_A_KILL, IdleForgetsGeneration => SecondServer;
    d1_ended_too_early: TWO_AND_A_KILL, EndedTooEarly => SecondServer;
    d2_missing: TWO, DrainDrops => FailedUnkilled;
    d3_without_goaway: TWO, NoGoaway => FailedUnkilled;
    close_without_l: Config::new(1, 0).beside(Close), CloseWithoutLock => NoSessionButProcess;
    close_unlinks_the_locks: Config::new(1, 0).beside(Close).beside(Connect), CloseUnlinksLocks => FailedUnkilled;
    set_without_l: Config::new(1, 0).beside(Close).beside(Set), SetWithoutLock => CameBack;
    connect_undoes_at_once: ONE_AND_A_KILL.beside(Connect), ConnectUndoesAtOnce => NoSessionButProcess;
    replace_at_once: TWO.beside(Replace), ReplaceAtOnce => FailedUnkilled;
}
