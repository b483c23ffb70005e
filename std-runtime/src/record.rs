//! The two records of a session: what is wanted (`session.json`) and what is (`state.json`).
//!
//! Owns their shapes, schema versions, atomic writes and reads that explain themselves. Takes no lock:
//! the holder of L writes `session.json`; the holder of B, or of L while B is free, writes `state.json`.
//! Never holds a value from the environment: see `credential`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::home::{Home, HomeError, SessionName};
use crate::process::ProcessIdentity;
use crate::regular;
use crate::share::Share;
use crate::wire::FileSync;

pub(crate) mod aside;
mod setting;
mod settings;

pub use setting::{Setting, Source};
pub use settings::{
    DEFAULT_CONNECT_TIMEOUT_MS, DEFAULT_MAX_TIMEOUT_MS, DEFAULT_STOP_GRACE_MS, DEFAULT_TIMEOUT_MS, OnExpiry,
    Settings,
};

/// The schema of both records that this build writes, and the newest that it reads.
pub const SCHEMA: u32 = 1;

/// A record larger than this is not ours.
const MAX_RECORD: u64 = 16 << 20;
/// Most records are smaller than this.
const USUAL_RECORD: usize = 4 << 10;

/// Where it is said what a session runs, or where its server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// The command line.
    Command,
    /// An entry of a configuration file.
    Entry {
        /// The file, absolute.
        file: PathBuf,
        /// The entry's name.
        entry: String,
    },
    /// A URL on the command line.
    Url,
}

/// What is wanted of a session. Strings from a configuration file keep their `${VAR}`; values of variables
/// are in the credential store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRecord {
    /// The schema version.
    pub schema: u32,
    /// Where it is said what it runs, or where its server is.
    pub target: Target,
    /// The program; empty for a server behind a URL.
    #[serde(default)]
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Where the server is, if it is one behind a URL: `command`, `args` and `cwd` then mean nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The headers that the entry names, as in `env`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Option<String>>,
    /// The names of the headers that were given with `-H`; their values are in the credential store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given_headers: Vec<String>,
    /// Its working directory.
    pub cwd: String,
    /// The environment that the entry names: a template that is expanded at each start, or `None` where the
    /// entry had a literal value, which is in the credential store.
    #[serde(default)]
    pub env: BTreeMap<String, Option<String>>,
    /// The variables that were given with `--env`; their values are in the credential store.
    #[serde(default)]
    pub pins: Vec<String>,
    /// The settings in force.
    #[serde(default)]
    pub settings: Settings,
    /// Those of them that were given on the command line, and so outlive an edit of the entry.
    #[serde(default)]
    pub given: Settings,
    /// Those that its entry has; absent in a record of a drowse that did not keep them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<Settings>,
    /// Whether the entry says that it is started unasked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_connect: Option<bool>,
    /// The files that its bridge keeps equal to resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub syncs: Vec<FileSync>,
    /// Where it is shared over HTTP, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// What it runs and with which credentials, as a hash ([`crate::identity`]): what is known of its server holds only
    /// for that. Empty: not said yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// When the session was made, in milliseconds since 1970.
    pub created: u64,
}

/// How long a server that keeps crashing is not started, at most.
pub use drowse_core::crash::WINDOW as CRASH_WINDOW;
/// The public states are the core's own; a record holds their words.
pub use drowse_core::lifecycle::PublicState as State;
/// What each of them means, what to do next, and how each is left.
pub use drowse_core::lifecycle::table as states;

mod word {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    use super::State;

