//! What may stand at the cursor, given the words before it.

use clap::{Arg, ArgAction, Command, ValueHint};
use drowse_runtime::caller::Sessions;
use drowse_runtime::home::SessionName;
use drowse_runtime::record::Setting;
use drowse_runtime::serve::limits::LimitName;

use super::files::{self, Wanted};
use super::known::{self, Argument, Offers};
use super::{Candidate, Shell};
use crate::args::{HTTP_LIMIT, HTTP_SETTINGS};
use crate::grammar::{self, Session, Verb, topics};
use crate::text::{is_steering, one_line};

/// How much of a description is shown beside a candidate.
const ABOUT_WIDTH: usize = 72;

/// A command line at the cursor.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// The words after the program.
    pub(super) before: &'a [String],
    /// The word at the cursor.
    pub(super) current: &'a str,
    pub(super) sessions: Option<&'a Sessions>,
}

/// What the words before the cursor say.
#[derive(Debug, Default)]
struct Said<'a> {
    session: Option<SessionName>,
    verb: Option<&'static Verb>,
    positionals: Vec<&'a str>,
    flags: Vec<&'a str>,
    /// A flag that waits for its value.
    open: Option<&'a str>,
    /// The words after `--`.
    after: Option<&'a [String]>,
}

impl Line<'_> {
    /// Everything that begins like the word at the cursor and can be shown.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let mut found = self.all();
        // A word with control characters could not be shown as it is, nor typed.
        found.retain(|one| one.value.starts_with(self.current) && !one.value.contains(unfit));
        for candidate in &mut found {
            candidate.about = one_line(&candidate.about, ABOUT_WIDTH);
        }
        found
    }

    fn said(&self) -> Said<'_> {
        let mut said = Said::default();
        let mut words = self.before.iter().enumerate();
        while let Some((index, word)) = words.next() {
            if word == "--" {
                said.after = self.before.get(index + 1..);
                break;
            }
            if word.starts_with('-') && word != "-" {
                said.flags.push(word);
                if grammar::takes_value(word) && words.next().is_none() {
                    said.open = Some(word);
                }
            } else if let (true, None, Some(name)) =
                (word.starts_with('@'), &said.session, SessionName::new(word).ok())
            {
                said.session = Some(name);
            } else if said.verb.is_none() && said.positionals.is_empty() {
                match grammar::verb(word) {
                    Some(verb) => said.verb = Some(verb),
                    None => said.positionals.push(word),
                }
            } else {
                said.positionals.push(word);
            }
        }
        said
    }

    fn all(&self) -> Vec<Candidate> {
        let said = self.said();
        if let Some(after) = said.after {
            return match after {
                [] => files::programs(self.current),
                _ => files::paths("", self.current, Wanted::Files),
            };
        }
        let verb = said.verb.unwrap_or(&grammar::BARE);
        let command = grammar::command(verb);
        if let Some(flag) = said.open {
            return self.values("", flag, self.current, &command);
        }
        if let Some((flag, value)) = self.current.split_once('=').filter(|(flag, _)| flag.starts_with("--")) {
            return self.values(&format!("{flag}="), flag, value, &command);
        }
        if self.current.starts_with('-') {
            return flags(&command, &said, self.current);
        }
        let mut found = Vec::new();
        let wants_session = said.session.is_none()
            && said.verb.is_none_or(|verb| verb.session != Session::None)
            && (said.positionals.is_empty() || verb.name == "connect");
        if wants_session && (self.current.is_empty() || self.current.starts_with('@')) {
            found.extend(
                self.sessions.map(|sessions| known::sessions(sessions, self.current)).unwrap_or_default(),
            );
        }
        match said.verb {
            None if said.positionals.is_empty() => found.extend(verbs(said.session.is_some())),
            None => {}
            Some(verb) => found.extend(self.positional(verb, &said, &command)),
        }
        found
    }

    fn positional(&self, verb: &Verb, said: &Said<'_>, command: &Command) -> Vec<Candidate> {
        let given = said.positionals.as_slice();
        let offers = || match (self.sessions, &said.session) {
            (Some(sessions), Some(name)) => Offers::of(sessions.home(), name),
            _ => Offers::default(),
        };
        match (verb.name, given) {
            ("tools-get" | "tools-call", []) => offers().tools(),
            ("tools-call", [tool, given @ ..]) => self.arguments(&offers().tool_arguments(tool), given),
            ("prompts-get", []) => offers().prompts(),
            ("prompts-get", [prompt, given @ ..]) => {
                self.arguments(&offers().prompt_arguments(prompt), given)
            }
            ("resources-read" | "resources-subscribe", []) => offers().resources(),
            ("resources-unsubscribe", []) => match (self.sessions, &said.session) {
                (Some(sessions), Some(name)) => known::synced(sessions, name),
                _ => Vec::new(),
            },
            ("complete", ["prompt"]) => offers().prompts(),
            ("complete", ["resource"]) => offers().templates(),
            ("complete", ["prompt", prompt]) => names(offers().prompt_arguments(prompt)),
            ("complete", ["resource", template]) => names(known::variables(template)),
            ("connect", []) => self.server(""),
            ("help", []) => verbs(false)
                .into_iter()
                .chain(verbs(true))
                .chain(topics::TOPICS.iter().map(|topic| word(topic.name, topic.about)))
                .fold(Vec::new(), |mut all, one| {
                    if !all.iter().any(|known: &Candidate| known.value == one.value) {
                        all.push(one);
                    }
                    all
                }),
            ("set", [.., setting]) if given.len() % 2 == 1 => self.setting_values(setting),
            ("set", given) => {
                let mut settings = settings(|setting| !given.contains(&setting.name()));
                if !given.contains(&"proxy-bearer-token") {
                    settings.push(word("proxy-bearer-token", "the token of clients to whom it is shared"));
                }
                // Each may be given several times.
                settings.extend(
                    HTTP_SETTINGS.map(|name| word(name, "who else comes in there, or how much there may be")),
                );
                settings
            }
            ("config", []) => ["get", "set", "unset", "path"].map(|one| word(one, "")).into(),
            ("config", ["get" | "set" | "unset"]) => settings(|setting| setting.has_user_default()),
            ("config", ["set", setting]) => self.setting_values(setting),
            ("completions", []) => Shell::ALL.map(|shell| word(shell.name(), "")).into(),
            _ => command
                .get_positionals()
                .nth(given.len())
                .map(|arg| self.of(arg, "", self.current))
                .unwrap_or_default(),
        }
    }

    /// A file, or an entry of one.
    fn server(&self, before: &str) -> Vec<Candidate> {
        let typed = self.current.strip_prefix(before).unwrap_or_default();
        let mut found = files::paths(before, typed, Wanted::Files);
        found.extend(files::entries(typed).into_iter().map(|mut entry| {
            entry.value.insert_str(0, before);
            entry
        }));
        found
    }

    /// `name=` and `name:=` of what is not given yet, or how a value may go on.
    fn arguments(&self, arguments: &[Argument], given: &[&str]) -> Vec<Candidate> {
        let Some((name, value)) = self.current.split_once('=') else {
            let is_given = |argument: &Argument| {
                given.iter().any(|word| {
                    word.split_once('=').is_some_and(|(key, _)| key.trim_end_matches(':') == argument.name)
                })
            };
            return arguments
                .iter()
                .filter(|argument| !is_given(argument) && !argument.name.contains('='))
                .map(|argument| {
                    let sign = if argument.is_text { "=" } else { ":=" };
                    let value = format!("{}{sign}", argument.name);
                    Candidate { value, about: argument.about.clone(), goes_on: true }
                })
                .collect();
        };
        if let (Some(file), false) = (value.strip_prefix('@'), name.ends_with(':')) {
            return files::paths(&format!("{name}=@"), file, Wanted::Files);
        }
        let wanted = name.trim_end_matches(':');
        let argument = arguments.iter().find(|argument| argument.name == wanted);
        let choices = argument.map(|argument| argument.choices.as_slice()).unwrap_or_default();
        choices.iter().map(|choice| word(&format!("{name}={choice}"), "")).collect()
    }

    /// The values of a setting, as far as they can be told.
    fn setting_values(&self, setting: &str) -> Vec<Candidate> {
        let words: &[&str] = match Setting::from_name(setting) {
            Some(Setting::AutoRestart | Setting::Insecure) => &["on", "off"],
            Some(Setting::OnExpiry) => &["fresh", "fail"],
            Some(Setting::McpVersion) => &["legacy", "modern"],
            Some(Setting::Proxy) => &["off"],
            Some(Setting::LogLevel) => {
                &["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency", "off"]
            }
            Some(Setting::Cacert) => return files::paths("", self.current, Wanted::Files),
            Some(Setting::Roots) => return files::paths("", self.current, Wanted::Directories),
            Some(_) => &[],
            None if setting == HTTP_LIMIT => return limits(""),
            None => return Vec::new(),
        };
        words.iter().chain(&["default"]).map(|one| word(one, "")).collect()
    }

    /// The values of a flag; `before` is what stands before them in the same word.
    fn values(&self, before: &str, flag: &str, value: &str, command: &Command) -> Vec<Candidate> {
        let arg = command.get_arguments().find(|arg| spells(arg, flag));
        arg.map(|arg| self.of(arg, before, value)).unwrap_or_default()
    }

    /// The values of an argument, as far as they can be told.
    fn of(&self, arg: &Arg, before: &str, value: &str) -> Vec<Candidate> {
        let possible = arg.get_possible_values();
        if !possible.is_empty() {
            return possible
                .iter()
                .filter(|possible| !possible.is_hide_set())
                .map(|possible| {
                    let about = possible.get_help().map(ToString::to_string).unwrap_or_default();
                    word(&format!("{before}{}", possible.get_name()), &about)
                })
                .collect();
        }
        let value_name = arg
            .get_value_names()
            .and_then(|names| names.first())
            .map(|name| name.as_str())
            .unwrap_or_default();
        match (arg.get_id().as_str(), arg.get_value_hint(), value_name) {
            ("server", ..) => self.server(before),
            ("elicit", ..) => {
                ["accept-defaults", "decline"].map(|one| word(&format!("{before}{one}"), "")).into()
            }
            (HTTP_LIMIT, ..) => limits(before),
            ("env", ..) => {
                let mut names = files::variables(value);
                names.iter_mut().for_each(|name| name.value.insert_str(0, before));
                names
            }
            (_, ValueHint::DirPath, _) | (_, _, "DIR") => files::paths(before, value, Wanted::Directories),
            (_, ValueHint::FilePath | ValueHint::AnyPath, _) | (_, _, "FILE") => {
                files::paths(before, value, Wanted::Files)
            }
            _ => Vec::new(),
        }
    }
}

