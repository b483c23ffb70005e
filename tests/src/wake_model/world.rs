//! One state of the model: what every process, lock, file and connection is in.
//!
//! Owns the data and the questions one can ask of it (is L free, does the bridge listen). Never decides what happens
//! next: that is in `caller`, `bridge`, `command` and `fault`.

use std::fmt;

use super::{Config, Variant, Violation};

/// Callers a state has room for.
pub(super) const CALLERS: usize = 4;
/// Bridge processes that may exist at once. The protocol never needs the second; broken variants do.
pub(super) const BRIDGES: usize = 2;
/// Commands (`close`, `restart`, …) a state has room for.
pub(super) const COMMANDS: usize = 2;

/// Declares an enum whose variants are numbered in order, with a decoder from that number.
macro_rules! coded {
    ($(#[$meta:meta])* enum $name:ident { $($(#[$doc:meta])* $variant:ident),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum $name { $($(#[$doc])* $variant),* }

        impl $name {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub(super) fn decode(code: u32) -> Self {
                Self::ALL[code as usize]
            }
        }
    };
}

coded! {
    /// Where a caller is. Named by the step that comes next.
    enum At {
        /// C1: about to connect.
        Connect,
        /// C1: connected, about to send the hello and the operation.
        Greet,
        /// C1: both sent, the hello's answer awaited. It is read as soon as it is there: before a caller does anything
        /// else it looks.
        Hello,
        /// C2: greeted under L, about to send the operation.
        Send,
        /// C2: sent; its answer awaited.
        Wait,
        /// C3: waiting for L.
        Lock,
        /// C3: holds L, about to repeat C1.
        LockedConnect,
        /// C3: holds L, connected, about to send the hello.
        LockedGreet,
        /// C3: holds L, hello sent.
        LockedHello,
        /// C3: the hello is answered, about to release L.
        Release,
        /// C4: holds L, waiting until B is free.
        AwaitB,
        /// C5: about to end what the last generation left.
        Sweep,
        /// C5: about to unlink the socket.
        Unlink,
        /// C6: about to spawn.
        Spawn,
        /// C6: the bridge is spawned, its configuration not yet written.
        Feed,
        /// C6: waiting on the ready pipe.
        AwaitReady,
        /// C6: `ready` is in the pipe.
        Ready,
        /// C6: `failed` is in the pipe.
        StartFailed,
        /// C6: the pipe is at its end, with neither.
        StartEof,
        /// The operation was answered.
        Done,
        /// Failed, reported as `ran: no`.
        FailedNo,
        /// Failed, reported as `ran: unknown`.
        FailedUnknown,
    }
}

coded! {
    /// What lies unread in a connection on its way to the bridge.
    enum Up {
        Nothing,
        Hello,
        Operation,
        /// The hello, and the operation behind it.
        Both,
    }
}

coded! {
    /// What lies unread in a connection on its way to the caller.
    enum Down {
        Nothing,
        Hello,
        /// The hello's answer, then GOAWAY(0).
        HelloGoaway,
        /// GOAWAY(0): the operation was never read.
        Goaway0,
        /// GOAWAY(1): the operation was read.
        Goaway1,
        Answer,
        /// A typed failure after a lost server, `ran: no`.
        LostNo,
        /// A typed failure after a lost server, `ran: unknown`.
        LostUnknown,
        /// A typed failure by `close` or `restart`, `ran: no`.
        ShutNo,
        /// A typed failure by `close` or `restart`, `ran: unknown`.
        ShutUnknown,
    }
}

coded! {
    /// Where an operation is once a bridge has read it.
    enum Op {
        /// With no bridge.
        Away,
        /// Read by the bridge, not yet given to the server.
        Held,
        /// In the server's input.
        AtServer,
        /// Ran; its answer is on its way to the bridge.
        Answered,
    }
}

coded! {
    /// Where a bridge process is.
    enum Phase {
        /// There is no process in this slot.
        Free,
        /// Spawned, its configuration not yet read.
        Unfed,
        /// B1: about to lock B.
        Fed,
        /// B2: holds B, about to bind.
        Locked,
        /// B2: bound, about to listen. A connect is refused until then.
        Bound,
        /// B3: listens, about to write the next generation.
        Listening,
        /// B4: written, about to fork.
        Persisted,
        /// B4: forked, negotiating.
        Negotiating,
        /// B5: `live` is written, about to say ready.
        Negotiated,
        /// B5: has said ready, about to close L.
        SaidReady,
        /// Serving.
        Live,
        /// D1: `idle` is written, the tree is being stopped.
        Draining,
        /// D1: the tree is gone; about to choose between D2 and D3.
        Drained,
        /// `crashed` is written; failing what was in flight.
        Crashed,
        /// About to end what is left of a crashed tree.
        CrashedStop,
        /// `close` was read; failing what was in flight, then stopping the tree.
        Closing,
        /// Asked to leave when nothing is in flight: reads nothing more, finishes what is.
        Leaving,
        /// D3: about to unlink the socket.
        Unlinking,
        /// D3: about to close the listener.
        CloseListener,
        /// D3: saying GOAWAY on every connection, then about to exit.
        GoingAway,
        /// Takes no more steps. The kernel closes its descriptors, in any order; its sockets are still open.
        Exiting,
        /// Its sockets are closed, not yet every lock and pipe.
        Exited,
    }
}

coded! {
    /// The public state in `state.json`.
    enum Record { Absent, Connecting, Live, Idle, Crashed }
}

coded! {
    /// `session.json`.
    enum Wanted { Absent, Present, Edited }
}

coded! {
    /// Where a command is.
    enum CommandAt {
        /// Waiting for L (`list`: about to try B).
        Start,
        /// `connect`: about to write session.json.
        Create,
        /// `connect`: about to try the hello under L.
        Probe,
        /// `connect`: hello sent.
        AwaitHello,
        /// `close`, `restart`, `replace`: about to tell a listening bridge to end.
        Stop,
        AwaitB,
        Sweep,
        Unlink,
        /// `close`, or a first `connect` that failed: about to remove session.json.
        RemoveWanted,
        /// About to remove what is left of the session's directory.
        RemoveState,
        /// `set`: has read session.json, about to write it.
        Edit,
        Spawn,
        Feed,
        AwaitReady,
        Ready,
        StartFailed,
        StartEof,
        /// `list`: holds B for a moment, having tried it.
        HoldsB,
        Succeeded,
        Failed,
    }
}

/// A connection as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conn {
    None,
    /// The bridge has gone or closed it; what it sent stays readable.
    Lost,
    To(usize),
}

