//! Values typed as JSON that a schema wants as strings.
//!
//! Owns a small reading of schemas: types, enumerations, alternatives, properties, items and local references. What it
//! does not know counts as fitting, so that a value stays as it was typed unless a string is clearly what is wanted.

use std::cell::Cell;

use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};

/// How deep references and alternatives are followed.
const DEPTH: usize = 64;
/// How much of a schema is looked at for one value.
const FUEL: usize = 100_000;

/// What is sent for a value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The JSON that was typed.
    AsTyped,
    /// The very characters, as a string.
    Text,
    /// An array with strings in place of its numbers and booleans.
    Array(String),
}

/// What is sent for the argument `key`, which was `typed` as JSON that is not a string.
pub(crate) fn coerce(schema: &Json, key: &str, typed: &str) -> Sent {
    let reading = Reading { root: schema, fuel: Cell::new(FUEL) };
    let fits = |value: Json| {
        let arguments = Map::from_iter([(key.to_owned(), value)]);
        reading.fits(schema, &Json::Object(arguments), DEPTH)
    };
    // Too deep, or beyond any number: it is of a type all the same.
    let value = serde_json::from_str(typed).unwrap_or_else(|_| match typed.trim_start().as_bytes().first() {
        Some(b'{') => Json::Object(Map::new()),
        Some(b'[') => Json::Array(Vec::new()),
        _ => 0.into(),
    });
    let is_array = value.is_array();
    if fits(value) {
        return Sent::AsTyped;
    }
    if let Some(text) = if is_array { strings(typed) } else { None }
        && serde_json::from_str(&text).is_ok_and(&fits)
    {
        return Sent::Array(text);
    }
    if fits(Json::from(typed)) { Sent::Text } else { Sent::AsTyped }
}

/// The array with each number and boolean in it, at any depth of arrays, as a string of the very characters.
fn strings(array: &str) -> Option<String> {
    let items: Vec<&RawValue> = serde_json::from_str(array).ok()?;
    let mut text = String::from("[");
    for (index, item) in items.into_iter().map(RawValue::get).enumerate() {
        if index > 0 {
            text.push(',');
        }
        match item.as_bytes().first() {
            Some(b'[') => text.push_str(&strings(item)?),
            Some(b'"' | b'{' | b'n') | None => text.push_str(item),
            Some(_) => text.push_str(&Json::from(item).to_string()),
        }
    }
    text.push(']');
    Some(text)
}

struct Reading<'a> {
    root: &'a Json,
    fuel: Cell<usize>,
}

impl Reading<'_> {
    fn fits(&self, schema: &Json, value: &Json, depth: usize) -> bool {
        let Json::Object(schema) = schema else { return *schema != Json::Bool(false) };
        let Some(depth) = depth.checked_sub(1).filter(|_| self.spend(1)) else { return true };
        if value.is_null() && takes_null(schema) {
            return true;
        }
        let list = |keyword: &str| schema.get(keyword).and_then(Json::as_array);
        let fits = |schema: &Json| self.fits(schema, value, depth);
        schema.get("type").is_none_or(|kind| is_of(kind, value))
            && schema.get("const").is_none_or(|constant| same(constant, value))
            && list("enum").is_none_or(|values| {
                !self.spend(values.len()) || values.iter().any(|constant| same(constant, value))
            })
            && list("allOf").is_none_or(|all| all.iter().all(fits))
            && ["anyOf", "oneOf"].iter().all(|any| list(any).is_none_or(|any| any.iter().any(fits)))
            && schema.get("$ref").is_none_or(|reference| local(self.root, reference).is_none_or(fits))
            && match value {
                Json::Array(items) => schema
                    .get("items")
                    .is_none_or(|schema| items.iter().all(|item| self.fits(schema, item, depth))),
                Json::Object(members) => members.iter().all(|(key, value)| {
                    let property = schema.get("properties").and_then(|properties| properties.get(key));
                    let others = || schema.get("additionalProperties");
                    property.or_else(others).is_none_or(|schema| self.fits(schema, value, depth))
                }),
                _ => true,
            }
    }

    /// Whether there is still something to spend. When there is not, everything fits.
    fn spend(&self, cost: usize) -> bool {
        let left = self.fuel.get().saturating_sub(cost);
        self.fuel.set(left);
        left > 0
    }
}

/// What a reference within the schema means.
pub(super) fn local<'a>(root: &'a Json, reference: &Json) -> Option<&'a Json> {
    let pointer = reference.as_str()?.strip_prefix('#')?;
    if pointer.is_empty() || pointer.starts_with('/') { root.pointer(&decoded(pointer)) } else { None }
}

/// A URI fragment without its percent signs.
pub(super) fn decoded(fragment: &str) -> std::borrow::Cow<'_, str> {
    if !fragment.contains('%') {
        return fragment.into();
    }
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// Whether null fits whatever else is said: OpenAPI's word for it, or because it is there if nothing is given.
pub(super) fn takes_null(schema: &Map<String, Json>) -> bool {
    schema.get("nullable") == Some(&Json::Bool(true)) || schema.get("default") == Some(&Json::Null)
}

