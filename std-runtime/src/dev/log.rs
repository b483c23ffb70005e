//! What the server writes to its stderr, and what drowse has to say: whole lines on our own stderr, and the last of them
//! to be asked for. Values of the server's `env` are never shown.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use memchr::memmem;
use rustix::fs::FileType;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;
use tokio::task::spawn_local;

use crate::bridge::stdio;

/// A line without an end is cut there: it must not gather in memory.
const MAX_LINE: usize = 16 << 10;
/// How many lines are kept.
const MAX_LINES: usize = 1000;
/// How many bytes they may have in all.
const MAX_KEPT: usize = 1 << 20;
/// What waits for a stderr that nobody reads; more is dropped.
const MAX_BACKLOG: usize = 1 << 20;
/// Shorter values say nothing, and would be found in half of all words.
const MIN_SECRET: usize = 4;

/// The log of one proxy.
pub(super) struct Log(RefCell<Inner>);

struct Inner {
    out: Out,
    /// The beginning of a line whose end has not come, as the server wrote it.
    partial: Vec<u8>,
    lines: VecDeque<String>,
    kept: usize,
    /// Names and values, the longest value first. Those of earlier servers stay: their last words may still come.
    secrets: Vec<(String, Vec<u8>)>,
}

/// Where the lines go.
enum Out {
    /// A file or a terminal: written at once.
    Direct(File),
    /// A pipe or a socket, which may be full for as long as its reader likes.
    Queue(Rc<Queue>),
}

#[derive(Default)]
struct Queue {
    waiting: RefCell<Vec<u8>>,
    /// Some of it is being written.
    writing: Cell<bool>,
    /// Lines that found no room.
    dropped: RefCell<usize>,
    wake: Notify,
    empty: Notify,
}

impl Log {
    /// Writes to this stream. To be called within a `LocalSet`.
    pub(super) fn new(stderr: OwnedFd) -> Rc<Self> {
        let kind = rustix::fs::fstat(&stderr).map(|stat| FileType::from_raw_mode(stat.st_mode));
        let out = match kind {
            Ok(FileType::Fifo | FileType::Socket) => {
                let queue = Rc::new(Queue::default());
                if let Ok((writer, delivery)) = stdio::writer(stderr) {
                    spawn_local(write_all(writer, delivery, Rc::clone(&queue)));
                }
                Out::Queue(queue)
            }
            _ => Out::Direct(File::from(stderr)),
        };
        Rc::new(Self(RefCell::new(Inner {
            out,
            partial: Vec::new(),
            lines: VecDeque::new(),
            kept: 0,
            secrets: Vec::new(),
        })))
    }

    /// Never shows these values from now on.
    pub(super) fn redact(&self, env: &[(String, String)]) {
        let secrets = &mut self.0.borrow_mut().secrets;
        for (name, value) in env {
            // A value of several lines comes line by line.
            for part in value.lines().map(str::trim).filter(|part| is_secret(name, part)) {
                if !secrets.iter().any(|(_, known)| known == part.as_bytes()) {
                    secrets.push((name.clone(), part.as_bytes().to_vec()));
                }
            }
        }
        secrets.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
    }

    /// Takes what the server wrote to its stderr.
    pub(super) fn server(&self, bytes: &[u8]) {
        let mut inner = self.0.borrow_mut();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            inner.partial.extend_from_slice(part);
            if part.ends_with(b"\n") {
                inner.end_line();
            } else if inner.partial.len() > MAX_LINE {
                inner.cut_line();
            }
        }
    }

    /// The server is gone: what it wrote last is a line.
    pub(super) fn server_gone(&self) {
        let mut inner = self.0.borrow_mut();
        if !inner.partial.is_empty() {
            inner.end_line();
        }
    }

    /// Takes a line of drowse's own.
    pub(super) fn note(&self, text: &str) {
        let mut inner = self.0.borrow_mut();
        let line = inner.without_secrets(format!("drowse: {text}").as_bytes()).0;
        inner.line(&line);
    }

    /// Takes a log message of the server.
    pub(super) fn message(&self, text: &str) {
        let mut inner = self.0.borrow_mut();
        let line = inner.without_secrets(text.as_bytes()).0;
        inner.line(&line);
    }

    /// The same text without secrets.
    pub(super) fn redacted(&self, text: &str) -> String {
        let inner = self.0.borrow();
        String::from_utf8_lossy(&inner.without_secrets(text.as_bytes()).0).into_owned()
    }

    /// The last lines, oldest first.
    pub(super) fn tail(&self, count: usize) -> Vec<String> {
        let inner = self.0.borrow();
        let from = inner.lines.len().saturating_sub(count);
        inner.lines.iter().skip(from).cloned().collect()
    }

    /// Resolves when everything was written.
    pub(super) async fn flushed(&self) {
        let queue = match &self.0.borrow().out {
            Out::Queue(queue) => Rc::clone(queue),
            Out::Direct(_) => return,
        };
        while queue.writing.get() || !queue.waiting.borrow().is_empty() {
            queue.empty.notified().await;
        }
    }
}

