//! What a session is: a hash of what it runs and with which credentials.
//!
//! What was learnt from a server (its snapshot) is of use only for as long as the same is run in the same name. Settings
//! that change how the server is kept, not what it is, are not part of it.

use std::collections::BTreeMap;
use std::hash::Hasher as _;

use serde::Serialize;
use siphasher::sip128::{Hasher128 as _, SipHasher24};

use crate::credential::Credentials;
use crate::record::SessionRecord;

/// Everything that makes another session of it, in an order that does not change.
#[derive(Serialize)]
struct Canonical<'a> {
    command: &'a str,
    args: &'a [String],
    cwd: &'a str,
    url: Option<&'a str>,
    headers: &'a BTreeMap<String, Option<String>>,
    env: &'a BTreeMap<String, Option<String>>,
    mcp_version: Option<&'a str>,
    ambient: Option<&'a BTreeMap<String, String>>,
    entry: &'a BTreeMap<String, String>,
    pins: &'a BTreeMap<String, String>,
    variables: &'a BTreeMap<String, String>,
    entry_headers: &'a BTreeMap<String, String>,
    given_headers: &'a [(String, String)],
}

/// The identity of a session, in hexadecimal.
#[must_use]
pub fn of(record: &SessionRecord, credentials: &Credentials) -> String {
    // A server behind a URL is the same wherever it is called from.
    let here = record.url.is_none();
    let canonical = Canonical {
        command: if here { &record.command } else { "" },
        args: if here { &record.args } else { &[] },
        cwd: if here { &record.cwd } else { "" },
        url: record.url.as_deref(),
        headers: &record.headers,
        env: &record.env,
        mcp_version: record.settings.mcp_version.as_deref(),
        ambient: here.then_some(&credentials.ambient),
        entry: &credentials.entry,
        pins: &credentials.pins,
        variables: &credentials.variables,
        entry_headers: &credentials.entry_headers,
        given_headers: &credentials.headers,
    };
    let mut hasher = SipHasher24::new();
    // Strings and maps of strings cannot fail to be written.
    hasher.write(&serde_json::to_vec(&canonical).unwrap_or_default());
    format!("{:032x}", hasher.finish128().as_u128())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{SCHEMA, Settings, Target};

    fn session() -> (SessionRecord, Credentials) {
        let record = SessionRecord {
            schema: SCHEMA,
            target: Target::Command,
            command: "server".into(),
            args: vec!["-x".into()],
            url: None,
            headers: BTreeMap::new(),
            given_headers: Vec::new(),
            cwd: "/w".into(),
            env: BTreeMap::from([("A".into(), Some("${B}".into()))]),
            pins: Vec::new(),
            entry: None,
            settings: Settings::default(),
            given: Settings::default(),
            auto_connect: None,
            syncs: Vec::new(),
            share: None,
            identity: String::new(),
            created: 7,
        };
        let mut credentials = Credentials::default();
        credentials.variables.insert("B".into(), "b".into());
        credentials.ambient.insert("PATH".into(), "/bin".into());
        (record, credentials)
    }

    #[test]
    fn another_command_or_another_secret_is_another_session() {
        type Change = fn(&mut SessionRecord, &mut Credentials);
        let (record, credentials) = session();
        let known = of(&record, &credentials);
        assert_eq!(known.len(), 32);
        let changes: [Change; 13] = [
            |record, _| record.command.push('2'),
            |record, _| record.args.push(String::new()),
            |record, _| record.args = vec!["-".into(), "x".into()],
            |record, _| record.cwd.push('2'),
            |record, _| record.url = Some("http://server".into()),
            |record, _| drop(record.headers.insert("X".into(), None)),
            |record, _| drop(record.env.insert("A".into(), None)),
            |record, _| record.settings.mcp_version = Some("modern".into()),
            |_, credentials| drop(credentials.variables.insert("B".into(), "c".into())),
            |_, credentials| drop(credentials.pins.insert("B".into(), "b".into())),
            |_, credentials| drop(credentials.entry.insert("C".into(), "c".into())),
            |_, credentials| credentials.headers.push(("X".into(), "y".into())),
            |_, credentials| drop(credentials.ambient.insert("PATH".into(), "/usr/bin".into())),
        ];
        let mut seen = vec![known.clone()];
        for change in changes {
            let (mut record, mut credentials) = session();
            change(&mut record, &mut credentials);
            let changed = of(&record, &credentials);
            assert!(!seen.contains(&changed), "{record:?}");
            seen.push(changed);
        }
        // How it is kept is another matter.
        let (mut record, credentials) = session();
        record.settings.idle_timeout_secs = Some(5);
        record.settings.log_level = Some("debug".into());
        record.created = 8;
        record.identity = known.clone();
        assert_eq!(of(&record, &credentials), known);
    }

    #[test]
    fn a_server_behind_a_url_is_the_same_from_everywhere() {
        let (mut record, mut credentials) = session();
        record.url = Some("http://server".into());
        let known = of(&record, &credentials);
        record.cwd = "/elsewhere".into();
        credentials.ambient.clear();
        assert_eq!(of(&record, &credentials), known);
    }
}