/// Whether a value is of a type, or of one of several. A type that is none has every value.
pub(super) fn is_of(kind: &Json, value: &Json) -> bool {
    match kind {
        Json::Array(kinds) => kinds.iter().any(|kind| is_of(kind, value)),
        Json::String(kind) => match kind.as_str() {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "number" => value.is_number(),
            // 1.0 is one.
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            _ => true,
        },
        _ => true,
    }
}

/// Whether two values are the same: 1.0 is 1.
pub(super) fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(x), Json::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Json::Array(x), Json::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Json::Object(x), Json::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| same(x, y)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent(schema: &Json, typed: &str) -> Sent {
        coerce(&json!({"properties": {"p": schema}, "$defs": {"name": {"type": "string"}}}), "p", typed)
    }

    #[test]
    fn a_string_gets_the_very_characters() {
        for schema in [
            json!({"type": "string"}),
            json!({"$ref": "#/$defs/name"}),
            json!({"$ref": "#/%24defs/n%61me"}),
            json!({"anyOf": [{"type": "string"}, {"type": "boolean"}]}),
            json!({"oneOf": [{"$ref": "#/$defs/name"}, {"type": "object"}]}),
            json!({"allOf": [{"type": ["string", "number"]}, {"type": "string"}]}),
            json!({"type": ["string", "null"]}),
            json!({"enum": ["1.50", "2"]}),
            json!({"enum": [1, "1.50"]}),
            json!({"const": "1.50"}),
        ] {
            assert_eq!(sent(&schema, "1.50"), Sent::Text, "{schema}");
        }
        for typed in ["true", "null", "[1]", r#"{"a":1}"#, "1e999", &"[".repeat(200)] {
            assert_eq!(sent(&json!({"type": "string"}), typed), Sent::Text, "{typed}");
        }
    }

    #[test]
    fn what_fits_stays_and_so_does_what_fits_neither_way() {
        for (schema, typed) in [
            (json!({}), "1"),
            (json!(true), "1"),
            (json!(false), "1"),
            (json!({"type": "number"}), "1"),
            (json!({"type": "integer"}), "1.0"),
            (json!({"type": "integer"}), "1.5"),
            (json!({"type": "odd"}), "1"),
            (json!({"type": ["integer", "string"]}), "1"),
            (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), "null"),
            (json!({"type": "string", "nullable": true}), "null"),
            (json!({"type": "string", "default": null}), "null"),
            (json!({"enum": [1, "1"]}), "1.0"),
            (json!({"enum": ["a"]}), "1"),
            (json!({"$ref": "https://example.com/x"}), "1"),
            (json!({"$ref": "#/properties/p"}), "1"),
            (json!({"$ref": 3, "anyOf": 3, "enum": 3, "type": 3}), "1"),
            (json!({"type": "object", "properties": {"id": {"type": "string"}}}), r#"{"id":1}"#),
        ] {
            assert_eq!(sent(&schema, typed), Sent::AsTyped, "{schema}");
        }
    }

    #[test]
    fn arrays_of_strings() {
        let list = json!({"type": "array", "items": {"type": "string"}});
        let array = |text: &str| Sent::Array(text.to_owned());
        assert_eq!(sent(&list, r#"[1.50, "a",true]"#), array(r#"["1.50","a","true"]"#));
        assert_eq!(sent(&list, r#"["a"]"#), Sent::AsTyped);
        assert_eq!(sent(&list, "[null]"), Sent::AsTyped);
        assert_eq!(sent(&list, "1"), Sent::AsTyped);
        let either = json!({"anyOf": [{"type": "string"}, list]});
        assert_eq!(sent(&either, "[1]"), array(r#"["1"]"#));
        assert_eq!(sent(&either, "1"), Sent::Text);
        let nested = json!({"items": {"items": {"enum": ["1", "2"]}}});
        assert_eq!(sent(&nested, "[[1],[2]]"), array(r#"[["1"],["2"]]"#));
        let numbers = json!({"type": "array", "items": {"type": "number"}});
        assert_eq!(sent(&numbers, "[1]"), Sent::AsTyped);
    }

    #[test]
    fn properties_wherever_they_are_declared() {
        let string = json!({"type": "string"});
        for schema in [
            json!({"$ref": "#/$defs/all", "$defs": {"all": {"properties": {"p": string}}}}),
            json!({"allOf": [{"properties": {"p": string}}]}),
            json!({"additionalProperties": string}),
        ] {
            assert_eq!(coerce(&schema, "p", "1"), Sent::Text, "{schema}");
        }
        for odd in [json!(null), json!({"properties": 3}), json!({"properties": {"p": 3}})] {
            assert_eq!(coerce(&odd, "p", "1"), Sent::AsTyped);
        }
    }

    #[test]
    fn a_schema_that_never_ends_has_an_end() {
        let more = || json!({"$ref": "#/properties/p"});
        let schema = json!({"anyOf": (0..50).map(|_| more()).collect::<Vec<_>>(), "type": "string"});
        let start = std::time::Instant::now();
        sent(&schema, "1");
        sent(&json!({"anyOf": (0..50).map(|_| json!({"allOf": [more(), false]})).collect::<Vec<_>>()}), "1");
        assert!(start.elapsed() < std::time::Duration::from_secs(10));
    }
}
