//! Configuration files of MCP hosts: `mcpServers` and `servers`, with comments and trailing commas.
//!
//! Owns reading and checking files and their entries. Never writes a file, never looks at the environment
//! (see `expand` for `${VAR}`), and keeps what it does not know.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use drowse_core::era::Pin;
use serde_json::{Map, Value};

use crate::expand::ExpandError;
use crate::record::{DEFAULT_MAX_TIMEOUT_MS, Settings};
use crate::suggest::nearest;

/// The largest file that is read.
pub const MAX_CONFIG: u64 = 16 << 20;

/// Why a configuration cannot be used. Each text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No such file.
    #[error("there is no file {}: check the path", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// It is larger than [`MAX_CONFIG`].
    #[error("{} is larger than {} MiB: this cannot be a configuration file", path.display(), MAX_CONFIG >> 20)]
    Huge {
        /// The path.
        path: PathBuf,
    },
    /// It is not JSON, comments and trailing commas allowed.
    #[error("{} is not valid JSON: {what}", path.display())]
    Malformed {
        /// The path.
        path: PathBuf,
        /// What the parser said, with line and column.
        what: String,
    },
    /// It holds no servers.
    #[error(
        "{} has no servers: expected an object `mcpServers` (or `servers`) that maps names to entries",
        path.display()
    )]
    NoServers {
        /// The path.
        path: PathBuf,
    },
    /// It holds no such entry.
    #[error("{} has no entry `{entry}`{hint}", path.display())]
    NoEntry {
        /// The path.
        path: PathBuf,
        /// The entry.
        entry: String,
        /// `: did you mean …?`, or what there is.
        hint: String,
    },
    /// A member of the entry has the wrong shape.
    #[error("entry `{entry}` of {}: `{member}` must be {want}", path.display())]
    BadMember {
        /// The path.
        path: PathBuf,
        /// The entry.
        entry: String,
        /// The member.
        member: String,
        /// What it must be.
        want: &'static str,
    },
    /// The entry names neither a command nor a URL.
    #[error("entry `{entry}` of {} has no `command`", path.display())]
    NoCommand {
        /// The path.
        path: PathBuf,
        /// The entry.
        entry: String,
    },
    /// The entry is a remote server.
    #[error("`{url}` is a remote server: this release runs commands only, URLs come with the next one")]
    UrlsComeLater {
        /// The URL.
        url: String,
    },
    /// A `${…}` cannot be expanded.
    #[error("{place}: {source}")]
    Expand {
        /// Where it stands.
        place: String,
        /// Why.
        source: ExpandError,
    },
    /// `--env NAME` of a variable that is not set.
    #[error("--env {name}: the variable is not set; set it, or give `--env {name}=VALUE`")]
    UnsetPin {
        /// The variable.
        name: String,
    },
    /// Not the name of a variable.
    #[error("`{name}` cannot be the name of an environment variable")]
    BadVariable {
        /// What was given.
        name: String,
    },
    /// No command was given.
    #[error("the command is empty: write it after `--`, e.g. `drowse connect @name -- npx -y some-server`")]
    EmptyCommand,
}

