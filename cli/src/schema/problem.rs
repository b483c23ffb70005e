//! What does not fit, and where: for people.

use std::collections::BTreeSet;
use std::{fmt, io};

use serde_json::Value as Json;

use crate::text::one_line;

/// How much of a value is told.
const VALUE: usize = 60;
/// How much of anything else.
const WORDS: usize = 200;

/// A place in a value.
#[derive(Debug)]
pub(super) enum Place<'a> {
    Root,
    Member(&'a Self, &'a str),
    Item(&'a Self, usize),
}

/// Something that does not fit.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) place: String,
    pub(super) what: What,
}

/// The first bytes of a value's JSON, enough to be told.
pub(super) fn head(value: &Json) -> String {
    struct Head(Vec<u8>);
    impl io::Write for Head {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // An error ends the writing, however large the value is.
            let room = (4 * VALUE).checked_sub(self.0.len()).filter(|room| *room > 0);
            let taken = bytes.len().min(room.ok_or(io::ErrorKind::WriteZero)?);
            self.0.extend(bytes.iter().take(taken));
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut head = Head(Vec::new());
    let _ = serde_json::to_writer(&mut head, value);
    String::from_utf8_lossy(&head.0).into_owned()
}

/// What is wrong at a place.
#[derive(Debug)]
pub(super) enum What {
    Missing,
    /// There may be nothing there.
    Unknown {
        meant: Option<String>,
    },
    NotAllowed,
    /// Types, and values as JSON, of which it is none.
    Expected {
        value: String,
        expected: BTreeSet<String>,
    },
    /// What goes on after the place.
    Said(String),
}

/// As much of a name as is ever told.
fn start(name: &str) -> &str {
    let end = (0..=name.len().min(4 * WORDS)).rev().find(|end| name.is_char_boundary(*end));
    name.get(..end.unwrap_or(0)).unwrap_or(name)
}

impl fmt::Display for Place<'_> {
    /// As people write it: `items[0].id`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(Self::Root, name) => f.write_str(start(name)),
            Self::Member(before, name) => write!(f, "{before}.{}", start(name)),
            Self::Item(before, index) => write!(f, "{before}[{index}]"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.place.as_str() {
            "" => "it".to_owned(),
            place => format!("`{}`", one_line(place, 120)),
        };
        match &self.what {
            What::Missing => write!(f, "{place} is missing"),
            What::Unknown { meant: None } => write!(f, "there is no {place}"),
            What::Unknown { meant: Some(meant) } => {
                write!(f, "there is no {place}; did you mean `{}`?", one_line(meant, VALUE))
            }
            What::NotAllowed => write!(f, "{place} is not allowed"),
            What::Expected { value, expected } => {
                let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
                let expected = one_line(&expected.join(" or "), WORDS);
                write!(f, "{place} is {}, but {expected} is expected", one_line(value, VALUE))
            }
            What::Said(text) => write!(f, "{place} {}", one_line(text, WORDS)),
        }
    }
}