/// What `sock` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sock {
    None,
    /// Bound by a bridge that is gone.
    Stale,
    Of(usize),
}

/// The server's process tree. There is one; a second one is a violation, so the model has no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    None,
    /// Running, child of this bridge.
    Whole(usize),
    /// Its leader is dead, a descendant lives and may even still read the input.
    Stump(usize),
    /// Its bridge is gone; the parent-death signal is on its way.
    Dying,
    /// Its bridge is gone and nothing but a sweep will end it.
    Lingering,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) at: At,
    pub(super) conn: Conn,
    pub(super) up: Up,
    pub(super) down: Down,
    pub(super) op: Op,
    /// How often the operation ran; the second time is a violation.
    pub(super) ran: bool,
    /// The bridge that this caller started, while in `Feed` or `AwaitReady`.
    pub(super) starts: usize,
    /// Its descriptor of L is of a file that has been unlinked since (a broken variant only).
    pub(super) old_lock: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bridge {
    pub(super) phase: Phase,
    /// It has a copy of the starter's open file description of L.
    pub(super) has_l: bool,
    pub(super) has_b: bool,
    pub(super) old_lock: bool,
    /// It takes no more steps, and lives.
    pub(super) wedged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) at: CommandAt,
    pub(super) conn: Conn,
    pub(super) starts: usize,
    /// `connect`: wrote the session itself.
    pub(super) created: bool,
    /// `connect`: the start failed, the session is being removed again.
    pub(super) undoes: bool,
    pub(super) old_lock: bool,
}

/// One state of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct World {
    pub(super) callers: [Caller; CALLERS],
    pub(super) bridges: [Bridge; BRIDGES],
    pub(super) commands: [Command; COMMANDS],
    pub(super) tree: Tree,
    pub(super) sock: Sock,
    pub(super) wanted: Wanted,
    pub(super) record: Record,
    /// The generation in state.json is the tree's.
    pub(super) named: bool,
    /// state.json says that the tree of its generation is known to be gone.
    pub(super) ended: bool,
    /// Kills and wedges still to be spent.
    pub(super) faults: u8,
    /// A connect may still fail once for no fault of the bridge's.
    pub(super) flaky: bool,
    /// Not part of the state: what the step that led here broke.
    pub(super) violation: Option<Violation>,
    /// Not part of the state: the step needed more bridges than the model has room for.
    pub(super) overflow: bool,
}

impl At {
    pub(super) fn finished(self) -> bool {
        self >= Self::Done
    }

    fn holds_l(self, variant: Variant) -> bool {
        let last = if variant == Variant::EarlyRelease { Self::Feed } else { Self::StartEof };
        (Self::LockedConnect..=last).contains(&self)
    }
}

impl CommandAt {
    pub(super) fn finished(self) -> bool {
        self >= Self::Succeeded
    }

    fn holds_l(self) -> bool {
        (Self::Create..=Self::StartEof).contains(&self)
    }
}

impl Phase {
    /// The process can still act.
    pub(super) fn lives(self) -> bool {
        (Self::Unfed..=Self::GoingAway).contains(&self)
    }

    /// Connects succeed, if only to be closed again by a kernel that is not done yet with the descriptors.
    pub(super) fn listens(self) -> bool {
        (Self::Listening..=Self::CloseListener).contains(&self) || self == Self::Exiting
    }

    /// Hellos are answered and operations read.
    pub(super) fn accepts(self) -> bool {
        (Self::Listening..=Self::Drained).contains(&self)
    }
}

