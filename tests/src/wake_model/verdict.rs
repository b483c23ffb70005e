//! What must hold: in every state, and where nothing more can happen.
//!
//! Owns the invariants that can be read off a single state. Those about a step (a second server forked, an operation
//! run twice, a failure with no kill) are noted by the step itself.

use super::world::{At, CommandAt, Phase, Record, Sock, Tree, Wanted, World};
use super::{Command, Config};

/// What is wrong with this state, whatever comes next.
pub(super) fn of_state(world: &World) -> Option<&'static str> {
    if world.callers.iter().any(|c| c.at == At::FailedNo && c.ran) {
        return Some("an operation ran that was reported as `ran: no`");
    }
    if world.wanted == Wanted::Absent && (world.any_bridge() || world.tree != Tree::None) {
        return Some("a bridge or a server without a session");
    }
    None
}

/// What is wrong with this state, in which no process can take a step unless something is killed.
pub(super) fn of_end(world: &World, config: &Config) -> Option<&'static str> {
    if !world.callers.iter().all(|c| c.at.finished()) {
        return Some("a caller is stuck");
    }
    if !world.commands.iter().all(|c| c.at.finished()) {
        return Some("a command is stuck");
    }
    if world.callers.iter().any(|c| c.at == At::Done && !c.ran) {
        return Some("an operation was answered that never ran");
    }
    let closed = (0..world.commands.len())
        .any(|j| config.commands[j] == Some(Command::Close) && world.commands[j].at == CommandAt::Succeeded);
    if closed && !config.runs(Command::Connect) && world.wanted != Wanted::Absent {
        return Some("a closed session came back");
    }
    let mut bridges = world.bridges.iter().filter(|b| b.phase != Phase::Free);
    if let Some(bridge) = bridges.next() {
        // A wedged bridge that nobody needs is nobody's to kill.
        let serves = bridge.phase == Phase::Live && !config.idles && world.record == Record::Live;
        let one = bridges.next().is_none();
        return if one && (bridge.wedged || serves) { None } else { Some("a bridge is stuck") };
    }
    match world.tree {
        Tree::None => {}
        // Only where its bridge was killed and nothing came after that: whoever comes next finds it.
        Tree::Lingering if world.faults < config.kills && world.named && !world.ended => {}
        _ => return Some("a server is left that no next start will find"),
    }
    if world.faults == config.kills {
        let slept = matches!(world.record, Record::Absent | Record::Idle) && world.sock == Sock::None;
        let served = world.callers.iter().any(|c| c.at == At::Done);
        if !slept && served {
            return Some("the session is not idle though nothing was killed");
        }
    }
    None
}
