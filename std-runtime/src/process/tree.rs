//! A server and everything that came of it: knowing when it is gone, and making it so.
//!
//! While a tree runs, nothing here wakes up: a task waits for SIGCHLD, which arrives when the leader ends or when
//! an orphan that the kernel handed us does. The leader stays a zombie until all the others are gone, so that its
//! number, which is also its group's, cannot become somebody else's while its group may still be signalled.

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::{Pin, pin};
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitIdStatus};
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal as Arrivals, SignalKind, signal};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};

use super::marker::GENERATION_VARIABLE;
use super::survey::{self, EMPTY_LOOKS, Member, Reason};
use crate::sys::pidfd::PidFd;
use crate::sys::procfs::{self, Stat};
use crate::sys::{self, Children};

/// How long one call may keep killing what keeps forking, before the rest of the process gets a turn.
const TURN: Duration = Duration::from_millis(20);

/// How soon to look again after `/proc` could not be read (out of descriptors, most likely).
const RETRY: Duration = Duration::from_millis(50);

/// Trees of this process that are not gone. Held while forking and while surveying: so that a new leader is never
/// taken for an orphan, and no number that is being looked at is reaped.
static TREES: Mutex<Trees> = Mutex::new(Trees { known: Vec::new(), last: 0 });

#[derive(Debug)]
struct Trees {
    known: Vec<Known>,
    /// The last id that was given out.
    last: u64,
}

impl Trees {
    fn is_leader(&self, pid: u32) -> bool {
        self.known.iter().any(|known| known.leader == Some(pid))
    }
}

/// A tree, as the others have to know of it.
#[derive(Debug)]
struct Known {
    /// Its leader. `None` once that is reaped: the number may come back as anybody's.
    leader: Option<u32>,
    /// The same tree in [`Shared`].
    id: u64,
}

/// Makes the kernel hand this process whatever loses its parent below it. Once, early; see
/// [the module](super).
///
/// # Errors
/// If the system refuses.
pub fn become_subreaper() -> io::Result<()> {
    sys::set_subreaper()
}

/// A started server. Dropping the last [`TreeControl`] kills what is left of it.
#[derive(Debug)]
pub struct Tree {
    /// Its standard input. Dropping it is the end of input.
    pub stdin: pipe::Sender,
    /// Its standard output.
    pub stdout: pipe::Receiver,
    /// Its standard error.
    pub stderr: pipe::Receiver,
    /// What ends it.
    pub control: TreeControl,
}

/// The processes of a [`Tree`], apart from their pipes.
#[derive(Debug, Clone)]
pub struct TreeControl {
    owned: Arc<Owned>,
}

