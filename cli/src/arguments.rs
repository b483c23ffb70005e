//! The arguments of a tool: from words of the command line to one JSON object.
//!
//! Owns the forms `key:=json`, `key=string`, `key=@file`, `{…}` and `-`. How a schema changes values is `schema`'s.
//! Never talks to a server: the caller asks [`Arguments::needs_schema`], fetches one if so, and hands it in.
//!
//! When a schema is needed. `key=text` and `key=@file` are strings by their form, `{…}` and `-` are taken as written,
//! and a `:=` value that is not JSON, or is a quoted JSON string, can only be a string. What is left is a `:=` value
//! that reads as a number, boolean, null, array or object: the tool may want exactly that, or the same characters as a
//! string (`id:=123`, `body:={"a":1}`). Only then one `tools/list` is worth its round trip.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};

use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::error::Failure;
use crate::schema::coerce::{Sent, coerce};

/// Checked arguments, ready to be coerced and written.
#[derive(Debug, PartialEq)]
pub(crate) enum Arguments {
    /// A whole object: the text of `{…}` or of stdin, on one line.
    Whole(String),
    /// Single values, in the order of the command line.
    Pairs(Vec<(String, Value)>),
}

/// One value of a `key…value` word.
#[derive(Debug, PartialEq)]
pub(crate) enum Value {
    /// A string, whatever the schema says.
    Text(String),
    /// JSON that is not a string; the text as typed, because a string parameter gets exactly that.
    Json(String),
}

impl Arguments {
    /// Reads the words after a tool's name. Stdin is read if and only if one of them is `-`.
    pub(crate) fn parse(
        words: &[String],
        stdin: impl FnOnce() -> io::Result<String>,
    ) -> Result<Self, Failure> {
        match words {
            [] => Ok(Self::Pairs(Vec::new())),
            [word] if word == "-" => {
                let text = stdin()
                    .map_err(|error| Failure::usage(format!("cannot read arguments from stdin: {error}")))?;
                whole(&text, "stdin").map(Self::Whole)
            }
            [word] if word.trim_start().starts_with(['{', '[']) => {
                whole(word, "the argument").map(Self::Whole)
            }
            words => {
                let mut pairs: Vec<(String, Value)> = Vec::with_capacity(words.len());
                for word in words {
                    let (key, value) = pair(word)?;
                    if pairs.iter().any(|(known, _)| *known == key) {
                        return Err(Failure::usage(format!("argument `{key}` is given twice")));
                    }
                    pairs.push((key, value));
                }
                Ok(Self::Pairs(pairs))
            }
        }
    }

    /// Whether a schema could change what is sent.
    pub(crate) fn needs_schema(&self) -> bool {
        match self {
            Self::Whole(_) => false,
            Self::Pairs(pairs) => pairs.iter().any(|(_, value)| matches!(value, Value::Json(_))),
        }
    }

    /// The values that are strings, with their names.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = match self {
            Self::Whole(_) => &[][..],
            Self::Pairs(pairs) => pairs,
        };
        pairs.iter().filter_map(|(key, value)| match value {
            Value::Text(text) => Some((key.as_str(), text.as_str())),
            Value::Json(_) => None,
        })
    }

    /// Turns values into strings where the schema takes those and not what was typed. Whatever it does not settle
    /// stays JSON.
    pub(crate) fn coerce(&mut self, schema: &Json) {
        let Self::Pairs(pairs) = self else { return };
        for (key, value) in pairs {
            let Value::Json(text) = value else { continue };
            match coerce(schema, key, text) {
                Sent::AsTyped => {}
                Sent::Text => *value = Value::Text(std::mem::take(text)),
                Sent::Array(array) => *text = array,
            }
        }
    }

    /// The names of all arguments.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::Pairs(pairs) => pairs.iter().map(|(key, _)| key.clone()).collect(),
            Self::Whole(text) => serde_json::from_str::<BTreeMap<String, &RawValue>>(text)
                .map(|members| members.into_keys().collect())
                .unwrap_or_default(),
        }
    }

    /// Makes every value a string, as the arguments of prompts are: JSON becomes its text as it was typed.
    pub(crate) fn make_strings(&mut self) -> Result<(), Failure> {
        match self {
            Self::Pairs(pairs) => {
                for (_, value) in pairs {
                    if let Value::Json(text) = value {
                        *value = Value::Text(std::mem::take(text));
                    }
                }
            }
            Self::Whole(text) => {
                let members: BTreeMap<String, &RawValue> = serde_json::from_str(text)
                    .map_err(|error| Failure::usage(format!("the arguments are not valid JSON: {error}")))?;
                let pairs = members.into_iter().map(|(key, value)| {
                    let text = value.get();
                    (key, Value::Text(serde_json::from_str(text).unwrap_or_else(|_| text.to_owned())))
                });
                *self = Self::Pairs(pairs.collect());
            }
        }
        Ok(())
    }

    /// The `arguments` object, on one line: values typed as JSON keep every digit.
    pub(crate) fn to_json(&self) -> String {
        let pairs = match self {
            Self::Whole(text) => return text.clone(),
            Self::Pairs(pairs) => pairs,
        };
        let mut object = String::from("{");
        for (index, (key, value)) in pairs.iter().enumerate() {
            if index > 0 {
                object.push(',');
            }
            push_string(&mut object, key);
            object.push(':');
            match value {
                Value::Text(text) => push_string(&mut object, text),
                Value::Json(text) => object.push_str(&single_line(text)),
            }
        }
        object.push('}');
        object
    }
}

