//! What a schema says of single values: types, texts, numbers, and the parts of arrays and objects.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use drowse_runtime::suggest::nearest;
use serde_json::{Map, Number, Value as Json};

use super::super::coerce::is_of;
use super::super::problem::{Place, What, head};
use super::{Dialect, Done, Found, Here};

/// How many of the types and values that are expected are told.
const EXPECTED: usize = 50;
/// The longest name that is looked at for what was meant by it.
const NAME: usize = 100;

/// Which of two numbers is more. Whole ones are compared to the last digit.
pub(super) fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Whether a number is so many steps from zero; a step that is not above zero takes any.
fn is_multiple(number: &Number, step: &Number) -> bool {
    if let (Some(number), Some(step)) = (whole(number), whole(step)) {
        return step <= 0 || number % step == 0;
    }
    let (Some(number), Some(step)) = (number.as_f64(), step.as_f64()) else { return true };
    let steps = number / step;
    // As near as floating point tells: 0.3 is a multiple of 0.1.
    let near = 4.0 * f64::EPSILON * steps.abs().max(1.0);
    step <= 0.0
        || if steps.is_finite() { (steps - steps.round()).abs() <= near } else { number % step == 0.0 }
}

impl<'s> Here<'_, 's> {
    /// A limit that is a whole number.
    fn count(&self, keyword: &str) -> Option<usize> {
        let limit = self.get(keyword)?.as_f64().filter(|limit| *limit >= 0.0)?;
        Some(limit.min(1e15) as usize)
    }

    pub(super) fn wrong(&self, found: &mut Found, text: String) {
        found.add(self.at.place, What::Said(text));
    }

    /// Types and single values.
    pub(super) fn itself(&self, found: &mut Found) -> Done {
        let mut expected = BTreeSet::new();
        let kind = self.get("type");
        let kinds =
            kind.map_or(&[][..], |kind| kind.as_array().map_or(std::slice::from_ref(kind), Vec::as_slice));
        self.check.spend(kinds.len())?;
        if kind.is_some_and(|kind| !is_of(kind, self.value)) {
            expected.extend(kinds.iter().filter_map(Json::as_str).take(EXPECTED).map(str::to_owned));
        } else if let Some(values) = self.list("enum") {
            let mut is_one = false;
            for value in values {
                is_one = is_one || self.check.same(value, self.value)?;
            }
            // Nothing could fit both; which of them is meant is open.
            let contradicts = kind.is_some_and(|kind| !values.iter().any(|value| is_of(kind, value)));
            if values.is_empty() {
                found.add(self.at.place, What::NotAllowed);
            } else if contradicts {
                self.check.unsure.set(true);
            } else if !is_one {
                expected.extend(values.iter().take(EXPECTED).map(head));
            }
        }
        if expected.is_empty()
            && let Some(value) = self.get("const")
            && !self.check.same(value, self.value)?
        {
            expected.insert(head(value));
        }
        if !expected.is_empty() {
            found.add(self.at.place, What::Expected { value: head(self.value), expected });
        }
        Ok(())
    }

    pub(super) fn text(&self, text: &str, found: &mut Found) -> Done {
        self.check.spend(text.len() / 64)?;
        let length = || text.chars().count();
        if let Some(limit) = self.count("minLength").filter(|limit| length() < *limit) {
            self.wrong(found, format!("is too short, at least {limit} characters are expected"));
        }
        if let Some(limit) = self.count("maxLength").filter(|limit| length() > *limit) {
            self.wrong(found, format!("is too long, at most {limit} characters are expected"));
        }
        if let Some(pattern) = self.get("pattern").and_then(Json::as_str)
            && !self.check.matches(pattern, text)?
        {
            self.wrong(found, format!("is {}, which does not match {pattern}", head(self.value)));
        }
        Ok(())
    }

    pub(super) fn number(&self, number: &Number, found: &mut Found) -> Done {
        let limit = |keyword: &str| self.get(keyword).and_then(Json::as_number);
        // Draft 4 has a switch there.
        let switched = |keyword: &str| self.get(keyword) == Some(&Json::Bool(true));
        for (limit, fits, words) in [
            (limit("minimum"), Ordering::is_ge as fn(Ordering) -> bool, "at least"),
            (limit("maximum"), Ordering::is_le, "at most"),
            (limit("exclusiveMinimum"), Ordering::is_gt, "more than"),
            (limit("exclusiveMaximum"), Ordering::is_lt, "less than"),
            (limit("minimum").filter(|_| switched("exclusiveMinimum")), Ordering::is_gt, "more than"),
            (limit("maximum").filter(|_| switched("exclusiveMaximum")), Ordering::is_lt, "less than"),
        ] {
            if let Some(limit) = limit
                && compare(number, limit).is_some_and(|order| !fits(order))
            {
                self.wrong(found, format!("is {number}, but {words} {limit} is expected"));
            }
        }
        if let Some(step) = limit("multipleOf").filter(|step| !is_multiple(number, step)) {
            self.wrong(found, format!("is {number}, which is no multiple of {step}"));
        }
        Ok(())
    }

    pub(super) fn items(&self, items: &[Json], found: &mut Found) -> Done {
        let sizes = [("minItems", "too few"), ("maxItems", "too many")];
        for (keyword, words) in sizes {
            if let Some(limit) = self.count(keyword)
                && (if keyword == "minItems" { items.len() < limit } else { items.len() > limit })
            {
                let text = format!("has {} items, which is {words}: {keyword} is {limit}", items.len());
                self.wrong(found, text);
            }
        }
        let first = self.list("prefixItems").or_else(|| self.list("items"));
        let rest = if self.list("items").is_some() { self.get("additionalItems") } else { self.get("items") };
        let first = first.map_or(&[][..], Vec::as_slice);
        for (index, item) in items.iter().enumerate() {
            let place = Place::Item(self.at.place, index);
            let Some(schema) = first.get(index).or(rest) else { break };
            found.mark(index);
            self.part(schema, item, &place, found)?;
            if found.is_full() {
                return Ok(());
            }
        }
        if let Some(schema) = self.get("contains") {
            // Before 2020-12 what it finds counts as not looked at by anyone.
            let marks = self.at.scope.dialect == Dialect::Draft2020;
            let mut of_it = 0;
            for (index, item) in items.iter().enumerate() {
                let mut why = Found::default();
                self.part(schema, item, self.at.place, &mut why)?;
                if why.problems.is_empty() {
                    of_it += 1;
                    if marks {
                        found.mark(index);
                    }
                }
            }
            let (least, most) = (self.count("minContains").unwrap_or(1), self.count("maxContains"));
            let most = most.filter(|_| !self.check.unsure.get());
            if of_it < least || most.is_some_and(|most| of_it > most) {
                self.wrong(found, format!("has {of_it} items of a kind of which there must be others"));
            }
        }
        if self.get("uniqueItems") == Some(&Json::Bool(true)) {
            for (index, item) in items.iter().enumerate() {
                for before in items.iter().take(index) {
                    if self.check.same(before, item)? {
                        self.wrong(found, format!("has {} twice", head(item)));
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn object(&self, object: &Map<String, Json>, found: &mut Found) -> Done {
        self.require(object, self.list("required"), found)?;
        for (keyword, fits) in
            [("minProperties", (|a, b| a >= b) as fn(usize, usize) -> bool), ("maxProperties", |a, b| a <= b)]
        {
            if let Some(limit) = self.count(keyword).filter(|limit| !fits(object.len(), *limit)) {
                self.wrong(found, format!("has {} members, but {keyword} is {limit}", object.len()));
            }
        }
        let properties = self.map("properties");
        for (index, (key, value)) in object.iter().enumerate() {
            self.check.spend(1)?;
            let place = Place::Member(self.at.place, key);
            let mut known = false;
            if let Some(schema) = properties.and_then(|properties| properties.get(key)) {
                known = true;
                self.part(schema, value, &place, found)?;
            }
            for (pattern, schema) in self.map("patternProperties").into_iter().flatten() {
                if self.check.matches(pattern, key)? {
                    known = true;
                    self.part(schema, value, &place, found)?;
                }
            }
            if let Some(schema) = self.get("additionalProperties").filter(|_| !known) {
                known = true;
                self.left_over(schema, key, value, found)?;
            }
            if known {
                found.mark(index);
            }
            if let Some(schema) = self.get("propertyNames") {
                self.part(schema, &Json::String(key.clone()), &place, found)?;
            }
            if found.is_full() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// A member that a schema says nothing of but by a rule for those.
    pub(super) fn left_over(&self, rule: &'s Json, key: &str, value: &Json, found: &mut Found) -> Done {
        let place = Place::Member(self.at.place, key);
        if *rule != Json::Bool(false) {
            return self.part(rule, value, &place, found);
        }
        let names = self.map("properties").into_iter().flatten().map(|(name, _)| name.as_str());
        let names = names.take(1000).filter(|name| name.len() <= NAME);
        let tell = key.len() <= NAME && !found.is_full();
        let meant = if tell { nearest(key, names).map(str::to_owned) } else { None };
        found.add(&place, What::Unknown { meant });
        Ok(())
    }

    pub(super) fn require(
        &self,
        object: &Map<String, Json>,
        names: Option<&Vec<Json>>,
        found: &mut Found,
    ) -> Done {
        self.check.spend(names.map_or(0, Vec::len))?;
        let properties = self.map("properties");
        for name in names.into_iter().flatten().filter_map(Json::as_str) {
            if object.contains_key(name) {
                continue;
            }
            // Some write down what there is once defaults are filled in: who has one fills it in.
            if properties
                .and_then(|all| all.get(name))
                .is_some_and(|property| property.get("default").is_some())
            {
                self.check.unsure.set(true);
            } else {
                found.add(&Place::Member(self.at.place, name), What::Missing);
            }
        }
        Ok(())
    }
}
