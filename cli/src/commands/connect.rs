//! `connect` and `restart`.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use drowse_runtime::caller::{
    CallError, Connected, Environment, Listed, Outcome, Pin, Sessions, Wait, Wanted, WantedShare,
    WantedTarget,
};
use drowse_runtime::config::{ConfigFile, Entry};
use drowse_runtime::home::SessionName;
use drowse_runtime::record::{SessionRecord, Settings, Target as Recorded};
use drowse_runtime::remote::{self, Header};
use drowse_runtime::serve::limits::in_force;
use serde_json::{Map, Value};

use super::{Context, Status, bulk};
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
    if let Target::File(file) = connect.target {
        return bulk::connect(context, &file, connect.settings, connect.env, connect.lazy, connect.share);
    }
    let mut names = Names::new(connect.name, connect.target.derived_name());
    let target = wanted_target(connect.target, &cwd)?;
    if let WantedTarget::Entry { file, entry } = &target
        && let Ok(read) = ConfigFile::read(file).and_then(|entries| entries.entry(entry))
    {
        warn_of_misspelt(context, entry, &read);
    }
    let plan = Plan {
        target,
        settings: with_timeout(context, connect.settings),
        pins: pins(connect.env),
        headers: connect.headers,
        cwd,
        lazy: connect.lazy.then_some(true),
        share: connect.share,
    };
    let taken = Mutex::default();
    let name = names.next(&sessions, &plan.target, &plan.cwd, &taken)?;
    let interrupt = context.interrupt();
    let start = Instant::now();
    let connected = plan.carry_out(&sessions, name, names, &taken, interrupt.as_deref());
    super::tell_of_rebuilt(context, &sessions);
    interrupt.iter().for_each(|interrupt| interrupt.release());
    show(context, &sessions, &connected?, start.elapsed(), true)
}

/// Says which members of an entry look like ones that drowse would read.
pub(super) fn warn_of_misspelt(context: &Context, name: &str, entry: &Entry) {
    for (member, meant) in entry.misspelt() {
        context.output.warning(
            "config",
            format_args!("entry `{name}` has a `{member}`, which is not read: did you mean `{meant}`?"),
        );
    }
}

/// The one server that is meant.
pub(super) fn wanted_target(target: Target, cwd: &Path) -> Result<WantedTarget, Failure> {
    Ok(match target {
        Target::Command { program, args } => WantedTarget::Command { command: program, args },
        Target::Entry { file, entry } => WantedTarget::Entry { file: cwd.join(file), entry },
        Target::Url(url) => WantedTarget::Url { url },
        Target::File(file) => {
            let file = file.display();
            return Err(Failure::usage(format!("{file} is a whole file, and one server is meant"))
                .with_hint(format!("{file}:<entry>")));
        }
    })
}

pub(super) fn working_directory() -> Result<PathBuf, Failure> {
    env::current_dir().map_err(|error| {
        Failure::new(Exit::Usage, "config", format!("cannot tell the working directory: {error}"))
    })
}

/// The time-out is the session's setting here; the connect has a limit of its own.
pub(super) fn with_timeout(context: &Context, settings: Settings) -> Settings {
    let timeout_ms = context.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    Settings { timeout_ms, ..settings }
}

pub(super) fn pins(variables: Vec<Variable>) -> Vec<Pin> {
    let pins = variables.into_iter().map(|variable| match variable {
        Variable::Pinned(name) => Pin::Name(name),
        Variable::Set(name, value) => Pin::Value(name, value),
    });
    pins.collect()
}

/// A session to be, all but its name.
pub(super) struct Plan {
    pub(super) target: WantedTarget,
    pub(super) settings: Settings,
    pub(super) pins: Vec<Pin>,
    pub(super) headers: Vec<Header>,
    pub(super) cwd: PathBuf,
    pub(super) lazy: Option<bool>,
    pub(super) share: WantedShare,
}

impl Plan {
    /// Connects it under this name, or if somebody takes that meanwhile, under the next.
    pub(super) fn carry_out(
        self,
        sessions: &Sessions,
        name: SessionName,
        mut names: Names,
        taken: &Mutex<BTreeSet<SessionName>>,
        interrupt: Option<&Interrupt>,
    ) -> Result<Connected, Failure> {
        let mut wanted = Wanted {
            name,
            target: self.target,
            settings: self.settings,
            pins: self.pins,
            headers: self.headers,
            cwd: self.cwd,
            environment: Environment::current(),
            lazy: self.lazy,
            share: self.share,
        };
        loop {
            let wait = Wait { deadline: None, interrupt: interrupt.map(Interrupt::fd) };
            match sessions.connect(&wanted, wait) {
                // Another connect took the derived name a moment ago.
                Err(CallError::NameTaken { .. }) if names.given.is_none() => {
                    wanted.name = names.next(sessions, &wanted.target, &wanted.cwd, taken)?;
                }
                connected => return Ok(connected?),
            }
        }
    }
}

/// `restart`.
pub(super) fn restart(context: &Context, session: &SessionName) -> Result<Status, Failure> {
    let sessions = super::open()?;
    let interrupt = context.interrupt();
    let start = Instant::now();
    let connected = sessions.restart(session, &Environment::current(), context.wait(interrupt.as_deref()));
    super::tell_of_rebuilt(context, &sessions);
    interrupt.iter().for_each(|interrupt| interrupt.release());
    show(context, &sessions, &connected?, start.elapsed(), false)
}

/// Names for a session: the one given, or the derived ones that are free or already mean this target.
pub(super) struct Names {
    given: Option<SessionName>,
    stem: String,
    tried: u32,
}

