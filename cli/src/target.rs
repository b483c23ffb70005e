//! What `connect` connects to, and the name that a session gets when none is given.
//!
//! Owns the reading of server forms. Never opens a configuration file: the runtime does, and says what is wrong inside.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use drowse_runtime::remote::{self, UrlError};

use crate::error::{Exit, Failure};

/// A server, as named on the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `file:entry`.
    Entry { file: PathBuf, entry: String },
    /// A whole file: all its entries.
    File(PathBuf),
    /// A server behind a URL, with its scheme.
    Url(String),
    /// Words after `--`.
    Command { program: String, args: Vec<String> },
}

impl Target {
    /// The name that its session gets: the entry's, or the package's, program's or script's, or the host's.
    pub(crate) fn derived_name(&self) -> String {
        let host;
        let source = match self {
            Self::Entry { entry, .. } => entry.as_str(),
            Self::File(_) => "",
            Self::Url(url) => {
                host = remote::host_of(url).unwrap_or_default();
                host_name(&host)
            }
            Self::Command { program, args } => {
                let stem = file_stem(program);
                let launches = LAUNCHERS.contains(&stem) || stem.starts_with("python");
                let script = args.iter().find(|arg| {
                    !arg.starts_with('-') && !arg.contains('=') && !LAUNCHER_VERBS.contains(&arg.as_str())
                });
                script.filter(|_| launches).map_or(stem, |script| file_stem(script))
            }
        };
        let mut name = String::new();
        for c in source.chars() {
            if c.is_ascii_alphanumeric() || c == '_' {
                name.push(c);
            } else if !name.is_empty() && !name.ends_with('-') {
                name.push('-');
            }
        }
        // Room for a suffix such as -12 within the 64 characters of a name.
        name.truncate(56);
        let name = name.trim_end_matches('-');
        if name.is_empty() { "server".to_owned() } else { name.to_owned() }
    }
}

/// Programs that only start another one.
const LAUNCHERS: &[&str] = &[
    "npx", "bunx", "uvx", "pnpx", "pnpm", "npm", "yarn", "bun", "uv", "pipx", "deno", "node", "tsx", "env",
    "docker",
];

/// Words that say of a host only that it is one, or that it serves MCP.
const HOST_WORDS: &[&str] = &["mcp", "www", "api", "server", "mcp-server", "remote", "sse"];

/// What can be connected.
const FORMS: &str =
    "drowse connect https://… @name\ndrowse connect <file>:<entry> @name\ndrowse connect @name -- <command>…";

/// Their first words, which are not the program either.
const LAUNCHER_VERBS: &[&str] = &["run", "exec", "dlx", "x", "tool"];

/// Reads what stands between `connect` and `--`, and after it.
pub(crate) fn parse(servers: &[&str], mut command: Vec<String>) -> Result<Target, Failure> {
    match (servers, command.is_empty()) {
        ([], true) => Err(Failure::usage("connect needs a server").with_hint(FORMS)),
        ([], false) => {
            let program = command.remove(0);
            if program.is_empty() {
                return Err(Failure::usage("the command after -- is empty"));
            }
            Ok(Target::Command { program, args: command })
        }
        ([server], true) => server_form(server, &|path| path.exists()),
        ([server], false) => {
            Err(Failure::usage(format!("two servers: `{server}`, and the command after --")))
        }
        ([first, second, ..], _) => Err(Failure::usage(format!("two servers: `{first}` and `{second}`"))
            .with_hint("a command goes after --: drowse connect @name -- <command>…")),
    }
}

/// Reads the one word that names a server for a single command: a server form, or a whole command line.
pub(crate) fn once(word: &str) -> Result<Target, Failure> {
    once_form(word, &|path| path.exists(), &is_program)
}

