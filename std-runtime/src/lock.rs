//! The two locks of a session: L (somebody starts, closes or changes it) and B (a bridge lives).
//!
//! Owns taking, waiting for and handing down of locks on files that are never renamed or unlinked. The
//! kernel frees a lock when the last descriptor of its holder is closed, so nothing here cleans up.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use rustix::event::PollFlags;

use crate::home::HomeError;
use crate::process::ProcessIdentity;
use crate::regular;
use crate::sys;
use crate::wait::{Wait, Woken};

/// How often the list of all locks is read again until it agrees with itself.
const AGREEMENT: usize = 8;
/// More than the kernel gives of that list at once.
const PIECE: usize = 64 << 10;

/// A longer note is none.
const MAX_NOTE: u64 = 64 << 10;

/// Why a lock could not be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The file cannot be opened or locked.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Somebody else held it until the deadline.
    #[error("{} was held by another process until the deadline: try again, or see what it does", path.display())]
    Deadline {
        /// The file.
        path: PathBuf,
    },
    /// The user interrupted the wait.
    #[error("interrupted while waiting for {}", path.display())]
    Interrupted {
        /// The file.
        path: PathBuf,
    },
}

/// A lock that is held until this and everything that inherited it is gone.
#[derive(Debug)]
pub struct Lock {
    file: Arc<File>,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock, or waits for it.
    ///
    /// # Errors
    /// If the file cannot be locked, or not within the wait.
    pub fn acquire(path: &Path, wait: Wait<'_>) -> Result<Self, LockError> {
        let mut contended = match Self::attempt(path)? {
            Attempt::Held(lock) => return Ok(lock),
            Attempt::Contended(contended) => contended,
        };
        loop {
            let woken = wait.poll(&[(contended.as_fd(), PollFlags::IN)]).map_err(|e| refused(path, e))?;
            match woken {
                Woken::Ready => match contended.take()? {
                    Attempt::Held(lock) => return Ok(lock),
                    Attempt::Contended(still) => contended = still,
                },
                Woken::Deadline => return Err(LockError::Deadline { path: path.to_owned() }),
                Woken::Interrupted => return Err(LockError::Interrupted { path: path.to_owned() }),
            }
        }
    }

    /// Takes the lock if nobody has it.
    ///
    /// # Errors
    /// If the file cannot be locked.
    pub fn try_acquire(path: &Path) -> Result<Option<Self>, LockError> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file: Arc::new(file), path: path.to_owned() })),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(e)) => Err(refused(path, e).into()),
        }
    }

    /// Takes the lock, or starts to wait for it: for those who wait for other things at the same time.
    ///
    /// # Errors
    /// If the file cannot be locked.
    pub fn attempt(path: &Path) -> Result<Attempt, LockError> {
        match Self::try_acquire(path)? {
            Some(lock) => Ok(Attempt::Held(lock)),
            None => Contended::new(path).map(Attempt::Contended),
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its file is still where it was, and no other in its place.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        let (Ok(ours), Ok(there)) = (self.file.metadata(), std::fs::metadata(&self.path)) else {
            return false;
        };
        (ours.dev(), ours.ino()) == (there.dev(), there.ino())
    }

    /// Lets the program that `command` starts inherit the lock: it is then free only when both are done
    /// with it. Answers the number that its descriptor has there.
    ///
    /// Only that program gets it: the mark that keeps descriptors out of new programs is cleared in the
    /// child, so that whatever other threads start at the same time does not inherit it too. `command`
    /// itself holds the lock as well: drop it when the program is started.
    pub fn hand_down(&self, command: &mut Command) -> RawFd {
        sys::handover::hand_down(command, Arc::clone(&self.file));
        self.file.as_raw_fd()
    }

    /// Writes down for whom the lock is held, for those who wait for it: a bridge that inherited it. What an
    /// earlier holder wrote stays until then, so it is to be checked against the process.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn note(&self, holder: &ProcessIdentity) -> io::Result<()> {
        let mut text = serde_json::to_vec(holder)?;
        text.push(b'\n');
        self.file.set_len(0)?;
        self.file.write_all_at(&text, 0)
    }

    /// A second handle of the same lock: it is free when both are gone.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { file: Arc::clone(&self.file), path: self.path.clone() }
    }
}

impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What came of trying to take a lock.
#[derive(Debug)]
pub enum Attempt {
    /// It is ours.
    Held(Lock),
    /// Somebody else has it.
    Contended(Contended),
}

/// A wait for a lock. Its descriptor becomes readable when the wait is over; dropping it gives up.
///
/// The kernel can wait for a lock but not until a deadline, and `poll` does not know locks. So a thread
/// waits; one that is given up lets go of the lock as soon as it gets it.
#[derive(Debug)]
pub struct Contended {
    path: PathBuf,
    over: PipeReader,
    outcome: Receiver<io::Result<File>>,
}

