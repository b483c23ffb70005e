//! What `close`, `restart`, `replace`, `set`, `connect` and `list` do.
//!
//! Owns the steps of commands. They share C4 to C6 with callers and never do more to a session than their holding of L
//! allows.

use super::bridge;
use super::caller::{answers_hello, await_b, await_ready, feed, spawn, sweep, unlink};
use super::search::{Steps, Who};
use super::world::{At, CommandAt, Conn, Record, Tree, Wanted, World};
use super::{Command, Config, Variant, Violation};

/// All steps that the command in place `j` can take.
pub(super) fn steps(world: &World, config: &Config, j: usize, out: &mut Steps) {
    let Some(kind) = config.commands[j] else { return };
    let who = Who::Command(kind);
    let me = world.commands[j];
    let mut next = *world;
    let go = |mut next: World, at: CommandAt| {
        next.commands[j].at = at;
        next
    };
    match me.at {
        CommandAt::Start if kind == Command::List => {
            let at = if world.b_free(config) { CommandAt::HoldsB } else { CommandAt::Succeeded };
            out.push(who, "try B", go(next, at));
        }
        CommandAt::Start => start(world, config, kind, j, out),
        CommandAt::HoldsB => out.push(who, "release B", go(next, CommandAt::Succeeded)),
        CommandAt::Create => {
            next.wanted = Wanted::Present;
            next.commands[j].created = true;
            out.push(who, "write session.json", go(next, CommandAt::Probe));
        }
        CommandAt::Probe | CommandAt::Stop => reach(world, kind, j, out),
        CommandAt::AwaitHello => match me.conn {
            Conn::To(k) if world.bridges[k].wedged => {
                bridge::bury(world, config, k, |world| {
                    out.push(who, "C4 no hello within the limit, kill the bridge", world);
                });
            }
            Conn::To(_) => {}
            _ => out.push(who, "C3 closed before the hello's answer", go(next, CommandAt::AwaitB)),
        },
        CommandAt::AwaitB => {
            await_b(world, config, out, who, |world| world.commands[j].at = CommandAt::Sweep);
            let again = if kind == Command::Connect { CommandAt::Probe } else { CommandAt::Stop };
            if me.conn == Conn::None && !me.undoes && answers_hello(world, config) {
                out.push(who, "C4 try C1 again", go(next, again));
            }
        }
        CommandAt::Sweep => {
            if config.variant != Variant::NoSweep {
                sweep(&mut next);
            }
            out.push(who, "C5 end what the last generation left", go(next, CommandAt::Unlink));
        }
        CommandAt::Unlink => {
            unlink(&mut next);
            let removes = kind == Command::Close || me.undoes;
            let at = if removes { CommandAt::RemoveWanted } else { CommandAt::Spawn };
            out.push(who, "C5 unlink the socket", go(next, at));
        }
        CommandAt::RemoveWanted => {
            next.wanted = Wanted::Absent;
            out.push(who, "remove session.json", go(next, CommandAt::RemoveState));
        }
        CommandAt::RemoveState => {
            remove_state(&mut next, config);
            let at = if kind == Command::Close { CommandAt::Succeeded } else { CommandAt::Failed };
            out.push(who, "remove the session's directory, release L", go(next, at));
        }
        CommandAt::Edit => {
            next.wanted = Wanted::Edited;
            out.push(who, "write session.json, release L", go(next, CommandAt::Succeeded));
        }
        CommandAt::Spawn => {
            if let Some(k) = spawn(&mut next, config, me.old_lock) {
                next.commands[j].starts = k;
                out.push(who, "C6 spawn", go(next, CommandAt::Feed));
            } else if next.overflow {
                out.push(who, "C6 spawn", next);
            }
        }
        CommandAt::Feed => {
            feed(&mut next, me.starts);
            out.push(who, "C6 write the configuration", go(next, CommandAt::AwaitReady));
        }
        CommandAt::AwaitReady => await_ready(world, config, me.starts, out, who),
        CommandAt::Ready => out.push(who, "C6 ready, release L", go(next, CommandAt::Succeeded)),
        CommandAt::StartFailed | CommandAt::StartEof => {
            if world.faults == config.kills {
                next.violate(Violation::CommandFailedUnkilled);
            }
            if !me.created {
                out.push(who, "C6 the start failed, release L", go(next, CommandAt::Failed));
            } else if config.variant == Variant::ConnectUndoesAtOnce {
                out.push(who, "C6 the start failed", go(next, CommandAt::RemoveWanted));
            } else {
                next.commands[j].undoes = true;
                out.push(who, "C6 the start failed", go(next, CommandAt::AwaitB));
            }
        }
        CommandAt::Succeeded | CommandAt::Failed => {}
    }
}

/// C3: takes L and looks whether there is a session.
fn start(world: &World, config: &Config, kind: Command, j: usize, out: &mut Steps) {
    let who = Who::Command(kind);
    if config.locks_l(j) && !world.l_free(config, false) {
        if let Some(k) = world.wedged_l_holder()
            && config.variant != Variant::WedgedStarterKept
        {
            bridge::bury(world, config, k, |world| out.push(who, "C3 kill the wedged holder of L", world));
        }
        return;
    }
    let mut next = *world;
    next.commands[j].at = match (kind, world.wanted) {
        (Command::Connect, Wanted::Absent) => CommandAt::Create,
        (Command::Connect, _) => CommandAt::Probe,
        (Command::Close, Wanted::Absent) => CommandAt::Succeeded,
        (_, Wanted::Absent) => CommandAt::Failed,
        (Command::Set, _) => CommandAt::Edit,
        (_, _) => CommandAt::Stop,
    };
    let what = if next.commands[j].at.finished() { "C3 lock L, there is no session" } else { "C3 lock L" };
    out.push(who, what, next);
}

/// C1 under L: `connect` says hello, `close` and `restart` tell the bridge to end.
fn reach(world: &World, kind: Command, j: usize, out: &mut Steps) {
    let who = Who::Command(kind);
    let mut next = *world;
    if let Some(k) = world.listener() {
        next.commands[j].conn = Conn::To(k);
        if kind == Command::Connect {
            next.commands[j].at = CommandAt::AwaitHello;
            out.push(who, "C1 connect, send the hello", next);
        } else {
            next.commands[j].at = CommandAt::AwaitB;
            let leave = kind == Command::Replace;
            out.push(who, if leave { "C1 connect, send leave" } else { "C1 connect, send close" }, next);
        }
        if world.flaky {
            let mut next = *world;
            next.flaky = false;
            next.commands[j].at = CommandAt::AwaitB;
            out.push(who, "C1 connect fails for a passing reason", next);
        }
    } else {
        next.commands[j].at = CommandAt::AwaitB;
        out.push(who, "C1 nobody listens", next);
    }
}

fn remove_state(world: &mut World, config: &Config) {
    world.record = Record::Absent;
    world.named = false;
    world.ended = false;
    if world.any_bridge() || world.tree != Tree::None {
        world.violate(Violation::OutlivedClose);
    }
    if config.variant == Variant::CloseUnlinksLocks {
        for caller in &mut world.callers {
            caller.old_lock = (At::Lock..=At::StartEof).contains(&caller.at);
        }
        for bridge in &mut world.bridges {
            bridge.old_lock = bridge.has_l;
        }
    }
}
