//! `--schema`: whether a tool or prompt is still the one that somebody expects.
//!
//! Owns the file and the comparison. The file holds what `tools-get --json` (or `prompts-get`'s list, `prompts-list
//! --json`) printed once: one tool or prompt, or an array of them.

use std::fs;
use std::path::PathBuf;

use serde_json::Value as Json;

use super::coerce::local;
use crate::error::{Exit, Failure};

/// `--schema` and `--schema-mode`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) file: PathBuf,
    pub(crate) mode: Mode,
}

/// How much may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// What is passed may be passed as before.
    Compatible,
    /// Nothing.
    Strict,
    /// Everything.
    Ignore,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Tool,
    Prompt,
}

impl Expected {
    /// Reads what is expected of the tool or prompt `name`.
    pub(crate) fn read(&self, name: &str) -> Result<Json, Failure> {
        let shown = self.file.display();
        let text = fs::read_to_string(&self.file)
            .map_err(|error| Failure::usage(format!("--schema: cannot read {shown}: {error}")))?;
        let value: Json = serde_json::from_str(&text)
            .map_err(|error| Failure::usage(format!("--schema: {shown} is not valid JSON: {error}")))?;
        let one = match value {
            Json::Array(list) => list.into_iter().find(|item| item["name"] == name),
            value => Some(value).filter(Json::is_object),
        };
        one.ok_or_else(|| Failure::usage(format!("--schema: {shown} has nothing for `{name}`")))
    }

    /// Refuses what is not as expected. `passed` are the arguments of a call; `None`: any may be passed.
    pub(crate) fn compare(
        &self,
        what: What,
        expected: &Json,
        live: &Json,
        passed: Option<&[String]>,
    ) -> Result<(), Failure> {
        let differences = match self.mode {
            Mode::Ignore => Vec::new(),
            Mode::Strict => strict(what, expected, live),
            Mode::Compatible => compatible(what, expected, live, passed),
        };
        if differences.is_empty() {
            return Ok(());
        }
        let (noun, name) = match what {
            What::Tool => ("tool", live["name"].as_str().unwrap_or_default()),
            What::Prompt => ("prompt", live["name"].as_str().unwrap_or_default()),
        };
        let message =
            format!("the {noun} `{name}` is not as {} says: {}", self.file.display(), differences.join("; "));
        Err(Failure::new(Exit::Usage, "schema-mismatch", message)
            .with_ran(drowse_runtime::wire::Ran::No)
            .with_hint("--schema-mode ignore goes on all the same"))
    }
}

/// What a user would notice, value for value.
fn strict(what: What, expected: &Json, live: &Json) -> Vec<String> {
    let members: &[&str] = match what {
        What::Tool => &["name", "description", "inputSchema", "outputSchema"],
        What::Prompt => &["name", "description", "arguments"],
    };
    let differs = members.iter().filter(|member| expected[**member] != live[**member]);
    differs.map(|member| format!("another {member}")).collect()
}

/// What would make a call fail, or mean something else, that was right before.
fn compatible(what: What, expected: &Json, live: &Json, passed: Option<&[String]>) -> Vec<String> {
    let mut differences = Vec::new();
    if expected["name"].is_string() && expected["name"] != live["name"] {
        differences.push("another name".to_owned());
    }
    let (before, now) = (arguments(what, expected), arguments(what, live));
    let named = |all: &[Argument<'_>], name: &str| all.iter().position(|argument| argument.name == name);
    for argument in now.iter().filter(|argument| argument.required) {
        let was_required = named(&before, argument.name).is_some_and(|at| before[at].required);
        let is_passed = passed.is_some_and(|passed| passed.iter().any(|name| name == argument.name));
        if !was_required && !is_passed {
            differences.push(format!("`{}` is required now", argument.name));
        }
    }
    let mine: Vec<&str> = match passed {
        Some(passed) => passed.iter().map(String::as_str).collect(),
        None => before.iter().map(|argument| argument.name).collect(),
    };
    for name in mine {
        match (named(&before, name), named(&now, name)) {
            (_, None) => differences.push(format!("there is no `{name}` any more")),
            (Some(before_at), Some(now_at)) => {
                let (was, is) = (before[before_at].takes(), now[now_at].takes());
                if let (Some(was), Some(is)) = (was, is)
                    && !was.iter().all(|kind| is.iter().any(|wider| includes(wider, kind)))
                {
                    differences.push(format!("`{name}` takes {} and not {}", is.join("|"), was.join("|")));
                }
            }
            (None, Some(_)) => {}
        }
    }
    differences
}

/// One argument of a tool or prompt.
struct Argument<'a> {
    name: &'a str,
    required: bool,
    /// Its schema, and the one that references in it are about.
    schema: Option<(&'a Json, &'a Json)>,
}