    pub(super) fn serialize<S: Serializer>(state: &State, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(state.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<State, D::Error> {
        let word = String::deserialize(deserializer)?;
        State::from_name(&word).ok_or_else(|| D::Error::custom(format!("there is no state `{word}`")))
    }
}

/// What a negotiation found, so that the next start need not probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EraMemory {
    /// `legacy` or `modern`.
    pub era: String,
    /// The revision.
    pub protocol_version: String,
}

/// What is known of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateRecord {
    /// The schema version.
    pub schema: u32,
    /// How many times a server was started.
    pub generation: u64,
    /// What every process of that generation carries as `DROWSE_GENERATION`.
    pub marker: String,
    /// The public state.
    #[serde(with = "word")]
    pub state: State,
    /// Since when, in milliseconds since 1970.
    pub since: u64,
    /// The bridge that wrote this.
    #[serde(default)]
    pub bridge: Option<ProcessIdentity>,
    /// The server's process.
    #[serde(default)]
    pub server_pid: Option<u32>,
    /// Whether the tree of `marker` is known to be gone.
    #[serde(default)]
    pub ended: bool,
    /// What the negotiation found.
    #[serde(default)]
    pub era: Option<EraMemory>,
    /// Recent crashes, in milliseconds since 1970, oldest first.
    #[serde(default)]
    pub crashes: Vec<u64>,
    /// No start before this moment, in milliseconds since 1970.
    #[serde(default)]
    pub retry_at: Option<u64>,
    /// Why the state is what it is, for people.
    #[serde(default)]
    pub message: Option<String>,
    /// The last lines of the server's stderr.
    #[serde(default)]
    pub stderr: Option<String>,
    /// The server ended by itself, and with it what it kept; nobody who uses it was told so far.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// The URL at which its bridge shares it, while that lives, and shared it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_at: Option<String>,
    /// Why it is not shared though it is to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_shared: Option<String>,
}

impl SessionRecord {
    /// Whether its strings may hold `${VAR}`: those of a configuration file may, those of a command line were
    /// expanded by a shell, or are meant as they stand.
    #[must_use]
    pub fn is_template(&self) -> bool {
        matches!(self.target, Target::Entry { .. })
    }

    /// What its entry says, as far as that is known.
    pub(crate) fn of_entry(&self) -> Settings {
        match (&self.entry, self.is_template()) {
            (Some(entry), _) => entry.clone(),
            // All that was not given came from there.
            (None, true) => {
                let mut entry = self.settings.clone();
                let given = Setting::ALL.into_iter().filter(|setting| setting.value(&self.given).is_some());
                given.for_each(|setting| setting.copy(&Settings::default(), &mut entry));
                entry
            }
            (None, false) => Settings::default(),
        }
    }

    /// The settings that its next start has: what was given, else what its entry says, else the user's defaults.
    #[must_use]
    pub fn wanted(&self, defaults: &Settings) -> Settings {
        let wanted = self.given.clone().over(self.of_entry()).over(defaults.clone());
        if self.url.is_some() { wanted } else { wanted.without_those_for_urls() }
    }

    /// Where the next start has the value of a setting from.
    #[must_use]
    pub fn source(&self, setting: Setting, defaults: &Settings) -> Source {
        let has = |settings: &Settings| setting.value(settings).is_some();
        if has(&self.given) {
            Source::Given
        } else if has(&self.of_entry()) {
            Source::Entry
        } else if has(defaults) && (self.url.is_some() || !setting.is_for_urls()) {
            Source::User
        } else {
            Source::BuiltIn
        }
    }

    /// What it runs, for people: `file:entry`, the URL, or the command line.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.target {
            Target::Entry { file, entry } => format!("{}:{entry}", file.display()),
            Target::Url => self.url.clone().unwrap_or_default(),
            Target::Command => {
                let mut text = self.command.clone();
                for arg in &self.args {
                    text.push(' ');
                    text.push_str(arg);
                }
                text
            }
        }
    }
}

impl StateRecord {
    /// The state of a session that was never started.
    #[must_use]
    pub fn dormant() -> Self {
        Self {
            schema: SCHEMA,
            generation: 0,
            marker: String::new(),
            state: State::Dormant,
            since: now_ms(),
            bridge: None,
            server_pid: None,
            ended: true,
            era: None,
            crashes: Vec::new(),
            retry_at: None,
            message: None,
            stderr: None,
            lost: false,
            shared_at: None,
            not_shared: None,
        }
    }
}

