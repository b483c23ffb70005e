//! The `drowse` command.
//!
//! Reads top down: raw words, checked arguments, a command, a status. Nothing is set up that the command does not need:
//! a call to an awake session is to cost little more than starting a process.
#![cfg_attr(all(target_os = "linux", target_env = "gnu", not(test)), no_main)]

mod answers;
mod args;
mod arguments;
mod commands;
mod completion;
mod error;
mod grammar;
mod interrupt;
mod layout;
mod media;
mod output;
mod progress;
mod render;
mod result;
mod schema;
mod screen;
mod target;
mod terminal;
mod text;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use drowse_runtime::entry;

use args::Globals;
use commands::Status;
use error::Failure;
use output::Output;

entry!(run);

fn run() -> u8 {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    // The process that owns a session's server: before anything is opened, since it closes what it inherited.
    if words.first().is_some_and(|word| word == "bridge-serve") {
        return status(drowse_runtime::bridge::serve());
    }
    // The process that removes what a command with a server of its own leaves, should it be killed.
    if words.first().is_some_and(|word| word == commands::GUARD_COMMAND) {
        return status(commands::guard(&words));
    }
    // What a shell asks for at each Tab: it wants words or silence.
    if words.first().is_some_and(|word| word == completion::COMMAND) {
        return status(completion::answer(&words));
    }
    let mut globals = Globals::guess(&words);
    let outcome = args::parse(words).and_then(|(command, checked)| {
        globals = checked;
        commands::run(command, &globals)
    });
    match outcome {
        Ok(Status::Done) => 0,
        Ok(Status::Bad(exit)) => exit as u8,
        Err(failure) => fail(&globals, &failure),
    }
}

fn status(code: ExitCode) -> u8 {
    u8::from(code != ExitCode::SUCCESS)
}

fn fail(globals: &Globals, failure: &Failure) -> u8 {
    // `drowse … | head -1`: nobody is left to tell, and nothing is wrong.
    if output::is_broken_pipe(failure) {
        return 0;
    }
    Output::new(globals).failure(failure);
    failure.exit as u8
}
