//! Every behaviour of `tests/behaviours.md` names the tests that prove it, and these exist.
//!
//! A line of the list is ``- `id` What holds.``; below it stand lines `  - path/of/a/file.rs: test, test`. A test is a
//! function with `#[test]` or `#[tokio::test]`, also in `proptest!`, or a row of a macro that makes such functions; of a
//! table of rows (a directory beside a file with tests) it is a row's name in quotes, and of `.ci/run` a step.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What runs the tests that are no functions.
const CI: &str = ".ci/run";

#[derive(Debug, Default, PartialEq)]
struct Behaviour {
    id: String,
    text: String,
    /// Files and the tests in them.
    tests: Vec<(String, String)>,
}

/// Reads the list; what is wrong with its form.
fn read(list: &str) -> Result<Vec<Behaviour>, String> {
    let mut all: Vec<Behaviour> = Vec::new();
    for (number, line) in list.lines().enumerate() {
        let wrong = |what: &str| Err(format!("line {}: {what}: {line}", number + 1));
        if let Some(rest) = line.strip_prefix("- `") {
            let Some((id, text)) = rest.split_once("` ") else { return wrong("no id") };
            let is_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-');
            if id.is_empty() || !id.chars().all(is_id) {
                return wrong("not an id");
            }
            if all.iter().any(|known| known.id == id) {
                return wrong("an id that is there already");
            }
            if !text.ends_with('.') {
                return wrong("not a sentence");
            }
            all.push(Behaviour { id: id.into(), text: text.into(), tests: Vec::new() });
        } else if let Some(rest) = line.strip_prefix("  - ") {
            let Some(last) = all.last_mut() else { return wrong("tests of nothing") };
            let Some((file, tests)) = rest.split_once(": ") else { return wrong("no file") };
            last.tests.extend(tests.split(", ").map(|test| (file.to_owned(), test.trim().to_owned())));
        } else if !(line.is_empty() || line.starts_with('#') || all.is_empty()) {
            return wrong("neither a behaviour nor a test");
        }
    }
    Ok(all)
}

/// The sources, by path from the top of the repository.
struct Sources(BTreeMap<String, String>);

impl Sources {
    fn of(top: &Path) -> Self {
        let mut files = BTreeMap::new();
        for folder in ["core", "std-runtime", "cli", "tests", "fuzz"] {
            collect(top, &top.join(folder), &mut files);
        }
        files.insert(CI.to_owned(), fs::read_to_string(top.join(CI)).unwrap());
        Self(files)
    }

    /// The macros that make tests of their rows.
    fn macros(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        for text in self.0.values() {
            for (_, rest) in occurrences(text, "macro_rules! ") {
                let name = word(rest);
                if block(rest).is_some_and(|body| body.contains("#[test]")) {
                    names.insert(name);
                }
            }
        }
        names
    }

    fn has(&self, macros: &BTreeSet<&str>, file: &str, test: &str) -> bool {
        let Some(text) = self.0.get(file) else { return false };
        if file == CI {
            return text.contains(&format!("\n{test}() {{"));
        }
        if let Some(row) = test.strip_prefix('"').and_then(|test| test.strip_suffix('"')) {
            let beside = file.rsplit_once('/').map(|(directory, _)| format!("{directory}.rs"));
            let beside = beside.and_then(|beside| self.0.get(&beside));
            return beside.is_some_and(|beside| beside.contains("#[test]"))
                && text.contains(&format!("\"{row}\""));
        }
        let is_function = occurrences(text, &format!("fn {test}(")).any(|(at, _)| is_test(&text[..at]));
        is_function || macros.iter().any(|name| is_row(text, name, test))
    }
}

