//! Operations on one session: calls that may wake it, with progress on a terminal.
//!
//! Owns what all MCP commands share: time-outs, Ctrl-C, paging. Never reads more of a result than paging needs.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use drowse_runtime::caller::{Caller, Request, Sessions, Wait};
use drowse_runtime::home::SessionName;
use drowse_runtime::input::{self, ClientCapabilities};
use drowse_runtime::wait::Woken;
use drowse_runtime::wire::Ran;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Context;
use crate::answers::{self, Answerer};
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::result::Page;
use crate::text::{duration, one_line};

/// A server that hands out more pages than this never ends its list.
const MAX_PAGES: usize = 10_000;

/// The operations of one command on one session.
pub(super) struct Operations<'a> {
    caller: Caller<'a>,
    sessions: &'a Sessions,
    session: &'a SessionName,
    wait: Wait<'a>,
    pub(super) context: &'a Context,
    progress: bool,
    /// The server is told that a call may be answered with a task.
    pub(super) tasks: bool,
    /// The time-out of requests, if not that of the command line.
    pub(super) limit: Option<Duration>,
}

/// Runs `work` with the operations of `session`. Ctrl-C during it cancels what is in flight.
pub(super) fn with<T>(
    context: &Context,
    session: &SessionName,
    work: impl FnOnce(&mut Operations<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let sessions: Sessions = super::open()?;
    let interrupt = super::interrupt();
    // The bridge keeps the request's time; waking is counted on its own.
    let wait = Wait { deadline: None, interrupt: interrupt.as_ref().map(Interrupt::fd) };
    let mut operations = Operations {
        caller: sessions.caller(session, wait),
        sessions: &sessions,
        session,
        wait,
        context,
        progress: !context.output.json && io::stderr().is_terminal(),
        tasks: false,
        limit: None,
    };
    let outcome = work(&mut operations);
    if operations.caller.was_renewed() {
        context.output.notice(format_args!(
            "{session}: the server had ended the session, and a fresh one answered; what it kept in memory is gone"
        ));
    }
    if let Some(interrupt) = &interrupt {
        interrupt.release();
    }
    outcome
}

impl<'a> Operations<'a> {
    /// One request, and what the server asks for meanwhile; the result as it came.
    pub(super) fn call(&mut self, method: &str, params: &str) -> Result<String, Failure> {
        if !input::is_supported(method) {
            return self.send(method, params, ClientCapabilities::default());
        }
        let mut answers = self.answerer();
        input::complete(method, params, &mut answers, |params, capabilities| {
            self.send(method, params, capabilities)
        })
        .map_err(|failure| answers::explain(self.session, failure))
    }

    /// Answers what a task asks; see [`input::respond`].
    pub(super) fn respond(
        &self,
        requests: &str,
        answered: &mut Vec<String>,
    ) -> Result<Option<String>, Failure> {
        Ok(input::respond(requests, &mut self.answerer(), answered)?)
    }

    fn answerer(&self) -> Answerer<'a> {
        let Context { output, elicit, timeout } = self.context;
        Answerer::new(self.sessions, self.session, output, elicit.as_ref(), *timeout, self.wait)
    }

    /// Waits until then, or until the user interrupts.
    pub(super) fn pause(&self, until: Instant) -> Result<(), Failure> {
        match self.wait.no_later_than(until).poll(&[]) {
            Ok(Woken::Interrupted) => {
                Err(Failure::new(Exit::Interrupted, "interrupted", "interrupted").with_ran(Ran::Unknown))
            }
            _ => Ok(()),
        }
    }

    /// From now on Ctrl-C has its default effect, and whatever is asked has that long together.
    pub(super) fn uninterrupted(&mut self, limit: Duration) {
        self.wait = Wait::at_most(limit);
        self.caller.set_wait(self.wait);
    }

    /// Shows one line on the terminal, over the one before.
    pub(super) fn line(&self, line: &str) {
        if self.progress {
            let _ = write!(io::stderr(), "\r\u{1b}[K{line}");
        }
    }

    /// Takes that line back.
    pub(super) fn clear_line(&self) {
        self.line("");
    }

    fn send(
        &mut self,
        method: &str,
        params: &str,
        capabilities: ClientCapabilities,
    ) -> Result<String, Failure> {
        self.caller.set_capabilities(ClientCapabilities { tasks: self.tasks, ..capabilities });
        let mut shown = false;
        let mut show = |params: &str| {
            shown |= show_progress(params);
        };
        let request = Request {
            method,
            params,
            timeout: self.limit.or(self.context.timeout),
            progress: if self.progress { Some(&mut show) } else { None },
        };
        let start = Instant::now();
        let reply = self.caller.call(request);
        self.context.output.detail(format_args!("{method} took {}", duration(start.elapsed())));
        if shown {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
        let reply = reply?;
        match std::str::from_utf8(reply.as_bytes()) {
            Ok(result) => Ok(result.to_owned()),
            Err(_) => Err(Failure::new(Exit::Server, "invalid-answer", "the server's answer is not UTF-8")),
        }
    }

    /// All items of a list, every page, until `enough` says that one is the last that is needed.
    pub(super) fn list(
        &mut self,
        method: &str,
        member: &str,
        mut enough: impl FnMut(&RawValue) -> bool,
    ) -> Result<Vec<Box<RawValue>>, Failure> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let params =
                cursor.as_ref().map_or_else(String::new, |cursor| json!({"cursor": cursor}).to_string());
            let page = Page::read(self.call(method, &params)?.as_bytes(), member)?;
            for item in page.items {
                let last = enough(&item);
                items.push(item);
                if last {
                    return Ok(items);
                }
            }
            match page.next_cursor {
                None => return Ok(items),
                Some(next) if cursor.as_ref() == Some(&next) => break,
                next => cursor = next,
            }
        }
        Err(Failure::new(Exit::Server, "invalid-answer", format!("the server's {method} never ends")))
    }
}

/// One line on the terminal, over the one before. Says whether there was anything to show.
fn show_progress(params: &str) -> bool {
    let Ok(params) = serde_json::from_str::<Value>(params) else { return false };
    let done = params["progress"].as_f64();
    let line = match (done, params["total"].as_f64().filter(|&total| total > 0.0)) {
        (Some(done), Some(total)) => format!("{:>3.0} % ", (done / total * 100.0).clamp(0.0, 100.0)),
        (Some(done), None) => format!("{done} "),
        (None, _) => return false,
    };
    let message = params["message"].as_str().unwrap_or_default();
    let _ = write!(io::stderr(), "\r\u{1b}[K{line}{}", one_line(message, 60));
    true
}
