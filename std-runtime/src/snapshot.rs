//! What a session's server offered when it ran last (`snapshot.json`): tools, prompts, resources, templates, and what
//! it said of itself.
//!
//! Owns the file's layout: one JSON document, laid out with one item a line, so that a search can pass over lines that
//! cannot match without parsing them. The objects are the server's own bytes. Never asks a server for anything.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::home::{Home, HomeError, SessionName};
use crate::record::aside;
use crate::record::{self, Durability};

mod pattern;
mod read;
mod search;

pub use pattern::{Pattern, PatternError, PatternKind};
pub use read::{MAX_BYTES, SnapshotError, read, tool};
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
    /// The lists that are not whole, by their names here: the server did not tell them to their end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<String>,
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

/// The names of the lists, in the order in which they come.
pub const LISTS: [&str; 4] = ["tools", "prompts", "resources", "resourceTemplates"];

impl Snapshot {
    /// The lists, in the order of [`LISTS`].
    #[must_use]
    pub fn lists(&self) -> [&[Box<RawValue>]; 4] {
        [&self.tools, &self.prompts, &self.resources, &self.resource_templates]
    }

    /// Reads a file's content; `None` if this build cannot use it.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        read::of_bytes(bytes).ok()
    }

    /// The file's content.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut layout = Layout::new(&self.header);
        for list in self.lists() {
            layout.list(list.iter().map(|item| item.get().as_bytes()));
        }
        layout.finish()
    }
}

/// Lays a snapshot out, item by item.
#[derive(Debug)]
pub(crate) struct Layout {
    bytes: Vec<u8>,
    lists: usize,
}

impl Layout {
    pub(crate) fn new(header: &Header) -> Self {
        // A header of strings, numbers and JSON that was read before cannot fail to be written.
        let mut bytes = serde_json::to_vec(header).unwrap_or_else(|_| b"{}".to_vec());
        bytes.pop();
        lay_out_on_one_line(&mut bytes, 0);
        Self { bytes, lists: 0 }
    }

    /// The next list of [`LISTS`]; each item is an object.
    pub(crate) fn list<'a>(&mut self, items: impl Iterator<Item = &'a [u8]>) {
        let Some(name) = LISTS.get(self.lists) else { return };
        self.lists += 1;
        self.bytes.extend_from_slice(b",\n\"");
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b"\":[");
        for (index, item) in items.enumerate() {
            self.bytes.extend_from_slice(if index == 0 { b"\n" } else { b",\n" });
            let start = self.bytes.len();
            self.bytes.extend_from_slice(item);
            lay_out_on_one_line(&mut self.bytes, start);
        }
        self.bytes.extend_from_slice(b"\n]");
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(b"}\n");
        self.bytes
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
    write_bytes(home, name, &snapshot.to_bytes())
}

/// The same, once it is laid out.
pub(crate) fn write_bytes(home: &Home, name: &SessionName, bytes: &[u8]) -> Result<(), HomeError> {
    let path = home.snapshot_file(name);
    if bytes.len() > MAX_BYTES {
        // Nobody would read it.
        return Err(HomeError::io("write", &path, io::ErrorKind::FileTooLarge.into()));
    }
    match record::replace(&path, bytes, Durability::Lazy) {
        // What somebody put there is kept, and in nobody's way.
        Err(_) if path.is_dir() => {
            aside::set_aside(&path).map_err(|e| HomeError::io("set aside", &path, e))?;
            record::replace(&path, bytes, Durability::Lazy)
        }
        written => written,
    }
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
                incomplete: vec![],
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

    #[test]
    fn what_was_written_is_read_and_what_is_damaged_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path().join("h"), None);
        home.prepare().unwrap();
        let name = SessionName::new("x").unwrap();
        record::make_directory(&home, &name).unwrap();
        assert!(read(&home, &name).unwrap().is_none());
        let header = Header {
            schema: SCHEMA,
            identity: "i".into(),
            taken: 5,
            generation: 2,
            era: "legacy".into(),
            protocol_version: "2025-11-25".into(),
            server_info: Some(raw(r#"{"name":"s"}"#)),
            capabilities: None,
            instructions: None,
            incomplete: vec!["prompts".into()],
        };
        let lists = (vec![raw(r#"{"name":"a"}"#)], vec![], vec![], vec![raw(r#"{"uriTemplate":"t{x}"}"#)]);
        let (tools, prompts, resources, resource_templates) = lists;
        let snapshot = Snapshot { header, tools, prompts, resources, resource_templates };
        write(&home, &name, &snapshot).unwrap();
        let path = home.snapshot_file(&name);
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        let back = read(&home, &name).unwrap().unwrap();
        assert_eq!(back.to_bytes(), snapshot.to_bytes());
        assert_eq!(back.header.incomplete, ["prompts"]);
        let text = String::from_utf8(snapshot.to_bytes()).unwrap();
        let newer = text.replacen("\"schema\":1", "\"schema\":2", 1);
        for damaged in ["", "{", "[]", "null", text.get(..text.len() / 2).unwrap(), newer.as_str()] {
            std::fs::write(&path, damaged).unwrap();
            assert!(read(&home, &name).is_err(), "{damaged}");
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(read(&home, &name).is_err());
        write(&home, &name, &snapshot).unwrap();
        assert!(read(&home, &name).unwrap().is_some());
        assert!(home.session(&name).join("snapshot.json.damaged-1").is_dir());
        let error = write_bytes(&home, &name, &vec![b' '; MAX_BYTES + 1]).unwrap_err();
        assert!(error.to_string().contains("snapshot.json"), "{error}");
        assert!(read(&home, &name).unwrap().is_some(), "the old one stays");
    }
}
