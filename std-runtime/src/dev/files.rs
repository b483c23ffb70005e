//! What a server's command consists of, as a hash: whether a build changed anything.
//!
//! Only the project's own files count, those below the working directory that the command names. A script stands for its
//! whole directory, since it loads its neighbours. Where that says nothing (`npm start`), nobody can tell.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::Hasher as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// How many files of a directory are looked at, and how many bytes of all: beyond that nobody can tell.
const MAX_FILES: usize = 5000;
const MAX_BYTES: u64 = 256 << 20;
/// Directories that no build writes into, or whose content is not the project's.
const SKIPPED: &[&str] = &[".git", "node_modules", "__pycache__", ".venv"];

/// The hash of all files that the command names, if there are any and all could be read.
pub(super) fn fingerprint(cwd: &Path, command: &[String]) -> Option<u128> {
    let root = cwd.canonicalize().ok()?;
    let mut files = BTreeSet::new();
    for word in command {
        // Also `--require=./dist/hook.js`.
        let named = word.split_once('=').map_or(word.as_str(), |(_, value)| value);
        let Ok(path) = cwd.join(named).canonicalize() else { continue };
        if !path.starts_with(&root) || path == root {
            continue;
        }
        if path.is_dir() {
            gather(&path, &mut files)?;
        } else if is_program(&path) {
            files.insert(path);
        } else if let Some(directory) = path.parent() {
            gather(directory, &mut files)?;
        }
    }
    if files.is_empty() {
        return None;
    }
    let mut hasher = SipHasher24::new();
    let mut left = MAX_BYTES;
    let mut buffer = vec![0; 64 << 10];
    for path in files {
        hasher.write(path.as_os_str().as_encoded_bytes());
        let mut file = File::open(&path).ok()?;
        let mut length = 0_u64;
        loop {
            let read = file.read(&mut buffer).ok()?;
            if read == 0 {
                break;
            }
            length += read as u64;
            left = left.checked_sub(read as u64)?;
            hasher.write(buffer.get(..read).unwrap_or_default());
        }
        hasher.write_u64(length);
    }
    Some(hasher.finish128().as_u128())
}

/// A machine's program stands for itself.
fn is_program(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

fn gather(directory: &Path, files: &mut BTreeSet<PathBuf>) -> Option<()> {
    let mut waiting = vec![directory.to_owned()];
    let mut seen = 0;
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).ok()? {
            let entry = entry.ok()?;
            seen += 1;
            if seen > MAX_FILES {
                return None;
            }
            // Links are not followed: they may lead anywhere, and in circles.
            let kind = entry.file_type().ok()?;
            if kind.is_dir() && !SKIPPED.iter().any(|name| entry.file_name() == *name) {
                waiting.push(entry.path());
            } else if kind.is_file() {
                files.insert(entry.path());
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_script_stands_for_its_directory_and_a_program_for_itself() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("dist/node_modules")).unwrap();
        fs::write(at("dist/main.js"), "import './lib.js'").unwrap();
        fs::write(at("dist/lib.js"), "1").unwrap();
        let command = words(&["node", "dist/main.js"]);
        let first = fingerprint(place.path(), &command).unwrap();
        fs::write(at("dist/main.js"), "import './lib.js'").unwrap();
        assert_eq!(fingerprint(place.path(), &command), Some(first), "the same content is the same");
        fs::write(at("dist/node_modules/x.js"), "1").unwrap();
        fs::write(at("other.js"), "1").unwrap();
        assert_eq!(fingerprint(place.path(), &command), Some(first), "not what it is made of");
        fs::write(at("dist/lib.js"), "2").unwrap();
        assert_ne!(fingerprint(place.path(), &command), Some(first));

        fs::write(at("server"), b"\x7fELF1").unwrap();
        let command = words(&["./server", "--x=dist"]);
        let program = fingerprint(place.path(), &words(&["./server"])).unwrap();
        assert_ne!(fingerprint(place.path(), &command), Some(program));
        fs::write(at("server"), b"\x7fELF2").unwrap();
        assert_ne!(fingerprint(place.path(), &words(&["./server"])), Some(program));
    }

    #[test]
    fn where_the_command_names_no_file_nobody_can_tell() {
        let place = tempfile::tempdir().unwrap();
        for command in
            [&["npm", "start"][..], &["/bin/sh", "-c", "exit"], &["node", "gone.js"], &["x", "."], &[]]
        {
            assert_eq!(fingerprint(place.path(), &words(command)), None, "{command:?}");
        }
    }
}
