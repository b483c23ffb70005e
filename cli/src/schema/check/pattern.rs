//! Patterns of ECMAScript, which schemas are written in, for the engine that there is.
//!
//! Only what would give another answer is rewritten: white space, which there is all of Unicode's, and control letters. What
//! the engine does not know at all it refuses, and then nobody builds on it.

use regex_lite::{Regex, RegexBuilder};

/// The longest pattern that is tried, in bytes, and what it may take when it is compiled.
const LENGTH: usize = 4096;
const SIZE: usize = 1 << 16;
/// White space and line ends (ECMA-262, `CharacterClassEscape`), as they stand in a class.
const SPACE: &str =
    r"\t\n\x0B\x0C\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}";

/// The pattern, ready to be looked for; `None` if that cannot be done.
pub(super) fn compile(pattern: &str) -> Option<Regex> {
    if pattern.len() > LENGTH {
        return None;
    }
    RegexBuilder::new(&rewritten(pattern)).size_limit(SIZE).build().ok()
}

fn rewritten(pattern: &str) -> String {
    let mut written = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    let mut in_class = false;
    while let Some(next) = rest.next() {
        match next {
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
        if next != '\\' {
            written.push(next);
            continue;
        }
        match rest.next() {
            Some('s') if in_class => written.push_str(SPACE),
            Some('s') => written.extend(["[", SPACE, "]"]),
            Some('S') if !in_class => written.extend(["[^", SPACE, "]"]),
            Some('c') => match rest.clone().next().filter(char::is_ascii_alphabetic) {
                Some(letter) => {
                    rest.next();
                    written.push_str(&format!("\\x{:02X}", u32::from(letter) % 32));
                }
                None => written.push_str("\\c"),
            },
            escaped => {
                written.push('\\');
                written.extend(escaped);
            }
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ecmascript_means() {
        for (pattern, found, not) in [
            (r"^\s$", &["\u{A0}", "\u{FEFF}", " ", "\n", "\u{2003}"][..], &["a", "", "\u{200B}"][..]),
            (r"^\S+$", &["a-b", "\u{200B}"], &["a b", "\u{2029}", "\u{3000}"]),
            (r"^[\sx]+$", &["x \u{A0}x"], &["y"]),
            (r"^[^\s]$", &["y"], &["\u{A0}"]),
            (r"^\cA\cz$", &["\u{1}\u{1A}"], &["cA", "AZ"]),
            (r"^\\s$", &["\\s"], &["\\ ", " "]),
            (r"^\d\w$", &["1a"], &["\u{0967}a", "1\u{E9}"]),
            (r"^[a-z\-\.\/]+$", &["a-/."], &["A"]),
            (r"^\u00e9$", &["\u{E9}"], &["e"]),
        ] {
            let regex = compile(pattern).unwrap_or_else(|| panic!("{pattern}"));
            for text in found {
                assert!(regex.is_match(text), "{pattern} {text:?}");
            }
            for text in not {
                assert!(!regex.is_match(text), "{pattern} {text:?}");
            }
        }
        let long = r"\s".repeat(LENGTH);
        for unknown in [&long, "(?=x)", r"(a)\1", r"\p{Letter}", "((", r"\", r"\c", &"(a{50}){50}".repeat(50)]
        {
            assert!(compile(unknown).is_none(), "{unknown}");
        }
    }
}