impl Contended {
    fn new(path: &Path) -> Result<Self, LockError> {
        let file = open(path)?;
        let (over, notify) = io::pipe().map_err(|e| refused(path, e))?;
        let (send, outcome) = sync_channel(1);
        let wait = move || {
            let result = loop {
                match file.lock() {
                    Ok(()) => break Ok(file),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => break Err(e),
                }
            };
            // Nobody listens any more: then the lock ends here, with the file.
            let _ = send.send(result);
            drop(notify);
        };
        thread::Builder::new()
            .name("lock".to_owned())
            .stack_size(64 << 10)
            .spawn(wait)
            .map_err(|e| refused(path, e))?;
        Ok(Self { path: path.to_owned(), over, outcome })
    }

    /// What the wait came to, or itself if it is not over.
    ///
    /// # Errors
    /// If the file could not be locked.
    pub fn take(self) -> Result<Attempt, LockError> {
        match self.outcome.try_recv() {
            Ok(Ok(file)) => Ok(Attempt::Held(Lock { file: Arc::new(file), path: self.path })),
            Ok(Err(e)) => Err(refused(&self.path, e).into()),
            Err(std::sync::mpsc::TryRecvError::Empty) => Ok(Attempt::Contended(self)),
            Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                Err(refused(&self.path, io::Error::other("the waiting thread ended")).into())
            }
        }
    }
}

impl AsFd for Contended {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.over.as_fd()
    }
}

/// What was noted in a lock's file, if anything.
#[must_use]
pub fn noted(path: &Path) -> Option<ProcessIdentity> {
    serde_json::from_slice(&regular::start_of(path, MAX_NOTE).ok()?).ok()
}

/// The processes that took a lock and have not freed it, as far as the kernel tells: those that inherited it are not
/// named, nor are those of other containers.
pub(crate) fn holders(path: &Path) -> Vec<u32> {
    let Ok(inode) = std::fs::metadata(path).map(|meta| meta.ino().to_string()) else { return Vec::new() };
    // The kernel gives the list in pieces. One that changes meanwhile, by whatever locks there are on the machine, may miss a
    // line or show it twice.
    let mut last = holders_now(&inode);
    for _ in 0..AGREEMENT {
        let again = holders_now(&inode);
        if again == last {
            break;
        }
        last = again;
    }
    last.into_iter().collect()
}

fn holders_now(inode: &str) -> BTreeSet<u32> {
    // In pieces as large as the kernel has them, each of which is of one moment: most lists are one.
    let mut locks = String::with_capacity(PIECE);
    let _ = File::open("/proc/locks").and_then(|mut list| list.read_to_string(&mut locks));
    let held = |line: &str| {
        // Number, FLOCK (or an arrow for those who wait), ADVISORY, WRITE, process, device and inode, range.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = fields[..] else { return None };
        file.rsplit(':').next().filter(|found| *found == inode)?;
        pid.parse().ok()
    };
    locks.lines().filter_map(held).collect()
}

/// Whether a process has a lock's file open: without that it cannot hold the lock. `None` if the kernel does
/// not tell.
pub(crate) fn is_open_in(path: &Path, pid: u32) -> Option<bool> {
    let wanted = std::fs::metadata(path).ok()?;
    let mut descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    Some(descriptors.any(|descriptor| {
        // Following the link leads to the open file itself, whatever it is called by now.
        descriptor
            .and_then(|descriptor| std::fs::metadata(descriptor.path()))
            .is_ok_and(|file| (file.dev(), file.ino()) == (wanted.dev(), wanted.ino()))
    }))
}

fn open(path: &Path) -> Result<File, HomeError> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|e| HomeError::io("open", path, e))
}

