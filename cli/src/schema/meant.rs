//! What was meant by a string that does not fit: `limit=5` where a number is wanted.
//!
//! Owns the guesses. None of them is ever sent: they are what a refusal tells to type instead.

use serde_json::value::RawValue;
use serde_json::{Value as Json, json};

use super::check::{Checked, check};
use crate::arguments::Arguments;
use crate::text::{is_steering, shell_quoted};

/// The longest text that is guessed about, in bytes.
const LONGEST: usize = 200;

/// The words to type for the strings among the arguments that would fit as something else.
pub(crate) fn by(arguments: &Arguments, schema: &Json) -> Vec<String> {
    let can_be_told = |text: &str| text.len() <= LONGEST && !text.contains(|c| is_steering(c) || c == '\n');
    let texts = arguments.texts().filter(|(key, text)| can_be_told(key) && can_be_told(text));
    texts.filter_map(|(key, text)| instead(schema, key, text)).collect()
}

fn instead(schema: &Json, key: &str, text: &str) -> Option<String> {
    if fits(schema, key, &Json::from(text).to_string()) {
        return None;
    }
    let found = guesses(text).into_iter().find(|guess| fits(schema, key, guess))?;
    Some(shell_quoted(&format!("{key}:={found}")))
}

/// JSON that a text may stand for, the most likely first.
fn guesses(text: &str) -> Vec<String> {
    let text = text.trim();
    let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    let word = match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => "true",
        "false" | "no" | "off" => "false",
        "null" | "none" => "null",
        _ => text,
    };
    // As it stands, as a word of another language, as items without brackets, as strings, and as one.
    let all = [word.to_owned(), format!("[{text}]"), json!(parts).to_string(), json!([text]).to_string()];
    all.into_iter().filter(|guess| serde_json::from_str::<&RawValue>(guess).is_ok()).collect()
}

/// Whether nothing is wrong with that one argument, whatever may be with others.
fn fits(schema: &Json, key: &str, value: &str) -> bool {
    match check(schema, &format!("{{{}:{value}}}", Json::from(key))) {
        Checked::Wrong(problems) => !problems.iter().any(|problem| {
            let rest = problem.strip_prefix('`').and_then(|problem| problem.strip_prefix(key));
            rest.is_some_and(|rest| rest.starts_with(['`', '.', '[']))
        }),
        Checked::Fits | Checked::Not(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(words: &[&str], properties: &Json) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let arguments = Arguments::parse(&words, || unreachable!()).unwrap();
        let id = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        by(
            &arguments,
            &json!({
                "type": "object", "properties": properties, "required": ["other"], "additionalProperties": false,
                "$defs": {"id": id},
            }),
        )
    }

    #[test]
    fn what_to_type_instead_of_a_string() {
        let maybe = json!({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null});
        for (schema, word, instead) in [
            (json!({"type": "number"}), "p=1", "p:=1"),
            (json!({"type": "integer", "minimum": 1}), "p= 12 ", "p:=12"),
            (json!({"type": "boolean"}), "p=true", "p:=true"),
            (json!({"type": "boolean"}), "p=False", "p:=false"),
            (json!({"type": "boolean"}), "p:=True", "p:=true"),
            (json!({"type": "null"}), "p=None", "p:=null"),
            (maybe.clone(), "p=3", "p:=3"),
            (maybe, "p=null", "p:=null"),
            (json!({"oneOf": [{"type": "boolean"}, {"type": "number"}]}), "p=2.5", "p:=2.5"),
            (json!({"enum": [1, 2]}), "p=2", "p:=2"),
            (json!({"type": "array", "items": {"type": "string"}}), "p=a.md", r#"'p:=["a.md"]'"#),
            (json!({"type": "array", "items": {"type": "string"}}), "p=a, b", r#"'p:=["a","b"]'"#),
            (json!({"type": "array", "items": {"type": "number"}}), "p=1,2", "'p:=[1,2]'"),
            (json!({"items": {"type": "number"}, "type": "array"}), "p=[1]", "'p:=[1]'"),
            (json!({"$ref": "#/$defs/id"}), r#"p={"n":1}"#, r#"'p:={"n":1}'"#),
        ] {
            assert_eq!(typed(&[word], &json!({"p": schema})), [instead], "{schema} {word}");
        }
        let two = json!({"a": {"type": "number"}, "b": {"type": "number"}, "ab": {"type": "string"}});
        assert_eq!(typed(&["a=1", "b=2", "ab=3"], &two), ["a:=1", "b:=2"]);
    }

    #[test]
    fn nothing_where_nothing_would_fit() {
        for (schema, word) in [
            (json!({"type": "number"}), "p=one"),
            (json!({"type": "number"}), "p:=1"),
            (json!({"type": "number", "minimum": 5}), "p=1"),
            (json!({"enum": ["name", "size"]}), "p=date"),
            (json!({"type": "string"}), "p=1"),
            (json!({"$ref": "#/$defs/id"}), r#"p={"n":"1"}"#),
            (json!({"type": "object"}), "p=a"),
            (json!({}), "q=1"),
        ] {
            assert_eq!(typed(&[word], &json!({"p": schema})), [""; 0], "{schema} {word}");
        }
        let long = format!("p={}", "1".repeat(300));
        assert_eq!(typed(&[&long], &json!({"p": {"type": "number"}})), [""; 0]);
        assert_eq!(typed(&["p=a\u{1b}[2J"], &json!({"p": {"type": "array"}})), [""; 0]);
    }
}
