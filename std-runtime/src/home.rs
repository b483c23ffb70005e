//! Where drowse keeps its files, and whether that place can be trusted.
//!
//! Owns: the directories, the names of the files in them, the checks (ours, closed to others, a file
//! system whose locks work), and addresses for sockets whose path would be too long. Never reads or writes
//! a record: see `record`.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest path that fits a Unix socket address on Linux, without its final NUL.
const SOCKET_PATH_MAX: usize = 107;

/// The name of a session: 1 to 64 of `A-Z a-z 0-9 _ -`. Safe as a file name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionName(String);

impl SessionName {
    /// Checks a name, with or without its leading `@`.
    ///
    /// # Errors
    /// [`HomeError::BadName`] for anything that is not a session's name.
    pub fn new(name: &str) -> Result<Self, HomeError> {
        let bare = name.strip_prefix('@').unwrap_or(name);
        let fits = (1..=64).contains(&bare.len())
            && bare.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if fits { Ok(Self(bare.to_owned())) } else { Err(HomeError::BadName { name: name.to_owned() }) }
    }

    /// The name without `@`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SessionName {
    type Err = HomeError;

    fn from_str(s: &str) -> Result<Self, HomeError> {
        Self::new(s)
    }
}

impl TryFrom<String> for SessionName {
    type Error = HomeError;

    fn try_from(s: String) -> Result<Self, HomeError> {
        Self::new(&s)
    }
}

impl From<SessionName> for String {
    fn from(name: SessionName) -> Self {
        name.0
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl fmt::Debug for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

/// Why the home cannot be used. Each text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// Not a session's name.
    #[error("`{name}` is not a session name: use 1 to 64 letters, digits, `_` or `-`, e.g. @files")]
    BadName {
        /// What was given.
        name: String,
    },
    /// Neither `DROWSE_HOME` nor `XDG_STATE_HOME` nor `HOME` names an absolute directory.
    #[error("no home directory: set DROWSE_HOME to an absolute path, or HOME")]
    NoHome,
    /// `DROWSE_HOME` or `DROWSE_RUNTIME` is relative.
    #[error("{variable} is `{}`: it must be an absolute path", path.display())]
    Relative {
        /// Which variable.
        variable: &'static str,
        /// Its value.
        path: PathBuf,
    },
    /// Another user owns the directory.
    #[error("{} belongs to another user (uid {owner}, you are {us}): set DROWSE_HOME to a directory of your own", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// Who owns it.
        owner: u32,
        /// Who we are.
        us: u32,
    },
    /// Others may read or change what is in the directory.
    #[error("{} is open to other users (mode {mode:o}): run `chmod {want} {}`", path.display(), path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// The argument of chmod that mends it.
        want: &'static str,
    },
    /// Something that is not a directory is in the way.
    #[error("{} is not a directory: move it away, or set DROWSE_HOME or DROWSE_RUNTIME to another place", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The file system cannot hold locks that every process of this machine sees.
    #[error("{} is on a network file system ({kind}), where locks cannot be trusted: set DROWSE_RUNTIME to a directory on a local disk", path.display())]
    Network {
        /// The directory.
        path: PathBuf,
        /// What kind of file system.
        kind: &'static str,
    },
    /// The file system is read-only.
    #[error("{} is read-only: set DROWSE_HOME to a directory that can be written", path.display())]
    ReadOnly {
        /// The path.
        path: PathBuf,
    },
    /// The disk or the quota is full.
    #[error("no room left for {}: free some space, or set DROWSE_HOME to another disk", path.display())]
    Full {
        /// The path.
        path: PathBuf,
    },
    /// A limit on the size of files is in force.
    #[error("the limit on the size of files (`ulimit -f`) does not let {} be written: raise it, then try again", path.display())]
    Limited {
        /// The path.
        path: PathBuf,
    },
    /// The kernel takes no path as long as that.
    #[error(
        "the path of the home is too long to {what} files in it: set DROWSE_HOME to a shorter one ({})",
        start(path)
    )]
    TooLong {
        /// What was tried.
        what: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// Its permissions are in the way.
    #[error("cannot {what} {}: permission denied; give yourself access (chmod u+rwx, there and above), or set DROWSE_HOME to a directory of your own", path.display())]
    Denied {
        /// What was tried.
        what: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// Anything else the kernel said.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried: `create`, `open`, …
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl HomeError {
    /// Sorts what the kernel said into an error that says what to do.
    #[must_use]
    pub fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            io::ErrorKind::FileTooLarge => Self::Limited { path },
            io::ErrorKind::InvalidFilename => Self::TooLong { what, path },
            io::ErrorKind::PermissionDenied => Self::Denied { what, path },
            io::ErrorKind::NotADirectory => Self::NotADirectory { path },
            _ => Self::Io { what, path, source },
        }
    }
}

