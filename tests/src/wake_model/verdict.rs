//! What must hold: in every state, and where nothing more can happen.
//!
//! Owns the invariants that can be read off a single state. Those about a step (a second server forked, an operation
//! run twice, a failure with no kill) are noted by the step itself.

use super::world::{At, CommandAt, Phase, Record, Sock, Tree, Wanted, World};
use super::{Command, Config};

/// What must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A server was started while a process of an earlier one of the session was alive.
    SecondServer,
    /// An operation ran twice.
    RanTwice,
    /// An operation was sent again while its first sending might still run.
    SentTwice,
    /// An operation failed though nothing was killed, nor closed, nor restarted while it was with the server.
    FailedUnkilled,
    /// An operation that had not reached the server failed by a restart.
    FailedByRestart,
    /// An operation found no session though nothing closes it.
    NoSessionUnclosed,
    /// An operation ran that was reported as `ran: no`, be it before or after the report.
    FalseNo,
    /// An operation was answered that never ran.
    AnsweredUnrun,
    /// A command failed though nothing was killed, nor closed.
    CommandFailedUnkilled,
    /// A bridge or a server lives though there is no session.
    NoSessionButProcess,
    /// `close` was about to report success while a bridge or a server lived.
    OutlivedClose,
    /// There is a session again after `close`, and no `connect` made it.
    CameBack,
    /// Nothing more can happen, and a caller has not ended.
    StuckCaller,
    /// Nothing more can happen, and a command has not ended.
    StuckCommand,
    /// Nothing more can happen, and a bridge lives that should be idle.
    StuckBridge,
    /// Nothing more can happen, a server lives, and state.json does not name it: the next start will not find it.
    LeftServer,
    /// Nothing more can happen, nothing was killed, and yet `state.json` does not say `idle` or the socket is there.
    NotIdle,
    /// A sweep ended the server of a bridge that lives.
    SweptLiving,
    /// Somebody unlinked the socket of another bridge that lives.
    UnlinkedLiving,
    /// A run need not end: there is a cycle without an idle deadline in it.
    Endless,
}

impl Violation {
    /// Wrong, but not yet to anybody's harm. A search for harm passes it by.
    pub fn is_early_sign(self) -> bool {
        matches!(self, Self::SweptLiving | Self::UnlinkedLiving | Self::LeftServer)
    }
}

/// What is wrong with this state, whatever comes next.
pub(super) fn of_state(world: &World) -> Option<Violation> {
    if world.callers.iter().any(|c| c.at == At::FailedNo && c.ran) {
        return Some(Violation::FalseNo);
    }
    if world.wanted == Wanted::Absent && (world.any_bridge() || world.tree != Tree::None) {
        return Some(Violation::NoSessionButProcess);
    }
    None
}

/// What is wrong with this state, in which no process can take a step unless something is killed.
pub(super) fn of_end(world: &World, config: &Config) -> Option<Violation> {
    if !world.callers.iter().all(|c| c.at.finished()) {
        return Some(Violation::StuckCaller);
    }
    if !world.commands.iter().all(|c| c.at.finished()) {
        return Some(Violation::StuckCommand);
    }
    if world.callers.iter().any(|c| c.at == At::Done && !c.ran) {
        return Some(Violation::AnsweredUnrun);
    }
    let closed = (0..world.commands.len())
        .any(|j| config.commands[j] == Some(Command::Close) && world.commands[j].at == CommandAt::Succeeded);
    if closed && !config.runs(Command::Connect) && world.wanted != Wanted::Absent {
        return Some(Violation::CameBack);
    }
    let mut bridges = world.bridges.iter().filter(|b| b.phase != Phase::Free);
    if let Some(bridge) = bridges.next() {
        // A wedged bridge that nobody needs is nobody's to kill.
        let serves = bridge.phase == Phase::Live && !config.idles && world.record == Record::Live;
        let listens =
            bridge.phase == Phase::Drained && config.listens && world.ended && world.tree == Tree::None;
        let one = bridges.next().is_none();
        return if one && (bridge.wedged || serves || listens) { None } else { Some(Violation::StuckBridge) };
    }
    match world.tree {
        Tree::None => {}
        // Only where its bridge was killed and nothing came after that: whoever comes next finds it.
        Tree::Lingering if world.faults < config.kills && world.named && !world.ended => {}
        _ => return Some(Violation::LeftServer),
    }
    if world.faults == config.kills {
        let slept = matches!(world.record, Record::Absent | Record::Idle) && world.sock == Sock::None;
        let served = world.callers.iter().any(|c| c.at == At::Done);
        if !slept && served {
            return Some(Violation::NotIdle);
        }
    }
    None
}
