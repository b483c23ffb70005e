//! A model of how callers and bridges meet, and a checker that visits every state it can be in.
//!
//! Owns the model of the wake protocol (`docs/wake-protocol.md` tells it in words) and the search over it. It never
//! runs drowse's own code, starts no process and touches no file: it proves that the *protocol* is sound, whatever
//! the order of steps and whoever is killed between two of them. That the code follows the protocol is for the
//! end-to-end tests.
//!
//! # What a state is
//!
//! Up to four callers with one operation each, up to two commands (`close`, `restart`, `replace`, `set`, `connect`,
//! `list`), the bridge processes, the server's process tree, both locks, the socket file, every connection with what
//! lies unread in it either way, the ready pipe, `session.json`, `state.json`, and how many kills are still to be
//! spent. `world` has the data, `pack` its 128 bits.
//!
//! # How steps map to the protocol
//!
//! | step | in the model | where |
//! | --- | --- | --- |
//! | C1 | `Connect` → `Greet` → `Hello` → `Wait`; a failure before the answer → `Lock` | `caller` |
//! | C2 | (under L: `Send` →) `Wait` → `Done`, `FailedNo`, `FailedUnknown`, or `Lock` where nothing ran | `caller` |
//! | C3 | `Lock` → `LockedConnect` → `LockedGreet` → `LockedHello` → `Release` → `Send`; or `AwaitB` | `caller` |
//! | C4 | `AwaitB` → `Sweep`; or back to `LockedConnect` when a hello would be answered | `caller` |
//! | C5 | `Sweep` → `Unlink` → `Spawn` | `caller` |
//! | C6 | `Spawn` → `Feed` → `AwaitReady` → `Ready` or `StartEof` → `Connect`; or `StartFailed` | `caller` |
//! | B1, B2 | `Unfed` → `Fed` → `Locked` → `Bound` → `Listening` | `bridge` |
//! | B3, B4 | `Listening` → `Persisted` → `Negotiating` → `Negotiated` | `bridge` |
//! | B5 | `Negotiated` → `SaidReady` → `Live` | `bridge` |
//! | D1 | `Live` → `Draining` → `Drained`; at any moment at which nothing is in flight | `bridge` |
//! | D2 | `Drained` → `Listening` | `bridge` |
//! | D3 | `Drained` → `Unlinking` → `CloseListener` → `GoingAway` → `Exiting` | `bridge` |
//! | a listener's D3 | stays `Drained`, from where D2 leads on | `bridge` |
//! | lost server | → `Crashed` → `CrashedStop` → `Unlinking` | `bridge` |
//! | end asked for | → `Closing` → `Unlinking`; `replace` by way of `Leaving` | `bridge` |
//! | commands | take L, then C4 to C6 as they need | `command` |
//! | kill -9 | of any caller, command, bridge or server, between any two steps | `fault` |
//! | what the kernel does then | `Exiting` → `Exited` → `Free`: locks, sockets and pipe go in any order | `bridge` |
//!
//! A step is what one process does between two moments at which another could see the difference. Reading a message
//! and the reaction to it in memory are one step; two writes to two files are two.
//!
//! A killed caller stands for an interrupted one and for one whose deadline passed, too: it stops at the same points,
//! and what it would then say about its operation (`ran: no` until it was sent, `unknown` after) is checked as if said.
//!
//! # What is checked
//!
//! See [`Violation`] for what must hold in each state and at each end. Beyond that the search proves that every run
//! ends: without the idle deadline the graph of states has no cycle, so a run without end would need deadlines that
//! fire without end between a start and the first operation.

mod bridge;
mod caller;
mod command;
mod fault;
mod pack;
mod search;
mod verdict;
mod world;

pub use search::{Report, check};
pub use verdict::Violation;

use world::{
    BRIDGES, Bridge, CALLERS, COMMANDS, Caller, CommandAt, Phase, Record, Sock, Tree, Wanted, World,
};

/// A command that runs beside the callers. All of them take L first, except `List`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Ends bridge and tree, then removes the session.
    Close,
    /// Ends bridge and tree, then starts the next, all under L.
    Restart,
    /// Like `Restart`, but asks the bridge to leave when nothing is in flight: what a caller does about a bridge of
    /// an older version.
    Replace,
    /// Edits session.json.
    Set,
    /// Writes session.json where there is none, then starts a bridge unless one answers. A first one that fails
    /// leaves no session.
    Connect,
    /// A listing that asks whether a bridge lives by trying to lock B, without L.
    List,
}

