//! What happened to a session, in its `life.jsonl`: a line for each change of its public state.
//!
//! Owns the file's form, appending to it, keeping it small, and reading it; what a life comes to is in [`Totals`]. The
//! bridge writes when the public state changes, with what was counted in the awake period that the line ends; callers
//! write what they do to a session. Nothing is written per call and nothing is synced: a bridge that is killed takes the
//! counts of its last awake period with it, and a power cut may take the last lines. Who reads never writes.
//!
//! Each line is one write at the end of the file, so lines of several processes never mix. When the file has become too
//! large, its older half is replaced by one line that says what it came to, so that totals stay what they are. Those who
//! append hold the file's own lock shared, who replaces it holds it alone; nobody waits for it longer than a moment.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use drowse_core::tally::Counts;
pub use drowse_core::tally::Histogram;
use serde::{Deserialize, Serialize};

use crate::home::{Home, HomeError, SessionName};
use crate::record::{Durability, State, now_ms, replace};
use crate::regular;

mod periods;
mod totals;

pub use periods::Period;
pub use totals::{Latency, Totals};

/// Above this size the older half is folded into one line.
pub const CAP: u64 = 256 << 10;
/// A file larger than this was not written by us, and is read no further.
const READ_AT_MOST: u64 = 16 << 20;
/// The longest reason that is kept, in characters.
const WHY: usize = 200;
/// How long it may take to fold a file.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// The version of lines that this build writes, and the newest that it reads.
const VERSION: u32 = 1;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// The version of the line; none is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v: Option<u32>,
    /// The public state from then on.
    #[serde(default, with = "word", skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// What a caller did: `connect`, `restart`, `set`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub did: Option<String>,
    /// The generation that the state is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// The first line of a bridge: what the last one did not write, nobody knows.
    #[serde(default, skip_serializing_if = "is_false")]
    pub fresh: bool,
    /// It was told to end.
    #[serde(default, skip_serializing_if = "is_false")]
    pub told: bool,
    /// Operations that ended in the awake period that the line ends.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls: u64,
    /// Those that did not end with a result.
    #[serde(default, skip_serializing_if = "Errors::is_none")]
    pub errors: Errors,
    /// How long operations took.
    #[serde(default, skip_serializing_if = "Latency::is_empty")]
    pub latency: Latency,
    /// What the server's processes used when they were let go, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What the lines came to that stood here before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folded: Option<Box<Totals>>,
}

/// Operations that did not end with a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Errors {
    /// With an error of the server's.
    #[serde(skip_serializing_if = "is_zero")]
    pub theirs: u64,
    /// With an error of drowse's.
    #[serde(skip_serializing_if = "is_zero")]
    pub ours: u64,
    /// Timed out.
    #[serde(skip_serializing_if = "is_zero")]
    pub timed_out: u64,
    /// Cancelled.
    #[serde(skip_serializing_if = "is_zero")]
    pub cancelled: u64,
}

impl Errors {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.theirs.saturating_add(self.ours).saturating_add(self.timed_out).saturating_add(self.cancelled)
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, more: &Self) {
        self.theirs = self.theirs.saturating_add(more.theirs);
        self.ours = self.ours.saturating_add(more.ours);
        self.timed_out = self.timed_out.saturating_add(more.timed_out);
        self.cancelled = self.cancelled.saturating_add(more.cancelled);
    }
}

impl From<&Counts> for Errors {
    fn from(counts: &Counts) -> Self {
        Self {
            theirs: counts.theirs,
            ours: counts.ours,
            timed_out: counts.timed_out,
            cancelled: counts.cancelled,
        }
    }
}

impl Line {
    /// That somebody did something.
    #[must_use]
    pub fn did(what: &str, why: Option<&str>) -> Self {
        Self { at: now_ms(), did: Some(what.to_owned()), why: why.map(str::to_owned), ..Self::default() }
    }

