//! `demo`: the whole life of a session, on the built-in server, in a home of its own.
//!
//! Everything shown is real: a session, its bridge, a server process that ends when it falls asleep and another one
//! that wakes. Owns its temporary home, and leaves nothing of it, also when it is interrupted.

use std::env;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use drowse_runtime::caller::{
    CallError, Caller, Environment, Request, Sessions, Wait, Wanted, WantedShare, WantedTarget,
};
use drowse_runtime::home::{Home, SessionName};
use drowse_runtime::process::ProcessIdentity;
use drowse_runtime::record::{Settings, State};
use drowse_runtime::wait::Woken;
use drowse_runtime::wire::Ran;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Context, Status};
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{self, Style, paint};
use crate::result::{self, Page};
use crate::text::duration;

/// The idle time of the session. Short, but long enough to see that nothing happens before.
const IDLE: Duration = Duration::from_secs(2);
/// How long falling asleep may take beyond that before the demo says that it does not work.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often the state is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(10);

/// `demo`.
pub(super) fn demo(context: &Context) -> Result<Status, Failure> {
    let interrupt = Interrupt::catch_all()
        .map_err(|error| Failure::new(Exit::Network, "storage", format!("cannot catch Ctrl-C: {error}")))?;
    let demo = Demo::new(context, &interrupt)?;
    let outcome = demo.run();
    // Always, and before anything is said: whatever happened, nothing is left.
    let cleaned = demo.clean_up();
    let report = outcome?;
    cleaned?;
    if context.output.json {
        context.output.document(&report.to_string())?;
    } else {
        demo_says(context, &format!("\n{} Nothing of it is left.", paint(Style::Green, "Done.")))?;
    }
    Ok(Status::Done)
}

struct Demo<'a> {
    context: &'a Context,
    interrupt: &'a Interrupt,
    directory: TempDir,
    sessions: Sessions,
    name: SessionName,
    program: String,
}

