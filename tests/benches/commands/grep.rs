//! `grep` over the snapshots of many sleeping sessions, as whole commands with a warm page cache.

use std::fs;
use std::time::Duration;

use drowse_runtime::home::{Home, SessionName};
use drowse_runtime::record::{StateRecord, read_session, write_state};
use drowse_runtime::snapshot::{self, Header, SCHEMA, Snapshot};
use serde_json::json;
use serde_json::value::RawValue;

use super::{Bench, median, show};

/// What descriptions are made of.
const WORDS: &[&str] = &[
    "the",
    "file",
    "returns",
    "search",
    "query",
    "string",
    "list",
    "of",
    "user",
    "account",
    "when",
    "error",
    "repository",
    "path",
    "value",
    "a",
    "number",
    "optional",
    "default",
    "use",
    "this",
    "tool",
    "to",
    "message",
    "channel",
    "issue",
    "create",
    "update",
    "delete",
    "filter",
    "result",
    "page",
    "cursor",
    "token",
];

impl Bench {
    pub(super) fn grep(&self) {
        for (sessions, size) in [(1000, 4 << 10), (250, 200 << 10), (1000, 200 << 10)] {
            self.with_snapshots(sessions, size);
        }
    }

    fn with_snapshots(&self, sessions: usize, size: usize) {
        self.connect("g0", &["--lazy"]);
        let home = Home::new(self.home.path().to_owned(), None);
        let first = SessionName::new("g0").expect("a name");
        let record = read_session(&home, &first).expect("a record").expect("a session");
        let line = fs::read(home.session_file(&first)).expect("a record");
        let mut total = 0;
        for index in 0..sessions {
            let name = SessionName::new(&format!("g{index}")).expect("a name");
            fs::create_dir_all(home.session(&name)).expect("a directory");
            fs::write(home.session_file(&name), &line).expect("a record");
            write_state(&home, &name, &StateRecord::dormant()).expect("a record");
            let snapshot = snapshot_of(index, size, &record.identity);
            total += snapshot.to_bytes().len();
            snapshot::write(&home, &name, &snapshot).expect("a snapshot");
        }
        print!("grep, {sessions} x {} KB = {} MB  ", size >> 10, total / 1_000_000);
        let mut list: Vec<Duration> = (0..10).map(|_| self.run(&[])).collect();
        print!("list alone {}", show(median(&mut list)));
        for (what, words) in [
            ("rare word", &["grep", "zebrafish"][..]),
            ("no match", &["grep", "heffalump"]),
            ("common start", &["grep", "returnable"]),
            ("regex", &["grep", "-E", r"zebra\w+"]),
            ("no literal", &["grep", "-E", r"\d{7}"]),
            ("first 10 of all", &["grep", "-m", "10", "the"]),
        ] {
            let mut took: Vec<Duration> = (0..15).map(|_| self.search(words)).collect();
            print!("   {what} {}", show(median(&mut took)));
        }
        println!();
        self.run(&["clean", "all"]);
    }
}

fn snapshot_of(seed: usize, size: usize, identity: &str) -> Snapshot {
    let mut state = seed as u64 + 1;
    let mut words = move |count: usize| {
        let mut text = String::new();
        for index in 0..count {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(if index == 0 {
                ""
            } else if index.is_multiple_of(12) {
                ".\n"
            } else {
                " "
            });
            text.push_str(WORDS[(state >> 33) as usize % WORDS.len()]);
        }
        text
    };
    let mut tools = Vec::new();
    let mut length = 0;
    while length < size {
        let properties: serde_json::Map<String, serde_json::Value> = (0..4)
            .map(|n| (format!("{}_{n}", words(1)), json!({"type": "string", "description": words(12)})))
            .collect();
        let rare = if seed.is_multiple_of(100) && tools.len() == 1 { "zebrafish" } else { "" };
        let tool = json!({
            "name": format!("{}_{}", words(1), tools.len()), "description": words(60) + rare,
            "inputSchema": {"type": "object", "properties": properties, "additionalProperties": false},
        });
        let tool = RawValue::from_string(tool.to_string()).expect("JSON");
        length += tool.get().len() + 2;
        tools.push(tool);
    }
    let header = Header {
        schema: SCHEMA,
        identity: identity.to_owned(),
        taken: 1_700_000_000_000,
        generation: 1,
        era: "legacy".into(),
        protocol_version: "2025-11-25".into(),
        server_info: None,
        capabilities: None,
        instructions: Some(words(50)),
        incomplete: Vec::new(),
    };
    Snapshot { header, tools, prompts: Vec::new(), resources: Vec::new(), resource_templates: Vec::new() }
}