    /// The same line with what was counted.
    #[must_use]
    pub fn with_counts(self, counts: &Counts, latency: &Histogram) -> Self {
        Self { calls: counts.calls, errors: counts.into(), latency: Latency::from(latency), ..self }
    }
}

/// A session's life as its file tells it.
#[derive(Debug, Default)]
pub struct Life {
    /// What all of it came to, up to its last line.
    pub totals: Totals,
    /// What the lines came to that are folded.
    pub folded: Option<Box<Totals>>,
    /// The lines that are not folded, oldest first.
    pub lines: Vec<Line>,
    /// How many lines are none: cut off, or no such JSON. They are passed over.
    pub damaged: u64,
    /// How many lines a newer drowse wrote. They are passed over, and kept.
    pub newer: u64,
}

impl Life {
    /// Reads the life of a session; an empty one if nothing was written down.
    ///
    /// # Errors
    /// If the file cannot be read. Lines that make no sense are no error: they are counted and passed over.
    pub fn read(home: &Home, name: &SessionName) -> Result<Self, HomeError> {
        let path = home.life_file(name);
        match regular::open(&path) {
            Ok(file) => Self::of(&file).map_err(|error| HomeError::io("read", &path, error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(HomeError::io("open", &path, error)),
        }
    }

    fn of(file: &File) -> io::Result<Self> {
        let mut bytes = Vec::new();
        file.take(READ_AT_MOST).read_to_end(&mut bytes)?;
        let mut life = Self::default();
        for raw in bytes.split(|byte| *byte == b'\n') {
            match parse(raw) {
                Parsed::Nothing => {}
                Parsed::Damaged => life.damaged += 1,
                Parsed::Newer => life.newer += 1,
                Parsed::Line(line) => {
                    life.totals.add(&line);
                    if line.folded.is_some() {
                        life.folded = Some(Box::new(life.totals.clone()));
                    } else {
                        life.lines.push(*line);
                    }
                }
            }
        }
        Ok(life)
    }
}

/// Adds a line to the life of a session whose directory exists.
///
/// # Errors
/// If the file system refuses. Whether the line is in the file is then not known; the next one stands on a line of its
/// own in any case.
pub fn append(home: &Home, name: &SessionName, line: &Line) -> io::Result<()> {
    append_to(&home.life_file(name), line, CAP)
}

/// Writes down what somebody did to a session. A file that cannot be written costs the line, and nothing else.
pub fn note(home: &Home, name: &SessionName, what: &str, why: Option<&str>) {
    let _ = append(home, name, &Line::did(what, why));
}

fn append_to(path: &Path, line: &Line, cap: u64) -> io::Result<()> {
    // Whoever folds the file replaces it: a line must not go into the old one.
    const LOOKS: u32 = 30;
    let mut text = vec![b'\n'];
    match &line.why {
        Some(why) if why.chars().nth(WHY).is_some() => {
            let short: String = why.chars().take(WHY).chain(['…']).collect();
            serde_json::to_writer(&mut text, &Line { why: Some(short), ..line.clone() })?;
        }
        _ => serde_json::to_writer(&mut text, line)?,
    }
    text.push(b'\n');
    for look in 1..=LOOKS {
        let mut file =
            regular::open_with(File::options().read(true).append(true).create(true).mode(0o600), path)?;
        // Who folds is done in a moment. If not (somebody stopped it), the line may be lost, but nobody waits for ever.
        let held = file.try_lock_shared().is_ok();
        let meta = file.metadata()?;
        let is_it =
            std::fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (meta.dev(), meta.ino()));
        if look < LOOKS && !(held && is_it) {
            if !held {
                std::thread::sleep(LOOK_AGAIN);
            }
            continue;
        }
        // What a full disk cut off stays a line of its own.
        let mut last = [b'\n'];
        if meta.len() > 0 {
            file.read_exact_at(&mut last, meta.len() - 1)?;
        }
        let from = usize::from(last == [b'\n']);
        let text = text.get(from..).unwrap_or_default();
        if file.write(text)? < text.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        drop(file);
        if meta.len() + text.len() as u64 > cap {
            fold(path, cap)?;
        }
        return Ok(());
    }
    Ok(())
}

/// Replaces the older half of a file by one line.
fn fold(path: &Path, cap: u64) -> io::Result<()> {
    let file = regular::open_with(File::options().read(true).write(true), path)?;
    if file.try_lock().is_err() {
        // Somebody appends, or folds: whoever comes next finds it too large as well.
        return Ok(());
    }
    let meta = file.metadata()?;
    let is_it = std::fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (meta.dev(), meta.ino()));
    if !is_it || meta.len() <= cap {
        return Ok(());
    }
    let mut bytes = Vec::new();
    (&file).take(READ_AT_MOST).read_to_end(&mut bytes)?;
    let mut totals = Totals::default();
    let mut kept = Vec::new();
    let mut at = 0;
    // The last line of the older half is the first that ends beyond its middle.
    let middle = bytes.len() - usize::try_from(cap / 2).unwrap_or(bytes.len()).min(bytes.len());
    for raw in bytes.split_inclusive(|byte| *byte == b'\n') {
        let is_old = at < middle;
        at += raw.len();
        let content = raw.strip_suffix(b"\n").unwrap_or(raw);
        match parse(content) {
            Parsed::Line(line) if is_old => totals.add(&line),
            Parsed::Damaged if is_old => totals.damaged += 1,
            Parsed::Nothing => {}
            Parsed::Newer | Parsed::Line(_) | Parsed::Damaged => {
                kept.extend_from_slice(content);
                kept.push(b'\n');
            }
        }
    }
    let summary = Line { at: totals.at, folded: Some(Box::new(totals)), ..Line::default() };
    let mut text = serde_json::to_vec(&summary)?;
    text.push(b'\n');
    text.append(&mut kept);
    replace(path, &text, Durability::Lazy).map_err(io::Error::other)
}

