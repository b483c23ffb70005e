//! Members of an entry that look like ours and are not.

use super::Entry;
use crate::suggest::nearest;

/// Every member that is read.
const KNOWN: [&str; 25] = [
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "httpUrl",
    "serverUrl",
    "headers",
    "type",
    "transport",
    "idleTimeoutSecs",
    "timeoutSecs",
    "timeout",
    "maxTimeoutSecs",
    "connectTimeoutSecs",
    "stopGraceSecs",
    "keepaliveSecs",
    "autoRestart",
    "onExpiry",
    "insecure",
    "cacert",
    "proxy",
    "mcpVersion",
    "autoConnect",
    "share",
];

impl Entry {
    /// Members that nobody reads and that are nearly one of ours, with that one. Others belong to other programs.
    pub fn misspelt(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let unknown = self.other.keys().filter(|member| !KNOWN.contains(&member.as_str()));
        unknown.filter_map(|member| Some((member.as_str(), nearest(member, KNOWN)?)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::ConfigFile;
    use super::*;

    #[test]
    fn what_is_nearly_ours_is_pointed_out_and_what_is_another_s_is_not() {
        let text = r#"{"mcpServers": {"s": {"command": "x", "type": "stdio", "idleTimeoutSec": 5, "idletimeoutsecs": 5, "autorestart": true,
            "disabled": true, "alwaysAllow": [], "autoApprove": [], "description": "x", "tools": [], "note": 1}}}"#;
        let entry = ConfigFile::parse(Path::new("f"), text).unwrap().entry("s").unwrap();
        let found: Vec<_> = entry.misspelt().collect();
        assert_eq!(
            found,
            [
                ("idleTimeoutSec", "idleTimeoutSecs"),
                ("idletimeoutsecs", "idleTimeoutSecs"),
                ("autorestart", "autoRestart")
            ]
        );
    }

    /// Each of them is read: it does not stay among the others.
    #[test]
    fn every_known_member_is_read() {
        for member in KNOWN.iter().filter(|member| !["type", "transport"].contains(member)) {
            let text = format!(r#"{{"mcpServers": {{"s": {{"command": "x", "{member}": null}}}}}}"#);
            let Ok(entry) = ConfigFile::parse(Path::new("f"), &text).unwrap().entry("s") else { continue };
            let is_address = ["url", "httpUrl", "serverUrl", "headers"].contains(member);
            assert!(is_address || !entry.other.contains_key(*member), "{member}");
        }
    }
}
