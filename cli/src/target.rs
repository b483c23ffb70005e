//! What `connect` connects to, and the name that a session gets when none is given.
//!
//! Owns the reading of server forms. Never opens a configuration file: the runtime does, and says what is wrong inside.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Exit, Failure};

/// A server, as named on the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `file:entry`.
    Entry { file: PathBuf, entry: String },
    /// Words after `--`.
    Command { program: String, args: Vec<String> },
}

impl Target {
    /// The name that its session gets: the entry's, or the package's, program's or script's.
    pub(crate) fn derived_name(&self) -> String {
        let source = match self {
            Self::Entry { entry, .. } => entry.as_str(),
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

/// Their first words, which are not the program either.
const LAUNCHER_VERBS: &[&str] = &["run", "exec", "dlx", "x", "tool"];

/// Reads what stands between `connect` and `--`, and after it.
pub(crate) fn parse(servers: &[&str], mut command: Vec<String>) -> Result<Target, Failure> {
    match (servers, command.is_empty()) {
        ([], true) => Err(Failure::usage("connect needs a server")
            .with_hint("drowse connect mcp.json:entry @name\ndrowse connect @name -- <command>…")),
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

/// The words of a command line, split at white space; quotes and backslashes as in a shell, which is not asked.
fn command_line(line: &str) -> Option<Vec<String>> {
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
        return Err(later(format!("connecting all entries of {word} at once comes with a later release"))
            .with_hint(format!("one entry: drowse connect {word}:<entry>")));
    }
    if word.contains("://") || is_host(word) {
        return Err(later(format!("`{word}` is a URL: servers over HTTP come with a later release"))
            .with_hint("now: drowse connect mcp.json:entry @name, or drowse connect @name -- <command>…"));
    }
    let file = word.split_once(':').map_or(word, |(file, _)| file);
    Err(Failure::new(Exit::Usage, "config", format!("there is no file `{file}`"))
        .with_hint("drowse connect <file>:<entry> @name\ndrowse connect @name -- <command>…"))
}

fn later(message: String) -> Failure {
    Failure::new(Exit::Usage, "unsupported", message)
}

/// `mcp.example.com`, `localhost:8080`, `[::1]/mcp`; not `mcp.json:entry` or `./mcp.json`.
fn is_host(word: &str) -> bool {
    let authority = word.split(['/', '?']).next().unwrap_or(word);
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
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        });
    let file_like =
        [".json", ".jsonc", ".json5", ".toml", ".yaml", ".yml"].iter().any(|end| host.ends_with(end));
    labels && !file_like && (host == "localhost" || host.contains('.') || port.is_some())
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
        assert_eq!(form("localhost:8080", &["localhost"]).unwrap(), entry("localhost", "8080"));
        assert_eq!(form("a:b:c", &["a:b"]).unwrap(), entry("a:b", "c"));
        assert_eq!(form("./x/mcp.json:a:b", &["./x/mcp.json"]).unwrap(), entry("./x/mcp.json", "a:b"));
    }

    #[test]
    fn later_forms_say_so() {
        for word in [
            "https://mcp.example.com/mcp",
            "http://127.0.0.1:99",
            "mcp.example.com",
            "localhost:8080",
            "127.0.0.1:99/mcp",
            "[::1]:80",
        ] {
            let failure = form(word, &[]).unwrap_err();
            assert_eq!(failure.kind, "unsupported", "{word}");
            assert!(failure.message.contains("later release"), "{}", failure.message);
        }
        let failure = form("mcp.json", &["mcp.json"]).unwrap_err();
        assert_eq!(failure.kind, "unsupported");
        assert!(failure.hint.as_deref().unwrap().contains("mcp.json:<entry>"));
    }

    #[test]
    fn missing_files_are_named() {
        for word in ["mcp.json:files", "./mcp.json:files", "mcp.json", "conf/mcp.json", "servers"] {
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
        for (word, kind) in
            [("nothing", "config"), ("mcp.json", "unsupported"), ("x 'y", "usage"), ("", "config")]
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
        assert_eq!(entry("mcp.json", "file system").derived_name(), "file-system");
        assert_eq!(entry("mcp.json", &"x".repeat(100)).derived_name().len(), 56);
    }
}