impl TreeControl {
    /// The number of the leader.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.shared().leader
    }

    /// Waits for the leader to end; others of its tree may live on. Reaps nothing.
    pub async fn exited(&self) -> ExitStatus {
        loop {
            if let Some(status) = self.shared().exit_status() {
                return status;
            }
            if self.shared().process.readable().await.is_err() {
                // The runtime is being shut down: nobody is going to hear the answer.
                std::future::pending::<()>().await;
            }
            if self.shared().exit_status().is_none() {
                // A debugger has it, and has not let us know so far. Asked again at once, and again, nothing else would
                // get a turn.
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// Sends TERM to the whole tree, once to each process. What is forked meanwhile may be missed.
    pub fn terminate(&self) {
        self.shared().terminate();
    }

    /// Sends KILL to the whole tree, wherever its processes moved, and to whatever it still forks until it is
    /// gone. Returns when all that could be found are signalled; await [`Self::gone`].
    pub fn kill(&self) {
        self.shared().kill();
    }

    /// Whether no process of the tree runs any more. If so, all of it is reaped, the leader last.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.shared().pass(), Pass::Gone)
    }

    /// Waits until no process of the tree runs any more, and all of it is reaped. Without [`Self::kill`] this
    /// may be never, as a server can leave processes behind when it ends.
    pub async fn gone(&self) {
        let mut gone = self.shared().gone.subscribe();
        if gone.wait_for(|gone| *gone).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The numbers of the processes of the tree that still run: who to name when a stop takes too long. Empty if
    /// there are none, or `/proc` cannot be read.
    #[must_use]
    pub fn survivors(&self) -> Vec<u32> {
        self.shared().survivors()
    }

    fn shared(&self) -> &Shared {
        &self.owned.0
    }
}

/// What the controls of one tree share. The task that looks after the tree holds [`Shared`] alone, so that it does
/// not keep an abandoned tree alive.
#[derive(Debug)]
struct Owned(Arc<Shared>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// Forks `command`, which [`sys::child::prepare`] was applied to, as the leader of a new tree.
pub(super) fn start(mut command: Command, marker: &str) -> io::Result<TreeControl> {
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    // Before the fork: it also undoes an inherited "ignore SIGCHLD", under which children vanish without a trace.
    let arrivals = signal(SignalKind::child())?;
    let mut trees = locked(&TREES);
    let mut child = command.spawn()?;
    let process = match PidFd::open(child.id()).and_then(PidFd::watched) {
        Ok(process) => process,
        Err(error) => {
            child.kill()?;
            child.wait()?;
            return Err(error);
        }
    };
    let leader = child.id();
    trees.last += 1;
    let id = trees.last;
    trees.known.push(Known { leader: Some(leader), id });
    drop(trees);
    let shared = Arc::new(Shared {
        id,
        leader,
        process,
        marker: format!("{GENERATION_VARIABLE}={marker}"),
        state: Mutex::default(),
        gone: watch::Sender::new(false),
        nudge: Notify::new(),
    });
    runtime.spawn(look_after(Arc::clone(&shared), arrivals));
    Ok(TreeControl { owned: Arc::new(Owned(shared)) })
}

/// Reaps what the kernel hands us while the tree runs, and finishes it when it is killed or ends by itself.
async fn look_after(tree: Arc<Shared>, mut arrivals: Arrivals) {
    loop {
        // From before the look: what happens during it is not missed.
        let mut nudged = pin!(tree.nudge.notified());
        match tree.pass() {
            Pass::Gone => return,
            Pass::Running(None) => stirring(&mut arrivals, nudged.as_mut(), None).await,
            Pass::Running(Some(outsider)) => {
                // Not our child, so nobody tells us when it ends.
                let held = PidFd::open(outsider.pid).ok().filter(|_| {
                    // Held, and still the one that was meant?
                    matches!(Stat::read(outsider.pid), Ok(Some(now)) if now.same(&outsider))
                });
                match held.map(PidFd::watched) {
                    Some(Ok(held)) => stirring(&mut arrivals, nudged.as_mut(), Some(&held)).await,
                    Some(Err(_)) => tokio::time::sleep(RETRY).await,
                    None => tokio::task::yield_now().await,
                }
            }
            Pass::Unfinished => tokio::task::yield_now().await,
            Pass::Blind => tokio::time::sleep(RETRY).await,
        }
    }
}

/// Waits until something ended, or the tree is to be looked at for another reason.
async fn stirring(
    arrivals: &mut Arrivals,
    mut nudged: Pin<&mut Notified<'_>>,
    outsider: Option<&AsyncFd<PidFd>>,
) {
    poll_fn(|context| {
        let nudged = nudged.as_mut().poll(context).is_ready();
        let arrived = arrivals.poll_recv(context).is_ready();
        let left = outsider.is_some_and(|held| held.poll_read_ready(context).is_ready());
        if nudged || arrived || left { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[derive(Debug)]
struct Shared {
    id: u64,
    leader: u32,
    process: AsyncFd<PidFd>,
    /// The marker, as it stands in the environment.
    marker: String,
    /// Locked after [`TREES`], never before.
    state: Mutex<State>,
    gone: watch::Sender<bool>,
    /// The tree is to be looked at though nothing ended.
    nudge: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// How the leader ended, once it did.
    status: Option<ExitStatus>,
    /// The leader's number is not ours any more.
    reaped: bool,
    killing: bool,
    /// Those that have KILL pending. They cannot fork any more: once the kernel has accepted it, no child of theirs
    /// appears.
    killed: HashSet<(u32, u64)>,
    /// How often in a row nobody was found, by one who is not told of orphans.
    empty_looks: u32,
}

/// What one look at a tree came to.
#[derive(Debug)]
enum Pass {
    Gone,
    /// Something runs. If it is not below us, nothing but its own end (this one's, for a start) tells of it.
    Running(Option<Stat>),
    /// There is more to do right now.
    Unfinished,
    /// `/proc` could not be read.
    Blind,
}

impl Shared {
    fn is_gone(&self) -> bool {
        *self.gone.borrow()
    }

    fn exit_status(&self) -> Option<ExitStatus> {
        let mut state = locked(&self.state);
        self.note_exit(&mut state);
        state.status
    }

    fn note_exit(&self, state: &mut State) {
        if state.status.is_some() {
            return;
        }
        match sys::pid(self.leader).and_then(sys::peek_exit) {
            Ok(status) => state.status = status.map(exit_status),
            // Somebody else in this process reaped it, against the rules. Its number and its group are not ours to
            // signal any more, and how it ended is lost: call it a failure.
            Err(_) => {
                state.reaped = true;
                state.status = Some(ExitStatus::from_raw(0xff << 8));
            }
        }
    }

    /// The leader's number may be anybody's from here on.
    fn let_go(&self, trees: &mut Trees, state: &mut State) {
        state.reaped = true;
        for known in trees.known.iter_mut().filter(|known| known.id == self.id) {
            known.leader = None;
        }
    }

    fn terminate(&self) {
        let trees = locked(&TREES);
        let mut state = locked(&self.state);
        if self.is_gone() {
            return;
        }
        self.note_exit(&mut state);
        let members = self.survey(&trees, &state).map(|survey| survey.members).unwrap_or_default();
        self.signal_group(&state, Signal::TERM);
        // Those in the group have it: some programs take a second TERM for impatience.
        for member in members.iter().filter(|member| member.stat.group != self.leader) {
            // Refused: it runs as another user now. The caller sees that it does not go.
            let _ = member.signal(Signal::TERM);
        }
    }

    fn kill(&self) {
        locked(&self.state).killing = true;
        self.pass();
        self.nudge.notify_one();
    }

    fn survivors(&self) -> Vec<u32> {
        let trees = locked(&TREES);
        let mut state = locked(&self.state);
        if self.is_gone() {
            return Vec::new();
        }
        self.note_exit(&mut state);
        let survey = self.survey(&trees, &state);
        survey.map(|survey| survey.members.iter().map(|member| member.stat.pid).collect()).unwrap_or_default()
    }

    /// Reaps, kills if that was asked for, and finds out whether the tree is gone.
    fn pass(&self) -> Pass {
        let until = Instant::now() + TURN;
        loop {
            // Taken anew each time, for the other trees.
            let mut trees = locked(&TREES);
            let mut state = locked(&self.state);
            if self.is_gone() {
                return Pass::Gone;
            }
            match self.step(&mut trees, &mut state) {
                Ok(Some(result)) => return result,
                Ok(None) if Instant::now() < until => {}
                Ok(None) => return Pass::Unfinished,
                Err(_) => return Pass::Blind,
            }
        }
    }

    /// One survey and what follows from it. `None`: it changed something, so there has to be another one.
    fn step(&self, trees: &mut Trees, state: &mut State) -> io::Result<Option<Pass>> {
        self.note_exit(state);
        if state.reaped {
            self.let_go(trees, state);
        }
        let adopts = sys::is_subreaper();
        if state.killing {
            if !adopts {
                // In the order that leaves no trace behind, before all at once.
                let members = survey::freeze(|| Ok(self.survey(trees, state)?.members))?;
                self.strike(members.iter().rev(), state)?;
            }
            // All of a group at once: the one signal that forking cannot outrun.
            self.signal_group(state, Signal::KILL);
        } else if state.status.is_none() {
            // The usual case, without a look at /proc.
            return reap_orphans(trees).map(|()| Some(Pass::Running(None)));
        }

        let survey = self.survey(trees, state)?;
        if state.killing && self.strike(survey.members.iter(), state)? || survey.reaped {
            return Ok(None);
        }
        if let Some(first) = survey.members.first() {
            let outsider = survey.members.iter().find(|member| !matches!(member.reason, Reason::Ours));
            let below_us = adopts || state.status.is_none();
            state.empty_looks = 0;
            return Ok(Some(Pass::Running((!below_us).then(|| outsider.unwrap_or(first).stat))));
        }
        if state.status.is_none() {
            return Ok(Some(Pass::Running(None)));
        }
        if !adopts && state.empty_looks < EMPTY_LOOKS {
            state.empty_looks += 1;
            return Ok(None);
        }

        // Nobody is left that its group's signals were for.
        if !state.reaped {
            sys::reap(sys::pid(self.leader)?)?;
            self.let_go(trees, state);
        }
        // And the kernel's own word for it, which no race with a survey can spoil.
        if adopts && trees.known.len() == 1 && sys::peek_children()? != Children::None {
            return Ok(None);
        }
        trees.known.retain(|known| known.id != self.id);
        state.killed = HashSet::new();
        self.gone.send_replace(true);
        Ok(Some(Pass::Gone))
    }

    /// Kills those that are not killed yet. Whether there were any.
    fn strike<'a>(&self, members: impl Iterator<Item = &'a Member>, state: &mut State) -> io::Result<bool> {
        let mut any = false;
        for member in members {
            if state.killed.contains(&member.key()) {
                continue;
            }
            match member.signal(Signal::KILL) {
                // Not accepted by those that run as another user by now. They are asked once, and awaited.
                Ok(Some(_)) => _ = state.killed.insert(member.key()),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    state.killed.insert(member.key());
                }
                Ok(None) => {}
                Err(error) => return Err(error),
            }
            any = true;
        }
        Ok(any)
    }

    /// Who is in this tree now. Reaps orphans that ended on the way.
    fn survey(&self, trees: &Trees, state: &State) -> io::Result<Survey> {
        let snapshot = procfs::snapshot()?;
        let us = sys::own_pid();
        let adopts = sys::is_subreaper();
        let mut reaped = false;
        let mut roots = Vec::new();
        for stat in snapshot.iter().filter(|stat| stat.parent == us) {
            if trees.is_leader(stat.pid) {
                if stat.pid == self.leader && state.status.is_none() {
                    roots.push(Member { stat: *stat, reason: Reason::Ours });
                }
            } else if adopts {
                if sys::reap(sys::pid(stat.pid)?)?.is_some() {
                    reaped = true;
                } else if self.owns(trees, stat, state) {
                    roots.push(Member { stat: *stat, reason: Reason::Ours });
                }
            }
        }
        if !adopts {
            roots.extend(survey::carriers(&snapshot, &self.marker));
        }
        Ok(Survey { members: survey::below(&snapshot, roots), reaped })
    }

    /// Whether an orphan that was handed to us comes from this tree. One that shows no sign of its origin belongs
    /// to whichever tree is the last to go.
    fn owns(&self, trees: &Trees, orphan: &Stat, state: &State) -> bool {
        trees.known.len() == 1
            || state.killed.contains(&(orphan.pid, orphan.started))
            || (!state.reaped && (orphan.group == self.leader || orphan.session == self.leader))
            || procfs::carries(orphan, &self.marker)
    }

    /// Signals the leader's group, as long as its number is pinned by the leader, alive or not.
    fn signal_group(&self, state: &State, signal: Signal) {
        if let (false, Ok(leader)) = (state.reaped, sys::pid(self.leader)) {
            // An empty group, or one that may not be signalled: the survey deals with its members one by one.
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }
}

struct Survey {
    members: Vec<Member>,
    /// An orphan was reaped: what it forked may be missing from this survey.
    reaped: bool,
}

/// Reaps orphans that ended, without looking at more than those. One that ended behind the leader of another tree
/// is left to that tree, which is about to be surveyed.
fn reap_orphans(trees: &Trees) -> io::Result<()> {
    if !sys::is_subreaper() {
        return Ok(());
    }
    while let Children::Ended(pid) = sys::peek_children()? {
        if trees.is_leader(pid) {
            break;
        }
        sys::reap(sys::pid(pid)?)?;
    }
    Ok(())
}

fn exit_status(status: WaitIdStatus) -> ExitStatus {
    let core = if status.dumped() { 0x80 } else { 0 };
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ExitStatus::from_raw((code & 0xff) << 8),
        (None, signal) => ExitStatus::from_raw(signal.unwrap_or(0) | core),
    }
}

/// Nothing that is done under these locks leaves what they guard half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
