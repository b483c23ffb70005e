//! Whether a value fits a schema, and what does not.
//!
//! JSON Schema 2020-12, and the drafts before it where a schema names one. It is written here, and not taken from a
//! crate, for what it does *not* do: no regular work of a command pays for it, a schema is used as it stands, without
//! being compiled, and each step is counted, so that no schema can take for ever, or all of the stack.
//!
//! A check is a service to who types; the server has the last word. So nothing that a schema refers to is fetched, what
//! is malformed or unknown counts as fitting, as do `format`, `unevaluatedItems` and `unevaluatedProperties`, and where
//! no answer can be had it is [`Checked::Not`].

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::ptr;

use drowse_runtime::suggest::nearest;
use regex_lite::{Regex, RegexBuilder};
use serde_json::{Map, Value as Json};

use super::coerce::{is_of, local, same};
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
/// The longest text that a pattern is tried on, in bytes, and what a compiled pattern may take.
const PATTERN_TEXT: usize = 4096;
const PATTERN_SIZE: usize = 1 << 16;

/// Checks `value`, a JSON text.
pub(crate) fn check(schema: &Json, value: &str) -> Checked {
    let Ok(value) = serde_json::from_str::<Json>(value) else {
        return Checked::Not("the value is too deep".to_owned());
    };
    let draft = schema["$schema"].as_str().unwrap_or_default();
    if !draft.is_empty() && !draft.contains("json-schema.org") {
        return Checked::Not("it is of a kind of its own".to_owned());
    }
    let check = Check {
        root: schema,
        ref_stands_alone: ["draft-03", "draft-04", "draft-06", "draft-07"]
            .iter()
            .any(|old| draft.contains(old)),
        fuel: Cell::new(FUEL),
        patterns: RefCell::new(HashMap::new()),
        unsure: Cell::new(false),
    };
    let mut problems = Problems::default();
    match check.apply(schema, &value, &Place::Root, DEPTH, &mut problems) {
        Err(Stop::TooComplex) => Checked::Not("it is too complex".to_owned()),
        Err(Stop::Elsewhere(reference)) => {
            Checked::Not(format!("it refers to {reference}, and only what is in it is looked up"))
        }
        Ok(()) if problems.0.is_empty() => Checked::Fits,
        Ok(()) => Checked::Wrong(problems.0.iter().map(Problem::to_string).collect()),
    }
}

/// Why there is no answer.
#[derive(Debug)]
enum Stop {
    TooComplex,
    Elsewhere(String),
}

/// The first few problems. What is full is as good as all.
#[derive(Debug, Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, place: &Place<'_>, what: What) {
        if !self.is_full() {
            self.0.push(Problem { place: place.to_string(), what });
        }
    }

    fn is_full(&self) -> bool {
        self.0.len() >= PROBLEMS
    }
}

/// One check.
struct Check<'s> {
    root: &'s Json,
    /// Up to draft 7, what stands beside a `$ref` does not count.
    ref_stands_alone: bool,
    fuel: Cell<usize>,
    patterns: RefCell<HashMap<&'s str, Option<Regex>>>,
    /// Something counted as fitting that was not looked at. What fits then may not, so that its opposite is no problem.
    unsure: Cell<bool>,
}

type Done = Result<(), Stop>;

impl<'s> Check<'s> {
    fn apply(
        &self,
        schema: &'s Json,
        value: &Json,
        place: &Place<'_>,
        depth: usize,
        problems: &mut Problems,
    ) -> Done {
        self.spend(1)?;
        let depth = depth.checked_sub(1).ok_or(Stop::TooComplex)?;
        let members = match schema {
            Json::Object(members) => members,
            Json::Bool(false) => {
                problems.add(place, What::NotAllowed);
                return Ok(());
            }
            _ => return Ok(()),
        };
        // References in a part with an address of its own are about that part.
        if members.get("$id").is_some_and(Json::is_string) && !ptr::eq(schema, self.root) {
            return Err(Stop::Elsewhere(members["$id"].to_string()));
        }
        if let Some(reference) = ["$dynamicRef", "$recursiveRef"].iter().find_map(|key| members.get(*key)) {
            return Err(Stop::Elsewhere(reference.to_string()));
        }
        if let Some(reference) = members.get("$ref").filter(|reference| reference.is_string()) {
            let target = local(self.root, reference).ok_or_else(|| Stop::Elsewhere(reference.to_string()))?;
            self.apply(target, value, place, depth, problems)?;
            if self.ref_stands_alone {
                return Ok(());
            }
        }
        if ["unevaluatedItems", "unevaluatedProperties"].iter().any(|keyword| members.contains_key(*keyword))
        {
            self.unsure.set(true);
        }
        let here = Here { check: self, members, value, place, depth };
        here.itself(problems)?;
        here.alternatives(problems)?;
        match value {
            Json::String(text) => here.text(text, problems),
            Json::Number(_) => here.number(problems),
            Json::Array(items) => here.items(items, problems),
            Json::Object(object) => here.object(object, problems),
            _ => Ok(()),
        }
    }