fn once_form(
    word: &str,
    exists: &dyn Fn(&Path) -> bool,
    is_program: &dyn Fn(&str) -> bool,
) -> Result<Target, Failure> {
    let named = server_form(word, exists);
    let line = match (&named, command_line(word)) {
        // A program by its path, though not of the kind that is only found through one.
        (Ok(Target::File(file)), _) if is_program(&file.to_string_lossy()) || is_program(&here(file)) => {
            return Ok(Target::Command { program: here(file), args: Vec::new() });
        }
        (Ok(Target::File(file)), _) => {
            let file = file.display();
            return Err(Failure::usage(format!("{file} is a whole file, and one server is meant"))
                .with_hint(format!("--server {file}:<entry>")));
        }
        (Ok(_), _) => return named,
        (Err(_), Some(line)) => line,
        (Err(_), None) => {
            return Err(Failure::usage(format!("`{word}` has a quote that does not end")));
        }
    };
    match line.split_first() {
        // A word alone is a program only if there is one, else a mistyped server.
        Some((program, args)) if !program.is_empty() && (!args.is_empty() || is_program(program)) => {
            Ok(Target::Command { program: program.clone(), args: args.to_vec() })
        }
        _ => named.map_err(|failure| match failure.kind.as_ref() {
            "config" => failure.with_hint(
                "--server takes a URL, <file>:<entry>, or \"<command> <arguments>…\"; also: -- <command>…",
            ),
            _ => failure,
        }),
    }
}

/// A path as a command, which would be looked for elsewhere without a slash in it.
fn here(file: &Path) -> String {
    let path = file.to_string_lossy();
    if path.contains('/') { path.into_owned() } else { format!("./{path}") }
}

/// The words of a command line, split at white space; quotes and backslashes as in a shell, which is not asked.
pub(crate) fn command_line(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => loop {
                match chars.next()? {
                    '\'' => break,
                    c => word.get_or_insert_default().push(c),
                }
            },
            '"' => loop {
                match chars.next()? {
                    '"' => break,
                    '\\' => match chars.next()? {
                        c @ ('"' | '\\' | '$' | '`') => word.get_or_insert_default().push(c),
                        c => word.get_or_insert_default().extend(['\\', c]),
                    },
                    c => word.get_or_insert_default().push(c),
                }
            },
            '\\' => word.get_or_insert_default().push(chars.next()?),
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
        // Empty quotes are a word.
        if matches!(c, '\'' | '"') {
            word.get_or_insert_default();
        }
    }
    words.extend(word);
    Some(words)
}

/// Whether a shell would find a program of that name.
fn is_program(word: &str) -> bool {
    let runs = |path: &Path| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if word.contains('/') {
        return runs(Path::new(word));
    }
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| runs(&directory.join(word))))
}

/// Whether a word that is no command may be meant as a server.
pub(crate) fn looks_like_server(word: &str) -> bool {
    word.contains("://") || word.contains('.') || word.contains(':') || word.contains('/')
}

/// One server form. An existing file wins over `host:port`.
fn server_form(word: &str, exists: &dyn Fn(&Path) -> bool) -> Result<Target, Failure> {
    if ["http://", "https://"].iter().any(|scheme| word.starts_with(scheme)) {
        return url(word);
    }
    for (at, _) in word.match_indices(':') {
        let (file, entry) = (&word[..at], &word[at + 1..]);
        if !file.is_empty() && exists(Path::new(file)) {
            if entry.is_empty() {
                return Err(Failure::usage(format!("`{word}` names no entry"))
                    .with_hint(format!("drowse connect {file}:<entry>")));
            }
            return Ok(Target::Entry { file: PathBuf::from(file), entry: entry.to_owned() });
        }
    }
    if exists(Path::new(word)) {
        return Ok(Target::File(PathBuf::from(word)));
    }
    if word.contains("://") || is_host(word) {
        return url(word);
    }
    let file = word.split_once(':').map_or(word, |(file, _)| file);
    Err(Failure::new(Exit::Usage, "config", format!("there is no file `{file}`")).with_hint(FORMS))
}

fn url(word: &str) -> Result<Target, Failure> {
    remote::complete_url(word).map(Target::Url).map_err(|error| match error {
        // What is before the @ is not to be shown.
        UrlError::Credentials => Failure::usage(error.to_string()),
        error if word.contains('@') => Failure::usage(format!("not the URL of a server: {error}")),
        error => Failure::usage(format!("`{word}` is not the URL of a server: {error}")),
    })
}