/// The directories. Cheap to make and to clone; nothing is created before [`Home::prepare`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
    runtime: Option<PathBuf>,
    /// The user's defaults, where they are not in the home.
    config: Option<PathBuf>,
}

impl Home {
    /// The home that the environment names: `DROWSE_HOME`, else `XDG_STATE_HOME/drowse`, else
    /// `~/.local/state/drowse`; and `DROWSE_RUNTIME` for locks and sockets, if set.
    ///
    /// # Errors
    /// If no absolute directory is named.
    pub fn from_env() -> Result<Self, HomeError> {
        let get = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let absolute = |variable: &'static str| match get(variable) {
            Some(path) if path.is_relative() => Err(HomeError::Relative { variable, path }),
            other => Ok(other),
        };
        let root = match absolute("DROWSE_HOME")? {
            Some(root) => root,
            None => match get("XDG_STATE_HOME").filter(|p| p.is_absolute()) {
                Some(state) => state.join("drowse"),
                None => match get("HOME").filter(|p| p.is_absolute()) {
                    Some(home) => home.join(".local/state/drowse"),
                    None => return Err(HomeError::NoHome),
                },
            },
        };
        let config = match get("DROWSE_HOME") {
            Some(_) => None,
            None => get("XDG_CONFIG_HOME")
                .filter(|p| p.is_absolute())
                .or_else(|| get("HOME").filter(|p| p.is_absolute()).map(|home| home.join(".config")))
                .map(|config| config.join("drowse/config.json")),
        };
        Ok(Self { config, ..Self::new(root, absolute("DROWSE_RUNTIME")?) })
    }

    /// A home at `root`; locks and sockets under `runtime`, if given. Both must be absolute.
    #[must_use]
    pub fn new(root: PathBuf, runtime: Option<PathBuf>) -> Self {
        // Two spellings of one home must meet at one lock.
        let runtime = runtime.map(|base| {
            let canonical = fs::canonicalize(&root).unwrap_or_else(|_| root.clone());
            base.join(format!("{:016x}", fnv1a(canonical.as_os_str().as_bytes())))
        });
        Self { root, runtime, config: None }
    }

    /// A home whose two directories are already known: what a bridge is told in its configuration.
    #[must_use]
    pub fn resolved(root: PathBuf, runtime: Option<PathBuf>) -> Self {
        Self { root, runtime, config: None }
    }

    /// The same with the user's defaults of another home.
    #[must_use]
    pub fn with_defaults_of(self, other: &Self) -> Self {
        Self { config: Some(other.config_file()), ..self }
    }

    /// The home directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// This home's own directory under `DROWSE_RUNTIME`, if that is set.
    #[must_use]
    pub fn runtime(&self) -> Option<&Path> {
        self.runtime.as_deref()
    }

    /// The directory that holds a directory for each session.
    #[must_use]
    pub fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    /// A session's directory.
    #[must_use]
    pub fn session(&self, name: &SessionName) -> PathBuf {
        let mut path = self.root.join("sessions");
        path.push(name.as_str());
        path
    }

    /// What is wanted of a session. The session exists if and only if this file does.
    #[must_use]
    pub fn session_file(&self, name: &SessionName) -> PathBuf {
        self.session(name).join("session.json")
    }

    /// What is known of a session.
    #[must_use]
    pub fn state_file(&self, name: &SessionName) -> PathBuf {
        self.session(name).join("state.json")
    }

    /// What a session's server offered when it ran last.
    #[must_use]
    pub fn snapshot_file(&self, name: &SessionName) -> PathBuf {
        self.session(name).join("snapshot.json")
    }

    /// What happened to a session: a line for each change.
    #[must_use]
    pub fn life_file(&self, name: &SessionName) -> PathBuf {
        self.session(name).join("life.jsonl")
    }

    /// The pinned values of a session, secrets included.
    #[must_use]
    pub fn credentials_file(&self, name: &SessionName) -> PathBuf {
        self.session(name).join("credentials.json")
    }

    /// The server's stderr and drowse's own lines.
    #[must_use]
    pub fn log_file(&self, name: &SessionName) -> PathBuf {
        self.session(name).join("log")
    }

    /// The user's defaults: `config.json` in the home that `DROWSE_HOME` names, else `drowse/config.json` in
    /// `XDG_CONFIG_HOME` or `~/.config`.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.config.clone().unwrap_or_else(|| self.root.join("config.json"))
    }

    /// The lock of whoever changes [`Home::config_file`].
    #[must_use]
    pub fn config_lock(&self) -> PathBuf {
        self.locks().join("config.lock")
    }

    /// The lock of whoever starts, closes or changes a session (L).
    #[must_use]
    pub fn start_lock(&self, name: &SessionName) -> PathBuf {
        self.locks().join(format!("{}.start", name.as_str()))
    }

    /// The lock that a session's bridge holds while it lives (B).
    #[must_use]
    pub fn bridge_lock(&self, name: &SessionName) -> PathBuf {
        self.locks().join(format!("{}.bridge", name.as_str()))
    }

    /// Where a session's bridge listens. May be longer than a socket address: bind and connect through
    /// [`Home::socket`].
    #[must_use]
    pub fn socket_file(&self, name: &SessionName) -> PathBuf {
        match &self.runtime {
            Some(runtime) => runtime.join(format!("{}.sock", name.as_str())),
            None => self.session(name).join("sock"),
        }
    }

    /// The address for `bind` and `connect`.
    ///
    /// # Errors
    /// If the path is too long and its directory cannot be opened.
    pub fn socket(&self, name: &SessionName) -> io::Result<SocketAddress> {
        SocketAddress::new(self.socket_file(name))
    }

    /// The directory of all locks.
    pub(crate) fn locks(&self) -> PathBuf {
        self.runtime.as_ref().unwrap_or(&self.root).join("locks")
    }

    /// Checks what exists of the directories, creates nothing. `false` if there is no home yet.
    ///
    /// # Errors
    /// If a directory is not ours or open to others.
    pub fn check(&self) -> Result<bool, HomeError> {
        // The home may be a directory that the user made, readable by all; what is in it is not.
        if !checked(&self.root, 0o022, "go-w")? || !checked(&self.sessions(), 0o077, "700")? {
            return Ok(false);
        }
        match &self.runtime {
            Some(runtime) => checked(runtime, 0o077, "700"),
            None => Ok(true),
        }
    }

    /// Creates what is missing and checks everything, the file system of the locks included.
    ///
    /// # Errors
    /// If a directory cannot be made, is not ours, is open to others, or cannot hold locks.
    pub fn prepare(&self) -> Result<(), HomeError> {
        create(&self.root)?;
        // Before anything is put into it.
        self.check()?;
        create(&self.sessions())?;
        if let Some(runtime) = &self.runtime {
            create(runtime)?;
        }
        let locks = self.locks();
        create(&locks)?;
        self.check()?;
        checked(&locks, 0o077, "700")?;
        let stat = rustix::fs::statfs(&locks).map_err(|e| HomeError::io("look at", &locks, e.into()))?;
        match network_file_system(u64::try_from(stat.f_type).unwrap_or(0)) {
            Some(kind) => Err(HomeError::Network { path: locks, kind }),
            None => Ok(()),
        }
    }
}

