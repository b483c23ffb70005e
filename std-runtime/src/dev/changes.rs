//! Whether files that were written are other than before: a build that writes its output again has changed nothing.

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hasher as _;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use siphasher::sip128::{Hasher128 as _, SipHasher24};

use super::watch::Touched;

/// How much is read to find that out: beyond that a file that was written is taken for another one.
const MAX_BYTES: u64 = 64 << 20;
/// How many files are remembered.
const MAX_KNOWN: usize = 20_000;

/// What changed files were when they were looked at last.
pub(super) struct Changes {
    touched: Arc<Mutex<Touched>>,
    known: HashMap<PathBuf, State>,
    last: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Gone,
    /// A directory, or what cannot be read.
    There,
    /// With this content.
    Content(u128),
}

impl Changes {
    pub(super) fn new(touched: Arc<Mutex<Touched>>) -> Self {
        Self { touched, known: HashMap::new(), last: None }
    }

    /// Whether any of the files that were touched meanwhile is another one than when that was asked last. One that was
    /// not looked at before is.
    pub(super) fn compare(&mut self) -> bool {
        let touched = std::mem::take(&mut *self.touched.lock().unwrap_or_else(PoisonError::into_inner));
        let mut differ = touched.more;
        let mut left = MAX_BYTES;
        if self.known.len() + touched.paths.len() > MAX_KNOWN {
            self.known.clear();
        }
        for path in touched.paths {
            let state = state(&path, &mut left);
            let before = match state {
                Some(state) => self.known.insert(path.clone(), state),
                None => self.known.remove(&path),
            };
            if state.is_none() || before != state {
                differ = true;
                self.last = Some(path);
            }
        }
        differ
    }

    /// One of those that were other ones.
    pub(super) fn last(&self) -> Option<&Path> {
        self.last.as_deref()
    }
}

/// How it is; `None`: that takes too long to find out.
fn state(path: &Path, left: &mut u64) -> Option<State> {
    let mut file = match path.symlink_metadata() {
        // A pipe would keep us waiting.
        Ok(metadata) if !metadata.is_file() => return Some(State::There),
        Ok(_) => match File::open(path) {
            Ok(file) => file,
            Err(_) => return Some(State::There),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(State::Gone),
        Err(_) => return Some(State::There),
    };
    let mut hasher = SipHasher24::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Some(State::Content(hasher.finish128().as_u128())),
            Ok(read) => {
                *left = left.checked_sub(read as u64)?;
                hasher.write(buffer.get(..read).unwrap_or_default());
            }
            Err(_) => return Some(State::There),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_content_is_no_change() {
        let place = tempfile::tempdir().unwrap();
        let touched = Arc::<Mutex<Touched>>::default();
        let mut changes = Changes::new(Arc::clone(&touched));
        let mut compare = |names: &[&str]| {
            let paths = names.iter().map(|name| place.path().join(name));
            touched.lock().unwrap().paths.extend(paths);
            changes.compare()
        };
        let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
        assert!(!compare(&[]), "nothing was touched");
        write("a", "1");
        write("b", "1");
        assert!(compare(&["a"]), "nobody knew it");
        write("a", "1");
        assert!(!compare(&["a"]));
        assert!(compare(&["a", "b"]));
        write("b", "2");
        assert!(compare(&["a", "b"]));
        write("b", "1");
        assert!(compare(&["b"]), "it is what it was before the last one");
        std::fs::remove_file(place.path().join("b")).unwrap();
        assert!(compare(&["b"]));
        assert!(!compare(&["b"]), "it is gone still");
        std::fs::create_dir(place.path().join("b")).unwrap();
        assert!(compare(&["b"]));
        assert!(!compare(&["b"]));
    }

    #[test]
    fn where_nobody_can_tell_it_changed() {
        let place = tempfile::tempdir().unwrap();
        let touched = Arc::<Mutex<Touched>>::default();
        let mut changes = Changes::new(Arc::clone(&touched));
        let path = place.path().join("large");
        File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
        for _ in 0..2 {
            touched.lock().unwrap().paths.insert(path.clone());
            assert!(changes.compare());
        }
        assert_eq!(changes.last(), Some(path.as_path()));
        touched.lock().unwrap().more = true;
        assert!(changes.compare());
        assert!(!changes.compare());
    }
}