enum Parsed {
    Nothing,
    Damaged,
    Newer,
    Line(Box<Line>),
}

fn parse(raw: &[u8]) -> Parsed {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    if raw.trim_ascii().is_empty() {
        return Parsed::Nothing;
    }
    let is_newer = || serde_json::from_slice::<Version>(raw).is_ok_and(|version| version.v > VERSION);
    match serde_json::from_slice::<Line>(raw) {
        Ok(line) if line.v.is_some_and(|v| v > VERSION) => Parsed::Newer,
        Ok(line) if line.state.is_none() && line.did.is_none() && line.folded.is_none() => Parsed::Damaged,
        Ok(line) => Parsed::Line(Box::new(line)),
        Err(_) if is_newer() => Parsed::Newer,
        Err(_) => Parsed::Damaged,
    }
}

/// The life of one session, as its bridge writes it.
#[derive(Debug)]
pub(crate) struct Writer {
    path: PathBuf,
    fresh: bool,
}

impl Writer {
    pub(crate) fn new(home: &Home, name: &SessionName) -> Self {
        Self { path: home.life_file(name), fresh: true }
    }

    /// Writes a line; the first one says that it is the first.
    pub(crate) fn write(&mut self, line: Line) -> io::Result<()> {
        append_to(&self.path, &Line { fresh: self.fresh, ..line }, CAP)?;
        self.fresh = false;
        Ok(())
    }
}

mod word {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    use super::State;

    #[expect(clippy::ref_option, reason = "serde gives it that way")]
    pub(super) fn serialize<S: Serializer>(state: &Option<State>, serializer: S) -> Result<S::Ok, S::Error> {
        match state {
            Some(state) => serializer.serialize_str(state.name()),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<State>, D::Error> {
        let Some(word) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let state = State::from_name(&word);
        state.map(Some).ok_or_else(|| D::Error::custom(format!("there is no state `{word}`")))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives it that way")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives it that way")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[cfg(test)]
mod tests;