/// Why a record cannot be used. Each text names the file and says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A newer drowse wrote it.
    #[error("{} was written by a newer drowse (schema {schema}; this one reads up to {SCHEMA}): update drowse", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        schema: u32,
    },
    /// It is no record.
    #[error("{} is damaged ({what}): {fix}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        what: String,
        /// What to do.
        fix: String,
    },
    /// The file system refused.
    #[error(transparent)]
    Home(#[from] HomeError),
}

/// Reads what is wanted of a session; `None` if there is no such session.
///
/// # Errors
/// If the record is damaged, of a newer drowse, or cannot be read.
pub fn read_session(home: &Home, name: &SessionName) -> Result<Option<SessionRecord>, RecordError> {
    read_session_if(home, name, |_| true)
}

/// Reads what is wanted of a session if one of these members may be in it, which takes less than to read it: a call to an
/// awake server seldom needs it. `None` if none is.
///
/// # Errors
/// If the record, then, is damaged, of a newer drowse, or cannot be read.
pub fn read_session_with(
    home: &Home,
    name: &SessionName,
    members: &[&str],
) -> Result<Option<SessionRecord>, RecordError> {
    read_session_if(home, name, |bytes| {
        let has = |word: &[u8]| bytes.windows(word.len()).any(|at| at == word);
        // By hand a name can be written in other ways, too.
        members.iter().any(|member| has(member.as_bytes())) || has(br"\u")
    })
}

fn read_session_if(
    home: &Home,
    name: &SessionName,
    wanted: impl FnOnce(&[u8]) -> bool,
) -> Result<Option<SessionRecord>, RecordError> {
    let fix =
        || format!("remove the session with `drowse close {name}` and connect it again, or restore the file");
    read_if(&home.session_file(name), fix, wanted)
}

/// Reads what is known of a session; `None` if it was never started. A file of no bytes, as a power cut may
/// leave it, counts as none.
///
/// # Errors
/// If the record is damaged, of a newer drowse, or cannot be read.
pub fn read_state(home: &Home, name: &SessionName) -> Result<Option<StateRecord>, RecordError> {
    read(&home.state_file(name), || {
        format!("`drowse restart {name}` writes it anew, `drowse close {name}` removes the session")
    })
}

/// Writes what is wanted of a session, so that it survives a power cut, and makes its directory if needed.
///
/// # Errors
/// If the file system refuses. The old record is then untouched.
pub fn write_session(home: &Home, name: &SessionName, record: &SessionRecord) -> Result<(), RecordError> {
    make_directory(home, name)?;
    write(&home.session_file(name), record, Durability::Synced)
}

/// Writes what is known of a session.
///
/// # Errors
/// If the file system refuses. The old record is then untouched.
pub fn write_state(home: &Home, name: &SessionName, record: &StateRecord) -> Result<(), RecordError> {
    write(&home.state_file(name), record, Durability::Lazy)
}

/// Writes that a session's server is let go, or lost. Where the disk has no room for a new file the old one is written
/// over: without it the session would look as if it had crashed, and be cleaned away.
///
/// # Errors
/// If the file system refuses that, too.
pub(crate) fn write_last_state(
    home: &Home,
    name: &SessionName,
    record: &StateRecord,
) -> Result<(), RecordError> {
    let refused = match write_state(home, name, record) {
        Err(RecordError::Home(refused @ HomeError::Full { .. })) => refused,
        written => return written,
    };
    let path = home.state_file(name);
    let mut bytes = serde_json::to_vec(record).map_err(|e| HomeError::io("write", &path, e.into()))?;
    bytes.push(b'\n');
    write_over(&path, bytes).map_err(|_| refused.into())
}