/// Where a bridge listens, in a form that fits a socket address.
#[derive(Debug)]
pub struct SocketAddress {
    path: PathBuf,
    short: Option<(PathBuf, OwnedFd)>,
}

impl SocketAddress {
    /// An address for `path`, however long.
    ///
    /// # Errors
    /// If the path is too long and its directory cannot be opened.
    pub fn new(path: PathBuf) -> io::Result<Self> {
        if path.as_os_str().len() <= SOCKET_PATH_MAX {
            return Ok(Self { path, short: None });
        }
        let (Some(parent), Some(file)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent, flags, rustix::fs::Mode::empty())?;
        let mut short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
        short.push(file);
        Ok(Self { path, short: Some((short, directory)) })
    }

    /// What to give to `bind` and `connect`. Valid in this process while `self` lives.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        self.short.as_ref().map_or(&self.path, |(short, _)| short)
    }

    /// The true path: what to unlink, and what to show.
    #[must_use]
    pub fn real_path(&self) -> &Path {
        &self.path
    }
}

/// The name of the file system behind an `f_type` of statfs, if it is shared with other machines.
#[must_use]
pub fn network_file_system(f_type: u64) -> Option<&'static str> {
    // Magic numbers of linux/magic.h and of the file systems' own headers.
    Some(match f_type & 0xffff_ffff {
        0x6969 => "NFS",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB 2",
        0x517b => "SMB",
        0x564c => "NCP",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x7461_636f => "OCFS2",
        0x0116_1970 => "GFS2",
        _ => return None,
    })
}