    fn spend(&self, steps: usize) -> Done {
        self.fuel.set(self.fuel.get().checked_sub(steps).ok_or(Stop::TooComplex)?);
        Ok(())
    }

    /// Whether a pattern is found; so it is where it cannot be tried. (ECMAScript has a few that are not known here.)
    fn matches(&self, pattern: &'s str, text: &str) -> Result<bool, Stop> {
        if text.len() > PATTERN_TEXT {
            self.unsure.set(true);
            return Ok(true);
        }
        self.spend(8 * text.len() + pattern.len())?;
        let mut patterns = self.patterns.borrow_mut();
        let regex = patterns
            .entry(pattern)
            .or_insert_with(|| RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build().ok());
        if regex.is_none() {
            self.unsure.set(true);
        }
        Ok(regex.as_ref().is_none_or(|regex| regex.is_match(text)))
    }
}

/// One schema at one place of the value.
struct Here<'a, 's> {
    check: &'a Check<'s>,
    members: &'s Map<String, Json>,
    value: &'a Json,
    place: &'a Place<'a>,
    depth: usize,
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

    /// A limit that is a whole number.
    fn count(&self, keyword: &str) -> Option<usize> {
        let limit = self.get(keyword)?.as_f64().filter(|limit| *limit >= 0.0)?;
        Some(limit.min(1e15) as usize)
    }

    fn in_place(&self, schema: &'s Json, problems: &mut Problems) -> Done {
        self.check.apply(schema, self.value, self.place, self.depth, problems)
    }

    fn part(&self, schema: &'s Json, value: &Json, place: &Place<'_>, problems: &mut Problems) -> Done {
        self.check.apply(schema, value, place, self.depth, problems)
    }

    /// Whether the value fits another schema; `None` where that is not sure.
    fn surely_fits(&self, schema: &'s Json) -> Result<Option<bool>, Stop> {
        let before = self.check.unsure.replace(false);
        let fits = self.tried(schema)?.is_empty();
        let unsure = self.check.unsure.replace(before);
        Ok(if fits && unsure { None } else { Some(fits) })
    }

    /// Why the value does not fit another schema; nothing if it does.
    fn tried(&self, schema: &'s Json) -> Result<Vec<Problem>, Stop> {
        let mut problems = Problems::default();
        self.in_place(schema, &mut problems)?;
        Ok(problems.0)
    }

    fn wrong(&self, problems: &mut Problems, text: String) {
        problems.add(self.place, What::Said(text));
    }

    /// Types and single values.
    fn itself(&self, problems: &mut Problems) -> Done {
        let mut expected = BTreeSet::new();
        if let Some(kind) = self.get("type").filter(|kind| !is_of(kind, self.value)) {
            let kinds = kind.as_array().map_or(std::slice::from_ref(kind), Vec::as_slice);
            expected.extend(kinds.iter().filter_map(Json::as_str).map(str::to_owned));
        } else if let Some(values) = self.list("enum") {
            self.check.spend(values.len())?;
            if values.is_empty() {
                problems.add(self.place, What::NotAllowed);
            } else if !values.iter().any(|value| same(value, self.value)) {
                expected.extend(values.iter().take(50).map(head));
            }
        } else if let Some(value) = self.get("const").filter(|value| !same(value, self.value)) {
            expected.insert(head(value));
        }
        if !expected.is_empty() {
            problems.add(self.place, What::Expected { value: head(self.value), expected });
        }
        Ok(())
    }