fn collect(top: &Path, directory: &Path, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !path.ends_with("target") && !path.ends_with("node_modules") {
                collect(top, &path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
            files.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

fn occurrences<'t>(text: &'t str, what: &str) -> impl Iterator<Item = (usize, &'t str)> {
    text.match_indices(what)
        .map(|(at, found)| (at, &text[at + found.len()..]))
        .collect::<Vec<_>>()
        .into_iter()
}

fn word(text: &str) -> &str {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default()
}

/// What stands in the first braces.
fn block(text: &str) -> Option<&str> {
    let start = text.find('{')?;
    let mut depth = 0_usize;
    for (at, c) in text[start..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return Some(&text[start + 1..start + at]);
        }
    }
    None
}

/// Whether a function whose head comes after that text is a test: by an attribute right before it.
fn is_test(before: &str) -> bool {
    let (lines, own) = before.rsplit_once('\n').unwrap_or(("", before));
    if own.trim_start().starts_with("//") {
        return false;
    }
    let attributes = lines.lines().rev().map(str::trim).take_while(|line| {
        line.starts_with("#[") || line.starts_with("//") || line.ends_with(")]") || line.is_empty()
    });
    attributes.into_iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

/// Whether that macro makes a test of a row of that name.
fn is_row(text: &str, name: &str, test: &str) -> bool {
    occurrences(text, &format!("{name}! {{")).any(|(at, _)| {
        block(&text[at..]).is_some_and(|rows| {
            rows.lines().map(str::trim).any(|line| {
                word(line) == test && line[test.len()..].chars().next().is_none_or(|next| next == ':')
            })
        })
    })
}

/// What is wrong with the list.
fn faults(list: &str, sources: &Sources) -> Vec<String> {
    let behaviours = match read(list) {
        Ok(behaviours) => behaviours,
        Err(fault) => return vec![fault],
    };
    let macros = sources.macros();
    let mut faults = Vec::new();
    for Behaviour { id, tests, .. } in &behaviours {
        if tests.is_empty() {
            faults.push(format!("{id} has no test"));
        }
        let missing = tests.iter().filter(|(file, test)| !sources.has(&macros, file, test));
        faults.extend(
            missing.map(|(file, test)| format!("{id} names a test that does not exist: {file}: {test}")),
        );
    }
    faults
}

#[test]
fn every_behaviour_has_a_test() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let list = fs::read_to_string(top.join("tests/behaviours.md")).unwrap();
    let faults = faults(&list, &Sources::of(top));
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn what_is_missing_is_found() {
    let file = r#"
macro_rules! rows { ($($name:ident)+) => { $(#[test] fn $name() {})+ } }
macro_rules! others { ($($name:ident)+) => {} }
rows! {
    in_rows
    named: 1, true;
}
others! {
    in_others
}
#[test]
#[allow(dead_code)]
fn plain() {}

proptest! {
    /// With a comment.
    #[test]
    fn property(x in any::<bool>()) {}
}

#[tokio::test(start_paused = true)]
async fn waits() {}

fn helper() {}

// fn commented(
async fn in_rows() {}
"#;
    let table = r#"row("a row")"#;
    let sources = Sources(
        [("core/a.rs", file), ("core/a/rows.rs", table)]
            .map(|(name, text)| (name.into(), text.into()))
            .into(),
    );
    let check =
        |tests: &str| faults(&format!("# Title\n\nSome text.\n\n- `x.y` It holds.\n{tests}"), &sources);
    for good in ["plain, property", "waits", "in_rows, named"] {
        assert_eq!(check(&format!("  - core/a.rs: {good}\n")), [] as [String; 0], "{good}");
    }
    assert_eq!(check("  - core/a/rows.rs: \"a row\"\n"), [] as [String; 0]);
    for bad in ["helper", "commented", "in_others", "none", "plai", "\"a row\""] {
        let tests = format!("  - core/a.rs: {bad}\n");
        assert_eq!(check(&tests), [format!("x.y names a test that does not exist: core/a.rs: {bad}")]);
    }
    assert_eq!(check("  - core/b.rs: plain\n").len(), 1);
    assert_eq!(check(""), ["x.y has no test"]);
    for wrong in ["- `X` It.\n", "- `x.y` It.\n", "- `z` no end\n", "- z It.\n", "  - nothing\n", "text\n"] {
        assert_eq!(check(wrong).len(), 1, "{wrong}");
    }
}
