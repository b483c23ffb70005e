//! Reading a snapshot's file: bounded, and with errors that say which file and what to do.
//!
//! A file that is laid out as this build writes it is not parsed beyond its first line: see `search`. One that
//! somebody edited is read as the JSON document that it is.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Header, SCHEMA, Snapshot};
use crate::home::{Home, HomeError, SessionName};
use crate::record;
use crate::regular;

/// A file larger than this is no snapshot of ours, in bytes.
pub const MAX_BYTES: usize = 64 << 20;

/// Why a snapshot cannot be used. Each text names the file and says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// A newer drowse wrote it.
    #[error("{} was written by a newer drowse (schema {schema}; this one reads up to {SCHEMA}): update drowse, or let `drowse restart {name}` write it anew", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The session.
        name: SessionName,
        /// Its schema version.
        schema: u32,
    },
    /// It is no snapshot.
    #[error("{} is damaged ({what}): `drowse restart {name}` writes it anew", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The session.
        name: SessionName,
        /// What is wrong with it.
        what: String,
    },
    /// The file system refused.
    #[error(transparent)]
    Home(#[from] HomeError),
}

/// What is wrong with the content of a file, before it is known which.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Defect {
    Newer(u32),
    Malformed(String),
}

impl Defect {
    pub(super) fn of(self, path: &Path, name: &SessionName) -> SnapshotError {
        let (path, name) = (path.to_owned(), name.clone());
        match self {
            Self::Newer(schema) => SnapshotError::Newer { path, name, schema },
            Self::Malformed(what) => SnapshotError::Malformed { path, name, what },
        }
    }
}

/// Reads a session's snapshot, whole; `None` if there is none.
///
/// # Errors
/// If the file is damaged, of a newer drowse, or cannot be read.
pub fn read(home: &Home, name: &SessionName) -> Result<Option<Snapshot>, SnapshotError> {
    let path = home.snapshot_file(name);
    let mut buffer = Buffer::default();
    let Some(bytes) = buffer.fill(&path, name)? else { return Ok(None) };
    of_bytes(bytes).map(Some).map_err(|defect| defect.of(&path, name))
}

/// What a session's snapshot says of the tool of that name, without reading more than it has to; `None` where there is no
/// word of it, or none that can be found in a hurry.
#[must_use]
pub fn tool(home: &Home, name: &SessionName, tool: &str) -> Option<Box<RawValue>> {
    let mut buffer = Buffer::default();
    tool_of(buffer.fill(&home.snapshot_file(name), name).ok()??, tool)
}

/// The same of a file's content.
fn tool_of(bytes: &[u8], tool: &str) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
    }
    let quoted = serde_json::to_string(tool).ok()?;
    let (_, body) = first_line(bytes)?;
    let items = body.strip_prefix(b"\"tools\":[\n")?;
    let end = memchr::memmem::find(items, b"\n]")?;
    let items = items.get(..end)?;
    memchr::memmem::find_iter(items, quoted.as_bytes()).find_map(|at| {
        let (before, after) = items.split_at(at);
        let start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        let length = memchr::memchr(b'\n', after).unwrap_or(after.len());
        let line = items.get(start..at + length)?;
        let item: &RawValue = serde_json::from_slice(line.strip_suffix(b",").unwrap_or(line)).ok()?;
        let named: Named<'_> = serde_json::from_str(item.get()).ok()?;
        (named.name == tool).then(|| item.to_owned())
    })
}

/// The whole of a file's content.
pub(super) fn of_bytes(bytes: &[u8]) -> Result<Snapshot, Defect> {
    let header = header(bytes)?;
    let lists = Lists::read(bytes)?;
    let owned = |list: Vec<&RawValue>| list.into_iter().map(ToOwned::to_owned).collect();
    Ok(Snapshot {
        header,
        tools: owned(lists.tools),
        prompts: owned(lists.prompts),
        resources: owned(lists.resources),
        resource_templates: owned(lists.resource_templates),
    })
}

