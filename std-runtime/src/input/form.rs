//! The form of an elicitation: what `requestedSchema` asks for, and whether an answer fits.
//!
//! The schema is a flat object of primitive properties (client/elicitation, Requested Schema). Owns the reading of it,
//! the reading of what somebody typed, and the check of values. Never shows anything.

use regex_lite::Regex;
use serde_json::{Map, Number, Value};

/// A form.
#[derive(Debug, Clone)]
pub struct Form {
    /// Its fields, in the order of the schema.
    pub fields: Vec<Field>,
}

/// A field of a form.
#[derive(Debug, Clone)]
pub struct Field {
    /// The property.
    pub name: String,
    /// What it is called for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Whether there is no answer without it.
    pub required: bool,
    /// The value that it has unless another is given; it fits.
    pub default: Option<Value>,
    /// What goes in.
    pub kind: FieldKind,
}

/// What goes into a field.
#[derive(Debug, Clone)]
pub enum FieldKind {
    /// A string.
    Text {
        /// `email`, `uri`, `date`, `date-time`, or something that is not checked.
        format: Option<String>,
        /// The least number of characters.
        min: Option<u64>,
        /// The largest number of characters.
        max: Option<u64>,
        /// A regular expression that has to be found in it; those that are not understood here are left to the server.
        pattern: Option<Regex>,
    },
    /// A number.
    Number {
        /// Without a fraction.
        integer: bool,
        /// The least.
        min: Option<f64>,
        /// The largest.
        max: Option<f64>,
    },
    /// Yes or no.
    Boolean,
    /// One of these.
    One(Vec<Choice>),
    /// Some of these.
    Some {
        /// What there is.
        choices: Vec<Choice>,
        /// The least number of them.
        min: Option<u64>,
        /// The largest number of them.
        max: Option<u64>,
    },
}

/// A value that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The value.
    pub value: String,
    /// What it is called for people.
    pub title: Option<String>,
}

impl Form {
    /// Reads a `requestedSchema`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(schema: &Value) -> Result<Self, String> {
        let Value::Object(schema) = schema else {
            return Err("its requestedSchema is not an object".to_owned());
        };
        if schema.get("type").is_some_and(|kind| kind != "object") {
            return Err("its requestedSchema is not that of an object".to_owned());
        }
        let required: Vec<&str> = match schema.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let empty = Map::new();
        let properties = match schema.get("properties") {
            Some(Value::Object(properties)) => properties,
            Some(_) => return Err("its properties are not an object".to_owned()),
            None => &empty,
        };
        if let Some(unknown) = required.iter().find(|name| !properties.contains_key(**name)) {
            return Err(format!("it requires {unknown:?}, which is no property of it"));
        }
        let fields = properties.iter().map(|(name, property)| {
            let kind = FieldKind::read(property)
                .ok_or_else(|| format!("its property {name:?} is not a primitive one"))?;
            let text = |member: &str| property[member].as_str().map(str::to_owned);
            let mut field = Field {
                name: name.clone(),
                title: text("title"),
                description: text("description"),
                required: required.contains(&name.as_str()),
                default: None,
                kind,
            };
            field.default = property.get("default").filter(|value| field.check(value).is_ok()).cloned();
            Ok(field)
        });
        Ok(Self { fields: fields.collect::<Result<_, String>>()? })
    }

    /// The answer that takes every default.
    ///
    /// # Errors
    /// The first field that has to have a value and has no default.
    pub fn defaults(&self) -> Result<Map<String, Value>, &Field> {
        let mut content = Map::new();
        for field in &self.fields {
            match &field.default {
                Some(value) => _ = content.insert(field.name.clone(), value.clone()),
                None if field.required => return Err(field),
                None => {}
            }
        }
        Ok(content)
    }

    /// The answer that takes what `given` has of this form, and defaults for the rest.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn fill(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, String> {
        let mut content = Map::new();
        for field in &self.fields {
            match given.get(&field.name).or(field.default.as_ref()) {
                Some(value) => {
                    field.check(value).map_err(|what| format!("{}: {what}", field.name))?;
                    content.insert(field.name.clone(), value.clone());
                }
                None if field.required => return Err(format!("{} is missing", field.name)),
                None => {}
            }
        }
        Ok(content)
    }
}