/// The protocol, or one way of getting it wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The protocol.
    Protocol,
    /// Not broken, only different: the starter closes its copy of L as soon as the bridge has its configuration, and
    /// waits for ready without it.
    EarlyRelease,

    /// C1 sends the operation without a hello first.
    NoHello,
    /// C1: a caller that gives up on the hello's answer does not take back what it sent along.
    NotTakenBack,
    /// C2 sends the operation again when the connection ends without an answer.
    RetryOnEof,
    /// C3 does not look again, under L, whether the session still exists.
    SessionNotReread,
    /// C4 is skipped.
    NoAwaitB,
    /// C4 waits for B alone and never tries the hello again.
    NoHelloWhileAwaitingB,
    /// C4 tries the hello again and again without waiting for anything.
    SpinOnB,
    /// C4's rule for wedged bridges is not applied to a bridge that holds L.
    WedgedStarterKept,
    /// C5 ends nothing.
    NoSweep,
    /// C6 spawns the bridge without L.
    LockNotHandedOver,
    /// C6: a starter that gives up unlocks L, which unlocks it for the bridge as well, instead of closing its copy.
    UnlockInsteadOfClose,
    /// B1 tries B once instead of waiting for it.
    BridgeTriesB,
    /// B3 and B4 in the wrong order: the fork, then the generation.
    ForkBeforeState,
    /// The server's processes inherit B.
    ServerInheritsB,
    /// D1 forgets the generation when it writes `idle`.
    IdleForgetsGeneration,
    /// D1 says that the tree is gone before it is.
    EndedTooEarly,
    /// D2 is missing: what came while draining is dropped.
    DrainDrops,
    /// D3 closes connections without GOAWAY.
    NoGoaway,
    /// `close` does not take L.
    CloseWithoutLock,
    /// `close` unlinks the lock files with the rest.
    CloseUnlinksLocks,
    /// `set` does not take L.
    SetWithoutLock,
    /// A first `connect` that failed removes the session at once, without C4 and C5.
    ConnectUndoesAtOnce,
    /// `replace` ends the bridge at once, whatever is in flight.
    ReplaceAtOnce,
    /// A typed failure `ran: no` by `close` or `restart` is reported instead of going to C3.
    ShutDownReported,
}

/// What runs.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Callers, at most four.
    pub callers: usize,
    /// Commands beside them.
    pub commands: [Option<Command>; COMMANDS],
    /// Kills that may happen, at any step of any process. At most three.
    pub kills: u8,
    /// Instead of being killed, a bridge may also wedge: live and do nothing. Counts as a kill.
    pub wedges: bool,
    /// What a killed leader or bridge leaves behind may live on until somebody sweeps it.
    pub incomplete_reaping: bool,
    /// The idle deadline may fire; otherwise the session has none.
    pub idles: bool,
    /// The bridge is the listener of a port, too: once its server was ready, it outlives its sleep and its crashes.
    pub listens: bool,
    /// One connect may fail for no fault of the bridge's (a full backlog, a caller out of descriptors).
    pub flaky: bool,
    /// Early signs of a violation do not stop the search; see [`Violation::is_early_sign`].
    pub harm_only: bool,
    /// The protocol, or what is broken in it.
    pub variant: Variant,
}

impl Config {
    /// So many callers and kills, no commands, incomplete reaping, the protocol as it should be.
    pub const fn new(callers: usize, kills: u8) -> Self {
        Self {
            callers,
            commands: [None; COMMANDS],
            kills,
            wedges: false,
            incomplete_reaping: true,
            idles: true,
            listens: false,
            flaky: false,
            harm_only: false,
            variant: Variant::Protocol,
        }
    }

    /// With this command beside.
    #[must_use]
    pub const fn beside(mut self, command: Command) -> Self {
        if self.commands[0].is_none() {
            self.commands[0] = Some(command);
        } else {
            self.commands[1] = Some(command);
        }
        self
    }

    /// With the protocol changed.
    #[must_use]
    pub const fn with(mut self, variant: Variant) -> Self {
        self.variant = variant;
        self
    }

    fn runs(&self, command: Command) -> bool {
        self.commands.contains(&Some(command))
    }

    /// Whether the command in this place takes L at all.
    fn locks_l(&self, place: usize) -> bool {
        !matches!(
            (self.commands[place], self.variant),
            (Some(Command::Close), Variant::CloseWithoutLock) | (Some(Command::Set), Variant::SetWithoutLock)
        )
    }

    /// Where the search starts: a session that was never started, one that is awake, one whose bridge was killed some
    /// time ago and left its server, and, where something can create it, none.
    fn roots(&self) -> Vec<World> {
        let mut asleep = World {
            callers: [Caller::new(); CALLERS],
            bridges: [Bridge::FREE; BRIDGES],
            commands: [world::Command::new(CommandAt::Start); COMMANDS],
            tree: Tree::None,
            sock: Sock::None,
            wanted: Wanted::Present,
            record: Record::Absent,
            named: false,
            ended: false,
            faults: self.kills,
            flaky: self.flaky,
            violation: None,
            overflow: false,
        };
        for caller in asleep.callers.iter_mut().skip(self.callers) {
            caller.at = world::At::Done;
            caller.ran = true;
        }
        for (command, kind) in asleep.commands.iter_mut().zip(self.commands) {
            if kind.is_none() {
                command.at = CommandAt::Succeeded;
            }
        }
        let mut roots = vec![asleep];
        let mut awake = asleep;
        awake.bridges[0].phase = Phase::Live;
        awake.bridges[0].has_b = true;
        awake.tree = Tree::Whole(0);
        awake.sock = Sock::Of(0);
        awake.record = Record::Live;
        awake.named = true;
        roots.push(awake);
        if self.incomplete_reaping {
            let mut left = asleep;
            left.tree = Tree::Lingering;
            left.sock = Sock::Stale;
            left.record = Record::Live;
            left.named = true;
            roots.push(left);
        }
        if self.runs(Command::Connect) {
            roots.push(World { wanted: Wanted::Absent, ..asleep });
        }
        roots
    }
}