/// Writes a file over, within the room that it has. Whoever is killed in the middle of it, or reads then, has a damaged
/// file: only for what can be written anew.
fn write_over(path: &Path, mut bytes: Vec<u8>) -> io::Result<()> {
    let file = regular::open_with(File::options().write(true), path)?;
    let meta = file.metadata()?;
    if bytes.len() as u64 > meta.len().max(meta.blocks() * 512) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    // Nothing of the old one stays behind the new one: spaces do not count.
    bytes.resize(bytes.len().max(usize::try_from(meta.len()).unwrap_or(0)), b' ');
    file.write_all_at(&bytes, 0)
}

/// The names of all directories under `sessions/`, sorted, whether or not a session is in them. Files that somebody
/// put there are none.
///
/// # Errors
/// If the directory cannot be read. A missing one is an empty list.
pub fn names(home: &Home) -> Result<Vec<SessionName>, HomeError> {
    let path = home.sessions();
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(HomeError::io("list", &path, e)),
    };
    let mut names: Vec<_> = entries
        .flatten()
        .filter(|entry| !entry.file_type().is_ok_and(|kind| kind.is_file()))
        .filter_map(|entry| SessionName::new(entry.file_name().to_str()?).ok())
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// Makes a session's directory, closed to others.
///
/// # Errors
/// If the file system refuses.
pub fn make_directory(home: &Home, name: &SessionName) -> Result<(), HomeError> {
    let path = home.session(name);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&path)
        .map_err(|e| HomeError::io("create", &path, e))
}

/// Milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Whether a write must survive a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// File and directory are synced before the write counts as done.
    Synced,
    /// Readers see all or nothing; a power cut may lose it.
    Lazy,
}

/// A JSON document of drowse's own, with a schema version.
pub(crate) trait Document: Serialize + DeserializeOwned {
    /// Whether a file of no bytes is as good as none: what a power cut may leave of a file that was not synced.
    const MAY_BE_EMPTY: bool = false;

    /// Its version.
    fn schema(&self) -> u32;
}

impl Document for SessionRecord {
    fn schema(&self) -> u32 {
        self.schema
    }
}

impl Document for StateRecord {
    const MAY_BE_EMPTY: bool = true;

    fn schema(&self) -> u32 {
        self.schema
    }
}

#[derive(Deserialize)]
struct SchemaOnly {
    schema: u32,
}

/// Reads a document; `None` if there is no file.
pub(crate) fn read<T: Document>(path: &Path, fix: impl Fn() -> String) -> Result<Option<T>, RecordError> {
    read_if(path, fix, |_| true)
}

/// The same for a record whose bytes are as `wanted`; any other counts as none.
fn read_if<T: Document>(
    path: &Path,
    fix: impl Fn() -> String,
    wanted: impl FnOnce(&[u8]) -> bool,
) -> Result<Option<T>, RecordError> {
    let malformed = |what: String| RecordError::Malformed { path: path.to_owned(), what, fix: fix() };
    let file = match regular::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) if regular::is_something_else(&e) => return Err(malformed("it is not a file".to_owned())),
        Err(e) => return Err(HomeError::io("open", path, e).into()),
    };
    // Straight into the buffer, without asking how large the file is: a list reads two for each session.
    let mut bytes = Vec::with_capacity(USUAL_RECORD);
    file.take(MAX_RECORD + 1).read_to_end(&mut bytes).map_err(|e| HomeError::io("read", path, e))?;
    if bytes.len() as u64 > MAX_RECORD {
        return Err(malformed(format!("more than {MAX_RECORD} bytes, larger than any record")));
    }
    if bytes.is_empty() && T::MAY_BE_EMPTY || !wanted(&bytes) {
        return Ok(None);
    }
    let newer = |schema: u32| RecordError::Newer { path: path.to_owned(), schema };
    match serde_json::from_slice::<T>(&bytes) {
        Ok(record) if record.schema() <= SCHEMA => Ok(Some(record)),
        Ok(record) => Err(newer(record.schema())),
        // A newer one may have another shape: then its version says more than what is wrong with it.
        Err(error) => match serde_json::from_slice::<SchemaOnly>(&bytes) {
            Ok(only) if only.schema > SCHEMA => Err(newer(only.schema)),
            _ => Err(malformed(defect(&error))),
        },
    }
}

