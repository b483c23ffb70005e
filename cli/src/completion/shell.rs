//! The shells: what each says of its line, and the form in which it takes candidates.

use serde_json::json;

use super::Candidate;
use super::line::{self, Syntax, Typed};

/// A shell that can complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    /// Gives the line up to the cursor, and the part of its last word that is going to be replaced. Takes that part's
    /// successors, quoted, each with the blank that ends it.
    Bash,
    /// Gives the words, the last one as it stands at the cursor. Takes quoted words: `+` or a blank (it goes on, or
    /// ends), the word, a tab, the description.
    Zsh,
    /// Gives the words, the last one as it stands there. Takes words as they are, a tab, the description.
    Fish,
    /// PowerShell. Gives the line in a variable. Takes the quoted word, a tab, the word, a tab, the description.
    Pwsh,
    /// No shell: words in, an array of objects out. For editors and tests.
    Json,
}

impl Shell {
    /// Those that there are scripts for.
    pub(crate) const ALL: [Self; 4] = [Self::Bash, Self::Zsh, Self::Fish, Self::Pwsh];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bash" => Self::Bash,
            "zsh" => Self::Zsh,
            "fish" => Self::Fish,
            "powershell" => Self::Pwsh,
            "json" => Self::Json,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
            Self::Pwsh => "powershell",
            Self::Json => "json",
        }
    }

    /// What is to be put into its start-up files.
    pub(crate) fn script(self) -> &'static str {
        match self {
            Self::Bash => include_str!("scripts/drowse.bash"),
            Self::Zsh => include_str!("scripts/_drowse"),
            Self::Fish => include_str!("scripts/drowse.fish"),
            Self::Pwsh => include_str!("scripts/drowse.ps1"),
            Self::Json => "",
        }
    }

    pub(super) fn read(self, given: &[String], variable: impl Fn() -> Option<String>) -> Option<Typed> {
        match self {
            Self::Bash => given.first().map(|line| line::split(line, Syntax::Posix)),
            Self::Pwsh => variable().map(|line| line::split(&line, Syntax::PowerShell)),
            Self::Zsh | Self::Fish | Self::Json => {
                let (raw, before) = given.split_last()?;
                let before = before.to_vec();
                let current =
                    if self == Self::Json { raw.clone() } else { line::unquote(raw, Syntax::Posix) };
                Some(Typed { before, current, raw: raw.clone(), quote: None })
            }
        }
        .map(|typed| self.with_replaced(typed, given))
    }

    /// bash replaces what stands after the last character that breaks words for readline: it knows best which.
    fn with_replaced(self, mut typed: Typed, given: &[String]) -> Typed {
        if let (Self::Bash, Some(word)) = (self, given.get(1)) {
            let kept = typed.raw.strip_suffix(word.as_str()).unwrap_or_default().len();
            typed.raw.truncate(kept);
        }
        typed
    }

    pub(super) fn write(self, typed: &Typed, candidates: &[Candidate]) -> String {
        if self == Self::Json {
            let all: Vec<_> = candidates
                .iter()
                .map(|one| json!({"value": one.value, "about": one.about, "goesOn": one.goes_on}))
                .collect();
            return json!(all).to_string() + "\n";
        }
        candidates.iter().filter_map(|candidate| self.line(typed, candidate)).collect()
    }

    fn line(self, typed: &Typed, Candidate { value, about, goes_on }: &Candidate) -> Option<String> {
        Some(match self {
            Self::Bash => {
                // What stays on the line, unquoted, is not repeated.
                let kept = line::unquote(&typed.raw, Syntax::Posix);
                let rest = value.strip_prefix(kept.as_str())?;
                match typed.quote {
                    // The quote is closed by readline.
                    Some(quote) => within(rest, quote) + "\n",
                    None => format!("{}{}\n", backslashed(rest), if *goes_on { "" } else { " " }),
                }
            }
            Self::Zsh => format!("{}{}\t{about}\n", if *goes_on { '+' } else { ' ' }, backslashed(value)),
            Self::Fish => format!("{value}\t{about}\n"),
            Self::Pwsh => {
                let listed = if about.is_empty() { value } else { about };
                format!("{}\t{value}\t{listed}\n", single_quoted(value))
            }
            Self::Json => return None,
        })
    }
}

