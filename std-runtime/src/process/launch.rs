//! Starting a server: finding its program, giving it exactly the environment it was given, saying what to do when
//! that fails.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Access, AtFlags};
use rustix::pipe::PipeFlags;
use tokio::net::unix::pipe;

use super::marker::GENERATION_VARIABLE;
use super::tree::{self, Tree};
use crate::sys;

/// Where a program is looked for if the environment has no `PATH`, as the C library has it.
const PATH_WITHOUT_PATH: &str = "/bin:/usr/bin";

/// A server to be started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program: a path if it has a slash (a relative one starts at `cwd`), else looked up on the `PATH` of
    /// `env`.
    pub command: String,
    /// Its arguments, without the program itself.
    pub args: Vec<String>,
    /// The directory to start it in.
    pub cwd: PathBuf,
    /// The whole environment: nothing of ours is inherited. The last one of two entries of the same name counts.
    pub env: Vec<(String, String)>,
    /// What all processes of this tree are known by afterwards, see [`super::new_marker`]. Added to `env` as
    /// [`GENERATION_VARIABLE`].
    pub marker: String,
}

/// Why a server could not be started. Nothing of it ran.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// No such program.
    #[error("{}", not_found(command, path.as_deref()))]
    NotFound {
        /// The program as it was asked for.
        command: String,
        /// The `PATH` it was looked up on; `None` if it was asked for by path.
        path: Option<String>,
    },
    /// There is such a file, but it is no program.
    #[error(
        "`{}` is not a program that can be run here: make it executable (chmod +x), give it a first line like \
         `#!/bin/sh` if it is a script, or name its interpreter as the command and the file as its argument",
        .0.display()
    )]
    NotExecutable(
        /// The file that was found.
        PathBuf,
    ),
    /// The program is there; what its first line or its header names to run it with is not.
    #[error(
        "`{}` exists, but the interpreter that it names (in its `#!` line, or the loader of a program built for \
         another system) does not: install it, or name another interpreter as the command",
        .0.display()
    )]
    NoInterpreter(
        /// The file that was found.
        PathBuf,
    ),
    /// The working directory is not there, or not to be entered.
    #[error(
        "the working directory `{}` does not exist, or cannot be entered: create it, or connect again from \
         another directory",
        .0.display()
    )]
    NoDirectory(
        /// The directory.
        PathBuf,
    ),
    /// A variable that no environment can carry.
    #[error("`{0}` cannot be the name of an environment variable: correct it in the server's `env`")]
    BadVariable(
        /// The name.
        String,
    ),
    /// Something else failed: too many processes or files, arguments too long, a NUL byte in one.
    #[error("`{command}` could not be started: {source}")]
    Io {
        /// The program as it was asked for.
        command: String,
        /// What the system said.
        source: io::Error,
    },
}

fn not_found(command: &str, path: Option<&str>) -> String {
    match path {
        Some(path) => format!(
            "`{command}` was not found on the PATH that was pinned when this session was connected ({path}): \
             install it there, give its full path, or connect again from a shell that finds it"
        ),
        None => {
            format!("`{command}` does not exist: install it, or correct the path in the server's command")
        }
    }
}

/// Starts a server, as the leader of a new tree.
///
/// It runs in its own process group, with our side of three pipes as its standard streams and no other
/// descriptor, with all signals at their defaults, and is killed when *the thread that called this* ends: so call
/// it from the main thread, within a current-thread runtime, with its I/O and time enabled. Blocks until the new
/// program runs, or failed to.
///
/// # Errors
/// [`LaunchError`], each of which says what to do. Nothing of the server ran then.
pub fn launch(launch: &Launch) -> Result<Tree, LaunchError> {
    let failed = |source| LaunchError::Io { command: launch.command.clone(), source };
    for (name, _) in &launch.env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(LaunchError::BadVariable(name.clone()));
        }
    }
    if !launch.cwd.is_dir() || !permits(&launch.cwd, Access::EXEC_OK) {
        return Err(LaunchError::NoDirectory(launch.cwd.clone()));
    }
    let program = find_program(launch)?;

    let (server_stdin, stdin) = pipe_pair().map_err(failed)?;
    let (stdout, server_stdout) = pipe_pair().map_err(failed)?;
    let (stderr, server_stderr) = pipe_pair().map_err(failed)?;

    let mut command = Command::new(&program);
    command
        .arg0(&launch.command)
        .args(&launch.args)
        .current_dir(&launch.cwd)
        .env_clear()
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .env(GENERATION_VARIABLE, &launch.marker)
        .stdin(Stdio::from(server_stdin))
        .stdout(Stdio::from(server_stdout))
        .stderr(Stdio::from(server_stderr));
    sys::child::prepare(&mut command);

    // Before the fork, so that nothing is left to fail after it that would need the server to be ended again.
    let (stdin, stdout, stderr) = (|| {
        Ok((
            pipe::Sender::from_owned_fd(stdin)?,
            pipe::Receiver::from_owned_fd(stdout)?,
            pipe::Receiver::from_owned_fd(stderr)?,
        ))
    })()
    .map_err(failed)?;
    let control = tree::start(command, &launch.marker).map_err(|error| refused(launch, program, error))?;
    Ok(Tree { stdin, stdout, stderr, control })
}

/// A pipe, as (end to read, end to write), both closed by exec. Each end has its own flags: that ours is going to
/// be non-blocking does not show on the server's.
fn pipe_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

/// What exec said, with what it can mean now that program and directory were seen to be there.
fn refused(launch: &Launch, program: PathBuf, error: io::Error) -> LaunchError {
    if error.kind() == io::ErrorKind::NotFound {
        if !launch.cwd.is_dir() {
            LaunchError::NoDirectory(launch.cwd.clone())
        } else if program.exists() {
            LaunchError::NoInterpreter(program)
        } else {
            LaunchError::NotFound { command: launch.command.clone(), path: None }
        }
    } else if error.kind() == io::ErrorKind::PermissionDenied
        || error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error())
    {
        LaunchError::NotExecutable(program)
    } else {
        LaunchError::Io { command: launch.command.clone(), source: error }
    }
}

/// The file to run. Found here rather than by exec, so that a failure can say where it was looked for.
fn find_program(launch: &Launch) -> Result<PathBuf, LaunchError> {
    let command = &launch.command;
    if command.contains('/') {
        let path = launch.cwd.join(command);
        return match path.metadata() {
            Ok(file) if file.is_file() && permits(&path, Access::EXEC_OK) => Ok(path),
            Ok(_) => Err(LaunchError::NotExecutable(path)),
            Err(_) => Err(LaunchError::NotFound { command: command.clone(), path: None }),
        };
    }
    let pinned = launch.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
    let path = pinned.unwrap_or(PATH_WITHOUT_PATH);
    let mut no_program = None;
    if !command.is_empty() {
        for directory in std::env::split_paths(OsStr::new(path)) {
            // An empty entry is the working directory, by old custom.
            let candidate = launch.cwd.join(directory).join(command);
            if !candidate.is_file() {
                continue;
            }
            if permits(&candidate, Access::EXEC_OK) {
                return Ok(candidate);
            }
            no_program.get_or_insert(candidate);
        }
    }
    Err(match no_program {
        Some(file) => LaunchError::NotExecutable(file),
        None => LaunchError::NotFound { command: command.clone(), path: Some(path.to_owned()) },
    })
}

/// Whether this process, as the user it acts for, has this access.
fn permits(path: &Path, access: Access) -> bool {
    rustix::fs::accessat(rustix::fs::CWD, path, access, AtFlags::EACCESS).is_ok()
}
