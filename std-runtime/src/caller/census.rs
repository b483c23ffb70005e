//! Which processes belong to sessions: bridges, servers and what is below those, and what dead bridges left behind.
//!
//! Looks at records and `/proc` only: starts nothing, asks nobody, takes no lock, signals nobody. Processes that vanish
//! while they are looked at are left out, and so are those of other users and of other homes.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Sessions;
use super::error::CallError;
use super::listing::has_server;
use super::start::BRIDGE_COMMAND;
use super::wake::known_if_readable;
use crate::home::{HomeError, SessionName};
use crate::lock;
use crate::process::survey::{self, Carrier, Member, Reason};
use crate::process::{GENERATION_VARIABLE, Memory, ProcessIdentity};
use crate::record::{self, StateRecord, now_ms};
use crate::sys::procfs::{self, Stat};

/// What a process is to its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It owns the server.
    Bridge,
    /// It would, and only listens: clients to whom the session is shared find it there.
    Listener,
    /// It is the server.
    Server,
    /// It came of the server.
    Child,
    /// It came of a server whose bridge is gone, and should be gone itself.
    Orphan(Orphaned),
}

impl Role {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bridge => "bridge",
            Self::Listener => "listener",
            Self::Server => "server",
            Self::Child => "child",
            Self::Orphan(_) => "orphan",
        }
    }
}

/// Why a process counts as left over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orphaned {
    /// The bridge of its generation has ended.
    BridgeEnded,
    /// Another generation of the session runs.
    OldGeneration,
    /// There is no such session any more.
    NoSession,
}

impl Orphaned {
    /// In words, for people.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::BridgeEnded => "its bridge has ended",
            Self::OldGeneration => "it is of an earlier run of the session",
            Self::NoSession => "its session does not exist any more",
        }
    }
}

/// A process of a session.
#[derive(Debug, Clone)]
pub struct SessionProcess {
    /// Whose it is.
    pub session: SessionName,
    /// What it is there.
    pub role: Role,
    /// Its number.
    pub pid: u32,
    /// That of its parent.
    pub parent: u32,
    /// What it does, in the kernel's words: `sleeping`, `running`, `stopped`, ….
    pub state: &'static str,
    /// When it was started, in milliseconds since 1970.
    pub since: u64,
    /// The processor time that it has used.
    pub used: Duration,
    /// Its memory, as far as the kernel tells.
    pub memory: Option<Memory>,
    /// Its command line, as it is now.
    pub command: Vec<String>,
}

/// What a session's processes cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// The bridge's memory.
    pub bridge: Option<Memory>,
    /// That of the server and all below it; `None` if there is no such process.
    pub server: Option<Memory>,
    /// How many processes there are, the bridge among them.
    pub processes: usize,
}

/// A process with its place.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) session: SessionName,
    pub(super) role: Role,
    pub(super) member: Member,
}

impl Sessions {
    /// All processes that belong to sessions of this home, or to one of them: by session, the bridge first. Those
    /// that ended while they were looked at are left out.
    ///
    /// # Errors
    /// If the home or `/proc` cannot be read.
    pub fn processes(&self, only: Option<&SessionName>) -> Result<Vec<SessionProcess>, CallError> {
        if !self.home.check()? {
            return Ok(Vec::new());
        }
        let unreadable = |e| CallError::from(HomeError::io("read", Path::new("/proc"), e));
        let snapshot = procfs::snapshot().map_err(unreadable)?;
        let mut counted = self.census(&snapshot)?;
        counted.retain(|one| only.is_none_or(|only| one.session == *only));
        // Stable: within a session they stand in the order in which they were found, parents first.
        counted.sort_by(|one, other| one.session.cmp(&other.session));
        let clock = Clock::read().map_err(unreadable)?;
        Ok(counted.into_iter().filter_map(|one| describe(one, &clock)).collect())
    }

