//! `import`: servers that hosts and mcpc know become sessions, which start with their first use.
//!
//! Owns the plan, which is shown before anything is done, and its execution. Never changes the files that it reads.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use drowse_runtime::caller::{CallError, Listed, Pin, Sessions, WantedShare, WantedTarget};
use drowse_runtime::config::{ConfigError, ConfigFile, Transport};
use drowse_runtime::home::SessionName;
use drowse_runtime::import::{self, Place, Server, Servers, Session};
use drowse_runtime::record::{SessionRecord, Settings};
use drowse_runtime::remote;
use serde_json::{Value, json};

use super::connect::{Names, Plan, same, working_directory};
use super::{Context, Status};
use crate::error::Failure;
use crate::output::{Style, paint};
use crate::target::Target;
use crate::text::{one_line, shell_quoted};

/// How much of a target or a reason fits a line.
const WIDTH: usize = 200;

/// What is to become of one server.
struct Item {
    /// Its session, or what it is called there.
    name: String,
    target: String,
    notes: Vec<String>,
    fate: Fate,
}

enum Fate {
    Create(Box<Plan>, SessionName, Names),
    /// There is a session on it.
    Exists,
    /// Why it is left alone.
    Skip(String),
    Created,
    Failed(Failure),
}

/// A file that has servers, and what is to become of them.
struct Source {
    place: Place,
    items: Vec<Item>,
}

/// Shows what there is to import, and does it if that is wanted.
pub(super) fn import(context: &Context, files: &[PathBuf], yes: bool) -> Result<Status, Failure> {
    let sessions = super::open()?;
    let cwd = working_directory()?;
    let taken = Mutex::default();
    let known = sessions.list()?;
    let mut sources = Vec::new();
    for (place, servers) in find(context, files, &cwd)? {
        let planner = Planner { sessions: &sessions, known: &known, cwd: &cwd, taken: &taken };
        let items = match &servers {
            Servers::Entries(file) => {
                file.names().map(|entry| planner.entry(file, entry)).collect::<Result<_, _>>()?
            }
            Servers::Sessions(found) => found.iter().map(|session| planner.session(session)).collect(),
            _ => Vec::new(),
        };
        sources.push(Source { place, items });
    }
    let to_create = count(&sources, |fate| matches!(fate, Fate::Create(..)));
    if !context.output.json {
        let text: String = sources.iter().map(Source::to_text).collect();
        context.output.layout(&text)?;
    }
    let go = to_create > 0 && (yes || agreed(context, to_create));
    if go {
        let interrupt = context.interrupt();
        for item in sources.iter_mut().flat_map(|source| &mut source.items) {
            item.create(&sessions, &taken);
            if interrupt.as_ref().is_some_and(|interrupt| interrupt.is_raised()) {
                break;
            }
        }
    }
    tell(context, &sources, to_create, go)
}

/// The files that are there. Those that were named must be.
fn find(context: &Context, files: &[PathBuf], cwd: &Path) -> Result<Vec<(Place, Servers)>, Failure> {
    if !files.is_empty() {
        return files
            .iter()
            .map(|file| {
                let place = Place { owner: "", path: cwd.join(file) };
                let servers = import::read(&place.path).map_err(CallError::from)?;
                Ok((place, servers))
            })
            .collect();
    }
    let directory =
        |variable: &str| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = directory("HOME").ok_or_else(|| {
        Failure::usage("HOME is not set: name the files").with_hint("drowse import mcp.json")
    })?;
    let config = directory("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
    let mcpc = directory("MCPC_HOME_DIR").unwrap_or_else(|| home.join(".mcpc"));
    let mut found: Vec<(Place, Servers)> = Vec::new();
    for place in import::places(&home, &config, cwd, &mcpc) {
        if found.iter().any(|(known, _)| known.path == place.path) {
            continue;
        }
        // Nobody named it, so nobody is to wait for the other end of a pipe.
        if fs::metadata(&place.path).is_ok_and(|meta| !meta.is_file()) {
            context
                .output
                .warning("config", format_args!("{} is not a file: passed over", place.path.display()));
            continue;
        }
        match import::read(&place.path) {
            Ok(servers) => found.push((place, servers)),
            Err(ConfigError::Missing { .. } | ConfigError::NoServers { .. }) => {}
            Err(error) => context.output.warning("config", error),
        }
    }
    Ok(found)
}

fn count(sources: &[Source], which: impl Fn(&Fate) -> bool) -> usize {
    sources.iter().flat_map(|source| &source.items).filter(|item| which(&item.fate)).count()
}

/// Asks, where somebody can answer.
fn agreed(context: &Context, to_create: usize) -> bool {
    if context.output.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return false;
    }
    let what = if to_create == 1 { "this session" } else { "these sessions" };
    let _ = write!(io::stderr(), "Create {what}? Nothing is started. [y/N] ");
    let _ = io::stderr().flush();
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}