/// A configuration file that was read.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    path: PathBuf,
    entries: Map<String, Value>,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// If it is missing, unreadable, too large, malformed, or holds no servers.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::NotFound => ConfigError::Missing { path: path.to_owned() },
            _ => ConfigError::Unreadable { path: path.to_owned(), source },
        };
        let file = File::open(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        // One byte more than is allowed, as a pipe or /proc file does not say how long it is.
        file.take(MAX_CONFIG + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_CONFIG {
            return Err(ConfigError::Huge { path: path.to_owned() });
        }
        let malformed = |what: String| ConfigError::Malformed { path: path.to_owned(), what };
        let text = String::from_utf8(bytes)
            .map_err(|e| malformed(format!("byte {} is not UTF-8", e.utf8_error().valid_up_to())))?;
        Self::parse(path, &text)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// If it is malformed or holds no servers.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let options = jsonc_parser::ParseOptions {
            allow_comments: true,
            allow_trailing_commas: true,
            allow_loose_object_property_names: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        };
        let root: Value = jsonc_parser::parse_to_serde_value(text, &options)
            .map_err(|e| ConfigError::Malformed { path: path.to_owned(), what: e.to_string() })?;
        let no_servers = || ConfigError::NoServers { path: path.to_owned() };
        let Value::Object(mut root) = root else { return Err(no_servers()) };
        let mut found = false;
        let mut entries = Map::new();
        for key in ["mcpServers", "servers"] {
            if let Some(Value::Object(servers)) = root.remove(key) {
                found = true;
                for (name, entry) in servers {
                    entries.entry(name).or_insert(entry);
                }
            }
        }
        if found { Ok(Self { path: path.to_owned(), entries }) } else { Err(no_servers()) }
    }

    /// The file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all entries, in the file's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// One entry.
    ///
    /// # Errors
    /// If there is none of that name, or a member that drowse knows has the wrong shape.
    pub fn entry(&self, name: &str) -> Result<Entry, ConfigError> {
        let Some(value) = self.entries.get(name) else {
            return Err(ConfigError::NoEntry {
                path: self.path.clone(),
                entry: name.to_owned(),
                hint: self.hint(name),
            });
        };
        EntryReader { path: &self.path, entry: name }.read(value)
    }

    fn hint(&self, name: &str) -> String {
        if let Some(nearest) = nearest(name, self.names()) {
            return format!(": did you mean `{nearest}`?");
        }
        let mut some: Vec<_> = self.names().take(10).map(|n| format!("`{n}`")).collect();
        if self.entries.len() > some.len() {
            some.push("…".to_owned());
        }
        if some.is_empty() { ": it is empty".to_owned() } else { format!(": it has {}", some.join(", ")) }
    }
}

/// One server of a configuration file. Strings are not expanded.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// How it is reached.
    pub transport: Transport,
    /// Its environment, in the file's order.
    pub env: Vec<(String, String)>,
    /// Its working directory.
    pub cwd: Option<String>,
    /// Time-outs, idle time, pinned version.
    pub settings: Settings,
    /// Whether bulk connects and gateways start it unasked.
    pub auto_connect: Option<bool>,
    /// Members that drowse does not know.
    pub other: Map<String, Value>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// HTTP.
    Url(String),
}

struct EntryReader<'a> {
    path: &'a Path,
    entry: &'a str,
}

