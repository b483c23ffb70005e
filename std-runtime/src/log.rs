//! A session's log: what its server wrote to stderr, and drowse's own lines.
//!
//! Owns the file's form (a time, who, the text), its cap with one rotation, and reading it from the end.
//! One process writes at a time: the bridge.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::event::PollFlags;
use rustix::fs::inotify;

use crate::record::now_ms;
use crate::regular;
use crate::wait::{Wait, Woken};

/// How large a log may become before it is rotated, in bytes. There are at most two of that size.
pub const DEFAULT_CAP: u64 = 1 << 20;
/// The longest text of one line, in bytes.
const MAX_LINE: usize = 16 << 10;
const BLOCK: u64 = 64 << 10;
/// So much of a log's end is looked at, in bytes.
const LOOKED_AT: u64 = 16 << 20;

/// A log that is written to.
#[derive(Debug)]
pub struct SessionLog {
    path: PathBuf,
    file: File,
    size: u64,
    cap: u64,
}

impl SessionLog {
    /// Opens or creates a log, readable by its owner only.
    ///
    /// # Errors
    /// If the file system refuses.
    pub fn open(path: PathBuf, cap: u64) -> io::Result<Self> {
        let file = append(&path)?;
        let size = file.metadata()?.len();
        Ok(Self { path, file, size, cap })
    }

    /// Writes one line of the server's stderr, without its newline.
    ///
    /// # Errors
    /// If the file system refuses. The log can still be used.
    pub fn server(&mut self, line: &[u8]) -> io::Result<()> {
        self.line("server", line)
    }

    /// Writes a line of drowse's own.
    ///
    /// # Errors
    /// If the file system refuses. The log can still be used.
    pub fn drowse(&mut self, text: &str) -> io::Result<()> {
        self.line("drowse", text.as_bytes())
    }

    /// The file as it is now, for a process that writes to it directly.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    fn line(&mut self, who: &str, text: &[u8]) -> io::Result<()> {
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let (text, cut) = match text.get(..MAX_LINE) {
            Some(start) if text.len() > MAX_LINE => (start, text.len() - MAX_LINE),
            _ => (text, 0),
        };
        let mut line = Vec::with_capacity(text.len() + 64);
        write!(line, "{} {who}: ", Timestamp(now_ms()))?;
        line.extend(text.iter().map(|b| if *b == b'\n' { b' ' } else { *b }));
        if cut > 0 {
            write!(line, " … {cut} more bytes")?;
        }
        line.push(b'\n');
        if self.size > 0 && self.size + line.len() as u64 > self.cap {
            self.rotate()?;
        }
        // In one write, so that a reader or a second writer never sees half a line.
        self.file.write_all(&line)?;
        self.size += line.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        fs::rename(&self.path, rotated(&self.path))?;
        self.file = append(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

/// The last `lines` lines of a log, the rotated part included. Empty if there is no log.
///
/// # Errors
/// If a file is there and cannot be read.
pub fn tail(path: &Path, lines: usize) -> io::Result<Vec<u8>> {
    let (last, found) = tail_of(path, lines)?;
    if found >= lines {
        return Ok(last);
    }
    let (mut text, _) = tail_of(&rotated(path), lines - found)?;
    text.extend_from_slice(&last);
    Ok(text)
}

fn tail_of(path: &Path, lines: usize) -> io::Result<(Vec<u8>, usize)> {
    let file = match regular::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(e) => return Err(e),
    };
    let end = file.metadata()?.len();
    if lines == 0 || end == 0 {
        return Ok((Vec::new(), 0));
    }
    // Backwards in blocks, each line's start is behind the newline before it.
    let mut start = end;
    let mut found = 0;
    let mut block = Vec::new();
    // A log of ours is never so long, and what else was put there need not have lines.
    let first = end.saturating_sub(LOOKED_AT);
    'search: while start > first {
        let len = start.min(BLOCK);
        let from = start - len;
        block.resize(usize::try_from(len).unwrap_or(0), 0);
        file.read_exact_at(&mut block, from)?;
        for (i, byte) in block.iter().enumerate().rev() {
            let at = from + i as u64;
            if *byte == b'\n' && at + 1 != end {
                found += 1;
                if found == lines {
                    start = at + 1;
                    break 'search;
                }
            }
        }
        start = from;
    }
    // The first line of the file has no newline before it.
    if found < lines {
        found += 1;
    }
    let mut text = vec![0; usize::try_from(end - start).unwrap_or(0)];
    file.read_exact_at(&mut text, start)?;
    Ok((text, found))
}

