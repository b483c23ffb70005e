//! Searching the snapshots of many sessions without parsing what cannot match.
//!
//! A line that may hold a match is parsed, and what is in it is looked at as text. Files that are laid out in another
//! way than this build does are parsed whole.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::value::RawValue;

use super::Header;
use super::pattern::Pattern;
use super::read::{self, Buffer, Defect, Lists, SnapshotError};
use crate::home::{Home, SessionName};

/// More threads than this do not make a search faster.
const MAX_THREADS: usize = 8;
/// Schemas are not looked into deeper than this: the parser passes over what is nested however deep.
const MAX_DEPTH: usize = 32;

/// A kind of thing that a search finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// What the server wants a model to know.
    Instructions,
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource.
    Resource,
    /// A template of resource URIs.
    ResourceTemplate,
}

impl Kind {
    /// Its word, which is also the member that has it in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::ResourceTemplate => "resourceTemplate",
        }
    }
}

/// What is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// Tools.
    pub tools: bool,
    /// Resources and their templates.
    pub resources: bool,
    /// Prompts.
    pub prompts: bool,
    /// Instructions.
    pub instructions: bool,
}

impl Scope {
    /// Whether it has things of that kind.
    #[must_use]
    pub fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::Instructions => self.instructions,
            Kind::Tool => self.tools,
            Kind::Prompt => self.prompts,
            Kind::Resource | Kind::ResourceTemplate => self.resources,
        }
    }
}

/// Where in a thing a match is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Its name.
    Name,
    /// Its URI, or the template of one.
    Uri,
    /// Its title.
    Title,
    /// Its description.
    Description,
    /// The name of an argument: those that lead to it and its own, with dots between.
    Argument(String),
    /// What is said of an argument.
    OfArgument(String),
    /// The instructions.
    Instructions,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("name"),
            Self::Uri => f.write_str("uri"),
            Self::Title => f.write_str("title"),
            Self::Description => f.write_str("description"),
            Self::Argument(path) | Self::OfArgument(path) if !path.is_empty() => write!(f, "argument {path}"),
            Self::Argument(_) | Self::OfArgument(_) => f.write_str("arguments"),
            Self::Instructions => f.write_str("instructions"),
        }
    }
}

/// Something that matches.
#[derive(Debug)]
pub struct Hit {
    /// What it is.
    pub kind: Kind,
    /// It, as the server sent it.
    pub object: Box<RawValue>,
    /// The texts in it that match, and where they stand; never none.
    pub matched: Vec<(Place, String)>,
}

/// One session to search, by the snapshot that it has.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// Its name.
    pub name: &'a SessionName,
    /// Its record's identity.
    pub identity: &'a str,
}

/// What was found of a session.
#[derive(Debug)]
pub enum Searched {
    /// It was looked through.
    Through {
        /// What the snapshot says before its lists.
        header: Header,
        /// In the order of the snapshot.
        hits: Vec<Hit>,
    },
    /// There is no snapshot.
    Missing,
    /// There is one, of something else that the session ran before, or with other credentials.
    OfAnother,
    /// Enough was found before.
    NotNeeded,
}

