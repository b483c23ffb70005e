//! Tools and their arguments; prompts; resources and their templates.

use std::fmt::Write as _;

use serde_json::Value;

use crate::layout;
use crate::output::{Style, paint};
use crate::text::{Sanitized, one_line};

/// How much of a description fits the short list.
const SUMMARY_WIDTH: usize = 96;

/// One tool of the short list: how it is called, and the first line of what it does.
pub(crate) fn summary(tool: &Value) -> String {
    let mut text = paint(Style::Bold, &name(tool));
    for argument in arguments(tool) {
        let form = format!("{}:={}", argument.name, argument.kind);
        let form = if argument.required { format!(" {form}") } else { format!(" [{form}]") };
        text.push_str(&paint(Style::Cyan, &form));
    }
    text.push('\n');
    describe(&mut text, tool);
    text
}

/// The first line of a description, or the title, on a line of its own.
fn describe(text: &mut String, item: &Value) {
    let first = string(item, "description").or_else(|| string(item, "title")).unwrap_or_default();
    let first = first.trim_start().lines().next().unwrap_or_default();
    if !first.is_empty() {
        let _ = writeln!(text, "    {}", paint(Style::Dim, &one_line(first, SUMMARY_WIDTH)));
    }
}

/// One tool with its whole description and every argument.
pub(crate) fn details(tool: &Value) -> String {
    let mut text = paint(Style::Bold, &name(tool));
    if let Some(title) = string(tool, "title") {
        let _ = write!(text, " - {}", one_line(title, SUMMARY_WIDTH));
    }
    text.push('\n');
    if let Some(description) = string(tool, "description") {
        for line in Sanitized(description.trim()).to_string().lines() {
            let _ = writeln!(text, "{}", format!("  {line}").trim_end());
        }
    }
    let arguments = arguments(tool);
    if arguments.is_empty() {
        text.push_str("Arguments: none\n");
        return text;
    }
    text.push_str("Arguments:\n");
    let width = arguments.iter().map(|argument| layout::width(&argument.name)).max().unwrap_or(0);
    for argument in &arguments {
        let padded = layout::pad(&argument.name, width);
        let _ = write!(text, "  {}  {}", paint(Style::Bold, &padded), paint(Style::Cyan, &argument.kind));
        text.push_str(if argument.required { ", required" } else { "" });
        for (word, value) in &argument.facts {
            let _ = write!(text, ", {word} {}", one_line(value, 60));
        }
        text.push('\n');
        for line in Sanitized(argument.description.trim()).to_string().lines() {
            let _ = writeln!(text, "  {:width$}    {}", "", paint(Style::Dim, line.trim_end()));
        }
    }
    text
}

/// The help of one tool: what it is, and lines that can be typed, which `complete` makes of words.
pub(crate) fn help(tool: &Value, complete: impl Fn(&str) -> String) -> String {
    let mut text = details(tool);
    let mut line = format!("tools-call {}", name(tool));
    for argument in arguments(tool).iter().filter(|argument| argument.required) {
        let _ = write!(line, " {}:=<{}>", argument.name, argument.kind);
    }
    let _ =
        write!(text, "Usage:\n  {}\n  All forms of arguments: drowse tools-call --help\n", complete(&line));
    text
}

/// One prompt of the list: how it is asked for, and the first line of what it does.
pub(crate) fn prompt(prompt: &Value) -> String {
    let mut text = paint(Style::Bold, &name(prompt));
    for argument in prompt["arguments"].as_array().into_iter().flatten() {
        let form = format!("{}:=string", name(argument));
        let required = argument["required"] == true;
        let form = if required { format!(" {form}") } else { format!(" [{form}]") };
        text.push_str(&paint(Style::Cyan, &form));
    }
    text.push('\n');
    describe(&mut text, prompt);
    text
}

/// One resource of the list, or one template: `address` is the member that has its URI.
pub(crate) fn resource(resource: &Value, address: &str) -> String {
    let mut text = paint(Style::Bold, &one_line(string(resource, address).unwrap_or("(no uri)"), 400));
    let name = string(resource, "title").or_else(|| string(resource, "name")).unwrap_or_default();
    if !name.is_empty() {
        let _ = write!(text, "  {}", one_line(name, 60));
    }
    if let Some(mime) = string(resource, "mimeType") {
        text.push_str(&paint(Style::Dim, &format!("  {}", one_line(mime, 60))));
    }
    text.push('\n');
    if let Some(description) = string(resource, "description") {
        let first = description.trim_start().lines().next().unwrap_or_default();
        let _ = writeln!(text, "    {}", paint(Style::Dim, &one_line(first, SUMMARY_WIDTH)));
    }
    text
}

