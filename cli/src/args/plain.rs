//! The line that most calls are: `@name tools-call <tool> key=value…`, without a flag.
//!
//! Reads it without clap, whose grammar takes longer to set up than the call takes. What is not plainly that line is left
//! to clap, for which this reads nothing differently.

use super::{Check, Command, Given, Split};

/// The command, if the line is as plain as that.
pub(super) fn call(split: &Split) -> Option<Command> {
    let session =
        split.session.clone().filter(|_| split.verb.is_some_and(|verb| verb.name == "tools-call"))?;
    let plain = |word: &std::ffi::OsString| {
        word.to_str().filter(|word| !word.is_empty() && !word.starts_with('-')).map(str::to_owned)
    };
    let mut words = split.rest.iter().map(plain).collect::<Option<Vec<_>>>()?;
    if words.is_empty() {
        return None;
    }
    let tool = words.remove(0);
    let given = Given { words, ..Given::default() };
    Some(Command::ToolsCall { session, tool, given, check: Check::default(), task: None })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use proptest::prelude::*;

    use super::*;
    use crate::args::{Globals, parse_of};

    fn split(words: &[&str]) -> Option<Split> {
        Split::new(words.iter().map(OsString::from).collect()).ok()
    }

    fn by_clap(words: &[&str]) -> Option<Command> {
        let split = split(words)?;
        let (command, globals) = parse_of(split.verb?, split, Globals::default()).ok()?;
        (globals == Globals::default()).then_some(command)
    }

    #[test]
    fn what_is_not_plain_is_left_to_clap() {
        for words in [
            &["@s", "tools-call"][..],
            &["@s", "tools-call", ""],
            &["@s", "tools-call", "t", ""],
            &["@s", "tools-call", "t", "-"],
            &["@s", "tools-call", "--", "t"],
            &["@s", "tools-call", "t", "a=b", "--json"],
            &["--json", "@s", "tools-call", "t"],
            &["tools-call", "t", "a=b"],
            &["@s", "tools-get", "t"],
            &["@s", "ping"],
            &["@s"],
        ] {
            assert_eq!(split(words).and_then(|split| call(&split)), None, "{words:?}");
        }
    }

    #[test]
    fn sessions_and_verbs_in_either_order() {
        for words in [["@s", "tools-call", "t", "a=b"], ["tools-call", "@s", "t", "a=b"]] {
            let read = split(&words).and_then(|split| call(&split));
            assert!(read.is_some());
            assert_eq!(read, by_clap(&words));
        }
    }

    proptest! {
        /// Whatever the words: what is read here is what clap reads.
        #[test]
        fn it_reads_what_clap_reads(words in prop::collection::vec("[-@a-z=:{}\"0-9 é]{0,6}", 0..5)) {
            let words: Vec<&str> = ["@s", "tools-call"].into_iter().chain(words.iter().map(String::as_str)).collect();
            if let Some(read) = split(&words).and_then(|split| call(&split)) {
                prop_assert_eq!(Some(read), by_clap(&words));
            }
        }
    }
}
