//! What stands in sessions' directories.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::place::set_mode;
use super::{Doctor, Finding, Held};
use crate::caller::error::CallError;
use crate::credential;
use crate::home::{HomeError, SessionName};
use crate::record::aside::{self, set_aside, set_aside_before};
use crate::record::{self, RecordError};
use crate::regular;
use crate::snapshot;

/// What the names of files begin with that are being written.
const TEMPORARY: &str = ".new-";

/// Something that is not as it should be with a session's files.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ailment {
    /// Its directory is open to others.
    Open { path: PathBuf, mode: u32, wanted: u32 },
    /// There is no session in its directory.
    NoSession,
    /// The same, because its record was set aside.
    SetAside { file: PathBuf },
    /// A file that is no record. What is wrong with it.
    Damaged { file: PathBuf, what: String },
    /// What is known of it was lost in a power cut.
    Empty { file: PathBuf },
    /// Files that somebody was killed while writing.
    Temporary { files: Vec<PathBuf> },
    /// A socket at which nobody listens.
    Socket { file: PathBuf },
    /// What only the user can mend.
    Beyond { what: String, next: Option<String> },
}

impl Doctor<'_> {
    pub(super) fn records(&mut self) -> Result<(), CallError> {
        let names = record::names(self.sessions.home())?;
        let mut sound = 0;
        for name in &names {
            let ailments = self.ailments(name);
            if ailments.is_empty() {
                sound += 1;
                continue;
            }
            if let Err(error) = self.treat(name, ailments) {
                self.add(Finding::needs_user("records", error.to_string(), None).of(name));
            }
        }
        if sound > 0 || names.is_empty() {
            let what = match sound {
                0 => "there is no session yet".to_owned(),
                1 => "one session's files are sound".to_owned(),
                sound => format!("the files of {sound} sessions are sound"),
            };
            self.add(Finding::fine("records", what));
        }
        self.lonely_sockets(&names)
    }

    /// What is wrong with a session's files, as far as a look without locks tells.
    fn ailments(&self, name: &SessionName) -> Vec<Ailment> {
        let home = self.sessions.home();
        let directory = home.session(name);
        let mut found = Vec::new();
        let mut open = |path: &Path, wanted| {
            // What a link leads to is not of this home.
            if let Ok(meta) = fs::symlink_metadata(path)
                && !meta.is_symlink()
                && meta.mode() & 0o077 != 0
            {
                found.push(Ailment::Open { path: path.to_owned(), mode: meta.mode() & 0o7777, wanted });
            }
        };
        open(&directory, 0o700);
        open(&home.credentials_file(name), 0o600);
        let file = home.session_file(name);
        let exists = file.try_exists();
        match record::read_session(home, name) {
            Ok(Some(_)) => {}
            Ok(None) => {
                let aside = set_aside_before(&file);
                found.push(aside.map_or(Ailment::NoSession, |file| Ailment::SetAside { file }));
            }
            Err(error) => found.push(ailment(file, &error)),
        }
        // Without a session nothing else of it matters.
        if matches!(exists, Ok(false)) {
            return found;
        }
        let file = home.state_file(name);
        match record::read_state(home, name) {
            Ok(Some(_)) => {}
            Ok(None) if fs::metadata(&file).is_ok_and(|meta| meta.len() == 0) => {
                found.push(Ailment::Empty { file });
            }
            Ok(None) => {}
            Err(error) => found.push(ailment(file, &error)),
        }
        if let Some(what) = snapshot_defect(&home.snapshot_file(name)) {
            found.push(Ailment::Damaged { file: home.snapshot_file(name), what });
        }
        match credential::read(home, name) {
            Ok(_) | Err(RecordError::Home(HomeError::Open { .. })) => {}
            Err(error) => found.push(Ailment::Beyond { what: error.to_string(), next: None }),
        }
        let temporary: Vec<PathBuf> = fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(TEMPORARY))
            .map(|entry| entry.path())
            .collect();
        if !temporary.is_empty() {
            found.push(Ailment::Temporary { files: temporary });
        }
        let socket = home.socket_file(name);
        if is_socket(&socket) && self.sessions.running_bridge(name).is_none() {
            found.push(Ailment::Socket { file: socket });
        }
        found
    }

    /// Mends what can be mended of a session, under its locks.
    fn treat(&mut self, name: &SessionName, found: Vec<Ailment>) -> Result<(), CallError> {
        if !self.mend {
            // Without locks: a bridge that writes its record this very moment is no finding.
            let running = self.sessions.running_bridge(name).is_some();
            for ailment in found {
                self.report(name, ailment, running);
            }
            return Ok(());
        }
        match self.hold(name)? {
            Held::Busy(who) => {
                let next = Some("drowse doctor".to_owned());
                for ailment in found.iter().filter(|ailment| ailment.is_lasting()) {
                    let what = format!("{}; {who}", ailment.describe());
                    self.add(Finding::needs_user("records", what, next.clone()).of(name));
                }
            }
            Held::Running(_lock) => {
                for ailment in self.ailments(name) {
                    self.report(name, ailment, true);
                }
            }
            Held::Free(_lock) => {
                for ailment in self.ailments(name) {
                    self.report(name, ailment, false);
                }
            }
        }
        Ok(())
    }

    /// Adds a finding, and mends it if that is wanted. L is held then; nothing runs unless `running` says so.
    fn report(&mut self, name: &SessionName, ailment: Ailment, running: bool) {
        let what = ailment.describe();
        let restart = || Some(format!("drowse restart {name}"));
        match ailment {
            Ailment::Open { path, wanted, .. } => {
                self.put_right("records", Some(name), what, || set_mode(&path, wanted));
            }
            Ailment::Beyond { next, .. } => self.add(Finding::needs_user("records", what, next).of(name)),
            Ailment::SetAside { file } => {
                let next = format!(
                    "drowse connect <server> {name}, or put the file in order and back ({}), or drowse clean to forget it",
                    file.display()
                );
                self.add(Finding::needs_user("records", what, Some(next)).of(name));
            }
            // Its bridge writes it anew, or will remove it.
            Ailment::Temporary { .. } | Ailment::Socket { .. } | Ailment::Empty { .. } if running => {}
            // See `bridges`.
            Ailment::NoSession if running => {}
            Ailment::Damaged { .. } if running => {
                let what = format!("{what}; left alone while its server runs");
                self.add(Finding::needs_user("records", what, restart()).of(name));
            }
            Ailment::Damaged { file, .. } if file == self.sessions.home().session_file(name) => {
                if !self.mend {
                    self.put_right("records", Some(name), what, || Ok(String::new()));
                    return;
                }
                let (what, next) = match set_aside(&file) {
                    Ok(aside) => (
                        format!("{what}: set aside as {}", last(&aside)),
                        format!("drowse connect <server> {name}, or drowse clean to forget it"),
                    ),
                    Err(error) => {
                        (format!("{what}, and cannot be set aside: {error}"), format!("drowse close {name}"))
                    }
                };
                self.add(Finding::needs_user("records", what, Some(next)).of(name));
            }
            Ailment::Damaged { file, .. } => {
                let sessions = self.sessions;
                self.put_right("records", Some(name), what, || {
                    if file == sessions.home().state_file(name) {
                        let (_, aside) =
                            aside::rebuild_state(sessions.home(), name).map_err(|e| e.to_string())?;
                        return Ok(format!("set aside as {}, and written anew", last(&aside)));
                    }
                    let aside = set_aside(&file).map_err(|e| e.to_string())?;
                    Ok(format!("set aside as {}; the next start writes it anew", last(&aside)))
                });
            }
            Ailment::Empty { file } => {
                self.put_right("records", Some(name), what, || remove(&[file]));
            }
            Ailment::Temporary { files } => {
                self.put_right("records", Some(name), what, || remove(&files));
            }
            Ailment::Socket { file } => {
                self.put_right("sockets", Some(name), what, || remove(&[file]));
            }
            Ailment::NoSession => {
                let sessions = self.sessions;
                self.put_right("records", Some(name), what, || {
                    sessions.remove(name).map(|()| "removed".to_owned()).map_err(|e| e.to_string())
                });
            }
        }
    }

    /// Sockets in the runtime directory whose sessions are gone.
    fn lonely_sockets(&mut self, names: &[SessionName]) -> Result<(), CallError> {
        let Some(runtime) = self.sessions.home().runtime() else { return Ok(()) };
        let entries: Vec<_> = fs::read_dir(runtime).into_iter().flatten().flatten().collect();
        for entry in entries {
            let file = entry.file_name();
            let name = file.to_str().and_then(|file| SessionName::new(file.strip_suffix(".sock")?).ok());
            let Some(name) = name.filter(|name| !names.contains(name)) else { continue };
            if !is_socket(&entry.path()) || self.sessions.running_bridge(&name).is_some() {
                continue;
            }
            let ailment = Ailment::Socket { file: entry.path() };
            if !self.mend {
                self.report(&name, ailment, false);
            } else if let Held::Free(_lock) = self.hold(&name)? {
                self.report(&name, ailment, false);
            }
        }
        Ok(())
    }
}