fn arguments(what: What, item: &Json) -> Vec<Argument<'_>> {
    if what == What::Prompt {
        let all = item["arguments"].as_array().into_iter().flatten();
        return all
            .filter_map(|argument| {
                let name = argument["name"].as_str()?;
                Some(Argument { name, required: argument["required"] == true, schema: None })
            })
            .collect();
    }
    let root = &item["inputSchema"];
    let required: Vec<&str> =
        root["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let properties = root["properties"].as_object().into_iter().flatten();
    let mut arguments: Vec<Argument<'_>> = properties
        .map(|(name, schema)| Argument {
            name,
            required: required.contains(&name.as_str()),
            schema: Some((root, schema)),
        })
        .collect();
    // Required without a word about it.
    for name in required {
        if !arguments.iter().any(|argument| argument.name == name) {
            arguments.push(Argument { name, required: true, schema: None });
        }
    }
    arguments
}

impl Argument<'_> {
    /// The types and values that it takes; `None` where that is not said in a way that can be compared.
    fn takes(&self) -> Option<Vec<String>> {
        let (root, schema) = self.schema?;
        let mut kinds = Vec::new();
        takes(root, schema, 8, &mut kinds)?;
        Some(kinds)
    }
}

fn takes(root: &Json, schema: &Json, depth: usize, kinds: &mut Vec<String>) -> Option<()> {
    let depth = depth.checked_sub(1).filter(|_| kinds.len() < 1000)?;
    if let Some(reference) = schema.get("$ref") {
        return takes(root, local(root, reference)?, depth, kinds);
    }
    if let Some(values) = schema["enum"].as_array() {
        kinds.extend(values.iter().map(Json::to_string));
    } else if let Some(value) = schema.get("const") {
        kinds.push(value.to_string());
    } else if let Some(alternatives) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
        for alternative in alternatives {
            takes(root, alternative, depth, kinds)?;
        }
    } else {
        match &schema["type"] {
            Json::String(kind) => kinds.push(kind.clone()),
            Json::Array(several) => kinds.extend(several.iter().filter_map(Json::as_str).map(str::to_owned)),
            _ => return None,
        }
    }
    Some(())
}

