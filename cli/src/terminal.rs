//! Asks the user: questions on standard error, answers from the terminal.
//!
//! Owns the conversation about one question of a server. What is typed is read from `/dev/tty`, since standard input
//! may be something else; what a server wrote is shown escaped.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use drowse_runtime::caller::Wait;
use drowse_runtime::input::{Choice, Field, FieldKind, Form, InputError};
use drowse_runtime::wait::Woken;
use serde_json::{Map, Value};

use crate::output;
use crate::text::{Sanitized, one_line};

/// The longest line that is read.
const MAX_LINE: usize = 64 << 10;

/// What the user said to a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    /// Yes; with the content of a form.
    Accept(Option<Map<String, Value>>),
    /// No.
    Decline,
    /// Nothing.
    Cancel,
}

/// The terminal of this process.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: File,
    /// Read, and not yet used.
    typed: Vec<u8>,
}

/// What was typed.
enum Line {
    Text(String),
    /// The end of input, `!decline` or `!cancel`.
    Said(Said),
}

impl Terminal {
    /// The terminal, if there is one where questions can be seen and answered.
    pub(crate) fn open() -> Option<Self> {
        if !output::is_told_to_a_terminal() {
            return None;
        }
        let tty = File::open("/dev/tty").ok()?;
        Some(Self { tty, typed: Vec::new() })
    }

    /// Lets the user fill in a form, look at it, and send it.
    pub(crate) fn form(
        &mut self,
        who: &str,
        message: &str,
        form: &Form,
        wait: Wait<'_>,
    ) -> Result<Said, InputError> {
        say(format_args!("\n{who} asks: {message}"));
        say(
            "(Enter takes what stands in brackets; !decline or !cancel to answer nothing; Ctrl-C stops the call)",
        );
        let mut content = Map::new();
        for field in &form.fields {
            if let Some(value) = &field.default {
                content.insert(field.name.clone(), value.clone());
            }
        }
        loop {
            for field in &form.fields {
                if let Some(said) = self.fill(field, &mut content, wait)? {
                    return Ok(said);
                }
            }
            if !form.fields.is_empty() {
                say(format_args!("This goes to {who}:"));
            }
            for field in &form.fields {
                let value = content.get(&field.name).map_or_else(|| "(nothing)".to_owned(), shown);
                say(format_args!("  {}: {value}", one_line(field.label(), 80)));
            }
            match self.choose("Send it? y: yes, e: edit, d: decline, c: cancel [y] ", "yedc", wait)? {
                'y' => {
                    // In the order of the form, whatever was edited when.
                    let fields = form.fields.iter();
                    let ordered = fields.filter_map(|field| content.remove_entry(&field.name)).collect();
                    return Ok(Said::Accept(Some(ordered)));
                }
                'd' => return Ok(Said::Decline),
                'e' => {}
                _ => return Ok(Said::Cancel),
            }
        }
    }

    /// Asks whether the user wants to visit an address. Nothing is opened or fetched without a yes.
    pub(crate) fn visit(
        &mut self,
        who: &str,
        message: &str,
        url: &str,
        wait: Wait<'_>,
    ) -> Result<Said, InputError> {
        let address = Address::read(url);
        say(format_args!("\n{who} asks: {message}"));
        say(format_args!("It wants you to visit this address in a browser:\n\n  {}\n", Escaped(url)));
        match &address {
            Some(address) => say(format_args!("Host: {}", Escaped(&address.host))),
            None => say("Warning: this is not the address of a web page."),
        }
        for warning in address.iter().flat_map(Address::warnings) {
            say(format_args!("Warning: {warning}"));
        }
        let (question, answers) = match address {
            Some(_) => ("o: open it in a browser, y: I visit it myself, d: decline, c: cancel [c] ", "coyd"),
            None => ("y: accept, d: decline, c: cancel [c] ", "cyd"),
        };
        Ok(match self.choose(question, answers, wait)? {
            'o' => {
                if let Err(error) = open_in_browser(url) {
                    say(format_args!("No browser could be opened ({error}): visit it yourself."));
                }
                Said::Accept(None)
            }
            'y' => Said::Accept(None),
            'd' => Said::Decline,
            _ => Said::Cancel,
        })
    }

