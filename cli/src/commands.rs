//! The commands, one module a group. Each turns checked arguments into calls of the runtime and a result on stdout.

mod bulk;
mod cached;
mod catalogue;
mod complete;
mod connect;
mod demo;
mod dev;
mod doctor;
mod grep;
mod import;
mod life;
mod logging;
mod logs;
mod man;
mod once;
mod operations;
mod processes;
mod prompts;
mod resources;
mod serve;
mod sessions;
mod settings;
mod shell;
mod subscribe;
mod sync;
mod tasks;
mod tools;
mod top;

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drowse_runtime::caller::{Sessions, Wait};
use drowse_runtime::home::SessionName;
use signal_hook::consts::SIGXFSZ;

use crate::answers::Elicit;
use crate::args::{Command, Globals};
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::render::content::Rendered;

/// How a command that printed its result ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    /// The result is out, and it says that something went wrong.
    Bad(Exit),
}

pub(crate) use once::{GUARD_COMMAND, guard};

/// What every command works with.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) output: Output,
    pub(crate) timeout: Option<Duration>,
    /// Answers to a server's questions.
    pub(crate) elicit: Option<Elicit>,
    /// Lists and the like come from the session's snapshot.
    pub(crate) cached: bool,
    /// Where the command has a server of its own: instead of the user's sessions.
    alone: Option<once::Alone>,
}

impl Context {
    /// The sessions that the command is about.
    fn sessions(&self) -> Result<Sessions, Failure> {
        self.alone.as_ref().map_or_else(open, |alone| Ok(alone.sessions.clone()))
    }

    /// Catches Ctrl-C; where that is not possible, it ends the process as ever.
    fn interrupt(&self) -> Option<Rc<Interrupt>> {
        match &self.alone {
            Some(alone) => Some(Rc::clone(&alone.interrupt)),
            None => Interrupt::catch().ok().map(Rc::new),
        }
    }

    /// The server, as the subject of a sentence.
    fn who(&self, session: &SessionName) -> String {
        if self.alone.is_some() { "the server".to_owned() } else { session.to_string() }
    }

    /// A command line that does something else with the same server.
    fn line(&self, session: &SessionName, words: &str) -> String {
        match &self.alone {
            Some(alone) => format!("drowse {words} {}", alone.typed),
            None => format!("drowse {session} {words}"),
        }
    }

    /// A wait that ends with `--timeout`, if given, or when the user interrupts.
    fn wait<'a>(&self, interrupt: Option<&'a Interrupt>) -> Wait<'a> {
        Wait {
            deadline: self.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            interrupt: interrupt.map(Interrupt::fd),
        }
    }
}

/// Does what the command line asked for.
pub(crate) fn run(command: Command, globals: &Globals) -> Result<Status, Failure> {
    // A limit on the size of files is an error to report, not a death by signal. Programs that are started have the
    // default again.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let context = Context {
        output: Output::new(globals),
        timeout: globals.timeout,
        elicit: globals.elicit.clone(),
        cached: globals.cached,
        alone: None,
    };
    match command {
        Command::Once { server, command } => once::run(context, *server, *command),
        command => carry_out(command, &context),
    }
}

