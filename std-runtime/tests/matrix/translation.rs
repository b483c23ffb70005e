//! What becomes of each message between clients and servers of both eras, to the byte: what arrives on the far side, and
//! what the near side is told.
//!
//! A [`Row`] is about one message, and has a transcript for each pair of eras; each is played with a server that is a
//! process and with one behind a URL. The lines of a transcript:
//!
//! - `C> …`: the client sends that, `C< …`: it gets that, and nothing else. `D` is another client.
//! - `S< …`: the server gets that, `S> …`: it says that. Over HTTP an answer goes on the stream of its request, a
//!   notification of a subscription on that of its own, and anything else on that of the last request.
//! - `p< …`, `p> …`, `h< …`, `h> …`: the same of a server that is a process, or behind a URL. `closed` is a request over
//!   HTTP that was broken off.
//! - `p ` or `h ` before a line of another kind: it is one of such a server alone.
//! - `~wait` and seconds; `~again`: the server ends, and another one begins.
//!
//! `<name>` stands for some text that is the same wherever the name stands. `@OLD` are the members of `_meta` that a
//! modern server is told of a legacy client, `@NEW` those that a modern client sends; `<stream>` is the id of the stream
//! that drowse opened before.

mod driver;
mod interactions;
mod questions;
mod requests;
mod server;
mod sessions;

use drowse_core::era::Era;
use drowse_core::front::round::Wanted;
use drowse_core::held::Kind;
use drowse_core::method::Method;
use drowse_core::notification::Notification;

use serde_json::json;

use crate::bridge::{Caller, Peer, Script, Stage, play, sleepy};

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// A request of a client, and its answer.
    Request(Method),
    /// A notification of a client.
    Told(Notification),
    /// A notification of a server.
    Announced(Notification),
    /// A request of a server: in the legacy era by itself, in the modern one in a result.
    Asked(Wanted),
    /// A request of a server that is neither a question nor of tasks.
    ServerRequest(&'static str),
    /// More of something that has a row.
    More,
}

/// A message, and what becomes of it on each pair of eras.
struct Row {
    about: About,
    name: String,
    /// What the clients can be asked for, an object.
    capabilities: &'static str,
    /// What the session says of that, and its roots.
    session: &'static str,
    roots: &'static [&'static str],
    /// A legacy client has not begun.
    fresh: bool,
    /// In the order of [`PAIRS`].
    cells: [String; 4],
}

/// The pairs, client first.
const PAIRS: [(Era, Era); 4] = [
    (Era::Legacy, Era::Legacy),
    (Era::Legacy, Era::Modern),
    (Era::Modern, Era::Legacy),
    (Era::Modern, Era::Modern),
];

const FORM: &str = r#"{"elicitation":{"form":{}}}"#;
const ALL: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}"#;

impl Row {
    fn new(about: About, name: impl Into<String>, cells: [String; 4]) -> Self {
        let name = name.into();
        Self { about, name, capabilities: FORM, session: FORM, roots: &[], fresh: false, cells }
    }

    /// The same becomes of it on every pair.
    fn always(about: About, name: impl Into<String>, cell: &str) -> Self {
        Self::new(about, name, std::array::from_fn(|_| cell.to_owned()))
    }

    /// Clients can be asked for these, and servers are told so.
    fn with(mut self, capabilities: &'static str, session: &'static str) -> Self {
        self.capabilities = capabilities;
        self.session = session;
        self
    }
}

fn rows() -> Vec<Row> {
    let mut rows = requests::rows();
    rows.extend(sessions::rows());
    rows.extend(server::rows());
    rows.extend(questions::rows());
    rows.extend(interactions::rows());
    rows
}

