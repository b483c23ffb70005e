//! Whether a value fits a schema, and what does not.
//!
//! JSON Schema 2020-12, all of its core, applicator, unevaluated and validation vocabularies within one document, and the
//! drafts before it where a schema names one. It is written here, and not taken from a crate, for what it does *not* do: no
//! regular work of a command pays for it, a schema is used as it stands, without being compiled, and each step is counted,
//! so that no schema can take for ever, or all of the stack.
//!
//! A check is a service to who types; the server has the last word. So nothing that a schema refers to is fetched, not
//! even a metaschema, what is malformed or unknown counts as fitting, and where no answer can be had it is
//! [`Checked::Not`]. `format` is not looked at: 2020-12 has it as an annotation, which says what a value is meant to be and
//! refuses none, and so are `contentEncoding` and its kind. Habits of servers are let pass: what is required may be missing
//! if it has a default, null fits what is `nullable` or null by default, and words that are listed for a number mean
//! nothing.
//!
//! What a schema says here is judged in [`values`]; where references lead is known to [`addresses`]; [`seen`] is what
//! `unevaluatedProperties` and `unevaluatedItems` are about.

mod addresses;
mod pattern;
mod seen;
mod uri;
mod values;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::ptr;

use regex_lite::Regex;
use serde_json::{Map, Value as Json};

use self::addresses::{Addresses, Dialect, Target};
use self::seen::Seen;
use super::coerce::takes_null;
use super::problem::{Place, Problem, What, head};

/// How a check came out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    Fits,
    /// What is wrong, a sentence each; the first few.
    Wrong(Vec<String>),
    /// It was not checked, because of what is said of the schema.
    Not(String),
}

/// How many steps a check may take.
const FUEL: usize = 500_000;
/// How deep schemas may lead into each other, and values lie within each other.
const DEPTH: usize = 300;
/// The most problems that are told.
const PROBLEMS: usize = 5;
/// The longest text that a pattern is tried on, in bytes.
const PATTERN_TEXT: usize = 4096;

/// Checks `value`, a JSON text.
pub(crate) fn check(schema: &Json, value: &str) -> Checked {
    let Ok(value) = serde_json::from_str::<Json>(value) else {
        return Checked::Not("the value is too deep, or has a number beyond all bounds".to_owned());
    };
    judge(schema, &value, &Cell::new(FUEL))
}

/// Checks `value` with so much `fuel`.
fn judge(schema: &Json, value: &Json, fuel: &Cell<usize>) -> Checked {
    let Some(dialect) = Dialect::of(schema) else { return Checked::Not(Stop::Kind.to_string()) };
    let check = Check {
        root: schema,
        dialect,
        addresses: OnceCell::new(),
        fuel,
        patterns: RefCell::new(HashMap::new()),
        unsure: Cell::new(false),
    };
    let scope = Scope { resource: 0, dialect, outer: None };
    let mut found = Found::default();
    match check.apply(schema, value, At { place: &Place::Root, scope, depth: DEPTH }, &mut found) {
        Err(stop) => Checked::Not(stop.to_string()),
        Ok(()) if found.problems.is_empty() => Checked::Fits,
        Ok(()) => Checked::Wrong(found.problems.iter().map(Problem::to_string).collect()),
    }
}

/// Why there is no answer.
#[derive(Debug)]
enum Stop {
    TooComplex,
    Elsewhere(String),
    Kind,
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooComplex => f.write_str("it is too complex"),
            Self::Elsewhere(reference) => {
                write!(f, "it refers to {reference}, and only what is in it is looked up")
            }
            Self::Kind => f.write_str("it is of a kind of its own"),
        }
    }
}

type Done = Result<(), Stop>;

/// What came of a schema, or of several, at a value.
#[derive(Debug, Default)]
struct Found {
    /// The first few. What is full is as good as all.
    problems: Vec<Problem>,
    /// What has been judged of the value, where somebody wants to know it. Worth nothing where there are problems.
    seen: Option<Seen>,
}

impl Found {
    fn add(&mut self, place: &Place<'_>, what: What) {
        if !self.is_full() {
            self.problems.push(Problem { place: place.to_string(), what });
        }
    }

