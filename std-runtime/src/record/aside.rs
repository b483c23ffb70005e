//! Records that are damaged: they are renamed, never removed, and what can be told without them is written anew.
//!
//! Takes no lock: who calls this holds L while B is free.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{RecordError, SCHEMA, State, StateRecord, write_state};
use crate::home::{Home, HomeError, SessionName};
use crate::regular;

/// What the names of files end with that were set aside, before their number.
const SET_ASIDE: &str = ".damaged-";
/// How many are kept of each: a disk or a program that damages a record again and again must not fill the directory.
const MOST: u32 = 100;
/// So much of a damaged record is looked at.
const LOOKED_AT: u64 = 1 << 16;

/// Sets a damaged `state.json` aside and writes it anew. Answers where the damaged one is now.
///
/// # Errors
/// If the file system refuses.
pub(crate) fn rebuild_state(home: &Home, name: &SessionName) -> Result<(StateRecord, PathBuf), RecordError> {
    let file = home.state_file(name);
    let rebuilt = rebuilt(&file);
    let aside = set_aside(&file).map_err(|e| HomeError::io("set aside", &file, e))?;
    write_state(home, name, &rebuilt)?;
    Ok((rebuilt, aside))
}

/// What is known of a session after its record was lost: that it sleeps, and how often it was started, if that can
/// still be read.
fn rebuilt(damaged: &Path) -> StateRecord {
    let text = regular::start_of(damaged, LOOKED_AT).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let generation = text.split_once("\"generation\":").and_then(|(_, rest)| {
        let rest = rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        // Far from where a key of it would not fit any more.
        rest.get(..end)?.parse().ok().filter(|generation| *generation < 1 << 32)
    });
    StateRecord {
        schema: SCHEMA,
        generation: generation.unwrap_or(0),
        state: State::Idle,
        message: Some("its record was damaged and written anew".to_owned()),
        ..StateRecord::dormant()
    }
}

/// Renames a file, or whatever else stands there, to the first name that is free.
///
/// # Errors
/// If the file system refuses.
pub(crate) fn set_aside(file: &Path) -> io::Result<PathBuf> {
    let mut last = aside(file, MOST);
    for number in 1..=MOST {
        let aside = aside(file, number);
        // Not `exists`: a link that leads nowhere is a name, too.
        if fs::symlink_metadata(&aside).is_err() {
            last = aside;
            break;
        }
    }
    fs::rename(file, &last)?;
    Ok(last)
}

/// The last file that was set aside for this one.
pub(crate) fn set_aside_before(file: &Path) -> Option<PathBuf> {
    (1..=MOST)
        .map(|number| aside(file, number))
        .take_while(|aside| fs::symlink_metadata(aside).is_ok())
        .last()
}

fn aside(file: &Path, number: u32) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(format!("{SET_ASIDE}{number}"));
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_state_is_set_aside_and_its_generation_kept() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path().join("h"), None);
        home.prepare().unwrap();
        let name = SessionName::new("x").unwrap();
        super::super::make_directory(&home, &name).unwrap();
        let file = home.state_file(&name);
        for (text, generation) in [
            ("{\"schema\":1,\"generation\": 7,\"mar", 7),
            ("{\"generation\":99999999999,", 0),
            ("\u{fffd}", 0),
        ] {
            fs::write(&file, text).unwrap();
            let (state, aside) = rebuild_state(&home, &name).unwrap();
            assert_eq!(
                (state.generation, state.state, state.ended),
                (generation, State::Idle, true),
                "{text}"
            );
            assert_eq!(super::super::read_state(&home, &name).unwrap(), Some(state));
            assert_eq!(fs::read_to_string(&aside).unwrap(), text);
            assert_eq!(set_aside_before(&file), Some(aside));
        }
        // A directory with something in it is kept as well.
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        fs::write(file.join("a"), "").unwrap();
        let (state, aside) = rebuild_state(&home, &name).unwrap();
        assert!(aside.ends_with("state.json.damaged-4") && aside.join("a").exists());
        assert_eq!(state.generation, 0);
    }

    #[test]
    fn not_without_bound() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("f");
        for number in 0..MOST + 5 {
            fs::write(&file, number.to_string()).unwrap();
            set_aside(&file).unwrap();
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), MOST as usize);
        assert_eq!(fs::read_to_string(aside(&file, MOST)).unwrap(), (MOST + 4).to_string());
    }
}