/// `mcp.example.com`, `localhost:8080`, `[::1]/mcp`; not `mcp.json:entry` or `./mcp.json`.
fn is_host(word: &str) -> bool {
    let authority = word.split(['/', '?', '#']).next().unwrap_or(word);
    // `user:password@host`, to be told that this is not the place for it. `name@1.0` is a package.
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => host,
        _ => authority,
    };
    if authority.starts_with('[') {
        return true;
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    if port.is_some_and(|port| port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit())) {
        return false;
    }
    let labels = !host.is_empty()
        && host.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && label.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
        });
    let file_like =
        [".json", ".jsonc", ".json5", ".toml", ".yaml", ".yml"].iter().any(|end| host.ends_with(end));
    labels && !file_like && (host == "localhost" || host.contains('.') || port.is_some())
}

/// The part of a host that tells it from others: `mcp.apify.com` → `apify`. An address is taken whole.
fn host_name(host: &str) -> &str {
    let is_address = host.contains(':') || host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let labels: Vec<&str> = host.split('.').filter(|label| !label.is_empty()).collect();
    match labels.as_slice() {
        [names @ .., _top] if !names.is_empty() && !is_address => {
            let telling = names.iter().find(|name| !HOST_WORDS.contains(name));
            telling.or(names.last()).copied().unwrap_or(host)
        }
        _ => host,
    }
}