impl Inner {
    fn end_line(&mut self) {
        let partial = std::mem::take(&mut self.partial);
        let line = self.without_secrets(partial.strip_suffix(b"\n").unwrap_or(&partial)).0;
        self.line(line.strip_suffix(b"\r").unwrap_or(&line));
    }

    /// Gives out what there is of a line that is too long, save for what may be the beginning of a secret.
    fn cut_line(&mut self) {
        let partial = std::mem::take(&mut self.partial);
        let (line, used) = self.without_secrets_until(&partial, partial.len().saturating_sub(self.overlap()));
        self.partial = partial.get(used..).unwrap_or_default().to_vec();
        self.line(&line);
    }

    /// How much of a secret may have come without being it.
    fn overlap(&self) -> usize {
        self.secrets.first().map_or(0, |(_, value)| value.len().saturating_sub(1))
    }

    fn without_secrets(&self, text: &[u8]) -> (Vec<u8>, usize) {
        self.without_secrets_until(text, text.len())
    }

    /// The text up to `end` without secrets, and how far that is: a secret that begins before goes on beyond.
    fn without_secrets_until(&self, text: &[u8], end: usize) -> (Vec<u8>, usize) {
        let mut clean = Vec::with_capacity(end);
        let mut at = 0;
        while at < end {
            let rest = text.get(at..).unwrap_or_default();
            // The first one that is there; of several at one place the longest.
            let found = self.secrets.iter().filter_map(|(name, value)| {
                memmem::find(rest, value).map(|place| (place, name.as_str(), value.len()))
            });
            let next = found.min_by_key(|(place, _, length)| (*place, std::cmp::Reverse(*length)));
            match next.filter(|(place, ..)| at + place < end) {
                Some((place, name, length)) => {
                    clean.extend_from_slice(rest.get(..place).unwrap_or_default());
                    clean.extend_from_slice(format!("[{name}]").as_bytes());
                    at += place + length;
                }
                None => {
                    clean.extend_from_slice(text.get(at..end).unwrap_or_default());
                    at = end;
                }
            }
        }
        (clean, at)
    }

    fn line(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line).into_owned();
        self.kept += text.len();
        self.lines.push_back(text);
        while self.lines.len() > MAX_LINES || self.kept > MAX_KEPT {
            self.kept -= self.lines.pop_front().map_or(0, |gone| gone.len());
        }
        self.out.write(line);
    }
}

impl Out {
    fn write(&mut self, line: &[u8]) {
        match self {
            // One write, so that the lines of several processes do not mix. Who has closed our stderr wants none.
            Self::Direct(file) => drop(file.write_all(&[line, b"\n"].concat())),
            Self::Queue(queue) => queue.push(line),
        }
    }
}

impl Queue {
    fn push(&self, line: &[u8]) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() + line.len() > MAX_BACKLOG {
            *self.dropped.borrow_mut() += 1;
            return;
        }
        let dropped = self.dropped.take();
        if dropped > 0 {
            waiting.extend_from_slice(
                format!("drowse: {dropped} lines were not read and are left out\n").as_bytes(),
            );
        }
        waiting.extend_from_slice(line);
        waiting.push(b'\n');
        self.wake.notify_one();
    }
}

async fn write_all(mut writer: stdio::Writer, delivery: stdio::Delivery, queue: Rc<Queue>) {
    loop {
        let next = std::mem::take(&mut *queue.waiting.borrow_mut());
        queue.writing.set(!next.is_empty());
        if next.is_empty() {
            queue.empty.notify_waiters();
            queue.wake.notified().await;
            continue;
        }
        // Who has closed our stderr wants no lines.
        let _ = writer.write_all(&next).await;
        delivery.done().await;
    }
}

