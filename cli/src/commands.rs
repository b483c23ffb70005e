//! The commands, one module a group. Each turns checked arguments into calls of the runtime and a result on stdout.

mod bulk;
mod connect;
mod demo;
mod logs;
mod operations;
mod resources;
mod serve;
mod sessions;
mod tasks;
mod tools;

use std::sync::Arc;
use std::time::{Duration, Instant};

use drowse_runtime::caller::{Sessions, Wait};
use signal_hook::consts::SIGXFSZ;

use crate::answers::Elicit;
use crate::args::{Command, Globals};
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::Output;

/// How a command that printed its result ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    /// The result is out, and it says that something went wrong.
    Bad(Exit),
}

/// What every command works with.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) output: Output,
    pub(crate) timeout: Option<Duration>,
    /// Answers to a server's questions.
    pub(crate) elicit: Option<Elicit>,
}

impl Context {
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
    let context =
        &Context { output: Output::new(globals), timeout: globals.timeout, elicit: globals.elicit.clone() };
    match command {
        Command::ToolsCall { session, tool, words, output, task } => {
            tools::call(context, &session, &tool, &words, output.as_deref(), task)
        }
        Command::Tasks { session, what } => tasks::run(context, &session, &what),
        Command::ToolsList { session, full } => tools::list(context, &session, full),
        Command::ToolsGet { session, tool } => tools::get(context, &session, &tool),
        Command::ToolHelp { session, tool } => tools::help(context, &session, &tool),
        Command::ResourcesList { session } => resources::list(context, &session),
        Command::ResourcesRead { session, uri, output } => {
            resources::read(context, &session, &uri, output.as_deref())
        }
        Command::Ping { session } => sessions::ping(context, &session),
        Command::List => sessions::list(context),
        Command::Info { session } => sessions::info(context, &session),
        Command::Connect(wanted) => connect::connect(context, *wanted),
        Command::Restart { session } => connect::restart(context, &session),
        Command::Close { session } => sessions::close(context, &session),
        Command::Clean { all } => sessions::clean(context, all),
        Command::Logs { session, lines, follow } => logs::logs(context, &session, lines, follow),
        Command::Demo => demo::demo(context),
        Command::DemoServer => serve::demo_server(),
        Command::Show(text) => context.output.layout(&text).map(|()| Status::Done),
    }
}

/// The sessions of this user.
/// All commands of a user's shells are one to the bridge: who answers a server's question need not be the process whose
/// call it came from.
const PRINCIPAL: &str = "cli";

fn open() -> Result<Sessions, Failure> {
    // A limit on the size of files is an error to report, not a death by signal. Programs that are started have the
    // default again.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    Ok(Sessions::open()?.with_principal(PRINCIPAL))
}

/// Catches Ctrl-C; where that is not possible, it ends the process as ever.
fn interrupt() -> Option<Interrupt> {
    Interrupt::catch().ok()
}
