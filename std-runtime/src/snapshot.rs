//! What a session's server offered when it ran last (`snapshot.json`): tools, prompts, resources, templates, and what
//! it said of itself.
//!
//! Owns the file's layout: one JSON document, laid out with one item a line, so that a search can pass over lines that
//! cannot match without parsing them. The objects are the server's own bytes. Never asks a server for anything.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::home::{Home, HomeError, SessionName};
use crate::record::{self, Durability};

mod pattern;
mod read;
mod search;

pub use pattern::{Pattern, PatternError, PatternKind};
pub use read::{MAX_BYTES, SnapshotError, read};
pub use search::{Hit, Job, Kind, Place, Scope, Searched, hit, instructions, member, search};

/// The version of the layout that this build writes, and the newest that it reads.
pub const SCHEMA: u32 = 1;

/// What is said before the lists.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The version of the layout.
    pub schema: u32,
    /// What the session ran, and with which credentials, as `SessionRecord` has it: another one's snapshot is not used.
    pub identity: String,
    /// When the lists were complete, in milliseconds since 1970.
    pub taken: u64,
    /// The generation that they are of.
    pub generation: u64,
    /// `legacy` or `modern`.
    pub era: String,
    /// The revision.
    pub protocol_version: String,
    /// The server's name and version, as it gave them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_info: Option<Box<RawValue>>,
    /// Its capabilities, as it gave them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Box<RawValue>>,
    /// What it wants a model to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

/// What a server offers. A list that it does not have is empty.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// What is said before the lists.
    pub header: Header,
    /// The objects of `tools/list`.
    pub tools: Vec<Box<RawValue>>,
    /// The objects of `prompts/list`.
    pub prompts: Vec<Box<RawValue>>,
    /// The objects of `resources/list`.
    pub resources: Vec<Box<RawValue>>,
    /// The objects of `resources/templates/list`.
    pub resource_templates: Vec<Box<RawValue>>,
}

impl Snapshot {
    /// The file's content.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // A header of strings, numbers and JSON that was read before cannot fail to be written.
        let mut bytes = serde_json::to_vec(&self.header).unwrap_or_else(|_| b"{}".to_vec());
        bytes.pop();
        lay_out_on_one_line(&mut bytes, 0);
        for (name, list) in [
            ("tools", &self.tools),
            ("prompts", &self.prompts),
            ("resources", &self.resources),
            ("resourceTemplates", &self.resource_templates),
        ] {
            bytes.extend_from_slice(b",\n\"");
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b"\":[");
            for (index, item) in list.iter().enumerate() {
                bytes.extend_from_slice(if index == 0 { b"\n" } else { b",\n" });
                let start = bytes.len();
                bytes.extend_from_slice(item.get().as_bytes());
                lay_out_on_one_line(&mut bytes, start);
            }
            bytes.extend_from_slice(b"\n]");
        }
        bytes.extend_from_slice(b"}\n");
        bytes
    }
}

/// Line ends stand between tokens only: within a string JSON does not allow them.
fn lay_out_on_one_line(bytes: &mut [u8], from: usize) {
    for byte in bytes.iter_mut().skip(from).filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
}

/// Replaces a session's snapshot.
///
/// # Errors
/// If the file system refuses. The old one is then untouched.
pub fn write(home: &Home, name: &SessionName, snapshot: &Snapshot) -> Result<(), HomeError> {
    record::replace(&home.snapshot_file(name), &snapshot.to_bytes(), Durability::Lazy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn each_item_has_a_line_and_its_own_bytes() {
        let snapshot = Snapshot {
            header: Header {
                schema: SCHEMA,
                identity: "i".into(),
                taken: 5,
                generation: 2,
                era: "modern".into(),
                protocol_version: "2026-07-28".into(),
                server_info: Some(raw("{\n\"name\":\"s\"}")),
                capabilities: None,
                instructions: Some("two\nlines".into()),
            },
            tools: vec![raw("{\"name\" :\r\n \"a\"}"), raw(r#"{"name":"b","n":1e400}"#)],
            prompts: vec![],
            resources: vec![raw(r#"{"uri":"u"}"#)],
            resource_templates: vec![],
        };
        let text = String::from_utf8(snapshot.to_bytes()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                r#"{"schema":1,"identity":"i","taken":5,"generation":2,"era":"modern","protocolVersion":"2026-07-28","serverInfo":{ "name":"s"},"instructions":"two\nlines","#,
                r#""tools":["#,
                r#"{"name" :   "a"},"#,
                r#"{"name":"b","n":1e400}"#,
                r#"],"#,
                r#""prompts":["#,
                r#"],"#,
                r#""resources":["#,
                r#"{"uri":"u"}"#,
                r#"],"#,
                r#""resourceTemplates":["#,
                r#"]}"#,
            ]
        );
    }
}
