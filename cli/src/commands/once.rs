//! A command on a server of its own (`--server`), without a session of the user's.
//!
//! Owns a temporary home with one session in it, which is a session like any other: the machinery is the same. Nothing
//! of it is left when the command ends, however it ends: what the command cannot remove itself, because it was killed,
//! a second process removes that waits for just that.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, PipeWriter, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, ExitCode, Stdio};
use std::rc::Rc;
use std::time::Duration;

use drowse_runtime::caller::{Environment, Sessions, Wait, Wanted, WantedShare};
use drowse_runtime::home::{Home, HomeError, SessionName};
use drowse_runtime::log;
use drowse_runtime::record::Settings;
use drowse_runtime::remote::Header;
use tempfile::TempDir;

use super::connect::{pins, wanted_target, working_directory};
use super::{Context, Status, carry_out};
use crate::args::{Command, Once, Variable};
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::target::Target;

/// The hidden command that removes what is left.
pub(crate) const GUARD_COMMAND: &str = "once-guard";

/// How the temporary directories begin: the guard removes no other.
pub(super) const PREFIX: &str = "drowse-once-";
/// How long ending the server may take: more than the graces of any server that drowse can end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Should the guard be killed as well, nothing runs for ever. Long enough for a user who is asked something.
const IDLE_SECS: u64 = 600;
/// What the guard hears when nothing is left for it to do.
const DONE: &[u8] = b".";
/// How much of the log is shown where a start failed and nothing else says why.
const LOG_LINES: usize = 20;

/// What a command works with that has a server of its own.
#[derive(Debug)]
pub(super) struct Alone {
    pub(super) sessions: Sessions,
    /// Caught once, for the whole command: also for what ends it otherwise, as there is something to clean up.
    pub(super) interrupt: Rc<Interrupt>,
    /// `--server …`, as it could be typed again.
    pub(super) typed: String,
}

/// Runs a command on a server that is there for nothing else.
pub(super) fn run(context: Context, once: Once, command: Command) -> Result<Status, Failure> {
    let interrupt = Interrupt::catch_all().map_err(|error| broken("catch Ctrl-C", &error))?;
    let place = Place::make()?;
    let sessions = Sessions::at(place.home());
    let alone = Alone { sessions: sessions.clone(), interrupt: Rc::new(interrupt), typed: once.typed };
    let context = Context { alone: Some(alone), ..context };
    let wanted = wanted(&once.name, once.target, once.settings, once.env, once.headers);
    let outcome = wanted
        .and_then(|wanted| Ok(sessions.connect(&wanted, context.wait(context.interrupt().as_deref()))?))
        .and_then(|_| carry_out(command, &context))
        .map_err(|failure| with_log(failure, &sessions, &once.name));
    // Always, and before anything is said: whatever happened, nothing is left.
    let removed = place.remove(&sessions);
    let status = outcome?;
    removed?;
    Ok(status)
}

/// The session, only written down: its server starts with the first operation.
fn wanted(
    name: &SessionName,
    target: Target,
    settings: Settings,
    env: Vec<Variable>,
    headers: Vec<Header>,
) -> Result<Wanted, Failure> {
    let cwd = working_directory()?;
    Ok(Wanted {
        name: name.clone(),
        target: wanted_target(target, &cwd)?,
        settings: Settings { idle_timeout_secs: Some(IDLE_SECS), ..settings },
        pins: pins(env),
        headers,
        cwd,
        environment: Environment::current(),
        lazy: Some(true),
        share: WantedShare::default(),
    })
}

/// A start that failed without last words: the log may have some, and nobody can look at it any more.
fn with_log(mut failure: Failure, sessions: &Sessions, name: &SessionName) -> Failure {
    if failure.kind == "start-failed" && failure.stderr.is_none() {
        let tail = log::tail(&sessions.home().log_file(name), LOG_LINES).unwrap_or_default();
        let tail = String::from_utf8_lossy(&tail);
        // Its own lines say what the failure says.
        let words: Vec<&str> = tail.lines().filter(|line| !line.contains("Z drowse: ")).collect();
        failure.stderr = (!words.is_empty()).then(|| words.join("\n"));
    }
    failure
}

