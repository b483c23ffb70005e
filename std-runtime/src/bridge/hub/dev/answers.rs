//! Calls of the proxy's own tools, and what is said to them.

use drowse_core::dev::names::DevTool;
use drowse_core::dev::{Refused, Wish};
use drowse_core::envelope::Known;

use super::super::callers::Request;
use super::*;

/// How many lines of the log are shown unless somebody says otherwise, and how many at most.
const LINES: usize = 100;
const MAX_LINES: usize = 1000;

/// What a call says.
struct Answer {
    text: String,
    structured: Value,
    is_error: bool,
}

impl Answer {
    fn error(text: impl Into<String>, kind: &str) -> Self {
        let text = text.into();
        Self { structured: json!({"error": kind, "message": text}), text, is_error: true }
    }
}

impl Hub {
    /// Whether the proxy's tools are among the server's.
    pub(in super::super) fn has_dev_tools(&self) -> bool {
        self.0.inner.borrow().dev.is_some()
    }

    /// Answers a call of a tool of the proxy's, or begins to. `false`: it is the server's business.
    pub(in super::super) fn dev_call(&self, inner: &mut Inner, now: Instant, request: &Request<'_>) -> bool {
        if inner.dev.is_none() || request.operation.method != Method::ToolsCall {
            return false;
        }
        let &Request { connection, line, parts, .. } = request;
        let frame = line.bytes();
        let param = |name| parts.params.and_then(|params| text::member(frame, params, name));
        let Some(called) = parts.value(Known::Name).and_then(|name| DevTool::of_call(name.of(frame))) else {
            return false;
        };
        let id = parts.id.of(frame);
        let Ok(tool) = called else {
            let explained = explain::refused(
                "there is no such tool: names that begin with dev_ are the dev proxy's, which has dev_restart, \
                 dev_status and dev_logs"
                    .to_owned(),
                "invalid-request",
            );
            inner.reply_error(connection, Some(id), -32602, &explained);
            return true;
        };
        let given = param("arguments").filter(|given| given.of(frame) != b"null");
        let given = match given {
            None => Ok(Value::Object(serde_json::Map::new())),
            Some(given) => serde_json::from_slice(given.of(frame)).map_err(|error| error.to_string()),
        };
        let Ok(Value::Object(given)) = given else {
            let answer = Answer::error("arguments must be an object", "invalid-arguments");
            inner.dev_answer(connection, id, &answer);
            return true;
        };
        let answer = match tool {
            DevTool::Status => only(&given, &[]).map(|()| inner.dev_status(now, connection)),
            DevTool::Logs => only(&given, &["lines"]).and_then(|()| inner.dev_logs(&given)),
            DevTool::Restart => match inner.dev_restart(now, connection, id, &given) {
                Ok(()) => {
                    self.drive(inner, None);
                    return true;
                }
                Err(answer) => Err(answer),
            },
        };
        let answer = answer.unwrap_or_else(|answer| answer);
        inner.dev_answer(connection, id, &answer);
        self.drive(inner, None);
        true
    }
}

/// Refuses arguments that the tool does not have.
fn only(given: &serde_json::Map<String, Value>, known: &[&str]) -> Result<(), Answer> {
    match given.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(other) => {
            let other: String = other.chars().take(80).collect();
            let takes = if known.is_empty() { "none".to_owned() } else { known.join(" and ") };
            Err(Answer::error(
                format!("unknown argument `{other}`: the tool takes {takes}"),
                "invalid-arguments",
            ))
        }
    }
}

/// Leaves secrets out of every text in it.
fn hide(value: &mut Value, without_secrets: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = without_secrets(text),
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, without_secrets)),
        Value::Object(members) => members.values_mut().for_each(|member| hide(member, without_secrets)),
        _ => {}
    }
}

fn environment(given: &Value) -> Result<Vec<(String, String)>, Answer> {
    let wrong =
        |what: &str| Answer::error(format!("env must be an object of strings: {what}"), "invalid-arguments");
    let members = given.as_object().ok_or_else(|| wrong("it is none"))?;
    members
        .iter()
        .map(|(name, value)| {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(wrong("a name is empty, or has = or NUL in it"));
            }
            let value = value.as_str().filter(|value| !value.contains('\0'));
            value
                .map(|value| (name.clone(), value.to_owned()))
                .ok_or_else(|| wrong(&format!("`{name}` is none")))
        })
        .collect()
}

