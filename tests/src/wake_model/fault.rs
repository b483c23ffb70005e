//! What may go wrong: `kill -9` of any process between any two of its steps, and a bridge that wedges.
//!
//! Owns the faults and what the kernel does for a process that is gone. Never spends more than the budget.

use super::bridge::bury;
use super::caller::hang_up;
use super::search::{Steps, Who};
use super::world::{At, BRIDGES, CALLERS, COMMANDS, CommandAt, Tree, World};
use super::{Config, Variant};

/// All faults that can happen now.
pub(super) fn steps(world: &World, config: &Config, out: &mut Steps) {
    if world.faults == 0 {
        return;
    }
    let mut base = *world;
    base.faults -= 1;
    for i in 0..CALLERS {
        if !world.callers[i].at.finished() {
            let mut next = base;
            kill_caller(&mut next, config, i);
            out.push_fault(Who::Caller(i), "killed", next);
        }
    }
    for j in 0..COMMANDS {
        if let Some(kind) = config.commands[j]
            && !world.commands[j].at.finished()
        {
            let mut next = base;
            next.commands[j].at = CommandAt::Failed;
            out.push_fault(Who::Command(kind), "killed", next);
        }
    }
    for k in 0..BRIDGES {
        if !world.bridges[k].phase.lives() {
            continue;
        }
        bury(&base, config, k, |next| out.push_fault(Who::Bridge(k), "killed", next));
        if config.wedges && !world.bridges[k].wedged {
            let mut next = base;
            next.bridges[k].wedged = true;
            out.push_fault(Who::Bridge(k), "wedged", next);
        }
    }
    if let Tree::Whole(k) = world.tree {
        let mut next = base;
        next.tree = Tree::None;
        out.push_fault(Who::Server, "killed", next);
        if config.incomplete_reaping {
            next.tree = Tree::Stump(k);
            out.push_fault(Who::Server, "its leader killed, a descendant lives", next);
        }
    }
}

/// The end of a caller that is killed, interrupted, or out of time.
fn kill_caller(world: &mut World, config: &Config, i: usize) {
    let caller = world.callers[i];
    let starting = matches!(caller.at, At::Feed | At::AwaitReady);
    if starting && config.variant == Variant::UnlockInsteadOfClose {
        world.bridges[caller.starts].has_l = false;
    }
    world.callers[i].at = if caller.at == At::Wait { At::FailedUnknown } else { At::FailedNo };
    hang_up(world, i);
}