impl EntryReader<'_> {
    fn read(&self, value: &Value) -> Result<Entry, ConfigError> {
        let Value::Object(members) = value else { return Err(self.bad("(the entry)", "an object")) };
        let mut members = members.clone();
        let command = self.string(&mut members, "command")?;
        let url = self.string(&mut members, "url")?;
        let args = self.strings(&mut members, "args")?;
        let transport = match (command, url) {
            (Some(command), _) if !command.is_empty() => Transport::Stdio { command, args },
            (_, Some(url)) => Transport::Url(url),
            _ => {
                return Err(ConfigError::NoCommand {
                    path: self.path.to_owned(),
                    entry: self.entry.to_owned(),
                });
            }
        };
        let env = self.env(&mut members)?;
        let cwd = self.string(&mut members, "cwd")?;
        let auto_connect = match members.remove("autoConnect") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(on)) => Some(on),
            Some(_) => return Err(self.bad("autoConnect", "true or false")),
        };
        let settings = Settings {
            idle_timeout_secs: self.seconds(&mut members, "idleTimeoutSecs")?,
            timeout_ms: self.timeout(&mut members)?,
            max_timeout_ms: self.millis(&mut members, "maxTimeoutSecs")?,
            connect_timeout_ms: self.millis(&mut members, "connectTimeoutSecs")?,
            stop_grace_ms: self.millis(&mut members, "stopGraceSecs")?,
            keepalive_secs: self.seconds(&mut members, "keepaliveSecs")?,
            mcp_version: self.pin(&mut members, "mcpVersion")?,
            ..Settings::default()
        };
        Ok(Entry { transport, env, cwd, settings, auto_connect, other: members })
    }

    fn bad(&self, member: &str, want: &'static str) -> ConfigError {
        ConfigError::BadMember {
            path: self.path.to_owned(),
            entry: self.entry.to_owned(),
            member: member.to_owned(),
            want,
        }
    }

    fn string(&self, members: &mut Map<String, Value>, key: &str) -> Result<Option<String>, ConfigError> {
        match members.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(s)) if !s.contains('\0') => Ok(Some(s)),
            Some(_) => Err(self.bad(key, "a string")),
        }
    }

    fn strings(&self, members: &mut Map<String, Value>, key: &str) -> Result<Vec<String>, ConfigError> {
        let want = "a list of strings";
        match members.remove(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => items
                .into_iter()
                .map(|item| match scalar(item) {
                    Some(text) => Ok(text),
                    None => Err(self.bad(key, want)),
                })
                .collect(),
            Some(_) => Err(self.bad(key, want)),
        }
    }

    fn env(&self, members: &mut Map<String, Value>) -> Result<Vec<(String, String)>, ConfigError> {
        let want = "an object that maps names of variables to strings";
        let entries = match members.remove("env") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Object(entries)) => entries,
            Some(_) => return Err(self.bad("env", want)),
        };
        let mut env = Vec::with_capacity(entries.len());
        for (name, value) in entries {
            if !is_variable(&name) {
                return Err(ConfigError::BadVariable { name });
            }
            match value {
                // In VS Code's files: not set at all.
                Value::Null => {}
                other => match scalar(other) {
                    Some(text) => env.push((name, text)),
                    None => return Err(self.bad("env", want)),
                },
            }
        }
        Ok(env)
    }

    fn seconds(&self, members: &mut Map<String, Value>, key: &str) -> Result<Option<u64>, ConfigError> {
        match members.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => seconds_of(&value)
                .map(Some)
                .ok_or_else(|| self.bad(key, "a whole number of seconds, 0 or more")),
        }
    }

    fn millis(&self, members: &mut Map<String, Value>, key: &str) -> Result<Option<u64>, ConfigError> {
        match self.seconds(members, key)? {
            Some(0) => Err(self.bad(key, "a whole number of seconds, 1 or more")),
            other => Ok(other.map(|secs| secs.saturating_mul(1000))),
        }
    }

    /// A revision or an era. One that is not known is a mistake, not a wish to find out.
    fn pin(&self, members: &mut Map<String, Value>, key: &str) -> Result<Option<String>, ConfigError> {
        let pin = self.string(members, key)?;
        match pin.as_deref().map(Pin::from_name) {
            Some(None) => {
                Err(self.bad(key, "`legacy`, `modern`, or a revision from 2024-11-05 to 2026-07-28"))
            }
            _ => Ok(pin),
        }
    }

    /// `timeoutSecs`; or `timeout`, as other hosts write it: seconds, or milliseconds where it could not
    /// be seconds, because no request may take longer than the maximum.
    fn timeout(&self, members: &mut Map<String, Value>) -> Result<Option<u64>, ConfigError> {
        let exact = self.millis(members, "timeoutSecs")?;
        let loose = self.millis(members, "timeout")?;
        Ok(exact.or(loose.map(|ms| if ms > DEFAULT_MAX_TIMEOUT_MS { ms / 1000 } else { ms })))
    }
}

fn scalar(value: Value) -> Option<String> {
    match value {
        Value::String(s) if !s.contains('\0') => Some(s),
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        _ => None,
    }
}

fn seconds_of(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|f| f.fract() == 0.0 && (0.0..9e15).contains(f));
            // The range was checked just above.
            number.as_u64().or(whole.map(|f| f as u64))
        }
        Value::String(text) => seconds(text),
        _ => None,
    }
}

/// A duration as people write it: a whole number of seconds, or of `s`, `m`, `h`, `d`: `600`, `10m`, `1h30m`.
#[must_use]
pub fn seconds(text: &str) -> Option<u64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok();
    }
    let mut total: u64 = 0;
    let mut rest = text;
    let mut last_unit = u64::MAX;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at_checked(digits)?;
        let mut chars = tail.chars();
        let unit = match chars.next()? {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return None,
        };
        // Larger units first, each once.
        if unit >= last_unit {
            return None;
        }
        last_unit = unit;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(unit)?)?;
        rest = chars.as_str();
    }
    (last_unit != u64::MAX).then_some(total)
}

