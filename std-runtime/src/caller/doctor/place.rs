//! The kernel, and the directories.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Access, StatVfsMountFlags, access, statfs, statvfs};
use rustix::process::PidfdFlags;

use super::{Doctor, Finding};
use crate::home::{HomeError, SessionName, network_file_system};
use crate::process::ProcessIdentity;

/// Less room than this is too little: records, logs and snapshots of a few sessions.
const LITTLE_ROOM: u64 = 16 << 20;

/// The longest path that fits a socket's address.
const SOCKET_PATH_MAX: usize = 107;

pub(super) fn kernel() -> Vec<Finding> {
    let needs: [(&str, Result<(), io::Error>, &str); 4] = [
        (
            "/proc",
            ProcessIdentity::of_self().map(drop),
            "mount it (mount -t proc proc /proc); drowse finds processes there",
        ),
        (
            "pidfds",
            rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())
                .map(drop)
                .map_err(Into::into),
            "use Linux 5.3 or later, and a sandbox that allows pidfd_open",
        ),
        (
            "subreapers",
            rustix::process::child_subreaper().map(drop).map_err(Into::into),
            "use a sandbox that allows prctl(PR_SET_CHILD_SUBREAPER)",
        ),
        (
            "memfds",
            rustix::fs::memfd_create("drowse-doctor", rustix::fs::MemfdFlags::CLOEXEC)
                .map(drop)
                .map_err(Into::into),
            "use a sandbox that allows memfd_create",
        ),
    ];
    let mut findings: Vec<Finding> = needs
        .iter()
        .filter_map(|(what, result, next)| {
            let error = result.as_ref().err()?;
            let what = format!("{what} cannot be used here: {error}");
            Some(Finding::needs_user("kernel", what, Some((*next).to_owned())))
        })
        .collect();
    if findings.is_empty() {
        findings.push(Finding::fine("kernel", "/proc, pidfds, subreapers and memfds can be used"));
    }
    findings
}

impl Doctor<'_> {
    /// The directories. `false` if there are no sessions to look at, or they cannot be.
    pub(super) fn place(&mut self) -> bool {
        let home = self.sessions.home().clone();
        let root = home.root().to_owned();
        match fs::metadata(&root) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let what = format!("there is none yet at {}: the first connect makes it", root.display());
                self.add(Finding::fine("home", what));
                return false;
            }
            _ => {}
        }
        let locks = home.locks();
        let open = self.findings.len();
        let mut usable = self.directory("home", &root, 0o022);
        usable &= self.directory("home", &home.sessions(), 0o077);
        if let Some(runtime) = home.runtime() {
            usable &= self.directory("runtime", runtime, 0o077);
        }
        usable &= self.directory("locks", &locks, 0o077);
        if self.findings.len() == open {
            let what = format!("{} is ours, closed to others and can be written", root.display());
            self.add(Finding::fine("home", what));
        }
        self.file_system(&root, &locks);
        self.sockets();
        usable && fs::metadata(home.sessions()).is_ok()
    }

    /// One directory. `false` if it cannot be used.
    fn directory(&mut self, check: &'static str, path: &Path, forbidden: u32) -> bool {
        let meta = match fs::metadata(path) {
            // Made when it is needed.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return true,
            Err(e) => {
                let error = HomeError::io("look at", path, e);
                self.add(Finding::needs_user(check, error.to_string(), None));
                return false;
            }
            Ok(meta) => meta,
        };
        let us = rustix::process::geteuid().as_raw();
        if !meta.is_dir() {
            let error = HomeError::NotADirectory { path: path.to_owned() };
            self.add(Finding::needs_user(check, error.to_string(), None));
            return false;
        }
        if meta.uid() != us {
            let error = HomeError::NotOurs { path: path.to_owned(), owner: meta.uid(), us };
            self.add(Finding::needs_user(check, error.to_string(), None));
            return false;
        }
        let mode = meta.mode() & 0o7777;
        let wanted = (mode & !forbidden) | 0o700;
        if mode != wanted {
            let why = if mode & forbidden == 0 { "closed to yourself" } else { "open to other users" };
            let what = format!("{} is {why} (mode {mode:o})", path.display());
            self.put_right(check, None, what, || set_mode(path, wanted));
            return self.mend;
        }
        if access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).is_err() {
            let next = "set DROWSE_HOME or DROWSE_RUNTIME to a directory that can be written".to_owned();
            let what = format!("{} cannot be written", path.display());
            self.add(Finding::needs_user(check, what, Some(next)));
            return false;
        }
        true
    }

    fn file_system(&mut self, root: &Path, locks: &Path) {
        // That of the locks is the one that will hold them, where they are not made yet.
        let place =
            [Some(locks), locks.parent(), Some(root)].into_iter().flatten().find(|path| path.exists());
        let place = place.unwrap_or(root);
        match statfs(place).map(|stat| network_file_system(u64::try_from(stat.f_type).unwrap_or(0))) {
            Ok(Some(kind)) => {
                let error = HomeError::Network { path: place.to_owned(), kind };
                let next =
                    "export DROWSE_RUNTIME=/run/user/$UID, or another directory on a local disk".to_owned();
                self.add(Finding::needs_user("locks", error.to_string(), Some(next)));
            }
            Ok(None) => {
                let what =
                    format!("{} is on a local file system, whose locks can be trusted", place.display());
                self.add(Finding::fine("locks", what));
            }
            Err(e) => {
                let error = HomeError::io("look at", place, e.into());
                self.add(Finding::needs_user("locks", error.to_string(), None));
            }
        }
        match statvfs(root) {
            Ok(stat) => {
                let room = stat.f_bavail.saturating_mul(stat.f_frsize);
                let files = (stat.f_files > 0).then_some(stat.f_favail);
                self.add(room_for(root, room, files, stat.f_flag.contains(StatVfsMountFlags::RDONLY)));
            }
            Err(e) => {
                let error = HomeError::io("look at", root, e.into());
                self.add(Finding::needs_user("space", error.to_string(), None));
            }
        }
    }

    fn sockets(&mut self) {
        let longest = SessionName::new(&"x".repeat(64)).map(|name| self.sessions.home().socket_file(&name));
        let Ok(longest) = longest else { return };
        let length = longest.as_os_str().len();
        let what = if length <= SOCKET_PATH_MAX {
            format!("paths of sockets have at most {length} of {SOCKET_PATH_MAX} bytes")
        } else {
            format!(
                "paths of sockets may have {length} bytes, more than an address holds ({SOCKET_PATH_MAX}): those are \
                 reached through their directory"
            )
        };
        self.add(Finding::fine("sockets", what));
    }
}

