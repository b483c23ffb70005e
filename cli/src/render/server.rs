//! A server's own description: the handshake, as JSON with drowse's extras, or for people.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::output::{Style, paint};
use crate::text::{Sanitized, one_line};

/// The modern revision's place for who the server is.
const SERVER_INFO_META: &str = "io.modelcontextprotocol/serverInfo";

/// The result of `drowse/info`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Info<'a> {
    pub(crate) era: String,
    #[serde(default)]
    pub(crate) protocol_version: Option<String>,
    #[serde(borrow)]
    pub(crate) handshake: &'a RawValue,
}

impl Info<'_> {
    /// The handshake byte for byte, with one more member, `_drowse`. A modern server that refuses to describe itself
    /// has none: then that member is all there is.
    pub(crate) fn to_json(&self, extra: &Map<String, Value>) -> String {
        let handshake = Some(self.handshake.get()).filter(|text| text.starts_with('{')).unwrap_or("{}");
        with_member(handshake, "_drowse", &Value::from(extra.clone()).to_string())
    }

    /// Who the server is, what it can do, and how it wants to be used.
    pub(crate) fn to_text(&self) -> String {
        let handshake: Value = serde_json::from_str(self.handshake.get()).unwrap_or_default();
        let body = &handshake["serverInfo"];
        let server = if body.is_object() { body } else { &handshake["_meta"][SERVER_INFO_META] };
        let mut text = String::new();
        let name = server["title"].as_str().or_else(|| server["name"].as_str());
        let name = name.map_or_else(|| "a server without a name".to_owned(), |name| one_line(name, 100));
        let _ = write!(text, "Server: {}", paint(Style::Bold, &name));
        if let Some(version) = server["version"].as_str().filter(|version| !version.is_empty()) {
            let _ = write!(text, " {}", one_line(version, 40));
        }
        text.push('\n');
        let version = self.protocol_version.as_deref().unwrap_or("unknown revision");
        let _ = writeln!(text, "Protocol: {} ({})", one_line(version, 40), one_line(&self.era, 20));
        if let Some(capabilities) = handshake["capabilities"].as_object() {
            let names: Vec<String> = capabilities.keys().map(|name| one_line(name, 40)).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let _ = writeln!(text, "Capabilities: {names}");
        }
        if let Some(instructions) = handshake["instructions"].as_str().filter(|text| !text.trim().is_empty())
        {
            text.push_str("Instructions:\n");
            for line in Sanitized(instructions.trim()).to_string().lines() {
                let _ = writeln!(text, "{}", format!("  {line}").trim_end());
            }
        }
        text
    }
}

/// A JSON object with one more member at its end, every byte before it as it was.
pub(crate) fn with_member(object: &str, key: &str, value: &str) -> String {
    let Some(members) = object.trim_end().strip_suffix('}') else { return object.to_owned() };
    let comma = if members.trim_end().ends_with('{') { "" } else { "," };
    format!("{members}{comma}\"{key}\":{value}}}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn info(handshake: &str) -> String {
        format!(r#"{{"era":"legacy","protocolVersion":"2025-11-25","handshake":{handshake}}}"#)
    }

    #[test]
    fn json_is_the_handshake_as_it_came_and_one_more_member() {
        let extra = json!({"name": "@s"}).as_object().unwrap().clone();
        let source = info(r#"{"serverInfo":{"name":"x"}, "n":1.0e2 }"#);
        let info_: Info<'_> = serde_json::from_str(&source).unwrap();
        assert_eq!(
            info_.to_json(&extra),
            r#"{"serverInfo":{"name":"x"}, "n":1.0e2 ,"_drowse":{"name":"@s"}}"#
        );
        let source = info("{ }");
        let info_: Info<'_> = serde_json::from_str(&source).unwrap();
        assert_eq!(info_.to_json(&extra), r#"{ "_drowse":{"name":"@s"}}"#);
        let source = info("null");
        let info_: Info<'_> = serde_json::from_str(&source).unwrap();
        assert_eq!(info_.to_json(&extra), r#"{"_drowse":{"name":"@s"}}"#);
    }

    #[test]
    fn text_finds_the_server_in_either_era() {
        for handshake in [
            r#"{"serverInfo":{"name":"fast","version":"1"},"capabilities":{"tools":{},"logging":{}},"instructions":"Be\nkind\u001b"}"#,
            r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fast","version":"1"}},"capabilities":{"tools":{},"logging":{}},"instructions":"Be\nkind\u001b"}"#,
        ] {
            let source = info(handshake);
            let info_: Info<'_> = serde_json::from_str(&source).unwrap();
            assert_eq!(
                info_.to_text(),
                "Server: fast 1\nProtocol: 2025-11-25 (legacy)\nCapabilities: tools, logging\nInstructions:\n  Be\n  kind\\x1b\n"
            );
        }
        let source = info(r#"{"serverInfo":{"name":"fast","version":""}}"#);
        let info_: Info<'_> = serde_json::from_str(&source).unwrap();
        assert!(info_.to_text().starts_with("Server: fast\n"), "no blank is left behind");
        let source = info("{}");
        let info_: Info<'_> = serde_json::from_str(&source).unwrap();
        assert!(info_.to_text().starts_with("Server: a server without a name\n"));
    }
}