/// The limits of those that come in over HTTP.
fn limits(before: &str) -> Vec<Candidate> {
    let limit =
        |limit: LimitName| Candidate { goes_on: true, ..word(&format!("{before}{}=", limit.name()), "") };
    LimitName::ALL.map(limit).into()
}

fn unfit(c: char) -> bool {
    is_steering(c) || matches!(c, '\n' | '\t' | '\u{2028}' | '\u{2029}')
}

fn word(value: &str, about: &str) -> Candidate {
    Candidate { value: value.to_owned(), about: about.to_owned(), goes_on: false }
}

fn names(arguments: Vec<Argument>) -> Vec<Candidate> {
    arguments.into_iter().map(|argument| word(&argument.name, &argument.about)).collect()
}

/// The settings that are meant.
fn settings(which: impl Fn(&Setting) -> bool) -> Vec<Candidate> {
    Setting::ALL
        .iter()
        .filter(|setting| which(setting))
        .map(|setting| word(setting.name(), setting.want()))
        .collect()
}

/// The verbs, for a session or without one.
fn verbs(for_session: bool) -> Vec<Candidate> {
    grammar::VERBS
        .iter()
        .filter(|verb| !(verb.about.is_empty() || for_session && verb.session == Session::None))
        .map(|verb| word(verb.name, verb.about))
        .collect()
}