/// Whether a value of the environment is worth hiding. What is set for a server is hidden unless it is plainly a setting.
fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let sounds_so = ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CRED"].iter().any(|word| name.contains(word));
    let is_setting = matches!(value, "true" | "false" | "production" | "development")
        || (value.len() < 8 && value.bytes().all(|byte| byte.is_ascii_digit()));
    value.len() >= MIN_SECRET && (sounds_so || !is_setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log into a file, and what is in the file.
    fn log(env: &[(&str, &str)], act: impl FnOnce(&Log)) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = Log::new(OwnedFd::from(file.reopen().unwrap()));
        let env: Vec<_> = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        log.redact(&env);
        act(&log);
        assert_eq!(std::fs::read_to_string(file.path()).unwrap().lines().collect::<Vec<_>>(), log.tail(5000));
        std::fs::read_to_string(file.path()).unwrap()
    }

    #[test]
    fn secrets_are_found_wherever_the_reads_are_cut() {
        let text = b"a s3cr3t-value b\nand s3cr3t-value\n";
        for cut in 0..text.len() {
            let (one, other) = text.split_at(cut);
            let shown = log(&[("KEY", "s3cr3t-value")], |log| {
                log.server(one);
                log.server(other);
            });
            assert_eq!(shown, "a [KEY] b\nand [KEY]\n", "{cut}");
        }
    }

    #[test]
    fn secrets_are_found_in_lines_that_are_cut_for_their_length() {
        for before in MAX_LINE - 20..MAX_LINE + 20 {
            let shown = log(&[("KEY", "s3cr3t-value")], |log| {
                log.server(&vec![b'x'; before]);
                log.server(b"s3cr3t");
                log.server(b"-value and more\n");
            });
            assert!(!shown.contains("s3cr3t") && !shown.contains("-value"), "{before}");
            assert!(shown.ends_with(" and more\n"), "{before}");
        }
    }

    #[test]
    fn the_longest_secret_counts_and_settings_are_none() {
        let env =
            [("A", "abcdef"), ("B", "abcdefgh"), ("PORT", "3000"), ("DEBUG", "true"), ("PIN_KEY", "1234")];
        let shown = log(&env, |log| {
            log.server(b"abcdefgh abcdef 3000 true 1234\n");
            log.note("abcdef");
        });
        assert_eq!(shown, "[B] [A] 3000 true [PIN_KEY]\ndrowse: [A]\n");
    }

    #[test]
    fn values_of_several_lines_are_hidden_line_by_line_and_old_ones_stay_hidden() {
        let shown = log(&[("PEM", "first-line\nsecond-line")], |log| {
            log.redact(&[("NEW".to_owned(), "another".to_owned())]);
            log.server(b"first-line\nsecond-line another\n");
        });
        assert_eq!(shown, "[PEM]\n[PEM] [NEW]\n");
    }

    #[test]
    fn last_words_without_an_end_are_a_line_and_memory_is_bounded() {
        let shown = log(&[], |log| {
            log.server(b"last words");
            log.server_gone();
        });
        assert_eq!(shown, "last words\n");
        let file = tempfile::tempfile().unwrap();
        let log = Log::new(OwnedFd::from(file));
        for _ in 0..3000 {
            log.note(&"x".repeat(1000));
        }
        assert!(log.tail(usize::MAX).len() <= MAX_LINES);
        assert!(log.0.borrow().kept <= MAX_KEPT);
    }

    #[test]
    fn lines_that_are_being_written_are_waited_for() {
        let (reads, writes) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let log = Log::new(writes);
            // More than the pipe holds, so that it is taken off the queue and not written.
            let line = "x".repeat(10_000);
            for _ in 0..40 {
                log.note(&line);
            }
            let short = std::time::Duration::from_millis(50);
            assert!(tokio::time::timeout(short, log.flushed()).await.is_err());
            let read = std::thread::spawn(move || {
                let mut all = vec![0; 40 * ("drowse: \n".len() + 10_000)];
                std::io::Read::read_exact(&mut File::from(reads), &mut all).unwrap();
            });
            log.flushed().await;
            tokio::task::spawn_blocking(|| read.join().unwrap()).await.unwrap();
        });
    }
}