    fn is_full(&self) -> bool {
        self.problems.len() >= PROBLEMS
    }

    fn mark(&mut self, index: usize) {
        if let Some(seen) = &mut self.seen {
            seen.mark(index);
        }
    }

    /// Takes over what another schema has judged of the same value.
    fn add_seen(&mut self, other: Option<&Seen>) {
        if let (Some(seen), Some(other)) = (&mut self.seen, other) {
            seen.add(other);
        }
    }
}

/// The resources on the way to a schema, the innermost first: where a `$dynamicRef` looks.
#[derive(Debug, Clone, Copy)]
struct Scope<'a> {
    resource: usize,
    dialect: Dialect,
    outer: Option<&'a Self>,
}

/// Where a schema is applied.
#[derive(Debug, Clone, Copy)]
struct At<'a> {
    place: &'a Place<'a>,
    scope: Scope<'a>,
    depth: usize,
}

/// One check.
struct Check<'s> {
    root: &'s Json,
    dialect: Dialect,
    /// Made when something needs it; `None`: there are too many.
    addresses: OnceCell<Option<Addresses<'s>>>,
    fuel: &'s Cell<usize>,
    patterns: RefCell<HashMap<&'s str, Option<Regex>>>,
    /// Something counted as fitting that was not looked at. What fits then may not, so that its opposite is no problem.
    unsure: Cell<bool>,
}