    fn alternatives(&self, problems: &mut Problems) -> Done {
        for schema in self.list("allOf").into_iter().flatten() {
            self.in_place(schema, problems)?;
        }
        if let Some(any) = self.list("anyOf").filter(|any| !any.is_empty()) {
            let mut tried = Vec::with_capacity(any.len());
            for schema in any {
                let why = self.tried(schema)?;
                if why.is_empty() {
                    tried.clear();
                    break;
                }
                tried.push(why);
            }
            self.none_of(tried, problems);
        }
        if let Some(one) = self.list("oneOf").filter(|one| !one.is_empty()) {
            let before = self.check.unsure.replace(false);
            let tried = one.iter().map(|schema| self.tried(schema)).collect::<Result<Vec<_>, _>>()?;
            match tried.iter().filter(|why| why.is_empty()).count() {
                0 => self.none_of(tried, problems),
                1 => {}
                _ if self.check.unsure.get() => {}
                _ => self.wrong(problems, "fits more than one of the alternatives".to_owned()),
            }
            self.check.unsure.set(self.check.unsure.get() || before);
        }
        if let Some(not) = self.get("not")
            && self.surely_fits(not)? == Some(true)
        {
            problems.add(self.place, What::NotAllowed);
        }
        if let Some(condition) = self.get("if") {
            let then = self.surely_fits(condition)?.map(|fits| if fits { "then" } else { "else" });
            if let Some(schema) = then.and_then(|then| self.get(then)) {
                self.in_place(schema, problems)?;
            }
        }
        Ok(())
    }

    /// Says why none of some alternatives fits: what all of them want, or what is wrong with the only one that is of
    /// the right kind.
    fn none_of(&self, tried: Vec<Vec<Problem>>, problems: &mut Problems) {
        if tried.is_empty() {
            return;
        }
        let place = self.place.to_string();
        let kinds = |why: &Vec<Problem>| match why.as_slice() {
            [Problem { place: at, what: What::Expected { expected, .. } }] if *at == place => {
                Some(expected.clone())
            }
            _ => None,
        };
        let expected: BTreeSet<String> = tried.iter().filter_map(kinds).flatten().collect();
        let mut close: Vec<Vec<Problem>> = tried.into_iter().filter(|why| kinds(why).is_none()).collect();
        match (close.pop(), close.is_empty()) {
            (None, _) => problems.add(self.place, What::Expected { value: head(self.value), expected }),
            (Some(only), true) => {
                let room = PROBLEMS.saturating_sub(problems.0.len());
                problems.0.extend(only.into_iter().take(room));
            }
            (Some(_), false) => self.wrong(problems, "fits none of the alternatives".to_owned()),
        }
    }

    fn text(&self, text: &str, problems: &mut Problems) -> Done {
        self.check.spend(text.len() / 64)?;
        let length = || text.chars().count();
        if let Some(limit) = self.count("minLength").filter(|limit| length() < *limit) {
            self.wrong(problems, format!("is too short, at least {limit} characters are expected"));
        }
        if let Some(limit) = self.count("maxLength").filter(|limit| length() > *limit) {
            self.wrong(problems, format!("is too long, at most {limit} characters are expected"));
        }
        if let Some(pattern) = self.get("pattern").and_then(Json::as_str)
            && !self.check.matches(pattern, text)?
        {
            self.wrong(problems, format!("is {}, which does not match {pattern}", head(self.value)));
        }
        Ok(())
    }

    fn number(&self, problems: &mut Problems) -> Done {
        let Some(number) = self.value.as_f64() else { return Ok(()) };
        let limit = |keyword: &str| self.get(keyword).and_then(Json::as_f64);
        // Draft 4 has a switch there.
        let switched = |keyword: &str| self.get(keyword) == Some(&Json::Bool(true));
        for (limit, fits, words) in [
            (limit("minimum"), (|a, b| a >= b) as fn(f64, f64) -> bool, "at least"),
            (limit("maximum"), |a, b| a <= b, "at most"),
            (limit("exclusiveMinimum"), |a, b| a > b, "more than"),
            (limit("exclusiveMaximum"), |a, b| a < b, "less than"),
            (limit("minimum").filter(|_| switched("exclusiveMinimum")), |a, b| a > b, "more than"),
            (limit("maximum").filter(|_| switched("exclusiveMaximum")), |a, b| a < b, "less than"),
        ] {
            if let Some(limit) = limit.filter(|limit| !fits(number, *limit)) {
                self.wrong(problems, format!("is {}, but {words} {limit} is expected", self.value));
            }
        }
        if let Some(step) = limit("multipleOf").filter(|step| *step > 0.0) {
            let steps = number / step;
            // As near as floating point tells: 0.3 is a multiple of 0.1.
            if steps.is_finite() && (steps - steps.round()).abs() > 1e-9 * steps.abs().max(1.0) {
                self.wrong(problems, format!("is {}, which is no multiple of {step}", self.value));
            }
        }
        Ok(())
    }