impl Ailment {
    /// Whether it is one that whoever works on the session just now does not explain.
    fn is_lasting(&self) -> bool {
        !matches!(self, Self::NoSession | Self::Temporary { .. } | Self::Socket { .. } | Self::Empty { .. })
    }

    fn describe(&self) -> String {
        match self {
            Self::Open { path, mode, .. } => {
                format!("{} is open to other users (mode {mode:o})", path.display())
            }
            Self::NoSession => "there is a directory, but no session in it".to_owned(),
            Self::SetAside { file } => format!("its record was damaged and set aside as {}", last(file)),
            Self::Damaged { file, what } => format!("{} is damaged ({what})", last(file)),
            Self::Empty { file } => format!("{} is empty, as a power cut leaves it", last(file)),
            Self::Temporary { files } if files.len() == 1 => {
                "a file is left that was being written".to_owned()
            }
            Self::Temporary { files } => format!("{} files are left that were being written", files.len()),
            Self::Socket { .. } => "a socket is left at which nobody listens".to_owned(),
            Self::Beyond { what, .. } => what.clone(),
        }
    }
}

fn ailment(file: PathBuf, error: &RecordError) -> Ailment {
    match error {
        RecordError::Malformed { what, .. } => Ailment::Damaged { file, what: what.clone() },
        error => Ailment::Beyond { what: error.to_string(), next: None },
    }
}