fn tell(context: &Context, sources: &[Source], to_create: usize, went: bool) -> Result<Status, Failure> {
    let items = || sources.iter().flat_map(|source| &source.items);
    let worst = items()
        .filter_map(|item| match &item.fate {
            Fate::Failed(failure) => Some(failure.exit),
            _ => None,
        })
        .max_by_key(|&exit| exit as u8);
    if context.output.json {
        let documents: Vec<Value> = sources
            .iter()
            .flat_map(|source| source.items.iter().map(|item| item.to_json(&source.place)))
            .collect();
        context.output.document(&Value::from(documents).to_string())?;
    } else if sources.is_empty() {
        context.output.notice(
            "no servers found\n  ↳ drowse import <file>   (an mcpServers file, or mcpc's sessions.json)",
        );
    } else if to_create == 0 {
        context.output.notice("nothing to import");
    } else if !went {
        context.output.notice("nothing was changed\n  ↳ drowse import --yes   does this");
    } else {
        for item in items() {
            if let Fate::Failed(failure) = &item.fate {
                context.output.notice(format_args!("{} failed: {}", item.name, failure.message));
            }
        }
        let created = count(sources, |fate| matches!(fate, Fate::Created));
        let plural = if created == 1 { "" } else { "s" };
        context.output.notice(format_args!(
            "{created} session{plural} created; each starts with its first use\n  ↳ drowse"
        ));
    }
    Ok(worst.map_or(Status::Done, Status::Bad))
}

struct Planner<'a> {
    sessions: &'a Sessions,
    known: &'a [Listed],
    cwd: &'a Path,
    taken: &'a Mutex<BTreeSet<SessionName>>,
}

impl Planner<'_> {
    /// The session that is on this target already.
    fn existing(&self, is_same: impl Fn(&SessionRecord) -> bool) -> Option<&SessionName> {
        self.known.iter().find(|listed| listed.record.as_ref().is_ok_and(&is_same)).map(|listed| &listed.name)
    }

    fn entry(&self, file: &ConfigFile, entry: &str) -> Result<Item, Failure> {
        let skipped = |target: String, why: String| Item {
            name: entry.to_owned(),
            target,
            notes: Vec::new(),
            fate: Fate::Skip(why),
        };
        let target = match file.entry(entry).map(|entry| entry.transport) {
            Ok(Transport::Stdio { command, args }) => command_line(&command, &args),
            Ok(Transport::Url { url, .. }) => url,
            Err(error) => return Ok(skipped(String::new(), error.to_string())),
        };
        let path = file.path().to_owned();
        let wanted = WantedTarget::Entry { file: path.clone(), entry: entry.to_owned() };
        if let Some(name) = self.existing(|record| same(record, &wanted, self.cwd)) {
            return Ok(Item { name: name.to_string(), target, notes: Vec::new(), fate: Fate::Exists });
        }
        let derived = Target::Entry { file: path, entry: entry.to_owned() }.derived_name();
        let mut names = Names::new(None, derived);
        let name = names.next(self.sessions, &wanted, self.cwd, self.taken)?;
        let plan = self.plan(wanted, Settings::default());
        let notes = Vec::new();
        Ok(Item { name: name.to_string(), target, notes, fate: Fate::Create(Box::new(plan), name, names) })
    }

    fn session(&self, session: &Session) -> Item {
        let mut item = Item {
            name: format!("@{}", session.name),
            target: String::new(),
            notes: Vec::new(),
            fate: Fate::Exists,
        };
        item.fate = match self.fate(session, &mut item) {
            Ok(fate) => fate,
            Err(why) => Fate::Skip(why),
        };
        item
    }

    fn fate(&self, session: &Session, item: &mut Item) -> Result<Fate, String> {
        let server = session.server.clone()?;
        item.target = match &server {
            Server::Command { command, args } => command_line(command, args),
            Server::Url(url) => url.clone(),
        };
        let name = SessionName::new(&session.name).map_err(|error| error.to_string())?;
        // A wake of mcpc's takes place wherever its user is; the directory is no part of what its session is.
        let same_command = |record: &SessionRecord| match &server {
            Server::Command { command, args } => record.command == *command && record.args == *args,
            Server::Url(url) => same(record, &WantedTarget::Url { url: url.clone() }, self.cwd),
        };
        if let Some(listed) = self.known.iter().find(|listed| listed.name == name) {
            return if listed.record.as_ref().is_ok_and(same_command) {
                Ok(Fate::Exists)
            } else {
                Err("the name is taken by another session".to_owned())
            };
        }
        let settings = Settings {
            timeout_ms: session.timeout_secs.map(|seconds| seconds.saturating_mul(1000)),
            insecure: session.insecure.then_some(true),
            ..Settings::default()
        };
        let target = match server {
            Server::Command { command, args } => WantedTarget::Command { command, args },
            Server::Url(url) => {
                let url = remote::complete_url(&url).map_err(|error| error.to_string())?;
                WantedTarget::Url { url }
            }
        };
        let mut plan = self.plan(target, settings);
        plan.pins = session.env.iter().map(|(name, value)| Pin::Value(name.clone(), value.clone())).collect();
        plan.headers.clone_from(&session.headers);
        for hidden in &session.hidden_headers {
            item.notes.push(format!(
                "the value of {hidden} is in mcpc's keychain: drowse connect {} @{} -H '{hidden}: …'",
                shell_quoted(&item.target),
                session.name
            ));
        }
        item.notes.extend(session.left_behind.iter().map(|what| format!("without {what}")));
        let names = Names::new(Some(name.clone()), session.name.clone());
        Ok(Fate::Create(Box::new(plan), name, names))
    }

    fn plan(&self, target: WantedTarget, settings: Settings) -> Plan {
        Plan {
            target,
            settings,
            pins: Vec::new(),
            headers: Vec::new(),
            cwd: self.cwd.to_owned(),
            lazy: Some(true),
            share: WantedShare::default(),
        }
    }
}

