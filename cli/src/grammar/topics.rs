//! What `drowse help` explains beside the commands.
//!
//! Owns the topics and their texts. What the core decides is shown from its own tables.

use drowse_core::activity::Text;
use drowse_runtime::record::states;

use crate::layout;
use crate::output;

/// Longer lines are hard to read.
const WIDTH: usize = 100;

/// A topic of `drowse help`.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    /// One line of the overview.
    pub(crate) about: &'static str,
    text: fn() -> String,
}

impl Topic {
    /// All of it, for the terminal's width or a readable one.
    pub(crate) fn text(&self) -> String {
        let text = (self.text)();
        // Its lines are broken already, and it holds lines to copy.
        if self.name == "agents" {
            return text;
        }
        layout::fit(&text, output::columns().unwrap_or(WIDTH).min(WIDTH))
    }
}

/// Every topic, in the order of the overview.
pub(crate) const TOPICS: &[Topic] = &[
    Topic { name: "activity", about: "What wakes a server, and what keeps it awake", text: activity },
    Topic { name: "states", about: "The states of a session, and what to do in each", text: states },
    Topic { name: "agents", about: "How to use drowse from a coding agent (SKILL.md)", text: agents },
    Topic { name: "json", about: "What --json prints, and the exit statuses", text: || JSON.to_owned() },
    Topic { name: "config", about: "Entries of mcpServers files", text: || CONFIG.to_owned() },
];

/// The topic of that name.
pub(crate) fn topic(name: &str) -> Option<&'static Topic> {
    let name = match name {
        "exit" | "exit-codes" | "exit-status" | "errors" => "json",
        "skill" => "agents",
        name => name,
    };
    TOPICS.iter().find(|topic| topic.name == name)
}

/// The file for agents.
pub(crate) const SKILL: &str = include_str!("../../../SKILL.md");

fn agents() -> String {
    // The front matter is for programs that look for skills.
    let body = SKILL.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"));
    body.map_or(SKILL, |(_, body)| body.trim_start()).to_owned()
}

fn activity() -> String {
    format!(
        "Who asks decides, not what is asked: what somebody wants from the server starts it and counts as use; what asks \
         about drowse, or what drowse does for itself, does neither. An operation counts from its request to its answer, \
         and after the last one a full idle period runs. Live subscriptions to resources and pending tasks keep the \
         server awake; when the last of them ends, a full period starts.\n\n{}",
        Text
    )
}

fn states() -> String {
    format!(
        "What a session is in, as the list shows it, what to do then, and what leads where. A session that is idle was let \
         go on purpose: it never counts as crashed, and nothing but its next use wakes it.\n\n{}",
        states::Text
    )
}

const JSON: &str = "\
With --json (-j, or DROWSE_JSON=1) stdout is the result and nothing else: MCP objects byte for byte as the server sent \
them, lists as bare arrays. What drowse adds to an object stands under one key, `_drowse`.

  drowse                  {sessions: [{name, status, pid?, target, idleTimeoutSecs?, _drowse}], profiles: []}
  drowse @name            the server's handshake, and _drowse
  drowse connect          an array, one object a session
  drowse @name ping       {success, durationMs}
  drowse @name logs       an array of lines; with --follow a JSON string a line

A failure prints nothing on stdout and one document on stderr:

  {error, code, kind, ran?, _drowse?}

  error    a sentence for people
  code     the exit status
  kind     a stable word for programs: usage, no-session, timeout, server-error, start-failed, …
  ran      where an operation was asked for: no (nothing ran, and it is safe to try again), unknown (it may have run)
  _drowse  what to do next (hint), the server's last words (stderr), its own error (rpc)

Before it, or without a failure, stderr may hold lines that only tell: {notice, kind}, for example session-renewed when \
the server had ended the session, or itself, and a fresh one answered.

Exit status:

  0    done
  1    usage: the command line, a name, a file
  2    the server: an error answer, a result with isError, a start that failed
  3    network or time-out
  4    authorization
  130  interrupted
