//! A slice of the load benchmark, untimed: nothing is lost, answered twice or mixed up, on each pair of eras, also while
//! the client or the server stalls.

use drowse_tests::load::bench::{Contender, Plan, http_floors_of, run_with};
use drowse_tests::load::calls::Era;
use drowse_tests::load::client::{Peer, Phase};
use drowse_tests::load::server::Eras;

fn phases(of: &[&str]) -> Vec<Phase> {
    of.iter().map(|text| Phase::from_text(text).unwrap()).collect()
}

fn run(command: &str, era: Era, server: Eras, of: &[&str]) {
    run_all(vec![Contender::new("it", None, command)], era, server, of);
}

fn run_all(contenders: Vec<Contender>, era: Era, server: Eras, of: &[&str]) {
    let plan = Plan { contenders, era, server, phases: phases(of), ..Plan::default() };
    let program = env!("CARGO_BIN_EXE_drowse-load");
    let words = [program, "server", "--era", server.name()].map(str::to_owned);
    let report = run_with(&plan, &words, |_| {}).unwrap();
    assert!(report.is_clean(), "{}", report.table());
    let each = plan.phases.iter().map(|phase| phase.count).sum::<usize>();
    assert_eq!(report.calls(), each * plan.contenders.len());
}

const FEW: [&str; 5] =
    ["1:100:200", "64:100:4000", "16:100000:60", "64:20000:600:client", "64:20000:600:server"];

#[test]
fn without_a_proxy() {
    for (era, server) in [(Era::Legacy, Eras::Legacy), (Era::Modern, Eras::Modern)] {
        run("", era, server, &FEW);
    }
}

#[test]
fn through_the_relay() {
    run(concat!(env!("CARGO_BIN_EXE_drowse-load"), " relay"), Era::Legacy, Eras::Legacy, &FEW);
}

#[test]
fn through_the_dev_proxy() {
    let drowse = drowse_tests::harness::drowse();
    let command = format!("{} dev --", drowse.display());
    for (era, server) in [
        (Era::Legacy, Eras::Legacy),
        (Era::Legacy, Eras::Modern),
        (Era::Modern, Eras::Legacy),
        (Era::Modern, Eras::Modern),
    ] {
        run(&command, era, server, &FEW);
    }
}

#[test]
fn the_http_front_and_its_floors() {
    let program = env!("CARGO_BIN_EXE_drowse-load");
    let drowse = drowse_tests::harness::drowse();
    for (era, server) in [(Era::Legacy, Eras::Legacy), (Era::Modern, Eras::Modern)] {
        let [direct, relay] = http_floors_of(program).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let command = format!("{} dev --http {port} --", drowse.display());
        let front = Contender::new("it", Some(&format!("http://127.0.0.1:{port}/mcp")), &command);
        run_all(vec![direct, relay, front], era, server, &["1:100:200", "64:100:4032", "16:100000:64"]);
    }
}

/// As by a test that fails half-way.
#[test]
fn a_peer_that_is_dropped_leaves_no_process() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let words = [env!("CARGO_BIN_EXE_drowse-load"), "server", "--http", &port.to_string()].map(str::to_owned);
    let url = format!("http://127.0.0.1:{port}/mcp");
    let peer = Peer::start(&words, &[], Some(&url), Era::Modern).unwrap();
    drop(peer);
    let listens = std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(!listens, "it still serves");
}
