//! Servers that other programs know: the files where hosts keep them, and the sessions of mcpc.
//!
//! Owns where to look and how to read it. Changes nothing, neither there nor here.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::config::{ConfigError, ConfigFile, MAX_CONFIG};
use crate::regular;
use crate::remote::Header;

/// A file that may name servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Whose it is, for people.
    pub owner: &'static str,
    /// The file.
    pub path: PathBuf,
}

/// Where hosts that run on this kind of machine keep their servers, and mcpc its sessions. `home` is the user's home,
/// `config` its configuration directory, `cwd` the working directory, `mcpc` mcpc's own directory.
#[must_use]
pub fn places(home: &Path, config: &Path, cwd: &Path, mcpc: &Path) -> Vec<Place> {
    [
        ("mcpc", mcpc.join("sessions.json")),
        ("this directory", cwd.join(".mcp.json")),
        ("this directory, Cursor", cwd.join(".cursor/mcp.json")),
        ("this directory, VS Code", cwd.join(".vscode/mcp.json")),
        ("Claude Code", home.join(".claude.json")),
        ("Claude Desktop", config.join("Claude/claude_desktop_config.json")),
        ("Cursor", home.join(".cursor/mcp.json")),
        ("VS Code", config.join("Code/User/mcp.json")),
        ("Windsurf", home.join(".codeium/windsurf/mcp_config.json")),
        ("Gemini CLI", home.join(".gemini/settings.json")),
    ]
    .into_iter()
    .map(|(owner, path)| Place { owner, path })
    .collect()
}

/// What a file holds.
#[derive(Debug)]
#[non_exhaustive]
pub enum Servers {
    /// The entries of a configuration file.
    Entries(ConfigFile),
    /// Sessions of mcpc.
    Sessions(Vec<Session>),
}

/// A session of mcpc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its name, without the `@`.
    pub name: String,
    /// What it runs, or where its server is; or why that cannot be told.
    pub server: Result<Server, String>,
    /// Its environment.
    pub env: Vec<(String, String)>,
    /// Its headers whose values are known.
    pub headers: Vec<Header>,
    /// The names of the headers whose values are not in a file.
    pub hidden_headers: Vec<String>,
    /// A request's time-out in seconds.
    pub timeout_secs: Option<u64>,
    /// Any certificate is accepted.
    pub insecure: bool,
    /// What it has that cannot be taken along, for people.
    pub left_behind: Vec<&'static str>,
}

/// What a session of mcpc runs, or where its server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// A child process.
    Command {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// A server behind a URL.
    Url(String),
}

/// Reads a file of either kind.
///
/// # Errors
/// If it is missing, unreadable, too large, malformed, or holds no servers.
pub fn read(path: &Path) -> Result<Servers, ConfigError> {
    let entries = ConfigFile::read(path);
    if !matches!(entries, Err(ConfigError::NoServers { .. })) {
        return entries.map(Servers::Entries);
    }
    let sessions = sessions(path).ok_or(ConfigError::NoServers { path: path.to_owned() })?;
    // mcpc keeps the values of headers in the keychain; on machines without one, in this file.
    let secrets = path.parent().and_then(|directory| object(&directory.join("credentials.json")));
    let secrets = secrets.unwrap_or_default();
    Ok(Servers::Sessions(sessions.iter().map(|(name, value)| session(name, value, &secrets)).collect()))
}