    /// Who of a snapshot belongs to which session, parents before their children.
    pub(super) fn census(&self, snapshot: &[Stat]) -> Result<Vec<Counted>, CallError> {
        let forest = Forest::of(snapshot);
        let mut owners = Vec::new();
        for name in self.names_with_locks()? {
            let known = known_if_readable(self, &name).ok().flatten();
            let bridge = self
                .running_bridge(&name)
                .and_then(|bridge| forest.get(bridge.pid).filter(|stat| stat.started == bridge.started));
            owners.push(Owner { exists: self.home.session_file(&name).exists(), name, known, bridge });
        }
        let bridges: HashSet<u32> = owners.iter().filter_map(|owner| Some(owner.bridge?.pid)).collect();
        let mut counted = Vec::new();
        let mut claimed = bridges.clone();
        for owner in &owners {
            let Some(bridge) = owner.bridge else { continue };
            let count = |stat: &Stat, role, reason| Counted {
                session: owner.name.clone(),
                role,
                member: Member { stat: *stat, reason },
            };
            let listens =
                owner.known.as_ref().is_some_and(|known| known.shared_at.is_some() && !has_server(known));
            let role = if listens { Role::Listener } else { Role::Bridge };
            counted.push(count(bridge, role, Reason::ChildOf(*bridge)));
            let server = owner.known.as_ref().and_then(|known| known.server_pid);
            for (stat, parent) in forest.below(bridge, &bridges) {
                if claimed.insert(stat.pid) {
                    let role = if Some(stat.pid) == server { Role::Server } else { Role::Child };
                    counted.push(count(stat, role, Reason::ChildOf(*parent)));
                }
            }
        }
        self.orphans(&forest, &owners, claimed, &mut counted);
        Ok(counted)
    }

    /// Adds those that carry a marker and have no bridge above them, and what is below those.
    fn orphans(
        &self,
        forest: &Forest<'_>,
        owners: &[Owner<'_>],
        mut claimed: HashSet<u32>,
        counted: &mut Vec<Counted>,
    ) {
        let bridges: HashSet<u32> = owners.iter().filter_map(|owner| Some(owner.bridge?.pid)).collect();
        let here = ProcessIdentity::of_self().ok();
        let root = fs::canonicalize(self.home.sessions()).unwrap_or_else(|_| self.home.sessions());
        let unclaimed = forest.snapshot.iter().filter(|stat| !claimed.contains(&stat.pid));
        let mut carriers = survey::all_carriers(unclaimed);
        // Parents first, as their numbers go: a child of a carrier carries the same marker.
        carriers.sort_by_key(|carrier| carrier.stat.started);
        for carrier in carriers {
            let Some((session, role)) = whose(&carrier, owners, &root, here.as_ref()) else { continue };
            if !claimed.insert(carrier.stat.pid) {
                continue;
            }
            let reason = Reason::Carries(format!("{GENERATION_VARIABLE}={}", carrier.marker));
            counted.push(Counted {
                session: session.clone(),
                role,
                member: Member { stat: carrier.stat, reason },
            });
            for (stat, parent) in forest.below(&carrier.stat, &bridges) {
                if claimed.insert(stat.pid) {
                    let member = Member { stat: *stat, reason: Reason::ChildOf(*parent) };
                    counted.push(Counted { session: session.clone(), role, member });
                }
            }
        }
    }

    /// The names of all sessions, and of those of which only locks are left.
    pub(super) fn names_with_locks(&self) -> Result<Vec<SessionName>, CallError> {
        let mut names = record::names(&self.home)?;
        let locks = self.home.start_lock(&SessionName::new("x")?);
        let entries = locks.parent().and_then(|directory| fs::read_dir(directory).ok());
        names.extend(entries.into_iter().flatten().flatten().filter_map(|entry| {
            let file = entry.file_name();
            SessionName::new(file.to_str()?.strip_suffix(".bridge")?).ok()
        }));
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// The bridge of a session, if one runs: by the records, else by the kernel's list of those that hold locks.
    pub(super) fn running_bridge(&self, name: &SessionName) -> Option<ProcessIdentity> {
        if let Some(bridge) = self.bridge_process(name) {
            return Some(bridge);
        }
        let path = self.home.bridge_lock(name);
        let recorded = known_if_readable(self, name).ok().flatten().is_some();
        // Where the record can be read it says who it is. Somebody else may hold the lock for a moment, to try it.
        let holders = if recorded { Vec::new() } else { lock::holders(&path) };
        holders
            .into_iter()
            .filter(|pid| is_a_bridge(*pid))
            .filter_map(|pid| ProcessIdentity::of(pid).ok())
            .find(|bridge| bridge.is_alive() && lock::is_open_in(&path, bridge.pid) == Some(true))
    }
}

/// Whether a process was started as a bridge, as far as its words tell.
fn is_a_bridge(pid: u32) -> bool {
    procfs::command_line(pid).is_some_and(|words| words.iter().any(|word| word == BRIDGE_COMMAND))
}

/// What is known of a session that processes may belong to.
struct Owner<'s> {
    name: SessionName,
    exists: bool,
    known: Option<StateRecord>,
    bridge: Option<&'s Stat>,
}

/// To which session a process belongs that carries a marker and is not below a bridge, and as what. `None`: to none of
/// this home.
fn whose<'o>(
    carrier: &Carrier,
    owners: &'o [Owner<'_>],
    root: &Path,
    here: Option<&ProcessIdentity>,
) -> Option<(SessionName, Role)> {
    let current =
        |owner: &&'o Owner<'_>| owner.known.as_ref().is_some_and(|known| known.marker == carrier.marker);
    let named = || {
        let path = carrier.session.as_deref()?;
        let name = SessionName::new(path.file_name()?.to_str()?).ok()?;
        let place = path.parent()?;
        (place == root || fs::canonicalize(place).is_ok_and(|place| place == root)).then_some(name)
    };
    let (name, owner) = match owners.iter().find(current) {
        Some(owner) => (owner.name.clone(), Some(owner)),
        None => {
            let name = named()?;
            let owner = owners.iter().find(|owner| owner.name == name);
            (name, owner)
        }
    };
    let Some(owner) = owner.filter(|owner| owner.exists || owner.bridge.is_some()) else {
        return Some((name, Role::Orphan(Orphaned::NoSession)));
    };
    let is_current = current(&owner);
    let elsewhere = owner.known.as_ref().and_then(|known| known.bridge.as_ref()).is_some_and(|bridge| {
        here.is_none_or(|here| here.boot_id == bridge.boot_id && here.pid_ns != bridge.pid_ns)
    });
    let role = match owner.bridge {
        // A bridge adopts whatever leaves its parent; where it could not, it looks after this one all the same.
        Some(_) if is_current => Role::Child,
        // Which generation it is of cannot be told while the record is damaged.
        Some(_) if owner.known.is_none() => Role::Child,
        Some(_) => Role::Orphan(Orphaned::OldGeneration),
        // In another container: whether that bridge lives cannot be seen from here.
        None if elsewhere => Role::Child,
        None if owner.exists => Role::Orphan(Orphaned::BridgeEnded),
        None => Role::Orphan(Orphaned::NoSession),
    };
    Some((name, role))
}

