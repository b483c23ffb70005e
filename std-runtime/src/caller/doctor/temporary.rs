//! Homes of commands that had a server of their own, and were killed with everyone who was to clean up after them.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Doctor, Finding};
use crate::caller::Sessions;
use crate::caller::census::Role;
use crate::home::Home;
use crate::sys::procfs;
use crate::wait::Wait;

/// One that is younger may be in the middle of being made.
const YOUNG: Duration = Duration::from_secs(60);

pub(super) fn examine(prefix: &str, mend: bool, wait: Wait<'_>) -> Vec<Finding> {
    let mut places = vec![env::temp_dir()];
    places.extend(env::var_os("DROWSE_RUNTIME").filter(|path| !path.is_empty()).map(PathBuf::from));
    places.sort();
    places.dedup();
    let left: Vec<PathBuf> = places.iter().flat_map(|place| left_in(place, prefix, YOUNG)).collect();
    if left.is_empty() {
        return vec![Finding::fine("temporary", "no command with a server of its own left anything")];
    }
    let mut findings = Vec::new();
    for directory in left {
        let sessions = Sessions::at(Home::new(directory.join("home"), None));
        let mut doctor = Doctor { sessions: &sessions, mend, wait, findings: Vec::new() };
        let what = format!("{} is left of a command that was killed", directory.display());
        doctor.put_right("temporary", None, what, || {
            // What still runs there is better found with its records.
            let cleaned = sessions.abandon(wait).map_err(|e| e.to_string())?;
            if let Some((_, error)) = cleaned.failed.first() {
                return Err(error.to_string());
            }
            fs::remove_dir_all(&directory).map(|()| "removed".to_owned()).map_err(|e| e.to_string())
        });
        findings.append(&mut doctor.findings);
    }
    findings
}

/// The directories of that kind which nobody uses: no process was started to watch over them, no bridge runs in them.
fn left_in(place: &Path, prefix: &str, young: Duration) -> Vec<PathBuf> {
    let us = rustix::process::geteuid().as_raw();
    let is_old =
        |meta: &fs::Metadata| meta.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= young));
    let found: Vec<PathBuf> = fs::read_dir(place)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .filter(|path| {
            fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == us && is_old(&meta))
        })
        .collect();
    if found.is_empty() {
        return found;
    }
    let words: HashSet<PathBuf> = procfs::snapshot()
        .unwrap_or_default()
        .iter()
        .filter_map(|stat| procfs::command_line(stat.pid))
        .flatten()
        .map(PathBuf::from)
        .collect();
    found
        .into_iter()
        .filter(|path| !words.contains(path))
        .filter(|path| {
            let sessions = Sessions::at(Home::new(path.join("home"), None));
            let processes = sessions.processes(None).unwrap_or_default();
            processes.iter().all(|process| matches!(process.role, Role::Orphan(_)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn only_what_is_old_and_unused_is_left_over() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["once-a", "once-b", "other"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("once-file"), "").unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("once-link")).unwrap();
        // Somebody who was told of it, as the process that watches over one is.
        let mut guard = Command::new("sh")
            .args(["-c", "read x", "sh"])
            .arg(dir.path().join("once-b"))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(left_in(dir.path(), "once-", Duration::ZERO), [dir.path().join("once-a")]);
        assert!(left_in(dir.path(), "once-", YOUNG).is_empty());
        drop(guard.stdin.take());
        guard.wait().unwrap();
        assert_eq!(left_in(dir.path(), "once-", Duration::ZERO).len(), 2);
    }
}
