//! The values of a session's environment and headers, secrets included, in a file that only its owner can read.
//!
//! One file a session, so that a thousand sessions never rewrite a common one, and so that a session's
//! secrets go with it. Written by the holder of L, atomically: no other lock is needed. Values never appear
//! in `Debug`, in an error or in another file.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};

use crate::home::{Home, HomeError, SessionName};
use crate::record::{self, Document, Durability, RecordError, SCHEMA};

/// What was pinned when a session was connected.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credentials {
    /// The schema version.
    pub schema: u32,
    /// The variables that every server gets: `PATH`, `HOME`, locale, proxies, ….
    #[serde(default)]
    pub ambient: BTreeMap<String, String>,
    /// Literal values of the entry's `env`.
    #[serde(default)]
    pub entry: BTreeMap<String, String>,
    /// Values given with `--env`.
    #[serde(default)]
    pub pins: BTreeMap<String, String>,
    /// The values of what `${VAR}` names.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// Literal values of the entry's `headers`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub entry_headers: BTreeMap<String, String>,
    /// Headers given with `-H`, in order; a name may come more than once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The bearer token of clients to whom the session is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_token: Option<String>,
}

impl Default for Credentials {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            ambient: BTreeMap::new(),
            entry: BTreeMap::new(),
            pins: BTreeMap::new(),
            variables: BTreeMap::new(),
            entry_headers: BTreeMap::new(),
            headers: Vec::new(),
            share_token: None,
        }
    }
}

impl Credentials {
    /// The value of `${name}`: as given with `--env`, else as it was when it was pinned.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.pins.get(name).or_else(|| self.variables.get(name)).map(String::as_str)
    }
}

impl fmt::Debug for Credentials {
    /// Names only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>();
        f.debug_struct("Credentials")
            .field("ambient", &names(&self.ambient))
            .field("entry", &names(&self.entry))
            .field("pins", &names(&self.pins))
            .field("variables", &names(&self.variables))
            .field("entry_headers", &names(&self.entry_headers))
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("share_token", &self.share_token.is_some())
            .finish()
    }
}

impl Document for Credentials {
    fn schema(&self) -> u32 {
        self.schema
    }
}

/// Reads a session's values; `None` if none were stored.
///
/// # Errors
/// If the file is damaged, of a newer drowse, open to others, or cannot be read.
pub fn read(home: &Home, name: &SessionName) -> Result<Option<Credentials>, RecordError> {
    let path = home.credentials_file(name);
    match fs::metadata(&path) {
        Ok(meta) if meta.mode() & 0o077 != 0 => {
            return Err(HomeError::Open { path, mode: meta.mode() & 0o7777, want: "600" }.into());
        }
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(HomeError::io("look at", &path, e).into()),
    }
    record::read(&path, || format!("`drowse close {name}` and connect it again, its values are lost"))
}

/// Writes a session's values, readable by their owner only, and makes the session's directory if needed.
///
/// # Errors
/// If the file system refuses. The old values are then untouched.
pub fn write(home: &Home, name: &SessionName, credentials: &Credentials) -> Result<(), RecordError> {
    record::make_directory(home, name)?;
    record::write(&home.credentials_file(name), credentials, Durability::Synced)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn values_come_back_and_stay_private() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("h"), None);
        home.prepare().unwrap();
        let name = SessionName::new("x").unwrap();
        assert_eq!(read(&home, &name).unwrap(), None);
        let mut credentials = Credentials::default();
        credentials.pins.insert("TOKEN".into(), "s3cret".into());
        credentials.variables.insert("TOKEN".into(), "old".into());
        credentials.variables.insert("OTHER".into(), "o".into());
        credentials.entry_headers.insert("X-Entry".into(), "s3cret".into());
        credentials.headers.push(("X-Given".into(), "s3cret".into()));
        credentials.share_token = Some("s3cret".into());
        write(&home, &name, &credentials).unwrap();
        let path = home.credentials_file(&name);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let back = read(&home, &name).unwrap().unwrap();
        assert_eq!(back, credentials);
        assert_eq!(back.variable("TOKEN"), Some("s3cret"));
        assert_eq!(back.variable("OTHER"), Some("o"));
        assert_eq!(back.variable("NO"), None);
        assert!(!format!("{back:?}").contains("s3cret"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read(&home, &name).unwrap_err().to_string().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "{\"schema\":1,\"pins\":{\"TOKEN\":\"s3cret\"").unwrap();
        let error = read(&home, &name).unwrap_err().to_string();
        assert!(error.contains("credentials.json is damaged") && !error.contains("s3cret"), "{error}");
    }
}
