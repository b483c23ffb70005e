//! Operations on one session: calls that may wake it, with progress on a terminal.
//!
//! Owns what all MCP commands share: time-outs, Ctrl-C, paging. Never reads more of a result than paging needs.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use drowse_runtime::caller::{CallError, Caller, Request, Sessions, Subscription, Wait};
use drowse_runtime::home::SessionName;
use drowse_runtime::input::{self, ClientCapabilities};
use drowse_runtime::snapshot;
use drowse_runtime::wait::Woken;
use drowse_runtime::wire::Ran;
use serde_json::json;
use serde_json::value::RawValue;

use super::Context;
use super::catalogue::Catalogue;
use super::logging;
use crate::answers::{self, Answerer};
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::progress::{self, Progress};
use crate::result::Page;
use crate::text::duration;

/// A server that hands out more pages than this never ends its list.
const MAX_PAGES: usize = 10_000;
/// Nor does one whose pages are larger than this together, in bytes.
const MAX_LIST: usize = 256 << 20;

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
    let sessions: Sessions = context.sessions()?;
    let interrupt = context.interrupt();
    // The bridge keeps the request's time; waking is counted on its own.
    let wait = Wait { deadline: None, interrupt: interrupt.as_deref().map(Interrupt::fd) };
    let mut operations = Operations {
        caller: sessions.caller(session, wait),
        sessions: &sessions,
        session,
        wait,
        context,
        progress: !context.output.json && progress::has_terminal(),
        tasks: false,
        limit: None,
    };
    logging::listen(context, &sessions, session, &mut operations.caller);
    let outcome = work(&mut operations);
    tell(context, session, &mut operations.caller);
    super::tell_of_rebuilt(context, &sessions);
    if let Some(interrupt) = &interrupt {
        interrupt.release();
    }
    outcome
}

/// Says what happened during the calls that is not in their answers.
fn tell(context: &Context, session: &SessionName, caller: &mut Caller<'_>) {
    let who = context.who(session);
    if let Some(how) = caller.was_renewed() {
        let ended = if how.ended { "by itself" } else { "the session" };
        context.output.remark(
            "session-renewed",
            format_args!(
                "{who}: the server had ended {ended}, and a fresh one answered; what it kept in memory is gone"
            ),
        );
    }
    for question in caller.take_unasked() {
        context.output.remark("question", format_args!("{}", answers::refused(&who, &question)));
    }
}

impl<'a> Operations<'a> {
    /// What the server said of a tool when it ran last, if that is at hand.
    pub(super) fn known_tool(&self, tool: &str) -> Option<Box<RawValue>> {
        snapshot::tool(self.sessions.home(), self.session, tool)
    }

    /// Subscribes to the updates of a resource.
    pub(super) fn subscribe(&self, uri: &str) -> Result<Subscription<'a>, CallError> {
        self.sessions.subscribe(self.session, self.wait, uri)
    }

    /// Waits until then, unless the user interrupts.
    pub(super) fn sleep_until(&self, at: Instant) -> Result<(), CallError> {
        match self.wait.no_later_than(at).poll(&[]) {
            Ok(Woken::Interrupted) => Err(CallError::Interrupted { ran: Ran::No }),
            _ => Ok(()),
        }
    }

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
        let Context { output, elicit, timeout, .. } = self.context;
        Answerer::new(self.sessions, self.session, output, elicit.as_ref(), *timeout, self.wait)
    }

    /// From now on Ctrl-C has its default effect, and whatever is asked has that long together.
    pub(super) fn uninterrupted(&mut self, limit: Duration) {
        self.wait = Wait::at_most(limit);
        self.caller.set_wait(self.wait);
    }

    /// Shows one line on the terminal, over the one before; an empty one takes it away.
    pub(super) fn show_line(&self, line: &str) {
        if self.progress {
            progress::show_line(line);
        }
    }

    fn send(
        &mut self,
        method: &str,
        params: &str,
        capabilities: ClientCapabilities,
    ) -> Result<String, Failure> {
        self.caller.set_capabilities(ClientCapabilities { tasks: self.tasks, ..capabilities });
        let start = Instant::now();
        let mut progress = Progress::new(start);
        let mut show = |params: &str| progress.show(params);
        let request = Request {
            method,
            params,
            timeout: self.limit.or(self.context.timeout),
            progress: if self.progress { Some(&mut show) } else { None },
        };
        let reply = self.caller.call(request);
        progress.clear();
        self.context.output.detail(format_args!("{method} took {}", duration(start.elapsed())));
        let reply = reply?;
        match std::str::from_utf8(reply.as_bytes()) {
            Ok(result) => Ok(result.to_owned()),
            Err(_) => Err(Failure::new(Exit::Server, "invalid-answer", "the server's answer is not UTF-8")),
        }
    }

    /// All items of a list, every page, until `enough` says that one is the last that is needed.
    pub(super) fn list(
        &mut self,
        catalogue: &Catalogue,
        mut enough: impl FnMut(&RawValue) -> bool,
    ) -> Result<Vec<Box<RawValue>>, Failure> {
        let method = catalogue.method;
        let endless =
            || Failure::new(Exit::Server, "invalid-answer", format!("the server's {method} never ends"));
        let mut items = Vec::new();
        let (mut size, mut seen) = (0, HashSet::new());
        let mut params = String::new();
        for _ in 0..MAX_PAGES {
            let answer = self.call(method, &params)?;
            size += answer.len();
            if size > MAX_LIST {
                return Err(endless());
            }
            let page = Page::read(answer.as_bytes(), catalogue.member)?;
            for item in page.items {
                let last = enough(&item);
                items.push(item);
                if last {
                    return Ok(items);
                }
            }
            // Any string is a cursor, an empty one too (specification, server/utilities/pagination). One that came
            // before leads round in a circle.
            let Some(next) = page.next_cursor else { return Ok(items) };
            params = json!({"cursor": next}).to_string();
            if !seen.insert(next) {
                break;
            }
        }
        Err(endless())
    }
}