    /// Asks for one field until what is typed fits.
    fn fill(
        &mut self,
        field: &Field,
        content: &mut Map<String, Value>,
        wait: Wait<'_>,
    ) -> Result<Option<Said>, InputError> {
        let mut head = one_line(field.label(), 80);
        if let Some(description) = &field.description {
            head = format!("{head} — {}", one_line(description, 300));
        }
        say(format_args!("\n{head}"));
        for (index, choice) in choices(field).iter().enumerate() {
            let title =
                choice.title.as_ref().map_or_else(String::new, |title| format!(" ({})", one_line(title, 80)));
            say(format_args!("  {}  {}{title}", index + 1, one_line(&choice.value, 80)));
        }
        let known = content.get(&field.name).map(shown);
        let optional = if field.required { "" } else { ", optional" };
        let prompt = match &known {
            Some(known) => format!("  ({}{optional}) [{}]: ", field.hint(), one_line(known, 80)),
            None => format!("  ({}{optional}): ", field.hint()),
        };
        loop {
            ask(&prompt);
            let typed = match self.line(wait)? {
                Line::Said(said) => return Ok(Some(said)),
                Line::Text(typed) => typed,
            };
            let value = match typed.trim() {
                "" if known.is_some() => return Ok(None),
                "" | "!skip" if !field.required => {
                    content.remove(&field.name);
                    return Ok(None);
                }
                "" => Err("it is needed (\"\" is an empty text)".to_owned()),
                "\"\"" if matches!(field.kind, FieldKind::Text { .. }) => field.parse(""),
                typed => {
                    field.parse(typed.strip_prefix('!').filter(|rest| rest.starts_with('!')).unwrap_or(typed))
                }
            };
            match value {
                Ok(value) => {
                    content.insert(field.name.clone(), value);
                    return Ok(None);
                }
                Err(what) => say(format_args!("  That is {what}.")),
            }
        }
    }

    /// Asks until one of `answers` is typed; Enter is the first. What ends the conversation is `c` or `d`.
    fn choose(&mut self, question: &str, answers: &str, wait: Wait<'_>) -> Result<char, InputError> {
        loop {
            ask(question);
            match self.line(wait)? {
                Line::Said(Said::Decline) => return Ok('d'),
                Line::Said(_) => return Ok('c'),
                Line::Text(typed) => {
                    let typed = typed.trim().to_lowercase();
                    let first = typed.chars().next().or_else(|| answers.chars().next());
                    if let Some(answer) = first.filter(|first| answers.contains(*first)) {
                        return Ok(answer);
                    }
                }
            }
        }
    }

    /// A line of the user, without its end.
    fn line(&mut self, wait: Wait<'_>) -> Result<Line, InputError> {
        loop {
            if let Some(end) = self.typed.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.typed.drain(..=end).collect();
                let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
                return Ok(match text.trim() {
                    "!decline" => Line::Said(Said::Decline),
                    "!cancel" => Line::Said(Said::Cancel),
                    _ => Line::Text(text),
                });
            }
            match wait.readable(self.tty.as_fd()).map_err(InputError::Terminal)? {
                Woken::Ready => {}
                Woken::Interrupted | Woken::Deadline => {
                    let _ = writeln!(io::stderr());
                    return Err(InputError::Interrupted);
                }
            }
            let mut chunk = [0; 4096];
            match self.tty.read(&mut chunk) {
                Ok(0) => {
                    let _ = writeln!(io::stderr());
                    return Ok(Line::Said(Said::Cancel));
                }
                Ok(read) => self.typed.extend_from_slice(chunk.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(InputError::Terminal(error)),
            }
            if self.typed.len() > MAX_LINE {
                return Err(InputError::Terminal(io::Error::other("a line of more than 64 KiB")));
            }
        }
    }
}