impl<'a> Demo<'a> {
    fn new(context: &'a Context, interrupt: &'a Interrupt) -> Result<Self, Failure> {
        let broken = |what: &str, error: std::io::Error| {
            Failure::new(Exit::Network, "storage", format!("cannot {what}: {error}"))
        };
        let program = env::current_exe().map_err(|error| broken("find the drowse program", error))?;
        let program = program.into_os_string().into_string().map_err(|program| {
            Failure::usage(format!("the path of drowse is not UTF-8: {}", PathBuf::from(program).display()))
        })?;
        let directory = tempfile::Builder::new()
            .prefix("drowse-demo-")
            .tempdir()
            .map_err(|error| broken("make a temporary directory", error))?;
        let sessions = Sessions::at(Home::new(directory.path().join("home"), None));
        let name = SessionName::new("demo").map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Self { context, interrupt, directory, sessions, name, program })
    }

    fn run(&self) -> Result<Value, Failure> {
        let idle = IDLE.as_secs();
        self.step("Connect: a session on the server that is built into drowse")?;
        self.typed(&format!("connect @demo --idle-timeout {idle} -- drowse demo-server"))?;
        let start = Instant::now();
        self.sessions.connect(&self.wanted(), self.wait())?;
        let connect = start.elapsed();
        let mut caller = self.sessions.caller(&self.name, self.wait());
        let first = whoami(&mut caller)?;
        self.answer(&format!("connected; the server is process {}", first.pid), connect)?;

        self.step("Use it")?;
        self.typed("@demo tools-list")?;
        let start = Instant::now();
        let page = Page::read(call(&mut caller, "tools/list", "")?.as_bytes(), "tools")?;
        let list = start.elapsed();
        let names: Vec<String> = page.items.iter().filter_map(|tool| tool_name(tool.get())).collect();
        self.answer(&names.join(", "), list)?;

        self.typed("@demo tools-call add a:=2 b:=40")?;
        let start = Instant::now();
        let sum = call(&mut caller, "tools/call", r#"{"name":"add","arguments":{"a":2,"b":40}}"#)?;
        let used_for = start.elapsed();
        let sum: Value = result::read(sum.as_bytes())?;
        self.answer(&sum["structuredContent"]["sum"].to_string(), used_for)?;

        self.step(&format!("Leave it alone for {}, and it falls asleep", duration(IDLE)))?;
        // The period counts from the call's end, which the bridge sees a little before we do.
        let asleep = self.wait_for_sleep(start, &first)?;
        self.answer(&format!("asleep; process {} is gone, the session is still there", first.pid), asleep)?;

        self.step("The next call wakes it")?;
        self.typed("@demo tools-call echo text=\"good morning\"")?;
        let start = Instant::now();
        let echo = call(&mut caller, "tools/call", r#"{"name":"echo","arguments":{"text":"good morning"}}"#)?;
        let wake = start.elapsed();
        let echo: Value = result::read(echo.as_bytes())?;
        let second = whoami(&mut caller)?;
        if second == first || first.is_alive() || !second.is_alive() {
            return Err(broken(format!("expected process {} gone and another one awake", first.pid)));
        }
        let said = echo["content"][0]["text"].as_str().unwrap_or_default();
        self.answer(&format!("{said}; the server is now process {}", second.pid), wake)?;

        let millis = |span: Duration| (span.as_secs_f64() * 1e6).round() / 1e3;
        Ok(json!({
            "success": true,
            "connectMs": millis(connect), "toolsListMs": millis(list), "toolsCallMs": millis(used_for),
            "asleepAfterMs": millis(asleep), "wakeMs": millis(wake),
            "firstPid": first.pid, "secondPid": second.pid,
        }))
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            name: self.name.clone(),
            target: WantedTarget::Command {
                command: self.program.clone(),
                args: vec!["demo-server".to_owned()],
            },
            settings: Settings { idle_timeout_secs: Some(IDLE.as_secs()), ..Settings::default() },
            pins: Vec::new(),
            headers: Vec::new(),
            cwd: self.directory.path().to_owned(),
            environment: Environment::current(),
            lazy: None,
            share: WantedShare::default(),
        }
    }

    fn wait(&self) -> Wait<'_> {
        Wait { deadline: None, interrupt: Some(self.interrupt.fd()) }
    }

    /// Watches until the session is idle and its server's process gone; how long after `since` that was.
    fn wait_for_sleep(&self, since: Instant, server: &ProcessIdentity) -> Result<Duration, Failure> {
        loop {
            let state = self.sessions.get(&self.name)?.state;
            if state == State::Idle && !server.is_alive() {
                return Ok(since.elapsed());
            }
            if since.elapsed() > IDLE + PATIENCE {
                return Err(broken(format!("@demo is still {state} after {}", duration(since.elapsed()))));
            }
            let look =
                Wait { deadline: Instant::now().checked_add(LOOK), interrupt: Some(self.interrupt.fd()) };
            if look.poll(&[]).is_ok_and(|woken| woken == Woken::Interrupted) {
                return Err(Failure::new(Exit::Interrupted, "interrupted", "interrupted").with_ran(Ran::No));
            }
        }
    }

    /// Ends the session and removes the home. A second Ctrl-C cuts this short.
    fn clean_up(self) -> Result<(), Failure> {
        let left = |path: &Path, error: &dyn Display| {
            Failure::new(Exit::Network, "storage", format!("the demo could not clean up: {error}"))
                .with_hint(format!("left behind: {}", path.display()))
        };
        match self.sessions.close(&self.name, Wait::at_most(PATIENCE)) {
            Ok(()) | Err(CallError::NoSession { .. }) => {}
            // Something may still live there, and its log says why.
            Err(error) => return Err(left(&self.directory.keep(), &error)),
        }
        let path = self.directory.path().to_owned();
        self.directory.close().map_err(|error| left(&path, &error))
    }

    fn step(&self, text: &str) -> Result<(), Failure> {
        self.says(&format!("\n{}", paint(Style::Bold, text)))
    }

    fn typed(&self, line: &str) -> Result<(), Failure> {
        self.says(&paint(Style::Dim, &format!("  $ drowse {line}")))
    }

    fn answer(&self, text: &str, took: Duration) -> Result<(), Failure> {
        self.says(&format!("  {text}  {}", paint(Style::Cyan, &format!("({})", duration(took)))))
    }

    fn says(&self, text: &str) -> Result<(), Failure> {
        demo_says(self.context, text)
    }
}

/// One line of the show. A reader that went away changes nothing of what is tried and cleaned up.
fn demo_says(context: &Context, text: &str) -> Result<(), Failure> {
    if context.output.json {
        return Ok(());
    }
    match context.output.layout(text) {
        Err(failure) if output::is_broken_pipe(&failure) => Ok(()),
        said => said,
    }
}

fn call(caller: &mut Caller<'_>, method: &str, params: &str) -> Result<String, Failure> {
    let reply = caller.call(Request { method, params, timeout: None, progress: None })?;
    Ok(String::from_utf8_lossy(reply.as_bytes()).into_owned())
}

/// The process that answers, from its own mouth, so that it is the server and nothing between.
fn whoami(caller: &mut Caller<'_>) -> Result<ProcessIdentity, Failure> {
    let answer = call(caller, "tools/call", r#"{"name":"whoami","arguments":{}}"#)?;
    let answer: Value = result::read(answer.as_bytes())?;
    let pid = answer["structuredContent"]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    let pid = pid.ok_or_else(|| broken("the server did not say its pid".to_owned()))?;
    ProcessIdentity::of(pid).map_err(|error| broken(format!("the server is not process {pid}: {error}")))
}

fn tool_name(tool: &str) -> Option<String> {
    serde_json::from_str::<Value>(tool).ok()?["name"].as_str().map(str::to_owned)
}

fn broken(what: String) -> Failure {
    Failure::new(Exit::Server, "demo-failed", format!("the demo did not go as it should: {what}"))
}