/// Plays every row on a pair.
fn pair(at: usize, remote: bool) {
    let (client, server) = PAIRS[at];
    let peer = match (remote, server) {
        (false, era) => Peer::Process(era),
        (true, Era::Legacy) => Peer::Session,
        (true, Era::Modern) => Peer::Modern,
    };
    let only = std::env::var("ROW").ok();
    let mut failed = 0;
    for row in rows() {
        if only.as_ref().is_some_and(|only| !row.name.contains(only.as_str())) {
            continue;
        }
        if let Err(difference) = driver::play_row(&row, &row.cells[at], client, peer) {
            failed += 1;
            println!("== {} from {client:?} to {peer:?}:\n{difference}\n", row.name);
        }
    }
    assert_eq!(failed, 0, "cells are not as they should be");
}

macro_rules! pairs {
    ($($name:ident: $at:expr, $remote:expr;)+) => {
        $(#[test]
        fn $name() {
            pair($at, $remote);
        })+
    };
}

pairs! {
    legacy_clients_of_legacy_processes: 0, false;
    legacy_clients_of_modern_processes: 1, false;
    modern_clients_of_legacy_processes: 2, false;
    modern_clients_of_modern_processes: 3, false;
    legacy_clients_of_legacy_urls: 0, true;
    legacy_clients_of_modern_urls: 1, true;
    modern_clients_of_legacy_urls: 2, true;
    modern_clients_of_modern_urls: 3, true;
}

#[test]
fn everything_has_a_row_and_every_row_its_cells() {
    let rows = rows();
    let kinds = [Kind::Form, Kind::Url, Kind::Sampling, Kind::SamplingWithTools];
    let asked = kinds.into_iter().map(Wanted::Question).chain([Wanted::Roots]).map(About::Asked);
    let told = Notification::all().map(About::Told);
    let announced = Notification::all().map(About::Announced);
    let requests = Method::all().map(About::Request);
    let others = ["ping", "tasks/", ""].into_iter().map(About::ServerRequest);
    for about in requests.chain(told).chain(announced).chain(asked).chain(others) {
        assert!(rows.iter().any(|row| row.about == about), "no row for {about:?}");
    }
    for row in &rows {
        for (cell, pair) in row.cells.iter().zip(PAIRS) {
            let lines: Vec<&str> = cell.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            assert!(!lines.is_empty(), "{} has nothing for {pair:?}", row.name);
            for line in lines {
                assert!(driver::is_known(line), "{}: {line}", row.name);
            }
        }
    }
    let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "two rows of one name");
}

/// Before any run all that the front can carry is shown, and after one what the server said then, in the client's terms.
#[test]
fn what_is_shown_is_everything_and_then_what_the_last_run_had() {
    for peer in [Peer::Process(Era::Legacy), Peer::Process(Era::Modern), Peer::Session, Peer::Modern] {
        play(async || {
            let stage = Stage::new(Script::of(peer));
            let everything = json!({"tools": {"listChanged": true}, "completions": {}, "logging": {},
                "resources": {"subscribe": true, "listChanged": true}, "prompts": {"listChanged": true}});
            let had =
                json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {}});
            for shown in [everything, had] {
                let starts = stage.starts();
                let hub = stage.proxy(sleepy());
                let (_, mut told) = Caller::legacy(&hub, "2025-11-25", json!({})).await;
                // Which the server itself does not have.
                let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
                let own = told["capabilities"].as_object_mut().unwrap().remove("tasks");
                assert_eq!(own, (starts == 0).then_some(tasks));
                assert_eq!(told["capabilities"], shown);
                let mut modern = Caller::of_proxy(&hub);
                let mut discovered = modern.ask("server/discover", json!({})).await;
                // Which only its era has.
                let tasks = json!({"io.modelcontextprotocol/tasks": {}});
                let extended = peer.era() == Era::Modern || starts == 0;
                let shown_there = &mut discovered["result"]["capabilities"];
                let extensions = shown_there.as_object_mut().unwrap().remove("extensions");
                assert_eq!(extensions, extended.then_some(tasks));
                assert_eq!(*shown_there, shown);
                assert_eq!(stage.starts(), starts);
                if starts == 0 {
                    let _run = stage.bridge(sleepy());
                    stage.saved().await;
                }
            }
        });
    }
}
