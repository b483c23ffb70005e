//! The fixture server: a small MCP server of either era that can be told to misbehave, for end-to-end tests.
//!
//! It is written apart from the server that is built into drowse, so that the two can be told from one another
//! when a test fails; it shares no code with it. It is not a model of a good server: it keeps a thread per
//! slow request and trusts its input. What it does well is to keep a [`journal`], from which a test counts
//! processes and executions.
//!
//! The binary is `drowse-fixture`; [`options`] lists its flags, [`tools`] what it can be asked to do. With `--http` it
//! serves the same over [`http`], where there is more to misbehave with.

pub mod annotated;
mod asking;
mod channel;
pub mod hostile;
pub mod http;
mod interview;
pub mod journal;
mod logging;
pub mod options;
mod output;
mod process;
mod server;
pub mod tasks;
pub mod tools;
mod wire;
mod world;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use options::{Options, Role};

/// What the binary does. Returns only when the arguments make no sense; otherwise the process exits within.
pub fn main(arguments: impl Iterator<Item = String>) -> ExitCode {
    let arguments: Vec<String> = arguments.collect();
    let options = match Options::parse(&arguments) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("drowse-fixture: {problem}");
            return ExitCode::from(2);
        }
    };
    if options.role == Role::Sleeper {
        process::sleep_in_another_session(&options);
    }
    process::prepare_signals(&options);
    options.record("start", |fields| process::describe_start(&options, fields));
    if options.grandchild_setsid && options.role == Role::Server {
        process::leave_sleeper(&arguments);
    }
    if options.fork_and_exit && options.role == Role::Server {
        process::hand_over(&arguments, &options);
    }
    process::write_stderr(&options);
    thread::sleep(Duration::from_millis(options.start_delay_ms));
    if options.http.is_some() { http::run(options) } else { server::run(options) }
}