/// Whether this can be the name of an environment variable.
pub(crate) fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile, ConfigError> {
        ConfigFile::parse(Path::new("/c/mcp.json"), text)
    }

    fn entry(body: &str) -> Result<Entry, ConfigError> {
        parse(&format!(r#"{{"mcpServers":{{"e":{body}}}}}"#)).unwrap().entry("e")
    }

    #[test]
    fn a_file_with_comments_trailing_commas_and_both_roots() {
        let file = parse(
            r#"{
            // one
            "mcpServers": { "b": {"command": "x",}, "a": {"command": "first"}, },
            /* two */
            "servers": { "c": {"command": "y"}, "a": {"command": "second"} },
            "inputs": [1,],
        }"#,
        )
        .unwrap();
        assert_eq!(file.names().collect::<Vec<_>>(), ["b", "a", "c"]);
        let a = file.entry("a").unwrap();
        assert_eq!(a.transport, Transport::Stdio { command: "first".into(), args: vec![] });
    }

    #[test]
    fn all_members() {
        let e = entry(
            r#"{"command":"npx","args":["-y",3,true],"env":{"B":"${B}","A":7,"GONE":null},"cwd":"/w",
            "idleTimeoutSecs":0,"timeoutSecs":9,"maxTimeoutSecs":"2m","connectTimeoutSecs":1,"stopGraceSecs":4,
            "keepaliveSecs":0,"mcpVersion":"legacy","autoConnect":false,"type":"stdio","x":{"y":[1]}}"#,
        )
        .unwrap();
        assert_eq!(
            e.transport,
            Transport::Stdio { command: "npx".into(), args: vec!["-y".into(), "3".into(), "true".into()] }
        );
        assert_eq!(e.env, [("B".into(), "${B}".into()), ("A".into(), "7".into())]);
        assert_eq!(e.cwd.as_deref(), Some("/w"));
        assert_eq!(e.auto_connect, Some(false));
        let want = Settings {
            idle_timeout_secs: Some(0),
            timeout_ms: Some(9_000),
            max_timeout_ms: Some(120_000),
            connect_timeout_ms: Some(1_000),
            stop_grace_ms: Some(4_000),
            keepalive_secs: Some(0),
            mcp_version: Some("legacy".into()),
            ..Settings::default()
        };
        assert_eq!(e.settings, want);
        assert_eq!(Value::Object(e.other), serde_json::json!({"type": "stdio", "x": {"y": [1]}}));
    }

    #[test]
    fn a_timeout_that_cannot_be_seconds_is_milliseconds() {
        let ms = |body: &str| entry(body).unwrap().settings.timeout_ms;
        assert_eq!(ms(r#"{"command":"x","timeout":60}"#), Some(60_000));
        assert_eq!(ms(r#"{"command":"x","timeout":3600}"#), Some(3_600_000));
        assert_eq!(ms(r#"{"command":"x","timeout":60000}"#), Some(60_000));
        assert_eq!(ms(r#"{"command":"x","timeout":60000,"timeoutSecs":5}"#), Some(5_000));
        assert_eq!(ms(r#"{"command":"x"}"#), None);
    }

    #[test]
    fn wrong_members_are_named() {
        for (body, member) in [
            (r#"{"command":7}"#, "command"),
            (r#"{"command":"x","args":"-y"}"#, "args"),
            (r#"{"command":"x","args":[["a"]]}"#, "args"),
            (r#"{"command":"x","env":["A"]}"#, "env"),
            (r#"{"command":"x","env":{"A":{}}}"#, "env"),
            (r#"{"command":"x","cwd":1}"#, "cwd"),
            (r#"{"command":"x","idleTimeoutSecs":-1}"#, "idleTimeoutSecs"),
            (r#"{"command":"x","idleTimeoutSecs":1.5}"#, "idleTimeoutSecs"),
            (r#"{"command":"x","idleTimeoutSecs":"soon"}"#, "idleTimeoutSecs"),
            (r#"{"command":"x","timeout":0}"#, "timeout"),
            (r#"{"command":"x","mcpVersion":"2025-13-32"}"#, "mcpVersion"),
            (r#"{"command":"x","mcpVersion":20250618}"#, "mcpVersion"),
            (r#"{"command":"x","autoConnect":"no"}"#, "autoConnect"),
            (r#"{"command":"a\u0000b"}"#, "command"),
            (r#"[]"#, "(the entry)"),
        ] {
            match entry(body) {
                Err(ConfigError::BadMember { member: found, .. }) => assert_eq!(found, member, "{body}"),
                other => panic!("{body}: {other:?}"),
            }
        }
        assert!(matches!(
            entry(r#"{"command":"x","env":{"A=B":"1"}}"#),
            Err(ConfigError::BadVariable { .. })
        ));
        assert!(matches!(entry(r#"{"args":[]}"#), Err(ConfigError::NoCommand { .. })));
        assert!(matches!(entry(r#"{"command":""}"#), Err(ConfigError::NoCommand { .. })));
        assert_eq!(
            entry(r#"{"url":"https://h/mcp"}"#).unwrap().transport,
            Transport::Url("https://h/mcp".into())
        );
    }

    #[test]
    fn unknown_entries_get_a_hint() {
        let file = parse(r#"{"servers":{"github":{"command":"x"},"files":{"command":"x"}}}"#).unwrap();
        assert!(file.entry("gitbub").unwrap_err().to_string().ends_with("did you mean `github`?"));
        assert!(file.entry("zzz").unwrap_err().to_string().ends_with("it has `github`, `files`"));
        let empty = parse(r#"{"servers":{}}"#).unwrap();
        assert!(empty.entry("x").unwrap_err().to_string().ends_with("it is empty"));
    }

    #[test]
    fn malformed_files() {
        for text in ["{", r#"{"mcpServers":{"a":{}}"#, "{'mcpServers':{}}", "{mcpServers:{}}", "{} {}"] {
            assert!(matches!(parse(text), Err(ConfigError::Malformed { .. })), "{text:?}");
        }
        let error = parse("{\n\"mcpServers\": oops}").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("/c/mcp.json"), "{error}");
        let deep = format!("{{\"mcpServers\":{}", "[".repeat(200_000));
        assert!(matches!(parse(&deep), Err(ConfigError::Malformed { .. })));
        for text in ["", "[]", "3", "{}", r#"{"mcpServers":[]}"#] {
            assert!(matches!(parse(text), Err(ConfigError::NoServers { .. })), "{text}");
        }
    }

    #[test]
    fn files_on_disk() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.json");
        assert!(matches!(ConfigFile::read(&path), Err(ConfigError::Missing { .. })));
        assert!(matches!(ConfigFile::read(dir.path()), Err(ConfigError::Unreadable { .. })));
        std::fs::write(&path, "\u{feff}{\"mcpServers\":{\"a\":{\"command\":\"x\"}}}").unwrap();
        assert_eq!(ConfigFile::read(&path).unwrap().names().count(), 1);
        std::fs::write(&path, b"{\"mcpServers\":{\"\xff\":1}}").unwrap();
        assert!(ConfigFile::read(&path).unwrap_err().to_string().contains("not UTF-8"));
        File::create(&path).unwrap().set_len(MAX_CONFIG + 1).unwrap();
        assert!(matches!(ConfigFile::read(&path), Err(ConfigError::Huge { .. })));
    }

    #[test]
    fn durations() {
        for (text, want) in [
            ("0", Some(0)),
            ("600", Some(600)),
            ("10m", Some(600)),
            ("1h30m", Some(5400)),
            ("1d", Some(86_400)),
            (" 5s ", Some(5)),
            ("", None),
            ("m", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("1e3", None),
            ("1m1h", None),
            ("1m1m", None),
            ("10m5", None),
            ("10 m", None),
            ("99999999999999999999", None),
            ("9999999999999999999h", None),
            ("1é", None),
        ] {
            assert_eq!(seconds(text), want, "{text:?}");
        }
    }
}
