//! Files that are watched: patterns, and word of every change of one that matches.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use notify::event::ModifyKind;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

/// Directories that are not looked into unless a pattern names them.
const SKIPPED: &[&str] = &[".git", "node_modules", "__pycache__"];

/// How many files that changed are remembered by name.
const MAX_TOUCHED: usize = 2000;

/// What is watched; dropped, nothing is.
pub(super) struct Watch {
    _watcher: RecommendedWatcher,
    changes: mpsc::Receiver<()>,
    touched: Arc<Mutex<Touched>>,
}

/// The files that something happened to.
#[derive(Default)]
pub(super) struct Touched {
    /// Not more than [`MAX_TOUCHED`].
    pub(super) paths: BTreeSet<PathBuf>,
    /// There were others.
    pub(super) more: bool,
}

impl Watch {
    /// Watches the files that match any of the patterns, which begin at `cwd`.
    ///
    /// # Errors
    /// What is wrong with a pattern, or why the system refuses; for people.
    pub(super) fn new(cwd: &Path, patterns: &[String]) -> Result<Self, String> {
        let cwd = cwd.canonicalize().map_err(|error| format!("`{}`: {error}", cwd.display()))?;
        let mut set = GlobSetBuilder::new();
        let mut roots: Vec<PathBuf> = Vec::new();
        let mut named: Vec<String> = Vec::new();
        for pattern in patterns {
            let (root, glob) = split(&cwd, pattern)?;
            set.add(glob);
            roots.push(root);
            named.extend(
                SKIPPED.iter().filter(|name| pattern.contains(**name)).map(|name| (*name).to_owned()),
            );
        }
        let set = set.build().map_err(|error| error.to_string())?;
        let (sender, changes) = mpsc::channel(1);
        let touched = Arc::<Mutex<Touched>>::default();
        let noted = Arc::clone(&touched);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let mut touched = noted.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = match event {
                Ok(event) if !is_change(event.kind) => false,
                // Without a name it says that events were lost.
                Ok(event) if event.paths.is_empty() => touched.add(None),
                Ok(event) => event
                    .paths
                    .into_iter()
                    .filter(|path| is_of(&set, &named, path))
                    .fold(false, |_, path| touched.add(Some(path))),
                // Events were lost: any may have changed.
                Err(_) => touched.add(None),
            };
            drop(touched);
            if changed {
                // One that is not taken yet says all.
                let _ = sender.try_send(());
            }
        })
        .map_err(|error| format!("files cannot be watched: {error}"))?;
        roots.sort();
        roots.dedup();
        for root in &roots {
            watcher
                .watch(root, RecursiveMode::Recursive)
                .map_err(|error| format!("`{}` cannot be watched: {error}", root.display()))?;
        }
        Ok(Self { _watcher: watcher, changes, touched })
    }

    /// What changed; whoever looks takes it.
    pub(super) fn touched(&self) -> Arc<Mutex<Touched>> {
        Arc::clone(&self.touched)
    }

    /// Resolves when something changed since it was called last.
    pub(super) async fn changed(&mut self) {
        if self.changes.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

impl Touched {
    /// Something happened to this one, or to any.
    fn add(&mut self, path: Option<PathBuf>) -> bool {
        match path {
            Some(path) if self.paths.len() < MAX_TOUCHED => drop(self.paths.insert(path)),
            _ => self.more = true,
        }
        true
    }
}

fn is_of(set: &GlobSet, named: &[String], path: &Path) -> bool {
    let skipped = path.components().any(|part| {
        matches!(part, Component::Normal(name)
            if SKIPPED.iter().any(|skip| name == *skip) && !named.iter().any(|named| name == named.as_str()))
    });
    !skipped && set.is_match(path)
}

/// Looking at a file is no change of it.
fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)))
}

/// The directory below which a pattern matches, and the pattern from the root.
fn split(cwd: &Path, pattern: &str) -> Result<(PathBuf, globset::Glob), String> {
    let wrong = |what: &str| format!("--watch {pattern}: {what}");
    if pattern.is_empty() {
        return Err(wrong("it is empty"));
    }
    let is_plain = |part: &str| !part.contains(['*', '?', '[', '{', '\\']);
    let mut root = if pattern.starts_with('/') { PathBuf::from("/") } else { cwd.to_owned() };
    let mut rest = Vec::new();
    for part in pattern.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if rest.is_empty() && is_plain(part) {
            root.push(part);
        } else {
            rest.push(part);
        }
    }
    let mut root = root
        .canonicalize()
        .map_err(|error| wrong(&format!("`{}` is not there ({error})", root.display())))?;
    if root == Path::new("/") {
        return Err(wrong("that is everything on this machine: name the directories of the project"));
    }
    let escaped = globset::escape(&root.to_string_lossy());
    let glob = if !rest.is_empty() {
        format!("{}/{}", escaped.trim_end_matches('/'), rest.join("/"))
    } else if root.is_dir() {
        format!("{}/**", escaped.trim_end_matches('/'))
    } else {
        // A file that is replaced is another one: its directory sees both.
        root.pop();
        escaped
    };
    if !rest.is_empty() && !root.is_dir() {
        return Err(wrong(&format!("`{}` is no directory", root.display())));
    }
    let glob = GlobBuilder::new(&glob)
        .literal_separator(true)
        .build()
        .map_err(|error| wrong(&error.kind().to_string()))?;
    Ok((root, glob))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(cwd: &Path, pattern: &str, path: &str) -> bool {
        let (_, glob) = split(cwd, pattern).unwrap();
        glob.compile_matcher().is_match(cwd.join(path))
    }

    #[test]
    fn patterns_begin_at_the_working_directory() {
        let place = tempfile::tempdir().unwrap();
        let cwd = place.path().canonicalize().unwrap();
        std::fs::create_dir_all(cwd.join("src/deep")).unwrap();
        std::fs::write(cwd.join("one.js"), "").unwrap();
        for (pattern, path, expected) in [
            ("src", "src/deep/a.ts", true),
            ("./src/", "src/a.ts", true),
            ("src/**/*.ts", "src/a.ts", true),
            ("src/**/*.ts", "src/deep/a.ts", true),
            ("src/*.ts", "src/deep/a.ts", false),
            ("src/*.{ts,js}", "src/a.js", true),
            ("*.js", "one.js", true),
            ("*.js", "src/one.js", false),
            ("one.js", "one.js", true),
            ("one.js", "two.js", false),
            ("**/*.ts", "other/a.js", false),
        ] {
            assert_eq!(matches(&cwd, pattern, path), expected, "{pattern} {path}");
        }
        assert_eq!(split(&cwd, "src/**/*.ts").unwrap().0, cwd.join("src"));
        for wrong in ["", "gone/*.ts", "one.js/*", "src/[a"] {
            assert!(split(&cwd, wrong).unwrap_err().contains("--watch"), "{wrong}");
        }
        for wrong in ["/", "/**", "/*/x", "//"] {
            assert!(split(&cwd, wrong).unwrap_err().contains("everything on this machine"), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_the_projects_is_no_change_unless_it_is_named() {
        let place = tempfile::tempdir().unwrap();
        let cwd = place.path().canonicalize().unwrap();
        let (_, glob) = split(&cwd, "**").unwrap();
        let set = GlobSetBuilder::new().add(glob).build().unwrap();
        let inside = cwd.join("node_modules/x/y.js");
        assert!(!is_of(&set, &[], &inside));
        assert!(is_of(&set, &["node_modules".to_owned()], &inside));
        assert!(is_of(&set, &[], &cwd.join("y.js")));
    }
}
