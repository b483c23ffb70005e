//! What a proxy takes: idle, after a load, for a very long message, and that none of it stays.
//!
//! The limits are of memory, not of time: what is given back is waited for. One copy more of a long message is over them,
//! and so is a process that keeps the code which it once ran.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use drowse_runtime::record::State;
use drowse_tests::harness::{Home, LIMIT, drowse};
use drowse_tests::load::calls::Era;
use drowse_tests::load::client::{Peer, Phase};
use drowse_tests::load::measure;
use drowse_tests::load::server::Eras;

/// What an idle process may take, in KiB. Code that is not optimized is three times as large.
const IDLE: u64 = if cfg!(debug_assertions) { 6 << 10 } else { 5 << 9 };
/// The long message, in KiB.
const LONG: u64 = 10 << 10;

const PAIRS: [(Era, Eras); 4] = [
    (Era::Legacy, Eras::Legacy),
    (Era::Legacy, Eras::Modern),
    (Era::Modern, Eras::Legacy),
    (Era::Modern, Eras::Modern),
];

/// `drowse dev` before the server of the load benchmark, on its standard streams or at a port, with a client that has
/// listed the tools.
fn dev(http: bool, era: Era, server: Eras) -> Peer {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let server = words(&[env!("CARGO_BIN_EXE_drowse-load"), "server", "--era", server.name()]);
    let program = drowse().display().to_string();
    if !http {
        return Peer::start(&words(&[&program, "dev", "--"]), &server, None, era).unwrap();
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/mcp");
    let front = words(&[&program, "dev", "--http", &port.to_string(), "--"]);
    Peer::start(&front, &server, Some(&url), era).unwrap()
}

fn run(peer: &mut Peer, at_once: usize, bytes: usize, count: usize) {
    let measured = peer.run(&Phase { at_once, bytes, count, stall: None }).unwrap();
    assert_eq!(measured.outcome.ok, count, "{:?}", measured.outcome);
}

/// Waits until that is all that the processes take.
#[track_caller]
fn at_most(kib: u64, pids: &[u32]) {
    falls_to(kib, pids, measure::memory);
}

#[track_caller]
fn falls_to(kib: u64, pids: &[u32], measured: fn(&[u32]) -> u64) {
    assert!(!pids.is_empty(), "nobody to look at");
    let until = Instant::now() + LIMIT;
    loop {
        let memory = measured(pids);
        if memory <= kib {
            return;
        }
        assert!(Instant::now() < until, "{memory} KiB, not {kib}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A message of 10 MiB goes there and back. Returns what that took at its highest, in KiB, above what is taken otherwise.
fn long_message(peer: &mut Peer) -> u64 {
    let pids = peer.proxies();
    at_most(IDLE, &pids);
    let before = measure::anonymous(&pids);
    let resident = measure::resident(&pids);
    measure::forget_peak(&pids);
    run(peer, 1, 10 << 20, 1);
    let peak = measure::peak(&pids).saturating_sub(resident);
    // Nothing of it stays, but for what the allocator cannot give back.
    falls_to(before + 512, &pids, measure::anonymous);
    peak
}

#[test]
fn a_long_message_is_kept_once_between_streams() {
    for (era, server) in PAIRS {
        let mut peer = dev(false, era, server);
        let peak = long_message(&mut peer);
        assert!(peak >= LONG, "it was there: {peak} KiB");
        // A call that the server may want to have put again is kept until it is answered.
        let again = u64::from((era, server) == (Era::Legacy, Eras::Modern));
        assert!(peak < (2 + again) * LONG, "{era:?} {server:?}: {peak} KiB");
        peer.end().unwrap();
    }
}

#[test]
fn a_long_message_is_kept_twice_behind_http() {
    for (era, server) in PAIRS {
        let mut peer = dev(true, era, server);
        let peak = long_message(&mut peer);
        // Its code for HTTP is not small, either.
        assert!(peak < 3 * LONG, "{era:?} {server:?}: {peak} KiB");
        peer.end().unwrap();
    }
}

#[test]
fn what_calls_need_is_given_back_and_none_of_them_leaves_anything() {
    for http in [false, true] {
        for (era, server) in PAIRS {
            let mut peer = dev(http, era, server);
            let pids = peer.proxies();
            at_most(IDLE, &pids);
            run(&mut peer, 64, 100, 6_400);
            at_most(IDLE, &pids);
            let before = measure::anonymous(&pids);
            run(&mut peer, 16, 100, 16_000);
            // 16 bytes of each would be more.
            falls_to(before + 192, &pids, measure::anonymous);
            peer.end().unwrap();
        }
    }
}

#[test]
fn a_bridge_that_shares_a_session_takes_little_awake_and_asleep() {
    let home = Home::new();
    let session = home.connect("@s", &["--proxy", "0", "--idle-timeout", "1"], &[]);
    at_most(IDLE, &[session.state().unwrap().bridge.unwrap().pid]);
    let asleep = session.wait_until(|state| state.ended && state.state == State::Idle);
    at_most(IDLE, &[asleep.bridge.unwrap().pid]);
    session.call("echo", &["text=x"]).ok();
    at_most(IDLE, &[session.state().unwrap().bridge.unwrap().pid]);
}

#[test]
fn who_has_only_said_hello_costs_no_more() {
    let mut client = Command::new(drowse())
        .args(["dev", "--", env!("CARGO_BIN_EXE_drowse-load"), "server"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // What only the start needed is given back, though nobody says anything.
    at_most(IDLE, &[client.id()]);
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let mut input = client.stdin.take().unwrap();
    writeln!(input, "{hello}").unwrap();
    let mut line = String::new();
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("serverInfo"), "{line}");
    at_most(IDLE, &[client.id()]);
    drop(input);
    assert!(client.wait().unwrap().success());
}