    fn items(&self, items: &[Json], problems: &mut Problems) -> Done {
        let sizes = [("minItems", "too few"), ("maxItems", "too many")];
        for (keyword, words) in sizes {
            if let Some(limit) = self.count(keyword)
                && (if keyword == "minItems" { items.len() < limit } else { items.len() > limit })
            {
                let text = format!("has {} items, which is {words}: {keyword} is {limit}", items.len());
                self.wrong(problems, text);
            }
        }
        let first = self.list("prefixItems").or_else(|| self.list("items"));
        let rest = if self.list("items").is_some() { self.get("additionalItems") } else { self.get("items") };
        let first = first.map_or(&[][..], Vec::as_slice);
        for (index, item) in items.iter().enumerate() {
            let place = Place::Item(self.place, index);
            if let Some(schema) = first.get(index).or(rest) {
                self.part(schema, item, &place, problems)?;
            }
            if problems.is_full() {
                return Ok(());
            }
        }
        if let Some(schema) = self.get("contains") {
            let mut found = 0;
            for item in items {
                let mut why = Problems::default();
                self.part(schema, item, self.place, &mut why)?;
                found += usize::from(why.0.is_empty());
            }
            let (least, most) = (self.count("minContains").unwrap_or(1), self.count("maxContains"));
            let most = most.filter(|_| !self.check.unsure.get());
            if found < least || most.is_some_and(|most| found > most) {
                self.wrong(problems, format!("has {found} items of a kind of which there must be others"));
            }
        }
        if self.get("uniqueItems") == Some(&Json::Bool(true)) {
            self.check.spend(items.len().saturating_mul(items.len()) / 2)?;
            let repeated = items
                .iter()
                .enumerate()
                .find(|(index, item)| items.iter().take(*index).any(|before| same(before, item)));
            if let Some((_, item)) = repeated {
                self.wrong(problems, format!("has {} twice", head(item)));
            }
        }
        Ok(())
    }

    fn object(&self, object: &Map<String, Json>, problems: &mut Problems) -> Done {
        let required = self.list("required");
        self.check.spend(required.map_or(0, Vec::len))?;
        self.require(object, required, problems);
        for (keyword, fits) in
            [("minProperties", (|a, b| a >= b) as fn(usize, usize) -> bool), ("maxProperties", |a, b| a <= b)]
        {
            if let Some(limit) = self.count(keyword).filter(|limit| !fits(object.len(), *limit)) {
                self.wrong(problems, format!("has {} members, but {keyword} is {limit}", object.len()));
            }
        }
        let properties = self.map("properties");
        for (key, value) in object {
            self.check.spend(1)?;
            let place = Place::Member(self.place, key);
            let mut known = false;
            if let Some(schema) = properties.and_then(|properties| properties.get(key)) {
                known = true;
                self.part(schema, value, &place, problems)?;
            }
            for (pattern, schema) in self.map("patternProperties").into_iter().flatten() {
                if self.check.matches(pattern, key)? {
                    known = true;
                    self.part(schema, value, &place, problems)?;
                }
            }
            match self.get("additionalProperties").filter(|_| !known) {
                Some(Json::Bool(false)) => {
                    let names = properties.into_iter().flatten().map(|(name, _)| name.as_str());
                    let meant = nearest(key, names.take(1000)).map(str::to_owned);
                    problems.add(&place, What::Unknown { meant });
                }
                Some(schema) => self.part(schema, value, &place, problems)?,
                None => {}
            }
            if let Some(schema) = self.get("propertyNames") {
                self.part(schema, &Json::String(key.clone()), &place, problems)?;
            }
            if problems.is_full() {
                return Ok(());
            }
        }
        for keyword in ["dependentRequired", "dependentSchemas", "dependencies"] {
            for (_, dependent) in
                self.map(keyword).into_iter().flatten().filter(|(key, _)| object.contains_key(*key))
            {
                match dependent {
                    Json::Array(names) => self.require(object, Some(names), problems),
                    schema => self.in_place(schema, problems)?,
                }
            }
        }
        Ok(())
    }

    fn require(&self, object: &Map<String, Json>, names: Option<&Vec<Json>>, problems: &mut Problems) {
        for name in names.into_iter().flatten().filter_map(Json::as_str) {
            if !object.contains_key(name) {
                problems.add(&Place::Member(self.place, name), What::Missing);
            }
        }
    }
}

#[cfg(test)]
mod tests;
