//! `connect` of a whole file: every entry a session, a few at a time, and a result for each.
//!
//! Owns the order of the results, which is the file's, and what they come to. One that fails is no reason to leave out
//! another.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;

use drowse_runtime::caller::{CallError, Connected, Sessions, WantedShare, WantedTarget};
use drowse_runtime::config::{ConfigFile, Transport};
use drowse_runtime::home::SessionName;
use drowse_runtime::record::Settings;
use drowse_runtime::wire::Ran;
use serde_json::Value;

use super::connect::{
    Names, Plan, pins, to_json, warn_of_misspelt, warn_of_sharing, with_timeout, working_directory,
};
use super::{Context, Status};
use crate::args::Variable;
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Style, paint};
use crate::render::server::Info;
use crate::render::sessions;
use crate::result;
use crate::target::Target;
use crate::text::one_line;

/// How many servers are started at once.
const AT_ONCE: usize = 8;
/// How much of a reason fits a line.
const REASON_WIDTH: usize = 300;

/// One entry, and the name that its session is to have.
struct Job {
    entry: String,
    name: SessionName,
    names: Names,
    plan: Plan,
}

/// What became of an entry.
struct Done {
    entry: String,
    name: SessionName,
    target: String,
    outcome: Result<Connected, Failure>,
}

/// Connects every entry of `file`.
pub(super) fn connect(
    context: &Context,
    file: &Path,
    settings: Settings,
    env: Vec<Variable>,
    lazy: bool,
    share: WantedShare,
) -> Result<Status, Failure> {
    let sessions = super::open()?;
    let cwd = working_directory()?;
    let path = cwd.join(file);
    let entries = ConfigFile::read(&path).map_err(CallError::from)?;
    let settings = with_timeout(context, settings);
    let pins = pins(env);
    let taken = Mutex::new(BTreeSet::new());
    let mut jobs = Vec::new();
    // Names first and one after the other: who gets the plain one is not to depend on who is faster.
    for entry in entries.names() {
        let read = entries.entry(entry);
        if let Ok(read) = &read {
            warn_of_misspelt(context, entry, read);
        }
        let is_url = matches!(read, Ok(entry) if matches!(entry.transport, Transport::Url { .. }));
        let named = Target::Entry { file: file.to_owned(), entry: entry.to_owned() };
        let target = WantedTarget::Entry { file: path.clone(), entry: entry.to_owned() };
        let mut names = Names::new(None, named.derived_name());
        let name = names.next(&sessions, &target, &cwd, &taken)?;
        let settings = settings.clone();
        // A file may hold both kinds, and certificates say nothing to a command.
        let settings = if is_url { settings } else { settings.without_those_for_urls() };
        let plan = Plan {
            target,
            settings,
            pins: pins.clone(),
            headers: Vec::new(),
            cwd: cwd.clone(),
            lazy: lazy.then_some(true),
            share: share.clone(),
        };
        jobs.push(Mutex::new(Some(Job { entry: entry.to_owned(), name, names, plan })));
    }
    if jobs.is_empty() {
        context.output.notice(format_args!("{} has no entries", file.display()));
    }
    let interrupt = context.interrupt();
    let mut results = Results::new(context, &sessions, file, width(&jobs));
    let shown = carry_out(&jobs, &sessions, &taken, interrupt.as_deref(), &mut results);
    interrupt.iter().for_each(|interrupt| interrupt.release());
    shown?;
    results.end()
}

fn width(jobs: &[Mutex<Option<Job>>]) -> usize {
    let length = |job: &Mutex<Option<Job>>| {
        let job = job.lock().unwrap_or_else(PoisonError::into_inner);
        job.as_ref().map_or(0, |job| job.name.to_string().len())
    };
    jobs.iter().map(length).max().unwrap_or(0)
}