fn refused(path: &Path, error: io::Error) -> HomeError {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        // What network file systems without a lock service say.
        Some(rustix::io::Errno::NOLCK | rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            HomeError::Network { path: path.to_owned(), kind: "it has no locks" }
        }
        _ => HomeError::io("lock", path, error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    use super::*;

    fn file() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("l");
        (dir, path)
    }

    #[test]
    fn one_holder_at_a_time() {
        let (_dir, path) = file();
        let held = Lock::try_acquire(&path).unwrap().unwrap();
        assert!(Lock::try_acquire(&path).unwrap().is_none());
        let shared = held.share();
        drop(held);
        assert!(Lock::try_acquire(&path).unwrap().is_none());
        drop(shared);
        assert!(Lock::try_acquire(&path).unwrap().is_some());
        assert!(path.exists());
    }

    #[test]
    fn a_wait_ends_with_the_holder() {
        let (_dir, path) = file();
        let held = Lock::try_acquire(&path).unwrap().unwrap();
        let Attempt::Contended(contended) = Lock::attempt(&path).unwrap() else { panic!("free") };
        let Attempt::Contended(contended) = contended.take().unwrap() else { panic!("free") };
        drop(held);
        let wait = Wait::at_most(Duration::from_secs(10));
        assert_eq!(wait.poll(&[(contended.as_fd(), PollFlags::IN)]).unwrap(), Woken::Ready);
        assert!(matches!(contended.take().unwrap(), Attempt::Held(_)));
    }

    #[test]
    fn a_wait_ends_at_its_deadline_or_interrupt() {
        let (_dir, path) = file();
        let held = Lock::try_acquire(&path).unwrap().unwrap();
        let now = Wait { deadline: Some(Instant::now()), interrupt: None };
        assert!(matches!(Lock::acquire(&path, now), Err(LockError::Deadline { .. })));
        let (interrupt, mut raise) = io::pipe().unwrap();
        raise.write_all(b"x").unwrap();
        let wait = Wait { deadline: None, interrupt: Some(interrupt.as_fd()) };
        assert!(matches!(Lock::acquire(&path, wait), Err(LockError::Interrupted { .. })));
        // The two waits that were given up do not keep the lock.
        drop(held);
        drop(Lock::acquire(&path, Wait::at_most(Duration::from_secs(10))).unwrap());
    }

    #[test]
    fn a_child_that_inherits_it_keeps_it_and_only_that_child() {
        let (_dir, path) = file();
        let held = Lock::try_acquire(&path).unwrap().unwrap();
        let mut command = Command::new("cat");
        let number = held.hand_down(&mut command);
        let mut heir = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        drop(command);
        let mut other = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let inherited = |pid: u32| std::fs::read_link(format!("/proc/{pid}/fd/{number}")).ok();
        assert_eq!(inherited(heir.id()).as_deref(), Some(path.as_path()));
        assert_ne!(inherited(other.id()).as_deref(), Some(path.as_path()));
        drop(held);
        assert!(Lock::try_acquire(&path).unwrap().is_none());
        drop(heir.stdin.take());
        heir.wait().unwrap();
        assert!(Lock::try_acquire(&path).unwrap().is_some());
        drop(other.stdin.take());
        other.wait().unwrap();
    }

    #[test]
    fn a_file_that_is_gone_or_another_one_is_not_in_place() {
        let (_dir, path) = file();
        let held = Lock::try_acquire(&path).unwrap().unwrap();
        assert!(held.is_in_place());
        std::fs::remove_file(&path).unwrap();
        assert!(!held.is_in_place());
        let other = Lock::try_acquire(&path).unwrap().unwrap();
        assert!(!held.is_in_place() && other.is_in_place());
    }

    #[test]
    fn a_killed_holder_frees_it() {
        let (_dir, path) = file();
        let held = Lock::try_acquire(&path).unwrap().unwrap();
        let mut command = Command::new("cat");
        held.hand_down(&mut command);
        let mut heir = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        drop(command);
        drop(held);
        heir.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        heir.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let Attempt::Contended(contended) = Lock::attempt(&path).unwrap() else { panic!("free") };
        heir.kill().unwrap();
        let wait = Wait::at_most(Duration::from_secs(10));
        assert_eq!(wait.poll(&[(contended.as_fd(), PollFlags::IN)]).unwrap(), Woken::Ready);
        heir.wait().unwrap();
    }

    #[test]
    fn a_note_says_who_and_the_process_table_whether_it_is_true() {
        let (_dir, path) = file();
        assert_eq!(noted(&path), None);
        let held = Lock::try_acquire(&path).unwrap().unwrap();
        assert_eq!((noted(&path), holders(&path)), (None, vec![std::process::id()]));
        let me = ProcessIdentity::of_self().unwrap();
        held.note(&ProcessIdentity { boot_id: "x".repeat(500), ..me.clone() }).unwrap();
        held.note(&me).unwrap();
        assert_eq!(noted(&path), Some(me.clone()));
        assert_eq!(is_open_in(&path, me.pid), Some(true));
        drop(held);
        // A child that another test starts has it, too, until it becomes another program.
        let until = Instant::now() + Duration::from_secs(20);
        while !holders(&path).is_empty() {
            assert!(Instant::now() < until);
            thread::yield_now();
        }
        assert_eq!(noted(&path), Some(me.clone()));
        assert_eq!(is_open_in(&path, me.pid), Some(false));
        assert_eq!(is_open_in(&path, 0), None);
    }

    #[test]
    fn a_missing_directory_is_named() {
        let (dir, _) = file();
        let error = Lock::try_acquire(&dir.path().join("no/l")).unwrap_err().to_string();
        assert!(error.contains("cannot open") && error.contains("no/l"), "{error}");
    }
}