/// Who is whose child.
struct Forest<'s> {
    snapshot: &'s [Stat],
    children: HashMap<u32, Vec<&'s Stat>>,
    by_pid: HashMap<u32, &'s Stat>,
}

impl<'s> Forest<'s> {
    fn of(snapshot: &'s [Stat]) -> Self {
        let mut children: HashMap<u32, Vec<&Stat>> = HashMap::new();
        for stat in snapshot {
            children.entry(stat.parent).or_default().push(stat);
        }
        Self { snapshot, children, by_pid: snapshot.iter().map(|stat| (stat.pid, stat)).collect() }
    }

    fn get(&self, pid: u32) -> Option<&'s Stat> {
        self.by_pid.get(&pid).copied().filter(|stat| !stat.ended())
    }

    /// All live ones below a process with their parents, parents first; without `others` and what is below those.
    fn below<'f>(&'f self, top: &'f Stat, others: &HashSet<u32>) -> Vec<(&'s Stat, &'f Stat)>
    where
        's: 'f,
    {
        let mut found: Vec<(&'s Stat, &'f Stat)> = Vec::new();
        let mut seen = HashSet::from([top.pid]);
        let mut next = Some(top);
        let mut looked_at = 0;
        while let Some(parent) = next {
            for child in self.children.get(&parent.pid).into_iter().flatten().copied() {
                // A zombie has handed its children on.
                if !child.ended() && !others.contains(&child.pid) && seen.insert(child.pid) {
                    found.push((child, parent));
                }
            }
            next = found.get(looked_at).map(|(stat, _)| *stat);
            looked_at += 1;
        }
        found
    }
}

/// What turns the kernel's times into ours.
struct Clock {
    now: u64,
    uptime: Duration,
    ticks: u64,
}

impl Clock {
    fn read() -> io::Result<Self> {
        Ok(Self { now: now_ms(), uptime: procfs::uptime()?, ticks: procfs::ticks_per_second() })
    }

    fn span(&self, ticks: u64) -> Duration {
        Duration::from_millis(ticks.saturating_mul(1000) / self.ticks)
    }

