//! `${VAR}`, `${VAR:-default}` and `${env:VAR}` in strings of a configuration.
//!
//! Owns the grammar only. Values come from a function; nothing here knows the environment.

/// How deep defaults may nest.
const MAX_DEPTH: usize = 16;

/// Why a string cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpandError {
    /// A variable without a value or a default.
    #[error("the variable {name} is not set: set it, or give it a default, ${{{name}:-…}}")]
    Unset {
        /// The variable.
        name: String,
    },
    /// A form of another program's.
    #[error(
        "${{{text}}} is not a variable of the environment: drowse knows ${{NAME}}, ${{NAME:-default}} and ${{env:NAME}}"
    )]
    Foreign {
        /// What stands between the braces.
        text: String,
    },
    /// Defaults in defaults in defaults.
    #[error("defaults nest more than {MAX_DEPTH} deep")]
    TooDeep,
}

/// Replaces each variable by what `value` gives for it, or its default. A default is used also for an empty
/// value, as in a shell. What only looks like a variable is left alone.
///
/// # Errors
/// If a variable has neither value nor default, or is of a form that only another program knows.
pub fn expand(text: &str, value: &mut dyn FnMut(&str) -> Option<String>) -> Result<String, ExpandError> {
    expand_at(text, value, 0)
}

/// The names of all variables that `text` mentions, defaults included.
pub fn variables(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    // Every variable has an empty value here, so that defaults are looked into as well.
    let _ = expand(text, &mut |name| {
        names.push(name.to_owned());
        Some(String::new())
    });
    names
}

fn expand_at(
    text: &str,
    value: &mut dyn FnMut(&str) -> Option<String>,
    depth: usize,
) -> Result<String, ExpandError> {
    if depth > MAX_DEPTH {
        return Err(ExpandError::TooDeep);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let inner_and_on = &from[2..];
        let Some(end) = closing(inner_and_on) else {
            out.push_str(from);
            return Ok(out);
        };
        let inner = &inner_and_on[..end];
        rest = &inner_and_on[end + 1..];
        match Form::of(inner) {
            Form::Variable { name, default: None } => match value(name) {
                Some(text) => out.push_str(&text),
                None => return Err(ExpandError::Unset { name: name.to_owned() }),
            },
            Form::Variable { name, default: Some(default) } => match value(name) {
                Some(text) if !text.is_empty() => out.push_str(&text),
                _ => out.push_str(&expand_at(default, value, depth + 1)?),
            },
            Form::Foreign => return Err(ExpandError::Foreign { text: inner.to_owned() }),
            Form::Literal => {
                out.push_str("${");
                out.push_str(inner);
                out.push('}');
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

enum Form<'a> {
    Variable { name: &'a str, default: Option<&'a str> },
    Foreign,
    Literal,
}

impl<'a> Form<'a> {
    fn of(inner: &'a str) -> Self {
        let plain = inner.strip_prefix("env:").unwrap_or(inner);
        let (name, default) = match plain.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (plain, None),
        };
        if is_name(name) {
            return Self::Variable { name, default };
        }
        match inner.split_once(':') {
            Some((scheme, _)) if is_name(scheme) => Self::Foreign,
            _ => Self::Literal,
        }
    }
}

fn is_name(text: &str) -> bool {
    text.bytes()
        .enumerate()
        .all(|(i, b)| b == b'_' || b.is_ascii_alphabetic() || (i > 0 && b.is_ascii_digit()))
        && !text.is_empty()
}

/// Where the brace that was opened before `text` is closed.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'{' => depth += 1,
            b'}' if depth == 0 => return Some(i),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<String, ExpandError> {
        expand(text, &mut |name| match name {
            "A" => Some("a".into()),
            "DOLLAR" => Some("${A}".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn forms() {
        for (text, want) in [
            ("", ""),
            ("plain", "plain"),
            ("${A}", "a"),
            ("x${A}y${env:A}z", "xayaz"),
            ("${A:-b}", "a"),
            ("${NO:-b}", "b"),
            ("${NO:-}", ""),
            ("${EMPTY:-b}", "b"),
            ("${EMPTY}", ""),
            ("${env:NO:-b}", "b"),
            ("${NO:-${A}}", "a"),
            ("${NO:-{}}", "{}"),
            // Values are not looked into again.
            ("${DOLLAR}", "${A}"),
            // Not ours: a shell's own forms, and what never closes.
            ("$A $$ ${", "$A $$ ${"),
            ("${A", "${A"),
            ("${}", "${}"),
            ("${#x[@]}", "${#x[@]}"),
            ("${1}", "${1}"),
            ("é${A}é", "éaé"),
        ] {
            assert_eq!(with(text).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn errors_name_the_variable() {
        assert_eq!(with("${NO}"), Err(ExpandError::Unset { name: "NO".into() }));
        assert_eq!(with("${env:NO}"), Err(ExpandError::Unset { name: "NO".into() }));
        assert_eq!(with("${NO:-${NEITHER}}"), Err(ExpandError::Unset { name: "NEITHER".into() }));
        assert_eq!(with("${input:key}"), Err(ExpandError::Foreign { text: "input:key".into() }));
        let deep = format!("{}x{}", "${NO:-".repeat(20), "}".repeat(20));
        assert_eq!(with(&deep), Err(ExpandError::TooDeep));
        let text = with("${NO}").unwrap_err().to_string();
        assert!(text.contains("NO is not set") && text.contains("${NO:-…}"), "{text}");
    }

    #[test]
    fn variables_of_a_string() {
        assert_eq!(variables("${A} ${B:-${C}} ${env:D} $E"), ["A", "B", "C", "D"]);
        assert!(variables("none").is_empty());
    }
}
