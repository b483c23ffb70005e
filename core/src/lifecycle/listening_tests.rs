//! A machine whose adapter holds an address at which clients find the server.

use super::tests::{IDLE, Run, idle, secs};
use super::*;

fn listens() -> Config {
    Config { listens: true, ..idle() }
}

#[test]
fn it_outlives_the_sleep_of_its_server_and_wakes_it() {
    let mut run = Run::served(listens());
    for generation in 1..4 {
        run.said();
        run.passes(secs(IDLE));
        run.gone();
        run.is("idle");
        let asleep = std::format!("persist idle {generation}");
        assert_eq!(run.said(), [asleep.as_str(), "close-input", std::format!("{asleep} ended").as_str()]);
        assert_eq!((run.unavailable(), run.awaits()), (None, None), "nothing is waited for but use");
        assert!(!run.machine.is_up());
        run.act(|machine, now| machine.begin(now));
        assert!(run.machine.is_up(), "what needs no server goes to one that is being started anyway");
        run.act(|machine, now| machine.handle_ready(now));
        run.act(|machine, now| machine.end(now, true));
        run.is("live");
    }
}

#[test]
fn it_outlives_what_else_becomes_of_its_server() {
    let mut run = Run::served(listens());
    run.crash();
    run.is("crashed");
    assert!(!run.said().contains(&"retire".into()));
    run.call();
    run.is("connecting");
    run.act(|machine, now| machine.handle_ready(now));
    run.act(|machine, _| machine.handle_unauthorized());
    run.gone();
    assert_eq!(run.unavailable(), Some(Unavailable::Unauthorized));
    let mut run = Run::served(Config { idle: None, ..listens() });
    run.act(|machine, _| machine.handle_expired());
    run.passes(secs(10));
    run.gone();
    run.is("expired");
    run.call();
    run.is("connecting");
    // A start that is not the first may fail, and another is made when its back-off is over.
    run.act(|machine, now| machine.handle_start_failed(now, false));
    run.gone();
    run.is("crashed");
    assert!(!run.said().contains(&"retire".into()));
}

#[test]
fn a_first_start_that_fails_leaves_nobody() {
    let failures: [fn(&mut Lifecycle, Instant); 3] = [
        |machine, now| machine.handle_start_failed(now, false),
        |machine, now| machine.handle_spawn_failed(now),
        |machine, _| machine.handle_unauthorized(),
    ];
    for fail in failures {
        let mut run = Run::new(listens());
        run.act(|machine, now| machine.wake(now));
        run.act(fail);
        run.gone();
        assert_eq!(run.said().last().map(|said| said.as_str()), Some("retire"));
    }
}

#[test]
fn closed_or_replaced_it_goes_asleep_or_awake() {
    let ends: [fn(&mut Lifecycle, Instant); 2] =
        [|machine, _| machine.close(), |machine, now| machine.leave(now)];
    for end in ends {
        for asleep in [false, true] {
            let mut run = Run::served(listens());
            if asleep {
                run.passes(secs(IDLE));
                run.gone();
            }
            run.act(end);
            run.passes(secs(0));
            run.gone();
            assert_eq!(run.said().last().map(|said| said.as_str()), Some("retire"));
            assert_eq!(run.unavailable(), Some(Unavailable::ShuttingDown));
        }
    }
}

#[test]
fn one_that_stands_by_stays_whatever_becomes_of_the_first_start() {
    let mut run = Run::new(listens());
    run.act(|machine, _| machine.stand_by());
    run.passes(secs(10 * IDLE));
    assert!(run.said().is_empty());
    run.call();
    run.act(|machine, now| machine.handle_start_failed(now, false));
    run.gone();
    run.is("crashed");
    assert!(!run.said().contains(&"retire".into()));
    run.act(|machine, _| machine.set_listens(false));
    run.passes(secs(1));
    run.act(|machine, now| machine.end(now, false));
    assert!(run.said().contains(&"retire".into()));
}

#[test]
fn listening_begins_and_ends_while_the_server_runs_or_sleeps() {
    let mut run = Run::served(idle());
    run.act(|machine, _| machine.set_listens(true));
    run.is("live");
    run.passes(secs(IDLE));
    run.gone();
    run.is("idle");
    assert!(!run.said().contains(&"retire".into()));
    run.act(|machine, _| machine.set_listens(false));
    assert_eq!(run.said(), ["retire"]);
    let mut run = Run::served(listens());
    run.said();
    run.act(|machine, _| machine.set_listens(false));
    run.is("live");
    assert!(run.said().is_empty());
    run.passes(secs(IDLE));
    run.gone();
    assert!(run.said().contains(&"retire".into()));
    // Nothing was ever started.
    let mut run = Run::new(listens());
    run.act(|machine, _| machine.stand_by());
    run.act(|machine, _| machine.set_listens(false));
    assert_eq!(run.said(), ["persist idle 0 ended", "retire"]);
}