impl<'s> Check<'s> {
    fn apply(&self, schema: &'s Json, value: &Json, at: At<'_>, found: &mut Found) -> Done {
        self.spend(1)?;
        let depth = at.depth.checked_sub(1).ok_or(Stop::TooComplex)?;
        let members = match schema {
            Json::Object(members) => members,
            Json::Bool(false) => {
                found.add(at.place, What::NotAllowed);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let mut scope = at.scope;
        if !ptr::eq(schema, self.root)
            && let Some(id) = scope.dialect.own_address(schema)
        {
            // Unknown is what is not where schemas are, or has an address that is none.
            let resource = self.addresses()?.starts(schema).ok_or_else(|| Stop::Elsewhere(id.to_owned()))?;
            scope = self.enter(resource, &at.scope)?;
        }
        let here = Here { check: self, members, value, at: At { scope, depth, ..at } };
        let modern = !matches!(scope.dialect, Dialect::Old | Dialect::Oldest);
        let is_there = |keyword: &&str| members.contains_key(*keyword);
        let rest = match value {
            Json::Array(_) => Some("unevaluatedItems").filter(is_there),
            Json::Object(_) => Some("unevaluatedProperties").filter(is_there),
            _ => None,
        };
        let Some(rest) = rest.filter(|_| modern) else {
            // The word of a later draft; whether it was meant is open.
            self.unsure.set(self.unsure.get() || rest.is_some());
            return here.all(found).map(drop);
        };
        // Only what this schema and those in it have judged counts, not what stands beside it.
        let seen = Seen::none_of(value);
        self.spend(seen.cost())?;
        let mut own = Found { problems: std::mem::take(&mut found.problems), seen: Some(seen) };
        // Nothing is known of what a schema has seen that does not fit; that is what is wrong then.
        if here.all(&mut own)? {
            here.unevaluated(rest, &mut own)?;
        }
        found.problems = own.problems;
        found.add_seen(own.seen.as_ref());
        Ok(())
    }

    fn spend(&self, steps: usize) -> Done {
        self.fuel.set(self.fuel.get().checked_sub(steps).ok_or(Stop::TooComplex)?);
        Ok(())
    }

    fn addresses(&self) -> Result<&Addresses<'s>, Stop> {
        let all = self.addresses.get_or_init(|| Addresses::of(self.root, self.dialect));
        all.as_ref().ok_or(Stop::TooComplex)
    }

    /// The scope within a resource; the same where it is that already.
    fn enter<'a>(&self, resource: usize, scope: &'a Scope<'a>) -> Result<Scope<'a>, Stop> {
        if resource == scope.resource {
            return Ok(*scope);
        }
        let dialect = self.addresses()?.dialect(resource).ok_or(Stop::Kind)?;
        Ok(Scope { resource, dialect, outer: Some(scope) })
    }

    /// Where a reference leads.
    fn follow(&self, reference: &str, scope: &Scope<'_>, dynamic: bool) -> Result<Target<'s>, Stop> {
        self.spend(reference.len())?;
        let addresses = self.addresses()?;
        let found = addresses.find(scope.resource, reference);
        let (mut target, anchor) = found.ok_or_else(|| Stop::Elsewhere(reference.to_owned()))?;
        if let Some(name) = anchor.filter(|_| dynamic) {
            // The outermost resource that has the anchor as well.
            let mut looked = Some(scope);
            while let Some(Scope { resource, outer, .. }) = looked {
                self.spend(1)?;
                target = addresses.dynamic(*resource, name).unwrap_or(target);
                looked = *outer;
            }
        }
        Ok(target)
    }

    /// Whether a pattern is found; so it is where it cannot be tried. (ECMAScript has a few that are not known here.)
    fn matches(&self, pattern: &'s str, text: &str) -> Result<bool, Stop> {
        if text.len() > PATTERN_TEXT {
            self.unsure.set(true);
            return Ok(true);
        }
        self.spend(1 + 8 * text.len() + pattern.len())?;
        let mut patterns = self.patterns.borrow_mut();
        let regex = patterns.entry(pattern).or_insert_with(|| pattern::compile(pattern));
        if regex.is_none() {
            self.unsure.set(true);
        }
        Ok(regex.as_ref().is_none_or(|regex| regex.is_match(text)))
    }

    /// Whether two values are the same: 1.0 is 1.
    fn same(&self, a: &Json, b: &Json) -> Result<bool, Stop> {
        self.spend(1)?;
        Ok(match (a, b) {
            (Json::Number(x), Json::Number(y)) => {
                values::compare(x, y).is_some_and(std::cmp::Ordering::is_eq)
            }
            (Json::String(x), Json::String(y)) => {
                self.spend(x.len().min(y.len()) / 64)?;
                x == y
            }
            (Json::Array(x), Json::Array(y)) if x.len() == y.len() => {
                for (x, y) in x.iter().zip(y) {
                    if !self.same(x, y)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Json::Object(x), Json::Object(y)) if x.len() == y.len() => {
                for (key, x) in x {
                    let Some(y) = y.get(key) else { return Ok(false) };
                    if !self.same(x, y)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Json::Array(_), _) | (Json::Object(_), _) => false,
            _ => a == b,
        })
    }
}

/// What is wrong with the only alternative whose tag the value has, or the tags where it has none of them: alternatives are
/// often told by a member that is one word.
fn by_tag(close: Vec<Vec<Problem>>) -> Option<Vec<Problem>> {
    let tag = |why: &[Problem]| {
        why.iter().find_map(|problem| match &problem.what {
            What::Expected { value, expected } if expected.iter().all(|word| word.starts_with('"')) => {
                Some((problem.place.clone(), value.clone(), expected.clone()))
            }
            _ => None,
        })
    };
    let (others, mut meant): (Vec<_>, Vec<_>) = close.into_iter().partition(|why| tag(why).is_some());
    match (meant.pop(), meant.is_empty()) {
        (Some(only), true) => return Some(only),
        (Some(_), false) => return None,
        (None, _) => {}
    }
    let mut tags = others.iter().filter_map(|why| tag(why));
    let (place, value, mut all) = tags.next()?;
    for (other, _, words) in tags {
        if other != place {
            return None;
        }
        all.extend(words);
    }
    Some(vec![Problem { place, what: What::Expected { value, expected: all } }])
}

/// One schema at one place of the value.
struct Here<'a, 's> {
    check: &'a Check<'s>,
    members: &'s Map<String, Json>,
    value: &'a Json,
    at: At<'a>,
}

impl<'s> Here<'_, 's> {
    fn get(&self, keyword: &str) -> Option<&'s Json> {
        self.members.get(keyword)
    }

    fn list(&self, keyword: &str) -> Option<&'s Vec<Json>> {
        self.get(keyword).and_then(Json::as_array)
    }

    fn map(&self, keyword: &str) -> Option<&'s Map<String, Json>> {
        self.get(keyword).and_then(Json::as_object)
    }

