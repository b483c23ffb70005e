//! Manual pages, in roff: one for `drowse`, one for each verb.
//!
//! Owns the way from the table of verbs and their clap commands to pages. Says nothing that the help does not say.

use std::fmt::Write as _;

use clap::{Arg, ArgAction};

use super::{BARE, Session, VERBS, Verb, command, topics};

/// The pages by their names, without the section.
pub(crate) fn pages() -> impl Iterator<Item = (String, String)> {
    let verbs = visible().map(|verb| (page_name(verb), page(verb)));
    std::iter::once(("drowse".to_owned(), overview())).chain(verbs)
}

/// The page of one verb.
pub(crate) fn page(verb: &Verb) -> String {
    let name = page_name(verb);
    let mut roff = head(&name, verb.about);
    roff.push_str(".SH SYNOPSIS\n");
    let target = match verb.session {
        Session::Required | Session::OrServer => "drowse @name",
        _ => "drowse",
    };
    let flags = if verb.usage.contains("[flags]") { "" } else { " [flags]" };
    for (index, usage) in format!("{} {}{flags}", verb.name, verb.usage).lines().enumerate() {
        // Further lines of a usage name the program themselves.
        let line =
            if index == 0 { format!("{target} {}", usage.trim_end()) } else { usage.trim().to_owned() };
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(roff, "{}.B {}", if index == 0 { "" } else { ".br\n" }, escaped(&line));
    }
    roff.push_str(".SH DESCRIPTION\n");
    paragraph(&mut roff, &format!("{}.", verb.about));
    body(&mut roff, verb.details);
    options(&mut roff, verb);
    roff.push_str(".SH SEE ALSO\n.BR drowse (1)\n");
    roff
}

/// The page of `drowse` itself.
pub(crate) fn overview() -> String {
    let mut roff = head("drowse", "keeps MCP servers asleep until somebody needs them");
    roff.push_str(
        ".SH SYNOPSIS\n.B drowse\n.br\n.B drowse @name\n.br\n.B drowse [@name] command [argument]...\n",
    );
    roff.push_str(".SH DESCRIPTION\n");
    paragraph(
        &mut roff,
        "A session is one MCP server, kept under a name. Its server is started by the first command that needs it, let go \
         after a time without use, and woken by the next command. Without arguments the sessions are listed; with a \
         session alone its server is shown. Flags may stand anywhere.",
    );
    roff.push_str(".SH COMMANDS\n");
    for verb in visible() {
        let _ = write!(roff, ".TP\n.BR {} (1)\n", escaped(&page_name(verb)));
        line(&mut roff, &format!("{}.", verb.about));
    }
    options(&mut roff, &BARE);
    roff.push_str(".SH TOPICS\n");
    for topic in topics::TOPICS {
        let _ = write!(roff, ".TP\n.B drowse help {}\n", escaped(topic.name));
        line(&mut roff, &format!("{}.", topic.about));
    }
    roff.push_str(".SH ENVIRONMENT\n");
    for (name, about) in [
        ("DROWSE_HOME", "Where sessions are kept; else $XDG_STATE_HOME/drowse, else ~/.local/state/drowse."),
        ("DROWSE_RUNTIME", "Where locks and sockets are, if the home is on a network file system."),
        ("DROWSE_JSON", "Print JSON, as with --json."),
        ("DROWSE_VERBOSE", "Say more on stderr, as with --verbose."),
        ("NO_COLOR, CLICOLOR, CLICOLOR_FORCE", "No colours, or colours in any case."),
    ] {
        let _ = write!(roff, ".TP\n.B {}\n", escaped(name));
        line(&mut roff, about);
    }
    roff.push_str(".SH EXIT STATUS\n");
    paragraph(
        &mut roff,
        "0: done. 1: usage. 2: the server. 3: network or time-out. 4: authorization. 130: interrupted.",
    );
    roff
}

fn visible() -> impl Iterator<Item = &'static Verb> {
    VERBS.iter().filter(|verb| !verb.about.is_empty())
}

fn page_name(verb: &Verb) -> String {
    format!("drowse-{}", verb.name)
}

fn head(name: &str, about: &str) -> String {
    // Words are there to be copied: none is hyphenated.
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".TH {} 1 \"\" \"drowse {version}\" \"drowse\"\n.nh\n.SH NAME\n{} \\- {}\n",
        escaped(&name.to_uppercase()),
        escaped(name),
        escaped(about)
    )
}

/// The arguments and flags, as clap knows them.
fn options(roff: &mut String, verb: &Verb) {
    let mut command = command(verb);
    command.build();
    let shown = |positional: bool| {
        command.get_arguments().filter(move |arg| arg.is_positional() == positional && !arg.is_hide_set())
    };
    if shown(true).next().is_some() {
        roff.push_str(".SH ARGUMENTS\n");
        shown(true).for_each(|arg| option(roff, arg));
    }
    roff.push_str(".SH OPTIONS\n");
    shown(false).for_each(|arg| option(roff, arg));
}