/// Carries the jobs out, a few at a time, and gives their results in their order.
fn carry_out(
    jobs: &[Mutex<Option<Job>>],
    sessions: &Sessions,
    taken: &Mutex<BTreeSet<SessionName>>,
    interrupt: Option<&Interrupt>,
    results: &mut Results<'_>,
) -> Result<(), Failure> {
    let next = AtomicUsize::new(0);
    let (send, receive) = channel();
    thread::scope(|scope| {
        for _ in 0..jobs.len().min(AT_ONCE) {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    let Some(job) = jobs.get(at) else { return };
                    let Some(job) = job.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
                    if send.send((at, job.run(sessions, taken, interrupt))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let mut early: Vec<Option<Done>> = jobs.iter().map(|_| None).collect();
        let mut shown = 0;
        // A reader that went away is no reason to leave the rest unconnected.
        let mut printed = Ok(());
        for (at, done) in receive {
            if let Some(place) = early.get_mut(at) {
                *place = Some(done);
            }
            while let Some(done) = early.get_mut(shown).and_then(Option::take) {
                printed = printed.and(results.show(done));
                shown += 1;
            }
        }
        printed
    })
}

impl Job {
    fn run(
        self,
        sessions: &Sessions,
        taken: &Mutex<BTreeSet<SessionName>>,
        interrupt: Option<&Interrupt>,
    ) -> Done {
        let Self { entry, name, names, plan } = self;
        let target = match &plan.target {
            WantedTarget::Entry { file, entry } => format!("{}:{entry}", file.display()),
            _ => String::new(),
        };
        let outcome = if interrupt.is_some_and(Interrupt::is_raised) {
            Err(CallError::Interrupted { ran: Ran::No }.into())
        } else {
            plan.carry_out(sessions, name.clone(), names, taken, interrupt)
        };
        let name = outcome.as_ref().map_or(name, |connected| connected.name.clone());
        Done { entry, name, target, outcome }
    }
}

/// Results as they are printed: lines at once, JSON at the end.
struct Results<'a> {
    context: &'a Context,
    sessions: &'a Sessions,
    file: &'a Path,
    width: usize,
    documents: Vec<String>,
    worst: Option<Exit>,
    failed: usize,
    all: usize,
}

impl<'a> Results<'a> {
    fn new(context: &'a Context, sessions: &'a Sessions, file: &'a Path, width: usize) -> Self {
        Self { context, sessions, file, width, documents: Vec::new(), worst: None, failed: 0, all: 0 }
    }

    fn show(&mut self, done: Done) -> Result<(), Failure> {
        self.all += 1;
        let Done { entry, name, target, outcome } = done;
        let shown = outcome.and_then(|connected| self.success(&entry, &connected));
        let (line, document) = match shown {
            Ok(shown) => shown,
            Err(failure) => {
                self.failed += 1;
                self.worst = self.worst.into_iter().chain([failure.exit]).max_by_key(|&exit| exit as u8);
                let name = name.to_string();
                (
                    failure_line(&name, self.width, &failure),
                    failure_document(&name, &target, &entry, &failure),
                )
            }
        };
        if self.context.output.json {
            self.documents.push(document);
            return Ok(());
        }
        self.context.output.layout(&line)
    }

    fn success(&self, entry: &str, connected: &Connected) -> Result<(String, String), Failure> {
        let listed = self.sessions.get(&connected.name)?;
        warn_of_sharing(self.context, &listed);
        let info: Option<Info<'_>> =
            connected.info.as_ref().map(|reply| result::read(reply.as_bytes())).transpose()?;
        let line = sessions::outcome(&listed, self.width, sessions::OUTCOME_WIDTH);
        let line = line.lines().next().unwrap_or_default().to_owned() + "\n";
        Ok((line, to_json(&listed, connected.outcome, info.as_ref(), Some(entry))))
    }

    fn end(self) -> Result<Status, Failure> {
        if self.context.output.json {
            self.context.output.document(&format!("[{}]", self.documents.join(",")))?;
        } else if self.failed > 0 {
            self.context.output.notice(format_args!(
                "{} of {} failed\n  ↳ one by itself says more: drowse connect {}:<entry>",
                self.failed,
                self.all,
                self.file.display()
            ));
        }
        Ok(self.worst.map_or(Status::Done, Status::Bad))
    }
}

fn failure_line(name: &str, width: usize, failure: &Failure) -> String {
    let reason = one_line(&failure.message, REASON_WIDTH);
    let name = paint(Style::Bold, &format!("{name:<width$}"));
    format!(
        "{} {name}  {}{reason}\n",
        paint(Style::Red, "✗"),
        paint(Style::Red, &format!("{:<1$}  ", "failed", sessions::OUTCOME_WIDTH))
    )
}

/// The failure as a single `connect` would print it, with the session that it is about.
fn failure_document(name: &str, target: &str, entry: &str, failure: &Failure) -> String {
    let mut document = serde_json::Map::new();
    document.insert("name".into(), name.into());
    document.insert("target".into(), target.into());
    if let Ok(Value::Object(rest)) = serde_json::from_str(&failure.to_json()) {
        document.extend(rest);
    }
    let extra = document.entry("_drowse").or_insert_with(|| Value::Object(serde_json::Map::new()));
    extra["entry"] = entry.into();
    Value::from(document).to_string()
}