/// `@scope/server-everything@1.2` → `server-everything`; `/opt/my.server.py` → `my.server`.
fn file_stem(word: &str) -> &str {
    let word = word.trim_end_matches('/');
    let word = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let word = match word.char_indices().skip(1).find(|&(_, c)| c == '@') {
        Some((at, _)) => &word[..at],
        None => word,
    };
    for extension in [".js", ".mjs", ".cjs", ".ts", ".py", ".sh", ".exe"] {
        if let Some(stem) = word.strip_suffix(extension).filter(|stem| !stem.is_empty()) {
            return stem;
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(word: &str, files: &[&str]) -> Result<Target, Failure> {
        server_form(word, &|path| files.iter().any(|file| path == Path::new(file)))
    }

    fn entry(file: &str, entry: &str) -> Target {
        Target::Entry { file: file.into(), entry: entry.into() }
    }

    #[test]
    fn an_existing_file_wins() {
        assert_eq!(form("mcp.json:files", &["mcp.json"]).unwrap(), entry("mcp.json", "files"));
        assert_eq!(form("https://h.example/", &["https"]).unwrap(), Target::Url("https://h.example/".into()));
        assert_eq!(form("localhost:8080", &["localhost"]).unwrap(), entry("localhost", "8080"));
        assert_eq!(form("a:b:c", &["a:b"]).unwrap(), entry("a:b", "c"));
        assert_eq!(form("./x/mcp.json:a:b", &["./x/mcp.json"]).unwrap(), entry("./x/mcp.json", "a:b"));
    }

    #[test]
    fn urls_with_and_without_a_scheme() {
        for (word, url) in [
            ("https://mcp.example.com/mcp", "https://mcp.example.com/mcp"),
            ("http://10.0.0.7:99", "http://10.0.0.7:99"),
            ("mcp.example.com", "https://mcp.example.com"),
            ("mcp.example.com/a:b", "https://mcp.example.com/a:b"),
            ("bücher.example:8443", "https://bücher.example:8443"),
            ("my_host:8080/mcp", "https://my_host:8080/mcp"),
            ("localhost", "http://localhost"),
            ("localhost:8080", "http://localhost:8080"),
            ("127.0.0.1:99/mcp", "http://127.0.0.1:99/mcp"),
            ("[::1]:8080/mcp", "http://[::1]:8080/mcp"),
        ] {
            assert_eq!(form(word, &[]).unwrap(), Target::Url(url.into()), "{word}");
        }
        assert_eq!(form("mcp.json", &["mcp.json"]).unwrap(), Target::File("mcp.json".into()));
        assert_eq!(form("a.example:80", &["a.example:80"]).unwrap(), Target::File("a.example:80".into()));
    }

    #[test]
    fn urls_that_are_none_say_why() {
        for (word, says) in [
            ("ftp://h/x", "`ftp://h/x` is not the URL of a server: drowse speaks http://"),
            ("https://h:99999", "port"),
            ("h.example:99999", "port"),
            ("https://", "no host"),
            ("https://me:hush@h/mcp", "-H 'Authorization"),
            ("me:hush@h.example/mcp", "-H 'Authorization"),
            ("ftp://me:hush@h", "not the URL of a server: drowse speaks"),
            ("h.example/#x", "what follows #"),
        ] {
            let failure = form(word, &[]).expect_err(word);
            assert_eq!(failure.kind, "usage", "{word}");
            assert!(
                failure.message.contains(says) && !failure.message.contains("hush"),
                "{word}: {failure:?}"
            );
        }
    }

    #[test]
    fn missing_files_are_named() {
        for word in
            ["mcp.json:files", "./mcp.json:files", "mcp.json", "conf/mcp.json", "servers", "pkg@1.2.3"]
        {
            let failure = form(word, &[]).unwrap_err();
            assert_eq!(failure.kind, "config", "{word}");
            assert!(failure.message.contains("no file"), "{}", failure.message);
        }
        assert!(form("mcp.json:", &["mcp.json"]).unwrap_err().message.contains("no entry"));
    }

    #[test]
    fn one_server_at_a_time() {
        let command = || vec!["cat".to_owned()];
        assert_eq!(parse(&[], command()).unwrap(), Target::Command { program: "cat".into(), args: vec![] });
        for (servers, command) in [(&[][..], vec![]), (&["a:b"], command()), (&["npx", "thing"], vec![])] {
            assert_eq!(parse(servers, command).unwrap_err().kind, "usage", "{servers:?}");
        }
    }

    #[test]
    fn a_server_in_one_word() {
        let once = |word: &str| once_form(word, &|path| path == Path::new("mcp.json"), &|word| word == "srv");
        let command = |program: &str, args: &[&str]| Target::Command {
            program: program.into(),
            args: args.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(once("mcp.json:files").unwrap(), entry("mcp.json", "files"));
        assert_eq!(once("srv").unwrap(), command("srv", &[]));
        assert_eq!(once("npx -y thing").unwrap(), command("npx", &["-y", "thing"]));
        assert_eq!(
            once(r#"x 'a b' "c\"d" e\ f '' g"h"'i' "\n""#).unwrap(),
            command("x", &["a b", "c\"d", "e f", "", "ghi", "\\n"])
        );
        for (word, kind) in [("nothing", "config"), ("mcp.json", "usage"), ("x 'y", "usage"), ("", "config")]
        {
            assert_eq!(once(word).unwrap_err().kind, kind, "{word}");
        }
    }

    #[test]
    fn derived_names() {
        let named = |words: &[&str]| {
            let args = words[1..].iter().map(|&word| word.to_owned()).collect();
            Target::Command { program: words[0].to_owned(), args }.derived_name()
        };
        assert_eq!(named(&["npx", "-y", "@modelcontextprotocol/server-everything@2.0"]), "server-everything");
        assert_eq!(named(&["uvx", "mcp-server-time"]), "mcp-server-time");
        assert_eq!(named(&["python3.12", "./tools/my.server.py", "--x"]), "my-server");
        assert_eq!(named(&["/usr/bin/fast server", "stdio"]), "fast-server");
        assert_eq!(named(&["npx"]), "npx");
        assert_eq!(named(&["żółw"]), "w");
        assert_eq!(named(&["…"]), "server");
        for (url, name) in [
            ("https://mcp.apify.com", "apify"),
            ("https://api.githubcopilot.com/mcp/", "githubcopilot"),
            ("https://example.com:8443", "example"),
            ("https://my-app.vercel.app/mcp", "my-app"),
            ("https://mcp.example.co.uk", "example"),
            ("https://MCP.com", "mcp"),
            ("http://localhost:8080", "localhost"),
            ("http://127.0.0.1:1/mcp", "localhost"),
            ("http://[::1]:80", "localhost"),
            ("https://10.0.0.7", "10-0-0-7"),
            ("https://[2001:db8::1]", "2001-db8-1"),
            ("http://mcp:8000/mcp", "mcp"),
        ] {
            assert_eq!(Target::Url(url.into()).derived_name(), name, "{url}");
        }
        assert_eq!(entry("mcp.json", "file system").derived_name(), "file-system");
        assert_eq!(entry("mcp.json", &"x".repeat(100)).derived_name().len(), 56);
    }
}