fn carry_out(command: Command, context: &Context) -> Result<Status, Failure> {
    match command {
        Command::ToolsCall { session, tool, given, check, task } => {
            tools::call(context, &session, &tool, &given, check, task)
        }
        Command::SetLevel { session, level } => logging::set_level(context, &session, level),
        Command::Tasks { session, what } => tasks::run(context, &session, &what),
        Command::ToolsList { session, full } => tools::list(context, &session, full),
        Command::ToolsGet { session, tool, expected } => {
            tools::get(context, &session, &tool, expected.as_ref())
        }
        Command::ToolHelp { session, tool } => tools::help(context, &session, &tool),
        Command::ResourcesList { session } => resources::list(context, &session),
        Command::ResourcesRead { session, uri, output } => {
            resources::read(context, &session, &uri, output.as_deref())
        }
        Command::TemplatesList { session } => resources::templates(context, &session),
        Command::PromptsList { session } => prompts::list(context, &session),
        Command::PromptsGet { session, prompt, given } => prompts::get(context, &session, &prompt, &given),
        Command::Complete { session, asked } => complete::complete(context, &session, &asked),
        Command::ResourcesSubscribe { session, uri, sync: None } => {
            subscribe::subscribe(context, &session, &uri)
        }
        Command::ResourcesSubscribe { session, uri, sync: Some(file) } => {
            sync::sync(context, &session, uri, &file)
        }
        Command::ResourcesUnsubscribe { session, uri } => sync::unsync(context, &session, &uri),
        Command::Ping { session } => sessions::ping(context, &session),
        Command::List => sessions::list(context),
        Command::Info { session } => sessions::info(context, &session),
        Command::Connect(wanted) => connect::connect(context, *wanted),
        Command::Restart { session } => connect::restart(context, &session),
        Command::Set { session, changes, share } => settings::set(context, &session, &changes, &share),
        Command::Config(what) => settings::config(context, &what),
        Command::Close { session } => sessions::close(context, &session),
        Command::Clean { all } => sessions::clean(context, all),
        Command::Grep(wanted) => grep::grep(context, &wanted),
        Command::Logs { session, lines, follow } => logs::logs(context, &session, lines, follow),
        Command::Import { files, yes } => import::import(context, &files, yes),
        Command::Shell { session } => shell::shell(context, session),
        Command::Ps { session } => processes::ps(context, session.as_ref()),
        Command::Top { once } => top::top(context, once),
        Command::Doctor { dry_run } => doctor::doctor(context, dry_run),
        Command::Stats { session } => life::stats(context, session.as_ref()),
        Command::Timeline { session, since, output } => {
            life::timeline(context, &session, since, output.as_deref())
        }
        Command::Dev(wanted) => dev::dev(context, *wanted),
        Command::Demo => demo::demo(context),
        Command::DemoServer => serve::demo_server(),
        Command::Completions(shell) => context.output.verbatim(shell.script()).map(|()| Status::Done),
        Command::Man { verb, directory } => man::man(context, verb, directory.as_deref()),
        // Never within another.
        Command::Once { .. } => Err(Failure::usage("two servers for one command")),
        Command::Show(text) => context.output.layout(&text).map(|()| Status::Done),
    }
}

/// The sessions of this user.
/// All commands of a user's shells are one to the bridge: who answers a server's question need not be the process whose
/// call it came from.
const PRINCIPAL: &str = "cli";

fn open() -> Result<Sessions, Failure> {
    Ok(Sessions::open()?.with_principal(PRINCIPAL))
}

/// Says which records were damaged and are written anew.
fn tell_of_rebuilt(context: &Context, sessions: &Sessions) {
    for rebuilt in sessions.take_rebuilt() {
        let aside = rebuilt.aside.display();
        context.output.remark(
            "record-rebuilt",
            format_args!(
                "{}: its state.json was damaged; it is kept as {aside}, and written anew",
                rebuilt.session
            ),
        );
    }
}

/// Prints the result of a tool or a prompt, or saves its content to `output`.
fn present(
    context: &Context,
    answer: &str,
    output: Option<&Path>,
    render: impl FnOnce() -> Result<Rendered, Failure>,
) -> Result<(), Failure> {
    let to = &context.output;
    if to.json && output.is_none() {
        return to.document(answer);
    }
    let rendered = render()?;
    match output {
        Some(path) => {
            for line in rendered.save(path)? {
                to.notice(line);
            }
        }
        None if !rendered.parts.is_empty() => to.notice("↳ save binary content with -o <file>"),
        None => {}
    }
    if to.json {
        to.document(answer)
    } else if output.is_none() || !rendered.parts.is_empty() {
        to.text(&rendered.text)
    } else {
        Ok(())
    }
}