/// A word for bash and zsh. A tilde at its start means the home directory, as in what was typed.
pub(super) fn backslashed(word: &str) -> String {
    let mut quoted = String::with_capacity(word.len());
    let rest = match word.strip_prefix("~/") {
        Some(rest) => {
            quoted.push_str("~/");
            rest
        }
        None => word,
    };
    for c in rest.chars() {
        if !(c.is_alphanumeric() || "-_./:=@%+,".contains(c)) {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted
}

/// What goes on within a quote of bash.
fn within(word: &str, quote: char) -> String {
    if quote == '\'' {
        return word.replace('\'', r"'\''");
    }
    let mut quoted = String::with_capacity(word.len());
    for c in word.chars() {
        if "\\\"$`".contains(c) {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted
}

/// A word for PowerShell, where a bare `@name` would be a variable.
fn single_quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=\\".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    // Typographic quotes are quotes there, too.
    let mut quoted = String::from("'");
    for c in word.chars() {
        if "'\u{2018}\u{2019}\u{201a}\u{201b}".contains(c) {
            quoted.push(c);
        }
        quoted.push(c);
    }
    quoted + "'"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(value: &str, goes_on: bool) -> Candidate {
        Candidate { value: value.into(), about: "what".into(), goes_on }
    }

    fn words(given: &[&str]) -> Vec<String> {
        given.iter().map(|word| (*word).to_owned()).collect()
    }

    fn bash(line: &str, word: &str, value: &str) -> String {
        let typed = Shell::Bash.read(&words(&[line, word]), || None).unwrap();
        Shell::Bash.write(&typed, &[candidate(value, false)])
    }

    #[test]
    fn bash_gets_what_follows_the_part_that_it_keeps() {
        assert_eq!(bash("drowse @f", "@f", "@files"), "@files \n");
        assert_eq!(bash("drowse a.json:fi", "fi", "a.json:files"), "files \n");
        assert_eq!(bash("drowse tools-call e kind=", "", "kind=it's"), "it\\'s \n");
        assert_eq!(bash("drowse 'x y", "x y", "x y's"), "x y'\\''s\n");
        assert_eq!(bash("drowse \"x", "x", "x$y"), "x\\$y\n");
        assert_eq!(bash(r"drowse a\ b", r"a\ b", "a b;c"), "a\\ b\\;c \n");
        assert_eq!(bash("drowse ", "", "$(rm x)`y`"), "\\$\\(rm\\ x\\)\\`y\\` \n");
        let typed = Shell::Bash.read(&words(&["drowse ~/d", "~/d"]), || None).unwrap();
        assert_eq!(Shell::Bash.write(&typed, &[candidate("~/dir/", true)]), "~/dir/\n");
    }

    #[test]
    fn the_others_get_words_with_descriptions() {
        let typed = Shell::Zsh.read(&words(&["@s", "x\\ "]), || None).unwrap();
        assert_eq!((typed.before.as_slice(), typed.current.as_str()), (&["@s".to_owned()][..], "x "));
        let both = [candidate("a b", false), candidate("k=", true)];
        assert_eq!(Shell::Zsh.write(&typed, &both), " a\\ b\twhat\n+k=\twhat\n");
        assert_eq!(Shell::Fish.write(&typed, &both), "a b\twhat\nk=\twhat\n");
        assert_eq!(
            Shell::Json.write(&typed, &both[..1]),
            "[{\"value\":\"a b\",\"about\":\"what\",\"goesOn\":false}]\n"
        );
        let typed = Shell::Pwsh.read(&[], || Some("drowse '@s' to".into())).unwrap();
        assert_eq!((typed.before.as_slice(), typed.current.as_str()), (&["@s".to_owned()][..], "to"));
        for (value, quoted) in
            [("@files", "'@files'"), ("tools-list", "tools-list"), ("it's", "'it''s'"), ("$x", "'$x'")]
        {
            let line = Shell::Pwsh.write(&typed, &[candidate(value, false)]);
            assert_eq!(line, format!("{quoted}\t{value}\twhat\n"));
        }
    }
}