impl FieldKind {
    fn read(property: &Value) -> Option<Self> {
        let number = |member: &str| property[member].as_f64();
        let count = |member: &str| property[member].as_u64();
        let choices = |of: &Value, titled: &str| {
            let plain = of["enum"].as_array().map(|values| {
                // Titles of their own array are how it was done up to 2025-06-18.
                let titles = of["enumNames"].as_array();
                let title = |index: usize| titles?.get(index)?.as_str().map(str::to_owned);
                let choice = |(index, value): (usize, &Value)| {
                    Some(Choice { value: value.as_str()?.to_owned(), title: title(index) })
                };
                values.iter().enumerate().map(choice).collect::<Option<Vec<_>>>()
            });
            let titled = of[titled].as_array().map(|values| {
                let choice = |value: &Value| {
                    let text = |member: &str| value[member].as_str().map(str::to_owned);
                    Some(Choice { value: text("const")?, title: text("title") })
                };
                values.iter().map(choice).collect::<Option<Vec<_>>>()
            });
            plain.or(titled)
        };
        Some(match property["type"].as_str()? {
            "string" => match choices(property, "oneOf").or_else(|| choices(property, "anyOf")) {
                Some(choices) => Self::One(choices.filter(|choices| !choices.is_empty())?),
                None => Self::Text {
                    format: property["format"].as_str().map(str::to_owned),
                    min: count("minLength"),
                    max: count("maxLength"),
                    pattern: property["pattern"].as_str().and_then(|pattern| Regex::new(pattern).ok()),
                },
            },
            kind @ ("number" | "integer") => {
                Self::Number { integer: kind == "integer", min: number("minimum"), max: number("maximum") }
            }
            "boolean" => Self::Boolean,
            "array" => {
                let items = &property["items"];
                let choices = choices(items, "anyOf").or_else(|| choices(items, "oneOf"))??;
                Self::Some { choices, min: count("minItems"), max: count("maxItems") }
            }
            _ => return None,
        })
    }
}

impl Field {
    /// What it is called for people.
    #[must_use]
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// What goes in, in a few words.
    #[must_use]
    pub fn hint(&self) -> String {
        let range = |min: Option<String>, max: Option<String>, unit: &str| match (min, max) {
            (Some(min), Some(max)) if min == max => format!(", {min}{unit}"),
            (Some(min), Some(max)) => format!(", {min} to {max}{unit}"),
            (Some(min), None) => format!(", at least {min}{unit}"),
            (None, Some(max)) => format!(", at most {max}{unit}"),
            (None, None) => String::new(),
        };
        let counted = |count: &Option<u64>| count.map(|count| count.to_string());
        match &self.kind {
            FieldKind::Text { format, min, max, .. } => {
                let min = counted(&min.filter(|min| *min > 0));
                format.as_deref().unwrap_or("text").to_owned() + &range(min, counted(max), " characters")
            }
            FieldKind::Number { integer, min, max } => {
                let text = |number: &Option<f64>| number.map(|number| number.to_string());
                (if *integer { "whole number" } else { "number" }).to_owned()
                    + &range(text(min), text(max), "")
            }
            FieldKind::Boolean => "y/n".to_owned(),
            FieldKind::One(_) => "one of them".to_owned(),
            FieldKind::Some { min, max, .. } => {
                let min = counted(&min.filter(|min| *min > 0));
                "some of them, with commas".to_owned() + &range(min, counted(max), "")
            }
        }
    }

