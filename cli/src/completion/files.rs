//! Names of files, directories, entries of configuration files, programs and variables.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use drowse_runtime::config::{ConfigFile, Transport};

use super::Candidate;

/// So many names of one directory are offered; in larger ones a user types on.
const MOST: usize = 2000;
/// A larger file is not looked into while somebody waits for a word.
const MOST_BYTES: u64 = 256 << 10;

/// What is wanted of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Files,
    Directories,
}

/// Files whose path begins so; `before` is what stands before it in the word.
pub(super) fn paths(before: &str, typed: &str, wanted: Wanted) -> Vec<Candidate> {
    let (directory, start) = typed.rfind('/').map_or(("", typed), |at| typed.split_at(at + 1));
    let Some(place) = place(directory) else { return Vec::new() };
    let mut found: Vec<Candidate> = fs::read_dir(place)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            if !name.starts_with(start) || (name.starts_with('.') && !start.starts_with('.')) {
                return None;
            }
            let is_directory = match entry.file_type() {
                Ok(kind) if kind.is_symlink() => fs::metadata(entry.path()).is_ok_and(|meta| meta.is_dir()),
                Ok(kind) => kind.is_dir(),
                Err(_) => false,
            };
            if wanted == Wanted::Directories && !is_directory {
                return None;
            }
            let end = if is_directory { "/" } else { "" };
            let value = format!("{before}{directory}{name}{end}");
            Some(Candidate { value, about: String::new(), goes_on: is_directory })
        })
        .take(MOST)
        .collect();
    found.sort_by(|a, b| a.value.cmp(&b.value));
    found
}

/// `file:entry`, once the file is named.
pub(super) fn entries(typed: &str) -> Vec<Candidate> {
    let Some((file, start)) = typed.rsplit_once(':') else { return Vec::new() };
    let small =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() <= MOST_BYTES);
    let Some(read) = place(file).filter(small).and_then(|path| ConfigFile::read(&path).ok()) else {
        return Vec::new();
    };
    let names = read.names().filter(|name| name.starts_with(start));
    names
        .map(|name| Candidate {
            value: format!("{file}:{name}"),
            about: read.entry(name).map_or_else(|_| String::new(), |entry| runs(&entry.transport)),
            goes_on: false,
        })
        .collect()
}

fn runs(transport: &Transport) -> String {
    match transport {
        Transport::Stdio { command, args } => {
            std::iter::once(command).chain(args).cloned().collect::<Vec<_>>().join(" ")
        }
        // Its query and user may be secrets.
        Transport::Url { url, .. } => drowse_runtime::remote::host_of(url).unwrap_or_default(),
    }
}

/// Programs of the search path.
pub(super) fn programs(start: &str) -> Vec<Candidate> {
    if start.is_empty() {
        return Vec::new();
    }
    if start.contains('/') {
        return paths("", start, Wanted::Files);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut names: Vec<String> = std::env::split_paths(&path)
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flat_map(|entries| entries.flatten())
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok().filter(|name| name.starts_with(start))?;
            // Through links.
            let meta = fs::metadata(entry.path()).ok()?;
            (meta.is_file() && meta.permissions().mode() & 0o111 != 0).then_some(name)
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|value| Candidate { value, about: String::new(), goes_on: false }).collect()
}

/// Names of environment variables: never their values.
pub(super) fn variables(start: &str) -> Vec<Candidate> {
    let mut names: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with(start))
        .collect();
    names.sort_unstable();
    names.into_iter().map(|value| Candidate { value, about: String::new(), goes_on: false }).collect()
}

/// Where a path of the line leads to.
fn place(path: &str) -> Option<PathBuf> {
    Some(match path.strip_prefix("~/") {
        Some(rest) => Path::new(&std::env::var_os("HOME")?).join(rest),
        None if path.is_empty() => PathBuf::from("."),
        None => PathBuf::from(path),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(candidates: &[Candidate]) -> Vec<&str> {
        candidates.iter().map(|one| one.value.as_str()).collect()
    }

    #[test]
    fn files_directories_and_entries() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().to_str().unwrap();
        fs::create_dir(place.path().join("sub")).unwrap();
        fs::write(place.path().join(".hidden"), "").unwrap();
        let config = r#"{"mcpServers": {"files": {"command": "npx", "args": ["-y", "x"]}, "far": {"url": "https://u:p@h/?k=1"}, "odd": 3}}"#;
        fs::write(place.path().join("some.json"), config).unwrap();
        let at = |rest: &str| format!("{root}/{rest}");
        let shown =
            |typed: &str, wanted| values(&paths("k=@", &at(typed), wanted)).join(" ").replace(root, "");
        assert_eq!(shown("", Wanted::Files), "k=@/some.json k=@/sub/");
        assert_eq!(shown("s", Wanted::Directories), "k=@/sub/");
        assert_eq!(shown(".", Wanted::Files), "k=@/.hidden");
        assert_eq!(shown("no/such", Wanted::Files), "");
        let found = entries(&at("some.json:f"));
        assert_eq!(values(&found), [at("some.json:files"), at("some.json:far")]);
        assert_eq!((found[0].about.as_str(), found[1].about.as_str()), ("npx -y x", "h"));
        assert!(entries(&at("none.json:")).is_empty() && entries("https://x").is_empty());
    }
}