impl Names {
    pub(super) fn new(given: Option<SessionName>, stem: String) -> Self {
        Self { given, stem, tried: 0 }
    }

    /// The next one, which is then `taken`: by a session that is not there yet.
    pub(super) fn next(
        &mut self,
        sessions: &Sessions,
        target: &WantedTarget,
        cwd: &Path,
        taken: &Mutex<BTreeSet<SessionName>>,
    ) -> Result<SessionName, Failure> {
        if let Some(given) = &self.given {
            return Ok(given.clone());
        }
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        while self.tried < MAX_SUFFIX {
            self.tried += 1;
            let name =
                if self.tried == 1 { self.stem.clone() } else { format!("{}-{}", self.stem, self.tried) };
            let name = SessionName::new(&name).map_err(CallError::from)?;
            if taken.contains(&name) {
                continue;
            }
            let is_free = match sessions.get(&name) {
                Err(CallError::NoSession { .. }) => true,
                Ok(listed) => listed.record.as_ref().is_ok_and(|record| same(record, target, cwd)),
                Err(error) => return Err(error.into()),
            };
            if is_free {
                taken.insert(name.clone());
                return Ok(name);
            }
        }
        Err(Failure::usage(format!("every name from @{} to @{}-{MAX_SUFFIX} is taken", self.stem, self.stem))
            .with_hint("name it: drowse connect … @name"))
    }
}

/// Whether a session is on this target.
pub(super) fn same(record: &SessionRecord, target: &WantedTarget, cwd: &Path) -> bool {
    match (&record.target, target) {
        (Recorded::Entry { file, entry }, WantedTarget::Entry { file: wanted_file, entry: wanted_entry }) => {
            entry == wanted_entry && same_file(file, wanted_file)
        }
        (Recorded::Command, WantedTarget::Command { command, args }) => {
            record.command == *command && record.args == *args && Path::new(&record.cwd) == cwd
        }
        (Recorded::Url, WantedTarget::Url { url }) => {
            record.url.as_deref().is_some_and(|known| remote::is_same_url(known, url))
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
    if as_array {
        warn_of_sharing(context, &listed);
    }
    if context.output.json {
        let entry = to_json(&listed, connected.outcome, info.as_ref(), None);
        context.output.document(&if as_array { format!("[{entry}]") } else { entry })?;
        return Ok(Status::Done);
    }
    let mut text = sessions::outcome(&listed, 0, 0);
    if let Some(info) = &info {
        text.push_str(&info.to_text());
    }
    context.output.layout(&text)?;
    let name = &connected.name;
    let is_remote = connected.record.url.is_some();
    let said = match connected.outcome {
        Outcome::Created => format!("{name} connected in {}", duration(took)),
        Outcome::Registered => format!("{name} registered; nothing is started yet"),
        Outcome::AlreadyAwake => format!("{name} was connected and awake already"),
        Outcome::Changed => format!("{name} was awake already, and goes by its new settings from now on"),
        Outcome::Woken if is_remote => {
            format!("{name} woken in {}; its session with the server is a fresh one", duration(took))
        }
        Outcome::Woken => format!("{name} woken in {}; the server is a fresh one", duration(took)),
        Outcome::Restarted if is_remote => {
            format!(
                "{name} restarted in {}; what the server kept for the old session is gone",
                duration(took)
            )
        }
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

/// What there is to know of clients to whom a session is shared.
pub(super) fn warn_of_sharing(context: &Context, listed: &Listed) {
    let Ok(SessionRecord { share: Some(share), settings, .. }) = &listed.record else { return };
    let name = &listed.name;
    let not_shared = listed.known.as_ref().and_then(|known| known.not_shared.as_ref());
    match (&listed.listener, not_shared) {
        (Some(_), _) => {}
        (None, Some(why)) => context.output.warning(
            "not-shared",
            format_args!("{why}; its commands work all the same, and drowse restart {name} tries again"),
        ),
        (None, None) => context.output.warning(
            "not-shared",
            format_args!("{name} is shared at {share} from its first command on, not before"),
        ),
    }
    if settings.idle_timeout_secs.is_some_and(|secs| secs > 0) {
        let unused = duration(in_force(&share.limits).0.idle);
        context.output.warning(
            "stateful-clients",
            format_args!(
                "clients that keep a session open (the protocol up to 2025-11-25) keep {name} awake, until they end it \
                 or do not use it for {unused}; those of 2026-07-28 let it sleep, and wake it by their next request"
            ),
        );
    }
}

/// One session that was connected, for `--json`; `entry` is its entry's name where a whole file was connected.
pub(super) fn to_json(
    listed: &Listed,
    outcome: Outcome,
    info: Option<&Info<'_>>,
    entry: Option<&str>,
) -> String {
    let mut document = sessions::to_json(listed);
    let mut extra = match document.remove("_drowse") {
        Some(Value::Object(extra)) => extra,
        _ => Map::new(),
    };
    extra.insert("outcome".into(), word(outcome).into());
    if let Some(entry) = entry {
        extra.insert("entry".into(), entry.into());
    }
    let mut extra = Value::from(extra).to_string();
    if let Some(info) = info {
        extra = with_member(&extra, "handshake", info.handshake.get());
    }
    with_member(&Value::from(document).to_string(), "_drowse", &extra)
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Created => "created",
        Outcome::Registered => "registered",
        Outcome::AlreadyAwake => "already-awake",
        Outcome::Changed => "changed",
        Outcome::Woken => "woken",
        Outcome::Restarted => "restarted",
        Outcome::Updated => "updated",
    }
}