    /// When something happened that is counted in ticks since boot.
    fn at(&self, ticks: u64) -> u64 {
        let ago = self.uptime.saturating_sub(self.span(ticks));
        self.now.saturating_sub(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX))
    }
}

/// The rest of what is to be said of a process; `None` if it is gone by now.
fn describe(one: Counted, clock: &Clock) -> Option<SessionProcess> {
    let pid = one.member.stat.pid;
    let memory = Memory::of(pid);
    let command = procfs::command_line(pid).unwrap_or_default();
    // Was all that read of this very process?
    let now = Stat::read(pid).ok().flatten().filter(|now| now.same(&one.member.stat) && !now.ended())?;
    Some(SessionProcess {
        session: one.session,
        role: one.role,
        pid,
        parent: now.parent,
        state: match now.state {
            b'R' => "running",
            // Not "sleeping": here that is said of sessions whose server is gone.
            b'S' | b'I' => "waiting",
            b'D' => "blocked",
            b'T' => "stopped",
            b't' => "traced",
            _ => "ending",
        },
        since: clock.at(now.started),
        used: clock.span(now.used),
        memory,
        command,
    })
}

/// Measures the memory of sessions again and again, at a bounded cost each time.
#[derive(Debug, Default)]
pub struct Gauge {
    /// What was measured of a process, and when.
    known: HashMap<(u32, u64), (Option<Memory>, Instant)>,
}