    /// Reads what somebody typed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(&self, typed: &str) -> Result<Value, String> {
        let typed = typed.trim();
        let value = match &self.kind {
            FieldKind::Text { .. } => Value::from(typed),
            FieldKind::Number { integer: true, .. } => {
                let number =
                    typed.parse::<i64>().map(Value::from).or_else(|_| typed.parse::<u64>().map(Value::from));
                number.map_err(|_| "not a whole number".to_owned())?
            }
            FieldKind::Number { .. } => {
                let number = serde_json::from_str::<Number>(typed).map(Value::from);
                number.map_err(|_| "not a number".to_owned())?
            }
            FieldKind::Boolean => match typed.to_lowercase().as_str() {
                "y" | "yes" | "true" | "1" => Value::Bool(true),
                "n" | "no" | "false" | "0" => Value::Bool(false),
                _ => return Err("not y or n".to_owned()),
            },
            FieldKind::One(choices) => Value::from(choose(choices, typed)?),
            FieldKind::Some { choices, .. } => {
                let parts = typed.split(',').map(str::trim).filter(|part| !part.is_empty());
                let mut chosen: Vec<Value> = Vec::new();
                for part in parts {
                    let value = Value::from(choose(choices, part)?);
                    if !chosen.contains(&value) {
                        chosen.push(value);
                    }
                }
                Value::from(chosen)
            }
        };
        self.check(&value)?;
        Ok(value)
    }

    /// Whether a value fits.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        match (&self.kind, value) {
            (FieldKind::Text { format, min, max, pattern }, Value::String(text)) => {
                let length = text.chars().count() as u64;
                within(length, *min, *max, "characters")?;
                if pattern.as_ref().is_some_and(|pattern| !pattern.is_match(text)) {
                    return Err("not of the form that is asked for".to_owned());
                }
                match format.as_deref() {
                    Some("email") if !is_email(text) => Err("not an e-mail address".to_owned()),
                    Some("uri") if !is_uri(text) => Err("not a URI, like https://example.com".to_owned()),
                    Some("date") if !is_date(text) => Err("not a date, like 2026-07-28".to_owned()),
                    Some("date-time") if !is_date_time(text) => {
                        Err("not a date and time, like 2026-07-28T12:00:00Z".to_owned())
                    }
                    _ => Ok(()),
                }
            }
            (FieldKind::Number { integer, min, max }, Value::Number(number)) => {
                let value = number.as_f64().unwrap_or(f64::NAN);
                if *integer && value.fract() != 0.0 {
                    Err("not a whole number".to_owned())
                } else if min.is_some_and(|min| value < min) {
                    Err(format!("less than {}", min.unwrap_or_default()))
                } else if max.is_some_and(|max| value > max) {
                    Err(format!("more than {}", max.unwrap_or_default()))
                } else {
                    Ok(())
                }
            }
            (FieldKind::Boolean, Value::Bool(_)) => Ok(()),
            (FieldKind::One(choices), Value::String(text)) => {
                if choices.iter().any(|choice| choice.value == *text) {
                    Ok(())
                } else {
                    Err(none_of(choices))
                }
            }
            (FieldKind::Some { choices, min, max }, Value::Array(values)) => {
                if values.iter().any(|value| !choices.iter().any(|choice| value == &choice.value)) {
                    return Err(none_of(choices));
                }
                within(values.len() as u64, *min, *max, "of them")
            }
            _ => Err(format!("not a {}", self.hint())),
        }
    }
}

/// What somebody means: a value, a title, or a number in the list.
fn choose<'c>(choices: &'c [Choice], typed: &str) -> Result<&'c str, String> {
    let by = |is: &dyn Fn(&Choice) -> bool| choices.iter().find(|choice| is(choice));
    let number = typed.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
    by(&|choice| choice.value == typed)
        .or_else(|| by(&|choice| choice.title.as_deref() == Some(typed)))
        .or(number)
        .map(|choice| choice.value.as_str())
        .ok_or_else(|| none_of(choices))
}

fn none_of(choices: &[Choice]) -> String {
    let values: Vec<&str> = choices.iter().map(|choice| choice.value.as_str()).collect();
    format!("not one of {}", values.join(", "))
}

fn within(count: u64, min: Option<u64>, max: Option<u64>, unit: &str) -> Result<(), String> {
    match (min, max) {
        (Some(min), _) if count < min => Err(format!("fewer than {min} {unit}")),
        (_, Some(max)) if count > max => Err(format!("more than {max} {unit}")),
        _ => Ok(()),
    }
}

// What follows is meant to notice a slip, not to be the judge of an RFC: the server has the last word.

fn is_email(text: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || c.is_control() || c == '@')
    };
    text.rsplit_once('@').is_some_and(|(local, domain)| {
        plain(local) && plain(domain) && domain.split('.').all(|label| !label.is_empty())
    })
}

fn is_uri(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, rest)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
            && !rest.is_empty()
            && !rest.contains(|c: char| c.is_whitespace() || c.is_control())
    })
}

