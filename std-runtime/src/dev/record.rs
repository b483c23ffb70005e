//! What tells of a dev proxy's processes should it be killed: a file in the home, there from its first start or build to
//! its end, and locked for as long as the proxy lives.
//!
//! The file's name is what each process that comes of the proxy carries in its environment. Whoever gets the lock knows
//! that the proxy is gone, and that what still carries the name is left over; numbers of processes play no part in it. A
//! proxy that cannot write one works all the same.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::log::Log;
use crate::home::Home;
use crate::lock::{Lock, LockError};
use crate::process::{self, ProcessIdentity};
use crate::sys::procfs;
use crate::wait::Wait;

/// The environment variable with the name of the proxy's record.
pub(crate) const VARIABLE: &str = "DROWSE_DEV";

/// What the names of the files end with.
const SUFFIX: &str = ".dev";
/// How long the one that looks whether a new file is an old one may hold it.
const LOOKED_AT: Duration = Duration::from_secs(1);
/// How often a file is made that such a one has removed meanwhile.
const TRIES: usize = 3;
/// How long ending what others left may keep a server from being started.
const BEFORE_START: Duration = Duration::from_secs(3);
/// How long ending it may take otherwise, after the grace.
const SWEEP: Duration = Duration::from_secs(10);

/// A proxy's own record.
pub(super) struct Record {
    home: Option<Home>,
    id: String,
    written: Written,
}

enum Written {
    /// Nothing was started that it would tell of.
    NotYet,
    Held(Lock),
    /// That was said.
    Refused,
}

impl Record {
    pub(super) fn new(home: Option<Home>) -> Self {
        Self { home, id: process::new_marker(), written: Written::NotYet }
    }

    /// What the processes of the proxy have in their environment.
    pub(super) fn variable(&self) -> (String, String) {
        (VARIABLE.to_owned(), self.id.clone())
    }

    /// To be called before anything is started. The first time it ends what killed proxies left, too: that may have the
    /// port or the files that are needed now.
    pub(super) fn prepare(&mut self, log: &Log) {
        if !matches!(self.written, Written::NotYet) {
            return;
        }
        for left in self.home.iter().flat_map(left) {
            match left.end(Duration::ZERO, BEFORE_START) {
                Ok(0) => {}
                Ok(ended) => log.note(&format!("ended {}", count(ended))),
                Err(error) => log.note(&format!("what a killed dev proxy left cannot be ended: {error}")),
            }
        }
        let written = match &self.home {
            Some(home) => write(home, &self.id).map_err(|error| error.to_string()),
            None => Err("there is no home: set DROWSE_HOME".to_owned()),
        };
        self.written = match written {
            Ok(lock) => Written::Held(lock),
            Err(why) => {
                log.note(&format!(
                    "should this proxy be killed, nobody will find what its server leaves running: {why}"
                ));
                Written::Refused
            }
        };
    }

    /// Nothing runs any more.
    pub(super) fn remove(&mut self) {
        if let Written::Held(lock) = std::mem::replace(&mut self.written, Written::NotYet) {
            // Held until it is gone. One that cannot be removed tells of nobody.
            let _ = fs::remove_file(lock.path());
        }
    }
}

/// How many processes killed proxies left, for people.
#[must_use]
pub fn count(processes: usize) -> String {
    let plural = if processes == 1 { "process" } else { "processes" };
    format!("{processes} {plural} that a killed dev proxy left")
}

fn write(home: &Home, id: &str) -> Result<Lock, LockError> {
    home.prepare()?;
    let path = home.locks().join(format!("{id}{SUFFIX}"));
    let mut tries = 1;
    loop {
        let lock = Lock::acquire(&path, Wait::at_most(LOOKED_AT))?;
        // Whoever saw it before it was locked took it for one of a proxy that is gone.
        if lock.is_in_place() || tries == TRIES {
            // For people; where the disk is full, the name alone says enough.
            let _ = ProcessIdentity::of_self().and_then(|us| lock.note(&us));
            return Ok(lock);
        }
        tries += 1;
    }
}

/// What a killed proxy left, if anything of it is there still. Held, so that nobody else ends it.
#[derive(Debug)]
pub(crate) struct Left {
    id: String,
    lock: Lock,
}