/// Room for one file after another.
#[derive(Debug, Default)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    /// The content of a file; `None` if there is none.
    pub(super) fn fill(&mut self, path: &Path, name: &SessionName) -> Result<Option<&[u8]>, SnapshotError> {
        let refused = |what, error| SnapshotError::from(HomeError::io(what, path, error));
        let malformed = |what: String| Defect::Malformed(what).of(path, name);
        let mut file = match regular::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if regular::is_something_else(&error) => {
                return Err(malformed("it is not a file".to_owned()));
            }
            Err(error) => return Err(refused("open", error)),
        };
        let about: fs::Metadata = file.metadata().map_err(|error| refused("look at", error))?;
        let large = || malformed(format!("more than {MAX_BYTES} bytes, larger than any snapshot"));
        let size = usize::try_from(about.len()).ok().filter(|&size| size <= MAX_BYTES).ok_or_else(large)?;
        // One more byte than it should have, to see its end without asking for more room.
        if self.0.len() <= size {
            self.0.resize(size + 1, 0);
        }
        let mut read = 0;
        loop {
            if read > MAX_BYTES {
                return Err(large());
            }
            if read == self.0.len() {
                self.0.resize(read * 2, 0);
            }
            match file.read(&mut self.0[read..]) {
                Ok(0) => return Ok(Some(&self.0[..read])),
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(refused("read", error)),
            }
        }
    }
}

/// The first line of a file that is laid out as this build does, and what follows it; `None` for any other.
pub(super) fn first_line(bytes: &[u8]) -> Option<(Header, &[u8])> {
    let end = memchr::memchr(b'\n', bytes)?;
    let members = bytes[..end].strip_suffix(b",")?;
    // A file that was cut off does not end so: within an object there is no line end.
    let body = &bytes[end + 1..];
    body.strip_suffix(b"\n").unwrap_or(body).ends_with(b"\n]}").then_some(())?;
    let mut line = Vec::with_capacity(members.len() + 1);
    line.extend_from_slice(members);
    line.push(b'}');
    let header: Header = serde_json::from_slice(&line).ok()?;
    // One of a newer drowse may mean something else by its lines.
    (header.schema <= SCHEMA).then_some((header, body))
}

/// What a document says before its lists, wherever it says it.
pub(super) fn header(bytes: &[u8]) -> Result<Header, Defect> {
    #[derive(Deserialize)]
    struct SchemaOnly {
        schema: u32,
    }
    match serde_json::from_slice::<Header>(bytes) {
        Ok(header) if header.schema <= SCHEMA => Ok(header),
        Ok(header) => Err(Defect::Newer(header.schema)),
        // A newer one may have another shape: then its version says more than what is wrong with it.
        Err(error) => match serde_json::from_slice::<SchemaOnly>(bytes) {
            Ok(only) if only.schema > SCHEMA => Err(Defect::Newer(only.schema)),
            _ => Err(Defect::Malformed(record::defect(&error))),
        },
    }
}

/// The lists of a document. Those that it does not have are empty.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lists<'a> {
    #[serde(default, borrow)]
    pub(super) tools: Vec<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) prompts: Vec<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) resources: Vec<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) resource_templates: Vec<&'a RawValue>,
}

impl<'a> Lists<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Defect> {
        serde_json::from_slice(bytes).map_err(|error| Defect::Malformed(record::defect(&error)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::snapshot::Layout;

    #[test]
    fn a_tool_is_found_among_others() {
        let header = serde_json::from_value(json!({
            "schema": 1, "identity": "i", "taken": 1, "generation": 1, "era": "modern", "protocolVersion": "2026-07-28",
        }));
        let tools = [
            r#"{"description":"calls \"b\"","name":"a","like":"b"}"#.to_owned(),
            "{\"name\":\"b\",\n\"inputSchema\":{\"properties\":{\"c\":{}}}}".to_owned(),
            r#"{"name":"ä\"","n":1}"#.to_owned(),
        ];
        let mut layout = Layout::new(&header.unwrap());
        layout.list(tools.iter().map(String::as_bytes));
        // What is no tool is none.
        layout.list([&br#"{"name":"p"}"#[..]].into_iter());
        layout.list(std::iter::empty());
        layout.list(std::iter::empty());
        let bytes = layout.finish();
        let found = |tool: &str| tool_of(&bytes, tool).map(|item| item.get().to_owned());
        assert_eq!(found("a").unwrap(), tools[0]);
        assert_eq!(found("b").unwrap(), tools[1].replace('\n', " "));
        assert_eq!(found("ä\"").unwrap(), tools[2]);
        for other in ["c", "p", "", "name", "calls \"b\""] {
            assert_eq!(found(other), None, "{other}");
        }
        // One that was cut off, or that somebody edited.
        assert!(tool_of(&bytes[..bytes.len() - 3], "a").is_none());
        assert!(tool_of(br#"{"schema":1}"#, "a").is_none() && tool_of(b"", "a").is_none());
    }
}