impl Caller {
    pub(super) const fn new() -> Self {
        Self {
            at: At::Connect,
            conn: Conn::None,
            up: Up::Nothing,
            down: Down::Nothing,
            op: Op::Away,
            ran: false,
            starts: 0,
            old_lock: false,
        }
    }

    /// The operation is with a bridge that still owes its answer.
    pub(super) fn in_flight(&self, bridge: usize) -> bool {
        self.conn == Conn::To(bridge) && self.op != Op::Away
    }
}

impl Bridge {
    pub(super) const FREE: Self =
        Self { phase: Phase::Free, has_l: false, has_b: false, old_lock: false, wedged: false };
}

impl Command {
    pub(super) const fn new(at: CommandAt) -> Self {
        Self { at, conn: Conn::None, starts: 0, created: false, undoes: false, old_lock: false }
    }
}

impl World {
    /// Whether L can be locked. `old`: through a descriptor of a file that was unlinked since it was opened.
    pub(super) fn l_free(&self, config: &Config, old: bool) -> bool {
        !self.callers.iter().any(|c| c.at.holds_l(config.variant) && c.old_lock == old)
            && !self.bridges.iter().any(|b| b.has_l && b.old_lock == old)
            && !(0..COMMANDS).any(|j| {
                self.commands[j].at.holds_l() && self.commands[j].old_lock == old && config.locks_l(j)
            })
    }

    /// The bridge that holds L though it is wedged.
    pub(super) fn wedged_l_holder(&self) -> Option<usize> {
        self.bridges.iter().position(|b| b.has_l && b.wedged)
    }

    /// Whether B can be locked.
    pub(super) fn b_free(&self, config: &Config) -> bool {
        let by_bridge = self.bridges.iter().any(|b| b.has_b);
        let by_command = self.commands.iter().any(|c| c.at == CommandAt::HoldsB);
        let by_server = config.variant == Variant::ServerInheritsB && self.tree != Tree::None;
        !by_bridge && !by_command && !by_server
    }

    /// The bridge that holds B though it is wedged.
    pub(super) fn wedged_b_holder(&self) -> Option<usize> {
        self.bridges.iter().position(|b| b.has_b && b.wedged)
    }

    /// The bridge that a connect reaches.
    pub(super) fn listener(&self) -> Option<usize> {
        match self.sock {
            Sock::Of(k) if self.bridges[k].phase.listens() => Some(k),
            _ => None,
        }
    }

    /// Whether a bridge process lives, be it wedged.
    pub(super) fn any_bridge(&self) -> bool {
        self.bridges.iter().any(|b| b.phase.lives())
    }

    /// The bridge whose child the tree is.
    pub(super) fn tree_owner(&self) -> Option<usize> {
        match self.tree {
            Tree::Whole(k) | Tree::Stump(k) => Some(k),
            _ => None,
        }
    }

    pub(super) fn violate(&mut self, what: Violation) {
        self.violation.get_or_insert(what);
    }

    /// Forgets what can no longer matter, so that states that differ only in it are one.
    pub(super) fn normalize(&mut self) {
        if self.tree == Tree::None {
            self.named = false;
        }
        for caller in &mut self.callers {
            let with_bridge = matches!(caller.conn, Conn::To(_));
            if caller.op == Op::AtServer && !with_bridge && self.tree == Tree::None {
                caller.op = Op::Away;
            }
            if caller.at.finished() {
                caller.down = Down::Nothing;
                if with_bridge && !matches!(caller.up, Up::Operation | Up::Both) && caller.op == Op::Away {
                    caller.conn = Conn::None;
                }
                if caller.conn == Conn::None || caller.up == Up::Hello {
                    caller.up = Up::Nothing;
                }
            }
            if !(At::Lock..=At::StartEof).contains(&caller.at) {
                caller.old_lock = false;
            }
            if !matches!(caller.at, At::Feed | At::AwaitReady) {
                caller.starts = 0;
            }
        }
        for command in &mut self.commands {
            if command.at.finished() {
                *command = Command::new(command.at);
            }
        }
    }
}

/// Who still does something, and what lies about; for traces.
impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[session {:?}, state {:?}, sock {:?}, tree {:?}",
            self.wanted, self.record, self.sock, self.tree
        )?;
        for (i, c) in self.callers.iter().enumerate().filter(|(_, c)| !c.at.finished()) {
            write!(f, "; caller {i} {:?} {:?}", c.at, c.conn)?;
        }
        for (j, c) in self.commands.iter().enumerate().filter(|(_, c)| !c.at.finished()) {
            write!(f, "; command {j} {:?}", c.at)?;
        }
        for (k, b) in self.bridges.iter().enumerate().filter(|(_, b)| b.phase != Phase::Free) {
            write!(f, "; bridge {k} {:?}", b.phase)?;
            for (name, has) in [(" with L", b.has_l), (" with B", b.has_b), (" wedged", b.wedged)] {
                f.write_str(if has { name } else { "" })?;
            }
        }
        write!(f, "; {} kills left]", self.faults)
    }
}