/// The temporary directory, and the process that watches over it.
struct Place {
    directory: TempDir,
    /// `None` where it could not be started: then a command that is killed leaves something.
    guard: Option<(Child, PipeWriter)>,
}

impl Place {
    fn make() -> Result<Self, Failure> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        // Named by users whose other directories cannot hold locks.
        let directory = match env::var_os("DROWSE_RUNTIME").filter(|path| !path.is_empty()).map(PathBuf::from)
        {
            None => builder.tempdir(),
            Some(path) if path.is_relative() => {
                let error = HomeError::Relative { variable: "DROWSE_RUNTIME", path };
                return Err(drowse_runtime::caller::CallError::from(error).into());
            }
            Some(path) => fs::create_dir_all(&path).and_then(|()| builder.tempdir_in(path)),
        };
        let directory = directory.map_err(|error| broken("make a temporary directory", &error))?;
        let guard = watch(directory.path()).ok();
        Ok(Self { directory, guard })
    }

    /// Its own, with the user's defaults.
    fn home(&self) -> Home {
        let home = home(self.directory.path());
        match Home::from_env() {
            Ok(users) => home.with_defaults_of(&users),
            Err(_) => home,
        }
    }

    /// Ends the server and removes everything.
    fn remove(self, sessions: &Sessions) -> Result<(), Failure> {
        let path = self.directory.path().to_owned();
        let removed = remove(sessions).and_then(|()| {
            self.directory.close().map_err(|error| format!("cannot remove {}: {error}", path.display()))
        });
        if let Some((mut guard, mut end)) = self.guard {
            if removed.is_ok() {
                let _ = end.write_all(DONE);
            }
            drop(end);
            let _ = guard.wait();
        }
        removed.map_err(|what| {
            let message = format!("the server was used, but something of it may be left: {what}");
            Failure::new(Exit::Network, "storage", message)
        })
    }
}

fn home(directory: &Path) -> Home {
    Home::new(directory.join("home"), None)
}

fn remove(sessions: &Sessions) -> Result<(), String> {
    let cleaned = sessions.abandon(Wait::at_most(PATIENCE)).map_err(|error| error.to_string())?;
    match cleaned.failed.first() {
        Some((_, error)) => Err(error.to_string()),
        None => Ok(()),
    }
}

/// Starts the process that removes `directory` should this one end without having done so.
fn watch(directory: &Path) -> io::Result<(Child, PipeWriter)> {
    let (ours, end) = io::pipe()?;
    let guard = Process::new(env::current_exe()?)
        .arg(GUARD_COMMAND)
        .arg(directory)
        .stdin(ours)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Out of the reach of Ctrl-C and of whoever ends all of a job at once; and in nobody's way.
        .process_group(0)
        .current_dir("/")
        .spawn()?;
    Ok((guard, end))
}

/// [`GUARD_COMMAND`]: waits until the process that started it is gone.
pub(crate) fn guard(words: &[OsString]) -> ExitCode {
    let Some(directory) = words.get(1).map(PathBuf::from) else { return ExitCode::FAILURE };
    let ours = directory.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    let mut heard = Vec::new();
    let told = io::stdin().lock().read_to_end(&mut heard);
    if !ours || told.is_err() || heard == DONE {
        return ExitCode::SUCCESS;
    }
    let removed = remove(&Sessions::at(home(&directory)));
    // What still runs there is better found with its records.
    if removed.is_ok() && fs::remove_dir_all(&directory).is_ok() {
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}

fn broken(what: &str, error: &io::Error) -> Failure {
    Failure::new(Exit::Network, "storage", format!("cannot {what}: {error}"))
}