/// Whether whatever is of `kind` is also of the `wider` one. Values are JSON, types are bare words.
fn includes(wider: &str, kind: &str) -> bool {
    let is_type = |word: &str| {
        matches!(word, "string" | "number" | "integer" | "boolean" | "array" | "object" | "null")
    };
    if wider == kind || (wider == "number" && kind == "integer") {
        return true;
    }
    is_type(wider)
        && match serde_json::from_str::<Json>(kind) {
            // A bare `null` is the type and the value.
            Ok(Json::String(_)) => wider == "string",
            Ok(Json::Number(number)) => {
                wider == "number" || (wider == "integer" && (number.is_i64() || number.is_u64()))
            }
            Ok(Json::Bool(_)) => wider == "boolean",
            Ok(Json::Array(_)) => wider == "array",
            Ok(Json::Object(_)) => wider == "object",
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(properties: Json, required: &[&str]) -> Json {
        json!({"name": "t", "inputSchema": {
            "type": "object", "properties": properties, "required": required,
            "$defs": {"text": {"type": "string"}},
        }})
    }

    fn differences(before: &Json, now: &Json, passed: Option<&[&str]>) -> String {
        let passed: Option<Vec<String>> =
            passed.map(|passed| passed.iter().map(ToString::to_string).collect());
        compatible(What::Tool, before, now, passed.as_deref()).join("; ")
    }

    #[test]
    fn a_call_that_was_right_must_be_right() {
        let string = || json!({"type": "string"});
        let before = tool(json!({"a": string(), "b": {"type": "integer"}}), &["a"]);
        assert_eq!(differences(&before, &before, None), "");
        // More, wider and less required is no harm.
        let wider = json!({"a": {"anyOf": [{"$ref": "#/$defs/text"}, {"type": "null"}]}, "b": {"type": "number"}, "c": {}});
        assert_eq!(differences(&before, &tool(wider, &[]), None), "");
        let narrower = tool(json!({"a": {"enum": ["x"]}, "b": {"type": "string"}}), &["a"]);
        assert_eq!(
            differences(&before, &narrower, None),
            "`a` takes \"x\" and not string; `b` takes string and not integer"
        );
        let stricter =
            tool(json!({"a": string(), "b": {"type": "integer"}, "c": string()}), &["a", "b", "c"]);
        assert_eq!(differences(&before, &stricter, None), "`b` is required now; `c` is required now");
        assert_eq!(differences(&before, &stricter, Some(&["a", "b", "c"])), "");
        let renamed = json!({"name": "u", "inputSchema": {"properties": {"a": string()}, "required": ["z"]}});
        assert_eq!(
            differences(&before, &renamed, None),
            "another name; `z` is required now; there is no `b` any more"
        );
    }

    #[test]
    fn only_what_is_passed_matters() {
        let before = tool(json!({"a": {"type": "string"}, "b": {"type": "integer"}}), &[]);
        let now = tool(json!({"a": {"type": "string"}}), &[]);
        assert_eq!(differences(&before, &now, Some(&["a"])), "");
        assert_eq!(differences(&before, &now, Some(&[])), "");
        assert_eq!(differences(&before, &now, Some(&["b"])), "there is no `b` any more");
    }

    #[test]
    fn values_and_types() {
        for (wider, kind, is) in [
            ("string", "\"a\"", true),
            ("number", "1.5", true),
            ("integer", "1", true),
            ("integer", "1.5", false),
            ("null", "null", true),
            ("string", "null", false),
            ("\"a\"", "string", false),
            ("boolean", "true", true),
            ("number", "integer", true),
            ("integer", "number", false),
            ("object", "{}", true),
            ("array", "[]", true),
        ] {
            assert_eq!(includes(wider, kind), is, "{wider} {kind}");
        }
    }

    #[test]
    fn strict_is_strict_and_prompts_have_arguments() {
        let before = tool(json!({"a": {"type": "string"}}), &["a"]);
        let mut now = before.clone();
        now["title"] = json!("other");
        now["annotations"] = json!({});
        assert_eq!(strict(What::Tool, &before, &now), [""; 0]);
        now["description"] = json!("x");
        now["outputSchema"] = json!({});
        assert_eq!(strict(What::Tool, &before, &now), ["another description", "another outputSchema"]);
        let prompt = |arguments: Json| json!({"name": "p", "arguments": arguments});
        let before = prompt(json!([{"name": "a"}, {"name": "b", "required": true}]));
        let now = prompt(json!([{"name": "b"}, {"name": "c", "required": true}]));
        let both = "`c` is required now; there is no `a` any more";
        assert_eq!(compatible(What::Prompt, &before, &now, None).join("; "), both);
        assert_eq!(strict(What::Prompt, &before, &now), ["another arguments"]);
    }

    #[test]
    fn files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let expected = Expected { file: file.path().into(), mode: Mode::Compatible };
        for (text, found) in [
            (r#"{"name":"t"}"#, true),
            (r#"[{"name":"s"},{"name":"t"}]"#, true),
            (r#"[{"name":"s"}]"#, false),
            ("3", false),
            ("{", false),
        ] {
            fs::write(file.path(), text).unwrap();
            assert_eq!(expected.read("t").is_ok(), found, "{text}");
        }
        let none = Expected { file: "/no/such/file".into(), mode: Mode::Ignore };
        assert!(none.read("t").unwrap_err().message.contains("/no/such/file"));
    }
}
