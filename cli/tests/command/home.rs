//! A home in a temporary directory, and the real binary in it.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A home of its own, and drowse in it with nothing inherited that could matter.
#[derive(Debug)]
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drowse"));
        command
            .args(words)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("DROWSE_HOME", self.path().join("home"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, line: &str) -> Run {
        self.run_words(&line.split_whitespace().collect::<Vec<_>>())
    }

    pub(crate) fn run_words(&self, words: &[&str]) -> Run {
        Run::of(self.command(words).output().unwrap())
    }
}

impl Drop for Home {
    /// A test that failed halfway leaves no bridge behind. A home without locks never had one.
    fn drop(&mut self) {
        if self.path().join("home/locks").exists() {
            let _ = self.command(&["clean", "all"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The one failure document; nothing may stand on stdout, and nothing else on stderr.
    pub(crate) fn failure(&self) -> Value {
        assert_eq!(self.out, "", "{}", self.err);
        assert_eq!(self.err.lines().count(), 1, "{}", self.err);
        let document: Value = serde_json::from_str(&self.err).unwrap();
        for key in document.as_object().unwrap().keys() {
            assert!(
                ["error", "code", "kind", "ran", "_drowse"].contains(&key.as_str()),
                "{key} in {document}"
            );
        }
        assert_eq!(document["code"], self.code);
        assert!(document["error"].as_str().is_some_and(|error| !error.is_empty()));
        document
    }
}
