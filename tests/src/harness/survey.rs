//! Looking at the outside world: what processes there are, and when files change.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

/// The live processes that have this path in their environment or among their arguments: whatever was started in a
/// home carries its path, because it stands in `HOME` and `DROWSE_HOME` there. Never this process.
///
/// # Panics
/// If `/proc` cannot be read.
#[must_use]
pub fn belonging_to(path: &Path) -> Vec<u32> {
    let needle = path.as_os_str().as_encoded_bytes();
    let us = std::process::id();
    let names = |pid: u32, file| started_with(pid, file).windows(needle.len()).any(|window| window == needle);
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != us && (names(*pid, "environ") || names(*pid, "cmdline"))).collect()
}

/// What stands in a process's `environ` or `cmdline`, entries ended by NUL: nothing for a zombie and for one that has
/// ended. Whoever starts a process goes on before the new program's memory is in its place, where it has neither:
/// that is waited for.
pub(crate) fn started_with(pid: u32, file: &str) -> Vec<u8> {
    let process = Path::new("/proc").join(pid.to_string());
    let read = || fs::read(process.join(file)).unwrap_or_default();
    let found = poll_for(Duration::from_secs(5), || {
        let found = read();
        // Zombies and what is the kernel's have no program.
        let settled = !found.is_empty() || is_loaded(pid) || fs::read_link(process.join("exe")).is_err();
        // One that was missing just before that is there now.
        settled.then(|| if found.is_empty() { read() } else { found })
    });
    found.unwrap_or_default()
}

/// Whether a program is in its place: where its code starts is the last thing that an exec says.
fn is_loaded(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Of what stands behind the name the first is the third field of all.
    let start = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(26 - 3));
    start.is_some_and(|start| start != "0")
}

/// What a process is, for a failure's text.
pub(super) fn describe(pid: u32) -> String {
    let arguments = started_with(pid, "cmdline");
    format!("{pid} ({})", String::from_utf8_lossy(&arguments).replace('\0', " ").trim_end())
}

/// A directory that is watched for changes of the files in it.
#[derive(Debug)]
pub struct Watch(File);

impl Watch {
    /// Watches from now on. A directory that is removed meanwhile counts as changed once.
    ///
    /// # Errors
    /// If there is no such directory.
    pub fn on(directory: &Path) -> io::Result<Self> {
        use inotify::WatchFlags as Flags;
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let flags = Flags::MODIFY | Flags::CREATE | Flags::DELETE | Flags::MOVED_TO | Flags::DELETE_SELF;
        inotify::add_watch(&watch, directory, flags)?;
        Ok(Self(watch.into()))
    }

    /// Waits for a change since the last one. `false` at the deadline.
    ///
    /// # Errors
    /// If the kernel says so.
    pub fn changed(&mut self, deadline: Instant) -> io::Result<bool> {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        if poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&left))? == 0 {
            return Ok(false);
        }
        let mut events = [0; 4096];
        loop {
            match self.0.read(&mut events) {
                Ok(1..) => {}
                Ok(0) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Asks again and again for something that nothing announces. `None` at the limit.
pub(super) fn poll_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