/// What is wrong, and where, without a word of the content: it may be secret.
pub(crate) fn defect(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let what = match error.classify() {
        Category::Eof => return "it is cut off".to_owned(),
        Category::Syntax => "not JSON",
        Category::Data | Category::Io => "not the expected shape",
    };
    format!("{what} at line {} column {}", error.line(), error.column())
}

/// Replaces a file by one JSON document: readers see the old one or the new one, never a part.
pub(crate) fn write<T: Document>(path: &Path, record: &T, durability: Durability) -> Result<(), RecordError> {
    let mut bytes = serde_json::to_vec(record).map_err(|e| HomeError::io("write", path, e.into()))?;
    bytes.push(b'\n');
    Ok(replace(path, &bytes, durability)?)
}

/// Replaces a file: readers see the old content or the new one, never a part.
pub(crate) fn replace(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), HomeError> {
    let refused = |e: io::Error| HomeError::io("write", path, e);
    let directory = path.parent().unwrap_or(Path::new("/"));
    // Created 0600.
    let mut file =
        tempfile::Builder::new().prefix(".new-").tempfile_in(directory).map_err(|e| refused(plain(e)))?;
    file.write_all(bytes).map_err(|e| refused(plain(e)))?;
    if durability == Durability::Synced {
        file.as_file().sync_all().map_err(refused)?;
    }
    file.persist(path).map_err(|e| refused(plain(e.error)))?;
    if durability == Durability::Synced {
        File::open(directory).and_then(|d| d.sync_all()).map_err(refused)?;
    }
    Ok(())
}