fn spells(arg: &Arg, flag: &str) -> bool {
    match flag.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg
            .get_short()
            .is_some_and(|short| flag.strip_prefix('-') == Some(short.encode_utf8(&mut [0; 4]))),
    }
}

/// The flags of the verb, but for those that are given and count once.
fn flags(command: &Command, said: &Said<'_>, current: &str) -> Vec<Candidate> {
    let mut found = Vec::new();
    for arg in command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set()) {
        let is_given = said.flags.iter().any(|flag| spells(arg, flag.split('=').next().unwrap_or_default()));
        if is_given && !matches!(arg.get_action(), ArgAction::Append) {
            continue;
        }
        let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
        match arg.get_long() {
            Some(long) => found.push(word(&format!("--{long}"), &about)),
            None => found.extend(arg.get_short().map(|short| word(&format!("-{short}"), &about))),
        }
        // A short one is known to who types it.
        if current.len() == 2 && arg.get_short().is_some_and(|short| current.ends_with(short)) {
            found.push(word(current, &about));
        }
    }
    if said.verb.is_none() && said.session.is_none() {
        found.push(word("--version", "Show the version"));
    }
    found
}

#[cfg(test)]
mod tests {
    use drowse_runtime::home::Home;

    use super::*;

    const SNAPSHOT: &str = r#"{"schema":1,"identity":"i","taken":1,"generation":1,"era":"modern","protocolVersion":"x",
"tools":[
{"name":"search","description":"Finds things.\nSlowly.","inputSchema":{"type":"object","required":["query"],"properties":{"kind":{"enum":["file","dir","it's"]},"deep":{"type":"boolean"},"query":{"type":"string"},"n":{"type":"integer"}}}},
{"name":"bad\u001b[2J\nname","description":"x"},
{"name":"second","description":"with \u001b[31mcolour\u001b[0m and \t tab"}
],
"prompts":[
{"name":"review","arguments":[{"name":"language","required":true},{"name":"style","description":"How"}]}
],
"resources":[
{"uri":"file:///a b","name":"a"},{"uri":"note://x"}
],
"resourceTemplates":[
{"uriTemplate":"repo://{owner}/{name}","name":"repos"}
]}
"#;

    fn home() -> (tempfile::TempDir, Sessions) {
        let place = tempfile::tempdir().unwrap();
        let home = Home::new(place.path().join("home"), None);
        home.prepare().unwrap();
        for (name, identity) in [("files", "\"i\""), ("far", "\"\""), ("other", "\"another\"")] {
            let directory = home.sessions().join(name);
            std::fs::create_dir_all(&directory).unwrap();
            let record = format!(
                r#"{{"schema":1,"target":"command","command":"npx","args":["-y","server"],"cwd":"/","created":5,"identity":{identity}}}"#
            );
            std::fs::write(directory.join("session.json"), record).unwrap();
            std::fs::write(directory.join("snapshot.json"), SNAPSHOT).unwrap();
        }
        (place, Sessions::at(home))
    }

    fn found(sessions: &Sessions, line: &str) -> Vec<Candidate> {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let current = words.pop().unwrap();
        Line { before: &words, current: &current, sessions: Some(sessions) }.candidates()
    }

    fn values(sessions: &Sessions, line: &str) -> Vec<String> {
        found(sessions, line).into_iter().map(|one| one.value).collect()
    }

    #[test]
    fn words_of_a_line() {
        let (_place, home) = home();
        for (line, expected) in [
            ("@f", &["@far", "@files"][..]),
            ("tools-list @fi", &["@files"]),
            ("tools-c", &["tools-call"]),
            ("@files tools-g", &["tools-get"]),
            ("@files de", &[]),
            ("de", &["dev", "demo", "demo-server"]),
            ("@files tools-call ", &["search", "second"]),
            ("tools-call @files se", &["search", "second"]),
            ("--timeout 5 @files --json tools-get sea", &["search"]),
            ("@other tools-call ", &[]),
            ("@far tools-call s", &["search", "second"]),
            ("@none tools-call ", &[]),
            ("@files tools-call search ", &["query=", "kind=", "deep:=", "n:="]),
            ("@files tools-call search query=x --json k", &["kind="]),
            ("@files tools-call search query:=x ", &["kind=", "deep:=", "n:="]),
            ("@files tools-call search kind=", &["kind=file", "kind=dir", "kind=it's"]),
            ("@files tools-call search kind:=d", &["kind:=dir"]),
            ("@files tools-call search deep:=", &["deep:=true", "deep:=false"]),
            ("@files tools-call none ", &[]),
            ("@files prompts-get ", &["review"]),
            ("@files prompts-get review ", &["language=", "style="]),
            ("@files resources-read ", &["file:///a b", "note://x", "repo://"]),
            ("@files complete ", &["prompt", "resource"]),
            ("@files complete prompt review l", &["language"]),
            ("@files complete resource ", &["repo://{owner}/{name}"]),
            ("@files complete resource repo://{owner}/{name} ", &["owner", "name"]),
            ("set @files idle-", &["idle-timeout"]),
            ("@files set on-expiry ", &["fresh", "fail", "default"]),
            ("@files set on-expiry fail a", &["auto-restart"]),
            ("@files set on-expiry fail on", &[]),
            ("@files set nonsense ", &[]),
            ("config ", &["get", "set", "unset", "path"]),
            ("config get k", &["keepalive"]),
            ("config set mcp", &[]),
            ("config set auto-restart o", &["on", "off"]),
            ("@files logging-set-level e", &["error", "emergency"]),
            ("clean ", &["all"]),
            ("help act", &["activity"]),
            ("help tools-c", &["tools-call"]),
            ("completions ", &["bash", "zsh", "fish", "powershell"]),
            ("connect x --on-expiry ", &["fresh", "fail"]),
            ("connect x --on-expiry=fa", &["--on-expiry=fail"]),
            ("connect --idle", &["--idle-timeout"]),
            ("connect x --proxy 0 --http-l", &["--http-limit"]),
            ("connect x --proxy 0 --http-limit b", &["body=", "bodies=", "body-time="]),
            ("dev --http 0 --http-limit=se", &["--http-limit=sessions="]),
            ("@files set http-limit h", &["head=", "hold="]),
            ("@files set proxy 0 http-o", &["http-origin"]),
            ("@files tools-call search --schema-mode s", &["strict"]),
            ("@files tools-call search --elicit d", &["decline"]),
            ("@files tools-list --fu", &["--full"]),
            ("@files tools-list --full --fu", &[]),
            ("@files logs -n", &["-n"]),
            ("--vers", &["--version"]),
            ("nonsense ", &[]),
            ("@files @far ", &[]),
        ] {
            assert_eq!(values(&home, line), expected, "{line:?}");
        }
    }

    #[test]
    fn descriptions_are_single_harmless_lines() {
        let (_place, home) = home();
        assert_eq!(found(&home, "@fi")[0].about, "dormant, npx -y server");
        let tools = found(&home, "@files tools-call ");
        assert_eq!(tools[0].about, "Finds things.");
        assert_eq!(tools[1].about, "with \\x1b[31mcolour\\x1b[0m and tab");
        let arguments = found(&home, "@files tools-call search ");
        assert_eq!(arguments[0].about, "string, required");
        assert_eq!((arguments[1].about.as_str(), arguments[1].goes_on), ("file|dir|it's", true));
    }

    #[test]
    fn every_verb_completes_its_flags_and_nothing_panics() {
        let (_place, home) = home();
        for verb in grammar::VERBS {
            let flags = values(&home, &format!("{} -", verb.name));
            assert!(flags.contains(&"--json".to_owned()), "{}: {flags:?}", verb.name);
            for line in
                ["", " ", " x ", " x y z ", " -- ", " -- x y", " =", " --=", " --x=y", " - ", " --timeout "]
            {
                let _ = found(&home, &format!("@files {}{line}", verb.name));
            }
        }
    }

    #[test]
    fn without_a_home_there_are_verbs() {
        let line = Line { before: &[], current: "", sessions: None };
        assert!(line.candidates().iter().any(|one| one.value == "connect"));
    }
}