/// The records of proxies that are gone.
pub(crate) fn left(home: &Home) -> Vec<Left> {
    let entries = fs::read_dir(home.locks()).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let name = entry.file_name();
        let id = name.to_str()?.strip_suffix(SUFFIX)?;
        // Whatever else somebody put there.
        let is_ours = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_ours.then(|| (id.to_owned(), entry.path()))
    });
    let gone = |(id, path): (String, PathBuf)| Some(Left { id, lock: Lock::try_acquire(&path).ok()?? });
    found.filter_map(gone).collect()
}

impl Left {
    fn variable(&self) -> String {
        format!("{VARIABLE}={}", self.id)
    }

    /// The processes that still run, with their command lines.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(crate) fn processes(&self) -> io::Result<Vec<(u32, String)>> {
        let (members, _) = process::carrying(&self.variable())?;
        let pids = members.iter().map(|member| member.stat.pid);
        Ok(pids.map(|pid| (pid, procfs::command_line(pid).unwrap_or_default().join(" "))).collect())
    }

    /// Ends what is left, TERM first if there is a `grace`, and forgets it. Answers how many processes there were.
    ///
    /// # Errors
    /// If one cannot be ended: it is told of again the next time.
    pub(crate) fn end(self, grace: Duration, limit: Duration) -> io::Result<usize> {
        let look = || process::carrying(&self.variable());
        let found = look()?.0;
        if !grace.is_zero() {
            let until = Instant::now() + grace;
            // Refused, or gone: what follows tells.
            let held: Vec<_> =
                found.iter().filter_map(|one| one.signal(Signal::TERM).ok().flatten()).collect();
            for process in held {
                process.wait(until)?;
            }
        }
        let swept = process::sweep_found(Instant::now() + limit, look)?;
        fs::remove_file(self.lock.path())?;
        Ok(found.len().max(swept.ended))
    }

    /// The same in the time that a command for that takes.
    ///
    /// # Errors
    /// As [`Self::end`].
    pub(crate) fn end_gently(self) -> io::Result<usize> {
        self.end(Duration::from_secs(2), SWEEP)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("h"), None);
        (dir, home)
    }

    fn sleeper(id: &str) -> Child {
        Command::new("sleep").arg("600").env(VARIABLE, id).stdin(Stdio::null()).spawn().unwrap()
    }

    fn ids(home: &Home) -> Vec<String> {
        left(home).into_iter().map(|left| left.id).collect()
    }

    #[test]
    fn a_record_tells_of_a_proxy_that_is_gone_and_of_no_other() {
        let (_dir, home) = home();
        assert!(left(&home).is_empty(), "there is no home yet");
        let (a, b) = (process::new_marker(), process::new_marker());
        let (lives, dies) = (write(&home, &a).unwrap(), write(&home, &b).unwrap());
        assert_eq!(ids(&home), [] as [String; 0]);
        drop(dies);
        assert_eq!(ids(&home), [b.as_str()]);
        let (mut mine, mut theirs) = (sleeper(&b), sleeper(&a));
        let found = left(&home).pop().unwrap();
        // By then it is the other program, with its environment.
        let until = Instant::now() + Duration::from_secs(20);
        while found.processes().unwrap().is_empty() {
            assert!(Instant::now() < until);
        }
        assert!(left(&home).is_empty(), "somebody is at it");
        assert_eq!(found.end_gently().unwrap(), 1);
        assert!(mine.wait().unwrap().code().is_none());
        assert!(theirs.try_wait().unwrap().is_none(), "that of the one that lives");
        assert_eq!(ids(&home), [] as [String; 0]);
        theirs.kill().unwrap();
        theirs.wait().unwrap();
        drop(lives);
    }

    #[test]
    fn whoever_has_a_number_that_stands_in_a_record_is_not_touched() {
        let (_dir, home) = home();
        let id = process::new_marker();
        let record = write(&home, &id).unwrap();
        let mut other = sleeper("");
        // As if the proxy's number were that one's by now; its own process is not noted in vain either.
        record.note(&ProcessIdentity::of(other.id()).unwrap()).unwrap();
        drop(record);
        assert_eq!(left(&home).pop().unwrap().end_gently().unwrap(), 0);
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn files_of_others_are_left_alone() {
        let (_dir, home) = home();
        home.prepare().unwrap();
        for name in ["x.dev", ".dev", "s.start", "s.bridge"] {
            fs::write(home.locks().join(name), "").unwrap();
        }
        assert!(left(&home).is_empty());
    }
}
