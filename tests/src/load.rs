//! A load benchmark for what stands between a client and a server of MCP, and the parts of it: a client that checks every
//! answer, a server that costs next to nothing, and a hop that does as little as a hop can.
//!
//! The binary is `drowse-load`; [`HELP`] says how to use it. Contenders take turns, so that a machine whose speed drifts
//! does not decide between them, and what is reported are medians.

// A fixture and a measuring instrument: positions come from its own searches.
#![expect(clippy::indexing_slicing, reason = "a slip here is a failed measurement")]

pub mod bench;
pub mod calls;
pub mod client;
pub mod door;
pub mod http;
pub mod lines;
pub mod measure;
pub mod peek;
pub mod relay;
pub mod server;

use std::net::TcpListener;
use std::process::ExitCode;

use bench::{Contender, Plan};
use calls::Era;
use client::Phase;
use server::Eras;

/// How to use it.
pub const HELP: &str = "\
drowse-load: what a proxy costs, and whether it loses anything

  drowse-load bench [options] [--proxy NAME=COMMAND]... [--front NAME=URL=COMMAND]...
      Takes turns with: `direct` (no proxy), `relay` (a hop that only rewrites ids), and each COMMAND, to which the
      words of the fixture server are added. A --front is spoken to at URL, which COMMAND serves; its floors are
      `direct-http` (the fixture server over HTTP) and `relay-http` (the same hop from HTTP to standard streams).
        drowse-load bench --proxy 'drowse=drowse dev --'
        drowse-load bench --front 'drowse=http://127.0.0.1:9940/mcp=drowse dev --http 9940 --'
      --rounds N          how often each takes its turn (5)
      --era E             of the client: legacy (2025-11-25) or modern (2026-07-28); default legacy
      --server-era E      of the server: legacy, modern or both; default that of the client
      --phase A:B:C[:S]   A calls at once of B bytes each, C in all; S: `client` or `server` stops reading now and then.
                          Repeatable; default 1:100:3000 64:100:40000 16:100000:600
      --no-floors         without those, which translate nothing: between the eras they are left out anyway
      --memory            and what each keeps: idle, many of them, after 100,000 calls, at and after 10 MiB
      --json              one document instead of a table
      Fails if an answer was lost, came twice or belonged to another call. Build it with --release.

  drowse-load server [--era E] [--http PORT]
      The fixture server on its standard streams, or at http://127.0.0.1:PORT/mcp. Tools: echo (text), big (size),
      stall (ms).

  drowse-load relay [--http PORT] COMMAND...
      The hop, from its standard streams or from http://127.0.0.1:PORT/mcp.

What the columns mean: `start` is from the proxy's start to the answer to its first tools/list; p50 and p99 are of single
calls, and `added` what the p50 is above that of `direct`, or of `direct-http`, in the same rounds; `cpu` is the processor
time of the proxy for each call, its server not counted. On a machine that does other things
too, trust the ratio to the relay and `cpu` before the rest.
";