";

const CONFIG: &str = "\
`drowse connect file.json:entry` makes a session of one entry of an MCP configuration file, `drowse connect file.json` of \
all. Files are as hosts have them: an object `mcpServers` (or `servers`) of names and entries, with comments and trailing \
commas. They are only read. Members that drowse does not know are left alone.

  command, args, env, cwd       a server that is a program
  url, headers                  a server behind a URL (also httpUrl, serverUrl)
  type, transport               stdio, http, streamable-http, or sse: checked, and not needed

  idleTimeoutSecs               let the server go after that long without use (0: never)
  timeoutSecs                   limit of a request (also timeout, in seconds or milliseconds)
  maxTimeoutSecs                limit of a request whatever its progress
  connectTimeoutSecs            limit of a start
  stopGraceSecs                 how long the server may take to end
  keepaliveSecs                 ping the server that often (0: never)
  autoRestart                   start a crashed or expired server again in the background
  onExpiry                      fresh or fail
  insecure, cacert, proxy       how a URL is reached
  mcpVersion                    the protocol revision or era to speak
  autoConnect                   false: write the session down, start nothing (connect --lazy)
  share                         share the new session over HTTP there, \"[host:]port\"; as connect --proxy

Strings may hold ${VAR} and ${VAR:-default}, also ${env:VAR}; values are taken from the environment of the connect, and kept with the \
credentials. An edited file takes effect with `drowse @name restart`. Flags of connect win over entries.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_has_a_text_and_no_verb_has_its_name() {
        for topic in TOPICS {
            assert!(topic.text().ends_with('\n') && topic.text().len() > 200, "{}", topic.name);
            assert!(
                crate::grammar::verb(topic.name).is_none_or(|verb| verb.name == "config"),
                "{}",
                topic.name
            );
        }
    }

    #[test]
    fn states_are_the_core_s_and_activity_is_its_table() {
        for state in drowse_runtime::record::State::ALL {
            assert!(states().contains(state.name()), "{state}");
        }
        assert!(activity().contains("starts a sleeping server: yes"));
    }

    #[test]
    fn the_skill_is_short_and_has_its_front_matter() {
        let matter =
            SKILL.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).expect("front matter").0;
        let fields: Vec<_> = matter.lines().filter_map(|line| line.split_once(": ")).collect();
        let [("name", name), ("description", description)] = fields.as_slice() else { panic!("{fields:?}") };
        assert_eq!(*name, "drowse");
        assert!(
            (1..=1024).contains(&description.chars().count()) && !description.contains(": "),
            "{description}"
        );
        let words = SKILL.split_whitespace().count();
        assert!(words < 400, "{words} words");
        assert!(agents().starts_with("# drowse\n"));
    }

    /// Whoever copies a line from it must not learn that drowse does not know it.
    #[test]
    fn every_command_line_of_the_skill_parses() {
        let blocks = SKILL.lines().filter_map(|line| line.strip_prefix("    drowse"));
        let inline = SKILL.split('`').skip(1).step_by(2).filter_map(|code| code.strip_prefix("drowse"));
        let lines: Vec<&str> = blocks.chain(inline).collect();
        assert!(lines.len() > 12, "{lines:?}");
        for line in lines {
            let words = words(line);
            // Which files there are is not the grammar's business.
            let no_file =
                |failure: &crate::error::Failure| failure.message.starts_with("there is no file `mcp.json`");
            if let Some(failure) = crate::args::parse(words).err().filter(|failure| !no_file(failure)) {
                panic!("drowse{line}: {}", failure.to_text());
            }
        }
    }

    /// Quotes are single ones only.
    fn words(line: &str) -> Vec<std::ffi::OsString> {
        let mut words = Vec::new();
        for (index, part) in line.split('\'').enumerate() {
            if index % 2 == 1 {
                words.push(part.into());
            } else {
                words.extend(part.split_whitespace().map(Into::into));
            }
        }
        words
    }
}
