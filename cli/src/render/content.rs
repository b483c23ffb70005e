//! Content of results: text as it is, binary parts as a line or as files.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Exit, Failure};
use crate::media;
use crate::result::{Block, PromptResult, ReadResult, ResourceContents, ToolResult};
use crate::text::{one_line, size};
use drowse_runtime::base64;

/// A result for people, and what it holds besides text.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    /// Goes to stdout. Not escaped yet: a pipe gets it as the server wrote it.
    pub(crate) text: String,
    /// Binary parts, in order.
    pub(crate) parts: Vec<Part>,
}

/// A binary part of a result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    bytes: Vec<u8>,
    extension: Option<&'static str>,
}

impl Rendered {
    /// The result of a tool. Structured content is shown where there is no other: else it says the same again.
    pub(crate) fn tool(result: ToolResult) -> Self {
        let mut rendered = Self::default();
        let has_text = result.content.iter().any(|block| matches!(block, Block::Text(_)));
        for block in result.content {
            rendered.block(block);
        }
        if !has_text && let Some(structured) = result.structured_content.filter(|value| !value.is_null()) {
            rendered.line(&pretty(&structured));
        }
        rendered
    }

    /// A prompt: its only message as it is, several each below its role.
    pub(crate) fn prompt(result: PromptResult) -> Self {
        let mut rendered = Self::default();
        let several = result.messages.len() > 1;
        for (index, message) in result.messages.into_iter().enumerate() {
            if several {
                if index > 0 {
                    rendered.text.push('\n');
                }
                rendered.line(&format!("[{}]", one_line(&message.role, 40)));
            }
            rendered.block(message.content);
        }
        rendered
    }

    /// The contents of a resource.
    pub(crate) fn resource(result: ReadResult) -> Self {
        let mut rendered = Self::default();
        for contents in result.contents {
            rendered.contents(contents);
        }
        rendered
    }

    /// Writes the binary parts to `path`, or the text if there are none; says what went where.
    ///
    /// One part goes to the path itself; several to `name-1.png`, `name-2.png` and so on.
    pub(crate) fn save(&self, path: &Path) -> Result<Vec<String>, Failure> {
        if self.parts.is_empty() {
            write(path, self.text.as_bytes())?;
            return Ok(vec![format!("saved {} ({})", path.display(), size(self.text.len()))]);
        }
        let mut saved = Vec::new();
        for (index, part) in self.parts.iter().enumerate() {
            let target = if self.parts.len() == 1 {
                path.to_owned()
            } else {
                numbered(path, index + 1, part.extension)
            };
            write(&target, &part.bytes)?;
            saved.push(format!("saved {} ({})", target.display(), size(part.bytes.len())));
        }
        Ok(saved)
    }

    fn block(&mut self, block: Block) {
        match block {
            Block::Text(text) => self.line(&text),
            Block::Media { kind, data, mime } => self.binary(kind, &data, &mime),
            Block::Resource(contents) => self.contents(contents),
            Block::Link { uri, name, description } => {
                let mut line = format!("[link {uri}");
                for text in [name, description].into_iter().flatten() {
                    line.push_str(", ");
                    line.push_str(&text);
                }
                line.push(']');
                self.line(&line);
            }
            Block::Other(value) => self.line(&value.to_string()),
        }
    }

    fn contents(&mut self, contents: ResourceContents) {
        let mime = contents.mime_type.unwrap_or_default();
        match (contents.text, contents.blob) {
            (Some(text), _) => self.line(&text),
            (None, Some(blob)) => self.binary(&contents.uri, &blob, &mime),
            (None, None) => self.line(&format!("[{} is empty]", contents.uri)),
        }
    }

    fn binary(&mut self, what: &str, data: &str, mime: &str) {
        let kind = if mime.is_empty() { "of an unknown type" } else { mime };
        let Some(bytes) = base64::decode(data) else {
            self.line(&format!("[{what} {kind}: its base64 is damaged]"));
            return;
        };
        let mut line = format!("[{what} {kind}, {}", size(bytes.len()));
        if let Some((width, height)) = media::dimensions(&bytes) {
            line.push_str(&format!(", {width}x{height}"));
        }
        line.push(']');
        self.line(&line);
        self.parts.push(Part { bytes, extension: media::extension(mime) });
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
    }
}

