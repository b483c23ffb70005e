//! What a caller does: C1 to C6.
//!
//! Owns the steps of a caller and what it reports at the end. Never touches a bridge but through the locks, the
//! socket, the connection and the pipe that a real caller has.

use super::search::{Steps, Who};
use super::world::{At, BRIDGES, Bridge, Conn, Down, Op, Phase, Record, Sock, Tree, Up, Wanted, World};
use super::{Command, Config, Variant, Violation, bridge};

/// Why a caller reports a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The connection ended without an answer.
    Lost,
    /// The bridge said that the server was lost.
    ServerLost,
    /// The bridge that it started said that the start failed.
    StartFailed,
    /// `close` or `restart` ended it.
    ShutDown,
    /// There is no such session.
    NoSession,
}

/// All steps that caller `i` can take.
pub(super) fn steps(world: &World, config: &Config, i: usize, out: &mut Steps) {
    let who = Who::Caller(i);
    let caller = world.callers[i];
    let mut next = *world;
    let variant = config.variant;
    match caller.at {
        At::Connect | At::LockedConnect => {
            let locked = caller.at == At::LockedConnect;
            if let Some(k) = world.listener() {
                let me = &mut next.callers[i];
                me.conn = Conn::To(k);
                if variant == Variant::NoHello {
                    me.up = Up::Operation;
                    me.at = At::Wait;
                    out.push(who, "C2 connect, send the operation", next);
                } else {
                    me.at = if locked { At::LockedGreet } else { At::Greet };
                    out.push(who, "C1 connect", next);
                }
                if world.flaky {
                    let mut next = *world;
                    next.flaky = false;
                    next.callers[i].at = no_hello(variant, locked);
                    out.push(who, "C1 connect fails for a passing reason", next);
                }
            } else {
                next.callers[i].at = no_hello(variant, locked);
                out.push(who, "C1 nobody listens", next);
            }
        }
        At::Greet | At::LockedGreet => {
            let locked = caller.at == At::LockedGreet;
            let me = &mut next.callers[i];
            if caller.conn == Conn::Lost {
                me.conn = Conn::None;
                me.at = no_hello(variant, locked);
                out.push(who, "C1 closed before the hello was sent", next);
            } else if locked {
                me.up = Up::Hello;
                me.at = At::LockedHello;
                out.push(who, "C1 send the hello", next);
            } else {
                me.up = Up::Both;
                me.at = At::Hello;
                out.push(who, "C1 send the hello and the operation", next);
            }
        }
        At::Hello => match caller.conn {
            // At any time: a bridge that is slow, or one that does nothing more.
            Conn::To(_) => {
                if variant == Variant::NotTakenBack {
                    // It says that nothing ran, and leaves what it sent where it is.
                    next.callers[i].at = At::FailedNo;
                    out.push(who, "C1 no answer to the hello, ran: no", next);
                } else {
                    to_lock(&mut next, i);
                    out.push(who, "C1 no answer to the hello, take the operation back", next);
                }
            }
            _ => {
                let me = &mut next.callers[i];
                me.conn = Conn::None;
                me.down = Down::Nothing;
                me.at = At::Lock;
                out.push(who, "C1 closed before the hello's answer", next);
            }
        },
        At::LockedHello => {
            let me = &mut next.callers[i];
            match (caller.down, caller.conn) {
                (Down::Hello | Down::HelloGoaway, _) => {
                    me.down = if caller.down == Down::Hello { Down::Nothing } else { Down::Goaway0 };
                    me.at = At::Release;
                    out.push(who, "C1 hello answered", next);
                }
                (_, Conn::To(k)) => {
                    if world.bridges[k].wedged {
                        bridge::bury(&next, config, k, |world| {
                            out.push(who, "C4 no hello within the limit, kill the bridge", world);
                        });
                    }
                }
                (_, _) => {
                    me.conn = Conn::None;
                    me.down = Down::Nothing;
                    me.at = no_hello(variant, true);
                    out.push(who, "C1 closed before the hello's answer", next);
                }
            }
        }
        At::Release => {
            next.callers[i].at = At::Send;
            out.push(who, "C3 release L", next);
        }
        At::Send => match (caller.conn, caller.down) {
            (Conn::To(_), _) => {
                next.callers[i].up = Up::Operation;
                next.callers[i].at = At::Wait;
                out.push(who, "C2 send the operation", next);
            }
            (_, Down::Goaway0) => {
                to_lock(&mut next, i);
                out.push(who, "C2 write error, then GOAWAY(0) read", next);
            }
            (_, _) if variant == Variant::RetryOnEof => {
                to_lock(&mut next, i);
                out.push(who, "C2 write error, try again", next);
            }
            (_, _) => {
                report(&mut next, config, i, At::FailedUnknown, Cause::Lost);
                out.push(who, "C2 write error, nothing to read", next);
            }
        },
        At::Wait => wait(world, config, i, out),
        At::Lock => {
            if world.l_free(config, caller.old_lock) {
                if world.wanted == Wanted::Absent && variant != Variant::SessionNotReread {
                    report(&mut next, config, i, At::FailedNo, Cause::NoSession);
                    out.push(who, "C3 lock L, the session is gone", next);
                } else {
                    next.callers[i].at = At::LockedConnect;
                    out.push(who, "C3 lock L", next);
                }
            } else if let Some(k) = world.wedged_l_holder()
                && variant != Variant::WedgedStarterKept
            {
                bridge::bury(&next, config, k, |world| {
                    out.push(who, "C3 kill the wedged holder of L", world)
                });
            }
        }
        At::AwaitB => {
            await_b(world, config, out, who, |world| {
                world.callers[i].at = if variant == Variant::NoSweep { At::Unlink } else { At::Sweep };
            });
            if answers_hello(world, config) {
                next.callers[i].at = At::LockedConnect;
                out.push(who, "C4 try C1 again", next);
            }
        }
        At::Sweep => {
            sweep(&mut next);
            next.callers[i].at = At::Unlink;
            out.push(who, "C5 end what the last generation left", next);
        }
        At::Unlink => {
            unlink(&mut next);
            next.callers[i].at = At::Spawn;
            out.push(who, "C5 unlink the socket", next);
        }
        At::Spawn => {
            if let Some(k) = spawn(&mut next, config, caller.old_lock) {
                next.callers[i].starts = k;
                next.callers[i].at = At::Feed;
                out.push(who, "C6 spawn", next);
            } else if next.overflow {
                out.push(who, "C6 spawn", next);
            }
        }
        At::Feed => {
            feed(&mut next, caller.starts);
            next.callers[i].at = At::AwaitReady;
            out.push(who, "C6 write the configuration", next);
        }
        At::AwaitReady => await_ready(world, config, caller.starts, out, who),
        At::Ready | At::StartEof => {
            next.callers[i].starts = 0;
            next.callers[i].at = At::Connect;
            let what = if caller.at == At::Ready { "C6 ready, release L" } else { "C6 EOF, release L" };
            out.push(who, what, next);
        }
        At::StartFailed => {
            report(&mut next, config, i, At::FailedNo, Cause::StartFailed);
            out.push(who, "C6 the start failed", next);
        }
        At::Done | At::FailedNo | At::FailedUnknown => {}
    }
}

