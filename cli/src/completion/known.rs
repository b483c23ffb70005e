//! What is known of sessions without asking anybody: records and snapshots.

use std::fs;

use drowse_runtime::caller::Sessions;
use drowse_runtime::home::{Home, SessionName};
use drowse_runtime::record;
use serde::Deserialize;
use serde_json::Value;

use super::Candidate;
use crate::render::sessions::target;
use crate::render::tools::{kind, plain, resolved};

/// A larger snapshot is not read while somebody waits for a word.
const MOST_BYTES: u64 = 8 << 20;

/// So many sessions are looked at one by one.
const FEW: usize = 8;

/// What a server offered when it ran last.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Offers {
    identity: String,
    tools: Vec<Value>,
    prompts: Vec<Value>,
    resources: Vec<Value>,
    resource_templates: Vec<Value>,
}

/// An argument of a tool or a prompt, or a variable of a template.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) is_text: bool,
    pub(super) choices: Vec<String>,
}

/// Sessions whose `@name` begins so, with their states.
pub(super) fn sessions(sessions: &Sessions, start: &str) -> Vec<Candidate> {
    // Like the list, but for the records of those that are not meant.
    if !sessions.home().check().unwrap_or_default() {
        return Vec::new();
    }
    let names = record::names(sessions.home()).unwrap_or_default();
    let meant: Vec<_> = names.into_iter().filter(|name| name.to_string().starts_with(start)).collect();
    // All at once is cheaper than many, one by one.
    let listed = if meant.len() > FEW {
        sessions.list().unwrap_or_default()
    } else {
        meant.iter().filter_map(|name| sessions.get(name).ok()).collect()
    };
    listed
        .into_iter()
        .map(|listed| {
            let target = listed.record.as_ref().map(target).unwrap_or_default();
            let about = format!("{}, {target}", listed.state.name());
            Candidate { value: listed.name.to_string(), about, goes_on: false }
        })
        .collect()
}

/// URIs that files are kept equal to.
pub(super) fn synced(sessions: &Sessions, name: &SessionName) -> Vec<Candidate> {
    let record = record::read_session(sessions.home(), name).ok().flatten();
    let syncs = record.map(|record| record.syncs).unwrap_or_default();
    syncs
        .into_iter()
        .map(|sync| Candidate { value: sync.uri, about: sync.file.display().to_string(), goes_on: false })
        .collect()
}

impl Offers {
    /// The snapshot of a session, if it is one of what the session runs now.
    pub(super) fn of(home: &Home, name: &SessionName) -> Self {
        Self::read(home, name).unwrap_or_default()
    }

    fn read(home: &Home, name: &SessionName) -> Option<Self> {
        let file = home.snapshot_file(name);
        let meta = fs::metadata(&file).ok()?;
        if !meta.is_file() || meta.len() > MOST_BYTES {
            return None;
        }
        let offers: Self = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
        let record = record::read_session(home, name).ok()??;
        (record.identity.is_empty() || record.identity == offers.identity).then_some(offers)
    }

    pub(super) fn tools(&self) -> Vec<Candidate> {
        named(&self.tools, "name")
    }

    pub(super) fn prompts(&self) -> Vec<Candidate> {
        named(&self.prompts, "name")
    }

    pub(super) fn templates(&self) -> Vec<Candidate> {
        named(&self.resource_templates, "uriTemplate")
    }

    /// Resources, and the fixed beginnings of templates.
    pub(super) fn resources(&self) -> Vec<Candidate> {
        let mut all = named(&self.resources, "uri");
        for mut template in self.templates() {
            if let Some((fixed, _)) = template.value.split_once('{').filter(|(fixed, _)| !fixed.is_empty()) {
                template.value = fixed.to_owned();
                template.goes_on = true;
                all.push(template);
            }
        }
        all
    }

