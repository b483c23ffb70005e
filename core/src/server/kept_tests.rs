//! Changes of how a server is kept, while it runs, sleeps, stops or waits.

use std::vec;
use std::vec::Vec;

use super::*;

fn change(world: &mut World, change: impl FnOnce(&mut Kept)) {
    let mut kept = world.server.config.kept();
    change(&mut kept);
    world.act(|server, now| server.keep(now, kept));
}

#[test]
fn the_period_of_now_counts_from_the_last_use() {
    for era in ERAS {
        let mut world = live(resident(idle(60)), era);
        world.seconds(30);
        change(&mut world, |kept| kept.idle = Some(secs(100)));
        world.seconds(60);
        assert_eq!(world.state(), "live", "postponed");
        change(&mut world, |kept| kept.idle = Some(Duration::ZERO));
        world.seconds(1_000);
        assert_eq!((world.state(), world.awaits()), ("live", None), "never");
        assert!(world.done().is_empty(), "nothing of this is said to the server");
        change(&mut world, |kept| kept.idle = Some(secs(20)));
        world.seconds(1);
        assert_eq!(world.state(), "idle", "over already");
        // A sleeping server stays so.
        world.done();
        change(&mut world, |kept| kept.idle = Some(secs(5)));
        world.seconds(100);
        assert_eq!(world.state(), "idle");
        assert!(world.done().is_empty());
        world.use_it();
        world.seconds(4);
        assert_eq!(world.state(), "live");
        world.seconds(4);
        assert_eq!(world.state(), "idle");
    }
}

#[test]
fn a_period_that_is_over_waits_for_what_is_in_flight() {
    let mut world = holding(resident(idle(600)), Era::Modern);
    let call = world.call("tools/call");
    world.seconds(100);
    change(&mut world, |kept| kept.idle = Some(secs(1)));
    world.seconds(100);
    assert_eq!(world.state(), "live");
    world.answer();
    assert!(world.is_answered(call));
    world.seconds(2);
    assert_eq!(world.state(), "idle");
}

#[test]
fn a_time_out_holds_for_requests_from_then_on() {
    let mut world = holding(idle(6_000), Era::Legacy);
    let old = world.call("tools/call");
    change(&mut world, |kept| kept.allowance = Allowance { quiet: secs(5), total: secs(50) });
    let new = world.call("tools/call");
    world.seconds(10);
    assert_eq!(world.fate(new), &failed(Cause::TimedOut, Ran::Unknown));
    assert_eq!(world.fate(old), &Fate::Open);
    world.seconds(300);
    assert_eq!(world.fate(old), &failed(Cause::TimedOut, Ran::Unknown));
}

#[test]
fn a_keepalive_begins_and_ends() {
    for (era, method) in [(Era::Legacy, "ping"), (Era::Modern, "server/discover")] {
        let mut world = live(Config::default(), era);
        assert_eq!(world.awaits(), None);
        change(&mut world, |kept| kept.keepalive = Some(secs(30)));
        world.seconds(100);
        assert!(world.done().iter().filter(|did| **did == send(method)).count() >= 2);
        change(&mut world, |kept| kept.keepalive = None);
        world.seconds(100);
        assert_eq!(world.awaits(), None);
        assert!(world.done().is_empty());
        // What is no news does not move the next question.
        change(&mut world, |kept| kept.keepalive = Some(secs(50)));
        world.seconds(1);
        let awaited = world.awaits();
        change(&mut world, |kept| kept.idle = None);
        assert_eq!(world.awaits(), awaited);
    }
}

#[test]
fn a_stop_goes_by_the_grace_of_the_moment_at_which_its_step_begins() {
    let mut world = World::new(resident(idle(60)), Era::Modern);
    world.behaviour.ignores_eof = true;
    world.use_it();
    change(&mut world, |kept| (kept.input_grace, kept.terminate_grace) = (secs(10), secs(10)));
    world.seconds(61);
    let (at, reason) = world.awaits().unwrap();
    assert_eq!(reason, Reason::InputClosed);
    change(&mut world, |kept| kept.input_grace = secs(1));
    assert_eq!(world.awaits(), Some((at, reason)));
}

#[test]
fn auto_restart_and_expiry_are_as_they_were_set_last() {
    let restarting = lifecycle::Config { auto_restart: true, ..lifecycle::Config::default() };
    let mut world = live(Config { lifecycle: restarting, ..Config::default() }, Era::Modern);
    change(&mut world, |kept| kept.auto_restart = false);
    world.act(|server, now| server.handle_expired(now));
    world.seconds(10);
    assert_eq!(world.state(), "expired");
    let mut world = live(resident(Config::default()), Era::Modern);
    change(&mut world, |kept| kept.fail_on_expiry = true);
    world.act(|server, now| server.handle_expired(now));
    world.seconds(10);
    let now = world.now();
    assert_eq!(world.server.lifecycle().unavailable(now), Some(Unavailable::Expired));
    change(&mut world, |kept| kept.fail_on_expiry = false);
    assert_eq!(world.server.lifecycle().unavailable(now), None);
    // One that was waited for in vain comes back as soon as that is wanted.
    change(&mut world, |kept| kept.auto_restart = true);
    world.seconds(1);
    assert_eq!(world.state(), "live");
}

#[test]
fn a_level_is_told_at_once_to_a_legacy_server_that_runs() {
    for era in ERAS {
        let mut world = live(resident(idle(60)), era);
        world.act(|server, _| server.change_level(Some(Level::Error)));
        let told = if era == Era::Legacy { vec![send("logging/setLevel")] } else { Vec::new() };
        assert_eq!(world.done(), told);
        world.seconds(70);
        world.done();
        world.act(|server, _| server.change_level(None));
        assert_eq!((world.state(), world.done()), ("idle", Vec::new()));
    }
}