/// Without the path of the temporary file, which means nothing to a reader.
fn plain(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(std::error::Error::source);
    match inner.and_then(|e| e.downcast_ref::<io::Error>()).and_then(io::Error::raw_os_error) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn home() -> (tempfile::TempDir, Home, SessionName) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("h"), None);
        home.prepare().unwrap();
        (dir, home, SessionName::new("x").unwrap())
    }

    fn session() -> SessionRecord {
        SessionRecord {
            schema: SCHEMA,
            target: Target::Entry { file: "/c.json".into(), entry: "e".into() },
            command: "${CMD}".into(),
            args: vec!["-y".into()],
            url: None,
            headers: BTreeMap::new(),
            given_headers: Vec::new(),
            cwd: "/w".into(),
            env: BTreeMap::from([("A".into(), None), ("B".into(), Some("${B}".into()))]),
            pins: vec!["P".into()],
            settings: Settings { idle_timeout_secs: Some(0), ..Settings::default() },
            given: Settings::default(),
            entry: None,
            auto_connect: None,
            syncs: Vec::new(),
            share: None,
            identity: String::new(),
            created: 7,
        }
    }

    #[test]
    fn a_record_is_read_only_where_a_member_may_be_in_it() {
        let (_dir, home, name) = home();
        let members = ["roots", "samplingCommand"];
        assert_eq!(read_session_with(&home, &name, &members).unwrap(), None);
        let plain = SessionRecord { settings: Settings::default(), ..session() };
        write_session(&home, &name, &plain).unwrap();
        assert_eq!(read_session_with(&home, &name, &members).unwrap(), None);
        let with_roots = Settings { roots: Some(vec!["file:///r".to_owned()]), ..Settings::default() };
        let with_sampling = Settings { sampling_command: Some("ask".to_owned()), ..Settings::default() };
        for settings in [with_roots, with_sampling] {
            let record = SessionRecord { settings, ..plain.clone() };
            write_session(&home, &name, &record).unwrap();
            assert_eq!(read_session_with(&home, &name, &members).unwrap(), Some(record.clone()));
            // The same by hand.
            let text = fs::read_to_string(home.session_file(&name)).unwrap();
            let text = text.replace("\"roots", "\"\\u0072oots").replace("\"samp", "\"s\\u0061mp");
            fs::write(home.session_file(&name), text).unwrap();
            assert_eq!(read_session_with(&home, &name, &members).unwrap(), Some(record));
        }
    }

    #[test]
    fn records_come_back_as_they_were_written() {
        let (_dir, home, name) = home();
        assert_eq!(read_session(&home, &name).unwrap(), None);
        assert_eq!(read_state(&home, &name).unwrap(), None);
        write_session(&home, &name, &session()).unwrap();
        assert_eq!(read_session(&home, &name).unwrap(), Some(session()));
        let share = Share {
            origins: vec!["https://o".into()],
            limits: BTreeMap::from([("sessions".into(), 1)]),
            ..Share::parse("[::1]:0").unwrap()
        };
        let shared = SessionRecord { share: Some(share), ..session() };
        write_session(&home, &name, &shared).unwrap();
        assert_eq!(read_session(&home, &name).unwrap(), Some(shared));
        let state = StateRecord {
            generation: 3,
            marker: "ab".into(),
            bridge: Some(ProcessIdentity::of_self().unwrap()),
            era: Some(EraMemory { era: "modern".into(), protocol_version: "2026-07-28".into() }),
            crashes: vec![1, 2],
            retry_at: Some(9),
            ..StateRecord::dormant()
        };
        write_state(&home, &name, &state).unwrap();
        assert_eq!(read_state(&home, &name).unwrap(), Some(state));
        assert_eq!(names(&home).unwrap(), std::slice::from_ref(&name));
        let files: Vec<_> =
            fs::read_dir(home.session(&name)).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(files.len(), 2, "no temporary file stays: {files:?}");
        assert_eq!(fs::metadata(home.session_file(&name)).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(home.session(&name)).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_record_is_written_over_within_its_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        assert!(write_over(&path, b"{}".to_vec()).is_err(), "nothing is made");
        fs::write(&path, "{\"a\":1}").unwrap();
        write_over(&path, b"{}\n".to_vec()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}\n    ");
        write_over(&path, b"{\"a\":1234}\n".to_vec()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\":1234}\n");
        let inode = fs::metadata(&path).unwrap().ino();
        assert!(write_over(&path, vec![b'1'; 1 << 20]).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\":1234}\n");
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    }

    #[test]
    fn the_shape_of_sessions_on_disk() {
        let (_dir, home, name) = home();
        make_directory(&home, &name).unwrap();
        let read = |text: &str| {
            fs::write(home.session_file(&name), text).unwrap();
            read_session(&home, &name).unwrap().unwrap()
        };
        // As the first release wrote it.
        let old = read(r#"{"schema":1,"target":"command","command":"x","cwd":"/","created":1}"#);
        assert_eq!((old.url.as_ref(), old.describe().as_str()), (None, "x"));
        assert!(!serde_json::to_string(&old).unwrap().contains("eaders"), "nothing new where nothing is");
        let url = SessionRecord {
            target: Target::Url,
            command: String::new(),
            url: Some("https://h/mcp".into()),
            given_headers: vec!["X-A".into()],
            settings: Settings { on_expiry: Some(OnExpiry::Fail), ..Settings::default() },
            ..old
        };
        let text = serde_json::to_string(&url).unwrap();
        assert!(text.contains(r#""target":"url","#) && text.contains(r#""onExpiry":"fail""#), "{text}");
        let back = read(&text);
        assert_eq!((back.describe().as_str(), back.is_template()), ("https://h/mcp", false));
        assert_eq!(back, url);
    }

    #[test]
    fn the_shape_of_a_state_on_disk() {
        let text = r#"{"schema":1,"generation":4,"marker":"ff","state":"crashed","since":5,"bridge":{"pid":1,
            "started":2,"bootId":"b","pidNs":3},"serverPid":9,"ended":true,"era":{"era":"legacy",
            "protocolVersion":"2025-06-18"},"crashes":[6],"retryAt":7,"message":"m","stderr":"s","later":{}}"#;
        let (_dir, home, name) = home();
        make_directory(&home, &name).unwrap();
        fs::write(home.state_file(&name), text).unwrap();
        let state = read_state(&home, &name).unwrap().unwrap();
        assert_eq!((state.state, state.server_pid, state.retry_at), (State::Crashed, Some(9), Some(7)));
        assert_eq!(state.bridge.unwrap().pid_ns, 3);
        // The least that a bridge may write.
        fs::write(
            home.state_file(&name),
            r#"{"schema":1,"generation":1,"marker":"f","state":"live","since":0}"#,
        )
        .unwrap();
        assert!(!read_state(&home, &name).unwrap().unwrap().ended);
    }

    #[test]
    fn truncated_and_malformed_records_name_the_file_and_the_way_out() {
        let (_dir, home, name) = home();
        write_session(&home, &name, &session()).unwrap();
        let whole = fs::read(home.session_file(&name)).unwrap();
        for cut in [0, 1, whole.len() / 2, whole.len() - 2] {
            fs::write(home.session_file(&name), &whole[..cut]).unwrap();
            let error = read_session(&home, &name).unwrap_err().to_string();
            assert!(
                error.contains("session.json is damaged") && error.contains("drowse close @x"),
                "{error}"
            );
        }
        for text in ["[]", "null", "{}", r#"{"schema":1}"#, "\u{0}\u{0}"] {
            fs::write(home.state_file(&name), text).unwrap();
            let error = read_state(&home, &name).unwrap_err().to_string();
            assert!(
                error.contains("state.json is damaged") && error.contains("drowse restart @x"),
                "{error}"
            );
        }
        // What a power cut leaves of a file that was not synced.
        fs::write(home.state_file(&name), "").unwrap();
        assert_eq!(read_state(&home, &name).unwrap(), None);
        File::create(home.session_file(&name)).unwrap().set_len(MAX_RECORD + 1).unwrap();
        assert!(read_session(&home, &name).unwrap_err().to_string().contains("larger than any record"));
    }

    #[test]
    fn a_newer_schema_is_refused_whatever_its_shape() {
        let (_dir, home, name) = home();
        make_directory(&home, &name).unwrap();
        let mut same_shape = serde_json::to_value(session()).unwrap();
        same_shape["schema"] = 2.into();
        for text in [same_shape.to_string(), r#"{"schema":9,"everything":"else"}"#.to_owned()] {
            fs::write(home.session_file(&name), &text).unwrap();
            let error = read_session(&home, &name).unwrap_err();
            assert!(matches!(error, RecordError::Newer { .. }), "{error}");
            assert!(error.to_string().contains("update drowse"), "{error}");
        }
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_record() {
        let (_dir, home, name) = home();
        write_session(&home, &name, &session()).unwrap();
        let directory = home.session(&name);
        if rustix::process::geteuid().is_root() {
            // Root may write to a read-only directory; not into one that is no directory.
            let moved = directory.with_extension("moved");
            fs::rename(&directory, &moved).unwrap();
            fs::write(&directory, "").unwrap();
            assert!(write_session(&home, &name, &session()).is_err());
            assert!(matches!(write_state(&home, &name, &StateRecord::dormant()), Err(RecordError::Home(_))));
        } else {
            fs::set_permissions(&directory, fs::Permissions::from_mode(0o500)).unwrap();
            let error = write_state(&home, &name, &StateRecord::dormant()).unwrap_err().to_string();
            assert!(error.contains("cannot write") && !error.contains(".new-"), "{error}");
            fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
            assert_eq!(read_session(&home, &name).unwrap(), Some(session()));
        }
    }

    #[test]
    fn names_that_are_no_sessions_are_not_listed() {
        let (_dir, home, name) = home();
        make_directory(&home, &name).unwrap();
        fs::create_dir(home.sessions().join("not a name")).unwrap();
        fs::create_dir(home.sessions().join(".new-abc")).unwrap();
        assert_eq!(names(&home).unwrap(), [name]);
        assert!(names(&Home::new("/nowhere/at/all".into(), None)).unwrap().is_empty());
    }
}
