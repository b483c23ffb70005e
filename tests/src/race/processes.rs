//! The processes that carry a test's mark in their environment, whoever their parents are.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::harness::survey::started_with;

/// The variable that all processes of one test carry.
pub const WORLD: &str = "DROWSE_TEST_WORLD";
/// The variable that the servers of one session carry.
pub const SESSION: &str = "DROWSE_TEST_SESSION";
const GENERATION: &str = "DROWSE_GENERATION";

/// A process that was seen alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks since boot: with the number, its identity.
    pub started: u64,
    /// What it is.
    pub role: Role,
    /// The command line.
    pub command: String,
}

/// What a process of a test is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// A bridge, or one between fork and exec.
    Bridge,
    /// A server's process, or one below it.
    Server {
        /// Of which session.
        session: String,
        /// Of which generation: its marker.
        generation: String,
    },
    /// Anything else: a caller.
    Other,
}

impl Seen {
    /// Whether it still runs. A zombie does not.
    pub fn is_alive(&self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// Signals it, if it still runs.
    pub fn signal(&self, signal: Signal) {
        if let Some(held) = self.hold() {
            let _ = pidfd_send_signal(&held, signal);
        }
    }

    /// Waits for its end. `false`: it still runs after `limit`.
    pub fn ends_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let Some(held) = self.hold() else { return true };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(timeout) = Timespec::try_from(left) else { return false };
            match poll(&mut [PollFd::new(&held, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => return false,
                Ok(_) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("poll: {error}"),
            }
        }
    }

    fn hold(&self) -> Option<OwnedFd> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw)?;
        let held = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        self.is_alive().then_some(held)
    }
}

/// All live processes that carry this mark, by rising number; never this one.
pub fn marked(world: &str) -> Vec<Seen> {
    let us = std::process::id();
    pids().into_iter().filter(|pid| *pid != us).filter_map(|pid| look(pid, world)).collect()
}

fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc");
    let mut pids: Vec<u32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

fn look(pid: u32, world: &str) -> Option<Seen> {
    let started_before = started(pid)?;
    let environment = started_with(pid, "environ");
    let value = |name: &str| {
        environment.split(|byte| *byte == 0).find_map(|entry| {
            entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(String::from_utf8_lossy)
        })
    };
    if value(WORLD)? != world {
        return None;
    }
    let command = started_with(pid, "cmdline");
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let role = match (value(GENERATION), value(SESSION)) {
        (Some(generation), session) => Role::Server {
            session: session.unwrap_or_default().into_owned(),
            generation: generation.into_owned(),
        },
        (None, _) if command.contains("bridge-serve") => Role::Bridge,
        (None, _) => Role::Other,
    };
    Some(Seen { pid, started: started_before, role, command })
}

/// When the process of that number started; `None` if there is none, or it is a zombie.
pub fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 2..)?.split(' ').collect();
    match *fields.first()? {
        "Z" | "X" => None,
        _ => fields.get(19)?.parse().ok(),
    }
}

/// Looks again and again whether two servers of one session are alive at the same time.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    looks: Arc<AtomicUsize>,
    thread: Option<JoinHandle<Option<String>>>,
}

impl Watch {
    /// Begins to watch the servers of a test.
    pub fn over(world: &str) -> Self {
        let (stop, looks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (world, stopped, looked) = (world.to_owned(), Arc::clone(&stop), Arc::clone(&looks));
        let watch = move || {
            while !stopped.load(Ordering::Relaxed) {
                if let Some(pair) = two_servers(&marked(&world)) {
                    return Some(pair);
                }
                looked.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(10));
            }
            None
        };
        Self { stop, looks, thread: Some(std::thread::spawn(watch)) }
    }

    /// Ends the watch; panics if it saw two servers of one session. Answers how often it looked.
    pub fn finish(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && let Some(pair) = thread.join().expect("the watch")
        {
            panic!("two servers of one session at once: {pair}");
        }
        self.looks.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Two servers of one session and of different generations that are certainly alive at one moment: the earlier seen one
/// is looked at again after the later seen one was.
fn two_servers(seen: &[Seen]) -> Option<String> {
    let mut first: HashMap<&str, (&Seen, &str)> = HashMap::new();
    for one in seen {
        let Role::Server { session, generation } = &one.role else { continue };
        let (other, other_generation) = *first.entry(session).or_insert((one, generation));
        if other_generation != generation && other.is_alive() && one.is_alive() && other.is_alive() {
            return Some(format!("{other:?} and {one:?}"));
        }
    }
    None
}
