//! Command lines taken apart as shells do, as far as they are typed.

/// A line up to the cursor.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Typed {
    /// The words after the program, unquoted.
    pub(super) before: Vec<String>,
    /// The word at the cursor, unquoted; empty after a blank.
    pub(super) current: String,
    /// The same as it stands there.
    pub(super) raw: String,
    /// The quote that is open at the cursor.
    pub(super) quote: Option<char>,
}

/// How a shell quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// bash, and near enough zsh and fish.
    Posix,
    PowerShell,
}

/// Takes a line apart, with the program as its first word.
pub(super) fn split(line: &str, syntax: Syntax) -> Typed {
    let mut typed = words(line, syntax);
    if typed.before.is_empty() {
        // The cursor is on the program itself.
        return Typed::default();
    }
    typed.before.remove(0);
    typed
}

/// A single word, as it stands on the line.
pub(super) fn unquote(raw: &str, syntax: Syntax) -> String {
    let typed = words(&raw.replace([' ', '\t', '\n'], "\u{a0}"), syntax);
    typed.current.replace('\u{a0}', " ")
}

fn words(line: &str, syntax: Syntax) -> Typed {
    let escape = match syntax {
        Syntax::Posix => '\\',
        Syntax::PowerShell => '`',
    };
    let mut typed = Typed::default();
    let mut word: Option<String> = None;
    let mut start = 0;
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let open = typed.quote;
        if open.is_none() && c.is_whitespace() && c != '\u{a0}' {
            typed.before.extend(word.take());
            start = at + c.len_utf8();
            continue;
        }
        let word = word.get_or_insert_with(String::new);
        match (open, c) {
            (None, '\'' | '"') => typed.quote = Some(c),
            (Some(quote), c) if c == quote => {
                // Twice in PowerShell is the quote itself.
                if syntax == Syntax::PowerShell && chars.next_if(|(_, next)| *next == quote).is_some() {
                    word.push(quote);
                } else {
                    typed.quote = None;
                }
            }
            (None | Some('"'), c) if c == escape => match chars.peek().copied() {
                None => {}
                Some((_, next)) if open.is_some() && syntax == Syntax::Posix && !"\\\"$`".contains(next) => {
                    word.push(c);
                }
                Some((_, next)) => {
                    chars.next();
                    word.push(next);
                }
            },
            (_, c) => word.push(c),
        }
    }
    if let Some(word) = word {
        typed.current = word;
        typed.raw = line.get(start..).unwrap_or_default().to_owned();
    }
    typed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str, syntax: Syntax) -> (Vec<String>, String, String, Option<char>) {
        let Typed { before, current, raw, quote } = split(line, syntax);
        (before, current, raw, quote)
    }

    #[test]
    fn lines_are_taken_apart_as_bash_does() {
        let bash = |line| typed(line, Syntax::Posix);
        assert_eq!(bash("drowse @s to"), (vec!["@s".into()], "to".into(), "to".into(), None));
        assert_eq!(bash("drowse "), (vec![], String::new(), String::new(), None));
        assert_eq!(bash("drow"), (vec![], String::new(), String::new(), None));
        assert_eq!(bash(r"d a\ b c\"), (vec!["a b".into()], "c".into(), r"c\".into(), None));
        assert_eq!(bash(r#"d "a\"b\n" 'c"d'e "f g"#).0, [r#"a"b\n"#, r#"c"de"#]);
        assert_eq!(bash(r#"d "f g"#), (vec![], "f g".into(), "\"f g".into(), Some('"')));
        assert_eq!(bash("d ''  x").0, [""]);
    }

    #[test]
    fn and_as_powershell_does() {
        let line = |line| typed(line, Syntax::PowerShell);
        assert_eq!(line("drowse '@s' a`b 'it''s' x=\"q").0, ["@s", "ab", "it's"]);
        assert_eq!(line("drowse '@f"), (vec![], "@f".into(), "'@f".into(), Some('\'')));
    }

    #[test]
    fn one_word_keeps_its_blanks() {
        assert_eq!(unquote(r"a\ b", Syntax::Posix), "a b");
        assert_eq!(unquote("'a b", Syntax::Posix), "a b");
        assert_eq!(unquote("", Syntax::Posix), "");
    }
}