fn option(roff: &mut String, arg: &Arg) {
    let mut names: Vec<String> = Vec::new();
    names.extend(arg.get_short().map(|short| format!("-{short}")));
    names.extend(arg.get_long().map(|long| format!("--{long}")));
    let mut term = if names.is_empty() { arg.get_id().to_string() } else { names.join(", ") };
    if !names.is_empty()
        && matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
        && let Some(value) = arg.get_value_names().and_then(|names| names.first())
    {
        term.push(' ');
        term.push_str(value);
    }
    let _ = write!(roff, ".TP\n.B {}\n", escaped(&term));
    let mut about = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let possible: Vec<_> = arg.get_possible_values().iter().map(|one| one.get_name().to_owned()).collect();
    if arg.get_action().takes_values() && !possible.is_empty() && !arg.is_hide_possible_values_set() {
        let _ = write!(about, " [{}]", possible.join(", "));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|one| one.to_string_lossy()).collect();
    if arg.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(about, " [default: {}]", defaults.join(" "));
    }
    line(roff, &about);
}

/// Help texts: paragraphs, indented lines that are filled, and tables that are not.
fn body(roff: &mut String, text: &str) {
    for block in text.split("\n\n") {
        let mut lines = block.lines().peekable();
        let mut plain = Vec::new();
        while let Some(first) = lines.next_if(|line| !line.starts_with(' ')) {
            plain.push(first);
        }
        if !plain.is_empty() {
            paragraph(roff, &plain.join("\n"));
        }
        let indented: Vec<&str> = lines.collect();
        if indented.is_empty() {
            continue;
        }
        let is_table = indented.iter().any(|line| line.trim().contains("  ") || line.starts_with("    "));
        roff.push_str(if is_table { ".PP\n.RS 2n\n.nf\n" } else { ".RS 2n\n" });
        let mut ended = false;
        for text in indented {
            if !is_table && ended {
                roff.push_str(".br\n");
            }
            ended = text.ends_with('.');
            line(roff, text.strip_prefix("  ").unwrap_or(text));
        }
        roff.push_str(if is_table { ".fi\n.RE\n" } else { ".RE\n" });
    }
}

fn paragraph(roff: &mut String, text: &str) {
    roff.push_str(".PP\n");
    text.lines().for_each(|text| line(roff, text));
}

/// A line of text, which is no request whatever it begins with.
fn line(roff: &mut String, text: &str) {
    let guard = if text.starts_with(['.', '\'', ' ']) { "\\&" } else { "" };
    let _ = writeln!(roff, "{guard}{}", escaped(text));
}

/// Text as it is: hyphens that can be copied, quotes that stay straight, and ASCII only.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\(rs"),
            '-' => escaped.push_str("\\-"),
            '\'' => escaped.push_str("\\(aq"),
            '"' => escaped.push_str("\\(dq"),
            '`' => escaped.push_str("\\(ga"),
            '^' => escaped.push_str("\\(ha"),
            '~' => escaped.push_str("\\(ti"),
            c if c.is_ascii() => escaped.push(c),
            c => {
                let _ = write!(escaped, "\\[u{:04X}]", u32::from(c));
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped(r#"a-b 'c' "d" \ é ~"#), r"a\-b \(aqc\(aq \(dqd\(dq \(rs \[u00E9] \(ti");
        let mut roff = String::new();
        line(&mut roff, ".PP");
        assert_eq!(roff, "\\&.PP\n");
    }

    #[test]
    fn every_visible_verb_has_a_page_with_its_flags() {
        assert_eq!(pages().count(), visible().count() + 1);
        for verb in visible() {
            let page = page(verb);
            assert!(page.is_ascii() && page.starts_with(".TH DROWSE\\-"), "{page}");
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SEE ALSO"] {
                assert!(page.contains(&format!("\n.SH {section}\n")), "{}: {section}", verb.name);
            }
            let mut built = command(verb);
            built.build();
            for arg in built.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let name =
                    arg.get_long().map_or_else(|| arg.get_id().to_string(), |long| format!("--{long}"));
                assert!(page.contains(&escaped(&name)), "{}: {name}", verb.name);
            }
            // No stray request: each line that begins with a dot is one of ours.
            for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
                let request = line.split_whitespace().next().unwrap();
                assert!(
                    [".TH", ".nh", ".SH", ".PP", ".TP", ".B", ".BR", ".br", ".RS", ".RE", ".nf", ".fi"]
                        .contains(&request),
                    "{}: {line}",
                    verb.name
                );
            }
        }
        assert!(overview().contains("drowse\\-tools\\-call (1)"));
    }
}