/// A line for the user; whatever a server wrote in it cannot steer the terminal.
fn say(text: impl Display) {
    let _ = writeln!(io::stderr(), "{}", Sanitized(&text.to_string()));
}

fn ask(text: &str) {
    let mut stderr = io::stderr();
    let _ = write!(stderr, "{}", Sanitized(text));
    let _ = stderr.flush();
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(yes) => if *yes { "y" } else { "n" }.to_owned(),
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        value => value.to_string(),
    }
}

fn choices(field: &Field) -> &[Choice] {
    match &field.kind {
        FieldKind::One(choices) | FieldKind::Some { choices, .. } => choices,
        _ => &[],
    }
}

/// Shows an address so that nothing in it looks like something else: what is not ASCII is spelled out.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            ' '..='~' => write!(f, "{c}"),
            c => write!(f, "\\u{{{:x}}}", u32::from(c)),
        })
    }
}

/// The address of a web page.
struct Address {
    is_https: bool,
    host: String,
    has_user: bool,
}

impl Address {
    /// `None` if a browser would not open it as a web page, or it is not plain enough to tell its host.
    fn read(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let is_https = scheme.eq_ignore_ascii_case("https");
        if !is_https && !scheme.eq_ignore_ascii_case("http") {
            return None;
        }
        // Browsers read a backslash as a slash, and drop controls.
        if url.contains(|c: char| c == '\\' || c.is_whitespace() || c.is_control()) {
            return None;
        }
        let authority = rest.split(['/', '?', '#']).next()?;
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let host = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((inner, _)) => format!("[{inner}]"),
            None => host.split(':').next()?.to_owned(),
        };
        (!host.is_empty()).then(|| Self { is_https, host: host.to_lowercase(), has_user: user.is_some() })
    }

    fn warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        if self.host.split('.').any(|label| label.starts_with("xn--")) || !self.host.is_ascii() {
            warnings.push("the host's name has letters that may look like others.");
        }
        if self.has_user {
            warnings.push("what stands before the @ is not where it leads to.");
        }
        let is_here = ["localhost", "127.0.0.1", "[::1]"].contains(&self.host.as_str());
        if !self.is_https && !is_here {
            warnings.push("the connection is not encrypted (http).");
        }
        warnings
    }
}

/// Gives an address that begins with http to the desktop.
fn open_in_browser(url: &str) -> io::Result<()> {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    Command::new(program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // What ends the terminal, or Ctrl-C there, is not meant for it.
        .process_group(0)
        .spawn()
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(url: &str) -> (String, usize) {
        let address = Address::read(url).unwrap();
        let warnings = address.warnings().len();
        (address.host, warnings)
    }

    #[test]
    fn the_host_is_where_it_leads_to() {
        let of = |host: &str, count| (host.to_owned(), count);
        assert_eq!(warnings("https://Example.com:8443/a?b=https://other"), of("example.com", 0));
        assert_eq!(warnings("HTTP://localhost:1/"), of("localhost", 0));
        assert_eq!(warnings("http://example.com"), of("example.com", 1));
        assert_eq!(warnings("https://bank.example@evil.example/"), of("evil.example", 1));
        assert_eq!(warnings("https://xn--pple-43d.com"), of("xn--pple-43d.com", 1));
        assert_eq!(warnings("https://exаmple.com").1, 1, "a Cyrillic letter");
        assert_eq!(warnings("https://[::1]:80/x"), of("[::1]", 0));
        assert_eq!(warnings("https://evil.example#@bank.example"), of("evil.example", 0));
        for none in [
            "",
            "x",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://",
            "https://a\\@b",
            "https://a b",
            "http:///x",
        ] {
            assert!(Address::read(none).is_none(), "{none}");
        }
    }

    #[test]
    fn addresses_are_spelled_out() {
        assert_eq!(
            Escaped("https://ex\u{430}mple.com/\u{1b}[m").to_string(),
            "https://ex\\u{430}mple.com/\\u{1b}[m"
        );
    }
}