fn command_line(command: &str, args: &[String]) -> String {
    let words: Vec<_> =
        [command].into_iter().chain(args.iter().map(String::as_str)).map(shell_quoted).collect();
    words.join(" ")
}

impl Item {
    fn create(&mut self, sessions: &Sessions, taken: &Mutex<BTreeSet<SessionName>>) {
        if !matches!(self.fate, Fate::Create(..)) {
            return;
        }
        if let Fate::Create(plan, name, names) = std::mem::replace(&mut self.fate, Fate::Created) {
            match plan.carry_out(sessions, name, names, taken, None) {
                Ok(connected) => self.name = connected.name.to_string(),
                Err(failure) => self.fate = Fate::Failed(failure),
            }
        }
    }

    fn to_json(&self, place: &Place) -> Value {
        let (action, reason) = match &self.fate {
            Fate::Create(..) => ("create", None),
            Fate::Exists => ("exists", None),
            Fate::Skip(why) => ("skip", Some(why.as_str())),
            Fate::Created => ("created", None),
            Fate::Failed(failure) => ("failed", Some(failure.message.as_str())),
        };
        let mut extra = json!({"action": action, "source": place.path.to_string_lossy()});
        if let Some(reason) = reason {
            extra["reason"] = reason.into();
        }
        if !self.notes.is_empty() {
            extra["notes"] = self.notes.clone().into();
        }
        json!({"name": self.name, "target": self.target, "_drowse": extra})
    }
}

impl Source {
    fn to_text(&self) -> String {
        let path = one_line(&self.place.path.to_string_lossy(), WIDTH);
        let owner =
            if self.place.owner.is_empty() { String::new() } else { format!("{}  ", self.place.owner) };
        let mut text = format!("{owner}{}\n", paint(Style::Dim, &path));
        if self.items.is_empty() {
            text.push_str("  (no servers)\n");
        }
        let width =
            self.items.iter().map(|item| one_line(&item.name, WIDTH).chars().count()).max().unwrap_or(0);
        for item in &self.items {
            let name = one_line(&item.name, WIDTH);
            let (mark, said) = match &item.fate {
                Fate::Exists => (paint(Style::Dim, "="), "  (there is a session on it)".to_owned()),
                Fate::Skip(why) => {
                    (paint(Style::Yellow, "!"), format!("  skipped: {}", one_line(why, WIDTH)))
                }
                _ => (paint(Style::Green, "+"), String::new()),
            };
            text.push_str(&format!("  {mark} {name:<width$}  {}{said}\n", one_line(&item.target, WIDTH)));
            for note in &item.notes {
                text.push_str(&format!("    ↳ {}\n", one_line(note, WIDTH)));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Exit;

    #[test]
    fn what_a_file_says_cannot_steer_the_terminal() {
        let source = Source {
            place: Place { owner: "mcpc", path: "/tmp/\u{1b}[2J".into() },
            items: vec![Item {
                name: "@a\u{7}".into(),
                target: "x\u{1b}]0;y\u{7}".into(),
                notes: vec!["n\u{9b}".into()],
                fate: Fate::Skip("w\u{1b}".into()),
            }],
        };
        let text = source.to_text();
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }

    #[test]
    fn what_becomes_of_each_is_said_in_json() {
        let place = Place { owner: "", path: "/f".into() };
        let item = |fate| Item { name: "@a".into(), target: "x".into(), notes: vec!["n".into()], fate };
        for (fate, wanted) in [
            (Fate::Exists, json!({"action": "exists", "source": "/f", "notes": ["n"]})),
            (
                Fate::Skip("w".into()),
                json!({"action": "skip", "source": "/f", "reason": "w", "notes": ["n"]}),
            ),
            (
                Fate::Failed(Failure::new(Exit::Usage, "config", "m")),
                json!({"action": "failed", "source": "/f", "reason": "m", "notes": ["n"]}),
            ),
        ] {
            let document = item(fate).to_json(&place);
            assert_eq!((&document["_drowse"], &document["target"]), (&wanted, &json!("x")));
        }
    }
}