/// Reads what is appended to a log, across its rotations.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    watch: OwnedFd,
    file: Option<File>,
}

impl Follower {
    /// Starts at the end of the log as it is now. The log need not exist yet, its directory must.
    ///
    /// # Errors
    /// If the directory cannot be watched or the log not be opened.
    pub fn at_end(path: PathBuf) -> io::Result<Self> {
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let events = inotify::WatchFlags::MODIFY
            | inotify::WatchFlags::CREATE
            | inotify::WatchFlags::MOVED_TO
            | inotify::WatchFlags::DELETE_SELF
            | inotify::WatchFlags::ONLYDIR;
        inotify::add_watch(&watch, directory, events)?;
        // A directory that is removed says so only when the last file in it is closed, and ours is open.
        if let Some(parent) = directory.parent() {
            let events =
                inotify::WatchFlags::DELETE | inotify::WatchFlags::MOVED_FROM | inotify::WatchFlags::ONLYDIR;
            inotify::add_watch(&watch, parent, events)?;
        }
        let mut file = open_if_there(&path)?;
        if let Some(file) = &mut file {
            file.seek(SeekFrom::End(0))?;
        }
        Ok(Self { path, watch, file })
    }

    /// What was appended since the last time, maybe nothing.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn read_new(&mut self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        if let Some(file) = &mut self.file {
            file.read_to_end(&mut text)?;
        }
        let current = open_if_there(&self.path)?;
        let inode =
            |file: &Option<File>| file.as_ref().and_then(|f| f.metadata().ok()).map(|m| (m.dev(), m.ino()));
        if current.is_some() && inode(&current) != inode(&self.file) {
            // Rotated: what was written to the old file just before, then the new one from its start.
            if let Some(file) = &mut self.file {
                file.read_to_end(&mut text)?;
            }
            self.file = current;
            if let Some(file) = &mut self.file {
                file.read_to_end(&mut text)?;
            }
        }
        Ok(text)
    }

    /// Waits until something may have been appended.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn wait(&mut self, wait: Wait<'_>) -> io::Result<Woken> {
        let woken = {
            let wait = Wait { deadline: wait.deadline, interrupt: wait.interrupt };
            wait.poll(&[(self.watch.as_fd(), PollFlags::IN)])?
        };
        // Only that there were events counts.
        let mut sink = [0; 4096];
        while let Ok(1..) = rustix::io::read(&self.watch, &mut sink) {}
        Ok(woken)
    }

    /// Whether the log's directory is gone: the session was closed.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.path.parent().is_some_and(|directory| !directory.exists())
    }
}

fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match regular::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn append(path: &Path) -> io::Result<File> {
    regular::open_with(File::options().append(true).create(true).mode(0o600), path)
}