/// What is wrong with a snapshot, if it is damaged. One of a newer drowse is only not used.
fn snapshot_defect(path: &Path) -> Option<String> {
    let something_else = "it is not a file".to_owned();
    let file = match regular::open(path) {
        Ok(file) => file,
        Err(error) => return regular::is_something_else(&error).then_some(something_else),
    };
    let most = snapshot::MAX_BYTES as u64;
    // A sparse file of any length costs nothing but this look.
    if file.metadata().ok()?.len() > most {
        return Some("larger than any snapshot".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    match serde_json::from_slice::<snapshot::Header>(&bytes) {
        Ok(_) => None,
        Err(error) => {
            #[derive(serde::Deserialize)]
            struct Version {
                schema: u32,
            }
            let newer =
                serde_json::from_slice::<Version>(&bytes).is_ok_and(|it| it.schema > snapshot::SCHEMA);
            (!newer).then(|| match error.classify() {
                serde_json::error::Category::Eof => "it is cut off".to_owned(),
                serde_json::error::Category::Syntax => format!("not JSON at line {}", error.line()),
                _ => "not the expected shape".to_owned(),
            })
        }
    }
}

fn remove(files: &[PathBuf]) -> Result<String, String> {
    for file in files {
        match fs::remove_file(file) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e.to_string()),
            _ => {}
        }
    }
    Ok("removed".to_owned())
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

fn last(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