    /// Everything that the schema says, but of what is left over; whether the other schemas for the value as a whole fit.
    fn all(&self, found: &mut Found) -> Result<bool, Stop> {
        let before = found.problems.len();
        if self.value.is_null() && takes_null(self.members) {
            self.check.unsure.set(true);
            return Ok(true);
        }
        // Who goes by it may tell alternatives apart by it.
        if self.get("format").is_some_and(Json::is_string) {
            self.check.unsure.set(true);
        }
        if let Some(reference) = self.get("$recursiveRef") {
            return Err(Stop::Elsewhere(reference.to_string()));
        }
        for keyword in ["$ref", "$dynamicRef"] {
            let Some(Json::String(reference)) = self.get(keyword) else { continue };
            let dynamic = keyword == "$dynamicRef";
            if dynamic && self.at.scope.dialect != Dialect::Draft2020 {
                return Err(Stop::Elsewhere(reference.clone()));
            }
            let target = self.check.follow(reference, &self.at.scope, dynamic)?;
            let scope = self.check.enter(target.resource, &self.at.scope)?;
            self.check.apply(target.schema, self.value, At { scope, ..self.at }, found)?;
            if self.at.scope.dialect.ref_stands_alone() {
                return Ok(true);
            }
        }
        self.itself(found)?;
        self.alternatives(found)?;
        let fit = found.problems.len() == before;
        match self.value {
            Json::String(text) => self.text(text, found),
            Json::Number(number) => self.number(number, found),
            Json::Array(items) => self.items(items, found),
            Json::Object(object) => self.object(object, found),
            _ => Ok(()),
        }?;
        Ok(fit)
    }

    fn in_place(&self, schema: &'s Json, found: &mut Found) -> Done {
        self.check.apply(schema, self.value, self.at, found)
    }

    /// Applies a schema to a part of the value, or to its name.
    fn part(&self, schema: &'s Json, value: &Json, place: &Place<'_>, found: &mut Found) -> Done {
        // What is judged of a part is nothing that is judged of the whole.
        let seen = found.seen.take();
        let done = self.check.apply(schema, value, At { place, ..self.at }, found);
        found.seen = seen;
        done
    }

    /// What comes of another schema, for who has to choose; what it has seen only if that is asked for.
    fn tried(&self, schema: &'s Json, seen: bool) -> Result<Found, Stop> {
        let seen = seen.then(|| Seen::none_of(self.value));
        self.check.spend(seen.as_ref().map_or(0, Seen::cost))?;
        let mut found = Found { problems: Vec::new(), seen };
        self.in_place(schema, &mut found)?;
        Ok(found)
    }

    /// Whether the value fits another schema; `None` where that is not sure. Then nobody may build on it.
    fn surely_fits(&self, schema: &'s Json, found: &mut Found) -> Result<Option<bool>, Stop> {
        let before = self.check.unsure.replace(false);
        let tried = self.tried(schema, found.seen.is_some())?;
        let (fits, unsure) = (tried.problems.is_empty(), self.check.unsure.get());
        // What does not fit does not, whatever else was not looked at.
        self.check.unsure.set(before || (fits && unsure));
        if fits {
            found.add_seen(tried.seen.as_ref());
        }
        Ok(if fits && unsure { None } else { Some(fits) })
    }