/// What the binary does.
pub fn main(arguments: impl Iterator<Item = String>) -> ExitCode {
    let words: Vec<String> = arguments.collect();
    let done = match words.first().map(String::as_str) {
        Some("bench") => plan(&words[1..]).and_then(|(plan, json)| {
            let report = bench::run(&plan, |line| eprintln!("{line}")).map_err(|error| error.to_string())?;
            println!("{}", if json { report.json().to_string() } else { report.table() });
            if report.is_clean() { Ok(()) } else { Err("an answer was not what it should be".to_owned()) }
        }),
        Some("server") => serve(&words[1..]),
        Some("relay") => hop(&words[1..]),
        Some("--help" | "-h" | "help") => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err("say `bench`, `server` or `relay`; --help tells more".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("drowse-load: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn serve(words: &[String]) -> Result<(), String> {
    let (mut eras, mut port) = (Eras::Both, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--era" => eras = Eras::from_name(value).ok_or("an era is legacy, modern or both")?,
            "--http" => port = Some(value.parse::<u16>().map_err(|_| "a port is a number")?),
            _ => return Err(format!("there is no {word}")),
        }
    }
    let served = match port {
        None => server::stdio(eras),
        Some(port) => {
            TcpListener::bind(("127.0.0.1", port)).and_then(|listener| server::http(eras, listener))
        }
    };
    served.map_err(|error| error.to_string())
}

fn hop(words: &[String]) -> Result<(), String> {
    let done = match words {
        [option, port, command @ ..] if option == "--http" => {
            let port = port.parse::<u16>().map_err(|_| "a port is a number")?;
            TcpListener::bind(("127.0.0.1", port)).and_then(|listener| relay::http(listener, command))
        }
        _ => relay::run(words),
    };
    done.map_err(|error| error.to_string())
}

fn plan(words: &[String]) -> Result<(Plan, bool), String> {
    let mut plan = Plan { rounds: 5, era: Era::Legacy, ..Plan::default() };
    let (mut json, mut floors, mut server) = (false, true, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--memory" => plan.memory = true,
            "--json" => json = true,
            "--no-floors" => floors = false,
            "--rounds" | "--era" | "--server-era" | "--phase" | "--proxy" | "--front" => {
                let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
                let bad = || format!("{word} {value}: --help says what it takes");
                match word.as_str() {
                    "--rounds" => {
                        plan.rounds = value.parse().ok().filter(|rounds| *rounds > 0).ok_or_else(bad)?
                    }
                    "--era" => {
                        plan.era = match value.as_str() {
                            "legacy" => Era::Legacy,
                            "modern" => Era::Modern,
                            _ => return Err(bad()),
                        }
                    }
                    "--server-era" => server = Some(Eras::from_name(value).ok_or_else(bad)?),
                    "--phase" => plan.phases.push(Phase::from_text(value).ok_or_else(bad)?),
                    "--proxy" => {
                        let (name, command) = value.split_once('=').ok_or_else(bad)?;
                        plan.contenders.push(Contender::new(name, None, command));
                    }
                    _ => {
                        let (name, rest) = value.split_once('=').ok_or_else(bad)?;
                        let (url, command) = rest.split_once('=').ok_or_else(bad)?;
                        plan.contenders.push(Contender::new(name, Some(url), command));
                    }
                }
            }
            _ => return Err(format!("there is no {word}; --help says what there is")),
        }
    }
    plan.server = server.unwrap_or(match plan.era {
        Era::Legacy => Eras::Legacy,
        Era::Modern => Eras::Modern,
    });
    if plan.phases.is_empty() {
        plan.phases = ["1:100:3000", "64:100:40000", "16:100000:600"]
            .into_iter()
            .filter_map(Phase::from_text)
            .collect();
    }
    // They translate nothing.
    let serves = match plan.era {
        Era::Legacy => plan.server != Eras::Modern,
        Era::Modern => plan.server != Eras::Legacy,
    };
    if floors && serves {
        let (fronts, proxies): (Vec<_>, Vec<_>) = plan.contenders.iter().partition(|one| one.url.is_some());
        let mut floors = Vec::new();
        if !proxies.is_empty() || fronts.is_empty() {
            floors.extend(bench::floors().map_err(|error| error.to_string())?);
        }
        if !fronts.is_empty() {
            floors.extend(bench::http_floors().map_err(|error| error.to_string())?);
        }
        plan.contenders.splice(0..0, floors);
    }
    Ok((plan, json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_the_eras_there_is_nothing_to_compare_with() {
        let names = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let (plan, _) = plan(&words).unwrap();
            plan.contenders.into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(names("--proxy x=x"), ["direct", "relay", "x"]);
        assert_eq!(names("--proxy x=x --era modern --server-era both"), ["direct", "relay", "x"]);
        assert_eq!(names("--proxy x=x --no-floors"), ["x"]);
        for pair in ["--era legacy --server-era modern", "--era modern --server-era legacy"] {
            assert_eq!(names(&format!("--proxy x=x {pair}")), ["x"], "{pair}");
        }
    }
}