/// C2 after the operation was sent.
fn wait(world: &World, config: &Config, i: usize, out: &mut Steps) {
    let who = Who::Caller(i);
    let caller = world.callers[i];
    let mut next = *world;
    match (caller.down, caller.conn) {
        (Down::Answer, _) => {
            next.callers[i].at = At::Done;
            hang_up(&mut next, i);
            out.push(who, "C2 answered", next);
        }
        (Down::LostNo, _) => {
            report(&mut next, config, i, At::FailedNo, Cause::ServerLost);
            out.push(who, "C2 server lost, ran: no", next);
        }
        (Down::LostUnknown, _) => {
            report(&mut next, config, i, At::FailedUnknown, Cause::ServerLost);
            out.push(who, "C2 server lost, ran: unknown", next);
        }
        (Down::ShutNo, _) if config.variant != Variant::ShutDownReported => {
            to_lock(&mut next, i);
            out.push(who, "C2 shut down, ran: no", next);
        }
        (Down::ShutNo, _) => {
            report(&mut next, config, i, At::FailedNo, Cause::ShutDown);
            out.push(who, "C2 shut down, ran: no, reported", next);
        }
        (Down::ShutUnknown, _) => {
            report(&mut next, config, i, At::FailedUnknown, Cause::ShutDown);
            out.push(who, "C2 shut down, ran: unknown", next);
        }
        (Down::Goaway0, _) => {
            to_lock(&mut next, i);
            out.push(who, "C2 GOAWAY(0)", next);
        }
        (_, Conn::To(k)) => {
            if world.bridges[k].wedged {
                report(&mut next, config, i, At::FailedUnknown, Cause::Lost);
                out.push(who, "C2 deadline", next);
            }
        }
        (_, _) if config.variant == Variant::RetryOnEof => {
            to_lock(&mut next, i);
            out.push(who, "C2 EOF, try again", next);
        }
        (_, _) => {
            report(&mut next, config, i, At::FailedUnknown, Cause::Lost);
            out.push(who, "C2 EOF without an answer", next);
        }
    }
}