    /// The arguments of a tool, the required ones first.
    pub(super) fn tool_arguments(&self, tool: &str) -> Vec<Argument> {
        let Some(tool) = find(&self.tools, "name", tool) else { return Vec::new() };
        let schema = &tool["inputSchema"];
        let required = |name: &str| {
            schema["required"].as_array().is_some_and(|names| names.iter().any(|known| known == name))
        };
        let mut arguments: Vec<(bool, Argument)> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, property)| {
                let property = resolved(schema, property);
                let kind = kind(schema, property, 4);
                let required = required(name);
                let argument = Argument {
                    name: name.clone(),
                    about: about(required, &kind, description(property)),
                    is_text: is_text(property),
                    choices: choices(property),
                };
                (required, argument)
            })
            .collect();
        arguments.sort_by_key(|(required, _)| !required);
        arguments.into_iter().map(|(_, argument)| argument).collect()
    }

    /// The arguments of a prompt: texts, all of them.
    pub(super) fn prompt_arguments(&self, prompt: &str) -> Vec<Argument> {
        let arguments = find(&self.prompts, "name", prompt).map(|prompt| &prompt["arguments"]);
        let arguments = arguments.and_then(Value::as_array).into_iter().flatten();
        arguments
            .filter_map(|argument| {
                let name = argument["name"].as_str()?.to_owned();
                let about = about(argument["required"] == true, "string", description(argument));
                Some(Argument { name, about, is_text: true, choices: Vec::new() })
            })
            .collect()
    }
}

/// The variables of a template, `{owner}` and `{?q,lang*}`.
pub(super) fn variables(template: &str) -> Vec<Argument> {
    let expressions = template.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    let names = expressions
        .flat_map(|(inner, _)| inner.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']).split(','));
    names
        .map(|name| name.split([':', '*']).next().unwrap_or_default())
        .filter(|name| !name.is_empty())
        .map(|name| Argument {
            name: name.to_owned(),
            about: String::new(),
            is_text: true,
            choices: Vec::new(),
        })
        .collect()
}

fn named(list: &[Value], member: &str) -> Vec<Candidate> {
    list.iter()
        .filter_map(|item| {
            let value = item[member].as_str()?.to_owned();
            let title = item["title"].as_str().or_else(|| item["name"].as_str()).filter(|_| member != "name");
            let about = description(item).or(title).unwrap_or_default().to_owned();
            Some(Candidate { value, about, goes_on: false })
        })
        .collect()
}

fn find<'a>(list: &'a [Value], member: &str, wanted: &str) -> Option<&'a Value> {
    list.iter().find(|item| item[member] == wanted)
}

/// The first line of what is said of it.
fn description(item: &Value) -> Option<&str> {
    let text = item["description"].as_str().or_else(|| item["title"].as_str())?;
    text.trim_start().lines().next().filter(|line| !line.is_empty())
}

fn about(required: bool, kind: &str, description: Option<&str>) -> String {
    let mut words = vec![kind];
    words.extend(required.then_some("required"));
    words.extend(description);
    words.join(", ")
}

fn is_text(property: &Value) -> bool {
    match &property["type"] {
        Value::String(kind) => kind == "string",
        Value::Null => property["enum"].as_array().is_some_and(|all| all.iter().all(Value::is_string)),
        _ => false,
    }
}

fn choices(property: &Value) -> Vec<String> {
    if let Some(values) = property["enum"].as_array() {
        return values.iter().map(plain).collect();
    }
    match property["type"].as_str() {
        Some("boolean") => vec!["true".to_owned(), "false".to_owned()],
        _ => property.get("const").map(plain).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_templates() {
        let names = |template| variables(template).into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(names("repo://{owner}/{name}{?q,lang*}{/path:3}"), ["owner", "name", "q", "lang", "path"]);
        assert!(names("plain://x").is_empty() && names("{").is_empty() && names("{}").is_empty());
    }

    #[test]
    fn odd_snapshots_offer_nothing_and_harm_nothing() {
        for text in
            ["", "[]", "{\"tools\":[3,{\"name\":4},{\"name\":\"t\",\"inputSchema\":7}]}", "{\"tools\":3}"]
        {
            let offers: Offers = serde_json::from_str(text).unwrap_or_default();
            assert!(offers.tool_arguments("t").is_empty());
            let _ = (offers.tools(), offers.resources(), offers.prompt_arguments("x"));
        }
    }
}
