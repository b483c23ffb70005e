//! `connect` and `restart`.

use std::env;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use drowse_runtime::caller::{
    CallError, Connected, Environment, Outcome, Pin, Sessions, Wanted, WantedTarget,
};
use drowse_runtime::home::SessionName;
use drowse_runtime::record::{SessionRecord, Settings, Target as Recorded};
use serde_json::{Map, Value};

use super::{Context, Status};
use crate::args::{Connect, Variable};
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::render::server::{Info, with_member};
use crate::render::sessions;
use crate::result;
use crate::target::Target;
use crate::text::duration;

/// How many names of one stem are tried.
const MAX_SUFFIX: u32 = 1000;

/// `connect`.
pub(super) fn connect(context: &Context, connect: Connect) -> Result<Status, Failure> {
    let sessions = super::open()?;
    let cwd = working_directory()?;
    let mut names = Names { given: connect.name, stem: connect.target.derived_name(), tried: 0 };
    let target = wanted_target(connect.target, &cwd);
    let timeout_ms = context.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    let mut wanted = Wanted {
        name: names.next(&sessions, &target, &cwd)?,
        target,
        settings: Settings { idle_timeout_secs: connect.idle_timeout, timeout_ms, ..Settings::default() },
        pins: pins(connect.env),
        cwd,
        environment: Environment::current(),
        lazy: connect.lazy.then_some(true),
    };
    let interrupt = context.interrupt();
    let start = Instant::now();
    let connected = loop {
        // The time-out is the session's setting here; the connect has a limit of its own.
        let wait = drowse_runtime::caller::Wait {
            deadline: None,
            interrupt: interrupt.as_deref().map(Interrupt::fd),
        };
        match sessions.connect(&wanted, wait) {
            // Another connect took the derived name a moment ago.
            Err(CallError::NameTaken { .. }) if names.given.is_none() => {
                wanted.name = names.next(&sessions, &wanted.target, &wanted.cwd)?;
            }
            connected => break connected,
        }
    };
    interrupt.iter().for_each(|interrupt| interrupt.release());
    show(context, &sessions, &connected?, start.elapsed(), true)
}

/// The working directory, which sessions are connected in.
pub(super) fn working_directory() -> Result<PathBuf, Failure> {
    env::current_dir().map_err(|error| {
        Failure::new(Exit::Usage, "config", format!("cannot tell the working directory: {error}"))
    })
}

/// A target in the words of the runtime.
pub(super) fn wanted_target(target: Target, cwd: &Path) -> WantedTarget {
    match target {
        Target::Command { program, args } => WantedTarget::Command { command: program, args },
        Target::Entry { file, entry } => WantedTarget::Entry { file: cwd.join(file), entry },
    }
}

/// Variables in the words of the runtime.
pub(super) fn pins(variables: Vec<Variable>) -> Vec<Pin> {
    let pin = |variable| match variable {
        Variable::Pinned(name) => Pin::Name(name),
        Variable::Set(name, value) => Pin::Value(name, value),
    };
    variables.into_iter().map(pin).collect()
}

/// `restart`.
pub(super) fn restart(context: &Context, session: &SessionName) -> Result<Status, Failure> {
    let sessions = super::open()?;
    let interrupt = context.interrupt();
    let start = Instant::now();
    let connected = sessions.restart(session, &Environment::current(), context.wait(interrupt.as_deref()));
    interrupt.iter().for_each(|interrupt| interrupt.release());
    show(context, &sessions, &connected?, start.elapsed(), false)
}

/// Names for a session: the one given, or the derived ones that are free or already mean this target.
struct Names {
    given: Option<SessionName>,
    stem: String,
    tried: u32,
}

impl Names {
    fn next(
        &mut self,
        sessions: &Sessions,
        target: &WantedTarget,
        cwd: &Path,
    ) -> Result<SessionName, Failure> {
        if let Some(given) = &self.given {
            return Ok(given.clone());
        }
        while self.tried < MAX_SUFFIX {
            self.tried += 1;
            let name =
                if self.tried == 1 { self.stem.clone() } else { format!("{}-{}", self.stem, self.tried) };
            let name = SessionName::new(&name).map_err(CallError::from)?;
            match sessions.get(&name) {
                Err(CallError::NoSession { .. }) => return Ok(name),
                Ok(listed) if listed.record.as_ref().is_ok_and(|record| same(record, target, cwd)) => {
                    return Ok(name);
                }
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::usage(format!("every name from @{} to @{}-{MAX_SUFFIX} is taken", self.stem, self.stem))
            .with_hint("name it: drowse connect … @name"))
    }
}

fn same(record: &SessionRecord, target: &WantedTarget, cwd: &Path) -> bool {
    match (&record.target, target) {
        (Recorded::Entry { file, entry }, WantedTarget::Entry { file: wanted_file, entry: wanted_entry }) => {
            entry == wanted_entry && same_file(file, wanted_file)
        }
        (Recorded::Command, WantedTarget::Command { command, args }) => {
            record.command == *command && record.args == *args && Path::new(&record.cwd) == cwd
        }
        _ => false,
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn show(
    context: &Context,
    sessions: &Sessions,
    connected: &Connected,
    took: Duration,
    as_array: bool,
) -> Result<Status, Failure> {
    let listed = sessions.get(&connected.name)?;
    let reply = connected.info.as_ref().map(|reply| reply.as_bytes());
    let info: Option<Info<'_>> = reply.map(result::read).transpose()?;
    if context.output.json {
        let mut entry = sessions::to_json(&listed);
        let mut extra = match entry.remove("_drowse") {
            Some(Value::Object(extra)) => extra,
            _ => Map::new(),
        };
        extra.insert("outcome".into(), word(connected.outcome).into());
        let mut extra = Value::from(extra).to_string();
        if let Some(info) = &info {
            extra = with_member(&extra, "handshake", info.handshake.get());
        }
        let entry = with_member(&Value::from(entry).to_string(), "_drowse", &extra);
        context.output.document(&if as_array { format!("[{entry}]") } else { entry })?;
        return Ok(Status::Done);
    }
    let mut text = sessions::entry(&listed, 0);
    if let Some(info) = &info {
        text.push_str(&info.to_text());
    }
    context.output.layout(&text)?;
    let name = &connected.name;
    let said = match connected.outcome {
        Outcome::Created => format!("{name} connected in {}", duration(took)),
        Outcome::Registered => format!("{name} registered; nothing is started yet"),
        Outcome::AlreadyAwake => format!("{name} was connected and awake already"),
        Outcome::Woken => format!("{name} woken in {}; the server is a fresh one", duration(took)),
        Outcome::Restarted => {
            format!("{name} restarted in {}; what the server kept in memory is gone", duration(took))
        }
        Outcome::Updated => format!("{name} updated"),
    };
    context.output.notice(said);
    if info.is_some() {
        context.output.notice(format_args!("↳ drowse {name} tools-list"));
    }
    Ok(Status::Done)
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Created => "created",
        Outcome::Registered => "registered",
        Outcome::AlreadyAwake => "already-awake",
        Outcome::Woken => "woken",
        Outcome::Restarted => "restarted",
        Outcome::Updated => "updated",
    }
}