/// Reads stdin to its end, for [`Arguments::parse`].
pub(crate) fn read_stdin() -> io::Result<String> {
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

/// The params of a request that names something and gives it arguments.
pub(crate) fn named(name: &str, arguments: &str) -> String {
    let mut params = String::from("{\"name\":");
    push_string(&mut params, name);
    params.push_str(",\"arguments\":");
    params.push_str(arguments);
    params.push('}');
    params
}

/// A JSON string, quoted and escaped.
fn push_string(out: &mut String, text: &str) {
    out.push_str(&Json::from(text).to_string());
}

fn whole(text: &str, source: &str) -> Result<String, Failure> {
    let raw: &RawValue = serde_json::from_str(text)
        .map_err(|error| Failure::usage(format!("{source} is not valid JSON: {error}")))?;
    if !raw.get().starts_with('{') {
        return Err(Failure::usage(format!(
            "{source} must be a JSON object, as in '{{\"key\": \"value\"}}'"
        )));
    }
    Ok(single_line(raw.get()))
}

fn pair(word: &str) -> Result<(String, Value), Failure> {
    let malformed = || {
        let shown = word.split_whitespace().next().unwrap_or(word);
        Failure::usage(format!("`{shown}` is not an argument of the form key:=value"))
            .with_hint("key:=json, key=string, key=@file, one {…} object, or - to read an object from stdin; no spaces around := or =")
    };
    let (key, value) = word.split_once('=').ok_or_else(malformed)?;
    let (key, by_json) = match key.strip_suffix(':') {
        Some(key) => (key, true),
        None => (key, false),
    };
    if key.is_empty() || key.starts_with(char::is_whitespace) || key.ends_with(char::is_whitespace) {
        return Err(malformed());
    }
    let value = if by_json {
        typed(value)
    } else if let Some(path) = value.strip_prefix('@') {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("argument `{key}`: cannot read {path}: {error}")))?;
        Value::Text(text)
    } else {
        Value::Text(value.to_owned())
    };
    Ok((key.to_owned(), value))
}

/// The value of a `:=` word: JSON where it is JSON, else the text itself.
fn typed(text: &str) -> Value {
    if let Ok(string) = serde_json::from_str::<String>(text) {
        return Value::Text(string);
    }
    match serde_json::from_str::<&RawValue>(text) {
        Ok(_) => Value::Json(text.to_owned()),
        Err(_) => Value::Text(text.to_owned()),
    }
}

