//! Who belongs to a tree right now, and signalling exactly those.
//!
//! A survey is a picture of `/proc`, and out of date when it is finished. So it is never acted on directly:
//! [`Member::signal`] holds the process first, and then asks again for the reason why it is in the picture.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::process::Signal;

use super::marker::{GENERATION_VARIABLE, SESSION_VARIABLE};
use crate::sys;
use crate::sys::pidfd::PidFd;
use crate::sys::procfs::{self, Stat};

/// How often in a row nobody has to be found until nobody is there, for those who do not get the orphans: one look can
/// miss a process that forks and ends in the middle of it.
pub(super) const EMPTY_LOOKS: u32 = 3;

/// How often [`freeze`] looks for more.
const FREEZE_LOOKS: u32 = 16;

/// Why a process belongs to a tree.
#[derive(Debug, Clone)]
pub(crate) enum Reason {
    /// It is our child: its leader, or an orphan that the kernel handed us. Nobody but us can reap it.
    Ours,
    /// It is the child of this one, which belongs to the tree.
    ChildOf(Stat),
    /// It carries this variable in its environment.
    Carries(String),
}

/// A live process of a tree.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) stat: Stat,
    pub(crate) reason: Reason,
}

impl Member {
    /// What tells it from all others, on this machine until the next boot.
    pub(crate) fn key(&self) -> (u32, u64) {
        (self.stat.pid, self.stat.started)
    }

    /// Signals it, if it still belongs to the tree for the same reason. `None`: it ended, or has to be looked up
    /// again.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<Option<PidFd>> {
        let held = match PidFd::open(self.stat.pid) {
            Ok(held) => held,
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        // All that is read about its number from here on, until the signal is accepted, is read about this very
        // process: had it ended in between, the signal would reach nobody.
        if self.confirmed()? && held.signal(signal)? { Ok(Some(held)) } else { Ok(None) }
    }

    fn confirmed(&self) -> io::Result<bool> {
        let Some(now) = Stat::read(self.stat.pid)? else { return Ok(false) };
        if !now.same(&self.stat) || now.ended() {
            return Ok(false);
        }
        Ok(match &self.reason {
            Reason::Ours => now.parent == sys::own_pid(),
            // The parent was there before its child was looked at, and is there still: so it is the same one that
            // the child named.
            Reason::ChildOf(parent) => {
                now.parent == parent.pid && Stat::read(parent.pid)?.is_some_and(|still| still.same(parent))
            }
            Reason::Carries(variable) => procfs::carries(&now, variable),
        })
    }
}

/// The live processes among `roots` and all that is below them, parents first.
pub(super) fn below(snapshot: &[Stat], roots: Vec<Member>) -> Vec<Member> {
    let mut children: HashMap<u32, Vec<&Stat>> = HashMap::new();
    for stat in snapshot {
        children.entry(stat.parent).or_default().push(stat);
    }
    let us = sys::own_pid();
    let mut seen: HashSet<u32> = HashSet::from([us]);
    let mut members = roots;
    members.retain(|root| seen.insert(root.stat.pid));
    let mut next = 0;
    while let Some(parent) = members.get(next).map(|member| member.stat) {
        next += 1;
        for child in children.get(&parent.pid).into_iter().flatten() {
            if seen.insert(child.pid) {
                members.push(Member { stat: **child, reason: Reason::ChildOf(parent) });
            }
        }
    }
    members.retain(|member| !member.stat.ended());
    members
}

/// Live processes of our user that carry `variable`; never ourselves.
pub(super) fn carriers(snapshot: &[Stat], variable: &str) -> Vec<Member> {
    let us = sys::own_pid();
    snapshot
        .iter()
        .filter(|stat| stat.pid != us && !stat.ended() && procfs::carries(stat, variable))
        .map(|stat| Member { stat: *stat, reason: Reason::Carries(variable.to_owned()) })
        .collect()
}

/// A live process of our user that carries a marker, whichever.
#[derive(Debug, Clone)]
pub(crate) struct Carrier {
    pub(crate) stat: Stat,
    pub(crate) marker: String,
    /// The session whose server it belongs to, by its directory.
    pub(crate) session: Option<PathBuf>,
}

/// All that carry any marker; never ourselves.
pub(crate) fn all_carriers<'s>(snapshot: impl Iterator<Item = &'s Stat>) -> Vec<Carrier> {
    let us = sys::own_pid();
    let find = |stat: &Stat| {
        let environment = procfs::environment(stat)?;
        let value = |name: &str| {
            let entries = environment.split(|byte| *byte == 0);
            entries.filter_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")).next_back()
        };
        let marker = str::from_utf8(value(GENERATION_VARIABLE)?).ok().filter(|marker| !marker.is_empty())?;
        let session = value(SESSION_VARIABLE).map(|path| PathBuf::from(OsStr::from_bytes(path)));
        Some(Carrier { stat: *stat, marker: marker.to_owned(), session })
    };
    snapshot.filter(|stat| stat.pid != us && !stat.ended() && !stat.kernel).filter_map(find).collect()
}

/// Stops members until a look finds no new ones, and gives them as they were last seen, parents first.
///
/// For those who do not get the orphans: a parent that is killed takes with it the only trace of a child that
/// cleared its environment. What is stopped neither ends nor forks. Whoever kills them afterwards begins with the
/// children. What cannot be stopped for moving on too fast is left out after a while.
pub(super) fn freeze(mut look: impl FnMut() -> io::Result<Vec<Member>>) -> io::Result<Vec<Member>> {
    let mut stopped = HashSet::new();
    for _ in 0..FREEZE_LOOKS {
        let members = look()?;
        let mut any = false;
        for member in &members {
            if stopped.contains(&member.key()) {
                continue;
            }
            any = true;
            // One that may not be signalled is reported by those who kill it.
            if let Ok(Some(_)) | Err(_) = member.signal(Signal::STOP) {
                stopped.insert(member.key());
            }
        }
        if !any {
            return Ok(members);
        }
    }
    look()
}