/// What is to be said of the room on a disk.
fn room_for(root: &Path, room: u64, files: Option<u64>, read_only: bool) -> Finding {
    let path = root.to_owned();
    if read_only {
        return Finding::needs_user("space", HomeError::ReadOnly { path }.to_string(), None);
    }
    if files == Some(0) {
        let what = format!(
            "no file can be made any more in {}: its file system has as many as it can",
            path.display()
        );
        return Finding::needs_user("space", what, Some("remove some files there".to_owned()));
    }
    let free = match room / 1_000_000 {
        megabytes @ 0..10_000 => format!("{megabytes} MB"),
        megabytes => format!("{} GB", megabytes / 1000),
    };
    if room < LITTLE_ROOM {
        let what =
            format!("{free} are free in {}: records and logs may not be written any more", path.display());
        return Finding::needs_user(
            "space",
            what,
            Some("free some space, or set DROWSE_HOME to another disk".to_owned()),
        );
    }
    Finding::fine("space", format!("{free} are free in {}", path.display()))
}

pub(super) fn set_mode(path: &Path, mode: u32) -> Result<String, String> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map(|()| format!("its mode is {mode:o} now"))
        .map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use crate::caller::Sessions;
    use crate::home::Home;
    use crate::wait::Wait;

    fn open(findings: &[Finding]) -> Vec<String> {
        let open = findings.iter().filter(|finding| finding.verdict != Verdict::Fine);
        open.map(|finding| format!("{} {}: {}", finding.check, finding.verdict.name(), finding.what))
            .collect()
    }

    #[test]
    fn this_kernel_can_do_it() {
        assert_eq!(open(&kernel()), [] as [String; 0]);
    }

    #[test]
    fn a_home_that_is_not_there_is_fine_and_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("h");
        let sessions = Sessions::at(Home::new(root.clone(), None));
        let findings = sessions.examine(true, Wait::default());
        assert!(open(&findings).is_empty() && findings[0].what.contains("first connect"), "{findings:?}");
        assert!(!root.exists());
    }

    #[test]
    fn modes_are_mended_and_only_if_that_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("h"), Some(dir.path().join("r")));
        home.prepare().unwrap();
        let sessions = Sessions::at(home.clone());
        assert_eq!(open(&sessions.examine(true, Wait::default())), [] as [String; 0]);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let paths =
            [home.root().to_owned(), home.sessions(), home.runtime().unwrap().to_owned(), home.locks()];
        for path in &paths {
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        }
        let found = sessions.examine(false, Wait::default());
        assert!(
            found.iter().filter(|finding| finding.verdict == Verdict::WouldMend).count() == 4,
            "{found:?}"
        );
        assert!(paths.iter().all(|path| mode(path) == 0o777));
        let found = open(&sessions.examine(true, Wait::default()));
        assert!(found.len() == 4 && found.iter().all(|what| what.contains(" fixed: ")), "{found:?}");
        assert_eq!(paths.each_ref().map(|path| mode(path)), [0o755, 0o700, 0o700, 0o700]);
        assert_eq!(open(&sessions.examine(true, Wait::default())), [] as [String; 0]);
    }

    #[test]
    fn something_in_the_way_is_left_to_the_user() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("h"), None);
        fs::create_dir(home.root()).unwrap();
        fs::write(home.sessions(), "in the way").unwrap();
        let found = open(&Sessions::at(home.clone()).examine(true, Wait::default()));
        assert!(
            found.iter().any(|what| what.contains("home needs you: ") && what.contains("not a directory")),
            "{found:?}"
        );
        assert_eq!(fs::read(home.sessions()).unwrap(), b"in the way");
    }

    #[test]
    fn room() {
        let of = |room, files, read_only| room_for(Path::new("/h"), room, files, read_only).verdict;
        assert_eq!(of(1 << 30, Some(5), false), Verdict::Fine);
        assert_eq!(of(1 << 30, None, false), Verdict::Fine);
        assert_eq!(of(1 << 20, Some(5), false), Verdict::NeedsUser);
        assert_eq!(of(1 << 30, Some(0), false), Verdict::NeedsUser);
        assert_eq!(of(1 << 30, Some(5), true), Verdict::NeedsUser);
    }
}