/// A JSON value over several lines.
pub(crate) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

fn numbered(path: &Path, number: usize, extension: Option<&str>) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let own = path.extension().map(|extension| extension.to_string_lossy().into_owned());
    let name = match extension.map(str::to_owned).or(own) {
        Some(extension) => format!("{stem}-{number}.{extension}"),
        None => format!("{stem}-{number}"),
    };
    path.with_file_name(name)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes).map_err(|error| {
        Failure::new(Exit::Usage, "output", format!("cannot write {}: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::read;

    fn tool(result: &str) -> Rendered {
        Rendered::tool(read(result.as_bytes()).unwrap())
    }

    #[test]
    fn text_passes_and_binary_is_summarised() {
        let rendered = tool(
            r#"{"content":[{"type":"text","text":"one\n"},{"type":"text","text":"two"},
                {"type":"image","data":"R0lGODlhgALgAQA=","mimeType":"image/gif"},
                {"type":"audio","data":"!","mimeType":""},
                {"type":"resource","resource":{"uri":"a://b","text":"inner"}},
                {"type":"resource_link","uri":"a://c","name":"see"}]}"#,
        );
        assert_eq!(
            rendered.text,
            "one\ntwo\n[image image/gif, 11 B, 640x480]\n[audio of an unknown type: its base64 is damaged]\ninner\n[link a://c, see]\n"
        );
        assert_eq!(rendered.parts.len(), 1);
    }

    #[test]
    fn structured_content_is_shown_only_alone() {
        assert_eq!(tool(r#"{"content":[],"structuredContent":{"a":1}}"#).text, "{\n  \"a\": 1\n}\n");
        let both = r#"{"content":[{"type":"text","text":"1"}],"structuredContent":{"a":1}}"#;
        assert_eq!(tool(both).text, "1\n");
        assert_eq!(tool("{}").text, "");
        let image =
            r#"{"content":[{"type":"image","data":"Zm9v","mimeType":"image/png"}],"structuredContent":[1]}"#;
        assert_eq!(tool(image).text, "[image image/png, 3 B]\n[\n  1\n]\n");
    }

    #[test]
    fn prompts() {
        let prompt = |messages: &str| {
            Rendered::prompt(read(format!(r#"{{"messages":[{messages}]}}"#).as_bytes()).unwrap())
        };
        let user = r#"{"role":"user","content":{"type":"text","text":"hi"}}"#;
        let model = r#"{"role":"assistant","content":{"type":"image","data":"Zm9v","mimeType":"image/png"}}"#;
        assert_eq!(prompt(user).text, "hi\n");
        let both = prompt(&format!("{user},{model}"));
        assert_eq!(both.text, "[user]\nhi\n\n[assistant]\n[image image/png, 3 B]\n");
        assert_eq!((both.parts.len(), prompt("").text.as_str()), (1, ""));
    }

    #[test]
    fn one_part_goes_to_the_path_and_several_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pic.bin");
        let image = r#"{"type":"image","data":"Zm9v","mimeType":"image/png"}"#;
        let one = tool(&format!(r#"{{"content":[{image}]}}"#));
        assert_eq!(one.save(&path).unwrap(), [format!("saved {} (3 B)", path.display())]);
        assert_eq!(fs::read(&path).unwrap(), b"foo");
        tool(&format!(r#"{{"content":[{image},{image}]}}"#)).save(&path).unwrap();
        assert_eq!(fs::read(dir.path().join("pic-2.png")).unwrap(), b"foo");
        tool(r#"{"content":[{"type":"text","text":"hi"}]}"#).save(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"hi\n");
        assert_eq!(one.save(&dir.path().join("no/such")).unwrap_err().kind, "output");
    }

    #[test]
    fn resources() {
        let result =
            r#"{"contents":[{"uri":"a://b","blob":"Zm9v","mimeType":"application/pdf"},{"uri":"a://c"}]}"#;
        let rendered = Rendered::resource(read(result.as_bytes()).unwrap());
        assert_eq!(rendered.text, "[a://b application/pdf, 3 B]\n[a://c is empty]\n");
    }
}