/// Valid JSON has line breaks only between tokens, where a space is the same. A message is one line.
fn single_line(json: &str) -> String {
    json.trim().replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(words: &[&str]) -> Result<Arguments, Failure> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Arguments::parse(&words, || panic!("stdin must not be read"))
    }

    fn written(words: &[&str]) -> String {
        parse(words).unwrap().to_json()
    }

    #[test]
    fn every_form() {
        assert_eq!(written(&[]), "{}");
        assert_eq!(
            written(&["a:=1", "b:=true", "c:=null", "d:=[1, 2]"]),
            r#"{"a":1,"b":true,"c":null,"d":[1, 2]}"#
        );
        assert_eq!(written(&["a:=hello world", "b:=\"1\"", "c:="]), r#"{"a":"hello world","b":"1","c":""}"#);
        assert_eq!(written(&["a=1", "b=x:=y", "c=a=b"]), r#"{"a":"1","b":"x:=y","c":"a=b"}"#);
        assert_eq!(written(&["handle:=@apify"]), r#"{"handle":"@apify"}"#);
        assert_eq!(written(&[r#"{"a": 1}"#]), r#"{"a": 1}"#);
        assert_eq!(written(&["a:={not json"]), r#"{"a":"{not json"}"#);
    }

    #[test]
    fn digits_and_depth_survive() {
        assert_eq!(written(&["n:=12345678901234567890123.50"]), r#"{"n":12345678901234567890123.50}"#);
        let nest = format!("n:={}{}", "[".repeat(5000), "]".repeat(5000));
        assert!(written(&[&nest]).contains("[[[["));
    }

    #[test]
    fn a_message_stays_one_line() {
        assert_eq!(written(&["{\n \"a\":\r\n 1}"]), r#"{  "a":   1}"#);
        assert_eq!(written(&["a:=[1,\n2]"]), r#"{"a":[1, 2]}"#);
        assert_eq!(written(&["a=x\ny"]), r#"{"a":"x\ny"}"#);
    }

    #[test]
    fn stdin_is_read_only_for_a_dash() {
        let words = ["-".to_owned()];
        let arguments = Arguments::parse(&words, || Ok("{\"a\":\n1}\n".into())).unwrap();
        assert_eq!(arguments.to_json(), "{\"a\": 1}");
        let failure = Arguments::parse(&words, || Ok("[1]".into())).unwrap_err();
        assert!(failure.message.contains("JSON object"), "{}", failure.message);
        let failure = Arguments::parse(&words, || Ok(String::new())).unwrap_err();
        assert!(failure.message.contains("not valid JSON"), "{}", failure.message);
    }

    #[test]
    fn a_file_gives_a_string() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "line 1\n123").unwrap();
        let word = format!("body=@{}", file.path().display());
        let arguments = parse(&[&word]).unwrap();
        assert!(!arguments.needs_schema());
        assert_eq!(arguments.to_json(), r#"{"body":"line 1\n123"}"#);
        assert_eq!(parse(&["body=@/no/such/file"]).unwrap_err().kind, "usage");
    }

    #[test]
    fn malformed_words_are_usage_errors() {
        for words in [
            &["a"][..],
            &[":=1"],
            &["=1"],
            &["a ", ":=", "1"],
            &["a :=1"],
            &["-", "a:=1"],
            &["{}", "a:=1"],
            &["[1]"],
        ] {
            let failure = parse(words).unwrap_err();
            assert_eq!(failure.kind, "usage", "{words:?}");
        }
        assert!(parse(&["a:=1", "a=2"]).unwrap_err().message.contains("twice"));
        assert!(parse(&["{\"a\":}"]).unwrap_err().message.contains("not valid JSON"));
    }

    #[test]
    fn prompts_get_strings() {
        for (words, sent) in [
            (&["n:=1.50", "t=x", "l:=[1]"][..], r#"{"n":"1.50","t":"x","l":"[1]"}"#),
            (&[r#"{"s": "\u0041", "n": 1.0, "o": {"a": 1}}"#], r#"{"n":"1.0","o":"{\"a\": 1}","s":"A"}"#),
            (&[], "{}"),
        ] {
            let mut arguments = parse(words).unwrap();
            arguments.make_strings().unwrap();
            assert_eq!(arguments.to_json(), sent);
        }
    }

    #[test]
    fn only_ambiguous_values_need_a_schema() {
        for plain in [&[][..], &["a=1"], &["a:=text"], &["a:=\"1\""], &["{\"a\":1}"]] {
            assert!(!parse(plain).unwrap().needs_schema(), "{plain:?}");
        }
        for ambiguous in ["a:=1", "a:=true", "a:=null", "a:=[]", "a:={}"] {
            assert!(parse(&[ambiguous]).unwrap().needs_schema(), "{ambiguous}");
        }
    }

    fn coerced(word: &str, schema: Json) -> String {
        let mut arguments = parse(&[word]).unwrap();
        arguments.coerce(&schema);
        arguments.to_json()
    }

    #[test]
    fn a_string_parameter_gets_the_characters() {
        let string = json!({"type":"object","properties":{"id":{"type":"string"}}});
        for (word, sent) in [
            ("id:=123", r#"{"id":"123"}"#),
            ("id:=0123", r#"{"id":"0123"}"#),
            ("id:=1.50", r#"{"id":"1.50"}"#),
            ("id:=true", r#"{"id":"true"}"#),
            ("id:=null", r#"{"id":"null"}"#),
            (r#"id:={"a":1}"#, r#"{"id":"{\"a\":1}"}"#),
        ] {
            assert_eq!(coerced(word, string.clone()), sent);
        }
    }

    #[test]
    fn an_array_of_strings_and_what_stays() {
        let schema = json!({"properties": {"l": {"items": {"type": "string"}}, "n": {"type": "number"}}});
        assert_eq!(coerced("l:=[1.0,2]", schema.clone()), r#"{"l":["1.0","2"]}"#);
        assert_eq!(coerced("n:=1.0", schema.clone()), r#"{"n":1.0}"#);
        assert_eq!(coerced("other:=1", schema), r#"{"other":1}"#);
    }

    #[test]
    fn names() {
        assert_eq!(parse(&["b:=1", "a=2"]).unwrap().names(), ["b", "a"]);
        assert_eq!(parse(&[r#"{"b": {"c": 1}, "a": 2}"#]).unwrap().names(), ["a", "b"]);
    }
}