/// A number written with exactly so many digits.
fn digits(text: &str, count: usize) -> Option<u32> {
    (text.len() == count && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let mut next = |count| parts.next().and_then(|part| digits(part, count));
    let (Some(year), Some(month), Some(day)) = (next(4), next(2), next(2)) else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let is_time = |text: &str, parts: usize| {
        let limits = [23, 59, 60];
        let found: Vec<&str> = text.split(':').collect();
        found.len() == parts
            && found.iter().zip(limits).all(|(part, limit)| digits(part, 2).is_some_and(|n| n <= limit))
    };
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else { return false };
    let time = match time.strip_suffix(['Z', 'z']) {
        Some(time) => time,
        None => match time.rsplit_once(['+', '-']) {
            Some((time, offset)) if is_time(offset, 2) => time,
            _ => return false,
        },
    };
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    is_date(date) && is_time(whole, 3) && !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(properties: Value, required: Value) -> Form {
        Form::read(&json!({"type": "object", "properties": properties, "required": required})).unwrap()
    }

    fn field(property: Value) -> Field {
        form(json!({"f": property}), json!([])).fields.remove(0)
    }

    /// What typing this gives, of which the second is an error.
    #[track_caller]
    fn types(property: Value, fits: &[(&str, Value)], wrong: &[&str]) {
        let field = field(property);
        for (typed, value) in fits {
            assert_eq!(field.parse(typed).as_ref(), Ok(value), "{typed}");
        }
        for typed in wrong {
            assert!(field.parse(typed).is_err_and(|what| !what.is_empty()), "{typed}");
        }
    }

    #[test]
    fn strings() {
        types(json!({"type": "string"}), &[(" a b ", json!("a b")), ("", json!(""))], &[]);
        let short = json!({"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-zé]+$"});
        types(short, &[("ab", json!("ab")), ("éé", json!("éé"))], &["a", "abcd", "AB"]);
        // A pattern that cannot be read here is the server's to check.
        types(json!({"type": "string", "pattern": "(?=x)"}), &[("ab", json!("ab"))], &[]);
        let format = |format: &str| json!({"type": "string", "format": format});
        types(
            format("email"),
            &[("a+b@x.example", json!("a+b@x.example"))],
            &["", "a", "@x", "a@", "a b@x", "a@x..y", "a@b@c"],
        );
        types(
            format("uri"),
            &[("https://x/?q#f", json!("https://x/?q#f")), ("urn:a:b", json!("urn:a:b"))],
            &["", "x", "//x", "1a:b", "a:", "a:b c"],
        );
        types(
            format("date"),
            &[("2024-02-29", json!("2024-02-29")), ("2000-02-29", json!("2000-02-29"))],
            &[
                "2023-02-29",
                "1900-02-29",
                "2024-13-01",
                "2024-04-31",
                "2024-1-1",
                "24-01-01",
                "2024-01-01-",
                "+024-01-01",
            ],
        );
        types(
            format("date-time"),
            &["2024-02-29T23:59:60Z", "2024-02-29t00:00:00.125+05:30", "2024-02-29T00:00:00-00:00"]
                .map(|text| (text, json!(text))),
            &[
                "2024-02-29",
                "2024-02-29T00:00Z",
                "2024-02-29T24:00:00Z",
                "2024-02-29T00:00:00",
                "2024-02-29T00:00:00.Z",
                "2024-02-29T00:00:00+5",
            ],
        );
        types(format("colour"), &[("red", json!("red"))], &[]);
    }

    #[test]
    fn numbers() {
        let integer = json!({"type": "integer", "minimum": -1, "maximum": 10});
        types(integer, &[("7", json!(7)), (" -1 ", json!(-1))], &["", "1.5", "11", "-2", "x", "0x1", "1e1"]);
        types(
            json!({"type": "integer"}),
            &[("18446744073709551615", json!(u64::MAX))],
            &["18446744073709551616"],
        );
        let number = json!({"type": "number", "minimum": 0.5});
        types(
            number,
            &[("0.5", json!(0.5)), ("1e3", json!(1000.0))],
            &["0.4", "", "1,5", "NaN", "inf", "+1", ".5"],
        );
    }

    #[test]
    fn yes_and_no() {
        types(
            json!({"type": "boolean"}),
            &[("Y", json!(true)), ("true", json!(true)), ("no", json!(false)), ("0", json!(false))],
            &["", "maybe"],
        );
    }

    #[test]
    fn one_of_several() {
        let plain = json!({"type": "string", "enum": ["Red", "2", "Blue"]});
        // A value is meant before a place in the list.
        types(
            plain,
            &[("Red", json!("Red")), ("3", json!("Blue")), ("2", json!("2"))],
            &["", "red", "0", "4"],
        );
        let titled =
            json!({"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#00f"}]});
        types(titled, &[("Red", json!("#f00")), ("#f00", json!("#f00")), ("2", json!("#00f"))], &["Blue"]);
        let old = json!({"type": "string", "enum": ["a", "b"], "enumNames": ["Ay"]});
        types(old, &[("Ay", json!("a")), ("b", json!("b"))], &["Bee"]);
    }

    #[test]
    fn some_of_several() {
        let plain = json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string", "enum": ["a", "b", "c"]}});
        types(plain, &[("a, 3", json!(["a", "c"])), ("b,b,", json!(["b"]))], &["", "a,b,c", "x"]);
        let titled = json!({"type": "array", "items": {"anyOf": [{"const": "1", "title": "One"}]}});
        types(titled, &[("One", json!(["1"])), ("", json!([]))], &["Two"]);
    }

    #[test]
    fn defaults_are_taken_if_they_fit() {
        let form = form(
            json!({
                "name": {"type": "string", "default": "ann", "title": "Name"},
                "age": {"type": "integer", "default": 7.0},
                "score": {"type": "number", "default": "x"},
                "colours": {"type": "array", "items": {"enum": ["r", "g"]}, "default": ["g"]},
                "ok": {"type": "boolean", "default": false},
            }),
            json!(["name"]),
        );
        let names: Vec<&str> = form.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["name", "age", "score", "colours", "ok"], "in the order of the schema");
        let defaults = form.defaults().unwrap();
        assert_eq!(Value::from(defaults), json!({"name": "ann", "age": 7.0, "colours": ["g"], "ok": false}));
        assert_eq!((form.fields[0].label(), form.fields[1].label()), ("Name", "age"));
        let given = json!({"name": "bob", "score": 1.5, "other": 1});
        let filled = form.fill(given.as_object().unwrap()).unwrap();
        assert_eq!(
            Value::from(filled),
            json!({"name": "bob", "age": 7.0, "score": 1.5, "colours": ["g"], "ok": false})
        );
        for (given, what) in
            [(json!({"name": 7}), "name: "), (json!({"ok": "yes"}), "ok: "), (json!({"age": 1.5}), "age: ")]
        {
            let error = form.fill(given.as_object().unwrap()).unwrap_err();
            assert!(error.starts_with(what), "{error}");
        }
        let form = self::form(json!({"a": {"type": "string"}}), json!(["a"]));
        assert_eq!(form.defaults().unwrap_err().name, "a");
        assert_eq!(form.fill(&Map::new()), Err("a is missing".to_owned()));
    }

    #[test]
    fn schemas_that_are_none() {
        for schema in [
            json!(null),
            json!({"type": "array"}),
            json!({"properties": []}),
            json!({"properties": {"a": {"type": "object"}}}),
            json!({"properties": {"a": {}}}),
            json!({"properties": {"a": 7}}),
            json!({"properties": {"a": {"type": "string", "enum": []}}}),
            json!({"properties": {"a": {"type": "string", "enum": [1]}}}),
            json!({"properties": {"a": {"type": "array", "items": {"type": "string"}}}}),
            json!({"properties": {}, "required": ["a"]}),
        ] {
            assert!(Form::read(&schema).is_err(), "{schema}");
        }
        assert!(Form::read(&json!({})).unwrap().fields.is_empty());
    }

    #[test]
    fn hints() {
        for (property, hint) in [
            (json!({"type": "string", "minLength": 0, "maxLength": 9}), "text, at most 9 characters"),
            (json!({"type": "string", "format": "email", "minLength": 3}), "email, at least 3 characters"),
            (json!({"type": "integer", "minimum": 1, "maximum": 3}), "whole number, 1 to 3"),
            (json!({"type": "number"}), "number"),
            (json!({"type": "boolean"}), "y/n"),
            (json!({"type": "string", "enum": ["a"]}), "one of them"),
            (
                json!({"type": "array", "minItems": 2, "maxItems": 2, "items": {"enum": ["a"]}}),
                "some of them, with commas, 2",
            ),
        ] {
            assert_eq!(field(property).hint(), hint);
        }
    }
}
