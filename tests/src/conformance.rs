//! The public MCP conformance suite (npm, `@modelcontextprotocol/conformance`) against the real `drowse` binary.
//!
//! In one half of it the suite plays the server: for each [scenario](scenarios) it starts a mock, runs a client with the mock's URL, and
//! notes what it saw as checks. The [`client`] is this package's program, which runs nothing but `drowse` commands in a
//! home of its own; the [`suite`] module runs the scenarios one by one and judges them, harder than the suite does.
//!
//! `.ci/conformance` installs the suite and runs all of it. To look at one scenario by hand, start the suite without a
//! client (`conformance client --scenario sse-retry`); it prints the URL and waits.
//!
//! In the other half it plays the client, of a server that is there already: [`servers`] starts drowse with a server
//! behind it ([`subject`]), in every [pairing](servers) of versions, and judges what it must reach by the [`tables`].
//!
//! The suite's scenarios about authorization are not in the table yet; each is one more entry of it, and one more arm
//! of the client's match if it needs other commands than the rest.

pub mod client;
pub mod scenarios;
pub mod servers;
pub mod subject;
pub mod suite;
pub mod tables;

use std::process::ExitCode;

const USAGE: &str = "usage: drowse-conformance client [--pinned] <url>   (run by the suite)
       drowse-conformance suite <index.js> [flags]
  --node PROGRAM   Node.js 22 or newer (default: node)
  --out DIR        where the suite's own results go (default: results)
  --only NAME      only scenarios whose name has this in it; repeatable
  --client WORDS   another client instead of drowse
  --all-must-fail  succeed if every scenario failed for want of checks: the proof that this can fail
       drowse-conformance servers <index.js> <everything-server.mjs> [flags]
  --node, --out, --only   as above
  --pairing NAME   only pairings whose name has this in it, like 2026-on-2025-stdio or http; repeatable
  --direct         the server itself instead of drowse: what the numbers in the table are from
  --constant       what answers everything with the same: succeeds if every scenario failed";

/// What the binary does.
///
/// # Panics
/// If the client fails, which the suite reads from its exit status.
pub fn main(arguments: impl Iterator<Item = String>) -> ExitCode {
    let arguments: Vec<String> = arguments.collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["client", url] => return client::main(url, false),
        ["client", "--pinned", url] => return client::main(url, true),
        ["suite", rest @ ..] => suite::Options::parse(rest).and_then(|options| suite::main(&options)),
        ["servers", rest @ ..] => servers::Options::parse(rest).and_then(|options| servers::main(&options)),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}