fn rotated(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// Milliseconds since 1970 as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp(pub u64);

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (days, of_day) = (self.0 / 86_400_000, self.0 % 86_400_000);
        // Counted from 1 March of year 0, so that the leap day is the last of its year; 400 years have
        // 146,097 days.
        let from_march = days + 719_468;
        let (era, of_era) = (from_march / 146_097, from_march % 146_097);
        let of_era_year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * of_era_year + of_era_year / 4 - of_era_year / 100);
        let shifted = (5 * of_year + 2) / 153;
        let day = of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = era * 400 + of_era_year + u64::from(month <= 2);
        let (secs, ms) = (of_day / 1000, of_day % 1000);
        let (h, m, s) = (secs / 3600, secs / 60 % 60, secs % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{ms:03}Z")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn log(cap: u64) -> (tempfile::TempDir, PathBuf, SessionLog) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = SessionLog::open(path.clone(), cap).unwrap();
        (dir, path, log)
    }

    fn text(path: &Path, lines: usize) -> Vec<String> {
        let tail = String::from_utf8(tail(path, lines).unwrap()).unwrap();
        tail.lines().map(|l| l.split_once(' ').unwrap().1.to_owned()).collect()
    }

    #[test]
    fn lines_say_when_and_who() {
        let (_dir, path, mut log) = log(DEFAULT_CAP);
        log.server(b"hello\r").unwrap();
        log.drowse("started\nagain").unwrap();
        assert_eq!(text(&path, 10), ["server: hello", "drowse: started again"]);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        log.server(&vec![b'x'; MAX_LINE + 7]).unwrap();
        assert!(text(&path, 1)[0].ends_with("x … 7 more bytes"));
    }

    #[test]
    fn at_most_two_files_of_the_cap() {
        let (dir, path, mut log) = log(1000);
        for i in 0..200 {
            log.server(format!("line {i}").as_bytes()).unwrap();
        }
        let files: Vec<u64> =
            fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(files.len(), 2);
        assert!(files.iter().all(|len| *len <= 1000), "{files:?}");
        // Across the rotation, in order, without a gap.
        let last = text(&path, 30);
        let want: Vec<String> = (170..200).map(|i| format!("server: line {i}")).collect();
        assert_eq!(last, want);
    }

    #[test]
    fn tails() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        assert_eq!(tail(&path, 5).unwrap(), b"");
        fs::write(&path, "").unwrap();
        assert_eq!(tail(&path, 5).unwrap(), b"");
        fs::write(&path, "a\nb\nc\n").unwrap();
        assert_eq!(tail(&path, 0).unwrap(), b"");
        assert_eq!(tail(&path, 2).unwrap(), b"b\nc\n");
        assert_eq!(tail(&path, 3).unwrap(), b"a\nb\nc\n");
        assert_eq!(tail(&path, 9).unwrap(), b"a\nb\nc\n");
        fs::write(&path, "a\nb").unwrap();
        assert_eq!(tail(&path, 1).unwrap(), b"b");
        fs::write(rotated(&path), "1\n2\n").unwrap();
        assert_eq!(tail(&path, 3).unwrap(), b"2\na\nb");
        // Lines that cross blocks.
        let long = format!("{}\n{}\n", "x".repeat(100_000), "y".repeat(100_000));
        fs::write(&path, &long).unwrap();
        assert_eq!(tail(&path, 1).unwrap(), &long.as_bytes()[100_001..]);
        assert_eq!(tail(&path, 2).unwrap(), long.as_bytes());
    }

    #[test]
    fn following_across_a_rotation() {
        let (_dir, path, mut log) = log(200);
        log.server(b"before").unwrap();
        let mut follower = Follower::at_end(path).unwrap();
        assert_eq!(follower.read_new().unwrap(), b"");
        let mut seen = String::new();
        for i in 0..6 {
            log.server(format!("line {i}").as_bytes()).unwrap();
            assert_eq!(follower.wait(Wait::at_most(Duration::from_secs(10))).unwrap(), Woken::Ready);
            seen.push_str(&String::from_utf8(follower.read_new().unwrap()).unwrap());
        }
        let lines: Vec<_> = seen.lines().map(|l| l.rsplit_once(' ').unwrap().1).collect();
        assert_eq!(lines, ["0", "1", "2", "3", "4", "5"]);
        assert!(!follower.is_gone());
    }

    #[test]
    fn times() {
        for (ms, want) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp(ms).to_string(), want);
        }
    }

    #[test]
    fn a_file_without_lines_is_not_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = File::create(&path).unwrap();
        file.set_len(8 << 30).unwrap();
        assert_eq!(tail(&path, 2).unwrap().len() as u64, LOOKED_AT);
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b"\na\nb\n").unwrap();
        assert_eq!(tail(&path, 2).unwrap(), b"a\nb\n");
    }
}