/// As much of a path as a reader needs to know it again.
fn start(path: &Path) -> String {
    let text = path.display().to_string();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn create(path: &Path) -> Result<(), HomeError> {
    // Parents too: ~/.local/state may not exist on a fresh account.
    match fs::DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            Err(HomeError::NotADirectory { path: path.to_owned() })
        }
        Err(e) => Err(HomeError::io("create", path, e)),
    }
}

fn checked(path: &Path, forbidden: u32, want: &'static str) -> Result<bool, HomeError> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(HomeError::io("look at", path, e)),
    };
    if !meta.is_dir() {
        return Err(HomeError::NotADirectory { path: path.to_owned() });
    }
    let us = rustix::process::geteuid().as_raw();
    if meta.uid() != us {
        return Err(HomeError::NotOurs { path: path.to_owned(), owner: meta.uid(), us });
    }
    let mode = meta.mode() & 0o7777;
    if mode & forbidden != 0 {
        return Err(HomeError::Open { path: path.to_owned(), mode, want });
    }
    Ok(true)
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn name(s: &str) -> SessionName {
        SessionName::new(s).unwrap()
    }

    #[test]
    fn names() {
        assert_eq!(name("@a-B_9").as_str(), "a-B_9");
        assert_eq!(name("x").to_string(), "@x");
        for bad in ["", "@", "a b", "../x", "a/b", ".", "é", &"x".repeat(65), "@@x"] {
            let error = SessionName::new(bad).unwrap_err().to_string();
            assert!(error.contains("not a session name"), "{bad:?}: {error}");
        }
    }

    #[test]
    fn prepare_creates_closed_directories() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("a/b"), None);
        assert!(!home.check().unwrap());
        home.prepare().unwrap();
        assert!(home.check().unwrap());
        for path in [home.root().to_owned(), home.sessions(), home.locks()] {
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700, "{}", path.display());
        }
        home.prepare().unwrap();
    }

    #[test]
    fn a_directory_that_others_may_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("h"), None);
        home.prepare().unwrap();
        fs::set_permissions(home.root(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(home.check().unwrap());
        fs::set_permissions(home.root(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(home.check().unwrap_err().to_string().contains("chmod go-w"));
        fs::set_permissions(home.root(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::set_permissions(home.sessions(), fs::Permissions::from_mode(0o750)).unwrap();
        assert!(home.check().unwrap_err().to_string().contains("chmod 700"));
        assert!(home.prepare().is_err());
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        // The root directory is never ours, unless we are root; then /proc/1's user is not telling either.
        let meta = fs::metadata("/").unwrap();
        if meta.uid() == rustix::process::geteuid().as_raw() {
            let dir = tempfile::tempdir().unwrap();
            let home = Home::new(dir.path().join("h"), None);
            home.prepare().unwrap();
            std::os::unix::fs::chown(home.root(), Some(12345), None).unwrap();
            assert!(matches!(home.check(), Err(HomeError::NotOurs { owner: 12345, .. })));
        } else {
            assert!(matches!(checked(Path::new("/"), 0o022, ""), Err(HomeError::NotOurs { .. })));
        }
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("h");
        fs::write(&root, "").unwrap();
        let error = Home::new(root.clone(), None).prepare().unwrap_err();
        assert!(matches!(error, HomeError::NotADirectory { .. }), "{error}");
        let below = Home::new(root.join("deeper"), None).prepare().unwrap_err();
        assert!(matches!(below, HomeError::NotADirectory { .. }), "{below}");
    }

    #[test]
    fn what_the_kernel_says_becomes_what_to_do() {
        let path = Path::new("/h/sessions");
        for (errno, says) in [
            (rustix::io::Errno::ROFS, "/h/sessions is read-only: set DROWSE_HOME"),
            (rustix::io::Errno::NOSPC, "no room left for /h/sessions: free some space"),
            (rustix::io::Errno::DQUOT, "no room left for /h/sessions: free some space"),
            (rustix::io::Errno::NOTDIR, "/h/sessions is not a directory: move it away"),
            (rustix::io::Errno::ACCESS, "cannot create /h/sessions: permission denied; give yourself access"),
            (
                rustix::io::Errno::FBIG,
                "the limit on the size of files (`ulimit -f`) does not let /h/sessions be",
            ),
            (rustix::io::Errno::NAMETOOLONG, "the path of the home is too long to create files in it"),
            (rustix::io::Errno::IO, "cannot create /h/sessions: Input/output error"),
        ] {
            let text = HomeError::io("create", path, errno.into()).to_string();
            assert!(text.starts_with(says), "{text}");
        }
    }

    #[test]
    fn network_file_systems_are_told_by_type() {
        assert_eq!(network_file_system(0x6969), Some("NFS"));
        assert_eq!(network_file_system(0xff53_4d42), Some("CIFS"));
        // As a 32-bit f_type reads when it was sign-extended.
        assert_eq!(network_file_system(0xffff_ffff_fe53_4d42), Some("SMB 2"));
        for local in [0xef53, 0x0102_1994, 0x9123_683e, 0x5846_5342, 0x794c_7630, 0x2fc1_2fc1] {
            assert_eq!(network_file_system(local), None, "{local:x}");
        }
        let error = HomeError::Network { path: "/n/locks".into(), kind: "NFS" }.to_string();
        assert!(error.contains("DROWSE_RUNTIME"), "{error}");
    }

    #[test]
    fn runtime_holds_locks_and_sockets_by_home() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        fs::create_dir(&a).unwrap();
        std::os::unix::fs::symlink(&a, dir.path().join("link")).unwrap();
        let rt = dir.path().join("rt");
        let home = Home::new(a, Some(rt.clone()));
        let same = Home::new(dir.path().join("link"), Some(rt.clone()));
        let other = Home::new(b, Some(rt.clone()));
        home.prepare().unwrap();
        assert!(home.start_lock(&name("x")).starts_with(&rt));
        assert!(home.socket_file(&name("x")).starts_with(&rt));
        assert!(!home.session_file(&name("x")).starts_with(&rt));
        assert_eq!(home.start_lock(&name("x")), same.start_lock(&name("x")));
        assert_ne!(home.start_lock(&name("x")), other.start_lock(&name("x")));
    }

    #[test]
    fn a_long_home_still_has_a_socket() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("d".repeat(100)).join("e".repeat(100)), None);
        home.prepare().unwrap();
        let name = name("x");
        fs::create_dir(home.session(&name)).unwrap();
        let address = home.socket(&name).unwrap();
        assert!(address.real_path().as_os_str().len() > SOCKET_PATH_MAX);
        assert!(address.as_path().as_os_str().len() <= SOCKET_PATH_MAX);
        let listener = UnixListener::bind(address.as_path()).unwrap();
        assert!(home.socket_file(&name).exists());
        drop(address);
        let again = home.socket(&name).unwrap();
        let _client = UnixStream::connect(again.as_path()).unwrap();
        listener.accept().unwrap();
    }
}
