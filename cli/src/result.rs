//! Results of MCP methods, read just as far as a command needs.
//!
//! Owns the views on a result's bytes: pages of a list, a tool's result, its content. Everything that goes on to
//! `--json` stays a slice of what the server sent.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{Exit, Failure};

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    /// The items, byte for byte.
    pub(crate) items: Vec<Box<RawValue>>,
    pub(crate) next_cursor: Option<String>,
}

impl Page {
    /// Reads the member `list` of a list result.
    pub(crate) fn read(result: &[u8], list: &str) -> Result<Self, Failure> {
        let members: BTreeMap<Cow<'_, str>, &RawValue> = read(result)?;
        let items = match members.get(list) {
            Some(items) => read(items.get().as_bytes())?,
            None => return Err(malformed(format!("it has no `{list}`"))),
        };
        let next_cursor = match members.get("nextCursor") {
            Some(cursor) => read(cursor.get().as_bytes())?,
            None => None,
        };
        Ok(Self { items, next_cursor })
    }
}

/// The result of `tools/call`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolResult {
    #[serde(default)]
    pub(crate) content: Vec<Block>,
    #[serde(default)]
    pub(crate) structured_content: Option<Value>,
}

/// The result of `prompts/get`.
#[derive(Debug, Deserialize)]
pub(crate) struct PromptResult {
    pub(crate) messages: Vec<PromptMessage>,
}

/// One message of a prompt.
#[derive(Debug, Deserialize)]
pub(crate) struct PromptMessage {
    pub(crate) role: String,
    pub(crate) content: Block,
}

/// The result of `resources/read`.
#[derive(Debug, Deserialize)]
pub(crate) struct ReadResult {
    pub(crate) contents: Vec<ResourceContents>,
}

/// One block of content. Kinds that this build does not know are shown as they are.
#[derive(Debug)]
pub(crate) enum Block {
    Text(String),
    Media { kind: &'static str, data: String, mime: String },
    Resource(ResourceContents),
    Link { uri: String, name: Option<String>, description: Option<String> },
    Other(Value),
}

/// Text or bytes of a resource.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceContents {
    pub(crate) uri: String,
    #[serde(default)]
    pub(crate) mime_type: Option<String>,
    #[serde(default)]
    pub(crate) text: Option<String>,
    #[serde(default)]
    pub(crate) blob: Option<String>,
}

/// What decides the exit status of `tools-call`, without reading the content.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Verdict<'a> {
    #[serde(default)]
    pub(crate) is_error: Option<bool>,
    #[serde(default, borrow)]
    pub(crate) result_type: Option<Cow<'a, str>>,
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let mut take = |member: &str| match value.get_mut(member).map(Value::take) {
            Some(Value::String(text)) => Some(text),
            Some(other) => {
                value[member] = other;
                None
            }
            None => None,
        };
        let kind = take("type").unwrap_or_default();
        let block = match kind.as_str() {
            "text" => take("text").map(Self::Text),
            "image" | "audio" => take("data").map(|data| Self::Media {
                kind: if kind == "image" { "image" } else { "audio" },
                data,
                mime: take("mimeType").unwrap_or_default(),
            }),
            "resource_link" => take("uri").map(|uri| Self::Link {
                uri,
                name: take("name"),
                description: take("description"),
            }),
            "resource" => value
                .get_mut("resource")
                .and_then(|resource| ResourceContents::deserialize(&*resource).ok())
                .map(Self::Resource),
            _ => None,
        };
        Ok(block.unwrap_or_else(|| {
            if let Value::Object(members) = &mut value {
                members.insert("type".into(), kind.into());
            }
            Self::Other(value)
        }))
    }
}

/// Reads a result, or says that the server's answer cannot be understood.
pub(crate) fn read<'a, T: Deserialize<'a>>(result: &'a [u8]) -> Result<T, Failure> {
    serde_json::from_slice(result).map_err(|error| malformed(error.to_string()))
}

/// Refuses a result that is none: one that asks for input where none is taken, or of a type that is not known.
pub(crate) fn check_complete(verdict: &Verdict<'_>) -> Result<(), Failure> {
    match verdict.result_type.as_deref() {
        None | Some("complete") => Ok(()),
        Some(other) => Err(malformed(format!("its type is `{other}`"))),
    }
}

fn malformed(why: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Server, "invalid-answer", format!("the server's answer cannot be understood: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_keep_their_items_byte_for_byte() {
        let page = Page::read(
            br#"{"ttlMs":0,"tools":[{"name":"a", "n":1.0e2},{"x":"\u0041"}],"nextCursor":"c\"1"}"#,
            "tools",
        )
        .unwrap();
        let items: Vec<_> = page.items.iter().map(|item| item.get()).collect();
        assert_eq!(items, [r#"{"name":"a", "n":1.0e2}"#, r#"{"x":"\u0041"}"#]);
        assert_eq!(page.next_cursor.as_deref(), Some("c\"1"));
        let last = Page::read(br#"{"resources":[],"nextCursor":null}"#, "resources").unwrap();
        assert!(last.items.is_empty() && last.next_cursor.is_none());
    }

    #[test]
    fn an_answer_of_another_shape_is_the_servers_fault() {
        for result in [&b"{}"[..], b"[]", br#"{"tools":{}}"#, b"null"] {
            let failure = Page::read(result, "tools").unwrap_err();
            assert_eq!((failure.kind.as_ref(), failure.exit), ("invalid-answer", Exit::Server));
        }
    }

    #[test]
    fn the_verdict() {
        let verdict: Verdict<'_> = read(br#"{"content":[],"isError":true,"resultType":"complete"}"#).unwrap();
        assert_eq!(verdict.is_error, Some(true));
        check_complete(&verdict).unwrap();
        check_complete(&read(b"{}").unwrap()).unwrap();
        for (result, kind) in [
            (&br#"{"resultType":"input_required"}"#[..], "invalid-answer"),
            (br#"{"resultType":"?"}"#, "invalid-answer"),
        ] {
            assert_eq!(check_complete(&read(result).unwrap()).unwrap_err().kind, kind);
        }
    }

    #[test]
    fn every_kind_of_block() {
        let result: ToolResult = read(
            br#"{"content":[
                {"type":"text","text":"hi"},
                {"type":"image","data":"Zg==","mimeType":"image/png"},
                {"type":"audio","data":"Zg==","mimeType":"audio/wav"},
                {"type":"resource","resource":{"uri":"a://b","blob":"Zg=="}},
                {"type":"resource_link","uri":"a://c","name":"c"},
                {"type":"hologram","text":"x"},
                {"type":"text","text":3},
                7
            ]}"#,
        )
        .unwrap();
        let kinds: Vec<_> = result
            .content
            .iter()
            .map(|block| match block {
                Block::Text(_) => "text",
                Block::Media { kind, .. } => kind,
                Block::Resource(_) => "resource",
                Block::Link { .. } => "link",
                Block::Other(_) => "other",
            })
            .collect();
        assert_eq!(kinds, ["text", "image", "audio", "resource", "link", "other", "other", "other"]);
        let Block::Other(unknown) = &result.content[5] else { panic!("{:?}", result.content[5]) };
        assert_eq!(*unknown, serde_json::json!({"type": "hologram", "text": "x"}));
    }
}