/// One argument, as its schema describes it.
struct Argument {
    name: String,
    kind: String,
    required: bool,
    description: String,
    facts: Vec<(&'static str, String)>,
}

/// The arguments of a tool, the required ones first, else in the order of its schema.
fn arguments(tool: &Value) -> Vec<Argument> {
    let schema = &tool["inputSchema"];
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object();
    let mut arguments: Vec<Argument> = properties
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let property = resolved(schema, property);
            let mut facts = Vec::new();
            for (key, word) in [
                ("default", "default"),
                ("minimum", "at least"),
                ("maximum", "at most"),
                ("format", "format"),
            ] {
                if let Some(value) = property.get(key).filter(|value| !value.is_null()) {
                    facts.push((word, value.to_string()));
                }
            }
            Argument {
                name: one_line(name, 60),
                kind: one_line(&kind(schema, property, 4), 60),
                required: required.contains(&name.as_str()),
                description: string(property, "description").unwrap_or_default().to_owned(),
                facts,
            }
        })
        .collect();
    arguments.sort_by_key(|argument| !argument.required);
    arguments
}

/// What a property takes, in a word or two.
pub(crate) fn kind(schema: &Value, property: &Value, depth: usize) -> String {
    if depth == 0 {
        return "any".to_owned();
    }
    let property = resolved(schema, property);
    if let Some(values) = property["enum"].as_array() {
        return values.iter().map(plain).collect::<Vec<_>>().join("|");
    }
    if let Some(value) = property.get("const") {
        return plain(value);
    }
    match &property["type"] {
        Value::String(array) if array == "array" && property["items"].is_object() => {
            format!("{}[]", kind(schema, &property["items"], depth - 1))
        }
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().map(plain).collect::<Vec<_>>().join("|"),
        _ => {
            let alternatives = property["anyOf"].as_array().or_else(|| property["oneOf"].as_array());
            match alternatives {
                Some(list) => {
                    list.iter().map(|one| kind(schema, one, depth - 1)).collect::<Vec<_>>().join("|")
                }
                None if property["properties"].is_object() => "object".to_owned(),
                None => "any".to_owned(),
            }
        }
    }
}

/// A property behind a reference within its schema.
pub(crate) fn resolved<'a>(schema: &'a Value, property: &'a Value) -> &'a Value {
    let pointer = property["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| schema.pointer(pointer)).unwrap_or(property)
}

pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn name(tool: &Value) -> String {
    one_line(string(tool, "name").unwrap_or("(no name)"), 128)
}

fn string<'a>(value: &'a Value, member: &str) -> Option<&'a str> {
    value.get(member).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool() -> Value {
        json!({
            "name": "search", "title": "Search", "description": "\n Finds things.\n\nSlowly.",
            "inputSchema": {"type": "object", "required": ["query"], "properties": {
                "limit": {"type": "integer", "default": 10, "maximum": 50, "description": "How many"},
                "query": {"type": "string", "description": "What to find"},
                "kind": {"$ref": "#/$defs/kind"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "since": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
                "free": {},
            }, "$defs": {"kind": {"enum": ["a", "b", 3]}}},
        })
    }

    fn on_s(words: &str) -> String {
        format!("drowse @s {words}")
    }

    #[test]
    fn prompts_and_templates() {
        let arguments = json!([{"name": "who", "required": true}, {"name": "how\n\u{1b}"}, 7]);
        let shown = prompt(&json!({"name": "greet", "title": "Greets", "arguments": arguments}));
        assert_eq!(shown, "greet who:=string [how \\x1b:=string] [(no name):=string]\n    Greets\n");
        assert_eq!(resource(&json!({"uriTemplate": "a://{b}", "name": "b"}), "uriTemplate"), "a://{b}  b\n");
    }

    #[test]
    fn the_summary_shows_how_to_call_it() {
        assert_eq!(
            summary(&tool()),
            "search query:=string [limit:=integer] [kind:=a|b|3] [tags:=string[]] [since:=string|null] [free:=any]\n    Finds things.\n"
        );
        assert_eq!(summary(&json!({"name": "bare"})), "bare\n");
    }

    #[test]
    fn details_show_everything() {
        let text = details(&tool());
        for part in [
            "search - Search",
            "  Finds things.\n\n  Slowly.",
            "query  string, required",
            "limit  integer, default 10, at most 50",
            "How many",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert!(
            details(&json!({"name": "bare", "inputSchema": {"type": "object"}}))
                .ends_with("Arguments: none\n")
        );
        assert!(help(&tool(), on_s).contains("drowse @s tools-call search query:=<string>\n"));
    }

    #[test]
    fn odd_and_hostile_schemas_are_shown_and_harm_nothing() {
        for schema in [
            json!(null),
            json!(3),
            json!({"properties": [1]}),
            json!({"properties": {"a": 7}}),
            json!({"properties": {"a": {"$ref": "#/properties/a"}}}),
            json!({"properties": {"a\n\u{1b}": {"type": "x\u{1b}"}}}),
        ] {
            let tool = json!({"name": "t\u{1b}[2J", "description": "d\u{7}", "inputSchema": schema});
            for text in [summary(&tool), details(&tool), help(&tool, on_s)] {
                assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
            }
        }
    }
}
