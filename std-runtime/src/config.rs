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
use crate::record::{DEFAULT_MAX_TIMEOUT_MS, OnExpiry, Settings};
use crate::remote::{self, CertificateError, HeaderError, ProxyError, UrlError};
use crate::share::{Share, ShareError};
use crate::suggest::nearest;

mod members;

/// The largest file that is read.
pub const MAX_CONFIG: u64 = 16 << 20;

/// JSON with comments and trailing commas, and otherwise strict.
pub(crate) const JSONC: jsonc_parser::ParseOptions = jsonc_parser::ParseOptions {
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
    #[error("entry `{entry}` of {} has neither `command` nor `url`", path.display())]
    NoServer {
        /// The path.
        path: PathBuf,
        /// The entry.
        entry: String,
    },
    /// The entry names two servers.
    #[error("entry `{entry}` of {} has both `{first}` and `{second}`: leave out the one that is not meant", path.display())]
    TwoServers {
        /// The path.
        path: PathBuf,
        /// The entry.
        entry: String,
        /// One member.
        first: &'static str,
        /// Another.
        second: &'static str,
    },
    /// The entry's transport does not go with its other members.
    #[error("entry `{entry}` of {} is said to be `{kind}`, but has a `{member}`", path.display())]
    OtherTransport {
        /// The path.
        path: PathBuf,
        /// The entry.
        entry: String,
        /// What its `type` says.
        kind: String,
        /// The member.
        member: &'static str,
    },
    /// Not the URL of a server.
    #[error("{place}: {source}")]
    Url {
        /// Where it stands.
        place: String,
        /// Why.
        source: UrlError,
    },
    /// Not a header that can be sent.
    #[error("{place}: {source}")]
    Header {
        /// Where it stands.
        place: String,
        /// Why.
        source: HeaderError,
    },
    /// Not the URL of a proxy.
    #[error("{place}: {source}")]
    Proxy {
        /// Where it stands.
        place: String,
        /// Why.
        source: ProxyError,
    },
    /// A file of certificates that cannot be used.
    #[error("{place}: {source}")]
    Certificate {
        /// Where it stands.
        place: String,
        /// Why.
        source: CertificateError,
    },
    /// Not a way to share a session.
    #[error("--proxy: {0}")]
    Share(#[from] ShareError),
    /// Something that only servers behind URLs have, for a command.
    #[error("{flag} is for servers behind a URL, and this one is a command: leave it out")]
    OnlyForUrls {
        /// The flag.
        flag: &'static str,
    },
    /// A `${…}` cannot be expanded.
    #[error("{place}: {source}")]
    Expand {
        /// Where it stands.
        place: String,
        /// Why.
        source: ExpandError,
    },
    /// The file of the user's defaults is damaged.
    #[error("the defaults in {} cannot be used ({what}): mend the file, or remove it", path.display())]
    Defaults {
        /// The path.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A newer drowse wrote the user's defaults.
    #[error("the defaults in {} were written by a newer drowse (schema {schema}): update drowse", path.display())]
    NewerDefaults {
        /// The path.
        path: PathBuf,
        /// Its schema.
        schema: u64,
    },
    /// A setting has no such value.
    #[error("{setting} must be {want}")]
    BadSetting {
        /// The setting.
        setting: &'static str,
        /// What it must be.
        want: String,
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
        let root: Value = jsonc_parser::parse_to_serde_value(text, &JSONC)
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
    /// Where a session that is made of it is shared over HTTP.
    pub share: Option<Share>,
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
    Url {
        /// The address.
        url: String,
        /// Its headers, in the file's order.
        headers: Vec<(String, String)>,
    },
}

struct EntryReader<'a> {
    path: &'a Path,
    entry: &'a str,
}

impl EntryReader<'_> {
    fn read(&self, value: &Value) -> Result<Entry, ConfigError> {
        let Value::Object(members) = value else { return Err(self.bad("(the entry)", "an object")) };
        let mut members = members.clone();
        let transport = self.transport(&mut members)?;
        let env = self.env(&mut members)?;
        let cwd = self.string(&mut members, "cwd")?;
        let auto_connect = self.switch(&mut members, "autoConnect")?;
        let share = match self.string(&mut members, "share")? {
            Some(typed) => {
                let want = "an address to share it at, \"[host:]port\"; \"0\" is a free port";
                Some(Share::parse(&typed).map_err(|_| self.bad("share", want))?)
            }
            None => None,
        };
        let settings = Settings {
            idle_timeout_secs: self.seconds(&mut members, "idleTimeoutSecs")?,
            timeout_ms: self.timeout(&mut members)?,
            max_timeout_ms: self.millis(&mut members, "maxTimeoutSecs")?,
            connect_timeout_ms: self.millis(&mut members, "connectTimeoutSecs")?,
            stop_grace_ms: self.millis(&mut members, "stopGraceSecs")?,
            keepalive_secs: self.seconds(&mut members, "keepaliveSecs")?,
            auto_restart: self.switch(&mut members, "autoRestart")?,
            on_expiry: self.on_expiry(&mut members)?,
            insecure: self.switch(&mut members, "insecure")?,
            cacert: self.string(&mut members, "cacert")?.map(|file| self.beside(&file)),
            proxy: self.proxy(&mut members)?,
            mcp_version: self.pin(&mut members, "mcpVersion")?,
            ..Settings::default()
        };
        Ok(Entry { transport, env, cwd, settings, auto_connect, share, other: members })
    }

    /// How the server is reached, by the members that name it. An empty one counts as none: hosts write such.
    fn transport(&self, members: &mut Map<String, Value>) -> Result<Transport, ConfigError> {
        let mut named: Option<(&'static str, String)> = None;
        for member in ["command", "url", "httpUrl", "serverUrl"] {
            let Some(value) = self.string(members, member)?.filter(|value| !value.is_empty()) else {
                continue;
            };
            match &named {
                Some((first, known)) if *known == value && *first != "command" => {}
                Some((first, _)) => {
                    let (path, entry) = (self.path.to_owned(), self.entry.to_owned());
                    return Err(ConfigError::TwoServers { path, entry, first, second: member });
                }
                None => named = Some((member, value)),
            }
        }
        let Some((member, value)) = named else {
            return Err(ConfigError::NoServer { path: self.path.to_owned(), entry: self.entry.to_owned() });
        };
        let is_command = member == "command";
        if let Some((kind, stdio)) = self.kind(members)?
            && stdio != is_command
        {
            let (path, entry) = (self.path.to_owned(), self.entry.to_owned());
            return Err(ConfigError::OtherTransport { path, entry, kind, member });
        }
        if is_command {
            return Ok(Transport::Stdio { command: value, args: self.strings(members, "args")? });
        }
        Ok(Transport::Url { url: value, headers: self.headers(members)? })
    }

    /// What the entry itself says of its transport, and whether that is stdio. Hosts spell it in several ways.
    fn kind(&self, members: &Map<String, Value>) -> Result<Option<(String, bool)>, ConfigError> {
        for member in ["type", "transport"] {
            let Some(Value::String(kind)) = members.get(member) else { continue };
            let plain: String = kind.chars().filter(char::is_ascii_alphanumeric).collect();
            return match plain.to_ascii_lowercase().as_str() {
                "stdio" => Ok(Some((kind.clone(), true))),
                "http" | "streamablehttp" | "sse" => Ok(Some((kind.clone(), false))),
                _ => Err(self.bad(member, "`stdio`, `http`, `streamable-http` or `sse`")),
            };
        }
        Ok(None)
    }

    fn headers(&self, members: &mut Map<String, Value>) -> Result<Vec<(String, String)>, ConfigError> {
        let headers = self.texts(members, "headers", "an object that maps names of headers to strings")?;
        for (name, _) in &headers {
            remote::check_header_name(name)
                .map_err(|source| ConfigError::Header { place: self.place("headers"), source })?;
        }
        Ok(headers)
    }

    fn on_expiry(&self, members: &mut Map<String, Value>) -> Result<Option<OnExpiry>, ConfigError> {
        match self.string(members, "onExpiry")?.as_deref().map(OnExpiry::from_name) {
            Some(None) => Err(self.bad("onExpiry", "`fresh` or `fail`")),
            choice => Ok(choice.flatten()),
        }
    }

    fn proxy(&self, members: &mut Map<String, Value>) -> Result<Option<String>, ConfigError> {
        let proxy = self.string(members, "proxy")?;
        if let Some(proxy) = &proxy {
            remote::check_proxy(proxy)
                .map_err(|source| ConfigError::Proxy { place: self.place("proxy"), source })?;
        }
        Ok(proxy)
    }

    fn place(&self, member: &str) -> String {
        format!("entry `{}` of {}, {member}", self.entry, self.path.display())
    }

    /// A path of the entry, relative to its file, so that it does not depend on where somebody connects from.
    fn beside(&self, path: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("/")).join(path)
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
        let env = self.texts(members, "env", "an object that maps names of variables to strings")?;
        match env.iter().find(|(name, _)| !is_variable(name)) {
            Some((name, _)) => Err(ConfigError::BadVariable { name: name.clone() }),
            None => Ok(env),
        }
    }

    fn texts(
        &self,
        members: &mut Map<String, Value>,
        key: &str,
        want: &'static str,
    ) -> Result<Vec<(String, String)>, ConfigError> {
        let entries = match members.remove(key) {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Object(entries)) => entries,
            Some(_) => return Err(self.bad(key, want)),
        };
        let mut texts = Vec::with_capacity(entries.len());
        for (name, value) in entries {
            match value {
                // In VS Code's files: not set at all.
                Value::Null => {}
                other => match scalar(other) {
                    Some(text) => texts.push((name, text)),
                    None => return Err(self.bad(key, want)),
                },
            }
        }
        Ok(texts)
    }

    fn switch(&self, members: &mut Map<String, Value>, key: &str) -> Result<Option<bool>, ConfigError> {
        match members.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(on)) => Ok(Some(on)),
            Some(_) => Err(self.bad(key, "true or false")),
        }
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

/// A period as people write it: the opposite of [`seconds`].
#[must_use]
pub fn period(secs: u64) -> String {
    let mut text = String::new();
    let mut rest = secs;
    for (unit, length) in [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)] {
        if rest >= length {
            text.push_str(&format!("{}{unit}", rest / length));
            rest %= length;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Whether this can be the name of an environment variable.
pub(crate) fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

#[cfg(test)]
mod tests;