/// Searches the snapshots of all these sessions, with as many threads as there are processors. With a limit, what
/// stands after that many hits is not needed.
pub fn search(
    home: &Home,
    jobs: &[Job<'_>],
    pattern: &Pattern,
    scope: Scope,
    limit: Option<usize>,
) -> Vec<Result<Searched, SnapshotError>> {
    let limit = limit.unwrap_or(usize::MAX);
    let (next, found) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // Sessions are taken in order: once enough was found, none that was not taken can have one of the first.
    let work = || {
        let mut buffer = Buffer::default();
        let mut done = Vec::new();
        while found.load(Ordering::Relaxed) < limit {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { break };
            let searched = one(home, job, pattern, scope, limit, &mut buffer);
            if let Ok(Searched::Through { hits, .. }) = &searched {
                found.fetch_add(hits.len(), Ordering::Relaxed);
            }
            done.push((index, searched));
        }
        done
    };
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = processors.min(MAX_THREADS).min(jobs.len());
    let mut outcomes: Vec<_> = jobs.iter().map(|_| Ok(Searched::NotNeeded)).collect();
    let mut place = |done: Vec<(usize, _)>| {
        for (index, searched) in done {
            outcomes[index] = searched;
        }
    };
    thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads).map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        place(work());
        for other in others {
            match other.join() {
                Ok(done) => place(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    outcomes
}

fn one(
    home: &Home,
    job: &Job<'_>,
    pattern: &Pattern,
    scope: Scope,
    limit: usize,
    buffer: &mut Buffer,
) -> Result<Searched, SnapshotError> {
    let path = home.snapshot_file(job.name);
    let Some(bytes) = buffer.fill(&path, job.name)? else { return Ok(Searched::Missing) };
    content(bytes, job.identity, pattern, scope, limit).map_err(|defect| defect.of(&path, job.name))
}

/// Searches the content of a file.
fn content(
    bytes: &[u8],
    identity: &str,
    pattern: &Pattern,
    scope: Scope,
    limit: usize,
) -> Result<Searched, Defect> {
    if let Some((header, body)) = read::first_line(bytes) {
        if header.identity != identity {
            return Ok(Searched::OfAnother);
        }
        let mut hits: Vec<Hit> = of_header(&header, pattern, scope).into_iter().collect();
        if hits.len() < limit && lines(body, pattern, scope, limit, &mut hits).is_none() {
            return whole(bytes, identity, pattern, scope);
        }
        return Ok(Searched::Through { header, hits });
    }
    whole(bytes, identity, pattern, scope)
}

/// Searches a document of any layout.
fn whole(bytes: &[u8], identity: &str, pattern: &Pattern, scope: Scope) -> Result<Searched, Defect> {
    let header = read::header(bytes)?;
    let lists = Lists::read(bytes)?;
    if header.identity != identity {
        return Ok(Searched::OfAnother);
    }
    let mut hits: Vec<Hit> = of_header(&header, pattern, scope).into_iter().collect();
    for (kind, list) in [
        (Kind::Tool, lists.tools),
        (Kind::Prompt, lists.prompts),
        (Kind::Resource, lists.resources),
        (Kind::ResourceTemplate, lists.resource_templates),
    ] {
        if scope.has(kind) {
            hits.extend(list.into_iter().filter_map(|item| hit(kind, item, pattern)));
        }
    }
    Ok(Searched::Through { header, hits })
}

/// The lists, as their lines open them.
const SECTIONS: [(&[u8], Kind); 4] = [
    (b"\"tools\":[", Kind::Tool),
    (b"\"prompts\":[", Kind::Prompt),
    (b"\"resources\":[", Kind::Resource),
    (b"\"resourceTemplates\":[", Kind::ResourceTemplate),
];

/// Searches the lists of a file line by line; `None` where it turns out not to be laid out so.
fn lines(body: &[u8], pattern: &Pattern, scope: Scope, limit: usize, hits: &mut Vec<Hit>) -> Option<()> {
    let mut candidates = pattern.candidates(body);
    if candidates.are_none() {
        return Some(());
    }
    let mut scratch = Vec::new();
    let mut at = 0;
    let mut next = || {
        let start = at;
        let rest = body.get(start..).filter(|rest| !rest.is_empty())?;
        let end = memchr::memchr(b'\n', rest).map_or(body.len(), |length| start + length);
        at = end + 1;
        Some(start..end)
    };
    for (index, (opening, kind)) in SECTIONS.into_iter().enumerate() {
        if body[next()?] != *opening {
            return None;
        }
        let closing: &[u8] = if index + 1 == SECTIONS.len() { b"]}" } else { b"]," };
        loop {
            let line = next()?;
            let item = &body[line.clone()];
            if item == closing {
                break;
            }
            let item = item.strip_suffix(b",").unwrap_or(item);
            if !item.starts_with(b"{") || !item.ends_with(b"}") {
                return None;
            }
            if scope.has(kind) && candidates.touch(&line) && pattern.may_be_in(item, &mut scratch) {
                let item: &RawValue = serde_json::from_slice(item).ok()?;
                hits.extend(hit(kind, item, pattern));
                if hits.len() >= limit {
                    return Some(());
                }
            }
        }
    }
    next().is_none().then_some(())
}

fn of_header(header: &Header, pattern: &Pattern, scope: Scope) -> Option<Hit> {
    header.instructions.as_deref().filter(|_| scope.instructions).and_then(|text| instructions(text, pattern))
}

/// What a server wants a model to know, if it matches.
#[must_use]
pub fn instructions(text: &str, pattern: &Pattern) -> Option<Hit> {
    if !pattern.is_in(text) {
        return None;
    }
    let object = serde_json::value::to_raw_value(text).ok()?;
    let matched = vec![(Place::Instructions, text.to_owned())];
    Some(Hit { kind: Kind::Instructions, object, matched })
}

/// One thing of a list, if it matches.
#[must_use]
pub fn hit(kind: Kind, item: &RawValue, pattern: &Pattern) -> Option<Hit> {
    let mut matched = Vec::new();
    texts(kind, item, &mut |place, text| {
        if pattern.is_in(text) {
            matched.push((place(), text.to_owned()));
        }
    });
    (!matched.is_empty()).then(|| Hit { kind, object: item.to_owned(), matched })
}

/// A member of a thing, if it is a text.
#[must_use]
pub fn member(item: &RawValue, key: &str) -> Option<String> {
    object(item)?.get(key).and_then(|value| string(value))
}

/// Takes a text, and the place that it has, which costs something to say.
type See<'s> = &'s mut dyn FnMut(&dyn Fn() -> Place, &str);

type Members<'a> = BTreeMap<String, &'a RawValue>;

/// All the texts in a thing that a search looks at. What does not have its usual type is passed over.
fn texts(kind: Kind, item: &RawValue, see: See<'_>) {
    let Some(members) = object(item) else { return };
    let text = |key: &str| members.get(key).and_then(|value| string(value));
    let (address, title) = match kind {
        Kind::Resource => (text("uri"), None),
        Kind::ResourceTemplate => (text("uriTemplate"), None),
        // Where tools had their title before 2025-06-18.
        Kind::Tool => {
            let annotations = members.get("annotations").and_then(|annotations| object(annotations));
            (None, annotations.and_then(|of| of.get("title").and_then(|value| string(value))))
        }
        Kind::Prompt | Kind::Instructions => (None, None),
    };
    for (place, text) in [
        (Place::Name, text("name")),
        (Place::Uri, address),
        (Place::Title, text("title")),
        (Place::Title, title),
        (Place::Description, text("description")),
    ] {
        if let Some(text) = text {
            see(&|| place.clone(), &text);
        }
    }
    match kind {
        Kind::Tool => {
            if let Some(input) = members.get("inputSchema") {
                schema(input, &mut Vec::new(), MAX_DEPTH, see);
            }
        }
        Kind::Prompt => {
            for argument in members.get("arguments").and_then(|list| array(list)).unwrap_or_default() {
                let Some(members) = object(argument) else { continue };
                let text = |key: &str| members.get(key).and_then(|value| string(value));
                let name = text("name").unwrap_or_default();
                see(&|| Place::Argument(name.clone()), &name);
                for text in [text("title"), text("description")].into_iter().flatten() {
                    see(&|| Place::OfArgument(name.clone()), &text);
                }
            }
        }
        _ => {}
    }
}

/// The names of properties, and what a schema says of them.
fn schema(value: &RawValue, path: &mut Vec<String>, depth: usize, see: See<'_>) {
    if depth == 0 {
        return;
    }
    for inner in array(value).unwrap_or_default() {
        schema(inner, path, depth - 1, see);
    }
    for (key, inner) in object(value).unwrap_or_default() {
        match key.as_str() {
            "title" | "description" => {
                if let Some(text) = string(inner) {
                    see(&|| Place::OfArgument(path.join(".")), &text);
                }
            }
            "properties" => {
                for (name, property) in object(inner).unwrap_or_default() {
                    path.push(name);
                    let name = path.last().map_or("", String::as_str);
                    see(&|| Place::Argument(path.join(".")), name);
                    schema(property, path, depth - 1, see);
                    path.pop();
                }
            }
            // Values, not schemas.
            "default" | "const" | "enum" | "examples" => {}
            _ => schema(inner, path, depth - 1, see),
        }
    }
}

fn object(value: &RawValue) -> Option<Members<'_>> {
    value.get().starts_with('{').then(|| serde_json::from_str(value.get()).ok())?
}

fn array(value: &RawValue) -> Option<Vec<&RawValue>> {
    value.get().starts_with('[').then(|| serde_json::from_str(value.get()).ok())?
}

fn string(value: &RawValue) -> Option<String> {
    value.get().starts_with('"').then(|| serde_json::from_str(value.get()).ok())?
}

#[cfg(test)]
mod tests;
