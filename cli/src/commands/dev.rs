//! `dev`: a client's stable connection to a server that is being written.

use std::env;

use drowse_runtime::dev::{self, DevError, Ended, Http, Options};
use drowse_runtime::home::Home;
use drowse_runtime::serve;
use serde_json::json;

use super::connect::working_directory;
use super::{Context, Status};
use crate::args::{Dev, Variable};
use crate::error::{Exit, Failure};

/// What a request may take, unless `--timeout` says otherwise.
const TIMEOUT_SECS: u64 = 300;

/// `dev`. Standard output is the client's.
pub(super) fn dev(context: &Context, wanted: Dev) -> Result<Status, Failure> {
    let seconds = context.timeout.map_or(TIMEOUT_SECS, |timeout| timeout.as_secs());
    let http = wanted.http.map(|http| Http {
        address: http.address,
        options: serve::Options {
            hosts: http.hosts,
            origins: http.origins,
            token: http.token,
            limits: http.limits,
            pace: http.pace,
            path: http.path.unwrap_or_else(|| serve::Options::default().path),
            ..serve::Options::default()
        },
    });
    let options = Options {
        command: wanted.program,
        args: wanted.args,
        home: Home::from_env().ok(),
        cwd: working_directory()?,
        environment: environment(),
        env: wanted.env.into_iter().map(variable).collect::<Result<_, _>>()?,
        build: wanted.build,
        build_limit: wanted.build_limit,
        watch: wanted.watch,
        drain: wanted.drain,
        discovery_wait: wanted.discovery_wait,
        replay_safe: wanted.replay_safe,
        pin: wanted.pin,
        roots: wanted.roots,
        sampling: wanted.sampling,
        backend_url: wanted.backend_url,
        http,
        timeout: drowse_core::time::Duration::from_secs(seconds),
    };
    let path = options.http.as_ref().map_or_else(String::new, |http| http.options.path.clone());
    let output = context.output;
    let listening = move |address| {
        let url = format!("http://{address}{path}");
        // Whoever started it and does not read where it listens knows.
        let _ = match output.json {
            true => output.document(&json!({"url": url}).to_string()),
            false => output.layout(&format!("{url}\n")),
        };
    };
    let ended = dev::run(options, listening).map_err(|error| match error {
        DevError::Usage(message) => Failure::usage(message),
        DevError::Io(_) => Failure::new(Exit::Network, "storage", error.to_string()),
    })?;
    Ok(match ended {
        Ended::BySignal(signal) if signal == signal_hook::consts::SIGINT => Status::Bad(Exit::Interrupted),
        Ended::ByClient | Ended::BySignal(_) => Status::Done,
    })
}

/// Ours: what a server that is being written gets is up to whoever runs it.
fn environment() -> Vec<(String, String)> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn variable(variable: Variable) -> Result<(String, String), Failure> {
    match variable {
        Variable::Set(name, value) => Ok((name, value)),
        Variable::Pinned(name) => match env::var(&name) {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(Failure::usage(format!("--env {name}: your environment has no such variable"))
                .with_hint(format!("--env {name}=VALUE"))),
        },
    }
}