impl Inner {
    fn dev_restart(
        &mut self,
        now: Instant,
        connection: u64,
        id: &[u8],
        given: &serde_json::Map<String, Value>,
    ) -> Result<(), Answer> {
        only(given, &["rebuild", "env"])?;
        let rebuild = match given.get("rebuild") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(rebuild)) => *rebuild,
            Some(_) => return Err(Answer::error("rebuild must be true or false", "invalid-arguments")),
        };
        let env = match given.get("env") {
            None | Some(Value::Null) => None,
            Some(env) => Some(environment(env)?),
        };
        self.look(now);
        let Some(dev) = &mut self.dev else { return Ok(()) };
        match dev.machine.submit(now, Wish { rebuild, env: env.is_some() }) {
            Ok(job) => {
                let job = job.number();
                if let Some(env) = env {
                    dev.envs.insert(job, env);
                }
                dev.waiters.insert(job, Waiter { connection, id: id.to_vec(), since: now });
                Ok(())
            }
            Err(Refused::NoBuild) => Err(Answer::error(
                "there is no build command: start drowse dev with --build, or call dev_restart without rebuild",
                "no-build",
            )),
            Err(Refused::Full) => {
                Err(Answer::error("too many restarts wait already: wait for those", "busy"))
            }
            Err(Refused::ShuttingDown) => {
                Err(Answer::error("the dev proxy is shutting down", "shutting-down"))
            }
        }
    }

    /// A restart is over, however.
    pub(super) fn answer_restart(&mut self, now: Instant, job: Job, verdict: Verdict) {
        let Some(waiter) = self.dev.as_mut().and_then(|dev| dev.waiters.remove(&job.number())) else {
            return;
        };
        let took = now.since(waiter.since).as_millis() as u64;
        let generation = self.server.lifecycle().generation();
        let pid = self.server_pid();
        let mut structured = json!({"outcome": verdict.name(), "tookMs": took, "generation": generation});
        let seconds = now.since(waiter.since).as_secs_f64();
        let mut text = match verdict {
            Verdict::Restarted => {
                structured["pid"] = pid.into();
                let pid = pid.map_or_else(String::new, |pid| format!(", pid {pid}"));
                format!("restarted in {seconds:.1} s (generation {generation}{pid})")
            }
            Verdict::Unchanged => {
                "not restarted: the build changed nothing that the server is made of (call \
                                   dev_restart without rebuild to restart it anyway)"
                    .to_owned()
            }
            Verdict::BuildFailed => {
                "the build failed, so nothing was changed: the server runs as before".to_owned()
            }
            Verdict::BuildTimedOut => {
                "the build took too long and was ended; nothing was changed: the server runs as before"
                    .to_owned()
            }
            Verdict::StartFailed => {
                let why = self.explain(|around| {
                    let failure = Failure { cause: Cause::StartFailed, ran: drowse_core::link::Ran::No };
                    let around = Circumstances { dev: false, ..*around };
                    explain::failure(failure, &around)
                });
                format!("the new server could not be started: {}", why.message)
            }
            Verdict::ShuttingDown => "the dev proxy is shutting down".to_owned(),
        };
        let words = match verdict {
            Verdict::BuildFailed | Verdict::BuildTimedOut => {
                self.dev.as_ref().and_then(|dev| dev.workshop.last_build())
            }
            Verdict::StartFailed => self.stderr_tail(),
            _ => None,
        };
        if let Some(words) = words {
            text = format!("{text}\n{words}");
        }
        let answer = Answer { text, structured, is_error: !verdict.is_good() };
        self.dev_answer(waiter.connection, &waiter.id, &answer);
    }

    fn dev_logs(&self, given: &serde_json::Map<String, Value>) -> Result<Answer, Answer> {
        let lines = match given.get("lines") {
            None | Some(Value::Null) => LINES,
            Some(lines) => match lines.as_u64().and_then(|lines| usize::try_from(lines).ok()) {
                Some(lines @ 1..=MAX_LINES) => lines,
                _ => {
                    let text = format!("lines must be a whole number from 1 to {MAX_LINES}");
                    return Err(Answer::error(text, "invalid-arguments"));
                }
            },
        };
        let lines = self.dev.as_ref().map(|dev| dev.workshop.logs(lines)).unwrap_or_default();
        let text = if lines.is_empty() { "nothing was logged so far".to_owned() } else { lines.join("\n") };
        Ok(Answer { text, structured: json!({"lines": lines}), is_error: false })
    }

    fn dev_status(&mut self, now: Instant, connection: u64) -> Answer {
        let client = self.connections.get(&connection).map(|one| match one.front.legacy() {
            Some(revision) => json!({"era": "legacy", "version": revision.name()}),
            None => json!({"era": "modern", "version": Revision::LATEST_MODERN.name()}),
        });
        let server = self.server.revision().map(|revision| {
            let described: Option<Value> =
                self.handshake.as_deref().and_then(|bytes| serde_json::from_slice(bytes).ok());
            let info = described.as_ref().and_then(|described| {
                described.get("serverInfo").or_else(|| {
                    described.get("_meta").and_then(|meta| meta.get("io.modelcontextprotocol/serverInfo"))
                })
            });
            json!({"era": revision.era().name(), "version": revision.name(), "info": info})
        });
        let lifecycle = self.server.lifecycle();
        let (state, generation, in_flight) =
            (lifecycle.public_state(), lifecycle.generation(), lifecycle.in_flight());
        let retry_at = lifecycle.crashes().retry_at().filter(|at| *at > now);
        let (breaker, stopping) = (lifecycle.crashes().is_open(), self.server.is_stopping());
        let pid = self.server_pid();
        let stderr = self.stderr_tail();
        let subscriptions = json!(self.listeners.wanted(&self.server));
        let Some(dev) = &self.dev else { return Answer::error("no dev proxy", "unsupported") };
        let word = match state {
            _ if dev.machine.is_restarting() => "restarting",
            PublicState::Connecting | PublicState::Reconnecting => "starting",
            _ if stopping => "stopping",
            PublicState::Live | PublicState::Suspended => "running",
            PublicState::Crashed => "crashed",
            PublicState::Disconnected => "not answering",
            _ => "stopped",
        };
        let hint = match word {
            "stopped" if !dev.started => Some("the first request starts the server".to_owned()),
            "stopped" => Some("the next request starts the server".to_owned()),
            "crashed" => Some(match retry_at {
                Some(at) => {
                    let wait = at.since(now).as_secs_f64();
                    let why = if breaker { "it crashed five times within 30 s; " } else { "" };
                    format!("{why}requests start it again in {wait:.1} s, dev_restart at once: see dev_logs")
                }
                None => "the next request starts it again, and so does dev_restart: see dev_logs".to_owned(),
            }),
            "starting" | "restarting" | "stopping" => {
                Some("wait: requests are kept until the server is ready".to_owned())
            }
            "not answering" => Some("dev_restart replaces it".to_owned()),
            _ => None,
        };
        let ended = dev.ended.as_deref().filter(|_| word == "crashed");
        let mut status = serde_json::Map::new();
        status.insert("state".into(), word.into());
        status.insert("pid".into(), pid.into());
        status.insert("uptimeMs".into(), dev.up_since.map(|at| now.since(at).as_millis() as u64).into());
        status.insert("generation".into(), generation.into());
        status.insert("client".into(), client.into());
        status.insert("server".into(), server.into());
        status.insert("tools".into(), dev.tools.into());
        status.insert("subscriptions".into(), subscriptions);
        status.insert("inFlight".into(), in_flight.into());
        status.insert("building".into(), dev.machine.is_building().into());
        status.insert("queued".into(), dev.machine.waiting().into());
        dev.workshop.describe(&mut status);
        if dev.machine.is_stalled() {
            status.insert("watchStalled".into(), dev.stalled().into());
        }
        if let Some(ended) = ended {
            status.insert("ended".into(), ended.into());
        }
        if let (Some(stderr), "crashed") = (&stderr, word) {
            status.insert("stderr".into(), stderr.as_str().into());
        }
        if let Some(at) = retry_at {
            status.insert("retryInMs".into(), (at.since(now).as_millis() as u64).into());
        }
        if let Some(hint) = &hint {
            status.insert("hint".into(), hint.as_str().into());
        }
        let mut text = format!("server: {word}");
        if let Some(pid) = pid {
            text.push_str(&format!(" (pid {pid}, generation {generation})"));
        }
        for more in [ended, hint.as_deref()].into_iter().flatten() {
            text.push('\n');
            text.push_str(more);
        }
        let mut status = Value::Object(status);
        // Before it is text, in which a secret may be written in another way.
        hide(&mut status, &|text| dev.workshop.redacted(text));
        text.push('\n');
        text.push_str(&status.to_string());
        Answer { text, structured: status, is_error: false }
    }

    fn dev_answer(&mut self, connection: u64, id: &[u8], answer: &Answer) {
        let Some(one) = self.connections.get(&connection) else { return };
        let legacy = one.front.is_legacy();
        let text = self.without_secrets(&answer.text);
        let mut structured = answer.structured.clone();
        hide(&mut structured, &|text| self.without_secrets(text));
        let mut result = json!({
            "content": [{"type": "text", "text": text}],
            "structuredContent": structured,
            "isError": answer.is_error,
        });
        if !legacy {
            result["resultType"] = "complete".into();
        }
        self.reply(connection, id, &[result.to_string().as_bytes()]);
    }
}