fn object(path: &Path) -> Option<Map<String, Value>> {
    let mut bytes = Vec::new();
    regular::open(path).ok()?.take(MAX_CONFIG).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn sessions(path: &Path) -> Option<Map<String, Value>> {
    match object(path)?.remove("sessions") {
        Some(Value::Object(sessions)) => Some(sessions),
        _ => None,
    }
}

#[derive(Deserialize)]
struct Raw {
    server: RawServer,
    #[serde(default)]
    insecure: bool,
    #[serde(rename = "profileName")]
    profile: Option<Value>,
    proxy: Option<Value>,
    #[serde(default)]
    x402: bool,
}

#[derive(Deserialize)]
struct RawServer {
    url: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Map<String, Value>,
    #[serde(default)]
    headers: Map<String, Value>,
    timeout: Option<u64>,
}

fn session(name: &str, value: &Value, secrets: &Map<String, Value>) -> Session {
    let mut session = Session {
        name: name.trim_start_matches('@').to_owned(),
        server: Err("its record has no `command` and no `url`".to_owned()),
        env: Vec::new(),
        headers: Vec::new(),
        hidden_headers: Vec::new(),
        timeout_secs: None,
        insecure: false,
        left_behind: Vec::new(),
    };
    let raw = match Raw::deserialize(value) {
        Ok(raw) => raw,
        Err(error) => {
            session.server = Err(format!("its record is not of the expected shape ({error})"));
            return session;
        }
    };
    let RawServer { url, command, args, env, headers, timeout } = raw.server;
    if let Some(command) = command.filter(|command| !command.is_empty()) {
        session.server = Ok(Server::Command { command, args });
    } else if let Some(url) = url.filter(|url| !url.is_empty()) {
        session.server = Ok(Server::Url(url));
        session.insecure = raw.insecure;
    }
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    session.env = env.into_iter().map(|(name, value)| (name, text(value))).collect();
    let kept = secrets.get(&format!("session:{name}:headers"));
    let kept = kept.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
    let kept: Map<String, Value> = kept.unwrap_or_default();
    for name in headers.keys() {
        let header = kept.get(name).and_then(Value::as_str).map(|value| format!("{name}: {value}"));
        match header.and_then(|header| Header::parse(&header).ok()) {
            Some(header) => session.headers.push(header),
            None => session.hidden_headers.push(name.clone()),
        }
    }
    session.timeout_secs = timeout.filter(|timeout| *timeout > 0);
    let left = [
        (raw.profile.is_some(), "its login"),
        (raw.proxy.is_some(), "its proxy port"),
        (raw.x402, "its wallet"),
    ];
    session.left_behind = left.into_iter().filter(|(has, _)| *has).map(|(_, what)| what).collect();
    session
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn from(sessions: &str, credentials: Option<&str>) -> Vec<Session> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sessions.json");
        fs::write(&path, sessions).unwrap();
        if let Some(credentials) = credentials {
            fs::write(dir.path().join("credentials.json"), credentials).unwrap();
        }
        match read(&path).unwrap() {
            Servers::Sessions(sessions) => sessions,
            Servers::Entries(file) => panic!("entries: {file:?}"),
        }
    }

    #[test]
    fn sessions_of_commands_and_urls() {
        let found = from(
            r#"{"sessions":{
                "@c":{"name":"@c","server":{"command":"npx","args":["-y","s"],"env":{"A":"b","N":1},"timeout":90},
                      "createdAt":"x","pid":7,"later":{}},
                "@u":{"server":{"url":"https://h/mcp","headers":{"Authorization":"<redacted>","X-A":"<redacted>"}},
                      "insecure":true,"profileName":"default","proxy":{"host":"h","port":1},"x402":true}}}"#,
            Some(r#"{"session:@u:headers":"{\"Authorization\":\"Bearer t\"}"}"#),
        );
        let [command, url] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (command.name.as_str(), &command.server),
            ("c", &Ok(Server::Command { command: "npx".into(), args: vec!["-y".into(), "s".into()] }))
        );
        assert_eq!(command.env, [("A".into(), "b".into()), ("N".into(), "1".into())]);
        assert_eq!((command.timeout_secs, command.insecure), (Some(90), false));
        assert_eq!((url.name.as_str(), &url.server), ("u", &Ok(Server::Url("https://h/mcp".into()))));
        assert_eq!(url.headers, [Header::parse("Authorization: Bearer t").unwrap()]);
        assert_eq!(url.hidden_headers, ["X-A"]);
        assert_eq!(
            (url.insecure, url.left_behind.as_slice()),
            (true, &["its login", "its proxy port", "its wallet"][..])
        );
    }

    #[test]
    fn a_session_that_cannot_be_read_says_why_and_harms_no_other() {
        let found = from(
            r#"{"sessions":{"a":{"server":{}},"b":7,"c":{"server":{"url":3}},"d":{"server":{"command":"x"}}}}"#,
            None,
        );
        let why: Vec<_> = found.iter().map(|session| session.server.is_err()).collect();
        assert_eq!(why, [true, true, true, false]);
    }

    #[test]
    fn files_of_hosts_are_told_from_sessions() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json");
        fs::write(&path, r#"{"mcpServers":{"a":{"command":"x"}}}"#).unwrap();
        let Servers::Entries(file) = read(&path).unwrap() else { panic!("sessions") };
        assert_eq!(file.names().collect::<Vec<_>>(), ["a"]);
        for (text, wanted) in
            [("{}", "has no servers"), ("{", "is not valid JSON"), (r#"{"sessions":[]}"#, "has no servers")]
        {
            fs::write(&path, text).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains(wanted), "{text}");
        }
        assert!(matches!(read(&dir.path().join("none")), Err(ConfigError::Missing { .. })));
    }
}