/// Ends caller `i` with a failure, and checks that this failure may be reported.
pub(super) fn report(world: &mut World, config: &Config, i: usize, how: At, cause: Cause) {
    match cause {
        Cause::Lost | Cause::ServerLost | Cause::StartFailed if world.faults == config.kills => {
            world.violate(Violation::FailedUnkilled);
        }
        Cause::NoSession if !config.runs(Command::Close) && !config.runs(Command::Connect) => {
            world.violate(Violation::NoSessionUnclosed);
        }
        Cause::ShutDown if !config.runs(Command::Close) && !config.runs(Command::Restart) => {
            world.violate(Violation::FailedUnkilled);
        }
        Cause::ShutDown if how == At::FailedNo && !config.runs(Command::Close) => {
            world.violate(Violation::FailedByRestart);
        }
        _ => {}
    }
    world.callers[i].at = how;
    hang_up(world, i);
}

/// Caller `i` closes its connection. What it sent stays readable to the bridge, save an operation behind a hello that is
/// not answered: a bridge that cannot say its answer reads no further.
pub(super) fn hang_up(world: &mut World, i: usize) {
    let me = &mut world.callers[i];
    me.down = Down::Nothing;
    if me.up == Up::Both {
        me.up = Up::Nothing;
    }
    if !matches!(me.conn, Conn::To(_)) || (me.up != Up::Operation && me.op == Op::Away) {
        me.conn = Conn::None;
        me.up = Up::Nothing;
    }
}

/// To C3: the operation never ran.
fn to_lock(world: &mut World, i: usize) {
    let me = &mut world.callers[i];
    me.conn = Conn::None;
    me.up = Up::Nothing;
    me.down = Down::Nothing;
    me.at = At::Lock;
}

/// Where a caller goes when there was no answer to its hello.
fn no_hello(variant: Variant, locked: bool) -> At {
    match (locked, variant) {
        (false, _) => At::Lock,
        (true, Variant::NoAwaitB) => At::Sweep,
        (true, _) => At::AwaitB,
    }
}

/// C4, for callers and commands: `passed` moves on.
pub(super) fn await_b(
    world: &World,
    config: &Config,
    out: &mut Steps,
    who: Who,
    passed: impl FnOnce(&mut World),
) {
    if world.b_free(config) || config.variant == Variant::NoAwaitB {
        let mut next = *world;
        passed(&mut next);
        out.push(who, "C4 B is free", next);
    } else if let Some(k) = world.wedged_b_holder() {
        bridge::bury(world, config, k, |world| out.push(who, "C4 kill the wedged holder of B", world));
    }
}

/// C4: whether a caller that waits for B would get a hello if it tried again. It tries from time to time; tries that
/// fail change nothing and are left out.
pub(super) fn answers_hello(world: &World, config: &Config) -> bool {
    match config.variant {
        Variant::NoHelloWhileAwaitingB => false,
        Variant::SpinOnB => true,
        _ => world.listener().is_some_and(|k| world.bridges[k].phase.accepts() && !world.bridges[k].wedged),
    }
}

/// C5, first half: ends the processes of the generation that state.json names, and waits until they are gone.
pub(super) fn sweep(world: &mut World) {
    if world.record == Record::Absent || world.ended || !world.named {
        return;
    }
    if world.tree_owner().is_some() {
        world.violate(Violation::SweptLiving);
    }
    world.tree = Tree::None;
}

/// C5, second half.
pub(super) fn unlink(world: &mut World) {
    if world.listener().is_some_and(|k| world.bridges[k].phase.lives()) {
        world.violate(Violation::UnlinkedLiving);
    }
    world.sock = Sock::None;
}

/// C6: a new bridge process that shares the starter's open file description of L. `None` while the kernel has yet to
/// clear away those before it, for which the model has no more room.
pub(super) fn spawn(world: &mut World, config: &Config, old_lock: bool) -> Option<usize> {
    let Some(k) = (0..BRIDGES).find(|&k| world.bridges[k].phase == Phase::Free) else {
        world.overflow = world.bridges.iter().all(|b| b.phase.lives());
        return None;
    };
    let has_l = config.variant != Variant::LockNotHandedOver;
    world.bridges[k] = Bridge { phase: Phase::Unfed, has_l, old_lock: old_lock && has_l, ..Bridge::FREE };
    Some(k)
}

/// C6: bridge `k` gets its configuration, unless it is gone; then nobody reads it.
pub(super) fn feed(world: &mut World, k: usize) {
    if world.bridges[k].phase == Phase::Unfed {
        world.bridges[k].phase = Phase::Fed;
    }
}

/// C6 while neither ready nor EOF has come: a wedged bridge is killed by who started it. It is its own child, so there
/// is no doubt who it is.
pub(super) fn await_ready(world: &World, config: &Config, k: usize, out: &mut Steps, who: Who) {
    if world.bridges[k].wedged && config.variant != Variant::WedgedStarterKept {
        bridge::bury(world, config, k, |world| out.push(who, "C6 kill the wedged bridge", world));
    }
}