    fn alternatives(&self, found: &mut Found) -> Done {
        let seen = found.seen.is_some();
        for schema in self.list("allOf").into_iter().flatten() {
            self.in_place(schema, found)?;
        }
        if let Some(any) = self.list("anyOf").filter(|any| !any.is_empty()) {
            let mut tried = Vec::with_capacity(any.len());
            let mut fits = false;
            for schema in any {
                let one = self.tried(schema, seen)?;
                if one.problems.is_empty() {
                    fits = true;
                    found.add_seen(one.seen.as_ref());
                    // The others may have seen more.
                    if !seen {
                        break;
                    }
                } else if !fits {
                    tried.push(one.problems);
                }
            }
            if !fits {
                self.none_of(tried, found);
            }
        }
        if let Some(one) = self.list("oneOf").filter(|one| !one.is_empty()) {
            let before = self.check.unsure.replace(false);
            let (mut tried, mut fits) = (Vec::with_capacity(one.len()), 0);
            for schema in one {
                let one = self.tried(schema, seen)?;
                if one.problems.is_empty() {
                    fits += 1;
                    found.add_seen(one.seen.as_ref());
                } else {
                    tried.push(one.problems);
                }
            }
            match fits {
                0 => self.none_of(tried, found),
                1 => {}
                _ if self.check.unsure.get() => {}
                _ => self.wrong(found, "fits more than one of the alternatives".to_owned()),
            }
            self.check.unsure.set(self.check.unsure.get() || before);
        }
        if let Some(not) = self.get("not") {
            let mut nothing = Found::default();
            if self.surely_fits(not, &mut nothing)? == Some(true) {
                found.add(self.at.place, What::NotAllowed);
            }
        }
        if let Some(condition) = self.get("if") {
            match self.surely_fits(condition, found)? {
                Some(fits) => {
                    if let Some(schema) = self.get(if fits { "then" } else { "else" }) {
                        self.in_place(schema, found)?;
                    }
                }
                // Either of them might have seen anything.
                None => found.seen.iter_mut().for_each(Seen::mark_all),
            }
        }
        if let Json::Object(object) = self.value {
            self.dependents(object, found)?;
        }
        Ok(())
    }

    /// Says why none of some alternatives fits: what all of them want, or what is wrong with the only one that is of
    /// the right kind.
    fn none_of(&self, tried: Vec<Vec<Problem>>, found: &mut Found) {
        let place = self.at.place.to_string();
        let kinds = |why: &Vec<Problem>| match why.as_slice() {
            [Problem { place: at, what: What::Expected { expected, .. } }] if *at == place => {
                Some(expected.clone())
            }
            _ => None,
        };
        let expected: BTreeSet<String> = tried.iter().filter_map(kinds).flatten().collect();
        let close: Vec<Vec<Problem>> = tried.into_iter().filter(|why| kinds(why).is_none()).collect();
        let room = PROBLEMS.saturating_sub(found.problems.len());
        match close.len() {
            0 => found.add(self.at.place, What::Expected { value: head(self.value), expected }),
            1 => found.problems.extend(close.into_iter().flatten().take(room)),
            _ => match by_tag(close) {
                Some(problems) => found.problems.extend(problems.into_iter().take(room)),
                None => self.wrong(found, "fits none of the alternatives".to_owned()),
            },
        }
    }

    /// What holds where some member is there.
    fn dependents(&self, object: &Map<String, Json>, found: &mut Found) -> Done {
        for keyword in ["dependentRequired", "dependentSchemas", "dependencies"] {
            for (key, dependent) in self.map(keyword).into_iter().flatten() {
                self.check.spend(1)?;
                match dependent {
                    _ if !object.contains_key(key) => {}
                    Json::Array(names) => self.require(object, Some(names), found)?,
                    schema => self.in_place(schema, found)?,
                }
            }
        }
        Ok(())
    }

    /// The members or items that nothing has judged.
    fn unevaluated(&self, keyword: &str, found: &mut Found) -> Done {
        let Some(schema) = self.get(keyword) else { return Ok(()) };
        let left = |found: &Found, index| !found.seen.as_ref().is_none_or(|seen| seen.has(index));
        match self.value {
            Json::Array(items) => {
                self.check.spend(items.len() / 8)?;
                for (index, item) in items.iter().enumerate() {
                    if left(found, index) {
                        self.part(schema, item, &Place::Item(self.at.place, index), found)?;
                    }
                }
            }
            Json::Object(object) => {
                self.check.spend(object.len() / 8)?;
                for (index, (key, value)) in object.iter().enumerate() {
                    if left(found, index) {
                        self.left_over(schema, key, value, found)?;
                    }
                }
            }
            _ => {}
        }
        found.seen.iter_mut().for_each(Seen::mark_all);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