impl Gauge {
    /// What sessions cost whose bridges have these numbers. The memory of processes that were seen before is measured
    /// anew until `budget` is spent, that which is oldest first; a session whose bridge is gone is left out.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn read(
        &mut self,
        bridges: &[(SessionName, u32)],
        budget: Duration,
    ) -> io::Result<HashMap<SessionName, Load>> {
        let begun = Instant::now();
        let snapshot = procfs::snapshot()?;
        let forest = Forest::of(&snapshot);
        let pids: HashSet<u32> = bridges.iter().map(|(_, pid)| *pid).collect();
        let trees: Vec<(&SessionName, Vec<(u32, u64)>)> = bridges
            .iter()
            .filter_map(|(name, pid)| {
                let bridge = forest.get(*pid)?;
                let below = forest.below(bridge, &pids);
                let all = std::iter::once(bridge).chain(below.iter().map(|(stat, _)| *stat));
                Some((name, all.map(|stat| (stat.pid, stat.started)).collect()))
            })
            .collect();
        let present: HashSet<(u32, u64)> = trees.iter().flat_map(|(_, tree)| tree).copied().collect();
        self.known.retain(|key, _| present.contains(key));
        let mut order: Vec<_> =
            present.iter().map(|key| (self.known.get(key).map(|(_, at)| *at), *key)).collect();
        order.sort_unstable();
        for (at, key) in order {
            // Those that were never seen come first, and are measured whatever it takes.
            if at.is_some() && begun.elapsed() >= budget {
                break;
            }
            self.known.insert(key, (Memory::of(key.0), Instant::now()));
        }
        let memory = |key: &(u32, u64)| self.known.get(key).and_then(|(memory, _)| *memory);
        Ok(trees
            .into_iter()
            .map(|(name, tree)| {
                let server = tree.iter().skip(1).filter_map(memory).fold(None, |sum: Option<Memory>, one| {
                    let mut sum = sum.unwrap_or(Memory::NONE);
                    sum += one;
                    Some(sum)
                });
                let bridge = tree.first().and_then(memory);
                (name.clone(), Load { bridge, server, processes: tree.len() })
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn stat(pid: u32, parent: u32) -> Stat {
        Stat {
            pid,
            state: b'S',
            parent,
            group: pid,
            session: pid,
            threads: 1,
            kernel: false,
            started: u64::from(pid),
            used: 0,
            loaded: true,
        }
    }

    fn zombie(pid: u32, parent: u32) -> Stat {
        Stat { state: b'Z', ..stat(pid, parent) }
    }

    #[test]
    fn a_tree_ends_at_zombies_and_at_other_bridges() {
        let snapshot =
            [stat(1, 0), stat(10, 1), stat(11, 10), stat(12, 11), zombie(13, 10), stat(20, 11), stat(21, 20)];
        let forest = Forest::of(&snapshot);
        let pids = |others: &[u32]| {
            let below = forest.below(&snapshot[1], &others.iter().copied().collect());
            below.iter().map(|(stat, parent)| (stat.pid, parent.pid)).collect::<Vec<_>>()
        };
        assert_eq!(pids(&[20]), [(11, 10), (12, 11)]);
        assert_eq!(pids(&[]), [(11, 10), (12, 11), (20, 11), (21, 20)]);
        assert!(forest.get(13).is_none() && forest.get(99).is_none());
    }

    #[test]
    fn whose_a_process_is_follows_from_its_marker_else_from_the_session_that_it_names() {
        let here = ProcessIdentity::of_self().unwrap();
        let name = |name| SessionName::new(name).unwrap();
        let bridge = stat(5, 1);
        let known = |marker: &str, bridge: Option<ProcessIdentity>| StateRecord {
            marker: marker.into(),
            bridge,
            ..StateRecord::dormant()
        };
        let owner = |word, exists, known, bridge| Owner { name: name(word), exists, known, bridge };
        let elsewhere = ProcessIdentity { pid_ns: 1, ..here.clone() };
        let owners = [
            owner("live", true, Some(known("m1", Some(here.clone()))), Some(&bridge)),
            owner("dead", true, Some(known("m2", Some(here.clone()))), None),
            owner("damaged", true, None, None),
            owner("damaged-live", true, None, Some(&bridge)),
            owner("far", true, Some(known("m3", Some(elsewhere))), None),
            owner("gone", false, None, None),
        ];
        let root = PathBuf::from("/h/sessions");
        let of = |marker: &str, session: Option<&str>| {
            let carrier =
                Carrier { stat: stat(77, 1), marker: marker.into(), session: session.map(PathBuf::from) };
            whose(&carrier, &owners, &root, Some(&here)).map(|(name, role)| (name.to_string(), role))
        };
        let orphan = |name: &str, why| Some((name.to_owned(), Role::Orphan(why)));
        let child = |name: &str| Some((name.to_owned(), Role::Child));
        assert_eq!(of("m1", None), child("@live"));
        assert_eq!(of("m0", Some("/h/sessions/live")), orphan("@live", Orphaned::OldGeneration));
        assert_eq!(of("m2", None), orphan("@dead", Orphaned::BridgeEnded));
        assert_eq!(of("m0", Some("/h/sessions/damaged")), orphan("@damaged", Orphaned::BridgeEnded));
        assert_eq!(of("m0", Some("/h/sessions/damaged-live")), child("@damaged-live"));
        assert_eq!(of("m3", None), child("@far"));
        assert_eq!(of("m0", Some("/h/sessions/gone")), orphan("@gone", Orphaned::NoSession));
        assert_eq!(of("m0", Some("/h/sessions/never")), orphan("@never", Orphaned::NoSession));
        // Another home's, or another program's.
        assert_eq!(of("m0", Some("/other/sessions/dead")), None);
        assert_eq!(of("m0", Some("/h/sessions/no name")), None);
        assert_eq!(of("m0", None), None);
    }

    #[test]
    fn a_gauge_measures_new_processes_whatever_the_budget() {
        let us = (SessionName::new("us").unwrap(), std::process::id());
        let nobody = (SessionName::new("nobody").unwrap(), u32::MAX);
        let mut gauge = Gauge::default();
        for _ in 0..2 {
            let loads = gauge.read(&[us.clone(), nobody.clone()], Duration::ZERO).unwrap();
            assert!(loads[&us.0].bridge.unwrap().bytes > 0 && loads[&us.0].processes >= 1);
            assert!(!loads.contains_key(&nobody.0));
        }
        let measured = gauge.known.values().map(|(_, at)| *at).min().unwrap();
        gauge.read(std::slice::from_ref(&us), Duration::from_secs(60)).unwrap();
        assert!(gauge.known.values().all(|(_, at)| *at > measured));
    }

    #[test]
    fn times_are_counted_from_the_boot() {
        let clock = Clock { now: 1_000_000, uptime: Duration::from_secs(100), ticks: 100 };
        assert_eq!(clock.at(9_000), 990_000);
        assert_eq!(clock.at(20_000), 1_000_000, "a clock that is a little off gives nothing in the future");
        assert_eq!(clock.span(150), Duration::from_millis(1500));
        let clock = Clock::read().unwrap();
        let us = Stat::read(std::process::id()).unwrap().unwrap();
        assert!(clock.at(us.started) <= clock.now && clock.now - clock.at(us.started) < 3_600_000);
    }
}
